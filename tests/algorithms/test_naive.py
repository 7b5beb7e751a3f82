"""The twins against what the papers prove about the algorithms."""

import copy
import math

import numpy as np
import pytest
from helpers import naive
from helpers.naive import Choice
from scipy.special import ndtri

from onebit.core.jit import COMPILED

# They call nothing of ours: one way of running is as good as the other.
pytestmark = [] if COMPILED else [pytest.mark.exhaustive]
K, d = 4, 6

BANDIT = {
    "Banditron": lambda: naive.Banditron(K, d, gamma=0.2),
    "PNewtron": lambda: naive.PNewtron(K, d, gamma=0.2, beta=0.1, D=3.0),
    "PNewtron reg": lambda: naive.PNewtron(K, d, gamma=0.2, D=0.5, reg=0.1),
    "Confidit": lambda: naive.Confidit(K, d, eta=0.5),
    "Confidit coin": lambda: naive.Confidit(K, d, eta=0.5, alpha=0.2),
    "Confidit log": lambda: naive.Confidit(K, d, eta=0.5, reg=0.1, width="log"),
    "Confidit coordinate": lambda: naive.Confidit(K, d, eta=0.5, update="coordinate"),
    "UCWL": lambda: naive.UCWL(K, d, eta=0.9, C=1.0, k=0.5),
    "SOBA": lambda: naive.SOBA(K, d, gamma=0.3, a=1.0),
    "BPA": lambda: naive.BPA(K, d, gamma=0.1),
    "BPA-I": lambda: naive.BPA(K, d, gamma=0.1, C=0.1, variant="PA-I"),
    "BPA-II": lambda: naive.BPA(K, d, gamma=0.1, C=0.1, variant="PA-II"),
    "EG": lambda: naive.EGBandit(K, d, gamma=0.2, eta=0.1),
    "EG signed": lambda: naive.EGBandit(K, d, gamma=0.2, eta=0.1, B=10.0, signed=True),
    "p-norm": lambda: naive.PNormBandit(K, d, gamma=0.2, p=6.0),
    "BanditPerceptron": lambda: naive.BanditPerceptron(K, d),
    "BanditPerceptron right": lambda: naive.BanditPerceptron(K, d, use_correct=True),
    "SquareCB": lambda: naive.SquareCB(K, d, lr=0.3),
    "SquareCB squared": lambda: naive.SquareCB(K, d, lr=0.3, loss="squared"),
    "FastCB": lambda: naive.FastCB(K, d, lr=0.3),
    "EpsilonGreedy": lambda: naive.EpsilonGreedy(K, d, epsilon=0.1, lr=0.3),
    "Thompson": lambda: naive.LinearThompson(K, d, c=0.5, reg=1.0),
    "UniformRandom": lambda: naive.UniformRandom(K, d),
}
FULL = {
    "Perceptron": lambda: naive.Perceptron(K, d),
    "SOP": lambda: naive.SecondOrderPerceptron(K, d, a=1.0),
    "PA": lambda: naive.PassiveAggressive(K, d, variant="PA"),
    "PA-I": lambda: naive.PassiveAggressive(K, d, variant="PA-I", C=0.1),
    "PA-II": lambda: naive.PassiveAggressive(K, d, variant="PA-II", C=0.1),
    "AROW": lambda: naive.AROW(K, d, r=0.5),
    "CW": lambda: naive.CW(K, d, eta=0.9),
    "SCW-I": lambda: naive.SCW(K, d, eta=0.9, C=0.5),
    "SCW-II": lambda: naive.SCW(K, d, eta=0.9, C=0.5, variant="II"),
}
ALL = BANDIT | FULL
FULL_CLASSES = (
    naive.Perceptron,
    naive.SecondOrderPerceptron,
    naive.PassiveAggressive,
    naive.GaussianPair,
)


def draws(seed, round):
    """The uniform numbers of one round: the same stream gives the same number."""
    return lambda stream: np.random.default_rng([seed, round, stream]).random()


def sample(rng, truth, noise=0.1):
    """A sparse x, now and then zero, and a mostly linear label."""
    x = rng.normal(size=d) * (rng.random(d) < 0.6)
    if rng.random() < 0.05:
        x[:] = 0
    return x, int(rng.integers(K) if rng.random() < noise else np.argmax(truth @ x))


def state(twin):
    return {k: copy.deepcopy(v) for k, v in vars(twin).items()}


def same(one, two):
    return all(np.array_equal(one[k], two[k]) for k in one)


