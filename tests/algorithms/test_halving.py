"""Halving: against its twin, against what the paper proves, and what its users may do wrong."""

from __future__ import annotations

import itertools
import math
import pickle
from functools import partial
from importlib import resources
from typing import Any

import numpy as np
import pytest
from helpers import naive
from helpers.model_files import crafted, written

import onebit as ob
from onebit import testing
from onebit.algorithms.halving import _PROJECTION
from onebit.core.draws import uniform
from onebit.lab.studies.spec import parse
from onebit.learner.learning import learn_bit
from onebit.registry import recipes
from onebit.registry.recipes import read_recipe

K, d = 5, 6


def says(x, weights):
    """A hypothesis as a function; here, not inside a test, so that it can be pickled."""
    return int(np.argmax(naive.dot(weights, x)))


def whole_numbers(rng, *size):
    """Small ones: sums are exact and ties are common."""
    return rng.integers(-2, 3, size=size).astype(float)


def problem(seed, members=30, rows=200):
    """Hypotheses, contexts (some of them empty), and labels by a hypothesis that never errs."""
    rng = np.random.default_rng(seed)
    W, X = whole_numbers(rng, members, K, d), whole_numbers(rng, rows, d)
    X[::19] = 0
    best = int(rng.integers(members))
    return W, X, np.array([says(x, W[best]) for x in X]), best


def as_functions(W):
    return [partial(says, weights=weights) for weights in W]


def mixed(W):
    return [h if i % 3 else w for i, (h, w) in enumerate(zip(as_functions(W), W, strict=True))]


def projection(seed, dimensions, features=d):
    draws = [
        [uniform(seed, j, _PROJECTION + i) for j in range(features)] for i in range(dimensions)
    ]
    return 2 * np.array(draws) - 1


def rounds(learner, X, y):
    for x, label in zip(X, y, strict=True):
        decision = learner.decide(x)
        learner.learn(decision, right=decision.label == label)
        yield decision


# ------------------------------------------------------------------------------- the algorithm


@pytest.mark.parametrize("kind", [list, as_functions, mixed])
@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("project", [None, 4])
def test_it_is_its_twin(kind, noise, project):
    W, X, y, _ = problem(3, rows=120)
    P, W = (None, W) if project is None else (projection(7, project), W[:, :, :project])
    rng = np.random.default_rng(0)
    y = np.where(rng.random(len(y)) < noise, rng.integers(K, size=len(y)), y)
    twin = naive.Halving(K, d, hypotheses=list(W), P=P)
    make = partial(ob.Halving, K, hypotheses=kind(W), project=project, features=d, seed=7)
    learner, counts = make(), []
    for x, label, decision in zip(X, y, rounds(learner, X, y), strict=True):
        choice = twin.decide(x, 0, lambda stream: 0.0)
        assert (decision.label, decision.greedy, decision.propensity) == choice
        counts.append(twin.learn(x, choice, choice.label == label, 0, lambda stream: 0.0))
        assert set(np.flatnonzero(learner.alive)) == twin.alive
        assert learner.scores([x])[0].tolist() == twin.scores(x).tolist()
    assert noise == 0 or project or len(twin.alive) > 1  # it started again, and more than once
    at_once = make()
    trace = ob.simulate(at_once, X, y, checkpoints=range(1, len(y) + 1))
    assert (trace.updates == np.cumsum(counts)).all()
    assert (at_once.alive == learner.alive).all()


@pytest.mark.parametrize("seed", range(25))
def test_what_the_paper_proves(seed):
    """Some member never errs: it stays, the others go by at least one in K, and mistakes end."""
    members = [2, 10, 100][seed % 3]
    W, X, y, best = problem(seed, members, rows=80)
    learner = ob.Halving(K, hypotheses=W)
    mistakes, before = 0, members
    for label, decision in zip(y, rounds(learner, X, y), strict=True):
        mistakes += decision.label != label
        left = learner.alive.sum()
        assert learner.alive[best]
        assert left <= before and (left < before) == (decision.label != label)
        assert left <= (1 - 1 / K) ** mistakes * members + 1e-9
        before = left
    assert mistakes <= K * math.log(members)


@pytest.mark.parametrize("seed", range(8))
def test_if_all_err_it_starts_again_and_mistakes_stay_bounded(seed):
    W, X, y, _ = problem(seed, members=10, rows=300)
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(len(y)) < 0.05, rng.integers(K, size=len(y)), y)
    errors = [sum(says(x, w) != label for x, label in zip(X, y, strict=True) if x.any()) for w in W]
    learner = ob.Halving(K, hypotheses=W)
    seen = [learner.alive.sum() for _ in rounds(learner, X, y)]
    some = X.any(axis=1)
    mistakes = ob.simulate(ob.Halving(K, hypotheses=W), X[some], y[some]).mistakes[-1]
    assert min(errors) > 0 and len(W) in seen[1:]
    once = K * math.log(len(W))
    assert mistakes <= min(errors) * (once + 1) + once


