"""Feedback: whether a decision was right, and whether it was shown."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import NamedTuple

import msgspec

from onebit.service.engine.building import decision_of, says, was_right
from onebit.service.engine.checks import refusing
from onebit.service.engine.entries import Entry, id_of
from onebit.service.engine.pending import DONE, Pending, waiting
from onebit.service.engine.rebuilding import Edit
from onebit.service.engine.revisions import SILENCE, Given, Revisions, verdict_of
from onebit.service.faults import Contradiction, KeyReused, Refused, ServiceError
from onebit.service.journal import AnswerRow, ChangeRow, DecisionRow, statements
from onebit.service.journal.statements import Statement
from onebit.service.messages import Answer, Label, Standing

_encode = msgspec.json.Encoder().encode


def _in_words(answer: AnswerRow) -> str:
    right, label = says(answer)
    if right is None:
        return f"label {label!r}"
    return "right" if right else "wrong"


def _repeats(row: DecisionRow, known: AnswerRow, given: Given) -> bool:
    """Whether feedback says nothing that somebody has not said already."""
    if known.source == SILENCE:
        return False
    if given.label is None:
        return given.right == was_right(known, row)
    return given.label == known.label or (bool(known.right) and given.label == row.label)


class _Shown(NamedTuple):
    """That a deferred decision was shown, for the journal."""

    rows: Sequence[ChangeRow] = ()
    statements: Sequence[Statement] = ()


class Feedback(Revisions):
    """Hears feedback, and learns from it."""

    def submit_feedback(
        self,
        id: str,
        right: bool | None = None,
        label: Label | None = None,
        source: str | None = None,
        key: str | None = None,
    ) -> Pending[Standing]:
        """Say whether a decision was right, or which label would have been."""
        with self._lock:
            self.journal.check_room()
            entry, edits = self._entry(id), list[Edit]()
            commit = self._hear(entry, Given(right, label, source, key), edits)
            self._edit(*edits)
            return Pending(commit, self._standing(entry))

    feedback = waiting(submit_feedback)

    def submit_feedback_many(
        self, answers: Sequence[Answer]
    ) -> Pending[list[Standing | ServiceError]]:
        """Each is taken or refused by itself. The learner is built again at most once."""

        def heard(answer: Answer, edits: list[Edit]) -> tuple[Entry, Future[None]]:
            entry = self._entry(answer.id)
            given = Given(*verdict_of(answer), answer.source, answer.key)
            return entry, self._hear(entry, given, edits)

        with self._lock:
            self._will_work_on(answers)
            return self._submit_each(answers, heard)

    feedback_many = waiting(submit_feedback_many)

    def _hear(self, entry: Entry, given: Given, edits: list[Edit]) -> Future[None]:
        """Learn an answer and put it into the journal; a revision is added to the edits."""
        self._check_given(given)
        self._check_answerable(entry)
        known = entry.answer
        if known is not None:
            if _repeats(entry.row, known, given):
                return entry.commit
            if given.key is not None and given.key == known.key:
                raise KeyReused(f"the key {given.key!r} belongs to other feedback", where="$.key")
            if not (self.model.revisions or known.source == SILENCE):
                raise Contradiction(
                    f"decision {id_of(entry.row)} has the feedback {_in_words(known)} already; "
                    "this model takes no other (revisions = false)"
                )
            if not self.model.revisions:
                self._check_in_time(entry)
            self._will_wait()
            edits.append(self._revise(entry, given))
            return DONE
        self._check_in_time(entry)
        return self._learn(entry, given)

    def _learn(self, entry: Entry, given: Given) -> Future[None]:
        """The first answer to a decision."""
        waits = entry.row.active is None
        self._will_work(len(entry.row.context or b""))
        if self._is_large and self._learner._will_forget(given.right):
            self._will_wait()
        position, time = self.journal.stamp(2 if waits else 1)
        shown = self._activate(entry, position, time) if waits else _Shown()
        answer = AnswerRow(
            position=position + waits,
            model=self.number,
            decision=entry.row.position,
            time=time,
            right=given.bit,
            label=given.label,
            source=given.source,
            key=given.key,
        )
        try:
            with refusing("$"):
                self._builder.apply(self._learner, answer, entry.row, entry.decision)
        except BaseException as error:
            # A learner that is being replaced may know feedback that was taken back since, and
            # refuse to hear other feedback: the next one learns it from the journal.
            if not (isinstance(error, Refused) and self._rebuilding is not None):
                if waits:
                    self._start_again()  # the learner has counted a round that was not shown
                raise
        commit = self.journal.append(*shown.rows, answer, statements=shown.statements).done
        entry.answer, entry.commit = answer, commit
        self._remember(entry)
        self._reached = answer.position
        self._tally_answer(entry, 1)
        is_right, tally = was_right(answer, entry.row), self.tally
        self._tally_open(entry.row, -1)
        tally.right += is_right
        tally.wrong += not is_right
        tally.silences += given.source == SILENCE
        tally.delay.add(max(time - entry.row.time, 0.0))
        if waits:
            self._tally_round(entry.row, 1)
        return commit

    def submit_shown(self, id: str) -> Pending[Standing]:
        """A deferred decision was shown to somebody, and counts from now on."""
        with self._lock:
            self.journal.check_room()
            entry = self._entry(id)
            self._check_answerable(entry)
            if entry.row.active is not None:
                return Pending(entry.commit, self._standing(entry))
            self._check_in_time(entry)
            shown = self._activate(entry, *self.journal.stamp())
            entry.commit = self.journal.append(*shown.rows, statements=shown.statements).done
            self._remember(entry)
            self._reached = shown.rows[0].position
            self._tally_round(entry.row, 1)
            return Pending(entry.commit, self._standing(entry))

    shown = waiting(submit_shown)

    def _activate(self, entry: Entry, position: int, time: float) -> _Shown:
        """Let a deferred decision count; returns what the journal gets."""
        row, round = entry.row, entry.row.round
        if row.configuration == self._version.number:
            with refusing("$"):
                entry.decision = self._learner.redo(
                    self._builder.context_of(row), entry.decision or decision_of(row)
                )
            round = entry.decision.round
        entry.row = row._replace(active=position, round=round)
        body = _encode({"decision": row.position}).decode()
        return _Shown(
            [ChangeRow(position, self.number, time, "shown", None, body)],
            [statements.activate(row.position, position, round)],
        )
