"""Newtron's solver: the least of w'Aw/2 + b.w in a ball, A positive definite.

This is a trust-region problem. Its solution is w(mu) = -(A + mu I)^-1 b. If w(0) lies in the ball,
mu is 0; otherwise mu is the number for which w(mu) lies on the surface.

Lanczos vectors V of an operator B turn it into a problem with a tridiagonal matrix T for all mu at
once (Gould, Lucidi, Roma, Toint, "Solving the trust-region subproblem using the Lanczos method",
SIAM J. Optim. 9, 1999): w(mu) is near V y (with an inverse, near B V y), where (s I + t T) y =
|b| e_1, and s and t depend on mu. Newton's method on 1/|w| - 1/radius finds mu; with every new
vector it continues from the last mu. |w| need not be the Euclidean length: see `Geometry`.

B is A itself, or (A + shift I)^-1. The direct way needs no preparation; with the published settings
of Newtron it takes six vectors. The inverse needs few vectors for any A, if the shift is near
mu; with shift 0 it needs one while w lies inside the ball. `find_leader` decides between the two.

A is defined by the record `held` of the storage: it implements the generic functions below, and has
the fields `plan`, `pull` (-b), `leader` (w), `column`, `basis`, `small` and `eight`.
Vectors have groups x blocks x WIDTH numbers. Zeros at the end of a group change no bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from onebit.core.jit import OUTLINE, compiled_as, generic, inline, not_inlined, outline
from onebit.core.lanes import State8, aligned_zeros, fetch, store, zero
from onebit.storage.full import add_times

WIDTH = 8  # numbers in a block
LIMIT = 20  # Lanczos vectors; if more are needed, the inverse pays off
TOLERANCE = 1e-11  # relative error of the solution
ROUNDING = 1e-15  # times |b|: no residual gets smaller
NEWTON_STEPS = 100  # at most; about six are needed
NONE = -1.0  # in place of a shift: there are no inverses
STAY = 1000.0  # rounds with the inverses before the direct way is tried again
FEW = 5  # Lanczos vectors: with more, the inverses save time while w is inside the ball
MANY = 12  # Lanczos vectors: with more, a shift nearer to mu saves time


class Space(NamedTuple):
    """Scratch space for Lanczos vectors, and their length."""

    basis: Any  # [LIMIT + 1, length]; the first is -b/|b|
    small: Any  # [5, LIMIT]: the tridiagonal problem
    eight: Any  # tells `fetch` how wide a block is, and has room for one
    groups: Any
    blocks: Any


class Geometry(NamedTuple):
    """How the solution follows from the operator."""

    own: Any  # A is what `operate` multiplies by, plus own I
    a: Any  # |w|^2 = u'(a I + b B + c B^2) u with u = V y
    b: Any
    c: Any


@inline
def space_for(held, groups, size):
    """The space of vectors that have `size` numbers in each group, and zeros up to whole blocks."""
    return Space(held.basis, held.small, held.eight, groups, (size + WIDTH - 1) // WIDTH)


@generic
def operate(held, lam, inverse, space, v, out):
    """out = B v: B is A without `Geometry.own`, or the inverse of A + shift I."""


@generic
def geometry(held, lam, inverse):
    """The `Geometry` of A (lam: the multiple of I that it has), or of the inverse."""


@generic
def least(held, shifted):
    """The error of w is at most the residual divided by this; shifted: lam + mu."""


@generic
def make_inverses(held, size, lam, shift):
    """Make the inverses for a shift."""


@inline
def pencil(held, lam, inverse, mu):
    """s, t and their derivatives with respect to mu.

    (A + mu I)^-1 = B (I + (mu - shift) B)^-1 with B = (A + shift I)^-1.
    """
    if inverse:
        return 1.0, mu - held.plan[0], 0.0, 1.0
    return geometry(held, lam, inverse).own + mu, 1.0, 1.0, 0.0


def times(space: Any, matrices: Any, v: Any, in_parts: Any, out: Any) -> None:
    """out = symmetric matrices on v. in_parts: v has a part for each matrix, else one for all.

    Only blocks at and left of the diagonal are read, each for both halves of its matrix: most of
    the time goes into getting them from memory.
    """
    count, size = len(matrices), space.blocks * WIDTH
    v = v[: (count if in_parts else 1) * size].reshape(-1, size)
    sums = np.zeros((count, size))
    for i in range(0, size, 4):
        start = i - i % WIDTH  # of the block at the diagonal
        lines = matrices[:, i : i + 4, : start + WIDTH]
        terms = lines * v[:, i : i + 4, None]
        sums[:, : start + WIDTH] += (terms[:, 0] + terms[:, 1]) + (terms[:, 2] + terms[:, 3])
        parts = np.zeros((count, 4, WIDTH))
        for k in range(0, start, WIDTH):
            parts += lines[:, :, k : k + WIDTH] * v[:, None, k : k + WIDTH]
        sums[:, i : i + 4] += total(space.eight, parts)
    out[: count * size] = sums.reshape(-1)


@compiled_as(times, OUTLINE)
def times_by_loop(space, matrices, v, in_parts, out):
    not_inlined()
    eight, blocks = space.eight, space.blocks
    for n in range(matrices.shape[0]):
        matrix, to = matrices[n], n * blocks
        first = to if in_parts else 0
        for row in range(blocks):
            store(eight, out, to + row, zero(eight))
        for row in range(blocks):
            for i in range(row * WIDTH, (row + 1) * WIDTH, 4):
                k = first * WIDTH + i
                x, y, z, u = v[k], v[k + 1], v[k + 2], v[k + 3]
                line0, line1, line2, line3 = matrix[i], matrix[i + 1], matrix[i + 2], matrix[i + 3]
                a, b, c, d = zero(eight), zero(eight), zero(eight), zero(eight)
                for block in range(row):
                    part = fetch(eight, v, first + block)
                    e, f = fetch(eight, line0, block), fetch(eight, line1, block)
                    g, h = fetch(eight, line2, block), fetch(eight, line3, block)
                    a = a + e * part
                    b = b + f * part
                    c = c + g * part
                    d = d + h * part
                    gained = (e * x + f * y) + (g * z + h * u)
                    store(eight, out, to + block, fetch(eight, out, to + block) + gained)
                e, f = fetch(eight, line0, row), fetch(eight, line1, row)
                g, h = fetch(eight, line2, row), fetch(eight, line3, row)
                gained = (e * x + f * y) + (g * z + h * u)
                store(eight, out, to + row, fetch(eight, out, to + row) + gained)
                k = to * WIDTH + i
                out[k] += total(eight, a)
                out[k + 1] += total(eight, b)
                out[k + 2] += total(eight, c)
                out[k + 3] += total(eight, d)


def total(eight: Any, vector: Any) -> Any:
    """The sum over blocks, each in the last dimension."""
    pairs = vector[..., 0::2] + vector[..., 1::2]
    return (pairs[..., 0] + pairs[..., 1]) + (pairs[..., 2] + pairs[..., 3])


@compiled_as(total)
def total_by_numbers(eight, vector):
    part = eight.memory
    store(eight, part, 0, vector)
    return ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]))


def dot(space: Any, v: Any, w: Any) -> Any:
    """v.w, in parts of sixteen."""
    end = length(space)
    terms = (v[:end] * w[:end]).reshape(space.groups, space.blocks, WIDTH)
    even, odd = (terms[:, first::2].reshape(-1, WIDTH) for first in (0, 1))
    return total(space.eight, np.add.reduce(even, axis=0) + np.add.reduce(odd, axis=0))


@compiled_as(dot, OUTLINE)
def dot_by_loop(space, v, w):
    not_inlined()
    eight, blocks = space.eight, space.blocks
    a, b = zero(eight), zero(eight)
    for group in range(space.groups):
        block, end = group * blocks, (group + 1) * blocks
        while block + 2 <= end:
            a = a + fetch(eight, v, block) * fetch(eight, w, block)
            b = b + fetch(eight, v, block + 1) * fetch(eight, w, block + 1)
            block += 2
        if block < end:
            a = a + fetch(eight, v, block) * fetch(eight, w, block)
    return total(eight, a + b)


@inline
def length(space):
    return space.groups * space.blocks * WIDTH


@outline
def add(space, out, step, v):
    not_inlined()
    add_times(out, 0, length(space), step, v)


def scale(space: Any, i: Any, factor: Any) -> None:
    """Scale a vector of the basis."""
    space.basis[i, : length(space)] *= factor


@compiled_as(scale, OUTLINE)
def scale_by_loop(space, i, factor):
    not_inlined()
    v = space.basis[i]
    for k in range(length(space)):
        v[k] *= factor


@outline
def solve_tridiagonal(small, steps, s, t, first, y):
    """Solve (s I + t T) y = first e_1 by LDL'; if first is 0, y holds the right-hand side."""
    not_inlined()
    diagonal, beside, pivots = small[0], small[1], small[2]
    for i in range(steps):
        pivots[i] = s + t * diagonal[i]
        if first != 0.0:
            y[i] = 0.0 if i else first
        if i:
            factor = t * beside[i - 1] / pivots[i - 1]
            pivots[i] -= factor * (t * beside[i - 1])
            y[i] -= factor * y[i - 1]
    for i in range(steps - 1, -1, -1):
        after = t * beside[i] * y[i + 1] if i + 1 < steps else 0.0
        y[i] = (y[i] - after) / pivots[i]


