"""Exact Newtron and full SOBA: against their dense twins, and against what defines them."""

import numpy as np
import pytest
from helpers import naive
from helpers.naive import Choice, FullSOBA, Newtron
from helpers.streams import draws, feed, stream
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from test_algorithms import force, play

import onebit as ob
from onebit.algorithms.newtron import solver as _ball
from onebit.core.jit import COMPILED
from onebit.core.lanes import State8
from onebit.learner.files import restore
from onebit.storage import full as _full
from onebit.testing import saved_state

# Compiled, the law that compiled and plain runs are equal stands for these, but in `--all`.
pytestmark = [pytest.mark.exhaustive] if COMPILED else []
ROUNDS = 150 if COMPILED else 60
HARD = {"D": 100.0, "beta": 1.0, "gamma": 0.2, "alpha": 1.0}


def leading(learner):
    """W, A, b of a learner, A laid out."""
    S, r = learner.table.arrays()["S"], learner.table.plane(1).astype(np.float64)
    K, d = r.shape
    P = np.kron(np.eye(K) - 1 / K, np.eye(d))
    blocks = np.zeros((K, d, K, d))
    blocks[range(K), :, range(K)] = S
    A = np.eye(K * d) * learner.settings["reg"] + P @ blocks.reshape(K * d, K * d) @ P
    return learner.weights.astype(np.float64), A, (r - r.mean(axis=0)).ravel()


def assert_leader(learner, rtol=1e-9):
    """W is the least of W'AW/2 + b.W in the ball: the conditions of Karush, Kuhn and Tucker."""
    W, A, b = leading(learner)
    D, w = learner.settings["D"], W.ravel()
    norm = np.linalg.norm(w)
    assert norm <= D * (1 + 1e-9)
    assert np.abs(W.sum(axis=0)).max() <= 1e-12 * max(norm, 1e-300)
    slope = A @ w + b  # = -mu w
    mu = -(slope @ w) / max(w @ w, 1e-300)
    if norm < D * (1 - 1e-9):
        assert_allclose(slope, 0, atol=rtol * np.linalg.norm(b))
    else:
        assert mu >= 0
        assert_allclose(slope + mu * w, 0, atol=rtol * np.linalg.norm(b))


def both(learner, twin, X, y):
    """Round after round. Labels not said yet score the same, in the twin but for rounding."""
    for t, x in enumerate(X):
        said, twins = learner.decide(x), twin.decide(x, t, draws(learner.seed, t))
        assert said.label == twins.label
        assert twin.scores(x)[said.greedy_place] >= twin.scores(x).max() - 1e-9
        assert said.propensity == pytest.approx(twins.propensity, rel=1e-7)
        feed(learner, said, y[t])
        if np.any(x):
            twin.learn(x, twins, twins.label == y[t], t, draws(learner.seed, t))
            yield t


CASES = [
    (3, 5, {}),
    pytest.param(9, 10, {"D": 10.0, "beta": 0.1}, marks=pytest.mark.thorough),
    (3, 7, {"D": 0.3, "beta": 1.0, "gamma": 0.1}),
    (5, 12, HARD),
    pytest.param(4, 6, {"D": 2.0, "beta": 0.2, "reg": 0.05}, marks=pytest.mark.thorough),
]


@pytest.mark.parametrize(("K", "d", "settings"), CASES)
def test_newtron_is_its_dense_twin(K, d, settings):
    X, y = stream(K, d, ROUNDS, seed=1)
    twin = Newtron(K, d, **settings)
    learner = ob.Newtron(K, features=d, seed=1, **settings)
    active = 0
    for _ in both(learner, twin, X, y):
        assert_allclose(learner.weights, twin.W, atol=1e-8 * np.abs(twin.W).max())
        assert_leader(learner)
        active += twin.mu > 0
    assert active == 0 if settings == HARD else active > ROUNDS / 2


