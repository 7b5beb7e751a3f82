"""Evaluates the cells of a study: computes the charts, tables and claims of its page."""

from __future__ import annotations

import math
import re
import subprocess
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from onebit._version import __version__
from onebit.lab.studies import findings, spec
from onebit.lab.studies.cells import Result
from onebit.lab.studies.running import Place, Plan
from onebit.registry.recipes import settings_text


class _Measure(NamedTuple):
    """A number that is measured, and its names on the page."""

    name: str
    counts: str = ""  # the field of a result; empty: known only at the end
    counts_name: str = ""
    unit: str = "%"
    less: str = "errs less"

    @property
    def factor(self) -> int:
        return 100 if self.unit == "%" else 1


_MEASURES = {
    "error": _Measure("wrong so far", "mistakes", "mistakes"),
    "greedy_error": _Measure(
        "greedy label wrong so far", "greedy_mistakes", "mistakes of the greedy label"
    ),
    "explored": _Measure("explored so far", "explored", "rounds explored", less="explores less"),
    "updates": _Measure("updates", "updates", unit="", less="updates less often"),
    "seconds": _Measure("seconds", unit="s", less="is faster"),
    "test_error": _Measure("wrong on test rows"),
    "regret": _Measure(
        "wrong so far, beyond the best rule", "regret", "regret: mistakes beyond the best rule's"
    ),
}
_ALMOST, _SURELY = 0.01, 0.001  # p-values of the marks † and *


class _Group(NamedTuple):
    """The results of one setting at one place, over repeats or folds."""

    settings: dict[str, Any]
    results: list[Result]

    def ends(self, y: str, epochs: int = 1) -> np.ndarray:
        """The last value of each repeat; epochs: the value after the first of this many epochs."""
        field = _MEASURES[y].counts
        if not field:
            return np.array([getattr(result, y) for result in self.results], float)
        ends = []
        for result in self.results:
            last = max(i for i, n in enumerate(result.rounds) if n * epochs <= result.rounds[-1])
            count = getattr(result, field)[last]
            ends.append(count if y == "updates" else count / result.rounds[last])
        return np.array(ends)


def _groups(plan: Plan, place: Place) -> list[_Group]:
    """One group per reported setting; groups with a missing or failed cell are left out."""
    if plan.sources[place.data] is None:
        return []
    found = []
    for settings, cells in plan.cells(place):
        results = [plan.store.get(cell) for cell in cells]
        good = [result for result in results if result is not None and not result.error]
        if len(good) == len(cells):
            found.append(_Group(settings, good))
    return found


def _ends(plan: Plan, place: Place, y: str, epochs: int = 1) -> np.ndarray:
    """The value of each repeat; empty if there is none."""
    groups = _groups(plan, place)
    return groups[0].ends(y, epochs) if len(groups) == 1 else np.empty(0)


def _why_absent(plan: Plan, place: Place) -> str:
    if plan.sources[place.data] is None:
        return "no data"
    if place.method.slow and plan.quick:
        return "not in a quick run"
    results = [plan.store.get(cell) for cell in plan.known_cells(place)]
    return "failed" if any(r is not None and r.error for r in results) else "not run yet"


def _rows(plan: Plan, part: Any, methods: Sequence[str] = ()) -> Iterator[list[Place]]:
    """A row for each data set and channel that a part of a section names: a place per method."""
    experiment = plan.experiment(part.experiment)
    shown = [experiment.method(name) for name in methods] or experiment.methods
    for data in experiment.data_of(part):
        for channel in getattr(part, "channels", []) or experiment.channels:
            yield [Place(experiment, data, channel, method) for method in shown]


def evaluate(plan: Plan, command: str) -> findings.Findings:
    study = plan.study
    cells, later = plan.needed()
    results = {name: plan.store.get(cell) for name, cell in cells.items()}
    ran = {name: result for name, result in results.items() if result is not None}
    return findings.Findings(
        name=study.name,
        title=study.title,
        paper=study.paper,
        about=study.about,
        sections=list(_sections(plan)),
        failures=[
            findings.Failure(str(cells[name]), ran[name].error) for name in ran if ran[name].error
        ],
        missing=len(cells) - len(ran) + later,
        cells=len(cells) + later,
        seconds=sum(result.seconds for result in ran.values()),
        command=command,
        facts=_facts(plan),
        quick=plan.quick,
        most_repeats=plan.most_repeats,
    )