@inline
def line_of_tridiagonal(small, steps, v, i):
    """(T v)_i."""
    diagonal, beside = small[0], small[1]
    value = diagonal[i] * v[i]
    if i:
        value += beside[i - 1] * v[i - 1]
    if i + 1 < steps:
        value += beside[i] * v[i + 1]
    return value


@outline
def product_of_lengths(small, steps, v, w, form):
    """v' V' (a I + b B + c B^2) V w. B takes the last Lanczos vector out of their span."""
    not_inlined()
    out = small[1, steps - 1]
    value = form.c * (out * v[steps - 1]) * (out * w[steps - 1])
    for i in range(steps):
        linear, square = form.a * w[i], 0.0
        if form.b != 0.0 or form.c != 0.0:
            image = line_of_tridiagonal(small, steps, w, i)
            linear += form.b * image
            square = form.c * image * line_of_tridiagonal(small, steps, v, i)
        value += linear * v[i] + square
    return value


@inline
def at_surface(held, lam, inverse, small, steps, start, radius, mu):
    """mu and |w| of the tridiagonal problem, from a mu that is near enough."""
    y, z = small[3], small[4]
    norm = 0.0
    form = geometry(held, lam, inverse)
    for turn in range(NEWTON_STEPS):
        s, t, ds, dt = pencil(held, lam, inverse, mu)
        solve_tridiagonal(small, steps, s, t, start, y)
        squares = max(product_of_lengths(small, steps, y, y, form), 0.0)
        norm = math.sqrt(squares)
        if not norm > radius * (1.0 + 1e-14) and (turn > 0 or mu == 0.0):
            break
        for i in range(steps):
            z[i] = ds * y[i] + dt * line_of_tridiagonal(small, steps, y, i)
        solve_tridiagonal(small, steps, s, t, 0.0, z)
        slope = product_of_lengths(small, steps, y, z, form)
        moved = max(mu + squares / slope * ((norm - radius) / radius), 0.0)
        if turn > 0 and not moved > mu:  # rounding allows no further step
            break
        mu = moved  # the first step may lower mu; from then on mu only grows
    return mu, norm


