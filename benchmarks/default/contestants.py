"""The contestants: OneBit, its rivals with their grids, and AROW with true labels."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from scipy import sparse

import onebit as ob
from benchmarks.default.sets import Data, Rows, preparations
from benchmarks.streams import Stream, write_vw_file
from onebit.core.sources import SOURCES

Setting = dict[str, Any]
POINTS = (100, 300, 1_000, 3_000)
FULL_COLUMNS = 256  # learners with full matrices play on dense rows of at most so many columns
PAIRED_COLUMNS = 64  # Vowpal Wabbit gets products of features on dense rows of at most so many
TOGETHER = 8  # settings that run in lockstep: more would need too much memory on text
ONEBIT, TOLD = "OneBit", "OneBit, true labels"
AROW, ADDITIVE = "AROW", "AROW, additive"
REFERENCES = (TOLD, AROW, ADDITIVE)  # they hear the true label of every round


class Run(NamedTuple):
    """Mistakes of one setting at the check points, as shares of the rounds up to there."""

    setting: Setting
    errors: dict[str, float]


class Contestant(NamedTuple):
    name: str
    play: Callable[..., Iterator[Run]]  # (settings, rows, labels, channel, order)
    grid: tuple[Setting, ...] = ({},)  # for clean feedback
    recommended: tuple[Setting, ...] = ()  # for the other conditions
    fits: Callable[[Data], bool] = lambda data: True
    finalists: int = 0  # so many settings that are best on order 0 play the other orders; 0: all

    def settings(self, condition: str, recommended: bool) -> tuple[Setting, ...]:
        return self.grid if condition == "clean" and not recommended else self.recommended

    def prepares(self, data: Data) -> tuple[str, ...]:
        return ("raw",) if self.name in (ONEBIT, TOLD) else preparations(data.kind)


def points_up_to(rounds: int) -> list[int]:
    return [*(point for point in POINTS if point < rounds), rounds]


def errors_at_points(wrong: np.ndarray) -> dict[str, float]:
    """From a list of rounds, true where the label was wrong."""
    mistakes = np.cumsum(wrong)
    points = points_up_to(len(wrong))
    shares = {str(point): float(mistakes[point - 1] / point) for point in points[:-1]}
    return {**shares, "end": float(mistakes[-1] / len(wrong))}


# --- onebit ---------------------------------------------------------------------------------------


def playing(kind: type[ob.Learner]) -> Callable[..., Iterator[Run]]:
    """The function that plays a learner of the library with many settings."""

    def play(
        settings: Sequence[Setting], rows: Rows, labels: int, channel: Sequence[Any], order: int
    ) -> Iterator[Run]:
        points = points_up_to(len(rows.y))
        names = [*map(str, points[:-1]), "end"]
        for first in range(0, len(settings), TOGETHER):
            batch = settings[first : first + TOGETHER]
            learners = [kind(labels, seed=order, **setting) for setting in batch]
            if len(learners) == 1:
                traces = [
                    ob.simulate(*learners, rows.X, rows.y, checkpoints=points, channel=channel)
                ]
            else:
                runs = ob.sweep(
                    learners, rows.X, rows.y, checkpoints=points, channel=channel, threads=1
                )
                traces = [run.trace for run in runs]
            for setting, trace in zip(batch, traces, strict=True):
                yield Run(setting, dict(zip(names, trace.error.tolist(), strict=True)))

    return play


def play_told(
    settings: Sequence[Setting], rows: Rows, labels: int, channel: Sequence[Any], order: int
) -> Iterator[Run]:
    """OneBit, told the true label of every round."""
    for setting in settings:
        learner, wrong = ob.OneBit(labels, seed=order), np.zeros(len(rows.y), bool)
        for i, truth in enumerate(rows.y.tolist()):
            decision = learner.decide(rows.X[i])
            wrong[i] = decision.label != truth
            learner.learn(decision, label=truth)
        yield Run(setting, errors_at_points(wrong))


def grid(**values: Sequence[Any]) -> tuple[Setting, ...]:
    """All combinations."""
    return tuple(
        dict(zip(values, combination, strict=True))
        for combination in itertools.product(*values.values())
    )


@cache
def takes_text() -> bool:
    """Whether OneBit takes a string for a context."""
    try:
        ob.OneBit(labels=2).decide("a text")
    except (TypeError, ValueError):
        return False
    return True


@cache
def revision() -> str:
    """A digest of OneBit's code: its cells are played again when it changes."""
    digest = SOURCES.digest([ob.OneBit.__module__])
    if digest is None:
        raise RuntimeError("the code of OneBit was edited while it ran; start again")
    return digest[:12]


