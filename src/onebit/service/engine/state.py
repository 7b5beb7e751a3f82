"""What the parts of an engine share: a learner, its place in the journal, and their lock."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

from onebit.learner.learner import Learner
from onebit.service.configuration import Limits, Model
from onebit.service.engine.building import Builder, Version
from onebit.service.journal import DecisionRow, Journal, statements
from onebit.service.journal.queries import ANOTHER, Roles
from onebit.service.messages import Label

# What takes longer is done in a thread: some milliseconds of an event loop, whatever the context.
LONG = 2**21  # bytes of a context, times labels
READING = 256  # labels: reading a byte takes as long as learning it for so many
FEW = 4  # contexts
LARGE = 2**24  # bytes of a table
P = ParamSpec("P")
T = TypeVar("T")


class MustWait(Exception):
    """What was submitted cannot be done at once."""


class Past(NamedTuple):
    """What was known of changes of the past when a learner was built, or was started with."""

    edit: int  # the position of the last one
    edits: int  # how many the engine had seen


class Silence:
    """How far silence was looked for among the decisions that count.

    upto: the position. marks: times, and how far the journal was.
    """

    def __init__(self) -> None:
        self.upto = 0
        self.marks: deque[tuple[float, int]] = deque()

    def look_again_at(self, position: int) -> None:
        """A decision waits for feedback again."""
        self.upto = min(self.upto, position - 1)


class EngineState:
    """The learner of a model, its place in the journal, and their lock.

    Lock: `lock` is the only lock of an engine. Every part holds it while it changes one of these
    values, or reads several that belong together. The lock of a service is taken before it, those
    of the journal and of its owner inside it. Nobody waits for another thread with it, but for the
    one that writes the journal. What never changes, and single values, are read without it.

    The learner, what the journal has of it and `reached` agree whenever the lock is free, or the
    journal has failed: then `Rebuilding.load` makes all of them again.
    """

    builder: Builder  # of the version in charge
    learner: Learner
    reached: int  # the position up to which the learner has learned
    is_stale: bool  # whether the past has changed since the learner was built
    labelled_at: int  # the position of the newest label
    roles: Roles  # who speaks, and the shadows

    def __init__(self, journal: Journal, model: Model, folder: Path) -> None:
        self.journal, self.model, self.name, self.folder = journal, model, model.name, folder
        self.number = _number_of(journal, model.name)
        self.limits = Limits()
        self.lock = threading.RLock()
        self.closing = threading.Event()
        self.thread: threading.Thread | None = None  # which builds a learner behind the scenes
        self.edits: list[int] = []  # the first positions that changes of the past have affected
        self.sources: dict[str, float] = {}  # the weights of sources of feedback
        self.promotions: list[int] = []  # the positions from which on somebody else speaks
        self.retired: set[Label] = set()
        self.silence = Silence()
        self.replayed_from = 0  # the position of the snapshot that start-up has used
        self.problem = ""  # why the learner that was asked for last is not in charge
        self._may_wait = True  # for the disk, or for a learner to be built

    @property
    def version(self) -> Version:
        return self.builder.version

    def read_roles(self) -> None:
        """Who speaks, as the journal has it."""
        begins = ANOTHER if self.model.apprentice else self.name
        self.roles = self.journal.roles(self.number) or Roles(begins)
        self.promotions[:] = self.journal.promotions(self.number)  # builders hold the list

    def has_counted(self, row: DecisionRow) -> bool:
        """Whether a learner, of the speaker or of a shadow, has counted a decision as its own."""
        versions = {self.version.number, *(x.version for x in self.roles.shadows.values())}
        return row.active is not None and row.logged is None and row.configuration in versions

    def past(self) -> Past:
        return Past(self.journal.last_change_of_the_past(self.number), len(self.edits))

    def has_changed(self, past: Past, position: int) -> bool:
        """Whether a change has come that affects what is learned up to a position."""
        return any(affects <= position for affects in self.edits[past.edits :])

    def expired_before(self) -> float:
        """The time before which decisions have expired."""
        after = self.model.expires_after
        return 0.0 if after is None else self.journal.stamp(0)[1] - after

    # What would keep an event loop waiting.

    def attempt(self, submit: Callable[P, T], *args: P.args, **options: P.kwargs) -> T | None:
        """Submit a request if that takes no waiting; else None, and nothing is done."""
        if not self.lock.acquire(blocking=False):
            return None
        self._may_wait = False
        try:
            return submit(*args, **options)
        except MustWait:
            return None
        finally:
            self._may_wait = True
            self.lock.release()

    def will_wait(self) -> None:
        """Called, with the lock, before anything is done that has to wait."""
        if not self._may_wait:
            raise MustWait

    def will_work(self, size: int) -> None:
        """Called before a context of so many bytes is read and learned."""
        if size * (READING + self.learner.table.size) > LONG:
            self.will_wait()

    def will_work_on(self, items: Sequence[Any]) -> None:
        """Called before several contexts are read or learned."""
        if len(items) > FEW:
            self.will_wait()

    @property
    def is_large(self) -> bool:
        """Whether a change of all weights takes long."""
        return self.learner.table.state.table.nbytes > LARGE


def _number_of(journal: Journal, name: str) -> int:
    """The number of a model in the journal; a new model gets the next one."""
    if name not in journal.models():
        journal.append(statements=[statements.add_model(name)]).done.result()
    return journal.models()[name]
