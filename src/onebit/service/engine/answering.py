"""Answering: feedback on a decision comes, the learner learns it, both go into the journal."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import NamedTuple

import msgspec

from onebit.learner.forgetting import will_forget
from onebit.service.engine.building import decision_of, was_right
from onebit.service.engine.checks import refusing
from onebit.service.engine.counts import Counts
from onebit.service.engine.given import SILENCE, Given, check_given, in_words, verdict_of
from onebit.service.engine.pending import Pending
from onebit.service.engine.rebuilding import Rebuilding
from onebit.service.engine.recent import RecentDecision, RecentDecisions, id_of
from onebit.service.engine.revising import Revising, Taken
from onebit.service.engine.standing import check_answerable, check_in_time, standing
from onebit.service.engine.state import EngineState
from onebit.service.faults import Contradiction, KeyReused, Refused, ServiceError
from onebit.service.journal import ACTIVE, AnswerRow, ChangeRow, statements
from onebit.service.journal.statements import Statement
from onebit.service.messages import Answer, Standing

_encode = msgspec.json.Encoder().encode


class _Shown(NamedTuple):
    """That a deferred decision was shown, for the journal."""

    rows: Sequence[ChangeRow] = ()
    statements: Sequence[Statement] = ()


class Answering:
    """Hears feedback, and learns from it.

    Lock: `hear`, `hear_many`, `hear_silence` and `show` take the lock of the engine for as long as
    it takes to learn and to hand the answers to the journal. Nobody waits for the disk with it,
    unless an answer replaces an earlier one.
    """

    def __init__(
        self,
        state: EngineState,
        decisions: RecentDecisions,
        counts: Counts,
        rebuilding: Rebuilding,
        revising: Revising,
    ) -> None:
        self._state, self._decisions, self._counts = state, decisions, counts
        self._rebuilding, self._revising = rebuilding, revising

    def hear(self, id: str, given: Given) -> Pending[Standing]:
        """Whether a decision was right, or which label would have been."""
        with self._state.lock:
            self._state.journal.check_room()
            return self._revising.finish(self.heard(self._decisions.find(id), given))

    def hear_many(self, answers: Sequence[Answer]) -> Pending[list[Standing | ServiceError]]:
        """Each is taken or refused by itself. The learner is built again at most once."""

        def heard(answer: Answer) -> Taken:
            given = Given(*verdict_of(answer), answer.source, answer.key)
            return self.heard(self._decisions.find(answer.id), given)

        with self._state.lock:
            self._state.will_work_on(answers)
            return self._revising.take_each(answers, heard)

    def heard(self, recent: RecentDecision, given: Given) -> Taken:
        """Learn an answer, unless it replaces another one. Called with the lock of the engine."""
        state = self._state
        check_given(state, given)
        check_answerable(recent)
        known = recent.answer
        if known is not None:
            if given.repeats(recent.row, known):
                return Taken(recent, recent.commit)
            if given.key is not None and given.key == known.key:
                raise KeyReused(f"the key {given.key!r} belongs to other feedback", where="$.key")
            if not (state.model.revisions or known.source == SILENCE):
                raise Contradiction(
                    f"decision {id_of(recent.row)} has the feedback {in_words(known)} already; "
                    "this model takes no other (revisions = false)"
                )
            if not state.model.revisions:
                check_in_time(state, recent, self._counts.tally)
            state.will_wait()
            return self._revising.replaced(recent, given)
        check_in_time(state, recent, self._counts.tally)
        return Taken(recent, self._learn(recent, given))

    def hear_silence(self, due: Sequence[str]) -> None:
        """Read silence as wrong, where it still is silence."""
        for id in due:
            recent = self._decisions.find(id)
            if recent.answer is None and recent.row.state == ACTIVE:
                self._state.journal.check_room()
                self._learn(recent, Given(False, None, SILENCE))

    def _learn(self, recent: RecentDecision, given: Given) -> Future[None]:
        """The first answer to a decision."""
        state, waits = self._state, recent.row.active is None
        state.will_work(len(recent.row.context or b""))
        if state.is_large and will_forget(state.learner, given.right):
            state.will_wait()
        position, time = state.journal.stamp(2 if waits else 1)
        shown = self._activate(recent, position, time) if waits else _Shown()
        answer = given.answer_to(recent.row, position + waits, time)
        try:
            with refusing("$"):
                state.builder.apply(state.learner, answer, recent.row, recent.decision)
        except BaseException as error:
            # A learner that is being replaced may know feedback that was taken back since, and
            # refuse to hear other feedback: the next one learns it from the journal.
            if not (isinstance(error, Refused) and state.thread is not None):
                if waits:
                    # The learner has counted a round that was not shown.
                    self._rebuilding.start_again()
                raise
        commit = state.journal.append(*shown.rows, answer, statements=shown.statements).done
        recent.answer, recent.commit = answer, commit
        self._decisions.keep(recent)
        state.reached = answer.position
        self._count(recent, answer, waits)
        return commit

    def _count(self, recent: RecentDecision, answer: AnswerRow, waited: bool) -> None:
        """Count a first answer. waited: its decision was shown with it."""
        counts, tally = self._counts, self._counts.tally
        counts.add_answer(recent, 1)
        counts.add_open(recent.row, -1)
        if recent.row.logged is None:
            is_right = was_right(answer, recent.row)
            tally.right += is_right
            tally.wrong += not is_right
        tally.silences += answer.source == SILENCE
        tally.delay.add(max(answer.time - recent.row.time, 0.0))
        if waited:
            counts.add_round(recent.row, 1)

    def show(self, id: str) -> Pending[Standing]:
        """A deferred decision was shown to somebody, and counts from now on."""
        state = self._state
        with state.lock:
            state.journal.check_room()
            recent = self._decisions.find(id)
            check_answerable(recent)
            if recent.row.active is None:
                check_in_time(state, recent, self._counts.tally)
                shown = self._activate(recent, *state.journal.stamp())
                recent.commit = state.journal.append(*shown.rows, statements=shown.statements).done
                self._decisions.keep(recent)
                state.reached = shown.rows[0].position
                self._counts.add_round(recent.row, 1)
            return Pending(recent.commit, standing(state, recent))

    def _activate(self, recent: RecentDecision, position: int, time: float) -> _Shown:
        """Let a deferred decision count; returns what the journal gets."""
        state, row, round = self._state, recent.row, recent.row.round
        if state.builder.made(row):
            with refusing("$"):
                recent.decision = state.learner.redo(
                    state.builder.context_of(row), recent.decision or decision_of(row)
                )
            round = recent.decision.round
        recent.row = row._replace(active=position, round=round)
        body = _encode({"decision": row.position}).decode()
        return _Shown(
            [ChangeRow(position, state.number, time, "shown", None, body)],
            [statements.activate(row.position, position, round)],
        )
