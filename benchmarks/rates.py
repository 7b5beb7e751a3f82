"""Rates of flipped feedback: what is published, NREst in both readings, and ours, on the same logs.

The log is the paper's: 50,000 answers that RCNBF heard after its first 100,000 rounds, on rows of
length 1 drawn with replacement. CPU time, BLAS on one thread. Prints tables in markdown.
"""

from __future__ import annotations

import os

os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # before numpy is loaded

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import onebit as ob
from onebit.feedback import noise
from onebit.feedback.noise.nrest import _BestEpoch, _Network

BEFORE, ANSWERS, GAMMA = 100_000, 50_000, 0.05
RATES = [(0.0, 0.0), (0.15, 0.15), (0.25, 0.25), (0.2, 0.4), (0.4, 0.2), (0.4, 0.4)]


class Data(NamedTuple):
    name: str  # in the paper
    units: tuple[int, ...]  # of the paper's network
    published: list[tuple[float, float]]  # Table 1


DATA = {
    "optdigits": Data(
        "MNIST (8 x 8)",
        (128, 128),
        [
            (0.063, 0.029),
            (0.172, 0.147),
            (0.248, 0.264),
            (0.211, 0.439),
            (0.4, 0.26),
            (0.403, 0.508),
        ],
    ),
    "usps": Data(
        "USPS",
        (32, 256, 32),
        [
            (0.017, 0.0),
            (0.181, 0.153),
            (0.258, 0.257),
            (0.194, 0.419),
            (0.393, 0.229),
            (0.402, 0.515),
        ],
    ),
    "fashion_cnn100": Data(
        "Fashion-MNIST",
        (32, 128, 32),
        [
            (0.09, 0.004),
            (0.189, 0.14),
            (0.264, 0.259),
            (0.215, 0.393),
            (0.404, 0.222),
            (0.397, 0.502),
        ],
    ),
}
READINGS = {
    "NREst, feedback": ("feedback", 89.0),
    "NREst, class": ("class", 89.0),
    "NREst, class, 97%": ("class", 97.0),
}


def make_log(X: np.ndarray, y: np.ndarray, rho: tuple[float, float], seed: int) -> noise.Log:
    """What RCNBF, which knows the rates, says and hears."""
    rng = np.random.default_rng(seed)
    labels = int(y.max()) + 1
    learner = ob.RCNBF(labels, gamma=GAMMA, rho0=rho[0], rho1=rho[1], seed=seed)
    rows = rng.integers(len(y), size=BEFORE)
    ob.simulate(learner, X[rows], y[rows], channel=[ob.Flip(*rho)])
    pairs = []
    for row, u in zip(rng.integers(len(y), size=ANSWERS), rng.random(ANSWERS), strict=True):
        d = learner.decide(X[row])
        right = bool(u >= rho[1] if d.label == y[row] else u < rho[0])
        learner.learn(d, right=right)
        pairs.append((d, right))
    return noise.Log.of(pairs)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    begin = time.process_time()
    return work(), time.process_time() - begin


def nrest(log: noise.Log, units: tuple[int, ...], seed: int) -> tuple[dict[str, Any], float]:
    """One network, which takes all the time, read in every way."""
    from sklearn.neural_network import MLPClassifier

    network = MLPClassifier(units, batch_size=128, random_state=seed)
    rng = np.random.default_rng(seed)
    trained, seconds = timed(lambda: _Network(log, "one-hot", _BestEpoch(network, seed), rng))
    found = {
        name: trained.rates(anchor, percentile, "mean", 1, rng)[0]
        for name, (anchor, percentile) in READINGS.items()
    }
    return found, seconds


def ours(log: noise.Log) -> tuple[dict[str, Any], float]:
    rates, seconds = timed(lambda: noise.estimate_rates(log))
    return {"levels": (rates.rho0, rates.rho1)}, seconds


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rates", description=__doc__)
    parser.add_argument("--data", nargs="*", default=list(DATA), choices=list(DATA))
    parser.add_argument("--draws", type=int, default=1, help="logs for each pair of rates")
    parser.add_argument("--no-nrest", action="store_true", help="only ours: seconds, not minutes")
    arguments = parser.parse_args()
    methods = [*([] if arguments.no_nrest else READINGS), "levels"]
    noise.estimate_rates(make_log(*rows_of("optdigits"), RATES[1], 99))  # compiles
    for key in arguments.data:
        table(key, methods, arguments.draws)


def rows_of(key: str) -> tuple[np.ndarray, np.ndarray]:
    data = ob.datasets.get(key)
    X = np.asarray(data.X, np.float64)
    return X / np.linalg.norm(X, axis=1, keepdims=True), np.asarray(data.y)


def table(key: str, methods: list[str], draws: int) -> None:
    """Estimates of the first draw; errors and seconds over all draws."""
    data, (X, y) = DATA[key], rows_of(key)
    errors: dict[str, list[Any]] = {name: [] for name in ("paper", *methods)}
    seconds: dict[str, list[float]] = {"NREst": [], "levels": []}
    print(f"\n**{data.name}** (`{key}`)\n")
    print(f"| rho0, rho1 | {' | '.join(errors)} |\n|---|{'---|' * len(errors)}")
    for rho, published in zip(RATES, data.published, strict=True):
        first = {"paper": published}
        for seed in range(draws):
            log = make_log(X, y, rho, seed)
            found, took = ours(log)
            seconds["levels"].append(took)
            if len(methods) > 1:
                more, took = nrest(log, data.units, seed)
                seconds["NREst"].append(took)
                found = more | found
            for name, pair in found.items():
                errors[name].append(np.abs(np.subtract(pair, rho)))
            first |= found if seed == 0 else {}
            print(f"{key} {rho}: {found}", file=sys.stderr, flush=True)
        errors["paper"].append(np.abs(np.subtract(published, rho)))
        cells = " | ".join(f"{first[name][0]:.3f}, {first[name][1]:.3f}" for name in errors)
        print(f"| {rho[0]:g}, {rho[1]:g} | {cells} |", flush=True)
    print("| mean error | " + " | ".join(f"{np.mean(e):.4f}" for e in errors.values()) + " |")
    print("| worst error | " + " | ".join(f"{np.max(e):.3f}" for e in errors.values()) + " |")
    took = [seconds["levels" if name == "levels" else "NREst"] for name in methods]
    print("| seconds | - | " + " | ".join(f"{np.mean(s):.2f}" for s in took) + " |", flush=True)


if __name__ == "__main__":
    main()
