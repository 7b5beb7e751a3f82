"""FastCB: Foster, Krishnamurthy, "Efficient first-order contextual bandits: prediction, allocation,
and triangular discrimination", NeurIPS 2021.

The gap weighting of SquareCB, with exploration in proportion to the predicted loss of the best
label b: with losses l = 1 - g, P(i) = l_b/(K l_b + gamma_t (l_i - l_b)) for i != b. The table is
that of `regression`.
"""

from __future__ import annotations

import numpy as np

from onebit.algorithms.regression import _GapWeighting, gap_weighting, scale_setting
from onebit.core.choosing import best, sampled

LEAST_LOSS = 1e-6


def first_order_gap_law(params, state, work, turn):
    greedy = best(state, work)
    loss = max(1.0 - np.float64(work.scores[greedy]), LEAST_LOSS)
    gap_weighting(params, work, turn, greedy, loss)


class FastCB(_GapWeighting):
    """First-order gap weighting on online logistic regression (Foster, Krishnamurthy 2021).

    >>> import onebit as ob
    >>> iris = ob.datasets.iris()
    >>> learner = ob.FastCB(iris.labels, inputs="auto")
    >>> trace = ob.simulate(learner, iris, order="shuffled", epochs=10)
    >>> float(trace.error[-1].round(2))
    0.17
    """

    shows_lists = True
    BITS = 2  # 2: explores less by default
    scale: float = scale_setting(100.0)

    say = sampled(first_order_gap_law)
