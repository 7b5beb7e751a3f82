"""onebit.river: River's own checks, the one-bit game, and a policy for bandits with contexts."""

from __future__ import annotations

import importlib
import pickle
import random
import sys

import numpy as np
import pytest

import onebit as ob

pytest.importorskip("river", reason="River is not installed: pip install '.[river]'")

from river import bandit, checks, datasets, evaluate, metrics, preprocessing, stats

import onebit.river
from onebit.river import OneBitClassifier, OneBitPolicy

BANDITRON = OneBitClassifier("Banditron")


@pytest.mark.parametrize(
    "check", list(checks.yield_checks(BANDITRON)), ids=lambda check: check.__name__
)
def test_checks_of_river(check):
    check(BANDITRON.clone())


@pytest.mark.thorough
def test_checks_of_river_on_the_default_learner():
    checks.check_estimator(OneBitClassifier())


# The classifier.


def test_a_row_is_decided_and_then_answered_right_or_wrong():
    model, by_hand, mistakes = OneBitClassifier("UCWL:eta=0.9", seed=3), None, 0
    for x, y in datasets.Phishing().take(100):
        model.learn_one(x, y)
        if by_hand is None:
            by_hand, first = ob.UCWL(2, eta=0.9, seed=3), y
            seen = {first}
        seen.add(y)
        if len(seen) == 2:
            decision = by_hand.decide(x)
            right = (decision.label == 0) == (y == first)
            by_hand.learn(decision, right=right)
            mistakes += not right
    chances = model.predict_proba_one(x)
    assert list(chances) == [first, not first]
    assert max(chances, key=chances.get) == (first, not first)[by_hand.predict([x])[0]]
    assert model.mistakes == mistakes > 0


def test_labels_are_added_as_they_come():
    model = OneBitClassifier("Banditron")
    assert model.predict_one({"a": 1}) is None and model.predict_proba_one({"a": 1}) == {}
    model.learn_one({"a": 1}, "sport")
    assert model.predict_proba_one({"a": 1}) == {"sport": 1.0}
    for label in ("tech", 3, "sport", True):
        model.learn_one({"a": 1}, label)
    assert list(model.predict_proba_one({"a": 1})) == ["sport", "tech", 3, True]


@pytest.mark.parametrize("missing", [None, float("nan"), np.float32("nan")])
def test_a_missing_label_is_refused(missing):
    model = OneBitClassifier("Banditron")
    for rows in (1, 4):
        for x, y in datasets.ImageSegments().take(rows):
            model.learn_one(x, y)
        before = pickle.dumps(model)
        with pytest.raises(ValueError, match=r"y is .*: learn_one needs the true label"):
            model.learn_one({"a": 1}, missing)
        assert pickle.dumps(model) == before


def test_a_text_is_a_context():
    model = OneBitClassifier("UCWL")
    for text, topic in [("a cup match", "sport"), ("the vote on a law", "politics")] * 20:
        model.learn_one(text, topic)
    assert [model.predict_one(text) for text in ("a match", "a vote")] == ["sport", "politics"]


def test_onebit_in_a_pipeline():
    model = preprocessing.StandardScaler() | OneBitClassifier()
    metric = evaluate.progressive_val_score(
        datasets.Phishing().take(200), model, metrics.Accuracy()
    )
    assert metric.get() > 0.75


def test_a_reference_is_told_the_true_label():
    model = OneBitClassifier("AROW")
    for x, y in datasets.ImageSegments().take(200):
        model.learn_one(x, y)
    assert model.mistakes < 150


def test_names_of_features_need_not_be_strings():
    model = OneBitClassifier("UCWL")
    for _ in range(20):
        model.learn_one({1: 1.0, ("a", 2): "red"}, "yes")
        model.learn_one({2: 1.0, ("a", 2): "blue"}, "no")
    assert model.predict_one({1: 1.0, ("a", 2): "red"}) == "yes"


@pytest.mark.parametrize("x", [[1, 2], np.ones(2), {1, 2}, 3])
def test_what_is_no_dict_and_no_text_is_refused(x):
    model = OneBitClassifier("Banditron")
    with pytest.raises(TypeError, match="River passes dicts: x must be a dict"):
        model.learn_one(x, 1)
    assert not model.predict_proba_one({"a": 1})  # the label was not added
    model.learn_one({"a": 1}, 1)
    model.learn_one({"a": 1}, 0)
    policy = OneBitPolicy("FastCB")
    for call in (
        model.predict_one,
        lambda x: policy.pull([0, 1], context=x),
        lambda x: policy.update(0, x, 1),
    ):
        with pytest.raises(TypeError, match="River passes dicts: x must be a dict"):
            call(x)


def test_a_pickled_classifier_goes_on():
    rows = list(datasets.ImageSegments().take(60))
    model = OneBitClassifier("Banditron")
    for x, y in rows[:40]:
        model.learn_one(x, y)
    again = pickle.loads(pickle.dumps(model))
    for x, y in rows[40:]:
        model.learn_one(x, y)
        again.learn_one(x, y)
    assert model.predict_proba_one(rows[0][0]) == again.predict_proba_one(rows[0][0])


def test_what_is_no_learner_is_refused():
    model = OneBitClassifier("Banditon")
    model.learn_one({"a": 1}, 0)
    with pytest.raises(ValueError, match="no learner 'Banditon'"):
        model.learn_one({"a": 1}, 1)


# The policy.

ARMS = ["shoes", "books", "music"]
LIKES = {"young": "music", "old": "books", "sporty": "shoes"}


def contexts(count, seed=1):
    rng = random.Random(seed)
    return [{"user": rng.choice(list(LIKES)), "hour": rng.random()} for _ in range(count)]


