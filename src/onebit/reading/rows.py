"""Rows of numbers: the form of contexts that compiled code reads.

A context is `indices` (uint32, strictly increasing) and `values` (the learner's precision, finite,
not zero); `Rows` are many. This module makes them from pairs (indices, values), arrays and scipy
sparse matrices. `contexts` makes them from anything.

A gap is a missing number: NaN. Rows may have gaps if their learner standardises columns.

A learner with inputs="unit" scales each context to length 1 (`unit_row`, `unit_rows`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy import empty

from onebit.core.jit import brief_entry, compiled_as, direct, entry
from onebit.core.lanes import at
from onebit.core.slots import OTHERS

INT32, UINT32 = np.dtype(np.int32), np.dtype(np.uint32)
GROWTH_LIMIT = OTHERS + 1  # a stray huge index must not ask for all the memory there is


# Kinds of contexts: features have names, which are hashed, or they are columns. An index means
# something else in the one than in the other.
NAMES, COLUMNS = "names", "columns"


class Rows(NamedTuple):
    """Many contexts: row i is indices[indptr[i]:indptr[i + 1]] and values likewise."""

    indices: Any
    values: Any
    indptr: Any
    width: int  # one more than the largest index
    columns: int = 0  # of dense rows; 0: there are none, and the width is free
    numbers: Any = None  # Rows: the numbers among the entries, zeros too; None: not told apart
    names: tuple[str, ...] = ()  # of the columns of dense rows, where they have names
    kind: str = ""  # NAMES or COLUMNS; "": not known, or all rows are empty


def rows_of(indices: np.ndarray, values: np.ndarray, indptr: np.ndarray, columns: int = 0) -> Rows:
    return Rows(indices, values, indptr, int(indices.max()) + 1 if len(indices) else 0, columns)


NO_ENTRIES = np.empty(0, np.uint32), np.empty(0, np.float32)


def stacked(rows: Sequence[tuple[np.ndarray, np.ndarray]], dtype: np.dtype) -> Rows:
    """Encoded contexts, one after the other."""
    if len(rows) == 1:
        (indices, values), *_ = rows
        indptr = np.array([0, len(indices)], np.int64)
        return rows_of(indices, values.astype(dtype, copy=False), indptr)
    rows = [(NO_ENTRIES[0], NO_ENTRIES[1].astype(dtype)), *rows]
    indptr = np.cumsum([len(indices) for indices, _ in rows], dtype=np.int64)
    indices, values = (np.concatenate(part) for part in zip(*rows, strict=True))
    return rows_of(indices, values.astype(dtype, copy=False), indptr)


def cast_rows(rows: Rows, dtype: np.dtype) -> Rows:
    numbers = rows.numbers
    if numbers is not None:  # zeros stay: they are numbers too
        numbers = numbers._replace(values=numbers.values.astype(dtype))
    if dtype.itemsize < rows.values.itemsize:  # values may be too large, or so small that they go
        indices = rows.indices.astype(np.int64)
        made: Any = _copied(indices, rows.values, rows.indptr, False, 2**32, dtype, 2**32)
        return made._replace(
            columns=rows.columns, numbers=numbers, names=rows.names, kind=rows.kind
        )
    return rows._replace(values=rows.values.astype(dtype), numbers=numbers)


def limit_of(features: int | None) -> int:
    return GROWTH_LIMIT if features is None else features


# Numbers.


def array_of_numbers(x: Any, name: str) -> np.ndarray:
    """x as an array of real numbers."""
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(f"{name} must not be masked: leave out what is missing, or fill it in")
    try:
        array = np.asarray(x)
    except ValueError:  # rows of different lengths
        raise ValueError(f"{name} must be an array of numbers; its rows differ in length") from None
    if array.dtype.kind == "O" and array.ndim and all(map(_is_number_or_missing, array.flat)):
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
            found = f"{found}: {OF_TIME}"
        elif array.dtype.kind == "V":
            found = f"{found} with names: make a dict of them"
        elif isinstance(x, Set):
            found = f"{found}, which has no order: make a list or a dict of it"
        if isinstance(x, Iterator):
            found = f"an iterator ({found}): put what it gives into a list"
        elif array.ndim and array.dtype.kind == "O":
            kinds = sorted({type(value).__name__ for value in array.flat if not is_number(value)})
            dicts = "a list of dicts of rows" if array.ndim == 2 else "a dict of a row"
            found = f"{', '.join(kinds)}: make {dicts} with text, gaps or other things"
        if name == "a context" and array.ndim and _are_contexts(array):
            found = (
                "texts or dicts: decide takes one context at a time, predict and simulate take "
                "many; of a row of a table with strings, make a dict"
            )
        raise TypeError(
            f"{name} must hold real numbers, not {found}; "
            "a context is a text, an array row, a sparse row, a dict or a pair (indices, values)"
        )
    return array


def _are_contexts(array: np.ndarray) -> bool:
    """Whether there are texts, strings or dicts alone."""
    return array.dtype.kind == "U" or all(isinstance(x, str | Mapping) for x in array.flat)


OF_TIME = "give what matters as numbers or strings, such as an hour, a weekday or seconds"


def is_number(value: Any) -> bool:
    """Whether a value is a real number or a truth value."""
    return isinstance(value, Real | Decimal | np.bool_) and not isinstance(value, np.timedelta64)


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or a mark of pandas for a missing value."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and math.isnan(value)


def _is_number_or_missing(value: Any) -> bool:
    return is_number(value) or is_missing(value)


def _as_floats(array: np.ndarray) -> np.ndarray:
    """An array of objects that are numbers or missing."""
    missing = [is_missing(value) for value in array.flat]
    if any(missing):
        array = np.where(np.reshape(missing, array.shape), math.nan, array)
    try:
        return array.astype(np.float64)
    except OverflowError:
        raise ValueError("a number is too large for a float; leave it out") from None


# Pairs, and rows of sparse and dense matrices.

GOOD, UNSORTED, UNFIT, TWICE, NEGATIVE, TOO_WIDE = range(6)
LARGEST_SINGLE, LARGEST_DOUBLE = 1e15, 1e120


def largest(dtype: np.dtype) -> float:
    """The largest value taken, so that squares and sums stay numbers. Below its inverse is zero."""
    return LARGEST_SINGLE if dtype.itemsize == 4 else LARGEST_DOUBLE


@entry
def _copy_row(indices, values, limit, largest, gaps, out_indices, out_values):
    """Copy a row without its zeros. Returns how many were kept, what was wrong, and where.

    gaps: NaN is taken."""
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
        if not (size <= largest or (gaps and math.isnan(size))):
            return kept, UNFIT, i
        out_values[kept] = values[i]
        out_indices[kept] = j
        kept += not size < 1 / largest
    return kept, GOOD, 0


def is_rising(indices: Any, values: Any, least: Any, most: Any, gaps: Any) -> bool:
    """Whether the indices increase, and the sizes of all values are from least to most.

    gaps: NaN is taken."""
    sizes = np.abs(values.astype(np.float64))
    are_fit = ((least <= sizes) & (sizes <= most)) | (np.isnan(sizes) & gaps)
    return bool((indices[1:] > indices[:-1]).all() and are_fit.all())


@compiled_as(is_rising)
def _is_rising(indices, values, least, most, gaps):
    wrong = 0  # loops without a branch: the compiler makes vector operations of them
    for i in range(len(values)):
        size = abs(np.float64(at(values, i)))
        wrong += not (least <= size <= most) | ((size != size) & gaps)
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
    if not (inside and is_rising(indices, values, 1 / largest, largest, False)):
        return -1
    for i in range(size):
        out_indices[i] = indices[i]
        out_values[i] = values[i]
    return size


def row_copier(dtype: np.dtype) -> Any:
    """_copy_good_row for int32 and this type, without looking at types at every call."""
    indices, values = np.empty(0, np.int32), np.empty(0, dtype)
    like = (indices, values, 0, 0.0, indices.astype(np.uint32), values)
    return direct(_copy_good_row, dtype, *like)


def row_of_pair(
    pair: tuple[Any, ...], dtype: np.dtype, features: int | None, gaps: bool = False
) -> tuple[Any, Any]:
    if any(isinstance(part, str) for part in pair):
        raise TypeError(
            "one context is one text, not a tuple of texts: join the texts, or put them into a "
            "dict, each with a name of its own"
        )
    if len(pair) != 2:
        raise ValueError(
            f"a pair is (indices, values), not {len(pair)} things; "
            "for a row of numbers use a list, for a row of a table a dict"
        )
    return row_of_arrays(*_checked_pair(*pair, dtype), dtype, features, gaps)


def row_of_arrays(
    indices: np.ndarray,
    values: np.ndarray,
    dtype: np.dtype,
    features: int | None,
    gaps: bool = False,
) -> tuple[Any, Any]:
    """A context from arrays of int32 or int64 and of float32 or float64."""
    size, limit, top = len(indices), limit_of(features), largest(dtype)
    out_indices, out_values = empty(size, UINT32), empty(size, dtype)
    kept, wrong, i = _copy_row(indices, values, limit, top, gaps, out_indices, out_values)
    if wrong == UNSORTED:
        order = np.argsort(indices, kind="stable")
        return row_of_arrays(indices[order], values[order], dtype, features, gaps)
    if wrong:
        raise _refusal(wrong, int(indices[i]), float(values[i]), dtype, features)
    return cut(out_indices, kept), cut(out_values, kept)


def cut(array: np.ndarray, size: int) -> np.ndarray:
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
    if values.dtype.kind == "O" and all(map(is_number, values)):
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
    hint = "; OneBit and inputs='auto' read NaN in dense rows as missing" if value != value else ""
    return ValueError(
        f"the value at index {index} is {value:g}; put a number in its place, or make a dict of "
        f"the row and leave it out{hint}"
    )


@entry
def _copy_rows(
    indices, values, indptr, dense, limit, largest, gaps, out_indices, out_values, out_indptr
):
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
            gaps,
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


def row_of_sparse(x: Any, dtype: np.dtype, features: int | None, gaps: bool = False) -> Rows:
    """A row of a sparse matrix."""
    row = x if x.ndim == 2 else x.reshape(1, -1)
    if row.shape[0] != 1:
        raise ValueError(f"one context is one row, not {row.shape[0]}")
    return rows_of_sparse(row, dtype, features, gaps)


def rows_of_sparse(X: Any, dtype: np.dtype, features: int | None, gaps: bool = False) -> Rows:
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
    if 0 <= width <= min(limit_of(features), columns):
        fits = indices.dtype == np.int32  # the same bits read as unsigned: nothing is copied
        unsigned = indices.view(np.uint32) if fits else indices.astype(np.uint32)
        return _with_numbers(Rows(unsigned, values, indptr, width), X, dtype)
    rows = _copied(indices, values, indptr, False, columns, dtype, features, gaps)
    if rows is None:  # though the matrix says that it is sorted: a new one finds out itself
        again = type(matrix)((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)
        return rows_of_sparse(again, dtype, features, gaps)
    return _with_numbers(rows, X, dtype)


def _with_numbers(rows: Rows, X: Any, dtype: np.dtype) -> Rows:
    """The rows of a sparse matrix; of a table from a file, with its numbers."""
    numbers = getattr(X, "numbers", None)
    if numbers is None:
        return rows
    values, indptr = numbers.data.astype(dtype, copy=False), numbers.indptr.astype(np.int64)
    return rows._replace(numbers=rows_of(numbers.indices.astype(np.uint32), values, indptr))


def _copied(
    indices: np.ndarray,
    values: np.ndarray,
    indptr: np.ndarray,
    dense: bool,
    columns: int,
    dtype: np.dtype,
    features: int | None,
    gaps: bool = False,
) -> Rows | None:
    """The rows of a matrix, without zeros; None if the indices of a row do not increase."""
    limit = min(limit_of(features), columns)
    out_indices, out_values = np.empty(len(values), np.uint32), np.empty(len(values), dtype)
    made = out_indices, out_values, np.zeros(len(indptr), np.int64)
    top = largest(dtype)
    wrong, row, i = _copy_rows(indices, values, indptr, dense, limit, top, gaps, *made)
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
    return rows_of(cut(out_indices, kept), cut(out_values, kept), made[2], columns if dense else 0)


def check_width(columns: int, dtype: np.dtype, features: int | None) -> None:
    """Refuse dense rows that are too wide, or not as wide as `features` says."""
    if features is not None and columns != features:
        raise ValueError(f"a row has {columns} columns; features= fixed {features}")
    if columns > limit_of(features):
        raise _refusal(TOO_WIDE, columns - 1, 0.0, dtype, features)


def rows_of_dense(
    matrix: np.ndarray, dtype: np.dtype, features: int | None, gaps: bool = False
) -> Rows:
    rows, columns = matrix.shape
    check_width(columns, dtype, features)
    indices, indptr = np.arange(columns, dtype=np.int32), np.arange(rows + 1) * columns
    values = _as_float(matrix).ravel()
    made: Any = _copied(indices, values, indptr, True, columns, dtype, features, gaps)
    return made


def without_gaps(rows: Rows) -> Rows:
    """The rows with 0 for every gap."""
    if not np.isnan(rows.values.sum()):
        return rows
    kept = ~np.isnan(rows.values)
    indptr = np.concatenate([[0], np.cumsum(kept)])[rows.indptr]
    made = rows_of(rows.indices[kept], rows.values[kept], indptr, rows.columns)
    return made._replace(numbers=rows.numbers, names=rows.names, kind=rows.kind)


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
    made = rows_of(rows.indices[kept], values[kept], indptr, rows.columns)
    return made._replace(kind=rows.kind)
