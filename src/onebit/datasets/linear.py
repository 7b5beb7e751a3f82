"""The linear label noise of Crammer & Gentile (ICML 2011), eq. (2): data whose Bayes rule is known.

    P(y = i | x) = (alpha + u_i . x) / (alpha + 1),  |x| = 1,
    sum_i u_i . x = alpha + 1 - K alpha,  -alpha <= u_i . x  (hence u_i . x <= 1).

A context is constructed from its label distribution. With q the wanted probabilities,

    x   = (1/2,  r sum_i q_i E_i + v)
    u_i = (2 ((alpha + 1) / K - alpha),  (alpha + 1) / r E_i)

where E_i are K vectors of a random subspace with E_i . E_j = [i = j] - 1/K, and v is a random
direction orthogonal to them, scaled so that |x| = 1. So every q is met exactly, all constraints
hold, and much of x is independent of the label.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from onebit.core.draws import uniform
from onebit.core.jit import entry
from onebit.core.settings import real, whole

CONSTANT = 0.5  # the first feature of every context
SIGNAL = math.sqrt(0.5)  # r above; the length of v is then at least 1/2

# Streams of draws that neither learners nor channels use.
FIRST, LABEL, SHARE, DIRECTION = 11 * 10**5, 11 * 10**5 + 1, 12 * 10**5, 13 * 10**5


class LinearNoise(NamedTuple):
    """A Dataset with the distribution of its labels."""

    name: str
    about: str
    X: np.ndarray
    y: np.ndarray  # 0..K-1, drawn
    labels: list[int]
    probabilities: np.ndarray  # [row, label]
    bayes: np.ndarray  # the most probable label of each row
    weights: np.ndarray  # [label, feature], the u of the law
    alpha: float

    def regret(self, said: Any) -> np.ndarray:
        """The expected cost of these said labels beyond the Bayes rule, up to each round."""
        said = np.asarray(said)
        if said.shape != self.y.shape:
            raise ValueError(f"said must be one label for each of {len(self.y)} rows")
        rows = np.arange(len(said))
        lost = self.probabilities[rows, self.bayes] - self.probabilities[rows, said]
        return np.cumsum(lost)

    @property
    def bayes_error(self) -> float:
        """The expected error of the Bayes rule on these rows: no learner can do better."""
        return float(1 - self.probabilities.max(axis=1).mean())


def linear_noise(
    rows: int = 100_000,
    *,
    labels: int = 5,
    features: int = 20,
    noise: float = 0.5,
    alpha: float = 1.0,
    seed: int = 0,
) -> LinearNoise:
    """Contexts of length 1 and labels drawn by a linear law, with the Bayes rule and the law.

    noise: the probabilities of a row are a mixture of a random label, with weight 1 - noise, and a
    uniformly drawn distribution, with weight noise. alpha: as in the paper, in (-1, 1]; it changes
    the weights, but neither contexts nor labels.
    """
    rows = whole("rows", rows, least=1, most=10**8)
    labels = whole("labels", labels, least=2, most=10**5)
    features = whole("features", features, least=labels + 1, most=3 * 10**5)
    noise = real("noise", noise, least=0, most=1)
    alpha = real("alpha", alpha, above=-1, most=1)
    seed = whole("seed", seed, least=0, most=2**63 - 1)
    directions = _directions(np.random.default_rng(seed), labels, features - 1)
    X, y = np.empty((rows, features)), np.empty(rows, np.int64)
    probabilities = np.empty((rows, labels))
    _write(seed, noise, directions, np.empty(labels), X, y, probabilities)
    first = np.full((labels, 1), ((alpha + 1) / labels - alpha) / CONSTANT)
    made = LinearNoise(
        name="LinearNoise",
        about="",
        X=X.astype(np.float32),
        y=y,
        labels=list(range(labels)),
        probabilities=probabilities,
        bayes=probabilities.argmax(axis=1),
        weights=np.hstack([first, (alpha + 1) / SIGNAL * directions]),
        alpha=alpha,
    )
    about = f"{labels} labels by a linear law, {features} features"
    return made._replace(about=f"{about}; Bayes error {made.bayes_error:.1%}")


def _directions(rng: np.random.Generator, labels: int, width: int) -> np.ndarray:
    """K vectors [label, width] that sum to 0, with E_i . E_j = [i = j] - 1/K."""
    orthonormal, _ = np.linalg.qr(rng.standard_normal((width, labels)))
    return orthonormal.T - orthonormal.T.mean(axis=0)


@entry
def _write(seed, noise, directions, scratch, X, y, probabilities):
    labels, width = directions.shape
    for row in range(len(y)):
        q = probabilities[row]
        total = 0.0
        for i in range(labels):  # normalised exponentials: uniform among laws
            q[i] = -math.log(1.0 - uniform(seed, row, SHARE + i))
            total += q[i]
        for i in range(labels):
            q[i] *= noise / total
        q[int(uniform(seed, row, FIRST) * labels)] += 1.0 - noise

        u, above = uniform(seed, row, LABEL), 0.0
        y[row] = labels - 1  # unless found below: the sum may end a rounding short of 1
        for i in range(labels):
            above += q[i]
            if u < above:
                y[row] = i
                break

        X[row, 0] = CONSTANT
        v = X[row, 1:]
        for j in range(width):
            size = math.sqrt(-2.0 * math.log(1.0 - uniform(seed, row, DIRECTION + 2 * j)))
            v[j] = size * math.cos(2.0 * math.pi * uniform(seed, row, DIRECTION + 2 * j + 1))
        for i in range(labels):
            scratch[i] = 0.0
            for j in range(width):
                scratch[i] += directions[i, j] * v[j]
        for i in range(labels):
            for j in range(width):
                v[j] -= directions[i, j] * scratch[i]
        length, wanted = 0.0, 1.0 - CONSTANT * CONSTANT
        for j in range(width):
            length += v[j] * v[j]
        for i in range(labels):
            wanted -= SIGNAL * SIGNAL * (q[i] - 1.0 / labels) * (q[i] - 1.0 / labels)
        for j in range(width):
            v[j] *= math.sqrt(wanted / length)
        for i in range(labels):
            for j in range(width):
                v[j] += SIGNAL * q[i] * directions[i, j]  # less 1/K: the directions sum to 0
