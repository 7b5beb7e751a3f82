"""Lists: several labels are shown for one context, and the feedback says which of them was taken.

`Learner.decide(x, show=3)` returns a `ListDecision`. It contains the decision of its first position
and what the other positions have; `core.lists` has the rules.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from onebit.core.draws import uniform
from onebit.core.lists import ONE_OF_THEM, RIGHT, WRONG
from onebit.core.settings import bit, whole
from onebit.learner.calls import NO_ROOM
from onebit.learner.decision import MOST_BYTES, Decision, check_salt, checked_decision, salted
from onebit.learner.forgetting import fade, pause
from onebit.learner.laying import met
from onebit.learner.learning import (
    answered_before,
    fitted_decision,
    is_learned_from,
    learn_label,
    learn_scales,
    learn_unsaid,
)
from onebit.learner.looking import as_chances, as_then, places_of, present_scores
from onebit.reading.contexts import check_kind

if TYPE_CHECKING:
    from onebit.learner.learner import Learner

MOST_SHOWN = 20  # labels in a list
NOT_SAID = object()  # taken=None means that none was taken
RIGHT_DRAW = 2 * 10**6 - 6  # a stream of draws that only "one of them" uses
_MAGIC, _DIGEST = b"1bitL\x01", 8


class ListDecision(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Several labels to show: `Learner.decide(x, show=3)` returns it, and `Learner.learn` takes it
    with what was taken."""

    shown: tuple[str | int, ...]  # the labels, in order
    greedy: tuple[str | int, ...]  # as many labels with the best scores, the best first
    propensities: tuple[float, ...]  # the probability of each shown label to be in the list
    confidences: tuple[float, ...] | None  # estimated chances to be right; None: no estimate
    # For learning only:
    first: Decision  # the decision of the first position; its propensity is that of the list
    places: tuple[int, ...]
    greedy_places: tuple[int, ...]

    @property
    def propensity(self) -> float:
        """The probability of this list, in this order."""
        return self.first.propensity

    @property
    def round(self) -> int:
        return self.first.round

    @property
    def salt(self) -> str:
        return self.first.salt

    @property
    def kind(self) -> str:
        return self.first.kind

    @property
    def indices(self) -> np.ndarray:
        """The features of the context, in increasing order: a read-only view."""
        return self.first.indices

    @property
    def values(self) -> np.ndarray:
        """The values of the features: a read-only view."""
        return self.first.values

    @property
    def explored(self) -> bool:
        """Whether other labels are shown than the greedy ones."""
        return set(self.places) != set(self.greedy_places)

    def __dir__(self) -> list[str]:
        """What is for users; the rest is for learning."""
        own = ("shown", "greedy", "propensity", "propensities", "confidences", "explored")
        as_a_decision = ("round", "salt", "kind", "indices", "values", "to_bytes", "from_bytes")
        return sorted({*own, *as_a_decision})

    def __repr__(self) -> str:
        explored = ", explored" if self.explored else ""
        return (
            f"ListDecision({list(self.shown)}, propensity={self.propensity:.4g}, "
            f"round={self.round}{explored}, {len(self.indices)} features)"
        )

    def to_bytes(self) -> bytes:
        """The decision as bytes with a checksum, to be stored until the feedback comes."""
        stored = (
            self.shown, self.greedy, self.propensities, self.confidences, self.first.to_bytes(),
            self.places, self.greedy_places,
        )  # fmt: skip
        body = _MAGIC + msgspec.msgpack.encode(stored)
        if len(body) + _DIGEST > MOST_BYTES:
            raise ValueError(f"a decision of {len(body)} bytes: more than {MOST_BYTES}")
        return body + hashlib.blake2b(body, digest_size=_DIGEST).digest()

    @classmethod
    def from_bytes(cls, data: bytes) -> ListDecision:
        """The list that `to_bytes` wrote; anything else is refused with a ValueError."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"a stored list is bytes, not {type(data).__name__}")
        data = bytes(data)
        if len(data) > MOST_BYTES:
            raise ValueError(f"a stored list of {len(data)} bytes: more than {MOST_BYTES}")
        body, digest = data[:-_DIGEST], data[-_DIGEST:]
        if not body.startswith(_MAGIC):
            hint = "; Decision.from_bytes reads a single label" if body[:4] == b"1bit" else ""
            raise ValueError(f"these bytes are not a onebit list{hint}")
        if hashlib.blake2b(body, digest_size=_DIGEST).digest() != digest:
            raise ValueError("this list is damaged: its checksum does not fit")
        try:
            shown, greedy, propensities, confidences, first, places, best = msgspec.msgpack.decode(
                body[len(_MAGIC) :], type=_Stored
            )
            decision = Decision.from_bytes(first)
        except (msgspec.MsgspecError, ValueError) as error:
            raise ValueError(f"this list is damaged: {error}") from None
        return cls(shown, greedy, propensities, confidences, decision, places, best)


_Labels, _Numbers = tuple[str | int, ...], tuple[float, ...]
_Places = tuple[int, ...]
_Stored = tuple[_Labels, _Labels, _Numbers, _Numbers | None, bytes, _Places, _Places]


# Deciding.


def decide(learner: Learner, x: Any, show: Any, among: Iterable[Any] | None) -> ListDecision:
    """See `Learner.decide`."""
    show = size_of(learner, show)
    reader = learner.reader
    way = reader.way
    row, kind, x, columns, names = reader.one(x, learner)
    with learner.lock:
        possible = None if among is None else places_of(learner, among)
        round = learner.round
        if way.is_scaled:
            row = met(learner, x, row, columns, way)
        if round >= learner.fading.at:  # may be refused: before anything changes
            row = learner.table.fitted(row)
            learner.table.reserve_for(row[0], columns)
            fade(learner, round)
        table = learner.table
        work = table.work if possible is None else table.restricted(possible)
        count = table.size if possible is None else len(possible)
        places, best, ranks = np.empty((3, min(show, count)), np.int64)
        chances, scores = np.empty((2, len(places)))
        while True:
            propensity, note, other = learner.calls.decide_list(
                learner.params, table.state, work, *row, learner.draw_seed, round, count,
                places, best, ranks, chances, scores,
            )  # fmt: skip
            if propensity != NO_ROOM:
                break
            row = table.fitted(row)
            work = table.reserve_for(row[0], columns, work)
        confidences = None
        if learner.chance_line is not None and (len(row[0]) or learner.hears_empty):
            low, factor = learner.chance_line
            confidences = tuple(
                [min(max((score - low) * factor, 0.0), 1.0) for score in scores.tolist()]
            )
        if columns:
            reader.remember(columns, names)
        learner.round = round + 1
        places, best = tuple(places.tolist()), tuple(best.tolist())
        labels = learner.label_set.names
        first = Decision(
            labels[places[0]], labels[best[0]], propensity, round, row, places[0], best[0],
            note, other, table.size, possible, learner.origin, learner.salt,
            confidences[0] if confidences else None, kind,
        )  # fmt: skip
        shown, greedy = (tuple(labels[place] for place in many) for many in (places, best))
        return ListDecision(
            shown, greedy, tuple(chances.tolist()), confidences, first, places, best
        )


def size_of(learner: Learner, show: Any) -> int:
    """How many labels to show, if this learner shows lists."""
    if not learner.shows_lists:
        raise ValueError(
            f"{type(learner).__name__} shows no lists: {learner.no_lists}. OneBit, Banditron and "
            "the learners that judge each label by itself, such as UCWL and FastCB, do"
        )
    if learner.explore and learner.importance_weighted:
        raise ValueError(
            f"the lists of {type(learner).__name__} explore by its own settings: leave out explore="
        )
    return whole("show", show, least=1, most=MOST_SHOWN)


# Learning.


def learn(
    learner: Learner, decision: ListDecision, taken: Any, right: Any, label: Any, silence: bool
) -> None:
    """Learn from the feedback for a list: see `Learner.learn`."""
    with learner.lock:
        decision = _checked(decision, learner)
        first = decision.first
        if learner.vocabulary is not None:
            first = fitted_decision(learner, first)
            decision = msgspec.structs.replace(decision, first=first)
        numbers = _vet(learner, decision)
        learner.table.storage.catch_up(learner.table.state.held)
        if silence:
            if taken is not NOT_SAID or right is not None or label is not None:
                raise TypeError(
                    "silence=True cannot be combined with taken=..., right=... or label=..."
                )
            if not learner.hearing.silence_is_wrong:
                return
            right = False
        answers, named = _understood(learner, decision, taken, right, label)
        _check_unanswered(learner, first)
        seed = learner.draw_seed if first.salt == learner.salt else salted(learner.seed, first.salt)
        if first.round >= learner.fading.at:
            learner.table.reserve_for(first.row[0])  # may be refused: before anything changes
            fade(learner, first.round)
        is_right = bool((answers != WRONG).any())
        if not learner.thins or is_learned_from(learner.hearing, seed, first.round, is_right):
            _learn(learner, decision, numbers, answers, named, seed)
        if learner.table.scales is not None:
            learn_scales(learner, first, seed, is_right)
        _mark_answered(learner, first)


def _learn(
    learner: Learner,
    decision: ListDecision,
    numbers: tuple[Any, ...],
    answers: np.ndarray,
    named: int | None,
    seed: int,
) -> None:
    """Make the updates. named: the place of the true label, if it was not shown."""
    first, table = decision.first, learner.table
    if learner.full_information:
        place = decision.places[int(answers.argmax())] if named is None else named
        learn_label(learner, first, seed, place)
        return
    if answers[0] == ONE_OF_THEM and not learner.importance_weighted:
        answers = _drawn(learner, decision, seed)
    if named is None or not learner.importance_weighted:
        work, count = as_then(learner, first)
        afresh = learner.entangled or table.storage.rescores
        while True:
            done = learner.calls.learn_list(
                learner.params, table.state, work, *first.row, seed, first.round, count,
                *numbers, answers, learner.rescores_now, afresh,
            )  # fmt: skip
            if done != NO_ROOM:
                break
            work = table.reserve_for(first.row[0], work=work)
    if named is not None:
        learn_unsaid(learner, first, seed, named)


def _check_unanswered(learner: Learner, decision: Decision) -> None:
    """Refuse what was answered before, or has a context of another kind."""
    round, salt = decision.round, check_salt(decision.salt)
    if salt == learner.salt:
        answered = learner.answers.has(round, learner.round)
    else:
        answered = learner.other_answers.has(salt, round)
    if answered:
        raise answered_before(round)
    if decision.kind != learner.reader.taught_with:
        check_kind(decision.kind, learner.reader.taught_with)


def _mark_answered(learner: Learner, decision: Decision) -> None:
    round = decision.round
    learner.round = max(learner.round, round + 1)  # another process may have been ahead
    if decision.salt == learner.salt:
        learner.answers.mark(round, learner.round)
    else:
        learner.other_answers.mark(decision.salt, round, learner.round)
    learner.reader.taught_with = learner.reader.taught_with or decision.kind
    if learner.may_pause:
        pause(learner, is_live=True)


def _drawn(learner: Learner, decision: ListDecision, seed: int) -> np.ndarray:
    """Answers in which one label is right, drawn by its chance to be the one that was.

    The mean update is that of the chances themselves, which is the gradient of the likelihood.
    """
    places, answers = list(decision.places), np.full(len(decision.places), WRONG)
    chances = as_chances(learner, present_scores(learner, decision.first)[None])[0][places]
    sums = np.cumsum(chances if chances.any() else np.ones(len(places)))
    u = uniform(seed, decision.round, RIGHT_DRAW)
    answers[np.searchsorted(sums, u * sums[-1], side="right")] = RIGHT
    return answers


def _numbers(decision: ListDecision) -> tuple[Any, ...]:
    """The arguments of compiled functions that a list has."""
    first = decision.first
    places = np.array([decision.places, decision.greedy_places], np.int64)
    chances = np.array(decision.propensities, np.float64)
    return *places, chances, first.propensity, first.note, first.other


def _check_several_may_be_right(learner: Learner, taken: int) -> None:
    if learner.settings.get("exclusive"):
        remedy = "with exclusive=None or exclusive=False, it hears several"
    elif learner.importance_weighted:
        remedy = "learners that judge each label by itself, such as UCWL and FastCB, hear several"
    else:
        return
    raise ValueError(
        f"{type(learner).__name__} takes exactly one label to be right, and {taken} were taken; "
        f"{remedy}"
    )


def _understood(
    learner: Learner, decision: ListDecision, taken: Any, right: Any, label: Any
) -> tuple[np.ndarray, int | None]:
    """The answers about the shown labels, and the place of a label that was named and not shown."""
    given = (taken is not NOT_SAID) + (right is not None) + (label is not None)
    if given != 1:
        wrong = "pass only one of" if given else "pass"
        raise TypeError(
            f"{wrong} taken=..., the label that was taken or None for none of them; right=True or "
            "False for the whole list; label=..., the true label; silence=True"
        )
    if right is not None:
        return _meaning_of_bit(learner, decision, bit("right", right)), None
    taken = label if label is not None else taken
    several = list(taken) if isinstance(taken, list | tuple | set | frozenset) else [taken]
    found = {learner.label_set.place(name) for name in several if taken is not None}
    if len(found) != 1 and learner.full_information:
        raise ValueError(
            f"{type(learner).__name__} is a reference that learns from the true label: label=..."
        )
    if len(found) > 1:
        _check_several_may_be_right(learner, len(found))
    answers = np.array([RIGHT if place in found else WRONG for place in decision.places])
    beyond = found - set(decision.places)
    if beyond and label is None:
        raise ValueError(
            f"{learner.label_set.names[min(beyond)]!r} was not shown, only "
            f"{', '.join(map(repr, decision.shown))}; if somebody named it, pass label=..."
        )
    return answers, min(beyond) if beyond else None


def _meaning_of_bit(learner: Learner, decision: ListDecision, right: bool) -> np.ndarray:
    """The answers about the shown labels that one bit for the whole list says."""
    if learner.full_information:
        raise ValueError(
            f"{type(learner).__name__} is a reference that learns from the true label: label=..."
        )
    if right and len(decision.places) > 1:
        if not learner.importance_weighted and learner.chance_line is None:
            raise ValueError(
                f"{type(learner).__name__} does not estimate chances, so it cannot tell which of "
                f"{len(decision.places)} labels was right: say which one by taken=..."
            )
        return np.full(len(decision.places), ONE_OF_THEM)
    return np.full(len(decision.places), RIGHT if right else WRONG)


def _checked(decision: ListDecision, learner: Learner) -> ListDecision:
    """Refuse what is not a list of this model; compiled code checks its numbers."""
    size_of(learner, 1)
    first = checked_decision(decision.first, learner)
    names, places, best = learner.label_set.names, decision.places, decision.greedy_places
    fields = (places, best, decision.shown, decision.greedy, decision.propensities)
    if {*map(type, fields)} != {tuple} or not 1 <= len(places) <= MOST_SHOWN:
        raise ValueError(f"this list is not of 1 to {MOST_SHOWN} labels, as decide made it")
    if {*map(len, fields)} != {len(places)}:
        raise ValueError("the parts of this list are not equally long")
    both = places + best
    fits = (
        {*map(type, both)} == {int}
        and {*map(type, decision.propensities)} == {float}
        and min(both) >= 0
        and max(both) < first.size
        and (places[0], best[0]) == (first.place, first.greedy_place)
        and tuple([names[place] for place in both]) == decision.shown + decision.greedy
    )
    if not fits:
        raise ValueError("this list has labels that this learner does not have, or other numbers")
    return decision if first is decision.first else msgspec.structs.replace(decision, first=first)


def _vet(learner: Learner, decision: ListDecision) -> tuple[Any, ...]:
    """Refuse a list that nobody can have made. Returns its numbers, for compiled functions."""
    numbers = _numbers(decision)
    first, table = decision.first, learner.table
    if table.scales is not None:
        table.make_room_to_scale(len(first.row[0]))
    work, count = as_then(learner, first)
    if not learner.calls.vet_list(
        learner.params, table.state, work, *first.row, learner.seed, first.round, count,
        *numbers,
    ):  # fmt: skip
        raise ValueError(
            f"no {type(learner).__name__} can have made this list: its context or its numbers "
            f"(propensity {first.propensity!r}, {list(decision.propensities)!r}) were changed"
        )
    return numbers
