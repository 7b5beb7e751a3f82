"""The page that ``onebit race`` writes: one HTML file that loads nothing from elsewhere."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

COLOURED = (
    6  # more colours than this stop being tellable apart; the rest are muted until pointed at
)
DASHES = ("7 4", "2 3", "10 3 2 3", "4 2", "12 4", "7 3 2 3 2 3")  # references only
MARKERS = (  # paths around (0, 0), about 8 units wide
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "M-3.6-3.6h7.2v7.2h-7.2z",
    "M0-4.8L4.4 3.4H-4.4z",
    "M0-5L5 0L0 5L-5 0z",
    "M0 4.8L4.4-3.4H-4.4z",
    "M-1.5-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
    "M-4.6 0L-2.3-4H2.3L4.6 0L2.3 4H-2.3z",
    "M-4-4L0-1.6L4-4V4H-4z",
)


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
    error_sd: float
    rounds_per_second: float


@dataclass(frozen=True, slots=True)
class Panel:
    """One data set with every learner that ran on it."""

    data: str
    about: str
    rounds: int
    repeats: int
    lines: list[Line]


@dataclass(frozen=True, slots=True)
class Entry:
    """A line with its place and its looks."""

    line: Line
    key: str  # "1" is the best learner; references are not ranked: "R1", "R2", ...
    name: str
    kind: str  # "top", "muted" or "reference"
    colour: str  # a CSS variable, so that dark mode can change it
    marker: str
    dash: str


@dataclass(frozen=True, slots=True)
class Frame:
    """The size of a chart. A phone gets its own, since a scaled-down one could not be read."""

    name: str
    width: int
    height: int
    left: int
    right: int
    label_gap: float
    full_labels: bool


@dataclass(frozen=True, slots=True)
class LogScale:
    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)


# Settings come last: a phone should show the error without scrolling sideways.
COLUMNS = "".join(
    f'<th scope="col">{name}</th>'
    for name in (
        *("Rank", "Learner", "Error %", "Repeats ±", "Greedy error %"),
        *("Explored %", "Updates %", "Rounds/s", "Settings"),
    )
)
TOP, BOTTOM = 28, 44  # margins above and below the plot


def race_page(panels: list[Panel], command: str, version: str, settings: dict[str, str]) -> str:
    """The whole page as text."""
    remembered: dict[tuple[str, int], int] = {}
    sections = [_section(i, panel, _entries(panel, remembered)) for i, panel in enumerate(panels)]
    facts = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in settings.items())
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>onebit race: {escape(", ".join(panel.data for panel in panels))}</title>
<style>{STYLE}</style>
</head>
<body>
<header>
<h1>onebit race</h1>
<p>Each learner guesses a label, hears only <em>right</em> or <em>wrong</em>, and is never told
the true label; the lower its curve, the fewer mistakes it has made so far.</p>
<p class="note">Solid curves are the learners, the best of them in colour. Dashed grey
curves are references that <em>are</em> told the true label every round. A band spans the worst and
best repeat. Both axes are logarithmic.</p>
</header>
<main>
{"".join(sections)}
</main>
<footer>
<h2>Run it again</h2>
<pre tabindex="0"><code>{escape(command)}</code></pre>
<dl><dt>onebit</dt><dd>{escape(version)}</dd>{facts}</dl>
</footer>
<script>{SCRIPT}</script>
</body>
</html>
"""


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
            slot = slots[place]
            looks = ("top", f"var(--c{slot + 1})", MARKERS[slot], "none")
        elif behind < 0:
            shape = MARKERS[(place - len(slots)) % len(MARKERS)]
            looks = ("muted", "var(--muted)", shape, "none")
        else:
            dash = DASHES[behind % len(DASHES)]
            looks = ("reference", "var(--reference)", MARKERS[behind % len(MARKERS)], dash)
        key = f"R{behind + 1}" if line.full_information else str(place + 1)
        entries.append(Entry(line, key, name, *looks))
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


def _short(count: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:g}{unit}"
    return f"{count:g}"


# Chart


Point = tuple[int, float, float, float]  # round, error, low, high


def _points(line: Line) -> list[Point]:
    """Every check point that holds a number."""
    points = []
    for t, error, low, high in zip(line.rounds, line.error, line.low, line.high, strict=True):
        if t >= 1 and math.isfinite(error):
            band = [x if math.isfinite(x) else error for x in (low, high)]
            points.append((t, error, *band))
    return points


def _visible(share: float, rounds: int) -> float:
    """No mistake yet is drawn as half a mistake, since a logarithmic axis has no zero."""
    return max(share, 0.5 / rounds)


