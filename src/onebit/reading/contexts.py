"""Anything that is a context -> (indices, values), as `rows` describes them.

A context is a row of an array or of a scipy sparse matrix, a text, a dict of names to numbers or
strings, a row of a data frame, or a pair (indices, values). Inside it is a row of numbers (`rows`).
All the forms of one context give the same two arrays.

A text is hashed by its words and pairs of words (`texts`), a dict by its names (`dicts`); a data
frame is a matrix or a list of dicts (`frames`). NaN is absent in a dict, and a text without words
in a list of texts. In rows of numbers it is a gap: refused, unless `gaps` says otherwise. In tables
from files, a gap is then 0.

`OneBit` and learners with inputs="auto" standardise numbers, by what they have learned. Dense rows
are read by `column_encoder` then. In other contexts, the numbers of dicts are told apart
(`encoder_apart`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np
from numpy import empty, ndarray

from onebit.reading.dicts import HASHED, encode_named, most_features, row_of_dict, set_apart
from onebit.reading.frames import NamedColumns, composed_names, listed, names_of, row_of_frame
from onebit.reading.rows import (
    COLUMNS,
    INT32,
    NAMES,
    NO_ENTRIES,
    UINT32,
    Rows,
    array_of_numbers,
    cast_rows,
    check_width,
    is_missing,
    largest,
    limit_of,
    row_copier,
    row_of_arrays,
    row_of_pair,
    row_of_sparse,
    rows_of_dense,
    rows_of_sparse,
    stacked,
    without_gaps,
)
from onebit.reading.texts import text_columns

BITS = 1  # raise it if a context is read as other numbers; see `Learner.BITS`


def encode(
    x: Any, dtype: np.dtype, features: int | None, columns: int = 0, gaps: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """One context. The arrays are the caller's own: nothing done to x later can change them.

    columns: those of earlier dense rows; 0: there were none.
    """
    return encoder(dtype, features, gaps)(x, columns)


@functools.cache
def encoder(
    dtype: np.dtype, features: int | None, gaps: bool = False
) -> Callable[[Any, int], tuple[Any, Any]]:
    """`encode` for contexts of this precision, as a function of x and columns."""
    limit, top, copy = limit_of(features), largest(dtype), None

    def encode_one(x: Any, columns: int) -> tuple[Any, Any]:
        nonlocal copy
        if type(x) is tuple and len(x) == 2:  # most are pairs of arrays that are fit for use
            indices, values = x
            if (
                type(indices) is type(values) is ndarray
                and indices.dtype is INT32
                and values.dtype is dtype
                and indices.ndim == values.ndim == 1
            ):
                if copy is None:  # it may have to be compiled
                    copy = row_copier(dtype)
                size = len(indices)
                out_indices, out_values = empty(size, UINT32), empty(size, dtype)
                if copy(indices, values, limit, top, out_indices, out_values) == size:
                    return out_indices, out_values
        return _encode(x, dtype, features, columns, gaps)

    return encode_one


def _encode(
    x: Any, dtype: np.dtype, features: int | None, columns: int, gaps: bool
) -> tuple[Any, Any]:
    if type(x) is tuple:
        return row_of_pair(x, dtype, features, gaps)
    if isinstance(x, str):
        width = HASHED if features is None else features
        return row_of_arrays(*text_columns(x, width), dtype, width)
    if hasattr(x, "tocsr"):  # first: scipy's dictionary of keys is a mapping too
        rows = row_of_sparse(x, dtype, features, gaps)
        return rows.indices.copy(), rows.values.copy()
    x = row_of_frame(x)
    if isinstance(x, Mapping):
        return row_of_dict(x, dtype, features)
    row = row_of_numbers(x)
    check_width(len(row), dtype, features)
    encoded = encode((np.arange(len(row), dtype=INT32), row), dtype, features, gaps=gaps)
    check_columns(len(row), columns)
    return encoded


def row_of_numbers(x: Any) -> np.ndarray:
    """A dense row, as an array of one dimension."""
    row = array_of_numbers(x, "a context")
    if row.ndim == 2 and row.shape[0] == 1:
        row = row[0]
    if row.ndim != 1:
        found = f"an array of shape {row.shape}" if row.ndim else "a number: put it into a list"
        many = "; predict and simulate take many" if row.ndim == 2 else ""
        raise ValueError(f"one context is one row, not {found}{many}")
    return row


def encode_rows(
    X: Any,
    dtype: np.dtype,
    features: int | None,
    apart_below: int | None = None,
    gaps: bool = False,
) -> Rows:
    """Many contexts: a matrix (array or sparse), a data frame, or a sequence of single ones.

    apart_below: tell which entries are numbers of dicts; rows of decisions, in which numbers are
    apart, have indices below this. Tables from files always tell it.
    """
    if isinstance(X, NamedColumns):
        rows = encode_rows(X.X, dtype, features, gaps=True)
        rows = rows._replace(names=composed_names(X.names))
        return rows if gaps else without_gaps(rows)
    X = listed(X)
    if isinstance(X, Rows):  # encoded before
        X = X if gaps else without_gaps(X)
        return X if X.values.dtype == dtype else cast_rows(X, dtype)
    if hasattr(X, "tocsr"):
        if X.ndim != 2:
            raise ValueError(f"X must be a matrix, one row a context, not of shape {X.shape}")
        if apart_below is not None:
            _tells_numbers(X)
        rows = rows_of_sparse(X, dtype, features, gaps)
        return _of_kind(NAMES if hasattr(X, "numbers") else COLUMNS, rows)
    if isinstance(X, Mapping | tuple):
        raise TypeError("X must be many contexts: put a single dict or pair into a list")
    if isinstance(X, Sequence) and not isinstance(X, str | bytes):
        X = _texts(X) if any(map(isinstance, X, repeat(str))) else X
        if not len(X) or not np.isscalar(X[0]) or isinstance(X[0], str):
            return _stack(X, dtype, features, apart_below, gaps)
    matrix = array_of_numbers(X, "X")
    if matrix.ndim != 2:
        hint = "; put a single row into a list" if matrix.ndim == 1 else ""
        raise ValueError(
            f"X must be a matrix, one row a context, not of shape {matrix.shape}{hint}"
        )
    rows = rows_of_dense(matrix, dtype, features, gaps)._replace(names=names_of(X))
    return _of_kind(COLUMNS, rows)


def _of_kind(kind: str, rows: Rows) -> Rows:
    return rows._replace(kind=kind) if len(rows.indices) else rows


def _stack(
    contexts: Iterable[Any],
    dtype: np.dtype,
    features: int | None,
    apart_below: int | None,
    gaps: bool,
) -> Rows:
    """Many contexts, one after the other."""
    columns, kind, has_numbers = 0, "", False
    read = encoder(dtype, features, gaps)
    rows: list[tuple[Any, Any]] = []
    numbers: list[tuple[Any, Any]] = []
    for i, x in enumerate(contexts):
        try:
            row, apart = _numbers_apart(x, dtype, features, apart_below)
            if row is None:
                row = read(x, columns)
            found = kind_of(x) if len(row[0]) or len(apart[0]) else ""
            if found and kind and found != kind:
                check_kind(found, kind, "the rows before it are")
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"row {i}: {error}") from None
        columns, kind = columns or columns_of(x), kind or found
        has_numbers = has_numbers or len(apart[0]) > 0
        rows.append(row)
        numbers.append(apart)
    made = stacked(rows, dtype)._replace(columns=columns, kind=kind)
    return made._replace(numbers=stacked(numbers, dtype)) if has_numbers else made


def _numbers_apart(
    x: Any, dtype: np.dtype, features: int | None, apart_below: int | None
) -> tuple[Any, Any]:
    """A context that may tell which of its entries are numbers, and these; None: it does not."""
    if apart_below is None or type(x) is str:
        return None, NO_ENTRIES
    named = named_context(x)
    if named is not None:
        return encode_named(named, dtype, features)
    if _is_apart(x):
        return row_of_pair(x, dtype, apart_below), NO_ENTRIES
    if _tells_numbers(x):
        encoded = row_of_sparse(x, dtype, features)
        return encoded[:2], encoded.numbers[:2]
    return None, NO_ENTRIES


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


def columns_of(x: Any) -> int:
    """How many columns a context has if it is a dense row, else 0; 0 also if it is no context."""
    if type(x) in (str, dict, tuple):  # most are; isinstance takes longer
        return 0
    if isinstance(x, Mapping | str) or hasattr(x, "tocsr"):
        return 0
    if isinstance(row_of_frame(x), Mapping):
        return 0
    try:
        array = np.asarray(x)
    except ValueError:  # rows of different lengths
        return 0
    holds_others = array.dtype.kind in "US" or (
        array.dtype.kind == "O" and any(isinstance(value, str | Mapping) for value in array.flat)
    )
    return 0 if holds_others or not array.ndim else array.shape[-1]


def columns_in(X: Any) -> int:
    """How many columns many contexts have if there are dense rows among them, else 0."""
    if isinstance(X, Rows):
        return X.columns
    X = X.X if isinstance(X, NamedColumns) else X
    if isinstance(X, Sequence) and not isinstance(X, str | bytes):
        return next(filter(None, map(columns_of, X)), 0)
    return columns_of(X)


def kind_of(x: Any) -> str:
    """NAMES for a text, a dict and rows that are read as dicts; COLUMNS for rows of numbers.

    "" for the row of a decision, which does not tell, and for an empty dict or pair.
    """
    if type(x) is tuple:
        return "" if _is_apart(x) or len(x) != 2 or not len(x[0]) else COLUMNS
    if type(x) is ndarray or type(x) is list:
        return COLUMNS
    if type(x) is dict:
        return NAMES if x else ""
    if isinstance(x, str):
        return NAMES
    if hasattr(x, "tocsr"):
        return NAMES if hasattr(x, "numbers") else COLUMNS
    named = named_context(x)
    return COLUMNS if named is None else NAMES if named else ""


_WHAT = {
    NAMES: "texts or dicts, whose features have names",
    COLUMNS: "rows of numbers, whose features are columns",
}
_GIVE = {
    NAMES: "give a text, a dict or a row of a frame",
    COLUMNS: "give an array, a sparse row or a pair (indices, values)",
}


def check_kind(kind: str, before: str, whose: str = "this learner was taught with") -> None:
    """Refuse a context of another kind than those before; "": not known."""
    if kind and before and kind != before:
        found = "a row of numbers" if kind == COLUMNS else "a text or a dict"
        raise ValueError(
            f"{whose} {_WHAT[before]}, and {found} has none of them: {_GIVE[before]}, or use "
            "another learner"
        )


def check_columns(columns: int, before: int) -> None:
    """Refuse dense rows of another width than there were before; 0: there are none."""
    if columns and before and columns != before:
        raise ValueError(
            f"a row has {columns} columns, and rows before it had {before}; for rows that grow, "
            "use dicts, pairs (indices, values) or sparse rows; features= says the width beforehand"
        )


# Rows whose columns the learner standardises. They are in float64, so that a column of large
# numbers that differ little keeps its digits. A row of zeros is a row as any other: it is not
# empty, but has the least value that is kept. They may have gaps.

FLOAT64 = np.dtype(np.float64)
_ZEROS = np.zeros(1, np.uint32), np.full(1, 1 / 1e120)


@functools.cache
def column_encoder(features: int | None, count: int) -> Callable[[Any, int], tuple[Any, Any]]:
    """`encoder` for such rows, of so many columns."""
    plain = encoder(FLOAT64, features, gaps=True)

    def encode_one(x: Any, columns: int) -> tuple[Any, Any]:
        if type(x) is not ndarray and type(x) is not tuple:
            _check_is_dense(x, count)
        row = plain(x, columns)
        if not len(row[0]):
            return _ZEROS[0].copy(), _ZEROS[1].copy()
        check_within(int(row[0][-1]), count)
        return row

    return encode_one


def check_within(index: int, columns: int) -> None:
    if index >= columns:
        raise ValueError(
            f"this learner takes dense rows of {columns} columns, and column {index} is beyond "
            "them; use another learner for wider rows"
        )


def _check_is_dense(x: Any, columns: int) -> None:
    """Refuse a text, or a dict, whose names are not those of columns; an empty one is zeros."""
    if isinstance(x, str):
        raise ValueError(
            f"this learner takes dense rows of {columns} columns, not a text: use another learner "
            "for texts"
        )
    if named_context(x):
        raise ValueError(
            f"this learner takes dense rows of {columns} columns, and a dict is none of them, "
            "because the columns have no names: give a list of numbers, or use another learner for "
            "dicts. The columns of a data frame or of a table from a file have names"
        )


def encode_columns(X: Any, features: int | None, count: int) -> Rows:
    """`encode_rows` for such rows, of so many columns."""
    X = listed(X)
    for i, x in enumerate(X if isinstance(X, list) else ()):
        try:
            _check_is_dense(x, count)
        except ValueError as error:
            raise ValueError(f"row {i}: {error}") from None
    rows = encode_rows(X, FLOAT64, features, gaps=True)
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


# Numbers of dicts, told apart from the rest.


def named_context(x: Any) -> Mapping[Any, Any] | None:
    """A dict, or a row of a frame that is read as a dict; None: x is another kind of context."""
    if isinstance(x, str | ndarray | list) or type(x) is tuple or hasattr(x, "tocsr"):
        return None
    x = row_of_frame(x)
    return x if isinstance(x, Mapping) else None


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
            return row_of_pair(x, dtype, most) if _is_apart(x) else plain(x, columns)
        rows = None
        named = named_context(x)
        if named is not None:
            row, numbers = encode_named(named, dtype, features)
            if not len(numbers[0]):
                return row
            rows = stacked([row], dtype)._replace(numbers=stacked([numbers], dtype))
        elif _tells_numbers(x):
            rows = row_of_sparse(x, dtype, features)
        return plain(x, columns) if rows is None else set_apart(rows, first)[:2]

    return encode_one


def _tells_numbers(x: Any) -> bool:
    """Whether x is of a table from a file that tells its numbers (`datasets.matrices.Mixed`).

    What was computed from such a table tells them no more, and is refused.
    """
    if not hasattr(x, "tocsr") or not hasattr(x, "numbers"):
        return False
    if x.numbers is None:
        raise ValueError(
            "these rows were computed from a table with numbers, and do not tell any more which "
            "entries are numbers; compute with a data frame or with dicts, or pass csr_matrix(X) "
            "to have all entries taken as they are"
        )
    return True


def is_unnamed(x: Any) -> bool:
    """Whether x is a row of a sparse matrix, or such a matrix, that does not tell its numbers."""
    return hasattr(x, "tocsr") and not _tells_numbers(x)


def _is_apart(x: Any) -> bool:
    """Whether x may be the row of a decision, whose numbers are apart already."""
    return type(x) is tuple and len(x) == 2 and getattr(x[0], "dtype", INT32).kind == "u"
