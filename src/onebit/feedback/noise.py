"""How often feedback is false: the rates of flips, from a log of what was said and what was heard.

    log = ob.noise.Log.of(pairs)             # pairs (decision, heard right?); or Log(X, said, ...)
    ob.noise.estimate_rates(log)             # Rates(rho0=0.199 [0.195, 0.204], rho1=0.402 ...)

rho0 is how often wrong is heard as right, rho1 how often right is heard as wrong. Nobody names the
true label, so the rates are told from the shape of one curve: right is heard with probability
rho0 + (1 - rho0 - rho1) P(label is right | context). Where the label is surely wrong this is rho0,
where it is surely right it is 1 - rho1. A log without answers of both kinds does not hold the
rates, and `NotIdentified` says so.

Two methods. "levels" (ours) scores contexts by a linear model and fits the two levels of the curve.
"nrest" is that of Agarwal and Manwani (2021), Algorithm 3: it trains a network, and reads the rates
off its values at single examples.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import expit, logit, xlogy

from onebit.contexts import Rows, encode_rows
from onebit.decision import Decision
from onebit.settings import bit, choice_of, real, whole

_FEWEST = 200  # answers; below, a level has a few tens of them at best
_MOST_LABELS = 10**6
_DENSE_BYTES = 2**28  # contexts up to this size are laid out whole, whatever they hold
_FLOAT = np.dtype(np.float32)


class NotIdentified(ValueError):
    """The rates cannot be told from this log; the sentence says why, and what would help."""


# Logs


@dataclass(frozen=True, eq=False)
class Log:
    """What was said and what was heard, one line an answer.

    X: contexts, as learners take them (matrix, sparse matrix, sequence of dicts or pairs).
    said: the places, 0 to labels - 1, of the labels that were said.
    right: whether right was heard.
    propensities: the probabilities with which the labels were said, if known. Rates are told from
    bits given context and label, without them; they serve to check the outcome.
    labels: how many labels there are.
    """

    X: Any
    said: Any
    right: Any
    propensities: Any = None
    labels: int = 0

    def __post_init__(self) -> None:
        labels = whole("labels", self.labels, least=2, most=_MOST_LABELS)
        rows = encode_rows(self.X, _FLOAT, None)
        said, right = np.asarray(self.said), np.asarray(self.right)
        answers = len(rows.indptr) - 1
        _same_length("said", said, answers)
        _same_length("right", right, answers)
        if said.dtype.kind not in "iu" and answers:
            raise TypeError(f"said must hold places of labels, whole numbers, not {said.dtype}")
        if right.dtype.kind in "iu" and np.isin(right, (0, 1)).all():
            right = right.astype(bool)
        if right.dtype != bool and answers:
            raise TypeError(f"right must hold True or False, not {right.dtype}: say right == 1")
        if answers and not 0 <= said.min() <= said.max() < labels:
            raise ValueError(f"said must hold places from 0 to {labels - 1}, the labels' places")
        kept = None
        if self.propensities is not None:
            kept = np.array(self.propensities, np.float64)
            _same_length("propensities", kept, answers)
            if not ((kept > 0) & (kept <= 1)).all():
                raise ValueError("propensities must be above 0 and at most 1")
        for name, value in (
            ("X", rows),
            ("said", said.astype(np.int64)),
            ("right", right.astype(bool)),
            ("propensities", kept),
            ("labels", labels),
        ):
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, pairs: Iterable[tuple[Decision, bool]], *, labels: int | None = None) -> Log:
        """The log of pairs (decision, whether right was heard). Contexts are not copied."""
        decisions, right = [], []
        for pair in pairs:
            if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], Decision)):
                raise TypeError(f"a log is made of pairs (decision, right), not {pair!r}")
            decisions.append(pair[0])
            right.append(bit("right", pair[1]))
        if not decisions:
            raise ValueError("this log is empty: it wants pairs (decision, right), one an answer")
        return cls(
            [d.row for d in decisions],
            np.array([d.place for d in decisions], np.int64),
            np.array(right, bool),
            [d.propensity for d in decisions],
            max(d.size for d in decisions) if labels is None else labels,
        )

    def __len__(self) -> int:
        return len(self.said)

    def __repr__(self) -> str:
        heard = f"{np.mean(self.right):.1%} heard right" if len(self) else "no answers"
        return f"Log({len(self):,} answers, {self.labels} labels, {heard})"


def _same_length(name: str, values: np.ndarray, answers: int) -> None:
    if values.shape != (answers,):
        raise ValueError(f"{name} of shape {values.shape} does not fit {answers} contexts in X")


def _matrix(rows: Rows) -> Any:
    """Contexts as an array where that is small or they are mostly not zero, else as CSR.

    In a CSR matrix columns that are nowhere used are left out: no weights are kept for them.
    """
    answers, columns, width = len(rows.indptr) - 1, rows.indices.view(np.int32), max(rows.width, 1)
    if answers * width * _FLOAT.itemsize > _DENSE_BYTES:
        used = np.zeros(width, bool)
        used[columns] = True
        columns = (np.cumsum(used) - 1).astype(np.int32)[columns]
        width = max(int(used.sum()), 1)
    thin = sparse.csr_matrix((rows.values, columns, rows.indptr), shape=(answers, width))
    size = answers * width
    small = size * _FLOAT.itemsize <= _DENSE_BYTES
    return thin.toarray() if small or 4 * thin.nnz >= size else thin


# Answers


@dataclass(frozen=True)
class Rates:
    """Estimated rates of flips, with intervals.

    The ends hold the given share (`confidence`) of estimates from resampled answers; what is
    resampled, and so what the interval does not cover, is said at the method.
    """

    rho0: float  # wrong heard as right
    rho1: float  # right heard as wrong
    rho0_low: float
    rho0_high: float
    rho1_low: float
    rho1_high: float
    confidence: float
    method: str
    answers: int  # how many were used

    def __repr__(self) -> str:
        return (
            f"Rates(rho0={self.rho0:.3f} [{self.rho0_low:.3f}, {self.rho0_high:.3f}], "
            f"rho1={self.rho1:.3f} [{self.rho1_low:.3f}, {self.rho1_high:.3f}], "
            f"{self.method}, {self.answers:,} answers)"
        )


def _rates(
    found: np.ndarray, resampled: np.ndarray, confidence: float, method: str, answers: int
) -> Rates:
    """From (rho0, rho1) and a row of the same for every resample."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(resampled, [tail, 1 - tail], axis=0)
    low, high = np.minimum(low, found).tolist(), np.maximum(high, found).tolist()
    rho0, rho1 = found.tolist()
    return Rates(rho0, rho1, low[0], high[0], low[1], high[1], confidence, method, answers)


