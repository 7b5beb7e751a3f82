"""Changes of the past: revised and revoked feedback, cancelled and erased decisions, sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

from msgspec import UNSET

from onebit.core.settings import bit
from onebit.service import snapshots
from onebit.service.engine.building import says
from onebit.service.engine.checks import check_text, refusing
from onebit.service.engine.entries import Entry, id_of
from onebit.service.engine.pending import DONE, Pending, all_done, waiting
from onebit.service.engine.rebuilding import Edit, Rebuilding
from onebit.service.engine.records import kept
from onebit.service.faults import Contradiction, Expired, Refused, ServiceError, Unavailable
from onebit.service.journal import ACTIVE, CANCELLED, ERASED, statements
from onebit.service.messages import Answer, Card, Label, SourceChange, Standing

T = TypeVar("T")
SILENCE = "silence"  # the source of answers that nobody gave


class Given(NamedTuple):
    """Feedback as it was given: right or wrong, or the true label."""

    right: bool | None
    label: Label | None
    source: str | None = None
    key: str | None = None

    @property
    def bit(self) -> int | None:
        """Right or wrong, as the journal has it."""
        return None if self.right is None else int(self.right)


def verdict_of(answer: Answer) -> tuple[bool | None, Label | None]:
    """What an answer of a batch says: right or wrong, or the true label."""
    right, label = answer.right, answer.label
    return None if right is UNSET else bool(right), None if label is UNSET else label


class Revisions(Rebuilding):
    """Changes what was decided and heard, as if it had always been so."""

    def submit_revise(
        self, id: str, right: bool | None = None, label: Label | None = None
    ) -> Pending[Standing]:
        """Other feedback than before, learned as if it had always been so."""
        with self._lock:
            self.journal.check_room()
            entry, edits = self._entry(id), list[Edit]()
            commit = self._replace(entry, right, label, edits)
            self._edit(*edits)
            return Pending(commit, self._standing(entry))

    revise = waiting(submit_revise)

    def submit_revise_many(
        self, answers: Sequence[Answer]
    ) -> Pending[list[Standing | ServiceError]]:
        """Each is taken or refused by itself. The learner is built again at most once."""

        def revised(answer: Answer, edits: list[Edit]) -> tuple[Entry, Future[None]]:
            entry = self._entry(answer.id)
            return entry, self._replace(entry, *verdict_of(answer), edits)

        return self._submit_each(answers, revised)

    revise_many = waiting(submit_revise_many)

    def _replace(
        self, entry: Entry, right: bool | None, label: Label | None, edits: list[Edit]
    ) -> Future[None]:
        self._check_given(Given(right, label))
        self._check_answerable(entry)
        self._check_revisable(entry)
        answer = entry.answer
        if answer is None:
            raise Contradiction(
                f"decision {id_of(entry.row)} has no feedback that could be revised"
            )
        source = None if answer.source == SILENCE else answer.source  # now somebody has spoken
        if (says(answer), answer.source) == ((right, label), source):
            return entry.commit
        edits.append(self._revise(entry, Given(right, label, source, answer.key)))
        return DONE

    def _submit_each(
        self,
        items: Sequence[T],
        take: Callable[[T, list[Edit]], tuple[Entry, Future[None]]],
    ) -> Pending[list[Standing | ServiceError]]:
        """Take each item or refuse it; the learner is built again at most once."""
        with self._lock:
            self.journal.check_room(len(items))
            edits: list[Edit] = []
            commits: list[Future[None]] = []
            outcomes: list[Standing | ServiceError] = []
            for item in items:
                try:
                    entry, commit = take(item, edits)
                    commits.append(commit)
                    outcomes.append(self._standing(entry))
                except Unavailable:
                    raise
                except ServiceError as fault:
                    outcomes.append(fault)
            self._edit(*edits)
            return Pending(all_done(commits), outcomes)

    def submit_revoke(self, id: str) -> Pending[Standing]:
        """Take feedback back: the decision waits for feedback again."""
        with self._lock:
            self.journal.check_room()
            entry = self._entry(id)
            self._check_answerable(entry)
            if entry.answer is None:
                return Pending(entry.commit, self._standing(entry))
            self._check_revisable(entry)
            answer = entry.answer
            self._edit(
                Edit(
                    "revoke",
                    answer.position,
                    {"decision": entry.row.position, "before": kept(answer)},
                    [statements.delete_answer(answer.position)],
                )
            )
            self._watched = min(self._watched, (entry.row.active or entry.row.position) - 1)
            self._tally_open(entry.row, 1)
            self._tally_answer(entry, -1)
            return Pending(DONE, self._standing(self._entry(id)))

    revoke = waiting(submit_revoke)

    def submit_cancel(self, id: str) -> Pending[Standing]:
        """Let a decision count for nothing, as if it had never been made.

        If it has feedback, and the model allows revisions, the feedback is taken back with it.
        """
        with self._lock:
            self.journal.check_room()
            entry, edits = self._entry(id), list[Edit]()
            commit = self._cancel(entry, edits)
            self._edit(*edits)
            return Pending(commit, self._standing(entry))

    cancel = waiting(submit_cancel)

    def submit_cancel_many(self, ids: Sequence[str]) -> Pending[list[Standing | ServiceError]]:
        """Each is cancelled or refused by itself. The learner is built again at most once."""

        def cancelled(id: str, edits: list[Edit]) -> tuple[Entry, Future[None]]:
            entry = self._entry(id)
            return entry, self._cancel(entry, edits)

        return self._submit_each(ids, cancelled)

    cancel_many = waiting(submit_cancel_many)

    def _cancel(self, entry: Entry, edits: list[Edit]) -> Future[None]:
        row, answer = entry.row, entry.answer
        if row.state != ACTIVE:
            return entry.commit
        self._check_removable(entry)
        if answer is not None:
            self._check_revisable(entry)
            self._tally_answer(entry, -1)
        else:
            self._tally_open(row, -1)
        self._tally_round(row, -1)
        self.tally.cancelled += 1
        entry.row, entry.answer = row._replace(state=CANCELLED), None
        self._remember(entry)
        changed = [statements.cancel(row.position)]
        has_counted = row.active is not None and row.configuration == self._version.number
        if answer is None and not has_counted:  # it has left no trace in the learner
            entry.commit = self.journal.append(statements=changed).done
            return entry.commit
        body: dict[str, Any] = {"decision": row.position}
        if answer is not None:
            body["before"] = kept(answer)
            changed.append(statements.delete_answer(answer.position))
        edits.append(Edit("cancel", row.active or row.position, body, changed))
        return DONE

    def submit_erase(self, id: str) -> Pending[Standing]:
        """Delete what is stored about the context of a decision, and build the learner without."""
        with self._lock:
            self.journal.check_room()
            entry = self._entry(id)
            row = entry.row
            if row.state == ERASED:
                return Pending(DONE, self._standing(entry))
            self._check_removable(entry)
            first = row.position if row.active is None else min(row.position, row.active)
            edit = Edit("erase", first, {"decision": row.position}, statements.erase(row.position))
            self._edit(edit, truncates=True)
            if entry.answer is not None:
                self._tally_answer(entry, -1)
            elif row.state == ACTIVE:
                self._tally_open(row, -1)
            if row.state == ACTIVE:
                self._tally_round(row, -1)
            for snapshot in snapshots.found(self._folder, self.name):
                if snapshot.position >= first:  # its learner knows the context
                    snapshot.path.unlink(missing_ok=True)
            return Pending(DONE, self._standing(self._entry(id)))

    erase = waiting(submit_erase)

    def submit_source(self, source: str, change: SourceChange) -> Pending[Card]:
        """Let the feedback of a source count less or not at all, from its first answer on.

        After a quarantine, the source has the weight again that it had before.
        """
        check_text(source, "$.source")
        if change.weight is UNSET and change.quarantined is UNSET:
            raise Refused('say "weight": 0.5, or "quarantined": true')
        with self._lock:
            self.journal.check_room()
            before = self._sources.get(source, 1.0)
            known = self._trusted(source)
            trusted = known if change.weight is UNSET else float(change.weight)
            weight = 0.0 if change.quarantined is True else trusted
            if (weight, trusted) != (before, known):
                self._edit(
                    Edit(
                        "source",
                        self._first_answer_of(source),
                        {"source": source, "weight": weight, "trusted": trusted},
                        [statements.weigh_source(self.number, source, weight)],
                    )
                )
        return Pending(DONE, self.card())

    def _trusted(self, source: str) -> float:
        """The weight of a source while it is not in quarantine."""
        said = self.journal.last_change_of_source(self.number, source) or {}
        return said.get("trusted", said.get("weight")) or 1.0

    def submit_remove_source(self, source: str) -> Pending[Card]:
        """Take all feedback of a source back."""
        with self._lock:
            self.journal.check_room()
            self._edit(
                Edit(
                    "remove source",
                    self._first_answer_of(source),
                    {"source": source},
                    [statements.delete_answers_of(self.number, source)],
                )
            )
            self._watched = 0
            self._count()
        return Pending(DONE, self.card())

    def _first_answer_of(self, source: str) -> int:
        self.journal.flush()
        found = self.journal.first_answer_of(self.number, source)
        return self.journal.position + 1 if found is None else found

    def _check_revisable(self, entry: Entry) -> None:
        if not self.model.revisions:
            raise Contradiction(
                f"feedback of {self.name} cannot be changed or taken back (revisions = false)"
            )
        base = self._builder.base_position()
        if entry.answer is not None and entry.answer.position <= base:
            raise Expired(f"decision {id_of(entry.row)} was compacted into a snapshot (retention)")

    def _check_removable(self, entry: Entry) -> None:
        """Refuse to build the learner without a decision that it cannot be built without."""
        (base, version), row = self.journal.compacted_upto(self.number), entry.row
        if row.active is not None and row.active <= base and row.configuration == version:
            raise Expired(
                f"the round of decision {id_of(row)} was compacted into a snapshot (retention), so "
                "that the learner cannot be built without it. The decision is deleted when it is "
                "answered or has expired, at the next compaction"
            )

    def _revise(self, entry: Entry, given: Given) -> Edit:
        """The edit that replaces an answer. The entry has the new one from now on."""
        answer: Any = entry.answer
        _, time = self.journal.stamp(0)
        self.tally.revised += 1
        self._tally_answer(entry, -1)
        entry.answer = answer._replace(
            time=time, right=given.bit, label=given.label, source=given.source, key=given.key
        )
        self._tally_answer(entry, 1)
        self._remember(entry)
        return Edit(
            "revise",
            answer.position,
            {"decision": entry.row.position, "before": kept(answer)},
            [statements.replace_answer(entry.answer)],
        )

    def _check_given(self, given: Given) -> None:
        if (given.right is None) == (given.label is None):
            raise Refused("say either right or label")
        if given.label is None:
            with refusing("$.right"):
                bit("right", given.right)
            if self._learner.full_information:
                raise Refused(
                    f"{type(self._learner).__name__} must be told the true label", where="$.right"
                )
        elif given.label not in self._learner._labels.names:
            raise Refused(f"{given.label!r} is not a label of {self.name}", where="$.label")
        if given.source == SILENCE:
            raise Refused(
                f"the source {SILENCE!r} is that of answers which nobody gave; choose another name",
                where="$.source",
            )
        for name, text in (("key", given.key), ("source", given.source)):
            check_text(text, f"$.{name}")
