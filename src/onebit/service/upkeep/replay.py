"""Replay: the learner of a journal, built again without the service."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import NamedTuple

from onebit.learner import files
from onebit.learner.learner import Learner
from onebit.service import snapshots
from onebit.service.engine.building import Builder, code_of, recorded_code
from onebit.service.engine.comparing import Comparison
from onebit.service.engine.shadow import LabelsThen, Shadow
from onebit.service.engine.state import Past
from onebit.service.faults import Damaged
from onebit.service.journal import ReadOnlyJournal
from onebit.service.journal.queries import Role, Roles
from onebit.service.snapshots import Snapshot
from onebit.service.upkeep.journals import snapshots_of


class ShadowReplay(NamedTuple):
    """A shadow that was built anew up to a snapshot; None: there is no current one."""

    name: str
    shadow: Shadow
    compared: Snapshot | None
    is_same: bool | None


def is_of(saved: bytes, learner: Learner) -> bool:
    """Whether the bytes of a snapshot are those of a learner, whichever release wrote them."""
    try:
        kept, arrays, _, _ = snapshots.apart(*files.unpack(saved))
    except ValueError:  # it is damaged
        return False
    head, built = files.dump(learner)
    release = {"version": kept.get("version")}
    return files.pack(kept, arrays) == files.pack(head | release, built)


class Replay:
    """A learner that is built from the journal alone, as that is at one moment.

    On the way it is compared with the newest snapshot that is current. is_same: whether both have
    the same bytes but for the release in the head; None if there is no such snapshot. position: of
    the last event it has learned.
    other_code: what has learned the events in the service, if it is not the code that runs here.
    shadows: the learners beside it, each compared with its newest snapshot.
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
        promotions = journal.promotions(number)
        builder = Builder(journal, name, number, folder, version, sources, promotions)
        self.code, recorded = code_of(version.body), recorded_code(journal, number, version)
        if not self.code.same_bits(recorded):
            self.other_code = str(recorded or "an earlier version of onebit")
        self.shadows = [
            _replayed(journal, name, number, shadow, role, sources)
            for shadow, role in (journal.roles(number) or Roles("")).shadows.items()
            if role.version != version.number  # the same learner, which only does not speak
        ]
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


def _replayed(
    journal: ReadOnlyJournal,
    model: str,
    number: int,
    name: str,
    role: Role,
    sources: Mapping[str, float],
) -> ShadowReplay:
    """A shadow, built from the journal alone up to its newest snapshot."""
    folder, version = snapshots_of(journal.path), journal.version(role.version)
    if version is None:
        raise Damaged(f"{journal.path} does not say which learner the shadow {name} of {model} has")
    promotions = journal.promotions(number)
    builder = Builder(journal, model, number, folder, version, sources, promotions)
    shadow = Shadow(name, builder, journal, number)
    learner, reached = shadow.builder.beginning()
    for snapshot in snapshots.found(folder, model):
        if snapshot.version != role.version or not snapshots.is_current(journal, number, snapshot):
            continue
        saved = snapshot.path.read_bytes()
        try:
            _, _, beside, arrays = snapshots.apart(*files.unpack(saved))
        except ValueError:  # it is damaged
            return ShadowReplay(name, shadow, snapshot, False)
        if beside is None:
            continue
        kept = Comparison.restored(beside, arrays).begun(len(learner.labels))
        shadow.take_on(learner, reached, kept, Past(0, 0))
        shadow.learn(snapshot.position, LabelsThen(journal, number))
        head, built = shadow.dumped()
        release = {"version": files.unpack(saved)[0].get("version")}
        return ShadowReplay(name, shadow, snapshot, saved == files.pack(head | release, built))
    return ShadowReplay(name, shadow, None, None)
