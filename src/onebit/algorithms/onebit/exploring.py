"""Which label is said: the one with the highest forecast plus width plus bonus."""

from __future__ import annotations

import math

import numpy as np

from onebit.algorithms.onebit.drift import EARNED, SPENT
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
# Costs up to which the bonus and the widths are whole, in roots of the number of right answers: so
# much it may vary by chance. Where clicks are rare, trying could cost more than it gains.
BONUS_COST, WIDTH_COST = 1.0, 0.5


@inline
def highest_forecast(work):
    """The highest forecast of the possible labels, but at least 0."""
    top = 0.0
    for label in range(len(work.mask)):
        if work.mask[label] == 0:
            top = max(top, np.float64(work.scores[label]))
    return top


@inline
def curb(spent, allowed):
    """By what to multiply what makes the learner try labels, once this has cost so much."""
    return (allowed / spent) ** 3 if spent > allowed else 1.0


@inline
def urges(state, work, turn):
    """By how much to raise the bound of a label that was never said, and how much widths count."""
    doubt, keen = 0.0, 1.0
    if turn.count > 1:
        experts, time = state.held.experts, math.log(1.0 + turn.round)
        exclusive, telling = beliefs(experts, bare_expert(experts.constant), turn.count)
        allowance = ALLOWANCE * exclusive + LEAST_ALLOWANCE * (1.0 - exclusive)
        spent, chance = state.memory[SPENT], math.sqrt(1.0 + state.memory[EARNED])
        doubt = telling * BONUS * max(0.0, 1.0 - highest_forecast(work)) * math.sqrt(time)
        doubt *= curb(spent, min(allowance * turn.count * time, BONUS_COST * chance))
        keen = curb(spent, WIDTH_COST * chance)
    return doubt, keen


@inline
def best_bound(state, work, turn, doubt, keen):
    """The label with the highest forecast plus width plus bonus; the lowest of several."""
    tries = state.held.experts.tries
    found, highest = -1, -np.inf
    for label in range(len(work.mask)):
        if work.mask[label] == 0:
            n = max(tries[SAID, label], tries[ANSWERED, label])
            bound = np.float64(work.scores[label]) + keen * np.float64(work.widths[label])
            bound += doubt / math.sqrt(1.0 + turn.count + n)
            if bound > highest:
                found, highest = label, bound
    return found if found >= 0 else best(state, work)


@inline
def rank_after_bound(state, work, turn, ranks):
    """First the label with the highest bound, as if it were alone; then those with the highest
    forecasts: more positions are no reason to try more."""
    doubt, keen = urges(state, work, turn)
    ranks[0] = best_bound(state, work, turn, doubt, keen)
    hide(work, ranks[0])
    for i in range(1, len(ranks)):
        ranks[i] = best(state, work)
        hide(work, ranks[i])
    show_again(work, ranks)
