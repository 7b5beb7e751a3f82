"""What time brings: silence that is read as wrong, snapshots, compaction of old rounds."""

from __future__ import annotations

import logging

from onebit.learner import files
from onebit.learner.learner import Learner
from onebit.service.engine.answering import Answering
from onebit.service.engine.counts import Counts
from onebit.service.engine.progress import Pace
from onebit.service.engine.recent import RecentDecisions
from onebit.service.engine.saving import Saving
from onebit.service.engine.state import EngineState
from onebit.service.journal import statements

log = logging.getLogger("onebit.service")
COMPACTED = 10_000  # decisions or answers that are compacted at once


class Schedule:
    """Does what is due: `tick` is called about once a second, by one thread.

    Lock: what has to be done is found out without the lock of the engine, and a learner that is to
    stand for old rounds is built without it. It is held while a hundred silences are learned, and
    while old rounds are replaced; nobody may call these methods with it.

    retention: the age at which rounds are compacted; None: they stay.
    """

    retention: float | None = None

    def __init__(
        self,
        state: EngineState,
        decisions: RecentDecisions,
        counts: Counts,
        saving: Saving,
        answering: Answering,
    ) -> None:
        self._state, self._decisions, self._counts = state, decisions, counts
        self._saving, self._answering = saving, answering
        self._compacted = 0.0  # up to which time

    def tick(self) -> None:
        """Do what is due."""
        wrong_after = self._state.model.wrong_after
        if wrong_after is not None:
            self._hear_silence(wrong_after)
        if self._saving.is_due:
            self._saving.take()
        if self.retention is not None:
            self._compact_old(self.retention)

    def _hear_silence(self, wrong_after: float) -> None:
        """Read silence as wrong where no feedback came in time."""
        state = self._state
        _, now = state.journal.stamp(0)
        marks = state.silence.marks
        if not marks or now - marks[-1][0] >= wrong_after / 100:
            marks.append((now, state.journal.position))
        while True:
            upto = state.silence.upto
            due = state.journal.silent_decisions(state.number, upto, now - wrong_after, 100)
            with state.lock:
                self._answering.hear_silence([f"{at:x}-{token}" for at, token, _ in due])
                silence = state.silence
                if silence.upto != upto:
                    continue  # something earlier waits for feedback again
                if due:
                    silence.upto = due[-1][2]
                while not due and silence.marks and silence.marks[0][0] <= now - wrong_after:
                    silence.upto = max(silence.upto, silence.marks.popleft()[1])
            if not due:
                return
            state.journal.flush()

    def _compact_old(self, retention: float) -> None:
        """Compact rounds that are older than the retention time.

        This is done twenty times per retention time, so a round stays at most a twentieth longer.
        """
        state = self._state
        _, now = state.journal.stamp(0)
        if now - retention - self._compacted >= retention / 20:
            while self.compact(now - retention):
                pass
            self._compacted = now - retention
            with state.lock:
                state.journal.flush()
                self._counts.count()

    def compact(self, before: float) -> int:
        """Keep what was learned before a time as a learner, and delete the rounds.

        Deleted are decisions that were answered, cancelled, erased, or have expired, and their
        answers. Open decisions stay, and all that came after the first answer of a source in
        quarantine: it may yet be learned, in its place. The learner, the base of the journal, and
        the deletion are one transaction. At most COMPACTED events are taken at once: returns by how
        many positions the base has moved on; 0 if there was nothing to compact.
        """
        state = self._state
        with state.lock:
            if state.thread is not None:
                return 0
            builder, edits = state.builder, len(state.edits)
        state.journal.flush()
        start = builder.base_position()
        until = self._last_before(start, before)
        unlearned = state.journal.first_answer_in_quarantine(state.number, until)
        if unlearned is not None:
            until = unlearned - 1
            log.info("%s: rounds are kept because of a source in quarantine", state.name)
        if until <= start:
            return 0
        pace = Pace(lambda: state.journal.position, state.closing)
        learner, _ = builder.replayed(*builder.start(until + 1), until, lambda *_: pace())
        with state.lock:
            is_same = edits == len(state.edits) and builder is state.builder
            if state.thread is not None or not is_same:
                return 0  # the past has changed meanwhile, or another learner reads these rounds
            self._replace_by_base(learner, until)
        return until - start

    def _last_before(self, start: int, before: float) -> int:
        """The last position before a time, at most COMPACTED events after the start."""
        state, found = self._state, start
        for table in ("decisions", "answers", "changes"):
            rows = state.journal.times(table, state.number, start, COMPACTED)
            # Times do not run backwards.
            found = max([found, *(position for position, time in rows if time < before)])
            if len(rows) == COMPACTED:
                before = min(before, rows[-1][1])
        return found

    def _replace_by_base(self, learner: Learner, until: int) -> None:
        """Let a learner stand for what came up to a position."""
        state = self._state
        values = {
            "model": state.number,
            "version": state.version.number,
            "until": until,
            "learner": files.pack(*files.dump(learner)),
            "expired": state.expired_before(),
            "hears_silence": state.model.wrong_after is not None,
        }
        gone = state.journal.compacted(values)
        replaced = statements.replace_by_base(values)
        state.journal.append(statements=replaced).done.result()
        self._counts.totals.is_known = False
        for position in gone:
            self._decisions.forget(position)
