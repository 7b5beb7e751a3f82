"""All code that requests need is compiled before they can reach a learner."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers.waiting import PATIENCE
from running import LABELS, Home, context, play

from onebit.learner.learner import Learner
from onebit.service.configuration import check
from onebit.service.engine import rebuilding
from onebit.service.engine.building import Builder
from onebit.service.messages import LabelChange, Retraining


@pytest.fixture
def home(tmp_path):
    made = Home(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def pool():
    with ThreadPoolExecutor(1) as thread:
        yield thread


@pytest.fixture
def warmed(monkeypatch):
    """The learners that were warmed up: their classes and labels."""
    seen, warm_up = [], Builder.warm_up

    def noted(builder, learner):
        seen.append((type(learner).__name__, tuple(learner.labels)))
        warm_up(builder, learner)

    monkeypatch.setattr(Builder, "warm_up", noted)
    return seen


@pytest.fixture
def rounds(monkeypatch):
    """The kinds of contexts and answers of all rounds, and the kinds whose shares were asked."""
    seen, shares, decide, learn = set(), set(), Learner.decide, Learner.learn
    propensities, kinds = Learner.propensities, {}

    def decided(learner, x, **options):
        decision = decide(learner, x, **options)
        kinds[id(learner)] = type(x).__name__
        return decision

    def learned(learner, decision, **answer):
        learn(learner, decision, **answer)
        seen.add((kinds[id(learner)], *(name for name, held in answer.items() if held is not None)))

    def asked(learner, x, **options):
        shares.add(type(x).__name__)
        return propensities(learner, x, **options)

    monkeypatch.setattr(Learner, "decide", decided)
    monkeypatch.setattr(Learner, "learn", learned)
    monkeypatch.setattr(Learner, "propensities", asked)
    return seen, shares


def test_every_kind_of_request_is_played(home, rounds):
    service = home.start()
    service.warm_up()
    seen, shares = rounds
    kinds = {"dict", "str", "tuple", "list"}
    assert seen == {(kind, said) for kind in kinds for said in ("right", "label")}
    assert shares == kinds
    assert service.models["news"].card().rounds == 0
    # A learner of rows takes nothing else.
    service.models["news"].decide([1.0, 2.0])
    for held in rounds:
        held.clear()
    service.warm_up()
    assert seen == {("list", "right"), ("list", "label")} and shares == {"list"}


def test_learners_of_true_labels(home, rounds):
    home.write('learner = "Perceptron"')
    home.start().warm_up()
    assert rounds[0] == {(kind, "label") for kind in ("dict", "str", "tuple", "list")}


def test_a_new_model_takes_requests_once_it_is_compiled(home, monkeypatch):
    service, seen = home.start(), []
    monkeypatch.setattr(Builder, "warm_up", lambda *_: seen.append(list(service.models)))
    home.write('[models.other]\nlabels = ["a", "b"]\nlearner = "Banditron"')
    service.reload(check(home.config))
    assert seen == [["news"]]
    assert list(service.models) == ["news", "other"]


@pytest.mark.parametrize("is_long", [False, True])
def test_another_learner_takes_over_once_it_is_compiled(home, pool, monkeypatch, is_long):
    news, seen = home.start().models["news"], []
    play(news, 10)
    warm_up = Builder.warm_up

    def noted(builder, learner):
        seen.append((type(learner).__name__, learner.round > 0, news.card().learner))
        if len(seen) == 1:
            assert pool.submit(news.decide, context(1)).result(PATIENCE)  # need not wait
        warm_up(builder, learner)

    monkeypatch.setattr(Builder, "warm_up", noted)
    if is_long:
        monkeypatch.setattr(rebuilding, "AT_ONCE", 0)
    news.submit_retrain(Retraining(learner="UCWL")).wait()
    news.settle()
    assert seen[-1] == ("UCWL", True, "Banditron")
    assert seen[0] == ("UCWL", is_long, "Banditron") and len(seen) == 2
    assert news.card().learner == "UCWL"
    news.decide(context(1))


def test_more_labels_may_be_other_code(home, warmed, pool, monkeypatch):
    news, warm_up = home.start().models["news"], Builder.warm_up

    def noted(builder, learner):
        assert pool.submit(news.decide, context(1)).result(PATIENCE)  # need not wait
        warm_up(builder, learner)

    monkeypatch.setattr(Builder, "warm_up", noted)
    news.submit_labels(LabelChange(add=["food"])).wait()
    news.submit_labels(LabelChange(retire=["food"])).wait()
    assert warmed == [("Banditron", (*LABELS, "food"))]
