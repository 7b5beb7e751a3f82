"""SquareCB: Foster, Rakhlin, "Beyond UCB: optimal and efficient contextual bandits with regression
oracles", ICML 2020.

Inverse gap weighting: with g the predicted chances of being right and b the best label,
P(i) = 1/(K + gamma_t (g_b - g_i)) for i != b, the rest goes to b; gamma_t = scale t^expo.
"""

from __future__ import annotations

from typing import NamedTuple, Unpack

from onebit.algorithms import regression
from onebit.core import rounds as _kernel
from onebit.core.jit import implement
from onebit.core.rounds import Choice
from onebit.learner import Common, Labels
from onebit.settings import Range, real, searched


class SquareCBParams(NamedTuple):
    scale: float
    expo: float
    lr: float
    logistic: bool


implement(_kernel.score, SquareCBParams)(regression.score)
implement(_kernel.could_say, SquareCBParams)(_kernel.could_say_at_random)
implement(_kernel.settle, SquareCBParams)(regression.descend.settled)
implement(_kernel.learn, SquareCBParams)(regression.learn)


@implement(_kernel.probabilities, SquareCBParams)
def probabilities(params, state, work, turn):
    regression.gap_weighting(params, work, turn, _kernel.best(state, work), 1.0)


@implement(_kernel.decide, SquareCBParams)
def decide(params, state, work, turn):
    _kernel.probabilities(params, state, work, turn)
    label = _kernel.sample(work, turn)
    return Choice(label, _kernel.best(state, work), work.probabilities[label], 0.0, 0.0)


class SquareCB(regression._Regressor):
    """Inverse gap weighting on online regression (Foster, Rakhlin 2020).

    scale, expo: exploration falls as 1/(scale t^expo). lr: step size. loss: "logistic" or
    "squared".
    """

    params = (SquareCBParams,)
    ranges = searched(
        scale=Range(1, 1000),
        expo=Range(0, 1, even=True),
        lr=Range(0.01, 10),
        loss=("logistic", "squared"),
    )

    def __init__(
        self,
        labels: Labels,
        *,
        scale: float = 10.0,
        expo: float = 0.5,
        lr: float = 0.3,
        loss: regression.Loss = "logistic",
        **common: Unpack[Common],
    ) -> None:
        params = SquareCBParams(
            real("scale", scale, above=0),
            real("expo", expo, least=0, most=1),
            real("lr", lr, above=0),
            regression.is_logistic(loss),
        )
        settings = {"scale": params.scale, "expo": params.expo, "lr": params.lr, "loss": loss}
        super().__init__(labels, params, settings, **common)
