"""Rows from the columns of a table: a column per number, then hashed columns for names and words.

Names are hashed like a learner's dict contexts, as by scikit-learn's FeatureHasher: a category is
"column=value", a word is itself, and consecutive words are joined by a blank.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from onebit.contexts import HASHED, murmur3
from onebit.datasets.blocks import Block, Options, bad, cast, csr
from onebit.settings import argument

_hash = lru_cache(2**18)(murmur3)
_WORDS = re.compile(r"\w\w+")  # as scikit-learn's vectorizers


class Layout(NamedTuple):
    """The names of a table's columns, and the places of those with each role."""

    names: list[str]
    label: int
    numbers: list[int]
    categories: list[int]
    text: int | None


def layout(options: Options, line: int, names: list[str], is_number: Sequence[bool]) -> Layout:
    """The layout of a table with these columns. line: of the header."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise bad(options.path, line, f"column {twice!r} appears twice", "give it another name")
    special = {"label": options.label} | ({} if options.text is None else {"text": options.text})
    named = [*special.items(), *(("categories", name) for name in options.categories)]
    for setting, wanted in named:
        if wanted not in names:
            has = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
            problem = f"there is no column {wanted!r}, but {has}"
            raise bad(options.path, line, problem, f"name the right one with {argument(setting)}")
    numbers: list[int] = []
    categories: list[int] = []
    for place, name in enumerate(names):
        if name not in special.values():
            as_number = is_number[place] and name not in options.categories
            (numbers if as_number else categories).append(place)
    text = None if options.text is None else names.index(options.text)
    return Layout(names, names.index(options.label), numbers, categories, text)


def words_of(text: str, ngrams: int) -> dict[str, float]:
    """Counts of words, and of sequences of up to `ngrams` words."""
    words = _WORDS.findall(text.lower())
    counts: dict[str, float] = {}
    for length in range(1, ngrams + 1):
        for i in range(len(words) - length + 1):
            name = " ".join(words[i : i + length])
            counts[name] = counts.get(name, 0.0) + 1.0
    return counts


def hashed(rows: list[dict[str, float]], lines: Sequence[int], options: Options) -> Any:
    """Dicts as rows of a matrix; each row equals what `contexts.encode` gives for its dict."""
    width = options.features or HASHED
    hashes = np.array([_hash(name) for row in rows for name in row], np.int64)
    numbers = np.array([number for row in rows for number in row.values()], np.float64)
    place = np.repeat(np.arange(len(rows)) * width, [len(row) for row in rows])
    place += np.abs(hashes) % width
    order = np.argsort(place, kind="stable")
    place = place[order]
    is_new = np.diff(place, prepend=-1) > 0
    signed = np.where(hashes < 0, -numbers, numbers)[order]
    sums = np.bincount(np.cumsum(is_new) - 1, signed, 0)  # adds in order, as a dict would
    row_of, columns = np.divmod(place[is_new], width)
    values = cast(sums, options, lambda i: lines[int(row_of[i])])
    kept = values != 0
    indptr = np.searchsorted(row_of[kept], np.arange(len(rows) + 1))
    return csr(values[kept], columns[kept].astype(np.int32), indptr.astype(np.int64), width)


def block_of(
    options: Options,
    columns: Layout,
    lines: np.ndarray,
    numbers: np.ndarray,
    texts: Callable[[int], Sequence[str]],
) -> Block:
    """A block of rows.

    numbers: the columns of numbers, finite. texts: the values of any other column by its place, as
    text; a missing value is empty.
    """
    labels = np.array([label.strip() for label in texts(columns.label)])
    for line in lines[labels == ""][:1]:
        remedy = "give it one, or leave the row out"
        raise bad(options.path, int(line), "the row has no label", remedy)
    width = len(columns.numbers)
    values = cast(numbers.ravel(), options, lambda i: int(lines[i // width]))
    X: Any = sparse.csr_matrix(values.reshape(numbers.shape))
    if columns.categories or columns.text is not None:
        rows: list[dict[str, float]] = [{} for _ in lines]
        for place in columns.categories:
            for row, value in zip(rows, texts(place), strict=True):
                row[f"{columns.names[place]}={value}"] = 1.0
        if columns.text is not None:
            for row, text in zip(rows, texts(columns.text), strict=True):
                row.update(words_of(text, options.ngrams))
        X = sparse.csr_matrix(sparse.hstack([X, hashed(rows, lines.tolist(), options)]))
    indptr = X.indptr.astype(np.int64)
    return Block(csr(X.data, X.indices.astype(np.int32), indptr, X.shape[1]), labels, lines)
