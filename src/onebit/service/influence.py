"""Influence: which names and words spoke for a label in the last decisions.

The contexts of the last decisions are explained anew by the present learner (`Learner.explain`).
Contexts without names, such as arrays of numbers, are left out. The cost is bounded: few contexts,
few parts of each, and a result is kept for a while.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from onebit.explaining import Explanation
from onebit.service.messages import Label
from onebit.texts import is_text, words_of

CONTEXTS = 60  # that are explained
PARTS = 40  # names or words of a context; the rest of it is left out
LARGEST = 20_000  # bytes of a context
LABELS, NAMES = 12, 6  # that are shown
EVERY = 20.0  # seconds between two computations
BUDGET = 1.0  # seconds of a computation

Explain = Callable[[Any], Explanation]

_CONTEXTS = """
SELECT label, context FROM decisions WHERE model = ? AND state = 0 AND position <= ?
    AND position > ? AND length(context) <= ? ORDER BY position DESC LIMIT ?
"""


class Influence(Struct):
    """The parts of contexts that spoke most for a label, on average over its contexts."""

    label: Label
    contexts: int
    parts: list[tuple[str, float]]


class Influences:
    """The influences of one model, computed now and then."""

    def __init__(self, explain: Explain) -> None:
        self._explain = explain
        self._lock = threading.Lock()
        self._found: list[Influence] = []
        self._key, self._until = -1, 0.0

    def at(self, connection: sqlite3.Connection, model: int, position: int) -> list[Influence]:
        """The influences at a position of the journal, or somewhat earlier."""
        with self._lock:
            if position != self._key and time.monotonic() >= self._until:
                since = position - 100 * CONTEXTS
                rows = connection.execute(_CONTEXTS, (model, position, since, LARGEST, CONTEXTS))
                self._found = self._computed([context for _, context in rows])
                self._key, self._until = position, time.monotonic() + EVERY
            return self._found

    def _computed(self, contexts: list[bytes]) -> list[Influence]:
        sums: dict[Label, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        counts: dict[Label, int] = defaultdict(int)
        deadline = time.perf_counter() + BUDGET
        for stored in contexts:
            context = _shortened(msgspec.json.decode(stored))
            if context is None:
                continue
            if time.perf_counter() > deadline:
                break
            try:
                explained = self._explain(context)
            except (ValueError, TypeError):  # the learner takes other contexts now
                continue
            label = explained.greedy
            if label != explained.label:
                continue
            counts[label] += 1
            for part, size in explained.parts:
                sums[label][_name(part, context)] += size
        found = []
        for label in sorted(counts, key=lambda label: -counts[label])[:LABELS]:
            sizes = [(part, size / counts[label]) for part, size in sums[label].items()]
            best = sorted((pair for pair in sizes if pair[1] > 0), key=lambda pair: -pair[1])
            if best:
                found.append(Influence(label, counts[label], best[:NAMES]))
        return found


def _shortened(context: Any) -> Any:
    """A context with names, cut to a few of its parts; None if it has no names."""
    if isinstance(context, str):
        return " ".join(words_of(context)[:PARTS])
    if not isinstance(context, dict):
        return None
    kept: dict[str, Any] = {}
    for name, value in list(context.items())[:PARTS]:
        is_long = isinstance(value, str) and is_text(value)
        kept[name] = " ".join(words_of(value)[:PARTS]) if is_long else value
    return kept


def _name(part: str, context: Any) -> str:
    """The name of a part: that of a number is without its value."""
    if isinstance(context, dict):
        name, _, _ = part.rpartition("=")
        value = context.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return name
    return part.strip("'\"") if isinstance(context, str) else part
