"""Data frames of pandas and polars, and the names of columns.

A frame of numbers is a matrix, whatever the types of its columns. Any other is read row by row, as
dicts. Neither library is imported: a frame is known by its attributes.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from onebit.core.settings import warn
from onebit.reading.dicts import number_of_feature
from onebit.reading.rows import Rows, is_missing, is_number
from onebit.reading.texts import composed


class NamedColumns(NamedTuple):
    """A matrix of numbers whose columns have names."""

    X: Any
    names: Sequence[str]


def table_in(data: Any) -> Any:
    """The rows of a Dataset as learners take them: with the names of the columns, if known."""
    names = getattr(data, "columns", None)
    is_encoded = isinstance(data.X, Rows)  # and knows the names
    return data.X if names is None or is_encoded else NamedColumns(data.X, names)


def listed(X: Any) -> Any:
    """Texts or other objects of a column or tuple as a list, a frame with names as dicts."""
    if type(X) is tuple:
        return list(X) if any(isinstance(x, str) for x in X) else X
    if hasattr(X, "to_dict") and hasattr(X, "columns"):
        return _frame_rows(X)
    if isinstance(X, np.ndarray):
        return X.tolist() if X.ndim == 1 and X.dtype.kind in "OTU" else X
    if hasattr(X, "to_list") and hasattr(X, "dtype") and not _is_numeric(X.dtype):
        values = X.to_list()
        are_texts = str(X.dtype).lower() in ("str", "string")  # even if all of them are missing
        return ["" if is_missing(x) else x for x in values] if are_texts else values
    return X


def _is_numeric(dtype: Any) -> bool:
    """Whether a column of pandas or polars holds numbers or truth values."""
    if hasattr(dtype, "is_numeric"):
        return dtype.is_numeric() or str(dtype) == "Boolean"
    return getattr(dtype, "kind", "O") in "biuf"


def _holds_numbers(column: Any) -> bool:
    """Whether what a column of a frame has, and is not missing, is numbers and truth values."""
    if _is_numeric(column.dtype):
        return True
    known = (value for value in column if not is_missing(value))
    return is_number(next(known, None)) and all(map(is_number, known))


def _frame_rows(frame: Any) -> Any:
    """The frame itself if it holds numbers alone, else its rows as dicts."""
    names = list(frame.columns)
    if len(set(names)) < len(names):
        raise ValueError("two columns of the frame have the same name; rename one of them")
    if all(_holds_numbers(frame[name]) for name in names):
        return frame
    return _dicts(frame, names)


def warn_of_categories(X: Any) -> None:
    """Warn of categories of pandas that are numbers: they are read as numbers."""
    if not hasattr(X, "to_dict") or not hasattr(X, "columns"):
        return
    for name, dtype in zip(X.columns, X.dtypes, strict=True):
        categories = dtype.categories if str(dtype) == "category" else ()
        if any(is_number(value) and not isinstance(value, bool) for value in categories):
            column = f"frame[{name!r}]"
            warn(
                f"column {name!r} has categories that are numbers, and they are read as numbers, "
                "because a dict of a row does not tell the type of a column. To have them as "
                f"categories, make them strings, {column}.astype(str); to keep the numbers, "
                f"{column}.astype(float)"
            )


def _dicts(frame: Any, names: list[Any]) -> list[dict[Any, Any]]:
    columns = (frame[name].to_list() for name in names)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def row_of_frame(x: Any) -> Any:
    """A row of a frame as a dict if it holds more than numbers, and a named tuple, as
    `itertuples` gives it. Any other context is itself."""
    if hasattr(x, "_asdict") and issubclass(type(x), tuple):
        return x._asdict()
    if not hasattr(x, "to_dict") or isinstance(x, Mapping):
        return x
    if hasattr(x, "columns"):  # a frame, of a single row
        rows = _frame_rows(x)
        if rows is not x and len(rows) != 1:
            raise ValueError(f"one context is one row, not {len(rows)}")
        return x if rows is x else rows[0]
    return x if _is_numeric(x.dtype) or _are_numbers(x) else _dict_of(x)


def _are_numbers(row: Any) -> bool:
    """Whether a row has numbers and truth values alone. Together, these are objects for pandas."""
    return len(row) > 0 and all(is_number(value) and not is_missing(value) for value in row)


def _dict_of(row: Any) -> dict[Any, Any]:
    return dict(row.items())  # to_dict() has None for NA


# Names of columns. A learner of a table of numbers reads a dict as a row of that table.


def names_of(x: Any) -> tuple[str, ...]:
    """The names of the columns of a frame of numbers, or of a row of one; others have none."""
    if not hasattr(x, "to_dict"):
        return ()
    names = getattr(x, "columns", None) if hasattr(x, "columns") else getattr(x, "index", None)
    if names is None or callable(names):
        return ()
    names = tuple(names)
    return composed_names(names) if all(isinstance(name, str) for name in names) else ()


def may_have_names(X: Any) -> bool:
    """Whether there may be rows among many contexts that `names_of` knows."""
    if isinstance(X, list | tuple) and not isinstance(X, NamedColumns):
        return any(map(hasattr, X, repeat("to_dict")))
    return not isinstance(X, np.ndarray) or X.dtype.kind == "O"


def composed_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names of columns; none if two of them are the same once they are composed."""
    made = tuple(map(composed, names))
    return made if len(set(made)) == len(made) else ()


def dict_of_row(x: Any) -> Any:
    """A row of a frame of numbers, or a frame of one such row, as a dict."""
    if not hasattr(x, "columns"):
        return _dict_of(x)
    rows = dicts_of(x)
    if len(rows) != 1:
        raise ValueError(f"one context is one row, not {len(rows)}")
    return rows[0]


def dicts_of(X: Any) -> Any:
    """The rows of a matrix whose columns have names, as dicts. Anything else is itself."""
    if isinstance(X, NamedColumns):
        if hasattr(X.X, "tocsr"):  # too wide to be dicts: as a matrix without names
            return X.X
        return [dict(zip(X.names, row, strict=True)) for row in X.X.tolist()]
    return _dicts(X, list(X.columns)) if hasattr(X, "columns") and names_of(X) else X


def row_in_columns(
    x: Mapping[Any, Any],
    names: tuple[str, ...],
    dtype: np.dtype,
    gaps: bool,
) -> np.ndarray:
    """A dict as a row of the columns with these names. gaps: columns may be missing."""
    x = {composed(name) if isinstance(name, str) else name: value for name, value in x.items()}
    known = frozenset(names)
    for name in x:
        if name not in known:
            near = difflib.get_close_matches(str(name), names, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; there are {_some(names)}"
            raise ValueError(f"the learner knows no column {name!r}{hint}")
    row = np.empty(len(names))
    for column, name in enumerate(names):
        value = x.get(name)
        row[column] = math.nan if value is None else number_of_feature(name, value, dtype)
        if math.isnan(row[column]) and not gaps:
            raise ValueError(
                f"column {name!r} is missing; give it a value: only OneBit and "
                "inputs='auto' read a missing number of a table, as the column's mean"
            )
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
