"""The least of w'Aw/2 + b.w on a ball, A positive definite: a trust-region problem.

Its solution is w(mu) = -(A + mu I)^-1 b with the one mu >= 0 for which w is in the ball, and on its
surface unless mu = 0. Lanczos vectors of an operator B, which is A or an inverse of it, turn the
problem into one with a tridiagonal matrix T for all mu at once (Gould, Lucidi, Roma, Toint,
"Solving the trust-region subproblem using the Lanczos method", SIAM J. Optim. 9, 1999): w(mu) is
near V y, or B V y, with (s I + t T) y = |b| e_1, where s and t depend on mu. Its length need not be
the usual one, if only it can be told from B. Newton's method on 1/|w| - 1/radius comes to mu from
below; with every vector it goes on from the last one.

What B is, and what the length, is up to the operator, a record: see the generic functions. Vectors
are as long as groups x blocks x WIDTH; trailing zeros in every group change no bit.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from onebit.core.jit import OUTLINE, compiled_as, generic, inline, not_inlined, outline
from onebit.core.lanes import fetch, store, zero
from onebit.storage.full import add_times

WIDTH = 8  # numbers in a block
LIMIT = 20  # Lanczos vectors: by then another operator is worth its making
TOLERANCE = 1e-11  # of the solution's relative error
ROUNDING = 1e-15  # of what one starts from: no residual gets smaller
NEWTON_STEPS = 100  # it takes six or so


class Space(NamedTuple):
    """Room for Lanczos vectors, and how long they are."""

    basis: Any  # [LIMIT + 1, length]; the first is what one starts from
    small: Any  # [5, LIMIT]: the tridiagonal problem
    eight: Any  # tells `fetch` how wide a block is, and has room for one
    groups: Any
    blocks: Any


@generic
def operate(operator, space, v, out):
    """out = B v."""


@generic
def pencil(operator, mu):
    """s, t and their derivatives with respect to mu."""


@generic
def gauge(operator):
    """Whether w is B V y rather than V y; and a, b, c: |w|^2 = u'(a I + b B + c B^2) u, u = V y."""


@generic
def least(operator, mu):
    """A residual of the problem with B makes an error of w, as its length is told, that is no
    longer than the residual over this."""


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
    """(s I + t T) y = what y holds (if first is 0) or first times e_1, by LDL'."""
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
def product_of_lengths(small, steps, v, w, a, b, c):
    """v' V' (a I + b B + c B^2) V w. B takes the last Lanczos vector out of what they span."""
    not_inlined()
    out = small[1, steps - 1]
    value = c * (out * v[steps - 1]) * (out * w[steps - 1])
    for i in range(steps):
        own, other = a * w[i], 0.0
        if b != 0.0 or c != 0.0:
            image = line_of_tridiagonal(small, steps, w, i)
            own += b * image
            other = c * image * line_of_tridiagonal(small, steps, v, i)
        value += own * v[i] + other
    return value


@inline
def at_surface(operator, small, steps, start, radius, mu):
    """mu and |w| of the tridiagonal problem, from a mu that is near enough."""
    y, z = small[3], small[4]
    norm = 0.0
    _, a, b, c = gauge(operator)
    for turn in range(NEWTON_STEPS):
        s, t, ds, dt = pencil(operator, mu)
        solve_tridiagonal(small, steps, s, t, start, y)
        squares = max(product_of_lengths(small, steps, y, y, a, b, c), 0.0)
        norm = math.sqrt(squares)
        if not norm > radius * (1.0 + 1e-14) and (turn > 0 or mu == 0.0):
            break
        for i in range(steps):
            z[i] = ds * y[i] + dt * line_of_tridiagonal(small, steps, y, i)
        solve_tridiagonal(small, steps, s, t, 0.0, z)
        slope = product_of_lengths(small, steps, y, z, a, b, c)
        moved = max(mu + squares / slope * ((norm - radius) / radius), 0.0)
        if turn > 0 and not moved > mu:  # as near as numbers come
            break
        mu = moved  # the first step may go back, and then it is again from below
    return mu, norm


@outline
def least_in_ball(operator, space, out, radius):
    """Fill `out` with w; -b is to stand in basis[0].

    How many vectors it took comes back, and mu. -1: LIMIT was not enough, and mu is a guess; or
    there is something that is not a number.
    """
    not_inlined()
    basis, small = space.basis, space.small
    diagonal, beside, y = small[0], small[1], small[3]
    start = math.sqrt(dot(space, basis[0], basis[0]))
    out[: length(space)] = 0.0
    if start == 0.0:
        return 0, 0.0
    if not start < math.inf:
        return -1, math.nan
    scale(space, 0, 1.0 / start)
    applied, _, _, _ = gauge(operator)
    mu = 0.0
    for last in range(LIMIT):
        w = basis[last + 1]
        operate(operator, space, basis[last], w)
        diagonal[last] = dot(space, w, basis[last])
        for _ in range(2):  # twice is enough
            for i in range(last, -1, -1):
                add(space, w, -dot(space, w, basis[i]), basis[i])
        beside[last] = math.sqrt(dot(space, w, w))
        mu, norm = at_surface(operator, small, last + 1, start, radius, mu)
        _, t, _, _ = pencil(operator, mu)
        if not norm < math.inf:
            return -1, math.nan
        residual = abs(t * beside[last] * y[last])
        if residual <= max(TOLERANCE * least(operator, mu) * norm, ROUNDING * start):
            for i in range(last + 1):
                amount = line_of_tridiagonal(small, last + 1, y, i) if applied else y[i]
                add(space, out, amount, basis[i])
            if applied:
                add(space, out, y[last], w)
            return last + 1, mu
        scale(space, last + 1, 1.0 / beside[last])
    return -1, mu
