"""The papers' bounds: their values, their shape, and that what is measured stays below them."""

import itertools
import math

import numpy as np
import pytest
from scipy import sparse

import onebit as ob
from onebit.core.jit import COMPILED
from onebit.lab import bounds

# Values, evaluated by hand


def test_perceptron_by_hand():
    assert bounds.perceptron(10, norm=3) == 18
    assert bounds.perceptron(10, norm=math.sqrt(2), loss=9) == pytest.approx(9 + 4 + 6)


def test_banditron_by_hand():
    more = {"labels": 4, "gamma": 0.25, "norm": math.sqrt(2)}  # D = 4, K D / gamma = 64
    assert bounds.banditron(10_000, **more) == pytest.approx(2500 + 3 * 100)
    assert bounds.banditron(100, **more) == pytest.approx(25 + 3 * 64)
    assert bounds.banditron(10_000, loss=64, **more) == pytest.approx(64 + 2500 + 300 + 64)


def test_rcnbf_by_hand():
    more = {"labels": 2, "gamma": 0.5, "norm": 1, "rho0": 0.25, "rho1": 0.25}  # A1 = 27, A2 = 9
    assert bounds.rcnbf(900, **more) == pytest.approx(450 + 3 * 90)
    assert bounds.rcnbf(900, loss=3, **more) == pytest.approx(3 + 9 + 450 + 3 * 90)
    assert bounds.rcnbf(9, **more) == pytest.approx(4.5 + 3 * 27)


def test_confidit_by_hand():
    # B1 = 1.25, B2 = 18 ln 24 = 57.205, B3 = 2 ln 2 = 1.38629
    more = {"labels": 2, "features": 1, "norm": 0, "alpha": 1, "delta": 0.5}
    assert bounds.confidit(8, **more) == pytest.approx(65.0894, rel=1e-5)
    assert bounds.confidit(8, margin=0.5, **more) == pytest.approx(1624.50, rel=1e-5)
    # alpha = 0: B1 = 2, B2 = 9 + 18 ln 24, B3 = 2 ln 5 = 3.21888
    more |= {"norm": 3, "alpha": 0}
    assert bounds.confidit(8, **more) == pytest.approx(
        8 * (math.sqrt(66.2050 * 3.21888) + 3.21888), rel=1e-5
    )


def test_newtron_by_hand():
    more = {"labels": 2, "norm": 1, "alpha": 1, "gamma": 0.5}
    delta, eta = math.exp(-2) / 2, 0.5 * math.log(2) / 20
    beta = delta / 10 + eta  # 0.0240954, below 1/4
    assert bounds.newtron_beta(**more) == pytest.approx(beta)
    expected = 0.5 + 2 / (0.25 * beta) * math.log(1 + 100 * beta / 0.5) + 100 * math.log(2)
    assert bounds.newtron(100, features=1, **more) == pytest.approx(expected)
    assert bounds.newtron_beta(labels=2, norm=4, radius=0.5, alpha=1e-9, gamma=0.5) == 1 / 8
    # Without exploration beta is delta / 10, and nu is delta / 2.
    size, beta, nu = 2, delta / 10, delta / 2
    expected = 0.5 + size / (nu * beta) * math.log(1 + 100 * beta / (size * nu))
    assert bounds.newtron(100, features=1, **{**more, "gamma": 0}) == pytest.approx(expected)


def test_newtron_order_by_hand():
    more = {"labels": 2, "features": 5, "alpha": 1.0}  # c = 40
    steep = bounds.newtron_order(math.e, norm=0.25, **more)
    assert steep == pytest.approx(min(40 * math.e, 60 * math.e ** (2 / 3)))
    flat = bounds.newtron_order(1000, norm=500, radius=2, **more)
    assert flat == pytest.approx(6 * 40 * 1000 * 100)


def test_halving_by_hand():
    assert bounds.halving(labels=3, hypotheses=math.exp(2)) == pytest.approx(6)
    assert bounds.halving_linear(labels=2, features=4, norm=1) == pytest.approx(16 * math.log(6))
    order = bounds.halving_projected_order(8, labels=2, norm=math.sqrt(math.e / 2), delta=0.5)
    assert order == pytest.approx(4 * math.e * math.log(20) * (1 + math.log(math.log(20))))


