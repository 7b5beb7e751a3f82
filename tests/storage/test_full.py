"""Full matrices: equal to their twins, to the optima of the papers, to diagonals where those are.

The twins (naive.py) invert matrices anew each time; the learners keep inverses by rank-one updates.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers import naive
from helpers.streams import draws, feed, stream
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize

import onebit as ob
from onebit.algorithms import confidit
from onebit.core.jit import COMPILED, entry
from onebit.core.rounds import Turn, Work

K, D = 5, 12


def pair(twin):
    return lambda K, d, **settings: naive.FullPair(twin(K, d, **settings))


CASES = [
    (ob.Confidit, naive.FullConfidit, {"reg": 0.1}),
    (ob.Confidit, naive.FullConfidit, {"eta": 1.0, "alpha": 0.25, "width": "log"}),
    (ob.Confidit, naive.FullConfidit, {"project": True, "eta": 0.3}),
    (ob.Confidit, naive.FullConfidit, {"project": True, "alpha": 0.0, "width": "theory", "U": 2.0}),
    (ob.Confidit, naive.FullConfidit, {"project": True, "alpha": -0.5, "reg": 1.0}),
    (ob.Confidit, naive.FullConfidit, {"width": "theory", "reg": 0.1, "U": 5.0}),
    (ob.LinearThompson, naive.FullThompson, {"reg": 0.3}),
    (ob.UCWL, naive.FullUCWL, {}),
    (ob.UCWL, naive.FullUCWL, {"eta": 0.9, "C": 0.05, "k": 0.2}),
    (ob.AROW, pair(naive.AROW), {"r": 0.3}),
    (ob.CW, pair(naive.CW), {}),
    (ob.SCW, pair(naive.SCW), {"C": 0.2}),
    (ob.SCW, pair(naive.SCW), {"variant": "II", "C": 0.5}),
]
NAMES = [f"{learner.__name__}-{i}" for i, (learner, _, _) in enumerate(CASES)]


def matrices(learner) -> np.ndarray:
    return learner.table.arrays()["matrix"]


@pytest.mark.parametrize(("make", "twin", "settings"), CASES, ids=NAMES)
def test_a_learner_is_its_twin(make, twin, settings):
    learner = make(K, form="full", seed=4, features=D, **settings)
    other = twin(K, D, **settings)
    X, y = stream(K, D, 120, seed=3)
    for t, (x, label) in enumerate(zip(X, y, strict=True)):
        choice = other.decide(x, t, draws(4, t))
        said = learner.decide(x)
        assert (said.label, said.greedy) == choice[:2], t
        feed(learner, said, label)
        if learner.full_information:
            other.learn(x, int(label))
        else:
            other.learn(x, choice, choice.label == label, t, draws(4, t))
        assert_allclose(learner.weights, other.W, rtol=1e-8, atol=1e-9)
    kept = [getattr(other, name, None) for name in ("A", "full", "precision", "Sigma")]
    whole = next(m for m in kept if m is not None and m.ndim == 3)
    inverse = whole if hasattr(other, "Sigma") else np.linalg.inv(whole)
    assert_allclose(matrices(learner), inverse, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(("make", "twin", "settings"), CASES, ids=NAMES)
def test_whole_and_diagonal_are_one_on_rows_of_one_number(make, twin, settings):
    if settings.get("width") == "theory":
        settings = {**settings, "width": "eta"}
    if make is ob.LinearThompson:
        settings = {**settings, "c": 0.5}
    rng = np.random.default_rng(0)
    X = np.eye(D)[rng.integers(D, size=300)] * rng.uniform(0.3, 2, (300, 1)).round(2)
    y = (X.argmax(axis=1) + (rng.random(300) < 0.2)) % K
    one, two = (make(K, form=form, dtype="float64", **settings) for form in ("diagonal", "full"))
    a, b = (ob.simulate(learner, X, y, checkpoints=range(1, 301)) for learner in (one, two))
    assert_array_equal(a.mistakes, b.mistakes)
    assert_allclose(one.weights, two.weights, rtol=1e-10, atol=1e-12)
    diagonals = np.einsum("kii->ki", matrices(two))
    assert_allclose(one.table.plane(1), diagonals, rtol=1e-10)
    assert_array_equal(matrices(two) - diagonals[:, :, None] * np.eye(D), 0)


def test_ridge_regression_is_what_confidit_solves():
    learner = ob.Confidit(K, form="full", reg=0.3)
    X, y = stream(K, D, 200, seed=1)
    said, right = [], []
    for x, label in zip(X, y, strict=True):
        d = learner.decide(x)
        learner.learn(d, right=d.label == label)
        said.append(d.label)
        right.append(d.label == label)
    z = np.where(right, 1.0, -1.0)
    for i in range(K):
        mine = np.array(said) == i
        A = 0.3 * np.eye(D) + X[mine].T @ X[mine]
        assert_allclose(learner.weights[i], np.linalg.solve(A, X[mine].T @ z[mine]), atol=1e-10)


# ------------------------------------------------------------------------------- the projection


def project(scores, widths, alpha):
    scores, widths = np.array(scores, float), np.array(widths, float)
    work = Work(scores, widths, scores.copy(), np.zeros(len(scores)), np.zeros(len(scores)))
    run_projection(ob.Confidit.Params(0.1, alpha, 0, True, 1.0, 0.05), work)
    return work.propensities


@entry
def run_projection(params, work):
    confidit.projected(params, work)


@pytest.mark.thorough
def test_the_projection_is_the_optimum_of_the_quadratic_programme():
    """In the space of all weights, by a solver that knows nothing of scores."""
    rng = np.random.default_rng(5)
    worst, solved, problems = 0.0, 0, 200 if COMPILED else 60
    for _ in range(problems):
        k, d = int(rng.integers(2, 7)), int(rng.integers(2, 5))
        alpha = float(rng.uniform(-0.5, 1))
        x = rng.normal(size=d)
        x /= np.linalg.norm(x)
        A = np.array([m @ m.T + 0.3 * np.eye(d) for m in rng.normal(size=(k, d, d + 2))])
        W = rng.normal(size=(k, d)) * rng.uniform(0.1, 3)

        def cost(flat, A=A, W=W, k=k, d=d):
            away = flat.reshape(k, d) - W
            return 0.5 * np.einsum("ki,kij,kj->", away, A, away)

        def slope(flat, A=A, W=W, k=k, d=d):
            return np.einsum("kij,kj->ki", A, flat.reshape(k, d) - W).ravel()

        total = 1 + alpha - k * alpha

        def scores(flat, x=x, k=k, d=d):
            return flat.reshape(k, d) @ x

        rules = [
            {"type": "eq", "fun": lambda flat, s=scores, total=total: s(flat).sum() - total},
            {"type": "ineq", "fun": lambda flat, s=scores, alpha=alpha: s(flat) + alpha},
        ]
        how = {"method": "SLSQP", "options": {"ftol": 1e-14, "maxiter": 500}}
        found = minimize(cost, W.ravel(), jac=slope, constraints=rules, **how)
        v = np.array([x @ np.linalg.solve(m, x) for m in A])
        mine = project(W @ x, v, alpha)
        assert abs(mine.sum() - total) < 1e-9 and mine.min() >= -alpha - 1e-12
        steps = (mine - W @ x) / v
        moved = W + np.array([s * np.linalg.solve(m, x) for s, m in zip(steps, A, strict=True)])
        # Never dearer than the solver's, and the solver's own answer is ours.
        assert cost(moved.ravel()) <= found.fun + 1e-9 * (1 + found.fun)
        if found.success:
            solved += 1
            worst = max(worst, float(np.abs(found.x.reshape(k, d) - moved).max()))
    assert solved > 0.75 * problems and worst < 1e-4, (solved, worst)


def test_projecting_twice_is_projecting_once_and_what_is_allowed_stays():
    rng = np.random.default_rng(6)
    for _ in range(200):
        k, alpha = int(rng.integers(1, 40)), float(rng.uniform(-0.9, 1))
        v = rng.uniform(1e-3, 2, k)
        once = project(rng.normal(size=k) * 3, v, alpha)
        assert_allclose(project(once, v, alpha), once, atol=1e-12)
        allowed = rng.dirichlet(np.ones(k)) * (1 + alpha) - alpha
        assert_allclose(project(allowed, v, alpha), allowed, atol=1e-12)


def test_equal_scores_and_one_label_are_projected_too():
    assert_allclose(project([0.0] * 4, [1.0] * 4, 1.0), [-0.5] * 4)
    assert_allclose(project([7.0], [0.5], 0.5), [1.0])
    assert_allclose(project([0.0, 0.0], [0.0, 0.0], 1.0), [0.0, 0.0])  # an empty row stays


# -------------------------------------------------------------------------------------- numbers


@pytest.mark.slow
@pytest.mark.skipif(not COMPILED, reason="a hundred thousand rounds")
@pytest.mark.parametrize(
    ("reg", "spread", "most"), [(4.0, 1, 1e-12), (0.01, 1, 1e-12), (0.01, 100, 1e-7)]
)
def test_inverses_are_inverses_after_a_hundred_thousand_updates(reg, spread, most):
    """spread: of the features' sizes; the condition number grows with its square."""
    rng = np.random.default_rng(2)
    d, rounds = 30, 100_000
    X = rng.normal(size=(1000, d)) * np.geomspace(1, 1 / spread, d)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = rng.integers(2, size=1000)
    learner = ob.Confidit(2, form="full", reg=reg)
    order = rng.integers(1000, size=rounds)
    said = np.zeros(rounds, np.int64)
    A = np.tile(reg * np.eye(d), (2, 1, 1))
    for t in range(rounds):
        row = order[t]
        decision = learner.decide(X[row])
        learner.learn(decision, right=decision.label == y[row])
        said[t] = decision.place
    for i in range(2):
        rows = X[order[said == i]]
        A[i] += rows.T @ rows
    inverse = matrices(learner)
    assert_array_equal(inverse, inverse.transpose(0, 2, 1))  # to the last bit
    drift = np.abs(A @ inverse - np.eye(d)).max()
    assert drift < most, drift


