"""Perceptron, multiclass. A reference that is told the true label.

On a mistake of the greedy label h: w_y += x, w_h -= x.
"""

from __future__ import annotations

from typing import NamedTuple, Unpack

from onebit.core import rounds as _kernel
from onebit.core.jit import implement
from onebit.learner import Common, Labels, Learner


class PerceptronParams(NamedTuple):
    pass


implement(_kernel.score, PerceptronParams)(_kernel.linear_score)
implement(_kernel.could_say, PerceptronParams)(_kernel.could_say_greedy)
implement(_kernel.settle, PerceptronParams)(_kernel.add.settled)
implement(_kernel.decide, PerceptronParams)(_kernel.say_greedy)
implement(_kernel.probabilities, PerceptronParams)(_kernel.greedy_law)


@implement(_kernel.learn_label, PerceptronParams)
def learn_label(params, state, work, row, turn, label):
    greedy = _kernel.best(state, work)
    if greedy == label:
        return False
    _kernel.add(state, row, label, 1.0)
    _kernel.add(state, row, greedy, -1.0)
    return True


class Perceptron(Learner):
    """The Perceptron; a reference: it must be told the true label."""

    params = (PerceptronParams,)
    planes = 1
    full_information = True

    def __init__(self, labels: Labels, **common: Unpack[Common]) -> None:
        super().__init__(labels, PerceptronParams(), {}, **common)
