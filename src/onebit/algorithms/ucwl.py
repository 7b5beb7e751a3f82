"""UCWL: Ngo, Luciw, Vien, Schmidhuber, "Upper confidence weighted learning for efficient
exploration in multiclass prediction with binary feedback", IJCAI 2013.

One soft confidence-weighted classifier a label. The label with the largest mu_i.x + k sqrt(v_i) is
said; only its classifier learns, and only if the signed margin is below phi sqrt(v).

The table holds mu (plane 0) and the diagonal of Sigma (plane 1), or mu alone beside the full Sigma.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from onebit.algorithms.confidence import cw_step, shrinkage
from onebit.core.choosing import best, best_upper, certain_law, could_say_for_certain
from onebit.core.rounds import Choice
from onebit.core.sums import gaussian_score
from onebit.core.updates import move
from onebit.learner import Learner
from onebit.settings import Range, setting
from onebit.storage.base import Storage
from onebit.storage.dual import BUDGET, KERNEL, REMOVE, KernelLike, Remove, dual
from onebit.storage.full import FORM, FormName, form_named


class UCWL(Learner):
    """Upper confidence bounds on confidence-weighted classifiers (Ngo et al. 2013).

    The paper's experiments use the diagonal form. With a kernel the covariance is full.
    """

    planes = 2
    form: FormName = FORM
    eta: float = setting(
        0.75, above=0.5, below=1, search=Range(0.55, 0.95, even=True), doc="confidence"
    )
    C: float = setting(
        1.0,
        above=0,
        search=Range(0.01, 10),
        doc="the largest step; make it small when feedback is noisy",
    )
    k: float = setting(
        1.0,
        least=0,
        search=Range(0.01, 30, or_zero=True),
        doc="width of the bound in standard deviations",
    )
    kernel: KernelLike | None = KERNEL
    budget: int = BUDGET
    remove: Remove = REMOVE

    class Params(NamedTuple):
        phi: float
        C: float
        k: float

    score = gaussian_score
    could_say = could_say_for_certain
    lockstep = move

    @staticmethod
    def say(params, state, work, turn):
        label = best_upper(state, work, params.k)
        return Choice(label, best(state, work), 1.0, 0.0, 0.0)

    @staticmethod
    def law(params, state, work, turn):
        certain_law(work, best_upper(state, work, params.k))

    @staticmethod
    def hear(params, state, work, row, turn, choice, right):
        sign = 1.0 if right else -1.0
        m, v = sign * np.float64(work.scores[choice.label]), np.float64(work.widths[choice.label])
        if v <= 0.0 or m >= params.phi * math.sqrt(v):
            return False
        step = min(params.C, cw_step(m, v, params.phi))
        move(state, row, choice.label, sign * step, shrinkage(step, v, params.phi))
        return step > 0.0

    def _make_params(self) -> Any:
        return self.Params(NormalDist().inv_cdf(self.eta), self.C, self.k)

    def _make_storage(self) -> Storage:
        return dual(self, form_named(self.form, 1.0), prior=1.0)

    def _fill(self) -> tuple[float, ...]:
        return 0.0, 1.0
