"""The rows of a table that can be taught: whole, or the texts of a column."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onebit.core.settings import argument, warn
from onebit.datasets.blocks import Options, is_number_text
from onebit.datasets.columns import check_names, row_numbers
from onebit.datasets.csv_files import (
    holds_truth,
    is_missing_cell,
    numbered_rows,
    truth_of,
)
from onebit.datasets.parquet import parquet_parts
from onebit.reading.dicts import own_categories
from onebit.service.teach.sources.images import shown
from onebit.service.teach.sources.items import LONGEST_TITLE, Embed, Item, Items, Skipped
from onebit.service.teach.sources.lines import (
    LONGEST_TEXT,
    NO_TEXT,
    TOO_LONG,
    Keys,
    Texts,
    check_count,
    nothing,
)

_LARGEST_NUMBER = 3e38  # of float32


def _is_truth(column: str) -> bool:
    """Whether a column holds what is to be learned, by its name: no learner may see it."""
    return column.strip().lower() == "label"


class Rows(Items):
    """Rows of a table. The learner sees all columns but one that is called "label"."""

    kind = "row"

    def __init__(self, name: str, table: _Table, embed: Embed | None = None) -> None:
        self._table = table
        self._columns = [i for i, column in enumerate(table.names) if not _is_truth(column)]
        self._is_dense = all(table.are_numbers[i] for i in self._columns)
        self._text = table.wordiest()
        super().__init__(name, table.keys, table.skipped, embed)

    def __getitem__(self, i: int) -> Item:
        fields, text = self._table.fields(i), ""
        if self._text is not None:
            text = str(fields[self._text])
        title = text or ", ".join(f"{name}: {value}" for name, value in fields.items())
        return Item(self._keys[i], "row", shown(title, LONGEST_TITLE), text, fields)

    def _plain_context(self, i: int) -> Any:
        table, row = self._table, self._table.rows[i]
        if self._is_dense:
            return np.array([math.nan if row[k] is None else row[k] for k in self._columns])
        # A missing number is left out.
        return {table.names[k]: row[k] for k in self._columns if row[k] is not None}


class _Table:
    """The rows of a csv, tsv or Parquet file: numbers as floats, None where one is missing, and
    all else as strings."""

    def __init__(self, options: Options) -> None:
        self.path = options.path
        self._options = options
        self._kept: list[int] = []  # the places of the columns that are not left out
        self.rows: list[list[Any]] = []
        self.lines: list[int] = []  # the numbers of the rows' lines
        self.keys: list[str] = []  # from the cells as they are written
        self._digests = Keys()
        self.skipped: list[Skipped] = []
        self.names: list[str] = []
        self.are_numbers: list[bool] = []
        if options.format == "parquet":
            self._read_parquet()
        else:
            self._read_delimited()
        if not self.rows:
            raise nothing(self.path, "row", self.skipped)

    def fields(self, i: int) -> dict[str, Any]:
        """A row by the names of its columns, for a person: 1 and not 1.0, nothing for None."""
        cells = (
            int(cell) if isinstance(cell, float) and cell.is_integer() else cell
            for cell in self.rows[i]
        )
        return {
            name: "" if cell is None else cell for name, cell in zip(self.names, cells, strict=True)
        }

    def wordiest(self) -> str | None:
        """The column that has the longest texts, if one has any: three words in half of its
        cells."""
        found: list[tuple[float, str]] = []
        for name, is_number, cells in zip(
            self.names, self.are_numbers, zip(*self.rows[:1000], strict=True), strict=True
        ):
            if not is_number and not _is_truth(name):
                words = sorted(len(cell.split()) for cell in cells)
                if words[len(words) // 2] >= 3:
                    found.append((sum(words), name))
        return max(found)[1] if found else None

    def warn_of_identifiers(self) -> None:
        """Warn of columns that tell rows apart and say nothing about other rows."""
        for k, name in enumerate(self.names):
            cells = [row[k] for row in self.rows if row[k] not in (None, "")]
            if _is_truth(name):
                continue
            if self.are_numbers[k]:
                problem = row_numbers(name, np.array(cells, float))
            else:
                problem = own_categories(name, cells)
            if problem:
                warn(
                    f"{self.path}: {problem}. The learner sees it: leave it out with "
                    f"{argument('drop', [name])}, or name a column of texts with {argument('text')}"
                )

    def _read_parquet(self) -> None:
        columns, parts = parquet_parts(self._options)
        self._name(1, list(columns))
        are_numbers = list(columns.values())
        self.are_numbers = [are_numbers[k] for k in self._kept]
        for first, part in parts:
            for line, values in enumerate(part.iter_rows(), first):
                row = [
                    _number(value) if is_number else "" if value is None else str(value)
                    for value, is_number in zip(values, are_numbers, strict=True)
                ]
                self._add(line, row)

    def _read_delimited(self) -> None:
        cells = numbered_rows(self._options)
        for first, names in cells:  # the header, if there is any
            self._name(first, names)
            for line, row in cells:
                self._add(line, row)
        columns = zip(*self.rows, strict=True)
        self.are_numbers = [_holds_numbers(column) for column in columns]
        for row in self.rows:
            for k, is_number in enumerate(self.are_numbers):
                if is_number:
                    row[k] = _number_of_cell(row[k])

    def _name(self, line: int, names: list[str]) -> None:
        check_names(self._options, line, names)
        self._kept = [k for k, name in enumerate(names) if name not in self._options.drop]
        self.names = [names[k] for k in self._kept]

    def _add(self, line: int, whole: list[Any]) -> None:
        row = [whole[k] for k in self._kept]
        texts = [value for value in row if isinstance(value, str)]
        if any(len(text) > LONGEST_TEXT for text in texts):
            self.skipped.append((f"line {line}", TOO_LONG))
        elif any("\0" in text for text in texts):
            self.skipped.append((f"line {line}", NO_TEXT))
        elif all(value is None or value == "" for value in row):
            self.skipped.append((f"line {line}", "the row is empty"))
        else:
            self.rows.append(row)
            self.lines.append(line)
            self.keys.append(self._digests.key(repr(whole)))
            check_count(self.path, self.rows)


def _number(value: Any) -> float | None:
    """A number of a Parquet file; None if it is missing, or too large to learn from."""
    number = math.nan if value is None else float(value)
    return number if abs(number) <= _LARGEST_NUMBER else None


def _number_of_cell(cell: str) -> float | None:
    """A number of a csv file; 1 and 0 for true and false; None if it is missing."""
    if is_missing_cell(cell):
        return None
    truth = truth_of(cell)
    return float(cell) if truth is None else truth


def _holds_numbers(cells: Sequence[str]) -> bool:
    """Whether all cells of a column that are not missing are numbers, or all are truth values, and
    there are any."""
    known = [cell for cell in cells if not is_missing_cell(cell)]
    return bool(known) and (
        all(is_number_text(cell) and abs(float(cell)) <= _LARGEST_NUMBER for cell in known)
        or holds_truth(known)
    )


def rows_of(options: Options, embed: Embed | None) -> Items:
    """The items of a table: the texts of a column, or whole rows."""
    path, text, table = options.path, options.text, _Table(options)
    name = Path(path).name
    seen = [column for column in table.names if not _is_truth(column)]
    if not seen:
        raise ValueError(f"{path}: there is no column but the label; a learner needs others")
    if text is None and seen == [table.wordiest()]:
        text = seen[0]
    if text is None:
        table.warn_of_identifiers()
        return Rows(name, table, embed)
    if text not in table.names:
        has = ", ".join(table.names[:12]) + (", ..." if len(table.names) > 12 else "")
        remedy = f"name the right one with {argument('text')}"
        raise ValueError(f"{path}: there is no column {text!r}, but {has}; {remedy}")
    texts: list[str] = []
    fields: list[Mapping[str, Any]] = []
    skipped = table.skipped
    for i, line in enumerate(table.lines):
        columns = table.fields(i)
        found = columns.pop(text)
        if not str(found).strip():
            skipped.append((f"line {line}", f"there is no text in column {text!r}"))
        else:
            texts.append(str(found))
            fields.append(columns)
    if not texts:
        raise nothing(path, "row", skipped)
    return Texts(name, texts, fields, skipped, embed)
