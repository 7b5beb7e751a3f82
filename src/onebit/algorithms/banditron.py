"""Banditron: Kakade, Shalev-Shwartz, Tewari, "Efficient bandit algorithms for online multiclass
prediction", ICML 2008.

The greedy label h is said, or with probability gamma a random label; P(a) is the probability of the
said label a. Every round, also if a is right, W += (1[a right] / P(a) e_a - e_h) x'. The mean of
this update is the update of the Perceptron. The table holds W.
"""

from __future__ import annotations

from onebit.algorithms import banditron_lists, banditron_lockstep
from onebit.core.choosing import epsilon_greedy
from onebit.core.jit import inline
from onebit.core.settings import Range, setting
from onebit.core.sums import linear_score
from onebit.core.updates import add
from onebit.learner.learner import Learner
from onebit.storage.base import Storage
from onebit.storage.dual import BUDGET, KERNEL, REMOVE, Remove, storage_for_kernel
from onebit.storage.kernels import KernelLike


@inline
def step(state, row, choice, bit):
    """The update for a bit: 1, 0, or a number whose mean is the bit."""
    gain = bit / choice.propensity
    if choice.label == choice.greedy:
        add(state, row, choice.label, gain - 1.0)
    else:
        add(state, row, choice.greedy, -1.0)
        if bit != 0.0:
            add(state, row, choice.label, gain)


class Banditron(Learner):
    """Perceptron with uniform exploration (Kakade, Shalev-Shwartz, Tewari 2008).

    >>> import onebit as ob
    >>> learner = ob.Banditron(["red", "green", "blue"], gamma=0.3)
    >>> decision = learner.decide({"size": 2, "shape": "round"})
    >>> decision.label, decision.explored, round(decision.propensity, 2)
    ('blue', True, 0.1)
    >>> learner.learn(decision, right=True)
    >>> learner.predict([{"size": 3}]).tolist()
    ['blue']
    """

    planes = 1
    importance_weighted = True
    rescores = False
    mistake_bound = "banditron"
    shows_lists = True
    gamma: float = setting(
        default=0.05,
        above=0,
        most=1,
        search=Range(0.001, 0.5),
        doc="the share of rounds in which a random label is said; published: 0.014 on separable, "
        "0.006 on noisy synthetic text, 0.05 on Reuters",
    )
    kernel: KernelLike | None = KERNEL
    budget: int = BUDGET
    remove: Remove = REMOVE

    score = linear_score
    say = epsilon_greedy
    lockstep = add
    lockstep_loop = banditron_lockstep
    say_list = banditron_lists.say_list
    list_law = banditron_lists.list_law
    could_say_list = banditron_lists.could_say_list
    hear_list = banditron_lists.hear_list

    @staticmethod
    def hear(params, state, work, row, turn, choice, right):
        step(state, row, choice, 1.0 if right else 0.0)
        return True

    def _make_storage(self) -> Storage:
        return storage_for_kernel(self)
