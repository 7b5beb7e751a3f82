"""The contestants: OneBit without settings, and its rivals with their grids."""

from __future__ import annotations

import itertools
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import onebit as ob
from benchmarks.default.contestants import PAIRED_COLUMNS, Setting, grid
from benchmarks.default.sets import standardised
from benchmarks.worlds.streams import Stream, World, drawn, share_right
from benchmarks.worlds.tables import ONEBIT, VW

FINALISTS = 3  # settings that are best in order 0 play the other orders
TOGETHER = 4  # settings between two lines of the file of results

Shares = Iterator[tuple[Setting, float]]


class Contestant(NamedTuple):
    name: str
    play: Callable[[Sequence[Setting], Stream, World, int], Shares]
    settings: Callable[[Stream, World], tuple[Setting, ...]]


# --- onebit ---------------------------------------------------------------------------------------


def playing(kind: type[ob.Learner], **fixed: Any) -> Callable[..., Shares]:
    """The function that plays a learner of the library, and counts expected right answers."""

    def play(settings: Sequence[Setting], stream: Stream, world: World, order: int) -> Shares:
        rounds, labels = world.Y.shape
        for first in range(0, len(settings), TOGETHER):
            batch = settings[first : first + TOGETHER]
            learners = [kind(labels, seed=order, **fixed, **setting) for setting in batch]
            runs = ob.sweep(learners, *world, checkpoints=[rounds], threads=1)
            for setting, run in zip(batch, runs, strict=True):
                yield setting, float(1 - run.trace.mistakes[-1] / rounds)

    return play


# --- Vowpal Wabbit --------------------------------------------------------------------------------

EXPLORATIONS = (
    *("--epsilon 0.02", "--cover 3 --epsilon 0.02", "--regcbopt --mellowness 0.01"),
    *("--regcb --mellowness 0.01", "--squarecb --gamma_scale 10"),
    *("--squarecb --gamma_scale 100", "--squarecb --gamma_scale 1000"),
)
RATES = (0.1, 0.5, 2.0)
COSTS = ("", "--loss0 -1 --loss1 0")  # of a right and of a wrong label; 0 and 1 if not given

# The whole grid takes long. It is played on these streams; on the others, the costs that did better
# there, two rates, and five explorations.
WHOLE_GRID = ("buttons", "buttons_often", "segments", "offers_dicts")
FEWER = (
    *("--epsilon 0.02", "--cover 3 --epsilon 0.02", "--regcbopt --mellowness 0.01"),
    *("--squarecb --gamma_scale 100", "--squarecb --gamma_scale 1000"),
)
FEWER_RATES, FEWER_COSTS = (0.1, 0.5), ("--loss0 -1 --loss1 0",)


def vw_settings(stream: Stream, world: World) -> tuple[Setting, ...]:
    """With and without pairs of words in texts, and of features in dicts and in short rows."""
    is_short = not hasattr(world.X, "shape") or world.X.shape[1] <= PAIRED_COLUMNS
    pairs = ("", "--ngram 2") if stream.kind == "text" else ("", "-q ::") if is_short else ("",)
    if stream.name in WHOLE_GRID:
        return grid(exploration=EXPLORATIONS, rate=RATES, costs=COSTS, pairs=pairs)
    return grid(exploration=FEWER, rate=FEWER_RATES, costs=FEWER_COSTS, pairs=pairs)


def vw_rows(stream: Stream, X: Any) -> Iterator[str]:
    """The features of each round. Names do not start with a digit: such names are not hashed.

    Dense columns are standardised by the whole stream, which no online learner knows.
    """
    if stream.kind == "text":
        return (" ".join("w" + word for word in re.findall(r"\w+", text.lower())) for text in X)
    if stream.kind == "dict":
        return (
            " ".join(
                f"{name}={value}" if isinstance(value, str) else f"{name}:{value:.6g}"
                for name, value in context.items()
            )
            for context in X
        )
    rows = sparse.csr_matrix(standardised(X) if stream.kind == "dense" else X)
    return (
        " ".join(
            f"c{j}:{v:.6g}"
            for j, v in zip(rows.indices[begin:end], rows.data[begin:end], strict=True)
        )
        for begin, end in itertools.pairwise(rows.indptr)
    )


def play_vw(settings: Sequence[Setting], stream: Stream, world: World, order: int) -> Shares:
    """`--cbify_cs` plays a file, whose lines have the cost of each label, as a bandit."""
    import vowpalwabbit

    right = drawn(world.Y, order)
    with tempfile.TemporaryDirectory(prefix="onebit-worlds-") as folder:
        text, said = Path(folder, "rows.vw"), Path(folder, "said")
        with text.open("w") as file:
            for bits, features in zip(right.tolist(), vw_rows(stream, world.X), strict=True):
                costs = " ".join(f"{k + 1}:{1 - bit}" for k, bit in enumerate(bits))
                file.write(f"{costs} | {features}\n")
        for setting in settings:
            workspace = vowpalwabbit.Workspace(
                f"--cbify {world.Y.shape[1]} --cbify_cs --cb_explore_adf {setting['exploration']} "
                f"-l {setting['rate']} {setting['costs']} {setting['pairs']} -b 22 "
                f"--random_seed {order} --quiet -d {text} -p {said}"
            )
            workspace.finish()
            answers = np.loadtxt(said, dtype=float).astype(int) - 1
            if len(answers) != len(right):
                raise RuntimeError(f"Vowpal Wabbit played {len(answers)} of {len(right)} rounds")
            yield setting, share_right(world.Y, answers)


# --- who plays ------------------------------------------------------------------------------------


def rival(kind: type[ob.Learner], **values: Sequence[Any]) -> Contestant:
    """A learner that scales its inputs by itself, with a grid."""
    settings = grid(**values)
    return Contestant(kind.__name__, playing(kind, inputs="auto"), lambda stream, world: settings)


GAP = {"lr": (0.1, 0.3, 1.0), "scale": (10.0, 100.0, 1_000.0, 10_000.0)}

CONTESTANTS = {
    contestant.name: contestant
    for contestant in (
        Contestant(ONEBIT, playing(ob.OneBit), lambda stream, world: ({},)),
        rival(ob.Confidit, eta=(0.03, 0.1, 0.3, 1.0), reg=(0.1, 1.0, 4.0)),
        rival(ob.FastCB, **GAP),
        rival(ob.SquareCB, **GAP),
        rival(ob.UCWL, C=(0.1, 1.0, 10.0), k=(0.03, 0.1, 0.3, 1.0)),
        rival(ob.LinearThompson, c=(0.01, 0.03, 0.1, 0.3), reg=(0.1, 1.0)),
        Contestant(VW, play_vw, vw_settings),
    )
}
