"""Reader: the one door through which contexts come into a learner.

`one` reads a context, `many` reads many, and `check` refuses a context before it is read. None of
these changes anything: a reader learns what its contexts are when `remember` is called, in the
round that they belong to. How contexts are read is the reader's way (`ways`).

Where the answer depends on what was learned, methods take the learner: a reader does not hold it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy import ndarray

from onebit.reading.contexts import (
    check_columns,
    check_kind,
    columns_in,
    columns_of,
    is_unnamed,
    kind_of,
    named_context,
)
from onebit.reading.frames import (
    NamedColumns,
    check_names,
    dict_of_row,
    dicts_of,
    listed,
    may_have_names,
    names_of,
    row_in_columns,
)
from onebit.reading.rows import COLUMNS, INT32, NAMES, Rows
from onebit.reading.ways import Raw, Row


class Taught(Protocol):
    """A learner, as its reader asks it."""

    round: int

    def has_learned(self) -> bool:
        """Whether anything was learned."""
        ...

    def knows_numbers(self) -> bool:
        """Whether the scales of numbers of dicts were learned."""
        ...


class Reader:
    """How a learner reads contexts, and what it has read so far."""

    def __init__(self, way: Raw, check: Callable[..., None] | None, columns: int) -> None:
        self.way, self.dtype = way, way.dtype  # of a context's values
        self.check_values = check  # of the storage: refuses contexts by their values
        self.columns = columns  # of dense rows; 0: not known yet
        self.names: tuple[str, ...] = ()  # of these columns, where they have names
        self.taught_with = ""  # NAMES or COLUMNS: the contexts of the answers so far

    def reading(self, way: Raw, check: Callable[..., None] | None) -> Reader:
        """This reader with another way; it does not change itself."""
        changed = Reader(way, check, self.columns)
        changed.names, changed.taught_with = self.names, self.taught_with
        return changed

    # Reading.

    def one(self, x: Any, learner: Taught) -> tuple[Row, str, Any, int, tuple[str, ...]]:
        """A context: its row, its kind, and x, columns and names to be remembered.

        x: as `in_columns` gives it. columns: of a dense row, if they are not known yet, else 0.
        """
        way = self.way
        if type(x) is tuple:
            row = way.one(x, self.columns)
            if self.check_values:
                self.check_values(row[1])
            if not len(row[0]):
                return row, "", x, 0, ()
            first = x[0]
            kind = COLUMNS if type(first) is ndarray and first.dtype is INT32 else kind_of(x)
            if kind != self.taught_with:
                self._check_kind(kind, learner)
            return row, kind, x, 0, ()
        names = names_of(x) if hasattr(x, "to_dict") else ()
        if self.names or names:
            x = self.in_columns(x, learner)
        columns = 0
        if way.is_open or not self.columns or (names and not self.names):
            columns = columns_of(x)
            if columns and way.is_open:
                self.check_open_to(columns, learner)
                way = way.for_columns(columns)
        row = way.one(x, self.columns)
        if self.check_values:
            self.check_values(row[1])
        kind = kind_of(x) if len(row[0]) else ""
        if kind != self.taught_with:
            self._check_kind(kind, learner)
        return row, kind, x, columns, names if columns else ()

    def many(self, X: Any, learner: Taught) -> Rows:
        """Many contexts, encoded and checked."""
        if self.names or (may_have_names(X) and self._reads_names(learner)):
            X = listed(X)
            if not self.names or (self.way.is_open and not isinstance(X, NamedColumns)):
                X = dicts_of(X)
            X = [self.in_columns(x, learner) for x in X] if isinstance(X, list) else X
        rows = self.encoded(X, learner)
        if self.way.tells_numbers and learner.knows_numbers():
            parts = X if isinstance(X, list) else [X]
            if rows.columns or any(map(is_unnamed, parts)):
                raise _without_names()
        if rows.kind != self.taught_with:
            check_kind(rows.kind, self.taught_with)
        if rows.columns:
            check_columns(rows.columns, self.columns)
        if rows.names:
            check_names(rows.names, self.names)
        if self.check_values:
            self.check_values(rows.values, rows.indptr)
        return rows

    def encoded(self, X: Any, learner: Taught) -> Rows:
        """Many contexts, which are not compared with those before."""
        way = self.way
        if way.is_open:
            X = listed(X)
            columns = columns_in(X)
            if columns:
                self.check_open_to(columns, learner)
                way = way.for_columns(columns)
        return way.many(X)

    def columns_to_meet(self, x: Any, learner: Taught) -> int:
        """The columns of a dense row that changes the way of reading; 0: x does not."""
        return columns_of(self.in_columns(x, learner)) if self.way.is_open else 0

    def in_columns(self, x: Any, learner: Taught) -> Any:
        """A row with names as the learner reads it.

        If it was taught with a table of numbers, a dict is a row of that table. If it was taught
        with dicts, a row of a table of numbers is a dict.
        """
        has_names = bool(names_of(x))
        if not self.names:
            return dict_of_row(x) if has_names and self._reads_names(learner) else x
        named = dict_of_row(x) if has_names else named_context(x)
        if named is None:
            return x
        gaps = self.way.columns or not self.columns  # of a wide table, what is missing is 0
        row = row_in_columns(named, self.names, self.way.dtype, bool(gaps))
        if self.way.columns:
            return row
        indices = np.flatnonzero(np.nan_to_num(row))
        return indices, row[indices]

    def _reads_names(self, learner: Taught) -> bool:
        """Whether rows of numbers with names are read as dicts: the first context was not dense."""
        has_come = learner.round > 0 or self.taught_with
        if not has_come or self.columns or self.taught_with == COLUMNS:
            return False
        return not self.way.is_open or learner.has_learned()

    # Remembering.

    def remember(self, columns: int, names: tuple[str, ...]) -> None:
        """A context came, a dense row of so many columns with these names."""
        self.columns = self.columns or columns
        self.names = self.names or names

    # Refusing.

    def check(self, x: Any, learner: Taught) -> None:
        """Refuse a context that would be refused, where this does not take long.

        Names and texts take long to read, and fit every learner that was taught with them.
        """
        if isinstance(x, str | Mapping) and not self.way.columns and not self.names:
            check_kind(kind_of(x), self.taught_with)
        else:
            self.one(x, learner)

    def check_is_named(self, x: Any, learner: Taught) -> None:
        """Refuse a row without names if the learner knows numbers by their names."""
        if isinstance(x, tuple | str | Mapping) or not learner.knows_numbers():
            return
        if columns_of(x) or is_unnamed(x):
            raise _without_names()

    def _check_kind(self, kind: str, learner: Taught) -> None:
        """Refuse a context of another kind than those before."""
        if kind == COLUMNS and self.taught_with == NAMES and learner.knows_numbers():
            raise _without_names()
        check_kind(kind, self.taught_with)

    def check_open_to(self, columns: int, learner: Taught) -> None:
        """Refuse dense rows if the learner has learned from others; 0: these are none."""
        # In this order: another thread may teach it with dense rows in between.
        if columns and learner.has_learned() and self.way.is_open:
            if learner.knows_numbers():
                raise _without_names()
            raise ValueError(
                f"this learner was taught with texts, dicts or sparse rows, and takes no dense "
                f"rows, such as this one of {columns} columns: use another learner for these. "
                "With inputs='sparse', arrays are sparse rows, too"
            )


def _without_names() -> ValueError:
    return ValueError(
        "this learner was taught with dicts or rows of a table with texts, and knows "
        "numbers by their names. An array or a sparse matrix has none: give dicts, a data "
        "frame, or rows of a table as datasets.read() gives them (X[i], X[rows]; "
        "csr_matrix(X) and scipy's vstack lose what the columns are)"
    )
