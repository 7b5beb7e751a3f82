"""Revising: feedback is replaced or taken back, decisions are cancelled or erased, sources weighed.

All of these change the past: the learner becomes what it would be if it had always been so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

from msgspec import UNSET

from onebit.service.engine.building import says
from onebit.service.engine.checks import check_text
from onebit.service.engine.counts import Counts
from onebit.service.engine.given import SILENCE, Given, check_given, kept, verdict_of
from onebit.service.engine.pending import DONE, Pending, all_done
from onebit.service.engine.rebuilding import Edit, Rebuilding
from onebit.service.engine.recent import RecentDecision, RecentDecisions, id_of
from onebit.service.engine.saving import Saving
from onebit.service.engine.standing import check_answerable, standing
from onebit.service.engine.state import EngineState
from onebit.service.faults import Contradiction, Expired, Refused, ServiceError, Unavailable
from onebit.service.journal import ACTIVE, CANCELLED, ERASED, statements
from onebit.service.messages import Answer, Label, SourceChange, Standing

T = TypeVar("T")


class Taken(NamedTuple):
    """What became of a request about one decision."""

    recent: RecentDecision
    commit: Future[None]
    edit: Edit | None = None  # of the past, which is still to be made


class Revising:
    """Changes what was decided and heard, as if it had always been so.

    Lock: the methods take the lock of the engine, and keep it while the change is written and, if
    that is quick, while the learner is built again. `replaced` and `finish` are called with it.
    """

    def __init__(
        self,
        state: EngineState,
        decisions: RecentDecisions,
        counts: Counts,
        saving: Saving,
        rebuilding: Rebuilding,
    ) -> None:
        self._state, self._decisions, self._counts = state, decisions, counts
        self._saving, self._rebuilding = saving, rebuilding

    # One request, or many.

    def finish(self, taken: Taken) -> Pending[Standing]:
        """Make the change of the past that a request asks for."""
        if taken.edit is not None:
            self._rebuilding.edit(taken.edit)
        return Pending(taken.commit, standing(self._state, taken.recent))

    def take_each(
        self, items: Sequence[T], take: Callable[[T], Taken]
    ) -> Pending[list[Standing | ServiceError]]:
        """Take each item or refuse it; the learner is built again at most once."""
        state = self._state
        with state.lock:
            state.journal.check_room(len(items))
            edits: list[Edit] = []
            commits: list[Future[None]] = []
            outcomes: list[Standing | ServiceError] = []
            for item in items:
                try:
                    taken = take(item)
                except Unavailable:
                    raise
                except ServiceError as fault:
                    outcomes.append(fault)
                    continue
                if taken.edit is not None:
                    edits.append(taken.edit)
                commits.append(taken.commit)
                outcomes.append(standing(state, taken.recent))
            self._rebuilding.edit(*edits)
            return Pending(all_done(commits), outcomes)

    # Feedback.

    def revise(self, id: str, right: bool | None, label: Label | None) -> Pending[Standing]:
        """Other feedback than before, learned as if it had always been so."""
        with self._state.lock:
            self._state.journal.check_room()
            return self.finish(self._revised(id, right, label))

    def revise_many(self, answers: Sequence[Answer]) -> Pending[list[Standing | ServiceError]]:
        """Each is taken or refused by itself. The learner is built again at most once."""
        return self.take_each(answers, lambda answer: self._revised(answer.id, *verdict_of(answer)))

    def _revised(self, id: str, right: bool | None, label: Label | None) -> Taken:
        recent = self._decisions.find(id)
        check_given(self._state, Given(right, label))
        check_answerable(recent)
        self._check_revisable(recent)
        answer = recent.answer
        if answer is None:
            raise Contradiction(
                f"decision {id_of(recent.row)} has no feedback that could be revised"
            )
        source = None if answer.source == SILENCE else answer.source  # now somebody has spoken
        if (says(answer), answer.source) == ((right, label), source):
            return Taken(recent, recent.commit)
        return self.replaced(recent, Given(right, label, source, answer.key))

    def replaced(self, recent: RecentDecision, given: Given) -> Taken:
        """Replace an answer. The decision has the new one from now on."""
        answer: Any = recent.answer
        _, time = self._state.journal.stamp(0)
        self._counts.tally.revised += 1
        self._counts.add_answer(recent, -1)
        recent.answer = answer._replace(
            time=time, right=given.bit, label=given.label, source=given.source, key=given.key
        )
        self._counts.add_answer(recent, 1)
        self._decisions.keep(recent)
        body = {"decision": recent.row.position, "before": kept(answer)}
        replacing = [statements.replace_answer(recent.answer)]
        return Taken(recent, DONE, Edit("revise", answer.position, body, replacing))

    def revoke(self, id: str) -> Pending[Standing]:
        """Take feedback back: the decision waits for feedback again."""
        state = self._state
        with state.lock:
            state.journal.check_room()
            recent = self._decisions.find(id)
            check_answerable(recent)
            if recent.answer is None:
                return Pending(recent.commit, standing(state, recent))
            self._check_revisable(recent)
            row, answer = recent.row, recent.answer
            body = {"decision": row.position, "before": kept(answer)}
            deleting = [statements.delete_answer(answer.position)]
            self._rebuilding.edit(Edit("revoke", answer.position, body, deleting))
            state.silence.look_again_at(row.active or row.position)
            self._counts.add_open(row, 1)
            self._counts.add_answer(recent, -1)
            return Pending(DONE, standing(state, self._decisions.find(id)))

    # Decisions.

    def cancel(self, id: str) -> Pending[Standing]:
        """Let a decision count for nothing, as if it had never been made."""
        with self._state.lock:
            self._state.journal.check_room()
            return self.finish(self._cancelled(id))

    def cancel_many(self, ids: Sequence[str]) -> Pending[list[Standing | ServiceError]]:
        """Each is cancelled or refused by itself. The learner is built again at most once."""
        return self.take_each(ids, self._cancelled)

    def _cancelled(self, id: str) -> Taken:
        state, recent = self._state, self._decisions.find(id)
        row, answer = recent.row, recent.answer
        if row.state != ACTIVE:
            return Taken(recent, recent.commit)
        self._check_removable(recent)
        if answer is not None:
            self._check_revisable(recent)
        self._count_no_more(recent)
        self._counts.tally.cancelled += 1
        recent.row, recent.answer = row._replace(state=CANCELLED), None
        self._decisions.keep(recent)
        changed = [statements.cancel(row.position)]
        if answer is None and not state.has_counted(row):  # it has left no trace in the learner
            recent.commit = state.journal.append(statements=changed).done
            return Taken(recent, recent.commit)
        body: dict[str, Any] = {"decision": row.position}
        if answer is not None:
            body["before"] = kept(answer)
            changed.append(statements.delete_answer(answer.position))
        return Taken(recent, DONE, Edit("cancel", row.active or row.position, body, changed))

    def erase(self, id: str) -> Pending[Standing]:
        """Delete what is stored about the context of a decision, and build the learner without."""
        state = self._state
        with state.lock:
            state.journal.check_room()
            recent = self._decisions.find(id)
            row = recent.row
            if row.state == ERASED:
                return Pending(DONE, standing(state, recent))
            self._check_removable(recent)
            first = row.position if row.active is None else min(row.position, row.active)
            edit = Edit("erase", first, {"decision": row.position}, statements.erase(row.position))
            self._rebuilding.edit(edit, truncates=True)
            self._count_no_more(recent)
            self._saving.drop_from(first)  # these learners know the context
            return Pending(DONE, standing(state, self._decisions.find(id)))

    def _count_no_more(self, recent: RecentDecision) -> None:
        """Count neither a decision nor its answer."""
        if recent.answer is not None:
            self._counts.add_answer(recent, -1)
        elif recent.row.state == ACTIVE:
            self._counts.add_open(recent.row, -1)
        if recent.row.state == ACTIVE:
            self._counts.add_round(recent.row, -1)

    # Sources of feedback.

    def weigh_source(self, source: str, change: SourceChange) -> None:
        """Let the feedback of a source count less or not at all, from its first answer on.

        After a quarantine, the source has the weight again that it had before.
        """
        check_text(source, "$.source")
        if change.weight is UNSET and change.quarantined is UNSET:
            raise Refused('say "weight": 0.5, or "quarantined": true')
        state = self._state
        with state.lock:
            state.journal.check_room()
            before = state.sources.get(source, 1.0)
            known = self._trusted(source)
            trusted = known if change.weight is UNSET else float(change.weight)
            weight = 0.0 if change.quarantined is True else trusted
            if (weight, trusted) != (before, known):
                body = {"source": source, "weight": weight, "trusted": trusted}
                weighing = [statements.weigh_source(state.number, source, weight)]
                self._rebuilding.edit(Edit("source", self._first_answer_of(source), body, weighing))

    def _trusted(self, source: str) -> float:
        """The weight of a source while it is not in quarantine."""
        said = self._state.journal.last_change_of_source(self._state.number, source) or {}
        return said.get("trusted", said.get("weight")) or 1.0

    def remove_source(self, source: str) -> None:
        """Take all feedback of a source back."""
        state = self._state
        with state.lock:
            state.journal.check_room()
            deleting = [statements.delete_answers_of(state.number, source)]
            first = self._first_answer_of(source)
            self._rebuilding.edit(Edit("remove source", first, {"source": source}, deleting))
            state.silence.look_again_at(1)
            self._counts.count()

    def _first_answer_of(self, source: str) -> int:
        journal = self._state.journal
        journal.flush()
        found = journal.first_answer_of(self._state.number, source)
        return journal.position + 1 if found is None else found

    # What is refused.

    def _check_revisable(self, recent: RecentDecision) -> None:
        state = self._state
        if not state.model.revisions:
            raise Contradiction(
                f"feedback of {state.name} cannot be changed or taken back (revisions = false)"
            )
        base = state.builder.base_position()
        if recent.answer is not None and recent.answer.position <= base:
            raise Expired(f"decision {id_of(recent.row)} was compacted into a snapshot (retention)")

    def _check_removable(self, recent: RecentDecision) -> None:
        """Refuse to build the learner without a decision that it cannot be built without."""
        state, row = self._state, recent.row
        base, version = state.journal.compacted_upto(state.number)
        is_own = row.configuration == version and row.logged is None
        if is_own and row.active is not None and row.active <= base:
            raise Expired(
                f"the round of decision {id_of(row)} was compacted into a snapshot (retention), so "
                "that the learner cannot be built without it. The decision is deleted when it is "
                "answered or has expired, at the next compaction"
            )
