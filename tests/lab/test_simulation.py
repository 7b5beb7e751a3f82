"""The whole-stream loop: order, epochs, check points, progress, memory."""

from __future__ import annotations

import re
import tracemalloc

import numpy as np
import pytest
from scipy import sparse

import onebit as ob
from onebit.core.jit import COMPILED
from onebit.lab.simulation import check_points


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 8))
    return X, (X @ rng.normal(size=(8, 3))).argmax(axis=1)


def test_check_points_are_1_2_5_and_the_last():
    assert check_points(1) == [1]
    assert check_points(7) == [1, 2, 5, 7]
    assert check_points(100) == [1, 2, 5, 10, 20, 50, 100]
    assert check_points(250) == [1, 2, 5, 10, 20, 50, 100, 200, 250]


@pytest.mark.compiled
def test_counts_rise_and_are_those_of_every_round(data):
    X, y = data
    trace = ob.simulate(ob.Banditron(3, gamma=0.3), X, y, checkpoints=range(1, 51))
    assert trace.rounds.tolist() == list(range(1, 51))
    for counts in trace[1:]:
        steps = np.diff(counts, prepend=0)
        assert ((steps == 0) | (steps == 1)).all()
    assert trace.explored[-1] > 0
    assert (trace.error == trace.mistakes / trace.rounds).all()
    assert (trace.greedy_error == trace.greedy_mistakes / trace.rounds).all()


def test_given_check_points_end_with_the_last_round(data):
    X, y = data
    assert ob.simulate(ob.Banditron(3), X, y, checkpoints=[10, 20]).rounds.tolist() == [10, 20, 50]


def test_epochs_repeat_the_rows(data):
    X, y = data
    one, two = ob.Confidit(3), ob.Confidit(3)
    ob.simulate(one, X, y, epochs=3)
    for _ in range(3):
        ob.simulate(two, X, y)
    assert np.array_equal(one.weights, two.weights) and one.round == two.round == 150


def test_an_order_is_followed(data):
    X, y = data
    rows = [4, 4, 0, 31]
    one, two = ob.Confidit(3), ob.Confidit(3)
    ob.simulate(one, X, y, order=rows)
    ob.simulate(two, X[rows], y[rows])
    assert np.array_equal(one.weights, two.weights)


def test_shuffling_follows_the_seed_and_visits_every_row_each_epoch(data):
    X, y = data
    runs = [ob.Confidit(3, seed=seed) for seed in (1, 1, 2)]
    for learner in runs:
        ob.simulate(learner, X, y, order="shuffled", epochs=2)
    assert np.array_equal(runs[0].weights, runs[1].weights)
    assert not np.array_equal(runs[0].weights, runs[2].weights)
    perceptron = ob.simulate(ob.Perceptron(50), np.eye(50), np.arange(50), order="shuffled")
    assert perceptron.mistakes[-1] == 49  # each row is new, label 0 is right once


def test_it_goes_on_from_where_the_learner_is(data):
    X, y = data
    one, two = ob.Banditron(3), ob.Banditron(3)
    ob.simulate(one, X, y)
    ob.simulate(two, X[:20], y[:20])
    ob.simulate(two, X[20:], y[20:])
    assert np.array_equal(one.weights, two.weights)


def test_labels_may_be_strings(data):
    X, y = data
    names = ["a", "b", "c"]
    one, two = ob.Banditron(3), ob.Banditron(names)
    ob.simulate(one, X, y)
    ob.simulate(two, X, [names[i] for i in y])
    assert np.array_equal(one.weights, two.weights)
    assert two.predict(X).tolist() == [names[i] for i in one.predict(X)]


def test_progress_is_told_and_may_stop_the_run(data, monkeypatch):
    X, y = data
    monkeypatch.setattr("onebit.learner.streaming.LONGEST_CALL", 7)
    told = []
    ob.simulate(ob.Banditron(3), X, y, progress=told.append)
    assert told[-1] == 50 and told == sorted(told) and max(np.diff([0, *told])) <= 7

    def stop(done):
        if done >= 20:
            raise KeyboardInterrupt

    learner, again = ob.Banditron(3), ob.Banditron(3)
    with pytest.raises(KeyboardInterrupt):
        ob.simulate(learner, X, y, progress=stop)
    ob.simulate(again, X[: learner.round], y[: learner.round])
    assert 20 <= learner.round < 50
    assert np.array_equal(learner.weights, again.weights)  # it stopped between two rounds


@pytest.mark.parametrize(
    "wrong",
    [
        {"epochs": 0},
        {"epochs": 1.5},
        {"order": "backwards"},
        {"order": [50]},
        {"order": [-1]},
        {"order": [0.5]},
        {"checkpoints": [5, 5]},
        {"checkpoints": [0, 3]},
        {"checkpoints": [51]},
    ],
)
def test_wrong_requests_are_refused_before_anything_is_learned(data, wrong):
    learner = ob.Banditron(3)
    with pytest.raises((ValueError, TypeError)):
        ob.simulate(learner, *data, **wrong)
    assert learner.round == 0


