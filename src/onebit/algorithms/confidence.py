"""The closed-form steps of confidence-weighted learning, shared by UCWL, CW, SCW and AROW.

Wang, Zhao, Hoi, "Exact soft confidence-weighted learning", ICML 2012. m is the signed margin, v its
variance, phi the normal quantile of the confidence asked for.
"""

from __future__ import annotations

import math

from onebit.core.jit import inline


@inline
def cw_step(m, v, phi):
    """How far the mean moves: the least that makes the margin phi standard deviations."""
    square = phi * phi
    psi, xi = 1.0 + square / 2.0, 1.0 + square
    reach = math.sqrt(m * m * square * square / 4.0 + v * square * xi)
    return max(0.0, (-m * psi + reach) / (v * xi))


@inline
def scw2_step(m, v, phi, C):
    """The same with the squared slack at price C."""
    square, n = phi * phi, v + 1.0 / (2.0 * C)
    reach = phi * math.sqrt(square * m * m * v * v + 4.0 * n * v * (n + v * square))
    return max(0.0, (reach - (2.0 * m * n + square * m * v)) / (2.0 * (n * n + n * v * square)))


@inline
def shrinkage(step, v, phi):
    """How much of the covariance along x is taken away by a step."""
    moved = step * v * phi
    deviation = (math.sqrt(moved * moved + 4.0 * v) - moved) / 2.0
    return step * phi / (deviation + moved)
