"""A cell: one learner with one setting on one stream; and how it is run.

What a cell gives is a pure function of what it says, so its name is a hash of that, and a cell that
several experiments ask for runs once.
"""

from __future__ import annotations

import functools
import hashlib
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from onebit.contexts import Rows, encode_rows
from onebit.core.sources import SOURCES
from onebit.datasets import Dataset, Steps, find, prepare
from onebit.datasets.entries import Entry
from onebit.lab.lookup import learner_named
from onebit.lab.simulation import simulate
from onebit.lab.studies.conditions import ChannelSpec, Setting, points
from onebit.lab.sweeping import sweep
from onebit.learner import Learner

if TYPE_CHECKING:
    from onebit.lab.studies.spec import Data

_FLOAT32 = np.dtype(np.float32)
_APART = 10**6  # streams to tune on have seeds from here on: never one that is reported


# Modules that only find by a name; what a cell finds is named to the digest.
_BY_NAME = (
    "onebit.lab.lookup",
    "onebit.datasets.catalogue",
    "onebit.datasets.readers",
    "onebit.datasets.archive",
    "onebit.datasets.delimited",
    "onebit.datasets.parquet",
    "onebit.datasets.svmlight",
    "onebit.datasets.vowpal",
)
_UNREADABLE = uuid.uuid4().hex  # stands for code whose source is not found: no other process's


def code_for(learner: type[Learner], source: str) -> str:
    """A digest of the code that a learner's figures on a data set come from.

    It covers this module, those of the learner's class and of the functions that the rows come
    from, and whatever these import.
    """
    return _code(learner, find(source))


@functools.lru_cache
def _code(learner: type[Learner], entry: Entry) -> str:
    names = [(maker.__module__, maker.__qualname__) for maker in entry.makers()]
    kinds = {kind.__module__ for kind in learner.__mro__}
    modules = {__name__, Entry.__module__, *kinds, *(module for module, _ in names)}
    digest = SOURCES.digest(modules, _BY_NAME) or _UNREADABLE
    facts = repr((digest, entry.drawn, names))
    return hashlib.sha256(facts.encode()).hexdigest()[:16]


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    source: str  # a name of the catalogue
    digest: str  # of its file, none if it is drawn
    columns: tuple[tuple[str, Any], ...]  # how its file is read: which is the label, ...
    rows: int | None
    prepare: tuple[str, ...]
    channel: ChannelSpec
    folds: int  # 0: online
    tuning: bool
    repeat: int  # of the stream; or the fold that is left out
    epochs: int
    rounds: int | None = None  # so many, whatever the epochs
    alone: bool
    learner: str
    settings: tuple[tuple[str, Setting], ...]
    code: str = ""  # a digest of the code that its figures come from

    @property
    def name(self) -> str:
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()[:24]

    @property
    def stream(self) -> tuple[Any, ...]:
        """What cells share that can run side by side."""
        return (
            self.source, self.digest, self.columns, self.rows, self.prepare, self.channel,
            self.folds, self.tuning, self.repeat, self.epochs, self.rounds, self.alone,
            self.learner,
        )  # fmt: skip

    def __str__(self) -> str:
        settings = " ".join(f"{key}={value}" for key, value in self.settings)
        what = f"fold {self.repeat}" if self.folds else f"repeat {self.repeat}"
        tuning = ", tuning" if self.tuning else ""
        way = ", ".join(
            f"{key} {value}"
            for key, value in msgspec.to_builtins(self.channel).items()
            if value != getattr(ChannelSpec(), key) and value != [0.0, 0.0]
        )
        return f"{self.source} / {self.learner} {settings} / {way or 'clean'} / {what}{tuning}"


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a cell gives: counts at check points; or why it gave none."""

    rounds: list[int] = []
    mistakes: list[int] = []
    greedy_mistakes: list[int] = []
    explored: list[int] = []
    updates: list[int] = []
    bayes_mistakes: list[int] = []  # of the best rule there is, where the data know it
    test_error: float | None = None
    rates: list[float] = []  # of flips, as a learner that estimates them took them to be at the end
    seconds: float = 0.0
    error: str = ""

    @property
    def regret(self) -> list[int]:
        """Mistakes beyond those of the best rule."""
        return [m - b for m, b in zip(self.mistakes, self.bayes_mistakes, strict=True)]


class Source(NamedTuple):
    """Where a study's data set is found."""

    name: str
    digest: str  # of its file; none if it is built in
    drawn: bool
    own: bool  # a file that the catalogue knows nothing of


