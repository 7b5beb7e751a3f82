"""Newtron with a kernel: the same leader, from contexts (see `learner`, `storage.stored_contexts`).

Each stored context s is an observation of the label a that was said: phi_s = (P e_a) x_s'. It has a
weight om_s, the sum of kappa beta c^2 over the rounds that said a to this context, and a drive
ze_s, the sum of (1 - kappa beta g.W) c over these rounds. Then

    A = lam I + sum of om_s phi_s phi_s',    b = sum of ze_s phi_s,    W = -sum of e_s phi_s.

With Ga_st = phi_s.phi_t = k(x_s, x_t) (1[a_s = a_t] - 1/K), the leader solves
((lam + mu) I + om Ga) e = ze, and |W|^2 = e'Ga e. With e = sqrt(om) f this is symmetric:
(lam + mu + H) f = ze/sqrt(om), H = sqrt(om) Ga sqrt(om), |W|^2 = f'Hf.

The solver works with H, or with (lam + shift + H)^-1, which follows from G = ((lam + shift)/om +
Ga)^-1. G changes by rank one when an observation is added, removed or repeated. An observation that
is removed is forgotten as if it had never been made.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from onebit.algorithms.newtron import solver
from onebit.algorithms.newtron.solver import NONE
from onebit.algorithms.pnewtron import squared_length
from onebit.core.jit import implement, inline, not_inlined, outline
from onebit.core.lanes import aligned_zeros
from onebit.core.sums import dot as sum_of_row
from onebit.core.sums import squared_norm
from onebit.storage import stored_contexts as stored
from onebit.storage.base import Arrays
from onebit.storage.dual import Dual
from onebit.storage.full import ROUNDING, add_times, is_between, is_inverse, shrink_by
from onebit.storage.kernels import GIVEN, value
from onebit.storage.stored_contexts import SMALLEST, TOP, Points, clear, is_full, is_same, touch

LEAST = 1e-200  # least weight of an observation
UNKNOWN = 1e30  # in place of k(x, x), where a function gives it


class Observed(NamedTuple):
    """The observations by slot (one slot may be empty), and scratch space.

    Vectors over slots have a multiple of WIDTH numbers.
    """

    points: Any
    said: Any  # [slot] the label
    weight: Any  # [slot]; 0: the slot is empty
    drive: Any  # [slot]
    root: Any  # [slot] the root of the weight
    pull: Any  # [slot] drive / root
    Ga: Any  # [1, slot, slot]
    G: Any  # the same
    plan: Any  # the shift of the inverse, or NONE; for how many more rounds it is used
    leader: Any  # [slot] f
    column: Any  # [slot]
    image: Any  # [slot]
    labels: Any  # how many
    basis: Any  # see `solver.Space`
    small: Any
    eight: Any


@implement(solver.operate, Observed)
def operate(held, lam, inverse, space, v, out):
    root, column = held.root, held.column
    for slot in range(solver.length(space)):
        r = root[slot]
        column[slot] = v[slot] * r if not inverse else v[slot] / r if r > 0.0 else 0.0
    solver.times(space, held.G if inverse else held.Ga, column, True, out)
    for slot in range(solver.length(space)):
        r = root[slot]
        out[slot] = out[slot] * r if not inverse else out[slot] / r if r > 0.0 else 0.0


@implement(solver.geometry, Observed)
def geometry(held, lam, inverse):
    """|W|^2 = f'Hf, and H = B^-1 - (lam + shift) with the inverse."""
    return solver.Geometry(lam, 0.0, 1.0, -(lam + held.plan[0]) if inverse else 0.0)


@implement(solver.least, Observed)
def least_by_H(held, shifted):
    """For every eigenvalue h of H, sqrt(h)/(shifted + h) is at most the inverse of this."""
    return 2.0 * math.sqrt(shifted)


@implement(solver.make_inverses, Observed)
def make_inverse(held, size, lam, shift):
    G, weight = held.G[0], held.weight
    for i in range(size):
        G[i, :size] = 0.0
        add_times(G[i], 0, size, 1.0, held.Ga[0, i])
        G[i, i] += (lam + shift) / weight[i] if weight[i] > 0.0 else 1.0
    solver.invert(G, size, held.column)
    for i in range(size):
        if weight[i] == 0.0:
            G[i, i] = 0.0
    held.plan[0] = shift


