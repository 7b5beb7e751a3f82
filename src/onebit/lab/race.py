"""A race: several learners on the same streams, several times."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import numpy as np

from onebit import algorithms, datasets
from onebit.contexts import Rows, encode_rows
from onebit.datasets.blocks import csr
from onebit.datasets.catalogue import named
from onebit.lab import bounds
from onebit.lab.lookup import import_learners, learner_named
from onebit.lab.recipes import ENDING, check_settings, read_recipe
from onebit.lab.simulation import Trace, simulate
from onebit.learner import Learner
from onebit.pages.race import Bound, Line, Panel

_FLOAT32 = np.dtype(np.float32)
DRAWN = 100_000  # rows of synthetic data, and rounds on them, unless given

# Settings that suit a data set better than the defaults: those of the papers where they give any.
SUITED: dict[str, dict[str, dict[str, Any]]] = {
    "synsep": {"Banditron": {"gamma": 0.014}},
    "synnonsep": {"Banditron": {"gamma": 0.006}, "PNewtron": {"gamma": 0.006}},
    "digits": {"Banditron": {"gamma": 0.1}, "PNewtron": {"D": 10.0}},
}

# Data that know weights to compare with, and what these are.
COMPARED = {"synsep": "key words", "synnonsep": "key words"}


class Entrant(NamedTuple):
    """A learner with the settings it was given; the rest are its defaults."""

    learner: type[Learner]
    settings: dict[str, Any]
    file: str = ""  # of its recipe
    prepare: tuple[str, ...] = ()  # what its recipe wants done to rows

    @property
    def name(self) -> str:
        """The learner and what was set: two entrants of one learner can be told apart."""
        if self.file:
            return f"{self.learner.__name__} {self.file}"
        return " ".join(
            [self.learner.__name__, *(f"{k}={short(v)}" for k, v in self.settings.items())]
        )

    def make(self, data: str, labels: int, seed: int) -> Learner:
        suited = SUITED.get(data, {}).get(self.learner.__name__, {})
        make: Any = self.learner
        return make(labels, **{**suited, **self.settings}, seed=seed)


class Repeat(NamedTuple):
    """One repeat of a data set."""

    data: str
    rows: Rows
    y: np.ndarray
    order: Any
    labels: int
    comparator: np.ndarray | None = None
    table: int | None = None  # rows of the table that the rounds come from; None: they are drawn

    @property
    def rounds(self) -> int:
        return len(self.order) or len(self.y)


class Result(NamedTuple):
    """One learner's run over one stream."""

    trace: Trace
    rounds_per_second: float


def all_entrants() -> list[Entrant]:
    """Every learner of this package at its defaults, but for the costly, and those that are others.

    Left out are also those that want more than settings.
    """
    kinds = [getattr(algorithms, name) for name in algorithms.by_settings()]
    return [Entrant(kind, {}) for kind in kinds if not kind.costly and not kind.variant_of]


def entrant(text: str) -> Entrant:
    """An entrant from "Banditron", "PNewtron:gamma=0.01:D=10", or a recipe's file "tuned.toml".

    "module:Class:setting=1" is a learner from elsewhere, whose module is imported.
    """
    if text.endswith(ENDING):
        recipe = read_recipe(text)
        return Entrant(recipe.learner, recipe.settings, text, recipe.prepare)
    name, *pairs = text.split(":")
    if pairs and "=" not in pairs[0] and not _is_known(name):
        try:
            name = f"{import_learners(name)}:{pairs.pop(0)}"
        except (ValueError, OSError) as error:
            raise ValueError(
                f"no learner {name!r}, so {text!r} is module:Class; {error}"
            ) from error
    learner = learner_named(name)
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"a setting is NAME=VALUE, not {pair!r}")
        settings[key] = value_of(value)
    check_settings(learner, settings)  # a wrong value is refused now, not in mid-race
    return Entrant(learner, settings)


def _is_known(name: str) -> bool:
    try:
        return bool(learner_named(name))
    except ValueError:
        return False


