"""The papers' bounds on mistakes and on regret, as functions of their parameters.

    known = ob.bounds.comparator(W, X, y)             # any fixed weights [label, feature]
    ob.bounds.banditron(trace.rounds, labels=9, gamma=0.1, norm=known.norm,
                        loss=known.loss[trace.rounds - 1])

`rounds` and `loss` are numbers or arrays, and so is the result. A bound above `rounds` is vacuous.
A function whose name ends in `_order` gives no bound: its paper leaves a constant open, for which 1
is used here.

`norm` is the length |W| = sqrt(sum of squares) of all weights of the comparator, for rows of length
at most 1. For longer rows, multiply it by the length of the longest row, as `comparator` does:
dividing rows and multiplying weights by the same number leaves the scores unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from onebit.core.settings import real, whole

_MOST_GAMMA = 0.5  # beyond it, a right greedy label no longer keeps the updates small


# Comparators


class Comparator(NamedTuple):
    """The norm and the loss of fixed weights that the learner is compared with."""

    norm: float  # of the weights, for rows divided by the length of the longest
    loss: np.ndarray  # hinge loss up to each round


def margins(weights: Any, X: Any, y: Any) -> np.ndarray:
    """The margin of each row's true label over the best other label: W_y . x - max W_r . x."""
    W, X, y = np.asarray(weights, np.float64), _matrix(X), np.asarray(y)
    if W.ndim != 2 or len(W) < 2 or not np.isfinite(W).all():
        raise ValueError("weights must be finite, one row for each of two labels or more")
    if X.ndim != 2 or X.shape[1] != W.shape[1] or y.shape != (X.shape[0],):
        raise ValueError(
            f"X of shape {tuple(X.shape)} with {W.shape[1]} weights a label and labels y of shape "
            f"{y.shape} do not fit: X needs a column for each weight, y a label for each row"
        )
    if y.dtype.kind not in "iu" or (len(y) and not 0 <= y.min() <= y.max() < len(W)):
        raise ValueError(f"y must hold labels from 0 to {len(W) - 1}, the rows of the weights")
    scores, rows = X @ W.T, np.arange(len(y))
    true = scores[rows, y]
    scores[rows, y] = -np.inf
    return true - scores.max(axis=1)


def comparator(weights: Any, X: Any, y: Any) -> Comparator:
    """Norm and loss of weights [label, feature] on these rows and true labels, in their order.

    The loss of a row is the multiclass hinge loss, max(0, 1 - margin). It is 0 for weights that
    separate the rows, divided by the least of their `margins`. Adding a vector to all rows of W
    changes no margin, so the mean row is subtracted, which makes the norm smallest.
    """
    loss = np.cumsum(np.maximum(0.0, 1.0 - margins(weights, X, y)))
    W, X = np.asarray(weights, np.float64), _matrix(X)
    squares = X.multiply(X) if hasattr(X, "tocsr") else np.square(X)
    longest = math.sqrt(squares.sum(axis=1).max()) if X.shape[0] else 0.0
    return Comparator(float(np.linalg.norm(W - W.mean(axis=0))) * longest, loss)


def _matrix(X: Any) -> Any:
    """Rows in float64: an array, or a sparse matrix as it is."""
    made = X.astype(np.float64) if hasattr(X, "tocsr") else np.asarray(X, np.float64)
    if not np.isfinite(made.data if hasattr(X, "tocsr") else made).all():
        raise ValueError("X must hold finite numbers")
    return made


# Perceptron, Banditron, RCNBF: mistakes, for rows of length at most 1 and arbitrary labels


def perceptron(rounds: Any, *, norm: float, loss: Any = 0.0) -> Any:
    """Mistakes of the Perceptron: L + D + sqrt(L D), with D = 2 |W|^2 (Kakade et al. 2008)."""
    _, L = _rounds_and_loss(rounds, loss)
    D = 2 * real("norm", norm, least=0) ** 2
    return _plain(L + D + np.sqrt(L * D))


def banditron(rounds: Any, *, labels: int, gamma: float, norm: float, loss: Any = 0.0) -> Any:
    """Expected mistakes of Banditron (Kakade, Shalev-Shwartz, Tewari 2008, mistake bound).

    L + gamma T + 3 max(K D / gamma, sqrt(D gamma T)) + sqrt(K D L / gamma), with D = 2 |W|^2, for
    gamma at most 1/2. L is the hinge loss of the comparator up to the round. The expectation is
    over the learner's own draws; rows and labels are arbitrary, but fixed beforehand.
    """
    return rcnbf(rounds, labels=labels, gamma=gamma, norm=norm, rho0=0.0, rho1=0.0, loss=loss)


