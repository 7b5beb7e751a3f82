"""Finds the cells that a study needs, and runs the missing ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from onebit.lab.studies.cells import Cell, Result, code_for, source_of
from onebit.lab.studies.conditions import SettingValue
from onebit.lab.studies.engines import run_on
from onebit.lab.studies.spec import Experiment, Method, Study
from onebit.lab.studies.store import Store
from onebit.registry.lookup import name_of

_LARGEST_JOB = 32  # cells: what runs side by side


class Place(NamedTuple):
    """One entry of an experiment's table: a method on a data set under a channel."""

    experiment: Experiment
    data: str
    channel: str
    method: Method


class Plan:
    """The cells of a study at one size, and the store that has the results of some of them."""

    def __init__(self, study: Study, store: Store, quick: bool, repeats: int | None = None) -> None:
        self.study, self.quick, self.store = study, quick, store
        self.sources = {name: source_of(data) for name, data in study.data.items()}
        self.experiments = [experiment.sized(quick, repeats) for experiment in study.experiments]
        whole = [experiment.sized(quick) for experiment in study.experiments]
        self.most_repeats = None if self.experiments == whole else repeats  # None: all

    def experiment(self, name: str) -> Experiment:
        return next(experiment for experiment in self.experiments if experiment.name == name)

    def places(self) -> Iterator[Place]:
        """All places whose data are available."""
        for experiment in self.experiments:
            for data in experiment.data:
                if self.sources[data] is not None:
                    for channel in experiment.channels:
                        for method in experiment.methods:
                            if not (method.slow and self.quick):
                                yield Place(experiment, data, channel, method)

    def tuning_cells(self, place: Place) -> list[list[Cell]]:
        """The cells of each setting of the grid; empty if no setting has to be chosen."""
        grid = place.method.grid(place.data)
        if not place.experiment.tuned or len(grid) < 2:
            return []
        # Folds are tuned on a single split: the complement of the first fold.
        streams = 1 if place.experiment.protocol == "folds" else place.experiment.tuned
        return [
            [self._cell(place, settings, i, tuning=True) for i in range(streams)]
            for settings in grid
        ]

    def chosen(self, place: Place) -> dict[str, SettingValue] | None:
        """The setting with the least error on the tuning streams; None: not known yet."""
        grid, tried = place.method.grid(place.data), self.tuning_cells(place)
        if not tried:
            return grid[0]
        results = [[self.store.get(cell) for cell in cells] for cells in tried]
        if any(result is None for of_setting in results for result in of_setting):
            return None
        errors = [np.mean([_error(r) for r in of_setting if r]) for of_setting in results]
        return grid[int(np.argmin(errors))] if np.isfinite(min(errors)) else None

    def cells(self, place: Place) -> list[tuple[dict[str, SettingValue], list[Cell]]]:
        """Settings with their reported cells; empty until the setting is chosen."""
        if place.experiment.tuned:
            chosen = self.chosen(place)
            settings = [] if chosen is None else [chosen]
        else:
            settings = place.method.grid(place.data)
        repeats = range(place.experiment.repeats)
        return [(chosen, [self._cell(place, chosen, i) for i in repeats]) for chosen in settings]

    def known_cells(self, place: Place) -> list[Cell]:
        """The cells of a place that are known so far: those to tune on, and reported ones."""
        groups = [*self.tuning_cells(place), *(cells for _, cells in self.cells(place))]
        return [cell for group in groups for cell in group]

    def needed(self) -> tuple[dict[str, Cell], int]:
        """The cells known so far, and the number of cells that depend on their results."""
        known: dict[str, Cell] = {}
        later = 0
        for place in self.places():
            known |= {cell.name: cell for cell in self.known_cells(place)}
            if not self.cells(place):
                later += place.experiment.repeats
        return known, later

    def _cell(
        self, place: Place, settings: Mapping[str, SettingValue], repeat: int, tuning: bool = False
    ) -> Cell:
        experiment, data = place.experiment, self.study.data[place.data]
        source = self.sources[place.data]
        assert source is not None
        folds = experiment.repeats if experiment.protocol == "folds" else 0
        channel = self.study.channel_of(place.channel)
        if place.method.knows_flips:
            settings = {**settings, "rho0": channel.flip[0], "rho1": channel.flip[1]}
        return Cell(
            source=source.name,
            digest=source.digest,
            columns=data.columns if source.own else (),
            rows=experiment.rows_of(data, self.quick),
            prepare=tuple(data.prepare),
            channel=channel,
            folds=folds,
            tuning=tuning,
            repeat=repeat,
            epochs=experiment.epochs,
            rounds=experiment.rounds,
            alone=experiment.alone and not tuning,
            learner=name_of(place.method.kind),
            settings=tuple(sorted(settings.items())),
            code=code_for(place.method.kind, source.name),
        )


def _error(result: Result) -> float:
    """The error that a setting is chosen by: on held-out rows, or of the said labels."""
    if result.error or not result.rounds:
        return np.inf
    if result.test_error is not None:
        return result.test_error
    return result.mistakes[-1] / result.rounds[-1]


class Progress(NamedTuple):
    """The progress of a run."""

    done: int
    cells: int  # total, as far as known
    failed: int


def run_study(
    study: Study,
    store: Store,
    *,
    quick: bool,
    repeats: int | None = None,
    engine: str = "threads",
    workers: int | None = None,
    retry: bool = False,
    progress: Callable[[Progress], None] = lambda progress: None,
) -> Plan:
    """Run the missing cells, those for tuning first.

    repeats: no more than these of each experiment. retry: run failed cells again.
    """
    plan = Plan(study, store, quick, repeats)
    workers = workers or os.cpu_count() or 1
    tried: set[str] = set()
    while True:
        cells, later = plan.needed()
        found = {name: store.get(cell) for name, cell in cells.items()}
        due = [
            cells[name]
            for name, result in found.items()
            if result is None or (retry and result.error and name not in tried)
        ]
        done, total, failed = len(cells) - len(due), len(cells) + later, 0
        progress(Progress(done, total, failed))
        if not due:
            return plan
        jobs = _jobs(due)
        for place, results in run_on(engine, jobs, workers):
            for cell, result in zip(jobs[place], results, strict=True):
                store.put(cell, result)
                tried.add(cell.name)
                failed += bool(result.error)
            done += len(results)
            progress(Progress(done, total, failed))


def _jobs(cells: list[Cell]) -> list[list[Cell]]:
    """Jobs of cells that share a stream and a learner's class, ordered by stream."""
    together: dict[Any, list[Cell]] = {}
    for cell in cells:
        together.setdefault(cell.without_settings, []).append(cell)
    jobs = []
    for shared in together.values():
        size = 1 if shared[0].alone else _LARGEST_JOB
        jobs += [shared[start : start + size] for start in range(0, len(shared), size)]
    return sorted(jobs, key=lambda job: (job[0].source, job[0].tuning, job[0].repeat))
