"""Experts: several models side by side, and the last rounds, to be learned again.

An expert stores two values per feature and label: a weight, and the variance of that weight. The
weights of the constant feature are in a table of their own. There are two storages, for sparse rows
(`storage.sparse_experts`) and for dense rows (`storage.dense_experts`). This module has what both
share: the records, the ring of kept rounds, and the generic functions that each of them implements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from onebit.core.jit import generic, inline
from onebit.core.lanes import aligned_zeros, lanes_for, state_type
from onebit.storage.base import Storage

KEPT_ROUNDS = 1000
OLDEST, KEPT, FREE, ENTRIES, HEARD = range(5)  # places in Experts.count
LABEL, RIGHT, START, SIZE = range(4)  # places in Experts.rounds
TRUSTED = 9  # numbers of each expert in Experts.trust; their places:
WEIGHT, EVIDENCE, OFFSET, SLOPE, CURVE, CROSS, STEEP, COMMON, UNSURE = range(TRUSTED)
SAID, ANSWERED = range(2)  # places in Experts.tries
STEP, SHRINKAGE = range(2)  # places in Experts.change
TARGET, PREDICTED, MOVED, PRECISION, NEWTON, AFTER = range(6)  # places in Experts.scratch


# Compiling takes long if a record has many arrays, so few arrays hold much. It takes twice as long
# if a function is called with a constant and with a variable, as these have different types.


class Experts(NamedTuple):
    """What both storages hold, and scratch space. A lane is a label."""

    constant: Any  # [plane, lane] the weights and variances of the constant feature; the last two
    # planes are of the expert that has no other feature
    trust: Any  # [expert, 9] the expert's weight in the forecast, and the numbers behind it; of
    # logistic models, the constant that all labels share, and its variance
    tries: Any  # [2, lane] how often the label was said, and how often that was answered
    count: Any  # [5] oldest kept round, kept rounds, first free entry, kept entries, all answers
    rounds: Any  # [4, KEPT_ROUNDS] what was said, 1 if that was right, a sparse row's place; a ring
    all_labels: Any  # [lane] the mask in which every label may be said
    sums: Any  # [plane, lane] scores and variances of the row that was summed last
    forecasts: Any  # [expert, lane] of the row that was scored last
    change: Any  # [2, lane] of the expert that learns: steps of scores, and by how much to shrink
    scratch: Any  # [6, lane] for the expert that learns; last, labels' chances after the answer


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
    """Take the row, which was prepared last, into the scales. True: they are much better known now,
    and the kept rounds must be learned anew."""


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


# In Python.


class ExpertStorage(Storage):
    """What both storages have in common."""

    def __init__(
        self,
        priors: Sequence[float],
        constant_priors: Sequence[float],
        trust: Sequence[Sequence[float]],
        dtype: Any,
    ) -> None:
        """priors: the initial variances. constant_priors: those of the constant feature; the last
        one is of the expert that has no other feature. trust: the initial values of
        `Experts.trust`, a line per expert; the experts' weights are computed from it."""
        self.priors, self._constant_priors = np.array(priors), np.array(constant_priors)
        self._trust = np.array(trust)
        self._dtype = np.dtype(dtype)

    def _table(self, features: int, priors: np.ndarray, labels: int, saved: Any = None) -> Any:
        """A state of weights and variances, filled with the saved ones, which may be of fewer
        labels."""
        lanes = lanes_for(labels)
        table = aligned_zeros((features, 2 * len(priors), lanes), self._dtype)
        table[:, 1::2] = priors[:, None]
        if saved is not None:
            table[:, :, : saved.shape[2]] = saved
        return state_type(lanes)(table, np.empty(0))

    def _experts(self, arrays: dict[str, np.ndarray], labels: int, besides: int = 0) -> Experts:
        """besides: the number of experts that have no constant feature."""
        count, lanes = len(self._constant_priors) + besides, lanes_for(labels)
        constant = self._table(1, self._constant_priors, labels, arrays.get("constant"))
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

    def has_other_scales(self, held: Any) -> bool:
        """Whether rows have become much larger or smaller since their scales were fixed."""
        return False

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
        count = len(self._constant_priors)
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
            self._are_variances(arrays["constant"], self._constant_priors)
            and (weights >= 0).all()
            and abs(weights.sum() - 1) < 1e-6
            and (trust[:, EVIDENCE] <= 0).all()
            and (determinant > 0).all()
            and (trust[:, UNSURE] > 0).all()
            and (arrays["times_said"] >= 0).all()
            and (arrays["times_answered"] >= 0).all()
        )

    @staticmethod
    def _are_variances(table: np.ndarray, priors: np.ndarray) -> bool:
        variances = table[:, 1::2]
        return bool(((variances >= 0) & (variances <= priors[:, None] * (1 + 1e-5))).all())

    def size(self, features: int, labels: int) -> int:
        number = self._dtype.itemsize
        lanes = lanes_for(labels) * len(self._constant_priors) * (5 * number + 32)
        return lanes + 32 * KEPT_ROUNDS

    def faded(
        self, table: np.ndarray, arrays: dict[str, np.ndarray], keep: float
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Weights as if a share of the answers had been heard; the newest rounds stay kept."""
        dropped = len(arrays["said"]) - int(keep * len(arrays["said"]))
        trust = arrays["trust"].copy()
        trust[:, EVIDENCE] *= keep
        prior = self._trust[: len(trust), UNSURE]
        grown = keep + (1 - keep) * (trust[:, UNSURE] / prior)
        trust[:, COMMON] *= keep / grown
        trust[:, UNSURE] /= grown
        return table, arrays | {
            "constant": self._faded_table(arrays["constant"], self._constant_priors, keep),
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
