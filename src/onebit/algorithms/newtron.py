"""Newtron: Hazan, Kale, "Newtron: an efficient bandit algorithm for online multiclass prediction",
NIPS 2011, Algorithm 1, exactly.

The round is PNewtron's (see there), but A = I/D + sum of kappa beta g g' is the whole matrix of K d
by K d numbers, and W the least of W'AW/2 + b.W within the ball of radius D. It is never laid out:
every g is c (P e_a) x' with P = I - 11'/K, so A = lam I + P blockdiag(S_1, ..., S_K) P with
lam = 1/D and S_i the sum of kappa beta c^2 x x' over the rounds that said i, and b = P r. All W
have columns that sum to 0, and g.W = c w_a.x.

W is found by Lanczos (`_ball`), in one of two ways. Directly: a product with A reads every S_i
once; with the published settings six will do. Or by the inverse of A + shift I, for when it takes
too many: with M_i = ((lam + shift) I + S_i)^-1 and Q = (sum of M_i)^-1 it takes v to
M_i (v_i - Q sum of M_j v_j). A shift near mu makes few products do, whatever A is; with shift 0 one
is enough while W lies inside the ball. Once made, in (K + 1) d^3, inverses are kept up to date: a
round changes M_a and Q by rank one.

P is over all labels, though perhaps not all were possible: the coefficients c have mean 0 over what
might be said, so the estimate of the gradient has the right mean with any offset.

The table holds W (plane 0) and r (plane 1).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Unpack

import msgspec
import numpy as np

from onebit import _ball, _kernel
from onebit._ball import WIDTH, Space, add, least_in_ball, length, operate, total
from onebit._form import Form
from onebit._full import add_lines, add_times, shrink_by
from onebit._jit import OUTLINE, compiled_as, implement, inline, not_inlined, outline
from onebit._kernel import number
from onebit._lanes import State8, aligned_zeros, at, fetch, store, zero
from onebit.algorithms.pnewtron import (
    mix_in_uniform,
    probability,
    pull_and_growth,
    say,
    softmax,
)
from onebit.decision import Decision
from onebit.learner import Common, Labels, Learner
from onebit.settings import Range, real, searched

NONE = -1.0  # for a shift: there are no inverses
STAY = 1000.0  # rounds to go by the inverses before the direct way is tried again
FEW = 5  # products: more would be saved by the inverses while W is inside the ball
MANY = 12  # products: a shift nearer to mu would save some


class NewtronParams(NamedTuple):
    gamma: float
    alpha: float
    beta: float
    D: float


class Blocks(NamedTuple):
    """A as its blocks, and perhaps their inverses; room to work."""

    S: Any  # [label, feature, feature], to a multiple of WIDTH
    M: Any  # the same
    Q: Any  # [1, feature, feature]
    plan: Any  # the shift that the inverses are for, or NONE; how many more rounds to go by them
    pull: Any  # -b, label after label
    leader: Any  # W, label after label
    aside: Any  # [label x feature]
    column: Any  # [feature]
    other: Any  # [feature]
    basis: Any
    small: Any
    eight: Any


class Operator(NamedTuple):
    """A, or (A + shift I)^-1."""

    more: Any
    lam: Any
    inverse: Any  # whether it is the latter


# Vectors [label, feature] lie flat, with every label's part on whole blocks.


def times(space: Any, matrices: Any, v: Any, each: Any, out: Any) -> None:
    """out = symmetric matrices on v, which has a part for each of them or one for all.

    Of a matrix only blocks at and left of the diagonal are read: each is used for both halves, for
    what takes time is to get them from memory.
    """
    labels, size = len(matrices), space.blocks * WIDTH
    v = v[: (labels if each else 1) * size].reshape(-1, size)
    sums = np.zeros((labels, size))
    for i in range(0, size, 4):
        start = i - i % WIDTH  # of the block at the diagonal
        lines = matrices[:, i : i + 4, : start + WIDTH]
        terms = lines * v[:, i : i + 4, None]
        sums[:, : start + WIDTH] += (terms[:, 0] + terms[:, 1]) + (terms[:, 2] + terms[:, 3])
        parts = np.zeros((labels, 4, WIDTH))
        for k in range(0, start, WIDTH):
            parts += lines[:, :, k : k + WIDTH] * v[:, None, k : k + WIDTH]
        sums[:, i : i + 4] += total(space.eight, parts)
    out[: labels * size] = sums.reshape(-1)


@compiled_as(times, OUTLINE)
def times_by_loop(space, matrices, v, each, out):
    not_inlined()
    eight, blocks = space.eight, space.blocks
    for label in range(matrices.shape[0]):
        matrix, to = matrices[label], label * blocks
        first = to if each else 0
        for row in range(blocks):
            store(eight, out, to + row, zero(eight))
        for row in range(blocks):
            for i in range(row * WIDTH, (row + 1) * WIDTH, 4):
                k = first * WIDTH + i
                x, y, z, u = v[k], v[k + 1], v[k + 2], v[k + 3]
                one, two, three, four = matrix[i], matrix[i + 1], matrix[i + 2], matrix[i + 3]
                a, b, c, d = zero(eight), zero(eight), zero(eight), zero(eight)
                for block in range(row):
                    other = fetch(eight, v, first + block)
                    e, f = fetch(eight, one, block), fetch(eight, two, block)
                    g, h = fetch(eight, three, block), fetch(eight, four, block)
                    a = a + e * other
                    b = b + f * other
                    c = c + g * other
                    d = d + h * other
                    gained = (e * x + f * y) + (g * z + h * u)
                    store(eight, out, to + block, fetch(eight, out, to + block) + gained)
                e, f = fetch(eight, one, row), fetch(eight, two, row)
                g, h = fetch(eight, three, row), fetch(eight, four, row)
                gained = (e * x + f * y) + (g * z + h * u)
                store(eight, out, to + row, fetch(eight, out, to + row) + gained)
                k = to * WIDTH + i
                out[k] += total(eight, a)
                out[k + 1] += total(eight, b)
                out[k + 2] += total(eight, c)
                out[k + 3] += total(eight, d)


@inline
def add_up(space, v, column):
    """The sum over labels."""
    size = space.blocks * WIDTH
    column[:size] = 0.0
    for label in range(space.groups):
        add_times(column, 0, size, 1.0, v[label * size :])


@implement(_ball.operate, Operator)
def operate_by_blocks(operator, space, v, out):
    more, size = operator.more, space.blocks * WIDTH
    times(space, more.M if operator.inverse else more.S, v, True, out)
    if operator.inverse:  # M_i (v_i - q), q = Q sum of M_i v_i
        add_up(space, out, more.column)
        times(space, more.Q, more.column, True, more.other)
        times(space, more.M, more.other, False, more.aside)
        add(space, out, -1.0, more.aside)
    add_up(space, out, more.column)  # P; after the inverse it takes away rounding alone
    for label in range(space.groups):
        add_times(out[label * size :], 0, size, -1.0 / space.groups, more.column)
    if not operator.inverse:
        add(space, out, operator.lam, v)


@implement(_ball.image, Operator)
def image(operator, space, v, dual):
    return


@implement(_ball.pencil, Operator)
def pencil(operator, mu):
    """(A + mu I)^-1 = (I + (mu - shift) B)^-1 B with B = (A + shift I)^-1."""
    if operator.inverse:
        return 1.0, mu - operator.more.plan[0], 0.0, 1.0
    return mu, 1.0, 1.0, 0.0


@implement(_ball.least, Operator)
def least(operator, mu):
    if operator.inverse:
        return min(1.0, (operator.lam + mu) / (operator.lam + operator.more.plan[0]))
    return operator.lam + mu


@outline
def invert(matrix, size, column):
    """A positive definite matrix to its inverse, by sweeps (Beaton 1964): d^3 in place."""
    not_inlined()
    for p in range(size):
        inverse = 1.0 / matrix[p, p]
        for k in range(size):
            column[k] = matrix[p, k] if k < p else matrix[k, p]
        column[p] = 0.0
        for i in range(size):
            add_times(matrix[i], 0, i + 1, 0.0 - column[i] * inverse, column)
        for k in range(p):
            matrix[p, k] = column[k] * inverse
        for i in range(p + 1, size):
            matrix[i, p] = column[i] * inverse
        matrix[p, p] = 0.0 - inverse
    for i in range(size):
        for k in range(i + 1):
            matrix[i, k] = 0.0 - matrix[i, k]  # not -x: zeros keep their sign
            matrix[k, i] = matrix[i, k]


@outline
def make_inverses(more, size, lam, shift):
    not_inlined()
    labels = more.S.shape[0]
    Q = more.Q[0]
    for i in range(size):
        Q[i, :size] = 0.0
    for label in range(labels):
        M = more.M[label]
        for i in range(size):
            M[i, :size] = 0.0
            add_times(M[i], 0, size, 1.0, more.S[label, i])
            M[i, i] += lam + shift
        invert(M, size, more.column)
        for i in range(size):
            add_times(Q[i], 0, size, 1.0, M[i])
    invert(Q, size, more.column)
    more.plan[0] = shift


@outline
def keep_inverses(more, row, size, label, growth):
    """Change M of the label and Q by what S grows: a matrix of rank one."""
    not_inlined()
    column, other = more.column, more.other
    add_lines(more.M[label], row, column, size, False)
    v = 0.0
    for i in range(row.start, row.stop):
        v += np.float64(at(row.values, i)) * column[at(row.indices, i)]
    shrink = growth / (1.0 + growth * v)
    add_matrix_lines(more.Q[0], column, other, size)
    left = 0.0
    for k in range(size):
        left += column[k] * other[k]
    left = 1.0 - shrink * left
    if v < 0.0 or not left > 0.0:  # rounding has eaten them
        more.plan[0] = NONE
        return
    shrink_by(more.M[label], column, size, shrink)
    shrink_by(more.Q[0], other, size, -shrink / left)


@inline
def add_matrix_lines(matrix, v, out, size):
    """out = a symmetric matrix on v, of which many may be zero."""
    out[:size] = 0.0
    for i in range(size):
        add_times(out, 0, size, v[i], matrix[i])


@outline
def find_leader(more, blocks, size, lam, radius):
    """Fill `leader` from `pull`; False if numbers have overflowed."""
    not_inlined()
    labels, plan = more.S.shape[0], more.plan
    space = Space(more.basis, more.basis, True, more.small, more.eight, labels, blocks)
    steps, mu = -1, 0.0
    if plan[0] == NONE or plan[1] <= 0.0:
        more.basis[0, : length(space)] = 0.0
        add(space, more.basis[0], 1.0, more.pull)
        steps, mu = least_in_ball(Operator(more, lam, False), space, more.leader, radius)
        enough = steps >= 0
        if enough and (mu > 0.0 or steps <= FEW):
            plan[0] = NONE
            return True
        if not mu < math.inf:
            return False
        if plan[0] == NONE:
            make_inverses(more, size, lam, mu)
        plan[1] = STAY
        if enough:
            return True
    for _ in range(10):
        inverse = Operator(more, lam, True)
        operate(inverse, space, more.pull, more.basis[0])
        steps, mu = least_in_ball(inverse, space, more.leader, radius)
        if mu > 0.0:
            plan[1] -= 1.0
        if not mu < math.inf:
            break
        if steps < 0 or steps > MANY:
            make_inverses(more, size, lam, mu)
        if steps >= 0:
            return True
    plan[0] = NONE
    return False


@implement(_kernel.decide, NewtronParams)
def decide(params, state, work, turn):
    return say(params, state, work, turn)


implement(_kernel.score, NewtronParams)(_kernel.linear_score)


@implement(_kernel.probabilities, NewtronParams)
def probabilities(params, state, work, turn):
    softmax(params, state, work)
    mix_in_uniform(params, work, turn)


@implement(_kernel.learn, NewtronParams)
def learn(params, state, work, row, turn, choice, right):
    pull, growth = pull_and_growth(params, choice, right)
    table, more, label = state.table, state.more, choice.label
    size, labels, lam = table.shape[0], more.S.shape[0], 1.0 / params.D
    for i in range(row.start, row.stop):
        j, x = at(row.indices, i), np.float64(at(row.values, i))
        table[j, 1, label] = number(state, np.float64(table[j, 1, label]) + pull * x)
        line = more.S[label, j]
        for n in range(row.start, row.stop):
            line[at(row.indices, n)] += growth * (x * np.float64(at(row.values, n)))
    if more.plan[0] != NONE:
        keep_inverses(more, row, size, label, growth)
    blocks = (size + WIDTH - 1) // WIDTH
    stride = blocks * WIDTH
    for j in range(size):
        mean = 0.0
        for i in range(labels):
            mean += np.float64(table[j, 1, i])
        mean /= labels
        for i in range(labels):
            more.pull[i * stride + j] = mean - np.float64(table[j, 1, i])
    for i in range(labels):
        for k in range(i * stride + size, (i + 1) * stride):
            more.pull[k] = 0.0
    if find_leader(more, blocks, size, lam, params.D):
        for j in range(size):
            for i in range(labels):
                table[j, 0, i] = number(state, more.leader[i * stride + j])
    return True


class Coupled(Form):
    """The blocks of Newtron's matrix."""

    dtype = "float64"
    advice = (
        "Use PNewtron, which takes two numbers per feature and label, or hash the features into "
        "fewer columns with features="
    )

    def __init__(self, D: float) -> None:
        self.D = D

    def lay_out(self, arrays: dict[str, np.ndarray], features: int, labels: int) -> Blocks:
        room = _padded(features)
        S, M = (aligned_zeros((labels, room, room), np.float64) for _ in range(2))
        Q, plan = aligned_zeros((1, room, room), np.float64), np.array([0.0, 1.0])
        if arrays:
            old, plan = arrays["S"], arrays["plan"].copy()
            S[: len(old), : old.shape[1], : old.shape[2]] = old
            if len(old) < labels:  # Q would be another one
                plan[:] = NONE, 0.0
        if plan[0] != NONE:
            own = 1.0 / (1.0 / self.D + plan[0])
            _diagonal(M)[:] = own
            _diagonal(Q)[:] = 1.0 / sum([own] * labels)
            if arrays:
                old = slice(arrays["Q"].shape[1])
                M[:, old, old], Q[:, old, old] = arrays["M"], arrays["Q"]
        pull, leader, aside = (aligned_zeros((labels * room,), np.float64) for _ in range(3))
        column, other = (aligned_zeros((room,), np.float64) for _ in range(2))
        basis = aligned_zeros((_ball.LIMIT + 1, labels * room), np.float64)
        small, eight = np.zeros((5, _ball.LIMIT)), State8(np.zeros((1, 1, WIDTH)), np.zeros(WIDTH))
        return Blocks(S, M, Q, plan, pull, leader, aside, column, other, basis, small, eight)

    def room(self, more: Blocks) -> int:
        return more.Q.shape[1]

    def arrays(self, more: Blocks, features: int, labels: int) -> dict[str, np.ndarray]:
        here = slice(features)
        kept = {"S": more.S[:, here, here], "plan": more.plan}
        if more.plan[0] != NONE:
            kept |= {"M": more.M[:, here, here], "Q": more.Q[:, here, here]}
        return {name: array.copy() for name, array in kept.items()}

    def fits(self, arrays: dict[str, np.ndarray], features: int, labels: int) -> bool:
        plan = arrays.get("plan", np.empty(0))
        if plan.shape != (2,):
            return False
        shapes = {"plan": (2,), "S": (labels, features, features)}
        if plan[0] != NONE:
            shapes |= {"M": shapes["S"], "Q": (1, features, features)}
        good = plan[0] == NONE or plan[0] >= 0
        return good and {name: array.shape for name, array in arrays.items()} == shapes

    def size(self, features: int, labels: int) -> int:
        room = _padded(features)
        return 8 * room * ((2 * labels + 1) * room + (_ball.LIMIT + 4) * labels + 2)

    def faded(
        self, table: np.ndarray, arrays: dict[str, np.ndarray], keep: float
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """S and r are sums: a share of both is kept, and the leader follows."""
        S, r = keep * arrays["S"], keep * table[:, 1].T
        table[:, 0], table[:, 1] = _leader(S, r, self.D).T, r.T
        return table, {"S": S, "plan": np.array([NONE, 0.0])}


def _leader(S: np.ndarray, r: np.ndarray, D: float) -> np.ndarray:
    """W given S and r, by inverses at every mu on the way."""
    mu, unit = 0.0, np.eye(S.shape[1])
    while True:
        M = np.linalg.inv(S + (1.0 / D + mu) * unit)

        def solve(v: np.ndarray, M: np.ndarray = M) -> np.ndarray:
            """(A + mu I)^-1 v."""
            q = np.linalg.solve(M.sum(axis=0), np.einsum("kij,kj->i", M, v))
            return np.einsum("kij,kj->ki", M, v - q)

        W = -solve(r)
        norm = np.linalg.norm(W)
        step = (norm / D - 1.0) * norm**2 / max(np.vdot(W, solve(W)), 1e-300)
        if norm <= D * (1 + 1e-13) or mu + step == mu:
            return W
        mu += step


def _padded(features: int) -> int:
    return -(-features // WIDTH) * WIDTH


def _diagonal(matrices: np.ndarray) -> np.ndarray:
    """The diagonals [label, feature] of matrices, to be written to."""
    return np.einsum("kii->ki", matrices)


class Newtron(Learner):
    """Bandit logistic regression in a ball, by exact Newton steps (Hazan, Kale 2011).

    gamma: exploration, in (0, 1). alpha: steepness of the softmax. beta: curvature. D: radius of
    the ball; with contexts of unit length try 10 (the published 1 belongs to raw 0/1 features).

    For up to a thousand features or so: it keeps d x d numbers a label, and reads them several
    times a round. `PNewtron` keeps the diagonal alone.
    """

    planes = 2
    importance_weighted = True
    costly = True
    ranges = searched(
        gamma=Range(0.001, 0.5),
        alpha=Range(1, 100),
        beta=Range(0.001, 1),
        D=Range(0.1, 100),
    )

    def __init__(
        self,
        labels: Labels,
        *,
        gamma: float = 0.01,
        alpha: float = 10.0,
        beta: float = 0.01,
        D: float = 1.0,
        **common: Unpack[Common],
    ) -> None:
        params = NewtronParams(
            real("gamma", gamma, above=0, below=1),
            real("alpha", alpha, above=0),
            real("beta", beta, above=0),
            real("D", D, above=0),
        )
        super().__init__(labels, params, params._asdict(), form=Coupled(params.D), **common)

    def _had_it_said(self, decision: Decision, place: int) -> Decision:
        said = super()._had_it_said(decision, place)
        scores = self._present_scores(said)
        p = probability(scores, place, self._params.alpha)
        return msgspec.structs.replace(said, note=p, other=float(scores[place]))