# Shape


def test_numbers_give_numbers_and_arrays_arrays():
    rounds, loss = np.array([1, 10, 100]), np.array([0.0, 1.5, 20])
    more = {"labels": 3, "gamma": 0.1, "norm": 2}
    many = bounds.banditron(rounds, loss=loss, **more)
    assert many.tolist() == [
        bounds.banditron(int(t), loss=float(one), **more)
        for t, one in zip(rounds, loss, strict=True)
    ]
    assert isinstance(bounds.banditron(10, **more), float)
    assert bounds.confidit(rounds, labels=3, features=4, norm=1).shape == (3,)
    assert bounds.newtron(rounds, features=4, **more).shape == (3,)
    assert bounds.perceptron([1, 2], norm=1, loss=[0, 1]).shape == (2,)


MISTAKES = {
    "banditron": (bounds.banditron, {}),
    "rcnbf": (bounds.rcnbf, {"rho0": 0.1, "rho1": 0.2}),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_bounds_grow_with_what_makes_it_harder(name):
    bound, noise = MISTAKES[name]
    easy = {"rounds": 1000, "labels": 3, "gamma": 0.1, "norm": 2, "loss": 5, **noise}
    harder = {"rounds": 1001, "labels": 4, "norm": 2.1, "loss": 6} | {
        key: 1.1 * value for key, value in noise.items()
    }
    for key, value in harder.items():
        assert bound(**{**easy, key: value}) > bound(**easy), key


def test_regret_bounds_grow_with_what_makes_it_harder():
    easy = {"rounds": 1000, "labels": 3, "features": 5, "norm": 2}
    for key, value in {"rounds": 1001, "labels": 4, "features": 6, "norm": 2.1}.items():
        hard = {**easy, key: value}
        assert bounds.confidit(**hard) > bounds.confidit(**easy), key
        assert bounds.confidit(margin=0.1, **hard) > bounds.confidit(margin=0.1, **easy), key
        assert bounds.newtron(gamma=0.1, **hard) > bounds.newtron(gamma=0.1, **easy), key
    assert bounds.confidit(delta=0.01, **easy) > bounds.confidit(**easy)
    assert bounds.confidit(margin=0.1, **easy) > bounds.confidit(margin=0.2, **easy)


def test_without_flips_rcnbf_is_banditron():
    more = {"labels": 5, "gamma": 0.2, "norm": 3.3, "loss": 17}
    for rounds in (10, 100_000):
        assert bounds.rcnbf(rounds, rho0=0, rho1=0, **more) == pytest.approx(
            bounds.banditron(rounds, **more), rel=1e-12
        )


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize("loss", [0, 300])
@pytest.mark.parametrize("rounds", [100, 10_000, 10**8])
def test_the_best_gamma_is_best(name, loss, rounds):
    bound, noise = MISTAKES[name]
    more = {"labels": 4, "norm": 1.5, "loss": loss, **noise}
    best = getattr(bounds, f"{name}_gamma")(rounds, **more)
    least = bound(rounds, gamma=best, **more)
    assert all(
        least <= bound(rounds, gamma=gamma, **more) * (1 + 1e-9)
        for gamma in np.geomspace(1e-7, 0.5, 400)
    )


def test_the_best_gamma_without_loss_has_a_closed_form():
    for rounds in (50, 5_000, 10**7):
        K, D = 4, 4.5
        expected = min(math.sqrt(3 * K * D / rounds), (K**2 * D / rounds) ** (1 / 3), 0.5)
        found = bounds.banditron_gamma(rounds, labels=K, norm=1.5)
        assert found == pytest.approx(expected, rel=1e-4)


def slope(function, low=10**12, high=10**15):
    """The power of T that a function of T grows with."""
    return math.log(function(high) / function(low)) / math.log(high / low)


@pytest.mark.parametrize(("rho", "power"), [((0, 0), 1 / 2), ((0.2, 0.1), 2 / 3)])
def test_rcnbf_has_the_rates_of_its_corollaries(rho, power):
    more = {"labels": 3, "norm": 2, "rho0": rho[0], "rho1": rho[1]}

    def least(rounds):
        return bounds.rcnbf(rounds, gamma=bounds.rcnbf_gamma(rounds, **more), **more)

    assert slope(least) == pytest.approx(power, abs=0.01)
    assert slope(lambda T: bounds.rcnbf_gamma(T, **more)) == pytest.approx(power - 1, abs=0.01)


def test_newtron_has_the_rates_of_its_corollary():
    def least(rounds, alpha):
        more = {"labels": 3, "features": 4, "norm": 1, "alpha": alpha}
        return bounds.newtron(rounds, gamma=bounds.newtron_gamma(rounds, **more), **more)

    assert slope(lambda T: least(T, 0.5)) < 0.05  # logarithmic for a fixed alpha
    assert slope(lambda T: least(T, 1000.0)) == pytest.approx(2 / 3, abs=0.03)
    assert bounds.newtron(10, labels=3, features=4, norm=1, gamma=0, alpha=1000.0) == math.inf


# Comparators


def test_margins_and_losses_of_a_comparator():
    W = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    X, y = np.array([[3.0, 1.0], [0.0, 0.5], [0.0, 4.0]]), np.array([0, 1, 2])
    assert bounds.margins(W, X, y).tolist() == [2, 0.5, -4]
    known = bounds.comparator(W, X, y)
    assert known.loss.tolist() == [0, 0.5, 5.5]
    # Less the mean row: squares sum to 2 - 3 (1/9 + 1/9) = 4/3; the longest row has length 4.
    assert known.norm == pytest.approx(4 * math.sqrt(4 / 3))
    thin = bounds.comparator(W, sparse.csr_matrix(X.astype(np.float32)), y)
    assert thin.norm == pytest.approx(known.norm) and thin.loss.tolist() == known.loss.tolist()
    assert bounds.comparator(W.tolist(), X.tolist(), y.tolist()).norm == known.norm


def test_one_scale_of_rows_and_weights_changes_nothing():
    rng = np.random.default_rng(0)
    W, X, y = rng.normal(size=(3, 5)), rng.normal(size=(20, 5)), rng.integers(3, size=20)
    one, other = bounds.comparator(W, X, y), bounds.comparator(W / 7, 7 * X, y)
    assert other.norm == pytest.approx(one.norm)
    np.testing.assert_allclose(other.loss, one.loss)
    shifted = bounds.comparator(W + rng.normal(size=5), X, y)
    assert shifted.norm == pytest.approx(one.norm)


@pytest.mark.parametrize("seed", range(3))
def test_key_words_separate_synsep_by_one(seed):
    data = ob.datasets.synsep(600, seed=seed)
    assert bounds.margins(data.comparator, data.X, data.y).min() == pytest.approx(1)
    noisy = ob.datasets.synnonsep(600, seed=seed)
    assert (noisy.comparator == data.comparator).all()
    lost = bounds.comparator(noisy.comparator, noisy.X, noisy.y).loss[-1]
    assert lost > 2 * (noisy.y != data.y).sum()
    assert ob.datasets.prepare(data, ["unit_norm"]).comparator is None
    assert ob.datasets.iris().comparator is None


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: bounds.banditron(0, labels=3, gamma=0.1, norm=1), "rounds must be at least 1"),
        (lambda: bounds.banditron([1, np.nan], labels=3, gamma=0.1, norm=1), "rounds must be"),
        (lambda: bounds.banditron(5, labels=3, gamma=0.6, norm=1), "gamma must be .*at most 0.5"),
        (lambda: bounds.banditron(5, labels=1, gamma=0.1, norm=1), "labels must be between 2"),
        (lambda: bounds.banditron(5, labels=2, gamma=0.1, norm=-1), "norm must be at least 0"),
        (lambda: bounds.banditron("5", labels=2, gamma=0.1, norm=1), "rounds must be a number or"),
        (lambda: bounds.perceptron([1, 2], norm=1, loss=[1]), r"known.loss\[rounds - 1\]"),
        (lambda: bounds.perceptron(5, norm=1, loss=-1), "loss must be at least 0"),
        (
            lambda: bounds.rcnbf(5, labels=2, gamma=0.1, norm=1, rho0=0.5, rho1=0.5),
            "rho0 . rho1 must be below 1",
        ),
        (lambda: bounds.halving_linear(labels=2, features=2, norm=0.5), "norm must be at least"),
        (lambda: bounds.confidit(5, labels=2, features=2, norm=1, alpha=-0.5), "alpha must be"),
        (lambda: bounds.margins([[1, 2]], [[1, 2]], [0]), "two labels or more"),
        (lambda: bounds.margins(np.eye(2), np.ones((3, 1)), [0] * 3), r"\(3, 1\).*do not fit"),
        (lambda: bounds.margins(np.eye(2), np.ones((3, 2)), [0, 1]), "do not fit"),
        (lambda: bounds.margins(np.eye(2), np.ones((1, 2)), [2]), "from 0 to 1"),
        (lambda: bounds.margins(np.eye(2), [[1, math.inf]], [1]), "X must hold finite"),
    ],
)
def test_wrong_arguments_are_named(call, says):
    with pytest.raises((ValueError, TypeError), match=says):
        call()


