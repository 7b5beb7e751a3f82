"""UCWL: Ngo, Luciw, Vien, Schmidhuber, "Upper confidence weighted learning for efficient
exploration in multiclass prediction with binary feedback", IJCAI 2013.

Each label has a soft confidence-weighted classifier: a mean mu and a covariance Sigma. The label
with the largest mu.x + k sqrt(v), v = x' Sigma x, is said. Only its classifier learns, and only if
the signed margin is below phi sqrt(v).

The table holds mu (plane 0) and the diagonal of Sigma (plane 1), or with full matrices only mu.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from onebit.algorithms.confidence import CONFIDENCE, cw_step, shrinkage
from onebit.algorithms.upper_confidence import _UpperConfidence
from onebit.core.choosing import best_upper
from onebit.core.settings import Range, setting
from onebit.core.updates import move
from onebit.storage.dual import BUDGET, KERNEL, REMOVE, Remove
from onebit.storage.kernels import KernelLike


class UCWL(_UpperConfidence):
    """Upper confidence bounds on confidence-weighted classifiers (Ngo et al. 2013).

    The paper's experiments use the diagonal form. With a kernel the covariance is full.

    >>> import onebit as ob
    >>> iris = ob.datasets.iris()
    >>> learner = ob.UCWL(iris.labels, form="full", inputs="unit")
    >>> trace = ob.simulate(learner, iris, order="shuffled", epochs=10)
    >>> float(trace.error[-1].round(2))
    0.07
    """

    shows_lists = True
    eta: float = CONFIDENCE
    C: float = setting(
        default=1.0,
        above=0,
        search=Range(0.01, 10),
        doc="the largest step; make it small when feedback is noisy",
    )
    k: float = setting(
        default=1.0,
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

    lockstep = move

    @staticmethod
    def largest_bound(params, state, work, turn):
        return best_upper(state, work, params.k)

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
