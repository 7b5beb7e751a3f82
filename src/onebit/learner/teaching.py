"""Contexts with their true labels, learned before or between rounds (`Learner.teach`).

A taught context is learned as if the learner had said its greedy label for certain and was then
told the true one, as `learn(decision, label=...)` does. It is no round: nothing counts as said or
answered, no alarm hears it, and nothing fades before it. `teach_row` does that with one row and
decisions; `teach_rows` is compiled, does the same, and makes no decisions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from onebit.core.jit import entry, inline
from onebit.core.rounds import (
    Choice,
    Row,
    Turn,
    count_said,
    hear,
    hear_label,
    learn_scales,
    must_pause,
    say,
    scaled,
    score,
    teaches,
    undo_drift,
)
from onebit.learner.forgetting import Fading, pause
from onebit.learner.learning import learn_label
from onebit.learner.streaming import Passage
from onebit.learner.table import NO_ORDER
from onebit.reading.rows import Rows

if TYPE_CHECKING:
    from onebit.learner.learner import Learner


@inline
def _keep(state, before):
    for i in range(len(before)):
        before[i] = state.memory[i]


@inline
def _learn(params, for_truth, state, work, read, turn, truth, is_weighted, infers_the_other):
    """One row. is_weighted: an update stands for all labels, so the wrong one needs none."""
    score(params, state, work, read, turn)
    own = say(params, state, work, turn)
    count_said(state, own.label, -1.0)
    hear_label(params, state, work, read, turn, truth)
    is_other = truth != own.greedy
    first = 1 if is_other and is_weighted else 0
    last = 2 if is_other and not (infers_the_other and turn.count == 2) else 1
    for update in range(first, last):
        if update == 1 and first == 0:
            score(params, state, work, read, turn)
        label = truth if update == 1 else own.greedy
        choice = Choice(label, own.greedy, 1.0, own.note, own.second_note)
        hear(for_truth, state, work, read, turn, choice, label == truth)


@entry
def teach_rows(
    params, for_truth, state, work, indices, values, indptr, truths, before, seed, round, begin,
    end, count, is_weighted, infers_the_other,
):  # fmt: skip
    """Learn rows from begin to end, or until the storage has to pause. Returns the next row.

    before: room for the state's memory.
    """
    turn, t = Turn(seed, round, count), begin
    while t < end and not must_pause(state):
        row = Row(indices, values, indptr[t], indptr[t + 1])
        read = scaled(work, row)
        if teaches(state, read):
            _keep(state, before)
            _learn(
                params, for_truth, state, work, read, turn, truths[t], is_weighted, infers_the_other
            )  # fmt: skip
            undo_drift(state, before)
        learn_scales(work, row)
        t += 1
    return t


# In Python.


def teach(learner: Learner, X: Any, y: Any, by_hand: bool) -> None:
    """See `Learner.teach`.

    by_hand: learning needs numbers about the said label that only Python computes.
    """
    if isinstance(X, str | bytes | Mapping):
        raise TypeError("teach takes many contexts and their labels: teach([text], [label])")
    with learner.lock:
        rows, truths = learner.rows(X), learner.label_set.places(y)
        size = len(rows.indptr) - 1
        if len(truths) != size:
            raise ValueError(f"{size} contexts and {len(truths)} labels: every context needs one")
        if not size:
            return
        learner.table.storage.catch_up(learner.table.state.held)
        passage = Passage(learner, rows, NO_ORDER)
        with _not_fading(learner):
            for end in passage.pieces(size):
                if by_hand:
                    for i in range(passage.done, end):
                        teach_row(learner, _context_at(rows, i), int(truths[i]))
                else:
                    _teach_piece(learner, passage, truths, end)
                passage.done = end
        learner.reader.taught_with = learner.reader.taught_with or rows.kind


@contextmanager
def _not_fading(learner: Learner) -> Iterator[None]:
    """A step that is due comes before the next decision: a file does not say if it was made."""
    fading, learner.fading = learner.fading, Fading(None)
    try:
        yield
    finally:
        learner.fading = fading


def _teach_piece(learner: Learner, passage: Passage, truths: np.ndarray, end: int) -> None:
    """Rows up to `end`, with the pauses that the learner asks for."""
    begin = passage.done
    while begin < end:
        table = learner.table
        args = (
            learner.params, learner._params_for_truth(), table.state,
            table.restricted(range(table.size)), *passage.placed[:3], truths,
            np.zeros(len(table.state.memory)), learner.draw_seed, learner.round, begin, end,
            table.size, learner.importance_weighted, learner.infers_the_other,
        )  # fmt: skip
        begin = learner.calls.compiled(teach_rows, *args)(*args)
        pause(learner)


def _context_at(rows: Rows, i: int) -> tuple[np.ndarray, np.ndarray]:
    part = slice(rows.indptr[i], rows.indptr[i + 1])
    return rows.indices[part], rows.values[part]


def teach_row(learner: Learner, x: Any, truth: int) -> None:
    """Learn one context with the place of its true label."""
    own = learner.decide(x)
    learner.round -= 1
    learner.table.storage.count_said(learner.table.state.held, own.place, -1)
    memory = learner.table.state.memory.copy()
    said = learner._had_it_said(own, own.greedy_place)
    learn_label(learner, said, learner.draw_seed, truth, said=False)
    learner.alarm.take_back(learner.table.state.memory, memory)
    if learner.table.scales is not None:
        row, table = own.row, learner.table
        learn_scales = learner.calls.learn_scales
        learn_scales(
            learner.params, table.state, table.work, *row, learner.draw_seed, own.round, table.size
        )
    if learner.may_pause:
        pause(learner, is_live=True)
