"""The dual form, for learners with a kernel: it stores contexts instead of weights.

A label's weights are w = sum of coef_s x_s over the stored contexts; scores need only the values
k(x_s, x) of the kernel (`storage.kernels`). First-order learners have `Points`. Second-order
learners have a `Posterior`: each stored context is an observation of one label with variance r_s.
With prior c,

    A = c (I + sum of x_s x_s' / r_s),    G = (K + diag(r))^-1 over the contexts of one label,
    A^-1 x = (x - sum of shares_s x_s) / c,    shares = G k,    v = (k(x, x) - k.shares) / c.

So w += step A^-1 x changes the coefficients of the label's contexts and of x. A new observation
adds a line and a column to G. A slot has one label, so the lines of all labels fit into one square
matrix. A context that is stored already is not stored again: its variance becomes smaller.

When the budget is exceeded, a context is removed, and its observation is unlearned exactly, as if
it had never been made (but its effect on other labels' weights through a projection is lost).

A row is scored before the learner learns from it; updates use the numbers of that score. Within a
round, the observation of a row is its last update. An empty row has score 0 with every kernel.

A kernel may be the user's function. It is called once per row. If it raises an error, nothing is
learned from the row, and `guarded` raises the error.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from onebit.core import sums, updates
from onebit.core.callback import call_back
from onebit.core.choosing import TIE
from onebit.core.draws import uniform
from onebit.core.jit import implement, inline
from onebit.core.lanes import at
from onebit.core.rounds import Row
from onebit.core.sums import number, squared_norm
from onebit.storage.full import add_lines, add_product
from onebit.storage.kernels import (
    GIVEN,
    value,
)

MOST_NOISE = 1e9  # of an observation: with more noise it has no influence
REMOVE_DRAW = 2 * 10**6 - 2  # a stream of draws that is used only here
OLDEST, RANDOM, SMALLEST = range(3)
TOP, FREE, CLOCK = range(3)  # of `count`
NONE, FAILED = -1, -2
MOST_EVIDENCE = 1e7  # k(x, x) divided by the prior: beyond this, inverses lose all digits


class Points(NamedTuple):
    """Stored contexts and their coefficients."""

    x: Any  # [feature, slot]; there is one slot more than the budget
    square: Any  # [slot] its squared length
    own: Any  # [slot] k(x, x)
    coef: Any  # [slot, lane]
    age: Any  # [slot] the clock when it was last learned from
    count: Any  # slots in use, the next free slot, the clock
    slots: Any  # 0, 1, 2, ...
    # Of the row that was scored last:
    near: Any  # [slot] k(stored context, row)
    here: Any  # its squared length, and k(row, row)
    current: Any  # its slot, or NONE; FAILED: the kernel failed, so nothing is learned
    row: Any  # [feature] the row itself, for functions
    features: Any  # the number of known features
    total: Any  # [lane] room for sums
    kernel: Any
    remove: Any  # which of REMOVE
    seed: Any


class Posterior(NamedTuple):
    """Points, each of which is an observation of one label."""

    points: Any
    G: Any  # [slot, rank]: a line for each context, over the contexts of its label by rank
    order: Any  # slots by label, then by rank
    start: Any  # [label] where its slots start in `order`; the last entry is the end
    noise: Any  # [slot] the variance r
    listed: Any  # in `order`: k(stored context, row scored last)
    shares: Any  # in `order`: G k
    line: Any  # room for a line of G
    prior: Any


# Scoring.


@inline
def nothing_near(points):
    for slot in range(points.count[TOP]):
        points.near[slot] = 0.0
    points.here[0], points.here[1] = 0.0, 0.0


@inline
def ask(state, points, row):
    """Get the values from the user's function."""
    nothing_near(points)
    points.here[0] = squared_norm(row)
    points.features[0] = state.table.shape[0]
    for feature in range(points.features[0]):
        points.row[feature] = 0.0
    for i in range(row.start, row.stop):
        points.row[at(row.indices, i)] = at(row.values, i)
    if not call_back(points.kernel.function):
        points.current[0] = FAILED


@inline
def look(state, points, row):
    """Compute the kernel's values for a row that has no slot yet."""
    points.current[0] = NONE
    top, kernel = points.count[TOP], points.kernel
    if row.start == row.stop:
        nothing_near(points)
        return
    if kernel.kind == GIVEN:
        ask(state, points, row)
        return
    known = row.stop
    while known > row.start and at(row.indices, known - 1) >= points.x.shape[0]:
        known -= 1  # no stored context has the feature
    inside = Row(row.indices, row.values, row.start, known)
    add_lines(points.x, inside, points.near, top, False)
    square = squared_norm(row)
    for slot in range(top):
        points.near[slot] = value(kernel, points.near[slot], square, points.square[slot])
    points.here[0], points.here[1] = square, value(kernel, square, square, square)


