"""Rows of tables that come as dicts: OneBit reads them as it reads arrays."""

import json
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

import onebit as ob
from onebit.algorithms.onebit import sparse, tables
from onebit.algorithms.onebit.waves import WAVES
from onebit.learner import files
from onebit.testing import model_bytes, saved_state

FEW = 400


def ring(rounds=FEW, seed=0):
    """Points within a ring and outside of it, which no linear model tells apart."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rounds, 2))
    return 10.0 ** np.array([2, -3]) * X + 7, ((X**2).sum(axis=1) > 1.4).astype(int)


def as_dicts(X):
    return [{"east": x, "north": y} for x, y in X.tolist()]


def mistakes(rows, y, **settings):
    """Of the second half of the rounds, a share."""
    half = len(y) // 2
    trace = ob.simulate(ob.OneBit(2, **settings), rows, y, checkpoints=[half, len(y)])
    return (trace.mistakes[1] - trace.mistakes[0]) / (len(y) - half)


def counts_of(learner):
    return learner.table.state.held.tables.counts


def played(learner, rows, y):
    for row, truth in zip(rows, y, strict=True):
        decision = learner.decide(row)
        learner.learn(decision, right=decision.place == truth)
    return learner


def test_dicts_are_learned_as_arrays_are():
    X, y = ring()
    assert mistakes(as_dicts(X), y) < 0.17 > mistakes(X, y)
    assert mistakes(as_dicts(X), y, exclusive=False) > 0.3  # without Fourier features


def test_dicts_named_tuples_and_json_are_the_same():
    X, y = ring(60)
    point = namedtuple("point", ["east", "north"])
    dicts = as_dicts(X)
    forms = (dicts, [point(**row) for row in dicts], [json.loads(json.dumps(row)) for row in dicts])
    first, *others = (played(ob.OneBit(2), form, y) for form in forms)
    assert counts_of(first)[tables.OF_TABLES] == 60
    assert all(model_bytes(learner) == model_bytes(first) for learner in others)


@pytest.mark.filterwarnings("ignore:column .id. has another value")
def test_what_says_nothing_costs_little():
    X, y = ring()
    rng = np.random.default_rng(1)
    useless = [
        {**row, "id": f"u{i}", "shop": f"s{rng.integers(200)}"} for i, row in enumerate(as_dicts(X))
    ]
    assert mistakes(useless, y) < 0.2


def test_categories_have_columns_when_they_come_again_and_only_so_many():
    rows = [{"id": f"u{i}", "kind": "AB"[i % 2]} for i in range(40)]
    learner = played(ob.OneBit(3), rows, np.zeros(40, int))
    assert counts_of(learner)[tables.USED] == 2
    rows = [{"id": f"u{i % 400}"} for i in range(1600)]
    learner = ob.OneBit(2)
    ob.simulate(learner, rows, np.zeros(1600, int))
    assert counts_of(learner)[tables.USED] == tables.COLUMNS
    assert counts_of(learner)[tables.AWAKE] == 1  # the other categories have none


def test_counts_of_many_words_are_no_rows_of_a_table():
    rng = np.random.default_rng(2)
    rows = [{f"word{j}": 1.0 for j in rng.choice(2000, 30)} for _ in range(60)]
    learner = played(ob.OneBit(2), rows, np.zeros(60, int))
    assert counts_of(learner)[tables.AWAKE] == 0


def test_a_first_dict_decides_nothing_for_ever():
    """Texts after rows of a table, new names, and a table again."""
    X, y = ring(240)
    dicts, learner = as_dicts(X), ob.OneBit(2)
    texts = [{"body": f"the {'good' if label else 'bad'} number {i}"} for i, label in enumerate(y)]
    played(learner, dicts[:40], y[:40])
    assert counts_of(learner)[tables.AWAKE] == 1
    learner.predict([{**dicts[0], "new": 3.0, "kind": "A"}])
    played(learner, [{**row, "new": 3.0, "kind": "A"} for row in dicts[40:60]], y[40:60])
    assert counts_of(learner)[tables.AWAKE] == 1
    played(learner, texts[:120], y[:120])
    assert counts_of(learner)[tables.AWAKE] == 0
    assert (learner.predict(texts[120:]) == y[120:]).mean() > 0.9
    played(learner, dicts[60:180], y[60:180])
    assert counts_of(learner)[tables.AWAKE] == 1
    assert learner.table.state.held.experts.trust[:, 0].sum() == pytest.approx(1)


@pytest.mark.compiled  # its map of columns is filled in Python when it is loaded
@pytest.mark.parametrize("change", ["nothing", "forget", "label"])
def test_a_saved_learner_goes_on(change, tmp_path):
    X, y = ring(120)
    rows = [{**row, "kind": "ABC"[i % 3]} for i, row in enumerate(as_dicts(X))]
    learner = played(ob.OneBit(2), rows[:80], y[:80])
    if change == "forget":
        learner.forget(0.5)
    elif change == "label":
        learner.add_label(2)
    learner.save(tmp_path / "m")
    again = ob.load(tmp_path / "m")
    for going_on in (learner, again):
        played(going_on, rows[80:], y[80:])
    assert model_bytes(again) == model_bytes(learner)
    assert counts_of(again)[tables.USED] == 5


def test_with_very_many_labels_there_are_no_wide_experts(monkeypatch):
    X, y = ring(80)
    monkeypatch.setattr(sparse, "WIDE_NUMBERS", 4 * (WAVES + tables.COLUMNS) * 4)
    learner = played(ob.OneBit(4), as_dicts(X[:40]), y[:40])
    assert counts_of(learner)[tables.AWAKE] == 1
    learner.add_label(4)
    trust = learner.table.state.held.experts.trust
    assert counts_of(learner)[tables.AWAKE] == 0 and (trust[6:8, 0] == 0).all()
    assert trust[:, 0].sum() == pytest.approx(1)
    played(learner, as_dicts(X[40:]), y[40:])
    assert counts_of(learner)[tables.AWAKE] == 0
    assert len(saved_state(learner)[1]["wide"]) == 0


def test_a_file_from_before_there_were_tables_goes_on(tmp_path):
    learner = ob.load(Path(__file__).parent / "earlier_onebit" / "without_tables.onebit")
    X = np.random.default_rng(0).normal(size=(30, 12))
    scores = learner.scores(X)
    ob.simulate(learner, X, np.zeros(30, int))
    learner.save(tmp_path / "m")
    assert ob.load(tmp_path / "m").scores(X).tolist() == learner.scores(X).tolist()
    assert not np.array_equal(scores, learner.scores(X))


def test_forged_tables_are_refused():
    X, y = ring(30)
    learner = played(ob.OneBit(2), as_dicts(X), y)
    head, arrays = saved_state(learner)
    for name, forged in (
        ("column_places", arrays["column_places"][:1]),
        ("column_places", np.zeros(2, np.uint32)),
        ("column_places", arrays["column_places"] + np.uint32(90)),
        ("wide", arrays["wide"][:-1]),
        ("tables", arrays["tables"][:-1]),
    ):
        with pytest.raises(ValueError, match="do not fit"):
            files.restore(head, {**arrays, name: forged}, is_foreign=True)
    for name, forged in (("tables", arrays["tables"] + [0, 0, 0, 0, 1]), ("wide", -arrays["wide"])):
        with pytest.raises(ValueError, match="cannot have learned"):
            files.restore(head, {**arrays, name: forged}, is_foreign=True)
