"""Kinds of contexts: features with names (texts, dicts) and columns do not mix in one learner."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import onebit as ob
from onebit import testing
from onebit.learner import files
from onebit.learner.decision import Decision
from onebit.reading.rows import COLUMNS, NAMES
from onebit.testing import saved_state

pd = pytest.importorskip("pandas")

X = np.random.default_rng(3).normal(size=(24, 40))
Y = np.arange(24) % 3
TEXTS = ["the screen is black", "the bill is wrong", "I love it"] * 8
MAKERS = [ob.OneBit, ob.Banditron, ob.UCWL, lambda labels: ob.AROW(labels, inputs="auto")]
REFUSED = "this learner (was taught with|takes dense rows)"


def taught(make, rows):
    learner = make(3)
    ob.simulate(learner, rows, Y)
    return learner


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("rows", [X, sparse.csr_matrix(X), [([0, 7], [1.0, 2.0])] * 24])
def test_a_learner_of_columns_takes_no_names(make, rows):
    learner = taught(make, rows)
    before = testing.state_bytes(learner)
    for x in ("abc", {"a": 1}, pd.Series({"a": 1, "b": "x"})):
        for call in (learner.decide, learner.propose, learner.propensities, learner.explain):
            with pytest.raises(ValueError, match=REFUSED):
                call(x)
        with pytest.raises(ValueError, match=REFUSED):
            learner.predict([x])
        with pytest.raises(ValueError, match=REFUSED):
            ob.simulate(learner, [x], [0])
    assert testing.state_bytes(learner) == before
    learner.decide(([3], [1.0]))


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("rows", [TEXTS, [{"a": 1, "b": "x"}] * 24])
def test_a_learner_of_names_takes_no_columns(make, rows):
    learner = taught(make, rows)
    before = testing.state_bytes(learner)
    for x in (X[0], X[0].tolist(), sparse.csr_matrix(X[:1]), ([3], [1.0])):
        for call in (learner.decide, learner.propose, learner.propensities, learner.explain):
            with pytest.raises(ValueError, match=REFUSED):
                call(x)
        with pytest.raises(ValueError, match=REFUSED):
            learner.predict([x])
    assert testing.state_bytes(learner) == before
    for x in ("a text", {"a": 1}, {"body": "the screen"}, pd.Series({"a": 1, "b": "x"})):
        learner.decide(x)  # names all of them


def test_a_list_that_mixes_them_is_refused_with_its_row():
    for rows in ([X[0], {"a": 1}], [{"a": 1}, X[0]], [([1], [2.0]), {"a": "b"}]):
        with pytest.raises(ValueError, match="row 1: the rows before it are "):
            ob.simulate(ob.Banditron(3), rows, [0, 1])
    ob.simulate(ob.Banditron(3), [{}, ([], []), X[0]], [0, 1, 2])  # empty ones are of any kind


def test_nothing_is_settled_before_an_answer():
    learner = ob.Banditron(3)
    text, row = learner.decide("a text"), learner.decide(X[0])
    assert (text.kind, row.kind, learner.decide({}).kind) == (NAMES, COLUMNS, "")
    learner.learn(row, right=True)
    with pytest.raises(ValueError, match="taught with rows of numbers"):
        learner.learn(text, right=True)


def test_another_process_knows_it_from_the_decisions(tmp_path):
    """One process decides, another one learns and saves; both refuse texts."""
    decides, learns = ob.Banditron(3), ob.Banditron(3)
    stored = decides.decide(X[0]).to_bytes()
    learns.learn(Decision.from_bytes(stored), right=True)
    learns.save(tmp_path / "model")
    decides.reload(tmp_path / "model")
    for learner in (learns, decides, ob.load(tmp_path / "model"), learns.copy()):
        with pytest.raises(ValueError, match="taught with rows of numbers"):
            learner.decide("a text")


def test_a_stream_without_answers_settles_nothing():
    learner = ob.Banditron(3)
    ob.simulate(learner, X, Y, channel=ob.Silence(1.0))
    assert learner.reader.taught_with == ""
    learner.decide("a text")
    ob.simulate(learner, X, Y, channel=[ob.Silence(0.5), ob.Delay(3)])
    assert learner.reader.taught_with == COLUMNS


def test_forgetting_everything_opens_it_for_both():
    learner = taught(ob.Banditron, X)
    learner.forget(0.5)
    with pytest.raises(ValueError, match="taught with rows of numbers"):
        learner.decide("a text")
    learner.forget()
    learner.learn(learner.decide("a text"), right=True)
    with pytest.raises(ValueError, match="taught with texts or dicts"):
        learner.decide(X[0])


def test_a_sweep_and_its_test_rows():
    learner = taught(ob.Banditron, X)
    with pytest.raises(ValueError, match="taught with rows of numbers"):
        ob.sweep([learner], TEXTS, Y)
    with pytest.raises(ValueError, match="taught with texts or dicts"):
        ob.sweep(ob.Banditron, TEXTS, Y, labels=3, test=(X, Y))


def test_tables_from_files_have_names_or_columns(tmp_path):
    (tmp_path / "mixed.csv").write_text("a,b,label\n" + "1,x,p\n2,y,q\n" * 9)
    (tmp_path / "numbers.csv").write_text("a,b,label\n" + "1,5,p\n2,6,q\n" * 9)
    for name, kind in (("mixed.csv", NAMES), ("numbers.csv", COLUMNS)):
        data = ob.datasets.read(tmp_path / name)
        learner = ob.Banditron(data.labels)
        ob.simulate(learner, data)
        assert learner.reader.taught_with == kind
        learner.decide({"a": 1, "b": "y" if kind == NAMES else 6})  # a row of the table


def test_rows_of_a_frame_are_columns_for_a_learner_of_sparse_rows():
    """They used to be read as dicts, whose features the learner does not know."""
    learner = taught(ob.Banditron, sparse.csr_matrix(X))
    row = pd.Series(X[0], [f"c{i}" for i in range(40)])
    assert learner.decide(row).indices.tolist() == list(range(40))


def test_model_files_of_earlier_versions_do_not_say_it(tmp_path):
    learner = taught(ob.Banditron, X)
    head, arrays = saved_state(learner)
    assert head.pop("taught_with") == COLUMNS
    files.write(tmp_path / "old", head, arrays)
    old = ob.load(tmp_path / "old")
    old.learn(old.decide(X[0]), right=True)
    with pytest.raises(ValueError, match="taught with rows of numbers"):
        old.decide("a text")
    files.write(tmp_path / "odd", head | {"taught_with": "pictures"}, arrays)
    with pytest.raises(ValueError, match="contexts of no known kind"):
        ob.load(tmp_path / "odd")