@inline
def sum_up(state, points, out):
    """The scores of the row given to `look`."""
    stored = Row(points.slots, points.near, 0, points.count[TOP])
    add_lines(points.coef, stored, points.total, len(points.total), False)
    for lane in range(len(points.total)):
        out[lane] = number(state, points.total[lane])


# Storing and removing.


@inline
def is_same(points, slot, row):
    """Whether the slot holds the row given to `look`."""
    if points.square[slot] != points.here[0]:
        return False
    for i in range(row.start, row.stop):
        if points.x[at(row.indices, i), slot] != at(row.values, i):
            return False
    return True


@inline
def new_slot(points, row):
    """Store the row given to `look`. Returns its slot."""
    count = points.count
    slot = count[FREE]
    for i in range(row.start, row.stop):
        points.x[at(row.indices, i), slot] = at(row.values, i)
    points.square[slot], points.own[slot] = points.here[0], points.here[1]
    if slot == count[TOP]:
        count[TOP] += 1
        count[FREE] += 1
    else:
        count[FREE] = len(points.age)
    return slot


@inline
def slot_of(points, row):
    """The slot of the row given to `look`: that of an equal context, or a new one."""
    if points.current[0] == NONE:
        slot, top = 0, points.count[TOP]
        while slot < top and not is_same(points, slot, row):
            slot += 1
        points.current[0] = slot if slot < top else new_slot(points, row)
    return points.current[0]


@inline
def touch(points, slot):
    """Mark the slot as the one that was learned from last."""
    points.age[slot] = points.count[CLOCK]
    points.count[CLOCK] += 1


@inline
def is_full(points):
    """Whether the budget is exceeded: the last slot is in use."""
    return points.count[FREE] == len(points.age)


@inline
def oldest_or_any(points, kept):
    """The slot learned from longest ago, or a random slot other than `kept`."""
    if points.remove == RANDOM:
        u = uniform(points.seed, points.count[CLOCK], REMOVE_DRAW)
        slot = int(u * (len(points.age) - 1))
        return slot + 1 if slot >= kept else slot
    oldest = 0
    for slot in range(len(points.age)):
        if points.age[slot] < points.age[oldest]:
            oldest = slot
    return oldest


@inline
def clear(points, slot):
    """Free the slot for the next context."""
    for feature in range(points.x.shape[0]):
        points.x[feature, slot] = 0.0
    for lane in range(points.coef.shape[1]):
        points.coef[slot, lane] = 0.0
    points.square[slot], points.own[slot], points.age[slot] = 0.0, 0.0, 0
    points.count[FREE] = slot


@inline
def is_less(points, loss, slot, least, found):
    """Whether removing the slot loses less; of equal losses, the older slot is removed."""
    if found == NONE or loss < least * (1.0 - TIE):
        return True
    return loss <= least * (1.0 + TIE) and points.age[slot] < points.age[found]


@inline
def lightest(points, kept):
    """The slot whose part of the weights has the smallest norm in the kernel's space."""
    least, found = math.inf, NONE
    for slot in range(len(points.age)):
        size = 0.0
        for lane in range(points.coef.shape[1]):
            size += points.coef[slot, lane] * points.coef[slot, lane]
        size *= points.own[slot]
        if slot != kept and is_less(points, size, slot, least, found):
            least, found = size, slot
    return found


@inline
def best_predicted(held, kept):
    """The slot that the other contexts of its label predict with the least error."""
    least, found = math.inf, NONE
    for label in range(len(held.start) - 1):
        first = held.start[label]
        for position in range(first, held.start[label + 1]):
            slot = held.order[position]
            error = abs(held.points.coef[slot, label]) / held.G[slot, position - first]
            if slot != kept and is_less(held.points, error, slot, least, found):
                least, found = error, slot
    return found


@inline
def unlearn(held, gone):
    """Remove an observation from its label."""
    coef, G, order = held.points.coef, held.G, held.order
    position = 0
    while order[position] != gone:
        position += 1
    label = 0
    while held.start[label + 1] <= position:
        label += 1
    first, last = held.start[label], held.start[label + 1] - 1
    rank, size, line = position - first, last + 1 - first, held.line
    for k in range(size):
        line[k] = G[gone, k]
    amount, own = 1.0 / line[rank], coef[gone, label]
    for j in range(size):
        slot = order[first + j]
        coef[slot, label] -= amount * (line[j] * own)
        add_product(G[slot], size, -amount, line[j], line)
        G[slot, rank] = G[slot, size - 1]  # the last rank takes its place
        G[slot, size - 1] = 0.0
    for k in range(size):
        G[gone, k] = 0.0
    order[position] = order[last]
    for later in range(last, held.start[len(held.start) - 1] - 1):
        order[later] = order[later + 1]
    for later in range(label + 1, len(held.start)):
        held.start[later] -= 1
    held.noise[gone] = 0.0


