"""Every law on every public learner, and on some of their settings."""

from __future__ import annotations

import pytest
from helpers.makers import MAKERS, REPRESENTATIVES

from onebit import testing
from onebit.core.jit import COMPILED

# They take longest uncompiled: half of the time of all laws.
LONGEST = {
    testing.a_forged_decision_is_refused_or_harmless,
    testing.lockstep_equals_runs_one_by_one,
    testing.late_feedback_equals_the_stream_with_the_same_delay,
    testing.a_new_label_keeps_what_was_learned,
}


def is_compiled(law, maker):
    """Whether every run has the law compiled on this learner; otherwise plain."""
    if law is testing.a_new_label_keeps_what_was_learned:  # compiles for four widths of vectors
        return maker.id == "Banditron-0"
    if law is testing.lockstep_equals_runs_one_by_one and maker.id in ("Confidit-6", "Banditron-1"):
        return False  # compiles for 15 s
    return maker.id in REPRESENTATIVES


def when(law, maker):
    """The marks of a law on a learner."""
    if is_compiled(law, maker):
        return [pytest.mark.compiled]
    if maker.id in REPRESENTATIVES:
        is_lockstep = law is testing.lockstep_equals_runs_one_by_one
        return [pytest.mark.slow] if COMPILED and is_lockstep else []
    if COMPILED:
        is_wide = law is testing.a_new_label_keeps_what_was_learned
        return [pytest.mark.exhaustive] if is_wide else maker.marks
    if maker.id == "Newtron-2":  # takes longest; test_newtron.py has it too
        return [pytest.mark.exhaustive]
    is_default = maker.id.endswith("-0") and maker.id != "Newtron-0"
    is_later = law in LONGEST and not is_default
    return [*maker.marks, pytest.mark.thorough] if is_later else maker.marks


def traced(maker):
    """Coverage is measured with the laws on one learner: they run the same lines on the others,
    and the lines of an algorithm run in the tests of its twin."""
    return [] if maker.id == "Banditron-0" else [pytest.mark.untraced]


@pytest.mark.parametrize(
    ("law", "make"),
    [
        pytest.param(
            law,
            maker.values[0],
            id=f"{law.__name__}-{maker.id}",
            marks=[*when(law, maker), *traced(maker)],
        )
        for law in testing.LAWS
        for maker in MAKERS
    ],
)
def test_law(law, make):
    law(make)


def assert_compiled_equals_plain(names, *dtypes):
    makers = [param.values[0] for param in MAKERS if param.id in names]
    learners = [make(5, dtype=dtype, seed=9) for make in makers for dtype in dtypes]
    testing.assert_compiled_equals_plain(learners)


other_way_round = pytest.mark.skipif(
    not COMPILED, reason="the other way round it is the same comparison"
)


@pytest.mark.compiled
@other_way_round
def test_representatives_compiled_equal_themselves_plain():
    assert_compiled_equals_plain(REPRESENTATIVES, "float64")


@other_way_round
@pytest.mark.parametrize("name", sorted({param.id.split("-")[0] for param in MAKERS}))
def test_compiled_equals_plain(name):
    names = [param.id for param in MAKERS if param.id.split("-")[0] == name]
    assert_compiled_equals_plain(names, "float64", "float32")
