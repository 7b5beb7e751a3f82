"""Rates of flips: exact where the curve is known, near where it is learned, or refused."""

import builtins
import contextlib
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import onebit as ob
from onebit.core.jit import COMPILED
from onebit.feedback.noise import Log, NotIdentified, Rates, estimate_rates

RATES = [(0.0, 0.0), (0.15, 0.15), (0.2, 0.4), (0.4, 0.2)]


def clusters(answers, labels=4, features=8, spread=0.3, seed=0):
    """Rows around the corners of a cube's axes; with little spread, labels are certain."""
    rng = np.random.default_rng(seed)
    y = rng.integers(labels, size=answers)
    return np.eye(labels, features)[y] + spread * rng.normal(size=(answers, features)), y


def heard(y, labels, rho0, rho1, good=0.6, seed=1):
    """What a learner said that knows a share of the labels, and the flipped bits it heard."""
    rng = np.random.default_rng(seed)
    said = np.where(rng.random(len(y)) < good, y, rng.integers(labels, size=len(y)))
    u = rng.random(len(y))
    return said, np.where(said == y, u >= rho1, u < rho0)


def made(answers, rho0, rho1, labels=4, seed=0, spread=0.3, good=0.6):
    X, y = clusters(answers, labels, spread=spread, seed=seed)
    said, right = heard(y, labels, rho0, rho1, good, seed + 10**6)
    return Log(X, said, right, labels=labels)


def near(rates, rho0, rho1, within):
    return abs(rates.rho0 - rho0) <= within and abs(rates.rho1 - rho1) <= within


# The levels of the curve


@pytest.mark.parametrize("rho", RATES)
def test_levels_are_near_the_truth(rho):
    rates = estimate_rates(made(12_000, *rho))
    assert near(rates, *rho, within=0.02)  # five standard errors of the smaller level
    assert rates.rho0_low <= rates.rho0 <= rates.rho0_high
    assert rates.rho1_low <= rates.rho1 <= rates.rho1_high
    assert rates.method == "levels" and rates.answers == 12_000 and rates.confidence == 0.9


def test_heavy_noise_needs_more_answers():
    assert near(estimate_rates(made(40_000, 0.4, 0.4)), 0.4, 0.4, within=0.03)


@pytest.mark.thorough
@pytest.mark.compiled if COMPILED else pytest.mark.exhaustive
def test_rows_of_real_digits_with_a_learner_of_our_own():
    data = ob.datasets.digits()
    learner, rng = ob.EpsilonGreedy(10, epsilon=0.2, seed=3), np.random.default_rng(3)
    pairs = []
    for row in rng.integers(len(data.y), size=6000):
        d = learner.decide(data.X[row])
        u = rng.random()
        right = bool(u >= 0.3 if d.label == data.y[row] else u < 0.1)
        learner.learn(d, right=right)
        pairs.append((d, right))
    log = Log.of(pairs)
    assert log.labels == 10 and len(log) == 6000 and (log.propensities > 0).all()
    assert near(estimate_rates(log), 0.1, 0.3, within=0.05)
    same = Log(
        [(d.indices, d.values) for d, _ in pairs],
        [d.place for d, _ in pairs],
        [right for _, right in pairs],
        labels=10,
    )
    assert estimate_rates(same) == estimate_rates(log)


def test_the_same_log_and_seed_give_the_same_rates():
    log = made(3000, 0.1, 0.2)
    assert estimate_rates(log) == estimate_rates(log)
    assert estimate_rates(log, seed=1) != estimate_rates(log)
    assert near(estimate_rates(log, seed=1), 0.1, 0.2, within=0.05)


def test_dense_sparse_and_pairs_are_one_log():
    X, y = clusters(2000)
    X[np.abs(X) < 0.2] = 0
    said, right = heard(y, 4, 0.1, 0.2)
    thin = sparse.csr_matrix(X)
    pairs = [(thin[i].indices, thin[i].data) for i in range(len(y))]
    found = {repr(estimate_rates(Log(form, said, right, labels=4))) for form in (X, thin, pairs)}
    assert len(found) == 1