def stream(twin, rounds, seed=0, one_feature=False):
    """Run the twin; yields what happened each round: before, x, y, choice, right, changed."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(K, d))
    for t in range(rounds):
        x, y = sample(rng, truth)
        if one_feature:
            x = x * (np.arange(d) == rng.integers(d))
        before, draw = copy.deepcopy(twin), draws(seed, t)
        choice = twin.decide(x, t, draw)
        right = choice.label == y
        if isinstance(twin, FULL_CLASSES):
            changed = twin.learn(x, y)
        else:
            changed = twin.learn(x, choice, right, t, draw)
        yield before, x, y, choice, right, changed


def trained(name, rounds=60, seed=0):
    twin = ALL[name]()
    for _ in stream(twin, rounds, seed):
        pass
    return twin


@pytest.mark.parametrize("name", ALL)
def test_contract(name):
    """Finite state, honest propensities, exact no-ops, variances that only shrink."""
    twin, updates = ALL[name](), 0
    for t, (before, x, _, choice, _, changed) in enumerate(stream(twin, 150)):
        updates += changed
        assert before.scores(x).shape == (K,)
        assert twin.W.shape == (K, d) and np.all(np.isfinite(twin.W))
        if hasattr(twin, "variance"):
            assert twin.variance.shape == (K, d)
            assert np.all(twin.variance > 0)
            assert np.all(twin.variance <= before.variance)
        assert isinstance(changed, bool)
        if not changed:
            assert same(state(before), state(twin))
        if name != "Thompson" or t % 10 == 0:
            p = before.propensities(x, t)
            assert np.all(p >= 0)
            assert np.sum(p) == pytest.approx(1, abs=1e-9 if name == "Thompson" else 1e-12)
            if name != "Thompson":
                assert choice.propensity == pytest.approx(p[choice.label], abs=1e-15)
    assert (updates == 0) == (name == "UniformRandom")


@pytest.mark.parametrize("name", ALL)
def test_zero_vector_leaves_the_state_alone(name):
    twin = trained(name)
    before, x = state(twin), np.zeros(d)
    for y in range(K):
        if name in FULL:
            twin.learn(x, y)
        else:
            choice = twin.decide(x, 60, draws(1, y))
            twin.learn(x, choice, choice.label == y, 60, draws(1, y))
    assert same(before, state(twin))


@pytest.mark.parametrize("name", ALL)
def test_first_greedy_label_is_the_lowest(name):
    twin = ALL[name]()
    assert twin.decide(np.ones(d), 0, draws(0, 0)).greedy == 0


@pytest.mark.parametrize("name", ["Banditron", "PNewtron", "SquareCB", "FastCB", "UniformRandom"])
def test_labels_are_played_with_their_probabilities(name):
    """All draws of a fine grid, one per cell: frequencies are the probabilities."""
    twin, n = trained(name), 400
    x = np.ones(d)
    p = twin.propensities(x, 60)
    grid = (np.arange(n) + 0.5) / n
    pairs = [(u0, u1) for u0 in grid for u1 in grid[5::10]]
    count = np.zeros(K)
    for u0, u1 in pairs:
        count[twin.decide(x, 60, lambda s, u=(u0, u1): u[s]).label] += 1
    assert count / len(pairs) == pytest.approx(p, abs=2 / n)


# ------------------------------------------------------------------------- Banditron family


@pytest.mark.parametrize("y", range(K))
def test_banditron_update_is_unbiased(y):
    """KSST08: E[U~] = (e_y - e_h) x', and the second moments used in the bound."""
    twin, x, eye = trained("Banditron"), np.linspace(-1, 2, d), np.eye(K)
    h, P = twin.greedy(x), twin.propensities(x, 60)
    mean, second = np.zeros((K, d)), 0.0
    for a in range(K):
        after = copy.deepcopy(twin)
        assert after.learn(x, Choice(a, h, P[a]), a == y, 60, draws(0, 0))
        U = after.W - twin.W
        mean += P[a] * U
        second += P[a] * np.sum(U**2)
    assert mean == pytest.approx(np.outer(eye[y] - eye[h], x), abs=1e-12)
    expected = 1 / P[h] - 1 if y == h else 1 + K / twin.gamma
    assert second / np.sum(x**2) == pytest.approx(expected, rel=1e-12)


def test_banditron_does_not_see_the_scale():
    one, two = naive.Banditron(K, d, gamma=0.2), naive.Banditron(K, d, gamma=0.2)
    for t, (_, x, _, choice, right, _) in enumerate(stream(one, 200)):
        assert two.decide(8 * x, t, draws(0, t)) == choice
        two.learn(8 * x, choice, right, t, draws(0, t))
    assert np.array_equal(two.W, 8 * one.W)


