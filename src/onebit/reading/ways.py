"""Ways of reading: how contexts become rows of numbers, a class for each.

`Raw` takes contexts as they are, and `Unit` scales each to length 1. `Apart` tells the numbers of
dicts from the rest, for learners that standardise them. `Columns` reads the dense rows of a learner
that standardises columns. `Open` is `Apart` until the first dense row comes, and `Columns` then.

A way has no state. What a learner has read so far is in its `Reader`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onebit.core.slots import MARK, plain_width, width_of
from onebit.reading.contexts import (
    FLOAT64,
    column_encoder,
    encode_columns,
    encode_rows,
    encoder,
    encoder_apart,
)
from onebit.reading.dicts import most_features, set_apart
from onebit.reading.rows import Rows, limit_of, unit_row, unit_rows

Row = tuple[np.ndarray, np.ndarray]  # indices and values
ReadOne = Callable[[Any, int], Row]  # a function of a context and the columns so far


class Raw:
    """Contexts are taken as they are."""

    columns = 0  # of dense rows, if the learner standardises them
    is_open = False  # a dense row would be read in another way
    is_scaled = False  # by what the learner has learned
    tells_numbers = False  # the numbers of dicts are told from the rest
    takes_gaps = False  # dense rows may have missing numbers
    first_number = 2**32  # the index from which on features are numbers, if indices tell

    def __init__(self, dtype: np.dtype, features: int | None) -> None:
        self.dtype, self.features = dtype, features  # dtype: of a context's values
        self.most_features = limit_of(features)
        self.one: ReadOne = encoder(dtype, features)

    def many(self, X: Any) -> Rows:
        """Many contexts."""
        return encode_rows(X, self.dtype, self.features)

    def for_columns(self, columns: int) -> Raw:
        """How a dense row of so many columns is read; 0: a context that is no dense row."""
        return self

    def width(self, indices: np.ndarray) -> int:
        """How many features there must be for a context with these indices."""
        return width_of(indices)

    def without(self, indices: np.ndarray, values: np.ndarray, i: int) -> Row:
        """A context without its i-th entry."""
        return np.delete(indices, i), np.delete(values, i)


class Unit(Raw):
    """Each context is scaled to length 1."""

    def __init__(self, dtype: np.dtype, features: int | None) -> None:
        super().__init__(dtype, features)
        self.one = _to_length_1(self.one)

    def many(self, X: Any) -> Rows:
        return unit_rows(super().many(X))


def _to_length_1(read: ReadOne) -> ReadOne:
    def read_one(x: Any, columns: int) -> Row:
        return unit_row(*read(x, columns))

    return read_one


class Apart(Raw):
    """The numbers of dicts have indices from `first` on; MARK: they are marked by a bit."""

    is_scaled = tells_numbers = True

    def __init__(self, dtype: np.dtype, features: int | None, first: int) -> None:
        self.dtype, self.features, self._first = dtype, features, first
        self.one = encoder_apart(dtype, features, first)
        self._most = self.most_features = most_features(features, first)
        if first == MARK:
            self.most_features = limit_of(features)
        else:
            self.first_number = first

    def many(self, X: Any) -> Rows:
        rows = encode_rows(X, self.dtype, self.features, apart_below=self._most)
        rows = set_apart(rows, self._first)
        return rows._replace(width=plain_width(rows.indices)) if self._first == MARK else rows

    def width(self, indices: np.ndarray) -> int:
        return plain_width(indices) if self._first == MARK else width_of(indices)


class Open(Apart):
    """No dense row came so far. If one comes before anything is learned, all contexts are such."""

    is_open = takes_gaps = True

    def for_columns(self, columns: int) -> Raw:
        return Columns(self.features, columns) if columns else self


class Columns(Raw):
    """Dense rows of so many columns, which the learner standardises. They may have gaps."""

    is_scaled = takes_gaps = True

    def __init__(self, features: int | None, columns: int) -> None:
        self.dtype, self.features, self.columns = FLOAT64, features, columns
        self.one = column_encoder(features, columns)
        self.most_features = columns

    def many(self, X: Any) -> Rows:
        return encode_columns(X, self.features, self.columns)

    def without(self, indices: np.ndarray, values: np.ndarray, i: int) -> Row:
        """A context without its i-th entry, which is a gap."""
        values = values.copy()
        values[i] = np.nan
        return indices[values != 0], values[values != 0]
