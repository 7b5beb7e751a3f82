"""The pictures of a study's page: its charts, and the paper's numbers against ours."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from markupsafe import Markup

from onebit.lab.studies.findings import Chart, Curve
from onebit.lab.studies.verdict import NEAR, ROUGH, Pair, is_number, last_mean
from onebit.pages import charts
from onebit.pages.charts import Frame, Looks, Point, short, wrapped
from onebit.pages.rendering import picture

# A chart alone in its section, one of two or four, one of many; the last also suits a phone.
FRAMES = {
    1: Frame("wide", 960, 400, apart=26),
    2: Frame("wide", 500, 320, apart=26),
    3: Frame("small", 350, 260, 14, 11, 12, apart=20),
}
PHONE = Frame("narrow", 350, 280, 14, 11, 12, apart=20)
SINGLE = 600  # charts wider than this stand alone in their section


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


def names(chart: Chart) -> list[str]:
    """A name for each curve: the method, and its settings where a method comes twice."""
    methods = Counter(curve.method for curve in chart.curves)
    return [
        f"{curve.method} {curve.settings}".rstrip() if methods[curve.method] > 1 else curve.method
        for curve in chart.curves
    ]


def columns(count: int) -> int:
    """How many of `count` charts are side by side on a desktop."""
    return {1: 1, 2: 2, 4: 2}.get(count, 3)


def _frames(count: int) -> list[Frame]:
    """The frames of each of `count` charts. Large charts have another frame for phones."""
    side_by_side = columns(count)
    return [FRAMES[side_by_side], *([PHONE] if side_by_side < 3 else [])]


def without_beginning(chart: Chart) -> Chart:
    """A chart over rounds, without the first rounds, which say little."""
    first = charts.first_drawn([x for curve in chart.curves for x in curve.x])
    if chart.x_label != "rounds" or first == 1:
        return chart
    curves = [_from(curve, first) for curve in chart.curves]
    return replace(chart, x_label=charts.from_round(first), curves=curves)


def _from(curve: Curve, first: int) -> Curve:
    kept = [i for i, x in enumerate(curve.x) if x >= first]
    lists = {key: getattr(curve, key) for key in ("x", "mean", "low", "high")}
    return replace(curve, **{key: [values[i] for i in kept] for key, values in lists.items()})


def numbered(section: list[Chart]) -> bool:
    """Whether names do not fit into a chart, so that numbers replace them."""
    frames = _frames(len(section))
    return any(_too_long(names(chart), frame) for chart in section for frame in frames)


def _too_long(names: Iterable[str], frame: Frame) -> bool:
    lines = sum(len(_label(name, "", frame)) + 1 for name in names)
    return lines * frame.line_height > 2 * frame.height


class _Drawn(NamedTuple):
    """A curve whose values can be drawn: none is zero on a logarithmic axis."""

    name: str
    curve: Curve
    points: list[Point]  # empty: there is nothing to draw
    published: float | None

    def end(self, percent: bool) -> str:
        """Our value at the end, and the paper's, if there is one."""
        ours = shown(last_mean(self.curve) or 0.0, percent)
        if is_number(self.curve.published):
            return f"{ours.rstrip('%')} | {_as_published(self.curve.published, percent)}"
        return ours


def _curves(chart: Chart) -> list[_Drawn]:
    """All curves. Zero is drawn at half of the least number, if the axis is logarithmic."""
    ys = [y for curve in chart.curves for y in (*curve.mean, *curve.low, *curve.high)]
    ys += [curve.published for curve in chart.curves if curve.published is not None]
    floor_x = _floor((x for curve in chart.curves for x in curve.x), chart.x_log)
    floor_y = _floor(ys, chart.y_log)

    def points(curve: Curve) -> Iterable[Point]:
        for x, mean, low, high in zip(curve.x, curve.mean, curve.low, curve.high, strict=True):
            if math.isfinite(x) and math.isfinite(mean):
                low, high = (v if math.isfinite(v) else mean for v in (low, high))
                ys = [_lifted(v, floor_y) for v in (mean, low, high)]
                yield Point(_lifted(x, floor_x), *ys, tip=_tip(curve, chart, x, mean, low, high))

    return [
        _Drawn(
            name,
            curve,
            sorted(points(curve)),
            _lifted(curve.published, floor_y) if is_number(curve.published) else None,
        )
        for name, curve in zip(names(chart), chart.curves, strict=True)
    ]


def _floor(values: Iterable[float], log: bool) -> float:
    above = (v for v in values if v > 0 and math.isfinite(v))
    return min(above, default=1.0) / 2 if log else -math.inf


def _lifted(value: float, floor: float) -> float:
    return value if value > 0 else max(value, floor)


