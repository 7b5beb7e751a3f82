"""Confidit: Crammer, Gentile, "Multiclass classification with bandit feedback using adaptive
regularization", ICML 2011.

Each label has a ridge regression from the context to +1 (right) or -1 (wrong), learned on the
rounds that said the label. The label with the largest upper confidence bound w_i.x + epsilon_i is
said, with epsilon_i^2 = eta v_i and v_i = x' A_i^-1 x. `width` "log" multiplies eta by log t, and
"theory" is eq. (5).

With target z, the said label's update is w += A^-1 x (z - w.x)/(1 + v), A += x x'. With a diagonal
A (Section 5) there are two readings:

- "residual": the same update with the diagonal A; all coordinates together make up for z - w.x;
- "coordinate", as printed: w_j <- (A_j w_j + z x_j)/(A_j + x_j^2); each coordinate makes up for z.

`project` replaces all labels' weights, before the decision, by the nearest ones (in the metric of
A) whose scores on this context the model allows: each at least -alpha, and 1 + alpha - K alpha in
total. Decisions use the projected scores; the weights themselves move when they learn.

The table holds w (plane 0) and 1/A (plane 1), or with full matrices only w. For "theory" the memory
holds the sum in eq. (5).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from onebit.algorithms.upper_confidence import _UpperConfidence
from onebit.core.choosing import TIE, best_upper, nth_possible
from onebit.core.draws import uniform
from onebit.core.jit import implement, inline
from onebit.core.lanes import unit
from onebit.core.settings import Range, setting
from onebit.core.updates import regress, update_of_planes
from onebit.learner.declared import Variant
from onebit.storage import full
from onebit.storage import stored_contexts as stored
from onebit.storage.dual import BUDGET, KERNEL, REMOVE, Remove
from onebit.storage.full import Matrices
from onebit.storage.kernels import KernelLike
from onebit.storage.stored_contexts import Posterior

TARGET_DRAW = 2
WIDTHS = ("eta", "log", "theory")
LOG, THEORY = 1, 2


@inline
def width_factor(params, state, turn):
    """epsilon_i / sqrt(v_i)."""
    if params.width == THEORY:
        noise = 9.0 * math.log((turn.round + 5.0) / params.delta)  # rounds count from 1 there
        spread = (1.0 + params.alpha) ** 2 * (state.memory[0] / 2.0 + noise)
        return math.sqrt(2.0 * (params.prior / 2.0 + spread))
    eta = params.eta * math.log(turn.round + 1.0) if params.width == LOG else params.eta
    return math.sqrt(eta)


# The projection. To move score i from u to p costs (p - u)^2 / (2 v_i). With q = u + alpha, the
# nearest scores are p = max(0, q - lam v) - alpha, where lam makes the sum right.


@inline
def sift(heap, root, size):
    """Sift the number at the root down to its place."""
    top = heap[root]
    child = 2 * root + 1
    while child < size:
        if child + 1 < size and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= top:
            break
        heap[root] = heap[child]
        root = child
        child = 2 * root + 1
    heap[root] = top


@inline
def sort(numbers, size):
    """Sort in place, the lowest first (heapsort, Williams 1964): compiled code cannot allocate."""
    for root in range(size // 2 - 1, -1, -1):
        sift(numbers, root, size)
    for end in range(size - 1, 0, -1):
        numbers[0], numbers[end] = numbers[end], numbers[0]
        sift(numbers, 0, end)


@inline
def price(params, work, bar):
    """The lam that makes the sum right if exactly the labels with q/v >= bar stay above 0."""
    q, v = -(1.0 + params.alpha), 0.0
    for label in range(len(work.mask)):
        if work.mask[label] == 0:
            own = np.float64(work.scores[label]) + params.alpha
            width = np.float64(work.widths[label])
            if own / width >= bar:
                q += own
                v += width
    return q / v


@inline
def projected(params, work):
    """Fill the probabilities with the scores after projection, in O(K log K)."""
    points, size = work.propensities, 0
    for label in range(len(work.mask)):
        if work.mask[label] == 0:
            v = np.float64(work.widths[label])
            if not 0.0 < v < math.inf:  # an empty row: nothing to project
                size = 0
                break
            points[size] = (np.float64(work.scores[label]) + params.alpha) / v
            size += 1
    lam = 0.0
    if size:
        sort(points, size)
        low, high = 0, size - 1  # the lowest point that is above its own lam
        while low < high:
            middle = (low + high) // 2
            if price(params, work, points[middle]) < points[middle]:
                high = middle
            else:
                low = middle + 1
        lam = price(params, work, points[low])
    for label in range(len(work.mask)):
        u, v = np.float64(work.scores[label]), np.float64(work.widths[label])
        points[label] = max(-params.alpha, u - lam * v) if size else u


@inline
def target_of(params, turn, right):
    """+1 or -1; a wrong answer is taken for a right one with probability (1 - alpha)/2."""
    if right or uniform(turn.seed, turn.round, TARGET_DRAW) < (1.0 - params.alpha) / 2.0:
        return 1.0
    return -1.0


@update_of_planes
def fit(w, s, x, step, weight):
    """w += step x/A, A += weight x^2, with s = 1/A: called as fit(state, row, label, step, 1.0)."""
    return w + s * x * step, s / (unit(s) + s * (x * x) * weight)


@implement(fit, Matrices)
def fit_matrix(state, row, label, step, weight):
    v = full.times(state, row, label)
    full.shift(state, label, step)
    if weight != 0.0:
        shrink = weight / (1.0 + weight * v)
        size = state.table.shape[0]
        full.shrink_by(state.held.matrix[label], state.held.column, size, shrink)


implement(fit, Posterior)(stored.fit)


def _is_theory(learner: Any) -> bool:
    return learner.width == "theory"


def _is_full(learner: Any) -> bool:
    return learner.form == "full" or learner.kernel is not None


class Confidit(_UpperConfidence):
    """Upper confidence bounds on one ridge regression per label (Crammer, Gentile 2011).

    For contexts of unit length. The full form, for up to a few thousand features, is much better
    than the diagonal one. With a kernel this is kernel ridge regression, which is always full:

        Confidit(labels=10, kernel="rbf(gamma=2)", reg=0.1, budget=500)

    >>> import onebit as ob
    >>> learner = ob.Confidit(["tea", "coffee"], inputs="unit")
    >>> for hour, drink in 4 * [(9, "coffee"), (16, "tea")]:
    ...     decision = learner.decide({"hour": str(hour)})
    ...     learner.learn(decision, right=decision.label == drink)
    >>> learner.predict([{"hour": "9"}, {"hour": "16"}]).tolist()
    ['coffee', 'tea']
    >>> learner.probabilities([{"hour": "9"}]).round(1).tolist()
    [[0.4, 0.7]]
    """

    shows_lists = True
    added_settings: ClassVar[dict[str, Any]] = {"update": "coordinate"}
    eta: float = setting(default=0.1, least=0, search=Range(0.001, 100), doc="width of the bound")
    alpha: float = setting(
        default=1.0, above=-1, most=1, doc="the label-noise model; 1 in the paper's experiments"
    )
    reg: float = setting(
        default=lambda learner: (1.0 + learner.alpha) ** 2,
        above=0,
        search=Range(0.001, 10),
        doc="the prior, (1 + alpha)^2 if None; a smaller prior is often much better",
    )
    width: Literal["eta", "log", "theory"] = setting(
        default="eta",
        choices=WIDTHS,
        search=("eta", "log"),
        doc='"eta", "log" for eta * log t, or "theory" (full form): the width of the paper\'s '
        "theorem, for comparison weights of length U, with probability 1 - delta",
    )
    project: bool = setting(
        default=False,
        doc="project scores to those that the model allows, as in the theorem; a slower start",
    )
    U: float = setting(default=1.0, least=0, in_use=_is_theory, doc="see width")
    delta: float = setting(default=0.05, above=0, below=1, in_use=_is_theory, doc="see width")
    update: Literal["residual", "coordinate"] = setting(
        default="residual",
        choices=("residual", "coordinate"),
        search=("residual", "coordinate"),
        in_use=lambda learner: not _is_full(learner),
        doc='of the diagonal form: "residual", or "coordinate" as printed; the first is what the '
        "paper's tables show",
    )
    kernel: KernelLike | None = KERNEL
    budget: int = BUDGET
    remove: Remove = REMOVE

    class Params(NamedTuple):
        eta: float
        alpha: float
        width: int  # which of WIDTHS
        project: bool
        prior: float  # U' A_0 U, of the weights to compare with
        delta: float

    lockstep = fit

    @staticmethod
    def largest_bound(params, state, work, turn):
        factor = width_factor(params, state, turn)
        if not params.project:
            return best_upper(state, work, factor)
        projected(params, work)
        top = -math.inf
        for label in range(len(work.mask)):
            if work.mask[label] == 0:
                work.propensities[label] += factor * math.sqrt(np.float64(work.widths[label]))
                top = max(top, work.propensities[label])
        for label in range(len(work.mask)):
            if work.mask[label] == 0 and work.propensities[label] >= top - TIE:
                return label
        return nth_possible(work, 0)

    @staticmethod
    def hear(params, state, work, row, turn, choice, right):
        said = choice.label
        u, v = np.float64(work.scores[said]), np.float64(work.widths[said])
        target, moved = target_of(params, turn, right), 0.0
        if params.project:
            projected(params, work)
            for label in range(len(work.mask)):
                if work.mask[label] == 0:
                    own = np.float64(work.scores[label])
                    away = work.propensities[label] - own
                    if away != 0.0:
                        step = away / np.float64(work.widths[label])
                        if label == said:
                            u, moved = own + away, step
                        else:
                            fit(state, row, label, step, 0.0)
        fit(state, row, said, moved + (target - u) / (1.0 + v), 1.0)
        if params.width == THEORY:
            state.memory[0] += v / (1.0 + v)
        return True

    class ByCoordinate(Variant):
        """update="coordinate"."""

        lockstep = regress

        @staticmethod
        def hear(params, state, work, row, turn, choice, right):
            regress(state, row, choice.label, target_of(params, turn, right), 1.0)
            return True

    @property
    def forecasts(self) -> tuple[float, float]:  # type: ignore[override] it depends on a setting
        return -self.alpha, 1.0

    def _check_settings(self) -> None:
        by_coordinate = self.update == "coordinate" and not _is_full(self)
        if self.width == "theory" and not _is_full(self):
            raise ValueError("width='theory' is about full matrices: add form='full'")
        if self.project and by_coordinate:
            raise ValueError("project=True goes with update='residual', not 'coordinate'")
        self.rescores, self.entangled = not by_coordinate, self.project

    def _make_params(self) -> Any:
        record = self.Params if self.rescores else self.ByCoordinate.Params
        width, prior = WIDTHS.index(self.width), self.reg * self.U * self.U
        return record(self.eta, self.alpha, width, self.project, prior, self.delta)

    def _memory(self) -> tuple[float, ...]:
        return (0.0,) if self.width == "theory" else ()

    def _prior(self) -> float:
        return self.reg
