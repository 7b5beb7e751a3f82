"""Every learner against its slow twin, against what the papers prove, and against itself.

The twins (naive.py) are written straight from the papers. They get the same draws, so labels,
propensities and weights must agree round by round. Where rounding could decide (which of two equal
scores is larger, whether a margin just met is met) the data are made so that it cannot, and each
round checks that they were.
"""

import math
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from helpers import naive
from helpers.streams import Data, draws, feed, stream
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import onebit as ob
from onebit.core import rounds
from onebit.core.jit import COMPILED
from onebit.learner.files import restore
from onebit.learner.learning import learn_bit
from onebit.testing import saved_state

# Settings: the defaults, each variant, and the extremes.
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "UniformRandom": [{}],
    "EpsilonGreedy": [
        {},
        {"epsilon": 0.0},
        {"epsilon": 1.0, "lr": 0.1},
    ],
    "Banditron": [{}, {"gamma": 1e-3}, {"gamma": 0.4}, {"gamma": 1.0}],
    "RCNBF": [{}, {"gamma": 1.0, "rho1": 0.9}, {"gamma": 0.3, "rho0": 0.2, "rho1": 0.4}],
    "PNormBandit": [
        {},
        {"p": 2.0, "gamma": 0.3},
        {"p": 2.5, "gamma": 0.3, "rho0": 0.2},
        {"p": 12.0, "gamma": 0.3},
    ],
    "EGBandit": [
        {},
        {"gamma": 0.3, "eta": 0.01},
        {"gamma": 1.0, "signed": True, "rho0": 0.1, "rho1": 0.3},
        {"gamma": 0.1, "eta": 1.0},
        {"gamma": 0.2, "eta": 0.5, "signed": True},
    ],
    "PNewtron": [
        {},
        {"gamma": 0.3, "alpha": 1.0, "D": 10.0},
        {"gamma": 0.1, "beta": 1.0, "D": 0.3},
        {"gamma": 0.3, "D": 3.0, "rho0": 0.2, "rho1": 0.1},
        {"gamma": 0.05, "alpha": 2.0, "reg": 0.05, "D": 3.0},
    ],
    "Confidit": [
        {},
        {"eta": 0.0},
        {"eta": 10.0, "reg": 0.1},
        {"alpha": 0.2, "eta": 0.3},
        {"alpha": -0.5, "reg": 2.0},
        {"eta": 0.5, "width": "log"},
        {"update": "coordinate"},
        {"update": "coordinate", "eta": 10.0, "reg": 0.1},
        {"update": "coordinate", "alpha": 0.2, "eta": 0.3, "width": "log"},
    ],
    "LinearThompson": [{}, {"c": 2.0, "reg": 0.1}],
    "UCWL": [
        {},
        {"eta": 0.95, "C": 0.03, "k": 0.2},
        {"eta": 0.51, "C": 100.0, "k": 3.0},
        {"eta": 0.9, "k": 0.0},
    ],
    "SOBA": [
        {},
        {"gamma": 0.3, "a": 0.1},
        {"gamma": 0.3, "rho0": 0.2, "rho1": 0.1},
        {"gamma": 1.0, "a": 10.0},
    ],
    "BPA": [
        {"gamma": 0.1},
        {"gamma": 0.0},
        {"gamma": 0.1, "variant": "PA-I", "C": 0.05},
        {"gamma": 0.3, "variant": "PA-II", "C": 0.05},
    ],
    "BanditPerceptron": [{}, {"use_correct": True}],
    "SquareCB": [{}, {"scale": 1.0, "expo": 0.0, "lr": 1.0}, {"scale": 100.0, "loss": "squared"}],
    "FastCB": [{}, {"scale": 1.0, "expo": 1.0, "lr": 1.0}],
    "Perceptron": [{}],
    "SecondOrderPerceptron": [{}, {"a": 0.05}],
    "PassiveAggressive": [
        {"variant": "PA"},
        {"variant": "PA-I", "C": 0.05},
        {"variant": "PA-II", "C": 0.05},
    ],
    "AROW": [{}, {"r": 0.05}, {"r": 0.3, "update": "precision"}],
    "CW": [{}, {"eta": 0.95}],
    "SCW": [{}, {"eta": 0.9, "C": 0.1}, {"eta": 0.9, "C": 0.1, "variant": "II"}],
}


class Case(NamedTuple):
    name: str
    settings: dict[str, Any]

    def learner(self, labels: Any, **common: Any) -> Any:
        return getattr(ob, self.name)(labels, **self.settings, **common)

    def twin(self, K: int, d: int, **more: Any) -> Any:
        return getattr(naive, self.name)(K, d, **self.settings, **more)

    @property
    def is_full(self) -> bool:
        return getattr(ob, self.name).full_information

    def __str__(self) -> str:
        return "-".join([self.name, *(f"{k}={v}" for k, v in self.settings.items())])


CASES = [Case(name, settings) for name in SETTINGS for settings in SETTINGS[name]]
BANDIT = [case for case in CASES if not case.is_full]
ONE_EACH = [Case(name, SETTINGS[name][-1]) for name in SETTINGS]  # the last, rarely the defaults

FLIPPED = ("RCNBF", "PNormBandit", "EGBandit", "PNewtron", "SOBA")  # they take rho0 and rho1

# What the second plane of the table is called in the twin.
SECOND_PLANE = {
    **dict.fromkeys(("Confidit", "LinearThompson", "SOBA", "UCWL"), "variance"),
    **dict.fromkeys(("AROW", "CW", "SCW"), "variance"),
    **dict.fromkeys(("PNewtron", "SecondOrderPerceptron"), "A"),
    **dict.fromkeys(("SquareCB", "FastCB", "EpsilonGreedy"), "S"),
}

# Compiling is what takes time, for each learner, precision and width of a block of labels. The law
# that compiled and plain runs are equal stands for these tests, but in `./run test --all`.
pytestmark = [pytest.mark.exhaustive] if COMPILED else []
# Uncompiled, a block is a small array of any length, and one width is as good as another.
later = pytest.mark.exhaustive
compiled = () if COMPILED else pytest.mark.skip(reason="other widths are for the compiler")


def marks_of(case: Case) -> Any:
    """Settings that differ in numbers alone run the same lines: uncompiled, `./run test` has the
    defaults, the variants and the last settings of each learner, `--slow` has all."""
    is_number_alone = all(isinstance(value, float) for value in case.settings.values())
    is_later = not COMPILED and case.settings and is_number_alone and case not in ONE_EACH
    return pytest.mark.thorough if is_later else ()


