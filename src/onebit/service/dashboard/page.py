"""The page of the dashboard: charts, tables and words from the statistics of a model."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from markupsafe import Markup

from onebit.pages import charts
from onebit.pages.charts import Bar, Frame, Mark, Point, Series, Tick, Words
from onebit.pages.rendering import TEMPLATES, csv_cell, percent, render
from onebit.service.dashboard.influence import Influence
from onebit.service.dashboard.model_card import ModelCard, ShownDecision
from onebit.service.dashboard.statistics import (
    RECENT,
    Alarm,
    Counts,
    LabelCounts,
    Report,
    Stretch,
    interval,
    joined,
    sum_of,
)
from onebit.service.messages import Label, ShadowCard

Order = Literal["said", "accuracy", "name"]
ORDERS: tuple[Order, ...] = get_args(Order)
POINTS = (12, 64)  # of a curve, at least and at most
ANSWERS = 200  # per point of a curve, if there are enough
ROWS = 25  # of the table of labels
LONGEST = 120  # characters of a label
TABLES = ("rounds", "labels", "delays", "alarms", "shadows", "decisions")  # that can be had as csv
_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
_DELAY_TICKS = (0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 21600, 86400, 604800, 30 * 86400)


# Words


def duration(seconds: float) -> str:
    """12 ms, 1.5 s, 12 min, 3 h, 2 d."""
    for size, unit in _UNITS:
        if seconds >= size:
            value = seconds / size
            return f"{value:.0f} {unit}" if value >= 10 else f"{float(f'{value:.2g}'):g} {unit}"
    return f"{float(f'{1000 * seconds:.2g}'):g} ms"


def moment(seconds: float) -> str:
    """2026-11-16 18:40:05, in UTC."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return "–"


def per_cent(share: float | None, digits: int = 1) -> str:
    return "–" if share is None else f"{percent(share, digits)} %"


def span(low_high: tuple[float, float]) -> str:
    low, high = low_high
    return f"{percent(low, 1)} to {percent(high, 1)} %"


def size(amount: float) -> str:
    """Bytes in words."""
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            break
        amount /= 1000
    return f"{amount:.3g} {unit}"


def cut(label: Label) -> str:
    text = str(label)
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


TEMPLATES.filters |= {
    "duration": duration, "moment": moment, "per_cent": per_cent, "span": span, "cut": cut,
    "size": size,
}  # fmt: skip


# What is shown


@dataclass(frozen=True)
class View:
    """All that a page shows of a model."""

    report: Report
    card: ModelCard
    decisions: list[ShownDecision]
    influences: list[Influence]
    shadows: dict[str, ShadowCard]
    is_computing: bool = False  # the influences anew
    search: str = ""
    order: Order = "said"


def whole_page(model: str, view: View | None, version: str) -> str:
    """The page. Without a view, its script asks for a token and fetches the parts."""
    shown = parts(view) if view else ""
    return render("dashboard.html", model=model, parts=shown, version=version)


def list_page(models: Sequence[Counted] | None, version: str) -> str:
    """The page of all models. Without a list, its script asks for a token."""
    shown = "" if models is None else list_parts(models)
    return render("dashboards.html", parts=shown, version=version)


def problem_page(title: str, detail: str, version: str) -> str:
    """Why there is nothing to show."""
    return render("dashboard_problem.html", title=title, detail=detail, version=version)


@dataclass(frozen=True)
class Counted:
    """A model and its totals."""

    name: str
    title: str
    report: Report


def list_parts(models: Sequence[Counted]) -> Markup:
    return Markup(render("dashboards_parts.html", models=models))