@pytest.mark.parametrize("wanted", [0.0, 1e-3, 1e6])
def test_whichever_way_the_leader_is_found_it_is_the_leader(wanted):
    """By inverses for a shift that suits, or for one that does not and has to be moved."""
    learner = ob.Newtron(6, features=30, D=100.0, beta=0.3, gamma=0.1)
    ob.simulate(learner, *stream(6, 30, 200 if COMPILED else 80, noise=0.0))
    more, lam = learner.table.state.held, 0.01
    here = slice(30)
    more.M[:, here, here] = np.linalg.inv(more.S[:, here, here] + (lam + wanted) * np.eye(30))
    more.Q[0, here, here] = np.linalg.inv(more.M[:, here, here].sum(axis=0))
    more.plan[:] = wanted, _ball.STAY
    other = learner.copy()
    other.table.state.held.plan[:] = _ball.NONE, 0.0
    x = np.linspace(-1, 1, 30)
    for one in (learner, other):
        feed(one, one.decide(x), 2)
        assert_leader(one)
        assert_inverses(one)
    assert_allclose(learner.weights, other.weights, atol=1e-8 * np.abs(other.weights).max())
    assert learner.table.state.held.plan[0] < 1e6  # a shift so far off was given up
    assert other.table.state.held.plan[0] != _ball.NONE  # the direct way took too many steps


def assert_inverses(learner, atol=1e-8):
    kept = learner.table.arrays()
    unit = np.eye(kept["S"].shape[1])
    shifted = kept["S"] + (1 / learner.settings["D"] + kept["plan"][0]) * unit
    off = np.abs(kept["M"] @ shifted - unit).max()
    joint = np.abs(kept["Q"][0] @ kept["M"].sum(axis=0) - unit).max()
    assert max(off, joint) < atol
    return max(off, joint)


@pytest.mark.parametrize(
    ("rounds", "atol", "rtol"),
    [(300, 1e-9, 3e-10), pytest.param(100_000, 1e-6, 3e-8, marks=pytest.mark.slow)],
)
def test_inverses_stay_inverses(rounds, atol, rtol):
    """A hundred times what was measured: 1e-11 and 2e-8, and of the weights 3e-12 and 3e-10."""
    learner = ob.Newtron(4, features=8, **HARD)
    data = stream(4, 8, rounds if COMPILED else 100)
    ob.simulate(learner, *data)
    assert learner.table.state.held.plan[0] == 0
    assert_inverses(learner, atol)
    kept, r = learner.table.arrays(), learner.table.plane(1)
    q = kept["Q"][0] @ np.einsum("kij,kj->i", kept["M"], r)
    free = np.einsum("kij,kj->ki", kept["M"], q - r)  # what the ball does not hold back
    assert_allclose(learner.weights, free, atol=rtol * np.abs(free).max())


@pytest.mark.parametrize("among", [None, [0, 2, 3]])
@pytest.mark.parametrize("y", [0, 3])
def test_newtron_estimates_the_gradient_without_bias(y, among):
    """The mean over what might be said of g is (p - e_y) x', P being over all labels."""
    K, d, gamma = 5, 8, 0.2
    learner = ob.Newtron(K, gamma=gamma, alpha=3.0, beta=1e-13, D=5.0, features=d)
    ob.simulate(learner, *stream(K, d, 60))
    x, possible = np.linspace(-1, 2, d), among or range(K)
    law, said = learner.propensities(x, among=among), learner.decide(x, among=among)
    p, u = np.zeros(K), learner.scores(x[None])[0]
    p[possible] = (law[possible] - gamma / len(possible)) / (1 - gamma)
    mean = np.zeros((K, d))
    for a in possible:
        after = learner.copy()
        forced = force(said, a, propensity=law[a], note=p[a], other=u[a])
        after.learn(forced, right=a == y)
        mean += law[a] * (after.table.plane(1) - learner.table.plane(1))
    assert_allclose(mean - mean.mean(axis=0), np.outer(p - np.eye(K)[y], x), atol=1e-10)


def test_newtron_told_the_label_follows_the_gradient_of_a_label_said_for_certain():
    K, d, x = 5, 8, np.linspace(-1, 2, 8) / 4
    twin, learner = Newtron(K, d), ob.Newtron(K, features=d)
    assert list(both(learner, twin, *stream(K, d, 40, seed=1)))
    said = learner.decide(x)
    y = (said.place + 2) % K
    learner.learn(said, label=y)
    twin.follow(-(1 - twin.softmax(x)[y]) * np.outer(np.eye(K)[y] - 1 / K, x), 1.0)
    assert_allclose(learner.weights, twin.W, atol=1e-8)


