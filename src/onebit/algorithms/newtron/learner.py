"""Newtron: Hazan, Kale, "Newtron: an efficient bandit algorithm for online multiclass prediction",
NIPS 2011, Algorithm 1, exactly.

A round is that of PNewtron (see there), but A = reg I + sum of kappa beta g g' is the whole matrix
of K d by K d numbers, and W, the leader, minimises W'AW/2 + b.W within the ball of radius D.

A is never laid out. Every g is c (P e_a) x' with P = I - 11'/K, so A = lam I + P S P and b = P r.
lam is `reg` (1/D in the paper). S is block-diagonal: S_i is the sum of kappa beta c^2 x x' over the
rounds that said label i. The columns of W sum to 0, and g.W = c w_a.x.

`solver` finds W from products with A, which read every S_i once, or with the inverse of
A + shift I. With M_i = ((lam + shift) I + S_i)^-1 and Q = (sum of M_i)^-1, the inverse takes v to
M_i (v_i - Q sum of M_j v_j). To make M and Q costs (K + 1) d^3; after that, a round changes M_a and
Q by rank one.

P is over all labels, also where not all were possible: the coefficients c have mean 0 over the
possible labels, so the estimate of the gradient has the right mean with any offset.

The table holds W (plane 0) and r (plane 1). With a kernel there is no table: see `kernel`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from onebit.algorithms.flips import RHO0, RHO1
from onebit.algorithms.newtron import kernel as kernel_form
from onebit.algorithms.newtron import solver
from onebit.algorithms.newtron.solver import NONE, WIDTH
from onebit.algorithms.pnewtron import (
    ALPHA,
    GAMMA,
    RADIUS,
    REG,
    _SoftmaxInBall,
    draw,
    pull_and_growth,
)
from onebit.core.jit import generic, implement, inline, not_inlined, outline
from onebit.core.lanes import aligned_zeros, at
from onebit.core.settings import Range, setting
from onebit.core.sums import linear_score, number
from onebit.storage.base import Arrays, Storage
from onebit.storage.dual import BUDGET, KERNEL, REMOVE, Remove
from onebit.storage.full import (
    MOST_VARIANCE,
    add_lines,
    add_times,
    check_lengths,
    diagonals,
    is_between,
    is_inverse,
    shrink_by,
)
from onebit.storage.kernels import KernelLike

MOST_EVIDENCE = 1e28  # trace of S_i: contexts and rounds are limited


class Blocks(NamedTuple):
    """A as its blocks, perhaps their inverses, and scratch space.

    Vectors [label, feature] lie flat; the part of a label begins at a multiple of WIDTH.
    """

    S: Any  # [label, feature, feature], features rounded up to a multiple of WIDTH
    M: Any  # the same
    Q: Any  # [1, feature, feature]
    plan: Any  # the shift of the inverses, or NONE; for how many more rounds they are used
    pull: Any  # -b, label after label
    leader: Any  # W, label after label
    aside: Any  # [label x feature]
    column: Any  # [feature]
    image: Any  # [feature]
    basis: Any  # see `solver.Space`
    small: Any
    eight: Any


@inline
def sum_over_labels(space, v, column):
    size = space.blocks * WIDTH
    column[:size] = 0.0
    for label in range(space.groups):
        add_times(column, 0, size, 1.0, v[label * size :])


@implement(solver.operate, Blocks)
def operate(held, lam, inverse, space, v, out):
    size = space.blocks * WIDTH
    solver.times(space, held.M if inverse else held.S, v, True, out)
    if inverse:  # M_i (v_i - q), q = Q sum of M_i v_i
        sum_over_labels(space, out, held.column)
        solver.times(space, held.Q, held.column, True, held.image)
        solver.times(space, held.M, held.image, False, held.aside)
        solver.add(space, out, -1.0, held.aside)
    sum_over_labels(space, out, held.column)  # P; after an inverse it only removes rounding errors
    for label in range(space.groups):
        add_times(out[label * size :], 0, size, -1.0 / space.groups, held.column)
    if not inverse:
        solver.add(space, out, lam, v)


@implement(solver.geometry, Blocks)
def geometry(held, lam, inverse):
    return solver.Geometry(0.0, 0.0 if inverse else 1.0, 0.0, 1.0 if inverse else 0.0)


@implement(solver.least, Blocks)
def least_eigenvalue(held, shifted):
    return shifted


@implement(solver.make_inverses, Blocks)
def make_inverses(held, size, lam, shift):
    Q = held.Q[0]
    for i in range(size):
        Q[i, :size] = 0.0
    for label in range(held.S.shape[0]):
        M = held.M[label]
        for i in range(size):
            M[i, :size] = 0.0
            add_times(M[i], 0, size, 1.0, held.S[label, i])
            M[i, i] += lam + shift
        solver.invert(M, size, held.column)
        for i in range(size):
            add_times(Q[i], 0, size, 1.0, M[i])
    solver.invert(Q, size, held.column)
    held.plan[0] = shift


@outline
def keep_inverses(held, row, size, label, growth):
    """Change M of the label and Q after S of the label has grown by growth x x'."""
    not_inlined()
    column, image = held.column, held.image
    add_lines(held.M[label], row, column, size, False)
    v = 0.0
    for i in range(row.start, row.stop):
        v += np.float64(at(row.values, i)) * column[at(row.indices, i)]
    shrink = growth / (1.0 + growth * v)
    image[:size] = 0.0  # Q M x
    for i in range(size):
        add_times(image, 0, size, column[i], held.Q[0, i])
    left = 0.0
    for k in range(size):
        left += column[k] * image[k]
    left = 1.0 - shrink * left
    if v < 0.0 or not left > 0.0:  # they consist of rounding errors
        held.plan[0] = NONE
        return
    shrink_by(held.M[label], column, size, shrink)
    shrink_by(held.Q[0], image, size, -shrink / left)


