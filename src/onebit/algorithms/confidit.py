"""Confidit: Crammer, Gentile, "Multiclass classification with bandit feedback using adaptive
regularization", ICML 2011; the diagonal form of its experiments (Section 4).

One ridge regression a label, from the context to +1 (right) or -1 (wrong), learned on the rounds
that said the label. The label with the largest upper confidence bound is said:
w_i.x + sqrt(eta v_i) with v_i = sum_j x_j^2 / A_ij; "log" widens the bound by log t.

With target z, w = w_i, A = A_i and v = v_i of the said label, the step is one of two, which are the
same for a full matrix but not for its diagonal; then A_j += x_j^2:

- "residual": w_j <- w_j + (x_j / A_j) (z - w.x)/(1 + v), all of them for what is left of z;
- "coordinate", as printed: w_j <- (A_j w_j + z x_j)/(A_j + x_j^2), each for all of z.

The table holds w (plane 0) and 1/A (plane 1).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, NamedTuple, Unpack

import numpy as np

from onebit import _kernel
from onebit._jit import implement, inline
from onebit._kernel import Choice, update_of_planes
from onebit._lanes import unit
from onebit._random import uniform
from onebit.learner import Common, Labels, Learner
from onebit.settings import Range, choice_of, real, searched

TARGET_DRAW = 2


class CoordinateParams(NamedTuple):
    eta: float
    alpha: float
    grows: bool


class ResidualParams(NamedTuple):
    eta: float
    alpha: float
    grows: bool


@inline
def width_factor(params, turn):
    eta = params.eta * math.log(turn.round + 1.0) if params.grows else params.eta
    return math.sqrt(eta)


implement(_kernel.score, CoordinateParams)(_kernel.gaussian_score)
implement(_kernel.score, ResidualParams)(_kernel.gaussian_score)


@implement(_kernel.decide, CoordinateParams)
@implement(_kernel.decide, ResidualParams)
def decide(params, state, work, turn):
    label = _kernel.best_upper(state, work, width_factor(params, turn))
    return Choice(label, _kernel.best(state, work), 1.0, 0.0, 0.0)


@implement(_kernel.probabilities, CoordinateParams)
@implement(_kernel.probabilities, ResidualParams)
def probabilities(params, state, work, turn):
    _kernel.certain_law(work, _kernel.best_upper(state, work, width_factor(params, turn)))


@inline
def target_of(params, turn, right):
    """+1 or -1; a wrong answer is taken for a right one with probability (1 - alpha)/2."""
    if right or uniform(turn.seed, turn.round, TARGET_DRAW) < (1.0 - params.alpha) / 2.0:
        return 1.0
    return -1.0


implement(_kernel.settle, CoordinateParams)(_kernel.regress.settled)


@implement(_kernel.learn, CoordinateParams)
def learn_by_coordinate(params, state, work, row, turn, choice, right):
    _kernel.regress(state, row, choice.label, target_of(params, turn, right), 1.0)
    return True


@update_of_planes
def fit(w, s, x, step, weight):
    """w += step x/A, A += weight x^2, with s = 1/A: called as fit(state, row, label, step, 1.0)."""
    return w + s * x * step, s / (unit(s) + s * (x * x) * weight)


implement(_kernel.settle, ResidualParams)(fit.settled)


@implement(_kernel.learn, ResidualParams)
def learn_by_residual(params, state, work, row, turn, choice, right):
    u, v = np.float64(work.scores[choice.label]), np.float64(work.widths[choice.label])
    fit(state, row, choice.label, (target_of(params, turn, right) - u) / (1.0 + v), 1.0)
    return True


class Confidit(Learner):
    """Upper confidence bounds on one ridge regression a label (Crammer, Gentile 2011), diagonal.

    Meant for sparse contexts of unit length. eta: width of the bound, at least 0. alpha: in
    (-1, 1], the label-noise model; 1 in the paper's experiments. reg: the prior, (1 + alpha)^2
    unless given; a smaller one often does much better. width: "eta", or "log" for eta * log t.
    update: "residual", or "coordinate" as printed; the first is what the paper's tables show.
    """

    planes = 2
    added_settings: ClassVar[dict[str, Any]] = {"update": "coordinate"}
    ranges = searched(
        eta=Range(0.001, 100),
        reg=Range(0.001, 10),
        width=("eta", "log"),
        update=("residual", "coordinate"),
    )

    def __init__(
        self,
        labels: Labels,
        *,
        eta: float = 0.1,
        alpha: float = 1.0,
        reg: float | None = None,
        width: Literal["eta", "log"] = "eta",
        update: Literal["residual", "coordinate"] = "residual",
        **common: Unpack[Common],
    ) -> None:
        grows = choice_of("width", width, ("eta", "log")) == "log"
        residual = choice_of("update", update, ("residual", "coordinate")) == "residual"
        params = (ResidualParams if residual else CoordinateParams)(
            real("eta", eta, least=0), real("alpha", alpha, above=-1, most=1), grows
        )
        self.learns_from_scores = residual
        prior = (1.0 + params.alpha) ** 2
        self._reg = prior if reg is None else real("reg", reg, above=0)
        settings = {"eta": params.eta, "alpha": params.alpha, "reg": self._reg, "width": width}
        settings["update"] = update
        super().__init__(labels, params, settings, **common)

    def _fill(self) -> tuple[float, ...]:
        return 0.0, 1.0 / self._reg
