"""The folder of a lesson: its journal, its snapshots, and the name that it has in browsers."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from onebit.core.sources import write_whole
from onebit.service.configuration import Configuration, Limits, Model, ServiceOptions
from onebit.service.faults import Unavailable
from onebit.service.journal import Journal, labels_at
from onebit.service.journal.relabelling import Relabelling
from onebit.service.messages import Label
from onebit.service.service import Service

MODEL = "teach"  # the name of the model in the journal
LIMITS = Limits(open_decisions=2**40)
_LESSON = "lesson"  # a file of the folder, with the name that the lesson has in browsers


class Folder:
    """Where the progress is kept.

    Lock: none of its own; the teacher's protects it. `is_replaced` is read without it.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.journal = path, path / "teach.journal"
        kept = self._kept_lesson() if self.journal.exists() else None
        self.lesson = kept or secrets.token_hex(8)  # browsers keep answers under this name
        self._file: tuple[int, int] | None = None  # the journal, as the system knows it

    def labels_before(self) -> tuple[list[Label], Relabelling]:
        """The labels that the model had last, and what became of earlier ones."""
        if not self.journal.exists():
            return [], Relabelling({})
        with closing(Journal(self.journal)) as journal:
            made, events = journal.first_labels(), journal.label_events()
            number = journal.models().get(MODEL, 0)
            newest, _, body = journal.newest_version(number)
            return labels_at(made, events, newest, journal.position + 1), Relabelling(body)

    def open(self, labels: Sequence[Label], title: str) -> Service:
        """Start the service of the lesson; its name is written down if it is new."""
        options = ServiceOptions(journal=str(self.journal), limits=LIMITS, snapshots=20)
        model = Model(
            name=MODEL,
            labels=list(labels),
            deferred=True,
            revisions=True,
            expires_after=None,
            title=title,
        )
        configuration = Configuration(path="", service=options, models={MODEL: model})
        service = Service(configuration, snapshot_every=400)
        self.remember_file()
        if self._kept_lesson() != self.lesson:
            write_whole(self.path / _LESSON, self.lesson.encode())
        return service

    def remember_file(self) -> None:
        """The file that has the name of the journal now is the journal."""
        self._file = self._found_file()

    @property
    def is_replaced(self) -> bool:
        """Whether the journal was removed, or replaced by another file."""
        return self._found_file() != self._file

    def fault(self) -> Unavailable:
        """What those are told who want to save anything in a journal that was replaced."""
        return Unavailable(
            f"{self.journal} was removed or replaced, so nothing can be saved. "
            "Stop `onebit teach` and start it again"
        )

    def _found_file(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self.journal)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _kept_lesson(self) -> str | None:
        """The name that the lesson has in browsers, if it has one already."""
        try:
            name = (self.path / _LESSON).read_text("ascii").strip()
        except (OSError, ValueError):
            return None
        return name if name.isalnum() and len(name) <= 64 else None
