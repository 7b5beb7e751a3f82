"""Experts of dense rows: rows of a fixed number of columns.

The columns are standardised, and random Fourier features (Rahimi & Recht 2007) of several wave
lengths are added. Experts of the table `narrow` see the columns alone, those of the table `wide`
see all features. The scales are those of the first rows that were answered; then they are fixed.
On the way there, all rounds so far are learned anew a few times, with the scales known by then.
A missing number, NaN, counts as the mean of its column, and is not taken into its scale; a column
with missing numbers is scaled by as many values of later rows as are missing.
Where it takes little room, one more expert is a ridge regression of the columns with full matrices
(`storage.full`).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from onebit.core.draws import uniforms
from onebit.core.jit import compiled_as, entry, implement, inline, not_inlined, outline
from onebit.core.lanes import aligned_zeros, at, lanes_for, state_type
from onebit.core.rounds import Row, takes_gaps
from onebit.core.sums import dot, dot_and_variance, number
from onebit.core.updates import regress
from onebit.storage.experts import (
    KEPT,
    KEPT_ROUNDS,
    ExpertStorage,
    Input,
    clear_full,
    fix_scales,
    keep_row,
    kept_input,
    last_input,
    make_room,
    narrow_table,
    place_of,
    prepared,
    regress_full,
    sum_up_full,
    wide_table,
)
from onebit.storage.full import Full
from onebit.storage.scales import FARTHEST, within

SCALED_AFTER = (20, 50, 100)  # answered rows: then rounds are learned anew; last, scales are fixed
SCALED_BY = float(SCALED_AFTER[-1])  # values of a column: then its scale is fixed
OUTLIER = 30.0  # deviations: farther values of these rows are clipped, to scale the columns
FEW = 3  # outliers of a column that are told from its other values
WAVES = 600  # random Fourier features
SHORTEST, LONGEST = 0.1, 1.0  # their wave lengths, in median distances between rows
PART = 0.25  # the length of a row's Fourier features; the columns have about 1
SEEN, MEDIAN = range(2)  # places in Dense.scales; a median of 0: no Fourier features yet
CENTRE, SQUARES, FACTOR, TIMES = range(4)  # places in Dense.columns
UNKNOWN = -1.0  # a factor that has to be computed
FULL_NUMBERS = 2**20  # full matrices are kept if they have no more numbers together
LEAST_WEIGHT = 1e-3  # of their expert; below it, their widths are not worth the time
NEWEST = 10  # kept rows that are compared with the older half of the kept rows
FAR, LARGE = 4.0, 16.0  # squared shift and variance, in variances of the older rows: other scales
EVEN = 6.0  # a column is even if its variance in any NEWEST older rows is at least a sixth of all
_WAVE_DRAW = 2**41  # the first stream of the draws of waves


class Dense(NamedTuple):
    """Experts of dense rows."""

    experts: Any
    narrow: Any  # a state: weights and variances of the columns
    wide: Any  # a state: those of the columns and the Fourier features
    full: Any  # a state: weights and full matrices of the columns and a constant; or of nothing
    full_row: Any  # scratch space: columns and constant
    full_sums: Any  # [2, lane] scratch space
    scales: Any  # [2] answered rows that were seen; median distance between rows
    columns: Any  # [4, column] mean, sum of squared distances, 1 / standard deviation, values
    waves: Any  # [column + 1, wave] a wave's directions, and last its phase, in turns
    distances: Any  # scratch space, for all pairs of the first rows; or for a column of these rows
    every: Any  # 0, 1, 2, ...: the indices of the features
    kept: Any  # [KEPT_ROUNDS + 1, column] rows as they came; the last is the present one
    mapped: Any  # [KEPT_ROUNDS + 1, feature] their features
    mapped_by: Any  # [KEPT_ROUNDS + 1] how many values the columns had had then


def _cosine_series() -> list[float]:
    """The series of cos(2 pi r) in powers of r^2, accurate to 1e-8 for |r| <= 1/2."""
    return [(-1) ** n * (2 * math.pi) ** (2 * n) / math.factorial(2 * n) for n in range(10)]


_C0, _C1, _C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9 = _cosine_series()


def add_waves(waves: Any, column: Any, z: Any, angles: Any, start: Any) -> None:
    """angles[start:] += z waves[column]."""
    angles[start:] += z * waves[column]


@compiled_as(add_waves)
def _add_waves(waves, column, z, angles, start):
    for n in range(waves.shape[1]):
        angles[start + n] += z * waves[column, n]


def to_cosines(angles: Any, start: Any, phase: Any, shorter: Any, size: Any) -> None:
    """angles[start:] = size cos(2 pi (angles shorter + phase)): no library's is vectorised."""
    t = angles[start:] * shorter + phase
    r = t - np.floor(t + 0.5)
    s = r * r
    total = _C8 + s * _C9
    for c in (_C7, _C6, _C5, _C4, _C3, _C2, _C1, _C0):
        total = c + s * total
    angles[start:] = size * total