def test_sparse_and_dense_rows_are_scored_by_the_same_matrix():
    """Their variances are summed in different orders, to the same."""
    learner = ob.Confidit(3, form="full", reg=0.5, features=40)
    rng = np.random.default_rng(3)
    ob.simulate(learner, rng.normal(size=(100, 40)), rng.integers(3, size=100))
    few = np.zeros((30, 40))
    for row in few:
        row[rng.permutation(40)[:4]] = rng.normal(size=4)
    for x in (*few, *rng.normal(size=(30, 40))):
        d = learner.decide(x)
        upper = learner.weights @ x + np.sqrt(
            0.1 * np.einsum("i,kij,j->k", x, matrices(learner), x)
        )
        assert d.label == int(upper.argmax())


def test_too_many_features_are_refused_with_advice_before_anything_is_allocated():
    with pytest.raises(MemoryError, match=r"1,000,000 features and 9 labels take 67,0\d\d\.\d GiB"):
        ob.Confidit(9, form="full", features=1_000_000)
    learner = ob.UCWL(["a", "b"], form="full")
    with pytest.raises(MemoryError, match="form='diagonal'"):
        learner.decide({"some": 1, "names": 2})
    assert learner.round == 0 and learner.decide([1.0, 2.0]).label in ("a", "b")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"form": "square"}, "form must be one of 'diagonal', 'full'"),
        ({"width": "theory"}, "add form='full'"),
        ({"project": True, "update": "coordinate"}, "update='residual'"),
        ({"project": 1}, "project must be True or False"),
        ({"form": "full", "delta": 0}, "delta must be above 0"),
        ({"form": "full", "U": -1}, "U must be at least 0"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, message):
    with pytest.raises((TypeError, ValueError), match=message):
        ob.Confidit(3, **settings)


