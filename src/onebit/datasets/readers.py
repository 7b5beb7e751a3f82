"""Files of labelled rows: read as a whole, or streamed in chunks that take constant memory."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onebit.datasets.archive import npz_blocks
from onebit.datasets.blocks import UTF8, Block, Options, bad, endings, in_chunks, joined
from onebit.datasets.delimited import csv_blocks, tsv_blocks
from onebit.datasets.parquet import parquet_blocks
from onebit.datasets.svmlight import svmlight_blocks
from onebit.datasets.tables import Dataset, names_of, npz, whole_number
from onebit.datasets.vowpal import vowpal_blocks
from onebit.labels import LabelSet
from onebit.settings import argument, choice_of, whole

_READERS: dict[str, Callable[[Options], Iterator[Block]]] = {
    "svmlight": svmlight_blocks,
    "vw": vowpal_blocks,
    "csv": csv_blocks,
    "tsv": tsv_blocks,
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


def format_of(path: str | os.PathLike[str], format: str | None = None) -> str:
    """The format of a file by its ending, unless it is named."""
    known = tuple(dict.fromkeys(_FORMATS.values()))
    if format is not None:
        return choice_of("format", format, known)
    ending, packed = endings(path)
    if ending in _FORMATS and not (packed and _FORMATS[ending] in ("npz", "parquet")):
        return _FORMATS[ending]
    raise ValueError(
        f"{os.fspath(path)}: no format has the ending {ending + packed!r}; rename the file to "
        f"one of {', '.join(_FORMATS)} (text also with .gz or .bz2), or pass "
        f"{argument('format', 'csv')}, or another of {', '.join(known)}"
    )


def reader_of(path: str | os.PathLike[str]) -> Callable[..., Any]:
    """The function that reads files of this format."""
    kind = format_of(path)
    return npz if kind == "npz" else _READERS[kind]


def read(
    path: str | os.PathLike[str],
    *,
    labels: int | Sequence[str] | Sequence[int] | None = None,
    label: str = "label",
    text: str | None = None,
    ngrams: int = 1,
    categories: Sequence[str] = (),
    features: int | None = None,
    zero_based: bool = False,
    delimiter: str | None = None,
    encoding: str = UTF8,
    format: str | None = None,
    dtype: Any = np.float32,
) -> Dataset:
    """A whole file of labelled rows.

    The format follows from the ending, unless `format` names it: .npz; .svm, .svmlight or .libsvm;
    .vw; .csv or .tsv; .parquet. Text may be packed as .gz or .bz2.

    labels: those there may be; unless given, those found. label: the column of labels in a table.
    text: a column of free text, hashed by its words, and by up to `ngrams` words in a row.
    categories: columns of names although they look like numbers. features: how many columns names
    are hashed into (2**20 unless given); in svmlight, how many there are. zero_based: svmlight
    indices count from 0, not from 1. delimiter: between the fields of a csv or tsv file, "," or a
    tab unless given. encoding: of text. dtype: of the values.

    A missing value in a column of names is a name of its own; a missing number is 0, absent. A row
    without a label is refused.
    """
    given = _options(
        path, label, text, ngrams, categories, features, zero_based, delimiter, encoding, dtype
    )
    declared = None if labels is None else LabelSet(labels)
    if format_of(path, format) == "npz":
        table = npz(path)
        return table if declared is None else _relabelled(table, declared, given.path)
    block = joined(list(_some(_READERS[format_of(path, format)](given), given.path)))
    if declared is None:
        found, y = np.unique(block.y, return_inverse=True)
        names, places = _found_names(found.tolist())
        return _dataset(given.path, block.X, places[y], names)
    return _dataset(given.path, block.X, _places(block, declared, given.path), declared.names)


def stream(
    path: str | os.PathLike[str],
    *,
    labels: int | Sequence[str] | Sequence[int],
    rows: int = 100_000,
    label: str = "label",
    text: str | None = None,
    ngrams: int = 1,
    categories: Sequence[str] = (),
    features: int | None = None,
    zero_based: bool = False,
    delimiter: str | None = None,
    encoding: str = UTF8,
    format: str | None = None,
    dtype: Any = np.float32,
) -> Iterator[Dataset]:
    """The same rows as `read`, so many at a time: `simulate(learner, stream(...))`.

    labels: those there may be, as a rule `learner.labels`; any other is refused when it comes. An
    error comes when its chunk is read: the rows of the chunks before have been handed out.
    """
    given = _options(
        path, label, text, ngrams, categories, features, zero_based, delimiter, encoding, dtype
    )
    declared, rows = LabelSet(labels), whole("rows", rows, least=1, most=10**9)
    kind = format_of(path, format)
    if kind == "npz":
        return _named(npz_blocks(given.path, rows), given, declared)
    with open(path, "rb"):  # a missing file is missed now
        pass
    return _named(in_chunks(_some(_READERS[kind](given), given.path), rows), given, declared)


def _options(
    path: Any,
    label: Any,
    text: Any,
    ngrams: Any,
    categories: Any,
    features: Any,
    zero_based: Any,
    delimiter: Any,
    encoding: Any,
    dtype: Any,
) -> Options:
    if isinstance(categories, str):
        raise TypeError(f"categories must be a list of columns: [{categories!r}]")
    width = None if features is None else whole("features", features, least=1, most=2**31 - 1)
    ngrams = whole("ngrams", ngrams, least=1, most=10)
    name = choice_of("dtype", np.dtype(dtype).name, ("float32", "float64"))
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise ValueError(f"delimiter must be one character that is no quote, not {delimiter!r}")
    return Options(
        os.fspath(path),
        label,
        text,
        ngrams,
        tuple(categories),
        width,
        bool(zero_based),
        np.dtype(name),
        delimiter,
        _encoding(encoding),
    )


def _encoding(name: str) -> str:
    """The encoding of this name, as Python calls it."""
    try:
        "".encode(name)
        return codecs.lookup(name).name
    except LookupError:
        raise ValueError(
            f"no encoding {name!r} of text is known; take utf-8, cp1252, latin-1, utf-16 or another"
        ) from None


def _some(blocks: Iterable[Block], path: str) -> Iterator[Block]:
    """The blocks, of which there must be at least one."""
    empty = True
    for block in blocks:
        empty = False
        yield block
    if empty:
        raise bad(path, 1, "there are no rows in this file", "was it written to its end?")


def _named(chunks: Iterable[Block], given: Options, declared: LabelSet) -> Iterator[Dataset]:
    for chunk in chunks:
        yield _dataset(given.path, chunk.X, _places(chunk, declared, given.path), declared.names)


def _relabelled(table: Dataset, declared: LabelSet, path: str) -> Dataset:
    """A table with the declared labels in the place of those found."""
    lines = np.array([np.argmax(table.y == place) + 1 for place in range(len(table.labels))])
    places = _places(Block(table.X, np.asarray(table.labels), lines), declared, path)
    return table._replace(y=places[table.y], labels=declared.names)


def _dataset(path: str, X: Any, y: np.ndarray, labels: list[Any]) -> Dataset:
    name = Path(path).name.partition(".")[0]
    about = f"{X.shape[0]:,} rows, {X.shape[1]:,} features, {len(labels)} labels"
    return Dataset(name, about, X, y, labels)


# Labels: numbers in svmlight, words or numbers in text.


def _found_names(found: list[Any]) -> tuple[list[Any], np.ndarray]:
    """The names of the labels found, ints if all are whole numbers, and the place of each."""
    names = names_of(found)
    ordered = sorted(set(names))
    place = {name: i for i, name in enumerate(ordered)}
    return ordered, np.array([place[name] for name in names], np.int64)


def _places(block: Block, declared: LabelSet, path: str) -> np.ndarray:
    found, first, y = np.unique(block.y, return_index=True, return_inverse=True)
    are_numbers = isinstance(declared.names[0], int)
    places = np.empty(len(found), np.int64)
    lines = block.lines[first]
    for i in np.argsort(lines, kind="stable"):  # the first line that is wrong is named
        label = found[i].item()
        try:
            places[i] = declared.place(whole_number(label) if are_numbers else str(label))
        except ValueError:
            there = f"there are {len(declared)}: {', '.join(map(str, declared.names[:8]))}"
            more = ", ..." if len(declared) > 8 else ""
            what = f"label {label!r} was never declared ({there}{more})"
            remedy = "name it in labels=, of the learner too, or mend the row"
            raise bad(path, int(lines[i]), what, remedy) from None
    return places[y]
