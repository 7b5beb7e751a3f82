"""Records of decisions, and the model card: all that an engine reads without changing anything."""

from __future__ import annotations

from typing import Any

import msgspec

from onebit.service.engine.building import says
from onebit.service.engine.entries import id_of
from onebit.service.engine.state import EngineState
from onebit.service.journal import ERASED, AnswerRow, DecisionRow, labels_at
from onebit.service.messages import Card, Heard, Label, Record, SourceCard, Told
from onebit.service.tally import most_frequent

SOURCES = 1_000  # of feedback that the model card lists: those with the most answers
_decode = msgspec.json.Decoder().decode


def kept(answer: AnswerRow) -> dict[str, Any]:
    right, label = says(answer)
    return {"time": answer.time, "right": right, "label": label, "source": answer.source}


def _heard(answer: AnswerRow) -> Heard:
    return Heard(**kept(answer))


class Records(EngineState):
    """Reads, and changes nothing. Tells nothing while nobody knows what is on disk."""

    def look(self, id: str) -> Record:
        """All that is kept of a decision."""
        with self._lock:
            self.journal.check_failure()  # after it, memory is ahead of the disk
            entry = self._entry(id)
            row, told = entry.row, self._told(entry.row)
            entry.commit.result()
        heard = [] if entry.answer is None else [_heard(entry.answer)]
        earlier = self.journal.earlier_answers(self.number, row.position)
        revoked = [Heard(**old, revoked=True) for old in earlier]
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
        with self._lock:
            self.journal.check_failure()  # after it, memory is ahead of the disk
            if not self._totals.is_known:
                self.journal.flush()
                self._count_totals()
            learner, model, body = self._learner, self.model, self._version.body
            tally, totals = self.tally, self._totals
            sources = {
                name: SourceCard(
                    weight=self._sources.get(name, 1.0),
                    quarantined=self._sources.get(name, 1.0) == 0,
                    answers=totals.sources.get(name, 0),
                )
                for name in {**most_frequent(totals.sources, SOURCES), **self._sources}
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
                problem=self.problem,
                names=self.names[0],
                vocabulary=self.names[1],
                names_are_shared=learner._is_full,
                rounds=totals.rounds,
                answers=tally.answers,
                open=tally.open,
                error_share=tally.mistakes / tally.answers if tally.answers else None,
                explored_share=totals.explored / totals.rounds if totals.rounds else None,
                smallest_propensity=totals.smallest,
                one_right=learner.one_right,
                sources=sources,
                revisions=model.revisions,
                deferred=model.deferred,
                wrong_after=model.wrong_after,
                expires_after=model.expires_after,
            )

    def _told(self, row: DecisionRow) -> Told:
        labels = self._labels_then(row) if row.among is None else _decode(row.among)
        if row.state == ERASED:
            shares = {}
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
        """The labels in the order in which they had places when a decision was made."""
        if row.configuration == self._version.number and row.position > self._labelled_at:
            return self._learner.labels
        return labels_at(
            self.journal.first_labels(),
            self.journal.label_events(),
            row.configuration,
            row.position,
        )
