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

from onebit.core.extras import optional_module
from onebit.core.jit import entry
from onebit.core.settings import choice_of, real, whole
from onebit.datasets.matrices import csr
from onebit.reading.contexts import encode, encode_rows
from onebit.reading.dicts import HASHED
from onebit.reading.frames import listed
from onebit.reading.hashing import murmur3_of_numbers
from onebit.reading.rows import Rows, is_missing, unit_norm

BITS = 1  # raise it if a step makes other numbers; see `Learner.BITS`


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
    - standardise: value minus the column's mean, divided by its standard deviation, both over the
      rows up to and including the current one; at most 5 above or below.
    - constant: a feature of value 1 as column 0; all other columns move up by 1.
    - hash:COLUMNS: features are hashed with a sign into COLUMNS columns; collisions add up.
    - fourier:COLUMNS:gamma=1:seed=0: random Fourier features of the kernel
      exp(-gamma ||x - x'||^2): a linear learner on these columns approximates this kernel.
    - nystroem:COLUMNS:gamma=1: the same from the kernel's values at landmarks, the first rows.

    fourier and nystroem use scikit-learn. For them and for standardise, all rows must have as many
    columns as the first rows.

    features: how many columns contexts have; dicts are hashed into this many. dtype: of the values.
    """

    def __init__(
        self, names: Sequence[str], *, features: int | None = None, dtype: Any = np.float32
    ) -> None:
        if isinstance(names, str):
            raise TypeError(f"steps are a list of names: [{names!r}]")
        self.names = list(names)
        self._steps = [_step(name) for name in self.names]
        if features is not None:
            features = whole("features", features, least=1, most=2**31 - 1)
        self._features = features
        self._dtype = np.dtype(choice_of("dtype", np.dtype(dtype).name, ("float32", "float64")))

    @property
    def order_matters(self) -> bool:
        """Whether the result for a row depends on earlier rows."""
        return any(step.order_matters for step in self._steps)

    def fit(self, X: Any) -> Steps:
        """Take nystroem's landmarks from the first of these rows, before any row is mapped.

        tfidf does not count these rows, because the same rows may come again.
        """
        for name, step in zip(self.names, self._steps, strict=True):
            if step.is_fitted:
                raise ValueError(f"{name} is fitted already; make a new Steps to fit it anew")
        X = _without_gaps(X) if hasattr(X, "labels") else X
        X = X.tocsr() if hasattr(X, "tocsr") else X
        trial = copy.deepcopy(self)
        trial.rows(X[: max([1, *(step.landmarks for step in self._steps)])])
        for place, step in enumerate(trial._steps):
            if isinstance(step, _Map):
                self._steps[place] = step
        return self

    def __call__(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """Apply the steps to a context of any form; returns a pair (indices, values)."""
        indices, values = encode(x, self._dtype, self._features)
        used = int(indices[-1]) + 1 if len(indices) else 0
        width = width_of([x], self._features, used)
        made, _ = self._apply(_Arrays(indices, values, np.array([0, len(indices)])), width)
        return made.indices.view(np.int32), made.values

    def rows(self, X: Any) -> Any:
        """Apply the steps to many contexts: an array gives an array, other forms a CSR matrix."""
        X = listed(X)
        given = encode_rows(X, self._dtype, self._features)
        width = width_of(X, self._features, given.width)
        arrays = _Arrays(given.indices.copy(), given.values.copy(), given.indptr)
        made, width = self._apply(arrays, width)
        if not isinstance(X, np.ndarray):
            return made.matrix(width)
        dense = np.zeros((made.rows, width.columns), self._dtype)
        _fill(*made, dense)
        return dense

    def _apply(self, arrays: _Arrays, width: Width) -> tuple[_Arrays, Width]:
        widths = [width]
        for step in self._steps:  # check all widths first: a refused call changes nothing
            widths.append(step.width(widths[-1], arrays.rows))
        for step, given in zip(self._steps, widths, strict=False):
            arrays = step(arrays, given)
        return arrays, widths[-1]


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
    if isinstance(x, dict | str) or is_missing(x):
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
    X = _without_gaps(data)
    for name in ("comparator", "columns"):  # of the unprepared rows
        data = data._replace(**{name: None}) if hasattr(data, name) else data
    return data._replace(X=steps.rows(X), about=f"{data.about}; {', '.join(steps.names)}")


def _without_gaps(data: Any) -> Any:
    """The rows of a Dataset; a missing number of a table from a file is 0."""
    has_gaps = getattr(data, "columns", None) is not None and not hasattr(data.X, "tocsr")
    return np.where(np.isnan(data.X), 0, data.X) if has_gaps else data.X


class _Arrays(NamedTuple):
    """Rows as in a CSR matrix. The step that gets them may change them in place."""

    indices: Any
    values: Any
    indptr: Any

    @property
    def rows(self) -> int:
        return len(self.indptr) - 1

    def matrix(self, width: Width) -> Any:
        return csr(self.values, self.indices.view(np.int32), self.indptr, width.columns)


class _Step:
    """A step: maps the arrays of rows to new arrays."""

    order_matters = False
    is_fitted = False
    landmarks = 0  # rows that the step must see before it can map any

    def width(self, width: Width, rows: int) -> Width:
        """The width of the result for this many rows; an error if the step cannot take them."""
        return width

    def __call__(self, arrays: _Arrays, width: Width) -> _Arrays:
        raise NotImplementedError


class _RowByRow(_Step):
    """A step that changes values in place, each row independently."""

    def __init__(self, change: Callable[..., None]) -> None:
        self._change = change

    def __call__(self, arrays: _Arrays, width: Width) -> _Arrays:
        self._change(arrays.values, arrays.indptr)
        return arrays


def _unit_norm(values: np.ndarray, indptr: np.ndarray) -> None:
    unit_norm(values, indptr, 0.0)


@entry
def _binary(values, indptr):
    for i in range(len(values)):
        values[i] = 1.0


@entry
def _log_counts(values, indptr):
    for i in range(len(values)):
        values[i] = math.copysign(math.log1p(abs(np.float64(values[i]))), values[i])


class _TfIdf(_Step):
    order_matters = True

    def __init__(self) -> None:
        self._rows = 0
        self._rows_with = np.zeros(0, np.int64)  # [feature]

    def __call__(self, arrays: _Arrays, width: Width) -> _Arrays:
        used = int(arrays.indices.max()) + 1 if len(arrays.indices) else 0
        if used > len(self._rows_with):
            added = max(used, 2 * len(self._rows_with)) - len(self._rows_with)
            self._rows_with = np.concatenate([self._rows_with, np.zeros(added, np.int64)])
        _tfidf(*arrays, self._rows_with, self._rows)
        self._rows += arrays.rows
        return arrays


@entry
def _tfidf(indices, values, indptr, rows_with, rows):
    for row in range(len(indptr) - 1):
        rows += 1
        for i in range(indptr[row], indptr[row + 1]):
            rows_with[indices[i]] += 1
            rarity = math.log((1.0 + rows) / (1.0 + rows_with[indices[i]])) + 1.0
            values[i] = np.float64(values[i]) * rarity


_LARGEST = 2**28  # numbers that a step makes: 1 or 2 GiB
_FARTHEST = 5.0  # standard deviations


def _check_known(name: str, width: Width) -> None:
    if not width.is_known:
        raise ValueError(
            f"{name} must know how many columns rows have, and pairs do not say; "
            "fix their number with Steps(..., features=), or put hash:COLUMNS before"
        )


def _check_same(name: str, width: Width, columns: int) -> None:
    if width.columns > columns:
        raise ValueError(
            f"{name} was made for rows of {columns} columns, and these have "
            f"{width.columns}; fix their number first (features=), or put hash:COLUMNS before"
        )


class _Standardise(_Step):
    order_matters = True

    def __init__(self) -> None:
        self._rows = 0
        self._columns = np.zeros((2, 0))  # of each: mean, sum of squared distances from it

    def width(self, width: Width, rows: int) -> Width:
        if not self._rows:
            _check_known("standardise", width)
        else:
            _check_same("standardise", width, self._columns.shape[1])
        columns = self._columns.shape[1] if self._rows else width.columns
        if rows * columns > _LARGEST:
            raise ValueError(
                f"standardise fills all {columns:,} columns of {rows:,} rows, which is too much; "
                "it is for dense rows: take unit_norm, or put hash:COLUMNS before"
            )
        return Width(columns, True)

    def __call__(self, arrays: _Arrays, width: Width) -> _Arrays:
        if arrays.rows and not self._rows:
            self._columns = np.zeros((2, width.columns))
        made = np.zeros((arrays.rows, self._columns.shape[1]), arrays.values.dtype)
        _fill(*arrays, made)
        _standardise(made, *self._columns, self._rows)
        self._rows += arrays.rows
        rows = encode_rows(made, made.dtype, None)  # leaves out zeros
        return _Arrays(rows.indices, rows.values, rows.indptr)


@entry
def _standardise(matrix, means, squares, rows):
    for row in range(len(matrix)):
        rows += 1
        for j in range(len(means)):
            value = np.float64(matrix[row, j])
            before = value - means[j]
            means[j] += before / rows
            squares[j] += before * (value - means[j])
            if squares[j] > 0.0:
                distance = (value - means[j]) / math.sqrt(squares[j] / rows)
                matrix[row, j] = min(max(distance, -_FARTHEST), _FARTHEST)
            else:
                matrix[row, j] = 0.0


class _Constant(_Step):
    """Adds column 0; a last column would move when later rows are wider."""

    def width(self, width: Width, rows: int) -> Width:
        return width._replace(columns=width.columns + 1)

    def __call__(self, arrays: _Arrays, width: Width) -> _Arrays:
        indices, values, indptr = arrays
        indices = np.insert(indices + np.uint32(1), indptr[:-1], np.uint32(0))
        values = np.insert(values, indptr[:-1], 1)
        return _Arrays(indices, values, indptr + np.arange(len(indptr)))


class _Hash(_Step):
    def __init__(self, name: str, columns: int) -> None:
        self._columns = whole(f"the columns of {name}", columns, least=1, most=2**31 - 1)

    def width(self, width: Width, rows: int) -> Width:
        return Width(self._columns, True)

    def __call__(self, arrays: _Arrays, width: Width) -> _Arrays:
        indices, values, indptr = arrays
        hashes = murmur3_of_numbers(indices)
        parts = (np.where(hashes < 0, -values, values), np.abs(hashes) % self._columns, indptr)
        hashed: Any = sparse.csr_matrix(parts, shape=(arrays.rows, self._columns))
        hashed.sum_duplicates()
        hashed.eliminate_zeros()
        return _Arrays(
            hashed.indices.astype(np.uint32), hashed.data, hashed.indptr.astype(np.int64)
        )


# Feature maps. scikit-learn draws or fits them. They are applied here, because with BLAS the bits
# of a row would depend on its batch.

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


class _Map(_Step):
    most = 2**20  # columns of the result

    def __init__(self, name: str, columns: int, gamma: float) -> None:
        self._name = name
        self._columns = whole(f"the columns of {name}", columns, least=1, most=self.most)
        self._gamma = real(f"gamma of {name}", gamma, above=0, most=1e6)
        self._taken = 0  # columns of the rows that the map was fitted to
        self._scikit_learn()

    def _scikit_learn(self) -> Any:
        made_by = f"{self._name} is made by"
        return optional_module("sklearn.kernel_approximation", "scikit-learn", made_by)

    @property
    def is_fitted(self) -> bool:
        return self._taken > 0

    def width(self, width: Width, rows: int) -> Width:
        if rows and not self.is_fitted:
            self._check(width, rows)
        elif self.is_fitted:
            _check_same(self._name, width, self._taken)
        return Width(self._columns, True)

    def _check(self, width: Width, rows: int) -> None:
        _check_known(self._name, width)
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

    def __call__(self, arrays: _Arrays, width: Width) -> _Arrays:
        if arrays.rows and not self.is_fitted:
            self._fit(arrays.matrix(width))
            self._taken = width.columns
        indices, values, indptr = arrays
        size, end, most_rows = arrays.rows * self._columns, 0, max(1, _BLOCK // self._columns)
        made = _Arrays(np.empty(size, np.uint32), np.empty(size, values.dtype), 0 * indptr)
        for start in range(0, arrays.rows, most_rows):
            ends = indptr[start : start + most_rows + 1]
            part = slice(ends[0], ends[-1])
            block = self._mapped(_Arrays(indices[part], values[part], ends - ends[0]))
            mapped = encode_rows(block, values.dtype, None)  # leaves out zeros
            begin, end = end, end + len(mapped.indices)
            made.indices[begin:end], made.values[begin:end] = mapped.indices, mapped.values
            made.indptr[start + 1 : start + most_rows + 1] = begin + mapped.indptr[1:]
        return made._replace(indices=made.indices[:end], values=made.values[:end])

    def _fit(self, X: Any) -> None:
        raise NotImplementedError

    def _mapped(self, arrays: _Arrays) -> np.ndarray:
        """The dense rows that the map makes of these."""
        raise NotImplementedError


class _Fourier(_Map):
    """cos(W x + b), at random W and b: inner products approach the kernel (Rahimi, Recht 2007)."""

    def __init__(self, name: str, columns: int, gamma: float = 1.0, seed: int = 0) -> None:
        super().__init__(name, columns, gamma)
        self._seed = whole(f"seed of {name}", seed, least=0, most=2**32 - 1)

    def _fit(self, X: Any) -> None:
        make = self._scikit_learn().RBFSampler
        made = make(gamma=self._gamma, n_components=self._columns, random_state=self._seed)
        made.fit(np.zeros((1, X.shape[1]), X.dtype))  # only the number of columns matters
        self._weights, self._offsets = made.random_weights_, made.random_offset_

    def _mapped(self, arrays: _Arrays) -> np.ndarray:
        angles = np.tile(self._offsets, (arrays.rows, 1))
        _times(*arrays, self._weights, angles)
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

        make = self._scikit_learn().Nystroem
        made = make(gamma=self._gamma, n_components=self._columns, random_state=0)
        with threadpool_limits(1):  # the same bits on any number of cores
            made.fit(X[: self._columns].astype(np.float64))
        self._points = np.ascontiguousarray(made.components_.toarray().T)  # [column, landmark]
        self._lengths = (self._points**2).sum(axis=0)
        self._turn = np.ascontiguousarray(made.normalization_.T)

    def _mapped(self, arrays: _Arrays) -> np.ndarray:
        values = arrays.values.astype(np.float64)
        distances = np.tile(self._lengths, (arrays.rows, 1))
        _add_lengths(values, arrays.indptr, distances)
        _times(arrays.indices, -2 * values, arrays.indptr, self._points, distances)
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


_PLAIN: dict[str, Callable[[], _Step]] = {
    "unit_norm": lambda: _RowByRow(_unit_norm),
    "binary": lambda: _RowByRow(_binary),
    "log_counts": lambda: _RowByRow(_log_counts),
    "tfidf": _TfIdf,
    "standardise": _Standardise,
    "constant": _Constant,
}
# Steps that make a number of columns: the class, the types of its settings, and an example.
_SIZED: dict[str, tuple[Callable[..., _Step], dict[str, Callable[[str], Any]], str]] = {
    "hash": (_Hash, {}, "hash:4096"),
    "fourier": (_Fourier, {"gamma": float, "seed": int}, "fourier:300:gamma=2"),
    "nystroem": (_Nystroem, {"gamma": float}, "nystroem:300:gamma=2"),
}


def _step(name: str) -> _Step:
    kind, *parts = str(name).split(":")
    if kind in _PLAIN and not parts:
        return _PLAIN[kind]()
    if kind not in _SIZED:
        raise ValueError(
            f"no step {name!r}; there are {', '.join(_PLAIN)}, hash:COLUMNS, "
            "fourier:COLUMNS:gamma=1 and nystroem:COLUMNS:gamma=1"
        )
    make, types, example = _SIZED[kind]
    if not parts or not parts[0].isdecimal():
        raise ValueError(f"step {name!r} must say how many columns to make, as in {example}")
    settings: dict[str, Any] = {}
    for part in parts[1:]:
        key, equals, value = part.partition("=")
        if key not in types or key in settings or not equals:
            takes = f"takes {' and '.join(types)}, as in gamma=2" if types else "takes no settings"
            raise ValueError(f"step {name!r} has {part!r}; {kind} {takes}")
        try:
            settings[key] = types[key](value)
        except ValueError:
            raise ValueError(
                f"step {name!r} has {part!r}, which is not a number it can take"
            ) from None
    return make(name, int(parts[0]), **settings)