def test_two_norm_is_banditron():
    one, two = (naive.Banditron(K, d, gamma=0.2), naive.PNormBandit(K, d, gamma=0.2, p=2.0))
    for t, (_, x, _, choice, right, _) in enumerate(stream(one, 200)):
        assert two.decide(x, t, draws(0, t)) == choice
        two.learn(x, choice, right, t, draws(0, t))
    assert np.array_equal(one.W, two.W)


def test_p_norm_is_the_gradient_of_its_potential():
    twin = trained("p-norm")

    def potential(theta):
        return np.sum(np.abs(theta) ** twin.p) ** (2 / twin.p) / 2

    assert pytest.approx(numeric_gradient(potential, twin.theta), abs=1e-6) == twin.W


def test_eg_is_a_distribution_and_forgets_constants():
    twin = trained("EG")
    W = twin.W
    assert np.all(W >= 0)
    assert np.sum(W) == pytest.approx(1, abs=1e-12)
    assert numeric_gradient(lambda th: np.log(np.sum(np.exp(th))), twin.theta) == pytest.approx(
        W, abs=1e-8
    )
    twin.theta = twin.theta + 700.0
    assert pytest.approx(W, abs=1e-12) == twin.W


def test_signed_eg():
    """W = B sinh / sum cosh, the gradient of B log sum cosh; played labels do not depend on B."""
    twin = trained("EG signed")
    expected = 10 * np.sinh(twin.theta) / np.sum(np.cosh(twin.theta))
    assert pytest.approx(expected, abs=1e-12) == twin.W
    one = naive.EGBandit(K, d, gamma=0.2, eta=0.1, B=1.0, signed=True)
    two = naive.EGBandit(K, d, gamma=0.2, eta=0.1, B=8.0, signed=True)
    for t, (_, x, _, choice, right, _) in enumerate(stream(one, 100)):
        assert two.decide(x, t, draws(0, t)) == choice
        two.learn(x, choice, right, t, draws(0, t))


# ------------------------------------------------------------------------------------ Newtron


def numeric_gradient(function, at, h=1e-6):
    grad = np.zeros_like(at)
    for i in np.ndindex(at.shape):
        step = np.zeros_like(at)
        step[i] = h
        grad[i] = (function(at + step) - function(at - step)) / (2 * h)
    return grad


@pytest.mark.parametrize("y", range(K))
def test_newtron_gradient_is_unbiased(y):
    """HK11 eq. (8) and Lemma 1: E[g] = (p - e_y) x' = the gradient of the log loss at W'."""
    twin, x = trained("PNewtron"), np.linspace(-1, 2, d)
    p, P = twin.softmax(x), twin.propensities(x)
    mean = sum(P[a] * twin.gradient(x, a, a == y)[0] for a in range(K))
    assert mean == pytest.approx(np.outer(p - np.eye(K)[y], x), abs=1e-12)

    def loss(W):
        u = twin.alpha * (W @ x)
        return (np.log(np.sum(np.exp(u))) - u[y]) / twin.alpha

    assert mean == pytest.approx(numeric_gradient(loss, twin.W), abs=1e-7)


@pytest.mark.parametrize("y", range(K))
def test_newtron_curvature_is_bounded(y):
    """HK11 eq. (10): kappa = p'(y) when right, else 1, keeps E[kappa g g'] below 10 x x'."""
    twin, x = trained("PNewtron"), np.eye(d)[0]
    P, H = twin.propensities(x), np.zeros((K, K))
    for a in range(K):
        g, kappa = twin.gradient(x, a, a == y)
        assert kappa == (P[a] if a == y else 1)
        H += P[a] * kappa * np.outer(g[:, 0], g[:, 0])
    assert H @ np.ones(K) == pytest.approx(np.zeros(K), abs=1e-12)
    assert np.linalg.norm(H, 2) <= 10


def test_newtron_state_is_the_expanded_objective():
    """HK11 eq. (3) restated: b and A are its gradient at 0 and its diagonal curvature."""
    twin, terms = naive.PNewtron(K, d, gamma=0.2, beta=0.1, D=3.0), []
    for before, x, _, choice, right, _ in stream(twin, 40):
        g, kappa = before.gradient(x, choice.label, right)
        u = before.scores(x)
        c = g[choice.label] @ x / (x @ x) / (1 - 1 / K) if np.any(x) else 0.0
        assert np.sum(g * before.W) == pytest.approx(c * (u[choice.label] - u.mean()), abs=1e-12)
        terms.append((g, kappa, before.W))

    def objective(W):
        total = np.sum(W**2) / (2 * twin.D)
        for g, kappa, W1 in terms:
            move = np.sum(g * (W - W1))
            total += move + kappa * twin.beta * move**2 / 2
        return total

    zero = np.zeros((K, d))
    assert numeric_gradient(objective, zero) == pytest.approx(twin.b, abs=1e-5)
    h = 1.0  # exact for a quadratic
    for i in np.ndindex(K, d):
        e = np.zeros((K, d))
        e[i] = h
        second = objective(e) - 2 * objective(zero) + objective(-e)
        assert second == pytest.approx(twin.A[i], rel=1e-8)


