"""What the parts of a teacher share: the items, the labels, the lessons, the engine, and a lock."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from onebit.service.engine import Engine, Pending, parsed_id
from onebit.service.faults import Refused, Unavailable, UnknownDecision
from onebit.service.journal.relabelling import Relabelling
from onebit.service.messages import Label
from onebit.service.service import Service
from onebit.service.teach.folder import MODEL, Folder
from onebit.service.teach.lessons import Lessons, parsed_key
from onebit.service.teach.sources.items import ItemError, Items

T = TypeVar("T")


class TeachState:
    """A lesson: its items, its labels, what people have answered, and the engine that learns it.

    Lock: `lock` is the only lock of a teacher. Every part is called with it, unless its docstring
    says otherwise. The engine's is taken inside it. A request works `with state.working()`: it has
    the lock while it computes, and waits for the disk without it. Only then are others told.
    """

    labels: list[Label]
    names: Relabelling  # what earlier labels are called now

    def __init__(self, items: Items, folder: Path) -> None:
        self.items, self.folder = items, Folder(folder)
        self.lock = threading.RLock()
        self.lessons = Lessons()
        self.service: Service | None = None
        self.warm = threading.Event()  # a guess takes no longer than usual
        self.version = 0  # counts changes
        self.has_changed = False  # by the request that has the lock
        self.on_change: Callable[[], None] = lambda: None
        self.on_reading: Callable[[], None] = lambda: None  # the lessons were read anew
        self._commits: list[Future[None]] = []  # of the request that has the lock
        self._failures = 0  # of the journal, up to which the lessons were read

    @property
    def engine(self) -> Engine:
        assert self.service is not None
        return self.service.models[MODEL]

    def tell(self) -> None:
        """Let all pages know that something has changed."""
        self.version += 1
        self.on_change()

    # Requests.

    @contextmanager
    def working(self) -> Iterator[None]:
        """The lock for a request; afterwards, what it has promised is on disk."""
        if self.service is None:
            raise Refused("name two labels first")
        self.lock.acquire()
        try:
            self._catch_up()
        except BaseException:
            self.lock.release()
            raise
        try:
            yield
        finally:
            self._finish()

    def promise(self, pending: Pending[T]) -> T:
        """The result of what was submitted for a request; it is told when it is on disk."""
        self._commits.append(pending.future)
        return pending.value

    def _finish(self) -> None:
        """Let others have the lock, wait for the disk, and tell all pages."""
        commits, self._commits = self._commits, []
        has_changed, self.has_changed = self.has_changed, False
        self.lock.release()
        try:
            for commit in commits:
                commit.result()
            if commits:
                self.check_file()
        except Unavailable:
            with self.lock, suppress(Unavailable):  # what is shown is on disk
                self.read()
            raise
        if has_changed:
            self.tell()

    # The journal.

    def open(self, title: str) -> None:
        """Start the service, and read the lessons."""
        self.service = self.folder.open(self.labels, title)
        self.service.on_recovery = self._on_recovery
        self._failures = self.service.tally.failures
        self.engine.settle()  # a new name may have been on its way
        self.read_labels()
        self.read()

    def read_labels(self) -> None:
        """The labels are those of the learner."""
        self.labels = list(self.engine.learner.labels)

    def read(self) -> None:
        """Read the lessons from the journal."""
        engine = self.engine
        self.names = engine.relabelling
        self.lessons = Lessons.read(engine.journal, engine.number, self.names)
        self.on_reading()

    def _catch_up(self) -> None:
        """After a failure of the journal, read the lessons anew: some may not be on disk.

        Unavailable if the journal still fails, or if its file is gone.
        """
        journal = self.engine.journal
        failures = journal.tally.failures
        if failures != self._failures:
            journal.check_room(0)
            self.read()
            self._failures = failures
            self.folder.remember_file()  # it may be a copy
        self.check_file()

    def check_file(self) -> None:
        """Unavailable if the journal has lost its name: SQLite goes on writing to such a file."""
        if self.is_gone:
            raise self.folder.fault()

    @property
    def is_gone(self) -> bool:
        """Whether the journal was removed or replaced by another file."""
        if self.service is None or self.service.tally.failures != self._failures:
            return False
        return self.folder.is_replaced

    def _on_recovery(self) -> None:
        """Tell the pages that the journal can be written again."""
        with suppress(Unavailable), self.working():
            self.has_changed = True

    def close(self) -> None:
        """Called without the lock."""
        if self.service is not None:
            if self.is_gone:  # a snapshot would make the folder again
                self.service.give_up("the journal is gone")
            self.service.close()
        self.items.close()

    def row_of(self, id: str) -> tuple[Any, int | None]:
        """A guess as the journal has it, and the number of its item."""
        position, token = parsed_id(id)
        found = self.engine.journal.decision(position)
        if found is None or found[0].token != token:
            raise UnknownDecision(f"there is no guess {id!r}")
        return found[0], self.items.number(parsed_key(found[0].key)[1])

    # Items and labels.

    def contexts(self, numbers: Iterable[int]) -> Iterator[Any]:
        """The contexts of items, without those that cannot be used."""
        for number in numbers:
            try:
                yield self.items.context(number)
            except ItemError:
                continue

    def is_unasked(self, number: int) -> bool:
        """Whether nobody was asked about an item that can be used."""
        return self.items.usable(number) and self.lessons.is_new(self.items.key(number))

    def called_now(self, label: Label | None) -> Label | None:
        """A label that a page has named, which may not have heard of its new name yet."""
        return label if label is None or label in self.labels else self.names.now(label) or label

    def best(self, scores: np.ndarray, possible: Sequence[Label]) -> Label:
        """The possible label with the highest score."""
        if possible is self.labels:
            return possible[int(scores.argmax())]
        indices = {label: i for i, label in enumerate(self.labels)}
        return possible[int(scores[[indices[label] for label in possible]].argmax())]

    # Pictures.

    def picture_of(self, number: int) -> str | None:
        """The address of an item's picture. No other picture ever has it, so a browser may keep
        the picture."""
        if self.items.kind != "image":
            return None
        mark = self.picture_mark(number)
        return f"items/{number}/picture?lesson={self.folder.lesson}&item={mark}"

    def picture_mark(self, number: int) -> str:
        """A digest of what the picture of an item shows. Called without the lock, too."""
        shown = (self.folder.lesson, self.items.key(number), self.items.version(number))
        return hashlib.blake2b(repr(shown).encode(), digest_size=8).hexdigest()
