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
from typing import Literal, NamedTuple, Unpack

import numpy as np

from onebit.algorithms.confidence import cw_step, scw2_step, shrinkage
from onebit.core import rounds as _kernel
from onebit.core.jit import implement
from onebit.core.rounds import move
from onebit.learner import Common, Labels, Learner
from onebit.settings import Range, choice_of, real, searched
from onebit.storage.full import FormName, form_named


class SCWParams(NamedTuple):
    phi: float
    C: float  # infinite for CW
    squared: bool


implement(_kernel.score, SCWParams)(_kernel.gaussian_score)
implement(_kernel.could_say, SCWParams)(_kernel.could_say_greedy)
implement(_kernel.settle, SCWParams)(move.settled)
implement(_kernel.decide, SCWParams)(_kernel.say_greedy)
implement(_kernel.probabilities, SCWParams)(_kernel.greedy_law)


@implement(_kernel.learn_label, SCWParams)
def learn_label(params, state, work, row, turn, label):
    rival = _kernel.runner_up(state, work, label)
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


class _ConfidenceWeighted(Learner):
    params = (SCWParams,)
    planes = 2
    full_information = True

    def _fill(self) -> tuple[float, ...]:
        return 0.0, 1.0


class CW(_ConfidenceWeighted):
    """Confidence-weighted (Crammer, Dredze, Pereira 2008); a reference: it must be told the true
    label.

    form: "diagonal", or "full": one d x d matrix a label. eta: confidence asked of
    every answer, in (0.5, 1). Hard margins: noisy labels hurt.
    """

    ranges = searched(eta=Range(0.55, 0.95, even=True))

    def __init__(
        self,
        labels: Labels,
        *,
        form: FormName = "diagonal",
        eta: float = 0.75,
        **common: Unpack[Common],
    ) -> None:
        eta = real("eta", eta, above=0.5, below=1)
        params = SCWParams(NormalDist().inv_cdf(eta), math.inf, False)
        settings = {"eta": eta}
        super().__init__(labels, params, settings, state=form_named(form, 1.0), **common)


class SCW(_ConfidenceWeighted):
    """Soft confidence-weighted (Wang, Zhao, Hoi 2012); a reference: it must be told the true label.

    form: "diagonal", or "full": one d x d matrix a label. eta: confidence, in (0.5,
    1). C: the price of slack. variant: "I" (linear) or "II" (squared).
    """

    ranges = searched(
        eta=Range(0.55, 0.95, even=True),
        C=Range(0.01, 10),
        variant=("I", "II"),
    )

    def __init__(
        self,
        labels: Labels,
        *,
        form: FormName = "diagonal",
        eta: float = 0.75,
        C: float = 1.0,
        variant: Literal["I", "II"] = "I",
        **common: Unpack[Common],
    ) -> None:
        eta = real("eta", eta, above=0.5, below=1)
        squared = choice_of("variant", variant, ("I", "II")) == "II"
        params = SCWParams(NormalDist().inv_cdf(eta), real("C", C, above=0), squared)
        settings = {"eta": eta, "C": params.C, "variant": variant}
        super().__init__(labels, params, settings, state=form_named(form, 1.0), **common)
