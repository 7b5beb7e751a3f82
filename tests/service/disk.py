"""What a disk may hold after a power loss, from the calls that diskfaults.c has written down.

Which calls there were is read by `records`. A `Disk` follows them. After any number of them, its
`state` is one of the contents that the disk may have if the power goes at that moment:

- What was written to a file and not synced since is there, or not, or in part: each sector of 512
  bytes by itself, in any order.
- Names that a folder got or lost and that were not synced since are changed, up to any one of these
  changes.
- After a failed sync, nobody knows what became of that which was to be synced, then or ever, even
  if a later sync succeeds.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

SECTOR = 512
_HEAD = struct.Struct("=ciiqII")
NOT_ON_DISK = ("-shm",)  # the index of the log: for the living only


class Record(NamedTuple):
    """A call. Its kind: o(pen), c(reate), w(rite), s(ync), t(runcate), r(ename), u(nlink), m(kdir).

    Or n(ote): what the program has to say.
    """

    kind: str
    error: int
    handle: int
    offset: int
    name: str
    data: bytes


def built(folder: Path) -> Path:
    """The shim, compiled; skips the test if nothing here can compile it."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or os.uname().sysname != "Linux":
        pytest.skip("needs Linux and a C compiler (cc)")
    library = folder / "diskfaults.so"
    if not library.exists():
        source = Path(__file__).with_name("diskfaults.c")
        flags = ["-shared", "-fPIC", "-O1", "-o", library, source, "-ldl", "-lpthread"]
        made = subprocess.run([compiler, *flags], capture_output=True, text=True)
        if made.returncode:
            pytest.skip(f"diskfaults.c cannot be compiled here: {made.stderr[:500]}")
    return library


def records(log: Path) -> list[Record]:
    data, at, found = log.read_bytes(), 0, []
    while at < len(data):
        kind, error, handle, offset, name_size, size = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        name = data[at : at + name_size].decode()
        at += name_size
        found.append(Record(kind.decode(), error, handle, offset, name, data[at : at + size]))
        at += size
    return found


class _File:
    """A file: what is on disk for certain, and what came after it."""

    def __init__(self) -> None:
        self.base = bytearray()
        self.changes: list[list[Any]] = []  # kind, offset, data, state

    def change(self, kind: str, offset: int, data: bytes = b"") -> None:
        self.changes.append([kind, offset, data, "pending"])

    def sync(self) -> None:
        doubts = False
        for change in self.changes:
            doubts |= change[3] == "doubtful"
            if change[3] == "pending":
                change[3] = "durable"
        if not doubts:
            for kind, offset, data, _ in self.changes:
                _apply(self.base, kind, offset, data)
            self.changes.clear()

    def sync_failed(self, is_lost: bool) -> None:
        if is_lost:
            self.changes = [change for change in self.changes if change[3] != "pending"]
        for change in self.changes:
            if change[3] == "pending":
                change[3] = "doubtful"

    def content(self, how: str, random: Random) -> bytes:
        content = bytearray(self.base)
        for kind, offset, data, state in self.changes:
            if state == "durable" or how == "kept":
                _apply(content, kind, offset, data)
            elif how == "torn":
                fate = random.random()
                if kind == "t" or fate < 0.3:
                    if fate < 0.5:
                        _apply(content, kind, offset, data)
                else:
                    for start, part in _sectors(offset, data):
                        if random.random() < 0.5:
                            _apply(content, kind, start, part)
        return bytes(content)


def _sectors(offset: int, data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        size = SECTOR - (offset + at) % SECTOR
        yield offset + at, data[at : at + size]
        at += size


def _apply(content: bytearray, kind: str, offset: int, data: bytes) -> None:
    size = offset if kind == "t" else offset + len(data)
    if len(content) < size:
        content.extend(bytes(size - len(content)))
    if kind == "t":
        del content[offset:]
    else:
        content[offset:size] = data


class Disk:
    """The files below a folder, as calls change them."""

    def __init__(self, folder: Path) -> None:
        self.folder = os.fspath(folder)
        self._handles: dict[int, _File | str] = {}  # a text: an open folder
        self._names: dict[str, _File | None] = {}  # as the living see them; None: a folder
        self._durable: dict[str, _File | None] = {}
        self._pending: list[tuple[str, str, _File | None]] = []  # folder, name, file; "" is gone
        self._gone = _File()

    def follow(self, record: Record) -> None:
        kind, name = record.kind, record.name
        if kind in "oc":
            if name not in self._names and os.path.isdir(name):
                self._handles[record.handle] = name
                return
            if kind == "c" or name not in self._names:
                self._rename(name, _File())
            found = self._names[name]
            self._handles[record.handle] = name if found is None else found
        elif kind == "m":
            self._rename(name, None)
        elif kind == "r":
            target = record.data.decode()
            file = self._names[name]
            self._rename(target, file)
            self._rename(name, self._gone)
        elif kind == "u":
            self._rename(name, self._gone)
        elif kind in "wts":
            file = self._handles[record.handle]
            if isinstance(file, str):
                if not record.error:
                    self._sync_names(file)
            elif kind != "s":
                file.change(kind, record.offset, record.data)
            elif record.error:
                file.sync_failed(is_lost=bool(record.offset))
            else:
                file.sync()

    def _rename(self, name: str, file: _File | None) -> None:
        if file is self._gone:
            self._names.pop(name, None)
        else:
            self._names[name] = file
        self._pending.append((os.path.dirname(name), name, file))

    def _sync_names(self, folder: str) -> None:
        for change in [change for change in self._pending if change[0] == folder.rstrip("/")]:
            self._set(self._durable, change)
            self._pending.remove(change)

    def _set(self, names: dict[str, Any], change: tuple[str, str, _File | None]) -> None:
        _, name, file = change
        if file is self._gone:
            names.pop(name, None)
        else:
            names[name] = file

    def state(self, target: Path, how: str, random: Random) -> None:
        """Make a folder as it may be after a power loss now: "dropped", "kept" or "torn"."""
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        names = dict(self._durable)
        count = {"dropped": 0, "kept": len(self._pending)}.get(how)
        count = random.randint(0, len(self._pending)) if count is None else count
        for change in self._pending[:count]:
            self._set(names, change)
        for name, file in names.items():
            path = target / os.path.relpath(name, self.folder)
            if file is None:
                path.mkdir(parents=True, exist_ok=True)
        for name, file in names.items():
            path = target / os.path.relpath(name, self.folder)
            if file is not None and not name.endswith(NOT_ON_DISK) and path.parent.is_dir():
                path.write_bytes(file.content(how, random))
