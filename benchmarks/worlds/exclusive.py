"""Sets in which exactly one label of each row is right, as streams."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.default.sets import LOADERS, path_of
from benchmarks.worlds.streams import Drawer, Stream, embeddings_of, lines_of, one_hot
from onebit.datasets.tables import fields_of

ROWS = 6_000  # at most


class OneRight(Stream):
    """A set in which exactly one label of each row is right."""

    @property
    def group(self) -> str:
        return "one right"


def _of_default(name: str) -> Callable[[Drawer], tuple[Any, np.ndarray]]:
    """A set of benchmarks.default."""

    def make(rng: Drawer) -> tuple[Any, np.ndarray]:
        data = LOADERS[name]()
        X = data.X.tolist() if data.kind == "text" else data.X
        return X, one_hot(data.y, data.labels)

    return make


def _of_lines(file: str) -> Callable[[Drawer], tuple[Any, np.ndarray]]:
    def make(rng: Drawer) -> tuple[Any, np.ndarray]:
        texts, y, classes = lines_of(file)
        return texts, one_hot(y, len(classes))

    return make


def _of_arrays(file: str) -> Callable[[Drawer], tuple[Any, np.ndarray]]:
    def make(rng: Drawer) -> tuple[Any, np.ndarray]:
        fields = fields_of(path_of(f"{file}.npz"))
        y = np.unique(fields["y"], return_inverse=True)[1]
        return fields["X"], one_hot(y, y.max() + 1)

    return make


def _of_table(file: str, has_numbers: bool) -> Callable[[Drawer], tuple[Any, np.ndarray]]:
    """The last column is the label; rows of numbers are arrays, other rows are dicts."""

    def make(rng: Drawer) -> tuple[Any, np.ndarray]:
        lines = gzip.decompress(path_of(f"{file}.csv.gz").read_bytes()).decode().splitlines()
        head, *rows = csv.reader(lines)
        y = np.unique([row[-1] for row in rows], return_inverse=True)[1]
        if has_numbers:
            return np.array([row[:-1] for row in rows], float), one_hot(y, y.max() + 1)
        return [dict(zip(head, row[:-1], strict=False)) for row in rows], one_hot(y, y.max() + 1)

    return make


def _embedded_intents(rng: Drawer) -> tuple[Any, np.ndarray]:
    X, y = embeddings_of("clinc150")
    return X, one_hot(y, 150)


_DEFAULT = {
    "dense": {"mnist": 10, "usps": 10, "fashion_cnn100": 10, "satimage": 6, "optdigits": 10}
    | {"segment": 7, "vowel": 11, "shuttle": 7},
    "sparse": {"20news": 20, "rcv1": 4, "amazon7": 7, "rcv1_rarest": 100},
    "text": {"20news_text": 20, "amazon4_text": 4, "amazon14": 14},
}
_ROWS = {"segment": 2_310, "vowel": 990, "optdigits": 5_620}

SETS = {
    stream.name: stream
    for stream in (
        *(
            OneRight(f"set_{name}", kind, _ROWS.get(name, ROWS), labels, _of_default(name))
            for kind, sets in _DEFAULT.items()
            for name, labels in sets.items()
        ),
        OneRight("set_clinc150", "text", ROWS, 150, _of_lines("clinc150")),
        OneRight("set_clinc150_embedded", "dense", ROWS, 150, _embedded_intents),
        OneRight("set_trec6", "text", 5_943, 6, _of_lines("trec6")),
        OneRight("set_trec50", "text", 5_943, 51, _of_lines("trec50")),
        OneRight("set_snips", "text", ROWS, 7, _of_lines("snips")),
        OneRight("set_nursery", "dict", ROWS, 5, _of_table("nursery", has_numbers=False)),
        OneRight(
            *("set_contraceptive", "dense", 1_473, 3, _of_table("contraceptive", has_numbers=True)),
        ),
        OneRight("set_marketing", "dense", ROWS, 9, _of_arrays("marketing")),
        OneRight("set_magic", "dense", ROWS, 2, _of_arrays("magic")),
        OneRight("set_phoneme", "dense", 5_404, 2, _of_arrays("phoneme")),
    )
}