@settings(max_examples=6, deadline=None)
@given(
    st.permutations(range(4)),
    st.integers(0, 100),
    st.sampled_from([0.25, 1.0, 32.0, 2.0**-40, 2.0**40]),
)
def test_names_of_labels_and_units_of_features_do_not_matter(places, seed, unit):
    X, y = clusters(1500, seed=seed)
    said, right = heard(y, 4, 0.1, 0.2, seed=seed)
    one = estimate_rates(Log(X, said, right, labels=4))
    other = estimate_rates(Log(unit * X, np.array(places)[said], right, labels=4))
    # Halves are drawn alike, and sorting by label only changes the order of sums.
    assert other.rho0 == pytest.approx(one.rho0, abs=2e-3)
    assert other.rho1 == pytest.approx(one.rho1, abs=2e-3)


def test_the_order_of_answers_matters_no_more_than_the_seed():
    X, y = clusters(8000)
    said, right = heard(y, 4, 0.1, 0.3)
    one = estimate_rates(Log(X, said, right, labels=4))
    order = np.random.default_rng(0).permutation(8000)
    other = estimate_rates(Log(X[order], said[order], right[order], labels=4))
    assert near(other, one.rho0, one.rho1, within=0.01)


def test_with_two_labels_the_bits_of_the_other_label_have_the_rates_swapped():
    X, y = clusters(8000, labels=2)
    said, right = heard(y, 2, 0.1, 0.3)
    one = estimate_rates(Log(X, said, right, labels=2))
    other = estimate_rates(Log(X, 1 - said, ~right, labels=2))
    assert near(one, 0.1, 0.3, within=0.03)
    assert near(other, one.rho1, one.rho0, within=0.005)


def test_a_label_that_is_never_said_or_once_is_no_obstacle():
    X, y = clusters(6000)
    said, right = heard(y, 4, 0.1, 0.3)
    said[said == 3] = 2
    said[17] = 3
    right = np.where(said == y, right, np.random.default_rng(5).random(6000) < 0.1)
    assert near(estimate_rates(Log(X, said, right, labels=9)), 0.1, 0.3, within=0.04)


