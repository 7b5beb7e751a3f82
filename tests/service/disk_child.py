"""A service on a disk that is written down. Started by test_disk.py, with a plan in JSON.

What it is about to do and what was acknowledged go into the log of the disk as notes, so that the
log says what must have been durable before each call.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import sys
import time
from pathlib import Path
from random import Random

sys.path.insert(0, os.path.dirname(__file__))
from running import Home, context

from onebit.service import journal, service
from onebit.service.faults import ServiceError, Unavailable

SHIM = ctypes.CDLL(None)


def note(*words) -> None:
    SHIM.diskfaults_note(json.dumps(words).encode())


def fail(calls="", ending="", skip=0, count=-1, error="EIO", loses=False) -> None:
    """Let calls fail from now on; without arguments: none any more."""
    number = getattr(errno, error)
    SHIM.diskfaults_fail(
        calls.encode(), ending.encode(), skip, count if calls else 0, number, int(loses)
    )


class Work:
    """Random requests, one after another or several at once."""

    def __init__(self, home: Home, seed: int) -> None:
        self.home, self.random, self.number = home, Random(seed), 0
        self.open: list[str] = []
        self.restarts, self.refusal = True, ""
        self.answered: list[str] = []
        self.service = home.start(snapshot_every=15)

    def step(self) -> bool:
        """Something random; returns whether it was acknowledged."""
        choice = self.random.random()
        try:
            if choice < 0.35 or len(self.open) < 3:
                self.decide(self.random.choice([1, 1, 1, 4]))
            elif choice < 0.75:
                self.answer(self.random.choice([1, 1, 3]))
            elif choice < 0.80 and self.answered:
                self.change("revise", self.random.choice(self.answered))
            elif choice < 0.84:
                self.change("cancel", self.pop())
            elif choice < 0.87:
                self.change("erase", self.pop())
            elif choice < 0.93:
                self.service.tick()
            elif choice < 0.96 and self.restarts:
                self.home.stop()
                self.service = self.home.start(snapshot_every=15)
        except Unavailable as fault:
            self.refusal = str(fault)
            return False
        except ServiceError as fault:
            raise RuntimeError(f"refused: {fault}") from fault
        return True

    @property
    def engine(self):
        return self.service.models["news"]

    def pop(self) -> str:
        return self.open.pop(self.random.randrange(len(self.open)))

    def decide(self, count: int) -> None:
        pending = []
        for _ in range(count):
            self.number += 1
            key = f"k{self.number}"
            pending.append((self.number, self.engine.submit_decide(context(self.number), key=key)))
        for number, made in pending:
            told = made.wait()
            note("decided", told.id, number, told.label)
            self.open.append(told.id)

    def answer(self, count: int) -> None:
        pending = []
        for _ in range(min(count, len(self.open))):
            id, right = self.pop(), self.random.random() < 0.5
            note("trying", id, "right" if right else "wrong")
            pending.append((id, right, self.engine.submit_feedback(id, right=right)))
        for id, right, made in pending:
            made.wait()
            note("did", id, "right" if right else "wrong")
            self.answered.append(id)

    def change(self, what: str, id: str) -> None:
        if what == "revise":
            right = self.random.random() < 0.5
            state = "right" if right else "wrong"
            note("trying", id, state)
            self.engine.revise(id, right=right)
        else:
            state = {"cancel": "cancelled", "erase": "erased"}[what]
            note("trying", id, state)
            getattr(self.engine, what)(id)
        note("did", id, state)


def main() -> None:
    plan = json.loads(sys.argv[1])
    journal.CHECKPOINT_COMMITS = 12
    service.RETRY = (0.02,)
    home = Home(Path(plan["folder"]), "revisions = true", durability=plan["durability"])
    work = Work(home, plan["seed"])
    for rule in plan["rules"]:
        for _ in range(rule.pop("after")):
            assert work.step()
        seconds = rule.pop("seconds", None)
        fail(**rule)
        refused, work.restarts = 0, False
        before = work.service.tally.failures
        for _ in range(200):
            refused += not work.step()
            behind_the_scenes = work.service.tally.failures > before  # in a checkpoint
            if refused or (behind_the_scenes and not seconds):
                note("failed", work.refusal if refused else "")
                break
        if work.service.tally.failures > before:
            if seconds:  # it goes on refusing until there is room
                until = time.monotonic() + seconds
                while time.monotonic() < until:
                    assert work.service.unready()
                    assert not work.step() or not work.service.unready()
                    time.sleep(0.01)
                fail()
            until = time.monotonic() + 120
            while work.service.unready():
                assert time.monotonic() < until, work.service.unready()
                time.sleep(0.01)
            note("recovered")
        fail()
        work.restarts = True
    for _ in range(plan["steps"]):
        assert work.step()
    if plan.get("close"):
        home.stop()
    note("end")
    os._exit(0)


main()