@generic
def observe(state, row, label, pull, growth, lam, radius):
    """Add a round to A and b, and find the leader."""
    table, held = state.table, state.held
    size, labels = table.shape[0], held.S.shape[0]
    for i in range(row.start, row.stop):
        j, x = at(row.indices, i), np.float64(at(row.values, i))
        table[j, 1, label] = number(state, np.float64(table[j, 1, label]) + pull * x)
        line = held.S[label, j]
        for n in range(row.start, row.stop):
            line[at(row.indices, n)] += growth * (x * np.float64(at(row.values, n)))
    if held.plan[0] != NONE:
        keep_inverses(held, row, size, label, growth)
    space = solver.space_for(held, labels, size)
    stride = space.blocks * WIDTH
    for j in range(size):
        mean = 0.0
        for i in range(labels):
            mean += np.float64(table[j, 1, i])
        mean /= labels
        for i in range(labels):
            held.pull[i * stride + j] = mean - np.float64(table[j, 1, i])
    for i in range(labels):
        for k in range(i * stride + size, (i + 1) * stride):
            held.pull[k] = 0.0
    if solver.find_leader(held, space, size, lam, radius):
        for j in range(size):
            for i in range(labels):
                table[j, 0, i] = number(state, held.leader[i * stride + j])


implement(observe, kernel_form.Observed)(kernel_form.observe)


