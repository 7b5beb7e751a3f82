"""What is to be judged by a log: a learner, a rule, a label, or the logger itself.

Each policy gives the probability of every label in the rows of a block, before it learns from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from onebit.core.settings import shown
from onebit.evidence.replaying import learn_block, tell_block
from onebit.evidence.rows import LogBlock, context_at
from onebit.learner.labels import LabelSet
from onebit.learner.learner import Learner
from onebit.reading.frames import NamedColumns

_ROUNDING = 1e-6  # of the sum of a rule's probabilities


class Policy:
    """The base class."""

    name: str
    learns = False
    is_logger = False

    def probabilities(self, block: LogBlock, first: int) -> np.ndarray:
        """[row, label]. first: the number of the block's first row in the log."""
        raise NotImplementedError


class Logger(Policy):
    """Whoever wrote the log, whose probabilities are in it, as far as they are known."""

    name = "the logger"
    is_logger = True


class Fixed(Policy):
    """A learner as it is now. Rounds count on, so that it draws as it would if it went on."""

    def __init__(self, learner: Learner) -> None:
        self.learner, self.name = learner, type(learner).__name__

    def probabilities(self, block: LogBlock, first: int) -> np.ndarray:
        return tell_block(self.learner, block, first).propensities


class Progressive(Policy):
    """A learner that learns from the log as it goes: first it is judged by a row, then taught."""

    learns = True

    def __init__(self, learner: Learner) -> None:
        self.learner, self.name = learner.copy(), f"{type(learner).__name__}, learning"

    def probabilities(self, block: LogBlock, first: int) -> np.ndarray:
        return learn_block(self.learner, block, tells=True).propensities


class Constant(Policy):
    """Always the same label."""

    def __init__(self, label: Any, place: int, labels: int) -> None:
        self.name, self._place, self._labels = f"always {label!r}", place, labels

    def probabilities(self, block: LogBlock, first: int) -> np.ndarray:
        made = np.zeros((block.size, self._labels))
        made[:, self._place] = 1.0
        return made


class Rule(Policy):
    """A function of a context: a label, a dict of probabilities, or a list of them."""

    def __init__(self, function: Callable[[Any], Any], labels: LabelSet) -> None:
        self.name = getattr(function, "__name__", type(function).__name__)
        self._function, self._labels = function, labels

    def probabilities(self, block: LogBlock, first: int) -> np.ndarray:
        made = np.zeros((block.size, len(self._labels)))
        for row in range(block.size):
            context = context_at(block.contexts, row)
            if isinstance(block.contexts, NamedColumns) and isinstance(context, np.ndarray):
                context = dict(zip(block.contexts.names, context.tolist(), strict=True))
            self._fill(made[row], self._function(context), int(block.lines[row]))
        return made

    def _fill(self, row: np.ndarray, said: Any, line: int) -> None:
        if isinstance(said, Mapping):
            for label, share in said.items():
                row[self._place(label, line)] = share
        elif isinstance(said, np.ndarray | Sequence) and not isinstance(said, str):
            if len(said) != len(row):
                raise ValueError(
                    f"row {line}: {self.name} returned {len(said)} probabilities, and there are "
                    f"{len(row)} labels"
                )
            row[:] = said
        else:
            row[self._place(said, line)] = 1.0
        if not ((row >= 0).all() and abs(row.sum() - 1) <= _ROUNDING):
            raise ValueError(
                f"row {line}: {self.name} returned {said!r}, and probabilities are at least 0 and "
                "sum to 1; return a label, a dict of probabilities, or a list of them"
            )

    def _place(self, label: Any, line: int) -> int:
        try:
            return self._labels.place(label)
        except ValueError as error:
            raise ValueError(f"row {line}: {self.name} returned {shown(label)}: {error}") from None


def policy_of(given: Any, labels: LabelSet, learns: bool) -> Policy:
    """The policy that a user means."""
    if given is None:
        return Logger()
    if isinstance(given, Learner):
        if given.labels != labels.names:
            raise ValueError(
                f"the learners have the labels {_some(labels.names)} and {_some(given.labels)}: "
                "make both with the same labels, in the same order"
            )
        if not (learns or given.round or given.reader.taught_with):
            raise ValueError(
                f"this {type(given).__name__} has learned nothing yet: learns=True lets it learn "
                "from the log as it goes"
            )
        return Progressive(given) if learns else Fixed(given)
    if isinstance(given, type):
        raise TypeError(f"pass a learner, such as {given.__name__}(labels=log.labels), not a class")
    if callable(given):
        return Rule(given, labels)
    return Constant(given, labels.place(given), len(labels))


def _some(names: Sequence[Any]) -> str:
    return ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")
