"""The compiled loops over a log: to learn from it, and to see what a learner would have said."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from onebit.core.jit import entry, inline
from onebit.core.rounds import (
    Choice,
    Row,
    Turn,
    count_said,
    hear,
    hear_label,
    law,
    learn_scales,
    must_pause,
    say,
    scaled,
    score,
    teaches,
    undo_drift,
)
from onebit.learner.answered import mark
from onebit.learner.silence import is_taken


class Logged(NamedTuple):
    """Rows of a log: contexts, what was said, and the answers."""

    indices: Any
    values: Any
    indptr: Any
    said: Any  # [row] the place of the label
    right: Any  # [row] 1, 0, or -1 without an answer
    truth: Any  # [row] the place of the label that was named as right, or -1
    propensity: Any  # [row]
    allowed: Any  # [row, label]: which labels were possible; without rows, all were


class Told(NamedTuple):
    """What the learner would have said, [row, label]; without rows, nothing is told."""

    propensities: Any
    scores: Any


class Manner(NamedTuple):
    """How a learner learns from a label that was named as right and was not said."""

    hearing: Any
    knows_wrong: Any  # it also learns that the said label was wrong
    infers_the_other: Any  # of two labels: that one is wrong says all
    notes_said: Any  # learning needs numbers about the said label, which only Python computes


@inline
def _let_say(work, log, t, count):
    """Which labels may be said in a round. Returns how many."""
    if len(log.allowed) == 0:
        return count
    possible = 0
    for label in range(count):
        is_possible = log.allowed[t, label] != 0
        work.mask[label] = 0 if is_possible else -np.inf
        possible += is_possible
    return possible


@inline
def _tell(params, state, work, turn, told, t):
    if len(told.propensities) == 0:
        return
    law(params, state, work, turn)
    for label in range(told.propensities.shape[1]):
        told.propensities[t, label] = work.propensities[label]
        told.scores[t, label] = work.scores[label]


@entry
def tell_rows(params, state, work, log, told, seed, first, count):
    """What the learner would say in each row, if it learned nothing from them."""
    for t in range(len(log.indptr) - 1):
        row = Row(log.indices, log.values, log.indptr[t], log.indptr[t + 1])
        turn = Turn(seed, first + t, _let_say(work, log, t, count))
        score(params, state, work, scaled(work, row), turn)
        _tell(params, state, work, turn, told, t)


@inline
def _keep(state, before):
    for i in range(len(before)):
        before[i] = state.memory[i]


@inline
def _learn(params, for_truth, state, work, log, t, row, read, turn, own, before, manner):
    """As `Learner.learn_logged`. A label that was named and not said makes two updates."""
    said, truth = log.said[t], log.truth[t]
    right = log.right[t] == 1
    if not is_taken(manner.hearing, turn.seed, turn.round, right):
        return
    if teaches(state, read):
        hear_label(params, state, work, read, turn, truth)
        settings = for_truth if truth >= 0 else params
        choice = Choice(said, own.greedy, log.propensity[t], own.note, own.second_note)
        is_other = truth >= 0 and truth != said
        first = 1 if is_other and not manner.knows_wrong else 0
        last = 2 if is_other and not (manner.infers_the_other and turn.count == 2) else 1
        for update in range(first, last):
            if update == 1:
                _keep(state, before)
                score(params, state, work, read, turn)
                choice = Choice(truth, own.greedy, 1.0, own.note, own.second_note)
            hear(settings, state, work, read, turn, choice, right or update == 1)
        if last == 2:
            undo_drift(state, before)
    learn_scales(work, row)


@entry
def learn_rows(
    params, for_truth, state, work, log, told, before, marks, manner, seed, first, begin, end, count
):
    """Learn rows from begin to end, or until the storage has to pause, or Python has to learn a
    row (`Manner.notes_said`). Returns the next row.

    first: the learner's round number at row 0. before: room for the state's memory, twice.
    """
    t = begin
    while t < end and not must_pause(state):
        row = Row(log.indices, log.values, log.indptr[t], log.indptr[t + 1])
        turn = Turn(seed, first + t, _let_say(work, log, t, count))
        read = scaled(work, row)
        score(params, state, work, read, turn)
        _tell(params, state, work, turn, told, t)
        own = say(params, state, work, turn)
        said, truth, is_answered = log.said[t], log.truth[t], log.right[t] >= 0
        if manner.notes_said and is_answered and (said != own.label or 0 <= truth != said):
            return t
        count_said(state, own.label, -1.0)
        count_said(state, said, 1.0)
        if is_answered:
            _keep(state, before[0])
            _learn(params, for_truth, state, work, log, t, row, read, turn, own, before[1], manner)
            if own.label != said:
                undo_drift(state, before[0])
            mark(marks, turn.round)
        t += 1
    return t
