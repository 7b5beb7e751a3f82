"""SOBA: Beygelzimer, Orabona, Zhang, "Efficient online bandit multiclass learning with O~(sqrt T)
regret", ICML 2017; diagonal.

A second-order Perceptron that learns only from right answers. With a right, r its best rival,
d = u_r - u_a and P the law of the said label: g = (e_r - e_a) x' / P(a), z = sqrt(P(a)) g,
m = (d^2 + 2 d)/P(a) / (1 + z' A^-1 z). If the running sum of accepted m stays at 0 or above:
A += z z', theta -= g, W = A^-1 theta. Else the round is skipped.

The table holds W (plane 0) and 1/A (plane 1); the memory the running sum.
"""

from __future__ import annotations

from typing import NamedTuple, Unpack

import msgspec
import numpy as np

from onebit import _kernel
from onebit._jit import implement
from onebit._kernel import Choice
from onebit._lanes import at
from onebit.decision import Decision
from onebit.learner import Common, Labels, Learner
from onebit.settings import Range, real, searched


class SOBAParams(NamedTuple):
    gamma: float


implement(_kernel.score, SOBAParams)(_kernel.linear_score)
implement(_kernel.settle, SOBAParams)(_kernel.regress.settled)
implement(_kernel.probabilities, SOBAParams)(_kernel.epsilon_greedy_law)


@implement(_kernel.decide, SOBAParams)
def decide(params, state, work, turn):
    said = _kernel.explore_uniformly(work, turn, params.gamma, _kernel.best(state, work))
    rival = _kernel.runner_up(state, work, said.label)
    lead = np.float64(work.scores[rival]) - np.float64(work.scores[said.label])
    return Choice(said.label, said.greedy, said.propensity, np.float64(rival), lead)


@implement(_kernel.learn, SOBAParams)
def learn(params, state, work, row, turn, choice, right):
    if not right:
        return False
    label, rival, lead = choice.label, int(choice.note), choice.other
    if rival < 0 or rival >= len(work.mask) or rival == label:  # not from a decision of ours
        return False
    weight = 1.0 / choice.propensity
    variance = 0.0
    for i in range(row.start, row.stop):
        j, x = at(row.indices, i), np.float64(at(row.values, i))
        variance += (
            x * x * (np.float64(state.table[j, 1, label]) + np.float64(state.table[j, 1, rival]))
        )
    m = (lead * lead + 2.0 * lead) * weight / (1.0 + weight * variance)
    if state.memory[0] + m < 0.0:
        return False
    state.memory[0] += m
    _kernel.regress(state, row, label, weight, weight)
    _kernel.regress(state, row, rival, -weight, weight)
    return True


class SOBA(Learner):
    """Second-order bandit Perceptron (Beygelzimer, Orabona, Zhang 2017), diagonal.

    gamma: how often any label is tried, in [0, 1]. a: what the matrix starts from.
    """

    planes = 2
    importance_weighted = True
    ranges = searched(gamma=Range(0.001, 0.5, or_zero=True), a=Range(0.01, 100))

    def __init__(
        self, labels: Labels, *, gamma: float = 0.01, a: float = 1.0, **common: Unpack[Common]
    ) -> None:
        params = SOBAParams(real("gamma", gamma, least=0, most=1))
        self._a = real("a", a, above=0)
        settings = {"gamma": params.gamma, "a": self._a}
        super().__init__(labels, params, settings, memory=(0.0,), **common)

    def _had_it_said(self, decision: Decision, place: int) -> Decision:
        said = super()._had_it_said(decision, place)
        scores = self._present_scores(said)
        own = scores[place]
        scores[place] = -np.inf
        rival = int(np.argmax(scores))
        return msgspec.structs.replace(said, note=float(rival), other=float(scores[rival] - own))

    def _fill(self) -> tuple[float, ...]:
        return 0.0, 1.0 / self._a
