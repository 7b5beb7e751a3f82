"""Features that never occurred: reading gives the scores of a decision, and changes nothing."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import onebit as ob
from onebit import testing
from onebit.sklearn import OneBitClassifier

MAKE = {
    "OneBit": lambda **common: ob.OneBit(["a", "b", "c"], **common),
    "EGBandit": lambda **common: ob.EGBandit(["a", "b", "c"], **common),
    "UCWL, scaled": lambda **common: ob.UCWL(["a", "b", "c"], inputs="sparse", **common),
    "Confidit": lambda **common: ob.Confidit(["a", "b", "c"], **common),
}
TEXTS = [{"text": f"{t}{t} w{i % 50}"} for i, t in enumerate("aabccccccc" * 9)]
NEW = [
    {"text": "never seen words"},
    {"text": "cc never seen"},
    {"text": "never seen words", "size": 3.0, "age": -2},
    {"size": 0, "colour": "red"},
    {"colour": "red", "cost": 2.0},
]


def taught(learner, contexts):
    for x in contexts:
        decision = learner.decide(x)
        learner.learn(decision, right=decision.label == x["text"][0])
    return learner


def with_numbers(texts):
    return [text | {"cost": float(i % 7), "rank": i % 3} for i, text in enumerate(texts)]


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
@pytest.mark.parametrize("features", [None, 512])
@pytest.mark.parametrize("numbers", [False, True])
def test_reading_gives_the_scores_of_a_decision_and_changes_nothing(make, features, numbers):
    learner = taught(make(features=features), with_numbers(TEXTS) if numbers else TEXTS)
    before = testing.state_bytes(learner)
    together = learner.scores(NEW)
    for x, scores in zip(NEW, together, strict=True):
        decided = learner.copy()
        decision = decided.decide(x)
        wider = learner.copy()
        wider.table.reserve_for(decision.row[0])
        assert np.array_equal([scores], wider.scores([x]))
        assert np.array_equal([scores], decided.scores([x]))
        assert np.array_equal(learner.scores([x]), [scores])
        assert [decision.greedy] == learner.predict([x])
        assert np.array_equal(learner.propensities(x), wider.propensities(x))
        assert learner.propose(x).label == decision.label
        explained, expected = learner.explain(x), wider.explain(x)
        assert explained == expected
        assert np.array_equal(list(explained.scores.values()), scores.astype(np.float64))
    assert testing.state_bytes(learner) == before


def test_a_new_learner_reads_new_features():
    for make in MAKE.values():
        learner = make()
        before = testing.state_bytes(learner)
        assert np.isfinite(learner.scores(NEW)).all()
        for x in NEW:
            assert np.isfinite(learner.propensities(x)).all()
        assert testing.state_bytes(learner) == before


def test_adapters_read_new_features():
    model = OneBitClassifier().fit(TEXTS, [x["text"][0] for x in TEXTS])
    learner = model.learner_
    before = testing.state_bytes(learner)
    said, shares = model.predict(NEW[:2]), model.predict_proba(NEW[:2])
    assert testing.state_bytes(learner) == before
    assert (model.classes_[shares.argmax(axis=1)] == said).all()
    learner.table.reserve_for(learner.decide(NEW[0]).row[0])
    assert np.array_equal(model.predict_proba(NEW[:2]), shares)


def test_a_batch_of_new_words_takes_no_rows():
    learner = taught(MAKE["OneBit"](), TEXTS)
    whole, slots = learner.table.whole, learner.table.slots
    learner.predict([{"text": f"new{i} other{i} third{i}"} for i in range(2000)])
    assert learner.table.whole is whole and learner.table.slots is slots


def test_a_table_that_is_full_has_room_for_blank_rows():
    learner = taught(MAKE["OneBit"](), TEXTS)
    again = learner.copy()
    assert len(again.table.buffer) == len(again.table.state.table)
    assert np.array_equal(again.scores(NEW), learner.scores(NEW))
    for made in (again, learner):  # rows that were blank are now those of features
        taught(made, NEW[:2])
    assert testing.state_bytes(again) == testing.state_bytes(learner)


def test_full_matrices_and_kernels_get_room_in_a_copy():
    known, new = ([1, 2], [1.0, -2.0]), ([2, 7, 9], [1.0, 3.0, -1.0])
    for settings in ({"form": "full"}, {"kernel": "rbf"}, {"kernel": lambda a, b: a @ b.T}):
        learner = ob.UCWL(3, **settings)
        learner.learn(learner.decide(known), right=True)
        before = testing.state_bytes(learner)
        wider = learner.copy()
        wider.table.reserve_for(np.array(new[0], np.uint32))
        assert np.array_equal(learner.scores([new]), wider.scores([new]))
        assert np.array_equal(learner.propensities(new), wider.propensities(new))
        assert testing.state_bytes(learner) == before


def test_threads_read_new_features_while_others_learn():
    alone, shared, stop = MAKE["OneBit"](), MAKE["OneBit"](), threading.Event()
    faults: list[BaseException] = []

    def read():
        try:
            while not stop.is_set():
                assert np.isfinite(shared.scores(NEW)).all()
                shared.propensities(NEW[0])
        except BaseException as error:
            faults.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    taught(shared, TEXTS)
    stop.set()
    reader.join()
    taught(alone, TEXTS)
    assert not faults and testing.state_bytes(shared) == testing.state_bytes(alone)
