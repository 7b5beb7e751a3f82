"""Evaluates the cells of a study: computes what its page shows."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from onebit._version import __version__
from onebit.lab.recipes import settings_text
from onebit.lab.studies.cells import Result
from onebit.lab.studies.findings import (
    Chart,
    Check,
    Curve,
    Failure,
    Findings,
    RatesTable,
    Section,
    Table,
    Value,
)
from onebit.lab.studies.running import Place, Plan
from onebit.lab.studies.spec import (
    CLEAN,
    Between,
    ChartSpec,
    CheckSpec,
    Experiment,
    Less,
    Lowest,
    Nearer,
    Optimum,
    Order,
    RatesSpec,
    SectionSpec,
    Slope,
    TableSpec,
)

_NAMES = {
    "error": "wrong so far",
    "greedy_error": "greedy label wrong so far",
    "explored": "explored so far",
    "updates": "updates",
    "seconds": "seconds",
    "test_error": "wrong on test rows",
    "regret": "wrong so far, beyond the best rule",
}
_COUNTS = {
    "error": "mistakes",
    "greedy_error": "mistakes of the greedy label",
    "explored": "rounds explored",
    "regret": "regret: mistakes beyond the best rule's",
}
_OF = {
    "error": "mistakes",
    "greedy_error": "greedy_mistakes",
    "explored": "explored",
    "updates": "updates",
    "regret": "regret",
}
_VERBS = {"seconds": "is faster", "updates": "updates less often", "explored": "explores less"}
_ALMOST, _SURELY = 0.01, 0.001  # p-values of the marks † and *


class _Group(NamedTuple):
    """One setting of a method on one data set under one channel, over repeats or folds."""

    settings: dict[str, Any]
    results: list[Result]

    def ends(self, y: str, epochs: int = 1) -> np.ndarray:
        """The last value of each repeat; epochs: the value after the first of this many epochs."""
        return np.array([_last(result, y, epochs) for result in self.results])


def _last(result: Result, y: str, epochs: int) -> float:
    if y == "test_error":
        return math.nan if result.test_error is None else result.test_error
    if y == "seconds":
        return result.seconds
    last = max(i for i, n in enumerate(result.rounds) if n * epochs <= result.rounds[-1])
    count = getattr(result, _OF[y])[last]
    return count if y == "updates" else count / result.rounds[last]


class _Book:
    """Looks up values of a plan's cells."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def groups(self, experiment: Experiment, data: str, channel: str, method: str) -> list[_Group]:
        """One group per reported setting; without groups of which a cell has not run."""
        if self.plan.sources[data] is None:
            return []
        place = Place(experiment, data, channel, experiment.method(method))
        found = []
        for settings, cells in self.plan.cells(place):
            results = [self.plan.store.get(cell) for cell in cells]
            good = [result for result in results if result is not None and not result.error]
            if len(good) == len(cells):
                found.append(_Group(settings, good))
        return found

    def ends(
        self, experiment: Experiment, data: str, channel: str, method: str, y: str, epochs: int = 1
    ) -> np.ndarray:
        """The value of each repeat; empty if there is none."""
        groups = self.groups(experiment, data, channel, method)
        return groups[0].ends(y, epochs) if len(groups) == 1 else np.empty(0)

    def why_absent(self, experiment: Experiment, data: str, channel: str, method: str) -> str:
        if self.plan.sources[data] is None:
            return "no data"
        place = Place(experiment, data, channel, experiment.method(method))
        tried = [cell for cells in self.plan.tuning_cells(place) for cell in cells]
        if place.method.slow and self.plan.quick:
            return "not in a quick run"
        cells = tried + [cell for _, reported in self.plan.cells(place) for cell in reported]
        results = [self.plan.store.get(cell) for cell in cells]
        return "failed" if any(r is not None and r.error for r in results) else "not run yet"


