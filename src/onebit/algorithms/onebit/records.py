"""Experts as records: what sparse and dense rows share.

An expert stores two values per feature and label: a weight, and the variance of that weight. The
weights of the constant feature are in a table of their own. The last rounds are kept in a ring, to
be learned again. The generic functions are those that each kind of rows implements (`sparse`,
`dense`).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from onebit.core.jit import generic, inline

KEPT_ROUNDS = 1000
OLDEST, KEPT, FREE, ENTRIES, HEARD, DENSE = range(6)  # places in Experts.count
LABEL, RIGHT, START, SIZE = range(4)  # places in Experts.rounds
TRUSTED = 9  # numbers of each expert in Experts.trust; their places:
WEIGHT, EVIDENCE, OFFSET, SLOPE, CURVE, CROSS, STEEP, COMMON, UNSURE = range(TRUSTED)
SAID, ANSWERED = range(2)  # places in Experts.tries
STEP, SHRINKAGE = range(2)  # places in Experts.change
# Evidence of experts that are left out, and the most that one of them has: no number of answers
# leads that far.
LEFT_OUT, HARDLY_ANY = -1e300, -1e200
TARGET, PREDICTED, MOVED, PRECISION, NEWTON, AFTER, EXPECTED = range(7)  # in Experts.scratch
PULL, CURVATURE, ODDS = range(3)  # places in Names.pull


# Compiling takes long if a record has many arrays, so few arrays hold much. It takes twice as long
# if a function is called with a constant and with a variable, as these have different types.


class Experts(NamedTuple):
    """What both storages hold, and scratch space. A lane is a label."""

    constant: Any  # [plane, lane] the weights and variances of the constant feature; the last two
    # planes are of the expert that has no other feature
    trust: Any  # [expert, 9] the expert's weight in the forecast, and the numbers behind it; of
    # logistic models, the constant that all labels share, and its variance
    tries: Any  # [2, lane] how often the label was said, and how often that was answered
    count: Any  # [6] oldest kept round, kept rounds, first free entry, kept entries, all answers; 1
    # for dense rows
    rounds: Any  # [4, KEPT_ROUNDS] what was said, 1 if that was right, a sparse row's place; a ring
    all_labels: Any  # [lane] the mask in which every label may be said
    sums: Any  # [plane, lane] scores and variances of the row that was summed last
    forecasts: Any  # [expert, lane] of the row that was scored last
    change: Any  # [2, lane] of the expert that learns: steps of scores, and by how much to shrink
    scratch: Any  # [7, lane] for the expert that learns; last, labels' chances after the answer
    # and before it


class Names(NamedTuple):
    """Names of labels as contexts: a line for each feature that a name has."""

    places: Any  # [line] of the features in the table; they increase
    rarities: Any  # [line] by which values of the feature are multiplied
    starts: Any  # [line + 1] where the entries of a line begin
    labels: Any  # [entry] of a name that has the feature
    parts: Any  # [entry] the feature's part in that name, whose length is 1
    pull: Any  # [3] how much scores follow the names, how well that is known, odds of the names
    likeness: Any  # [lane] scratch space: of the row that was scored last, to each name
    values: Any  # [entry] of the features, as they are read


class Input(NamedTuple):
    """A context as the experts see it."""

    row: Any
    narrow: Any  # where the row ends for narrow experts
    scale: Any  # by which the values of the row are multiplied
    wide: Any  # the row of wide experts


@generic
def prepared(state, row):
    """The Input of a row."""


@generic
def last_input(state, row):
    """The Input of a row that was the last to be prepared."""


@generic
def kept_input(state, place):
    """The Input of a kept round."""


@generic
def keep_row(state, row, place):
    """Keep the row that was prepared last."""


@generic
def make_room(state, row):
    """Drop the oldest rounds as far as a row needs room; False: there is no such room."""


@generic
def narrow_table(state):
    """The table of narrow experts."""


@generic
def wide_table(state):
    """The table of wide experts."""


@generic
def fix_scales(state, row):
    """Take the row, which was prepared last, into the scales. True: they are much better known now,
    and the kept rounds must be learned anew."""


@generic
def meet_row(state, row):
    """An answer about this row was learned: is it a row of a table?"""


@generic
def sum_up_full(state, context, weight, sums):
    """Scores and variances by full matrices, for an expert of this weight in the forecast."""


@generic
def regress_full(state, context, label, answer):
    """A step of the ridge regression with full matrices, towards +1 or -1."""


@generic
def clear_full(state):
    """The expert with full matrices knows nothing again."""


@inline
def is_left_out(trust, expert):
    return trust[expert, EVIDENCE] < HARDLY_ANY


@inline
def renew_weights(trust):
    """The experts' weights follow from their evidence."""
    best, total = -np.inf, 0.0
    for expert in range(len(trust)):
        best = max(best, trust[expert, EVIDENCE])
    for expert in range(len(trust)):
        trust[expert, WEIGHT] = math.exp(trust[expert, EVIDENCE] - best)
        total += trust[expert, WEIGHT]
    for expert in range(len(trust)):
        trust[expert, WEIGHT] /= total


@inline
def are_dense(experts):
    return experts.count[DENSE] == 1


@inline
def keep_round(state, row, label, right):
    experts = state.held.experts
    count, rounds = experts.count, experts.rounds
    if not make_room(state, row):
        return
    if count[KEPT] == KEPT_ROUNDS:
        drop_oldest(count)
    place = place_of(count, count[KEPT])
    keep_row(state, row, place)
    rounds[LABEL, place], rounds[RIGHT, place] = label, 1 if right else 0
    count[KEPT] += 1


@inline
def drop_oldest(count):
    count[OLDEST] = place_of(count, 1)
    count[KEPT] -= 1


@inline
def place_of(count, i):
    """Where a kept round is; number 0 is the oldest."""
    return (count[OLDEST] + i) % KEPT_ROUNDS
