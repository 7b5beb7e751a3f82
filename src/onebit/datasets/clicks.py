"""Clicks: offers that a visitor takes or leaves, each by itself.

A visitor has a country, a device and a time of day. An offer is clicked with a chance of its own: a
logistic function of its popularity and of how it suits each of the three. So several offers may be
right for a visitor, or none, as in a shop, and y has the chance of each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from onebit.core.draws import key_of
from onebit.core.settings import real, whole
from onebit.datasets.tables import Dataset

COUNTRIES, DEVICES, TIMES = PARTS = (12, 4, 6)
TASTE = 0.7  # deviation, per part, of the logarithm of the odds that a visitor clicks
CLICKS = 10**6 + 20  # the stream of draws: no learner uses it


def clicks(
    rows: int = 100_000,
    *,
    labels: int = 10,
    lowest: float = 0.01,
    highest: float = 0.3,
    seed: int = 0,
) -> Dataset:
    """Visitors, and the chance that each of them clicks on each offer.

    labels: the number of offers. lowest, highest: the chances that an average visitor clicks on the
    least and on the most popular offer; those of the others lie between, in equal ratios.
    """
    rows = whole("rows", rows, least=1, most=10**8)
    labels = whole("labels", labels, least=2, most=10**4)
    lowest = real("lowest", lowest, above=0, below=1)
    highest = real("highest", highest, least=lowest, below=1)
    seed = whole("seed", seed, least=0, most=2**63 - 1)
    rng = np.random.default_rng(key_of(seed, CLICKS))
    popular = rng.permutation(np.geomspace(lowest, highest, labels))
    taste = rng.normal(0, TASTE, (sum(PARTS), labels))
    traits = np.stack([rng.integers(size, size=rows) for size in PARTS], axis=1)
    traits += np.cumsum([0, *PARTS[:-1]])
    odds = np.log(popular / (1 - popular)) + taste[traits].sum(axis=1)
    chances = 1 / (1 + np.exp(-odds))
    constant = np.full((rows, 1), sum(PARTS))
    indices = np.hstack([traits, constant]).astype(np.int32).ravel()
    ends = np.arange(rows + 1, dtype=np.int64) * (len(PARTS) + 1)
    values = np.ones(len(indices), np.float32)
    X: Any = sparse.csr_matrix((values, indices, ends), shape=(rows, sum(PARTS) + 1))
    about = f"{labels} offers, each clicked by itself; visitors by country, device and time of day"
    return Dataset("clicks", about, X, chances, list(range(labels)))
