"""The table of weights has rows for features that occurred, wherever their indices are."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import onebit as ob
from onebit.lab.sweeping import _course
from onebit.learner.files import restore
from onebit.testing import saved_state

FAR = 2**20  # columns of a stream


@pytest.fixture(autouse=True)
def no_index_is_near(monkeypatch):
    """Small indices get places too."""
    monkeypatch.setattr("onebit.learner.table.NEAR", 0)


def words(rounds, vocabulary, labels, per_row=12, seed=0):
    """Rows of words that are hashed far apart, the first ones with every word once."""
    rng = np.random.default_rng(seed)
    columns = rng.permutation(FAR)[:vocabulary]
    drawn = rng.integers(0, vocabulary, (rounds, per_row))
    met = min(rounds * per_row, vocabulary)
    drawn.ravel()[:met] = np.arange(met)
    X = sparse.csr_matrix(
        (np.ones(drawn.size), (np.repeat(np.arange(rounds), per_row), columns[drawn].ravel())),
        shape=(rounds, FAR),
    )
    return X, drawn[:, 0] % labels


def narrow(X):
    """The same rows with columns 0, 1, 2, ..., in the same order."""
    used, places = np.unique(X.indices, return_inverse=True)
    return sparse.csr_matrix((X.data, places, X.indptr), shape=(X.shape[0], len(used)))


@pytest.mark.parametrize(
    ("make", "most"),
    [(ob.Banditron, 6500), (ob.Confidit, 6500), (ob.OneBit, 40_000)],  # 600 Fourier features
)
def test_a_few_names_make_a_small_file(make, most, tmp_path):
    learner = make(["billing", "bug", "praise"])
    for x in ({"late": 1, "invoice": 2}, {"crash": 1, "late": 1, "day": "Monday"}):
        learner.learn(learner.decide(x), right=True)
    learner.save(tmp_path / "model.onebit")
    assert (tmp_path / "model.onebit").stat().st_size < most
    assert len(learner.table.buffer) <= 8
    again = ob.load(tmp_path / "model.onebit")
    for x in ({"late": 1}, {"crash": 1, "never met": 3}):
        assert np.array_equal(again.scores([x]), learner.scores([x]))
        assert np.array_equal(again.propensities(x), learner.propensities(x))


@pytest.mark.parametrize("make", [ob.Banditron, ob.Confidit, ob.OneBit])
def test_many_labels_take_no_more_than_the_features_that_came(make):
    learner = make(300)
    learner.decide({"late": 1, "invoice": 2})
    assert learner.table.buffer.nbytes == 2 * learner.planes * 304 * 4


@pytest.mark.parametrize("make", [ob.Banditron, ob.Confidit, ob.PNewtron, ob.EGBandit, ob.OneBit])
def test_where_features_are_does_not_matter(make):
    """The same rows far apart and side by side: the same choices and weights, to the last bit."""
    X, y = words(60, 90, 4)
    near = narrow(X)
    far, side_by_side, fixed = make(4, seed=1), make(4, seed=1), make(4, seed=1, features=90)
    far_trace = ob.simulate(far, X, y, order="shuffled")
    for learner in (side_by_side, fixed):
        trace = ob.simulate(learner, near, y, order="shuffled")
        assert np.array_equal(trace.mistakes, far_trace.mistakes)
        assert np.array_equal(learner.table.weights(), far.table.weights())
        assert np.array_equal(learner.predict(near), far.predict(X))
    used = np.unique(X.indices)
    if make is not ob.EGBandit:  # its weights have one sum over all features up to the largest
        assert np.array_equal(far.weights[:, used], fixed.weights)
    assert far.weights.shape == (4, used[-1] + 1)


@pytest.mark.parametrize("half_life", [None, 40])
@pytest.mark.parametrize("make", [ob.Confidit, ob.PNewtron, ob.OneBit])
def test_rounds_streams_chunks_and_copies_agree(make, half_life, tmp_path):
    X, y = words(60, 90, 4)
    whole, chunks, rounds = (make(4, seed=1, half_life=half_life) for _ in range(3))
    ob.simulate(whole, X, y)
    ob.simulate(chunks, ((X[i : i + 13], y[i : i + 13]) for i in range(0, 60, 13)))
    for i in range(60):
        decision = rounds.decide(X[i])
        rounds.learn(decision, right=decision.label == y[i])
        if i % 20 == 9:
            rounds.propensities(X[59 - i])  # these features have places before their turn
            rounds.save(tmp_path / "model.onebit")
            rounds = ob.load(tmp_path / "model.onebit")
    for learner in (chunks, rounds):
        assert np.array_equal(learner.table.known(), whole.table.known())
        assert np.array_equal(learner.table.weights(), whole.table.weights())


@pytest.mark.parametrize("make", [ob.Banditron, ob.Confidit])
def test_lockstep_has_rows_for_features_of_the_stream_and_of_its_learners(make):
    X, y = words(60, 90, 4)
    learners = [make(4, seed=seed) for seed in range(5)]
    ob.simulate(learners[1], X[40:], y[40:])
    ob.simulate(learners[2], *words(5, 20, 4, seed=9))  # features that the stream has not
    for learner, run in zip(learners, ob.sweep(learners, X, y, test=(X, y)), strict=True):
        trace = ob.simulate(learner, X, y)
        assert np.array_equal(trace.mistakes, run.trace.mistakes)
        assert run.test_error == (learner.predict(X) != y).mean()


@pytest.mark.parametrize("far", [False, True])
def test_near_features_have_places_in_lockstep_if_a_learner_has_far_ones(far, monkeypatch):
    monkeypatch.setattr("onebit.learner.table.NEAR", 100)
    rng = np.random.default_rng(1)
    X, y = (rng.random((60, 12)) < 0.3).astype(np.float32), rng.integers(3, size=60)
    X = [(np.flatnonzero(x).astype(np.int32), x[x > 0]) for x in X]
    learners = [ob.Banditron(3, seed=seed) for seed in range(4)]
    if far:
        ob.simulate(learners[2], *words(5, 20, 3))
    course = _course(learners, (X, y), 1, "given", None)
    assert (len(course.shared.slots) > 0) == far and course.shared.table_rows == 12
    for learner, run in zip(learners, ob.sweep(learners, X, y, test=(X, y)), strict=True):
        trace = ob.simulate(learner, X, y)
        assert np.array_equal(trace.mistakes, run.trace.mistakes)
        assert run.test_error == (learner.predict(X) != y).mean()


def test_rows_that_do_not_come_take_no_memory():
    X, y = words(60, 90, 4)
    learner = ob.Banditron(4)
    ob.simulate(learner, X, y, order=[3, 5])
    assert len(learner.table.buffer) == len(np.unique(X[[3, 5]].indices))


def test_dense_rows_are_in_the_order_of_their_columns():
    learner = ob.Confidit(3)
    learner.decide([0.0, 0.0, 2.0, 0.0])
    learner.decide(([9], [1.0]))
    assert learner.table.state.table.shape[0] == 10
    sparse_first = ob.Confidit(3)
    sparse_first.decide(([9], [1.0]))
    sparse_first.decide([0.0, 0.0, 2.0, 0.0])
    assert sparse_first.table.state.table.shape[0] == 2 and sparse_first.weights.shape == (3, 10)


def test_a_learner_may_be_reloaded_while_it_is_simulated(tmp_path, monkeypatch):
    monkeypatch.setattr("onebit.learner.streaming.LONGEST_CALL", 7)
    X, y = words(60, 90, 4)
    learner, saved = ob.Confidit(4), ob.Confidit(4)
    ob.simulate(saved, X[50:], y[50:])
    saved.save(tmp_path / "model.onebit")
    ob.simulate(
        learner,
        X,
        y,
        progress=lambda done: done == 21 and learner.reload(tmp_path / "model.onebit"),
    )
    assert np.array_equal(learner.table.known(), np.unique(X.indices))


@pytest.mark.parametrize(
    "features",
    [
        np.array([1, 1], np.uint32),
        np.array([2, 1], np.uint32),
        np.array([1, 2], np.int64),
        np.array([1, 2, 3], np.uint32),
        np.array([1, 2**24], np.uint32),
        np.array([[1, 2]], np.uint32),
    ],
)
def test_features_that_are_none_are_refused(features):
    learner = ob.Banditron(3)
    learner.decide(([5, 7], [1.0, 1.0]))
    head, arrays = saved_state(learner)
    assert arrays["features"].tolist() == [5, 7]
    with pytest.raises(ValueError, match="do not fit"):
        restore(head, arrays | {"features": features})
    with pytest.raises(ValueError, match="do not fit"):
        restore({**head, "features": 2}, arrays)


@pytest.mark.parametrize(
    ("labels", "vocabulary"), [(100, 500), pytest.param(1000, 50_000, marks=pytest.mark.slow)]
)
def test_a_vocabulary_takes_a_number_for_each_word_and_label(labels, vocabulary):
    X, y = words(vocabulary // 12 + 5, vocabulary, labels)
    learner = ob.Banditron(labels)
    ob.simulate(learner, X, y)
    lanes = learner.table.state.table.shape[2]
    assert learner.table.buffer.nbytes == vocabulary * lanes * 4 and lanes <= labels + 7
    assert learner.table.slots.nbytes == FAR * 4


def test_features_that_are_near_have_places_of_their_own_until_a_far_one_comes(monkeypatch):
    monkeypatch.setattr("onebit.learner.table.NEAR", 100)
    rng, learner, mapped = np.random.default_rng(0), ob.UCWL(3), ob.UCWL(3, features=5000)
    for t in range(60):
        indices = np.sort(rng.choice(60 if t < 30 else 5000, 8, replace=False)).astype(np.int32)
        row = (indices, rng.normal(size=8).astype(np.float32))
        for taught in (learner, mapped):
            taught.learn(taught.decide(row), right=t % 3 == 0)
        assert len(learner.table.slots) == 0 or t >= 30
    assert 60 < learner.table.state.table.shape[0] < 400 and len(learner.table.slots)
    assert (learner.weights == mapped.weights[:, : learner.weights.shape[1]]).all()
