"""Preparation of rows by named steps: "log_counts", "tfidf", "unit_norm", "hash:4096", ...

A step has a name, for use in files and on command lines. A step uses only a row and the rows before
it, so all rows at once, chunks and single rows give the same bits. ("nystroem:300" must see 300
rows before it can map any.)
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from onebit.contexts import HASHED, Rows, encode, encode_rows
from onebit.core.jit import entry
from onebit.datasets.blocks import csr
from onebit.settings import choice_of, real, whole


class Steps:
    """A sequence of steps, with their state from earlier rows.

        steps = Steps(["tfidf", "unit_norm"])
        decision = learner.decide(steps(x))

    Steps:

    - unit_norm: rows of length 1; an empty row stays empty.
    - binary: 1 for every value that is not 0.
    - log_counts: log(1 + count); a negative count, as signed hashing makes it, keeps its sign.
    - tfidf: value times log((1 + rows) / (1 + rows that have the feature)) + 1, counted over the
      rows up to and including the current one.
    - constant: a feature of value 1 as column 0; all other columns move up by 1.
    - hash:COLUMNS: features are hashed with a sign into COLUMNS columns; collisions add up.
    - fourier:COLUMNS:gamma=1:seed=0: random Fourier features of the kernel
      exp(-gamma ||x - x'||^2): a linear learner on these columns approximates this kernel.
    - nystroem:COLUMNS:gamma=1: the same from the kernel's values at landmarks, the first rows.

    fourier and nystroem use scikit-learn. All rows must have as many columns as the first rows.

    features: how many columns contexts have; dicts are hashed into this many. dtype: of the values.
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
        """Whether the result for a row depends on earlier rows."""
        return any(step.order_matters for step in self._steps)

    def fit(self, X: Any) -> Steps:
        """Take nystroem's landmarks from the first of these rows, before any row is mapped.

        tfidf does not count these rows, because the same rows may come again.
        """
        fitted = [
            name for name, step in zip(self.names, self._steps, strict=True) if step.is_fitted
        ]
        if fitted:
            raise ValueError(f"{fitted[0]} is fitted already; make a new Steps to fit it anew")
        X = X.X if hasattr(X, "labels") else X
        X = X.tocsr() if hasattr(X, "tocsr") else X
        trial = copy.deepcopy(self)
        trial.rows(X[: max([step.landmarks for step in self._steps] + [1])])
        self._steps = [
            new if isinstance(new, _Map) else old
            for old, new in zip(self._steps, trial._steps, strict=True)
        ]
        return self

    def __call__(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """Apply the steps to a context of any form; returns a pair (indices, values)."""
        indices, values = encode(x, self._dtype, self._features)
        used = int(indices[-1]) + 1 if len(indices) else 0
        width = width_of([x], self._features, used)
        indices, values, _, _ = self._apply(indices, values, np.array([0, len(indices)]), width)
        return indices.view(np.int32), values

    def rows(self, X: Any) -> Any:
        """Apply the steps to many contexts: an array gives an array, other forms a CSR matrix."""
        given = encode_rows(X, self._dtype, self._features)
        width = width_of(X, self._features, given.width)
        indices, values, indptr, width = self._apply(
            given.indices.copy(), given.values.copy(), given.indptr, width
        )
        if not isinstance(X, np.ndarray):
            return csr(values, indices.view(np.int32), indptr, width.columns)
        made = np.zeros((len(indptr) - 1, width.columns), self._dtype)
        _fill(indices, values, indptr, made)
        return made

    def _apply(self, indices: Any, values: Any, indptr: Any, width: Width) -> Any:
        widths = [width]
        for step in self._steps:  # check all widths first: a refused call changes nothing
            widths.append(step.width(widths[-1], len(indptr) - 1))
        for step, given in zip(self._steps, widths, strict=False):
            indices, values, indptr = step(indices, values, indptr, given)
        return indices, values, indptr, widths[-1]


@entry
def _fill(indices, values, indptr, out):
    for row in range(len(indptr) - 1):
        for i in range(indptr[row], indptr[row + 1]):
            out[row, indices[i]] = values[i]


class Width(NamedTuple):
    """How many columns rows have."""

    columns: int
    is_known: bool  # if not, `columns` is the largest index in use plus 1


def width_of(X: Any, features: int | None, used: int) -> Width:
    """How wide rows are. features: the fixed width, if any; used: the largest index plus 1."""
    if features is not None:
        return Width(max(features, used), True)
    if hasattr(X, "shape"):
        return Width(X.shape[1], True)
    if isinstance(X, Rows):
        return Width(used, False)
    widths = [_columns_of(x) for x in X]
    return Width(max(used, *widths, 0), bool(widths) and min(widths) >= 0)


def _columns_of(x: Any) -> int:
    """The columns of a context; -1 for a pair, whose width is unknown."""
    if isinstance(x, tuple):
        return -1
    if isinstance(x, dict):
        return HASHED
    return (x.shape if hasattr(x, "shape") else np.shape(x))[-1]


def prepare(data: Any, steps: Sequence[str] | Steps) -> Any:
    """Data with steps applied to every row in turn: prepare(data, ["log_counts", "unit_norm"]).

    data: a Dataset, an array, a sparse matrix or a list of contexts; or an iterator of chunks, each
    a Dataset or a pair (X, y), as `stream` yields them. The result has the same form. steps: names
    as in `Steps`, or a Steps, which continues from its state. Without steps, data are unchanged.
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
        data = data._replace(comparator=None)  # it belongs to the unprepared rows
    return data._replace(X=steps.rows(data.X), about=f"{data.about}; {', '.join(steps.names)}")


# The steps. A step owns its argument arrays, and may change them in place.


_Arrays = tuple[Any, Any, Any]  # indices, values, indptr


class _RowStep:
    """A step: maps the arrays (indices, values, indptr) of rows to new arrays."""

    order_matters = False
    is_fitted = False
    landmarks = 0  # rows that a step must see before it can map any

    def width(self, width: Width, rows: int) -> Width:
        """The width of the result for this many rows; an error if the step cannot take them."""
        return width

    def __call__(self, indices: Any, values: Any, indptr: Any, width: Width) -> _Arrays:
        raise NotImplementedError


class _Each(_RowStep):
    """A step that changes values in place, each row independently."""

    def __init__(self, kernel: Callable[..., None]) -> None:
        self._kernel = kernel

    def __call__(self, indices: Any, values: Any, indptr: Any, width: Width) -> _Arrays:
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


class _TfIdf(_RowStep):
    order_matters = True

    def __init__(self) -> None:
        self._rows = 0
        self._rows_with = np.zeros(0, np.int64)  # [feature]

    def __call__(self, indices: Any, values: Any, indptr: Any, width: Width) -> _Arrays:
        used = int(indices.max()) + 1 if len(indices) else 0
        if used > len(self._rows_with):
            added = max(used, 2 * len(self._rows_with)) - len(self._rows_with)
            self._rows_with = np.concatenate([self._rows_with, np.zeros(added, np.int64)])
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


class _Constant(_RowStep):
    """Adds column 0; a last column would move when later rows are wider."""

    def width(self, width: Width, rows: int) -> Width:
        return width._replace(columns=width.columns + 1)

    def __call__(self, indices: Any, values: Any, indptr: Any, width: Width) -> _Arrays:
        starts = indptr[:-1]
        indices = np.insert(indices + np.uint32(1), starts, np.uint32(0))
        return indices, np.insert(values, starts, 1), indptr + np.arange(len(indptr))


class _Hash(_RowStep):
    def __init__(self, columns: int) -> None:
        self._columns = columns

    def width(self, width: Width, rows: int) -> Width:
        return Width(self._columns, True)

    def __call__(self, indices: Any, values: Any, indptr: Any, width: Width) -> _Arrays:
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


# Feature maps. scikit-learn draws or fits them. They are applied here, because with BLAS the bits
# of a row would depend on its batch.

_LARGEST = 2**28  # numbers in a map: 1 or 2 GiB
_BLOCK = 2**20  # numbers mapped at once


@entry
def _times(indices, values, indptr, matrix, out):
    """out += rows @ matrix, summed in the order of the columns for any batch."""
    for row in range(len(indptr) - 1):
        target = out[row]
        for i in range(indptr[row], indptr[row + 1]):
            value, source = values[i], matrix[indices[i]]
            for j in range(len(target)):
                target[j] += value * source[j]


class _Map(_RowStep):
    most = 2**20  # columns of the result

    def __init__(self, name: str, columns: int, gamma: float) -> None:
        self._name = name
        self._columns = whole(f"the columns of {name}", columns, least=1, most=self.most)
        self._gamma = real(f"gamma of {name}", gamma, above=0, most=1e6)
        self._taken = 0  # columns of the rows that the map was fitted to
        _scikit_learn(name)

    @property
    def is_fitted(self) -> bool:
        return self._taken > 0

    def width(self, width: Width, rows: int) -> Width:
        if rows and not self.is_fitted:
            self._check(width, rows)
        elif self.is_fitted and width.columns > self._taken:
            raise ValueError(
                f"{self._name} was made for rows of {self._taken} columns, and these have "
                f"{width.columns}; fix their number first (features=), or put hash:COLUMNS before"
            )
        return Width(self._columns, True)

    def _check(self, width: Width, rows: int) -> None:
        if not width.is_known:
            raise ValueError(
                f"{self._name} must know how many columns rows have, and pairs do not say; "
                "fix their number with Steps(..., features=), or put hash:COLUMNS before"
            )
        if not width.columns:
            raise ValueError(f"{self._name} cannot map rows that have no columns")
        if width.columns * self._columns > _LARGEST:
            raise ValueError(
                f"{self._name} of rows of {width.columns} columns is too large; "
                "put hash:COLUMNS before, or take fewer"
            )
        if rows < self.landmarks:
            raise ValueError(
                f"{self._name} takes its landmarks from the first {self.landmarks} rows, and here "
                f"are {rows}; begin with a larger chunk, or call fit(X) of Steps with rows you have"
            )

    def __call__(self, indices: Any, values: Any, indptr: Any, width: Width) -> _Arrays:
        rows = len(indptr) - 1
        if rows and not self.is_fitted:
            self._fit(csr(values, indices.view(np.int32), indptr, width.columns))
            self._taken = width.columns
        size, end, step = rows * self._columns, 0, max(1, _BLOCK // self._columns)
        made = np.empty(size, np.uint32), np.empty(size, values.dtype), np.zeros_like(indptr)
        for start in range(0, rows, step):
            ends = indptr[start : start + step + 1]
            part = slice(ends[0], ends[-1])
            block = self._mapped(indices[part], values[part], ends - ends[0])
            mapped = encode_rows(block, values.dtype, None)  # leaves out zeros
            begin, end = end, end + len(mapped.indices)
            made[0][begin:end], made[1][begin:end] = mapped.indices, mapped.values
            made[2][start + 1 : start + step + 1] = begin + mapped.indptr[1:]
        return made[0][:end], made[1][:end], made[2]

    def _fit(self, X: Any) -> None:
        raise NotImplementedError

    def _mapped(self, indices: Any, values: Any, indptr: Any) -> np.ndarray:
        raise NotImplementedError


class _Fourier(_Map):
    """cos(W x + b), at random W and b: inner products approach the kernel (Rahimi, Recht 2007)."""

    def __init__(self, name: str, columns: int, gamma: float = 1.0, seed: int = 0) -> None:
        super().__init__(name, columns, gamma)
        self._seed = whole(f"seed of {name}", seed, least=0, most=2**32 - 1)

    def _fit(self, X: Any) -> None:
        make = _scikit_learn(self._name).RBFSampler
        made = make(gamma=self._gamma, n_components=self._columns, random_state=self._seed)
        made.fit(np.zeros((1, X.shape[1]), X.dtype))  # only the number of columns is looked at
        self._weights, self._offsets = made.random_weights_, made.random_offset_

    def _mapped(self, indices: Any, values: Any, indptr: Any) -> np.ndarray:
        angles = np.tile(self._offsets, (len(indptr) - 1, 1))
        _times(indices, values, indptr, self._weights, angles)
        np.cos(angles, out=angles)
        angles *= math.sqrt(2 / self._columns)
        return angles


class _Nystroem(_Map):
    """The kernel's values at landmarks, mapped so that inner products of landmarks are exact.

    All in float64, because nearly equal landmarks amplify rounding errors a million times.
    """

    order_matters = True
    most = 10_000  # fitting these takes twenty minutes

    def __init__(self, name: str, columns: int, gamma: float = 1.0) -> None:
        super().__init__(name, columns, gamma)
        self.landmarks = self._columns

    def _fit(self, X: Any) -> None:
        from threadpoolctl import threadpool_limits  # comes with scikit-learn

        make = _scikit_learn(self._name).Nystroem
        made = make(gamma=self._gamma, n_components=self._columns, random_state=0)
        with threadpool_limits(1):  # the same bits on any number of cores
            made.fit(X[: self._columns].astype(np.float64))
        self._points = np.ascontiguousarray(made.components_.toarray().T)  # [column, landmark]
        self._lengths = (self._points**2).sum(axis=0)
        self._turn = np.ascontiguousarray(made.normalization_.T)

    def _mapped(self, indices: Any, values: Any, indptr: Any) -> np.ndarray:
        values = values.astype(np.float64)
        distances = np.tile(self._lengths, (len(indptr) - 1, 1))
        _add_lengths(values, indptr, distances)
        _times(indices, -2 * values, indptr, self._points, distances)
        kernel = np.exp(-self._gamma * np.maximum(distances, 0))
        made = np.zeros_like(kernel)
        _times(*encode_rows(kernel, kernel.dtype, None)[:3], self._turn, made)
        return made


@entry
def _add_lengths(values, indptr, out):
    for row in range(len(indptr) - 1):
        total = 0.0
        for i in range(indptr[row], indptr[row + 1]):
            total += values[i] * values[i]
        for j in range(out.shape[1]):
            out[row, j] += total


def _scikit_learn(name: str) -> Any:
    try:
        from sklearn import kernel_approximation
    except ImportError:
        raise ValueError(
            f"{name} is made by scikit-learn, which is not installed; "
            "pip install 'onebit[lab]', or pip install scikit-learn"
        ) from None
    return kernel_approximation


_PLAIN: dict[str, Callable[[], _RowStep]] = {
    "unit_norm": lambda: _Each(_unit_norm),
    "binary": lambda: _Each(_binary),
    "log_counts": lambda: _Each(_log_counts),
    "tfidf": _TfIdf,
    "constant": _Constant,
}
_MAPS: dict[str, tuple[Callable[..., _RowStep], dict[str, Callable[[str], Any]]]] = {
    "fourier": (_Fourier, {"gamma": float, "seed": int}),
    "nystroem": (_Nystroem, {"gamma": float}),
}


def _step(name: str) -> _RowStep:
    kind, colon, number = str(name).partition(":")
    if kind == "hash":
        if not number.isdecimal():
            raise ValueError(f"step {name!r} must say how many columns there are, as in hash:4096")
        return _Hash(whole("the columns of hash:", int(number), least=1, most=2**31 - 1))
    if kind in _MAPS:
        return _map(name, kind, number.split(":"))
    if kind not in _PLAIN or colon:
        raise ValueError(
            f"no step {name!r}; there are {', '.join(_PLAIN)}, hash:COLUMNS, "
            "fourier:COLUMNS:gamma=1 and nystroem:COLUMNS:gamma=1"
        )
    return _PLAIN[kind]()


def _map(name: str, kind: str, parts: list[str]) -> _RowStep:
    make, allowed = _MAPS[kind]
    if not parts[0].isdecimal():
        raise ValueError(
            f"step {name!r} must say how many columns to make, as in {kind}:300:gamma=2"
        )
    options: dict[str, Any] = {}
    for part in parts[1:]:
        key, equals, value = part.partition("=")
        if key not in allowed or key in options or not equals:
            raise ValueError(
                f"step {name!r} has {part!r}; {kind} takes {' and '.join(allowed)}, as in gamma=2"
            )
        try:
            options[key] = allowed[key](value)
        except ValueError:
            raise ValueError(
                f"step {name!r} has {part!r}, which is not a number it can take"
            ) from None
    return make(name, int(parts[0]), **options)
