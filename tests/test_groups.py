"""Groups of tests: what compiles the same functions runs in one process."""

from __future__ import annotations

import pytest
from helpers.groups import group_of


@pytest.mark.parametrize(
    ("test", "group"),
    [
        ("tests/test_laws.py::test_law[a_law-Banditron-0]", "Banditron"),
        ("tests/test_threads.py::test_threads[BanditPerceptron-1]", "BanditPerceptron"),
        ("tests/test_laws.py::test_all", "test_laws"),
        ("tests/core/test_lanes.py::test_lanes[float32-4]", "test_lanes"),
    ],
)
def test_a_test_is_grouped_by_its_learner_or_its_file(test, group):
    assert group_of(test) == group
