"""replay: a learner learns from a whole log, in compiled code."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from onebit.evidence.replay_loop import Logged, Manner, Told, learn_rows, tell_rows
from onebit.evidence.rows import RIGHT, UNANSWERED, WRONG, LogBlock, context_at
from onebit.learner.laying import after_meeting
from onebit.learner.learner import Learner
from onebit.learner.looking import to_read
from onebit.learner.streaming import Passage
from onebit.learner.table import NO_ORDER
from onebit.reading.rows import Rows


def learn_block(learner: Learner, block: LogBlock, tells: bool = False) -> Told:
    """Learn a block of a log, whose labels are those of the learner.

    tells: also tell, for every row, what the learner would have said before it learned the row.
    """
    with learner.lock:
        rows = learner.rows(block.contexts)
        _check_answers(learner, block)
        passage = Passage(learner, rows, NO_ORDER)
        told, manner = _room(learner, block.size if tells else 0), _manner(learner)

        def learn(begin: int, end: int) -> int:
            table = learner.table
            before = np.zeros((2, len(table.state.memory)))
            args = (
                learner.params, learner._params_for_truth(), table.state, _own_mask(learner),
                log, told, before, marks, manner, learner.draw_seed, passage.first, begin, end,
                table.size,
            )  # fmt: skip
            return learner.calls.compiled(learn_rows, *args)(*args)

        for end in passage.pieces(block.size):
            log = _logged(learner, block, passage.placed)
            marks = learner.answers.marks(passage.first + end)
            passage.run(learn, end, by_hand=partial(_learn_row, learner, block))
        return told


def _manner(learner: Learner) -> Manner:
    notes_said = type(learner)._had_it_said is not Learner._had_it_said
    knows_wrong = not learner.importance_weighted
    return Manner(learner.hearing, knows_wrong, learner.infers_the_other, notes_said)


def _learn_row(learner: Learner, block: LogBlock, row: int) -> None:
    names, allowed = learner.labels, None
    if len(block.allowed):
        allowed = [names[place] for place in np.flatnonzero(block.allowed[row])]
    truth = block.truth[row]
    learner.learn_logged(
        context_at(block.contexts, row),
        names[block.said[row]],
        right=None if truth >= 0 else bool(block.right[row] == RIGHT),
        label=names[truth] if truth >= 0 else None,
        propensity=float(block.propensity[row]),
        among=allowed,
    )


def tell_block(learner: Learner, block: LogBlock, first: int) -> Told:
    """What a learner would say in each row of a block, if it learned nothing any more.

    first: the number of the block's first row in the log. Rounds count on from the learner's.
    """
    rows = learner.rows(block.contexts)
    met = after_meeting(learner, rows.columns)
    if met is not learner:
        return tell_block(met, block, first)
    with learner.lock:
        reader, state, placed = to_read(learner, rows)
        log, told = _logged(learner, block, placed), _room(learner, block.size)
        args = (
            reader.params, state, _own_mask(reader), log, told, learner.draw_seed,
            learner.round + first, learner.table.size,
        )  # fmt: skip
        reader.calls.compiled(tell_rows, *args)(*args)
        return told


def _own_mask(learner: Learner) -> Any:
    return learner.table.restricted(range(learner.table.size))


def _room(learner: Learner, rows: int) -> Told:
    return Told(np.zeros((rows, learner.table.size)), np.zeros((rows, learner.table.size)))


def _logged(learner: Learner, block: LogBlock, rows: Rows) -> Logged:
    """The rows of a block as compiled code reads them."""
    right = block.right.astype(np.int64)
    if learner.hearing.silence_is_wrong:
        right = np.where(right == UNANSWERED, WRONG, right)
    truth = block.truth.astype(np.int64)
    if learner.full_information:
        truth = np.where((truth < 0) & (right == RIGHT), block.said, truth)
    propensity = np.where(np.isnan(block.propensity), 1.0, block.propensity)
    return Logged(
        rows.indices, rows.values, rows.indptr, block.said.astype(np.int64), right, truth,
        propensity, np.ascontiguousarray(block.allowed, np.uint8).reshape(-1, learner.table.size),
    )  # fmt: skip


def _check_answers(learner: Learner, block: LogBlock) -> None:
    """Refuse rows from which this learner cannot learn, before it learns any of the block."""
    if learner.full_information:
        unnamed = np.flatnonzero((block.right == WRONG) & (block.truth < 0))
        if len(unnamed):
            raise ValueError(
                f"row {block.lines[unnamed[0]]}: {type(learner).__name__} is a reference that "
                "learns from the true label, and this row only says that a label was wrong"
            )
    if learner.importance_weighted:
        unknown = np.flatnonzero(np.isnan(block.propensity) & (block.right != UNANSWERED))
        if len(unknown):
            raise ValueError(
                f"row {block.lines[unknown[0]]} has no propensity, and {type(learner).__name__} "
                "weights by 1 / propensity: name the column, or take a learner that needs none, "
                "such as OneBit"
            )