@outline
def unborder(held, size, slot):
    """Take a line out of G."""
    not_inlined()
    G, column = held.G[0], held.column
    for k in range(size):
        column[k] = G[slot, k]
    if column[slot] > 0.0:
        shrink_by(G, column, size, 1.0 / column[slot])
    else:  # it consists of rounding errors
        held.plan[0] = NONE
    for k in range(size):
        G[slot, k], G[k, slot] = 0.0, 0.0


@outline
def border(held, space, size, slot, own):
    """Update G with a new line of Ga. own: the term added to the diagonal."""
    not_inlined()
    line, column, image = held.Ga[0, slot], held.column, held.image
    for k in range(solver.length(space)):
        column[k] = line[k] if k != slot else 0.0
    solver.times(space, held.G, column, True, image)
    left = own + line[slot] - solver.dot(space, column, image)
    if left > 0.0:
        image[slot] = -1.0
        shrink_by(held.G[0], image, size, -1.0 / left)
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
    """A slot for the row that was scored last, with its line of Ga."""
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


def observe(state, row, label, pull, growth, lam, radius):
    held = state.held
    points, weight, plan = held.points, held.weight, held.plan
    if not growth > LEAST or points.current[0] != stored.NONE:  # nothing to learn, or no values
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
    space = solver.space_for(held, 1, size)
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
    for s in range(solver.length(space)):
        held.root[s] = math.sqrt(weight[s])
        held.pull[s] = held.drive[s] / held.root[s] if weight[s] > 0.0 else 0.0
    if solver.find_leader(held, space, size, lam, radius):
        for s in range(size):
            e = held.root[s] * held.leader[s]
            for i in range(held.labels):
                points.coef[s, i] = e / held.labels
            points.coef[s, held.said[s]] -= e


@implement(sum_of_row, Observed)
def score_by_observed(state, row, plane, out):
    stored.look(state, state.held.points, row)
    stored.sum_up(state, state.held.points, out)


@implement(squared_length, Observed)
def squared_length_by_kernel(state, row):
    kernel, square = state.held.points.kernel, squared_norm(row)
    return UNKNOWN if kernel.kind == GIVEN else value(kernel, square, square, square)


