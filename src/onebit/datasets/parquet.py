"""Parquet files, read through polars if it is installed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from onebit.core.extras import optional_module
from onebit.core.settings import argument
from onebit.datasets.blocks import Block, Options, bad, has_label
from onebit.datasets.columns import Layout, block_of, layout

_ROWS = 50_000  # of a block


def parquet_blocks(options: Options) -> Iterator[Block]:
    """The rows of a file; the number of a row, from 1, is reported as its line."""
    are_numbers, parts = parquet_parts(options)
    columns = layout(options, 1, list(are_numbers), list(are_numbers.values()))
    for first, part in parts:
        lines = np.arange(first, first + part.height)
        labels = _texts(part[options.label])
        kept = [has_label(options, *row) for row in zip(lines.tolist(), labels, strict=True)]
        if any(kept):
            yield _block(options, columns, part.filter(kept), lines[kept])


def parquet_parts(options: Options) -> tuple[dict[str, bool], Iterator[tuple[int, Any]]]:
    """The columns of a file, with whether each holds numbers; and the parts of the file as data
    frames, each with the number of its first row.

    A column of lists, structs or bytes is refused, as such a value in a dict is, unless it is left
    out. For logs, lists and structs may come beside the rows, as JSON.
    """
    path, (polars, table, schema, rows) = options.path, _scanned(options.path)

    def parts() -> Iterator[tuple[int, Any]]:
        for start in range(0, rows, _ROWS):
            try:
                yield start + 1, table.slice(start, _ROWS).collect()
            except polars.exceptions.PolarsError as error:
                problem = f"damaged here or after it ({str(error).splitlines()[0]})"
                raise bad(path, start + 1, problem, "fetch or make the file again") from None

    kinds = schema.items()
    beside = options.beside.values()
    for name, kind in kinds:
        is_nested = kind.is_nested() and name not in beside
        if (is_nested or kind == polars.Binary) and name not in options.drop:
            problem = f"column {name!r} is of type {kind}, not of numbers, truth values or strings"
            mended = "give each of its numbers a column of its own"
            if kind == polars.Binary:
                mended = "decode it to strings"
            raise bad(path, 1, problem, f"pass {argument('drop', [name])}, or {mended}")
    return {name: k.is_numeric() or k == polars.Boolean for name, k in kinds}, parts()


def parquet_names(options: Options) -> list[str]:
    """The names of all columns."""
    return list(_scanned(options.path)[2])


def _scanned(path: str) -> tuple[Any, Any, Any, int]:
    """polars, a file as it scans it, the types of its columns, and the number of rows."""
    polars = optional_module("polars", "polars", f"{path}: Parquet is read through")
    with open(path, "rb"):  # raises the usual error if the file is missing
        pass
    try:
        table = polars.scan_parquet(path, glob=False)
        return polars, table, table.collect_schema(), table.select(polars.len()).collect().item()
    except polars.exceptions.PolarsError as error:
        problem = f"not a Parquet file ({str(error).splitlines()[0]})"
        raise bad(path, 1, problem, "was it written to its end?") from None


def _as_json(value: Any) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)


def _texts(column: Any) -> list[str]:
    """The values of a column as text; a missing value is empty."""
    if column.dtype.is_nested():
        return ["" if value is None else _as_json(value) for value in column.to_list()]
    return ["" if value is None or value != value else str(value) for value in column.to_list()]


def _block(options: Options, columns: Layout, part: Any, lines: np.ndarray) -> Block:
    numbers = np.zeros((part.height, len(columns.numbers)))  # NaN: missing
    for k, place in enumerate(columns.numbers):
        name = columns.names[place]
        numbers[:, k] = part[name].cast(float).fill_null(float("nan")).to_numpy()
        for row in np.flatnonzero(np.isinf(numbers[:, k]))[:1]:
            problem = f"{numbers[row, k]:g} in column {name!r} is not finite"
            remedy = "put a number in its place, or null if it is missing"
            raise bad(options.path, int(lines[row]), problem, remedy)

    return block_of(
        options, columns, lines, numbers, lambda place: _texts(part[columns.names[place]])
    )
