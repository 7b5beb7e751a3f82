"""The functions of a round, and the compiled loop over a stream.

A round: decide and count the mistakes, send the answer on its way, learn from the answers that
arrive. `lockstep_loop` has the loop over several learners, built from the same functions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from onebit.core.jit import entry, generic, implement, inline
from onebit.core.rounds import (
    Choice,
    Row,
    Turn,
    hear,
    hear_label,
    learn_scales,
    must_pause,
    next_row,
    say,
    scaled,
    score,
    teaches,
)
from onebit.feedback.channels import UNHEARD, delay_of, understood
from onebit.lab.truth import answer, drifted_truth, is_right, mistake, named_label, truth_at
from onebit.learner.answered import mark


class Stream(NamedTuple):
    """Rows, what is right in them, and the row of each round (empty: the given order)."""

    indices: Any
    values: Any
    indptr: Any
    truths: Any  # a record of `lab.truth`
    order: Any
    kept: Any  # number of rows from earlier chunks, which come first


@inline
def row_at(stream, i):
    return Row(stream.indices, stream.values, stream.indptr[i], stream.indptr[i + 1])


@inline
def decide(params, state, work, row, turn, truth, counts):
    """Say a label, and count the mistakes."""
    score(params, state, work, row, turn)
    choice = say(params, state, work, turn)
    counts[0] += mistake(truth, turn, choice.label)
    counts[1] += mistake(truth, turn, choice.greedy)
    counts[2] += choice.label != choice.greedy
    return choice


@inline
def learn(params, state, work, row, turn, choice, right, label):
    """Learn from the label or from the bit: an algorithm has a body for one of the two."""
    if not teaches(state, row):
        return False
    is_changed = hear_label(params, state, work, row, turn, label)
    return is_changed or hear(params, state, work, row, turn, choice, right)


class NoChannel(NamedTuple):
    """The way of feedback without a channel: every answer arrives at once."""


class ThroughChannel(NamedTuple):
    """The way of feedback through a channel. It may come late; answered rounds are marked."""

    link: Any
    pending: Any  # feedback on its way
    marks: Any


class Pending(NamedTuple):
    """Feedback on its way: a ring of places, and a linked list for each round of arrival."""

    first: Any  # [round of arrival] the place that is delivered first, or -1
    last: Any
    after: Any  # [place] the next place of the same list, or -1
    places: Any  # [place, (row, round, label, greedy, bit, true label as named)]
    numbers: Any  # [place, (propensity, note, second note)]
    before: Any  # rounds of this run in earlier chunks


def nothing_pending(longest: int) -> Pending:
    ring = longest + 1
    first, last, after = (np.full(ring, -1, np.int64) for _ in range(3))
    return Pending(first, last, after, np.zeros((ring, 6), np.int64), np.zeros((ring, 3)), 0)


@generic
def truth_of(way, turn, truth):
    return truth


@generic
def send(way, params, state, work, row, read, turn, choice, truth, i, t):
    """Send the answer on its way; if it is heard at once, learn from it. read: the row, scaled."""
    right, label = is_right(truth, turn, choice.label), named_label(truth)
    is_changed = learn(params, state, work, read, turn, choice, right, label)
    learn_scales(work, row)
    return is_changed


@generic
def deliver(way, params, state, work, stream, seed, count, t):
    """Learn from the answers that arrive in round t."""
    return False


@implement(truth_of, ThroughChannel)
def _truth_after_drift(way, turn, truth):
    return drifted_truth(truth, way.link, turn)


@inline
def _post(pending, place, arrival, i, round, choice, bit, named):
    """Append feedback to the list of its round of arrival."""
    record = pending.places[place]
    record[0], record[1], record[2] = i, round, choice.label
    record[3], record[4], record[5] = choice.greedy, bit, named
    numbers = pending.numbers[place]
    numbers[0], numbers[1], numbers[2] = choice.propensity, choice.note, choice.second_note
    pending.after[place] = -1
    if pending.first[arrival] < 0:
        pending.first[arrival] = place
    else:
        pending.after[pending.last[arrival]] = place
    pending.last[arrival] = place


@implement(send, ThroughChannel)
def _post_answer(way, params, state, work, row, read, turn, choice, truth, i, t):
    bit, named = answer(truth, way.link, turn, choice.label)
    bit = understood(way.link, turn.round, bit)
    if bit != UNHEARD:
        time, ring = way.pending.before + t, len(way.pending.first)
        arrival = (time + delay_of(way.link, turn.round, time)) % ring
        _post(way.pending, time % ring, arrival, i, turn.round, choice, bit, named)
    return False


@implement(deliver, ThroughChannel)
def _deliver_late(way, params, state, work, stream, seed, count, t):
    """Learn from late answers until the storage has to pause; the next call delivers the rest."""
    pending, updates = way.pending, 0
    arrival = (pending.before + t) % len(pending.first)
    place = pending.first[arrival]
    while place >= 0 and not must_pause(state):
        i, round, label, greedy, bit, named = pending.places[place]
        propensity, note, second_note = pending.numbers[place]
        row, turn = row_at(stream, i), Turn(seed, round, count)
        choice = Choice(label, greedy, propensity, note, second_note)
        read = scaled(work, row)
        score(params, state, work, read, turn)
        if bit >= 0:
            updates += learn(params, state, work, read, turn, choice, bit == 1, named)
            learn_scales(work, row)
        mark(way.marks, round)
        place = pending.after[place]
    pending.first[arrival] = place
    return updates


@entry
def run(params, state, work, stream, way, seed, first, begin, end, count, counts):
    """Rounds from begin to end, or until the storage has to pause. Returns the next round.

    first: the learner's round number at round 0 of the stream.
    """
    updates = 0 + deliver(way, params, state, work, stream, seed, count, begin - 1)  # after a pause
    t, i = begin, (stream.kept + begin) % (len(stream.indptr) - 1) - 1
    while t < end and not must_pause(state):
        i = next_row(stream, i, t)
        row, turn = row_at(stream, i), Turn(seed, first + t, count)
        truth = truth_of(way, turn, truth_at(stream.truths, i))
        read = scaled(work, row)
        choice = decide(params, state, work, read, turn, truth, counts)
        updates += send(way, params, state, work, row, read, turn, choice, truth, i, t)
        updates += deliver(way, params, state, work, stream, seed, count, t)
        t += 1
    counts[3] += updates
    return t
