"""Recording: what another system said and heard goes into the journal, and the learner learns it.

The other system decides, and the learner learns from its answers. What was said becomes a decision
in the journal that is not the learner's own, so feedback may also come later, by its id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from onebit.service.engine.answering import Answering
from onebit.service.engine.building import is_weighable
from onebit.service.engine.checks import check_text, refusing, stored_context
from onebit.service.engine.counts import Counts
from onebit.service.engine.deciding import Deciding
from onebit.service.engine.given import Given, check_given, verdict_of
from onebit.service.engine.pending import UNWRITTEN, Pending
from onebit.service.engine.recent import RecentDecision, RecentDecisions
from onebit.service.engine.revising import Revising, Taken
from onebit.service.engine.state import EngineState
from onebit.service.faults import KeyReused, Refused, ServiceError
from onebit.service.journal import ACTIVE, AnswerRow, DecisionRow
from onebit.service.messages import Label, Logged, Standing

SUM = 1e-3  # by which probabilities that were written with few digits may miss 1
_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode


class Shares(NamedTuple):
    """With which probabilities another system said labels, as far as they are known."""

    said: float  # 0: not known
    all: str | None  # JSON: of every possible label


class Recording:
    """Records what other systems said.

    Lock: `record` and `record_many` take the lock of the engine for as long as it takes to learn
    and to hand the rows to the journal. Nobody waits for the disk with it, unless an answer
    replaces an earlier one, or decisions that have expired have to be counted.
    """

    def __init__(
        self,
        state: EngineState,
        decisions: RecentDecisions,
        counts: Counts,
        deciding: Deciding,
        answering: Answering,
        revising: Revising,
    ) -> None:
        self._state, self._decisions, self._counts = state, decisions, counts
        self._deciding, self._answering, self._revising = deciding, answering, revising

    def record(self, logged: Logged) -> Pending[Standing]:
        """A label that another system said, with the answer if there is one."""
        with self._state.lock:
            self._deciding.check_open(1)
            return self._revising.finish(self._recorded(logged))

    def record_many(self, items: Sequence[Logged]) -> Pending[list[Standing | ServiceError]]:
        """Each is recorded or refused by itself."""
        with self._state.lock:
            self._state.will_work_on(items)
            self._deciding.check_open(len(items))
            return self._revising.take_each(items, self._recorded)

    def _recorded(self, logged: Logged) -> Taken:
        stored = stored_context(logged.context)
        self._state.will_work(len(stored))
        for name in ("key", "speaker"):
            check_text(getattr(logged, name), f"$.{name}")
        right, label = verdict_of(logged)
        given = None
        if right is not None or label is not None:
            given = Given(right, label, logged.source)
            check_given(self._state, given)
        known = None if logged.key is None else self._decisions.find_key(logged.key)
        if known is None:
            return self._new(logged, stored, given)
        if known.row.logged is None or (known.row.context, known.row.label) != (
            stored, logged.said,
        ):  # fmt: skip
            raise KeyReused(f"the key {logged.key!r} belongs to another decision", where="$.key")
        return Taken(known, known.commit) if given is None else self._answering.heard(known, given)

    def _new(self, logged: Logged, stored: bytes, given: Given | None) -> Taken:
        """What was not recorded before."""
        state = self._state
        possible = self._possible(logged)
        shares = self._shares(logged, possible)
        learner = state.learner
        if not is_weighable(learner, shares.said):
            raise Refused(
                f"{type(learner).__name__} weights answers by 1 / propensity: log the probability "
                "with which the label was said, or take a learner that needs none, such as OneBit",
                where="$.propensity",
            )
        context = _decode(stored)
        self._deciding.check_size(context)
        with refusing("$.context"):
            self._deciding.check_row(state.builder.prepared(context))
        position, time = state.journal.stamp(1 if given is None else 2)
        about: dict[str, Any] = {"speaker": logged.speaker}
        if logged.time is not None:
            about["time"] = logged.time
        row = DecisionRow(
            position=position,
            token=state.journal.new_token(),
            model=state.number,
            configuration=state.version.number,
            time=time,
            key=logged.key,
            context=stored,
            among=None if logged.among is None else _encode(possible).decode(),
            label=logged.said,
            propensity=shares.said,
            explored=0,
            round=learner.round,
            propensities=shares.all,
            decision=None,
            deferred=0,
            active=position,
            state=ACTIVE,
            confidence=None,
            logged=_encode(about).decode(),
        )
        recent = RecentDecision(row, None, None, UNWRITTEN)
        answer = None if given is None else given.answer_to(row, position + 1, time)
        if answer is not None:
            with refusing("$"):
                state.builder.apply(learner, answer, row, None)
        self._append(recent, answer)
        return Taken(recent, recent.commit)

    def _append(self, recent: RecentDecision, answer: AnswerRow | None) -> None:
        """Hand what was said, and the answer, to the journal, and count them."""
        counts, rows = self._counts, [recent.row] if answer is None else [recent.row, answer]
        recent.commit = self._state.journal.append(*rows).done
        recent.answer = answer
        self._decisions.add(recent)
        counts.tally.logged += 1
        counts.add_round(recent.row, 1)
        if answer is None:
            counts.add_open(recent.row, 1)
        else:
            counts.add_answer(recent, 1)
        self._state.reached = rows[-1].position

    def _possible(self, logged: Logged) -> list[Label]:
        """The labels that could be said, in the learner's order. Retired ones may be among them."""
        labels, name = self._state.learner.labels, self._state.name
        for where, label in (("$.said", logged.said), *_named("$.among", logged.among)):
            if label not in labels:
                raise Refused(f"{label!r} is not a label of {name}", where=where)
        if logged.among is None:
            return labels
        if logged.said not in logged.among:
            raise Refused(
                f"{logged.said!r} was said, and is not among the possible labels", where="$.among"
            )
        chosen = set(logged.among)
        return [label for label in labels if label in chosen]

    def _shares(self, logged: Logged, possible: Sequence[Label]) -> Shares:
        """The probabilities, as the journal has them."""
        told, propensity = logged.propensities, logged.propensity
        if told is None:
            return Shares(propensity or 0.0, None)
        names = {str(label): label for label in possible}
        for label in told:
            if label not in names:
                raise Refused(
                    f"{label!r} has a probability, and is not a possible label",
                    where="$.propensities",
                )
        total = sum(told.values())
        if abs(total - 1) > SUM:
            raise Refused(
                f"the probabilities of the labels sum to {total:.6g}, not to 1: log those by which "
                "the label was chosen",
                where="$.propensities",
            )
        shares = [told.get(name, 0.0) / total for name in names]
        said = shares[possible.index(logged.said)]
        if said == 0:
            raise Refused(
                f"{logged.said!r} was said, and has the probability 0", where="$.propensities"
            )
        if propensity is not None and abs(propensity - said) > SUM:
            raise Refused(
                f"propensity is {propensity:.6g}, and {said:.6g} among propensities: mend one",
                where="$.propensity",
            )
        return Shares(said, None if said == 1 else _encode(shares).decode())


def _named(where: str, labels: Sequence[Any] | None) -> list[tuple[str, Any]]:
    """Labels, each with its place in the request."""
    return [(f"{where}[{i}]", label) for i, label in enumerate(labels or ())]