def banditron_gamma(rounds: float, *, labels: int, norm: float, loss: float = 0.0) -> float:
    """The gamma that minimises `banditron` after `rounds` rounds.

    The paper's rules of thumb have the same order: sqrt(K D / T) where the loss is small,
    (K D / T)^(1/3) where it is not.
    """
    return rcnbf_gamma(rounds, labels=labels, norm=norm, rho0=0.0, rho1=0.0, loss=loss)


def rcnbf(
    rounds: Any,
    *,
    labels: int,
    gamma: float,
    norm: float,
    rho0: float,
    rho1: float,
    loss: Any = 0.0,
) -> Any:
    """Expected mistakes of RCNBF under flipped feedback (Agarwal, Manwani 2021, Theorem 1).

    L + sqrt(A1 D L) + 3 max(A1 D, sqrt(A2 D T)) + gamma T, where A1 and A2 bound the mean squared
    update while the greedy label is wrong and right, and D is |W|^2 here. rho0: how often wrong is
    heard as right, rho1: right as wrong; their sum is below 1. Without flips it is `banditron`.
    """
    T, L = _rounds_and_loss(rounds, loss)
    K, gamma = _labels(labels), real("gamma", gamma, above=0, most=_MOST_GAMMA)
    rho0, rho1 = real("rho0", rho0, least=0, below=1), real("rho1", rho1, least=0, below=1)
    if rho0 + rho1 >= 1:
        raise ValueError(f"rho0 + rho1 must be below 1, not {rho0 + rho1:g}: the bit says nothing")
    squared, moments = real("norm", norm, least=0) ** 2, _noisy_moments(K, gamma, rho0, rho1)
    wrong, right = squared * moments.wrong, squared * moments.right
    most = np.maximum(wrong, np.sqrt(right * T))
    return _plain(L + gamma * T + 3 * most + np.sqrt(wrong * L))


def rcnbf_gamma(
    rounds: float, *, labels: int, norm: float, rho0: float, rho1: float, loss: float = 0.0
) -> float:
    """The gamma that minimises `rcnbf` after `rounds` rounds.

    Of order T^(-1/2) without flips or with rates that fall as T^(-1/2) (Corollaries 1 and 2), and
    T^(-1/3) otherwise (Corollary 3); the bound then grows as T^(1/2) and T^(2/3).
    """
    T, L = real("rounds", rounds, least=1), real("loss", loss, least=0)
    fixed: dict[str, Any] = {"labels": labels, "norm": norm, "loss": L}
    return _best_gamma(lambda g: rcnbf(T, gamma=g, rho0=rho0, rho1=rho1, **fixed))


class _Moments(NamedTuple):
    """Bounds on the mean squared update, in units of |x|^2."""

    wrong: float  # while the greedy label is wrong
    right: float


def _noisy_moments(K: int, gamma: float, rho0: float, rho1: float) -> _Moments:
    """A1 and A2 of Lemma 3, as printed."""
    b, spread = 1 - rho0 - rho1, rho0 * (1 - rho0)
    A1 = 2 * K / gamma + 2 * spread * K / (b * gamma)
    A1 += K * rho1 / (b**2 * gamma) + spread * K**2 / (b * gamma) ** 2
    A2 = 2 * gamma + rho1 / (b**2 * (1 - gamma)) + spread * K**2 / (b**2 * gamma)
    return _Moments(A1, A2)


def _best_gamma(bound: Callable[[float], float]) -> float:
    """The gamma that minimises a bound of the form above.

    As a function of log gamma every term is log-convex, so the sum has a single minimum.
    """
    low, high = math.log(1e-15), math.log(_MOST_GAMMA)
    while high - low > 1e-9:
        third = (high - low) / 3
        if bound(math.exp(low + third)) < bound(math.exp(high - third)):
            high -= third
        else:
            low += third
    return min(math.exp((low + high) / 2), _MOST_GAMMA)


# Halving: mistakes, if one hypothesis is always right