@compiled_as(to_cosines)
def _to_cosines(angles, start, phase, shorter, size):
    kind = angles.dtype.type  # or all would be worked out in double precision
    half, c0, c1, c2, c3 = kind(0.5), kind(_C0), kind(_C1), kind(_C2), kind(_C3)
    c4, c5, c6, c7, c8, c9 = kind(_C4), kind(_C5), kind(_C6), kind(_C7), kind(_C8), kind(_C9)
    for n in range(len(phase)):
        t = angles[start + n] * shorter + phase[n]
        r = t - np.floor(t + half)
        s = r * r
        high = c4 + s * (c5 + s * (c6 + s * (c7 + s * (c8 + s * c9))))
        angles[start + n] = size * (c0 + s * (c1 + s * (c2 + s * (c3 + s * high))))


@outline
def _map(kept, mapped, scales, columns, waves, place):
    """Standardise a row, and add its Fourier features once there is a median distance."""
    not_inlined()
    row, x, count = kept[place], mapped[place], kept.shape[1]
    side, kind = 1.0 / math.sqrt(count), mapped.dtype.type
    for n in range(count, len(x)):
        x[n] = 0.0
    for j in range(count):
        z = (np.float64(row[j]) - columns[CENTRE, j]) * columns[FACTOR, j]
        z = 0.0 if math.isnan(z) else min(max(z, -FARTHEST), FARTHEST)
        x[j] = z * side
        if scales[MEDIAN] > 0.0 and z != 0.0:
            add_waves(waves, j, kind(z), x, count)
    if scales[MEDIAN] > 0.0:
        shorter, size = 1.0 / scales[MEDIAN], PART * math.sqrt(2.0 / waves.shape[1])
        to_cosines(x, count, waves[count], kind(shorter), kind(size))


@inline
def _map_row(held, place):
    _map(held.kept, held.mapped, held.scales, held.columns, held.waves, place)
    held.mapped_by[place] = _values_of(held.columns)


@inline
def _values_of(columns):
    """How many values all columns have had."""
    total = 0.0
    for j in range(columns.shape[1]):
        total += columns[TIMES, j]
    return total


@inline
def _as_input(state, place):
    held = state.held
    features, narrow = held.mapped[place], held.kept.shape[1]
    size = len(features) if held.scales[MEDIAN] > 0.0 else narrow
    return Input(Row(held.every, features, 0, size), narrow, number(state, 1.0))


@inline
def _present(held):
    """The place of the row that was prepared last."""
    return len(held.kept) - 1


@implement(prepared, Dense)
def _prepared_dense(state, row):
    held = state.held
    place = _present(held)
    present = held.kept[place]
    for j in range(len(present)):
        present[j] = 0.0
    for i in range(row.start, row.stop):
        present[at(row.indices, i)] = at(row.values, i)
    _map_row(held, place)
    return _as_input(state, place)


