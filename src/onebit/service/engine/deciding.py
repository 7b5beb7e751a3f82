"""Deciding: a context comes, a label is said, both go into the journal."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from onebit.core.slots import OTHERS
from onebit.learner.decision import Decision
from onebit.service.engine.checks import check_text, refusing, stored_context
from onebit.service.engine.entries import Entry
from onebit.service.engine.pending import Pending, all_done, waiting
from onebit.service.engine.rebuilding import Rebuilding
from onebit.service.faults import Busy, KeyReused, Refused, ServiceError, TooLarge
from onebit.service.journal import ACTIVE, DecisionRow
from onebit.service.messages import Label, Question, Told

log = logging.getLogger("onebit.service")
_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode


class Asked(NamedTuple):
    """A question that was checked, and has no decision yet."""

    x: Any  # the context, as the learner takes it
    context: bytes  # JSON
    possible: list[Label] | None  # None: all labels
    key: str | None

    @property
    def among(self) -> str | None:
        """The possible labels, as the journal keeps them."""
        return None if self.possible is None else _encode(self.possible).decode()


class Deciding(Rebuilding):
    """Makes decisions."""

    def submit_decide(
        self, context: Any, among: Sequence[Label] | None = None, key: str | None = None
    ) -> Pending[Told]:
        """Say a label for a context."""
        with self._lock:
            self._check_open(1)
            entry = self._asked(context, among, key)
            if isinstance(entry, Asked):
                entry = self._decided(entry)
                self._append([entry])
            return Pending(entry.commit, self._told(entry.row))

    decide = waiting(submit_decide)

    def submit_decide_many(self, questions: Sequence[Question]) -> Pending[list[Told]]:
        """Say labels for all contexts, or for none of them."""
        if len(questions) > self._limits.batch:
            raise TooLarge(
                f"{len(questions):,} decisions, and a batch has at most {self._limits.batch:,}"
            )
        with self._lock:
            self._will_work_on(questions)
            self._check_open(len(questions))
            # Questions with the same key are one question; those without a key have their place.
            names = [i if q.key is None else q.key for i, q in enumerate(questions)]
            entries = self._decided_all(names, self._asked_all(names, questions))
            commits = [entry.commit for entry in entries.values()]
            return Pending(all_done(commits), [self._told(entries[name].row) for name in names])

    decide_many = waiting(submit_decide_many)

    def _asked_all(
        self, names: Sequence[str | int], questions: Sequence[Question]
    ) -> dict[str | int, Asked | Entry]:
        """All questions, by name, checked before the learner counts the first round."""
        found: dict[str | int, Asked | Entry] = {}
        for i, (name, question) in enumerate(zip(names, questions, strict=True)):
            try:
                asked = self._asked(question.context, question.among, question.key)
                if isinstance(asked, Asked) and name in found:
                    self._check_same(found[name], asked.context, question.among, asked.key)
                elif isinstance(asked, Asked):
                    self._check_row(asked.x)
                found.setdefault(name, asked)
            except ServiceError as error:
                error.where = f"$.decisions[{i}]{error.where[1:]}"
                raise
        return found

    def _decided_all(
        self, names: Sequence[str | int], found: dict[str | int, Asked | Entry]
    ) -> dict[str | int, Entry]:
        """A decision for each question, in the journal as a whole."""
        entries: dict[str | int, Entry] = {}
        new: list[Entry] = []
        for name, asked in found.items():
            if isinstance(asked, Entry):
                entries[name] = asked
                continue
            try:
                new.append(self._decided(asked))
            except BaseException as error:
                if new:
                    self._start_again()  # the learner has counted rounds that do not exist
                if isinstance(error, ServiceError):
                    error.where = f"$.decisions[{names.index(name)}]{error.where[1:]}"
                raise
            entries[name] = new[-1]
        self._append(new)
        return entries

    def _check_open(self, count: int) -> None:
        self.journal.check_room(count)
        most = self._limits.open_decisions
        if self.tally.open + count > most and self.journal.stamp(0)[1] >= self._counted_at + 1:
            self._will_wait()
            self.journal.flush()
            self._count_expired()
        if self.tally.open + count > most:
            raise Busy(
                f"{self.tally.open:,} decisions of {self.name} wait for feedback, and at most "
                f"{most:,} may: give feedback, cancel some, or let them "
                "expire earlier (expires_after)",
                retry_after=60,
            )

    def _asked(self, context: Any, among: Sequence[Label] | None, key: str | None) -> Asked | Entry:
        """A question that was checked, or the earlier decision with the same key."""
        stored = stored_context(context)
        self._will_work(len(stored))
        if key is not None:
            check_text(key, "$.key")
            known = self._entry_of_key(key)
            if known is not None:
                self._check_same(known, stored, among, key)
                return known
        possible = self._possible(among)
        context = _decode(stored)  # as it will be when it is learned again
        self._check_size(context)
        with refusing("$.context"):
            return Asked(self._builder.prepared(context), stored, possible, key)

    def _check_row(self, x: Any) -> None:
        """Refuse a row that the learner would refuse, while it has counted nothing."""
        with refusing("$.context"):
            self._learner.reader.check(x, self._learner)

    def _decided(self, asked: Asked) -> Entry:
        """A decision that is not yet in the journal."""
        x, key, deferred = asked.x, asked.key, self.model.deferred
        if self._is_large and self._learner.round >= self._learner._fades_at:
            self._will_wait()
        decide = self._learner.propose if deferred else self._learner.decide
        with refusing("$.context"):
            decision = decide(x, among=asked.possible)
        self._count_sharing(decision)
        shares = None  # the said label was certain
        if decision.propensity != 1.0:
            all_shares = self._shares(x, decision)
            shares = all_shares if decision.among is None else all_shares[list(decision.among)]
        position, time = self.journal.stamp()
        row = DecisionRow(
            position=position,
            token=self.journal.new_token(),
            model=self.number,
            configuration=self._version.number,
            time=time,
            key=key,
            context=asked.context,
            among=asked.among,
            label=decision.label,
            propensity=float(decision.propensity),
            explored=int(decision.explored),
            round=decision.round,
            propensities=None if shares is None else _encode(shares.tolist()).decode(),
            decision=decision.to_bytes(),
            deferred=int(deferred),
            active=None if deferred else position,
            state=ACTIVE,
            confidence=None if decision.confidence is None else float(decision.confidence),
        )
        entry = Entry(row, None, decision, None)
        self._remember(entry)
        if key is not None:
            self._keys[key] = position
        return entry

    def _count_sharing(self, decision: Decision) -> None:
        learner, tally = self._learner, self.tally
        if learner._is_full and OTHERS in decision.indices:
            if not tally.sharing:
                log.warning(
                    "model %s: its vocabulary of %d names is full; new names share a feature",
                    self.name, learner.vocabulary,
                )  # fmt: skip
            tally.sharing += 1

    def _shares(self, x: Any, decision: Decision) -> np.ndarray:
        """How likely each label was to be said, of the decision that was just made."""
        learner = self._learner
        if self.model.deferred and not learner._can_propose(x):
            learner = learner.copy()  # which has faded; nothing was counted
            learner.redo(x, decision)
        return learner._propensities_then(decision)

    def _append(self, entries: Sequence[Entry]) -> None:
        if not entries:
            return
        commit = self.journal.append(*(entry.row for entry in entries)).done
        tally = self.tally
        for entry in entries:
            row, entry.commit = entry.row, commit
            tally.explored += row.explored
            self._tally_round(row, 1)
            tally.smallest_propensity = min(tally.smallest_propensity, row.propensity)
        tally.decisions += len(entries)
        tally.open += len(entries)
        self._reached = entries[-1].row.position

    def _check_same(
        self, known: Asked | Entry, context: bytes, among: Sequence[Label] | None, key: str | None
    ) -> None:
        before = known.row if isinstance(known, Entry) else known
        possible = None if before.among is None else set(_decode(before.among))
        if before.context != context or (among is not None and set(among) != possible):
            raise KeyReused(
                f"the key {key!r} belongs to a decision on another context", where="$.key"
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
