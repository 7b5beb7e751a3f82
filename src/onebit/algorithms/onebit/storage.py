"""The storage of experts: what sparse and dense rows share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onebit.algorithms.onebit.experts import LOGISTIC, SOFTMAX
from onebit.algorithms.onebit.records import (
    ANSWERED,
    COMMON,
    CROSS,
    CURVE,
    DENSE,
    EVIDENCE,
    HEARD,
    KEPT,
    KEPT_ROUNDS,
    LABEL,
    OLDEST,
    RIGHT,
    SAID,
    STEEP,
    TRUSTED,
    UNSURE,
    WEIGHT,
    Experts,
)
from onebit.core.lanes import aligned_zeros, lanes_for, state_type
from onebit.storage.base import Arrays, Storage


class ExpertStorage(Storage):
    """What both storages have in common."""

    are_dense = False  # their rows

    def __init__(
        self,
        priors: Sequence[float],
        constant_priors: Sequence[float],
        trust: Sequence[Sequence[float]],
        kinds: Sequence[int],
        dtype: Any,
    ) -> None:
        """priors: the initial variances. constant_priors: those of the constant feature; the last
        one is of the expert that has no other feature. trust: the initial values of
        `Experts.trust`, a line per expert; the experts' weights are computed from it. kinds: of the
        experts."""
        self.priors, self._constant_priors = np.array(priors), np.array(constant_priors)
        self._trust, self._kinds = np.array(trust), kinds
        self._dtype = np.dtype(dtype)

    def has_learned(self, held: Any, features: int, labels: int) -> bool:
        return bool(held.experts.count[HEARD] > 0)

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
            count=np.array([0, 0, 0, 0, 0, self.are_dense], np.int64),
            rounds=np.zeros((4, KEPT_ROUNDS), np.int64),
            all_labels=np.where(np.arange(lanes) < labels, 0, -np.inf).astype(self._dtype),
            sums=aligned_zeros((2 * count, lanes), self._dtype),
            forecasts=np.zeros((count, lanes)),
            change=aligned_zeros((2, lanes), self._dtype),
            scratch=np.zeros((7, lanes)),
        )
        if "trust" in arrays:
            experts.trust[:] = arrays["trust"][:count]
        if count != len(arrays.get("trust", [])):  # it is new, or an expert has gone
            evidence = experts.trust[:, EVIDENCE]
            weights = np.exp(evidence - evidence.max())
            experts.trust[:, WEIGHT] = weights / weights.sum()
        if "trust" in arrays:
            before = len(arrays["times_said"])
            experts.tries[SAID, :before] = arrays["times_said"]
            experts.tries[ANSWERED, :before] = arrays["times_answered"]
            kept = len(arrays["said"])
            experts.rounds[LABEL, :kept] = arrays["said"]
            experts.rounds[RIGHT, :kept] = arrays["rights"]
            experts.count[KEPT], experts.count[HEARD] = kept, arrays["heard"][0]
        return experts

    def for_saved(self, arrays: Arrays) -> Storage:
        if arrays.get("trust", np.empty((0, TRUSTED))).shape[1:] != (TRUSTED,):
            raise ValueError(
                "this OneBit was saved by an earlier version, which took it for granted that "
                "exactly one label is right, and cannot go on here; train it again, or build it "
                "from its journal (onebit replay)"
            )
        return self

    def count_said(self, held: Any, label: int, times: int) -> None:
        held.experts.tries[SAID, label] += times

    def one_right(self, held: Any) -> float:
        weights = held.experts.trust[:, WEIGHT].tolist()
        bare = len(self._constant_priors) - 1  # it takes no side: it says nothing of contexts
        one = each = 0.0
        for expert, (kind, weight) in enumerate(zip(self._kinds, weights, strict=False)):
            one += weight if kind == SOFTMAX else 0.0
            each += weight if kind == LOGISTIC and expert != bare else 0.0
        return one / (one + each) if one + each > 0.0 else 0.5

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
            "heard": experts.count[HEARD:DENSE].copy(),
        }

    def _besides(self, arrays: Arrays) -> int:
        """How many experts without a constant feature the saved arrays have."""
        return int("matrix" in arrays)

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
        shapes = self._shapes(kept, labels, self._besides(arrays))
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
