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
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Never

import msgspec
import numpy as np

from onebit.core.jit import direct, plain
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
    MARK,
    no_slots,
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
from onebit.learner.table import NO_MAP, Filling, Shape, Table
from onebit.learner.warming import warm_up
from onebit.reading.contexts import check_kind, columns_of
from onebit.reading.frames import names_of, warn_of_categories
from onebit.reading.reader import Reader
from onebit.reading.rows import Rows, rows_of
from onebit.reading.ways import Apart, Columns, Open, Raw, Unit
from onebit.storage.base import TABLE, Storage, row_blocks
from onebit.storage.scales import (
    STATISTICS,
    Names,
    faded,
    scales_of_columns,
    scales_of_names,
)
from onebit.storage.scales import Columns as ColumnScales

Labels = int | Sequence[str] | Sequence[int]
Row = tuple[Any, Any]  # indices and values


STEPS = 16  # of fading per half-life
NEVER = 2**63

# What a class says about its algorithm, and compiled code: names that are not for users.
_FOR_AUTHORS = {
    "BITS",
    *("has_learned", "knows_numbers", "reader", "rows", "table"),
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


class Learner(Declared):
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
        storage = self._make_storage()
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
        self.salt, self._draws = "", self.seed
        if storage.planes is not None:
            self.planes = storage.planes  # type: ignore[misc] overrides the class attribute
        self._rescores = self.rescores or storage.rescores
        self._dtype = precision(storage.dtype if self.dtype is None else self.dtype)
        self.dtype = self._dtype.name  # type: ignore[assignment]
        self.round = 0
        self._fades_at = self._next_fade(0)
        self._answers, self._other_answers = Answers(), OtherAnswers()
        self._renew_locks()
        _ALIVE.add(self)
        dense = self.features if self.inputs == "dense" else 0
        if keeps_scales and dense is None:
            raise ValueError("inputs='dense' needs features=, the number of columns")
        scales = self._scales_for(dense) if keeps_scales else None
        self.reader = Reader(self._way(storage, scales), None, self.features or 0)
        features = dense + 1 if dense and keeps_scales else self.features or 0
        memory = np.array(self._memory(), np.float64)
        self._lay_out(storage, scales, memory, {}, NO_MAP, features)
        self._origin = self._fingerprint()

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
        reader = self.reader
        way = reader.way
        row, kind, x, columns, names = reader.one(x, self)
        indices, values = row
        try:
            self._acquire()
            places = None if among is None else self._places(among)
            round = self.round
            if way.is_scaled:
                row = indices, values = self._met(x, row, columns, way)
            if round >= self._fades_at:
                # May be refused: before anything changes.
                row = indices, values = self.table.fitted(row)
                self.table.reserve_for(indices, columns)
                self._fade(round)
            table = self.table
            if places is None:
                work, count = table.work, table.size
            else:
                work, count = table.restricted(places), len(places)
            decide, params, seed = self._entries.decide, self._params, self._draws
            while True:
                label, greedy, propensity, note, other, score = decide(
                    params, table.state, work, indices, values, seed, round, count
                )
                if label != NO_ROOM:
                    break
                row = indices, values = table.fitted(row)
                work = table.reserve_for(indices, columns, work)
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
                table.size, places, self._origin, self.salt, confidence, kind,
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
        self.table.make_room_to_scale(len(row[0]))
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
            if not self.table.has_room_for(row[0]):
                return self._read_decision(row, kind, among)
            columns, names = self.reader.columns, self.reader.names
            decision = self.decide(x, among=among)
            self._count_said(decision.place, -1)
            self.reader.columns, self.reader.names = columns, names
            self.round -= 1
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
        count = self.table.size if places is None else len(places)
        row = indices, values = self.table.fitted(row)
        rows = Rows(indices, values, np.array([0, len(indices)]), self.reader.way.width(indices))
        reader, state, rows = self._to_read(rows)
        table = reader.table
        work = table.work if places is None else table.restricted(places)
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
            self.table.size, places, self._origin, self.salt, confidence, kind,
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
            self.table.reserve_for(decision.row[0], columns)
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
            self.table.storage.catch_up(self.table.state.held)
            right, named = self._understood(place, right, label)
            own = self.decide(x, among=None if among is None else [*among, said])
            self._count_said(own.place, -1)
            self._count_said(place, 1)
            logged = own if place == own.place else self._had_it_said(own, place)
            logged = msgspec.structs.replace(logged, propensity=propensity)
            memory = self.table.state.memory.copy()
            if not self._thins or _is_taken(self._hearing, self._draws, own.round, right):
                if named is None:
                    self._learn_bit(logged, self._draws, right, said=False)
                else:
                    self._learn_label(logged, self._draws, named, said=False)
                if self.table.scales is not None:
                    self._learn_scales(logged, self._draws, right)
            self._answers.mark(own.round, self.round)
            if place != own.place:
                self.alarm.take_back(self.table.state.memory, memory)
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
                self.table.storage.catch_up(self.table.state.held)
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
            kind, taught_with = decision.kind, self.reader.taught_with
            if kind != taught_with:
                check_kind(kind, taught_with)
            if round >= self._fades_at:
                self._vet(decision)
                self.table.reserve_for(indices)  # may be refused: before anything changes
                self._fade(round)
                taught_with = self.reader.taught_with
            table = self.table
            seed = self._draws if own else salted(self.seed, decision.salt)
            if self._thins and not _is_taken(self._hearing, seed, round, right):
                pass
            elif place is not None:
                self._learn_label(decision, seed, place)
            elif (
                decision.among is not None
                or decision.size != table.size
                or self._entries.learn(  # the usual case of _learn_bit, without another call
                    self._params, table.state, table.work, indices, values,
                    seed, round, table.size, decision.place, decision.greedy_place,
                    decision.propensity, decision.note, decision.other, True, self._rescores, right,
                ) < 0
            ):  # fmt: skip
                self._learn_bit(decision, seed, right)
            if table.scales is not None:
                self._learn_scales(decision, seed, right)
            if round >= self.round:  # made by another process, which was ahead
                self.round = round + 1
            if not own:
                self._other_answers.mark(decision.salt, round, self.round)
            elif round == answers.next:  # in order, as usual
                answers.next = round + 1
            else:
                answers.mark(round, self.round)
            if not taught_with:
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
        if self.table.is_limited:
            self.table.merged(self.rows([x]), self.table.slots, 0)

    def _fitted_decision(self, decision: Decision) -> Decision:
        """A decision with its context as the table has room for it now."""
        row = self.table.fitted(decision.row)
        return decision if row is decision.row else msgspec.structs.replace(decision, row=row)

    def _vet(self, decision: Decision) -> None:
        """Refuse a decision that nobody can have made, before anything changes."""
        if self.table.scales is not None:
            self.table.make_room_to_scale(len(decision.row[0]))
        work, count = self._as_then(decision)
        if not self._entries.vet(
            self._params, self.table.state, work, *decision.row, self.seed, decision.round, count,
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
                params, self.table.state, work, indices, values, seed, decision.round, count,
                decision.place, decision.greedy_place, decision.propensity, decision.note,
                decision.other, said, self._rescores, right,
            )  # fmt: skip
            if done == FORGED:
                raise self._forged(decision)
            if done != NO_ROOM:
                return
            work = self.table.reserve_for(indices, work=work)

    def _learn_scales(self, decision: Decision, seed: int, right: bool) -> None:
        """Take a row into the scales, if it was learned from."""
        if self._thins and not _is_taken(self._hearing, seed, decision.round, right):
            return
        row, round = decision.row, decision.round
        work = self.table.reserve_for(row[0])
        learn = self._entries.learn_scales
        learn(self._params, self.table.state, work, *row, self._draws, round, self.table.size)

    def _learn_label(self, decision: Decision, seed: int, place: int, said: bool = True) -> None:
        if self.full_information:
            row, round = decision.row, decision.round
            self.table.reserve_for(row[0])
            work, count = self._as_then(decision)
            learn = self._entries.learn_label
            learn(self._params, self.table.state, work, *row, seed, round, count, place)
            return
        truth = self._params_for_truth()
        if place == decision.place:
            self._learn_bit(decision, seed, True, truth, said)
            return
        if not self.importance_weighted:
            self._learn_bit(decision, seed, False, truth, said)
        if self.infers_the_other and self._were_two(decision, place):
            return
        memory = self.table.state.memory.copy()
        self._learn_bit(self._had_it_said(decision, place), seed, True, truth, said=False)
        self.alarm.take_back(self.table.state.memory, memory)

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
            size=size if place < size else self.table.size,
        )

    def _present_scores(self, decision: Decision) -> np.ndarray:
        """The present scores of a decision's context; -infinity for labels not possible then."""
        indices, values = decision.row
        rows = rows_of(indices, values, np.array([0, len(indices)]))
        scores = self._score(rows)[0][0].astype(np.float64)
        possible = range(decision.size) if decision.among is None else decision.among
        scores[sorted(set(range(self.table.size)) - set(possible))] = -np.inf
        return scores

    def _as_then(self, decision: Decision) -> tuple[Work, int]:
        """Scratch space and the number of possible labels, as at the time of the decision."""
        places = decision.among
        if places is None:
            if decision.size == self.table.size:
                return self.table.work, self.table.size
            places = range(decision.size)
        return self.table.restricted(places), len(places)

    def _places(self, among: Iterable[Any]) -> tuple[int, ...]:
        if isinstance(among, str | bytes) or not isinstance(among, Iterable):
            raise TypeError(f"among must be a list of labels, not {shown(among)}")
        places = tuple(sorted({self._labels.place(label) for label in among}))
        if not places:
            raise ValueError("among is empty: at least one label must be possible")
        return places

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
            return self.table.storage.one_right(self.table.state.held)

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
            places = range(self.table.size) if among is None else self._places(among)
            work, count = self.table.restricted(places), len(places)
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
        work, fill = reader.table.work._replace(mask=work.mask), reader._entries.propensities
        fill(self._params, state, work, *row[:2], self._draws, round, count)
        return work.propensities[: self.table.size].copy()

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
            scores, places = (
                np.empty((size, self.table.size), self._dtype),
                np.empty(size, np.int64),
            )
            table = reader.table
            work = table.work if possible is None else table.restricted(possible)
            records = (reader._params, state, work)
            args = (*records, rows.indices, rows.values, rows.indptr, self.round, scores, places)
            table.storage.guarded(direct(score_rows, reader._kind, *args))(*args)
            return scores, places

    def _to_read(self, rows: Rows) -> tuple[Learner, Any, Rows]:
        """This learner or a copy, with a state and rows to be scored. Nothing learned changes.

        A feature that never occurred has the initial values, as if `decide` had made room for it.
        """
        if rows.width > len(self.table.state.table) and not self.table.storage.shares_blank:
            self.table.check_width(rows.width, False)
            wider = self.copy()
            wider.table.reserve(rows.width)
            return wider._to_read(rows)
        self.table.make_room_to_scale(int(np.diff(rows.indptr).max(initial=0)))
        return self, *self.table.found(rows)

    def rows(self, X: Any) -> Rows:
        """Many contexts as the learner reads them now, checked."""
        return self.reader.many(X, self)

    def has_learned(self) -> bool:
        """Whether anything was learned: the state differs from the initial one."""
        with self._lock:
            if self.round == 0 or self.table.knows_numbers():
                return self.round > 0
            if self.hears_empty and self.reader.way.is_open and not self.reader.taught_with:
                return False  # only from empty contexts, which are of any kind
            return self.table.differs_from(np.array(self._memory()))

    def knows_numbers(self) -> bool:
        """Whether the learner has learned the scales of numbers of dicts."""
        return self.table.knows_numbers()

    def _after_meeting(self, columns: int) -> Learner:
        """The learner after dense rows of so many columns came; it does not change itself."""
        if not (columns and self.reader.way.is_open):
            return self
        met = self.copy()
        met._meet(columns)
        return met

    def _way(self, storage: Storage, scales: Any) -> Raw:
        """How contexts are read, with this storage and these scales."""
        if type(scales) is ColumnScales:
            return Columns(self.features, len(scales.row))
        if type(scales) is Names:
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
            table = self.table
            arrays = table.storage.arrays(table.state.held, len(table.state.table), table.size)
            self._labels.add(label)
            try:
                self._take(table, arrays)
            except BaseException:
                self._labels.drop_last()
                raise
            self.table.storage.meet_label(self.table.state, self.table.size)

    def forget(self, share: float = 1.0) -> None:
        """Weaken the learned state, as if only 1 - share of the feedback had been seen.

        For data that have changed. A share of 1 resets the state. The round number stays, and open
        decisions can still be learned from.
        """
        share = real("share", share, least=0, most=1)
        if share == 0:
            return
        with self._lock:
            table, memory = (
                self.table.state.table[:, :, : self.table.size],
                self.table.state.memory.copy(),
            )
            features = len(table)
            arrays = self.table.storage.arrays(self.table.state.held, features, self.table.size)
            met = np.arange(features)
            if share == 1:
                self.reader.taught_with, memory[:] = "", 0
                self.table.storage.start_afresh()
                table, arrays, met = table[:0], {}, met[:0]
            elif arrays:
                memory *= 1 - share
                try:
                    table, arrays = self.table.storage.faded(table, arrays, 1 - share)
                except np.linalg.LinAlgError:
                    raise ValueError(
                        "the learned state cannot be weakened: its matrices are too near to "
                        "singular; forget() with share=1 resets it"
                    ) from None
            else:  # most features may never have occurred: only those that did fade
                prior = np.array(self._fill()[: self.planes], self._dtype)[:, None]
                met = self.table.order()  # sums must not depend on when features occurred
                met = met[(table[met] != prior).any(axis=(1, 2))]
                table, memory = self._faded(table[met].astype(np.float64), memory, 1 - share)
            scales, known = self.table.scales, (self.table.slots, self.table.width)
            if scales is not None:
                scales = scales._replace(lines=faded(scales.lines, 1 - share))
            self._lay_out(self.table.storage, scales, memory, {}, known)
            self.table.reserve(features, arrays)
            # What fades on and on would end as numbers so small that machines are slow with them.
            tiny = np.finfo(self._dtype).tiny
            for rows in row_blocks(table):
                block = np.where(np.abs(table[rows]) < tiny, 0, table[rows])
                self.table.buffer[met[rows], :, : self.table.size] = block
            self.table.make_room_to_scale(0)
            self.table.hold_known_numbers()

    def _fade(self, round: int) -> None:
        """Make the steps of fading that are due before this round."""
        half_life: Any = self.half_life
        due = STEPS * round // half_life - STEPS * self._fades_at // half_life + 1
        self.forget(1 - 0.5 ** (due / STEPS))
        self._fades_at = self._next_fade(round)

    def _will_forget(self, right: bool | None) -> bool:
        """Whether learning an answer may change all weights. right: None for a named label."""
        rings = self.alarm.will_ring(self.table.state.memory, right)
        return rings or self.round >= self._fades_at

    def _next_fade(self, round: int) -> int:
        """The next round before which the state fades; it depends only on the round."""
        if self.half_life is None:
            return NEVER
        steps = STEPS * round // self.half_life + 1
        return -(-steps * self.half_life // STEPS)

    def _lay_out(
        self,
        storage: Storage,
        scales: Any,
        memory: np.ndarray,
        arrays: dict[str, np.ndarray],
        known: tuple[np.ndarray, int],
        features: int = 0,
        weights: np.ndarray | None = None,
    ) -> None:
        """Make a new state, with room for so many features. If it is refused, nothing changes.

        arrays, weights: of the storage, and of the table [feature, plane, label], which may be of
        fewer labels. known: the map of features and its width.
        """
        check = None if scales is not None else storage.check  # rows of any length are scaled
        reader = self.reader.reading(self._way(storage, scales), check)
        sizes = (self.features, self.vocabulary, type(self).planes, len(self._labels))
        shape = Shape(*sizes, self._dtype, self._filling())
        table = Table(shape, reader, storage, scales, memory, known)
        table.reserve(features, arrays)
        if weights is not None:
            table.buffer[: len(weights), :, : weights.shape[2]] = weights
        table.make_room_to_scale(0)
        kinds = (*map(type, (self._params, table.state, table.state.held, scales)),)
        self.reader, self.table, self._kind = reader, table, (*kinds, self._dtype)
        self.planes = table.planes  # type: ignore[misc] overrides the class attribute
        records = (self._params, table.state, table.work)
        self._entries = Entries(self._kind, storage.guarded, reader.way.dtype, *records)

    def _take(self, table: Table, arrays: dict[str, np.ndarray]) -> None:
        """Take over a table, perhaps of fewer labels, with these arrays of its storage."""
        weights, known = table.state.table[:, :, : table.size], (table.slots, table.width)
        memory, size = table.state.memory, len(weights)
        self._lay_out(table.storage, table.scales, memory, arrays, known, size, weights)

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
            self.table.check_width(columns, False)
            self._read_columns(columns)

    def _read_columns(self, columns: int) -> None:
        """Start anew, as a learner of dense rows of so many columns."""
        table = self.table
        storage = table.storage.for_columns(columns)
        if storage is not None:
            self._use(storage)
            return
        scales, memory = self._scales_for(columns), table.state.memory
        self._lay_out(table.storage, scales, memory, {}, NO_MAP, columns + 1)

    def _scales_for(self, columns: int | None) -> Any:
        """The first scales of dense rows of so many columns; 0: of other contexts."""
        if columns:
            return scales_of_columns(np.zeros((columns + 1, STATISTICS)), self._dtype)
        return scales_of_names(self._dtype)

    def _use(self, storage: Storage) -> None:
        """Start anew with another storage."""
        self._lay_out(storage, None, self.table.state.memory, {}, NO_MAP)

    @classmethod
    def _from_earlier(cls, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The arrays of an earlier version, with which a service goes on (`files.taken_over`)."""
        return arrays

    def _make_params(self) -> Any:
        """The record of settings for compiled code."""
        return self.Params(*(getattr(self, name) for name in self.Params._fields))

    def _fingerprint(self) -> bytes:
        """Identifies learners that can learn from each other's decisions."""
        settings = {name: value for name, value in self.settings.items() if name != "vocabulary"}
        identity = [type(self).__name__, settings, self.seed, self.dtype, self.features]
        whole = hashlib.blake2b(msgspec.json.encode(identity), digest_size=8).digest()
        own = self.table.storage.identity
        return hashlib.blake2b(whole + own, digest_size=8).digest() if own else whole

    def _found_rates(self) -> tuple[float, float] | None:
        """How often feedback is flipped, if the learner has estimated it."""
        with self._lock:
            return self.table.storage.rates(self.table.state.held)

    def _fill(self) -> tuple[float, ...]:
        """The initial value of each plane of the table."""
        return (0.0,) * self.planes

    def _filling(self) -> Filling:
        """`_fill`, as a function of the numbers besides the table."""
        values = self._fill()
        return lambda memory: values

    def _memory(self) -> tuple[float, ...]:
        """The initial values of a few numbers besides the table."""
        return ()

    def _pause(self, is_live: bool = False) -> bool:
        """Do what a loop over rounds has to stop for (`core.rounds.must_pause`); False: nothing.

        is_live: no loop has stopped; somebody answers round by round.
        """
        table = self.table
        share = self.alarm.stop(table.state, table.storage)
        if share:
            self.forget(share)
            return True
        held = table.storage.pause(table.state.held, is_live)
        if held is None:
            return False
        table.state = table.state._replace(held=held)
        return True

    def _count_said(self, place: int, times: int) -> None:
        """Add to the number of times that a label was said, if the state counts it."""
        self.table.storage.count_said(self.table.state.held, place, times)

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
        table, arrays = self.table.storage.mended(table, arrays)
        return table, memory, arrays

    def _given(self) -> dict[str, Any]:
        """Settings that a file cannot store; `load` needs them again."""
        return dict(self.table.storage.unsaved)

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
            return self.table.plane(0)
        return self.table.storage.weights(self.table.state.held, self.table.size)

    # Saving.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the learner to a file, atomically; `onebit.load` reads it."""
        head, arrays = self._dump()
        # `load` would refuse the file, which may replace a good one.
        files.check_finite(arrays, self.table.storage.with_gaps)
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
        vocabulary = max(vocabulary, self.table.own_rows, 1)
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
            self.table.storage.catch_up(self.table.state.held)
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
