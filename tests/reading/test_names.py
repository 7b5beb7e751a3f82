"""Names of columns: a learner that was taught from a table of numbers reads dicts as its rows."""

from __future__ import annotations

import math
import unicodedata
from collections import namedtuple
from decimal import Decimal
from functools import partial

import numpy as np
import pytest

import onebit as ob
from onebit import testing
from onebit.learner.files import restore
from onebit.testing import saved_state

NAMES = ["age", "height", "visits"]


def table(tmp_path, rows=120):
    """A csv file of numbers."""
    rng = np.random.default_rng(2)
    X = (rng.normal(size=(rows, 3)) * [15, 10, 1] + [40, 170, 3]).astype(np.float32)
    y = (X[:, 0] > 40).astype(int) + (X[:, 1] > 175)
    lines = [",".join([*NAMES, "label"])]
    lines += [
        ",".join([*(repr(float(v)) for v in row), f"l{k}"]) for row, k in zip(X, y, strict=True)
    ]
    path = tmp_path / "people.csv"
    path.write_text("\n".join(lines) + "\n")
    return path, X, np.array([f"l{k}" for k in y])


def dict_of(row):
    return {name: float(value) for name, value in zip(NAMES, row, strict=True)}


@pytest.mark.parametrize("make", [ob.OneBit, ob.UCWL])
def test_a_dict_is_a_row_of_the_table(make, tmp_path):
    path, X, y = table(tmp_path)
    data = ob.datasets.read(path)
    assert data.columns == NAMES
    learner = make(data.labels, seed=1)
    ob.simulate(learner, data)
    learner.save(tmp_path / "people.onebit")
    learner = ob.load(tmp_path / "people.onebit")
    dicts = [dict_of(row) for row in X[:20]]
    shuffled = [dict(reversed(x.items())) for x in dicts]
    assert np.array_equal(learner.scores(dicts), learner.scores(X[:20]))
    assert np.array_equal(learner.scores(shuffled), learner.scores(X[:20]))
    assert learner.predict(dicts).tolist() == learner.predict(X[:20]).tolist()
    assert learner.propensities(dicts[0]).tolist() == learner.propensities(X[0]).tolist()
    assert {part for part, _ in learner.explain(dicts[0]).parts} <= set(NAMES)
    by_rows, by_dicts = learner.copy(), learner.copy()
    for row, x, label in zip(X[:20], dicts, y, strict=False):
        proposed = by_dicts.redo(x, by_dicts.propose(x))
        decision = by_rows.decide(row)
        assert proposed.label == decision.label
        by_dicts.learn(proposed, right=proposed.label == label)
        by_rows.learn(decision, right=decision.label == label)
    assert testing.state_bytes(by_rows) == testing.state_bytes(by_dicts)


def test_chunks_and_frames_have_names_too(tmp_path):
    polars = pytest.importorskip("polars")
    path, X, y = table(tmp_path)
    labels = sorted(set(y))
    whole, chunks, framed, by_row = (ob.OneBit(labels, seed=1) for _ in range(4))
    ob.simulate(whole, ob.datasets.read(path))
    ob.simulate(chunks, ob.datasets.stream(path, labels=labels, rows=31))
    frame = polars.DataFrame(dict(zip(NAMES, X.T, strict=True)))
    ob.simulate(framed, frame, y)
    for i, label in enumerate(y):
        decision = by_row.decide(frame[i])
        by_row.learn(decision, right=decision.label == label)
    expected = testing.state_bytes(whole)
    for learner in (chunks, framed, by_row):
        assert testing.state_bytes(learner) == expected
    assert np.array_equal(whole.scores(frame[:5]), whole.scores(X[:5]))
    with pytest.raises(ValueError, match="the columns are 'visits', 'height', 'age', and before"):
        whole.predict(frame[:, ::-1])


