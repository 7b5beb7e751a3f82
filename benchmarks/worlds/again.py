"""What rivals do in orders on which their setting was not chosen.

A rival has the setting that turned out best. Where right answers are rare, much of that is luck:
among dozens of settings, one says a good label early in the few orders that choose.
`python -m benchmarks.worlds --again 6` lets the best rival of each stream play six further orders
with that setting, and `OneBit` the same ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.default.contestants import revision
from benchmarks.default.results import Results
from benchmarks.default.tables import table
from benchmarks.worlds.contestants import Contestant
from benchmarks.worlds.streams import Stream
from benchmarks.worlds.tables import ONEBIT, Cell, Reference, geometric_mean, percent, shares_of


class Chosen(NamedTuple):
    """The best rival on the orders that choose, and its setting."""

    learner: str
    setting: str
    share: float  # on these orders


def best_rival(
    cells: Sequence[Cell], known: Reference, players: Sequence[Contestant], orders: int
) -> Chosen | None:
    """None: no rival has played the stream."""
    found = [
        Chosen(player.name, setting, share)
        for player in players
        if player.name != ONEBIT
        for (_, learner), settings in shares_of(cells, [known], orders).items()
        if learner == player.name
        for setting, share in settings.items()
    ]
    return max(found, key=lambda chosen: chosen.share, default=None)


def plays(
    results: Results[Cell], player: Contestant, setting: str, known: Reference, orders: range
) -> Iterator[float]:
    """The shares of right answers in these orders; what is missing is played."""
    stream: Stream = known.stream
    code = revision() if player.name == ONEBIT else ""
    for order in orders:
        played = json.loads(setting), order, known.drawn[order], code
        cell = Cell(stream.name, player.name, *played, share=0.0)
        kept = {kept.key: kept.share for kept in results.cells()}
        if cell.key not in kept:
            [(_, share)] = player.play([cell.setting], stream, stream.load(order), order)
            results.add(cell._replace(share=share))
            kept[cell.key] = share
        yield kept[cell.key]


def with_error(shares: Sequence[float]) -> str:
    """The mean, and its standard error."""
    error = np.std(shares, ddof=1) / np.sqrt(len(shares)) if len(shares) > 1 else np.nan
    return f"{percent(float(np.mean(shares)))} ± {100 * error:.2g}"


def again_table(
    cells: Sequence[Cell], results: Results[Cell], known: Sequence[Reference],
    players: Sequence[Contestant], orders: int, further: int,
) -> str:  # fmt: skip
    """known: of the orders that choose, and of the further ones."""
    rows, ratios = [], []
    by_name = {player.name: player for player in players}
    for reference in known:
        chosen = best_rival(cells, reference, players, orders)
        if chosen is None:
            continue
        fresh = range(orders, orders + further)
        rival, own = (
            list(plays(results, by_name[name], setting, reference, fresh))
            for name, setting in ((chosen.learner, chosen.setting), (ONEBIT, "{}"))
        )
        ratios.append(float(np.mean(own) / np.mean(rival)))
        head = [reference.stream.name, reference.stream.group, chosen.learner]
        shown = [percent(chosen.share), with_error(rival), with_error(own), f"{ratios[-1]:.3f}"]
        rows.append([*head, f"`{chosen.setting}`", *shown])
    rows.append(["geometric mean", *[""] * 6, geometric_mean(ratios)])
    columns = ["", "group", "rival", "setting", "where it was chosen", "again", ONEBIT, "ratio"]
    return table(columns, rows)
