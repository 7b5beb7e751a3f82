"""Downloads through scikit-learn, which knows the sources of public data and checks the files.

A download is stored as npz in the layout of the catalogue, with its checksum beside it.
"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from onebit.core.extras import optional_module
from onebit.datasets.catalogue import FETCHED, fetch_folder, find
from onebit.datasets.catalogue_entry import CatalogueEntry, Fields
from onebit.datasets.tables import CSR, table_of
from onebit.learner.files import write_bytes


def fetch(name: str) -> Path:
    """Download a data set into the first data folder, unless it exists; returns its file."""
    entry = find(name)
    if not entry.fetched:
        raise ValueError(f"{name!r} cannot be downloaded; these can: {', '.join(FETCHED)}")
    path = entry.find()
    if path is not None:
        return path
    sources = optional_module("sklearn.datasets", "scikit-learn", "data are downloaded through")
    target = fetch_folder() / entry.file
    target.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(target.parent, os.W_OK):  # known before the download
        raise OSError(f"{target.parent} cannot be written; set ONEBIT_DATA to a folder that can")
    fields = _download(entry, sources, target)
    _check(entry, fields, target)
    packed = io.BytesIO()
    np.savez_compressed(packed, **_stored(fields))
    data = packed.getvalue()
    line = f"{hashlib.sha256(data).hexdigest()}  {target.name}\n"
    write_bytes(checksum_of(target), line.encode())  # first: a file has its checksum at any time
    write_bytes(target, data)
    return target


def checksum_of(path: Path) -> Path:
    """The file with the checksum of a fetched file, as `sha256sum --check` reads it."""
    return path.with_name(f"{path.name}.sha256")


def _download(entry: CatalogueEntry, sources: Any, target: Path) -> Fields:
    with tempfile.TemporaryDirectory() as home, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of retries
        try:
            return _MAKERS[entry.name](sources, home)
        except OSError as error:
            why = getattr(error, "reason", None) or error
            raise OSError(
                f"{entry.name} could not be downloaded ({why}); is there a network? "
                f"You may also put {entry.file} into {target.parent} yourself"
            ) from None


def _check(entry: CatalogueEntry, fields: Fields, target: Path) -> None:
    """Refuse a download that differs from the catalogue."""
    table = table_of(target, entry.change(fields))
    size = (*table.X.shape, len(table.labels))
    if entry.size not in (None, size):
        raise ValueError(
            f"{entry.name}: the download has {size} rows, features and labels, not {entry.size}; "
            "nothing was written. Has the source changed?"
        )


def _stored(fields: Fields) -> Fields:
    """The fields to store: a sparse X as its arrays."""
    X = fields["X"]
    if not hasattr(X, "tocsr"):
        return fields
    parts = dict(zip(CSR, (X.data, X.indices, X.indptr, np.array(X.shape)), strict=True))
    return {**parts, **{name: value for name, value in fields.items() if name != "X"}}


# One function per data set converts scikit-learn's result to the fields of an npz file.


def _openml(
    number: int, dtype: Any, *, first: int | None = None, classes: tuple[str, ...] = ()
) -> Callable[[Any, str], Fields]:
    """A table of OpenML. first: the label at place 0, if labels are numbers."""

    def make(sources: Any, home: str) -> Fields:
        bunch = sources.fetch_openml(
            data_id=number, as_frame=False, parser="liac-arff", data_home=home, n_retries=1
        )
        X = np.asarray(bunch.data).astype(dtype)
        if first is None:
            names, y = np.unique(np.asarray(bunch.target, str), return_inverse=True)
            return {"X": X, "y": y.astype(np.uint8), "classes": names}
        y = (np.asarray(bunch.target).astype(int) - first).astype(np.uint8)
        return {"X": X, "y": y, **({"classes": np.array(classes)} if classes else {})}

    return make


def _20news(sources: Any, home: str) -> Fields:
    """The 18,828 messages without repeats, by sender, subject and body."""
    from sklearn.feature_extraction.text import CountVectorizer

    bunch = sources.fetch_20newsgroups(subset="all", shuffle=False, data_home=home, n_retries=1)
    messages = [_message(text) for text in bunch.data]
    count = Counter(messages)
    once = np.array([count[message] == 1 for message in messages])
    texts = ("\n".join(message) for message in messages if count[message] == 1)
    words = CountVectorizer()
    X: Any = words.fit_transform(texts)
    return {
        "X": X.astype(np.uint16),
        "y": np.asarray(bunch.target)[once].astype(np.uint8),
        "classes": np.array(bunch.target_names),
        "vocabulary": np.bytes_("\n".join(words.get_feature_names_out()).encode()),
    }


def _message(text: str) -> tuple[str, str, str]:
    head, _, body = text.partition("\n\n")
    lines = head.split("\n")
    sender = next((line for line in lines if line.startswith("From:")), "")
    subject = next((line for line in lines if line.startswith("Subject:")), "")
    return sender, subject, body


def _rcv1_full(sources: Any, home: str) -> Fields:
    """The documents with exactly one of the four top topics."""
    bunch = sources.fetch_rcv1(subset="all", data_home=home, n_retries=1)
    classes = ["CCAT", "ECAT", "GCAT", "MCAT"]
    names = np.asarray(bunch.target_names).tolist()
    topics = bunch.target[:, [names.index(name) for name in classes]].toarray()
    single = topics.sum(axis=1) == 1
    X, y = bunch.data[single].astype(np.float32), topics[single].argmax(axis=1).astype(np.uint8)
    return {"X": X, "y": y, "classes": np.array(classes)}


_CLOTHES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
_VALVES = ("Rad.Flow", "Fpv.Close", "Fpv.Open", "High", "Bypass", "Bpv.Close", "Bpv.Open")

_MAKERS: dict[str, Callable[[Any, str], Fields]] = {
    "mnist": _openml(554, np.uint8, first=0),
    "fashion_mnist": _openml(40996, np.uint8, first=0, classes=_CLOTHES),
    "usps": _openml(41082, np.float32, first=1),
    "optdigits": _openml(28, np.uint8, first=0),
    "segment": _openml(36, np.float64),
    "shuttle": _openml(40685, np.int32, first=1, classes=_VALVES),
    "20news": _20news,
    "rcv1_full": _rcv1_full,
}
