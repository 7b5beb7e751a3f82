"""A cell: one learner with one setting on one stream; and how it is run.

The result of a cell is a pure function of its fields, so its name is a hash of them, and a cell
that several experiments need runs once.
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

from onebit.core.sources import SOURCES
from onebit.datasets import Dataset, Steps, find, prepare
from onebit.datasets.catalogue_entry import CatalogueEntry
from onebit.lab.simulation import Trace, simulate
from onebit.lab.studies.conditions import ChannelSpec, SettingValue, study_check_points
from onebit.lab.sweeping import sweep
from onebit.learner.learner import Learner
from onebit.reading.contexts import encode_rows
from onebit.reading.frames import NamedColumns, table_in
from onebit.reading.rows import Rows
from onebit.registry.lookup import learner_named

if TYPE_CHECKING:
    from onebit.lab.studies.spec import Data

_FLOAT32 = np.dtype(np.float32)
_APART = 10**6  # streams to tune on have seeds from here on: never one that is reported


# Modules that only look something up by name; the digest gets the modules that they find.
_BY_NAME = (
    "onebit.registry.lookup",
    "onebit.datasets.catalogue",
    "onebit.datasets.readers",
    "onebit.datasets.npz_files",
    "onebit.datasets.csv_files",
    "onebit.datasets.parquet",
    "onebit.datasets.svmlight",
    "onebit.datasets.vowpal",
)
_UNREADABLE = uuid.uuid4().hex  # the digest of code without a source: different in each process


def code_for(learner: type[Learner], source: str) -> str:
    """A digest of the code that the results of a learner on a data set depend on.

    It covers this module, the modules of the learner's class and of the functions that make the
    rows, and all modules that these import.
    """
    return _code(learner, find(source))


@functools.lru_cache
def _code(learner: type[Learner], entry: CatalogueEntry) -> str:
    names = [(maker.__module__, maker.__qualname__) for maker in entry.makers()]
    kinds = {kind.__module__ for kind in learner.__mro__}
    modules = {__name__, CatalogueEntry.__module__, *kinds, *(module for module, _ in names)}
    digest = SOURCES.digest(modules, _BY_NAME) or _UNREADABLE
    facts = repr((digest, entry.drawn, names))
    return hashlib.sha256(facts.encode()).hexdigest()[:16]


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    source: str  # a name of the catalogue
    digest: str  # of its file, none if it is drawn
    columns: tuple[tuple[str, Any], ...]  # options for reading its file
    rows: int | None
    prepare: tuple[str, ...]
    channel: ChannelSpec
    folds: int  # 0: online
    tuning: bool
    repeat: int  # of the stream; or the fold that is left out
    epochs: int
    rounds: int | None = None  # if given, it overrides the epochs
    alone: bool
    learner: str
    settings: tuple[tuple[str, SettingValue], ...]
    code: str = ""  # a digest of the code that the result depends on

    @property
    def name(self) -> str:
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()[:24]

    @property
    def without_settings(self) -> Cell:
        """Equal for cells that can run in lockstep."""
        return msgspec.structs.replace(self, settings=())

    def __str__(self) -> str:
        settings = " ".join(f"{key}={value}" for key, value in self.settings)
        repeat = f"{'fold' if self.folds else 'repeat'} {self.repeat}"
        tuning = ", tuning" if self.tuning else ""
        clean = msgspec.to_builtins(ChannelSpec())
        steps = [
            f"{key} {value}"
            for key, value in msgspec.to_builtins(self.channel).items()
            if value != clean[key]
        ]
        channel = ", ".join(steps) or "clean"
        return f"{self.source} / {self.learner} {settings} / {channel} / {repeat}{tuning}"


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a cell: counts at check points, or an error."""

    rounds: list[int] = []
    mistakes: list[int] = []
    greedy_mistakes: list[int] = []
    explored: list[int] = []
    updates: list[int] = []
    bayes_mistakes: list[int] = []  # of the best rule, for data whose best rule is known
    test_error: float | None = None
    rates: list[float] = []  # of flips, estimated by the learner at the end
    seconds: float = 0.0
    error: str = ""

    @property
    def regret(self) -> list[int]:
        """Mistakes beyond those of the best rule."""
        return [m - b for m, b in zip(self.mistakes, self.bayes_mistakes, strict=True)]


