"""RCNBF: Agarwal, Manwani, "Learning multiclass classifier under noisy bandit feedback", PAKDD
2021, Algorithm 1.

Banditron for feedback that is flipped at known rates: with h, whose mean is the true bit, in place
of the bit, W += (h / P(a) e_a - e_h) x' is the Perceptron's update in the mean again.
"""

from __future__ import annotations

from onebit.algorithms.banditron import step
from onebit.algorithms.flips import RHO0, RHO1, _CorrectsFlips, unflipped
from onebit.core.choosing import epsilon_greedy
from onebit.core.sums import linear_score
from onebit.core.updates import add
from onebit.settings import Range, setting


class RCNBF(_CorrectsFlips):
    """Banditron for feedback that is flipped at known rates (Agarwal, Manwani 2021).

    With both rates 0 this is Banditron. Where the rates are not known, `RCINE` estimates them. A
    learner that needs none errs far less: see the page on noisy feedback.
    """

    planes = 1
    variant_of = "Banditron"
    gamma: float = setting(
        0.05,
        above=0,
        most=1,
        search=Range(0.001, 0.5),
        doc="how often any label is tried; the more flips, the larger it has to be: an answer "
        "weighs up to 1/(gamma (1 - rho0 - rho1)); the paper takes it below 1/2",
    )
    rho0: float = RHO0
    rho1: float = RHO1

    score = linear_score
    say = epsilon_greedy
    lockstep = add

    @staticmethod
    def hear(params, state, work, row, turn, choice, right):
        step(state, row, choice, unflipped(params.rho0, params.rho1, right))
        return True
