"""Each law is broken by a learner that keeps all other laws: without the law it would pass."""

from __future__ import annotations

import importlib
import itertools
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import broken_learners as broken

import onebit as ob
from onebit import testing
from onebit.authoring import (
    Learner,
    add,
    could_say_at_random,
    epsilon_greedy,
    linear_score,
    setting,
)
from onebit.core.jit import COMPILED

LAWS = {law.__name__: law for law in testing.LAWS}


def is_kept(law, make):
    try:
        law(make)
    except Exception:
        return False
    return True


@pytest.fixture(params=LAWS)
def broken_law(request, monkeypatch):
    """The name of a law, and the learner that breaks it."""
    learner = broken.BY_LAW[request.param]
    monkeypatch.setitem(Learner.registry, learner.__name__, learner)  # so that it can be loaded
    if COMPILED and learner in broken.IN_COMPILED_CODE:
        pytest.skip("its functions would have to be compiled; it breaks the law uncompiled")
    return request.param, learner


@pytest.mark.skipif(COMPILED, reason="the next test does the same and more")
def test_a_learner_breaks_this_law(broken_law):
    name, learner = broken_law
    assert not is_kept(LAWS[name], learner)


@pytest.mark.exhaustive if COMPILED else pytest.mark.thorough
def test_a_learner_breaks_this_law_and_no_other(broken_law):
    name, learner = broken_law
    assert [law for law in LAWS if not is_kept(LAWS[law], learner)] == [name]


def test_every_law_has_a_learner_that_breaks_it():
    assert set(broken.BY_LAW) == set(LAWS)


@pytest.mark.exhaustive if COMPILED else pytest.mark.thorough  # every law on Banditron once more
def test_check_learner_passes_a_learner_that_keeps_all_laws():
    testing.check_learner(ob.Banditron)


def test_check_learner_names_the_law(monkeypatch):
    monkeypatch.setitem(Learner.registry, "_CopiesShareWeights", broken._CopiesShareWeights)
    with pytest.raises(AssertionError, match="copies are independent: "):
        testing.check_learner(broken._CopiesShareWeights)


@pytest.mark.compiled
@pytest.mark.skipif(not COMPILED, reason="the other way round it is the same comparison")
def test_compiled_code_that_does_something_else_is_found():
    with pytest.raises(AssertionError, match="compiled and plain differ"):
        testing.assert_compiled_equals_plain([broken._CompilesToSomethingElse(5, dtype="float64")])


# What a class lacks is named when the class is made.


@pytest.mark.parametrize("missing", ["score", "say", "law", "could_say", "hear", "lockstep"])
def test_a_class_that_lacks_a_member_is_refused_by_name(missing):
    body = {"planes": 1, "score": linear_score, "lockstep": add}
    body |= {"say": lambda params, state, work, turn: None}
    body |= {"law": epsilon_greedy.law, "could_say": epsilon_greedy.could_say}
    body |= {"hear": ob.Banditron.hear, "gamma": setting(default=0.1, doc="exploration")}
    body |= {"importance_weighted": True}
    del body[missing]
    with pytest.raises(TypeError, match=f"Lacking lacks {missing}: "):
        type("Lacking", (Learner,), body)
    assert "Lacking" not in Learner.registry


def test_could_say_has_a_default_where_learning_reads_no_propensity():
    body = {"planes": 1, "score": linear_score, "lockstep": add, "say": lambda *_: None}
    body |= {"law": epsilon_greedy.law, "hear": lambda *_: False}
    try:
        made: Any = type("Harmless", (Learner,), body)
        assert made.members["could_say"].bodies[made.Params] is could_say_at_random
    finally:
        Learner.registry.pop("Harmless", None)
    weighs = {
        **body,
        "hear": lambda params, state, work, row, turn, choice, right: choice.propensity > 0.5,
    }
    with pytest.raises(TypeError, match="Weighing lacks could_say"):
        type("Weighing", (Learner,), weighs)


def test_a_class_without_planes_is_refused_by_name():
    with pytest.raises(TypeError, match="Lacking lacks planes"):
        type("Lacking", (Learner,), {})


def test_a_name_that_is_taken_is_refused():
    with pytest.raises(
        TypeError, match=r"learner named UCWL already exists, in onebit\.algorithms\.ucwl"
    ):
        type("UCWL", (ob.Banditron,), {})
    assert Learner.registry["UCWL"] is ob.UCWL
    assert type(ob.UCWL(3).copy()) is ob.UCWL


def test_a_class_may_be_defined_again_where_it_was_defined():
    """As when a notebook's cell runs once more."""
    try:
        for _ in range(2):

            class Again(ob.Banditron):
                pass

        assert Learner.registry["Again"] is Again
    finally:
        del Learner.registry["Again"]


def test_copies_and_pickles_are_of_the_own_class():
    import pickle

    learner = broken._LearnsFromStaleScores(3)  # not registered, as its name begins with _
    assert type(learner.copy()) is type(learner)
    assert type(pickle.loads(pickle.dumps(learner))) is type(learner)


# docs/adding-an-algorithm.md, as a newcomer follows it.

PAGE = (Path(__file__).parent.parent / "docs" / "adding-an-algorithm.md").read_text()
BLOCKS = re.findall(r"(?<!-->\n)```python\n(.*?)```", PAGE, re.S)


def test_a_learner_is_added_as_the_page_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names, learners = {}, []
    try:
        for block in BLOCKS:
            saved = re.match(r'"""Save as (\w+)\.py', block)
            if saved:
                Path(f"{saved[1]}.py").write_text(block)
                names |= vars(importlib.import_module(saved[1]))
                learners.append(names[saved[1].capitalize()])
                assert len(block[block.index("class ") :].strip().splitlines()) <= 40
            else:
                exec(block, names)
        said = capsys.readouterr().out.splitlines()
        assert said[0] == "Cautious(labels=['sport', 'politics'], gamma=0.2, seed=0, round=1)"
        assert said[2].startswith("Silent lacks hear: a compiled member, def hear(params, state")
        assert [kind.__name__ for kind in learners] == ["Cautious", "Fading"]
        if not COMPILED:
            for kind, law in itertools.product(learners, testing.LAWS):
                law(kind)
    finally:
        for kind in learners:
            Learner.registry.pop(kind.__name__, None)
            sys.modules.pop(kind.__module__, None)


def test_a_learner_of_the_main_program_is_told_to_move(monkeypatch):
    monkeypatch.setattr(broken._LearnsFromStaleScores, "__module__", "__main__")
    with pytest.raises(ValueError, match="must be in a module of its own"):
        testing.check_learner(broken._LearnsFromStaleScores)
