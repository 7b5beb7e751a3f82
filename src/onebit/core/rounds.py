"""What the algorithms share: the records they pass around, and the loops over a row.

An algorithm says what to do in a round by compiled functions, members of its class:

- `score`: fill `work.scores` (and `work.widths`, the variances, if it has them) for one row;
- `say`: from these, choose a label and tell how likely that was;
- `law`: fill `work.probabilities`, the law by which `say` chooses;
- `could_say`: whether `say` can have written this choice in some round before: it stands between
  forged decisions and the weights;
- `hear`: from one bit, change the state (`hear_label`: from the true label, for references that are
  told it). They may read `work`, which holds the row's scores under the present state, and are not
  called for an empty row, which teaches nothing;
- `lockstep`: the update of a label's weights, such as `add`, which waits there until a row is done.

The whole-stream loop and the round-by-round calls are built from these same functions.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from onebit.core.draws import uniform
from onebit.core.jit import generic, inline, plain
from onebit.core.lanes import (
    REPLICA,
    at,
    at_least,
    fetch,
    first_at_least,
    largest,
    load,
    prefetch,
    root,
    save,
    store,
    unit,
    width,
    zero,
)

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
    propensity: Any  # negative: not worked out; ask `law`
    note: Any  # two numbers an algorithm may keep from the time of decision
    other: Any


@generic
def score(params, state, work, row, turn): ...


@generic
def say(params, state, work, turn): ...


@generic
def law(params, state, work, turn): ...


@generic
def hear(params, state, work, row, turn, choice, right):
    return False  # references are told the label


@generic
def hear_label(params, state, work, row, turn, label):
    return False  # most learners hear one bit


@generic
def could_say(params, state, work, row, turn, choice): ...


# Loops over a row. Sums run in four interleaved parts: the chain of dependent additions would
# otherwise be the bottleneck. The order is part of the contract: it fixes the last bit.


def for_replicas(function):
    """Register the decorated function as the body of a generic function for replicas."""

    def register(body):
        for kind in REPLICA.values():
            function.bodies[kind] = body
        return body

    return register


@generic
def blocks(state):
    return state.table.shape[2] // width(state)


@for_replicas(blocks)
def _blocks_of_replica(state):
    return state.lanes // width(state)


@inline
def number(state, x):
    """x in the state's own precision."""
    return state.table.dtype.type(x)


@inline
def _term(state, row, i, plane, block):
    return load(state, at(row.indices, i), plane, block) * at(row.values, i)


# Replicas have their sums made for all of them when the first one asks.


@inline
def _turn_round(state, which):
    """Lay the sums out by replica."""
    for label in range(state.table.shape[2]):
        for replica in range(state.replicas):
            total = at(state.sums[which], label * state.replicas + replica)
            state.turned[which, replica, label] = total


@inline
def _hand_over(state, which, out):
    for block in range(blocks(state)):
        store(state, out, block, fetch(state, state.turned[which, state.column], block))


def sum_over_row(body):
    """A function (state, row, plane, out) that sums over a row, lane by lane."""
    by_itself, function = inline(body), generic(body)

    @for_replicas(function)
    def for_all(state, row, plane, out):
        if state.column == 0:
            by_itself(state.whole, row, plane, state.sums[0])
            _turn_round(state, 0)
        _hand_over(state, 0, out)

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
def _dot_of_three_blocks(state, row, plane, block, out, ahead):
    """The same for this block and the next two: less work of finding the way.

    Two of the four sums at a time, for sixteen registers hold no more.

    Meanwhile memory is asked for the features that stand so far `ahead` in the row's arrays: a few
    at a time, since it answers only so many questions at once. 0: nothing is asked.
    """
    for half in range(2):
        a, b, c = zero(state), zero(state), zero(state)
        d, e, f = zero(state), zero(state), zero(state)
        i = row.start + 2 * half
        while i + 1 < row.stop:
            a = a + _term(state, row, i, plane, block)
            b = b + _term(state, row, i, plane, block + 1)
            c = c + _term(state, row, i, plane, block + 2)
            d = d + _term(state, row, i + 1, plane, block)
            e = e + _term(state, row, i + 1, plane, block + 1)
            f = f + _term(state, row, i + 1, plane, block + 2)
            if ahead:
                for n in range(2):
                    feature = at(row.indices, i + n + ahead)
                    prefetch(state, feature, block)
                    prefetch(state, feature, block + 1)
                    prefetch(state, feature, block + 2)
            i += 4
        if i < row.stop:
            a = a + _term(state, row, i, plane, block)
            b = b + _term(state, row, i, plane, block + 1)
            c = c + _term(state, row, i, plane, block + 2)
        a, b, c = a + d, b + e, c + f
        if half:
            a = fetch(state, out, block) + a
            b = fetch(state, out, block + 1) + b
            c = fetch(state, out, block + 2) + c
        store(state, out, block, a)
        store(state, out, block + 1, b)
        store(state, out, block + 2, c)


