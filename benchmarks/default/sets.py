"""The data sets, and their rows as each contestant gets them."""

from __future__ import annotations

import csv
import io
import re
import tarfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import onebit as ob
from onebit.datasets import Steps
from onebit.datasets.catalogue_entry import folders
from onebit.datasets.tables import fields_of

TEXT_COLUMNS = 2**20
FARTHEST = 5.0  # standard deviations
COUNTS = ("20news", "amazon7", "amazon3")  # counts of words: everybody gets log(1 + count)

# Not run unless --aside is given: no constant of OneBit was chosen on them.
ASIDE = ("fashion_mnist", "letter", "penbased", "movielens", "r52")


class Data(NamedTuple):
    """A data set as its users have it."""

    kind: str  # "dense", "sparse" or "text"
    X: Any  # an array, a CSR matrix or an array of strings
    y: np.ndarray
    labels: int


# --- loaders --------------------------------------------------------------------------------------


def catalogued(name: str) -> Data:
    """A data set of the catalogue."""
    data = ob.datasets.get(name)
    if not sparse.issparse(data.X):
        return Data("dense", np.asarray(data.X, np.float32), data.y, len(data.labels))
    X = Steps(["log_counts"]).rows(data.X) if name in COUNTS else data.X
    return Data("sparse", X, data.y, len(data.labels))


def rcv1_rarest() -> Data:
    """RCV1 without repeats; the label is the rarest topic of the document."""
    fields = fields_of(path_of("rcv1_topics.npz"))
    kept = ~fields["repeat"]
    topics = np.unpackbits(fields["topics_packed"], axis=1)[kept, :101]
    documents = np.where(topics == 1, topics.sum(axis=0), len(topics) + 1)
    found, y = np.unique(documents.argmin(axis=1), return_inverse=True)
    return Data("sparse", fields["X"][kept], y, len(found))


def newsgroup_texts() -> Data:
    """Messages of 20 newsgroups as they were posted; the label is the group."""
    return _texts((name.split("/")[1], text) for name, text in files_of("20news_bydate_raw"))


def amazon4_texts() -> Data:
    """Reviews of four kinds of goods; the label is the kind."""
    review = re.compile(r"<review_text>\s*(.*?)\s*</review_text>", re.DOTALL)
    return _texts(
        (name.split("/")[1], text)
        for name, file in files_of("amazon4_reviews_raw")
        for text in review.findall(file)
    )


def amazon14_texts() -> Data:
    """Reviews of 14 kinds of goods; the label is the kind."""
    return _texts(
        (name.split("/")[1].split(".")[0], line.partition("\t")[2])
        for name, file in files_of("amazon14_fdu_raw")
        for line in file.splitlines()
    )


def news_agency_texts() -> Data:
    """Messages of Reuters in 1987 that have a single topic; the label is the topic."""
    lines = (
        line.partition("|||")
        for part in ("train", "test")
        for line in path_of(f"R52-{part}.txt").read_text().splitlines()
    )
    return _texts((topic, text) for topic, mark, text in lines if mark)


def movie_titles() -> Data:
    """Titles of films and the tags that people gave them; the label is the first genre."""
    tables = {
        Path(name).stem: list(csv.DictReader(io.StringIO(file)))
        for name, file in files_of("movielens_latest_small_2016")
        if name.endswith(".csv")
    }
    tags = defaultdict(list)
    for row in tables["tags"]:
        tags[row["movieId"]].append(row["tag"])
    return _texts(
        (row["genres"].split("|")[0], " ".join([row["title"], *tags[row["movieId"]]]))
        for row in tables["movies"]
    )


def keel(name: str) -> Data:
    """A raw file of the KEEL repository: numbers, and the label last."""
    lines = path_of(f"{name}.dat").read_text().splitlines()
    rows = [line.split(",") for line in lines if line and line[0] != "@"]
    labels, y = np.unique([row[-1] for row in rows], return_inverse=True)
    return Data("dense", np.array([row[:-1] for row in rows], np.float32), y, len(labels))


LOADERS: dict[str, Callable[[], Data]] = {
    **{
        name: lambda name=name: catalogued(name)
        for name in (
            *("20news", "rcv1", "amazon7", "amazon3", "usps", "mnist", "fashion_cnn100"),
            *("satimage", "optdigits", "segment", "vowel", "fashion_mnist", "shuttle"),
        )
    },
    "rcv1_rarest": rcv1_rarest,
    "20news_text": newsgroup_texts,
    "amazon4_text": amazon4_texts,
    "amazon14": amazon14_texts,
    "movielens": movie_titles,
    "r52": news_agency_texts,
    **{name: lambda name=name: keel(name) for name in ("letter", "penbased")},
}