def _one_two_five(low: float, high: float) -> list[float]:
    """1, 2, 5 times powers of ten, from the last one <= low to the first one >= high."""
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    steps = [float(f"{digit}e{decade}") for decade in decades for digit in (1, 2, 5)]
    first = max(i for i, step in enumerate(steps) if step <= low * (1 + 1e-9))
    last = min(i for i, step in enumerate(steps) if step >= high * (1 - 1e-9))
    return steps[min(first, last - 1) : last + 1]  # at least two, else the scale has no length


def _spread(wanted: list[float], gap: float, low: float, high: float) -> list[float]:
    """Heights at least ``gap`` apart within low..high, moved as little as possible.

    With ``gap`` taken off once per label above, heights need only not decrease: neighbours in the
    wrong order are merged into groups at their mean (isotonic regression).
    """
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    groups: list[tuple[float, int]] = []  # mean, size
    for place, i in enumerate(order):
        mean, size = wanted[i] - place * gap, 1
        while groups and groups[-1][0] > mean:
            other, others = groups.pop()
            mean, size = (mean * size + other * others) / (size + others), size + others
        groups.append((mean, size))
    last_start = max(low, high - (len(wanted) - 1) * gap)
    starts = [min(max(mean, low), last_start) for mean, size in groups for _ in range(size)]
    heights = dict(zip(order, (s + place * gap for place, s in enumerate(starts)), strict=True))
    return [heights[i] for i in range(len(wanted))]


def _frames(entries: list[Entry]) -> tuple[Frame, Frame]:
    longest = max(len(_label(entry, True)) for entry in entries)
    right = 46 + round(7 * longest)  # letters are up to 7 wide
    room = len(entries) + 1
    wide = Frame("wide", 1000, max(480, 16 * room + TOP + BOTTOM), 52, right, 16, True)
    narrow = Frame("narrow", 380, max(380, 14 * room + TOP + BOTTOM), 40, 40, 14, False)
    return wide, narrow


def _label(entry: Entry, full: bool) -> str:
    if not full:
        return entry.key
    name = entry.name if len(entry.name) <= 26 else entry.name[:25] + "…"
    return f"{entry.key} {name} {_percent(_final_error(entry.line), 1)}%"


def _chart(panel: Panel, entries: list[Entry], frame: Frame, where: str) -> str:
    drawn = [(entry, points) for entry in entries if (points := _points(entry.line))]
    rounds = [t for _, points in drawn for t, *_ in points]
    shares = [_visible(share, t) for _, points in drawn for t, *band in points for share in band]
    bottom, right = frame.height - BOTTOM, frame.width - frame.right
    first, last = min(rounds), max(rounds)
    around = 2 if first == last else 1  # a single check point stands in the middle
    x = LogScale(first / around, last * around, frame.left, right)
    powers = [10**k for k in range(len(str(last))) if first <= 10**k <= last]
    ticks = powers if len(powers) > 1 else sorted({first, last})
    steps = _one_two_five(min(shares), max(shares))
    y = LogScale(steps[0], steps[-1], bottom, TOP)

    ends = [y(_visible(points[-1][1], points[-1][0])) for _, points in drawn]
    label_heights = _spread(ends, frame.label_gap, TOP, bottom)
    curves = [
        _curve(entry, points, x, y, frame, height)
        for (entry, points), height in zip(drawn, label_heights, strict=True)
    ]
    # The best is drawn last, on top; references and the muted lie below.
    layers = sorted(range(len(drawn)), key=lambda i: (drawn[i][0].kind != "reference", -i))
    title = f"{panel.data}: mean error so far against rounds, both logarithmic"
    best = ", ".join(_label(entry, True) for entry, _ in drawn)
    return f"""<svg class="chart {frame.name}" viewBox="0 0 {frame.width} {frame.height}" role="img"
 aria-labelledby="{where}-{frame.name}-title" aria-describedby="{where}-{frame.name}-desc">
<title id="{where}-{frame.name}-title">{escape(title)}</title>
<desc id="{where}-{frame.name}-desc">Error at the end, best first: {escape(best)}.
The table below has the numbers.</desc>
{_axes(x, y, ticks, steps, frame)}
{"".join(curves[i] for i in layers)}</svg>
"""


