"""Feedback that is flipped on its way: corrections, and what the noisy-feedback paper proves."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from helpers import naive
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import onebit as ob
from onebit.algorithms.flips import unflipped
from onebit.core.jit import COMPILED, plain
from onebit.lab import bounds

# Compiled, the law that compiled and plain runs are equal stands for these, but in `--all`.
compiled_in_all = pytest.mark.exhaustive if COMPILED else lambda test: test
K, D = 5, 8
RATES = [(0.0, 0.0), (0.15, 0.15), (0.4, 0.4), (0.2, 0.4), (0.4, 0.2), (0.0, 0.9), (0.9, 0.0)]
FLIPPED = [ob.RCNBF, ob.PNormBandit, ob.EGBandit, ob.PNewtron, ob.Newtron, ob.SOBA]


def stream(rows=60, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, D))
    return X, (X @ rng.normal(size=(D, K))).argmax(axis=1)


def trained(make, **settings):
    learner = make(K, features=D, dtype="float64", **settings)
    ob.simulate(learner, *stream())
    return learner


def heard(f, rho0, rho1):
    """What may be heard of a true bit, each with its probability."""
    chance = 1 - rho1 if f else rho0
    return [(True, chance), (False, 1 - chance)]


rates = st.tuples(st.floats(0, 0.99), st.floats(0, 0.99)).filter(lambda rho: sum(rho) < 0.99)


@given(rates)
def test_what_stands_for_the_bit_has_the_bit_for_its_mean(rho):
    """Lemma 1; and it is the printed formula, spelled out."""
    for f in (0, 1):
        mean = sum(p * plain(unflipped)(*rho, right) for right, p in heard(f, *rho))
        assert mean == pytest.approx(f, abs=1e-9)
    for right in (True, False):
        assert plain(unflipped)(*rho, right) == pytest.approx(naive.proxy(right, rho))


def outcomes(learner, x, y, rho):
    """All that may happen when x with label y comes: probability, and the learner after it."""
    law, said = learner.propensities(x), learner.decide(x)
    scores = learner.scores(x[None])[0]
    for a in range(K):
        forced = msgspec.structs.replace(
            said, label=a, place=a, propensity=float(law[a]), **noted(learner, law, scores, a)
        )
        for right, p in heard(a == y, *rho):
            if p > 0:
                after = learner.copy()
                after.learn(forced, right=right)
                yield law[a] * p, after


def noted(learner, law, scores, a):
    """What the decision keeps for learning when a is said."""
    if isinstance(learner, ob.SOBA):
        rival = naive.best_other(scores, a)
        return {"note": float(rival), "other": float(scores[rival] - scores[a])}
    if isinstance(learner, ob.PNewtron | ob.Newtron):
        gamma = learner.settings["gamma"]
        p = (law[a] - gamma / K) / (1 - gamma)
        mean = scores.mean() if isinstance(learner, ob.PNewtron) else 0.0
        return {"note": float(p), "other": float(scores[a] - mean)}
    return {}


@pytest.mark.parametrize("rho", RATES)
@pytest.mark.parametrize("y", range(K))
def test_rcnbf_estimates_the_perceptron_update_without_bias(y, rho):
    """Lemma 2, and the second moments of Lemma 3: over every label said and every flip."""
    gamma = 0.1
    learner = trained(ob.RCNBF, gamma=gamma, rho0=rho[0], rho1=rho[1])
    x = np.linspace(-1, 2, D)
    mean, second = np.zeros((K, D)), 0.0
    for p, after in outcomes(learner, x, y, rho):
        H = after.weights - learner.weights
        mean += p * H
        second += p * np.sum(H**2)
    h = int(learner.scores(x[None])[0].argmax())
    eye = np.eye(K)
    assert_allclose(mean, np.outer(eye[y] - eye[h], x), atol=1e-9)
    A1, A2 = bounds._noisy_moments(K, gamma, *rho)
    assert second <= (x @ x) * (A2 if y == h else A1) * (1 + 1e-9)


def test_the_second_moments_are_those_that_were_worked_out_by_hand():
    """K = 5, gamma = 0.1, unit length: 103 and 52.4 at (.15, .15), 1257 and 1207 at (.4, .4)."""
    x = np.ones(D) / np.sqrt(D)
    for rho, wrong, right in [((0.15, 0.15), 103, 52.4), ((0.4, 0.4), 1257, 1207)]:
        learner = trained(ob.RCNBF, gamma=0.1, rho0=rho[0], rho1=rho[1])
        h = int(learner.scores(x[None])[0].argmax())
        for y, expected in [(h, right), ((h + 1) % K, wrong)]:
            second = sum(
                p * np.sum((after.weights - learner.weights) ** 2)
                for p, after in outcomes(learner, x, y, rho)
            )
            assert second == pytest.approx(expected, rel=0.005)


@compiled_in_all
@pytest.mark.parametrize("rho", RATES)
@pytest.mark.parametrize("make", [ob.PNormBandit, ob.EGBandit])
def test_potentials_collect_the_unbiased_update(make, rho):
    learner = trained(make, gamma=0.2, rho0=rho[0], rho1=rho[1])
    x, y = np.linspace(-1, 2, D), 3
    theta = learner.table.weights()[:, 0].T
    mean = sum(p * (a.table.weights()[:, 0].T - theta) for p, a in outcomes(learner, x, y, rho))
    h = int(learner.scores(x[None])[0].argmax())
    rate = learner.settings.get("eta", 1.0)
    assert_allclose(mean, rate * np.outer(np.eye(K)[y] - np.eye(K)[h], x), atol=1e-9)


@compiled_in_all
@pytest.mark.parametrize("rho", RATES)
def test_pnewtron_estimates_the_gradient_without_bias(rho):
    """The mean of g is (p - e_y) x'. With next to no curvature, b = -A V moves by g alone."""
    given = {"gamma": 0.2, "alpha": 3.0, "beta": 1e-13, "D": 5.0}
    learner = trained(ob.PNewtron, **given, rho0=rho[0], rho1=rho[1])
    x, y = np.linspace(-1, 2, D), 3
    p = (learner.propensities(x) - 0.2 / K) / 0.8

    def b(one):
        table = one.table.weights()
        return -(table[:, 0] * table[:, 1]).T

    mean = sum(chance * (b(after) - b(learner)) for chance, after in outcomes(learner, x, y, rho))
    assert_allclose(mean, np.outer(p - np.eye(K)[y], x), atol=1e-8)


