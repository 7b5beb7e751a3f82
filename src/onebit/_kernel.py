"""What the algorithms share: the records they pass around, and the loops over a row.

An algorithm says what to do in a round by implementing, for its own type of `Params`:

- `score`: fill `work.scores` (and `work.widths`, the variances, if it has them) for one row;
- `decide`: from these, choose a label and say how likely that was;
- `learn`: from one bit, change the state (`learn_label`: from the true label, for references that
  are told it). They may read `work`, which holds the row's scores under the present state, and are
  not called for an empty row, which teaches nothing;
- `probabilities`: fill `work.probabilities`, the law by which `decide` chooses.

The whole-stream loop and the round-by-round calls are built from these same functions.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from onebit._jit import generic, inline
from onebit._lanes import at, fetch, first_at_least, largest, load, root, store, width, zero
from onebit._random import uniform

TIE = 1e-9  # upper confidence bounds closer than this are equal: the lowest label wins


class Work(NamedTuple):
    """Scratch space, one number a lane."""

    scores: Any
    widths: Any
    bounds: Any
    mask: Any  # 0 where the label may be said, -infinity elsewhere
    probabilities: Any  # float64 whatever the weights are


class Row(NamedTuple):
    """One context: `indices[start:stop]` strictly increasing, `values[start:stop]` not zero."""

    indices: Any
    values: Any
    start: Any
    stop: Any


class Turn(NamedTuple):
    """Which round this is, and how many labels may be said in it."""

    seed: Any
    round: Any
    count: Any


class Choice(NamedTuple):
    """What was said, and what learning will want to know about it later."""

    label: Any
    greedy: Any
    propensity: Any  # negative: not worked out; ask `probabilities`
    note: Any  # two numbers an algorithm may keep from the time of decision
    other: Any


@generic
def score(params, state, work, row, turn): ...


@generic
def decide(params, state, work, turn): ...


@generic
def learn(params, state, work, row, turn, choice, right): ...


@generic
def learn_label(params, state, work, row, turn, label): ...


@generic
def probabilities(params, state, work, turn): ...


# Loops over a row. Sums run in four interleaved parts: the chain of dependent additions would
# otherwise be the bottleneck. The order is part of the contract: it fixes the last bit.


@inline
def blocks(state):
    return state.table.shape[2] // width(state)


@inline
def number(state, x):
    """x in the state's own precision."""
    return state.table.dtype.type(x)


@inline
def _term(state, row, i, plane, block):
    return load(state, at(row.indices, i), plane, block) * at(row.values, i)


@inline
def dot(state, row, plane, out):
    """out[label] = sum over the row of value * table[feature, plane, label]."""
    for block in range(blocks(state)):
        a, b, c, d = zero(state), zero(state), zero(state), zero(state)
        i = row.start
        while i + 4 <= row.stop:
            a = a + _term(state, row, i, plane, block)
            b = b + _term(state, row, i + 1, plane, block)
            c = c + _term(state, row, i + 2, plane, block)
            d = d + _term(state, row, i + 3, plane, block)
            i += 4
        if i < row.stop:
            a = a + _term(state, row, i, plane, block)
        if i + 1 < row.stop:
            b = b + _term(state, row, i + 1, plane, block)
        if i + 2 < row.stop:
            c = c + _term(state, row, i + 2, plane, block)
        store(state, out, block, (a + b) + (c + d))


@inline
def _square_term(state, row, i, plane, block):
    x = at(row.values, i)
    return load(state, at(row.indices, i), plane, block) * (x * x)


@inline
def dot_and_variance(state, row, scores, widths):
    """scores = sum of value * plane 0, widths = sum of value^2 * plane 1."""
    for block in range(blocks(state)):
        a, b, c, d = zero(state), zero(state), zero(state), zero(state)
        e, f, g, h = zero(state), zero(state), zero(state), zero(state)
        i = row.start
        while i + 4 <= row.stop:
            a = a + _term(state, row, i, 0, block)
            e = e + _square_term(state, row, i, 1, block)
            b = b + _term(state, row, i + 1, 0, block)
            f = f + _square_term(state, row, i + 1, 1, block)
            c = c + _term(state, row, i + 2, 0, block)
            g = g + _square_term(state, row, i + 2, 1, block)
            d = d + _term(state, row, i + 3, 0, block)
            h = h + _square_term(state, row, i + 3, 1, block)
            i += 4
        if i < row.stop:
            a = a + _term(state, row, i, 0, block)
            e = e + _square_term(state, row, i, 1, block)
        if i + 1 < row.stop:
            b = b + _term(state, row, i + 1, 0, block)
            f = f + _square_term(state, row, i + 1, 1, block)
        if i + 2 < row.stop:
            c = c + _term(state, row, i + 2, 0, block)
            g = g + _square_term(state, row, i + 2, 1, block)
        store(state, scores, block, (a + b) + (c + d))
        store(state, widths, block, (e + f) + (g + h))


@inline
def squared_norm(row):
    total = 0.0
    for i in range(row.start, row.stop):
        x = np.float64(at(row.values, i))
        total += x * x
    return total


@inline
def add(state, row, plane, label, step):
    """table[feature, plane, label] += step * value, over the row."""
    table = state.table
    step = number(state, step)
    for i in range(row.start, row.stop):
        table[at(row.indices, i), plane, label] += step * at(row.values, i)


