"""What is changed in a journal, beside new rows. The SQL of all that the engine writes is here.

Each function makes statements for `Journal.append`; nothing is written before.
"""

from __future__ import annotations

from typing import Any

import msgspec

from onebit.service.journal.queries import (
    COMPACTED,
    Roles,
    Version,
    in_charge,
    roles_of,
    settled,
)
from onebit.service.journal.tables import CANCELLED, ERASED, AnswerRow

Statement = tuple[str, Any]
_encode = msgspec.json.Encoder().encode
_DELETE_ANSWERS = "DELETE FROM answers WHERE model = :model AND position <= :until"
_DELETE_CHANGES = """
DELETE FROM changes WHERE model = :model AND position <= :until
    AND kind IN ('shown', 'revise', 'revoke', 'cancel', 'erase') AND NOT EXISTS (
        SELECT 1 FROM decisions d WHERE d.position = json_extract(body, '$.decision'))"""


def add_model(name: str) -> Statement:
    return "INSERT INTO models (name) VALUES (?)", (name,)


def note(name: str, value: Any) -> Statement:
    """Note a value under a name."""
    return "REPLACE INTO meta VALUES (?, ?)", (name, value)


def add_version(model: int, version: Version, time: float) -> Statement:
    row = (version.number, model, time, _encode(version.body).decode(), version.learner)
    return "INSERT INTO configurations VALUES (?, ?, ?, ?, ?)", row


def drop_version(number: int) -> Statement:
    return "DELETE FROM configurations WHERE number = ?", (number,)


def let_take_charge(model: int, number: int) -> Statement:
    """The version that decides from now on."""
    return note(in_charge(model), number)


def note_roles(model: int, roles: Roles) -> Statement:
    """Who speaks, and which shadows there are."""
    return note(roles_of(model), _encode(roles).decode())


def settle(model: int, number: int) -> Statement:
    """No version up to this one is to take over any more."""
    return note(settled(model), number)


def activate(decision: int, position: int, round: int) -> Statement:
    """A deferred decision was shown: it counts from this position on."""
    statement = "UPDATE decisions SET active = ?, round = ? WHERE position = ?"
    return statement, (position, round, decision)


def cancel(decision: int) -> Statement:
    return "UPDATE decisions SET state = ? WHERE position = ?", (CANCELLED, decision)


def erase(decision: int) -> list[Statement]:
    """Delete all that is stored about the context of a decision."""
    return [
        (
            "UPDATE decisions SET state = ?, context = NULL, decision = NULL, "
            "key = NULL, among = NULL, propensities = NULL, confidence = NULL WHERE position = ?",
            (ERASED, decision),
        ),
        ("DELETE FROM answers WHERE decision = ?", (decision,)),
        (
            "UPDATE changes SET body = '{}' WHERE kind IN ('revise', 'revoke', "
            "'cancel') AND json_extract(body, '$.decision') = ?",
            (decision,),
        ),
    ]


def replace_answer(answer: AnswerRow) -> Statement:
    """An answer with the same position gets other values."""
    return (
        "UPDATE answers SET time = ?, right = ?, label = ?, source = ?, key = ? WHERE position = ?",
        (answer.time, answer.right, answer.label, answer.source, answer.key, answer.position),
    )


def delete_answer(position: int) -> Statement:
    return "DELETE FROM answers WHERE position = ?", (position,)


def delete_answers_of(model: int, source: str) -> Statement:
    return "DELETE FROM answers WHERE model = ? AND source = ?", (model, source)


def weigh_source(model: int, source: str, weight: float) -> Statement:
    return "REPLACE INTO sources VALUES (?, ?, ?)", (model, source, weight)


def replace_by_base(values: dict[str, Any]) -> list[Statement]:
    """Let a learner stand for the rounds up to a position.

    values: model, version, until, learner, expired (the time before which decisions have expired),
    hears_silence.
    """
    base = "REPLACE INTO bases VALUES (:model, :version, :until, :learner)"
    statements = (base, f"DELETE {COMPACTED}", _DELETE_ANSWERS, _DELETE_CHANGES)
    return [(statement, values) for statement in statements]
