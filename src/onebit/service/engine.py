"""The engine: the one owner of a learner. It decides, learns, and puts both into the journal.

The learner is a pure function of the journal: the decisions as they were made and the answers as
they stand now, in the order of their positions, make it again, bit for bit. So a snapshot is a
learner and a position, start-up replays what came after it, and a change of the past (a revised
answer, a cancelled decision, an erased context, other settings) is a learner built again.

A call computes its result at once and returns it together with the commit that holds it. The result
may be told to others when that commit is done: `wait` waits for it. If the commit fails, the
learner is ahead of the journal, and `Service` has it built again from what is on disk.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from math import isfinite
from pathlib import Path
from time import sleep
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET

from onebit import persist
from onebit.decision import Decision
from onebit.learner import Learner
from onebit.service import snapshots
from onebit.service.building import (
    REFUSED,
    Builder,
    Version,
    current_version,
    decision_of,
    fresh,
    identity,
    in_charge,
    says,
    sources_of,
    version_of,
)
from onebit.service.configuration import Limits, Model
from onebit.service.faults import (
    Busy,
    Cancelled,
    Contradiction,
    Damaged,
    Expired,
    KeyReused,
    Refused,
    ServiceError,
    TooLarge,
    Unavailable,
    UnknownDecision,
)
from onebit.service.journal import (
    ACTIVE,
    CANCELLED,
    ERASED,
    AnswerRow,
    ChangeRow,
    DecisionRow,
    Journal,
)
from onebit.service.messages import (
    Answer,
    Card,
    Heard,
    Label,
    LabelChange,
    Question,
    Record,
    Retraining,
    SourceCard,
    SourceChange,
    Standing,
    State,
    Told,
)
from onebit.service.tally import ModelTally

T = TypeVar("T")
RECENT = 5_000  # decisions that are kept in memory, besides those that wait for the disk
AT_ONCE = 500  # events: a past that is shorter is built again while requests wait
SILENCE = "silence"  # the source of answers that nobody gave
COMPACTED = 10_000  # decisions or answers that are compacted at once
_COMPACTED = """
FROM decisions WHERE model = :model AND position <= :until AND (
    state <> 0
    OR EXISTS (
        SELECT 1 FROM answers a WHERE a.decision = decisions.position AND a.position <= :until)
    OR (time < :expired
        AND (active IS NULL OR (active <= :until AND NOT :hears_silence))
        AND NOT EXISTS (SELECT 1 FROM answers a WHERE a.decision = decisions.position)))"""
_DELETE_ANSWERS = "DELETE FROM answers WHERE model = :model AND position <= :until"
_DELETE_CHANGES = """
DELETE FROM changes WHERE model = :model AND position <= :until
    AND kind IN ('revise', 'revoke', 'cancel', 'erase') AND NOT EXISTS (
        SELECT 1 FROM decisions d WHERE d.position = json_extract(body, '$.decision'))"""
_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode
log = logging.getLogger("onebit.service")


class Pending(Generic[T]):
    """A result, and the future of the commit that makes it durable."""

    __slots__ = ("future", "value")

    def __init__(self, future: Future[None], value: T) -> None:
        self.future, self.value = future, value

    def wait(self) -> T:
        """The result, once it is on disk."""
        self.future.result()
        return self.value


_DONE: Future[None] = Future()
_DONE.set_result(None)


class _Entry:
    """A decision that was made or looked up lately."""

    __slots__ = ("answer", "commit", "decision", "row")

    def __init__(
        self, row: DecisionRow, answer: AnswerRow | None, decision: Decision | None, commit: Any
    ) -> None:
        self.row, self.answer, self.decision = row, answer, decision
        self.commit: Future[None] = commit


class Engine:
    """The owner of one model.

    number: of the model in the journal. folder: for its snapshots. clock: as of the journal.
    """

    def __init__(
        self,
        journal: Journal,
        model: Model,
        *,
        folder: Path,
        limits: Limits | None = None,
        keep: int = 3,
        snapshot_every: int = 10_000,
        retention: float | None = None,
    ) -> None:
        self.journal, self.model, self.name = journal, model, model.name
        self.limit(limits or Limits(), keep, retention)
        self._snapshot_every = snapshot_every
        self._compacted = 0.0  # up to which time
        self._lock = threading.RLock()
        self._folder = folder
        self.number = _number_of(journal, model.name)
        self.tally = ModelTally()
        self._rebuilding: threading.Thread | None = None
        self._edits: list[int] = []  # the first positions that changes of the past have affected
        self._closing = False
        self._sources: dict[str, float] = {}  # the weights of sources of feedback
        self.replayed_from = 0  # the position of the snapshot that start-up has used
        self.load()
        self._resume()

    # Starting.

    def load(self) -> None:
        """Build the learner from the newest good snapshot and what the journal has after it."""
        with self._lock:
            self._edits.append(0)  # a learner that is being built behind the scenes starts again
            self._recent: OrderedDict[int, _Entry] = OrderedDict()
            self._keys: dict[str, int] = {}
            with self.journal.reading() as connection:
                retired = connection.execute(
                    "SELECT kind, body FROM changes WHERE model = ? AND kind IN "
                    "('retire', 'restore', 'label') ORDER BY position",
                    (self.number,),
                ).fetchall()
                (self._labelled_at,) = connection.execute(  # the position of the newest label
                    "SELECT coalesce(max(position), 0) FROM changes WHERE model = ? AND "
                    "kind = 'label'",
                    (self.number,),
                ).fetchone()
            self._retired: set[Label] = set()
            for kind, body in retired:
                label = _decode(body)["label"]
                (self._retired.add if kind == "retire" else self._retired.discard)(label)
            self._sources.clear()  # the same dict as before: builders hold it
            self._sources.update(sources_of(self.journal, self.number))
            version = current_version(self.journal, self.number) or self._add_version(self.model)
            self._builder = self._builder_of(version)
            self._build()
            self._is_stale = False  # whether the past has changed since it was built
            self._snapshot_at = self._reached
            self._watched = 0  # up to which position silence was looked for
            self._marks: deque[tuple[float, int]] = deque()  # times, and how far the journal was
            self._count()

    @property
    def _version(self) -> Version:
        return self._builder.version

    def _builder_of(self, version: Version) -> Builder:
        return Builder(self.journal, self.name, self.number, self._folder, version, self._sources)

    def _build(self) -> None:
        """The learner as the journal has it."""
        start = self._builder.start()
        self.replayed_from = start[1]
        self._learner, self._reached = self._builder.replayed(*start)

    def _add_version(self, model: Model) -> Version:
        """Write down how the learner is made at the beginning."""
        version = version_of(model, self.journal.new_configuration())
        self._write_version(version, self._let_take_charge(version)).result()
        return version

    def _write_version(self, version: Version, *statements: tuple[str, Any]) -> Future[None]:
        _, time = self.journal.stamp(0)
        row = (version.number, self.number, time, _encode(version.body).decode(), version.learner)
        insert = ("INSERT INTO configurations VALUES (?, ?, ?, ?, ?)", row)
        return self.journal.append(statements=[insert, *statements]).done

    def _let_take_charge(self, version: Version) -> tuple[str, Any]:
        return "REPLACE INTO meta VALUES (?, ?)", (in_charge(self.number), version.number)

    def _drop_version(self, version: Version) -> None:
        """Its learner cannot be built."""
        if version.number != self._version.number:
            drop = ("DELETE FROM configurations WHERE number = ?", (version.number,))
            self.journal.append(statements=[drop]).done.result()

    def _resume(self) -> None:
        """Go on with the retraining that the end of the process has interrupted."""
        with self.journal.reading() as connection:
            row = connection.execute(
                "SELECT number, body, learner FROM configurations WHERE model = ? AND number > ? "
                "ORDER BY number DESC LIMIT 1",
                (self.number, self._version.number),
            ).fetchone()
        if row is None:
            return
        version = Version(row[0], _decode(row[1]), row[2])
        try:
            self._build_again(None, version)
        except ServiceError as fault:
            log.error("%s: the retraining cannot go on: %s", self.name, fault.detail)
            self._drop_version(version)

    def _count(self) -> None:
        """Count what waits for feedback, without what has expired."""
        self._counted_at = self.journal.stamp(0)[1]
        with self.journal.reading() as connection:
            since = self._expired_before()
            self.tally.open = connection.execute(
                "SELECT count(*) FROM decisions d LEFT JOIN answers a ON a.decision = d.position "
                "WHERE d.model = ? AND d.state = 0 AND d.time >= ? AND a.position IS NULL",
                (self.number, since),
            ).fetchone()[0]

    def warm_up(self) -> None:
        """Compile what requests will need, by rounds of copies that nobody sees."""
        with self._lock:
            copies = [self._learner.copy()]
            fresh = self._learner.round == 0
        labels = copies[0].labels
        contexts: list[Any] = [{"warm": 1.0, "up": "yes"}]
        if fresh:
            copies.append(copies[0].copy())
            contexts.append([0.5, 1.0, 2.0])
        elif columns := copies[0]._columns:
            contexts = [[0.5] * columns]
        for copy, context in zip(copies, contexts, strict=True):
            try:
                decision = copy.decide(self._builder.prepared(context))
                if copy.full_information:
                    copy.learn(decision, label=labels[0])
                else:
                    copy.learn(decision, right=False)
                copy.probabilities(self._builder.prepared(context))
            except REFUSED:  # the learner takes other contexts: they compile it when they come
                log.debug("%s: no warming up with %r", self.name, type(context).__name__)

    # Deciding.

    def decide(
        self, context: Any, among: Sequence[Label] | None = None, key: str | None = None
    ) -> Told:
        """Say a label for a context. It is on disk when this returns."""
        return self.submit_decide(context, among, key).wait()

    def decide_many(self, questions: Sequence[Question]) -> list[Told]:
        return self.submit_decide_many(questions).wait()

    def submit_decide(
        self, context: Any, among: Sequence[Label] | None = None, key: str | None = None
    ) -> Pending[Told]:
        with self._lock:
            self._check_open(1)
            entry = self._made(context, among, key)
            if entry.commit is None:
                self._append([entry])
            return Pending(entry.commit, self._told(entry.row))

    def submit_decide_many(self, questions: Sequence[Question]) -> Pending[list[Told]]:
        """All of them or none."""
        if len(questions) > self._limits.batch:
            raise TooLarge(
                f"{len(questions):,} decisions, and a batch has at most {self._limits.batch:,}"
            )
        with self._lock:
            self._check_open(len(questions))
            entries: list[_Entry] = []
            try:
                for question in questions:
                    entry = self._made(question.context, question.among, question.key)
                    entries.append(entry)
            except BaseException as error:
                if isinstance(error, ServiceError):
                    error.where = f"$.decisions[{len(entries)}]{error.where[1:]}"
                if any(entry.commit is None for entry in entries):
                    self._start_again()  # the learner has counted rounds that do not exist
                raise
            new = {entry.row.position: entry for entry in entries if entry.commit is None}
            self._append([*new.values()])
            commits = [entry.commit for entry in entries]
            return Pending(_all_done(commits), [self._told(entry.row) for entry in entries])

    def _check_open(self, count: int) -> None:
        self.journal.check_room(count)
        most = self._limits.open_decisions
        if self.tally.open + count > most and self.journal.stamp(0)[1] >= self._counted_at + 1:
            self.journal.flush()
            self._count()  # some may have expired since
        if self.tally.open + count > most:
            raise Busy(
                f"{self.tally.open:,} decisions of {self.name} wait for feedback, and at most "
                f"{most:,} may: give feedback, cancel some, or let them "
                "expire earlier (expires_after)",
                retry_after=60,
            )

    def _made(self, context: Any, among: Sequence[Label] | None, key: str | None) -> _Entry:
        """A decision that is not yet in the journal, or the earlier one with the same key."""
        stored = stored_context(context)
        if key is not None:
            _check_text(key, "$.key")
            known = self._entry_of_key(key)
            if known is not None:
                self._check_same(known, stored, among)
                return known
        possible = self._possible(among)
        asked = None if possible is None else _encode(possible).decode()
        context = _decode(stored)  # as it will be when it is learned again
        self._check_size(context)
        decide = self._learner.propose if self.model.deferred else self._learner.decide
        try:
            x = self._builder.prepared(context)
            decision = decide(x, among=possible)
        except REFUSED as error:
            raise Refused(str(error), where="$.context") from None
        shares = None  # the said label was certain
        if decision.propensity != 1.0:
            all_shares = self._shares(x, decision)
            shares = all_shares if decision.among is None else all_shares[list(decision.among)]
        position, time = self.journal.stamp()
        deferred = self.model.deferred
        row = DecisionRow(
            position=position,
            token=self.journal.new_token(),
            model=self.number,
            configuration=self._version.number,
            time=time,
            key=key,
            context=stored,
            among=asked,
            label=decision.label,
            propensity=float(decision.propensity),
            explored=int(decision.explored),
            round=decision.round,
            probabilities=None if shares is None else _encode(shares.tolist()).decode(),
            decision=decision.to_bytes(),
            deferred=int(deferred),
            active=None if deferred else position,
            state=ACTIVE,
        )
        entry = _Entry(row, None, decision, None)
        self._remember(entry)
        if key is not None:
            self._keys[key] = position
        return entry

    def _shares(self, x: Any, decision: Decision) -> np.ndarray:
        """How likely each label was to be said, of the decision that was just made."""
        learner = self._learner
        if self.model.deferred and not learner._can_propose(x):
            learner = learner.copy()  # which knows what is new in the context; nothing was counted
            learner.redo(x, decision)
        return learner._probabilities_then(decision)

    def _append(self, entries: Sequence[_Entry]) -> None:
        if not entries:
            return
        commit = self.journal.append(*(entry.row for entry in entries)).done
        tally = self.tally
        for entry in entries:
            row, entry.commit = entry.row, commit
            tally.explored += row.explored
            tally.smallest_propensity = min(tally.smallest_propensity, row.propensity)
        tally.decisions += len(entries)
        tally.open += len(entries)
        self._reached = entries[-1].row.position

    def _check_same(self, entry: _Entry, context: bytes, among: Sequence[Label] | None) -> None:
        asked = None if entry.row.among is None else set(_decode(entry.row.among))
        if entry.row.context != context or (among is not None and set(among) != asked):
            raise KeyReused(
                f"the key {entry.row.key!r} belongs to a decision on another context", where="$.key"
            )

    def _possible(self, among: Sequence[Label] | None) -> list[Label] | None:
        """The labels that may be said, in the learner's order; None: all."""
        if among is None and not self._retired:
            return None
        labels = self._learner.labels
        if among is None:
            return [label for label in labels if label not in self._retired]
        if isinstance(among, str):
            raise Refused("among is a list of labels", where="$.among")
        known, chosen = set(labels), set(among)
        for i, label in enumerate(among):
            if label not in known:
                raise Refused(f"{label!r} is not a label of {self.name}", where=f"$.among[{i}]")
            if label in self._retired:
                raise Refused(f"{label!r} is retired", where=f"$.among[{i}]")
        if not chosen:
            raise Refused("among is empty: at least one label must be possible", where="$.among")
        return [label for label in labels if label in chosen]

    def _check_size(self, context: Any) -> None:
        if isinstance(context, Mapping | list) and len(context) > self._limits.features:
            raise TooLarge(
                f"{len(context):,} features, and at most {self._limits.features:,} may be sent",
                where="$.context",
            )

    def _told(self, row: DecisionRow) -> Told:
        labels = self._labels_then(row) if row.among is None else _decode(row.among)
        if row.probabilities is None:
            shares = dict.fromkeys(labels, 0.0)
            shares[row.label] = 1.0
        else:  # labels that were added later come last, and have none
            shares = dict(zip(labels, _decode(row.probabilities), strict=False))
        return Told(
            id=id_of(row),
            label=row.label,
            propensity=row.propensity,
            probabilities=shares,
            explored=bool(row.explored),
            round=row.round,
        )

    def _labels_then(self, row: DecisionRow) -> list[Label]:
        """The labels in the order in which they had places when a decision was made."""
        if row.configuration == self._version.number and row.position > self._labelled_at:
            return self._learner.labels
        with self.journal.reading() as connection:
            (body,) = connection.execute(
                "SELECT body FROM configurations WHERE number = ?", (row.configuration,)
            ).fetchone()
            added = connection.execute(
                "SELECT body FROM changes WHERE model = ? AND kind = 'label' AND position < ? "
                "ORDER BY position",
                (self.number, row.position),
            ).fetchall()
        labels = _decode(body)["labels"]
        labels = list(range(labels)) if isinstance(labels, int) else labels
        return [*dict.fromkeys([*labels, *(_decode(text)["label"] for (text,) in added)])]

    # Learning.

    def feedback(
        self,
        id: str,
        right: bool | None = None,
        label: Label | None = None,
        source: str | None = None,
        key: str | None = None,
    ) -> Standing:
        """Whether a decision was right, or which label would have been. On disk at the return."""
        return self.submit_feedback(id, right, label, source, key).wait()

    def feedback_many(self, answers: Sequence[Answer]) -> list[Standing | ServiceError]:
        return self.submit_feedback_many(answers).wait()

    def submit_feedback(
        self,
        id: str,
        right: bool | None = None,
        label: Label | None = None,
        source: str | None = None,
        key: str | None = None,
    ) -> Pending[Standing]:
        with self._lock:
            self.journal.check_room()
            entry = self._entry(id)
            commit = self._hear(entry, right, label, source, key)
            return Pending(commit, self._standing(entry))

    def submit_feedback_many(
        self, answers: Sequence[Answer]
    ) -> Pending[list[Standing | ServiceError]]:
        """Each is taken or refused by itself."""
        with self._lock:
            self.journal.check_room(len(answers))
            commits, outcomes = [], []
            for answer in answers:
                try:
                    entry = self._entry(answer.id)
                    right = None if answer.right is UNSET else answer.right
                    label = None if answer.label is UNSET else answer.label
                    commit = self._hear(entry, right, label, answer.source, answer.key)
                    commits.append(commit)
                    outcomes.append(self._standing(entry))
                except Unavailable:
                    raise
                except ServiceError as fault:
                    outcomes.append(fault)
            return Pending(_all_done(commits), outcomes)

    def _hear(
        self,
        entry: _Entry,
        right: bool | None,
        label: Label | None,
        source: str | None,
        key: str | None,
    ) -> Future[None]:
        """Learn an answer and put it into the journal."""
        right, label = self._verdict(entry, right, label)
        for name, text in (("key", key), ("source", source)):
            _check_text(text, f"$.{name}")
        self._check_answerable(entry)
        known = entry.answer
        if known is not None:
            if _repeats(entry.row, known, right, label):
                return entry.commit
            if key is not None and key == known.key:
                raise KeyReused(f"the key {key!r} belongs to other feedback", where="$.key")
            if not (self.model.revisions or known.source == SILENCE):
                raise Contradiction(
                    f"decision {id_of(entry.row)} has the feedback {_in_words(known)} already; "
                    "this model takes no other (revisions = false)"
                )
            if not self.model.revisions:
                self._check_in_time(entry)
            return self._revise(entry, right, label, source, key)
        self._check_in_time(entry)
        return self._learn(entry, right, label, source, key)

    def _learn(
        self,
        entry: _Entry,
        right: bool | None,
        label: Label | None,
        source: str | None,
        key: str | None,
    ) -> Future[None]:
        """The first answer to a decision."""
        waits = entry.row.active is None
        position, time = self.journal.stamp(2 if waits else 1)
        statements = [self._activate(entry, position)] if waits else []
        answer = AnswerRow(
            position=position + waits,
            model=self.number,
            decision=entry.row.position,
            time=time,
            right=None if right is None else int(right),
            label=label,
            source=source,
            key=key,
        )
        try:
            with _refusing("$"):
                self._builder.apply(self._learner, answer, entry.row, entry.decision)
        except BaseException as error:
            # A learner that is being replaced may know feedback that was taken back since, and
            # refuse to hear other feedback: the next one learns it from the journal.
            if not (isinstance(error, Refused) and self._rebuilding is not None):
                if waits:
                    self._start_again()  # the learner has counted a round that was not shown
                raise
        commit = self.journal.append(answer, statements=statements).done
        entry.answer, entry.commit = answer, commit
        self._remember(entry)
        self._reached = answer.position
        is_right = right if right is not None else label == entry.row.label
        tally = self.tally
        tally.open -= 1
        tally.right += is_right is True
        tally.wrong += is_right is False
        tally.silences += source == SILENCE
        tally.delay.add(max(time - entry.row.time, 0.0))
        return commit

    def _verdict(
        self, entry: _Entry, right: bool | None, label: Label | None
    ) -> tuple[bool | None, Label | None]:
        """Feedback in one form: the said label named as the true one is right."""
        if (right is None) == (label is None):
            raise Refused("say either right or label")
        if label is None:
            if self._learner.full_information:
                raise Refused(
                    f"{type(self._learner).__name__} must be told the true label", where="$.right"
                )
            return right, None
        if label not in self._learner._labels.names:
            raise Refused(f"{label!r} is not a label of {self.name}", where="$.label")
        return None, label

    def _check_answerable(self, entry: _Entry) -> None:
        if entry.row.state == CANCELLED:
            raise Cancelled(f"decision {id_of(entry.row)} was cancelled")
        if entry.row.state == ERASED:
            raise Expired(f"decision {id_of(entry.row)} was erased")

    def _check_in_time(self, entry: _Entry) -> None:
        if self._is_expired(entry):
            self.tally.expired += 1
            raise Expired(
                f"decision {id_of(entry.row)} was made more than "
                f"{self.model.expires_after:,.0f} s ago (expires_after)"
            )

    def shown(self, id: str) -> Standing:
        return self.submit_shown(id).wait()

    def submit_shown(self, id: str) -> Pending[Standing]:
        """A deferred decision was shown to somebody, and counts from now on."""
        with self._lock:
            self.journal.check_room()
            entry = self._entry(id)
            self._check_answerable(entry)
            if entry.row.active is not None:
                return Pending(entry.commit, self._standing(entry))
            self._check_in_time(entry)
            position, _ = self.journal.stamp()
            statement = self._activate(entry, position)
            entry.commit = self.journal.append(statements=[statement]).done
            self._remember(entry)
            self._reached = position
            return Pending(entry.commit, self._standing(entry))

    def _activate(self, entry: _Entry, position: int) -> tuple[str, Any]:
        """Let a deferred decision count; returns the statement for the journal."""
        row, round = entry.row, entry.row.round
        if row.configuration == self._version.number:
            with _refusing("$"):
                entry.decision = self._learner.redo(
                    self._builder.context_of(row), entry.decision or decision_of(row)
                )
            round = entry.decision.round
        entry.row = row._replace(active=position, round=round)
        self._watched = min(self._watched, row.position - 1)
        return (
            "UPDATE decisions SET active = ?, round = ? WHERE position = ?",
            (position, round, row.position),
        )

    # Changing the past.

    def revise(self, id: str, right: bool | None = None, label: Label | None = None) -> Standing:
        return self.submit_revise(id, right, label).wait()

    def submit_revise(
        self, id: str, right: bool | None = None, label: Label | None = None
    ) -> Pending[Standing]:
        """Other feedback than before, learned as if it had always been so."""
        with self._lock:
            entry = self._entry(id)
            right, label = self._verdict(entry, right, label)
            self._check_answerable(entry)
            self._check_revisable(entry)
            if entry.answer is None:
                raise Contradiction(f"decision {id} has no feedback that could be revised")
            if says(entry.answer) == (right, label):
                return Pending(entry.commit, self._standing(entry))
            self._revise(entry, right, label, entry.answer.source, entry.answer.key)
            return Pending(_DONE, self._standing(entry))

    def revoke(self, id: str) -> Standing:
        return self.submit_revoke(id).wait()

    def submit_revoke(self, id: str) -> Pending[Standing]:
        """Take feedback back: the decision waits for feedback again."""
        with self._lock:
            entry = self._entry(id)
            self._check_answerable(entry)
            if entry.answer is None:
                return Pending(entry.commit, self._standing(entry))
            self._check_revisable(entry)
            answer = entry.answer
            self._edit(
                "revoke",
                answer.position,
                {"decision": entry.row.position, "before": _kept(answer)},
                [("DELETE FROM answers WHERE position = ?", (answer.position,))],
            )
            self._watched = min(self._watched, entry.row.position - 1)
            self.tally.open += 1
            return Pending(_DONE, self._standing(self._entry(id)))

    def cancel(self, id: str) -> Standing:
        return self.submit_cancel(id).wait()

    def submit_cancel(self, id: str) -> Pending[Standing]:
        """Let a decision count for nothing, as if it had never been made.

        If it has feedback, and the model allows revisions, the feedback is taken back with it.
        """
        with self._lock:
            entry = self._entry(id)
            row, answer = entry.row, entry.answer
            if row.state != ACTIVE:
                return Pending(entry.commit, self._standing(entry))
            if answer is not None:
                self._check_revisable(entry)
            body: dict[str, Any] = {"decision": row.position}
            statements: list[tuple[str, Any]] = [
                ("UPDATE decisions SET state = ? WHERE position = ?", (CANCELLED, row.position))
            ]
            if answer is not None:
                body["before"] = _kept(answer)
                statements.append(("DELETE FROM answers WHERE position = ?", (answer.position,)))
            has_counted = row.active is not None and row.configuration == self._version.number
            if answer is None and not has_counted:  # it has left no trace in the learner
                self.journal.check_room()
                entry.commit = self.journal.append(statements=statements).done
                entry.row = row._replace(state=CANCELLED)
                self._remember(entry)
            else:
                self._edit("cancel", row.active or row.position, body, statements)
            self.tally.cancelled += 1
            self.tally.open -= answer is None
            if entry.row.state == CANCELLED:
                return Pending(entry.commit, self._standing(entry))
            return Pending(_DONE, self._standing(self._entry(id)))

    def erase(self, id: str) -> Standing:
        return self.submit_erase(id).wait()

    def submit_erase(self, id: str) -> Pending[Standing]:
        """Delete what is stored about the context of a decision, and build the learner without."""
        with self._lock:
            entry = self._entry(id)
            row = entry.row
            if row.state == ERASED:
                return Pending(_DONE, self._standing(entry))
            first = row.position if row.active is None else min(row.position, row.active)
            self._edit(
                "erase",
                first,
                {"decision": row.position},
                [
                    (
                        "UPDATE decisions SET state = ?, context = NULL, decision = NULL, "
                        "key = NULL, among = NULL, probabilities = NULL WHERE position = ?",
                        (ERASED, row.position),
                    ),
                    ("DELETE FROM answers WHERE decision = ?", (row.position,)),
                    (
                        "UPDATE changes SET body = '{}' WHERE kind IN ('revise', 'revoke', "
                        "'cancel') AND json_extract(body, '$.decision') = ?",
                        (row.position,),
                    ),
                ],
                truncates=True,
            )
            self.tally.open -= row.state == ACTIVE and entry.answer is None
            for snapshot in snapshots.found(self._folder, self.name):
                if snapshot.position >= first:  # its learner knows the context
                    snapshot.path.unlink(missing_ok=True)
            return Pending(_DONE, self._standing(self._entry(id)))

    def submit_source(self, source: str, change: SourceChange) -> Pending[Card]:
        """Let the feedback of a source count less or not at all, from its first answer on."""
        _check_text(source, "$.source")
        with self._lock:
            weight = self._sources.get(source, 1.0)
            if change.weight is not UNSET:
                weight = float(change.weight)
            if change.quarantined is not UNSET:
                weight = 0.0 if change.quarantined else (weight or 1.0)
            self._edit(
                "source",
                self._first_answer_of(source),
                {"source": source, "weight": weight},
                [("REPLACE INTO sources VALUES (?, ?, ?)", (self.number, source, weight))],
            )
            return Pending(_DONE, self.card())

    def submit_remove_source(self, source: str) -> Pending[Card]:
        """Take all feedback of a source back."""
        with self._lock:
            self._edit(
                "remove source",
                self._first_answer_of(source),
                {"source": source},
                [
                    (
                        "DELETE FROM answers WHERE model = ? AND source = ?",
                        (self.number, source),
                    ),
                ],
            )
            self._watched = 0
            self._count()
            return Pending(_DONE, self.card())

    def _first_answer_of(self, source: str) -> int:
        self.journal.flush()
        with self.journal.reading() as connection:
            found = connection.execute(
                "SELECT min(position) FROM answers WHERE model = ? AND source = ?",
                (self.number, source),
            ).fetchone()[0]
        return self.journal.position + 1 if found is None else found

    def _check_revisable(self, entry: _Entry) -> None:
        if not self.model.revisions:
            raise Contradiction(
                f"feedback of {self.name} cannot be changed or taken back (revisions = false)"
            )
        base = self._builder.base_position()
        if entry.answer is not None and entry.answer.position <= base:
            raise Expired(f"decision {id_of(entry.row)} was compacted into a snapshot (retention)")

    def _revise(
        self,
        entry: _Entry,
        right: bool | None,
        label: Label | None,
        source: str | None,
        key: str | None,
    ) -> Future[None]:
        answer: Any = entry.answer
        heard = None if right is None else int(right)
        _, time = self.journal.stamp(0)
        self.tally.revised += 1
        self._edit(
            "revise",
            answer.position,
            {"decision": entry.row.position, "before": _kept(answer)},
            [
                (
                    "UPDATE answers SET time = ?, right = ?, label = ?, source = ?, key = ? "
                    "WHERE position = ?",
                    (time, heard, label, source, key, answer.position),
                )
            ],
        )
        entry.answer = answer._replace(time=time, right=heard, label=label, source=source, key=key)
        return _DONE

    def _edit(
        self,
        kind: str,
        affects: int,
        body: dict[str, Any],
        statements: Iterable[tuple[str, Any]],
        truncates: bool = False,
    ) -> None:
        """Change the past: on disk first, then in the learner, which is built again.

        truncates: the journal must not keep what was there before.
        """
        self.journal.check_room()
        self.journal.flush()
        position, time = self.journal.stamp()
        row = ChangeRow(position, self.number, time, kind, affects, _encode(body).decode())
        self.journal.append(row, statements=statements, truncates=truncates).done.result()
        if kind == "source":
            self._sources[body["source"]] = body["weight"]
        self._edits.append(affects)
        self._is_stale = True
        self._reached = position
        self._recent.clear()
        self._keys.clear()
        self._build_again(affects)

    # Building the learner.

    def _build_again(self, affects: int | None = None, version: Version | None = None) -> None:
        """Build the learner anew: at once if that is quick, else in a thread.

        affects: the first position that has changed; None: all has. version: another one is to
        take over.
        """
        builder = self._builder if version is None else self._builder_of(version)
        with self._lock:
            self.journal.flush()
            start = builder.start(affects)
            if self.journal.position - start[1] <= AT_ONCE and self._rebuilding is None:
                self._take_over(builder, builder.replayed(*start)[0])
                return
            if self._rebuilding is not None and version is None:
                return  # that one sees the change, and starts again if it has to
            self._rebuilding = threading.Thread(
                target=self._build_behind, args=(builder, start, self._reached, len(self._edits)),
                name=f"build {self.name}", daemon=True,
            )  # fmt: skip
            self.tally.lag = self.journal.position - start[1]
            self._rebuilding.start()

    def _build_behind(
        self, builder: Builder, start: tuple[Learner, int] | None, until: int, edits: int
    ) -> None:
        """Build a learner while the present one goes on answering, then let it take over.

        until: where the model was when the start was chosen; edits: how many changes of the past
        there were. Up to there all is on disk. What came later is learned under the lock.
        """
        try:
            while not self._closing:
                try:
                    if start is None:
                        with self._lock:
                            self.journal.flush()
                            start = builder.start()
                            until, edits = self._reached, len(self._edits)
                    learner, reached = builder.replayed(*start, until)
                    with self._lock:
                        is_valid = all(affects > until for affects in self._edits[edits:])
                        if is_valid and self._reached - until > max(AT_ONCE, 0):
                            self.journal.flush()
                            start, until = (learner, reached), self._reached
                            edits = len(self._edits)
                            continue  # much has come meanwhile: learn it without the lock first
                        if is_valid:
                            self.journal.flush()
                            self._take_over(builder, builder.replayed(learner, reached)[0])
                            self._end_building()  # a change from here on starts another thread
                            return
                    start = None
                except Unavailable as error:
                    with self._lock:
                        if isinstance(error, Damaged) and edits == len(self._edits):
                            raise
                    start = None
                    sleep(0.1)  # the journal has failed: go on when it has been read anew
        except Exception:
            log.exception("%s: the learner could not be built again", self.name)
            with suppress(Unavailable):
                self._drop_version(builder.version)
        with self._lock:
            self._end_building()
            if self._is_stale and builder is not self._builder and not self._closing:
                self._build_again()  # changes of the past have relied on this thread

    def _end_building(self) -> None:
        self._rebuilding, self.tally.lag = None, 0

    def _take_over(self, builder: Builder, learner: Learner) -> None:
        if builder is not self._builder:
            statement = self._let_take_charge(builder.version)
            self.journal.append(statements=[statement]).done.result()
            self._builder = builder
        self._learner, self._is_stale = learner, False
        self._recent.clear()
        self._keys.clear()
        self._snapshot_at = 0  # take one soon

    def _start_again(self) -> None:
        """After a refused batch: the learner as the journal has it."""
        self.journal.flush()
        self._build()
        self._is_stale = False
        self._recent.clear()
        self._keys.clear()

    def settle(self) -> None:
        """Wait until no learner is being built behind the scenes."""
        thread = self._rebuilding
        if thread is not None:
            thread.join()

    def replayed(self) -> Learner:
        """The learner built from the journal alone, without snapshots: for `onebit replay`."""
        with self._lock:
            self.journal.flush()
            return self._builder.replayed(*self._builder.first())[0]

    @property
    def learner(self) -> Learner:
        """A copy of the learner as it is now."""
        with self._lock:
            return self._learner.copy()

    def forecasts(self, contexts: Sequence[Any]) -> np.ndarray:
        """The scores [context, label] as the learner is now. Nothing is written down."""
        with self._lock, _refusing("$.context"):
            return self._learner.scores([self._builder.prepared(context) for context in contexts])

    # Other changes.

    def submit_labels(self, change: LabelChange) -> Pending[Card]:
        """Labels that may be said from now on, and labels that may not."""
        with self._lock:
            known = self._learner.labels
            for i, label in enumerate(change.retire):
                if label not in known:
                    raise Refused(f"{label!r} is not a label", where=f"$.retire[{i}]")
            new = [label for label in dict.fromkeys(change.add) if label not in known]
            back = self._retired.intersection(change.add)
            if not {*known, *new} - (self._retired - back) - set(change.retire):
                raise Refused("no label would be left", where="$.retire")
            if len(known) + len(new) > self._limits.labels:
                raise TooLarge(f"a model has at most {self._limits.labels:,} labels")
            self.journal.check_room(len(change.add) + len(change.retire))
            trial = self._learner.copy() if new else self._learner
            for label in new:  # all or nothing
                with _refusing(f"$.add[{change.add.index(label)}]"):
                    trial.add_label(label)
            self._learner = trial
            changes = [("label", label) for label in new]
            changes += [("restore", label) for label in known if label in back]
            gone = [label for label in dict.fromkeys(change.retire) if label not in self._retired]
            changes += [("retire", label) for label in gone]
            commits = [self._change(kind, {"label": label}) for kind, label in changes]
            self._retired = (self._retired - back) | set(change.retire)
            return Pending(_all_done(commits), self.card())

    def _change(self, kind: str, body: dict[str, Any]) -> Future[None]:
        position, time = self.journal.stamp()
        row = ChangeRow(position, self.number, time, kind, None, _encode(body).decode())
        self._reached = position
        if kind == "label":
            self._labelled_at = position
        return self.journal.append(row).done

    def submit_retrain(self, change: Retraining) -> Pending[Card]:
        """Another learner from the same journal; the present one answers until it is there."""
        values = {
            name: getattr(change, name)
            for name in ("learner", "settings", "seed")
            if getattr(change, name) is not UNSET
        }
        with self._lock:
            body = {**self._version.body, **values}
            if "learner" in values and "settings" not in values:
                body["settings"] = {}
            learner = self._version.learner
            if learner is not None and values:
                raise Contradiction(
                    f"{self.name} began with a saved learner, which has its own settings: build "
                    "another model from the journal, or retrain it as it is"
                )
            self.retrain(body, learner)
        return Pending(_DONE, self.card())

    def retrain(self, body: dict[str, Any], learner: bytes | None = None) -> None:
        """Build a learner of another configuration, which then takes over."""
        with self._lock:
            if self._rebuilding is not None:
                raise Busy("a learner is being built already", retry_after=5)
            version = Version(self.journal.new_configuration(), body, learner)
            with _refusing("$"):
                fresh(version)
            self.journal.check_room()
            self._write_version(version).result()
            try:
                self._build_again(None, version)
            except ServiceError:
                self._drop_version(version)
                raise

    def limit(self, limits: Limits, keep: int, retention: float | None = None) -> None:
        self._limits, self._keep, self._retention = limits, keep, retention

    def follow(self, model: Model) -> None:
        """Take over another configuration of the same model.

        Only what differs from the configuration that was followed before: labels and settings that
        were changed by requests stay, whether the process was started again or not.
        """
        wanted = version_of(model, 0)
        if identity(wanted) != (self._followed() or {}).get("identity", identity(self._version)):
            self.settle()  # one learner is built at a time
        with self._lock:
            self.model = model
            now = {"labels": model.names, "identity": identity(wanted)}
            before = self._followed() or {
                "labels": self._learner.labels,
                "identity": identity(self._version),
            }
            known = set(self._learner.labels)
            add = [label for label in model.names if label not in before["labels"]]
            gone = [x for x in before["labels"] if x in known and x not in model.names]
            if add or gone:
                self.submit_labels(LabelChange(add=add, retire=gone)).wait()
            if now["identity"] != before["identity"]:
                body = wanted.body
                if isinstance(body["labels"], list):  # retired ones stay, for earlier decisions
                    retired = [x for x in self._learner.labels if x not in model.names]
                    body = {**body, "labels": [*body["labels"], *retired]}
                self.retrain(body, wanted.learner)
            if now != self._followed():
                note = ("REPLACE INTO meta VALUES (?, ?)", (self._file, _encode(now).decode()))
                self.journal.append(statements=[note]).done.result()

    @property
    def _file(self) -> str:
        return f"configuration of {self.number}"

    def _followed(self) -> dict[str, Any] | None:
        """What the configuration file said when it was last followed."""
        with self.journal.reading() as connection:
            query = "SELECT value FROM meta WHERE name = ?"
            row = connection.execute(query, (self._file,)).fetchone()
        return None if row is None else _decode(row[0])

    # Looking.

    def copy_of_learner(self) -> Learner:
        """The learner as it is now; it goes on without the copy."""
        with self._lock:
            return self._learner.copy()

    def look(self, id: str) -> Record:
        """All that is kept of a decision."""
        with self._lock:
            entry = self._entry(id)
            row, told = entry.row, self._told(entry.row)
            if not entry.commit.done():
                self.journal.flush()
        heard = [] if entry.answer is None else [_heard(entry.answer)]
        with self.journal.reading() as connection:
            before = connection.execute(
                "SELECT body FROM changes WHERE model = ? AND kind IN ('revise', 'revoke', "
                "'cancel') AND affects >= ? AND json_extract(body, '$.decision') = ? "
                "ORDER BY position",
                (self.number, row.position, row.position),
            ).fetchall()
        earlier = [_decode(body).get("before") for (body,) in before]
        revoked = [Heard(**old, revoked=True) for old in earlier if old]
        return Record(
            **{name: getattr(told, name) for name in Told.__struct_fields__},
            model=self.name,
            time=row.time,
            state=self._state(entry),
            context=None if row.context is None else _decode(row.context),
            feedback=[*revoked, *heard],
        )

    def card(self) -> Card:
        """What the model is, and how well it does."""
        with self.journal.reading() as connection:
            rounds, explored, smallest = connection.execute(
                "SELECT count(*), avg(explored), min(propensity) FROM decisions WHERE model = ? "
                "AND state = 0 AND active NOT NULL",
                (self.number,),
            ).fetchone()
            answers, error = connection.execute(
                "SELECT count(*), 1.0 - avg(CASE WHEN a.label IS NULL THEN a.right "
                "ELSE a.label = d.label END) FROM answers a "
                "JOIN decisions d ON d.position = a.decision WHERE a.model = ?",
                (self.number,),
            ).fetchone()
            by_source = dict(
                connection.execute(
                    "SELECT source, count(*) FROM answers WHERE model = ? AND source NOT NULL "
                    "GROUP BY source ORDER BY count(*) DESC LIMIT 1000",
                    (self.number,),
                )
            )
        with self._lock:
            learner, model, body = self._learner, self.model, self._version.body
            sources = {
                name: SourceCard(
                    weight=self._sources.get(name, 1.0),
                    quarantined=self._sources.get(name, 1.0) == 0,
                    answers=by_source.get(name, 0),
                )
                for name in {**by_source, **self._sources}
            }
            return Card(
                name=self.name,
                title=model.title,
                learner=body["learner"],
                settings=body["settings"],
                seed=body["seed"],
                labels=learner.labels,
                retired=[label for label in learner.labels if label in self._retired],
                version=self._version.number,
                rebuilding=self._rebuilding is not None,
                rounds=rounds,
                answers=answers,
                open=self.tally.open,
                error_share=error,
                explored_share=explored,
                smallest_propensity=smallest,
                sources=sources,
                revisions=model.revisions,
                deferred=model.deferred,
                wrong_after=model.wrong_after,
                expires_after=model.expires_after,
            )

    def _entry(self, id: str) -> _Entry:
        """The decision with this id."""
        position, token = parsed_id(id)
        entry = self._recent.get(position)
        if entry is None:
            found = self.journal.decision(position)
            if found is not None:
                entry = _Entry(*found, None, _DONE)
        if entry is None or entry.row.token != token or entry.row.model != self.number:
            raise UnknownDecision(f"there is no decision {id!r}", where="$.id")
        return entry

    def _entry_of_key(self, key: str) -> _Entry | None:
        if key in self._keys:
            return self._recent[self._keys[key]]
        found = self.journal.decision_of_key(self.number, key)
        return None if found is None else _Entry(*found, None, _DONE)

    def _remember(self, entry: _Entry) -> None:
        self._recent[entry.row.position] = entry
        self._recent.move_to_end(entry.row.position)  # what waits for the disk must not fall out
        while len(self._recent) > RECENT:
            old = next(iter(self._recent.values()))
            if old.commit is None or not old.commit.done():
                return
            del self._recent[old.row.position]
            if old.row.key is not None:
                self._keys.pop(old.row.key, None)

    def _standing(self, entry: _Entry) -> Standing:
        return Standing(id=id_of(entry.row), state=self._state(entry))

    def _state(self, entry: _Entry) -> State:
        if entry.row.state == CANCELLED:
            return "cancelled"
        if entry.row.state == ERASED:
            return "erased"
        if entry.answer is not None:
            return "learned"
        if self._is_expired(entry):
            return "expired"
        return "open" if entry.row.active is not None else "waiting"

    def _is_expired(self, entry: _Entry) -> bool:
        return entry.row.time < self._expired_before()

    def _expired_before(self) -> float:
        after = self.model.expires_after
        return 0.0 if after is None else self.journal.stamp(0)[1] - after

    # What time brings.

    def tick(self) -> None:
        """Do what is due: called about once a second."""
        if self.model.wrong_after is not None:
            self._hear_silence(self.model.wrong_after)
        if self._reached - self._snapshot_at >= self._snapshot_every:
            self.snapshot()
        if self._retention is not None:
            self._compact_old(self._retention)

    def _compact_old(self, retention: float) -> None:
        """Compact now and then: up to a twentieth older than they must be, rounds may stay."""
        _, now = self.journal.stamp(0)
        if now - retention - self._compacted >= retention / 20:
            while self.compact(now - retention):
                pass
            self._compacted = now - retention

    def compact(self, before: float) -> int:
        """Keep what was learned before a time as a learner, and delete the rounds.

        Deleted are decisions that were answered, cancelled, erased, or have expired, and their
        answers. Open decisions stay. The learner, the base of the journal, and the deletion are
        one transaction. At most COMPACTED events are taken at once: returns by how many positions
        the base has moved on; 0 if there was nothing to compact.
        """
        with self._lock:
            if self._rebuilding is not None:
                return 0
            builder, edits = self._builder, len(self._edits)
        self.journal.flush()
        base = builder.base()
        start = base[1] if base else 0
        until = self._last_before(start, before)
        if until <= start:
            return 0
        learner, _ = builder.replayed(*builder.start(until + 1), until)
        with self._lock:
            is_same = edits == len(self._edits) and builder is self._builder
            if self._rebuilding is not None or not is_same:
                return 0  # the past has changed meanwhile, or another learner reads these rounds
            self._replace_by_base(learner, until)
        return until - start

    def _last_before(self, start: int, before: float) -> int:
        """The last position before a time, at most COMPACTED events after the start."""
        found = start
        with self.journal.reading() as connection:
            for table in ("decisions", "answers", "changes"):
                rows = connection.execute(
                    f"SELECT position, time FROM {table} WHERE position > ? AND model = ? "
                    "ORDER BY position LIMIT ?",
                    (start, self.number, COMPACTED),
                ).fetchall()
                # Times do not run backwards.
                found = max([found, *(position for position, time in rows if time < before)])
                if len(rows) == COMPACTED:
                    before = min(before, rows[-1][1])
        return found

    def _replace_by_base(self, learner: Learner, until: int) -> None:
        """Let a learner stand for what came up to a position."""
        values = {
            "model": self.number,
            "version": self._version.number,
            "until": until,
            "learner": persist.pack(*learner._dump()),
            "expired": self._expired_before(),
            "hears_silence": self.model.wrong_after is not None,
        }
        with self.journal.reading() as connection:
            gone = connection.execute(f"SELECT position {_COMPACTED}", values).fetchall()
        base = "REPLACE INTO bases VALUES (:model, :version, :until, :learner)"
        deletions = (f"DELETE {_COMPACTED}", _DELETE_ANSWERS, _DELETE_CHANGES)
        statements = [(statement, values) for statement in (base, *deletions)]
        self.journal.append(statements=statements).done.result()
        for (position,) in gone:
            entry = self._recent.pop(position, None)
            if entry is not None and entry.row.key is not None:
                self._keys.pop(entry.row.key, None)

    def _hear_silence(self, wrong_after: float) -> None:
        """Read silence as wrong where no feedback came in time."""
        _, now = self.journal.stamp(0)
        if not self._marks or now - self._marks[-1][0] >= wrong_after / 100:
            self._marks.append((now, self.journal.position))
        while True:
            watched = self._watched
            with self.journal.reading() as connection:
                due = connection.execute(
                    "SELECT d.position, d.token FROM decisions d LEFT JOIN answers a "
                    "ON a.decision = d.position WHERE d.position > ? AND d.model = ? AND "
                    "d.state = 0 AND d.active NOT NULL AND d.time <= ? AND a.position IS NULL "
                    "ORDER BY d.position LIMIT 100",
                    (watched, self.number, now - wrong_after),
                ).fetchall()
            with self._lock:
                for position, token in due:
                    entry = self._entry(f"{position:x}-{token}")
                    if entry.answer is None and entry.row.state == ACTIVE:
                        self.journal.check_room()
                        self._learn(entry, False, None, SILENCE, None)
                if self._watched != watched:
                    continue  # something earlier waits for feedback again
                if due:
                    self._watched = due[-1][0]
                while not due and self._marks and self._marks[0][0] <= now - wrong_after:
                    self._watched = max(self._watched, self._marks.popleft()[1])
            if not due:
                return
            self.journal.flush()

    def snapshot(self) -> Path | None:
        """Write the learner down as it is now; None if that makes no sense at the moment."""
        with self._lock:
            if self._is_stale:
                return None
            position, version, dumped = self._reached, self._version.number, self._learner._dump()
            edits = len(self._edits)
        self.journal.flush()
        with self._lock:
            if edits != len(self._edits) or version != self._version.number:
                return None
            self._snapshot_at = position
            return snapshots.take(
                self.journal, self._folder, self.name, self.number, version, position, dumped,
                self._keep,
            )  # fmt: skip

    def close(self) -> None:
        """Write a last snapshot. The journal has everything; this makes the next start quick."""
        self._closing = True
        self.settle()
        if self.journal.failure is None and self._reached > self._snapshot_at:
            self.snapshot()


