"""The rows of a log, in blocks of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

WRONG, RIGHT, UNANSWERED = 0, 1, -1
NOBODY = -1  # no label was named as right


class LogBlock(NamedTuple):
    """Consecutive rows of a log. Labels are places among the labels of the log."""

    contexts: Any  # as learners take many of them
    said: np.ndarray
    right: np.ndarray  # RIGHT, WRONG or UNANSWERED
    truth: np.ndarray  # the label that was named as right, or NOBODY
    propensity: np.ndarray  # with which the label was said; NaN: not known
    propensities: np.ndarray  # [row, label]; rows of NaN, or no columns: not known
    allowed: np.ndarray  # [row, label], bool; no rows: all labels were possible
    lines: np.ndarray  # where the rows are in their file
    times: np.ndarray  # seconds; no rows: not known
    sources: Sequence[str]  # who said the label; empty: not known

    @property
    def size(self) -> int:
        return len(self.said)

    def all_propensities(self, labels: int) -> np.ndarray:
        """The probability of every label, [row, label], as far as it follows from what is known;
        other rows are NaN.

        It follows where a label was said for certain, and where only two labels were possible.
        """
        made = np.full((self.size, labels), np.nan)
        if self.propensities.shape[1]:
            made[:] = self.propensities
        unknown = np.isnan(made[:, 0])
        certain = np.flatnonzero(unknown & (self.propensity == 1))
        made[certain] = 0.0
        made[certain, self.said[certain]] = 1.0
        possible = self.allowed if len(self.allowed) else np.ones((1, labels), bool)
        two = unknown & (possible.sum(axis=1) == 2) & ~np.isnan(self.propensity)
        places = np.flatnonzero(two)
        if len(places):
            shares = np.where(possible, 1 - self.propensity[:, None], 0.0)
            made[places] = shares[places]
            made[places, self.said[places]] = self.propensity[places]
        return made


def part_of(block: LogBlock, start: int, stop: int) -> LogBlock:
    """Some rows of a block."""
    rows = slice(start, stop)
    cut: Any = [column[rows] if len(column) else column for column in block[1:]]
    return LogBlock(rows_of(block.contexts, start, stop), *cut)


def rows_of(contexts: Any, start: int, stop: int) -> Any:
    """Some of many contexts."""
    if hasattr(contexts, "names") and hasattr(contexts, "X"):
        return contexts._replace(X=contexts.X[start:stop])
    return contexts[start:stop]


def context_at(contexts: Any, row: int) -> Any:
    """One of many contexts."""
    if hasattr(contexts, "names") and hasattr(contexts, "X"):
        return contexts.X[row]
    return contexts[row]
