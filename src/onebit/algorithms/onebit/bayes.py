"""Complement naive Bayes from right and wrong: the expert of OneBit that learns from few answers.

For every feature and label, it sums up how much of the feature occurred in rounds of the *other*
labels (Rennie, Shih, Teevan & Karger 2003): with many labels, these sums are much larger than those
of the label itself. A wrong answer counts for the labels that were not said, in proportion to their
probabilities by all experts together. With x the sizes of a context's values, c the sums of a
feature, C those of all features and r its rarity, the score of a label is

    sum of x r (log C - log c) over the features of the context,

and the probabilities are the softmax of the scores times a temperature. The temperature follows
the likelihood of the answers by Newton's method.

New features speak for labels that were hardly seen, because C is small for a label that was seen
often. That finds labels. With two possible labels there are none to find, and new features are left
out.

The rarity of a feature is sqrt(log(1 + C/c)) / 5, with c and C added up over the first two labels:
these sums differ little between labels.

The sums start at ALPHA, also those of UNSEEN features that never occurred. Without these, all the
features that are known after a single answer would belong to that round, and the answer would say
nothing. log c is taken to be 32 (c^(1/32) - 1), which five square roots give: these
are vector operations, with the same bits everywhere.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onebit.algorithms.onebit.dense import Dense
from onebit.algorithms.onebit.experts import ALPHA, LAST
from onebit.algorithms.onebit.records import AFTER
from onebit.algorithms.onebit.sparse import Sparse
from onebit.core.jit import compiled_as, generic, implement, inline, not_inlined, outline
from onebit.core.lanes import at, bare, fetch, load, root, save, store, unit, zero
from onebit.core.sums import blocks, number

UNSEEN = 1_000
START, LOWEST, HIGHEST = 3.0, 0.3, 30.0  # temperatures
MEMORY = 0.999  # of the curvature of the temperature's likelihood, per answer
RAREST = 1e-3  # probabilities are believed between this and 1 - this
TEMPERATURE, CURVATURE = range(2)  # places in a temperature's record
_POWER = 32.0


def sum_logs(
    table: Any, plane: Any, row: Any, stop: Any, scale: Any, only_known: Any, total: Any, out: Any
) -> float:
    """out = sum of x r log(c) over the features of a row; only_known: over the known features.

    total: the sum of all features, for the first two labels together. Returns the sum of x r.
    """
    features, x = row.indices[row.start : stop], np.abs(row.values[row.start : stop] * scale)
    sums = table.table[features, plane]
    is_known = (sums[:, :2] != sums.dtype.type(ALPHA)).any(axis=1) | (not only_known)
    roots = sums[is_known]
    rarities = [_rarity(total, float(first) + float(second)) for first, second in roots[:, :2]]
    x = x[is_known] * np.array(rarities, x.dtype)
    for _ in range(5):
        roots = np.sqrt(roots)
    terms = (roots - 1) * (x * x.dtype.type(_POWER))[:, None]
    out[:] = np.concatenate([0 * out[None], terms]).cumsum(axis=0)[-1]  # in a loop's order
    return sum(x.tolist())


@compiled_as(sum_logs)
def _sum_logs(table, plane, row, stop, scale, only_known, total, out):
    mass = 0.0
    for block in range(blocks(table)):
        logs = zero(table)
        mass = 0.0
        for i in range(row.start, stop):
            j, x = at(row.indices, i), abs(at(row.values, i) * scale)
            if not only_known or _is_known(table, j, plane):
                first, second = table.table[j, plane, 0], table.table[j, plane, 1]
                x *= number(table, _rarity(total, np.float64(first) + np.float64(second)))
                mass += np.float64(x)
                c = load(table, j, plane, block)
                c = root(root(root(root(root(c)))))
                logs = logs + (c - unit(c)) * (x * number(table, _POWER))
        store(table, out, block, logs)
    return mass


@inline
def _rarity(total, occurred):
    return math.sqrt(math.log(1.0 + total / occurred)) / 5.0


@inline
def _is_known(table, feature, plane):
    """Whether a feature was counted: a round counts for one of the first two labels at least."""
    untouched, sums = number(table, ALPHA), table.table
    return sums[feature, plane, 0] != untouched or sums[feature, plane, 1] != untouched


def add_elsewhere(table: Any, plane: Any, row: Any, stop: Any, scale: Any, share: Any) -> None:
    """c += x share, for all labels."""
    features, x = row.indices[row.start : stop], np.abs(row.values[row.start : stop] * scale)
    table.table[features, plane] += x[:, None] * share


@compiled_as(add_elsewhere)
def _add_elsewhere(table, plane, row, stop, scale, share):
    for block in range(blocks(table)):
        part = fetch(table, share, block)
        for i in range(row.start, stop):
            j, x = at(row.indices, i), abs(at(row.values, i) * scale)
            save(table, j, plane, block, load(table, j, plane, block) + part * x)


@inline
def _mass(row, stop, scale):
    """The sum of x over a row."""
    total = 0.0
    for i in range(row.start, stop):
        total += np.float64(abs(at(row.values, i) * scale))
    return total


@outline
def _score(table, plane, elsewhere, temperature, row, stop, scale, mask, out):
    """Scores times the temperature; those of the possible labels have the mean 0."""
    not_inlined()
    possible = 0
    for label in range(len(mask)):
        possible += mask[label] == 0
    only_known, unseen, mean = possible == 2, ALPHA * UNSEEN, 0.0
    total = elsewhere[0] + elsewhere[1] + 2.0 * unseen
    mass = sum_logs(table, plane, row, stop, scale, only_known, total, out)
    for label in range(len(mask)):
        everything = elsewhere[label] + unseen
        all_features = mass * math.log(everything) if everything > 0.0 else 0.0
        out[label] = number(table, all_features - out[label])
        mean += out[label] / possible if mask[label] == 0 else 0.0
    for label in range(len(mask)):
        score = (out[label] - mean) * temperature[TEMPERATURE]
        out[label] = number(table, score if mask[label] == 0 else 0.0)


@outline
def _temper(temperature, forecast, scores, said, right):
    """Follow the likelihood of an answer."""
    not_inlined()
    mean = 0.0
    for label in range(len(forecast)):
        mean += forecast[label] * scores[label]
    gap = (scores[said] - mean) / temperature[TEMPERATURE]
    p = min(max(forecast[said], RAREST), 1.0 - RAREST)
    odds = p / (1.0 - p)
    curvature = MEMORY * temperature[CURVATURE] + odds * gap * gap + 1.0 - MEMORY
    moved = temperature[TEMPERATURE] + (gap if right else -gap * odds) / curvature
    temperature[CURVATURE] = curvature
    temperature[TEMPERATURE] = min(max(moved, LOWEST), HIGHEST)


@outline
def _count(table, plane, elsewhere, row, stop, scale, target, share):
    """Count a round whose label has the probabilities `target`; share: scratch space."""
    not_inlined()
    news, mass = 0, _mass(row, stop, scale)
    for i in range(row.start, stop):
        news += at(row.values, i) != 0.0 and not _is_known(table, at(row.indices, i), plane)
    for label in range(len(share)):
        share[label] = number(table, 1.0 - target[label])
        elsewhere[label] += mass * (1.0 - target[label]) + ALPHA * news
    add_elsewhere(table, plane, row, stop, scale, share)


# Naive Bayes as an expert of sparse rows. Dense rows do not have it.


@generic
def sum_up_bayes(state, context, mask, sums):
    """Scores of a context."""


@generic
def learn_bayes(state, context, said, right, is_known):
    """Learn an answer; is_known: whether the labels' probabilities after it are in the scratch."""


@implement(sum_up_bayes, Sparse)
def _sum_up(state, context, mask, sums):
    held, table = state.held, bare(state)
    _score(
        table, table.table.shape[1] - 1, held.elsewhere, held.temperature,
        context.row, context.narrow, context.scale, mask, sums,
    )  # fmt: skip


@implement(learn_bayes, Sparse)
def _learn(state, context, said, right, is_known):
    held, table, experts = state.held, bare(state), state.held.experts
    forecast, scores = experts.forecasts[LAST], experts.sums[2 * LAST]
    _temper(held.temperature, forecast, scores, said, right)
    if is_known:
        _count(
            table, table.table.shape[1] - 1, held.elsewhere,
            context.row, context.narrow, context.scale, experts.scratch[AFTER], experts.change[0],
        )  # fmt: skip


@implement(sum_up_bayes, Dense)
def _sum_up_nothing(state, context, mask, sums):
    return None


@implement(learn_bayes, Dense)
def _learn_nothing(state, context, said, right, is_known):
    return None