def estimate_rates(
    log: Log,
    *,
    method: Literal["levels", "nrest"] = "levels",
    confidence: float = 0.9,
    resamples: int = 200,
    seed: int = 0,
    anchor: Literal["feedback", "class"] = "feedback",
    percentile: float = 89.0,
    combine: Literal["mean", "median"] = "mean",
    coding: Literal["one-hot", "integer"] = "one-hot",
    classifier: Any = None,
) -> Rates:
    """The rates of flips in this log, or `NotIdentified`. The same log and seed, the same rates.

    method="levels": answers are halved at random. In each half a ridge regression for every label
    predicts the bit; it scores the answers of the *other* half by how far the said label's
    prediction exceeds the best other's. Then rho0 + (1 - rho0 - rho1) / (1 + exp(-(u score + v)))
    is fitted to the bits by maximum likelihood; its two levels are the rates. How strongly the
    regressions are held back is chosen, from three strengths, by that likelihood. The interval is a
    bootstrap of the last step: bits are drawn anew within groups of like score. It covers
    neither the regressions nor a curve of another shape.

    method="nrest": `classifier`, any of scikit-learn's with predict_proba, learns q(x, j), the
    chance of hearing right after j, from a random nine tenths of the log. `coding` is how the label
    is appended to x. With anchor="class" (as the paper writes it) the example of each label j is
    the row at that percentile of q(., j) over the contexts; 1 - rho1 is q(x_l, l) and rho0 is
    q(x_k, l), combined over the labels. With anchor="feedback" (as its authors' code does) there
    are two examples among the logged pairs, at that percentile of the chance of each bit. The
    interval is a bootstrap of the examples only, for a given network: it says nothing of what else
    the network might have learned, and is far too short.

    The default classifier is scikit-learn's MLPClassifier with the paper's sizes for MNIST: 128 and
    128 units, ReLU, batches of 128, 70 epochs, of which the weights with the least loss on a tenth
    held out are kept. scikit-learn has neither AdaGrad nor dropout: it is Adam here, and no
    dropout. Contexts too wide to be laid out get a logistic regression on 2**20 hashed columns:
    every feature, and every feature with the said label.
    """
    if not isinstance(log, Log):
        raise TypeError(f"log must be a Log, not {type(log).__name__}: see ob.noise.Log")
    choice_of("method", method, ("levels", "nrest"))
    choice_of("anchor", anchor, ("class", "feedback"))
    choice_of("combine", combine, ("mean", "median"))
    choice_of("coding", coding, ("one-hot", "integer"))
    percentile = real("percentile", percentile, above=0, most=100)
    confidence = real("confidence", confidence, above=0, below=1)
    resamples = whole("resamples", resamples, least=1, most=10**5)
    rng = np.random.default_rng(whole("seed", seed, least=0, most=2**63 - 1))
    if classifier is not None and not hasattr(classifier, "predict_proba"):
        raise TypeError(
            f"classifier must have predict_proba, as most of scikit-learn's; {classifier!r} has not"
        )
    _refuse_poor(log)
    if method == "levels":
        return _levels(log, confidence, resamples, rng)
    network = _Network(log, coding, classifier, rng)
    found, resampled = network.rates(anchor, percentile, combine, resamples, rng)
    if found.sum() >= 1 - 1e-3:
        raise NotIdentified(
            f"the network gives rho0 = {found[0]:.3f} and rho1 = {found[1]:.3f}, which sum to 1 or "
            "more: it found no examples that are surely right; more answers, another percentile or "
            'method="levels" may help'
        )
    return _rates(found, resampled, confidence, f"nrest, anchor {anchor}", len(log))


