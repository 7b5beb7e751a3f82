"""Contexts as JSON has them, for the client and the journal.

A learner reads the result as it reads the context itself; what a learner refuses is refused here
with the same error. The bounds of numbers depend on the learner, and are left to it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from onebit.reading.contexts import row_of_numbers
from onebit.reading.dicts import name_of_feature, number_of_feature
from onebit.reading.frames import names_of, row_of_frame
from onebit.reading.rows import row_of_pair, row_of_sparse

FLOAT64 = np.dtype(np.float64)


def plain_context(x: Any) -> Any:
    """A text, an object of numbers and strings, an array of numbers, or one of pairs."""
    if isinstance(x, str):
        return str.__str__(x)
    if hasattr(x, "tocsr"):
        if hasattr(x, "numbers"):
            raise TypeError(
                "this row of a table has lost its names and texts, which JSON needs: give the row "
                "as a dict"
            )
        return _pairs(*row_of_sparse(x, FLOAT64, None)[:2])
    x = row_of_frame(x)
    if type(x) is tuple:
        return _pairs(*row_of_pair(x, FLOAT64, None))
    if isinstance(x, Mapping):
        plain = ((name_of_feature(name), _plain_value(name, value)) for name, value in x.items())
        return {name: value for name, value in plain if value == value}  # NaN: absent
    if names_of(x):
        raise TypeError(
            "a row of a data frame of numbers has names, and an array in JSON has none: give "
            "row.to_dict() to a learner of dicts or of that frame, row.tolist() to one of arrays"
        )
    row = row_of_numbers(x).astype(FLOAT64)
    if np.isinf(row).any():
        raise ValueError("a context has a number that is not finite; leave it out")
    return [None if math.isnan(number) else number for number in row.tolist()]


def _pairs(indices: np.ndarray, values: np.ndarray) -> list[list[Any]]:
    return [list(pair) for pair in zip(indices.tolist(), values.tolist(), strict=True)]


def _plain_value(name: Any, value: Any) -> Any:
    """The value of a feature; NaN if it is missing."""
    if value is None or isinstance(value, str):
        return value and str.__str__(value)
    number = number_of_feature(name, value, FLOAT64)
    return value if type(value) in (bool, int) and abs(number) < 2**53 else number
