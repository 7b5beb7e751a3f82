"""Full matrices: the storage has the inverse of a full matrix per label, in float64.

With M = M_label, this module has the functions for full matrices that `core` has for diagonals:
variances x' M x, and updates w += step M x, M -= shrink (M x)(M x)'. The table holds only w.

A row with s non-zero features of d takes s^2 operations per label to score and s d + d^2 to learn
from. M stays symmetric to the last bit: both halves are computed by the same operations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np

from onebit.core import sums, updates
from onebit.core.jit import compiled_as, implement, inline
from onebit.core.lanes import aligned_zeros, at
from onebit.core.settings import named_by_storage, setting
from onebit.core.sums import number
from onebit.storage.base import TABLE, Arrays, Storage, largest_square

MOST_VARIANCE = 1e12  # of a score before learning: beyond this, updates lose all digits
ROUNDING = 1e-6  # tolerance for a saved matrix, relative to its initial value
FEW = 8  # rows with fewer than one in FEW features are read entry by entry


def check_lengths(
    values: np.ndarray, indptr: np.ndarray | None, longest: float, otherwise: str
) -> None:
    """Refuse contexts that are longer than this."""
    length = math.sqrt(largest_square(values, indptr))
    if length > longest:
        raise ValueError(
            f"a context of length {length:.3g} is too long for full matrices: at most "
            f"{longest:.3g} here; scale contexts to length 1, {otherwise}"
        )


class Matrices(NamedTuple):
    """A matrix per label, and scratch space."""

    matrix: Any  # [label, feature, feature]
    column: Any  # [feature]: M x of the last row and label


@inline
def _entry_times_value(line, row, n):
    return at(line, at(row.indices, n)) * np.float64(at(row.values, n))


@inline
def _by_entries(matrix, row):
    """x' M x from the entries where x is not zero; each pair of equal entries is read once."""
    total = 0.0
    for i in range(row.start, row.stop):
        j, x = at(row.indices, i), np.float64(at(row.values, i))
        line = matrix[j]
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        n = row.start
        while n + 4 <= i:
            a += _entry_times_value(line, row, n)
            b += _entry_times_value(line, row, n + 1)
            c += _entry_times_value(line, row, n + 2)
            d += _entry_times_value(line, row, n + 3)
            n += 4
        while n < i:
            a += _entry_times_value(line, row, n)
            n += 1
        total += x * (2.0 * ((a + b) + (c + d)) + at(line, j) * x)
    return total


# Loops over a line, each with a numpy twin that is fast uncompiled.


def add_four(
    out: Any,
    end: Any,
    x: Any,
    line_x: Any,
    y: Any,
    line_y: Any,
    z: Any,
    line_z: Any,
    u: Any,
    line_u: Any,
) -> None:
    """out += x line_x + y line_y + z line_z + u line_u, up to the end."""
    out[:end] += (x * line_x[:end] + y * line_y[:end]) + (z * line_z[:end] + u * line_u[:end])


@compiled_as(add_four)
def _add_four(out, end, x, line_x, y, line_y, z, line_z, u, line_u):
    for k in range(end):
        out[k] += (x * line_x[k] + y * line_y[k]) + (z * line_z[k] + u * line_u[k])


def add_times(out: Any, start: Any, end: Any, x: Any, line: Any) -> None:
    """out += x line, from the start to the end."""
    out[start:end] += x * line[start:end]


@compiled_as(add_times)
def _add_times(out, start, end, x, line):
    for k in range(start, end):
        out[k] += x * line[k]


def add_product(out: Any, size: Any, amount: Any, own: Any, column: Any) -> None:
    """out += amount own column: one line of a rank-one update; own: the line's entry of column."""
    out[:size] += amount * (own * column[:size])


@compiled_as(add_product)
def _add_product(out, size, amount, own, column):
    for k in range(size):
        out[k] += amount * (own * column[k])


def shrink_by(matrix: Any, column: Any, size: Any, amount: Any) -> None:
    """M -= amount column column'."""
    matrix[:size, :size] -= amount * (column[:size, None] * column[:size])


