"""The forecasts of all experts, their mean, and its width."""

from __future__ import annotations

import math

import numpy as np

from onebit.algorithms.onebit.experts import is_logistic, is_regression
from onebit.algorithms.onebit.records import (
    ANSWERED,
    COMMON,
    SAID,
    WEIGHT,
    are_dense,
    is_left_out,
)
from onebit.algorithms.onebit.ridge import LEAST_WEIGHT
from onebit.algorithms.onebit.softmax import softmax
from onebit.algorithms.onebit.weighing import beliefs
from onebit.core.choosing import sigmoid
from onebit.core.jit import inline, not_inlined, outline

# Of logistic models, for labels that are right by themselves: in standard deviations of the score;
# and in variances of the score by the label alone, for all labels, and for those that were said
# less often than others, in proportion to the logarithm of how far they are behind.
CONTEXT_WIDTH = 0.25
LABEL_WIDTH, CATCHING_UP = 0.25, 2.0
WIDTH = 0.5  # in standard deviations of a regression's forecast; pays where answers are false


@outline
def forecast_all(experts, bare, mask, turn, scores, widths):
    """Forecasts of the experts, their mean as scores, and widths."""
    not_inlined()
    trust, sums, kind = experts.trust, experts.sums, scores.dtype.type
    each = 0.0
    for expert in range(len(trust)):
        each += trust[expert, WEIGHT] if is_logistic(expert, bare) else 0.0
    exclusive, telling = beliefs(experts, bare, turn.count)
    exclusive *= telling
    independent = (1.0 - exclusive) / max(each, LEAST_WEIGHT)
    for label in range(len(mask)):
        scores[label] = widths[label] = 0.0
    for expert in range(len(trust)):
        forecast, weight = experts.forecasts[expert], trust[expert, WEIGHT]
        if is_left_out(trust, expert):
            continue
        for label in range(len(mask)):
            forecast[label] = sums[2 * expert, label]
        if is_regression(expert, are_dense(experts)):
            for label in range(len(mask)):
                deviation = math.sqrt(np.float64(sums[2 * expert + 1, label]))
                p = min(max(0.5 * (1.0 + forecast[label]), 0.0), 1.0)
                noise = exclusive + (1.0 - exclusive) * 2.0 * math.sqrt(p * (1.0 - p))
                widths[label] += kind(weight * WIDTH * noise * deviation)
                forecast[label] = 0.5 * (1.0 + forecast[label])
        elif is_logistic(expert, bare):
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
            softmax(forecast, mask, forecast)
        for label in range(len(mask)):
            scores[label] += kind(weight * forecast[label])


@inline
def forecast_said(experts, bare, said):
    """Forecasts of the logistic models for the said label: those of little weight have none."""
    for expert in range(len(experts.trust)):
        if is_logistic(expert, bare):
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