@implement(last_input, Dense)
def _last_dense(state, row):
    return _as_input(state, _present(state.held))


@implement(kept_input, Dense)
def _kept_dense(state, place):
    held = state.held
    if held.mapped_by[place] != _values_of(held.columns):  # the scales have changed since
        _map_row(held, place)
    return _as_input(state, place)


@implement(takes_gaps, Dense)
def _dense_take_gaps(state):
    return True


@implement(make_room, Dense)
def _always_room(state, row):
    return True


@implement(keep_row, Dense)
def _keep_dense(state, row, place):
    kept, mapped, present = state.held.kept, state.held.mapped, _present(state.held)
    state.held.mapped_by[place] = state.held.mapped_by[present]
    for j in range(kept.shape[1]):
        kept[place, j] = kept[present, j]
    for j in range(mapped.shape[1]):
        mapped[place, j] = mapped[present, j]


@implement(narrow_table, Dense)
def _narrow_dense(state):
    return state.held.narrow


@implement(wide_table, Dense)
def _wide_dense(state):
    return state.held.wide


@outline
def _sum_up_full(full, row, weight, out, sums):
    not_inlined()
    scores, variances = out[0], out[1]
    variances[:] = 0.0
    if weight < LEAST_WEIGHT:
        dot(full, row, 0, scores)
    else:
        dot_and_variance(full, row, scores, variances)
    for label in range(len(scores)):
        sums[0, label], sums[1, label] = scores[label], variances[label]


@outline
def _regress_full(full, row, label, answer):
    not_inlined()
    regress(full, row, label, answer, 1.0)


@inline
def _full_row(held, context):
    """Columns and constant."""
    row = held.full_row
    for j in range(context.narrow):
        row[j] = at(context.row.values, j)
    row[context.narrow] = 1.0
    return Row(held.every, row, 0, context.narrow + 1)


@implement(sum_up_full, Dense)
def _sum_up_dense(state, context, weight, sums):
    held = state.held
    _sum_up_full(held.full, _full_row(held, context), weight, held.full_sums, sums)


@implement(regress_full, Dense)
def _regress_dense(state, context, label, answer):
    _regress_full(state.held.full, _full_row(state.held, context), label, answer)


@implement(clear_full, Dense)
def _clear_dense(state):
    table, matrix = state.held.full.table, state.held.full.held.matrix
    table[:], matrix[:] = 0.0, 0.0
    for label in range(len(matrix)):
        for j in range(matrix.shape[1]):
            matrix[label, j, j] = 1.0


@implement(fix_scales, Dense)
def _fix_scales(state, row):
    held = state.held
    are_fixed = held.scales[SEEN] >= SCALED_BY  # but for columns with missing numbers
    _take_into_scales(held.scales, held.columns, held.kept[_present(held)])
    if are_fixed or not _is_time_to_scale(held.scales):
        return False
    count = held.experts.count
    _without_outliers(count, held.kept, held.columns, held.distances)
    held.scales[MEDIAN] = 0.0  # the distance between rows does not need Fourier features
    _map_kept(held)
    held.scales[MEDIAN] = _median_distance(count, held.mapped, held.distances, held.kept.shape[1])
    _map_kept(held)
    return True


@inline
def _is_time_to_scale(scales):
    is_time = False
    for answers in SCALED_AFTER:
        is_time = is_time or scales[SEEN] == answers
    return is_time