# Measured mistakes, on data that meet the assumptions

ROUNDS, GAMMA, K = 4000, 0.3, 3


def easy_data(seed, false=0.0):
    """Rows of length 1 that a comparator with |W|^2 = 2.5 separates by 1; some labels false."""
    rng = np.random.default_rng(seed)
    y = rng.integers(K, size=ROUNDS)
    rest = rng.normal(size=(ROUNDS, 5))
    rest *= math.sqrt(0.2) / np.linalg.norm(rest, axis=1, keepdims=True)
    X = np.hstack([math.sqrt(0.8) * np.eye(K)[y], rest])
    W = np.hstack([np.eye(K) / math.sqrt(0.8), np.zeros((K, 5))])
    flipped = rng.random(ROUNDS) < false
    y = np.where(flipped, (y + rng.integers(1, K, size=ROUNDS)) % K, y)
    return X.astype(np.float32), y, W


def measured(learner, X, y, repeats=6, **more):
    """Mean mistakes over repeats at each check point."""
    runs = [ob.simulate(learner(seed), X, y, **more) for seed in range(repeats)]
    return runs[0].rounds, np.mean([run.mistakes for run in runs], axis=0)


def banditron_bound(W, X, y, rounds, gamma=GAMMA):
    known = bounds.comparator(W, X, y)
    return bounds.banditron(
        rounds, labels=len(W), gamma=gamma, norm=known.norm, loss=known.loss[rounds - 1]
    )