@pytest.mark.parametrize("settings", [{}, HARD])
def test_newtron_leads_after_a_new_label_and_after_forgetting(settings):
    learner = ob.Newtron(3, features=6, **settings)
    X, y = stream(3, 6, 60)
    ob.simulate(learner, X, y)
    before = learner.weights
    learner.add_label()
    assert_array_equal(learner.weights, np.vstack([before, np.zeros(6)]))
    ob.simulate(learner, X[:30], y[:30])
    assert_leader(learner)
    S, r = learner.table.arrays()["S"], learner.table.plane(1)
    learner.forget(0.25)
    assert_allclose(learner.table.arrays()["S"], 0.75 * S)
    assert_allclose(learner.table.plane(1), 0.75 * r)
    assert_leader(learner)
    ob.simulate(learner, X, y)
    assert_leader(learner)


def test_newtron_grows_as_if_the_features_had_been_there():
    X, y = stream(4, 20, 60)
    X[:30, 9:] = 0
    whole, grown = ob.Newtron(4, features=20, **HARD), ob.Newtron(4, **HARD)
    ob.simulate(whole, X, y)
    ob.simulate(grown, csr_matrix(X[:30, :9]), y[:30])
    ob.simulate(grown, csr_matrix(X[30:]), y[30:])
    assert_array_equal(whole.table.weights(), grown.table.weights())
    for name, array in whole.table.arrays().items():
        assert_array_equal(array, grown.table.arrays()[name])


@pytest.mark.parametrize("make", [ob.Newtron, lambda K, **c: ob.SOBA(K, form="full", **c)])
def test_too_many_features_for_the_memory_are_refused_with_advice(make):
    with pytest.raises(MemoryError, match=r"PNewtron|diagonal"):
        make(9, features=3_000_000)
    learner = make(9)
    learner.learn(learner.decide([1.0, 2.0]), right=True)
    with pytest.raises(MemoryError, match="features="):
        learner.decide(([3_000_000], [1.0]))
    assert learner.decide([1.0, 2.0]).label in range(9)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda arrays: arrays.pop("plan"),
        lambda arrays: arrays.pop("M"),
        lambda arrays: arrays.update(plan=np.array([-0.5, 0.0])),
        lambda arrays: arrays.update(plan=np.array([np.nan, 0.0])),
        lambda arrays: arrays.update(Q=arrays["Q"][:, :-1]),
    ],
)
def test_a_damaged_newtron_is_refused(spoil):
    learner = ob.Newtron(3, features=4, **HARD)
    ob.simulate(learner, *stream(3, 4, 20))
    head, arrays = saved_state(learner)
    spoil(arrays)
    with pytest.raises(ValueError, match="this model"):
        restore(head, arrays)


@pytest.mark.skipif(COMPILED, reason="compiled, the loops are for the compiler alone")
def test_loops_are_what_numpy_does():
    """What is compiled, and what runs without a compiler, to the last bit."""
    rng = np.random.default_rng(1)
    eight = State8(np.zeros((1, 1, 8)), np.zeros(8))
    basis = rng.normal(size=(3, 120))
    space = _ball.Space(basis, None, eight, 3, 5)
    matrices = rng.normal(size=(3, 40, 40))
    matrices += matrices.transpose(0, 2, 1)
    v, w = basis[:2]

    def alike(one, two, out, *args):
        first, second = out.copy(), out.copy()
        one(*(first if arg is out else arg for arg in args))
        two(*(second if arg is out else arg for arg in args))
        assert_array_equal(first, second)
        return first

    assert _ball.dot(space, v, w) == _ball.dot_by_loop(space, v, w)
    assert _ball.dot(space, v, w) == pytest.approx(v @ w)
    out = np.zeros(120)
    for each in (True, False):
        args = (out, space, matrices, v, each, out)
        found = alike(_ball.times, _ball.times_by_loop, *args)
        parts = v.reshape(3, 40) if each else np.broadcast_to(v[:40], (3, 40))
        assert_allclose(found, np.einsum("kij,kj->ki", matrices, parts).ravel(), atol=1e-12)
    alike(_full.add_times, _full._add_times, out, out, 3, 100, 0.3, v)
    alike(_full.add_product, _full._add_product, out, out, 100, 0.3, 0.7, v)
    alike(_full.add_four, _full._add_four, out, out, 90, 0.1, v, 0.2, w, 0.3, v, 0.4, w)
    alike(_full.shrink_by, _full._shrink_by, matrices[0], matrices[0], v, 30, 0.3)
    other = space._replace(basis=basis.copy())
    _ball.scale(space, 1, 3.0)
    _ball.scale_by_loop(other, 1, 3.0)
    assert_array_equal(space.basis, other.basis)


