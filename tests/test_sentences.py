"""Wrong calls: a sentence says what was wrong, where, and what to do."""

from __future__ import annotations

import re

import numpy as np
import pytest

import onebit as ob
from onebit.core.settings import LONGEST_SHOWN

pd = pytest.importorskip("pandas")

X, Y = np.random.default_rng(0).normal(size=(30, 4)), np.arange(30) % 3


def learner():
    return ob.OneBit(labels=["a", "b", "c"])


def decided(**feedback):
    made = learner()
    return lambda: made.learn(made.decide({"x": 1}), **feedback)


CALLS = {
    "no labels": (lambda: ob.OneBit(), "OneBit needs the labels: a list of them"),
    "labels misspelt": (lambda: ob.OneBit(lables=[1, 2]), "did you mean labels= by lables=?"),
    "labels one by one": (lambda: ob.Banditron("a", "b"), "the labels as one list, and settings"),
    "labels twice": (lambda: ob.OneBit(["a", "b"], labels=["a", "b"]), "the labels as one list"),
    "a setting without its name": (lambda: ob.Banditron(3, 0.1), "settings by name, such as gamma"),
    "a label alone": (lambda: ob.OneBit(labels=1), "the number of labels must be between 2 and"),
    "feedback without its name": (
        lambda: learner().learn(learner().decide({}), True),
        "right=True, right=False, label=..., taken=... or silence=True, but not True",
    ),
    "a reward": (decided(reward=1), "right=True, right=False, .*, but not reward="),
    "two contexts": (lambda: learner().decide("a", "b"), r"decide takes one context, .* not 'b'"),
    "labels as labels=": (lambda: learner().decide("a", labels=["a"]), "among=.*, but not labels="),
    "a list of texts": (
        lambda: learner().decide(["a text", "a text"]),
        "not texts or dicts: decide takes one context at a time, predict and simulate take many",
    ),
    "a list of dicts": (lambda: learner().decide([{"a": 1}] * 2), "takes one context at a time"),
    "a matrix": (lambda: ob.Banditron(3).decide(X), "one row, not an array of shape .* take many"),
    "an array in a dict": (
        lambda: learner().decide({"emb": np.arange(400.0)}),
        r"'emb' must be a number or a string, not ndarray of shape \(400,\); give each of its",
    ),
    "a list in a dict": (
        lambda: learner().decide({"emb": list(range(400))}),
        r"not \[0, 1, .*\.\.\. \(list of 400\); give each",
    ),
    "another case": (decided(label="A"), "no label 'A'; did you mean 'a'?"),
    "a float for right": (decided(right=1.0), "right must be True or False, not 1.0"),
    "a string for right": (decided(right="true"), "right must be True or False, not 'true'"),
    "an array for right": (decided(right=np.ones(900)), r"not ndarray of shape \(900,\)"),
    "X for the learner": (lambda: ob.simulate(X, Y), r"needs a learner, .* of shape \(30, 4\)"),
    "X and y swapped": (lambda: ob.simulate(ob.OneBit(3), Y, X), "or are X and y swapped?"),
    "y as a frame": (
        lambda: ob.simulate(ob.OneBit(3), X, pd.DataFrame({"label": Y})),
        r"for a single column of labels, give one dimension: y.ravel\(\), frame\['label'\]",
    ),
    "a number as a path": (lambda: ob.load(5), "a model file is given by its path, not by 5"),
    "a folder as a model": (lambda: ob.load("."), "'.' is a folder, and no model file"),
    "a folder as data": (lambda: ob.datasets.read("."), "is a folder: give one of its files"),
    "another name": (lambda: ob.Onebit, "no attribute 'Onebit'; did you mean 'OneBit'?"),
    "a misspelt name": (lambda: ob.simulat, "did you mean 'simulate'?"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_call(name):
    call, words = CALLS[name]
    with pytest.raises((TypeError, ValueError, OSError, AttributeError)) as refused:
        call()
    said = str(refused.value)
    assert words in said or re.search(words, said), said
    assert len(said) < 600, "too long to be read"


def test_a_long_value_is_cut():
    for value in ("x" * 5000, list(range(5000)), {"a": "b" * 5000}, np.arange(5000)):
        with pytest.raises(TypeError) as refused:
            ob.Banditron(2, gamma=value)
        assert len(str(refused.value)) < LONGEST_SHOWN + 60


@pytest.mark.parametrize("right", [True, 1, np.bool_(True), np.int64(1)])
def test_what_right_may_be(right):
    """As HTTP takes it: see `tests/service/test_values.py`."""
    decided(right=right)()
    decided(right=1 - right if isinstance(right, int) else np.bool_(False))()


def test_two_processes_without_a_salt_are_told(tmp_path):
    ob.Banditron(["a", "b"]).save(tmp_path / "model")
    first, second, learns = (ob.load(tmp_path / "model") for _ in range(3))
    learns.learn(first.decide({"x": 1}), right=True)
    with pytest.raises(ValueError, match=r"two processes .* onebit.load\(path, salt='web-1'\)"):
        learns.learn(second.decide({"y": 1}), right=True)
    second = ob.load(tmp_path / "model", salt="web-1")
    learns.learn(second.decide({"y": 1}), right=True)


def test_completion_shows_what_is_for_users():
    calls = "add_label copy decide explain forget learn learn_logged predict probabilities"
    calls += " propensities propose redo reload save scores teach warm_up"
    facts = "dtype exclusive explore features half_life inputs labels one_right round salt seed"
    facts += " settings silence vocabulary weights"
    assert dir(learner()) == sorted([*calls.split(), *facts.split()])
    assert set(dir(ob.Banditron(2))) - set(dir(learner())) == {
        *("gamma", "kernel", "budget", "remove")
    }
    said = "confidence explored from_bytes greedy indices kind label propensity round salt"
    assert dir(learner().decide({})) == [*said.split(), "to_bytes", "values"]
    assert dir(ob) == sorted(ob.__all__)
