"""How rows are best scaled: `python -m benchmarks.inputs`. The tables of docs/inputs.md.

Learners hear one bit per round, in one pass. Needs the data sets in the folder ONEBIT_DATA.
"""

from __future__ import annotations

import csv
import gzip
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import onebit as ob
from benchmarks.default.sets import path_of
from benchmarks.texts import amazon
from onebit.datasets.tables import fields_of
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


# Sets of numbers, and nursery, whose columns are categories: as arrays, a column for each of these.
TABLES = ("phoneme", "magic", "contraceptive", "satimage", "segment", "marketing", "optdigits")
TABLES = (*TABLES, "shuttle", "nursery")
MISSING = 0.3  # of the cells
POINTS = (100, 300, 1_000, 3_000)


def cells(name: str) -> tuple[np.ndarray, np.ndarray]:
    """The cells of a table, numbers or strings, and the labels."""
    if name not in ("nursery", "contraceptive"):
        fields = fields_of(path_of(f"{name}.npz"))
        return np.asarray(fields["X"], float), np.unique(fields["y"], return_inverse=True)[1]
    lines = gzip.decompress(path_of(f"{name}.csv.gz").read_bytes()).decode().splitlines()
    _, *rows = csv.reader(lines)
    kept = np.array([row[:-1] for row in rows], None if name == "nursery" else float)
    return kept, np.unique([row[-1] for row in rows], return_inverse=True)[1]


def forms_of(cells: np.ndarray, seed: int) -> dict[str, Any]:
    """The same rows as dicts and as arrays; some cells missing; with columns that say nothing."""
    rng = np.random.default_rng(seed)
    is_missing = rng.random(cells.shape) < MISSING
    names = [f"column {j}" for j in range(cells.shape[1])]
    dicts = [dict(zip(names, row, strict=True)) for row in cells.tolist()]
    with_gaps = [
        {name: row[name] for name, gap in zip(names, gaps, strict=True) if not gap}
        for row, gaps in zip(dicts, is_missing, strict=True)
    ]
    useless = rng.integers(1_000, size=len(cells)).tolist()
    array, gaps = cells, is_missing
    if cells.dtype.kind != "f":
        parts = [np.unique(column) == column[:, None] for column in cells.T]
        gaps = np.repeat(is_missing, [part.shape[1] for part in parts], axis=1)
        array = np.hstack(parts).astype(float)
    return {
        "dicts": dicts,
        "arrays": array,
        "dicts, missing": with_gaps,
        "arrays, missing": np.where(gaps, np.nan, array),
        "useless": [
            {**row, "shop": f"s{shop}", "id": f"u{i}"}
            for i, (row, shop) in enumerate(zip(dicts, useless, strict=True))
        ],
    }


def tables() -> None:
    """OneBit on the rows of tables as dicts and as arrays: after POINTS rounds and at the end."""
    for name in TABLES:
        X, y = cells(name)
        found: dict[str, list[list[float]]] = {}
        for seed in range(5):
            order = np.random.default_rng(seed).permutation(len(y))[:6_000]
            for form, rows in forms_of(X[order], seed).items():
                points = [*(n for n in POINTS if n < len(order)), len(order)]
                learner = ob.OneBit(int(y.max()) + 1, seed=seed)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # an identifier is one
                    trace = ob.simulate(learner, rows, y[order], checkpoints=points)
                found.setdefault(form, []).append((100 * trace.error).tolist())
        for form, errors in found.items():
            means = "  ".join(f"{error:5.1f}" for error in np.mean(errors, axis=0))
            spread = np.std(errors, axis=0, ddof=1)[-1]
            print(f"{name:14} {form:16} {means}  ± {spread:.1f}", flush=True)


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
    tables()
    scaling()
    scaling_of_dicts()
