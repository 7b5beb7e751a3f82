"""Epsilon-greedy on online logistic regression: the simplest learner to compare others with.

With epsilon = 0 this is greedy one-vs-rest logistic regression. It still tries every label, because
every prediction starts at 1/2. The table is that of `regression`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from onebit.algorithms.exploration import exploration
from onebit.algorithms.regression import LR, _Regressor
from onebit.core.choosing import epsilon_greedy


class EpsilonGreedy(_Regressor):
    """Says the label most likely to be right, or with probability epsilon a random label.

    >>> import onebit as ob
    >>> iris = ob.datasets.iris()
    >>> learner = ob.EpsilonGreedy(iris.labels, epsilon=0.02, inputs="auto")
    >>> trace = ob.simulate(learner, iris, order="shuffled", epochs=10)
    >>> float(trace.error[-1].round(2))
    0.18
    """

    shows_lists = True
    epsilon: float = exploration(0.05, or_zero=True)
    lr: float = LR

    class Params(NamedTuple):
        gamma: float  # epsilon
        lr: float
        logistic: bool

    say = epsilon_greedy

    def _make_params(self) -> Any:
        return self.Params(self.epsilon, self.lr, True)
