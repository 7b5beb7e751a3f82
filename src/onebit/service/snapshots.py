"""Snapshots: learners that name their position in the journal, so that a start reads only the rest.

A snapshot is a model file (`onebit.load` reads it) whose name says which events it has learned:

    news@000000012345-3-0-9f3ac1d2.onebit
    model, position, number of its configuration, last change of the past, token

The last change of the past is the position of the newest change that it knows of. If a later one
affects a position that the snapshot has learned, the snapshot is of no use. The token is that of
the model's last decision up to its position: a journal restored from a backup has another one.

The snapshot of a shadow also has its comparison with who speaks (`BESIDE`).

A change of the past makes all snapshots after it useless, so that the learner is built from the
newest one before it. Therefore older ones are kept too, the fewer the older: at most twice as many
events as came after the change have to be learned again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onebit.learner import files
from onebit.learner.learner import Learner
from onebit.service.journal import Journal
from onebit.service.journal.files import make_folder

log = logging.getLogger("onebit.service")
BESIDE = "comparison"  # what a shadow keeps beside its learner, and begins the names of its arrays
_NAME = re.compile(r"(?P<model>.+)@(\d{12})-(\d+)-(\d+)-([0-9a-f]*)\.onebit")


class Snapshot(NamedTuple):
    path: Path
    position: int
    version: int
    edit: int
    token: str


def path_of(
    journal: Journal, folder: Path, model: str, number: int, version: int, position: int, edit: int
) -> Path:
    """Where to write a learner that has learned all up to a position.

    All that it has learned must be on disk already. edit: the last change of the past that it
    knows of.
    """
    token = journal.last_token(number, position)
    make_folder(folder)
    return folder / f"{model}@{position:012d}-{version}-{edit}-{token}.onebit"


def drop_old(journal: Journal, folder: Path, model: str, number: int, keep: int) -> None:
    """Remove the snapshots of a model that are of no use, or are not worth their space.

    keep: as in `worth_keeping`, of each version that is in charge or is being built.
    """
    start, everything = journal.compacted_upto(number)[0], found(folder, model)
    kept: set[Snapshot] = set()
    for version in journal.versions_in_use(number):
        useful = [
            snapshot
            for snapshot in everything
            if snapshot.version == version
            and snapshot.position >= start
            and is_current(journal, number, snapshot)
        ]
        kept |= set(worth_keeping(useful, start, keep, journal.tally.bytes))
    for snapshot in everything:
        if snapshot not in kept:
            snapshot.path.unlink(missing_ok=True)


def worth_keeping(
    snapshots: Sequence[Snapshot], start: int, keep: int, room: int
) -> list[Snapshot]:
    """The newest `keep` of some snapshots, which are given from the newest, and few of the others.

    An older one is left out if the next older one lies less than twice as far back as the one that
    is kept before it. start: where a learner begins without a snapshot. room: bytes that all but
    the newest may take; to keep to it, still more of them are left out.
    """
    newest, factor = list(snapshots[:keep]), 2
    while True:
        deep = _thinned(snapshots, start, keep, factor)
        if sum(map(_size, deep)) <= room:
            return newest + deep
        factor *= 2


def _thinned(snapshots: Sequence[Snapshot], start: int, keep: int, factor: int) -> list[Snapshot]:
    deep: list[Snapshot] = []
    if len(snapshots) > keep:
        end = snapshots[0].position
        depth = max(end - snapshots[keep - 1].position, 1)
        older = [snapshot.position for snapshot in snapshots[keep + 1 :]] + [start]
        for snapshot, following in zip(snapshots[keep:], older, strict=True):
            if end - following > factor * depth:
                deep.append(snapshot)
                depth = end - snapshot.position
    return deep


def _size(snapshot: Snapshot) -> int:
    with contextlib.suppress(FileNotFoundError):
        return snapshot.path.stat().st_size
    return 0


def drop_erased(journal: Journal, folder: Path, model: str, number: int) -> None:
    """Remove snapshots whose learner may know a context that was erased since.

    Erasing removes them, too; a process that ended just then has left them. Of what was compacted,
    nobody knows what was erased.
    """
    base = journal.compacted_upto(number)[0]
    for snapshot in found(folder, model):
        if snapshot.position < base or journal.has_erased(number, snapshot.edit, snapshot.position):
            snapshot.path.unlink(missing_ok=True)


def drop_version(folder: Path, model: str, version: int) -> None:
    """Remove the snapshots of a version of a model."""
    for snapshot in found(folder, model):
        if snapshot.version == version:
            snapshot.path.unlink(missing_ok=True)


def drop_newer(folder: Path, position: int) -> None:
    """Remove snapshots of what a journal that was just opened does not have.

    They are left over from before the journal was restored from a backup, or was cut by a power
    loss under `durability = "normal"`. Once it has grown again, they would seem to belong to it.
    """
    for snapshot in found(folder):
        if snapshot.position > position:
            log.warning("snapshot %s is newer than the journal: removed", snapshot.path.name)
            snapshot.path.unlink(missing_ok=True)
    for part in folder.glob(".*@*.onebit.*"):  # left by a process that ended while it wrote
        part.unlink(missing_ok=True)


def found(folder: Path, model: str | None = None) -> list[Snapshot]:
    """The snapshots of a model, or of all, the newest first."""
    snapshots = []
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(folder):
            match = _NAME.fullmatch(name)
            if match and model in (None, match["model"]):
                _, position, version, edit, token = match.groups()
                snapshots.append(
                    Snapshot(folder / name, int(position), int(version), int(edit), token)
                )
    return sorted(snapshots, key=lambda snapshot: snapshot.position, reverse=True)


def newest_good(
    journal: Journal, folder: Path, model: str, number: int, version: int, before: int | None = None
) -> tuple[Learner, int] | None:
    """The newest snapshot that can be used: its learner and its position.

    before: only snapshots from before this position.
    """
    for snapshot in found(folder, model):
        if before is not None and snapshot.position >= before:
            continue
        if snapshot.version != version or not is_current(journal, number, snapshot):
            continue
        saved = read(snapshot)
        if saved is not None:
            return saved.learner, snapshot.position
    return None


class Saved(NamedTuple):
    """What is in a snapshot: a learner, and what was kept beside it (None: nothing)."""

    learner: Learner
    beside: dict[str, Any] | None
    arrays: dict[str, np.ndarray]  # of what was kept beside it


def read(snapshot: Snapshot) -> Saved | None:
    """What is in a snapshot; None: it cannot be used."""
    try:
        head, arrays, beside, further = apart(*files.read(snapshot.path))
        return Saved(files.taken_over(head, arrays, is_foreign=True), beside, further)
    except (ValueError, OSError) as error:
        log.warning("snapshot %s is not used: %s", snapshot.path.name, error)
    return None


def apart(
    head: dict[str, Any], arrays: dict[str, np.ndarray]
) -> tuple[dict[str, Any], dict[str, np.ndarray], dict[str, Any] | None, dict[str, np.ndarray]]:
    """The head and the arrays of the learner, and those of what was kept beside it."""
    beside = head.get(BESIDE)
    own = {key: value for key, value in head.items() if key != BESIDE}
    further = {name: array for name, array in arrays.items() if name.startswith(f"{BESIDE}.")}
    return own, {k: a for k, a in arrays.items() if k not in further}, beside, further


def is_current(journal: Journal, number: int, snapshot: Snapshot) -> bool:
    """Whether a snapshot is of this journal, and no change of the past came after it."""
    if max(snapshot.position, snapshot.edit) > journal.position:
        return False  # a reader of the journal may see less than the service has written
    is_stale = journal.has_changed(number, snapshot.edit, snapshot.position)
    return not is_stale and journal.last_token(number, snapshot.position) == snapshot.token
