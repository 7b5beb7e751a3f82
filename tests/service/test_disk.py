"""Power loss at every moment, a failing disk and a full one: nothing acknowledged is lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from disk import Disk, Record, built, records
from running import Home, assert_pure, context

from onebit.service.service import Service

CHILD = Path(__file__).with_name("disk_child.py")


@pytest.fixture
def folder(tmp_path) -> Iterator[Path]:
    """In memory, if possible: here the only disk that counts is the simulated one."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    made = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="session")
def shim(tmp_path_factory) -> Path:
    return built(tmp_path_factory.mktemp("shim"))


def recorded(
    shim: Path, folder: Path, seed: int, steps: int, rules=(), close=False, durability="full"
):
    """What a service did on a disk with these faults."""
    home = folder / f"disk{seed}"
    home.mkdir()
    log = folder / f"log{seed}"
    plan = {"folder": str(home), "seed": seed, "steps": steps, "rules": list(rules)}
    plan |= {"close": close, "durability": durability}
    env = {
        **os.environ,
        "NUMBA_DISABLE_JIT": "1",
        "LD_PRELOAD": str(shim),
        "DISKFAULTS_FOLDER": str(home),
        "DISKFAULTS_LOG": str(log),
    }
    done = subprocess.run(
        [sys.executable, CHILD, json.dumps(plan)], env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    calls = records(log)
    assert calls[-1].data == b'["end"]'
    log.unlink()
    return home, calls


class Promised:
    """What was acknowledged so far: for each decision, the states in which it may be."""

    def __init__(self) -> None:
        self.decided: dict[str, tuple[int, str]] = {}
        self.states: dict[str, set[str]] = {}

    def hear(self, note: Record) -> None:
        kind, *words = json.loads(note.data)
        if kind == "decided":
            id, number, label = words
            self.decided[id], self.states[id] = (number, label), {"open"}
        elif kind == "trying":
            self.states[words[0]].add(words[1])
        elif kind == "did":
            self.states[words[0]] = {words[1]}

    def check(self, service: Service) -> None:
        news = service.models["news"]
        for id, (number, label) in self.decided.items():
            record = news.look(id)
            state = record.state
            if state == "learned":
                state = "right" if record.feedback[-1].right else "wrong"
            assert state in self.states[id], (id, state, self.states[id])
            assert record.label == label
            if state != "erased":
                assert record.context == context(number)
                if state != "cancelled":
                    assert news.decide(context(number), key=f"k{number}").id == id
        assert_pure(news)


def check_power_loss(
    home: Path, calls: list[Record], folder: Path, seed: int, share: float, keeps: bool = True
) -> int:
    """Cut the power after some of the calls, in all ways; returns how many disks were read."""
    random, disk, promised, count = Random(seed), Disk(home), Promised(), 0
    config = (home / "x.toml").read_text()
    target = folder / "after"
    for index, call in enumerate(calls):
        if call.kind == "n":
            promised.hear(call)
        else:
            disk.follow(call)
        if random.random() >= share:
            continue
        for how in ("dropped", "kept", "torn"):
            disk.state(target, how, random)
            place = Home(target)
            place.config.write_text(config)
            try:
                service = place.start(snapshot_every=10**9)
                with service.journal.reading() as connection:
                    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
                if keeps:
                    promised.check(service)
                news = service.models["news"]
                news.feedback(news.decide(context(1)).id, right=True)
                assert_pure(news)
            except BaseException as error:
                error.add_note(f"seed {seed}, call {index} of {len(calls)} {call[:5]}, {how}")
                raise
            finally:
                place.stop()
            count += 1
    return count


SYNC_FAILS = {"calls": "s", "ending": "-wal", "count": 1, "after": 15, "skip": 2}
LOSES = {**SYNC_FAILS, "loses": True}
CHECKPOINT_FAILS = {"calls": "s", "ending": ".journal", "count": 1, "after": 10}
COPY_FAILS = {"calls": "s", "ending": "", "count": 4, "after": 15, "skip": 3}
WRITE_FAILS = {"calls": "w", "ending": "-wal", "count": 1, "after": 12, "skip": 3}
FULL = {"calls": "wct", "error": "ENOSPC", "after": 12, "skip": 4, "seconds": 0.5}
FULL_ONCE = {**WRITE_FAILS, "error": "ENOSPC", "skip": 9}
CHECKPOINT_FULL = {**FULL_ONCE, "ending": ".journal", "skip": 0}
FAULTS = {
    "none": [],
    "fsync": [SYNC_FAILS],
    "fsync that loses": [LOSES, {**LOSES, "skip": 0}],
    "checkpoint": [CHECKPOINT_FAILS, {**CHECKPOINT_FAILS, "loses": True}, CHECKPOINT_FULL],
    "recovery": [COPY_FAILS, {**COPY_FAILS, "loses": True, "skip": 0, "count": 7}],
    "write": [WRITE_FAILS],
    "full": [FULL],
    "full for a moment": [FULL_ONCE, {**FULL_ONCE, "skip": 5}],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_power_loss(shim, folder, fault):
    check_fault(shim, folder, fault, seed=1, steps=30, share=0.006)


def test_power_loss_without_waiting_for_the_disk(shim, folder):
    """Under "normal" the last moments may be lost, and the learner is still that of the journal."""
    home, calls = recorded(shim, folder, seed=5, steps=40, durability="normal")
    assert check_power_loss(home, calls, folder, seed=5, share=0.02, keeps=False)


@pytest.mark.exhaustive
@pytest.mark.parametrize("fault", FAULTS)
def test_power_loss_at_many_moments(shim, folder, fault):
    for seed in (2, 3):
        check_fault(shim, folder, fault, seed, steps=60, share=0.1)


@pytest.mark.exhaustive
@pytest.mark.parametrize("fault", FAULTS)
def test_power_loss_at_every_moment(shim, folder, fault):
    check_fault(shim, folder, fault, seed=4, steps=80, share=0.25 if FAULTS[fault] else 1.0)


def check_fault(shim, folder, fault, seed, steps, share) -> None:
    rules = [dict(rule) for rule in FAULTS[fault]]
    home, calls = recorded(shim, folder, seed, steps, rules, close=seed % 2 == 0)
    notes = [json.loads(call.data) for call in calls if call.kind == "n"]
    refusals = [note[1] for note in notes if note[0] == "failed"]
    assert len(refusals) == len(rules), "nothing failed"
    for said in refusals:  # a checkpoint fails behind the scenes, and nobody may be refused
        assert "not written" in said or "cannot be written" in said or fault == "checkpoint"
    count = check_power_loss(home, calls, folder, seed, share)
    print(f"{fault}: {len(calls)} calls, {count} disks read")