@pytest.mark.parametrize("D", [0.3, 1.0, 5.0])
def test_newtron_stays_in_the_ball(D):
    twin, active = naive.PNewtron(K, d, gamma=0.1, D=D), 0
    for before, x, *_ in stream(twin, 150):
        norm = np.linalg.norm(twin.W)
        assert norm <= D * (1 + 1e-12)
        active += norm > D * (1 - 1e-12)
        assert np.all(before.propensities(x) >= 0.1 / K)
    assert active > 0 or D > 1


def test_newtron_first_round_is_uniform():
    twin = naive.PNewtron(K, d, gamma=0.1)
    assert twin.propensities(np.ones(d), 0) == pytest.approx(np.full(K, 1 / K), abs=1e-15)


# ------------------------------------------------------------------------- Confidit, Thompson


@pytest.mark.parametrize("name", ["Confidit", "Confidit coordinate", "Thompson"])
def test_ridge_is_recursive_least_squares_on_single_features(name):
    """CG11 step 8 with one non-zero in x is the rank-one form; v becomes v / (1 + v)."""
    twin = ALL[name]()
    for before, x, _, choice, right, changed in stream(twin, 200, one_feature=True):
        if not changed:
            continue
        a, z = choice.label, 1 if right else -1
        t = before.variance[a] * x
        v = t @ x
        w = before.W[a] + t * (z - before.W[a] @ x) / (1 + v)
        assert twin.W[a] == pytest.approx(w, abs=1e-12)
        assert twin.variance[a] @ x**2 == pytest.approx(v / (1 + v), rel=1e-12)


def test_the_first_residual_step_is_that_of_the_full_matrix():
    """CG11 step 8 while A is still diagonal: A w = z x with A = 4 I + x x'."""
    x = np.linspace(-1, 2, d)
    for right in (True, False):
        twin = naive.Confidit(K, d)
        assert twin.learn(x, Choice(1, 0, 1.0), right, 0, draws(0, 0))
        w = np.linalg.solve(4 * np.eye(d) + np.outer(x, x), (1 if right else -1) * x)
        assert twin.W[1] == pytest.approx(w, abs=1e-12)
        assert twin.A[1] == pytest.approx(4 + x**2, abs=1e-12)
        assert not np.any(np.delete(twin.W, 1, axis=0))


def test_a_residual_step_goes_part_of_the_way_to_the_target():
    """The score becomes (u + v z) / (1 + v): never beyond the target, unlike by coordinate."""
    for before, x, _, choice, right, _ in stream(twin := ALL["Confidit"](), 200):
        a, z = choice.label, 1 if right else -1
        u, v = before.W[a] @ x, before.variance[a] @ x**2
        assert twin.W[a] @ x == pytest.approx((u + v * z) / (1 + v), abs=1e-12)


def test_confidit_target_has_the_mean_of_the_model():
    """CG11 Section 3: E[beta_t | M_t = 1] = -alpha, and always +1 after a right answer."""
    twin, n = naive.Confidit(K, d, eta=1.0, alpha=0.2), 1000
    wrong = [twin.target(False, lambda s, i=i: (i + 0.5) / n) for i in range(n)]
    assert np.mean(wrong) == pytest.approx(-0.2, abs=1e-12)
    assert twin.target(True, lambda s: 0.999) == 1
    assert naive.Confidit(K, d, eta=1.0).target(False, lambda s: 0.0) == -1
    assert np.all(twin.A == 1.2**2)


def test_confidit_bound_holds_the_bonus():
    twin = trained("Confidit log")
    x = np.ones(d)
    v = twin.variance.sum(axis=1)
    assert twin.scores(x, 9) == pytest.approx(twin.W @ x, abs=1e-12)
    assert twin.upper(x, 0) == pytest.approx(twin.W @ x, abs=1e-12)
    assert twin.upper(x, 9) == pytest.approx(twin.W @ x + np.sqrt(0.5 * np.log(10) * v), abs=1e-12)


def test_upper_confidence_ties():
    twin = naive.Confidit(3, 1, eta=0.0)
    twin.b[:, 0] = twin.A[:, 0] * [1 - 1e-10, 1.0, 1.0]
    assert twin.said(np.ones(1)) == 0
    assert twin.greedy(np.ones(1)) == 1  # the greedy label has no tolerance
    twin.b[0, 0] = twin.A[0, 0] * (1 - 1e-8)
    assert twin.said(np.ones(1)) == 1


