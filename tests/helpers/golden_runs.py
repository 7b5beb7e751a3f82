"""Golden runs: what every learner, form and lockstep did at an earlier time, to be done again.

    NUMBA_DISABLE_JIT=1 PYTHONPATH=tests python -m helpers.golden_runs NAME ...

They are in tests/golden. They are written once, before a change that is not to change results, and
only read afterwards. Runs of a learner are written anew when the learner is meant to do something
else: then its `BITS` must have been raised, so that services build their learners anew. NAME: as in
`helpers.makers`, or "reading" or "steps", with the `BITS` of `onebit.reading.contexts` and
`onebit.datasets.steps`.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from scipy import sparse

import onebit as ob
from helpers.makers import MAKERS
from onebit.datasets import Steps, steps
from onebit.learner.copies import unsaved
from onebit.reading import contexts

FOLDER = Path(__file__).parents[1] / "golden"
LABELS, FEATURES, ROWS, SAVED = 5, 12, 90, 50
CHANNEL = [ob.LabelNoise(0.1), ob.Flip(0.1, 0.2), ob.Silence(0.2), ob.Delay(3)]
CHANNEL_FOR_LABELS = [ob.LabelNoise(0.1), ob.Silence(0.2), ob.Delay(3)]


AS_THEN = {"SquareCB": {"scale": 10.0}, "FastCB": {"scale": 10.0}}  # defaults that have changed


def maker_of(name: str) -> Callable[..., ob.Learner]:
    """Of one of `MAKERS`, with the defaults that it had when its runs were written."""
    [maker] = [param.values[0] for param in MAKERS if param.id == name]
    return partial(maker, **AS_THEN.get(name.rpartition("-")[0], {}))


def stream() -> tuple[sparse.csr_matrix, np.ndarray]:
    """Random rows, some empty, with labels that can be learned."""
    rng = np.random.default_rng(2024)
    X = rng.normal(size=(ROWS, FEATURES)) * (rng.random((ROWS, FEATURES)) < 0.5)
    X[::17] = 0
    y = (X @ rng.normal(size=(FEATURES, LABELS))).argmax(axis=1)
    return sparse.csr_matrix(X), y


def counts(trace) -> list[list[int]]:
    return [column.tolist() for column in trace[1:]]


def runs_of(make, dtype: str) -> dict[str, list]:
    """What a learner does alone, over a channel, with a half-life, and in lockstep."""
    X, y = stream()
    points = range(10, ROWS + 1, 10)
    found = {
        "alone": counts(ob.simulate(make(LABELS, seed=3, dtype=dtype), X, y, checkpoints=points))
    }
    learner = make(LABELS, seed=4, dtype=dtype)
    channel = CHANNEL_FOR_LABELS if learner.full_information else CHANNEL
    found["channel"] = counts(ob.simulate(learner, X, y, channel=channel, checkpoints=points))
    fading = make(LABELS, seed=5, dtype=dtype, half_life=40)
    found["half_life"] = counts(ob.simulate(fading, X, y, checkpoints=points))
    learners = [make(LABELS, seed=seed, dtype=dtype) for seed in range(5)]
    for run in ob.sweep(learners, X, y, test=(X, y), threads=1):
        found.setdefault("lockstep", []).append([*counts(run.trace), run.test_error])
    return found


def bits_of(make) -> list[int]:
    """The versions of the arithmetic of a learner, as the service has them."""
    kinds = type(make(LABELS)).__mro__
    return [kind.BITS for kind in kinds if "BITS" in vars(kind)]


# What contexts and steps are as numbers.

READ = (
    "My invoice is wrong, and wrong again.",
    "caf\u00e9 cafe\u0301 \u4f60\u597d\u4e16\u754c \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "\U0001f600\U0001f600 x_1 3.5",
    {"team": "A", "age": 31, "vip": True, "note": "it crashed again", "gap": None},
    {"a": 0.25, "b": -3, "c": 1e6},
    [0.5, 0.0, -2.0, 1e-3],
    ([3, 70000], [1.0, -0.5]),
)
STEPS = (
    ["log_counts", "tfidf", "unit_norm"],
    ["binary", "constant"],
    ["standardise"],
    ["hash:16"],
    ["fourier:8:gamma=0.5:seed=3"],
)


def _digest(rows) -> str:
    """Of the same numbers on every machine: single precision and rounding absorb the rest."""
    found = hashlib.sha256()
    for indices, values in rows:
        rounded = [float(f"{value:.5g}") + 0.0 for value in np.asarray(values, np.float64)]
        found.update(repr(([int(i) for i in indices], rounded)).encode())
    return found.hexdigest()[:16]


def reading() -> dict[str, str]:
    """How contexts of each kind are read."""
    found = {}
    for i, x in enumerate(READ):
        row = contexts.encode(x, np.dtype(np.float64), None)
        found[f"{i} {type(x).__name__}"] = _digest([row])
    return found


def prepared() -> dict[str, str]:
    """What each step makes of the rows of the stream."""
    X, found = np.abs(stream()[0].toarray()), {}
    for names in STEPS:
        apply = Steps(names)
        rows = [apply(x) for x in X]
        found[" ".join(names)] = _digest(rows)
    return found


PARTS = {"reading": (contexts, reading), "steps": (steps, prepared)}


def model_of(name: str) -> Path:
    return FOLDER / f"{name}.onebit"


def going_on(learner) -> list[list[int]]:
    """What a saved learner does with the rows that it has not seen."""
    X, y = stream()
    return counts(
        ob.simulate(learner, X[SAVED:], y[SAVED:], checkpoints=range(1, ROWS - SAVED + 1))
    )


def main(names: Sequence[str]) -> None:
    X, y = stream()
    path = FOLDER / "runs.json"
    golden = json.loads(path.read_text())
    for name in names:
        if name in PARTS:
            module, made = PARTS[name]
            _record(golden, name, {"bits": [module.BITS], "made": made()})
            continue
        make = maker_of(name)
        runs = {dtype: runs_of(make, dtype) for dtype in ("float32", "float64")}
        _record(golden, name, {"bits": bits_of(make), **runs})
        learner = make(LABELS, seed=6, dtype="float64")
        ob.simulate(learner, X[:SAVED], y[:SAVED])
        learner.save(model_of(name))
        golden[name]["going_on"] = going_on(ob.load(model_of(name), **unsaved(learner)))
        print(name, file=sys.stderr)
    lines = ",\n".join(f'"{name}": {json.dumps(golden[name])}' for name in sorted(golden))
    path.write_text("{\n" + lines + "\n}\n")


def _record(golden, name: str, found: dict) -> None:
    """Take a run instead of the one before, unless it differs under the same number."""
    before = golden.get(name, {})
    changed = [
        key for key in found if key != "bits" and key in before and before[key] != found[key]
    ]
    if changed and before.get("bits") == found["bits"]:
        sys.exit(f"{name} does something else ({', '.join(changed)}): raise its BITS first")
    golden[name] = found


if __name__ == "__main__":
    main(sys.argv[1:])