@inline
def _take_into_scales(scales, columns, row):
    seen, usual = min(scales[SEEN] + 1.0, SCALED_BY), 0.0
    scales[SEEN] = seen
    for j in range(len(row)):
        times = columns[TIMES, j]
        if times < SCALED_BY and not math.isnan(row[j]):
            mean, spread = columns[CENTRE, j], columns[SQUARES, j]
            value = within(np.float64(row[j]), OUTLIER, times, mean, spread)
            off, times = value - mean, times + 1.0
            columns[CENTRE, j] += off / times
            columns[SQUARES, j] += off * (value - columns[CENTRE, j])
            columns[TIMES, j], columns[FACTOR, j] = times, UNKNOWN
        if times > 0.0:
            usual += columns[SQUARES, j] * (seen / times) / len(row)
    for j in range(len(row)):
        if columns[FACTOR, j] == UNKNOWN:
            times, square = columns[TIMES, j], columns[SQUARES, j]
            if square == 0.0:  # a column that was constant so far is as wide as the others
                times, square = seen, usual
            columns[FACTOR, j] = math.sqrt(times / square) if square > 0.0 else 0.0


@outline
def _without_outliers(count, kept, columns, scratch):
    """Scale the columns that have outliers among the kept rows anew, as if these were near.

    Outliers are at most FEW values of a column, more than OUTLIER deviations of its other values
    away. Running statistics do not clip them if they come among the first rows.
    """
    not_inlined()
    for j in range(kept.shape[1]):
        size = 0
        for i in range(count[KEPT]):
            value = kept[place_of(count, i), j]
            if not math.isnan(value):
                scratch[size] = value
                size += 1
        if size <= 2 * FEW:
            continue
        mean, variance = _mean_and_variance(scratch, size)
        for n in range(1, FEW + 1):
            farthest, last = 0, size - n
            for i in range(last + 1):
                if abs(scratch[i] - mean) > abs(scratch[farthest] - mean):
                    farthest = i
            scratch[farthest], scratch[last] = scratch[last], scratch[farthest]
            mean, variance = _mean_and_variance(scratch, last)
        deviation, outliers = math.sqrt(variance), 0
        for i in range(size - FEW, size):
            off = scratch[i] - mean
            if abs(off) > OUTLIER * deviation and deviation > 0.0:
                scratch[i] = mean + math.copysign(FARTHEST * deviation, off)
                outliers += 1
        if outliers > 0:
            mean, variance = _mean_and_variance(scratch, size)
            columns[CENTRE, j], columns[SQUARES, j] = mean, variance * columns[TIMES, j]
            columns[FACTOR, j] = 1.0 / math.sqrt(variance)


@inline
def _mean_and_variance(values, size):
    """Of the first values."""
    mean, variance = 0.0, 0.0
    for i in range(size):
        mean += values[i] / size
    for i in range(size):
        variance += (values[i] - mean) * (values[i] - mean) / size
    return mean, variance


@inline
def _map_kept(held):
    count = held.experts.count
    for i in range(count[KEPT]):
        _map_row(held, place_of(count, i))


@entry
def map_kept(held):
    """`_map_kept`, for Python."""
    _map_kept(held)


@outline
def _median_distance(count, mapped, distances, columns):
    """The median distance between standardised kept rows; if all are equal, the expected one."""
    not_inlined()
    size, longest = 0, 0.0
    for i in range(count[KEPT]):
        a = mapped[place_of(count, i)]
        for k in range(i):
            b = mapped[place_of(count, k)]
            square = 0.0
            for j in range(columns):
                off = np.float64(a[j]) - np.float64(b[j])
                square += off * off
            distance = math.sqrt(columns * square)
            distances[size], longest = distance, max(longest, distance)
            size += 1
    if longest == 0.0:
        return math.sqrt(2.0 * columns)
    low, high = 0.0, longest
    for _ in range(50):  # bisection: nothing may be allocated here
        middle, below = 0.5 * (low + high), 0
        for n in range(size):
            below += distances[n] <= middle
        if 2 * below >= size:
            high = middle
        else:
            low = middle
    return high


# In Python.


