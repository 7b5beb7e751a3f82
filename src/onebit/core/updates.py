"""Updates of one label's weights, written for one lane.

The same code runs on a number for a single learner, and on vectors over replicas, whose updates
wait until the row is done. Coefficients of zero leave a lane unchanged.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from onebit.core.jit import generic, implement, inline
from onebit.core.lanes import at, at_least, fetch, load, save, store, unit, width, zero
from onebit.core.sums import blocks, number


class Waiting(NamedTuple):
    """Waiting updates of replicas: coefficients by lane of the whole state, else zero."""

    first: Any
    second: Any
    asked: Any  # [lane] 1 where an update waits
    blocks: Any  # [block of the whole state] 1 if an update waits in any lane


@inline
def ask(state, label, first, second):
    """Put a replica's update of a label into the waiting list."""
    waiting, lane = state.waiting, label * state.replicas + state.column
    waiting.first[lane] = number(state, first)
    waiting.second[lane] = number(state, second)
    waiting.asked[lane] = 1
    waiting.blocks[lane // width(state.whole)] = 1


@inline
def answered(whole, waiting, block):
    """Clear the waiting updates of a block."""
    waiting.blocks[block] = 0
    store(whole, waiting.first, block, zero(whole))
    store(whole, waiting.second, block, zero(whole))
    for lane in range(block * width(whole), (block + 1) * width(whole)):
        waiting.asked[lane] = 0


def update_of_plane(lane):
    """An update of plane 0 with one coefficient, made of a function for one lane."""
    moved = inline(lane)

    def now(state, row, label, first):
        table, first = state.table, number(state, first)
        for i in range(row.start, row.stop):
            j = at(row.indices, i)
            table[j, 0, label] = moved(table[j, 0, label], at(row.values, i), first)

    make_now = inline(now)

    def later(state, row, label, first):
        lane = label * state.replicas + state.column
        if state.waiting.asked[lane]:  # twice in a round
            make_now(state, row, label, state.waiting.first[lane])
        ask(state, label, first, 0.0)

    @inline
    def serve(whole, waiting, row, block, is_second):
        """Make the updates of a block; if `is_second`, a constant, of the next as well."""
        first, second = fetch(whole, waiting.first, block), zero(whole)
        if is_second:
            second = fetch(whole, waiting.first, block + 1)
        for i in range(row.start, row.stop):
            j, x = at(row.indices, i), at(row.values, i)
            save(whole, j, 0, block, moved(load(whole, j, 0, block), x, first))
            if is_second:
                save(whole, j, 0, block + 1, moved(load(whole, j, 0, block + 1), x, second))
        answered(whole, waiting, block)
        if is_second:
            answered(whole, waiting, block + 1)

    def settled(params, state, row):
        whole, waiting = state.whole, state.waiting
        block, last = 0, blocks(whole) - 1
        while block <= last:
            if block < last and waiting.blocks[block] and waiting.blocks[block + 1]:
                serve(whole, waiting, row, block, True)
                block += 2
            else:
                if waiting.blocks[block]:
                    serve(whole, waiting, row, block, False)
                block += 1

    return _update(lane, now, later, settled)


def update_of_planes(lane):
    """An update of planes 0 and 1 with two coefficients, made of a function for one lane."""
    moved = inline(lane)

    def now(state, row, label, first, second):
        table, first, second = state.table, number(state, first), number(state, second)
        for i in range(row.start, row.stop):
            j, x = at(row.indices, i), at(row.values, i)
            a, b = moved(table[j, 0, label], table[j, 1, label], x, first, second)
            table[j, 0, label], table[j, 1, label] = a, b

    make_now = inline(now)

    def later(state, row, label, first, second):
        waiting, lane = state.waiting, label * state.replicas + state.column
        if waiting.asked[lane]:  # twice in a round
            make_now(state, row, label, waiting.first[lane], waiting.second[lane])
        ask(state, label, first, second)

    def settled(params, state, row):
        whole, waiting = state.whole, state.waiting
        for block in range(blocks(whole)):
            if waiting.blocks[block]:
                first = fetch(whole, waiting.first, block)
                second = fetch(whole, waiting.second, block)
                for i in range(row.start, row.stop):
                    j, x = at(row.indices, i), at(row.values, i)
                    a, b = load(whole, j, 0, block), load(whole, j, 1, block)
                    a, b = moved(a, b, x, first, second)
                    save(whole, j, 0, block, a)
                    save(whole, j, 1, block, b)
                answered(whole, waiting, block)

    return _update(lane, now, later, settled)


def _update(lane, now, later, settled):
    now.__name__, now.__qualname__, now.__doc__ = lane.__name__, lane.__qualname__, lane.__doc__
    function = generic(now)
    implement(function, Waiting)(later)
    function.settled = settled
    return function


@update_of_plane
def add(w, x, step):
    """w += step x: called as add(state, row, label, step)."""
    return w + step * x


@update_of_planes
def regress(w, s, x, pull, weight):
    """One weighted step of ridge regression with a diagonal matrix.

    Plane 0 holds w, plane 1 the inverse s = 1/A of the diagonal:
    w <- (A w + weight target x) / (A + weight x^2), A <- A + weight x^2.
    Called as regress(state, row, label, weight * target, weight).
    """
    shrink = unit(s) / (unit(s) + s * (x * x) * weight)
    return (w + s * x * pull) * shrink, s * shrink


@update_of_planes
def move(mu, s, x, step, shrink):
    """One step of confidence-weighted learning with a diagonal covariance.

    mu += step * S x, S -= shrink * (S x)^2; plane 0 holds mu, plane 1 the diagonal of S.
    Called as move(state, row, label, step, shrink).
    """
    sx = s * x
    return mu + sx * step, at_least(s - sx * sx * shrink, 1e-12)