def test_what_is_missing_is_the_mean_for_onebit(tmp_path):
    path = table(tmp_path)[0]
    data = ob.datasets.read(path)
    learner = ob.OneBit(data.labels, seed=1)
    ob.simulate(learner, data)
    mean = float(learner.table.state.held.columns[0, 1])
    whole = learner.scores([{"age": 20.0, "height": mean, "visits": 3.0}])
    for x in (
        {"age": 20.0, "visits": 3.0},
        {"age": 20.0, "height": None, "visits": 3.0},
        {"age": 20.0, "height": math.nan, "visits": 3.0},
    ):
        assert np.array_equal(learner.scores([x]), whole)
        assert math.isnan(learner.decide(x).values[1])


def test_other_learners_need_all_columns(tmp_path):
    data = ob.datasets.read(table(tmp_path)[0])
    learner = ob.UCWL(data.labels)
    ob.simulate(learner, data)
    before = testing.state_bytes(learner)
    with pytest.raises(ValueError, match="column 'height' is missing; give it a value"):
        learner.decide({"age": 33.0, "visits": 2.0})
    with pytest.raises(ValueError, match="knows no column 'heigth'; did you mean 'height'"):
        learner.decide({"age": 33.0, "heigth": 180.0, "visits": 2.0})
    with pytest.raises(ValueError, match="knows no column 'x'; there are 'age'"):
        learner.predict([{"age": 33.0, "height": 1.0, "visits": 2.0}, {"x": 1}])
    with pytest.raises(TypeError, match="feature 'age' must be a number"):
        learner.decide({"age": "old", "height": 180.0, "visits": 2.0})
    assert testing.state_bytes(learner) == before


def test_prepared_rows_have_no_names(tmp_path):
    data = ob.datasets.prepare(ob.datasets.read(table(tmp_path)[0]), ["constant"])
    assert data.columns is None
    learner = ob.UCWL(data.labels)
    ob.simulate(learner, data)
    with pytest.raises(ValueError, match="taught with rows of numbers"):
        learner.decide({"age": 1.0})


def test_a_model_file_with_other_names_is_refused(tmp_path):
    data = ob.datasets.read(table(tmp_path)[0])
    learner = ob.UCWL(data.labels)
    ob.simulate(learner, data)
    head, arrays = saved_state(learner)
    for names in (["age"], ["age", "age", "visits"], [1, 2, 3], "age"):
        with pytest.raises(ValueError, match="names of the columns"):
            restore(head | {"names": names}, arrays)


# Tables that are too wide for an array.


@pytest.mark.parametrize("common", [{}, {"features": 100}, {"inputs": "auto"}, {"inputs": "unit"}])
@pytest.mark.parametrize("make", [ob.OneBit, ob.UCWL])
def test_a_wide_table_has_names_too(make, common, tmp_path, monkeypatch):
    if make is ob.OneBit and "inputs" in common:
        common = {"inputs": "sparse"}
    monkeypatch.setattr("onebit.datasets.columns.MOST_DENSE", 2)
    path, X, y = table(tmp_path)
    data = ob.datasets.read(path)
    assert hasattr(data.X, "tocsr") and data.columns == NAMES
    learner, chunks = make(data.labels, **common), make(data.labels, **common)
    plain = make(data.labels, **common)
    ob.simulate(learner, data)
    ob.simulate(chunks, ob.datasets.stream(path, labels=data.labels, rows=50))
    ob.simulate(plain, data.X, y)
    assert np.array_equal(learner.scores(data.X), plain.scores(data.X))
    learner.save(tmp_path / "people.onebit")
    learner = ob.load(tmp_path / "people.onebit")
    assert testing.state_bytes(chunks) == testing.state_bytes(learner)
    wanted, dicts = learner.scores(data.X), [dict(reversed(dict_of(row).items())) for row in X]
    assert len(np.unique(wanted, axis=0)) > 1
    assert np.array_equal(learner.scores(dicts), wanted)
    for library in ("pandas", "polars"):
        frame = pytest.importorskip(library).DataFrame([dict_of(row) for row in X])
        row = frame.iloc[0] if library == "pandas" else frame[0]
        decision = learner.copy().decide(row)
        assert decision.row[0].tolist() == plain.copy().decide(data.X[0]).row[0].tolist()
        assert learner.propensities(row).tolist() == plain.propensities(data.X[0]).tolist()
        if "features" not in common:  # a frame of numbers is dense rows
            assert np.array_equal(learner.scores(frame), wanted)
    assert {part for part, _ in learner.explain(dicts[0]).parts} <= set(NAMES)
    with pytest.raises(ValueError, match="knows no column 'heigth'; did you mean 'height'"):
        learner.decide({"heigth": 180.0})
    head, arrays = saved_state(learner)
    with pytest.raises(ValueError, match="names of the columns"):
        restore(head | {"names": ["a", "a"]}, arrays)


