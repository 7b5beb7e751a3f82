"""Snapshots of one model: when its learner is written down, and which files stay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from onebit.learner import files
from onebit.learner.learner import Learner
from onebit.service import snapshots
from onebit.service.engine.state import EngineState, Past


class Saving:
    """Writes learners down, and keeps the files that are worth it.

    Lock: held while a learner is read and while a file that may be of no use is removed; not while
    a file is written, because a large learner takes long and requests go on meanwhile. So `take`
    and `write` are called without it.

    every: events between two snapshots. keep: how many of the newest stay.
    """

    def __init__(self, state: EngineState, keep: int, every: int) -> None:
        self._state, self.keep, self.every = state, keep, every
        self.reached = 0  # the position of the last one

    @property
    def is_due(self) -> bool:
        return self._state.reached - self.reached >= self.every

    @property
    def is_behind(self) -> bool:
        """Whether the learner has learned anything since."""
        return self._state.reached > self.reached

    def take(self) -> Path | None:
        """Write the learner down as it is now; None if that makes no sense at the moment."""
        state = self._state
        with state.lock:
            if state.is_stale:
                return None
            position, version = state.reached, state.version.number
            dumped, past = files.dump(state.learner), state.past()
        state.journal.flush()
        self.reached = position
        return self.write(dumped, version, position, past)

    def of_builder(self, version: int, past: Past) -> Callable[[Learner, int], None]:
        """Keeps a learner of a version that is being built, unless the past changes."""

        def write(learner: Learner, position: int) -> None:
            if not self._state.has_changed(past, position):
                self.write(files.dump(learner), version, position, past)

        return write

    def write(
        self, dumped: tuple[Any, Any], version: int, position: int, past: Past
    ) -> Path | None:
        """Write a learner down; None: a change of the past has come.

        All that it has learned must be on disk.
        """
        state = self._state
        model = (state.journal, state.folder, state.name, state.number)
        path = snapshots.path_of(*model, version, position, past.edit)
        files.write(path, *dumped, mode=0o600)
        with state.lock:
            if state.has_changed(past, position):  # it may have learned what was erased meanwhile
                path.unlink(missing_ok=True)
                return None
        snapshots.drop_old(*model, self.keep)
        return path

    def drop_erased(self) -> None:
        """Remove what may know a context that was erased, as far as an earlier process left it."""
        state = self._state
        snapshots.drop_erased(state.journal, state.folder, state.name, state.number)

    def drop_from(self, position: int) -> None:
        """Remove the learners that have learned what is at a position."""
        for snapshot in snapshots.found(self._state.folder, self._state.name):
            if snapshot.position >= position:
                snapshot.path.unlink(missing_ok=True)

    def drop_version(self, version: int) -> None:
        """Remove the learners of a version."""
        snapshots.drop_version(self._state.folder, self._state.name, version)
