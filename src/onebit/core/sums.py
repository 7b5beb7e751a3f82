"""Sums over a row, lane by lane: scores and variances.

A sum runs in four interleaved parts: otherwise the chain of dependent additions would be the
bottleneck. The order is part of the contract: it fixes the last bit. For replicas, all sums are
computed when the first replica needs one.
"""

from __future__ import annotations

import numpy as np

from onebit.core.jit import generic, implement, inline, plain
from onebit.core.lanes import REPLICAS, at, fetch, load, prefetch, store, width, zero


@generic
def blocks(state):
    return state.table.shape[2] // width(state)


@implement(blocks, *REPLICAS)
def _blocks_of_replica(state):
    return state.lanes // width(state)


@inline
def number(state, x):
    """x in the state's own precision."""
    return state.table.dtype.type(x)


@inline
def _term(state, row, i, plane, block):
    return load(state, at(row.indices, i), plane, block) * at(row.values, i)


@inline
def _turn_round(state, sums, turned):
    """Order the sums of all replicas by replica."""
    for label in range(state.table.shape[2]):
        for replica in range(state.replicas):
            turned[replica, label] = at(sums, label * state.replicas + replica)


@inline
def _hand_over(state, turned, out):
    for block in range(blocks(state)):
        store(state, out, block, fetch(state, turned[state.column], block))


def sum_over_row(body):
    """A function (state, row, plane, out) that sums over a row, lane by lane."""
    by_itself, function = inline(body), generic(body)

    @implement(function, *REPLICAS)
    def for_all(state, row, plane, out):
        if state.column == 0:
            by_itself(state.whole, row, plane, state.sums[0])
            _turn_round(state, state.sums[0], state.turned[0])
        _hand_over(state, state.turned[0], out)

    return function


@inline
def _dot_of_block(state, row, plane, block, out, ahead):
    a, b, c, d = zero(state), zero(state), zero(state), zero(state)
    i = row.start
    while i + 4 <= row.stop:
        a = a + _term(state, row, i, plane, block)
        b = b + _term(state, row, i + 1, plane, block)
        c = c + _term(state, row, i + 2, plane, block)
        d = d + _term(state, row, i + 3, plane, block)
        if ahead:
            for n in range(4):
                prefetch(state, at(row.indices, i + n + ahead), block)
        i += 4
    if i < row.stop:
        a = a + _term(state, row, i, plane, block)
    if i + 1 < row.stop:
        b = b + _term(state, row, i + 1, plane, block)
    if i + 2 < row.stop:
        c = c + _term(state, row, i + 2, plane, block)
    store(state, out, block, (a + b) + (c + d))


@inline
def _dot_of_blocks(state, row, plane, block, is_third, out, ahead):
    """The same for two blocks, or for three if `is_third`, which is a constant.

    Several blocks at once need fewer addresses. Two of the four partial sums are computed at a
    time, because there are only sixteen registers.

    ahead: weights of the features this many places further in the row's arrays are prefetched, a
    few at a time, because memory serves only a few requests at once. 0: no prefetching.
    """
    for half in range(2):
        a, b, c = zero(state), zero(state), zero(state)
        d, e, f = zero(state), zero(state), zero(state)
        i = row.start + 2 * half
        while i + 1 < row.stop:
            a = a + _term(state, row, i, plane, block)
            b = b + _term(state, row, i, plane, block + 1)
            d = d + _term(state, row, i + 1, plane, block)
            e = e + _term(state, row, i + 1, plane, block + 1)
            if is_third:
                c = c + _term(state, row, i, plane, block + 2)
                f = f + _term(state, row, i + 1, plane, block + 2)
            if ahead:
                for n in range(2):
                    feature = at(row.indices, i + n + ahead)
                    for k in range(3 if is_third else 2):
                        prefetch(state, feature, block + k)
            i += 4
        if i < row.stop:
            a = a + _term(state, row, i, plane, block)
            b = b + _term(state, row, i, plane, block + 1)
            if is_third:
                c = c + _term(state, row, i, plane, block + 2)
        a, b, c = a + d, b + e, c + f
        if half:
            a, b = fetch(state, out, block) + a, fetch(state, out, block + 1) + b
            if is_third:
                c = fetch(state, out, block + 2) + c
        store(state, out, block, a)
        store(state, out, block + 1, b)
        if is_third:
            store(state, out, block + 2, c)


@inline
def dot_ahead(state, row, plane, out, ahead):
    """`dot`, which also prefetches the weights of features that are `ahead` places further."""
    block, left = 0, blocks(state)
    while left:
        if left == 1:
            _dot_of_block(state, row, plane, block, out, ahead)
            done = 1
        elif left == 2 or left == 4:
            _dot_of_blocks(state, row, plane, block, False, out, ahead)
            done = 2
        else:
            _dot_of_blocks(state, row, plane, block, True, out, ahead)
            done = 3
        block += done
        left -= done


@sum_over_row
def dot(state, row, plane, out):
    """out[label] = sum over the row of value * table[feature, plane, label]."""
    dot_ahead(state, row, plane, out, 0)


@inline
def _plus_terms(state, row, i, block, score, width):
    """Partial sums of the score and of the variance, plus the terms of feature i."""
    x = at(row.values, i)
    square = load(state, at(row.indices, i), 1, block) * (x * x)
    return score + _term(state, row, i, 0, block), width + square


@generic
def dot_and_variance(state, row, scores, widths):
    """scores = sum of value * plane 0, widths = sum of value^2 * plane 1."""
    for block in range(blocks(state)):
        a, b, c, d = zero(state), zero(state), zero(state), zero(state)
        e, f, g, h = zero(state), zero(state), zero(state), zero(state)
        i = row.start
        while i + 4 <= row.stop:
            a, e = _plus_terms(state, row, i, block, a, e)
            b, f = _plus_terms(state, row, i + 1, block, b, f)
            c, g = _plus_terms(state, row, i + 2, block, c, g)
            d, h = _plus_terms(state, row, i + 3, block, d, h)
            i += 4
        if i < row.stop:
            a, e = _plus_terms(state, row, i, block, a, e)
        if i + 1 < row.stop:
            b, f = _plus_terms(state, row, i + 1, block, b, f)
        if i + 2 < row.stop:
            c, g = _plus_terms(state, row, i + 2, block, c, g)
        store(state, scores, block, (a + b) + (c + d))
        store(state, widths, block, (e + f) + (g + h))


_dot_and_variance = inline(plain(dot_and_variance))


@implement(dot_and_variance, *REPLICAS)
def _dot_and_variance_for_all(state, row, scores, widths):
    if state.column == 0:
        _dot_and_variance(state.whole, row, state.sums[0], state.sums[1])
        _turn_round(state, state.sums[0], state.turned[0])
        _turn_round(state, state.sums[1], state.turned[1])
    _hand_over(state, state.turned[0], scores)
    _hand_over(state, state.turned[1], widths)


@inline
def squared_norm(row):
    total = 0.0
    for i in range(row.start, row.stop):
        x = np.float64(at(row.values, i))
        total += x * x
    return total


def linear_score(params, state, work, row, turn):
    dot(state, row, 0, work.scores)


def gaussian_score(params, state, work, row, turn):
    dot_and_variance(state, row, work.scores, work.widths)
