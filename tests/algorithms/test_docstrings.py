"""The examples in the docstrings of learners run, and give what they show."""

import doctest

import pytest

import onebit.algorithms as algorithms
from onebit.core.jit import COMPILED
from onebit.learner.learner import Learner

LEARNERS = sorted(
    name
    for name, kind in Learner.registry.items()
    if kind.__module__.startswith(f"{algorithms.__name__}.")
)
pytestmark = [pytest.mark.exhaustive] if COMPILED else []  # compiling all learners takes minutes


@pytest.mark.parametrize("name", LEARNERS)
def test_the_example_of_a_learner_runs(name):
    text = Learner.registry[name].__doc__
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
    assert len(example.examples) > 2, "a short example is missing"
    assert f"ob.{name}(" in text
    report: list[str] = []
    failed, _ = doctest.DocTestRunner().run(example, out=report.append)
    assert not failed, "".join(report)
