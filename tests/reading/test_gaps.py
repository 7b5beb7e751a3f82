"""Gaps: missing numbers in dense rows. They count as the mean of their column so far."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest

import onebit as ob
from onebit import testing
from onebit.lab.race import race
from onebit.learner import files
from onebit.registry.recipes import recipe_of
from onebit.sklearn import OneBitClassifier
from onebit.testing import saved_state

NAN = math.nan
WITH_GAPS = [ob.OneBit, partial(ob.UCWL, inputs="auto")]


def rows(size=160, share=0.2, seed=0):
    """Two numbers, of which the first is far from 0 and has gaps; and labels."""
    rng = np.random.default_rng(seed)
    X = np.stack([rng.normal(1000, 10, size), rng.normal(size=size)], axis=1)
    y = (X[:, 0] > 1000).astype(int)
    X[rng.random(size) < share, 0] = NAN
    return X, y


def play(learner, X, y):
    """Round by round, with decisions as bytes."""
    for x, label in zip(X, y, strict=True):
        decision = ob.Decision.from_bytes(learner.decide(x).to_bytes())
        learner.learn(decision, right=bool(decision.label == label))
    return learner


def taught(make, X, y):
    learner = make([0, 1], seed=1)
    ob.simulate(learner, X, y)
    return learner


def lists(X):
    return [[None if math.isnan(value) else value for value in row] for row in X.tolist()]


def written(path, X, y):
    """A csv file."""
    cells = [["" if math.isnan(v) else repr(v) for v in row] for row in X.tolist()]
    lines = [",".join([*row, str(label)]) for row, label in zip(cells, y, strict=True)]
    path.write_text("\n".join(["b,c,label", *lines]) + "\n")
    return path


@pytest.mark.parametrize("make", WITH_GAPS)
def test_a_row_has_one_meaning_whatever_it_comes_as(make, tmp_path):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    X, y = rows()
    frame = pandas.DataFrame(X, columns=["b", "c"])
    nullable = frame.convert_dtypes()
    named = polars.from_pandas(frame)
    assert named["b"].null_count()
    named.with_columns(label=y).write_parquet(tmp_path / "n.parquet")
    data = ob.datasets.read(written(tmp_path / "n.csv", X, y))
    assert np.array_equal(data.X, X, equal_nan=True)
    parquet = ob.datasets.read(tmp_path / "n.parquet")
    assert np.array_equal(parquet.X, X, equal_nan=True)
    learner = make([0, 1], seed=1)
    ob.simulate(learner, data)
    for other in (parquet, ob.datasets.stream(tmp_path / "n.csv", labels=[0, 1], rows=31)):
        again = make([0, 1], seed=1)
        ob.simulate(again, other)
        assert testing.state_bytes(again) == testing.state_bytes(learner)
    for many in (frame, nullable, named):
        assert testing.state_bytes(taught(make, many, y)) == testing.state_bytes(learner)
    unnamed = taught(make, X, y)
    assert testing.state_bytes(taught(make, lists(X), y)) == testing.state_bytes(unnamed)
    scores = learner.scores(X)
    assert np.array_equal(unnamed.scores(X), scores)
    gap = int(np.flatnonzero(np.isnan(X[:, 0]))[0])
    doors = [X, frame, nullable, named, lists(X), frame.to_dict("records"), named.to_dicts()]
    doors += [[frame.iloc[i] for i in range(len(X))], [nullable.iloc[i] for i in range(len(X))]]
    doors += [[named[i] for i in range(len(X))], [{"c": row[1], "b": row[0]} for row in lists(X)]]
    for many in doors:
        assert np.array_equal(learner.scores(many), scores)
        row = many.iloc[gap] if hasattr(many, "iloc") else many[gap]
        assert np.array_equal(learner.decide(row).values, X[gap], equal_nan=True)
    assert np.array_equal(learner.scores([{"c": X[gap, 1]}])[0], scores[gap])


@pytest.mark.parametrize("make", WITH_GAPS)
def test_a_gap_is_the_mean_and_does_not_count(make):
    X, y = rows()
    learner, counted = taught(make, X, y), X[~np.isnan(X[:, 0]), 0]
    if learner.table.scales is None:  # OneBit
        counted = counted[:100]
        mean, _, factor, times = learner.table.state.held.columns[:, 0]
        deviation = 1 / factor
    else:
        times, mean, spread = learner.table.scales.lines[1, :3]
        deviation = math.sqrt(spread / times)
    assert times == len(counted)
    assert np.allclose([mean, deviation], [counted.mean(), counted.std()])
    x = [NAN, 0.3]
    assert np.array_equal(learner.scores([x]), learner.scores([[mean, 0.3]]))
    before = testing.state_bytes(learner)
    assert learner.explain(x).label == learner.propose(x).label
    assert dict(learner.explain(x).parts).keys() <= {"column 1"}
    assert testing.state_bytes(learner) == before


SHAPES = {
    "gaps": lambda X: X,
    "in the first rows": lambda X: np.where(np.arange(len(X))[:, None] < 4, NAN, X),
    "a column of gaps": lambda X: np.column_stack([X, np.full(len(X), NAN)]),
    "rows of gaps": lambda X: np.where(np.arange(len(X))[:, None] % 3 == 0, NAN, X),
    "a column that comes late": lambda X: np.column_stack(
        [X, np.where(np.arange(len(X)) < 120, NAN, X[:, 0])]
    ),
    "constants": lambda X: np.where(np.isnan(X), X, 7.0),
    "outliers": lambda X: np.where(np.arange(len(X))[:, None] == 9, 1e9, X),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("make", WITH_GAPS)
def test_streams_rounds_and_files_agree(make, shape, tmp_path):
    X, y = rows()
    X = SHAPES[shape](X)
    whole = taught(make, X, y)
    half = play(make([0, 1], seed=1), X[:110], y[:110])
    half.save(tmp_path / "half")
    loaded = ob.load(tmp_path / "half")
    for learner in (half, loaded, half.copy()):
        assert testing.state_bytes(play(learner, X[110:], y[110:])) == testing.state_bytes(whole)
    assert np.isfinite(whole.scores(np.vstack([X, np.full(len(X[0]), NAN)]))).all()


@pytest.mark.parametrize("make", WITH_GAPS)
def test_late_answers_are_those_of_the_stream(make):
    X, y = rows()
    whole = make([0, 1], seed=1)
    ob.simulate(whole, X, y, channel=ob.Delay(40))
    learner, waiting = make([0, 1], seed=1), []
    for t in range(len(X)):
        waiting.append(learner.decide(X[t]).to_bytes())
        if t >= 40:
            decision = ob.Decision.from_bytes(waiting[t - 40])
            learner.learn(decision, right=bool(decision.label == y[t - 40]))
    assert testing.state_bytes(learner) == testing.state_bytes(whole)


def test_a_late_column_is_scaled_by_its_own_values():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(900, 2)) * [1, 50] + [0, 3000]
    y = (X[:, 1] > 3000).astype(int)
    X[:300, 1] = NAN
    learner = taught(ob.OneBit, X, y)
    assert np.allclose(learner.table.state.held.columns[:2, 1] / [1, 100], [3000, 2500], rtol=0.3)
    assert np.mean(learner.predict(X[300:]) == y[300:]) > 0.9


@pytest.mark.parametrize(("factor", "is_other"), [(1, False), (1000, True)])
def test_it_is_told_whether_columns_with_gaps_have_other_scales(factor, is_other):
    X, y = rows(300)
    X[:, 1], X[280:, 0] = NAN, factor * X[280:, 0]
    learner = taught(ob.OneBit, X[:200], y[:200])
    ob.simulate(learner, X[200:], y[200:], channel=ob.Delay(100))
    for t in range(280, 300):
        learner.learn(learner.decide(X[t]), right=True)
    storage: Any = learner.table.storage
    assert storage.has_other_scales(learner.table.state.held) == is_other


@pytest.mark.parametrize("inputs", ["raw", "unit", "sparse"])
def test_other_learners_refuse_arrays_and_read_files(inputs, tmp_path):
    X, y = rows()
    data = ob.datasets.read(written(tmp_path / "n.csv", X, y))
    filled, gap = np.where(np.isnan(X), 0, X), X[np.isnan(X[:, 0])]
    for make in (partial(ob.UCWL, inputs=inputs), partial(ob.OneBit, inputs="sparse")):
        learner, twin = make([0, 1], seed=1), make([0, 1], seed=1)
        ob.simulate(learner, data)
        ob.simulate(twin, data._replace(X=filled))
        assert testing.state_bytes(learner) == testing.state_bytes(twin)
        chunked = make([0, 1], seed=1)
        ob.simulate(chunked, ob.datasets.stream(tmp_path / "n.csv", labels=[0, 1], rows=31))
        assert testing.state_bytes(chunked) == testing.state_bytes(twin)
        before = testing.state_bytes(learner)
        for call in (
            lambda learner=learner: learner.predict(data.X),
            lambda learner=learner: learner.decide(gap[0]),
            lambda learner=learner: learner.decide(lists(gap)[0]),
            lambda learner=learner: ob.simulate(learner, X, y),
            lambda learner=learner: ob.sweep([learner], X, y),
        ):
            with pytest.raises(ValueError, match=r"index 0 is nan; .*inputs='auto'"):
                call()
        assert testing.state_bytes(learner) == before


def test_experiments_take_files_with_gaps(tmp_path):
    X, y = rows()
    data = ob.datasets.read(written(tmp_path / "n.csv", X, y))
    filled = data._replace(X=np.where(np.isnan(X), 0, X), columns=None)
    learners = [ob.UCWL([0, 1]), ob.UCWL([0, 1], inputs="auto"), ob.OneBit([0, 1])]
    runs = ob.sweep(learners, data, test=data)
    expected = ob.sweep(learners[:1], filled, test=filled)
    expected += ob.sweep(learners[1:], X, y, test=(X, y))
    for run, other in zip(runs, expected, strict=True):
        assert run.trace.mistakes.tolist() == other.trace.mistakes.tolist()
        assert run.test_error == other.test_error
    recipes = [recipe_of(name) for name in ("UCWL", "UCWL:inputs=auto", "OneBit")]
    [panel] = race([str(tmp_path / "n.csv")], recipes, repeats=1)
    assert len(panel.lines) == 4  # with the commonest label
    np.savez(tmp_path / "n.npz", X=X, y=y)
    [of_npz] = race([str(tmp_path / "n.npz")], recipes, repeats=1)
    errors = [[line.error for line in lines] for lines in (panel.lines, of_npz.lines)]
    assert np.array_equal(*errors)
    assert ob.tune(ob.OneBit, ob.datasets.read(tmp_path / "n.npz"), trials=1).error < 0.5
    tuned = ob.tune(ob.UCWL, data, trials=2)
    assert tuned.found and 0 <= tuned.found.error <= 1
    with pytest.raises(ValueError, match="is nan"):
        ob.tune(ob.UCWL, X, y, trials=2)
    for steps in (["unit_norm"], ["standardise"], ["constant"]):
        prepared = ob.datasets.prepare(data, steps)
        assert np.array_equal(prepared.X, ob.datasets.prepare(filled, steps).X)


def test_infinity_is_refused_everywhere():
    for make in [*WITH_GAPS, partial(ob.OneBit, inputs="dense", features=2)]:
        learner = taught(make, *rows(20))
        before = testing.state_bytes(learner)
        for x in ([math.inf, 1.0], [NAN, -math.inf], [None, math.inf]):
            with pytest.raises(ValueError, match=r"is -?inf"):
                learner.decide(x)
            with pytest.raises(ValueError, match=r"is -?inf"):
                learner.predict([x])
        assert testing.state_bytes(learner) == before


def test_a_decision_with_a_gap_teaches_only_learners_that_take_it():
    learner = ob.UCWL(2, dtype="float64")
    decision = learner.decide([1.0, 2.0])
    forged = msgspec.structs.replace(decision, row=(decision.row[0], np.array([1.0, NAN])))
    with pytest.raises(ValueError, match="no UCWL can have made this decision"):
        learner.learn(ob.Decision.from_bytes(forged.to_bytes()), right=True)


def test_files_may_have_gaps_in_kept_rows_and_nowhere_else(tmp_path):
    learner = taught(ob.OneBit, *rows())
    head, arrays = saved_state(learner)
    assert np.isnan(arrays["kept"]).any()
    for name in ("columns", "scales", "narrow", "trust"):
        wrong = arrays[name].copy()
        wrong.flat[0] = NAN
        files.write(tmp_path / "wrong", head, arrays | {name: wrong})
        with pytest.raises(ValueError, match="not all finite"):
            ob.load(tmp_path / "wrong")
    infinite = np.nan_to_num(arrays["kept"], nan=math.inf)
    files.write(tmp_path / "wrong", head, arrays | {"kept": infinite})
    with pytest.raises(ValueError, match="not all finite"):
        ob.load(tmp_path / "wrong")


def test_the_classifier_takes_gaps_if_its_learner_does():
    pandas = pytest.importorskip("pandas")
    X, y = rows()
    frame = pandas.DataFrame(X, columns=["b", "c"])
    for name in ("OneBit", "UCWL:inputs=auto"):
        model = OneBitClassifier(name)
        assert model.__sklearn_tags__().input_tags.allow_nan
        assert np.mean(model.fit(X, y).predict(X) == y) > 0.6
        assert np.array_equal(model.fit(frame, y).predict(frame), model.fit(X, y).predict(X))
    raw = OneBitClassifier("UCWL")
    assert not raw.__sklearn_tags__().input_tags.allow_nan
    with pytest.raises(ValueError, match="NaN"):
        raw.fit(X, y)
    raw.set_params(learner="OneBit").fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        raw.set_params(learner="UCWL").fit(X, y)


@pytest.mark.parametrize("make", [ob.OneBit, ob.UCWL])
def test_sparse_learners_of_a_frame_refuse_a_missing_column(make):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.ones((4, 3)), columns=["a", "b", "c"])
    learner = make(2, inputs="sparse")
    ob.simulate(learner, frame, [0, 1, 0, 1])
    with pytest.raises(ValueError, match="column 'c' is missing"):
        learner.decide({"a": 1.0, "b": 2.0})