class DenseExperts(ExpertStorage):
    """Experts of dense rows, the last of them with Fourier features."""

    planes = 0
    advice = "Use fewer columns"
    with_gaps = ("kept",)

    def __init__(
        self,
        *start: Any,
        narrow: int,
        columns: int,
        seed: int,
    ) -> None:
        """start: as for all experts. narrow: how many of them see the columns alone."""
        super().__init__(*start)
        self.columns, self.seed, self._full = columns, seed, Full(1.0)
        self.narrow_priors, self.wide_priors = np.split(self.priors, [narrow])
        draw = uniforms(seed, np.arange(WAVES), _WAVE_DRAW)
        self._phase = uniforms(seed, np.arange(WAVES), _WAVE_DRAW + 1)
        lengths = SHORTEST * (LONGEST / SHORTEST) ** draw
        self._waves = self._normal(columns) / (2 * math.pi * lengths)

    def _normal(self, columns: int) -> np.ndarray:
        """Standard normal draws [column, wave] (Box & Muller 1958)."""
        places = np.arange(columns * WAVES)
        radius = np.sqrt(-2 * np.log1p(-uniforms(self.seed, places, _WAVE_DRAW + 2)))
        turns = uniforms(self.seed, places, _WAVE_DRAW + 3)
        return (radius * np.cos(2 * math.pi * turns)).reshape(columns, WAVES)

    def _may_have_full(self, labels: int) -> bool:
        return labels * (self.columns + 1) ** 2 <= FULL_NUMBERS

    def _full_state(self, arrays: dict[str, np.ndarray], labels: int) -> Any:
        """A state of full matrices; it has no features if the matrices would be too large.

        It has none either if the saved arrays have no matrices: a new matrix would not know the
        answers before.
        """
        if not self._may_have_full(labels) or (arrays and "matrix" not in arrays):
            arrays, size, count = {}, 0, 0
        else:
            size, count = self.columns + 1, labels
        lanes = lanes_for(labels)
        table = aligned_zeros((size, 1, lanes), np.float64)
        if arrays:
            table[:, :, : arrays["full"].shape[2]] = arrays["full"]
        return state_type(lanes)(table, np.empty(0), self._full.lay_out(arrays, size, count))

    def lay_out(self, arrays: dict[str, np.ndarray], features: int, labels: int) -> Dense:
        columns, dtype = self.columns, self._dtype
        size, full = columns + WAVES, self._full_state(arrays, labels)
        held = Dense(
            experts=self._experts(arrays, labels, besides=len(full.table) > 0),
            narrow=self._table(columns, self.narrow_priors, labels, arrays.get("narrow")),
            wide=self._table(size, self.wide_priors, labels, arrays.get("wide")),
            full=full,
            full_row=np.zeros(columns + 1),
            full_sums=aligned_zeros((2, lanes_for(labels)), np.float64),
            scales=np.zeros(2),
            columns=np.zeros((4, columns)),
            waves=np.vstack([self._waves, self._phase]).astype(dtype),
            distances=np.zeros(SCALED_AFTER[-1] * (SCALED_AFTER[-1] - 1) // 2),
            every=np.arange(size, dtype=np.uint32),
            kept=np.zeros((KEPT_ROUNDS + 1, columns)),
            mapped=np.zeros((KEPT_ROUNDS + 1, size), dtype),
            mapped_by=np.zeros(KEPT_ROUNDS + 1),
        )
        if arrays:
            held.scales[:], held.columns[:] = arrays["scales"], arrays["columns"]
            held.kept[: len(arrays["kept"])] = arrays["kept"]
            map_kept(held)
        return held

    def has_other_scales(self, held: Dense) -> bool:
        kept = held.kept[self._places(held.experts)]
        kept = np.where(np.isnan(kept), held.columns[CENTRE], kept)
        parts = len(kept) // 2 // NEWEST
        before, now = kept[: parts * NEWEST], kept[-NEWEST:]
        varied = before.var(axis=0) > 0 if parts else np.zeros(self.columns, bool)
        if not varied.any():
            return False
        before, now = before[:, varied], now[:, varied]
        variances = before.var(axis=0)
        smallest = before.reshape(parts, NEWEST, -1).var(axis=1).min(axis=0)
        with np.errstate(over="ignore"):  # of columns that hardly varied
            shift = np.mean((now.mean(axis=0) - before.mean(axis=0)) ** 2 / variances)
            growth = np.mean(now.var(axis=0) / variances)
        is_even = EVEN * smallest > variances  # other columns are constant in most rows
        has_shrunk = (is_even & (LARGE * now.var(axis=0) < smallest)).any()
        return bool(shift > FAR or growth > LARGE or has_shrunk)

    def room(self, held: Dense) -> int:
        return self.columns

    def weights(self, held: Dense, labels: int) -> np.ndarray:
        return held.narrow.table[:, 0, :labels].T.copy()

    def arrays(self, held: Dense, features: int, labels: int) -> dict[str, np.ndarray]:
        full = {}
        if len(held.full.table):
            full = {
                "full": held.full.table[:, :, :labels].copy(),
                "matrix": held.full.held.matrix.copy(),
            }
        return (
            super().arrays(held, features, labels)
            | full
            | {
                "narrow": held.narrow.table[:, :, :labels].copy(),
                "wide": held.wide.table[:, :, :labels].copy(),
                "kept": held.kept[self._places(held.experts)],
                "scales": held.scales.copy(),
                "columns": held.columns.copy(),
            }
        )

    def _shapes(self, kept: int, labels: int, besides: int) -> dict[str, tuple[Any, Any]]:
        columns, narrow, wide = self.columns, len(self.narrow_priors), len(self.wide_priors)
        full: dict[str, tuple[Any, Any]] = {}
        if besides and self._may_have_full(labels):
            full = {
                "full": ((columns + 1, 1, labels), np.float64),
                "matrix": ((labels, columns + 1, columns + 1), np.float64),
            }
        return (
            super()._shapes(kept, labels, besides)
            | full
            | {
                "narrow": ((columns, 2 * narrow, labels), self._dtype),
                "wide": ((columns + WAVES, 2 * wide, labels), self._dtype),
                "kept": ((kept, columns), np.float64),
                "scales": ((2,), np.float64),
                "columns": ((4, columns), np.float64),
            }
        )

    def is_sound(self, table: np.ndarray, arrays: dict[str, np.ndarray]) -> bool:
        return (
            super().is_sound(table, arrays)
            and self._are_variances(arrays["narrow"], self.narrow_priors)
            and self._are_variances(arrays["wide"], self.wide_priors)
            and ("matrix" not in arrays or self._full.is_sound(arrays["full"], arrays))
            and bool((arrays["scales"] >= 0).all())
            and bool((arrays["columns"][SQUARES:] >= 0).all())
        )

    def size(self, features: int, labels: int) -> int:
        number, wide = self._dtype.itemsize, self.columns + WAVES
        tables = self.columns * len(self.narrow_priors) + wide * len(self.wide_priors)
        rows = KEPT_ROUNDS * wide + self.columns * WAVES
        kept = 8 * KEPT_ROUNDS * (self.columns + 1)
        own = number * (2 * tables * lanes_for(labels) + rows) + kept
        if self._may_have_full(labels):
            own += self._full.size(self.columns + 1, labels)
        return super().size(features, labels) + own

    def swing(self, features: int) -> int:
        return KEPT_ROUNDS * (9 + 8 * self.columns)

    def faded(
        self, table: np.ndarray, arrays: dict[str, np.ndarray], keep: float
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        table, arrays = super().faded(table, arrays, keep)
        if "matrix" in arrays:
            full, matrix = self._full.faded(arrays["full"], arrays, keep)
            arrays |= {"full": full, **matrix}
        return table, arrays | {
            "narrow": self._faded_table(arrays["narrow"], self.narrow_priors, keep),
            "wide": self._faded_table(arrays["wide"], self.wide_priors, keep),
            "kept": arrays["kept"][len(arrays["kept"]) - len(arrays["said"]) :],
        }
