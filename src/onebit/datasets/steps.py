"""Preparation of rows by named steps: "log_counts", "tfidf", "unit_norm", "hash:4096", ...

A step is a name, so that a file or a command line can say it. Every step looks at a row, and at
most at the rows before it: whole, in chunks and row by row give the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from onebit._jit import entry
from onebit.datasets.blocks import csr
from onebit.features import HASHED, encode, encode_rows
from onebit.settings import choice_of, whole


class Steps:
    """Steps one after the other; what they have seen of earlier rows is kept.

        steps = Steps(["tfidf", "unit_norm"])
        decision = learner.decide(steps(x))

    Steps:

    - unit_norm: rows of length 1; an empty row stays empty.
    - binary: 1 for every value that is not 0.
    - log_counts: log(1 + count); a negative count, as signed hashing makes it, keeps its sign.
    - tfidf: value times log((1 + rows) / (1 + rows that have the feature)) + 1, where the rows are
      those up to and with this one, in the order they come.
    - constant: a feature of value 1 as column 0; all others move up by one.
    - hash:COLUMNS: features are hashed into so many columns, with a sign; those that meet add up.

    features: how many columns dict contexts are hashed into. dtype: of the values.
    """

    def __init__(
        self, names: Sequence[str], *, features: int | None = None, dtype: Any = np.float32
    ) -> None:
        if isinstance(names, str):
            raise TypeError(f"steps are a list of names: [{names!r}]")
        self.names = list(names)
        self._steps = [_step(name) for name in self.names]
        self._features = (
            None if features is None else whole("features", features, least=1, most=2**31 - 1)
        )
        self._dtype = np.dtype(choice_of("dtype", np.dtype(dtype).name, ("float32", "float64")))

    @property
    def order_matters(self) -> bool:
        """Whether a row comes out differently after other rows."""
        return any(isinstance(step, _TfIdf) for step in self._steps)

    def __call__(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """One context of any form, as a pair (indices, values)."""
        indices, values = encode(x, self._dtype, self._features)
        for step in self._steps:
            indptr = np.array([0, len(indices)])
            indices, values, _ = step(indices, values, indptr)
        return indices.view(np.int32), values

    def rows(self, X: Any) -> Any:
        """Many contexts: an array gives an array, everything else a CSR matrix."""
        given = encode_rows(X, self._dtype, self._features)
        indices, values, indptr = given.indices.copy(), given.values.copy(), given.indptr
        columns = X.shape[1] if hasattr(X, "shape") else self._columns_of(X, given.width)
        for step in self._steps:
            indices, values, indptr = step(indices, values, indptr)
            columns = step.columns(columns)
        made = csr(values, indices.view(np.int32), indptr, columns)
        return made.toarray() if isinstance(X, np.ndarray) else made

    def _columns_of(self, X: Sequence[Any], width: int) -> int:
        """The columns of a list of contexts: dicts have all that names are hashed into."""
        named = any(isinstance(x, dict) for x in X)
        return max(width, self._features or (HASHED if named else 0))


def prepare(data: Any, steps: Sequence[str] | Steps) -> Any:
    """Data with steps applied to every row in turn: prepare(data, ["log_counts", "unit_norm"]).

    data: a Dataset, an array, a sparse matrix or a list of contexts; or an iterator of chunks, each
    a Dataset or a pair (X, y), as `stream` gives them. The same kind comes back. steps: names as in
    `Steps`, or a Steps, which then goes on from the rows it has seen; with none, data come back.
    """
    ready = steps if isinstance(steps, Steps) else Steps(steps)
    if not ready.names:
        return data
    if isinstance(data, Iterator):
        return (_chunk(chunk, ready) for chunk in data)
    return _dataset(data, ready) if hasattr(data, "labels") else ready.rows(data)


def _chunk(chunk: Any, steps: Steps) -> Any:
    if hasattr(chunk, "labels"):
        return _dataset(chunk, steps)
    if not isinstance(chunk, tuple) or len(chunk) != 2:
        raise TypeError(f"a chunk is a Dataset or a pair (X, y), not {type(chunk).__name__}")
    return steps.rows(chunk[0]), chunk[1]


def _dataset(data: Any, steps: Steps) -> Any:
    if hasattr(data, "comparator"):
        data = data._replace(comparator=None)  # it was of the rows as they were
    return data._replace(X=steps.rows(data.X), about=f"{data.about}; {', '.join(steps.names)}")


# The steps. Each owns the arrays it is given, and may change them in place.


class _Step:
    """A change of rows: (indices, values, indptr) in and out."""

    def columns(self, columns: int) -> int:
        """How many columns come out where so many go in."""
        return columns

    def __call__(self, indices: Any, values: Any, indptr: Any) -> tuple[Any, Any, Any]:
        raise NotImplementedError


class _Each(_Step):
    """A step that changes values in their places, each row by itself."""

    def __init__(self, kernel: Callable[..., None]) -> None:
        self._kernel = kernel

    def __call__(self, indices: Any, values: Any, indptr: Any) -> tuple[Any, Any, Any]:
        self._kernel(values, indptr)
        return indices, values, indptr


@entry
def _unit_norm(values, indptr):
    for row in range(len(indptr) - 1):
        total = 0.0
        for i in range(indptr[row], indptr[row + 1]):
            total += np.float64(values[i]) * np.float64(values[i])
        length = math.sqrt(total)
        for i in range(indptr[row], indptr[row + 1]):
            values[i] = np.float64(values[i]) / length


@entry
def _binary(values, indptr):
    for i in range(len(values)):
        values[i] = 1.0


@entry
def _log_counts(values, indptr):
    for i in range(len(values)):
        values[i] = math.copysign(math.log1p(abs(np.float64(values[i]))), values[i])


class _TfIdf(_Step):
    def __init__(self) -> None:
        self._rows = 0
        self._rows_with = np.zeros(0, np.int64)  # [feature]

    def __call__(self, indices: Any, values: Any, indptr: Any) -> tuple[Any, Any, Any]:
        width = int(indices.max()) + 1 if len(indices) else 0
        if width > len(self._rows_with):
            more = max(width, 2 * len(self._rows_with)) - len(self._rows_with)
            self._rows_with = np.concatenate([self._rows_with, np.zeros(more, np.int64)])
        _tfidf(indices, values, indptr, self._rows_with, self._rows)
        self._rows += len(indptr) - 1
        return indices, values, indptr


@entry
def _tfidf(indices, values, indptr, rows_with, rows):
    for row in range(len(indptr) - 1):
        rows += 1
        for i in range(indptr[row], indptr[row + 1]):
            rows_with[indices[i]] += 1
            rarity = math.log((1.0 + rows) / (1.0 + rows_with[indices[i]])) + 1.0
            values[i] = np.float64(values[i]) * rarity


class _Constant(_Step):
    """Column 0, because only there it stands still when later rows are wider."""

    def columns(self, columns: int) -> int:
        return columns + 1

    def __call__(self, indices: Any, values: Any, indptr: Any) -> tuple[Any, Any, Any]:
        starts = indptr[:-1]
        indices = np.insert(indices + np.uint32(1), starts, np.uint32(0))
        return indices, np.insert(values, starts, 1), indptr + np.arange(len(indptr))


class _Hash(_Step):
    def __init__(self, columns: int) -> None:
        self._columns = columns

    def columns(self, columns: int) -> int:
        return self._columns

    def __call__(self, indices: Any, values: Any, indptr: Any) -> tuple[Any, Any, Any]:
        hashes = _murmur3(indices)
        parts = (np.where(hashes < 0, -values, values), np.abs(hashes) % self._columns, indptr)
        folded: Any = sparse.csr_matrix(parts, shape=(len(indptr) - 1, self._columns))
        folded.sum_duplicates()
        folded.eliminate_zeros()
        return folded.indices.astype(np.uint32), folded.data, folded.indptr.astype(np.int64)


def _murmur3(numbers: np.ndarray) -> np.ndarray:
    """MurmurHash3 (32 bits, seed 0) of the four bytes of each number, signed."""
    k = numbers.astype(np.uint32) * np.uint32(0xCC9E2D51)
    h = (k << np.uint32(15) | k >> np.uint32(17)) * np.uint32(0x1B873593)
    h = (h << np.uint32(13) | h >> np.uint32(19)) * np.uint32(5) + np.uint32(0xE6546B64)
    h ^= np.uint32(4)  # bytes
    h = (h ^ h >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    h = (h ^ h >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return (h ^ h >> np.uint32(16)).view(np.int32).astype(np.int64)


_PLAIN: dict[str, Callable[[], _Step]] = {
    "unit_norm": lambda: _Each(_unit_norm),
    "binary": lambda: _Each(_binary),
    "log_counts": lambda: _Each(_log_counts),
    "tfidf": _TfIdf,
    "constant": _Constant,
}


def _step(name: str) -> _Step:
    kind, colon, number = str(name).partition(":")
    if kind == "hash":
        if not number.isdecimal():
            raise ValueError(f"step {name!r} must say how many columns there are, as in hash:4096")
        return _Hash(whole("the columns of hash:", int(number), least=1, most=2**31 - 1))
    if kind not in _PLAIN or colon:
        raise ValueError(f"no step {name!r}; there are {', '.join(_PLAIN)} and hash:COLUMNS")
    return _PLAIN[kind]()