@compiled_in_all
@pytest.mark.parametrize("rho", RATES)
def test_newtron_estimates_the_gradient_without_bias(rho):
    """Plane 1 holds b by its pulls on the said label: their mean is that of c x."""
    given = {"gamma": 0.2, "alpha": 3.0, "beta": 1e-13, "D": 5.0}
    learner = trained(ob.Newtron, **given, rho0=rho[0], rho1=rho[1])
    x, y = np.linspace(-1, 2, D), 3
    p = (learner.propensities(x) - 0.2 / K) / 0.8
    pulls = learner.table.weights()[:, 1].T
    mean = sum(c * (a.table.weights()[:, 1].T - pulls) for c, a in outcomes(learner, x, y, rho))
    assert_allclose(mean, np.outer(p - np.eye(K)[y], x), atol=1e-8)


@compiled_in_all
@pytest.mark.parametrize("form", ["diagonal", "full"])
@pytest.mark.parametrize("rho", RATES)
def test_soba_estimates_its_gradient_without_bias(rho, form):
    """With a matrix that hardly moves W = theta/a, and theta moves by the mean of what it does
    without flips: (e_y - e_r) x', r being y's best rival, whichever label is said."""
    a = 1e9
    learner = trained(ob.SOBA, gamma=0.4, a=a, form=form, rho0=rho[0], rho1=rho[1])
    learner.table.state.memory[0] = 1e6  # no round is skipped
    x, y = np.linspace(-1, 2, D), 3
    mean = sum(
        p * a * (after.weights - learner.weights) for p, after in outcomes(learner, x, y, rho)
    )
    rival = naive.best_other(learner.scores(x[None])[0], y)
    assert_allclose(mean, np.outer(np.eye(K)[y] - np.eye(K)[rival], x), atol=1e-3)


@compiled_in_all
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_without_flips_rcnbf_is_banditron_bit_for_bit(dtype):
    X, y = stream(300)
    one, two = ob.Banditron(K, seed=3, dtype=dtype), ob.RCNBF(K, seed=3, dtype=dtype)
    channel = [ob.Flip(0.1, 0.2)]
    for now in ((), channel):
        first, second = (ob.simulate(learner, X, y, channel=now) for learner in (one, two))
        assert all((a == b).all() for a, b in zip(first, second, strict=True))
        assert one.table.weights().tobytes() == two.table.weights().tobytes()


