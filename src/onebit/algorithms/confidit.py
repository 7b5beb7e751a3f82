"""Confidit: Crammer, Gentile, "Multiclass classification with bandit feedback using adaptive
regularization", ICML 2011; the diagonal form of its experiments (Section 4).

One ridge regression a label, from the context to +1 (right) or -1 (wrong), learned on the rounds
that said the label. The label with the largest upper confidence bound is said:
w_i.x + sqrt(eta v_i) with v_i = sum_j x_j^2 / A_ij; "log" widens the bound by log t.

The table holds w (plane 0) and 1/A (plane 1).
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, Unpack

from onebit import _kernel
from onebit._jit import implement, inline
from onebit._kernel import Choice
from onebit._random import uniform
from onebit.learner import Common, Labels, Learner
from onebit.settings import Range, choice_of, real, searched

TARGET_DRAW = 2


class ConfiditParams(NamedTuple):
    eta: float
    alpha: float
    grows: bool


@inline
def width_factor(params, turn):
    eta = params.eta * math.log(turn.round + 1.0) if params.grows else params.eta
    return math.sqrt(eta)


implement(_kernel.score, ConfiditParams)(_kernel.gaussian_score)
implement(_kernel.settle, ConfiditParams)(_kernel.regress.settled)


@implement(_kernel.decide, ConfiditParams)
def decide(params, state, work, turn):
    label = _kernel.best_upper(state, work, width_factor(params, turn))
    return Choice(label, _kernel.best(state, work), 1.0, 0.0, 0.0)


@implement(_kernel.probabilities, ConfiditParams)
def probabilities(params, state, work, turn):
    _kernel.certain_law(work, _kernel.best_upper(state, work, width_factor(params, turn)))


@implement(_kernel.learn, ConfiditParams)
def learn(params, state, work, row, turn, choice, right):
    target = 1.0 if right else -1.0
    if not right and uniform(turn.seed, turn.round, TARGET_DRAW) < (1.0 - params.alpha) / 2.0:
        target = 1.0
    _kernel.regress(state, row, choice.label, target, 1.0)
    return True


class Confidit(Learner):
    """Upper confidence bounds on one ridge regression a label (Crammer, Gentile 2011), diagonal.

    Meant for sparse contexts of unit length. eta: width of the bound, at least 0. alpha: in
    (-1, 1], the label-noise model; 1 in the paper's experiments. reg: the prior, (1 + alpha)^2
    unless given; a smaller one often does much better. width: "eta", or "log" for eta * log t.
    """

    planes = 2
    ranges = searched(eta=Range(0.001, 100), reg=Range(0.001, 10), width=("eta", "log"))

    def __init__(
        self,
        labels: Labels,
        *,
        eta: float = 0.1,
        alpha: float = 1.0,
        reg: float | None = None,
        width: Literal["eta", "log"] = "eta",
        **common: Unpack[Common],
    ) -> None:
        grows = choice_of("width", width, ("eta", "log")) == "log"
        params = ConfiditParams(
            real("eta", eta, least=0), real("alpha", alpha, above=-1, most=1), grows
        )
        prior = (1.0 + params.alpha) ** 2
        self._reg = prior if reg is None else real("reg", reg, above=0)
        settings = {"eta": params.eta, "alpha": params.alpha, "reg": self._reg, "width": width}
        super().__init__(labels, params, settings, **common)

    def _fill(self) -> tuple[float, ...]:
        return 0.0, 1.0 / self._reg
