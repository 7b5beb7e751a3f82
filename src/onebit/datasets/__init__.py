"""Labelled data, for simulations of one-bit feedback."""

from __future__ import annotations

from onebit.datasets.catalogue import find, get
from onebit.datasets.clicks import clicks
from onebit.datasets.fetching import fetch
from onebit.datasets.linear import LinearNoise, linear_noise
from onebit.datasets.readers import read, stream
from onebit.datasets.steps import Steps, prepare
from onebit.datasets.synthetic import synnonsep, synsep
from onebit.datasets.tables import Dataset, digits, iris, npz

__all__ = [
    "Dataset",
    "LinearNoise",
    "Steps",
    "clicks",
    "digits",
    "fetch",
    "find",
    "get",
    "iris",
    "linear_noise",
    "npz",
    "prepare",
    "read",
    "stream",
    "synnonsep",
    "synsep",
]