def cases(these: list[Case]) -> Any:
    return pytest.mark.parametrize(
        "case", [pytest.param(case, marks=marks_of(case)) for case in these], ids=str
    )


# ------------------------------------------------------------------------------------ streams


def stream_for(case, K, d, rounds, seed=0, noise=0.3) -> Data:
    """A stream on which rounding decides nothing.

    Perceptrons add and subtract rows: on whole numbers their ties are exact. A passive-aggressive
    step leaves a margin of just 1: there a row must not come again. Predictions of probabilities
    run into 0 and 1 unless rows are short.
    """
    whole = case.name in ("Perceptron", "BanditPerceptron")
    meets_one = case.name in ("BPA", "PassiveAggressive")
    X, y = stream(K, d, rounds, seed, noise, whole, repeats=not meets_one)
    if case.name in ("SquareCB", "FastCB", "EpsilonGreedy"):
        X = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)
    return Data(X, y)


def trained(case, K, d, rounds=60, seed=1, **common):
    learner = case.learner(K, features=d, **{"dtype": "float64", **common})
    data = stream(K, d, rounds, seed)
    ob.simulate(learner, *data)
    return learner


def force(decision, place, greedy=None, **more):
    """The decision as if the label at `place` had been said, and `greedy` been the best."""
    best = decision.greedy_place if greedy is None else greedy
    return msgspec.structs.replace(
        decision, label=place, place=place, greedy=best, greedy_place=best, **more
    )


def one_round(learner, x, y):
    """One round by itself; whether it counts as an update."""
    return bool(ob.simulate(learner, x[None], [y]).updates[0])


def plane(learner, which):
    """One plane of the table, [label, feature]."""
    return learner.table.weights()[:, which].T


def state(learner) -> bytes:
    return learner.table.weights().tobytes() + learner.table.state.memory.tobytes()


# ---------------------------------------------------------------------------- equal to the twin


def decided_by_rounding(twin, x, t) -> bool:
    """Whether two labels' scores are as close as rounding makes them, but not equal."""
    scores, size = twin.scores(x, t), naive.dot(np.abs(twin.W), np.abs(x))
    gap = scores.max() - scores
    if np.any((gap > 0) & (gap < 1e-11 * (size + size[np.argmax(scores)]))):
        return True
    if not isinstance(twin, naive.Optimist):
        return False
    upper = twin.upper(x, t)
    gap = (upper.max() - upper) / naive.UCB_TOLERANCE
    return bool(np.any((gap > 1e-3) & (gap < 1e3)))


def play(twin, data, seed, laws=None):
    """Run the twin; its choices and, per round, whether said and greedy were wrong, explored,
    updated. laws: where to leave the probabilities of every fifth round."""
    choices, counts = [], []
    for t, (x, y) in enumerate(zip(*data, strict=True)):
        assert not decided_by_rounding(twin, x, t)
        draw = draws(seed, t)
        if laws is not None and t % 5 == 0:
            laws[t] = twin.propensities(x, t)
        choice = twin.decide(x, t, draw)
        if isinstance(twin, FULL_TWINS):
            changed = twin.learn(x, int(y))
        else:
            changed = twin.learn(x, choice, choice.label == y, t, draw)
        choices.append(choice)
        said, greedy, _ = choice
        changed &= bool(np.any(x))  # an empty row is never counted as an update
        counts.append((said != y, greedy != y, said != greedy, changed))
    return choices, np.array(counts, np.int64)


FULL_TWINS = tuple(getattr(naive, case.name) for case in CASES if case.is_full)

SHAPES = [
    (2, 3),
    pytest.param(3, 7, marks=later),
    (5, 12),
    pytest.param(9, 24, marks=later),
    pytest.param(17, 40, marks=compiled),
    (33, 10),
]


def assert_same_state(case, learner, twin, rtol=1e-9) -> None:
    if learner.planes == 0:
        return
    size = np.abs(twin.W).max()
    assert_allclose(learner.weights, twin.W, rtol=rtol, atol=rtol * size)
    if case.name in ("EGBandit", "PNormBandit"):
        assert_allclose(plane(learner, 0), twin.theta, rtol=rtol, atol=rtol)
    if case.name == "SOBA":
        assert_allclose(learner.table.state.memory, [twin.m_sum], rtol=rtol, atol=rtol)
    if case.name in SECOND_PLANE:
        assert_allclose(plane(learner, 1), getattr(twin, SECOND_PLANE[case.name]), rtol=rtol)


def compare_with_twin(case, K, d, rounds, seed, noise) -> None:
    data = stream_for(case, K, d, rounds, seed, noise)
    twin, laws = case.twin(K, d), {}
    has_laws = case.name != "LinearThompson"  # its propensities have a test of their own
    choices, counts = play(twin, data, seed, laws if has_laws else None)

    learner = case.learner(K, features=d, seed=seed, dtype="float64")
    trace = ob.simulate(learner, *data, checkpoints=range(1, rounds + 1))
    assert_array_equal(np.array(trace[1:]).T, np.cumsum(counts, axis=0))
    assert_same_state(case, learner, twin)

    if not has_laws:
        return
    learner = case.learner(K, features=d, seed=seed, dtype="float64")
    for t, (x, y) in enumerate(zip(*data, strict=True)):
        if t in laws:
            assert_allclose(learner.propensities(x), laws[t], rtol=1e-11, atol=1e-15)
        d_t = learner.decide(x)
        assert (d_t.label, d_t.greedy) == choices[t][:2]
        assert d_t.propensity == pytest.approx(choices[t].propensity, rel=1e-12)
        feed(learner, d_t, y)
    assert_same_state(case, learner, twin)


@pytest.mark.parametrize(("K", "d"), SHAPES)
@cases(CASES)
def test_a_learner_is_its_twin(case, K, d):
    seed = CASES.index(case)
    compare_with_twin(case, K, d, rounds=50, seed=seed, noise=1.0 if seed % 2 else 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 112))
@cases(CASES)
def test_a_learner_is_its_twin_over_many_streams(case, seed):
    rng = np.random.default_rng(seed)
    K, d = int(rng.choice([2, 3, 5, 9, 17, 33])), int(rng.integers(3, 41))
    compare_with_twin(case, K, d, rounds=200, seed=seed, noise=float(rng.choice([0.0, 0.2, 1.0])))


