"""Potential-based bandit learning: Wang, Jin, Valizadegan, "A potential-based framework for online
multi-class learning with partial feedback", AISTATS 2010.

theta is the sum of Banditron's updates (1[a right]/P(a) e_a - e_h) x', and the weights are the
gradient of a potential at theta. The squared 2-norm gives Banditron, the p-norm `PNormBandit`, the
logarithm of a sum of exponentials `EGBandit`.

The table holds theta (plane 0) and the weights (plane 1), up to a positive factor common to all
weights, which cannot change the greedy label. The memory holds the height of theta that the weights
are measured against; it is renewed before a weight overflows.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, cast

import numpy as np

from onebit.algorithms.exploration import exploration
from onebit.algorithms.flips import RHO0, RHO1, _CorrectsFlips, unflipped
from onebit.core.choosing import epsilon_greedy
from onebit.core.exploring import own_of
from onebit.core.jit import generic, inline
from onebit.core.lanes import at
from onebit.core.settings import Range, setting
from onebit.core.sums import dot, number
from onebit.learner.table import Filling

FAINT = 1e-25  # of scores: the row's weights are negligible beside the largest weight


@generic
def height(params, theta):
    """The quantity that scales are computed from: theta or its size."""


@generic
def weight(params, theta, scale):
    """The weight for a theta, measured against the height `scale`."""


@generic
def overflows(params, theta, scale):
    """Whether the weight would be too large for a number."""


@inline
def renew(params, state):
    """Measure all weights against the largest height (at least 0, as the padding has)."""
    top = 0.0
    for j in range(state.table.shape[0]):
        for lane in range(state.table.shape[2]):
            top = max(top, height(params, np.float64(state.table[j, 0, lane])))
    state.memory[0] = top
    for j in range(state.table.shape[0]):
        for lane in range(state.table.shape[2]):
            theta = np.float64(state.table[j, 0, lane])
            state.table[j, 1, lane] = weight(params, theta, top)


@inline
def push(params, state, row, label, step):
    """theta[label] += step * x."""
    table, scale = state.table, state.memory[0]
    step = number(state, step)
    too_large = False
    for i in range(row.start, row.stop):
        j = at(row.indices, i)
        table[j, 0, label] += step * at(row.values, i)
        theta = np.float64(table[j, 0, label])
        if overflows(params, theta, scale):
            too_large = True
        else:
            table[j, 1, label] = weight(params, theta, scale)
    if too_large:
        renew(params, state)


@inline
def learn(params, state, row, choice, right, step):
    """Banditron's update of theta, times `step`."""
    bit = unflipped(params.rho0, params.rho1, right)
    gain = bit / choice.propensity
    if choice.label == choice.greedy:
        push(params, state, row, choice.label, step * (gain - 1.0))
    else:
        push(params, state, row, choice.greedy, -step)
        if bit != 0.0:
            push(params, state, row, choice.label, step * gain)
    return True


@inline
def score_afresh(params, state, work, row):
    """Compute the scores from theta, measured against the largest height in the row."""
    top = -math.inf
    for i in range(row.start, row.stop):
        for label in range(len(work.mask)):
            if work.mask[label] == 0:
                theta = np.float64(state.table[at(row.indices, i), 0, label])
                top = max(top, height(params, theta))
    if top == -math.inf or weight(params, top, top) == 0.0:  # empty, or nothing learned
        return
    for label in range(len(work.mask)):
        total = 0.0
        if work.mask[label] == 0:
            for i in range(row.start, row.stop):
                theta = np.float64(state.table[at(row.indices, i), 0, label])
                total += weight(params, theta, top) * np.float64(at(row.values, i))
        work.scores[label] = total


class _Potential(_CorrectsFlips):
    """Shared by both potentials; each adds the compiled members height, weight and overflows."""

    members: ClassVar[dict[str, Any]] = {
        **_CorrectsFlips.members,
        "height": height,
        "weight": weight,
        "overflows": overflows,
    }
    planes = 2
    say = epsilon_greedy
    lockstep = None

    @staticmethod
    def score(params, state, work, row, turn):
        dot(state, row, 1, work.scores)
        loudest = 0.0
        for label in range(len(work.mask)):
            if work.mask[label] == 0:
                loudest = max(loudest, abs(np.float64(work.scores[label])))
        if loudest < FAINT:
            score_afresh(params, state, work, row)

    def _memory(self) -> tuple[float, ...]:
        return (0.0,)

    def _faded(
        self, table: np.ndarray, memory: np.ndarray, keep: float
    ) -> tuple[np.ndarray, np.ndarray]:
        theta, kind = keep * table[:, 0], cast(Any, type(self))
        top = kind.height(own_of(self.params), theta).max(initial=0.0)
        return np.stack([theta, self._scaled(theta, top)], axis=1), np.array([top])

    def _scaled(self, theta: np.ndarray, scale: Any) -> np.ndarray:
        """The weights measured against a scale."""
        raise NotImplementedError

    def _is_sound(self, table: np.ndarray, memory: np.ndarray) -> bool:
        return bool(memory[0] >= 0)


