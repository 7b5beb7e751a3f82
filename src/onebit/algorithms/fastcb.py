"""FastCB: Foster, Krishnamurthy, "Efficient first-order contextual bandits: prediction, allocation,
and triangular discrimination", NeurIPS 2021.

SquareCB's gap weighting with exploration in proportion to the predicted loss of the best label:
with losses l = 1 - g and b the best, P(i) = l_b/(K l_b + gamma_t (l_i - l_b)) for i != b.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from onebit.algorithms.regression import EXPO, LR, SCALE, _Regressor, gap_weighting
from onebit.core.choosing import best, sampled

LEAST_LOSS = 1e-6


def first_order_gap_law(params, state, work, turn):
    greedy = best(state, work)
    loss = max(1.0 - np.float64(work.scores[greedy]), LEAST_LOSS)
    gap_weighting(params, work, turn, greedy, loss)


class FastCB(_Regressor):
    """First-order gap weighting on online logistic regression (Foster, Krishnamurthy 2021)."""

    scale: float = SCALE
    expo: float = EXPO
    lr: float = LR

    class Params(NamedTuple):
        scale: float
        expo: float
        lr: float
        logistic: bool

    say = sampled(first_order_gap_law)

    def _make_params(self) -> Any:
        return self.Params(self.scale, self.expo, self.lr, True)
