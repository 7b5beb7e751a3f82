"""What names of labels are worth: `python -m benchmarks.headstart [--orders 3] [--rounds 10000]`.

`OneBit` hears one bit per round, in one pass over texts: with labels that are numbers, with their
names, with the names of other labels, and with examples that are taught first. Needs the files in
the folder ONEBIT_DATA.
"""

from __future__ import annotations

import argparse
import gzip
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import onebit as ob
from benchmarks.texts import amazon, newsgroups

WAYS = ("numbers", "names", "names of others", "1 example", "3 examples")
POINTS = (100, 1_000, 10_000)
Texts = tuple[list[str], list[str]]


def lines(file: str) -> Texts:
    """Texts and their labels, from a file of lines: label, tab, text."""
    path = Path(os.environ.get("ONEBIT_DATA", ".")) / file
    with gzip.open(path, "rt", encoding="utf-8") as source:
        parts = [line.rstrip("\n").partition("\t") for line in source]
    return [text for _, _, text in parts], [label for label, _, _ in parts]


def first_task(read) -> Texts:
    texts, tasks = read()
    return texts, next(iter(tasks.values()))


SETS = {
    "CLINC-150": lambda: lines("clinc150.tsv.gz"),
    "SNIPS": lambda: lines("snips.tsv.gz"),
    "TREC, 51 kinds": lambda: lines("trec50.tsv.gz"),
    "20 newsgroups": lambda: first_task(newsgroups),
    "Amazon, 14 products": lambda: first_task(amazon),
}


def derangement(labels: Sequence[str], seed: int) -> dict[str, str]:
    """For each label, another one."""
    order = np.random.default_rng(seed).permutation(len(labels))
    following = np.roll(order, 1)
    return {labels[i]: labels[j] for i, j in zip(order, following, strict=True)}


def play(texts: list[str], y: list[str], way: str, order: int, rounds: int) -> list[float]:
    """Mistakes in %, up to each point."""
    labels, shuffled = sorted(set(y)), np.random.default_rng(order).permutation(len(texts))
    said, names = {label: label for label in labels}, labels
    if way == "names of others":
        said = derangement(labels, order)
    elif way != "names":
        said = {label: place for place, label in enumerate(labels)}  # type: ignore[assignment]
        names = range(len(labels))  # type: ignore[assignment]
    learner, taught = ob.OneBit(list(names), seed=order), []
    if way.endswith(("example", "examples")):
        count = int(way[0])
        examples = [[i for i in shuffled if y[i] == label][:count] for label in labels]
        taught = [i for turn in range(count) for some in examples for i in some[turn : turn + 1]]
        learner.teach([texts[i] for i in taught], [said[y[i]] for i in taught])
    played = [i for i in shuffled if i not in set(taught)][:rounds]
    points = sorted({min(point, len(played)) for point in POINTS})
    trace = ob.simulate(
        learner, [texts[i] for i in played], [said[y[i]] for i in played], checkpoints=points
    )
    return [100 * float(error) for error in trace.error]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--orders", type=int, default=3)
    arguments.add_argument("--rounds", type=int, default=10_000)
    arguments.add_argument("--sets", nargs="*", default=list(SETS))
    arguments.add_argument("--ways", nargs="*", default=list(WAYS))
    given = arguments.parse_args()
    print("| % wrong after 100 / 1,000 / 10,000 |", " | ".join(given.ways), "|")
    print("|---|", "--:|" * len(given.ways), sep="")
    for name in given.sets:
        texts, y = SETS[name]()
        cells = []
        for way in given.ways:
            runs = [play(texts, y, way, order, given.rounds) for order in range(given.orders)]
            cells.append(" / ".join(f"{error:.1f}" for error in np.mean(runs, axis=0)))
        print(f"| {name} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
