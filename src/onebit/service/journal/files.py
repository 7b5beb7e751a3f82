"""The files of a journal: their one owner, and a copy of what can be read after a failure."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from onebit.persist import is_model_file
from onebit.service.faults import Damaged, JournalInUse, Unavailable


def own(path: Path) -> int:
    """Take the lock of a journal, or refuse: two owners would write over each other."""
    try:
        make_folder(path.absolute().parent)
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise Unavailable(f"{path}: the journal cannot be opened: {error.strerror}") from None
    if not _take(lock):
        owner = os.pread(lock, 20, 0).decode(errors="replace").strip()
        os.close(lock)
        raise JournalInUse(
            f"{path} is in use by another process{f' ({owner})' if owner else ''}; "
            "a journal has one owner: stop that one first, or choose another journal"
        ) from None
    with contextlib.suppress(OSError):  # without room on the disk, nobody learns the number
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
    return lock


def _take(lock: int) -> bool:
    """Whether the lock could be taken. `has_owner` may have it for a moment."""
    for pause in (0.01, 0.1, 0.0):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(pause)
        else:
            return True
    return False


def has_owner(path: Path) -> bool:
    """Whether a process owns a journal. The look takes a shared lock for a moment."""
    try:
        lock = os.open(f"{path}.lock", os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def open_reader(path: Path) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode=ro"
    if not os.access(path.absolute().parent, os.W_OK) and not Path(f"{path}-wal").exists():
        uri += "&immutable=1"  # a reader would make files beside the journal, and cannot
    connection = sqlite3.connect(
        uri, uri=True, isolation_level=None, check_same_thread=False, timeout=5
    )
    connection.execute("PRAGMA query_only = ON")
    return connection


@contextlib.contextmanager
def named_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.ProgrammingError:  # the connection was closed: the journal is read anew
        raise
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError) and "malformed" not in str(error):
            raise
        if is_model_file(path):
            raise Damaged(
                f"{path} is a model file, not a journal: onebit.load reads it. A journal is the "
                "file that `journal` in the configuration of a service names"
            ) from error
        raise Damaged(
            f"{path} is damaged: {error}. `onebit inspect {path} --repair` copies every event that "
            "can still be read to a new journal and keeps the old one"
        ) from error


def close_without_checkpoint(path: Path, connection: sqlite3.Connection) -> None:
    """Close a connection that can write, while another one is open.

    The last one to be closed makes a checkpoint. After a failed fsync that would copy pages out of
    a log that may not be on disk.
    """
    guard = open_reader(path)
    try:
        guard.execute("SELECT count(*) FROM sqlite_master").fetchone()
        connection.close()
    finally:
        guard.close()


def is_full(error: Exception) -> bool:
    """Whether a disk without room is the reason: then no page can have been lost."""
    code = getattr(error, "sqlite_errorcode", None)
    return code == sqlite3.SQLITE_FULL or getattr(error, "errno", None) == errno.ENOSPC


def copy_what_is_readable(path: Path) -> None:
    """Put a fresh copy of a journal in its place.

    The steps can be interrupted anywhere: until the copy has its final name, the old files are
    complete; once it has, `finish_copy` goes on.
    """
    for name in (path, Path(f"{path}-wal")):  # what the disk has, not what memory has
        with contextlib.suppress(OSError):
            file = os.open(name, os.O_RDONLY)
            try:
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(file)
    copy = Path(f"{path}.copy")
    copy.unlink(missing_ok=True)
    connection = sqlite3.connect(path, isolation_level=None, timeout=5)
    try:
        guard = open_reader(path)  # so that closing makes no checkpoint
        with named_damage(path):
            guard.execute("SELECT count(*) FROM meta").fetchone()
            connection.execute("VACUUM INTO ?", (str(copy),))
        connection.close()
        guard.close()
    finally:
        connection.close()
    sync(copy)
    os.rename(copy, f"{path}.recovered")
    sync_folder(path)
    finish_copy(path)


def finish_copy(path: Path) -> None:
    """Put a complete copy in the place of the journal, if there is one; remove one that is not."""
    for suffix in ("", "-journal"):
        Path(f"{path}.copy{suffix}").unlink(missing_ok=True)
    copy = Path(f"{path}.recovered")
    if not copy.exists():
        return
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    sync_folder(path)
    os.replace(copy, path)
    sync_folder(path)


def check_copy(path: Path) -> None:
    """Refuse to read a journal whose copy is about to take its place: its log may be gone.

    Only the owner may finish that.
    """
    if Path(f"{path}.recovered").exists():
        raise Unavailable(
            f"{path} is being replaced by a copy, {path.name}.recovered. If no service does that "
            "just now, start the service on it, which finishes it, and try again"
        )


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, so that a power loss does not take them away again."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder)


def sync_folder(path: Path) -> None:
    """Make durable which names the folder of a path has."""
    sync(path.absolute().parent)


def sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
