"""How much reading slows deciding: `python -m benchmarks.readers`.

A service with a journal of many rounds. 8 connections decide and give feedback without a pause,
alone and beside readers that read without a pause: 16 of the model card, 8 of the dashboard's
numbers, 16 of the metrics. The turns alternate, and the median of the ratios counts. The server has
a core of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from pathlib import Path
from statistics import median

import uvloop

from benchmarks.service import Connection, play, server

READERS = {
    "16 of the model card": (16, "/v1/models/news"),
    "8 of the dashboard's numbers": (8, "/dashboard/news/numbers"),
    "16 of the metrics": (16, "/metrics"),
}
DECIDERS = 8


async def read(port: int, path: str, reads: list[float]) -> None:
    connection = await Connection().open(port)
    try:
        while True:
            started = time.perf_counter()
            await connection.get(path)
            reads.append(time.perf_counter() - started)
    finally:
        connection.writer.close()


async def turn(port: int, rounds: int, readers: int, path: str) -> tuple[float, float]:
    """Rounds a second beside so many readers, and reads a second."""
    reads: list[float] = []
    reading = [asyncio.create_task(read(port, path, reads)) for _ in range(readers)]
    if readers:
        await asyncio.sleep(0.5)
    started, before = time.perf_counter(), len(reads)
    rate, _ = await play(port, rounds, DECIDERS, 1)
    read_rate = (len(reads) - before) / (time.perf_counter() - started)
    for task in reading:
        task.cancel()
    await asyncio.gather(*reading, return_exceptions=True)
    return rate, read_rate


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    arguments.add_argument("--rounds", type=int, default=100_000, help="of the journal")
    arguments.add_argument("--turn", type=int, default=1000, help="rounds of a turn")
    arguments.add_argument("--turns", type=int, default=5)
    arguments.add_argument("--learner", default="OneBit")
    arguments.add_argument("--folder", help="on the disk that is to be measured")
    given = arguments.parse_args()
    os.sched_setaffinity(0, {1 % (os.cpu_count() or 1)})
    with (
        tempfile.TemporaryDirectory(dir=given.folder or ".") as name,
        server(Path(name), given.learner) as (port, _),
    ):
        uvloop.run(play(port, given.rounds, 4, 100))
        for what, (readers, path) in READERS.items():
            uvloop.run(turn(port, 100, readers, path))  # the first read of a long journal
            ratios, rates, reads = [], [], []
            for _ in range(given.turns):
                alone, _ = uvloop.run(turn(port, given.turn, 0, path))
                beside, read_rate = uvloop.run(turn(port, given.turn, readers, path))
                rates.append(beside)
                ratios.append(beside / alone)
                reads.append(read_rate)
            print(
                f"{what:<30}{median(rates):>8,.0f} rounds/s beside them, {median(reads):>7,.1f} "
                f"reads/s, ratio to none {median(ratios):.2f} "
                f"({min(ratios):.2f} to {max(ratios):.2f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
