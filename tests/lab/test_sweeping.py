"""Lockstep: the same bits as one run after another, whatever the group."""

from __future__ import annotations

import threading
from functools import partial

import numpy as np
import pytest
from scipy import sparse

import onebit as ob
from onebit import testing
from onebit.algorithms.confidit import fit
from onebit.core import rounds, updates
from onebit.core.jit import COMPILED
from onebit.lab import sweeping
from onebit.lab.sweeping import _course, _run_lockstep, _Together, sweep

SMALL = ob.datasets.synnonsep(400 if COMPILED else 60, seed=3)


def weights(X, y, learners, channel=(), replicas=None, **more):
    """What learners of a group have learned, as learners by themselves."""
    kept = []
    course = _course(
        learners, (X, y), more.get("epochs", 1), more.get("order", "given"), None, channel
    )
    original = _Together.__init__

    def remember(self, *args):
        original(self, *args)
        kept.append(self)

    _Together.__init__ = remember
    try:
        runs = _run_lockstep(learners, replicas or 8, course, lambda rounds: None)
    finally:
        _Together.__init__ = original
    together = kept[0]
    return runs, [together.learner(i, one) for i, one in enumerate(learners)]


def assert_same(run, trace):
    for name, ours, theirs in zip(trace._fields, run.trace, trace, strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=name)


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("labels", "replicas", "dtype"),
    [
        (2, 4, "float32"),
        (9, 8, "float32"),
        pytest.param(9, 16, "float64", marks=pytest.mark.thorough),
        pytest.param(20, 32, "float64", marks=pytest.mark.thorough),
    ],
)  # the groups below have the others; each is compiled by itself
def test_weights_are_equal_to_the_last_bit(labels, replicas, dtype):
    rng = np.random.default_rng(labels)
    X = sparse.random(150, 40, 0.2, random_state=1, format="csr", dtype=np.float64)
    y = rng.integers(0, labels, 150)
    gammas = np.geomspace(0.01, 0.9, min(replicas, 7))
    learners = [ob.Banditron(labels, gamma=g, seed=i, dtype=dtype) for i, g in enumerate(gammas)]
    runs, taught = weights(X, y, learners, replicas=replicas)
    for one, run, other in zip(learners, runs, taught, strict=True):
        assert_same(run, ob.simulate(one, X, y))
        np.testing.assert_array_equal(one.weights, other.weights)


@pytest.mark.parametrize(
    "make",
    [
        ob.Banditron,
        ob.UCWL,
        ob.Confidit,
        pytest.param(partial(ob.Confidit, update="coordinate"), id="Confidit-coordinate"),
        ob.PNewtron,
        pytest.param(lambda *a, **k: ob.EGBandit(*a, signed=True, **k), id="EGBandit"),
        ob.AROW,
        ob.BanditPerceptron,
    ],
)
def test_weights_with_every_kind_of_update(make):
    channel = [ob.LabelNoise(0.2), ob.Silence(0.3), ob.Swap(100, 0, 1)]
    learners = [make(testing.LABELS, seed=seed) for seed in range(3)]  # as compiled for the laws
    X, y = SMALL.X, SMALL.y % testing.LABELS
    runs, taught = weights(X, y, learners, channel, epochs=2)
    for one, run, other in zip(learners, runs, taught, strict=True):
        assert_same(run, ob.simulate(one, X, y, epochs=2, channel=channel))
        np.testing.assert_array_equal(one.weights, other.weights)


def test_two_kinds_of_update_in_one_sweep():
    runs = sweep(
        ob.Confidit, SMALL, labels=9, eta=[0.1, 1, 10], update=["residual", "coordinate"], threads=1
    )
    for run in runs:
        one = ob.Confidit(9, eta=run.settings["eta"], update=run.settings["update"])
        assert_same(run, ob.simulate(one, SMALL))
    assert runs[0].trace.mistakes[-1] != runs[1].trace.mistakes[-1]


def test_the_norm_is_summed_afresh_in_lockstep_too(monkeypatch):
    from onebit.algorithms import pnewtron

    if COMPILED:
        pytest.skip("the number of updates is compiled in")
    monkeypatch.setattr(pnewtron, "FRESH_NORM_EVERY", 10)
    learners = [ob.PNewtron(9, seed=seed) for seed in range(2)]
    _, taught = weights(SMALL.X[:35], SMALL.y[:35], learners)
    for one, other in zip(learners, taught, strict=True):
        ob.simulate(one, SMALL.X[:35], SMALL.y[:35])
        np.testing.assert_array_equal(one.table.state.memory, other.table.state.memory)


