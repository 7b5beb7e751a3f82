"""What was learned fades: by half in so many rounds, round by round as in the stream."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import onebit as ob
from onebit.core.jit import COMPILED
from onebit.learner.forgetting import STEPS
from onebit.testing import LABELS, model_bytes

plain_later = [] if COMPILED else [pytest.mark.exhaustive]
compiled_only = pytest.mark.skipif(not COMPILED, reason="thousands of rounds want the compiler")
ROWS = 120 if COMPILED else 70
FORMS = [
    (ob.Banditron, {}),
    (ob.Confidit, {}),
    (ob.Confidit, {"form": "full"}),
    (ob.Confidit, {"kernel": "rbf(gamma=0.3)", "budget": 15}),
    (ob.UCWL, {}),
    (ob.LinearThompson, {}),
    (ob.PNewtron, {}),
    (ob.AROW, {}),
]
ONEBIT = [(ob.OneBit, {"inputs": "sparse"}), (ob.OneBit, {"inputs": "dense", "features": 6})]


def stream(rows=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 6)) * (rng.random((rows, 6)) < 0.6)
    X[:40, 4:] = 0  # features that come late, after something has faded
    X[-1] = 1
    return X, (X @ rng.normal(size=(6, LABELS))).argmax(axis=1)


@pytest.mark.parametrize(
    ("make", "settings", "half_life"),
    [
        *((*form, half_life) for form in FORMS for half_life in (16, 23, 100)),
        *((*form, 23) for form in ONEBIT),  # takes longest
    ],
)
def test_round_by_round_equals_the_stream_chunks_and_sweeps(make, settings, half_life):
    X, y = stream()
    settings = {**settings, "half_life": half_life, "seed": 3}
    one, two, three = (make(LABELS, **settings) for _ in range(3))
    for t, (x, label) in enumerate(zip(X, y, strict=True)):
        law = one.propensities(x)
        decision = one.decide(x)
        assert abs(law[decision.place] - decision.propensity) < 1e-9
        told = {"label": int(label)} if make is ob.AROW else {"right": decision.label == label}
        one.learn(decision, **told)
        if t in (30, 45, 46):  # saving between two rounds changes nothing
            one = pickle.loads(pickle.dumps(one))
    trace = ob.simulate(two, X, y)
    ob.simulate(three, iter([(X[:31], y[:31]), (X[31:], y[31:])]))
    assert model_bytes(one) == model_bytes(two) == model_bytes(three)
    others = [make(LABELS, **{**settings, "half_life": h}) for h in (half_life, None, 50, 50)]
    runs = ob.sweep(others, X, y, threads=1)
    assert all((a == b).all() for a, b in zip(trace, runs[0].trace, strict=True))
    other = ob.simulate(others[2], X, y)
    assert all((a == b).all() for a, b in zip(other, runs[2].trace, strict=True))


@pytest.mark.parametrize("half_life", [16, 17, 100, 1000])
def test_it_fades_at_the_rounds_that_are_due(half_life, monkeypatch):
    rounds = []
    monkeypatch.setattr(ob.Learner, "forget", lambda self, share: rounds.append(self.round))
    learner = ob.UniformRandom(3, half_life=half_life)
    for _ in range(2 * half_life + 1):
        learner.decide([1.0])
    assert len(rounds) == 2 * STEPS and len(set(rounds)) == len(rounds)
    assert half_life in rounds and rounds[-1] == 2 * half_life and 0 not in rounds
    assert np.ptp(np.diff(rounds)) <= 1


def test_half_is_left_after_a_half_life():
    learner = ob.Banditron(3, half_life=100, dtype="float64")
    learner.learn(learner.decide([1.0, 2.0]), label=2)
    before = learner.weights
    assert before.any()
    for _ in range(100):
        learner.decide([1.0, 2.0])
    assert np.allclose(learner.weights, before / 2, rtol=1e-12)


def test_a_refused_decision_does_not_fade():
    learner = ob.Confidit(3, features=2, half_life=16)
    learner.learn(learner.decide([1.0, 2.0]), right=True)
    before = model_bytes(learner)
    for wrong in ([1.0], [np.nan, 0.0], ([5], [1.0])):
        with pytest.raises(ValueError, match=r"."):
            learner.decide(wrong)
    with pytest.raises(ValueError, match="empty"):
        learner.decide([1.0, 2.0], among=[])
    learner.propensities([1.0, 2.0])
    assert model_bytes(learner) == before


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=plain_later)])
@pytest.mark.parametrize(("make", "settings"), FORMS)
def test_fading_on_and_on_is_sound(make, settings, dtype):
    """What was never met does not move by a bit; what was learned goes, and leaves numbers."""
    X, y = stream(30)
    learner = make(LABELS, features=6, dtype=dtype, **settings)
    fresh = model_bytes(learner)
    for _ in range(50):
        learner.forget(1 - 0.5 ** (1 / STEPS))
    assert model_bytes(learner) == fresh
    never_met = learner.copy()
    ob.simulate(learner, X, y)
    with np.errstate(all="raise", under="ignore"):
        for _ in range(2000):
            learner.forget(1 - 0.5 ** (1 / STEPS))
    assert np.allclose(learner.scores(X), never_met.scores(X), atol=1e-6)
    assert np.allclose(
        learner.table.state.table, never_met.table.state.table, rtol=2e-6, atol=1e-12
    )
    trace = ob.simulate(learner, X, y)  # and it learns again
    assert trace.updates[-1] > 0 and np.isfinite(learner.weights).all()


@pytest.mark.parametrize(("make", "settings"), ONEBIT)
def test_onebit_fades_until_all_labels_are_alike(make, settings):
    X, y = stream(30)
    learner = make(LABELS, **settings)

    def spread():
        return np.ptp(learner.scores(X), axis=1).max()

    ob.simulate(learner, X, y)
    spreads = [spread()]
    # Naive Bayes, with most of the weight on these sparse rows, parts the labels a little more
    # after one half-life (.19 instead of .17); no other expert does.
    for steps in (5 * STEPS, 400):
        for _ in range(steps):
            learner.forget(1 - 0.5 ** (1 / STEPS))
        spreads.append(spread())
    assert spreads[0] > 0.3 and 0.1 < spreads[1] < 0.8 * spreads[0] and spreads[2] < 1e-5
    ob.simulate(learner, X, y)  # and it learns again
    assert spread() > 0.3


def test_full_matrices_fade_as_sums_do():
    """Against inverses in so many words: A = reg + keep (A - reg), b = keep b."""
    X, y = stream(40)
    learner = ob.Confidit(LABELS, form="full", reg=0.3, features=7)
    ob.simulate(learner, np.c_[X, np.zeros(40)], y)  # the last feature is never met
    A = np.linalg.inv(learner.table.state.held.matrix[:, :7, :7])
    b = np.einsum("kij,kj->ki", A, learner.weights)
    learner.forget(0.3)
    less = 0.3 * np.eye(7) + 0.7 * (A - 0.3 * np.eye(7))
    assert np.allclose(learner.table.state.held.matrix[:, :7, :7], np.linalg.inv(less), rtol=1e-9)
    w = np.linalg.solve(less, 0.7 * b[:, :, None])[:, :, 0]
    assert np.allclose(learner.weights, w, rtol=1e-9, atol=1e-12)
    matrix = learner.table.state.held.matrix[:, :7, :7]
    assert np.array_equal(matrix, matrix.transpose(0, 2, 1))


@pytest.mark.parametrize("wrong", [0, 15, -3, 10.5, True, "long", 2**60])
def test_other_half_lives_are_refused(wrong):
    with pytest.raises((ValueError, TypeError), match="half_life"):
        ob.Banditron(3, half_life=wrong)


def test_the_default_is_not_named():
    assert "half_life" not in ob.Banditron(3).settings
    learner = ob.Banditron(3, half_life=50)
    assert learner.settings["half_life"] == 50 == learner.copy().half_life


@compiled_only
@pytest.mark.parametrize(
    ("make", "settings"),
    [(ob.Confidit, {}), (ob.Confidit, {"form": "full"}), (ob.LinearThompson, {})],
)
def test_a_learner_that_forgets_recovers_after_a_swap(make, settings):
    rng = np.random.default_rng(0)
    rows, after = 12_000, 3000
    X = rng.normal(size=(rows, 10))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = (X @ rng.normal(size=(10, LABELS))).argmax(axis=1)
    channel = [ob.Swap(rows - after, 0, 1), ob.Swap(rows - after, 2, 3)]
    errors = []
    for half_life in (None, 500):
        learner = make(LABELS, half_life=half_life, **settings)
        trace = ob.simulate(learner, X, y, channel=channel, checkpoints=[rows - 1000])
        errors.append((trace.mistakes[-1] - trace.mistakes[0]) / 1000)
    assert errors[1] < errors[0] / 2