def test_no_rows_leave_an_empty_trace():
    trace = ob.simulate(ob.Banditron(3), sparse.csr_matrix((0, 4)), np.empty(0, int))
    assert len(trace.rounds) == 0


@pytest.mark.compiled
def test_a_stream_makes_no_objects_a_round():
    rows = 20_000 if COMPILED else 4000
    X = sparse.random(rows, 50, 0.1, format="csr", random_state=0, dtype=np.float32)
    y = np.arange(rows) % 4
    short, long = X[:2000], X
    ob.simulate(ob.UCWL(4), short, y[:2000])
    peaks = []
    for some in (short, long):
        tracemalloc.start()
        ob.simulate(ob.UCWL(4), some, y[: some.shape[0]])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    copies = rows * (8 + 8 + 1) + X.nnz * 4  # of y, the indptr, which rows were seen, the indices
    assert peaks[1] < peaks[0] + 100_000 + copies


def test_more_weights_than_there_is_memory_are_refused_before_they_are_allocated():
    with pytest.raises(MemoryError, match=r"GiB; this machine has .* features="):
        ob.Confidit(50_000, features=2**31 - 1)
    learner = ob.Confidit(50_000)
    with pytest.raises(MemoryError, match="GiB"):
        learner.decide((np.arange(2**22), np.ones(2**22)))
    assert learner.round == 0 and learner.weights.shape == (50_000, 0)


def test_the_table_takes_what_its_numbers_take():
    for learner, labels, lanes in ((ob.Banditron, 4, 4), (ob.UCWL, 9, 16), (ob.SOBA, 20, 24)):
        made = learner(labels, features=1000)
        assert made.table.state.table.nbytes == 1000 * made.planes * lanes * 4


@pytest.mark.compiled
def test_a_learner_may_be_used_while_it_is_simulated(monkeypatch):
    monkeypatch.setattr("onebit.learner.streaming.LONGEST_CALL", 7)
    X = np.random.default_rng(0).normal(size=(50, 3))
    y = np.arange(50) % 3
    one, two = ob.Banditron(3), ob.Banditron(3)
    ob.simulate(one, X, y)
    wide = two.copy()
    ob.simulate(two, X, y, progress=lambda done: two.propensities(([2 + done], [1.0])))
    assert np.array_equal(one.weights, two.weights[:, :3])
    with pytest.raises(RuntimeError, match="a label was added"):
        ob.simulate(wide, X, y, progress=lambda done: [wide.add_label() for _ in range(9)])


def test_every_epoch_is_shuffled_anew():
    rows = 40
    trace = ob.simulate(
        ob.UniformRandom(rows),
        np.eye(rows),
        np.arange(rows),
        order="shuffled",
        epochs=2,
        checkpoints=range(1, 2 * rows + 1),
    )
    greedy = np.diff(trace.greedy_mistakes, prepend=0) == 0  # label 0 is always the greedy one
    first, second = np.flatnonzero(greedy)
    assert first < rows <= second and second - rows != first


def test_what_is_no_learner_is_not_simulated():
    with pytest.raises(TypeError, match="needs a learner"):
        ob.simulate(ob.UCWL, np.eye(3), [0, 1, 2])
    with pytest.raises(ValueError, match="True or False"):
        ob.simulate(ob.UCWL(2), np.eye(3), [True, False, True])


# Slips.

X4, Y4 = np.eye(4), [0, 1, 0, 1]