# --- AROW with its second diagonal form -----------------------------------------------------------


@numba.njit
def _additive_arow(indices, values, indptr, y, labels, features, r):
    """AROW with variances s of which 1/s grows by x^2/r; returns the rounds that were wrong."""
    weights = np.zeros((features, labels))
    variances = np.ones((features, labels))
    wrong = np.zeros(len(y), np.bool_)
    for t in range(len(y)):
        scores = np.zeros(labels)
        for i in range(indptr[t], indptr[t + 1]):
            for label in range(labels):
                scores[label] += weights[indices[i], label] * values[i]
        true, rival = y[t], -1
        for label in range(labels):
            if label != true and (rival < 0 or scores[label] > scores[rival]):
                rival = label
        margin = scores[true] - scores[rival]
        wrong[t] = margin < 0.0 or (margin == 0.0 and rival < true)
        if margin >= 1.0:
            continue
        v = 0.0
        for i in range(indptr[t], indptr[t + 1]):
            j, x = indices[i], values[i]
            v += (variances[j, true] + variances[j, rival]) * x * x
        step = (1.0 - margin) / (v + r)
        for i in range(indptr[t], indptr[t + 1]):
            j, x = indices[i], values[i]
            weights[j, true] += step * variances[j, true] * x
            weights[j, rival] -= step * variances[j, rival] * x
            variances[j, true] = 1.0 / (1.0 / variances[j, true] + x * x / r)
            variances[j, rival] = 1.0 / (1.0 / variances[j, rival] + x * x / r)
    return wrong


def play_additive_arow(
    settings: Sequence[Setting], rows: Rows, labels: int, channel: Sequence[Any], order: int
) -> Iterator[Run]:
    X = sparse.csr_matrix(rows.X)
    arrays = X.indices.astype(np.int64), X.data.astype(np.float64), X.indptr.astype(np.int64)
    y = rows.y.astype(np.int64)
    for setting in settings:
        wrong = _additive_arow(*arrays, y, labels, X.shape[1], float(setting["r"]))
        yield Run(setting, errors_at_points(wrong))


# --- Vowpal Wabbit --------------------------------------------------------------------------------

EXPLORATIONS = (
    *("--epsilon 0.02", "--epsilon 0.1 --cb_type dr", "--bag 5 --epsilon 0.02"),
    *("--cover 5 --cb_type dr --epsilon 0.02", "--squarecb --gamma_scale 100"),
    *("--squarecb --gamma_scale 1000", "--regcb --mellowness 0.01", "--regcbopt --mellowness 0.01"),
    *("--softmax --lambda 10", "--softmax --lambda 30"),
)
RATES = (0.03, 0.1, 0.5, 2.0, 8.0)
# The costs of a right and of a wrong label (0 and 1 if not given), and the loss of their model.
LOSSES = ("", "--loss0 -1 --loss1 0", "--loss_function logistic --loss0 -1 --loss1 1")
FINALISTS = 3  # of learners of which a setting takes seconds


def play_vw(
    settings: Sequence[Setting], rows: Rows, labels: int, channel: Sequence[Any], order: int
) -> Iterator[Run]:
    """`--cbify` plays a file of labelled rows as a contextual bandit, with one cost of 0 or 1."""
    import vowpalwabbit

    stream = Stream("rows", labels, sparse.csr_matrix(rows.X), rows.y)
    with tempfile.TemporaryDirectory(prefix="onebit-default-") as folder:
        text, said = Path(folder, "rows.vw"), Path(folder, "said")
        write_vw_file(stream, text)
        for setting in settings:
            workspace = vowpalwabbit.Workspace(
                f"--cbify {labels} --cb_explore_adf {setting['exploration']} -l {setting['rate']} "
                f"{setting['loss']} {setting['pairs']} -b 22 --random_seed {order} --quiet "
                f"-d {text} -p {said}"
            )
            workspace.finish()
            answers = np.loadtxt(said, dtype=float).astype(int) - 1
            if len(answers) != len(rows.y):
                raise RuntimeError(f"Vowpal Wabbit played {len(answers)} of {len(rows.y)} rounds")
            yield Run(setting, errors_at_points(answers != rows.y))