@pytest.mark.parametrize("name", ["Confidit", "Confidit coordinate", "UCWL"])
def test_greedy_label_has_no_bonus(name):
    """CG11 eq. (1): y~ is the largest mean score, y^ the largest upper bound."""
    twin, differ = ALL[name](), 0
    for before, x, _, choice, _, _ in stream(twin, 150):
        u = before.W @ x
        assert u[choice.greedy] >= u.max() - 1e-12
        upper = before.upper(x)
        assert upper[choice.label] >= upper.max() - 1e-9
        differ += choice.label != choice.greedy
    assert differ > 5


def test_thompson_plays_its_probabilities():
    twin, x, n = trained("Thompson"), np.ones(d), 20000
    p, rng = twin.propensities(x), np.random.default_rng(5)
    count = np.zeros(K)
    for _ in range(n):
        u = rng.random(2 * K)
        count[twin.decide(x, 60, lambda s, u=u: u[s]).label] += 1
    assert np.all(np.abs(count / n - p) < 4 * np.sqrt(p * (1 - p) / n) + 1e-9)
    exact = copy.deepcopy(twin)
    exact.exact_propensity = True
    choice = exact.decide(x, 60, draws(0, 0))
    assert choice.propensity == pytest.approx(p[choice.label])
    assert math.isnan(twin.decide(x, 60, draws(0, 0)).propensity)


def test_thompson_probabilities_of_two_labels_are_closed_form():
    """P(0) = Phi((u_0 - u_1) / sqrt(s_0^2 + s_1^2)), also when one spread is tiny."""
    for precision in (1.0, 1e8):
        twin = naive.LinearThompson(2, 1, c=0.7, reg=1.0)
        twin.A[1] = precision
        twin.b[:, 0] = [0.3, 0.5 * precision]
        s = 0.7 * np.sqrt(1 + 1 / precision)
        expected = 0.5 * math.erfc((0.5 - 0.3) / s / math.sqrt(2))
        assert twin.propensities(np.ones(1)) == pytest.approx([expected, 1 - expected], abs=1e-9)


# --------------------------------------------------------------------------------------- SOBA


@pytest.mark.parametrize("gamma", [0.05, 0.5, 1.0])
def test_soba(gamma):
    """BOZ17: m_sum >= 0, wrong answers change nothing, <W, g> and m as in the paper."""
    twin, accepted, refused = naive.SOBA(K, d, gamma=gamma, a=1.0), 0, 0
    for before, x, _, choice, right, changed in stream(twin, 600):
        assert twin.m_sum >= 0
        if not right:
            assert not changed
            continue
        if not np.any(x):
            continue
        y, P, u = choice.label, choice.propensity, before.W @ x
        delta = max(u[i] for i in range(K) if i != y) - u[y]
        r = next(i for i in range(K) if i != y and u[i] - u[y] == delta)
        v = sum(x**2 @ before.variance[i] for i in (r, y)) / P
        m = (delta**2 + 2 * delta) / P / (1 + v)
        assert (m < -1e-12) == (-2 + 1e-9 < delta < -1e-9) or abs(m) < 1e-9
        assert changed == (before.m_sum + m >= 0) or abs(before.m_sum + m) < 1e-9
        if changed:
            accepted += 1
            assert twin.m_sum - before.m_sum == pytest.approx(m, abs=1e-9)
            assert np.sum(twin.A - before.A) == pytest.approx(2 * x @ x / P, rel=1e-9)
            # rows r and y only, theta -= g
            moved = np.flatnonzero(np.any(twin.theta != before.theta, axis=1))
            assert set(moved) == {r, y}
        else:
            refused += 1
        if choice.greedy != y:
            assert changed  # a mistake found by exploring always counts
    assert accepted > 50
    assert refused > 0


# --------------------------------------------------------------- passive-aggressive, Perceptron


def test_bpa_step_meets_the_margin():
    """ZD15: after an unclipped update z u_a = 1; the clipped ones fall short."""
    for name in ("BPA", "BPA-I", "BPA-II"):
        twin = BANDIT[name]()
        for before, x, _, choice, right, changed in stream(twin, 100):
            a, z = choice.label, 1 if right else -1
            old, new = z * (before.W[a] @ x), z * (twin.W[a] @ x)
            assert changed == (old < 1 and bool(np.any(x)))
            if changed and name == "BPA":
                assert new == pytest.approx(1, abs=1e-12)
            elif changed:
                assert old < new <= 1 + 1e-12
            if changed and name == "BPA-I":
                assert np.linalg.norm(twin.W[a] - before.W[a]) <= 0.1 * np.linalg.norm(x) + 1e-12