def evaluate(plan: Plan, command: str) -> Findings:
    study, book = plan.study, _Book(plan)
    cells, later = plan.needed()
    results = {name: plan.store.get(cell) for name, cell in cells.items()}
    failures = [
        Failure(str(cells[name]), result.error)
        for name, result in results.items()
        if result is not None and result.error
    ]
    ran = [result for result in results.values() if result is not None]
    return Findings(
        name=study.name,
        title=study.title,
        paper=study.paper,
        about=study.about,
        sections=list(_sections(book)),
        failures=failures,
        missing=len(cells) - len(ran) + later,
        cells=len(cells) + later,
        seconds=sum(result.seconds for result in ran),
        command=command,
        facts=_facts(plan),
        quick=plan.quick,
    )


def _facts(plan: Plan) -> dict[str, str]:
    facts = {"onebit": __version__, "size": "quick" if plan.quick else "full"}
    facts["seeds"] = "repeat i has the seed i, for data and learner; streams to tune on have others"
    for name, data in plan.study.data.items():
        source = plan.sources[name]
        if source is None:
            facts[name] = f"not there; looked for as {', '.join(data.sources)}"
        else:
            digest = f", sha256 {source.digest}" if source.digest else ", built in"
            digest = ", drawn from the seed" if source.drawn else digest
            steps = f", prepared by {', '.join(data.prepare)}" if data.prepare else ""
            facts[name] = f"{source.name}{digest}{steps}"
    return facts


def _sections(book: _Book) -> Iterator[Section]:
    told: set[str] = set()  # a data set's notes are shown where it is first used
    for section in book.plan.study.sections:
        used = dict.fromkeys(data for part in _parts(section) for data in _data_of(book, part))
        yield Section(
            title=section.title,
            about=section.about,
            charts=[chart for spec in section.charts for chart in _charts(book, spec)],
            tables=[table for spec in section.tables for table in _tables(book, spec)],
            rates=[_rates_table(book, spec) for spec in section.rates],
            checks=[check for spec in section.checks for check in _checks(book, spec)],
            notes=[*section.notes, *_data_notes(book, [name for name in used if name not in told])],
        )
        told |= set(used)


_Part = ChartSpec | TableSpec | RatesSpec | CheckSpec


def _parts(section: SectionSpec) -> list[_Part]:
    return [*section.charts, *section.tables, *section.rates, *section.checks]


def _data_of(book: _Book, part: _Part) -> list[str]:
    named = getattr(part, "data", None) or book.plan.experiment(part.experiment).data
    return [named] if isinstance(named, str) else named


def _data_notes(book: _Book, names: list[str]) -> list[str]:
    """Notes on data that differ from the paper's."""
    notes = []
    for name in names:
        data, source = book.plan.study.data[name], book.plan.sources[name]
        if source is None:
            wanted = data.sources[0]
            notes.append(
                f"{name} was not there and is left out. {data.note} Put your copy as {wanted}.svm "
                f"(or .npz, .csv, ...) into the folder that ONEBIT_DATA names.".replace("  ", " ")
            )
        elif data.note:
            notes.append(f"{name}: {data.note}")
    return notes


def _said(name: str, channel: str) -> str:
    return name if channel == CLEAN else f"{name}, {channel}"


def _repeats(experiment: Experiment) -> str:
    word = "fold" if experiment.protocol == "folds" else "repeat"
    return f"{experiment.repeats} {word}{'' if experiment.repeats == 1 else 's'}"


def _charts(book: _Book, spec: ChartSpec) -> Iterator[Chart]:
    experiment = book.plan.experiment(spec.experiment)
    for data in spec.data or experiment.data:
        if book.plan.sources[data] is None:
            continue
        for channel in spec.channels or experiment.channels:
            curves = [
                curve
                for method in spec.methods or [method.name for method in experiment.methods]
                for curve in _curves(book, spec, experiment, data, channel, method)
            ]
            if not curves:
                continue
            rounds = max((curve.x[-1] for curve in curves), default=0)
            epochs = (
                f", {experiment.epochs} epochs"
                if experiment.epochs > 1 and not spec.first_epoch
                else ""
            )
            caption = f"{_repeats(experiment)}{epochs}"
            if spec.x == "rounds":
                caption = f"{rounds:,.0f} rounds, {caption}"
            label = (_COUNTS if spec.counts else _NAMES)[spec.y]
            yield Chart(
                title=_said(data, channel),
                caption=caption,
                x_label=spec.x,
                y_label=label if spec.x == "rounds" else label.replace(" so far", " in all"),
                x_log=spec.x_log,
                y_log=spec.y_log,
                y_percent=spec.y not in ("updates", "seconds") and not spec.counts,
                curves=curves,
            )


