"""Tallies: numbers that the engine and the journal count up, and `/metrics` shows.

Counting takes no lock: a tally is changed by one thread, or under its owner's lock. A reader may
see a count that is one event behind.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from operator import itemgetter

DELAYS = (0.1, 1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400)
DISK_TIMES = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.125, 0.25, 0.5, 1, 4)


class Spread:
    """How values are spread: how many are at most each bound, and their sum."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)  # the last: above all bounds
        self.sum = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


@dataclass
class ModelTally:
    """What happened to a model since the process started, unless it says otherwise."""

    decisions: int = 0
    explored: int = 0
    right: int = 0
    wrong: int = 0
    silences: int = 0  # read as wrong
    cancelled: int = 0
    expired: int = 0  # feedback that came too late
    revised: int = 0
    logged: int = 0  # what other systems said
    sharing: int = 0  # decisions in which names share a feature, because the vocabulary is full
    # Decisions that wait for feedback now, with those that have expired since they were last
    # counted: at the start, after a compaction, and when there seem to be too many.
    open: int = 0
    # In the journal now, as they stand after revisions: answers to own decisions, and those of them
    # that say wrong; what other systems said, the answers to it, and those that say wrong.
    answers: int = 0
    mistakes: int = 0
    logged_rounds: int = 0
    logged_answers: int = 0
    logged_mistakes: int = 0
    smallest_propensity: float = 1.0
    delay: Spread = field(default_factory=lambda: Spread(DELAYS))  # from decision to feedback


class Totals:
    """The rounds of a model that count, and its answers by source, as the journal has them.

    They are counted once, and go on from there: reading them costs the same after any number of
    rounds. `is_known` says whether that is still possible: it is not once the last round with the
    smallest propensity is gone, and after a compaction. Then they have to be counted again.
    """

    MOST = 100_000  # sources; beyond it, half of them go, those with the fewest answers

    def __init__(
        self,
        rounds: int = 0,
        explored: int = 0,
        smallest: float | None = None,
        times: int = 0,
        sources: dict[str, int] | None = None,
    ) -> None:
        self.rounds, self.explored = rounds, explored
        self.smallest, self._times = smallest, times  # propensity, and how many rounds have it
        self.sources = Counter(sources)
        self.is_known = True

    def add(self, propensity: float, explored: int) -> None:
        self.rounds, self.explored = self.rounds + 1, self.explored + explored
        if self.smallest is None or propensity < self.smallest:
            self.smallest, self._times = propensity, 1
        elif propensity == self.smallest:
            self._times += 1

    def remove(self, propensity: float, explored: int) -> None:
        self.rounds, self.explored = self.rounds - 1, self.explored - explored
        self._times -= propensity == self.smallest
        if not self.rounds:
            self.smallest = None
        elif not self._times:
            self.is_known = False

    def count_answer(self, source: str | None, sign: int) -> None:
        """Count an answer (1), or count it no more (-1)."""
        if source is None:
            return
        self.sources[source] += sign
        if self.sources[source] <= 0:
            del self.sources[source]
        elif len(self.sources) > self.MOST:
            self.sources = Counter(dict(self.sources.most_common(self.MOST // 2)))


def share(part: int, total: int) -> float | None:
    return part / total if total else None


def most_frequent(counts: dict[str, int], most: int) -> dict[str, int]:
    return dict(nlargest(most, counts.items(), key=itemgetter(1)))


@dataclass
class JournalTally:
    """What happened to the journal since the process started, unless it says otherwise."""

    commits: int = 0
    events: int = 0
    waiting: int = 0  # rows that wait for the next commit now
    bytes: int = 0  # of the database and its write-ahead log, after the last commit
    failures: int = 0
    sync: Spread = field(default_factory=lambda: Spread(DISK_TIMES))  # seconds of a commit
