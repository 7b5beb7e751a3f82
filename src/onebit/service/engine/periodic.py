"""Periodic work: silence that is read as wrong, snapshots, compaction of old rounds."""

from __future__ import annotations

import logging
from pathlib import Path

from onebit.learner import files
from onebit.learner.learner import Learner
from onebit.service.engine.feedback import Feedback
from onebit.service.engine.progress import Pace
from onebit.service.engine.revisions import SILENCE, Given
from onebit.service.journal import ACTIVE, statements

log = logging.getLogger("onebit.service")
COMPACTED = 10_000  # decisions or answers that are compacted at once


class PeriodicWork(Feedback):
    """Does what is due: `tick` is called about once a second."""

    def tick(self) -> None:
        """Do what is due."""
        if self.model.wrong_after is not None:
            self._hear_silence(self.model.wrong_after)
        if self._reached - self._snapshot_at >= self._snapshot_every:
            self.snapshot()
        if self._retention is not None:
            self._compact_old(self._retention)

    def _hear_silence(self, wrong_after: float) -> None:
        """Read silence as wrong where no feedback came in time."""
        _, now = self.journal.stamp(0)
        if not self._marks or now - self._marks[-1][0] >= wrong_after / 100:
            self._marks.append((now, self.journal.position))
        while True:
            watched = self._watched
            due = self.journal.silent_decisions(self.number, watched, now - wrong_after, 100)
            with self._lock:
                for position, token, _ in due:
                    entry = self._entry(f"{position:x}-{token}")
                    if entry.answer is None and entry.row.state == ACTIVE:
                        self.journal.check_room()
                        self._learn(entry, Given(False, None, SILENCE))
                if self._watched != watched:
                    continue  # something earlier waits for feedback again
                if due:
                    self._watched = due[-1][2]
                while not due and self._marks and self._marks[0][0] <= now - wrong_after:
                    self._watched = max(self._watched, self._marks.popleft()[1])
            if not due:
                return
            self.journal.flush()

    def snapshot(self) -> Path | None:
        """Write the learner down as it is now; None if that makes no sense at the moment."""
        with self._lock:
            if self._is_stale:
                return None
            position, version, dumped = self._reached, self._version.number, self._learner._dump()
            past = self._past()
        self.journal.flush()
        self._snapshot_at = position
        return self._write_snapshot(dumped, version, position, past)

    def _compact_old(self, retention: float) -> None:
        """Compact rounds that are older than the retention time.

        This is done twenty times per retention time, so a round stays at most a twentieth longer.
        """
        _, now = self.journal.stamp(0)
        if now - retention - self._compacted >= retention / 20:
            while self.compact(now - retention):
                pass
            self._compacted = now - retention
            with self._lock:
                self.journal.flush()
                self._count()

    def compact(self, before: float) -> int:
        """Keep what was learned before a time as a learner, and delete the rounds.

        Deleted are decisions that were answered, cancelled, erased, or have expired, and their
        answers. Open decisions stay, and all that came after the first answer of a source in
        quarantine: it may yet be learned, in its place. The learner, the base of the journal, and
        the deletion are one transaction. At most COMPACTED events are taken at once: returns by how
        many positions the base has moved on; 0 if there was nothing to compact.
        """
        with self._lock:
            if self._rebuilding is not None:
                return 0
            builder, edits = self._builder, len(self._edits)
        self.journal.flush()
        start = builder.base_position()
        until = self._last_before(start, before)
        unlearned = self.journal.first_answer_in_quarantine(self.number, until)
        if unlearned is not None:
            until = unlearned - 1
            log.info("%s: rounds are kept because of a source in quarantine", self.name)
        if until <= start:
            return 0
        pace = Pace(lambda: self.journal.position, self._closing)
        learner, _ = builder.replayed(*builder.start(until + 1), until, lambda *_: pace())
        with self._lock:
            is_same = edits == len(self._edits) and builder is self._builder
            if self._rebuilding is not None or not is_same:
                return 0  # the past has changed meanwhile, or another learner reads these rounds
            self._replace_by_base(learner, until)
        return until - start

    def _last_before(self, start: int, before: float) -> int:
        """The last position before a time, at most COMPACTED events after the start."""
        found = start
        for table in ("decisions", "answers", "changes"):
            rows = self.journal.times(table, self.number, start, COMPACTED)
            # Times do not run backwards.
            found = max([found, *(position for position, time in rows if time < before)])
            if len(rows) == COMPACTED:
                before = min(before, rows[-1][1])
        return found

    def _replace_by_base(self, learner: Learner, until: int) -> None:
        """Let a learner stand for what came up to a position."""
        values = {
            "model": self.number,
            "version": self._version.number,
            "until": until,
            "learner": files.pack(*learner._dump()),
            "expired": self._expired_before(),
            "hears_silence": self.model.wrong_after is not None,
        }
        gone = self.journal.compacted(values)
        replaced = statements.replace_by_base(values)
        self.journal.append(statements=replaced).done.result()
        self._totals.is_known = False
        for position in gone:
            self._forget_entry(position)

    def close(self) -> None:
        """Write a last snapshot. The journal has everything; this makes the next start quick."""
        self._closing.set()
        self.settle()
        if self.journal.failure is None and self._reached > self._snapshot_at:
            self.snapshot()
