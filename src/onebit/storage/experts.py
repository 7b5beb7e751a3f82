"""Experts: several models side by side, and the last rounds, to be learned again.

An expert stores two values per feature and label: a weight, and the variance of that weight. The
weights of the constant feature are in a table of their own. There are two storages:

- `SparseExperts`: rows of any width, scaled to length 1. Expert m is planes 2m and 2m + 1 of the
  learner's table.
- `DenseExperts`: rows of a fixed number of columns. The columns are standardised, and random
  Fourier features (Rahimi & Recht 2007) of several wave lengths are added. Experts of the table
  `narrow` see the columns alone, those of the table `wide` see all features. The scales are those
  of the first rows that were answered; then they are fixed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from onebit.core.draws import uniforms
from onebit.core.jit import compiled_as, entry, generic, implement, inline, not_inlined, outline
from onebit.core.lanes import aligned_zeros, at, lanes_for, state_type
from onebit.core.rounds import Row
from onebit.core.sums import number, squared_norm
from onebit.storage.base import Storage

KEPT_ROUNDS = 1000
KEPT_ENTRIES = 2**18  # of the kept sparse rows together: of long rows, fewer are kept
OLDEST, KEPT, FREE, ENTRIES, HEARD = range(5)  # places in Experts.count
WEIGHT, EVIDENCE, OFFSET, SLOPE, CURVE, CROSS, STEEP = range(7)  # places in Experts.trust
SAID, ANSWERED = range(2)  # places in Experts.tries

WARM = 100  # answered rows from which the scales of dense columns are taken
WAVES = 600  # random Fourier features
SHORTEST, LONGEST = 0.1, 1.0  # their wave lengths, in median distances between rows
PART = 0.25  # the length of a row's Fourier features; the columns have about 1
FARTHEST = 5.0  # standard deviations: columns are clipped there
SEEN, MEDIAN = range(2)  # places in Dense.scales; a median of 0: scales are not fixed yet
_WAVE_DRAW = 2**41  # the first stream of the draws of waves


class Experts(NamedTuple):
    """What both storages hold, and scratch space."""

    constant: Any  # a state: the weights and variances of the constant feature
    trust: Any  # [expert, 7] the expert's weight in the forecast, and the numbers behind it
    tries: Any  # [2, label] how often the label was said, and how often that was answered
    count: Any  # [5] oldest kept round, kept rounds, first free entry, kept entries, all answers
    labels: Any  # [KEPT_ROUNDS] what was said, a ring
    rights: Any  # [KEPT_ROUNDS] 1 if that was right, else 0
    all_labels: Any  # the mask in which every label may be said
    scores: Any  # [expert, label] of the row that was scored last
    variances: Any
    forecasts: Any
    target: Any  # [label] from here on, for the expert that learns
    predicted: Any
    moved: Any
    step: Any
    shrink: Any


class Sparse(NamedTuple):
    """Experts of sparse rows. Kept rows lie one after the other in a ring of entries."""

    experts: Any
    starts: Any  # [KEPT_ROUNDS] where a kept row starts
    sizes: Any  # [KEPT_ROUNDS] how many entries it has
    indices: Any  # [KEPT_ENTRIES]
    values: Any
    row_indices: Any  # [KEPT_ENTRIES] a kept row, in one piece
    row_values: Any


class Dense(NamedTuple):
    """Experts of dense rows."""

    experts: Any
    narrow: Any  # a state: weights and variances of the columns
    wide: Any  # a state: those of the columns and the Fourier features
    scales: Any  # [2] answered rows that were seen; median distance between rows
    centre: Any  # [column] mean
    squares: Any  # [column] sum of squared distances from the mean
    factor: Any  # [column] 1 / standard deviation
    waves: Any  # [column, wave] a wave's directions, in turns
    phase: Any  # [wave] in turns
    angles: Any  # [wave] scratch space
    distances: Any  # scratch space, for all pairs of the first rows
    row: Any  # [column] scratch space: the row as it came
    every: Any  # 0, 1, 2, ...: the indices of the features
    x: Any  # [feature] the features of the last row
    kept: Any  # [KEPT_ROUNDS, column] rows as they came
    mapped: Any  # [KEPT_ROUNDS, feature] their features


class Input(NamedTuple):
    """A context as the experts see it."""

    narrow: Any  # Row
    wide: Any  # Row
    scale: Any  # by which the values of the rows are multiplied


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
    """The table for narrow rows."""


@generic
def wide_table(state):
    """The table for wide rows."""


@generic
def fix_scales(state, row):
    """Take a row into the scales; True: they are fixed now, so that all is to be learned anew."""


@inline
def keep_round(state, row, label, right):
    experts = state.held.experts
    count = experts.count
    if not make_room(state, row):
        return
    if count[KEPT] == KEPT_ROUNDS:
        drop_oldest(count)
    place = (count[OLDEST] + count[KEPT]) % KEPT_ROUNDS
    keep_row(state, row, place)
    experts.labels[place], experts.rights[place] = label, 1 if right else 0
    count[KEPT] += 1


@inline
def drop_oldest(count):
    count[OLDEST] = (count[OLDEST] + 1) % KEPT_ROUNDS
    count[KEPT] -= 1


# Sparse rows.


@inline
def _to_unit_length(state, row):
    square = squared_norm(row)
    scale = number(state, 1.0 / math.sqrt(square) if square > 0.0 else 1.0)
    return Input(row, row, scale)


implement(prepared, Sparse)(_to_unit_length)
implement(last_input, Sparse)(_to_unit_length)


@implement(kept_input, Sparse)
def _kept_sparse(state, place):
    held = state.held
    start, size = held.starts[place], held.sizes[place]
    for i in range(size):
        entry = (start + i) % KEPT_ENTRIES
        held.row_indices[i] = held.indices[entry]
        held.row_values[i] = held.values[entry]
    return _to_unit_length(state, Row(held.row_indices, held.row_values, 0, size))


@implement(make_room, Sparse)
def _make_room(state, row):
    held, size = state.held, row.stop - row.start
    count = held.experts.count
    if size > KEPT_ENTRIES:
        return False
    while count[KEPT] == KEPT_ROUNDS or count[ENTRIES] + size > KEPT_ENTRIES:
        count[ENTRIES] -= held.sizes[count[OLDEST]]
        drop_oldest(count)
    return True


@implement(keep_row, Sparse)
def _keep_sparse(state, row, place):
    held, size = state.held, row.stop - row.start
    count = held.experts.count
    held.starts[place], held.sizes[place] = count[FREE], size
    for i in range(size):
        entry = (count[FREE] + i) % KEPT_ENTRIES
        held.indices[entry] = at(row.indices, row.start + i)
        held.values[entry] = at(row.values, row.start + i)
    count[FREE] = (count[FREE] + size) % KEPT_ENTRIES
    count[ENTRIES] += size


@implement(narrow_table, Sparse)
def _narrow_sparse(state):
    return state


@implement(wide_table, Sparse)
def _wide_sparse(state):
    return state


@implement(fix_scales, Sparse)
def _no_scales(state, row):
    return False


# Dense rows.


def _cosine_series() -> list[float]:
    """The series of cos(2 pi r) in powers of r^2, accurate to 1e-8 for |r| <= 1/2."""
    return [(-1) ** n * (2 * math.pi) ** (2 * n) / math.factorial(2 * n) for n in range(10)]


_C0, _C1, _C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9 = _cosine_series()


def add_waves(waves: Any, column: Any, z: Any, angles: Any) -> None:
    """angles += z waves[column]."""
    angles += z * waves[column]


@compiled_as(add_waves)
def _add_waves(waves, column, z, angles):
    for n in range(len(angles)):
        angles[n] += z * waves[column, n]


def cosines(angles: Any, phase: Any, shorter: Any, size: Any, out: Any, start: Any) -> None:
    """out[start:] = size cos(2 pi (angles shorter + phase)): no library's cosine is vectorised."""
    t = angles * shorter + phase
    r = t - np.floor(t + 0.5)
    s = r * r
    total = _C8 + s * _C9
    for c in (_C7, _C6, _C5, _C4, _C3, _C2, _C1, _C0):
        total = c + s * total
    out[start : start + len(angles)] = size * total