@pytest.mark.parametrize("make", [ob.OneBit, ob.UCWL])
def test_what_is_missing_in_a_dict_for_a_wide_table_is_0_as_in_the_table(
    make, tmp_path, monkeypatch
):
    monkeypatch.setattr("onebit.datasets.columns.MOST_DENSE", 2)
    data = ob.datasets.read(table(tmp_path)[0])
    learner = make(data.labels)
    ob.simulate(learner, data)
    for x in ({"age": 33.0, "visits": 2.0}, {"age": 33.0, "height": None, "visits": 2.0}):
        assert learner.copy().decide(x).row[0].tolist() == [0, 2]


def test_a_learner_of_sparse_rows_learns_the_names_of_a_wide_table(tmp_path, monkeypatch):
    monkeypatch.setattr("onebit.datasets.columns.MOST_DENSE", 2)
    path, X, y = table(tmp_path, 40)
    data = ob.datasets.read(path)
    learner, plain = ob.UCWL(data.labels), ob.UCWL(data.labels)
    ob.simulate(learner, data.X[:20], y[:20])
    ob.simulate(plain, data.X[:20], y[:20])
    ob.simulate(learner, data)
    ob.simulate(plain, data.X, y)
    assert testing._learned(learner) == testing._learned(plain)
    assert learner.reader.names == tuple(data.columns) and not plain.reader.names
    with pytest.raises(ValueError, match="knows numbers by their names"):
        ob.simulate(taught_by_dicts(X, y, ob.OneBit), data)


# Learners that were taught with dicts.


def taught_by_dicts(X, y, make):
    learner = make(sorted(set(y)))
    for row, label in zip(X, y, strict=True):
        testing._teach(learner, learner.decide(dict_of(row)), label)
    return learner


@pytest.mark.parametrize("make", [ob.OneBit, ob.UCWL, partial(ob.UCWL, inputs="auto")])
def test_a_learner_of_dicts_reads_rows_with_names_as_dicts(make, tmp_path):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    path, X, y = table(tmp_path, 60)
    X = X.astype(np.float64)
    taught_by_dicts(X, y, make).save(tmp_path / "people.onebit")
    learner = ob.load(tmp_path / "people.onebit")
    dicts = [dict_of(row) for row in X]
    wanted, before = learner.scores(dicts), testing.state_bytes(learner)
    columns = dict(zip(NAMES, X.T, strict=True))
    frame = pandas.DataFrame(columns)
    forms = (frame, polars.DataFrame(columns), [row for _, row in frame.iterrows()])
    for rows in forms:
        assert np.array_equal(learner.scores(rows), wanted)
    for x in (frame.iloc[0], frame.iloc[[0]]):
        assert learner.propensities(x).tolist() == learner.propensities(dicts[0]).tolist()
        assert learner.explain(x) == learner.explain(dicts[0])
    assert testing.state_bytes(learner) == before
    by_dict = learner.copy()
    assert learner.decide(frame.iloc[0]).row[0].tolist() == by_dict.decide(dicts[0]).row[0].tolist()
    ob.simulate(by_dict, dicts, y)
    ob.simulate(learner, ob.datasets.read(path))
    assert testing.state_bytes(learner) == testing.state_bytes(by_dict)
    with pytest.raises(ValueError, match="one context is one row, not 60"):
        learner.decide(frame)