def _curves(
    book: _Book, spec: ChartSpec, experiment: Experiment, data: str, channel: str, method: str
) -> Iterator[Curve]:
    groups = book.groups(experiment, data, channel, method)
    if not groups:
        return
    told = experiment.method(method).kind.full_information
    if spec.x == "rounds":
        published = None if spec.counts else _published(experiment, data, channel, method)[0]
        for group in groups:
            x, values = _over_rounds(
                group.results, spec, experiment.epochs if spec.first_epoch else 1
            )
            label = method if len(groups) == 1 else f"{method} {settings_text(group.settings)}"
            yield _curve(label, told, settings_text(group.settings), x, values, published)
        return
    swept = [group for group in groups if spec.x in group.settings]
    if swept:
        swept.sort(key=lambda group: group.settings[spec.x])
        x = [float(group.settings[spec.x]) for group in swept]
        values = np.stack([group.ends(spec.y) for group in swept], axis=1)
        yield _curve(method, told, f"{spec.x} varies", x, values, None)
    else:  # a reference line across the whole range
        grids = [
            float(settings[spec.x])
            for swept_method in experiment.methods
            for settings in swept_method.grid(data)
            if spec.x in settings
        ]
        ends = groups[0].ends(spec.y)
        x, values = [min(grids), max(grids)], np.stack([ends, ends], axis=1)
        yield _curve(method, told, settings_text(groups[0].settings), x, values, None)


def _over_rounds(
    results: Sequence[Result], spec: ChartSpec, epochs: int
) -> tuple[list[float], np.ndarray]:
    """Values at check points; epochs: only the first of this many epochs."""
    # Folds differ in length by a row, so the last check points differ: show the common ones.
    common = sorted(set.intersection(*(set(result.rounds) for result in results)))
    shortest = min(result.rounds[-1] for result in results)
    rounds = np.array([point for point in common if point <= shortest / epochs] or common)
    counts = np.array(
        [
            [getattr(result, _OF[spec.y])[result.rounds.index(point)] for point in rounds]
            for result in results
        ],
        float,
    )
    if not spec.counts and spec.y != "updates":
        counts = counts / rounds
    return rounds.astype(float).tolist(), counts


def _curve(
    label: str, told: bool, settings: str, x: Any, values: np.ndarray, published: float | None
) -> Curve:
    return Curve(
        method=label,
        full_information=told,
        settings=settings,
        x=list(x),
        mean=values.mean(axis=0).tolist(),
        low=values.min(axis=0).tolist(),
        high=values.max(axis=0).tolist(),
        published=published,
    )


def _published(
    experiment: Experiment, data: str, channel: str, method: str
) -> tuple[float | None, str]:
    """The paper's number as a share, and its marks."""
    said = experiment.published.get(data, {}).get(channel, {}).get(method)
    if said is None:
        return None, ""
    if not isinstance(said, str):
        return said / 100, ""
    number = re.search(r"[\d.]+$", said)
    return (float(number[0]) / 100 if number else None), re.sub(r"[\d.]+$", "", said)


def _tables(book: _Book, spec: TableSpec) -> Iterator[Table]:
    experiment = book.plan.experiment(spec.experiment)
    methods = spec.methods or [method.name for method in experiment.methods]
    rows = spec.data or experiment.data
    marks = (
        f" Compared: {', '.join(spec.compared)}; and {' with '.join(spec.pair)} alone. † and *: "
        "lower than each of the others by a paired t-test over the folds, p ≤ 0.01 and p ≤ 0.001; "
        "in brackets: than the other of the two."
        if spec.compared
        else ""
    )
    for channel in spec.channels or experiment.channels:
        epochs = f", {experiment.epochs} epochs" if experiment.epochs > 1 else ""
        title = spec.title or _NAMES[spec.y]
        yield Table(
            title=_said(title, channel),
            caption=f"{_repeats(experiment)}{epochs}.{marks}",
            unit={"seconds": "s", "updates": ""}.get(spec.y, "%"),
            methods=list(methods),
            rows=list(rows),
            values=[_row(book, spec, experiment, data, channel, methods) for data in rows],
        )


