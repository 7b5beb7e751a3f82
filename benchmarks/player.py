"""Plays onebit's part of the benchmark, with whichever onebit Python finds: a line of JSON a play.

    echo '{"play": "rounds", "learner": "Banditron", "stream": "synsep", "size": 1000}' |
        PYTHONPATH=src python -m benchmarks.player

`--against` of the benchmark runs it with an older onebit, so it keeps to the public names.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from typing import Any

import numpy as np

import onebit as ob
from benchmarks import peers, streams
from benchmarks.peers import Run

STREAMS = {"synsep": streams.synsep, "synnonsep": streams.synnonsep, "text": streams.text_shaped}


@functools.cache
def stream_of(name: str, size: int) -> streams.Stream:
    return STREAMS[name](size)


def play(job: dict[str, Any]) -> Run:
    """Play a job: how ("stream", "rounds" or "lockstep"), which learner, over which stream."""
    stream = stream_of(job["stream"], job["size"])
    kind, settings = getattr(ob, job["learner"]), job.get("settings", {})

    def new() -> Any:
        return kind(labels=stream.labels, seed=7, **settings)

    if job["play"] == "stream":
        return peers.onebit_stream(new, stream)
    if job["play"] == "rounds":
        return peers.onebit_rounds(new, stream, job["size"])
    gammas = np.geomspace(settings["gamma"] / 10, min(10 * settings["gamma"], 1), 32)
    begin = time.process_time()
    runs = ob.sweep(kind, stream.X, stream.y, labels=stream.labels, gamma=gammas, seed=7, threads=1)
    seconds = time.process_time() - begin
    return Run(seconds, 32 * job["size"], sum(int(run.trace.mistakes[-1]) for run in runs))


def main() -> None:
    for line in sys.stdin:
        run = play(json.loads(line))
        print(json.dumps([run.seconds, run.rounds, run.mistakes]), flush=True)


if __name__ == "__main__":
    main()
