"""The page that ``onebit race`` writes: one HTML file that loads nothing from elsewhere."""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from onebit.pages import charts
from onebit.pages.charts import Looks, Point, Series
from onebit.pages.rendering import counted, percent, render

# References that need no learning. Nobody knows them before: the label of most rounds; the label
# that is right most often, and the label that is likeliest to be right in each row.
COMMONEST, BEST_FIXED = "commonest label", "best fixed label"
BEST_OF_EACH = "best label of each row"
KNOWN_AFTERWARDS = (COMMONEST, BEST_FIXED, BEST_OF_EACH)


@dataclass(frozen=True, slots=True)
class Bound:
    """A proved bound on a learner's error, at the check points of its line."""

    paper: str
    comparator: str  # in words; D and L are its numbers in the theorem
    D: float
    L: float
    error: list[float]  # a share of the rounds; vacuous above 1

    @property
    def source(self) -> str:
        return f"{self.paper}; comparator: {self.comparator}, D = {self.D:.0f}, L = {self.L:.0f}"


@dataclass(frozen=True, slots=True)
class Line:
    """One learner on one data set. Errors and shares are between 0 and 1."""

    learner: str
    settings: str
    full_information: bool  # a reference: it knows more than right or wrong
    rounds: list[int]  # check points 1, 2, 5, 10, ...
    error: list[float]  # mean error of the said labels up to each check point
    low: list[float]  # least over the repeats
    high: list[float]  # greatest over the repeats
    greedy_error: float
    explored: float
    updates: float
    error_sd: float | None  # None: a single run
    rounds_per_second: float | None = None  # None: nothing runs
    bound: Bound | None = None

    @property
    def reference(self) -> str:
        """What makes the line a reference; empty for a learner."""
        if not self.full_information:
            return ""
        is_learner = self.learner not in KNOWN_AFTERWARDS
        return "receives the true label" if is_learner else "known when all is over, not before"

    @property
    def final_error(self) -> float:
        return self.error[-1] if self.error and math.isfinite(self.error[-1]) else math.inf


@dataclass(frozen=True, slots=True)
class Panel:
    """One data set with every learner that ran on it."""

    data: str
    about: str
    rounds: int
    repeats: int
    lines: list[Line]
    rows: int | None = None  # of the table that the rounds come from; None: rows are drawn
    scaling: str = ""  # how rows are scaled for every learner; empty: they are taken as they are
    several: bool = False  # whether several labels of a row may be right, or none
    sat_out: Sequence[str] = ()  # learners that need the true label, where there is none

    @property
    def length(self) -> str:
        """The number of rounds, and how often each row of a table comes."""
        rounds = counted(self.rounds, "round")
        if self.rows is None:
            return rounds
        if self.rounds == self.rows:
            return f"{rounds}: each row once"
        if self.rounds < self.rows:
            return f"{rounds}: {self.rounds:,} of {self.rows:,} rows, each once"
        times = self.rounds / self.rows
        often = f"{times:.0f}" if times.is_integer() else f"about {times:.1f}"
        return f"{rounds}: each of {self.rows:,} rows {often} times"

    def shown(self, error: float) -> float:
        """The share to show: of mistakes, or of right labels where every label is often wrong."""
        return 1 - error if self.several else error

    @property
    def is_repeating(self) -> bool:
        """Whether rows come again."""
        return self.rows is not None and self.rounds > self.rows


@dataclass(frozen=True, slots=True)
class Entry:
    """A line with its place and its looks."""

    line: Line
    key: str  # "1" is the best learner; references are not ranked: "R1", "R2", ...
    name: str
    looks: Looks


def race_page(panels: list[Panel], command: str, version: str, settings: dict[str, str]) -> str:
    """The whole page as text."""
    looks = _looks(panels)
    return render(
        "race.html",
        races=[
            _race(panel, _entries(panel, looks), f"race{number}")
            for number, panel in enumerate(panels, 1)
        ],
        shows_right=any(panel.several for panel in panels),
        has_bands=any(panel.repeats > 1 for panel in panels),
        begins_late=any(_first_drawn(panel) > 1 for panel in panels),
        command=command,
        version=version,
        facts=settings,
    )


def _race(panel: Panel, entries: list[Entry], where: str) -> dict[str, Any]:
    """The data of a panel for the template; without any result there are no charts."""
    has_results = any(_points(panel, entry, 1) for entry in entries)
    return {
        "panel": panel,
        "where": where,
        "entries": entries,
        "wrong": "right" if panel.several else "wrong",
        "error": "Right %" if panel.several else "Error %",
        "greedy_error": "Greedy right %" if panel.several else "Greedy error %",
        "learners": [entry for entry in entries if not entry.line.full_information],
        "references": [entry for entry in entries if entry.line.full_information],
        "charts": _charts(panel, entries, where) if has_results else "",
    }


# Ranking and looks

Identity = tuple[bool, str, int]  # is it a reference, its name, its number among equal names


def _ranked(panel: Panel) -> Iterator[tuple[Identity, Line]]:
    """Learners by error, then references by error.

    Settings may differ between data sets, so a learner is identified by its name, which contains
    the settings that the user gave.
    """
    before: Counter[tuple[bool, str]] = Counter()
    lines = []
    for line in panel.lines:
        name = line.full_information, line.learner
        lines.append(((*name, before[name]), line))
        before[name] += 1
    yield from sorted(lines, key=lambda pair: (pair[1].full_information, pair[1].final_error))


