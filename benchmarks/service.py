"""How much the service takes: `python -m benchmarks.service`.

Decide-and-answer pairs over HTTP on loopback, at full durability, beside what SQLite itself can
commit on the same disk. The server has one core, the client another. Every answer comes after the
fsync of what it says.

    raw      SQLite alone: commits of one row, and rows in commits of 100
    single   64 connections; each decides, waits, gives feedback, waits
    batch    4 connections; the same with 100 decisions and 100 answers in a request

--rounds sets how many rounds are played in each; --memory plays a million rounds in batches and
prints how much memory the server holds on the way. --shadows UCWL Confidit plays `single` with no
shadow, the first, and both, by turns, and prints how long the shadows learn afterwards.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import msgspec
import numpy as np
import uvloop

LABELS = [f"label {i}" for i in range(9)]
NAMES, LENGTH = 5000, 10  # different names; names in a context
CONFIGURATION = """
[service]
port = {port}
access_log = false
[models.news]
labels = {labels}
learner = "{learner}"
"""
_decode, _encode = msgspec.json.decode, msgspec.json.encode


def contexts(count: int = 2000) -> list[dict[str, float]]:
    """Contexts as of short texts; some names tell the label."""
    rng = random.Random(1)
    return [
        {f"word{int(NAMES * rng.random() ** 3)}": 1.0 for _ in range(LENGTH)} for _ in range(count)
    ]


# SQLite alone.


def raw(folder: Path, seconds: float = 2.0) -> tuple[float, float]:
    """Commits of one row a second, and rows a second in commits of 100."""
    rates = []
    for size in (1, 100):
        path = folder / f"raw{size}.sqlite"
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE rows (position INTEGER PRIMARY KEY, body BLOB)")
        rows = [(bytes(200),)] * size
        done, end = 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO rows (body) VALUES (?)", rows)
            connection.execute("COMMIT")
            done += size
        rates.append(done / seconds)
        connection.close()
    return rates[0], rates[1]


# The server.


@contextmanager
def server(folder: Path, learner: str, shadows: Sequence[str] = ()) -> Iterator[tuple[int, int]]:
    """A server with a core of its own: its port and process number."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = folder / "service.toml"
    labels = _encode(LABELS).decode()
    text = CONFIGURATION.format(port=port, labels=labels, learner=learner)
    text += "".join(f'[models.news.shadows.{name}]\nlearner = "{name}"\n' for name in shadows)
    path.write_text(text)
    process = subprocess.Popen([sys.executable, "-m", "onebit.cli", "serve", str(path)])
    try:
        os.sched_setaffinity(process.pid, {0})
        for _ in range(3000):  # it may have to compile
            with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/ready"):
                break
            if process.poll() is not None:
                raise SystemExit("the server has stopped")
            time.sleep(0.1)
        yield port, process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def memory_of(process: int) -> float:
    """MiB that a process holds."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def seconds_of(process: int) -> float:
    """Computing time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# The client: no more than the benchmark needs, so that it is never what is measured.


class Connection:
    """A kept connection with one request at a time."""

    async def open(self, port: int) -> Connection:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port)
        return self

    async def post(self, path: str, body: bytes) -> Any:
        self.writer.write(
            b"POST %s HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%s" % (path.encode(), len(body), body)
        )
        return _decode(await self._answer())

    async def get(self, path: str) -> bytes:
        self.writer.write(b"GET %s HTTP/1.1\r\nhost: localhost\r\n\r\n" % path.encode())
        return await self._answer()

    async def _answer(self) -> bytes:
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        answer = await self.reader.readexactly(length)
        if not head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201")):
            raise SystemExit(f"{head.decode()}{answer.decode()}")
        return answer


