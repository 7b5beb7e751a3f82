"""The dual form is the primal one where both exist, and its slow twin everywhere."""

from __future__ import annotations

import gc
import pickle
import weakref
from functools import partial

import numpy as np
import pytest
from helpers import naive

import onebit as ob
from onebit import testing
from onebit.core.draws import uniform
from onebit.core.jit import COMPILED
from onebit.learner.files import restore
from onebit.learner.laying import lay_out
from onebit.learner.table import NO_MAP
from onebit.registry.recipes import Recipe, read_recipe, recipe_of
from onebit.storage.kernels import NUMBERS
from onebit.testing import model_bytes, saved_state

K, D = 5, 7
COMMON = {"labels": K, "features": D, "dtype": "float64"}
ALL = {"budget": 1000, "kernel": "linear"}
# Compiled, the law that compiled and plain runs are equal stands for these, but in `--all`.
pytestmark = [pytest.mark.exhaustive] if COMPILED else []
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
PAIRS += [(ob.UCWL, {}, {"form": "full"})]


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
    arrays = learner.table.arrays()
    top, free, _ = arrays["count"]
    return [tuple(arrays["x"][:, slot]) for slot in range(top) if slot != free]


def test_the_inverse_does_not_drift():
    X, y = rows(200, seed=5)
    learner = ob.Confidit(**COMMON, kernel="rbf(gamma=0.5)", budget=50, reg=0.01)
    ob.simulate(learner, X, y, epochs=30 if COMPILED else 3)
    arrays = learner.table.arrays()
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
    recipe = recipe_of("Confidit:kernel=rbf(gamma=2):budget=50:reg=0.1")
    assert recipe.settings == {"kernel": "rbf(gamma=2)", "budget": 50, "reg": 0.1}
    assert recipe.make(3).settings["budget"] == 50
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
    before = model_bytes(learner)
    long = X.copy()
    long[-1] *= length
    decision.row[1][:] *= length  # a decision travels; somebody may have changed it
    for call in (
        lambda: learner.decide(long[-1]),
        lambda: learner.propensities(long[-1]),
        lambda: learner.scores(long),
        lambda: learner.predict(long),
        lambda: ob.simulate(learner, long, y),
        lambda: learner.learn(decision, right=True),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    assert model_bytes(learner) == before


def test_a_feature_never_met_makes_a_context_longer():
    X, y = rows(30)
    narrow, wide = (ob.Confidit(K, dtype="float64", kernel="rbf") for _ in range(2))
    wide.table.reserve(3 * D)
    for learner in (narrow, wide):
        run(learner, X, y)
    x = ([0, 2 * D], [1.0, 0.5])
    assert np.array_equal(narrow.scores([x]), wide.scores([x]))
    assert narrow.table.state.table.shape[0] == D
    assert (narrow.scores([x]) != narrow.scores([([0], [1.0])])).any()


# Files.


def _dumped(name):
    learner = getattr(ob, name)(**COMMON, kernel="rbf", budget=10)
    run(learner, *rows(40))
    return saved_state(learner)


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
    restore(head, arrays)
    array, change = WRONG[name]
    arrays = {k: v for k, v in arrays.items() if k != array or change}
    if change:
        arrays[array] = change(arrays[array])
    with pytest.raises(ValueError, match="this model's weights"):
        restore(head, arrays)


def test_arrays_of_first_order_that_do_not_fit_are_refused():
    head, arrays = _dumped("Banditron")
    restore(head, arrays)
    with pytest.raises(ValueError, match="do not fit"):
        restore(head, {**arrays, "noise": np.zeros(11)})
    assert set(NUMBERS) == {"linear", "polynomial", "rbf", "rational"}


# Functions as kernels.


def rbf(X, Y, gamma=2.0):
    """Sums go feature by feature: a feature that is nowhere does not change a bit."""
    return np.exp(-gamma * ((X.T[:, :, None] - Y.T[:, None, :]) ** 2).sum(axis=0))


def twins(name, **settings):
    """A learner with the kernel that is built in, and one with the function."""
    settings = {**(TWINS[name][1] if name in TWINS else {}), **COMMON, **settings}
    return [getattr(ob, name)(kernel=kernel, **settings) for kernel in ("rbf(gamma=2)", rbf)]


@pytest.mark.parametrize("kept", [{}, {"budget": 10}, {"budget": 10, "remove": "smallest"}])
@pytest.mark.parametrize("name", [*TWINS, "Newtron"])
def test_a_function_is_the_kernel_it_works_out(name, kept):
    X, y = rows(100, repeats=30)
    X[::9] = 0  # nobody is asked about nothing
    named, given = twins(name, **kept)
    one, two = run(named, X, y), run(given, X, y)
    assert one[0] == two[0]
    assert np.abs(one[1] - two[1]).max() < 1e-9
    named, given = twins(name, **kept)
    traces = [ob.simulate(learner, X, y) for learner in (named, given)]
    assert all((a == b).all() for a, b in zip(*traces, strict=True))
    assert np.abs(named.scores(X) - given.scores(X)).max() < 1e-9
    assert np.abs(named.weights - given.weights).max() < 1e-9
    for learner in (named, given):
        learner.forget(0.4)
    assert np.abs(named.scores(X) - given.scores(X)).max() < 1e-9


def test_a_projection_that_fades_asks_the_function_too():
    named, given = twins("Confidit", project=True, alpha=0.25)
    X, y = rows(60)
    for learner in (named, given):
        run(learner, X, y)
        learner.forget(0.3)
    assert np.abs(named.scores(X) - given.scores(X)).max() < 1e-9


@pytest.mark.parametrize("name", ["Confidit", "Banditron"])
def test_a_learner_with_a_function_is_saved_without_it(name, tmp_path):
    X, y = rows(100)
    named, given = twins(name, budget=20)
    assert given.settings["kernel"] == "callable rbf"
    for learner in (named, given):
        ob.simulate(learner, X[:50], y[:50])
    decision = given.decide(X[0])
    named.decide(X[0])
    given.save(tmp_path / "k.onebit")
    others = [
        ob.load(tmp_path / "k.onebit", kernel=rbf),
        given.copy(),
        pickle.loads(pickle.dumps(given)),
    ]
    want = run(named, X[50:], y[50:])
    for learner in others:
        assert learner.settings == given.settings
        said, scores = run(learner, X[50:], y[50:])
        assert said == want[0] and np.abs(scores - want[1]).max() < 1e-9
        learner.learn(decision, right=True)  # they are the same learner
    assert given.round == 51


def test_what_load_cannot_know_it_asks_for(tmp_path):
    path = tmp_path / "k.onebit"
    given = ob.UCWL(3, kernel=partial(rbf, gamma=3))
    assert given.settings["kernel"] == "callable rbf(gamma=3)"
    given.save(path)
    assert ob.load(path, kernel=partial(rbf, gamma=3)).settings == given.settings
    for kernel, words in (
        ({}, r"'callable rbf\(gamma=3\)' is a function.*load\(path, kernel=...\)"),
        ({"kernel": 5}, "kernel must be a function again, not 5"),
        ({"kernel": "rbf"}, "kernel must be a function again, not 'rbf'"),
        ({"kernel": rbf}, r"saved with kernel 'callable rbf\(gamma=3\)', not 'callable rbf'"),
        ({"kernel": partial(rbf, gamma=3), "budget": len}, "saved completely: leave out budget"),
    ):
        with pytest.raises(ValueError, match=words):
            ob.load(path, **kernel)
    for learner in (ob.UCWL(3, kernel="rbf"), ob.UCWL(3), ob.Perceptron(3)):
        learner.save(path)
        with pytest.raises(ValueError, match="was saved completely: leave out kernel"):
            ob.load(path, kernel=rbf)


def test_functions_are_named_in_settings():
    class Kernel:
        def __call__(self, X, Y):
            return rbf(X, Y)

    for kernel, name in (
        (Kernel(), "callable Kernel"),
        (lambda X, Y: X @ Y.T, "callable <lambda>"),
        (partial(rbf, gamma=np.float64(0.5)), f"callable rbf(gamma={np.float64(0.5)!r})"),
        (partial(partial(rbf, [1]), Y=None), "callable rbf(list, Y=NoneType)"),
    ):
        assert ob.Banditron(3, kernel=kernel).settings["kernel"] == name
    one, two = ob.Banditron(3, kernel=rbf), ob.Banditron(3, kernel=partial(rbf, gamma=3))
    with pytest.raises(ValueError, match="made by another learner"):
        one.learn(two.decide([1.0]), right=True)


def test_functions_see_rows_as_wide_as_is_known():
    seen = []

    def look(X, Y):
        seen.append((X, Y))
        return rbf(X, Y)

    learner = ob.Banditron(3, kernel=look, gamma=0.5)
    run(learner, [[1.0, 2.0], [0.0, 3.0]], [0, 1])
    assert all(X.flags.c_contiguous and X.dtype == np.float64 for pair in seen for X in pair)
    decision = learner.decide(([4], [5.0]))
    assert seen[-1][0].tolist() == [[0, 0, 0, 0, 5]]
    assert seen[-1][1].tolist() == [[1, 2, 0, 0, 0], [0, 3, 0, 0, 0], [0, 0, 0, 0, 5]]
    learner.learn(decision, right=False)
    scores = learner.scores([([0, 6], [1.0, 5.0])])
    assert [X.shape for X in seen[-1]] == [(1, 7), (4, 7)]  # only for this once
    assert learner.table.state.table.shape[0] == 5
    named = ob.Banditron(3, kernel="rbf(gamma=2)", gamma=0.5)
    weights, arrays = learner.table.weights(), learner.table.arrays()
    memory = learner.table.state.memory
    lay_out(named, named.table.storage, None, memory, arrays, NO_MAP, len(weights), weights)
    assert np.abs(named.scores([([0, 6], [1.0, 5.0])]) - scores).max() < 1e-6


@pytest.mark.thorough
def test_the_laws_hold_for_functions_too():
    def make(labels, **common):
        return ob.Confidit(labels, kernel=rbf, budget=15, remove="smallest", **common)

    for law in testing.LAWS:
        if law is not testing.saving_loading_and_going_on_equals_never_stopping:
            law(make)


def _failing(how):
    """A kernel that works for short contexts, and is made fail by long ones."""

    def kernel(X, Y):
        values = rbf(X, Y)
        return how(values) if np.abs(X).max() > 8 else values

    return kernel


def _divide(values):
    raise ZeroDivisionError("too much")


def _last_below_zero(values):
    values[0, -1] = -0.5
    return values


FAILURES = {
    "it raises": (_divide, ZeroDivisionError, "too much"),
    "another shape": (
        lambda v: v[0],
        ValueError,
        r"of shape \(1, .* not ndarray of",
    ),
    "transposed": (lambda v: v.T, ValueError, "one for each pair of rows"),
    "one too few": (lambda v: v[:, 1:], ValueError, "one for each pair of rows"),
    "ragged": (lambda v: [[1.0], [1.0, 2.0]], ValueError, "not list of float64"),
    "complex": (lambda v: v * 1j, ValueError, "complex128"),
    "nothing": (lambda v: None, ValueError, "not NoneType of object"),
    "nan": (lambda v: v * np.nan, ValueError, "are not finite"),
    "infinite": (lambda v: v + np.inf, ValueError, "are not finite"),
    "negative": (_last_below_zero, ValueError, "is -0.5 for a context and itself"),
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("name", [*TWINS, "Newtron"])
def test_what_a_function_cannot_say_is_raised_and_nothing_is_learned(name, failure):
    how, error, words = FAILURES[failure]
    more = {"project": True, "width": "theory", "alpha": 0.25} if name == "Confidit" else {}
    learner = getattr(ob, name)(**COMMON, kernel=_failing(how), **more)
    X, y = rows(20)
    run(learner, X, y)
    decision, open_one = learner.decide(X[0]), learner.decide(X[1])
    before = model_bytes(learner)
    long = np.concatenate([[90 * X[0]], X])
    truth = np.concatenate([[0], y])
    decision.row[1][:] *= 90  # a decision travels; somebody may have changed it
    for call in (
        lambda: learner.decide(long[0]),
        lambda: learner.propensities(long[0]),
        lambda: learner.scores(long),
        lambda: learner.predict(long),
        lambda: learner.learn(decision, right=True),
        lambda: learner.learn(decision, label=1),
        lambda: ob.simulate(learner, long, truth, checkpoints=[5]),  # no round after it either
        lambda: ob.simulate(learner, long, truth, checkpoints=[5], channel=[ob.Silence(0.1)]),
        lambda: ob.sweep([learner], long, truth),
    ):
        with pytest.raises(error, match=words):
            call()
        assert model_bytes(learner) == before
    learner.learn(open_one, right=False)  # and it goes on
    run(learner, X, y)


def test_functions_may_be_swept():
    X, y = rows(40)
    kernels = ["rbf(gamma=2)", rbf, partial(rbf, gamma=1)]
    runs = ob.sweep(ob.Banditron, X, y, labels=K, kernel=kernels, seed=[0, 1], test=(X, y))
    names = [one.settings["kernel"] for one in runs]
    assert names == ["rbf(gamma=2.0)"] * 2 + ["callable rbf"] * 2 + ["callable rbf(gamma=1)"] * 2
    for one, two in zip(runs[:2], runs[2:4], strict=True):
        assert (one.trace.mistakes == two.trace.mistakes).all() and one.test_error == two.test_error


def test_where_only_plain_settings_can_be_said_functions_are_refused_kindly(tmp_path):
    path = tmp_path / "r.toml"
    path.write_text('learner = "UCWL"\n[settings]\nkernel = "callable rbf"\n')
    X, y = rows(30)
    for call, words in (
        (lambda: read_recipe(path), "'callable rbf' is a function, which a file cannot store"),
        (
            lambda: recipe_of("UCWL:kernel=callable rbf"),
            "is a function, which a file cannot store",
        ),
        (lambda: recipe_of("UCWL:kernel=laplacian"), "kernel must be one of 'linear', "),
        (
            lambda: ob.tune(ob.UCWL, X, y, grid={"kernel": [rbf]}),
            "a function can only be passed in Python",
        ),
        (lambda: Recipe(ob.UCWL, {"kernel": rbf}).save(path), "a recipe cannot store a function"),
    ):
        with pytest.raises(ValueError, match=words):
            call()


def test_a_learner_with_a_function_is_forgotten_when_nobody_holds_it():
    learner = ob.Banditron(3, kernel=rbf)
    learner.decide([1.0])
    form = weakref.ref(learner.table.storage)
    del learner
    gc.collect()
    assert form() is None


def test_scikit_learns_kernels_will_do():
    pairwise = pytest.importorskip("sklearn.metrics.pairwise")
    X, y = rows(60)
    for kernel in (pairwise.laplacian_kernel, partial(pairwise.rbf_kernel, gamma=2)):
        learner = ob.Confidit(**COMMON, kernel=kernel, reg=0.1, budget=20)
        run(learner, X, y)
        assert learner.weights.shape == (K, 20)
    named = ob.Confidit(**COMMON, kernel="rbf(gamma=2)", reg=0.1, budget=20)
    run(named, X, y)
    assert np.abs(named.scores(X) - learner.scores(X)).max() < 1e-9
