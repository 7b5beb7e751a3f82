"""Linear Thompson sampling: Agrawal, Goyal, "Thompson sampling for contextual bandits with linear
payoffs", ICML 2013.

Each label has a ridge regression, as in Confidit (with a diagonal matrix, by the "coordinate"
update). A number is drawn from a normal law for each label; its mean is the label's score, its
deviation c times the score's standard deviation. The label with the largest number is said.

The table holds w (plane 0) and 1/A (plane 1), or with full matrices only w.
"""

from __future__ import annotations

import math

import numpy as np

from onebit.core.choosing import best, could_say_at_random, nth_possible, uniform_exploration_law
from onebit.core.draws import normal_pair
from onebit.core.jit import inline
from onebit.core.rounds import Choice
from onebit.core.settings import Range, setting
from onebit.core.sums import gaussian_score
from onebit.core.updates import regress
from onebit.learner.learner import Learner
from onebit.storage.base import Storage
from onebit.storage.full import FORM, FormName, form_named

REACH = 6.0  # standard deviations; the probability beyond is less than 1e-8
# Three-point Gauss-Legendre on [0, 1].
NODES = (0.5 - math.sqrt(0.15), 0.5, 0.5 + math.sqrt(0.15))
WEIGHTS = (5.0 / 18.0, 8.0 / 18.0, 5.0 / 18.0)


@inline
def normal_cdf(x):
    return 0.5 * math.erfc(-x * math.sqrt(0.5))


@inline
def law_of(params, work, label):
    """Mean and standard deviation of the number drawn for the label."""
    return np.float64(work.scores[label]), params.c * math.sqrt(np.float64(work.widths[label]))


@inline
def add_node(params, work, point, weight):
    """Add the contribution of a point of the grid to every label's probability."""
    below = 1.0  # the probability that all numbers are below the point
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
                work.propensities[i] += weight * density * below / own


class LinearThompson(Learner):
    """Thompson sampling on one ridge regression per label (Agrawal, Goyal 2013).

    The propensity of a decision is computed by numerical integration, which takes longer than the
    decision itself.

    >>> import onebit as ob
    >>> learner = ob.LinearThompson(["banner", "list"], c=0.5)
    >>> for n in range(8):
    ...     decision = learner.decide({"mobile": 1})
    ...     learner.learn(decision, right=decision.label == "list")
    >>> banner, list_ = learner.propensities({"mobile": 1})
    >>> bool(banner < list_)
    True
    """

    planes = 2
    shows_lists = True
    rescores = False
    forecasts = (-1.0, 1.0)
    form: FormName = FORM
    c: float = setting(default=0.1, above=0, search=Range(0.001, 1), doc="width of the draws")
    reg: float = setting(default=1.0, above=0, search=Range(0.01, 10), doc="the prior")

    score = gaussian_score
    could_say = could_say_at_random
    lockstep = regress

    @staticmethod
    def say(params, state, work, turn):
        for first in range(0, len(work.mask), 2):
            draws = normal_pair(turn.seed, turn.round, first)
            for label in range(first, first + 2):
                mean, deviation = law_of(params, work, label)
                work.bounds[label] = mean + deviation * draws[label - first]
        said, top = nth_possible(work, 0), -math.inf
        for label in range(len(work.mask)):
            if work.mask[label] == 0 and work.bounds[label] > top:
                said, top = label, work.bounds[label]
        return Choice(said, best(state, work), -1.0, 0.0, 0.0)

    @staticmethod
    def law(params, state, work, turn):
        """The probability that a label's number is the largest, by numerical integration.

        It is the integral of the label's density times the distribution functions of all other
        labels, by three-point Gauss-Legendre. The grid is the union of all labels' grids of one
        standard deviation, so that narrow and wide laws are resolved. This takes microseconds to
        milliseconds; learning does not need it, so whole streams never compute it.
        """
        labels = len(work.mask)
        work.propensities[:] = 0.0
        greedy = best(state, work)
        if work.widths[greedy] <= 0.0:  # an empty row: every number is 0
            work.propensities[greedy] = 1.0
            return
        point, end = -math.inf, -math.inf
        for i in range(labels):
            if work.mask[i] == 0:
                mean, deviation = law_of(params, work, i)
                if not (np.isfinite(mean) and 0.0 < deviation < math.inf):  # overflowed
                    uniform_exploration_law(work, turn, 1.0, greedy)
                    return
                point = max(point, mean - REACH * deviation)
                end = max(end, mean + REACH * deviation)
        for _ in range(labels * (2 * int(REACH) + 3)):  # in case rounding loses steps
            if not point < end:
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
                    params,
                    work,
                    point + NODES[node] * (after - point),
                    WEIGHTS[node] * (after - point),
                )
            point = after
        total = 0.0
        for i in range(labels):
            if work.mask[i] == 0:
                work.propensities[i] = max(work.propensities[i], 1e-12)
                total += work.propensities[i]
        for i in range(labels):
            work.propensities[i] /= total

    @staticmethod
    def hear(params, state, work, row, turn, choice, right):
        regress(state, row, choice.label, 1.0 if right else -1.0, 1.0)
        return True

    def _make_storage(self) -> Storage:
        return form_named(self.form, 1.0 / self.reg)

    def _fill(self) -> tuple[float, ...]:
        return 0.0, 1.0 / self.reg
