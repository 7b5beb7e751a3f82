"""Which label is said: the one with the highest forecast plus width plus bonus."""

from __future__ import annotations

import math

import numpy as np

from onebit.algorithms.onebit.drift import SPENT
from onebit.algorithms.onebit.experts import bare_expert
from onebit.algorithms.onebit.records import ANSWERED, SAID
from onebit.algorithms.onebit.weighing import beliefs
from onebit.core.choosing import best
from onebit.core.jit import inline
from onebit.core.lists import hide, show_again

# Without a bonus, labels of 20news are found late or never. From 1.5 to 3, results are much alike.
BONUS = 2.0
# Costs of trying labels up to which the bonus is whole, per label and log(1 + t): where exactly one
# label is right, and where each is right by itself. There, perhaps no label is ever likely to be
# right, and trying would go on and on.
ALLOWANCE, LEAST_ALLOWANCE = 0.5, 0.05


@inline
def highest_forecast(work):
    """The highest forecast of the possible labels, but at least 0."""
    top = 0.0
    for label in range(len(work.mask)):
        if work.mask[label] == 0:
            top = max(top, np.float64(work.scores[label]))
    return top


@inline
def doubt_of(state, work, turn):
    """By how much to raise the bound of a label that was never said."""
    doubt = 0.0
    if turn.count > 1:
        experts, time = state.held.experts, math.log(1.0 + turn.round)
        exclusive, telling = beliefs(experts, bare_expert(experts.constant), turn.count)
        allowance = ALLOWANCE * exclusive + LEAST_ALLOWANCE * (1.0 - exclusive)
        allowed, spent = allowance * turn.count * time, state.memory[SPENT]
        doubt = telling * BONUS * max(0.0, 1.0 - highest_forecast(work)) * math.sqrt(time)
        doubt *= (allowed / spent) ** 3 if spent > allowed else 1.0
    return doubt


@inline
def best_bound(state, work, turn, doubt):
    """The label with the highest forecast plus bonus; the lowest of several."""
    tries = state.held.experts.tries
    found, highest = -1, -np.inf
    for label in range(len(work.mask)):
        if work.mask[label] == 0:
            n = max(tries[SAID, label], tries[ANSWERED, label])
            bound = np.float64(work.scores[label]) + np.float64(work.widths[label])
            bound += doubt / math.sqrt(1.0 + turn.count + n)
            if bound > highest:
                found, highest = label, bound
    return found if found >= 0 else best(state, work)


@inline
def rank_by_bound(state, work, turn, ranks):
    """The labels with the highest bounds, the best first."""
    doubt = doubt_of(state, work, turn)
    for i in range(len(ranks)):
        ranks[i] = best_bound(state, work, turn, doubt)
        hide(work, ranks[i])
    show_again(work, ranks)
