"""The online regression of SquareCB, FastCB and EpsilonGreedy: the chance that a label is right,
given the context, with AdaGrad's step sizes (Duchi, Hazan, Singer 2011).

A label's prediction is sigmoid(w.x) ("logistic") or w.x clipped to [0, 1] ("squared"). The table
holds w (plane 0) and the sums of squared gradients (plane 1). `work.scores` holds the predictions,
`work.widths` the unclipped w.x.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from onebit.core.choosing import sigmoid
from onebit.core.jit import inline
from onebit.core.lanes import if_finite, root
from onebit.core.settings import Range, setting
from onebit.core.sums import dot
from onebit.core.updates import update_of_planes
from onebit.learner.learner import Learner

FILL = (0.0, 1e-8)
LR = setting(default=0.3, above=0, search=Range(0.01, 10), doc="step size")


@inline
def gap_weighting(params, work, turn, greedy, loss):
    """Fill the probabilities: P(i) = loss/(K loss + gamma_t gap_i); the best label gets the rest.

    gap_i is how far the prediction of label i is below the best; gamma_t = scale t^expo. The loss
    is 1 in SquareCB, and the predicted loss of the best label in FastCB.
    """
    gamma = params.scale * (turn.round + 1.0) ** params.expo
    left = 1.0
    for label in range(len(work.mask)):
        p = 0.0
        if work.mask[label] == 0 and label != greedy:
            gap = np.float64(work.scores[greedy]) - np.float64(work.scores[label])
            p = loss / (turn.count * loss + gamma * gap)
        work.propensities[label] = p
        left -= p
    work.propensities[greedy] = left


@update_of_planes
def descend(w, g, x, error, lr):
    """A gradient step with AdaGrad's rate; a step that would overflow is not made.

    Called as descend(state, row, label, error, lr).
    """
    slope = error * x
    total = g + slope * slope
    return if_finite(total, w - lr * slope / root(total), w), if_finite(total, total, g)


class _Regressor(Learner):
    """A learner by regression: its record has `lr` and `logistic`."""

    planes = 2
    forecasts = (0.0, 1.0)
    lockstep = descend

    @staticmethod
    def score(params, state, work, row, turn):
        dot(state, row, 0, work.widths)
        for label in range(len(work.mask)):
            u = np.float64(work.widths[label])
            work.scores[label] = sigmoid(u) if params.logistic else min(max(u, 0.0), 1.0)

    @staticmethod
    def hear(params, state, work, row, turn, choice, right):
        predicted = work.scores if params.logistic else work.widths
        error = np.float64(predicted[choice.label]) - (1.0 if right else 0.0)
        descend(state, row, choice.label, error, params.lr)
        return True

    def _fill(self) -> tuple[float, ...]:
        return FILL

    def _is_sound(self, table: np.ndarray, memory: np.ndarray) -> bool:
        return bool((table[:, 1] >= FILL[1] * (1 - 1e-5)).all())

    def _faded(
        self, table: np.ndarray, memory: np.ndarray, keep: float
    ) -> tuple[np.ndarray, np.ndarray]:
        table[:, 0] *= keep
        table[:, 1] = FILL[1] + keep * (table[:, 1] - FILL[1])
        return table, memory


def scale_setting(default: float) -> Any:
    doc = "exploration falls as 1/(scale t^expo)"
    return setting(default=default, above=0, search=Range(1, 10_000), doc=doc)


class _GapWeighting(_Regressor):
    """A learner that explores by `gap_weighting`."""

    scale: float = scale_setting(1000.0)
    expo: float = setting(
        default=0.5, least=0, most=1, search=Range(0, 1, even=True), doc="see scale"
    )
    lr: float = LR

    class Params(NamedTuple):
        scale: float
        expo: float
        lr: float
        logistic: bool

    def _make_params(self) -> Any:
        return self.Params(self.scale, self.expo, self.lr, True)
