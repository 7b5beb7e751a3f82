"""Estimates of what a policy is worth, round by round, and brackets for what no log can tell.

A policy is a matrix of probabilities [round, label]. `weights` is this matrix, or the difference of
two policies. What is estimated is the mean of the sum over labels of weight * 1[label is right]:
the share of rounds in which the policy is right, or the difference of two such shares.

Every estimate of a round has the form start[a] + slope[a] * c, where a is the said label and c
whether it was right. Its mean over a is the value of the round, whatever label is right:

    IPS   slope[a] = w[a] / p[a]           start[a] = 0
    DR    slope[a] = w[a] / p[a]           start[a] = sum of q w - slope[a] q[a]
    xDR   slope[a] = (w[a] - S) / p[a]     start[a] = S T + sum of q (w - S) - slope[a] q[a]

p are the probabilities by which the logger said labels, q forecasts of the chance to be right, made
before the round. xDR needs a world in which exactly one label is right, so that the chances to be
heard as right have the known sum T (1 without flipped answers). S may be any number that does not
depend on a and c; S = 0 is DR. With q the truth, no unbiased estimate from one round has a smaller
variance than xDR with the S of `shifts`.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

IPS, DR, XDR = range(3)
NAMES = ("IPS", "DR", "xDR")
World = Literal["exclusive", "at most one", "independent"]
_LEAST = 1e-12  # variances below are none
_ALL = np.zeros((0, 0), bool)


class Rounds(NamedTuple):
    """Answered rounds of a log, as arrays over rounds (and labels)."""

    said: np.ndarray  # the place of the label
    right: np.ndarray  # whether it was right: 0 or 1
    truth: np.ndarray  # the place of the label that was named as right, or -1
    propensity: np.ndarray  # of the said label; NaN: not known
    propensities: np.ndarray  # [round, label]; rows of NaN: not known
    allowed: np.ndarray = _ALL  # [round, label]: which labels were possible; no rows: all were

    @property
    def possible(self) -> np.ndarray:
        """Which labels were possible, [round, label]; a single row if they were always all."""
        if len(self.allowed):
            return self.allowed
        return np.ones((1, self.propensities.shape[1]), bool)

    @property
    def are_full(self) -> np.ndarray:
        """In which rounds the probability of every label is known."""
        return ~np.isnan(self.propensities[:, 0])

    def part(self, rows: Any) -> Rounds:
        """Some of the rounds."""
        return Rounds(*(column[rows] if len(column) else column for column in self))


class Forms(NamedTuple):
    """Estimates of each round: start + slope * right, for the said label."""

    start: np.ndarray
    slope: np.ndarray

    def at(self, right: np.ndarray) -> np.ndarray:
        return self.start + self.slope * right


def shifts(
    weights: np.ndarray,
    forecasts: np.ndarray,
    propensities: np.ndarray,
    possible: np.ndarray | bool = True,
) -> np.ndarray:
    """The S of each round with which xDR has the least variance.

    Possible labels that were never said would need an infinite weight: S is the weight that they
    have in common, or the lower median of their weights.
    """
    can_be_said = propensities > 0
    variances = np.maximum(forecasts * (1 - forecasts), _LEAST)
    inverse = np.divide(variances, propensities, out=np.zeros_like(variances), where=can_be_said)
    made = (inverse * weights).sum(axis=1) / inverse.sum(axis=1)
    unsaid = ~can_be_said & possible
    counts = unsaid.sum(axis=1)
    some = np.flatnonzero(counts)
    if len(some):
        ordered = np.sort(np.where(unsaid[some], weights[some], np.inf), axis=1)
        made[some] = ordered[np.arange(len(some)), (counts[some] - 1) // 2]
    return made


def without_support(
    weights: np.ndarray,
    propensities: np.ndarray,
    shift: np.ndarray,
    possible: np.ndarray | bool = True,
) -> np.ndarray:
    """How much weight of each round is on possible labels that could not be said."""
    return (np.abs(weights - shift[:, None]) * ((propensities == 0) & possible)).sum(axis=1)


def forms_of_labels(
    kind: int,
    weights: np.ndarray,
    forecasts: np.ndarray,
    propensities: np.ndarray,
    shift: np.ndarray,
    total: float | np.ndarray = 1.0,
) -> Forms:
    """The estimate for every label that may be said, [round, label]; 0 for those that cannot."""
    can_be_said = propensities > 0
    moved = weights - shift[:, None] if kind == XDR else weights
    slope = np.divide(moved, propensities, out=np.zeros_like(moved), where=can_be_said)
    if kind == IPS:
        return Forms(np.zeros_like(slope), slope)
    known = (forecasts * moved).sum(axis=1)
    if kind == XDR:
        known = known + total * shift
    return Forms(np.where(can_be_said, known[:, None] - slope * forecasts, 0.0), slope)


def forms_of_said(
    kind: int,
    weights: np.ndarray,
    forecasts: np.ndarray,
    said: np.ndarray,
    propensity: np.ndarray,
    shift: np.ndarray,
    total: float | np.ndarray = 1.0,
) -> Forms:
    """The same for the said label alone, whose probability is all that is needed."""
    each = np.arange(len(said))
    moved = weights - shift[:, None] if kind == XDR else weights
    slope = moved[each, said] / propensity
    if kind == IPS:
        return Forms(np.zeros_like(slope), slope)
    known = (forecasts * moved).sum(axis=1)
    if kind == XDR:
        known = known + total * shift
    return Forms(known - slope * forecasts[each, said], slope)


# Both directions. A lower bound needs estimates that are nowhere far below 0; an upper bound is the
# lower bound of the opposite. Both shrink towards an estimate that is bounded by nature, IPS of the
# positive weights and of "wrong" for the negative ones:
#
#     w+[a] / p[a] c + w-[a] / p[a] (1 - c) - sum of w-      with mean sum of w r


def bounded_forms(weights: np.ndarray, said: np.ndarray, propensity: np.ndarray) -> Forms:
    """This estimate; it is at least minus the sum of the negative weights.

    Where labels lack support its mean is too low, never too high.
    """
    each = np.arange(len(said))
    positive, negative = np.maximum(weights, 0), np.maximum(-weights, 0)
    up, down = positive[each, said] / propensity, negative[each, said] / propensity
    return Forms(down - negative.sum(axis=1), up - down)


def shrinkage(least: np.ndarray, floor: np.ndarray, bounds: tuple[float, ...]) -> np.ndarray:
    """How much of an estimate is kept, [round, bound], so that the mix is at least -bound.

    least: the smallest value that it may take in the round. floor: that of the bounded estimate.
    """
    limit = -np.array(bounds)
    depth = floor - least
    kept = np.divide(
        floor[:, None] - limit,
        depth[:, None],
        out=np.ones((len(least), len(bounds))),
        where=least[:, None] < limit,
    )
    return np.clip(kept, 0.0, 1.0)


# Brackets, for logs without probabilities.


def brackets(
    weights: np.ndarray,
    said: np.ndarray,
    right: np.ndarray,
    truth: np.ndarray,
    world: World,
    possible: np.ndarray | bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest value that each round leaves possible. Labels that were not
    possible weigh 0.

    Right: the label is known, in an exclusive world. Wrong: it is one of the others; or none, where
    at most one label is right. In an independent world, any of the other labels may be right or
    wrong in either case.
    """
    each = np.arange(len(said))
    own = weights[each, said] * right
    others = weights.copy()
    others[each, said] = 0.0
    named = truth >= 0
    exact = np.where(named, weights[each, truth], 0.0)
    if world == "independent":
        own += np.where(named & (truth != said), exact, 0.0)
        others[each[named], truth[named]] = 0.0
        return own + np.minimum(others, 0).sum(axis=1), own + np.maximum(others, 0).sum(axis=1)
    is_other = np.broadcast_to(possible, weights.shape).copy()
    is_other[each, said] = False
    least, most = _extremes(weights, is_other)
    if world == "at most one":
        least, most = np.minimum(least, 0), np.maximum(most, 0)
    low, high = own + (1 - right) * least, own + (1 - right) * most
    return np.where(named, exact, low), np.where(named, exact, high)


def _extremes(weights: np.ndarray, among: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest weight among some labels of each round; 0 if there are none."""
    is_none = ~among.any(axis=1)
    least = np.where(among, weights, np.inf).min(axis=1)
    most = np.where(among, weights, -np.inf).max(axis=1)
    return np.where(is_none, 0.0, least), np.where(is_none, 0.0, most)


def unknown_brackets(
    weights: np.ndarray, world: World, possible: np.ndarray | bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """The same for rounds without an answer: any label may be right."""
    if world == "independent":
        return np.minimum(weights, 0).sum(axis=1), np.maximum(weights, 0).sum(axis=1)
    least, most = _extremes(weights, np.broadcast_to(possible, weights.shape))
    if world == "at most one":
        least, most = np.minimum(least, 0), np.maximum(most, 0)
    return least, most
