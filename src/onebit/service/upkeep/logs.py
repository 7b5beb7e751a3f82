"""The rounds of a model in a journal, as a log that can be evaluated and learned from."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import msgspec
import numpy as np

from onebit.evidence.checking import Checks, block_of
from onebit.evidence.log import Log
from onebit.evidence.log_files import RawBlock
from onebit.evidence.rows import LogBlock
from onebit.learner.labels import LabelSet
from onebit.service.engine.building import readable
from onebit.service.journal import ReadOnlyJournal, labels_at
from onebit.service.journal.queries import RoundRow
from onebit.service.journal.tables import ACTIVE
from onebit.service.upkeep.journals import chosen_model

CHUNK = 5_000  # rows
_decode = msgspec.json.decode


def journal_log(path: str | os.PathLike[str], model: str | None = None) -> Log:
    """The decisions of a service's journal, with the probabilities of all labels and the answers.

    The journal is only read, also beside the service. Decisions that were cancelled, erased or
    never shown are left out. Rows are numbered by their position in the journal.

    model: its name; default: the only one.
    """
    with closing(ReadOnlyJournal(path)) as journal:
        name = chosen_model(journal, model)
        newest, _, _ = journal.newest_version(journal.models()[name])
        end = journal.position + 1
        labels = labels_at(journal.first_labels(), journal.label_events(), newest, end)

    def blocks(wanted: LabelSet) -> Iterator[LogBlock]:
        with closing(ReadOnlyJournal(path)) as journal:
            yield from _blocks(journal, name, wanted, os.fspath(path))

    return Log.of_blocks(LabelSet(labels), blocks)


def _blocks(
    journal: ReadOnlyJournal, model: str, labels: LabelSet, path: str
) -> Iterator[LogBlock]:
    versions, events, checks, after = (
        journal.first_labels(),
        journal.label_events(),
        Checks(path),
        0,
    )
    while found := journal.rounds(after, journal.position, model, CHUNK):
        after = found[-1].position
        rows = [_row(versions, events, row) for row in found]
        kept = [row for row in rows if row is not None]
        if kept:
            names = ("label", "right", "true_label", "propensity", "propensities", "among", "time")
            names = (*names, "source", "context", "line")
            turned = map(list, zip(*kept, strict=True))
            columns: dict[str, Any] = dict(zip(names, turned, strict=True))
            contexts, lines = columns.pop("context"), np.array(columns.pop("line"))
            yield block_of(RawBlock(contexts, columns, lines), labels, checks)


def _row(versions: Any, events: Any, row: RoundRow) -> tuple[Any, ...] | None:
    if row.state != ACTIVE or row.active is None or row.context is None:
        return None
    among = None if row.among is None else _decode(row.among)
    possible = among or labels_at(versions, events, row.version, row.position)
    bit = row.right if row.answer_time is not None and row.true_label is None else None
    return (
        row.label, bit, row.true_label, row.propensity or None, row.shares(possible), among,
        row.time, row.source, readable(_decode(row.context)), row.position,
    )  # fmt: skip