def _refuse_poor(log: Log) -> None:
    """Logs that no method can use."""
    if len(log) < _FEWEST:
        raise NotIdentified(
            f"{len(log)} answers are too few to tell rates from: wait for {_FEWEST}"
        )
    if log.right.all() or not log.right.any():
        heard = "right" if log.right[0] else "wrong"
        raise NotIdentified(
            f"all {len(log)} answers are {heard}: one of the two rates leaves no trace in them; "
            "labels must be said that are wrong, and some that are right"
        )
    if (log.said == log.said[0]).all():
        raise NotIdentified(
            f"only the label {log.said[0]} was ever said, so no context is seen with another one; "
            "let the learner explore"
        )


# Levels


_STRENGTHS = (1.0, 3.0, 10.0)  # of the ridge, in squared lengths of a row
_STEPS = 30  # of conjugate gradients, at most
_GROUPS = 256  # of answers with like scores, at most
_IN_A_GROUP = 20  # answers, at least
_CHUNK = 4096  # rows scored at a time, so that memory is bounded for many labels
_EVIDENCE = 30.0  # twice the log-likelihood ratio against no curve at all
_ON_A_LEVEL = 30  # answers within a tenth of it
_WIDEST = 0.25  # interval
_SLACK = 0.02  # of the rates, for a check by exploration


def _levels(log: Log, confidence: float, resamples: int, rng: np.random.Generator) -> Rates:
    halves = _Halves.of(log, rng)
    tried = [_fit_curve(_grouped(halves, strength)) for strength in _STRENGTHS]
    groups, curve, fit = max(tried, key=lambda one: one[2])
    _refuse_flat(groups, curve, fit)
    share = groups.right / groups.answers
    drawn = rng.binomial(groups.answers, share, (resamples, len(share)))
    curves, _ = _climb(groups, drawn, np.tile(curve, (resamples, 1)))
    rates = _rates(_levels_of(curve), _levels_of(curves), confidence, "levels", len(log))
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
    """A log in two halves, each sorted by label: what one label was said to is one slice."""

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
        X = _matrix(log.X)
        # The unit of the contexts does not matter, but squares of far too large numbers would. A
        # power of two changes no digit.
        largest = float(max(abs(X.max()), abs(X.min())))
        X = X * _FLOAT.type(2.0 ** -math.frexp(largest)[1]) if largest else X
        return cls(X[order], log.right[order], log.said[order], middle, log.labels)

    def scores(self, strength: float) -> np.ndarray:
        """By how much each said label leads the best other, in the eyes of the other half."""
        scores = np.empty(len(self.said))
        one, two = slice(0, self.middle), slice(self.middle, None)
        for learned, scored in ((one, two), (two, one)):
            W, level = self._predictors(learned, strength)
            X, said = self.X[scored], self.said[scored]
            out = scores[scored]
            for at in range(0, len(said), _CHUNK):
                span = slice(at, at + _CHUNK)
                each, own = np.arange(len(said[span])), said[span]
                predicted = X[span] @ W + level
                mine = predicted[each, own].copy()
                predicted[each, own] = -np.inf
                with np.errstate(invalid="ignore"):  # -inf - -inf, where neither is known
                    out[span] = mine - predicted.max(axis=1)
        return scores

    def _predictors(self, learned: slice, strength: float) -> tuple[np.ndarray, np.ndarray]:
        """For every label the weights and the constant that predict its bit."""
        X, right = self.X[learned], self.right[learned].astype(_FLOAT)
        starts = np.searchsorted(self.said[learned], np.arange(self.labels + 1))
        numbers = X.data if sparse.issparse(X) else X.ravel()
        strength = strength * max(float(numbers @ numbers) / X.shape[0], 1e-30)
        overall = right.mean()
        W = np.zeros((X.shape[1], self.labels), _FLOAT)
        level = np.full(self.labels, -np.inf, _FLOAT)
        for label in range(self.labels):
            span = slice(starts[label], starts[label + 1])
            count = span.stop - span.start
            if count == 0:
                continue
            mine = X[span]
            mean = (right[span].sum() + overall) / (count + 1)  # as if one more had been heard
            W[:, label] = _ridge(mine, right[span] - right[span].mean(), strength)
            level[label] = mean - (np.asarray(mine.mean(axis=0)).ravel() @ W[:, label])
        return W, level


