"""The time of events, which the system's clock cannot spoil."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import msgspec

JUMP = 300.0  # seconds: a clock that is set by more than that is not followed
DRIFT = 0.001  # by how much one clock may run faster than the other
NOTED = 60.0  # seconds: a difference of the clocks that has changed by less is not noted again
_NOTE = "clock"
log = logging.getLogger("onebit.service")


def since_boot() -> float:
    """Seconds since the system was started. Nobody can set this clock."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _boot() -> str:
    """A name for this run of the system."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


class Clock:
    """Follows the system's clock, unless that jumps; never runs backwards.

    After a jump, time goes on by the steady clock, from where it was before. So nothing expires or
    counts as silence because of the jump, and when the clock is right again, it is followed again.

    wall: the system's clock. steady: a clock that nobody sets.
    """

    def __init__(self, wall: Callable[[], float], steady: Callable[[], float]) -> None:
        self._wall, self._steady = wall, steady
        self._time, self._steady_at = 0.0, steady()
        self._noted: float | None = None  # difference of time and the steady clock
        self._told = 0.0  # the jump that the log tells of
        self.jump = 0.0  # seconds by which the system's clock is ahead; 0: it is followed

    def start(self, connection: sqlite3.Connection, last: float) -> None:
        """Go on from the time of the last event, or from that of the same run of the system."""
        self._noted = self._noted_in(connection)
        if not self._time:
            self._time, self._steady_at = self._wall(), self._steady()
            if self._noted is not None:
                self._time = self._noted + self._steady_at
        self._time = max(self._time, last)

    def now(self) -> float:
        """The time of an event."""
        wall, steady = self._wall(), self._steady()
        passed = steady - self._steady_at
        expected = self._time + passed
        if abs(wall - expected) > JUMP + DRIFT * passed:
            self.jump, self._time = wall - expected, expected
        else:
            self.jump, self._time = 0.0, max(self._time, wall)
        self._steady_at = steady
        if abs(self.jump - self._told) > JUMP:
            self._tell()
        return self._time

    def trust(self) -> None:
        """Follow the system's clock as it is now, unless it is behind the last event."""
        self._time = max(self._time, self._wall())

    @property
    def problem(self) -> str:
        """What is wrong with the system's clock; empty if nothing is."""
        if not self.jump:
            return ""
        length = timedelta(seconds=round(abs(self.jump)))
        where = "ahead" if self.jump > 0 else "back"
        return (
            f"the system's clock has jumped {where} by {length} and is not followed; set it right, "
            "or, if it is right now, send SIGHUP"
        )

    def _tell(self) -> None:
        self._told = self.jump
        if self.jump:
            log.warning("%s", self.problem)
        else:
            log.warning("the system's clock is followed again")

    # The difference between the clocks stays the same as long as the system runs.

    def _noted_in(self, connection: sqlite3.Connection) -> float | None:
        row = connection.execute("SELECT value FROM meta WHERE name = ?", (_NOTE,)).fetchone()
        boot, difference = msgspec.json.decode(row[0]) if row else ("", 0.0)
        return difference if boot and boot == _boot() else None

    def note(self, connection: sqlite3.Connection) -> None:
        """Called in each transaction."""
        difference = self._time - self._steady_at
        if self._noted is None or abs(difference - self._noted) > NOTED:
            self._noted = difference
            body = msgspec.json.encode((_boot(), difference)).decode()
            connection.execute("REPLACE INTO meta VALUES (?, ?)", (_NOTE, body))