def test_all_combinations_of_lists_run_in_order():
    runs = sweep(
        ob.Banditron, SMALL.X, SMALL.y, labels=9, gamma=[0.01, 0.1], seed=range(3), dtype="float64"
    )
    assert [(run.settings["gamma"], run.settings["seed"]) for run in runs] == [
        (0.01, 0), (0.01, 1), (0.01, 2), (0.1, 0), (0.1, 1), (0.1, 2),
    ]  # fmt: skip
    one = ob.Banditron(9, gamma=0.1, seed=1, dtype="float64")
    assert_same(runs[4], ob.simulate(one, SMALL.X, SMALL.y))
    assert np.isnan(runs[0].test_error)


def test_learners_of_several_kinds_come_back_in_their_order():
    learners = [
        ob.Banditron(9, seed=1),
        ob.AROW(9),
        ob.Banditron(9, seed=2),
        ob.AROW(9, r=0.1),
        ob.Banditron(9, seed=1, dtype="float64"),
    ]
    runs = sweep(learners, SMALL, order="shuffled", checkpoints=[10, 50])
    for one, run in zip(learners, runs, strict=True):
        assert one.round == 0  # they stay as they are
        assert_same(run, ob.simulate(one, SMALL, order="shuffled", checkpoints=[10, 50]))


@pytest.mark.compiled
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_and_groups_change_nothing(threads):
    runs = sweep(ob.Banditron, SMALL, labels=9, seed=range(11), threads=threads)
    again = sweep(ob.Banditron, SMALL, labels=9, seed=range(11))
    for run, same in zip(runs, again, strict=True):
        assert_same(run, same.trace)


def test_a_table_too_large_to_share_runs_one_by_one(monkeypatch):
    runs = sweep(ob.Banditron, SMALL, labels=9, seed=range(3), threads=1)
    monkeypatch.setattr(sweeping, "LARGEST_TABLE", 1000)
    monkeypatch.setattr(sweeping, "_run_lockstep", None)
    for run, same in zip(
        runs, sweep(ob.Banditron, SMALL, labels=9, seed=range(3), threads=1), strict=True
    ):
        assert_same(run, same.trace)


def test_late_feedback_runs_one_by_one():
    channel = [ob.Delay(5)]
    runs = sweep(ob.UCWL, SMALL, labels=9, seed=range(3), channel=channel, threads=1)
    for seed, run in enumerate(runs):
        assert_same(run, ob.simulate(ob.UCWL(9, seed=seed), SMALL, channel=channel))


def test_the_test_error_is_that_of_the_greedy_rule():
    runs = sweep(ob.AROW, SMALL, labels=9, r=[0.1, 1, 10], test=(SMALL.X[:50], SMALL.y[:50]))
    for r, run in zip([0.1, 1, 10], runs, strict=True):
        one = ob.AROW(9, r=r)
        ob.simulate(one, SMALL)
        assert run.test_error == np.mean(one.predict(SMALL.X[:50]) != SMALL.y[:50])


def test_empty_rows_teach_nothing_in_lockstep():
    X = sparse.csr_matrix(SMALL.X, copy=True)[:60].tolil()
    X[5] = 0
    X = X.tocsr()
    X.eliminate_zeros()
    learners = [ob.Banditron(9, seed=seed) for seed in range(3)]
    runs, taught = weights(X, SMALL.y[:60], learners)
    for one, run, other in zip(learners, runs, taught, strict=True):
        assert_same(run, ob.simulate(one, X, SMALL.y[:60]))
        np.testing.assert_array_equal(one.weights, other.weights)
        assert run.trace.updates[-1] == 59


@pytest.mark.filterwarnings("ignore:overflow|invalid")
def test_scores_that_overflow_are_the_same_in_lockstep():
    X = np.full((40, 6), 9e14)
    X[::2] *= -1
    y = np.arange(40) % 3
    learners = [ob.Banditron(3, gamma=1e-3 * (1 + seed), seed=seed) for seed in range(4)]
    for one in learners:  # weights so large that scores are infinite, and differences no numbers
        one.table.reserve(6)
        one.table.state.table[:] = 3e37
        one.table.state.table[1] *= -1
    course = _course(learners, (X, y), 1, "given", None)
    runs = _run_lockstep(learners, 4, course, lambda rounds: None)
    for one, run in zip(learners, runs, strict=True):
        assert_same(run, ob.simulate(one, X, y))


