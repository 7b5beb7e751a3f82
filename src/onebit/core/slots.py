"""Places of features in the table of weights.

Where the number of features is not fixed, indices may be far apart: names are hashed into 2^20
columns. A map then gives each feature that occurs the next free row of the table, its place.

`slots[feature]` is the place plus 1, or 0 for a feature without a place. An empty map means that
the place of every feature is its own index. Pages of the map that are never written take no memory.
"""

from __future__ import annotations

import math

import numpy as np

from onebit.core.jit import entry, inline
from onebit.core.lanes import at
from onebit.core.rounds import Row

NO_ROOM = -1
MARK = 2**31  # in an index: the feature is a number that is to be scaled (see `storage.scales`)
PLAIN = MARK - 1
# Rows after the table's own, with the initial values. They stand for all features that never
# occurred, when contexts are only read: one for numbers of dicts, which comes last, one for others.
BLANKS = 2
# The feature that stands for all those that find no more room in a table of limited size: the
# largest index, but for those of numbers.
OTHERS = 2**24 - 1
ALL = 2**62  # the limit of a table that has none
_FEWEST = 2**10  # features for which a map has room


def no_slots() -> np.ndarray:
    """The empty map."""
    return np.zeros(0, np.uint32)


def widened(slots: np.ndarray, features: int) -> np.ndarray:
    """A map with the same places and with room for this number of features."""
    if features <= len(slots):
        return slots
    wider = np.zeros(max(_FEWEST, 1 << (int(features) - 1).bit_length()), np.uint32)
    wider[: len(slots)] = slots
    return wider


def width_of(features: np.ndarray) -> int:
    """The largest of the features, which increase, plus 1."""
    return int(features[-1]) + 1 if len(features) else 0


def plain_width(indices: np.ndarray) -> int:
    """One more than the largest of indices of which some are marked."""
    return int((indices & np.uint32(PLAIN)).max()) + 1 if len(indices) else 0


def slots_of(features: np.ndarray) -> np.ndarray:
    """The map that gives features, which increase, the places 0, 1, 2, ..."""
    slots = widened(no_slots(), width_of(features))
    slots[features] = np.arange(1, len(features) + 1)
    return slots


@inline
def placed(state, work, indices, values):
    """The row with places for indices; its `stop` is NO_ROOM if a feature has no place."""
    size, slots = len(indices), work.slots
    if len(slots) == 0 and (size == 0 or indices[-1] < MARK):
        fits = size == 0 or indices[-1] < state.table.shape[0]
        return Row(indices, values, 0, size if fits else NO_ROOM)
    if size > len(work.places):
        return Row(indices, values, 0, NO_ROOM)
    for i in range(size):
        feature = at(indices, i) & np.uint32(PLAIN)
        slot = at(slots, feature) if feature < len(slots) else np.uint32(0)
        if len(slots) == 0 and feature < state.table.shape[0]:
            slot = feature + np.uint32(1)
        if slot == 0:
            return Row(indices, values, 0, NO_ROOM)
        work.places[i] = (slot - np.uint32(1)) | (at(indices, i) & np.uint32(MARK))
    return Row(work.places, values, 0, size)


@entry
def place_rows(indices, indptr, order, slots, count, most, seen, out):
    """Fill `out` with the places of the features of rows, in the order of the rounds.

    count: the number of places in use. Features without a place get the next ones, as long as there
    are fewer than `most` beside `OTHERS`; the others are left out. Returns the new number of places
    in use. order: the row of each round; empty: the rows in their order. Rows that do not occur in
    `order` are left out. seen: zeros, one per row.
    """
    rounds = len(order) if len(order) else len(indptr) - 1
    for t in range(rounds):
        i = order[t] if len(order) else t
        if seen[i]:
            continue
        seen[i] = 1
        for n in range(indptr[i], indptr[i + 1]):
            feature = at(indices, n) & np.uint32(PLAIN)
            if slots[feature] == 0 and (count < most or feature == OTHERS):
                most += feature == OTHERS
                count += 1
                slots[feature] = count
            if slots[feature] != 0:
                place = slots[feature] - np.uint32(1)
                out[n] = place | (at(indices, n) & np.uint32(MARK))
    return count


@inline
def _is_kept(slots, feature, room):
    """Whether a feature has a place, or is to get one of those that are left."""
    if feature == OTHERS:
        return False
    return room > 0 or (feature < len(slots) and at(slots, feature) != 0)


@inline
def _is_new(slots, feature):
    return feature >= len(slots) or at(slots, feature) == 0


@entry
def merge_others(
    indices, values, indptr, slots, room, first_number, out_indices, out_values, out_indptr
):
    """Copy rows; in each, features beyond the room become one, `OTHERS`. Returns their entries.

    room: how many features without a place each row may have. The value of `OTHERS` is the length
    of the part that it stands for, so that a row keeps its length; a number counts as 1 in it, like
    a category. first_number: the index from which on features are numbers.
    """
    kept = 0
    for row in range(len(indptr) - 1):
        left, square, merged = room, 0.0, 0
        for n in range(indptr[row], indptr[row + 1]):
            feature = at(indices, n) & np.uint32(PLAIN)
            if _is_kept(slots, feature, left):
                left -= _is_new(slots, feature)
            else:
                is_number = feature >= first_number or at(indices, n) >= MARK
                value = 1.0 if is_number else np.float64(at(values, n))
                square += value * value
                merged += feature != OTHERS
        left, waits = room, merged > 0
        for n in range(indptr[row], indptr[row + 1]):
            feature = at(indices, n) & np.uint32(PLAIN)
            if waits and at(indices, n) > OTHERS:
                out_indices[kept], out_values[kept] = OTHERS, math.sqrt(square)
                kept, waits = kept + 1, False
            if _is_kept(slots, feature, left) or merged == 0:
                left -= _is_new(slots, feature)
                out_indices[kept], out_values[kept] = at(indices, n), at(values, n)
                kept += 1
        if waits:
            out_indices[kept], out_values[kept] = OTHERS, math.sqrt(square)
            kept += 1
        out_indptr[row + 1] = kept
    return kept


@entry
def find_places(indices, slots, count, first_number, out):
    """Fill `out` with the places of features. Those without a place share one of the BLANKS.

    count: the number of places in use; the BLANKS follow them. first_number: the index from which
    on features are numbers. Returns how many of the BLANKS are needed.
    """
    needed = 0
    for n in range(len(indices)):
        feature = at(indices, n) & np.uint32(PLAIN)
        place, is_known = np.int64(feature), feature < count
        if len(slots):
            place = np.int64(at(slots, feature) if feature < len(slots) else np.uint32(0)) - 1
            is_known = place >= 0
        if not is_known:
            blank = 1 if feature >= first_number else 0
            place, needed = count + blank, max(needed, 1 + blank)
        out[n] = np.uint32(place) | (at(indices, n) & np.uint32(MARK))
    return needed
