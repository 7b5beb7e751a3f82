"""AROW: Crammer, Kulesza, Dredze, "Adaptive regularization of weight vectors", NIPS 2009;
multiclass as in `confidence`. A reference that is told the true label.

If the margin m, of variance v, is below 1, the step is (1 - m)/(v + r) and the shrinkage 1/(v + r).
"""

from __future__ import annotations

from onebit.algorithms.confidence import _PairConfidence
from onebit.settings import Range, setting


class AROW(_PairConfidence):
    """Adaptive regularisation of weights (Crammer, Kulesza, Dredze 2009); a reference: it must be
    told the true label.
    """

    r: float = setting(default=1.0, above=0, search=Range(0.01, 100), doc="reluctance to move")

    @staticmethod
    def pair_step(params, m, v):
        if m >= 1.0:
            return 0.0, 0.0
        shrink = 1.0 / (v + params.r)
        return (1.0 - m) * shrink, shrink
