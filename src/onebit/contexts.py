"""Anything -> (indices, values): the one form of a context that compiled code sees.

A context is a row of an array or of a scipy sparse matrix, a text, a dict of names to numbers or
strings, a row of a data frame, or a pair (indices, values). Inside it is `indices` (uint32,
strictly increasing) and `values` (the learner's precision, finite, not zero). All the forms of one
context give the same two arrays.

A text is hashed by its words and pairs of words (see `texts`). In a dict, a number is the value of
its name. A string with white space is a text whose words are hashed with the name, any other string
is a category. None is a category of its own and NaN is absent; outside a dict NaN is refused.

A learner with inputs="unit" then scales each context to length 1 (`unit_row`, `unit_rows`).

`OneBit` and learners with inputs="auto" standardise numbers, by what they have learned. Dense rows
are read by `column_encoder` then. In other contexts, the numbers of dicts are told apart
(`encoder_apart`, `set_apart`) by their indices: for `OneBit`, these are beyond the columns that
there are for the rest; for the others, the column has a mark.
"""

from __future__ import annotations

import difflib
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from datetime import date, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy import empty, ndarray

from onebit.core.jit import brief_entry, compiled_as, direct, entry
from onebit.core.lanes import at
from onebit.core.slots import MARK
from onebit.texts import Text, is_text, text_columns

HASHED = 2**20  # columns for dicts when `features` is not fixed: as scikit-learn's FeatureHasher
_INT32, _UINT32 = np.dtype(np.int32), np.dtype(np.uint32)
GROWTH_LIMIT = 2**24  # a stray huge index must not ask for all the memory there is


class Rows(NamedTuple):
    """Many contexts: row i is indices[indptr[i]:indptr[i + 1]] and values likewise."""

    indices: Any
    values: Any
    indptr: Any
    width: int  # one more than the largest index
    columns: int = 0  # of dense rows; 0: there are none, and the width is free
    numbers: Any = None  # Rows: the numbers among the entries, zeros too; None: not told apart
    names: tuple[str, ...] = ()  # of the columns of dense rows, where they have names


class NamedColumns(NamedTuple):
    """A matrix of numbers whose columns have names."""

    X: Any
    names: Sequence[str]


def _rows(indices: np.ndarray, values: np.ndarray, indptr: np.ndarray, columns: int = 0) -> Rows:
    return Rows(indices, values, indptr, int(indices.max()) + 1 if len(indices) else 0, columns)


