"""Linear Thompson sampling: Agrawal, Goyal, "Thompson sampling for contextual bandits with linear
payoffs", ICML 2013.

Confidit's regressions, the diagonal ones updated by coordinate; each label's score is drawn from a
normal law around its mean, with c times its standard deviation, and the largest draw is said.

The table holds w (plane 0) and 1/A (plane 1), or w alone beside the full inverses.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Unpack

import numpy as np

from onebit.core import rounds as _kernel
from onebit.core.jit import implement, inline
from onebit.core.rounds import Choice, normal_pair
from onebit.learner import Common, Labels, Learner
from onebit.settings import Range, real, searched
from onebit.storage.full import FormName, form_named

REACH = 6.0  # standard deviations: beyond lies less than 1e-9
# Three-point Gauss-Legendre on [0, 1].
NODES = (0.5 - math.sqrt(0.15), 0.5, 0.5 + math.sqrt(0.15))
WEIGHTS = (5.0 / 18.0, 8.0 / 18.0, 5.0 / 18.0)


class LinearThompsonParams(NamedTuple):
    c: float


implement(_kernel.score, LinearThompsonParams)(_kernel.gaussian_score)
implement(_kernel.could_say, LinearThompsonParams)(_kernel.could_say_at_random)
implement(_kernel.settle, LinearThompsonParams)(_kernel.regress.settled)


@implement(_kernel.decide, LinearThompsonParams)
def decide(params, state, work, turn):
    for label in range(0, len(work.mask), 2):
        one, two = normal_pair(turn.seed, turn.round, label)
        deviation = params.c * math.sqrt(np.float64(work.widths[label]))
        work.bounds[label] = np.float64(work.scores[label]) + deviation * one
        deviation = params.c * math.sqrt(np.float64(work.widths[label + 1]))
        work.bounds[label + 1] = np.float64(work.scores[label + 1]) + deviation * two
    said, top = _kernel.nth_possible(work, 0), -math.inf
    for label in range(len(work.mask)):
        if work.mask[label] == 0 and work.bounds[label] > top:
            said, top = label, work.bounds[label]
    return Choice(said, _kernel.best(state, work), -1.0, 0.0, 0.0)


@inline
def normal_cdf(x):
    return 0.5 * math.erfc(-x * math.sqrt(0.5))


@inline
def law_of(params, work, label):
    """Mean and standard deviation of what the label draws."""
    return np.float64(work.scores[label]), params.c * math.sqrt(np.float64(work.widths[label]))


@implement(_kernel.probabilities, LinearThompsonParams)
def probabilities(params, state, work, turn):
    """P(label i draws the largest) = integral of its density times the others' distributions.

    No closed form: three-point Gauss-Legendre from point to point of the union of every label's own
    grid, one standard deviation apart, so that narrow and wide laws are both resolved. Worth
    microseconds to milliseconds, and not needed for learning: the whole-stream loop never asks.
    """
    labels = len(work.mask)
    work.probabilities[:] = 0.0
    greedy = _kernel.best(state, work)
    if work.widths[greedy] <= 0.0:  # an empty row: every score is 0 and nothing is drawn
        work.probabilities[greedy] = 1.0
        return
    point, end = -math.inf, -math.inf
    for i in range(labels):
        if work.mask[i] == 0:
            mean, deviation = law_of(params, work, i)
            if not (np.isfinite(mean) and 0.0 < deviation < math.inf):  # overflowed
                _kernel.uniform_exploration_law(work, turn, 1.0, greedy)
                return
            point = max(point, mean - REACH * deviation)
            end = max(end, mean + REACH * deviation)
    for _ in range(labels * (2 * int(REACH) + 3)):  # more than there are points
        if not point < end:  # where numbers are too coarse for the grid it would take for ever
            break
        after = end
        for i in range(labels):
            if work.mask[i] == 0:
                mean, deviation = law_of(params, work, i)
                step = np.floor((point - mean) / deviation + 1e-6) + 1.0
                if step <= REACH:
                    after = min(after, mean + step * deviation)
        after = max(after, point + (end - point) * 1e-9)
        for node in range(3):
            add_node(
                params, work, point + NODES[node] * (after - point), WEIGHTS[node] * (after - point)
            )
        point = after
    total = 0.0
    for i in range(labels):
        if work.mask[i] == 0:
            work.probabilities[i] = max(work.probabilities[i], 1e-12)
            total += work.probabilities[i]
    for i in range(labels):
        work.probabilities[i] /= total


@inline
def add_node(params, work, point, weight):
    """What one point of the grid adds to every label's probability."""
    below = 1.0  # the chance that all draw below the point
    for i in range(len(work.mask)):
        if work.mask[i] == 0:
            mean, deviation = law_of(params, work, i)
            below *= normal_cdf((point - mean) / deviation)
    for i in range(len(work.mask)):
        if work.mask[i] == 0:
            mean, deviation = law_of(params, work, i)
            z = (point - mean) / deviation
            own = normal_cdf(z)
            if own > 0.0:
                density = math.exp(-0.5 * z * z) / (deviation * math.sqrt(2.0 * math.pi))
                work.probabilities[i] += weight * density * below / own


@implement(_kernel.learn, LinearThompsonParams)
def learn(params, state, work, row, turn, choice, right):
    _kernel.regress(state, row, choice.label, 1.0 if right else -1.0, 1.0)
    return True


class LinearThompson(Learner):
    """Thompson sampling on one ridge regression a label (Agrawal, Goyal 2013).

    form: "diagonal", or "full": one d x d matrix a label. c: how wide the draws are,
    above 0. reg: the prior. A decision's propensity is worked out by numerical integration, which
    takes longer than the decision itself.
    """

    params = (LinearThompsonParams,)
    rescores = False
    planes = 2
    ranges = searched(c=Range(0.001, 1), reg=Range(0.01, 10))

    def __init__(
        self,
        labels: Labels,
        *,
        form: FormName = "diagonal",
        c: float = 0.1,
        reg: float = 1.0,
        **common: Unpack[Common],
    ) -> None:
        params = LinearThompsonParams(real("c", c, above=0))
        self._reg = real("reg", reg, above=0)
        settings = {"c": params.c, "reg": self._reg}
        state = form_named(form, 1.0 / self._reg)
        super().__init__(labels, params, settings, state=state, **common)

    def _fill(self) -> tuple[float, ...]:
        return 0.0, 1.0 / self._reg
