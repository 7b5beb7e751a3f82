"""What a learner does when right answers become rarer."""

from __future__ import annotations

from typing import Any

import numpy as np

from onebit.storage.base import Storage


class Alarm:
    """No alarm: the learner does not notice. An algorithm may have another one.

    memory: the numbers of a state besides its table.
    """

    # The number that is not 0 when it has rung, if a learner has nothing else to pause for.
    signal: int | None = None

    def will_ring(self, memory: np.ndarray, right: bool | None) -> bool:
        """Whether an answer will set it off; right: None for a named label."""
        return False

    def stop(self, state: Any, storage: Storage) -> float:
        """Stop the alarm. Returns the share that must be forgotten; 0: it did not ring."""
        return 0.0

    def take_back(self, memory: np.ndarray, before: np.ndarray) -> None:
        """The last answer was about a label that the learner would not have said.

        before: the memory before that answer.
        """
