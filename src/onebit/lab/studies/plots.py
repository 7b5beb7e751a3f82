"""The pictures of a study's page: its charts, and the paper's numbers against ours."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from markupsafe import Markup, escape

from onebit.lab.studies.findings import Chart, Curve, Section
from onebit.lab.studies.verdict import NEAR, ROUGH, Pair, is_number, last_mean
from onebit.pages.charts import (
    BOTTOM,
    TOP,
    Frame,
    Looks,
    Point,
    Scale,
    Series,
    across,
    coloured,
    draw,
    first_drawn,
    from_round,
    reference,
    short,
    svg,
    upwards,
    width_of,
    wrapped,
)

# A chart alone in its section, one of two or four, one of many; the last also suits a phone.
FRAMES = {
    1: Frame("wide", 960, 400, 0, 0),
    2: Frame("wide", 500, 320, 0, 0),
    3: Frame("small", 350, 260, 0, 0, 14, 11, 12),
}
PHONE = Frame("narrow", 350, 280, 0, 0, 14, 11, 12)
SINGLE = 600  # charts wider than this stand alone in their section
HEADING = "ours | paper"
BOLD = 1.12  # how much wider bold letters are


# Methods and their looks: the same on the whole page


def names(chart: Chart) -> list[str]:
    """A name for each curve: the method, and its settings where a method comes twice."""
    methods = Counter(curve.method for curve in chart.curves)
    return [
        f"{curve.method} {curve.settings}".rstrip() if methods[curve.method] > 1 else curve.method
        for curve in chart.curves
    ]


def looks_of(sections: Iterable[Section]) -> dict[str, Looks]:
    """Colours in the order of appearance; those told the true label are grey and dashed."""
    looks: dict[str, Looks] = {}
    learners = references = 0
    for name, curve in _named_curves(sections):
        if name in looks:
            continue
        if curve.full_information:
            looks[name] = reference(references)
            references += 1
        else:
            looks[name] = coloured(learners)
            learners += 1
    return looks


def _named_curves(sections: Iterable[Section]) -> Iterator[tuple[str, Curve]]:
    for section in sections:
        for chart in section.charts:
            yield from zip(names(chart), chart.curves, strict=True)


# Numbers as text


def shown(value: float, percent: bool) -> str:
    """Three digits: 24.0%, 1.78%, 0.0123, 45.6k."""
    if percent:
        return f"{_three_digits(100 * value)}%"
    return _three_digits(value) if abs(value) < 1000 else short(float(f"{value:.3g}"))


def _three_digits(value: float) -> str:
    if value == 0 or abs(value) >= 999.5:
        return f"{value:,.0f}"
    shape = "#.3g" if abs(value) >= 1 else ".3g"
    return f"{value:{shape}}".rstrip(".").replace("e-0", "e-")


def _as_published(value: float, percent: bool) -> str:
    return f"{100 * value:.10g}%" if percent else f"{value:,.10g}"


# Charts


def columns(charts: int) -> int:
    """How many charts stand side by side on a desktop."""
    return {1: 1, 2: 2, 4: 2}.get(charts, 3)


def frames(charts: int) -> list[Frame]:
    """What each of so many charts is drawn in; a phone needs its own, unless they are small."""
    side_by_side = columns(charts)
    return [FRAMES[side_by_side], *([PHONE] if side_by_side < 3 else [])]


def without_beginning(chart: Chart) -> Chart:
    """A chart over rounds from the first round on that is worth drawing."""
    first = first_drawn([x for curve in chart.curves for x in curve.x])
    if chart.x_label != "rounds" or first == 1:
        return chart
    return replace(
        chart, x_label=from_round(first), curves=[_from(curve, first) for curve in chart.curves]
    )


def _from(curve: Curve, first: int) -> Curve:
    kept = [i for i, x in enumerate(curve.x) if x >= first]
    x, mean, low, high = (
        [values[i] for i in kept] for values in (curve.x, curve.mean, curve.low, curve.high)
    )
    return replace(curve, x=x, mean=mean, low=low, high=high)


def numbered(charts: list[Chart]) -> bool:
    """Whether names have too little room in a chart, so that numbers stand for them there."""
    return any(_too_long(names(chart), frame) for chart in charts for frame in frames(len(charts)))


def _too_long(names: Iterable[str], frame: Frame) -> bool:
    lines = sum(len(_label(name, "", frame)) + 1 for name in names)
    return lines * frame.line_height > 2 * frame.height


def drawing(
    chart: Chart, looks: dict[str, Looks], frames: Iterable[Frame], where: str, *, numbered: bool
) -> Markup:
    """The chart as SVG in each of the frames; empty if there is nothing to draw.

    numbered: curves carry the numbers of the legend, too.
    """
    floor_x, floor_y = _floors(chart)
    drawn = [
        (name, curve, spots)
        for name, curve in zip(names(chart), chart.curves, strict=True)
        if (spots := _spots(curve, chart, floor_x, floor_y))
    ]
    return Markup("").join(
        _in_frame(chart, drawn, looks, frame, floor_y, where, numbered) for frame in frames if drawn
    )


def not_drawn(chart: Chart) -> list[str]:
    floors = _floors(chart)
    pairs = zip(names(chart), chart.curves, strict=True)
    return [name for name, curve in pairs if not _spots(curve, chart, *floors)]


def has_zero(chart: Chart) -> bool:
    """Whether a zero stands on a logarithmic axis, where there is none."""
    return any(
        (chart.x_log and x <= 0) or (chart.y_log and mean <= 0)
        for curve in chart.curves
        for x, mean in zip(curve.x, curve.mean, strict=True)
        if math.isfinite(x) and math.isfinite(mean)
    )


def _floors(chart: Chart) -> tuple[float | None, float | None]:
    """Where zero is drawn on each axis, if it is logarithmic: at half of the least number."""
    xs = [x for curve in chart.curves for x in curve.x]
    ys = [y for curve in chart.curves for y in (*curve.mean, *curve.low, *curve.high)]
    ys += [curve.published for curve in chart.curves if curve.published is not None]
    return _floor(xs) if chart.x_log else None, _floor(ys) if chart.y_log else None


def _floor(values: Iterable[float]) -> float:
    return min((v for v in values if v > 0 and math.isfinite(v)), default=1.0) / 2


def _lifted(value: float, floor: float | None) -> float:
    """The value itself, or for zero on a logarithmic axis the place where zero is drawn."""
    return value if floor is None or value > 0 else floor


Spot = tuple[Point, str]  # where it is drawn, what it says


def _spots(curve: Curve, chart: Chart, floor_x: float | None, floor_y: float | None) -> list[Spot]:
    spots = []
    for x, mean, low, high in zip(curve.x, curve.mean, curve.low, curve.high, strict=True):
        if math.isfinite(x) and math.isfinite(mean):
            low, high = (v if math.isfinite(v) else mean for v in (low, high))
            y = [_lifted(v, floor_y) for v in (mean, low, high)]
            point = Point(_lifted(x, floor_x), y[0], y[1], y[2])
            spots.append((point, _tip(curve, chart, x, mean, low, high)))
    return sorted(spots)


def _tip(curve: Curve, chart: Chart, x: float, mean: float, low: float, high: float) -> str:
    band = (
        "" if low == high else f" ({shown(low, chart.y_percent)} to {shown(high, chart.y_percent)})"
    )
    told = "\n(reference: told the true label)" if curve.full_information else ""
    settings = f"\n{curve.settings}" if curve.settings else ""
    return (
        f"{curve.method}: {shown(mean, chart.y_percent)}{band}\n"
        f"{chart.x_label}: {x:,.6g}{settings}{told}"
    )


def _in_frame(
    chart: Chart,
    drawn: list[tuple[str, Curve, list[Spot]]],
    looks: dict[str, Looks],
    frame: Frame,
    floor_y: float | None,
    where: str,
    numbered: bool,
) -> Markup:
    ends = [_published(curve, floor_y) for _, curve, _ in drawn]
    with_strip = any(end is not None for end in ends)
    reach = frame.reach + 16 * with_strip
    brief = _too_long((name for name, _, _ in drawn), frame)
    told = [_end(curve, chart.y_percent) for _, curve, _ in drawn]
    labels = []
    for (name, _, _), end in zip(drawn, told, strict=True):
        number = f"{number_of(name, looks)} " if numbered else ""
        labels.append((number + end,) if brief else _label(number + name, end, frame))
    apart = not brief and frame.width <= SINGLE  # the numbers stand below the names
    lines = sum(len(label) + apart for label in labels)
    height = max(frame.height, TOP + BOTTOM + frame.line_height * lines)

    heights = [v for _, _, spots in drawn for point, _ in spots for v in point[1:4]]
    heights += [end for end in ends if end is not None]
    y = upwards(
        chart.y_label,
        heights,
        height - BOTTOM,
        TOP,
        (lambda share: f"{short(100 * share)}%") if chart.y_percent else short,
        log=chart.y_log,
    )
    left = 14 + max(width_of(tick.text, frame.size) for tick in y.ticks)
    widths = [
        width_of(line, frame.size) * (BOLD if looks[name].kind == "top" else 1)
        for (name, _, _), label, end in zip(drawn, labels, told, strict=True)
        for line in (*label, end)
    ]
    right = reach + 14 + max(*widths, width_of(HEADING, frame.size) if with_strip else 0)
    frame = Frame(
        frame.name,
        frame.width,
        height,
        round(left),
        round(right),
        frame.line_height,
        frame.size,
        reach,
    )
    xs = [point.x for _, _, spots in drawn for point, _ in spots]
    x = across(chart.x_label, xs, frame.left, frame.plot_right, log=chart.x_log, size=frame.size)
    series = [
        Series(
            key_of(name, looks),
            looks[name],
            _marked(spots, x.scale, 26 if frame.size == 12 else 20),
            label,
            end if apart else "",
            published,
            f"{name}\nin the paper: {_as_published(curve.published or 0, chart.y_percent)}",
        )
        for (name, curve, spots), label, end, published in zip(
            drawn, labels, told, ends, strict=True
        )
    ]
    title = f"{chart.title}: {chart.y_label} against {chart.x_label}"
    at_end = "; ".join(f"{name} {end}" for (name, _, _), end in zip(drawn, told, strict=True))
    return draw(
        series,
        x,
        y,
        frame,
        title=title,
        desc=f"At the end, ours{' | the paper' if with_strip else ''}: {at_end}.",
        where=where,
        heading=HEADING if with_strip else "",
    )


def _published(curve: Curve, floor_y: float | None) -> float | None:
    return _lifted(curve.published, floor_y) if is_number(curve.published) else None


def _end(curve: Curve, percent: bool) -> str:
    """Ours at the end, and the paper's if it gives one."""
    ours = shown(last_mean(curve) or 0.0, percent)
    if is_number(curve.published):
        return f"{ours.rstrip('%')} | {_as_published(curve.published, percent)}"
    return ours


