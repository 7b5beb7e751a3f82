"""Rows from the columns of a table.

A table of numbers is an array, in which NaN is missing, or a sparse matrix if it is very wide. In a
table with names or texts, each row is encoded like the same row as a dict (`contexts.encode`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from onebit.core.settings import argument, warn
from onebit.datasets.blocks import Block, Options, bad, cast, is_number_text
from onebit.datasets.matrices import csr, mixed
from onebit.reading.dicts import FEWEST, HASHED, encode_named, own_categories
from onebit.reading.rows import stacked
from onebit.reading.texts import Text

MOST_DENSE = 4096  # columns of a table of numbers that is an array


class Layout(NamedTuple):
    """The names of a table's columns, and the places of those with each role. Columns that are left
    out have none."""

    names: list[str]
    label: int
    numbers: list[int]
    categories: list[int]
    text: int | None


def layout(options: Options, line: int, names: list[str], is_number: Sequence[bool]) -> Layout:
    """The layout of a table with these columns. line: of the header."""
    check_names(options, line, names)
    special = {"label": options.label} | ({} if options.text is None else {"text": options.text})
    special |= options.beside
    named = [*special.items(), *(("categories", name) for name in options.categories)]
    for setting, wanted in named:
        if wanted not in names:
            remedy = f"name the right one with {argument(setting)}"
            if any(map(is_number_text, names)):
                remedy = "the first line has to name the columns"
            raise bad(options.path, line, _no_column(wanted, names), remedy)
        if wanted in options.drop:
            problem = f"column {wanted!r} is named by {argument(setting)} and by {argument('drop')}"
            raise bad(options.path, line, problem, "name it by either")
    numbers: list[int] = []
    categories: list[int] = []
    for place, name in enumerate(names):
        if name not in special.values() and name not in options.drop:
            as_number = is_number[place] and name not in options.categories
            (numbers if as_number else categories).append(place)
    text = None if options.text is None else names.index(options.text)
    return Layout(names, names.index(options.label), numbers, categories, text)


def check_names(options: Options, line: int, names: Sequence[str]) -> None:
    """Refuse two columns of one name that are not left out, and unknown ones to leave out."""
    for name, count in Counter(names).items():
        if count > 1 and name not in options.drop:
            remedy = f"give it another name, or leave both out with {argument('drop', [name])}"
            raise bad(options.path, line, f"column {name!r} appears twice", remedy)
    for name in options.drop:
        if name not in names:
            remedy = f"name the right ones with {argument('drop')}"
            raise bad(options.path, line, _no_column(name, names), remedy)


def _no_column(name: str, names: Sequence[str]) -> str:
    has = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"there is no column {name!r}, but {has}"


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
    beside = {role: texts(columns.names.index(name)) for role, name in options.beside.items()}
    if not options.are_names_checked:  # the first rows are enough
        options.are_names_checked = True
        _warn_of_names(options, columns, texts)
        _warn_of_row_numbers(options, columns, numbers)
    width = len(columns.numbers)
    if columns.categories or columns.text is not None:
        rows = _named_rows(options, columns, numbers, texts)
        X = rows if options.as_dicts else hashed(rows, lines.tolist(), options)
        return Block(X, labels, lines, beside=beside)
    is_array = 0 < width <= MOST_DENSE
    numbers = numbers if is_array else np.where(np.isnan(numbers), 0.0, numbers)
    names = [columns.names[place] for place in columns.numbers]
    dtype = options.array_dtype if is_array else options.dtype
    values = cast(numbers.ravel(), dtype, options, lambda i: int(lines[i // width]))
    if is_array:
        return Block(values.reshape(numbers.shape), labels, lines, names, beside=beside)
    X: Any = sparse.csr_matrix(values.reshape(numbers.shape))
    indptr = X.indptr.astype(np.int64)
    X = csr(X.data, X.indices.astype(np.int32), indptr, width)
    return Block(X, labels, lines, names, beside=beside)


def _warn_of_names(
    options: Options, columns: Layout, texts: Callable[[int], Sequence[str]]
) -> None:
    """Warn of a column in which nearly every row has a name of its own."""
    for place in columns.categories:
        name, values = columns.names[place], [value for value in texts(place) if value.strip()]
        problem = "" if name in options.categories else own_categories(name, values)
        if problem:
            warn(
                f"{options.path}: {problem}. If these are texts, pass {argument('text', name)}; if "
                f"they are names, {argument('categories', [name])}; otherwise leave the column out "
                f"with {argument('drop', [name])}"
            )


def _warn_of_row_numbers(options: Options, columns: Layout, numbers: np.ndarray) -> None:
    for place, column in zip(columns.numbers, numbers.T, strict=True):
        name = columns.names[place]
        if problem := row_numbers(name, column):
            warn(
                f"{options.path}: {problem}. If that is no measurement, leave it out with "
                f"{argument('drop', [name])}"
            )


def row_numbers(name: str, column: np.ndarray) -> str:
    """What is to be said of a column that counts the rows; else "". It tells the label where rows
    are sorted by it."""
    steps = np.diff(column)
    are_whole = bool((steps >= 1).all() and (steps % 1 == 0).all())
    if len(column) < FEWEST or not are_whole or steps.mean() >= 2:  # a few may be missing
        return ""
    first = ", ".join(f"{number:g}" for number in column[:3])
    return f"column {name!r} numbers the rows, {first} and so on"


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
