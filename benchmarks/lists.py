"""Measure lists: `python -m benchmarks.lists [SECTION...]` (ONEBIT_DATA).

feedback: what OneBit knows after 1,000 rounds, by what it shows and hears: the share of 500
held-out rows of which a right label is among the 1, 3 or 5 labels with the best scores.
rivals: in how many of the first 1,000 rounds the shown list of three had a right label, OneBit
beside other learners, each with the best of its settings in hindsight.
price: a round with a list of three beside a round with one label, in turns.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import onebit as ob
from benchmarks.worlds import exclusive, streams

ONE_RIGHT = ("set_20news", "set_amazon7", "set_trec50", "set_clinc150", "set_optdigits")
SEVERAL_RIGHT = ("topics", "films_genres", "yeast")
ROUNDS, HELD_OUT, SHOWN = 1_000, 500, 3
RIVALS: dict[str, list[dict[str, Any]]] = {
    "UCWL": [{"k": k, "inputs": "auto"} for k in (0.1, 1.0)],
    "Confidit": [{"eta": eta, "inputs": "auto"} for eta in (0.01, 0.1, 1.0)],
    "FastCB": [{"scale": scale, "inputs": "auto"} for scale in (100.0, 1000.0)],
    "EpsilonGreedy": [{"epsilon": epsilon, "inputs": "auto"} for epsilon in (0.01, 0.1)],
    "Banditron": [{"gamma": gamma, "inputs": "auto"} for gamma in (0.05, 0.2)],
    "UniformRandom": [{}],
    "AROW": [{"r": r, "inputs": "auto"} for r in (0.1, 1.0)],
}


def row_of(X: Any, i: int) -> Any:
    """One context of a stream."""
    if hasattr(X, "indptr"):
        part = slice(X.indptr[i], X.indptr[i + 1])
        return X.indices[part], X.data[part]
    return X[i]


def load(name: str, order: int) -> streams.World:
    return {**streams.STREAMS, **exclusive.SETS}[name].load(order)


def play(
    learner: ob.Learner, world: streams.World, rounds: int, show: int, heard: str
) -> Iterator[bool]:
    """Rounds of a stream, again from its start after its last row but for those held out. Tells of
    each whether a right label was shown."""
    usable = len(world.Y) - HELD_OUT
    for t in range(rounds):
        i = t % usable
        right = world.Y[i]
        decision: Any = learner.decide(row_of(world.X, i), show=show)
        found = [label for label in decision.shown if right[label]]
        if learner.full_information:
            learner.learn(decision, label=int(right.argmax()))
        elif heard == "one bit":
            learner.learn(decision, right=bool(found))
        else:
            learner.learn(decision, taken=found)
        yield bool(found)


def recall(learner: ob.Learner, world: streams.World, size: int) -> float:
    """The share of held-out rows of which a right label is among the best."""
    rows = range(len(world.Y) - HELD_OUT, len(world.Y))
    X = world.X[rows[0] :] if hasattr(world.X, "shape") else [world.X[i] for i in rows]
    best = np.argsort(-learner.scores(X), axis=1, kind="stable")[:, :size]
    return float((np.take_along_axis(world.Y[rows[0] :], best, axis=1) > 0).any(axis=1).mean())


WAYS = [
    ("one label", 1, "one bit", 1),
    ("one label, three times the rounds", 1, "one bit", 3),
    ("a list of 3: one of them, or none", 3, "one bit", 1),
    ("a list of 3: which one", 3, "taken", 1),
    ("a list of 5: which one", 5, "taken", 1),
]


def feedback(orders: int, sets: Sequence[str]) -> None:
    """Cells: the recall at 1, 3 and 5."""
    reference = ("the true label (AROW)", 1, "label", 1)
    titles = [title for title, *_ in (*WAYS, reference)]
    print(f"| set | {' | '.join(titles)} |\n|{'---|' * (1 + len(titles))}")
    for name in sets:
        cells = []
        for _, show, heard, times in [*WAYS, *([reference] if name in ONE_RIGHT else [])]:
            found = []
            for order in range(orders):
                world = load(name, order)
                kind: Any = ob.AROW if heard == "label" else ob.OneBit
                settings = {"inputs": "auto"} if heard == "label" else {}
                learner = kind(world.Y.shape[1], seed=order, **settings)
                sum(play(learner, world, times * ROUNDS, show, heard))
                found.append([recall(learner, world, size) for size in (1, 3, 5)])
            cells.append(" / ".join(f"{100 * share:.0f}" for share in np.mean(found, axis=0)))
        cells += ["-"] * (len(titles) - len(cells))
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def rivals(orders: int, sets: Sequence[str]) -> None:
    print(f"| set | OneBit | {' | '.join(RIVALS)} |\n|{'---|' * (2 + len(RIVALS))}")
    for name in sets:
        cells = []
        for rival, grid in {"OneBit": [{}], **RIVALS}.items():
            kind = getattr(ob, rival)
            if (kind.full_information or kind.importance_weighted) and name in SEVERAL_RIGHT:
                cells.append("-")
                continue
            shares = []
            for settings in grid:
                worlds = [load(name, order) for order in range(orders)]
                runs = [
                    sum(play(kind(w.Y.shape[1], seed=i, **settings), w, ROUNDS, SHOWN, "taken"))
                    for i, w in enumerate(worlds)
                ]
                shares.append(float(np.mean(runs)) / ROUNDS)
            cells.append(f"{100 * max(shares):.1f}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def price(orders: int, sets: Sequence[str]) -> None:
    """Microseconds of a round, the least of ten turns of 200 rounds."""
    rng = np.random.default_rng(0)
    X = [(np.sort(rng.choice(5000, 60, replace=False)), rng.random(60) + 0.1) for _ in range(400)]
    y = rng.integers(0, 20, 400).tolist()
    print("| learner | one label | list of three |\n|---|---|---|")
    for name in ("Banditron", "UCWL", "FastCB", "OneBit"):
        single, listing = (getattr(ob, name)(20, seed=1) for _ in range(2))
        times: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(11):
            for is_list, learner in ((False, single), (True, listing)):
                start = time.perf_counter()
                for i in range(200):
                    if is_list:
                        shown = learner.decide(X[i], show=3)
                        learner.learn(shown, taken=y[i] if y[i] in shown.shown else None)
                    else:
                        decision = learner.decide(X[i])
                        learner.learn(decision, right=decision.label == y[i])
                times[is_list].append((time.perf_counter() - start) / 200 * 1e6)
        one, three = (min(times[is_list][1:]) for is_list in (False, True))
        print(f"| {name} | {one:.0f} | {three:.0f} |", flush=True)


SECTIONS = {"feedback": feedback, "rivals": rivals, "price": price}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], default=[*SECTIONS])
    parser.add_argument("--orders", type=int, default=3, help="shuffles of each set")
    every = [*ONE_RIGHT, *SEVERAL_RIGHT]
    parser.add_argument("--sets", nargs="*", choices=every, default=every)
    given = parser.parse_args()
    for section in given.sections:
        SECTIONS[section](given.orders, given.sets)


if __name__ == "__main__":
    main()
