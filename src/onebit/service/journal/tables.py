"""The tables of a journal, and their rows."""

from __future__ import annotations

from typing import Any, NamedTuple

ACTIVE, CANCELLED, ERASED = range(3)  # states of a decision
TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE models (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE configurations (
    number INTEGER PRIMARY KEY, model INTEGER NOT NULL, time REAL NOT NULL,
    body TEXT NOT NULL, learner BLOB);
CREATE TABLE decisions (
    position INTEGER PRIMARY KEY, token TEXT NOT NULL, model INTEGER NOT NULL,
    configuration INTEGER NOT NULL, time REAL NOT NULL, key TEXT, context BLOB, among TEXT,
    label, propensity REAL NOT NULL, explored INTEGER NOT NULL, round INTEGER NOT NULL,
    propensities TEXT, decision BLOB, deferred INTEGER NOT NULL, active INTEGER,
    state INTEGER NOT NULL, confidence REAL, logged TEXT);
CREATE UNIQUE INDEX decision_keys ON decisions (model, key) WHERE key IS NOT NULL;
CREATE INDEX shown_decisions ON decisions (active) WHERE deferred = 1;
CREATE TABLE answers (
    position INTEGER PRIMARY KEY, model INTEGER NOT NULL, decision INTEGER NOT NULL UNIQUE,
    time REAL NOT NULL, right INTEGER, label, source TEXT, key TEXT);
CREATE TABLE changes (
    position INTEGER PRIMARY KEY, model INTEGER NOT NULL, time REAL NOT NULL, kind TEXT NOT NULL,
    affects INTEGER, body TEXT NOT NULL);
CREATE INDEX changes_of_the_past ON changes (affects) WHERE affects IS NOT NULL;
CREATE TABLE sources (
    model INTEGER NOT NULL, name TEXT NOT NULL, weight REAL NOT NULL,
    PRIMARY KEY (model, name)) WITHOUT ROWID;
CREATE TABLE bases (
    model INTEGER PRIMARY KEY, version INTEGER NOT NULL, position INTEGER NOT NULL,
    learner BLOB NOT NULL);
"""


class DecisionRow(NamedTuple):
    """A row of `decisions`."""

    position: int
    token: str
    model: int
    configuration: int
    time: float
    key: str | None
    context: bytes | None  # JSON, as it was given; None once it was erased
    among: str | None  # JSON: the labels that were possible, if not all
    label: Any
    propensity: float  # 0: not known, which only another system's may be
    explored: int
    round: int
    # JSON: a number for each label; None: the label was certain, or these are not known.
    propensities: str | None
    decision: bytes | None  # `Decision.to_bytes`; None: erased, or of another system
    deferred: int
    active: int | None
    state: int
    confidence: float | None  # `Decision.confidence`; None also in rows of schema 1
    logged: str | None = None  # JSON: which other system said the label, and when


class AnswerRow(NamedTuple):
    """A row of `answers`: right or wrong, or the true label."""

    position: int
    model: int
    decision: int
    time: float
    right: int | None
    label: Any
    source: str | None
    key: str | None


class ChangeRow(NamedTuple):
    """A row of `changes`."""

    position: int
    model: int
    time: float
    kind: str
    affects: int | None
    body: str


class Answered(NamedTuple):
    """An answer together with the decision that it is about."""

    answer: AnswerRow
    decision: DecisionRow


def _insert(table: str, row: type) -> str:
    fields: Any = row
    return f"INSERT INTO {table} VALUES ({', '.join('?' * len(fields._fields))})"


INSERTS: dict[type, str] = {
    DecisionRow: _insert("decisions", DecisionRow),
    AnswerRow: _insert("answers", AnswerRow),
    ChangeRow: _insert("changes", ChangeRow),
}
DECISION_COLUMNS = ", ".join(f"d.{name}" for name in DecisionRow._fields)
ANSWER_COLUMNS = ", ".join(f"a.{name}" for name in AnswerRow._fields)
