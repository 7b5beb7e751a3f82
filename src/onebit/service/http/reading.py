"""Reading goes on beside deciding, and lets it go first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from time import perf_counter, thread_time
from typing import Any, TypeVar

from onebit.service.faults import Busy

SCHEDULED = "/proc/thread-self/schedstat"  # Linux: ns on a processor, ns that it waited for one
T = TypeVar("T")
HANDLING = 0.0005  # seconds that a request takes besides what is read
LOOK = 0.05  # seconds without a decision after which there are none any more
WAITING = 200  # different reads that may wait


class Reads:
    """Reads that take long, one at a time; while there are decisions, for a share of the time.

    Without that, readers that ask without a pause would take most of the process, whatever they
    read. Those who wait for the same get the same. events: how many the journal has got; grows
    while there are decisions. share: of the time, for reading; only computing counts,
    because deciding goes on while a read waits for the disk or for other processes. Time in which
    other processes had the processor does not count as deciding's.
    """

    def __init__(self, events: Callable[[], int], share: float) -> None:
        self._events, self._share = events, share
        self._turn = asyncio.Lock()
        self._waiting: dict[Hashable, asyncio.Task[Any]] = {}  # reads that have not begun
        self._readers = 0
        self._seen, self._seen_at, self._free_at = events(), 0.0, 0.0

    async def __call__(self, what: Hashable, read: Callable[[], T]) -> T:
        """What `read` returns, in a thread; begun after this call. what: names it."""
        reading = self._waiting.get(what)
        if reading is None:
            if len(self._waiting) >= WAITING:
                raise Busy("many requests wait to read", retry_after=self._left() + 1)
            reading = self._waiting[what] = asyncio.create_task(self._read(what, read))
        self._readers += 1
        try:
            return await asyncio.shield(reading)
        finally:
            self._readers -= 1

    async def _read(self, what: Hashable, read: Callable[[], T]) -> T:
        async with self._turn:
            await self._let_others_go_first()
            readers = self._readers
            del self._waiting[what]
            used = 0.0

            def measured() -> T:
                nonlocal used
                started = thread_time()
                try:
                    return read()
                finally:
                    used = thread_time() - started

            try:
                return await asyncio.to_thread(measured)
            finally:
                used += HANDLING * readers
                self._free_at = own_time() + used * (1 / self._share - 1)

    def _left(self) -> float:
        return self._free_at - own_time()

    async def _let_others_go_first(self) -> None:
        while self._left() > 0 and self._are_busy():
            await asyncio.sleep(min(self._left(), LOOK))

    def _are_busy(self) -> bool:
        """Whether there was a decision lately: not each look finds a new one."""
        events, now = self._events(), own_time()
        if events != self._seen:
            self._seen, self._seen_at = events, now
        return now - self._seen_at < LOOK


def own_time() -> float:
    """Seconds, but for those in which this thread waited for a processor that others had."""
    return perf_counter() - waited()


def waited() -> float:
    """Seconds that this thread has waited for a processor; 0 where the system does not tell."""
    try:
        with open(SCHEDULED, "rb") as file:
            return int(file.read().split()[1]) * 1e-9
    except (OSError, IndexError):
        return 0.0
