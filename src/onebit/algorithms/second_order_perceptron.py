"""Second-order Perceptron: Cesa-Bianchi, Conconi, Gentile, "A second-order Perceptron algorithm",
SIAM J. Computing 2005; with a diagonal matrix per label. A reference: it learns from true labels.

The score of label i is the sum over features j of b_ij x_j / (A_ij + x_j^2): the present context
counts as if it were already in A. If the greedy label h is not the true label y: b_y += x,
b_h -= x, A_y += x^2, A_h += x^2. The table holds b (plane 0) and A (plane 1).
"""

from __future__ import annotations

import numpy as np

from onebit.core.choosing import best, greedy
from onebit.core.jit import inline
from onebit.core.lanes import at, load, store, zero
from onebit.core.settings import Range, setting
from onebit.core.sums import blocks, sum_over_row
from onebit.core.updates import update_of_planes
from onebit.learner.learner import Learner


@inline
def term(state, row, i, plane, block):
    j, x = at(row.indices, i), at(row.values, i)
    return load(state, j, plane, block) * x / (load(state, j, plane + 1, block) + x * x)


@sum_over_row
def weigh(state, row, plane, out):
    """out[label] = sum over the row of value * b / (A + value^2); b in the plane, A in the next."""
    for block in range(blocks(state)):
        even, odd = zero(state), zero(state)
        i = row.start
        while i + 2 <= row.stop:
            even = even + term(state, row, i, plane, block)
            odd = odd + term(state, row, i + 1, plane, block)
            i += 2
        if i < row.stop:
            even = even + term(state, row, i, plane, block)
        store(state, out, block, even + odd)


@update_of_planes
def correct(b, A, x, step, widening):
    """b += step x, A += widening x^2: called as correct(state, row, label, step, widening)."""
    return b + step * x, A + widening * (x * x)


class SecondOrderPerceptron(Learner):
    """Second-order Perceptron (Cesa-Bianchi et al. 2005), diagonal; a reference that learns
    from true labels.

    >>> import onebit as ob
    >>> iris = ob.datasets.iris()
    >>> learner = ob.SecondOrderPerceptron(iris.labels, inputs="auto")
    >>> trace = ob.simulate(learner, iris, order="shuffled", epochs=10)
    >>> float(trace.error[-1].round(2))
    0.19
    """

    planes = 2
    full_information = True
    shows_lists = True
    a: float = setting(
        default=1.0, above=0, search=Range(0.01, 100), doc="initial value of the matrices"
    )

    say = greedy
    lockstep = correct

    @staticmethod
    def score(params, state, work, row, turn):
        weigh(state, row, 0, work.scores)

    @staticmethod
    def hear_label(params, state, work, row, turn, label):
        said = best(state, work)
        if said == label:
            return False
        correct(state, row, label, 1.0, 1.0)
        correct(state, row, said, -1.0, 1.0)
        return True

    def _fill(self) -> tuple[float, ...]:
        return 0.0, self.a

    def _faded(
        self, table: np.ndarray, memory: np.ndarray, keep: float
    ) -> tuple[np.ndarray, np.ndarray]:
        table[:, 0] *= keep
        table[:, 1] = self.a + keep * (table[:, 1] - self.a)
        return table, memory

    def _is_sound(self, table: np.ndarray, memory: np.ndarray) -> bool:
        return bool((table[:, 1] >= self.a * (1 - 1e-5)).all())

    def _weights(self) -> np.ndarray:
        return self.table.plane(0) / self.table.plane(1)
