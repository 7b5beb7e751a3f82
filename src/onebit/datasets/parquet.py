"""Parquet files, read through polars if it is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onebit.datasets.blocks import Block, Options, bad
from onebit.datasets.columns import NO_LABEL, Layout, block_of, layout, words_of

_ROWS = 50_000  # of a block


def parquet_blocks(options: Options) -> Iterator[Block]:
    """The rows of a file; the number of a row, from 1, is reported as its line."""
    polars = _polars(options.path)
    with open(options.path, "rb"):  # raises the usual error if the file is missing
        pass
    try:
        table = polars.scan_parquet(options.path, glob=False)
        schema = table.collect_schema()
        rows = table.select(polars.len()).collect().item()
    except polars.exceptions.PolarsError as error:
        what = f"not a Parquet file ({str(error).splitlines()[0]})"
        raise bad(options.path, 1, what, "was it written to its end?") from None
    numbers = [dtype.is_numeric() or dtype == polars.Boolean for dtype in schema.values()]
    names = list(schema)
    columns = layout(options, 1, names, numbers)
    for start in range(0, rows, _ROWS):
        try:
            part = table.slice(start, _ROWS).collect()
        except polars.exceptions.PolarsError as error:
            what = f"damaged here or after it ({str(error).splitlines()[0]})"
            raise bad(options.path, start + 1, what, "fetch or make the file again") from None
        yield _block(options, names, columns, part, start + 1)


def _polars(path: str) -> Any:
    try:
        import polars
    except ImportError:
        raise ValueError(
            f"{path}: Parquet is read through polars, which is not installed; "
            "pip install 'onebit[lab]', or pip install polars"
        ) from None
    return polars


def _block(options: Options, names: list[str], columns: Layout, part: Any, first: int) -> Block:
    lines = np.arange(first, first + part.height)
    numbers = np.zeros((part.height, len(columns.numbers)))
    for k, place in enumerate(columns.numbers):
        found = part[names[place]].cast(float).fill_null(0.0).to_numpy()
        numbers[:, k] = np.where(np.isnan(found), 0.0, found)  # missing
        endless = ~np.isfinite(numbers[:, k])
        if endless.any():
            what = f"{numbers[np.argmax(endless), k]:g} in column {names[place]!r} is not finite"
            remedy = "put a number in its place, or null if it is missing"
            raise bad(options.path, int(lines[np.argmax(endless)]), what, remedy)
    labels = np.array([_text(label).strip() for label in part[names[columns.label]].to_list()])
    for line in lines[labels == ""][:1]:
        raise bad(options.path, int(line), *NO_LABEL)
    return block_of(numbers, _named(options, names, columns, part), labels, lines, options)


def _text(value: Any) -> str:
    """A value as text; empty if it is missing."""
    return "" if value is None or value != value else str(value)


def _named(options: Options, names: list[str], columns: Layout, part: Any) -> Any:
    """The hashed columns, as one dict per row; None if there are none."""
    if not columns.categories and columns.text is None:
        return None
    found: list[dict[str, float]] = [{} for _ in range(part.height)]
    for place in columns.categories:
        for row, value in zip(found, part[names[place]].to_list(), strict=True):
            row[f"{names[place]}={_text(value)}"] = 1.0
    if columns.text is not None:
        for row, text in zip(found, part[names[columns.text]].to_list(), strict=True):
            row.update(words_of(_text(text), options.ngrams))
    return found
