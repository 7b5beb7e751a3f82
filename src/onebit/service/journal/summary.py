"""What the dashboard's statistics ask of a journal: counts over a piece of it, in one view."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from onebit.service.journal.queries import IS_RIGHT, Queries, last_position

# The model's own decisions that count, each at the position from which on it does.
_COUNTED = """
SELECT label, explored, propensity, time, round FROM decisions
WHERE position > :after AND position <= :until AND model = :model AND deferred = 0 AND state = 0
    AND logged IS NULL
UNION ALL
SELECT label, explored, propensity, time, round FROM decisions
WHERE deferred = 1 AND active > :after AND active <= :until AND model = :model AND state = 0
"""
_DECISIONS = f"""
SELECT max(round - :origin, 0) / :width AS bin, label, count(*), sum(explored), min(propensity),
    min(round), max(round), min(time), max(time)
FROM ({_COUNTED}) GROUP BY bin, label
"""
_ANSWERED = """
FROM answers a JOIN decisions d ON d.position = a.decision
WHERE a.position > :after AND a.position <= :until AND a.model = :model AND d.state = 0
    AND d.active > :base AND d.logged IS NULL
"""
_ANSWERS = f"""
SELECT max(d.round - :origin, 0) / :width AS bin, d.label, coalesce(a.source, '') = 'silence' AS s,
    count(*), sum({IS_RIGHT})
{_ANSWERED} GROUP BY bin, d.label, s
"""
_HEARD = "AND coalesce(a.source, '') <> 'silence'"
_NAMED = f"SELECT a.label, count(*) {_ANSWERED} {_HEARD} AND a.label NOT NULL GROUP BY a.label"
_BITS = f"SELECT {IS_RIGHT}, d.round, a.time {_ANSWERED} {_HEARD} ORDER BY a.position"
# As _COUNTED: a decision that nobody was shown is not among them.
_NEWEST = """
SELECT position FROM (
    SELECT * FROM (SELECT position, position AS since FROM decisions
        WHERE position > :after AND position <= :until AND model = :model AND deferred = 0
            AND state = 0 AND logged IS NULL
        ORDER BY position DESC LIMIT :most)
    UNION ALL
    SELECT * FROM (SELECT position, active AS since FROM decisions
        WHERE deferred = 1 AND active > :after AND active <= :until AND model = :model
            AND state = 0
        ORDER BY active DESC LIMIT :most))
ORDER BY since DESC LIMIT :most
"""


class Piece:
    """The events of a model after one position, up to another one.

    base: up to this position, rounds were compacted.
    """

    def __init__(
        self, connection: sqlite3.Connection, model: int, after: int, until: int, base: int
    ) -> None:
        self._connection = connection
        self._values = {"model": model, "after": after, "until": until, "base": base}

    def _rows(self, query: str, **values: Any) -> Iterable[tuple[Any, ...]]:
        return self._connection.execute(query, {**self._values, **values})

    def first_round(self) -> int | None:
        """The first round; None if there is none."""
        (row,) = self._rows(f"SELECT min(round) FROM ({_COUNTED})")
        return row[0]

    def decisions(self, origin: int, width: int) -> Iterable[tuple[Any, ...]]:
        """By bin of rounds and by label: how many decisions, how many explored, their smallest
        propensity, and the first and last of their rounds and times."""
        return self._rows(_DECISIONS, origin=origin, width=width)

    def answers(self, origin: int, width: int) -> Iterable[tuple[Any, ...]]:
        """By bin of rounds, label, and whether they are silence: how many answers, and how many of
        them say right."""
        return self._rows(_ANSWERS, origin=origin, width=width)

    def delays(self, bounds: Sequence[float]) -> Iterable[tuple[Any, ...]]:
        """By the first bound (its index) that is no shorter: how many answers took so long."""
        cases = (f"WHEN a.time - d.time <= {bound!r} THEN {i}" for i, bound in enumerate(bounds))
        bin = f"CASE {' '.join(cases)} ELSE {len(bounds)} END"
        return self._rows(f"SELECT {bin} AS bin, count(*) {_ANSWERED} {_HEARD} GROUP BY bin")

    def named(self) -> Iterable[tuple[Any, ...]]:
        """By label: how many answers name it as the true one."""
        return self._rows(_NAMED)

    def bits(self) -> Iterable[tuple[Any, ...]]:
        """Of each answer in order: whether it says right, the round, and the time."""
        return self._rows(_BITS)

    def newest(self, most: int) -> list[int]:
        """The positions of the last decisions that count, the newest first."""
        return [position for (position,) in self._rows(_NEWEST, most=most)]


class Moment:
    """A journal as it is at one moment."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def last_position(self) -> int:
        return last_position(self._connection)

    def base_position(self, model: int) -> int:
        """Up to which position the rounds of a model were compacted."""
        query = "SELECT position FROM bases WHERE model = ?"
        row = self._connection.execute(query, (model,)).fetchone()
        return row[0] if row else 0

    def changes_of_the_past(self, model: int, after: int) -> tuple[int | None, int | None]:
        """The last change of the past after a position, and the first position that any affects."""
        return self._connection.execute(
            "SELECT max(position), min(affects) FROM changes "
            "WHERE model = ? AND position > ? AND affects NOT NULL",
            (model, after),
        ).fetchone()

    def piece(self, model: int, after: int, until: int, base: int) -> Piece:
        return Piece(self._connection, model, after, until, base)


@contextmanager
def at_one_moment(journal: Queries) -> Iterator[Moment]:
    """A journal as it is now, for several questions."""
    with journal.reading() as connection:
        connection.execute("BEGIN")
        yield Moment(connection)