class CoupledDual(Dual):
    """The observations of Newtron's rounds."""

    def __init__(self, learner: Any, D: float, reg: float) -> None:
        super().__init__(learner.kernel, learner.budget, learner.remove, learner.seed, None)
        self.D, self.reg = D, reg

    def lay_out(self, arrays: Arrays, features: int, labels: int) -> Observed:
        points = super().lay_out(_of_points(arrays), features, labels)
        slots, room = self.budget + 1, solver.padded(self.budget + 1)
        vectors = ("weight", "drive", "root", "pull", "leader", "column", "image")
        held = Observed(
            points=points,
            said=np.zeros(slots, np.int64),
            **{name: aligned_zeros((room,), np.float64) for name in vectors},
            **{name: aligned_zeros((1, room, room), np.float64) for name in ("Ga", "G")},
            plan=solver.no_inverses(),
            labels=labels,
            **solver.scratch(room),
        )
        if arrays:
            here = slice(len(arrays["said"]))
            for name in ("said", "weight", "drive"):
                getattr(held, name)[here] = arrays[name]
            if arrays["coef"].shape[1] < labels:
                held.Ga[0, here, here] = self._products(arrays, labels)
            else:
                held.Ga[0, here, here], held.plan[:] = arrays["Ga"], arrays["plan"]
                if held.plan[0] != NONE:
                    held.G[0, here, here] = arrays["G"]
        return held

    def _products(self, arrays: Arrays, labels: int) -> np.ndarray:
        """Ga for this number of labels."""
        live = np.flatnonzero(arrays["weight"])
        said, x = arrays["said"][live], arrays["x"].T[live]
        Ga = np.zeros_like(arrays["Ga"])
        if len(live):
            shared = (said[:, None] == said) - 1.0 / labels
            Ga[np.ix_(live, live)] = shared * self.matrix(x, x)
        return (Ga + Ga.T) / 2

    def arrays(self, held: Observed, features: int, labels: int) -> Arrays:
        kept = super().arrays(held, features, labels)
        here = slice(len(kept["age"]))
        own = {"said": held.said[here], "weight": held.weight[here], "drive": held.drive[here]}
        own |= {"Ga": held.Ga[0, here, here], "plan": held.plan}
        if held.plan[0] != NONE:
            own["G"] = held.G[0, here, here]
        return kept | {name: array.copy() for name, array in own.items()}

    def fits(self, arrays: Arrays, features: int, labels: int) -> bool:
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

    def is_sound(self, table: np.ndarray, arrays: Arrays) -> bool:
        """Whether Ga can be the kernel's matrix of the observations; empty slots are zero."""
        if not super().is_sound(table, _of_points(arrays)):
            return False
        used = np.flatnonzero(arrays["weight"])
        unused = np.delete(np.arange(len(arrays["weight"])), used)
        own = (1 - 1 / arrays["coef"].shape[1]) * arrays["own"][used]
        for matrix in (arrays["Ga"], arrays.get("G", arrays["Ga"])):
            if matrix[unused].any() or matrix[:, unused].any():
                return False
        Ga = arrays["Ga"][np.ix_(used, used)]
        if (
            arrays["drive"][unused].any()
            or (arrays["weight"][used] < LEAST).any()
            or not np.allclose(np.diagonal(Ga), own, rtol=ROUNDING, atol=0)
        ):
            return False
        return self.kernel.kind == GIVEN or is_between(Ga, float(own.sum()))

    def mended(self, table: np.ndarray, arrays: Arrays) -> tuple[np.ndarray, Arrays]:
        """Drop G unless it can be the inverse; compute a leader outside the ball anew."""
        used = np.flatnonzero(arrays["weight"])
        weight, own = arrays["weight"][used], np.diagonal(arrays["Ga"])[used]
        Ga, coef = arrays["Ga"][np.ix_(used, used)], arrays["coef"][used]
        e = 2 * np.abs(coef).max(axis=1, initial=0)
        e *= np.sign(coef[np.arange(len(used)), arrays["said"][used]])
        if "G" in arrays and self.kernel.kind != GIVEN:
            noise = (self.reg + arrays["plan"][0]) / weight
            if not is_inverse(arrays["G"][np.ix_(used, used)], noise, own):
                arrays = {name: array for name, array in arrays.items() if name != "G"}
                arrays["plan"] = solver.no_inverses()
        if float(e @ Ga @ e) > 4 * (2 * self.D) ** 2:  # a new label changes P, but not yet W
            arrays = self._led(arrays, arrays["weight"], arrays["drive"])
        return table, arrays

    def size(self, features: int, labels: int) -> int:
        room = solver.padded(self.budget + 1)
        return super().size(features, labels) + 8 * room * (2 * room + solver.LIMIT + 9)

    def faded(self, table: np.ndarray, arrays: Arrays, keep: float) -> tuple[np.ndarray, Arrays]:
        """Keep a share of weights and drives, which are sums, and find the leader anew."""
        used = arrays["weight"] > 0
        weight = np.where(used, np.maximum(keep * arrays["weight"], LEAST), 0.0)
        return table, self._led(arrays, weight, keep * arrays["drive"])

    def _led(self, arrays: Arrays, weight: np.ndarray, drive: np.ndarray) -> Arrays:
        """The arrays with the leader for these weights and drives."""
        said, labels, Ga = arrays["said"], arrays["coef"].shape[1], arrays["Ga"]

        def solution(mu: float) -> tuple[np.ndarray, Any, Any]:
            A = (self.reg + mu) * np.eye(len(Ga)) + weight[:, None] * Ga
            e = np.linalg.solve(A, drive)
            return e, math.sqrt(max(e @ Ga @ e, 0.0)), e @ Ga @ np.linalg.solve(A, e)

        e = solver.solve_in_ball(solution, self.D)[:, None]
        coef = e / labels - e * (said[:, None] == range(labels))
        changed = {"weight": weight, "drive": drive, "coef": coef, "plan": solver.no_inverses()}
        return {name: array for name, array in (arrays | changed).items() if name != "G"}


def _of_points(arrays: Arrays) -> Arrays:
    return {name: array for name, array in arrays.items() if name in Points._fields}
