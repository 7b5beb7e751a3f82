"""Decisions, as the engine has them in memory, and their ids."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from onebit.learner.decision import Decision
from onebit.service.faults import UnknownDecision
from onebit.service.journal import AnswerRow, DecisionRow


class Entry:
    """A decision that was made or looked up lately."""

    __slots__ = ("answer", "commit", "decision", "row")

    def __init__(
        self, row: DecisionRow, answer: AnswerRow | None, decision: Decision | None, commit: Any
    ) -> None:
        self.row, self.answer, self.decision = row, answer, decision
        self.commit: Future[None] = commit

    @property
    def size(self) -> int:
        """About how many bytes it takes; always the same."""
        row = self.row
        # The decision is there once more, with arrays for its bytes.
        stored = len(row.context or b"") + 2 * len(row.decision or b"")
        return stored + len(row.propensities or "") + len(row.among or "")


def id_of(row: DecisionRow) -> str:
    """The id of a decision: its position, and a token that nobody can guess."""
    return f"{row.position:x}-{row.token}"


def parsed_id(id: str) -> tuple[int, str]:
    position, _, token = id.partition("-")
    try:
        if not (0 < len(position) <= 15 and position.isascii() and position.isalnum()):
            raise ValueError
        return int(position, 16), token
    except ValueError:
        raise UnknownDecision(f"there is no decision {id[:100]!r}") from None
