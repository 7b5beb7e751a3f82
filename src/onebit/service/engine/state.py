"""Shared by all parts of an engine: the learner, its versions, and the recent decisions."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

import msgspec
import numpy as np

from onebit.learner import files
from onebit.learner.learner import Learner
from onebit.service import snapshots
from onebit.service.configuration import Limits, Model
from onebit.service.engine.building import (
    Builder,
    Version,
    code_of,
    identity,
    recorded_code,
    version_of,
    was_right,
)
from onebit.service.engine.checks import refusing
from onebit.service.engine.entries import Entry, id_of, parsed_id
from onebit.service.engine.pending import DONE
from onebit.service.engine.progress import Pace, Progress
from onebit.service.faults import Cancelled, Damaged, Expired, UnknownDecision
from onebit.service.journal import CANCELLED, ERASED, DecisionRow, Journal, statements
from onebit.service.journal.statements import Statement
from onebit.service.messages import Label, Standing, State
from onebit.service.tally import ModelTally, Totals

READ_ANEW = 0  # stands among changes of the past for a journal that was read anew
# Decisions that are kept in memory, besides those that wait for the disk; and their bytes, about.
RECENT, RECENT_BYTES = 5_000, 2**25
# What takes longer is done in a thread: some milliseconds of an event loop, whatever the context.
LONG = 2**21  # bytes of a context, times labels
READING = 256  # labels: reading a byte takes as long as learning it for so many
FEW = 4  # contexts
LARGE = 2**24  # bytes of a table
P = ParamSpec("P")
T = TypeVar("T")
_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode
log = logging.getLogger("onebit.service")


def _number_of(journal: Journal, name: str) -> int:
    """The number of a model in the journal; a new model gets the next one."""
    if name not in journal.models():
        journal.append(statements=[statements.add_model(name)]).done.result()
    return journal.models()[name]


class _MustWait(Exception):
    """What was submitted cannot be done at once."""


class Past(NamedTuple):
    """What was known of changes of the past when a learner was built, or was started with."""

    edit: int  # the position of the last one
    edits: int  # how many the engine had seen


class EngineState:
    """The learner of a model, and its place in the journal.

    journal: where everything is kept. folder: for snapshots. keep: how many of the newest.
    snapshot_every: events between two of them. retention: the age at which rounds are compacted.
    building: tells by name how far a learner is that is being built.
    """

    _builder: Builder
    _learner: Learner
    _reached: int  # the position up to which the learner has learned

    def __init__(
        self,
        journal: Journal,
        model: Model,
        *,
        folder: Path,
        limits: Limits | None = None,
        keep: int = 3,
        snapshot_every: int = 10_000,
        retention: float | None = None,
        building: dict[str, Progress] | None = None,
    ) -> None:
        self.journal, self.model, self.name = journal, model, model.name
        self.limit(limits or Limits(), keep, retention)
        self._snapshot_every = snapshot_every
        self._building = {} if building is None else building
        self._compacted = 0.0  # up to which time
        self._lock = threading.RLock()
        self._may_wait = True  # for the disk, or for a learner to be built
        self._folder = folder
        self.number = _number_of(journal, model.name)
        self.tally = ModelTally()
        self._rebuilding: threading.Thread | None = None
        self._edits: list[int] = []  # the first positions that changes of the past have affected
        self._closing = threading.Event()
        self._sources: dict[str, float] = {}  # the weights of sources of feedback
        self.replayed_from = 0  # the position of the snapshot that start-up has used
        self.problem = ""  # why the learner that was asked for last is not in charge
        snapshots.drop_erased(journal, folder, self.name, self.number)
        self.load()
        self._begin()

    def load(self) -> None:
        """Build the learner from the newest good snapshot and what the journal has after it."""
        with self._lock:
            self._edits.append(READ_ANEW)  # a learner that is being built starts again
            self._forget_entries()
            self._retired: set[Label] = set()
            self._labelled_at = 0  # the position of the newest label
            for event in self.journal.label_events():
                if event.model != self.number:
                    continue
                if event.kind == "retire":
                    self._retired.add(event.label)
                else:
                    self._retired.discard(event.label)
                if event.kind == "label":
                    self._labelled_at = event.position
            self._sources.clear()  # the same dict as before: builders hold it
            self._sources.update(self.journal.sources(self.number))
            version = self.journal.version_in_charge(self.number) or self._add_version(self.model)
            self._builder = self._builder_of(version)
            try:
                self._build()
            except Damaged as fault:
                self._learn_as_logged(fault)
            self._retired &= set(self._learner.labels)
            self._is_stale = False  # whether the past has changed since it was built
            self._snapshot_at = self.replayed_from
            # Among decisions that count from up to this position, silence was looked for.
            self._watched = 0
            self._marks: deque[tuple[float, int]] = deque()  # times, and how far the journal was
            self._count()

    def _begin(self) -> None:
        """Called when the learner has been built at the start; a subclass overrides it."""

    def attempt(self, submit: Callable[P, T], *args: P.args, **options: P.kwargs) -> T | None:
        """Submit a request of this engine if that takes no waiting; else None, and nothing is done.

        For an event loop. It would have to wait while another thread has the engine, and where the
        learner has to be built again: then it submits from a thread.
        """
        if not self._lock.acquire(blocking=False):
            return None
        self._may_wait = False
        try:
            return submit(*args, **options)
        except _MustWait:
            return None
        finally:
            self._may_wait = True
            self._lock.release()

    def _will_work(self, size: int) -> None:
        """Called before a context of so many bytes is read and learned."""
        if size * (READING + self._learner._size) > LONG:
            self._will_wait()

    def _will_work_on(self, items: Sequence[Any]) -> None:
        """Called before several contexts are read or learned."""
        if len(items) > FEW:
            self._will_wait()

    @property
    def _is_large(self) -> bool:
        """Whether a change of all weights takes long."""
        return self._learner._state.table.nbytes > LARGE

    def _will_wait(self) -> None:
        """Called before anything is done that has to wait."""
        if not self._may_wait:
            raise _MustWait

    @property
    def _version(self) -> Version:
        return self._builder.version

    def _builder_of(self, version: Version) -> Builder:
        return Builder(self.journal, self.name, self.number, self._folder, version, self._sources)

    def _build(self) -> None:
        """The learner as the journal has it."""
        start = self._builder.start()
        self.replayed_from = start[1]
        until, past = self.journal.position, self._past()
        with self._telling(self._progress(self._builder, start[1], until, past)) as progress:
            self._learner, self._reached = self._builder.replayed(*start, None, progress)

    def _progress(
        self, builder: Builder, after: int, until: int, past: Past, pace: Pace | None = None
    ) -> Progress:
        """Watches over a learner that is built from one position to another."""
        version = builder.version.number

        def write(learner: Learner, position: int) -> None:
            if not self._has_changed(past, position):
                self._write_snapshot(learner._dump(), version, position, past)

        return Progress(
            self.name,
            after,
            until,
            self.journal.rounds_between(self.number, after, until),
            every=self._snapshot_every,
            write=write,
            pace=pace,
        )

    @contextmanager
    def _telling(self, progress: Progress) -> Iterator[Progress]:
        """Lets others know how far a learner is."""
        self._building[self.name] = progress
        try:
            yield progress
        finally:
            self._building.pop(self.name, None)

    def _past(self) -> Past:
        return Past(self.journal.last_change_of_the_past(self.number), len(self._edits))

    def _has_changed(self, past: Past, position: int) -> bool:
        """Whether a change has come that affects what is learned up to a position."""
        return any(affects <= position for affects in self._edits[past.edits :])

    def _write_snapshot(
        self, dumped: tuple[Any, Any], version: int, position: int, past: Past
    ) -> Path | None:
        """Write a learner down; None: a change of the past has come.

        All that it has learned must be on disk. Called without the lock, because a large learner
        takes long to write, and requests go on meanwhile.
        """
        folder = self._folder
        path = snapshots.path_of(
            self.journal, folder, self.name, self.number, version, position, past.edit
        )
        files.write(path, *dumped, mode=0o600)
        with self._lock:
            if self._has_changed(past, position):  # it may have learned what was erased meanwhile
                path.unlink(missing_ok=True)
                return None
        snapshots.drop_old(self.journal, folder, self.name, self.number, self._keep)
        return path

    def _has_own_code(self) -> bool:
        """Whether the code that runs now has learned the events of the learner."""
        recorded = recorded_code(self.journal, self.number, self._version)
        return code_of(self._version.body).same_bits(recorded)

    def _learn_as_logged(self, fault: Damaged) -> None:
        """Start from the answers alone where this code cannot read the decisions of other code."""
        if self._has_own_code():
            raise fault
        log.warning("%s; so its answers are learned anew, as those of another learner", fault)
        body = {**self._version.body, "code": code_of(self._version.body)}
        version = Version(self.journal.new_configuration(), body, self._version.learner)
        self._builder = self._builder_of(version)
        self._build()
        self._write_version(version, self._let_take_charge(version)).result()

    def _add_version(self, model: Model) -> Version:
        """Write down how the learner is made at the beginning."""
        version = version_of(model, self.journal.new_configuration())
        self._write_version(version, self._let_take_charge(version)).result()
        return version

    def _write_version(self, version: Version, *further: Statement) -> Future[None]:
        _, time = self.journal.stamp(0)
        insert = statements.add_version(self.number, version, time)
        return self.journal.append(statements=[insert, *further]).done

    def _let_take_charge(self, version: Version) -> Statement:
        return statements.let_take_charge(self.number, version.number)

    def _drop_version(self, version: Version) -> None:
        """Its learner cannot be built. If the file asks for it, the next start tries it again."""
        if version.number == self._version.number:
            return
        changed, followed = [statements.drop_version(version.number)], self._followed()
        if followed is not None and followed["identity"] == identity(version):
            changed.append(self._follow_note(followed["labels"], identity(self._version)))
        self.journal.append(statements=changed).done.result()

    @property
    def _file(self) -> str:
        return f"configuration of {self.number}"

    def _followed(self) -> dict[str, Any] | None:
        """What the configuration file said when it was last followed."""
        noted = self.journal.note(self._file)
        return None if noted is None else _decode(noted)

    def _follow_note(self, labels: list[Label], identity: Any) -> Statement:
        """Notes what was followed of the configuration file."""
        said = _encode({"labels": labels, "identity": identity}).decode()
        return statements.note(self._file, said)

    def _count(self) -> None:
        """Count what the journal has: answers, and what waits for them and has not expired."""
        self._counted_at = self.journal.stamp(0)[1]
        tally = self.tally
        self._open_since = self._expired_before()
        # Up to here, decisions have expired; those after it are counted as open.
        self._open_after = self.journal.last_decision_before(self._open_since)
        tally.open = self.journal.unanswered(self.number, self._open_after, self.journal.position)
        tally.answers, tally.mistakes = self.journal.answers(self.number)
        self._count_totals()

    def _count_totals(self) -> None:
        """Count what the model card tells of rounds and sources. It reads all of them."""
        sources = self.journal.answers_by_source(self.number, Totals.MOST)
        self._totals = Totals(*self.journal.rounds_that_count(self.number), sources)

    def _count_expired(self) -> None:
        """Count what has expired since the last count as open no more. It reads nothing else."""
        self._counted_at, self._open_since = self.journal.stamp(0)[1], self._expired_before()
        after = self._open_after
        self._open_after = self.journal.last_decision_before(self._open_since, after)
        self.tally.open -= self.journal.unanswered(self.number, after, self._open_after)

    def _tally_open(self, row: DecisionRow, sign: int) -> None:
        """Count a decision as open (1), or no more (-1), unless `_count` took it for expired."""
        if row.time >= self._open_since:
            self.tally.open += sign

    def _tally_answer(self, entry: Entry, sign: int) -> None:
        """Count the answer of a decision (1), or count it no more (-1)."""
        assert entry.answer is not None
        self.tally.answers += sign
        self.tally.mistakes += 0 if was_right(entry.answer, entry.row) else sign
        self._totals.count_answer(entry.answer.source, sign)

    def _tally_round(self, row: DecisionRow, sign: int) -> None:
        """Count a round (1), or count it no more (-1), if it counts at all."""
        if row.active is not None:
            count = self._totals.add if sign > 0 else self._totals.remove
            count(row.propensity, row.explored)

    def warm_up(self) -> None:
        """Compile what requests will need."""
        with self._lock:
            builder, learner = self._builder, self._learner.copy()
        builder.warm_up(learner)

    def limit(self, limits: Limits, keep: int, retention: float | None = None) -> None:
        self._limits, self._keep, self._retention = limits, keep, retention

    @property
    def names(self) -> tuple[int, int | None]:
        """How many names have weights of their own, and the most that may have."""
        learner = self._learner
        return learner._own_rows, learner.vocabulary

    @property
    def learner(self) -> Learner:
        """A copy of the learner as it is now."""
        with self._lock:
            return self._learner.copy()

    def replayed(self) -> Learner:
        """The learner built from the journal alone, without snapshots: for `onebit replay`."""
        with self._lock:
            self.journal.flush()
            return self._builder.replayed(*self._builder.first())[0]

    def forecasts(self, contexts: Sequence[Any]) -> np.ndarray:
        """The scores [context, label] as the learner is now. Nothing is written down."""
        with self._lock, refusing("$.context"):
            return self._learner.scores([self._builder.prepared(context) for context in contexts])

    # Decisions.

    def _entry(self, id: str) -> Entry:
        """The decision with this id."""
        position, token = parsed_id(id)
        entry = self._recent.get(position)
        if entry is None:
            found = self.journal.decision(position)
            if found is not None:
                entry = Entry(*found, None, DONE)
        if entry is None or entry.row.token != token or entry.row.model != self.number:
            raise UnknownDecision(f"there is no decision {id!r}")
        return entry

    def _entry_of_key(self, key: str) -> Entry | None:
        if key in self._keys:
            return self._recent[self._keys[key]]
        found = self.journal.decision_of_key(self.number, key)
        return None if found is None else Entry(*found, None, DONE)

    def _remember(self, entry: Entry) -> None:
        position = entry.row.position
        if position not in self._recent:
            self._recent_bytes += entry.size
        self._recent[position] = entry
        self._recent.move_to_end(position)  # what waits for the disk must not fall out
        while len(self._recent) > RECENT or self._recent_bytes > RECENT_BYTES:
            old = next(iter(self._recent.values()))
            if old.commit is None or not old.commit.done():
                return
            self._forget_entry(old.row.position)

    def _forget_entry(self, position: int) -> None:
        """Keep a decision in memory no longer."""
        entry = self._recent.pop(position, None)
        if entry is None:
            return
        self._recent_bytes -= entry.size
        if entry.row.key is not None:
            self._keys.pop(entry.row.key, None)

    def _forget_entries(self) -> None:
        self._recent, self._recent_bytes = OrderedDict[int, Entry](), 0
        self._keys: dict[str, int] = {}

    def _standing(self, entry: Entry) -> Standing:
        return Standing(id=id_of(entry.row), state=self._state(entry))

    def _state(self, entry: Entry) -> State:
        if entry.row.state == CANCELLED:
            return "cancelled"
        if entry.row.state == ERASED:
            return "erased"
        if entry.answer is not None:
            return "learned"
        if self._is_expired(entry):
            return "expired"
        return "open" if entry.row.active is not None else "waiting"

    def _is_expired(self, entry: Entry) -> bool:
        return entry.row.time < self._expired_before()

    def _expired_before(self) -> float:
        after = self.model.expires_after
        return 0.0 if after is None else self.journal.stamp(0)[1] - after

    def _check_answerable(self, entry: Entry) -> None:
        if entry.row.state == CANCELLED:
            raise Cancelled(f"decision {id_of(entry.row)} was cancelled")
        if entry.row.state == ERASED:
            raise Expired(f"decision {id_of(entry.row)} was erased")

    def _check_in_time(self, entry: Entry) -> None:
        if self._is_expired(entry):
            self.tally.expired += 1
            raise Expired(
                f"decision {id_of(entry.row)} was made more than "
                f"{self.model.expires_after:,.0f} s ago (expires_after)"
            )
