"""NREst (Agarwal, Manwani 2021, Algorithm 3): rates of flips by a network's predictions."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
from scipy import sparse

from onebit.core.extras import how_to_install
from onebit.feedback.noise.log import FLOAT, Log, NotIdentified, Rates, matrix_of, rates_of

_PART = 0.9  # share of the log that the network learns from; the paper tests on the rest
_HASHED = 2**20


def rates_by_network(
    log: Log,
    confidence: float,
    resamples: int,
    rng: np.random.Generator,
    anchor: str,
    percentile: float,
    combine: str,
    coding: str,
    classifier: Any,
) -> Rates:
    """The rates by NREst, or `NotIdentified`; see `estimate_rates`."""
    network = _Network(log, coding, classifier, rng)
    found, resampled = network.rates(anchor, percentile, combine, resamples, rng)
    if found.sum() >= 1 - 1e-3:
        raise NotIdentified(
            f"the network gives rho0 = {found[0]:.3f} and rho1 = {found[1]:.3f}, which sum to 1 or "
            "more: it found no examples that are surely right; more answers, another percentile or "
            'method="levels" may help'
        )
    return rates_of(found, resampled, confidence, f"nrest, anchor {anchor}", len(log))


class _Network:
    """q(x, j), the probability of hearing right after j, learned from a log by a classifier."""

    def __init__(self, log: Log, coding: str, classifier: Any, rng: np.random.Generator) -> None:
        self.X, self.labels, self.coding = matrix_of(log.X), log.labels, coding
        self.part = np.sort(rng.permutation(len(log))[: int(_PART * len(log))])
        self.said = log.said[self.part]
        if classifier is None:
            self.classifier = _default_classifier(self.X, int(rng.integers(2**31)))
        else:
            self.classifier = copy.deepcopy(classifier)  # the caller's classifier stays unfitted
        if len(np.unique(log.right[self.part])) < 2:
            raise NotIdentified("almost all answers are equal: one rate cannot be seen in them")
        self.classifier.fit(self._input(self.part, self.said), log.right[self.part].astype(int))

    def _input(self, rows: Any, said: np.ndarray) -> Any:
        X = self.X if rows is None else self.X[rows]
        if sparse.issparse(X):
            return _crossed(X, said)
        if self.coding == "integer":
            return np.column_stack([X, said.astype(FLOAT)])
        return np.column_stack([X, said[:, None] == np.arange(self.labels, dtype=np.int64)])

    def logged(self) -> np.ndarray:
        """The probabilities of wrong and right for the pairs that the network learned from."""
        return np.asarray(self.classifier.predict_proba(self._input(self.part, self.said)))

    def swept(self) -> np.ndarray:
        """q for all contexts and labels."""
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
        rank = math.ceil(percentile / 100 * (count - 1))  # in sorted values, by numpy's "higher"
        if anchor == "feedback":  # the authors' code drops values at or above the percentile
            rank = max(rank - 1, 0)
        order = np.argsort(values, axis=0, kind="stable")

        def read(ranks: Any) -> np.ndarray:
            examples = order[ranks, np.arange(columns)]
            if anchor == "class":
                return _by_class(values, examples, combine)
            return _by_feedback(values, examples)

        # Where a bootstrap sample has its value at the rank: the share of draws below the i-th
        # value is binomial, so the place among the sorted values follows a beta distribution.
        share = rng.beta(rank + 1, count - rank, (resamples, columns))
        drawn = np.minimum((share * count).astype(np.int64), count - 1)
        return read(rank), np.array([read(ranks) for ranks in drawn])


def _default_classifier(X: Any, seed: int) -> Any:
    try:
        from sklearn.linear_model import LogisticRegression
        from sklearn.neural_network import MLPClassifier
    except ImportError:
        raise ImportError(
            f'method="nrest" needs scikit-learn: {how_to_install("lab", "scikit-learn")}; '
            'method="levels" needs nothing'
        ) from None
    if sparse.issparse(X):
        return LogisticRegression(max_iter=200)
    size: Any = 128  # of a batch; scikit-learn's stubs want a string
    return _BestEpoch(MLPClassifier((128, 128), batch_size=size, random_state=seed), seed)


class _BestEpoch:
    """A network with the weights of the epoch that had the least loss on a held-out tenth.

    scikit-learn's early stopping keeps the weights with the best accuracy, which are overconfident.
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
                best, weights = loss, [[layer.copy() for layer in part] for part in parts]
        if weights is not None:
            self.network.coefs_, self.network.intercepts_ = weights

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return self.network.predict_proba(X)


def _crossed(X: Any, said: np.ndarray) -> Any:
    """Every feature, and every feature combined with the said label, in hashed columns."""
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
    """rho0 and rho1 from q[row, label] and the row of each label's example."""
    at = q[examples]  # [example of label k, label l]
    own = np.eye(len(at), dtype=bool)
    combined = np.mean if combine == "mean" else np.median
    return np.array([combined(at[~own]), 1 - combined(at[own])])


def _by_feedback(pairs: np.ndarray, examples: np.ndarray) -> np.ndarray:
    """rho0 and rho1 from the probabilities of wrong and right, and the example of each."""
    at = pairs[examples]
    at = at / at.sum(axis=1, keepdims=True)
    return np.array([at[0, 1], at[1, 0]])
