"""SOBA: Beygelzimer, Orabona, Zhang, "Efficient online bandit multiclass learning with O~(sqrt T)
regret", ICML 2017.

A second-order Perceptron that learns only from right answers. With a right, r its best rival,
d = u_r - u_a and P the law of the said label: g = (e_r - e_a) x' / P(a), z = sqrt(P(a)) g,
m = (d^2 + 2 d)/P(a) / (1 + z' A^-1 z). If the running sum of accepted m stays at 0 or above:
A += z z', theta -= g, W = A^-1 theta. Else the round is skipped. Where bits are flipped, g is
multiplied by what stands for the true bit (see `flips`), and z follows it.

Two labels are in every z, so all of A hangs together: K d by K d numbers, or its diagonal alone.

The table holds W (plane 0) and 1/A (plane 1), or W alone beside the whole inverse; the memory the
running sum.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import msgspec
import numpy as np

from onebit.algorithms.exploration import exploration
from onebit.algorithms.flips import RHO0, RHO1, _CorrectsFlips, unflipped
from onebit.core.jit import inline
from onebit.core.lanes import aligned_zeros, at
from onebit.core.rounds import (
    Choice,
    best,
    by_form,
    epsilon_greedy,
    explore_uniformly,
    explored_uniformly,
    linear_score,
    number,
    regress,
    runner_up,
)
from onebit.decision import Decision
from onebit.settings import Range, setting
from onebit.storage.base import TABLE, Storage
from onebit.storage.full import FORM, FormName, Full, is_between, shrink_by


@inline
def variance_by_diagonal(state, row, label, rival):
    variance = 0.0
    for i in range(row.start, row.stop):
        j, x = at(row.indices, i), np.float64(at(row.values, i))
        variance += (
            x * x * (np.float64(state.table[j, 1, label]) + np.float64(state.table[j, 1, rival]))
        )
    return variance


@by_form(lambda state: variance_by_diagonal)
def pair_variance(state, row, label, rival):
    """e' A^-1 e with e = (e_r - e_a) x'."""


@inline
def step_by_diagonal(state, row, label, rival, pull, weight, variance):
    regress(state, row, label, pull, weight)
    regress(state, row, rival, -pull, weight)


@by_form(lambda state: step_by_diagonal)
def pair_step(state, row, label, rival, pull, weight, variance):
    """A += weight e e', theta -= pull e, W = A^-1 theta."""


# With all of A. Features come first in its order, then labels: one more feature adds at the end.


class Whole(NamedTuple):
    """The inverse of A, and room to work."""

    matrix: Any  # [feature x label, the same]
    column: Any  # A^-1 e
    labels: Any


@inline
def whole_variance(state, row, label, rival):
    matrix, column, labels = state.held
    size = state.table.shape[0] * labels
    for k in range(size):
        column[k] = 0.0
    for i in range(row.start, row.stop):
        j, x = at(row.indices, i), np.float64(at(row.values, i))
        plus, minus = matrix[j * labels + rival], matrix[j * labels + label]
        for k in range(size):
            column[k] += x * (plus[k] - minus[k])
    variance = 0.0
    for i in range(row.start, row.stop):
        j, x = at(row.indices, i), np.float64(at(row.values, i))
        variance += x * (column[j * labels + rival] - column[j * labels + label])
    return max(variance, 0.0)


@inline
def whole_step(state, row, label, rival, pull, weight, variance):
    """W moves by A^-1 e alone: what theta has of e, and what A^-1 loses, lie in this direction."""
    table, (matrix, column, labels) = state.table, state.held
    lead = 0.0  # the present one
    for i in range(row.start, row.stop):
        j, x = at(row.indices, i), np.float64(at(row.values, i))
        lead += x * (np.float64(table[j, 0, rival]) - np.float64(table[j, 0, label]))
    shrink = weight / (1.0 + weight * variance)
    change = (pull + weight * lead) / (1.0 + weight * variance)
    for j in range(table.shape[0]):
        for k in range(labels):
            moved = np.float64(table[j, 0, k]) - change * column[j * labels + k]
            table[j, 0, k] = number(state, moved)
    shrink_by(matrix, column, table.shape[0] * labels, shrink)


pair_variance.forms[Whole] = whole_variance
pair_step.forms[Whole] = whole_step


