"""Backup: a copy of a journal, beside the service that writes it."""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
from pathlib import Path

from onebit.service.faults import Damaged
from onebit.service.journal import schema_of
from onebit.service.journal.files import (
    check_copy,
    make_private,
    named_damage,
    open_reader,
    sync,
    sync_folder,
)
from onebit.service.journal.ownership import check_name


def back_up(path: str | os.PathLike[str], target: str | os.PathLike[str]) -> int:
    """Copy a journal as it is at this moment, complete or not at all; returns its bytes.

    The copy is checked and synced before it gets its name.
    """
    journal, target = Path(path).resolve(), Path(target)
    if not journal.is_file():
        raise FileNotFoundError(f"there is no journal {journal}")
    check_copy(journal)
    check_name(journal)
    if target.is_dir():
        target = target / journal.name
    if target.exists() and target.samefile(journal):
        raise ValueError(f"{target} is the journal itself")
    part = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        source = open_reader(journal)
        try:
            with named_damage(journal):
                schema_of(source, journal)
            make_private(part)
            with named_damage(journal), contextlib.closing(sqlite3.connect(part)) as copy:
                source.backup(copy)
                copy.execute("PRAGMA journal_mode = DELETE")  # a single file, until it is opened
                problem = copy.execute("PRAGMA integrity_check(1)").fetchone()[0]
        finally:
            source.close()
        if problem != "ok":
            raise Damaged(f"{journal} is damaged, so no backup was made: {problem}")
        os.chmod(part, journal.stat().st_mode & 0o777)
        sync(part)
        os.replace(part, target)
        sync_folder(target)
        return target.stat().st_size
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(f"{part}{suffix}").unlink(missing_ok=True)
