"""AROW: Crammer, Kulesza, Dredze, "Adaptive regularization of weight vectors", NIPS 2009;
multiclass as in Crammer, Dredze, Kulesza, EMNLP 2009: the true label against its best rival, one
covariance a label, diagonal or full. A reference that is told the true label.

With margin m and its variance v: the step is max(0, 1 - m)/(v + r), the shrinkage 1/(v + r). The
table holds the means (plane 0) and the variances (plane 1), or the means alone beside the matrices.
"""

from __future__ import annotations

import numpy as np

from onebit.core.choosing import greedy, runner_up
from onebit.core.sums import gaussian_score
from onebit.core.updates import move
from onebit.learner import Learner
from onebit.settings import Range, setting
from onebit.storage.base import Storage
from onebit.storage.full import FORM, FormName, form_named


class AROW(Learner):
    """Adaptive regularisation of weights (Crammer, Kulesza, Dredze 2009); a reference: it must be
    told the true label.
    """

    planes = 2
    full_information = True
    form: FormName = FORM
    r: float = setting(1.0, above=0, search=Range(0.01, 100), doc="reluctance to move")

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
        if v <= 0.0 or m >= 1.0:
            return False
        shrink = 1.0 / (v + params.r)
        step = (1.0 - m) * shrink
        move(state, row, label, step, shrink)
        move(state, row, rival, -step, shrink)
        return True

    def _make_storage(self) -> Storage:
        return form_named(self.form, 1.0)

    def _fill(self) -> tuple[float, ...]:
        return 0.0, 1.0
