"""inputs="unit" and inputs="auto": scaled contexts, in all ways that contexts come in."""

from __future__ import annotations

from functools import partial

import msgspec
import numpy as np
import pytest
from scipy import sparse

import onebit as ob
from onebit import testing
from onebit.core.jit import COMPILED
from onebit.learner import files
from onebit.learner.declared import Declared
from onebit.storage.scales import SPREAD
from onebit.testing import LABELS, saved_state

KINDS = [
    (ob.Banditron, {}),
    (ob.UCWL, {}),
    (ob.SOBA, {}),
    (ob.Confidit, {"form": "full", "features": 6}),
    (ob.UCWL, {"kernel": "rbf(gamma=0.3)", "budget": 15}),
    (ob.AROW, {}),
]
SOME = KINDS if not COMPILED else KINDS[:2]


def stream(rows=40):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(rows, 6)) * rng.lognormal(sigma=3, size=(rows, 1))
    X[5] = 0
    X[7] = [1e14, 1e-10, 0, 0, 0, 1]  # so long that a value vanishes
    return X.astype(np.float32), rng.integers(0, LABELS, rows)


def play(learner, X, y):
    for x, label in zip(X, y, strict=True):
        law = learner.propensities(x)
        decision = learner.decide(x)
        assert abs(law[decision.place] - decision.propensity) < 1e-9
        told = (
            {"label": int(label)}
            if learner.full_information
            else {"right": decision.label == label}
        )
        learner.learn(decision, **told)
    return learner


@pytest.mark.parametrize("half_life", [None, 16])
@pytest.mark.parametrize(("make", "settings"), SOME)
def test_rounds_streams_chunks_and_prepared_rows_are_the_same(make, settings, half_life, tmp_path):
    X, y = stream()
    settings = {**settings, "half_life": half_life, "seed": 2}
    rounds, whole, chunks = (make(LABELS, inputs="unit", **settings) for _ in range(3))
    play(rounds, X[:20], y[:20]).save(tmp_path / "unit.onebit")
    rounds = play(ob.load(tmp_path / "unit.onebit"), X[20:], y[20:])
    trace = ob.simulate(whole, X, y)
    ob.simulate(chunks, iter([(X[:11], y[:11]), (X[11:], y[11:])]))
    assert testing.state_bytes(rounds) == testing.state_bytes(whole) == testing.state_bytes(chunks)
    prepared = make(LABELS, **settings)
    steps = ob.datasets.Steps(["unit_norm"], dtype=prepared.dtype)
    same = ob.simulate(prepared, ob.datasets.prepare(X, steps), y)
    assert np.array_equal(trace.mistakes, same.mistakes)
    assert np.array_equal(whole.weights, prepared.weights)
    assert np.array_equal(whole.scores(X), whole.scores(sparse.csr_array(X * np.float32(4))))


def test_lockstep_keeps_the_two_kinds_apart():
    X, y = stream()
    settings = {"labels": LABELS, "gamma": [0.1, 0.2, 0.3, 0.4], "inputs": ["raw", "unit"]}
    runs = ob.sweep(ob.Banditron, X, y, test=(X, y), **settings)
    assert [run.settings.get("inputs", "raw") for run in runs] == ["raw", "unit"] * 4
    for run in runs:
        learner = ob.Banditron(LABELS, **run.settings)
        trace = ob.simulate(learner, X, y)
        assert np.array_equal(trace.mistakes, run.trace.mistakes)
        assert run.test_error == np.mean(learner.predict(X) != y)


def test_a_named_label_is_learned_from_the_row_of_the_decision():
    X, y = stream(20)
    unit, by_hand = ob.SOBA(LABELS, inputs="unit"), ob.SOBA(LABELS)
    for x, label in zip(X, y, strict=True):
        unit.learn(unit.decide(x), label=int(label))
        prepared = ob.datasets.Steps(["unit_norm"])(x)
        by_hand.learn(by_hand.decide(prepared), label=int(label))
    assert np.array_equal(unit.weights, by_hand.weights)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scaling_twice_is_scaling_once(dtype):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 50)) * rng.lognormal(sigma=4, size=(300, 50))
    steps = ob.datasets.Steps(["unit_norm"], dtype=dtype)
    unit = steps.rows(X)
    assert np.allclose(np.linalg.norm(unit, axis=1), 1)
    assert np.array_equal(steps.rows(unit), unit)