def value_of(text: str) -> Any:
    """A setting's value as a command line says it: true, 0.1 or PA-I."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for number in (int, float):
        with contextlib.suppress(ValueError):
            return number(text)
    return text


def streams(
    data: str,
    rounds: int | None,
    repeats: int,
    seed: int,
    columns: Mapping[str, Any] | None = None,
    prepare: Sequence[str] = (),
) -> tuple[str, str, list[Repeat]]:
    """Name, description and repeats of a data set: one of the catalogue, or the path of a file.

    Synthetic data are drawn anew for each repeat, 100,000 rows unless rounds say otherwise. The
    rows of a table come shuffled, each of them once; with more rounds than rows, again and again.
    columns: what `datasets.read` is told about a file. prepare: steps that each row goes through,
    in the order of the rounds.
    """
    entry = named(data)
    as_they_are = [np.arange(0)] * repeats
    if entry.drawn:
        drawn = (entry.load(rows=rounds or DRAWN, seed=seed + i) for i in range(repeats))
        return _repeats(data, [datasets.prepare(one, prepare) for one in drawn], as_they_are, None)
    table = load(data, columns)
    size = len(table.y)
    orders = [_shuffled(size, rounds or size, seed + i) for i in range(repeats)]
    if datasets.Steps(prepare).order_matters:  # every round has a row of its own
        in_order = (table._replace(X=table.X[order], y=table.y[order]) for order in orders)
        ready = [datasets.prepare(one, prepare) for one in in_order]
        return _repeats(data, ready, as_they_are, size)
    table = datasets.prepare(table, prepare)
    table = table._replace(X=encode_rows(table.X, _FLOAT32, None))
    return _repeats(data, [table] * repeats, orders, size)


def load(
    data: str, columns: Mapping[str, Any] | None = None, *, rows: int = DRAWN, seed: int = 0
) -> datasets.Dataset:
    """A data set of the catalogue, or the path of a file; rows, seed: of synthetic data."""
    entry = named(data)
    if entry.drawn:
        table = entry.load(rows=rows, seed=seed)
    else:
        table = entry.load(**(columns or {} if entry.is_own else {}))
    if len(table.labels) < 2:
        raise ValueError(f"{data}: all rows have the label {table.labels[0]!r}; there must be two")
    return table


def _repeats(
    data: str,
    tables: Sequence[datasets.Dataset],
    orders: Sequence[np.ndarray],
    size: int | None,
) -> tuple[str, str, list[Repeat]]:
    made = [
        Repeat(
            data,
            encode_rows(table.X, _FLOAT32, None),
            table.y,
            order,
            len(table.labels),
            getattr(table, "comparator", None),
            size,
        )
        for table, order in zip(tables, orders, strict=True)
    ]
    return tables[0].name, tables[0].about, made


def _shuffled(size: int, rounds: int, seed: int) -> np.ndarray:
    shuffle = np.random.default_rng(seed).permutation
    return np.concatenate([shuffle(size) for _ in range(-(-rounds // size))])[:rounds]


def race(
    data: Sequence[str],
    entrants: Sequence[Entrant],
    *,
    rounds: int | None = None,
    repeats: int,
    seed: int = 0,
    columns: Mapping[str, Any] | None = None,
    prepare: Sequence[str] = (),
    prove: bool = False,
    progress: Callable[[str, int, int], None] = lambda data, done, total: None,
) -> list[Panel]:
    """Run every entrant on every stream, on all cores.

    rounds: of each run; unless given, every row of a table once, and 100,000 of synthetic data.
    columns: what `datasets.read` is told about files. prepare: steps for the rows. progress: hears
    the name of the data, how many rounds were done since it was last called, and how many there
    are on these data in all.
    prove: with the papers' bounds on Banditron and the Perceptron, where a comparator is known.
    """
    if prove:
        _check_comparators(data, entrants, prepare)
    stop = threading.Event()

    def run(entrant: Entrant, stream: Repeat, repeat: int) -> Result:
        learner = entrant.make(stream.data, stream.labels, seed + repeat)
        reported = 0

        def report(done: int) -> None:
            nonlocal reported
            if stop.is_set():
                raise KeyboardInterrupt
            progress(stream.data, done - reported, total)
            reported = done

        order: Any = stream.order if len(stream.order) else "given"
        before = time.thread_time()
        trace = simulate(learner, stream.rows, stream.y, order=order, progress=report)
        return Result(trace, stream.rounds / max(time.thread_time() - before, 1e-9))

    panels, total = [], 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            for name in data:
                title, about, made = streams(name, rounds, repeats, seed, columns, prepare)
                total = sum(stream.rounds for stream in made) * len(entrants)
                progress(name, 0, total)
                for entrant in entrants:  # compile here: the clock counts running alone
                    learner = entrant.make(name, made[0].labels, seed)
                    simulate(learner, made[0].rows, made[0].y, order=[0])
                jobs = [
                    [pool.submit(run, entrant, stream, i) for i, stream in enumerate(made)]
                    for entrant in entrants
                ]
                wait([job for some in jobs for job in some], return_when=FIRST_EXCEPTION)
                results = [[job.result() for job in some] for some in jobs]
                known = [_known(stream) for stream in made] if prove and name in COMPARED else []
                lines = []
                for entrant, done in zip(entrants, results, strict=True):
                    learner = entrant.make(name, made[0].labels, seed)
                    bound = _bound(name, learner, known, done[0].trace.rounds)
                    lines.append(_line(entrant.name, learner, done, bound))
                panels.append(Panel(title, about, made[0].rounds, repeats, lines, made[0].table))
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    return panels


def _check_comparators(
    data: Sequence[str], entrants: Sequence[Entrant], prepare: Sequence[str]
) -> None:
    """Refuse bounds that cannot be had, before anything runs."""
    if not any(name in COMPARED for name in data):
        raise ValueError(f"bounds need data whose best weights are known: {', '.join(COMPARED)}")
    if prepare:
        raise ValueError(f"bounds are for rows as they are; leave out {', '.join(prepare)}")
    if not any(one.learner in (algorithms.Banditron, algorithms.Perceptron) for one in entrants):
        raise ValueError("bounds are known of Banditron and Perceptron; let one of them race")


def _known(stream: Repeat) -> bounds.Comparator:
    weights: Any = stream.comparator
    rows = stream.rows
    X = csr(rows.values, rows.indices.view(np.int32), rows.indptr, weights.shape[1])
    return bounds.comparator(weights, X, stream.y)


def _bound(
    data: str, learner: Learner, known: Sequence[bounds.Comparator], rounds: np.ndarray
) -> Bound | None:
    """The mean bound over the repeats, if one is proved of this learner with these settings."""
    if not known or "kernel" in learner.settings:
        return None
    if type(learner) is algorithms.Banditron and learner.settings["gamma"] <= 0.5:
        more = {"labels": len(learner.labels), "gamma": learner.settings["gamma"]}
        most = functools.partial(bounds.banditron, **more)
    elif type(learner) is algorithms.Perceptron:
        most = bounds.perceptron
    else:
        return None
    each = [most(rounds, norm=one.norm, loss=one.loss[rounds - 1]) for one in known]
    D = np.mean([2 * one.norm**2 for one in known])
    L = np.mean([one.loss[rounds[-1] - 1] for one in known])
    error = (np.mean(each, axis=0) / rounds).tolist()
    return Bound("Kakade et al. 2008", COMPARED[data], float(D), float(L), error)


def _line(name: str, learner: Learner, results: list[Result], bound: Bound | None) -> Line:
    errors = np.array([result.trace.error for result in results])
    last = np.array([[counts[-1] for counts in result.trace[1:]] for result in results])
    rounds = results[0].trace.rounds
    _, greedy, explored, updates = last.mean(axis=0) / rounds[-1]
    spread = float(errors[:, -1].std(ddof=1)) if len(results) > 1 else None
    return Line(
        learner=name,
        settings=", ".join(f"{k}={short(v)}" for k, v in learner.settings.items()),
        full_information=learner.full_information,
        rounds=rounds.tolist(),
        error=errors.mean(axis=0).tolist(),
        low=errors.min(axis=0).tolist(),
        high=errors.max(axis=0).tolist(),
        greedy_error=float(greedy),
        explored=float(explored),
        updates=float(updates),
        error_sd=spread,
        rounds_per_second=float(np.median([result.rounds_per_second for result in results])),
        bound=bound,
    )


def short(value: Any) -> str:
    """A setting's value as people write it."""
    return f"{value:g}" if isinstance(value, float) else str(value)
