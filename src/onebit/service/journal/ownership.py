"""The one owner of a journal: a lock, and a fence.

The lock (flock) is on the database file itself, so it does not matter which names the file has or
gets. SQLite locks the same file by POSIX locks, which know nothing of flock. But a process that
closes any descriptor of a file loses all its POSIX locks on that file. So a process opens a file at
most once for its own purposes (`Held`), and closes it when none of its journals uses it any more.

The fence is what the owner expects of the journal whenever it commits. A lock may be lost, as on a
file system without locks, or when a file is copied over the journal.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from contextlib import suppress
from pathlib import Path

from onebit.service.faults import JournalInUse, Superseded, Unavailable
from onebit.service.journal.queries import LAST_POSITION

_FENCE = f"SELECT (SELECT value FROM meta WHERE name = 'epoch'), {LAST_POSITION}"
_ADVICE = "Find out which process that is, and start this one again when it has stopped"


class _Descriptor:
    """The only descriptor of a file in this process, beside those of SQLite."""

    __slots__ = ("is_locked", "number", "users")

    def __init__(self, number: int) -> None:
        self.number, self.users, self.is_locked = number, 0, False


_GUARD = threading.Lock()
_descriptors: dict[tuple[int, int] | None, _Descriptor] = {}  # by device and inode


class Held:
    """A file that is kept open.

    path: must exist, unless `makes`.
    """

    def __init__(self, path: Path, *, makes: bool = False) -> None:
        with _GUARD:
            key = _key(path)
            if key not in _descriptors:
                flags = os.O_RDONLY | (os.O_CREAT if makes else 0)
                number = os.open(path, flags, 0o600)  # SQLite gives its other files the same mode
                status = os.fstat(number)
                key = (status.st_dev, status.st_ino)
                # Should it be known already, because it has just got this name, it stays open.
                _descriptors.setdefault(key, _Descriptor(number))
            self._key = key
            self._descriptor = _descriptors[self._key]
            self._descriptor.users += 1
        self._has_locked = False

    @property
    def number(self) -> int:
        """The descriptor."""
        return self._descriptor.number

    def is_at(self, path: Path) -> bool:
        """Whether a path leads to this file."""
        return _key(path) == self._key

    def lock(self) -> bool:
        """Whether the lock could be taken. `is_locked` may have it for a moment."""
        for pause in (0.01, 0.1, 0.0):
            with _GUARD:
                if self._descriptor.is_locked:
                    return False
                with suppress(BlockingIOError):
                    fcntl.flock(self.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    self._descriptor.is_locked = self._has_locked = True
                    return True
            time.sleep(pause)
        return False

    def is_locked(self) -> bool:
        """Whether any process has the lock. The look takes a shared lock for a moment."""
        with _GUARD:
            if self._descriptor.is_locked:
                return True
            try:
                fcntl.flock(self.number, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return True
            fcntl.flock(self.number, fcntl.LOCK_UN)
            return False

    def release(self) -> None:
        """Let go of the file. No connection to it may be left in this process."""
        with _GUARD:
            if self._has_locked:
                fcntl.flock(self.number, fcntl.LOCK_UN)
                self._descriptor.is_locked = self._has_locked = False
            self._descriptor.users -= 1
            if not self._descriptor.users:
                del _descriptors[self._key]
                os.close(self.number)


def check_name(path: Path) -> None:
    """Refuse to read a file by a name beside which its write-ahead log is not (a hard link).

    SQLite finds the log by the name. Without it, the newest events would seem not to exist.
    """
    _check_log(path)
    if os.stat(path).st_nlink < 2 or Path(f"{path}-wal").exists():
        return
    held = Held(path)
    try:
        if held.is_locked():
            raise Unavailable(
                f"{path} is in use by {_owner_of(path)} under another name, and its newest events "
                "are in the log beside that name: use that one"
            )
    finally:
        held.release()


def _check_log(path: Path) -> None:
    """Refuse a name of a file whose events are in the log beside another name in the folder."""
    if not path.exists() or os.stat(path).st_nlink < 2 or _has_events(path):
        return
    for sibling in path.parent.iterdir():
        if _has_events(sibling) and _key(sibling) == _key(path):
            raise Unavailable(
                f"{path} is also named {sibling.name}, and its newest events are in "
                f"{sibling.name}-wal: use that name"
            )


def _has_events(path: Path) -> bool:
    """Whether there is something in the log beside a name."""
    with suppress(OSError):
        return os.stat(f"{path}-wal").st_size > 0
    return False


def _key(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


class Owner:
    """Owns a journal, or refuses: two owners would write over each other."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held = self._locked()

    def _locked(self) -> Held:
        while True:
            held = Held(self._path, makes=True)
            try:
                is_locked = held.lock()
                if is_locked:
                    _check_log(self._path)
            except BaseException:
                held.release()
                raise
            if is_locked and held.is_at(self._path):
                return held
            is_there = held.is_at(self._path)
            held.release()
            if is_there:  # else another process has put a copy in its place just now
                raise JournalInUse(
                    f"{self._path} is in use by {_owner_of(self._path)}; "
                    "a journal has one owner: stop that one first, or choose another journal"
                )

    @property
    def descriptor(self) -> int:
        return self._held.number

    def check(self) -> None:
        """Superseded if the path does not lead to the file any more."""
        if not self._held.is_at(self._path):
            raise Superseded(
                f"{self._path} was removed or replaced by another file while it was in use, so "
                "nothing is written any more. Put the file back, or another one in its place, and "
                "start again"
            )

    def replace(self, copy: Path) -> None:
        """Put a copy in the place of the journal. It is locked before it has that name."""
        held = Held(copy)
        held.lock()
        os.replace(copy, self._path)
        before, self._held = self._held, held
        before.release()

    def release(self) -> None:
        self._held.release()


