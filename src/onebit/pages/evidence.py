"""The page of `onebit evaluate` and `onebit compare`: what a log says about policies over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from onebit.pages import charts
from onebit.pages.charts import Looks, Point, Series
from onebit.pages.rendering import counted, number, percent, render


@dataclass(frozen=True, slots=True)
class Moment:
    """What the log says up to a round. Shares are between 0 and 1, differences between -1 and 1."""

    rounds: int
    estimate: float | None
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Judged:
    """A policy, or the difference of two, at check points; the last one is the result."""

    name: str
    moments: list[Moment]
    bracket: tuple[float, float]
    worth: float  # rounds in which the policy had spoken itself that would tell as much
    notes: list[str]


@dataclass(frozen=True, slots=True)
class Entry:
    """A policy with its looks, and its results as text."""

    judged: Judged
    key: str
    looks: Looks
    is_difference: bool

    @property
    def estimate(self) -> str:
        value = self.judged.moments[-1].estimate
        return "none" if value is None else share(value, self.is_difference)

    @property
    def interval(self) -> str:
        last = self.judged.moments[-1]
        return self._ends(last.low, last.high)

    @property
    def bracket(self) -> str:
        return self._ends(*self.judged.bracket)

    @property
    def worth(self) -> str:
        return number(self.judged.worth)

    def _ends(self, low: float, high: float) -> str:
        return f"{share(low, self.is_difference)} to {share(high, self.is_difference)}"


def share(value: float, is_difference: bool) -> str:
    """A share or a difference in per cent."""
    sign = "+" if is_difference and value > 0 else ""
    return sign + percent(value)


def evidence_page(
    title: str,
    judged: Sequence[Judged],
    is_difference: bool,
    summary: str,
    command: str,
    version: str,
    facts: dict[str, str],
) -> str:
    """The whole page as text."""
    looks = charts.looks_of((place, False) for place in range(len(judged)))
    entries = [
        Entry(each, str(place + 1), looks[place], is_difference)
        for place, each in enumerate(judged)
    ]
    return render(
        "evidence.html",
        title=title,
        entries=entries,
        is_difference=is_difference,
        measure="Difference %" if is_difference else "Right %",
        summary=summary,
        charts=_charts(entries, is_difference),
        command=command,
        version=version,
        facts=facts,
    )


def _points(entry: Entry) -> list[Point]:
    """Without an estimate, the curve is the middle of the interval."""
    points = []
    for at in entry.judged.moments:
        has_estimate = at.estimate is not None
        middle = at.estimate if at.estimate is not None else (at.low + at.high) / 2
        said = f"{share(middle, entry.is_difference)}%" if has_estimate else "no estimate"
        ends = f"{share(at.low, entry.is_difference)}% to {share(at.high, entry.is_difference)}%"
        tip = f"{entry.judged.name}: {said}\n{ends} after {counted(at.rounds, 'round')}"
        low, high = min(at.low, middle), max(at.high, middle)
        points.append(Point(at.rounds, middle, low, high, tip=tip))
    return points


def _charts(entries: Sequence[Entry], is_difference: bool) -> Markup:
    """The same chart twice: for a desktop, and for a phone, where numbers stand for the names."""
    wide = [
        Series(
            entry.key,
            entry.looks,
            _points(entry),
            tuple(charts.wrapped(f"{entry.key} {entry.judged.name} {entry.estimate}%", 330)),
        )
        for entry in entries
    ]
    narrow = [replace(series, label=(series.key,)) for series in wide]
    measure = "difference of right labels" if is_difference else "right labels"
    words = charts.Words(
        title=f"{measure.capitalize()} by the rounds of the log so far",
        desc="; ".join(f"{e.judged.name}: {e.estimate}%, {e.interval}%" for e in entries),
        x="rounds of the log",
        y=f"{measure}, with intervals",
        where="evidence",
    )
    frames = (charts.Frame("wide", 1000, 420), charts.Frame("narrow", 380, 340, line_height=14))
    return Markup("").join(
        charts.draw(
            series,
            words,
            frame,
            y_log=False,
            y_text=lambda value: f"{100 * value:g}%",
            y_shown=[0.0] if is_difference else [],
        )
        for series, frame in zip((wide, narrow), frames, strict=True)
    )