def test_a_single_hypothesis_is_followed_whatever_it_says():
    learner = ob.Halving(2, hypotheses=[[[1.0], [0.0]]])
    trace = ob.simulate(learner, [[1.0], [-1.0]] * 5, [1, 1] * 5)
    assert trace.mistakes[-1] == 5 and trace.updates[-1] == 0 and learner.alive.all()


def test_a_grid_of_hypotheses_learns():
    """Two features, three labels: every matrix with entries -1, 0 and 1."""
    grid = np.array(list(itertools.product((-1, 0, 1), repeat=6))).reshape(-1, 3, 2)
    truth = np.array([[1, 0], [-1, 1], [0, -1]])
    X = np.random.default_rng(0).normal(size=(500, 2))
    learner = ob.Halving(["a", "b", "c"], hypotheses=grid)
    trace = ob.simulate(learner, X, np.array(["a", "b", "c"])[(X @ truth.T).argmax(axis=1)])
    assert trace.mistakes[-1] == trace.mistakes[6] <= 3 * math.log(3**6)
    assert learner.alive[[(h == truth).all() for h in grid]].all() and learner.alive.sum() < 10


def test_other_names_for_labels_and_features_change_nothing():
    rng = np.random.default_rng(4)  # real numbers: ties go by the order of the labels
    W, X = rng.normal(size=(30, K, d)), rng.normal(size=(60, d))
    y = np.array([says(x, W[2]) for x in X])
    order, columns = rng.permutation(K), [3, 1, 5, 0, 2, 4]
    one = ob.Halving(K, hypotheses=W)
    other = ob.Halving(order.tolist(), hypotheses=W[:, order][:, :, columns])
    for x, label in zip(X, y, strict=True):
        votes = one.scores([x])[0]
        if (votes == votes.max()).sum() > 1:
            continue
        decision, again = one.decide(x), other.decide(x[columns])
        assert decision.label == again.label
        one.learn(decision, right=decision.label == label)
        other.learn(again, right=again.label == label)
        assert (one.alive == other.alive).all()
    assert one.alive.sum() < len(W)


def test_the_order_of_the_hypotheses_does_not_matter():
    W, X, y, _ = problem(5)
    order = np.random.default_rng(0).permutation(len(W))
    one, other = ob.Halving(K, hypotheses=W), ob.Halving(K, hypotheses=W[order])
    assert (ob.simulate(one, X, y).mistakes == ob.simulate(other, X, y).mistakes).all()
    assert (one.alive[order] == other.alive).all()


def test_late_feedback_is_about_what_was_said_and_would_not_count_twice():
    W, X, y, best = problem(6)
    learner = ob.Halving(K, hypotheses=W)
    decisions = [learner.decide(x) for x in X]
    for _ in range(2):
        for decision, label in reversed(list(zip(decisions, y, strict=True))):
            learn_bit(learner, decision, learner.seed, bool(decision.label == label))
        alive = [i for i, w in enumerate(W) if _consistent(w, decisions, X, y)]
        assert np.flatnonzero(learner.alive).tolist() == alive and best in alive


def _consistent(w, decisions, X, y):
    """Never with the crowd when the crowd was wrong."""
    return not any(
        x.any() and said.label != label and says(x, w) == said.label
        for said, x, label in zip(decisions, X, y, strict=True)
    )


def test_channels_and_sweeps_take_it():
    W, X, y, _ = problem(7)
    channel = [ob.Silence(0.3), ob.Delay(5)]
    learner = ob.Halving(K, hypotheses=as_functions(W), features=d)
    trace = ob.simulate(learner, X, y, channel=channel)
    same: Any = {"labels": K, "seed": [0, 1], "channel": channel}
    runs = ob.sweep(ob.Halving, X, y, hypotheses=as_functions(W), features=d, **same)
    runs += ob.sweep(ob.Halving, X, y, hypotheses=W, **same)
    assert len(runs) == 4 and (runs[0].trace.mistakes == trace.mistakes).all()
    assert (runs[2].trace.mistakes == trace.mistakes).all()


# --------------------------------------------------------------------------------- projection