@compiled_as(cosines)
def _cosines(angles, phase, shorter, size, out, start):
    kind = angles.dtype.type  # or all would be worked out in double precision
    half, c0, c1, c2, c3 = kind(0.5), kind(_C0), kind(_C1), kind(_C2), kind(_C3)
    c4, c5, c6, c7, c8, c9 = kind(_C4), kind(_C5), kind(_C6), kind(_C7), kind(_C8), kind(_C9)
    for n in range(len(angles)):
        t = angles[n] * shorter + phase[n]
        r = t - np.floor(t + half)
        s = r * r
        high = c4 + s * (c5 + s * (c6 + s * (c7 + s * (c8 + s * c9))))
        out[start + n] = size * (c0 + s * (c1 + s * (c2 + s * (c3 + s * high))))


@outline
def _map(held, row, x):
    """Standardise a row [column], and add its Fourier features once the scales are fixed."""
    not_inlined()
    columns, angles = len(row), held.angles
    side = 1.0 / math.sqrt(columns)
    for n in range(len(angles)):
        angles[n] = 0.0
    for j in range(columns):
        z = (np.float64(row[j]) - held.centre[j]) * held.factor[j]
        z = min(max(z, -FARTHEST), FARTHEST)
        x[j] = z * side
        if held.scales[MEDIAN] > 0.0 and z != 0.0:
            add_waves(held.waves, j, angles.dtype.type(z), angles)
    if held.scales[MEDIAN] > 0.0:
        shorter, size = 1.0 / held.scales[MEDIAN], PART * math.sqrt(2.0 / len(angles))
        kind = angles.dtype.type
        cosines(angles, held.phase, kind(shorter), kind(size), x, columns)


