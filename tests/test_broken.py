"""Each law is broken by a learner that keeps all other laws: without the law it would pass."""

from __future__ import annotations

import broken_learners as broken
import pytest

import onebit as ob
from onebit import testing
from onebit.core import rounds as _kernel
from onebit.core.jit import COMPILED, implement
from onebit.learner import Learner

LAWS = {law.__name__: law for law in testing.LAWS}


def is_kept(law, make):
    try:
        law(make)
    except Exception:
        return False
    return True


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.exhaustive if COMPILED else ()) for name in LAWS]
)
def test_a_learner_breaks_this_law_and_no_other(name, monkeypatch):
    learner = broken.BY_LAW[name]
    monkeypatch.setitem(Learner.registry, learner.__name__, learner)  # so that it can be loaded
    if COMPILED and issubclass(learner, broken._LikeBanditron):
        pytest.skip("its functions would have to be compiled; it breaks the law uncompiled")
    assert [law for law in LAWS if not is_kept(LAWS[law], learner)] == [name]


def test_every_law_has_a_learner_that_breaks_it():
    assert set(broken.BY_LAW) == set(LAWS)


@pytest.mark.slow if COMPILED else pytest.mark.exhaustive  # every law on Banditron once more
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

FUNCTIONS = ("score", "decide", "probabilities", "could_say", "learn", "settle")


@pytest.mark.parametrize("missing", FUNCTIONS)
def test_a_class_that_lacks_a_function_is_refused_by_name(missing):
    record = type("LackingParams", (broken._Params,), {})
    for name in FUNCTIONS:
        if name != missing:
            function = getattr(_kernel, name)
            implement(function, record)(function.implementations[ob.Banditron.params[0]])
    with pytest.raises(TypeError, match=f"Lacking lacks {missing}: .*LackingParams"):
        type("Lacking", (Learner,), {"planes": 1, "params": (record,)})
    assert "Lacking" not in Learner.registry


def test_a_class_without_params_or_planes_is_refused_by_name():
    with pytest.raises(TypeError, match="Lacking lacks params"):
        type("Lacking", (Learner,), {"planes": 1})
    with pytest.raises(TypeError, match="Lacking lacks planes"):
        type("Lacking", (Learner,), {"params": ob.Banditron.params})


def test_a_name_that_is_taken_is_refused():
    with pytest.raises(TypeError, match=r"learner UCWL already, in onebit\.algorithms\.ucwl"):
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
