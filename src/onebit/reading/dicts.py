"""Dicts as contexts: names are composed (Unicode NFC) and hashed to columns.

A number is the value of its name. A string with white space, or in a script without spaces, is a
text whose words are hashed with the name (see `texts`), any other string is a category. None is a
category of its own and NaN is absent.

For learners that standardise numbers, the numbers of dicts are told apart (`set_apart`) by their
indices: for `OneBit`, these are beyond the columns that there are for the rest; for the others, the
column has a mark.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, time, timedelta
from typing import Any

import numpy as np

from onebit.core.jit import direct, entry
from onebit.core.settings import shown
from onebit.core.slots import MARK
from onebit.reading.hashing import murmur3
from onebit.reading.rows import (
    OF_TIME,
    Rows,
    cut,
    is_missing,
    is_number,
    largest,
    limit_of,
    row_of_arrays,
    rows_of,
)
from onebit.reading.texts import Text, composed, is_text, text_columns

FEWEST, MOST_DISTINCT = 20, 0.9  # of so many rows or more, the share that may have different names
HASHED = 2**20  # columns for dicts when `features` is not fixed: as scikit-learn's FeatureHasher
_HASHES_KEPT = 2**16
_hashes: dict[str, int] = {}


def _hash(name: str) -> int:
    """murmur3 of the composed name, kept for a name that comes again."""
    if len(_hashes) >= _HASHES_KEPT:
        _hashes.clear()
    try:
        h = _hashes[name] = murmur3(composed(name))
    except UnicodeEncodeError:
        raise _not_utf8(name) from None
    return h


def _not_utf8(name: str) -> ValueError:
    return ValueError(f"the name {name!r} cannot be written in UTF-8")


def row_of_dict(
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
        if type(name) is not str:
            name = name_of_feature(name)
        if type(value) is not float and isinstance(value, str):
            value = str.__str__(value)  # of a member of an Enum: its value
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
                prefix = f"{composed(name)}="
                found, numbers = text_columns(value.text, columns, prefix, value.ngrams)
            except UnicodeEncodeError:
                raise _not_utf8(name) from None
            for column, number in zip(found.tolist(), numbers.tolist(), strict=True):
                sums[column] = sums.get(column, 0.0) + number
            continue
        else:
            number = number_of_feature(name, value, dtype)
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
    return row_of_arrays(indices, values, dtype, columns)


def own_categories(name: str, values: Sequence[str]) -> str:
    """What is to be said of a column in which nearly every row has a category of its own; else "".

    values: its strings.
    """
    if len(values) < FEWEST or len(set(values)) <= MOST_DISTINCT * len(values):
        return ""
    if any(map(is_text, values)):
        return ""
    return (
        f"column {name!r} has another value in nearly every row, such as {values[0]!r}, and each "
        "counts as a category of its own"
    )


def name_of_feature(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a feature's name must be a string, not {shown(name)}")
    return str.__str__(name)


def number_of_feature(name: str, value: Any, dtype: np.dtype) -> float:
    """The value of a feature as a float; NaN if it is missing."""
    if not is_number(value):
        if is_missing(value):
            return math.nan
        hint = ""
        if isinstance(value, bytes | bytearray):
            hint = "; decode it to a string"
        elif isinstance(value, date | time | timedelta | np.datetime64 | np.timedelta64):
            hint = f"; {OF_TIME}"
        elif getattr(value, "size", 0) == 1:
            hint = "; give its number, value.item()"
        elif isinstance(value, str):
            hint = (
                "; convert it to a number. If the column has names or texts, teach a learner with "
                "dicts from the first row on (row.to_dict()), or give simulate the whole frame"
            )
        elif isinstance(value, Iterable):
            hint = "; give each of its parts a name of its own"
        elif not isinstance(value, complex):
            hint = "; make a string of it to have it as a category"
        wanted = "a number" if isinstance(value, str) else "a number or a string"
        raise TypeError(f"feature {name!r} must be {wanted}, not {shown(value)}{hint}")
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"feature {name!r} is too large for a float; leave it out") from None
    if math.isinf(number):
        raise ValueError(f"feature {name!r} is {number:g}; leave it out")
    if abs(number) > largest(dtype):
        raise ValueError(
            f"feature {name!r}: {number:g} is too large for {dtype}: at most {largest(dtype):g}; "
            "scale the feature down"
        )
    return number


# Numbers of dicts, told apart from the rest. Each keeps its column, but has an index beyond all
# columns. A number that is 0 has the least value that is kept: it is not the same as no number.


def encode_named(
    x: Mapping[Any, Any], dtype: np.dtype, features: int | None
) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """A dict as a context, and its numbers by column."""
    apart: dict[int, float] = {}
    row = row_of_dict(x, dtype, features, apart)
    order = sorted(apart)
    return row, (np.array(order, np.uint32), np.array([apart[j] for j in order], dtype))


def first_number(features: int | None) -> int:
    """The index of the first number, if it is beyond all columns."""
    return limit_of(features)


def most_features(features: int | None, first: int) -> int:
    """One more than the index of the last number."""
    return first + (HASHED if features is None else features)


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
    made = rows_of(cut(out[0], kept), cut(out[1], kept), out[2], rows.columns)
    return made._replace(kind=rows.kind)


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
