"""Learner: decide, learn, predict, save.

An algorithm is a subclass whose body has settings and compiled members (see `declared` and
`core.rounds`). The compiled functions that this class calls are in `calls`, the room for
features in `table`, the checks of a decision in `decision`, the model file in `files`.

The learned state is a table of weights, a few numbers, and the record of the storage. Learners
do not keep decisions that wait for feedback.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import os
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Never

import msgspec
import numpy as np

from onebit.core.jit import direct, plain
from onebit.core.lanes import aligned_zeros, lanes_for, state_type
from onebit.core.rounds import Work
from onebit.core.settings import (
    CALLABLE,
    REQUIRED,
    SHARED,
    Setting,
    bit,
    called,
    choice_of,
    flag,
    or_none,
    real,
    setting,
    shown,
    unknown_setting,
    whole,
)
from onebit.core.slots import (
    BLANKS,
    MARK,
    no_slots,
    widened,
    width_of,
)
from onebit.learner import files
from onebit.learner.alarm import Alarm
from onebit.learner.answered import Answers, OtherAnswers
from onebit.learner.calls import FORGED, NO_ROOM, Entries, score_rows
from onebit.learner.decision import Decision, check_salt, checked_decision, salted
from onebit.learner.declared import Declared
from onebit.learner.explanation import Explanation, explain
from onebit.learner.labels import LabelSet, check_texts
from onebit.learner.silence import Reading, hearing, is_taken
from onebit.learner.table import FeatureTable
from onebit.learner.warming import warm_up
from onebit.reading.contexts import check_kind, columns_of
from onebit.reading.frames import names_of, warn_of_categories
from onebit.reading.reader import Reader
from onebit.reading.rows import Rows, rows_of
from onebit.reading.ways import Apart, Columns, Open, Raw, Unit
from onebit.storage.base import TABLE, Storage, row_blocks
from onebit.storage.scales import (
    STATISTICS,
    TIMES,
    Names,
    faded,
    scales_of_columns,
    scales_of_names,
)

Labels = int | Sequence[str] | Sequence[int]
Row = tuple[Any, Any]  # indices and values


STEPS = 16  # of fading per half-life
NEVER = 2**63

# What a class says about its algorithm, and compiled code: names that are not for users.
_FOR_AUTHORS = {
    "BITS",
    *("has_learned", "knows_numbers", "reader", "rows"),
    *("Params", "could_say", "hear", "hear_label", "law", "lockstep", "lockstep_loop", "members"),
    *("alarm", "say", "score"),
    *("added_settings", "costly", "declared", "forecasts", "full_information", "hears_empty"),
    *("importance_weighted", "infers_the_other", "may_pause", "mistake_bound", "needs", "planes"),
    *("ranges", "registry", "rescores", "scales_itself", "shares_chances", "variant_of"),
}

_ALIVE: weakref.WeakSet[Learner] = weakref.WeakSet()
_is_taken = plain(is_taken)


def _renew_all_locks() -> None:
    """In a forked process, the threads that held the locks no longer exist."""
    for learner in list(_ALIVE):
        learner._renew_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all_locks)


class Learner(FeatureTable, Declared):
    """The base class of all learners. Use one of its subclasses: `OneBit`, `Banditron`, ...

    labels: a list of strings or of ints, or their number (then they are 0, 1, 2, ...). Every
    learner has the settings below.

    Threads may share a learner: calls run one after another. If several processes decide with the
    same model, each needs its own salt: see `onebit.load`.
    """

    if TYPE_CHECKING:  # the first argument of every learner
        _given_labels: Labels = setting(kw_only=False, alias="labels", doc="")

    features: int | None = setting(
        default=None,
        check=or_none(partial(whole, least=1, most=2**31 - 1)),
        doc="the number of features, if it is fixed; otherwise weights are added for new features, "
        "and all dense rows have as many columns as the first one",
    )
    vocabulary: int | None = setting(
        default=None,
        check=or_none(partial(whole, least=1, most=2**24)),
        doc="the most features that get weights of their own, which bounds the memory; in each "
        "context, all later ones together are one feature. No limit if features is fixed; dense "
        "rows, matrices and kernels take no features beyond it",
    )
    seed: int = setting(default=0, least=0, most=2**63 - 1, doc="determines all random draws")
    dtype: Literal["float32", "float64"] | None = setting(
        default=None,
        check=or_none(lambda name, value: precision(value).name),
        doc="precision of the weights; float32, or float64 where full matrices are kept",
    )
    silence: Reading = setting(
        default="nothing",
        check=lambda name, value: value,
        doc='the meaning of missing feedback: "nothing"; "wrong"; or {"right": 0.7, "wrong": '
        "0.2}, the probabilities of silence after right and after wrong answers; then some of the "
        "answers that are heard more often are dropped, so that both kinds count equally",
    )
    half_life: int | None = setting(
        default=None,
        check=or_none(partial(whole, least=STEPS, most=2**53)),
        doc="for drifting data: the number of rounds after which half of the learned state is "
        "left; it fades in 16 equal steps, each before a decision",
    )
    inputs: Literal["raw", "unit", "auto", "dense", "sparse"] = setting(
        default="raw",
        choices=("raw", "unit", "auto", "dense", "sparse"),
        doc='contexts are taken as they are ("raw"), or each is scaled to length 1 ("unit"), or '
        'numbers are standardised too ("auto"): the columns of dense rows, and the numbers of '
        'dicts; "dense" and "sparse" say beforehand which of them comes',
    )

    rescores = True  # whether learning reads the row's present scores
    # The scores of a label that is surely wrong and of one that is surely right, if scores estimate
    # the chance of being right.
    # The version of its arithmetic, here of what all learners share. Raise it if the same events
    # make another learner, also by another default; tests/golden is then recorded anew.
    BITS: ClassVar[int] = 1
    forecasts: ClassVar[tuple[float, float] | None] = None
    shares_chances: ClassVar[bool] = False  # a new label changes those of the others
    importance_weighted: ClassVar[bool] = False  # one update stands for all labels, weighted by 1/P
    infers_the_other: ClassVar[bool] = False  # wrong means that the other of two labels is right
    added_settings: ClassVar[dict[str, Any]] = {}  # unnamed in older files: what they meant then
    costly: ClassVar[bool] = False  # a round takes d^2 or more, at the defaults too
    variant_of: ClassVar[str] = ""  # the learner that it is at its defaults: not in races by itself
    hears_empty: ClassVar[bool] = False  # empty contexts teach it, too (`core.rounds.teaches`)
    scales_itself: ClassVar[bool] = False  # its storage scales contexts; `inputs` is its own
    may_pause: ClassVar[bool] = False  # `_pause` may have something to do after learning
    alarm: ClassVar[Alarm] = Alarm()
    _earlier_memories: ClassVar[tuple[int, ...]] = (0,)  # sizes of `_memory` in earlier versions
    needs: ClassVar[str] = ""  # a setting without a default that only Python can give

    def __init__(self, *labels: Labels, **given: Any) -> None:
        self._labels = LabelSet(_only_labels(type(self), labels, given))
        self._values: dict[Setting, Any] = {}
        self._take_settings(given)
        self._check_settings()
        forecasts: tuple[float, float] | None = self.forecasts
        self._chance = forecasts and (forecasts[0], 1.0 / (forecasts[1] - forecasts[0]))
        self._storage = storage = self._make_storage()
        self._params = self._make_params()
        self.silence, self._hearing = hearing(self.silence)
        if self._hearing.silence_is_wrong and self.full_information:
            raise ValueError(
                f"{type(self).__name__} learns from the true label, and silence does not name it: "
                "silence='wrong' is for learners that receive right or wrong"
            )
        self._thins = min(self._hearing[1:]) < 1
        keeps_scales = self.inputs in ("auto", "dense", "sparse") and not self.scales_itself
        needs_more = self.full_information or self._thins or keeps_scales or storage.works_beside
        self._hears_bits = not needs_more  # `learn` need not look at more than the bit
        own = {n: s for n, s in self.declared.items() if n not in SHARED and s.in_use(self)}
        self.settings = {**storage.settings, **{n: self._values[s] for n, s in own.items()}}
        if self.silence != "nothing":  # defaults are left out, as in older model files
            self.settings["silence"] = self.silence
        if self.half_life is not None:
            self.settings["half_life"] = self.half_life
        if self.inputs != "raw":
            self.settings["inputs"] = self.inputs
        if self.vocabulary is not None:
            self.settings["vocabulary"] = self.vocabulary
        self._scales: Any = None  # by which contexts are scaled; part of what is learned
        self.salt, self._draws = "", self.seed
        if storage.planes is not None:
            self.planes = storage.planes  # type: ignore[misc] overrides the class attribute
        self._rescores = self.rescores or storage.rescores
        self._dtype = precision(storage.dtype if self.dtype is None else self.dtype)
        self.dtype = self._dtype.name  # type: ignore[assignment]
        self.round = 0
        self.reader = Reader(self._way(), storage.check, self.features or 0)
        self._slots = no_slots()
        self._fades_at = self._next_fade(0)
        self._answers, self._other_answers = Answers(), OtherAnswers()
        self._origin = self._fingerprint()
        self._renew_locks()
        _ALIVE.add(self)
        self._lay_out(self._no_weights(), np.array(self._memory(), np.float64), {})
        if keeps_scales:
            if self.inputs == "dense" and self.features is None:
                raise ValueError("inputs='dense' needs features=, the number of columns")
            self._start_scales(self.features if self.inputs == "dense" else 0)
        self._reserve(self.features or 0)

    def _take_settings(self, given: dict[str, Any]) -> None:
        """Check the given settings, and compute the others."""
        for name in given:
            if name not in self.declared:
                raise TypeError(unknown_setting(type(self), name))
        for name, declared in self.declared.items():
            value = given.get(name, declared.default)
            if value is REQUIRED:
                raise TypeError(f"{type(self).__name__} needs {name}=")
            if name in given and not (value is None and callable(declared.default)):
                value = declared.check(name, value)
            elif callable(declared.default):
                value = declared.default(self)
            self._values[declared] = value
            if name in SHARED:  # these are read in every round
                setattr(self, name, value)

    # Locks. `decide` and `learn` do what `with self._lock` does, in half the time. CPython raises
    # KeyboardInterrupt when a call returns, and so perhaps right after `_acquire()`, which must
    # therefore be inside the `try`. If it is raised while a thread waits in `_acquire()`, the lock
    # is not held, and `_release()` has nothing to do. A thread that holds the lock never waits.

    def _renew_locks(self) -> None:
        self._lock, self._reload_lock = threading.RLock(), threading.Lock()
        self._acquire, self._release = self._lock.acquire, self._lock.release

    def _release_if_held(self) -> None:
        with contextlib.suppress(RuntimeError):
            self._release()

    # Deciding and learning.

    def decide(
        self, x: Any, *more: Never, among: Iterable[Any] | None = None, **unknown: Never
    ) -> Decision:
        """Say a label for one context.

        x: a text, a dict of numbers, categories and texts, a row of an array, of a sparse matrix or
        of a data frame, or a pair (indices, values).
        among: only these labels are possible this time.
        """
        if more or unknown:
            raise TypeError(
                f"decide takes one context, and the possible labels as among=[...], but not "
                f"{_listed(more, unknown)}"
            )
        way = self.reader.way
        row, kind, x, columns, names = self.reader.one(x, self)
        indices, values = row
        try:
            self._acquire()
            places = None if among is None else self._places(among)
            round = self.round
            if way.is_scaled:
                row = indices, values = self._met(x, row, columns, way)
            if round >= self._fades_at:
                # May be refused: before anything changes.
                row = indices, values = self._fitted(row)
                self._reserve_for(indices, columns)
                self._fade(round)
            if places is None:
                work, count = self._work, self._size
            else:
                work, count = self._restricted(places), len(places)
            decide, params, seed = self._entries.decide, self._params, self._draws
            while True:
                label, greedy, propensity, note, other, score = decide(
                    params, self._state, work, indices, values, seed, round, count
                )
                if label != NO_ROOM:
                    break
                row = indices, values = self._fitted(row)
                work = self._reserve_for(indices, columns, work)
            confidence, line = None, self._chance
            if line is not None and (len(indices) or self.hears_empty):  # as in `_chances`
                confidence = (score - line[0]) * line[1]
                if not 0.0 <= confidence <= 1.0:
                    confidence = 1.0 if confidence > 1.0 else 0.0
            if columns:
                self.reader.remember(columns, names)
            self.round = round + 1
            labels = self._labels.names
            decision = Decision(
                labels[label], labels[greedy], propensity, round, row, label, greedy, note, other,
                self._size, places, self._origin, self.salt, confidence, kind,
            )  # fmt: skip
        except BaseException:
            self._release_if_held()
            raise
        self._release()
        return decision

    def _met(self, x: Any, row: Row, columns: int, way: Raw) -> Row:
        """The row of a context, read in this way, now that no other thread can teach the learner.

        columns: of a dense row, if the learner has to know them.
        """
        if type(x) is not tuple:
            self._meet(columns)
            self.reader.check_is_named(x, self)
        if self.reader.way is not way:  # it has met its first dense row
            row = self.reader.way.one(x, self.reader.columns)
        self._make_room_to_scale(len(row[0]))
        return row

    def warm_up(self, x: Any = None) -> None:
        """Compile what `decide`, `learn` and `predict` will need, also once there are more labels.

        Otherwise the first call of each kind compiles, for seconds or up to a minute. Compiled code
        is kept on disk, so later processes only load it. The learner does not change.

        x: a context such as will come. Without it, a learner that has not learned from any context
        yet is compiled for every kind, which takes longer.
        """
        with self._lock:
            copy = self.copy()
        warm_up(copy, x)

    # Logs. A service that keeps its decisions can build its learner again from them.

    def propose(self, x: Any, *, among: Iterable[Any] | None = None) -> Decision:
        """The decision that `decide` would make now. Nothing changes, and no round is counted.

        If the proposal is shown to somebody, call `redo` and learn from the decision it returns.
        """
        with self._lock:
            if not self._can_propose(x):
                return self.copy().decide(x, among=among)
            row, kind, *_ = self.reader.one(x, self)
            if not self._has_room_for(row[0]):
                return self._read_decision(row, kind, among)
            before = copy(self.reader)
            decision = self.decide(x, among=among)
            self._count_said(decision.place, -1)
            self.round, self.reader = self.round - 1, before
            return decision

    def _can_propose(self, x: Any) -> bool:
        """Whether `decide` would change nothing but the number of rounds and the room."""
        is_first = self.reader.columns_to_meet(x, self) > 0
        return 0 < self.round < self._fades_at and not is_first

    def _read_decision(
        self, row: tuple[Any, Any], kind: str, among: Iterable[Any] | None
    ) -> Decision:
        """The decision on a context with new features. No room is made for them."""
        places = None if among is None else self._places(among)
        count = self._size if places is None else len(places)
        row = indices, values = self._fitted(row)
        rows = Rows(indices, values, np.array([0, len(indices)]), self.reader.way.width(indices))
        reader, state, rows = self._to_read(rows)
        work = reader._work if places is None else reader._restricted(places)
        work = work._replace(slots=no_slots(), places=np.zeros_like(rows.indices))
        label, greedy, propensity, note, other, score = reader._entries.decide(
            self._params, state, work, rows.indices, values, self._draws, self.round, count
        )
        if reader is self:
            self._count_said(label, -1)
        names, confidence = self._labels.names, None
        if self._chance is not None and len(indices):
            confidence = min(max((score - self._chance[0]) * self._chance[1], 0.0), 1.0)
        return Decision(
            names[label], names[greedy], propensity, self.round, row, label, greedy, note, other,
            self._size, places, self._origin, self.salt, confidence, kind,
        )  # fmt: skip

    def redo(self, x: Any, decision: Decision) -> Decision:
        """Count a decision that this model made earlier, as `decide` did.

        The learner is then in the state after `decide(x)`. A decision of an earlier round, as from
        `propose`, gets the present round. Learn from the decision that is returned.
        """
        with self._lock:
            columns = columns_of(self.reader.in_columns(x, self))
            judge = self._after_meeting(columns)
            decision = checked_decision(decision, judge)
            judge._vet(decision)
            decision = self._fitted_decision(decision)
            round, names = max(self.round, decision.round), names_of(x)
            self._meet(columns)
            self._reserve_for(decision.row[0], columns)
            if round >= self._fades_at:
                self._fade(round)
            self.reader.remember(columns, names if columns else ())
            self._count_said(decision.place, 1)
            self.round = round + 1
            return msgspec.structs.replace(decision, round=round)

    def learn_logged(
        self,
        x: Any,
        said: str | int,
        *,
        right: bool | None = None,
        label: str | int | None = None,
        propensity: float = 1.0,
        among: Iterable[Any] | None = None,
    ) -> None:
        """Learn from feedback on a label said by somebody else: another learner, a rule, a person.

        said: the label. propensity: the probability with which it was said. right, label: the
        feedback, as for `learn`. This counts as a round. Learners that weight by 1 / propensity
        need the true propensity; others do not use it.
        """
        propensity = real("propensity", propensity, above=0, most=1)
        with self._lock:
            place = self._labels.place(said)
            self._storage.catch_up(self._state.held)
            right, named = self._understood(place, right, label)
            own = self.decide(x, among=None if among is None else [*among, said])
            self._count_said(own.place, -1)
            self._count_said(place, 1)
            logged = own if place == own.place else self._had_it_said(own, place)
            logged = msgspec.structs.replace(logged, propensity=propensity)
            memory = self._state.memory.copy()
            if not self._thins or _is_taken(self._hearing, self._draws, own.round, right):
                if named is None:
                    self._learn_bit(logged, self._draws, right, said=False)
                else:
                    self._learn_label(logged, self._draws, named, said=False)
                if self._scales is not None:
                    self._learn_scales(logged, self._draws, right)
            self._answers.mark(own.round, self.round)
            if place != own.place:
                self.alarm.take_back(self._state.memory, memory)
            if self.may_pause:
                self._pause(is_live=True)
            self.reader.taught_with = self.reader.taught_with or own.kind

    def learn(
        self,
        decision: Decision,
        *more: Never,
        right: bool | None = None,
        label: str | int | None = None,
        silence: bool = False,
        **unknown: Never,
    ) -> None:
        """Learn from feedback on a decision: right or wrong, or the true label.

        Each decision is learned from once; a second answer is refused.

        silence=True: no answer came, and none is expected any more. The setting `silence` says what
        this means; unless it is "wrong", nothing changes and the call is not needed.

        If the true label is not the said one, a learner with one-bit feedback makes two updates:
        the said label was wrong, and the true label would have been right. Importance-weighted
        learners such as Banditron make only the second update. OneBit makes only the first if two
        labels were possible: then label=... is the same as right=False.
        """
        if more or unknown:
            raise TypeError(
                "learn takes the decision, and the feedback by name: right=True, right=False, "
                f"label=... or silence=True, but not {_listed(more, unknown)}"
            )
        if silence is not False and _is_said(silence):
            right = self._reading_of_silence(decision, right, label)
            if right is None:
                return
        try:
            self._acquire()
            decision = checked_decision(decision, self)
            if self.vocabulary is not None:
                decision = self._fitted_decision(decision)
            (indices, values), round, place = decision.row, decision.round, None
            if not (self._hears_bits and label is None and (right is True or right is False)):
                self._vet(decision)
                self._storage.catch_up(self._state.held)
                right, place = self._understood(decision.place, right, label)
            answers, own = self._answers, decision.salt == self.salt
            if own:
                answered = round < answers.next and answers.has(round, self.round)
            else:
                answered = self._other_answers.has(check_salt(decision.salt), round)
            if answered:
                raise ValueError(
                    f"round {round} was answered already; a decision is learned from once. If this "
                    "is another decision, two processes count the same rounds: let each load the "
                    "model with a salt of its own, onebit.load(path, salt='web-1')"
                )
            kind = decision.kind
            if kind != self.reader.taught_with:
                check_kind(kind, self.reader.taught_with)
            if round >= self._fades_at:
                self._vet(decision)
                self._reserve_for(indices)  # may be refused: before anything changes
                self._fade(round)
            seed = self._draws if own else salted(self.seed, decision.salt)
            if self._thins and not _is_taken(self._hearing, seed, round, right):
                pass
            elif place is not None:
                self._learn_label(decision, seed, place)
            elif (
                decision.among is not None
                or decision.size != self._size
                or self._entries.learn(  # the usual case of _learn_bit, without another call
                    self._params, self._state, self._work, indices, values,
                    seed, round, self._size, decision.place, decision.greedy_place,
                    decision.propensity, decision.note, decision.other, True, self._rescores, right,
                ) < 0
            ):  # fmt: skip
                self._learn_bit(decision, seed, right)
            if self._scales is not None:
                self._learn_scales(decision, seed, right)
            if round >= self.round:  # made by another process, which was ahead
                self.round = round + 1
            if not own:
                self._other_answers.mark(decision.salt, round, self.round)
            elif round == answers.next:  # in order, as usual
                answers.next = round + 1
            else:
                answers.mark(round, self.round)
            if not self.reader.taught_with:
                self.reader.taught_with = kind
            if self.may_pause:
                self._pause(is_live=True)
        except BaseException:
            self._release_if_held()
            raise
        self._release()

    def _reading_of_silence(self, decision: Decision, right: Any, label: Any) -> bool | None:
        """The bit that silence stands for: False, or None if silence means nothing."""
        with self._lock:
            self._vet(checked_decision(decision, self))
            if right is not None or label is not None:
                raise TypeError("silence=True cannot be combined with right=... or label=...")
            return False if self._hearing.silence_is_wrong else None

    def _understood(self, said: int, right: Any, label: Any) -> tuple[bool, int | None]:
        """Right or wrong, and the place of a named label. said: the place of the said label."""
        if label is not None:
            if right is not None:
                raise TypeError("pass either right=... or label=..., not both")
            place = self._labels.place(label)
            return place == said, place
        if right is None:
            raise TypeError("pass right=True, right=False, label=... or silence=True")
        right = bit("right", right)
        if self.full_information:
            raise ValueError(
                f"{type(self).__name__} is a reference that learns from the true label: label=..."
            )
        return right, None

    def _fitted_as_full(self, x: Any) -> None:
        """Compile what contexts need once the vocabulary is full."""
        if self._is_limited:
            self._merged(self.rows([x]), self._slots, 0)

    def _fitted_decision(self, decision: Decision) -> Decision:
        """A decision with its context as the table has room for it now."""
        row = self._fitted(decision.row)
        return decision if row is decision.row else msgspec.structs.replace(decision, row=row)

    def _vet(self, decision: Decision) -> None:
        """Refuse a decision that nobody can have made, before anything changes."""
        if self._scales is not None:
            self._make_room_to_scale(len(decision.row[0]))
        work, count = self._as_then(decision)
        if not self._entries.vet(
            self._params, self._state, work, *decision.row, self.seed, decision.round, count,
            decision.place, decision.greedy_place, decision.propensity, decision.note,
            decision.other,
        ):  # fmt: skip
            raise self._forged(decision)

    def _forged(self, decision: Decision) -> ValueError:
        return ValueError(
            f"no {type(self).__name__} can have made this decision: its context or its numbers "
            f"(propensity {decision.propensity!r}, note {decision.note!r}, {decision.other!r}) "
            "were changed"
        )

    def _learn_bit(
        self, decision: Decision, seed: int, right: bool, params: Any = None, said: bool = True
    ) -> None:
        """Learn from one bit. said: the label was said by `decide`, not named by a user."""
        work, count = self._as_then(decision)
        learn, (indices, values) = self._entries.learn, decision.row
        params = self._params if params is None else params
        while True:
            done = learn(
                params, self._state, work, indices, values, seed, decision.round, count,
                decision.place, decision.greedy_place, decision.propensity, decision.note,
                decision.other, said, self._rescores, right,
            )  # fmt: skip
            if done == FORGED:
                raise self._forged(decision)
            if done != NO_ROOM:
                return
            work = self._reserve_for(indices, work=work)

    def _learn_scales(self, decision: Decision, seed: int, right: bool) -> None:
        """Take a row into the scales, if it was learned from."""
        if self._thins and not _is_taken(self._hearing, seed, decision.round, right):
            return
        row, round = decision.row, decision.round
        work = self._reserve_for(row[0])
        learn = self._entries.learn_scales
        learn(self._params, self._state, work, *row, self._draws, round, self._size)

    def _learn_label(self, decision: Decision, seed: int, place: int, said: bool = True) -> None:
        if self.full_information:
            row, round = decision.row, decision.round
            self._reserve_for(row[0])
            work, count = self._as_then(decision)
            learn = self._entries.learn_label
            learn(self._params, self._state, work, *row, seed, round, count, place)
            return
        truth = self._params_for_truth()
        if place == decision.place:
            self._learn_bit(decision, seed, True, truth, said)
            return
        if not self.importance_weighted:
            self._learn_bit(decision, seed, False, truth, said)
        if self.infers_the_other and self._were_two(decision, place):
            return
        memory = self._state.memory.copy()
        self._learn_bit(self._had_it_said(decision, place), seed, True, truth, said=False)
        self.alarm.take_back(self._state.memory, memory)

    @staticmethod
    def _were_two(decision: Decision, place: int) -> bool:
        """Whether the said label and the one at `place` were the only possible ones."""
        possible = range(decision.size) if decision.among is None else decision.among
        return len(possible) == 2 and place in possible

    def _had_it_said(self, decision: Decision, place: int) -> Decision:
        """The decision as if the label at `place` had been said with probability 1."""
        among, size = decision.among, decision.size
        return msgspec.structs.replace(
            decision,
            place=place,
            label=self._labels.names[place],
            propensity=1.0,
            among=among if among is None else tuple(sorted({*among, place})),
            size=size if place < size else self._size,
        )

    def _present_scores(self, decision: Decision) -> np.ndarray:
        """The present scores of a decision's context; -infinity for labels not possible then."""
        indices, values = decision.row
        rows = rows_of(indices, values, np.array([0, len(indices)]))
        scores = self._score(rows)[0][0].astype(np.float64)
        possible = range(decision.size) if decision.among is None else decision.among
        scores[sorted(set(range(self._size)) - set(possible))] = -np.inf
        return scores

    def _as_then(self, decision: Decision) -> tuple[Work, int]:
        """Scratch space and the number of possible labels, as at the time of the decision."""
        places = decision.among
        if places is None:
            if decision.size == self._size:
                return self._work, self._size
            places = range(decision.size)
        return self._restricted(places), len(places)

    def _places(self, among: Iterable[Any]) -> tuple[int, ...]:
        if isinstance(among, str | bytes) or not isinstance(among, Iterable):
            raise TypeError(f"among must be a list of labels, not {shown(among)}")
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

    # Reading the state.

    @property
    def labels(self) -> list[Any]:
        """The labels, in order."""
        return list(self._labels.names)

    @property
    def one_right(self) -> float | None:
        """The belief that exactly one label is right in each round, and not each label by itself.

        None: the learner does not ask; only OneBit does.
        """
        with self._lock:
            return self._storage.one_right(self._state.held)

    @property
    def weights(self) -> np.ndarray:
        """The effective weights [label, feature]: a copy."""
        with self._lock:
            return self._weights()

    def predict(self, X: Any) -> np.ndarray:
        """The greedy labels of many rows, without exploration. The learner does not change."""
        warn_of_categories(X)
        with self._lock:
            return np.asarray(self._labels.names)[self._score(X)[1]]

    def scores(self, X: Any) -> np.ndarray:
        """The scores [row, label] by which `predict` chooses."""
        warn_of_categories(X)
        return self._score(X)[0]

    def probabilities(self, X: Any) -> np.ndarray:
        """The estimated chance [row, label] that a label is right; NaN for an empty context, but
        not from OneBit, which learns from empty contexts, too.

        Only for learners whose scores are such estimates: OneBit and the regressions. Labels are
        estimated one by one, so the chances of a row need not sum to 1.
        """
        warn_of_categories(X)
        rows = self.rows(X)
        are_told = (np.diff(rows.indptr) > 0) | self.hears_empty
        return self._chances(self._score(rows)[0], are_told)

    def _chances(self, scores: np.ndarray, are_told: Any = True) -> np.ndarray:
        """Scores as chances of being right. are_told: False where a context is empty."""
        if self._chance is None:
            raise TypeError(
                f"the scores of {type(self).__name__} only order the labels: they do not estimate "
                "how likely a label is right. OneBit, Confidit, FastCB and SquareCB estimate it"
            )
        low, factor = self._chance
        chances = np.clip((scores.astype(np.float64) - low) * factor, 0.0, 1.0)
        chances[~np.broadcast_to(are_told, len(chances))] = np.nan
        return chances

    def propensities(self, x: Any, *, among: Iterable[Any] | None = None) -> np.ndarray:
        """The probability of each label to be said now for a context, in the order of `labels`."""
        (indices, values), _, x, columns, _ = self.reader.one(x, self)
        met = self._after_meeting(columns)
        if met is not self:
            return met.propensities(x, among=among)
        with self._lock:
            if self.round >= self._fades_at:  # `decide` would fade first; here a copy does
                faded = self.copy()
                faded._fade(self.round)
                return faded.propensities((indices, values), among=among)
            places = range(self._size) if among is None else self._places(among)
            work, count = self._restricted(places), len(places)
            return self._law(work, indices, values, self.round, count)

    def _propensities_then(self, decision: Decision) -> np.ndarray:
        """The probability of each label to be said in the last decision."""
        with self._lock:
            work, count = self._as_then(decision)
            return self._law(work, *decision.row, decision.round, count)

    def _law(
        self, work: Work, indices: np.ndarray, values: np.ndarray, round: int, count: int
    ) -> np.ndarray:
        row = Rows(indices, values, np.array([0, len(indices)]), self.reader.way.width(indices))
        reader, state, row = self._to_read(row)
        work, fill = reader._work._replace(mask=work.mask), reader._entries.propensities
        fill(self._params, state, work, *row[:2], self._draws, round, count)
        return work.propensities[: self._size].copy()

    def explain(self, x: Any, *, among: Iterable[Any] | None = None) -> Explanation:
        """Which label would be said for a context, and which parts of the context support it.

        A part is a word of a text, a name of a dict or a column. Its support is the amount by which
        the label's lead over the best other label would fall without the part. OneBit also tells
        the probability of each label to be right. `print` shows the explanation in a few lines.
        """
        x = x.tocsr() if hasattr(x, "tocsr") else self.reader.in_columns(x, self)
        with self._lock:
            learner = self._after_meeting(columns_of(x))
            if self.round >= self._fades_at:  # `decide` would fade first; here a copy does
                learner = self.copy() if learner is self else learner
                learner._fade(self.round)
            return explain(learner, x, among)

    def _score(
        self, X: Any, possible: Sequence[int] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The scores of many rows, and the places of their greedy labels.

        possible: the places of the labels that may be said, if not all may.
        """
        rows = self.rows(X)
        met = self._after_meeting(rows.columns)
        if met is not self:
            return met._score(rows, possible)
        with self._lock:
            reader, state, rows = self._to_read(rows)
            size = len(rows.indptr) - 1
            scores, places = np.empty((size, self._size), self._dtype), np.empty(size, np.int64)
            work = reader._work if possible is None else reader._restricted(possible)
            records = (reader._params, state, work)
            args = (*records, rows.indices, rows.values, rows.indptr, self.round, scores, places)
            reader._storage.guarded(direct(score_rows, reader._kind, *args))(*args)
            return scores, places

    def _to_read(self, rows: Rows) -> tuple[Learner, Any, Rows]:
        """This learner or a copy, with a state and rows to be scored. Nothing learned changes.

        A feature that never occurred has the initial values, as if `decide` had made room for it.
        """
        if rows.width > len(self._state.table) and not self._storage.shares_blank:
            self._check_width(rows.width, False)
            wider = self.copy()
            wider._reserve(rows.width)
            return wider._to_read(rows)
        self._make_room_to_scale(int(np.diff(rows.indptr).max(initial=0)))
        return self, *self._found(rows)

    def rows(self, X: Any) -> Rows:
        """Many contexts as the learner reads them now, checked."""
        return self.reader.many(X, self)

    def has_learned(self) -> bool:
        """Whether anything was learned: the state differs from the initial one."""
        with self._lock:
            return self._has_learned()

    def knows_numbers(self) -> bool:
        """Whether the learner has learned the scales of numbers of dicts."""
        return type(self._scales) is Names and self._scales.lines[0, TIMES] > 0

    def _after_meeting(self, columns: int) -> Learner:
        """The learner after dense rows of so many columns came; it does not change itself."""
        if not (columns and self.reader.way.is_open):
            return self
        met = self.copy()
        met._meet(columns)
        return met

    def _way(self) -> Raw:
        """How contexts are read, from what the learner knows."""
        if self._reads_columns:
            return Columns(self.features, self._column_count)
        if type(self._scales) is Names:
            return (Open if self.inputs == "auto" else Apart)(self._dtype, self.features, MARK)
        return (Unit if self.inputs == "unit" else Raw)(self._dtype, self.features)

    def __dir__(self) -> list[str]:
        """What is for users; the rest is for authors of learners."""
        names = set(super().__dir__())
        return sorted(name for name in names - _FOR_AUTHORS if not name.startswith("_"))

    def __repr__(self) -> str:
        settings = "".join(f", {name}={value!r}" for name, value in self.settings.items())
        short = len(self._labels) <= 6 and not self._labels.counted
        labels = self._labels.names if short else len(self._labels)
        name = type(self).__name__
        return f"{name}(labels={labels}{settings}, seed={self.seed}, round={self.round})"

    # Labels and forgetting.

    def add_label(self, label: str | int | None = None) -> None:
        """Add a label. The learned state of the other labels stays the same."""
        check_texts([label])
        self._add_label(label)

    def _add_label(self, label: str | int | None) -> None:
        with self._lock:
            table, memory = self._state.table[:, :, : self._size], self._state.memory
            arrays = self._storage.arrays(self._state.held, len(table), self._size)
            before = dict(self.__dict__)
            self._labels.add(label)
            try:
                self._lay_out(table, memory, arrays)
            except BaseException:
                self._labels.drop_last()
                self.__dict__.update(before)
                raise

    def forget(self, share: float = 1.0) -> None:
        """Weaken the learned state, as if only 1 - share of the feedback had been seen.

        For data that have changed. A share of 1 resets the state. The round number stays, and open
        decisions can still be learned from.
        """
        share = real("share", share, least=0, most=1)
        if share == 0:
            return
        with self._lock:
            table, memory = self._state.table[:, :, : self._size], self._state.memory.copy()
            features = len(table)
            arrays = self._storage.arrays(self._state.held, features, self._size)
            met = np.arange(features)
            if share == 1:
                self.reader.taught_with, memory[:] = "", 0
                self._storage.start_afresh()
                table, arrays, met = table[:0], {}, met[:0]
            elif arrays:
                memory *= 1 - share
                try:
                    table, arrays = self._storage.faded(table, arrays, 1 - share)
                except np.linalg.LinAlgError:
                    raise ValueError(
                        "the learned state cannot be weakened: its matrices are too near to "
                        "singular; forget() with share=1 resets it"
                    ) from None
            else:  # most features may never have occurred: only those that did fade
                prior = np.array(self._fill()[: self.planes], self._dtype)[:, None]
                met = self._order()  # sums must not depend on when features occurred
                met = met[(table[met] != prior).any(axis=(1, 2))]
                table, memory = self._faded(table[met].astype(np.float64), memory, 1 - share)
            if self._scales is not None:
                lines = faded(self._scales.lines, 1 - share)
                self._scales = self._scales._replace(lines=lines)
            self._lay_out(self._no_weights(), memory, {})
            self._reserve(features, arrays)
            # What fades on and on would end as numbers so small that machines are slow with them.
            tiny = np.finfo(self._dtype).tiny
            for rows in row_blocks(table):
                block = np.where(np.abs(table[rows]) < tiny, 0, table[rows])
                self._buffer[met[rows], :, : self._size] = block
            self._make_room_to_scale(0)

    def _fade(self, round: int) -> None:
        """Make the steps of fading that are due before this round."""
        half_life: Any = self.half_life
        due = STEPS * round // half_life - STEPS * self._fades_at // half_life + 1
        self.forget(1 - 0.5 ** (due / STEPS))
        self._fades_at = self._next_fade(round)

    def _will_forget(self, right: bool | None) -> bool:
        """Whether learning an answer may change all weights. right: None for a named label."""
        rings = self.alarm.will_ring(self._state.memory, right)
        return rings or self.round >= self._fades_at

    def _next_fade(self, round: int) -> int:
        """The next round before which the state fades; it depends only on the round."""
        if self.half_life is None:
            return NEVER
        steps = STEPS * round // self.half_life + 1
        return -(-steps * self.half_life // STEPS)

    def _no_weights(self) -> np.ndarray:
        return np.empty((0, self.planes, 0), self._dtype)

    def _lay_out(
        self, table: np.ndarray, memory: np.ndarray, arrays: dict[str, np.ndarray]
    ) -> None:
        """Make a new state from weights [feature, plane, label], of all labels or fewer."""
        self._size = len(self._labels)
        check = None if self._scales is not None else self._storage.check  # any row can be scaled
        self.reader = self.reader.reading(self._way(), check)
        lanes = lanes_for(self._size)
        self._buffer = np.empty((0, self.planes, lanes), self._dtype)
        rows = self._most_rows
        self._check_memory(self.features or rows)
        is_new = rows > 0 and not len(self._slots)
        self._blank_map = widened(no_slots(), self._most_features) if is_new else None
        self._whole = aligned_zeros((rows + BLANKS, self.planes, lanes), self._dtype)
        self._buffer = self._whole[:rows]
        held = self._storage.lay_out({}, 0, self._size)
        self._state = state_type(lanes)(self._whole[:0], memory.copy(), held)
        self._reserve(len(table), arrays)
        self._buffer[: len(table), :, : table.shape[2]] = table
        scores, widths, bounds, mask = (aligned_zeros((lanes,), self._dtype) for _ in range(4))
        mask[self._size :] = -np.inf
        no_places = np.zeros(0, np.uint32)
        propensities, slots = np.zeros(lanes), self._slots
        self._work = Work(scores, widths, bounds, mask, propensities, slots, no_places)
        self._make_room_to_scale(0)
        records = (self._params, self._state, self._work)
        kinds = (*map(type, (self._params, self._state, self._state.held, self._scales)),)
        self._kind = (*kinds, self._dtype)
        self._entries = Entries(self._kind, self._storage.guarded, self.reader.way.dtype, *records)

    # Methods that an algorithm may override.

    def _check_settings(self) -> None:
        """Refuse settings that contradict each other."""

    def _make_storage(self) -> Storage:
        """The storage: the state besides the table."""
        return TABLE

    def _meet(self, columns: int) -> None:
        """A context comes, a dense row of so many columns; 0: it is of another kind."""
        if columns and self.reader.way.is_open:
            self.reader.check_open_to(columns, self)
            self._check_width(columns, False)
            self._read_columns(columns)

    def _read_columns(self, columns: int) -> None:
        """Start anew, as a learner of dense rows of so many columns."""
        storage = self._storage.for_columns(columns)
        if storage is None:
            self._start_scales(columns)
        else:
            self._use(storage)

    def _has_learned(self) -> bool:
        """Whether anything was learned: the state differs from the initial one."""
        if self.round == 0 or self.knows_numbers():
            return self.round > 0
        table, memory, held = self._state
        size, storage = (len(table), self._size), self._storage
        initial = storage.arrays(storage.lay_out({}, *size), *size)
        learned = storage.arrays(held, *size)
        prior = np.array(self._fill()[: self.planes], self._dtype)[:, None]
        return (
            not np.array_equal(memory, self._memory())
            or learned.keys() != initial.keys()
            or any(not np.array_equal(learned[name], initial[name]) for name in initial)
            or any((table[rows, :, : self._size] != prior).any() for rows in row_blocks(table))
        )

    def _start_scales(self, columns: int | None) -> None:
        """Start with scales for dense rows of so many columns; 0: for other contexts."""
        before = dict(self.__dict__)
        try:
            self._slots = no_slots()
            if columns:
                self._scales = scales_of_columns(np.zeros((columns + 1, STATISTICS)), self._dtype)
            else:
                self._scales = scales_of_names(self._dtype)
            self._lay_out(self._no_weights(), self._state.memory, {})
            self._reserve(columns + 1 if columns else self.features or 0)
        except BaseException:
            self.__dict__.update(before)
            raise

    def _use(self, storage: Storage) -> None:
        """Start anew with another storage."""
        before = dict(self.__dict__)
        self._storage, self._slots = storage, no_slots()
        self.planes = storage.planes or 0  # type: ignore[misc] overrides the class attribute
        try:
            self._lay_out(self._no_weights(), self._state.memory, {})
        except BaseException:
            self.__dict__.update(before)
            raise

    def _make_params(self) -> Any:
        """The record of settings for compiled code."""
        return self.Params(*(getattr(self, name) for name in self.Params._fields))

    def _fingerprint(self) -> bytes:
        """Identifies learners that can learn from each other's decisions."""
        settings = {name: value for name, value in self.settings.items() if name != "vocabulary"}
        identity = [type(self).__name__, settings, self.seed, self.dtype, self.features]
        whole = hashlib.blake2b(msgspec.json.encode(identity), digest_size=8).digest()
        own = self._storage.identity
        return hashlib.blake2b(whole + own, digest_size=8).digest() if own else whole

    def _found_rates(self) -> tuple[float, float] | None:
        """How often feedback is flipped, if the learner has estimated it."""
        with self._lock:
            return self._storage.rates(self._state.held)

    def _memory(self) -> tuple[float, ...]:
        """The initial values of a few numbers besides the table."""
        return ()

    def _pause(self, is_live: bool = False) -> bool:
        """Do what a loop over rounds has to stop for (`core.rounds.must_pause`); False: nothing.

        is_live: no loop has stopped; somebody answers round by round.
        """
        share = self.alarm.stop(self._state, self._storage)
        if share:
            self.forget(share)
            return True
        held = self._storage.pause(self._state.held, is_live)
        if held is None:
            return False
        self._state = self._state._replace(held=held)
        return True

    def _count_said(self, place: int, times: int) -> None:
        """Add to the number of times that a label was said, if the state counts it."""
        self._storage.count_said(self._state.held, place, times)

    def _params_for_truth(self) -> Any:
        """The settings for learning from a label that somebody named."""
        return self._params

    def _faded(
        self, table: np.ndarray, memory: np.ndarray, keep: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Table and memory with only a share of the evidence kept."""
        if self.planes == 2:  # w = b/A and 1/A: b and what A has beyond its prior are sums
            # In this form a prior never changes, to the last bit.
            prior = float(self._dtype.type(self._fill()[1]))
            grown = keep + (1 - keep) * (table[:, 1] / prior)
            table[:, 0] *= keep / grown
            table[:, 1] /= grown
            return table, keep * memory
        return keep * table, keep * memory

    def _is_sound(self, table: np.ndarray, memory: np.ndarray) -> bool:
        """Whether learning can produce such numbers, up to rounding; a check of model files."""
        if self.planes == 2 and type(self)._faded is Learner._faded and self._fill()[1] > 0:
            prior = self._fill()[1]
            return bool(((table[:, 1] >= 0) & (table[:, 1] <= prior * (1 + 1e-5))).all())
        return True

    def _mended(
        self, table: np.ndarray, memory: np.ndarray, arrays: dict[str, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """Loaded numbers; derived ones are computed again if they do not match the others."""
        table, arrays = self._storage.mended(table, arrays)
        return table, memory, arrays

    def _given(self) -> dict[str, Any]:
        """Settings that a file cannot store; `load` needs them again."""
        return dict(self._storage.unsaved)

    @classmethod
    def _settings_beside(
        cls, head: dict[str, Any], arrays: dict[str, np.ndarray], given: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Settings that are not in the head: from the arrays of a model, and arguments of `load`.

        A ValueError says which setting is missing or not wanted.
        """
        for name, function in given.items():
            saved = head["settings"].get(name)
            if not isinstance(saved, str) or not saved.startswith(CALLABLE):
                raise ValueError(f"this {cls.__name__} was saved completely: leave out {name}")
            if not callable(function):
                raise ValueError(f"{name} must be a function again, not {shown(function)}")
            if called(function) != saved:
                raise ValueError(f"it was saved with {name} {saved!r}, not {called(function)!r}")
        return dict(given)

    def _weights(self) -> np.ndarray:
        """The effective weights [label, feature]."""
        if self.planes:
            return self._plane(0)
        return self._storage.weights(self._state.held, self._size)

    def _table(self) -> np.ndarray:
        """The table without its padding, in the order of the features."""
        table, order = self._state.table, self._order()
        found = np.empty((len(order), table.shape[1], self._size), table.dtype)
        for rows in row_blocks(found):  # other threads may run in between
            found[rows] = table[order[rows], :, : self._size]
        return found

    def _arrays(self) -> dict[str, np.ndarray]:
        """The arrays of the storage, without padding, in the order of the features."""
        order = self._order()
        arrays = self._storage.arrays(self._state.held, len(order), self._size)
        return self._storage.moved(arrays, np.argsort(order))

    def _plane(self, plane: int) -> np.ndarray:
        """One plane [label, feature], without padding."""
        features, order = self._own_features()
        found = np.empty((self._size, width_of(features)), self._dtype)
        found[:] = self._fill()[plane]
        found[:, features] = self._state.table[order, plane, : self._size].T
        return found

    # Saving.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the learner to a file, atomically; `onebit.load` reads it."""
        head, arrays = self._dump()
        # `load` would refuse the file, which may replace a good one.
        files.check_finite(arrays, self._storage.with_gaps)
        files.write(path, head, arrays)

    def reload(self, path: str | os.PathLike[str]) -> None:
        """Replace the learned state by that in a file, which another process saved.

        The file must be of the same model. Salt and rounds stay. Anything learned here since the
        last `reload` or `load` is lost. Threads that reload at the same time take turns, so the
        file that was read last is used.
        """
        with self._reload_lock:
            head, arrays = files.read(path)
            newer = Learner._restore(head, arrays, self._given(), type(self), is_foreign=True)
            if newer._origin != self._origin:
                raise ValueError(
                    f"{os.fspath(path)}: another model, or one with other settings or another seed"
                )
            newer._set_salt(self.salt)
            with self._lock:
                kept = ("_lock", "_reload_lock", "_acquire", "_release")
                newer.__dict__ |= {name: self.__dict__[name] for name in kept}
                newer.round = max(self.round, newer.round)
                newer.reader.remember(self.reader.columns, self.reader.names)
                newer.reader.taught_with = newer.reader.taught_with or self.reader.taught_with
                self.__dict__ = newer.__dict__

    def _with_vocabulary(self, vocabulary: int) -> Learner:
        """This learner with another vocabulary, but at least for all features that it has."""
        vocabulary = max(vocabulary, self._own_rows, 1)
        if vocabulary == self.vocabulary:
            return self
        head, arrays = self._dump()
        head["settings"] = {**head["settings"], "vocabulary": vocabulary}
        return Learner._restore(head, arrays, self._given(), type(self))

    def copy(self) -> Learner:
        """An independent learner with the same state."""
        return Learner._restore(*self._dump(), self._given(), type(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return Learner._restore, (*self._dump(), self._given(), type(self))

    def _dump(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        with self._lock:
            self._storage.catch_up(self._state.held)
            return files.dump(self)

    _restore = staticmethod(files.restore)

    def _set_salt(self, salt: str) -> None:
        """Decide with another salt from now on."""
        if salt != self.salt:
            self._other_answers.give(self.salt, self._answers.pages(self.round))
            self._answers = Answers.of_pages(self._other_answers.take(salt), self.round)
            self.salt, self._draws = salt, salted(self.seed, salt)


def _only_labels(kind: type[Learner], labels: tuple[Any, ...], given: dict[str, Any]) -> Any:
    """The labels among the arguments of a constructor; they are taken out of `given`."""
    name = kind.__name__
    if not labels and "labels" not in given:
        near = difflib.get_close_matches("labels", given, n=1)
        meant = f"; did you mean labels= by {near[0]}=?" if near else ""
        raise TypeError(
            f"{name} needs the labels: a list of them, {name}(labels=['yes', 'no']), or their "
            f"number, {name}(labels=2){meant}"
        )
    if len(labels) + ("labels" in given) > 1:
        example = next((setting for setting in kind.declared if setting not in SHARED), "seed")
        raise TypeError(
            f"{name} takes the labels as one list, and settings by name, such as {example}=..."
        )
    return labels[0] if labels else given.pop("labels")


def _listed(more: tuple[Any, ...], unknown: Mapping[str, Any]) -> str:
    """Arguments that a call does not take."""
    return ", ".join([*map(shown, more), *(f"{name}=" for name in unknown)])


def precision(asked: Any) -> np.dtype:
    """The dtype of the weights, from its name or from a numpy type."""
    name = asked if isinstance(asked, str) else getattr(asked, "__name__", str(asked))
    return np.dtype(choice_of("dtype", name, ("float32", "float64")))


def _is_said(silence: Any) -> bool:
    return bool(silence) if isinstance(silence, np.bool_) else flag("silence", silence)
