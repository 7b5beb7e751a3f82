"""Exports the rounds of a journal to a Parquet file: a row per decision.

The rows are read and written in chunks, so the size of a journal does not matter. The service may
run meanwhile.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from onebit.service.journal import ReadOnlyJournal

CHUNK = 5_000  # rows
_decode, _encode = msgspec.json.decode, msgspec.json.encode
_QUERY = """
SELECT m.name, d.position, d.token, d.round, d.configuration, d.time, d.key, d.context, d.among,
    d.label, d.propensity, d.probabilities, d.explored, d.state, d.active,
    a.time, a.right, a.label, a.source, a.key
FROM decisions d JOIN models m ON m.number = d.model LEFT JOIN answers a ON a.decision = d.position
WHERE d.position > ? AND d.position <= ? AND (? IS NULL OR m.name = ?)
ORDER BY d.position LIMIT ?"""
# Labels may be texts or numbers. All of them are texts here.
COLUMNS = {
    "model": "String",
    "id": "String",
    "position": "Int64",
    "round": "Int64",
    "version": "Int64",
    "time": "Datetime",
    "key": "String",
    "context": "String",
    "among": "String",
    "label": "String",
    "propensity": "Float64",
    "probabilities": "String",
    "explored": "Boolean",
    "state": "String",
    "answer_time": "Datetime",
    "right": "Boolean",
    "true_label": "String",
    "source": "String",
    "answer_key": "String",
}


def export(
    path: str | os.PathLike[str], out: str | os.PathLike[str], model: str | None = None
) -> int:
    """Write the decisions of a journal, or of one of its models; returns how many."""
    import polars
    from polars.io.plugins import register_io_source

    types: Any = {
        name: polars.Datetime("us", "UTC") if kind == "Datetime" else getattr(polars, kind)
        for name, kind in COLUMNS.items()
    }
    journal, out = ReadOnlyJournal(path), Path(out)
    part = out.with_name(f".{out.name}.{secrets.token_hex(8)}")
    total, failures = 0, []

    def frames(*_: Any) -> Iterator[polars.DataFrame]:
        nonlocal total
        try:
            for rows in _chunks(journal, model):
                total += len(rows)
                yield polars.DataFrame(rows, schema=types, orient="row")
        except Exception as error:
            failures.append(error)  # polars would show it as text
            raise

    try:
        register_io_source(frames, schema=types).sink_parquet(part, row_group_size=4 * CHUNK)
        os.replace(part, out)
    except Exception:
        if failures:
            raise failures[0] from None
        raise
    finally:
        journal.close()
        part.unlink(missing_ok=True)
    return total


def _chunks(journal: ReadOnlyJournal, model: str | None) -> Iterator[list[tuple[Any, ...]]]:
    """The rows up to the present end of the journal."""
    names = _Labels(journal)
    after = 0
    while True:
        with journal.reading() as connection:
            found = connection.execute(
                _QUERY, (after, journal.position, model, model, CHUNK)
            ).fetchall()
        if not found:
            return
        after = found[-1][1]
        yield [_row(names, *values) for values in found]


def _row(
    names: _Labels,
    model: str,
    position: int,
    token: str,
    round: int,
    version: int,
    time: float,
    key: str | None,
    context: bytes | None,
    among: str | None,
    label: Any,
    propensity: float,
    probabilities: str | None,
    explored: int,
    state: int,
    active: int | None,
    answer_time: float | None,
    right: int | None,
    true_label: Any,
    source: str | None,
    answer_key: str | None,
) -> tuple[Any, ...]:
    shares = None
    if state != 2:  # not erased
        possible = _decode(among) if among is not None else names.at(version, position)
        told = [float(name == label) for name in possible]
        if probabilities is not None:
            told = _decode(probabilities)
        shares = _encode(dict(zip(map(str, possible), told, strict=False))).decode()
    is_right = None
    if answer_time is not None:
        is_right = bool(right) if true_label is None else true_label == label
    return (
        model, f"{position:x}-{token}", position, round, version, _moment(time), key,
        None if context is None else context.decode(), among, _text(label), propensity, shares,
        bool(explored), _state(state, active, answer_time), _moment(answer_time), is_right,
        _text(true_label), source, answer_key,
    )  # fmt: skip


def _moment(time: float | None) -> datetime | None:
    return None if time is None else datetime.fromtimestamp(time, UTC)


def _text(label: Any) -> str | None:
    return None if label is None else str(label)


def _state(state: int, active: int | None, answer_time: float | None) -> str:
    if state:
        return ("cancelled", "erased")[state - 1]
    if answer_time is not None:
        return "learned"
    return "waiting" if active is None else "open"


class _Labels:
    """The labels of a model, in order, as they were when a decision was made."""

    def __init__(self, journal: ReadOnlyJournal) -> None:
        with journal.reading() as connection:
            versions = connection.execute("SELECT number, model, body FROM configurations")
            self._versions = {
                number: (model, _decode(body)["labels"]) for number, model, body in versions
            }
            added = connection.execute(
                "SELECT position, model, body FROM changes WHERE kind = 'label' ORDER BY position"
            )
            self._added = [
                (position, model, _decode(body)["label"]) for position, model, body in added
            ]

    def at(self, version: int, position: int) -> Sequence[Any]:
        model, labels = self._versions.get(version, (0, []))  # of a repaired journal
        names = list(range(labels)) if isinstance(labels, int) else list(labels)
        for added_at, owner, label in self._added:
            if added_at < position and owner == model and label not in names:
                names.append(label)
        return names