def test_a_projected_matrix_is_a_matrix():
    W, X, y, _ = problem(8)
    W = np.random.default_rng(1).normal(size=(30, K, 4))
    folded = W @ projection(5, 4) / 2
    learner = ob.Halving(K, hypotheses=W, project=4, seed=5)
    other = ob.Halving(K, hypotheses=folded)
    assert (ob.simulate(learner, X, y).mistakes == ob.simulate(other, X, y).mistakes).all()
    assert (learner.alive == other.alive).all()


def test_functions_are_given_the_projected_context():
    seen = []

    def look(x):
        seen.append(x)
        return 1

    learner = ob.Halving(2, hypotheses=[look], project=3, seed=11)
    learner.decide([1.0, 0.0, -2.0])
    learner.decide(([40], [1.0]))  # contexts may be as wide as they like
    P = projection(11, 3, features=41) / math.sqrt(3)
    np.testing.assert_allclose(seen[0], P[:, 0] - 2 * P[:, 2], rtol=1e-12)
    np.testing.assert_allclose(seen[1], P[:, 40], rtol=1e-12)


def test_a_projection_keeps_a_third_of_the_squared_length_on_average():
    seen = []
    rng = np.random.default_rng(2)
    for seed in range(60):
        learner = ob.Halving(
            2, hypotheses=[lambda x: seen.append(x @ x) or 0], project=20, seed=seed
        )
        x = rng.normal(size=50)
        learner.decide(x / np.linalg.norm(x))
    assert np.mean(seen) == pytest.approx(1 / 3, rel=0.05)


def test_separable_data_stay_separable_when_projected():
    """300 features, three far apart directions, 40 dimensions: projecting the directions works."""
    rng = np.random.default_rng(3)
    centres = np.linalg.qr(rng.normal(size=(300, 3)))[0].T
    y = rng.integers(3, size=100)
    X = centres[y] + 0.02 * rng.normal(size=(100, 300))
    P = projection(9, 40, features=300) / math.sqrt(40)
    W = rng.normal(size=(50, 3, 40))
    W[17] = 3 * centres @ P.T
    learner = ob.Halving(3, hypotheses=W, project=40, seed=9)
    trace = ob.simulate(learner, X, y)
    assert learner.alive[17] and trace.mistakes[-1] <= 3 * math.log(50)


# ---------------------------------------------------------------------------------- functions


def test_the_laws_hold_for_functions_too():
    W = np.random.default_rng(3).normal(size=(8, 20, 64))

    def make(labels, *, features=None, **common):
        width = features or testing.FEATURES
        hypotheses = as_functions(W[:, :labels, :width])
        return ob.Halving(labels, hypotheses=hypotheses, features=width, **common)

    for law in testing.LAWS:
        if law is not testing.saving_loading_and_going_on_equals_never_stopping:
            law(make)


def test_functions_and_names():
    learner = ob.Halving(
        ["hot", "cold"],
        hypotheses=[lambda x, t=t: "hot" if x[0] > t else "cold" for t in range(40)],
        features=1,
    )
    degrees = np.random.default_rng(0).integers(1, 40, size=(200, 1))
    names = np.where(degrees[:, 0] > 23, "hot", "cold")
    assert ob.simulate(learner, degrees, names).mistakes[-1] <= 2 * math.log(40)
    assert learner.alive[23] and learner.predict([[24], [23]]).tolist() == ["hot", "cold"]


def test_those_removed_are_not_asked_and_none_can_touch_the_context():
    asked = []

    def first(x):
        asked.append(1)
        return 0

    def meddling(x):
        with pytest.raises(ValueError, match="read-only"):
            x[0] = 7.0
        return int(x[0])

    learner = ob.Halving(2, hypotheses=[first, meddling, meddling], features=1)
    learner.learn(learner.decide([1.0]), right=True)
    assert learner.alive.all() and len(asked) == 2
    learner.learn(learner.decide([1.0], among=[0]), right=False)
    assert learner.alive.tolist() == [False, True, True] and len(asked) == 4
    learner.decide([1.0])
    assert len(asked) == 4


def test_what_a_function_raises_is_raised_and_nothing_is_learned():
    def careful(x):
        if x[0] > 8:
            raise ZeroDivisionError("too much")
        return 0

    learner = ob.Halving(2, hypotheses=[careful, lambda x: 1, lambda x: 0], features=1)
    decision = learner.decide([1.0])
    before, round = pickle.dumps(learner.alive), learner.round
    for call in (
        lambda: learner.decide([9.0]),
        lambda: learner.predict([[9.0]]),
        lambda: learner.propensities([9.0]),
        lambda: ob.simulate(learner, [[9.0]] * 3, [1] * 3),
        lambda: ob.simulate(learner, [[9.0]] * 3, [1] * 3, channel=[ob.Silence(0.1)]),
        lambda: ob.sweep([learner], [[9.0]] * 3, [1] * 3),
    ):
        with pytest.raises(ZeroDivisionError, match="too much"):
            call()
        assert pickle.dumps(learner.alive) == before and learner.round == round
    learner.learn(decision, right=False)
    assert learner.alive.tolist() == [False, True, False]


