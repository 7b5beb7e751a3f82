"""Building the learner again: after a change of the past, for other settings, by other code.

What is short is built while requests wait, what is long in a thread, while the present learner goes
on answering.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic, sleep
from typing import Any, NamedTuple

import msgspec

from onebit.learner.learner import Learner
from onebit.service import snapshots
from onebit.service.engine.building import (
    REFUSED,
    Builder,
    Code,
    Version,
    code_of,
    fresh,
    is_unlearnable,
    recorded_code,
)
from onebit.service.engine.progress import Interrupted, Pace
from onebit.service.engine.records import Records
from onebit.service.engine.state import READ_ANEW, Past
from onebit.service.faults import Damaged, ServiceError, Unavailable
from onebit.service.journal import ChangeRow
from onebit.service.journal.statements import Statement

_encode = msgspec.json.Encoder().encode
AT_ONCE = 500  # events: a past that is shorter is built again while requests wait
LONGEST_PAUSE = 60.0  # seconds between two learners that are built behind the scenes
log = logging.getLogger("onebit.service")


class Edit(NamedTuple):
    """A change of the past."""

    kind: str
    affects: int  # the first position from which the learner has to be built again
    body: dict[str, Any]
    statements: Sequence[Statement]  # which make the change


class Rebuilding(Records):
    """Changes of the past, and the learners that they ask for."""

    def _begin(self) -> None:
        self._note_code()
        # A learner of another version that takes over needs no other one to be built beside it.
        if not self._resume() and self._is_stale:
            self._build_again(1)

    def _edit(self, *edits: Edit, truncates: bool = False) -> None:
        """Change the past: on disk first, then in the learner, which is built again once.

        truncates: the journal must not keep what was there before.
        """
        if edits:
            self._write_edits(*edits, truncates=truncates)
            self._build_again(min(edit.affects for edit in edits))

    def _write_edits(self, *edits: Edit, truncates: bool = False) -> None:
        self.journal.flush()  # so there is room
        first, time = self.journal.stamp(len(edits))
        rows = [
            ChangeRow(
                position, self.number, time, edit.kind, edit.affects, _encode(edit.body).decode()
            )
            for position, edit in enumerate(edits, first)
        ]
        statements = [statement for edit in edits for statement in edit.statements]
        self.journal.append(*rows, statements=statements, truncates=truncates).done.result()
        for edit in edits:
            if edit.kind == "source":
                self._sources[edit.body["source"]] = edit.body["weight"]
            self._edits.append(edit.affects)
        self._is_stale = True
        self._reached = rows[-1].position
        self._forget_entries()

    def _build_again(self, affects: int | None = None, version: Version | None = None) -> None:
        """Build the learner anew: at once if that is quick, else in a thread.

        affects: the first position that has changed; None: all has. version: another one is to
        take over.
        """
        builder = self._builder if version is None else self._builder_of(version)
        with self._lock:
            self.journal.flush()
            start = builder.start(affects)
            if self.journal.position - start[1] <= AT_ONCE and self._rebuilding is None:
                learner, _ = builder.replayed(*start)
                if version is not None:
                    builder.warm_up(learner)
                self._take_over(builder, learner)
                return
            if self._rebuilding is not None and version is None:
                return  # that one sees the change, and starts again if it has to
            self._rebuilding = threading.Thread(
                target=self._build_behind, args=(builder, start, self._reached, self._past()),
                name=f"build {self.name}", daemon=True,
            )  # fmt: skip
            self._rebuilding.start()

    def _compile(self, version: Version) -> None:
        """Compile a learner that will be built at once, while requests need not wait for it yet."""
        if self.journal.position <= AT_ONCE:
            with suppress(*REFUSED):  # then building it is refused as well, which is told
                self._builder_of(version).warm_up(fresh(version))

    def _build_behind(
        self, builder: Builder, start: tuple[Learner, int] | None, until: int, past: Past
    ) -> None:
        """Build a learner while the present one goes on answering, then let it take over.

        until: where the model was when the start was chosen; past: what was known of changes of
        the past. Up to there all is on disk. What came later is learned under the lock.

        If the past changes meanwhile, the learner takes over all the same, because it is nearer to
        the journal than the present one, and another one is built. Otherwise a model whose past
        changes all the time would never get a new learner.
        """
        is_outdated, started = False, monotonic()
        first = past  # what was known when the learner was begun, from which it may go on later
        try:
            while not self._closing.is_set():
                try:
                    if start is None:
                        is_outdated, started = False, monotonic()
                        with self._lock:
                            self.journal.flush()
                            start = builder.start()
                            until, past = self._reached, self._past()
                        first = past
                    learner, reached = self._replayed_behind(builder, start, until, first)
                    if builder is not self._builder:
                        builder.warm_up(learner)
                    with self._lock:
                        start, came = None, self._edits[past.edits :]
                        if READ_ANEW in came:
                            continue
                        is_outdated |= any(affects <= until for affects in came)
                        self.journal.flush()
                        if self._reached - until > max(AT_ONCE, 0):
                            start, until = (learner, reached), self._reached
                            past = self._past()
                            continue  # much has come meanwhile: learn it without the lock first
                        self._take_over(builder, builder.replayed(learner, reached)[0])
                        if not is_outdated:
                            self._end_building()  # a change from here on starts another thread
                            return
                        self._is_stale = True
                    # Requests need the processor, too: build for half of the time at most.
                    self._closing.wait(min(monotonic() - started, LONGEST_PAUSE))
                except Unavailable as error:
                    with self._lock:
                        # What was learned before a change may not fit what came after it.
                        is_outdated |= past.edits != len(self._edits)
                        if isinstance(error, Damaged) and not is_outdated:
                            raise
                    start = None
                    sleep(0.1)  # the journal has failed: go on when it has been read anew
        except Interrupted:
            log.info("model %s: the next start goes on building its learner", self.name)
        except Exception as error:
            with self._lock:
                self.problem = self._not_in_charge(builder.version, error)
            shown = None if is_unlearnable(error) else error  # with a traceback
            log.error("%s: %s", self.name, self.problem, exc_info=shown)
            with suppress(Unavailable):
                self._drop_version(builder.version)
        with self._lock:
            self._end_building()
            if self._is_stale and builder is not self._builder and not self._closing.is_set():
                self._build_again()  # changes of the past have relied on this thread

    def _replayed_behind(
        self, builder: Builder, start: tuple[Learner, int], until: int, first: Past
    ) -> tuple[Learner, int]:
        """Let a learner learn the events up to a position, while requests go first.

        first: what was known of changes of the past when the learner was begun.
        """
        pace = Pace(lambda: self.journal.position, self._closing)
        with self._telling(self._progress(builder, start[1], until, first, pace)) as progress:
            try:
                return builder.replayed(*start, until, progress)
            except Interrupted:
                progress.write(start[0])
                raise

    def _not_in_charge(self, version: Version, error: Exception) -> str:
        """Says that the learner of a version could not be built."""
        wanted, present = version.body["learner"], self._version.body["learner"]
        return f"{wanted} could not be built from the journal; {present} stays in charge: {error}"

    def _end_building(self) -> None:
        self._rebuilding = None

    def _take_over(self, builder: Builder, learner: Learner) -> None:
        if builder is not self._builder:
            statement = self._let_take_charge(builder.version)
            self.journal.append(statements=[statement]).done.result()
            self._builder = builder
        self._learner, self._is_stale = learner, False
        self._forget_entries()
        self._snapshot_at = 0  # take one soon

    def _start_again(self) -> None:
        """After a refused batch: the learner as the journal has it."""
        self.journal.flush()
        self._build()
        self._is_stale = False
        self._forget_entries()

    def settle(self) -> None:
        """Wait until no learner is being built behind the scenes.

        While the journal cannot be written, nothing is built, and who waits may be what keeps the
        journal from being read anew: then it is refused, unless the engine is being closed.
        """
        while (thread := self._rebuilding) is not None:
            thread.join(0.1)
            if not self._closing.is_set():
                self.journal.check_failure()

    def _resume(self) -> bool:
        """Go on with the retraining that the end of the process has interrupted, if there is one.

        Returns whether its learner is being built, or has taken over.
        """
        version = self.journal.version_after(self.number, self._version.number)
        if version is None:
            return False
        try:
            if not code_of(version.body).same_bits(Code(*version.body.get("code", ("", "")))):
                snapshots.drop_version(self._folder, self.name, version.number)
            self._build_again(None, version)
            return True
        except ServiceError as fault:
            self.problem = self._not_in_charge(version, fault)
            log.error("%s: the retraining cannot go on: %s", self.name, self.problem)
            self._drop_version(version)
            return False

    def _note_code(self) -> None:
        """Write down which code learns from now on. It has to learn all events."""
        if self._has_own_code():
            return
        now = code_of(self._version.body)
        before = recorded_code(self.journal, self.number, self._version)
        log.warning(
            "%s: the learner is built anew, because other code has learned its events (%s; this is "
            "%s)",
            self.name, before or "of an earlier version", now,
        )  # fmt: skip
        with self._lock:
            self._write_edits(Edit("code", 1, {"version": self._version.number, "code": now}, ()))
            # If no snapshot was used, this code has learned all events already.
            self._is_stale = self.replayed_from > self._builder.base_position()
