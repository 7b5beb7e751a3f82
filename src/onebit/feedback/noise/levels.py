"""Rates of flips by the two levels of a curve fitted to the feedback."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import expit, logit, xlogy

from onebit.feedback.noise.log import FLOAT, Log, NotIdentified, Rates, matrix_of, rates_of

_STRENGTHS = (1.0, 3.0, 10.0)  # of the ridge, in units of a row's mean squared length
_STEPS = 30  # most steps of conjugate gradients
_GROUPS = 256  # most groups of answers with similar scores
_IN_A_GROUP = 20  # fewest answers per group
_CHUNK = 4096  # rows scored at a time, which bounds memory for many labels
_EVIDENCE = 30.0  # least value of twice the log-likelihood ratio against a constant
_ON_A_LEVEL = 30  # fewest answers within a tenth of each level
_WIDEST = 0.25  # widest interval that is accepted
_SLACK = 0.02  # tolerance of the check by exploration


def rates_by_levels(log: Log, confidence: float, resamples: int, rng: np.random.Generator) -> Rates:
    halves = _Halves.of(log, rng)
    tried = [_fit_curve(_grouped(halves, strength)) for strength in _STRENGTHS]
    groups, curve, fit = max(tried, key=lambda fitted: fitted[2])
    _refuse_flat(groups, curve, fit)
    share = groups.right / groups.answers
    drawn = rng.binomial(groups.answers, share, (resamples, len(share)))
    curves, _ = _climb(groups, drawn, np.tile(curve, (resamples, 1)))
    rates = rates_of(_levels_of(curve), _levels_of(curves), confidence, "levels", len(log))
    _refuse_contradicted(log, rates)
    wide = max(rates.rho0_high - rates.rho0_low, rates.rho1_high - rates.rho1_low)
    if wide > _WIDEST:
        raise NotIdentified(
            f"{rates.answers} answers leave the rates open: rho0 between {rates.rho0_low:.2f} and "
            f"{rates.rho0_high:.2f}, rho1 between {rates.rho1_low:.2f} and {rates.rho1_high:.2f}; "
            "more answers would narrow them"
        )
    return rates


def _levels_of(curve: np.ndarray) -> np.ndarray:
    return np.stack([expit(curve[..., 0]), expit(-curve[..., 1])], axis=-1)


class _Halves(NamedTuple):
    """A log in two halves, each sorted by said label: the answers for a label are one slice."""

    X: Any
    right: np.ndarray
    said: np.ndarray
    middle: int
    labels: int

    @classmethod
    def of(cls, log: Log, rng: np.random.Generator) -> _Halves:
        half = rng.permutation(len(log)) % 2
        order = np.lexsort((log.said, half))
        middle = int((half == 0).sum())
        X = matrix_of(log.X)
        # Scale by a power of two, which is exact, so that squares of large values do not overflow.
        largest = float(max(abs(X.max()), abs(X.min())))
        X = X * FLOAT.type(2.0 ** -math.frexp(largest)[1]) if largest else X
        return cls(X[order], log.right[order], log.said[order], middle, log.labels)

    def scores(self, strength: float) -> np.ndarray:
        """The said label's margin over the best other label, predicted by the other half."""
        scores = np.empty(len(self.said))
        first, second = slice(0, self.middle), slice(self.middle, None)
        for learned, scored in ((first, second), (second, first)):
            W, level = self._predictors(learned, strength)
            X, said = self.X[scored], self.said[scored]
            out = scores[scored]
            for at in range(0, len(said), _CHUNK):
                span = slice(at, at + _CHUNK)
                rows, own = np.arange(len(said[span])), said[span]
                predicted = X[span] @ W + level
                of_said = predicted[rows, own].copy()
                predicted[rows, own] = -np.inf
                with np.errstate(invalid="ignore"):  # -inf - -inf, where neither is known
                    out[span] = of_said - predicted.max(axis=1)
        return scores

    def _predictors(self, learned: slice, strength: float) -> tuple[np.ndarray, np.ndarray]:
        """Per label, the weights and the constant that predict its bit."""
        X, right = self.X[learned], self.right[learned].astype(FLOAT)
        starts = np.searchsorted(self.said[learned], np.arange(self.labels + 1))
        numbers = X.data if sparse.issparse(X) else X.ravel()
        strength = strength * max(float(numbers @ numbers) / X.shape[0], 1e-30)
        overall = right.mean()
        W = np.zeros((X.shape[1], self.labels), FLOAT)
        level = np.full(self.labels, -np.inf, FLOAT)
        for label in range(self.labels):
            span = slice(starts[label], starts[label + 1])
            count = span.stop - span.start
            if count == 0:
                continue
            contexts = X[span]
            mean = (right[span].sum() + overall) / (count + 1)  # shrunk to the overall mean
            W[:, label] = _ridge(contexts, right[span] - right[span].mean(), strength)
            level[label] = mean - (np.asarray(contexts.mean(axis=0)).ravel() @ W[:, label])
        return W, level


