"""Contexts with their true labels, taught before or between rounds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import onebit as ob
from onebit.algorithms.onebit.records import HEARD
from onebit.testing import model_bytes, state_bytes

TOPICS = ["sport", "politics"]
TEXTS = 4 * ["a late goal", "a new tax law", "the match was lost", "the minister resigned"]
LABELS = 4 * ["sport", "politics", "sport", "politics"]


@pytest.fixture
def learner():
    taught = ob.OneBit(TOPICS)
    taught.teach(TEXTS, LABELS)
    return taught


def test_taught_contexts_are_known_before_the_first_round(learner):
    assert learner.round == 0
    assert learner.decide("a goal in the match").label == "sport"
    assert learner.decide("the minister of tax").label == "politics"


def test_examples_are_taught_before_the_first_round(learner):
    examples = {label: [] for label in TOPICS}
    for text, label in zip(TEXTS, LABELS, strict=True):
        examples[label].append(text)
    made = ob.OneBit(TOPICS, examples=examples)
    by_hand = ob.OneBit(TOPICS)
    by_hand.teach(TEXTS, LABELS)  # one of each label, then the next one of each
    assert model_bytes(made) == model_bytes(by_hand)
    assert made.origin == ob.OneBit(TOPICS).origin  # they may learn from each other's decisions


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        ([("a", "sport")], "a dict of labels and their contexts"),
        ({"sport": "a late goal"}, "examples of 'sport' must be a list"),
        ({"sport": {"goal": 1}}, "examples of 'sport' must be a list"),
        ({"sport": pd.DataFrame({"text": TEXTS})}, r"a data frame: teach\(X, y\) takes one"),
        ({"sport": {"a late goal", "a match"}}, "examples of 'sport' must be a list"),
        ({"spotr": ["a late goal"]}, "examples=, row 0: .* did you mean 'sport'"),
        ({"sport": ["a late goal", 3]}, "examples=, row 1 is no text"),
    ],
)
def test_examples_of_another_form_are_refused(examples, message):
    with pytest.raises((TypeError, ValueError), match=message):
        ob.OneBit(TOPICS, examples=examples)


def test_what_was_taught_says_of_what_kind_contexts_are(learner):
    assert learner.has_learned()
    with pytest.raises(ValueError, match="taught with texts"):
        learner.decide([0.5, 1.0])
    dense = ob.OneBit(2)
    dense.teach(np.eye(3), [0, 1, 0])
    with pytest.raises(ValueError, match="a row has 2 columns"):
        dense.decide([0.5, 1.0])


def test_dicts_taught_before_the_first_round_name_the_columns_of_frames():
    frames = pytest.importorskip("polars")
    learner = ob.OneBit(2)
    learner.teach([{"age": 31.0, "pay": 2.0}, {"age": 60.0, "pay": 1.0}], [0, 1])
    row = frames.DataFrame({"age": [60.0], "pay": [1.0]})
    as_dict = learner.copy().decide({"age": 60.0, "pay": 1.0})
    assert np.array_equal(learner.decide(next(row.iter_slices(1))).row[0], as_dict.row[0])


def test_a_learner_that_fades_does_so_once():
    def learners():
        learner = ob.OneBit(TOPICS, half_life=16)
        for text, label in zip(TEXTS[:2], LABELS[:2], strict=True):
            decision = learner.decide(text)
            learner.learn(decision, right=decision.label == label)
        return learner

    together, one_by_one = learners(), learners()
    together.teach(TEXTS, LABELS)
    for text, label in zip(TEXTS, LABELS, strict=True):
        one_by_one.teach([text], [label])
    assert state_bytes(together) == state_bytes(one_by_one)


@pytest.mark.parametrize("kind", [ob.OneBit, ob.UCWL, ob.PNewtron])
def test_a_copy_of_a_taught_learner_fades_no_more_than_it(kind):
    """A step that is due before the next decision comes after what is taught before it."""
    learner = kind(2, half_life=16, features=2)
    for label in (0, 1, 1):
        decision = learner.decide([0.6, 0.8])
        learner.learn(decision, right=decision.label == label)
    learner.teach([[0.8, -0.6], [1.0, 0.0]], [0, 1])
    copy = learner.copy()
    for either in (learner, copy):
        either.decide([0.6, 0.8])
    assert state_bytes(copy) == state_bytes(learner)


def test_a_vocabulary_holds_for_taught_contexts():
    learner = ob.OneBit(TOPICS, vocabulary=5)
    learner.teach(TEXTS, LABELS)
    assert learner.table.own_rows == 5
    one_by_one = ob.OneBit(TOPICS, vocabulary=5)
    for text, label in zip(TEXTS, LABELS, strict=True):
        one_by_one.teach([text], [label])
    assert model_bytes(learner) == model_bytes(one_by_one)


def test_taught_contexts_are_no_sign_of_drift(learner):
    before = learner.table.state.memory.copy()
    learner.teach(TEXTS, LABELS[::-1])
    assert (learner.table.state.memory == before).all()


def test_of_two_labels_the_wrong_one_says_all():
    """As `learn(label=...)`: one update, if the other label is inferred."""
    taught, told = (ob.OneBit(TOPICS) for _ in range(2))
    for text, label in zip(TEXTS, LABELS, strict=True):
        told.learn(told.decide(text), label=label)
        taught.teach([text], [label])
    heard = [learner.table.state.held.experts.count[HEARD] for learner in (taught, told)]
    assert heard == [len(TEXTS)] * 2
