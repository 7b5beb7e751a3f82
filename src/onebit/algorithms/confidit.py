"""Confidit: Crammer, Gentile, "Multiclass classification with bandit feedback using adaptive
regularization", ICML 2011.

One ridge regression a label, from the context to +1 (right) or -1 (wrong), learned on the rounds
that said the label. The label with the largest upper confidence bound is said: w_i.x + epsilon_i
with epsilon_i^2 = eta v_i, v_i = x' A_i^-1 x; "log" widens eta by log t, "theory" is eq. (5).

With target z the said label's step is w += A^-1 x (z - w.x)/(1 + v), A += x x'. With a diagonal A
(Section 5) there are two readings of it:

- "residual": the same with the diagonal's A^-1: all coordinates share what is left of z;
- "coordinate", as printed: w_j <- (A_j w_j + z x_j)/(A_j + x_j^2), each for all of z.

`project` moves all labels' weights, before the decision, to the nearest ones (in the metric of A)
whose scores on this context the model allows: at least -alpha, and 1 + alpha - K alpha in all. The
decision takes the scores from there; the weights go there when they learn.

The table holds w (plane 0) and 1/A (plane 1), or w alone beside the full inverses; the memory, for
"theory", the sum in eq. (5).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, NamedTuple, Unpack

import numpy as np

from onebit.core import rounds as _kernel
from onebit.core.draws import uniform
from onebit.core.jit import implement, inline
from onebit.core.lanes import unit
from onebit.core.rounds import TIE, Choice, update_of_planes
from onebit.learner import Common, Labels, Learner
from onebit.settings import Range, choice_of, flag, real, searched
from onebit.storage import dual as _dual
from onebit.storage import full as _full
from onebit.storage.dual import KernelLike, Posterior, Remove, dual
from onebit.storage.full import FormName, Matrices, form_named

TARGET_DRAW = 2
WIDTHS = ("eta", "log", "theory")
LOG, THEORY = 1, 2


class CoordinateParams(NamedTuple):
    eta: float
    alpha: float
    width: int  # which of WIDTHS
    project: bool
    prior: float  # U' A_0 U, of the weights to compare with
    delta: float


class ResidualParams(NamedTuple):
    eta: float
    alpha: float
    width: int
    project: bool
    prior: float  # U' A_0 U, of the weights to compare with
    delta: float


@inline
def width_factor(params, state, turn):
    """How many times sqrt(v) the bound is wide."""
    if params.width == THEORY:
        noise = 9.0 * math.log((turn.round + 5.0) / params.delta)  # rounds count from 1 there
        spread = (1.0 + params.alpha) ** 2 * (state.memory[0] / 2.0 + noise)
        return math.sqrt(2.0 * (params.prior / 2.0 + spread))
    eta = params.eta * math.log(turn.round + 1.0) if params.width == LOG else params.eta
    return math.sqrt(eta)


# The projection. Moving score i from u to p costs (p - u)^2 / (2 v_i); with q = u + alpha the
# nearest are p = max(0, q - lam v) - alpha, with the one lam that makes the sum right.


@inline
def sift(heap, root, size):
    """Let the number at the root sink to its place."""
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
    """Sort in place, the lowest first (Williams 1964): no memory is asked for."""
    for root in range(size // 2 - 1, -1, -1):
        sift(numbers, root, size)
    for end in range(size - 1, 0, -1):
        numbers[0], numbers[end] = numbers[end], numbers[0]
        sift(numbers, 0, end)


@inline
def price(params, work, bar):
    """The lam at which the labels with q/v >= bar, and no others, have the sum they should."""
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
    points, size = work.probabilities, 0
    for label in range(len(work.mask)):
        if work.mask[label] == 0:
            v = np.float64(work.widths[label])
            if not 0.0 < v < math.inf:  # an empty row says nothing about anything
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


implement(_kernel.score, CoordinateParams)(_kernel.gaussian_score)
implement(_kernel.score, ResidualParams)(_kernel.gaussian_score)


@inline
def to_say(params, state, work, turn):
    """The label with the largest upper bound."""
    factor = width_factor(params, state, turn)
    if not params.project:
        return _kernel.best_upper(state, work, factor)
    projected(params, work)
    top = -math.inf
    for label in range(len(work.mask)):
        if work.mask[label] == 0:
            work.probabilities[label] += factor * math.sqrt(np.float64(work.widths[label]))
            top = max(top, work.probabilities[label])
    for label in range(len(work.mask)):
        if work.mask[label] == 0 and work.probabilities[label] >= top - TIE:
            return label
    return _kernel.nth_possible(work, 0)


@implement(_kernel.decide, CoordinateParams)
@implement(_kernel.decide, ResidualParams)
def decide(params, state, work, turn):
    return Choice(to_say(params, state, work, turn), _kernel.best(state, work), 1.0, 0.0, 0.0)


@implement(_kernel.probabilities, CoordinateParams)
@implement(_kernel.probabilities, ResidualParams)
def probabilities(params, state, work, turn):
    _kernel.certain_law(work, to_say(params, state, work, turn))


@inline
def target_of(params, turn, right):
    """+1 or -1; a wrong answer is taken for a right one with probability (1 - alpha)/2."""
    if right or uniform(turn.seed, turn.round, TARGET_DRAW) < (1.0 - params.alpha) / 2.0:
        return 1.0
    return -1.0


implement(_kernel.could_say, CoordinateParams)(_kernel.could_say_for_certain)
implement(_kernel.settle, CoordinateParams)(_kernel.regress.settled)


@implement(_kernel.learn, CoordinateParams)
def learn_by_coordinate(params, state, work, row, turn, choice, right):
    _kernel.regress(state, row, choice.label, target_of(params, turn, right), 1.0)
    return True


@update_of_planes
def fit(w, s, x, step, weight):
    """w += step x/A, A += weight x^2, with s = 1/A: called as fit(state, row, label, step, 1.0)."""
    return w + s * x * step, s / (unit(s) + s * (x * x) * weight)


def fit_matrix(state, row, label, step, weight):
    v = _full.times(state, row, label)
    _full.shift(state, label, step)
    if weight != 0.0:
        shrink = weight / (1.0 + weight * v)
        size = state.table.shape[0]
        _full.shrink_by(state.more.matrix[label], state.more.column, size, shrink)


fit.forms[Matrices] = fit_matrix
fit.forms[Posterior] = _dual.fit
implement(_kernel.could_say, ResidualParams)(_kernel.could_say_for_certain)
implement(_kernel.settle, ResidualParams)(fit.settled)


@implement(_kernel.learn, ResidualParams)
def learn_by_residual(params, state, work, row, turn, choice, right):
    said = choice.label
    u, v = np.float64(work.scores[said]), np.float64(work.widths[said])
    target, moved = target_of(params, turn, right), 0.0
    if params.project:
        projected(params, work)
        for label in range(len(work.mask)):
            if work.mask[label] == 0:
                own = np.float64(work.scores[label])
                away = work.probabilities[label] - own
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


class Confidit(Learner):
    """Upper confidence bounds on one ridge regression a label (Crammer, Gentile 2011).

    Meant for contexts of unit length. form: "diagonal", for many sparse features, or "full": one
    d x d matrix a label, for up to a few thousand features; there it is the better by far. eta:
    width of the bound, at least 0. alpha: in (-1, 1], the label-noise model; 1 in the paper's
    experiments. reg: the prior, (1 + alpha)^2 unless given; a smaller one often does much better.

    width: "eta", "log" for eta * log t, or "theory" (full form): the width of the paper's theorem,
    for comparison weights of length U, with probability 1 - delta. project: keep scores to what the
    model allows, as the theorem asks; it slows the beginning. update, of the diagonal form:
    "residual", or "coordinate" as printed; the first is what the paper's tables show.

    kernel: "linear", "polynomial", "rbf", "rational", with numbers as in "rbf(gamma=2)": keep
    contexts instead of weights, at most `budget` of them, and compare by the kernel. A function
    f(X, Y) of two arrays of rows will do too: it gives the matrix of values, as scikit-learn's do.
    remove: which goes when there is one too many, the "oldest", a "random" one or the "smallest".
    This is kernel ridge regression, the full form whatever `form` says:

        Confidit(labels=10, kernel="rbf(gamma=2)", reg=0.1, budget=500)
    """

    params = (CoordinateParams, ResidualParams)
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
        form: FormName = "diagonal",
        eta: float = 0.1,
        alpha: float = 1.0,
        reg: float | None = None,
        width: Literal["eta", "log", "theory"] = "eta",
        project: bool = False,
        U: float = 1.0,
        delta: float = 0.05,
        update: Literal["residual", "coordinate"] = "residual",
        kernel: KernelLike | None = None,
        budget: int = 1000,
        remove: Remove = "oldest",
        **common: Unpack[Common],
    ) -> None:
        full = form == "full" or kernel is not None
        by_residual = choice_of("update", update, ("residual", "coordinate")) == "residual" or full
        alpha, U = real("alpha", alpha, above=-1, most=1), real("U", U, least=0)
        self._reg = (1.0 + alpha) ** 2 if reg is None else real("reg", reg, above=0)
        params = (ResidualParams if by_residual else CoordinateParams)(
            real("eta", eta, least=0),
            alpha,
            WIDTHS.index(choice_of("width", width, WIDTHS)),
            flag("project", project),
            self._reg * U * U,
            real("delta", delta, above=0, below=1),
        )
        if params.width == THEORY and not full:
            raise ValueError("width='theory' is about full matrices: add form='full'")
        if params.project and not by_residual:
            raise ValueError("project=True goes with update='residual', not 'coordinate'")
        self.rescores = by_residual
        settings = {"eta": params.eta, "alpha": params.alpha, "reg": self._reg}
        settings |= {"width": width, "project": project}
        if params.width == THEORY:
            settings |= {"U": U, "delta": params.delta}
        if not full:
            settings["update"] = update
        memory = (0.0,) if params.width == THEORY else ()
        state = form_named(form, 1.0 / self._reg)
        state = dual(kernel, budget, remove, state, prior=self._reg, **common)
        super().__init__(labels, params, settings, memory=memory, state=state, **common)

    def _is_sound(self, table: np.ndarray, memory: np.ndarray) -> bool:
        return super()._is_sound(table, memory) and bool((memory >= 0).all())

    def _fill(self) -> tuple[float, ...]:
        return 0.0, 1.0 / self._reg