def parts(view: View) -> Markup:
    """The part of the page that changes while rounds come."""
    report = view.report
    least, most = POINTS
    points = min(max(report.total.answered // ANSWERS, least), most)
    stretches = joined(report.stretches, points)
    labels, further = _chosen_labels(report.labels, view.search, view.order)
    return Markup(
        render(
            "dashboard_parts.html",
            view=view,
            report=report,
            card=view.card,
            total=report.total,
            lately=report.lately,
            recent=RECENT[1],
            exploring=_exploring(report),
            figures=_figures(report, stretches),
            compared=_compared(view),
            median=report.quantile(0.5),
            most=report.quantile(0.9),
            alarm=report.alarms[-1] if report.alarms else None,
            labels=labels,
            further=sum_of(further),
            further_count=len(further),
        )
    )


def _exploring(report: Report) -> str:
    """How labels other than the best were chosen: by chance, or by a rule that uses none."""
    if not report.total.decisions:
        return ""
    if report.smallest_propensity < 1:
        return f"by chance, smallest propensity {report.smallest_propensity:.2g}"
    return "by rule, not by chance" if report.total.explored else "nothing left to chance"


def _chosen_labels(
    labels: Sequence[LabelCounts], search: str, order: Order
) -> tuple[list[LabelCounts], list[LabelCounts]]:
    """The labels of the table, and those for which it has no room."""
    found = [counts for counts in labels if search.lower() in str(counts.label).lower()]
    if order == "accuracy":  # by the upper end: few answers are no proof of a poor label
        found.sort(key=lambda counts: (counts.accuracy_interval[1], -counts.decisions))
    elif order == "name":
        found.sort(key=lambda counts: str(counts.label).lower())
    return found[:ROWS], found[ROWS:]


# Charts


@dataclass(frozen=True)
class Figure:
    """A chart in its two sizes; empty: there is nothing to draw yet."""

    name: str
    title: str
    note: str
    table: str  # the csv with its numbers
    drawn: Markup


def _figures(report: Report, stretches: Sequence[Stretch]) -> dict[str, Figure]:
    return {
        "error": Figure(
            "error",
            "Answered rounds that were wrong",
            "Per stretch of rounds, with its 95 % interval, and since the start."
            + (" A triangle marks a drift alarm." if report.alarms else ""),
            "rounds",
            _error_charts(report, stretches),
        ),
        "shares": Figure(
            "shares",
            "Explored, answered, silent",
            "Shares of the rounds of a stretch. The newest rounds may still be answered.",
            "rounds",
            _share_charts(stretches),
        ),
        "delay": Figure(
            "delay",
            "Delay until the answer",
            "How long after the decision its answer came. The axis is logarithmic.",
            "delays",
            _delay_charts(report),
        ),
    }


WIDE, HALF = Frame("wide", 1000, 340, apart=26), Frame("wide", 530, 300, apart=26, reach=14)
NARROW = Frame("narrow", 380, 300, line_height=14, reach=10, apart=22)


def _twice(draw: Callable[[Frame], Markup], large: Frame) -> Markup:
    """The same chart for a desktop and for a phone."""
    return Markup("").join(draw(frame) for frame in (large, NARROW))


def _share_text(share: float) -> str:
    return f"{100 * share:g}%"


def _rounds(stretch: Stretch) -> str:
    when = moment(stretch.end)
    return f"rounds {stretch.first:,} to {stretch.last:,}\nuntil {when} UTC"


def _error_charts(report: Report, stretches: Sequence[Stretch]) -> Markup:
    now, since, far = [], [], Counts()
    for stretch in stretches:
        far.add(stretch)
        if stretch.answered:
            now.append(_point(stretch, stretch.wrong, stretch.answered, "wrong"))
        if far.answered:
            error, (low, high) = far.wrong / far.answered, far.error_interval
            tip = f"{per_cent(error, 2)} wrong since the start\nup to round {stretch.last:,}"
            since.append(Point(stretch.last, error, low, high, tip))
    if not now:
        return Markup("")
    total, last = report.total, now[-1]
    words = Words(
        title="Answered rounds that were wrong, against rounds",
        desc=f"In the last stretch {per_cent(last.middle)} of the answered rounds were wrong, "
        f"since the start {per_cent(total.error)}.",
        x="rounds",
        y="wrong, of the answered",
        where="error",
    )
    marks = [Mark(alarm.round, _alarm_tip(alarm)) for alarm in report.alarms]
    series = [
        _series(0, now, "per stretch"),
        _series(1, since, "since start"),
    ]
    return _twice(lambda frame: _draw(series, words, frame, marks), WIDE)


def _alarm_tip(alarm: Alarm) -> str:
    return (
        f"drift alarm: right answers had become rarer\nround {alarm.round:,}, "
        f"{moment(alarm.time)} UTC"
    )


def _point(stretch: Stretch, count: int, total: int, what: str) -> Point:
    low, high = interval(count, total)
    tip = (
        f"{per_cent(count / total, 2)} {what} ({span((low, high))})\n"
        f"{count:,} of {total:,}, {_rounds(stretch)}"
    )
    return Point(stretch.last, count / total, low, high, tip)


def _series(number: int, points: list[Point], name: str) -> Series:
    return Series(
        name, charts.coloured(number), points, (name,), f"{percent(points[-1].middle, 1)}%"
    )


def _draw(
    series: Sequence[Series], words: Words, frame: Frame, marks: Sequence[Mark] = ()
) -> Markup:
    return charts.draw(
        series, words, frame, x_log=False, y_log=False, y_text=_share_text, marks=marks
    )


def _share_charts(stretches: Sequence[Stretch]) -> Markup:
    shown = [stretch for stretch in stretches if stretch.decisions]
    if not shown:
        return Markup("")
    kinds: list[tuple[str, str, Callable[[Counts], int]]] = [
        ("explored", "explored", lambda counts: counts.explored),
        ("answered", "answered", lambda counts: min(counts.answered, counts.decisions)),
        ("silent", "without an answer", lambda counts: max(counts.waiting, 0)),
    ]
    if any(stretch.silences for stretch in shown):
        kinds.append(("read as wrong", "silence read as wrong", lambda counts: counts.silences))
    series = [
        _series(
            2 + number,
            [_point(stretch, count(stretch), stretch.decisions, what) for stretch in shown],
            name,
        )
        for number, (name, what, count) in enumerate(kinds)
    ]
    last = ", ".join(f"{curve.key} {curve.end}" for curve in series)
    words = Words(
        title="Explored, answered and silent rounds, against rounds",
        desc=f"In the last stretch: {last}.",
        x="rounds",
        y="of the rounds",
        where="shares",
    )
    return _twice(lambda frame: _draw(series, words, frame), HALF)


@dataclass(frozen=True)
class Beside:
    """A shadow beside who speaks, as text."""

    name: str
    card: ShadowCard
    key: str
    difference: str
    interval: str
    bracket: str
    settings: str


@dataclass(frozen=True)
class Compared:
    """The shadows of a model."""

    speaker: str
    shadows: list[Beside]
    drawn: Markup


def _compared(view: View) -> Compared:
    shadows = [
        Beside(
            name,
            card,
            str(number + 1),
            "none" if card.difference is None else _signed(card.difference),
            _ends(card.interval),
            _ends(card.bracket),
            ", ".join(f"{key} = {value}" for key, value in card.settings.items()),
        )
        for number, (name, card) in enumerate(view.shadows.items())
    ]
    speaker = view.card.speaker or "another system"
    return Compared(speaker, shadows, _difference_charts(speaker, shadows))


def _signed(difference: float) -> str:
    return f"{'+' if difference > 0 else ''}{percent(difference, 1)} %"


def _ends(ends: Any) -> str:
    return "–" if ends is None else f"{_signed(ends.low)} to {_signed(ends.high)}"


def _difference_points(shadow: Beside, speaker: str) -> list[Point]:
    """Without an estimate, the curve is the middle of the interval."""
    card, points = shadow.card, []
    found = [(at.rounds, at.difference, at.low, at.high) for at in card.curve]
    if card.interval is not None and card.rounds and card.rounds not in [at[0] for at in found]:
        found.append((card.rounds, card.difference, card.interval.low, card.interval.high))
    for rounds, difference, low, high in found:
        middle = (low + high) / 2 if difference is None else difference
        said = "no estimate" if difference is None else _signed(difference)
        tip = (
            f"{shadow.name} minus {speaker}: {said}\n"
            f"{_signed(low)} to {_signed(high)}, after {rounds:,} answers"
        )
        points.append(Point(rounds, middle, min(low, middle), max(high, middle), tip))
    return points


def _difference_charts(speaker: str, shadows: Sequence[Beside]) -> Markup:
    drawn = [(shadow, _difference_points(shadow, speaker)) for shadow in shadows]
    series = [
        Series(
            shadow.key, charts.coloured(int(shadow.key) - 1), points,
            (shadow.name if len(shadow.name) <= 20 else f"{shadow.name[:19]}…",),
            shadow.difference,
        )
        for shadow, points in drawn
        if points
    ]  # fmt: skip
    if not series:
        return Markup("")
    words = Words(
        title=f"Right labels, shadow minus {speaker}, against answers",
        desc="; ".join(f"{s.name}: {s.difference}, {s.interval}" for s in shadows),
        x="answers to who speaks",
        y=f"right labels, shadow minus {speaker}",
        where="shadows",
    )
    return _twice(
        lambda frame: charts.draw(
            series, words, frame, x_log=False, y_log=False, y_text=_share_text, y_shown=[0.0]
        ),
        WIDE,
    )


def _delay_charts(report: Report) -> Markup:
    total = sum(delay.answers for delay in report.delays)
    if not total:
        return Markup("")
    filled = [i for i, delay in enumerate(report.delays) if delay.answers]
    first, last = max(min(filled) - 1, 0), min(max(filled) + 1, len(report.delays) - 1)
    bars = []
    for delay in report.delays[first : last + 1]:
        low = delay.low or delay.high / 10**0.25
        high = delay.high if math.isfinite(delay.high) else low * 10**0.25
        between = f"after {duration(low)} to {duration(high)}"
        if not delay.low:
            between = f"within {duration(high)}"
        elif not math.isfinite(delay.high):
            between = f"after more than {duration(low)}"
        tip = f"{per_cent(delay.answers / total)} of the answers\n{between}: {delay.answers:,}"
        bars.append(Bar(low, high, delay.answers / total, tip))
    middle, most = report.quantile(0.5) or 0, report.quantile(0.9) or 0
    words = Words(
        title="Delay until the answer, on a logarithmic axis",
        desc=f"Half of the answers came within {duration(middle)}, 90 % within {duration(most)}.",
        x="time until the answer",
        y="of the answers",
        where="delay",
    )
    ticks = [Tick(tick, duration(tick), True) for tick in _DELAY_TICKS]
    return _twice(lambda frame: charts.draw_bars(bars, words, frame, ticks, _share_text), HALF)


# Numbers


def numbers(view: View) -> dict[str, Any]:
    """All numbers of a page, for JSON."""
    report = view.report
    return {
        "model": report.model,
        "position": report.position,
        "end": report.end,
        "read_share": report.read_share,
        "compacted_until": report.base,
        "total": _counts(report.total),
        "lately": {
            "answered": report.lately.answered, "wrong": report.lately.wrong,
            **_interval("error", report.lately.wrong, report.lately.answered),
        },
        "smallest_propensity": report.smallest_propensity,
        "delay": {"median": report.quantile(0.5), "nine_in_ten": report.quantile(0.9)},
        **{name: rows_of(name, view) for name in TABLES},
        "influences": view.influences,
        "card": view.card,
    }  # fmt: skip


def _interval(name: str, count: int, total: int) -> dict[str, float | None]:
    low, high = interval(count, total)
    found = count / total if total else None
    return {name: found, f"{name}_low": low, f"{name}_high": high}


def _counts(counts: Counts) -> dict[str, Any]:
    return {
        **{name: getattr(counts, name) for name in Counts.__struct_fields__},
        **_interval("error", counts.wrong, counts.answered),
        "explored_share": counts.explored_share,
        "answered_share": counts.answered_share,
        "silent_share": counts.silent_share,
    }


def rows_of(table: str, view: View) -> list[dict[str, Any]]:
    """A table of numbers: the same for JSON and csv."""
    report = view.report
    if table == "rounds":
        return [
            {
                "first_round": stretch.first, "last_round": stretch.last,
                "first_time": stretch.begin if stretch.decisions else None,
                "last_time": stretch.end if stretch.decisions else None,
                **_counts(stretch),
            }
            for stretch in report.stretches
        ]  # fmt: skip
    if table == "labels":
        return [
            {"label": counts.label, "named_as_true": counts.named, **_counts(counts)}
            for counts in report.labels
        ]
    if table == "delays":
        return [
            {
                "seconds_above": delay.low,
                "seconds_up_to": delay.high if math.isfinite(delay.high) else None,
                "answers": delay.answers,
            }
            for delay in report.delays
        ]
    if table == "alarms":
        return [
            {"round": alarm.round, "time": alarm.time, "answers": alarm.answers}
            for alarm in report.alarms
        ]
    if table == "shadows":
        return [
            {
                "shadow": name, "learner": card.learner, "version": card.version,
                "rounds": card.rounds, "difference": card.difference,
                "difference_low": None if card.interval is None else card.interval.low,
                "difference_high": None if card.interval is None else card.interval.high,
                "bracket_low": None if card.bracket is None else card.bracket.low,
                "bracket_high": None if card.bracket is None else card.bracket.high,
                "speaker_right": card.speaker_right, "behind": card.behind,
                "problem": card.problem, "notes": " ".join(card.notes),
            }
            for name, card in view.shadows.items()
        ]  # fmt: skip
    return [
        {
            "id": shown.id, "round": shown.round, "time": shown.time, "label": shown.label,
            "confidence": shown.confidence, "propensity": shown.propensity,
            "explored": shown.explored, "answer": shown.answer,
            "named_as_true": shown.named, "delay": shown.delay, "source": shown.source,
            "context": shown.context,
            "propensities": {str(label): share for label, share in shown.propensities},
        }
        for shown in view.decisions
    ]  # fmt: skip


def as_csv(rows: Iterable[dict[str, Any]]) -> str:
    """Rows as csv. A text that a spreadsheet would take for a formula gets a quote before it."""
    rows = list(rows)
    file = io.StringIO()
    if rows:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({name: csv_cell(value) for name, value in row.items()} for row in rows)
    return file.getvalue()
