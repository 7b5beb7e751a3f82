"""Passive-aggressive, multiclass: Crammer, Dekel, Keshet, Shalev-Shwartz, Singer, "Online
passive-aggressive algorithms", JMLR 2006. A reference: it learns from true labels.

r is the best rival of the true label y, and l = max(0, 1 - (u_y - u_r)) the loss of their scores.
The update is w_y += tau x, w_r -= tau x with tau = l/(2 ||x||^2) ("PA"), the same but at most C
("PA-I"), or l/(2 ||x||^2 + 1/(2C)) ("PA-II"). The table holds the weights.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from onebit.core.choosing import greedy, runner_up
from onebit.core.jit import inline
from onebit.core.settings import Range, setting
from onebit.core.sums import linear_score, squared_norm
from onebit.core.updates import add
from onebit.learner.learner import Learner

Rule = Literal["PA", "PA-I", "PA-II"]
VARIANTS = ("PA", "PA-I", "PA-II")


@inline
def step_length(params, loss, norm):
    if params.variant == 2:
        return loss / (norm + 1.0 / (2.0 * params.C))
    step = loss / norm
    return min(params.C, step) if params.variant == 1 else step


class PassiveAggressive(Learner):
    """Passive-aggressive (Crammer et al. 2006); a reference that learns from true labels.

    >>> import onebit as ob
    >>> iris = ob.datasets.iris()
    >>> learner = ob.PassiveAggressive(iris.labels, inputs="auto")
    >>> trace = ob.simulate(learner, iris, order="shuffled", epochs=10)
    >>> float(trace.error[-1].round(2))
    0.19
    """

    planes = 1
    full_information = True
    shows_lists = True
    variant: Rule = setting(
        default="PA-I", choices=VARIANTS, search=VARIANTS, doc="which of the paper's three rules"
    )
    C: float = setting(
        default=1.0, above=0, search=Range(0.01, 10), doc="aggressiveness of PA-I and PA-II"
    )

    class Params(NamedTuple):
        C: float
        variant: int  # its place among VARIANTS

    score = linear_score
    say = greedy
    lockstep = add

    @staticmethod
    def hear_label(params, state, work, row, turn, label):
        rival = runner_up(state, work, label)
        if rival == label:
            return False
        loss = 1.0 - (np.float64(work.scores[label]) - np.float64(work.scores[rival]))
        norm = 2.0 * squared_norm(row)  # two labels' weights move
        if loss <= 0.0 or norm == 0.0:
            return False
        step = step_length(params, loss, norm)
        add(state, row, label, step)
        add(state, row, rival, -step)
        return True

    def _make_params(self) -> Any:
        return self.Params(self.C, VARIANTS.index(self.variant))