class EGBandit(_Potential):
    """Exponentiated gradient from one bit (Wang, Jin, Valizadegan 2010).

    The weights are a softmax over all K d numbers, so they are never negative, unless `signed`. The
    paper's B multiplies all weights, which changes no choice, so it is not a setting. `scores` are
    right up to a positive factor common to all labels.

    >>> import onebit as ob
    >>> iris = ob.datasets.iris()
    >>> learner = ob.EGBandit(iris.labels, signed=True, eta=0.05, inputs="auto")
    >>> trace = ob.simulate(learner, iris, order="shuffled", epochs=10)
    >>> float(trace.error[-1].round(2))
    0.35
    """

    gamma: float = exploration(0.05)
    eta: float = setting(default=0.1, above=0, search=Range(0.001, 10), doc="learning rate")
    signed: bool = setting(
        default=False,
        search=(False, True),
        doc="EG+-: weights are differences of two softmaxes, and may be negative",
    )
    rho0: float = RHO0
    rho1: float = RHO1

    @staticmethod
    def height(params, theta):
        return abs(theta) if params.signed else theta

    @staticmethod
    def weight(params, theta, scale):
        if params.signed:
            return math.exp(theta - scale) - math.exp(-theta - scale)
        return math.exp(theta - scale)

    @staticmethod
    def overflows(params, theta, scale):
        return height(params, theta) - scale > 60.0  # e^88 is float32's largest

    @staticmethod
    def hear(params, state, work, row, turn, choice, right):
        return learn(params, state, row, choice, right, params.eta)

    def _filling(self) -> Filling:
        if self.signed:
            return lambda memory: (0.0, 0.0)
        return lambda memory: (0.0, math.exp(-memory[0]))

    def _scaled(self, theta: np.ndarray, scale: Any) -> np.ndarray:
        return np.exp(theta - scale) - (np.exp(-theta - scale) if self.signed else 0.0)

    def _weights(self) -> np.ndarray:
        theta = self.table.plane(0).astype(np.float64)
        if not self.signed:
            up = np.exp(theta - theta.max()) if theta.size else theta
            return up / up.sum()
        top = np.abs(theta).max(initial=0.0)
        up, down = np.exp(theta - top), np.exp(-theta - top)
        return (up - down) / (up + down).sum()


class PNormBandit(_Potential):
    """Banditron with a p-norm potential (Wang, Jin, Valizadegan 2010).

    `scores` are right up to a positive factor common to all labels.

    >>> import onebit as ob
    >>> iris = ob.datasets.iris()
    >>> learner = ob.PNormBandit(iris.labels, p=3, inputs="auto")
    >>> trace = ob.simulate(learner, iris, order="shuffled", epochs=10)
    >>> float(trace.error[-1].round(2))
    0.31
    """

    gamma: float = exploration(0.05)
    p: float = setting(
        default=4.0,
        least=2,
        most=100,
        search=Range(2, 20),
        doc="2 is Banditron itself; about 2 ln(K d) favours few relevant features",
    )
    rho0: float = RHO0
    rho1: float = RHO1

    @staticmethod
    def height(params, theta):
        return abs(theta)

    @staticmethod
    def weight(params, theta, scale):
        if params.p == 2.0:
            return theta
        if scale == 0.0:
            return 0.0
        power = (abs(theta) / scale) ** (params.p - 1.0)
        return power if theta >= 0 else -power

    @staticmethod
    def overflows(params, theta, scale):
        if params.p == 2.0 or theta == 0.0:
            return False
        return scale == 0.0 or (params.p - 1.0) * math.log(abs(theta) / scale + 1e-300) > 60.0

    @staticmethod
    def hear(params, state, work, row, turn, choice, right):
        return learn(params, state, row, choice, right, 1.0)

    def _scaled(self, theta: np.ndarray, scale: Any) -> np.ndarray:
        if self.p == 2 or scale == 0:
            return theta
        return np.sign(theta) * (np.abs(theta) / scale) ** (self.p - 1)

    def _weights(self) -> np.ndarray:
        theta: Any = self.table.plane(0).astype(np.float64)
        top, p = np.abs(theta).max(initial=0.0), self.p
        if top == 0.0:
            return theta
        size = np.abs(theta) / top
        norm = (size**p).sum() ** (1.0 / p)
        return top * np.sign(theta) * size ** (p - 1.0) / norm ** (p - 2.0)