def test_under_the_model_scores_stay_within_the_width_of_the_theorem():
    """Eq. (5), and what Theorem 1 makes of it: no round costs more than twice its width."""
    rounds, alpha = (1500 if COMPILED else 150), 1.0
    data = ob.datasets.linear_noise(rounds, alpha=alpha, seed=3)
    U = float(np.linalg.norm(data.weights))
    learner = ob.Confidit(
        5, form="full", project=True, width="theory", alpha=alpha, U=U, delta=0.05, features=20
    )
    widest = 0.0
    for t, x in enumerate(data.X.astype(float)):
        v = np.einsum("i,kij,j->k", x, matrices(learner), x)
        scores = project(learner.weights @ x, v, alpha)
        spread = U**2 / 2 + learner.table.state.memory[0] / 2 + 9 * np.log((t + 5) / 0.05)
        width = (1 + alpha) * np.sqrt(2 * spread * v)
        widest = max(widest, np.max(np.abs(scores - data.weights @ x) / width))
        decision = learner.decide(x)
        assert decision.label == int(np.argmax(scores + width))
        learner.learn(decision, right=decision.label == data.y[t])
        lost = data.probabilities[t].max() - data.probabilities[t, decision.label]
        assert lost <= 2 * width[decision.label] / (1 + alpha) + 1e-9
    assert 0.01 < widest < 1  # with probability 0.95: and the check could fail


