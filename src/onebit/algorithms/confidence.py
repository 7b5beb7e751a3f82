"""Confidence-weighted learning: the steps that UCWL, CW, SCW and AROW share.

Wang, Zhao, Hoi, "Exact soft confidence-weighted learning", ICML 2012; multiclass as in Crammer,
Dredze, Kulesza, EMNLP 2009: the true label against its best rival, with one covariance per label,
diagonal or full. m is the margin, v its variance, phi the normal quantile of the confidence asked
for. The table holds the means (plane 0) and the variances (plane 1), or with full matrices only the
means.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from onebit.core.choosing import greedy, runner_up
from onebit.core.jit import generic, inline
from onebit.core.settings import Range, setting
from onebit.core.sums import gaussian_score
from onebit.core.updates import move
from onebit.learner.learner import Learner
from onebit.storage.base import Storage
from onebit.storage.full import FORM, FormName, form_named

CONFIDENCE = setting(
    default=0.75,
    above=0.5,
    below=1,
    search=Range(0.55, 0.95, even=True),
    doc="required confidence of every answer, between 0.5 and 1",
)


@inline
def cw_step(m, v, phi):
    """The smallest step of the mean that makes the margin phi standard deviations."""
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
    """How much of the covariance along x a step removes."""
    moved = step * v * phi
    deviation = (math.sqrt(moved * moved + 4.0 * v) - moved) / 2.0
    return step * phi / (deviation + moved)


@generic
def pair_step(params, m, v):
    """How far the means move and how much the covariances shrink; 0, 0: there is no update."""


@inline
def step_for_pair(params, state, work, label):
    """The best rival of the true label, and the result of `pair_step` for the two."""
    rival = runner_up(state, work, label)
    m = np.float64(work.scores[label]) - np.float64(work.scores[rival])
    v = np.float64(work.widths[label]) + np.float64(work.widths[rival])
    step = shrink = 0.0
    if rival != label and v > 0.0:
        step, shrink = pair_step(params, m, v)
    return rival, step, shrink


class _PairConfidence(Learner):
    """A reference that moves the means of the true label and of its best rival apart.

    A learner adds the compiled member pair_step.
    """

    members: ClassVar[dict[str, Any]] = {**Learner.members, "pair_step": pair_step}
    planes = 2
    full_information = True
    form: FormName = FORM

    score = gaussian_score
    say = greedy
    lockstep = move

    @staticmethod
    def hear_label(params, state, work, row, turn, label):
        rival, step, shrink = step_for_pair(params, state, work, label)
        if step != 0.0:
            move(state, row, label, step, shrink)
            move(state, row, rival, -step, shrink)
        return step != 0.0

    def _make_storage(self) -> Storage:
        return form_named(self.form, 1.0)

    def _fill(self) -> tuple[float, ...]:
        return 0.0, 1.0
