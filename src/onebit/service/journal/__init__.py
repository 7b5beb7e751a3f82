"""The journal: every decision and every answer, on disk before anybody hears of it.

This package holds all that is SQLite's own. The journal is a database in WAL mode with
`synchronous=FULL`. A single thread writes to it, over a single connection, which also makes the
checkpoints. What arrives while a commit runs is written by the next commit, so that many requests
share one fsync (group commit). Readers have connections of their own, which cannot write.

Every event has a position, its place in the one order of all events:

- `decisions`: what was said, on what context, with which confidence and propensities; by a learner
  of the model, or by another system (`logged`). A decision that was only proposed (`deferred`)
  has no effect until it is shown; `active` is the position of that, at which a change (`shown`)
  has its time.
- `answers`: feedback. A decision has at most one answer at a time.
- `changes`: everything else, such as a new label. Some changes alter the past, such as a revised
  answer: `affects` is the first position from which a learner has to be built again.

If a write or an fsync fails, nobody knows what is on disk, and another fsync would not tell. The
journal then refuses all writes until `recover` has read it anew. After a failed fsync it copies all
it can read to a new file, because the old one may have lost pages that the system believes written.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from heapq import merge
from itertools import starmap
from pathlib import Path
from typing import Any, Literal

from onebit.service.faults import Busy, Damaged, Superseded, Unavailable
from onebit.service.journal.clock import Clock, since_boot
from onebit.service.journal.files import (
    check_copy,
    close_without_checkpoint,
    copy_what_is_readable,
    finish_copy,
    is_full,
    make_folder,
    may_have_lost_pages,
    named_damage,
    open_reader,
    sync_folder,
)
from onebit.service.journal.ownership import Fence, Held, Owner, check_name
from onebit.service.journal.queries import (
    Base,
    LabelEvent,
    Queries,
    Version,
    labels_at,
    last_position,
)
from onebit.service.journal.tables import (
    ACTIVE,
    ANSWER_COLUMNS,
    CANCELLED,
    DECISION_COLUMNS,
    ERASED,
    INSERTS,
    TABLES,
    Answered,
    AnswerRow,
    ChangeRow,
    DecisionRow,
)
from onebit.service.tally import JournalTally

__all__ = [
    "ACTIVE",
    "CANCELLED",
    "ERASED",
    "SCHEMA",
    "AnswerRow",
    "Answered",
    "Base",
    "ChangeRow",
    "Commit",
    "DecisionRow",
    "Durability",
    "Journal",
    "LabelEvent",
    "ReadOnlyJournal",
    "Version",
    "labels_at",
    "schema_of",
]
log = logging.getLogger("onebit.service")
Durability = Literal["full", "normal"]
SCHEMA = 3
# After so many commits or rows, the write-ahead log is copied into the database: about 16 MiB.
CHECKPOINT_COMMITS, CHECKPOINT_ROWS = 1_000, 10_000
EMPTYING = 1.0  # seconds between two attempts to empty the log while somebody reads it
LEAST_FREE = 1_000  # pages, 4 MB, for which the file is made smaller
CHUNK = 2_000  # positions that are read at once: who reads keeps the log from being emptied


def _add_confidence(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE decisions RENAME COLUMN probabilities TO propensities")
    connection.execute("ALTER TABLE decisions ADD COLUMN confidence REAL")


def _add_logged(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE decisions ADD COLUMN logged TEXT")


# From one schema to the next: MIGRATIONS[n] takes a journal of schema n to n + 1.
MIGRATIONS: dict[int, Callable[[sqlite3.Connection], None]] = {
    1: _add_confidence,
    2: _add_logged,
}


class Commit:
    """Rows that go to disk together. `done` is set once they are there, or cannot be."""

    __slots__ = ("done", "inserts", "size", "statements", "truncates")

    def __init__(self) -> None:
        self.inserts: dict[str, list[Any]] = defaultdict(list)
        self.statements: list[tuple[str, Any]] = []  # after the inserts, in order
        self.done: Future[None] = Future()
        self.size = 0
        self.truncates = False  # whether the write-ahead log is emptied after it


class Journal(Queries):
    """A journal on disk, with one owner.

    path: of the database file. durability: "full" survives power loss; "normal" survives the end of
    the process, and loses the last moments before a power loss. queue: how many rows may wait to be
    written before further ones are refused. clock: the system's, or another one, which then never
    jumps unless a steady clock is given too, one that nobody sets.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Durability = "full",
        queue: int = 10_000,
        clock: Callable[[], float] | None = None,
        steady: Callable[[], float] | None = None,
        tokens: Callable[[], str] = lambda: os.urandom(8).hex(),
    ) -> None:
        self.path = Path(path).resolve()  # the files beside it are those of the file itself
        self._durability, self._queue, self.new_token = durability, queue, tokens
        self.clock = Clock(clock or time.time, steady or clock or since_boot)
        self.failure: Exception | None = None
        self.tally = JournalTally()
        self._is_to_be_emptied = False  # the write-ahead log: it may hold what was erased
        self._tried_to_empty = 0.0  # when, by time.monotonic
        self._checkpointed = (0, 0)  # commits and rows before the last checkpoint
        self._lock = threading.Lock()
        self._filled = threading.Condition(self._lock)
        self._group, self._running, self._writing = Commit(), Commit(), False
        self._closing = False
        self._fence = Fence()
        try:
            make_folder(self.path.parent)
            self._owner = Owner(self.path)
        except OSError as error:
            raise Unavailable(f"{path}: the journal cannot be opened: {error.strerror}") from None
        try:
            self._open()
            self._give_back_room()
        except BaseException as error:
            self._owner.release()
            if isinstance(error, sqlite3.OperationalError | OSError):
                raise Unavailable(f"{self.path}: the journal cannot be opened: {error}") from error
            raise
        self._writer = threading.Thread(target=self._write_all, name="journal", daemon=True)
        self._writer.start()

    # Opening and closing.

    def _open(self) -> None:
        finish_copy(self.path, self._owner)
        # A process that was killed has left its log, and nobody knows what was erased from it.
        self._is_to_be_emptied |= _size(f"{self.path}-wal") > 0
        self._connection = sqlite3.connect(
            self.path, isolation_level=None, check_same_thread=False, timeout=5
        )
        with named_damage(self.path):
            execute = self._connection.execute
            # A process that ended while it made the journal may have left a file without tables.
            is_new = not execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if not is_new:
                schema_of(self._connection, self.path)  # before anything changes in a foreign file
            execute("PRAGMA journal_mode = WAL")
            execute(f"PRAGMA synchronous = {self._durability}")
            execute("PRAGMA journal_size_limit = 67108864")
            execute("PRAGMA wal_autocheckpoint = 0")  # SQLite would not tell of a failed one
            execute("PRAGMA secure_delete = ON")  # what is erased leaves no bytes behind
            execute("PRAGMA cache_size = -16384")  # 16 MiB
            if is_new:
                execute("BEGIN IMMEDIATE")
                for statement in TABLES.split(";"):
                    execute(statement)
                execute("INSERT INTO meta VALUES ('schema', ?)", (SCHEMA,))
                execute("COMMIT")
                sync_folder(self.path)
            self._migrate()
            # Another connection stays open, so that closing the first one makes no checkpoint.
            self._guard = open_reader(self.path)
            self._guard.execute("SELECT count(*) FROM meta").fetchone()
            self._measure()
            self.position = self._fence.read(self._connection)
            self.clock.start(self._connection, self._last_time())
            query = "SELECT coalesce(max(number), 0) FROM configurations"
            self._configurations = self._connection.execute(query).fetchone()[0]

    def _give_back_room(self) -> None:
        """Make the file smaller if most of it is free, since its rounds were compacted.

        That takes as long as what is left, so it is done before anybody waits. Until the copy of
        what is left is committed, the file is as it was.
        """
        count = self._connection.execute("PRAGMA page_count").fetchone()[0]
        free = self._connection.execute("PRAGMA freelist_count").fetchone()[0]
        if free < LEAST_FREE or free < count / 2:
            return
        log.info("%s: %.0f %% of the file is free and is given back", self.path, 100 * free / count)
        try:
            with named_damage(self.path):
                self._connection.execute("VACUUM")
        except sqlite3.OperationalError as error:
            if not (is_full(error) or error.sqlite_errorcode == sqlite3.SQLITE_CANTOPEN):
                raise
            log.warning("%s: there is no room to make it smaller: %s", self.path, error)
        else:
            self._is_to_be_emptied = True  # the log is as large as what is left

    def _migrate(self) -> None:
        connection = self._connection
        schema = schema_of(connection, self.path)
        while schema < SCHEMA:
            connection.execute("BEGIN IMMEDIATE")
            try:
                MIGRATIONS[schema](connection)
                schema += 1
                connection.execute("UPDATE meta SET value = ? WHERE name = 'schema'", (schema,))
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                raise

    def _last_time(self) -> float:
        latest = 0.0
        for table in ("decisions", "answers", "changes"):
            query = f"SELECT time FROM {table} ORDER BY position DESC LIMIT 1"
            row = self._connection.execute(query).fetchone()
            latest = max(latest, row[0] if row else 0.0)
        return latest

    def close(self) -> None:
        """Write what waits, and let go of the files."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
            self._filled.notify()
        self._writer.join()
        # The last connection to be closed makes a checkpoint, unless it can only read.
        in_order = [self._guard, self._connection]
        if self.failure is not None:
            in_order.reverse()
        for connection in in_order:
            with contextlib.suppress(sqlite3.Error):
                connection.close()
        self._owner.release()

    # Writing.

    def stamp(self, count: int = 1) -> tuple[int, float]:
        """The first of so many new positions, and the time, which never runs backwards."""
        with self._lock:
            first = self.position + 1
            self.position += count
            return first, self.clock.now()

    def trust_clock(self) -> None:
        """Follow the system's clock where it is now, though it has jumped there."""
        with self._lock:
            self.clock.trust()

    def new_configuration(self) -> int:
        """A number for a configuration that no other model has."""
        with self._lock:
            self._configurations += 1
            return self._configurations

    def limit(self, queue: int) -> None:
        """How many rows may wait from now on."""
        self._queue = queue

    def give_up(self, reason: str) -> None:
        """Take no more rows, as after a failure, but without an attempt to recover."""
        self.failure = Unavailable(reason)

    def check_room(self, rows: int = 1) -> None:
        """Refuse what could not be written now."""
        self.check_failure()
        if self._group.size + rows > self._queue:
            raise Busy(f"{self._group.size} rows wait to be written", retry_after=1)

    @property
    def is_written(self) -> bool:
        """Whether a process writes to it, and can."""
        return self.failure is None

    def check_failure(self) -> None:
        """Refuse everything while nobody knows what is on disk."""
        if self.failure is not None:
            raise Unavailable(f"the journal cannot be written: {self.failure}")

    def append(
        self, *rows: Any, statements: Iterable[tuple[str, Any]] = (), truncates: bool = False
    ) -> Commit:
        """Put rows into the next commit; statements: SQL to be executed after them.

        truncates: the write-ahead log is emptied after it, so that it holds nothing of the past.
        """
        with self._lock:
            self.check_failure()
            if self._closing:
                raise Unavailable("the journal is being closed")
            group = self._group
            for row in rows:
                group.inserts[INSERTS[type(row)]].append(row)
            group.size += len(rows)
            for statement in statements:
                group.statements.append(statement)
                group.size += 1
            group.truncates |= truncates
            self.tally.waiting = group.size
            if not self._writing:
                self._filled.notify()
            return group

    def flush(self) -> None:
        """Wait until all that was appended is on disk."""
        with self._lock:
            group = self._group if self._group.size else None
            waiting = self._running if self._writing else None
        for commit in (waiting, group):
            if commit is not None:
                commit.done.result()

    def _write_all(self) -> None:
        while True:
            with self._lock:
                self._writing = False
                while not (self._group.size or self._closing or self._is_emptying_due()):
                    self._filled.wait(EMPTYING if self._is_to_be_emptied else None)
                if self._group.size:
                    group, self._group = self._group, Commit()
                    self._running, self._writing = group, True
                    self.tally.waiting = 0
                elif self._closing:
                    return
                else:
                    group = None
            try:
                if group is not None:
                    self._commit(group)
                    if group.truncates:
                        self._is_to_be_emptied, self._tried_to_empty = True, 0.0
                if self._is_emptying_due():
                    self._empty_log()
            except Exception as error:
                self._fail(error)
                if group is not None:
                    group.done.set_exception(Unavailable(f"not written: {error}"))
                continue
            if group is not None:
                group.done.set_result(None)
                self._checkpoint_if_due()

    def _commit(self, group: Commit) -> None:
        connection = self._connection
        self._owner.check()
        connection.execute("BEGIN IMMEDIATE")
        try:
            self._fence.check(connection)
            for statement, rows in group.inserts.items():
                connection.executemany(statement, rows)
            for statement, values in group.statements:
                connection.execute(statement, values)
            self._fence.advance(connection)
            self.clock.note(connection)
            started = time.perf_counter()
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            raise
        self._fence.confirm()
        self.tally.sync.add(time.perf_counter() - started)
        self.tally.commits += 1
        self.tally.events += group.size
        self._measure()

    def _checkpoint_if_due(self) -> None:
        commits, rows = self._checkpointed
        now = (self.tally.commits, self.tally.events)
        if now[0] - commits < CHECKPOINT_COMMITS and now[1] - rows < CHECKPOINT_ROWS:
            return
        self._checkpointed = now
        try:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except (sqlite3.Error, OSError) as error:
            self._fail(error)

    def _measure(self) -> None:
        self.tally.bytes = _size(self.path) + _size(f"{self.path}-wal")

    def _is_emptying_due(self) -> bool:
        is_time = time.monotonic() - self._tried_to_empty >= EMPTYING
        return self._is_to_be_emptied and is_time and self.failure is None

    def _empty_log(self) -> None:
        """Copy the log into the database and cut it to nothing.

        While somebody reads, that cannot be done: then it is tried again a little later, whether or
        not there are commits. So it is while the disk has no room for the database to grow.
        """
        self._tried_to_empty = time.monotonic()
        self._owner.check()
        self._fence.check(self._connection)
        self._connection.execute("PRAGMA busy_timeout = 200")
        try:
            busy = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        except sqlite3.Error as error:
            if not is_full(error):
                raise
            busy = True
        finally:
            self._connection.execute("PRAGMA busy_timeout = 5000")
        self._is_to_be_emptied = bool(busy)

    def _fail(self, error: Exception) -> None:
        """From now on everything is refused, what waits and what comes, until `recover`."""
        with self._lock:
            self.failure = error
            waiting, self._group = self._group, Commit()
            self.tally.failures += 1
            self.tally.waiting = 0
        # Now, not later: what waits builds on what was lost, and must not be written afterwards.
        waiting.done.set_exception(Unavailable(f"not written: {error}"))
        self.on_failure(error)

    def on_failure(self, error: Exception) -> None:
        """Called by the writing thread; the owner of the journal replaces it."""

    def recover(self, build: Callable[[], None] = lambda: None) -> None:
        """Read the journal anew after a failure. An exception says that it is not yet possible.

        Superseded says that it never will be: another process has the journal. Nothing was changed.

        build: called before anything is accepted again, to build what follows from the journal.
        """
        failure = self.failure
        if failure is None:
            return
        if isinstance(failure, Superseded):
            raise failure
        try:
            self._owner.check()
            close_without_checkpoint(self.path, self._connection)
            with self._lock:
                self._guard.close()
            if may_have_lost_pages(failure):
                copy_what_is_readable(self.path, self._owner, self._fence.check_epoch)
            self._open()
            with named_damage(self.path):  # room on the disk again?
                insert = "REPLACE INTO meta VALUES ('recovered', ?)"
                self._connection.execute(insert, (self.clock.now(),))
        except (sqlite3.Error, OSError, Superseded) as error:
            if not is_full(error):  # then this is the reason that counts
                self.failure = error
            raise
        build()
        with self._lock:
            self.failure = None
            self._filled.notify()  # the log may have to be emptied

    # Reading: each call has its own connection, which sees all that is on disk.

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        try:
            with contextlib.closing(open_reader(self.path)) as connection, named_damage(self.path):
                yield connection
        except (sqlite3.ProgrammingError, sqlite3.OperationalError) as error:
            raise Unavailable(f"the journal cannot be read: {error}") from error

    def decision(self, position: int) -> tuple[DecisionRow, AnswerRow | None] | None:
        """A decision and its answer."""
        return self._found("d.position = ?", (position,))

    def decision_of_key(self, model: int, key: str) -> tuple[DecisionRow, AnswerRow | None] | None:
        return self._found("d.model = ? AND d.key = ?", (model, key))

    def _found(self, condition: str, values: tuple[Any, ...]) -> Any:
        query = (
            f"SELECT {DECISION_COLUMNS}, {ANSWER_COLUMNS} FROM decisions d "
            f"LEFT JOIN answers a ON a.decision = d.position WHERE {condition}"
        )
        try:
            with self._lock, named_damage(self.path):  # the guard can read, and is open already
                row = self._guard.execute(query, values).fetchone()
        except (sqlite3.ProgrammingError, sqlite3.OperationalError) as error:
            raise Unavailable(f"the journal cannot be read: {error}") from error
        if row is None:
            return None
        size = len(DecisionRow._fields)
        answer = AnswerRow(*row[size:]) if row[size] is not None else None
        return DecisionRow(*row[:size]), answer

    def history(
        self, model: int, after: int, until: int | None = None
    ) -> Iterator[DecisionRow | Answered | ChangeRow]:
        """What a learner is built from, in order: the events of a model after a position.

        until: the last position that is wanted.

        Events that come meanwhile are read too. Changes of the past that come meanwhile are seen
        in part: whoever does not prevent them has to notice them, and begin again.
        """
        while True:
            with self.reading() as connection:
                if not connection.in_transaction:
                    connection.execute("BEGIN")  # one view of the journal for all queries
                last = last_position(connection)
                last = last if until is None else min(last, until)
                upto = min(after + CHUNK, last)
                events = list(_events(connection, model, after, upto))
            yield from events
            if upto >= last:
                return
            after = upto


