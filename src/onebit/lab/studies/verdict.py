"""How well a study reproduces its paper: claims that hold, and distances of numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeGuard

from onebit.lab.studies.findings import Curve, Findings, Section

NEAR, ROUGH = 0.10, 0.25  # of the paper's number


@dataclass(frozen=True, slots=True)
class Pair:
    """A number of the paper and ours."""

    name: str  # "Amazon7, Confidit"
    ours: float
    published: float
    percent: bool  # both are shares, shown in per cent
    table: str = ""  # its title, if there are several tables

    @property
    def ratio(self) -> float:
        if self.published == 0:
            return 1.0 if self.ours == 0 else math.inf
        return max(self.ours / self.published, 0.0)

    @property
    def nearness(self) -> str:
        return nearness(self.ours, self.published)


def nearness(ours: float, published: float) -> str:
    """Near, rough or far."""
    away = abs(ours - published) / abs(published) if published else math.inf * abs(ours)
    if away <= NEAR * (1 + 1e-9) or ours == published:
        return "near"
    return "rough" if away <= ROUGH * (1 + 1e-9) else "far"


@dataclass(frozen=True, slots=True)
class Verdict:
    holds: int
    fails: int
    undecided: int  # claims that cannot be decided yet
    pairs: list[Pair]

    @property
    def claims(self) -> int:
        return self.holds + self.fails + self.undecided

    @property
    def counts(self) -> dict[bool | None, int]:
        return {True: self.holds, False: self.fails, None: self.undecided}

    def count(self, nearness: str) -> int:
        return sum(pair.nearness == nearness for pair in self.pairs)

    @property
    def furthest(self) -> list[Pair]:
        """The pairs that are far apart, the worst first."""
        far = [pair for pair in self.pairs if pair.nearness == "far"]
        return sorted(far, key=lambda pair: abs(math.log(pair.ratio or math.inf)), reverse=True)


def verdict(findings: Findings) -> Verdict:
    """The verdict of a full run; a quick run is too small to compare, and gets an empty one."""
    if findings.quick:
        return Verdict(0, 0, 0, [])
    outcomes = [check.holds for section in findings.sections for check in section.checks]
    pairs = [pair for section in findings.sections for pair in _pairs(section)]
    # Each number of the paper counts once, even if it is shown several times.
    once = {(pair.name, pair.published): pair for pair in reversed(pairs)}
    holds, fails, undecided = (outcomes.count(outcome) for outcome in (True, False, None))
    return Verdict(holds, fails, undecided, [*once.values()][::-1])


def together(verdicts: Iterable[Verdict]) -> Verdict:
    verdicts = list(verdicts)
    holds, fails, undecided = (
        sum(found.counts[outcome] for found in verdicts) for outcome in (True, False, None)
    )
    return Verdict(holds, fails, undecided, [pair for found in verdicts for pair in found.pairs])


def _pairs(section: Section) -> list[Pair]:
    """The pairs of the tables; without tables, those of the ends of curves."""
    pairs = [
        Pair(
            f"{row}, {method}",
            value.ours,
            value.published,
            table.unit == "%",
            table.title if len(section.tables) > 1 else "",
        )
        for table in section.tables
        for row, values in zip(table.rows, table.values, strict=True)
        for method, value in zip(table.methods, values, strict=True)
        if is_number(value.ours) and is_number(value.published)
    ]
    return pairs or [
        Pair(f"{chart.title}, {curve.method}", end, curve.published, chart.y_percent)
        for chart in section.charts
        for curve in chart.curves
        if is_number(curve.published) and (end := last_mean(curve)) is not None
    ]


def is_number(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def last_mean(curve: Curve) -> float | None:
    return next((mean for mean in reversed(curve.mean) if math.isfinite(mean)), None)