# ----------------------------------------------------------------------------- Newtron, kernels


def W_and_length(learner):
    """The coefficients [label, slot], and |W| in the kernel's geometry."""
    kept = learner.table.arrays()
    x = kept["x"].T
    return kept["coef"].T, np.sqrt(
        max(
            np.einsum(
                "is,st,it->", kept["coef"].T, learner.table.storage.matrix(x, x), kept["coef"].T
            ),
            0,
        )
    )


def twice(stream, times=20):
    """Some contexts come again, some under another label."""
    X, y = stream
    X[-times:], y[-times:] = X[:times], y[:times]
    y[-times::3] = 0
    return X, y


@pytest.mark.parametrize(
    ("K", "d", "settings"),
    [
        *CASES,
        pytest.param(7, 20, {"D": 100.0, "beta": 0.3, "gamma": 0.1}, marks=pytest.mark.thorough),
        (4, 10, {}),
    ],
)
def test_a_linear_kernel_is_newtron_itself(K, d, settings):
    X, y = twice(stream(K, d, 100 if COMPILED else 80, seed=2))
    one = ob.Newtron(K, features=d, **settings)
    two = ob.Newtron(K, features=d, kernel="linear", budget=200, **settings)
    for x, label in zip(X, y, strict=True):
        want = one.scores([x])[0]
        assert_allclose(two.scores([x])[0], want, atol=1e-8 * max(np.abs(want).max(), 1))
        said, twins = one.decide(x), two.decide(x)
        assert said.label == twins.label
        feed(one, said, label)
        feed(two, twins, label)
        coef, length = W_and_length(two)
        assert length <= settings.get("D", 1.0) * (1 + 1e-8)
        assert_allclose(coef.sum(axis=0), 0, atol=1e-14 * np.abs(coef).max(initial=1))
    for learner in (one, two):
        learner.forget(0.3)
    assert_allclose(two.scores(X), one.scores(X), atol=1e-7 * np.abs(one.scores(X)).max())
    for learner in (one, two):
        learner.add_label()
        feed(learner, learner.decide(X[0], among=[1]), 1)
    assert_allclose(two.scores(X), one.scores(X), atol=1e-7 * np.abs(one.scores(X)).max())


def compare_kernels(X, y, budget, remove, D, **settings):
    K = 5
    twin = naive.KernelNewtron(K, naive.kernel("rbf", gamma=0.3), D, budget, remove, **settings)
    kept = {"kernel": "rbf(gamma=0.3)", "budget": budget, "remove": remove}
    learner = ob.Newtron(K, D=D, seed=1, **kept, **settings)
    some = X.any(axis=1)  # an empty row scores nothing, whatever the kernel
    X, y = X[some], y[some]
    for t in both(learner, twin, X, y):
        assert W_and_length(learner)[1] <= D * (1 + 1e-9)
        assert_allclose(learner.scores(X[t : t + 1])[0], twin.scores(X[t]), atol=1e-8 * max(1, D))
    return learner, twin


@pytest.mark.parametrize(
    ("D", "beta", "active"), [(1.0, 0.01, True), (10.0, 0.1, True), (100.0, 1.0, False)]
)
@pytest.mark.parametrize(("budget", "remove"), [(100, "oldest"), (9, "oldest"), (9, "smallest")])
def test_a_kernel_newtron_is_its_twin(budget, remove, D, beta, active):
    X, y = twice(stream(5, 6, 70, seed=1))
    settings = {"beta": beta, "gamma": 0.1, "alpha": 10.0 / D}
    learner, twin = compare_kernels(X, y, budget, remove, D, **settings)
    assert learner.weights.shape == (5, len(twin.stored)) and len(twin.stored) <= budget
    assert (twin.mu > 0) == active or budget == 9


@pytest.mark.parametrize("remove", ["oldest", "random", "smallest"])
def test_the_inverse_of_what_was_observed_does_not_drift(remove):
    D = 100.0
    learner = ob.Newtron(
        4, kernel="rbf(gamma=0.2)", budget=30, remove=remove, D=D, beta=1.0, gamma=0.2, alpha=0.3
    )
    X, y = stream(4, 6, 150)
    ob.simulate(learner, X, y, epochs=40 if COMPILED else 1)
    kept = learner.table.arrays()
    assert kept["plan"][0] != _ball.NONE
    used = np.flatnonzero(kept["weight"])
    said, x = kept["said"][used], kept["x"].T[used]
    Ga = ((said[:, None] == said) - 0.25) * learner.table.storage.matrix(x, x)
    assert_allclose(kept["Ga"][np.ix_(used, used)], Ga, atol=1e-12)
    G = np.linalg.inv(np.diag((1 / D + kept["plan"][0]) / kept["weight"][used]) + Ga)
    assert_allclose(kept["G"][np.ix_(used, used)], G, atol=1e-8 * np.abs(G).max())