@pytest.mark.parametrize(("K", "d"), [(5, 6), (2, 4)])
@cases([case for case in CASES if case.name == "LinearThompson"])
def test_thompson_says_the_propensity_of_its_draws(case, K, d):
    data, seed = stream(K, d, 30), 3
    learner = case.learner(K, features=d, seed=seed, dtype="float64")
    twin = case.twin(K, d, exact_propensity=True)
    for t, (x, y) in enumerate(zip(*data, strict=True)):
        choice, d_t = twin.decide(x, t, draws(seed, t)), learner.decide(x)
        assert (d_t.label, d_t.greedy) == choice[:2]
        assert d_t.propensity == pytest.approx(choice.propensity, abs=1e-4)
        if t % 5 == 0:
            assert_allclose(learner.propensities(x), twin.propensities(x), atol=1e-4)
        feed(learner, d_t, y)
        twin.learn(x, choice, choice.label == y, t, draws(seed, t))
    assert_same_state(case, learner, twin)


# ------------------------------------------------------------------- one learner, many ways to run

PRECISIONS = [
    pytest.param(9, "float32", id="float32"),
    pytest.param(5, "float64", id="float64"),
    pytest.param(3, "float32", id="float32-3", marks=later),
    pytest.param(17, "float32", id="float32-17", marks=later),
    pytest.param(9, "float64", id="float64-9", marks=later),
]


@pytest.mark.parametrize(("K", "dtype"), PRECISIONS)
@cases(CASES)
def test_round_by_round_is_the_whole_stream_bit_for_bit(case, K, dtype):
    d, rounds = 8, 40
    data = stream(K, d, rounds, seed=5)
    whole = case.learner(K, features=d, seed=2, dtype=dtype)
    trace = ob.simulate(whole, *data, checkpoints=range(1, rounds + 1))
    learner, counts = case.learner(K, features=d, seed=2, dtype=dtype), []
    for x, y in zip(*data, strict=True):
        said = learner.decide(x)
        counts.append((said.label != y, said.greedy != y, said.explored))
        feed(learner, said, y)
    assert_array_equal(np.array(trace[1:4]).T, np.cumsum(counts, axis=0))
    assert state(learner) == state(whole)
    assert learner.round == whole.round == rounds
    assert_array_equal(learner.scores(data.X), whole.scores(data.X))


@cases(ONE_EACH)
def test_a_stream_in_pieces_is_the_stream(case):
    X, y = stream(5, 8, 60, seed=6)
    whole, pieces = (case.learner(5, features=8, dtype="float64") for _ in range(2))
    ob.simulate(whole, X, y)
    for some in (slice(0, 1), slice(1, 37), slice(37, 60)):
        ob.simulate(pieces, X[some], y[some])
    assert state(whole) == state(pieces)


@cases(ONE_EACH)
def test_every_form_of_a_context_teaches_the_same(case):
    K, d, rounds = 5, 64, 30
    rng = np.random.default_rng(7)
    forms = {
        "dict": lambda x, i, v: x,
        "pair": lambda x, i, v: (i.astype(np.int64), v),
        "array": lambda x, i, v: dense_row(i, v, d),
        "list": lambda x, i, v: dense_row(i, v, d).tolist(),
        "sparse": lambda x, i, v: sparse.csr_array(dense_row(i, v, d)[None]),
    }
    learners = {form: case.learner(K, features=d, dtype="float64") for form in forms}
    for _ in range(rounds):
        size = int(rng.integers(0, 9))
        named = {f"word {j}": float(rng.normal()) for j in rng.permutation(40)[:size]}
        y, first = int(rng.integers(K)), None
        for form, learner in learners.items():
            context = named
            if first is not None:
                context = forms[form](named, first.indices, first.values)
            said = learner.decide(context)
            first = first or said
            assert (said.label, said.propensity) == (first.label, first.propensity)
            feed(learner, said, y)
    assert len({state(learner) for learner in learners.values()}) == 1


def dense_row(indices, values, d):
    row = np.zeros(d)
    row[indices] = values
    return row


@cases(CASES)
def test_other_names_for_the_labels_permute_the_state(case):
    """From a state without ties (in a tie the lowest label wins, whatever its name)."""
    K, d = 5, 8
    start = trained(case, K, d, rounds=60)
    rng = np.random.default_rng(8)
    order = np.array([3, 0, 4, 2, 1])  # place in the second learner -> place in the first
    place = np.argsort(order)
    head, arrays = saved_state(start)
    head = {**head, "labels": [f"label {i}" for i in range(K)]}
    one = restore(head, arrays)
    head = {**head, "labels": [f"label {i}" for i in order]}
    two = restore(head, {**arrays, "table": arrays["table"][:, :, order]})
    for _ in range(60):
        x, y = rng.normal(size=d), f"label {rng.integers(K)}"
        scores = one.scores(x[None])[0]
        if case.name != "UniformRandom" and np.sum(scores == scores.max()) > 1:
            continue  # of predictions clipped to [0, 1]
        assert_allclose(two.propensities(x), one.propensities(x)[order], rtol=1e-9)
        said, again = one.decide(x), two.decide(x)
        if case.name != "UniformRandom":  # to whom all labels are equal
            assert again.greedy == said.greedy
        again = msgspec.structs.replace(
            again,
            label=said.label,
            greedy=said.greedy,
            place=int(place[said.place]),
            greedy_place=int(place[said.greedy_place]),
            propensity=said.propensity,
            note=float(place[int(said.note)]) if case.name == "SOBA" else said.note,
            other=said.other,
        )
        feed(one, said, y)
        feed(two, again, y)
    assert_allclose(two.table.weights(), one.table.weights()[:, :, order], rtol=1e-9, atol=1e-12)
    assert_allclose(two.table.state.memory, one.table.state.memory, rtol=1e-9, atol=1e-12)


# --------------------------------------------------------------------------- who may know what


@cases(BANDIT)
def test_a_learner_from_one_bit_does_not_see_the_label(case):
    """Another wrong label in place of a wrong label: the bit is the same, so all else is."""
    K, d, rounds = 5, 8, 60
    X, y = stream(K, d, rounds, seed=9)
    one, two, watched = (case.learner(K, features=d, dtype="float64") for _ in range(3))
    hidden = y.copy()
    for t, (x, label) in enumerate(zip(X, y, strict=True)):
        said = watched.decide(x)
        feed(watched, said, label)
        if said.label != label:
            hidden[t] = [i for i in range(K) if i not in (label, said.label)][t % (K - 2)]
    assert np.sum(hidden != y) > 10
    first, second = (
        ob.simulate(learner, X, labels, checkpoints=range(1, rounds + 1))
        for learner, labels in ((one, y), (two, hidden))
    )
    assert state(one) == state(two) == state(watched)
    for count in ("mistakes", "explored", "updates"):
        assert_array_equal(getattr(first, count), getattr(second, count))


