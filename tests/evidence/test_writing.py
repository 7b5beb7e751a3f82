"""Our own decisions as a log."""

from __future__ import annotations

import math

import numpy as np
import pytest
from test_replaying import assert_same

import onebit as ob

LABELS = ["a", "b", "c"]


def written(path, contexts, learner, answer):
    with ob.LogWriter(path, learner.labels) as log:
        for i, x in enumerate(contexts):
            shares = learner.propensities(x)
            decision = learner.decide(x)
            given = answer(i, decision)
            if given:
                learner.learn(decision, **given)
            log.write(x, decision, **given, propensities=shares, time=float(i), source="me")


@pytest.mark.parametrize(
    "contexts",
    [
        list(np.random.default_rng(0).normal(size=(30, 4))),
        [{"n": float(i % 5), "kind": "xyz"[i % 3], "text": "two words"} for i in range(30)],
        [f"word{i % 4} and word{i % 7}" for i in range(30)],
    ],
    ids=["rows", "dicts", "texts"],
)
def test_what_was_written_teaches_the_same(contexts, tmp_path):
    def answer(i, decision):
        if i % 5 == 4:
            return {}
        return {"label": LABELS[i % 3]} if i % 7 == 6 else {"right": decision.place == i % 3}

    learner = ob.Banditron(LABELS, gamma=0.5, seed=1)
    written(tmp_path / "a.jsonl", contexts, learner, answer)
    log = ob.Log(tmp_path / "a.jsonl", labels=LABELS)
    (block,) = log.blocks()
    np.testing.assert_allclose(block.propensities.sum(axis=1), 1)
    assert block.times.tolist() == list(range(30)) and set(block.sources) == {"me"}
    assert_same(ob.replay(ob.Banditron(LABELS, gamma=0.5, seed=1), log), learner)


def test_rows_are_added_and_possible_labels_kept(tmp_path):
    learner = ob.UniformRandom([1, 2, 3])
    for _ in range(2):
        with ob.LogWriter(tmp_path / "a.jsonl", learner.labels) as log:
            log.write("text", learner.decide("text", among=[1, 3]), right=1)
    (block,) = ob.Log(tmp_path / "a.jsonl", labels=[1, 2, 3]).blocks()
    assert block.allowed.tolist() == [[True, False, True]] * 2
    assert block.propensity.tolist() == [0.5, 0.5] and block.right.tolist() == [1, 1]
    np.testing.assert_allclose(block.all_propensities(3), [[0.5, 0, 0.5]] * 2)


def test_what_cannot_be_written(tmp_path):
    learner = ob.UniformRandom(LABELS)
    with pytest.raises(ValueError, match=r"name it \.jsonl"):
        ob.LogWriter(tmp_path / "a.csv", LABELS)
    with ob.LogWriter(tmp_path / "a.jsonl", LABELS) as log:
        decision = learner.decide(([0], [1.0]))
        with pytest.raises(TypeError, match=r"contexts as JSON: .*, not tuple"):
            log.write(([0], [1.0]), decision)
        with pytest.raises(ValueError, match="no label 'z'"):
            log.write("x", decision, label="z")
        with pytest.raises(TypeError, match=r"a decision of one label, .*, not 'b'"):
            log.write("x", "b", right=True)
        shown = ob.UCWL(LABELS).decide("x", show=2)
        with pytest.raises(TypeError, match=r"a decision of one label, .*, not ListDecision"):
            log.write("x", shown, right=True)
        with pytest.raises(ValueError, match=f"1 propensities, and there are {len(LABELS)} labels"):
            log.write("x", decision, propensities=[1.0])
        with pytest.raises(ValueError, match="leave a missing one out"):
            log.write({"age": math.nan}, decision, right=True)
    assert (tmp_path / "a.jsonl").read_text() == ""
