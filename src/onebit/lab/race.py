"""A race: several learners on the same streams, several times."""

from __future__ import annotations

import functools
import inspect
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from onebit.datasets.matrices import csr
from onebit.lab import bounds
from onebit.lab.simulation import Trace, check_points, simulate
from onebit.lab.streams import LabelledStream, have_length_1, streams
from onebit.learner.learner import Learner
from onebit.pages.race import BEST_FIXED, BEST_OF_EACH, COMMONEST, Bound, Line, Panel
from onebit.registry.recipes import Recipe, settings_text

# Data sets with known good weights to compare with, and what these weights are.
COMPARED = {"synsep": "key words", "synnonsep": "key words"}


# What inputs="auto" does.
SCALING = (
    "Rows are scaled for every learner: numbers to mean 0 and deviation 1, as learned so far, and "
    "rows to length 1 (inputs=auto). NAME:inputs=raw takes rows as they are."
)


class TimedTrace(NamedTuple):
    """The run of one learner over one stream."""

    trace: Trace
    rounds_per_second: float


def race(
    data: Sequence[str],
    recipes: Sequence[Recipe],
    *,
    rounds: int | None = None,
    repeats: int,
    seed: int = 0,
    columns: Mapping[str, Any] | None = None,
    prepare: Sequence[str] = (),
    prove: bool = False,
    progress: Callable[[str, int, int], None] = lambda data, done, total: None,
) -> list[Panel]:
    """Run a learner of every recipe on every stream, on all cores.

    Beside them stands what always saying the commonest label would have come to. Where several
    labels may be right, learners that need the true label sit out. Learners that take
    rows as they are get inputs="auto" on a table, unless its rows have length 1, are prepared by
    steps, or the recipe names `inputs` or comes from a file.

    rounds: of each run; default: every row of a table once, and 100,000 rounds of synthetic data.
    columns: the options of `datasets.read` for files. prepare: steps applied to the rows. prove:
    add the papers' bounds for Banditron and the Perceptron, where a comparator is known. progress:
    called with the name of the data, the rounds done since the last call, and the number of rounds
    on these data in all.
    """
    if prove:
        _check_comparators(data, recipes, prepare)
    stop = threading.Event()

    def run(recipe: Recipe, stream: LabelledStream, repeat: int) -> TimedTrace:
        learner = recipe.make(stream.labels, seed=seed + repeat)
        reported = 0

        def report(done: int) -> None:
            nonlocal reported
            if stop.is_set():
                raise KeyboardInterrupt
            progress(stream.data, done - reported, total)
            reported = done

        before = time.thread_time()
        trace = simulate(
            learner, stream.rows, stream.y, order=stream.simulated_order, progress=report
        )
        return TimedTrace(trace, stream.rounds / max(time.thread_time() - before, 1e-9))

    panels, total = [], 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            for name in data:
                title, about, made = streams(name, rounds, repeats, seed, columns, prepare)
                first = made[0]
                several = first.y.ndim == 2
                playing = [r for r in recipes if not (several and r.learner.full_information)]
                _check_playing(title, playing)
                total = sum(stream.rounds for stream in made) * len(playing)
                progress(name, 0, total)
                is_scaled = first.table is not None and not prepare
                is_scaled = is_scaled and not have_length_1(first.rows)
                suited = [recipe.suited_to(name) for recipe in playing]
                suited = [_scaled(recipe) for recipe in suited] if is_scaled else suited
                learners = [recipe.make(first.labels) for recipe in suited]
                for learner in learners:  # compile here, so that the timing excludes compilation
                    simulate(learner, first.rows, first.y, order=[0])
                jobs = [
                    [pool.submit(run, recipe, stream, i) for i, stream in enumerate(made)]
                    for recipe in suited
                ]
                wait([job for of_recipe in jobs for job in of_recipe], return_when=FIRST_EXCEPTION)
                known = [_known(stream) for stream in made] if prove and name in COMPARED else []
                lines = []
                for recipe, learner, of_recipe in zip(playing, learners, jobs, strict=True):
                    runs = [job.result() for job in of_recipe]
                    bound = _bound(name, learner, known, runs[0].trace.rounds)
                    lines.append(_line(recipe.name, learner, runs, bound))
                lines += _known_afterwards(made)
                size = first.rounds, repeats
                panel = Panel(title, about, *size, lines, first.table, SCALING * is_scaled)
                out = [recipe.name for recipe in recipes if recipe not in playing]
                panels.append(replace(panel, several=several, sat_out=out))
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    return panels


def _check_playing(data: str, playing: Sequence[Recipe]) -> None:
    if not playing:
        raise ValueError(
            f"{data}: several labels may be right in a row, and all of the learners need the one "
            "true label; add one that hears right or wrong"
        )


def _scaled(recipe: Recipe) -> Recipe:
    """The recipe for rows that need scaling. A learner that scales them itself or learns nothing
    needs no setting, and a recipe from a file says how its rows are scaled."""
    learner = recipe.learner
    if learner.scales_itself or not learner.planes or recipe.file:
        return recipe
    return replace(recipe, settings={"inputs": "auto", **recipe.settings})


