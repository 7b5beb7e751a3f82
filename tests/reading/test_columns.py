"""Dense rows whose columns a learner standardises: rows of zeros, and large numbers."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from scipy import sparse

import onebit as ob
from onebit import testing
from onebit.lab.streams import streams
from onebit.testing import saved_state

LABELS = ["none", "some"]


def onebit(**common):
    return ob.OneBit(LABELS, **common)


def ucwl(**common):
    return ob.UCWL(LABELS, inputs="auto", **common)


def confidit(**common):
    return ob.Confidit(LABELS, inputs="auto", form="full", **common)


MAKERS = [onebit, ucwl, confidit]


def stream(rows=160):
    """Only the rows of zeros have the first label; a quarter of the rows are."""
    X = np.random.default_rng(2).integers(0, 2, size=(rows, 2)).astype(float)
    return X, [LABELS[int(x.any())] for x in X]


def play(learner, contexts, y):
    for x, label in zip(contexts, y, strict=True):
        decision = learner.decide(x)
        learner.learn(decision, right=decision.label == label)
    return learner


@pytest.mark.parametrize("make", MAKERS)
def test_a_row_of_zeros_is_a_row(make, tmp_path):
    X, y = stream()
    whole = make()
    trace = ob.simulate(whole, X, y)
    assert whole.predict([[0, 0], [0, 1], [1, 0], [1, 1]]).tolist() == [LABELS[0]] + [LABELS[1]] * 3
    chunks = make()
    ob.simulate(chunks, iter([(X[:30], y[:30]), (X[30:], y[30:])]))
    pairs = make()
    play(pairs, X[:1], y[:1])
    play(pairs, [sparse.csr_matrix(x[None]) for x in X[1:]], y[1:])
    restarted = play(make(), X[:50], y[:50])
    restarted.save(tmp_path / "model")
    restarted = play(ob.load(tmp_path / "model"), X[50:], y[50:])
    for learner in (chunks, play(make(), X.tolist(), y), pairs, restarted):
        assert testing.state_bytes(learner) == testing.state_bytes(whole)
    zeros = whole.decide(np.zeros(2))
    assert zeros.label == LABELS[0] and whole.propensities([0, 0])[0] == zeros.propensity
    [run] = ob.sweep([make()], X, y, test=(X, y))
    assert run.trace.mistakes.tolist() == trace.mistakes.tolist() and run.test_error == 0


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(("rows", "value"), [([60], 1e9), ([0], 9999), ([1], -1e5), ([9], 9999)])
def test_an_outlier_among_the_first_rows_does_not_spoil_its_column(make, rows, value):
    X = np.random.default_rng(5).normal(size=(160, 2))
    y = [LABELS[int(x[0] > 0)] for x in X]
    spoilt, learner = X.copy(), make()
    spoilt[rows, 0] = value
    ob.simulate(learner, spoilt, y)
    assert np.mean(learner.predict(X) == y) > 0.9


def test_three_outliers_do_not_spoil_a_column_of_onebit():
    """Values of a column that is constant in most rows are no outliers."""
    X = np.random.default_rng(6).normal(size=(100, 3))
    X[[2, 50, 77], 0], X[:, 2] = [9999, -9999, 9999], np.arange(100) % 30 == 0
    learner = onebit()
    ob.simulate(learner, X, [LABELS[0]] * 100)
    mean, squares, factor, _ = learner.table.state.held.columns
    others = np.delete(X[:, 0], [2, 50, 77])
    near = X[:, 0].clip(*(others.mean() + 5 * others.std() * np.array([-1, 1])))
    assert np.allclose([mean[0], squares[0] / 100], [near.mean(), near.var()])
    assert np.allclose(mean[1:], X[:, 1:].mean(axis=0))
    assert np.allclose(factor, 1 / np.sqrt(squares / 100))
    assert np.allclose(factor[1:], 1 / X[:, 1:].std(axis=0))


@pytest.mark.parametrize("make", MAKERS)
def test_the_first_row_may_be_zeros(make):
    rounds, whole = make(), make()
    rounds.learn(rounds.decide([0.0, 0.0]), label=LABELS[0])
    assert rounds.reader.way.columns
    ob.simulate(whole, [[0.0, 0.0]], LABELS[:1])
    assert saved_state(rounds)[1].keys() == saved_state(whole)[1].keys()
    again = make()
    again.redo([0.0, 0.0], make().propose([0.0, 0.0]))
    assert again.reader.way.columns


@pytest.mark.parametrize("make", MAKERS)
def test_zeros_in_tables_and_dicts(make, tmp_path):
    X, y = stream()
    lines = [f"{a:g},{b:g},{label}" for (a, b), label in zip(X, y, strict=True)]
    path = tmp_path / "zeros.csv"
    path.write_text("\n".join(["a,b,label", *lines]))
    data = ob.datasets.read(path)
    learner, twin = make(), make()
    ob.simulate(learner, data)
    ob.simulate(twin, X, y)
    assert np.array_equal(learner.scores(X), twin.scores(X))
    assert np.array_equal(learner.scores([{"a": 0, "b": 0}]), twin.scores([[0, 0]]))
    assert learner.decide({"a": 0, "b": 0}).label == LABELS[0]


@pytest.mark.parametrize("offset", [1.7e9, 1e12])
@pytest.mark.parametrize("make", MAKERS)
def test_a_large_offset_changes_nothing(make, offset, tmp_path):
    """Such as the seconds since 1970: single precision has 24 bits, a step of 128 there."""
    rng = np.random.default_rng(5)
    X = rng.integers(0, 64, size=(200, 2)).astype(float)
    y = [LABELS[int(a > b)] for a, b in X]
    plain, moved = make(), make()
    trace = ob.simulate(plain, X, y)
    assert ob.simulate(moved, X + offset, y).mistakes.tolist() == trace.mistakes.tolist()
    assert play(make(), X + offset, y).predict(X + offset).tolist() == plain.predict(X).tolist()
    late = make()
    kept = [msgspec.structs.replace(late.decide(x)) for x in X + offset]
    for decision, label in zip(kept, y, strict=True):
        bits = ob.Decision.from_bytes(decision.to_bytes())
        late.learn(bits, right=decision.label == label)
    path = tmp_path / "moved.csv"
    lines = [f"{a!r},{b!r},{label}" for (a, b), label in zip((X + offset).tolist(), y, strict=True)]
    path.write_text("\n".join(["a,b,label", *lines]))
    from_file = make()
    ob.simulate(from_file, ob.datasets.read(path))
    assert np.array_equal(from_file.scores(X + offset), moved.scores(X + offset))


def test_races_and_tuning_keep_the_digits(tmp_path):
    X = np.random.default_rng(5).integers(0, 64, size=(300, 2)).astype(float)
    y = [LABELS[int(a > b)] for a, b in X]
    errors = []
    for offset in (0, 1e9):
        path = tmp_path / f"{offset:g}.csv"
        rows = zip((X + offset).tolist(), y, strict=True)
        path.write_text("\n".join(["a,b,label", *(f"{a!r},{b!r},{c}" for (a, b), c in rows)]))
        [course] = streams(str(path), None, 1, 0)[2]
        trace = ob.simulate(ob.OneBit(2), course.rows, course.y, order=course.simulated_order)
        tuned = ob.tune("OneBit", X + offset, y, repeats=1)
        errors.append((trace.mistakes.tolist(), tuned.error))
    assert errors[0] == errors[1]


def test_decisions_of_earlier_versions():
    """Their rows are in single precision."""
    X, y = stream()
    learner = play(onebit(), X + 3, y)
    indices, values = (decision := learner.decide(X[0] + 3)).row
    stored = msgspec.structs.replace(decision, row=(indices, values.astype(np.float32)))
    twin = learner.copy()
    learner.learn(decision, right=True)
    twin.learn(ob.Decision.from_bytes(stored.to_bytes()), right=True)
    assert testing.state_bytes(learner) == testing.state_bytes(twin)