@inline
def _as_input(state, x):
    held = state.held
    columns = len(held.row)
    size = len(held.x) if held.scales[MEDIAN] > 0.0 else columns
    narrow, wide = Row(held.every, x, 0, columns), Row(held.every, x, 0, size)
    return Input(narrow, wide, number(state, 1.0))


@inline
def _spread_out(held, row):
    held.row[:] = 0.0
    for i in range(row.start, row.stop):
        held.row[at(row.indices, i)] = at(row.values, i)


@implement(prepared, Dense)
def _prepared_dense(state, row):
    held = state.held
    _spread_out(held, row)
    _map(held, held.row, held.x)
    return _as_input(state, held.x)


@implement(last_input, Dense)
def _last_dense(state, row):
    return _as_input(state, state.held.x)


@implement(kept_input, Dense)
def _kept_dense(state, place):
    held = state.held
    if held.scales[MEDIAN] == 0.0:  # scales have changed since
        _map(held, held.kept[place], held.mapped[place])
    return _as_input(state, held.mapped[place])


@implement(make_room, Dense)
def _always_room(state, row):
    return True


@implement(keep_row, Dense)
def _keep_dense(state, row, place):
    held = state.held
    kept, mapped = held.kept[place], held.mapped[place]
    for j in range(len(kept)):
        kept[j] = held.row[j]
    for j in range(len(mapped)):
        mapped[j] = held.x[j]


@implement(narrow_table, Dense)
def _narrow_dense(state):
    return state.held.narrow


@implement(wide_table, Dense)
def _wide_dense(state):
    return state.held.wide


@implement(fix_scales, Dense)
def _fix_scales(state, row):
    held = state.held
    if held.scales[MEDIAN] > 0.0:
        return False
    held.scales[SEEN] += 1.0
    seen, columns = held.scales[SEEN], len(held.row)
    usual = 0.0
    for j in range(columns):
        value = np.float64(held.row[j])
        off = value - held.centre[j]
        held.centre[j] += off / seen
        held.squares[j] += off * (value - held.centre[j])
        usual += held.squares[j] / columns
    for j in range(columns):  # a column that was constant so far is as wide as the others
        square = held.squares[j] if held.squares[j] > 0.0 else usual
        held.factor[j] = math.sqrt(seen / square) if square > 0.0 else 0.0
    if seen < WARM:
        return False
    _map_kept(held)
    held.scales[MEDIAN] = _median_distance(held)
    _map_kept(held)
    return True


@inline
def _map_kept(held):
    count = held.experts.count
    for i in range(count[KEPT]):
        place = (count[OLDEST] + i) % KEPT_ROUNDS
        _map(held, held.kept[place], held.mapped[place])


