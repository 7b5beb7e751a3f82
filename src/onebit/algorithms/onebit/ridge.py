"""Ridge regressions of the answer, +1 or -1, per label."""

from __future__ import annotations

import numpy as np

from onebit.core.jit import inline, not_inlined, outline
from onebit.core.lanes import at
from onebit.core.sums import dot, dot_and_variance, number
from onebit.core.updates import regress


@inline
def learn_ridge(table, plane, row, stop, scale, constant, sums, label, answer):
    """An answer for the ridge regression of a label: w += s x (z - w.x)/(1 + v), 1/s += x^2."""
    score, variance = np.float64(sums[0, label]), np.float64(sums[1, label])
    step = number(table, (answer - score) / (1.0 + variance))
    unit = number(table, 1.0)
    s = constant[1, label]
    constant[0, label] += step * s
    constant[1, label] = s / (unit + s)
    for i in range(row.start, stop):
        j, x = at(row.indices, i), at(row.values, i) * scale
        s = table.table[j, plane + 1, label]
        table.table[j, plane, label] += step * s * x
        table.table[j, plane + 1, label] = s / (unit + s * x * x)


LEAST_WEIGHT = 1e-3  # of their expert; below it, their widths are not worth the time


@outline
def sum_up_matrices(full, row, weight, out, sums):
    not_inlined()
    scores, variances = out[0], out[1]
    variances[:] = 0.0
    if weight < LEAST_WEIGHT:
        dot(full, row, 0, scores)
    else:
        dot_and_variance(full, row, scores, variances)
    for label in range(len(scores)):
        sums[0, label], sums[1, label] = scores[label], variances[label]


@outline
def learn_matrices(full, row, label, answer):
    not_inlined()
    regress(full, row, label, answer, 1.0)