# --- who plays ------------------------------------------------------------------------------------


def _is_narrow(data: Data) -> bool:
    return data.kind == "dense" and data.X.shape[1] <= FULL_COLUMNS


def _is_short(data: Data) -> bool:
    return data.kind == "dense" and data.X.shape[1] <= PAIRED_COLUMNS


def _onebit_fits(data: Data) -> bool:
    return data.kind != "text" or takes_text()


GAP = {"lr": (0.1, 0.3, 1.0, 3.0, 10.0), "scale": (10.0, 100.0, 1000.0), "expo": (0.25, 0.5)}
CONFIDIT = {"eta": (0.03, 0.1, 0.3, 1.0, 3.0), "reg": (0.001, 0.01, 0.1, 1.0)}
R = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)

CONTESTANTS = {
    contestant.name: contestant
    for contestant in (
        Contestant(ONEBIT, playing(ob.OneBit), recommended=({},), fits=_onebit_fits),
        Contestant("Confidit", playing(ob.Confidit), grid(**CONFIDIT), ({"reg": 1.0, "eta": 3.0},)),
        Contestant(
            "Confidit, coordinate",
            playing(ob.Confidit),
            grid(update=("coordinate",), eta=(0.1, 1.0, 10.0), reg=(0.001, 0.01, 0.1, 1.0)),
        ),
        Contestant(
            "Confidit, full",
            playing(ob.Confidit),
            grid(form=("full",), eta=(0.1, 0.3, 1.0, 3.0), reg=(0.1, 1.0)),
            ({"form": "full", "reg": 1.0, "eta": 3.0},),
            _is_narrow,
        ),
        Contestant(
            "UCWL",
            playing(ob.UCWL),
            grid(eta=(0.6, 0.75, 0.9), C=(0.1, 1.0, 10.0), k=(0.0, 0.1, 0.3, 1.0)),
            ({},),
        ),
        Contestant("FastCB", playing(ob.FastCB), grid(**GAP), ({},)),
        Contestant("SquareCB", playing(ob.SquareCB), grid(**GAP)),
        Contestant(
            "Banditron", playing(ob.Banditron), grid(gamma=(0.005, 0.014, 0.05, 0.15, 0.3, 0.5))
        ),
        Contestant(
            "PNewtron",
            playing(ob.PNewtron),
            grid(gamma=(0.01, 0.1), alpha=(1.0, 10.0), beta=(0.01, 0.1), D=(1.0, 10.0, 100.0)),
        ),
        Contestant(
            "Newtron",
            playing(ob.Newtron),
            grid(gamma=(0.01, 0.1), alpha=(1.0, 10.0), beta=(0.1, 1.0), D=(1.0, 10.0, 100.0)),
            fits=_is_narrow,
            finalists=FINALISTS,
        ),
        Contestant("SOBA", playing(ob.SOBA), grid(gamma=(2**-7, 2**-5, 2**-3))),
        Contestant("RCNBF", playing(ob.RCNBF), grid(gamma=(0.01, 0.05, 0.2))),
        Contestant("RCINE", playing(ob.RCINE), grid(gamma=(0.01, 0.05, 0.2), N_s=(5_000,))),
        Contestant(
            "VW",
            play_vw,
            grid(exploration=EXPLORATIONS, rate=RATES, loss=LOSSES, pairs=("",)),
            finalists=FINALISTS,
        ),
        Contestant(
            "VW, pairs of features",
            play_vw,
            grid(exploration=EXPLORATIONS, rate=RATES, loss=LOSSES, pairs=("-q ::",)),
            fits=_is_short,
            finalists=FINALISTS,
        ),
        Contestant(TOLD, play_told, fits=_onebit_fits),
        Contestant(AROW, playing(ob.AROW), grid(r=R)),
        Contestant(ADDITIVE, play_additive_arow, grid(r=R)),
    )
}
