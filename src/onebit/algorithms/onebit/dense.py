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

from typing import Any, NamedTuple

import numpy as np

from onebit.algorithms.onebit.columns import (
    CENTRE,
    MEDIAN,
    SCALED_AFTER,
    SCALED_BY,
    SEEN,
    SQUARES,
    have_other_scales,
    is_time_to_scale,
    median_distance,
    take_into_scales,
    values_of,
    without_outliers,
)
from onebit.algorithms.onebit.records import (
    KEPT,
    KEPT_ROUNDS,
    Input,
    clear_full,
    fix_scales,
    keep_row,
    kept_input,
    last_input,
    make_room,
    meet_row,
    narrow_table,
    place_of,
    prepared,
    regress_full,
    sum_up_full,
    wide_table,
)
from onebit.algorithms.onebit.ridge import learn_matrices, sum_up_matrices
from onebit.algorithms.onebit.storage import ExpertStorage
from onebit.algorithms.onebit.waves import WAVES, draw_waves, map_row
from onebit.core.jit import entry, implement, inline
from onebit.core.lanes import aligned_zeros, at, lanes_for, state_type
from onebit.core.rounds import Row, takes_gaps
from onebit.core.sums import number
from onebit.storage.full import Full

FULL_NUMBERS = 2**20  # full matrices are kept if they have no more numbers together


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


@inline
def _map_place(held, place):
    map_row(held.kept, held.mapped, held.scales, held.columns, held.waves, place)
    held.mapped_by[place] = values_of(held.columns)


@inline
def _as_input(state, place):
    held = state.held
    features, narrow = held.mapped[place], held.kept.shape[1]
    size = len(features) if held.scales[MEDIAN] > 0.0 else narrow
    row = Row(held.every, features, 0, size)
    return Input(row, narrow, number(state, 1.0), row)


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
    _map_place(held, place)
    return _as_input(state, place)


@implement(last_input, Dense)
def _last_dense(state, row):
    return _as_input(state, _present(state.held))


@implement(kept_input, Dense)
def _kept_dense(state, place):
    held = state.held
    if held.mapped_by[place] != values_of(held.columns):  # the scales have changed since
        _map_place(held, place)
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
    sum_up_matrices(held.full, _full_row(held, context), weight, held.full_sums, sums)


@implement(regress_full, Dense)
def _regress_dense(state, context, label, answer):
    learn_matrices(state.held.full, _full_row(state.held, context), label, answer)


@implement(clear_full, Dense)
def _clear_dense(state):
    table, matrix = state.held.full.table, state.held.full.held.matrix
    table[:], matrix[:] = 0.0, 0.0
    for label in range(len(matrix)):
        for j in range(matrix.shape[1]):
            matrix[label, j, j] = 1.0


@implement(meet_row, Dense)
def _meet_nothing(state, row):
    return None


@implement(fix_scales, Dense)
def _fix_scales(state, row):
    held = state.held
    are_fixed = held.scales[SEEN] >= SCALED_BY  # but for columns with missing numbers
    take_into_scales(held.scales, held.columns, held.kept[_present(held)])
    if are_fixed or not is_time_to_scale(held.scales):
        return False
    count = held.experts.count
    without_outliers(count, held.kept, held.columns, held.distances)
    held.scales[MEDIAN] = 0.0  # the distance between rows does not need Fourier features
    _map_kept(held)
    held.scales[MEDIAN] = median_distance(count, held.mapped, held.distances, held.kept.shape[1])
    _map_kept(held)
    return True


@inline
def _map_kept(held):
    count = held.experts.count
    for i in range(count[KEPT]):
        _map_place(held, place_of(count, i))


@entry
def map_kept(held):
    """`_map_kept`, for Python."""
    _map_kept(held)


# In Python.


class DenseExperts(ExpertStorage):
    """Experts of dense rows, the last of them with Fourier features."""

    planes, are_dense = 0, True
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
        self._waves, self._phase = draw_waves(columns, seed)

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
        return have_other_scales(np.where(np.isnan(kept), held.columns[CENTRE], kept))

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
