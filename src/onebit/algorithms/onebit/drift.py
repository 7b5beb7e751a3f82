"""The alarm that right answers have become rarer, and what a learner in lockstep takes back."""

from __future__ import annotations

from onebit.algorithms.onebit.dense import Dense
from onebit.algorithms.onebit.records import SAID
from onebit.algorithms.onebit.sparse import Sparse
from onebit.core.jit import implement, inline
from onebit.core.rounds import count_said, must_pause, undo_drift
from onebit.feedback.drift import COUNTS

FALSE_ALARM, FORGOTTEN = 0.01, 0.9  # the chance of a false alarm; what share an alarm forgets
RANG, SPENT = COUNTS, COUNTS + 1  # places in the state's memory, after the alarm's counts: 1 if
# there is an alarm; what trying labels has cost


@inline
def _rang(state):
    return state.memory[RANG] != 0.0


implement(must_pause, Sparse)(_rang)
implement(must_pause, Dense)(_rang)


@implement(count_said, Sparse, Dense)
def add_said(state, label, times):
    state.held.experts.tries[SAID, label] += times


@implement(undo_drift, Sparse, Dense)
def take_back(state, before):
    for i in range(len(before)):
        state.memory[i] = before[i]
