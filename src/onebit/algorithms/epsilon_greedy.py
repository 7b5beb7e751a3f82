"""Epsilon-greedy on online logistic regression: the floor with learning that every race needs.

With epsilon = 0 it is greedy one-vs-rest logistic regression, whose first
prediction of 1/2 is optimism enough to try every label.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from onebit.algorithms.regression import LR, _Regressor
from onebit.core.choosing import epsilon_greedy
from onebit.settings import Range, setting


class EpsilonGreedy(_Regressor):
    """The label most likely to be right, and any label every so often."""

    epsilon: float = setting(
        0.05,
        least=0,
        most=1,
        search=Range(0.001, 0.5, or_zero=True),
        doc="how often any label is tried",
    )
    lr: float = LR

    class Params(NamedTuple):
        gamma: float  # epsilon
        lr: float
        logistic: bool

    say = epsilon_greedy

    def _make_params(self) -> Any:
        return self.Params(self.epsilon, self.lr, True)