@compiled_as(shrink_by)
def _shrink_by(matrix, column, size, amount):
    for j in range(size):
        add_product(matrix[j], size, -amount, column[j], column)


@inline
def add_lines(matrix, row, out, size, half):
    """out = M x; half: only from the entries left of the diagonal in each line."""
    for k in range(size):
        out[k] = 0.0
    i = row.start
    while i + 4 <= row.stop:
        j = at(row.indices, i)
        end = j if half else size
        x, y = np.float64(at(row.values, i)), np.float64(at(row.values, i + 1))
        z, u = np.float64(at(row.values, i + 2)), np.float64(at(row.values, i + 3))
        line_x, line_y = matrix[j], matrix[at(row.indices, i + 1)]
        line_z, line_u = matrix[at(row.indices, i + 2)], matrix[at(row.indices, i + 3)]
        add_four(out, end, x, line_x, y, line_y, z, line_z, u, line_u)
        if half:  # the other three lines reach to their own diagonals
            for n in range(i + 1, i + 4):
                j, x = at(row.indices, n), np.float64(at(row.values, n))
                add_times(out, end, j, x, matrix[j])
        i += 4
    while i < row.stop:
        j, x = at(row.indices, i), np.float64(at(row.values, i))
        add_times(out, 0, j if half else size, x, matrix[j])
        i += 1


@inline
def _by_lines(matrix, row, column, size):
    """x' M x from whole lines, which are read faster than scattered entries."""
    add_lines(matrix, row, column, size, True)
    total = 0.0
    for i in range(row.start, row.stop):
        j, x = at(row.indices, i), np.float64(at(row.values, i))
        total += x * (2.0 * column[j] + x * matrix[j, j])
    return total


@inline
def variances(state, row, widths):
    held, size = state.held, state.table.shape[0]
    dense = (row.stop - row.start) * FEW >= size
    for label in range(held.matrix.shape[0]):
        matrix = held.matrix[label]
        v = _by_lines(matrix, row, held.column, size) if dense else _by_entries(matrix, row)
        widths[label] = number(state, max(v, 0.0))


@implement(sums.dot_and_variance, Matrices)
def dot_and_variance(state, row, scores, widths):
    sums.dot_ahead(state, row, 0, scores, 0)
    variances(state, row, widths)


@inline
def times(state, row, label):
    """Fill the column with M x. Returns x' M x."""
    column = state.held.column
    add_lines(state.held.matrix[label], row, column, state.table.shape[0], False)
    v = 0.0
    for i in range(row.start, row.stop):
        v += np.float64(at(row.values, i)) * column[at(row.indices, i)]
    return max(v, 0.0)


@inline
def shift(state, label, step):
    """w += step times the column."""
    column = state.held.column
    for j in range(state.table.shape[0]):
        moved = np.float64(state.table[j, 0, label]) + step * column[j]
        state.table[j, 0, label] = number(state, moved)


@implement(updates.move, Matrices)
def move(state, row, label, step, shrink):
    times(state, row, label)
    shift(state, label, step)
    if shrink != 0.0:
        shrink_by(state.held.matrix[label], state.held.column, state.table.shape[0], shrink)


@implement(updates.regress, Matrices)
def regress(state, row, label, pull, weight):
    v = times(state, row, label)
    u = 0.0
    for i in range(row.start, row.stop):
        w = np.float64(state.table[at(row.indices, i), 0, label])
        u += w * np.float64(at(row.values, i))
    shift(state, label, (pull - weight * u) / (1.0 + weight * v))
    shrink = weight / (1.0 + weight * v)
    shrink_by(state.held.matrix[label], state.held.column, state.table.shape[0], shrink)


