"""RCNBF: Agarwal, Manwani, "Learning multiclass classifier under noisy bandit feedback", PAKDD
2021, Algorithm 1.

Banditron for feedback that is flipped at known rates. The update uses a number whose mean is the
true bit (see `flips`) instead of the bit, so its mean is the update of the Perceptron again. The
table holds the weights.
"""

from __future__ import annotations

from onebit.algorithms.banditron import step
from onebit.algorithms.exploration import TRIED, exploration
from onebit.algorithms.flips import RHO0, RHO1, _CorrectsFlips, unflipped
from onebit.core.choosing import epsilon_greedy
from onebit.core.sums import linear_score
from onebit.core.updates import add


class RCNBF(_CorrectsFlips):
    """Banditron for feedback that is flipped at known rates (Agarwal, Manwani 2021).

    With both rates 0 this is Banditron. If the rates are not known, `RCINE` estimates them.
    Learners that need no rates make far fewer mistakes: see the page on noisy feedback.

    >>> import onebit as ob
    >>> iris = ob.datasets.iris()
    >>> learner = ob.RCNBF(iris.labels, rho0=0.1, rho1=0.2, inputs="auto")
    >>> trace = ob.simulate(learner, iris, order="shuffled", epochs=10,
    ...                     channel=ob.Flip(0.1, 0.2))
    >>> float(trace.error[-1].round(2))
    0.37
    """

    planes = 1
    variant_of = "Banditron"
    gamma: float = exploration(
        0.05,
        f"{TRIED}; the more flips, the larger it has to be: an answer weighs up to "
        "1/(gamma (1 - rho0 - rho1)); the paper takes it below 1/2",
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
