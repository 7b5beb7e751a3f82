"""onebit against an older onebit, in turn, in one run: `./run bench --against REVISION`."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.peers import Run

HEAD = """\
| how | learner | stream | before, us | now, us | now / before |
|---|---|---|--:|--:|--:|"""
ROOT = Path(__file__).parent.parent
SECOND_ORDER = {"Confidit": {"eta": 1, "reg": 0.01, "update": "coordinate"}, "UCWL": {}}
SECOND_ORDER |= {"SOBA": {"gamma": 2**-7}, "FastCB": {}, "PNewtron": {}}


def jobs(quick: bool) -> list[dict[str, Any]]:
    """What both play."""
    size = 20_000 if quick else 100_000
    found: list[dict[str, Any]] = []
    for stream, gamma in (("synsep", 0.014), ("text", 0.05)):
        banditron = {"learner": "Banditron", "settings": {"gamma": gamma}}
        found += [{"play": "stream", **banditron, "stream": stream, "size": size}]
        found += [
            {"play": "stream", "learner": name, "settings": settings}
            | {"stream": stream, "size": size}
            for name, settings in SECOND_ORDER.items()
        ]
        found += [{"play": "rounds", **banditron, "stream": stream, "size": 2_000}]
        found += [
            {"play": "rounds", "learner": name, "settings": {}, "stream": stream, "size": 2_000}
            for name in ("UCWL", "FastCB")
        ]
        found += [{"play": "lockstep", **banditron, "stream": stream, "size": size // 4}]
        found += [{"play": "stream", "learner": "OneBit", "stream": stream, "size": size // 4}]
    return found


@contextlib.contextmanager
def source_of(revision: str) -> Iterator[Path]:
    """The files of a revision, in a folder for a while."""
    with tempfile.TemporaryDirectory(prefix="onebit-before-") as folder:
        archive = subprocess.run(
            ["git", "archive", revision, "src"], cwd=ROOT, capture_output=True, check=True
        )
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        yield Path(folder) / "src"


class Player:
    """A process that plays with the onebit of a folder."""

    def __init__(self, source: Path, cache: Path) -> None:
        path = os.pathsep.join([str(source), str(ROOT)])
        env = {**os.environ, "PYTHONPATH": path, "ONEBIT_CACHE": str(cache)}
        command = [sys.executable, "-m", "benchmarks.player"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, text=True)

    def play(self, job: dict[str, Any]) -> Run:
        process: Any = self._process
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process that plays {job} has ended")
        return Run(*json.loads(line))

    def close(self) -> None:
        process: Any = self._process
        process.stdin.close()
        process.wait()


def compare(revision: str, quick: bool, say: Any) -> str:
    """A table: microseconds a round before and now."""
    rows = [HEAD]
    with source_of(revision) as before, tempfile.TemporaryDirectory() as caches:
        players = [
            Player(before, Path(caches) / "before"),
            Player(ROOT / "src", Path(caches) / "now"),
        ]
        try:
            for job in jobs(quick):
                fastest = [float("inf")] * 2
                repeats = 40 if job["play"] == "rounds" else 7
                for _ in range(1 + repeats):  # the first ones compile, and never count
                    for i, player in enumerate(players):
                        run = player.play(job)
                        fastest[i] = min(fastest[i], run.microseconds)
                mistakes = [player.play(job).mistakes for player in players]
                old, new = fastest
                note = "" if mistakes[0] == mistakes[1] else ", OTHER MISTAKES"
                what = f"{job['play']} | {job['learner']} | {job['stream']}"
                rows.append(f"| {what} | {old:.3f} | {new:.3f} | {new / old:.3f}{note} |")
                say(rows[-1])
        finally:
            for player in players:
                player.close()
    return "\n".join(rows)