def test_pa_two_minimises_its_objective():
    """CDKSS06: PA-II minimises ||w - w_t||^2 / 2 + C loss^2, here over the step length."""
    twin = BANDIT["BPA-II"]()
    for before, x, _, choice, right, changed in stream(twin, 50):
        if changed:
            z, a = 1 if right else -1, choice.label
            tau = z * (twin.W[a] - before.W[a]) @ x / (x @ x)
            loss = 1 - z * (twin.W[a] @ x)
            assert tau == pytest.approx(2 * twin.C * loss, abs=1e-12)


def test_pa_margin_is_one():
    twin = naive.PassiveAggressive(K, d, variant="PA")
    for before, x, y, _, _, changed in stream(twin, 150):
        u = before.scores(x)
        r = naive.best_other(u, y)
        assert changed == (u[y] - u[r] < 1 and bool(np.any(x)))
        if changed:
            new = twin.scores(x)
            assert new[y] - new[r] == pytest.approx(1, abs=1e-12)


def test_bandit_perceptron_counts():
    """B19: weights move on a mistake, or on a lucky guess when no label said yes."""
    twin, up = naive.BanditPerceptron(K, d), np.zeros(K)
    labels = np.zeros(K)
    for before, x, y, choice, right, changed in stream(twin, 300):
        empty = np.all(before.W @ x < 0)
        assert changed == (right == empty)
        if not empty:
            assert choice.propensity == 1 and choice.label == choice.greedy
        labels[y] += 1
        up[choice.label] += changed and right
    assert np.all(up <= labels)


def test_bandit_perceptron_use_correct():
    twin = naive.BanditPerceptron(K, d, use_correct=True)
    for before, x, _, choice, right, _ in stream(twin, 300):
        if right and np.any(x):
            u = before.W @ x
            for j in range(K):
                sign = (u[j] <= 0) if j == choice.label else -1 * (u[j] >= 0)
                assert twin.W[j] == pytest.approx(before.W[j] + sign * x, abs=1e-12)


def test_perceptrons_move_on_mistakes_only():
    for name in ("Perceptron", "SOP"):
        twin = FULL[name]()
        for before, x, y, choice, _, changed in stream(twin, 100):
            if np.any(x):
                assert changed == (choice.label != y)
            move = twin.W - before.W if name == "Perceptron" else twin.b - before.b
            expected = np.outer(np.eye(K)[y] - np.eye(K)[choice.label], x)
            assert move == pytest.approx(expected, abs=1e-12)


def test_second_order_perceptron_counts_the_current_x():
    """CCG05 with one feature: u_i = x b_i / (a + S_i + x^2)."""
    twin, x = naive.SecondOrderPerceptron(2, 1, a=2.0), np.array([3.0])
    assert twin.learn(x, 1)
    assert twin.scores(x) == pytest.approx([-9 / 20, 9 / 20])


# ------------------------------------------------------------------------- confidence weighted


def gaussian_objective(penalty, mu0, S0):
    """KL(N(mu, S) || N(mu0, S0)) + penalty(m, v) for the margin along c, as a function."""

    def value(mu, S, c):
        inverse = np.linalg.inv(S0)
        kl = np.trace(inverse @ S) - len(mu) + (mu - mu0) @ inverse @ (mu - mu0)
        kl -= np.linalg.slogdet(S)[1] - np.linalg.slogdet(S0)[1]
        return kl / 2 + penalty(mu @ c, c @ S @ c)

    return value


def stationarity(value, mu, S, c):
    """Largest slope of the objective over all directions of mu and of symmetric S.

    Directions are measured in standard deviations, so that slopes have no scale.
    """
    n, slopes, h = len(mu), [], 1e-5
    L, zero = np.linalg.cholesky(S), np.zeros(len(mu))

    def slope(dm, dS):
        return (value(mu + h * dm, S + h * dS, c) - value(mu - h * dm, S - h * dS, c)) / (2 * h)

    for i in range(n):
        slopes.append(slope(L[:, i], np.outer(zero, zero)))
        slopes += [
            slope(zero, np.outer(L[:, i], L[:, j]) + np.outer(L[:, j], L[:, i]))
            for j in range(i, n)
        ]
    return np.max(np.abs(slopes))