def test_wide_sparse_contexts():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=4000)
    words = rng.integers(1000, size=(4000, 12)) * 300 + y[:, None] * (rng.random((4000, 12)) < 0.6)
    pairs = [(np.unique(row), np.ones(len(np.unique(row)))) for row in words % 900 * 900]
    said, right = heard(y, 3, 0.1, 0.2)
    log = Log(pairs, said, right, labels=3)
    assert near(estimate_rates(log), 0.1, 0.2, within=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("rho", RATES)
def test_intervals_hold_the_truth_as_often_as_they_say(rho):
    """Of 100 logs, each of new rows: nine in ten, give or take three standard errors."""
    hits = np.zeros(2)
    for seed in range(100):
        rates = estimate_rates(made(6000, *rho, seed=seed), resamples=100)
        slack = 2e-3  # levels at 0 are estimated from above
        hits += [
            rates.rho0_low - slack <= rho[0] <= rates.rho0_high,
            rates.rho1_low - slack <= rho[1] <= rates.rho1_high,
        ]
    assert (hits >= 81).all()


# NREst, with a network that knows


class Known:
    """A classifier that knows q: rows hold a label's place in their largest entry of `labels`."""

    def __init__(self, q, labels):
        self.q, self.labels, self.learned = q, labels, None

    def __deepcopy__(self, memo):
        return self  # so that a test can see what it learned from

    def fit(self, Z, bits):
        assert set(np.unique(bits)) <= {0, 1}
        self.learned = Z
        return self

    def predict_proba(self, Z):
        X, said = Z[:, : -self.labels], Z[:, -self.labels :].argmax(axis=1)
        q = self.q(X.astype(np.float64), said)
        return 0.5 * np.column_stack([1 - q, q])  # need not sum to 1: it is made so


def truth(labels, rho0, rho1):
    def q(X, said):
        return np.where(X[:, :labels].argmax(axis=1) == said, 1 - rho1, rho0)

    return q


@pytest.mark.parametrize("anchor", ["class", "feedback"])
@pytest.mark.parametrize("combine", ["mean", "median"])
@pytest.mark.parametrize("rho", [*RATES, (0.4, 0.4)])
def test_nrest_is_exact_when_the_network_is(anchor, combine, rho):
    log = made(2000, *rho, labels=3)
    rates = estimate_rates(
        log, method="nrest", anchor=anchor, combine=combine, classifier=Known(truth(3, *rho), 3)
    )
    assert (rates.rho0, rates.rho1) == pytest.approx(rho, abs=1e-12)
    assert (rates.rho0_low, rates.rho1_high) == pytest.approx(rho, abs=1e-12)
    assert rates.method == f"nrest, anchor {anchor}" and rates.answers == 2000


def some_q(labels, seed):
    weights = np.random.default_rng(seed).normal(size=(8, labels))

    def q(X, said):
        return 0.02 + 0.96 / (1 + np.exp(-(X @ weights)[np.arange(len(X)), said]))

    return q


def class_twin(q, percentile):
    """Algorithm 3 as printed, with the percentile in place of the maximum."""
    labels = q.shape[1]
    example = []
    for j in range(labels):
        cut = np.percentile(q[:, j], percentile, method="higher")
        example.append(next(i for i in range(len(q)) if q[i, j] == cut))
    rho1 = [1 - q[example[j], j] for j in range(labels)]
    rho0 = [q[example[k], j] for k, j in itertools.permutations(range(labels), 2)]
    return rho0, rho1


def feedback_twin(pairs, percentile):
    """What the authors' code does: drop what is at the percentile or above, take the largest."""
    matrix = []
    for i in (0, 1):
        column = pairs[:, i].copy()
        column[column >= np.percentile(column, percentile, method="higher")] = 0.0
        row = pairs[np.argmax(column)]
        matrix.append(row / row.sum())
    return matrix[0][1], matrix[1][0]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.floats(30, 99), st.integers(2, 5), st.integers(200, 400))
def test_nrest_is_its_slow_twins(seed, percentile, labels, answers):
    log = made(answers, 0.2, 0.3, labels=labels, seed=seed)
    X, _ = clusters(answers, labels, seed=seed)
    X = X.astype(np.float32).astype(np.float64)
    q = np.stack([some_q(labels, seed)(X, np.full(len(X), j)) for j in range(labels)], axis=1)
    for combine in ("mean", "median"):
        rho0, rho1 = (getattr(np, combine)(part) for part in class_twin(q, percentile))
        known = Known(some_q(labels, seed), labels)
        more = {"method": "nrest", "classifier": known, "percentile": percentile, "resamples": 5}
        more |= {"anchor": "class"}
        if rho0 + rho1 >= 1 - 1e-3:
            with pytest.raises(NotIdentified, match="sum to 1 or more"):
                estimate_rates(log, combine=combine, **more)
        else:
            rates = estimate_rates(log, combine=combine, **more)
            assert (rates.rho0, rates.rho1) == pytest.approx((rho0, rho1), abs=1e-12)
    rates = None
    with contextlib.suppress(NotIdentified):
        rates = estimate_rates(log, **(more | {"anchor": "feedback"}))
    assert len(known.learned) == int(0.9 * answers)  # the rest is the paper's test part
    twin = feedback_twin(known.predict_proba(known.learned), percentile)
    if rates is None:
        assert sum(twin) >= 1 - 1e-3
    else:
        assert (rates.rho0, rates.rho1) == pytest.approx(twin, abs=1e-12)


