"""The streams that all contestants play, and their forms for each library."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix

import onebit as ob


@dataclass(frozen=True)
class Stream:
    """Rows and their right labels, 0 to labels - 1."""

    name: str
    labels: int
    X: csr_matrix
    y: np.ndarray

    def row(self, t: int) -> tuple[np.ndarray, np.ndarray]:
        """Indices and values of row t's non-zeros."""
        span = slice(self.X.indptr[t], self.X.indptr[t + 1])
        return self.X.indices[span], self.X.data[span]


def synsep(rows: int) -> Stream:
    """SynSep: 400 features, about 47 non-zeros of value 1, 9 separable labels."""
    data = ob.datasets.synsep(rows, seed=0)
    return Stream("SynSep", 9, csr_matrix(data.X), np.asarray(data.y, np.int64))


def synnonsep(rows: int) -> Stream:
    """SynSep with 5% of the labels replaced."""
    data = ob.datasets.synnonsep(rows, seed=0)
    return Stream("SynNonSep", 9, csr_matrix(data.X), np.asarray(data.y, np.int64))


def gaussians(rows: int, columns: int = 64, labels: int = 10) -> Stream:
    """Dense rows: a Gaussian around a centre for each label."""
    rng = np.random.default_rng(2)
    y = rng.integers(0, labels, rows)
    X = 0.5 * rng.normal(size=(labels, columns))[y] + rng.normal(size=(rows, columns))
    return Stream("dense, 64 columns", labels, csr_matrix(X.astype(np.float32)), y)


def text_shaped(rows: int, features: int = 350_000, nonzeros: int = 75, labels: int = 4) -> Stream:
    """Rows like weighted words of short documents, with labels that a linear rule gives.

    Word frequencies follow Zipf's law (shifted by 10, as if stop words were removed). Every word
    speaks for one label; a row is drawn with a subject in mind, and two words in five speak
    for that subject, the others for any. The right label is the one for which the weights of the
    row's words sum to most: a linear rule. Values are positive and rows have norm 1. Numbers of
    words say nothing about their frequencies.
    """
    rng = np.random.default_rng(1)
    subject = rng.integers(0, labels, rows)

    def draw_words(rows_of_words: np.ndarray) -> np.ndarray:
        count, shift = len(rows_of_words), 10.0
        rank = (shift * ((features + shift) / shift) ** rng.random(count) - shift).astype(np.int32)
        on_subject = rank - rank % labels + subject[rows_of_words]  # rank % labels: its label
        on_subject = np.where(on_subject < features, on_subject, rank)
        return np.where(rng.random(count) < 0.4, on_subject, rank).astype(np.int32)

    words = draw_words(np.repeat(np.arange(rows), nonzeros)).reshape(rows, nonzeros)
    unsettled = np.arange(rows)
    while len(unsettled):  # draw repeated words of a row again
        words[unsettled] = np.sort(words[unsettled], axis=1)
        repeats = np.zeros((len(unsettled), nonzeros), bool)
        repeats[:, 1:] = words[unsettled, 1:] == words[unsettled, :-1]
        row, column = np.nonzero(repeats)
        words[unsettled[row], column] = draw_words(unsettled[row])
        unsettled = unsettled[repeats.any(axis=1)]

    rarity = np.log(words + 20.0)
    values = rarity * (1.0 + rng.exponential(0.5, words.shape))
    values = (values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float32)
    speaks_for = words % labels
    sums = np.stack([(values * (speaks_for == k)).sum(axis=1) for k in range(labels)], axis=1)

    indices = rng.permutation(features).astype(np.int32)[words].ravel()
    starts = np.arange(0, indices.size + 1, nonzeros, dtype=np.int32)
    X = csr_matrix((values.ravel(), indices, starts), shape=(rows, features))
    X.sort_indices()
    return Stream("text-shaped", labels, X, sums.argmax(axis=1))


def vw_features(stream: Stream, t: int) -> str:
    """Row t for Vowpal Wabbit.

    Names are not whole numbers: those would not be hashed, and `--cbify` through ADF lets unhashed
    neighbours collide.
    """
    indices, values = (part.tolist() for part in stream.row(t))
    if stream.name == "SynSep":  # every value is 1
        return " ".join([f"w{j}" for j in indices])
    return " ".join([f"w{j}:{v:.6g}" for j, v in zip(indices, values, strict=True)])


def write_vw_file(stream: Stream, path: Path) -> None:
    """The whole stream for `--cbify`: the right label, then the features."""
    with path.open("w") as file:
        for t in range(len(stream.y)):
            file.write(f"{stream.y[t] + 1} | {vw_features(stream, t)}\n")