@pytest.mark.parametrize("name", SETTINGS)
def test_only_references_have_a_way_to_be_told_the_label(name):
    learner = getattr(ob, name)(3)
    params = type(learner.params)
    assert (params in rounds.hear_label.bodies) == learner.full_information
    assert (params in rounds.hear.bodies) == (not learner.full_information)


@cases([case for case in ONE_EACH if case.is_full])
def test_a_reference_refuses_one_bit(case):
    learner = trained(case, 5, 8)
    before, said = state(learner), learner.decide(np.ones(8))
    with pytest.raises(ValueError, match="learns from the true label"):
        learner.learn(said, right=True)
    assert state(learner) == before


# -------------------------------------------------------------------- what the papers prove


@pytest.mark.parametrize("y", range(5))
def test_banditron_estimates_the_perceptron_update_without_bias(y):
    """Kakade et al. 2008: the mean over said labels of the update is (e_y - e_h) x'."""
    K, d, gamma = 5, 8, 0.3
    learner = trained(Case("Banditron", {"gamma": gamma}), K, d)
    x, eye = np.linspace(-1, 2, d), np.eye(K)
    P, said = learner.propensities(x), learner.decide(x)
    mean, second = np.zeros((K, d)), 0.0
    for a in range(K):
        after = learner.copy()
        after.learn(force(said, a, propensity=P[a]), right=a == y)
        U = after.weights - learner.weights
        mean += P[a] * U
        second += P[a] * np.sum(U**2)
    h = said.greedy
    assert_allclose(mean, np.outer(eye[y] - eye[h], x), atol=1e-12)
    assert second / (x @ x) == pytest.approx(1 / P[h] - 1 if y == h else 1 + K / gamma)


@pytest.mark.parametrize("y", range(5))
def test_pnewtron_estimates_the_gradient_without_bias(y):
    """Hazan, Kale 2011: the mean over said labels of g is (p - e_y) x'.

    With next to no curvature, b = -A V moves by g alone.
    """
    K, d, gamma = 5, 8, 0.2
    settings = {"gamma": gamma, "alpha": 3.0, "beta": 1e-13, "D": 5.0}
    learner = trained(Case("PNewtron", settings), K, d)
    x = np.linspace(-1, 2, d)
    P, said, u = learner.propensities(x), learner.decide(x), learner.scores(x[None])[0]
    p = (P - gamma / K) / (1 - gamma)
    assert np.ptp(p) > 0.1
    mean = np.zeros((K, d))
    for a in range(K):
        after = learner.copy()
        forced = force(said, a, propensity=P[a], note=p[a], other=u[a] - u.mean())
        after.learn(forced, right=a == y)
        b, b_after = (-plane(one, 0) * plane(one, 1) for one in (learner, after))
        mean += P[a] * (b_after - b)
    assert_allclose(mean, np.outer(p - np.eye(K)[y], x), atol=1e-10)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("factor", [2.0**7, 2.0**-30])
@pytest.mark.parametrize(
    ("case", "power"),
    [
        (Case("Banditron", {"gamma": 0.3}), 1),
        (Case("PNormBandit", {"gamma": 0.3, "p": 12.0}), 1),
        (Case("BPA", {"gamma": 0.1}), -1),
        (Case("Perceptron", {}), 1),
    ],
    ids=str,
)
def test_the_unit_of_the_features_does_not_matter(case, power, factor, dtype):
    """The weights are homogeneous in the contexts: a power of two changes no bit of a choice."""
    X, y = stream(5, 8, 80, seed=3)
    one, two = (case.learner(5, features=8, dtype=dtype) for _ in range(2))
    first, second = ob.simulate(one, X, y), ob.simulate(two, factor * X, y)
    assert_array_equal(first, second)
    assert_array_equal(plane(two, 0), factor**power * plane(one, 0))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_squared_norm_as_potential_is_banditron_bit_for_bit(dtype):
    data = stream(5, 8, 200, seed=4)
    one = ob.Banditron(5, gamma=0.2, features=8, dtype=dtype)
    two = ob.PNormBandit(5, gamma=0.2, p=2.0, features=8, dtype=dtype)
    points = range(1, 201)
    assert_array_equal(
        ob.simulate(one, *data, checkpoints=points), ob.simulate(two, *data, checkpoints=points)
    )
    assert_array_equal(plane(one, 0), plane(two, 0))
    assert_array_equal(plane(one, 0), plane(two, 1))
    assert_array_equal(one.scores(data.X), two.scores(data.X))
    assert_allclose(two.weights, one.weights, rtol=1e-6 if dtype == "float32" else 1e-12)


@cases([case for case in CASES if case.name == "EGBandit"])
def test_eg_weights_are_a_distribution(case):
    learner = case.learner(5, features=8, dtype="float64")
    for x, y in zip(*stream(5, 8, 60), strict=True):
        one_round(learner, x, y)
        weights = learner.weights
        if case.settings.get("signed"):
            assert np.abs(weights).sum() <= 1
        else:
            assert np.all(weights >= 0)
            assert weights.sum() == pytest.approx(1, abs=1e-12)
        scores = learner.scores(np.eye(8)).T  # the weights up to one positive factor
        assert_allclose(scores * np.abs(weights).max(), weights * np.abs(scores).max(), rtol=1e-9)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@cases([case for case in CASES if case.name == "PNewtron"])
def test_pnewtron_starts_uniform_and_stays_in_the_ball(case, dtype):
    learner, active = case.learner(5, features=8, dtype=dtype), 0
    D, gamma = (learner.settings[name] for name in ("D", "gamma"))
    X, y = stream(5, 8, 80)
    assert_allclose(learner.propensities(X[1]), np.full(5, 1 / 5), rtol=1e-12)
    for x, label in zip(X, y, strict=True):
        assert learner.propensities(x).min() >= gamma / 5 * (1 - 1e-9)
        one_round(learner, x, label)
        norm = np.linalg.norm(learner.weights.astype(np.float64))
        assert norm <= D * (1 + 1e-6)
        active += norm > D * (1 - 1e-6)
    assert active > 0 or D > 1