@entry
def map_kept(held):
    """The same, for Python."""
    _map_kept(held)


@outline
def _median_distance(held):
    """Between the standardised kept rows; with no two of them, what is expected."""
    not_inlined()
    count, columns = held.experts.count, len(held.row)
    kept = count[KEPT]
    size, longest = 0, 0.0
    for i in range(kept):
        a = held.mapped[(count[OLDEST] + i) % KEPT_ROUNDS]
        for k in range(i):
            b = held.mapped[(count[OLDEST] + k) % KEPT_ROUNDS]
            square = 0.0
            for j in range(columns):
                square += (np.float64(a[j]) - np.float64(b[j])) ** 2
            held.distances[size] = math.sqrt(columns * square)
            longest = max(longest, held.distances[size])
            size += 1
    if longest == 0.0:
        return math.sqrt(2.0 * columns)
    low, high = 0.0, longest
    for _ in range(50):  # bisection: nothing may be allocated here
        middle, below = 0.5 * (low + high), 0
        for n in range(size):
            below += held.distances[n] <= middle
        if 2 * below >= size:
            high = middle
        else:
            low = middle
    return high


# In Python.


class _ExpertStorage(Storage):
    """What both storages have in common."""

    def __init__(self, priors: Sequence[float], calibration: Sequence[float], dtype: Any) -> None:
        """priors: the variances to start from. calibration: a line of `trust` to start from."""
        self.priors, self.calibration = np.array(priors), np.array(calibration)
        self._dtype = np.dtype(dtype)

    def _table(self, features: int, priors: np.ndarray, labels: int, saved: Any = None) -> Any:
        """A state of weights and variances, with those that were saved of fewer labels."""
        lanes = lanes_for(labels)
        table = aligned_zeros((features, 2 * len(priors), lanes), self._dtype)
        table[:, 1::2] = priors[:, None]
        if saved is not None:
            table[:, :, : saved.shape[2]] = saved
        return state_type(lanes)(table, np.empty(0))

    def _experts(self, arrays: dict[str, np.ndarray], labels: int) -> Experts:
        count, lanes = len(self.priors), lanes_for(labels)
        experts = Experts(
            constant=self._table(1, self.priors, labels, arrays.get("constant")),
            trust=np.tile(self.calibration, (count, 1)),
            tries=np.zeros((2, lanes)),
            count=np.zeros(5, np.int64),
            labels=np.zeros(KEPT_ROUNDS, np.int64),
            rights=np.zeros(KEPT_ROUNDS, np.uint8),
            all_labels=np.where(np.arange(lanes) < labels, 0, -np.inf).astype(self._dtype),
            scores=aligned_zeros((count, lanes), self._dtype),
            variances=aligned_zeros((count, lanes), self._dtype),
            forecasts=np.zeros((count, lanes)),
            target=np.zeros(lanes),
            predicted=np.zeros(lanes),
            moved=np.zeros(lanes),
            step=aligned_zeros((lanes,), self._dtype),
            shrink=aligned_zeros((lanes,), self._dtype),
        )
        if arrays:
            experts.trust[:] = arrays["trust"]
            before = len(arrays["times_said"])
            experts.tries[SAID, :before] = arrays["times_said"]
            experts.tries[ANSWERED, :before] = arrays["times_answered"]
            kept = len(arrays["said"])
            experts.labels[:kept], experts.rights[:kept] = arrays["said"], arrays["rights"]
            experts.count[KEPT], experts.count[HEARD] = kept, arrays["heard"][0]
        return experts

    def _places(self, experts: Experts) -> np.ndarray:
        """Where the kept rounds are, oldest first."""
        return (experts.count[OLDEST] + np.arange(experts.count[KEPT])) % KEPT_ROUNDS

    def arrays(self, held: Any, features: int, labels: int) -> dict[str, np.ndarray]:
        experts = held.experts
        places = self._places(experts)
        return {
            "constant": experts.constant.table[:, :, :labels].copy(),
            "trust": experts.trust.copy(),
            "times_said": experts.tries[SAID, :labels].copy(),
            "times_answered": experts.tries[ANSWERED, :labels].copy(),
            "said": experts.labels[places],
            "rights": experts.rights[places],
            "heard": experts.count[HEARD:].copy(),
        }

    def _shapes(self, kept: int, features: int, labels: int) -> dict[str, tuple[Any, Any]]:
        """Shape and type of each array; None: any length."""
        return {
            "constant": ((1, 2 * len(self.priors), labels), self._dtype),
            "trust": ((len(self.priors), len(self.calibration)), np.float64),
            "times_said": ((labels,), np.float64),
            "times_answered": ((labels,), np.float64),
            "said": ((kept,), np.int64),
            "rights": ((kept,), np.uint8),
            "heard": ((1,), np.int64),
        }

    def fits(self, arrays: dict[str, np.ndarray], features: int, labels: int) -> bool:
        kept = len(np.atleast_1d(arrays.get("said", np.empty(0))))
        shapes = self._shapes(kept, features, labels)
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
        return lanes + 9 * KEPT_ROUNDS

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

    def __init__(self, priors: Sequence[float], calibration: Sequence[float], dtype: Any) -> None:
        super().__init__(priors, calibration, dtype)
        self.planes = 2 * len(priors)

    def lay_out(self, arrays: dict[str, np.ndarray], features: int, labels: int) -> Sparse:
        held = Sparse(
            experts=self._experts(arrays, labels),
            starts=np.zeros(KEPT_ROUNDS, np.int64),
            sizes=np.zeros(KEPT_ROUNDS, np.int64),
            indices=np.zeros(KEPT_ENTRIES, np.uint32),
            values=np.zeros(KEPT_ENTRIES, self._dtype),
            row_indices=np.zeros(KEPT_ENTRIES, np.uint32),
            row_values=np.zeros(KEPT_ENTRIES, self._dtype),
        )
        if arrays:
            sizes, entries = arrays["sizes"], len(arrays["indices"])
            held.sizes[: len(sizes)] = sizes
            held.starts[: len(sizes)] = np.cumsum(sizes) - sizes
            held.indices[:entries], held.values[:entries] = arrays["indices"], arrays["values"]
            count = held.experts.count
            count[FREE], count[ENTRIES] = entries % KEPT_ENTRIES, entries
        return held

    def arrays(self, held: Sparse, features: int, labels: int) -> dict[str, np.ndarray]:
        count = held.experts.count
        entries = (count[FREE] - count[ENTRIES] + np.arange(count[ENTRIES])) % KEPT_ENTRIES
        return super().arrays(held, features, labels) | {
            "sizes": held.sizes[self._places(held.experts)],
            "indices": held.indices[entries],
            "values": held.values[entries],
        }

    def moved(self, arrays: dict[str, np.ndarray], places: np.ndarray) -> dict[str, np.ndarray]:
        return arrays | {"indices": places[arrays["indices"]].astype(np.uint32)}

    def _shapes(self, kept: int, features: int, labels: int) -> dict[str, tuple[Any, Any]]:
        return super()._shapes(kept, features, labels) | {
            "sizes": ((kept,), np.int64),
            "indices": (None, np.uint32),
            "values": (None, self._dtype),
        }

    def fits(self, arrays: dict[str, np.ndarray], features: int, labels: int) -> bool:
        if not super().fits(arrays, features, labels):
            return False
        sizes, indices = arrays["sizes"], arrays["indices"]
        return bool(
            (sizes > 0).all()
            and len(indices) == len(arrays["values"]) == sizes.sum() <= KEPT_ENTRIES
            and (indices < features).all()
        )

    def is_sound(self, table: np.ndarray, arrays: dict[str, np.ndarray]) -> bool:
        return super().is_sound(table, arrays) and self._are_variances(table, self.priors)

    def size(self, features: int, labels: int) -> int:
        entries = 2 * KEPT_ENTRIES * (4 + self._dtype.itemsize)
        return super().size(features, labels) + 16 * KEPT_ROUNDS + entries

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
        return self._faded_table(table, self.priors, keep), arrays


