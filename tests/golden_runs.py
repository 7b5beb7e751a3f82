"""Golden runs: what every learner, form and lockstep did at an earlier time, to be done again.

    NUMBA_DISABLE_JIT=1 PYTHONPATH=tests python tests/golden_runs.py NAME ...  # writes tests/golden

They are written once, before a change that is not to change results, and only read afterwards. Runs
of a learner are written anew when the learner is meant to do something else. NAME: as in test_laws.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy import sparse
from test_laws import MAKERS

import onebit as ob

FOLDER = Path(__file__).parent / "golden"
LABELS, FEATURES, ROWS, SAVED = 5, 12, 90, 50
CHANNEL = [ob.LabelNoise(0.1), ob.Flip(0.1, 0.2), ob.Silence(0.2), ob.Delay(3)]
CHANNEL_FOR_LABELS = [ob.LabelNoise(0.1), ob.Silence(0.2), ob.Delay(3)]


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
    makers = {param.id: param.values[0] for param in MAKERS}
    path = FOLDER / "runs.json"
    golden = json.loads(path.read_text())
    for name in names:
        make = makers[name]
        golden[name] = {dtype: runs_of(make, dtype) for dtype in ("float32", "float64")}
        learner = make(LABELS, seed=6, dtype="float64")
        ob.simulate(learner, X[:SAVED], y[:SAVED])
        learner.save(model_of(name))
        golden[name]["going_on"] = going_on(ob.load(model_of(name), **learner._given()))
        print(name, file=sys.stderr)
    lines = ",\n".join(f'"{name}": {json.dumps(golden[name])}' for name in sorted(golden))
    path.write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
