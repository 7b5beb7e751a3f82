"""Halving: Kakade, Shalev-Shwartz, Tewari, "Efficient bandit algorithms for online multiclass
prediction", ICML 2008, Section 4.

Each hypothesis of a finite list H names a label for a context. The hypotheses still alive vote, and
the label with the most votes is said (the lowest of several). If it is wrong, all hypotheses that
voted for it are removed: at least one in K of those alive. So if some hypothesis is always right,
there are at most K ln |H| mistakes.

The paper does not say what to do if every hypothesis makes mistakes. Here, all are restored when
the last would be removed, as in iterated halving with two labels: if the best hypothesis makes m
mistakes, there are at most m (K ln |H| + 1) + K ln |H|.

With `project`, a context x of d features is replaced by P x / sqrt(d'), where the entries of the d'
by d matrix P are drawn uniformly from (-1, 1). The table is empty.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from onebit.core.callback import Callback, call_back
from onebit.core.choosing import greedy
from onebit.core.draws import uniforms
from onebit.core.jit import inline
from onebit.core.lanes import aligned_zeros, at, lanes_for, state_type
from onebit.core.rounds import Row
from onebit.core.settings import named_by_storage, or_none, setting, whole
from onebit.core.sums import dot
from onebit.learner.learner import Learner, precision
from onebit.storage.base import Arrays, Storage

_PROJECTION = 2**40  # the first stream of the projection's draws

Hypothesis = np.ndarray | Callable[[np.ndarray], Any]


class Committee(NamedTuple):
    """The hypotheses for compiled code, and scratch space."""

    alive: Any  # [hypothesis] 1, or 0 if it was removed
    votes: Any  # [hypothesis] the label it names for the last context; -1: no label
    planes: Any  # [hypothesis] the plane of its weights; -1: it is a function
    weights: Any  # a state with the table [feature, plane, label]
    named: Any  # how many labels the weights have
    projection: Any  # [feature, dimension]
    x: Any  # the context that the hypotheses are given
    indices: Any  # 0, 1, 2, ...: those of x
    functions: Any  # address of the callback in which functions vote; 0: there are none
    room: Any  # features


@inline
def _vote(held, row, scores):
    """Let hypotheses with weights vote for the label of the highest score."""
    for h in range(len(held.alive)):
        if held.alive[h] and held.planes[h] >= 0:
            dot(held.weights, row, held.planes[h], scores)
            best = 0
            for label in range(1, held.named):
                if scores[label] > scores[best]:
                    best = label
            held.votes[h] = best


@inline
def _project(held, row):
    held.x[:] = 0.0
    for i in range(row.start, row.stop):
        line, value = held.projection[at(row.indices, i)], at(row.values, i)
        for n in range(len(line)):
            held.x[n] += line[n] * value


class GivenHypotheses(NamedTuple):
    """The hypotheses of the user."""

    linear: np.ndarray  # [hypothesis] 1 if it has weights, 0 if it is a function
    weights: np.ndarray  # [hypothesis with weights, label, feature]
    functions: list[Callable[[np.ndarray], Any]]


def _checked(hypotheses: Any, labels: int) -> GivenHypotheses:
    if not isinstance(hypotheses, Sequence | np.ndarray) or isinstance(hypotheses, str):
        raise TypeError(f"hypotheses must be a list, not {hypotheses!r}")
    if not len(hypotheses):
        raise ValueError("hypotheses is empty: there must be at least one")
    linear = np.array([not callable(h) for h in hypotheses], np.uint8)
    matrices = [_matrix(h, i, labels) for i, h in enumerate(hypotheses) if linear[i]]
    widths = sorted({matrix.shape[1] for matrix in matrices})
    if len(widths) > 1:
        raise ValueError(
            f"the hypotheses have different numbers of features: {widths[0]} and {widths[-1]}"
        )
    weights = np.stack(matrices) if matrices else np.empty((0, labels, 0))
    return GivenHypotheses(linear, weights, [h for h in hypotheses if callable(h)])


def _listed(given: GivenHypotheses) -> list[Hypothesis]:
    """The hypotheses in their order: matrices and functions."""
    matrices, functions = iter(given.weights.copy()), iter(given.functions)
    return [next(matrices if is_linear else functions) for is_linear in given.linear]


def _matrix(hypothesis: Any, i: int, labels: int) -> np.ndarray:
    try:
        matrix = np.asarray(hypothesis)
    except ValueError:  # rows of different lengths
        matrix = np.empty(0)
    if matrix.ndim != 2 or len(matrix) != labels or matrix.dtype.kind not in "biuf":
        raise ValueError(
            f"hypothesis {i} must be weights [label, feature] for {labels} labels, "
            f"or a function from a context to a label, not {type(hypothesis).__name__} "
            f"of shape {np.shape(matrix)}"
        )
    if not np.isfinite(matrix).all():
        raise ValueError(f"the weights of hypothesis {i} are not all numbers")
    return matrix


class _Hypotheses(Storage):
    """The hypotheses, and which of them are alive."""

    dtype = "float64"  # weights are not rounded
    advice = "Use fewer hypotheses, or fewer features"

    def __init__(self, given: GivenHypotheses, project: int, seed: int, dtype: np.dtype) -> None:
        with np.errstate(over="ignore"):
            self.given = given._replace(weights=np.ascontiguousarray(given.weights, dtype))
        if not np.isfinite(self.given.weights).all():
            raise ValueError(f"some weights are too large for {dtype}")
        self.identity = self.given.linear.tobytes() + self.given.weights.tobytes()
        self.project, self.seed = project, seed
        self.names: Any = None  # the learner's labels
        self.callback = Callback(self._ask) if given.functions else None
        self._padded: Any = None
        self._current: Any = None

    def _ask(self) -> None:
        """Let the functions that are alive vote."""
        held = self._current
        x = held.x.astype(np.float64)
        x.flags.writeable = False  # all functions get the same array
        places = np.flatnonzero(self.given.linear == 0).tolist()
        for h, function in zip(places, self.given.functions, strict=True):
            if held.alive[h]:
                label = function(x)
                try:
                    held.votes[h] = self.names.place(label)
                except ValueError as error:
                    raise ValueError(f"hypothesis {h} does not name a label: {error}") from None

    def lay_out(self, arrays: Arrays, features: int, labels: int) -> Committee:
        linear, weights, _ = self.given
        dtype, count, lanes = weights.dtype, len(linear), lanes_for(labels)
        if self._padded is None or self._padded.shape[2] != lanes:
            self._padded = aligned_zeros((weights.shape[2], len(weights), lanes), dtype)
            self._padded[:, :, : weights.shape[1]] = weights.transpose(2, 0, 1)
        size = self.project or features
        self._current = Committee(
            alive=arrays["alive"].copy() if arrays else np.ones(count, np.uint8),
            votes=np.full(count, -1, np.int64),
            planes=np.where(linear, np.cumsum(linear, dtype=np.int64) - 1, -1),
            weights=state_type(lanes)(self._padded, np.empty(0)),
            named=weights.shape[1],
            projection=self._drawn(features),
            x=np.zeros(size, dtype),
            indices=np.arange(size, dtype=np.uint32),
            functions=self.callback.address if self.callback else 0,
            room=features,
        )
        return self._current

    def _drawn(self, features: int) -> np.ndarray:
        """The projection: an entry depends only on feature, dimension and seed."""
        table = np.empty((features, self.project), self.given.weights.dtype)
        for i in range(self.project):
            draws = uniforms(self.seed, np.arange(features), _PROJECTION + i)
            table[:, i] = (2 * draws - 1) / math.sqrt(self.project)
        return table

    def room(self, held: Committee) -> int:
        return held.room

    def arrays(self, held: Committee, features: int, labels: int) -> Arrays:
        linear, weights, _ = self.given
        return {"alive": held.alive.copy(), "linear": linear, "weights": weights}

    def fits(self, arrays: Arrays, features: int, labels: int) -> bool:
        alive = arrays.get("alive", np.empty(0))
        return (
            len(arrays) == 3
            and alive.shape == self.given.linear.shape
            and alive.dtype == np.uint8
            and alive.max() == 1
        )

    def size(self, features: int, labels: int) -> int:
        planes, _, width = self.given.weights.shape
        numbers = planes * width * lanes_for(labels) + features * (self.project + 1)
        return numbers * self.given.weights.itemsize

    def faded(self, table: np.ndarray, arrays: Arrays, keep: float) -> tuple[np.ndarray, Arrays]:
        return table, arrays  # a hypothesis cannot be partly removed


class Halving(Learner):
    """The vote of all hypotheses that were not yet wrong (Kakade, Shalev-Shwartz, Tewari 2008).

    A hypothesis is a matrix of weights [label, feature], which names the label with the highest
    score W x (the lowest of equal ones), or a function from a context, an array of `features`
    numbers, to a label. Hypotheses never change. A label that no hypothesis names is never said.
    Hypotheses are not evaluated for a context of zeros.

    If a hypothesis is always right, there are at most K ln |H| mistakes. When the last hypothesis
    would be removed, all are restored; `forget()` restores them too (with a share below 1 it does
    nothing). Functions are not saved: `load(path, hypotheses=[...])` needs the same list again.

    >>> import onebit as ob
    >>> limits = [lambda x, t=t: "hot" if x[0] > t else "cold" for t in range(30)]
    >>> learner = ob.Halving(["hot", "cold"], features=1, hypotheses=limits)
    >>> for degrees in (10, 30, 18, 24):
    ...     decision = learner.decide([float(degrees)])
    ...     learner.learn(decision, right=decision.label == ("hot" if degrees > 20 else "cold"))
    >>> int(learner.alive.sum())
    12
    """

    planes = 0
    shows_lists = entangled = True
    needs = "hypotheses"
    hypotheses: Any = setting(
        check=lambda name, value: value,
        in_use=named_by_storage,
        doc="a list of hypotheses; or an array [hypothesis, label, feature]",
    )
    project: int | None = setting(
        default=None,
        check=or_none(partial(whole, least=1, most=2**20)),
        doc="project contexts at random to this number of dimensions, which are the features of "
        "the hypotheses; the paper takes about D ln((T + K) / delta) for T rounds and a margin "
        "1/sqrt(D), with probability 1 - delta; squared lengths shrink to a third on average",
    )

    class Params(NamedTuple):
        project: int  # dimensions of projected contexts; 0: no projection

    say = greedy
    lockstep = None

    @staticmethod
    def score(params, state, work, row, turn):
        held = state.held
        work.scores[:] = 0.0
        held.votes[:] = -1
        if row.start == row.stop:
            return
        if params.project:
            _project(held, row)
            _vote(held, Row(held.indices, held.x, 0, params.project), work.widths)
        else:
            _vote(held, row, work.widths)
        if held.functions:
            if not params.project:
                held.x[:] = 0.0
                for i in range(row.start, row.stop):
                    held.x[at(row.indices, i)] = at(row.values, i)
            if not call_back(held.functions):
                held.votes[:] = -1  # a failure: nothing is learned
        for h in range(len(held.alive)):
            if held.alive[h] and held.votes[h] >= 0:
                work.scores[held.votes[h]] += 1.0

    @staticmethod
    def hear(params, state, work, row, turn, choice, right):
        alive, votes = state.held.alive, state.held.votes
        wrong = left = 0
        for h in range(len(alive)):
            if alive[h]:
                wrong += votes[h] == choice.label
                left += votes[h] != choice.label
        if right or wrong == 0:
            return False
        if left == 0:  # start again
            alive[:] = 1
            return wrong < len(alive)
        for h in range(len(alive)):
            if votes[h] == choice.label:
                alive[h] = 0
        return True

    def _make_params(self) -> Any:
        return self.Params(self.project or 0)

    def _check_settings(self) -> None:
        if self.inputs not in ("raw", "unit"):
            raise ValueError(
                f"Halving's hypotheses read rows as they come: leave out inputs={self.inputs!r}"
            )
        count, size = len(self.label_set), self.project or 0
        asked = self.hypotheses
        given = asked if isinstance(asked, GivenHypotheses) else _checked(asked, count)
        self._checked, self.setting_values[self.declared["hypotheses"]] = given, _listed(given)
        if given.weights.shape[1] > count:
            raise ValueError("the hypotheses have more labels than there are")
        width = given.weights.shape[2]
        if len(given.weights) and size not in (0, width):
            raise ValueError(f"project={size}, but the hypotheses have weights for {width}")
        if len(given.weights) and not size:
            if self.features not in (None, width):
                raise ValueError(f"features={self.features}, but the hypotheses have {width}")
            self.features = width
        elif not size and self.features is None:
            raise TypeError(
                "functions receive all features of a context: set their number with features="
            )

    def _make_storage(self) -> Storage:
        dtype = precision(self.dtype or _Hypotheses.dtype)
        self._hypotheses = _Hypotheses(self._checked, self.project or 0, self.seed, dtype)
        self._hypotheses.names = self.label_set
        if self._checked.functions:
            self._hypotheses.unsaved = {self.needs: self.hypotheses}
        return self._hypotheses

    @property
    def alive(self) -> np.ndarray:
        """For each hypothesis whether it is alive: True or False."""
        return self.table.state.held.alive.astype(bool)

    @classmethod
    def _settings_beside(
        cls, head: dict[str, Any], arrays: Arrays, given: Mapping[str, Any]
    ) -> dict[str, Any]:
        linear, weights = arrays["linear"], arrays["weights"]
        if (
            linear.ndim != 1
            or linear.dtype != np.uint8
            or (linear > 1).any()
            or weights.ndim != 3
            or weights.dtype.kind != "f"
            or not len(linear)
            or len(weights) != np.count_nonzero(linear)
            or weights.shape[1] < 2
        ):
            raise ValueError("this model's hypotheses are damaged")
        saved = GivenHypotheses(linear, weights, [])
        unwanted = [name for name in given if name != cls.needs]
        if unwanted:
            raise ValueError(f"Halving needs nothing but hypotheses again, not {unwanted[0]}")
        if not given:
            if len(weights) < len(linear):
                raise ValueError(
                    f"{len(linear) - len(weights)} of its {len(linear)} hypotheses are functions, "
                    "which a file cannot store: pass the whole list, load(path, hypotheses=[...])"
                )
            return {cls.needs: saved}
        again = _checked(given[cls.needs], weights.shape[1])
        if not np.array_equal(again.linear, linear) or not np.array_equal(
            again.weights.astype(weights.dtype), weights
        ):
            raise ValueError("these are not the hypotheses that it was saved with")
        return {cls.needs: saved._replace(functions=again.functions)}