def encode(
    x: Any, dtype: np.dtype, features: int | None, columns: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """One context. The arrays are the caller's own: nothing done to x later can change them.

    columns: those of earlier dense rows; 0: there were none.
    """
    return encoder(dtype, features)(x, columns)


@functools.cache
def encoder(dtype: np.dtype, features: int | None) -> Callable[[Any, int], tuple[Any, Any]]:
    """`encode` for contexts of this precision, as a function of x and columns."""
    limit, top, copy = _limit(features), largest(dtype), None

    def encode_one(x: Any, columns: int) -> tuple[Any, Any]:
        nonlocal copy
        if type(x) is tuple and len(x) == 2:  # most are pairs of arrays that are fit for use
            indices, values = x
            if (
                type(indices) is type(values) is ndarray
                and indices.dtype is _INT32
                and values.dtype is dtype
                and indices.ndim == values.ndim == 1
            ):
                if copy is None:  # it may have to be compiled
                    copy = _row_copier(dtype)
                size = len(indices)
                out_indices, out_values = empty(size, _UINT32), empty(size, dtype)
                if copy(indices, values, limit, top, out_indices, out_values) == size:
                    return out_indices, out_values
        return _encode(x, dtype, features, columns)

    return encode_one


def _encode(x: Any, dtype: np.dtype, features: int | None, columns: int) -> tuple[Any, Any]:
    if type(x) is tuple:
        return _pair(x, dtype, features)
    if isinstance(x, str):
        width = HASHED if features is None else features
        return _pair(text_columns(x, width), dtype, width)
    if hasattr(x, "tocsr"):  # first: scipy's dictionary of keys is a mapping too
        rows = _one_row(x, dtype, features)
        return rows.indices.copy(), rows.values.copy()
    x = row_of_frame(x)
    if isinstance(x, Mapping):
        return _named(x, dtype, features)
    row = _numbers(x, "a context")
    if row.ndim == 2 and row.shape[0] == 1:
        row = row[0]
    if row.ndim != 1:
        found = f"an array of shape {row.shape}" if row.ndim else "a number: put it into a list"
        raise ValueError(f"one context is one row, not {found}")
    _check_width(len(row), dtype, features)
    encoded = encode((np.arange(len(row), dtype=_INT32), row), dtype, features)
    check_columns(len(row), columns)
    return encoded


def _one_row(x: Any, dtype: np.dtype, features: int | None) -> Rows:
    """A row of a sparse matrix."""
    row = x if x.ndim == 2 else x.reshape(1, -1)
    if row.shape[0] != 1:
        raise ValueError(f"one context is one row, not {row.shape[0]}")
    return _sparse(row, dtype, features)


def encode_rows(
    X: Any, dtype: np.dtype, features: int | None, apart_below: int | None = None
) -> Rows:
    """Many contexts: a matrix (array or sparse), a data frame, or a sequence of single ones.

    apart_below: tell which entries are numbers of dicts; rows of decisions, in which numbers are
    apart, have indices below this. Tables from files always tell it.
    """
    if isinstance(X, NamedColumns):
        return encode_rows(X.X, dtype, features)._replace(names=tuple(X.names))
    X = listed(X)
    if isinstance(X, Rows):  # encoded before
        return X if X.values.dtype == dtype else _cast(X, dtype)
    if hasattr(X, "tocsr"):
        if X.ndim != 2:
            raise ValueError(f"X must be a matrix, one row a context, not of shape {X.shape}")
        return _sparse(X, dtype, features)
    if isinstance(X, Mapping | tuple):
        raise TypeError("X must be many contexts: put a single dict or pair into a list")
    if isinstance(X, Sequence) and not isinstance(X, str | bytes):
        X = _texts(X) if any(isinstance(x, str) for x in X) else X
        if not len(X) or not np.isscalar(X[0]) or isinstance(X[0], str):
            return _stack(X, dtype, features, apart_below)
    matrix = _numbers(X, "X")
    if matrix.ndim != 2:
        hint = "; put a single row into a list" if matrix.ndim == 1 else ""
        raise ValueError(
            f"X must be a matrix, one row a context, not of shape {matrix.shape}{hint}"
        )
    return _dense(matrix, dtype, features)._replace(names=names_of(X))


# Rows whose columns the learner standardises. They are in float64, so that a column of large
# numbers that differ little keeps its digits. A row of zeros is a row as any other: it is not
# empty, but has the least value that is kept.

FLOAT64 = np.dtype(np.float64)
_ZEROS = np.zeros(1, np.uint32), np.full(1, 1 / 1e120)


@functools.cache
def column_encoder(features: int | None, count: int) -> Callable[[Any, int], tuple[Any, Any]]:
    """`encoder` for such rows, of so many columns."""
    plain = encoder(FLOAT64, features)

    def encode_one(x: Any, columns: int) -> tuple[Any, Any]:
        row = plain(x, columns)
        if not len(row[0]):
            return _ZEROS[0].copy(), _ZEROS[1].copy()
        check_within(int(row[0][-1]), count)
        return row

    return encode_one


def check_within(index: int, columns: int) -> None:
    if index >= columns:
        raise ValueError(
            f"this learner takes dense rows of {columns} columns, as its first context was; "
            f"column {index} is beyond them. A text, and a dict where columns have no names, is no "
            "dense row: use another learner for these"
        )


def encode_columns(X: Any, features: int | None, count: int) -> Rows:
    """`encode_rows` for such rows, of so many columns."""
    rows = encode_rows(X, FLOAT64, features)
    check_columns(rows.columns, count)
    check_within(rows.width - 1, count)
    empty = np.flatnonzero(rows.indptr[1:] == rows.indptr[:-1])
    if not len(empty):
        return rows
    index, least = _ZEROS
    return rows._replace(
        indices=np.insert(rows.indices, rows.indptr[empty], index),
        values=np.insert(rows.values, rows.indptr[empty], least),
        indptr=rows.indptr + np.searchsorted(empty, np.arange(len(rows.indptr))),
        width=max(rows.width, 1),
    )


# Rows of length 1.


@entry
def unit_norm(values, indptr, least):
    """Scale rows to length 1, in place. Returns how many values are now smaller than `least`.

    A row of length 1, but for rounding, stays as it is: scaling twice is scaling once.
    """
    small = 0
    rounding = 1e-6 if values.itemsize == 4 else 1e-12
    for row in range(len(indptr) - 1):
        total = 0.0
        for i in range(indptr[row], indptr[row + 1]):
            total += np.float64(values[i]) * np.float64(values[i])
        length = 1.0 if abs(total - 1.0) < rounding else math.sqrt(total)
        for i in range(indptr[row], indptr[row + 1]):
            values[i] = np.float64(values[i]) / length
            small += abs(np.float64(values[i])) < least
    return small


def unit_row(indices: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A context scaled to length 1. Its values are changed in place."""
    indptr, least = np.array([0, len(values)]), 1 / largest(values.dtype)
    scale = direct(unit_norm, values.dtype, values, indptr, least)
    if scale(values, indptr, least):
        kept = np.abs(values) >= least
        return indices[kept], values[kept]
    return indices, values


def unit_rows(rows: Rows) -> Rows:
    """Many contexts scaled to length 1, each as by `unit_row`; copies."""
    values, least = rows.values.copy(), 1 / largest(rows.values.dtype)
    if not unit_norm(values, rows.indptr, least):
        return rows._replace(values=values)
    kept = np.abs(values) >= least
    indptr = np.concatenate([[0], np.cumsum(kept)])[rows.indptr]
    return _rows(rows.indices[kept], values[kept], indptr, rows.columns)


def columns_of(x: Any) -> int:
    """How many columns a context has if it is a dense row, else 0."""
    if type(x) is tuple or isinstance(x, Mapping | str) or hasattr(x, "tocsr"):
        return 0
    return 0 if isinstance(row_of_frame(x), Mapping) else np.shape(x)[-1]


def check_columns(columns: int, before: int) -> None:
    """Refuse dense rows of another width than there were before; 0: there are none."""
    if columns and before and columns != before:
        raise ValueError(
            f"a row has {columns} columns, and rows before it had {before}; for rows that grow, "
            "use dicts, pairs (indices, values) or sparse rows; features= says the width beforehand"
        )


def _stack(
    contexts: Iterable[Any], dtype: np.dtype, features: int | None, apart_below: int | None
) -> Rows:
    """Many contexts, one after the other."""
    columns = 0
    rows: list[tuple[Any, Any]] = []
    numbers: list[tuple[Any, Any]] = []
    for i, x in enumerate(contexts):
        try:
            named = None if apart_below is None else named_context(x)
            apart = NO_ENTRIES
            if named is not None:
                row, apart = encode_named(named, dtype, features)
            elif apart_below is not None and _is_apart(x):
                row = _pair(x, dtype, apart_below)
            else:
                row = encode(x, dtype, features, columns)
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"row {i}: {error}") from None
        columns = columns or columns_of(x)
        rows.append(row)
        numbers.append(apart)
    made = stacked(rows, dtype)._replace(columns=columns)
    has_numbers = any(len(indices) for indices, _ in numbers)
    return made._replace(numbers=stacked(numbers, dtype)) if has_numbers else made


NO_ENTRIES = np.empty(0, np.uint32), np.empty(0, np.float32)


def stacked(rows: Sequence[tuple[np.ndarray, np.ndarray]], dtype: np.dtype) -> Rows:
    """Encoded contexts, one after the other."""
    rows = [(NO_ENTRIES[0], NO_ENTRIES[1].astype(dtype)), *rows]
    indptr = np.cumsum([len(indices) for indices, _ in rows], dtype=np.int64)
    indices, values = (np.concatenate(part) for part in zip(*rows, strict=True))
    return _rows(indices, values.astype(dtype, copy=False), indptr)


def _cast(rows: Rows, dtype: np.dtype) -> Rows:
    numbers = rows.numbers
    if numbers is not None:  # zeros stay: they are numbers too
        numbers = numbers._replace(values=numbers.values.astype(dtype))
    if dtype.itemsize < rows.values.itemsize:  # values may be too large, or so small that they go
        indices = rows.indices.astype(np.int64)
        made: Any = _copied(indices, rows.values, rows.indptr, False, 2**32, dtype, 2**32)
        return made._replace(columns=rows.columns, numbers=numbers, names=rows.names)
    return rows._replace(values=rows.values.astype(dtype), numbers=numbers)


def _texts(X: Sequence[Any]) -> list[str]:
    """A list of texts, some of which may be missing; a missing text has no words."""
    texts: list[str] = []
    for i, x in enumerate(X):
        if not isinstance(x, str) and not is_missing(x):
            raise TypeError(
                f"row {i} is no text but of the type {type(x).__name__}; where a row is a text, "
                "all rows are: put a text and numbers that belong together into a dict"
            )
        texts.append(x if isinstance(x, str) else "")
    return texts


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or a mark of pandas for a missing value."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and math.isnan(value)


# Data frames of pandas and polars. A frame of numbers is a matrix. Any other is read row by row, as
# dicts. Neither library is imported: a frame is known by its attributes.


def listed(X: Any) -> Any:
    """A column of texts or other objects as a list, a frame with names as a list of dicts."""
    if hasattr(X, "to_dict") and hasattr(X, "columns"):
        return _frame_rows(X)
    if isinstance(X, np.ndarray):
        return X.tolist() if X.ndim == 1 and X.dtype.kind in "OTU" else X
    if hasattr(X, "to_list") and hasattr(X, "dtype") and not _is_numeric(X.dtype):
        return X.to_list()
    return X


def _is_numeric(dtype: Any) -> bool:
    """Whether a column of pandas or polars holds numbers or truth values."""
    if hasattr(dtype, "is_numeric"):
        return dtype.is_numeric() or str(dtype) == "Boolean"
    return getattr(dtype, "kind", "O") in "biuf"


def _frame_rows(frame: Any) -> Any:
    """The frame itself if it holds numbers alone, else its rows as dicts."""
    names = list(frame.columns)
    if len(set(names)) < len(names):
        raise ValueError("two columns of the frame have the same name; rename one of them")
    if all(_is_numeric(frame[name].dtype) for name in names):
        return frame
    columns = (frame[name].to_list() for name in names)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def row_of_frame(x: Any) -> Any:
    """A row of a frame as a dict if it holds more than numbers. Any other context is itself."""
    if not hasattr(x, "to_dict") or isinstance(x, Mapping):
        return x
    if hasattr(x, "columns"):  # a frame, of a single row
        rows = _frame_rows(x)
        if rows is not x and len(rows) != 1:
            raise ValueError(f"one context is one row, not {len(rows)}")
        return x if rows is x else rows[0]
    return x if _is_numeric(x.dtype) else x.to_dict()


# Names of columns. A learner of a table of numbers reads a dict as a row of that table.


def names_of(x: Any) -> tuple[str, ...]:
    """The names of the columns of a frame of numbers, or of a row of one; others have none."""
    if not hasattr(x, "to_dict"):
        return ()
    names = getattr(x, "columns", None) if hasattr(x, "columns") else getattr(x, "index", None)
    if names is None or callable(names):
        return ()
    names = tuple(names)
    return names if all(isinstance(name, str) for name in names) else ()


def row_in_columns(
    x: Mapping[Any, Any],
    names: tuple[str, ...],
    dtype: np.dtype,
    typical: Callable[[int], float] | None,
) -> np.ndarray:
    """A dict as a row of the columns with these names.

    typical: the value of a column that is missing; None: none may be.
    """
    for name in x:
        if name not in names:
            near = difflib.get_close_matches(str(name), names, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; there are {_some(names)}"
            raise ValueError(f"the learner knows no column {name!r}{hint}")
    row = np.empty(len(names))
    for column, name in enumerate(names):
        value = x.get(name)
        row[column] = math.nan if value is None else _number(name, value, dtype)
        if math.isnan(row[column]):
            if typical is None:
                raise ValueError(
                    f"column {name!r} is missing; give it a value: only OneBit and "
                    "inputs='auto' read a missing number of a table, as the column's mean"
                )
            row[column] = typical(column)
    return row


def check_names(names: tuple[str, ...], before: tuple[str, ...]) -> None:
    """Refuse columns with other names than there were before, or in another order."""
    if names and before and names != before:
        raise ValueError(
            f"the columns are {_some(names)}, and before they were {_some(before)}; "
            "give the same columns in the same order, or dicts"
        )


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")


def _numbers(x: Any, name: str) -> np.ndarray:
    """x as an array of real numbers."""
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(f"{name} must not be masked: leave out what is missing, or fill it in")
    try:
        array = np.asarray(x)
    except ValueError:  # rows of different lengths
        raise ValueError(f"{name} must be an array of numbers; its rows differ in length") from None
    if array.dtype.kind == "O" and array.ndim and all(map(_is_number, array.flat)):
        array = _as_floats(array)
    if array.dtype.kind not in "biuf" or isinstance(x, bytearray):
        found = array.dtype if array.ndim else "None" if x is None else type(x).__name__
        found = {"U": "text", "S": "bytes", "V": "fields"}.get(array.dtype.kind, found)
        if array.dtype.kind == "S" or isinstance(x, bytearray):
            found = "bytes: decode them to a string"
        elif name == "X" and isinstance(x, str):
            found = f"{found}: put a single text into a list"
        elif hasattr(x, "collect"):
            found = f"{found}: call .collect() first"
        elif array.dtype.kind in "mM":
            found = f"{found}: {_OF_TIME}"
        elif array.dtype.kind == "V":
            found = f"{found} with names: make a dict of them"
        elif isinstance(x, Set):
            found = f"{found}, which has no order: make a list or a dict of it"
        if isinstance(x, Iterator):
            found = f"an iterator ({found}): put what it gives into a list"
        elif array.ndim and array.dtype.kind == "O":
            kinds = sorted({type(value).__name__ for value in array.flat if not _is_number(value)})
            found = f"{', '.join(kinds)}: make a dict of a row with text, gaps or other things"
        raise TypeError(
            f"{name} must hold real numbers, not {found}; "
            "a context is a text, an array row, a sparse row, a dict or a pair (indices, values)"
        )
    return array


_OF_TIME = "give what matters as numbers or strings, such as an hour, a weekday or seconds"


def _is_number(value: Any) -> bool:
    """Whether a value is a real number or a truth value."""
    return isinstance(value, Real | Decimal | np.bool_) and not isinstance(value, np.timedelta64)


def _as_floats(array: np.ndarray) -> np.ndarray:
    """An array of objects that are numbers."""
    try:
        return array.astype(np.float64)
    except OverflowError:
        raise ValueError("a number is too large for a float; leave it out") from None


def _limit(features: int | None) -> int:
    return GROWTH_LIMIT if features is None else features


# Pairs, and rows of sparse and dense matrices.

GOOD, UNSORTED, UNFIT, TWICE, NEGATIVE, TOO_WIDE = range(6)
LARGEST_SINGLE, LARGEST_DOUBLE = 1e15, 1e120


def largest(dtype: np.dtype) -> float:
    """The largest value taken, so that squares and sums stay numbers. Below its inverse is zero."""
    return LARGEST_SINGLE if dtype.itemsize == 4 else LARGEST_DOUBLE


@entry
def _copy_row(indices, values, limit, largest, out_indices, out_values):
    """Copy a row without its zeros. Returns how many were kept, what was wrong, and where."""
    kept = 0
    before = -1
    for i in range(len(indices)):
        j = indices[i]
        if j < 0:
            return kept, NEGATIVE, i
        if j >= limit:
            return kept, TOO_WIDE, i
        if j == before:
            return kept, TWICE, i
        if j < before:
            return kept, UNSORTED, i
        before = j
        size = abs(np.float64(values[i]))
        if not size <= largest:
            return kept, UNFIT, i
        out_values[kept] = values[i]
        out_indices[kept] = j
        kept += size >= 1 / largest
    return kept, GOOD, 0


def is_rising(indices: Any, values: Any, least: Any, most: Any) -> bool:
    """Whether the indices increase, and the sizes of all values are from least to most."""
    sizes = np.abs(values.astype(np.float64))
    return bool((indices[1:] > indices[:-1]).all() and ((least <= sizes) & (sizes <= most)).all())


@compiled_as(is_rising)
def _is_rising(indices, values, least, most):
    wrong = 0  # loops without a branch: the compiler makes vector operations of them
    for i in range(len(values)):
        size = abs(np.float64(at(values, i)))
        wrong += not least <= size <= most
    for i in range(1, len(indices)):
        wrong += at(indices, i) <= at(indices, i - 1)
    return wrong == 0


@brief_entry
def _copy_good_row(indices, values, limit, largest, out_indices, out_values):
    """Copy a row that is fit for use as it is, and return its size; -1: it is not.

    The types of the arrays are known, but neither their lengths nor their strides.
    """
    size = len(indices)
    packed = indices.strides[0] == indices.itemsize and values.strides[0] == values.itemsize
    if size != len(values) or not packed:
        return -1
    if size == 0:
        return 0
    inside = indices[0] >= 0 and indices[size - 1] < limit
    if not (inside and is_rising(indices, values, 1 / largest, largest)):
        return -1
    for i in range(size):
        out_indices[i] = indices[i]
        out_values[i] = values[i]
    return size


def _row_copier(dtype: np.dtype) -> Any:
    """_copy_good_row for int32 and this type, without looking at types at every call."""
    indices, values = np.empty(0, np.int32), np.empty(0, dtype)
    like = (indices, values, 0, 0.0, indices.astype(np.uint32), values)
    return direct(_copy_good_row, dtype, *like)


def _pair(pair: tuple[Any, ...], dtype: np.dtype, features: int | None) -> tuple[Any, Any]:
    if len(pair) != 2:
        raise ValueError(
            f"a pair is (indices, values), not {len(pair)} things; "
            "for a row of numbers use a list, for a row of a table a dict"
        )
    return _row_of(*_checked_pair(*pair, dtype), dtype, features)


def _row_of(
    indices: np.ndarray, values: np.ndarray, dtype: np.dtype, features: int | None
) -> tuple[Any, Any]:
    """A context from arrays of int32 or int64 and of float32 or float64."""
    size, limit, top = len(indices), _limit(features), largest(dtype)
    out_indices, out_values = empty(size, _UINT32), empty(size, dtype)
    kept, wrong, i = _copy_row(indices, values, limit, top, out_indices, out_values)
    if wrong == UNSORTED:
        order = np.argsort(indices, kind="stable")
        return _row_of(indices[order], values[order], dtype, features)
    if wrong:
        raise _refusal(wrong, int(indices[i]), float(values[i]), dtype, features)
    return _cut(out_indices, kept), _cut(out_values, kept)


def _cut(array: np.ndarray, size: int) -> np.ndarray:
    """The beginning of an array, in memory of its own."""
    return array if len(array) == size else array[:size].copy()


def _checked_pair(indices: Any, values: Any, dtype: np.dtype) -> tuple[Any, Any]:
    """The pair as arrays of int32 or int64 and of float32 or float64."""
    try:
        indices, values = np.asarray(indices), np.asarray(values)
    except ValueError:  # rows of different lengths
        raise ValueError("a pair is (indices, values), two rows of the same length") from None
    if indices.ndim != 1 or values.ndim != 1 or len(indices) != len(values):
        raise ValueError(
            "a pair is (indices, values), two rows of the same length, not shapes "
            f"{indices.shape} and {values.shape}; for a row of numbers use a list, "
            "for a row of a table a dict"
        )
    if len(indices) == 0:  # numpy takes an empty list for floats
        return np.empty(0, np.int32), np.empty(0, dtype)
    if indices.dtype.kind not in "iu":
        raise TypeError(f"indices must be whole numbers, not {indices.dtype}")
    if values.dtype.kind == "O" and all(map(_is_number, values)):
        values = _as_floats(values)
    if values.dtype.kind not in "biuf":
        raise TypeError(f"values must be real numbers, not {values.dtype}")
    return indices if indices.dtype == np.int32 else _as_int64(indices), _as_float(values)


def _as_int64(indices: np.ndarray) -> np.ndarray:
    if indices.dtype == np.uint64 and len(indices) and indices.max() > np.uint64(2**62):
        raise ValueError(f"index {int(indices.max())} is beyond any width there is")
    return np.ascontiguousarray(indices, np.int64)


def _as_float(values: np.ndarray) -> np.ndarray:
    kept = values.dtype in (np.float32, np.float64)
    with np.errstate(over="ignore"):  # an infinite value is refused by name
        return np.ascontiguousarray(values, None if kept else np.float64)


def _refusal(
    wrong: int, index: int, value: float, dtype: np.dtype, features: int | None
) -> ValueError:
    if wrong == NEGATIVE:
        return ValueError(f"index {index} is negative")
    if wrong == TOO_WIDE and features is None:
        return ValueError(
            f"index {index} is beyond {GROWTH_LIMIT}, as far as weights grow by themselves; "
            "pass features= to the learner to allow it, or hash the features"
        )
    if wrong == TOO_WIDE:
        return ValueError(f"index {index} is beyond the {features} features that features= fixed")
    if wrong == TWICE:
        return ValueError(f"index {index} is there twice; add its values up first")
    if np.isfinite(value):
        return ValueError(
            f"the value {value:g} at index {index} is too large for {dtype}: "
            f"at most {largest(dtype):g}; scale the features down"
        )
    return ValueError(
        f"the value at index {index} is {value:g}; put a number in its place, or make a dict of "
        "the row and leave it out"
    )


@entry
def _copy_rows(indices, values, indptr, dense, limit, largest, out_indices, out_values, out_indptr):
    """_copy_row for every row. Returns what was wrong, in which row and at which place in it.

    dense: all rows have the same indices, which are stored once.
    """
    total = 0
    for row in range(len(indptr) - 1):
        start, stop = indptr[row], indptr[row + 1]
        first = 0 if dense else start
        kept, wrong, i = _copy_row(
            indices[first : first + stop - start],
            values[start:stop],
            limit,
            largest,
            out_indices[total:],
            out_values[total:],
        )
        if wrong:
            return wrong, row, i
        total += kept
        out_indptr[row + 1] = total
    return GOOD, 0, 0


@entry
def _width_if_good(indices, values, indptr, largest):
    """The width of the rows if they are fit for use as they are, else -1.

    Plain sweeps without a branch: they run at the speed of memory.
    """
    unfit = 0
    widest = -1
    for i in range(len(values)):
        size = abs(values[i])
        unfit += (not size <= largest) | (size < 1 / largest) | (indices[i] < 0)
        widest = max(widest, indices[i])
    for i in range(1, len(indices)):
        unfit += indices[i] <= indices[i - 1]
    for row in range(1, len(indptr) - 1):  # where a row begins the index may fall
        i = indptr[row]
        if 0 < i < len(indices) and i != indptr[row + 1]:
            unfit -= indices[i] <= indices[i - 1]
    return widest + 1 if unfit == 0 else -1


def _sparse(X: Any, dtype: np.dtype, features: int | None) -> Rows:
    matrix = X.tocsr()
    if matrix.data.dtype.kind not in "biuf":
        raise TypeError(f"a sparse matrix must hold real numbers, not {matrix.data.dtype}")
    # scipy believes any indptr; compiled code must not follow one that leads astray.
    pointers, held = matrix.indptr, min(len(matrix.indices), len(matrix.data))
    if (
        len(pointers) != matrix.shape[0] + 1
        or pointers[0] != 0
        or pointers[-1] > held
        or (np.diff(pointers) < 0).any()
    ):
        raise ValueError(
            "the sparse matrix is damaged: its indptr does not rise from 0 to its size"
        )
    if not matrix.has_sorted_indices:
        matrix = matrix.sorted_indices()
    stored = matrix.indptr[-1]
    indptr = np.ascontiguousarray(matrix.indptr, np.int64)
    indices = matrix.indices[:stored]
    indices = np.ascontiguousarray(indices) if indices.dtype == np.int32 else _as_int64(indices)
    values = _as_float(matrix.data[:stored])
    columns = matrix.shape[1]
    if features is not None and columns > features:
        raise ValueError(f"X has {columns} columns; features= fixed {features}")
    top = dtype.type(largest(dtype))
    width = _width_if_good(indices, values, indptr, top) if values.dtype == dtype else -1
    if 0 <= width <= min(_limit(features), columns):
        fits = indices.dtype == np.int32  # the same bits read as unsigned: nothing is copied
        unsigned = indices.view(np.uint32) if fits else indices.astype(np.uint32)
        return _with_numbers(Rows(unsigned, values, indptr, width), X, dtype)
    rows = _copied(indices, values, indptr, False, columns, dtype, features)
    if rows is None:  # though the matrix says that it is sorted: a new one finds out itself
        again = type(matrix)((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)
        return _sparse(again, dtype, features)
    return _with_numbers(rows, X, dtype)


def _with_numbers(rows: Rows, X: Any, dtype: np.dtype) -> Rows:
    """The rows of a sparse matrix; of a table from a file, with its numbers."""
    numbers = getattr(X, "numbers", None)
    if numbers is None:
        return rows
    values, indptr = numbers.data.astype(dtype, copy=False), numbers.indptr.astype(np.int64)
    return rows._replace(numbers=_rows(numbers.indices.astype(np.uint32), values, indptr))


def _copied(
    indices: np.ndarray,
    values: np.ndarray,
    indptr: np.ndarray,
    dense: bool,
    columns: int,
    dtype: np.dtype,
    features: int | None,
) -> Rows | None:
    """The rows of a matrix, without zeros; None if the indices of a row do not increase."""
    limit = min(_limit(features), columns)
    out_indices, out_values = np.empty(len(values), np.uint32), np.empty(len(values), dtype)
    made = out_indices, out_values, np.zeros(len(indptr), np.int64)
    wrong, row, i = _copy_rows(indices, values, indptr, dense, limit, largest(dtype), *made)
    if wrong == UNSORTED:
        return None
    if wrong:
        place = indptr[row] + i
        index, value = int(indices[i if dense else place]), float(values[place])
        if wrong == TOO_WIDE and limit == columns:
            raise ValueError(f"row {row}: index {index} in a matrix {limit} columns wide")
        error = _refusal(wrong, index, value, dtype, features)
        raise ValueError(f"row {row}: {error}" if len(indptr) > 2 else str(error))
    kept = made[2][-1]
    return _rows(_cut(out_indices, kept), _cut(out_values, kept), made[2], columns if dense else 0)


def _check_width(columns: int, dtype: np.dtype, features: int | None) -> None:
    """Refuse dense rows that are too wide, or not as wide as `features` says."""
    if features is not None and columns != features:
        raise ValueError(f"a row has {columns} columns; features= fixed {features}")
    if columns > _limit(features):
        raise _refusal(TOO_WIDE, columns - 1, 0.0, dtype, features)


def _dense(matrix: np.ndarray, dtype: np.dtype, features: int | None) -> Rows:
    rows, columns = matrix.shape
    _check_width(columns, dtype, features)
    indices, indptr = np.arange(columns, dtype=np.int32), np.arange(rows + 1) * columns
    made: Any = _copied(indices, _as_float(matrix).ravel(), indptr, True, columns, dtype, features)
    return made


# Names.

_hashes: dict[str, int] = {}
_HASHES_KEPT = 2**16


def murmur3(text: str) -> int:
    """MurmurHash3 (32 bits, x86, seed 0) of the text in UTF-8, as a signed number."""
    data = text.encode()
    h, mask = 0, 0xFFFFFFFF
    whole = len(data) & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * 0xCC9E2D51 & mask
        k = (k << 15 | k >> 17) * 0x1B873593 & mask
        h ^= k
        h = ((h << 13 | h >> 19) * 5 + 0xE6546B64) & mask
    if whole < len(data):
        k = int.from_bytes(data[whole:], "little") * 0xCC9E2D51 & mask
        h ^= (k << 15 | k >> 17) * 0x1B873593 & mask
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & mask
    h = (h ^ h >> 13) * 0xC2B2AE35 & mask
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


def _hash(name: str) -> int:
    """murmur3, kept for a name that comes again."""
    if len(_hashes) >= _HASHES_KEPT:
        _hashes.clear()
    try:
        h = _hashes[name] = murmur3(name)
    except UnicodeEncodeError:
        raise _not_utf8(name) from None
    return h


def _not_utf8(name: str) -> ValueError:
    return ValueError(f"the name {name!r} cannot be written in UTF-8")


def _named(
    x: Mapping[Any, Any],
    dtype: np.dtype,
    features: int | None,
    apart: dict[int, float] | None = None,
) -> tuple[Any, Any]:
    """Hashed as scikit-learn's FeatureHasher does: signed, "name=value" for a category.

    The words of a text have names of the same form. apart: filled with the numbers by column. What
    is named as a category, {"city=New York": 1}, is none of them.
    """
    columns = HASHED if features is None else features
    top = largest(dtype)
    sums: dict[int, float] = {}
    for name, value in x.items():
        if not isinstance(name, str):
            raise TypeError(f"a feature's name must be a string, not {name!r}")
        if type(value) is not float and isinstance(value, str):
            if is_text(value):
                value = Text(value)
            else:
                name, value = f"{name}={value}", 1.0
        elif value is None:  # missing: a name of its own, as an empty field of a csv file
            name, value = f"{name}=", 1.0
        if type(value) is float and -top <= value <= top:
            number = value
        elif type(value) is Text:
            try:
                found, numbers = text_columns(value.text, columns, f"{name}=", value.ngrams)
            except UnicodeEncodeError:
                raise _not_utf8(name) from None
            for column, number in zip(found.tolist(), numbers.tolist(), strict=True):
                sums[column] = sums.get(column, 0.0) + number
            continue
        else:
            number = _number(name, value, dtype)
            if math.isnan(number):  # missing: absent
                continue
        h = _hashes.get(name)
        if h is None:
            h = _hash(name)
        column = abs(h) % columns
        number = number if h >= 0 else -number
        sums[column] = sums.get(column, 0.0) + number
        if apart is not None and "=" not in name:
            apart[column] = apart.get(column, 0.0) + number
    order = sorted(sums)
    indices, values = np.array(order, np.int64), np.array([sums[j] for j in order], np.float64)
    return _row_of(indices, values, dtype, columns)


def _number(name: str, value: Any, dtype: np.dtype) -> float:
    """The value of a feature as a float; NaN if it is missing."""
    if not _is_number(value):
        if is_missing(value):
            return math.nan
        hint = ""
        if isinstance(value, bytes | bytearray):
            hint = "; decode it to a string"
        elif isinstance(value, date | timedelta | np.datetime64 | np.timedelta64):
            hint = f"; {_OF_TIME}"
        elif getattr(value, "size", 0) == 1:
            hint = "; give its number, value.item()"
        elif isinstance(value, Iterable):
            hint = "; give each of its parts a name of its own"
        wanted = "a number" if isinstance(value, str) else "a number or a string"
        raise TypeError(f"feature {name!r} must be {wanted}, not {value!r}{hint}")
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"feature {name!r} is too large for a float; leave it out") from None
    if math.isinf(number):
        raise ValueError(f"feature {name!r} is {number:g}; leave it out")
    if abs(number) > largest(dtype):
        raise ValueError(
            f"feature {name!r}: {number:g} is too large for {dtype}; at most {largest(dtype):g}"
        )
    return number


# Numbers of dicts, told apart from the rest. Each keeps its column, but has an index beyond all
# columns. A number that is 0 has the least value that is kept: it is not the same as no number.


def encode_named(
    x: Mapping[Any, Any], dtype: np.dtype, features: int | None
) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """A dict as a context, and its numbers by column."""
    apart: dict[int, float] = {}
    row = _named(x, dtype, features, apart)
    order = sorted(apart)
    return row, (np.array(order, np.uint32), np.array([apart[j] for j in order], dtype))


def named_context(x: Any) -> Mapping[Any, Any] | None:
    """A dict, or a row of a frame that is read as a dict; None: x is another kind of context."""
    if isinstance(x, str | tuple | ndarray | list) or hasattr(x, "tocsr"):
        return None
    x = row_of_frame(x)
    return x if isinstance(x, Mapping) else None


def first_number(features: int | None) -> int:
    """The index of the first number, if it is beyond all columns."""
    return _limit(features)


def most_features(features: int | None, first: int) -> int:
    """One more than the index of the last number."""
    return first + (HASHED if features is None else features)


@functools.cache
def encoder_apart(
    dtype: np.dtype, features: int | None, first: int
) -> Callable[[Any, int], tuple[Any, Any]]:
    """`encoder`, with the numbers of dicts apart, from the index `first` on."""
    plain, most = encoder(dtype, features), most_features(features, first)

    def encode_one(x: Any, columns: int) -> tuple[Any, Any]:
        if type(x) is str:
            return plain(x, columns)
        if type(x) is tuple:
            return _pair(x, dtype, most) if _is_apart(x) else plain(x, columns)
        rows = None
        named = named_context(x)
        if named is not None:
            row, numbers = encode_named(named, dtype, features)
            if not len(numbers[0]):
                return row
            rows = stacked([row], dtype)._replace(numbers=stacked([numbers], dtype))
        elif getattr(x, "numbers", None) is not None and hasattr(x, "tocsr"):
            rows = _one_row(x, dtype, features)
        return plain(x, columns) if rows is None else set_apart(rows, first)[:2]

    return encode_one


def _is_apart(x: Any) -> bool:
    """Whether x may be the row of a decision, whose numbers are apart already."""
    return type(x) is tuple and len(x) == 2 and getattr(x[0], "dtype", _INT32).kind == "u"


def set_apart(rows: Rows, first: int) -> Rows:
    """The rows with their numbers from the index `first` on.

    A word may be in the column of a number. If numbers have features of their own, the word keeps
    what the number does not account for. If they are marked in their own columns, it is left out.
    """
    numbers = rows.numbers
    if numbers is None:
        return rows
    size = len(rows.indices) + len(numbers.indices)
    out = (
        np.empty(size, np.uint32),
        np.empty(size, rows.values.dtype),
        np.zeros(len(rows.indptr), np.int64),
    )
    share = 0.0 if first == MARK else 1.0
    args = (*rows[:3], *numbers[:3], np.int64(first), share, 1 / largest(rows.values.dtype), *out)
    direct(_set_apart, rows.values.dtype, *args)(*args)
    kept = out[2][-1]
    return _rows(_cut(out[0], kept), _cut(out[1], kept), out[2], rows.columns)


@entry
def _set_apart(
    indices, values, indptr, columns, numbers, starts, first, share, least,
    out_indices, out_values, out_indptr,
):  # fmt: skip
    kept = 0
    for row in range(len(indptr) - 1):
        n, stop = starts[row], starts[row + 1]
        for i in range(indptr[row], indptr[row + 1]):
            while n < stop and columns[n] < indices[i]:
                n += 1
            value = np.float64(values[i])
            if n < stop and columns[n] == indices[i]:
                value = share * (value - np.float64(numbers[n]))
            out_indices[kept], out_values[kept] = indices[i], value
            kept += abs(np.float64(out_values[kept])) >= least
        for n in range(starts[row], stop):
            is_kept = abs(np.float64(numbers[n])) >= least
            out_indices[kept] = first + np.int64(columns[n])
            out_values[kept] = numbers[n] if is_kept else least
            kept += 1
        out_indptr[row + 1] = kept
