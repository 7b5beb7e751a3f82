"""What an author of a learner needs, in one import.

    from onebit.authoring import Learner, Range, add, epsilon_greedy, linear_score, setting

docs/adding-an-algorithm.md shows how a learner is made of these.
"""

from onebit.core.choosing import (
    any_label,
    best,
    best_upper,
    certain_law,
    could_say_at_random,
    could_say_for_certain,
    epsilon_greedy,
    explore_uniformly,
    explored_uniformly,
    greedy,
    is_as_likely,
    noted_nothing,
    nth_possible,
    runner_up,
    sample,
    sampled,
    sigmoid,
    uniform_exploration_law,
)
from onebit.core.draws import uniform
from onebit.core.jit import inline
from onebit.core.rounds import Choice
from onebit.core.settings import Range, setting
from onebit.core.sums import gaussian_score, linear_score, squared_norm
from onebit.core.updates import add, move, regress, update_of_plane, update_of_planes
from onebit.learner.declared import Variant
from onebit.learner.learner import Learner

__all__ = [
    "Choice",
    "Learner",
    "Range",
    "Variant",
    "add",
    "any_label",
    "best",
    "best_upper",
    "certain_law",
    "could_say_at_random",
    "could_say_for_certain",
    "epsilon_greedy",
    "explore_uniformly",
    "explored_uniformly",
    "gaussian_score",
    "greedy",
    "inline",
    "is_as_likely",
    "linear_score",
    "move",
    "noted_nothing",
    "nth_possible",
    "regress",
    "runner_up",
    "sample",
    "sampled",
    "setting",
    "sigmoid",
    "squared_norm",
    "uniform",
    "uniform_exploration_law",
    "update_of_plane",
    "update_of_planes",
]