@pytest.mark.thorough
def test_a_kernel_newtron_learns_what_lines_cannot():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(1000 if COMPILED else 250, 2))
    y = ((X[:, 0] > 0) != (X[:, 1] > 0)).astype(int)
    settings, half = {"D": 30.0, "gamma": 0.02, "alpha": 1.0, "beta": 0.1}, len(y) // 2
    errors = []
    for more in ({}, {"kernel": "rbf(gamma=5)", "budget": 200}):
        trace = ob.simulate(ob.Newtron(2, **settings, **more), X, y, checkpoints=[half])
        errors.append(np.diff(trace.mistakes)[-1] / half)
    assert errors[0] > 0.35 and errors[1] < 0.6 * errors[0], errors


def test_what_was_said_for_certain_and_was_right_is_not_stored():
    learner = ob.Newtron(3, kernel="rbf", budget=5)
    learner.learn(learner.decide([1.0, 2.0], among=[1]), right=True)
    assert learner.weights.shape == (3, 0)
    learner.learn(learner.decide([1.0, 2.0], among=[1]), right=False)
    learner.learn(learner.decide([1.0, 2.0], among=[1]), right=False)
    assert learner.weights.shape == (3, 1)
    learner.learn(learner.decide([1.0, 2.0], among=[2]), right=False)
    assert learner.weights.shape == (3, 2)


@pytest.mark.parametrize("budget", [10**6, 500_000])
def test_more_contexts_than_the_memory_holds_are_refused(budget):
    with pytest.raises(MemoryError, match="smaller budget="):
        ob.Newtron(3, kernel="rbf", budget=budget, features=4)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda arrays: arrays.pop("Ga"),
        lambda arrays: arrays.pop("G"),
        lambda arrays: arrays.pop("age"),
        lambda arrays: arrays.update(plan=np.array([-0.5, 0.0])),
        lambda arrays: arrays.update(said=arrays["said"] + 3),
        lambda arrays: arrays.update(said=arrays["said"].astype(np.float64)),
        lambda arrays: arrays.update(weight=arrays["weight"] * 0),
        lambda arrays: arrays.update(drive=arrays["drive"][:-1]),
    ],
)
def test_a_damaged_kernel_newtron_is_refused(spoil):
    learner = ob.Newtron(3, features=4, kernel="rbf", budget=10, **HARD)
    ob.simulate(learner, *stream(3, 4, 30))
    head, arrays = saved_state(learner)
    restore(head, arrays)
    spoil(arrays)
    with pytest.raises(ValueError, match="this model"):
        restore(head, arrays)


def test_each_round_costs_no_more_than_the_proof_allows():
    """With the leader V after a round: g.(W - V) <= g A^-1 g, and these sum up to a log-det."""
    K, d, beta = 3, 4, 0.3
    X, y = stream(K, d, 150, seed=2)
    learner = ob.Newtron(K, features=d, gamma=0.2, alpha=2.0, beta=beta, D=3.0, seed=3)
    total, kappas = 0.0, []
    for x, label in zip(X[1:], y[1:], strict=True):
        if not np.any(x):
            continue
        W, said = learner.weights, learner.decide(x)
        right = said.label == label
        c = -(1 - said.note) / said.propensity if right else said.note / said.propensity
        kappas.append(said.propensity if right else 1.0)
        g = np.outer(c * ((np.arange(K) == said.place) - 1 / K), x).ravel()
        learner.learn(said, right=right)
        A = leading(learner)[1]
        cost, most = g @ (W - learner.weights).ravel(), g @ np.linalg.solve(A, g)
        assert -1e-9 <= cost <= most + 1e-9
        total += most
    _, size = np.linalg.slogdet(A * 3.0)
    assert 0.3 * size / beta < total <= size / (min(kappas) * beta)


# ---------------------------------------------------------------------------------------- SOBA


