"""Numbers of dicts: OneBit scales them itself, in all ways that contexts come in."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import onebit as ob
from onebit import testing
from onebit.learner.files import restore
from onebit.reading.contexts import encode_rows, encoder_apart
from onebit.reading.dicts import first_number, set_apart
from onebit.reading.rows import GROWTH_LIMIT
from onebit.testing import saved_state

LABELS = ["low", "middle", "high"]
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)


def stream(rows=60, seed=1):
    """Dicts of texts, categories and numbers; the sum of two of the numbers tells the label."""
    rng = np.random.default_rng(seed)
    words = [f"word{i}" for i in range(30)]
    contexts, labels = [], []
    for _ in range(rows):
        age, height = rng.normal(size=2)
        label = LABELS[0 if age + height < -0.5 else 2 if age + height > 0.5 else 1]
        x = {
            "body": " ".join(rng.choice(words, 6)),
            "team": str(rng.choice(["A", "B"])),
            "age": float(np.float32(40 + 15 * age)),
            "height": float(np.float32(1e4 * height)),
            "visits": float(rng.integers(3)),
        }
        if rng.random() < 0.3:
            x["rare"] = float(np.float32(rng.normal()))
        contexts.append(x)
        labels.append(label)
    return contexts, labels


def make(**given):
    return ob.OneBit(LABELS, seed=3, **given)


def play(learner, contexts, labels, among=None):
    for x, label in zip(contexts, labels, strict=True):
        decision = learner.decide(x, among=among)
        learner.learn(decision, right=decision.label == label)
    return learner


def learned(learner):
    """What answers change: all but rounds, and how often a label was said."""
    arrays = saved_state(learner)[1]
    return {name: array.tobytes() for name, array in arrays.items() if name != "times_said"}


@pytest.mark.parametrize("given", [{}, {"features": 64}, {"half_life": 16}, {"dtype": "float64"}])
def test_rounds_whole_streams_chunks_and_restarts_are_the_same(given, tmp_path):
    X, y = stream()
    rounds, whole, chunks = (make(**given) for _ in range(3))
    play(rounds, X[:25], y[:25]).save(tmp_path / "half.onebit")
    rounds = play(ob.load(tmp_path / "half.onebit"), X[25:], y[25:])
    ob.simulate(whole, X, y)
    ob.simulate(chunks, iter([(X[:11], y[:11]), (X[11:40], y[11:40]), (X[40:], y[40:])]))
    assert testing.state_bytes(rounds) == testing.state_bytes(whole) == testing.state_bytes(chunks)
    assert np.array_equal(rounds.scores(X), whole.scores(X))
    assert np.array_equal(whole.copy().scores(X), whole.scores(X))


@pytest.mark.compiled
def test_late_answers_and_other_deciders():
    """A decision is a value: the learner that hears of it need not have met its numbers."""
    X, y = stream(40)
    decider, hearer, alone = make(), make(), make()
    decisions = [decider.decide(x).to_bytes() for x in X]
    for x in X:
        alone.decide(x)
    own = [ob.Decision.from_bytes(data) for data in decisions]
    for decision, label in zip(own, y, strict=True):
        hearer.learn(decision, right=decision.label == label)
        alone.learn(decision, right=decision.label == label)
    assert np.array_equal(hearer.scores(X), alone.scores(X))
    assert hearer.table.state.held.numbers[0, 0] == 40


def test_deciding_and_looking_change_no_statistics():
    X, y = stream()
    learner = play(make(), X[:30], y[:30])
    before = learned(learner)
    for x in X[:30]:
        learner.decide(x)
        learner.propose(x)
        learner.explain(x)
        learner.propensities(x)
    learner.predict(X)
    assert learned(learner) == before
    seen = learner.table.state.held.numbers[0, 0]
    learner.decide({"never met": 7})  # it has a place in the table, and no statistics
    assert learner.table.state.held.numbers[0, 0] == seen == 30


def test_a_proposal_that_is_redone_is_a_decision():
    X, y = stream()
    one, two = (play(make(), X[:20], y[:20]) for _ in range(2))
    for x, label in zip(X[20:], y[20:], strict=True):
        proposed = one.redo(x, one.propose(x))
        decided = two.decide(x)
        assert proposed.label == decided.label
        one.learn(proposed, right=proposed.label == label)
        two.learn(decided, right=decided.label == label)
    assert testing.state_bytes(one) == testing.state_bytes(two)


@pytest.mark.compiled
def test_units_of_a_number_change_nothing():
    """A factor that is a power of two is exact in floating point."""
    X, y = stream()
    smaller = [x | {"height": x["height"] / 2**20, "age": 2**10 * x["age"]} for x in X]
    one, other = make(), make()
    assert np.array_equal(ob.simulate(one, X, y).mistakes, ob.simulate(other, smaller, y).mistakes)
    assert np.array_equal(one.scores(X), other.scores(smaller))


def test_numbers_beside_a_text_are_learned_from_whatever_their_size():
    X, y = stream(1500)
    error = ob.simulate(make(), X, y).error
    assert error[-1] < 0.35
    without = [{"body": x["body"], "team": x["team"]} for x in X]
    assert ob.simulate(make(), without, y).error[-1] > 0.5


def test_zero_is_a_value_and_nan_is_none():
    learner = make()
    zero, absent = learner.decide({"a": 0, "b": 1}), learner.decide({"a": math.nan, "b": 1})
    assert len(zero.indices) == 2 and len(absent.indices) == 1
    assert (zero.indices >= GROWTH_LIMIT).all()
    assert learner.decide({"b": 1}).indices.tolist() == absent.indices.tolist()
    assert learner.decide({"a": None}).indices.max() < GROWTH_LIMIT  # a category
    assert learner.decide({"city=New York": 1}).indices.max() < GROWTH_LIMIT
    same = learner.decide({"city=Oslo": 1}), learner.decide({"city": "Oslo"})
    assert same[0].row[0].tolist() == same[1].row[0].tolist()
    for _ in range(3):
        learner.learn(learner.decide({"a": 0, "b": 1}), right=True)
    numbers = learner.table.state.held.numbers[1:]
    means = np.abs(numbers[numbers[:, 0] == 3][:, 1])  # by the sign of the hash
    assert sorted(means) == [0, 1]


def test_a_count_speaks_from_the_first_time_on():
    learner = ob.OneBit(["sport", "tech"], seed=1)
    learner.learn(learner.decide({"goal": 1, "match": 2}), label="sport")
    learner.learn(learner.decide({"screen": 1}), label="tech")
    assert learner.predict([{"goal": 1}, {"screen": 3}]).tolist() == ["sport", "tech"]


def test_forgetting():
    X, y = stream()
    learner = play(make(), X, y)
    held = learner.table.state.held
    known = held.numbers[held.numbers[:, 0] > 0].copy()
    learner.forget(0.5)
    half = learner.table.state.held
    assert half.numbers[0, 0] == 30
    assert np.allclose(half.numbers[half.numbers[:, 0] > 0], known * [0.5, 1, 0.5, 1, 1])
    learner.forget()
    assert learner.table.state.held.numbers[0, 0] == 0
    fresh = make()
    for one in (learner, fresh):
        play(one, X, y)
    assert learner.scores(X).shape == fresh.scores(X).shape
    numbers = [one.table.state.held.numbers for one in (learner, fresh)]
    assert np.array_equal(*(np.sort(n[n[:, 0] >= 0], axis=0) for n in numbers))


def test_labels_may_be_restricted_and_added():
    X, y = stream()
    learner = play(make(), X, y, among=["low", "high"])
    seen = learner.table.state.held.numbers.copy()
    learner.add_label("top")
    assert np.array_equal(
        learner.table.state.held.numbers, seen[: len(learner.table.state.held.numbers)]
    )
    play(learner, X, y)


def test_a_text_without_numbers_is_what_it_was(tmp_path):
    """Neither the row nor the model file has anything of numbers in it."""
    learner = play(make(), [{"body": "the screen is black"}, {"team": "A"}] * 3, ["low"] * 6)
    assert not any("number" in name for name in saved_state(learner)[1])
    text = {"body": "the screen is black"}
    for features in (None, 64):
        plain = encode_rows([text], F32, features)
        indices, values = encoder_apart(F32, features, first_number(features))(text, 0)
        assert np.array_equal(indices, plain.indices) and np.array_equal(values, plain.values)


def test_a_model_file_with_wrong_statistics_is_refused(tmp_path):
    X, y = stream(20)
    head, arrays = saved_state(play(make(), X, y))
    for change in (
        {"numbers_seen": np.array([-1.0])},
        {"numbers": -arrays["numbers"]},
        {"numbers": arrays["numbers"][:-1]},
        {"number_places": arrays["number_places"][::-1].copy()},
        {"number_places": arrays["number_places"] + np.uint32(10**6)},
    ):
        with pytest.raises(ValueError, match=r"cannot have learned|do not fit"):
            restore(head, arrays | change, is_foreign=True)


# The same row in other forms.


def csv_of(contexts, labels, path):
    names = list(contexts[0] | {"rare": 0})
    lines = [",".join([*names, "label"])]
    for x, label in zip(contexts, labels, strict=True):
        lines.append(",".join([*(str(x.get(name, "")) for name in names), label]))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("features", [None, 64])
def test_a_table_is_its_rows_as_dicts(features, tmp_path):
    polars = pytest.importorskip("polars")
    X, y = stream(50)
    width = {} if features is None else {"features": features}
    path = csv_of(X, y, tmp_path / "table.csv")
    frame = polars.read_csv(path)
    frame.write_parquet(tmp_path / "table.parquet")
    dicts, table, parquet, chunks, rows = (make(features=features) for _ in range(5))
    ob.simulate(dicts, X, y)
    read = ob.datasets.read(path, labels=LABELS, **width)
    ob.simulate(table, read)
    ob.simulate(parquet, ob.datasets.read(tmp_path / "table.parquet", labels=LABELS, **width))
    ob.simulate(chunks, ob.datasets.stream(path, labels=LABELS, rows=7, **width))
    for i in range(len(y)):
        decision = rows.decide(read.X[i])
        rows.learn(decision, right=decision.label == y[i])
    expected = testing.state_bytes(dicts)
    for learner in (table, parquet, chunks, rows):
        assert testing.state_bytes(learner) == expected
    assert np.array_equal(table.scores(read.X[[3, 5]]), dicts.scores([X[3], X[5]]))
    framed = make(features=features)
    ob.simulate(framed, frame.drop("label").fill_null(math.nan), y)
    assert testing.state_bytes(framed) == expected


def test_race_and_tune_read_numbers_as_dicts_are_read(tmp_path):
    from onebit.lab.streams import streams

    X, y = stream(60)
    path = csv_of(X, y, tmp_path / "table.csv")
    [course] = streams(str(path), None, 1, 0)[2]
    learner, dicts = ob.OneBit(3, seed=0), ob.OneBit(3, seed=0)
    trace = ob.simulate(learner, course.rows, course.y, order=course.simulated_order)
    names = sorted(set(y))
    order = course.order.tolist()
    same = ob.simulate(dicts, [X[i] for i in order], [names.index(y[i]) for i in order])
    assert np.array_equal(trace.mistakes, same.mistakes)
    read = ob.datasets.read(path)
    settings = {"trials": 1, "rounds": 30, "seed": 2}
    of_table, of_dicts = ob.tune(ob.OneBit, read, **settings), ob.tune(ob.OneBit, X, y, **settings)
    assert of_table.rest == of_dicts.rest


VALUES = st.one_of(
    st.sampled_from([0, 0.0, 1, True, math.nan, None, "A", "two words", "more of two words"]),
    st.floats(-1e6, 1e6, width=32),
)
DICTS = st.dictionaries(st.sampled_from([*"abcdefgh", "a=b"]), VALUES, max_size=8)


@settings(deadline=None)
@given(st.lists(DICTS, max_size=6), st.sampled_from([None, 1, 5, 64]), st.sampled_from([F32, F64]))
def test_rows_with_numbers_apart(contexts, features, dtype):
    """One by one and together they are the same, and without the numbers they are what is left."""
    first = GROWTH_LIMIT if features is None else features
    rows = set_apart(encode_rows(contexts, dtype, features, apart_below=2**32), first)
    for i, x in enumerate(contexts):
        part = slice(rows.indptr[i], rows.indptr[i + 1])
        indices, values = encoder_apart(dtype, features, first)(x, 0)
        assert np.array_equal(indices, rows.indices[part])
        assert np.array_equal(values, rows.values[part])
        assert (np.diff(indices.astype(np.int64)) > 0).all() and (values != 0).all()
        again = encoder_apart(dtype, features, first)((indices, values), 0)
        assert np.array_equal(again[0], indices) and np.array_equal(again[1], values)
        numbers = {
            name for name, value in x.items()
            if "=" not in name and isinstance(value, float | int) and not math.isnan(value)
        }  # fmt: skip
        assert ((indices >= first).sum() == 0) == (not numbers)
        if features is None:
            assert (indices >= first).sum() == len(numbers)
            rest = {name: value for name, value in x.items() if name not in numbers}
            plain = encode_rows([rest], dtype, None)
            assert np.array_equal(plain.indices, indices[indices < first])
            assert np.array_equal(plain.values, values[indices < first])


def test_an_outlier_does_not_spoil_a_number():
    rng = np.random.default_rng(5)
    values = rng.normal(size=400)
    values[50] = 1e6
    y = ["low" if v < -0.5 else "high" if v > 0.5 else "middle" for v in values]
    learner = ob.OneBit(["low", "middle", "high"])
    wrong = 0
    for t, (value, truth) in enumerate(zip(values, y, strict=True)):
        decision = learner.decide({"v": value, "team": "A"})
        learner.learn(decision, right=decision.label == truth)
        wrong += t >= 250 and decision.label != truth
    assert wrong < 30


def taught_by_a_table(tmp_path, kind=ob.OneBit, rows=60):
    """A data set with texts and numbers, and a learner that was taught with it."""
    contexts, labels = stream(rows)
    lines = ["body,age,height,label"]
    lines += [
        f"{x['body']},{x['age']},{x['height']},{label}"
        for x, label in zip(contexts, labels, strict=True)
    ]
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    data = ob.datasets.read(tmp_path / "people.csv")
    learner = kind(data.labels, inputs="auto")
    ob.simulate(learner, data)
    return data, learner


@pytest.mark.parametrize("kind", [ob.OneBit, ob.UCWL])
def test_rows_of_a_table_keep_their_numbers(kind, tmp_path):
    data, learner = taught_by_a_table(tmp_path, kind)
    X, size = data.X, data.X.shape[0]
    wanted = learner.scores(X)
    places, half = np.arange(size), np.arange(size) % 2 == 0
    same = [
        X[places], X[places, :], X[places, ...], X[:], X[:, :], X.copy(), X.astype(np.float64),
        X.astype(np.float32), X.tocsr(copy=True), [X[i] for i in places], list(X),
        [X.getrow(i) for i in places], copy.deepcopy(X), pickle.loads(pickle.dumps(X)),
    ]  # fmt: skip
    for rows in same:
        assert np.array_equal(learner.scores(rows), wanted)
    assert np.array_equal(learner.scores(X[half]), wanted[half])
    assert np.array_equal(learner.scores(X[half, :]), wanted[half])
    by_rows, by_list = kind(data.labels, inputs="auto"), kind(data.labels, inputs="auto")
    labels = [data.labels[k] for k in data.y]
    for i, label in enumerate(labels):
        testing._teach(by_rows, by_rows.decide(X[i]), label)
    ob.simulate(by_list, [X[i] for i in places], labels)
    assert (
        testing.state_bytes(by_rows) == testing.state_bytes(by_list) == testing.state_bytes(learner)
    )


@pytest.mark.parametrize("kind", [ob.OneBit, ob.UCWL])
def test_rows_that_lost_their_numbers_are_refused(kind, tmp_path):
    data, learner = taught_by_a_table(tmp_path, kind)
    X, before = data.X, testing.state_bytes(learner)
    for rows in (sparse.vstack([X]), sparse.csr_matrix(X), [sparse.csr_matrix(X[0])]):
        with pytest.raises(ValueError, match="knows numbers by their names"):
            learner.predict(rows)
    for call in (learner.decide, learner.propensities, learner.explain):
        with pytest.raises(ValueError, match="knows numbers by their names"):
            call(sparse.csr_matrix(X[0]))
        with pytest.raises(ValueError, match="computed from a table with numbers"):
            call(X[0] * 2)
    for computed in (X * 2, [X[0].multiply(X[0])]):
        with pytest.raises(ValueError, match="computed from a table with numbers"):
            learner.predict(computed)
    assert testing.state_bytes(learner) == before
    plain = ob.UCWL(data.labels)  # it scales nothing, and needs to know the names alone
    ob.simulate(plain, data)
    with pytest.raises(ValueError, match="was taught with texts or dicts"):
        plain.scores(sparse.csr_matrix(X))
    assert plain.predict(X * 2).shape == data.y.shape