class Frame:
    """A table as other libraries have them."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype)

    def __iter__(self):
        return iter(["a", "b"])


SLIPS = {
    "no labels": ((X4,), {}, TypeError, "for rows and their labels, write simulate(learner, X, y)"),
    "a name of a file": (("a.csv",), {}, TypeError, "write simulate(learner, X, y)"),
    "nothing": ((None,), {}, TypeError, "needs rows and their labels, X and y, not None"),
    "a table without labels": ((Frame(X4),), {}, TypeError, "write simulate(learner, X, y)"),
    "swapped": ((Y4, X4), {}, ValueError, "or are X and y swapped?"),
    "too few columns": ((X4, np.eye(4)[:, :1]), {}, ValueError, "y has 1 columns and"),
    "scores": ((X4, np.eye(4)[:, :2] * 2), {}, ValueError, "row 0 of y has 2.0 in column 0"),
    "a gap": ((X4, np.full((4, 2), np.nan)), {}, ValueError, "row 0 of y has nan in column 0"),
    "words in a matrix": ((X4, [["a", "b"]] * 4), {}, TypeError, "column for each label: 1 where"),
    "rows of a matrix": ((X4, np.eye(2)), {}, ValueError, "X has 4 rows and y 2 rows"),
    "a column": ((X4, np.array([Y4]).T), {}, ValueError, "y.ravel()"),
    "labels from an iterator": ((X4, iter(Y4)), {}, ValueError, "as in a list, not list_it"),
    "a label for all": ((X4, 1), {}, ValueError, "one column, as in a list, not int"),
    "labels in lists": ((X4, [[0], [1, 0], [1], [0]]), {}, ValueError, "not a list of lists"),
    "rows from an iterator": ((iter(X4), Y4), {}, TypeError, "put what it gives into a list"),
    "dicts from a generator": (
        (({"a": 1} for _ in Y4), Y4), {}, TypeError, "an iterator (generator): put",
    ),
    "no rows": ((None, Y4), {}, TypeError, "X must hold real numbers, not None"),
    "text": (("some words", Y4), {}, TypeError, "X must hold real numbers, not text"),
    "bytes": (([b"some words"] * 4, Y4), {}, TypeError, "decode them to a string"),
    "a table with text": (
        (Frame(np.array([[1, "a"]] * 4, object)), Y4), {}, TypeError, "make a list of dicts",
    ),
    "one row": ((X4[0], [0]), {}, ValueError, "put a single row into a list"),
    "one check point": ((X4, Y4), {"checkpoints": 2}, TypeError, "a list of rounds, not 2"),
    "check points by name": ((X4, Y4), {"checkpoints": "all"}, TypeError, "a list of rounds"),
    "half a round": ((X4, Y4), {"checkpoints": [1.5]}, TypeError, "a whole number, not 1.5"),
    "orders in lists": ((X4, Y4), {"order": [[1], [1, 2]]}, ValueError, "order must be 'given'"),
    "progress": ((X4, Y4), {"progress": True}, TypeError, "progress must be a function, not True"),
}  # fmt: skip


@pytest.mark.parametrize("case", SLIPS)
def test_a_slip_gets_a_sentence_that_helps(case):
    data, settings, error, words = SLIPS[case]
    learner = ob.Banditron(2)
    with pytest.raises(error, match=re.escape(words)):
        ob.simulate(learner, *data, **settings)
    assert learner.round == 0


def test_a_table_of_numbers_is_rows():
    one, two = ob.Banditron(2), ob.Banditron(2)
    trace = ob.simulate(one, Frame(X4), Y4)
    assert (trace.mistakes == ob.simulate(two, X4, Y4).mistakes).all()


def test_progress_may_have_the_learner_decide():
    """Rounds that are decided in between get numbers of their own."""
    X, y = np.eye(3)[[0, 1, 2, 0, 1, 2, 0]], [0, 1, 2, 0, 1, 2, 0]
    learner, between = ob.Banditron(3), []

    def progress(done):
        between.append(learner.decide(X[0]))

    ob.simulate(learner, X, y, checkpoints=[2, 4, 7], progress=progress)
    assert [decision.round for decision in between] == [2, 5, 9] and learner.round == 10
    for decision in between:
        learner.learn(decision, right=True)


def test_categories_that_nearly_all_differ_are_not_taken_without_a_word():
    """As in files: `datasets.read` warns of them."""
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")
    OneBitClassifier = pytest.importorskip("onebit.sklearn").OneBitClassifier
    columns = {"id": [f"u{i}" for i in range(30)], "team": ["A", "B"] * 15, "age": [3.0] * 30}
    y = [0, 1] * 15
    frame = polars.DataFrame(columns)
    forms = (frame, pandas.DataFrame(columns), frame.to_dicts())
    for X in forms:
        for run in (
            lambda X: ob.simulate(ob.OneBit(2), X, y),
            lambda X: ob.simulate(ob.OneBit(2), [(X, y)]),
            lambda X: ob.sweep([ob.UCWL(2)], X, y),
            lambda X: ob.tune("UCWL", X, y, trials=1, repeats=1),
            lambda X: OneBitClassifier().fit(X, y),
        ):
            with pytest.warns(UserWarning, match="column 'id' has another value in nearly every"):
                run(X)
    ob.simulate(ob.OneBit(2), frame[:19], y[:19])  # too few rows to tell
    ob.simulate(ob.OneBit(2), frame.drop("id"), y)
    ob.simulate(ob.OneBit(2), [{"body": f"text number {i}"} for i in range(30)], y)


def test_categories_that_are_numbers_are_not_read_as_numbers_without_a_word():
    pandas = pytest.importorskip("pandas")
    kinds, y = pandas.Categorical([3, 1, 7] * 10), [0, 1, 1] * 10
    learner = ob.OneBit(2)
    runs = (
        lambda X: ob.simulate(ob.OneBit(2), X, y),
        lambda X: ob.simulate(ob.OneBit(2), [(X, y)]),
        lambda X: ob.sweep([ob.UCWL(2)], X, y),
        learner.predict,
        learner.scores,
    )
    for other in ([0.5] * 30, ["A", "B"] * 15):
        frame = pandas.DataFrame({"x": other, "kind": kinds})
        for run in runs:
            with pytest.warns(UserWarning, match="column 'kind' has categories that are") as found:
                run(frame)
            [warning] = found
            assert warning.filename == __file__ or run not in (runs[0], learner.predict)
            assert "frame['kind'].astype(str)" in str(warning.message)
            assert "frame['kind'].astype(float)" in str(warning.message)
            for astype in (str, float):
                run(frame.assign(kind=frame["kind"].astype(astype)))
    for values in (["a", "b"], [True, False]):
        ob.simulate(ob.OneBit(2), pandas.DataFrame({"k": values * 15}, dtype="category"), y)
