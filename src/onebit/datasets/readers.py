"""Files of labelled rows: read completely, or streamed in chunks in constant memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Unpack

import numpy as np

from onebit.datasets.blocks import (
    AnyPath,
    Block,
    Options,
    ReadOptions,
    bad,
    endings,
    in_chunks,
    joined,
)
from onebit.datasets.csv_files import csv_blocks
from onebit.datasets.npz_files import npz_blocks
from onebit.datasets.parquet import parquet_blocks
from onebit.datasets.svmlight import svmlight_blocks
from onebit.datasets.tables import Dataset, dataset_of, names_of, npz, whole_number
from onebit.datasets.vowpal import vowpal_blocks
from onebit.labels import LabelSet
from onebit.settings import argument, choice_of, whole

_READERS: dict[str, Callable[[Options], Iterator[Block]]] = {
    "svmlight": svmlight_blocks,
    "vw": vowpal_blocks,
    "csv": csv_blocks,
    "tsv": csv_blocks,
    "parquet": parquet_blocks,
}

_FORMATS = {
    ".npz": "npz",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".vw": "vw",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}


def format_of(path: AnyPath, format: str | None = None) -> str:
    """The format of a file: the given one, or that of its ending."""
    known = tuple(dict.fromkeys(_FORMATS.values()))
    if format is not None:
        return choice_of("format", format, known)
    if can_be_read(path):
        return _FORMATS[endings(path)[0]]
    raise ValueError(
        f"{path}: no format has the ending {''.join(endings(path))!r}; rename the file to "
        f"one of {', '.join(_FORMATS)} (text also with .gz or .bz2), or pass "
        f"{argument('format', 'csv')}, or another of {', '.join(known)}"
    )


def can_be_read(path: AnyPath) -> bool:
    """Whether the ending of a file is that of a known format."""
    ending, packed = endings(path)
    return ending in _FORMATS and not (packed and _FORMATS[ending] in ("npz", "parquet"))


def reader_of(path: AnyPath) -> Callable[..., Any]:
    """The function that reads files of this format."""
    kind = format_of(path)
    return npz if kind == "npz" else _READERS[kind]


def read(
    path: AnyPath,
    *,
    labels: int | Sequence[str] | Sequence[int] | None = None,
    **options: Unpack[ReadOptions],
) -> Dataset:
    """All labelled rows of a file.

    The format follows from the ending, unless `format` names it: .npz; .svm, .svmlight or .libsvm;
    .vw; .csv or .tsv; .parquet. Text may be compressed as .gz or .bz2.

    labels: the possible labels; default: the labels found. label ("label"): the column of labels in
    a table. text: a column whose strings are texts even if they are single words, hashed by
    sequences of up to `ngrams` (2) words. categories: columns of names that look like numbers or
    texts. features: how many columns names are hashed into (default 2**20); for svmlight, how many
    columns there are. zero_based: svmlight indices start at 0, not 1. delimiter: between the fields
    of a csv or tsv file; default: a comma or a tab. encoding ("utf-8"): of text. format: "npz",
    "svmlight", "vw", "csv", "tsv" or "parquet". dtype: of the values; default float32, and float64
    for a table of numbers.

    A table of numbers is an array with the same columns; with more than 4,096 columns, a sparse
    matrix. In any other table, a row is encoded like the same row as a dict: strings with white
    space are texts.

    A missing value in a column of names counts as a name; a missing number is NaN in an array,
    and absent in a table with names or texts. A row without a label is refused.
    """
    given = _options(path, options)
    declared = None if labels is None else LabelSet(labels)
    if given.format == "npz":
        table = npz(path)
        return table if declared is None else _relabelled(table, declared, given.path)
    block = joined(list(_blocks(given)))
    if declared is not None:
        places = _places(block, declared, given.path)
        return dataset_of(path, block.X, places, declared.names, block.columns)
    found, y = np.unique(block.y, return_inverse=True)
    names, places = np.unique(names_of(found.tolist()), return_inverse=True)  # 9 before 10
    return dataset_of(path, block.X, places[y], names.tolist(), block.columns)


def stream(
    path: AnyPath,
    *,
    labels: int | Sequence[str] | Sequence[int],
    rows: int = 100_000,
    **options: Unpack[ReadOptions],
) -> Iterator[Dataset]:
    """The same rows as `read`, in chunks of `rows`: `simulate(learner, stream(...))`.

    labels: the possible labels, usually `learner.labels`; others are refused. options: as in
    `read`. An error is raised when its chunk is read, after earlier chunks were yielded.
    """
    given = _options(path, options)
    declared, rows = LabelSet(labels), whole("rows", rows, least=1, most=10**9)
    if given.format == "npz":
        chunks = npz_blocks(given.path, rows)
    else:
        with open(path, "rb"):  # raise now if the file is missing
            pass
        chunks = in_chunks(_blocks(given), rows)
    return (
        dataset_of(
            path, chunk.X, _places(chunk, declared, given.path), declared.names, chunk.columns
        )
        for chunk in chunks
    )


def _options(path: AnyPath, options: ReadOptions) -> Options:
    checked = Options(path, **options)
    checked.format = format_of(path, options.get("format"))
    return checked


def _blocks(options: Options) -> Iterator[Block]:
    """The blocks of a file; an error if there are none."""
    empty = True
    for block in _READERS[options.format](options):
        empty = False
        yield block
    if empty:
        problem = "there are no rows in this file"
        raise bad(options.path, 1, problem, "was it written to its end?")


def _relabelled(table: Dataset, declared: LabelSet, path: str) -> Dataset:
    """A table with the declared labels instead of the labels found."""
    lines = np.array([np.argmax(table.y == place) + 1 for place in range(len(table.labels))])
    places = _places(Block(table.X, np.asarray(table.labels), lines), declared, path)
    return table._replace(y=places[table.y], labels=declared.names)


def _places(block: Block, declared: LabelSet, path: str) -> np.ndarray:
    """The labels of a block, as places among the declared ones."""
    found, first, y = np.unique(block.y, return_index=True, return_inverse=True)
    are_numbers = isinstance(declared.names[0], int)
    places = np.empty(len(found), np.int64)
    lines = block.lines[first]
    for i in np.argsort(lines, kind="stable"):  # report the first wrong line
        label = found[i].item()
        try:
            places[i] = declared.place(whole_number(label) if are_numbers else str(label))
        except ValueError:
            names = ", ".join(map(str, declared.names[:8])) + (", ..." if len(declared) > 8 else "")
            problem = f"label {label!r} was never declared (there are {len(declared)}: {names})"
            remedy = "name it in labels=, of the learner too, or mend the row"
            raise bad(path, int(lines[i]), problem, remedy) from None
    return places[y]
