"""Exploration on purpose: a stated share of rounds is drawn by stated probabilities.

`explore` is a setting of every learner. With a share of 0, a learner's compiled code has nothing of
this. Otherwise its settings are wrapped in the record `Exploring`, for which the functions of a
round have bodies of their own: they call those of the algorithm, and mix its law with the one here.
What an algorithm hears is the probability with which its label was said in all.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from onebit.core import lists
from onebit.core.choosing import is_as_likely, nth_possible
from onebit.core.draws import uniform
from onebit.core.jit import implement, inline
from onebit.core.rounds import (
    Choice,
    could_note,
    could_say,
    count_said,
    hear,
    hear_label,
    law,
    noted,
    say,
    score,
    settle,
)

EXPLORE_DRAW = 2 * 10**6 - 5  # two streams of draws that are used only here
EVEN = 0.2  # of the drawn rounds: any label; the rest: one that the forecasts cannot rule out
BAR = 0.1  # a label is ruled out if its chance is below this share of the highest chance


class Exploring(NamedTuple):
    """The settings of an algorithm that explores.

    A label is ruled out if its score exceeds `low`, the score of a label that is surely wrong, by
    less than `bar` times as much as the highest one does. bar < 0: scores are no forecasts.
    """

    share: Any
    even: Any
    low: Any
    bar: Any
    own: Any  # the settings of the algorithm


def exploring(own: Any, share: float, line: tuple[float, float] | None) -> Any:
    """The settings of an algorithm, if need be with exploration. line: of its forecasts: the score
    of a label that is surely wrong, and a factor."""
    if not share:
        return own
    low, bar = (0.0, -1.0) if line is None else (line[0], BAR)
    return Exploring(share, EVEN, low, bar, own)


def own_of(params: Any) -> Any:
    """The settings of the algorithm alone."""
    return params.own if isinstance(params, Exploring) else params


def replaced(params: Any, **settings: Any) -> Any:
    """The same with other settings of the algorithm."""
    own = own_of(params)._replace(**settings)
    return params._replace(own=own) if isinstance(params, Exploring) else own


# The law of the drawn rounds.


@inline
def _bar(params, work):
    """The score below which a label is ruled out; -infinity where scores are no forecasts."""
    if params.bar < 0.0:
        return -np.inf
    top = -np.inf
    for label in range(len(work.mask)):
        if work.mask[label] == 0 and work.scores[label] > top:
            top = np.float64(work.scores[label])
    return params.low + params.bar * (top - params.low) if top > params.low else top


@inline
def _is_open(work, label, bar):
    """Whether the label may be said and is not ruled out; a score that is no number is not ruled
    out either."""
    return work.mask[label] == 0 and not np.float64(work.scores[label]) < bar


@inline
def _count_open(work, bar):
    count = 0
    for label in range(len(work.mask)):
        count += _is_open(work, label, bar)
    return count


@inline
def _nth_open(work, bar, n):
    found = nth_possible(work, 0)
    for label in range(len(work.mask)):
        if _is_open(work, label, bar):
            found = label
            if n == 0:
                return found
            n -= 1
    return found


@inline
def _drawn(params, work, turn, bar, count):
    """A label of a drawn round."""
    u = uniform(turn.seed, turn.round, EXPLORE_DRAW + 1)
    if u < params.even:
        return nth_possible(work, int(u / params.even * turn.count))
    return _nth_open(work, bar, int((u - params.even) / (1.0 - params.even) * count))


@inline
def _chance(params, work, turn, label, bar, count):
    """The probability of a label in a drawn round. count: of labels that are not ruled out."""
    even = params.even / turn.count
    return even + (1.0 - params.even) / count if _is_open(work, label, bar) else even


@inline
def _mixed(params, own, chance):
    return (1.0 - params.share) * own + params.share * chance


# The functions of a round.


@implement(score, Exploring)
def _score(params, state, work, row, turn):
    score(params.own, state, work, row, turn)


@implement(say, Exploring)
def _say(params, state, work, turn):
    choice = say(params.own, state, work, turn)
    bar = _bar(params, work)
    count, own = _count_open(work, bar), choice.propensity
    if uniform(turn.seed, turn.round, EXPLORE_DRAW) < params.share:
        label = _drawn(params, work, turn, bar, count)
        if label != choice.label:
            count_said(state, choice.label, -1.0)
            if own >= 0.0:
                law(params.own, state, work, turn)
                own = work.propensities[label]
            count_said(state, label, 1.0)
            choice = Choice(label, choice.greedy, own, choice.note, choice.second_note)
            choice = noted(params.own, state, work, turn, choice)
    if own < 0.0:
        return choice
    own = _mixed(params, own, _chance(params, work, turn, choice.label, bar, count))
    return Choice(choice.label, choice.greedy, own, choice.note, choice.second_note)


@implement(law, Exploring)
def _law(params, state, work, turn):
    law(params.own, state, work, turn)
    bar = _bar(params, work)
    count = _count_open(work, bar)
    for label in range(len(work.mask)):
        if work.mask[label] == 0:
            chance = _chance(params, work, turn, label, bar, count)
            work.propensities[label] = _mixed(params, work.propensities[label], chance)


@inline
def _own_could_say(params, state, work, row, turn, choice, chance):
    """Whether the algorithm can have made this choice, if this was the label's probability in a
    drawn round."""
    drawn = params.share * chance
    if is_as_likely(choice.propensity, drawn):  # only by exploration
        own = Choice(choice.label, choice.greedy, 0.0, choice.note, choice.second_note)
        return could_note(params.own, state, work, row, turn, own)
    own = (choice.propensity - drawn) / (1.0 - params.share)
    if abs(own - 1.0) <= 1e-9:
        own = 1.0
    if not 0.0 < own <= 1.0:
        return False
    made = Choice(choice.label, choice.greedy, own, choice.note, choice.second_note)
    return could_say(params.own, state, work, row, turn, made)


@implement(could_say, Exploring)
def _could_say(params, state, work, row, turn, choice):
    """The scores of that time are not known: any number of labels may have been ruled out."""
    fewest = turn.count if params.bar < 0.0 else 0
    for count in range(fewest, turn.count + 1):
        chance = params.even / turn.count
        if count > 0:
            chance += (1.0 - params.even) / count
        if _own_could_say(params, state, work, row, turn, choice, chance):
            return True
    return False


@implement(hear, Exploring)
def _hear(params, state, work, row, turn, choice, right):
    return hear(params.own, state, work, row, turn, choice, right)


@implement(hear_label, Exploring)
def _hear_label(params, state, work, row, turn, label):
    return hear_label(params.own, state, work, row, turn, label)


@implement(settle, Exploring)
def _settle(params, state, row):
    settle(params.own, state, row)


# Lists: a label that is drawn takes the first position.


@implement(lists.rank, Exploring)
def _rank(params, state, work, turn, greedy, ranks):
    lists.rank(params.own, state, work, turn, greedy, ranks)


@implement(lists.say_list, Exploring)
def _say_list(params, state, work, turn, ranks, places):
    choice = say(params, state, work, turn)
    places[0] = choice.label
    lists.fill_after_first(ranks, places)
    for i in range(1, len(places)):
        count_said(state, places[i], 1.0)
    return choice


@implement(lists.list_law, Exploring)
def _list_law(params, state, work, turn, ranks):
    lists.law_by_first(work, ranks)


@implement(lists.could_say_list, Exploring)
def _could_say_list(params, state, work, row, turn, places, greedy, chances, choice):
    return could_say(params, state, work, row, turn, choice)


@implement(lists.hear_list, Exploring)
def _hear_list(params, state, work, row, turn, places, greedy, chances, choice, answers, afresh):
    return lists.hear_list(
        params.own, state, work, row, turn, places, greedy, chances, choice, answers, afresh
    )
