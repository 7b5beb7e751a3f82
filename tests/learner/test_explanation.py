"""Explanations name the parts that the truth depends on."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import onebit as ob
from onebit.learner import explanation
from onebit.reading import texts as texts_module
from onebit.reading.texts import Text, is_text, words_of

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
    assert found.propensities == {"billing": 1.0, "bug": 0.0, "praise": 0.0}
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


def test_probabilities_of_being_right_are_the_forecasts():
    learner = taught(ob.OneBit(list(TEXTS)), *texts(), times=12)
    for text in ("please look at this invoice again", "thanks", "", "a word"):
        found = learner.explain(text)
        assert list(found.scores) == list(TEXTS)
        assert list(found.probabilities) == list(TEXTS)
        assert [*found.probabilities.values()] == learner.probabilities([text])[0].tolist()
    found = learner.explain("this invoice", among=["bug", "billing"])
    assert found.probabilities.keys() == {"bug", "billing"}
    decision = learner.copy().decide("this invoice", among=["bug", "billing"])
    assert found.probabilities[decision.label] == decision.confidence
    shown = f"probability of being right: 'billing' {100 * found.probabilities['billing']:.1f} %, "
    assert shown in str(found) and "scores" not in str(found)
    found = learner.explain("this invoice", among=["bug"])
    assert found.propensities == {"bug": 1.0} and found.probabilities["bug"] > 0.9


def test_scores_without_a_unit_are_no_probabilities():
    found = taught(ob.UCWL(list(TEXTS)), *texts(), times=3).explain("this invoice")
    assert found.probabilities == {}
    assert "scores (not probabilities): " in str(found) and "%" not in str(found)


@pytest.mark.parametrize("half_life", [None, 16])
@pytest.mark.parametrize("make", [ob.OneBit, ob.UCWL, ob.Confidit])
def test_exploring_is_said(make, half_life):
    """For learners that draw nothing, an explanation is about the very decision that follows."""
    rng, seen = np.random.default_rng(3), set()
    learner = make(4, half_life=half_life, features=64)
    for i in range(90):
        among = rng.choice(4, size=3, replace=False).tolist() if i % 3 else None
        x = {"a": 1, f"b{rng.integers(3)}": 1}
        found, again = learner.explain(x, among=among), learner.explain(x, among=among)
        decision = learner.decide(x, among=among)
        assert found == again
        assert (found.label, found.greedy) == (decision.label, decision.greedy)
        assert found.explores == decision.explored
        assert ("to explore; best is" in str(found)) == decision.explored
        seen.add(found.explores)
        learner.learn(decision, right=bool(i % 5 == 0))
    assert seen == {False, True}


def shortened(x: Any) -> Iterator[tuple[str, Any]]:
    """The parts of a text or dict, and the context without each of them, made from scratch."""
    if isinstance(x, str):
        words = words_of(x)
        for word in dict.fromkeys(words):
            yield repr(word), " ".join(kept for kept in words if kept != word)
        return
    for name, value in x.items():
        if isinstance(value, str) and is_text(value):
            for word, rest in shortened(value):
                yield f"{name} {word}", {**x, name: Text(rest)}
        else:
            yield f"{name}={value}", {key: kept for key, kept in x.items() if key != name}


CONTEXTS = [
    "the cat the dog the the cat and a dog cat",
    "one",
    "naïve 東京都の天気 👍🏽 is is 東京",
    {"body": "the cat the dog", "title": "a cat", "price": 3.5, "tax": 0.0, "kind": "red"},
    {"missing": None, "absent": np.nan, "body": "a b a b c", "n": -2, "on": True},
]


@pytest.mark.parametrize("features", [None, 7])  # 7: words, names and numbers share columns
@pytest.mark.parametrize(
    ("make", "settings"),
    [(ob.OneBit, {}), (ob.UCWL, {}), (ob.UCWL, {"inputs": "auto"}), (ob.UCWL, {"inputs": "unit"})],
)
def test_support_is_the_lead_that_is_lost_without_the_part(make, settings, features):
    learner = make(["p", "q", "r"], features=features, dtype="float64", **settings)
    rng = np.random.default_rng(5)
    for i in range(60):
        x = CONTEXTS[i % len(CONTEXTS)]
        x = {**x, "price": rng.normal(), "n": rng.normal()} if isinstance(x, dict) else x
        decision = learner.decide(x)
        learner.learn(decision, right=decision.label == "pqr"[i % len(CONTEXTS) % 3])
    for x in CONTEXTS:
        found = learner.explain(x)
        place = learner.labels.index(found.label)

        def lead(context, place=place):
            scores = learner.scores([context])[0]
            return scores[place] - np.delete(scores, place).max()

        expected = {name: lead(x) - lead(rest) for name, rest in shortened(x)}
        support = dict(found.parts)
        assert support.keys() <= expected.keys()
        for name, size in expected.items():
            assert abs(size - support.get(name, 0)) < 1e-9, name
        assert any(support.values())


@pytest.mark.parametrize("form", [str, lambda text: {"body": text, "kind": "red", "n": 1}])
def test_a_long_text_is_read_once(form, monkeypatch):
    read = []
    monkeypatch.setattr(texts_module, "words_of", lambda text: read.append(1) or words_of(text))
    learner = ob.OneBit(2)
    learner.learn(learner.decide(form("word3 word4")), right=True)
    counts = []
    for size in (5, 50):
        read.clear()
        learner.explain(form(" ".join(f"word{i}" for i in range(size))))
        counts.append(len(read))
    assert counts[0] == counts[1] < 5


def test_few_contexts_are_in_memory_at_a_time(monkeypatch):
    learner = taught(ob.OneBit(list(TEXTS)), *texts(), times=5)
    x = "please look at this invoice again, the app does crash"
    whole, sizes, score = learner.explain(x), [], explanation.score
    monkeypatch.setattr(explanation, "MOST_ENTRIES", 50)
    monkeypatch.setattr(
        explanation,
        "score",
        lambda learner, X, places: sizes.append(len(X.indptr) - 1) or score(learner, X, places),
    )
    assert learner.explain(x) == whole
    assert max(sizes) <= 3 and sum(sizes) == 11


def test_parts_that_were_not_tried_are_counted(monkeypatch):
    monkeypatch.setattr(explanation, "MOST_PARTS", 5)
    text = " ".join(f"word{i}" for i in range(7))
    for x in (text, {"body": text, "team": "A"}, ([*range(8)], [1.0] * 8)):
        learner = ob.UCWL(2)
        first = ([3, 4], [1.0, 1.0]) if isinstance(x, tuple) else "word3 word4"
        learner.learn(learner.decide(first), right=True)
        found = learner.explain(x)
        assert found.left_out == 2 + (x is not text)
        assert str(found).endswith(f"not tried: {found.left_out} parts after the first 5")
    found = learner.explain(first)
    assert found.left_out == 0 and "not tried" not in str(found)


def test_bad_contexts_are_refused():
    with pytest.raises(ValueError, match="index 0 is inf"):
        ob.OneBit(2).explain([np.inf, 1.0])
    with pytest.raises(ValueError, match="index 0 is nan"):
        ob.UCWL(2).explain([np.nan, 1.0])
