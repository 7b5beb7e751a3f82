"""SquareCB: Foster, Rakhlin, "Beyond UCB: optimal and efficient contextual bandits with regression
oracles", ICML 2020.

Inverse gap weighting: with g the predicted chances of being right and b the best label,
P(i) = 1/(K + gamma_t (g_b - g_i)) for i != b, the rest goes to b; gamma_t = scale t^expo.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from onebit.algorithms.regression import EXPO, LR, SCALE, _Regressor, gap_weighting
from onebit.core.choosing import best, sampled
from onebit.settings import setting

LOSSES = ("logistic", "squared")


def inverse_gap_law(params, state, work, turn):
    gap_weighting(params, work, turn, best(state, work), 1.0)


class SquareCB(_Regressor):
    """Inverse gap weighting on online regression (Foster, Rakhlin 2020)."""

    scale: float = SCALE
    expo: float = EXPO
    lr: float = LR
    loss: Literal["logistic", "squared"] = setting(
        "logistic", choices=LOSSES, search=LOSSES, doc="of the regression"
    )

    class Params(NamedTuple):
        scale: float
        expo: float
        lr: float
        logistic: bool

    say = sampled(inverse_gap_law)

    def _make_params(self) -> Any:
        return self.Params(self.scale, self.expo, self.lr, self.loss == "logistic")