@inline
def _dot_of_two_blocks(state, row, plane, block, out, ahead):
    """The same for this block and the next."""
    for half in range(2):
        a, b, c, d = zero(state), zero(state), zero(state), zero(state)
        i = row.start + 2 * half
        while i + 1 < row.stop:
            a = a + _term(state, row, i, plane, block)
            b = b + _term(state, row, i, plane, block + 1)
            c = c + _term(state, row, i + 1, plane, block)
            d = d + _term(state, row, i + 1, plane, block + 1)
            if ahead:
                for n in range(2):
                    feature = at(row.indices, i + n + ahead)
                    prefetch(state, feature, block)
                    prefetch(state, feature, block + 1)
            i += 4
        if i < row.stop:
            a = a + _term(state, row, i, plane, block)
            b = b + _term(state, row, i, plane, block + 1)
        a, b = a + c, b + d
        if half:
            a = fetch(state, out, block) + a
            b = fetch(state, out, block + 1) + b
        store(state, out, block, a)
        store(state, out, block + 1, b)


@inline
def dot_ahead(state, row, plane, out, ahead):
    block, left = 0, blocks(state)
    while left:
        if left == 1:
            _dot_of_block(state, row, plane, block, out, ahead)
            some = 1
        elif left == 2 or left == 4:
            _dot_of_two_blocks(state, row, plane, block, out, ahead)
            some = 2
        else:
            _dot_of_three_blocks(state, row, plane, block, out, ahead)
            some = 3
        block += some
        left -= some


@sum_over_row
def dot(state, row, plane, out):
    """out[label] = sum over the row of value * table[feature, plane, label]."""
    dot_ahead(state, row, plane, out, 0)


@inline
def _square_term(state, row, i, plane, block):
    x = at(row.values, i)
    return load(state, at(row.indices, i), plane, block) * (x * x)


@generic
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


_dot_and_variance = inline(plain(dot_and_variance))


@for_replicas(dot_and_variance)
def _dot_and_variance_for_all(state, row, scores, widths):
    if state.column == 0:
        _dot_and_variance(state.whole, row, state.sums[0], state.sums[1])
        _turn_round(state, 0)
        _turn_round(state, 1)
    _hand_over(state, 0, scores)
    _hand_over(state, 1, widths)


@generic
def known(state, row):
    """The row as far as scores can be told without making room: a feature never met is nothing."""
    stop = row.stop
    while stop > row.start and row.indices[stop - 1] >= state.table.shape[0]:
        stop -= 1
    return Row(row.indices, row.values, row.start, stop)


@inline
def squared_norm(row):
    total = 0.0
    for i in range(row.start, row.stop):
        x = np.float64(at(row.values, i))
        total += x * x
    return total


# Updates of one label's weights, written for one lane: the same code runs on a number when a
# learner is by itself, and on vectors of replicas, whose updates wait until the row is done. Where
# an update has to leave a lane as it is, its coefficients are zero.


class Waiting(NamedTuple):
    """Updates that replicas have asked for: coefficients by lane of the whole, zero where none."""

    first: Any
    second: Any
    asked: Any  # [lane] 1 where there is one
    blocks: Any  # [block of the whole] 1 where any lane has one


@generic
def settle(params, state, row):
    """Make the updates that wait; none do where updates are made at once, replica by replica."""


