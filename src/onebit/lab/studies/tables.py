"""The tables of a study's page: ours and its spread, the paper's number, the difference."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from onebit.lab.studies.findings import Table, Value
from onebit.lab.studies.verdict import is_number, nearness


def number_table(table: Table, *, quick: bool) -> dict[str, Any]:
    """The data of a table for the template.

    quick: ours are not comparable with the paper's; the difference is left out.
    """
    values = [value for row in table.values for value in row]
    style = _format(values, table.unit, quick)
    numbers = [[_number(value, style) for value in row] for row in table.values]
    marks = [len(marks) for v in values for marks in (v.marks, v.published_marks)]
    seconds = [len(n[name]) for row in numbers for n in row for name in ("spread", "difference")]
    return {
        "table": table,
        "style": style,
        "entries": values,
        "numbers": numbers,
        "has_spread": any(is_number(value.spread) for value in values),
        # Room for the marks and for the second column of a cell: all cells align.
        "marks": max(marks, default=0),
        "second": max(seconds, default=0),
    }


def _number(value: Value, style: NumberFormat) -> dict[str, Any]:
    """A value as text; what is absent is empty."""
    ours = paper = spread = difference = near = ""
    if is_number(value.ours):
        ours = _rounded(style.times * value.ours, style.decimals)
        if is_number(value.spread):
            spread = f"± {_rounded(style.times * value.spread, style.decimals)}"
    if is_number(value.published):
        paper = _as_printed(style.times * value.published)
    if is_number(value.ours) and is_number(value.published):
        away = round(style.times * (value.ours - value.published), style.decimals)
        sign = "+" if away > 0 else "−" if away < 0 else ""
        difference = f"{sign}{abs(away):,.{style.decimals}f}"
        near = nearness(value.ours, value.published)
    return {
        "value": value,
        "ours": ours,
        "ours_ghost": _ghost(ours, style),
        "spread": spread,
        "paper": paper,
        "paper_ghost": _ghost(paper, style),
        "difference": difference,
        "nearness": near,
    }


# How numbers are written


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """How the numbers of one table are written."""

    times: float  # 100 for shares
    decimals: int  # digits after the point, of most of ours
    room: int  # the most digits after a point
    with_paper: bool  # the paper gives a number somewhere
    compared: bool  # ours can be compared with it


def _format(values: list[Value], unit: str, quick: bool) -> NumberFormat:
    times = 100 if unit == "%" else 1
    ours = [times * v.ours for v in values if is_number(v.ours)]
    paper = [times * v.published for v in values if is_number(v.published)]
    decimals = 2 if unit == "%" else _decimals(ours + paper)
    written = [_rounded(n, decimals) for n in ours] + [_as_printed(n) for n in paper]
    return NumberFormat(
        times, decimals, max(map(_fraction, written), default=0), bool(paper), not quick
    )


def _decimals(numbers: list[float]) -> int:
    largest = max(map(abs, numbers), default=0.0)
    if largest >= 1000 or all(number == int(number) for number in numbers):
        return 0
    return 2 if largest >= 1 else min(5, 2 - math.floor(math.log10(largest)))


def _rounded(number: float, decimals: int) -> str:
    """The number with these decimals, or more if a small number would be shown as zero."""
    if 0 < abs(number) < 0.5 * 10**-decimals:
        decimals = min(5, -math.floor(math.log10(abs(number))))
    return f"{number:,.{decimals}f}"


def _as_printed(number: float) -> str:
    return f"{number:,.10g}"


def _fraction(number: str) -> int:
    return len(number.partition(".")[2])


def _ghost(number: str, style: NumberFormat) -> str:
    """The digits that a number lacks so that the points of a column align."""
    lacking = style.room - _fraction(number)
    return ("" if "." in number or not lacking else ".") + "0" * lacking
