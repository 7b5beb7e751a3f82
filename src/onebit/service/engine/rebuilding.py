"""Building the learner from the journal: at a start, again, or for other settings.

What is short is built while requests wait, what is long in a thread, while the present learner goes
on answering.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic, sleep
from typing import Any, NamedTuple

import msgspec

from onebit.learner.learner import Learner
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
from onebit.service.engine.counts import Counts
from onebit.service.engine.progress import Interrupted, Pace, Progress, until_done
from onebit.service.engine.recent import RecentDecisions
from onebit.service.engine.saving import Saving
from onebit.service.engine.state import EngineState, Past, Silence
from onebit.service.engine.versions import Versions
from onebit.service.faults import Busy, Damaged, ServiceError, Unavailable
from onebit.service.journal import ChangeRow
from onebit.service.journal.statements import Statement

READ_ANEW = 0  # stands among changes of the past for a journal that was read anew
FIRST_EVENTS = 100  # which tell whether this code can read the decisions of other code
AT_ONCE = 500  # events: a past that is shorter is built again while requests wait
LONGEST_PAUSE = 60.0  # seconds between two learners that are built behind the scenes
_encode = msgspec.json.Encoder().encode
log = logging.getLogger("onebit.service")


class Edit(NamedTuple):
    """A change of the past."""

    kind: str
    affects: int  # the first position from which the learner has to be built again
    body: dict[str, Any]
    statements: Sequence[Statement]  # which make the change


class Rebuilding:
    """Builds learners, and lets them take over.

    Lock: `load`, `edit`, `build_again`, `start_again` and `check_free` are called with the lock of
    the engine or take it themselves; what builds at once keeps it, so that requests wait. The
    thread (`_build_behind`) takes it to choose where it starts and to learn what came meanwhile,
    and learns everything else without it. `settle` waits for that thread: whoever has the lock
    must not call it.

    building: tells by name how far a learner is that is being built.
    """

    def __init__(
        self,
        state: EngineState,
        decisions: RecentDecisions,
        counts: Counts,
        versions: Versions,
        saving: Saving,
        building: dict[str, Progress],
    ) -> None:
        self._state, self._journal = state, state.journal
        self._decisions, self._counts = decisions, counts
        self._versions, self._saving, self._building = versions, saving, building

    # From what the journal has.

    def load(self) -> None:
        """Build the learner from the newest good snapshot and what the journal has after it."""
        state = self._state
        with state.lock:
            state.edits.append(READ_ANEW)  # a learner that is being built starts again
            self._decisions.clear()
            self._read_labels()
            state.read_roles()
            state.sources.clear()  # the same dict as before: builders hold it
            state.sources.update(self._journal.sources(state.number))
            version = self._journal.version_in_charge(state.number)
            state.builder = self._builder_of(version or self._versions.add(state.model))
            try:
                self._build()
            except Damaged as fault:
                self._learn_as_logged(fault)
            state.retired &= set(state.learner.labels)
            state.is_stale = False
            self._saving.reached = state.replayed_from
            state.silence = Silence()
            self._counts.count()

    def _read_labels(self) -> None:
        """What the journal says of labels that came and went."""
        state = self._state
        state.retired, state.labelled_at = set(), 0
        for event in self._journal.label_events():
            if event.model != state.number:
                continue
            if event.kind == "retire":
                state.retired.add(event.label)
            else:
                state.retired.discard(event.label)
            if event.kind == "label":
                state.labelled_at = event.position

    def begin(self) -> None:
        """Build what the start asks for beside the learner that is there."""
        if self._has_own_code() or self._reads_decisions():
            self._note_code()
        elif self._asked_for() is None:
            self._ask_for_own_version()
        # A learner of another version that takes over needs no other one to be built beside it.
        if not self._resume() and self._state.is_stale:
            self.build_again(1)

    def _builder_of(self, version: Version) -> Builder:
        state = self._state
        return Builder(
            state.journal, state.name, state.number, state.folder, version, state.sources,
            state.promotions,
        )  # fmt: skip

    def _build(self) -> None:
        """The learner as the journal has it."""
        state = self._state
        start = state.builder.start()
        state.replayed_from = start[1]
        with self._telling(state.builder, start[1], self._journal.position, state.past()) as watch:
            state.learner, state.reached = state.builder.replayed(*start, None, watch)

    @contextmanager
    def _telling(
        self, builder: Builder, after: int, until: int, past: Past, pace: Pace | None = None
    ) -> Iterator[Progress]:
        """Watches over a learner that is built from one position to another, and tells of it."""
        state = self._state
        progress = self._building[state.name] = Progress(
            state.name,
            after,
            until,
            self._journal.rounds_between(state.number, after, until),
            every=self._saving.every,
            write=self._saving.of_builder(builder.version.number, past),
            pace=pace,
        )
        try:
            yield progress
        finally:
            self._building.pop(state.name, None)

    def _has_own_code(self) -> bool:
        """Whether the code that runs now has learned the events of the learner."""
        version = self._state.version
        recorded = recorded_code(self._journal, self._state.number, version)
        return code_of(version.body).same_bits(recorded)

    def _learn_as_logged(self, fault: Damaged) -> None:
        """Start from the answers alone where this code cannot read the decisions of other code."""
        if self._has_own_code():
            raise fault
        log.warning("%s; so its answers are learned anew, as those of another learner", fault)
        version = self._own_version()
        self._state.builder = self._builder_of(version)
        self._build()
        self._versions.write(version, self._versions.taking_charge(version)).result()

    def _own_version(self) -> Version:
        """The version in charge, for a learner of the code that runs now."""
        present = self._state.version
        body = {**present.body, "code": code_of(present.body)}
        return Version(self._journal.new_configuration(), body, present.learner)

    # Changes of the past.

    def edit(self, *edits: Edit, truncates: bool = False) -> None:
        """Change the past: on disk first, then in the learner, which is built again once.

        truncates: the journal must not keep what was there before.
        """
        if edits:
            self._write_edits(*edits, truncates=truncates)
            self.build_again(min(edit.affects for edit in edits))

    def _write_edits(self, *edits: Edit, truncates: bool = False) -> None:
        state = self._state
        self._journal.flush()  # so there is room
        first, time = self._journal.stamp(len(edits))
        rows = [
            ChangeRow(
                position, state.number, time, edit.kind, edit.affects, _encode(edit.body).decode()
            )
            for position, edit in enumerate(edits, first)
        ]
        statements = [statement for edit in edits for statement in edit.statements]
        self._journal.append(*rows, statements=statements, truncates=truncates).done.result()
        for edit in edits:
            if edit.kind == "source":
                state.sources[edit.body["source"]] = edit.body["weight"]
            state.edits.append(edit.affects)
        state.is_stale = True
        state.reached = rows[-1].position
        self._decisions.clear()

    # At once, or in a thread.

    def build_again(self, affects: int | None = None, version: Version | None = None) -> None:
        """Build the learner anew: at once if that is quick, else in a thread.

        affects: the first position that has changed; None: all has. version: another one is to
        take over.
        """
        state = self._state
        builder = state.builder if version is None else self._builder_of(version)
        with state.lock:
            self._journal.flush()
            start = builder.start(affects)
            if self._journal.position - start[1] <= AT_ONCE and state.thread is None:
                learner, _ = builder.replayed(*start)
                if version is not None:
                    builder.warm_up(learner)
                self._take_over(builder, learner)
                return
            if state.thread is not None and version is None:
                return  # that one sees the change, and starts again if it has to
            thread = threading.Thread(
                target=self._build_behind, args=(builder, start, state.reached, state.past()),
                name=f"build {state.name}", daemon=True,
            )  # fmt: skip
            thread.start()
            state.thread = thread  # others may join it now; it ends under the lock

    def compile(self, version: Version) -> None:
        """Compile a learner that will be built at once, while requests need not wait for it yet."""
        if self._journal.position <= AT_ONCE:
            with suppress(*REFUSED):  # then building it is refused as well, which is told
                self._builder_of(version).warm_up(fresh(version))

    def check_free(self) -> None:
        """Busy if a learner is being built behind the scenes."""
        state = self._state
        if state.thread is not None:
            progress = self._building.get(state.name)
            left = until_done({} if progress is None else {state.name: progress})
            raise Busy("a learner is being built already", retry_after=left or 5)

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
        state = self._state
        is_outdated, started = False, monotonic()
        first = past  # what was known when the learner was begun, from which it may go on later
        try:
            while not state.closing.is_set():
                try:
                    if start is None:
                        is_outdated, started = False, monotonic()
                        with state.lock:
                            self._journal.flush()
                            start = builder.start()
                            until, past = state.reached, state.past()
                        first = past
                    learner, reached = self._replayed_behind(builder, start, until, first)
                    if builder is not state.builder:
                        builder.warm_up(learner)
                    with state.lock:
                        start, came = None, state.edits[past.edits :]
                        if READ_ANEW in came:
                            continue
                        is_outdated |= any(affects <= until for affects in came)
                        self._journal.flush()
                        if state.reached - until > max(AT_ONCE, 0):
                            start, until = (learner, reached), state.reached
                            past = state.past()
                            continue  # much has come meanwhile: learn it without the lock first
                        self._take_over(builder, builder.replayed(learner, reached)[0])
                        if not is_outdated:
                            self._end_building()  # a change from here on starts another thread
                            return
                        state.is_stale = True
                    # Requests need the processor, too: build for half of the time at most.
                    state.closing.wait(min(monotonic() - started, LONGEST_PAUSE))
                except Unavailable as error:
                    with state.lock:
                        # What was learned before a change may not fit what came after it.
                        is_outdated |= past.edits != len(state.edits)
                        if isinstance(error, Damaged) and not is_outdated:
                            raise
                    start = None
                    sleep(0.1)  # the journal has failed: go on when it has been read anew
        except Interrupted:
            log.info("model %s: the next start goes on building its learner", state.name)
        except Exception as error:
            with state.lock:
                state.problem = self.not_in_charge(builder.version, error)
            shown = None if is_unlearnable(error) else error  # with a traceback
            log.error("%s: %s", state.name, state.problem, exc_info=shown)
            with suppress(Unavailable):
                self._versions.drop(builder.version)
        with state.lock:
            self._end_building()
            if state.is_stale and builder is not state.builder and not state.closing.is_set():
                self.build_again()  # changes of the past have relied on this thread

    def _replayed_behind(
        self, builder: Builder, start: tuple[Learner, int], until: int, first: Past
    ) -> tuple[Learner, int]:
        """Let a learner learn the events up to a position, while requests go first.

        first: what was known of changes of the past when the learner was begun.
        """
        pace = Pace(lambda: self._journal.position, self._state.closing)
        with self._telling(builder, start[1], until, first, pace) as progress:
            try:
                return builder.replayed(*start, until, progress)
            except Interrupted:
                progress.write(start[0])
                raise

    def not_in_charge(self, version: Version, error: Exception) -> str:
        """Says that the learner of a version could not be built."""
        wanted, present = version.body["learner"], self._state.version.body["learner"]
        return f"{wanted} could not be built from the journal; {present} stays in charge: {error}"

    def _end_building(self) -> None:
        self._state.thread = None

    def _take_over(self, builder: Builder, learner: Learner) -> None:
        state = self._state
        if builder is not state.builder:
            self._versions.let_take_charge(builder.version)
            state.builder = builder
        state.learner, state.is_stale = learner, False
        self._decisions.clear()
        self._saving.reached = 0  # take one soon

    def start_again(self) -> None:
        """After a refused batch: the learner as the journal has it."""
        self._journal.flush()
        self._build()
        self._state.is_stale = False
        self._decisions.clear()

    def settle(self) -> None:
        """Wait until no learner is being built behind the scenes.

        While the journal cannot be written, nothing is built, and who waits may be what keeps the
        journal from being read anew: then it is refused, unless the engine is being closed.
        """
        while (thread := self._state.thread) is not None:
            thread.join(0.1)
            if not self._state.closing.is_set():
                self._journal.check_failure()

    # At a start.

    def _resume(self) -> bool:
        """Go on with the retraining that the end of the process has interrupted, if there is one.

        Returns whether its learner is being built, or has taken over.
        """
        state = self._state
        version = self._asked_for()
        if version is None:
            return False
        try:
            if not code_of(version.body).same_bits(Code(*version.body.get("code", ("", "")))):
                self._saving.drop_version(version.number)
            self.build_again(None, version)
            return True
        except ServiceError as fault:
            state.problem = self.not_in_charge(version, fault)
            log.error("%s: the retraining cannot go on: %s", state.name, state.problem)
            self._versions.drop(version)
            return False

    def _asked_for(self) -> Version | None:
        """The version whose learner is to take over when it is built."""
        return self._journal.version_after(self._state.number, self._state.version.number)

    def _reads_decisions(self) -> bool:
        """Whether this code can learn from decisions of other code: from the first ones."""
        builder = self._state.builder
        learner, position = builder.first()
        try:
            builder.replayed(learner, position, position + FIRST_EVENTS)
        except Damaged as fault:
            if not is_unlearnable(fault):
                raise
            return False
        return True

    def _ask_for_own_version(self) -> None:
        """The learner of a snapshot by other code answers until that of this code is built, from
        the answers alone."""
        log.warning(
            "%s: this code cannot read the decisions of the earlier one, so their answers are "
            "learned anew, as those of another learner",
            self._state.name,
        )
        with self._state.lock:
            self._versions.write(self._own_version()).result()

    def _note_code(self) -> None:
        """Write down which code learns from now on. It has to learn all events."""
        if self._has_own_code():
            return
        state = self._state
        now = code_of(state.version.body)
        before = recorded_code(self._journal, state.number, state.version)
        log.warning(
            "%s: the learner is built anew, because other code has learned its events (%s; this is "
            "%s)",
            state.name, before or "of an earlier version", now,
        )  # fmt: skip
        with state.lock:
            self._write_edits(Edit("code", 1, {"version": state.version.number, "code": now}, ()))
            # If no snapshot was used, this code has learned all events already.
            state.is_stale = state.replayed_from > state.builder.base_position()