def _ridge(X: Any, y: np.ndarray, strength: float) -> np.ndarray:
    """Weights that predict y, whose mean is 0, from columns less their means.

    Conjugate gradients: no square matrix, so thousands of sparse columns cost no more than they
    hold.
    """
    w = np.zeros(X.shape[1], _FLOAT)
    left = X.T @ y
    way, size = left.copy(), float(left @ left)
    enough = 1e-6 * size
    for _ in range(_STEPS):
        if size <= enough:
            break
        moved = X @ way
        pulled = X.T @ (moved - moved.mean()) + _FLOAT.type(strength) * way
        step = _FLOAT.type(size / float(way @ pulled))
        w += step * way
        left = left - step * pulled
        now = float(left @ left)
        way = left + _FLOAT.type(now / size) * way
        size = now
    return w


class _Groups(NamedTuple):
    """Answers of like score: their mean score, how many, how many of them right."""

    score: np.ndarray
    answers: np.ndarray
    right: np.ndarray


def _grouped(halves: _Halves, strength: float) -> _Groups:
    """Equally many in each, up to one. Scores are in units of their spread."""
    scores = halves.scores(strength)
    known = np.isfinite(scores)  # not so for labels that one half never said
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
    """Curves of most likelihood, one for every row of counts `right`, and their log-likelihoods.

    Fisher scoring with Levenberg's damping, all rows at once; rows that gain no more drop out.
    """
    curves, fits = curves.copy(), _likelihood(groups, right, _chances(groups, curves))
    damping, live = np.full(len(curves), 1e-2), np.arange(len(curves))
    diagonal = np.arange(4)
    for _ in range(100):
        now = curves[live]
        bend, pull = _shape(groups, right[live], now)
        bend[:, diagonal, diagonal] *= 1 + damping[live, None]
        bend[:, diagonal, diagonal] += 1e-9
        step = np.clip(np.linalg.solve(bend, pull[..., None])[..., 0], -2, 2)
        tried = np.clip(now + step, _LOWEST, _HIGHEST)
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
    """Of hearing right, for every curve and group."""
    low, high = expit(curves[:, :1]), expit(curves[:, 1:2])
    up = expit(np.exp(curves[:, 2:3]) * groups.score + curves[:, 3:])
    return np.clip(low + (high - low) * up, 1e-9, 1 - 1e-9)


def _likelihood(groups: _Groups, right: np.ndarray, q: np.ndarray) -> np.ndarray:
    return (right * np.log(q) + (groups.answers - right) * np.log1p(-q)).sum(axis=1)


