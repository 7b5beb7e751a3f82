"""csv and tsv: a header line with the column names, then rows.

A column holds numbers if its first non-missing value is a number, or if all its values are true or
false, which are 1 and 0. This is decided once, on the first block of rows, so that a stream needs
no look-ahead. A later row that does not fit is refused, and so is a first value that does not fit
nearly all others of the block; `categories` overrides the decision.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from onebit.core.settings import argument
from onebit.datasets.blocks import Block, Options, bad, has_label, is_number_text, text_lines
from onebit.datasets.columns import Layout, block_of, layout

_ROWS = 10_000  # of a block
_LONGEST_FIELD = 2**26  # characters; Python's own limit is 131,072
_MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}  # in a column of numbers, in any case
_NEARLY_ALL = 0.9  # of the values of a column after the first: numbers, so the first is a mistake
_TRUTH = {"true": 1.0, "false": 0.0}  # in any case
_WITH_COMMA = re.compile(r"\s*[+-]?[\d.]*,\d+([eE][+-]?\d+)?\s*")

NumberedRow = tuple[int, list[str]]  # a row with the number of its first line


def csv_blocks(options: Options) -> Iterator[Block]:
    rows = numbered_rows(options)
    for line, names in rows:  # the header, if the file has any row
        part = list(islice(rows, _ROWS))
        columns = _layout(options, line, names, part)
        while part:
            labelled = [row for row in part if has_label(options, row[0], row[1][columns.label])]
            if labelled:
                yield _block(options, columns, labelled)
            part = list(islice(rows, _ROWS))


def _check_header(options: Options, line: int, names: list[str], delimiter: str) -> None:
    """Refuse a header that is a single column but would be split by another delimiter."""
    signs = [sign for sign in ",;\t|" if sign != delimiter and sign in names[0]]
    if len(names) == 1 and options.label not in names and signs:
        problem = f"the header is a single column, {names[0]!r}"
        remedy = f"if {signs[0]!r} separates the columns, pass {argument('delimiter', signs[0])}"
        if names[0].lower().startswith("sep="):  # which Excel writes before the header
            problem = f"{names[0]!r} is no header"
            remedy = f"delete this line, and pass {argument('delimiter', signs[0])}"
        raise bad(options.path, line, problem, remedy)


def numbered_rows(options: Options) -> Iterator[NumberedRow]:
    """The header, then the rows that are not empty, all as wide as the header."""
    path = options.path
    delimiter = options.delimiter or ("\t" if options.format == "tsv" else ",")
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_FIELD))
    reader = csv.reader(text_lines(path, options.encoding), delimiter=delimiter, strict=True)
    line, width = 1, 0
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problem, remedy = str(error), "mend the quotes of this row"
            if "field limit" in problem:
                problem = f"a field of more than {_LONGEST_FIELD:,} characters"
                remedy = "shorten it, or close a quote that is open"
            raise bad(path, line, problem, remedy) from None
        if row:
            if not width:
                _check_header(options, line, row, delimiter)
                row = [name.strip() or f"column {place}" for place, name in enumerate(row, 1)]
            width = width or len(row)
            if len(row) != width:
                problem = f"{len(row)} fields, but the header has {width}"
                remedy = "is the row cut, or a delimiter not quoted?"
                if len(row) == width + 1 and not row[-1]:
                    remedy = f"if every row ends with {delimiter!r}, let the header do so too"
                raise bad(path, line, problem, remedy)
            yield line, row
        line = reader.line_num + 1


def _layout(options: Options, line: int, names: list[str], part: list[NumberedRow]) -> Layout:
    """The layout by the first non-missing value of each column; a column without is of numbers."""
    firsts: list[tuple[int, str]] = []
    for place in range(len(names)):
        cells = ((number, row[place]) for number, row in part)
        firsts.append(next((cell for cell in cells if not is_missing_cell(cell[1])), (line, "0")))
    are_numbers = [
        is_number_text(cell) or holds_truth([row[place] for _, row in part])
        for place, (_, cell) in enumerate(firsts)
    ]
    columns = layout(options, line, names, are_numbers)
    for place in columns.categories:
        number, cell = firsts[place]
        named = f"{cell!r} in column {names[place]!r}"
        if names[place] in options.categories:
            continue
        if _WITH_COMMA.fullmatch(cell):
            problem = f"{named} looks like a number with a comma"
            remedy = "write numbers with a decimal point, as in 1.5"
        elif _are_numbers([row[place] for line, row in part if line > number]):
            problem = f"{named} is not a number, but values after it are"
            remedy = "leave it empty if it is missing, or mend it"
        else:
            continue
        names_remedy = f"pass {argument('categories', [names[place]])} if these are names"
        raise bad(options.path, number, problem, f"{remedy}, or {names_remedy}")
    return columns


def _are_numbers(cells: Sequence[str]) -> bool:
    """Whether nearly all of the cells that are not missing are numbers, and there are any."""
    known = [cell for cell in cells if not is_missing_cell(cell)]
    return bool(known) and sum(map(is_number_text, known)) >= _NEARLY_ALL * len(known)


def is_missing_cell(cell: str) -> bool:
    return cell.strip().lower() in _MISSING


def holds_truth(cells: Sequence[str]) -> bool:
    """Whether all cells that are not missing are true or false."""
    return all(truth_of(cell) is not None or is_missing_cell(cell) for cell in cells)


def truth_of(cell: str) -> float | None:
    """1 for true, 0 for false; None: it is neither."""
    return _TRUTH.get(cell.strip().lower())


def _block(options: Options, columns: Layout, part: list[NumberedRow]) -> Block:
    lines = np.array([line for line, _ in part])
    numbers = _numbers(options.path, columns, part)
    return block_of(options, columns, lines, numbers, lambda place: [row[place] for _, row in part])


def _numbers(path: str, columns: Layout, part: list[NumberedRow]) -> np.ndarray:
    """The columns of numbers; NaN: missing."""
    places = columns.numbers
    cells = [row[place] for _, row in part for place in places]
    signs = "".join(cells)
    try:
        is_plain = signs.isascii() and "_" not in signs  # float and `number_of` are the same then
        numbers = np.array([*map(float, cells)] if is_plain else math.nan)
    except ValueError:
        numbers = np.array(math.nan)
    if not np.isfinite(numbers).all():  # check each value: some are missing or wrong
        numbers = np.array(
            [[_number(path, line, columns.names[place], row[place]) for place in places]
             for line, row in part]
        )  # fmt: skip
    return numbers.reshape(len(part), len(places))


def _number(path: str, line: int, column: str, cell: str) -> float:
    if is_missing_cell(cell):
        return math.nan
    if (truth := truth_of(cell)) is not None:
        return truth
    if not is_number_text(cell):
        problem = f"{cell!r} in column {column!r} is not a number, but values before it are"
        raise bad(path, line, problem, f"mend it, or pass {argument('categories', [column])}")
    if not math.isfinite(float(cell)):
        problem = f"{cell!r} in column {column!r} is not finite"
        raise bad(
            path, line, problem, "put a number in its place, or leave it empty if it is missing"
        )
    return float(cell)
