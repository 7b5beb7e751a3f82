"""The page that ``onebit race`` writes: one HTML file that loads nothing from elsewhere."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from html import escape

from onebit.pages.charts import (
    BOTTOM,
    TOP,
    Frame,
    Looks,
    Point,
    Series,
    across,
    bounding,
    chart,
    coloured,
    first_drawn,
    from_round,
    reference,
    swatch,
    upwards,
    width_of,
    wrapped,
)
from onebit.pages.shell import cell, run_it_again, sheet


@dataclass(frozen=True, slots=True)
class Bound:
    """What is proved of a learner's error, at the check points of its line."""

    paper: str
    comparator: str  # in words, then as the theorem sees it
    D: float
    L: float
    error: list[float]  # a share of the rounds; above 1 it says nothing

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
        rounds = _rounds(self.rounds)
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


# Of the cells that follow rank and learner.
COLUMNS = (
    *("Error %", "Repeats ±", "Greedy error %", "Explored %", "Updates %", "Rounds/s", "Settings"),
)


def race_page(panels: list[Panel], command: str, version: str, settings: dict[str, str]) -> str:
    """The whole page as text."""
    looks = _looks(panels)
    sections = [_section(i, panel, _entries(panel, looks)) for i, panel in enumerate(panels)]
    told = [
        "Solid curves are the learners, each in a colour that is the same in all charts; those of "
        "the best are thick.",
        "Dashed grey curves are references that <em>are</em> told the true label every round.",
    ]
    if any(panel.repeats > 1 for panel in panels):
        told.append("A band spans the worst and best repeat.")
    told.append("Both axes are logarithmic.")
    if any(_first_drawn(panel) > 1 for panel in panels):
        told.append("Curves begin at round 10: an error over fewer rounds says little.")
    header = f"""<h1>onebit race</h1>
<p>Each learner guesses a label, hears only <em>right</em> or <em>wrong</em>, and is never told
the true label; the lower its curve, the fewer mistakes it has made so far.</p>
<p class="note">{" ".join(told)}</p>"""
    return sheet(
        f"onebit race: {', '.join(panel.data for panel in panels)}",
        header,
        "".join(sections),
        run_it_again(command, version, settings),
        STYLE,
    )


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
    learners = [who for who in best if not who[0]]
    references = [who for who in best if who[0]]
    return {
        **{who: coloured(number) for number, who in enumerate(learners)},
        **{who: reference(number) for number, who in enumerate(references)},
    }


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


def _rounds(count: int) -> str:
    return f"{count:,} round{'' if count == 1 else 's'}"


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


NAME_ROOM = 330  # for a line beside the end of a curve


def _label(entry: Entry) -> list[str]:
    error = _percent(_final_error(entry.line), 1)
    return wrapped(f"{entry.key} {entry.name} {error}%", NAME_ROOM)


def _bound_label(entry: Entry, bound: Bound) -> list[str]:
    text = f"bound on {entry.key} by {bound.comparator} {_percent(bound.error[-1], 1)}%"
    return wrapped(text, NAME_ROOM)


def _charts(panel: Panel, entries: list[Entry], where: str) -> str:
    """The same chart twice: for a desktop, and for a phone, where ranks stand for the names."""
    first = _first_drawn(panel)
    drawn = [(entry, points) for entry in entries if (points := _points(entry, first))]
    full = [Series(e.key, e.looks, points, tuple(_label(e))) for e, points in drawn]
    brief = [replace(one, label=(one.key,)) for one in full]
    for entry in entries:  # a bound has the key of its learner: pointing at one lights up both
        if entry.line.bound and (points := _bound_points(entry, first)):
            label = tuple(_bound_label(entry, entry.line.bound))
            full.append(Series(entry.key, bounding(entry.looks), points, label))
            brief.append(replace(full[-1], label=(f"≤{entry.key}",)))
    title = f"{panel.data}: mean error so far against rounds, both logarithmic"
    best = ", ".join(" ".join(_label(entry)) for entry, _ in drawn)
    desc = f"Error at the end, best first: {best}.\nThe table below has the numbers."
    lines = [line for one in full for line in one.label]
    widest = 1.12 * max(width_of(line) for line in lines)  # bold letters are wider
    tall = 16 * (len(lines) + 1) + TOP + BOTTOM
    wide = Frame("wide", 1000, max(480, tall), 52, 40 + round(widest))
    small = max(380, 14 * (len(brief) + 1) + TOP + BOTTOM)
    narrow = Frame("narrow", 380, small, 47, 52, 14, reach=12)
    every = [point for one in full for point in one.points]
    parts = []
    for frame, series, heading in ((wide, full, ""), (narrow, brief, "rank")):
        x = across(
            *(from_round(first), [p.x for p in every], frame.left, frame.plot_right), log=True
        )
        shares = [v for p in every for v in (p.middle, p.low, p.high)]
        y = upwards("wrong so far", shares, frame.plot_bottom, TOP, _tick, log=True)
        parts.append(
            chart(series, x, y, frame, title=title, desc=desc, where=where, heading=heading)
        )
    return "".join(parts)


def _tick(share: float) -> str:
    return f"{100 * share:g}%"


