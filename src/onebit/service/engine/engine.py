"""The engine of one model: what may be asked of it, and the parts that do it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
from msgspec.structs import replace

from onebit.learner.learner import Learner
from onebit.service.configuration import Limits, Model
from onebit.service.engine.answering import Answering
from onebit.service.engine.changing import Changing
from onebit.service.engine.checks import refusing
from onebit.service.engine.counts import Counts
from onebit.service.engine.deciding import Deciding
from onebit.service.engine.given import Given
from onebit.service.engine.pending import DONE, Pending, waiting
from onebit.service.engine.progress import Progress
from onebit.service.engine.rebuilding import Rebuilding
from onebit.service.engine.recent import RecentDecisions
from onebit.service.engine.recording import Recording
from onebit.service.engine.records import Records
from onebit.service.engine.revising import Revising
from onebit.service.engine.saving import Saving
from onebit.service.engine.schedule import Schedule
from onebit.service.engine.shadows import Shadows
from onebit.service.engine.state import EngineState
from onebit.service.engine.versions import Versions
from onebit.service.faults import Refused, ServiceError
from onebit.service.journal import Journal
from onebit.service.journal.relabelling import Relabelling
from onebit.service.messages import (
    Answer,
    Card,
    Label,
    LabelChange,
    Logged,
    Promotion,
    Question,
    Record,
    Retraining,
    SourceChange,
    Standing,
    Told,
)

P = ParamSpec("P")
T = TypeVar("T")


class Engine:
    """The owner of one model.

    journal: where everything is kept. folder: for snapshots. keep: how many of the newest.
    snapshot_every: events between two of them. retention: the age at which rounds are compacted.
    building: tells by name how far a learner is that is being built.
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
        building: dict[str, Progress] | None = None,
    ) -> None:
        state = self._state = EngineState(journal, model, folder)
        self.journal, self.name, self.number = journal, state.name, state.number
        decisions = self._decisions = RecentDecisions(journal, state.number)
        counts = self._counts = Counts(state)
        self.tally = counts.tally
        versions, saving = Versions(state), Saving(state, keep, snapshot_every)
        self._saving, self._records = saving, Records(state, decisions, counts)
        self._rebuilding = Rebuilding(
            state, decisions, counts, versions, saving, {} if building is None else building
        )
        self._deciding = Deciding(state, decisions, counts, self._records, self._rebuilding)
        self._revising = Revising(state, decisions, counts, saving, self._rebuilding)
        self._answering = Answering(state, decisions, counts, self._rebuilding, self._revising)
        self._recording = Recording(
            state, decisions, counts, self._deciding, self._answering, self._revising
        )
        self._changing = Changing(state, versions, self._rebuilding)
        self._shadows = Shadows(state, decisions, versions, saving, self._rebuilding)
        self._schedule = Schedule(state, decisions, counts, saving, self._answering)
        self.limit(limits or Limits(), keep, retention)
        saving.drop_erased()
        self.load()
        self._rebuilding.begin()

    # Decisions.

    def submit_decide(
        self, context: Any, among: Sequence[Label] | None = None, key: str | None = None
    ) -> Pending[Told]:
        """Say a label for a context."""
        return self._deciding.decide(context, among, key)

    decide = waiting(submit_decide)

    def submit_decide_many(self, questions: Sequence[Question]) -> Pending[list[Told]]:
        """Say labels for all contexts, or for none of them."""
        return self._deciding.decide_many(questions)

    decide_many = waiting(submit_decide_many)

    def submit_shown(self, id: str) -> Pending[Standing]:
        """A deferred decision was shown to somebody, and counts from now on."""
        return self._answering.show(id)

    shown = waiting(submit_shown)

    def submit_cancel(self, id: str) -> Pending[Standing]:
        """Let a decision count for nothing, as if it had never been made.

        If it has feedback, and the model allows revisions, the feedback is taken back with it.
        """
        return self._revising.cancel(id)

    cancel = waiting(submit_cancel)

    def submit_cancel_many(self, ids: Sequence[str]) -> Pending[list[Standing | ServiceError]]:
        """Each is cancelled or refused by itself. The learner is built again at most once."""
        return self._revising.cancel_many(ids)

    cancel_many = waiting(submit_cancel_many)

    def submit_erase(self, id: str) -> Pending[Standing]:
        """Delete what is stored about the context of a decision, and build the learner without."""
        return self._revising.erase(id)

    erase = waiting(submit_erase)

    # Feedback.

    def submit_feedback(
        self,
        id: str,
        right: bool | None = None,
        label: Label | None = None,
        source: str | None = None,
        key: str | None = None,
    ) -> Pending[Standing]:
        """Say whether a decision was right, or which label would have been."""
        return self._answering.hear(id, Given(right, label, source, key))

    feedback = waiting(submit_feedback)

    def submit_feedback_many(
        self, answers: Sequence[Answer]
    ) -> Pending[list[Standing | ServiceError]]:
        """Each is taken or refused by itself. The learner is built again at most once."""
        return self._answering.hear_many(answers)

    feedback_many = waiting(submit_feedback_many)

    def submit_revise(
        self, id: str, right: bool | None = None, label: Label | None = None
    ) -> Pending[Standing]:
        """Other feedback than before, learned as if it had always been so."""
        return self._revising.revise(id, right, label)

    revise = waiting(submit_revise)

    def submit_revise_many(
        self, answers: Sequence[Answer]
    ) -> Pending[list[Standing | ServiceError]]:
        """Each is taken or refused by itself. The learner is built again at most once."""
        return self._revising.revise_many(answers)

    revise_many = waiting(submit_revise_many)

    def submit_revoke(self, id: str) -> Pending[Standing]:
        """Take feedback back: the decision waits for feedback again."""
        return self._revising.revoke(id)

    revoke = waiting(submit_revoke)

    def submit_source(self, source: str, change: SourceChange) -> Pending[Card]:
        """Let the feedback of a source count less or not at all, from its first answer on."""
        self._revising.weigh_source(source, change)
        return Pending(DONE, self.card())

    def submit_remove_source(self, source: str) -> Pending[Card]:
        """Take all feedback of a source back."""
        self._revising.remove_source(source)
        return Pending(DONE, self.card())

    # Other systems.

    def submit_logged(self, logged: Logged) -> Pending[Standing]:
        """Record what another system said, with its feedback if there is any, and learn from it."""
        return self._recording.record(logged)

    logged = waiting(submit_logged)

    def submit_logged_many(self, items: Sequence[Logged]) -> Pending[list[Standing | ServiceError]]:
        """Each is recorded or refused by itself. The learner is built again at most once."""
        return self._recording.record_many(items)

    logged_many = waiting(submit_logged_many)

    # The model.

    def submit_labels(self, change: LabelChange) -> Pending[Card]:
        """Labels that may be said from now on, and labels that may not."""
        commit = self._changing.change_labels(change)
        return Pending(commit, self.card())

    def submit_relabel(self, names: Mapping[Label, Label | None]) -> Pending[Card]:
        """Rename labels, merge them into others, or remove them (None).

        A learner of the labels that are left is built from the journal, with the answers read by
        their new names. The present one answers until it is there.
        """
        self._changing.relabel(names)
        return Pending(DONE, self.card())

    def submit_retrain(self, change: Retraining) -> Pending[Card]:
        """Another learner from the same journal; the present one answers until it is there."""
        self._changing.retrain(change)
        return Pending(DONE, self.card())

    def submit_promote(self, change: Promotion) -> Pending[Card]:
        """Let a shadow speak from now on, or who has spoken before it."""
        if change.undo:
            self._shadows.undo()
        elif change.shadow:
            self._shadows.promote(change.shadow, "hand")
        else:
            raise Refused('say either "shadow": "NAME" or "undo": true')
        return Pending(DONE, self.card())

    def follow(self, model: Model) -> None:
        """Take over another configuration of the same model, as far as it has changed.

        A learner that cannot be built is tried again at the next start; `problem` says why it is
        not in charge.
        """
        self._changing.follow(model)
        self._shadows.follow(model)

    def limit(self, limits: Limits, keep: int, retention: float | None = None) -> None:
        """Limits from now on; how many snapshots stay, and how long rounds do."""
        self._state.limits, self._saving.keep = limits, keep
        self._schedule.retention = retention

    # Reading.

    def look(self, id: str) -> Record:
        """All that is kept of a decision."""
        return self._records.look(id)

    def card(self) -> Card:
        """What the model is, how well it does, and how its shadows do."""
        return replace(self._records.card(), shadows=self._shadows.card())

    def has_lately(self, position: int, token: str) -> bool:
        """Whether a decision is in memory. Takes no lock and reads no disk."""
        return self._decisions.has(position, token)

    def forecasts(self, contexts: Sequence[Any]) -> np.ndarray:
        """The scores [context, label] as the learner is now. Nothing is written down."""
        state = self._state
        with state.lock, refusing("$.context"):
            return state.learner.scores([state.builder.prepared(context) for context in contexts])

    @property
    def learner(self) -> Learner:
        """A copy of the learner as it is now."""
        with self._state.lock:
            return self._state.learner.copy()

    def replayed(self) -> Learner:
        """The learner built from the journal alone, without snapshots: for `onebit replay`."""
        state = self._state
        with state.lock:
            self.journal.flush()
            return state.builder.replayed(*state.builder.first())[0]

    @property
    def names(self) -> tuple[int, int | None]:
        """How many names have weights of their own, and the most that may have."""
        return self._records.names

    @property
    def relabelling(self) -> Relabelling:
        """What earlier labels are called now."""
        return self._changing.relabelling

    @property
    def problem(self) -> str:
        """Why the learner that was asked for last is not in charge."""
        return self._state.problem

    @property
    def replayed_from(self) -> int:
        """The position of the snapshot that start-up has used."""
        return self._state.replayed_from

    def __str__(self) -> str:
        learner = self._state.learner
        return (
            f"{self.name}: {type(learner).__name__}, labels: {len(learner.labels)}, "
            f"rounds: {learner.round}, replayed from position {self.replayed_from}"
        )

    # Running.

    def attempt(self, submit: Callable[P, T], *args: P.args, **options: P.kwargs) -> T | None:
        """Submit a request of this engine if that takes no waiting; else None, and nothing is done.

        For an event loop. It would have to wait while another thread has the engine, and where the
        learner has to be built again: then it submits from a thread.
        """
        return self._state.attempt(submit, *args, **options)

    def load(self) -> None:
        """Build the learner from the newest good snapshot and what the journal has after it."""
        self._rebuilding.load()

    def warm_up(self) -> None:
        """Compile what requests will need."""
        with self._state.lock:
            builder, learner = self._state.builder, self._state.learner.copy()
        builder.warm_up(learner)
        self._shadows.warm_up()

    def settle(self) -> None:
        """Wait until no learner is being built behind the scenes."""
        self._rebuilding.settle()

    @property
    def shadows(self) -> Shadows:
        """The learners beside the one that speaks."""
        return self._shadows

    def tick(self) -> None:
        """Do what is due; called about once a second."""
        self._schedule.tick()

    def snapshot(self) -> Path | None:
        """Write the learner down as it is now; None if that makes no sense at the moment."""
        return self._saving.take()

    def compact(self, before: float) -> int:
        """Keep what was learned before a time as a learner, and delete the rounds.

        Returns by how many positions the base has moved on; 0 if there was nothing to compact.
        """
        return self._schedule.compact(before)

    def paused(self) -> AbstractContextManager[Any]:
        """While it is entered, nobody is half way through a request."""
        return self._state.lock

    def abandon(self) -> None:
        """End what is built behind the scenes: it is for nobody."""
        self._state.closing.set()

    def close(self) -> None:
        """Write a last snapshot. The journal has everything; this makes the next start quick."""
        self.abandon()
        self.settle()
        if self.journal.is_written and self._saving.is_behind:
            self._saving.take()
        self._shadows.close()
