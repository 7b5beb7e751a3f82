"""How texts are best read: `python -m benchmarks.texts [--orders 2]`.

`OneBit` hears one bit per round, in one pass over raw texts. Needs the raw archives in the folder
ONEBIT_DATA, and scikit-learn for sequences of characters.
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
from onebit.contexts import HASHED
from onebit.texts import text_columns

Labelled = Iterator[tuple[str, str]]  # a text and its label


def _members(archive: str) -> Iterator[tuple[Path, str]]:
    with tarfile.open(Path(os.environ.get("ONEBIT_DATA", ".")) / archive) as files:
        for member in files:
            content = files.extractfile(member)
            if content is not None:
                yield Path(member.name), content.read().decode("latin-1")


def newsgroups() -> Labelled:
    """Messages with their headers; the label is the newsgroup."""
    for path, text in _members("20news_bydate_raw.tar.gz"):
        yield text, path.parent.name


def amazon() -> Labelled:
    """Reviews; the label is the kind of product."""
    for path, lines in _members("amazon14_fdu_raw.tar.gz"):
        for line in lines.splitlines():
            if "\t" in line:
                yield line.partition("\t")[2], path.name.partition(".")[0]


def words(texts: list[str], ngrams: int) -> Any:
    """The rows that a learner makes of texts, with sequences of up to `ngrams` words."""
    rows = [text_columns(text, HASHED, ngrams=ngrams) for text in texts]
    indptr = np.cumsum([0, *(len(columns) for columns, _ in rows)])
    columns, values = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    return sparse.csr_matrix((values, columns, indptr), shape=(len(texts), HASHED))


def words_and_characters(texts: list[str]) -> Any:
    """Words and pairs, and of the characters of each word all sequences of 3, 4 and 5."""
    from sklearn.feature_extraction.text import HashingVectorizer
    from sklearn.preprocessing import normalize

    sequences: Any = HashingVectorizer(analyzer="char_wb", ngram_range=(3, 5), n_features=HASHED)
    characters: Any = sequences.set_params(norm=None).transform(texts)
    characters.data = np.sign(characters.data) * np.log1p(np.abs(characters.data))
    return words(texts, 2) + normalize(characters)


READINGS: dict[str, Callable[[list[str]], Any]] = {
    "words": lambda texts: words(texts, 1),
    "words and pairs": lambda texts: words(texts, 2),
    "words, pairs and triples": lambda texts: words(texts, 3),
    "words, pairs and 3 to 5 characters": words_and_characters,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=2, help="orders of the rows")
    orders = parser.parse_args().orders
    for name, read in {"20 newsgroups": newsgroups, "Amazon, 14": amazon}.items():
        texts, y = (list(part) for part in zip(*read(), strict=True))
        labels = sorted(set(y))
        for reading, rows_of in READINGS.items():
            start = time.perf_counter()
            rows = rows_of(texts).astype(np.float32)
            read_in = time.perf_counter() - start
            wrong = []
            for seed in range(orders):
                order = np.random.default_rng(seed).permutation(len(y))
                learner = ob.OneBit(labels, seed=seed)
                trace = ob.simulate(learner, rows[order], [y[i] for i in order])
                wrong.append(100 * trace.mistakes[-1] / len(y))
            each = time.perf_counter() - start - read_in
            print(
                f"| {name} | {reading} | {np.mean(wrong):.2f} ({np.ptp(wrong):.2f}) "
                f"| {read_in:.1f} s | {each / orders:.1f} s |",
                flush=True,
            )


if __name__ == "__main__":
    main()
