"""SOBA: Beygelzimer, Orabona, Zhang, "Efficient online bandit multiclass learning with O~(sqrt T)
regret", ICML 2017.

A second-order Perceptron that learns only from right answers. Let a be the said label, P(a) its
probability, r its best rival and d = u_r - u_a the difference of their scores. If a was right:

- g = (e_r - e_a) x' / P(a), z = sqrt(P(a)) g, m = (d^2 + 2 d)/P(a) / (1 + z' A^-1 z);
- if the sum of m over the accepted rounds stays at least 0, the round is accepted: A += z z',
  theta -= g, W = A^-1 theta; otherwise it is skipped.

If bits are flipped, g is multiplied by the unbiased estimate of the true bit (see `flips`),
and z with it. Every z has two labels, so A does not fall into blocks: the full form keeps K d by
K d numbers, the diagonal form the diagonal.

The table holds W (plane 0) and 1/A (plane 1), or in the full form only W. The memory holds the sum
of m.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import msgspec
import numpy as np

from onebit.algorithms.exploration import exploration
from onebit.algorithms.flips import RHO0, RHO1, _CorrectsFlips, unflipped
from onebit.core.choosing import (
    best,
    epsilon_greedy,
    explore_uniformly,
    explored_uniformly,
    runner_up,
)
from onebit.core.jit import generic, implement, inline
from onebit.core.lanes import aligned_zeros, at
from onebit.core.rounds import Choice
from onebit.core.settings import Range, setting
from onebit.core.sums import linear_score, number
from onebit.core.updates import regress
from onebit.learner.decision import Decision
from onebit.learner.looking import present_scores
from onebit.storage.base import TABLE, Arrays, Storage
from onebit.storage.full import FORM, FormName, Full, is_between, shrink_by


@generic
def pair_variance(state, row, label, rival):
    """e' A^-1 e with e = (e_r - e_a) x'."""
    table, variance = state.table, 0.0
    for i in range(row.start, row.stop):
        j, x = at(row.indices, i), np.float64(at(row.values, i))
        variance += x * x * (np.float64(table[j, 1, label]) + np.float64(table[j, 1, rival]))
    return variance


@generic
def pair_step(state, row, label, rival, pull, weight, variance):
    """A += weight e e', theta -= pull e, W = A^-1 theta."""
    regress(state, row, label, pull, weight)
    regress(state, row, rival, -pull, weight)


# The full form. Rows of A are ordered by feature, then by label: a new feature adds at the end.


class Whole(NamedTuple):
    """The inverse of A, and scratch space."""

    matrix: Any  # [feature x label, feature x label]
    column: Any  # A^-1 e
    labels: Any


@implement(pair_variance, Whole)
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


@implement(pair_step, Whole)
def whole_step(state, row, label, rival, pull, weight, variance):
    """Both changes, of theta by e and of A^-1 by rank one, move W along A^-1 e."""
    table, (matrix, column, labels) = state.table, state.held
    lead = 0.0  # under the present weights
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


class Joint(Full):
    """The inverse of A: one matrix for all labels together."""

    def lay_out(self, arrays: Arrays, features: int, labels: int) -> Any:
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

    def arrays(self, held: Any, features: int, labels: int) -> Arrays:
        size = features * labels
        shape = (features, labels, features, labels)
        return {"matrix": held.matrix[:size, :size].reshape(shape).copy()}

    def fits(self, arrays: Arrays, features: int, labels: int) -> bool:
        matrix = arrays.get("matrix", np.empty(0))
        return len(arrays) == 1 and matrix.shape == (features, labels, features, labels)

    def is_sound(self, table: np.ndarray, arrays: Arrays) -> bool:
        size = len(table) * table.shape[2]
        return is_between(arrays["matrix"].reshape(size, size), self.start)

    def size(self, features: int, labels: int) -> int:
        return 8 * (features * labels) ** 2

    def faded(self, table: np.ndarray, arrays: Arrays, keep: float) -> tuple[np.ndarray, Arrays]:
        """Keep a share of theta, and of what A has beyond its prior: they are sums."""
        table = table.astype(np.float64)
        shape, W = arrays["matrix"].shape, table[:, 0].reshape(-1)
        A = np.linalg.inv(arrays["matrix"].reshape(len(W), len(W)))
        less = keep * A + (1 - keep) / self.start * np.eye(len(W))
        matrix = np.linalg.inv(less)
        table[:, 0] = keep * (matrix @ (A @ W)).reshape(table[:, 0].shape)
        return table, {"matrix": ((matrix + matrix.T) / 2).reshape(shape)}


