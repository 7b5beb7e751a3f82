"""RCNBF: Agarwal, Manwani, "Learning multiclass classifier under noisy bandit feedback", PAKDD
2021, Algorithm 1.

Banditron for feedback that is flipped at known rates: with h, whose mean is the true bit, in place
of the bit, W += (h / P(a) e_a - e_h) x' is the Perceptron's update in the mean again.
"""

from __future__ import annotations

from typing import NamedTuple, Unpack

from onebit.algorithms.banditron import step
from onebit.algorithms.flips import _CorrectsFlips, flip_rates, unflipped
from onebit.core import rounds as _kernel
from onebit.core.jit import implement
from onebit.core.rounds import add
from onebit.learner import Common, Labels
from onebit.settings import Range, real, searched


class RCNBFParams(NamedTuple):
    gamma: float
    rho0: float
    rho1: float


implement(_kernel.score, RCNBFParams)(_kernel.linear_score)
implement(_kernel.settle, RCNBFParams)(add.settled)
implement(_kernel.decide, RCNBFParams)(_kernel.say_epsilon_greedy)
implement(_kernel.probabilities, RCNBFParams)(_kernel.epsilon_greedy_law)
implement(_kernel.could_say, RCNBFParams)(_kernel.could_say_epsilon_greedy)


@implement(_kernel.learn, RCNBFParams)
def learn(params, state, work, row, turn, choice, right):
    step(state, row, choice, unflipped(params.rho0, params.rho1, right))
    return True


class RCNBF(_CorrectsFlips):
    """Banditron for feedback that is flipped at known rates (Agarwal, Manwani 2021).

    rho0: how often wrong is heard as right. rho1: how often right is heard as wrong. Their sum is
    below 1; with both 0 this is Banditron. gamma: how often any label is tried, in (0, 1]; the more
    flips, the larger it has to be: an answer weighs up to 1/(gamma (1 - rho0 - rho1)). The paper
    takes it below 1/2.

    Where the rates are not known, `RCINE` estimates them. A learner that needs none errs far less:
    see the page on noisy feedback.
    """

    params = (RCNBFParams,)
    rescores = False
    planes = 1
    variant_of = "Banditron"
    ranges = searched(gamma=Range(0.001, 0.5))

    def __init__(
        self,
        labels: Labels,
        *,
        gamma: float = 0.05,
        rho0: float = 0.0,
        rho1: float = 0.0,
        **common: Unpack[Common],
    ) -> None:
        params = RCNBFParams(real("gamma", gamma, above=0, most=1), *flip_rates(rho0, rho1))
        super().__init__(labels, params, params._asdict(), **common)
