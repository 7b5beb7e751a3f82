"""SynSep and SynNonSep: the synthetic texts of Kakade, Shalev-Shwartz, Tewari (ICML 2008), Figure
1.

There are nine topics. Each has 20 to 40 key words among the first 120 of 400 words. A document has
all but 5 of its topic's key words, and 20 of the other 280 words; every word has the value 1.
SynNonSep replaces 5% of the labels by another label (the paper does not say by which; this
interpretation gives its figures).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from onebit.core.draws import uniform
from onebit.core.jit import entry
from onebit.core.settings import real, whole
from onebit.datasets.tables import Dataset

TOPICS, WORDS, KEY_WORDS = 9, 400, 120
DROPPED, COMMON = 5, 20

# Streams of draws that no learner uses: data and a learner of the same seed must be independent.
TOPIC, IS_FALSE, FALSE_LABEL, WORD = 10**6, 10**6 + 1, 10**6 + 2, 10**6 + 3


def synsep(rows: int = 1_000_000, *, seed: int = 0, noise: float = 0.0) -> Dataset:
    """Linearly separable documents. noise: the share of labels replaced by another label.

    The comparator scores a document by its key words, with a margin of at least 1.
    """
    rows = whole("rows", rows, least=1, most=10**8)
    seed = whole("seed", seed, least=0, most=2**63 - 1)
    noise = real("noise", noise, least=0, most=1)
    key_words = _draw_topics(np.random.default_rng(seed))
    longest = int(key_words.sum(axis=1).max()) - DROPPED + COMMON
    indices = np.empty(rows * longest, np.int32)
    indptr = np.zeros(rows + 1, np.int64)
    y = np.empty(rows, np.int64)
    scratch = np.empty((2, WORDS), np.int64)
    size = _write(seed, noise, key_words, scratch, indices, indptr, y)
    indices = indices[:size].copy()
    X: Any = sparse.csr_matrix((np.ones(size, np.float32), indices, indptr), shape=(rows, WORDS))
    name = "SynNonSep" if noise else "SynSep"
    false = f"{noise:.0%} of the labels false" if noise else "linearly separable"
    about = f"{TOPICS} topics, {WORDS} words, about 45 a document; {false}"
    comparator = np.pad(key_words / _margin(key_words), [(0, 0), (0, WORDS - KEY_WORDS)])
    return Dataset(name, about, X, y, list(range(TOPICS)), comparator)


def synnonsep(rows: int = 1_000_000, *, seed: int = 0) -> Dataset:
    """SynSep with 5% of the labels replaced by another label: no learner can have less error."""
    return synsep(rows, seed=seed, noise=0.05)


def _draw_topics(rng: np.random.Generator) -> np.ndarray:
    """Key words [topic, word], redrawn until they certainly separate the topics."""
    while True:
        key_words = np.zeros((TOPICS, KEY_WORDS), np.bool_)
        for topic in key_words:
            topic[rng.choice(KEY_WORDS, rng.integers(20, 41), replace=False)] = True
        if _margin(key_words) > 0:
            return key_words


def _margin(key_words: np.ndarray) -> int:
    """The least difference between the words a document shares with its topic and another."""
    shared = key_words.astype(int) @ key_words.T.astype(int)
    own = np.diag(shared).copy()
    np.fill_diagonal(shared, 0)
    return int((own - DROPPED - shared.max(axis=1)).min())


@entry
def _write(seed, noise, key_words, scratch, indices, indptr, y):
    """Write all documents. Returns the total number of words."""
    pool, present = scratch[0], scratch[1]
    size = 0
    for row in range(len(y)):
        topic = int(uniform(seed, row, TOPIC) * TOPICS)
        count = 0
        for word in range(KEY_WORDS):
            present[word] = key_words[topic, word]
            if key_words[topic, word]:
                pool[count] = word
                count += 1
        for k in range(DROPPED):
            at = k + int(uniform(seed, row, WORD + k) * (count - k))
            pool[k], pool[at] = pool[at], pool[k]
            present[pool[k]] = 0
        for word in range(KEY_WORDS, WORDS):
            pool[word] = word
            present[word] = 0
        for k in range(KEY_WORDS, KEY_WORDS + COMMON):
            at = k + int(uniform(seed, row, WORD + k) * (WORDS - k))
            pool[k], pool[at] = pool[at], pool[k]
            present[pool[k]] = 1
        for word in range(WORDS):
            if present[word]:
                indices[size] = word
                size += 1
        indptr[row + 1] = size
        y[row] = topic
        if uniform(seed, row, IS_FALSE) < noise:
            y[row] = (topic + 1 + int(uniform(seed, row, FALSE_LABEL) * (TOPICS - 1))) % TOPICS
    return size
