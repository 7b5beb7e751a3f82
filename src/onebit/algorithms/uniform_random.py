"""Uniform guessing: the floor of every race."""

from __future__ import annotations

from typing import NamedTuple, Unpack

from onebit.core import rounds as _kernel
from onebit.core.jit import implement
from onebit.core.rounds import Choice
from onebit.learner import Common, Labels, Learner


class UniformRandomParams(NamedTuple):
    pass


@implement(_kernel.score, UniformRandomParams)
def score(params, state, work, row, turn):
    work.scores[:] = 0.0


@implement(_kernel.decide, UniformRandomParams)
def decide(params, state, work, turn):
    greedy = _kernel.best(state, work)
    return Choice(_kernel.any_label(work, turn), greedy, 1.0 / turn.count, 0.0, 0.0)


@implement(_kernel.probabilities, UniformRandomParams)
def probabilities(params, state, work, turn):
    _kernel.uniform_exploration_law(work, turn, 1.0, _kernel.best(state, work))


@implement(_kernel.learn, UniformRandomParams)
def learn(params, state, work, row, turn, choice, right):
    return False


@implement(_kernel.could_say, UniformRandomParams)
def could_say(params, state, work, row, turn, choice):
    return _kernel.explored_uniformly(turn, 1.0, choice) and _kernel.noted_nothing(choice)


implement(_kernel.settle, UniformRandomParams)(_kernel.nothing_waits)


class UniformRandom(Learner):
    """Any label, always; learns nothing."""

    params = (UniformRandomParams,)
    rescores = False
    planes = 0

    def __init__(self, labels: Labels, **common: Unpack[Common]) -> None:
        super().__init__(labels, UniformRandomParams(), {}, **common)