def test_confidit_is_deterministic_when_alpha_is_one_and_its_variances_fall():
    X, y = stream(5, 8, 80)
    one, two = (ob.Confidit(5, eta=0.5, features=8, seed=s, dtype="float64") for s in (1, 2))
    for x, label in zip(X, y, strict=True):
        before, said = plane(one, 1), one.decide(x)
        assert said.propensity == 1
        assert two.decide(x).label == said.label
        feed(one, said, label)
        feed(two, force(two.decide(x), said.label), label)
        expected = before.copy()
        expected[said.place] /= 1 + before[said.place] * x**2
        assert_allclose(plane(one, 1), expected, rtol=1e-12)
        assert np.all(plane(one, 1)[said.place][x != 0] < before[said.place][x != 0])
    assert_array_equal(plane(one, 0), plane(two, 0))


def test_confidit_believes_a_wrong_answer_with_probability_alpha():
    """Crammer, Gentile 2011: after a mistake the target's mean is -alpha."""
    alpha, targets = 0.2, []
    for seed in range(400):
        learner = ob.Confidit(5, alpha=alpha, features=8, seed=seed, dtype="float64")
        learner.learn(learner.decide(np.eye(8)[3]), right=False)
        targets.append(np.sign(learner.weights[0, 3]))
        learner.learn(learner.decide(np.eye(8)[4]), right=True)
        assert learner.weights[:, 4].max() > 0
    assert np.mean(targets) == pytest.approx(-alpha, abs=4 / math.sqrt(400))


def test_soba_keeps_its_sum_and_learns_from_right_answers_only():
    learner, refused, accepted = ob.SOBA(5, gamma=0.3, features=8, dtype="float64"), 0, 0
    for x, y in zip(*stream(5, 8, 300, noise=0.1), strict=True):
        before, said = state(learner), learner.decide(x)
        learner.learn(said, right=said.label == y)
        assert learner.table.state.memory[0] >= 0
        if said.label != y or not np.any(x):
            assert state(learner) == before
        else:
            changed = state(learner) != before
            accepted, refused = accepted + changed, refused + (not changed)
            assert changed or not said.explored  # a mistake found by exploring always counts
    assert accepted > 10
    assert refused > 0


MARGIN = [case for case in CASES if case.name in ("UCWL", "AROW", "CW", "SCW")]


@cases(MARGIN)
def test_a_round_without_update_changes_no_bit_and_variances_stay_positive(case):
    learner, updates = case.learner(5, features=8, dtype="float64"), 0
    data = stream(5, 8, 300, noise=0.1)
    for x, y in zip(*data, strict=True):
        before, variances = state(learner), plane(learner, 1)
        changed = one_round(learner, x, y)
        assert changed == (state(learner) != before)
        assert np.all(plane(learner, 1) > 0)
        assert np.all(plane(learner, 1) <= variances)
        updates += changed
    assert 0 < updates < len(data.y)


@cases(CASES)
def test_an_empty_context_teaches_nothing(case):
    learner = trained(case, 5, 8)
    table, x = learner.table.weights().tobytes(), np.zeros(8)
    for y in range(5):
        said = learner.decide(x)
        feed(learner, said, y)
        if not case.is_full:
            learner.learn(learner.decide(x, among=[y]), right=True)
    assert learner.table.weights().tobytes() == table


@cases([Case("BPA", {"gamma": 0.2}), Case("BPA", {"gamma": 0.0})])
def test_a_bandit_passive_aggressive_step_meets_the_margin(case):
    """Zhong, Dauce 2015: after an unclipped update z u_a = 1, by the shortest way there."""
    learner, steps = case.learner(5, features=8, dtype="float64"), 0
    for x, y in zip(*stream(5, 8, 150), strict=True):
        said = learner.decide(x)
        z, before = 1 if said.label == y else -1, learner.weights
        old = z * before[said.place] @ x
        feed(learner, said, y)
        new = z * learner.weights[said.place] @ x
        if old >= 1 or not np.any(x):
            assert_array_equal(learner.weights, before)
            continue
        steps += 1
        assert new == pytest.approx(1, abs=1e-12)
        step = (1 - old) / np.linalg.norm(x)
        assert np.linalg.norm(learner.weights - before) == pytest.approx(step, rel=1e-9)
    assert steps > 20


@pytest.mark.parametrize(("variant", "C"), [("PA", 1.0), ("PA-I", 0.05), ("PA-II", 0.05)])
def test_a_passive_aggressive_step_meets_the_margin(variant, C):
    learner = ob.PassiveAggressive(5, variant=variant, C=C, features=8, dtype="float64")
    for x, y in zip(*stream(5, 8, 150), strict=True):
        u, before = learner.scores(x[None])[0], learner.weights
        rival = naive.best_other(u, y)
        changed = one_round(learner, x, y)
        assert changed == (u[y] - u[rival] < 1 and bool(np.any(x)))
        if not changed:
            continue
        after = learner.scores(x[None])[0]
        margin, step = after[y] - after[rival], np.linalg.norm(learner.weights - before)
        if variant == "PA":
            assert margin == pytest.approx(1, abs=1e-12)
        assert u[y] - u[rival] < margin <= 1 + 1e-12
        if variant == "PA-I":
            assert step <= C * math.sqrt(2) * np.linalg.norm(x) * (1 + 1e-12)


def test_scw_with_slack_beyond_price_is_cw_bit_for_bit():
    data = stream(5, 8, 200)
    one = ob.CW(5, eta=0.9, features=8, dtype="float64")
    two = ob.SCW(5, eta=0.9, C=1e300, features=8, dtype="float64")
    assert_array_equal(ob.simulate(one, *data), ob.simulate(two, *data))
    assert state(one) == state(two)


def test_arow_that_is_reluctant_enough_does_not_move():
    learner = ob.AROW(5, r=1e12, features=8, dtype="float64")
    ob.simulate(learner, *stream(5, 8, 200))
    assert np.abs(learner.weights).max() < 1e-8
    assert plane(learner, 1).min() > 1 - 1e-8


def test_a_bandit_perceptron_moves_one_row_by_one_context():
    """Beygelzimer et al. 2019: down on a mistake, up on a lucky guess when no label said yes."""
    K, learner = 5, ob.BanditPerceptron(5, features=8, dtype="float64")
    up, labels = np.zeros(K), np.zeros(K)
    for x, y in zip(*stream(K, 8, 300, whole=True), strict=True):
        before, nobody = learner.weights, bool(np.all(learner.scores(x[None]) < 0))
        said = learner.decide(x)
        right = said.label == y
        feed(learner, said, y)
        assert said.propensity == (1 / K if nobody else 1)
        move = np.zeros((K, 8))
        if right == nobody:
            move[said.place] = x if right else -x
        assert_array_equal(learner.weights, before + move)
        labels[y] += 1
        up[said.place] += right and nobody
    assert up.sum() > 2
    assert np.all(up <= labels)