@pytest.mark.parametrize("said", [2, -1, True, "0", None, [0], 0.5])
def test_what_is_no_label_is_refused(said):
    learner = ob.Halving(2, hypotheses=[lambda x: 0, lambda x: said], features=1)
    with pytest.raises(ValueError, match="hypothesis 1 does not name a label"):
        learner.decide([1.0])


# --------------------------------------------------------------------- labels and forgetting


@pytest.mark.parametrize("kind", [list, as_functions])
def test_a_label_that_no_hypothesis_names_is_never_said(kind):
    W, X, y, _ = problem(9)
    learner = ob.Halving(K, hypotheses=kind(W - 5), features=d)  # all scores are below 0
    X = np.abs(X)
    learner.add_label()
    assert learner.copy().labels == [0, 1, 2, 3, 4, 5]
    assert set(learner.predict(X)) <= set(range(K))
    assert learner.decide(X[1], among=[5]).label == 5  # unless there is no other
    again = learner.copy()
    assert (ob.simulate(learner, X, y).mistakes == ob.simulate(again, X, y).mistakes).all()


def test_forgetting_brings_all_back_or_does_nothing():
    W, X, y, _ = problem(10)
    learner = ob.Halving(K, hypotheses=W)
    ob.simulate(learner, X, y)
    before = learner.alive
    learner.forget(0.9)
    assert (learner.alive == before).all() and not before.all()
    learner.forget()
    assert learner.alive.all() and learner.round == len(y)
    assert ob.simulate(learner, X, y).mistakes[-1] > 0  # the hypotheses are what they were


# ------------------------------------------------------------------------------------- saving


@pytest.mark.parametrize("kind", [list, as_functions, mixed])
@pytest.mark.parametrize("project", [None, 4])
def test_a_saved_one_goes_on(tmp_path, kind, project):
    W, X, y, _ = problem(11)
    given = kind(W[:, :, : project or d])
    learner = ob.Halving(K, hypotheses=given, project=project, features=d, seed=3)
    ob.simulate(learner, X[:50], y[:50])
    learner.save(tmp_path / "h.onebit")
    again = {} if kind is list else {"hypotheses": given}
    loaded = ob.load(tmp_path / "h.onebit", **again)
    others = [loaded, learner.copy(), pickle.loads(pickle.dumps(learner))]
    decision = learner.decide(X[60])
    trace = ob.simulate(learner, X[50:], y[50:])
    for other in others:
        assert other.decide(X[60]).label == decision.label
        other.learn(decision, right=True)  # they are the same learner
        assert (ob.simulate(other, X[50:], y[50:]).mistakes == trace.mistakes).all()
        assert (other.alive == learner.alive).all() and other.settings == {"project": project}
        pairs = zip(learner.hypotheses, other.hypotheses, strict=True)
        assert all(np.array_equal(a, b) for a, b in pairs if isinstance(a, np.ndarray))
    assert (tmp_path / "h.onebit").stat().st_size < 30 * K * d * 8 + 4096


def test_what_load_cannot_know_it_asks_for(tmp_path):
    W, *_ = problem(12, members=4)
    path = tmp_path / "h.onebit"
    ob.Halving(K, hypotheses=mixed(W), features=d).save(path)
    with pytest.raises(ValueError, match=r"2 of its 4 hypotheses are functions.*hypotheses=\[..."):
        ob.load(path)
    for others in (list(W), mixed(W)[::-1], mixed(W[:3]), mixed(W + 1)):
        with pytest.raises(ValueError, match="not the hypotheses that it was saved with"):
            ob.load(path, hypotheses=others)
    with pytest.raises(ValueError, match="nothing but hypotheses again, not kernel"):
        ob.load(path, hypotheses=mixed(W), kernel=3)
    ob.Halving(K, hypotheses=W).save(path)
    assert ob.load(path, hypotheses=W).features == ob.load(path).features == d
    ob.Banditron(3).save(path)
    with pytest.raises(ValueError, match="was saved completely: leave out hypotheses"):
        ob.load(path, hypotheses=W)


