"""Feedback as it is given, and as the journal and its readers have it."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import UNSET

from onebit.core.settings import bit
from onebit.service.engine.building import says, was_right
from onebit.service.engine.checks import check_text, refusing
from onebit.service.engine.state import EngineState
from onebit.service.faults import Refused
from onebit.service.journal import AnswerRow, DecisionRow
from onebit.service.messages import Label, Verdict

SILENCE = "silence"  # the source of answers that nobody gave


class Given(NamedTuple):
    """Feedback as it was given: right or wrong, or the true label."""

    right: bool | None
    label: Label | None
    source: str | None = None
    key: str | None = None

    @property
    def bit(self) -> int | None:
        """Right or wrong, as the journal has it."""
        return None if self.right is None else int(self.right)

    def answer_to(self, row: DecisionRow, position: int, time: float) -> AnswerRow:
        """It as an answer to a decision."""
        return AnswerRow(
            position=position,
            model=row.model,
            decision=row.position,
            time=time,
            right=self.bit,
            label=self.label,
            source=self.source,
            key=self.key,
        )

    def repeats(self, row: DecisionRow, known: AnswerRow) -> bool:
        """Whether it says nothing that somebody has not said already."""
        if known.source == SILENCE:
            return False
        if self.label is None:
            return self.right == was_right(known, row)
        return self.label == known.label or (bool(known.right) and self.label == row.label)


def verdict_of(answer: Verdict) -> tuple[bool | None, Label | None]:
    """What a message says: right or wrong, or the true label; or nothing."""
    right, label = answer.right, answer.label
    return None if right is UNSET else bool(right), None if label is UNSET else label


def kept(answer: AnswerRow) -> dict[str, Any]:
    """An answer as it is told, and as it is kept when another one replaces it."""
    right, label = says(answer)
    return {"time": answer.time, "right": right, "label": label, "source": answer.source}


def in_words(answer: AnswerRow) -> str:
    right, label = says(answer)
    if right is None:
        return f"label {label!r}"
    return "right" if right else "wrong"


def check_given(state: EngineState, given: Given) -> None:
    """Refuse feedback that the learner could not learn, or the journal not keep."""
    if (given.right is None) == (given.label is None):
        raise Refused("say either right or label")
    if given.label is None:
        with refusing("$.right"):
            bit("right", given.right)
        if state.learner.full_information:
            raise Refused(
                f"{type(state.learner).__name__} must be told the true label", where="$.right"
            )
    elif given.label not in state.learner.label_set.names:
        raise Refused(f"{given.label!r} is not a label of {state.name}", where="$.label")
    if given.source == SILENCE:
        raise Refused(
            f"the source {SILENCE!r} is that of answers which nobody gave; choose another name",
            where="$.source",
        )
    for name, text in (("key", given.key), ("source", given.source)):
        check_text(text, f"$.{name}")
