"""Passive-aggressive, multiclass: Crammer, Dekel, Keshet, Shalev-Shwartz, Singer, "Online
passive-aggressive algorithms", JMLR 2006. A reference that is told the true label.

With r the best rival of the true label y and the loss l = max(0, 1 - (u_y - u_r)): w_y += tau x,
w_r -= tau x, where tau = l/(2 ||x||^2) ("PA"), at most C ("PA-I"), or l/(2 ||x||^2 + 1/(2C))
("PA-II").
"""

from __future__ import annotations

from typing import Literal, NamedTuple, Unpack

import numpy as np

from onebit.core import rounds as _kernel
from onebit.core.jit import implement, inline
from onebit.learner import Common, Labels, Learner
from onebit.settings import Range, choice_of, real, searched

Variant = Literal["PA", "PA-I", "PA-II"]
_VARIANTS = ("PA", "PA-I", "PA-II")


def variant_code(variant: str) -> int:
    return _VARIANTS.index(choice_of("variant", variant, _VARIANTS))


@inline
def step_length(params, loss, norm):
    if params.variant == 2:
        return loss / (norm + 1.0 / (2.0 * params.C))
    step = loss / norm
    return min(params.C, step) if params.variant == 1 else step


class PassiveAggressiveParams(NamedTuple):
    C: float
    variant: int


implement(_kernel.score, PassiveAggressiveParams)(_kernel.linear_score)
implement(_kernel.could_say, PassiveAggressiveParams)(_kernel.could_say_greedy)
implement(_kernel.settle, PassiveAggressiveParams)(_kernel.add.settled)
implement(_kernel.decide, PassiveAggressiveParams)(_kernel.say_greedy)
implement(_kernel.probabilities, PassiveAggressiveParams)(_kernel.greedy_law)


@implement(_kernel.learn_label, PassiveAggressiveParams)
def learn_label(params, state, work, row, turn, label):
    rival = _kernel.runner_up(state, work, label)
    if rival == label:
        return False
    loss = 1.0 - (np.float64(work.scores[label]) - np.float64(work.scores[rival]))
    norm = 2.0 * _kernel.squared_norm(row)  # two rows of W move
    if loss <= 0.0 or norm == 0.0:
        return False
    step = step_length(params, loss, norm)
    _kernel.add(state, row, label, step)
    _kernel.add(state, row, rival, -step)
    return True


class PassiveAggressive(Learner):
    """Passive-aggressive (Crammer et al. 2006); a reference: it must be told the true label.

    variant: "PA", "PA-I" or "PA-II"; C: aggressiveness of the latter two.
    """

    params = (PassiveAggressiveParams,)
    planes = 1
    full_information = True
    ranges = searched(variant=("PA", "PA-I", "PA-II"), C=Range(0.01, 10))

    def __init__(
        self,
        labels: Labels,
        *,
        variant: Variant = "PA-I",
        C: float = 1.0,
        **common: Unpack[Common],
    ) -> None:
        params = PassiveAggressiveParams(real("C", C, above=0), variant_code(variant))
        super().__init__(labels, params, {"variant": variant, "C": params.C}, **common)
