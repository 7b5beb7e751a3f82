"""What each ingredient of OneBit is worth where several labels may be right, or none.

`python -m benchmarks.worlds --ablate` plays the variants of `benchmarks.default.ablation` on the
streams, each in a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence

import numpy as np

import onebit as ob
from benchmarks.default.ablation import VARIANTS
from benchmarks.default.tables import table
from benchmarks.worlds.exclusive import SETS
from benchmarks.worlds.streams import STREAMS
from benchmarks.worlds.tables import ONEBIT, geometric_mean, percent

CHOSEN = (
    *(ONEBIT, "no logistic regressions with features", "no expert without features"),
    *("labels share no constant", "no diagonal regression", "no naive Bayes", "no bonus"),
    *("no allowance for the bonus", "no width", "contexts are taken to say something"),
    "no width of labels that were said less than others",
)


def play(variant: str, orders: int, names: Sequence[str]) -> list[float]:
    """The variant's share of right answers on each stream, means over the orders. Replaces code."""
    VARIANTS[variant]()
    shares = []
    for name in names:
        right = []
        for order in range(orders):
            world = (STREAMS | SETS)[name].load(order)
            rounds, labels = world.Y.shape
            trace = ob.simulate(ob.OneBit(labels, seed=order), *world, checkpoints=[rounds])
            right.append(1 - trace.error[-1])
        shares.append(float(np.mean(right)))
    return shares


def ablate(orders: int, names: Sequence[str], say: Callable[[str], None]) -> str:
    """A table of the variants: shares of right answers, and their mean ratio to those of OneBit."""
    lines, whole = [], np.ones(len(names))
    for variant in CHOSEN:
        with tempfile.TemporaryDirectory(prefix="onebit-ablation-") as cache:
            run = subprocess.run(
                [sys.executable, "-m", "benchmarks.worlds.ablation", variant, str(orders), *names],
                env={**os.environ, "ONEBIT_CACHE": cache},
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
        shares = json.loads(run.stdout)
        whole = np.array(shares) if variant == ONEBIT else whole
        mean = geometric_mean((np.array(shares) / whole).tolist())
        say(f"{variant}: {mean} {' '.join(map(percent, shares))}")
        lines.append([variant, mean, *map(percent, shares)])
    return table(["", "mean ratio", *names], lines)


if __name__ == "__main__":
    print(json.dumps(play(sys.argv[1], int(sys.argv[2]), sys.argv[3:])))