def _tip(curve: Curve, chart: Chart, x: float, mean: float, low: float, high: float) -> str:
    middle, least, most = (shown(value, chart.y_percent) for value in (mean, low, high))
    band = "" if low == high else f" ({least} to {most})"
    reference = "\n(reference: receives the true label)" if curve.full_information else ""
    settings = f"\n{curve.settings}" if curve.settings else ""
    return f"{curve.method}: {middle}{band}\n{chart.x_label}: {x:,.6g}{settings}{reference}"


def drawing(chart: Chart, looks: dict[str, Looks], section: list[Chart], where: str) -> Markup:
    """The chart as SVG in each frame of its section; empty if there is nothing to draw."""
    drawn = [curve for curve in _curves(chart) if curve.points]
    if not drawn:
        return Markup("")
    percent, with_numbers = chart.y_percent, numbered(section)
    heading = "ours | paper" if any(curve.published is not None for curve in drawn) else ""
    at_end = "; ".join(f"{curve.name} {curve.end(percent)}" for curve in drawn)
    words = charts.Words(
        title=f"{chart.title}: {chart.y_label} against {chart.x_label}",
        desc=f"At the end, ours{' | the paper' if heading else ''}: {at_end}.",
        x=chart.x_label,
        y=chart.y_label,
        where=where,
        heading=heading,
    )

    def series(curve: _Drawn, frame: Frame, brief: bool) -> charts.Series:
        number = f"{number_of(curve.name, looks)} " if with_numbers else ""
        end = curve.end(percent)
        return charts.Series(
            key_of(curve.name, looks),
            looks[curve.name],
            curve.points,
            (number + end,) if brief else _label(number + curve.name, end, frame),
            "" if brief or frame.width > SINGLE else end,
            curve.published,
            f"{curve.name}\nin the paper: {_as_published(curve.curve.published or 0, percent)}",
        )

    pictures = []
    for frame in _frames(len(section)):
        brief = _too_long((curve.name for curve in drawn), frame)
        pictures.append(
            charts.draw(
                [series(curve, frame, brief) for curve in drawn],
                words,
                frame,
                x_log=chart.x_log,
                y_log=chart.y_log,
                y_text=(lambda share: f"{short(100 * share)}%") if percent else short,
            )
        )
    return Markup("").join(pictures)


def not_drawn(chart: Chart) -> list[str]:
    return [curve.name for curve in _curves(chart) if not curve.points]


def has_zero(chart: Chart) -> bool:
    """Whether a value is zero on a logarithmic axis."""
    return any(
        (chart.x_log and x <= 0) or (chart.y_log and mean <= 0)
        for curve in chart.curves
        for x, mean in zip(curve.x, curve.mean, strict=True)
        if math.isfinite(x) and math.isfinite(mean)
    )


def _label(name: str, end: str, frame: Frame) -> tuple[str, ...]:
    """The name in lines; in a large chart with the number at the end."""
    if frame.width > SINGLE:
        return tuple(wrapped(f"{name} {end}", 330))
    return tuple(wrapped(name, 130 if frame.size == 12 else 84, frame.size))


def number_of(name: str, looks: dict[str, Looks]) -> int:
    return list(looks).index(name) + 1


def key_of(name: str, looks: dict[str, Looks]) -> str:
    return f"m{number_of(name, looks)}"


# The paper's numbers against ours

DOT = 8  # across
WORDS = {"near": f"within {NEAR:.0%}", "rough": f"within {ROUGH:.0%}", "far": "further"}


def ratios(pairs: list[Pair], where: str, width: int = 340) -> Markup:
    """A dot for each number, placed by the ratio of ours to the paper's; far ones at the edges."""
    scale = charts.Scale(0.5, 2.0, 30, width - 30, True)
    stacks: dict[int, list[Pair]] = {}
    for pair in sorted(pairs, key=lambda pair: pair.ratio):
        at = scale(min(max(pair.ratio, 0.5), 2.0))
        stacks.setdefault(round((at - width / 2) / DOT), []).append(pair)
    tallest = max(map(len, stacks.values()))
    step = min(DOT, 120 / tallest)
    bottom = 34 + round(step * tallest)
    dots = [
        {
            "pair": pair,
            "words": pair_in_words(pair),
            "x": width / 2 + DOT * column,
            "y": bottom - 6 - step * height,
        }
        for column, stack in sorted(stacks.items())
        for height, pair in enumerate(stack)
    ]
    zones = [(scale(1 - away), scale(1 + away) - scale(1 - away)) for away in (ROUGH, NEAR)]
    counted = Counter(pair.nearness for pair in pairs)
    counts = ", ".join(f"{counted[near]} {words}" for near, words in WORDS.items())
    return picture(
        "ratios.svg",
        width=width,
        bottom=bottom,
        scale=scale,
        zones=zones,
        dots=dots,
        counts=f"{counts}.",
        where=where,
    )


def pair_in_words(pair: Pair) -> str:
    ours, paper = shown(pair.ours, pair.percent), _as_published(pair.published, pair.percent)
    table = f" ({pair.table})" if pair.table else ""
    return f"{pair.name}{table}: paper {paper}, ours {ours}"