def id_of(row: DecisionRow) -> str:
    """The id of a decision: its position, and a token that nobody can guess."""
    return f"{row.position:x}-{row.token}"


def parsed_id(id: str) -> tuple[int, str]:
    position, _, token = id.partition("-")
    try:
        if not (0 < len(position) <= 15 and position.isascii() and position.isalnum()):
            raise ValueError
        return int(position, 16), token
    except ValueError:
        raise UnknownDecision(f"there is no decision {id[:100]!r}", where="$.id") from None


def stored_context(context: Any) -> bytes:
    """A context as the journal keeps it: JSON."""
    if isinstance(context, np.ndarray):
        context = context.tolist()
    elif isinstance(context, tuple) and len(context) == 2:
        context = list(zip(*(np.asarray(part).tolist() for part in context), strict=True))
    try:
        stored = _encode(context)
    except (TypeError, ValueError) as error:
        raise Refused(f"a context is JSON: {error}", where="$.context") from None
    if b"null" in stored:  # which is what becomes of numbers that are none
        values = context.values() if isinstance(context, Mapping) else context
        if any(isinstance(value, float) and not isfinite(value) for value in values):
            raise Refused("a context has a number that is not finite", where="$.context")
    return stored


def _number_of(journal: Journal, name: str) -> int:
    """The number of a model in the journal; a new model gets the next one."""
    with journal.reading() as connection:
        row = connection.execute("SELECT number FROM models WHERE name = ?", (name,)).fetchone()
    if row is None:
        insert = "INSERT INTO models (name) VALUES (?)"
        journal.append(statements=[(insert, (name,))]).done.result()
        return _number_of(journal, name)
    return row[0]