@pytest.mark.parametrize("make", [ob.OneBit, partial(ob.UCWL, inputs="auto")])
def test_a_learner_of_dicts_refuses_rows_without_names(make, tmp_path):
    _, X, y = table(tmp_path, 40)
    learner = taught_by_dicts(X, y, make)
    before = testing.state_bytes(learner)
    for rows in (X, X.tolist(), [X[0]]):
        with pytest.raises(ValueError, match="knows numbers by their names"):
            learner.predict(rows)
    for call in (learner.decide, learner.propensities, learner.explain):
        for row in (X[0], X[0].tolist(), X[:1]):
            with pytest.raises(ValueError, match="knows numbers by their names"):
                call(row)
    with pytest.raises(ValueError, match="knows numbers by their names"):
        ob.simulate(learner, X, y)
    assert testing.state_bytes(learner) == before


# Rows of data frames, one by one.


@pytest.mark.parametrize("make", [ob.OneBit, ob.UCWL, partial(ob.UCWL, inputs="auto")])
def test_a_row_with_truth_values_is_as_dense_as_its_frame(make):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(4)
    frame = pandas.DataFrame({"age": rng.integers(0, 9, 30), "old": rng.random(30) > 0.5})
    frame["height"] = rng.normal(size=30)
    y = frame["old"].astype(int).tolist()
    assert frame.iloc[0].dtype == object
    whole, rounds = make(2), make(2)
    ob.simulate(whole, frame, y)
    for i, label in enumerate(y):
        testing._teach(rounds, rounds.decide(frame.iloc[i]), label)
    assert testing.state_bytes(rounds) == testing.state_bytes(whole)
    rows = [frame.iloc[i] for i in range(30)]
    assert np.array_equal(whole.scores(rows), whole.scores(frame))


def test_what_is_missing_in_a_row_is_missing_in_the_frame():
    pandas = pytest.importorskip("pandas")
    ages = pandas.array([3, None], "Int64")
    frame = pandas.DataFrame({"age": ages, "team": ["A", "B"]})
    learner = ob.UCWL(2)
    found = learner.decide(frame.iloc[1]).indices.tolist()
    assert found == learner.decide({"team": "B"}).indices.tolist()
    assert np.array_equal(learner.scores([frame.iloc[1]]), learner.scores(frame[1:]))
    gaps = pandas.DataFrame({"age": [3.0, 4.0], "team": ["A", math.nan]})  # the string is missing
    found = learner.decide(gaps.iloc[1]).indices.tolist()
    assert found == learner.decide({"age": 4.0}).indices.tolist()
    taught = ob.OneBit(2)
    ob.simulate(taught, pandas.DataFrame({"age": [1, 2, 6], "size": [1, 2, 1]}), [0, 1, 0])
    row = pandas.DataFrame({"age": ages, "size": pandas.array([1, 1], "Int64")}).iloc[1]
    assert math.isnan(taught.decide(row).values[0])


Place = namedtuple("Place", ["city", "size"])


@pytest.mark.parametrize("make", [ob.OneBit, ob.UCWL, partial(ob.UCWL, inputs="auto")])
def test_a_named_tuple_is_a_dict_of_its_fields(make):
    for x in (Place("Oslo", 3.0), Place("the big city", 1.0), Place(2.0, 3.0)):
        learner, twin = make(2), make(2)
        for same in (x._asdict(), x):
            testing._teach(learner, learner.decide(x), 0)
            testing._teach(twin, twin.decide(same), 0)
        assert testing.state_bytes(learner) == testing.state_bytes(twin)
        assert np.array_equal(learner.scores([x]), twin.scores([x._asdict()]))
        assert learner.explain(x) == twin.explain(x._asdict())
        ob.simulate(learner, [x, x], [0, 1])
        with pytest.raises(TypeError, match="put a single dict or pair into a list"):
            learner.predict(x)
    arrays = Place([0, 1], [1.0, 2.0])  # no pair (indices, values)
    with pytest.raises(TypeError, match="feature 'city' must be a number or a string"):
        make(2).decide(arrays)


