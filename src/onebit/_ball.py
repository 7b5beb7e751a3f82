"""The least of w'Aw/2 + b.w on a ball, A positive definite: a trust-region problem.

Its solution is w(mu) = -(A + mu I)^-1 b with the one mu >= 0 for which w is in the ball, and on its
surface unless mu = 0. Lanczos vectors of A, or of an inverse of it, turn the problem into one with
a tridiagonal matrix T for all mu at once (Gould, Lucidi, Roma, Toint, "Solving the trust-region
subproblem using the Lanczos method", SIAM J. Optim. 9, 1999): w(mu) is near V y with
(s I + t T) y = |start| e_1, where s and t depend on mu. Newton's method on 1/|y| - 1/radius comes
to mu from below; with every vector |y| and so mu can only grow, so it goes on from the last one.

What A is, and what the inner product, is up to the operator, a record: see the generic functions.
Vectors are as long as groups x blocks x WIDTH; trailing zeros in every group change no bit.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from onebit._full import add_times
from onebit._jit import OUTLINE, compiled_as, generic, inline, not_inlined, outline
from onebit._lanes import fetch, store, zero

WIDTH = 8  # numbers in a block
LIMIT = 20  # Lanczos vectors: by then another operator is worth its making
TOLERANCE = 1e-11  # of the solution's relative error
NEWTON_STEPS = 100  # it takes six or so


class Space(NamedTuple):
    """Room for Lanczos vectors, and how long they are."""

    basis: Any  # [LIMIT + 1, length]; the first is what one starts from
    duals: Any  # the same as the inner product sees them: `basis` itself where it is the usual one
    usual: Any  # whether it is
    small: Any  # [5, LIMIT]: the tridiagonal problem
    eight: Any  # tells `fetch` how wide a block is, and has room for one
    groups: Any
    blocks: Any


@generic
def operate(operator, space, v, out):
    """out = the operator on v."""


@generic
def image(operator, space, v, dual):
    """dual = v as the inner product sees it; nothing to do where the product is the usual one."""


@generic
def pencil(operator, mu):
    """s, t and their derivatives with respect to mu."""


@generic
def least(operator, mu):
    """No eigenvalue of s I + t T is below this."""


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
    if not space.usual:
        space.duals[i, : length(space)] *= factor


@compiled_as(scale, OUTLINE)
def scale_by_loop(space, i, factor):
    not_inlined()
    v, dual = space.basis[i], space.duals[i]
    for k in range(length(space)):
        v[k] *= factor
    if not space.usual:
        for k in range(length(space)):
            dual[k] *= factor


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
def at_surface(operator, small, steps, start, radius, mu):
    """mu and |y| of the tridiagonal problem, from a mu that is not too large."""
    diagonal, beside, y, z = small[0], small[1], small[3], small[4]
    norm = 0.0
    for _ in range(NEWTON_STEPS):
        s, t, ds, dt = pencil(operator, mu)
        solve_tridiagonal(small, steps, s, t, start, y)
        squares = 0.0
        for i in range(steps):
            squares += y[i] * y[i]
            z[i] = y[i]
        norm = math.sqrt(squares)
        if not norm > radius * (1.0 + 1e-14):
            break
        solve_tridiagonal(small, steps, s, t, 0.0, z)
        slope = 0.0  # y' (ds I + dt T) z
        for i in range(steps):
            row = (ds + dt * diagonal[i]) * y[i]
            if i:
                row += dt * beside[i - 1] * y[i - 1]
            if i + 1 < steps:
                row += dt * beside[i] * y[i + 1]
            slope += row * z[i]
        moved = mu + squares / slope * ((norm - radius) / radius)
        if not moved > mu:  # as near as numbers come
            break
        mu = moved
    return mu, norm


@outline
def least_in_ball(operator, space, out, radius):
    """Fill `out` with w; -b, or its image under the inverse, is to stand in basis[0].

    How many vectors it took comes back, and mu. -1: LIMIT was not enough, and mu, the best guess,
    is too small; or there is something that is not a number.
    """
    not_inlined()
    basis, duals, small = space.basis, space.duals, space.small
    diagonal, beside, y = small[0], small[1], small[3]
    image(operator, space, basis[0], duals[0])
    start = math.sqrt(dot(space, basis[0], duals[0]))
    out[: length(space)] = 0.0
    if start == 0.0:
        return 0, 0.0
    if not start < math.inf:
        return -1, math.nan
    s, t, _, _ = pencil(operator, 0.0)
    if t == 0.0 and start <= radius * s:
        add(space, out, 1.0 / s, basis[0])
        return 0, 0.0
    scale(space, 0, 1.0 / start)
    mu = 0.0
    for last in range(LIMIT):
        w = basis[last + 1]
        operate(operator, space, basis[last], w)
        diagonal[last] = dot(space, w, duals[last])
        for _ in range(2):  # twice is enough
            for i in range(last, -1, -1):
                add(space, w, -dot(space, w, duals[i]), basis[i])
        image(operator, space, w, duals[last + 1])
        beside[last] = math.sqrt(max(dot(space, w, duals[last + 1]), 0.0))
        mu, norm = at_surface(operator, small, last + 1, start, radius, mu)
        _, t, _, _ = pencil(operator, mu)
        if not norm < math.inf:
            return -1, math.nan
        if abs(t * beside[last] * y[last]) <= TOLERANCE * least(operator, mu) * norm:
            for i in range(last + 1):
                add(space, out, y[i], basis[i])
            return last + 1, mu
        scale(space, last + 1, 1.0 / beside[last])
    return -1, mu
