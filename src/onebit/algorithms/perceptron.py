"""Perceptron, multiclass. A reference: it learns from true labels.

If the greedy label h is not the true label y: w_y += x, w_h -= x. The table holds the weights.
"""

from __future__ import annotations

from onebit.core.choosing import best, greedy
from onebit.core.sums import linear_score
from onebit.core.updates import add
from onebit.learner.learner import Learner


class Perceptron(Learner):
    """The Perceptron; a reference that learns from true labels.

    >>> import onebit as ob
    >>> learner = ob.Perceptron(["sport", "politics"])
    >>> decision = learner.decide("a late goal")
    >>> learner.learn(decision, label="sport")
    >>> learner.predict(["a goal"]).tolist()
    ['sport']
    """

    planes = 1
    full_information = True
    shows_lists = True
    mistake_bound = "perceptron"

    score = linear_score
    say = greedy
    lockstep = add

    @staticmethod
    def hear_label(params, state, work, row, turn, label):
        said = best(state, work)
        if said == label:
            return False
        add(state, row, label, 1.0)
        add(state, row, said, -1.0)
        return True