@outline
def least_in_ball(held, lam, inverse, space, radius):
    """Fill `held.leader` with the solution. Returns the number of Lanczos vectors, and mu.

    The number is -1 if LIMIT was not enough (then mu is a guess), or if a number is not finite.
    """
    not_inlined()
    basis, small, out = space.basis, space.small, held.leader
    diagonal, beside, y = small[0], small[1], small[3]
    basis[0, : length(space)] = 0.0
    add(space, basis[0], 1.0, held.pull)
    start = math.sqrt(dot(space, basis[0], basis[0]))
    out[: length(space)] = 0.0
    if start == 0.0:
        return 0, 0.0
    if not start < math.inf:
        return -1, math.nan
    scale(space, 0, 1.0 / start)
    mu = 0.0
    for last in range(LIMIT):
        w = basis[last + 1]
        operate(held, lam, inverse, space, basis[last], w)
        diagonal[last] = dot(space, w, basis[last])
        for _ in range(2):  # to orthogonalise twice is enough
            for i in range(last, -1, -1):
                add(space, w, -dot(space, w, basis[i]), basis[i])
        beside[last] = math.sqrt(dot(space, w, w))
        mu, norm = at_surface(held, lam, inverse, small, last + 1, start, radius, mu)
        _, t, _, _ = pencil(held, lam, inverse, mu)
        if not norm < math.inf:
            return -1, math.nan
        residual = abs(t * beside[last] * y[last])
        if residual <= max(TOLERANCE * least(held, lam + mu) * norm, ROUNDING * start):
            for i in range(last + 1):
                amount = line_of_tridiagonal(small, last + 1, y, i) if inverse else y[i]
                add(space, out, amount, basis[i])
            if inverse:
                add(space, out, y[last], w)
            return last + 1, mu
        scale(space, last + 1, 1.0 / beside[last])
    return -1, mu