def _tip(entry: Entry, rounds: int, error: float, low: float, high: float) -> str:
    told = "\n(reference: told the true label)" if entry.line.full_information else ""
    is_alone = entry.line.error_sd is None
    repeats = "" if is_alone else f"; repeats {_exact(low)} to {_exact(high)}"
    return f"{entry.name}: {_exact(error)} wrong\nafter {_rounds(rounds)}{repeats}{told}"


# Legend and table


def _legend(entries: Iterable[Entry], where: str, heading: str) -> str:
    items = "".join(
        f'<li><a href="#{where}-{entry.key}" data-line="{entry.key}">{swatch(entry.looks)}'
        f"<b>{entry.key}</b> {escape(entry.name)}</a></li>"
        for entry in entries
    )
    return f'<h3>{heading}</h3><ul class="legend">{items}</ul>' if items else ""


def _proved(entries: Iterable[Entry], rounds: int) -> str:
    """A line for each bound, also for one that says nothing and so is not drawn."""
    items = []
    for entry in entries:
        if bound := entry.line.bound:
            says = f"at most {_percent(bound.error[-1])}% after {_rounds(rounds)}"
            if not bound.error[-1] < 1:
                says = f"above 100% after {_rounds(rounds)}: it says nothing and is not drawn"
            items.append(
                f'<p class="note">{swatch(bounding(entry.looks))} <b>≤{entry.key}</b> '
                f"{escape(entry.name)}: {says} ({escape(bound.source)}).</p>"
            )
    return f"<h3>Bounds on the expected error</h3>{''.join(items)}" if items else ""


def _row(entry: Entry, where: str) -> str:
    line = entry.line
    tag = ' <span class="tag">reference</span>' if line.full_information else ""
    spread = "–" if line.error_sd is None else _percent(line.error_sd)
    values = (
        _percent(_final_error(line)),
        spread,
        _percent(line.greedy_error),
        _percent(line.explored, 1),
        _percent(line.updates, 1),
        f"{line.rounds_per_second:,.0f}" if math.isfinite(line.rounds_per_second) else "–",
        escape(line.settings),
    )
    cells = [cell(name, value) for name, value in zip(COLUMNS, values, strict=True)]
    return (
        f'<tr id="{where}-{entry.key}" data-line="{entry.key}" tabindex="-1"><td>{entry.key}</td>'
        f'<th scope="row">{swatch(entry.looks)}{escape(line.learner)}{tag}</th>'
        f"{''.join(cells)}</tr>\n"
    )


def _section(number: int, panel: Panel, entries: list[Entry]) -> str:
    where = f"race{number + 1}"
    head = f'<h2 id="{where}">{escape(panel.data)}</h2><p class="note">{escape(panel.about)}</p>'
    if not any(_points(entry, 1) for entry in entries):
        return (
            f'<section class="panel" aria-labelledby="{where}">{head}<p>No results.</p></section>'
        )
    learners = [entry for entry in entries if not entry.line.full_information]
    references = [entry for entry in entries if entry.line.full_information]
    repeats = "1 run" if panel.repeats == 1 else f"the mean of {panel.repeats:,} repeats"
    best = entries[0]
    often = "" if panel.rows is None else f'<p class="note">{panel.length}.'
    if panel.is_repeating:
        often += " A row that comes again may be known already: on new rows, errors are higher."
    often += "</p>" if often else ""
    rows = [_row(entry, where) for entry in entries]
    names = "".join(f'<th scope="col">{name}</th>' for name in ("Rank", "Learner", *COLUMNS))
    bodies = f"<tbody>{''.join(rows[: len(learners)])}</tbody>"
    if references:
        told = "References, told the true label: not ranked"
        bodies += f'<tbody><tr class="group"><th colspan="9" scope="rowgroup">{told}</th></tr>'
        bodies += "".join(rows[len(learners) :]) + "</tbody>"
    return f"""<section class="panel" aria-labelledby="{where}">
{head}
<p>Ahead after {_rounds(panel.rounds)}: <strong>{escape(best.name)}</strong>, wrong in
<strong>{_percent(_final_error(best.line))}%</strong> of them ({repeats}).</p>
{often}{_charts(panel, entries, where)}{_legend(learners, where, "Hear only right or wrong")}
{_legend(references, where, "References, told the true label")}
{_proved(entries, panel.rounds)}
<div class="scroll" role="region" aria-label="Results on {escape(panel.data)}" tabindex="0">
<table><thead><tr>{names}</tr></thead>
{bodies}</table></div>
</section>
"""


STYLE = """
td:last-child { white-space:normal; min-width:11rem }
td:first-child { color:var(--soft) }
th:nth-child(2), .group th, tr > :nth-child(9) { text-align:left }
th:nth-child(2) { position:sticky; left:0; background:var(--page); font-weight:600 }
td:nth-child(3) { font-weight:600 } .group th { padding-top:1rem; color:var(--soft) }
@media screen and (max-width:640px) {
  thead { display:none } tr { display:flex; flex-wrap:wrap; gap:0 .9rem }
  .tag { display:none } td:first-child { width:1.6rem !important }
  tbody th:nth-child(2) { flex:1 0 calc(100% - 10.5rem); width:0 !important }
  td[data-name] { gap:.4em } td:last-child { flex-basis:100%; justify-content:start }
  td[data-name]::before { flex:none }
}
@media print { th:nth-child(2) { position:static; white-space:normal } }
"""