def test_nrest_appends_the_label_as_one_hot_or_as_a_number():
    log = made(300, 0.1, 0.2)
    known = Known(truth(4, 0.1, 0.2), 4)
    estimate_rates(log, method="nrest", classifier=known)
    assert known.learned.shape == (270, 8 + 4)
    assert (known.learned[:, 8:].sum(axis=1) == 1).all()
    number = Known(lambda X, said: np.where(X[:, 0] > 0, 0.9, 0.1), 1)
    estimate_rates(log, method="nrest", anchor="feedback", classifier=number, coding="integer")
    assert number.learned.shape == (270, 9)
    assert set(number.learned[:, 8]) == {0, 1, 2, 3}


def test_nrest_with_a_classifier_of_scikit_learn_leaves_it_as_it_is():
    naive_bayes = pytest.importorskip("sklearn.naive_bayes").GaussianNB()
    log = made(4000, 0.1, 0.2)
    estimate_rates(log, method="nrest", anchor="feedback", classifier=naive_bayes)
    assert not hasattr(naive_bayes, "theta_")


@pytest.mark.slow
def test_nrest_with_its_own_network():
    pytest.importorskip("sklearn")
    log = made(10_000, 0.1, 0.2)
    rates = estimate_rates(log, method="nrest", anchor="feedback")
    assert near(rates, 0.1, 0.2, within=0.06)
    assert rates == estimate_rates(log, method="nrest", anchor="feedback")


@pytest.mark.slow if COMPILED else pytest.mark.exhaustive
def test_nrest_on_wide_sparse_contexts_learns_crosses(monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.setattr("onebit.feedback.noise.log._DENSE_BYTES", 0)
    X, y = clusters(3000, labels=3)
    X[np.abs(X) < 0.6] = 0
    said, right = heard(y, 3, 0.1, 0.2)
    log = Log(sparse.csr_matrix(X), said, right, labels=3)
    assert near(estimate_rates(log, method="nrest", anchor="class"), 0.1, 0.2, within=0.1)
    assert near(estimate_rates(log), 0.1, 0.2, within=0.06)


def test_nrest_without_scikit_learn_says_what_to_install(monkeypatch):
    plain = builtins.__import__

    def without(name, *args, **more):
        if name.startswith("sklearn"):
            raise ImportError(name)
        return plain(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"needs scikit-learn: pip install '\.\[lab\]'"):
        estimate_rates(made(300, 0.1, 0.2), method="nrest")


# Refusals


def refused(log, **more):
    with pytest.raises(NotIdentified) as caught:
        estimate_rates(log, **more)
    return str(caught.value)


@pytest.mark.parametrize("method", ["levels", "nrest"])
def test_logs_that_cannot_hold_the_rates(method):
    X, y = clusters(400)
    said, right = heard(y, 4, 0.1, 0.2)
    assert "150 answers are too few to estimate rates: wait for 200" in refused(
        Log(X[:150], said[:150], right[:150], labels=4), method=method
    )
    assert "0 answers are too few" in refused(Log(X[:0], said[:0], right[:0], labels=4))
    for bit, word in ((True, "right"), (False, "wrong")):
        sentence = refused(Log(X, said, np.full(400, bit), labels=4), method=method)
        assert f"all 400 answers are {word}" in sentence and "cannot be seen in" in sentence
    sentence = refused(Log(X, np.full(400, 2), right, labels=4), method=method)
    assert "only the label 2 was ever said" in sentence and "explore" in sentence


def test_bits_that_depend_on_nothing_are_refused():
    for seed in range(5):
        X, y = clusters(5000, seed=seed)
        said, right = heard(y, 4, 0.5, 0.5, seed=seed)
        assert "barely depends on context and label" in refused(Log(X, said, right, labels=4))
    X = np.random.default_rng(0).normal(size=(5000, 8))  # contexts that say nothing
    said, right = heard(y, 4, 0.1, 0.1, good=0)
    assert "contexts do not predict the labels" in refused(Log(X, said, right, labels=4))
    assert "barely depends" in refused(Log(np.zeros((5000, 3)), said, right, labels=4))


def test_feedback_turned_round_is_refused():
    X, y = clusters(6000)
    said, right = heard(y, 4, 0.1, 0.1)
    propensities = np.where(said == y, 0.7, 0.1)
    assert near(estimate_rates(Log(X, said, right, propensities, 4)), 0.1, 0.1, within=0.03)
    sentence = refused(Log(X, said, ~right, propensities, 4))
    assert "exchanged" in sentence and "as one label in 4 is right" in sentence
    # Without propensities, or where some labels had none, it cannot be known.
    for unknown in (None, np.ones(6000)):
        estimate_rates(Log(X, said, ~right, unknown, 4))


def test_labels_that_no_linear_rule_tells_apart_are_refused_if_exploration_says_so():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 2))
    y = np.digitize(np.linalg.norm(X, axis=1), [0.8, 1.5])  # rings
    said, right = heard(y, 3, 0.1, 0.2)
    propensities = np.where(said == y, 0.6, 0.0) + 0.4 / 3
    assert "too little information for a linear rule" in refused(
        Log(X, said, right, propensities, 3)
    )
    assert not near(estimate_rates(Log(X, said, right, labels=3)), 0.1, 0.2, within=0.1)


