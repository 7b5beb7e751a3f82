"""Every learner does what it did when the golden runs were made, and loads the models of then."""

from __future__ import annotations

import json

import golden_runs
import pytest
from test_laws import MAKERS, REPRESENTATIVES

import onebit as ob
from onebit.core.jit import COMPILED

GOLDEN = json.loads((golden_runs.FOLDER / "runs.json").read_text())
# Uncompiled numbers were kept: in single precision compiled ones are the same up to rounding only.
SINGLE = [] if COMPILED else [pytest.param("float32", marks=pytest.mark.exhaustive)]


def marks_of(name):
    if COMPILED:
        return () if name in REPRESENTATIVES else (pytest.mark.exhaustive,)
    return (pytest.mark.thorough,) if name in ("Newtron-1", "Newtron-2") else ()  # take longest


NAMES = [pytest.param(name, marks=marks_of(name)) for name in GOLDEN]


@pytest.mark.parametrize("dtype", ["float64", *SINGLE])
@pytest.mark.parametrize("name", NAMES)
def test_the_same_mistakes_as_then(name, dtype):
    make = {param.id: param.values[0] for param in MAKERS}[name]
    assert golden_runs.runs_of(make, dtype) == GOLDEN[name][dtype]


@pytest.mark.parametrize("name", NAMES)
def test_models_of_then_load_and_go_on(name):
    make = {param.id: param.values[0] for param in MAKERS}[name]
    given = make(golden_runs.LABELS, dtype="float64")._given()
    learner = ob.load(golden_runs.model_of(name), **given)
    assert golden_runs.going_on(learner) == GOLDEN[name]["going_on"]
