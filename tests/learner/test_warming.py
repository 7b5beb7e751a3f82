"""What is compiled, and when: `Learner.warm_up`, and the line that says that it takes long."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import onebit as ob
from onebit import testing
from onebit.core import jit, lanes
from onebit.learner import calls

DENSE, NAMED = [0.5, 1.0, -2.0], ({"goal": 1, "team": "A"}, "a text of some words")
HASHED = {"features": 64}


@pytest.fixture
def needed(monkeypatch):
    """The names and kinds of the compiled functions that are asked for."""
    seen = set()

    def noted(function, kind, *args):
        seen.add((function.__name__, kind))
        return jit.direct(function, kind, *args)

    monkeypatch.setattr(calls, "direct", noted)
    return seen


def play(learner, x):
    """What a request may ask."""
    for answer in ({"right": True}, {"right": False}, {"label": learner.labels[-1]}):
        if not learner.full_information or "label" in answer:
            learner.learn(learner.decide(x), **answer)
    proposal = learner.propose(x)
    learner.learn(learner.redo(x, proposal), label=learner.labels[0])
    learner.propensities(x)
    learner.predict([x])
    learner.explain(x)


@pytest.mark.parametrize("labels", [3, 7, 13, ["a", "b", "c"], [7, 8, 9, 10]])
@pytest.mark.parametrize("x", [DENSE, *NAMED], ids=["dense", "dict", "text"])
@pytest.mark.parametrize("make", [ob.OneBit, ob.Banditron, ob.UCWL, ob.AROW])
def test_nothing_is_left_to_compile(make, x, labels, needed):
    learner = make(labels)
    learner.warm_up()
    learner.copy().warm_up(x)
    before = set(needed)
    play(learner, x)
    first = len(learner.labels)
    while len(learner.labels) < first + 8:  # a multiple of 8 is passed
        learner.add_label(
            None if learner.label_set.counted else type(learner.labels[0])(len(learner.labels) + 90)
        )
        play(learner, x)
        if lanes.state_type(lanes.lanes_for(first)) is not type(learner.table.state):
            break
    assert needed == before


@pytest.mark.parametrize("make", [ob.OneBit, ob.Confidit, ob.FastCB])
def test_warming_up_changes_nothing(make):
    learner = make(3, **HASHED)
    fresh = testing.state_bytes(learner)
    learner.warm_up()
    assert testing.state_bytes(learner) == fresh
    for x in NAMED:
        learner.learn(learner.decide(x), right=True)
    before = testing.state_bytes(learner)
    learner.warm_up()
    learner.warm_up("a text")
    assert testing.state_bytes(learner) == before
    assert learner.decide("a text").round == 2


def test_a_context_that_the_learner_refuses_is_refused():
    learner = ob.UCWL(3)
    with pytest.raises(TypeError, match="bytes"):
        learner.warm_up(b"text")


def test_only_kinds_that_may_come_are_compiled(needed):
    learner = ob.OneBit(3, inputs="sparse")
    learner.warm_up("a text")
    held = 3  # after the settings, those of the algorithm, and the state
    assert {kind[held].__name__ for _, kind in needed} == {"Sparse"}


SLOW = """
import logging, sys
from onebit.core import jit, lanes
jit.LONG = float(sys.argv[1])
import onebit as ob
learner = ob.Perceptron(3)
learner.learn(learner.decide([1.0, 2.0]), label=1)
"""


@pytest.mark.compiled
@pytest.mark.skipif(not jit.COMPILED, reason="nothing is compiled")
def test_long_compilation_is_said(tmp_path):
    env = {**os.environ, "ONEBIT_CACHE": str(tmp_path)}

    def said(seconds):
        command = [sys.executable, "-c", SLOW, seconds]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stderr

    lines = said("0.01").splitlines()
    wanted = [line for line in lines if line.startswith("compiling learn_label of Perceptron")]
    assert len(wanted) == 1 and str(tmp_path) in wanted[0] and "warm_up()" in wanted[0]
    assert said("0.01") == ""  # it is kept
