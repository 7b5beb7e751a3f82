"""What a journal says of a model besides statistics: its card, and its last decisions.

Everything is read from the journal and the folder of snapshots, so it needs no running service.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from onebit.service import snapshots
from onebit.service.journal import Journal
from onebit.service.journal.queries import labels_since, titled
from onebit.service.messages import Label

SHOWN = 5  # propensities of a decision
LONGEST = 160  # characters of a context
_decode = msgspec.json.decode


class ModelCard(Struct):
    """How the learner of a model was made, and where it stands."""

    title: str
    learner: str
    settings: dict[str, Any]
    seed: int
    prepare: list[str]
    version: int  # of the configuration
    since: float  # when that version took over
    labels: list[Label]
    retired: list[Label]
    journal: str
    bytes: int  # of the journal
    snapshot: str | None  # the file of the newest one
    snapshot_position: int | None
    speaker: str | None  # whose learner speaks; None: another system


class ShownDecision(Struct):
    """A decision and the answer to it."""

    id: str
    round: int
    time: float
    label: Label
    confidence: float | None
    propensity: float
    explored: bool
    propensities: list[tuple[Label, float]]  # the largest, the largest first
    labels: int  # that were possible
    context: str  # as JSON; cut if it is long
    answer: str  # "right", "wrong", "silence", or empty: none yet
    named: Label | None  # as the true label
    delay: float | None  # seconds until the answer
    source: str | None


def card_of(journal: Journal, model: str) -> ModelCard:
    number = journal.models()[model]
    version, since, made = journal.newest_version(number)
    given = made.get("labels") or []
    labels: list[Label] = list(range(given)) if isinstance(given, int) else list(given)
    retired: dict[Label, None] = {}
    for event in journal.label_events():
        if event.model != number:
            continue
        if event.kind == "label":
            if event.label not in labels and event.position > labels_since(made):
                labels.append(event.label)
        elif event.kind == "retire":
            retired[event.label] = None
        else:
            retired.pop(event.label, None)
    found = snapshots.found(Path(f"{journal.path}.snapshots"), model)
    found = [snapshot for snapshot in found if snapshot.version == version] or found
    roles = journal.roles(number)
    return ModelCard(
        title=title_of(journal, number),
        learner=made.get("learner", ""),
        settings=made.get("settings", {}),
        seed=made.get("seed", 0),
        prepare=made.get("prepare", []),
        version=version,
        since=since,
        labels=labels,
        retired=[label for label in retired if label in labels],
        journal=journal.path.name,
        bytes=journal.path.stat().st_size,
        snapshot=found[0].path.name if found else None,
        snapshot_position=found[0].position if found else None,
        speaker=model if roles is None else roles.speaker or None,
    )


def title_of(journal: Journal, number: int) -> str:
    """The title of a model, for people; "" if it has none."""
    return journal.note(titled(number)) or ""


def decisions_at(
    journal: Journal, positions: Sequence[int], labels: Sequence[Label]
) -> list[ShownDecision]:
    """The decisions at these positions, in their order. labels: of the learner, in its order."""
    rows = {row[0]: row for row in journal.shown(positions, LONGEST + 1)}
    return [_shown(rows[position], labels) for position in positions if position in rows]


def _shown(row: Any, labels: Sequence[Label]) -> ShownDecision:
    (position, token, round, time, label, confidence, propensity, explored, propensities, among,
     context, answer_time, right, named, source) = row  # fmt: skip
    possible = labels if among is None else _decode(among)
    shares = [(label, 1.0)]
    if propensities is not None:
        shares = list(zip(possible, _decode(propensities), strict=False))
        shares.sort(key=lambda pair: -pair[1])
    answer = ""
    if answer_time is not None:
        is_right = bool(right) if named is None else named == label
        answer = "silence" if source == "silence" else "right" if is_right else "wrong"
    text = context or ""
    return ShownDecision(
        id=f"{position:x}-{token}",
        round=round,
        time=time,
        label=label,
        confidence=confidence,
        propensity=propensity,
        explored=bool(explored),
        propensities=shares[:SHOWN],
        labels=len(possible),
        context=text if len(text) <= LONGEST else text[:LONGEST] + "…",
        answer=answer,
        named=named,
        delay=None if answer_time is None else max(answer_time - time, 0.0),
        source=source,
    )