def test_texts_and_tables_have_length_1_too():
    for x in (([3], [7.0]), "the screen", {"body": "the screen is black", "price": 1e6}):
        learner = ob.UCWL(labels=["bug", "praise"], inputs="unit")
        decision = learner.decide(x)
        assert np.linalg.norm(decision.values) == pytest.approx(1)
        learner.learn(decision, right=True)
    assert learner.explain({"body": "the screen is black", "price": 1e6}).parts


def test_raw_and_unit_learners_do_not_exchange_decisions():
    raw, unit = ob.UCWL(3), ob.UCWL(3, inputs="unit")
    assert "inputs" not in raw.settings and unit.settings["inputs"] == "unit"
    with pytest.raises(ValueError, match=r"another model|other settings"):
        unit.learn(raw.decide([1.0, 2.0]), right=True)
    with pytest.raises(ValueError, match="inputs must be one of 'raw', 'unit', 'auto'"):
        ob.UCWL(3, inputs="scaled")
    with pytest.raises(ValueError, match="inputs must be one of 'auto', 'dense', 'sparse'"):
        ob.OneBit(3, inputs="unit")


# inputs="auto"

AUTO = [
    lambda **common: ob.UCWL(["low", "high"], inputs="auto", **common),
    lambda **common: ob.Banditron(["low", "high"], inputs="auto", **common),
    lambda **common: ob.Confidit(
        ["low", "high"], inputs="auto", form="full", **{"features": 48, **common}
    ),
    lambda **common: ob.UCWL(  # as wide as hashed texts, each stored context would take 8 MB
        ["low", "high"],
        inputs="auto",
        kernel="rbf(gamma=0.3)",
        budget=15,
        **{"features": 512, **common},
    ),
]


def tickets(rows=60):
    """A number decides; a text and a category stand beside it. Some numbers are 0 or missing."""
    rng = np.random.default_rng(4)
    words, X, y = ["the screen is black", "I like it", "bill"], [], []
    for i in range(rows):
        price = float(rng.integers(0, 9)) * 1000
        X.append({"price": price, "body": words[i % 3], "plan": "AB"[i % 2], "age": float(i % 5)})
        if i % 7 == 3:
            del X[-1]["age"]
        y.append("high" if price > 4000 else "low")
    return X, y


