"""BPA: Zhong, Dauce, "Passive-aggressive bounds in bandit feedback classification", 2015.

Passive-aggressive steps (Crammer et al. 2006) on the said label a alone, whose score is u_a. With
z = +1 if right, -1 if wrong, and the loss l = max(0, 1 - z u_a), the update is w_a += z tau x with
tau = l/||x||^2 ("PA"), the same but at most C ("PA-I"), or l/(||x||^2 + 1/(2C)) ("PA-II"). The
table holds the weights.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from onebit.algorithms.exploration import TRIED, exploration
from onebit.algorithms.passive_aggressive import VARIANTS, Rule, step_length
from onebit.core.choosing import epsilon_greedy
from onebit.core.settings import Range, setting
from onebit.core.sums import linear_score, squared_norm
from onebit.core.updates import add
from onebit.learner.learner import Learner


class BPA(Learner):
    """Bandit passive-aggressive (Zhong, Dauce 2015).

    >>> import onebit as ob
    >>> iris = ob.datasets.iris()
    >>> learner = ob.BPA(iris.labels, variant="PA-I", C=0.1, gamma=0.05, inputs="auto")
    >>> trace = ob.simulate(learner, iris, order="shuffled", epochs=10)
    >>> float(trace.error[-1].round(2))
    0.2
    """

    planes = 1
    shows_lists = True
    gamma: float = exploration(
        0.01, f"{TRIED}; 0 is allowed and often best when feedback is clean", or_zero=True
    )
    variant: Rule = setting(
        default="PA",
        choices=VARIANTS,
        search=VARIANTS,
        doc="which of the three passive-aggressive rules",
    )
    C: float = setting(
        default=1.0, above=0, search=Range(0.01, 10), doc="aggressiveness of PA-I and PA-II"
    )

    class Params(NamedTuple):
        gamma: float
        C: float
        variant: int  # its place among VARIANTS

    score = linear_score
    say = epsilon_greedy
    lockstep = add

    @staticmethod
    def hear(params, state, work, row, turn, choice, right):
        sign = 1.0 if right else -1.0
        loss = 1.0 - sign * np.float64(work.scores[choice.label])
        norm = squared_norm(row)
        if loss <= 0.0 or norm == 0.0:
            return False
        add(state, row, choice.label, sign * step_length(params, loss, norm))
        return True

    def _make_params(self) -> Any:
        return self.Params(self.gamma, self.C, VARIANTS.index(self.variant))