class DenseExperts(_ExpertStorage):
    """Experts of dense rows, the last of them with Fourier features."""

    planes = 0
    advice = "Use fewer columns"

    def __init__(
        self,
        priors: Sequence[float],
        narrow: int,
        calibration: Sequence[float],
        columns: int,
        seed: int,
        dtype: Any,
    ) -> None:
        """narrow: how many experts see the columns alone."""
        super().__init__(priors, calibration, dtype)
        self.columns, self.seed = columns, seed
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

    def lay_out(self, arrays: dict[str, np.ndarray], features: int, labels: int) -> Dense:
        columns, dtype = self.columns, self._dtype
        size = columns + WAVES
        held = Dense(
            experts=self._experts(arrays, labels),
            narrow=self._table(columns, self.narrow_priors, labels, arrays.get("narrow")),
            wide=self._table(size, self.wide_priors, labels, arrays.get("wide")),
            scales=np.zeros(2),
            centre=np.zeros(columns),
            squares=np.zeros(columns),
            factor=np.zeros(columns),
            waves=self._waves.astype(dtype),
            phase=self._phase.astype(dtype),
            angles=np.zeros(WAVES, dtype),
            distances=np.zeros(WARM * (WARM - 1) // 2),
            row=np.zeros(columns, dtype),
            every=np.arange(size, dtype=np.uint32),
            x=np.zeros(size, dtype),
            kept=np.zeros((KEPT_ROUNDS, columns), dtype),
            mapped=np.zeros((KEPT_ROUNDS, size), dtype),
        )
        if arrays:
            for name in ("scales", "centre", "squares", "factor"):
                getattr(held, name)[:] = arrays[name]
            held.kept[: len(arrays["kept"])] = arrays["kept"]
            map_kept(held)
        return held

    def room(self, held: Dense) -> int:
        return self.columns

    def weights(self, held: Dense, labels: int) -> np.ndarray:
        return held.narrow.table[:, 0, :labels].T.copy()

    def arrays(self, held: Dense, features: int, labels: int) -> dict[str, np.ndarray]:
        own = {name: getattr(held, name) for name in ("scales", "centre", "squares", "factor")}
        return super().arrays(held, features, labels) | {
            "narrow": held.narrow.table[:, :, :labels].copy(),
            "wide": held.wide.table[:, :, :labels].copy(),
            "kept": held.kept[self._places(held.experts)],
            **{name: array.copy() for name, array in own.items()},
        }

    def _shapes(self, kept: int, features: int, labels: int) -> dict[str, tuple[Any, Any]]:
        columns, narrow, wide = self.columns, len(self.narrow_priors), len(self.wide_priors)
        return super()._shapes(kept, features, labels) | {
            "narrow": ((columns, 2 * narrow, labels), self._dtype),
            "wide": ((columns + WAVES, 2 * wide, labels), self._dtype),
            "kept": ((kept, columns), self._dtype),
            "scales": ((2,), np.float64),
            **dict.fromkeys(("centre", "squares", "factor"), ((columns,), np.float64)),
        }

    def is_sound(self, table: np.ndarray, arrays: dict[str, np.ndarray]) -> bool:
        return (
            super().is_sound(table, arrays)
            and self._are_variances(arrays["narrow"], self.narrow_priors)
            and self._are_variances(arrays["wide"], self.wide_priors)
            and bool((arrays["scales"] >= 0).all())
            and bool((arrays["factor"] >= 0).all())
        )

    def size(self, features: int, labels: int) -> int:
        number, wide = self._dtype.itemsize, self.columns + WAVES
        tables = self.columns * len(self.narrow_priors) + wide * len(self.wide_priors)
        rows = KEPT_ROUNDS * (self.columns + wide) + self.columns * WAVES
        return super().size(features, labels) + number * (2 * tables * lanes_for(labels) + rows)

    def swing(self, features: int) -> int:
        return KEPT_ROUNDS * (9 + self.columns * self._dtype.itemsize)

    def faded(
        self, table: np.ndarray, arrays: dict[str, np.ndarray], keep: float
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        table, arrays = super().faded(table, arrays, keep)
        return table, arrays | {
            "narrow": self._faded_table(arrays["narrow"], self.narrow_priors, keep),
            "wide": self._faded_table(arrays["wide"], self.wide_priors, keep),
            "kept": arrays["kept"][len(arrays["kept"]) - len(arrays["said"]) :],
        }
