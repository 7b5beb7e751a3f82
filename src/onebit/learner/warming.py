"""Compile what a learner will need, by rounds of copies that nobody sees."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from onebit.core.lanes import lanes_for, state_type

if TYPE_CHECKING:
    from onebit.learner.learner import Learner

REFUSED = (TypeError, ValueError, OverflowError, MemoryError)  # by a learner
NAMED: list[Any] = [{"warm": 1.0, "up": "yes"}, "warm up"]


def warm_up(learner: Learner, x: Any) -> None:
    """See `Learner.warm_up`."""
    contexts = None
    if x is not None:
        learner.copy().decide(x)  # refuses what is no context of this learner
        contexts = [x]
    play(learner, contexts)
    wider = _wider(learner)
    if wider is not None:
        play(wider, contexts)


def play(learner: Learner, contexts: Sequence[Any] | None = None) -> None:
    """Play rounds of every kind with copies of a learner.

    contexts: those that will come; None: of every kind that the learner may still get.
    """
    answers: list[dict[str, Any]] = [{"label": learner.labels[0]}]
    if not learner.full_information:
        answers += [{"right": True}, {"right": False}]
    for context in _kinds(learner) if contexts is None else contexts:
        copy = learner.copy()  # a learner takes either rows of numbers or names
        try:
            for answer in answers:
                copy.learn(copy.decide(context), **answer)
            copy.propensities(context)
            copy.predict([context])
            if copy.table.is_limited:  # what contexts need once the vocabulary is full
                copy.table.merged(copy.rows([context]), copy.table.slots, 0)
        except REFUSED:  # the learner takes other contexts: they compile it when they come
            continue


def _kinds(learner: Learner) -> list[Any]:
    """A context of each kind that a learner may still get."""
    if learner.reader.columns:
        return [[0.5] * learner.reader.columns]
    kinds = [*NAMED, ([0, 1], [0.5, 1.0])]
    return kinds if learner.has_learned() else [*kinds, [0.5, 1.0, 2.0]]


def _wider(learner: Learner) -> Learner | None:
    """A copy with so many labels that other code learns; None: it takes no further labels."""
    copy, size = learner.copy(), len(learner.labels)
    present = state_type(lanes_for(size))
    while state_type(lanes_for(size)) is present:
        size += 1
    names = copy.labels
    try:
        while len(names) < size:
            copy.add_label(_further(names))
            names = copy.labels
    except REFUSED:
        return None
    return copy


def _further(names: list[Any]) -> Any:
    """A label that is not there yet."""
    if all(isinstance(name, int) for name in names):
        return max(names) + 1
    return next(name for name in map("+{}".format, count()) if name not in names)
