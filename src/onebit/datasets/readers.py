"""Files of labelled rows: read completely, or streamed in chunks in constant memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Unpack

import numpy as np

from onebit.core.settings import argument, choice_of, warn, whole
from onebit.datasets.blocks import (
    AnyPath,
    Block,
    Options,
    ReadOptions,
    bad,
    endings,
    has_label,
    in_chunks,
    joined,
)
from onebit.datasets.csv_files import csv_blocks
from onebit.datasets.npz_files import npz_blocks
from onebit.datasets.parquet import parquet_blocks
from onebit.datasets.svmlight import svmlight_blocks
from onebit.datasets.tables import (
    Dataset,
    are_missing,
    dataset_of,
    fields_of,
    names_of,
    npz,
    table_of,
    whole_number,
)
from onebit.datasets.vowpal import vowpal_blocks
from onebit.learner.labels import LabelSet
from onebit.reading.dicts import FEWEST, MOST_DISTINCT

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
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a folder: give one of its files")
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
    texts. drop: columns to leave out. missing_label: "refuse" or "skip" rows without a label; a
    warning tells how many. several: the sign between labels, such as "," or "|", if a row may have
    several of them or none; then y is a matrix of which labels are right. features: how many
    columns names are hashed into (default 2**20); for svmlight, how many columns there are.
    zero_based: svmlight indices start at 0, not 1. delimiter: between the fields of a csv or tsv
    file; default: a comma or a tab. encoding ("utf-8"): of text without a byte order mark. format:
    "npz", "svmlight", "vw", "csv", "tsv" or "parquet". dtype: of the values; default float32, and
    float64 for a table of numbers.

    A table of numbers is an array with the same columns; with more than 4,096 columns, a sparse
    matrix. In any other table, a row is encoded like the same row as a dict: strings with white
    space are texts.

    A missing value in a column of names counts as a name; a missing number is NaN in an array,
    and absent in a table with names or texts. Labels of which nearly every row has another one are
    refused, unless they are declared.
    """
    given = _options(path, options)
    declared = None if labels is None else LabelSet(labels)
    if given.format == "npz":
        table = table_of(path, _labelled(given, fields_of(path)))
        if declared is not None:
            return _relabelled(table, declared, given.path)
        _check_labels(given, table.labels, len(table.y))
        return table
    block = joined(list(_blocks(given)))
    if declared is None and given.several:
        declared = LabelSet(_all_labels(given, block))
    if declared is not None:
        y = _truth(given, block, declared)
        return dataset_of(path, block.X, y, declared.names, block.columns)
    found, y = np.unique(block.y, return_inverse=True)
    names, places = np.unique(names_of(found.tolist()), return_inverse=True)  # 9 before 10
    _check_labels(given, names.tolist(), len(y))
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
        chunks = in_chunks(_labelled_blocks(given, npz_blocks(given.path, rows)), rows)
    else:
        with open(path, "rb"):  # raise now if the file is missing
            pass
        chunks = in_chunks(_blocks(given), rows)
    return (
        dataset_of(path, chunk.X, _truth(given, chunk, declared), declared.names, chunk.columns)
        for chunk in chunks
    )


def _options(path: AnyPath, options: ReadOptions) -> Options:
    checked = Options(path, **options)
    checked.format = format_of(path, options.get("format"))
    if checked.several and checked.format == "npz":
        raise ValueError(
            f"{checked.path}: leave out {argument('several')}; in an npz file, y is a matrix with "
            "a column per label where several may be right"
        )
    return checked


def _blocks(options: Options) -> Iterator[Block]:
    """The blocks of a file; an error if there are none."""
    rows = 0
    for block in _READERS[options.format](options):
        rows += len(block.y)
        yield block
    if not rows and not options.unlabelled:
        problem = "there are no rows in this file"
        raise bad(options.path, 1, problem, "was it written to its end?")
    _tell_unlabelled(options, rows)


def _tell_unlabelled(options: Options, rows: int) -> None:
    """Warn of the rows that were left out. rows: those that were not."""
    skipped = options.unlabelled
    if not rows:
        raise ValueError(f"{options.path}: none of the {skipped:,} rows has a label")
    if skipped:
        have = "rows has no label and was" if skipped == 1 else "rows have no label and were"
        warn(f"{options.path}: {skipped:,} of {rows + skipped:,} {have} left out")


