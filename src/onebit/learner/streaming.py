"""Take many rows through a learner in compiled code: what every loop over rounds has in common.

A compiled loop returns to Python where something must be done there: every LONGEST_CALL rounds,
before a round in which the learner fades, and where it asks for a pause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from onebit.learner.forgetting import fade, pause
from onebit.learner.laying import meet
from onebit.reading.contexts import check_within
from onebit.reading.rows import Rows

if TYPE_CHECKING:
    from onebit.learner.learner import Learner

LONGEST_CALL = 2**18  # rounds: between calls progress is shown and Ctrl-C is heard

Call = Callable[[int, int], int]  # rounds from here to there; returns the next round


class Passage:
    """Rows on their way through a learner, whose lock is held. There is room for all of them."""

    def __init__(self, learner: Learner, rows: Rows, order: np.ndarray) -> None:
        if learner.reader.way.is_open and rows.columns:
            check_within(rows.width - 1, rows.columns)  # rows before may have been texts
            meet(learner, rows.columns)
        self._learner, self._rows, self._order = learner, rows, order
        self._types = learner.calls.types
        self._place()
        learner.reader.remember(rows.columns, rows.names)
        self.first, self.done = learner.round, 0  # the learner's round at round 0; rounds so far

    def _place(self) -> None:
        self._labels = self._learner.label_set
        self.placed = self._learner.table.place(self._rows, self._order)  # with places for indices

    def pieces(self, until: int) -> Iterator[int]:
        """The ends of the calls in which the rounds up to `until` are run."""
        learner = self._learner
        while self.done < until:
            self.first = learner.round - self.done  # somebody may have called `decide` in between
            if learner.round >= learner.fading.at:
                fade(learner, learner.round)
            if learner.calls.types != self._types:
                raise RuntimeError("a label was added to the learner while the stream ran")
            if learner.label_set is not self._labels:  # the learner was reloaded
                self._place()
            yield min(until, self.done + LONGEST_CALL, learner.fading.at - self.first)

    def run(
        self,
        call: Call,
        end: int,
        all_answered: bool = False,
        by_hand: Callable[[int], None] | None = None,
    ) -> None:
        """Run rounds up to `end`. An error in a pause is raised after all of them.

        all_answered: every round is; otherwise the call marks those that are. by_hand: learns a
        round at which the call stopped without asking for a pause.
        """
        learner = self._learner
        try:
            failure = self._run(call, end, by_hand)
        except BaseException:
            if not all_answered:
                learner.answers.cut(learner.round)  # these rounds are not counted
            raise
        if all_answered:
            learner.answers.mark_all(self.first + self.done, self.first + end, self.first + end)
        self.done = end
        learner.round = self.first + end
        if self._rows.kind and not learner.reader.taught_with and learner.answers.any():
            learner.reader.taught_with = self._rows.kind
        if failure is not None:
            raise failure

    def _run(
        self, call: Call, end: int, by_hand: Callable[[int], None] | None
    ) -> BaseException | None:
        """Run rounds, with the pauses that the learner asks for. Returns the first error in one."""
        failure, begin = None, self.done
        while True:
            begin = call(begin, end)
            try:
                has_paused = pause(self._learner)
            except BaseException as error:  # Ctrl-C as well
                failure, has_paused = failure or error, True
            if has_paused:
                continue
            if begin == end or by_hand is None:
                return failure
            self._learner.round = self.first + begin
            by_hand(begin)
            begin += 1
