"""A decision is a value: it can be put away as bytes and learned from elsewhere."""

import hashlib
import os
import pickle
import subprocess
import sys

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onebit as ob
from onebit.learner import decision as module
from onebit.learner.decision import Decision
from onebit.testing import model_bytes

FIELDS = [name for name in Decision.__struct_fields__ if name != "row"]


def learned(make=ob.Banditron, labels=3, **settings):
    learner = make(labels, **{"gamma": 0.5, "seed": 3, **settings})
    for t in range(12):
        d = learner.decide(np.array([1.0, -t, 0.25 * t]))
        learner.learn(d, right=d.place == t % 3)
    return learner


def alike(one, two):
    for name in FIELDS:
        a, b = getattr(one, name), getattr(two, name)
        assert a == b and type(a) is type(b), name
    for name in ("indices", "values"):
        a, b = getattr(one, name), getattr(two, name)
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.fixture(scope="module")
def learner():
    return learned()


@pytest.fixture(scope="module")
def stored(learner):
    return learner.copy().decide([1.0, 0.0, 2.5]).to_bytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("labels", [3, ["a", "ü", "中"], [-(2**63), 2**63 - 1, 0]])
@pytest.mark.parametrize("among", [False, True])
def test_a_decision_comes_back_from_its_bytes_unchanged(labels, dtype, among):
    learner = learned(labels=labels, dtype=dtype)
    for x in ([1.0, 0.0, 2.5], [], ([2, 7], [0.1, -3e-30])):
        d = learner.decide(x, among=learner.labels[1:] if among else None)
        for kind in (bytes, bytearray, memoryview):
            alike(Decision.from_bytes(kind(d.to_bytes())), d)
        assert Decision.from_bytes(d.to_bytes()).to_bytes() == d.to_bytes()


@given(
    st.dictionaries(st.integers(0, 2**24 - 1), st.floats(-1e30, 1e30), max_size=20),
    st.sampled_from(["float32", "float64"]),
    st.none() | st.floats(0, 1),
)
@settings(deadline=None, database=None, max_examples=60)
def test_any_context_comes_back_from_the_bytes(context, dtype, confidence):
    indices = np.array(sorted(context), np.uint32)
    values = np.array([context[j] for j in sorted(context)], dtype)
    d = Decision(
        "a", "b", 0.25, 7, (indices, values), 0, 1, 0.5, -1.5, 2, (0, 1), b"12345678",
        confidence=confidence,
    )  # fmt: skip
    alike(Decision.from_bytes(d.to_bytes()), d)


@pytest.mark.parametrize("make", [ob.Banditron, ob.SOBA])
@pytest.mark.parametrize("feedback", [{"right": True}, {"right": False}, {"label": 1}])
def test_learning_from_bytes_in_a_loaded_learner_is_learning_here(make, feedback, tmp_path):
    here = learned(make)
    here.save(tmp_path / "m")
    there = ob.load(tmp_path / "m")
    for among in (None, [0, 2]):
        d = here.decide(([0, 1, 2, 3], [0.5, 1.0, -1.0, 2.0]), among=among)
        there.round = here.round
        here.learn(d, **feedback)
        there.learn(Decision.from_bytes(d.to_bytes()), **feedback)
        assert model_bytes(here) == model_bytes(there)


LATER = """
import sys
from pathlib import Path
import onebit as ob
folder = Path(sys.argv[1])
learner = ob.load(folder / "before")
for name in ("d1", "d0"):
    decision = ob.Decision.from_bytes((folder / name).read_bytes())
    learner.learn(decision, right=decision.label == "b")
learner.save(folder / "after")
"""


def test_learning_in_another_process_in_another_order_gives_the_same_bytes(tmp_path):
    learner = learned(labels=["a", "b", "c"])
    decisions = [learner.decide([1.0, 2.0, 0.5]), learner.decide(([0, 9], [1.0, -0.3]))]
    learner.save(tmp_path / "before")
    for i, d in enumerate(decisions):
        (tmp_path / f"d{i}").write_bytes(d.to_bytes())
    for d in reversed(decisions):
        learner.learn(d, right=d.label == "b")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", LATER, tmp_path],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    learner.save(tmp_path / "here")
    assert (tmp_path / "after").read_bytes() == (tmp_path / "here").read_bytes()


def test_a_decision_survives_pickle(learner):
    d = learner.copy().decide([1.0, 2.0, 0.0])
    alike(pickle.loads(pickle.dumps(d)), d)


# Damage.


def test_every_truncation_is_refused(stored):
    for size in range(len(stored)):
        with pytest.raises(ValueError, match="decision"):
            Decision.from_bytes(stored[:size])


