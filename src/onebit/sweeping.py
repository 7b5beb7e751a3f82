"""sweep: many runs over the same rows, in lockstep."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple

import numpy as np

from onebit.channels import Step
from onebit.learner import Learner
from onebit.simulation import Trace, simulate


class Run(NamedTuple):
    """What one learner of a sweep leaves."""

    settings: dict[str, Any]  # of the learner, its seed among them
    trace: Trace
    test_error: float  # of the frozen greedy rule on the test rows; not a number without them


def sweep(
    learner: type[Learner] | Sequence[Learner],
    X: Any,
    y: Any = None,
    *,
    epochs: int = 1,
    order: Literal["given", "shuffled"] | Sequence[int] | np.ndarray = "given",
    checkpoints: Sequence[int] | None = None,
    channel: Sequence[Step] = (),
    test: tuple[Any, Any] | None = None,
    threads: int | None = None,
    progress: Callable[[int], None] | None = None,
    **settings: Any,
) -> list[Run]:
    """Run many learners over the same rows, as `simulate` would each of them, bit for bit.

    learner: a class, with its settings as keywords; each that is a list (or range, tuple, array)
    is swept, and all combinations run: sweep(Banditron, X, y, labels=9, gamma=[.01, .1],
    seed=range(10)) makes 20. Or a list of learners, which stay as they are.

    test: rows and labels (X, y) on which each learner's greedy rule is judged at the end. threads:
    as many as there are cores unless given. progress: called with the number of rounds done, over
    all runs. The rest is as in `simulate`.
    """
    learners = list(_all_of(learner, settings) if isinstance(learner, type) else learner)

    def run(one: Learner) -> Run:
        mine = one.copy()
        trace = simulate(
            mine, X, y, epochs=epochs, order=order, checkpoints=checkpoints, channel=channel
        )
        error = np.nan
        if test is not None:
            error = float(np.mean(mine.predict(test[0]) != np.asarray(test[1])))
        if progress:
            progress(int(trace.rounds[-1]))
        return Run({**one.settings, "seed": one.seed}, trace, error)

    with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        return list(pool.map(run, learners))


def _all_of(learner: type[Learner], settings: Mapping[str, Any]) -> Iterable[Learner]:
    """A learner for each combination of the settings that are lists."""
    several = {
        name: list(value)
        for name, value in settings.items()
        if name != "labels"
        and isinstance(value, Sequence | np.ndarray)
        and not isinstance(value, str)
    }
    for values in itertools.product(*several.values()):
        yield learner(**{**settings, **dict(zip(several, values, strict=True))})
