"""Learners compiled for two labels, and for more than fit into one vector, against their twins."""

from __future__ import annotations

import pytest
from test_algorithms import ONE_EACH, compare_with_twin

from onebit.core.jit import COMPILED

NAMES = ("Banditron", "UCWL", "Confidit", "SOBA", "AROW")


@pytest.mark.skipif(not COMPILED, reason="uncompiled, test_algorithms.py has these widths")
@pytest.mark.parametrize("K", [2, 33])
@pytest.mark.parametrize("case", [case for case in ONE_EACH if case.name in NAMES], ids=str)
def test_a_learner_is_its_twin(case, K):
    compare_with_twin(case, K, d=10, rounds=50, seed=1, noise=0.1)