def _shape(groups: _Groups, right: np.ndarray, curves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fisher's information and the gradient of the log-likelihood, at every curve."""
    low, high, slope = expit(curves[:, :1]), expit(curves[:, 1:2]), np.exp(curves[:, 2:3])
    up = expit(slope * groups.score + curves[:, 3:])
    steep = (high - low) * up * (1 - up)
    level = low * (1 - low) * (1 - up), high * (1 - high) * up
    slopes = np.stack([*level, steep * slope * groups.score, steep], axis=1)
    q = _chances(groups, curves)
    weight = 1 / (q * (1 - q))
    pull = np.matmul(slopes, (weight * (right - groups.answers * q))[..., None])[..., 0]
    bend = np.matmul(slopes * (weight * groups.answers)[:, None], slopes.transpose(0, 2, 1))
    return bend, pull


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
    """Where the bits do not depend on the scores, or only one end of the curve was seen."""
    total, right = groups.answers.sum(), groups.right.sum()
    without = xlogy(right, right / total) + xlogy(total - right, 1 - right / total)
    rho0, rho1 = _levels_of(curve)
    if 2 * (fit - without) < _EVIDENCE or rho0 + rho1 >= 1:
        raise NotIdentified(
            "what was heard hardly depends on context and label: rho0 + rho1 is near 1, or the "
            "contexts do not tell the labels, or the answers are too few; more of them may help"
        )
    up = expit(np.exp(curve[2]) * groups.score + curve[3])
    high, low = groups.answers[up > 0.9].sum(), groups.answers[up < 0.1].sum()
    if high < _ON_A_LEVEL:
        raise NotIdentified(
            f"no answers are surely right: only {high} of {total} lie where the chance of right no "
            "longer rises, so 1 - rho1 is not seen; let the learner learn longer, or give contexts "
            "that tell the labels better"
        )
    if low < _ON_A_LEVEL:
        raise NotIdentified(
            f"hardly any answers are surely wrong: only {low} of {total} lie where the chance of "
            "right no longer falls, so rho0 is not seen; let the learner explore more"
        )


def _refuse_contradicted(log: Log, rates: Rates) -> None:
    """Where exploration tells another story than the curve.

    Of K labels one is right, so that a label drawn at random is heard right with probability
    rho0 + (1 - rho0 - rho1) / K, exactly. The log tells that probability without any model, if the
    propensities are known and no label's was 0. It differs where right and wrong have changed
    places, for then the curve looks the same with other levels; and where the scores know too
    little to find answers that are surely right.
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
            f"{expected:.1%}, as one label in {log.labels} is right: the contexts tell too little "
            "to a linear rule, or more labels than one may be right, or right and wrong have "
            "changed places"
        )


# NREst


_PART = 0.9  # of the log is learned from; the paper keeps the rest for testing
_HASHED = 2**20


class _Network:
    """q(x, j), the chance of hearing right after j: a classifier that learned it from a log."""

    def __init__(self, log: Log, coding: str, classifier: Any, rng: np.random.Generator) -> None:
        self.X, self.labels, self.coding = _matrix(log.X), log.labels, coding
        self.part = np.sort(rng.permutation(len(log))[: int(_PART * len(log))])
        self.said = log.said[self.part]
        if classifier is None:
            self.classifier = _default_classifier(self.X, int(rng.integers(2**31)))
        else:
            self.classifier = copy.deepcopy(classifier)  # the caller's own learns nothing
        if len(np.unique(log.right[self.part])) < 2:
            raise NotIdentified("almost all answers are alike: one rate leaves no trace in them")
        self.classifier.fit(self._input(self.part, self.said), log.right[self.part].astype(int))

    def _input(self, rows: Any, said: np.ndarray) -> Any:
        X = self.X if rows is None else self.X[rows]
        if sparse.issparse(X):
            return _crossed(X, said)
        if self.coding == "integer":
            return np.column_stack([X, said.astype(_FLOAT)])
        return np.column_stack([X, said[:, None] == np.arange(self.labels, dtype=np.int64)])

    def logged(self) -> np.ndarray:
        """The chances of wrong and right for the pairs it learned from."""
        return np.asarray(self.classifier.predict_proba(self._input(self.part, self.said)))

    def swept(self) -> np.ndarray:
        """q of all contexts and labels."""
        q = np.empty((self.X.shape[0], self.labels))
        for label in range(self.labels):
            said = np.full(len(q), label)
            pair = np.asarray(self.classifier.predict_proba(self._input(None, said)))
            q[:, label] = pair[:, 1] / pair.sum(axis=1)
        return q

    def rates(
        self,
        anchor: str,
        percentile: float,
        combine: str,
        resamples: int,
        rng: np.random.Generator,
    ) -> tuple[np.ndarray, np.ndarray]:
        """(rho0, rho1), and the same with examples of resampled rows."""
        values = self.swept() if anchor == "class" else self.logged()
        count, columns = values.shape
        rank = _rank(percentile, count)
        if anchor == "feedback":  # the code drops what is at the percentile or above it
            rank = max(rank - 1, 0)
        order, each = np.argsort(values, axis=0, kind="stable"), np.arange(columns)

        def read(ranks: Any) -> np.ndarray:
            examples = order[ranks, each]
            if anchor == "class":
                return _by_class(values, examples, combine)
            return _by_feedback(values, examples)

        drawn = _resampled_ranks(rank, count, (resamples, columns), rng)
        return read(rank), np.array([read(ranks) for ranks in drawn])


def _default_classifier(X: Any, seed: int) -> Any:
    try:
        from sklearn.linear_model import LogisticRegression
        from sklearn.neural_network import MLPClassifier
    except ImportError:
        raise ImportError(
            'method="nrest" needs scikit-learn: pip install "onebit[lab]"; '
            'method="levels" needs nothing'
        ) from None
    if sparse.issparse(X):
        return LogisticRegression(max_iter=200)
    size: Any = 128  # of a batch; scikit-learn's stubs want a string
    return _BestEpoch(MLPClassifier((128, 128), batch_size=size, random_state=seed), seed)


class _BestEpoch:
    """A network with the weights of the epoch that had the least loss on a tenth held out.

    scikit-learn's own early stopping keeps those that guess most bits, which are overconfident.
    """

    epochs = 70

    def __init__(self, network: Any, seed: int) -> None:
        self.network, self.seed = network, seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> None:
        order = np.random.default_rng(self.seed).permutation(len(y))
        held, learned = np.split(order, [len(y) // 10])
        best, weights = math.inf, None
        for _ in range(self.epochs):
            self.network.partial_fit(X[learned], y[learned], classes=[0, 1])
            chance = np.clip(self.network.predict_proba(X[held]), 1e-9, 1)
            loss = -np.log(chance[np.arange(len(held)), y[held]]).mean()
            if loss < best:
                parts = (self.network.coefs_, self.network.intercepts_)
                best, weights = loss, [[one.copy() for one in part] for part in parts]
        if weights is not None:
            self.network.coefs_, self.network.intercepts_ = weights

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return self.network.predict_proba(X)


def _crossed(X: Any, said: np.ndarray) -> Any:
    """Every feature, and every feature with the said label, in hashed columns."""
    X = X.tocsr()
    own = X.indices.astype(np.uint64)
    label = np.repeat(said.astype(np.uint64) + np.uint64(1), np.diff(X.indptr))
    columns = np.stack([own, own + label * np.uint64(0x9E3779B97F4A7C15)], axis=1)
    columns ^= columns >> np.uint64(31)
    columns *= np.uint64(0xBF58476D1CE4E5B9)
    columns = (columns >> np.uint64(40)) % np.uint64(_HASHED)
    values = np.repeat(X.data, 2)
    made = (values, columns.ravel().astype(np.int32), 2 * X.indptr)
    crossed = sparse.csr_matrix(made, shape=(X.shape[0], _HASHED))
    crossed.sum_duplicates()
    return crossed


def _by_class(q: np.ndarray, examples: np.ndarray, combine: str) -> np.ndarray:
    """rho0 and rho1 from q[row, label] and the row that is each label's example."""
    at = q[examples]  # [example of label k, label l]
    own = np.eye(len(at), dtype=bool)
    combined = np.mean if combine == "mean" else np.median
    return np.array([combined(at[~own]), 1 - combined(at[own])])


def _by_feedback(pairs: np.ndarray, examples: np.ndarray) -> np.ndarray:
    """rho0 and rho1 from the chances of wrong and right, and the example of each."""
    at = pairs[examples]
    at = at / at.sum(axis=1, keepdims=True)
    return np.array([at[0, 1], at[1, 0]])


def _rank(percentile: float, count: int) -> int:
    """The place, among sorted values, of a percentile with numpy's interpolation "higher"."""
    return math.ceil(percentile / 100 * (count - 1))


def _resampled_ranks(
    rank: int, count: int, shape: tuple[int, ...], rng: np.random.Generator
) -> np.ndarray:
    """Which of the sorted values stands at a rank after drawing as many with replacement.

    The share of draws below the i-th value is binomial, so that its place follows a beta law.
    """
    share = rng.beta(rank + 1, count - rank, shape)
    return np.minimum((share * count).astype(np.int64), count - 1)