@pytest.mark.parametrize("make", FLIPPED)
def test_impossible_rates_are_refused(make):
    for rho0, rho1 in [(-0.1, 0), (0, 1), (1, 0), (float("nan"), 0), (0, float("inf"))]:
        with pytest.raises(ValueError, match=r"rho. must be at least 0 and below 1"):
            make(K, rho0=rho0, rho1=rho1)
    for rho0, rho1 in [(0.5, 0.5), (0.9, 0.2)]:
        with pytest.raises(ValueError, match=r"rho0 \+ rho1 must be below 1"):
            make(K, rho0=rho0, rho1=rho1)
    with pytest.raises(TypeError, match="rho0 must be a number"):
        make(K, rho0="0.1")


@pytest.mark.parametrize("make", FLIPPED)
def test_the_rates_are_saved(make, tmp_path):
    learner = make(K, rho0=0.1, rho1=0.2)
    learner.save(tmp_path / "model")
    again = ob.load(tmp_path / "model")
    assert (again.settings["rho0"], again.settings["rho1"]) == (0.1, 0.2)


@settings(max_examples=20, deadline=None)
@given(rates)
def test_the_correction_undoes_the_flips_on_average(rho):
    """Banditron's update on true bits, and RCNBF's on flipped ones, have the same mean."""
    one, two = trained(ob.RCNBF), trained(ob.RCNBF, rho0=rho[0], rho1=rho[1])
    x = np.linspace(2, -1, D)
    W = np.random.default_rng(0).normal(size=(K, D))
    for learner in (one, two):
        learner.table.state.table[:, 0, :K] = W.T
    means = [
        sum(p * after.weights for p, after in outcomes(learner, x, 2, law))
        for learner, law in ((one, (0.0, 0.0)), (two, rho))
    ]
    assert_allclose(*means, atol=1e-7)


BLIND = [
    (ob.Confidit, {"form": "full", "reg": 1.0, "eta": 3.0}),
    (ob.Confidit, {"eta": 3.0}),
    (ob.LinearThompson, {"c": 0.5}),
    (ob.SquareCB, {"scale": 3.0}),
    (ob.FastCB, {"scale": 3.0}),
    (ob.EpsilonGreedy, {"epsilon": 0.2}),
]


@pytest.mark.skipif(not COMPILED, reason="many rounds, of lines that the laws reach too")
@pytest.mark.parametrize("rho", [(0.3, 0.3), (0.2, 0.4), (0.4, 0.2)])
@pytest.mark.parametrize(("make", "given"), BLIND)
def test_who_regresses_the_bit_needs_no_rates(make, given, rho):
    """What is heard right with probability rho0 + b P(y = a | x) is still highest for y."""
    rows = np.arange(6000) % 4
    runs = ob.sweep(
        [make(4, **given, seed=seed) for seed in range(4)],
        np.eye(4)[rows], rows, channel=[ob.Flip(*rho)], checkpoints=[4000, 6000], threads=1,
    )  # fmt: skip
    late = np.mean([np.diff(run.trace.greedy_mistakes)[0] / 2000 for run in runs])
    assert late < 0.1


@pytest.mark.parametrize(
    "rho",
    [
        (0.2, 0.4),
        pytest.param((0.4, 0.2), marks=pytest.mark.thorough),
        pytest.param((0.2, 0.2), marks=pytest.mark.thorough),
    ],
)
def test_with_the_rates_rcnbf_learns_what_banditron_cannot(rho):
    """Four contexts, a label each, many flips: how often the greedy label was wrong."""
    rows = np.arange(4000 if COMPILED else 1500) % 4
    error = {}
    for make, rates in ((ob.RCNBF, {"rho0": rho[0], "rho1": rho[1]}), (ob.Banditron, {})):
        learners = [make(4, gamma=0.5, **rates, seed=seed) for seed in range(8)]
        runs = ob.sweep(learners, np.eye(4)[rows], rows, channel=[ob.Flip(*rho)], threads=1)
        error[make] = np.mean([run.trace.greedy_error[-1] for run in runs])
    assert error[ob.RCNBF] < 0.5 * error[ob.Banditron]
