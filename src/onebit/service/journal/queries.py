"""What is asked of a journal. The SQL of all readers is here, but for the counts of `summary`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import msgspec

_decode = msgspec.json.Decoder().decode
IS_RIGHT = "CASE WHEN a.label IS NULL THEN a.right ELSE a.label = d.label END"
_ROUNDS = """
SELECT m.name, d.position, d.token, d.round, d.configuration, d.time, d.key, d.context, d.among,
    d.label, d.confidence, d.propensity, d.propensities, d.explored, d.state, d.active,
    a.time, a.right, a.label, a.source, a.key, d.logged
FROM decisions d JOIN models m ON m.number = d.model LEFT JOIN answers a ON a.decision = d.position
WHERE d.position > ? AND d.position <= ? AND (? IS NULL OR m.name = ?)
ORDER BY d.position LIMIT ?"""
_SHOWN = """
SELECT d.position, d.token, d.round, d.time, d.label, d.confidence, d.propensity, d.explored,
    d.propensities, d.among, substr(CAST(d.context AS TEXT), 1, ?),
    a.time, a.right, a.label, a.source
FROM decisions d LEFT JOIN answers a ON a.decision = d.position
WHERE d.position IN ({}) ORDER BY d.position DESC"""
# A decision that was shown later counts from then on. Early journals do not have that time.
_SILENT = """
SELECT * FROM (
    SELECT d.position, d.token, d.position AS active FROM decisions d
    LEFT JOIN answers a ON a.decision = d.position
    WHERE d.deferred = 0 AND d.position > :after AND d.model = :model AND d.state = 0
        AND d.time <= :before AND a.position IS NULL
    ORDER BY d.position LIMIT :most)
UNION ALL SELECT * FROM (
    SELECT d.position, d.token, d.active FROM decisions d
    LEFT JOIN answers a ON a.decision = d.position LEFT JOIN changes c ON c.position = d.active
    WHERE d.deferred = 1 AND d.active > :after AND d.model = :model AND d.state = 0
        AND coalesce(c.time, d.time) <= :before AND a.position IS NULL
    ORDER BY d.active LIMIT :most)
ORDER BY 3 LIMIT :most"""
COMPACTED = """
FROM decisions WHERE model = :model AND position <= :until AND (
    state <> 0
    OR EXISTS (
        SELECT 1 FROM answers a WHERE a.decision = decisions.position AND a.position <= :until)
    OR (time < :expired
        AND (active IS NULL OR (active <= :until AND NOT :hears_silence))
        AND NOT EXISTS (SELECT 1 FROM answers a WHERE a.decision = decisions.position)))"""


# Each part is found by an index.
LAST_POSITION = """max(
    coalesce((SELECT max(position) FROM decisions), 0),
    coalesce((SELECT max(position) FROM answers), 0),
    coalesce((SELECT max(position) FROM changes), 0),
    coalesce((SELECT max(position) FROM bases), 0),
    coalesce((SELECT max(active) FROM decisions WHERE deferred = 1), 0))"""


# Of `configurations`, after a version, and the name of the note of `settled`: shadows only follow.
_AWAITED = """number > max(?, coalesce((SELECT value FROM meta WHERE name = ?), 0))
    AND json_extract(body, '$.shadow') IS NULL"""


class Version(NamedTuple):
    """A row of `configurations`: how a learner was made."""

    number: int
    body: dict[str, Any]
    learner: bytes | None  # a saved learner to start from


ANOTHER = ""  # the name of a speaker that is no learner of the model, but another system


class Role(msgspec.Struct, frozen=True):
    """The learner of a shadow, and what the configuration file said of it."""

    version: int
    identity: Any


class Roles(msgspec.Struct, frozen=True):
    """Who speaks for a model: the name of a learner, or ANOTHER; and its shadows."""

    speaker: str
    since: int = 0  # the position from which on it speaks
    shadows: dict[str, Role] = {}
    before: str | None = None  # who spoke before; None: nobody was promoted

    def in_charge(self, own: str) -> str:
        """Whose learner is in charge, though it may not speak. own: that of the model's table."""
        if self.speaker != ANOTHER:
            return self.speaker
        return self.before or own


class Base(NamedTuple):
    """A row of `bases`: the learner to which earlier rounds were compacted."""

    version: int
    position: int
    learner: bytes


class LabelEvent(NamedTuple):
    """A label that was added ("label"), retired ("retire"), or may be said again ("restore")."""

    position: int
    model: int
    kind: str
    label: Any


