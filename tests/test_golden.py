"""Every learner does what it did when the golden runs were made, and loads the models of then."""

from __future__ import annotations

import json

import pytest
from helpers import golden_runs
from helpers.makers import REPRESENTATIVES

import onebit as ob
from onebit.core.jit import COMPILED
from onebit.learner.copies import unsaved

pytestmark = pytest.mark.untraced
GOLDEN = json.loads((golden_runs.FOLDER / "runs.json").read_text())
# Uncompiled numbers were kept: in single precision compiled ones are the same up to rounding only.
SINGLE = [] if COMPILED else [pytest.param("float32", marks=pytest.mark.exhaustive)]


def marks_of(name):
    if COMPILED:
        return () if name in REPRESENTATIVES else (pytest.mark.exhaustive,)
    return (pytest.mark.thorough,) if name in ("Newtron-1", "Newtron-2") else ()  # take longest


PARTS = {name: GOLDEN.pop(name) for name in golden_runs.PARTS}
NAMES = [pytest.param(name, marks=marks_of(name)) for name in GOLDEN]
CHANGED = "the results have changed: if that is meant, raise BITS, and record the runs anew"


@pytest.mark.parametrize("dtype", ["float64", *SINGLE])
@pytest.mark.parametrize("name", NAMES)
def test_the_same_mistakes_as_then(name, dtype):
    make = golden_runs.maker_of(name)
    assert golden_runs.runs_of(make, dtype) == GOLDEN[name][dtype], CHANGED


@pytest.mark.parametrize("name", NAMES)
def test_the_runs_are_of_this_arithmetic(name):
    make = golden_runs.maker_of(name)
    assert golden_runs.bits_of(make) == GOLDEN[name]["bits"], "record the runs anew"


@pytest.mark.parametrize("name", PARTS)
def test_contexts_and_steps_are_the_same_numbers_as_then(name):
    module, made = golden_runs.PARTS[name]
    assert PARTS[name]["bits"] == [module.BITS], "record them anew"
    assert made() == PARTS[name]["made"], CHANGED


def test_other_results_are_not_recorded_under_the_same_number():
    golden = {"A": {"bits": [1], "float64": 1}}
    with pytest.raises(SystemExit, match=r"A does something else \(float64\): raise its BITS"):
        golden_runs._record(golden, "A", {"bits": [1], "float64": 2})
    golden_runs._record(golden, "A", {"bits": [1], "float64": 1})
    golden_runs._record(golden, "A", {"bits": [2], "float64": 2})
    assert golden == {"A": {"bits": [2], "float64": 2}}


@pytest.mark.parametrize("name", NAMES)
def test_models_of_then_load_and_go_on(name):
    make = golden_runs.maker_of(name)
    given = unsaved(make(golden_runs.LABELS, dtype="float64"))
    learner = ob.load(golden_runs.model_of(name), **given)
    assert golden_runs.going_on(learner) == GOLDEN[name]["going_on"]
