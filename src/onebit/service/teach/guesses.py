"""Guesses: what the learner says about items, made ahead of the answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from onebit.service.faults import ServiceError
from onebit.service.journal import ACTIVE
from onebit.service.messages import Label
from onebit.service.teach.lessons import Kind, key_of, parsed_key
from onebit.service.teach.requests import Ask, PageRequest
from onebit.service.teach.sources.items import Item, ItemError
from onebit.service.teach.state import TeachState

MOST = 2_000  # guesses that are kept in memory; the journal has the others
SHOWN_TEXT, SHOWN_CELL, SHOWN_LABELS = 20_000, 2_000, 12


class Guess(Struct, kw_only=True, rename={"number": "place"}):
    """What a page shows: an item, and what the learner says about it."""

    id: str
    number: int  # of the item
    item: dict[str, Any]
    kind: Kind
    label: Label
    sure: float | None  # the chance that it is the label; None: the learner knows nothing yet
    best: Label  # the label that it is most sure of, among those that are possible
    scores: list[tuple[Label, float]]  # the highest chances, in whole percents
    explored: bool
    ruled_out: list[Label]
    # Not for the page:
    key: str  # of the item
    context: Any


class _Said(Struct):
    """A decision of the engine, as a guess needs it."""

    id: str
    label: Label
    explored: bool
    confidence: float | None


class Guesses:
    """Makes guesses, and knows those that wait for an answer.

    A guess is a deferred decision of the engine: it counts when it is answered. So the scores of an
    item are the same before and after it was guessed at.

    Lock: all methods are called with the lock of the teacher.
    """

    def __init__(self, state: TeachState) -> None:
        self._state = state
        self._known: dict[str, Guess] = {}

    def clear(self) -> None:
        """Know none: they list labels that have changed."""
        self._known.clear()

    def drop(self, id: str) -> Guess | None:
        """A guess waits no more; returns it."""
        return self._known.pop(id, None)

    def of_item(self, key: str) -> list[str]:
        """The ids of the known guesses at an item."""
        return [id for id, guess in self._known.items() if guess.key == key]

    def find(self, id: str) -> Guess | None:
        """A guess that was made earlier, perhaps before a restart, and waits for an answer."""
        guess = self._known.get(id)
        if guess is not None:
            return guess
        state = self._state
        try:
            row, number = state.row_of(id)
        except ServiceError:
            return None
        if number is None or row.state != ACTIVE or state.lessons.get(id) is not None:
            return None
        if row.label not in state.labels:  # it was renamed or removed
            return None
        kind, _ = parsed_key(row.key)
        try:
            context = state.items.context(number)
        except ItemError:
            return None
        said = _Said(id, row.label, bool(row.explored), row.confidence)
        return self._keep(number, kind, said, context, self._scores(context))

    def at(self, number: int, request: PageRequest, ask: Ask, again: bool = False) -> Guess:
        """A new guess at an item. An ItemError says that the item cannot be used."""
        state = self._state
        context = state.items.context(number)
        if ask.only is not None and not again:
            return self._make(number, request, "yes", ask.only, context)
        kind = "again" if again or state.lessons.has_any(state.items.key(number)) else "free"
        return self._make(number, request, kind, None, context)

    def renewed(self, request: PageRequest, done: set[int]) -> list[Guess]:
        """The guesses that a page holds, made anew where the learner has changed its mind.

        done: the items for which the page gets other guesses anyway.
        """
        kept = [guess for guess in map(self.find, request.have) if guess is not None]
        kept = [guess for guess in kept if guess.number not in done and self._is_open(guess)]
        if not kept:
            return []
        forecasts = self._state.engine.forecasts([guess.context for guess in kept])
        return [
            self._renewed(guess, request, scores)
            for guess, scores in zip(kept, forecasts, strict=True)
        ]

    def _renewed(self, guess: Guess, request: PageRequest, scores: np.ndarray) -> Guess:
        if guess.kind not in ("free", "again"):
            return guess
        possible = self._possible(guess.key, guess.kind, guess.label)
        if self._state.best(scores, possible) == guess.best:
            return guess
        return self._make(guess.number, request, guess.kind, guess.label, guess.context, scores)

    def _is_open(self, guess: Guess) -> bool:
        """Whether the question is still one."""
        key, lessons = guess.key, self._state.lessons
        if key in lessons.skipped or lessons.truth(key) is not None:
            return False
        return guess.label not in lessons.ruled_out(key)

    def _make(
        self,
        number: int,
        request: PageRequest,
        kind: Kind,
        label: Label | None,
        context: Any,
        scores: np.ndarray | None = None,
    ) -> Guess:
        state, key = self._state, self._state.items.key(number)
        possible = self._possible(key, kind, label)
        if not possible:
            raise ItemError(key, "it has none of the labels")
        if kind in ("yes", "no"):
            scores = self._scores(context)
            kind = "yes" if state.best(scores, state.labels) == label else "no"
        among = None if len(possible) == len(state.labels) else possible
        told = state.promise(
            state.engine.submit_decide(context, among, key_of(kind, key, request.browser))
        )
        state.lessons.skipped.discard(key)
        said = _Said(told.id, told.label, told.explored, told.confidence)
        return self._keep(number, kind, said, context, scores)

    def _keep(
        self, number: int, kind: Kind, said: _Said, context: Any, scores: np.ndarray | None
    ) -> Guess:
        state = self._state
        if scores is None:
            scores = self._scores(context)
        item = shown_item(number, state.items[number], state.picture_of(number))
        out = state.lessons.ruled_out(item["key"])
        is_question = kind in ("yes", "no")  # about a single label: its confidence says nothing
        index = state.labels.index(said.label)
        open_ones = np.array([label not in out for label in state.labels])
        shares = whole_percents(
            _chances(scores, open_ones, index, None if is_question else said.confidence)
        )
        order = np.argsort(-scores, kind="stable")[:SHOWN_LABELS]
        guess = self._known[said.id] = Guess(
            id=said.id,
            number=number,
            item=item,
            kind=kind,
            label=said.label,
            sure=float(shares[index]) if np.ptp(scores) else None,
            best=state.best(scores, self._possible(item["key"], kind, said.label)),
            scores=[(state.labels[i], float(shares[i])) for i in order],
            explored=said.explored,
            ruled_out=sorted(out, key=str),
            key=item["key"],
            context=context,
        )
        while len(self._known) > MOST:
            del self._known[next(iter(self._known))]
        return guess

    def _scores(self, context: Any) -> np.ndarray:
        return self._state.engine.forecasts([context])[0]

    def _possible(self, key: str, kind: Kind, label: Label | None) -> Sequence[Label]:
        """The labels that an item may have, as far as it is known."""
        if kind in ("yes", "no"):
            return [] if label is None else [label]
        labels, out = self._state.labels, self._state.lessons.ruled_out(key)
        return [known for known in labels if known not in out] if out else labels


def shown_item(number: int, item: Item, picture: str | None) -> dict[str, Any]:
    """An item as a page gets it: long texts are cut."""
    return {
        "place": number,
        "key": item.key,
        "kind": item.kind,
        "title": item.title,
        "picture": picture,
        "text": _cut(item.text, SHOWN_TEXT),
        "fields": {name: _cut(str(value), SHOWN_CELL) for name, value in item.fields.items()},
    }


def _chances(
    scores: np.ndarray, possible: np.ndarray, said: int, confidence: float | None
) -> np.ndarray:
    """The chance of each label, of which one at most is right. possible: those that are not ruled
    out. confidence: the chance of the said one, where it is known."""
    shares = np.where(possible, np.clip(scores, 0, 1), 0.0)  # estimates may lie a little outside
    total = min(float(np.clip(scores, 0, 1).sum()), 1.0)
    if confidence is None:
        return shares * (total / max(float(shares.sum()), 1e-9))
    shares[said] = 0
    shares *= max(total - confidence, 0.0) / max(float(shares.sum()), 1e-9)
    shares[said] = confidence
    return shares


def whole_percents(chances: np.ndarray) -> np.ndarray:
    """Chances that add up to 1 at most, in whole percents that add up to the same."""
    percents = 100 * chances
    whole = np.floor(percents + 1e-6)
    if np.ptp(chances):  # equal chances stay equal
        missing = max(round(percents.sum() - whole.sum()), 0)
        whole[np.argsort(whole - percents, kind="stable")[:missing]] += 1
    return whole / 100


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most] + "…"