class RoundRow(NamedTuple):
    """A decision, and the answer that counts if there is one."""

    model: str
    position: int
    token: str
    round: int
    version: int
    time: float
    key: str | None
    context: bytes | None
    among: str | None
    label: Any
    confidence: float | None
    propensity: float
    propensities: str | None
    explored: int
    state: int
    active: int | None
    answer_time: float | None
    right: int | None
    true_label: Any
    source: str | None
    answer_key: str | None
    logged: str | None

    @property
    def speaker(self) -> str | None:
        """Which other system said the label; None: a learner of the model."""
        return None if self.logged is None else _decode(self.logged)["speaker"]

    def shares(self, possible: Sequence[Any]) -> dict[Any, float] | None:
        """With which probability each of the possible labels would have been said; None: nobody
        knows."""
        if self.propensities is None and self.propensity != 1:
            return None
        if self.propensities is None:
            return {label: float(label == self.label) for label in possible}
        told = _decode(self.propensities)
        return dict(zip(possible, told, strict=False))


class Counts(NamedTuple):
    """How many rows a model has, and when they came."""

    decisions: int
    active: int
    cancelled: int
    erased: int
    first: float | None
    last: float | None
    answers: int
    changes: int


def labels_at(
    versions: Mapping[int, tuple[int, Any, int]],
    events: Iterable[LabelEvent],
    version: int,
    position: int,
) -> list[Any]:
    """The labels of a model, in order, as they were when a decision was made.

    versions, events: of `first_labels` and `label_events`. version, position: of the decision.
    """
    model, labels, since = versions.get(version, (0, [], 0))  # of a repaired journal
    names = list(range(labels)) if isinstance(labels, int) else labels
    added = [
        event.label
        for event in events
        if event.kind == "label" and event.model == model and since < event.position < position
    ]
    return list(dict.fromkeys([*names, *added]))


def labels_since(body: Mapping[str, Any]) -> int:
    """The position up to which the labels of a version have all labels that were added."""
    return body.get("labels_since", 0)


def last_position(connection: sqlite3.Connection) -> int:
    """The last position of a journal."""
    return connection.execute(f"SELECT {LAST_POSITION}").fetchone()[0]


def in_charge(number: int) -> str:
    """Where the journal says which version of a model decides; later ones are still being built."""
    return f"version of {number}"


def titled(number: int) -> str:
    """Where the journal keeps the title of a model, for people."""
    return f"title of {number}"


def roles_of(number: int) -> str:
    """Where the journal says who speaks for a model."""
    return f"roles of {number}"


def settled(number: int) -> str:
    """Where the journal says up to which version none is to take over any more."""
    return f"settled of {number}"


