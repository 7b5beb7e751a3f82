"""The overview: how the teaching goes, what was answered last, and why a label is said."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np

from onebit.service.messages import Label
from onebit.service.teach.lessons import Lesson
from onebit.service.teach.sources.items import Item, ItemError
from onebit.service.teach.state import TeachState

SAMPLES, TRIED = 4, 40  # pictures that help to find labels, and how many are tried for them


class Overview:
    """Reads what a lesson has, and changes nothing.

    Lock: the methods take the lock of the teacher, but for `samples`, which reads items only.
    """

    def __init__(self, state: TeachState) -> None:
        self._state = state

    def stats(self, browser: str = "") -> dict[str, Any]:
        """How the teaching goes. browser: whose answers undo takes back."""
        state = self._state
        with state.lock:
            state.check_file()
            lessons, labels, items = state.lessons, state.labels, state.items
            since_start, recent = lessons.errors()
            guesses = len(since_start)
            return {
                "version": state.version,
                "ready": state.warm.is_set(),
                "open": state.service is not None,
                "labels": labels,
                "suggested": [*dict.fromkeys([*labels, *items.labels])],
                "items": items.usable_count(),
                "answers": len(lessons),
                "guesses": guesses,
                "known": lessons.known(),
                "skipped": len(lessons.skipped),
                "unusable": [list(pair) for pair in items.skipped[:20]],
                "unusable_count": len(items.skipped),
                "error": float(since_start[-1]) if guesses else None,
                "error_recent": float(recent[-1]) if guesses else None,
                "explored": sum(x.explored for x in lessons),
                "per_minute": lessons.per_minute(),
                "by_label": lessons.by_label(labels),
                "people": lessons.people(),
                "recent": [self._shown(lesson) for lesson in lessons.last(10)],
                "mine": [lesson.id for lesson in lessons.last(100, browser)],
            }

    def _shown(self, lesson: Lesson) -> dict[str, Any]:
        number = self._state.items.number(lesson.item)
        title, picture = lesson.item, None
        if number is not None:
            title, picture = self._state.items[number].title, self._state.picture_of(number)
        return {
            "id": lesson.id,
            "title": title,
            "picture": picture,
            "kind": lesson.kind,
            "said": lesson.said,
            "right": lesson.right,
            "label": lesson.label,
            "who": lesson.who,
            "explored": lesson.explored,
        }

    def errors(self) -> tuple[np.ndarray, np.ndarray]:
        """Error since the start, and over the last answers, after each first guess at an item."""
        with self._state.lock:
            return self._state.lessons.errors()

    def lessons(self) -> list[tuple[Lesson, Item | None, Label | None]]:
        """All answers with their items, and with the true labels as far as they are known."""
        items = self._state.items
        with self._state.lock:
            lessons, found = self._state.lessons, []
            for lesson in lessons:
                number = items.number(lesson.item)
                item = None if number is None else items[number]
                found.append((lesson, item, lessons.truth(lesson.item)))
            return found

    def why(self, id: str) -> Sequence[tuple[str, float]]:
        """The parts of an item that speak for the label that is said, and those against it."""
        state = self._state
        with state.working():
            row, number = state.row_of(id)
            if number is None:
                return []
            learner, context = state.engine.learner, state.items.context(number)
        among = None if row.among is None else msgspec.json.decode(row.among)
        parts = learner.explain(context, among=among).parts
        return parts if len(parts) <= 12 else [*parts[:6], *parts[-6:]]

    def samples(self) -> list[str]:
        """The addresses of a few pictures that can be shown, from all over the source."""
        items = self._state.items
        if items.kind != "image":
            return []
        count = len(items)
        spread = [i * count // TRIED for i in range(TRIED)] if count > TRIED else [*range(count)]
        step = max(len(spread) // SAMPLES, 1)
        in_order = [number for first in range(step) for number in spread[first::step]]
        found: list[str] = []
        for number in in_order:
            if len(found) == SAMPLES:
                break
            with suppress(ItemError):
                items.picture(number, 256)
                found.append(f"{self._state.picture_of(number)}&size=256")
        return found