def test_a_named_tuple_is_read_by_name_by_a_learner_of_a_table():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": [1.0, 2.0, 6.0], "size": [4.0, 2.0, 1.0]})
    learner = ob.OneBit(2)
    ob.simulate(learner, frame, [0, 1, 0])
    other = frame[["size", "age"]]
    rows = list(other.itertuples(index=False))
    assert np.array_equal(learner.scores(rows), learner.scores(frame))
    assert learner.decide(rows[0]).values.tolist() == [1.0, 4.0]
    with pytest.raises(ValueError, match="the learner knows no column 'Index'"):
        learner.decide(next(frame.itertuples()))


def test_a_string_in_a_column_of_numbers_is_to_be_converted():
    learner = ob.OneBit(2)
    frame = pytest.importorskip("pandas").DataFrame({"a": [1, 2], "b": [3, 3]})
    ob.simulate(learner, frame, [0, 1])
    with pytest.raises(TypeError, match="'a' must be a number, not '3'; convert it"):
        learner.decide({"a": "3", "b": 1})


# Frames whose columns have types that are not those of numbers.


def numbers_as_objects(missing=False):
    """Columns of numbers, and the same numbers as floats."""
    rng = np.random.default_rng(4)
    prices, ages, old = rng.integers(0, 9, 60) / 2, rng.integers(0, 90, 60), rng.random(60) > 0.5
    floats = {"price": prices.tolist(), "age": ages.astype(float).tolist(), "old": (old * 1.0)}
    objects = {
        "price": [Decimal(price) for price in prices.tolist()],
        "age": ages.tolist(),
        "old": old.tolist(),
    }
    if missing:
        objects["age"][5] = None
        floats["age"][5] = math.nan
    return objects, floats


def learned_from(frame):
    """What a learner has learned from a frame, or why it refused it."""
    learner = ob.OneBit(2)
    try:
        ob.simulate(learner, frame, [0, 1, 1] * 20)
    except ValueError as error:
        return str(error)
    return testing.state_bytes(learner)


@pytest.mark.parametrize("missing", [False, True])
def test_a_frame_of_numbers_may_have_columns_of_objects(missing):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    objects, floats = numbers_as_objects(missing)
    wanted = learned_from(pandas.DataFrame(floats))
    assert learned_from(pandas.DataFrame(objects, dtype=object)) == wanted
    as_objects = [polars.Series(name, values, polars.Object) for name, values in objects.items()]
    assert learned_from(polars.DataFrame(as_objects)) == wanted
    assert learned_from(polars.DataFrame(floats | {"price": objects["price"]})) == wanted


@pytest.mark.parametrize("make", [ob.OneBit, ob.UCWL, partial(ob.UCWL, inputs="auto")])
def test_rows_of_a_frame_of_objects_are_rows_of_numbers_one_by_one_too(make):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(numbers_as_objects()[0], dtype=object)
    y = [0, 1, 1] * 20
    whole, rounds = make(2), make(2)
    ob.simulate(whole, frame, y)
    for i, label in enumerate(y):
        testing._teach(rounds, rounds.decide(frame.iloc[i]), label)
    assert testing.state_bytes(rounds) == testing.state_bytes(whole)
    assert np.array_equal(whole.scores([frame.iloc[i] for i in range(60)]), whole.scores(frame))


def test_a_column_of_objects_with_one_string_is_no_column_of_numbers():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"code": [7, "B2", None], "x": [1.0, 2.0, 3.0]})
    rows = ob.UCWL(2).rows(frame), ob.UCWL(2).rows(frame.to_dict("records"))
    assert rows[0].indices.tolist() == rows[1].indices.tolist() and not rows[0].columns
    empty = pandas.DataFrame({"code": [None, None], "x": [1.0, 2.0]})  # None: a category
    found = ob.UCWL(2).decide(empty.iloc[[0]]).indices
    assert found.tolist() == ob.UCWL(2).decide({"code": None, "x": 1.0}).indices.tolist()


