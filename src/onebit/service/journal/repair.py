"""Repairs a damaged journal: every event that can still be read goes into a new one.

SQLite finds a row by a path of pages from the root of
its table, so that one damaged page can hide thousands of rows. Here every page is read by itself:
https://www.sqlite.org/fileformat2.html. A page of rows names the length and the columns of each
row, and the number of columns tells the table. So a damaged page costs only its own rows.

The pages of the write-ahead log are laid over those of the database, as SQLite does it. SQLite
ignores the log behind a damaged frame; here the frames behind it are read too. Of each page only
the last version counts that was committed and is whole: earlier ones have rows that were deleted
since. If the last version is damaged, the rows that it still has are read as well. An older version
of a page may then bring deleted rows back, so what the `changes` say is done again.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import sqlite3
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from onebit.learner.decision import Decision
from onebit.service.faults import Damaged
from onebit.service.journal import AnswerRow, ChangeRow, DecisionRow, Journal, statements
from onebit.service.journal.files import finish_copy, make_private, sync, sync_folder
from onebit.service.journal.ownership import Owner

_MAGIC = b"SQLite format 3\0"
# Kinds of pages: rows of a table; entries of an index; what leads to them.
_LEAF, _LEAF_OF_INDEX, _PATHS = 13, 10, (2, 5)
_FACTS = re.compile(
    r"(version|configuration|roles|settled) of \d+"
)  # of a model, in the table `meta`
_LOCKED = 2**30  # the byte that SQLite locks: its page has no content
LARGEST_ROW = 2**28  # bytes


class Repaired(NamedTuple):
    """What a repair has found."""

    events: dict[str, int]  # rows in the new journal, by table
    pages: list[int]  # that could not be read, or are part of a row that could not be
    rows: list[str]  # rows that could not be read: "decisions 17"
    missing: list[tuple[int, int]]  # first and last of positions that no event has
    kept: Path  # the damaged journal
    snapshots: Path | None  # where the snapshots were put, if they know of events that were lost


def repair(path: str | os.PathLike[str]) -> Repaired:
    """Put a new journal in the place of a damaged one, which is kept under another name."""
    path = Path(path).resolve()
    if not path.is_file():
        raise FileNotFoundError(f"there is no journal {path}")
    owner = Owner(path)
    try:
        finish_copy(path, owner)
        with _Pages(path) as pages:
            copy = Path(f"{path}.repaired")
            for suffix in ("", "-wal", "-shm"):
                Path(f"{copy}{suffix}").unlink(missing_ok=True)
            Journal(copy).close()  # an empty journal
            events, missing = _copied(pages, copy)
            if not _is_journal(path, events):
                for suffix in ("", "-wal", "-shm"):
                    Path(f"{copy}{suffix}").unlink(missing_ok=True)
                raise Damaged(f"{path} is not a journal of onebit; it stays as it is")
            _give_to_owner(copy, path)
            unread = pages.unread()
        stamp = time.strftime("%Y%m%d-%H%M%S")
        snapshots = None
        folder = Path(f"{path}.snapshots")
        if (unread or pages.lost) and folder.is_dir():
            snapshots = Path(f"{folder}.damaged-{stamp}")
            folder.rename(snapshots)
        kept = _put_in_place(path, copy, stamp, owner)
        return Repaired(events, unread, pages.lost, missing, kept, snapshots)
    finally:
        owner.release()


def _is_journal(path: Path, events: dict[str, int]) -> bool:
    """Whether a file is a journal: by its list of tables, or, if that is lost, by its events."""
    with contextlib.suppress(sqlite3.Error):
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
        with contextlib.closing(connection):
            found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if found >= {"meta", *_TABLES}:
            return True
        if found.isdisjoint(_TABLES) and found:
            return False
    return any(events[table] for table in ("configurations", "decisions", "answers", "changes"))


# The new journal.


def _give_to_owner(copy: Path, path: Path) -> None:
    """The new journal belongs to the user of the damaged one, and is as private."""
    found = path.stat()
    os.chmod(copy, found.st_mode & 0o777)
    if os.geteuid() == 0:
        os.chown(copy, found.st_uid, found.st_gid)


def _copied(pages: _Pages, copy: Path) -> tuple[dict[str, int], list[tuple[int, int]]]:
    connection = sqlite3.connect(copy, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = OFF")  # it is synced as a whole
        connection.execute("BEGIN")
        for table, row in pages.rows():
            values = ", ".join("?" * len(row))
            try:
                connection.execute(f"INSERT OR REPLACE INTO {table} VALUES ({values})", row)
            except sqlite3.Error:  # it does not fit the table
                pages.lost.append(f"{table} {row[0]}")
        # Names that were lost: their events are there, and wait for a new name.
        connection.execute(
            "INSERT INTO models SELECT DISTINCT model, 'lost-' || model FROM decisions "
            "WHERE model NOT IN (SELECT number FROM models)"
        )
        # The version in charge, if that was lost: the newest.
        connection.execute(
            "INSERT OR IGNORE INTO meta SELECT 'version of ' || model, max(number) "
            "FROM configurations GROUP BY model"
        )
        connection.execute("INSERT INTO meta VALUES ('repaired', ?)", (time.time(),))
        _do_changes_again(connection)
        connection.execute("COMMIT")
        events = {
            table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in _TABLES
        }
        missing = _missing(connection)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()
    sync(copy)
    return events, missing


def _do_changes_again(connection: sqlite3.Connection) -> None:
    """Take back what was taken back, and weigh sources, as the changes say.

    In a whole journal this changes nothing.
    """
    rows = connection.execute("SELECT * FROM changes ORDER BY position").fetchall()
    for change in itertools.starmap(ChangeRow, rows):
        for statement in _again(change):
            with contextlib.suppress(sqlite3.Error):  # a change without its values
                connection.execute(*statement)


def _again(change: ChangeRow) -> list[statements.Statement]:
    """What a change has to do to rows from before it."""
    body = msgspec.json.decode(change.body)
    decision, source = body.get("decision"), body.get("source")
    model, position = change.model, change.position
    delete = "DELETE FROM answers WHERE model = ? AND position < ? AND"
    if change.kind == "source":
        return [statements.weigh_source(model, source, body.get("weight"))]
    if change.kind == "remove source":
        # A revised answer keeps its position: it may be of this source since, with a later time.
        values = (model, position, source, change.time)
        return [(f"{delete} source = ? AND time < ?", values)]
    if decision is None:  # the decision was erased later
        return []
    deleted = (f"{delete} decision = ?", (model, position, decision))
    if change.kind == "revoke":
        return [deleted]
    if change.kind == "cancel":
        return [deleted, statements.cancel(decision)]
    return statements.erase(decision) if change.kind == "erase" else []


def _missing(connection: sqlite3.Connection) -> list[tuple[int, int]]:
    """Positions between the first and the last event that no event has."""
    rows = connection.execute(
        "SELECT position FROM decisions UNION SELECT position FROM answers "
        "UNION SELECT position FROM changes "
        "UNION SELECT active FROM decisions WHERE active NOT NULL ORDER BY 1"
    )
    base = connection.execute("SELECT coalesce(max(position), 0) FROM bases").fetchone()[0]
    found = []
    for before, after in itertools.pairwise(itertools.chain([0], (row[0] for row in rows))):
        if after > max(before, base) + 1:
            found.append((max(before, base) + 1, after - 1))
    return found


def _put_in_place(path: Path, copy: Path, stamp: str, owner: Owner) -> Path:
    """The damaged files get other names first; whatever happens in between, a journal is there."""
    kept = Path(f"{path}.damaged-{stamp}")
    for suffix in ("", "-wal"):
        old, new = Path(f"{path}{suffix}"), Path(f"{kept}{suffix}")
        if old.exists():
            try:
                os.link(old, new)
            except OSError:  # the file system has no links
                make_private(new)
                shutil.copy2(old, new)
    os.rename(copy, f"{path}.recovered")
    sync_folder(path)
    finish_copy(path, owner)
    return kept


# Rows.


def _is_json(value: Any) -> bool:
    try:
        msgspec.json.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    return True


def _is_decision(row: tuple[Any, ...]) -> bool:
    made = DecisionRow(*row)
    if not all(_is_json(text) for text in (made.context, made.among, made.propensities) if text):
        return False
    if made.logged is not None:
        return _is_json(made.logged)
    if made.decision is None:
        return made.state != 0
    try:
        Decision.from_bytes(made.decision)
    except (ValueError, TypeError):
        return False
    return True


def _is_answer(row: tuple[Any, ...]) -> bool:
    answer = AnswerRow(*row)
    return (answer.right in (0, 1)) != (answer.label is not None)


def _is_change(row: tuple[Any, ...]) -> bool:
    body = ChangeRow(*row).body
    return _is_json(body) and isinstance(msgspec.json.decode(body), dict)


# Of each table with positions or numbers: the types of its columns, and a check of a row. The
# first column is the number of the row.
_TABLES: dict[str, tuple[str, Callable[[tuple[Any, ...]], bool]]] = {
    "models": ("it", lambda _: True),
    "configurations": ("iirtB", lambda row: _is_json(row[3])),
    "bases": ("iiib", lambda _: True),
    "decisions": ("itiirTBTlriiTBiIiRT", _is_decision),
    "answers": ("iiirIlTT", _is_answer),
    "changes": ("iirtIt", _is_change),
}
_KINDS: dict[str, tuple[type, ...]] = {
    "i": (int,),
    "r": (float, int),
    "t": (str,),
    "b": (bytes,),
    "l": (str, int, type(None)),
    "I": (int, type(None)),
    "R": (float, int, type(None)),
    "T": (str, type(None)),
    "B": (bytes, type(None)),
}
_EARLIER_WIDTHS = (17, 18)  # of decisions, which had no `confidence` and no `logged`
_BY_WIDTH = {len(types): (table, types, check) for table, (types, check) in _TABLES.items()}


def _table_of(row: tuple[Any, ...]) -> str | None:
    """The table of a row; None if it is none of a journal."""
    table, types, check = _BY_WIDTH.get(len(row), ("", "", bool))
    fits = all(isinstance(value, _KINDS[kind]) for value, kind in zip(row, types, strict=False))
    return table if table and fits and check(row) else None


# Pages.


class _Unreadable(Exception):
    pass


class _Pages:
    """The pages of a database with those of its write-ahead log laid over them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lost: list[str] = []  # rows that could not be read
        self._file = open(path, "rb")  # noqa: SIM115
        head = self._file.read(100)
        log = Path(f"{path}-wal")
        frames = log.read_bytes() if log.exists() else b""
        self._size = _page_size(head, frames)
        self._over, self._damaged, end = _laid_over(frames, self._size)
        self.lost += [f"page {number}, in the write-ahead log" for number, _ in self._damaged]
        # A file that was made smaller keeps its old end until a checkpoint.
        self._count = end or max(os.path.getsize(path) // self._size, *self._over, 0)
        self._read: set[int] = set()  # pages whose rows were read, or that are part of a row

    def __enter__(self) -> _Pages:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def page(self, number: int) -> bytes:
        if number in self._over:
            return self._over[number]
        if not 1 <= number <= self._count:
            raise _Unreadable
        self._file.seek((number - 1) * self._size)
        page = self._file.read(self._size)
        if len(page) < self._size:
            raise _Unreadable
        return page

    def rows(self) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Every row of the tables of a journal, with its table."""
        for number in range(1, self._count + 1):
            with contextlib.suppress(_Unreadable):
                yield from self._rows_of(number, self.page(number))
        for number, page in self._damaged:
            yield from self._rows_of(number, page)

    def _rows_of(self, number: int, page: bytes) -> Iterator[tuple[str, tuple[Any, ...]]]:
        start = 100 if number == 1 else 0
        if page[start] not in (_LEAF, _LEAF_OF_INDEX):
            return
        (cells,) = struct.unpack_from(">H", page, start + 3)
        if start + 8 + 2 * cells > self._size:
            return
        self._read.add(number)
        offsets = struct.unpack_from(f">{cells}H", page, start + 8)
        if page[start] == _LEAF_OF_INDEX:
            yield from self._facts_of(page, offsets)
            return
        for offset in offsets:
            rowid: Any = "?"
            try:
                length, offset = _varint(page, offset)
                rowid, offset = _varint(page, offset)
                values = _record(self._payload(page, offset, length))
            except (_Unreadable, IndexError, ValueError, struct.error):
                self.lost.append(f"page {number}, row {rowid}")
                continue
            if not values or values[0] is not None:
                continue  # of a table without numbers: the list of tables
            row = (rowid, *values[1:])
            if len(row) in _EARLIER_WIDTHS:  # SQLite leaves such rows as they are
                row = (*row, *[None] * (len(DecisionRow._fields) - len(row)))
            table = _table_of(row)
            if table is None:
                self.lost.append(f"page {number}, row {rowid}")
            else:
                yield table, row

    def _facts_of(
        self, page: bytes, offsets: Iterable[int]
    ) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """The rows that a repair keeps of the tables that SQLite keeps like an index.

        These are `meta` and `sources`. In an index over keys of decisions, a row of three columns
        ends with a position, which is no weight below 1; other weights need not be kept.
        """
        for offset in offsets:
            with contextlib.suppress(_Unreadable, IndexError, TypeError, ValueError, struct.error):
                length, offset = _varint(page, offset)
                row = _record(self._payload(page, offset, length))
                if len(row) == 2 and isinstance(row[0], str) and _FACTS.fullmatch(row[0]):
                    yield "meta", row
                if [*map(type, row[:2])] == [int, str] and len(row) == 3 and 0 <= row[2] < 1:
                    yield "sources", row

    def _payload(self, page: bytes, offset: int, length: int) -> bytes:
        """The bytes of a row; the part that does not fit its page is in further pages."""
        if length > LARGEST_ROW:
            raise _Unreadable
        usable = self._size
        local = length
        if length > usable - 35:
            least = (usable - 12) * 32 // 255 - 23
            local = least + (length - least) % (usable - 4)
            if local > usable - 35:
                local = least
        parts, left = [page[offset : offset + local]], length - local
        if left:
            (further,) = struct.unpack_from(">I", page, offset + local)
            seen: set[int] = set()
            while left > 0:
                if further in seen:
                    raise _Unreadable
                seen.add(further)
                body = self.page(further)
                parts.append(body[4 : 4 + min(left, usable - 4)])
                left -= len(parts[-1])
                (further,) = struct.unpack_from(">I", body)
            self._read |= seen
        payload = b"".join(parts)
        if len(payload) < length:
            raise _Unreadable
        return payload

    def unread(self) -> list[int]:
        """Pages that are neither rows nor anything else that a database has."""
        known = self._read | self._unused()
        found = []
        for number in range(1, self._count + 1):
            try:
                page = self.page(number)
            except _Unreadable:
                found.append(number)
                continue
            if number == 1:
                is_known = page.startswith(_MAGIC)
            else:
                is_known = number in known or page[0] in _PATHS
            if not is_known:
                found.append(number)
        return found

    def _unused(self) -> set[int]:
        """Pages that the database keeps for later."""
        found = {_LOCKED // self._size + 1}
        with contextlib.suppress(_Unreadable, struct.error):
            (trunk,) = struct.unpack_from(">I", self.page(1), 32)
            while trunk and trunk not in found:
                found.add(trunk)
                page = self.page(trunk)
                trunk, count = struct.unpack_from(">II", page)
                if count <= (self._size - 8) // 4:
                    found.update(struct.unpack_from(f">{count}I", page, 8))
        return found


def _page_size(head: bytes, log: bytes) -> int:
    if head.startswith(_MAGIC) and len(head) == 100:
        (size,) = struct.unpack_from(">H", head, 16)
    elif len(log) >= 32:
        (size,) = struct.unpack_from(">I", log, 8)
    else:
        size = 4096
    size = 65536 if size == 1 else size
    return size if size in [2**n for n in range(9, 17)] else 4096


def _laid_over(log: bytes, size: int) -> tuple[dict[int, bytes], list[tuple[int, bytes]], int]:
    """The last committed version of each page in a write-ahead log that is whole.

    Also the versions that are damaged and have no whole one after them, with their numbers; and
    how many pages the database has since the last commit, 0 if the log does not say so.
    """
    end = 0
    over: dict[int, bytes] = {}
    damaged: dict[int, bytes] = {}
    if len(log) < 32:
        return over, [], end
    order = ">" if log[3] & 1 else "<"
    salts, sums = log[16:24], struct.unpack_from(">II", log, 24)
    waiting: list[tuple[int, bytes, bool]] = []
    for start in range(32, len(log) - size - 23, size + 24):
        head, page = log[start : start + 24], log[start + 24 : start + 24 + size]
        if head[8:16] != salts:
            continue  # of an earlier log, which was longer
        number, commits = struct.unpack_from(">II", head)
        # A sum goes on from that of the frame before, which is stored. So a damaged frame does not
        # keep those behind it from being checked.
        wanted = struct.unpack_from(">II", head, 16)
        is_whole = _sums(page, _sums(head[:8], sums, order), order) == wanted
        sums = wanted
        waiting.append((number, page, is_whole))
        if commits:
            end = commits if is_whole else 0
            for number, page, is_whole in waiting:
                if is_whole:
                    over[number] = page
                    damaged.pop(number, None)
                else:
                    damaged[number] = page
            waiting = []
    return over, [*damaged.items()], end


def _sums(data: bytes, before: tuple[int, int], order: str) -> tuple[int, int]:
    first, second = before
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for left, right in zip(words, words, strict=True):
        first = (first + left + second) & 0xFFFFFFFF
        second = (second + right + first) & 0xFFFFFFFF
    return first, second


def _varint(data: bytes, offset: int) -> tuple[int, int]:
    """A number of variable length, and the offset behind it."""
    number = 0
    for byte in data[offset : offset + 8]:
        number, offset = (number << 7) | (byte & 127), offset + 1
        if byte < 128:
            return number, offset
    number = (number << 8) | data[offset]  # the ninth byte has eight bits
    return (number if number < 2**63 else number - 2**64), offset + 1


_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}  # bytes by type


def _record(data: bytes) -> tuple[Any, ...]:
    """The values of a row."""
    end, offset = _varint(data, 0)
    if not 1 <= end <= len(data):
        raise _Unreadable
    kinds = []
    while offset < end:
        kind, offset = _varint(data, offset)
        kinds.append(kind)
    values: list[Any] = []
    for kind in kinds:
        if kind == 0:
            values.append(None)
        elif kind in _INTEGERS:
            size = _INTEGERS[kind]
            values.append(int.from_bytes(data[offset : offset + size], "big", signed=True))
            offset += size
        elif kind == 7:
            values.append(struct.unpack_from(">d", data, offset)[0])
            offset += 8
        elif kind in (8, 9):
            values.append(kind - 8)
        elif kind >= 12:
            size = (kind - 12) // 2
            value = data[offset : offset + size]
            values.append(value if kind % 2 == 0 else value.decode())
            offset += size
        else:
            raise _Unreadable
    if offset != len(data):
        raise _Unreadable
    return tuple(values)
