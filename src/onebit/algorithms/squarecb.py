"""SquareCB: Foster, Rakhlin, "Beyond UCB: optimal and efficient contextual bandits with regression
oracles", ICML 2020.

Inverse gap weighting: with g the predicted chances of being right and b the best label,
P(i) = 1/(K + gamma_t (g_b - g_i)) for i != b, and b gets the rest; gamma_t = scale t^expo. The
table is that of `regression`.
"""

from __future__ import annotations

from typing import Any, Literal

from onebit.algorithms.regression import _GapWeighting, gap_weighting
from onebit.core.choosing import best, sampled
from onebit.core.settings import setting

LOSSES = ("logistic", "squared")


def inverse_gap_law(params, state, work, turn):
    gap_weighting(params, work, turn, best(state, work), 1.0)


class SquareCB(_GapWeighting):
    """Inverse gap weighting on online regression (Foster, Rakhlin 2020).

    >>> import onebit as ob
    >>> iris = ob.datasets.iris()
    >>> learner = ob.SquareCB(iris.labels, scale=300, inputs="auto")
    >>> trace = ob.simulate(learner, iris, order="shuffled", epochs=10)
    >>> float(trace.error[-1].round(2))
    0.17
    >>> learner.probabilities(iris.X[:1]).round(1).tolist()
    [[1.0, 0.8, 0.1]]
    """

    shows_lists = True
    BITS = 2  # 2: explores less by default
    loss: Literal["logistic", "squared"] = setting(
        default="logistic", choices=LOSSES, search=LOSSES, doc="of the regression"
    )

    say = sampled(inverse_gap_law)

    def _make_params(self) -> Any:
        return super()._make_params()._replace(logistic=self.loss == "logistic")
