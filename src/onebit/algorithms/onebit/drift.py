"""The alarm that right answers have become rarer, and what OneBit forgets then."""

from __future__ import annotations

from typing import Any

import numpy as np

from onebit.algorithms.onebit.dense import Dense
from onebit.algorithms.onebit.records import SAID
from onebit.algorithms.onebit.sparse import Sparse
from onebit.core.jit import implement, inline
from onebit.core.rounds import count_said, must_pause, undo_drift
from onebit.feedback.drift import COUNTS, will_ring
from onebit.learner.alarm import Alarm

# The chance of a false alarm; what share an alarm forgets: not all, so that a false alarm does not
# cost everything.
FALSE_ALARM, FORGOTTEN = 0.01, 0.9
# Places in the state's memory, after the alarm's counts: 1 if there is an alarm; what trying labels
# has cost; right answers.
RANG, SPENT, EARNED = COUNTS, COUNTS + 1, COUNTS + 2


@inline
def _rang(state):
    return state.memory[RANG] != 0.0


implement(must_pause, Sparse)(_rang)
implement(must_pause, Dense)(_rang)


@implement(count_said, Sparse, Dense)
def _add_said(state, label, times):
    state.held.experts.tries[SAID, label] += times


@implement(undo_drift, Sparse, Dense)
def _take_back(state, before):
    for i in range(len(before)):
        state.memory[i] = before[i]


# In Python.


class DriftAlarm(Alarm):
    """Forgets most of what was learned; all of it if dense rows have other scales now."""

    signal = RANG

    def will_ring(self, memory: np.ndarray, right: bool | None) -> bool:
        return right is None or will_ring(memory, FALSE_ALARM, right)

    def stop(self, state: Any, storage: Any) -> float:
        if not state.memory[RANG]:
            return 0.0
        state.memory[: RANG + 1] = 0.0
        return 1.0 if storage.has_other_scales(state.held) else FORGOTTEN

    def take_back(self, memory: np.ndarray, before: np.ndarray) -> None:
        memory[:] = before
