"""Lessons: the answers of people, each about a guess at an item. All of it is in the journal.

A guess is a decision of the engine. Its key, which the journal keeps, says what it was about:

    3f9a01c2d4e5.8c1d free photos/cat.jpg
    a nonce, the browser that asked for it, the kind of question, the key of the item

An item was skipped if its last guess was cancelled before anybody had answered it. A guess that was
answered and then taken back is cancelled too, but had become active by the answer.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from typing import Any, Literal, NamedTuple

import numpy as np

from onebit.service.journal import CANCELLED, Journal
from onebit.service.journal.relabelling import Relabelling

# free: which label is it? again: the same after a wrong guess. yes, no: is it this label? The
# learner itself expects this answer.
Kind = Literal["free", "again", "yes", "no"]
RECENT = 50  # answers over which the recent error is counted
PACE = 20  # answers from which the speed is computed


def key_of(kind: Kind, item: str, browser: str = "") -> str:
    """The key of a new guess."""
    return f"{secrets.token_hex(6)}{f'.{browser}' if browser else ''} {kind} {item}"


def parsed_key(key: str | None) -> tuple[Any, str]:
    """The kind of question and the item of a guess."""
    _, kind, item = (key or "- free ").split(" ", 2)
    return kind, item


def browser_of(key: str | None) -> str:
    """The browser that asked for a guess; "" if that is not known."""
    return (key or "").partition(" ")[0].partition(".")[2]


class Lesson(NamedTuple):
    """An answer, and the guess that it is about."""

    id: str
    item: str
    kind: Kind
    said: Any
    right: bool
    label: Any  # the true label if it was named
    who: str | None
    time: float
    explored: bool
    propensity: float
    browser: str = ""  # in which it was given

    @property
    def truth(self) -> Any:
        """The true label, if this answer tells it."""
        if self.label is not None:
            return self.label
        return self.said if self.right else None

    @property
    def is_guess(self) -> bool:
        """Whether it says how well the learner does; a second guess at an item does not."""
        return self.kind != "again"

    @property
    def mistaken(self) -> bool:
        """Whether the learner was wrong: about its guess, or about the answer to a question."""
        if self.kind in ("yes", "no"):
            return self.right != (self.kind == "yes")
        return not self.right


class Lessons:
    """All answers in the order in which they were given, and what they say about items."""

    def __init__(self) -> None:
        self._by_id: dict[str, Lesson] = {}  # in order
        self._by_item: dict[str, dict[str, Lesson]] = {}  # the same, for items that have any
        self.skipped: set[str] = set()

    @classmethod
    def read(cls, journal: Journal, model: int, names: Relabelling) -> Lessons:
        """From the journal. names: what its labels are called now."""
        lessons = cls()
        for (
            position,
            token,
            version,
            key,
            said,
            explored,
            propensity,
            right,
            label,
            who,
            time,
        ) in journal.answered(model):
            kind, item = parsed_key(key)
            heard = names.heard(version, time, said, right if right is None else bool(right), label)
            if heard is None:
                continue
            if names.now(said, version) is None:  # the guess is gone; the true label is not
                kind = "again"
            lessons.add(
                Lesson(
                    id=f"{position:x}-{token}",
                    item=item,
                    kind=kind,
                    said=heard.said,
                    right=heard.is_right,
                    label=heard.named,
                    who=who,
                    time=time,
                    explored=bool(explored),
                    propensity=propensity,
                    browser=browser_of(key),
                )
            )
        for key, state, active in journal.states(model):
            item = parsed_key(key)[1]
            if state == CANCELLED and active is None:
                lessons.skipped.add(item)
            else:
                lessons.skipped.discard(item)
        return lessons

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Lesson]:
        return iter(self._by_id.values())

    def get(self, id: str) -> Lesson | None:
        return self._by_id.get(id)

    def add(self, lesson: Lesson) -> None:
        self._by_id[lesson.id] = lesson
        self._by_item.setdefault(lesson.item, {})[lesson.id] = lesson

    def revise(self, id: str, right: bool, label: Any) -> None:
        """Another answer takes the place of an earlier one."""
        self.add(self._by_id[id]._replace(right=right, label=label))

    def remove(self, id: str) -> None:
        lesson = self._by_id.pop(id, None)
        if lesson is not None:
            del self._by_item[lesson.item][id]

    def has_any(self, item: str) -> bool:
        """Whether there are answers about an item."""
        return bool(self._by_item.get(item))

    def is_new(self, item: str) -> bool:
        """Whether an item was neither asked about nor skipped."""
        return not self._by_item.get(item) and item not in self.skipped

    # Most items that are asked about have no answer yet, and what follows is asked often.

    def truth(self, item: str) -> Any:
        """The true label of an item, as the last answer tells it; None if no answer does."""
        lessons = self._by_item.get(item)
        if not lessons:
            return None
        return next((x.truth for x in reversed(lessons.values()) if x.truth is not None), None)

    def ruled_out(self, item: str) -> Set[Any]:
        """The labels that an item does not have."""
        lessons = self._by_item.get(item)
        if not lessons:
            return frozenset()
        return {lesson.said for lesson in lessons.values() if not lesson.right}

    def last(self, count: int, browser: str | None = None) -> list[Lesson]:
        """The newest answers, the newest first. browser: only those given in it."""
        found: list[Lesson] = []
        for lesson in reversed(self._by_id.values()):
            if len(found) == count:
                break
            if browser is None or lesson.browser == browser:
                found.append(lesson)
        return found

    def known(self) -> int:
        """How many items have a true label."""
        return len({lesson.item for lesson in self if lesson.truth is not None})

    def errors(self) -> tuple[np.ndarray, np.ndarray]:
        """Error since the start, and over the last answers, after each first guess at an item."""
        wrong = np.array([x.mistaken for x in self if x.is_guess], float)
        counts = np.arange(1, len(wrong) + 1)
        sums = np.concatenate([[0.0], np.cumsum(wrong)])
        width = np.minimum(counts, RECENT)
        return sums[1:] / counts, (sums[counts] - sums[counts - width]) / width

    def per_minute(self) -> float | None:
        """The speed of answers now; pauses do not count much."""
        times = [lesson.time for lesson in self.last(PACE)]
        gaps = -np.diff(times)
        return 60 / max(float(np.median(gaps)), 0.05) if len(gaps) else None

    def by_label(self, labels: Sequence[Any]) -> list[dict[str, Any]]:
        """How often each label was guessed, how often rightly, and how many items have it."""
        guessed: Counter[Any] = Counter()
        right: Counter[Any] = Counter()
        truths: dict[str, Any] = {}
        for lesson in self:
            if lesson.kind in ("free", "again"):
                guessed[lesson.said] += 1
                right[lesson.said] += lesson.right
            if lesson.truth is not None:
                truths[lesson.item] = lesson.truth
        known = Counter(truths.values())
        return [
            {"label": x, "guessed": guessed[x], "right": right[x], "known": known[x]}
            for x in labels
        ]

    def people(self) -> dict[str, int]:
        return dict(Counter(x.who or "" for x in self).most_common(100))
