"""Replay: the learner of a journal, built again without the service."""

from __future__ import annotations

import contextlib

from onebit.learner import files
from onebit.learner.files import dump
from onebit.learner.learner import Learner
from onebit.service import snapshots
from onebit.service.engine.building import (
    Builder,
    code_of,
    recorded_code,
)
from onebit.service.faults import Damaged
from onebit.service.journal import (
    ReadOnlyJournal,
)
from onebit.service.snapshots import Snapshot
from onebit.service.upkeep.journals import snapshots_of


def is_of(saved: bytes, learner: Learner) -> bool:
    """Whether the bytes of a snapshot are those of a learner, whichever release wrote them."""
    try:
        release = files.unpack(saved)[0].get("version")
    except ValueError:  # it is damaged
        return False
    head, arrays = dump(learner)
    return saved == files.pack(head | {"version": release}, arrays)


class Replay:
    """A learner that is built from the journal alone, as that is at one moment.

    On the way it is compared with the newest snapshot that is current. is_same: whether both have
    the same bytes but for the release in the head; None if there is no such snapshot. position: of
    the last event it has learned.
    other_code: what has learned the events in the service, if it is not the code that runs here.
    """

    is_same: bool | None = None
    compared: Snapshot | None = None  # that snapshot
    other_code: str | None = None

    def __init__(self, journal: ReadOnlyJournal, name: str) -> None:
        self.name = name
        with journal.one_view():
            self._replay(journal)

    def _replay(self, journal: ReadOnlyJournal) -> None:
        name, number = self.name, journal.models()[self.name]
        version = journal.version_in_charge(number)
        if version is None:
            raise Damaged(f"{journal.path} does not say which learner {name} has")
        folder, sources = snapshots_of(journal.path), journal.sources(number)
        builder = Builder(journal, name, number, folder, version, sources)
        self.code, recorded = code_of(version.body), recorded_code(journal, number, version)
        if not self.code.same_bits(recorded):
            self.other_code = str(recorded or "an earlier version of onebit")
        try:
            self._build(journal, number, builder)
        except Damaged as fault:
            if self.other_code is None:
                raise
            raise Damaged(
                f"{fault}. Its events were learned by {self.other_code}, and this is {self.code}: "
                "replay them with that version"
            ) from None

    def _build(self, journal: ReadOnlyJournal, number: int, builder: Builder) -> None:
        folder, learner, reached = snapshots_of(journal.path), *builder.first()
        for snapshot in snapshots.found(folder, self.name):
            is_own = snapshot.version == builder.version.number
            fits = is_own and snapshot.position >= reached
            if fits and snapshots.is_current(journal, number, snapshot):
                learner, reached = builder.replayed(learner, reached, snapshot.position)
                with contextlib.suppress(FileNotFoundError):  # a newer one came meanwhile
                    self.is_same = is_of(snapshot.path.read_bytes(), learner)
                    self.compared = snapshot
                break
        self.learner, self.position = builder.replayed(learner, reached)
