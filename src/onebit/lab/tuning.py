"""tune: finds good settings for the user's data, by the mistakes on a first part of the data.

Every candidate learns the same rows from one bit, in lockstep, and is judged by its mistakes while
it learns, as in real use. The remaining rows do not influence the choice; they are used afterwards
to evaluate it. The ranges that are searched are declared with each setting, in `algorithms`.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from onebit import datasets
from onebit._version import __version__
from onebit.core.settings import Range, choice_of, function_or_none, shown, whole
from onebit.datasets.steps import width_of
from onebit.lab.simulation import warn_of_columns
from onebit.lab.streams import encoded, have_length_1
from onebit.lab.sweeping import sweep
from onebit.lab.truth import is_matrix, matrix_of
from onebit.learner.labels import LabelNames, LabelSet, column_of
from onebit.learner.learner import Learner
from onebit.reading.frames import NamedColumns, listed, table_in
from onebit.reading.rows import Rows
from onebit.registry import recipes
from onebit.registry.recipes import Found, Recipe, check_settings, settings_of

MOST_TRIALS = 100_000
# Steps that prepare="auto" tries: for tables in sparse form, and for sparse rows. Learners
# standardise arrays by themselves.
DENSE = (("standardise", "unit_norm", "constant"),)
SPARSE = (("log_counts", "unit_norm"), ("log_counts", "tfidf", "unit_norm"))
_NEAR = 0.05  # of a range, at either end
_WAY = "way of preparation"  # drawn as if it were a setting


class Preparation(NamedTuple):
    """How rows are prepared: by steps beforehand, then by the learner, as its `inputs` says."""

    steps: tuple[str, ...] = ()
    inputs: str = "raw"


class Trial(NamedTuple):
    """The errors of one candidate on the rows used for tuning."""

    learner: type[Learner]
    settings: dict[str, Any]
    error: float  # mean share of rounds whose said label was wrong
    spread: float | None  # standard deviation over the repeats; None: a single run
    is_default: bool
    prepare: tuple[str, ...] = ()


class Evaluation(NamedTuple):
    """The errors on the rows not used for tuning, learned from the start."""

    rows: int
    tuned: float
    default: float  # error of the same learner at its defaults
    tuned_spread: float | None  # standard deviations over the repeats; None: a single run
    default_spread: float | None


class Edge(NamedTuple):
    """A chosen value at the end of the tried range: a better value may lie beyond."""

    setting: str
    value: float
    low: float
    high: float
    beyond: tuple[float, ...]  # values to try next


@dataclass(frozen=True)
class Tuned(Recipe):
    """The best recipe, and how it was found."""

    table: tuple[Trial, ...] = ()  # the best first
    rest: Evaluation | None = None  # None: all rows were used
    edges: tuple[Edge, ...] = ()

    @property
    def error(self) -> float:
        """Mean share of mistakes on the rows used for tuning; the best of many, so optimistic."""
        return self.table[0].error


class Candidate(NamedTuple):
    """A recipe to try, and the recipe that it was made from: settings of the latter are fixed."""

    recipe: Recipe  # with every setting
    given: Recipe
    is_default: bool

    def trial(self, errors: np.ndarray) -> Trial:
        learner, settings, steps = self.recipe.learner, self.recipe.settings, self.recipe.prepare
        error, spread = float(errors.mean()), _spread(errors)
        return Trial(learner, settings, error, spread, self.is_default, steps)


def learners_to_tune() -> list[type[Learner]]:
    """Learners from one bit. Those without settings to search, such as OneBit, play as they are.

    Left out are the learners that `default_recipes` leaves out, and those that learn nothing.
    """
    known = [recipe.learner for recipe in recipes.default_recipes()]
    return [learner for learner in known if learner.planes and not learner.full_information]


def default_rounds(rows: int) -> int:
    """How many rows are for tuning: a fifth, from 1,000 to 20,000, but at most half."""
    return max(min(max(rows // 5, 1000), 20_000, rows // 2), 1)


def tune(
    learner: type[Learner] | str | Sequence[type[Learner] | str],
    X: Any,
    y: Any = None,
    *,
    labels: LabelNames | None = None,
    grid: Mapping[str, Sequence[Any]] | None = None,
    trials: int = 64,
    rounds: int | None = None,
    repeats: int = 3,
    order: Literal["shuffled", "given"] = "shuffled",
    prepare: Sequence[str] | Literal["auto"] = (),
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Tuned:
    """The settings with the fewest mistakes on the first rows.

        tuned = tune(ob.UCWL, X, y)
        tuned.settings, tuned.error, tuned.table, tuned.rest
        tuned.save("tuned.toml")
        learner = tuned.make(labels=["sport", "politics", "tech"], seed=7)

    learner: a class, or several to choose from; "Confidit:width=log" keeps a setting fixed. X, y:
    rows and their true labels (or a matrix, as in `simulate`), or a Dataset. labels: the possible
    labels; default: those found.

    Each learner runs with `trials` settings: its defaults, the settings known to suit a data set of
    this name, and settings drawn evenly from its `ranges`. Those drawn are shared evenly among
    inputs="raw", inputs="unit" (unless all rows have length 1 anyway) and, for arrays and for dicts
    with numbers, inputs="auto". grid: values of settings to try instead, in all combinations; other
    settings have their defaults.

    rounds: how many rows are used, each once per run; default: a fifth, at least 1,000, and at most
    20,000 and half of the rows. order: rows are "shuffled" first, or stay as "given". repeats: runs
    of each candidate with other draws, on the same rows in a new order (unless order="given"); the
    mean is compared. Ties go to the earlier candidate, the defaults first. prepare: steps as in
    `datasets.prepare`; "auto" also tries steps that often help, and `prepare` of the result says
    which were best. progress: called with the rounds done and the total.

    The other rows do not influence the choice. Afterwards the chosen settings and the defaults
    learn these rows from the start: see `rest`.
    """
    repeats = whole("repeats", repeats, least=1, most=1000)
    seed = whole("seed", seed, least=0, most=2**62)
    shuffles = choice_of("order", order, ("shuffled", "given")) == "shuffled"
    function_or_none("progress", progress)
    steps = () if prepare == "auto" else tuple(datasets.Steps(prepare).names)
    data = _data(X, y, labels)
    size = len(data.places)
    if rounds is None:
        rounds = default_rounds(size)
    rounds = whole("rounds", rounds, least=1, most=size)
    course = np.random.default_rng(seed).permutation(size) if shuffles else np.arange(size)

    def prepared(order: np.ndarray, steps: Sequence[str]) -> Rows:
        fresh = datasets.Steps(steps, features=data.columns)
        return encoded(datasets.prepare(_taken(data.rows, order), fresh))

    tried, first_part = [Preparation(steps)], prepared(course[:rounds], steps)
    if not have_length_1(first_part):
        tried.append(Preparation(steps, "unit"))
    if first_part.columns or first_part.numbers is not None:
        tried.append(Preparation(steps, "auto"))
    if prepare == "auto" and not first_part.columns:
        filled = len(first_part.values) / (rounds * (data.columns or math.inf))
        tried += [Preparation(often_good) for often_good in (DENSE if filled >= 0.5 else SPARSE)]
    candidates = candidates_of(learner, grid, trials, data.name, seed, tried)
    report = _reporter(progress, repeats * (len(candidates) * rounds + 2 * (size - rounds)))

    def mistakes(tried: Sequence[Recipe], part: np.ndarray) -> np.ndarray:
        """How many mistakes each recipe makes on these rows, [recipe, repeat]."""
        counts = []
        for repeat in range(repeats):
            if shuffles and repeat:
                order = np.random.default_rng([seed, repeat]).permutation(part)
            else:
                order = part
            y, last = data.places[order], [len(order)]
            found: dict[int, float] = {}
            for steps in dict.fromkeys(recipe.prepare for recipe in tried):
                places = [place for place, recipe in enumerate(tried) if recipe.prepare == steps]
                learners = [tried[place].make(data.labels, seed=seed + repeat) for place in places]
                rows = prepared(order, steps)
                runs = sweep(learners, rows, y, checkpoints=last, progress=report)
                ends = (run.trace.mistakes[-1].item() for run in runs)
                found.update(zip(places, ends, strict=True))
            counts.append([found[place] for place in range(len(tried))])
        return np.array(counts).T

    made = mistakes([candidate.recipe for candidate in candidates], course[:rounds])
    ranked = np.argsort(made.sum(axis=1), kind="stable")  # of equal candidates the first wins
    best = candidates[ranked[0]]
    remaining = None
    if left := size - rounds:
        errors = mistakes([best.recipe, best.given], course[rounds:]) / left
        remaining = Evaluation(left, *errors.mean(axis=1).tolist(), *map(_spread, errors))
    table = tuple(candidates[place].trial(made[place] / rounds) for place in ranked)
    return Tuned(
        best.recipe.learner,
        best.recipe.settings,
        best.recipe.prepare,
        Found(
            data=data.name,
            error=table[0].error,
            rounds=rounds,
            repeats=repeats,
            trials=len(candidates),
            order=order,
            seed=seed,
            onebit=__version__,
        ),
        table,
        remaining,
        tuple(_edges(best, grid or best.recipe.learner.ranges)),
    )


def _spread(errors: np.ndarray) -> float | None:
    return float(errors.std(ddof=1)) if len(errors) > 1 else None


def _reporter(progress: Callable[[int, int], None] | None, total: int) -> Callable[[int], None]:
    """A function that adds up the rounds done by the threads of a sweep."""
    done, lock = 0, threading.Lock()

    def report(rounds: int) -> None:
        nonlocal done
        with lock:
            done += rounds
            if progress:
                progress(done, total)

    return report


class _Data(NamedTuple):
    name: str
    rows: Rows
    columns: int | None  # None: not known
    places: np.ndarray  # of the true labels; or a matrix of which labels are right
    labels: int


def _data(X: Any, y: Any, labels: LabelNames | None) -> _Data:
    name = ""
    if y is None:
        if not hasattr(X, "labels"):
            raise TypeError("tune needs rows and their labels, X and y, or a Dataset")
        if labels is not None:
            raise TypeError("a Dataset has its labels already: leave out labels=")
        name, places, count = X.name, np.asarray(X.y), len(X.labels)
        X = table_in(X)
    elif is_matrix(y):
        places = matrix_of(y)
        count = places.shape[1] if labels is None else len(LabelSet(labels))
        warn_of_columns(X)
    else:
        among = LabelSet(_found(y) if labels is None else labels)
        places, count = among.places(y), len(among)
        warn_of_columns(X)
    X = listed(X)
    rows = encoded(X, gaps=y is None)
    if len(rows.indptr) - 1 != len(places):
        raise ValueError(f"X has {len(rows.indptr) - 1} rows and y {len(places)} labels")
    if not len(places):
        raise ValueError("there are no rows to tune on")
    matrix = X.X if isinstance(X, NamedColumns) else X
    width = width_of(matrix, None, rows.width)
    columns = width.columns if width.is_known and width.columns else None
    return _Data(name, rows, columns, places, count)


def _found(y: Any) -> list[Any]:
    """The distinct labels in y, sorted."""
    try:
        found = np.unique(column_of(y)).tolist()
    except TypeError as error:
        if "not supported" not in str(error):
            raise
        raise TypeError("y must hold labels: all strings or all ints, and no gaps") from None
    if not found:
        raise ValueError("there are no rows to tune on")
    return found


def _taken(rows: Rows, places: np.ndarray) -> Rows:
    """The rows at these places, in this order."""
    lengths = np.diff(rows.indptr)[places]
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    shift = rows.indptr[places] - indptr[:-1]
    source = np.arange(indptr[-1]) + np.repeat(shift, lengths)
    indices = rows.indices[source]
    width = int(indices.max()) + 1 if len(indices) else 0
    numbers = None if rows.numbers is None else _taken(rows.numbers, places)
    return Rows(indices, rows.values[source], indptr, width, rows.columns, numbers, kind=rows.kind)


# The candidates.


def _recipes(given: Any) -> list[Recipe]:
    """The recipe of a learner's class or name, or the recipes of a list of them."""
    if isinstance(given, Sequence) and not isinstance(given, str):
        if not given:
            raise ValueError("there is no learner to tune")
        return [recipe for learner in given for recipe in _recipes(learner)]
    if isinstance(given, str):
        return [recipes.recipe_of(given)]
    if isinstance(given, type) and issubclass(given, Learner):
        return [Recipe(given, {})]
    raise TypeError(f"tune needs a learner's class, such as Banditron, not {shown(given)}")


