"""Softmax models of the label, fitted to the likelihood of the answer."""

from __future__ import annotations

import math

import numpy as np

from onebit.algorithms.onebit.records import (
    AFTER,
    MOVED,
    NEWTON,
    PRECISION,
    PREDICTED,
    SHRINKAGE,
    STEP,
    TARGET,
)
from onebit.core.jit import inline, not_inlined, outline

NEWTON_STEPS = 5  # at most
SMALLEST_STEP = 1e-4  # below it an expert has nothing to learn


@outline
def softmax(scores, mask, out):
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
def know_after(forecasts, mask, said, right, is_dense, after):
    """The labels' probabilities after an answer, by all experts together.

    False: they are not known, as for dense rows: there, each expert does better with its own.
    """
    not_inlined()
    left, labels = 0.0, 0
    if is_dense:
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
def find_change(
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
    softmax(moved, mask, p)
    if is_known and noise == 0.0:
        largest = _take_target(p, scratch[AFTER], scratch[TARGET])
    else:
        largest = _set_target(p, said, right, noise, scratch[TARGET])
    if largest <= SMALLEST_STEP:
        return False  # the steps would be smaller still
    for _ in range(NEWTON_STEPS):
        farthest = _newton_step(scores, scratch, moved, p)
        softmax(moved, mask, p)
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
