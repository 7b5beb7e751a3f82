"""Kernels: how they are named, and what is refused."""

from __future__ import annotations

import pytest

import onebit as ob
from onebit.core.jit import COMPILED
from onebit.storage.kernels import kernel_named

pytestmark = [pytest.mark.exhaustive] if COMPILED else []


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("linear", "linear"),
        ("rbf", "rbf(gamma=1.0)"),
        (" rbf( gamma=2 ) ", "rbf(gamma=2.0)"),
        ("rbf()", "rbf(gamma=1.0)"),
        ("rational(nu=.25)", "rational(nu=0.25)"),
        ("polynomial(constant=0,degree=2)", "polynomial(degree=2 gamma=1.0 constant=0.0)"),
    ],
)
def test_a_kernel_is_spelled_as_a_call(text, full):
    kernel, spelled = kernel_named(text)
    assert spelled == full and kernel_named(full) == (kernel, full)
    assert ob.Banditron(3, kernel=text).settings["kernel"] == full


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cosine", r"one of 'linear', 'polynomial', 'rbf', 'rational', not 'cosine'"),
        ("rbf(gamma=2", "one of 'linear'"),
        ("rbf(2)", r"rbf has gamma, as in 'rbf\(gamma=1.0\)'"),
        ("linear(gamma=2)", "linear has no numbers"),
        ("rbf(nu=2)", "rbf has gamma"),
        ("rbf(gamma=x)", "gamma must be a number, not 'x'"),
        ("rbf(gamma=0)", "gamma must be above 0, not 0.0"),
        ("rbf(gamma=nan)", "gamma must be above 0"),
        ("rational(nu=1)", "nu must be above 0 and below 1"),
        ("polynomial(degree=2.5)", "degree must be a whole number, not '2.5'"),
        ("polynomial(degree=0)", "degree must be between 1 and 100"),
        ("polynomial(constant=-1)", "constant must be at least 0"),
    ],
)
def test_a_wrong_kernel_is_answered_with_what_would_be_right(text, words):
    with pytest.raises(ValueError, match=words):
        ob.UCWL(3, kernel=text)
