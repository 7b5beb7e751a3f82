"""Measure the share of right answers of `ob.OneBit`, untuned, against tuned rivals.

    python -m benchmarks.worlds                              # all streams, all contestants
    python -m benchmarks.worlds --streams yeast rare_0.01_2  # some streams
    python -m benchmarks.worlds --learners OneBit            # only what changed; the rest is kept
    python -m benchmarks.worlds --before 962ae8b             # also OneBit of that revision
    python -m benchmarks.worlds --sets                       # also sets with one right label
    python -m benchmarks.worlds --ablate --orders 2          # what each part of OneBit is worth
    python -m benchmarks.worlds --orders 3 --again 6         # the settings chosen, in other orders

Every run is written at once to the folder of results; a second call plays only what is missing.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.against import source_of
from benchmarks.default.contestants import Setting, revision
from benchmarks.default.results import Results
from benchmarks.worlds.ablation import ablate
from benchmarks.worlds.again import again_table
from benchmarks.worlds.before import Before
from benchmarks.worlds.contestants import CONTESTANTS, FINALISTS, Contestant
from benchmarks.worlds.exclusive import SETS
from benchmarks.worlds.streams import STREAMS, Stream, World, best_fixed, ceiling
from benchmarks.worlds.tables import BEFORE, ONEBIT, Cell, Reference, report


def say(text: str) -> None:
    print(f"[{time.perf_counter() - STARTED:6.1f} s] {text}", file=sys.stderr, flush=True)


def code_of(contestant: Contestant, before: str) -> str:
    """The revision of its code; "" for contestants whose code is settled."""
    return {ONEBIT: revision(), BEFORE: before}.get(contestant.name, "")


def drawn_as(world: World) -> str:
    """A digest of what is right: a stream that is drawn otherwise is played again."""
    return f"{zlib.crc32(world.Y.tobytes()):08x}"


def settings_to_play(
    results: Results[Cell], contestant: Contestant, stream: Stream, world: World, order: int
) -> list[Setting]:
    """All settings in order 0, and the best of these in the other orders."""
    settings = list(contestant.settings(stream, world))
    if order == 0 or len(settings) <= FINALISTS:
        return settings
    first = [
        cell
        for cell in results.cells()
        if (cell.stream, cell.learner, cell.order) == (stream.name, contestant.name, 0)
        and cell.setting in settings
    ]
    first.sort(key=lambda cell: -cell.share)
    return [cell.setting for cell in first[:FINALISTS]]


def play_missing(
    results: Results[Cell],
    contestant: Contestant,
    stream: Stream,
    world: World,
    order: int,
    before: str = "",
) -> None:
    """Play the settings of a contestant that have no cell yet."""
    head, code = (stream.name, contestant.name), code_of(contestant, before)
    settings = settings_to_play(results, contestant, stream, world, order)
    cells = [Cell(*head, setting, order, drawn_as(world), code, 0.0) for setting in settings]
    missing = [cell.setting for cell in cells if cell not in results]
    if not missing:
        return
    begin, best = time.perf_counter(), 0.0
    for setting, share in contestant.play(missing, stream, world, order):
        results.add(Cell(*head, setting, order, drawn_as(world), code, share))
        best = max(best, share)
    say(
        f"{stream.name}, order {order}, {contestant.name}: {best:.2%} right, best of "
        f"{len(missing)} in {time.perf_counter() - begin:.1f} s"
    )


def references(stream: Stream, orders: int) -> Reference:
    """What is known of a stream without playing it."""
    worlds = [stream.load(order) for order in range(orders)]
    return Reference(
        stream,
        {order: drawn_as(world) for order, world in enumerate(worlds)},
        float(np.mean([best_fixed(world.Y) for world in worlds])),
        float(np.mean([ceiling(world.Y) for world in worlds])),
    )


@contextlib.contextmanager
def players_of(learners: Sequence[str], before: str) -> Iterator[list[Contestant]]:
    """The learners of these names, and OneBit of the revision before, if one is named."""
    players = [CONTESTANTS[learner] for learner in learners]
    if not before:
        yield players
        return
    with source_of(before) as source, contextlib.closing(Before(source)) as earlier:
        yield [*players, Contestant(BEFORE, earlier.play, lambda stream, world: ({},))]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.worlds",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    every, learners = STREAMS | SETS, list(CONTESTANTS)
    parser.add_argument("--streams", nargs="+", choices=list(every), metavar="STREAM")
    parser.add_argument("--sets", action="store_true", help="also sets with one right label")
    parser.add_argument("--learners", nargs="+", choices=learners, default=learners)
    parser.add_argument("--before", default="", metavar="REVISION", help="also OneBit as it was")
    parser.add_argument("--orders", type=int, default=5, help="orders of the rounds: 0, 1, ...")
    parser.add_argument("--results", type=Path, default=Path("docs/results/worlds"))
    parser.add_argument("--table", action="store_true", help="play nothing; only write the table")
    parser.add_argument("--ablate", action="store_true", help="play variants of OneBit, no rivals")
    parser.add_argument(
        "--again", type=int, default=0, help="further orders for the settings that were best"
    )
    parser.add_argument("--list", action="store_true", help="only print the names of the streams")
    arguments = parser.parse_args()
    names = arguments.streams or list(every if arguments.sets else STREAMS)
    if arguments.list:
        print(*names, sep="\n")
        return
    if arguments.ablate:
        print(ablate(arguments.orders, names, say))
        return
    results, before = Results(arguments.results, Cell), arguments.before
    known = []
    with players_of(arguments.learners, before) as players:
        for name in names:
            try:
                known.append(references(every[name], arguments.orders + arguments.again))
                for order in range(arguments.orders if not arguments.table else 0):
                    world = every[name].load(order)
                    for player in players:
                        play_missing(results, player, every[name], world, order, before)
            except FileNotFoundError as error:
                say(f"{name} is left out: {error}")
    cells = [cell for cell in results.cells() if cell.revision in ("", before, revision())]
    text = report(cells, known, [BEFORE, *CONTESTANTS], arguments.orders)
    (arguments.results / "table.md").write_text(text)
    print(text)
    if arguments.again:
        further = Results(arguments.results / "again", Cell)
        contestants = [CONTESTANTS[learner] for learner in arguments.learners]
        text = again_table(cells, further, known, contestants, arguments.orders, arguments.again)
        (arguments.results / "again.md").write_text(text)
        print(text)


STARTED = time.perf_counter()

if __name__ == "__main__":
    main()
