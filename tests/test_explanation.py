"""Explanations name the parts that the truth depends on."""

import numpy as np
import pytest

import onebit as ob
from onebit import explanation

TEXTS = {
    "billing": ["the invoice is wrong", "refund my invoice please", "charged twice on one invoice"],
    "bug": ["the screen stays black", "a crash again today", "the app does crash on start"],
    "praise": ["great work thanks", "thanks a lot", "thanks for the great help"],
}


def taught(learner, contexts, truths, times=1):
    for x, truth in list(zip(contexts, truths, strict=True)) * times:
        decision = learner.decide(x)
        learner.learn(decision, right=bool(decision.label == truth))
    return learner


def texts():
    pairs = [(text, label) for label, texts in TEXTS.items() for text in texts]
    return zip(*pairs, strict=True)


def test_words_speak_for_the_label():
    learner = taught(ob.OneBit(list(TEXTS)), *texts(), times=12)
    before = learner.round
    found = learner.explain("please look at this invoice again")
    assert found.label == found.greedy == "billing" and not found.explores
    assert found.parts[0][0] == "'invoice'" and found.parts[0][1] > 0
    assert found.scores["billing"] == max(found.scores.values())
    assert found.probabilities == {"billing": 1.0, "bug": 0.0, "praise": 0.0}
    assert "for 'billing': 'invoice'" in str(found)
    assert learner.round == before, "explaining is not deciding"


def test_names_and_words_of_a_dict_are_named():
    rng, contexts, truths = np.random.default_rng(0), [], []
    for _ in range(150):
        vip, words = bool(rng.integers(2)), rng.choice(["alpha beta", "gamma delta"])
        contexts.append(
            {"kind": "vip" if vip else "usual", "body": str(words), "noise": rng.random()}
        )
        truths.append("fast" if vip else "slow")
    learner = taught(ob.OneBit(["fast", "slow"]), contexts, truths)
    found = learner.explain({"kind": "vip", "body": "gamma delta", "noise": 0.5})
    assert found.label == "fast" and found.parts[0][0] == "kind=vip"


@pytest.mark.parametrize("make", [ob.OneBit, ob.UCWL])
def test_columns_of_dense_rows_are_named(make):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 4)) + 3.0 * (make is ob.OneBit)
    truths = np.where(X[:, 2] > np.median(X[:, 2]), 1, 0).tolist()
    learner = taught(make(2), X, truths)
    row = X[truths.index(1)].copy()
    row[2] = X[:, 2].max()
    found = learner.explain(row, among=[0, 1])
    assert found.label == 1 and found.parts[0][0] == "column 2"


def test_exploring_is_said():
    learner = ob.OneBit(4)
    for _ in range(6):
        decision = learner.decide({"a": 1})
        learner.learn(decision, right=False)
    found = [learner.explain({"a": 1}) for _ in range(2)]
    assert found[0] == found[1]
    assert found[0].label == learner.decide({"a": 1}).label


def test_parts_that_were_not_tried_are_counted(monkeypatch):
    monkeypatch.setattr(explanation, "MOST_PARTS", 5)
    learner = ob.UCWL(2)
    learner.learn(learner.decide("word3 word4"), right=True)
    text = " ".join(f"word{i}" for i in range(7))
    for x in (text, {"body": text, "team": "A"}, ([*range(8)], [1.0] * 8)):
        found = learner.explain(x)
        assert found.left_out == 2 + (x is not text)
        assert str(found).endswith(f"not tried: {found.left_out} parts after the first 5")
    found = learner.explain("word3 word4")
    assert found.left_out == 0 and "not tried" not in str(found)
    assert "scores (not probabilities): " in str(found)


def test_bad_contexts_are_refused():
    with pytest.raises(ValueError, match="index 0 is nan"):
        ob.OneBit(2).explain([np.nan, 1.0])
