"""A wrong setting is named, with what would be right."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onebit as ob
from onebit.core.settings import Range, bit, choice_of, flag, real, setting, whole


@pytest.mark.parametrize("value", [0.5, np.float32(0.5), np.float64(0.5), Fraction(1, 2)])
def test_a_real_setting_becomes_a_plain_float(value):
    found = real("gamma", value, above=0, most=1)
    assert type(found) is float and found == 0.5
    assert type(real("C", 2, least=0)) is float


@given(
    st.floats(),
    st.floats(-9, 9) | st.none(),
    st.floats(-9, 9) | st.none(),
    st.floats(-9, 9) | st.none(),
    st.floats(-9, 9) | st.none(),
)
@settings(deadline=None, database=None, max_examples=300)
def test_a_real_setting_is_within_its_bounds_or_refused(value, above, least, below, most):
    fits = (
        np.isfinite(value)
        and (above is None or value > above)
        and (least is None or value >= least)
        and (below is None or value < below)
        and (most is None or value <= most)
    )
    bounds = {"above": above, "least": least, "below": below, "most": most}
    if fits:
        assert real("x", value, **bounds) == value
    else:
        with pytest.raises(ValueError, match=r"^x must be "):
            real("x", value, **bounds)


def test_a_real_setting_out_of_bounds_is_answered_with_the_bounds():
    with pytest.raises(ValueError, match=r"^gamma must be above 0 and at most 1, not 0$"):
        real("gamma", 0, above=0, most=1)
    with pytest.raises(ValueError, match=r"^p must be at least 1.5 and below 2, not 2.0$"):
        real("p", 2.0, least=1.5, below=2)
    with pytest.raises(ValueError, match=r"^x must be finite, not nan$"):
        real("x", float("nan"))


@pytest.mark.parametrize(
    "value", [10**400, -(10**400), Fraction(10**400)], ids=["large", "small", "fraction"]
)
def test_a_number_too_large_for_a_float_is_out_of_bounds(value):
    with pytest.raises(ValueError, match=r"^gamma must be above 0"):
        real("gamma", value, above=0)


@pytest.mark.parametrize("value", [True, False, np.True_, "1", None, 1j, [1.0], np.array([1.0])])
def test_a_real_setting_that_is_no_number_is_refused(value):
    with pytest.raises(TypeError, match=r"^eta must be a number, not "):
        real("eta", value, least=0)


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3)])
def test_a_whole_setting_becomes_a_plain_int(value):
    found = whole("seed", value, least=0, most=5)
    assert type(found) is int and found == 3


def test_the_bounds_of_a_whole_setting_belong_to_it():
    assert whole("n", 1, least=1, most=2) == 1 and whole("n", 2, least=1, most=2) == 2
    for value in (0, 3, -(10**30), 10**30):
        with pytest.raises(ValueError, match=f"^n must be between 1 and 2, not {value}$"):
            whole("n", value, least=1, most=2)


@pytest.mark.parametrize("value", [True, 1.0, np.float64(1), "1", None, Fraction(1), np.True_])
def test_a_whole_setting_that_is_no_whole_number_is_refused(value):
    with pytest.raises(TypeError, match=r"^n must be a whole number, not "):
        whole("n", value, least=0, most=9)


def test_a_flag_is_true_or_false_and_nothing_else():
    assert flag("shared", True) is True and flag("shared", False) is False
    for value in (1, 0, None, "yes", np.True_):
        with pytest.raises(TypeError, match=r"^shared must be True or False, not "):
            flag("shared", value)


def test_a_bit_may_also_be_0_or_1():
    for value in (True, 1, np.True_, np.int8(1)):
        assert bit("right", value) is True
    for value in (False, 0, np.False_, np.uint64(0)):
        assert bit("right", value) is False
    for value in (2, -1, 1.0, np.float64(0), None, "yes", [1]):
        with pytest.raises(TypeError, match=r"^right must be True or False, not "):
            bit("right", value)


def test_a_choice_is_one_of_those_named():
    assert choice_of("loss", "log", ("log", "squared")) == "log"
    for value in ("Log", "", None, 3):
        with pytest.raises(ValueError, match=r"^loss must be one of 'log', 'squared', not "):
            choice_of("loss", value, ("log", "squared"))


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"gamma": 0}, ValueError, "gamma must be above 0 and at most 1"),
        ({"gamma": 1.01}, ValueError, "gamma must be above 0 and at most 1"),
        ({"gamma": "0.1"}, TypeError, "gamma must be a number"),
        ({"seed": -1}, ValueError, "seed must be between 0 and"),
        ({"seed": 2**63}, ValueError, "seed must be between 0 and"),
        ({"seed": 1.0}, TypeError, "seed must be a whole number"),
        ({"features": 0}, ValueError, "features must be between 1 and"),
        ({"features": 2.0}, TypeError, "features must be a whole number"),
        ({"dtype": "float16"}, ValueError, "dtype must be one of 'float32', 'float64'"),
        ({"dtype": np.int32}, ValueError, "dtype must be one of 'float32', 'float64'"),
    ],
)
def test_a_learner_refuses_wrong_settings(wrong, error, words):
    with pytest.raises(error, match=words):
        ob.Banditron(3, **wrong)


def test_a_learner_takes_numpy_numbers_and_types_for_its_settings():
    learner = ob.Banditron(
        np.int64(3), gamma=np.float32(0.5), seed=np.uint8(7), features=np.int16(4), dtype=np.float64
    )
    assert (learner.settings, learner.seed, learner.features) == ({"gamma": 0.5}, 7, 4)
    assert learner.dtype == "float64" and learner.weights.shape == (3, 4)


def test_whole_numbers_are_searched_by_a_list():
    with pytest.raises(TypeError, match=r"searched by a list.* write the default as 3\.0"):
        setting(default=3, search=Range(1, 5), doc="")
