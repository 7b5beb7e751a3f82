"""AROW: Crammer, Kulesza, Dredze, "Adaptive regularization of weight vectors", NIPS 2009;
multiclass as in Crammer, Dredze, Kulesza, EMNLP 2009: the true label against its best rival, one
covariance a label, diagonal or full. A reference that is told the true label.

With margin m and its variance v: the step is max(0, 1 - m)/(v + r), the shrinkage 1/(v + r). The
table holds the means (plane 0) and the variances (plane 1), or the means alone beside the matrices.
"""

from __future__ import annotations

from typing import NamedTuple, Unpack

import numpy as np

from onebit.core import rounds as _kernel
from onebit.core.jit import implement
from onebit.core.rounds import move
from onebit.learner import Common, Labels, Learner
from onebit.settings import Range, real, searched
from onebit.storage.full import FormName, form_named


class AROWParams(NamedTuple):
    r: float


implement(_kernel.score, AROWParams)(_kernel.gaussian_score)
implement(_kernel.could_say, AROWParams)(_kernel.could_say_greedy)
implement(_kernel.settle, AROWParams)(move.settled)
implement(_kernel.decide, AROWParams)(_kernel.say_greedy)
implement(_kernel.probabilities, AROWParams)(_kernel.greedy_law)


@implement(_kernel.learn_label, AROWParams)
def learn_label(params, state, work, row, turn, label):
    rival = _kernel.runner_up(state, work, label)
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


class AROW(Learner):
    """Adaptive regularisation of weights (Crammer, Kulesza, Dredze 2009); a reference: it must be
    told the true label.

    form: "diagonal", or "full": one d x d matrix a label. r: reluctance to move, above 0.
    """

    params = (AROWParams,)
    planes = 2
    full_information = True
    ranges = searched(r=Range(0.01, 100))

    def __init__(
        self,
        labels: Labels,
        *,
        form: FormName = "diagonal",
        r: float = 1.0,
        **common: Unpack[Common],
    ) -> None:
        params = AROWParams(real("r", r, above=0))
        settings = {"r": params.r}
        super().__init__(labels, params, settings, state=form_named(form, 1.0), **common)

    def _fill(self) -> tuple[float, ...]:
        return 0.0, 1.0
