"""Learn from an answer to a decision: the checks, and the updates that an answer makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from onebit.core.jit import plain
from onebit.core.settings import bit
from onebit.learner.calls import FORGED, NO_ROOM
from onebit.learner.decision import Decision, checked_decision
from onebit.learner.looking import as_then
from onebit.learner.silence import is_taken

if TYPE_CHECKING:
    from onebit.learner.learner import Learner

is_learned_from = plain(is_taken)  # whether an answer that arrived is


# Checks, before anything changes.


def understood(learner: Learner, said: int, right: Any, label: Any) -> tuple[bool, int | None]:
    """Right or wrong, and the place of a named label. said: the place of the said label."""
    if label is not None:
        if right is not None:
            raise TypeError("pass either right=... or label=..., not both")
        place = learner.label_set.place(label)
        return place == said, place
    if right is None:
        raise TypeError("pass right=True, right=False, label=... or silence=True")
    right = bit("right", right)
    if learner.full_information:
        raise ValueError(
            f"{type(learner).__name__} is a reference that learns from the true label: label=..."
        )
    return right, None


def meaning_of_silence(learner: Learner, decision: Decision, right: Any, label: Any) -> bool | None:
    """The bit that silence stands for: False, or None if silence means nothing."""
    with learner.lock:
        vet(learner, checked_decision(decision, learner))
        if right is not None or label is not None:
            raise TypeError("silence=True cannot be combined with right=... or label=...")
        return False if learner.hearing.silence_is_wrong else None


def vet(learner: Learner, decision: Decision) -> None:
    """Refuse a decision that nobody can have made."""
    table = learner.table
    if table.scales is not None:
        table.make_room_to_scale(len(decision.row[0]))
    work, count = as_then(learner, decision)
    if not learner.calls.vet(
        learner.params, table.state, work, *decision.row, learner.seed, decision.round, count,
        decision.place, decision.greedy_place, decision.propensity, decision.note, decision.other,
    ):  # fmt: skip
        raise _forged(learner, decision)


def _forged(learner: Learner, decision: Decision) -> ValueError:
    return ValueError(
        f"no {type(learner).__name__} can have made this decision: its context or its numbers "
        f"(propensity {decision.propensity!r}, note {decision.note!r}, {decision.other!r}) "
        "were changed"
    )


def answered_before(round: int) -> ValueError:
    return ValueError(
        f"round {round} was answered already; a decision is learned from once. If this is another "
        "decision, two processes count the same rounds: let each load the model with a salt of its "
        "own, onebit.load(path, salt='web-1')"
    )


def fitted_decision(learner: Learner, decision: Decision) -> Decision:
    """A decision with its context as the table has room for it now."""
    row = learner.table.fitted(decision.row)
    return decision if row is decision.row else msgspec.structs.replace(decision, row=row)


# Updates.


def learn_bit(
    learner: Learner,
    decision: Decision,
    seed: int,
    right: bool,
    params: Any = None,
    said: bool = True,
) -> None:
    """Learn from one bit. said: the label was said by `decide`, not named by a user."""
    work, count = as_then(learner, decision)
    learn, (indices, values) = learner.calls.learn, decision.row
    params = learner.params if params is None else params
    while True:
        done = learn(
            params, learner.table.state, work, indices, values, seed, decision.round, count,
            decision.place, decision.greedy_place, decision.propensity, decision.note,
            decision.other, said, learner.rescores_now, right,
        )  # fmt: skip
        if done == FORGED:
            raise _forged(learner, decision)
        if done != NO_ROOM:
            return
        work = learner.table.reserve_for(indices, work=work)


def learn_label(
    learner: Learner, decision: Decision, seed: int, place: int, said: bool = True
) -> None:
    """Learn from the place of the true label."""
    if learner.full_information:
        row, round = decision.row, decision.round
        learner.table.reserve_for(row[0])
        work, count = as_then(learner, decision)
        learn = learner.calls.learn_label
        learn(learner.params, learner.table.state, work, *row, seed, round, count, place)
        return
    truth = learner._params_for_truth()
    if place == decision.place:
        learn_bit(learner, decision, seed, True, truth, said)
        return
    if not learner.importance_weighted:
        learn_bit(learner, decision, seed, False, truth, said)
    if learner.infers_the_other and _were_two(decision, place):
        return
    learn_unsaid(learner, decision, seed, place)


def learn_unsaid(learner: Learner, decision: Decision, seed: int, place: int) -> None:
    """Learn that a label that was not said would have been right."""
    truth, memory = learner._params_for_truth(), learner.table.state.memory.copy()
    other = learner._had_it_said(decision, place)
    learn_bit(learner, other, seed, True, truth, said=False)
    learner.alarm.take_back(learner.table.state.memory, memory)


def learn_scales(learner: Learner, decision: Decision, seed: int, right: bool) -> None:
    """Take a row into the scales, if it was learned from."""
    if learner.thins and not is_learned_from(learner.hearing, seed, decision.round, right):
        return
    row, round = decision.row, decision.round
    work = learner.table.reserve_for(row[0])
    table, learn = learner.table, learner.calls.learn_scales
    learn(learner.params, table.state, work, *row, learner.draw_seed, round, table.size)


def _were_two(decision: Decision, place: int) -> bool:
    """Whether the said label and the one at `place` were the only possible ones."""
    possible = range(decision.size) if decision.among is None else decision.among
    return len(possible) == 2 and place in possible
