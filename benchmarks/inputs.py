"""How rows are best scaled: `python -m benchmarks.inputs`. The tables of docs/inputs.md.

Learners hear one bit per round, in one pass. Needs the data sets in the folder ONEBIT_DATA.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import onebit as ob
from benchmarks.texts import amazon
from onebit.lab.streams import load

INPUTS = ("raw", "unit", "auto")


def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """The rows of a data set as an array, and their labels."""
    data = load(name)
    X = data.X.toarray() if hasattr(data.X, "toarray") else data.X
    return np.asarray(X, np.float32), np.array(data.labels)[data.y]


def error(
    make: Callable[..., ob.Learner], rows: Any, y: np.ndarray, labels: Any, seed: int
) -> float:
    """In per cent."""
    return 100 * float(ob.simulate(make(labels, seed=seed), rows, y).error[-1])


def as_dicts(X: np.ndarray) -> list[dict[str, float]]:
    names = [f"column {j}" for j in range(X.shape[1])]
    return [dict(zip(names, row, strict=True)) for row in X.tolist()]


def scaling() -> None:
    """Learners at their defaults, with every value of `inputs`."""
    for name in ("usps", "optdigits", "satimage", "segment", "shuttle", "vowel"):
        X, y = table(name)
        labels = np.unique(y).tolist()
        for learner in (ob.UCWL, ob.Confidit, ob.FastCB):
            errors = []
            for seed in range(3):
                order = np.random.default_rng(seed).permutation(len(y))[:20_000]
                makers = [partial(learner, inputs=inputs) for inputs in INPUTS]
                errors.append([error(make, X[order], y[order], labels, seed) for make in makers])
            _print_inputs(name, learner, errors)


def scaling_of_dicts() -> None:
    """The same for texts with a number beside them."""
    texts, tasks = amazon()
    products = np.array(tasks["Amazon, 14 products"])
    labels = np.unique(products).tolist()
    for learner in (ob.UCWL, ob.Confidit, ob.FastCB):
        errors = []
        for seed in range(3):
            order = np.random.default_rng(seed).permutation(len(texts))[:10_000]
            rows = [{"body": texts[i], "characters": len(texts[i])} for i in order]
            makers = [partial(learner, inputs=inputs) for inputs in INPUTS]
            errors.append([error(make, rows, products[order], labels, seed) for make in makers])
        _print_inputs("amazon", learner, errors)


def _print_inputs(name: str, learner: type, errors: list[list[float]]) -> None:
    means = zip(INPUTS, np.mean(errors, axis=0), strict=True)
    shown = "  ".join(f"{inputs} {mean:5.1f}" for inputs, mean in means)
    print(f"{name:10} {learner.__name__:9} {shown}", flush=True)


def numbers() -> None:
    """OneBit on the same rows as lists of numbers and as dicts of numbers."""
    for name, count in {
        "shuttle": 5000,
        "satimage": 4000,
        "segment": 2310,
        "optdigits": 4000,
    }.items():
        X, y = table(name)
        labels, errors = np.unique(y).tolist(), []
        for seed in range(2):
            order = np.random.default_rng(seed).permutation(len(y))[:count]
            forms = (as_dicts(X[order]), X[order])
            errors.append([error(ob.OneBit, rows, y[order], labels, seed) for rows in forms])
        dicts, lists = np.mean(errors, axis=0)
        print(f"{name:10} OneBit    dicts {dicts:5.1f}  lists {lists:5.1f}", flush=True)


def numbers_beside_texts() -> None:
    """OneBit on texts with a number beside them that says nothing."""
    texts, tasks = amazon()
    products = np.array(tasks["Amazon, 14 products"])
    labels, errors = np.unique(products).tolist(), []
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(texts))[:10_000]
        rows = [{"body": texts[i]} for i in order]
        hours = [{**row, "hour": len(row["body"]) % 24} for row in rows]
        sizes = [{**row, "characters": len(row["body"])} for row in rows]
        forms = (rows, hours, sizes)
        errors.append([error(ob.OneBit, form, products[order], labels, seed) for form in forms])
    for name, of_orders in zip(
        ("text", "text, hour", "text, characters"), np.transpose(errors), strict=True
    ):
        print(f"{name:20} {of_orders.mean():5.1f} ± {of_orders.std(ddof=1):.1f}", flush=True)


def counts() -> None:
    """OneBit on counts of words, as sparse rows and as dicts."""
    data = load("20news")
    X, errors = data.X.tocsr(), []
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(len(data.y))[:10_000]
        rows, y = X[order], np.asarray(data.y)[order]
        parts = [slice(*rows.indptr[i : i + 2]) for i in range(len(y))]
        dicts = [
            {
                f"word{j}": count
                for j, count in zip(rows.indices[part], rows.data[part].tolist(), strict=True)
            }
            for part in parts
        ]
        forms = (rows, dicts)
        errors.append([error(ob.OneBit, form, y, len(data.labels), seed) for form in forms])
    sparse, dicts = np.mean(errors, axis=0)
    print(f"20news     OneBit    sparse rows {sparse:5.1f}  dicts {dicts:5.1f}", flush=True)


if __name__ == "__main__":
    numbers_beside_texts()
    counts()
    numbers()
    scaling()
    scaling_of_dicts()
