"""The table of a learner: a row for each feature, and room for new features.

`FeatureTable` is the part of `Learner` that makes this room. Up to a certain width, the row of a
feature is its index. Beyond that, rows are made as features occur, and a map (`core.slots`) gives
the row, or place, of a feature.

With a vocabulary, so many features get rows. All later ones share a row: in each context, they are
one feature, `OTHERS`. Which features have rows depends only on the contexts and their order.
"""

from __future__ import annotations

import functools
import math
import os
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from onebit.core.lanes import aligned_zeros
from onebit.core.rounds import Work
from onebit.core.slots import (
    ALL,
    BLANKS,
    OTHERS,
    PLAIN,
    find_places,
    merge_others,
    place_rows,
    plain_width,
    slots_of,
    widened,
    width_of,
)
from onebit.reading.contexts import check_within
from onebit.reading.reader import Reader
from onebit.reading.rows import GROWTH_LIMIT, Rows, cut
from onebit.storage.base import Storage
from onebit.storage.scales import Columns, Names, with_room

# Up to this many features and bytes, every index has a row in the table; beyond that, only features
# that occurred have one.
NEAR, SMALL = 2**19, 3 * 2**22
NO_ORDER = np.empty(0, np.int64)  # rows are in their given order


class FeatureTable:
    """Room for features: in the table, in its map, in the storage and in the scratch space."""

    features: int | None  # if their number is fixed
    vocabulary: int | None  # how many may have a row of their own, if that is limited
    planes: ClassVar[int]
    _dtype: np.dtype
    _size: int  # the number of labels
    _state: Any
    _buffer: np.ndarray  # the table of the state, and rows for more features
    _whole: np.ndarray  # the buffer, and room for blank rows
    _slots: np.ndarray  # the map; empty: the row of a feature is its index
    # A map that is laid out with a limited table: later, there might be no memory for it.
    _blank_map: np.ndarray | None = None
    _work: Work
    _storage: Storage
    _scales: Any
    reader: Reader
    _width = 0  # of the features in the map that are neither apart (`_first_number`) nor OTHERS

    def _fill(self) -> tuple[float, ...]:
        """The initial value of each plane of the table; an algorithm may override it."""
        return (0.0,) * self.planes

    @property
    def _first_number(self) -> int:
        """The index from which on features are numbers of dicts, if indices tell."""
        return 2**32

    @property
    def _column_count(self) -> int:
        """How many columns the learner standardises; 0: contexts are not read as dense rows."""
        return len(self._scales.row) if type(self._scales) is Columns else 0

    @property
    def _reads_columns(self) -> bool:
        return self._column_count > 0

    def _reserve_for(self, indices: np.ndarray, columns: int = 0, work: Work | None = None) -> Work:
        """Make room for the features of a context. columns: of a dense row, else 0.

        The context must be as `_fitted` gives it. Returns the scratch space, with room for it.
        """
        work = self._work if work is None else work
        if not len(indices):
            return work
        are_marked, width = type(self._scales) is Names, self.reader.way.width(indices)
        is_mapped = self._maps(columns, width)
        self._check_width(width, is_mapped)
        if is_mapped:
            self._give_places(indices, np.array([0, len(indices)]), NO_ORDER, width)
        else:
            self._reserve(width)
        if (is_mapped or are_marked) and len(indices) > len(self._work.places):
            self._work = self._work._replace(places=np.zeros(2 * len(indices), np.uint32))
        self._make_room_to_scale(len(indices))
        slots, places, scales = self._work.slots, self._work.places, self._work.scales
        if work.slots is slots and work.places is places and work.scales is scales:
            return work
        return work._replace(slots=slots, places=places, scales=scales)

    def _has_room_for(self, indices: np.ndarray) -> bool:
        """Whether all features of a context are in the table."""
        if type(self._scales) is Names:
            indices = np.sort(indices & PLAIN)
        width = width_of(indices)
        if not len(self._slots):
            return width <= len(self._state.table)
        return width <= len(self._slots) and bool(self._slots[indices].all())

    def _maps(self, columns: int, width: int, replicas: int = 1) -> bool:
        """Whether features get rows of the table as they occur. columns, width: of the new rows.

        They do when indices are so large, as those of hashed names, that a row for each index would
        take much memory, and where there is a vocabulary; but not if the number of features is
        fixed or the first context was a dense row. replicas: how many learners share the table.
        """
        if len(self._slots):
            return True
        row = replicas * self._buffer.itemsize * math.prod(self._buffer.shape[1:])
        is_large = width > NEAR or width * row > SMALL or self.vocabulary is not None
        return is_large and self._may_map and not (columns or self.reader.columns)

    @property
    def _most_features(self) -> int:
        if self._reads_columns:  # and a constant
            return self._column_count + (self._scales is not None)
        return self.features or GROWTH_LIMIT

    def _wider_slots(self, width: int) -> np.ndarray:
        """The map for this many features. A new map gives features in the table their own index."""
        have = len(self._state.table)
        if len(self._slots) or self._blank_map is None:
            slots = self._slots if len(self._slots) else slots_of(np.arange(have))
            return widened(slots, width)
        slots, self._blank_map = self._blank_map, None
        slots[:have] = np.arange(1, have + 1)
        return slots

    @property
    def _may_map(self) -> bool:
        return self.features is None and self._storage.maps_features and self.planes > 0

    def _slots_of(self, features: np.ndarray) -> np.ndarray:
        """The map for a table of these features, which increase."""
        near = features[(features < self._first_number) & (features != OTHERS)]
        self._width = width_of(near)
        slots = slots_of(features)
        return slots if self.vocabulary is None else widened(slots, self._most_features)

    def _may_have(self, features: np.ndarray) -> bool:
        """Whether the table may consist of these features, which increase."""
        return self._may_map and width_of(features) <= self._most_features

    def _place(self, rows: Rows, order: np.ndarray) -> Rows:
        """Make room for the rows of a stream; they come back with places for indices."""
        longest = int(np.diff(rows.indptr).max(initial=0))
        if not rows.width or not self._maps(rows.columns, rows.width):
            self._check_width(rows.width, False)
            self._reserve(rows.width)
            self._make_room_to_scale(longest)
            return rows
        rows = self._fitted_stream(rows, order)
        places = self._give_places(rows.indices, rows.indptr, order, rows.width)
        self._make_room_to_scale(longest)
        return rows._replace(indices=places, width=len(self._state.table))

    def _give_places(
        self, indices: np.ndarray, indptr: np.ndarray, order: np.ndarray, width: int
    ) -> np.ndarray:
        """Make room for the features of rows. Returns their places."""
        slots, have = self._wider_slots(width), len(self._state.table)
        places, seen = np.zeros(len(indices), np.uint32), np.zeros(len(indptr) - 1, np.uint8)
        count = place_rows(indices, indptr, order, slots, have, ALL, seen, places)
        try:
            self._reserve(count)
        except BaseException:
            slots[slots > have] = 0
            raise
        if slots is not self._work.slots:
            self._slots, self._work = slots, self._work._replace(slots=slots)
        plain = indices & PLAIN
        near = plain[(plain < self._first_number) & (plain != OTHERS)]
        width = max(self._width, have, int(near.max(initial=0)) + 1)
        self._width = min(width, self._first_number)
        return places

    # A table of limited size. It is laid out as a whole, so that it never has to be copied to grow;
    # pages take memory when they are used.

    @property
    def _is_limited(self) -> bool:
        """Whether features may have to share a row."""
        can_map = self._may_map and (len(self._slots) > 0 or not self.reader.columns)
        return self.vocabulary is not None and can_map

    @property
    def _most_rows(self) -> int:
        """How many rows the table is laid out for."""
        return 0 if self.vocabulary is None or not self._is_limited else self.vocabulary + 1

    @property
    def _room(self) -> int:
        """How many more features may have rows of their own."""
        return max((self.vocabulary or 0) - self._own_rows, 0)

    @property
    def _own_rows(self) -> int:
        """How many features have rows of their own."""
        is_shared = len(self._slots) > OTHERS and self._slots[OTHERS] > 0
        return len(self._state.table) - bool(is_shared)

    @property
    def _is_full(self) -> bool:
        """Whether all new features have to share a row."""
        return self._is_limited and self._room == 0

    def _fitted(self, row: tuple[Any, Any]) -> tuple[Any, Any]:
        """A context as the table has room for it: features that find none become one."""
        indices, values = row
        if not self._is_limited or self._room >= len(indices) or self._has_room_for(indices):
            return row
        rows = Rows(indices, values, np.array([0, len(indices)]), plain_width(indices))
        rows = self._merged(rows, self._slots, self._room)
        return rows.indices, rows.values

    def _fitted_stream(self, rows: Rows, order: np.ndarray) -> Rows:
        """The rows of a stream, each as the table has room for it when its round comes."""
        if not self._is_limited or self._room >= len(rows.indices):
            return rows
        blank, have = self._blank_map, len(self._state.table)
        slots = self._wider_slots(rows.width).copy()
        self._blank_map = blank
        places, seen = np.zeros_like(rows.indices), np.zeros(len(rows.indptr) - 1, np.uint8)
        args = (rows.indices, rows.indptr, order, slots, have, have + self._room)
        place_rows(*args, seen, places)
        return self._merged(rows, slots, 0)  # a feature gets a row when it first occurs, or never

    def _merged(self, rows: Rows, slots: np.ndarray, room: int) -> Rows:
        """The rows, each with room for so many features without a place."""
        size = len(rows.indices) + len(rows.indptr)
        out = (
            np.empty(size, np.uint32),
            np.empty(size, rows.values.dtype),
            np.zeros(len(rows.indptr), np.int64),
        )
        args = (*rows[:3], slots, np.int64(room), np.int64(self._first_number), *out)
        kept = merge_others(*args)
        indices, values = cut(out[0], kept), cut(out[1], kept)
        return Rows(indices, values, out[2], plain_width(indices))

    def _found(self, rows: Rows) -> tuple[Any, Rows]:
        """The state, with blank rows if they are needed, and rows with places for indices.

        Nothing may be learned by this state.
        """
        have = len(self._state.table)
        if not len(self._slots) and rows.width <= have:
            return self._state, rows
        if self._is_limited:
            rows = self._merged(rows, self._slots, self._room)
        places = np.empty_like(rows.indices)
        needed = find_places(rows.indices, self._slots, have, self._first_number, places)
        state = self._with_blanks(needed) if needed else self._state
        return state, rows._replace(indices=places)

    def _with_blanks(self, needed: int) -> Any:
        """The state with blank rows, of which so many are needed."""
        have = len(self._state.table)
        self._fill_rows(self._whole[have : have + BLANKS])
        return self._state._replace(table=self._whole[: have + BLANKS])

    def _fill_rows(self, rows: np.ndarray) -> None:
        """Give new rows of the table, which are zero, their initial values."""
        for plane, fill in enumerate(self._fill()[: self.planes]):
            if fill:
                rows[:, plane] = fill

    def _features(self) -> np.ndarray:
        """The features in the table, from the smallest to the largest."""
        if not len(self._slots):
            return np.arange(len(self._state.table), dtype=np.uint32)
        # The map has room for all features between, of which there are millions.
        first = min(self._first_number, len(self._slots))
        parts = ((0, self._width), (max(OTHERS, self._width), first), (first, len(self._slots)))
        found = [start + np.flatnonzero(self._slots[start:stop]) for start, stop in parts]
        return np.concatenate(found).astype(np.uint32)

    def _order(self) -> np.ndarray:
        """The places of the features in the table, from the smallest feature to the largest."""
        if len(self._slots):
            return self._slots[self._features()].astype(np.int64) - 1
        return np.arange(len(self._state.table))

    def _own_features(self) -> tuple[np.ndarray, np.ndarray]:
        """The features that have rows of their own, and their places."""
        features, order = self._features(), self._order()
        if self.vocabulary is None:
            return features, order
        mine = features != OTHERS
        return features[mine], order[mine]

    def _reserve(self, rows: int, arrays: dict[str, np.ndarray] | None = None) -> None:
        """Make room for at least this many features. arrays: the new contents of the storage."""
        rows = int(rows)  # numpy's integers would overflow in sizes
        have, storage, held = self._state.table.shape[0], self._storage, self._state.held
        if rows <= have and not arrays:
            return
        limit = self._check_width(rows, True)
        if rows > min(len(self._buffer), storage.room(held)):
            wanted = max(rows, min(2 * len(self._buffer), limit))
            if self._bytes_for(wanted) > _physical_memory():
                wanted = max(rows, min(len(self._buffer) * 9 // 8, limit))
            if self._bytes_for(wanted) > _physical_memory():
                wanted = rows
            self._check_memory(wanted)
            larger = aligned_zeros((wanted + BLANKS, *self._buffer.shape[1:]), self._dtype)
            larger[:have] = self._buffer[:have]
            if arrays or storage.room(held) < wanted:
                held = storage.lay_out(
                    arrays or storage.arrays(held, have, self._size), wanted, self._size
                )
            self._whole, self._buffer = larger, larger[:wanted]
        elif arrays:
            held = storage.lay_out(arrays, rows, self._size)
        self._fill_rows(self._buffer[have:rows])
        self._state = type(self._state)(self._buffer[:rows], self._state.memory, held)

    def _check_width(self, width: int, is_mapped: bool) -> int:
        """Refuse indices beyond the limit. Returns the limit."""
        limit, most = self._most_features, self.vocabulary
        if not (is_mapped or most is None or self.features or width <= most):
            raise ValueError(
                f"index {width - 1} is beyond vocabulary={most}, the number of features for which "
                "this learner may take memory: hash the features into fewer columns with "
                "features=, or raise vocabulary"
            )
        if width > limit and self._reads_columns:
            check_within(width - 1, self._column_count)
        if width > limit:
            raise ValueError(f"index {width - 1} is beyond the limit of {limit} features")
        return limit

    def _bytes_for(self, rows: int) -> int:
        table = rows * math.prod(self._buffer.shape[1:]) * self._dtype.itemsize
        return table + self._storage.size(rows, self._size)

    def _check_memory(self, rows: int) -> None:
        """Refuse a table that does not fit into memory, before anything is allocated."""
        needed = self._bytes_for(rows)
        if needed > _physical_memory():
            raise MemoryError(
                f"{self._storage.in_words(rows, self._size)} take {needed / 2**30:,.1f} GiB; "
                f"this machine has {_physical_memory() / 2**30:,.1f} GiB. {self._storage.advice}"
            )

    def _make_room_to_scale(self, entries: int) -> None:
        """Make room for the scales of all features, and for a scaled row of so many entries."""
        if type(self._scales) is Names:
            self._scales = with_room(self._scales, len(self._state.table) + BLANKS, entries)
        if self._work.scales is not self._scales:
            self._work = self._work._replace(scales=self._scales)


@functools.cache
def _physical_memory() -> float:
    """The bytes of memory of this machine, or of its container."""
    try:
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not a POSIX system
        return math.inf
    try:
        return min(there, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):  # no such limit, or "max"
        return there