def _check_grid(grid: Mapping[str, Sequence[Any]], recipes: Sequence[Recipe]) -> None:
    if not isinstance(grid, Mapping):
        raise TypeError(f"grid must be a dict such as {{'gamma': [0.01, 0.1]}}, not {shown(grid)}")
    for name, values in grid.items():
        is_list = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)
        if not is_list or not len(values):
            raise ValueError(f"the grid needs a list of values for {name}, not {shown(values)}")
        if not any(name in settings_of(recipe.learner) for recipe in recipes):
            names = ", ".join(recipe.learner.__name__ for recipe in recipes)
            raise ValueError(f"no setting {name!r} for {names}: leave it out of the grid")
        fixed = next((recipe.name for recipe in recipes if name in recipe.settings), None)
        if fixed:
            raise ValueError(f"{name} is fixed by {fixed!r} and also in the grid: remove either")


def candidates_of(
    learner: Any,
    grid: Mapping[str, Sequence[Any]] | None,
    trials: int,
    data: str,
    seed: int,
    preparations: Sequence[Preparation] = (Preparation(),),
) -> list[Candidate]:
    """Distinct candidates: each learner's defaults, suited settings, and grid or drawn values.

    preparations: the first is that of the defaults. Settings are drawn together with any of them,
    and each combination of a grid is tried with the steps of all.
    """
    trials = whole("trials", trials, least=1, most=MOST_TRIALS)
    recipes = _recipes(learner)
    _check_grid(grid or {}, recipes)
    candidates: dict[Any, Candidate] = {}
    usual = preparations[0]
    for recipe in recipes:
        recipe = replace(recipe, prepare=usual.steps)
        kind, fixed = recipe.learner, recipe.settings
        suited = recipe.suited_to(data.lower())
        settings = [(fixed, usual)] + [(suited.settings, usual)] * (suited is not recipe)
        if grid:
            lists = {name: grid[name] for name in settings_of(kind) if name in grid}
            count = math.prod(len(values) for values in lists.values())
            if count > MOST_TRIALS:
                raise ValueError(f"the grid has {count:,} combinations; at most {MOST_TRIALS:,}")
            settings += [
                ({**fixed, **dict(zip(lists, values, strict=True))}, way)
                for way in preparations
                if way.inputs == "raw"
                for values in itertools.product(*lists.values())
            ]
        else:
            free = {name: tried for name, tried in kind.ranges.items() if name not in fixed}
            ways = {_WAY: tuple(preparations)} if kind.ranges else {}
            for drawn in _drawn({**free, **ways}, max(trials - len(settings), 0), seed):
                way = drawn.pop(_WAY, usual)
                inputs = {"inputs": way.inputs} if way.inputs != "raw" else {}
                settings.append(({**inputs, **fixed, **drawn}, way))
        for given, way in settings:
            tried = Recipe(kind, check_settings(kind, given).settings, way.steps)
            key = (kind, repr(tried.settings), way.steps)
            candidates.setdefault(key, Candidate(tried, recipe, given is fixed))
    return list(candidates.values())


