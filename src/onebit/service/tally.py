"""Tallies: numbers that the engine and the journal count up, and `/metrics` shows.

Counting takes no lock: a tally is changed by one thread, or under its owner's lock. A reader may
see a count that is one event behind.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

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
    # Decisions that wait for feedback now, with those that have expired since they were last
    # counted: at the start, after a compaction, and when there seem to be too many.
    open: int = 0
    answers: int = 0  # in the journal now, as they stand after revisions
    mistakes: int = 0  # answers among them that say wrong
    smallest_propensity: float = 1.0
    delay: Spread = field(default_factory=lambda: Spread(DELAYS))  # from decision to feedback


@dataclass
class JournalTally:
    """What happened to the journal since the process started, unless it says otherwise."""

    commits: int = 0
    events: int = 0
    waiting: int = 0  # rows that wait for the next commit now
    bytes: int = 0  # of the database and its write-ahead log, after the last commit
    failures: int = 0
    sync: Spread = field(default_factory=lambda: Spread(DISK_TIMES))  # seconds of a commit