class Queries:
    """Reads a journal."""

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """A connection that sees all that is on disk."""
        raise NotImplementedError

    def _rows(self, query: str, *values: Any) -> list[Any]:
        with self.reading() as connection:
            return connection.execute(query, values).fetchall()

    def _row(self, query: str, *values: Any) -> Any:
        with self.reading() as connection:
            return connection.execute(query, values).fetchone()

    def damage(self) -> list[str]:
        """What an integrity check finds."""
        found = [row[0] for row in self._rows("PRAGMA integrity_check(20)")]
        return [] if found == ["ok"] else found

    # Models and their versions.

    def models(self) -> dict[str, int]:
        """The names of all models, and their numbers."""
        return dict(self._rows("SELECT name, number FROM models ORDER BY number"))

    def note(self, name: str) -> Any:
        """A value that was noted under a name; None: none was."""
        row = self._row("SELECT value FROM meta WHERE name = ?", name)
        return None if row is None else row[0]

    def version_in_charge(self, model: int) -> Version | None:
        """The version of a model that decides."""
        return self._version(
            "number = (SELECT value FROM meta WHERE name = ?)", model, in_charge(model)
        )

    def version_after(self, model: int, number: int) -> Version | None:
        """The newest version of a model after another one that is to take over."""
        return self._version(
            f"{_AWAITED} ORDER BY number DESC LIMIT 1", model, number, settled(model)
        )

    def version(self, number: int) -> Version | None:
        """The version with this number."""
        row = self._row("SELECT number, body, learner FROM configurations WHERE number = ?", number)
        return None if row is None else Version(row[0], _decode(row[1]), row[2])

    def last_version(self, model: int) -> int:
        """The highest number of a version of a model."""
        query = "SELECT coalesce(max(number), 0) FROM configurations WHERE model = ?"
        return self._row(query, model)[0]

    def has_spoken(self, number: int) -> bool:
        """Whether there is a decision of a version."""
        query = "SELECT 1 FROM decisions WHERE configuration = ? LIMIT 1"
        return self._row(query, number) is not None

    def roles(self, model: int) -> Roles | None:
        """Who speaks for a model; None: the learner of its table, and there is no shadow."""
        noted = self.note(roles_of(model))
        return None if noted is None else msgspec.json.decode(noted, type=Roles)

    def promotions(self, model: int) -> list[int]:
        """The positions at which somebody else began to speak."""
        query = (
            "SELECT position FROM changes WHERE model = ? AND kind = 'promote' ORDER BY position"
        )
        return [position for (position,) in self._rows(query, model)]

    def first_round_of(self, model: int, version: int, since: int) -> int | None:
        """The position of the first decision of a version after a position. 0: another system's."""
        speaker = "logged NOT NULL" if version == 0 else "logged IS NULL AND configuration = ?"
        values = () if version == 0 else (version,)
        row = self._row(
            f"SELECT position FROM decisions WHERE position > ? AND model = ? AND {speaker} "
            "ORDER BY position LIMIT 1",
            since, model, *values,
        )  # fmt: skip
        return None if row is None else row[0]

    def _version(self, condition: str, *values: Any) -> Version | None:
        query = "SELECT number, body, learner FROM configurations WHERE model = ? AND "
        row = self._row(query + condition, *values)
        return None if row is None else Version(row[0], _decode(row[1]), row[2])

    def versions_in_use(self, model: int) -> list[int]:
        """The version that decides, those of shadows, and those that are to take over."""
        decides, roles = self.note(in_charge(model)) or 0, self.roles(model)
        rows = self._rows(
            f"SELECT number FROM configurations WHERE model = ? AND {_AWAITED}",
            model, decides, settled(model),
        )  # fmt: skip
        shadows = [] if roles is None else [role.version for role in roles.shadows.values()]
        return [decides, *shadows, *(number for (number,) in rows)]

    def newest_version(self, model: int) -> tuple[int, float, dict[str, Any]]:
        """The number of the version that is to take over or, if there is none, decides; since when
        it is, and its body. Zeros and an empty body if the journal has none."""
        decides = self.note(in_charge(model)) or 0
        row = self._row(
            f"SELECT number, time, body FROM configurations WHERE model = ? AND (number = ? OR "
            f"{_AWAITED}) ORDER BY number = ?, number DESC LIMIT 1",
            model, decides, decides, settled(model), decides,
        )  # fmt: skip
        return (0, 0.0, {}) if row is None else (row[0], row[1], _decode(row[2]))

    def first_labels(self) -> dict[int, tuple[int, Any, int]]:
        """The model of each version, the labels that it had when it was made, and the position from
        which on they count."""
        rows = self._rows("SELECT number, model, body FROM configurations")
        bodies = ((number, model, _decode(body)) for number, model, body in rows)
        return {
            number: (model, body["labels"], labels_since(body)) for number, model, body in bodies
        }

    def label_events(self) -> list[LabelEvent]:
        """What became of labels, in order."""
        rows = self._rows(
            "SELECT position, model, kind, body FROM changes "
            "WHERE kind IN ('label', 'retire', 'restore') ORDER BY position"
        )
        return [
            LabelEvent(position, model, kind, _decode(body)["label"])
            for position, model, kind, body in rows
        ]

    def base(self, model: int) -> Base | None:
        """The learner to which rounds of a model were compacted."""
        row = self._row("SELECT version, position, learner FROM bases WHERE model = ?", model)
        return None if row is None else Base(*row)

    def compacted_upto(self, model: int) -> tuple[int, int]:
        """The last position that was compacted, and the version of the learner; zeros if none."""
        row = self._row("SELECT position, version FROM bases WHERE model = ?", model)
        return (0, 0) if row is None else row

    # Decisions and answers.

    def last_decision_before(self, time: float, after: int = 0) -> int:
        """The position up to which all decisions were made before a time; of all models.

        after: a position of which this is known. Only decisions between the two are read.
        """
        with self.reading() as connection:
            query = "SELECT position FROM decisions WHERE position > ? AND time >= ?"
            # Times do not run backwards.
            row = connection.execute(f"{query} ORDER BY position LIMIT 1", (after, time)).fetchone()
            return last_position(connection) if row is None else row[0] - 1

    def unanswered(self, model: int, after: int, upto: int) -> int:
        """How many decisions from one position, without it, to another have no answer."""
        return self._row(
            "SELECT count(*) FROM decisions d LEFT JOIN answers a ON a.decision = d.position "
            "WHERE d.position > ? AND d.position <= ? AND d.model = ? AND d.state = 0 "
            "AND a.position IS NULL",
            after, upto, model,
        )[0]  # fmt: skip

    def silent_decisions(
        self, model: int, after: int, before: float, most: int
    ) -> list[tuple[int, str, int]]:
        """Decisions without an answer that count from after a position and from before a time.

        Their positions, tokens, and the positions from which they count, in order of the latter.
        """
        values = {"model": model, "after": after, "before": before, "most": most}
        with self.reading() as connection:
            return connection.execute(_SILENT, values).fetchall()

    def answers(self, model: int) -> tuple[int, int]:
        """How many answers a model has to its own decisions, and how many of them say wrong."""
        return self._answers(model, "d.logged IS NULL")

    def logged(self, model: int) -> tuple[int, int, int]:
        """How many decisions of other systems count, how many answers they have, and how many of
        these say wrong."""
        query = "SELECT count(*) FROM decisions WHERE model = ? AND state = 0 AND logged NOT NULL"
        return (*self._row(query, model), *self._answers(model, "d.logged NOT NULL"))

    def _answers(self, model: int, condition: str) -> tuple[int, int]:
        return self._row(
            f"SELECT count(*), count(*) - coalesce(sum({IS_RIGHT}), 0) FROM answers a "
            f"JOIN decisions d ON d.position = a.decision WHERE a.model = ? AND {condition}",
            model,
        )

    def rounds_that_count(self, model: int) -> tuple[int, int, float | None, int]:
        """How many rounds of a model count and how many of them explored, the smallest propensity,
        and how many rounds have it. Those of other systems are not among them."""
        condition = (
            "FROM decisions WHERE model = ? AND state = 0 AND active NOT NULL AND logged IS NULL"
        )
        rounds, explored, smallest = self._row(
            f"SELECT count(*), coalesce(sum(explored), 0), min(propensity) {condition}", model
        )
        (times,) = self._row(f"SELECT count(*) {condition} AND propensity = ?", model, smallest)
        return rounds, explored, smallest, times

    def counts(self, model: int) -> Counts:
        """How many rows of each kind a model has."""
        decisions, active, cancelled, erased, first, last = self._row(
            "SELECT count(*), coalesce(sum(state = 0), 0), coalesce(sum(state = 1), 0), "
            "coalesce(sum(state = 2), 0), min(time), max(time) FROM decisions WHERE model = ?",
            model,
        )
        answers, latest = self._row(
            "SELECT count(*), max(time) FROM answers WHERE model = ?", model
        )
        (changes,) = self._row("SELECT count(*) FROM changes WHERE model = ?", model)
        last = max(filter(None, (last, latest)), default=None)
        return Counts(decisions, active, cancelled, erased, first, last, answers, changes)

    def rounds(self, after: int, until: int, model: str | None, most: int) -> list[RoundRow]:
        """Decisions with their answers, of one model or of all, in order."""
        rows = self._rows(_ROUNDS, after, until, model, model, most)
        return [RoundRow(*row) for row in rows]

    def compacted(self, values: dict[str, Any]) -> list[int]:
        """The decisions that `statements.replace_by_base` would delete."""
        with self.reading() as connection:
            rows = connection.execute(f"SELECT position {COMPACTED}", values).fetchall()
        return [position for (position,) in rows]

    def times(self, table: str, model: int, after: int, most: int) -> list[tuple[int, float]]:
        """Positions and times of the first rows of a table after a position."""
        return self._rows(
            f"SELECT position, time FROM {table} WHERE position > ? AND model = ? "
            "ORDER BY position LIMIT ?",
            after,
            model,
            most,
        )

    def answered(self, model: int) -> list[tuple[Any, ...]]:
        """Position, token, version, key, label, explored and propensity of each decision that
        counts and has an answer; and right, label, source and time of the answer. In order of the
        answers."""
        return self._rows(
            "SELECT d.position, d.token, d.configuration, d.key, d.label, d.explored, "
            "d.propensity, a.right, a.label, a.source, a.time FROM answers a "
            "JOIN decisions d ON d.position = a.decision "
            "WHERE a.model = ? AND d.state = 0 ORDER BY a.position",
            model,
        )

    def shown(self, positions: Sequence[int], longest: int) -> list[tuple[Any, ...]]:
        """The decisions at these positions with their answers, the newest first.

        longest: characters of a context at most.
        """
        return self._rows(
            _SHOWN.format(", ".join("?" * len(positions))),
            longest,
            *positions,
        )

    def contexts(self, model: int, after: int, upto: int, largest: int, most: int) -> list[bytes]:
        """The last contexts of decisions that count, without those of more bytes than `largest`."""
        rows = self._rows(
            "SELECT context FROM decisions WHERE model = ? AND state = 0 AND position > ? "
            "AND position <= ? AND length(context) <= ? ORDER BY position DESC LIMIT ?",
            model, after, upto, largest, most,
        )  # fmt: skip
        return [context for (context,) in rows]

    def states(self, model: int) -> list[tuple[str | None, int, int | None]]:
        """The key and the state of each decision, and the position from which it counts."""
        return self._rows(
            "SELECT key, state, active FROM decisions WHERE model = ? ORDER BY position", model
        )

    # Sources of feedback.

    def sources(self, model: int) -> dict[str, float]:
        """The weights of the sources of a model's feedback."""
        return dict(self._rows("SELECT name, weight FROM sources WHERE model = ?", model))

    def answers_by_source(self, model: int, most: int) -> dict[str, int]:
        """How many answers came from each source: those with the most."""
        return dict(
            self._rows(
                "SELECT source, count(*) FROM answers WHERE model = ? AND source NOT NULL "
                "GROUP BY source ORDER BY count(*) DESC LIMIT ?",
                model,
                most,
            )
        )

    def first_answer_of(self, model: int, source: str) -> int | None:
        """The position of the first answer of a source."""
        query = "SELECT min(position) FROM answers WHERE model = ? AND source = ?"
        return self._row(query, model, source)[0]

    def first_answer_in_quarantine(self, model: int, upto: int) -> int | None:
        """The position of the first answer, up to a position, whose source has no weight."""
        row = self._row(
            "SELECT a.position FROM answers a JOIN sources s ON s.model = a.model "
            "AND s.name = a.source WHERE a.model = ? AND a.position <= ? AND s.weight = 0 "
            "ORDER BY a.position LIMIT 1",
            model,
            upto,
        )
        return None if row is None else row[0]

    # Changes.

    def last_change(self, model: int, kind: str) -> dict[str, Any] | None:
        """The newest change of a kind."""
        return self._change("kind = ?", model, kind)

    def last_change_of_source(self, model: int, source: str) -> dict[str, Any] | None:
        """The newest change of the weight of a source."""
        return self._change("kind = 'source' AND json_extract(body, '$.source') = ?", model, source)

    def _change(self, condition: str, *values: Any) -> dict[str, Any] | None:
        query = f"SELECT body FROM changes WHERE model = ? AND {condition} ORDER BY position DESC"
        row = self._row(f"{query} LIMIT 1", *values)
        return None if row is None else _decode(row[0])

    def earlier_answers(self, model: int, decision: int) -> list[dict[str, Any]]:
        """The answers to a decision that were replaced or taken back."""
        rows = self._rows(
            "SELECT body FROM changes WHERE model = ? AND kind IN ('revise', 'revoke', "
            "'cancel') AND affects >= ? AND json_extract(body, '$.decision') = ? "
            "ORDER BY position",
            model, decision, decision,
        )  # fmt: skip
        return [before for (body,) in rows if (before := _decode(body).get("before"))]

    def has_changed(self, model: int, after: int, upto: int) -> bool:
        """Whether a change after one position has affected what came up to another one."""
        return (
            self._row(
                "SELECT 1 FROM changes WHERE model = ? AND position > ? AND affects <= ? LIMIT 1",
                model, after, upto,
            )
            is not None
        )  # fmt: skip

    def has_erased(self, model: int, after: int, upto: int) -> bool:
        """Whether a context of what came up to a position was erased after another position."""
        row = self._row(
            "SELECT 1 FROM changes WHERE model = ? AND position > ? AND affects <= ? "
            "AND kind = 'erase' LIMIT 1",
            model, after, upto,
        )  # fmt: skip
        return row is not None

    def rounds_between(self, model: int, after: int, upto: int) -> int:
        """How many decisions a model made after a position, up to another one."""
        query = "SELECT count(*) FROM decisions WHERE position > ? AND position <= ? AND model = ?"
        return self._row(query, after, upto, model)[0]

    def last_change_of_the_past(self, model: int) -> int:
        """The position of the newest change that has affected the past."""
        query = "SELECT max(position) FROM changes WHERE model = ? AND affects NOT NULL"
        return self._row(query, model)[0] or 0

    def last_token(self, model: int, upto: int) -> str:
        """The token of the last decision up to a position; empty if there is none."""
        row = self._row(
            "SELECT token FROM decisions WHERE model = ? AND position <= ? "
            "ORDER BY position DESC LIMIT 1",
            model,
            upto,
        )
        return "" if row is None else row[0]
