"""Experts: several models side by side, and the last rounds, to be learned again.

An expert stores two values per feature and label: a weight, and the variance of that weight. The
weights of the constant feature are in a table of their own. There are two storages:

- `SparseExperts`: rows of any width, scaled to length 1. Expert m is planes 2m and 2m + 1 of the
  learner's table; the last plane has the sums of a naive Bayes model. Numbers of dicts are
  standardised first, by the rows that were answered so far.
- `DenseExperts`: rows of a fixed number of columns. The columns are standardised, and random
  Fourier features (Rahimi & Recht 2007) of several wave lengths are added. Experts of the table
  `narrow` see the columns alone, those of the table `wide` see all features. The scales are those
  of the first rows that were answered; then they are fixed. Where it takes little room, one more
  expert is a ridge regression of the columns with full matrices (`storage.full`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from onebit.core.draws import uniforms
from onebit.core.jit import compiled_as, entry, generic, implement, inline, not_inlined, outline
from onebit.core.lanes import aligned_zeros, at, bare, lanes_for, state_type
from onebit.core.rounds import Row
from onebit.core.sums import dot, dot_and_variance, number, squared_norm
from onebit.core.updates import regress
from onebit.storage.base import Storage
from onebit.storage.full import Full
from onebit.storage.scales import (
    FARTHEST,
    MEAN,
    SPREAD,
    TIMES,
    count_number,
    scaled_number,
    value_of_number,
    within,
)

KEPT_ROUNDS = 1000
KEPT_ENTRIES = 2**18  # of the kept sparse rows together: of long rows, fewer are kept
OLDEST, KEPT, FREE, ENTRIES, HEARD = range(5)  # places in Experts.count
LABEL, RIGHT, START, SIZE = range(4)  # places in Experts.rounds
WEIGHT, EVIDENCE, OFFSET, SLOPE, CURVE, CROSS, STEEP = range(7)  # places in Experts.trust
SAID, ANSWERED = range(2)  # places in Experts.tries
STEP, SHRINKAGE = range(2)  # places in Experts.change
TARGET, PREDICTED, MOVED, PRECISION, NEWTON, AFTER = range(6)  # places in Experts.scratch

WARM = 100  # answered rows from which the scales of dense columns are taken
OUTLIER = 30.0  # deviations: farther values of these rows are clipped, to scale the columns
WAVES = 600  # random Fourier features
SHORTEST, LONGEST = 0.1, 1.0  # their wave lengths, in median distances between rows
PART = 0.25  # the length of a row's Fourier features; the columns have about 1
SEEN, MEDIAN = range(2)  # places in Dense.scales; a median of 0: scales are not fixed yet
CENTRE, SQUARES, FACTOR = range(3)  # places in Dense.columns
FULL_NUMBERS = 2**20  # full matrices are kept if they have no more numbers together
LEAST_WEIGHT = 1e-3  # of their expert; below it, their widths are not worth the time
SCALED = 2 * KEPT_ENTRIES  # where a row with scaled numbers starts
_WAVE_DRAW = 2**41  # the first stream of the draws of waves


# Compiling takes long if a record has many arrays, so few arrays hold much. It takes twice as long
# if a function is called with a constant and with a variable, as these have different types.


class Experts(NamedTuple):
    """What both storages hold, and scratch space. A lane is a label."""

    constant: Any  # [plane, lane] the weights and variances of the constant feature
    trust: Any  # [expert, 7] the expert's weight in the forecast, and the numbers behind it
    tries: Any  # [2, lane] how often the label was said, and how often that was answered
    count: Any  # [5] oldest kept round, kept rounds, first free entry, kept entries, all answers
    rounds: Any  # [4, KEPT_ROUNDS] what was said, 1 if that was right, a sparse row's place; a ring
    all_labels: Any  # [lane] the mask in which every label may be said
    sums: Any  # [plane, lane] scores and variances of the row that was summed last
    forecasts: Any  # [expert, lane] of the row that was scored last
    change: Any  # [2, lane] of the expert that learns: steps of scores, and by how much to shrink
    scratch: Any  # [6, lane] for the expert that learns; last, labels' chances after the answer


class Sparse(NamedTuple):
    """Experts of sparse rows. Kept rows lie one after the other in a ring of entries.

    A row starts within the ring, and may end beyond it: so it is in one piece.
    """

    experts: Any
    indices: Any  # [3 KEPT_ENTRIES] last, scratch space: a row with scaled numbers
    values: Any
    numbers: Any  # [1 + place, 3] statistics; -1 times: it is no number; line 0: all answers
    elsewhere: Any  # [lane] of the naive Bayes model: what occurred in rounds of other labels
    temperature: Any  # [2] its temperature, and how well that is known


class Dense(NamedTuple):
    """Experts of dense rows."""

    experts: Any
    narrow: Any  # a state: weights and variances of the columns
    wide: Any  # a state: those of the columns and the Fourier features
    full: Any  # a state: weights and full matrices of the columns and a constant; or of nothing
    full_row: Any  # scratch space: columns and constant
    full_sums: Any  # [2, lane] scratch space
    scales: Any  # [2] answered rows that were seen; median distance between rows
    columns: Any  # [3, column] mean, sum of squared distances from it, 1 / standard deviation
    waves: Any  # [column + 1, wave] a wave's directions, and last its phase, in turns
    distances: Any  # scratch space, for all pairs of the first rows
    every: Any  # 0, 1, 2, ...: the indices of the features
    kept: Any  # [KEPT_ROUNDS + 1, column] rows as they came; the last is the present one
    mapped: Any  # [KEPT_ROUNDS + 1, feature] their features


class Input(NamedTuple):
    """A context as the experts see it."""

    row: Any
    narrow: Any  # where the row ends for narrow experts
    scale: Any  # by which the values of the row are multiplied


@generic
def prepared(state, row):
    """The Input of a row."""


@generic
def last_input(state, row):
    """The Input of a row that was the last to be prepared."""


@generic
def kept_input(state, place):
    """The Input of a kept round."""


@generic
def keep_row(state, row, place):
    """Keep the row that was prepared last."""


@generic
def make_room(state, row):
    """Drop the oldest rounds as far as a row needs room; False: there is no such room."""


@generic
def narrow_table(state):
    """The table of narrow experts."""


@generic
def wide_table(state):
    """The table of wide experts."""


@generic
def fix_scales(state, row):
    """Take the row, which was prepared last, into the scales; True: they are fixed now, so that all
    is to be learned anew."""


@generic
def sum_up_full(state, context, weight, sums):
    """Scores and variances by full matrices, for an expert of this weight in the forecast."""


@generic
def regress_full(state, context, label, answer):
    """A step of the ridge regression with full matrices, towards +1 or -1."""


@generic
def clear_full(state):
    """The expert with full matrices knows nothing again."""


@inline
def keep_round(state, row, label, right):
    experts = state.held.experts
    count, rounds = experts.count, experts.rounds
    if not make_room(state, row):
        return
    if count[KEPT] == KEPT_ROUNDS:
        drop_oldest(count)
    place = place_of(count, count[KEPT])
    keep_row(state, row, place)
    rounds[LABEL, place], rounds[RIGHT, place] = label, 1 if right else 0
    count[KEPT] += 1


@inline
def drop_oldest(count):
    count[OLDEST] = place_of(count, 1)
    count[KEPT] -= 1


@inline
def place_of(count, i):
    """Where a kept round is; number 0 is the oldest."""
    return (count[OLDEST] + i) % KEPT_ROUNDS


# Sparse rows.


@inline
def _to_unit_length(state, row):
    square = squared_norm(row)
    scale = number(state, 1.0 / math.sqrt(square) if square > 0.0 else 1.0)
    return Input(row, row.stop, scale)


@inline
def _is_number(numbers, place):
    return place + 1 < len(numbers) and numbers[place + 1, TIMES] >= 0.0


@inline
def _has_numbers(held, row):
    """Whether a row has numbers: they are its last entries, as their indices are the largest."""
    size = row.stop - row.start
    if size <= 0 or size > KEPT_ENTRIES:
        return False
    return _is_number(held.numbers, at(row.indices, row.stop - 1))


@outline
def _scale_numbers(indices, values, start, stop, numbers, out_indices, out_values):
    """Copy a row, with its numbers standardised: together they have about the length of a text."""
    not_inlined()
    first = stop
    while first > start and _is_number(numbers, at(indices, first - 1)):
        first -= 1
    side = 1.0 / math.sqrt(stop - first)
    for i in range(start, stop):
        place, to = at(indices, i), SCALED + i - start
        out_indices[to] = place
        if i < first:
            out_values[to] = at(values, i)
        else:
            line, seen = numbers[place + 1], numbers[0, TIMES]
            value = value_of_number(values, i)
            z = scaled_number(value, line[TIMES], line[MEAN], line[SPREAD], seen)
            out_values[to] = side * z


@inline
def _last_sparse(state, row):
    held = state.held
    if _has_numbers(held, row):
        row = Row(held.indices, held.values, SCALED, SCALED + row.stop - row.start)
    return _to_unit_length(state, row)


@inline
def _prepared_sparse(state, row):
    held = state.held
    if _has_numbers(held, row):
        _scale_numbers(
            row.indices, row.values, row.start, row.stop, held.numbers, held.indices, held.values
        )  # fmt: skip
    return _last_sparse(state, row)


implement(prepared, Sparse)(_prepared_sparse)
implement(last_input, Sparse)(_last_sparse)


@implement(kept_input, Sparse)
def _kept_sparse(state, place):
    held = state.held
    start, size = held.experts.rounds[START, place], held.experts.rounds[SIZE, place]
    return _prepared_sparse(state, Row(held.indices, held.values, start, start + size))


@implement(make_room, Sparse)
def _make_room(state, row):
    experts, size = state.held.experts, row.stop - row.start
    count = experts.count
    if size > KEPT_ENTRIES:
        return False
    while count[KEPT] == KEPT_ROUNDS or count[ENTRIES] + size > KEPT_ENTRIES:
        count[ENTRIES] -= experts.rounds[SIZE, count[OLDEST]]
        drop_oldest(count)
    return True


@implement(keep_row, Sparse)
def _keep_sparse(state, row, place):
    held, size = state.held, row.stop - row.start
    count, rounds = held.experts.count, held.experts.rounds
    start = count[FREE]
    rounds[START, place], rounds[SIZE, place] = start, size
    for i in range(size):
        held.indices[start + i] = at(row.indices, row.start + i)
        held.values[start + i] = at(row.values, row.start + i)
    count[FREE] = (start + size) % KEPT_ENTRIES
    count[ENTRIES] += size


@implement(narrow_table, Sparse)
def _narrow_sparse(state):
    return bare(state)


@implement(wide_table, Sparse)
def _wide_sparse(state):
    return bare(state)


@implement(fix_scales, Sparse)
def _count_numbers(state, row):
    held = state.held
    if held.numbers[0, TIMES] > 0.0 or _has_numbers(held, row):
        held.numbers[0, TIMES] += 1.0
    i = row.stop - 1
    while i >= row.start and _is_number(held.numbers, at(row.indices, i)):
        line, value = held.numbers[at(row.indices, i) + 1], value_of_number(row.values, i)
        count_number(line, value)
        i -= 1
    return False


@implement(sum_up_full, Sparse)
def _sum_up_nothing(state, context, weight, sums):
    return None


@implement(regress_full, Sparse)
def _regress_nothing(state, context, label, answer):
    return None


@implement(clear_full, Sparse)
def _clear_nothing(state):
    return None


# Dense rows.


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
    """Standardise a row, and add its Fourier features once the scales are fixed."""
    not_inlined()
    row, x, count = kept[place], mapped[place], kept.shape[1]
    side, kind = 1.0 / math.sqrt(count), mapped.dtype.type
    for n in range(count, len(x)):
        x[n] = 0.0
    for j in range(count):
        z = (np.float64(row[j]) - columns[CENTRE, j]) * columns[FACTOR, j]
        z = min(max(z, -FARTHEST), FARTHEST)
        x[j] = z * side
        if scales[MEDIAN] > 0.0 and z != 0.0:
            add_waves(waves, j, kind(z), x, count)
    if scales[MEDIAN] > 0.0:
        shorter, size = 1.0 / scales[MEDIAN], PART * math.sqrt(2.0 / waves.shape[1])
        to_cosines(x, count, waves[count], kind(shorter), kind(size))


@inline
def _map_row(held, place):
    _map(held.kept, held.mapped, held.scales, held.columns, held.waves, place)


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
    if held.scales[MEDIAN] == 0.0:  # scales have changed since
        _map_row(held, place)
    return _as_input(state, place)


@implement(make_room, Dense)
def _always_room(state, row):
    return True


@implement(keep_row, Dense)
def _keep_dense(state, row, place):
    kept, mapped, present = state.held.kept, state.held.mapped, _present(state.held)
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
    if held.scales[MEDIAN] > 0.0:
        return False
    _take_into_scales(held.scales, held.columns, held.kept[_present(held)])
    if held.scales[SEEN] < WARM:
        return False
    _map_kept(held)
    count = held.experts.count
    held.scales[MEDIAN] = _median_distance(count, held.mapped, held.distances, held.kept.shape[1])
    _map_kept(held)
    return True


@inline
def _take_into_scales(scales, columns, row):
    seen, usual = scales[SEEN] + 1.0, 0.0
    scales[SEEN] = seen
    for j in range(len(row)):
        mean, spread = columns[CENTRE, j], columns[SQUARES, j]
        value = within(np.float64(row[j]), OUTLIER, seen - 1.0, mean, spread)
        off = value - mean
        columns[CENTRE, j] += off / seen
        columns[SQUARES, j] += off * (value - columns[CENTRE, j])
        usual += columns[SQUARES, j] / len(row)
    for j in range(len(row)):  # a column that was constant so far is as wide as the others
        square = columns[SQUARES, j] if columns[SQUARES, j] > 0.0 else usual
        columns[FACTOR, j] = math.sqrt(seen / square) if square > 0.0 else 0.0


@inline
def _map_kept(held):
    count = held.experts.count
    for i in range(count[KEPT]):
        _map_row(held, place_of(count, i))


@entry
def map_kept(held):
    """The same, for Python."""
    _map_kept(held)


@outline
def _median_distance(count, mapped, distances, columns):
    """Between the standardised kept rows; with no two of them, what is expected."""
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


class _ExpertStorage(Storage):
    """What both storages have in common."""

    def __init__(
        self,
        priors: Sequence[float],
        trust: Sequence[Sequence[float]],
        dtype: Any,
    ) -> None:
        """priors: the variances to start from. trust: what it starts from, a line per expert; the
        experts' weights follow from it."""
        self.priors, self._trust = np.array(priors), np.array(trust)
        self._dtype = np.dtype(dtype)

    def _table(self, features: int, priors: np.ndarray, labels: int, saved: Any = None) -> Any:
        """A state of weights and variances, with those that were saved of fewer labels."""
        lanes = lanes_for(labels)
        table = aligned_zeros((features, 2 * len(priors), lanes), self._dtype)
        table[:, 1::2] = priors[:, None]
        if saved is not None:
            table[:, :, : saved.shape[2]] = saved
        return state_type(lanes)(table, np.empty(0))

    def _experts(self, arrays: dict[str, np.ndarray], labels: int, besides: int = 0) -> Experts:
        """besides: how many experts there are without planes of their own."""
        count, lanes = len(self.priors) + besides, lanes_for(labels)
        constant = self._table(1, self.priors, labels, arrays.get("constant"))
        experts = Experts(
            constant=constant.table[0],
            trust=self._trust[:count].copy(),
            tries=np.zeros((2, lanes)),
            count=np.zeros(5, np.int64),
            rounds=np.zeros((4, KEPT_ROUNDS), np.int64),
            all_labels=np.where(np.arange(lanes) < labels, 0, -np.inf).astype(self._dtype),
            sums=aligned_zeros((2 * count, lanes), self._dtype),
            forecasts=np.zeros((count, lanes)),
            change=aligned_zeros((2, lanes), self._dtype),
            scratch=np.zeros((6, lanes)),
        )
        if arrays:
            experts.trust[:] = arrays["trust"][:count]
        if count != len(arrays.get("trust", [])):  # it is new, or an expert has gone
            evidence = experts.trust[:, EVIDENCE]
            weights = np.exp(evidence - evidence.max())
            experts.trust[:, WEIGHT] = weights / weights.sum()
        if arrays:
            before = len(arrays["times_said"])
            experts.tries[SAID, :before] = arrays["times_said"]
            experts.tries[ANSWERED, :before] = arrays["times_answered"]
            kept = len(arrays["said"])
            experts.rounds[LABEL, :kept] = arrays["said"]
            experts.rounds[RIGHT, :kept] = arrays["rights"]
            experts.count[KEPT], experts.count[HEARD] = kept, arrays["heard"][0]
        return experts

    def _places(self, experts: Experts) -> np.ndarray:
        """Where the kept rounds are, oldest first."""
        return (experts.count[OLDEST] + np.arange(experts.count[KEPT])) % KEPT_ROUNDS

    def arrays(self, held: Any, features: int, labels: int) -> dict[str, np.ndarray]:
        experts = held.experts
        places = self._places(experts)
        return {
            "constant": experts.constant[None, :, :labels].copy(),
            "trust": experts.trust.copy(),
            "times_said": experts.tries[SAID, :labels].copy(),
            "times_answered": experts.tries[ANSWERED, :labels].copy(),
            "said": experts.rounds[LABEL, places],
            "rights": experts.rounds[RIGHT, places].astype(np.uint8),
            "heard": experts.count[HEARD:].copy(),
        }

    def _shapes(self, kept: int, labels: int, besides: int) -> dict[str, tuple[Any, Any]]:
        """Shape and type of each array; None: any length."""
        count = len(self.priors)
        return {
            "constant": ((1, 2 * count, labels), self._dtype),
            "trust": ((count + besides, self._trust.shape[1]), np.float64),
            "times_said": ((labels,), np.float64),
            "times_answered": ((labels,), np.float64),
            "said": ((kept,), np.int64),
            "rights": ((kept,), np.uint8),
            "heard": ((1,), np.int64),
        }

    def fits(self, arrays: dict[str, np.ndarray], features: int, labels: int) -> bool:
        kept = len(np.atleast_1d(arrays.get("said", np.empty(0))))
        shapes = self._shapes(kept, labels, "matrix" in arrays)
        if arrays.keys() != shapes.keys() or kept > KEPT_ROUNDS:
            return False
        for name, (shape, dtype) in shapes.items():
            array = arrays[name]
            if array.dtype != dtype or array.shape != (shape or (array.size,)):
                return False
        said = arrays["said"]
        return bool(
            ((said >= 0) & (said < labels)).all()
            and (arrays["rights"] <= 1).all()
            and arrays["heard"][0] >= kept
        )

    def is_sound(self, table: np.ndarray, arrays: dict[str, np.ndarray]) -> bool:
        trust = arrays["trust"]
        weights = trust[:, WEIGHT]
        determinant = trust[:, CURVE] * trust[:, STEEP] - trust[:, CROSS] ** 2
        return bool(
            self._are_variances(arrays["constant"], self.priors)
            and (weights >= 0).all()
            and abs(weights.sum() - 1) < 1e-6
            and (trust[:, EVIDENCE] <= 0).all()
            and (determinant > 0).all()
            and (arrays["times_said"] >= 0).all()
            and (arrays["times_answered"] >= 0).all()
        )

    @staticmethod
    def _are_variances(table: np.ndarray, priors: np.ndarray) -> bool:
        variances = table[:, 1::2]
        return bool(((variances >= 0) & (variances <= priors[:, None] * (1 + 1e-5))).all())

    def size(self, features: int, labels: int) -> int:
        number = self._dtype.itemsize
        lanes = lanes_for(labels) * len(self.priors) * (5 * number + 32)
        return lanes + 32 * KEPT_ROUNDS

    def faded(
        self, table: np.ndarray, arrays: dict[str, np.ndarray], keep: float
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Weights as if a share of the answers had been heard; the newest rounds stay kept."""
        dropped = len(arrays["said"]) - int(keep * len(arrays["said"]))
        trust = arrays["trust"].copy()
        trust[:, EVIDENCE] *= keep
        return table, arrays | {
            "constant": self._faded_table(arrays["constant"], self.priors, keep),
            "trust": trust,
            "times_said": keep * arrays["times_said"],
            "times_answered": keep * arrays["times_answered"],
            "said": arrays["said"][dropped:],
            "rights": arrays["rights"][dropped:],
        }

    def _faded_table(self, table: np.ndarray, priors: np.ndarray, keep: float) -> np.ndarray:
        dtype, table = table.dtype, table.astype(np.float64)
        grown = keep + (1 - keep) * (table[:, 1::2] / priors[:, None])
        table[:, 0::2] *= keep / grown
        table[:, 1::2] /= grown
        return table.astype(dtype)


class SparseExperts(_ExpertStorage):
    """Experts of sparse rows."""

    maps_features = True

    def __init__(self, *start: Any, alpha: float, temperature: Sequence[float]) -> None:
        """start: as for all experts. alpha: where the sums of naive Bayes start."""
        super().__init__(*start)
        self.alpha, self._temperature = alpha, np.array(temperature)
        self.planes = 2 * len(self.priors) + 1

    def lay_out(self, arrays: dict[str, np.ndarray], features: int, labels: int) -> Sparse:
        held = Sparse(
            experts=self._experts(arrays, labels, besides=1),
            indices=np.zeros(SCALED + KEPT_ENTRIES, np.uint32),
            values=np.zeros(SCALED + KEPT_ENTRIES, self._dtype),
            numbers=np.zeros((1, 3)),
            elsewhere=np.zeros(lanes_for(labels)),
            temperature=self._temperature.copy(),
        )
        if arrays:
            elsewhere = arrays["elsewhere"]
            held.temperature[:], held.elsewhere[: len(elsewhere)] = arrays["temperature"], elsewhere
            sizes, entries = arrays["sizes"], len(arrays["indices"])
            rounds, count = held.experts.rounds, held.experts.count
            rounds[SIZE, : len(sizes)] = sizes
            rounds[START, : len(sizes)] = np.cumsum(sizes) - sizes
            held.indices[:entries], held.values[:entries] = arrays["indices"], arrays["values"]
            count[FREE], count[ENTRIES] = entries % KEPT_ENTRIES, entries
        if "numbers" in arrays:
            held = self.with_numbers(held, arrays["number_places"])
            held.numbers[1:][arrays["number_places"]] = arrays["numbers"]
            held.numbers[0, TIMES] = arrays["numbers_seen"][0]
        return held

    def with_numbers(self, held: Sparse, places: np.ndarray) -> Sparse:
        """The record, in which there are numbers at these places of the table."""
        size = int(places.max()) + 2
        if size > len(held.numbers):
            numbers = np.full((max(size, 2 * len(held.numbers)), 3), [-1.0, 0.0, 0.0])
            numbers[: len(held.numbers)] = held.numbers
            held = held._replace(numbers=numbers)
        times = held.numbers[1:, TIMES]
        times[places] = np.maximum(times[places], 0.0)
        return held

    def arrays(self, held: Sparse, features: int, labels: int) -> dict[str, np.ndarray]:
        places, rounds = self._places(held.experts), held.experts.rounds
        starts, sizes = rounds[START, places], rounds[SIZE, places]
        before = np.cumsum(sizes) - sizes
        entries = np.arange(sizes.sum()) + np.repeat(starts - before, sizes)
        numbers = np.flatnonzero(held.numbers[1:, TIMES] >= 0)
        return (
            super().arrays(held, features, labels)
            | {
                "sizes": sizes,
                "indices": held.indices[entries],
                "values": held.values[entries],
                "elsewhere": held.elsewhere[:labels].copy(),
                "temperature": held.temperature.copy(),
            }
            | (self._number_arrays(held, numbers) if len(numbers) else {})
        )

    @staticmethod
    def _number_arrays(held: Sparse, places: np.ndarray) -> dict[str, np.ndarray]:
        return {
            "number_places": places.astype(np.uint32),
            "numbers": held.numbers[1:][places],
            "numbers_seen": held.numbers[:1, TIMES].copy(),
        }

    def moved(self, arrays: dict[str, np.ndarray], places: np.ndarray) -> dict[str, np.ndarray]:
        arrays = arrays | {"indices": places[arrays["indices"]].astype(np.uint32)}
        if "numbers" in arrays:
            numbers = places[arrays["number_places"]].astype(np.uint32)
            order = np.argsort(numbers)
            arrays |= {"number_places": numbers[order], "numbers": arrays["numbers"][order]}
        return arrays

    def _shapes(self, kept: int, labels: int, besides: int) -> dict[str, tuple[Any, Any]]:
        return super()._shapes(kept, labels, besides=1) | {
            "sizes": ((kept,), np.int64),
            "indices": (None, np.uint32),
            "values": (None, self._dtype),
            "elsewhere": ((labels,), np.float64),
            "temperature": ((2,), np.float64),
        }

    def fits(self, arrays: dict[str, np.ndarray], features: int, labels: int) -> bool:
        of_numbers = ("number_places", "numbers", "numbers_seen")
        others = {name: array for name, array in arrays.items() if name not in of_numbers}
        if not super().fits(others, features, labels):
            return False
        sizes, indices = arrays["sizes"], arrays["indices"]
        return bool(
            (sizes > 0).all()
            and len(indices) == len(arrays["values"]) == sizes.sum() <= KEPT_ENTRIES
            and (indices < features).all()
            and (len(others) == len(arrays) or self._are_numbers(arrays, features))
        )

    @staticmethod
    def _are_numbers(arrays: dict[str, np.ndarray], features: int) -> bool:
        try:
            places, numbers, seen = (
                arrays[name] for name in ("number_places", "numbers", "numbers_seen")
            )
        except KeyError:
            return False
        return bool(
            (places.dtype, numbers.dtype, seen.dtype) == (np.uint32, np.float64, np.float64)
            and places.ndim == 1
            and (numbers.shape, seen.shape) == ((len(places), 3), (1,))
            and len(places) > 0
            and (places[1:] > places[:-1]).all()
            and places[-1] < features
        )

    def is_sound(self, table: np.ndarray, arrays: dict[str, np.ndarray]) -> bool:
        times = arrays.get("numbers", np.zeros((0, 3)))[:, [TIMES, SPREAD]]
        return (
            super().is_sound(table, arrays)
            and self._are_variances(table[:, :-1], self.priors)
            and bool((table[:, -1] >= (1 - 1e-5) * self.alpha).all())
            and bool((arrays["elsewhere"] >= 0).all() and (arrays["temperature"] > 0).all())
            and bool((times >= 0).all())
            and bool((times[:, 0] <= arrays.get("numbers_seen", np.inf)).all())
        )

    def size(self, features: int, labels: int) -> int:
        entries = 3 * KEPT_ENTRIES * (4 + self._dtype.itemsize)
        return super().size(features, labels) + entries

    def swing(self, features: int) -> int:
        entries = min(KEPT_ENTRIES, KEPT_ROUNDS * features)
        return 17 * KEPT_ROUNDS + entries * (4 + self._dtype.itemsize)

    def faded(
        self, table: np.ndarray, arrays: dict[str, np.ndarray], keep: float
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        kept = len(arrays["sizes"])
        table, arrays = super().faded(table, arrays, keep)
        dropped = kept - len(arrays["said"])
        entries = int(arrays["sizes"][:dropped].sum())
        arrays |= {"sizes": arrays["sizes"][dropped:]}
        arrays |= {name: arrays[name][entries:] for name in ("indices", "values")}
        if "numbers" in arrays:
            arrays |= {
                "numbers": arrays["numbers"] * [keep, 1.0, keep],
                "numbers_seen": keep * arrays["numbers_seen"],
            }
        arrays |= {
            "elsewhere": keep * arrays["elsewhere"],
            "temperature": arrays["temperature"] * [1.0, keep],
        }
        sums = self.alpha + keep * (table[:, -1:] - self.alpha)
        weights = self._faded_table(table[:, :-1], self.priors, keep)
        return np.concatenate([weights, sums], axis=1), arrays


class DenseExperts(_ExpertStorage):
    """Experts of dense rows, the last of them with Fourier features."""

    planes = 0
    advice = "Use fewer columns"

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
        """A state of full matrices; of no feature where there is no room.

        Where the arrays have none, neither: there is no telling what it would have learned.
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
            columns=np.zeros((3, columns)),
            waves=np.vstack([self._waves, self._phase]).astype(dtype),
            distances=np.zeros(WARM * (WARM - 1) // 2),
            every=np.arange(size, dtype=np.uint32),
            kept=np.zeros((KEPT_ROUNDS + 1, columns)),
            mapped=np.zeros((KEPT_ROUNDS + 1, size), dtype),
        )
        if arrays:
            held.scales[:], held.columns[:] = arrays["scales"], arrays["columns"]
            held.kept[: len(arrays["kept"])] = arrays["kept"]
            map_kept(held)
        return held

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
                "columns": ((3, columns), np.float64),
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
        own = number * (2 * tables * lanes_for(labels) + rows) + 8 * KEPT_ROUNDS * self.columns
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
            full, matrix = self._full.faded(arrays["full"].copy(), arrays, keep)
            arrays |= {"full": full, **matrix}
        return table, arrays | {
            "narrow": self._faded_table(arrays["narrow"], self.narrow_priors, keep),
            "wide": self._faded_table(arrays["wide"], self.wide_priors, keep),
            "kept": arrays["kept"][len(arrays["kept"]) - len(arrays["said"]) :],
        }