@inline
def sharpen(held, label, amount):
    """G of a label += amount shares shares'."""
    first, end = held.start[label], held.start[label + 1]
    shares = held.shares[first:end]
    for j in range(end - first):
        add_product(held.G[held.order[first + j]], end - first, amount, shares[j], shares)


@inline
def join(held, label, slot, amount):
    """Add a line and a column for a context to G of a label."""
    G, order = held.G, held.order
    first, end = held.start[label], held.start[label + 1]
    size = end - first
    for j in range(size):
        G[slot, j] = -(amount * held.shares[first + j])
        G[order[first + j], size] = G[slot, j]
    G[slot, size] = amount
    for later in range(held.start[len(held.start) - 1], end, -1):
        order[later] = order[later - 1]
    order[end] = slot
    for later in range(label + 1, len(held.start)):
        held.start[later] += 1


# The functions of `core` for this storage.


@implement(sums.dot, Points)
def dot(state, row, plane, out):
    look(state, state.held, row)
    sum_up(state, state.held, out)


@implement(updates.add, Points)
def add(state, row, label, step):
    points = state.held
    if step == 0.0 or points.current[0] == FAILED:
        return
    slot = slot_of(points, row)
    touch(points, slot)
    points.coef[slot, label] += step
    if is_full(points):
        smallest = points.remove == SMALLEST
        clear(points, lightest(points, slot) if smallest else oldest_or_any(points, slot))


@inline
def unexplained(held, label):
    """k(x, x) - k.shares of the row that was scored: c times the variance."""
    explained = 0.0
    for position in range(held.start[label], held.start[label + 1]):
        explained += held.listed[position] * held.shares[position]
    return max(held.points.here[1] - explained, 0.0)


@implement(sums.dot_and_variance, Posterior)
def dot_and_variance(state, row, scores, widths):
    held = state.held
    look(state, held.points, row)
    sum_up(state, held.points, scores)
    for position in range(held.start[len(held.start) - 1]):
        held.listed[position] = held.points.near[held.order[position]]
    for label in range(len(held.start) - 1):
        first, end = held.start[label], held.start[label + 1]
        own = Row(held.order, held.listed, first, end)
        add_lines(held.G, own, held.shares[first:end], end - first, False)
        widths[label] = number(state, unexplained(held, label) / held.prior)


@implement(updates.move, Posterior)
def move(state, row, label, step, shrink):
    """w += step A^-1 x, A^-1 -= shrink (A^-1 x)(A^-1 x)'."""
    held = state.held
    points, amount = held.points, step / held.prior
    first, end = held.start[label], held.start[label + 1]
    if points.current[0] == FAILED:
        return
    if shrink == 0.0:  # no observation
        if step != 0.0:
            for position in range(first, end):
                points.coef[held.order[position], label] -= amount * held.shares[position]
            points.coef[slot_of(points, row), label] += amount
        return
    noise, position = held.prior / shrink - unexplained(held, label), first
    while position < end and not is_same(points, held.order[position], row):
        position += 1
    if position < end:  # x is stored for this label: observe it again
        slot = held.order[position]
        held.shares[position] -= 1.0
        held.noise[slot] = 1.0 / (1.0 / held.noise[slot] + 1.0 / noise)
    else:
        slot = points.current[0]
        if slot == NONE or held.noise[slot] != 0.0:  # x has no slot, or one of another label
            slot = new_slot(points, row)
        points.coef[slot, label] += amount
        held.noise[slot] = noise
    for j in range(first, end):
        points.coef[held.order[j], label] -= amount * held.shares[j]
    sharpen(held, label, shrink / held.prior)
    if position == end:
        join(held, label, slot, shrink / held.prior)
    touch(points, slot)
    if is_full(points):
        smallest = points.remove == SMALLEST
        gone = best_predicted(held, slot) if smallest else oldest_or_any(points, slot)
        unlearn(held, gone)
        clear(points, gone)


def fit(state, row, label, step, weight):
    """w += step A^-1 x, A += weight x x'."""
    v = unexplained(state.held, label) / state.held.prior
    updates.move(state, row, label, step, weight / (1.0 + weight * v))