def _row(
    book: _Book,
    spec: TableSpec,
    experiment: Experiment,
    data: str,
    channel: str,
    methods: Sequence[str],
) -> list[Value]:
    ends = {method: book.ends(experiment, data, channel, method, spec.y) for method in methods}
    best = _lowest(ends, spec.compared)
    lower = _lowest(ends, spec.pair)
    values = []
    for method in methods:
        published, marks = (
            (None, "") if spec.y in ("seconds", "updates")
            else _published(experiment, data, channel, method)
        )  # fmt: skip
        found = ends[method]
        if not len(found):
            absent = book.why_absent(experiment, data, channel, method)
            values.append(Value(None, None, published, published_marks=marks, absent=absent))
            continue
        mark = _mark(ends, method, spec.compared) if method == best else ""
        if not mark and method == lower and (pair := _mark(ends, method, spec.pair)):
            mark = f"({pair})"
        values.append(
            Value(
                ours=float(found.mean()),
                spread=float(found.std(ddof=1)) if len(found) > 1 else None,
                published=published,
                marks=mark,
                bold=method == best,
                underlined=method == lower,
                published_marks=marks,
            )
        )
    return values


def _lowest(ends: dict[str, np.ndarray], among: Sequence[str]) -> str | None:
    there = [method for method in among if len(ends.get(method, ()))]
    if len(there) < len(among) or not there:
        return None
    return min(there, key=lambda method: ends[method].mean())


def _mark(ends: dict[str, np.ndarray], method: str, among: Sequence[str]) -> str:
    """A mark for how significantly the method is below each of the others."""
    worst = 0.0
    for rival in among:
        if rival != method:
            p = _p_value(ends[method], ends[rival])
            worst = max(worst, 1.0 if math.isnan(p) else p)
    return "*" if worst <= _SURELY else "†" if worst <= _ALMOST else ""


