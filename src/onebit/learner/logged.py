"""Decisions that are kept elsewhere: proposals, decisions counted again, labels others said.

A service that keeps its decisions can build its learner again from them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from onebit.core.settings import real
from onebit.core.slots import no_slots
from onebit.learner.decision import Decision, checked_decision
from onebit.learner.forgetting import fade, pause
from onebit.learner.laying import after_meeting, meet
from onebit.learner.learning import (
    fitted_decision,
    is_learned_from,
    learn_bit,
    learn_label,
    learn_scales,
    understood,
    vet,
)
from onebit.learner.looking import places_of, to_read
from onebit.reading.contexts import columns_of
from onebit.reading.frames import names_of
from onebit.reading.rows import Rows

if TYPE_CHECKING:
    from onebit.learner.learner import Learner


def propose(learner: Learner, x: Any, among: Iterable[Any] | None) -> Decision:
    """See `Learner.propose`."""
    with learner.lock:
        if not can_propose(learner, x):
            return learner.copy().decide(x, among=among)
        reader = learner.reader
        row, kind, *_ = reader.one(x, learner)
        if not learner.table.has_room_for(row[0]):
            return _decide_without_room(learner, row, kind, among)
        columns, names = reader.columns, reader.names
        decision = learner.decide(x, among=among)
        count_said(learner, decision.place, -1)
        reader.columns, reader.names = columns, names
        learner.round -= 1
        return decision


def can_propose(learner: Learner, x: Any) -> bool:
    """Whether `decide` would change nothing but the number of rounds and the room."""
    is_first = learner.reader.columns_to_meet(x, learner) > 0
    return 0 < learner.round < learner.fading.at and not is_first


def _decide_without_room(
    learner: Learner, row: tuple[Any, Any], kind: str, among: Iterable[Any] | None
) -> Decision:
    """The decision on a context with new features. No room is made for them."""
    places = None if among is None else places_of(learner, among)
    size = learner.table.size
    count = size if places is None else len(places)
    row = indices, values = learner.table.fitted(row)
    rows = Rows(indices, values, np.array([0, len(indices)]), learner.reader.way.width(indices))
    reader, state, rows = to_read(learner, rows)
    table = reader.table
    work = table.work if places is None else table.restricted(places)
    work = work._replace(slots=no_slots(), places=np.zeros_like(rows.indices))
    label, greedy, propensity, note, other, score = reader.calls.decide(
        learner.params, state, work, *rows[:2], learner.draw_seed, learner.round, count
    )
    if reader is learner:
        count_said(learner, label, -1)
    names, confidence, line = learner.label_set.names, None, learner.chance_line
    if line is not None and len(indices):
        confidence = min(max((score - line[0]) * line[1], 0.0), 1.0)
    return Decision(
        names[label], names[greedy], propensity, learner.round, row, label, greedy, note, other,
        size, places, learner.origin, learner.salt, confidence, kind,
    )  # fmt: skip


def count_said(learner: Learner, place: int, times: int) -> None:
    """Add to the number of times that a label was said, if the state counts it."""
    learner.table.storage.count_said(learner.table.state.held, place, times)


def redo(learner: Learner, x: Any, decision: Decision) -> Decision:
    """See `Learner.redo`."""
    with learner.lock:
        columns = columns_of(learner.reader.in_columns(x, learner))
        judge = after_meeting(learner, columns)
        decision = checked_decision(decision, judge)
        vet(judge, decision)
        decision = fitted_decision(learner, decision)
        round, names = max(learner.round, decision.round), names_of(x)
        meet(learner, columns)
        learner.table.reserve_for(decision.row[0], columns)
        if round >= learner.fading.at:
            fade(learner, round)
        learner.reader.remember(columns, names if columns else ())
        count_said(learner, decision.place, 1)
        learner.round = round + 1
        return msgspec.structs.replace(decision, round=round)


def learn_logged(
    learner: Learner,
    x: Any,
    said: str | int,
    right: bool | None,
    label: str | int | None,
    propensity: float,
    among: Iterable[Any] | None,
) -> None:
    """See `Learner.learn_logged`."""
    propensity = real("propensity", propensity, above=0, most=1)
    with learner.lock:
        place = learner.label_set.place(said)
        learner.table.storage.catch_up(learner.table.state.held)
        right, named = understood(learner, place, right, label)
        own = learner.decide(x, among=None if among is None else [*among, said])
        count_said(learner, own.place, -1)
        count_said(learner, place, 1)
        logged = own if place == own.place else learner._had_it_said(own, place)
        logged = msgspec.structs.replace(logged, propensity=propensity)
        memory, seed = learner.table.state.memory.copy(), learner.draw_seed
        if not learner.thins or is_learned_from(learner.hearing, seed, own.round, right):
            if named is None:
                learn_bit(learner, logged, seed, right, said=False)
            else:
                learn_label(learner, logged, seed, named, said=False)
            if learner.table.scales is not None:
                learn_scales(learner, logged, seed, right)
        learner.answers.mark(own.round, learner.round)
        if place != own.place:
            learner.alarm.take_back(learner.table.state.memory, memory)
        if learner.may_pause:
            pause(learner, is_live=True)
        learner.reader.taught_with = learner.reader.taught_with or own.kind
