"""How far a learner is that is being built from the journal.

Building a learner takes the processor from requests, and it may take minutes. So whoever builds one
tells a `Progress` of each event. That lets requests go first, tells the log and `/ready` how far it
is, and has the learner written down now and then, so that a process that ends goes on from there.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from time import monotonic, thread_time

from onebit.learner.learner import Learner
from onebit.service import messages

SHARE = 0.25  # of a core, while there are requests
LONGEST = 60.0  # seconds after which a client should ask again at the latest
SLICE = 0.005  # seconds of computing between two pauses
TELL_EVERY = 10.0  # seconds between two lines of the log
WRITING = 0.05  # part of the time that may be spent on writing snapshots
log = logging.getLogger("onebit.service")


class Interrupted(Exception):
    """Nobody waits for the learner any more."""


class Pace:
    """Lets requests go first: computes for a share of the time while there are any.

    requests: a number that grows with each request. closing: ends the work.
    """

    def __init__(self, requests: Callable[[], int], closing: threading.Event) -> None:
        self._requests, self._closing = requests, closing
        self._seen, self._used = requests(), thread_time()

    def __call__(self) -> None:
        """Called often by the thread that works."""
        used = thread_time() - self._used
        if used < SLICE:
            return
        if self._closing.is_set():
            raise Interrupted
        seen = self._requests()
        if seen != self._seen:
            self._closing.wait(used * (1 / SHARE - 1))
        # Those that came during the pause also say that there are requests.
        self._seen, self._used = seen, thread_time()


class Progress:
    """A learner on its way through the journal.

    after, until: positions. rounds: between them. every: how many events lie between two learners
    that are kept. write: keeps a learner that is at a position. pace: None if requests wait.
    """

    def __init__(
        self,
        name: str,
        after: int,
        until: int,
        rounds: int,
        *,
        every: int,
        write: Callable[[Learner, int], object],
        pace: Pace | None,
    ) -> None:
        self.reached, self.until, self.done, self.rounds = after, until, 0, rounds
        self._name, self._every, self._write, self._pace = name, every, write, pace
        self._started = self._told = self._written = monotonic()
        self._written_at, self._took = after, 0.0

    def __call__(self, learner: Learner, position: int, is_round: bool) -> None:
        """The learner has learned the event at a position."""
        self.reached = position
        self.done += is_round
        if position - self._written_at >= self._every and self._may_write():
            self.write(learner)
        if monotonic() - self._told >= TELL_EVERY:
            self._told = monotonic()
            log.info("model %s: %s", self._name, self)
        if self._pace is not None:
            self._pace()

    def _may_write(self) -> bool:
        return (monotonic() - self._written) * WRITING >= self._took

    def write(self, learner: Learner) -> None:
        """Keep the learner as it is now."""
        started = monotonic()
        self._write(learner, self.reached)
        self._written_at, self._written = self.reached, monotonic()
        self._took = self._written - started

    @property
    def lag(self) -> int:
        """Positions that are left."""
        return max(self.until - self.reached, 0)

    @property
    def seconds_left(self) -> float | None:
        """About how long it still takes; None: nobody knows yet."""
        if not self.done:
            return None
        return (monotonic() - self._started) / self.done * max(self.rounds - self.done, 0)

    def told(self) -> messages.Building:
        """As `/ready` tells it."""
        left = self.seconds_left
        return messages.Building(
            rounds=min(self.done, self.rounds),
            of=self.rounds,
            seconds_left=None if left is None else round(left, 1),
        )

    def __str__(self) -> str:
        left = self.seconds_left
        about = "" if left is None else f", about {left:,.0f} s left"
        done = min(self.done, self.rounds)
        return f"{done:,} of {self.rounds:,} rounds learned from the journal{about}"


def until_done(building: Mapping[str, Progress]) -> float | None:
    """Seconds until the learners are there, as far as anybody knows: 1 to `LONGEST`."""
    left = [progress.seconds_left for progress in dict(building).values()]
    known = [seconds for seconds in left if seconds is not None]
    return min(max([1.0, *known]), LONGEST) if known else None


def told(what: str, building: Mapping[str, Progress]) -> str:
    """What is being done, and how far it is."""
    parts = [f"model {name}: {progress}" for name, progress in dict(building).items()]
    return "; ".join([what, *parts])
