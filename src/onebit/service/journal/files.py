"""The files of a journal: readers, and a copy of what can be read after a failure."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from onebit.learner.files import is_model_file
from onebit.service.faults import Damaged, Unavailable
from onebit.service.journal.ownership import Owner


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
        # The file is opened only if SQLite can have no lock on it, which closing it would drop.
        if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB and is_model_file(path):
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


def may_have_lost_pages(error: Exception) -> bool:
    """Whether the system may believe pages written that the disk does not have."""
    return not (is_full(error) or isinstance(error, sqlite3.IntegrityError))


def copy_what_is_readable(
    path: Path, owner: Owner, check: Callable[[sqlite3.Connection], None]
) -> None:
    """Put a fresh copy of a journal in its place.

    The steps can be interrupted anywhere: until the copy has its final name, the old files are
    complete; once it has, `finish_copy` goes on. check: is given a connection to the journal before
    anything is changed.
    """
    os.posix_fadvise(owner.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)  # what the disk has, not
    with contextlib.suppress(OSError):  # what memory has
        file = os.open(f"{path}-wal", os.O_RDONLY)
        try:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)
    connection = sqlite3.connect(path, isolation_level=None, timeout=5)
    try:
        guard = open_reader(path)  # so that closing makes no checkpoint
        try:
            with named_damage(path):
                guard.execute("SELECT count(*) FROM meta").fetchone()
                check(connection)
                copy = _new_copy(path)
                connection.execute("VACUUM INTO ?", (str(copy),))
            connection.close()
        finally:
            guard.close()
    finally:
        connection.close()
    sync(copy)
    os.rename(copy, f"{path}.recovered")
    sync_folder(path)
    finish_copy(path, owner)


def _new_copy(path: Path) -> Path:
    """An empty file that only those can read who can read the journal."""
    copy = Path(f"{path}.copy")
    copy.unlink(missing_ok=True)
    make_private(copy)
    os.chmod(copy, path.stat().st_mode & 0o777)
    return copy


def make_private(path: Path) -> None:
    """Make an empty file that only its owner can read, before anything is written into it."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def finish_copy(path: Path, owner: Owner) -> None:
    """Put a complete copy in the place of the journal, if there is one; remove one that is not."""
    for suffix in ("", "-journal"):
        Path(f"{path}.copy{suffix}").unlink(missing_ok=True)
    copy = Path(f"{path}.recovered")
    if not copy.exists():
        return
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    sync_folder(path)
    owner.replace(copy)
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
    """Make a folder, and those above it, so that a power loss does not take them away again.

    Only the owner may look into them.
    """
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
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