@pytest.mark.parametrize(
    ("make", "settings", "longest"),
    [
        (ob.Confidit, {"form": "full", "reg": 0.01}, 0.99e5),
        (ob.Confidit, {"kernel": "linear"}, 0.99 * np.sqrt(4e7)),
        (ob.SOBA, {"form": "full", "gamma": 0.3}, 0.99e6),
    ],
)
def test_contexts_too_long_to_compute_with_are_refused_and_the_longest_leave_numbers(
    make, settings, longest
):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(80, 6))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = rng.integers(3, size=80)
    learner = make(3, features=6, **settings)
    ob.simulate(learner, X * longest, y)
    assert np.isfinite(learner.weights).all() and np.isfinite(learner.scores(X)).all()
    before = learner.weights.tobytes()
    for call in (learner.decide, learner.predict, lambda rows: ob.simulate(learner, rows, y)):
        rows = 2 * longest * X
        with pytest.raises(ValueError, match="scale contexts to length 1"):
            call(rows[0] if call == learner.decide else rows)
    assert learner.weights.tobytes() == before


def test_a_setting_that_a_learner_has_not_is_named():
    with pytest.raises(TypeError, match="no setting 'form' for Banditron; it has gamma, kernel"):
        ob.Banditron(3, form="full")
    with pytest.raises(TypeError, match="no setting 'from' for Confidit; it has form, eta"):
        ob.Confidit(3, **{"from": 1})


def test_the_width_of_the_theorem_is_that_of_eq_5():
    width = getattr(confidit.width_factor, "py_func", confidit.width_factor)
    U, alpha, delta, t, total = 2.0, 0.5, 0.1, 7, 3.0
    learner = ob.Confidit(3, form="full", width="theory", U=U, alpha=alpha, delta=delta, features=2)
    learner.table.state.memory[0] = total
    c = (1 + alpha) ** 2
    inner = c * U**2 / 2 + c * total / 2 + 9 * c * np.log((t + 4) / delta)
    turn = Turn(0, t - 1, 3)  # the paper counts rounds from 1
    assert width(learner.params, learner.table.state, turn) == pytest.approx(np.sqrt(2 * inner))