def _drawn(
    ranges: Mapping[str, Range | tuple[Any, ...]], count: int, seed: int
) -> list[dict[str, Any]]:
    """Random settings that cover each range evenly: a Latin hypercube."""
    random = np.random.default_rng(seed)
    columns = []
    for tried in ranges.values():
        shares = (random.permutation(count) + random.random(count)) / max(count, 1)
        if isinstance(tried, Range):
            columns.append([tried.at(share) for share in shares.tolist()])
        else:
            columns.append([tried[int(share * len(tried))] for share in shares.tolist()])
    return [dict(zip(ranges, values, strict=True)) for values in zip(*columns, strict=True)]


def _edges(best: Candidate, searched: Mapping[str, Any]) -> list[Edge]:
    """Chosen values at an end of the tried range, if values beyond are allowed."""
    edges = []
    for name, tried in searched.items():
        value = best.recipe.settings.get(name)
        if name in best.given.settings or type(value) is not float or value <= 0:
            continue
        if isinstance(tried, Range):
            low, high, near = tried.low, tried.high, _NEAR
            share = tried.share(value)
        else:  # the default was tried as well
            low, high, near = float(min(*tried, value)), float(max(*tried, value)), 0.0
            share = 0.5 if low == high else (value - low) / (high - low)
        if near < share < 1 - near:
            continue
        if isinstance(tried, Range) and tried.even:
            steps = [high + step * (high - low) for step in (0.1, 0.3)]
            steps = steps if share > 0.5 else [low + high - step for step in steps]
        else:
            steps = [high * 3, high * 10] if share > 0.5 else [low / 3, low / 10]
        rounded = (float(f"{step:.2g}") for step in steps)
        beyond = tuple(step for step in rounded if _allowed(best.recipe, name, step))
        if beyond:
            edges.append(Edge(name, value, low, high, beyond))
    return edges


def _allowed(recipe: Recipe, name: str, value: float) -> bool:
    try:
        check_settings(recipe.learner, {**recipe.settings, name: value})
    except ValueError:
        return False
    return value > 0
