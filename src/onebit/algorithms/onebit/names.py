"""Names of labels: an expert that begins with what they say, and a head start for others.

A name, together with the description of its label, is read as a context. The likeness of a context
to a name is the cosine of the two over the features of all names, of which rare ones count more:
log(1 + K / the number of names that have it).

The expert's scores are those of naive Bayes plus the likeness times a pull. The pull follows the
likelihood of the answers by Newton's method, so names that say less than the answers so far fade.

Names may say nothing, or something false. So they are tested: a fixed forecast by the likeness
alone is compared with a guess, by the likelihood of the answers. If the odds become bad, the expert
is naive Bayes without names. If they become good, names are *proven*: then the scores of softmax
models, too, begin with the likeness times the pull, as if the weights had been learned from the
names, and what wrong answers say of other labels follows the names, too.
"""

from __future__ import annotations

import math

import numpy as np

from onebit.algorithms.onebit.dense import Dense
from onebit.algorithms.onebit.experts import (
    FIRST_CURVATURE,
    KIND,
    LAST,
    NAMED,
    NARROW,
    SOFTMAX,
)
from onebit.algorithms.onebit.records import CURVATURE, EXPECTED, ODDS, PULL
from onebit.algorithms.onebit.softmax import softmax
from onebit.algorithms.onebit.sparse import Sparse
from onebit.core.jit import generic, implement, inline, not_inlined, outline
from onebit.core.lanes import at

MEMORY = 0.999  # of the odds and of the curvature of the pull's likelihood, per answer
RAREST = 1e-3  # probabilities are believed between this and 1 - this
STRONGEST = 200.0  # pull
# Odds, as logarithms: from where on names are trusted in part, and wholly; from where on they are
# proven in part, and wholly; and the farthest.
IN_DOUBT, NOT_IN_DOUBT, HARDLY_PROVEN, PROVEN, FARTHEST = -5.0, -3.0, 1.0, 2.0, 20.0


@inline
def _line_of(places, place):
    """The line of a feature of names; -1: no name has it."""
    low, high = 0, len(places)
    while low < high:
        middle = (low + high) // 2
        if places[middle] < place:
            low = middle + 1
        else:
            high = middle
    return low if low < len(places) and places[low] == place else -1


@outline
def _compare(names, row, stop, scale, likeness):
    """The likeness of a context to each name."""
    not_inlined()
    square = 0.0
    for label in range(len(likeness)):
        likeness[label] = 0.0
    for i in range(row.start, stop):
        line = _line_of(names.places, at(row.indices, i))
        if line >= 0:
            x = abs(np.float64(at(row.values, i)) * np.float64(scale)) * names.rarities[line]
            square += x * x
            for part in range(names.starts[line], names.starts[line + 1]):
                likeness[names.labels[part]] += x * names.parts[part]
    if square > 0.0:
        for label in range(len(likeness)):
            likeness[label] /= math.sqrt(square)


@outline
def _test(pull, likeness, mask, p, said, right):
    """Compare the fixed forecast with a guess. p: scratch space."""
    not_inlined()
    top, mean, labels = -np.inf, 0.0, 0
    for label in range(len(mask)):
        if mask[label] == 0:
            top, mean, labels = max(top, likeness[label]), mean + likeness[label], labels + 1
    mean /= labels
    if labels < 2 or top - mean < 1e-6:  # they say nothing of this context
        return
    for label in range(len(mask)):
        p[label] = math.log(1.0 * labels) * (likeness[label] - mean) / (top - mean)
    softmax(p, mask, p)
    guess = 1.0 / labels
    ratio = math.log(p[said] / guess if right else (1.0 - p[said]) / (1.0 - guess))
    pull[ODDS] = min(max(MEMORY * pull[ODDS] + ratio, -FARTHEST), FARTHEST)


@outline
def _follow(pull, likeness, bayes, mask, p, said, right):
    """Follow the likelihood of an answer, by the forecast that trusts the names. p: scratch."""
    not_inlined()
    for label in range(len(mask)):
        p[label] = np.float64(bayes[label]) + pull[PULL] * likeness[label]
    softmax(p, mask, p)
    mean = 0.0
    for label in range(len(mask)):
        mean += p[label] * likeness[label]
    gap, chance = likeness[said] - mean, min(max(p[said], RAREST), 1.0 - RAREST)
    odds = chance / (1.0 - chance)
    curvature = MEMORY * pull[CURVATURE] + odds * gap * gap + (1.0 - MEMORY) * FIRST_CURVATURE
    moved = pull[PULL] + (gap if right else -gap * odds) / curvature
    pull[CURVATURE] = curvature
    pull[PULL] = min(max(moved, 0.0), STRONGEST)


@inline
def _share(odds, none, whole):
    return min(max((odds - none) / (whole - none), 0.0), 1.0)


# In a state. Dense rows have no names.


@generic
def compare_names(state, context):
    """Find the likeness of a context, and begin the scores of softmax models with it."""


@generic
def sum_up_named(state, sums):
    """Scores of the expert with names, after those of naive Bayes. sums: of all experts."""


@generic
def expect(state, work):
    """Fill in the chances of the labels that naive Bayes learns wrong answers with."""


@generic
def learn_names(state, mask, said, right):
    """Learn an answer."""


@inline
def _are_there(state):
    return len(state.held.experts.trust) > NAMED


@implement(compare_names, Sparse)
def _compare_sparse(state, context):
    names, experts = state.held.names, state.held.experts
    if _are_there(state):
        _compare(names, context.row, context.narrow, context.scale, names.likeness)
        pull = names.pull[PULL] * _share(names.pull[ODDS], HARDLY_PROVEN, PROVEN)
        if pull > 0.0:
            _begin(experts.sums, pull, names.likeness)


@outline
def _begin(sums, pull, likeness):
    not_inlined()
    for expert in range(NARROW):
        if KIND[expert] == SOFTMAX:
            for label in range(sums.shape[1]):
                sums[2 * expert, label] += sums.dtype.type(pull * likeness[label])


@implement(sum_up_named, Sparse)
def _sum_up_sparse(state, sums):
    names = state.held.names
    if _are_there(state):
        pull = names.pull[PULL] * _share(names.pull[ODDS], IN_DOUBT, NOT_IN_DOUBT)
        for label in range(sums.shape[1]):
            score = sums[2 * LAST, label] + sums.dtype.type(pull * names.likeness[label])
            sums[2 * NAMED, label] = score


@implement(expect, Sparse)
def _expect_sparse(state, work):
    experts, names = state.held.experts, state.held.names
    by_bayes = _are_there(state) and names.pull[ODDS] < PROVEN
    for label in range(len(work.mask)):
        by_all = np.float64(work.scores[label])
        p = experts.forecasts[LAST, label] if by_bayes else by_all
        experts.scratch[EXPECTED, label] = p


@implement(learn_names, Sparse)
def _learn_sparse(state, mask, said, right):
    names, experts = state.held.names, state.held.experts
    if _are_there(state):
        p = experts.scratch[EXPECTED]
        _test(names.pull, names.likeness, mask, p, said, right)
        _follow(names.pull, names.likeness, experts.sums[2 * LAST], mask, p, said, right)


@implement(compare_names, Dense)
def _compare_dense(state, context):
    return None


@implement(sum_up_named, Dense)
def _sum_up_dense(state, sums):
    return None


@implement(expect, Dense)
def _expect_dense(state, work):
    return None


@implement(learn_names, Dense)
def _learn_dense(state, mask, said, right):
    return None
