"""OneBit: a learner without settings. Several models forecast the answer; their mean decides.

Models ("experts") of two kinds learn from the same answers:

- Three softmax models of the label, fitted to the likelihood of the answer. If the said label a was
  right, the loss is -log p_a. If it was wrong, the loss is -log(1 - p_a); by its EM bound, the rest
  of the labels share the probability of the truth in proportion to their own ones. Weights have
  Gaussian posteriors with diagonal covariances; a step is implicit (proximal): it minimises the
  loss at the new weights plus the distance from the old ones, measured by the covariance. The three
  differ in how far variances start and how fast they shrink. Two of them also learn some of the
  last rounds again after every answer.
- A ridge regression of the answer, +1 or -1, per label (Confidit's), which falsified answers cannot
  mislead as far.

Each expert forecasts the chance that a label is right. The forecasts are averaged with weights that
follow from how well each expert has lately forecast the answers, after a calibration by a bounded
logistic regression. The label with the highest mean plus bonus is said. The bonus,
2 (1 - max q) sqrt(log(1 + t) / (1 + K + n)), is for labels that were said n times only, while no
forecast q is high; with two labels each answer tells the truth, and there is no bonus.

Rows are scaled to length 1 and have a constant feature.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import numpy as np

from onebit.core.choosing import best, certain_law, could_say_for_certain, sigmoid
from onebit.core.draws import uniform
from onebit.core.jit import OUTLINE, compiled_as, inline, not_inlined, outline
from onebit.core.lanes import at, fetch, load, save, store, unit
from onebit.core.rounds import Choice
from onebit.core.slots import no_slots
from onebit.core.sums import blocks, number
from onebit.learner import Learner, precision
from onebit.settings import choice_of, setting
from onebit.storage.base import Storage
from onebit.storage.experts import (
    ANSWERED,
    CROSS,
    CURVE,
    EVIDENCE,
    HEARD,
    KEPT,
    KEPT_ROUNDS,
    OFFSET,
    OLDEST,
    SAID,
    SLOPE,
    STEEP,
    WEIGHT,
    DenseExperts,
    SparseExperts,
    fix_scales,
    keep_round,
    kept_input,
    last_input,
    narrow_table,
    prepared,
    wide_table,
)

# Expert by expert: softmax, softmax, softmax, ridge regression; for dense rows also two softmax
# models of all features.
NARROW, RIDGE = 4, 3
PRIOR = (64.0, 64.0, 256.0, 1.0, 64.0, 256.0)  # variance of a weight before anything is learned
SHRINK = (1.0, 0.1, 0.3, 1.0, 0.1, 0.3)  # how fast variances shrink
FLOOR = (1e-4, 1e-4, 0.05, 0.0, 1e-4, 0.05)  # the least p (1 - p) by which they do
LEARNS_AGAIN = (False, True, True, False, True, True)

AGAIN = 2  # kept rounds that are learned again after an answer
BONUS = 2.0
MEMORY = 0.999  # of the weights and their calibration, per answer
DOUBT = 20.0  # answers that the calibration's prior is worth
FLATTEST, STEEPEST, FARTHEST = 0.5, 2.0, 1.0  # slopes and offset of the calibration
RAREST = 1e-3  # forecasts are believed between this and 1 - this
NEWTON_STEPS = 5
SMALLEST_STEP = 1e-4  # below it an expert has nothing to learn
REPLAY_DRAW = 8  # the first stream of draws of rounds that are learned again


# Loops over a row, each with a twin of whole arrays that is quick uncompiled.


def sum_row(experts: Any, table: Any, row: Any, scale: Any, expert: Any, plane: Any) -> None:
    """Scores and variances of an expert whose planes in the table begin here."""
    features, constant = row.indices[row.start : row.stop], experts.constant.table[0]
    x = (row.values[row.start : row.stop] * scale)[:, None]
    weights, variances = table.table[features, plane], table.table[features, plane + 1]
    scores = np.vstack([constant[2 * expert], weights * x])
    squares = np.vstack([constant[2 * expert + 1], variances * (x * x)])
    experts.scores[expert] = scores.cumsum(axis=0)[-1]  # in the same order as a loop
    experts.variances[expert] = squares.cumsum(axis=0)[-1]


@compiled_as(sum_row, OUTLINE)
def _sum_row(experts, table, row, scale, expert, plane):
    not_inlined()
    scores, variances = experts.scores[expert], experts.variances[expert]
    for block in range(blocks(table)):
        u = load(experts.constant, 0, 2 * expert, block)
        v = load(experts.constant, 0, 2 * expert + 1, block)
        for i in range(row.start, row.stop):
            j, x = at(row.indices, i), at(row.values, i) * scale
            u = u + load(table, j, plane, block) * x
            v = v + load(table, j, plane + 1, block) * (x * x)
        store(table, scores, block, u)
        store(table, variances, block, v)


def move_row(experts: Any, table: Any, row: Any, scale: Any, expert: Any, plane: Any) -> None:
    """w += step s x, 1/s += shrink x^2, for all labels."""
    features, constant = row.indices[row.start : row.stop], experts.constant.table[0]
    x = (row.values[row.start : row.stop] * scale)[:, None]
    s = table.table[features, plane + 1]
    table.table[features, plane] += experts.step * (s * x)
    table.table[features, plane + 1] = s / (1 + experts.shrink * (s * x * x))
    s = constant[2 * expert + 1].copy()
    constant[2 * expert] += experts.step * s
    constant[2 * expert + 1] = s / (1 + experts.shrink * s)


@compiled_as(move_row, OUTLINE)
def _move_row(experts, table, row, scale, expert, plane):
    not_inlined()
    for block in range(blocks(table)):
        step, shrink = fetch(table, experts.step, block), fetch(table, experts.shrink, block)
        one = number(table, 1.0)
        _move_feature(experts.constant, 0, one, 2 * expert, block, step, shrink)
        for i in range(row.start, row.stop):
            x = at(row.values, i) * scale
            _move_feature(table, at(row.indices, i), x, plane, block, step, shrink)


@inline
def _move_feature(table, j, x, plane, block, step, shrink):
    s = load(table, j, plane + 1, block)
    sx = s * x
    save(table, j, plane, block, load(table, j, plane, block) + step * sx)
    save(table, j, plane + 1, block, s / (unit(s) + shrink * (sx * x)))


@inline
def _sum_up(state, context, expert):
    """Scores and variances of an expert."""
    experts, scale = state.held.experts, context.scale
    if expert < NARROW:
        sum_row(experts, narrow_table(state), context.narrow, scale, expert, 2 * expert)
    else:
        plane = 2 * (expert - NARROW)
        sum_row(experts, wide_table(state), context.wide, scale, expert, plane)


@inline
def _move(state, context, expert):
    """Move weights by `experts.step`, shrink variances by `experts.shrink`, for all labels."""
    experts, scale = state.held.experts, context.scale
    if expert < NARROW:
        move_row(experts, narrow_table(state), context.narrow, scale, expert, 2 * expert)
    else:
        plane = 2 * (expert - NARROW)
        move_row(experts, wide_table(state), context.wide, scale, expert, plane)


@inline
def _softmax(scores, mask, out):
    """Probabilities of the possible labels; 0 elsewhere."""
    top = -np.inf
    for label in range(len(mask)):
        if mask[label] == 0:
            top = max(top, np.float64(scores[label]))
    total = 0.0
    for label in range(len(mask)):
        out[label] = math.exp(np.float64(scores[label]) - top) if mask[label] == 0 else 0.0
        total += out[label]
    for label in range(len(mask)):
        out[label] /= total


@inline
def _slope(u, v, p, moved, target):
    return (moved - u) / v + p - target


@outline
def _move_scores(held, scores, variances, mask):
    """Minimise sum (moved - u)^2 / (2 v) + cross-entropy(target, softmax(moved)), in `held.moved`.

    Newton's method with bounded steps; the Hessian is diagonal minus p p'.
    """
    not_inlined()
    p, moved, target = held.predicted, held.moved, held.target
    for label in range(len(mask)):
        moved[label] = scores[label]
    for _ in range(NEWTON_STEPS):
        _softmax(moved, mask, p)
        along, across = 0.0, 1.0
        for label in range(len(mask)):
            if mask[label] == 0:
                u, v = np.float64(scores[label]), np.float64(variances[label])
                share = p[label] / (1.0 / v + p[label])
                along += share * _slope(u, v, p[label], moved[label], target[label])
                across -= share * p[label]
        common, farthest = along / max(across, 1e-12), 0.0
        for label in range(len(mask)):
            if mask[label] == 0:
                u, v = np.float64(scores[label]), np.float64(variances[label])
                slope = _slope(u, v, p[label], moved[label], target[label])
                farthest = max(farthest, abs(slope + p[label] * common) / (1.0 / v + p[label]))
        damping = min(1.0, 2.0 / max(farthest, 1e-30))
        for label in range(len(mask)):
            if mask[label] == 0:
                u, v = np.float64(scores[label]), np.float64(variances[label])
                slope = _slope(u, v, p[label], moved[label], target[label])
                moved[label] -= damping * (slope + p[label] * common) / (1.0 / v + p[label])
        if farthest < 1e-3:
            break
    _softmax(moved, mask, p)


@inline
def _learn_label(state, context, expert, mask, said, right):
    """One answer for a softmax model."""
    experts = state.held.experts
    scores, variances, target = experts.scores[expert], experts.variances[expert], experts.target
    _softmax(scores, mask, target)
    left = 0.0
    for label in range(len(mask)):
        if label != said:
            left += target[label]
    if not right and left <= 0.0:  # no label is left that could be right
        return
    for label in range(len(mask)):
        if right or label == said:
            target[label] = 1.0 if right and label == said else 0.0
        else:
            target[label] /= left
    _move_scores(experts, scores, variances, mask)
    largest = 0.0
    for label in range(len(mask)):
        step = shrink = 0.0
        if mask[label] == 0:
            p = experts.predicted[label]
            step = (experts.moved[label] - np.float64(scores[label])) / np.float64(variances[label])
            shrink = SHRINK[expert] * max(p * (1.0 - p), FLOOR[expert])
        experts.step[label], experts.shrink[label] = number(state, step), number(state, shrink)
        largest = max(largest, abs(step))
    if largest > SMALLEST_STEP:
        _move(state, context, expert)


@inline
def _regress_feature(table, j, x, label, step):
    weights = table.table[j]
    s = weights[2 * RIDGE + 1, label]
    weights[2 * RIDGE, label] += step * s * x
    weights[2 * RIDGE + 1, label] = s / (number(table, 1.0) + s * x * x)


@inline
def _learn_answer(state, context, label, right):
    """One answer for the ridge regression of a label: w += s x (z - w.x)/(1 + v), 1/s += x^2."""
    experts, table, row = state.held.experts, narrow_table(state), context.narrow
    score = np.float64(experts.scores[RIDGE, label])
    variance = np.float64(experts.variances[RIDGE, label])
    step = number(state, ((1.0 if right else -1.0) - score) / (1.0 + variance))
    _regress_feature(experts.constant, 0, number(state, 1.0), label, step)
    for i in range(row.start, row.stop):
        x = at(row.values, i) * context.scale
        _regress_feature(table, at(row.indices, i), x, label, step)


@outline
def _learn(state, context, expert, mask, said, right):
    """One answer for an expert."""
    not_inlined()
    if expert != RIDGE:
        _learn_label(state, context, expert, mask, said, right)
        return
    _learn_answer(state, context, said, right)
    left, rival = 0, said
    for label in range(len(mask)):
        if mask[label] == 0 and label != said:
            left, rival = left + 1, label
    if left == 1:  # of two labels, one is right
        _learn_answer(state, context, rival, not right)


@outline
def _learn_again(state, place, with_all):
    """Learn a kept round; unless with all experts, by those that learn rounds again."""
    not_inlined()
    experts, context = state.held.experts, kept_input(state, place)
    label, right = experts.labels[place], experts.rights[place] == 1
    for expert in range(len(experts.trust)):
        if with_all or LEARNS_AGAIN[expert]:
            _sum_up(state, context, expert)
            _learn(state, context, expert, experts.all_labels, label, right)


@inline
def _drawn(experts, turn, n, among):
    """The place of one of the oldest kept rounds, drawn at random."""
    i = int(uniform(turn.seed, experts.count[HEARD], REPLAY_DRAW + n) * among)
    return (experts.count[OLDEST] + i) % KEPT_ROUNDS


@outline
def _learn_all_again(state, turn):
    """Start anew, and learn all kept rounds in their order."""
    not_inlined()
    experts = state.held.experts
    _clear(experts.constant, 0, len(experts.trust))
    _clear(narrow_table(state), 0, NARROW)
    _clear(wide_table(state), NARROW, len(experts.trust) - NARROW)
    for i in range(experts.count[KEPT]):
        _learn_again(state, (experts.count[OLDEST] + i) % KEPT_ROUNDS, True)
        for n in range(AGAIN):
            _learn_again(state, _drawn(experts, turn, AGAIN * (i + 1) + n, i + 1), False)


@inline
def _clear(table, first, count):
    for j in range(table.table.shape[0]):
        for m in range(count):
            table.table[j, 2 * m, :] = 0.0
            table.table[j, 2 * m + 1, :] = PRIOR[first + m]


@inline
def _may_say_all(held, work):
    differing = 0
    for label in range(len(work.mask)):
        differing += work.mask[label] != held.all_labels[label]
    return differing == 0


@inline
def _weigh(trust, forecasts, said, right):
    """Trust the experts by how well they forecast this answer, and calibrate their forecasts."""
    bit, best_evidence = 1.0 if right else 0.0, -np.inf
    for expert in range(len(trust)):
        line = trust[expert]
        f = min(max(forecasts[expert, said], RAREST), 1.0 - RAREST)
        x = math.log(f / (1.0 - f))
        f = sigmoid(line[OFFSET] + line[SLOPE] * x)
        missed = bit - f
        f = min(max(f, RAREST), 1.0 - RAREST)
        line[EVIDENCE] = MEMORY * line[EVIDENCE] + math.log(f if right else 1.0 - f)
        best_evidence = max(best_evidence, line[EVIDENCE])
        curve, prior = max(f * (1.0 - f), RAREST), (1.0 - MEMORY) * DOUBT
        line[CURVE] = MEMORY * line[CURVE] + curve + prior
        line[CROSS] = MEMORY * line[CROSS] + curve * x
        line[STEEP] = MEMORY * line[STEEP] + curve * x * x + prior
        offset = missed - prior * line[OFFSET]
        slope = missed * x + prior * (1.0 - line[SLOPE])
        determinant = line[CURVE] * line[STEEP] - line[CROSS] * line[CROSS]
        if determinant > 1e-9:
            line[OFFSET] += (line[STEEP] * offset - line[CROSS] * slope) / determinant
            line[SLOPE] += (line[CURVE] * slope - line[CROSS] * offset) / determinant
        line[OFFSET] = min(max(line[OFFSET], -FARTHEST), FARTHEST)
        line[SLOPE] = min(max(line[SLOPE], FLATTEST), STEEPEST)
    total = 0.0
    for expert in range(len(trust)):
        trust[expert, WEIGHT] = math.exp(trust[expert, EVIDENCE] - best_evidence)
        total += trust[expert, WEIGHT]
    for expert in range(len(trust)):
        trust[expert, WEIGHT] /= total


@inline
def _best_bound(state, work, turn):
    """The label with the highest forecast plus bonus; the lowest of several."""
    tries, top = state.held.experts.tries, 0.0
    for label in range(len(work.mask)):
        if work.mask[label] == 0:
            top = max(top, np.float64(work.scores[label]))
    doubt = 0.0
    if turn.count > 2:
        doubt = BONUS * max(0.0, 1.0 - top) * math.sqrt(math.log(1.0 + turn.round))
    found, highest = -1, -np.inf
    for label in range(len(work.mask)):
        if work.mask[label] == 0:
            n = max(tries[SAID, label], tries[ANSWERED, label])
            bound = np.float64(work.scores[label]) + np.float64(work.widths[label])
            bound += doubt / math.sqrt(1.0 + turn.count + n)
            if bound > highest:
                found, highest = label, bound
    return found if found >= 0 else best(state, work)


class OneBit(Learner):
    """The learner to start with: it has no settings to choose.

    Dense rows are standardised, and random Fourier features are added; sparse rows are scaled to
    length 1. The first context tells which: an array or a list of numbers is dense; a dict, a
    sparse row or a pair (indices, values) is sparse. `inputs` says it beforehand.
    """

    planes = 2 * NARROW
    forecasts = True
    lockstep = None
    inputs: Literal["auto", "dense", "sparse"] = setting(
        "auto",
        check=partial(choice_of, choices=("auto", "dense", "sparse")),
        doc="how contexts are read: as dense rows, as sparse rows, or as the first one is",
    )
    could_say = could_say_for_certain

    @staticmethod
    def score(params, state, work, row, turn):
        context, experts = prepared(state, row), state.held.experts
        work.scores[:] = 0.0
        work.widths[:] = 0.0
        if row.start == row.stop:  # nothing is known about nothing
            return
        for expert in range(len(experts.trust)):
            _sum_up(state, context, expert)
            weight, forecasts = experts.trust[expert, WEIGHT], experts.forecasts[expert]
            if expert == RIDGE:
                for label in range(len(work.mask)):
                    forecasts[label] = 0.5 * (1.0 + np.float64(experts.scores[expert, label]))
                    width = 0.5 * math.sqrt(np.float64(experts.variances[expert, label]))
                    work.widths[label] = number(state, weight * width)
            else:
                _softmax(experts.scores[expert], work.mask, forecasts)
            for label in range(len(work.mask)):
                work.scores[label] += number(state, weight * forecasts[label])

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
        experts, context, said = state.held.experts, last_input(state, row), choice.label
        _weigh(experts.trust, experts.forecasts, said, right)
        for expert in range(len(experts.trust)):
            _learn(state, context, expert, work.mask, said, right)
        experts.tries[ANSWERED, said] += 1.0
        experts.count[HEARD] += 1
        if _may_say_all(experts, work):
            keep_round(state, row, said, right)
        if fix_scales(state, row):
            _learn_all_again(state, turn)
        elif experts.count[KEPT] > 0:
            for n in range(AGAIN):
                _learn_again(state, _drawn(experts, turn, n, experts.count[KEPT]), False)
        return True

    def _check_settings(self) -> None:
        if self.inputs == "dense" and self.features is None:
            raise ValueError("inputs='dense' needs features=, the number of columns")

    def _make_storage(self) -> Storage:
        return self._storage_for(self.features if self.inputs == "dense" else 0)

    def _storage_for(self, columns: int | None) -> Storage:
        """Dense storage for so many columns, or sparse storage."""
        dtype, priors = precision(self.dtype or "float32"), PRIOR if columns else PRIOR[:NARROW]
        untold = (1.0 / len(priors), 0.0, 0.0, 1.0, DOUBT, 0.0, DOUBT)
        if columns:
            return DenseExperts(priors, NARROW, untold, columns, self.seed, dtype)
        return SparseExperts(priors, untold, dtype)

    def _meet(self, columns: int) -> None:
        untold = self._state.held.experts.count[HEARD] == 0
        if columns and untold and self.inputs == "auto" and self._storage.planes:
            self._use(self._storage_for(columns))

    def _meet_saved(self, arrays: Mapping[str, np.ndarray]) -> None:
        if "narrow" in arrays and self._storage.planes:
            self._use(self._storage_for(arrays["narrow"].shape[0]))

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

    def _reserve(self, rows: int, arrays: Any = None) -> None:
        if self.planes == 0 and rows > (columns := self._storage.columns):  # type: ignore[attr]
            raise ValueError(
                f"this learner takes dense rows of {columns} columns, as its first context was; "
                f"column {rows - 1} is beyond them"
            )
        super()._reserve(rows, arrays)

    def _fill(self) -> tuple[float, ...]:
        return tuple(value for prior in PRIOR[:NARROW] for value in (0.0, prior))
