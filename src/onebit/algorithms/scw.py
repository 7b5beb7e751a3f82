"""Confidence-weighted learning: CW (Dredze, Crammer, Pereira, ICML 2008; Crammer, Dredze, Pereira,
NIPS 2008) and its soft forms SCW-I and SCW-II (Wang, Zhao, Hoi, ICML 2012); multiclass as in
`confidence`. References: they learn from true labels.

An update is made when the margin m is below phi sqrt(v). It moves the means just far enough (CW),
at most by C (SCW-I), or with squared slack at price C (SCW-II).
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

from onebit.algorithms.confidence import CONFIDENCE, _PairConfidence, cw_step, scw2_step, shrinkage
from onebit.core.settings import Range, setting


class _ConfidenceWeighted(_PairConfidence):
    shows_lists = True
    eta: float = CONFIDENCE

    class Params(NamedTuple):
        phi: float
        C: float  # infinite for CW
        squared: bool

    @staticmethod
    def pair_step(params, m, v):
        if m >= params.phi * math.sqrt(v):
            return 0.0, 0.0
        if params.squared:
            step = scw2_step(m, v, params.phi, params.C)
        else:
            step = min(params.C, cw_step(m, v, params.phi))
        return step, shrinkage(step, v, params.phi)

    def _make_params(self) -> Any:
        return self.Params(NormalDist().inv_cdf(self.eta), math.inf, False)


class CW(_ConfidenceWeighted):
    """Confidence-weighted (Crammer, Dredze, Pereira 2008); a reference that learns from true
    labels. Its margins are hard, so it suffers from noisy labels.

    >>> import onebit as ob
    >>> iris = ob.datasets.iris()
    >>> learner = ob.CW(iris.labels)
    >>> trace = ob.simulate(learner, iris, order="shuffled", epochs=10)
    >>> float(trace.error[-1].round(2))
    0.08
    """


class SCW(_ConfidenceWeighted):
    """Soft confidence-weighted (Wang, Zhao, Hoi 2012); a reference that learns from true
    labels.

    >>> import onebit as ob
    >>> iris = ob.datasets.iris()
    >>> learner = ob.SCW(iris.labels)
    >>> trace = ob.simulate(learner, iris, order="shuffled", epochs=10)
    >>> float(trace.error[-1].round(2))
    0.08
    """

    shows_lists = True
    C: float = setting(default=1.0, above=0, search=Range(0.01, 10), doc="penalty of slack")
    variant: Literal["I", "II"] = setting(
        default="I", choices=("I", "II"), search=("I", "II"), doc="linear (I) or squared (II) slack"
    )

    def _make_params(self) -> Any:
        return self.Params(NormalDist().inv_cdf(self.eta), self.C, self.variant == "II")