class Full(Storage):
    """A full matrix per label, whose inverse starts from `start` times the identity."""

    dtype = "float64"
    planes = 1
    settings: Mapping[str, Any] = MappingProxyType({"form": "full"})
    advice = (
        "Use form='diagonal', which takes two numbers per feature and label, or hash the features "
        "into fewer columns with features="
    )

    def __init__(self, start: float) -> None:
        self.start = start
        self.longest = math.sqrt(MOST_VARIANCE / start)

    def check(self, values: np.ndarray, indptr: np.ndarray | None = None) -> None:
        """Refuse contexts after which the matrix would consist of rounding errors."""
        check_lengths(values, indptr, self.longest, "or use form='diagonal'")

    def lay_out(self, arrays: Arrays, features: int, labels: int) -> Any:
        matrix = aligned_zeros((labels, features, features), np.float64)
        diagonals(matrix)[:] = self.start
        if arrays:
            old = arrays["matrix"]
            matrix[: len(old), : old.shape[1], : old.shape[2]] = old
        return Matrices(matrix, aligned_zeros((features,), np.float64))

    def room(self, held: Any) -> int:
        return len(held.column)

    def arrays(self, held: Any, features: int, labels: int) -> Arrays:
        return {"matrix": held.matrix[:, :features, :features].copy()}

    def fits(self, arrays: Arrays, features: int, labels: int) -> bool:
        matrix = arrays.get("matrix", np.empty(0))
        return len(arrays) == 1 and matrix.shape == (labels, features, features)

    def is_sound(self, table: np.ndarray, arrays: Arrays) -> bool:
        return all(is_between(matrix, self.start) for matrix in arrays["matrix"])

    def size(self, features: int, labels: int) -> int:
        return labels * features**2 * 8

    def faded(self, table: np.ndarray, arrays: Arrays, keep: float) -> tuple[np.ndarray, Arrays]:
        """b = A w, and A minus its prior, are sums over rounds: a share of both is kept.

        With N = M / start, N becomes N (keep + (1 - keep) N)^-1, and w is multiplied by keep times
        the same inverse. This matrix is easy to invert, however often the state fades. Features
        that never occurred do not change, and have no influence on the others, to the last bit.
        """
        matrix, features = arrays["matrix"] / self.start, len(table)
        table = table.astype(np.float64)
        met = np.flatnonzero((matrix != np.eye(features)).any(axis=(0, 2)))
        table[:, 0] *= keep
        N, w = matrix[:, met][:, :, met], table[met, 0].T[:, :, None]
        grown = (1 - keep) * N
        diagonals(grown)[:] += keep
        faded = np.linalg.solve(grown, np.concatenate([N, w], axis=2))
        table[met, 0] = faded[:, :, -1].T
        N = (faded[:, :, :-1] + faded[:, :, :-1].transpose(0, 2, 1)) / 2
        matrix[:, met[:, None], met] = N
        return table, {"matrix": self.start * matrix}


FormName = Literal["diagonal", "full"]


FORM = setting(
    default="diagonal",
    choices=("diagonal", "full"),
    in_use=named_by_storage,
    doc='"diagonal", for many sparse features, or "full": one d x d matrix per label',
)


def form_named(name: str, start: float) -> Storage:
    """The storage for a form; full matrices start from `start` times the identity."""
    return Full(start) if name == "full" else TABLE


def is_between(matrix: np.ndarray, most: float) -> bool:
    """Whether a matrix is symmetric and between 0 and `most` times the identity, to ROUNDING."""
    slack, unit = ROUNDING * most, np.eye(len(matrix))
    size, skew = (np.abs(m).max(initial=0) for m in (matrix, matrix - matrix.T))
    if not (most > 0 and size <= most + slack and skew <= slack):
        return most == size == 0
    try:
        np.linalg.cholesky(matrix + slack * unit)
        np.linalg.cholesky((most + slack) * unit - matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def is_inverse(matrix: np.ndarray, noise: np.ndarray, own: np.ndarray) -> bool:
    """Whether a matrix can be (diag(noise) + K)^-1, K semidefinite with the diagonal `own`."""
    root = np.sqrt(noise)
    scaled = root[:, None] * matrix * root  # (I + something at least 0)^-1
    least = noise / (noise + own)  # of its diagonal
    return bool((np.diagonal(scaled) >= least - ROUNDING).all()) and is_between(scaled, 1.0)


def diagonals(matrices: np.ndarray) -> np.ndarray:
    """A writable view of the diagonals [label, feature] of matrices."""
    return np.einsum("kii->ki", matrices)
