"""Measure the mistakes of `ob.OneBit`, untuned, against tuned rivals and AROW with true labels.

    python -m benchmarks.default                                  # clean feedback, all sets
    python -m benchmarks.default --conditions flips15 --sets usps --learners OneBit UCWL
    python -m benchmarks.default --aside                          # the sets that were put aside
    python -m benchmarks.default --ablate                         # OneBit without its ingredients

Every run is written at once to the folder of results; a second call plays only what is missing.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import onebit as ob
from benchmarks.default import sets, tables
from benchmarks.default.ablation import ablate
from benchmarks.default.contestants import CONTESTANTS, ONEBIT, TOLD, Contestant, Setting, revision
from benchmarks.default.results import Cell, Results

SHORTEST = 3_000  # rows: shorter sets are played with clean feedback only
DELAY = 1_000


def channel_of(condition: str, y: np.ndarray) -> list[Any]:
    """The steps of a condition; a swap is of the two most frequent labels."""
    if condition == "swap":
        first, second = np.argsort(-np.bincount(y), kind="stable")[:2]
        return [ob.Swap(len(y) // 2, int(first), int(second))]
    return {
        "clean": [],
        "flips15": [ob.Flip(0.15, 0.15)],
        "flips40": [ob.Flip(0.4, 0.4)],
        "silence70": [ob.Silence(0.7)],
        "delay1000": [ob.Delay(DELAY)],
    }[condition]


def say(text: str) -> None:
    print(f"[{time.perf_counter() - STARTED:6.1f} s] {text}", file=sys.stderr, flush=True)


def settings_to_play(
    results: Results[Cell],
    name: str,
    contestant: Contestant,
    prepare: str,
    settings: Sequence[Setting],
    order: int,
    rows: int,
) -> Sequence[Setting]:
    """The settings that play an order of the rows: all, or the best of order 0."""
    if order == 0 or not 0 < contestant.finalists < len(settings):
        return settings
    first = [
        cell
        for cell in results.cells()
        if (cell.data, cell.learner, cell.prepare) == (name, contestant.name, prepare)
        and (cell.condition, cell.order, cell.rows) == ("clean", 0, rows)
    ]
    first.sort(key=lambda cell: cell.errors["end"])
    return [cell.setting for cell in first[: contestant.finalists]]


def play_missing(
    results: Results[Cell],
    name: str,
    contestant: Contestant,
    settings: Sequence[Setting],
    condition: str,
    order: int,
    most: int,
) -> None:
    """Play the settings of a contestant that have no cell yet."""
    data = sets.load(name)
    rows = min(most, len(data.y))
    code = revision() if contestant.name in (ONEBIT, TOLD) else ""
    for prepare in contestant.prepares(data):
        wanted = {
            cell.key: cell
            for setting in settings_to_play(
                results, name, contestant, prepare, settings, order, rows
            )
            for cell in [
                Cell(name, contestant.name, prepare, setting, condition, order, rows, code, {})
            ]
            if cell not in results
        }
        if not wanted:
            continue
        played = sets.rows_of(name, prepare, order, most)
        channel = channel_of(condition, played.y)
        begin, best = time.perf_counter(), 1.0
        missing = [cell.setting for cell in wanted.values()]
        for run in contestant.play(missing, played, data.labels, channel, order):
            cell = Cell(
                *(name, contestant.name, prepare, run.setting, condition, order, rows, code),
                run.errors,
            )
            results.add(cell)
            best = min(best, run.errors["end"])
        say(
            f"{name}, {condition}, order {order}, {contestant.name}, {prepare}: {best:.2%}, "
            f"best of {len(wanted)} in {time.perf_counter() - begin:.1f} s"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.default",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    usual = [name for name in sets.LOADERS if name not in sets.ASIDE]
    conditions = ["clean", "flips15", "flips40", "silence70", "delay1000", "swap"]
    parser.add_argument("--sets", nargs="+", choices=usual, default=usual, metavar="SET")
    parser.add_argument("--aside", action="store_true", help="only the sets that were put aside")
    parser.add_argument("--conditions", nargs="+", choices=conditions, default=["clean"])
    parser.add_argument(
        "--learners", nargs="+", choices=list(CONTESTANTS), default=list(CONTESTANTS)
    )
    parser.add_argument("--orders", type=int, default=2, help="orders of the rows: 0, 1, ...")
    parser.add_argument("--rows", type=int, default=10_000, help="at most so many rows of a set")
    parser.add_argument("--results", type=Path, default=Path("docs/results/default"))
    parser.add_argument(
        "--recommended", action="store_true", help="recommended settings with clean feedback too"
    )
    parser.add_argument("--table", action="store_true", help="play nothing; only write the table")
    parser.add_argument("--ablate", action="store_true", help="only OneBit, part by part")
    arguments = parser.parse_args()
    if arguments.ablate:
        report = ablate(arguments.orders, arguments.sets, say)
        arguments.results.mkdir(parents=True, exist_ok=True)
        (arguments.results / "ablation.md").write_text(report)
        print(report)
        return
    names = list(sets.ASIDE) if arguments.aside else arguments.sets

    results = Results(arguments.results, Cell)
    for condition in arguments.conditions if not arguments.table else ():
        for name in names:
            try:
                data = sets.load(name)
            except FileNotFoundError as error:
                say(f"{name} is left out: {error}")
                continue
            if condition != "clean" and len(data.y) < SHORTEST:
                say(f"{name} has fewer than {SHORTEST} rows: only clean feedback")
                continue
            for contestant in (CONTESTANTS[learner] for learner in arguments.learners):
                if not contestant.fits(data):
                    say(f"{name}: {contestant.name} does not take such rows; left out")
                    continue
                settings = contestant.settings(condition, arguments.recommended)
                for order in range(arguments.orders):
                    try:
                        play_missing(
                            *(results, name, contestant, settings),
                            *(condition, order, arguments.rows),
                        )
                    except Exception as error:  # the other cells are still worth having
                        say(f"{name}, {condition}, {contestant.name} FAILED: {error!r}")
            sets.forget()
    cells = [
        cell for cell in results.cells() if cell.data in names and cell.revision in ("", revision())
    ]
    report = tables.report(cells, arguments.rows, arguments.orders)
    (arguments.results / "table.md").write_text(report)
    print(report)


STARTED = time.perf_counter()

if __name__ == "__main__":
    main()
