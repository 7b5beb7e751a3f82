"""Confidence-weighted learning: CW (Dredze, Crammer, Pereira, ICML 2008; Crammer, Dredze, Pereira,
NIPS 2008) and its soft forms SCW-I and SCW-II (Wang, Zhao, Hoi, ICML 2012); multiclass as in
Crammer, Dredze, Kulesza, EMNLP 2009: the true label against its best rival, one covariance a label,
diagonal or full. References that are told the true label.

An update is made when the margin m is below phi sqrt(v); it moves the means just far enough, at
most C (SCW-I), or with squared slack at price C (SCW-II). The table holds the means (plane 0) and
the variances (plane 1), or the means alone beside the matrices.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import numpy as np

from onebit.algorithms.confidence import cw_step, scw2_step, shrinkage
from onebit.core.choosing import greedy, runner_up
from onebit.core.sums import gaussian_score
from onebit.core.updates import move
from onebit.learner import Learner
from onebit.settings import Range, setting
from onebit.storage.base import Storage
from onebit.storage.full import FORM, FormName, form_named


class _ConfidenceWeighted(Learner):
    planes = 2
    full_information = True
    form: FormName = FORM
    eta: float = setting(
        0.75,
        above=0.5,
        below=1,
        search=Range(0.55, 0.95, even=True),
        doc="confidence asked of every answer, between 0.5 and 1",
    )

    class Params(NamedTuple):
        phi: float
        C: float  # infinite for CW
        squared: bool

    score = gaussian_score
    say = greedy
    lockstep = move

    @staticmethod
    def hear_label(params, state, work, row, turn, label):
        rival = runner_up(state, work, label)
        if rival == label:
            return False
        m = np.float64(work.scores[label]) - np.float64(work.scores[rival])
        v = np.float64(work.widths[label]) + np.float64(work.widths[rival])
        if v <= 0.0 or m >= params.phi * math.sqrt(v):
            return False
        if params.squared:
            step = scw2_step(m, v, params.phi, params.C)
        else:
            step = min(params.C, cw_step(m, v, params.phi))
        shrink = shrinkage(step, v, params.phi)
        move(state, row, label, step, shrink)
        move(state, row, rival, -step, shrink)
        return step > 0.0

    def _make_params(self) -> Any:
        return self.Params(NormalDist().inv_cdf(self.eta), math.inf, False)

    def _make_storage(self) -> Storage:
        return form_named(self.form, 1.0)

    def _fill(self) -> tuple[float, ...]:
        return 0.0, 1.0


class CW(_ConfidenceWeighted):
    """Confidence-weighted (Crammer, Dredze, Pereira 2008); a reference: it must be told the true
    label. Hard margins: noisy labels hurt.
    """


class SCW(_ConfidenceWeighted):
    """Soft confidence-weighted (Wang, Zhao, Hoi 2012); a reference: it must be told the true
    label.
    """

    C: float = setting(1.0, above=0, search=Range(0.01, 10), doc="the price of slack")
    variant: Literal["I", "II"] = setting(
        "I", choices=("I", "II"), search=("I", "II"), doc="linear (I) or squared (II) slack"
    )

    def _make_params(self) -> Any:
        return self.Params(NormalDist().inv_cdf(self.eta), self.C, self.variant == "II")