@pytest.mark.parametrize("common", [{}, {"features": 48}, {"half_life": 16}])
@pytest.mark.parametrize("make", AUTO if not COMPILED else AUTO[:1])
def test_numbers_of_dicts_are_scaled_in_all_ways_in_which_they_come(make, common, tmp_path):
    X, y = tickets()
    whole, rounds, chunks = (make(**common) for _ in range(3))
    trace = ob.simulate(whole, X, y)
    play(rounds, X[:25], y[:25]).save(tmp_path / "auto.onebit")
    rounds = play(ob.load(tmp_path / "auto.onebit"), X[25:], y[25:])
    ob.simulate(chunks, iter([(X[:11], y[:11]), (X[11:], y[11:])]))
    assert testing.state_bytes(rounds) == testing.state_bytes(whole) == testing.state_bytes(chunks)
    assert testing.state_bytes(whole.copy()) == testing.state_bytes(whole)
    [run] = ob.sweep([make(**common)], X, y, test=(X, y))
    assert np.array_equal(run.trace.mistakes, trace.mistakes)
    assert run.test_error == np.mean(whole.predict(X) != np.array(y))
    names = list(X[0])
    lines = [",".join(str(x.get(name, "")) for name in names) for x in X]
    lines = [f"{line},{label}" for line, label in zip(lines, y, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join([",".join([*names, "label"]), *lines]))
    how = {"labels": whole.labels, "features": whole.features, "dtype": whole.dtype}
    table = ob.datasets.read(tmp_path / "t.csv", **how)
    from_file = make(**common)
    ob.simulate(from_file, table)
    assert testing.state_bytes(from_file) == testing.state_bytes(whole)


@pytest.mark.parametrize("make", AUTO if not COMPILED else AUTO[:1])
@pytest.mark.parametrize("dense", [True, False])
def test_units_change_nothing_and_late_answers_are_the_streams(make, dense):
    X, y = tickets()
    if dense:
        X = [[x["price"], x.get("age", 0.0)] for x in X]
        larger = [[x * 1024 for x in row] for row in X]
    else:
        X = [{**x, "age": x.get("age", 0.0)} for x in X]
        larger = [{**x, "price": x["price"] * 1024} for x in X]
    common = {} if not dense else {"features": 2}
    plain, scaled, late, stream = (make(**common) for _ in range(4))
    ob.simulate(plain, X, y)
    ob.simulate(scaled, larger, y)
    assert np.array_equal(plain.scores(X), scaled.scores(larger))
    waiting = []
    for x, label in zip(X, y, strict=True):
        waiting.append((late.decide(x), label))
        late.propensities(X[3])
        late.propose(X[5])
        if len(waiting) > 4:
            decision, truth = waiting.pop(0)
            kept = ob.Decision.from_bytes(decision.to_bytes())
            late.learn(kept, right=decision.label == truth)
    ob.simulate(stream, X, y, channel=[ob.Delay(4)])
    assert testing._learned(late) == testing._learned(stream)


@pytest.mark.parametrize("name", sorted(Declared.registry))
def test_every_learner_accepts_its_own_decisions_on_texts_and_categories(name):
    kind = Declared.registry[name]
    if kind.needs:
        pytest.skip("it needs a setting of its own")
    words = ["the screen is black", "I like it", "bill", "the bill is wrong"]
    texts = [words[i % 4] for i in range(16)]
    forms = (texts, [{"body": text, "plan": "AB"[i % 2]} for i, text in enumerate(texts)])
    for X in forms:
        y = [i % 4 % 2 for i in range(len(X))]
        features = 48 if kind.costly else None
        rounds, whole = (kind(2, inputs="auto", features=features) for _ in range(2))
        ob.simulate(whole, X, y)
        assert testing.state_bytes(play(rounds, X, y)) == testing.state_bytes(whole)


def test_a_decision_with_features_that_the_learner_has_not_met_is_learned_from():
    decides, learns = (ob.PNewtron(2, inputs="auto") for _ in range(2))
    for i, text in enumerate(["the screen", "I like it", "the bill", "like the bill"] * 3):
        decision = decides.decide(text)
        for learner in (decides, learns):
            learner.learn(decision, right=i % 2 == 0)
        forged = msgspec.structs.replace(decides.decide("a new word"), other=1e3)
        with pytest.raises(ValueError, match="no PNewtron can have made this decision"):
            learns.learn(forged, right=True)
    assert np.array_equal(decides.scores(["the bill"]), learns.scores(["the bill"]))


def test_auto_learns_where_raw_does_not():
    X, y = tickets(400)
    raw, auto = (ob.UCWL(["low", "high"], inputs=inputs) for inputs in ("raw", "auto"))
    assert ob.simulate(auto, X, y).error[-1] < 0.6 * ob.simulate(raw, X, y).error[-1]


def test_a_learner_elsewhere_learns_the_same_scales():
    """Feedback alone makes them: a process that only learns has those of one that decides."""
    X, y = tickets(30)
    decides, learns = AUTO[0](), AUTO[0]()
    for x, label in zip(X, y, strict=True):
        decision = decides.decide(x)
        learns.redo(x, decision)
        for learner in (decides, learns):
            learner.learn(decision, right=decision.label == label)
    assert testing.state_bytes(decides) == testing.state_bytes(learns)


def test_scales_are_forgotten_too():
    X, y = tickets()
    learner = AUTO[0]()
    ob.simulate(learner, X, y)
    before = learner.table.scales.lines.copy()
    learner.forget(0.5)
    learner.table.make_room_to_scale(0)
    assert np.allclose(learner.table.scales.lines, before * [0.5, 1, 0.5, 1, 1])
    learner.forget()
    assert np.array_equal(learner.scores(X), AUTO[0]().scores(X))
    ob.simulate(learner, X, y)


def test_a_missing_column_is_its_mean():
    frame = pytest.importorskip("polars").DataFrame({"a": [1.0, 3, 5, 7], "b": [2.0, 2, 4, 4]})
    learner = ob.UCWL(2, inputs="auto")
    ob.simulate(learner, frame, [0, 1, 0, 1])
    whole = learner.scores([{"a": 4.0, "b": 2.0}])
    assert np.array_equal(learner.scores([{"b": 2.0}]), whole)
    assert dict(learner.explain({"a": 7.0, "b": 0.0}).parts).keys() == {"a", "b"}
    with pytest.raises(ValueError, match="takes dense rows of 2 columns"):
        learner.decide(([2], [1.0]))


def test_files_with_wrong_scales_are_refused(tmp_path):
    X, y = tickets()
    names, columns, raw = AUTO[0](), AUTO[0](), ob.UCWL(["low", "high"])
    ob.simulate(names, X, y)
    ob.simulate(columns, [[1.0, 2.0], [2.0, 5.0]], y[:2])
    ob.simulate(raw, X, y)
    for learner, change in [
        (names, lambda scales: scales * -1),
        (names, lambda scales: scales[:-1]),
        (names, lambda scales: scales.astype(np.float32)),
        (columns, lambda scales: scales * np.nan),
        (columns, lambda scales: scales[:-1]),
        (raw, lambda scales: np.ones((3, 3))),
    ]:
        head, arrays = saved_state(learner)
        arrays["input_scales"] = change(arrays.get("input_scales"))
        files.write(tmp_path / "wrong", head, arrays)
        with pytest.raises(ValueError, match="do not fit its settings"):
            ob.load(tmp_path / "wrong")
    for learner in (names, columns):
        learner.save(tmp_path / "right")
        assert testing.state_bytes(ob.load(tmp_path / "right")) == testing.state_bytes(learner)


@pytest.mark.parametrize("place", range(12))
def test_an_outlier_among_the_first_numbers_does_not_spoil_the_scale(place):
    values = np.random.default_rng(place).normal(size=60)
    usual, values[place] = values.std(), 9999.0
    columns, names, own = ob.UCWL(2, inputs="auto"), ob.UCWL(2, inputs="auto"), ob.OneBit(2)
    for value in values:
        columns.learn(columns.decide([float(value)]), right=True)
        for learner in (names, own):
            learner.learn(learner.decide({"a": float(value)}), right=True)
    numbers = own.table.state.held.numbers
    for line in (
        columns.table.scales.lines[1],
        names.table.scales.lines[1:].max(axis=0),
        numbers[-1],
    ):
        assert 0.5 * usual < np.sqrt(line[SPREAD] / 60) < 4 * usual


def test_scales_of_earlier_versions(tmp_path):
    X, y = tickets()
    learner = AUTO[0]()
    ob.simulate(learner, X, y)
    head, arrays = saved_state(learner)
    arrays["input_scales"] = arrays["input_scales"][:, :3]
    files.write(tmp_path / "earlier", head, arrays)
    assert np.array_equal(ob.load(tmp_path / "earlier").scores(X), learner.scores(X))


def test_hypotheses_read_rows_as_they_come():
    with pytest.raises(ValueError, match="leave out inputs='auto'"):
        ob.Halving(2, hypotheses=np.eye(4).reshape(2, 2, 4), inputs="auto")
    with pytest.raises(ValueError, match="inputs='dense' needs features="):
        ob.UCWL(2, inputs="dense")


# The kind of context: with inputs="auto", the first that is learned from decides it.

OPEN = [ob.OneBit, partial(ob.UCWL, inputs="auto"), partial(ob.Banditron, inputs="auto")]
OPEN += [partial(ob.Confidit, inputs="auto", form="full", features=4)]
EMPTY = [[], {}, ([], []), sparse.csr_matrix((1, 4))]


def dense_stream(rows=60):
    X = np.random.default_rng(6).normal(size=(rows, 4)) * [1, 1000, 1, 1]
    return X, (X[:, 0] > 0).astype(int)


@pytest.mark.parametrize("make", OPEN)
@pytest.mark.parametrize("is_answered", [False, True])
def test_an_empty_context_does_not_decide_the_kind(make, is_answered, tmp_path):
    X, y = dense_stream()
    for first in EMPTY if make is not OPEN[-1] else EMPTY[1:]:  # features=4: a list has 4 columns
        whole, rounds = make(2), make(2)
        for learner in (whole, rounds):
            decision = learner.decide(first)
            if is_answered:
                learner.learn(decision, right=True)
        whole.save(tmp_path / "model")
        whole = ob.load(tmp_path / "model")
        before = testing.state_bytes(whole)
        law, scores = whole.propensities(X[0]), whole.scores(X)
        proposed = whole.propose(X[0])
        assert whole.explain(X[0]).label in whole.labels
        assert testing.state_bytes(whole) == before, "reading changed the learner"
        assert scores.shape == (60, 2) and law[proposed.place] == proposed.propensity
        redone = whole.copy()
        assert redone.redo(X[0], proposed).row[1].dtype == np.float64
        assert redone.reader.way.columns
        ob.simulate(whole, X, y)
        assert whole.reader.way.columns
        play(rounds, X, y)
        assert testing.state_bytes(whole) == testing.state_bytes(rounds)
        [run] = ob.sweep([make(2)], X, y, test=(X, y))
        fresh = make(2)
        assert run.trace.mistakes.tolist() == ob.simulate(fresh, X, y).mistakes.tolist()


@pytest.mark.parametrize("make", OPEN)
def test_a_text_without_feedback_does_not_decide_the_kind(make):
    X, y = dense_stream()
    learner, fresh = make(2), make(2)
    late = learner.decide("a text")
    fresh.decide({})
    ob.simulate(learner, X, y)
    ob.simulate(fresh, X, y)
    assert learner.reader.way.columns and np.array_equal(learner.scores(X), fresh.scores(X))
    if learner.features is None:
        with pytest.raises(ValueError, match=r"takes dense rows of 4 columns|with rows of numbers"):
            learner.learn(late, right=True)


@pytest.mark.parametrize("make", OPEN)
@pytest.mark.parametrize(
    "x",
    ["a text", {"body": "a text"}, {"team": "A"}, ([1, 3], [1.0, 2.0]), sparse.eye(4).tocsr()[0]],
)
def test_a_learner_of_other_contexts_refuses_dense_rows(make, x, tmp_path):
    X, y = dense_stream()
    learner = make(2)
    for _ in range(3):  # a learner may learn nothing from a right answer
        learner.learn(learner.decide(x), label=0)
        learner.learn(learner.decide(x), label=1)
    learner.save(tmp_path / "model")
    for taught in (learner, ob.load(tmp_path / "model")):
        before = testing.state_bytes(taught)
        for call in (
            lambda learner: learner.decide(X[0]),
            lambda learner: learner.decide(X[0].tolist()),
            lambda learner: learner.propose(X[0]),
            lambda learner: learner.propensities(X[0]),
            lambda learner: learner.explain(X[0]),
            lambda learner: learner.predict(X),
            lambda learner: learner.scores(X.tolist()),
            lambda learner: ob.simulate(learner, X, y),
            lambda learner: ob.sweep([learner], X, y),
        ):
            with pytest.raises(
                ValueError, match="was taught with texts, dicts or sparse rows, and"
            ):
                call(taught)
            assert testing.state_bytes(taught) == before
        taught.decide(x)
        taught.decide([] if taught.features is None else {})
    learner.forget()
    ob.simulate(learner, X, y)
    assert learner.reader.way.columns


@pytest.mark.parametrize("name", sorted(Declared.registry))
def test_every_learner_knows_whether_it_has_learned(name):
    kind = Declared.registry[name]
    if kind.needs:
        pytest.skip("it needs a setting of its own")
    learner = kind(2, inputs="auto", features=48 if kind.costly else None)
    learner.learn(learner.decide({}), label=1)
    learner.decide("the screen is black")
    assert not learner.has_learned()
    for label in (0, 1) * 3:
        learner.learn(learner.decide("the screen is black"), label=label)
    assert learner.has_learned() or name == "UniformRandom"
    learner.forget()
    assert not learner.has_learned()


def test_chunks_of_texts_that_wait_for_feedback_are_followed_by_no_arrays():
    X, y = dense_stream(8)
    learner = ob.OneBit(2)
    chunks = [(["a text", "another"], [0, 1]), (X, y)]
    with pytest.raises(ValueError, match="takes dense rows of 4 columns, and column"):
        ob.simulate(learner, chunks, channel=[ob.Delay(5)])
    assert not learner.reader.way.columns
    ob.simulate(ob.OneBit(2), [(["", ""], [0, 1]), (X, y)], channel=[ob.Delay(5)])


# Learners of dense rows.

DENSE = [
    lambda: ob.OneBit(2, inputs="dense", features=64),
    lambda: ob.UCWL(2, inputs="dense", features=64),
    partial(ob.OneBit, 2),
    partial(ob.OneBit, 2, features=64),
    partial(ob.UCWL, 2, inputs="auto", features=64),
]


@pytest.mark.parametrize("make", DENSE)
@pytest.mark.parametrize(
    ("x", "words"),
    [
        ("a text", "takes dense rows of 64 columns, not a text: use another learner"),
        ({"age": 3, "city": "Oslo"}, "64 columns, and a dict is none of them, because"),
        ({"age": 3.0}, "64 columns, and a dict is none of them, because"),
    ],
)
def test_a_learner_of_dense_rows_refuses_texts_and_dicts(make, x, words):
    learner = make()
    learner.learn(learner.decide(np.ones(64)), right=True)
    before = testing.state_bytes(learner)
    for call in (
        lambda: learner.decide(x),
        lambda: learner.propose(x),
        lambda: learner.propensities(x),
        lambda: learner.explain(x),
        lambda: learner.predict([x]),
        lambda: ob.simulate(learner, [x], [0]),
    ):
        with pytest.raises(ValueError, match=words):
            call()
        assert testing.state_bytes(learner) == before
    with pytest.raises(ValueError, match=f"row 1: .*{words}" if x != "a text" else "row"):
        learner.predict([np.ones(64), x])
    zeros = learner.decide(np.zeros(64)).row[0].tolist()
    with pytest.raises(ValueError, match="not a text"):
        learner.decide("")
    for empty in ({}, ([], [])):
        assert learner.decide(empty).row[0].tolist() == zeros


NANOSECONDS = 1.7e18  # since 1970: beyond what is taken in single precision


@pytest.mark.parametrize("make", [ob.OneBit, partial(ob.UCWL, inputs="auto")])
def test_the_first_dense_row_is_read_in_double_precision(make):
    rng = np.random.default_rng(3)
    X = np.stack([NANOSECONDS + 2.0**20 * rng.integers(0, 64, 40), rng.normal(size=40)], axis=1)
    y = (X[:, 1] > 0).astype(int)
    for call in (
        lambda learner: learner.decide(X[0]),
        lambda learner: learner.decide(X[0].tolist()),
        lambda learner: learner.redo(X[0], learner.propose(X[0])),
        lambda learner: learner.propensities(X[0]),
        lambda learner: learner.explain(X[0]),
        lambda learner: learner.predict(X),
        lambda learner: learner.scores(X.tolist()),
        lambda learner: ob.sweep([learner], X, y, test=(X, y)),
    ):
        call(make(2))
    whole = make(2)
    ob.simulate(whole, X, y)
    assert testing.state_bytes(play(make(2), X, y)) == testing.state_bytes(whole)
    for wrong in ([np.inf, 1.0], [1e121, 1.0]):
        learner = make(2)
        before = testing.state_bytes(learner)
        with pytest.raises(ValueError, match="index 0"):
            learner.decide(wrong)
        assert testing.state_bytes(learner) == before
