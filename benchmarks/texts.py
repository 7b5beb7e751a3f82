"""How texts are best read: `python -m benchmarks.texts [--orders 2]`.

`OneBit` hears one bit per round, in one pass over raw texts. Needs the raw archives in the folder
ONEBIT_DATA, and scikit-learn for the readings that onebit does not have.
"""

from __future__ import annotations

import argparse
import os
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import onebit as ob
from onebit.reading.dicts import HASHED
from onebit.reading.texts import text_columns

Tasks = dict[str, list[str]]  # the labels of the texts, by the name of a task


def _members(archive: str) -> Iterator[tuple[Path, str]]:
    with tarfile.open(Path(os.environ.get("ONEBIT_DATA", ".")) / archive) as files:
        for member in files:
            content = files.extractfile(member)
            if content is not None:
                yield Path(member.name), content.read().decode("latin-1")


def newsgroups() -> tuple[list[str], Tasks]:
    """Messages with their headers; the label is the newsgroup."""
    messages = list(_members("20news_bydate_raw.tar.gz"))
    groups = [path.parent.name for path, _ in messages]
    return [text for _, text in messages], {"20 newsgroups": groups}


def amazon() -> tuple[list[str], Tasks]:
    """Reviews; the label is the kind of product, or whether the review is positive."""
    texts: list[str] = []
    products: list[str] = []
    feelings: list[str] = []
    for path, lines in _members("amazon14_fdu_raw.tar.gz"):
        for line in lines.splitlines():
            feeling, tab, text = line.partition("\t")
            if tab:
                texts.append(text)
                products.append(path.name.partition(".")[0])
                feelings.append(feeling)
    return texts, {"Amazon, 14 products": products, "Amazon, 2 sentiments": feelings}


def words(texts: list[str], ngrams: int) -> Any:
    """The rows that a learner makes of texts, with sequences of up to `ngrams` words."""
    rows = [text_columns(text, HASHED, ngrams=ngrams) for text in texts]
    indptr = np.cumsum([0, *(len(columns) for columns, _ in rows)])
    columns, values = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    return sparse.csr_matrix((values, columns, indptr), shape=(len(texts), HASHED))


def log_counts(texts: list[str], **settings: Any) -> Any:
    """The log counts of scikit-learn's sequences of words or characters, scaled to length 1."""
    from sklearn.feature_extraction.text import HashingVectorizer
    from sklearn.preprocessing import normalize

    vectorizer: Any = HashingVectorizer(n_features=HASHED, token_pattern=r"\w+", **settings)
    counts: Any = vectorizer.set_params(norm=None).transform(texts)
    counts.data = np.sign(counts.data) * np.log1p(np.abs(counts.data))
    return normalize(counts)


def with_characters(texts: list[str]) -> Any:
    """Words and pairs, and of the characters of each word all sequences of 3, 4 and 5."""
    return words(texts, 2) + log_counts(texts, analyzer="char_wb", ngram_range=(3, 5))


READINGS: dict[str, Callable[[list[str]], Any]] = {
    "words": lambda texts: words(texts, 1),
    "words and pairs": lambda texts: words(texts, 2),
    "words and pairs, of equal weight": lambda texts: log_counts(texts, ngram_range=(1, 2)),
    "words, pairs and 3 to 5 characters": with_characters,
}


def wrong(rows: Any, y: list[str], seed: int) -> float:
    """The share of wrong labels in one pass, in %."""
    order = np.random.default_rng(seed).permutation(len(y))
    learner = ob.OneBit(sorted(set(y)), seed=seed)  # type: ignore[call-arg]
    trace = ob.simulate(learner, rows[order], [y[i] for i in order])
    return 100 * trace.mistakes[-1] / len(y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=2, help="orders of the rows")
    orders = parser.parse_args().orders
    for read in (newsgroups, amazon):
        texts, tasks = read()
        for reading, rows_of in READINGS.items():
            start = time.perf_counter()
            rows = rows_of(texts).astype(np.float32)
            seconds = time.perf_counter() - start
            for task, y in tasks.items():
                shares = [wrong(rows, y, seed) for seed in range(orders)]
                print(
                    f"| {task} | {reading} | {np.mean(shares):.2f} ± {np.ptp(shares) / 2:.2f} "
                    f"| {rows.nnz / len(texts):.0f} | {seconds:.1f} s |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
