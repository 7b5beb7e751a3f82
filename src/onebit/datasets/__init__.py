"""Labelled data to learn from as if the labels were hidden."""

from __future__ import annotations

from onebit.datasets.readers import read, stream
from onebit.datasets.steps import Steps, prepare
from onebit.datasets.synthetic import synnonsep, synsep
from onebit.datasets.tables import Dataset, digits, npz

__all__ = [
    "Dataset",
    "Steps",
    "digits",
    "npz",
    "prepare",
    "read",
    "stream",
    "synnonsep",
    "synsep",
]