def pair_step(twin, before, x, y):
    """One feature j: means and covariance of the pair (y, r), before and after.

    The twin drops the covariance between y and r; it is put back from beta, which the shrunk
    variance of y shows.
    """
    j = int(np.flatnonzero(x)[0])
    pair = [y, naive.best_other(before.scores(x), y)]
    c = x[j] * np.array([1.0, -1.0])
    mu0, S0 = before.W[pair, j], np.diag(before.variance[pair, j])
    alpha = (twin.W[y, j] - mu0[0]) / (S0[0, 0] * c[0])
    beta = (S0[0, 0] - twin.variance[y, j]) / (S0[0, 0] * c[0]) ** 2
    S = S0 - beta * np.outer(S0 @ c, S0 @ c)
    assert np.diag(S) == pytest.approx(twin.variance[pair, j], rel=1e-9)
    assert twin.W[pair, j] == pytest.approx(mu0 + alpha * S0 @ c, abs=1e-12)
    return mu0, S0, c, twin.W[pair, j], S, alpha, beta


PHI = float(ndtri(0.9))
PENALTY = {
    "AROW": lambda m, v: (max(0, 1 - m) ** 2 + v) / (2 * 0.5),
    "SCW-I": lambda m, v: 0.5 * max(0, PHI * math.sqrt(v) - m),
    "SCW-II": lambda m, v: 0.5 * max(0, PHI * math.sqrt(v) - m) ** 2,
}


def single_features(rounds=300):
    rng = np.random.default_rng(3)
    for _ in range(rounds):
        x = np.zeros(d)
        x[rng.integers(d)] = rng.choice([-1, 1]) * rng.uniform(0.3, 2)
        yield x, int(rng.integers(K))


@pytest.mark.parametrize("name", ["AROW", "CW", "SCW-I", "SCW-II"])
def test_pair_step_solves_its_problem(name):
    """CKD09, CDK09, WZH12: margin m+ = phi sqrt(v+), or a stationary point of the objective."""
    twin, exact, clipped = FULL[name](), 0, 0
    for x, y in single_features():
        before = copy.deepcopy(twin)
        if not twin.learn(x, y):
            assert same(state(before), state(twin))
            u = before.scores(x)
            m = u[y] - u[naive.best_other(u, y)]
            V = before.variance @ x**2
            v = V[y] + V[naive.best_other(u, y)]
            assert m >= (1 if name == "AROW" else PHI * math.sqrt(v)) - 1e-9
            continue
        mu0, S0, c, mu, S, alpha, beta = pair_step(twin, before, x, y)
        m, v = mu @ c, c @ S @ c
        m0, v0 = mu0 @ c, c @ S0 @ c
        assert m == pytest.approx(m0 + alpha * v0, abs=1e-9)
        assert v == pytest.approx(v0 - beta * v0**2, rel=1e-7)
        if name == "CW" or (name == "SCW-I" and alpha < 0.5 - 1e-9):
            exact += 1
            assert m == pytest.approx(PHI * math.sqrt(v), abs=1e-7)
            continue
        if name == "SCW-I":
            clipped += 1
            assert m <= PHI * math.sqrt(v) + 1e-9
        exact += name != "SCW-I"
        value = gaussian_objective(PENALTY[name], mu0, S0)
        assert stationarity(value, mu, S, c) < 1e-7
    assert exact > 10
    assert clipped > 5 or name != "SCW-I"


def test_ucwl_bound_holds_the_bonus():
    """NLVS13 Algorithm 1, line 9."""
    twin, x = trained("UCWL"), np.linspace(-1, 2, d)
    expected = [twin.W[i] @ x + 0.5 * math.sqrt(twin.variance[i] @ x**2) for i in range(K)]
    assert twin.upper(x) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("C", [0.2, 1.0, 1e9])
def test_ucwl_step_solves_its_problem(C):
    """NLVS13 eq. (4) and (6): the played class takes a binary SCW-I step on z."""
    twin, exact, clipped = naive.UCWL(K, d, eta=0.9, C=C, k=0.5), 0, 0
    for t, (x, y) in enumerate(single_features()):
        before, draw = copy.deepcopy(twin), draws(0, t)
        choice = twin.decide(x, t, draw)
        a, z, j = (choice.label, 1 if choice.label == y else -1, int(np.flatnonzero(x)[0]))
        changed = twin.learn(x, choice, choice.label == y, t, draw)
        m0, v0 = z * before.W[a] @ x, before.variance[a] @ x**2
        assert changed == (m0 < PHI * math.sqrt(v0)) or abs(m0 - PHI * math.sqrt(v0)) < 1e-9
        m, v = z * twin.W[a] @ x, twin.variance[a] @ x**2
        if not changed:
            continue
        if (twin.W[a, j] - before.W[a, j]) * z / (before.variance[a, j] * x[j]) < C - 1e-9:
            exact += 1
            assert m == pytest.approx(PHI * math.sqrt(v), abs=1e-9)
            continue
        clipped += 1
        assert m < PHI * math.sqrt(v) + 1e-9
        value = gaussian_objective(
            lambda m, v: C * max(0, PHI * math.sqrt(v) - m),
            before.W[a, [j]],
            np.diag(before.variance[a, [j]]),
        )
        S = np.diag(twin.variance[a, [j]])
        assert stationarity(value, twin.W[a, [j]], S, z * x[[j]]) < 1e-7
    assert exact > 5 or C < 1
    assert clipped > 5 or C > 1