@pytest.mark.parametrize("false", [0.0, 0.05])
def test_banditron_stays_below_its_bound(false):
    X, y, W = easy_data(1, false)
    assert bounds.comparator(W, X, y).norm == pytest.approx(math.sqrt(2.5))
    rounds, mistakes = measured(lambda seed: ob.Banditron(K, gamma=GAMMA, seed=seed), X, y)
    bound = banditron_bound(W, X, y, rounds)
    # Above the number of rounds a bound is vacuous; here it is not, from 500 rounds on.
    says = bound < 0.8 * rounds
    assert says.sum() >= 3 and bound[-1] < 0.65 * ROUNDS
    assert (mistakes <= np.minimum(bound, rounds)).all()
    rcnbf = {"labels": K, "gamma": GAMMA, "norm": math.sqrt(2.5), "rho0": 0, "rho1": 0}
    loss = bounds.comparator(W, X, y).loss[rounds - 1]
    assert (mistakes <= bounds.rcnbf(rounds, loss=loss, **rcnbf)).all()


def test_learners_that_do_not_learn_break_banditrons_bound():
    """The check above can fail: no learning, feedback that says nothing, too much exploration."""
    X, y, W = easy_data(1)
    broken = [
        (lambda seed: ob.UniformRandom(K, seed=seed), {}),
        (lambda seed: ob.Banditron(K, gamma=GAMMA, seed=seed), {"channel": [ob.Flip(0.5, 0.5)]}),
        (lambda seed: ob.Banditron(K, gamma=2 * GAMMA, seed=seed), {}),
    ]
    for learner, more in broken:
        rounds, mistakes = measured(learner, X, y, repeats=2, **more)
        assert mistakes[-1] > banditron_bound(W, X, y, rounds)[-1]


def test_the_perceptron_stays_below_its_bound():
    X, y, W = easy_data(2)
    known = bounds.comparator(W, X, y)
    bound = bounds.perceptron(ROUNDS, norm=known.norm, loss=0)
    run = ob.simulate(ob.Perceptron(K), X, y)
    assert 2 <= run.mistakes[-1] <= bound == pytest.approx(5)


