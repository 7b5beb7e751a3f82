"""Calls: the compiled functions that a learner calls, each for one round or for many rows.

They are built from the compiled members of an algorithm (see `core.rounds`). If a context has
features that are not in the table, an entry changes nothing and returns NO_ROOM; the learner makes
room and calls it again. `learn` checks all numbers of a decision before it uses them, and returns
FORGED if no learner of this kind can have written them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onebit.core import choosing, lists, rounds
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
def _decide_list(
    params, state, work, indices, values, seed, round, count, places, greedy, ranks, chances, scores
):
    """Fill the arrays, each with a number per position. Returns the propensity of the list and the
    algorithm's two numbers; the propensity is NO_ROOM if there is none.

    ranks: scratch space. chances: of each label to be in the list."""
    row, turn = placed(state, work, indices, values), Turn(seed, round, count)
    if row.stop == NO_ROOM:
        return float(NO_ROOM), 0.0, 0.0
    rounds.score(params, state, work, rounds.scaled(work, row), turn)
    lists.rank_by_scores(state, work, greedy)
    lists.rank(params, state, work, turn, greedy, ranks)
    choice = lists.say_list(params, state, work, turn, ranks, places)
    for i in range(len(places)):  # the law is that of the state before
        rounds.count_said(state, places[i], -1.0)
    rounds.law(params, state, work, turn)
    propensity = choice.propensity
    if propensity < 0:
        propensity = work.propensities[places[0]]
    lists.list_law(params, state, work, turn, ranks)
    for i in range(len(places)):
        rounds.count_said(state, places[i], 1.0)
        chances[i] = work.propensities[places[i]]
        scores[i] = work.scores[places[i]]
    return propensity, choice.note, choice.second_note


@entry
def _list_propensities(params, state, work, indices, values, seed, round, count, greedy, ranks):
    """Fill `work.propensities` with the probabilities to be in the list. indices: places in the
    table."""
    row, turn = Row(indices, values, 0, len(indices)), Turn(seed, round, count)
    rounds.score(params, state, work, rounds.scaled(work, row), turn)
    lists.rank_by_scores(state, work, greedy)
    lists.rank(params, state, work, turn, greedy, ranks)
    rounds.law(params, state, work, turn)
    lists.list_law(params, state, work, turn, ranks)


@inline
def _are_possible(work, places):
    """Whether these are different labels, each of them possible."""
    possible = True
    for i in range(len(places)):
        possible = possible and _is_possible(work, places[i])
        for j in range(i):
            possible = possible and places[i] != places[j]
    return possible


@inline
def _is_genuine_list(params, state, work, row, turn, places, greedy, chances, choice):
    """As `_is_genuine`, for a list."""
    is_unmet = row.stop == NO_ROOM and rounds.may_mark(work)
    row = Row(row.indices, row.values, 0, len(row.values))
    likely = 0.0 < choice.propensity <= 1.0
    for i in range(len(chances)):
        likely = likely and choice.propensity <= chances[i] * (1.0 + 1e-9) <= 1.0 + 2e-9
    if not (likely and _are_possible(work, places) and _are_possible(work, greedy)):
        return False
    return is_unmet or lists.could_say_list(
        params, state, work, rounds.scaled(work, row), turn, places, greedy, chances, choice
    )


@entry
def _vet_list(
    params, state, work, indices, values, seed, round, count,
    places, greedy, chances, propensity, note, other,
):  # fmt: skip
    """Whether a list can be genuine. Nothing changes."""
    if not _is_context(state, work, indices, values):
        return False
    row, turn = placed(state, work, indices, values), Turn(seed, round, count)
    choice = _choice(places[0], greedy[0], propensity, note, other)
    return _is_genuine_list(params, state, work, row, turn, places, greedy, chances, choice)


@entry
def _learn_list(
    params, state, work, indices, values, seed, round, count,
    places, greedy, chances, propensity, note, other, answers, rescores, afresh,
):  # fmt: skip
    """Learn from the answers about a list that was vetted. Returns as `_learn`.

    rescores, afresh: learning reads the row's scores, and an answer changes those of other labels.
    """
    row, turn = placed(state, work, indices, values), Turn(seed, round, count)
    choice = _choice(places[0], greedy[0], propensity, note, other)
    if row.stop == NO_ROOM:
        return NO_ROOM
    read = rounds.scaled(work, row)
    if not rounds.teaches(state, read):
        return 0
    if rescores:
        rounds.score(params, state, work, read, turn)
    return int(
        lists.hear_list(
            params, state, work, read, turn, places, greedy, chances, choice, answers, afresh
        )
    )


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
_PLACES, _NUMBERS = np.empty(0, np.int64), np.empty(0)  # one per position of a list
_LIST = (_PLACES, _PLACES, _NUMBERS, 0.0, 0.0, 0.0)  # places, greedy, chances, propensity, notes
_OF_A_ROUND: dict[str, tuple[Any, ...]] = {  # with examples of the arguments that follow `count`
    "decide": (_decide,),
    "propensities": (_propensities,),
    "vet": (_vet, *_DECISION),
    "learn": (_learn, *_DECISION, True, True, True),
    "learn_label": (_learn_label, 0),
    "learn_scales": (_learn_scales,),
    "decide_list": (_decide_list, _PLACES, _PLACES, _PLACES, _NUMBERS, _NUMBERS),
    "list_propensities": (_list_propensities, _PLACES, _PLACES),
    "vet_list": (_vet_list, *_LIST),
    "learn_list": (_learn_list, *_LIST, _PLACES, True, True),
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
