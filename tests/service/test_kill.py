"""kill -9 at random moments under load: what was acknowledged is there, learned once."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from helpers.waiting import PATIENCE
from running import WITH_A_SHADOW, Home, context
from test_shadows import assert_pure_shadows

CHILD = Path(__file__).with_name("kill_child.py")
PER_JOURNAL = 20  # kills of services on the same journal


@pytest.fixture
def folder(tmp_path) -> Iterator[Path]:
    """In memory, if possible: the end of a process loses nothing that was written."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    made = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield made
    shutil.rmtree(made)


def test_killed_services(folder):
    kill(folder, 12, seed=1)


@pytest.mark.exhaustive
def test_services_killed_five_hundred_times(folder):
    kill(folder, 500, seed=2)


def kill(folder: Path, times: int, seed: int) -> None:
    random, acknowledged = Random(seed), 0
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    parent = subprocess.Popen(
        [sys.executable, CHILD], env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdin and parent.stdout
    try:
        for count in range(times):
            if count % PER_JOURNAL == 0:
                home = folder / f"home{count}"
                home.mkdir()
                decided: dict[str, tuple[int, str]] = {}
                states: dict[str, set[str]] = {}
            print(home, seed * 10_000 + count, file=parent.stdin, flush=True)
            word, pid = parent.stdout.readline().split()
            assert word == "pid"
            delay = random.choice([0.02, 0.1, 0.3]) * random.random()
            begun, before = threading.Event(), acknowledged
            if random.random() < 0.2:  # while it starts
                begun.set()
            killer = threading.Thread(target=_kill_after, args=(begun, delay, int(pid)))
            killer.start()
            while (line := parent.stdout.readline()) != "end\n":
                kind, id, *words = line.split()
                assert kind != "failed", line
                acknowledged += kind in ("decided", "did")
                if acknowledged >= before + 3:  # also if it is slow
                    begun.set()
                if kind == "decided":
                    decided[id], states[id] = (int(words[0]), words[1]), {"open"}
                elif kind == "trying":
                    states[id].add(words[0])
                else:
                    states[id] = {words[0]}
            killer.join()
            _check(home, decided, states, whole=count % PER_JOURNAL in (0, PER_JOURNAL - 1))
    finally:
        parent.stdin.close()
        parent.wait()
        parent.stdout.close()
    print(f"{times} kills, {acknowledged} acknowledged")
    assert acknowledged > times


def _kill_after(begun: threading.Event, seconds: float, pid: int) -> None:
    begun.wait(PATIENCE)
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)


def _check(home: Path, decided, states, whole: bool) -> None:
    """whole: all decisions, also those of earlier services."""
    place = Home(home, WITH_A_SHADOW, durability="full")
    service = place.start(snapshot_every=10**9)
    news = service.models["news"]
    for id in [*decided] if whole else [*decided][-300:]:
        record = news.look(id)
        state = record.state
        if state == "learned":
            state = "right" if record.feedback[-1].right else "wrong"
        assert state in states[id], (id, state, states[id])
        number, label = decided[id]
        assert record.label == label and record.context == context(number)
        states[id] = {state}
    with service.journal.reading() as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        answers, distinct = connection.execute(
            "SELECT count(*), count(DISTINCT decision) FROM answers"
        ).fetchone()
        assert answers == distinct
    assert_pure_shadows(news)
    news._saving.reached = 10**9  # the next service starts from what the killed one has left
    place.stop()
