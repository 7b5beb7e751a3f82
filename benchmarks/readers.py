"""How much reading slows deciding: `python -m benchmarks.readers`.

A service with a journal of many rounds, on one core. 8 connections decide and give feedback without
a pause, all the time. Beside them, readers read without a pause: 16 of the model card, 8 of the
dashboard's numbers, 16 of the metrics. They come and go after every 600 rounds, and the median of
the ratios to the rounds before counts. In the first line nobody reads.

The first ratio is that of rounds per second of the server's computing time, in which its reading is
included; the second one that of rounds per second. Other processes on the machine change the second
one far more.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec
import uvloop

from benchmarks.service import LABELS, Connection, contexts, play, seconds_of, server

MODEL = "/v1/models/news"
READERS = {
    "none": (0, MODEL),  # so that chance is seen
    "16 of the model card": (16, MODEL),
    "8 of the dashboard's numbers": (8, "/dashboard/news/numbers"),
    "16 of the metrics": (16, "/metrics"),
}
DECIDERS = 8
SETTLING = 50  # rounds after readers have come or gone that are not measured


class Clients:
    """Connections that decide, or read, one request after the other; what is done is counted."""

    def __init__(self, port: int) -> None:
        self.rounds = self.reads = 0
        self._port = port
        self._bodies = [msgspec.json.encode({"context": context}) for context in contexts()]

    async def decide(self) -> None:
        connection = await Connection().open(self._port)
        try:
            while True:
                body = self._bodies[self.rounds % len(self._bodies)]
                told = await connection.post(f"{MODEL}/decisions", body)
                right = told["label"] == LABELS[hash(told["id"]) % len(LABELS)]
                feedback = msgspec.json.encode({"right": right})
                await connection.post(f"/v1/decisions/{told['id']}/feedback", feedback)
                self.rounds += 1
        finally:
            connection.writer.close()

    async def read(self, path: str) -> None:
        connection = await Connection().open(self._port)
        try:
            while True:
                await connection.get(path)
                self.reads += 1
        finally:
            connection.writer.close()


@asynccontextmanager
async def running(count: int, client: Any) -> AsyncIterator[None]:
    """So many clients at once, until the block is left. client: makes one's coroutine."""
    async with asyncio.TaskGroup() as group:  # a client that fails ends the block
        tasks = [group.create_task(client()) for _ in range(count)]
        yield
        for task in tasks:
            task.cancel()


class Rates(NamedTuple):
    """How fast some rounds went."""

    computing: float  # rounds per second of the server's computing time
    rounds: float  # per second
    reads: float  # per second


async def compare(
    port: int, process: int, readers: int, path: str, turns: int, rounds: int
) -> list[tuple[Rates, Rates]]:
    """Deciding alone, and beside so many readers of a path, by turns of some rounds each."""
    clients = Clients(port)

    async def has_played(rounds: int) -> None:
        until = clients.rounds + rounds
        while clients.rounds < until:
            await asyncio.sleep(0.001)

    async def measured() -> Rates:
        await has_played(SETTLING)
        done, reads = clients.rounds, clients.reads
        started, computed = time.perf_counter(), seconds_of(process)
        await has_played(rounds)
        took, computed = time.perf_counter() - started, seconds_of(process) - computed
        done, reads = clients.rounds - done, clients.reads - reads
        return Rates(done / max(computed, 0.01), done / took, reads / took)

    found: list[tuple[Rates, Rates]] = []
    async with running(DECIDERS, clients.decide):
        for _ in range(turns):
            alone = await measured()
            async with running(readers, lambda: clients.read(path)):
                found.append((alone, await measured()))
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    arguments.add_argument("--rounds", type=int, default=100_000, help="of the journal")
    arguments.add_argument("--turns", type=int, default=15)
    arguments.add_argument("--turn", type=int, default=600, help="rounds of a turn")
    arguments.add_argument("--learner", default="OneBit")
    arguments.add_argument("--folder", help="on the disk that is to be measured")
    given = arguments.parse_args()
    os.sched_setaffinity(0, {1 % (os.cpu_count() or 1)})
    with (
        tempfile.TemporaryDirectory(dir=given.folder or ".") as name,
        server(Path(name), given.learner) as (port, process),
    ):
        uvloop.run(play(port, given.rounds, 4, 100))
        for what, (readers, path) in READERS.items():
            uvloop.run(compare(port, process, readers, path, 1, given.turn))  # the first read
            found = uvloop.run(compare(port, process, readers, path, given.turns, given.turn))
            computing = [beside.computing / alone.computing for alone, beside in found]
            passed = [beside.rounds / alone.rounds for alone, beside in found]
            print(
                f"{what:<30}{median(beside.rounds for _, beside in found):>6,.0f} rounds/s and "
                f"{median(beside.reads for _, beside in found):>6,.1f} reads/s, ratio to none "
                f"{median(computing):.2f} ({min(computing):.2f} to {max(computing):.2f}) of "
                f"rounds per second of computing (goal 0.9), {median(passed):.2f} per second",
                flush=True,
            )


if __name__ == "__main__":
    main()