def _looks(panels: Iterable[Panel]) -> dict[Identity, Looks]:
    """The looks of learners, the same in every panel; the best learners come first."""
    places: dict[Identity, list[int]] = defaultdict(list)
    for panel in panels:
        for place, (identity, _) in enumerate(_ranked(panel)):
            places[identity].append(place)
    ranks = {identity: (min(seen), statistics.mean(seen)) for identity, seen in places.items()}
    best = sorted(ranks, key=lambda identity: ranks[identity])
    return charts.looks_of((identity, identity[0]) for identity in best)


def _entries(panel: Panel, looks: dict[Identity, Looks]) -> list[Entry]:
    names = Counter(line.learner for line in panel.lines)
    learners = sum(not line.full_information for line in panel.lines)
    entries = []
    for place, (identity, line) in enumerate(_ranked(panel), 1):
        twice = names[line.learner] > 1 and line.settings
        name = f"{line.learner} {line.settings}" if twice else line.learner
        key = f"R{place - learners}" if line.full_information else str(place)
        entries.append(Entry(line, key, name, looks[identity]))
    return entries


# Chart


def _first_drawn(panel: Panel) -> int:
    return charts.first_drawn([t for line in panel.lines for t in line.rounds])


def _points(panel: Panel, entry: Entry, first: int) -> list[Point]:
    """The check points from this round on whose error is a number."""
    line, points = entry.line, []
    for t, error, low, high in zip(line.rounds, line.error, line.low, line.high, strict=True):
        if t >= first and math.isfinite(error):
            low, high = (x if math.isfinite(x) else error for x in (low, high))
            low, high = sorted((panel.shown(low), panel.shown(high)))
            shares = (panel.shown(error), low, high)
            # No mistake yet is drawn as half a mistake, since a logarithmic axis has no zero.
            seen = [max(share, 0.5 / t) for share in shares]
            points.append(Point(t, *seen, tip=_tip(panel, entry, t, *shares)))
    return points


def _bound_points(entry: Entry, first: int) -> list[Point]:
    """The check points from which the bound, if there is one, stays below 1."""
    line, points = entry.line, []
    for t, error in zip(line.rounds, line.bound.error if line.bound else [], strict=False):
        points.append(Point(t, error, error, error))
        if not error < 1 or t < first:
            points.clear()
    return points


def _label(panel: Panel, entry: Entry) -> tuple[str, ...]:
    return _lines(f"{entry.key} {entry.name} {percent(panel.shown(entry.line.final_error), 1)}%")


def _lines(text: str) -> tuple[str, ...]:
    return tuple(charts.wrapped(text, 330))


def _charts(panel: Panel, entries: list[Entry], where: str) -> Markup:
    """The same chart twice: for a desktop, and for a phone, where ranks stand for the names."""
    first = _first_drawn(panel)
    drawn = [(entry, points) for entry in entries if (points := _points(panel, entry, first))]
    wide = [Series(entry.key, entry.looks, points, _label(panel, entry)) for entry, points in drawn]
    narrow = [replace(series, label=(series.key,)) for series in wide]
    for entry in entries:  # a bound has the key of its learner: pointing at one lights up both
        bound = entry.line.bound
        if bound and (points := _bound_points(entry, first)):
            text = f"bound on {entry.key} by {bound.comparator} {percent(bound.error[-1], 1)}%"
            wide.append(Series(entry.key, entry.looks.bound, points, _lines(text)))
            narrow.append(replace(wide[-1], label=(f"≤{entry.key}",)))
    best = ", ".join(" ".join(_label(panel, entry)) for entry, _ in drawn)
    measure = "Share of right labels" if panel.several else "Mean error"
    words = charts.Words(
        title=f"{panel.data}: {measure.lower()} so far against rounds, both logarithmic",
        desc=f"{measure} at the end, best first: {best}.\nThe table below has the numbers.",
        x=charts.from_round(first),
        y="right so far" if panel.several else "wrong so far",
        where=where,
    )
    large = charts.Frame("wide", 1000, 480)
    small = charts.Frame("narrow", 380, 380, line_height=14, reach=12)
    ranked = replace(words, heading="rank")
    return Markup("").join(
        charts.draw(series, said, frame, y_text=lambda share: f"{100 * share:g}%")
        for series, said, frame in ((wide, words, large), (narrow, ranked, small))
    )


def _exact(value: float) -> str:
    return f"{100 * value:.5g}%"


def _tip(panel: Panel, entry: Entry, rounds: int, share: float, low: float, high: float) -> str:
    reference = f"\n(reference: {entry.line.reference})" if entry.line.reference else ""
    is_alone = entry.line.error_sd is None
    repeats = "" if is_alone else f"; repeats {_exact(low)} to {_exact(high)}"
    after = f"after {counted(rounds, 'round')}{repeats}"
    wrong = "right" if panel.several else "wrong"
    return f"{entry.name}: {_exact(share)} {wrong}\n{after}{reference}"