def _check_comparators(
    data: Sequence[str], recipes: Sequence[Recipe], prepare: Sequence[str]
) -> None:
    """Refuse bounds that cannot be computed before anything runs."""
    if not any(name in COMPARED for name in data):
        raise ValueError(f"bounds need data whose best weights are known: {', '.join(COMPARED)}")
    if prepare:
        raise ValueError(f"bounds are for unprepared rows; leave out {', '.join(prepare)}")
    if not any(recipe.learner.mistake_bound for recipe in recipes):
        proved = [name for name, kind in Learner.registry.items() if kind.mistake_bound]
        raise ValueError(f"bounds are known for {' and '.join(sorted(proved))}; add one of them")


def _known(stream: LabelledStream) -> bounds.Comparator:
    weights: Any = stream.comparator
    rows = stream.rows
    X = csr(rows.values, rows.indices.view(np.int32), rows.indptr, weights.shape[1])
    return bounds.comparator(weights, X, stream.y)


def _bound(
    data: str, learner: Learner, known: Sequence[bounds.Comparator], rounds: np.ndarray
) -> Bound | None:
    """The mean bound over the repeats, if a bound is proved for this learner and its settings."""
    if not known or not {"kernel", "inputs"}.isdisjoint(learner.settings):
        return None
    most_mistakes = _mistake_bound(learner)
    if most_mistakes is None:
        return None
    mistakes = [
        most_mistakes(rounds, norm=comparator.norm, loss=comparator.loss[rounds - 1])
        for comparator in known
    ]
    D = np.mean([2 * comparator.norm**2 for comparator in known])
    L = np.mean([comparator.loss[rounds[-1] - 1] for comparator in known])
    error = (np.mean(mistakes, axis=0) / rounds).tolist()
    return Bound("Kakade et al. 2008", COMPARED[data], float(D), float(L), error)


def _mistake_bound(learner: Learner) -> Callable[..., Any] | None:
    """The bound on a learner's mistakes as a function of rounds, norm and loss, if it has one."""
    if not learner.mistake_bound:
        return None
    function = getattr(bounds, learner.mistake_bound)
    wanted = inspect.signature(function).parameters
    known = {"labels": len(learner.labels), **learner.settings}
    bound = functools.partial(function, **{name: known[name] for name in wanted if name in known})
    try:
        bound(1, norm=1.0)
    except ValueError:  # not proved for these settings, such as gamma above 1/2
        return None
    return bound


def _known_afterwards(made: Sequence[LabelledStream]) -> list[Line]:
    """What saying some labels without learning would have come to: of whole streams it is known
    which."""
    if made[0].y.ndim == 1:
        commonest = [int(np.bincount(stream.truth).argmax()) for stream in made]
        wrong = [s.truth != label for s, label in zip(made, commonest, strict=True)]
        return [_without_learning(COMMONEST, _always(made, commonest), wrong)]
    rights = [stream.truth for stream in made]
    best = [int(right.mean(axis=0).argmax()) for right in rights]
    wrong = [1.0 - right[:, label] for right, label in zip(rights, best, strict=True)]
    least = [1.0 - right.max(axis=1) for right in rights]
    return [
        _without_learning(BEST_FIXED, _always(made, best), wrong),
        _without_learning(BEST_OF_EACH, "nobody can be right more often", least),
    ]


def _always(made: Sequence[LabelledStream], labels: Sequence[int]) -> str:
    said = [str(stream.names[label]) for stream, label in zip(made, labels, strict=True)]
    others = " or others" if len(set(said)) > 3 else ""  # synthetic data are drawn anew
    return f"always {' or '.join([*dict.fromkeys(said)][:3])}{others}"


def _without_learning(name: str, settings: str, wrong: Sequence[np.ndarray]) -> Line:
    """wrong: by repeat, how wrong the label of each round is."""
    rounds = np.array(check_points(len(wrong[0])))
    errors = np.array([np.cumsum(of_rounds)[rounds - 1] / rounds for of_rounds in wrong])
    return Line(
        learner=name,
        settings=settings,
        full_information=True,
        **_spread(rounds, errors),
        greedy_error=float(errors[:, -1].mean()),
        explored=0.0,
        updates=0.0,
    )


def _spread(rounds: np.ndarray, errors: np.ndarray) -> dict[str, Any]:
    """The mean and the spread of errors [repeat, check point], as a line has them."""
    return {
        "rounds": rounds.tolist(),
        "error": errors.mean(axis=0).tolist(),
        "low": errors.min(axis=0).tolist(),
        "high": errors.max(axis=0).tolist(),
        "error_sd": float(errors[:, -1].std(ddof=1)) if len(errors) > 1 else None,
    }


def _line(name: str, learner: Learner, runs: list[TimedTrace], bound: Bound | None) -> Line:
    errors = np.array([run.trace.error for run in runs])
    last = np.array([[counts[-1] for counts in run.trace[1:]] for run in runs])
    rounds = runs[0].trace.rounds
    _, greedy, explored, updates = last.mean(axis=0) / rounds[-1]
    return Line(
        learner=name,
        settings=settings_text(learner.settings),
        full_information=learner.full_information,
        **_spread(rounds, errors),
        greedy_error=float(greedy),
        explored=float(explored),
        updates=float(updates),
        rounds_per_second=float(np.median([run.rounds_per_second for run in runs])),
        bound=bound,
    )
