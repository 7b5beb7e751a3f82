"""Deciding: a context comes, a label is said, both go into the journal."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from onebit.core.slots import OTHERS
from onebit.learner.decision import Decision
from onebit.learner.logged import can_propose
from onebit.learner.looking import propensities_then
from onebit.service.engine.checks import check_text, refusing, stored_context
from onebit.service.engine.counts import Counts
from onebit.service.engine.pending import UNWRITTEN, Pending, all_done
from onebit.service.engine.rebuilding import Rebuilding
from onebit.service.engine.recent import RecentDecision, RecentDecisions
from onebit.service.engine.records import Records
from onebit.service.engine.state import EngineState
from onebit.service.faults import Busy, Contradiction, KeyReused, Refused, ServiceError, TooLarge
from onebit.service.journal import ACTIVE, DecisionRow
from onebit.service.journal.queries import ANOTHER
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


class Deciding:
    """Makes decisions.

    Lock: `decide` and `decide_many` take the lock of the engine for as long as it takes to make
    the decisions and to hand them to the journal. Nobody waits for the disk with it, unless
    decisions that have expired have to be counted.
    """

    def __init__(
        self,
        state: EngineState,
        decisions: RecentDecisions,
        counts: Counts,
        records: Records,
        rebuilding: Rebuilding,
    ) -> None:
        self._state, self._decisions, self._counts = state, decisions, counts
        self._records, self._rebuilding = records, rebuilding

    def decide(self, context: Any, among: Sequence[Label] | None, key: str | None) -> Pending[Told]:
        """Say a label for a context."""
        with self._state.lock:
            self._check_speaks()
            self.check_open(1)
            made = self._asked(context, among, key)
            if isinstance(made, Asked):
                made = self._decided(made)
                self._append([made])
            return Pending(made.commit, self._records.told(made.row))

    def decide_many(self, questions: Sequence[Question]) -> Pending[list[Told]]:
        """Say labels for all contexts, or for none of them."""
        state = self._state
        if len(questions) > state.limits.batch:
            raise TooLarge(
                f"{len(questions):,} decisions, and a batch has at most {state.limits.batch:,}"
            )
        with state.lock:
            state.will_work_on(questions)
            self._check_speaks()
            self.check_open(len(questions))
            # Questions with the same key are one question; those without a key have a number.
            names = [i if q.key is None else q.key for i, q in enumerate(questions)]
            made = self._decided_all(names, self._asked_all(names, questions))
            commits = [recent.commit for recent in made.values()]
            return Pending(all_done(commits), [self._records.told(made[x].row) for x in names])

    def _asked_all(
        self, names: Sequence[str | int], questions: Sequence[Question]
    ) -> dict[str | int, Asked | RecentDecision]:
        """All questions, by name, checked before the learner counts the first round."""
        found: dict[str | int, Asked | RecentDecision] = {}
        for i, (name, question) in enumerate(zip(names, questions, strict=True)):
            try:
                asked = self._asked(question.context, question.among, question.key)
                if isinstance(asked, Asked) and name in found:
                    self._check_same(found[name], asked.context, question.among, asked.key)
                elif isinstance(asked, Asked):
                    self.check_row(asked.x)
                found.setdefault(name, asked)
            except ServiceError as error:
                error.where = f"$.decisions[{i}]{error.where[1:]}"
                raise
        return found

    def _decided_all(
        self, names: Sequence[str | int], found: dict[str | int, Asked | RecentDecision]
    ) -> dict[str | int, RecentDecision]:
        """A decision for each question, in the journal as a whole."""
        made: dict[str | int, RecentDecision] = {}
        new: list[RecentDecision] = []
        for name, asked in found.items():
            if isinstance(asked, RecentDecision):
                made[name] = asked
                continue
            try:
                new.append(self._decided(asked))
            except BaseException as error:
                if new:  # the learner has counted rounds that do not exist
                    self._rebuilding.start_again()
                if isinstance(error, ServiceError):
                    error.where = f"$.decisions[{names.index(name)}]{error.where[1:]}"
                raise
            made[name] = new[-1]
        self._append(new)
        return made

    def _check_speaks(self) -> None:
        """Refuse to speak while another system does."""
        state = self._state
        if state.roles.speaker == ANOTHER:
            raise Contradiction(
                f"another system speaks for {state.name} (apprentice = true): log what it says, or "
                f"promote {state.name!r}"
            )

    def check_open(self, count: int) -> None:
        """Busy if too many decisions would wait for feedback."""
        state, tally = self._state, self._counts.tally
        state.journal.check_room(count)
        most = state.limits.open_decisions
        if tally.open + count <= most:
            return
        if state.journal.stamp(0)[1] >= self._counts.counted_at + 1:
            state.will_wait()
            state.journal.flush()
            self._counts.count_expired()
        if tally.open + count > most:
            raise Busy(
                f"{tally.open:,} decisions of {state.name} wait for feedback, and at most "
                f"{most:,} may: give feedback, cancel some, or let them "
                "expire earlier (expires_after)",
                retry_after=60,
            )

    def _asked(
        self, context: Any, among: Sequence[Label] | None, key: str | None
    ) -> Asked | RecentDecision:
        """A question that was checked, or the earlier decision with the same key."""
        stored = stored_context(context)
        self._state.will_work(len(stored))
        if key is not None:
            check_text(key, "$.key")
            known = self._decisions.find_key(key)
            if known is not None:
                self._check_same(known, stored, among, key)
                return known
        possible = self._possible(among)
        context = _decode(stored)  # as it will be when it is learned again
        self.check_size(context)
        with refusing("$.context"):
            return Asked(self._state.builder.prepared(context), stored, possible, key)

    def check_row(self, x: Any) -> None:
        """Refuse a row that the learner would refuse, while it has counted nothing."""
        learner = self._state.learner
        with refusing("$.context"):
            learner.reader.check(x, learner)

    def _decided(self, asked: Asked) -> RecentDecision:
        """A decision that is not yet in the journal."""
        state, x, deferred = self._state, asked.x, self._state.model.deferred
        if state.is_large and state.learner.round >= state.learner.fading.at:
            state.will_wait()
        decide = state.learner.propose if deferred else state.learner.decide
        with refusing("$.context"):
            decision = decide(x, among=asked.possible)
        self._count_sharing(decision)
        shares = None  # the said label was certain
        if decision.propensity != 1.0:
            all_shares = self._shares(x, decision)
            shares = all_shares if decision.among is None else all_shares[list(decision.among)]
        position, time = state.journal.stamp()
        row = DecisionRow(
            position=position,
            token=state.journal.new_token(),
            model=state.number,
            configuration=state.version.number,
            time=time,
            key=asked.key,
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
        made = RecentDecision(row, None, decision, UNWRITTEN)
        self._decisions.add(made)
        return made

    def _count_sharing(self, decision: Decision) -> None:
        """Count a context whose new names share a feature; the first one is told."""
        learner, tally = self._state.learner, self._counts.tally
        if learner.table.is_full and OTHERS in decision.indices:
            if not tally.sharing:
                log.warning(
                    "model %s: its vocabulary of %d names is full; new names share a feature",
                    self._state.name, learner.vocabulary,
                )  # fmt: skip
            tally.sharing += 1

    def _shares(self, x: Any, decision: Decision) -> np.ndarray:
        """How likely each label was to be said, of the decision that was just made."""
        learner, is_counted = self._state.learner, not self._state.model.deferred
        if not is_counted and not can_propose(learner, x):
            learner, is_counted = learner.copy(), True  # which has faded
            learner.redo(x, decision)
        return propensities_then(learner, decision, is_counted)

    def _append(self, made: Sequence[RecentDecision]) -> None:
        """Hand decisions to the journal, and count them."""
        if not made:
            return
        state, tally = self._state, self._counts.tally
        commit = state.journal.append(*(recent.row for recent in made)).done
        for recent in made:
            row, recent.commit = recent.row, commit
            tally.explored += row.explored
            self._counts.add_round(row, 1)
            tally.smallest_propensity = min(tally.smallest_propensity, row.propensity)
        tally.decisions += len(made)
        tally.open += len(made)
        state.reached = made[-1].row.position

    def _check_same(
        self,
        known: Asked | RecentDecision,
        context: bytes,
        among: Sequence[Label] | None,
        key: str | None,
    ) -> None:
        before = known.row if isinstance(known, RecentDecision) else known
        if isinstance(before, DecisionRow) and before.logged is not None:
            raise KeyReused(f"the key {key!r} belongs to what another system said", where="$.key")
        possible = None if before.among is None else set(_decode(before.among))
        if before.context != context or (among is not None and set(among) != possible):
            raise KeyReused(
                f"the key {key!r} belongs to a decision on another context", where="$.key"
            )

    def _possible(self, among: Sequence[Label] | None) -> list[Label] | None:
        """The labels that may be said, in the learner's order; None: all."""
        retired = self._state.retired
        if among is None and not retired:
            return None
        labels = self._state.learner.labels
        if among is None:
            return [label for label in labels if label not in retired]
        if isinstance(among, str):
            raise Refused("among is a list of labels", where="$.among")
        known, chosen = set(labels), set(among)
        for i, label in enumerate(among):
            if label not in known:
                raise Refused(
                    f"{label!r} is not a label of {self._state.name}", where=f"$.among[{i}]"
                )
            if label in retired:
                raise Refused(f"{label!r} is retired", where=f"$.among[{i}]")
        if not chosen:
            raise Refused("among is empty: at least one label must be possible", where="$.among")
        return [label for label in labels if label in chosen]

    def check_size(self, context: Any) -> None:
        most = self._state.limits.features
        if isinstance(context, Mapping | list) and len(context) > most:
            raise TooLarge(
                f"{len(context):,} features, and at most {most:,} may be sent",
                where="$.context",
            )