class Joint(Full):
    """One matrix for all labels together: the inverse of all of A."""

    def lay_out(self, arrays: dict[str, np.ndarray], features: int, labels: int) -> Any:
        size = features * labels
        matrix = aligned_zeros((size, size), np.float64)
        np.einsum("ii->i", matrix)[:] = self.start
        if arrays:
            old = arrays["matrix"]
            f, k, _, _ = old.shape
            matrix.reshape(features, labels, features, labels)[:f, :k, :f, :k] = old
        return Whole(matrix, aligned_zeros((size,), np.float64), labels)

    def room(self, held: Any) -> int:
        return len(held.column) // held.labels

    def arrays(self, held: Any, features: int, labels: int) -> dict[str, np.ndarray]:
        size = features * labels
        shape = (features, labels, features, labels)
        return {"matrix": held.matrix[:size, :size].reshape(shape).copy()}

    def fits(self, arrays: dict[str, np.ndarray], features: int, labels: int) -> bool:
        matrix = arrays.get("matrix", np.empty(0))
        return len(arrays) == 1 and matrix.shape == (features, labels, features, labels)

    def is_sound(self, table: np.ndarray, arrays: dict[str, np.ndarray]) -> bool:
        size = len(table) * table.shape[2]
        return is_between(arrays["matrix"].reshape(size, size), self.start)

    def size(self, features: int, labels: int) -> int:
        return 8 * (features * labels) ** 2

    def faded(
        self, table: np.ndarray, arrays: dict[str, np.ndarray], keep: float
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """theta and what A has beyond its prior are sums: a share of both is kept."""
        shape, W = arrays["matrix"].shape, table[:, 0].reshape(-1)
        A = np.linalg.inv(arrays["matrix"].reshape(len(W), len(W)))
        less = keep * A + (1 - keep) / self.start * np.eye(len(W))
        matrix = np.linalg.inv(less)
        table[:, 0] = keep * (matrix @ (A @ W)).reshape(table[:, 0].shape)
        return table, {"matrix": ((matrix + matrix.T) / 2).reshape(shape)}


class SOBA(_CorrectsFlips):
    """Second-order bandit Perceptron (Beygelzimer, Orabona, Zhang 2017).

    The full form has the matrix of the paper, with K d x K d numbers; it is for small problems.
    With rho0 above 0 wrong answers teach as well.
    """

    planes = 2
    form: FormName = FORM
    gamma: float = exploration(0.01, or_zero=True)
    rho0: float = RHO0
    rho1: float = RHO1
    a: float = setting(1.0, above=0, search=Range(0.01, 100), doc="what the matrix starts from")

    score = linear_score
    law = epsilon_greedy.law
    lockstep = regress

    @staticmethod
    def say(params, state, work, turn):
        said = explore_uniformly(work, turn, params.gamma, best(state, work))
        rival = runner_up(state, work, said.label)
        lead = np.float64(work.scores[rival]) - np.float64(work.scores[said.label])
        return Choice(said.label, said.greedy, said.propensity, np.float64(rival), lead)

    @staticmethod
    def could_say(params, state, work, row, turn, choice):
        if not explored_uniformly(turn, params.gamma, choice):
            return False
        rival, lead = choice.note, choice.other
        if not (
            0.0 <= rival < len(work.mask) and rival == np.floor(rival) and abs(lead) < math.inf
        ):
            return False
        if work.mask[int(rival)] != 0 or (rival == choice.label and turn.count > 1):
            return False
        # The best label scores highest: it leads all others, and is the rival of each of them.
        return (
            lead <= 0.0 if choice.label == choice.greedy else rival == choice.greedy and lead >= 0.0
        )

    @staticmethod
    def hear(params, state, work, row, turn, choice, right):
        bit = unflipped(params.rho0, params.rho1, right)
        if bit == 0.0:
            return False
        label, rival, lead = choice.label, int(choice.note), choice.other
        if rival == label:  # no other was possible
            return False
        pull = bit / choice.propensity
        weight = bit * pull
        variance = pair_variance(state, row, label, rival)
        m = (weight * lead * lead + 2.0 * pull * lead) / (1.0 + weight * variance)
        if not 0.0 <= state.memory[0] + m < math.inf:
            return False
        state.memory[0] += m
        pair_step(state, row, label, rival, pull, weight, variance)
        return True

    def _make_storage(self) -> Storage:
        return Joint(1.0 / self.a) if self.form == "full" else TABLE

    def _memory(self) -> tuple[float, ...]:
        return (0.0,)

    def _had_it_said(self, decision: Decision, place: int) -> Decision:
        said = super()._had_it_said(decision, place)
        scores = self._present_scores(said)
        own = scores[place]
        scores[place] = -np.inf
        rival = int(np.argmax(scores))
        return msgspec.structs.replace(said, note=float(rival), other=float(scores[rival] - own))

    def _is_sound(self, table: np.ndarray, memory: np.ndarray) -> bool:
        return super()._is_sound(table, memory) and bool((memory >= 0).all())

    def _fill(self) -> tuple[float, ...]:
        return 0.0, 1.0 / self.a
