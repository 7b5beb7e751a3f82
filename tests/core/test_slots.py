"""Places of features in the table: the map, and rows that are translated by it."""

import numpy as np
import pytest

from onebit.core.jit import entry
from onebit.core.lanes import State4, aligned_zeros
from onebit.core.rounds import Work
from onebit.core.slots import (
    ALL,
    NO_ROOM,
    find_places,
    no_slots,
    place_rows,
    placed,
    slots_of,
    widened,
    width_of,
)

INDPTR = np.array([0, 2, 3, 5])  # three rows
INDICES = np.array([7, 900, 7, 2, 5000], np.uint32)


@entry
def _places_of(state, work, indices, values):
    row = placed(state, work, indices, values)
    return row.indices, row.stop


def test_the_map_of_features_has_their_places():
    features = np.array([2, 7, 900])
    slots = slots_of(features)
    assert slots[features].tolist() == [1, 2, 3] and np.count_nonzero(slots) == 3
    assert len(slots) == 1024 and width_of(features) == 901 and width_of(features[:0]) == 0
    wider = widened(slots, 5001)
    assert len(wider) == 8192 and (wider[:1024] == slots).all() and not wider[1024:].any()
    assert widened(wider, 8192) is wider


def test_features_get_places_in_the_order_of_the_rounds():
    for order, places, count in (
        ([], [0, 1, 0, 2, 3], 4),
        ([2, 1, 2, 0], [2, 3, 2, 0, 1], 4),
        ([1], [0, 0, 0, 0, 0], 1),  # other rows are left out
    ):
        slots, out = widened(no_slots(), 5001), np.zeros(5, np.uint32)
        seen = np.zeros(3, np.uint8)
        rounds = np.array(order, np.int64)
        assert place_rows(INDICES, INDPTR, rounds, slots, 0, ALL, seen, out) == count
        assert out.tolist() == places


@pytest.mark.parametrize(
    ("slots", "first_number", "places", "needed"),
    [  # 5000 is beyond the map, whose last place is taken
        (slots_of(np.array([2, 1023])), 2**32, [2, 2, 2, 0, 2], 1),
        (slots_of(np.array([2, 1023])), 5000, [2, 2, 2, 0, 3], 2),
        (slots_of(np.unique(INDICES)), 2**32, np.searchsorted(np.unique(INDICES), INDICES), 0),
        (no_slots(), 2**32, [7, 900, 7, 2, 900], 1),  # every feature is at its own index
    ],
)
def test_features_without_a_place_share_a_blank_one(slots, first_number, places, needed):
    out, count = np.zeros(5, np.uint32), int(slots.max(initial=0)) or 900
    assert find_places(INDICES, slots, count, first_number, out) == needed
    assert out.tolist() == list(places)


def test_a_row_is_translated_or_there_is_no_room():
    state = State4(aligned_zeros((4, 1, 4), np.float64), np.empty(0))
    scratch = [np.zeros(4)] * 5
    values = np.ones(2)
    known = Work(*scratch, slots=slots_of(np.array([2, 7, 900])), places=np.zeros(2, np.uint32))
    row, stop = _places_of(state, known, np.array([2, 900], np.uint32), values)
    assert row[:stop].tolist() == [0, 2]
    for unknown in ([2, 8], [2, 5000]):
        _, stop = _places_of(state, known, np.array(unknown, np.uint32), values)
        assert stop == NO_ROOM
    short = known._replace(places=np.zeros(1, np.uint32))
    assert _places_of(state, short, np.array([2, 900], np.uint32), values)[1] == NO_ROOM
    own = known._replace(slots=no_slots())  # every feature is at its own index
    assert _places_of(state, own, np.array([1, 3], np.uint32), values)[1] == 2
    assert _places_of(state, own, np.array([1, 4], np.uint32), values)[1] == NO_ROOM
