"""Charts as inline SVG: scales, axes, curves with bands, labels that do not overlap.

Colours are CSS variables, so that dark mode can change them; static/ has the style and the script.
No element has a style attribute, because a Content-Security-Policy may forbid it.

No plotting library is used, because a page must be one small file that works without a network, on
paper, in dark mode and for a screen reader. matplotlib's SVG has fixed colours and no tooltips, and
Plotly, Bokeh and Vega add a large JavaScript library to every page and draw nothing without it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from markupsafe import Markup
from scipy.optimize import isotonic_regression

from onebit.pages.rendering import picture

COLOURS = 14  # --c1, --c2, ... of the style; all learners of a race at its defaults
LEADING = 6  # curves with a thick line, filled markers and a band that can be seen
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
TOP, BOTTOM = 28, 44  # margins above and below the plot
STRIP = 16  # width of the strip of published values, right of the plot
BOLD = 1.12  # how much wider bold letters are


# Looks


@dataclass(frozen=True, slots=True)
class Looks:
    kind: str  # "top", "muted", "reference" or "bound"
    colour: str  # a value of data-c in the style
    marker: str
    dash: str

    @property
    def bound(self) -> Looks:
        """The looks of the bound on a curve: the same colour, dashed."""
        return replace(self, kind="bound", dash="5 5")


def coloured(number: int) -> Looks:
    """The looks of the n-th curve. When colours repeat, the marker is different."""
    cycle, slot = divmod(number, COLOURS)
    kind = "top" if number < LEADING else "muted"
    return Looks(kind, f"c{slot + 1}", MARKERS[(slot - cycle) % len(MARKERS)], "none")


def reference(number: int) -> Looks:
    """The looks of the n-th reference, which receives true labels: dashed and grey."""
    dash = DASHES[number % len(DASHES)]
    return Looks("reference", "reference", MARKERS[number % len(MARKERS)], dash)


Key = TypeVar("Key")


def looks_of(curves: Iterable[tuple[Key, bool]]) -> dict[Key, Looks]:
    """Looks of curves, given by a key and whether the curve is that of a reference."""
    looks: dict[Key, Looks] = {}
    used = {False: 0, True: 0}
    for key, is_reference in curves:
        if key not in looks:
            number = used[is_reference]
            looks[key] = reference(number) if is_reference else coloured(number)
            used[is_reference] += 1
    return looks


# Words


def short(value: float) -> str:
    """A number for a tick: 20k, 0.5, 1e-5."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}".replace("e-0", "e-")


def width_of(text: str, size: float = 12) -> float:
    """An upper estimate of the width of a text at a font size."""
    return sum(_width_of_letter(letter) for letter in text) * size / 12


def _width_of_letter(letter: str) -> float:
    if letter in "iljI.,:;|!' ":
        return 4.0
    if letter in "frt()-/[]":
        return 5.0
    if letter in "mwMW%@±…≈≠" or ord(letter) >= 0x1100:
        return 11.5
    return 8.8 if letter.isupper() else 7.7


def shortened(text: str, room: float, size: float = 12) -> str:
    """The text, cut with an ellipsis if it has no room."""
    if width_of(text, size) <= room:
        return text
    while text and width_of(text + "…", size) > room:
        text = text[:-1]
    return text.rstrip() + "…"


def wrapped(text: str, room: float, size: float = 12) -> list[str]:
    """The text in lines that have room; a word that is too long is broken."""
    lines = [""]
    for word in text.split():
        if lines[-1] and width_of(f"{lines[-1]} {word}", size) <= room:
            lines[-1] += f" {word}"
            continue
        lines.append("")
        for letter in word:
            if lines[-1] and width_of(lines[-1] + letter, size) > room:
                lines.append("")
            lines[-1] += letter
    return lines[1:] or [""]


# Scales and axes


def first_drawn(rounds: Sequence[float]) -> int:
    """The round at which curves begin: 10, because the first nine errors say little.

    It is 1 for runs of fewer than 100 rounds, and if no check point is before round 10.
    """
    return 10 if rounds and min(rounds) < 10 and max(rounds) >= 100 else 1


def from_round(first: int) -> str:
    """The name of an axis of rounds that begins at this one."""
    return "rounds" if first == 1 else f"rounds, from {first} on"


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values to places; low and high must differ."""

    low: float
    high: float
    start: float
    end: float
    log: bool

    def __call__(self, value: float) -> float:
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


class Tick(NamedTuple):
    value: float
    text: str  # may be empty: a line without a number
    major: bool


@dataclass(frozen=True, slots=True)
class Axis:
    label: str
    scale: Scale
    ticks: list[Tick]


def one_two_five(low: float, high: float) -> list[float]:
    """1, 2, 5 times powers of ten, from the last one <= low to the first one >= high."""
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    steps = [float(f"{digit}e{decade}") for decade in decades for digit in (1, 2, 5)]
    first = max(i for i, step in enumerate(steps) if step <= low * (1 + 1e-9))
    last = min(i for i, step in enumerate(steps) if step >= high * (1 - 1e-9))
    return steps[min(first, last - 1) : last + 1]  # at least two, else the scale has no length


def even_steps(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers at even distances, from the last one <= low to the first one >= high."""
    if high <= low:
        low, high = min(low, 0.0), max(high, 0.0) if high else 1.0
    step = next(
        s for s in one_two_five((high - low) / about, high - low) if s * about >= high - low
    )
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


