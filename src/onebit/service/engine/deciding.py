"""Deciding: a context comes, a label is said, both go into the journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from onebit.decision import Decision
from onebit.service.engine.building import REFUSED
from onebit.service.engine.checks import check_text, stored_context
from onebit.service.engine.entries import Entry
from onebit.service.engine.pending import Pending, all_done, waiting
from onebit.service.engine.rebuilding import Rebuilding
from onebit.service.faults import Busy, KeyReused, Refused, ServiceError, TooLarge
from onebit.service.journal import ACTIVE, DecisionRow
from onebit.service.messages import Label, Question, Told

_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode


class Deciding(Rebuilding):
    """Makes decisions."""

    def submit_decide(
        self, context: Any, among: Sequence[Label] | None = None, key: str | None = None
    ) -> Pending[Told]:
        """Say a label for a context."""
        with self._lock:
            self._check_open(1)
            entry = self._made(context, among, key)
            if entry.commit is None:
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
            self._check_open(len(questions))
            entries: list[Entry] = []
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
            return Pending(all_done(commits), [self._told(entry.row) for entry in entries])

    decide_many = waiting(submit_decide_many)

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

    def _made(self, context: Any, among: Sequence[Label] | None, key: str | None) -> Entry:
        """A decision that is not yet in the journal, or the earlier one with the same key."""
        stored = stored_context(context)
        if key is not None:
            check_text(key, "$.key")
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
        entry = Entry(row, None, decision, None)
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

    def _append(self, entries: Sequence[Entry]) -> None:
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

    def _check_same(self, entry: Entry, context: bytes, among: Sequence[Label] | None) -> None:
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