def _axes(x: LogScale, y: LogScale, ticks: list[int], steps: list[float], frame: Frame) -> str:
    bottom, right = frame.height - BOTTOM, frame.width - frame.right
    parts = [
        '<text class="tick" x="2" y="12">wrong so far</text>',
        f'<text class="tick middle" x="{(frame.left + right) / 2}" y="{bottom + 36}">rounds</text>',
    ]
    for count in ticks:
        at = f"{x(count):.1f}"
        parts.append(f'<path class="grid major" d="M{at} {TOP}V{bottom}"/>')
        parts.append(f'<text class="tick middle" x="{at}" y="{bottom + 17}">{_short(count)}</text>')
    for share in steps:
        power_of_ten = f"{share:e}".startswith("1.")
        style = "grid major" if power_of_ten else "grid"
        parts.append(f'<path class="{style}" d="M{frame.left} {y(share):.1f}H{right}"/>')
        if power_of_ten or len(steps) < 10:
            at = f'x="{frame.left - 7}" y="{y(share) + 4:.1f}"'
            parts.append(f'<text class="tick end" {at}>{100 * share:g}%</text>')
    return "".join(parts)


def _curve(
    entry: Entry, points: list[Point], x: LogScale, y: LogScale, frame: Frame, label_height: float
) -> str:
    """Band, line, a marker at every check point, and the name at the right end."""
    middle, lower, upper = (
        [f"{x(point[0]):.1f} {y(_visible(point[part], point[0])):.1f}" for point in points]
        for part in (1, 2, 3)
    )
    markers = "".join(
        _marker(entry, spot, f"<title>{escape(_tip(entry, point))}</title>")
        for spot, point in zip(middle, points, strict=True)
    )
    reach = frame.width - frame.right + (24 if frame.full_labels else 12)
    beside = f"{reach} {label_height:.1f}"
    return (
        f'<g class="curve {entry.kind}" data-line="{entry.key}" style="--c:{entry.colour}">'
        f'<path class="band" d="M{"L".join(upper + lower[::-1])}z"/>'
        f'<path class="line" stroke-dasharray="{entry.dash}" d="M{"L".join(middle)}"/>{markers}'
        f'<path class="leader" d="M{middle[-1]}L{beside}"/>{_marker(entry, beside)}'
        f'<text class="label" x="{reach + 8}" y="{label_height + 4:.1f}">'
        f"{escape(_label(entry, frame.full_labels))}</text></g>\n"
    )


def _marker(entry: Entry, spot: str, inside: str = "") -> str:
    size = 1 if entry.kind == "top" else 0.75
    return (
        f'<path class="point" transform="translate({spot}) scale({size})" d="{entry.marker}">'
        f"{inside}</path>"
    )


def _tip(entry: Entry, point: Point) -> str:
    rounds, (error, low, high) = point[0], map(_exact, point[1:])
    told = "\n(reference: told the true label)" if entry.line.full_information else ""
    return f"{entry.name}: {error} wrong\nafter {_rounds(rounds)}; repeats {low} to {high}{told}"


# Legend and table


def _swatch(entry: Entry) -> str:
    return (
        f'<svg class="swatch curve {entry.kind}" viewBox="0 0 34 12" aria-hidden="true" '
        f'style="--c:{entry.colour}"><path class="line" stroke-dasharray="{entry.dash}" '
        f'd="M1 6H33"/>{_marker(entry, "17 6")}</svg>'
    )


def _legend(entries: Iterable[Entry], where: str, heading: str) -> str:
    items = "".join(
        f'<li><a href="#{where}-{entry.key}" data-line="{entry.key}">{_swatch(entry)}'
        f"<b>{entry.key}</b> {escape(entry.name)}</a></li>"
        for entry in entries
    )
    return f'<h3>{heading}</h3><ul class="legend">{items}</ul>' if items else ""


def _row(entry: Entry, where: str) -> str:
    line = entry.line
    tag = ' <span class="tag">reference</span>' if line.full_information else ""
    spread = _percent(line.error_sd)
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
        f'<th scope="row">{_swatch(entry)}{escape(line.learner)}{tag}</th>'
        f"{''.join(f'<td>{n}</td>' for n in numbers)}<td>{escape(line.settings)}</td></tr>\n"
    )


