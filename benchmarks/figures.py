"""The published figures on SynSep and SynNonSep beside ours: `./run figures`.

Played error after 10^6 rounds, mean over topic draws. Published: Kakade, Shalev-Shwartz, Tewari
2008 (KSST08) and Hazan, Kale 2011 (HK11). The bands allow for what the papers leave open: their
figures are of one draw of the topics each, and draws differ.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

import onebit as ob


class Figure(NamedTuple):
    data: str
    learner: type
    settings: dict[str, float]
    published: str
    band: tuple[float, float]  # per cent


FIGURES = [
    Figure("SynSep", ob.Perceptron, {}, "falls as 1/T (KSST08)", (0.0, 0.01)),
    Figure("SynSep", ob.Banditron, {"gamma": 0.014}, "1.91 (HK11)", (1.5, 2.0)),
    Figure("SynSep", ob.PNewtron, {"gamma": 0.01, "beta": 0.01}, "0.89 (HK11)", (0.89, 0.94)),
    Figure("SynNonSep", ob.Perceptron, {}, "10 (KSST08)", (9.6, 10.0)),
    Figure("SynNonSep", ob.Banditron, {"gamma": 0.006}, "13 (KSST08), 11.47 (HK11)", (10.5, 13.6)),
    Figure("SynNonSep", ob.PNewtron, {"gamma": 0.006, "beta": 0.01}, "11.94 (HK11)", (11.2, 13.0)),
]
MAKERS = {"SynSep": ob.datasets.synsep, "SynNonSep": ob.datasets.synnonsep}


def measure(rounds: int, draws: int, seed: int) -> list[list[float]]:
    """Errors in per cent, a list a figure."""
    errors: list[list[float]] = [[] for _ in FIGURES]
    for draw in track(range(draws), "drawing topics", console=Console(stderr=True)):
        data = {name: make(rounds, seed=seed + draw) for name, make in MAKERS.items()}
        for figure, values in zip(FIGURES, errors, strict=True):
            X, y = data[figure.data].X, data[figure.data].y
            learner = figure.learner(9, **figure.settings, seed=seed + draw)
            values.append(100 * ob.simulate(learner, X, y).error[-1])
    return errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1_000_000)
    parser.add_argument("--draws", type=int, default=10, help="draws of the topics")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("data", "learner", "published %", "ours %", "± over draws", "range", "band", ""):
        table.add_column(name, no_wrap=True)
    errors = measure(args.rounds, args.draws, args.seed)
    for figure, values in zip(FIGURES, errors, strict=True):
        settings = "".join(f" {key}={value:g}" for key, value in figure.settings.items())
        mean, (low, high) = np.mean(values), figure.band
        table.add_row(
            figure.data,
            figure.learner.__name__ + settings,
            figure.published,
            f"{mean:.3f}",
            f"{np.std(values, ddof=1) if len(values) > 1 else 0:.3f}",
            f"{min(values):.3f}-{max(values):.3f}",
            f"{low:g}-{high:g}",
            "inside" if low <= mean <= high else "OUTSIDE",
        )
    Console(width=150).print(table)
    print(f"played error after {args.rounds:,} rounds, mean over {args.draws} draws of the topics")


if __name__ == "__main__":
    main()