def _events(
    connection: sqlite3.Connection, model: int, after: int, upto: int
) -> Iterator[DecisionRow | Answered | ChangeRow]:
    """The events of a model from one position, without it, to another."""
    span = (after, upto, model)
    decisions = connection.execute(
        f"SELECT {DECISION_COLUMNS} FROM decisions d WHERE d.position > ? AND d.position <= ? "
        "AND d.model = ? AND d.deferred = 0 AND d.state = 0 ORDER BY d.position",
        span,
    )
    shown = connection.execute(
        f"SELECT {DECISION_COLUMNS} FROM decisions d WHERE d.deferred = 1 AND d.active > ? "
        "AND d.active <= ? AND d.model = ? AND d.state = 0 ORDER BY d.active",
        span,
    )
    answers = connection.execute(
        f"SELECT {ANSWER_COLUMNS}, {DECISION_COLUMNS} FROM answers a "
        "JOIN decisions d ON d.position = a.decision WHERE a.position > ? AND a.position <= ? "
        "AND a.model = ? AND d.state = 0 ORDER BY a.position",
        span,
    )
    changes = connection.execute(
        "SELECT * FROM changes WHERE position > ? AND position <= ? AND model = ? "
        "ORDER BY position",
        span,
    )
    size = len(AnswerRow._fields)
    queries: list[Any] = [
        ((row[0], DecisionRow(*row)) for row in decisions),
        ((event.active, event) for event in starmap(DecisionRow, shown)),
        ((row[0], Answered(AnswerRow(*row[:size]), DecisionRow(*row[size:]))) for row in answers),
        ((row[0], ChangeRow(*row)) for row in changes),
    ]
    for _, event in merge(*queries, key=lambda pair: pair[0]):
        yield event


