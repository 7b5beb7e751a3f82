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
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from onebit.core import sums, updates
from onebit.core.callback import Callback, call_back
from onebit.core.choosing import TIE
from onebit.core.draws import uniform
from onebit.core.jit import implement, inline, plain
from onebit.core.lanes import aligned_zeros, at, lanes_for
from onebit.core.rounds import Row
from onebit.core.settings import called, named_by_storage, setting
from onebit.core.sums import number, squared_norm
from onebit.reading.rows import largest
from onebit.storage.base import TABLE, Arrays, Storage, largest_square
from onebit.storage.full import ROUNDING, add_lines, add_product, is_inverse
from onebit.storage.kernels import (
    GIVEN,
    POLYNOMIAL,
    RATIONAL,
    RBF,
    Kernel,
    KernelLike,
    kernel_named,
    value,
)

MOST_NOISE = 1e9  # of an observation: with more noise it has no influence
REMOVE_DRAW = 2 * 10**6 - 2  # a stream of draws that is used only here
Remove = Literal["oldest", "random", "smallest"]
REMOVE_RULES: tuple[Remove, ...] = get_args(Remove)
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


class Dual(Storage):
    """At most `budget` contexts. prior: for second-order learners."""

    dtype = "float64"
    planes = 0
    rescores = True
    shares_blank = True
    advice = "Use a smaller budget=, or hash the features into fewer columns with features="

    def __init__(
        self, kernel: KernelLike, budget: int, remove: str, seed: int, prior: float | None
    ) -> None:
        if callable(kernel):
            self._function, self.callback = kernel, Callback(self._ask)
            self.kernel = Kernel(GIVEN, 1.0, 0.0, 1, self.callback.address)
            name, self.unsaved, self.shares_blank = called(kernel), {"kernel": kernel}, False
        else:
            self.kernel, name = kernel_named(kernel)
        self.budget, self.remove = budget, REMOVE_RULES.index(remove)
        self.seed, self.prior = seed, prior
        self.settings = {"kernel": name, "budget": self.budget, "remove": remove}

    def lay_out(self, arrays: Arrays, features: int, labels: int) -> Any:
        slots, lanes = self.budget + 1, lanes_for(labels)
        points = Points(
            x=aligned_zeros((features, slots), np.float64),
            coef=aligned_zeros((slots, lanes), np.float64),
            age=np.zeros(slots, np.int64),
            count=np.zeros(3, np.int64),
            slots=np.arange(slots, dtype=np.uint32),
            here=np.zeros(2),
            current=np.full(1, NONE),
            row=np.zeros(features),
            features=np.zeros(1, np.int64),
            total=np.zeros(lanes),
            kernel=self.kernel,
            remove=self.remove,
            seed=self.seed,
            **{name: np.zeros(slots) for name in ("square", "own", "near")},
        )
        held: Any = points
        if self.prior is not None:
            held = Posterior(
                points=points,
                G=aligned_zeros((slots, slots), np.float64),
                order=np.zeros(slots, np.int64),
                start=np.zeros(labels + 1, np.int64),
                prior=self.prior,
                **{name: np.zeros(slots) for name in ("noise", "listed", "shares", "line")},
            )
        for name, old in arrays.items():
            mine = getattr(points if name in Points._fields else held, name)
            mine[tuple(slice(size) for size in old.shape)] = old
        if arrays and self.prior is not None:  # for new labels
            held.start[len(arrays["start"]) :] = arrays["start"][-1]
        self._current = points
        return held

    def _ask(self) -> None:
        """Get the function's values for the row in one call; the row itself comes last."""
        points = self._current
        width, (top, free, _) = points.features[0], points.count
        slots = np.delete(np.arange(top), slice(free, free + 1))
        rows = np.empty((len(slots) + 1, width))
        rows[:-1] = points.x[:width, slots].T
        rows[-1] = points.row[:width]
        rows.flags.writeable = False
        values = self.matrix(rows[-1:], rows)[0]
        if values[-1] < 0:
            raise ValueError(
                f"kernel {self.settings['kernel']!r} is {values[-1]} for a context and itself, "
                "and must be at least 0"
            )
        points.near[slots], points.here[1] = values[:-1], values[-1]

    def room(self, held: Any) -> int:
        return len(_points(held).x)

    def arrays(self, held: Any, features: int, labels: int) -> Arrays:
        points = _points(held)
        top = int(points.count[TOP])
        kept = {
            "x": points.x[:features, :top],
            "square": points.square[:top],
            "own": points.own[:top],
            "coef": points.coef[:top, :labels],
            "age": points.age[:top],
            "count": points.count,
        }
        if self.prior is not None:
            kept["G"] = held.G[:top, :top]
            kept["order"] = held.order[: held.start[-1]]
            kept["start"] = held.start
            kept["noise"] = held.noise[:top]
        return {name: array.copy() for name, array in kept.items()}

    def fits(self, arrays: Arrays, features: int, labels: int) -> bool:
        count = arrays.get("count", np.empty(0))
        if count.shape != (3,) or count.dtype != np.int64:
            return False
        top, free, clock = count.tolist()
        shapes = dict.fromkeys(("square", "own", "age"), (top,))
        shapes |= {"x": (features, top), "coef": (top, labels), "count": (3,)}
        held = top if free == top else top - 1
        if self.prior is not None:
            shapes |= {"G": (top, top), "order": (held,), "start": (labels + 1,), "noise": (top,)}
        whole = {"age", "count", "order", "start"}
        good = shapes.keys() == arrays.keys() and all(
            arrays[name].shape == shape
            and arrays[name].dtype == (np.int64 if name in whole else np.float64)
            for name, shape in shapes.items()
        )
        if not good or not 0 <= free <= top <= self.budget + 1 or held > self.budget or clock < 0:
            return False
        if self.prior is None:
            return True
        start = arrays["start"]
        live = np.delete(np.arange(top), slice(free, free + 1))
        return (
            start[0] == 0
            and start[-1] == held
            and bool((np.diff(start) >= 0).all())
            and np.array_equal(np.sort(arrays["order"]), live)
        )

    def is_sound(self, table: np.ndarray, arrays: Arrays) -> bool:
        """Whether contexts are allowed, their lengths and values are correct, and G fits them."""
        x, square, own, age = (arrays[name] for name in ("x", "square", "own", "age"))
        _, free, clock = arrays["count"].tolist()
        unused = slice(free, free + 1)
        if np.abs(arrays["coef"]).max(initial=0) > largest(table.dtype) ** 2:
            return False
        if x[:, unused].any() or arrays["coef"][unused].any() or square[unused].any():
            return False
        if not np.allclose(square, np.square(x).sum(axis=0), rtol=ROUNDING, atol=0):
            return False
        try:
            for values in np.delete(x, unused, axis=1).T:
                self.check(values)
        except ValueError:
            return False
        if self.kernel.kind != GIVEN:
            same = [plain(value)(self.kernel, s, s, s) for s in square.tolist()]
            same[unused] = [0.0] * len(same[unused])
            if not np.allclose(own, same, rtol=ROUNDING, atol=0):
                return False
        if (own < 0).any() or (age < 0).any() or (age >= max(clock, 1)).any():
            return False
        if self.prior is None:
            return True
        noise = arrays["noise"]
        if noise[unused].any() or (np.delete(noise, unused) <= 0).any():
            return False
        parts = [arrays["order"][first:end] for first, end in pairwise(arrays["start"])]
        return (
            self.kernel.kind == GIVEN
            or all(  # a function may be anything
                is_inverse(arrays["G"][slots, : len(slots)], noise[slots], own[slots])
                for slots in parts
            )
        )

    def in_words(self, features: int, labels: int) -> str:
        return f"A budget of {self.budget:,} contexts, {super().in_words(features, labels)}"

    def size(self, features: int, labels: int) -> int:
        slots = self.budget + 1
        numbers = features + lanes_for(labels) + 8 + (slots + 8 if self.prior else 0)
        return 8 * (slots * numbers + labels)

    def weights(self, held: Any, labels: int) -> np.ndarray:
        """The coefficients [label, stored context]."""
        top, free, _ = _points(held).count
        return np.delete(_points(held).coef[:top, :labels], slice(free, free + 1), axis=0).T

    def faded(self, table: np.ndarray, arrays: Arrays, keep: float) -> tuple[np.ndarray, Arrays]:
        """Observations count less: their variance becomes r/keep.

        A projection may give a label coefficients a_o of other labels' contexts o. These fade in
        proportion. The coefficients a_t = G z of its own contexts t become
        G'(z + (1 - keep) K_to a_o).
        """
        coef, faded = arrays["coef"], keep * arrays["coef"]
        if self.prior is None:
            return table, {**arrays, "coef": faded}
        G, start = np.zeros_like(arrays["G"]), arrays["start"]
        noise = np.minimum(arrays["noise"] / keep, np.maximum(arrays["noise"], MOST_NOISE))
        for label, (first, end) in enumerate(pairwise(start)):
            own, size = arrays["order"][first:end], end - first
            inverse = np.linalg.inv(arrays["G"][own, :size])
            inverse = (inverse + inverse.T) / 2
            less = np.linalg.inv(inverse + np.diag(noise[own] - arrays["noise"][own]))
            G[own, :size] = (less + less.T) / 2
            foreign = coef[:, label].copy()
            foreign[own] = 0
            wanted = inverse @ coef[own, label]
            far = np.flatnonzero(foreign)
            if size and len(far):
                x = arrays["x"].T
                wanted += (1 - keep) * self.matrix(x[own], x[far]) @ foreign[far]
            faded[own, label] = G[own, :size] @ wanted
        return table, {**arrays, "G": G, "noise": noise, "coef": faded}

    def matrix(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """The kernel's values between rows."""
        kind, scale, constant, degree, _ = self.kernel
        if kind == GIVEN:
            return self._asked(X, Y)
        dots = X @ Y.T
        if kind == RBF:
            squares = (X * X).sum(axis=1)[:, None] + (Y * Y).sum(axis=1) - 2 * dots
            return np.exp(-scale * np.maximum(squares, 0))
        if kind == RATIONAL:
            return 1 / (1 - scale * dots)
        return (scale * dots + constant) ** degree if kind == POLYNOMIAL else dots

    def _asked(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """The values of the function, checked."""
        name, wanted = self.settings["kernel"], (len(X), len(Y))
        given = self._function(X, Y)
        try:
            values = np.asarray(given)
        except ValueError:  # rows of different lengths
            values = np.empty(0)
        if values.shape != wanted or values.dtype.kind not in "biuf":
            raise ValueError(
                f"kernel {name!r} must give numbers of shape {wanted}, one for each pair of rows, "
                f"not {type(given).__name__} of {values.dtype} and shape {values.shape}"
            )
        if not np.isfinite(values).all():
            raise ValueError(f"kernel {name!r} gives values that are not finite")
        return values.astype(np.float64)

    def check(self, values: np.ndarray, indptr: np.ndarray | None = None) -> None:
        """Refuse contexts for which the kernel has no value, or one too large."""
        kind, scale, constant, degree, _ = self.kernel
        if kind in (RBF, GIVEN):
            return
        square = largest_square(values, indptr)
        if kind == RATIONAL and not scale * square < 1 - 1e-9:
            raise ValueError(
                f"kernel {self.settings['kernel']!r} is for contexts shorter than "
                f"{scale**-0.5:.4g}, not of length {square**0.5:.4g}: scale them"
            )
        most = 2 * math.log(largest(values.dtype)) / degree
        if kind == POLYNOMIAL and not math.log(scale * square + constant) < most:
            raise ValueError(
                f"kernel {self.settings['kernel']!r} has no numbers for a context of length "
                f"{square**0.5:.4g}: scale it"
            )
        own = (scale * square + constant) ** degree if kind == POLYNOMIAL else square
        if self.prior and own > MOST_EVIDENCE * self.prior:
            raise ValueError(
                f"kernel {self.settings['kernel']!r} is {own:.3g} for a context of length "
                f"{square**0.5:.4g}, too much to compute with: at most "
                f"{MOST_EVIDENCE * self.prior:.3g} here; scale contexts to length 1"
            )


def _points(held: Any) -> Points:
    return held if isinstance(held, Points) else held.points


def storage_for_kernel(
    learner: Any, otherwise: Storage = TABLE, *, prior: float | None = None
) -> Storage:
    """The storage for a learner's kernel; otherwise: the storage without a kernel."""
    if learner.kernel is None:
        return otherwise
    return Dual(learner.kernel, learner.budget, learner.remove, learner.seed, prior)


KERNEL = setting(
    default=None,
    check=lambda name, value: value,
    in_use=named_by_storage,
    doc='"linear", "polynomial", "rbf" or "rational", with numbers as in "rbf(gamma=2)": store '
    "contexts instead of weights, and compare them by the kernel; or a function f(X, Y) of two "
    "arrays of rows that returns the matrix of values, as scikit-learn's kernels do",
)
BUDGET = setting(
    default=1000,
    least=1,
    most=10**6,
    in_use=named_by_storage,
    doc="with a kernel: the maximum number of stored contexts",
)
REMOVE = setting(
    default="oldest",
    choices=REMOVE_RULES,
    in_use=named_by_storage,
    doc='with a kernel: which context is removed when the budget is exceeded, the "oldest", a '
    '"random" one or the "smallest"',
)