@cases([case for case in CASES if case.name in ("SquareCB", "FastCB")])
def test_inverse_gap_weighting_is_as_printed(case):
    """Foster, Rakhlin 2020; Foster, Krishnamurthy 2021."""
    K, learner = 5, trained(case, 5, 8)
    scale, expo = learner.settings["scale"], learner.settings["expo"]
    for t, x in enumerate(stream(K, 8, 40, seed=2).X, start=60):
        g, P = learner.scores(x[None])[0], learner.propensities(x)
        b, gamma = int(np.argmax(g)), scale * (t + 1) ** expo
        least = 1.0 if case.name == "SquareCB" else max(1 - g[b], 1e-6)
        for i in set(range(K)) - {b}:
            assert P[i] == pytest.approx(least / (K * least + gamma * (g[b] - g[i])), rel=1e-9)
        assert P.sum() == pytest.approx(1, abs=1e-12)
        assert P @ (g[b] - g) <= (K - 1) * least / gamma
        learner.decide(x)  # the next round


# ------------------------------------------------------------------------- restricted choices


@cases(CASES)
def test_only_labels_that_are_possible_are_said(case):
    K, d = 5, 8
    learner, rng = case.learner(K, features=d, dtype="float64"), np.random.default_rng(3)
    for x, y in zip(*stream(K, d, 40, seed=3), strict=True):
        among = sorted(rng.permutation(K)[: rng.integers(1, K + 1)].tolist())
        P, said = learner.propensities(x, among=among), learner.decide(x, among=among)
        assert said.label in among and said.greedy in among
        assert np.all(P >= 0)
        assert P[among].sum() == pytest.approx(1, abs=1e-9)
        assert_array_equal(np.delete(P, among), 0)
        assert said.propensity == pytest.approx(P[said.place], rel=1e-12)
        if len(among) == 1:
            assert said.propensity == pytest.approx(1)
        feed(learner, said, y)


PAIRS = [case for case in CASES if case.name in ("SOBA", "PassiveAggressive", "AROW", "CW", "SCW")]


@cases(PAIRS)
def test_where_one_label_alone_is_possible_there_is_no_rival_to_learn_from(case):
    learner = trained(case, 5, 8)
    before = state(learner)
    for label in range(5):
        said = learner.decide(np.linspace(-1, 2, 8), among=[label])
        feed(learner, said, label)
        assert state(learner) == before


# Not Thompson, whose draws go by the label's place; EG's weights have one sum over all labels.
WITHIN = [case for case in CASES if case.name not in ("LinearThompson", "UniformRandom")]


@cases(WITHIN)
def test_always_the_same_few_labels_is_a_problem_of_its_own(case):
    K, d, among = 5, 8, [1, 2, 4]
    data, seed = stream_for(case, len(among), d, 50, seed=CASES.index(case)), 3
    twin = case.twin(len(among), d)
    choices, _ = play(twin, data, seed)
    learner = case.learner(K, features=d, seed=seed, dtype="float64")
    for x, y, choice in zip(*data, choices, strict=True):
        said = learner.decide(x, among=among)
        assert (said.label, said.greedy) == (among[choice.label], among[choice.greedy])
        assert said.propensity == pytest.approx(choice.propensity, rel=1e-12)
        feed(learner, said, among[y])
    if case.name != "EGBandit":
        size = np.abs(twin.W).max()
        assert_allclose(learner.weights[among], twin.W, rtol=1e-9, atol=1e-9 * size)
        assert not np.any(learner.weights[[0, 3]])


@cases([case for case in CASES if case.name in ("Banditron", "Confidit")])
def test_other_labels_every_round_is_the_twin_on_those_rows(case):
    K, d, seed = 5, 8, 4
    learner, full = case.learner(K, features=d, seed=seed, dtype="float64"), case.twin(K, d)
    held = ("W",) if case.name == "Banditron" else ("A", "b")
    rng = np.random.default_rng(5)
    for t, (x, y) in enumerate(zip(*stream(K, d, 80, seed=5), strict=True)):
        among = sorted(rng.permutation(K)[: rng.integers(2, K + 1)].tolist())
        part = case.twin(len(among), d)
        for name in held:
            setattr(part, name, getattr(full, name)[among])
        choice = part.decide(x, t, draws(seed, t))
        said = learner.decide(x, among=among)
        assert (said.label, said.greedy) == (among[choice.label], among[choice.greedy])
        part.learn(x, choice, said.label == y, t, draws(seed, t))
        for name in held:
            getattr(full, name)[among] = getattr(part, name)
        feed(learner, said, y)
    assert_same_state(case, learner, full)


# ----------------------------------------------------------------------- the true label as news


@cases(BANDIT)
def test_naming_the_said_label_is_saying_right(case):
    """Right without a doubt: a label that is named is not a bit that may have been flipped."""
    one = trained(case, 5, 8)
    two = one.copy()
    said = one.decide(np.linspace(-1, 2, 8))
    if case.name in FLIPPED:
        one.params = one.params._replace(rho0=0.0, rho1=0.0)
    one.learn(said, right=True)
    two.learn(said, label=said.label)
    assert state(one) == state(two)


@cases([case for case in BANDIT if not getattr(ob, case.name).importance_weighted])
def test_naming_another_label_is_two_lessons(case):
    """What was said is wrong, and the true label, had it been said, would have been right."""
    K, x = 5, np.linspace(-1, 2, 8)
    for start in range(60, 66):
        named = trained(case, K, 8, rounds=start)
        taught, said = named.copy(), named.decide(x)
        y = (said.place + 2) % K
        named.learn(said, label=y)
        taught.learn(said, right=False)
        learn_bit(taught, force(said, y, propensity=1.0), 0, True, said=False)
        assert state(named) == state(taught)