@cache
def load(name: str) -> Data:
    return LOADERS[name]()


def path_of(file: str) -> Path:
    """Where a file of the data folder is."""
    for folder in folders():
        if (folder / file).is_file():
            return folder / file
    raise FileNotFoundError(
        f"{file} is in no data folder; set ONEBIT_DATA to the folder that has it"
    )


def files_of(archive: str) -> Iterator[tuple[str, str]]:
    """Names and contents of the files in an archive."""
    with tarfile.open(path_of(f"{archive}.tar.gz")) as files:
        for member in files:
            stream = files.extractfile(member) if member.isfile() else None
            if stream is not None:
                yield member.name, stream.read().decode("utf-8", "replace")


def _texts(pairs: Iterator[tuple[str, str]]) -> Data:
    names, texts = zip(*pairs, strict=True)
    labels, y = np.unique(names, return_inverse=True)
    X = np.empty(len(texts), object)
    X[:] = texts
    return Data("text", X, y, len(labels))


# --- rows -----------------------------------------------------------------------------------------


class Rows(NamedTuple):
    """The rows of one run, in the order in which they come."""

    X: Any
    y: np.ndarray


def preparations(kind: str) -> tuple[str, ...]:
    """How rows are prepared for learners that take numbers of about unit length.

    - unit: rows scaled to length 1.
    - scaled: all rows divided by their root mean squared length over the set; and a constant.
    - standard: columns standardised by the means and deviations of the whole set, which no online
      learner knows; clipped, divided by the root of the number of columns; and a constant.
    - words: log(1 + count) of the words and pairs of words of a text, hashed, rows of length 1.
    - tfidf: the same, weighted by document frequencies up to the row.
    """
    return {
        "dense": ("unit", "scaled", "standard"),
        "sparse": ("unit",),
        "text": ("words", "tfidf"),
    }[kind]


def rows_of(name: str, prepare: str, order: int, most: int) -> Rows:
    """At most so many rows of a set, shuffled by the number of the order; "raw": as they are."""
    data = load(name)
    chosen = np.random.default_rng(order).permutation(len(data.y))[:most]
    X = data.X if prepare == "raw" else _prepared(name, prepare)
    X = X[chosen]
    if prepare == "tfidf":
        X = Steps(["tfidf", "unit_norm"]).rows(X)
    return Rows(list(X) if prepare == "raw" and data.kind == "text" else X, data.y[chosen])


@cache
def _prepared(name: str, prepare: str) -> Any:
    data = load(name)
    if prepare == "standard":
        return standardised(data.X)
    if prepare == "unit":
        return Steps(["unit_norm"]).rows(data.X)
    if prepare == "scaled":
        return _with_constant(data.X / np.sqrt(np.square(data.X).sum(axis=1).mean()))
    counts = Steps(["log_counts"]).rows(_word_counts(name))
    return counts if prepare == "tfidf" else Steps(["unit_norm"]).rows(counts)


@cache
def _word_counts(name: str) -> sparse.csr_matrix:
    from sklearn.feature_extraction.text import HashingVectorizer

    hashing = HashingVectorizer(
        n_features=TEXT_COLUMNS, ngram_range=(1, 2), alternate_sign=False, norm=None
    )
    return sparse.csr_matrix(hashing.transform(load(name).X), dtype=np.float32)


def standardised(X: np.ndarray) -> np.ndarray:
    """Columns of deviation 1 / sqrt(columns), without those that are constant; and a constant."""
    deviations = X.std(axis=0, dtype=np.float64)
    varies = deviations > 0
    Z = (X[:, varies] - X[:, varies].mean(axis=0, dtype=np.float64)) / deviations[varies]
    Z = np.clip(Z, -FARTHEST, FARTHEST) / np.sqrt(varies.sum())
    return _with_constant(Z)


def _with_constant(X: np.ndarray) -> np.ndarray:
    return np.hstack([X, np.ones((len(X), 1))]).astype(np.float32)


def forget() -> None:
    """Give back the memory of the sets that were loaded."""
    for kept in (load, _prepared, _word_counts):
        kept.cache_clear()
