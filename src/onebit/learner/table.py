"""The table of a learner: a row for each feature, and room for new features.

Up to a certain width, the row of a
feature is its index. Beyond that, rows are made as features occur, and a map (`core.slots`) gives
the row, or place, of a feature.

With a vocabulary, so many features get rows. All later ones share a row: in each context, they are
one feature, `OTHERS`. Which features have rows depends only on the contexts and their order.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onebit.core.lanes import aligned_zeros, lanes_for, state_type
from onebit.core.rounds import Work
from onebit.core.slots import (
    ALL,
    BLANKS,
    OTHERS,
    PLAIN,
    find_places,
    merge_others,
    no_slots,
    place_rows,
    plain_width,
    slots_of,
    widened,
    width_of,
)
from onebit.reading.contexts import check_within
from onebit.reading.dicts import HASHED
from onebit.reading.reader import Reader
from onebit.reading.rows import Rows, cut
from onebit.storage.base import Storage, row_blocks
from onebit.storage.scales import TIMES, Columns, Names, with_room

# Up to this many features and bytes, every index has a row in the table; beyond that, only features
# that occurred have one.
NEAR, SMALL = 2**19, 3 * 2**22
NO_ORDER = np.empty(0, np.int64)  # rows are in their given order


Filling = Callable[[np.ndarray], tuple[float, ...]]  # the initial values, from the memory


class Shape(NamedTuple):
    """What the settings of a learner say of its table."""

    features: int | None  # if their number is fixed
    vocabulary: int | None  # how many may have a row of their own, if that is limited
    planes: int  # values per feature and label, if the storage does not say it
    labels: int
    dtype: np.dtype
    filling: Filling


NO_MAP = no_slots(), 0


class Table:
    """What a learner has learned, with room for features: weights, memory, storage and scales.

    A learner gets a new table whenever its state is laid out anew. Rows are in the order in which
    features occurred first; `weights` and `arrays` have them in the order of the features.
    """

    def __init__(
        self,
        shape: Shape,
        reader: Reader,
        storage: Storage,
        scales: Any,
        memory: np.ndarray,
        known: tuple[np.ndarray, int],
    ) -> None:
        """The initial state. known: the map of features, and its width, as `map_of` gives them."""
        self.features, self.vocabulary, planes, self.size, self.dtype, self._filling = shape
        self.planes = planes if storage.planes is None else storage.planes
        self.reader, self.storage, self.scales = reader, storage, scales
        # The map, empty if the row of a feature is its index; and the width of the features in it
        # that are neither numbers beyond all others nor OTHERS.
        self.slots, self.width = known
        lanes = lanes_for(self.size)
        self.buffer = np.empty((0, self.planes, lanes), self.dtype)
        rows = self._most_rows
        self._check_memory(self.features or rows)
        # A limited table is laid out with its map: later, there might be no memory for it.
        is_new = rows > 0 and not len(self.slots)
        self._blank_map = widened(no_slots(), self.most_features) if is_new else None
        # The table of the state, rows for more features, and room for blank rows.
        self.whole = aligned_zeros((rows + BLANKS, self.planes, lanes), self.dtype)
        self.buffer = self.whole[:rows]
        held = storage.lay_out({}, 0, self.size)
        self.state: Any = state_type(lanes)(self.whole[:0], memory.copy(), held)
        scores, widths, bounds, mask = (aligned_zeros((lanes,), self.dtype) for _ in range(4))
        mask[self.size :] = -np.inf
        no_places = np.zeros(0, np.uint32)
        self.work = Work(scores, widths, bounds, mask, np.zeros(lanes), self.slots, no_places)

    def restricted(self, places: Iterable[int]) -> Work:
        """Scratch space in which only some labels may be said."""
        mask = aligned_zeros(self.work.mask.shape, self.dtype)
        mask[:] = -np.inf
        mask[list(places)] = 0
        return self.work._replace(mask=mask)

    def fill(self) -> tuple[float, ...]:
        """The initial value of each plane of the table."""
        return self._filling(self.state.memory)[: self.planes]

    def reserve_for(self, indices: np.ndarray, columns: int = 0, work: Work | None = None) -> Work:
        """Make room for the features of a context. columns: of a dense row, else 0.

        The context must be as `fitted` gives it. Returns the scratch space, with room for it.
        """
        work = self.work if work is None else work
        if not len(indices):
            return work
        are_marked, width = type(self.scales) is Names, self.reader.way.width(indices)
        is_mapped = self.maps(columns, width)
        self.check_width(width, is_mapped)
        if is_mapped:
            self._give_places(indices, np.array([0, len(indices)]), NO_ORDER, width)
        else:
            self.reserve(width)
        if (is_mapped or are_marked) and len(indices) > len(self.work.places):
            self.work = self.work._replace(places=np.zeros(2 * len(indices), np.uint32))
        self.make_room_to_scale(len(indices))
        slots, places, scales = self.work.slots, self.work.places, self.work.scales
        if work.slots is slots and work.places is places and work.scales is scales:
            return work
        return work._replace(slots=slots, places=places, scales=scales)

    def has_room_for(self, indices: np.ndarray) -> bool:
        """Whether all features of a context are in the table."""
        if type(self.scales) is Names:
            indices = np.sort(indices & PLAIN)
        width = width_of(indices)
        if not len(self.slots):
            return width <= len(self.state.table)
        return width <= len(self.slots) and bool(self.slots[indices].all())

    def places(self, indices: np.ndarray) -> np.ndarray:
        """Where features are that have room."""
        return self.slots[indices] - np.uint32(1) if len(self.slots) else indices

    def maps(self, columns: int, width: int, replicas: int = 1) -> bool:
        """Whether features get rows of the table as they occur. columns, width: of the new rows.

        They do when indices are so large, as those of hashed names, that a row for each index would
        take much memory, and where there is a vocabulary; but not if the number of features is
        fixed or the first context was a dense row. replicas: how many learners share the table.
        """
        if len(self.slots):
            return True
        if width > self.reader.way.first_number:
            return True
        row = replicas * self.buffer.itemsize * math.prod(self.buffer.shape[1:])
        is_large = width > NEAR or width * row > SMALL or self.vocabulary is not None
        return is_large and self.may_map and not (columns or self.reader.columns)

    @property
    def most_features(self) -> int:
        """How many features there may be."""
        return self.reader.way.most_features + (type(self.scales) is Columns)  # with a constant

    def _wider_slots(self, width: int) -> np.ndarray:
        """The map for this many features. A new map gives features in the table their own index."""
        have = len(self.state.table)
        if len(self.slots) or self._blank_map is None:
            slots = self.slots if len(self.slots) else slots_of(np.arange(have))
            return widened(slots, width)
        slots, self._blank_map = self._blank_map, None
        slots[:have] = np.arange(1, have + 1)
        return slots

    @property
    def may_map(self) -> bool:
        return self.features is None and self.storage.maps_features and self.planes > 0

    def map_of(self, features: np.ndarray) -> tuple[np.ndarray, int]:
        """The map for a table of these features, which increase, and its width."""
        near = features[(features < self.reader.way.first_number) & (features != OTHERS)]
        slots = slots_of(features)
        slots = slots if self.vocabulary is None else widened(slots, self.most_features)
        return slots, width_of(near)

    def may_have(self, features: np.ndarray) -> bool:
        """Whether the table may consist of these features, which increase."""
        if width_of(features) > self.most_features:
            return False
        if self.features is None:
            return self.may_map
        # All of these have rows, and numbers beyond them have rows, too.
        count = int((features < self.features).sum())
        return count == self.features and self.reader.way.first_number < self.most_features

    def place(self, rows: Rows, order: np.ndarray) -> Rows:
        """Make room for the rows of a stream; they come back with places for indices."""
        longest = int(np.diff(rows.indptr).max(initial=0))
        if not rows.width or not self.maps(rows.columns, rows.width):
            self.check_width(rows.width, False)
            self.reserve(rows.width)
            self.make_room_to_scale(longest)
            return rows
        rows = self._fitted_stream(rows, order)
        places = self._give_places(rows.indices, rows.indptr, order, rows.width)
        self.make_room_to_scale(longest)
        return rows._replace(indices=places, width=len(self.state.table))

    def _give_places(
        self, indices: np.ndarray, indptr: np.ndarray, order: np.ndarray, width: int
    ) -> np.ndarray:
        """Make room for the features of rows. Returns their places."""
        has_numbers = width > self.reader.way.first_number  # beyond all other features
        slots, have = self._wider_slots(width), len(self.state.table)
        places, seen = np.zeros(len(indices), np.uint32), np.zeros(len(indptr) - 1, np.uint8)
        count = place_rows(indices, indptr, order, slots, have, ALL, seen, places)
        try:
            self.reserve(count)
        except BaseException:
            slots[slots > have] = 0
            raise
        if slots is not self.work.slots:
            self.slots, self.work = slots, self.work._replace(slots=slots)
        plain = indices & PLAIN
        near = plain[(plain < self.reader.way.first_number) & (plain != OTHERS)]
        width = max(self.width, have, int(near.max(initial=0)) + 1)
        first = self.reader.way.first_number
        self.width = min(width, first)
        if has_numbers:
            numbers = self.slots[plain[plain >= first]]
            if numbers.any():  # of rows that do not come, they have no places
                self._hold_numbers(numbers[numbers > 0] - np.uint32(1))
        return places

    def _hold_numbers(self, places: np.ndarray) -> None:
        """Tell the storage that there are numbers of dicts in these rows."""
        held = self.storage.with_numbers(self.state.held, places)
        self.state = self.state._replace(held=held)

    def hold_known_numbers(self) -> None:
        """Tell the storage, which was laid out anew, of all numbers in the table."""
        if len(self.slots):
            are_numbers = self.known() >= self.reader.way.first_number
            if are_numbers.any():
                self._hold_numbers(self.order()[are_numbers])

    # A table of limited size. It is laid out as a whole, so that it never has to be copied to grow;
    # pages take memory when they are used.

    @property
    def is_limited(self) -> bool:
        """Whether features may have to share a row."""
        if self.vocabulary is None:
            return False
        return self.may_map and (len(self.slots) > 0 or not self.reader.columns)

    @property
    def _most_rows(self) -> int:
        """How many rows the table is laid out for."""
        return 0 if self.vocabulary is None or not self.is_limited else self.vocabulary + 1

    @property
    def room(self) -> int:
        """How many more features may have rows of their own."""
        return max((self.vocabulary or 0) - self.own_rows, 0)

    @property
    def own_rows(self) -> int:
        """How many features have rows of their own."""
        is_shared = len(self.slots) > OTHERS and self.slots[OTHERS] > 0
        return len(self.state.table) - bool(is_shared)

    @property
    def is_full(self) -> bool:
        """Whether all new features have to share a row."""
        return self.is_limited and self.room == 0

    def fitted(self, row: tuple[Any, Any]) -> tuple[Any, Any]:
        """A context as the table has room for it: features that find none become one."""
        indices, values = row
        if not self.is_limited or self.room >= len(indices) or self.has_room_for(indices):
            return row
        rows = Rows(indices, values, np.array([0, len(indices)]), plain_width(indices))
        rows = self.merged(rows, self.slots, self.room)
        return rows.indices, rows.values

    def _fitted_stream(self, rows: Rows, order: np.ndarray) -> Rows:
        """The rows of a stream, each as the table has room for it when its round comes."""
        if not self.is_limited or self.room >= len(rows.indices):
            return rows
        blank, have = self._blank_map, len(self.state.table)
        slots = self._wider_slots(rows.width).copy()
        self._blank_map = blank
        places, seen = np.zeros_like(rows.indices), np.zeros(len(rows.indptr) - 1, np.uint8)
        args = (rows.indices, rows.indptr, order, slots, have, have + self.room)
        place_rows(*args, seen, places)
        return self.merged(rows, slots, 0)  # a feature gets a row when it first occurs, or never

    def merged(self, rows: Rows, slots: np.ndarray, room: int) -> Rows:
        """The rows, each with room for so many features without a place."""
        size = len(rows.indices) + len(rows.indptr)
        out = (
            np.empty(size, np.uint32),
            np.empty(size, rows.values.dtype),
            np.zeros(len(rows.indptr), np.int64),
        )
        args = (*rows[:3], slots, np.int64(room), np.int64(self.reader.way.first_number), *out)
        kept = merge_others(*args)
        indices, values = cut(out[0], kept), cut(out[1], kept)
        return Rows(indices, values, out[2], plain_width(indices))

    def found(self, rows: Rows) -> tuple[Any, Rows]:
        """The state, with blank rows if they are needed, and rows with places for indices.

        Nothing may be learned by this state.
        """
        have = len(self.state.table)
        if not len(self.slots) and rows.width <= have:
            return self.state, rows
        if self.is_limited:
            rows = self.merged(rows, self.slots, self.room)
        places = np.empty_like(rows.indices)
        needed = find_places(rows.indices, self.slots, have, self.reader.way.first_number, places)
        state = self._with_blanks(needed) if needed else self.state
        return state, rows._replace(indices=places)

    def _with_blanks(self, needed: int) -> Any:
        """The state with blank rows, of which so many are needed."""
        have = len(self.state.table)
        self._fill_rows(self.whole[have : have + BLANKS])
        state = self.state._replace(table=self.whole[: have + BLANKS])
        if needed < BLANKS:  # no new number
            return state
        return state._replace(held=self.storage.with_blank(state.held, have + BLANKS - 1))

    def _fill_rows(self, rows: np.ndarray) -> None:
        """Give new rows of the table, which are zero, their initial values."""
        for plane, fill in enumerate(self.fill()):
            if fill:
                rows[:, plane] = fill

    def known(self) -> np.ndarray:
        """The features in the table, from the smallest to the largest."""
        if not len(self.slots):
            return np.arange(len(self.state.table), dtype=np.uint32)
        # The map has room for all features between, of which there are millions.
        first = min(self.reader.way.first_number, len(self.slots))
        parts = ((0, self.width), (max(OTHERS, self.width), first), (first, len(self.slots)))
        found = [start + np.flatnonzero(self.slots[start:stop]) for start, stop in parts]
        return np.concatenate(found).astype(np.uint32)

    def order(self) -> np.ndarray:
        """The places of the features in the table, from the smallest feature to the largest."""
        if len(self.slots):
            return self.slots[self.known()].astype(np.int64) - 1
        return np.arange(len(self.state.table))

    def weights(self) -> np.ndarray:
        """The weights [feature, plane, label] without padding, in the order of the features."""
        table, order = self.state.table, self.order()
        found = np.empty((len(order), table.shape[1], self.size), table.dtype)
        for rows in row_blocks(found):  # other threads may run in between
            found[rows] = table[order[rows], :, : self.size]
        return found

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of the storage, without padding, in the order of the features."""
        order = self.order()
        arrays = self.storage.arrays(self.state.held, len(order), self.size)
        return self.storage.moved(arrays, np.argsort(order))

    def plane(self, plane: int) -> np.ndarray:
        """One plane [label, feature], without padding; numbers beyond all others come last."""
        (features, order), first = self._own(), self.reader.way.first_number
        if len(features) and features[-1] >= first:
            last = features - first + max(self.width, HASHED)
            features = np.where(features < first, features, last)
        found = np.empty((self.size, width_of(features)), self.dtype)
        found[:] = self.fill()[plane]
        found[:, features] = self.state.table[order, plane, : self.size].T
        return found

    def knows_numbers(self) -> bool:
        """Whether the scales of numbers of dicts were learned."""
        if type(self.scales) is Names:
            return bool(self.scales.lines[0, TIMES] > 0)
        return self.storage.knows_numbers(self.state.held)

    def differs_from(self, memory: np.ndarray) -> bool:
        """Whether anything was learned. memory: its initial values."""
        weights, held = self.state.table, self.state.held
        prior = np.array(self.fill(), self.dtype)[:, None]
        return (
            self.storage.has_learned(held, len(weights), self.size)
            or not np.array_equal(self.state.memory, memory)
            or any((weights[rows, :, : self.size] != prior).any() for rows in row_blocks(weights))
        )

    def _own(self) -> tuple[np.ndarray, np.ndarray]:
        """The features that have rows of their own, and their places."""
        features, order = self.known(), self.order()
        if self.vocabulary is None:
            return features, order
        mine = features != OTHERS
        return features[mine], order[mine]

    def reserve(self, rows: int, arrays: dict[str, np.ndarray] | None = None) -> None:
        """Make room for at least this many features. arrays: the new contents of the storage."""
        rows = int(rows)  # numpy's integers would overflow in sizes
        have, storage, held = self.state.table.shape[0], self.storage, self.state.held
        if rows <= have and not arrays:
            return
        limit = self.check_width(rows, True)
        if rows > min(len(self.buffer), storage.room(held)):
            wanted = self._affordable(rows, limit)
            larger = aligned_zeros((wanted + BLANKS, *self.buffer.shape[1:]), self.dtype)
            larger[:have] = self.buffer[:have]
            if arrays or storage.room(held) < wanted:
                held = storage.lay_out(
                    arrays or storage.arrays(held, have, self.size), wanted, self.size
                )
            self.whole, self.buffer = larger, larger[:wanted]
        elif arrays:
            held = storage.lay_out(arrays, rows, self.size)
        self._fill_rows(self.buffer[have:rows])
        self.state = type(self.state)(self.buffer[:rows], self.state.memory, held)

    def _affordable(self, rows: int, limit: int) -> int:
        """For how many features to make room: for more than `rows`, if the memory allows it."""
        have = len(self.buffer)
        for room in (2 * have, have * 9 // 8):
            wanted = max(rows, min(room, limit))
            if self.bytes_for(wanted) <= _physical_memory():
                return wanted
        self._check_memory(rows)
        return rows

    def check_width(self, width: int, is_mapped: bool) -> int:
        """Refuse indices beyond the limit. Returns the limit."""
        limit, most = self.most_features, self.vocabulary
        if not (is_mapped or most is None or self.features or width <= most):
            raise ValueError(
                f"index {width - 1} is beyond vocabulary={most}, the number of features for which "
                "this learner may take memory: hash the features into fewer columns with "
                "features=, or raise vocabulary"
            )
        if width > limit and self.reader.way.columns:
            check_within(width - 1, self.reader.way.columns)
        if width > limit:
            raise ValueError(f"index {width - 1} is beyond the limit of {limit} features")
        return limit

    def bytes_for(self, rows: int) -> int:
        table = rows * math.prod(self.buffer.shape[1:]) * self.dtype.itemsize
        return table + self.storage.size(rows, self.size)

    def _check_memory(self, rows: int) -> None:
        """Refuse a table that does not fit into memory, before anything is allocated."""
        needed = self.bytes_for(rows)
        if needed > _physical_memory():
            raise MemoryError(
                f"{self.storage.in_words(rows, self.size)} take {needed / 2**30:,.1f} GiB; "
                f"this machine has {_physical_memory() / 2**30:,.1f} GiB. {self.storage.advice}"
            )

    def make_room_to_scale(self, entries: int) -> None:
        """Make room for the scales of all features, and for a scaled row of so many entries."""
        if type(self.scales) is Names:
            self.scales = with_room(self.scales, len(self.state.table) + BLANKS, entries)
        if self.work.scales is not self.scales:
            self.work = self.work._replace(scales=self.scales)


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