async def play(port: int, rounds: int, connections: int, size: int) -> tuple[float, list[float]]:
    """Rounds a second, and the seconds of each request."""
    given, took = contexts(), []
    bodies = [_encode({"context": context}) for context in given]
    many = [
        _encode({"decisions": [{"context": c} for c in given[i : i + size]]})
        for i in range(0, len(given) - size + 1, size)
    ]
    left = rounds

    async def timed(connection: Connection, path: str, body: bytes) -> Any:
        started = time.perf_counter()
        answer = await connection.post(path, body)
        took.append(time.perf_counter() - started)
        return answer

    def is_right(told: Any) -> bool:
        return told["label"] == LABELS[hash(told["id"]) % 9]

    async def one_by_one(connection: Connection) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            body = bodies[left % len(bodies)]
            told = await timed(connection, "/v1/models/news/decisions", body)
            feedback = _encode({"right": is_right(told)})
            await timed(connection, f"/v1/decisions/{told['id']}/feedback", feedback)

    async def in_batches(connection: Connection) -> None:
        nonlocal left
        while left > 0:
            left -= size
            body = many[(left // size) % len(many)]
            told = await timed(connection, "/v1/models/news/decisions:batch", body)
            answers = [{"id": d["id"], "right": is_right(d)} for d in told["decisions"]]
            await timed(connection, "/v1/feedback:batch", _encode({"feedback": answers}))

    opened = [await Connection().open(port) for _ in range(connections)]
    started = time.perf_counter()
    await asyncio.gather(*map(one_by_one if size == 1 else in_batches, opened))
    return rounds / (time.perf_counter() - started), took


def line(name: str, rate: float, unit: str, took: list[float] | None = None) -> None:
    times = ""
    if took:
        p50, p99 = np.percentile(took, [50, 99]) * 1000
        times = f"   p50 {p50:6.1f} ms   p99 {p99:6.1f} ms"
    print(f"{name:<44}{rate:>10,.0f} {unit:<11}{times}", flush=True)


async def learned_after(port: int) -> float:
    """Seconds until all shadows have learned everything."""
    connection, started = Connection(), time.perf_counter()
    await connection.open(port)
    while True:
        card = _decode(await connection.get("/v1/models/news"))
        if not any(shadow["behind"] for shadow in card["shadows"].values()):
            return time.perf_counter() - started
        await asyncio.sleep(0.1)


def beside_shadows(folder: Path, learner: str, shadows: Sequence[str], rounds: int) -> None:
    """Requests per second with ever more shadows, by turns; the middle one of three."""
    found: dict[int, list[tuple[float, list[float], float]]] = {}
    for turn in range(3):
        for count in range(len(shadows) + 1):
            place = folder / f"{turn}-{count}"
            place.mkdir()
            with server(place, learner, shadows[:count]) as (port, _):
                uvloop.run(play(port, 2_000, 64, 1))
                rate, took = uvloop.run(play(port, rounds, 64, 1))
                after = uvloop.run(learned_after(port))
                found.setdefault(count, []).append((rate, took, after))
    for count, turns in found.items():
        rate, took, after = sorted(turns, key=lambda each: each[0])[1]
        line(f"{learner} beside {count} shadows: requests", 2 * rate, "requests/s", took)
        print(f"{'':<44}{after:>10.1f} s until the shadows have learned the rest")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    arguments.add_argument("--rounds", type=int, default=20_000)
    arguments.add_argument("--learner", default="OneBit")
    arguments.add_argument("--folder", help="on the disk that is to be measured")
    arguments.add_argument("--memory", action="store_true")
    arguments.add_argument("--shadows", nargs="+", help="learners")
    given = arguments.parse_args()
    os.sched_setaffinity(0, {1 % (os.cpu_count() or 1)})
    with tempfile.TemporaryDirectory(dir=given.folder or ".") as name:
        folder = Path(name)
        if given.shadows:
            beside_shadows(folder, given.learner, given.shadows, given.rounds)
            return
        commits, rows = raw(folder)
        line("SQLite alone, commits of one row", commits, "commits/s")
        line("SQLite alone, commits of 100 rows", rows, "rows/s")
        with server(folder, given.learner) as (port, process):
            if given.memory:
                for rounds in range(100_000, 1_000_001, 100_000):
                    uvloop.run(play(port, 100_000, 4, 100))
                    print(f"{rounds:>10,} rounds {memory_of(process):8,.0f} MiB", flush=True)
                return
            uvloop.run(play(port, 2_000, 64, 1))
            rate, took = uvloop.run(play(port, given.rounds, 64, 1))
            line(f"{given.learner}, 64 connections: requests", 2 * rate, "requests/s", took)
            print(f"{'':<44}{2 * rate / commits:>10.1f} times the raw commits (goal 5)")
            before = seconds_of(process)
            rate, took = uvloop.run(play(port, 5 * given.rounds, 4, 100))
            line(f"{given.learner}, batches of 100: rounds", rate, "rounds/s", took)
            used = (seconds_of(process) - before) / (5 * given.rounds) * 1e6
            print(f"{'':<44}{used:>10.0f} us of computing per round")
            print(f"{'':<44}{rate / rows:>10.2f} of the raw rows (goal 0.33)")
            print(f"the server holds {memory_of(process):,.0f} MiB")


if __name__ == "__main__":
    main()