def _section(number: int, panel: Panel, entries: list[Entry]) -> str:
    where = f"race{number + 1}"
    head = f'<h2 id="{where}">{escape(panel.data)}</h2><p class="note">{escape(panel.about)}</p>'
    if not any(_points(entry.line) for entry in entries):
        return (
            f'<section class="panel" aria-labelledby="{where}">{head}<p>No results.</p></section>'
        )
    learners = [entry for entry in entries if not entry.line.full_information]
    references = [entry for entry in entries if entry.line.full_information]
    repeats = "1 run" if panel.repeats == 1 else f"the mean of {panel.repeats:,} repeats"
    best = entries[0]
    charts = "".join(_chart(panel, entries, frame, where) for frame in _frames(entries))
    bodies = f"<tbody>{''.join(_row(entry, where) for entry in learners)}</tbody>"
    if references:
        told = "References, told the true label: not ranked"
        bodies += f'<tbody><tr class="group"><th colspan="9" scope="rowgroup">{told}</th></tr>'
        bodies += "".join(_row(entry, where) for entry in references) + "</tbody>"
    return f"""<section class="panel" aria-labelledby="{where}">
{head}
<p>Ahead after {_rounds(panel.rounds)}: <strong>{escape(best.name)}</strong>, wrong in
<strong>{_percent(_final_error(best.line))}%</strong> of them ({repeats}).</p>
{charts}{_legend(learners, where, "Hear only right or wrong")}
{_legend(references, where, "References, told the true label")}
<div class="scroll" role="region" aria-label="Results on {escape(panel.data)}" tabindex="0">
<table><thead><tr>{COLUMNS}</tr></thead>
{bodies}</table></div>
</section>
"""


STYLE = """
:root { --page:#fff; --ink:#1c2127; --soft:#59626d; --rule:#dfe3e8; --tint:#f1f4f8; --muted:#87919d;
  --reference:#777; --c1:#0046c2; --c2:#c2491d; --c3:#07808f; --c4:#7c0971; --c5:#b97f00;
  --c6:#0d8dff; }
@media screen and (prefers-color-scheme: dark) { :root { --page:#14171c; --ink:#e8ebef;
  --soft:#a3adb8; --rule:#2d333b; --tint:#20262e; --muted:#6f7883; --reference:#8d8d8d;
  --c1:#4a8fff; --c2:#ee5f24; --c3:#00dca4; --c4:#b7a6f2; --c5:#ffb020; --c6:#b7f7ff; } }
* { box-sizing:border-box }
body { margin:0 auto; padding:1.5rem 1rem 3rem; max-width:1080px; background:var(--page);
  color:var(--ink); font:16px/1.5 system-ui, sans-serif; }
h1 { margin:0 0 .3em; font-size:1.7rem } h2 { margin:0 0 .2em; font-size:1.25rem }
h3 { margin:.9rem 0 .2rem; font-size:.82rem; color:var(--soft) }
p { margin:.3em 0; max-width:80ch } .note { color:var(--soft); font-size:.92rem }
section, footer { margin-top:2.2rem; padding-top:1.4rem; border-top:1px solid var(--rule) }
.chart { display:block; width:100%; height:auto; margin-top:.8rem; font-size:12px;
  touch-action:pan-y }
.chart.narrow { display:none }
.grid { stroke:var(--rule); stroke-width:.5 } .grid.major { stroke-width:1 }
.tick { fill:var(--soft) } .middle { text-anchor:middle } .end { text-anchor:end }
.label { fill:var(--ink) }
.reference .label, .muted .label { fill:var(--soft) } .top .label { font-weight:600 }
.line { fill:none; stroke:var(--c); stroke-width:1.3; stroke-linejoin:round }
.top .line { stroke-width:2.2 }
.band { fill:var(--c); stroke:var(--c); stroke-width:.5; opacity:.04 } .top .band { opacity:.13 }
.point { fill:var(--page); stroke:var(--c); stroke-width:1.2 } .top .point { fill:var(--c) }
.leader { fill:none; stroke:var(--c); stroke-width:.7; opacity:.7 }
.lit .chart .curve:not(.on) { opacity:.22 }
.lit .on .line { stroke-width:3.2 } .lit .on .band { opacity:.25 }
.lit .muted.on, .lit .reference.on { --c:var(--ink) !important }
.lit .on .label { fill:var(--ink); font-weight:700 }
.legend { display:grid; grid-template-columns:repeat(auto-fill, minmax(15rem, 1fr)); margin:0;
  padding:0; list-style:none }
.legend a { display:flex; gap:.45em; padding:.12rem .3rem; border-radius:5px; color:inherit;
  font-size:.85rem; text-decoration:none }
.legend .swatch { margin-top:.3rem }
.swatch { flex:none; width:34px; height:12px; vertical-align:-1px } th .swatch { margin-right:.5em }
a.on, tr.on > *, tr:target > * { background:var(--tint) !important }
:focus-visible { outline:2px solid var(--c1); outline-offset:1px }
.scroll { margin-top:1rem; overflow-x:auto }
table { width:100%; border-collapse:collapse; font-size:.85rem; font-variant-numeric:tabular-nums;
  white-space:nowrap }
td:last-child { white-space:normal; min-width:11rem }
th, td { padding:.32rem .5rem; border-bottom:1px solid var(--rule); text-align:right }
thead th { color:var(--soft); vertical-align:bottom; white-space:normal }
td:first-child { color:var(--soft) }
th:nth-child(2), .group th, tr > :nth-child(9) { text-align:left }
th:nth-child(2) { position:sticky; left:0; background:var(--page); font-weight:600 }
td:nth-child(3) { font-weight:600 } .group th { padding-top:1rem; color:var(--soft) }
.tag { margin-left:.4em; padding:0 .4em; border:1px solid var(--rule); border-radius:9px;
  color:var(--soft); font-size:.75rem; font-weight:400 }
.tip { position:fixed; z-index:1; padding:.35rem .6rem; border-radius:6px; background:var(--ink);
  color:var(--page); font-size:.82rem; white-space:pre-line; pointer-events:none }
pre { overflow-x:auto; padding:.7rem .9rem; border-radius:6px; background:var(--tint) }
dl { display:grid; grid-template-columns:max-content 1fr; gap:.1rem 1rem; font-size:.88rem }
dt { color:var(--soft) } dd { margin:0; overflow-wrap:anywhere }
@media (max-width:640px) {
  .chart.wide { display:none } .chart.narrow { display:block } .legend a { padding:.3rem 0 }
  .legend { grid-template-columns:1fr 1fr; column-gap:.6rem }
  th .swatch, .tag { display:none } th:nth-child(2) { min-width:8rem; white-space:normal }
}
@media print {
  body { max-width:none; padding:0; font-size:10pt }
  section + section { break-before:page } section { margin-top:.5rem; padding-top:.5rem }
  .legend a, .tag { font-size:7.5pt } .legend { grid-template-columns:repeat(4, 1fr) }
  .legend .swatch { margin-top:0 } th:nth-child(2) { position:static }
  .scroll { overflow:visible } table { font-size:7.5pt } th, td { padding:.1rem .3rem }
  h2, h3, tr, .chart { break-inside:avoid } h2, h3 { break-after:avoid } .tip { display:none }
  pre { white-space:pre-wrap }
}
"""

