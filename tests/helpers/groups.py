"""Which tests run in one process when they run compiled."""

from __future__ import annotations

import re
from pathlib import Path

import onebit.algorithms  # noqa: F401 (registers all learners)
from onebit.learner.learner import Learner

LEARNER = re.compile(rf"\[.*?\b({'|'.join(Learner.registry)})\b")


def group_of(test: str) -> str:
    """The learner that a test is about, since its tests compile the same functions, or the file.

    test: pytest's id of a test, such as "tests/test_laws.py::test_law[a_law-Banditron-0]".
    """
    learner = LEARNER.search(test)
    return learner[1] if learner else Path(test.partition("::")[0]).stem
