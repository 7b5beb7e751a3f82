"""csv and tsv: a header line with the column names, then rows.

A column holds numbers if its first non-missing value is a number. This is decided once, on the
first block of rows, so that a stream needs no look-ahead. A later row that does not fit is refused;
`categories` overrides the decision.
"""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from onebit.datasets.blocks import Block, Options, bad, text_lines
from onebit.datasets.columns import NO_LABEL, Layout, block_of, layout, words_of
from onebit.settings import argument

_ROWS = 10_000  # of a block
_LONGEST_FIELD = 2**26  # characters; Python's own limit is 131,072
_MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}  # in a column of numbers, in any case


def csv_blocks(options: Options) -> Iterator[Block]:
    """The rows of a comma-separated file."""
    return _delimited(options, options.delimiter or ",")


def tsv_blocks(options: Options) -> Iterator[Block]:
    """The rows of a tab-separated file."""
    return _delimited(options, options.delimiter or "\t")


def _delimited(options: Options, delimiter: str) -> Iterator[Block]:
    rows = _rows(options, delimiter)
    header = next(rows, None)
    if header is None:
        return
    names = header[1]
    _check_header(options, header[0], names, delimiter)
    columns: Layout | None = None
    rows = _as_wide(options.path, len(names), rows)
    while part := list(itertools.islice(rows, _ROWS)):
        if columns is None:
            columns = layout(options, header[0], names, _are_numbers(part))
        yield _block(options, names, columns, part)
    if columns is None:
        layout(options, header[0], names, [False] * len(names))


def _check_header(options: Options, line: int, names: list[str], delimiter: str) -> None:
    """Refuse a header that is a single column but would be split by another delimiter."""
    there = [sign for sign in ",;\t|" if sign != delimiter and sign in names[0]]
    if len(names) == 1 and options.label not in names and there:
        what = f"the header is a single column, {names[0]!r}"
        remedy = f"if {there[0]!r} separates the columns, pass {argument('delimiter', there[0])}"
        raise bad(options.path, line, what, remedy)


Numbered = list[tuple[int, list[str]]]  # rows, each with the number of its first line


def _as_wide(path: str, width: int, rows: Iterator[tuple[int, list[str]]]) -> Any:
    """The same rows; refuse a row that is not as wide as the header."""
    for line, row in rows:
        if len(row) != width:
            what = f"{len(row)} fields, but the header has {width}"
            raise bad(path, line, what, "is the row cut, or a delimiter not quoted?")
        yield line, row


def _rows(options: Options, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Non-empty rows, each with the number of its first line."""
    path = options.path
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_FIELD))
    lines = text_lines(path, options.encoding)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    line = 1
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            what, remedy = str(error), "mend the quotes of this row"
            if "field limit" in what:
                what = f"a field of more than {_LONGEST_FIELD:,} characters"
                remedy = "shorten it, or close a quote that is open"
            raise bad(path, line, what, remedy) from None
        if row:
            yield line, row
        line = reader.line_num + 1


def _are_numbers(part: Numbered) -> list[bool]:
    """Per column, whether its first non-missing value is a number."""
    columns = zip(*(row for _, row in part), strict=True)
    firsts = (next((cell for cell in column if not _is_missing(cell)), "0") for column in columns)
    return [_is_number(cell) for cell in firsts]


def _is_missing(cell: str) -> bool:
    return cell.strip().lower() in _MISSING


def _is_number(cell: str) -> bool:
    try:
        float(cell)
        return True
    except ValueError:
        return False


def _block(options: Options, names: list[str], columns: Layout, part: Numbered) -> Block:
    numbers = _numbers(options.path, names, columns.numbers, part)
    named: list[dict[str, float]] | None = None
    if columns.categories or columns.text is not None:
        named = [_names(options, names, columns, row) for _, row in part]
    labels = np.array([row[columns.label].strip() for _, row in part])
    lines = np.array([line for line, _ in part])
    for line in lines[labels == ""][:1]:
        raise bad(options.path, int(line), *NO_LABEL)
    return block_of(numbers, named, labels, lines, options)


def _numbers(path: str, names: list[str], places: list[int], part: Numbered) -> np.ndarray:
    try:
        numbers = np.array([[float(row[place]) for place in places] for _, row in part])
        good = bool(np.isfinite(numbers).all())
    except ValueError:
        good, numbers = False, np.empty(0)
    if not good:  # check each value: some are missing or wrong
        numbers = np.array(
            [[_number(path, line, names[place], row[place]) for place in places]
             for line, row in part]
        )  # fmt: skip
    return numbers.reshape(len(part), len(places))


def _number(path: str, line: int, column: str, cell: str) -> float:
    if _is_missing(cell):
        return 0.0
    try:
        value = float(cell)
    except ValueError:
        what = f"{cell!r} in column {column!r} is not a number, but values before it are"
        raise bad(
            path, line, what, f"mend it, or pass {argument('categories', [column])}"
        ) from None
    if not math.isfinite(value):
        what = f"{cell!r} in column {column!r} is not finite"
        raise bad(path, line, what, "put a number in its place, or leave it empty if it is missing")
    return value


def _names(options: Options, names: list[str], columns: Layout, row: list[str]) -> dict[str, float]:
    found = {f"{names[place]}={row[place]}": 1.0 for place in columns.categories}
    if columns.text is not None:
        found.update(words_of(row[columns.text], options.ngrams))
    return found
