"""OneBit: a learner without settings. Several models forecast the answer; their mean decides.

It takes nothing for granted about how many labels are right. Some models ("experts") forecast as if
exactly one were, others each label by itself; they learn from the same answers:

- Three softmax models of the label, fitted to the likelihood of the answer. If the said label a was
  right, the loss is -log p_a. If it was wrong, the loss is -log(1 - p_a); its EM bound divides the
  probability of being right among the other labels, in proportion to the model's probabilities.
  Weights have Gaussian posteriors with diagonal covariances; a step is implicit (proximal): it
  minimises the loss at the new weights plus the distance from the old weights, measured by the
  covariance. The three models differ in their initial variances and in how fast the variances
  shrink. Two of them also learn some of the last rounds again after every answer. The first model
  assumes that an answer is false with a certain probability: 0.1 for sparse rows, 0.4 for dense
  rows. For sparse rows, the other two divide the probability of being right in proportion to the
  mean forecast of all experts.
- For sparse rows, naive Bayes (`complement_bayes`), which needs the fewest answers. It, too, takes
  one label to be right.
- A ridge regression of the answer, +1 or -1, per label (Confidit's), which falsified answers cannot
  mislead as far. Dense rows of few columns have a second one, with a full matrix per label.
- Two logistic regressions per label, which differ in their initial variances, and one without
  features, which forecasts how often a label is right. Only answers about a label move its
  weights, by implicit steps, and a constant that all labels share, from which new labels start.

Each expert forecasts the chance that a label is right. The forecasts are averaged with weights that
follow from how well each expert has lately forecast the answers, after a calibration by a bounded
logistic regression. The label with the highest mean plus width plus bonus is said.

Two beliefs follow from the weights (`_beliefs`): e, that exactly one label is right (naive Bayes
and the softmax models, against the logistic regressions with features), and c, that contexts say
something (all of these, against the expert without features, which gains with time).

- The bonus, 2 c (1 - max q) sqrt(log(1 + t) / (1 + K + n)), is for labels that were said n times
  only, while no forecast q is high. Trying a label instead of the likeliest one costs max q, and
  gains 1 if it is right. If these costs exceed the allowance, (1/20 + 9/20 e) K log(1 + t), the
  bonus is multiplied by the cube of allowance / costs.
- The width of a ridge regression is half the standard deviation of its forecast times its weight,
  times 2 sqrt(p (1 - p)) in so far as labels are right by themselves.
- That of a logistic regression is sigmoid(u + s) - sigmoid(u), for the score u and
  s^2 = v/16 + v_0 (1/4 + 2 log max(1, (1 + t) / (K (1 + n)))): v is the variance of u, and v_0 that
  of the expert without features. These widths are averaged by weight, and count 1 - e c.

Rows are scaled to length 1 and have a constant feature.

When right answers become rarer (`feedback.drift`), most of what was learned is forgotten; all of
it if the columns of dense rows have other scales now.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple

import numpy as np

from onebit.algorithms import complement_bayes as bayes
from onebit.algorithms.complement_bayes import learn_bayes, sum_up_bayes
from onebit.core.choosing import best, certain_law, could_say_for_certain, sigmoid
from onebit.core.draws import uniform
from onebit.core.jit import compiled_as, implement, inline, not_inlined, outline
from onebit.core.lanes import at, fetch, load, save, store, unit
from onebit.core.rounds import Choice, count_said, must_pause, undo_drift
from onebit.core.settings import choice_of, flag, or_none, setting
from onebit.core.slots import BLANKS, no_slots, width_of
from onebit.core.sums import blocks, number
from onebit.feedback.drift import COUNTS, hear_answer, will_ring
from onebit.learner.learner import Learner, precision
from onebit.reading.contexts import encode_rows, encoder_apart
from onebit.reading.dicts import HASHED, first_number, most_features, set_apart
from onebit.reading.rows import Rows
from onebit.storage.base import Storage
from onebit.storage.dense_experts import LEAST_WEIGHT, Dense, DenseExperts
from onebit.storage.experts import (
    AFTER,
    ANSWERED,
    COMMON,
    CROSS,
    CURVE,
    EVIDENCE,
    HEARD,
    KEPT,
    LABEL,
    MOVED,
    NEWTON,
    OFFSET,
    PRECISION,
    PREDICTED,
    RIGHT,
    SAID,
    SHRINKAGE,
    SLOPE,
    STEEP,
    STEP,
    TARGET,
    TRUSTED,
    UNSURE,
    WEIGHT,
    clear_full,
    fix_scales,
    keep_round,
    kept_input,
    last_input,
    narrow_table,
    place_of,
    prepared,
    regress_full,
    sum_up_full,
    wide_table,
)
from onebit.storage.scales import TIMES
from onebit.storage.sparse_experts import Sparse, SparseExperts

# Kinds of experts that have weights for each feature.
SOFTMAX, RIDGE, LOGISTIC = range(3)


class Expert(NamedTuple):
    """How such an expert learns."""

    kind: int
    prior: float  # variance of a weight before anything is learned
    shrink: float = 1.0  # how fast variances shrink
    floor: float = 0.0  # they shrink by p (1 - p), but at least by this
    again: bool = False  # whether it learns kept rounds again


OF_COLUMNS = (  # sparse rows and dense rows
    Expert(SOFTMAX, 64.0, 1.0, 1e-4),
    Expert(SOFTMAX, 64.0, 0.1, 1e-4, again=True),
    Expert(SOFTMAX, 256.0, 0.3, 0.05, again=True),
    Expert(RIDGE, 1.0),
    Expert(LOGISTIC, 16.0),
    Expert(LOGISTIC, 2.0),
)
OF_WAVES = (  # dense rows: columns and Fourier features
    Expert(SOFTMAX, 64.0, 0.1, 1e-4, again=True),
    Expert(SOFTMAX, 256.0, 0.3, 0.05, again=True),
)
NARROW = len(OF_COLUMNS)
KIND, PRIOR, SHRINK, FLOOR, LEARNS_AGAIN = zip(*OF_COLUMNS, *OF_WAVES, strict=True)
PAIRS, PAIRS_AGAIN = (0, 2), (1, NARROW - 1)  # summed in pairs: the first, and how far the next

# After these comes the expert without features (`_bare`); then, as the last one, naive Bayes for
# sparse rows, and a ridge regression with full matrices for dense rows of few columns.
BAYES, FULL = NARROW + 1, NARROW + len(OF_WAVES) + 1
HEAD_START = 5.0  # of naive Bayes over the other experts, in evidence

# The share of falsified answers that the first model assumes: of sparse rows, of dense rows.
NOISY, SPARSE_NOISE, DENSE_NOISE, DENSE_SHRINK = 0, 0.1, 0.4, 0.3
AGAIN = 2  # kept rounds that are learned again after an answer
BONUS = 2.0
LEAST_ALLOWANCE = 0.05
ALLOWANCE = 0.5  # costs of trying labels up to which the bonus is whole, per label and log(1 + t)
LABEL_PRIOR = 1.0  # variance of a logistic model's constant, of a label; and of all labels together
COMMON_PRIOR = 16.0
CONSTANT_PRIOR = [
    LABEL_PRIOR if kind == LOGISTIC else prior for kind, prior in zip(KIND, PRIOR, strict=True)
]
CONTEXT_WIDTH = 0.25  # of logistic models, in standard deviations of the score
HOPE = 5.0  # the odds that contexts say something, before any answer
LABEL_WIDTH, CATCHING_UP = 0.25, 2.0  # in variances of the score by the label alone
WIDTH = 0.5  # in standard deviations of a regression's forecast
LEFT_OUT, HARDLY_ANY = -1e300, -1e200  # evidence of experts that are never trusted; and at most
MEMORY = 0.999  # of the weights and their calibration, per answer
DOUBT = 20.0  # answers that the calibration's prior is worth
FLATTEST, STEEPEST, FARTHEST = 0.1, 2.0, 1.0  # slopes and offset of the calibration
RAREST = 1e-3  # forecasts are believed between this and 1 - this
NEWTON_STEPS = 5
LOGISTIC_STEPS, LEAST_CURVE = 30, 1e-3
SMALLEST_STEP = 1e-4  # below it an expert has nothing to learn
REPLAY_DRAW = 8  # the first stream of draws of rounds that are learned again
FALSE_ALARM, FORGOTTEN = 0.01, 0.9  # the chance of a false alarm; what share an alarm forgets
RANG, SPENT = COUNTS, COUNTS + 1  # places in the state's memory, after the alarm's counts: 1 if
# there is an alarm; what trying labels has cost


# Loops over a row, each with a twin of whole arrays that is quick uncompiled. These and other large
# functions take only the arrays that they need: with whole states, compiling would take longer.


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
def _sum_up(narrow, wide, constant, sums, context, with_all):
    """Scores and variances of a context, of all experts or only of those that learn again."""
    not_inlined()
    row, scale = context.row, context.scale
    first, gap = PAIRS if with_all else PAIRS_AGAIN
    for expert in range(first, _bare(constant), gap):
        plane = 2 * expert
        start, out = constant[plane : plane + 4], sums[plane : plane + 4]
        if expert < NARROW:
            sum_pair(narrow, plane, row, context.narrow, scale, start, out)
        else:
            sum_pair(wide, plane - 2 * NARROW, row, row.stop, scale, start, out)
    if with_all:
        for plane in range(2 * _bare(constant), len(constant)):
            for label in range(constant.shape[1]):
                sums[plane, label] = constant[plane, label]


@inline
def _bare(constant):
    """The logistic expert without features: the last one that has a constant feature."""
    return len(constant) // 2 - 1


@inline
def _noise_of(expert, count):
    """The share of falsified answers that an expert of so many assumes."""
    if expert != NOISY:
        return 0.0
    return DENSE_NOISE if count > BAYES + 1 else SPARSE_NOISE


@inline
def _shrink_of(expert, count):
    """How fast the variances of an expert of so many shrink."""
    return DENSE_SHRINK if expert == NOISY and count > BAYES + 1 else SHRINK[expert]


@outline
def _softmax(scores, mask, out):
    """Probabilities of the possible labels; 0 elsewhere."""
    not_inlined()
    top, total = -np.inf, 0.0
    for label in range(len(mask)):
        if mask[label] == 0:
            top = max(top, scores[label])
    for label in range(len(mask)):
        out[label] = math.exp(scores[label] - top) if mask[label] == 0 else 0.0
        total += out[label]
    for label in range(len(mask)):
        out[label] /= total


@inline
def _set_target(p, said, right, noise, target):
    """The labels' probabilities after the answer; returns the largest change of a probability.

    noise: the share of answers that are taken to be false.
    """
    left = 0.0
    for label in range(len(p)):
        if label != said:
            left += p[label]
    is_said = p[said] * (1.0 - noise if right else noise)
    is_not = left * (noise if right else 1.0 - noise)
    if is_said + is_not <= 0.0:  # no label is left that could be right
        return 0.0
    after, largest = is_said / (is_said + is_not), 0.0
    for label in range(len(p)):
        if label == said:
            target[label] = after
        else:
            target[label] = p[label] * ((1.0 - after) / left) if left > 0.0 else 0.0
        largest = max(largest, abs(target[label] - p[label]))
    return largest


@inline
def _newton_step(scores, scratch, moved, p):
    """Move the scores one step of Newton's method; returns its length before it is bounded.

    The Hessian is diagonal minus p p'.
    """
    target, precision, step = scratch[TARGET], scratch[PRECISION], scratch[NEWTON]
    along, across = 0.0, 1.0
    for label in range(len(p)):
        share = p[label] / (precision[label] + p[label])
        slope = (moved[label] - scores[label]) * precision[label] + p[label] - target[label]
        along += share * slope
        across -= share * p[label]
        step[label] = slope
    common, farthest = along / max(across, 1e-12), 0.0
    for label in range(len(p)):
        step[label] = (step[label] + p[label] * common) / (precision[label] + p[label])
        farthest = max(farthest, abs(step[label]))
    damping = min(1.0, 2.0 / max(farthest, 1e-30))
    for label in range(len(p)):
        moved[label] -= damping * step[label]
    return farthest


@outline
def _know_after(forecasts, mask, said, right, count, after):
    """The labels' probabilities after an answer, by all experts together.

    False: they are not known, as for dense rows: there, each expert does better with its own.
    count: of the experts.
    """
    not_inlined()
    left, labels = 0.0, 0
    if count > BAYES + 1:
        return False
    for label in range(len(mask)):
        is_left = mask[label] == 0 and label != said and not right
        after[label] = max(np.float64(forecasts[label]), 0.0) if is_left else 0.0
        left += after[label]
        labels += is_left
    if right:
        after[said] = 1.0
        return True
    for label in range(len(mask)):
        if left > 0.0:
            after[label] /= left
        elif mask[label] == 0 and label != said:  # no expert expected any of these labels
            after[label] = 1.0 / labels
    return labels > 0


@inline
def _take_target(p, after, target):
    """Take the probabilities after the answer for the target; returns their largest change."""
    largest = 0.0
    for label in range(len(p)):
        target[label] = after[label]
        largest = max(largest, abs(target[label] - p[label]))
    return largest


@outline
def _find_change(
    scores, variances, mask, said, right, is_known, shrink, floor, noise, change, scratch
):
    """Steps and shrinkages by an answer for a softmax model; False: there is nothing to learn.

    Minimises sum (moved - score)^2 / (2 variance) + cross-entropy(target, softmax(moved)).
    is_known: the scratch has the labels' probabilities after the answer, by all experts together.
    """
    not_inlined()
    p, moved, precision = scratch[PREDICTED], scratch[MOVED], scratch[PRECISION]
    for label in range(len(mask)):
        moved[label] = scores[label]
        precision[label] = 1.0 / np.float64(variances[label])
    _softmax(moved, mask, p)
    if is_known and noise == 0.0:
        largest = _take_target(p, scratch[AFTER], scratch[TARGET])
    else:
        largest = _set_target(p, said, right, noise, scratch[TARGET])
    if largest <= SMALLEST_STEP:
        return False  # the steps would be smaller still
    for _ in range(NEWTON_STEPS):
        farthest = _newton_step(scores, scratch, moved, p)
        _softmax(moved, mask, p)
        if farthest < 1e-3:
            break
    steps, shrinkages, largest = change[STEP], change[SHRINKAGE], 0.0
    for label in range(len(mask)):
        steps[label] = (moved[label] - scores[label]) * precision[label]
        shrinkages[label] = shrink * max(p[label] * (1.0 - p[label]), floor)
        if mask[label] != 0:
            steps[label] = shrinkages[label] = 0.0
        largest = max(largest, abs(np.float64(steps[label])))
    return largest > SMALLEST_STEP


@inline
def _regress(table, plane, row, stop, scale, constant, sums, label, answer):
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


@inline
def _regress_logistic(table, plane, row, stop, scale, constant, sums, line, label, right):
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


@outline
def _learn(narrow, wide, experts, context, mask, said, right, is_known, with_all):
    """An answer for all experts, or only for those that learn again.

    is_known: the scratch has the labels' probabilities after the answer.
    """
    not_inlined()
    row, stop, scale = context.row, context.narrow, context.scale
    count = len(experts.trust)
    for expert in range(_bare(experts.constant)):
        plane = 2 * expert
        constant, sums = experts.constant[plane : plane + 2], experts.sums[plane : plane + 2]
        if KIND[expert] == RIDGE:
            if with_all:
                answer = 1.0 if right else -1.0
                _regress(narrow, plane, row, stop, scale, constant, sums, said, answer)
        elif KIND[expert] == LOGISTIC:
            if with_all:
                line = experts.trust[expert]
                _regress_logistic(
                    narrow, plane, row, stop, scale, constant, sums, line, said, right
                )
        elif (with_all or LEARNS_AGAIN[expert]) and _find_change(
            sums[0], sums[1], mask, said, right, is_known,
            _shrink_of(expert, count), FLOOR[expert], _noise_of(expert, count),
            experts.change, experts.scratch,
        ):  # fmt: skip
            if expert < NARROW:
                move_row(narrow, plane, row, stop, scale, constant, experts.change)
            else:
                plane -= 2 * NARROW
                move_row(wide, plane, row, row.stop, scale, constant, experts.change)
    if with_all:
        expert = _bare(experts.constant)
        plane, start = 2 * expert, row.start
        constant, sums = experts.constant[plane : plane + 2], experts.sums[plane : plane + 2]
        line = experts.trust[expert]
        _regress_logistic(narrow, plane, row, start, scale, constant, sums, line, said, right)


@inline
def _learn_full(state, context, said, right):
    """An answer for the regression with full matrices, where there is one."""
    if len(state.held.experts.trust) > FULL:
        regress_full(state, context, said, 1.0 if right else -1.0)


@inline
def _learn_kept(state, place, with_all):
    """Learn a kept round, with all experts or only with those that learn again."""
    narrow, wide, experts = narrow_table(state), wide_table(state), state.held.experts
    label, right = experts.rounds[LABEL, place], experts.rounds[RIGHT, place] == 1
    context = kept_input(state, place)
    _sum_up(narrow, wide, experts.constant, experts.sums, context, with_all)
    is_known = experts.count[KEPT] == 0  # never; a constant would be compiled once more
    _learn(narrow, wide, experts, context, experts.all_labels, label, right, is_known, with_all)
    if with_all:
        _learn_full(state, context, label, right)


@inline
def _drawn(experts, turn, n, among):
    """The place of one of the oldest kept rounds, drawn at random."""
    i = int(uniform(turn.seed, experts.count[HEARD], REPLAY_DRAW + n) * among)
    return place_of(experts.count, i)


@outline
def _clear(table, constant, wide):
    """Reset the experts of a table, and their constant features, to the state before any answer."""
    not_inlined()
    first = NARROW if wide else 0
    for m in range(table.shape[1] // 2):
        expert = first + m
        prior = LABEL_PRIOR if KIND[expert] == LOGISTIC else PRIOR[expert]
        _clear_constant(constant, expert, prior)
        for label in range(table.shape[2]):
            for j in range(table.shape[0]):
                table[j, 2 * m, label], table[j, 2 * m + 1, label] = 0.0, PRIOR[expert]


@inline
def _clear_constant(constant, expert, prior):
    for label in range(constant.shape[1]):
        constant[2 * expert, label], constant[2 * expert + 1, label] = 0.0, prior


@inline
def _clear_common(experts):
    """What logistic models know of all labels together, and the expert without features."""
    _clear_constant(experts.constant, _bare(experts.constant), LABEL_PRIOR)
    for expert in range(len(experts.trust)):
        experts.trust[expert, COMMON], experts.trust[expert, UNSURE] = 0.0, COMMON_PRIOR


@inline
def _may_say_all(held, work):
    differing = 0
    for label in range(len(work.mask)):
        differing += work.mask[label] != held.all_labels[label]
    return differing == 0


@outline
def _weigh(trust, forecasts, said, right):
    """Trust the experts by how well they forecast this answer, and calibrate their forecasts."""
    not_inlined()
    prior, best_evidence = (1.0 - MEMORY) * DOUBT, -np.inf
    for expert in range(len(trust)):
        line = trust[expert]
        noise = _noise_of(expert, len(trust))
        f = noise + (1.0 - 2.0 * noise) * forecasts[expert, said]
        f = min(max(f, RAREST), 1.0 - RAREST)
        x, offset, slope = math.log(f / (1.0 - f)), line[OFFSET], line[SLOPE]
        f = sigmoid(offset + slope * x)
        missed = (1.0 if right else 0.0) - f
        f = min(max(f, RAREST), 1.0 - RAREST)
        evidence = MEMORY * line[EVIDENCE] + math.log(f if right else 1.0 - f)
        if line[EVIDENCE] < HARDLY_ANY:  # it was left out
            evidence = line[EVIDENCE]
        line[EVIDENCE], best_evidence = evidence, max(best_evidence, evidence)
        weight = max(f * (1.0 - f), RAREST)
        curve = MEMORY * line[CURVE] + weight + prior
        cross = MEMORY * line[CROSS] + weight * x
        steep = MEMORY * line[STEEP] + weight * x * x + prior
        line[CURVE], line[CROSS], line[STEEP] = curve, cross, steep
        up, along = missed - prior * offset, missed * x + prior * (1.0 - slope)
        determinant = curve * steep - cross * cross
        if determinant > 1e-9:
            offset += (steep * up - cross * along) / determinant
            slope += (curve * along - cross * up) / determinant
        line[OFFSET] = min(max(offset, -FARTHEST), FARTHEST)
        line[SLOPE] = min(max(slope, FLATTEST), STEEPEST)
    total = 0.0
    for expert in range(len(trust)):
        trust[expert, WEIGHT] = math.exp(trust[expert, EVIDENCE] - best_evidence)
        total += trust[expert, WEIGHT]
    for expert in range(len(trust)):
        trust[expert, WEIGHT] /= total


@outline
def _forecast(experts, bare, mask, turn, scores, widths):
    """Forecasts of the experts, their mean as scores, and widths."""
    not_inlined()
    trust, sums, kind = experts.trust, experts.sums, scores.dtype.type
    each = 0.0
    for expert in range(len(trust)):
        each += trust[expert, WEIGHT] if _is_logistic(expert, bare) else 0.0
    exclusive, telling = _beliefs(experts, bare, turn.count)
    exclusive *= telling
    independent = (1.0 - exclusive) / max(each, LEAST_WEIGHT)
    for label in range(len(mask)):
        scores[label] = widths[label] = 0.0
    for expert in range(len(trust)):
        forecast, weight = experts.forecasts[expert], trust[expert, WEIGHT]
        for label in range(len(mask)):
            forecast[label] = sums[2 * expert, label]
        if _is_regression(expert):
            for label in range(len(mask)):
                deviation = math.sqrt(np.float64(sums[2 * expert + 1, label]))
                p = min(max(0.5 * (1.0 + forecast[label]), 0.0), 1.0)
                noise = exclusive + (1.0 - exclusive) * 2.0 * math.sqrt(p * (1.0 - p))
                widths[label] += kind(weight * WIDTH * noise * deviation)
                forecast[label] = 0.5 * (1.0 + forecast[label])
        elif _is_logistic(expert, bare):
            share, common = weight * independent, trust[expert, COMMON]
            if weight < LEAST_WEIGHT:  # it changes next to nothing
                continue
            for label in range(len(mask)):
                u = common + forecast[label]
                forecast[label] = sigmoid(u)
                if independent > LEAST_WEIGHT:
                    own, alone = sums[2 * expert + 1, label], sums[2 * bare + 1, label]
                    n = max(experts.tries[SAID, label], experts.tries[ANSWERED, label])
                    wider = _spread(np.float64(own), np.float64(alone), n, turn)
                    widths[label] += kind(share * (sigmoid(u + wider) - forecast[label]))
        else:
            _softmax(forecast, mask, forecast)
        for label in range(len(mask)):
            scores[label] += kind(weight * forecast[label])


@inline
def _forecast_said(experts, bare, said):
    """Forecasts of the logistic models for the said label: those of little weight have none."""
    for expert in range(len(experts.trust)):
        if _is_logistic(expert, bare):
            u = experts.trust[expert, COMMON] + experts.sums[2 * expert, said]
            experts.forecasts[expert, said] = sigmoid(u)


@inline
def _spread(own, alone, n, turn):
    """By how much the score of a logistic model may be too low, for a label that was said n times.

    own: the variance of the score; alone: that of the expert without features.
    """
    behind = math.log(max((1.0 + turn.round) / (turn.count * (1.0 + n)), 1.0))
    return math.sqrt(
        CONTEXT_WIDTH * CONTEXT_WIDTH * own + (LABEL_WIDTH + CATCHING_UP * behind) * alone
    )


@inline
def _is_regression(expert):
    return expert == FULL if expert >= NARROW else KIND[expert] == RIDGE


@inline
def _is_logistic(expert, bare):
    return expert == bare if expert >= NARROW else KIND[expert] == LOGISTIC


@inline
def _beliefs(experts, bare, count):
    """Two beliefs about rounds with so many labels: that exactly one of them is right, and that
    contexts say something about which.

    They follow the weights of the experts, without regressions. The longer the learner has heard
    answers, the better must the other experts have forecast than the one without features.
    """
    one, each, answers = 0.0, 0.0, 0.0
    for expert in range(len(experts.trust)):
        weight = experts.trust[expert, WEIGHT]
        if _is_logistic(expert, bare):
            each += weight if expert != bare else 0.0
        elif not _is_regression(expert):
            one += weight
    for label in range(experts.tries.shape[1]):
        answers += experts.tries[ANSWERED, label]
    late = 1.0 + answers / count
    mute = experts.trust[bare, WEIGHT] * late * late / HOPE
    exclusive = one / (one + each) if one + each > 0.0 else 0.5
    return exclusive, (one + each) / (one + each + mute) if one + each > 0.0 else 0.0


@inline
def _highest(work):
    """The highest forecast of the possible labels, but at least 0."""
    top = 0.0
    for label in range(len(work.mask)):
        if work.mask[label] == 0:
            top = max(top, np.float64(work.scores[label]))
    return top


@inline
def _best_bound(state, work, turn):
    """The label with the highest forecast plus bonus; the lowest of several."""
    tries, doubt = state.held.experts.tries, 0.0
    if turn.count > 1:
        experts, time = state.held.experts, math.log(1.0 + turn.round)
        exclusive, telling = _beliefs(experts, _bare(experts.constant), turn.count)
        allowance = ALLOWANCE * exclusive + LEAST_ALLOWANCE * (1.0 - exclusive)
        allowed, spent = allowance * turn.count * time, state.memory[SPENT]
        doubt = telling * BONUS * max(0.0, 1.0 - _highest(work)) * math.sqrt(time)
        doubt *= (allowed / spent) ** 3 if spent > allowed else 1.0
    found, highest = -1, -np.inf
    for label in range(len(work.mask)):
        if work.mask[label] == 0:
            n = max(tries[SAID, label], tries[ANSWERED, label])
            bound = np.float64(work.scores[label]) + np.float64(work.widths[label])
            bound += doubt / math.sqrt(1.0 + turn.count + n)
            if bound > highest:
                found, highest = label, bound
    return found if found >= 0 else best(state, work)


@inline
def _rang(state):
    return state.memory[RANG] != 0.0


implement(must_pause, Sparse)(_rang)
implement(must_pause, Dense)(_rang)


@implement(count_said, Sparse, Dense)
def _count_said(state, label, times):
    state.held.experts.tries[SAID, label] += times


@implement(undo_drift, Sparse, Dense)
def _undo_drift(state, before):
    for i in range(len(before)):
        state.memory[i] = before[i]


class OneBit(Learner):
    """The learner to start with: it has no settings to choose.

    Exactly one label may be right in each round, or several, or none: it finds out, and `one_right`
    tells what it believes. `exclusive` says it beforehand.

    Dense rows are standardised, and random Fourier features are added. Sparse rows are scaled to
    length 1, after the numbers of dicts were standardised. The first context that is learned from
    tells which: an array or a list of numbers is dense; a text, a dict, a sparse row or a pair
    (indices, values) is sparse. `inputs` says it beforehand. When right answers become
    rarer, it forgets most of what it has learned.
    """

    planes = 2 * NARROW + 1
    forecasts = (0.0, 1.0)
    BITS = 2  # 2: labels that are right by themselves
    shares_chances = True
    infers_the_other = True
    scales_itself = True
    may_pause = True
    lockstep = None
    inputs: Literal["auto", "dense", "sparse"] = setting(  # type: ignore[override] its own choices
        default="auto",
        check=partial(choice_of, choices=("auto", "dense", "sparse")),
        doc="how contexts are read: as dense rows, as sparse rows, or as the first one is",
    )
    exclusive: bool | None = setting(
        default=None,
        check=or_none(flag),
        doc="True: exactly one label is right in each round; False: each is right or wrong by "
        "itself; None: it finds out",
    )
    could_say = could_say_for_certain

    @staticmethod
    def score(params, state, work, row, turn):
        context, experts = prepared(state, row), state.held.experts
        if row.start == row.stop:  # an empty context has no forecast; a dense row is never empty
            work.scores[:] = 0.0
            work.widths[:] = 0.0
            return
        narrow, wide = narrow_table(state), wide_table(state)
        with_all = row.start < row.stop  # always; a constant would be compiled once more
        _sum_up(narrow, wide, experts.constant, experts.sums, context, with_all)
        sum_up_bayes(state, context, work.mask, experts.sums[2 * BAYES])
        if len(experts.trust) > FULL:
            plane = 2 * FULL
            sum_up_full(state, context, experts.trust[FULL, WEIGHT], experts.sums[plane:])
        _forecast(experts, _bare(experts.constant), work.mask, turn, work.scores, work.widths)

    @staticmethod
    def say(params, state, work, turn):
        label = _best_bound(state, work, turn)
        state.held.experts.tries[SAID, label] += 1.0
        return Choice(label, best(state, work), 1.0, 0.0, 0.0)

    @staticmethod
    def law(params, state, work, turn):
        certain_law(work, _best_bound(state, work, turn))

    @staticmethod
    def hear(params, state, work, row, turn, choice, right):
        experts, said = state.held.experts, choice.label
        narrow, wide = narrow_table(state), wide_table(state)
        _forecast_said(experts, _bare(experts.constant), said)
        _weigh(experts.trust, experts.forecasts, said, right)
        experts.tries[ANSWERED, said] += 1.0
        if said != choice.greedy:
            cost = _highest(work) - (1.0 if right else 0.0)
            state.memory[SPENT] = max(0.0, state.memory[SPENT] + cost)
        experts.count[HEARD] += 1
        if hear_answer(state.memory, FALSE_ALARM, right):
            state.memory[RANG] = 1.0
        if _may_say_all(experts, work):
            keep_round(state, row, said, right)
        anew = fix_scales(state, row)
        if anew:
            _clear(narrow.table, experts.constant, not anew)
            _clear(wide.table, experts.constant, anew)
            clear_full(state)
            _clear_common(experts)
        else:
            context, with_all = last_input(state, row), not anew  # always
            after, count = experts.scratch[AFTER], len(experts.trust)
            is_known = _know_after(work.scores, work.mask, said, right, count, after)
            learn_bayes(state, context, said, right, is_known)
            _learn(narrow, wide, experts, context, work.mask, said, right, is_known, with_all)
            _learn_full(state, context, said, right)
        last = experts.count[KEPT] - 1
        for i in range(0 if anew else max(last, 0), last + 1):
            for n in range(0 if anew else 1, 1 + AGAIN):  # 0: the round itself
                place = place_of(experts.count, i)
                if n > 0:
                    place = _drawn(experts, turn, AGAIN * (last - i) + n - 1, i + 1)
                _learn_kept(state, place, n == 0)
        return True

    def _check_settings(self) -> None:
        if self.inputs == "dense" and self.features is None:
            raise ValueError("inputs='dense' needs features=, the number of columns")

    def _make_storage(self) -> Storage:
        return self._storage_for(self.features if self.inputs == "dense" else 0)

    def _storage_for(self, columns: int | None) -> Storage:
        """Dense storage for so many columns, or sparse storage."""
        dtype = precision(self.dtype or "float32")
        untold = (0.0, 0.0, 0.0, 1.0, DOUBT, 0.0, DOUBT, 0.0, COMMON_PRIOR)
        behind = (0.0, -HEAD_START, *untold[2:])
        if columns:
            trust = [untold] * (FULL + 1)
            trust = self._told(trust, [*KIND, LOGISTIC, RIDGE])
            constants = [*CONSTANT_PRIOR, LABEL_PRIOR]
            return DenseExperts(
                PRIOR, constants, trust, dtype, narrow=NARROW, columns=columns, seed=self.seed
            )
        trust = [*[behind] * BAYES, untold]
        trust = self._told(trust, [*KIND[:NARROW], LOGISTIC, SOFTMAX])
        constants, temperature = [*CONSTANT_PRIOR[:NARROW], LABEL_PRIOR], (bayes.START, 1.0)
        return SparseExperts(
            PRIOR[:NARROW], constants, trust, dtype, alpha=bayes.ALPHA, temperature=temperature
        )

    def _told(
        self, trust: Sequence[Sequence[float]], kinds: Sequence[int]
    ) -> list[Sequence[float]]:
        """No trust for the experts whose kind contradicts `exclusive`."""
        contradicts = {None: None, True: LOGISTIC, False: SOFTMAX}[self.exclusive]
        return [
            (0.0, LEFT_OUT, *line[2:]) if kind == contradicts else line
            for line, kind in zip(trust, kinds, strict=True)
        ]

    @property
    def one_right(self) -> float | None:
        with self._lock:
            weights = self._state.held.experts.trust[:, WEIGHT].tolist()
        bare = NARROW if self.planes else FULL - 1  # it takes no side: it says nothing of contexts
        kinds = (*KIND[:bare], None, SOFTMAX if self.planes else RIDGE)
        sides = {SOFTMAX: 0.0, LOGISTIC: 0.0, RIDGE: 0.0, None: 0.0}
        for kind, weight in zip(kinds, weights, strict=False):
            sides[kind] += weight
        one, each = sides[SOFTMAX], sides[LOGISTIC]
        return one / (one + each) if one + each > 0.0 else 0.5

    def _add_label(self, label: str | int | None) -> None:
        with self._lock:
            super()._add_label(label)
            if self.planes:  # nothing that was counted so far was of the new label
                sums, new = self._state.table[:, -1], self._size - 1
                counted = sums[:, :new].astype(np.float64) - self._dtype.type(bayes.ALPHA)
                sums[:, new] = counted.sum(axis=1) / (new - 1) + bayes.ALPHA
                elsewhere, known = self._state.held.elsewhere, (counted != 0).any(axis=1).sum()
                elsewhere[new] = (elsewhere[:new].sum() - bayes.ALPHA * known) / (new - 1)

    def _memory(self) -> tuple[float, ...]:
        return (0.0,) * (SPENT + 1)

    def _is_sound(self, table: np.ndarray, memory: np.ndarray) -> bool:
        return bool((memory >= 0).all())

    def _pause(self) -> bool:
        if not self._state.memory[RANG]:
            return False
        storage: Any = self._storage
        self._state.memory[: RANG + 1] = 0.0
        self.forget(1.0 if storage.has_other_scales(self._state.held) else FORGOTTEN)
        return True

    def _will_forget(self, right: bool | None) -> bool:
        alarm = right is None or will_ring(self._state.memory, FALSE_ALARM, right)
        return alarm or super()._will_forget(right)

    def _no_sign_of_drift(self, memory: np.ndarray) -> None:
        _undo_drift(self._state, memory)

    def _count_said(self, place: int, times: int) -> None:
        _count_said(self._state, place, times)

    def _read_columns(self, columns: int) -> None:
        self._use(self._storage_for(columns))

    def _has_learned(self) -> bool:
        return self._state.held.experts.count[HEARD] > 0

    def _meet_saved(self, arrays: dict[str, np.ndarray]) -> None:
        if arrays.get("trust", np.empty((0, TRUSTED))).shape[1:] != (TRUSTED,):
            raise ValueError(
                "this OneBit was saved by an earlier version, which took it for granted that "
                "exactly one label is right, and cannot go on here; train it again, or build it "
                "from its journal (onebit replay)"
            )
        if "narrow" in arrays and self._storage.planes:
            self._use(self._storage_for(arrays["narrow"].shape[0]))

    # Numbers of dicts. Their indices are beyond all others, so they are given places in the table.

    @cached_property
    def _first_number(self) -> int:  # type: ignore[override] computed once
        return first_number(self.features)

    @property
    def _most_features(self) -> int:
        if not self.planes:
            return super()._most_features
        return most_features(self.features, self._first_number)

    @property
    def _column_count(self) -> int:
        return 0 if self.planes else self._storage.columns  # type: ignore[attr-defined]

    @property
    def _knows_numbers(self) -> bool:
        return self.planes > 0 and self._state.held.numbers[0, TIMES] > 0

    def _encoder(self) -> Callable[[Any, int], tuple[Any, Any]]:
        if not self.planes:
            return super()._encoder()
        return encoder_apart(self._dtype, self.features, self._first_number)

    def _encoded_sparse(self, X: Any) -> Rows:
        rows = encode_rows(X, self._dtype, self.features, apart_below=self._most_features)
        return set_apart(rows, self._first_number)

    def _maps(self, columns: int, width: int, replicas: int = 1) -> bool:
        has_numbers = self.planes > 0 and width > self._first_number
        return has_numbers or super()._maps(columns, width, replicas)

    def _give_places(
        self, indices: np.ndarray, indptr: np.ndarray, order: np.ndarray, width: int
    ) -> np.ndarray:
        places = super()._give_places(indices, indptr, order, width)
        if width > self._first_number:
            numbers = self._slots[indices[indices >= self._first_number]]
            if numbers.any():  # of rows that do not come, they have no places
                self._hold_numbers(numbers[numbers > 0] - np.uint32(1))
        return places

    def _hold_numbers(self, places: np.ndarray) -> None:
        storage: Any = self._storage
        held = storage.with_numbers(self._state.held, places)
        self._state = self._state._replace(held=held)

    def _with_blanks(self, needed: int) -> Any:
        state = super()._with_blanks(needed)
        if needed < BLANKS:
            return state
        storage: Any = self._storage
        held = state.held._replace(numbers=state.held.numbers.copy())
        blank = np.array([len(state.table) - 1])
        return state._replace(held=storage.with_numbers(held, blank))

    def _may_have(self, features: np.ndarray) -> bool:
        if self.features is None:
            return super()._may_have(features)
        count = int((features < self.features).sum())  # of these, the table has all
        return self.planes > 0 and count == self.features and features[-1] < self._most_features

    def forget(self, share: float = 1.0) -> None:
        with self._lock:
            super().forget(share)
            if self.planes and len(self._slots) and len(self._state.held.numbers) == 1:
                are_numbers = self._features() >= self._first_number
                if are_numbers.any():
                    self._hold_numbers(self._order()[are_numbers])

    def _plane(self, plane: int) -> np.ndarray:
        """With the columns of the numbers after all others."""
        (features, order), first = self._own_features(), self._first_number
        columns = np.where(features < first, features, features - first + max(self._width, HASHED))
        found = np.empty((self._size, width_of(columns)), self._dtype)
        found[:] = self._fill()[plane]
        found[:, columns] = self._state.table[order, plane, : self._size].T
        return found

    def _use(self, storage: Storage) -> None:
        """Start with another storage."""
        before = dict(self.__dict__)
        self._storage, self.planes = storage, storage.planes  # type: ignore[misc]
        self._slots = no_slots()
        try:
            self._lay_out(self._no_weights(), self._state.memory, {})
        except BaseException:
            self.__dict__.update(before)
            raise

    def _fill(self) -> tuple[float, ...]:
        weights = (value for prior in PRIOR[:NARROW] for value in (0.0, prior))
        return (*weights, bayes.ALPHA)
