"""`Decision.confidence` and `Learner.probabilities`: how likely it is that a label is right."""

from __future__ import annotations

import numpy as np
import pytest

import onebit as ob
from onebit.datasets.linear import linear_noise

ESTIMATE = {"Confidit", "EpsilonGreedy", "FastCB", "LinearThompson", "OneBit", "SquareCB"}


def taught(learner, X, labels, rounds=None):
    decisions = []
    for i in range(rounds or len(X)):
        decisions.append(learner.decide(X[i % len(X)]))
        learner.learn(decisions[-1], right=decisions[-1].label == labels[i % len(X)])
    return decisions


def test_a_fresh_learner_is_not_sure():
    for make in (ob.OneBit, ob.FastCB, ob.SquareCB, ob.EpsilonGreedy, ob.Confidit):
        decision = make(["sport", "politics", "tech"]).decide({"goal": 1, "match": 2})
        assert 0 < decision.confidence <= 0.5
    assert ob.OneBit(10).decide("a text").confidence < 0.2


def test_learners_without_an_estimate_say_so():
    kinds = [getattr(ob, name) for name in ob.__all__]
    learners = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, ob.Learner)]
    assert {kind.__name__ for kind in learners if kind.forecasts is not None} == ESTIMATE
    learner = ob.UCWL(3)
    assert learner.decide([1.0, 2.0]).confidence is None
    with pytest.raises(TypeError, match="the scores of UCWL only order the labels"):
        learner.probabilities([[1.0, 2.0]])


def test_confidence_grows_with_right_answers_and_stays_with_its_decision():
    learner, words = ob.OneBit(["a", "b", "c"]), ["red", "green", "blue"]
    decisions = taught(learner, words, ["a", "b", "c"], rounds=45)
    early, late = decisions[0], decisions[-1]
    said = early.confidence
    assert said < 0.5 < 0.8 < late.confidence <= 1
    back = ob.Decision.from_bytes(early.to_bytes())
    assert back.confidence == early.confidence == said
    waiting = learner.propose("red")
    assert learner.redo("red", waiting).confidence == waiting.confidence
    assert learner.probabilities(words).max(axis=1).min() > 0.8


@pytest.mark.parametrize("alpha", [1.0, 0.3])
def test_confidit_estimates_the_chance_by_its_model_of_noise(alpha):
    """Its scores run from -alpha, surely wrong, to 1, surely right."""
    data = linear_noise(rows=4000, labels=3, features=6, alpha=alpha, seed=2)
    learner = ob.Confidit(3, form="full", alpha=alpha, reg=0.1)
    taught(learner, data.X, data.y)
    chances = learner.probabilities(data.X)
    assert abs(chances - data.probabilities).mean() < 0.08
    said = [learner.decide(x) for x in data.X[:50]]
    assert [d.confidence for d in said] == [chances[i, d.place] for i, d in enumerate(said)]


def test_an_empty_context_has_no_estimate():
    learner, red, green = ob.Confidit(["a", "b"]), {"colour": "red"}, {"colour": "green"}
    taught(learner, [red, green], ["a", "b"], rounds=20)
    assert learner.decide({}).confidence is None
    found = learner.probabilities([red, {}, green])
    assert np.isnan(found).tolist() == [[False] * 2, [True] * 2, [False] * 2]
    assert learner.explain({}).probabilities == {}
    assert "%" not in str(learner.explain({}))


def test_onebit_has_an_estimate_for_an_empty_context():
    """How often the labels were right in such rounds, however right they were in others."""
    learner, chances = ob.OneBit(["a", "b"]), (0.0, 0.5)
    taught(learner, ["red", "green"], ["a", "b"], rounds=20)
    for t in range(200):
        decision = learner.decide({})
        learner.learn(decision, right=t % 2 < 2 * chances[decision.place])
    assert learner.decide({}).label == "b"
    assert learner.decide({}).confidence == learner.probabilities([{}])[0, 1] > 0.3
    assert learner.explain({}).probabilities.keys() == {"a", "b"}
    assert learner.predict(["red", "green"]).tolist() == ["a", "b"]


def test_only_the_possible_labels_share_the_chance():
    learner = ob.OneBit(["a", "b", "c"])
    taught(learner, ["red", "green", "blue"], ["a", "b", "c"], rounds=45)
    decision = learner.decide("red", among=["b", "c"])
    assert decision.confidence > learner.probabilities(["red"])[0, decision.place]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_estimate_is_a_number_of_python(dtype):
    decision = ob.OneBit(3, dtype=dtype).decide([1.0, 2.0])
    assert type(decision.confidence) is float


def test_bytes_of_an_earlier_version_have_no_confidence(monkeypatch):
    import msgspec

    from onebit.learner import decision as module

    made = ob.OneBit(3).decide("a text")
    encode = module._encode
    with monkeypatch.context() as patch:
        patch.setattr(module, "_encode", lambda stored: encode(stored[:-2]))
        earlier = made.to_bytes()
    assert ob.Decision.from_bytes(earlier).confidence is None
    for wrong in (1.5, -0.1, float("nan")):
        forged = msgspec.structs.replace(made, confidence=wrong).to_bytes()
        with pytest.raises(ValueError, match="its confidence is not a probability"):
            ob.Decision.from_bytes(forged)
