"""Linear label noise: the paper's constraints, the law of the labels, and regret."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onebit as ob
from onebit.core.jit import COMPILED
from onebit.datasets import get, linear_noise, prepare

ROWS = 20_000 if COMPILED else 2000


@settings(max_examples=25, deadline=None)
@given(
    labels=st.integers(2, 7),
    more=st.integers(1, 9),
    noise=st.floats(0, 1),
    alpha=st.floats(-0.99, 1),
    seed=st.integers(0, 2**63 - 1),
)
def test_the_constraints_of_the_paper_hold(labels, more, noise, alpha, seed):
    features = labels + more
    data = linear_noise(20, labels=labels, features=features, noise=noise, alpha=alpha, seed=seed)
    assert data.X.shape == (20, features) and data.weights.shape == (labels, features)
    assert np.allclose(np.linalg.norm(data.X, axis=1), 1, atol=1e-6)
    scores = data.X @ data.weights.T
    assert np.allclose(scores.sum(axis=1), alpha + 1 - labels * alpha, atol=1e-5)
    assert scores.min() >= -alpha - 1e-5 and scores.max() <= 1 + 1e-5
    assert np.allclose((alpha + scores) / (alpha + 1), data.probabilities, atol=1e-5)
    assert np.allclose(data.probabilities.sum(axis=1), 1, atol=1e-12)
    assert (data.probabilities >= 0).all()
    assert (data.bayes == data.probabilities.argmax(axis=1)).all()


def test_labels_follow_the_law():
    data = linear_noise(ROWS, labels=4, features=9, seed=3)
    for label in range(4):
        p = data.probabilities[:, label]
        assert abs((data.y == label).sum() - p.sum()) < 5 * np.sqrt((p * (1 - p)).sum())
        near = (p > 0.3) & (p < 0.5)  # rows of like probability: calibrated there too
        expected = p[near].sum()
        assert abs((data.y[near] == label).sum() - expected) < 5 * np.sqrt(expected)


@pytest.mark.parametrize(("noise", "error"), [(0, 0), (0.5, 0.375), (1, 1 - 25 / 48)])
def test_the_bayes_error_is_as_computed(noise, error):
    """Up to noise 1/2 the first label stays best; the largest of 4 shares is 25/48 on average."""
    data = linear_noise(ROWS, labels=4, features=9, noise=noise, seed=1)
    assert abs(data.bayes_error - error) < 0.02
    spread = np.sqrt(0.25 / len(data.y))
    assert abs((data.y != data.bayes).mean() - data.bayes_error) < 5 * spread
    assert f"{data.bayes_error:.1%}" in data.about


def test_alpha_changes_the_weights_alone():
    one, two = (linear_noise(50, alpha=alpha) for alpha in (1.0, 0.25))
    assert np.array_equal(one.X, two.X) and np.array_equal(one.y, two.y)
    assert np.allclose(two.weights.sum(axis=0), 0, atol=1e-12)  # alpha = 1 / (K - 1)
    assert not np.allclose(one.weights, two.weights)


def test_a_longer_stream_begins_with_the_shorter_and_the_seed_decides():
    short, long = linear_noise(30, seed=5), linear_noise(60, seed=5)
    assert np.array_equal(short.X, long.X[:30]) and np.array_equal(short.y, long.y[:30])
    assert not np.array_equal(short.X, linear_noise(30, seed=6).X)


def test_regret_counts_what_was_lost_in_expectation():
    data = linear_noise(100, labels=3, features=8)
    assert (data.regret(data.bayes) == 0).all()
    worst = data.probabilities.argmin(axis=1)
    lost = data.probabilities.max(axis=1) - data.probabilities.min(axis=1)
    assert np.allclose(data.regret(worst), np.cumsum(lost))
    with pytest.raises(ValueError, match="one label for each of 100 rows"):
        data.regret([0, 1])


def test_a_learner_comes_near_the_bayes_rule():
    rows, near = (3000, 0.1) if COMPILED else (300, 0.2)
    data = get("linear_noise", rows=rows, seed=2)
    learner = ob.Confidit(labels=5, seed=1)
    trace = ob.simulate(learner, data)
    assert trace.rounds[-1] == rows
    test = linear_noise(2 * rows, seed=2)
    said = learner.predict(test.X[rows:])
    error = np.mean(said != test.y[rows:])
    assert error < test.bayes_error + near
    assert prepare(data, ["unit_norm"]).bayes_error == data.bayes_error


def test_wrong_settings_are_named():
    for wrong, says in [
        ({"features": 5}, "features must be between 6"),
        ({"alpha": -1}, "alpha must be above -1"),
        ({"noise": 2}, "noise must be"),
        ({"labels": 1}, "labels must be"),
    ]:
        with pytest.raises(ValueError, match=says):
            linear_noise(10, **wrong)
