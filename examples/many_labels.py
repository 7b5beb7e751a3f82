"""A thousand labels: how much memory it takes, and how fast one bit finds its way among them.

    python examples/many_labels.py

Rows are like short texts: a label has ten words of its own, and a row has some of these among words
that say nothing. Labels are as unequal as words: the k-th commonest has a chance like 1/k.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scipy import sparse

import onebit as ob

OWN, SAID, NOISE = 10, 5, 10  # words of a label, of these in a row, words that say nothing


def short_texts(
    rounds: int, labels: int, words: int, seed: int
) -> tuple[sparse.csr_array, np.ndarray]:
    """Counts of words, and the labels."""
    rng = np.random.default_rng(seed)
    own = rng.integers(words, size=(labels, OWN))
    chances = 1 / rng.permutation(np.arange(1, labels + 1))  # or ties would favour common labels
    y = rng.choice(labels, size=rounds, p=chances / chances.sum())
    of_label = own[y[:, None], rng.integers(OWN, size=(rounds, SAID))]
    of_all = rng.integers(words, size=(rounds, NOISE))
    columns = np.concatenate([of_label, of_all], axis=1)
    rows = np.repeat(np.arange(rounds), SAID + NOISE)
    counts = np.ones(rows.size, np.float32)
    return sparse.csr_array((counts, (rows, columns.ravel())), shape=(rounds, words)), y


def size_of_file(learner: ob.Learner) -> float:
    """In megabytes."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "model.onebit"
        learner.save(file)
        return file.stat().st_size / 1e6


def main(labels: int = 1000, rounds: int = 100_000, words: int = 5000, seed: int = 0) -> None:
    X, y = short_texts(rounds, labels, words, seed)
    without_learning = 100 - 100 * np.bincount(y).max() / rounds
    print(f"{labels:,} labels, {words:,} words, {rounds:,} rounds")
    print(f"always the commonest label: {without_learning:.1f} % wrong")
    print(f"{'learner':<10} {'error %':>8} {'last tenth %':>13} {'us/round':>9} {'file, MB':>9}")
    last_tenth = rounds * 9 // 10
    for kind in (ob.OneBit, ob.UCWL, ob.Confidit):
        learner = kind(labels, seed=seed)
        start = time.perf_counter()
        trace = ob.simulate(learner, X, y, checkpoints=[last_tenth, rounds])
        micros = 1e6 * (time.perf_counter() - start) / rounds
        error = 100 * trace.error[-1]
        late = 100 * np.diff(trace.mistakes)[0] / (rounds - last_tenth)
        size = size_of_file(learner)
        print(f"{kind.__name__:<10} {error:8.1f} {late:13.1f} {micros:9.0f} {size:9.0f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in {"labels": 1000, "rounds": 100_000, "words": 5000, "seed": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    main(**vars(parser.parse_args()))
