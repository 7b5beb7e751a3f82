"""What state a decision is in, and whether it takes an answer.

Lock: all functions are called with the lock of the engine, but for `state_of`, which reads single
values.
"""

from __future__ import annotations

from onebit.service.engine.recent import RecentDecision, id_of
from onebit.service.engine.state import EngineState
from onebit.service.faults import Cancelled, Expired
from onebit.service.journal import CANCELLED, ERASED
from onebit.service.messages import Standing, State
from onebit.service.tally import ModelTally


def standing(state: EngineState, recent: RecentDecision) -> Standing:
    """The state of a decision, as it is told."""
    return Standing(id=id_of(recent.row), state=state_of(state, recent))


def state_of(state: EngineState, recent: RecentDecision) -> State:
    if recent.row.state == CANCELLED:
        return "cancelled"
    if recent.row.state == ERASED:
        return "erased"
    if recent.answer is not None:
        return "learned"
    if _is_expired(state, recent):
        return "expired"
    return "open" if recent.row.active is not None else "waiting"


def _is_expired(state: EngineState, recent: RecentDecision) -> bool:
    return recent.row.time < state.expired_before()


def check_answerable(recent: RecentDecision) -> None:
    """Refuse feedback on what counts for nothing."""
    if recent.row.state == CANCELLED:
        raise Cancelled(f"decision {id_of(recent.row)} was cancelled")
    if recent.row.state == ERASED:
        raise Expired(f"decision {id_of(recent.row)} was erased")


def check_in_time(state: EngineState, recent: RecentDecision, tally: ModelTally) -> None:
    """Refuse feedback that comes too late."""
    if _is_expired(state, recent):
        tally.expired += 1
        raise Expired(
            f"decision {id_of(recent.row)} was made more than "
            f"{state.model.expires_after:,.0f} s ago (expires_after)"
        )
