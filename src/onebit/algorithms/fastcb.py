"""FastCB: Foster, Krishnamurthy, "Efficient first-order contextual bandits: prediction, allocation,
and triangular discrimination", NeurIPS 2021.

SquareCB's gap weighting with exploration in proportion to the predicted loss of the best label:
with losses l = 1 - g and b the best, P(i) = l_b/(K l_b + gamma_t (l_i - l_b)) for i != b.
"""

from __future__ import annotations

from typing import NamedTuple, Unpack

import numpy as np

from onebit.algorithms import regression
from onebit.core import rounds as _kernel
from onebit.core.jit import implement
from onebit.core.rounds import Choice
from onebit.learner import Common, Labels
from onebit.settings import Range, real, searched

LEAST_LOSS = 1e-6


class FastCBParams(NamedTuple):
    scale: float
    expo: float
    lr: float
    logistic: bool


implement(_kernel.score, FastCBParams)(regression.score)
implement(_kernel.could_say, FastCBParams)(_kernel.could_say_at_random)
implement(_kernel.settle, FastCBParams)(regression.descend.settled)
implement(_kernel.learn, FastCBParams)(regression.learn)


@implement(_kernel.probabilities, FastCBParams)
def probabilities(params, state, work, turn):
    greedy = _kernel.best(state, work)
    loss = max(1.0 - np.float64(work.scores[greedy]), LEAST_LOSS)
    regression.gap_weighting(params, work, turn, greedy, loss)


@implement(_kernel.decide, FastCBParams)
def decide(params, state, work, turn):
    _kernel.probabilities(params, state, work, turn)
    label = _kernel.sample(work, turn)
    return Choice(label, _kernel.best(state, work), work.probabilities[label], 0.0, 0.0)


class FastCB(regression._Regressor):
    """First-order gap weighting on online logistic regression (Foster, Krishnamurthy 2021).

    scale, expo: exploration falls as 1/(scale t^expo). lr: step size.
    """

    params = (FastCBParams,)
    ranges = searched(
        scale=Range(1, 1000),
        expo=Range(0, 1, even=True),
        lr=Range(0.01, 10),
    )

    def __init__(
        self,
        labels: Labels,
        *,
        scale: float = 10.0,
        expo: float = 0.5,
        lr: float = 0.3,
        **common: Unpack[Common],
    ) -> None:
        params = FastCBParams(
            real("scale", scale, above=0),
            real("expo", expo, least=0, most=1),
            real("lr", lr, above=0),
            True,
        )
        settings = {"scale": params.scale, "expo": params.expo, "lr": params.lr}
        super().__init__(labels, params, settings, **common)
