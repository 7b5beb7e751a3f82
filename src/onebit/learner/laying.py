"""Lay out the state of a learner: at the start, for other contexts, for another label.

A new layout is a new table with its reader and its compiled calls. The learner takes all of them at
once: a refusal in between changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onebit.learner.calls import Calls
from onebit.learner.table import NO_MAP, Shape, Table
from onebit.reading.ways import Raw, Row
from onebit.storage.base import Storage
from onebit.storage.scales import STATISTICS, scales_of_columns, scales_of_names

if TYPE_CHECKING:
    from onebit.learner.learner import Learner


def lay_out(
    learner: Learner,
    storage: Storage,
    scales: Any,
    memory: np.ndarray,
    arrays: dict[str, np.ndarray],
    known: tuple[np.ndarray, int],
    features: int = 0,
    weights: np.ndarray | None = None,
) -> None:
    """Make a new state, with room for so many features. If it is refused, nothing changes.

    arrays, weights: of the storage, and of the table [feature, plane, label], which may be of fewer
    labels. known: the map of features and its width.
    """
    check = None if scales is not None else storage.check  # rows of any length are scaled
    reader = learner.reader.reading(learner._way(storage, scales), check)
    sizes = (learner.features, learner.vocabulary, type(learner).planes, len(learner.label_set))
    shape = Shape(*sizes, np.dtype(learner.dtype), learner._filling())
    table = Table(shape, reader, storage, scales, memory, known)
    table.reserve(features, arrays)
    if weights is not None:
        table.buffer[: len(weights), :, : weights.shape[2]] = weights
    table.make_room_to_scale(0)
    learner.reader, learner.table = reader, table
    learner.calls = Calls(learner.params, table)
    learner.planes = table.planes  # type: ignore[misc] overrides the class attribute


def use(learner: Learner, storage: Storage) -> None:
    """Start anew with another storage."""
    lay_out(learner, storage, None, learner.table.state.memory, {}, NO_MAP)


def take(learner: Learner, table: Table, arrays: dict[str, np.ndarray]) -> None:
    """Take over a table, perhaps of fewer labels, with these arrays of its storage."""
    weights, known = table.state.table[:, :, : table.size], (table.slots, table.width)
    memory, size = table.state.memory, len(weights)
    lay_out(learner, table.storage, table.scales, memory, arrays, known, size, weights)


def add_label(learner: Learner, label: str | int | None) -> None:
    """Add a label, also one that only earlier versions allowed."""
    with learner.lock:
        table = learner.table
        arrays = table.storage.arrays(table.state.held, len(table.state.table), table.size)
        learner.label_set.add(label)
        try:
            take(learner, table, arrays)
        except BaseException:
            learner.label_set.drop_last()
            raise
        learner.table.storage.meet_label(learner.table.state, learner.table.size)


# Contexts of another kind.


def met(learner: Learner, x: Any, row: Row, columns: int, way: Raw) -> Row:
    """The row of a context, read in this way, now that no other thread can teach the learner.

    columns: of a dense row, if the learner has to know them.
    """
    if type(x) is not tuple:
        meet(learner, columns)
        learner.reader.check_is_named(x, learner)
    if learner.reader.way is not way:  # it has met its first dense row
        row = learner.reader.way.one(x, learner.reader.columns)
    learner.table.make_room_to_scale(len(row[0]))
    return row


def meet(learner: Learner, columns: int) -> None:
    """A context comes, a dense row of so many columns; 0: it is of another kind."""
    if columns and learner.reader.way.is_open:
        learner.reader.check_open_to(columns, learner)
        learner.table.check_width(columns, False)
        read_columns(learner, columns)


def after_meeting(learner: Learner, columns: int) -> Learner:
    """The learner after dense rows of so many columns came; it does not change itself."""
    if not (columns and learner.reader.way.is_open):
        return learner
    copy = learner.copy()
    meet(copy, columns)
    return copy


def read_columns(learner: Learner, columns: int) -> None:
    """Start anew, as a learner of dense rows of so many columns."""
    table = learner.table
    storage = table.storage.for_columns(columns)
    if storage is not None:
        use(learner, storage)
        return
    scales = first_scales(columns, table.dtype)
    lay_out(learner, table.storage, scales, table.state.memory, {}, NO_MAP, columns + 1)


def first_scales(columns: int | None, dtype: np.dtype) -> Any:
    """The first scales of dense rows of so many columns; 0: of other contexts."""
    if columns:
        return scales_of_columns(np.zeros((columns + 1, STATISTICS)), dtype)
    return scales_of_names(dtype)
