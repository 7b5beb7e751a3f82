"""Calls: the compiled functions that a learner calls, each for one round or for many rows.

They are built from the compiled members of an algorithm (see `core.rounds`). If a context has
features that are not in the table, an entry changes nothing and returns NO_ROOM; the learner makes
room and calls it again. `learn` checks all numbers of a decision before it uses them, and returns
FORGED if no learner of this kind can have written them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onebit.core import choosing, rounds
from onebit.core.exploring import own_of
from onebit.core.jit import direct, entry, inline
from onebit.core.rounds import Choice, Row, Turn
from onebit.core.slots import MARK, NO_ROOM, placed
from onebit.reading.rows import LARGEST_DOUBLE, LARGEST_SINGLE, is_rising

if TYPE_CHECKING:
    from onebit.learner.table import Table

FORGED = -2
LEAST_LIKELY = 2.0**-60  # propensities below cannot be drawn: draws have 53 bits


@inline
def _is_context(state, work, indices, values):
    """Whether these arrays are still a context: the holder of a decision may have changed them."""
    if len(indices) != len(values):
        return False
    if len(indices) > 0 and indices[-1] >= MARK and not rounds.may_mark(work):
        return False
    packed = indices.strides[0] == indices.itemsize and values.strides[0] == values.itemsize
    if len(indices) > 1 and not packed:
        return False
    top = LARGEST_SINGLE if values.itemsize == 4 else LARGEST_DOUBLE
    gaps = rounds.takes_gaps(state) or rounds.takes_gaps(work)
    return is_rising(indices, values, 0.99 / top, top, gaps)  # single precision rounds


@inline
def _is_possible(work, label):
    return 0 <= label < len(work.mask) and work.mask[label] == 0


@inline
def _is_genuine(params, state, work, row, turn, choice):
    """Whether this learner, or a copy of it, can have made this decision in some round.

    row: as `placed` gives it. If there is no room for it, and numbers of dicts are scaled, its
    length cannot be told: `_learn` checks it again when there is room."""
    is_unmet = row.stop == NO_ROOM and rounds.may_mark(work)
    row = Row(row.indices, row.values, 0, len(row.values))
    return (
        _is_possible(work, choice.label)
        and _is_possible(work, choice.greedy)
        and LEAST_LIKELY <= choice.propensity <= 1.0
        and (
            is_unmet
            or rounds.could_say(params, state, work, rounds.scaled(work, row), turn, choice)
        )
    )


@entry
def _decide(params, state, work, indices, values, seed, round, count):
    """Returns label, greedy label, propensity, the algorithm's two numbers, and the said label's
    score."""
    row, turn = placed(state, work, indices, values), Turn(seed, round, count)
    if row.stop == NO_ROOM:
        return NO_ROOM, 0, 0.0, 0.0, 0.0, 0.0
    rounds.score(params, state, work, rounds.scaled(work, row), turn)
    choice = rounds.say(params, state, work, turn)
    propensity = choice.propensity
    if propensity < 0:
        rounds.law(params, state, work, turn)
        propensity = work.propensities[choice.label]
    score = float(work.scores[choice.label])
    return choice.label, choice.greedy, propensity, choice.note, choice.second_note, score


@entry
def _propensities(params, state, work, indices, values, seed, round, count):
    """Fill `work.propensities`. indices: places in the table."""
    row, turn = Row(indices, values, 0, len(indices)), Turn(seed, round, count)
    rounds.score(params, state, work, rounds.scaled(work, row), turn)
    rounds.law(params, state, work, turn)


@inline
def _choice(label, greedy, propensity, note, other):
    # Uncompiled, numpy would round results of Python floats and float32 to float32.
    return Choice(label, greedy, np.float64(propensity), np.float64(note), np.float64(other))


@entry
def _vet(
    params, state, work, indices, values, seed, round, count, label, greedy, propensity, note, other
):
    """Whether a decision can be genuine. Nothing changes.

    This is an entry, because references have no `hear` and thus no `_learn`."""
    if not _is_context(state, work, indices, values):
        return False
    row, turn = placed(state, work, indices, values), Turn(seed, round, count)
    choice = _choice(label, greedy, propensity, note, other)
    return _is_genuine(params, state, work, row, turn, choice)


@entry
def _learn(
    params, state, work, indices, values, seed, round, count,
    label, greedy, propensity, note, other, said, afresh, right,
):  # fmt: skip
    """Learn from one bit. Returns whether weights changed, or NO_ROOM or FORGED.

    said: `decide` said the label; otherwise a user named it, and the decision was checked before.
    afresh: learning reads the row's present scores.
    """
    if said and not _is_context(state, work, indices, values):
        return FORGED
    row, turn = placed(state, work, indices, values), Turn(seed, round, count)
    choice = _choice(label, greedy, propensity, note, other)
    if said and not _is_genuine(params, state, work, row, turn, choice):
        return FORGED
    if row.stop == NO_ROOM:
        return NO_ROOM
    read = rounds.scaled(work, row)
    if not rounds.teaches(state, read):
        return 0
    if afresh:
        rounds.score(params, state, work, read, turn)
    return int(rounds.hear(params, state, work, read, turn, choice, right))


@entry
def _learn_label(params, state, work, indices, values, seed, round, count, label):
    """Learn from the true label, for references; there is room already."""
    row, turn = placed(state, work, indices, values), Turn(seed, round, count)
    read = rounds.scaled(work, row)
    if not rounds.teaches(state, read):
        return 0
    rounds.score(params, state, work, read, turn)
    return int(rounds.hear_label(params, state, work, read, turn, label))


@entry
def _learn_scales(params, state, work, indices, values, seed, round, count):
    """Take an answered row into the scales; there is room already."""
    rounds.learn_scales(work, placed(state, work, indices, values))


@entry
def score_rows(params, state, work, indices, values, indptr, round, out_scores, out_places):
    """The scores of many rows, and the places of their greedy labels.

    indices: places in the table."""
    turn = Turn(0, round, out_scores.shape[1])
    for i in range(len(indptr) - 1):
        start, stop = indptr[i], indptr[i + 1]
        row = rounds.scaled(work, Row(indices, values, start, stop))
        rounds.score(params, state, work, row, turn)
        out_places[i] = choosing.best(state, work)
        for label in range(out_scores.shape[1]):
            out_scores[i, label] = work.scores[label]


_DECISION = (0, 0, 0.0, 0.0, 0.0)  # label, greedy, propensity, note, other
_OF_A_ROUND: dict[str, tuple[Any, ...]] = {  # with examples of the arguments that follow `count`
    "decide": (_decide,),
    "propensities": (_propensities,),
    "vet": (_vet, *_DECISION),
    "learn": (_learn, *_DECISION, True, True, True),
    "learn_label": (_learn_label, 0),
    "learn_scales": (_learn_scales,),
}


class Calls:
    """The compiled functions of one learner, for its records.

    Those of a round are attributes: each is compiled when it is first used.
    """

    def __init__(self, params: Any, table: Table) -> None:
        state, scales = table.state, table.scales
        # Identifies the types of the records.
        self.types = (*map(type, (params, own_of(params), state, state.held, scales)), table.dtype)
        self._guard = table.storage.guarded
        empty = state._replace(table=state.table[:0].copy())
        context = (np.empty(0, np.uint32), np.empty(0, table.reader.way.dtype))
        self._examples = (params, empty, table.work, *context, 0, 0, 0)

    def compiled(self, function: Any, *args: Any, types: tuple[Any, ...] = ()) -> Any:
        """A compiled function of such arguments. types: of the further records among them."""
        return self._guard(direct(function, (self.types, *types) if types else self.types, *args))

    def __getattr__(self, name: str) -> Any:
        if name not in _OF_A_ROUND:
            raise AttributeError(f"there is no call {name!r}")
        function, *examples = _OF_A_ROUND[name]
        compiled = self.compiled(function, *self._examples, *examples)
        setattr(self, name, compiled)
        return compiled
