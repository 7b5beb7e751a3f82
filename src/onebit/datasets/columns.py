"""Rows from the columns of a table: a column per number, then hashed columns for names and words.

Names are hashed like a learner's dict contexts, as by scikit-learn's FeatureHasher: a category is
"column=value", a word is itself, and consecutive words are joined by a blank.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from onebit.contexts import HASHED, murmur3
from onebit.datasets.blocks import Block, Options, bad, csr
from onebit.settings import argument

# The error for a row without a label: what is wrong, and what to do.
NO_LABEL = ("the row has no label", "give it one, or leave the row out")

_hash = lru_cache(2**18)(murmur3)
_WORDS = re.compile(r"\w\w+")  # as scikit-learn's vectorizers


class Layout(NamedTuple):
    """The roles of a table's columns, by their places."""

    label: int
    numbers: list[int]
    categories: list[int]
    text: int | None


def layout(options: Options, line: int, names: Sequence[str], is_number: Sequence[bool]) -> Layout:
    """The layout of a table with these columns."""
    path, known = options.path, list(names)
    if len(set(known)) < len(known):
        twice = next(name for name in known if known.count(name) > 1)
        raise bad(path, line, f"column {twice!r} appears twice", "give it another name")
    for wanted, setting in [
        (options.label, "label"),
        *([(options.text, "text")] if options.text is not None else []),
        *((name, "categories") for name in options.categories),
    ]:
        if wanted not in known:
            has = ", ".join(known[:12]) + (", ..." if len(known) > 12 else "")
            what = f"there is no column {wanted!r}, but {has}"
            raise bad(path, line, what, f"name the right one with {argument(setting)}")
    special = (options.label, options.text)
    rest = [i for i, name in enumerate(known) if name not in special]
    numbers = [i for i in rest if is_number[i] and known[i] not in options.categories]
    text = None if options.text is None else known.index(options.text)
    named = [i for i in rest if i not in numbers]
    return Layout(known.index(options.label), numbers, named, text)


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
    with np.errstate(over="ignore"):
        values = sums.astype(options.dtype)
    row_of, columns = np.divmod(place[is_new], width)
    endless = np.flatnonzero(~np.isfinite(values))
    if len(endless):
        what = f"{abs(sums[endless[0]]):g} is too large for {options.dtype}"
        raise bad(
            options.path, lines[int(row_of[endless[0]])], what, "mend it, or scale the values"
        )
    kept = values != 0
    indptr = np.searchsorted(row_of[kept], np.arange(len(rows) + 1))
    return csr(values[kept], columns[kept].astype(np.int32), indptr.astype(np.int64), width)


def block_of(
    numbers: np.ndarray,
    names: list[dict[str, float]] | None,
    labels: np.ndarray,
    lines: np.ndarray,
    options: Options,
) -> Block:
    """A block of rows with finite numbers, and names to hash if there are columns of names."""
    with np.errstate(over="ignore"):
        values = numbers.astype(options.dtype)
    wrong = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if len(wrong):
        what = f"a number is too large for {options.dtype}"
        raise bad(options.path, int(lines[wrong[0]]), what, "scale it")
    X: Any = sparse.csr_matrix(values)
    if names is not None:
        X = sparse.csr_matrix(sparse.hstack([X, hashed(names, lines.tolist(), options)]))
    indptr = X.indptr.astype(np.int64)
    return Block(csr(X.data, X.indices.astype(np.int32), indptr, X.shape[1]), labels, lines)
