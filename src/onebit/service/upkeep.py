"""Upkeep of a journal beside a running service: replay, inspection, backup.

Everything here only reads the journal.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
from pathlib import Path
from typing import Any, NamedTuple

from onebit import persist
from onebit.service import snapshots
from onebit.service.building import Builder, current_version, sources_of
from onebit.service.faults import Damaged, UnknownModel
from onebit.service.journal import (
    ReadOnlyJournal,
    _named_damage,
    _reader,
    _sync,
    _sync_folder,
)
from onebit.service.snapshots import Snapshot


def snapshots_of(path: str | os.PathLike[str]) -> Path:
    """The folder of the snapshots of a journal."""
    return Path(f"{os.fspath(path)}.snapshots")


def models_of(journal: ReadOnlyJournal) -> dict[str, int]:
    """The models of a journal: their names and numbers."""
    with journal.reading() as connection:
        rows = connection.execute("SELECT name, number FROM models ORDER BY number")
        return dict(rows.fetchall())


def chosen_model(journal: ReadOnlyJournal, name: str | None) -> str:
    """The named model, or the only one."""
    names = list(models_of(journal))
    if name is None and len(names) == 1:
        return names[0]
    listed = ", ".join(names) or "none"
    if name is None:
        raise ValueError(f"say which model of {journal.path}: --model NAME; there are: {listed}")
    if name not in names:
        raise UnknownModel(f"{journal.path} has no model {name!r}; there are: {listed}")
    return name


# Replay.


class Replay:
    """A learner that is built from the journal alone.

    On the way it is compared with the newest snapshot that is current. is_same: whether both have
    the same bytes; None if there is no such snapshot. position: of the last event it has learned.
    """

    is_same: bool | None = None
    compared: Snapshot | None = None  # that snapshot

    def __init__(self, journal: ReadOnlyJournal, name: str) -> None:
        self.name, number = name, models_of(journal)[name]
        version = current_version(journal, number)
        if version is None:
            raise Damaged(f"{journal.path} does not say which learner {name} has")
        folder, sources = snapshots_of(journal.path), sources_of(journal, number)
        builder = Builder(journal, name, number, folder, version, sources)
        learner, reached = builder.first()
        for snapshot in snapshots.found(folder, name):
            fits = snapshot.version == version.number and snapshot.position >= reached
            if fits and snapshots.is_current(journal, number, snapshot):
                learner, reached = builder.replayed(learner, reached, snapshot.position)
                with contextlib.suppress(FileNotFoundError):  # a newer one came meanwhile
                    self.is_same = snapshot.path.read_bytes() == persist.pack(*learner._dump())
                    self.compared = snapshot
                break
        self.learner, self.position = builder.replayed(learner, reached)


# Inspection.


class ModelFacts(NamedTuple):
    name: str
    decisions: int
    answers: int
    open: int  # without an answer, not cancelled; whether they have expired, the journal cannot say
    cancelled: int
    erased: int
    changes: int
    base: int  # rounds up to this position were compacted
    first: float | None  # seconds since 1970
    last: float | None
    snapshots: list[tuple[Snapshot, bool]]  # and whether they are current, the newest first


class Facts(NamedTuple):
    """What is in a journal."""

    path: Path
    bytes: int
    log_bytes: int  # of the write-ahead log
    schema: int
    position: int
    problems: list[str]  # that SQLite's integrity check has found
    models: list[ModelFacts]


def inspect(path: str | os.PathLike[str]) -> Facts:
    """Facts about a journal; a fault says why it cannot be read."""
    journal = ReadOnlyJournal(path)
    try:
        with journal.reading() as connection:
            problems = [row[0] for row in connection.execute("PRAGMA integrity_check(20)")]
            schema = connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
        models = [_facts(journal, name, number) for name, number in models_of(journal).items()]
        return Facts(
            path=journal.path,
            bytes=journal.path.stat().st_size,
            log_bytes=_size(Path(f"{journal.path}-wal")),
            schema=schema[0],
            position=journal.position,
            problems=[] if problems == ["ok"] else problems,
            models=models,
        )
    finally:
        journal.close()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _facts(journal: ReadOnlyJournal, name: str, number: int) -> ModelFacts:
    with journal.reading() as connection:

        def ask(query: str) -> tuple[Any, ...]:
            return connection.execute(query, (number,)).fetchone()

        decisions, unused, cancelled, erased, first, last = ask(
            "SELECT count(*), coalesce(sum(state = 0), 0), coalesce(sum(state = 1), 0), "
            "coalesce(sum(state = 2), 0), min(time), max(time) FROM decisions WHERE model = ?"
        )
        answers, latest = ask("SELECT count(*), max(time) FROM answers WHERE model = ?")
        (changes,) = ask("SELECT count(*) FROM changes WHERE model = ?")
        (base,) = ask("SELECT coalesce(max(position), 0) FROM bases WHERE model = ?")
        (version,) = ask("SELECT max(value) FROM meta WHERE name = 'version of ' || ?")
    found = snapshots.found(snapshots_of(journal.path), name)
    return ModelFacts(
        name=name,
        decisions=decisions,
        answers=answers,
        open=unused - answers,
        cancelled=cancelled,
        erased=erased,
        changes=changes,
        base=base,
        first=first,
        last=max(filter(None, (last, latest)), default=None),
        snapshots=[
            (
                snapshot,
                snapshot.version == version
                and snapshot.position >= base
                and snapshots.is_current(journal, number, snapshot),
            )
            for snapshot in found
        ],
    )


# Backup.


def back_up(path: str | os.PathLike[str], target: str | os.PathLike[str]) -> int:
    """Copy a journal as it is at this moment, complete or not at all; returns its bytes.

    The copy is checked and synced before it gets its name.
    """
    journal, target = Path(path), Path(target)
    if not journal.is_file():
        raise FileNotFoundError(f"there is no journal {journal}")
    if target.is_dir():
        target = target / journal.name
    if target.exists() and target.samefile(journal):
        raise ValueError(f"{target} is the journal itself")
    part = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        source = _reader(journal)
        try:
            with _named_damage(journal), contextlib.closing(sqlite3.connect(part)) as copy:
                source.backup(copy)
                copy.execute("PRAGMA journal_mode = DELETE")  # a single file, until it is opened
                problem = copy.execute("PRAGMA integrity_check(1)").fetchone()[0]
        finally:
            source.close()
        if problem != "ok":
            raise Damaged(f"{journal} is damaged, so no backup was made: {problem}")
        os.chmod(part, journal.stat().st_mode & 0o777)
        _sync(part)
        os.replace(part, target)
        _sync_folder(target)
        return target.stat().st_size
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(f"{part}{suffix}").unlink(missing_ok=True)