def _labelled(options: Options, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of an npz file without the rows that have no label."""
    y, rows = fields.get("y"), fields["X"].shape[0]
    if y is None or y.shape != (rows,) or not are_missing(y).any():
        return fields
    kept = _have_labels(options, y, np.arange(rows) + 1)
    _tell_unlabelled(options, int(kept.sum()))
    return {**fields, "X": fields["X"][kept], "y": y[kept]}


def _labelled_blocks(options: Options, blocks: Iterator[Block]) -> Iterator[Block]:
    """The blocks of an npz file without the rows that have no label."""
    rows = 0
    for block in blocks:
        if block.y.ndim == 2:  # a matrix may have no right label in a row
            rows += len(block.y)
            yield block
            continue
        kept = _have_labels(options, block.y, block.lines)
        rows += int(kept.sum())
        if kept.all():
            yield block
        elif kept.any():
            yield Block(block.X[kept], block.y[kept], block.lines[kept])
    _tell_unlabelled(options, rows)


def _have_labels(options: Options, y: np.ndarray, lines: np.ndarray) -> np.ndarray:
    missing = are_missing(y)
    for line in lines[missing].tolist():
        has_label(options, line, "")
    return ~missing


def _check_labels(options: Options, labels: Sequence[Any], rows: int) -> None:
    """Refuse labels of which nearly every row has another one, as a column of dates has."""
    if rows < FEWEST or len(labels) <= MOST_DISTINCT * rows:
        return
    found = f"{len(labels):,} different labels in {rows:,} rows, such as {labels[0]!r}"
    problem = f"{options.path}: there are {found}; nothing can be learned of a label that never"
    raise ValueError(f"{problem} comes again. Name the column of labels with {argument('label')}")


def _relabelled(table: Dataset, declared: LabelSet, path: str) -> Dataset:
    """A table with the declared labels instead of the labels found."""
    if table.y.ndim == 2:
        columns = _columns(table.labels, declared, path)
        return table._replace(y=table.y[:, columns], labels=declared.names)
    lines = np.array([np.argmax(table.y == place) + 1 for place in range(len(table.labels))])
    places = _places(Block(table.X, np.asarray(table.labels), lines), declared, path)
    return table._replace(y=places[table.y], labels=declared.names)


def _several(options: Options, block: Block) -> list[list[str]]:
    """The labels of each row that has several of them, or none."""
    written = (labels.split(options.several) for labels in block.y.tolist())
    return [[label.strip() for label in labels if label.strip()] for labels in written]


def _all_labels(options: Options, block: Block) -> list[Any]:
    """The labels that are in the rows, sorted."""
    found = {label for labels in _several(options, block) for label in labels}
    if len(found) < 2:
        named = f"there is only the label {next(iter(found))!r}" if found else "no row has a label"
        problem = f"{named}, with {options.several!r} between labels"
        raise bad(options.path, 1, problem, f"is {argument('several')} the right sign?")
    return sorted(names_of(list(found)))


def _truth(options: Options, block: Block, declared: LabelSet) -> np.ndarray:
    """The labels of a block as places; where several may be right, a matrix of which are."""
    if not options.several:
        return _places(block, declared, options.path)
    labels = _several(options, block)
    rows = np.repeat(np.arange(len(labels)), [len(found) for found in labels])
    named = np.array([label for found in labels for label in found], str)
    rights = np.zeros((len(labels), len(declared)), np.uint8)
    each = Block(block.X, named, block.lines[rows])
    rights[rows, _places(each, declared, options.path)] = 1
    return rights


def _columns(names: Sequence[Any], declared: LabelSet, path: str) -> list[int]:
    """The columns of the declared labels in a matrix of which labels are right."""
    column = {str(name): i for i, name in enumerate(names)}
    if column.keys() != set(map(str, declared.names)):
        raise ValueError(
            f"{path}: y has columns for {', '.join(list(column)[:8])}, and the declared labels are "
            f"{', '.join(map(str, declared.names[:8]))}; a matrix needs a column for each label"
        )
    return [column[str(name)] for name in declared.names]


def _places(block: Block, declared: LabelSet, path: str) -> np.ndarray:
    """The labels of a block, as places among the declared ones; or a matrix in their order."""
    if block.y.ndim == 2:
        names = range(block.y.shape[1]) if block.classes is None else block.classes
        return block.y[:, _columns(names, declared, path)]
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