@cases([case for case in CASES if case.name in ("Banditron", "RCNBF", "PNormBandit", "EGBandit")])
def test_naming_another_label_is_a_perceptron_update(case):
    """The estimated update, once the label is known: (e_y - e_h) x', times the rate."""
    K, x = 5, np.linspace(-1, 2, 8)
    learner = trained(case, K, 8)
    before, said = plane(learner, 0).copy(), learner.decide(x)
    for y in set(range(K)) - {said.place}:
        after = learner.copy()
        after.learn(said, label=y)
        update = np.outer(np.eye(K)[y] - np.eye(K)[said.greedy_place], x)
        rate = learner.settings.get("eta", 1.0)
        assert_allclose(plane(after, 0), before + rate * update, atol=1e-12)


@cases([case for case in CASES if case.name == "SOBA"])
def test_soba_told_the_label_learns_as_if_it_had_said_it_for_certain(case):
    K, d, x = 5, 8, np.linspace(-1, 2, 8)
    data = stream(K, d, 40, seed=1)
    twin, learner = case.twin(K, d), case.learner(K, features=d, dtype="float64")
    play(twin, data, 0)
    ob.simulate(learner, *data)
    said = learner.decide(x)
    y = (said.place + 2) % K
    learner.learn(said, label=y)
    twin.rho = (0.0, 0.0)  # a label that is named is not a bit that may have been flipped
    assert twin.learn(x, naive.Choice(y, said.greedy_place, 1.0), True, 40, draws(0, 40))
    assert_same_state(case, learner, twin)


@cases([case for case in CASES if case.name == "PNewtron"])
def test_pnewtron_told_the_label_follows_the_gradient_of_a_label_said_for_certain(case):
    """p' = 1: g = -(1 - p_y) (e_y - 1/K) x', kappa = 1."""
    K, d, x = 5, 8, np.linspace(-1, 2, 8) / 4
    data = stream(K, d, 40, seed=1)
    twin, learner = case.twin(K, d), case.learner(K, features=d, dtype="float64")
    play(twin, data, 0)
    ob.simulate(learner, *data)
    said = learner.decide(x)
    y = (said.place + 2) % K
    learner.learn(said, label=y)
    twin.rho = (0.0, 0.0)  # a label that is named is not a bit that may have been flipped
    g = -(1 - twin.softmax(x)[y]) * np.outer(np.eye(K)[y] - 1 / K, x)
    twin.b = twin.b + (1 - twin.beta * np.sum(g * twin.W)) * g
    twin.A = twin.A + twin.beta * g**2
    assert_same_state(case, learner, twin)


def test_a_bandit_perceptron_told_the_label_when_nobody_said_yes_learns_it():
    learner = ob.BanditPerceptron(5, features=2, dtype="float64")
    x = np.array([1.0, -2.0])
    while np.any(learner.scores(x[None]) >= 0):
        learner.learn(learner.decide(x), right=False)
    before, said = learner.weights, learner.decide(x)
    y = (said.place + 1) % 5
    learner.learn(said, label=y)
    assert_array_equal(learner.weights, before + np.outer(np.eye(5)[y], x))


@cases(ONE_EACH)
def test_the_true_label_may_lie_outside_the_possible_ones(case):
    learner = trained(case, 5, 8)
    for x, y in zip(*stream(5, 8, 30, seed=2), strict=True):
        among = [i for i in range(5) if i != y]
        said = learner.decide(x, among=among[:3])
        learner.learn(said, label=y)
        assert np.all(np.isfinite(learner.weights))


# ------------------------------------------------------------------------------- one more label

GROWING = [case for case in ONE_EACH if case.name != "UniformRandom"]


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=later)])
@pytest.mark.parametrize("K", [4, 8, 16])
@pytest.mark.parametrize("case", GROWING, ids=str)
def test_a_new_label_keeps_what_was_learned_and_can_be_learned(case, K, dtype):
    """Where a block of labels is full, the table changes its shape."""
    d = 6
    learner = case.learner(K, dtype=dtype)
    X, y = stream(K, d, 40, seed=K)
    ob.simulate(learner, X, y)
    table, memory = learner.table.weights(), learner.table.state.memory.copy()
    scores = learner.scores(X)
    pending = learner.decide(X[1])
    learner.add_label()
    assert learner.labels == list(range(K + 1))
    assert_array_equal(learner.table.weights()[:, :, :K], table)
    assert_array_equal(learner.table.state.memory, memory)
    assert_array_equal(learner.scores(X)[:, :K], scores)
    feed(learner, pending, int(y[1]))  # a decision from before is still good

    x = sparse.csr_matrix(np.eye(d + 1)[d : d + 1])  # a feature nobody has seen
    for _ in range(600):
        ob.simulate(learner, x, [K])
        if learner.predict(x)[0] == K:
            break
    assert learner.predict(x)[0] == K


@cases(ONE_EACH)
def test_a_learner_that_grew_is_one_that_had_the_label_all_along(case):
    """While nobody says the new label, it is as if it were not there yet."""
    d, among = 6, range(5)
    large, small = (case.learner(K, dtype="float64", features=d) for K in (6, 5))
    if case.name == "LinearThompson":
        return  # draws for one label more
    for x, y in zip(*stream(5, d, 40, seed=3), strict=True):
        feed(large, large.decide(x, among=among), y)
        feed(small, small.decide(x), y)
    small.add_label()
    assert state(large) == state(small)


# ----------------------------------------------------------------------------------- extremes


@pytest.mark.parametrize("restricted", [False, True], ids=["", "among"])
@pytest.mark.parametrize(
    ("K", "dtype"),
    [(9, "float32"), (5, "float64"), pytest.param(3, "float32", marks=later)],
)
@cases(ONE_EACH)
def test_huge_values_leave_numbers_and_labels_that_are_there(case, K, dtype, restricted):
    huge = 1e14 if dtype == "float32" else 1e119
    rng = np.random.default_rng(1)
    learner = case.learner(K, features=4, dtype=dtype)
    with np.errstate(all="ignore"):
        for t in range(60):
            x = rng.normal(size=4) * rng.choice([1.0, huge, -huge, 1 / huge], 4)
            among = sorted(rng.permutation(K)[: 2 if restricted else K].tolist())
            said = learner.decide(x, among=among)
            assert said.label in among and said.greedy in among
            feed(learner, said, int(rng.integers(K)))
            if t % 7 == 0:
                one_round(learner, x, 1)
            assert learner.predict(x[None])[0] in range(K)
            assert (
                np.isfinite(learner.weights).all() and np.isfinite(learner.table.state.table).all()
            )


# ------------------------------------------------------------- numbers kept up to date on the way