def test_every_flipped_bit_is_refused(stored):
    for i in range(len(stored)):
        for bit in range(8):
            damaged = bytearray(stored)
            damaged[i] ^= 1 << bit
            with pytest.raises(ValueError, match="decision"):
                Decision.from_bytes(damaged)


def test_many_random_damages_are_refused(stored):
    rng = np.random.default_rng(1)
    for _ in range(2000):
        damaged = bytearray(stored)
        for i in rng.integers(len(stored), size=rng.integers(1, 6)):
            damaged[i] = rng.integers(256)
        if damaged != stored:
            with pytest.raises(ValueError, match="decision"):
                Decision.from_bytes(damaged)


@pytest.mark.parametrize("more", [b"\0", b"x" * 8, b"1bit\x01"])
def test_bytes_too_many_are_refused(stored, more):
    for data in (stored + more, more + stored):
        with pytest.raises(ValueError, match="decision"):
            Decision.from_bytes(data)


@given(st.binary(max_size=200))
@settings(deadline=None, database=None, max_examples=200)
def test_arbitrary_bytes_are_refused(data):
    with pytest.raises(ValueError, match="not a onebit decision"):
        Decision.from_bytes(data)


@pytest.mark.parametrize("data", ["text", None, 3, [1, 2], np.zeros(3)])
def test_what_is_not_bytes_is_refused_by_type(data):
    with pytest.raises(TypeError, match="a stored decision is bytes, not"):
        Decision.from_bytes(data)


def test_more_bytes_than_any_decision_has_are_refused(monkeypatch, stored):
    monkeypatch.setattr(module, "MOST_BYTES", len(stored) - 1)
    with pytest.raises(ValueError, match=f"{len(stored)} bytes: more than {len(stored) - 1}"):
        Decision.from_bytes(stored)


def forged(stored, **changes):
    """The stored decision with some fields changed and the checksum made good."""
    head, body = stored[:5], stored[5:-8]
    fields = dict(zip(module._Stored.__struct_fields__, msgspec.msgpack.decode(body), strict=True))
    assert changes.keys() <= fields.keys()
    whole = head + msgspec.msgpack.encode(list({**fields, **changes}.values()))
    return whole + hashlib.blake2b(whole, digest_size=8).digest()


FORGED = {
    "no row": {"indices": b""},
    "part of an index": {"indices": b"123"},
    "part of a value": {"values": b"123"},
    "falling indices": {"indices": np.array([2, 0], "<u4").tobytes()},
    "the same index twice": {"indices": np.array([2, 2], "<u4").tobytes()},
    "NaN": {"values": np.array([1, np.nan], "<f4").tobytes()},
    "inf": {"values": np.array([1, np.inf], "<f4").tobytes()},
    "objects": {"dtype": "object"},
    "ints": {"dtype": "int32"},
    "negative place": {"place": -1},
    "negative greedy place": {"greedy_place": -1},
    "negative round": {"round": -1},
    "negative place among": {"among": [0, -1]},
    "nothing to choose from": {"among": []},
    "impossible": {"propensity": 0.0},
    "more than certain": {"propensity": 1.5},
    "no probability": {"propensity": float("nan")},
    "no note": {"note": float("inf")},
    "no other note": {"other": float("nan")},
    "label of no kind": {"label": None},
    "place of no kind": {"place": "first"},
    "among of no kind": {"among": 3},
    "origin of no kind": {"origin": 3},
}


def test_a_forgery_without_changes_is_the_decision_itself(stored):
    assert forged(stored) == stored


@pytest.mark.parametrize("case", FORGED)
def test_a_good_checksum_does_not_make_nonsense_a_decision(stored, case):
    with pytest.raises(ValueError, match="this decision is damaged: "):
        Decision.from_bytes(forged(stored, **FORGED[case]))


@pytest.mark.parametrize(
    "changes", [{"place": 3}, {"greedy_place": 3}, {"place": 2**62}, {"size": 4}]
)
def test_a_decision_about_labels_that_are_not_there_is_refused(learner, stored, changes):
    before = model_bytes(learner)
    with pytest.raises(ValueError, match="labels that this learner does not have"):
        learner.learn(Decision.from_bytes(forged(stored, **changes)), right=True)
    assert model_bytes(learner) == before


def test_a_decision_about_features_that_are_not_there_is_refused():
    learner = learned(features=3)
    before = model_bytes(learner)
    wide = forged(
        learner.copy().decide([1.0, 0.0, 2.5]).to_bytes(),
        indices=np.array([0, 3], "<u4").tobytes(),
    )
    with pytest.raises(ValueError, match="index 3 is beyond the limit of 3 features"):
        learner.learn(Decision.from_bytes(wide), right=True)
    assert model_bytes(learner) == before


