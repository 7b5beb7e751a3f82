"""OneBit of an earlier revision, which may know no streams of several right labels.

It plays round by round, in a process of its own, which finds that revision and keeps to names that
every revision has: `python -m benchmarks.worlds.before` reads names of files with streams, a line
each, and answers each by what it said in the rounds.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import onebit as ob

ROOT = Path(__file__).parent.parent.parent


class Before:
    """The OneBit of a folder as a contestant. Its process is started by the first stream."""

    def __init__(self, source: Path) -> None:
        self._source = source
        self._process: Any = None

    def play(
        self, settings: Sequence[dict[str, Any]], stream: Any, world: Any, order: int
    ) -> Iterator[tuple[dict[str, Any], float]]:
        from benchmarks.worlds.streams import drawn, share_right  # earlier revisions cannot

        process = self._process = self._process or self._started()
        with tempfile.NamedTemporaryFile(prefix="onebit-stream-") as file:
            pickle.dump((world.X, drawn(world.Y, order), order), file)
            file.flush()
            process.stdin.write(file.name + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process that plays {stream.name} has ended")
        for setting in settings:  # there is one, without settings
            yield setting, share_right(world.Y, np.array(json.loads(line)))

    def close(self) -> None:
        if self._process is not None:
            with self._process as process:  # it ends when its input does
                process.stdin.close()

    def _started(self) -> Any:
        path = os.pathsep.join([str(self._source), str(ROOT)])
        command, pipe = [sys.executable, "-m", "benchmarks.worlds.before"], subprocess.PIPE
        env = {**os.environ, "PYTHONPATH": path}
        return subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, text=True)


def places_said(X: Any, right: np.ndarray, seed: int) -> list[int]:
    learner, said = ob.OneBit(right.shape[1], seed=seed), []
    for t, row in enumerate(right):
        decision = learner.decide(X[t])
        learner.learn(decision, right=bool(row[decision.place]))
        said.append(int(decision.place))
    return said


if __name__ == "__main__":
    for name in sys.stdin:  # it ends with the process that writes there
        stream = pickle.loads(Path(name.strip()).read_bytes())
        print(json.dumps(places_said(*stream)), flush=True)
