"""Learner: decide, learn, predict, save. The only class with state.

An algorithm is a subclass with settings and a few compiled functions (see `_kernel`). All that a
learner has learned is its state, a table of weights and a few numbers; what it has yet to hear
about is in the decisions it gave out, not here.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, TypedDict

import msgspec
import numpy as np

from onebit import _kernel, persist
from onebit._form import TABLE, Form
from onebit._jit import direct, entry, inline, plain
from onebit._kernel import Choice, Row, Turn, Work
from onebit._lanes import aligned_zeros, lanes_for, state_type
from onebit._version import __version__
from onebit.answers import Answers
from onebit.decision import Decision
from onebit.features import (
    GROWTH_LIMIT,
    Rows,
    check_columns,
    columns_of,
    encode,
    encode_rows,
)
from onebit.labels import LabelSet
from onebit.settings import CALLABLE, Range, bit, called, choice_of, flag, real, whole
from onebit.silence import Reading, hearing, is_taken

Labels = int | Sequence[str] | Sequence[int]


class Common(TypedDict, total=False):
    """Settings that every learner has."""

    features: int | None  # fix the number of features; None: grow as larger indices come
    seed: int
    dtype: Literal["float32", "float64"] | None  # None: float32; float64 for full matrices
    silence: Reading  # "nothing", "wrong", or its chances after right and wrong answers
    half_life: int | None  # rounds after which half of what was learned is left; None: all stays


# One round, called from Python. A context beyond the table is not touched: NO_ROOM comes back, the
# learner makes room and asks again.

NO_ROOM = -1
STEPS = 16  # in which half of what was learned fades
NEVER = 2**63


@inline
def _fits(state, indices):
    """Whether every index is within the table: whoever held a decision may have changed it."""
    beyond = 0
    for i in range(len(indices)):
        beyond += indices[i] >= state.table.shape[0]
    return beyond == 0


@entry
def _decide(params, state, work, indices, values, seed, round, count):
    if not _fits(state, indices):
        return NO_ROOM, 0, 0.0, 0.0, 0.0
    row, turn = Row(indices, values, 0, len(indices)), Turn(seed, round, count)
    _kernel.score(params, state, work, row, turn)
    choice = _kernel.decide(params, state, work, turn)
    propensity = choice.propensity
    if propensity < 0:
        _kernel.probabilities(params, state, work, turn)
        propensity = work.probabilities[choice.label]
    return choice.label, choice.greedy, propensity, choice.note, choice.other


@entry
def _probabilities(params, state, work, indices, values, seed, round, count):
    row, turn = Row(indices, values, 0, len(indices)), Turn(seed, round, count)
    _kernel.score(params, state, work, row, turn)
    _kernel.probabilities(params, state, work, turn)


@entry
def _learn(
    params, state, work, indices, values, seed, round, count,
    label, greedy, propensity, note, other, afresh, right,
):  # fmt: skip
    if not _fits(state, indices):
        return NO_ROOM
    if len(indices) == 0:
        return 0
    row, turn = Row(indices, values, 0, len(indices)), Turn(seed, round, count)
    if afresh:
        _kernel.score(params, state, work, row, turn)
    # Plain Python would take its own floats for less precise than numpy's.
    choice = Choice(label, greedy, np.float64(propensity), np.float64(note), np.float64(other))
    return int(_kernel.learn(params, state, work, row, turn, choice, right))


@entry
def _learn_label(params, state, work, indices, values, seed, round, count, label):
    if not _fits(state, indices):
        return NO_ROOM
    if len(indices) == 0:
        return 0
    row, turn = Row(indices, values, 0, len(indices)), Turn(seed, round, count)
    _kernel.score(params, state, work, row, turn)
    return int(_kernel.learn_label(params, state, work, row, turn, label))


@entry
def _score_rows(params, state, work, indices, values, indptr, round, out_scores, out_places):
    turn = Turn(0, round, out_scores.shape[1])
    for i in range(len(indptr) - 1):
        start, stop = indptr[i], indptr[i + 1]
        row = _kernel.known(state, Row(indices, values, start, stop))
        _kernel.score(params, state, work, row, turn)
        out_places[i] = _kernel.best(state, work)
        for label in range(out_scores.shape[1]):
            out_scores[i, label] = work.scores[label]


class Learner:
    """What all learners do. Use one of its subclasses: `Banditron`, `Confidit`, ...

    labels: how many (then they are 0, 1, 2, ...), or a list of strings or of ints.
    features: fixes the number of features; otherwise the weights grow as larger indices come, and
    dense rows have as many columns as the first of them.
    seed: all randomness follows from it. dtype: precision of the weights, "float32" or "float64"
    (the first unless said otherwise; the second where a learner keeps full matrices).

    silence: what it means when nothing is heard: "nothing"; or "wrong"; or {"right": 0.7,
    "wrong": 0.2}, the chances of silence after right and after wrong answers, by which those heard
    are thinned out so that neither sort is heard more often than it was given.

    half_life: for a world that drifts, after how many rounds half of what was learned is left. It
    fades in 16 equal steps, as by `forget`, each before a decision.

    A learner is not thread-safe: it has one owner.
    """

    planes: int  # arrays of weights, as [feature, label]
    full_information: ClassVar[bool] = False  # it must be told the true label
    learns_from_scores: bool = False  # learning wants the present scores of the row
    importance_weighted: ClassVar[bool] = False  # one update stands for all labels, weighted by 1/P
    added_settings: ClassVar[dict[str, Any]] = {}  # unnamed in older files: what they meant then
    # What `tune` tries for a setting: a range, or all there are. Others stay at their defaults.
    ranges: ClassVar[Mapping[str, Range | tuple[Any, ...]]] = {}
    costly: ClassVar[bool] = False  # a round takes d^2 or more, at the defaults too
    variant_of: ClassVar[str] = ""  # the learner that it is at its defaults: not in races by itself
    needs: ClassVar[str] = ""  # a setting without a default that only Python can give
    registry: ClassVar[dict[str, type[Learner]]] = {}

    def __init_subclass__(cls) -> None:
        if not cls.__name__.startswith("_"):
            Learner.registry[cls.__name__] = cls

    def __init__(
        self,
        labels: Labels,
        params: Any,
        settings: dict[str, Any],
        *,
        memory: tuple[float, ...] = (),
        state: Form = TABLE,
        features: int | None = None,
        seed: int = 0,
        dtype: Literal["float32", "float64"] | None = None,
        silence: Reading = "nothing",
        half_life: int | None = None,
        **unknown: Any,
    ) -> None:
        for name in unknown:
            known = inspect.signature(type(self)).parameters.values()
            has = ", ".join(one.name for one in known if one.kind == one.KEYWORD_ONLY) or "none"
            raise TypeError(f"no setting {name!r} for {type(self).__name__}; it has {has}")
        self._labels = LabelSet(labels)
        self._params = params
        self.settings: dict[str, Any] = {**state.settings, **settings}
        self.silence, self._hearing = hearing(silence)
        if self.silence != "nothing":  # defaults are not named: files of before had none
            self.settings["silence"] = self.silence
        if self._hearing.silence_is_wrong and self.full_information:
            raise ValueError(
                f"{type(self).__name__} is told the true label, and silence names none: "
                "silence='wrong' is for learners that hear right or wrong"
            )
        self._thins = min(self._hearing[1:]) < 1
        self.half_life = half_life
        if half_life is not None:
            self.half_life = whole("half_life", half_life, least=STEPS, most=2**53)
            self.settings["half_life"] = self.half_life
        self.features = (
            None if features is None else whole("features", features, least=1, most=2**31 - 1)
        )
        self.seed = whole("seed", seed, least=0, most=2**63 - 1)
        self._form = state
        if state.planes is not None:
            self.planes = state.planes
        self.learns_from_scores |= state.learns_from_scores
        self._dtype = precision(state.dtype if dtype is None else dtype)
        self.round = 0
        self._columns = self.features or 0  # of dense rows; 0: there was none yet
        self._fades_at = self._next_fade(0)
        self._answers = Answers()
        self._origin = self._fingerprint()
        self._lay_out(np.empty((0, self.planes, 0), self._dtype), np.array(memory, np.float64), {})
        if self.features is not None:
            self._reserve(self.features)

    # Deciding and learning.

    def decide(self, x: Any, *, among: Iterable[Any] | None = None) -> Decision:
        """Say a label for one context: an array row, a sparse row, a dict, or (indices, values).

        among: only these labels are possible this time.
        """
        indices, values = encode(x, self._dtype, self.features, self._columns)
        if self._form.check:
            self._form.check(values)
        places = None if among is None else self._places(among)
        if self.round >= self._fades_at:
            if len(indices):  # what may be refused is refused before anything changes
                self._reserve(int(indices.max()) + 1)
            self._fade()
        if places is None:
            work, count = self._work, self._size
        else:
            work, count = self._restricted(places), len(places)
        decide, params, seed, round = self._kernels.decide, self._params, self.seed, self.round
        while True:
            label, greedy, propensity, note, other = decide(
                params, self._state, work, indices, values, seed, round, count
            )
            if label != NO_ROOM:
                break
            self._reserve(int(indices.max()) + 1)
        names = self._labels.names
        if not self._columns and type(x) is not tuple:
            self._columns = columns_of(x)
        self.round = round + 1
        return Decision(
            names[label],
            names[greedy],
            propensity,
            round,
            indices,
            values,
            label,
            greedy,
            note,
            other,
            self._size,
            places,
            self._origin,
        )

    def learn(
        self,
        decision: Decision,
        *,
        right: bool | None = None,
        label: str | int | None = None,
        silence: bool = False,
    ) -> None:
        """Feedback on a decision: right or wrong, or the true label. It is learned from once.

        silence=True: no answer came, and none is waited for any longer. It is read as the setting
        `silence` says; unless that is "wrong", it changes nothing and need not be said.

        A learner that hears only right or wrong makes of a true label other than the one it said
        two lessons: what it said was wrong, and the true label, had it been said, would have been
        right. (Where one update stands for all labels, as in Banditron, the second alone.)
        """
        self._check_mine(decision)
        place = None
        if silence is not False and _is_said(silence):
            if right is not None or label is not None:
                raise TypeError("silence=True says that there is no right=... and no label=...")
            if not self._hearing.silence_is_wrong:
                return
            right = False
        elif label is not None:
            if right is not None:
                raise TypeError("say either right=... or label=..., not both")
            place = self._labels.place(label)
            right = place == decision.place
        else:
            if right is not True and right is not False:
                if right is None:
                    raise TypeError(
                        "say right=True, right=False or label=...; or, of silence, silence=True"
                    )
                right = bit("right", right)
            if self.full_information:
                raise ValueError(
                    f"{type(self).__name__} is a reference that must be told the true label: "
                    "label=..."
                )
        # A decision from the future was made after this learner was saved, and is not remembered.
        round, rounds, answers = decision.round, self.round, self._answers
        if round < answers.next and answers.has(round, rounds):
            raise ValueError(f"round {round} was answered already; a decision is learned from once")
        if not self._thins or _is_taken(self._hearing, self.seed, round, right):
            if place is None:
                self._learn_bit(decision, right)
            else:
                self._learn_label(decision, place)
        if round < rounds:
            if round == answers.next:  # in order, as most
                answers.next = round + 1
            else:
                answers.mark(round, rounds)

    def _learn_bit(self, decision: Decision, right: bool, params: Any = None) -> None:
        work, count = self._as_then(decision)
        learn, seed = self._kernels.learn, self.seed
        params = self._params if params is None else params
        indices, values, round = decision.indices, decision.values, decision.round
        label, greedy, propensity = decision.place, decision.greedy_place, decision.propensity
        note, other, afresh = decision.note, decision.other, self.learns_from_scores
        while learn(
            params, self._state, work, indices, values, seed, round, count,
            label, greedy, propensity, note, other, afresh, right,
        ) == NO_ROOM:  # fmt: skip
            self._reserve(int(indices.max()) + 1)

    def _learn_label(self, decision: Decision, place: int) -> None:
        if self.full_information:
            work, count = self._as_then(decision)
            learn, params, seed = self._kernels.learn_label, self._params, self.seed
            indices, values, round = decision.indices, decision.values, decision.round
            while (
                learn(params, self._state, work, indices, values, seed, round, count, place)
                == NO_ROOM
            ):
                self._reserve(int(indices.max()) + 1)
            return
        truth = self._params_for_truth()
        if place == decision.place:
            self._learn_bit(decision, True, truth)
            return
        if not self.importance_weighted:
            self._learn_bit(decision, False, truth)
        self._learn_bit(self._had_it_said(decision, place), True, truth)

    def _had_it_said(self, decision: Decision, place: int) -> Decision:
        """The decision with the label at `place` possible, and said for certain."""
        among, size = decision.among, decision.size
        if among is not None:
            among = tuple(sorted({*among, place}))
        return msgspec.structs.replace(
            decision,
            place=place,
            label=self._labels.names[place],
            propensity=1.0,
            among=among,
            size=size if place < size else self._size,
        )

    def _present_scores(self, decision: Decision) -> np.ndarray:
        """The scores of its context; -infinity for labels that were not possible."""
        scores = self.scores([(decision.indices, decision.values)])[0].astype(np.float64)
        possible = range(decision.size) if decision.among is None else decision.among
        scores[sorted(set(range(self._size)) - set(possible))] = -np.inf
        return scores

    def _as_then(self, decision: Decision) -> tuple[Work, int]:
        """Scratch space, and how many labels were possible, as at the time of the decision."""
        places = decision.among
        if places is None:
            if decision.size == self._size:
                return self._work, self._size
            places = range(decision.size)
        return self._restricted(places), len(places)

    def _check_mine(self, decision: Decision) -> None:
        if type(decision) is not Decision:
            raise TypeError(f"learn wants the Decision that decide gave, not {decision!r}")
        if self._form.check:
            self._form.check(decision.values)
        if decision.origin != self._origin or decision.values.dtype != self._dtype:
            raise ValueError(
                "this decision was made by another learner, or by one with other settings or seed"
            )
        names = self._labels.names
        if (
            not 0 <= decision.place < decision.size <= self._size
            or not 0 <= decision.greedy_place < decision.size
            or names[decision.place] != decision.label
            or names[decision.greedy_place] != decision.greedy
            or (decision.among is not None and not _within(decision.among, decision.size))
        ):
            raise ValueError("this decision speaks of labels that this learner does not have")

    # Looking.

    @property
    def labels(self) -> list[Any]:
        """The labels, in order."""
        return list(self._labels.names)

    @property
    def dtype(self) -> str:
        """Precision of the weights."""
        return self._dtype.name

    @property
    def weights(self) -> np.ndarray:
        """The effective weights [label, feature]: a copy."""
        return self._weights()

    def predict(self, X: Any) -> np.ndarray:
        """The greedy labels of many rows: no exploration, no change."""
        return np.asarray(self._labels.names)[self._score(X)[1]]

    def scores(self, X: Any) -> np.ndarray:
        """The scores [row, label] behind `predict`."""
        return self._score(X)[0]

    def probabilities(self, x: Any, *, among: Iterable[Any] | None = None) -> np.ndarray:
        """How likely each label is to be said for this context now, in the order of `labels`."""
        indices, values = encode(x, self._dtype, self.features, self._columns)
        if self._form.check:
            self._form.check(values)
        places = range(len(self._labels)) if among is None else self._places(among)
        if self.round >= self._fades_at:  # as it will be said; but looking changes nothing
            faded = self.copy()
            faded._fade()
            return faded.probabilities((indices, values), among=among)
        work = self._restricted(places)
        if len(indices):
            self._reserve(int(indices[-1]) + 1)
        self._kernels.probabilities(
            self._params, self._state, work, indices, values, self.seed, self.round, len(places)
        )
        return work.probabilities[: self._size].copy()

    def _score(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        rows = self._rows(X)
        if self._form.wants_room and rows.width > self._state.table.shape[0]:
            wider = self.copy()  # looking changes nothing
            wider._reserve(rows.width)
            return wider._score(rows)
        size = len(rows.indptr) - 1
        scores = np.empty((size, self._size), self._dtype)
        places = np.empty(size, np.int64)
        records = (self._params, self._state, self._work)
        args = (*records, rows.indices, rows.values, rows.indptr, self.round, scores, places)
        self._form.guarded(direct(_score_rows, self._kind, *args))(*args)
        return scores, places

    def __repr__(self) -> str:
        settings = "".join(f", {name}={value!r}" for name, value in self.settings.items())
        labels = len(self._labels) if self._labels.counted else self._labels.names
        shown = labels if len(self._labels) <= 6 else len(self._labels)
        return (
            f"{type(self).__name__}(labels={shown}{settings}, seed={self.seed}, round={self.round})"
        )

    # Growing.

    def add_label(self, label: str | int | None = None) -> None:
        """One more label from now on; what was learned about the others stays."""
        table, memory, arrays = self._table(), self._state.memory, self._arrays()
        self._labels.add(label)
        self._lay_out(table, memory, arrays)

    def forget(self, share: float = 1.0) -> None:
        """Weaken what was learned, as if only 1 - share of it had been seen; 1 is a fresh start.

        For a world that has changed. Rounds go on being counted, and decisions that are still open
        can be learned from.
        """
        share = real("share", share, least=0, most=1)
        if share == 0:
            return
        table, memory = self._state.table[:, :, : self._size], self._state.memory.copy()
        arrays, met = self._arrays(), np.arange(len(table))
        features = len(table)
        if share == 1:
            memory[:] = 0
            table, arrays, met = table[:0], {}, met[:0]
        elif arrays:
            memory *= 1 - share
            try:
                table, arrays = self._form.faded(table.astype(np.float64), arrays, 1 - share)
            except np.linalg.LinAlgError:
                raise ValueError(
                    "what was learned cannot be weakened: its matrices are too near to singular; "
                    "forget() with share=1 starts afresh"
                ) from None
        else:  # of features never met there is nothing to fade, and they may be most
            prior = np.array(self._fill()[: self.planes], self._dtype)[:, None]
            met = np.flatnonzero((table != prior).any(axis=(1, 2)))
            table, memory = self._faded(table[met].astype(np.float64), memory, 1 - share)
        # What fades on and on would end as numbers so small that machines are slow with them.
        table = np.where(np.abs(table) < np.finfo(self._dtype).tiny, 0, table)
        self._lay_out(np.empty((0, self.planes, 0), self._dtype), memory, {})
        self._reserve(features, arrays)
        self._buffer[met, :, : self._size] = table

    def _fade(self) -> None:
        """One of the steps in which half of what was learned fades; due before this round."""
        self.forget(1 - 0.5 ** (1 / STEPS))
        self._fades_at = self._next_fade(self.round)

    def _next_fade(self, round: int) -> int:
        """The first round after this one before which it fades: a function of the round alone."""
        if self.half_life is None:
            return NEVER
        steps = STEPS * round // self.half_life + 1
        return -(-steps * self.half_life // STEPS)

    def _lay_out(
        self, table: np.ndarray, memory: np.ndarray, arrays: dict[str, np.ndarray]
    ) -> None:
        """Take over weights [feature, plane, label], of as many labels as there are or fewer."""
        self._size = len(self._labels)
        lanes = lanes_for(self._size)
        self._buffer = aligned_zeros((0, self.planes, lanes), self._dtype)
        self._check_memory(self.features or 0)
        more = self._form.lay_out({}, 0, self._size)
        self._state = state_type(lanes)(self._buffer, memory.copy(), more)
        self._reserve(len(table), arrays)
        self._buffer[: len(table), :, : table.shape[2]] = table
        scores, widths, bounds = (aligned_zeros((lanes,), self._dtype) for _ in range(3))
        mask = aligned_zeros((lanes,), self._dtype)
        mask[len(self._labels) :] = -np.inf
        self._work = Work(scores, widths, bounds, mask, np.zeros(lanes))
        kinds = (type(record) for record in (self._params, self._state, self._state.more))
        self._kind = (*kinds, self._dtype)
        self._kernels = _Kernels(self)

    def _reserve(self, rows: int, arrays: dict[str, np.ndarray] | None = None) -> None:
        """Make room for at least so many features; arrays: what the form is to start from."""
        rows = int(rows)  # numpy's would overflow where sizes are worked out
        have, form, more = self._state.table.shape[0], self._form, self._state.more
        if rows <= have and not arrays:
            return
        limit = self.features or GROWTH_LIMIT
        if rows > limit:
            raise ValueError(f"index {rows - 1} is beyond the {limit} features there may be")
        if rows > min(len(self._buffer), form.room(more)):
            wanted = max(rows, min(2 * len(self._buffer), limit))
            if self._bytes_for(wanted) > _physical_memory():
                wanted = rows
            self._check_memory(wanted)
            larger = aligned_zeros((wanted, *self._buffer.shape[1:]), self._dtype)
            larger[:have] = self._buffer[:have]
            if form.room(more) < wanted:
                more = form.lay_out(
                    arrays or form.arrays(more, have, self._size), wanted, self._size
                )
            self._buffer = larger
        elif arrays:
            more = form.lay_out(arrays, rows, self._size)
        for plane, fill in enumerate(self._fill()[: self.planes]):
            if fill:
                self._buffer[have:rows, plane] = fill
        self._state = type(self._state)(self._buffer[:rows], self._state.memory, more)

    def _bytes_for(self, rows: int) -> int:
        table = rows * int(np.prod(self._buffer.shape[1:])) * self._dtype.itemsize
        return table + self._form.size(rows, self._size)

    def _check_memory(self, rows: int) -> None:
        """Refuse before anything is allocated, rather than be killed for it later."""
        needed = self._bytes_for(rows)
        if needed > _physical_memory():
            raise MemoryError(
                f"{self._form.what(rows, self._size)} take {needed / 2**30:,.1f} GiB; "
                f"this machine has {_physical_memory() / 2**30:,.1f} GiB. {self._form.advice}"
            )

    # What an algorithm may say otherwise.

    def _params_for_truth(self) -> Any:
        """The settings with which a label that somebody named is learned from."""
        return self._params

    def _fill(self) -> tuple[float, ...]:
        """What each plane of the table holds before anything is learned."""
        return (0.0,) * self.planes

    def _faded(
        self, table: np.ndarray, memory: np.ndarray, keep: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Table and memory with only a share of the evidence kept."""
        if self.planes == 2:  # w = b/A and 1/A: b and what A has beyond its prior are sums
            # Written so that a prior stays itself to the last bit, however often it fades.
            prior = float(self._dtype.type(self._fill()[1]))
            grown = keep + (1 - keep) * (table[:, 1] / prior)
            table[:, 0] *= keep / grown
            table[:, 1] /= grown
            return table, keep * memory
        return keep * table, keep * memory

    def _is_sound(self, table: np.ndarray, memory: np.ndarray) -> bool:
        """Whether learning can have left such numbers, but for rounding; asked of model files."""
        if self.planes == 2 and type(self)._faded is Learner._faded and self._fill()[1] > 0:
            prior = self._fill()[1]
            return bool(((table[:, 1] >= 0) & (table[:, 1] <= prior * (1 + 1e-5))).all())
        return True

    def _given(self) -> dict[str, Any]:
        """Settings that no file can hold: `load` wants them again."""
        return dict(self._form.unsaved)

    @classmethod
    def _settings_beside(
        cls, head: dict[str, Any], arrays: dict[str, np.ndarray], given: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Settings beside those in the head, from a model's arrays and from what `load` was given.

        A ValueError says what is missing, or is not wanted.
        """
        for name, function in given.items():
            saved = head["settings"].get(name)
            if not isinstance(saved, str) or not saved.startswith(CALLABLE):
                raise ValueError(f"this {cls.__name__} was saved whole: leave out {name}")
            if not callable(function):
                raise ValueError(f"{name} must be a function again, not {function!r}")
            if called(function) != saved:
                raise ValueError(f"it was saved with {name} {saved!r}, not {called(function)!r}")
        return dict(given)

    def _weights(self) -> np.ndarray:
        return self._plane(0) if self.planes else self._form.weights(self._state.more, self._size)

    # Saving.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the learner to a file, atomically; `onebit.load` reads it."""
        persist.write(path, *self._dump())

    def copy(self) -> Learner:
        """A learner that goes on from here by itself."""
        return Learner._restore(*self._dump(), self._given())

    def __reduce__(self) -> tuple[Any, ...]:
        return Learner._restore, (*self._dump(), self._given())

    def _dump(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        head = {
            "version": __version__,
            "algorithm": type(self).__name__,
            "settings": self.settings,
            "labels": len(self._labels) if self._labels.counted else self._labels.names,
            "features": self.features,
            "dtype": self.dtype,
            "seed": self.seed,
            "round": self.round,
        }
        if self._columns and not self.features:
            head["columns"] = self._columns
        arrays = {"table": self._table(), "memory": self._state.memory, **self._arrays()}
        return head, arrays | self._answers.saved(self.round)

    @staticmethod
    def _restore(
        head: dict[str, Any],
        arrays: dict[str, np.ndarray],
        given: Mapping[str, Any] | None = None,
        is_foreign: bool = False,
    ) -> Learner:
        """The reverse of `_dump`; a ValueError says what does not fit.

        given: what a file cannot hold, such as functions. is_foreign: it comes from a file, so its
        numbers are to be checked too.
        """
        try:
            arrays = dict(arrays)
            name, table, memory = head["algorithm"], arrays.pop("table"), arrays.pop("memory")
            answered = arrays.pop("answered", None)  # older files have none
            if name not in Learner.registry:
                raise ValueError(f"this onebit has no algorithm {name!r}")
            if head["features"] is not None and head["features"] != len(table):
                raise ValueError("this model's weights do not fit its settings")
            common = {name: head[name] for name in ("features", "dtype", "seed")}
            kind = Learner.registry[name]
            settings = {**kind.added_settings, **head["settings"]}
            settings |= kind._settings_beside(head, arrays, given or {})
            learner = kind(head["labels"], **settings, **common)
            learner.round = whole("round", head["round"], least=0, most=2**63 - 1)
            if learner.features is None and "columns" in head:  # older files have none
                learner._columns = whole("columns", head["columns"], least=1, most=GROWTH_LIMIT)
            learner._answers = Answers.restored(answered, learner.round)
            learner._fades_at = learner._next_fade(max(learner.round - 1, 0))
        except KeyError as error:
            raise ValueError(f"there is no {error} in this model") from None
        except TypeError as error:
            raise ValueError(f"this model does not fit its algorithm: {error}") from None
        shape = (learner.planes, len(learner._labels))
        good = (
            table.ndim == 3
            and table.shape[1:] == shape
            and table.dtype == learner._dtype
            and memory.shape == learner._state.memory.shape
            and memory.dtype == np.float64
            and learner._form.fits(arrays, len(table), len(learner._labels))
        )
        if not good:
            raise ValueError("this model's weights do not fit its settings")
        if not all(np.isfinite(array).all() for array in (table, memory, *arrays.values())):
            raise ValueError("this model's weights are not all numbers")
        with np.errstate(all="ignore"):
            if is_foreign and not (
                learner._is_sound(table, memory) and learner._form.is_sound(table, arrays)
            ):
                raise ValueError(
                    f"this model holds numbers that {name} cannot have learned: the file was made "
                    "or changed by something else"
                )
        learner._lay_out(table, memory, arrays)
        return learner

    # Inside.

    def _rows(self, X: Any) -> Rows:
        """Many contexts, encoded and checked."""
        rows = encode_rows(X, self._dtype, self.features)
        check_columns(rows.columns, self._columns)
        if self._form.check:
            self._form.check(rows.values, rows.indptr)
        return rows

    def _table(self) -> np.ndarray:
        """The table without its padding."""
        return self._state.table[:, :, : len(self._labels)].copy()

    def _arrays(self) -> dict[str, np.ndarray]:
        """What the form holds, without its padding."""
        return self._form.arrays(self._state.more, self._state.table.shape[0], self._size)

    def _plane(self, plane: int) -> np.ndarray:
        """One plane [label, feature], without padding."""
        return self._state.table[:, plane, : len(self._labels)].T.copy()

    def _fingerprint(self) -> bytes:
        """Tells learners apart that could not exchange decisions."""
        identity = [type(self).__name__, self.settings, self.seed, self.dtype, self.features]
        return hashlib.blake2b(msgspec.json.encode(identity), digest_size=8).digest()

    def _places(self, among: Iterable[Any]) -> tuple[int, ...]:
        if isinstance(among, str | bytes) or not isinstance(among, Iterable):
            raise TypeError(f"among must be a list of labels, not {among!r}")
        places = tuple(sorted({self._labels.place(label) for label in among}))
        if not places:
            raise ValueError("among is empty: at least one label must be possible")
        return places

    def _restricted(self, places: Iterable[int]) -> Work:
        """Scratch space in which only some labels may be said."""
        mask = aligned_zeros(self._work.mask.shape, self._dtype)
        mask[:] = -np.inf
        mask[list(places)] = 0
        return self._work._replace(mask=mask)


def precision(asked: Any) -> np.dtype:
    """The type of the numbers, from its name or itself."""
    name = asked if isinstance(asked, str) else getattr(asked, "__name__", str(asked))
    return np.dtype(choice_of("dtype", name, ("float32", "float64")))


def _within(places: tuple[int, ...], size: int) -> bool:
    return len(places) > 0 and min(places) >= 0 and max(places) < size


@functools.cache
def _physical_memory() -> float:
    """What this machine has, or what a container may use of it."""
    try:
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not a POSIX system
        return math.inf
    try:
        return min(there, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):  # no such limit, or "max"
        return there


_is_taken = plain(is_taken)


def _is_said(silence: Any) -> bool:
    return bool(silence) if isinstance(silence, np.bool_) else flag("silence", silence)


class _Kernels:
    """The compiled rounds of one learner, each found when first wanted."""

    def __init__(self, learner: Learner) -> None:
        row = (np.empty(0, np.uint32), np.empty(0, learner._dtype))
        state = learner._state._replace(table=learner._state.table[:0].copy())
        self._kind, self._form = learner._kind, learner._form
        self._like = (learner._params, state, learner._work, *row, 0, 0, 0)

    def __getattr__(self, name: str) -> Any:
        entries = {
            "decide": (_decide,),
            "probabilities": (_probabilities,),
            "learn": (_learn, 0, 0, 0.0, 0.0, 0.0, True, True),
            "learn_label": (_learn_label, 0),
        }
        function, *more = entries[name]
        found = self._form.guarded(direct(function, self._kind, *self._like, *more))
        setattr(self, name, found)
        return found
