"""The page that ``onebit race`` writes: one HTML file that loads nothing from elsewhere."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from onebit.charts import (
    BOTTOM,
    COLOURED,
    TOP,
    Frame,
    Looks,
    Point,
    Series,
    across,
    bounding,
    chart,
    coloured,
    muted,
    reference,
    swatch,
    upwards,
)
from onebit.sheet import run_it_again, sheet


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


# Settings come last: a phone should show the error without scrolling sideways.
COLUMNS = "".join(
    f'<th scope="col">{name}</th>'
    for name in (
        *("Rank", "Learner", "Error %", "Repeats ±", "Greedy error %"),
        *("Explored %", "Updates %", "Rounds/s", "Settings"),
    )
)


def race_page(panels: list[Panel], command: str, version: str, settings: dict[str, str]) -> str:
    """The whole page as text."""
    remembered: dict[tuple[str, int], int] = {}
    sections = [_section(i, panel, _entries(panel, remembered)) for i, panel in enumerate(panels)]
    header = """<h1>onebit race</h1>
<p>Each learner guesses a label, hears only <em>right</em> or <em>wrong</em>, and is never told
the true label; the lower its curve, the fewer mistakes it has made so far.</p>
<p class="note">Solid curves are the learners, the best of them in colour. Dashed grey
curves are references that <em>are</em> told the true label every round. A band spans the worst and
best repeat. Both axes are logarithmic.</p>"""
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


def _entries(panel: Panel, remembered: dict[tuple[str, int], int]) -> list[Entry]:
    """Learners by error, then references by error. A learner keeps the colour it had before."""
    names = [line.learner for line in panel.lines]
    # The settings may be tuned per data set, so a learner is known again by its name alone and,
    # where the name comes more than once, by which of them it is.
    identity = {
        id(line): (names[i], names[:i].count(names[i])) for i, line in enumerate(panel.lines)
    }
    ranked = sorted(panel.lines, key=_final_error)
    learners = [line for line in ranked if not line.full_information]
    references = [line for line in ranked if line.full_information]
    slots = _colour_slots([identity[id(line)] for line in learners[:COLOURED]], remembered)

    entries = []
    for place, line in enumerate(learners + references):
        twice = names.count(line.learner) > 1 and line.settings
        name = f"{line.learner} {line.settings}" if twice else line.learner
        behind = place - len(learners)
        if place < len(slots):
            looks = coloured(slots[place])
        elif behind < 0:
            looks = muted(place - len(slots))
        else:
            looks = reference(behind)
        key = f"R{behind + 1}" if line.full_information else str(place + 1)
        entries.append(Entry(line, key, name, looks))
    return entries


def _colour_slots(best: list[tuple[str, int]], remembered: dict[tuple[str, int], int]) -> list[int]:
    """A different colour for each of the best, the one it had on an earlier chart if possible."""
    taken: dict[tuple[str, int], int] = {}
    for who in best:
        if who in remembered and remembered[who] not in taken.values():
            taken[who] = remembered[who]
    free = iter([slot for slot in range(COLOURED) if slot not in taken.values()])
    for who in best:
        if who not in taken:
            taken[who] = next(free)
    remembered.update(taken)
    return [taken[who] for who in best]


# Numbers as text


def _percent(value: float, digits: int = 2) -> str:
    return f"{100 * value:.{digits}f}" if math.isfinite(value) else "–"


def _exact(value: float) -> str:
    return f"{100 * value:.5g}%"


def _rounds(count: int) -> str:
    return f"{count:,} round{'' if count == 1 else 's'}"


# Chart


def _points(entry: Entry) -> list[Point]:
    """Every check point that holds a number."""
    line, points = entry.line, []
    for t, error, low, high in zip(line.rounds, line.error, line.low, line.high, strict=True):
        if t >= 1 and math.isfinite(error):
            low, high = (x if math.isfinite(x) else error for x in (low, high))
            seen = [_visible(share, t) for share in (error, low, high)]
            points.append(Point(t, seen[0], seen[1], seen[2], _tip(entry, t, error, low, high)))
    return points


def _bound_points(entry: Entry) -> list[Point]:
    """The check points from which on the bound, if there is one, stays below 1."""
    line, points = entry.line, []
    for t, error in zip(line.rounds, line.bound.error if line.bound else [], strict=False):
        points.append(Point(t, error, error, error))
        if not error < 1:
            points.clear()
    return points


def _visible(share: float, rounds: int) -> float:
    """No mistake yet is drawn as half a mistake, since a logarithmic axis has no zero."""
    return max(share, 0.5 / rounds)


def _frames(entries: list[Entry]) -> tuple[Frame, Frame]:
    bounded = [entry for entry in entries if _bound_points(entry)]
    labels = [_label(entry, True) for entry in entries]
    longest = max(len(label) for label in labels + [_bound_label(one, True) for one in bounded])
    right = 46 + round(7 * longest)  # letters are up to 7 wide
    narrow = 52 if bounded else 40
    room = len(entries) + len(bounded) + 1
    return (
        Frame("wide", 1000, max(480, 16 * room + TOP + BOTTOM), 52, right),
        Frame("narrow", 380, max(380, 14 * room + TOP + BOTTOM), 47, narrow, 14, reach=12),
    )


def _label(entry: Entry, full: bool) -> str:
    if not full:
        return entry.key
    name = entry.name if len(entry.name) <= 26 else entry.name[:25] + "…"
    return f"{entry.key} {name} {_percent(_final_error(entry.line), 1)}%"


def _bound_label(entry: Entry, full: bool) -> str:
    bound = entry.line.bound
    if not full or bound is None:
        return f"≤{entry.key}"
    return f"bound on {entry.key} by {bound.comparator} {_percent(bound.error[-1], 1)}%"


def _charts(panel: Panel, entries: list[Entry], where: str) -> str:
    """The same chart twice: for a desktop, and for a phone."""
    drawn = [(entry, points) for entry in entries if (points := _points(entry))]
    proved = [(entry, points) for entry in entries if (points := _bound_points(entry))]
    every = [point for _, points in drawn + proved for point in points]
    rounds, shares = [p.x for p in every], [v for p in every for v in (p.middle, p.low, p.high)]
    title = f"{panel.data}: mean error so far against rounds, both logarithmic"
    best = ", ".join(_label(entry, True) for entry, _ in drawn)
    desc = f"Error at the end, best first: {best}.\nThe table below has the numbers."
    parts = []
    for frame in _frames(entries):
        full = frame.name == "wide"
        series = [
            Series(entry.key, entry.looks, points, (_label(entry, full),))
            for entry, points in drawn
        ]
        series += [  # the key of its learner: pointing at one lights up both
            Series(entry.key, bounding(entry.looks), points, (_bound_label(entry, full),))
            for entry, points in proved
        ]
        x = across("rounds", rounds, frame.left, frame.plot_right, log=True)
        y = upwards("wrong so far", shares, frame.plot_bottom, TOP, _tick, log=True)
        parts.append(chart(series, x, y, frame, title=title, desc=desc, where=where))
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
    numbers = (
        _percent(_final_error(line)),
        f"± {spread}" if spread != "–" else spread,
        _percent(line.greedy_error),
        _percent(line.explored, 1),
        _percent(line.updates, 1),
        f"{line.rounds_per_second:,.0f}" if math.isfinite(line.rounds_per_second) else "–",
    )
    return (
        f'<tr id="{where}-{entry.key}" data-line="{entry.key}" tabindex="-1"><td>{entry.key}</td>'
        f'<th scope="row">{swatch(entry.looks)}{escape(line.learner)}{tag}</th>'
        f"{''.join(f'<td>{n}</td>' for n in numbers)}<td>{escape(line.settings)}</td></tr>\n"
    )


def _section(number: int, panel: Panel, entries: list[Entry]) -> str:
    where = f"race{number + 1}"
    head = f'<h2 id="{where}">{escape(panel.data)}</h2><p class="note">{escape(panel.about)}</p>'
    if not any(_points(entry) for entry in entries):
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
    bodies = f"<tbody>{''.join(_row(entry, where) for entry in learners)}</tbody>"
    if references:
        told = "References, told the true label: not ranked"
        bodies += f'<tbody><tr class="group"><th colspan="9" scope="rowgroup">{told}</th></tr>'
        bodies += "".join(_row(entry, where) for entry in references) + "</tbody>"
    return f"""<section class="panel" aria-labelledby="{where}">
{head}
<p>Ahead after {_rounds(panel.rounds)}: <strong>{escape(best.name)}</strong>, wrong in
<strong>{_percent(_final_error(best.line))}%</strong> of them ({repeats}).</p>
{often}{_charts(panel, entries, where)}{_legend(learners, where, "Hear only right or wrong")}
{_legend(references, where, "References, told the true label")}
{_proved(entries, panel.rounds)}
<div class="scroll" role="region" aria-label="Results on {escape(panel.data)}" tabindex="0">
<table><thead><tr>{COLUMNS}</tr></thead>
{bodies}</table></div>
</section>
"""


STYLE = """
td:last-child { white-space:normal; min-width:11rem }
td:first-child { color:var(--soft) }
th:nth-child(2), .group th, tr > :nth-child(9) { text-align:left }
th:nth-child(2) { position:sticky; left:0; background:var(--page); font-weight:600 }
td:nth-child(3) { font-weight:600 } .group th { padding-top:1rem; color:var(--soft) }
@media (max-width:640px) {
  th .swatch, .tag { display:none } th:nth-child(2) { min-width:8rem; white-space:normal }
}
@media print { th:nth-child(2) { position:static; white-space:normal } }
"""
