"""The form of a learner's state: what it holds besides its table of weights.

Most hold nothing else. `_full` has matrices, `_dual` the contexts themselves. An algorithm is
written once: the functions of `_kernel` that it calls know what to do in each form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np


class Form:
    """The table alone."""

    dtype = "float32"  # of the table, unless the user says otherwise
    planes: int | None = None  # of the table; None: as many as the algorithm has
    settings: ClassVar[dict[str, Any]] = {}  # by which a learner is told to have it

    def lay_out(self, arrays: dict[str, np.ndarray], features: int, labels: int) -> Any:
        """The record for so many features and labels, with what was saved of fewer."""
        return None

    def room(self, more: Any) -> int:
        """For how many features the record has room."""
        return 2**63

    def arrays(self, more: Any, features: int, labels: int) -> dict[str, np.ndarray]:
        """What has to be saved of the record: copies, no longer than need be."""
        return {}

    def fits(self, arrays: dict[str, np.ndarray], features: int, labels: int) -> bool:
        """Whether these could have been saved by a learner of so many features and labels."""
        return not arrays

    def size(self, features: int, labels: int) -> int:
        """How many bytes the record takes."""
        return 0

    advice = "Hash the features into fewer columns with features="

    def faded(
        self, table: np.ndarray, arrays: dict[str, np.ndarray], keep: float
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Table and arrays with only a share of the evidence kept."""
        raise NotImplementedError

    def guarded(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """A compiled function; where it calls back into Python, one that raises its errors."""
        return compiled


TABLE = Form()
