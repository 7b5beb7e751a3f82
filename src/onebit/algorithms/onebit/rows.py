"""Loops over a row: scores and variances of experts with weights, and steps of their weights.

Each has a twin of whole arrays that is quick uncompiled. Like other
large functions, they take only the arrays that they need: with whole states, compiling would take
longer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onebit.algorithms.onebit.experts import NARROW, bare_expert
from onebit.algorithms.onebit.records import is_left_out
from onebit.core.jit import compiled_as, not_inlined, outline
from onebit.core.lanes import at, fetch, load, save, store, unit
from onebit.core.sums import blocks, number

PAIRS, PAIRS_AGAIN = (0, 2), (1, NARROW - 1)  # summed in pairs: the first, and how far the next


def sum_pair(table: Any, plane: Any, row: Any, stop: Any, scale: Any, start: Any, out: Any) -> None:
    """Scores and variances of two experts, to be added to those of the constant feature.

    plane: where they begin in the table; start, out: [4, label].
    """
    features, x = row.indices[row.start : stop], row.values[row.start : stop] * scale
    factors = np.stack([x, x * x, x, x * x], axis=1)[:, :, None]
    terms = table.table[features, plane : plane + 4] * factors
    out[:] = np.concatenate([start[None], terms]).cumsum(axis=0)[-1]  # in a loop's order


@compiled_as(sum_pair)
def _sum_pair(table, plane, row, stop, scale, start, out):
    for block in range(blocks(table)):
        score, variance = fetch(table, start[0], block), fetch(table, start[1], block)
        score_2, variance_2 = fetch(table, start[2], block), fetch(table, start[3], block)
        for i in range(row.start, stop):
            j, x = at(row.indices, i), at(row.values, i) * scale
            score = score + load(table, j, plane, block) * x
            variance = variance + load(table, j, plane + 1, block) * (x * x)
            score_2 = score_2 + load(table, j, plane + 2, block) * x
            variance_2 = variance_2 + load(table, j, plane + 3, block) * (x * x)
        store(table, out[0], block, score)
        store(table, out[1], block, variance)
        store(table, out[2], block, score_2)
        store(table, out[3], block, variance_2)


def move_row(
    table: Any, plane: Any, row: Any, stop: Any, scale: Any, constant: Any, change: Any
) -> None:
    """w += step s x, 1/s += shrinkage x^2, for all labels.

    plane: where the expert begins in the table; constant: [2, label]; change: step and shrinkage.
    """
    step, shrinkage = change
    features, x = row.indices[row.start : stop], row.values[row.start : stop] * scale
    x = x[:, None]
    s = table.table[features, plane + 1]
    table.table[features, plane] += step * (s * x)
    table.table[features, plane + 1] = s / (1 + shrinkage * (s * x * x))
    s = constant[1].copy()
    constant[0] += step * s
    constant[1] = s / (1 + shrinkage * s)


@compiled_as(move_row)
def _move_row(table, plane, row, stop, scale, constant, change):
    weights, variances, steps, shrinkages = constant[0], constant[1], change[0], change[1]
    for block in range(blocks(table)):
        step, shrinkage = fetch(table, steps, block), fetch(table, shrinkages, block)
        s = fetch(table, variances, block)
        store(table, weights, block, fetch(table, weights, block) + step * s)
        store(table, variances, block, s / (unit(s) + shrinkage * s))
        for i in range(row.start, stop):
            j, x = at(row.indices, i), at(row.values, i) * scale
            s = load(table, j, plane + 1, block)
            sx = s * x
            save(table, j, plane, block, load(table, j, plane, block) + step * sx)
            save(table, j, plane + 1, block, s / (unit(s) + shrinkage * (sx * x)))


@outline
def sum_up(narrow, wide, constant, trust, sums, context, with_all):
    """Scores and variances of a context, of all experts or only of those that learn again."""
    not_inlined()
    row, wide_row, scale = context.row, context.wide, context.scale
    first, gap = PAIRS if with_all else PAIRS_AGAIN
    for expert in range(first, bare_expert(constant), gap):
        plane = 2 * expert
        start, out = constant[plane : plane + 4], sums[plane : plane + 4]
        if expert < NARROW:
            sum_pair(narrow, plane, row, context.narrow, scale, start, out)
        elif not is_left_out(trust, expert):
            own = plane - 2 * NARROW
            sum_pair(wide, own, wide_row, wide_row.stop, number(wide, 1.0), start, out)
    if with_all:
        for plane in range(2 * bare_expert(constant), len(constant)):
            for label in range(constant.shape[1]):
                sums[plane, label] = constant[plane, label]
