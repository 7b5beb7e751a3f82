"""The streams that learners run over: a data set, its rows prepared, in the order of the rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from onebit import datasets
from onebit.datasets.catalogue import named
from onebit.lab.simulation import shuffled
from onebit.reading.contexts import FLOAT64, encode_rows
from onebit.reading.frames import NamedColumns, table_in
from onebit.reading.rows import Rows

FLOAT32 = np.dtype(np.float32)
DRAWN = 100_000  # default number of rows of synthetic data


class LabelledStream(NamedTuple):
    """One repeat of a data set."""

    data: str
    rows: Rows
    y: np.ndarray  # places of labels; or a matrix of which labels are right
    order: np.ndarray  # the row of each round; empty: each row once, in its order
    labels: int
    names: Sequence[Any]  # of the labels
    comparator: np.ndarray | None = None
    table: int | None = None  # rows of the table that the rounds are from; None: synthetic data

    @property
    def rounds(self) -> int:
        return len(self.order) or len(self.y)

    @property
    def truth(self) -> np.ndarray:
        """The label of each round, or which labels are right in it."""
        return self.y[self.order] if len(self.order) else self.y

    @property
    def simulated_order(self) -> Any:
        """The order, as `simulate` takes it."""
        return self.order if len(self.order) else "given"


def streams(
    data: str,
    rounds: int | None,
    repeats: int,
    seed: int,
    columns: Mapping[str, Any] | None = None,
    prepare: Sequence[str] = (),
) -> tuple[str, str, list[LabelledStream]]:
    """Name, description and repeats of a data set, given by its catalogue name or a file's path.

    Synthetic data are drawn anew for each repeat, 100,000 rows unless `rounds` is given. The rows
    of a table are shuffled anew for each repeat. Each row is used once; with more rounds than rows,
    rows are used again. columns: the options of `datasets.read` for a file. prepare: steps applied
    to each row, in the order of the rounds.
    """
    entry = named(data)
    unordered = [np.arange(0)] * repeats
    if entry.drawn:
        drawn = (entry.load(rows=rounds or DRAWN, seed=seed + i) for i in range(repeats))
        ready = [datasets.prepare(table, prepare) for table in drawn]
        return _repeats(data, ready, unordered, None)
    table = load(data, columns)
    size = len(table.y)
    epochs = -(-(rounds or size) // size)
    orders = [shuffled(size, epochs, seed + i)[:rounds] for i in range(repeats)]
    if datasets.Steps(prepare).order_matters:  # every round gets its own copy of the row
        in_order = (table._replace(X=table.X[order], y=table.y[order]) for order in orders)
        ready = [datasets.prepare(table, prepare) for table in in_order]
        return _repeats(data, ready, unordered, size)
    table = datasets.prepare(table, prepare)
    table = table._replace(X=encoded(table_in(table), gaps=True))
    return _repeats(data, [table] * repeats, orders, size)


def encoded(X: Any, gaps: bool = False) -> Rows:
    """Rows for any learner.

    Dense rows keep all their digits, for learners that standardise columns. The other rows are in
    single precision, the precision of most learners. gaps: dense rows may have missing numbers, as
    those of a table from a file always may.
    """
    if isinstance(X, NamedColumns):
        is_single = X.X.dtype == FLOAT32
        return encode_rows(X, FLOAT32 if is_single else FLOAT64, None, gaps=True)
    gaps = gaps and isinstance(X, np.ndarray)
    if hasattr(X, "tocsr") or getattr(X, "dtype", None) == FLOAT32:
        return encode_rows(X, FLOAT32, None, apart_below=2**32, gaps=gaps)
    rows = X if isinstance(X, Rows) else encode_rows(X, FLOAT64, None, 2**32, gaps)
    return rows if rows.columns else encode_rows(rows, FLOAT32, None)


def have_length_1(rows: Rows) -> bool:
    """Whether all rows that are not empty have length 1, but for rounding."""
    sizes = np.diff(rows.indptr)
    row_of = np.repeat(np.arange(len(sizes)), sizes)
    squares = np.bincount(row_of, np.square(rows.values, dtype=np.float64), len(sizes))
    return bool(np.allclose(squares[sizes > 0], 1, rtol=1e-4, atol=0))


def load(
    data: str, columns: Mapping[str, Any] | None = None, *, rows: int = DRAWN, seed: int = 0
) -> datasets.Dataset:
    """A data set by its catalogue name or a file's path. rows, seed: of synthetic data."""
    entry = named(data)
    if entry.drawn:
        table = entry.load(rows=rows, seed=seed)
    else:
        table = entry.load(**(columns or {} if entry.is_own else {}))
    if len(table.labels) < 2:
        raise ValueError(f"{data}: all rows have the label {table.labels[0]!r}; there must be two")
    return table


def _repeats(
    data: str, tables: Sequence[Any], orders: Sequence[np.ndarray], size: int | None
) -> tuple[str, str, list[LabelledStream]]:
    made = [
        LabelledStream(
            data=data,
            rows=encoded(table_in(table), gaps=True),
            y=table.y,
            order=order,
            labels=len(table.labels),
            names=table.labels,
            comparator=getattr(table, "comparator", None),
            table=size,
        )
        for table, order in zip(tables, orders, strict=True)
    ]
    return tables[0].name, tables[0].about, made
