"""Streams for tests of learners, and what a learner hears in a round of one."""

from typing import NamedTuple

import numpy as np

from onebit.core.draws import uniform


class Data(NamedTuple):
    X: np.ndarray
    y: np.ndarray


def stream(K, d, rounds, seed=0, noise=0.3, whole=False, repeats=True) -> Data:
    """Rows dense and sparse, some empty, some seen before; labels linear but for some noise.

    A row has two values or none: with one alone, a confidence-weighted margin that has just been
    met stays just met, whatever the value. whole: multiples of 1/8, so that sums are exact.
    """
    rng = np.random.default_rng([seed, K, d])
    truth, X = rng.normal(size=(K, d)), np.zeros((rounds, d))
    for t in range(1, rounds):
        kind = rng.random()
        if kind < 0.06:
            continue
        if kind < 0.18 and repeats:
            X[t] = X[rng.integers(t)]
            continue
        X[t] = rng.choice([-1, 1], d) * rng.uniform(0.2, 2, d)
        if kind < 0.6:
            X[t, rng.permutation(d)[int(rng.integers(2, max(3, d // 3))) :]] = 0
    if whole:
        X = np.round(8 * X) / 8
    y = np.where(
        rng.random(rounds) < noise, rng.integers(K, size=rounds), np.argmax(X @ truth.T, 1)
    )
    return Data(X, y)


def draws(seed, round):
    return lambda stream: uniform(seed, round, stream)


def feed(learner, decision, y) -> None:
    """What the learner may hear about the true label y."""
    if learner.full_information:
        learner.learn(decision, label=y)
    else:
        learner.learn(decision, right=decision.label == y)