def _size(path: str | Path) -> int:
    """The bytes of a file; 0 if there is none."""
    with contextlib.suppress(OSError):
        return os.stat(path).st_size
    return 0


class ReadOnlyJournal(Journal):
    """A journal that is only read, also beside the process that owns it."""

    _view: sqlite3.Connection | None = None

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).resolve()
        if not self.path.is_file():
            raise FileNotFoundError(f"there is no journal {self.path}")
        check_copy(self.path)
        check_name(self.path)
        self.failure, self.tally = None, JournalTally()
        self.clock = Clock(time.time, since_boot)
        self._lock = threading.Lock()
        try:
            self._held = Held(self.path)
        except OSError as error:
            raise Unavailable(f"{self.path} cannot be read: {error.strerror}") from None
        try:
            self._guard = self._connection = open_reader(self.path)
        except sqlite3.OperationalError as error:
            self._held.release()
            raise Unavailable(f"{self.path} cannot be read: {error}") from None
        try:
            with named_damage(self.path):
                if schema_of(self._connection, self.path) < SCHEMA:
                    raise Damaged(
                        f"{self.path} is of an earlier version of onebit: "
                        "start the service on it, which brings it up to date"
                    )
                self.position = last_position(self._connection)
                self.clock.start(self._connection, self._last_time())
        except BaseException:
            self.close()
            raise

    def append(
        self, *rows: Any, statements: Iterable[tuple[str, Any]] = (), truncates: bool = False
    ) -> Commit:
        raise Unavailable(f"{self.path} is only read here")

    @contextlib.contextmanager
    def one_view(self) -> Iterator[None]:
        """Let all reads see the journal as it is now, whatever is written meanwhile.

        Until its end, the service cannot reuse its write-ahead log.
        """
        with super().reading() as connection:
            connection.execute("BEGIN")
            self.position = last_position(connection)  # the view begins with the first read
            self._view = connection
            try:
                yield
            finally:
                self._view = None

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        if self._view is None:
            with super().reading() as connection:
                yield connection
        else:
            yield self._view

    @property
    def is_written(self) -> bool:
        with self._lock:
            if not self._held.is_at(self.path):
                try:
                    before, self._held = self._held, Held(self.path)
                except OSError:
                    return False
                before.release()
            return self._held.is_locked()

    def flush(self) -> None:
        """Nothing waits to be written."""

    def close(self) -> None:
        self._connection.close()
        self._held.release()


def schema_of(connection: sqlite3.Connection, path: Path) -> int:
    """The schema of a journal, if this version can read it."""
    try:
        row = connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
    except sqlite3.OperationalError:
        row = None
    if row is None or not isinstance(row[0], int):
        raise Damaged(f"{path} is not a journal of onebit")
    if row[0] > SCHEMA:
        raise Damaged(
            f"{path} was written by a newer version of onebit (schema {row[0]}; this version knows "
            f"schemas up to {SCHEMA}): upgrade onebit"
        )
    return row[0]
