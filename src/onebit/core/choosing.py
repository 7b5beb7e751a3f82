"""Choosing a label from scores: the greedy label, exploration, and the laws of both.

A function for `say` has its `law` and its `could_say` as attributes, if an algorithm may share it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onebit.core.draws import uniform
from onebit.core.jit import inline
from onebit.core.lanes import fetch, first_at_least, largest, root, store, width
from onebit.core.rounds import Choice
from onebit.core.sums import blocks, number

TIE = 1e-9  # upper confidence bounds closer than this are equal: the lowest label wins


@inline
def best(state, work):
    """The greedy label: the lowest of those that may be said and score highest."""
    top, label = number(state, -np.inf), -1
    for block in range(blocks(state)):
        scores = fetch(state, work.scores, block) + fetch(state, work.mask, block)
        highest = largest(scores)
        if highest > top:
            top = highest
            label = block * width(state) + first_at_least(scores, highest)
    return label if label >= 0 else nth_possible(work, 0)  # no score is a number: an overflow


@inline
def best_upper(state, work, factor):
    """The label with the largest scores + factor * sqrt(widths), ties within TIE to the lowest."""
    factor, top = number(state, factor), number(state, -np.inf)
    for block in range(blocks(state)):
        scores = fetch(state, work.scores, block) + fetch(state, work.mask, block)
        upper = scores + root(fetch(state, work.widths, block)) * factor
        store(state, work.bounds, block, upper)
        top = max(top, largest(upper))
    bar = top - number(state, TIE)
    for block in range(blocks(state)):
        upper = fetch(state, work.bounds, block)
        if largest(upper) >= bar:
            label = block * width(state) + first_at_least(upper, bar)
            if work.mask[label] == 0:
                return label
    return nth_possible(work, 0)  # no bound is a number: the weights have overflowed


@inline
def runner_up(state, work, label):
    """The best label that may be said other than `label`; itself if there is none."""
    kept = work.mask[label]
    work.mask[label] = -np.inf
    second = best(state, work)
    if work.mask[second] != 0:
        second = label
    work.mask[label] = kept
    return second


@inline
def nth_possible(work, n):
    """The n-th of the labels that may be said."""
    for label in range(len(work.mask)):
        if work.mask[label] == 0:
            if n == 0:
                return label
            n -= 1
    return 0


@inline
def any_label(work, turn):
    """A label drawn uniformly among those that may be said."""
    return nth_possible(work, int(uniform(turn.seed, turn.round, 1) * turn.count))


@inline
def explore_uniformly(work, turn, gamma, greedy):
    """With probability gamma any label, else the greedy one."""
    label = greedy
    if uniform(turn.seed, turn.round, 0) < gamma:
        label = any_label(work, turn)
    share = gamma / turn.count
    propensity = (1.0 - gamma) + share if label == greedy else share
    return Choice(label, greedy, propensity, 0.0, 0.0)


@inline
def uniform_exploration_law(work, turn, gamma, greedy):
    for label in range(len(work.mask)):
        work.propensities[label] = gamma / turn.count if work.mask[label] == 0 else 0.0
    work.propensities[greedy] += 1.0 - gamma


@inline
def certain_law(work, label):
    work.propensities[:] = 0.0
    work.propensities[label] = 1.0


@inline
def sample(work, turn):
    """A label drawn by `work.propensities`, from one uniform number."""
    u = uniform(turn.seed, turn.round, 0)
    total = 0.0
    last = nth_possible(work, 0)
    for label in range(len(work.mask)):
        p = work.propensities[label]
        if p > 0:
            total += p
            last = label
            if total > u:
                break
    return last


@inline
def sigmoid(u):
    if u >= 0:
        return 1.0 / (1.0 + math.exp(-u))
    e = math.exp(u)
    return e / (1.0 + e)


def choosing_by(law, could_say):
    """Attach the law and the check `could_say` to a function for `say`."""

    def decorate(say) -> Any:
        say.law, say.could_say = law, could_say
        return say

    return decorate


@inline
def noted_nothing(choice):
    return choice.note == 0.0 and choice.second_note == 0.0


@inline
def is_as_likely(propensity, expected):
    """Whether a propensity equals the expected one up to rounding."""
    return abs(propensity - expected) <= 1e-9 * expected


@inline
def explored_uniformly(turn, gamma, choice):
    """Whether `explore_uniformly` can have returned this choice."""
    share = gamma / turn.count
    expected = (1.0 - gamma) + share if choice.label == choice.greedy else share
    return expected > 0.0 and is_as_likely(choice.propensity, expected)


def could_say_at_random(params, state, work, row, turn, choice):
    """For laws that depend on the scores of that time; learning does not use the propensity."""
    return noted_nothing(choice)


def could_say_for_certain(params, state, work, row, turn, choice):
    return choice.propensity == 1.0 and noted_nothing(choice)


def _greedy_law(params, state, work, turn):
    certain_law(work, best(state, work))


def _could_say_greedy(params, state, work, row, turn, choice):
    return choice.label == choice.greedy and choice.propensity == 1.0 and noted_nothing(choice)


@choosing_by(_greedy_law, _could_say_greedy)
def greedy(params, state, work, turn):
    """Say the best label."""
    label = best(state, work)
    return Choice(label, label, 1.0, 0.0, 0.0)


def _epsilon_greedy_law(params, state, work, turn):
    uniform_exploration_law(work, turn, params.gamma, best(state, work))


def _could_say_epsilon_greedy(params, state, work, row, turn, choice):
    return explored_uniformly(turn, params.gamma, choice) and noted_nothing(choice)


@choosing_by(_epsilon_greedy_law, _could_say_epsilon_greedy)
def epsilon_greedy(params, state, work, turn):
    """Say the best label, and any label with probability gamma."""
    return explore_uniformly(work, turn, params.gamma, best(state, work))


def sampled(law):
    """A function for `say` that draws a label by this law; learning does not use the propensity."""
    drawn_law = inline(law)

    @choosing_by(law, could_say_at_random)
    def say(params, state, work, turn):
        drawn_law(params, state, work, turn)
        label = sample(work, turn)
        return Choice(label, best(state, work), work.propensities[label], 0.0, 0.0)

    return say