@pytest.mark.compiled
@pytest.mark.skipif(not COMPILED, reason="100,000 rounds take long without a compiler")
def test_banditron_stays_below_its_bound_on_synsep():
    gamma, rounds = 0.2, 100_000
    data = ob.datasets.synsep(rounds, seed=1)
    runs = [ob.simulate(ob.Banditron(9, gamma=gamma, seed=seed), data) for seed in range(3)]
    points = runs[0].rounds
    bound = banditron_bound(data.comparator, data.X, data.y, points, gamma)
    mistakes = np.mean([run.mistakes for run in runs], axis=0)
    assert bound[-1] < 0.4 * rounds and (mistakes <= np.minimum(bound, points)).all()
    assert bound[-1] < ob.simulate(ob.UniformRandom(9), data).mistakes[-1]


def test_halving_stays_below_its_bound():
    """Plurality of all maps from 4 contexts to 3 labels, without those that a bit rules out."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        hypotheses = np.array(list(itertools.product(range(K), repeat=4)))
        bound = bounds.halving(labels=K, hypotheses=len(hypotheses))
        truth, mistakes = hypotheses[rng.integers(len(hypotheses))], 0
        for x in rng.integers(4, size=200):
            said = np.bincount(hypotheses[:, x], minlength=K).argmax()
            if said != truth[x]:
                mistakes += 1
                hypotheses = hypotheses[hypotheses[:, x] != said]
        assert mistakes <= bound < 14


def test_the_nearest_point_of_halvings_grid_still_separates():
    rng = np.random.default_rng(4)
    for d in (1, 2, 7):
        for _ in range(50):
            X = rng.normal(size=(5, d))
            X /= np.linalg.norm(X, axis=1, keepdims=True)
            W = rng.normal(size=(2, d))
            y = (X @ W.T).argmax(axis=1)
            W /= bounds.margins(W, X, y).min()
            norm = np.linalg.norm(W)
            values = round(math.exp(bounds.halving_linear(labels=2, features=d, norm=norm) / 4 / d))
            grid = np.linspace(-norm, norm, values)
            near = grid[np.abs(W[..., None] - grid).argmin(axis=-1)]
            assert bounds.margins(near, X, y).min() > 0


# The steps of proofs that are not in the papers


@pytest.mark.parametrize("rho", [(0.0, 0.0), (0.15, 0.15), (0.4, 0.4), (0.0, 0.7), (0.6, 0.1)])
@pytest.mark.parametrize("gamma", [0.02, 0.5])
@pytest.mark.parametrize("labels", [2, 6])
def test_updates_of_rcnbf_are_no_larger_than_its_bound_takes_them_for(labels, gamma, rho):
    """The mean squared update, over all labels said and bits heard."""
    rho0, rho1 = rho
    b = 1 - rho0 - rho1
    allowed = bounds._noisy_moments(labels, gamma, rho0, rho1)
    for true, most in ((1, allowed.wrong), (0, allowed.right)):  # the greedy label is 0
        mean = 0.0
        for said, bit in itertools.product(range(labels), (0, 1)):
            chance = gamma / labels + (1 - gamma) * (said == 0)
            heard = (1 - rho1 if bit else rho1) if said == true else (rho0 if bit else 1 - rho0)
            update = np.zeros(labels)
            update[said] += ((1 - rho0) if bit else -rho0) / b / chance
            update[0] -= 1
            mean += chance * heard * update @ update
        assert mean <= most
    plain = bounds._noisy_moments(labels, gamma, 0, 0)
    assert plain == pytest.approx((2 * labels / gamma, 2 * gamma))


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_widths_of_confidit_sum_to_no_more_than_its_bound(alpha):
    """A round costs twice the width of the said label at most: these widths, on any rows."""
    labels, d, delta, T, margin = 3, 4, 0.05, 400, 0.3
    rng = np.random.default_rng(5)
    inverse = np.array([np.eye(d) / (1 + alpha) ** 2] * labels)
    norm, seen, cost, squared = 2.0, 0.0, 0.0, 0.0
    for t in range(1, T + 1):
        x = rng.normal(size=d)
        x /= np.linalg.norm(x)
        v = np.einsum("i,kij,j->k", x, inverse, x)
        rest = norm**2 / 2 + seen / 2 + 9 * math.log((t + 4) / delta)
        said = v.argmax()  # the widest: no choice costs more
        width = math.sqrt(2 * v[said] * (1 + alpha) ** 2 * rest)
        cost += 2 * width / (1 + alpha)
        squared += (2 * width) ** 2 / (margin * (1 + alpha))
        step = inverse[said] @ x
        inverse[said] -= np.outer(step, step) / (1 + v[said])
        seen += v[said] / (1 + v[said])
    more = {"labels": labels, "features": d, "norm": norm, "alpha": alpha, "delta": delta}
    assert 0.4 < cost / bounds.confidit(T, **more) <= 1
    assert 0.4 < squared / bounds.confidit(T, margin=margin, **more) <= 1


@pytest.mark.parametrize(("alpha", "gamma"), [(0.5, 0.0), (2.0, 0.3)])
def test_newtron_stays_below_its_bound(alpha, gamma):
    """Exact Newtron with the beta of the theorem: its quadratic costs, and its log-loss."""
    labels, d, T, D = 2, 2, 300, 1.0
    rng = np.random.default_rng(6)
    y = rng.integers(labels, size=T)
    X = rng.normal(size=(T, d)) + 2 * np.eye(d)[y]
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    more = {"labels": labels, "norm": D, "gamma": gamma, "alpha": alpha}
    beta = bounds.newtron_beta(**more)
    A, b = np.eye(labels * d) / D, np.zeros(labels * d)
    W, gradients, at, curves, lost = np.zeros(labels * d), [], [], [], 0.0

    def loss(W, x, label):
        scores = alpha * W.reshape(labels, d) @ x
        return (np.log(np.exp(scores).sum()) - scores[label]) / alpha

    for x, label in zip(X, y, strict=True):
        p = np.exp(alpha * W.reshape(labels, d) @ x)
        p /= p.sum()
        law = (1 - gamma) * p + gamma / labels
        lost += (1 - gamma) * loss(W, x, label) + gamma * math.log(labels) / alpha
        said = rng.choice(labels, p=law)
        right = said == label
        size = -(1 - p[said]) / law[said] if right else p[said] / law[said]
        g = np.outer(size * (np.eye(labels)[said] - 1 / labels), x).ravel()
        curve = beta * (law[said] if right else 1.0)
        gradients.append(g), at.append(g @ W), curves.append(curve)
        A += curve * np.outer(g, g)
        b += (1 - curve * (g @ W)) * g
        W = least_on_ball(A, b, D)

    g, at, curves = np.array(gradients), np.array(at), np.array(curves)
    bound = bounds.newtron(T, features=d, **more)
    inner = bound - 2 * gamma * math.log(labels) / alpha * T
    for other in [W, *(least_on_ball(np.eye(len(W)), b, D) for b in rng.normal(size=(50, len(W))))]:
        gap = g @ other - at
        assert -(gap + curves / 2 * gap**2).sum() <= inner  # the costs of its own weights are 0
        assert lost - sum(loss(other, x, label) for x, label in zip(X, y, strict=True)) <= bound


def least_on_ball(A, b, radius):
    """argmin w.A w / 2 + b.w over |w| <= radius, by bisection of the multiplier."""
    values, vectors = np.linalg.eigh(A)
    turned = vectors.T @ b
    low, high = 0.0, np.linalg.norm(b) / radius
    if np.linalg.norm(turned / values) <= radius:
        return -vectors @ (turned / values)
    for _ in range(60):
        middle = (low + high) / 2
        longer = np.linalg.norm(turned / (values + middle)) > radius
        low, high = (middle, high) if longer else (low, middle)
    return -vectors @ (turned / (values + high))


def test_the_best_gamma_is_of_one_number_of_rounds():
    with pytest.raises(TypeError, match="rounds must be a number"):
        bounds.banditron_gamma([10, 100], labels=3, norm=1.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="rounds must be a number"):
        bounds.rcnbf_gamma([10], labels=3, norm=1.0, rho0=0.1, rho1=0.1)  # type: ignore[arg-type]