@pytest.mark.parametrize("make", [ob.OneBit, ob.UCWL])
def test_a_first_row_that_happens_to_hold_numbers_alone_has_a_remedy(make):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"code": [7, "B2"] * 20, "x": [1.0, 2.0] * 20})
    learner = make(2)
    learner.learn(learner.decide(frame.iloc[0]), right=True)
    with pytest.raises(TypeError, match=r"'code' must be a number, not 'B2'.*row\.to_dict\(\)"):
        learner.decide(frame.iloc[1])
    rounds, whole, y = make(2), make(2), [0, 1] * 20
    for i, label in enumerate(y):
        testing._teach(rounds, rounds.decide(frame.iloc[i].to_dict()), label)
    ob.simulate(whole, frame, y)
    assert testing.state_bytes(rounds) == testing.state_bytes(whole)


# Names and categories in Unicode.

DECOMPOSED = unicodedata.normalize("NFD", "prénom")
COMPOSED = unicodedata.normalize("NFC", DECOMPOSED)
NAMED = [COMPOSED, DECOMPOSED]


def columns_named(name, value):
    """Columns of a name whose values are a category, a text and a number."""
    return {name: [value, "b"] * 15, f"{name} text": ["a b", f"c {value}"] * 15, "n": [1, 2] * 15}


@pytest.mark.parametrize("make", [ob.OneBit, ob.UCWL])
def test_names_and_categories_are_composed(make, tmp_path):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    y, wanted = [0, 1] * 15, None
    for sign in NAMED:
        columns = columns_named(sign, sign)
        frame = polars.DataFrame(columns | {"label": y})
        frame.write_csv(tmp_path / "table.csv")
        frame.write_parquet(tmp_path / "table.parquet")
        rows = polars.DataFrame(columns).to_dicts()
        forms = [polars.DataFrame(columns), pandas.DataFrame(columns), rows]
        forms.append([{**row, f"{sign}={row[sign]}": 1} for row in rows])
        for row in forms[-1]:
            del row[sign]
        forms += [ob.datasets.read(tmp_path / f"table.{end}").X for end in ("csv", "parquet")]
        for X in forms:
            learner = make(2)
            ob.simulate(learner, X, y)
            wanted = wanted or testing.state_bytes(learner)
            assert testing.state_bytes(learner) == wanted
        rounds = make(2)
        for row, label in zip(rows, y, strict=True):
            testing._teach(rounds, rounds.decide(row), label)
        assert testing.state_bytes(rounds) == wanted
    explained = [rounds.explain({f"{sign} text": "a b", sign: sign}).parts for sign in NAMED]
    assert [value for _, value in explained[0]] == [value for _, value in explained[1]] != []


@pytest.mark.parametrize("make", [ob.OneBit, ob.UCWL])
def test_names_of_columns_are_composed(make, tmp_path):
    pandas = pytest.importorskip("pandas")
    frames = [pandas.DataFrame({name: [1, 2] * 9, "n": [1, 5, 3] * 6}) for name in NAMED]
    wanted = None
    for frame in frames:
        learner = make(2)
        ob.simulate(learner, frame, [0, 1, 1] * 6)
        head, arrays = saved_state(learner)
        of_old_file = restore(head | {"names": list(frame.columns)}, arrays)
        frame.assign(label=[0, 1, 1] * 6).to_csv(tmp_path / "table.csv", index=False)
        from_file = make([0, 1])
        ob.simulate(from_file, ob.datasets.read(tmp_path / "table.csv"))
        for taught in (learner, of_old_file, from_file):
            for other in frames:
                scores = taught.scores(other).tolist()
                wanted = wanted or scores
                assert scores == taught.scores(other.to_dict("records")).tolist() == wanted
    both = make(2)
    twice = pandas.DataFrame({name: [1.0, 2.0] for name in NAMED})
    ob.simulate(both, twice, [0, 1])
    both.save(tmp_path / "both")
    assert np.array_equal(ob.load(tmp_path / "both").scores(twice), both.scores(twice))
