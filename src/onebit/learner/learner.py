"""Learner: decide, learn, predict, save.

An algorithm is a subclass whose body has settings and compiled members (see `declared` and
`core.rounds`). This class is what users call. What its calls do is in modules of functions that
take the learner: `laying` (a new state), `forgetting`, `looking` (nothing changes), `learning` (an
answer), `logged`, `files`, `copies`. They use its public parts: `reader`, `table`, `calls`,
`params`, `label_set`, `fading`, `answers`, and the methods that an algorithm may override, which
are in `algorithm`.

The learned state is a table of weights, a few numbers, and the record of the storage. Learners
do not keep decisions that wait for feedback.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Never, overload

import numpy as np

from onebit.core.exploring import exploring
from onebit.core.settings import (
    Setting,
    flag,
    or_none,
    setting,
    shown,
    whole,
)
from onebit.learner import copies, files, lists, logged, making
from onebit.learner.algorithm import Algorithm
from onebit.learner.answered import Answers, OtherAnswers
from onebit.learner.calls import NO_ROOM, Calls
from onebit.learner.decision import Decision, check_salt, checked_decision, salted
from onebit.learner.declared import Declared
from onebit.learner.explanation import Explanation, explain
from onebit.learner.forgetting import STEPS, Fading, fade, forget, pause
from onebit.learner.labels import LabelNames, LabelSet, check_texts
from onebit.learner.laying import add_label, after_meeting, first_scales, lay_out, met
from onebit.learner.learning import (
    answered_before,
    fitted_decision,
    is_learned_from,
    learn_bit,
    learn_label,
    learn_scales,
    meaning_of_silence,
    understood,
    vet,
)
from onebit.learner.lists import ListDecision
from onebit.learner.looking import as_chances, places_of, propensities, score
from onebit.learner.making import precision
from onebit.learner.silence import Reading, hearing
from onebit.learner.table import NO_MAP, Table
from onebit.learner.teaching import teach
from onebit.learner.warming import warm_up
from onebit.reading.contexts import check_kind, columns_of
from onebit.reading.frames import warn_of_categories
from onebit.reading.reader import Reader
from onebit.reading.rows import Rows

Labels = LabelNames | Mapping[str, Any]  # a mapping: with a description of each label
# What a class says about its algorithm, and compiled code: names that are not for users.
_FOR_AUTHORS = {
    "BITS",
    *("answers", "calls", "chance_line", "draw_seed", "earlier_memories", "fading", "hearing"),
    *("has_learned", "knows_numbers", "label_set", "lock", "origin", "other_answers", "params"),
    *("reader", "rescores_now", "rows", "setting_values", "table", "thins"),
    *("Params", "could_say", "hear", "hear_label", "law", "lockstep", "lockstep_loop", "members"),
    *("alarm", "say", "score"),
    *("added_settings", "costly", "could_say_list", "declared", "entangled"),
    *("forecasts", "full_information", "hear_list", "hears_empty", "list_law"),
    *("importance_weighted", "infers_the_other", "may_pause", "mistake_bound", "needs", "planes"),
    *("no_lists", "rank", "ranges", "registry", "rescores", "say_list", "shows_lists"),
    *("scales_itself", "shares_chances", "variant_of"),
}

_ALIVE: weakref.WeakSet[Learner] = weakref.WeakSet()


def _renew_all_locks() -> None:
    """In a forked process, the threads that held the locks no longer exist."""
    for learner in list(_ALIVE):
        learner._renew_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all_locks)


class Learner(Algorithm, Declared):
    """The base class of all learners. Use one of its subclasses: `OneBit`, `Banditron`, ...

    labels: a list of strings or of ints, or their number (then they are 0, 1, 2, ...); for OneBit
    also a dict of strings and what they mean, {"refund": "money back for a purchase"}.
    examples: contexts of some of them, {label: [contexts]}, which are taught before the first
    round (`teach`). Every learner has the settings below.

    Threads may share a learner: calls run one after another. If several processes decide with the
    same model, each needs its own salt: see `onebit.load`.
    """

    if TYPE_CHECKING:  # the first argument of every learner
        _given_labels: Labels = setting(kw_only=False, alias="labels", doc="")
        _given_examples: Mapping[Any, Iterable[Any]] | None = setting(
            default=None, alias="examples", doc=""
        )

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

    explore: float = setting(
        default=0.0,
        least=0,
        below=1,
        doc="the share of rounds whose label is drawn at random, so that the decisions become a "
        "log by which other learners can be judged: four of five of these rounds among the labels "
        "that the forecasts cannot rule out, the others among all",
    )

    def __init__(
        self,
        *labels: Labels,
        examples: Mapping[Any, Iterable[Any]] | None = None,
        **given: Any,
    ) -> None:
        names, descriptions = making.described(making.given_labels(type(self), labels, given))
        self.label_set = LabelSet(names)
        self.setting_values: dict[Setting, Any] = {}
        making.take_settings(self, given)
        self._check_settings()
        forecasts: tuple[float, float] | None = self.forecasts
        self.chance_line = forecasts and (forecasts[0], 1.0 / (forecasts[1] - forecasts[0]))
        storage = self._make_storage()
        self.params = exploring(self._make_params(), self.explore, self.chance_line)
        self.silence, self.hearing = hearing(self.silence)
        if self.hearing.silence_is_wrong and self.full_information:
            raise ValueError(
                f"{type(self).__name__} learns from the true label, and silence does not name it: "
                "silence='wrong' is for learners that receive right or wrong"
            )
        self.thins = min(self.hearing[1:]) < 1
        keeps_scales = self.inputs in ("auto", "dense", "sparse") and not self.scales_itself
        needs_more = self.full_information or self.thins or keeps_scales or storage.works_beside
        self._hears_bits = not needs_more  # `learn` need not look at more than the bit
        self.settings = making.settings_to_save(self, storage)
        self.salt, self.draw_seed = "", self.seed
        if storage.planes is not None:
            self.planes = storage.planes  # type: ignore[misc] overrides the class attribute
        self.rescores_now = self.rescores or storage.rescores
        self._dtype = precision(storage.dtype if self.dtype is None else self.dtype)
        self.dtype = self._dtype.name  # type: ignore[assignment]
        self.round, self.fading = 0, Fading(self.half_life)
        self.answers, self.other_answers = Answers(), OtherAnswers()
        self._renew_locks()
        _ALIVE.add(self)
        dense = self.features if self.inputs == "dense" else 0
        if keeps_scales and dense is None:
            raise ValueError("inputs='dense' needs features=, the number of columns")
        scales = first_scales(dense, self._dtype) if keeps_scales else None
        self.reader = Reader(self._way(storage, scales), None, self.features or 0)
        features = dense + 1 if dense and keeps_scales else self.features or 0
        memory = np.array(self._memory(), np.float64)
        self.table: Table
        self.calls: Calls
        lay_out(self, storage, scales, memory, {}, NO_MAP, features)
        self.origin = making.fingerprint(self)
        self._name(self._read_names(self.label_set.names, descriptions))
        if examples is not None:
            making.teach_examples(self, examples)

    # Locks. `decide` and `learn` do what `with self.lock` does, in half the time. CPython raises
    # KeyboardInterrupt when a call returns, and so perhaps right after `_acquire()`, which must
    # therefore be inside the `try`. If it is raised while a thread waits in `_acquire()`, the lock
    # is not held, and `_release()` has nothing to do. A thread that holds the lock never waits.

    def _renew_locks(self) -> None:
        self.lock, self._reload_lock = threading.RLock(), threading.Lock()
        self._acquire, self._release = self.lock.acquire, self.lock.release

    # Deciding and learning.

    @overload
    def decide(self, x: Any, *, among: Iterable[Any] | None = None) -> Decision: ...

    @overload
    def decide(self, x: Any, *, show: int, among: Iterable[Any] | None = None) -> ListDecision: ...

    def decide(
        self,
        x: Any,
        *more: Never,
        among: Iterable[Any] | None = None,
        show: int | None = None,
        **unknown: Never,
    ) -> Decision | ListDecision:
        """Say a label for one context, or show several.

        x: a text, a dict of numbers, categories and texts, a row of an array, of a sparse matrix or
        of a data frame, or a pair (indices, values).
        among: only these labels are possible this time.
        show: how many labels to show, at most 20; the decision is then a `ListDecision`, which has
        fewer if fewer are possible.
        """
        if more or unknown:
            raise TypeError(
                f"decide takes one context, the possible labels as among=[...], and show=..., but "
                f"not {_listed(more, unknown)}"
            )
        if show is not None:
            return lists.decide(self, x, show, among)
        reader = self.reader
        way = reader.way
        row, kind, x, columns, names = reader.one(x, self)
        indices, values = row
        try:
            self._acquire()
            places = None if among is None else places_of(self, among)
            round = self.round
            if way.is_scaled:
                row = indices, values = met(self, x, row, columns, way)
            if round >= self.fading.at:
                # May be refused: before anything changes.
                row = indices, values = self.table.fitted(row)
                self.table.reserve_for(indices, columns)
                fade(self, round)
            table = self.table
            if places is None:
                work, count = table.work, table.size
            else:
                work, count = table.restricted(places), len(places)
            decide, params, seed = self.calls.decide, self.params, self.draw_seed
            while True:
                label, greedy, propensity, note, other, score = decide(
                    params, table.state, work, indices, values, seed, round, count
                )
                if label != NO_ROOM:
                    break
                row = indices, values = table.fitted(row)
                work = table.reserve_for(indices, columns, work)
            confidence, line = None, self.chance_line
            if line is not None and (len(indices) or self.hears_empty):  # as in `as_chances`
                confidence = (score - line[0]) * line[1]
                if not 0.0 <= confidence <= 1.0:
                    confidence = 1.0 if confidence > 1.0 else 0.0
            if columns:
                self.reader.remember(columns, names)
            self.round = round + 1
            labels = self.label_set.names
            decision = Decision(
                labels[label], labels[greedy], propensity, round, row, label, greedy, note, other,
                table.size, places, self.origin, self.salt, confidence, kind,
            )  # fmt: skip
        except BaseException:
            _release_if_held(self.lock)
            raise
        self._release()
        return decision

    def warm_up(self, x: Any = None) -> None:
        """Compile what `decide`, `learn` and `predict` will need, also once there are more labels.

        Otherwise the first call of each kind compiles, for seconds or up to a minute. Compiled code
        is kept on disk, so later processes only load it. The learner does not change. What lists
        need is compiled at the first list.

        x: a context such as will come. Without it, a learner that has not learned from any context
        yet is compiled for every kind, which takes longer.
        """
        with self.lock:
            copy = self.copy()
        warm_up(copy, x)

    # Logs. A service that keeps its decisions can build its learner again from them.

    def propose(self, x: Any, *, among: Iterable[Any] | None = None) -> Decision:
        """The decision that `decide` would make now. Nothing changes, and no round is counted.

        If the proposal is shown to somebody, call `redo` and learn from the decision it returns.
        """
        return logged.propose(self, x, among)

    def redo(self, x: Any, decision: Decision) -> Decision:
        """Count a decision that this model made earlier, as `decide` did.

        The learner is then in the state after `decide(x)`. A decision of an earlier round, as from
        `propose`, gets the present round. Learn from the decision that is returned.
        """
        return logged.redo(self, x, decision)

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
        logged.learn_logged(self, x, said, right, label, propensity, among)

    def learn(
        self,
        decision: Decision | ListDecision,
        *more: Never,
        right: bool | None = None,
        label: str | int | None = None,
        taken: Any = lists.NOT_SAID,
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

        taken: for a list, the label that was taken; None if none of them was; a list of labels if
        several were. right is then one bit for the whole list: whether a right label was shown.
        label, the true label, need not be one of those shown.
        """
        if more or unknown:
            raise TypeError(
                "learn takes the decision, and the feedback by name: right=True, right=False, "
                f"label=..., taken=... or silence=True, but not {_listed(more, unknown)}"
            )
        if isinstance(decision, lists.ListDecision):
            lists.learn(self, decision, taken, right, label, _is_said(silence))
            return
        if taken is not lists.NOT_SAID:
            raise TypeError(
                "taken=... is for lists, decide(x, show=3); a decision of one label takes "
                "right=True, right=False or label=..."
            )
        if silence is not False and _is_said(silence):
            right = meaning_of_silence(self, decision, right, label)
            if right is None:
                return
        try:
            self._acquire()
            decision = checked_decision(decision, self)
            if self.vocabulary is not None:
                decision = fitted_decision(self, decision)
            (indices, values), round, place = decision.row, decision.round, None
            if not (self._hears_bits and label is None and (right is True or right is False)):
                vet(self, decision)
                self.table.storage.catch_up(self.table.state.held)
                right, place = understood(self, decision.place, right, label)
            answers, own = self.answers, decision.salt == self.salt
            if own:
                answered = round < answers.next and answers.has(round, self.round)
            else:
                answered = self.other_answers.has(check_salt(decision.salt), round)
            if answered:
                raise answered_before(round)
            kind, taught_with = decision.kind, self.reader.taught_with
            if kind != taught_with:
                check_kind(kind, taught_with)
            if round >= self.fading.at:
                vet(self, decision)
                self.table.reserve_for(indices)  # may be refused: before anything changes
                fade(self, round)
                taught_with = self.reader.taught_with
            table = self.table
            seed = self.draw_seed if own else salted(self.seed, decision.salt)
            if self.thins and not is_learned_from(self.hearing, seed, round, right):
                pass
            elif place is not None:
                learn_label(self, decision, seed, place)
            elif (
                decision.among is not None
                or decision.size != table.size
                or self.calls.learn(  # the usual case of learn_bit, without another call
                    self.params, table.state, table.work, indices, values,
                    seed, round, table.size, decision.place, decision.greedy_place,
                    decision.propensity, decision.note, decision.other, True,
                    self.rescores_now, right,
                ) < 0
            ):  # fmt: skip
                learn_bit(self, decision, seed, right)
            if table.scales is not None:
                learn_scales(self, decision, seed, right)
            if round >= self.round:  # made by another process, which was ahead
                self.round = round + 1
            if not own:
                self.other_answers.mark(decision.salt, round, self.round)
            elif round == answers.next:  # in order, as usual
                answers.next = round + 1
            else:
                answers.mark(round, self.round)
            if not taught_with:
                self.reader.taught_with = kind
            if self.may_pause:
                signal = self.alarm.signal
                if signal is None or self.table.state.memory[signal]:
                    pause(self, is_live=True)
        except BaseException:
            _release_if_held(self.lock)
            raise
        self._release()

    def teach(self, X: Any, y: Any) -> None:
        """Learn from contexts whose true labels are known: past cases, or a few examples.

        X: many contexts: a list of texts or dicts, an array, a sparse matrix, a data frame. y:
        their labels.

        Each context is learned as if its greedy label had been said for certain and then the true
        label had been named, `learn(decision, label=...)`. But it is no round: no round is counted,
        no label counts as said, and it is no sign of drift. The order matters: shuffle contexts
        that are sorted by label.
        """
        computes_notes = type(self)._had_it_said is not Learner._had_it_said
        teach(self, X, y, by_hand=computes_notes)

    # Reading the state.

    @property
    def labels(self) -> list[Any]:
        """The labels, in order."""
        return list(self.label_set.names)

    @property
    def one_right(self) -> float | None:
        """The belief that exactly one label is right in each round, and not each label by itself.

        None: the learner does not ask; only OneBit does.
        """
        with self.lock:
            return self.table.storage.one_right(self.table.state.held)

    @property
    def weights(self) -> np.ndarray:
        """The effective weights [label, feature]: a copy."""
        with self.lock:
            return self._weights()

    def predict(self, X: Any) -> np.ndarray:
        """The greedy labels of many rows, without exploration. The learner does not change."""
        warn_of_categories(X)
        with self.lock:
            return np.asarray(self.label_set.names)[score(self, X)[1]]

    def scores(self, X: Any) -> np.ndarray:
        """The scores [row, label] by which `predict` chooses."""
        warn_of_categories(X)
        return score(self, X)[0]

    def probabilities(self, X: Any) -> np.ndarray:
        """The estimated chance [row, label] that a label is right; NaN for an empty context, but
        not from OneBit, which learns from empty contexts, too.

        Only for learners whose scores are such estimates: OneBit and the regressions. Labels are
        estimated one by one, so the chances of a row need not sum to 1.
        """
        warn_of_categories(X)
        rows = self.rows(X)
        are_told = (np.diff(rows.indptr) > 0) | self.hears_empty
        return as_chances(self, score(self, rows)[0], are_told)

    def propensities(
        self, x: Any, *, among: Iterable[Any] | None = None, show: int | None = None
    ) -> np.ndarray:
        """The probability of each label to be said now for a context, in the order of `labels`.

        show: the probability to be in a list of so many labels.
        """
        size = None if show is None else lists.size_of(self, show)
        return propensities(self, x, among, size)

    def explain(self, x: Any, *, among: Iterable[Any] | None = None) -> Explanation:
        """Which label would be said for a context, and which parts of the context support it.

        A part is a word of a text, a name of a dict or a column. Its support is the amount by which
        the label's lead over the best other label would fall without the part. OneBit also tells
        the probability of each label to be right. `print` shows the explanation in a few lines.
        """
        x = x.tocsr() if hasattr(x, "tocsr") else self.reader.in_columns(x, self)
        with self.lock:
            learner = after_meeting(self, columns_of(x))
            if self.round >= self.fading.at:  # `decide` would fade first; here a copy does
                learner = self.copy() if learner is self else learner
                fade(learner, self.round)
            return explain(learner, x, among)

    def rows(self, X: Any) -> Rows:
        """Many contexts as the learner reads them now, checked."""
        return self.reader.many(X, self)

    def has_learned(self) -> bool:
        """Whether anything was learned: the state differs from the initial one."""
        with self.lock:
            if self.table.knows_numbers():
                return True
            if self.round == 0 and not self.reader.taught_with:
                return False
            if self.hears_empty and self.reader.way.is_open and not self.reader.taught_with:
                return False  # only from empty contexts, which are of any kind
            return self.table.differs_from(np.array(self._memory()))

    def knows_numbers(self) -> bool:
        """Whether the learner has learned the scales of numbers of dicts."""
        return self.table.knows_numbers()

    def __dir__(self) -> list[str]:
        """What is for users; the rest is for authors of learners."""
        names = set(super().__dir__())
        return sorted(name for name in names - _FOR_AUTHORS if not name.startswith("_"))

    def __repr__(self) -> str:
        settings = "".join(f", {name}={value!r}" for name, value in self.settings.items())
        short = len(self.label_set) <= 6 and not self.label_set.counted
        labels = self.label_set.names if short else len(self.label_set)
        name = type(self).__name__
        return f"{name}(labels={labels}{settings}, seed={self.seed}, round={self.round})"

    # Labels and forgetting.

    def add_label(
        self,
        label: str | int | None = None,
        *,
        description: Any = None,
        examples: Iterable[Any] = (),
    ) -> None:
        """Add a label. The learned state of the other labels stays the same.

        description: what the label means, for OneBit: a text, or any other context. examples:
        contexts of the label, which are taught (`teach`).
        """
        check_texts([label])
        contexts = making.examples_of(label, examples)
        with self.lock:
            names = self._read_names([label], [description])
            self.rows(contexts)  # is refused here or not at all
            add_label(self, label)
            self._name(names, len(self.label_set) - 1)
            if contexts:
                self.teach(contexts, len(contexts) * self.labels[-1:])

    def forget(self, share: float = 1.0) -> None:
        """Weaken the learned state, as if only 1 - share of the feedback had been seen.

        For data that have changed. A share of 1 resets the state. The round number stays, and open
        decisions can still be learned from.
        """
        forget(self, share)

    # Saving.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the learner to a file, atomically; `onebit.load` reads it."""
        head, arrays = files.dump(self)
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
            copies.reload(self, path)

    def copy(self) -> Learner:
        """An independent learner with the same state."""
        return copies.copy(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return files.restore, (*files.dump(self), copies.unsaved(self), type(self))


def _release_if_held(lock: threading.RLock) -> None:
    with contextlib.suppress(RuntimeError):
        lock.release()


def _listed(more: tuple[Any, ...], unknown: Mapping[str, Any]) -> str:
    """Arguments that a call does not take."""
    return ", ".join([*map(shown, more), *(f"{name}=" for name in unknown)])


def _is_said(silence: Any) -> bool:
    return bool(silence) if isinstance(silence, np.bool_) else flag("silence", silence)
