"""Inspection: what is in a journal, and whether it is whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from onebit.service import snapshots
from onebit.service.journal import (
    ReadOnlyJournal,
)
from onebit.service.snapshots import Snapshot
from onebit.service.upkeep.journals import models_of, snapshots_of


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