def _facts(plan: Plan) -> dict[str, str]:
    facts = {"onebit": __version__, "size": "quick" if plan.quick else "full"}
    if plan.most_repeats:
        facts["size"] += f", with at most {_repeats(plan.most_repeats)}"
    facts["date"] = date.today().isoformat()
    if commit := _commit():
        facts["commit"] = commit
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


def _commit() -> str:
    """The commit of the checkout that this code is in; empty if it is installed without git."""
    git = ["git", "-C", str(Path(__file__).parent)]
    tracked = [*git, "ls-files", "--error-unmatch", Path(__file__).name]
    described = [*git, "describe", "--always", "--dirty", "--exclude=*"]
    try:  # an installed copy may lie in the checkout of another project, which does not track it
        subprocess.run(tracked, capture_output=True, check=True)
        return subprocess.run(described, capture_output=True, check=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _sections(plan: Plan) -> Iterator[findings.Section]:
    noted: set[str] = set()  # a data set's notes are shown where it is first used
    for section in plan.study.sections:
        used = dict.fromkeys(row[0].data for part in section.parts for row in _rows(plan, part))
        new = [name for name in used if name not in noted]
        yield findings.Section(
            title=section.title,
            about=section.about,
            charts=[chart for part in section.charts for chart in _charts(plan, part)],
            tables=[table for part in section.tables for table in _tables(plan, part)],
            rates=[_rates_table(plan, part) for part in section.rates],
            checks=[check for claim in section.checks for check in _checks(plan, claim)],
            notes=[*section.notes, *_data_notes(plan, new)],
        )
        noted |= set(new)


def _data_notes(plan: Plan, names: list[str]) -> list[str]:
    """Notes on data that differ from the paper's."""
    notes = []
    for name in names:
        data = plan.study.data[name]
        if plan.sources[name] is None:
            notes.append(
                f"{name} was not there and is left out. {data.note} Put your copy as "
                f"{data.sources[0]}.svm (or .npz, .csv, ...) into the folder that ONEBIT_DATA "
                "names.".replace("  ", " ")
            )
        elif data.note:
            notes.append(f"{name}: {data.note}")
    return notes


def _with_channel(name: str, channel: str) -> str:
    return name if channel == spec.CLEAN else f"{name}, {channel}"


def _size(experiment: spec.Experiment, first_epoch: bool = False) -> str:
    """Repeats and epochs in words."""
    word = "fold" if experiment.protocol == "folds" else "repeat"
    repeats = _repeats(experiment.repeats, word)
    one_epoch = experiment.epochs == 1 or first_epoch
    return repeats if one_epoch else f"{repeats}, {experiment.epochs} epochs"


def _repeats(number: int, word: str = "repeat") -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


# Charts


def _charts(plan: Plan, part: spec.ChartSpec) -> Iterator[findings.Chart]:
    measure = _MEASURES[part.y]
    for row in _rows(plan, part, part.methods):
        curves = [curve for place in row for curve in _curves(plan, part, place)]
        if not curves:
            continue
        caption = _size(row[0].experiment, part.first_epoch)
        label = measure.counts_name if part.counts else measure.name
        if part.x == "rounds":
            caption = f"{max(curve.x[-1] for curve in curves):,.0f} rounds, {caption}"
        else:
            label = label.replace(" so far", " in all")
        yield findings.Chart(
            title=_with_channel(row[0].data, row[0].channel),
            caption=caption,
            x_label=part.x,
            y_label=label,
            x_log=part.x_log,
            y_log=part.y_log,
            y_percent=measure.unit == "%" and not part.counts,
            curves=curves,
        )


def _curves(plan: Plan, part: spec.ChartSpec, place: Place) -> Iterator[findings.Curve]:
    """One curve per setting over the rounds; or one over a setting that varies."""
    groups, published = _groups(plan, place), None
    lines: list[tuple[str, list[float], np.ndarray]] = []  # settings, x, values [repeat, x]
    swept = [group for group in groups if part.x in group.settings]
    if part.x == "rounds":
        published = None if part.counts else _published(place)[0]
        epochs = place.experiment.epochs if part.first_epoch else 1
        for group in groups:
            x, values = _over_rounds(group.results, part, epochs)
            lines.append((settings_text(group.settings), x, values))
    elif swept:
        swept.sort(key=lambda group: group.settings[part.x])
        values = np.stack([group.ends(part.y) for group in swept], axis=1)
        lines = [(f"{part.x} varies", [float(g.settings[part.x]) for g in swept], values)]
    elif groups:  # a reference line across the whole range
        grids = [grid for m in place.experiment.methods for grid in m.grid(place.data)]
        tried = [float(grid[part.x]) for grid in grids if part.x in grid]
        values = np.stack([groups[0].ends(part.y)] * 2, axis=1)
        lines = [(settings_text(groups[0].settings), [min(tried), max(tried)], values)]
    for settings, x, values in lines:
        name = place.method.name
        yield findings.Curve(
            method=name if len(lines) == 1 else f"{name} {settings}",
            full_information=place.method.kind.full_information,
            settings=settings,
            x=x,
            mean=values.mean(axis=0).tolist(),
            low=values.min(axis=0).tolist(),
            high=values.max(axis=0).tolist(),
            published=published,
        )


def _over_rounds(
    results: Sequence[Result], part: spec.ChartSpec, epochs: int
) -> tuple[list[float], np.ndarray]:
    """Values at check points; epochs: only the first of this many epochs."""
    # Folds differ in length by a row, so the last check points differ: show the common ones.
    common = sorted(set.intersection(*(set(result.rounds) for result in results)))
    shortest = min(result.rounds[-1] for result in results)
    rounds = [point for point in common if point <= shortest / epochs] or common
    field = _MEASURES[part.y].counts
    counts = np.array(
        [[getattr(r, field)[r.rounds.index(point)] for point in rounds] for r in results], float
    )
    shares = not part.counts and part.y != "updates"
    return [float(point) for point in rounds], counts / rounds if shares else counts


def _published(place: Place) -> tuple[float | None, str]:
    """The paper's number as a share, and its marks."""
    by_channel = place.experiment.published.get(place.data, {})
    printed = by_channel.get(place.channel, {}).get(place.method.name)
    if printed is None:
        return None, ""
    if not isinstance(printed, str):
        return printed / 100, ""
    number = re.search(r"[\d.]+\Z", printed)
    return (float(number[0]) / 100 if number else None), re.sub(r"[\d.]+\Z", "", printed)


# Tables


def _tables(plan: Plan, part: spec.TableSpec) -> Iterator[findings.Table]:
    rows = list(_rows(plan, part, part.methods))
    marks = (
        f" Compared: {', '.join(part.compared)}; and {' with '.join(part.pair)} alone. † and *: "
        "lower than each of the others by a paired t-test over the folds, p ≤ 0.01 and p ≤ 0.001; "
        "in brackets: than the other of the two."
        if part.compared
        else ""
    )
    for channel in dict.fromkeys(row[0].channel for row in rows):
        shown = [row for row in rows if row[0].channel == channel]
        yield findings.Table(
            title=_with_channel(part.title or _MEASURES[part.y].name, channel),
            caption=f"{_size(rows[0][0].experiment)}.{marks}",
            unit=_MEASURES[part.y].unit,
            methods=[place.method.name for place in rows[0]],
            rows=[row[0].data for row in shown],
            values=[_values(plan, part, row) for row in shown],
        )


def _values(plan: Plan, part: spec.TableSpec, row: list[Place]) -> list[findings.Value]:
    ends = {place.method.name: _ends(plan, place, part.y) for place in row}
    best = _lowest(ends, part.compared)
    lower = _lowest(ends, part.pair)
    values = []
    for place in row:
        method = place.method.name
        share, marks = _published(place) if _MEASURES[part.y].unit == "%" else (None, "")
        found = ends[method]
        if not len(found):
            absent = _why_absent(plan, place)
            values.append(findings.Value(None, None, share, published_marks=marks, absent=absent))
            continue
        mark = _mark(ends, method, part.compared) if method == best else ""
        if not mark and method == lower and (pair := _mark(ends, method, part.pair)):
            mark = f"({pair})"
        values.append(
            findings.Value(
                ours=float(found.mean()),
                spread=float(found.std(ddof=1)) if len(found) > 1 else None,
                published=share,
                marks=mark,
                bold=method == best,
                underlined=method == lower,
                published_marks=marks,
            )
        )
    return values


def _lowest(ends: dict[str, np.ndarray], among: Sequence[str]) -> str | None:
    """The method with the lowest mean; None if one of the methods has no values."""
    if not among or not all(len(ends.get(method, ())) for method in among):
        return None
    return min(among, key=lambda method: ends[method].mean())


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


# Claims


def _checks(plan: Plan, claim: spec.CheckSpec) -> Iterator[findings.Check]:
    for check in _JUDGES[type(claim)](plan, claim):
        if plan.quick and check.holds is not None and isinstance(claim, spec.Order | spec.Interval):
            # A quick run has fewer rounds than the paper.
            check = findings.Check(
                check.claim, None, f"{check.evidence}; to be judged by the full run"
            )
        yield check


def _absent(
    plan: Plan, text: str, places: Sequence[Place], ends: Sequence[Any]
) -> findings.Check | None:
    """An undecided check, if one of the places has no values."""
    empty = [place for place, values in zip(places, ends, strict=True) if not len(values)]
    return findings.Check(text, None, _why_absent(plan, empty[0])) if empty else None


def _with_spread(ends: np.ndarray) -> str:
    spread = f" ± {_short(ends.std(ddof=1))}" if len(ends) > 1 else ""
    return f"{_short(ends.mean())}{spread}"


def _short(value: float) -> str:
    return f"{value:.2g}" if abs(value) < 1 else f"{value:,.2f}"


def _less(plan: Plan, claim: spec.Less) -> Iterator[findings.Check]:
    measure = _MEASURES[claim.y]
    for ours, *rivals in _rows(plan, claim, [claim.method, *claim.than]):
        epochs = ours.experiment.epochs if claim.first_epoch else 1
        on = _with_channel(ours.data, ours.channel)
        for rival in rivals:
            text = f"{claim.method} {measure.less} than {rival.method.name} on {on}"
            ends = [_ends(plan, place, claim.y, epochs) for place in (ours, rival)]
            if absent := _absent(plan, text, (ours, rival), ends):
                yield absent
                continue
            evidence = " against ".join(_with_spread(measure.factor * values) for values in ends)
            holds = bool(ends[0].mean() < ends[1].mean())
            yield findings.Check(text, holds, f"{evidence} {measure.unit}".rstrip())


def _order(plan: Plan, claim: spec.Order) -> Iterator[findings.Check]:
    for row in _rows(plan, claim):
        shares = [(share, place) for place in row if (share := _published(place)[0]) is not None]
        places = [place for _, place in sorted(shares, key=lambda pair: pair[0])]
        if len(places) < 2:
            continue
        names = [place.method.name for place in places]
        on = _with_channel(row[0].data, row[0].channel)
        text = f"The order on {on} is {' < '.join(names)}"
        ends = [_ends(plan, place, claim.y) for place in places]
        if absent := _absent(plan, text, places, ends):
            yield absent
            continue
        means = {name: values.mean() for name, values in zip(names, ends, strict=True)}
        ours = sorted(names, key=lambda name: means[name])
        found = " < ".join(f"{name} {_short(100 * means[name])}" for name in ours)
        yield findings.Check(text, ours == names, f"{found} %")


def _between(plan: Plan, claim: spec.Between) -> Iterator[findings.Check]:
    text = (
        f"{claim.method} comes near the published error on {claim.data}: within {claim.low:g} to "
        f"{claim.high:g} %"
    )
    [place], *_ = _rows(plan, claim, [claim.method])
    ends = _ends(plan, place, claim.y)
    yield _absent(plan, text, [place], [ends]) or findings.Check(
        text, claim.holds(100 * ends.mean()), f"{_with_spread(100 * ends)} %"
    )


def _slope(plan: Plan, claim: spec.Slope) -> Iterator[findings.Check]:
    [place], *_ = _rows(plan, claim, [claim.method])
    groups = _groups(plan, place)
    if len(groups) != 1:
        yield findings.Check(claim.claim, None, _why_absent(plan, place))
        return
    results = groups[0].results
    rounds = np.array(results[0].rounds)
    counted = np.mean([getattr(r, _MEASURES[claim.y].counts) for r in results], axis=0)
    error = counted if claim.counts else counted / rounds
    used = (rounds >= claim.begin) & (error > 0)
    if used.sum() < 3:
        yield findings.Check(claim.claim, None, f"too few rounds beyond {claim.begin:,}")
        return
    slope = float(np.polyfit(np.log(rounds[used]), np.log(error[used]), 1)[0])
    evidence = f"slope {slope:.2f} from round {claim.begin:,} to {rounds[-1]:,}"
    yield findings.Check(claim.claim, claim.holds(slope), evidence.replace("-", "−"))


def _optimum(plan: Plan, claim: spec.Optimum) -> Iterator[findings.Check]:
    text = (
        f"{claim.method} is best with {claim.setting} between {claim.low:g} and {claim.high:g} "
        f"on {claim.data}"
    )
    [place], *_ = _rows(plan, claim, [claim.method])
    groups = _groups(plan, place)
    if len(groups) < len(place.method.grid(claim.data)):
        yield findings.Check(text, None, _why_absent(plan, place))
        return
    best = min(groups, key=lambda group: group.ends("error").mean())
    value = float(best.settings[claim.setting])
    evidence = f"best with {value:g}: {_with_spread(100 * best.ends('error'))} %"
    yield findings.Check(text, claim.holds(value), evidence)


def _lowest_of(plan: Plan, claim: spec.Lowest) -> Iterator[findings.Check]:
    winners: dict[str, dict[str, str | None]] = {}  # by channel and data set
    for row in _rows(plan, claim, claim.among):
        ends = {place.method.name: _ends(plan, place, claim.y) for place in row}
        winners.setdefault(row[0].channel, {})[row[0].data] = _lowest(ends, claim.among)
    for channel, by_data in winners.items():
        at = "" if channel == spec.CLEAN else f" at {channel}"
        text = (
            f"{claim.method} errs least of {', '.join(claim.among)} on {claim.least} of "
            f"{len(by_data)} data sets{at}"
        )
        decided = sum(winner is not None for winner in by_data.values())
        if not decided:
            yield findings.Check(text, None, "nothing has run yet")
            continue
        won = [data for data, winner in by_data.items() if winner == claim.method]
        # If data are missing, the share of the available data sets decides.
        holds = len(won) / decided >= claim.least / len(by_data) - 1e-9
        names = f": {', '.join(won)}" if won else ""
        yield findings.Check(text, holds, f"on {len(won)} of the {decided} that ran{names}")


def _nearer(plan: Plan, claim: spec.Nearer) -> Iterator[findings.Check]:
    """Judged by the mean distance over repeats, because a mean of rates may be near by chance."""
    experiment = plan.experiment(claim.experiment)
    rival = f"those of {claim.than}" if claim.than else "the paper's"
    for data in experiment.data:
        text = f"The rates of {claim.method} are nearer to the truth than {rival} on {data}"
        ours = _distance(plan, experiment, data, claim.method)
        theirs = _distance(plan, experiment, data, claim.than)
        if ours is None or theirs is None:
            method = experiment.method(claim.method)
            why = _why_absent(plan, Place(experiment, data, experiment.channels[-1], method))
            yield findings.Check(
                text, None, why if why != "not run yet" else "not run yet, or refused"
            )
        else:
            evidence = f"{ours:.3f} away on average, against {theirs:.3f}"
            yield findings.Check(text, ours < theirs, evidence)


_JUDGES: dict[type, Any] = {
    spec.Less: _less,
    spec.Order: _order,
    spec.Between: _between,
    spec.Slope: _slope,
    spec.Optimum: _optimum,
    spec.Lowest: _lowest_of,
    spec.Nearer: _nearer,
}


# Rates of flips


def _rates_table(plan: Plan, part: spec.RatesSpec) -> findings.RatesTable:
    experiment = plan.experiment(part.experiment)
    available = [data for data in experiment.data if plan.sources[data] is not None]
    sources = ["", *(method.name for method in experiment.methods)]  # empty: the paper

    def mean_rates(data: str, channel: str, source: str) -> tuple[float, float] | None:
        found = _rates(plan, experiment, data, channel, source)
        if not found or not all(found) or len(found) > experiment.repeats:  # of several settings
            return None
        rho0, rho1 = np.mean(found, axis=0).tolist()
        return rho0, rho1

    repeats = "1 run" if experiment.repeats == 1 else f"means of {experiment.repeats} repeats"
    return findings.RatesTable(
        title=part.title,
        caption=f"ρ₀ and ρ₁, {repeats}. The last line is the mean distance "
        "of a rate from the truth.",
        truth=[plan.study.channel_of(channel).flip for channel in experiment.channels],
        data=available,
        sources=[source or "paper" for source in sources],
        values=[
            [[mean_rates(data, channel, source) for source in sources] for data in available]
            for channel in experiment.channels
        ],
        away=[
            [_distance(plan, experiment, data, source) for source in sources] for data in available
        ],
    )


def _rates(
    plan: Plan, experiment: spec.Experiment, data: str, channel: str, source: str
) -> list[list[float]]:
    """The rates that a method estimated in each run, or the paper's, if source is empty."""
    if not source:
        return [list(experiment.published_rates.get(data, {}).get(channel, ()))]
    groups = _groups(plan, Place(experiment, data, channel, experiment.method(source)))
    return [result.rates for group in groups for result in group.results]


def _distance(plan: Plan, experiment: spec.Experiment, data: str, source: str) -> float | None:
    """The mean distance of rates from the truth."""
    away = []
    for channel in experiment.channels:
        found = _rates(plan, experiment, data, channel, source)
        if not found or not all(found):
            return None
        away.append(np.abs(np.array(found) - plan.study.channel_of(channel).flip).mean())
    return float(np.mean(away))
