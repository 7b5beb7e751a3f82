"""What HTTP asks of the service and of its engines.

Every request that changes something is submitted: the engine computes the result at once, and the
result may be sent when the commit that holds it is on disk. All requests of one commit share one
future. A request that cannot be taken raises a fault when it is submitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Generic, Protocol, TypeVar

from onebit.learner import Learner
from onebit.service.configuration import Configuration
from onebit.service.faults import ServiceError
from onebit.service.journal import Journal
from onebit.service.messages import (
    Answer,
    Card,
    Label,
    LabelChange,
    Question,
    Record,
    Retraining,
    SourceChange,
    Standing,
    Told,
)
from onebit.service.tally import JournalTally, ModelTally

T_co = TypeVar("T_co", covariant=True)


class Pending(Protocol, Generic[T_co]):
    """A result that is not on disk yet."""

    @property
    def future(self) -> Future[Any]: ...
    @property
    def value(self) -> T_co: ...


class Engine(Protocol):
    """The owner of one model."""

    @property
    def tally(self) -> ModelTally: ...

    def submit_decide(
        self, context: Any, among: Sequence[Label] | None = None, key: str | None = None
    ) -> Pending[Told]: ...
    def submit_decide_many(self, questions: Sequence[Question]) -> Pending[list[Told]]: ...
    def submit_feedback(
        self,
        id: str,
        right: bool | None = None,
        label: Label | None = None,
        source: str | None = None,
        key: str | None = None,
    ) -> Pending[Standing]: ...
    def submit_feedback_many(
        self, answers: Sequence[Answer]
    ) -> Pending[list[Standing | ServiceError]]: ...
    def submit_revise(
        self, id: str, right: bool | None = None, label: Label | None = None
    ) -> Pending[Standing]: ...
    def submit_revoke(self, id: str) -> Pending[Standing]: ...
    def submit_cancel(self, id: str) -> Pending[Standing]: ...
    def submit_shown(self, id: str) -> Pending[Standing]: ...
    def submit_erase(self, id: str) -> Pending[Standing]: ...
    def submit_retrain(self, change: Retraining) -> Pending[Card]: ...
    def submit_labels(self, change: LabelChange) -> Pending[Card]: ...
    def submit_source(self, source: str, change: SourceChange) -> Pending[Card]: ...
    def submit_remove_source(self, source: str) -> Pending[Card]: ...
    def copy_of_learner(self) -> Learner: ...
    def look(self, id: str) -> Record: ...
    def card(self) -> Card: ...


class Service(Protocol):
    """All models over one journal."""

    @property
    def configuration(self) -> Configuration: ...
    @property
    def models(self) -> Mapping[str, Engine]: ...
    @property
    def tally(self) -> JournalTally: ...
    @property
    def journal(self) -> Journal: ...

    def model_of(self, id: str) -> str:
        """The name of the model that made a decision; an UnknownDecision if there is none."""
        ...

    def unready(self) -> str:
        """Why requests cannot be taken now; empty if they can."""
        ...
