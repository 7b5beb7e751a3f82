"""The tables of a study's page: ours and its spread, the paper's number, the difference."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

from onebit.lab.studies.findings import RatesTable, Table, Value
from onebit.lab.studies.plots import WORDS
from onebit.lab.studies.verdict import is_number, nearness
from onebit.pages.charts import Looks, swatch
from onebit.pages.shell import cell


def table_of(table: Table, looks: dict[str, Looks], where: str, *, quick: bool) -> str:
    """Methods across; a column has the looks of the method's curves.

    quick: ours are not comparable with the paper's; the difference is left out.
    """
    values = [value for row in table.values for value in row]
    form = _form(values, table.unit, quick)
    head = "".join(
        f'<th scope="col">{swatch(looks[m]) if m in looks else ""}<span>{escape(m)}</span></th>'
        for m in table.methods
    )
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th>'
        f"{''.join(map(cell, table.methods, (_inside(value, form) for value in row)))}</tr>\n"
        for name, row in zip(table.rows, table.values, strict=True)
    )
    unit = {"%": "in per cent", "s": "in seconds"}.get(table.unit, table.unit)
    return f"""<h3 class="title" id="{where}">{escape(table.title)}</h3>
<p class="note">{escape(_sentences(table.caption, *_reading(values)))}</p>
{_how_to_read(values, form) if form.with_paper else ""}
<div class="scroll" role="region" aria-labelledby="{where}" tabindex="0">
<table class="numbers" style="--methods:{len(table.methods)};{_widths(values, form)}">
<thead><tr><th scope="col">{escape(unit)}</th>{head}</tr></thead>
<tbody>{rows}</tbody></table></div>"""


def rates_of(table: RatesTable, where: str) -> str:
    """Rates of flips, true and estimated."""
    heads = "".join(
        f'<th scope="colgroup" colspan="{len(table.sources)}">{escape(name)}</th>'
        for name in table.data
    )
    sources = "".join(f'<th scope="col">{escape(s)}</th>' for s in table.sources) * len(table.data)
    columns = [f"{data}, {source}" for data in table.data for source in table.sources]
    rows = "".join(
        f'<tr><th scope="row">{_pair(truth)}</th>'
        f"{''.join(map(cell, columns, (_pair(found) for block in line for found in block)))}</tr>\n"
        for truth, line in zip(table.truth, table.values, strict=True)
    )
    offs = ["–" if off is None else f"{off:.3f}" for block in table.away for off in block]
    away = "".join(map(cell, columns, offs))
    return f"""<h3 class="title" id="{where}">{escape(table.title)}</h3>
