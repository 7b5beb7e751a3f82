"""Lists of Banditron: the labels with the highest scores, or as many labels drawn uniformly.

T is the list of the L highest scores, best first; it is shown, or with probability gamma a list
drawn uniformly, in the order in which its labels are drawn. A label is in the list A with
probability P(y in A) = (1 - gamma) 1[y in T] + gamma L/K. With the taken label y named, the
estimate e = e_y 1[y in A] / P(y in A) of the true label is unbiased.

If only one bit is heard for the whole list, the bit is 1_A . e_y, so G^-1 1_A bit is unbiased,
where G is the mean of 1_A 1_A' (the pseudo-inverse of Swaminathan et al., "Off-policy evaluation
for slate recommendation", NIPS 2017; one right label makes its assumption true). Here

    G = (1 - gamma) 1_T 1_T' + gamma (u I + b 1 1'),  b = L (L - 1) / (K (K - 1)),  u = L/K - b,

whose inverse follows twice from Sherman and Morrison. Both learn W += (e - e_h) x', with h the
greedy label: for lists of one label this is Banditron.
"""

from __future__ import annotations

from onebit.core.choosing import is_as_likely, nth_possible
from onebit.core.draws import uniform
from onebit.core.jit import inline
from onebit.core.lists import ONE_OF_THEM, RIGHT, hide, is_in, show_again
from onebit.core.rounds import Choice
from onebit.core.updates import add


@inline
def chance_of_order(gamma, count, size):
    """The probability of one list with its order by drawing alone."""
    chance = gamma
    for i in range(size):
        chance /= count - i
    return chance


@inline
def chance_of_list(gamma, count, ranks, places):
    same = True
    for i in range(len(places)):
        same = same and places[i] == ranks[i]
    share = chance_of_order(gamma, count, len(places))
    return (1.0 - gamma) + share if same else share


@inline
def chance_in_list(gamma, count, greedy, label):
    share = gamma * len(greedy) / count
    return (1.0 - gamma) + share if is_in(greedy, label) else share


def say_list(params, state, work, turn, ranks, places):
    for i in range(len(places)):
        places[i] = ranks[i]
    if uniform(turn.seed, turn.round, 0) < params.gamma:
        for i in range(len(places)):
            left = turn.count - i
            places[i] = nth_possible(work, int(uniform(turn.seed, turn.round, 1 + i) * left))
            hide(work, places[i])
        show_again(work, places)
    propensity = chance_of_list(params.gamma, turn.count, ranks, places)
    return Choice(places[0], ranks[0], propensity, 0.0, 0.0)


def list_law(params, state, work, turn, ranks):
    for label in range(len(work.mask)):
        possible = work.mask[label] == 0
        chance = chance_in_list(params.gamma, turn.count, ranks, label)
        work.propensities[label] = min(chance, 1.0) if possible else 0.0


def could_say_list(params, state, work, row, turn, places, greedy, chances, choice):
    likely = is_as_likely(
        choice.propensity, chance_of_list(params.gamma, turn.count, greedy, places)
    )
    for i in range(len(places)):
        expected = chance_in_list(params.gamma, turn.count, greedy, places[i])
        likely = likely and is_as_likely(chances[i], min(expected, 1.0))
    return likely and choice.note == 0.0 and choice.second_note == 0.0


def hear_list(params, state, work, row, turn, places, greedy, chances, choice, answers, afresh):
    if answers[0] == ONE_OF_THEM:
        return hear_one_of_them(params, state, work, row, turn, places, greedy)
    best, taken, gain = greedy[0], greedy[0], 0.0
    for i in range(len(places)):
        if answers[i] == RIGHT:
            taken, gain = places[i], 1.0 / chances[i]
    if taken == best:
        add(state, row, best, gain - 1.0)
    else:
        add(state, row, best, -1.0)
        add(state, row, taken, gain)
    return True


@inline
def hear_one_of_them(params, state, work, row, turn, places, greedy):
    """W += (G^-1 1_A - e_h) x'."""
    gamma, size, count = params.gamma, float(len(places)), float(turn.count)
    if size >= count:  # every label was shown: the bit is known beforehand
        return False
    b = size * (size - 1.0) / (count * (count - 1.0))
    u = size / count - b
    # M = gamma (u I + b 1 1') gives M^-1 1_A = (1_A - drop) / (gamma u), for T as for A.
    drop, factor, common = b * size / (u + b * count), 1.0 / (gamma * u), 0.0
    for i in range(len(places)):
        common += 1.0 if is_in(greedy, places[i]) else 0.0
    across = factor * (common - drop * size)  # 1_T' M^-1 1_A
    along = factor * (size - drop * size)  # 1_T' M^-1 1_T
    share = (1.0 - gamma) * across / (1.0 + (1.0 - gamma) * along)
    for label in range(len(work.mask)):
        if work.mask[label] == 0:
            shown = 1.0 if is_in(places, label) else 0.0
            best = 1.0 if is_in(greedy, label) else 0.0
            gain = factor * ((shown - drop) - share * (best - drop))
            gain -= 1.0 if label == greedy[0] else 0.0
            if gain != 0.0:
                add(state, row, label, gain)
    return True