def _is_power_of_ten(value: float) -> bool:
    return f"{value:e}".startswith("1.000000")


def _thinned(ticks: list[float], room: Callable[[float], float], scale: Scale) -> list[float]:
    """Every tick, or every second, third, ... so that their texts stay apart."""
    for step in range(1, len(ticks) + 1):
        kept = ticks[::step]
        places = [(scale(tick), room(tick) / 2) for tick in kept]
        if all(abs(b - a) >= ra + rb for (a, ra), (b, rb) in itertools.pairwise(places)):
            return kept
    return ticks[:1]


def across(
    label: str,
    values: Sequence[float],
    start: float,
    end: float,
    *,
    log: bool,
    size: float = 12,
) -> Axis:
    """A horizontal axis from the least to the greatest value."""
    first, last = min(values), max(values)
    # A single value stands in the middle.
    if log:
        around = 2 if first == last else 1
        scale = Scale(first / around, last * around, start, end, True)
        steps = one_two_five(first, last)
        inside = [step for step in steps if first * (1 - 1e-9) <= step <= last * (1 + 1e-9)]
        powers = [step for step in inside if _is_power_of_ten(step)]
        ticks = next((t for t in (powers, inside) if len(t) > 1), sorted({first, last}))
    else:
        around = 1 if first == last else 0
        if 0 < first < 0.2 * last:
            first = 0.0
        scale = Scale(first - around, last + around, start, end, False)
        room = max(2, int((end - start) / 40))
        if all(value == int(value) for value in values):  # so are the ticks
            room = min(room, max(1, int(last - first)))
        steps = even_steps(first, last, room) if first < last else [first]
        ticks = [step for step in steps if first - 1e-9 <= step <= last + 1e-9] or [first, last]
    kept = _thinned(ticks, lambda tick: width_of(short(tick), size) + 6, scale)
    return Axis(label, scale, [Tick(tick, short(tick), True) for tick in kept])


def upwards(
    label: str,
    values: Sequence[float],
    bottom: float,
    top: float,
    text: Callable[[float], str],
    *,
    log: bool,
) -> Axis:
    """A vertical axis between round numbers around the values."""
    low, high = min(values), max(values)
    if log:
        steps = one_two_five(low, high)
        scale = Scale(steps[0], steps[-1], bottom, top, True)
        numbered = [step for step in steps if _is_power_of_ten(step) or len(steps) < 10]
        major = [step for step in steps if _is_power_of_ten(step)]
    else:
        low = min(low, 0.0) if low < 0.4 * high else low  # from zero, unless that wastes the room
        steps = even_steps(low, high)
        scale = Scale(steps[0], steps[-1], bottom, top, False)
        numbered = major = steps
    kept = _thinned(numbered, lambda _: 14, scale)
    return Axis(label, scale, [Tick(s, text(s) if s in kept else "", s in major) for s in steps])


# Labels at the ends of curves


def spread(wanted: Sequence[float], sizes: Sequence[float], low: float, high: float) -> list[float]:
    """Middles of labels of these sizes that do not overlap, moved as little as possible.

    After subtracting the sizes of the labels above, the places only have to be non-decreasing.
    """
    order = np.argsort(wanted, kind="stable")
    heights = np.array(sizes, float)[order]
    offsets = np.cumsum(heights) - heights / 2
    starts = isotonic_regression(np.array(wanted, float)[order] - offsets).x
    middles = np.empty(len(order))
    middles[order] = np.clip(starts, low, max(low, high - heights.sum())) + offsets
    return middles.tolist()


# The chart


class Point(NamedTuple):
    """A point of a curve with its band. Nothing is zero on a logarithmic axis."""

    x: float
    middle: float
    low: float
    high: float
    tip: str = ""  # the tooltip; a point without one has no marker


@dataclass(frozen=True, slots=True)
class Series:
    """One curve."""

    key: str  # the same in every chart, legend and table of a panel
    looks: Looks
    points: list[Point]
    label: tuple[str, ...]  # lines beside its right end
    end: str = ""  # a line below them, in a softer colour
    published: float | None = None  # the paper's value at the end
    published_tip: str = ""

    @property
    def lines(self) -> tuple[str, ...]:
        return (*self.label, self.end) if self.end else self.label


class Mark(NamedTuple):
    """An event, drawn as a vertical line."""

    x: float
    tip: str


@dataclass(frozen=True, slots=True)
class Frame:
    """The size of a chart. A phone gets its own frame: a scaled-down chart would be unreadable."""

    name: str  # a class in the style
    width: int
    height: int  # at least
    line_height: int = 16
    size: float = 12  # of the letters, as in the style
    reach: int = 24  # from the plot to the label
    apart: float = 0  # the least distance of two markers of a curve
    left: int = 0  # room for the numbers of the axis; `draw` computes it, and `right`
    right: int = 0  # room for the labels
    top = TOP

    @property
    def plot_right(self) -> int:
        return self.width - self.right

    @property
    def plot_bottom(self) -> int:
        return self.height - BOTTOM


