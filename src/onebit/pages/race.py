"""The page that ``onebit race`` writes: one HTML file that loads nothing from elsewhere."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from onebit.pages.charts import (
    Frame,
    Looks,
    Point,
    Series,
    Words,
    draw,
    first_drawn,
    from_round,
    looks_of,
    wrapped,
)
from onebit.pages.rendering import counted, render


@dataclass(frozen=True, slots=True)
class Bound:
    """What is proved of a learner's error, at the check points of its line."""

    paper: str
    comparator: str  # in words, then as the theorem sees it
    D: float
    L: float
    error: list[float]  # a share of the rounds; above 1 it says nothing

    @property
    def says_something(self) -> bool:
        """Whether it ends below 1."""
        return self.error[-1] < 1

    @property
    def source(self) -> str:
        return f"{self.paper}; comparator: {self.comparator}, D = {self.D:.0f}, L = {self.L:.0f}"


@dataclass(frozen=True, slots=True)
class Line:
    """One learner on one data set. Errors and shares are between 0 and 1."""

    learner: str
    settings: str
    full_information: bool  # a reference that is told the true label
    rounds: list[int]  # check points 1, 2, 5, 10, ...
    error: list[float]  # mean played error up to each check point
    low: list[float]  # least over the repeats
    high: list[float]  # greatest over the repeats
    greedy_error: float
    explored: float
    updates: float
    error_sd: float | None  # None: there is one run alone
    rounds_per_second: float
    bound: Bound | None = None


@dataclass(frozen=True, slots=True)
class Panel:
    """One data set with every learner that ran on it."""

    data: str
    about: str
    rounds: int
    repeats: int
    lines: list[Line]
    rows: int | None = None  # of the table that the rounds come from; None: rows are drawn

    @property
    def length(self) -> str:
        """How many rounds there are, and how often each row of a table comes in them."""
        rounds = counted(self.rounds, "round")
        if self.rows is None:
            return rounds
        if self.rounds == self.rows:
            return f"{rounds}: each row once"
        if self.rounds < self.rows:
            return f"{rounds}: {self.rounds:,} of {self.rows:,} rows, each once"
        times, rest = divmod(self.rounds, self.rows)
        often = f"about {self.rounds / self.rows:.1f}" if rest else str(times)
        return f"{rounds}: each of {self.rows:,} rows {often} times"

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

    @property
    def error(self) -> str:
        return _percent(_final_error(self.line))

    @property
    def bound(self) -> str:
        return _percent(self.line.bound.error[-1]) if self.line.bound else ""

    @property
    def cells(self) -> dict[str, str]:
        """What follows rank and learner in the table, by column."""
        line, speed = self.line, self.line.rounds_per_second
        return {
            "Error %": self.error,
            "Repeats ±": "–" if line.error_sd is None else _percent(line.error_sd),
            "Greedy error %": _percent(line.greedy_error),
            "Explored %": _percent(line.explored, 1),
            "Updates %": _percent(line.updates, 1),
            "Rounds/s": f"{speed:,.0f}" if math.isfinite(speed) else "–",
            "Settings": line.settings,
        }


def race_page(panels: list[Panel], command: str, version: str, settings: dict[str, str]) -> str:
    """The whole page as text."""
    looks = _looks(panels)
    return render(
        "race.html",
        races=[
            _race(panel, _entries(panel, looks), f"race{number}")
            for number, panel in enumerate(panels, 1)
        ],
        has_bands=any(panel.repeats > 1 for panel in panels),
        begins_late=any(_first_drawn(panel) > 1 for panel in panels),
        command=command,
        version=version,
        facts=settings,
    )


def _race(panel: Panel, entries: list[Entry], where: str) -> dict[str, Any]:
    """What the template shows of a panel; without any result there are no charts."""
    has_results = any(_points(entry, 1) for entry in entries)
    return {
        "panel": panel,
        "where": where,
        "entries": entries,
        "learners": [entry for entry in entries if not entry.line.full_information],
        "references": [entry for entry in entries if entry.line.full_information],
        "charts": _charts(panel, entries, where) if has_results else "",
    }


# Ranking and looks


def _final_error(line: Line) -> float:
    return line.error[-1] if line.error and math.isfinite(line.error[-1]) else math.inf


Who = tuple[bool, str, int]  # told the true label, its name, which of those of that name


def _ranked(panel: Panel) -> Iterator[tuple[Who, Line]]:
    """Learners by error, then references by error.

    Settings may be tuned per data set, so a learner is known again by its name, which has the
    settings that it was given.
    """
    before: Counter[tuple[bool, str]] = Counter()
    lines = []
    for line in panel.lines:
        name = line.full_information, line.learner
        lines.append(((*name, before[name]), line))
        before[name] += 1
    yield from sorted(lines, key=lambda pair: (pair[1].full_information, _final_error(pair[1])))


