"""Banditron: Kakade, Shalev-Shwartz, Tewari, "Efficient bandit algorithms for online multiclass
prediction", ICML 2008.

The Perceptron's update, estimated without bias from one bit: with P the law of the said label a,
and h the greedy label, W += (1[a right] / P(a) e_a - e_h) x'. It is made every round, also when
right.
"""

from __future__ import annotations

from typing import NamedTuple, Unpack

from onebit.core import rounds as _kernel
from onebit.core.jit import implement, inline
from onebit.core.rounds import add
from onebit.learner import Common, Labels, Learner
from onebit.settings import Range, real, searched
from onebit.storage.dual import KernelLike, Remove, dual


class BanditronParams(NamedTuple):
    gamma: float


implement(_kernel.score, BanditronParams)(_kernel.linear_score)
implement(_kernel.settle, BanditronParams)(add.settled)
implement(_kernel.decide, BanditronParams)(_kernel.say_epsilon_greedy)
implement(_kernel.probabilities, BanditronParams)(_kernel.epsilon_greedy_law)
implement(_kernel.could_say, BanditronParams)(_kernel.could_say_epsilon_greedy)


@inline
def step(state, row, choice, bit):
    """The update for a bit: 1, 0, or a number that stands for one of them."""
    gain = bit / choice.propensity
    if choice.label == choice.greedy:
        add(state, row, choice.label, gain - 1.0)
    else:
        add(state, row, choice.greedy, -1.0)
        if bit != 0.0:
            add(state, row, choice.label, gain)


@implement(_kernel.learn, BanditronParams)
def learn(params, state, work, row, turn, choice, right):
    step(state, row, choice, 1.0 if right else 0.0)
    return True


class Banditron(Learner):
    """Perceptron with uniform exploration (Kakade, Shalev-Shwartz, Tewari 2008).

    gamma: how often any label is tried, in (0, 1]. Published: 0.014 on separable, 0.006 on noisy
    synthetic text, 0.05 on Reuters.

    kernel: "linear", "polynomial", "rbf", "rational", with numbers as in "rbf(gamma=2)": keep
    contexts instead of weights, at most `budget` of them, and compare by the kernel. A function
    f(X, Y) of two arrays of rows will do too: it gives the matrix of values, as scikit-learn's do.
    remove: which goes when there is one too many, the "oldest", a "random" one or the "smallest".
    """

    params = (BanditronParams,)
    rescores = False
    planes = 1
    importance_weighted = True
    ranges = searched(gamma=Range(0.001, 0.5))

    def __init__(
        self,
        labels: Labels,
        *,
        gamma: float = 0.05,
        kernel: KernelLike | None = None,
        budget: int = 1000,
        remove: Remove = "oldest",
        **common: Unpack[Common],
    ) -> None:
        params = BanditronParams(real("gamma", gamma, above=0, most=1))
        form = dual(kernel, budget, remove, **common)
        super().__init__(labels, params, params._asdict(), state=form, **common)