@pytest.mark.skipif(COMPILED, reason="one update is made by hand")
@pytest.mark.parametrize(
    ("learner", "update", "twice"),
    [
        (ob.Banditron, updates.add, [(0.5,), (0.25,)]),
        (ob.SOBA, updates.regress, [(1.0, 1.0), (-0.5, 2.0)]),
        (ob.Confidit, fit, [(0.5, 1.0), (-0.2, 1.0)]),
    ],
)
def test_two_updates_of_one_label_in_a_round_are_both_made(learner, update, twice):
    alone = learner(3, features=5)
    made = [learner(3, features=5), learner(3, features=5)]
    together = _Together(made, 4, 5)
    replica = together.records[1]
    before = together.tables.copy()
    row = rounds.Row(np.array([1, 3], np.uint32), np.array([2, 1], np.float32), 0, 2)
    for i, coefficients in enumerate(twice):
        update(alone.table.state, row, 1, *coefficients)
        update(replica, row, 1, *coefficients)
        assert (together.tables == before).all() == (i == 0)  # the first waits
    rounds.settle(alone.params, replica, row)
    np.testing.assert_array_equal(
        together.learner(0, made[0]).table.weights(), alone.table.weights()
    )
    np.testing.assert_array_equal(together.tables[..., 1:], before[..., 1:])


def test_progress_counts_every_round_of_every_run():
    heard = []
    runs = sweep(ob.Banditron, SMALL, labels=9, seed=range(5), progress=heard.append)
    assert sum(heard) == 5 * runs[0].trace.rounds[-1]
    heard.clear()
    sweep(ob.Banditron, SMALL, labels=9, seed=[1], progress=heard.append)
    assert sum(heard) == len(SMALL.y)


@pytest.mark.compiled
def test_an_interrupt_stops_all_threads():
    def interrupt(rounds):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(ob.Banditron, SMALL, labels=9, seed=range(40), progress=interrupt, threads=2)
    assert threading.active_count() < 10


@pytest.mark.parametrize(
    ("args", "more", "words"),
    [
        ((int, SMALL), {}, "learner's class"),
        (([], SMALL), {}, "a list of learners"),
        (([3], SMALL), {}, "a list of learners"),
        (([ob.AROW(9)], SMALL), {"r": [1]}, "go with a class"),
        ((ob.AROW, SMALL.X), {"labels": 9}, "X and y"),
        ((ob.AROW, SMALL), {"labels": 9, "r": []}, "empty"),
        ((ob.AROW, SMALL), {"labels": 9, "r": [1, -1]}, "r must"),
        ((ob.AROW, SMALL), {"labels": 9, "threads": 0}, "threads"),
        ((ob.AROW, SMALL), {"labels": 9, "epochs": 0}, "epochs"),
        ((ob.AROW, SMALL.X, SMALL.y[:-1]), {"labels": 9}, "rows and y"),
        ((ob.AROW, SMALL), {"labels": 4}, "labels"),
        ((ob.AROW, SMALL), {"labels": 9, "channel": [ob.Flip(0.1, 0.1)]}, "Flip"),
        ((ob.AROW, SMALL), {"labels": 9, "checkpoints": [5, 3]}, "checkpoints"),
    ],
)
def test_mistakes_of_use_are_named(args, more, words):
    with pytest.raises((TypeError, ValueError), match=words):
        sweep(*args, **more)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda X, y: ob.sweep("Banditron", X, y, labels=2), "a list of learners, not 'Banditron'"),
        (lambda X, y: ob.sweep(ob.Banditron(2), X, y), "or a list of learners, not"),
        (
            lambda X, y: ob.sweep([ob.Banditron, ob.UCWL], X, y, labels=2),
            "or a list of learners, not",
        ),
        (lambda X, y: ob.sweep(X, y, ob.Banditron), "needs a class such as Banditron"),
        (lambda X, y: ob.sweep(ob.Banditron, X, y), "the labels of Banditron too: labels="),
        (lambda X, y: ob.sweep(ob.Banditron, X, y, labels=2, test=X), "test is a Dataset or a p"),
        (lambda X, y: ob.sweep(ob.Banditron, X, y, labels=2, progress=1), "progress must be a f"),
        (lambda X, y: ob.sweep(ob.Banditron, None, y, labels=2), "not None"),
    ],
)
def test_a_slip_gets_a_sentence_that_helps(call, words):
    with pytest.raises(TypeError, match=words):
        call(np.eye(4), [0, 1, 0, 1])