def test_too_few_answers_for_so_much_noise_are_refused_or_have_a_wide_interval():
    for seed in range(10):
        try:
            rates = estimate_rates(made(1500, 0.4, 0.4, seed=seed, spread=0.6))
        except NotIdentified:
            continue
        assert near(rates, 0.4, 0.4, within=0.2)


def test_an_interval_that_leaves_the_rates_open_is_refused():
    sentence = refused(made(300, 0.2, 0.2, spread=0.5, seed=1))
    assert "300 answers leave the rates open: rho0 between 0.05 and 0.44" in sentence
    assert "more answers would narrow them" in sentence


def test_nrest_refuses_rates_that_sum_to_one():
    known = Known(lambda X, said: np.full(len(X), 0.5), 4)
    sentence = refused(made(300, 0.1, 0.1), method="nrest", classifier=known)
    assert "rho0 = 0.500 and rho1 = 0.500, which sum to 1 or more" in sentence


def test_a_refusal_is_a_value_error():
    assert issubclass(NotIdentified, ValueError)


# Arguments


def test_bad_logs_get_a_sentence():
    X, said, right = np.ones((3, 2)), [0, 1, 1], [True, False, True]
    with pytest.raises(ValueError, match=r"said of shape \(2,\) does not fit 3 contexts"):
        Log(X, said[:2], right, labels=2)
    with pytest.raises(ValueError, match=r"right of shape \(4,\) does not fit 3 contexts"):
        Log(X, said, [*right, True], labels=2)
    with pytest.raises(ValueError, match=r"propensities of shape \(1,\) does not fit"):
        Log(X, said, right, [0.5], labels=2)
    for bad, kind in (([1, 0, 2], "int64"), ([1.0, 0.0, 1.0], "float64")):
        with pytest.raises(
            TypeError, match=f"right must hold True or False, not {kind}: say right"
        ):
            Log(X, said, bad, labels=2)
    with pytest.raises(TypeError, match="said must hold places of labels, whole numbers"):
        Log(X, ["a", "b", "b"], right, labels=2)
    for bad in ([0, 1, 2], [0, -1, 1]):
        with pytest.raises(ValueError, match="said must hold places from 0 to 1"):
            Log(X, bad, right, labels=2)
    with pytest.raises(ValueError, match="labels must be between 2"):
        Log(X, said, right, labels=1)
    with pytest.raises(ValueError, match="labels must be between 2"):
        Log(X, said, right)
    with pytest.raises(ValueError, match="nan"):
        Log([[1.0, np.nan]] * 3, said, right, labels=2)
    for bad in ([0.5, 0, 1], [0.5, 1, 1.1], [0.5, 1, np.nan]):
        with pytest.raises(ValueError, match="propensities must be above 0 and at most 1"):
            Log(X, said, right, bad, labels=2)