class DataSource(NamedTuple):
    """Where a study's data set is found."""

    name: str
    digest: str  # of its file; none if it is built in
    drawn: bool
    own: bool  # a file that is not in the catalogue


def source_of(data: Data) -> DataSource | None:
    """The first source that is available."""
    for name in data.sources:
        try:
            entry = find(name)
        except ValueError:
            continue
        if entry.make is not None:
            return DataSource(name, "", entry.drawn, False)
        path = entry.find()
        if path is not None:
            return DataSource(
                name, _digest(str(path), path.stat().st_mtime_ns), False, entry.is_own
            )
    return None


@functools.lru_cache
def _digest(path: str, changed: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class CellStream(NamedTuple):
    """The rows that a cell runs over, and the arguments of `simulate` for them."""

    X: Any
    y: np.ndarray
    labels: int
    check_points: list[int]
    order: np.ndarray = np.empty(0, np.int64)  # of all epochs; empty: the given order
    epochs: int = 1  # passes over the rows
    channel: Sequence[Any] = ()
    test: tuple[Any, np.ndarray] | None = None
    bayes_mistakes: Sequence[int] = ()  # at the check points

    @property
    def arguments(self) -> dict[str, Any]:
        return {
            "order": self.order if len(self.order) else "given",
            "epochs": self.epochs,
            "checkpoints": self.check_points,
            "channel": self.channel,
        }


# Streams are large, and consecutive cells often use the same one.
_making = threading.Lock()


@functools.lru_cache(maxsize=2)
def _drawn(source: str, rows: int | None, steps: tuple[str, ...], seed: int) -> Dataset:
    options: dict[str, Any] = {"seed": seed} | ({} if rows is None else {"rows": rows})
    table = prepare(find(source).load(**options), steps)
    return table._replace(X=encode_rows(table.X, _FLOAT32, None))


@functools.lru_cache(maxsize=2)
def _table(
    source: str, digest: str, columns: tuple, rows: int | None, steps: tuple[str, ...]
) -> tuple[Dataset, Rows | None]:
    """A table, cut to a number of rows that are the same for all cells, and its encoded rows.

    If the order of the rounds matters to a step, each stream prepares and encodes its own rows.
    """
    table = find(source).load(**dict(columns))
    if rows is not None and rows < len(table.y):
        kept = np.random.default_rng(0).permutation(len(table.y))[:rows]
        table = table._replace(X=table.X[kept], y=table.y[kept])
    if Steps(steps).order_matters:
        return table, None
    table = prepare(table, steps)
    X = table_in(table)
    return table, encode_rows(X, _FLOAT32, None, gaps=isinstance(X, NamedColumns))


def stream_of(cell: Cell) -> CellStream:
    with _making:
        if not find(cell.source).drawn:
            key = (cell.source, cell.digest, cell.columns, cell.rows, cell.prepare)
            return (_without_fold if cell.folds else _in_turn)(cell, *_table(*key))
        seed = cell.repeat + _APART * cell.tuning
        rows = min((n for n in (cell.rows, cell.rounds) if n), default=None)
        table = _drawn(cell.source, rows, cell.prepare, seed)
        where = study_check_points(len(table.y) * cell.epochs, len(table.y))
        stream = CellStream(table.X, table.y, len(table.labels), where, epochs=cell.epochs)
        mistakes = _bayes_mistakes(table, where)
        return stream._replace(channel=cell.channel.steps(), bayes_mistakes=mistakes)


def _bayes_mistakes(table: Any, where: list[int]) -> list[int]:
    """How often the best rule was wrong, for data whose best rule is known."""
    if not hasattr(table, "bayes"):
        return []
    wrong = np.cumsum(np.resize(table.bayes != table.y, where[-1]))
    return wrong[np.array(where) - 1].tolist()


def _in_turn(cell: Cell, table: Dataset, rows: Rows | None) -> CellStream:
    """The rows of a table, shuffled anew for each epoch."""
    size, labels = len(table.y), len(table.labels)
    rounds = cell.rounds or cell.epochs * size
    seed = cell.repeat + _APART * cell.tuning
    order = _shuffled(np.arange(size), -(-rounds // size), seed)[:rounds]
    where, channel = study_check_points(rounds, size), cell.channel.steps()
    if rows is not None:
        return CellStream(rows, table.y, labels, where, order, channel=channel)
    table = prepare(table._replace(X=table.X[order], y=table.y[order]), cell.prepare)
    return CellStream(table.X, table.y, labels, where, channel=channel)


def _shuffled(rows: np.ndarray, epochs: int, seed: int) -> np.ndarray:
    shuffle = np.random.default_rng(seed).permutation
    return np.concatenate([shuffle(rows) for _ in range(epochs)]).astype(np.int64)


def _without_fold(cell: Cell, table: Dataset, rows: Rows | None) -> CellStream:
    """All folds but one to learn from, perhaps with noisy labels, and that one to test on.

    For tuning, the complement of the first fold is split again, nine to one. The labels of the
    smaller part are noisy as well, so neither the first fold nor clean labels are used. The chosen
    setting is used for all folds, as in the paper.
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
    test = (table_in(table._replace(X=table.X[judged])), noisy[judged])
    # Folds differ by a row: all have the check points of the shortest.
    epoch = len(learned) if cell.tuning else len(places) - -(-len(places) // cell.folds)
    where = study_check_points(epoch * cell.epochs, epoch)
    return CellStream(rows, noisy, labels, where, order, test=test)


def run_cells(cells: Sequence[Cell], progress: Callable[[int], None] | None = None) -> list[Result]:
    """Run cells of one stream, in lockstep if possible. A failure does not affect other cells."""
    try:
        return _run_together(cells, progress)
    except Exception as error:
        if len(cells) == 1:
            return [Result(error=f"{type(error).__name__}: {error}")]
        return [result for cell in cells for result in run_cells([cell], progress)]


def _run_together(cells: Sequence[Cell], progress: Callable[[int], None] | None) -> list[Result]:
    stream = stream_of(cells[0])
    X, y, arguments = stream.X, stream.y, {**stream.arguments, "progress": progress}
    make: Any = learner_named(cells[0].learner)
    learners = [make(stream.labels, **dict(cell.settings), seed=cell.repeat) for cell in cells]
    if cells[0].alone:
        [learner] = learners
        simulate(make(stream.labels, **dict(cells[0].settings)), X, y, order=[0])  # compiles
        before = time.thread_time()
        trace = simulate(learner, X, y, **arguments)
        return [_result(stream, trace, None, None, time.thread_time() - before)]
    before = time.perf_counter()
    runs = sweep(learners, X, y, test=stream.test, threads=1, **arguments)
    seconds = (time.perf_counter() - before) / len(runs)
    errors = [run.test_error if stream.test else None for run in runs]
    return [
        _result(stream, run.trace, error, run.rates, seconds)
        for run, error in zip(runs, errors, strict=True)
    ]


def _result(
    stream: CellStream,
    trace: Trace,
    test_error: float | None,
    rates: tuple[float, float] | None,
    seconds: float,
) -> Result:
    return Result(
        **{name: counts.tolist() for name, counts in trace._asdict().items()},
        bayes_mistakes=list(stream.bayes_mistakes),
        test_error=test_error,
        rates=list(rates or ()),
        seconds=seconds,
    )
