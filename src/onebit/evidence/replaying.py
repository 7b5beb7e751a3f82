"""replay: a learner learns from a whole log, in compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np

from onebit.evidence.replay_loop import Logged, Manner, Told, learn_rows, tell_rows
from onebit.evidence.rows import RIGHT, UNANSWERED, WRONG, LogBlock, context_at
from onebit.learner.forgetting import fade, pause
from onebit.learner.laying import after_meeting, meet
from onebit.learner.learner import Learner
from onebit.learner.looking import to_read
from onebit.learner.table import NO_ORDER
from onebit.reading.rows import Rows

_LONGEST_CALL = 2**18  # rows: between calls Ctrl-C is heard


def learn_block(learner: Learner, block: LogBlock, tells: bool = False) -> Told:
    """Learn a block of a log, whose labels are those of the learner.

    tells: also tell, for every row, what the learner would have said before it learned the row.
    """
    with learner.lock:
        rows = learner.rows(block.contexts)
        _check_answers(learner, block)
        if learner.reader.way.is_open and rows.columns:
            meet(learner, rows.columns)
        labels_then, placed = learner.label_set, learner.table.place(rows, NO_ORDER)
        learner.reader.remember(rows.columns, rows.names)
        log = _logged(learner, block, placed)
        told = _room(learner, block.size if tells else 0)
        first, done = learner.round, 0
        while done < block.size:
            if first + done >= learner.fading.at:
                fade(learner, first + done)
            if learner.label_set is not labels_then:  # the learner was reloaded
                labels_then, placed = learner.label_set, learner.table.place(rows, NO_ORDER)
                log = Logged(*placed[:3], *log[3:])
            end = min(block.size, done + _LONGEST_CALL, learner.fading.at - first)
            _learn_rows(learner, block, log, told, first, done, end)
            done = end
            learner.round = first + done
        if rows.kind and not learner.reader.taught_with and learner.answers.any():
            learner.reader.taught_with = rows.kind
        return told


def _learn_rows(
    learner: Learner, block: LogBlock, log: Logged, told: Told, first: int, begin: int, end: int
) -> None:
    """Learn rows, with the pauses that the learner asks for."""
    failure: BaseException | None = None
    try:
        marks = learner.answers.marks(first + end)
        manner = _manner(learner)
        while True:
            table = learner.table
            before = np.zeros((2, len(table.state.memory)))
            args = (
                learner.params, learner._params_for_truth(), table.state, _own_mask(learner),
                log, told, before, marks, manner, learner.draw_seed, first, begin, end, table.size,
            )  # fmt: skip
            begin = learner.calls.compiled(learn_rows, *args)(*args)
            try:
                has_paused = pause(learner)
            except Exception as error:  # as `simulate`: the rows are still learned
                failure, has_paused = failure or error, True
            if begin == end and not has_paused:
                break
            if not has_paused:
                learner.round = first + begin
                _learn_row(learner, block, begin)
                begin += 1
    except BaseException:
        learner.answers.cut(learner.round)
        raise
    if failure is not None:
        learner.round = first + end
        raise failure


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