@dataclass(frozen=True, slots=True)
class Words:
    """The texts of a chart."""

    title: str
    desc: str  # for a screen reader
    x: str
    y: str
    where: str  # makes its ids unique on the page
    heading: str = ""  # above the labels


def draw(
    series: Sequence[Series],
    words: Words,
    frame: Frame,
    *,
    x_log: bool = True,
    y_log: bool = True,
    y_text: Callable[[float], str] = short,
    y_shown: Sequence[float] = (),
    marks: Sequence[Mark] = (),
) -> Markup:
    """The whole chart, the first curve on top, in a frame that grows until the labels fit.

    y_shown: heights that the axis has to show besides those of the curves.
    """
    has_strip = any(curve.published is not None for curve in series)
    lines = sum(len(curve.lines) for curve in series)
    height = max(frame.height, TOP + BOTTOM + frame.line_height * lines)
    heights = [v for curve in series for point in curve.points for v in point[1:4]]
    heights += y_shown
    heights += [curve.published for curve in series if curve.published is not None]
    y = upwards(words.y, heights, height - BOTTOM, TOP, y_text, log=y_log)
    widths = [
        width_of(line, frame.size) * (BOLD if curve.looks.kind == "top" else 1)
        for curve in series
        for line in curve.lines
    ]
    reach = frame.reach + STRIP * has_strip
    right = reach + 14 + max(*widths, width_of(words.heading, frame.size))
    left = 14 + max(width_of(tick.text, frame.size) for tick in y.ticks)
    frame = replace(frame, height=height, left=round(left), right=round(right), reach=reach)
    xs = [point.x for curve in series for point in curve.points]
    x = across(words.x, xs, frame.left, frame.plot_right, log=x_log, size=frame.size)
    sizes = [frame.line_height * len(curve.lines) for curve in series]
    ends = [y.scale(curve.points[-1].middle) for curve in series]
    around = frame.line_height / 2
    middles = spread(ends, sizes, TOP - around, frame.plot_bottom + around)
    below = ("bound", "reference")
    layers = sorted(range(len(series)), key=lambda i: (series[i].looks.kind not in below, -i))
    return picture(
        "chart.svg",
        axes=(x, y),
        frame=frame,
        words=words,
        strip=STRIP if has_strip else 0,
        above=shortened(y.label, frame.plot_right - 12, frame.size),
        below=shortened(x.label, 2 * (frame.plot_right - frame.left), frame.size),
        curves=[_drawn(series[i], x.scale, y.scale, frame.apart, middles[i]) for i in layers],
        marks=[(x.scale(min(max(mark.x, min(xs)), max(xs))), mark.tip) for mark in marks],
    )


def _drawn(series: Series, x: Scale, y: Scale, apart: float, middle: float) -> dict[str, Any]:
    """A curve in the coordinates of its picture, with markers that are not too close together."""
    line, low, high = (
        [f"{x(point.x):.1f} {y(getattr(point, part)):.1f}" for point in series.points]
        for part in ("middle", "low", "high")
    )
    markers, last = [], math.inf
    for spot, point in zip(reversed(line), reversed(series.points), strict=True):
        at = x(point.x)
        if point.tip and last - at >= apart:
            markers.append((spot, point.tip))
            last = at
    return {
        "series": series,
        "line": line,
        "band": high + low[::-1],
        "markers": markers[::-1],
        "middle": middle,
    }


# Bars


class Bar(NamedTuple):
    """A bar between two places of a logarithmic axis."""

    low: float
    high: float
    size: float
    tip: str


def draw_bars(
    bars: Sequence[Bar],
    words: Words,
    frame: Frame,
    ticks: Sequence[Tick],
    y_text: Callable[[float], str] = short,
) -> Markup:
    """How a quantity is distributed. ticks: of the horizontal axis, which is logarithmic."""
    sizes = [0.0, *(bar.size for bar in bars)]
    y = upwards(words.y, sizes, frame.plot_bottom, TOP, y_text, log=False)
    left = 14 + max(width_of(tick.text, frame.size) for tick in y.ticks)
    frame = replace(frame, left=round(left), right=14)
    scale = Scale(bars[0].low, bars[-1].high, frame.left, frame.plot_right, True)
    inside = [tick for tick in ticks if bars[0].low <= tick.value <= bars[-1].high]
    room = max((width_of(tick.text) for tick in inside), default=0) + 8
    kept = _thinned([tick.value for tick in inside], lambda _: room, scale)
    x = Axis(words.x, scale, [tick for tick in inside if tick.value in kept])
    return picture(
        "bars.svg",
        axes=(x, y),
        frame=frame,
        words=words,
        above=shortened(y.label, frame.plot_right - 12, frame.size),
        below=shortened(x.label, 2 * (frame.plot_right - frame.left), frame.size),
        bars=[(x.scale(bar.low), x.scale(bar.high), y.scale(bar.size), bar.tip) for bar in bars],
    )
