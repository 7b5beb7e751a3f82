"""Updates of one label's weights: the formulas, and the variance that stays above 0."""

import numpy as np
import pytest

from onebit.core.jit import entry
from onebit.core.lanes import State4, aligned_zeros
from onebit.core.rounds import Row
from onebit.core.updates import add, move, regress

pytestmark = pytest.mark.compiled


@entry
def _update(state, row, which, first, second):
    if which == 0:
        add(state, row, 1, first)
    elif which == 1:
        regress(state, row, 1, first, second)
    else:
        move(state, row, 1, first, second)


def updated(which, first, second, w=(0.5, -1.0), s=(0.25, 2.0)):
    """Both planes of label 1 after an update with the row (3, 0.5) of features 0 and 1."""
    table = aligned_zeros((2, 2, 4), np.float64)
    table[:, 0, 1], table[:, 1, 1] = w, s
    before = table.copy()
    row = Row(np.array([0, 1], np.uint32), np.array([3.0, 0.5]), 0, 2)
    _update(State4(table, np.empty(0)), row, which, first, second)
    others = [0, 2, 3]
    assert (table[:, :, others] == before[:, :, others]).all()
    return table[:, 0, 1], table[:, 1, 1]


W, S, X = np.array([0.5, -1.0]), np.array([0.25, 2.0]), np.array([3.0, 0.5])


def test_add():
    w, s = updated(0, 2.0, 0.0)
    np.testing.assert_allclose(w, W + 2 * X)
    assert (s == S).all()


def test_regress_is_a_weighted_step_of_ridge_regression():
    w, s = updated(1, 0.7 * -1, 0.7)
    A = 1 / S + 0.7 * X**2
    np.testing.assert_allclose(w, (W / S - 0.7 * X) / A)
    np.testing.assert_allclose(s, 1 / A)


def test_move_shrinks_the_variance():
    w, s = updated(2, -0.3, 0.1)
    np.testing.assert_allclose(w, W - 0.3 * S * X)
    np.testing.assert_allclose(s, S - 0.1 * (S * X) ** 2)


def test_a_variance_never_reaches_zero():
    _, s = updated(2, 0.0, 10.0)  # would be -5.375 and -8
    assert (s == 1e-12).all()