def _in_words(answer: AnswerRow) -> str:
    right, label = says(answer)
    if right is None:
        return f"label {label!r}"
    return "right" if right else "wrong"


def _kept(answer: AnswerRow) -> dict[str, Any]:
    right, label = says(answer)
    return {"time": answer.time, "right": right, "label": label, "source": answer.source}


def _heard(answer: AnswerRow) -> Heard:
    return Heard(**_kept(answer))


def _all_done(commits: Iterable[Future[None]]) -> Future[None]:
    """Done when all of some commits are, and failed if any of them has."""
    waited = list(dict.fromkeys(commits))
    if not waited:
        return _DONE
    if len(waited) == 1:
        return waited[0]
    result: Future[None] = Future()
    lock, left = threading.Lock(), len(waited)

    def count(commit: Future[None]) -> None:
        nonlocal left
        with lock:
            left -= 1
            is_last = left == 0
        if is_last:
            error = next((error for done in waited if (error := done.exception())), None)
            result.set_exception(error) if error else result.set_result(None)

    for commit in waited:
        commit.add_done_callback(count)
    return result


def _repeats(row: DecisionRow, known: AnswerRow, right: bool | None, label: Label | None) -> bool:
    """Whether feedback says nothing that the known answer does not say."""
    if label is None:
        return right == (bool(known.right) if known.label is None else known.label == row.label)
    return label == known.label or (bool(known.right) and label == row.label)


def _check_text(text: str | None, where: str) -> None:
    """Refuse what cannot be written as UTF-8: halves of surrogate pairs."""
    try:
        (text or "").encode()
    except UnicodeEncodeError:
        raise Refused("not text that can be stored as UTF-8", where=where) from None


class _refusing:
    """What a learner refuses becomes a fault of the request."""

    __slots__ = ("where",)

    def __init__(self, where: str) -> None:
        self.where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, REFUSED):
            raise Refused(str(error), where=self.where) from None
