"""Epsilon-greedy on online logistic regression: the floor with learning that every race needs.

With epsilon = 0 it is greedy one-vs-rest logistic regression, whose first
prediction of 1/2 is optimism enough to try every label.
"""

from __future__ import annotations

from typing import NamedTuple, Unpack

from onebit.algorithms import regression
from onebit.core import rounds as _kernel
from onebit.core.jit import implement
from onebit.learner import Common, Labels
from onebit.settings import Range, real, searched


class EpsilonGreedyParams(NamedTuple):
    gamma: float
    lr: float
    logistic: bool


implement(_kernel.score, EpsilonGreedyParams)(regression.score)
implement(_kernel.could_say, EpsilonGreedyParams)(_kernel.could_say_epsilon_greedy)
implement(_kernel.settle, EpsilonGreedyParams)(regression.descend.settled)
implement(_kernel.decide, EpsilonGreedyParams)(_kernel.say_epsilon_greedy)
implement(_kernel.probabilities, EpsilonGreedyParams)(_kernel.epsilon_greedy_law)
implement(_kernel.learn, EpsilonGreedyParams)(regression.learn)


class EpsilonGreedy(regression._Regressor):
    """The label most likely to be right, and any label every so often.

    epsilon: how often any label is tried, in [0, 1]. lr: step size.
    """

    params = (EpsilonGreedyParams,)
    ranges = searched(epsilon=Range(0.001, 0.5, or_zero=True), lr=Range(0.01, 10))

    def __init__(
        self,
        labels: Labels,
        *,
        epsilon: float = 0.05,
        lr: float = 0.3,
        **common: Unpack[Common],
    ) -> None:
        params = EpsilonGreedyParams(
            real("epsilon", epsilon, least=0, most=1),
            real("lr", lr, above=0),
            True,
        )
        settings = {"epsilon": params.gamma, "lr": params.lr}
        super().__init__(labels, params, settings, **common)
