"""Uniform guessing: the baseline that every learner should beat. The table is empty."""

from __future__ import annotations

from typing import Any, NamedTuple

from onebit.algorithms import banditron_lists
from onebit.core.choosing import epsilon_greedy
from onebit.learner.learner import Learner


class UniformRandom(Learner):
    """Says a random label, each with the same probability; learns nothing.

    >>> import onebit as ob
    >>> learner = ob.UniformRandom(["a", "b", "c", "d"])
    >>> learner.decide("anything").propensity
    0.25
    """

    planes = 0
    rescores = False
    shows_lists = True

    class Params(NamedTuple):
        gamma: float  # 1: always a random label

    say = epsilon_greedy
    lockstep = None
    say_list = banditron_lists.say_list
    list_law = banditron_lists.list_law
    could_say_list = banditron_lists.could_say_list

    @staticmethod
    def score(params, state, work, row, turn):
        work.scores[:] = 0.0

    @staticmethod
    def hear(params, state, work, row, turn, choice, right):
        return False

    def _make_params(self) -> Any:
        return self.Params(1.0)