def _label(name: str, end: str, frame: Frame) -> tuple[str, ...]:
    """The name in lines; in a large chart with the number at the end."""
    if frame.width > SINGLE:
        return tuple(wrapped(f"{name} {end}", 330))
    return tuple(wrapped(name, 130 if frame.size == 12 else 84, frame.size))


def _marked(spots: list[Spot], x: Scale, apart: float) -> list[Point]:
    """The points of a curve; markers, which can be pointed at, stay so far apart."""
    points, last = [], math.inf
    for point, tip in reversed(spots):
        at = x(point.x)
        if last - at >= apart:
            point, last = point._replace(tip=tip), at
        points.append(point)
    return points[::-1]


def number_of(name: str, looks: dict[str, Looks]) -> int:
    return list(looks).index(name) + 1


def key_of(name: str, looks: dict[str, Looks]) -> str:
    return f"m{number_of(name, looks)}" if name in looks else ""


# The paper's numbers against ours

DOT = 8  # across
WORDS = {"near": f"within {NEAR:.0%}", "rough": f"within {ROUGH:.0%}", "far": "further"}


def ratios(pairs: list[Pair], where: str, width: int = 340) -> Markup:
    """One dot a number, by how many times the paper's ours is; far ones stand at the edges."""
    scale = Scale(0.5, 2.0, 30, width - 30, True)
    stacks: dict[int, list[Pair]] = {}
    for pair in sorted(pairs, key=lambda pair: pair.ratio):
        at = scale(min(max(pair.ratio, 0.5), 2.0))
        stacks.setdefault(round((at - width / 2) / DOT), []).append(pair)
    tallest = max(map(len, stacks.values()))
    step = min(DOT, 120 / tallest)
    bottom = 34 + round(step * tallest)
    dots = "".join(
        _dot(pair, width / 2 + DOT * column, bottom - 6 - step * k)
        for column, stack in sorted(stacks.items())
        for k, pair in enumerate(stack)
    )
    counted = Counter(pair.nearness for pair in pairs)
    told = ", ".join(f"{counted[near]} {words}" for near, words in WORDS.items())
    content = f"""{_zone(scale, ROUGH, bottom)}{_zone(scale, NEAR, bottom)}
<path class="grid major" d="M{width / 2} 18V{bottom}M22 {bottom}H{width - 22}"/>
<text class="tick" x="22" y="12">ours lower</text>
<text class="tick middle" x="{width / 2}" y="12">same</text>
<text class="tick end" x="{width - 22}" y="12">ours higher</text>
{"".join(_ratio_tick(scale, *tick, bottom) for tick in RATIO_TICKS)}
{dots}"""
    title = "Our numbers as multiples of the paper's"
    return svg("ratios", (width, bottom + 24), content, title, f"{told}.", where)