def played(policy, rows, arms=ARMS):
    """How many pulls were right."""
    hits = 0
    for context in rows:
        arm = policy.pull(arms, context=context)
        reward = int(arm == LIKES[context["user"]])
        policy.update(arm, context, reward)
        hits += reward
    return hits


@pytest.mark.parametrize("learner", ["OneBit", "UCWL"])
def test_a_policy_learns_whom_to_offer_what(learner):
    assert played(OneBitPolicy(learner), contexts(150)) > 110


def test_a_policy_decides_as_its_learner():
    policy, by_hand = (
        OneBitPolicy("Banditron:gamma=0.5", seed=4),
        ob.Banditron(ARMS, gamma=0.5, seed=4),
    )
    for context in contexts(50):
        decision = by_hand.decide(context)
        assert policy.pull(ARMS, context=context) == decision.label
        reward = decision.label == LIKES[context["user"]]
        by_hand.learn(decision, right=reward)
        policy.update(decision.label, context, reward)


def test_a_text_is_a_context_of_a_policy():
    policy = OneBitPolicy("UCWL")
    for i in range(6):
        text = ["a late goal", "the new law"][i % 2]
        arm = policy.pull(["sport", "politics"], context=text)
        policy.update(arm, text, int(arm == ["sport", "politics"][i % 2]))
    assert not policy._open and policy._growing.learner.weights.any()


def test_rewards_may_come_late_and_in_any_order():
    policy, rows = OneBitPolicy("UCWL"), contexts(60)
    for _ in range(3):
        pulls = [(policy.pull(ARMS, context=context), context) for context in rows]
        for arm, context in reversed(pulls):
            policy.update(arm, context, float(arm == LIKES[context["user"]]))
    assert not policy._open and not policy._open_keys
    assert played(policy, contexts(50, seed=2)) > 40


def test_pulls_in_the_same_context_get_one_reward_each():
    policy, context = OneBitPolicy("UniformRandom"), {"user": "old"}
    arms = [policy.pull(ARMS, context=context) for _ in range(30)]
    for arm in arms:
        policy.update(arm, context, arm == "books")
    assert not policy._open and policy._growing.learner.round == 30


def test_a_missing_number_is_absent_when_a_reward_is_matched():
    policy = OneBitPolicy("UCWL")
    for hour in (float("nan"), np.float64("nan")):
        arm = policy.pull(ARMS, context={"user": "old", "hour": hour, "shop": None})
        policy.update(arm, {"user": "old", "shop": None}, 0)
        assert not policy._open
        arm = policy.pull(ARMS, context={"user": "old", "hour": hour, "shop": None})
        policy.update(arm, {"user": "old", "hour": float("nan")}, 0)  # None is not absent
        assert len(policy._open) == 1
        policy.update(arm, {"user": "old", "hour": float("nan"), "shop": None}, 1)
        assert not policy._open and not policy._open_keys


def test_a_reward_without_a_pull_is_counted_only():
    policy = OneBitPolicy("UCWL")
    played(policy, contexts(20))
    before = policy._growing.learner.weights
    policy.update("books", {"user": "new"}, 1)
    assert (policy._growing.learner.weights == before).all()
    assert policy._n == 21


def test_pulls_that_never_get_a_reward_are_dropped(monkeypatch):
    monkeypatch.setattr(onebit.river, "MOST_OPEN", 5)
    policy = OneBitPolicy("Banditron")
    pulls = [(policy.pull(ARMS, context=context), context) for context in contexts(12)]
    assert len(policy._open_keys) == sum(map(len, policy._open.values())) == 5
    for arm, context in pulls:
        policy.update(arm, context, 0)
    assert not policy._open


def test_arms_come_and_go():
    policy = OneBitPolicy("UCWL")
    assert policy.pull(["books"], context={"user": "old"}) == "books"
    policy.update("books", {"user": "old"}, 1)
    played(policy, contexts(60), ARMS[:2])
    for context in contexts(60):
        assert policy.pull(["music", "shoes"], context=context) in ("music", "shoes")
    assert played(policy, contexts(90)) > 60


def test_a_policy_on_logs():
    rng = random.Random(0)
    logs = []
    for context in contexts(300):
        arm = rng.choice(ARMS)
        logs.append((ARMS, context, arm, float(arm == LIKES[context["user"]])))
    reward, pulls = bandit.evaluate_offline(OneBitPolicy("UCWL"), logs)
    assert reward.get() > 0.7 * pulls > 50


def test_a_policy_is_cloned_and_pickled():
    policy = OneBitPolicy("Banditron", reward_obj=stats.Sum(), seed=3)
    played(policy, contexts(30))
    again = pickle.loads(pickle.dumps(policy))
    assert played(again, contexts(30, seed=2)) == played(policy, contexts(30, seed=2))
    assert again.ranking == policy.ranking
    fresh = policy.clone()
    assert fresh.seed == 3 and isinstance(fresh.reward_obj, stats.Sum) and fresh._n == 0
    assert "books" in repr(policy)


def test_what_a_policy_refuses():
    policy = OneBitPolicy("Banditron")
    with pytest.raises(ValueError, match="needs a context"):
        policy.pull(ARMS)
    with pytest.raises(ValueError, match="arm_ids is empty"):
        policy.pull([], context={"a": 1})
    arm = policy.pull(ARMS, context={"a": 1})
    with pytest.raises(ValueError, match=r"rewards that are 0 or 1, not 0\.5"):
        policy.update(arm, {"a": 1}, 0.5)
    policy.update(arm, {"a": 1}, 1)
    assert policy._n == 1


def test_without_river_the_import_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "onebit.river")
    monkeypatch.setitem(sys.modules, "river", None)
    with pytest.raises(ImportError, match=r"onebit\.river needs River.*pip install"):
        importlib.import_module("onebit.river")
