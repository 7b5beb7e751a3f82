"""Records of decisions, and the model card: all that an engine reads without changing anything."""

from __future__ import annotations

from typing import Any

import msgspec

from onebit.service.engine.counts import Counts
from onebit.service.engine.given import kept
from onebit.service.engine.recent import RecentDecisions, id_of
from onebit.service.engine.standing import state_of
from onebit.service.engine.state import EngineState
from onebit.service.journal import ERASED, DecisionRow, labels_at
from onebit.service.messages import Card, Heard, Label, Record, SourceCard, Told
from onebit.service.tally import most_frequent, share

SOURCES = 1_000  # of feedback that the model card lists: those with the most answers
_decode = msgspec.json.Decoder().decode


class Records:
    """Reads, and changes nothing. Tells nothing while nobody knows what is on disk.

    Lock: `look` and `card` take the lock of the engine for what they read together; `told` is
    called with it.
    """

    def __init__(self, state: EngineState, decisions: RecentDecisions, counts: Counts) -> None:
        self._state, self._decisions, self._counts = state, decisions, counts

    def look(self, id: str) -> Record:
        """All that is kept of a decision."""
        state = self._state
        with state.lock:
            state.journal.check_failure()  # after it, memory is ahead of the disk
            recent = self._decisions.find(id)
            row, told = recent.row, self.told(recent.row)
            recent.commit.result()
        heard = [] if recent.answer is None else [Heard(**kept(recent.answer))]
        earlier = state.journal.earlier_answers(state.number, row.position)
        revoked = [Heard(**old, revoked=True) for old in earlier]
        said = {name: getattr(told, name) for name in Told.__struct_fields__}
        if row.logged is not None:
            said |= {"propensity": row.propensity or None, **_decode(row.logged)}
            said["said_at"] = said.pop("time", None)
        return Record(
            **said,
            model=state.name,
            time=row.time,
            state=state_of(state, recent),
            context=None if row.context is None else _decode(row.context),
            feedback=[*revoked, *heard],
        )

    def card(self) -> Card:
        """What the model is, and how well it does."""
        state, counts = self._state, self._counts
        with state.lock:
            state.journal.check_failure()  # after it, memory is ahead of the disk
            if not counts.totals.is_known:
                state.journal.flush()
                counts.count_totals()
            learner, model, body = state.learner, state.model, state.version.body
            tally, totals = counts.tally, counts.totals
            used, vocabulary = self.names
            return Card(
                name=state.name,
                title=model.title,
                learner=body["learner"],
                settings=body["settings"],
                seed=body["seed"],
                speaker=state.roles.speaker or None,
                labels=learner.labels,
                retired=[label for label in learner.labels if label in state.retired],
                version=state.version.number,
                rebuilding=state.thread is not None,
                problem=state.problem,
                names=used,
                vocabulary=vocabulary,
                names_are_shared=learner.table.is_full,
                rounds=totals.rounds,
                answers=tally.answers,
                open=tally.open,
                error_share=share(tally.mistakes, tally.answers),
                logged=tally.logged_rounds,
                logged_error_share=share(tally.logged_mistakes, tally.logged_answers),
                explored_share=share(totals.explored, totals.rounds),
                smallest_propensity=totals.smallest,
                one_right=learner.one_right,
                sources=self._sources(),
                revisions=model.revisions,
                deferred=model.deferred,
                wrong_after=model.wrong_after,
                expires_after=model.expires_after,
            )

    def _sources(self) -> dict[str, SourceCard]:
        """The sources with the most answers, and those with a weight."""
        answers, weights = self._counts.totals.sources, self._state.sources
        return {
            name: SourceCard(
                weight=weights.get(name, 1.0),
                quarantined=weights.get(name, 1.0) == 0,
                answers=answers.get(name, 0),
            )
            for name in {**most_frequent(answers, SOURCES), **weights}
        }

    @property
    def names(self) -> tuple[int, int | None]:
        """How many names have weights of their own, and the most that may have."""
        learner = self._state.learner
        return learner.table.own_rows, learner.vocabulary

    def told(self, row: DecisionRow) -> Told:
        """A decision as those are told who have asked for it."""
        labels: Any = self._labels_then(row) if row.among is None else _decode(row.among)
        if row.state == ERASED:
            shares = {}
        elif row.propensities is None and row.propensity != 1:
            shares = {}  # another system has said it, and they are not known
        elif row.propensities is None:
            shares = dict.fromkeys(labels, 0.0)
            shares[row.label] = 1.0
        else:  # labels that were added later come last, and have none
            shares = dict(zip(labels, _decode(row.propensities), strict=False))
        return Told(
            id=id_of(row),
            label=row.label,
            confidence=row.confidence,
            propensity=row.propensity,
            propensities=shares,
            explored=bool(row.explored),
            round=row.round,
        )

    def _labels_then(self, row: DecisionRow) -> list[Label]:
        """The labels in the order of their indices when a decision was made."""
        state = self._state
        if row.configuration == state.version.number and row.position > state.labelled_at:
            return state.learner.labels
        return labels_at(
            state.journal.first_labels(),
            state.journal.label_events(),
            row.configuration,
            row.position,
        )