def _looks(panels: Iterable[Panel]) -> dict[Who, Looks]:
    """Looks that a learner has in every panel; the best in any of them come first."""
    places: dict[Who, list[int]] = defaultdict(list)
    for panel in panels:
        for place, (who, _) in enumerate(_ranked(panel)):
            places[who].append(place)
    best = sorted(places, key=lambda who: (min(places[who]), sum(places[who]) / len(places[who])))
    return looks_of((who, who[0]) for who in best)


def _entries(panel: Panel, looks: dict[Who, Looks]) -> list[Entry]:
    names = Counter(line.learner for line in panel.lines)
    learners = sum(not line.full_information for line in panel.lines)
    entries = []
    for place, (who, line) in enumerate(_ranked(panel), 1):
        twice = names[line.learner] > 1 and line.settings
        name = f"{line.learner} {line.settings}" if twice else line.learner
        key = f"R{place - learners}" if line.full_information else str(place)
        entries.append(Entry(line, key, name, looks[who]))
    return entries


# Numbers as text


def _percent(value: float, digits: int = 2) -> str:
    return f"{100 * value:.{digits}f}" if math.isfinite(value) else "–"


def _exact(value: float) -> str:
    return f"{100 * value:.5g}%"


# Chart


def _first_drawn(panel: Panel) -> int:
    return first_drawn([t for line in panel.lines for t in line.rounds])


def _points(entry: Entry, first: int) -> list[Point]:
    """Every check point from this round on that holds a number."""
    line, points = entry.line, []
    for t, error, low, high in zip(line.rounds, line.error, line.low, line.high, strict=True):
        if t >= first and math.isfinite(error):
            low, high = (x if math.isfinite(x) else error for x in (low, high))
            seen = [_visible(share, t) for share in (error, low, high)]
            points.append(Point(t, seen[0], seen[1], seen[2], _tip(entry, t, error, low, high)))
    return points


def _bound_points(entry: Entry, first: int) -> list[Point]:
    """The check points from which on the bound, if there is one, stays below 1."""
    line, points = entry.line, []
    for t, error in zip(line.rounds, line.bound.error if line.bound else [], strict=False):
        points.append(Point(t, error, error, error))
        if not error < 1 or t < first:
            points.clear()
    return points


def _visible(share: float, rounds: int) -> float:
    """No mistake yet is drawn as half a mistake, since a logarithmic axis has no zero."""
    return max(share, 0.5 / rounds)


def _label(entry: Entry) -> tuple[str, ...]:
    return _lines(f"{entry.key} {entry.name} {_percent(_final_error(entry.line), 1)}%")


def _lines(text: str) -> tuple[str, ...]:
    return tuple(wrapped(text, 330))


def _charts(panel: Panel, entries: list[Entry], where: str) -> Markup:
    """The same chart twice: for a desktop, and for a phone, where ranks stand for the names."""
    first = _first_drawn(panel)
    drawn = [(entry, points) for entry in entries if (points := _points(entry, first))]
    wide = [Series(entry.key, entry.looks, points, _label(entry)) for entry, points in drawn]
    narrow = [replace(series, label=(series.key,)) for series in wide]
    for entry in entries:  # a bound has the key of its learner: pointing at one lights up both
        bound = entry.line.bound
        if bound and (points := _bound_points(entry, first)):
            text = f"bound on {entry.key} by {bound.comparator} {_percent(bound.error[-1], 1)}%"
            wide.append(Series(entry.key, entry.looks.bound, points, _lines(text)))
            narrow.append(replace(wide[-1], label=(f"≤{entry.key}",)))
    best = ", ".join(" ".join(_label(entry)) for entry, _ in drawn)
    words = Words(
        title=f"{panel.data}: mean error so far against rounds, both logarithmic",
        desc=f"Error at the end, best first: {best}.\nThe table below has the numbers.",
        x=from_round(first),
        y="wrong so far",
        where=where,
    )
    small = Frame("narrow", 380, 380, line_height=14, reach=12)
    return draw(wide, words, Frame("wide", 1000, 480), y_text=_tick) + draw(
        narrow, replace(words, heading="rank"), small, y_text=_tick
    )


def _tick(share: float) -> str:
    return f"{100 * share:g}%"


def _tip(entry: Entry, rounds: int, error: float, low: float, high: float) -> str:
    told = "\n(reference: told the true label)" if entry.line.full_information else ""
    is_alone = entry.line.error_sd is None
    repeats = "" if is_alone else f"; repeats {_exact(low)} to {_exact(high)}"
    return f"{entry.name}: {_exact(error)} wrong\nafter {counted(rounds, 'round')}{repeats}{told}"