def _p_value(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The p-value of a paired two-sided t-test."""
    if len(ours) < 2 or len(ours) != len(theirs):
        return 1.0
    away = ours - theirs
    if np.ptp(away) < 1e-12:  # the test would divide by a spread of 0
        return 1.0 if abs(away[0]) < 1e-12 else 0.0
    return float(stats.ttest_rel(ours, theirs).pvalue)


def _checks(book: _Book, spec: CheckSpec) -> Iterator[Check]:
    experiment = book.plan.experiment(spec.experiment)
    judge: dict[type, Callable[..., Iterator[Check]]] = {
        Less: _less,
        Order: _order,
        Between: _between,
        Slope: _slope,
        Optimum: _optimum,
        Lowest: _lowest_of,
        Nearer: _nearer,
    }
    yield from judge[type(spec)](book, spec, experiment)


def _per_cent(ends: np.ndarray) -> str:
    return _with_spread(100 * ends)


def _with_spread(ends: np.ndarray) -> str:
    spread = f" ± {_short(ends.std(ddof=1))}" if len(ends) > 1 else ""
    return f"{_short(ends.mean())}{spread}"


def _against(ours: np.ndarray, theirs: np.ndarray, y: str) -> str:
    unit, factor = {"seconds": (" s", 1), "updates": ("", 1)}.get(y, (" %", 100))
    return f"{_with_spread(factor * ours)} against {_with_spread(factor * theirs)}{unit}"


def _short(value: float) -> str:
    return f"{value:.2g}" if abs(value) < 1 else f"{value:,.2f}"


def _less(book: _Book, spec: Less, experiment: Experiment) -> Iterator[Check]:
    for data in spec.data or experiment.data:
        for channel in spec.channels or experiment.channels:
            epochs = experiment.epochs if spec.first_epoch else 1
            ours = book.ends(experiment, data, channel, spec.method, spec.y, epochs)
            for rival in spec.than:
                theirs = book.ends(experiment, data, channel, rival, spec.y, epochs)
                verb = _VERBS.get(spec.y, "errs less")
                claim = f"{spec.method} {verb} than {rival} on {_said(data, channel)}"
                if len(ours) and len(theirs):
                    holds = bool(ours.mean() < theirs.mean())
                    yield Check(claim, holds, _against(ours, theirs, spec.y))
                else:
                    missing = spec.method if not len(ours) else rival
                    yield Check(claim, None, book.why_absent(experiment, data, channel, missing))


def _order(book: _Book, spec: Order, experiment: Experiment) -> Iterator[Check]:
    for data in experiment.data:
        for channel in experiment.channels:
            theirs = {
                method.name: published
                for method in experiment.methods
                if (published := _published(experiment, data, channel, method.name)[0]) is not None
            }
            if len(theirs) < 2:
                continue
            names = sorted(theirs, key=lambda name: theirs[name])
            claim = f"The order on {_said(data, channel)} is {' < '.join(names)}"
            ends = {name: book.ends(experiment, data, channel, name, spec.y) for name in names}
            absent = [name for name in names if not len(ends[name])]
            if absent:
                yield Check(claim, None, book.why_absent(experiment, data, channel, absent[0]))
                continue
            ours = sorted(names, key=lambda name: ends[name].mean())
            found = " < ".join(f"{name} {_short(100 * ends[name].mean())}" for name in ours)
            yield _of_full_size(book, Check(claim, ours == names, f"{found} %"))


def _between(book: _Book, spec: Between, experiment: Experiment) -> Iterator[Check]:
    claim = (
        f"{spec.method} comes near the published error on {spec.data}: within {spec.low:g} to "
        f"{spec.high:g} %"
    )
    ends = book.ends(experiment, spec.data, experiment.channels[0], spec.method, spec.y)
    if not len(ends):
        why = book.why_absent(experiment, spec.data, experiment.channels[0], spec.method)
        yield Check(claim, None, why)
    else:
        holds = bool(spec.low <= 100 * ends.mean() <= spec.high)
        yield _of_full_size(book, Check(claim, holds, f"{_per_cent(ends)} %"))


def _of_full_size(book: _Book, check: Check) -> Check:
    """Leave a check undecided in a quick run, which has fewer rounds than the paper."""
    if not book.plan.quick:
        return check
    return Check(check.claim, None, f"{check.evidence}; to be judged by the full run")


def _slope(book: _Book, spec: Slope, experiment: Experiment) -> Iterator[Check]:
    groups = book.groups(experiment, spec.data, experiment.channels[0], spec.method)
    if len(groups) != 1:
        why = book.why_absent(experiment, spec.data, experiment.channels[0], spec.method)
        yield Check(spec.claim, None, why)
        return
    results = groups[0].results
    rounds = np.array(results[0].rounds)
    counted = np.mean([getattr(r, _OF[spec.y]) for r in results], axis=0)
    error = counted if spec.counts else counted / rounds
    used = (rounds >= spec.begin) & (error > 0)
    if used.sum() < 3:
        yield Check(spec.claim, None, f"too few rounds beyond {spec.begin:,}")
        return
    slope = float(np.polyfit(np.log(rounds[used]), np.log(error[used]), 1)[0])
    holds = bool(spec.low <= slope <= spec.high)
    evidence = f"slope {slope:.2f} from round {spec.begin:,} to {rounds[-1]:,}"
    yield _of_full_size(book, Check(spec.claim, holds, evidence.replace("-", "−")))


def _optimum(book: _Book, spec: Optimum, experiment: Experiment) -> Iterator[Check]:
    claim = (
        f"{spec.method} is best with {spec.setting} between {spec.low:g} and {spec.high:g} "
        f"on {spec.data}"
    )
    groups = book.groups(experiment, spec.data, experiment.channels[0], spec.method)
    if len(groups) < len(experiment.method(spec.method).grid(spec.data)):
        yield Check(
            claim, None, book.why_absent(experiment, spec.data, experiment.channels[0], spec.method)
        )
        return
    best = min(groups, key=lambda group: group.ends("error").mean())
    value = float(best.settings[spec.setting])
    evidence = f"best with {value:g}: {_per_cent(best.ends('error'))} %"
    yield _of_full_size(book, Check(claim, bool(spec.low <= value <= spec.high), evidence))


def _lowest_of(book: _Book, spec: Lowest, experiment: Experiment) -> Iterator[Check]:
    for channel in spec.channels or experiment.channels:
        said = "" if channel == CLEAN else f" at {channel}"
        claim = (
            f"{spec.method} errs least of {', '.join(spec.among)} on {spec.least} of "
            f"{len(experiment.data)} data sets{said}"
        )
        won, told = [], 0
        for data in experiment.data:
            ends = {m: book.ends(experiment, data, channel, m, spec.y) for m in spec.among}
            lowest = _lowest(ends, spec.among)
            told += lowest is not None
            won += [data] if lowest == spec.method else []
        if not told:
            yield Check(claim, None, "nothing has run yet")
            continue
        # If data are missing, the share of the available data sets decides.
        share = len(won) / told >= spec.least / len(experiment.data) - 1e-9
        names = f": {', '.join(won)}" if won else ""
        yield Check(claim, bool(share), f"on {len(won)} of the {told} that ran{names}")


def _rates_table(book: _Book, spec: RatesSpec) -> RatesTable:
    experiment = book.plan.experiment(spec.experiment)
    there = [data for data in experiment.data if book.plan.sources[data] is not None]
    methods = [method.name for method in experiment.methods]
    values: list[list[list[tuple[float, float] | None]]] = []
    for channel in experiment.channels:
        line = []
        for data in there:
            said = experiment.published_rates.get(data, {}).get(channel)
            line.append([said, *(_mean_rates(book, experiment, data, channel, m) for m in methods)])
        values.append(line)
    repeats = "1 run" if experiment.repeats == 1 else f"means of {experiment.repeats} repeats"
    return RatesTable(
        title=spec.title,
        caption=f"ρ₀ and ρ₁, {repeats}. The last line is the mean distance "
        "of a rate from the truth.",
        truth=[book.plan.study.channel_of(channel).flip for channel in experiment.channels],
        data=there,
        sources=["paper", *methods],
        values=values,
        away=[
            [_distance(book, experiment, data, method) for method in ("", *methods)]
            for data in there
        ],
    )


def _mean_rates(
    book: _Book, experiment: Experiment, data: str, channel: str, method: str
) -> tuple[float, float] | None:
    groups = book.groups(experiment, data, channel, method)
    if len(groups) != 1 or not all(result.rates for result in groups[0].results):
        return None
    rho0, rho1 = np.mean([result.rates for result in groups[0].results], axis=0).tolist()
    return rho0, rho1


def _nearer(book: _Book, spec: Nearer, experiment: Experiment) -> Iterator[Check]:
    """Judged by the mean distance over repeats, because a mean of rates may be near by chance."""
    rival = f"those of {spec.than}" if spec.than else "the paper's"
    for data in experiment.data:
        claim = f"The rates of {spec.method} are nearer to the truth than {rival} on {data}"
        ours = _distance(book, experiment, data, spec.method)
        theirs = _distance(book, experiment, data, spec.than)
        if ours is None or theirs is None:
            why = book.why_absent(experiment, data, experiment.channels[-1], spec.method)
            yield Check(claim, None, why if why != "not run yet" else "not run yet, or refused")
        else:
            evidence = f"{ours:.3f} away on average, against {theirs:.3f}"
            yield Check(claim, ours < theirs, evidence)


def _distance(book: _Book, experiment: Experiment, data: str, method: str) -> float | None:
    """Mean distance of a method's rates from the truth; of the paper's, if method is empty."""
    away = []
    for channel in experiment.channels:
        truth = book.plan.study.channel_of(channel).flip
        if method:
            groups = book.groups(experiment, data, channel, method)
            found = [result.rates for group in groups for result in group.results]
        else:
            found = [list(experiment.published_rates.get(data, {}).get(channel, ()))]
        if not found or not all(len(rates) == 2 for rates in found):
            return None
        away.append(np.abs(np.array(found) - truth).mean())
    return float(np.mean(away))