# Foreign decisions.

STRANGERS = {
    "seed": lambda: learned(seed=4),
    "settings": lambda: learned(gamma=0.25),
    "algorithm": lambda: learned(ob.SOBA),
    "precision": lambda: learned(dtype="float64"),
    "features": lambda: learned(features=3),
    "order of labels": lambda: learned(labels=[2, 1, 0]),
    "names of labels": lambda: learned(labels=["a", "b", "c"]),
}


@pytest.mark.parametrize("other", STRANGERS)
def test_the_decision_of_another_learner_is_refused(learner, other):
    stranger = STRANGERS[other]().decide([1.0, 2.0, 3.0])
    before = model_bytes(learner)
    for feedback in ({"right": True}, {"right": False}, {"label": 0}):
        with pytest.raises(ValueError, match="decision"):
            learner.learn(stranger, **feedback)
        assert model_bytes(learner) == before


def test_a_decision_made_before_a_label_was_added_can_still_be_learned():
    learner = learned(labels=["a", "b", "c"])
    d = learner.decide([1.0, 2.0, 3.0])
    before = learner.weights
    learner.add_label("d")
    learner.learn(Decision.from_bytes(d.to_bytes()), right=not d.explored)
    assert learner.weights.shape == (4, 3)
    assert (learner.weights[:3] != before).any() and not learner.weights[3].any()


@pytest.mark.parametrize("thing", [None, 0, "a", b"", (0, 1), object()])
def test_what_is_no_decision_cannot_be_learned_from(learner, thing):
    before = model_bytes(learner)
    with pytest.raises(TypeError, match="learn needs the Decision that decide returned"):
        learner.learn(thing, right=True)
    assert model_bytes(learner) == before


def test_bytes_are_not_learned_from_before_they_are_read(learner, stored):
    with pytest.raises(TypeError, match="learn needs the Decision"):
        learner.learn(stored, right=True)


# Looking.


def test_a_decision_cannot_be_changed(learner):
    d = learner.copy().decide([1.0, 0.0, 0.0])
    with pytest.raises(AttributeError):
        d.label = 2


def test_a_decision_says_whether_it_explored():
    learner = ob.Banditron(3, gamma=1.0, seed=1)
    seen = [learner.decide([1.0]) for _ in range(60)]
    assert {d.explored for d in seen} == {True, False}
    assert all(d.explored == (d.label != d.greedy) for d in seen)
    assert [d.round for d in seen] == list(range(60))
    assert all(("explored" in repr(d)) == d.explored for d in seen)


def test_a_decision_shows_what_matters():
    row = np.arange(2, dtype=np.uint32), np.ones(2)
    d = Decision("a", "a", 1 / 3, 7, row, 0, 0, 0.0, 0.0, 3, None, b"")
    assert repr(d) == "Decision('a', propensity=0.3333, round=7, 2 features)"
    d = msgspec.structs.replace(d, confidence=0.87654)
    assert repr(d) == "Decision('a', confidence=0.8765, propensity=0.3333, round=7, 2 features)"


@pytest.mark.parametrize("make", [ob.Banditron, ob.PNewtron, ob.SOBA, ob.BPA])
def test_a_label_added_meanwhile_does_not_change_late_feedback(make):
    """What was possible then counts, not what is possible now."""
    one, two = learned(make), learned(make)
    x = ([0, 1, 2, 3], [0.5, 1.0, -1.0, 2.0])
    decided = [learner.decide(x) for learner in (one, two)]
    one.learn(decided[0], right=True)
    one.add_label()
    two.add_label()
    two.learn(decided[1], right=True)
    assert np.array_equal(one.weights, two.weights)


def test_a_decision_changed_by_its_holder_cannot_harm():
    learner = learned()
    decision = learner.decide([1.0, 2.0, 3.0])
    for array in (decision.indices, decision.values):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 2
    decision.row[0][-1] = 4 * 10**9  # who insists
    with pytest.raises(ValueError, match=r"beyond|can have made"):
        learner.learn(decision, right=True)


def test_a_named_label_that_was_not_possible_joins_those_that_were():
    """PNewtron's step is over the labels that were possible, so it sums to nothing."""
    learner = ob.PNewtron(3, beta=1e-12, D=1e6, reg=1.0, dtype="float64")
    learner.learn(learner.decide([1.0], among=[0, 1]), label=2)
    assert abs(learner.weights.sum()) < 1e-9 and learner.weights[2, 0] > 0


def test_pickles_of_earlier_versions_find_decisions_and_learners():
    from onebit.decision import Decision
    from onebit.learner.files import restore
    from onebit.persist import restore as known_before

    assert Decision is ob.Decision
    assert known_before is restore