@inline
def ask(state, label, first, second):
    """Have a replica's update of a label wait."""
    waiting, lane = state.waiting, label * state.replicas + state.column
    waiting.first[lane] = number(state, first)
    waiting.second[lane] = number(state, second)
    waiting.asked[lane] = 1
    waiting.blocks[lane // width(state.whole)] = 1


@inline
def answered(whole, waiting, block):
    """The block has been served."""
    waiting.blocks[block] = 0
    store(whole, waiting.first, block, zero(whole))
    store(whole, waiting.second, block, zero(whole))
    for lane in range(block * width(whole), (block + 1) * width(whole)):
        waiting.asked[lane] = 0


def update_of_plane(lane):
    """An update of plane 0 with one coefficient, from what it does to one lane."""
    each = inline(lane)

    def now(state, row, label, first):
        table, first = state.table, number(state, first)
        for i in range(row.start, row.stop):
            j = at(row.indices, i)
            table[j, 0, label] = each(table[j, 0, label], at(row.values, i), first)

    make_now = inline(now)

    def later(state, row, label, first):
        lane = label * state.replicas + state.column
        if state.waiting.asked[lane]:  # twice in a round
            make_now(state, row, label, state.waiting.first[lane])
        ask(state, label, first, 0.0)

    @inline
    def serve(whole, waiting, row, block):
        first = fetch(whole, waiting.first, block)
        for i in range(row.start, row.stop):
            j, x = at(row.indices, i), at(row.values, i)
            save(whole, j, 0, block, each(load(whole, j, 0, block), x, first))
        answered(whole, waiting, block)

    @inline
    def serve_two(whole, waiting, row, block):
        one, two = fetch(whole, waiting.first, block), fetch(whole, waiting.first, block + 1)
        for i in range(row.start, row.stop):
            j, x = at(row.indices, i), at(row.values, i)
            save(whole, j, 0, block, each(load(whole, j, 0, block), x, one))
            save(whole, j, 0, block + 1, each(load(whole, j, 0, block + 1), x, two))
        answered(whole, waiting, block)
        answered(whole, waiting, block + 1)

    def settled(params, state, row):
        whole, waiting = state.whole, state.waiting
        block, last = 0, blocks(whole) - 1
        while block <= last:
            if block < last and waiting.blocks[block] and waiting.blocks[block + 1]:
                serve_two(whole, waiting, row, block)
                block += 2
            else:
                if waiting.blocks[block]:
                    serve(whole, waiting, row, block)
                block += 1

    return _update(lane, now, later, settled)


def update_of_planes(lane):
    """An update of planes 0 and 1 with two coefficients, from what it does to one lane."""
    each = inline(lane)

    def now(state, row, label, first, second):
        table, first, second = state.table, number(state, first), number(state, second)
        for i in range(row.start, row.stop):
            j, x = at(row.indices, i), at(row.values, i)
            a, b = each(table[j, 0, label], table[j, 1, label], x, first, second)
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
                    a, b = each(a, b, x, first, second)
                    save(whole, j, 0, block, a)
                    save(whole, j, 1, block, b)
                answered(whole, waiting, block)

    return _update(lane, now, later, settled)


def _update(lane, now, later, settled):
    now.__name__, now.__qualname__, now.__doc__ = lane.__name__, lane.__qualname__, lane.__doc__
    function = generic(now)
    function.bodies[Waiting] = later
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


# Members that several algorithms share. What `say` chooses by, and what it can have chosen, belong
# together: a function for `say` may carry both.


def linear_score(params, state, work, row, turn):
    dot(state, row, 0, work.scores)


def gaussian_score(params, state, work, row, turn):
    dot_and_variance(state, row, work.scores, work.widths)


def choosing_by(law, could_say):
    """Give a function for `say` its law, and the check of what it can have said."""

    def decorate(say) -> Any:
        say.law, say.could_say = law, could_say
        return say

    return decorate


@inline
def noted_nothing(choice):
    return choice.note == 0.0 and choice.other == 0.0


@inline
def is_as_likely(propensity, expected):
    """Whether a propensity is what it should be, but for rounding."""
    return abs(propensity - expected) <= 1e-9 * expected


@inline
def explored_uniformly(turn, gamma, choice):
    """Whether `explore_uniformly` can have chosen so."""
    share = gamma / turn.count
    expected = (1.0 - gamma) + share if choice.label == choice.greedy else share
    return expected > 0.0 and is_as_likely(choice.propensity, expected)


def could_say_at_random(params, state, work, row, turn, choice):
    """For laws that depend on the scores of that time, and are not learned from."""
    return noted_nothing(choice)


def could_say_for_certain(params, state, work, row, turn, choice):
    return choice.propensity == 1.0 and noted_nothing(choice)


def _greedy_law(params, state, work, turn):
    certain_law(work, best(state, work))


def _could_say_greedy(params, state, work, row, turn, choice):
    return choice.label == choice.greedy and choice.propensity == 1.0 and noted_nothing(choice)


@choosing_by(_greedy_law, _could_say_greedy)
def greedy(params, state, work, turn):
    """Say the best label."""
    label = best(state, work)
    return Choice(label, label, 1.0, 0.0, 0.0)


def _epsilon_greedy_law(params, state, work, turn):
    uniform_exploration_law(work, turn, params.gamma, best(state, work))


def _could_say_epsilon_greedy(params, state, work, row, turn, choice):
    return explored_uniformly(turn, params.gamma, choice) and noted_nothing(choice)


@choosing_by(_epsilon_greedy_law, _could_say_epsilon_greedy)
def epsilon_greedy(params, state, work, turn):
    """Say the best label, and any label with probability gamma."""
    return explore_uniformly(work, turn, params.gamma, best(state, work))


def sampled(law):
    """A function for `say` that draws a label by its law; the propensity is not learned from."""
    drawn_law = inline(law)

    @choosing_by(law, could_say_at_random)
    def say(params, state, work, turn):
        drawn_law(params, state, work, turn)
        label = sample(work, turn)
        return Choice(label, best(state, work), work.probabilities[label], 0.0, 0.0)

    return say
