"""How many mistakes it takes to find the names of the labels alone, by one bit per round.

    python -m benchmarks.default.names

The player knows which rows have the same label, and nothing else: it has to find out by right and
wrong which of the K names each group of rows has. It never repeats a wrong guess for a group, and
knows that no two groups have the same name. A learner has to learn the groups as well, so it makes
more mistakes than this. A learner that is told the true labels has no such cost.
"""

from __future__ import annotations

import numpy as np

from benchmarks.default.sets import ASIDE, LOADERS, load

ORDERS, ROWS = 5, 20_000


def share_of_mistakes(y: np.ndarray, labels: int, rng: np.random.Generator) -> float:
    name_of = rng.permutation(labels)
    is_possible = np.ones((labels, labels), bool)  # by group and name
    is_known, mistakes = np.zeros(labels, bool), 0
    for group in y:
        if not is_known[group]:
            guess = rng.choice(np.flatnonzero(is_possible[group]))
            is_known[group] = guess == name_of[group]
            mistakes += not is_known[group]
            is_possible[group if not is_known[group] else slice(None), guess] = False
    return mistakes / len(y)


def main() -> None:
    for name in (name for name in LOADERS if name not in ASIDE):
        data, shares = load(name), []
        for order in range(ORDERS):
            rng = np.random.default_rng(order)
            y = data.y[rng.permutation(len(data.y))[:ROWS]]
            shares.append(share_of_mistakes(y, data.labels, rng))
        print(f"{name:15} {data.labels:4} labels {np.mean(shares):7.2%}")


if __name__ == "__main__":
    main()
