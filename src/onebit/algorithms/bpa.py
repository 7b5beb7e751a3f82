"""BPA: Zhong, Dauce, "Passive-aggressive bounds in bandit feedback classification", 2015.

Passive-aggressive steps (Crammer et al. 2006) on the said label alone: with z = +1 if right, -1 if
wrong, and the loss l = max(0, 1 - z u_a), w_a += z tau x, where tau = l/||x||^2 ("PA"), at most C
("PA-I"), or l/(||x||^2 + 1/(2C)) ("PA-II").
"""

from __future__ import annotations

from typing import NamedTuple, Unpack

import numpy as np

from onebit.algorithms.passive_aggressive import Variant, step_length, variant_code
from onebit.core import rounds as _kernel
from onebit.core.jit import implement
from onebit.learner import Common, Labels, Learner
from onebit.settings import Range, real, searched


class BPAParams(NamedTuple):
    gamma: float
    C: float
    variant: int


implement(_kernel.score, BPAParams)(_kernel.linear_score)
implement(_kernel.could_say, BPAParams)(_kernel.could_say_epsilon_greedy)
implement(_kernel.settle, BPAParams)(_kernel.add.settled)
implement(_kernel.decide, BPAParams)(_kernel.say_epsilon_greedy)
implement(_kernel.probabilities, BPAParams)(_kernel.epsilon_greedy_law)


@implement(_kernel.learn, BPAParams)
def learn(params, state, work, row, turn, choice, right):
    sign = 1.0 if right else -1.0
    loss = 1.0 - sign * np.float64(work.scores[choice.label])
    norm = _kernel.squared_norm(row)
    if loss <= 0.0 or norm == 0.0:
        return False
    _kernel.add(state, row, choice.label, sign * step_length(params, loss, norm))
    return True


class BPA(Learner):
    """Bandit passive-aggressive (Zhong, Dauce 2015).

    gamma: how often any label is tried, in [0, 1]; 0 is allowed and often best when feedback is
    clean. variant: "PA", "PA-I" or "PA-II"; C: aggressiveness of the latter two.
    """

    params = (BPAParams,)
    planes = 1
    ranges = searched(
        gamma=Range(0.001, 0.5, or_zero=True),
        variant=("PA", "PA-I", "PA-II"),
        C=Range(0.01, 10),
    )

    def __init__(
        self,
        labels: Labels,
        *,
        gamma: float = 0.01,
        variant: Variant = "PA",
        C: float = 1.0,
        **common: Unpack[Common],
    ) -> None:
        params = BPAParams(
            real("gamma", gamma, least=0, most=1), real("C", C, above=0), variant_code(variant)
        )
        settings = {"gamma": params.gamma, "variant": variant, "C": params.C}
        super().__init__(labels, params, settings, **common)
