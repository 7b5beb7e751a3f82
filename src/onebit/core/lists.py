"""Lists: several labels are shown at once, and somebody takes one of them, or none.

The functions that an algorithm may implement, with the bodies for learners that judge each label by
itself: the first position is what `say` says, the other positions have the best of the rest.

- `rank`: the list that would be shown if nothing was drawn;
- `say_list`: fill the places of the shown labels. The choice is about the first position, and has
  the probability of the list in this order (negative: that of the first position, from `law`);
- `list_law`: turn `work.propensities`, as `law` fills them, into the probabilities of the labels to
  be in the list;
- `could_say_list`: whether `say_list` can have made this choice; forged decisions are refused;
- `hear_list`: learn from the answers about the shown labels.
"""

from __future__ import annotations

import numpy as np

from onebit.core import rounds
from onebit.core.choosing import best
from onebit.core.jit import generic, inline
from onebit.core.rounds import Choice

WRONG, RIGHT = 0, 1  # answers about a shown label
ONE_OF_THEM = 2  # of all shown labels: one of the labels was right, and it is not known which


@inline
def hide(work, label):
    """The label cannot be said until `show_again`."""
    work.mask[label] = -np.inf


@inline
def show_again(work, places):
    for i in range(len(places)):
        work.mask[places[i]] = 0.0


@inline
def rank_by_scores(state, work, places):
    """The labels with the highest scores, the best first."""
    for i in range(len(places)):
        places[i] = best(state, work)
        hide(work, places[i])
    show_again(work, places)


@inline
def is_in(places, label):
    found = False
    for i in range(len(places)):
        found = found or places[i] == label
    return found


@inline
def fill_after_first(ranks, places):
    """Fill the positions after the first one with the best of the rest."""
    filled = 1
    for i in range(len(ranks)):
        if filled < len(places) and ranks[i] != places[0]:
            places[filled] = ranks[i]
            filled += 1


@generic
def rank(params, state, work, turn, greedy, ranks):
    """greedy: the labels with the highest scores."""
    for i in range(len(ranks)):
        ranks[i] = greedy[i]


@generic
def say_list(params, state, work, turn, ranks, places):
    choice = rounds.say(params, state, work, turn)
    places[0] = choice.label
    fill_after_first(ranks, places)
    return choice


@inline
def law_by_first(work, ranks):
    """The law of lists of which the first position alone is drawn.

    All ranks but the last are shown whatever is drawn; the last is unless a label from beyond the
    ranks takes the first position."""
    within, last = 0.0, len(ranks) - 1
    for i in range(last):
        within += work.propensities[ranks[i]]
        work.propensities[ranks[i]] = 1.0
    work.propensities[ranks[last]] = min(work.propensities[ranks[last]] + within, 1.0)


@generic
def list_law(params, state, work, turn, ranks):
    law_by_first(work, ranks)


def certain_list_law(params, state, work, turn, ranks):
    """`list_law` of a learner that draws nothing."""
    work.propensities[:] = 0.0
    for i in range(len(ranks)):
        work.propensities[ranks[i]] = 1.0


@generic
def could_say_list(params, state, work, row, turn, places, greedy, chances, choice):
    return rounds.could_say(params, state, work, row, turn, choice)


@inline
def hear_shown(params, state, work, row, turn, places, greedy, choice, i, right):
    """Hear the answer about a shown label as if it had been said. A label of the greedy list was no
    try: it is its own greedy label."""
    label = places[i]
    usual = label if is_in(greedy, label) else greedy[0]
    said = Choice(label, usual, choice.propensity, choice.note, choice.second_note)
    return rounds.hear(params, state, work, row, turn, said, right)


@generic
def hear_list(params, state, work, row, turn, places, greedy, chances, choice, answers, afresh):
    """The wrong labels first. afresh: an answer changes the scores of other labels, too."""
    heard, changed = 0, False
    for answer in (WRONG, RIGHT):
        for i in range(len(places)):
            if answers[i] == answer:
                if afresh and heard > 0:
                    rounds.score(params, state, work, row, turn)
                right = answer == RIGHT
                changed |= hear_shown(
                    params, state, work, row, turn, places, greedy, choice, i, right
                )
                heard += 1
    return changed
