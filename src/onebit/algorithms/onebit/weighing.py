"""Trust in experts: their weights, the calibration of forecasts, and beliefs that follow."""

from __future__ import annotations

import math

from onebit.algorithms.onebit.experts import is_logistic, is_regression, noise_of
from onebit.algorithms.onebit.records import (
    ANSWERED,
    CROSS,
    CURVE,
    EVIDENCE,
    OFFSET,
    SLOPE,
    STEEP,
    WEIGHT,
    are_dense,
    is_left_out,
    renew_weights,
)
from onebit.core.choosing import sigmoid
from onebit.core.jit import inline, not_inlined, outline

# The odds that contexts say something, before any answer: whoever gives contexts expects it.
HOPE = 5.0
MEMORY = 0.999  # of the weights and their calibration, per answer: an expert may come from behind
DOUBT = 20.0  # answers that the calibration's prior is worth
# Slopes and offset of the calibration, which mends forecasts that are too sure, as they are where
# answers are false.
FLATTEST, STEEPEST, FARTHEST = 0.1, 2.0, 1.0
RAREST = 1e-3  # forecasts are believed between this and 1 - this: one surprise ruins no expert


@outline
def weigh(trust, forecasts, said, right, is_dense):
    """Trust the experts by how well they forecast this answer, and calibrate their forecasts."""
    not_inlined()
    prior = (1.0 - MEMORY) * DOUBT
    for expert in range(len(trust)):
        if is_left_out(trust, expert):
            continue
        line = trust[expert]
        noise = noise_of(expert, is_dense)
        f = noise + (1.0 - 2.0 * noise) * forecasts[expert, said]
        f = min(max(f, RAREST), 1.0 - RAREST)
        x, offset, slope = math.log(f / (1.0 - f)), line[OFFSET], line[SLOPE]
        f = sigmoid(offset + slope * x)
        missed = (1.0 if right else 0.0) - f
        f = min(max(f, RAREST), 1.0 - RAREST)
        evidence = MEMORY * line[EVIDENCE] + math.log(f if right else 1.0 - f)
        line[EVIDENCE] = evidence
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
    renew_weights(trust)


@inline
def beliefs(experts, bare, count):
    """Two beliefs about rounds with so many labels: that exactly one of them is right, and that
    contexts say something about which.

    They follow the weights of the experts, without regressions. The longer the learner has heard
    answers, the better must the other experts have forecast than the one without features.
    """
    one, each, answers = 0.0, 0.0, 0.0
    for expert in range(len(experts.trust)):
        weight = experts.trust[expert, WEIGHT]
        if is_logistic(expert, bare):
            each += weight if expert != bare else 0.0
        elif not is_regression(expert, are_dense(experts)):
            one += weight
    for label in range(experts.tries.shape[1]):
        answers += experts.tries[ANSWERED, label]
    late = 1.0 + answers / count
    mute = experts.trust[bare, WEIGHT] * late * late / HOPE
    exclusive = one / (one + each) if one + each > 0.0 else 0.5
    return exclusive, (one + each) / (one + each + mute) if one + each > 0.0 else 0.0