@outline
def renew_inverses(held, size, lam, shift):
    not_inlined()
    make_inverses(held, size, lam, shift)


@outline
def find_leader(held, space, size, lam, radius):
    """Fill `held.leader` from `held.pull`; False if numbers have overflowed."""
    not_inlined()
    plan, tries = held.plan, 10
    inverse = plan[0] != NONE and plan[1] > 0.0
    while tries > 0:
        steps, mu = least_in_ball(held, lam, inverse, space, radius)
        if not inverse:
            if steps >= 0 and (mu > 0.0 or steps <= FEW):
                plan[0] = NONE
                return True
            if not mu < math.inf:
                return False
            if plan[0] == NONE:
                renew_inverses(held, size, lam, mu)
            plan[1] = STAY
        else:
            tries -= 1
            if mu > 0.0:
                plan[1] -= 1.0
            if not mu < math.inf:
                break
            if steps < 0 or steps > MANY:
                renew_inverses(held, size, lam, mu)
        if steps >= 0:
            return True
        inverse = True
    plan[0] = NONE
    return False


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


# For the storages.


def padded(size: int) -> int:
    """The size rounded up to whole blocks."""
    return -(-size // WIDTH) * WIDTH


def scratch(size: int) -> dict[str, Any]:
    """Scratch arrays of a `Space` for vectors of this size."""
    return {
        "basis": aligned_zeros((LIMIT + 1, size), np.float64),
        "small": np.zeros((5, LIMIT)),
        "eight": State8(np.zeros((1, 1, WIDTH)), np.zeros(WIDTH)),
    }


def no_inverses() -> np.ndarray:
    """The plan to start from without inverses."""
    return np.array([NONE, 0.0])


def solve_in_ball(solve: Callable[[float], tuple[np.ndarray, Any, Any]], radius: float) -> Any:
    """The solution by dense algebra; solve(mu) gives w(mu), |w| and w'(A + mu I)^-1 w."""
    mu, w, norm = 0.0, np.empty(0), 0.0
    for _ in range(NEWTON_STEPS):
        w, norm, slope = solve(mu)
        step = (norm / radius - 1.0) * norm**2 / max(slope, 1e-300)
        if norm <= radius * (1 + 1e-13) or mu + step == mu:
            return w
        mu += step
    return w * min(radius / norm, 1.0)  # larger numbers allow no better solution
