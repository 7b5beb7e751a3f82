"""The findings of a study: `evaluating` makes them, `report` shows them.

Errors and shares are between 0 and 1 everywhere; the report shows per cent.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Curve:
    """One method in one chart: mean and band over repeats."""

    method: str
    full_information: bool  # a reference that receives the true label
    settings: str  # as run, in words: "gamma=0.014"
    x: list[float]
    mean: list[float]
    low: list[float]
    high: list[float]
    published: float | None = None  # the paper's value at the end of the curve


@dataclass(frozen=True, slots=True)
class Chart:
    """One pair of axes: as a rule one data set under one channel."""

    title: str
    caption: str  # rounds, repeats, what differs from the paper's data
    x_label: str
    y_label: str
    x_log: bool
    y_log: bool
    y_percent: bool  # y is a share, shown in per cent; else a count or seconds
    curves: list[Curve]


@dataclass(frozen=True, slots=True)
class Value:
    """One entry of a table."""

    ours: float | None  # None: not run, or failed
    spread: float | None  # standard deviation over repeats or folds
    published: float | None  # None: the paper gives no number
    marks: str = ""  # significance as the paper prints it: "*", "(†)", ...
    bold: bool = False  # lowest of those compared
    underlined: bool = False  # lowest of the bandit methods
    published_marks: str = ""
    absent: str = "no data"  # the text if ours is None: "failed", "not run yet", ...


@dataclass(frozen=True, slots=True)
class Table:
    """Methods across, data sets (or settings) down."""

    title: str
    caption: str
    unit: str  # "%" for shares, "s" for seconds, "" for counts
    methods: list[str]
    rows: list[str]
    values: list[list[Value]]  # [row][method]


@dataclass(frozen=True, slots=True)
class RatesTable:
    """Rates of flips: a line for each pair of true ones, a block of columns for each data set."""

    title: str
    caption: str
    truth: list[tuple[float, float]]
    data: list[str]
    sources: list[str]  # "paper", and the methods
    values: list[list[list[tuple[float, float] | None]]]  # [truth][data][source]
    away: list[list[float | None]]  # [data][source] the mean distance from the truth


@dataclass(frozen=True, slots=True)
class Check:
    """A claim of the paper, and whether it holds here."""

    claim: str  # "Confidit errs less than Banditron on Amazon7"
    holds: bool | None  # None: cannot be decided (a cell is missing or failed)
    evidence: str  # "24.1 ± 0.3 against 28.9 ± 0.4"


@dataclass(frozen=True, slots=True)
class Section:
    """One figure or table of the paper."""

    title: str  # "Figure 1, top: error against rounds"
    about: str
    charts: list[Chart] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # substitutes for data, readings of the paper
    rates: list[RatesTable] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Failure:
    """A cell that did not run to its end."""

    cell: str
    error: str


@dataclass(frozen=True, slots=True)
class Findings:
    """A whole study."""

    name: str  # "banditron-2008"
    title: str
    paper: str  # the reference
    about: str
    sections: list[Section]
    failures: list[Failure]
    missing: int  # cells that have not run yet
    cells: int
    seconds: float  # elapsed time of all cells, added up
    command: str  # what to type to run it again
    facts: dict[str, str]  # version, commit, date, quick or full, seeds, data with checksums
    quick: bool = False  # ran at reduced size: not comparable with the paper's numbers
    most_repeats: int | None = None  # an experiment has no more than these; None: as in its file
