"""Which cells a study needs, and running those that are not there yet."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from onebit.lab.lookup import name_of
from onebit.lab.studies.cells import Cell, Result, code_for, source_of
from onebit.lab.studies.conditions import Setting
from onebit.lab.studies.engines import run_on
from onebit.lab.studies.spec import Experiment, Method, Study
from onebit.lab.studies.store import Store

_LARGEST_JOB = 32  # cells: what runs side by side


class Place(NamedTuple):
    """One entry of an experiment's table: a method on a data set under a channel."""

    experiment: Experiment
    data: str
    channel: str
    method: Method


class Plan:
    """The cells of a study at one size, over a store that knows some of them."""

    def __init__(self, study: Study, store: Store, quick: bool) -> None:
        self.study, self.quick, self.store = study, quick, store
        self.sources = {name: source_of(data) for name, data in study.data.items()}
        self.experiments = [one.sized(quick) for one in study.experiments]

    def experiment(self, name: str) -> Experiment:
        return next(one for one in self.experiments if one.name == name)

    def places(self) -> Iterator[Place]:
        """All for which there are data."""
        for one in self.experiments:
            for data in one.data:
                if self.sources[data] is not None:
                    for channel in one.channels:
                        for method in one.methods:
                            if not (method.slow and self.quick):
                                yield Place(one, data, channel, method)

    def tuning_cells(self, place: Place) -> list[list[Cell]]:
        """For each setting of the grid, its cells; none where nothing is to be chosen."""
        grid = place.method.grid(place.data)
        if not place.experiment.tuned or len(grid) < 2:
            return []
        # Folds are tuned on the complement of one of them: one split.
        streams = 1 if place.experiment.protocol == "folds" else place.experiment.tuned
        return [[self._cell(place, one, i, tuning=True) for i in range(streams)] for one in grid]

    def chosen(self, place: Place) -> dict[str, Setting] | None:
        """The setting with the least error where it was tuned; None: that cannot be told yet."""
        grid, tried = place.method.grid(place.data), self.tuning_cells(place)
        if not tried:
            return grid[0]
        errors = []
        for cells in tried:
            results = [self.store.get(cell) for cell in cells]
            if any(result is None for result in results):
                return None
            errors.append(np.mean([_error(result) for result in results if result]))
        return grid[int(np.argmin(errors))] if np.isfinite(min(errors)) else None

    def cells(self, place: Place) -> list[tuple[dict[str, Setting], list[Cell]]]:
        """Settings with the cells that are reported; empty before a choice is made."""
        if place.experiment.tuned:
            chosen = self.chosen(place)
            settings = [] if chosen is None else [chosen]
        else:
            settings = place.method.grid(place.data)
        repeats = range(place.experiment.repeats)
        return [(one, [self._cell(place, one, i) for i in repeats]) for one in settings]

    def needed(self) -> tuple[dict[str, Cell], int]:
        """All cells known by now, and how many will be known only when those have run."""
        known: dict[str, Cell] = {}
        later = 0
        for place in self.places():
            groups = [*self.tuning_cells(place), *(some for _, some in self.cells(place))]
            for cell in (cell for group in groups for cell in group):
                known[cell.name] = cell
            if not self.cells(place):
                later += place.experiment.repeats
        return known, later

    def _cell(
        self, place: Place, settings: Mapping[str, Setting], repeat: int, tuning: bool = False
    ) -> Cell:
        one, data = place.experiment, self.study.data[place.data]
        source = self.sources[place.data]
        assert source is not None
        folds = one.repeats if one.protocol == "folds" else 0
        channel = self.study.channel_of(place.channel)
        if place.method.knows_flips:
            settings = {**settings, "rho0": channel.flip[0], "rho1": channel.flip[1]}
        return Cell(
            source=source.name,
            digest=source.digest,
            columns=data.columns if source.own else (),
            rows=one.rows_of(data, self.quick),
            prepare=tuple(data.prepare),
            channel=channel,
            folds=folds,
            tuning=tuning,
            repeat=repeat,
            epochs=one.epochs,
            rounds=one.rounds,
            alone=one.alone and not tuning,
            learner=name_of(place.method.kind),
            settings=tuple(sorted(settings.items())),
            code=code_for(place.method.kind, source.name),
        )


def _error(result: Result) -> float:
    """What a setting is chosen by: on rows held out, or of what was said."""
    if result.error or not result.rounds:
        return np.inf
    if result.test_error is not None:
        return result.test_error
    return result.mistakes[-1] / result.rounds[-1]


class Step(NamedTuple):
    """How far a run has come."""

    done: int
    cells: int  # to be done in all, as far as known
    failed: int


def run_study(
    study: Study,
    store: Store,
    *,
    quick: bool,
    engine: str = "threads",
    workers: int | None = None,
    retry: bool = False,
    progress: Callable[[Step], None] = lambda step: None,
) -> Plan:
    """Run the cells that are missing, those to tune by first; retry: also those that failed."""
    plan = Plan(study, store, quick)
    workers = workers or os.cpu_count() or 1
    tried: set[str] = set()
    while True:
        cells, later = plan.needed()
        due = [cell for cell in cells.values() if _is_due(store, cell, retry, tried)]
        done = failed = 0
        total = len(cells) + later
        ahead = len(cells) - len(due)
        progress(Step(ahead, total, failed))
        if not due:
            return plan
        jobs = _jobs(due)
        for place, results in run_on(engine, jobs, workers):
            for cell, result in zip(jobs[place], results, strict=True):
                store.put(cell, result)
                tried.add(cell.name)
                failed += bool(result.error)
            done += len(results)
            progress(Step(ahead + done, total, failed))


def _is_due(store: Store, cell: Cell, retry: bool, tried: set[str]) -> bool:
    result = store.get(cell)
    return result is None or (retry and bool(result.error) and cell.name not in tried)


def _jobs(cells: list[Cell]) -> list[list[Cell]]:
    """Cells that share a stream and a kind of learner go together; streams one after another."""
    together: dict[Any, list[Cell]] = {}
    for cell in cells:
        together.setdefault(cell.stream, []).append(cell)
    jobs = []
    for some in together.values():
        size = 1 if some[0].alone else _LARGEST_JOB
        jobs += [some[start : start + size] for start in range(0, len(some), size)]
    return sorted(jobs, key=lambda job: (job[0].source, job[0].tuning, job[0].repeat))
