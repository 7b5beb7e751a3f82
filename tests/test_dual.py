"""Kernels: the dual form is the primal one where both exist, and its slow twin everywhere."""

from __future__ import annotations

import naive
import numpy as np
import pytest

import onebit as ob
from onebit import persist, race
from onebit._dual import NUMBERS, kernel_named
from onebit._jit import COMPILED
from onebit._random import uniform

K, D = 5, 7
COMMON = {"labels": K, "features": D, "dtype": "float64"}
ALL = {"budget": 1000, "kernel": "linear"}
MANY = 300 if COMPILED else 60


def rows(count=300, seed=0, repeats=0):
    """Contexts of unit length; the last so many have been there before."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, D)) * (rng.random((count, D)) < 0.7) + 0.01
    X /= np.linalg.norm(X, axis=1)[:, None]
    if repeats:
        X[-repeats:] = X[rng.integers(0, count - repeats, repeats)]
    y = (X @ rng.normal(size=(D, K))).argmax(axis=1)
    return X, y


def run(learner, X, y):
    """Round by round; what was said, and the scores before each."""
    said, scores = [], []
    for x, label in zip(X, y, strict=True):
        scores.append(learner.scores([x])[0])
        decision = learner.decide(x)
        learner.learn(decision, right=decision.label == label)
        said.append(decision.label)
    return said, np.array(scores)


# The same as the primal form, with a linear kernel.

PAIRS = [
    (ob.Banditron, {"gamma": 0.2}, {}),
    (ob.BanditPerceptron, {}, {}),
    (ob.BanditPerceptron, {"use_correct": True}, {}),
] + [
    (ob.Confidit, {"alpha": alpha, "project": project, "eta": 0.5, **more}, {"form": "full"})
    for alpha in (1.0, 0.25, 0.0)
    for project in (False, True)
    for more in ({}, {"width": "theory", "U": 0.1})
    if more == {} or alpha == 0.25
]


@pytest.mark.parametrize(("make", "settings", "form"), PAIRS)
def test_a_linear_kernel_is_the_primal_form(make, settings, form):
    X, y = rows(MANY, repeats=MANY // 3)
    one = run(make(**settings, **form, **COMMON), X, y)
    two = run(make(**settings, **ALL, **COMMON), X, y)
    assert one[0] == two[0]
    assert np.abs(one[1] - two[1]).max() < 1e-8 * max(np.abs(one[1]).max(), 1)


@pytest.mark.parametrize("keep", [0.7, 0.1])
def test_forgetting_is_the_primal_forms(keep):
    settings = {"alpha": 0.25, "project": True, "reg": 0.5}
    X, y = rows(MANY, repeats=20)
    one, two = (ob.Confidit(**settings, **f, **COMMON) for f in ({"form": "full"}, ALL))
    for learner in (one, two):
        run(learner, X, y)
        learner.forget(1 - keep)
    assert np.abs(one.scores(X) - two.scores(X)).max() < 1e-8
    assert run(one, X, y)[0] == run(two, X, y)[0]


# The same as a twin that remembers every lesson and solves anew each time.

TWINS = {
    "Banditron": (naive.KernelBanditron, {}, {}),
    "BanditPerceptron": (naive.KernelBanditPerceptron, {}, {}),
    "Confidit": (naive.KernelConfidit, {"reg": 0.3}, {"reg": 0.3}),
    "UCWL": (
        naive.KernelUCWL,
        {"eta": 0.9, "C": 3.0, "k": 0.5},
        {"eta": 0.9, "C": 3.0, "width": 0.5},
    ),
}
SPELLED = {
    "linear": ("linear", {}),
    "rbf": ("rbf(gamma=2)", {"gamma": 2}),
    "polynomial": (
        "polynomial(degree=2, gamma=0.7 constant=0.5)",
        {"degree": 2, "gamma": 0.7, "constant": 0.5},
    ),
    "rational": ("rational(nu=0.9)", {"nu": 0.9}),
}


def compare(name, kernel, X, y, seed=3, **kept):
    twin_type, settings, its = TWINS[name]
    spelling, numbers = SPELLED[kernel]
    learner = getattr(ob, name)(**settings, **COMMON, kernel=spelling, seed=seed, **kept)
    twin = twin_type(K, naive.kernel(kernel, **numbers), **its, **kept)
    for t, (x, label) in enumerate(zip(X, y, strict=True)):
        want = twin.scores(x)
        assert np.allclose(learner.scores([x])[0], want, rtol=1e-8, atol=1e-8)
        decision, choice = learner.decide(x), twin.decide(x, t, lambda s, t=t: uniform(seed, t, s))
        assert decision.label == choice.label
        assert abs(decision.propensity - choice.propensity) < 1e-12
        right = decision.label == label
        learner.learn(decision, right=right)
        twin.learn(x, choice, right, t, lambda s: 0.0)
    return learner, twin


@pytest.mark.parametrize("kernel", SPELLED)
@pytest.mark.parametrize("name", TWINS)
def test_a_learner_is_its_twin(name, kernel):
    compare(name, kernel, *rows(60, repeats=20), budget=100)


@pytest.mark.parametrize("remove", ["oldest", "smallest"])
@pytest.mark.parametrize("name", TWINS)
def test_what_was_removed_was_never_learned(name, remove):
    X, y = rows(90, seed=2, repeats=30 if remove == "oldest" else 0)
    learner, twin = compare(name, "rbf", X, y, budget=8, remove=remove)
    assert learner.weights.shape == (K, 8) and len(twin.stored) == 8


@pytest.mark.parametrize("name", ["Confidit", "Banditron"])
def test_removal_at_random_is_fair_and_by_the_seed(name):
    X, y = rows(300, seed=4)
    make = getattr(ob, name)
    kept = []
    for seed in (1, 1, 2):
        learner = make(**COMMON, kernel="rbf", budget=20, remove="random", seed=seed)
        ob.simulate(learner, X, y)
        kept.append(sorted(_contexts(learner)))
        assert len(kept[-1]) == 20
    assert kept[0] == kept[1]
    assert kept[0] != kept[2]
    ages = []
    for seed in range(30 if COMPILED else 6):
        learner = make(**COMMON, kernel="rbf", budget=20, remove="random", seed=seed)
        ob.simulate(learner, X, y)
        ages += [300 - np.flatnonzero((x == X).all(axis=1))[0] for x in _contexts(learner)]
    assert 15 < np.mean(ages) < 25  # 20 a time's geometric law


def _contexts(learner):
    arrays = learner._arrays()
    top, free, _ = arrays["count"]
    return [tuple(arrays["x"][:, slot]) for slot in range(top) if slot != free]


def test_the_inverse_does_not_drift():
    X, y = rows(200, seed=5)
    learner = ob.Confidit(**COMMON, kernel="rbf(gamma=0.5)", budget=50, reg=0.01)
    ob.simulate(learner, X, y, epochs=30 if COMPILED else 3)
    arrays = learner._arrays()
    contexts = arrays["x"].T
    gram = np.exp(-0.5 * ((contexts[:, None] - contexts) ** 2).sum(axis=2))
    for first, end in zip(arrays["start"][:-1], arrays["start"][1:], strict=True):
        own = arrays["order"][first:end]
        want = np.linalg.inv(gram[np.ix_(own, own)] + np.diag(arrays["noise"][own]))
        assert np.allclose(arrays["G"][own, : end - first], want, rtol=1e-8, atol=1e-8)


def test_a_context_that_comes_again_is_not_stored_again():
    X, y = rows(40, seed=6)
    for make in (ob.Confidit, ob.Banditron):
        learner = make(**COMMON, kernel="rbf", budget=30)
        ob.simulate(learner, X[:5], y[:5], epochs=40)
        assert learner.weights.shape[1] <= 5 * (K if make is ob.Confidit else 1)


def test_a_context_from_which_nothing_was_learned_is_not_stored():
    learner = ob.BanditPerceptron(**COMMON, kernel="rbf")
    learner.learn(learner.decide(rows(1)[0][0]), right=True)  # a claim that was right
    assert learner.weights.shape == (K, 0)


# What kernels are for.


def test_a_kernel_learns_what_lines_cannot():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(2000 if COMPILED else 400, 2))
    y = ((X[:, 0] > 0) != (X[:, 1] > 0)).astype(int)
    kernels = {"kernel": "rbf(gamma=5)", "budget": 300}
    for make, settings in ((ob.Confidit, {"reg": 0.1}), (ob.UCWL, {}), (ob.Banditron, {})):
        errors = []
        for more in ({}, kernels):
            learner = make(K, **settings, **more, dtype="float64")
            trace = ob.simulate(learner, X, y, checkpoints=[len(y) // 2])
            errors.append(np.diff(trace.mistakes)[-1] / (len(y) // 2))
        assert errors[0] > 0.35 and errors[1] < 0.6 * errors[0], (make, errors)


# Settings.


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("linear", "linear"),
        ("rbf", "rbf(gamma=1.0)"),
        (" rbf( gamma=2 ) ", "rbf(gamma=2.0)"),
        ("rbf()", "rbf(gamma=1.0)"),
        ("rational(nu=.25)", "rational(nu=0.25)"),
        ("polynomial(constant=0,degree=2)", "polynomial(degree=2 gamma=1.0 constant=0.0)"),
    ],
)
def test_a_kernel_is_spelled_as_a_call(text, full):
    kernel, spelled = kernel_named(text)
    assert spelled == full and kernel_named(full) == (kernel, full)
    assert ob.Banditron(3, kernel=text).settings["kernel"] == full


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cosine", r"one of 'linear', 'polynomial', 'rbf', 'rational', not 'cosine'"),
        ("rbf(gamma=2", "one of 'linear'"),
        ("rbf(2)", r"rbf has gamma, as in 'rbf\(gamma=1.0\)'"),
        ("linear(gamma=2)", "linear has no numbers"),
        ("rbf(nu=2)", "rbf has gamma"),
        ("rbf(gamma=x)", "gamma must be a number, not 'x'"),
        ("rbf(gamma=0)", "gamma must be above 0, not 0.0"),
        ("rbf(gamma=nan)", "gamma must be above 0"),
        ("rational(nu=1)", "nu must be above 0 and below 1"),
        ("polynomial(degree=2.5)", "degree must be a whole number, not '2.5'"),
        ("polynomial(degree=0)", "degree must be between 1 and 100"),
        ("polynomial(constant=-1)", "constant must be at least 0"),
    ],
)
def test_a_wrong_kernel_is_answered_with_what_would_be_right(text, words):
    with pytest.raises(ValueError, match=words):
        ob.UCWL(3, kernel=text)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"budget": 0}, "budget must be between 1 and 1000000, not 0"),
        ({"remove": "newest"}, "remove must be one of 'oldest', 'random', 'smallest'"),
    ],
)
def test_other_wrong_settings_are_named(settings, words):
    with pytest.raises(ValueError, match=words):
        ob.Confidit(3, kernel="rbf", **settings)
    with pytest.raises(TypeError, match="budget must be a whole number"):
        ob.Confidit(3, kernel="rbf", budget=10.5)
    with pytest.raises(TypeError, match="kernel must be a name"):
        ob.Confidit(3, kernel=5)


def test_kernels_pass_through_the_command_line():
    entrant = race.entrant("Confidit:kernel=rbf(gamma=2):budget=50:reg=0.1")
    assert entrant.settings == {"kernel": "rbf(gamma=2)", "budget": 50, "reg": 0.1}
    assert entrant.make("digits", 3, 0).settings["budget"] == 50
    assert "kernel" not in ob.Banditron(3).settings


@pytest.mark.parametrize("budget", [10**6, 500_000])
def test_more_than_the_memory_is_refused_before_it_is_asked_for(budget):
    with pytest.raises(MemoryError, match="smaller budget="):
        ob.Confidit(3, kernel="rbf", budget=budget, features=64)


# Contexts.


@pytest.mark.parametrize(
    ("kernel", "length", "words"),
    [
        ("rational", 1.5, "shorter than 1.414, not of length 1.5"),
        ("polynomial", 1e85, "no numbers for a context of length 1e[+]85"),
    ],
)
def test_contexts_that_a_kernel_has_no_number_for_are_refused(kernel, length, words):
    X, y = rows(20)
    learner = ob.Confidit(**COMMON, kernel=kernel)
    run(learner, X, y)
    decision = learner.decide(X[0])
    before = persist.pack(*learner._dump())
    long = X.copy()
    long[-1] *= length
    decision.values[:] *= length  # a decision travels; somebody may have changed it
    for call in (
        lambda: learner.decide(long[-1]),
        lambda: learner.probabilities(long[-1]),
        lambda: learner.scores(long),
        lambda: learner.predict(long),
        lambda: ob.simulate(learner, long, y),
        lambda: learner.learn(decision, right=True),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    assert persist.pack(*learner._dump()) == before


def test_a_feature_never_met_makes_a_context_longer():
    X, y = rows(30)
    narrow, wide = (ob.Confidit(K, dtype="float64", kernel="rbf") for _ in range(2))
    wide._reserve(3 * D)
    for learner in (narrow, wide):
        run(learner, X, y)
    x = ([0, 2 * D], [1.0, 0.5])
    assert np.array_equal(narrow.scores([x]), wide.scores([x]))
    assert narrow._state.table.shape[0] == D
    assert (narrow.scores([x]) != narrow.scores([([0], [1.0])])).any()


# Files.


def _dumped(name):
    learner = getattr(ob, name)(**COMMON, kernel="rbf", budget=10)
    run(learner, *rows(40))
    return learner._dump()


WRONG = {
    "a slot beyond all": ("order", lambda a: np.where(a == a.max(), 99, a)),
    "a slot twice": ("order", lambda a: np.where(a == a.max(), a.min(), a)),
    "labels out of order": ("start", lambda a: a[::-1].copy()),
    "more than the budget": ("count", lambda a: a + 1),
    "a free slot beyond all": ("count", lambda a: np.array([a[0], 99, a[2]])),
    "a negative count": ("count", lambda a: np.array([-1, 0, 0])),
    "other labels": ("coef", lambda a: a[:, :2].copy()),
    "other features": ("x", lambda a: a[:2].copy()),
    "another type": ("G", lambda a: a.astype(np.float32)),
    "not a number": ("G", lambda a: a * np.nan),
    "none at all": ("G", None),
}


@pytest.mark.parametrize("name", WRONG)
def test_arrays_that_do_not_fit_are_refused(name):
    head, arrays = _dumped("Confidit")
    ob.Learner._restore(head, arrays)
    array, change = WRONG[name]
    arrays = {k: v for k, v in arrays.items() if k != array or change}
    if change:
        arrays[array] = change(arrays[array])
    with pytest.raises(ValueError, match="this model's weights"):
        ob.Learner._restore(head, arrays)


def test_arrays_of_first_order_that_do_not_fit_are_refused():
    head, arrays = _dumped("Banditron")
    ob.Learner._restore(head, arrays)
    with pytest.raises(ValueError, match="do not fit"):
        ob.Learner._restore(head, {**arrays, "noise": np.zeros(11)})
    assert set(NUMBERS) == {"linear", "polynomial", "rbf", "rational"}