def halving(*, labels: int, hypotheses: float) -> float:
    """Mistakes of plurality vote with elimination: K ln |H| (Kakade et al. 2008).

    A wrong answer rules out all hypotheses that gave it: at least a K-th of those left.
    """
    return _labels(labels) * math.log(real("hypotheses", hypotheses, least=1))


def halving_linear(*, labels: int, features: int, norm: float) -> float:
    """Mistakes of halving over a grid of weights, where weights of this norm have margin 1.

    K^2 d ln(n), with n = floor(2 |W| sqrt(d)) + 2 values for each weight from -|W| to |W|. Their
    distance is below 1 / sqrt(d), so that the nearest point of the grid moves each score of a row
    of length 1 by less than 1/2, and margins stay positive. The paper has O(K^2 d ln(D d)).
    """
    K, d = _labels(labels), whole("features", features, least=1, most=10**9)
    norm = _separating(norm)
    return K**2 * d * math.log(math.floor(2 * norm * math.sqrt(d)) + 2)


def halving_projected_order(rounds: Any, *, labels: int, norm: float, delta: float = 0.05) -> Any:
    """The order of halving on randomly projected rows; not a bound, the constant is unpublished.

    K^2 D l (ln D + ln l) with l = ln((T + K) / delta) and D = 2 |W|^2, with probability 1 - delta;
    it does not depend on the number of features.
    """
    T = _numbers("rounds", rounds, least=1)
    K, D = _labels(labels), 2 * _separating(norm) ** 2
    logs = np.log((T + K) / real("delta", delta, above=0, below=1))
    return _plain(K**2 * D * logs * (math.log(D) + np.log(logs)))


def _separating(norm: float) -> float:
    """A norm that margin 1 allows: |W_y - W_r| >= 1 for two labels, so that |W|^2 >= 1/2."""
    return max(real("norm", norm, least=math.sqrt(0.5) * (1 - 1e-9)), math.sqrt(0.5))


# Confidit: regret against the Bayes rule, on rows of length 1 whose labels follow a linear law


def confidit(
    rounds: Any,
    *,
    labels: int,
    features: int,
    norm: float,
    alpha: float = 1.0,
    delta: float = 0.05,
    margin: float | None = None,
) -> Any:
    """Regret of Confidit with full matrices, projection and the width of its eq. (5).

    Crammer, Gentile (2011), Theorem 1: 2 sqrt(B1 T) (sqrt(B2 B3) + B3), with probability 1 - delta
    for all T at once. With a margin by which the score of the best label always exceeds the others,
    Corollary 1: 4 (1 + alpha) B1 (B2 B3 + B3^2) / margin. Here B1 = 1 + (1 + alpha)^-2,
    B2 = |U|^2 + 18 ln((T + 4) / delta), B3 = d K ln(1 + T / (d K (1 + alpha)^2)).

    U are the weights of the law P(y = i | x) = (alpha + u_i . x) / (alpha + 1), `norm` is their
    length. The paper prints O(...) and leaves the proof out; 2 and 4 follow from its eq. (5) being
    a confidence level, see docs/bounds.md. Confidit as it is mostly run, diagonal, without
    projection and with a constant eta, is not covered.
    """
    T = _numbers("rounds", rounds, least=1)
    size = _labels(labels) * whole("features", features, least=1, most=10**9)
    alpha = real("alpha", alpha, least=0, most=1)
    B1 = 1 + (1 + alpha) ** -2
    B2 = real("norm", norm, least=0) ** 2 + 18 * np.log(
        (T + 4) / real("delta", delta, above=0, below=1)
    )
    B3 = size * np.log1p(T / (size * (1 + alpha) ** 2))
    if margin is None:
        return _plain(2 * np.sqrt(B1 * T) * (np.sqrt(B2 * B3) + B3))
    return _plain(4 * (1 + alpha) * B1 * (B2 * B3 + B3**2) / real("margin", margin, above=0))


# Newtron: regret in log-loss, on rows of length at most `radius` and arbitrary labels