@pytest.mark.parametrize(
    "arrays",
    [
        {"alive": None},
        {"linear": None},
        {"weights": None},
        {"alive": np.zeros(4, np.uint8)},
        {"alive": np.full(4, 2, np.uint8)},
        {"alive": np.ones(3, np.uint8)},
        {"alive": np.ones(4)},
        {"linear": np.ones(5, np.uint8)},
        {"linear": np.ones((4, 1), np.uint8)},
        {"linear": np.zeros(0, np.uint8), "weights": np.zeros((0, K, d))},
        {"weights": np.ones((4, K, d), np.int64)},
        {"weights": np.ones((4, K, d + 1))},
        {"weights": np.ones((4, K + 1, d))},
        {"weights": np.ones((4, 0, d))},
        {"weights": np.full((4, K, d), np.nan)},
        {"weights": np.ones(4)},
        {"more": np.ones(4)},
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path, arrays):
    learner = ob.Halving(K, hypotheses=problem(13, members=4)[0])
    assert ob.load(written(tmp_path, crafted(learner))).alive.all()
    with pytest.raises(ValueError, match="h"):
        ob.load(written(tmp_path, crafted(learner, **arrays)))


def test_another_one_does_not_take_its_decisions():
    W, X, *_ = problem(14)
    decision = ob.Halving(K, hypotheses=W).decide(X[1])
    with pytest.raises(ValueError, match="made by another learner"):
        ob.Halving(K, hypotheses=W + 1).learn(decision, right=True)


# ------------------------------------------------------------------------------ what is wrong


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({}, TypeError, "hypotheses"),
        ({"hypotheses": 3}, TypeError, "must be a list, not 3"),
        ({"hypotheses": "ab"}, TypeError, "must be a list"),
        ({"hypotheses": []}, ValueError, "there must be at least one"),
        ({"hypotheses": np.zeros((2, 3))}, ValueError, r"hypothesis 0 must be weights"),
        ({"hypotheses": [np.zeros((2, 3)), 7]}, ValueError, "hypothesis 1 .* not int"),
        ({"hypotheses": [np.zeros((3, 3))]}, ValueError, r"for 2 labels.* shape \(3, 3\)"),
        ({"hypotheses": [[[1.0], [1.0, 2.0]]]}, ValueError, "hypothesis 0 must be weights"),
        ({"hypotheses": [[["a"], ["b"]]]}, ValueError, "hypothesis 0 must be weights"),
        ({"hypotheses": [[[np.inf], [0.0]]]}, ValueError, "hypothesis 0 are not all numbers"),
        ({"hypotheses": [[[1e300], [0]]], "dtype": "float32"}, ValueError, "too large for float32"),
        ({"hypotheses": [np.eye(2), np.ones((2, 3))]}, ValueError, "features: 2 and 3"),
        ({"hypotheses": [np.eye(2)], "features": 3}, ValueError, "features=3, .* have 2"),
        ({"hypotheses": [np.eye(2)], "project": 3}, ValueError, "project=3, .* weights for 2"),
        ({"hypotheses": [np.eye(2)], "project": 0}, ValueError, "project must be between 1"),
        ({"hypotheses": [len]}, TypeError, "set their number with features="),
        ({"hypotheses": [np.eye(2)], "dtype": "int8"}, ValueError, "dtype must be one of"),
    ],
)
def test_hypotheses_that_cannot_be_are_refused(given, error, words):
    with pytest.raises(error, match=words):
        ob.Halving(2, **given)


def test_contexts_have_the_features_of_the_hypotheses():
    learner = ob.Halving(2, hypotheses=[np.eye(2)])
    for x in ([1.0, 2.0, 3.0], [1.0], ([2], [1.0])):
        with pytest.raises(ValueError, match="features="):
            learner.decide(x)


def test_where_only_settings_can_be_said_it_is_refused_kindly(tmp_path):
    words = (
        r"Halving needs hypotheses, which can only be passed in Python: onebit.Halving\(labels, hyp"
    )
    (tmp_path / "h.toml").write_text('learner = "Halving"\n')
    paper = resources.files("onebit.lab.studies") / "papers" / "banditron-2008.toml"
    study = paper.read_bytes().replace(b'learner = "Perceptron"', b'learner = "Halving"')
    for call in (
        lambda: recipes.recipe_of("halving"),
        lambda: read_recipe(tmp_path / "h.toml"),
        lambda: ob.tune(ob.Halving, np.eye(3), [0, 1, 2]),
        lambda: parse(study),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    with pytest.raises(ValueError, match="no learner 'nothing'; there are") as error:
        recipes.recipe_of("nothing")
    assert "Halving" not in str(error.value)
    assert "Halving" not in [one.learner.__name__ for one in recipes.default_recipes()]