class Coupled(Storage):
    """The blocks of Newtron's matrix."""

    dtype = "float64"
    shares_blank = True
    advice = (
        "Use PNewtron, which takes two numbers per feature and label, or hash the features into "
        "fewer columns with features="
    )

    def __init__(self, D: float, reg: float) -> None:
        self.D, self.reg = D, reg
        self.longest = (MOST_VARIANCE * max(reg, 1.0)) ** 0.5

    def check(self, values: np.ndarray, indptr: np.ndarray | None = None) -> None:
        """Refuse contexts after which the matrix would consist of rounding errors."""
        check_lengths(values, indptr, self.longest, "or use PNewtron")

    def lay_out(self, arrays: Arrays, features: int, labels: int) -> Blocks:
        room = solver.padded(features)
        S, M = (aligned_zeros((labels, room, room), np.float64) for _ in range(2))
        Q, plan = aligned_zeros((1, room, room), np.float64), np.array([0.0, 1.0])
        if arrays:
            old, plan = arrays["S"], arrays["plan"].copy()
            S[: len(old), : old.shape[1], : old.shape[2]] = old
            if len(old) < labels:  # Q is for fewer labels
                plan = solver.no_inverses()
        if plan[0] != NONE:
            own = 1.0 / (self.reg + plan[0])
            diagonals(M)[:] = own
            diagonals(Q)[:] = 1.0 / sum([own] * labels)
            if arrays:
                old = slice(arrays["Q"].shape[1])
                M[:, old, old], Q[:, old, old] = arrays["M"], arrays["Q"]
        pull, leader, aside = (aligned_zeros((labels * room,), np.float64) for _ in range(3))
        column, image = (aligned_zeros((room,), np.float64) for _ in range(2))
        scratch = solver.scratch(labels * room)
        return Blocks(S, M, Q, plan, pull, leader, aside, column, image, **scratch)

    def room(self, held: Blocks) -> int:
        return held.Q.shape[1]

    def arrays(self, held: Blocks, features: int, labels: int) -> Arrays:
        here = slice(features)
        kept = {"S": held.S[:, here, here], "plan": held.plan}
        if held.plan[0] != NONE:
            kept |= {"M": held.M[:, here, here], "Q": held.Q[:, here, here]}
        return {name: array.copy() for name, array in kept.items()}

    def fits(self, arrays: Arrays, features: int, labels: int) -> bool:
        plan = arrays.get("plan", np.empty(0))
        if plan.shape != (2,):
            return False
        shapes = {"plan": (2,), "S": (labels, features, features)}
        if plan[0] != NONE:
            shapes |= {"M": shapes["S"], "Q": (1, features, features)}
        good = plan[0] == NONE or plan[0] >= 0
        return good and {name: array.shape for name, array in arrays.items()} == shapes

    def is_sound(self, table: np.ndarray, arrays: Arrays) -> bool:
        """Whether each S_i can be a sum of squares, with a trace that contexts can reach."""
        traces = np.trace(arrays["S"], axis1=1, axis2=2)
        good = zip(arrays["S"], traces, strict=True)
        return bool((traces <= MOST_EVIDENCE).all()) and all(is_between(S, t) for S, t in good)

    def mended(self, table: np.ndarray, arrays: Arrays) -> tuple[np.ndarray, Arrays]:
        """Compute W anew unless it can be the leader; drop inverses that are not those of S."""
        S, (shift, _) = arrays["S"], arrays["plan"]
        W, r = (table[:, plane].T.astype(np.float64) for plane in (0, 1))
        b = r - r.mean(axis=0)
        curved = self.reg * np.vdot(W, W) + np.einsum("ki,kij,kj->", W, S, W)
        length = np.linalg.norm(W)
        # W'AW is at most -b.W, but W may be that of a round before if numbers overflowed.
        is_leader = length <= self.D * (1 + 1e-5) and curved <= 1000 * length * np.linalg.norm(b)
        own = np.full(len(table), self.reg + shift)
        traces = np.trace(S, axis1=1, axis2=2)
        most = (self.reg + shift + traces.max(initial=0)) / len(S)
        are_inverses = shift == NONE or (
            all(is_inverse(m, own, np.diagonal(s)) for m, s in zip(arrays["M"], S, strict=True))
            and is_between(arrays["Q"][0], most)
        )
        if not are_inverses:
            arrays = {"S": S, "plan": solver.no_inverses()}
        if not is_leader:
            table = table.copy()
            table[:, 0] = self._leader(S, r).T
        return table, arrays

    def size(self, features: int, labels: int) -> int:
        room = solver.padded(features)
        return 8 * room * ((2 * labels + 1) * room + (solver.LIMIT + 4) * labels + 2)

    def faded(self, table: np.ndarray, arrays: Arrays, keep: float) -> tuple[np.ndarray, Arrays]:
        """Keep a share of S and r, which are sums, and find the leader anew."""
        table = table.astype(np.float64)
        S, r = keep * arrays["S"], keep * table[:, 1].T
        table[:, 0], table[:, 1] = self._leader(S, r).T, r.T
        return table, {"S": S, "plan": solver.no_inverses()}

    def _leader(self, S: np.ndarray, r: np.ndarray) -> np.ndarray:
        """W from S and r, by dense inverses of the blocks."""

        def solution(mu: float) -> tuple[np.ndarray, Any, Any]:
            M = np.linalg.inv(S + (self.reg + mu) * np.eye(S.shape[1]))

            def solve(v: np.ndarray) -> np.ndarray:
                """(A + mu I)^-1 v."""
                q = np.linalg.solve(M.sum(axis=0), np.einsum("kij,kj->i", M, v))
                return np.einsum("kij,kj->ki", M, v - q)

            W = -solve(r)
            return W, np.linalg.norm(W), np.vdot(W, solve(W))

        return solver.solve_in_ball(solution, self.D)


class Newtron(_SoftmaxInBall):
    """Bandit logistic regression in a ball, by exact Newton steps (Hazan, Kale 2011).

    For up to about a thousand features: it keeps d x d numbers per label, and reads them several
    times per round. `PNewtron` keeps only the diagonal.

    >>> import onebit as ob
    >>> iris = ob.datasets.iris()
    >>> learner = ob.Newtron(iris.labels, D=10, inputs="unit")
    >>> trace = ob.simulate(learner, iris, order="shuffled", epochs=2)
    >>> float(trace.error[-1].round(2))
    0.38
    """

    costly = True
    gamma: float = GAMMA
    alpha: float = ALPHA
    beta: float = setting(  # beyond these bounds, rounding errors dominate
        default=0.01, least=1e-15, most=1e6, search=Range(0.001, 1), doc="curvature"
    )
    D: float = setting(default=1.0, least=1e-6, most=1e9, search=Range(0.1, 100), doc=RADIUS)
    reg: float = REG
    rho0: float = RHO0
    rho1: float = RHO1
    kernel: KernelLike | None = KERNEL
    budget: int = BUDGET
    remove: Remove = REMOVE

    score = linear_score
    say = draw
    lockstep = None

    @staticmethod
    def hear(params, state, work, row, turn, choice, right):
        pull, growth = pull_and_growth(params, choice, right)
        observe(state, row, choice.label, pull, growth, params.reg, params.D)
        return True

    def _make_storage(self) -> Storage:
        if self.kernel is None:
            return Coupled(self.D, self.reg)
        return kernel_form.CoupledDual(self, self.D, self.reg)
