"""Counts of what happened to a model, for its card, the limits and `/metrics`."""

from __future__ import annotations

from onebit.service.engine.building import was_right
from onebit.service.engine.recent import RecentDecision
from onebit.service.engine.state import EngineState
from onebit.service.journal import DecisionRow
from onebit.service.tally import ModelTally, Totals


class Counts:
    """Counts every event as it comes. Only `count` and `count_totals` read the whole journal.

    Lock: all methods are called with the lock of the engine. `tally` is read without it: a reader
    may see a count that is one event behind.
    """

    totals: Totals
    counted_at: float  # when open decisions were counted last

    def __init__(self, state: EngineState) -> None:
        self._state, self.tally = state, ModelTally()

    def count(self) -> None:
        """Count what the journal has: answers, and what waits for them and has not expired."""
        journal, number, tally = self._state.journal, self._state.number, self.tally
        self.counted_at = journal.stamp(0)[1]
        self._open_since = self._state.expired_before()
        # Up to here, decisions have expired; those after it are counted as open.
        self._open_after = journal.last_decision_before(self._open_since)
        tally.open = journal.unanswered(number, self._open_after, journal.position)
        tally.answers, tally.mistakes = journal.answers(number)
        logged = journal.logged(number)
        tally.logged_rounds, tally.logged_answers, tally.logged_mistakes = logged
        self.count_totals()

    def count_totals(self) -> None:
        """Count what the model card tells of rounds and sources. It reads all of them."""
        journal, number = self._state.journal, self._state.number
        sources = journal.answers_by_source(number, Totals.MOST)
        self.totals = Totals(*journal.rounds_that_count(number), sources)

    def count_expired(self) -> None:
        """Count what has expired since the last count as open no more. It reads nothing else."""
        journal, after = self._state.journal, self._open_after
        self.counted_at, self._open_since = journal.stamp(0)[1], self._state.expired_before()
        self._open_after = journal.last_decision_before(self._open_since, after)
        self.tally.open -= journal.unanswered(self._state.number, after, self._open_after)

    def add_open(self, row: DecisionRow, sign: int) -> None:
        """Count a decision as open (1), or no more (-1), unless `count` took it for expired."""
        if row.time >= self._open_since:
            self.tally.open += sign

    def add_answer(self, recent: RecentDecision, sign: int) -> None:
        """Count the answer of a decision (1), or count it no more (-1)."""
        assert recent.answer is not None
        mistakes = 0 if was_right(recent.answer, recent.row) else sign
        if recent.row.logged is None:
            self.tally.answers += sign
            self.tally.mistakes += mistakes
        else:
            self.tally.logged_answers += sign
            self.tally.logged_mistakes += mistakes
        self.totals.count_answer(recent.answer.source, sign)

    def add_round(self, row: DecisionRow, sign: int) -> None:
        """Count a round (1), or count it no more (-1), if it counts at all."""
        if row.logged is not None:
            self.tally.logged_rounds += sign
        elif row.active is not None:
            count = self.totals.add if sign > 0 else self.totals.remove
            count(row.propensity, row.explored)