def newtron(
    rounds: Any,
    *,
    gamma: float,
    alpha: float = 10,
    labels: int,
    features: int,
    norm: float,
    radius: float = 1,
) -> Any:
    """Expected regret of Newtron in log-loss, against any weights of length `norm` at most.

    Hazan, Kale (2011), Theorem 4, with constants: D / 2 + K n / (nu beta) ln(1 + D R^2 beta T /
    (K n nu)) + 2 gamma ln(K) T / alpha, where D is the norm, n features, R the radius, and
    delta = exp(-2 alpha R D) / K, nu = max(delta / 2, gamma / K), beta = `newtron_beta`.

    The loss of a row is -ln(p_y) / alpha. The paper prints O(...); how the constants follow is in
    docs/bounds.md. It holds for exact Newtron with that beta, not for PNewtron.
    """
    T = _numbers("rounds", rounds, least=1)
    beta = newtron_beta(labels=labels, norm=norm, gamma=gamma, alpha=alpha, radius=radius)
    size = _labels(labels) * whole("features", features, least=1, most=10**9)
    nu = max(_least_probability(labels, alpha * radius * norm) / 2, gamma / labels)
    if beta == 0:  # no exploration, and a least probability too small for a float
        return _plain(np.full_like(T, np.inf))
    inner = size / nu / beta * np.log1p(norm * radius**2 * T / size * (beta / nu))
    return _plain(norm / 2 + inner + 2 * gamma * math.log(labels) / alpha * T)


def newtron_beta(
    *, labels: int, norm: float, gamma: float, alpha: float = 10, radius: float = 1
) -> float:
    """The greatest beta that Theorem 4 allows: min(alpha delta / 10 + eta, 1 / (4 R D))."""
    K, gamma = _labels(labels), real("gamma", gamma, least=0, most=_MOST_GAMMA)
    reach = real("norm", norm, above=0) * real("radius", radius, above=0)
    alpha = real("alpha", alpha, above=0)
    eta = gamma * math.log(K) / (20 * alpha * reach**2)
    return min(alpha * _least_probability(K, alpha * reach) / 10 + eta, 1 / (4 * reach))


def newtron_gamma(
    rounds: float, *, labels: int, features: int, norm: float, alpha: float = 10, radius: float = 1
) -> float:
    """The gamma that minimises `newtron`, out of 0 and a thousand values up to 1/2."""
    fixed: dict[str, Any] = {"labels": labels, "features": features, "norm": norm}
    fixed |= {"alpha": alpha, "radius": radius}
    tried = [0.0, *np.geomspace(1e-12, _MOST_GAMMA, 1000).tolist()]
    T = real("rounds", rounds, least=1)
    return min(tried, key=lambda gamma: newtron(T, gamma=min(gamma, _MOST_GAMMA), **fixed))


def newtron_order(
    rounds: Any, *, labels: int, features: int, norm: float, alpha: float = 10, radius: float = 1
) -> Any:
    """The order of Newtron's regret at its best gamma; not a bound, Corollary 5 leaves c open.

    min(c exp(4 alpha R D) ln(T) / alpha, 6 c R D T^(2/3)), with c = K^3 n.
    """
    T = _numbers("rounds", rounds, least=1)
    c = _labels(labels) ** 3 * whole("features", features, least=1, most=10**9)
    reach = real("norm", norm, above=0) * real("radius", radius, above=0)
    alpha = real("alpha", alpha, above=0)
    grown = math.exp(min(4 * alpha * reach, 700.0))  # the other term is smaller long before
    return _plain(np.minimum(c * grown / alpha * np.log(T), 6 * c * reach * T ** (2 / 3)))


def _least_probability(K: int, reach: float) -> float:
    return math.exp(-2 * reach) / K


# Arguments and answers


def _labels(labels: int) -> int:
    return whole("labels", labels, least=2, most=10**6)


def _rounds_and_loss(rounds: Any, loss: Any) -> tuple[np.ndarray, np.ndarray]:
    T, L = _numbers("rounds", rounds, least=1), _numbers("loss", loss, least=0)
    if T.ndim and L.ndim and T.shape != L.shape:
        raise ValueError(
            f"loss must be one number for each of rounds, not {L.shape} for {T.shape}: "
            "take it at the check points, known.loss[rounds - 1]"
        )
    return T, L


def _numbers(name: str, given: Any, *, least: float) -> np.ndarray:
    """A number or an array of numbers, each at least `least`."""
    array = np.asarray(given)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be a number or an array of numbers, not {given!r}")
    if array.size:
        real(name, array.min(), least=least)
        real(name, array.max(), least=least)
    return array.astype(np.float64)


def _plain(bound: Any) -> Any:
    return float(bound) if np.ndim(bound) == 0 else bound
