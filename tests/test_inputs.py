"""inputs="unit": every context has length 1 for the learner, in all ways that contexts come in."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import onebit as ob
from onebit import testing
from onebit.core.jit import COMPILED
from onebit.testing import LABELS

KINDS = [
    (ob.Banditron, {}),
    (ob.UCWL, {}),
    (ob.SOBA, {}),
    (ob.Confidit, {"form": "full", "features": 6}),
    (ob.UCWL, {"kernel": "rbf(gamma=0.3)", "budget": 15}),
    (ob.AROW, {}),
]
SOME = KINDS if not COMPILED else KINDS[:2]


def stream(rows=40):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(rows, 6)) * rng.lognormal(sigma=3, size=(rows, 1))
    X[5] = 0
    X[7] = [1e14, 1e-10, 0, 0, 0, 1]  # so long that a value vanishes
    return X.astype(np.float32), rng.integers(0, LABELS, rows)


def play(learner, X, y):
    for x, label in zip(X, y, strict=True):
        law = learner.probabilities(x)
        decision = learner.decide(x)
        assert abs(law[decision.place] - decision.propensity) < 1e-9
        told = (
            {"label": int(label)}
            if learner.full_information
            else {"right": decision.label == label}
        )
        learner.learn(decision, **told)
    return learner


@pytest.mark.parametrize("half_life", [None, 16])
@pytest.mark.parametrize(("make", "settings"), SOME)
def test_rounds_streams_chunks_and_prepared_rows_are_the_same(make, settings, half_life, tmp_path):
    X, y = stream()
    settings = {**settings, "half_life": half_life, "seed": 2}
    rounds, whole, chunks = (make(LABELS, inputs="unit", **settings) for _ in range(3))
    play(rounds, X[:20], y[:20]).save(tmp_path / "unit.onebit")
    rounds = play(ob.load(tmp_path / "unit.onebit"), X[20:], y[20:])
    trace = ob.simulate(whole, X, y)
    ob.simulate(chunks, iter([(X[:11], y[:11]), (X[11:], y[11:])]))
    assert testing._bytes(rounds) == testing._bytes(whole) == testing._bytes(chunks)
    prepared = make(LABELS, **settings)
    steps = ob.datasets.Steps(["unit_norm"], dtype=prepared.dtype)
    same = ob.simulate(prepared, ob.datasets.prepare(X, steps), y)
    assert np.array_equal(trace.mistakes, same.mistakes)
    assert np.array_equal(whole.weights, prepared.weights)
    assert np.array_equal(whole.scores(X), whole.scores(sparse.csr_array(X * np.float32(4))))


def test_lockstep_keeps_the_two_kinds_apart():
    X, y = stream()
    settings = {"labels": LABELS, "gamma": [0.1, 0.2, 0.3, 0.4], "inputs": ["raw", "unit"]}
    runs = ob.sweep(ob.Banditron, X, y, test=(X, y), **settings)
    assert [run.settings.get("inputs", "raw") for run in runs] == ["raw", "unit"] * 4
    for run in runs:
        learner = ob.Banditron(LABELS, **run.settings)
        trace = ob.simulate(learner, X, y)
        assert np.array_equal(trace.mistakes, run.trace.mistakes)
        assert run.test_error == np.mean(learner.predict(X) != y)


def test_a_named_label_is_learned_from_the_row_of_the_decision():
    X, y = stream(20)
    unit, by_hand = ob.SOBA(LABELS, inputs="unit"), ob.SOBA(LABELS)
    for x, label in zip(X, y, strict=True):
        unit.learn(unit.decide(x), label=int(label))
        prepared = ob.datasets.Steps(["unit_norm"])(x)
        by_hand.learn(by_hand.decide(prepared), label=int(label))
    assert np.array_equal(unit.weights, by_hand.weights)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scaling_twice_is_scaling_once(dtype):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 50)) * rng.lognormal(sigma=4, size=(300, 50))
    steps = ob.datasets.Steps(["unit_norm"], dtype=dtype)
    unit = steps.rows(X)
    assert np.allclose(np.linalg.norm(unit, axis=1), 1)
    assert np.array_equal(steps.rows(unit), unit)


def test_texts_and_tables_have_length_1_too():
    learner = ob.UCWL(labels=["bug", "praise"], inputs="unit")
    for x in ("the screen", {"body": "the screen is black", "price": 1e6}, ([3], [7.0])):
        decision = learner.decide(x)
        assert np.linalg.norm(decision.values) == pytest.approx(1)
        learner.learn(decision, right=True)
    assert learner.explain({"body": "the screen is black", "price": 1e6}).parts


def test_raw_and_unit_learners_do_not_exchange_decisions():
    raw, unit = ob.UCWL(3), ob.UCWL(3, inputs="unit")
    assert "inputs" not in raw.settings and unit.settings["inputs"] == "unit"
    with pytest.raises(ValueError, match=r"another model|other settings"):
        unit.learn(raw.decide([1.0, 2.0]), right=True)
    with pytest.raises(ValueError, match="inputs must be one of 'raw', 'unit', not 'scaled'"):
        ob.UCWL(3, inputs="scaled")
    with pytest.raises(ValueError, match="inputs must be one of 'auto', 'dense', 'sparse'"):
        ob.OneBit(3, inputs="unit")