def source_of(data: Data) -> Source | None:
    """The first of the sources that is there."""
    for name in data.sources:
        try:
            entry = find(name)
        except ValueError:
            continue
        if entry.make is not None:
            return Source(name, "", entry.drawn, False)
        path = entry.find()
        if path is not None:
            return Source(name, _digest(str(path), path.stat().st_mtime_ns), False, entry.is_own)
    return None


@functools.lru_cache
def _digest(path: str, changed: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Stream(NamedTuple):
    X: Any
    y: np.ndarray
    labels: int
    order: np.ndarray  # of all epochs; none: the rows as they are
    epochs: int  # in which they come
    points: list[int]  # where to count
    channel: list[Any]
    test: tuple[Any, np.ndarray] | None
    bayes_mistakes: Sequence[int] = ()  # at the points


_NONE = np.empty(0, np.int64)

# Streams are large and several cells in a row want the same one.
_making = threading.Lock()


@functools.lru_cache(maxsize=2)
def _drawn(source: str, rows: int | None, steps: tuple[str, ...], seed: int) -> Dataset:
    options: dict[str, Any] = {"seed": seed} | ({} if rows is None else {"rows": rows})
    table = prepare(find(source).load(**options), steps)
    return table._replace(X=encode_rows(table.X, _FLOAT32, None))


@functools.lru_cache(maxsize=2)
def _table(
    source: str, digest: str, columns: tuple, rows: int | None, steps: tuple[str, ...]
) -> Dataset:
    """A table, cut to so many rows, the same ones for all."""
    table = find(source).load(**dict(columns))
    if rows is not None and rows < len(table.y):
        some = np.random.default_rng(0).permutation(len(table.y))[:rows]
        table = table._replace(X=table.X[some], y=table.y[some])
    if Steps(steps).order_matters:  # each stream prepares its own
        return table
    return prepare(table, steps)


@functools.lru_cache(maxsize=2)
def _rows(
    source: str, digest: str, columns: tuple, rows: int | None, steps: tuple[str, ...]
) -> Rows:
    return encode_rows(_table(source, digest, columns, rows, steps).X, _FLOAT32, None)


def stream_of(cell: Cell) -> Stream:
    with _making:
        if find(cell.source).drawn:
            seed = cell.repeat + _APART * cell.tuning
            rows = min((n for n in (cell.rows, cell.rounds) if n), default=None)
            table = _drawn(cell.source, rows, cell.prepare, seed)
            where = points(len(table.y) * cell.epochs, len(table.y))
            labels, channel = len(table.labels), cell.channel.steps()
            return Stream(
                table.X, table.y, labels, _NONE, cell.epochs, where, channel, None,
                _bayes_mistakes(table, where),
            )  # fmt: skip
        key = (cell.source, cell.digest, cell.columns, cell.rows, cell.prepare)
        table, rows = _table(*key), None
        if not Steps(cell.prepare).order_matters:
            rows = _rows(*key)
        return (_without_fold if cell.folds else _in_turn)(cell, table, rows)


def _bayes_mistakes(table: Any, where: list[int]) -> list[int]:
    """How often the best rule was wrong, where the data know it."""
    if not hasattr(table, "bayes"):
        return []
    wrong = np.cumsum(np.resize(table.bayes != table.y, where[-1]))
    return wrong[np.array(where) - 1].tolist()


def _in_turn(cell: Cell, table: Dataset, rows: Rows | None) -> Stream:
    """The rows of a table, shuffled anew for each epoch."""
    rounds = cell.rounds or cell.epochs * len(table.y)
    epochs = -(-rounds // len(table.y))
    order = _shuffled(np.arange(len(table.y)), epochs, cell.repeat + _APART * cell.tuning)[:rounds]
    X, y, labels = rows, table.y, len(table.labels)
    where = points(len(order), len(y))
    if X is None:
        X, y = prepare(table._replace(X=table.X[order], y=y[order]), cell.prepare)[2:4]
        order = _NONE
    return Stream(X, y, labels, order, 1, where, cell.channel.steps(), None)


def _shuffled(rows: np.ndarray, epochs: int, seed: int) -> np.ndarray:
    shuffle = np.random.default_rng(seed).permutation
    return np.concatenate([shuffle(rows) for _ in range(epochs)]).astype(np.int64)


def _without_fold(cell: Cell, table: Dataset, rows: Rows | None) -> Stream:
    """All folds but one to learn from, with noisy labels if so asked, and that one to judge by.

    To tune, the complement of the first fold is split once more, nine to one, and the labels to
    judge by are noisy as well: nothing of the first fold or of clean labels is used. The setting is
    then used for all folds, as in the paper that tunes on one split.
    """
    if len(table.y) < 10 * cell.folds:
        raise ValueError(f"{len(table.y)} rows are too few for {cell.folds} folds: ten for each")
    places = np.random.default_rng(cell.folds).permutation(len(table.y))
    judged = places[cell.repeat :: cell.folds]
    learned = np.setdiff1d(places, judged, assume_unique=True)
    labels = len(table.labels)
    draw = np.random.default_rng([cell.folds, cell.repeat])
    noisy = table.y.copy()
    picked = learned[draw.random(len(learned)) < cell.channel.label_noise]
    noisy[picked] = draw.integers(0, labels, len(picked))
    if cell.tuning:
        mixed = draw.permutation(learned)
        learned, judged = mixed[len(mixed) // 10 :], mixed[: len(mixed) // 10]
    order = _shuffled(learned, cell.epochs, cell.repeat)
    test = (table.X[judged], noisy[judged])
    # Folds differ by a row: all are counted where the shortest is.
    epoch = len(learned) if cell.tuning else len(places) - -(-len(places) // cell.folds)
    where = points(epoch * cell.epochs, epoch)
    return Stream(rows, noisy, labels, order, 1, where, [], test)


def run_cells(cells: Sequence[Cell], progress: Callable[[int], None] | None = None) -> list[Result]:
    """Run cells of one stream, side by side if they may. One that fails does not take others."""
    try:
        return _run(cells, progress)
    except Exception as error:
        if len(cells) == 1:
            return [Result(error=f"{type(error).__name__}: {error}")]
        return [result for cell in cells for result in run_cells([cell], progress)]


def _run(cells: Sequence[Cell], progress: Callable[[int], None] | None) -> list[Result]:
    stream = stream_of(cells[0])
    epochs, where = stream.epochs, stream.points
    order: Any = stream.order if len(stream.order) else "given"
    make: Any = learner_named(cells[0].learner)
    learners = [make(stream.labels, **dict(c.settings), seed=c.repeat) for c in cells]
    if cells[0].alone:
        assert len(cells) == 1
        simulate(make(stream.labels, **dict(cells[0].settings)), stream.X, stream.y, order=[0])
        before = time.thread_time()
        trace = simulate(
            learners[0], stream.X, stream.y, epochs=epochs, order=order, checkpoints=where,
            channel=stream.channel, progress=progress,
        )  # fmt: skip
        return [_result(trace, stream, None, None, time.thread_time() - before)]
    before = time.perf_counter()
    runs = sweep(
        learners, stream.X, stream.y, epochs=epochs, order=order, checkpoints=where,
        channel=stream.channel, test=stream.test, threads=1, progress=progress,
    )  # fmt: skip
    each = (time.perf_counter() - before) / len(runs)
    test = [run.test_error if stream.test else None for run in runs]
    return [
        _result(run.trace, stream, error, run.rates, each)
        for run, error in zip(runs, test, strict=True)
    ]


def _result(
    trace: Any,
    stream: Stream,
    test_error: float | None,
    rates: tuple[float, float] | None,
    seconds: float,
) -> Result:
    return Result(
        rounds=trace.rounds.tolist(),
        mistakes=trace.mistakes.tolist(),
        greedy_mistakes=trace.greedy_mistakes.tolist(),
        explored=trace.explored.tolist(),
        updates=trace.updates.tolist(),
        bayes_mistakes=list(stream.bayes_mistakes),
        test_error=test_error,
        rates=list(rates or ()),
        seconds=seconds,
    )