def _owner_of(path: Path) -> str:
    """The process that has the lock, with its number if the system tells it."""
    with suppress(OSError):
        inode = os.stat(path).st_ino
        for line in Path("/proc/locks").read_text().splitlines():
            _, kind, _, _, process, file, *_ = line.split()
            if kind == "FLOCK" and file.endswith(f":{inode}"):
                return f"another process ({process})"
    return "another process"


class Fence:
    """What a journal is like as long as only its owner writes to it.

    The epoch is a random name of the owner's time, which is written with its first commit. Whoever
    commits first then keeps the journal; another one finds another epoch or another last position.
    """

    def __init__(self) -> None:
        self._own = os.urandom(8).hex()
        self._epochs: set[str | None] = set()  # that may be found; empty: not read yet
        self._position = self._next = 0
        self._is_claimed = False

    def read(self, connection: sqlite3.Connection) -> int:
        """The last position of a journal that was opened, perhaps again."""
        epoch, self._position = self._checked(connection)
        if not self._epochs:
            self._epochs = {epoch, self._own}
        return self._position

    def check(self, connection: sqlite3.Connection) -> None:
        """Superseded if anybody else has committed."""
        _, position = self._checked(connection)
        if position != self._position:
            raise Superseded(
                f"the last event of the journal is at position {position}, not {self._position}, "
                f"so another process has written to it, and nothing is written any more. {_ADVICE}"
            )

    def check_epoch(self, connection: sqlite3.Connection) -> None:
        """Superseded if another owner has committed since the journal was opened."""
        self._checked(connection)

    def _checked(self, connection: sqlite3.Connection) -> tuple[str | None, int]:
        epoch, position = connection.execute(_FENCE).fetchone()
        if self._epochs and epoch not in self._epochs:
            raise Superseded(
                "another process has taken over the journal, so nothing is written any more. "
                f"{_ADVICE}"
            )
        return epoch, position

    def advance(self, connection: sqlite3.Connection) -> None:
        """Called in each transaction, after its rows."""
        if not self._is_claimed:
            connection.execute("REPLACE INTO meta VALUES ('epoch', ?)", (self._own,))
        _, self._next = connection.execute(_FENCE).fetchone()

    def confirm(self) -> None:
        """Called when the transaction is on disk."""
        self._is_claimed, self._position = True, self._next
        self._epochs = {self._own}