@inline
def with_rival(state, work, choice):
    """The choice with the label that scores highest beside the said one, and its lead over it."""
    rival = runner_up(state, work, choice.label)
    lead = np.float64(work.scores[rival]) - np.float64(work.scores[choice.label])
    return Choice(choice.label, choice.greedy, choice.propensity, np.float64(rival), lead)


@inline
def could_be_rival(work, turn, choice):
    """Whether `with_rival` can have returned this choice."""
    rival, lead = choice.note, choice.second_note
    is_label = 0.0 <= rival < len(work.mask) and rival == np.floor(rival)
    if not (is_label and abs(lead) < math.inf):
        return False
    if work.mask[int(rival)] != 0 or (rival == choice.label and turn.count > 1):
        return False
    if choice.label == choice.greedy:  # it has the highest score
        return lead <= 0.0
    return rival == choice.greedy and lead >= 0.0


class SOBA(_CorrectsFlips):
    """Second-order bandit Perceptron (Beygelzimer, Orabona, Zhang 2017).

    The full form has the matrix of the paper, with K d x K d numbers; it is for small problems.
    With rho0 above 0, it also learns from wrong answers.

    >>> import onebit as ob
    >>> iris = ob.datasets.iris()
    >>> learner = ob.SOBA(iris.labels, form="full", gamma=0.05)
    >>> trace = ob.simulate(learner, iris, order="shuffled", epochs=10)
    >>> float(trace.error[-1].round(2))
    0.19
    """

    planes = 2
    no_lists = "it learns from a single said label and the rival that this label had"
    form: FormName = FORM
    gamma: float = exploration(0.01, or_zero=True)
    rho0: float = RHO0
    rho1: float = RHO1
    a: float = setting(
        default=1.0, above=0, search=Range(0.01, 100), doc="initial value of the matrix"
    )

    score = linear_score
    law = epsilon_greedy.law
    lockstep = regress

    @staticmethod
    def say(params, state, work, turn):
        choice = explore_uniformly(work, turn, params.gamma, best(state, work))
        return with_rival(state, work, choice)

    @staticmethod
    def noted(params, state, work, turn, choice):
        return with_rival(state, work, choice)

    @staticmethod
    def could_say(params, state, work, row, turn, choice):
        is_drawn = explored_uniformly(turn, params.gamma, choice)
        return is_drawn and could_be_rival(work, turn, choice)

    @staticmethod
    def could_note(params, state, work, row, turn, choice):
        return could_be_rival(work, turn, choice)

    @staticmethod
    def hear(params, state, work, row, turn, choice, right):
        bit = unflipped(params.rho0, params.rho1, right)
        if bit == 0.0:
            return False
        label, rival, lead = choice.label, int(choice.note), choice.second_note
        if rival == label:  # only this label was possible
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
        scores = present_scores(self, said)
        own = scores[place]
        scores[place] = -np.inf
        rival = int(np.argmax(scores))
        return msgspec.structs.replace(said, note=float(rival), other=float(scores[rival] - own))

    def _is_sound(self, table: np.ndarray, memory: np.ndarray) -> bool:
        return super()._is_sound(table, memory) and bool((memory >= 0).all())

    def _fill(self) -> tuple[float, ...]:
        return 0.0, 1.0 / self.a
