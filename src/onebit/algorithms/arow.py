"""AROW: Crammer, Kulesza, Dredze, "Adaptive regularization of weight vectors", NIPS 2009;
multiclass as in `confidence`. A reference: it learns from true labels.

If the margin m, of variance v, is below 1, the step is (1 - m)/(v + r) and the shrinkage 1/(v + r).
The full covariance S then becomes S - S x x' S/(v + r), which is the same as S^-1 + x x'/r. With a
diagonal S the two differ: "covariance" keeps the diagonal of the first, "precision" that of the
second.
"""

from __future__ import annotations

from typing import Any, Literal

from onebit.algorithms.confidence import _PairConfidence, step_for_pair
from onebit.core.lanes import at_least, unit
from onebit.core.settings import Range, setting
from onebit.core.updates import update_of_planes
from onebit.learner.declared import Variant


@update_of_planes
def sharpen(mu, s, x, step, precision):
    """mu += step s x, 1/s += precision x^2: called as sharpen(state, row, label, step, precision).

    Plane 0 holds mu, plane 1 the variance s.
    """
    sx = s * x
    return mu + sx * step, at_least(s / (unit(s) + sx * x * precision), 1e-12)


class AROW(_PairConfidence):
    """Adaptive regularisation of weights (Crammer, Kulesza, Dredze 2009); a reference that learns
    from true labels.

    >>> import onebit as ob
    >>> iris = ob.datasets.iris()
    >>> learner = ob.AROW(iris.labels)
    >>> trace = ob.simulate(learner, iris, order="shuffled", epochs=10)
    >>> float(trace.error[-1].round(2))
    0.09
    """

    shows_lists = True
    r: float = setting(
        default=1.0,
        above=0,
        search=Range(0.01, 100),
        doc="regularisation: a larger value makes smaller steps",
    )
    update: Literal["covariance", "precision"] = setting(
        default="covariance",
        choices=("covariance", "precision"),
        in_use=lambda learner: learner.update != "covariance",  # older model files do not have it
        doc="how a diagonal shrinks, see above; the same for full matrices",
    )

    @staticmethod
    def pair_step(params, m, v):
        if m >= 1.0:
            return 0.0, 0.0
        shrink = 1.0 / (v + params.r)
        return (1.0 - m) * shrink, shrink

    class ByPrecision(Variant):
        """update="precision"."""

        lockstep = sharpen

        @staticmethod
        def hear_label(params, state, work, row, turn, label):
            rival, step, _ = step_for_pair(params, state, work, label)
            if step != 0.0:
                sharpen(state, row, label, step, 1.0 / params.r)
                sharpen(state, row, rival, -step, 1.0 / params.r)
            return step != 0.0

    def _make_params(self) -> Any:
        is_diagonal = self.form == "diagonal"
        by_precision = is_diagonal and self.update == "precision"
        return (self.ByPrecision.Params if by_precision else self.Params)(self.r)
