"""Influence: which names and words spoke for a label in the last decisions.

The contexts of the last decisions are explained anew by a learner (`Learner.explain`): a copy of
the present one, or the newest snapshot. Contexts without names, such as arrays of numbers, are left
out. The cost is bounded: few contexts, few parts of each, now and then, in a thread of its own.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from onebit.learner.learner import Learner
from onebit.reading.texts import is_text, words_of
from onebit.service.journal import Journal
from onebit.service.messages import Label

CONTEXTS = 60  # that are explained
PARTS = 40  # names or words of a context; the rest of it is left out
LARGEST = 20_000  # bytes of a context
REACH = 10_000  # positions of the journal in which contexts are looked for
LABELS, NAMES = 12, 6  # that are shown
EVERY = 30.0  # seconds between two computations
BUDGET = 2.0  # seconds of a computation
log = logging.getLogger("onebit.service")


class Influence(Struct):
    """The parts of contexts that spoke most for a label, on average over its contexts."""

    label: Label
    contexts: int
    parts: list[tuple[str, float]]


class Influences:
    """The influences of one model. learner: gives a learner; a ValueError or OSError: none."""

    def __init__(self, journal: Journal, model: int, learner: Callable[[], Learner]) -> None:
        self._journal, self._model, self._learner = journal, model, learner
        self._lock = threading.Lock()
        self._found: list[Influence] = []
        self._position, self._due = -1, 0.0
        self.is_computing = False

    def at(self, position: int) -> list[Influence]:
        """The influences at a position of the journal, or somewhat earlier."""
        with self._lock:
            is_due = position != self._position and time.monotonic() >= self._due
            if is_due and not self.is_computing:
                self.is_computing = True
                name = f"influences {self._model}"
                threading.Thread(
                    target=self._compute, args=(position,), name=name, daemon=True
                ).start()
            return self._found

    def _compute(self, position: int) -> None:
        found = self._found
        try:
            rows = self._journal.contexts(
                self._model, position - REACH, position, LARGEST, CONTEXTS
            )
            contexts = [_shortened(msgspec.json.decode(context)) for context in rows]
            named = [context for context in contexts if context is not None]
            found = _explained(self._learner(), named) if named else []
        except (ValueError, OSError) as error:
            log.debug("no influences: %s", error)
        except Exception:
            log.exception("the influences could not be computed")
        finally:
            with self._lock:
                self._found, self._position = found, position
                self._due = time.monotonic() + EVERY
                self.is_computing = False


def _explained(learner: Learner, contexts: list[Any]) -> list[Influence]:
    sums: dict[Label, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    counts: dict[Label, int] = defaultdict(int)
    deadline = None
    for context in contexts:
        if deadline is not None and time.perf_counter() > deadline:
            break
        try:
            explained = learner.explain(context)
        except (ValueError, TypeError):  # the learner takes other contexts now
            continue
        if deadline is None:  # the first one may have had to be compiled
            deadline = time.perf_counter() + BUDGET
        if explained.explores:
            continue
        counts[explained.label] += 1
        for part, size in explained.parts:
            sums[explained.label][_name(part, context)] += size
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
    """The name of a part: a word without quotes, and a number without its value."""
    if isinstance(context, str):
        return part[1:-1]
    if part in context:  # of a table: there, a part is a column
        return part
    name, _, value = part.partition("=")
    if name in context and value == str(context[name]):
        is_number = isinstance(context[name], int | float) and not isinstance(context[name], bool)
        return name if is_number else part
    name, _, word = part.rpartition(" ")
    return f"{name}: {word[1:-1]}"