def test_diagonal_margin_identity():
    """Dense x: m + alpha v = phi sqrt(v - beta v^2), while the kept variance is larger."""
    twin, seen = naive.CW(K, d, eta=0.9), 0
    for before, x, y, _, _, changed in stream(twin, 200):
        if not changed:
            continue
        seen += 1
        r = naive.best_other(before.scores(x), y)
        j = int(np.argmax(np.abs(x)))
        alpha = (twin.W[y] - before.W[y])[j] / (before.variance[y, j] * x[j])
        beta = (before.variance[y] - twin.variance[y])[j] / (before.variance[y, j] * x[j]) ** 2
        m = (before.W[y] - before.W[r]) @ x
        v = (before.variance[y] + before.variance[r]) @ x**2
        assert 0 < beta * v < 1
        assert m + alpha * v == pytest.approx(PHI * math.sqrt(v - beta * v**2), abs=1e-9)
        assert (twin.W[y] - twin.W[r]) @ x == pytest.approx(m + alpha * v, abs=1e-9)
        assert (twin.variance[y] + twin.variance[r]) @ x**2 >= v - beta * v**2 - 1e-12
    assert seen > 50


def test_limits_of_the_pair_methods():
    """SCW-I with a huge C is CW; AROW with a huge r does nearly nothing."""
    cw, scw, arow = (
        naive.CW(K, d, eta=0.9),
        naive.SCW(K, d, eta=0.9, C=1e300),
        naive.AROW(K, d, r=1e12),
    )
    for _, x, y, *_ in stream(cw, 150):
        scw.learn(x, y)
        arow.learn(x, y)
    assert same({"W": cw.W, "v": cw.variance}, {"W": scw.W, "v": scw.variance})
    assert np.max(np.abs(arow.W)) < 1e-8
    assert np.min(arow.variance) > 1 - 1e-8


# ------------------------------------------------------------------------------ regression


@pytest.mark.parametrize("name", ["SquareCB", "FastCB"])
def test_inverse_gap_weighting(name):
    """FR20, FK21: P(i) as printed, so its predicted regret is below K l_b / gamma (l_b = 1)."""
    twin = trained(name)
    rng = np.random.default_rng(2)
    for t in range(50):
        x = rng.normal(size=d)
        g, p = twin.scores(x), twin.propensities(x, t)
        gamma, b = 10 * (t + 1) ** 0.5, int(np.argmax(g))
        regret = p @ (g[b] - g)
        least = 1.0 if name == "SquareCB" else max(1 - g[b], 1e-6)
        assert regret <= (K - 1) * least / gamma + 1e-12
        for i in range(K):
            if i != b:
                assert 1 / p[i] == pytest.approx(K + gamma * (g[b] - g[i]) / least, rel=1e-9)
        assert p[b] >= 1 / K - 1e-12


def test_fastcb_survives_saturated_predictions():
    twin = naive.FastCB(3, 1, scale=1000.0, lr=0.3)
    for w in ([50.0, 40.0, 0.0], [14.5, 14.0, 14.2], [900.0, 900.0, -900.0]):
        twin.W[:, 0] = w
        p = twin.propensities(np.ones(1), 10**6)
        assert np.all(p >= 0)
        assert np.sum(p) == pytest.approx(1, abs=1e-12)


def test_regressor_steps():
    """AdaGrad on the log loss or half the squared loss, whose slope in u is g - f or u - f."""
    for name in ("SquareCB", "SquareCB squared", "EpsilonGreedy"):
        twin = BANDIT[name]()
        for before, x, _, choice, right, changed in stream(twin, 60):
            assert changed
            a = choice.label

            def loss(w, f=float(right), x=x, kind=twin.loss):
                u = w @ x
                return np.logaddexp(0, u) - f * u if kind == "logistic" else (u - f) ** 2 / 2

            q = numeric_gradient(loss, before.W[a])
            S = before.S[a] + q**2
            assert twin.S[a] == pytest.approx(S, abs=1e-6)
            sure = (x == 0) | (np.abs(q) > 1e-2)  # elsewhere q / sqrt(S) magnifies the noise
            step = 0.3 * q / np.sqrt(S)
            assert twin.W[a][sure] == pytest.approx((before.W[a] - step)[sure], abs=1e-5)
            others = np.arange(K) != a
            assert np.array_equal(twin.W[others], before.W[others])
