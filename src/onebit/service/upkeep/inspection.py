"""Inspection: what is in a journal, and whether it is whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from onebit.service import snapshots
from onebit.service.journal import (
    ReadOnlyJournal,
)
from onebit.service.snapshots import Snapshot
from onebit.service.upkeep.journals import snapshots_of


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
        problems = journal.damage()
        models = [_facts(journal, name, number) for name, number in journal.models().items()]
        return Facts(
            path=journal.path,
            bytes=journal.path.stat().st_size,
            log_bytes=_size(Path(f"{journal.path}-wal")),
            schema=journal.note("schema"),
            position=journal.position,
            problems=problems,
            models=models,
        )
    finally:
        journal.close()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _facts(journal: ReadOnlyJournal, name: str, number: int) -> ModelFacts:
    counts = journal.counts(number)
    base, version = journal.base(number), journal.version_in_charge(number)
    start = base.position if base else 0
    found = snapshots.found(snapshots_of(journal.path), name)
    return ModelFacts(
        name=name,
        decisions=counts.decisions,
        answers=counts.answers,
        open=counts.active - counts.answers,
        cancelled=counts.cancelled,
        erased=counts.erased,
        changes=counts.changes,
        base=start,
        first=counts.first,
        last=counts.last,
        snapshots=[
            (
                snapshot,
                version is not None
                and snapshot.version == version.number
                and snapshot.position >= start
                and snapshots.is_current(journal, number, snapshot),
            )
            for snapshot in found
        ],
    )
