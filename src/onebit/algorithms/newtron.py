"""Newtron: Hazan, Kale, "Newtron: an efficient bandit algorithm for online multiclass prediction",
NIPS 2011, Algorithm 1, exactly.

The round is PNewtron's (see there), but A = reg I + sum of kappa beta g g' is the whole matrix of
K d by K d numbers, and W the least of W'AW/2 + b.W within the ball of radius D. It is never laid
out: every g is c (P e_a) x' with P = I - 11'/K, so A = lam I + P blockdiag(S_1, ..., S_K) P with
lam = reg, 1/D in the paper, S_i the sum of kappa beta c^2 x x' over the rounds that said i, and
b = P r. All W have columns that sum to 0, and g.W = c w_a.x.

W is found by Lanczos (`newtron_solver`), in one of two ways. Directly: a product with A reads every
S_i once; with the published settings six will do. Or by the inverse of A + shift I, for when it
takes too many: with M_i = ((lam + shift) I + S_i)^-1 and Q = (sum of M_i)^-1 it takes v to M_i (v_i
- Q sum of M_j v_j). A shift near mu makes few products do, whatever A is; with shift 0 one is
enough while W lies inside the ball. Once made, in (K + 1) d^3, inverses are kept up to date: a
round changes M_a and Q by rank one.

P is over all labels, though perhaps not all were possible: the coefficients c have mean 0 over what
might be said, so the estimate of the gradient has the right mean with any offset.

The table holds W (plane 0) and r (plane 1).

With a kernel there are stored contexts instead (see `storage.dual`), each an observation of the
label that was said: phi_s = (P e_a) x_s' of weight om_s, the sum of kappa beta c^2 over the rounds
that said a to it, and drive ze_s, the sum of their (1 - kappa beta g.W) c. So A = lam I + sum om_s
phi_s phi_s' and b = sum ze_s phi_s. With W = -sum e_s phi_s and Ga_st = phi_s.phi_t, which is
k(x_s, x_t) times 1[a_s = a_t] - 1/K, this is ((lam + mu) I + om Ga) e = ze, |W|^2 = e'Ga e. In e =
sqrt(om) f it is symmetric: (lam + mu + H) f = ze/sqrt(om), H = sqrt(om) Ga sqrt(om), |W|^2 = f'Hf,
and the two ways are by H or by (lam + shift + H)^-1. The latter comes from G = ((lam + shift)/om +
Ga)^-1, which an observation that comes, goes or gets heavier changes by rank one. What goes is
forgotten as if it had never been observed.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import msgspec
import numpy as np

from onebit.algorithms import newtron_solver as solver
from onebit.algorithms.flips import RHO0, RHO1, _CorrectsFlips
from onebit.algorithms.newtron_solver import (
    NEWTON_STEPS,
    WIDTH,
    Space,
    add,
    dot,
    least_in_ball,
    length,
    total,
)
from onebit.algorithms.pnewtron import (
    ALPHA,
    BEYOND,
    GAMMA,
    draw,
    is_softmax,
    mix_in_uniform,
    probability,
    pull_and_growth,
    softmax,
)
from onebit.core.jit import OUTLINE, compiled_as, generic, implement, inline, not_inlined, outline
from onebit.core.lanes import State8, aligned_zeros, at, fetch, store, zero
from onebit.core.sums import dot as sum_of_row
from onebit.core.sums import known, linear_score, number, squared_norm
from onebit.decision import Decision
from onebit.settings import Range, setting
from onebit.storage import dual as stored
from onebit.storage.base import Storage
from onebit.storage.dual import (
    BUDGET,
    GIVEN,
    KERNEL,
    REMOVE,
    SMALLEST,
    TOP,
    Dual,
    KernelLike,
    Points,
    Remove,
    clear,
    is_full,
    is_same,
    touch,
)
from onebit.storage.full import (
    MOST_VARIANCE,
    ROUNDING,
    add_lines,
    add_times,
    check_lengths,
    diagonals,
    is_between,
    is_inverse,
    shrink_by,
)

NONE = -1.0  # for a shift: there are no inverses
STAY = 1000.0  # rounds to go by the inverses before the direct way is tried again
FEW = 5  # products: more would be saved by the inverses while W is inside the ball
MANY = 12  # products: a shift nearer to mu would save some
LEAST = 1e-200  # weight of an observation: of less there is nothing to see
MOST_EVIDENCE = 1e28  # that a label can have: contexts are limited, and rounds are
UNKNOWN = 1e30  # in place of k(x, x), where a function gives it


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


class Observed(NamedTuple):
    """What was observed in each slot; one of them may be in use by none."""

    points: Any
    said: Any  # [slot] the label
    weight: Any  # [slot], to a multiple of WIDTH; 0: in use by none
    drive: Any  # the same
    root: Any  # of the weight
    pull: Any  # drive / root
    Ga: Any  # [1, slot, slot]
    G: Any  # the same
    plan: Any  # as above
    leader: Any  # f
    column: Any  # [slot]
    other: Any  # [slot]
    basis: Any
    small: Any
    eight: Any
    labels: Any  # how many


class Operator(NamedTuple):
    """A, or (A + shift I)^-1."""

    held: Any
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


@generic
def product(held, inverse, lam, space, v, out):
    """out = A v or (A + shift I)^-1 v; with a kernel H is in place of A."""


@implement(solver.operate, Operator)
def operate(operator, space, v, out):
    product(operator.held, operator.inverse, operator.lam, space, v, out)


@implement(product, Blocks)
def product_by_blocks(held, inverse, lam, space, v, out):
    size = space.blocks * WIDTH
    times(space, held.M if inverse else held.S, v, True, out)
    if inverse:  # M_i (v_i - q), q = Q sum of M_i v_i
        add_up(space, out, held.column)
        times(space, held.Q, held.column, True, held.other)
        times(space, held.M, held.other, False, held.aside)
        add(space, out, -1.0, held.aside)
    add_up(space, out, held.column)  # P; after the inverse it takes away rounding alone
    for label in range(space.groups):
        add_times(out[label * size :], 0, size, -1.0 / space.groups, held.column)
    if not inverse:
        add(space, out, lam, v)


@implement(product, Observed)
def product_of_observed(held, inverse, lam, space, v, out):
    root, column = held.root, held.column
    for slot in range(length(space)):
        r = root[slot]
        column[slot] = v[slot] * r if not inverse else v[slot] / r if r > 0.0 else 0.0
    times(space, held.G if inverse else held.Ga, column, True, out)
    for slot in range(length(space)):
        r = root[slot]
        out[slot] = out[slot] * r if not inverse else out[slot] / r if r > 0.0 else 0.0


@implement(solver.pencil, Operator)
def pencil(operator, mu):
    """(A + mu I)^-1 = B (I + (mu - shift) B)^-1 with B = (A + shift I)^-1."""
    if operator.inverse:
        return 1.0, mu - operator.held.plan[0], 0.0, 1.0
    return own_part(operator.held, operator.lam) + mu, 1.0, 1.0, 0.0


@implement(solver.gauge, Operator)
def gauge(operator):
    return gauge_of(operator.held, operator.inverse, operator.lam)


@implement(solver.least, Operator)
def least(operator, mu):
    return least_of(operator.held, operator.lam + mu)


@generic
def own_part(held, lam):
    """What A has beyond its product."""


@generic
def gauge_of(held, inverse, lam): ...


@generic
def least_of(held, shifted): ...


@implement(own_part, Blocks)
def nothing(held, lam):
    return 0.0


@implement(gauge_of, Blocks)
def usual_gauge(held, inverse, lam):
    return (True, 0.0, 0.0, 1.0) if inverse else (False, 1.0, 0.0, 0.0)


@implement(least_of, Blocks)
def least_eigenvalue(held, shifted):
    return shifted


@implement(own_part, Observed)
def prior(held, lam):
    return lam


@implement(gauge_of, Observed)
def gauge_by_H(held, inverse, lam):
    """H = B^-1 - (lam + shift)."""
    return (True, 0.0, 1.0, -(lam + held.plan[0])) if inverse else (False, 0.0, 1.0, 0.0)


@implement(least_of, Observed)
def least_by_H(held, shifted):
    """sqrt(h)/(shifted + h) is at most the inverse of this, whatever h is."""
    return 2.0 * math.sqrt(shifted)


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


@generic
def make_inverses(held, size, lam, shift):
    """Make the inverses for a shift."""


@outline
def invert_blocks(held, size, lam, shift):
    not_inlined()
    labels = held.S.shape[0]
    Q = held.Q[0]
    for i in range(size):
        Q[i, :size] = 0.0
    for label in range(labels):
        M = held.M[label]
        for i in range(size):
            M[i, :size] = 0.0
            add_times(M[i], 0, size, 1.0, held.S[label, i])
            M[i, i] += lam + shift
        invert(M, size, held.column)
        for i in range(size):
            add_times(Q[i], 0, size, 1.0, M[i])
    invert(Q, size, held.column)
    held.plan[0] = shift


@outline
def invert_observed(held, size, lam, shift):
    not_inlined()
    G, weight = held.G[0], held.weight
    for i in range(size):
        G[i, :size] = 0.0
        add_times(G[i], 0, size, 1.0, held.Ga[0, i])
        G[i, i] += (lam + shift) / weight[i] if weight[i] > 0.0 else 1.0
    invert(G, size, held.column)
    for i in range(size):
        if weight[i] == 0.0:
            G[i, i] = 0.0
    held.plan[0] = shift


@implement(make_inverses, Blocks)
def make_inverses_of_blocks(held, size, lam, shift):
    invert_blocks(held, size, lam, shift)


@implement(make_inverses, Observed)
def make_inverse_of_observed(held, size, lam, shift):
    invert_observed(held, size, lam, shift)


@outline
def keep_inverses(held, row, size, label, growth):
    """Change M of the label and Q by what S grows: a matrix of rank one."""
    not_inlined()
    column, other = held.column, held.other
    add_lines(held.M[label], row, column, size, False)
    v = 0.0
    for i in range(row.start, row.stop):
        v += np.float64(at(row.values, i)) * column[at(row.indices, i)]
    shrink = growth / (1.0 + growth * v)
    add_matrix_lines(held.Q[0], column, other, size)
    left = 0.0
    for k in range(size):
        left += column[k] * other[k]
    left = 1.0 - shrink * left
    if v < 0.0 or not left > 0.0:  # rounding has eaten them
        held.plan[0] = NONE
        return
    shrink_by(held.M[label], column, size, shrink)
    shrink_by(held.Q[0], other, size, -shrink / left)


@inline
def add_matrix_lines(matrix, v, out, size):
    """out = a symmetric matrix on v, of which many may be zero."""
    out[:size] = 0.0
    for i in range(size):
        add_times(out, 0, size, v[i], matrix[i])


@inline
def start_from(space, v):
    space.basis[0, : length(space)] = 0.0
    add(space, space.basis[0], 1.0, v)


@outline
def find_leader(held, space, size, lam, radius):
    """Fill `leader` from `pull`; False if numbers have overflowed."""
    not_inlined()
    plan = held.plan
    steps, mu = -1, 0.0
    if plan[0] == NONE or plan[1] <= 0.0:
        start_from(space, held.pull)
        steps, mu = least_in_ball(Operator(held, lam, False), space, held.leader, radius)
        enough = steps >= 0
        if enough and (mu > 0.0 or steps <= FEW):
            plan[0] = NONE
            return True
        if not mu < math.inf:
            return False
        if plan[0] == NONE:
            make_inverses(held, size, lam, mu)
        plan[1] = STAY
        if enough:
            return True
    for _ in range(10):
        inverse = Operator(held, lam, True)
        start_from(space, held.pull)
        steps, mu = least_in_ball(inverse, space, held.leader, radius)
        if mu > 0.0:
            plan[1] -= 1.0
        if not mu < math.inf:
            break
        if steps < 0 or steps > MANY:
            make_inverses(held, size, lam, mu)
        if steps >= 0:
            return True
    plan[0] = NONE
    return False


@generic
def longest(state, row):
    """The squared length of a context, or with a kernel the largest that is taken."""
    return squared_norm(row)


def by_kernel(state, row):
    kernel, square = state.held.points.kernel, squared_norm(row)
    return UNKNOWN if kernel.kind == GIVEN else stored.value(kernel, square, square, square)


@generic
def observe(state, row, label, pull, growth, lam, radius):
    """One more round, and the leader after it."""
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
    blocks = (size + WIDTH - 1) // WIDTH
    stride = blocks * WIDTH
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
    space = Space(held.basis, held.small, held.eight, labels, blocks)
    if find_leader(held, space, size, lam, radius):
        for j in range(size):
            for i in range(labels):
                table[j, 0, i] = number(state, held.leader[i * stride + j])


# With a kernel.


def dot_with_observed(state, row, plane, out):
    stored.look(state, state.held.points, row)
    stored.sum_up(state, state.held.points, out)


@outline
def unborder(held, size, slot):
    """Take a line out of G."""
    not_inlined()
    G, column = held.G[0], held.column
    for k in range(size):
        column[k] = G[slot, k]
    if column[slot] > 0.0:
        shrink_by(G, column, size, 1.0 / column[slot])
    else:  # rounding has eaten it
        held.plan[0] = NONE
    for k in range(size):
        G[slot, k], G[k, slot] = 0.0, 0.0


@outline
def border(held, space, size, slot, own):
    """Keep G up to date with a line of Ga that is new; own: what the diagonal has besides."""
    not_inlined()
    line, column, other = held.Ga[0, slot], held.column, held.other
    for k in range(length(space)):
        column[k] = line[k] if k != slot else 0.0
    times(space, held.G, column, True, other)
    left = own + line[slot] - dot(space, column, other)
    if left > 0.0:
        other[slot] = -1.0
        shrink_by(held.G[0], other, size, -1.0 / left)
    else:
        held.plan[0] = NONE


@outline
def drop(held, size, slot):
    """Forget an observation."""
    not_inlined()
    if held.plan[0] != NONE:
        unborder(held, size, slot)
    for k in range(size):
        held.Ga[0, slot, k], held.Ga[0, k, slot] = 0.0, 0.0
    held.weight[slot], held.drive[slot], held.said[slot] = 0.0, 0.0, 0


@inline
def store_observation(held, row, label):
    """The slot for the row that was looked at, with its line of Ga."""
    points, Ga, share = held.points, held.Ga[0], 1.0 / held.labels
    slot = stored.new_slot(points, row)
    held.said[slot] = label
    for k in range(points.count[TOP]):
        if held.weight[k] > 0.0:
            same = 1.0 if held.said[k] == label else 0.0
            Ga[slot, k] = (same - share) * points.near[k]
            Ga[k, slot] = Ga[slot, k]
    Ga[slot, slot] = (1.0 - share) * points.own[slot]
    return slot


def observe_with_kernel(state, row, label, pull, growth, lam, radius):
    held = state.held
    points, weight, plan = held.points, held.weight, held.plan
    if not growth > LEAST or points.current[0] != stored.NONE:  # right for certain; or no values
        return
    slot, top = 0, points.count[TOP]
    while slot < top and not (held.said[slot] == label and is_same(points, slot, row)):
        slot += 1
    is_new = slot == top
    if is_new:
        slot = store_observation(held, row, label)
    weight[slot] += growth
    held.drive[slot] += pull
    size = points.count[TOP]
    blocks = (size + WIDTH - 1) // WIDTH
    space = Space(held.basis, held.small, held.eight, 1, blocks)
    if plan[0] != NONE and not is_new:
        unborder(held, size, slot)
    if plan[0] != NONE:
        border(held, space, size, slot, (lam + plan[0]) / weight[slot])
    touch(points, slot)
    if is_full(points):
        smallest = points.remove == SMALLEST
        gone = stored.lightest(points, slot) if smallest else stored.oldest_or_any(points, slot)
        drop(held, size, gone)
        clear(points, gone)
    for s in range(length(space)):
        held.root[s] = math.sqrt(weight[s])
        held.pull[s] = held.drive[s] / held.root[s] if weight[s] > 0.0 else 0.0
    if find_leader(held, space, size, lam, radius):
        for s in range(size):
            e = held.root[s] * held.leader[s]
            for i in range(held.labels):
                points.coef[s, i] = e / held.labels
            points.coef[s, held.said[s]] -= e


known.bodies[Observed] = stored.known
longest.bodies[Observed] = by_kernel
sum_of_row.bodies[Observed] = dot_with_observed
observe.bodies[Observed] = observe_with_kernel


class Coupled(Storage):
    """The blocks of Newtron's matrix."""

    dtype = "float64"
    advice = (
        "Use PNewtron, which takes two numbers per feature and label, or hash the features into "
        "fewer columns with features="
    )

    def __init__(self, D: float, reg: float) -> None:
        self.D, self.reg = D, reg
        self.longest = math.sqrt(MOST_VARIANCE * max(reg, 1.0))

    def check(self, values: np.ndarray, indptr: np.ndarray | None = None) -> None:
        """Refuse contexts after which nothing of the matrix would be left but rounding."""
        check_lengths(values, indptr, self.longest, "or use PNewtron")

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
            own = 1.0 / (self.reg + plan[0])
            diagonals(M)[:] = own
            diagonals(Q)[:] = 1.0 / sum([own] * labels)
            if arrays:
                old = slice(arrays["Q"].shape[1])
                M[:, old, old], Q[:, old, old] = arrays["M"], arrays["Q"]
        pull, leader, aside = (aligned_zeros((labels * room,), np.float64) for _ in range(3))
        column, other = (aligned_zeros((room,), np.float64) for _ in range(2))
        basis = aligned_zeros((solver.LIMIT + 1, labels * room), np.float64)
        small, eight = np.zeros((5, solver.LIMIT)), State8(np.zeros((1, 1, WIDTH)), np.zeros(WIDTH))
        return Blocks(S, M, Q, plan, pull, leader, aside, column, other, basis, small, eight)

    def room(self, held: Blocks) -> int:
        return held.Q.shape[1]

    def arrays(self, held: Blocks, features: int, labels: int) -> dict[str, np.ndarray]:
        here = slice(features)
        kept = {"S": held.S[:, here, here], "plan": held.plan}
        if held.plan[0] != NONE:
            kept |= {"M": held.M[:, here, here], "Q": held.Q[:, here, here]}
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

    def is_sound(self, table: np.ndarray, arrays: dict[str, np.ndarray]) -> bool:
        """S is a sum of squares, none of them beyond what contexts can add up to."""
        traces = np.trace(arrays["S"], axis1=1, axis2=2)
        good = zip(arrays["S"], traces, strict=True)
        return bool((traces <= MOST_EVIDENCE).all()) and all(is_between(S, t) for S, t in good)

    def mended(
        self, table: np.ndarray, arrays: dict[str, np.ndarray]
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """W is the leader in the ball, and the inverses are those of S; or they are made anew."""
        S, (shift, _) = arrays["S"], arrays["plan"]
        W, r = (table[:, plane].T.astype(np.float64) for plane in (0, 1))
        b = r - r.mean(axis=0)
        bent = self.reg * np.vdot(W, W) + np.einsum("ki,kij,kj->", W, S, W)
        length = np.linalg.norm(W)
        # W'AW is at most -b.W, but W may be that of a round before if numbers overflowed.
        is_leader = length <= self.D * (1 + 1e-5) and bent <= 1000 * length * np.linalg.norm(b)
        own = np.full(len(table), self.reg + shift)
        are_inverses = shift == NONE or (
            all(is_inverse(m, own, np.diagonal(s)) for m, s in zip(arrays["M"], S, strict=True))
            and is_between(arrays["Q"][0], self._most_of_inverse(S, shift))
        )
        if not are_inverses:
            arrays = {"S": S, "plan": np.array([NONE, 0.0])}
        if not is_leader:
            table = table.copy()
            table[:, 0] = _leader(S, r, self.D, self.reg).T
        return table, arrays

    def _most_of_inverse(self, S: np.ndarray, shift: float) -> float:
        traces = np.trace(S, axis1=1, axis2=2)
        return (self.reg + shift + traces.max(initial=0)) / len(S)

    def size(self, features: int, labels: int) -> int:
        room = _padded(features)
        return 8 * room * ((2 * labels + 1) * room + (solver.LIMIT + 4) * labels + 2)

    def faded(
        self, table: np.ndarray, arrays: dict[str, np.ndarray], keep: float
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """S and r are sums: a share of both is kept, and the leader follows."""
        S, r = keep * arrays["S"], keep * table[:, 1].T
        table[:, 0], table[:, 1] = _leader(S, r, self.D, self.reg).T, r.T
        return table, {"S": S, "plan": np.array([NONE, 0.0])}


def _leader(S: np.ndarray, r: np.ndarray, D: float, reg: float) -> np.ndarray:
    """W given S and r, by inverses at every mu on the way."""
    mu, unit = 0.0, np.eye(S.shape[1])
    W, norm = np.zeros_like(r), 0.0
    for _ in range(NEWTON_STEPS):
        M = np.linalg.inv(S + (reg + mu) * unit)

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
    return W * min(D / norm, 1.0)  # numbers too large to come nearer


class CoupledDual(Dual):
    """What was observed in Newtron's rounds, with a kernel."""

    def __init__(
        self, kernel: KernelLike, budget: int, remove: str, seed: int, D: float, reg: float
    ) -> None:
        super().__init__(kernel, budget, remove, seed, None)
        self.D, self.reg = D, reg

    def lay_out(self, arrays: dict[str, np.ndarray], features: int, labels: int) -> Observed:
        points = super().lay_out(_of_points(arrays), features, labels)
        slots, room = self.budget + 1, _padded(self.budget + 1)
        said = np.zeros(slots, np.int64)
        weight, drive, root, pull, leader, column, other = (
            aligned_zeros((room,), np.float64) for _ in range(7)
        )
        Ga, G = (aligned_zeros((1, room, room), np.float64) for _ in range(2))
        plan = np.array([NONE, 0.0])
        if arrays:
            here = slice(len(arrays["said"]))
            said[here], weight[here] = arrays["said"], arrays["weight"]
            drive[here], Ga[0, here, here] = arrays["drive"], arrays["Ga"]
            plan[:] = arrays["plan"]
            if arrays["coef"].shape[1] < labels:
                Ga[0, here, here] = self._products(arrays, labels)
                plan[:] = NONE, 0.0
            elif plan[0] != NONE:
                G[0, here, here] = arrays["G"]
        basis = aligned_zeros((solver.LIMIT + 1, room), np.float64)
        small, eight = np.zeros((5, solver.LIMIT)), State8(np.zeros((1, 1, WIDTH)), np.zeros(WIDTH))
        vectors, work = (weight, drive, root, pull), (leader, column, other, basis, small, eight)
        return Observed(points, said, *vectors, Ga, G, plan, *work, labels)

    def _products(self, arrays: dict[str, np.ndarray], labels: int) -> np.ndarray:
        """Ga for so many labels."""
        live = np.flatnonzero(arrays["weight"])
        said, x = arrays["said"][live], arrays["x"].T[live]
        Ga = np.zeros_like(arrays["Ga"])
        if len(live):
            shared = (said[:, None] == said) - 1.0 / labels
            Ga[np.ix_(live, live)] = shared * self.matrix(x, x)
        return (Ga + Ga.T) / 2

    def arrays(self, held: Observed, features: int, labels: int) -> dict[str, np.ndarray]:
        kept = super().arrays(held, features, labels)
        here = slice(len(kept["age"]))
        own = {"said": held.said[here], "weight": held.weight[here], "drive": held.drive[here]}
        own |= {"Ga": held.Ga[0, here, here], "plan": held.plan}
        if held.plan[0] != NONE:
            own["G"] = held.G[0, here, here]
        return kept | {name: array.copy() for name, array in own.items()}

    def fits(self, arrays: dict[str, np.ndarray], features: int, labels: int) -> bool:
        if not super().fits(_of_points(arrays), features, labels):
            return False
        own = {name: array for name, array in arrays.items() if name not in Points._fields}
        top, free, _ = arrays["count"].tolist()
        shapes = {"said": (top,), "weight": (top,), "drive": (top,), "Ga": (top, top), "plan": (2,)}
        if "G" in own:
            shapes["G"] = (top, top)
        good = shapes.keys() == own.keys() and all(
            own[name].shape == shape
            and own[name].dtype == (np.int64 if name == "said" else np.float64)
            for name, shape in shapes.items()
        )
        if not good or not (own["plan"][0] >= 0 if "G" in own else own["plan"][0] == NONE):
            return False
        used = np.arange(top) != free
        known = (own["said"] >= 0) & (own["said"] < labels)
        return bool(known.all() and ((own["weight"] > 0) == used).all())

    def is_sound(self, table: np.ndarray, arrays: dict[str, np.ndarray]) -> bool:
        """Ga is what the kernel makes of what was observed, and G the inverse with it."""
        if not super().is_sound(table, _of_points(arrays)):
            return False
        used = np.flatnonzero(arrays["weight"])
        unused = np.delete(np.arange(len(arrays["weight"])), used)
        own = (1 - 1 / arrays["coef"].shape[1]) * arrays["own"][used]
        weight, Ga, G = arrays["weight"][used], arrays["Ga"], arrays.get("G", arrays["Ga"])
        if arrays["drive"][unused].any() or any(
            m[unused].any() or m[:, unused].any() for m in (Ga, G)
        ):
            return False
        Ga, G = Ga[np.ix_(used, used)], G[np.ix_(used, used)]
        alike = np.allclose(np.diagonal(Ga), own, rtol=ROUNDING, atol=0)
        if not alike or (weight < LEAST).any():
            return False
        if self.kernel.kind == GIVEN:  # a function may be anything
            return True
        return is_between(Ga, float(own.sum()))

    def mended(
        self, table: np.ndarray, arrays: dict[str, np.ndarray]
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """The leader lies in the ball, and G is the inverse of what was observed."""
        used = np.flatnonzero(arrays["weight"])
        weight, own = arrays["weight"][used], np.diagonal(arrays["Ga"])[used]
        Ga, coef = arrays["Ga"][np.ix_(used, used)], arrays["coef"][used]
        e = 2 * np.abs(coef).max(axis=1, initial=0)
        e *= np.sign(coef[np.arange(len(used)), arrays["said"][used]])
        if "G" in arrays and self.kernel.kind != GIVEN:
            noise = (self.reg + arrays["plan"][0]) / weight
            if not is_inverse(arrays["G"][np.ix_(used, used)], noise, own):
                arrays = {name: array for name, array in arrays.items() if name != "G"}
                arrays["plan"] = np.array([NONE, 0.0])
        if float(e @ Ga @ e) > 4 * (2 * self.D) ** 2:  # a new label changes P, but not yet W
            table, arrays = self._led(table, arrays, arrays["weight"], arrays["drive"])
        return table, arrays

    def size(self, features: int, labels: int) -> int:
        room = _padded(self.budget + 1)
        return super().size(features, labels) + 8 * room * (2 * room + solver.LIMIT + 9)

    def faded(
        self, table: np.ndarray, arrays: dict[str, np.ndarray], keep: float
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Weights and pulls are sums: a share of both is kept, and the leader follows."""
        used = arrays["weight"] > 0
        weight = np.where(used, np.maximum(keep * arrays["weight"], LEAST), 0.0)
        return self._led(table, arrays, weight, keep * arrays["drive"])

    def _led(
        self,
        table: np.ndarray,
        arrays: dict[str, np.ndarray],
        weight: np.ndarray,
        drive: np.ndarray,
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """The arrays with the leader for these weights and drives."""
        said, labels = arrays["said"], arrays["coef"].shape[1]
        e = _coefficients(arrays["Ga"], weight, drive, self.D, self.reg)[:, None]
        coef = e / labels - e * (said[:, None] == range(labels))
        changed = {"weight": weight, "drive": drive, "coef": coef, "plan": np.array([NONE, 0.0])}
        return table, {k: v for k, v in (arrays | changed).items() if k != "G"}


def _of_points(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: array for name, array in arrays.items() if name in Points._fields}


def _coefficients(
    Ga: np.ndarray, weight: np.ndarray, drive: np.ndarray, D: float, reg: float
) -> np.ndarray:
    """The leader given what was observed."""
    mu, unit = 0.0, np.eye(len(Ga))
    e, norm = np.zeros_like(drive), 0.0
    for _ in range(NEWTON_STEPS):
        A = (reg + mu) * unit + weight[:, None] * Ga
        e = np.linalg.solve(A, drive)
        norm = math.sqrt(max(e @ Ga @ e, 0.0))
        step = (norm / D - 1.0) * norm**2 / max(e @ Ga @ np.linalg.solve(A, e), 1e-300)
        if norm <= D * (1 + 1e-13) or mu + step == mu:
            return e
        mu += step
    return e * min(D / norm, 1.0)


def _padded(features: int) -> int:
    return -(-features // WIDTH) * WIDTH


class Newtron(_CorrectsFlips):
    """Bandit logistic regression in a ball, by exact Newton steps (Hazan, Kale 2011).

    For up to a thousand features or so: it keeps d x d numbers per label, and reads them several
    times a round. `PNewtron` keeps the diagonal alone.
    """

    planes = 2
    costly = True
    gamma: float = GAMMA
    alpha: float = ALPHA
    beta: float = setting(  # beyond its bounds, rounding would decide
        0.01, least=1e-15, most=1e6, search=Range(0.001, 1), doc="curvature"
    )
    D: float = setting(
        1.0,
        least=1e-6,
        most=1e9,
        search=Range(0.1, 100),
        doc="radius of the ball; with contexts of unit length try 10 (the published 1 belongs to "
        "raw 0/1 features)",
    )
    reg: float = setting(
        lambda learner: 1.0 / learner.D, above=0, doc="what the matrix starts from; 1/D if None"
    )
    rho0: float = RHO0
    rho1: float = RHO1
    kernel: KernelLike | None = KERNEL
    budget: int = BUDGET
    remove: Remove = REMOVE

    score = linear_score
    say = draw
    lockstep = None

    @staticmethod
    def law(params, state, work, turn):
        softmax(params, state, work)
        mix_in_uniform(params, work, turn)

    @staticmethod
    def could_say(params, state, work, row, turn, choice):
        """All weights lie in a ball, and so a score is at most D |x|."""
        most = BEYOND * params.D * math.sqrt(longest(state, row))
        return is_softmax(params, turn, choice) and abs(choice.second_note) <= most

    @staticmethod
    def hear(params, state, work, row, turn, choice, right):
        pull, growth = pull_and_growth(params, choice, right)
        observe(state, row, choice.label, pull, growth, params.reg, params.D)
        return True

    def _make_storage(self) -> Storage:
        if self.kernel is None:
            return Coupled(self.D, self.reg)
        return CoupledDual(self.kernel, self.budget, self.remove, self.seed, self.D, self.reg)

    def _had_it_said(self, decision: Decision, place: int) -> Decision:
        said = super()._had_it_said(decision, place)
        scores = self._present_scores(said)
        p = probability(scores, place, self.alpha)
        return msgspec.structs.replace(said, note=p, other=float(scores[place]))