<p class="note">{escape(table.caption)}</p>
<div class="scroll" role="region" aria-labelledby="{where}" tabindex="0">
<table class="rates">
<thead><tr><th scope="col"></th>{heads}</tr><tr><th scope="col">true</th>{sources}</tr></thead>
<tbody>{rows}<tr><th scope="row">away</th>{away}</tr></tbody></table></div>"""


def _pair(rates: tuple[float, float] | None) -> str:
    return "–" if rates is None else f"{rates[0]:.3f}, {rates[1]:.3f}"


def _how_to_read(values: list[Value], form: Form) -> str:
    """A cell in words, then what the balls mean."""
    repeated = any(is_number(value.spread) for value in values)
    spread = '<span class="sd">± spread</span>' if repeated else ""
    difference = '<span class="diff">difference</span>' if form.compared else ""
    return (
        '<div class="reading"><span class="value how"><span class="ours">ours</span>'
        f'{spread}<span class="paper">paper</span>'
        f"{difference}</span>{key() if form.compared else ''}</div>"
    )


def _reading(values: list[Value]) -> list[str]:
    told = []
    if any(value.bold for value in values):
        told.append("Bold: the lowest of those compared.")
    if any(value.underlined for value in values):
        told.append("Underlined: the lowest of those that hear only right or wrong.")
    return told


def _sentences(*texts: str) -> str:
    return " ".join(
        text if text.endswith((".", "!", "?")) else f"{text}." for text in texts if text
    )


# How numbers are written


@dataclass(frozen=True, slots=True)
class Form:
    """How the numbers of one table are written."""

    times: float  # 100 for shares
    decimals: int  # digits after the point, of most of ours
    room: int  # the most digits after a point
    with_paper: bool  # the paper gives a number somewhere
    compared: bool  # ours can be compared with it


def _form(values: list[Value], unit: str, quick: bool) -> Form:
    times = 100 if unit == "%" else 1
    ours = [times * v.ours for v in values if is_number(v.ours)]
    paper = [times * v.published for v in values if is_number(v.published)]
    decimals = 2 if unit == "%" else _decimals(ours + paper)
    written = [_rounded(n, decimals) for n in ours] + [_as_printed(n) for n in paper]
    return Form(times, decimals, max(map(_fraction, written), default=0), bool(paper), not quick)


def _decimals(numbers: list[float]) -> int:
    largest = max(map(abs, numbers), default=0.0)
    if largest >= 1000 or all(number == int(number) for number in numbers):
        return 0
    return 2 if largest >= 1 else min(5, 2 - math.floor(math.log10(largest)))


def _rounded(number: float, decimals: int) -> str:
    """With more digits where a small number would come out as zero."""
    if 0 < abs(number) < 0.5 * 10**-decimals:
        decimals = min(5, -math.floor(math.log10(abs(number))))
    return f"{number:,.{decimals}f}"


def _as_printed(number: float) -> str:
    return f"{number:,.10g}"


def _fraction(number: str) -> int:
    return len(number.partition(".")[2])


def _ghost(number: str, form: Form) -> str:
    """Invisible digits after a number that has fewer than others, so that the points align."""
    lacking = form.room - _fraction(number)
    if not lacking:
        return ""
    point = "" if "." in number else "."
    return f'<i class="ghost" aria-hidden="true">{point}{"0" * lacking}</i>'


# Cells


def _widths(values: list[Value], form: Form) -> str:
    """Room for the marks and for the second column of a cell: all cells align."""
    marks = [len(marks) for v in values for marks in (v.marks, v.published_marks)]
    seconds = [len(text) for v in values for text in (_spread(v, form), _difference(v, form))]
    return f"--marks:{max(marks, default=0)};--second:{max(seconds, default=0)}"


def _inside(value: Value, form: Form) -> str:
    """Ours and its spread; below them the paper's number and the difference."""
    parts = [_ours(value, form)]
    if spread := _spread(value, form):
        parts.append(f'<span class="sd">{spread}</span>')
    if form.with_paper:
        parts.append(_paper(value, form))
    if form.compared and is_number(value.ours) and is_number(value.published):
        near = ball(nearness(value.ours, value.published))
        parts.append(f'<span class="diff">{_difference(value, form)} {near}</span>')
    return f'<span class="value">{"".join(parts)}</span>'


def _ours(value: Value, form: Form) -> str:
    if not is_number(value.ours):
        return f'<span class="absent">{escape(value.absent)}</span>'
    ours = _rounded(form.times * value.ours, form.decimals)
    style = " bold" * value.bold + " underlined" * value.underlined
    number = f'<span class="number{style}">{ours}</span>{_marks(value.marks)}'
    return f'<span class="ours">{number}{_ghost(ours, form)}</span>'


def _paper(value: Value, form: Form) -> str:
    if not is_number(value.published):
        told = f"–{_marks(value.published_marks)}"
        return f'<span class="paper" title="the paper gives no number">{told}</span>'
    printed = _as_printed(form.times * value.published)
    number = f"{printed}{_marks(value.published_marks)}{_ghost(printed, form)}"
    return f'<span class="paper"><span class="said">paper </span>{number}</span>'


def _spread(value: Value, form: Form) -> str:
    if not (is_number(value.ours) and is_number(value.spread)):
        return ""
    return f"± {_rounded(form.times * value.spread, form.decimals)}"


def _difference(value: Value, form: Form) -> str:
    if not (is_number(value.ours) and is_number(value.published)):
        return ""
    away = round(form.times * (value.ours - value.published), form.decimals)
    sign = "+" if away > 0 else "−" if away < 0 else ""
    return f"{sign}{abs(away):,.{form.decimals}f}"


def _marks(marks: str) -> str:
    return f"<sup>{escape(marks)}</sup>" if marks else ""


def ball(near: str) -> str:
    """Full, half or empty, by how near ours comes to the paper's number."""
    return f'<i class="ball {near}" role="img" aria-label="{WORDS[near]}"></i>'


def key() -> str:
    items = "".join(f"<li>{ball(near)} {text}</li>" for near, text in WORDS.items())
    return f'<ul class="key">{items}</ul>'