def test_bad_pairs_get_a_sentence():
    d = ob.Banditron(3).decide([1.0, 2.0])
    assert len(Log.of([(d, True), (d, np.True_)])) == 2
    with pytest.raises(TypeError, match="made of pairs"):
        Log.of([(d,)])
    with pytest.raises(TypeError, match="made of pairs"):
        Log.of([("sport", True)])
    for bad in (2, 1.0, None, "yes"):
        with pytest.raises(TypeError, match="right must be True or False, not "):
            Log.of([(d, bad)])
    for labels in (None, 3):
        with pytest.raises(ValueError, match=r"log is empty: it needs pairs \(decision, right\)"):
            Log.of([], labels=labels)


@pytest.mark.parametrize("learner", [ob.OneBit(3), ob.UCWL(3, inputs="auto")])
def test_decisions_on_numbers_of_dicts_make_a_log(learner):
    X, y = clusters(1200, labels=3, features=3)
    said, right = heard(y, 3, 0.1, 0.2)
    dicts = [dict(zip("abc", row, strict=True)) for row in X.tolist()]
    decisions = [learner.decide(x, among=[int(said[i])]) for i, x in enumerate(dicts)]
    assert decisions[0].indices.max() >= 2**24  # numbers have indices of their own
    log = Log.of(zip(decisions, right, strict=True), labels=3)
    places = [next(iter(learner.decide({name: 1.0}).indices)) for name in "abc"]
    by_index = X.astype(np.float32)[:, np.argsort(places)]
    assert repr(estimate_rates(log)) == repr(estimate_rates(Log(by_index, said, right, labels=3)))


def test_0_and_1_are_wrong_and_right():
    d = ob.Banditron(3).decide([1.0, 2.0])
    assert Log.of([(d, 1), (d, np.int64(0))]).right.tolist() == [True, False]
    assert Log(np.ones((2, 2)), [0, 1], [1, 0], labels=2).right.tolist() == [True, False]


def test_bad_settings_get_a_sentence():
    log = made(300, 0.1, 0.1)
    for name in ("method", "anchor", "combine", "coding"):
        with pytest.raises(ValueError, match=f"{name} must be one of"):
            estimate_rates(log, **{name: "guess"})
    for name, bad in (
        *(("percentile", 0), ("percentile", 101), ("confidence", 1.0), ("confidence", 0)),
        *(("resamples", 0), ("seed", -1), ("percentile", float("nan"))),
    ):
        with pytest.raises(ValueError, match=f"{name} must be"):
            estimate_rates(log, **{name: bad})
    with pytest.raises(TypeError, match="log must be a Log, not list"):
        estimate_rates([])
    with pytest.raises(TypeError, match="classifier must have predict_proba"):
        estimate_rates(log, method="nrest", classifier=object())


def test_what_is_passed_in_is_not_changed():
    X, y = clusters(500)
    said, right = heard(y, 4, 0.1, 0.2)
    before = X.copy(), said.copy(), right.copy()
    log = Log(X, said, right, labels=4)
    estimate_rates(log)
    estimate_rates(log, method="nrest", classifier=Known(truth(4, 0.1, 0.2), 4))
    assert all((one == two).all() for one, two in zip(before, (X, said, right), strict=True))
    found = estimate_rates(log)
    X[:], said[:], right[:] = 0, 0, False  # nor does a log change with what it was made of
    assert estimate_rates(log) == found


def test_what_they_look_like():
    rates = Rates(0.2, 0.4, 0.19, 0.21, 0.38, 0.42, 0.9, "levels", 50_000)
    assert repr(rates) == (
        "Rates(rho0=0.200 [0.190, 0.210], rho1=0.400 [0.380, 0.420], levels, 50,000 answers)"
    )
    log = Log(np.ones((4, 2)), [0, 1, 1, 0], [True, False, False, False], labels=3)
    assert repr(log) == "Log(4 answers, 3 labels, 25.0% heard right)"
    assert "no answers" in repr(Log(np.ones((0, 2)), [], [], labels=3))
