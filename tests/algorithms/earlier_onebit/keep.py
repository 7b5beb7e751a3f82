"""Writes sparse.onebit, dense.onebit and said.json by the OneBit of revision 962ae8b.

    git worktree add /somewhere 962ae8b
    NUMBA_DISABLE_JIT=1 PYTHONPATH=/somewhere/src python keep.py

They are written once, and only read afterwards: by test_earlier.py.
"""

import json
from pathlib import Path

import numpy as np

import onebit as ob

FOLDER, LABELS = Path(__file__).parent, ["a", "b", "c"]


def contexts(is_dense, rows=120):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(rows, 4))
    y = X[:, :3].argmax(axis=1)
    if is_dense:
        return X.tolist(), y
    return [{"best": f"b{i}", "x": round(float(x), 3)} for i, x in zip(y, X[:, 3], strict=True)], y


if __name__ == "__main__":
    said = {}
    for name in ("sparse", "dense"):
        learner = ob.OneBit(LABELS, seed=3)
        X, y = contexts(name == "dense")
        for x, truth in zip(X, y, strict=True):
            decision = learner.decide(x)
            learner.learn(decision, right=decision.place == truth)
        learner.save(FOLDER / f"{name}.onebit")
        said[name] = np.round(learner.scores(X[:20]), 6).tolist()
    (FOLDER / "said.json").write_text(json.dumps(said))
