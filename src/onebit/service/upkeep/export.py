"""Exports the rounds of a journal to a Parquet file: a row per decision.

The rows are read and written in chunks, so the size of a journal does not matter. The service may
run meanwhile.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from onebit.service.journal import ReadOnlyJournal, labels_at
from onebit.service.journal.files import make_private
from onebit.service.journal.queries import RoundRow
from onebit.service.journal.tables import ERASED

CHUNK = 5_000  # rows
_decode, _encode = msgspec.json.decode, msgspec.json.encode
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
    "confidence": "Float64",
    "propensity": "Float64",
    "propensities": "String",
    "explored": "Boolean",
    "state": "String",
    "answer_time": "Datetime",
    "right": "Boolean",
    "true_label": "String",
    "source": "String",
    "answer_key": "String",
    "speaker": "String",
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
        make_private(part)
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
    versions, events, after = journal.first_labels(), journal.label_events(), 0

    def labels(version: int, position: int) -> Sequence[Any]:
        return labels_at(versions, events, version, position)

    while True:
        found = journal.rounds(after, journal.position, model, CHUNK)
        if not found:
            return
        after = found[-1].position
        yield [_row(labels, row) for row in found]


def _row(labels: Callable[[int, int], Sequence[Any]], row: RoundRow) -> tuple[Any, ...]:
    shares = None
    if row.state != ERASED:
        among = None if row.among is None else _decode(row.among)
        possible = among or labels(row.version, row.position)
        told = row.shares(possible)
        if told is not None:
            shares = _encode({str(label): share for label, share in told.items()}).decode()
    is_right = None
    if row.answer_time is not None:
        is_right = bool(row.right) if row.true_label is None else row.true_label == row.label
    return (
        row.model, f"{row.position:x}-{row.token}", row.position, row.round, row.version,
        _moment(row.time), row.key, None if row.context is None else row.context.decode(),
        row.among, _text(row.label), row.confidence, row.propensity or None, shares,
        bool(row.explored),
        _state(row.state, row.active, row.answer_time), _moment(row.answer_time), is_right,
        _text(row.true_label), row.source, row.answer_key, row.speaker,
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
