"""Uniform guessing: the floor of every race."""

from __future__ import annotations

from onebit.core.choosing import (
    any_label,
    best,
    explored_uniformly,
    noted_nothing,
    uniform_exploration_law,
)
from onebit.core.rounds import Choice
from onebit.learner import Learner


class UniformRandom(Learner):
    """Any label, always; learns nothing."""

    planes = 0
    rescores = False
    lockstep = None

    @staticmethod
    def score(params, state, work, row, turn):
        work.scores[:] = 0.0

    @staticmethod
    def say(params, state, work, turn):
        greedy = best(state, work)
        return Choice(any_label(work, turn), greedy, 1.0 / turn.count, 0.0, 0.0)

    @staticmethod
    def law(params, state, work, turn):
        uniform_exploration_law(work, turn, 1.0, best(state, work))

    @staticmethod
    def could_say(params, state, work, row, turn, choice):
        return explored_uniformly(turn, 1.0, choice) and noted_nothing(choice)

    @staticmethod
    def hear(params, state, work, row, turn, choice, right):
        return False