@pytest.mark.parametrize(("dtype", "rel"), [("float64", 1e-10), ("float32", 1e-4)])
def test_pnewtron_keeps_the_norm_it_would_sum_up(dtype, rel):
    rounds = 2000 if COMPILED else 300
    learner = ob.PNewtron(9, gamma=0.05, features=12, dtype=dtype)
    data = stream(9, 12, rounds)
    ob.simulate(learner, *data)
    kept, updates = learner.table.state.memory
    fresh = np.sum(plane(learner, 0).astype(np.float64) ** 2)
    assert updates == np.any(data[0], axis=1).sum()
    assert kept == pytest.approx(fresh, rel=rel)


def test_pnewtron_sums_its_norm_up_afresh_now_and_then():
    learner = trained(Case("PNewtron", {}), 5, 8)
    learner.table.state.memory[:] = 1e-3, 99_998.0
    one_round(learner, np.ones(8), 1)
    assert learner.table.state.memory[1] == 99_999
    one_round(learner, np.ones(8), 1)
    norm = np.sum(plane(learner, 0) ** 2)
    assert_allclose(learner.table.state.memory, [norm, 0], rtol=1e-12)


POTENTIAL = [
    Case("EGBandit", {"gamma": 0.3, "eta": 4.0}),
    Case("EGBandit", {"gamma": 0.3, "eta": 4.0, "signed": True}),
    Case("EGBandit", {"gamma": 0.02, "eta": 0.7}),
    Case("PNormBandit", {"gamma": 0.02, "p": 40.0}),
]


@pytest.mark.parametrize("sign", [1.0, -1.0])
@cases(POTENTIAL)
def test_potentials_survive_their_own_growth(case, sign):
    """The largest theta passes what an exponential can hold: weights are measured anew."""
    K, d, seed = 5, 8, 6
    X, y = stream(K, d, 150, seed=6, noise=0.1, repeats=False)
    data = Data(sign * X, y)
    twin = case.twin(K, d)
    choices, _ = play(twin, data, seed)
    learner = case.learner(K, features=d, seed=seed, dtype="float64")
    start = learner.table.state.memory[0]
    for x, y, choice in zip(*data, choices, strict=True):
        said = learner.decide(x)
        assert (said.label, said.greedy) == choice[:2]
        feed(learner, said, y)
    assert learner.table.state.memory[0] > start
    assert np.ptp(twin.theta) < 700  # beyond, the twin itself would round weights to nothing
    assert_same_state(case, learner, twin)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_eg_weights_are_measured_against_the_largest_theta_not_the_largest_size(dtype):
    """A larger, negative feature drives its theta far below; that must not hide the others."""
    learner = ob.EGBandit(3, gamma=0.5, eta=1.0, features=2, dtype=dtype)
    x = np.array([1.0, -30.0])
    for _ in range(80):
        said = learner.decide(x)
        forced = force(said, 1, greedy=1, propensity=0.5)
        learn_bit(learner, forced, 0, True, said=False)
    weights, scores = learner.weights, learner.scores(np.eye(2)).T
    assert weights.sum() == pytest.approx(1)
    assert weights[1, 0] == pytest.approx(1)
    assert scores[1, 0] > 0
    assert learner.decide(x).greedy == 1


def test_eg_weights_are_a_distribution_even_when_every_theta_fell():
    """Every label wrong for long: what counts is who fell least."""
    learner = ob.EGBandit(3, gamma=0.01, eta=4.0, features=1, dtype="float64")
    for label in range(3):
        for _ in range(200 + label):
            said = learner.decide(np.ones(1))
            learn_bit(learner, force(said, label, greedy=label), 0, False, said=False)
    assert_allclose(learner.weights[:, 0], np.exp([0, -4, -8]) / np.exp([0, -4, -8]).sum())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("signed", [False, True])
def test_eg_knows_its_best_label_when_every_theta_of_a_row_is_far_from_the_largest(dtype, signed):
    """Weights lost in rounding beside the largest of all are measured against the row's own."""
    learner = ob.EGBandit(3, gamma=0.5, eta=4.0, signed=signed, dtype=dtype)
    loud = learner.decide([0.0, 1.0])
    for _ in range(300 if signed else 0):  # another feature, whose theta grows large
        learn_bit(learner, msgspec.structs.replace(loud, propensity=0.5), 0, True, said=False)
    x = [1.0, 0.0]
    for wrong, times in ((0, 202), (1, 201), (2, 200)):
        said = learner.decide(x)
        said = msgspec.structs.replace(
            said, label=wrong, place=wrong, greedy=wrong, greedy_place=wrong
        )
        for _ in range(times if not signed else 3 - wrong):
            learn_bit(learner, said, 0, False)
    theta = learner.table.state.table[0, 0, :3]
    assert theta[2] > theta[1] > theta[0]
    assert learner.decide(x).greedy == 2 and learner.predict([x])[0] == 2


@pytest.mark.parametrize("make", [ob.Confidit, ob.UCWL])
def test_upper_bounds_a_billionth_apart_are_tied(make):
    for lead, said in ((5e-10, 0), (2e-9, 1)):
        learner = make(3, features=1, dtype="float64")
        learner.table.state.table[0, 0, 1] = lead
        assert learner.decide([1.0]).label == said


def test_the_growing_width_of_confidit_is_nothing_in_the_first_round():
    learner = ob.Confidit(2, width="log", eta=1.0, features=1, dtype="float64")
    learner.table.state.table[0, :, 0] = 0.0, 1e-6  # sure
    learner.table.state.table[0, :, 1] = -0.1, 0.25  # a little worse, but unsure
    assert [learner.decide([1.0]).label for _ in range(2)] == [0, 1]


@pytest.mark.parametrize("make", [ob.UCWL, ob.Confidit, ob.LinearThompson, ob.AROW])
def test_forgetting_helps_when_the_world_has_changed(make):
    """After the labels have moved on by one, the old evidence is in the way."""
    data = ob.datasets.synsep(2500 if COMPILED else 300, seed=2)
    moved = (data.y + 1) % 9
    mistakes = []
    for share in (0.0, 0.9):
        learner = make(9, seed=1)
        ob.simulate(learner, data.X, data.y)
        learner.forget(share)
        mistakes.append(ob.simulate(learner, data.X, moved).mistakes[-1])
    assert mistakes[1] < mistakes[0]


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), "all"])
def test_forgetting_no_share_is_refused(share):
    learner = ob.Banditron(3)
    with pytest.raises((TypeError, ValueError), match="share"):
        learner.forget(share)
