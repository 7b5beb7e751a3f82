"""What each ingredient of OneBit is worth: its mistakes without it.

`python -m benchmarks.default --ablate` plays every variant in a process of its own. There,
constants and functions of OneBit are replaced before anything is compiled. Compiled code is kept by
the text of the sources, which a variant does not change: so each process has its own cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import onebit as ob
from benchmarks.default import sets
from benchmarks.default.tables import percent, table
from onebit.algorithms import onebit as algorithm
from onebit.algorithms.onebit import (
    bayes,
    columns,
    dense,
    drift,
    experts,
    exploring,
    forecasting,
    learning,
    records,
    softmax,
    weighing,
)
from onebit.core.jit import inline, not_inlined, outline

MOST_ROWS = 6_000
RUNS = (
    *(("clean", name) for name in ("20news", "rcv1", "amazon7")),
    *(("clean", name) for name in ("usps", "satimage", "optdigits", "segment")),
    *(("flips40", name) for name in ("20news", "usps", "satimage", "optdigits")),
)


def replace_everywhere(module: Any, name: str, value: Any) -> None:
    """Replace what a module of OneBit defines, also in those that have imported it."""
    original, inside = getattr(module, name), f"{algorithm.__name__}."
    for other, known in list(sys.modules.items()):
        if other.startswith(inside) and getattr(known, name, None) is original:
            setattr(known, name, value)


def constants(module: Any, **values: Any) -> Callable[[], None]:
    def replace() -> None:
        for name, value in values.items():
            replace_everywhere(module, name, value)

    return replace


def without(first: int, last: int, of: str = "") -> Callable[[], None]:
    """No weight for the experts from the first to the last; of: of "sparse" or "dense" rows."""

    def replace() -> None:
        original, evidence = weighing.weigh, records.EVIDENCE
        of_sparse, of_dense = of != "dense", of != "sparse"

        @outline
        def weigh(trust, forecasts, said, right, is_dense):
            not_inlined()
            if (of_dense and is_dense) or (of_sparse and not is_dense):
                for expert in range(first, min(last + 1, len(trust))):
                    trust[expert, evidence] = min(trust[expert, evidence], -1e9)
            original(trust, forecasts, said, right, is_dense)

        replace_everywhere(weighing, "weigh", weigh)

    return replace


def weigh_equally() -> None:
    original, weight = weighing.weigh, records.WEIGHT

    @outline
    def weigh(trust, forecasts, said, right, is_dense):
        not_inlined()
        original(trust, forecasts, said, right, is_dense)
        count = 0
        for expert in range(len(trust)):
            count += not records.is_left_out(trust, expert)
        for expert in range(len(trust)):
            is_left_out = records.is_left_out(trust, expert)
            trust[expert, weight] = 0.0 if is_left_out else 1.0 / count

    replace_everywhere(weighing, "weigh", weigh)


def share_by_own_forecasts() -> None:
    original = softmax.find_change

    @outline
    def find_change(
        scores, variances, mask, said, right, is_known, shrink, floor, noise, change, scratch
    ):
        not_inlined()
        by_own = len(mask) == 0  # False; a constant would have another type
        return original(
            scores, variances, mask, said, right, by_own, shrink, floor, noise, change, scratch
        )

    replace_everywhere(softmax, "find_change", find_change)


def rarities_alike() -> None:
    @inline
    def rarity(total, occurred):
        return 0.4  # about the mean

    replace_everywhere(bayes, "_rarity", rarity)


VARIANTS: dict[str, Callable[[], None]] = {
    "OneBit": lambda: None,
    "no bonus": constants(exploring, BONUS=0.0),
    "no allowance for the bonus": constants(exploring, ALLOWANCE=1e9, LEAST_ALLOWANCE=1e9),
    "scales after 100 answers alone": constants(columns, SCALED_AFTER=(100,)),
    "no width": constants(
        forecasting, WIDTH=0.0, CONTEXT_WIDTH=0.0, LABEL_WIDTH=0.0, CATCHING_UP=0.0
    ),
    "no width of labels that were said less than others": constants(forecasting, CATCHING_UP=0.0),
    "contexts are taken to say something": constants(weighing, HOPE=1e30),
    "no first softmax model": without(0, 0),
    "first softmax model believes all answers": constants(
        experts,
        SPARSE_NOISE=0.0,
        DENSE_NOISE=0.0,
        DENSE_SHRINK=experts.SHRINK[experts.NOISY],
    ),
    "each softmax model shares by its own forecast": share_by_own_forecasts,
    "no second softmax model": without(1, 1),
    "no third softmax model": without(2, 2),
    "no diagonal regression": without(3, 3),
    "no regression with full matrices": constants(dense, FULL_NUMBERS=0),
    "no logistic regressions with features": without(4, 5),
    "no expert without features": without(experts.LAST - 1, experts.LAST - 1),
    "labels share no constant": constants(experts, COMMON_PRIOR=1e-9),
    "no naive Bayes": without(experts.LAST, experts.LAST, of="sparse"),
    "naive Bayes without a head start": constants(experts, HEAD_START=0.0),
    "naive Bayes without unseen features": constants(bayes, UNSEEN=0),
    "naive Bayes: rare features count as others": rarities_alike,
    "naive Bayes: a fixed temperature": constants(bayes, LOWEST=bayes.START, HIGHEST=bayes.START),
    "no models of Fourier features": without(6, 7),
    "only models of Fourier features": without(0, 5, of="dense"),
    "no learning again": constants(learning, AGAIN=0),
    "no calibration": constants(weighing, FLATTEST=1.0, STEEPEST=1.0, FARTHEST=0.0),
    "equal weights": weigh_equally,
    "no drift alarm": constants(drift, FALSE_ALARM=1e-300),
}


def runs_of(names: Sequence[str]) -> list[tuple[str, str]]:
    return [(condition, name) for condition, name in RUNS if name in names]


def play(variant: str, orders: int, names: Sequence[str]) -> list[float]:
    """Errors of the variant in each of the runs, means over the orders. Replaces code."""
    from benchmarks.default.__main__ import channel_of

    VARIANTS[variant]()
    errors = []
    for condition, name in runs_of(names):
        labels, ends = sets.load(name).labels, []
        for order in range(orders):
            rows = sets.rows_of(name, "raw", order, MOST_ROWS)
            learner = ob.OneBit(labels, seed=order)
            trace = ob.simulate(learner, rows.X, rows.y, channel=channel_of(condition, rows.y))
            ends.append(trace.error[-1])
        errors.append(float(np.mean(ends)))
    return errors


def ablate(orders: int, names: Sequence[str], say: Callable[[str], None]) -> str:
    """A table of all variants, on those of the sets that RUNS has."""
    lines = []
    for variant in VARIANTS:
        with tempfile.TemporaryDirectory(prefix="onebit-ablation-") as cache:
            run = subprocess.run(
                [sys.executable, "-m", "benchmarks.default.ablation", variant, str(orders), *names],
                env={**os.environ, "ONEBIT_CACHE": cache},
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
        errors = json.loads(run.stdout)
        say(f"{variant}: {' '.join(map(percent, errors))}")
        lines.append([variant, *map(percent, errors)])
    head = [
        name if condition == "clean" else f"{name}, {condition}"
        for condition, name in runs_of(names)
    ]
    return table(["", *head], lines)


if __name__ == "__main__":
    print(json.dumps(play(sys.argv[1], int(sys.argv[2]), sys.argv[3:])))