def _ridge(X: Any, y: np.ndarray, strength: float) -> np.ndarray:
    """Weights that predict y, whose mean is 0, from centred columns.

    Conjugate gradients need no square matrix, so sparse columns stay cheap.
    """
    w = np.zeros(X.shape[1], FLOAT)
    residual = X.T @ y
    direction, size = residual.copy(), float(residual @ residual)
    enough = 1e-6 * size
    for _ in range(_STEPS):
        if size <= enough:
            break
        image = X @ direction
        product = X.T @ (image - image.mean()) + FLOAT.type(strength) * direction
        step = FLOAT.type(size / float(direction @ product))
        w += step * direction
        residual = residual - step * product
        new_size = float(residual @ residual)
        direction = residual + FLOAT.type(new_size / size) * direction
        size = new_size
    return w


class _Groups(NamedTuple):
    """Answers of similar score: per group the mean score, and the counts of answers and rights."""

    score: np.ndarray
    answers: np.ndarray
    right: np.ndarray


def _grouped(halves: _Halves, strength: float) -> _Groups:
    """Groups of equal size, give or take one answer. Scores are divided by their spread."""
    scores = halves.scores(strength)
    known = np.isfinite(scores)  # not for labels that were never said in the other half
    scores, right = scores[known], halves.right[known]
    order = np.argsort(scores, kind="stable")
    count = min(_GROUPS, len(scores) // _IN_A_GROUP)
    edges = np.arange(count) * len(scores) // count
    answers = np.diff(np.append(edges, len(scores)))
    mean = np.add.reduceat(scores[order], edges) / answers
    heard = np.add.reduceat(right[order].astype(np.int64), edges)
    return _Groups(mean / (scores.std() or 1.0), answers, heard)


# A curve is (logit of the lower level, logit of the upper level, log of the slope, shift).
_LOWEST = np.array([-12.0, -12.0, -3.0, -40.0])
_HIGHEST = np.array([12.0, 12.0, 5.0, 40.0])


def _climb(groups: _Groups, right: np.ndarray, curves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Maximum-likelihood curves, one per row of counts `right`, and their log-likelihoods.

    Fisher scoring with Levenberg's damping on all rows at once; rows that have converged drop out.
    """
    curves, fits = curves.copy(), _likelihood(groups, right, _chances(groups, curves))
    damping, live = np.full(len(curves), 1e-2), np.arange(len(curves))
    diagonal = np.arange(4)
    for _ in range(100):
        information, gradient = _derivatives(groups, right[live], curves[live])
        information[:, diagonal, diagonal] *= 1 + damping[live, None]
        information[:, diagonal, diagonal] += 1e-9
        step = np.clip(np.linalg.solve(information, gradient[..., None])[..., 0], -2, 2)
        tried = np.clip(curves[live] + step, _LOWEST, _HIGHEST)
        found = _likelihood(groups, right[live], _chances(groups, tried))
        gain = found - fits[live]
        better = gain > 0
        curves[live[better]], fits[live[better]] = tried[better], found[better]
        damping[live] *= np.where(better, 0.2, 5.0)
        live = live[np.where(better, gain > 1e-4, damping[live] < 1e2)]
        if len(live) == 0:
            break
    return curves, fits


def _chances(groups: _Groups, curves: np.ndarray) -> np.ndarray:
    """The probability of hearing right, per curve and group."""
    low, high = expit(curves[:, :1]), expit(curves[:, 1:2])
    up = expit(np.exp(curves[:, 2:3]) * groups.score + curves[:, 3:])
    return np.clip(low + (high - low) * up, 1e-9, 1 - 1e-9)


def _likelihood(groups: _Groups, right: np.ndarray, q: np.ndarray) -> np.ndarray:
    return (right * np.log(q) + (groups.answers - right) * np.log1p(-q)).sum(axis=1)


def _derivatives(
    groups: _Groups, right: np.ndarray, curves: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The Fisher information and the gradient of the log-likelihood, per curve."""
    low, high, slope = expit(curves[:, :1]), expit(curves[:, 1:2]), np.exp(curves[:, 2:3])
    up = expit(slope * groups.score + curves[:, 3:])
    steep = (high - low) * up * (1 - up)
    level = low * (1 - low) * (1 - up), high * (1 - high) * up
    slopes = np.stack([*level, steep * slope * groups.score, steep], axis=1)
    q = _chances(groups, curves)
    weight = 1 / (q * (1 - q))
    gradient = np.matmul(slopes, (weight * (right - groups.answers * q))[..., None])[..., 0]
    weighted = slopes * (weight * groups.answers)[:, None]
    return np.matmul(weighted, slopes.transpose(0, 2, 1)), gradient


def _fit_curve(groups: _Groups) -> tuple[_Groups, np.ndarray, float]:
    """The groups, the best curve from several starts, and its log-likelihood."""
    ends = max(len(groups.score) // 10, 1)
    share = groups.right / groups.answers
    low, high = share[:ends].mean(), share[-ends:].mean()
    low, high = np.clip([low, max(high, low + 0.05)], 0.02, 0.98)
    starts = [(logit(low), logit(high), math.log(u), v) for u in (2.0, 6.0) for v in (-2.0, 0, 2.0)]
    curves, fits = _climb(groups, np.tile(groups.right, (len(starts), 1)), np.array(starts))
    best = int(fits.argmax())
    return groups, curves[best], float(fits[best])


def _refuse_flat(groups: _Groups, curve: np.ndarray, fit: float) -> None:
    """Refuse bits that do not depend on the scores, or that show only one end of the curve."""
    total, right = groups.answers.sum(), groups.right.sum()
    without = xlogy(right, right / total) + xlogy(total - right, 1 - right / total)
    rho0, rho1 = _levels_of(curve)
    if 2 * (fit - without) < _EVIDENCE or rho0 + rho1 >= 1:
        raise NotIdentified(
            "the feedback barely depends on context and label: rho0 + rho1 is near 1, or the "
            "contexts do not predict the labels, or the answers are too few; more may help"
        )
    up = expit(np.exp(curve[2]) * groups.score + curve[3])
    high, low = groups.answers[up > 0.9].sum(), groups.answers[up < 0.1].sum()
    if high < _ON_A_LEVEL:
        raise NotIdentified(
            f"no answers are surely right: only {high} of {total} lie where the chance of right no "
            "longer rises, so 1 - rho1 is not seen; let the learner learn longer, or give contexts "
            "that predict the labels better"
        )
    if low < _ON_A_LEVEL:
        raise NotIdentified(
            f"too few answers are surely wrong: only {low} of {total} lie where the chance of "
            "right no longer falls, so rho0 is not seen; let the learner explore more"
        )


def _refuse_contradicted(log: Log, rates: Rates) -> None:
    """Refuse rates that contradict the exploration.

    One of K labels is right, so a uniformly random label is heard right with probability
    rho0 + (1 - rho0 - rho1) / K exactly. The log gives an estimate of this probability without a
    model, if the propensities are known and none is 0. The two differ if right and wrong are
    exchanged, because the curve then has the same shape with other levels, and if the scores are
    too poor to find answers that are surely right.
    """
    if log.propensities is None:
        return
    weight = 1 / log.propensities
    if not 0.8 < weight.mean() / log.labels < 1.25:  # 1 in the mean, if every label may be said
        return
    heard = float(weight @ log.right / weight.sum())
    error = math.sqrt(float((weight**2) @ (log.right - heard) ** 2)) / weight.sum()
    expected = rates.rho0 + (1 - rates.rho0 - rates.rho1) / log.labels
    if abs(heard - expected) > 4 * error + _SLACK:
        raise NotIdentified(
            f"a label drawn at random would be heard right {heard:.1%} of the time, by the "
            f"propensities; rho0 = {rates.rho0:.3f} and rho1 = {rates.rho1:.3f} make that "
            f"{expected:.1%}, as one label in {log.labels} is right: the contexts carry too "
            "little information for a linear rule, or several labels may be right, or right and "
            "wrong are exchanged"
        )