@pytest.mark.parametrize(("K", "d"), [(3, 5), (5, 12)])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"gamma": 0.3, "a": 0.1},
        {"gamma": 1.0, "a": 10.0},
        {"gamma": 0.3, "rho0": 0.2, "rho1": 0.1},
    ],
)
def test_full_soba_is_its_dense_twin(K, d, settings):
    X, y = stream(K, d, ROUNDS, seed=3, noise=0.1)
    twin = FullSOBA(K, d, **settings)
    learner = ob.SOBA(K, form="full", features=d, seed=3, **settings)
    learned = 0
    for t in range(ROUNDS):
        before, said = learner.table.weights(), learner.decide(X[t])
        twins = twin.decide(X[t], t, draws(3, t))
        assert (said.label, said.greedy) == twins[:2]
        feed(learner, said, y[t])
        if np.any(X[t]):
            learned += twin.learn(X[t], twins, said.label == y[t], t, draws(3, t))
        if said.label != y[t] and not learner.settings["rho0"]:
            assert_array_equal(learner.table.weights(), before)
        assert learner.table.state.memory[0] >= 0
        assert learner.table.state.memory[0] == pytest.approx(twin.m_sum)
    assert learned > 0
    assert_allclose(learner.weights, twin.W, atol=1e-9 * np.abs(twin.W).max())
    inverse = learner.table.arrays()["matrix"].transpose(1, 0, 3, 2).reshape(K * d, K * d)
    assert_allclose(inverse @ twin.A, np.eye(K * d), atol=1e-9)
    assert_array_equal(inverse, inverse.T)


def test_full_soba_hears_late_with_the_weights_it_then_has():
    """W = A^-1 theta, whatever the scores were when the label was said."""
    K, d = 4, 6
    X, y = stream(K, d, 80, seed=2)
    learner = ob.SOBA(K, form="full", gamma=0.5, features=d)
    A, theta = np.eye(K * d), np.zeros(K * d)
    said = [learner.decide(x) for x in X]
    for t in reversed(range(80)):
        before = learner.table.weights()
        feed(learner, said[t], y[t])
        if np.any(learner.table.weights() != before):
            e = np.kron(np.eye(K)[int(said[t].note)] - np.eye(K)[said[t].place], X[t])
            A += np.outer(e, e) / said[t].propensity
            theta -= e / said[t].propensity
    assert np.any(theta)
    assert_allclose(learner.weights.ravel(), np.linalg.solve(A, theta), atol=1e-9)


def test_full_soba_told_the_label_learns_as_if_it_had_said_it_for_certain():
    K, d, x = 5, 8, np.linspace(-1, 2, 8)
    data = stream(K, d, 40, seed=1)
    twin, learner = FullSOBA(K, d), ob.SOBA(K, form="full", features=d)
    play(twin, data, 0)
    ob.simulate(learner, *data)
    said = learner.decide(x)
    y = (said.place + 2) % K
    learner.learn(said, label=y)
    assert twin.learn(x, Choice(y, said.greedy_place, 1.0), True, 40, draws(0, 40))
    assert_allclose(learner.weights, twin.W, atol=1e-10)


def test_full_soba_grows_as_if_features_and_labels_had_been_there():
    X, y = stream(3, 9, 60)
    X[:30, 4:] = 0
    whole, grown = (ob.SOBA(K, form="full", gamma=0.4) for K in (4, 3))
    for learner in (whole, grown):
        for t in range(60):
            if t == 30 and learner is grown:
                learner.add_label()
            context = csr_matrix(X[t : t + 1] if t >= 30 else X[t : t + 1, :4])
            feed(learner, learner.decide(context, among=range(3)), y[t])
    assert_array_equal(whole.table.weights(), grown.table.weights())
    assert_array_equal(whole.table.arrays()["matrix"], grown.table.arrays()["matrix"])


def test_full_soba_forgets_in_proportion():
    learner = ob.SOBA(3, form="full", a=0.5, gamma=0.4, features=5)
    ob.simulate(learner, *stream(3, 5, 80))

    def sums(learner):
        A = np.linalg.inv(learner.table.arrays()["matrix"].reshape(15, 15))
        return A - 0.5 * np.eye(15), A @ learner.table.weights()[:, 0].ravel()

    before, total = sums(learner), learner.table.state.memory[0]
    learner.forget(0.4)
    for kept, had in zip(sums(learner), before, strict=True):
        assert_allclose(kept, 0.6 * had, atol=1e-9)
    assert learner.table.state.memory[0] == pytest.approx(0.6 * total)