@inline
def regress(state, row, label, target, weight):
    """One weighted step of ridge regression with a diagonal matrix.

    Plane 0 holds w, plane 1 the inverse s = 1/A of the diagonal:
    w <- (A w + weight target x) / (A + weight x^2), A <- A + weight x^2.
    """
    table = state.table
    pull, weight = number(state, weight * target), number(state, weight)
    one = number(state, 1.0)
    for i in range(row.start, row.stop):
        j, x = at(row.indices, i), at(row.values, i)
        s = table[j, 1, label]
        shrink = one / (one + weight * (s * (x * x)))
        table[j, 0, label] = (table[j, 0, label] + pull * (x * s)) * shrink
        table[j, 1, label] = s * shrink


@inline
def move(state, row, label, step, shrink):
    """One step of confidence-weighted learning with a diagonal covariance.

    mu += step * S x, S -= shrink * (S x)^2; plane 0 holds mu, plane 1 the diagonal of S.
    """
    table = state.table
    step, shrink, floor = number(state, step), number(state, shrink), number(state, 1e-12)
    for i in range(row.start, row.stop):
        j, x = at(row.indices, i), at(row.values, i)
        s = table[j, 1, label]
        sx = s * x
        table[j, 0, label] += step * sx
        table[j, 1, label] = max(s - shrink * (sx * sx), floor)


# Choosing.


@inline
def best(state, work):
    """The greedy label: the lowest of those that may be said and score highest."""
    top, label = number(state, -np.inf), -1
    for block in range(blocks(state)):
        scores = fetch(state, work.scores, block) + fetch(state, work.mask, block)
        highest = largest(scores)
        if highest > top:
            top = highest
            label = block * width(state) + first_at_least(scores, highest)
    return label if label >= 0 else nth_possible(work, 0)  # no score at all: an overflow


@inline
def best_upper(state, work, factor):
    """The label with the largest scores + factor * sqrt(widths), ties within TIE to the lowest."""
    factor, top = number(state, factor), number(state, -np.inf)
    for block in range(blocks(state)):
        scores = fetch(state, work.scores, block) + fetch(state, work.mask, block)
        upper = scores + root(fetch(state, work.widths, block)) * factor
        store(state, work.bounds, block, upper)
        top = max(top, largest(upper))
    bar = top - number(state, TIE)
    for block in range(blocks(state)):
        upper = fetch(state, work.bounds, block)
        if largest(upper) >= bar:
            label = block * width(state) + first_at_least(upper, bar)
            if work.mask[label] == 0:
                return label
    return nth_possible(work, 0)  # not a number anywhere: the weights have overflowed


@inline
def runner_up(state, work, label):
    """The best label that may be said other than `label`; itself if there is none."""
    kept = work.mask[label]
    work.mask[label] = -np.inf
    other = best(state, work)
    if work.mask[other] != 0:
        other = label
    work.mask[label] = kept
    return other


@inline
def nth_possible(work, n):
    """The n-th of the labels that may be said."""
    for label in range(len(work.mask)):
        if work.mask[label] == 0:
            if n == 0:
                return label
            n -= 1
    return 0


@inline
def any_label(work, turn):
    """A label drawn uniformly among those that may be said."""
    return nth_possible(work, int(uniform(turn.seed, turn.round, 1) * turn.count))


@inline
def explore_uniformly(work, turn, gamma, greedy):
    """With probability gamma any label, else the greedy one."""
    label = greedy
    if uniform(turn.seed, turn.round, 0) < gamma:
        label = any_label(work, turn)
    share = gamma / turn.count
    propensity = (1.0 - gamma) + share if label == greedy else share
    return Choice(label, greedy, propensity, 0.0, 0.0)


@inline
def uniform_exploration_law(work, turn, gamma, greedy):
    for label in range(len(work.mask)):
        work.probabilities[label] = gamma / turn.count if work.mask[label] == 0 else 0.0
    work.probabilities[greedy] += 1.0 - gamma


@inline
def certain_law(work, label):
    work.probabilities[:] = 0.0
    work.probabilities[label] = 1.0


@inline
def sample(work, turn):
    """A label drawn by `work.probabilities`, from one uniform number."""
    u = uniform(turn.seed, turn.round, 0)
    total = 0.0
    last = nth_possible(work, 0)
    for label in range(len(work.mask)):
        p = work.probabilities[label]
        if p > 0:
            total += p
            last = label
            if total > u:
                break
    return last


@inline
def normal_pair(seed, round, stream):
    """Two standard normal numbers (Box & Muller 1958)."""
    radius = math.sqrt(-2.0 * math.log(1.0 - uniform(seed, round, stream)))
    angle = 2.0 * math.pi * uniform(seed, round, stream + 1)
    return radius * math.cos(angle), radius * math.sin(angle)


@inline
def sigmoid(u):
    if u >= 0:
        return 1.0 / (1.0 + math.exp(-u))
    e = math.exp(u)
    return e / (1.0 + e)


# Whole implementations that several algorithms share.


def linear_score(params, state, work, row, turn):
    dot(state, row, 0, work.scores)


def gaussian_score(params, state, work, row, turn):
    dot_and_variance(state, row, work.scores, work.widths)


def say_greedy(params, state, work, turn):
    label = best(state, work)
    return Choice(label, label, 1.0, 0.0, 0.0)


def greedy_law(params, state, work, turn):
    certain_law(work, best(state, work))


def say_epsilon_greedy(params, state, work, turn):
    return explore_uniformly(work, turn, params.gamma, best(state, work))


def epsilon_greedy_law(params, state, work, turn):
    uniform_exploration_law(work, turn, params.gamma, best(state, work))
