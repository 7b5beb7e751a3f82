"""Logistic regressions of the answer, per label."""

from __future__ import annotations

import numpy as np

from onebit.algorithms.onebit.records import COMMON, UNSURE
from onebit.core.choosing import sigmoid
from onebit.core.jit import inline
from onebit.core.lanes import at
from onebit.core.sums import number

LOGISTIC_STEPS, LEAST_CURVE = 30, 1e-3


@inline
def learn_logistic(table, plane, row, stop, scale, constant, sums, line, label, right):
    """An answer for the logistic model of a label, and for the constant that all labels share.

    Minimises (moved - score)^2 / (2 variance) - log P(answer | moved). line: of `Experts.trust`.
    """
    score = line[COMMON] + np.float64(sums[0, label])
    variance = line[UNSURE] + np.float64(sums[1, label])
    bit, moved = 1.0 if right else 0.0, score
    for _ in range(LOGISTIC_STEPS):
        p = sigmoid(moved)
        step = ((moved - score) / variance + p - bit) / (1.0 / variance + p * (1.0 - p))
        moved -= min(max(step, -2.0), 2.0)
        if abs(step) < 1e-6:
            break
    p, slope = sigmoid(moved), (moved - score) / variance
    curve = max(p * (1.0 - p), LEAST_CURVE)
    line[COMMON] += slope * line[UNSURE]
    line[UNSURE] /= 1.0 + curve * line[UNSURE]
    step, shrinkage, unit = number(table, slope), number(table, curve), number(table, 1.0)
    s = constant[1, label]
    constant[0, label] += step * s
    constant[1, label] = s / (unit + shrinkage * s)
    for i in range(row.start, stop):
        j, x = at(row.indices, i), at(row.values, i) * scale
        s = table.table[j, plane + 1, label]
        table.table[j, plane, label] += step * s * x
        table.table[j, plane + 1, label] = s / (unit + shrinkage * s * x * x)
