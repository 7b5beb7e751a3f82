"""Rows from the columns of a table.

A table of numbers is an array, in which NaN is missing, or a sparse matrix if it is very wide. In a
table with names or texts, each row is encoded like the same row as a dict (`contexts.encode`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from onebit.datasets.blocks import Block, Options, bad, cast
from onebit.datasets.matrices import csr, mixed
from onebit.dicts import HASHED, encode_named, own_categories
from onebit.rows import stacked
from onebit.settings import argument
from onebit.texts import Text

MOST_DENSE = 4096  # columns of a table of numbers that is an array


class Layout(NamedTuple):
    """The names of a table's columns, and the places of those with each role."""

    names: list[str]
    label: int
    numbers: list[int]
    categories: list[int]
    text: int | None


def layout(options: Options, line: int, names: list[str], is_number: Sequence[bool]) -> Layout:
    """The layout of a table with these columns. line: of the header."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise bad(options.path, line, f"column {twice!r} appears twice", "give it another name")
    special = {"label": options.label} | ({} if options.text is None else {"text": options.text})
    named = [*special.items(), *(("categories", name) for name in options.categories)]
    for setting, wanted in named:
        if wanted not in names:
            has = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
            problem = f"there is no column {wanted!r}, but {has}"
            raise bad(options.path, line, problem, f"name the right one with {argument(setting)}")
    numbers: list[int] = []
    categories: list[int] = []
    for place, name in enumerate(names):
        if name not in special.values():
            as_number = is_number[place] and name not in options.categories
            (numbers if as_number else categories).append(place)
    text = None if options.text is None else names.index(options.text)
    return Layout(names, names.index(options.label), numbers, categories, text)


def hashed(rows: list[Mapping[str, Any]], lines: Sequence[int], options: Options) -> Any:
    """Dicts as rows of a matrix, encoded as a learner's contexts are."""
    width, dtype = options.features or HASHED, np.dtype(options.dtype)
    contexts, numbers = [], []
    for row, line in zip(rows, lines, strict=True):
        try:
            context, apart = encode_named(row, dtype, width)
        except ValueError as error:
            raise bad(options.path, line, str(error), "mend it, or scale the values") from None
        contexts.append(context)
        numbers.append(apart)

    def matrix(rows: Sequence[Any]) -> Any:
        made = stacked(rows, dtype)
        return csr(made.values, made.indices.view(np.int32), made.indptr, width)

    return mixed(matrix(contexts), matrix(numbers))


def block_of(
    options: Options,
    columns: Layout,
    lines: np.ndarray,
    numbers: np.ndarray,
    texts: Callable[[int], Sequence[str]],
) -> Block:
    """A block of rows.

    numbers: the columns of numbers; NaN: missing. texts: the values of any other column by its
    place, as text; a missing value is empty.
    """
    labels = np.array([label.strip() for label in texts(columns.label)])
    for line in lines[labels == ""][:1]:
        remedy = "give it one, or leave the row out"
        raise bad(options.path, int(line), "the row has no label", remedy)
    if not options.are_names_checked:  # the first rows are enough
        options.are_names_checked = True
        _check_names(options, columns, texts)
    width = len(columns.numbers)
    if columns.categories or columns.text is not None:
        rows = _named_rows(options, columns, numbers, texts)
        return Block(hashed(rows, lines.tolist(), options), labels, lines)
    is_array = 0 < width <= MOST_DENSE
    numbers = numbers if is_array else np.where(np.isnan(numbers), 0.0, numbers)
    names = [columns.names[place] for place in columns.numbers]
    dtype = options.array_dtype if is_array else options.dtype
    values = cast(numbers.ravel(), dtype, options, lambda i: int(lines[i // width]))
    if is_array:
        return Block(values.reshape(numbers.shape), labels, lines, names)
    X: Any = sparse.csr_matrix(values.reshape(numbers.shape))
    indptr = X.indptr.astype(np.int64)
    return Block(csr(X.data, X.indices.astype(np.int32), indptr, width), labels, lines, names)


def _check_names(options: Options, columns: Layout, texts: Callable[[int], Sequence[str]]) -> None:
    """Warn of a column in which nearly every row has a name of its own."""
    for place in columns.categories:
        name, values = columns.names[place], [value for value in texts(place) if value.strip()]
        problem = "" if name in options.categories else own_categories(name, values)
        if problem:
            warnings.warn(
                f"{options.path}: {problem}. If these are texts, "
                f"pass {argument('text', name)}; if they are names, "
                f"{argument('categories', [name])}; otherwise leave the column out",
                stacklevel=2,
            )


def _named_rows(
    options: Options,
    columns: Layout,
    numbers: np.ndarray,
    texts: Callable[[int], Sequence[str]],
) -> list[Mapping[str, Any]]:
    """The rows as dicts of numbers, categories and texts."""
    named: dict[str, Sequence[Any]] = {}
    for place, column in zip(columns.numbers, numbers.T, strict=True):
        named[columns.names[place]] = column.tolist()
    for place in columns.categories:
        named[columns.names[place]] = texts(place)
    if columns.text is not None:
        named[options.text or ""] = [Text(text, options.ngrams) for text in texts(columns.text)]
    rows: list[Mapping[str, Any]] = []
    for values in zip(*named.values(), strict=True):
        row = dict(zip(named, values, strict=True))
        for name in options.categories:  # a category even if it looks like a text
            row[f"{name}={row.pop(name)}"] = 1.0
        rows.append(row)
    return rows
