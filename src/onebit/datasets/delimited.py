"""csv and tsv: a line of names, then rows.

A column holds numbers if its first row does. The decision is made once, so that a stream needs no
look ahead; a later row that does not fit is refused, and `categories=` decides otherwise.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator

import numpy as np

from onebit.datasets.blocks import Block, Options, bad, text_lines
from onebit.datasets.columns import Layout, block_of, layout, words_of

_ROWS = 10_000  # of a block


def csv_blocks(options: Options) -> Iterator[Block]:
    """The rows of a file with commas."""
    return _delimited(options, ",")


def tsv_blocks(options: Options) -> Iterator[Block]:
    """The rows of a file with tabs."""
    return _delimited(options, "\t")


def _delimited(options: Options, delimiter: str) -> Iterator[Block]:
    rows = _rows(options.path, delimiter)
    header = next(rows, None)
    if header is None:
        return
    names = header[1]
    columns: Layout | None = None
    some: list[tuple[int, list[str]]] = []
    for line, row in rows:
        if len(row) != len(names):
            what = f"{len(row)} fields, but the header has {len(names)}"
            raise bad(options.path, line, what, "is the row cut, or a delimiter not quoted?")
        if columns is None:
            columns = layout(options, header[0], names, [_is_number(cell) for cell in row])
        some.append((line, row))
        if len(some) == _ROWS:
            yield _block(options, names, columns, some)
            some = []
    if columns is None:
        layout(options, header[0], names, [False] * len(names))
    elif some:
        yield _block(options, names, columns, some)


def _rows(path: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not empty, each with the number of its first line."""
    reader = csv.reader(text_lines(path), delimiter=delimiter, strict=True)
    line = 1
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise bad(path, line, str(error), "mend the quotes of this row") from None
        if row:
            yield line, row
        line = reader.line_num + 1


def _is_number(cell: str) -> bool:
    try:
        float(cell)
        return True
    except ValueError:
        return False


def _block(
    options: Options, names: list[str], columns: Layout, some: list[tuple[int, list[str]]]
) -> Block:
    numbers = _numbers(options.path, names, columns.numbers, some)
    named: list[dict[str, float]] | None = None
    if columns.categories or columns.text is not None:
        named = [_names(options, names, columns, row) for _, row in some]
    labels = np.array([row[columns.label].strip() for _, row in some])
    lines = np.array([line for line, _ in some])
    for line in lines[labels == ""][:1]:
        raise bad(options.path, int(line), "the row has no label", "give it one, or leave it out")
    return block_of(numbers, named, labels, lines, options)


def _numbers(
    path: str, names: list[str], places: list[int], some: list[tuple[int, list[str]]]
) -> np.ndarray:
    try:
        numbers = np.array([[float(row[place]) for place in places] for _, row in some])
        good = bool(np.isfinite(numbers).all())
    except ValueError:
        good, numbers = False, np.empty(0)
    if not good:  # find the first that is wrong
        for line, row in some:
            for place in places:
                _number(path, line, names[place], row[place])
    return numbers.reshape(len(some), len(places))


def _number(path: str, line: int, column: str, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        what = f"{cell!r} in column {column!r} is not a number, as in its first row"
        raise bad(path, line, what, f"mend it, or pass categories=[{column!r}]") from None
    if not math.isfinite(value):
        what = f"{cell!r} in column {column!r} is not finite"
        raise bad(path, line, what, "put a number in its place, or leave the row out")
    return value


def _names(options: Options, names: list[str], columns: Layout, row: list[str]) -> dict[str, float]:
    found = {f"{names[place]}={row[place]}": 1.0 for place in columns.categories}
    if columns.text is not None:
        found.update(words_of(row[columns.text], options.ngrams))
    return found