RATIO_TICKS = ((0.5, "half"), (0.75, "−25%"), (1.0, ""), (1.25, "+25%"), (2.0, "double"))


def _zone(scale: Scale, within: float, bottom: float) -> str:
    left, right = scale(1 - within), scale(1 + within)
    size = f'width="{right - left:.1f}" height="{bottom - 18}"'
    return f'<rect class="zone" x="{left:.1f}" y="18" {size}/>'


def _ratio_tick(scale: Scale, ratio: float, text: str, bottom: float) -> str:
    return f'<text class="tick middle" x="{scale(ratio):.1f}" y="{bottom + 16}">{text}</text>'


def _dot(pair: Pair, x: float, y: float) -> str:
    half = '<path class="half" d="M0-3.2a3.2 3.2 0 0 0 0 6.4z"/>' * (pair.nearness == "rough")
    return (
        f'<g class="{pair.nearness}" transform="translate({x:.1f} {y:.1f})">'
        f'<circle class="point" r="3.2"><title>{escape(pair_in_words(pair))}</title></circle>'
        f"{half}</g>"
    )


def pair_in_words(pair: Pair) -> str:
    ours, paper = shown(pair.ours, pair.percent), _as_published(pair.published, pair.percent)
    table = f" ({pair.table})" if pair.table else ""
    return f"{pair.what}{table}: paper {paper}, ours {ours}"