# Only adds pointing: the page says everything without it.
SCRIPT = """
const tip = Object.assign(document.createElement('div'), {className: 'tip', hidden: true});
document.body.append(tip);
for (const panel of document.querySelectorAll('.panel')) {
  const light = key => {
    panel.classList.toggle('lit', Boolean(key));
    for (const e of panel.querySelectorAll('[data-line]'))
      e.classList.toggle('on', e.dataset.line === key);
  };
  const rest = () => light(panel.querySelector('[data-line]:focus')?.dataset.line);
  for (const e of panel.querySelectorAll('a[data-line], tr[data-line]')) {
    for (const on of ['mouseenter', 'focus']) e.addEventListener(on, () => light(e.dataset.line));
    for (const off of ['mouseleave', 'blur']) e.addEventListener(off, rest);
    // Light the curve up where it is rather than jump away from it to the table.
    if (e.href) e.addEventListener('click', event => { event.preventDefault(); e.focus(); });
  }
  for (const chart of panel.querySelectorAll('.chart')) {
    // The browser's own tooltips are slow and would cover ours: take their text over.
    const title = chart.querySelector('title');
    chart.setAttribute('aria-label', title.textContent);
    chart.removeAttribute('aria-labelledby');
    title.remove();
    const points = [...chart.querySelectorAll('.point title')].map(words => {
      const point = words.parentNode;
      words.remove();
      return [point, words.textContent];
    });
    const leave = () => { tip.hidden = true; rest(); };
    const point_at = event => {
      let near = 18, found = null;
      for (const [point, words] of points) {
        const box = point.getBoundingClientRect();
        const away = Math.hypot(box.x + box.width / 2 - event.clientX,
          box.y + box.height / 2 - event.clientY);
        if (away < near) [near, found] = [away, [point, words]];
      }
      const label = event.target.closest('.label, .leader');
      if (!found) {
        leave();
        if (label) light(label.parentNode.dataset.line);
        return;
      }
      light(found[0].parentNode.dataset.line);
      tip.textContent = found[1];
      tip.hidden = false;
      const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
      tip.style.left = Math.max(8, left) + 'px';
      const above = event.clientY - tip.offsetHeight - 12;
      tip.style.top = (above < 4 ? event.clientY + 20 : above) + 'px';
    };
    chart.addEventListener('pointermove', point_at);
    chart.addEventListener('pointerdown', point_at);
    chart.addEventListener('pointerleave', leave);
  }
}
"""
