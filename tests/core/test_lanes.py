"""Vectors: the compiled form of each function does what its plain twin does, bit for bit."""

import numpy as np
import pytest

from onebit.core.jit import entry
from onebit.core.lanes import (
    ALIGNMENT,
    WIDTH,
    State4,
    State8,
    State16,
    aligned_zeros,
    at,
    fetch,
    first_at_least,
    lanes_for,
    largest,
    load,
    root,
    save,
    state_type,
    store,
    width,
    zero,
)

pytestmark = pytest.mark.compiled
SHAPES = [(4, State4), (8, State8), (16, State16)]
every_vector = pytest.mark.parametrize("dtype", [np.float32, np.float64])
every_width = pytest.mark.parametrize(("lanes", "kind"), SHAPES)


# One compiled function for many things: compiling is what takes the time.


@entry
def _calculate(state, one, two, number, out):
    """Every operation on the blocks of two arrays; each result to a row of out."""
    w = width(state)
    for block in range(one.shape[0] // w):
        a, b = fetch(state, one, block), fetch(state, two, block)
        store(state, out[0], block, a + b)
        store(state, out[1], block, a - b)
        store(state, out[2], block, a * b)
        store(state, out[3], block, a / b)
        store(state, out[4], block, a + number)
        store(state, out[5], block, a - number)
        store(state, out[6], block, a * number)
        store(state, out[7], block, a / number)
        store(state, out[8], block, root(a * a))
        store(state, out[9], block, a * b + a)
        store(state, out[10], block, zero(state))
        store(state, out[11], block, root(b))


@entry
def _search(state, array, bar, found):
    w = width(state)
    for block in range(array.shape[0] // w):
        vector = fetch(state, array, block)
        top = largest(vector)
        found[block, 0] = top
        found[block, 1] = first_at_least(vector, top)
        found[block, 2] = first_at_least(vector, bar)


@entry
def _move(state, feature, plane, block, to, number):
    """Add a number to one block of the table and write it to another feature."""
    save(state, to, plane, block, load(state, feature, plane, block) + number)


@entry
def _pick(array, i):
    return at(array, i)


@entry
def _width(state):
    return width(state)


def empty_state(kind, lanes, dtype):
    return kind(aligned_zeros((1, 1, lanes), dtype), np.zeros(0))


def test_labels_fill_four_lanes_or_whole_eights():
    assert [lanes_for(labels) for labels in (2, 3, 4, 5, 8, 9, 16, 17, 24, 25, 33, 1000)] == [
        *(4, 4, 4, 8, 8, 16, 16, 24, 24, 32, 40, 1000)
    ]
    for labels in range(2, 300):
        lanes = lanes_for(labels)
        assert labels <= lanes < labels + 8 and lanes % WIDTH[state_type(lanes)] == 0


def test_a_state_has_the_widest_blocks_that_fill_its_lanes():
    assert [state_type(lanes) for lanes in (4, 8, 16, 24, 32, 40, 48, 12)] == [
        *(State4, State8, State16, State8, State16, State8, State16, State4)
    ]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("shape", [(1,), (0,), (7, 3, 16), (0, 2, 8), (1000, 1, 4)])
def test_aligned_zeros_are_zeros_at_a_cache_line(shape, dtype):
    for array in [aligned_zeros(shape, dtype) for _ in range(9)]:
        assert array.shape == shape and array.dtype == dtype
        assert array.flags.c_contiguous and array.flags.writeable
        assert not array.size or array.ctypes.data % ALIGNMENT == 0
        assert not array.any()
        array[...] = 1
        assert array.sum() == array.size


@every_width
@every_vector
def test_the_width_of_a_state_is_that_of_its_type(lanes, kind, dtype):
    assert _width(empty_state(kind, lanes, dtype)) == lanes == WIDTH[kind]


@every_width
@every_vector
def test_vectors_calculate_lane_by_lane_with_the_bits_of_numpy(lanes, kind, dtype):
    rng = np.random.default_rng(lanes)
    one = (rng.standard_normal(3 * lanes) * 10.0 ** rng.integers(-9, 9, 3 * lanes)).astype(dtype)
    two = (rng.standard_exponential(3 * lanes) + 1e-3).astype(dtype)
    out = np.full((12, 3 * lanes), 7, dtype)
    for number in (0.1, -3.0):
        _calculate(empty_state(kind, lanes, dtype), one, two, number, out)
        n = dtype(number)
        expected = [one + two, one - two, one * two, one / two, one + n, one - n, one * n, one / n]
        expected += [np.sqrt(one * one), one * two + one, np.zeros_like(one), np.sqrt(two)]
        assert all(row.dtype == dtype for row in expected)
        np.testing.assert_array_equal(out, expected)


@every_width
@every_vector
def test_the_largest_lane_and_the_first_to_reach_a_bar_are_found(lanes, kind, dtype):
    rng = np.random.default_rng(lanes)
    blocks = 200
    array = rng.integers(-3, 4, (blocks, lanes)).astype(dtype)
    array[0], array[1], array[2] = 0, -5, -np.inf
    array[3:40, lanes // 2 :] = -np.inf
    array[4] = np.arange(lanes)
    array[5] = -np.arange(lanes)
    found = np.empty((blocks, 3))
    bar = dtype(2)
    _search(empty_state(kind, lanes, dtype), array.ravel(), bar, found)
    np.testing.assert_array_equal(found[:, 0], array.max(axis=1))
    np.testing.assert_array_equal(found[:, 1], array.argmax(axis=1))
    first = [next((i for i, x in enumerate(row) if x >= bar), 0) for row in array]
    np.testing.assert_array_equal(found[:, 2], first)
    assert found[1, 2] == 0 and found[4, 1] == lanes - 1 and found[4, 2] == 2


@every_width
@every_vector
def test_not_a_number_in_any_lane_still_gives_a_lane(lanes, kind, dtype):
    array = np.tile(np.arange(lanes, dtype=dtype), (lanes + 2, 1))
    for lane in range(lanes):
        array[lane, lane] = np.nan
    array[lanes] = np.nan
    array[lanes + 1, :-1] = np.nan
    found = np.empty((len(array), 3))
    bar = dtype(1)
    _search(empty_state(kind, lanes, dtype), array.ravel(), bar, found)
    assert np.isin(found[:, 1], np.arange(lanes)).all()
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(found[:, 2], (array >= bar).argmax(axis=1))
    assert found[lanes, 2] == 0 and found[lanes + 1, 2] == lanes - 1 and found[1, 2] == 2
    _search(empty_state(kind, lanes, dtype), array.ravel(), dtype(np.nan), found)
    assert (found[:, 2] == 0).all()


@every_width
@every_vector
def test_a_block_is_loaded_and_saved_where_it_belongs_and_nowhere_else(lanes, kind, dtype):
    features, planes, blocks = 5, 2, 3
    table = aligned_zeros((features, planes, blocks * lanes), dtype)
    table[...] = np.random.default_rng(1).standard_normal(table.shape)
    state = kind(table, np.zeros(0))
    for index in (int, np.uint32):
        for plane in range(planes):
            for block in range(blocks):
                expected = table.copy()
                part = slice(block * lanes, (block + 1) * lanes)
                expected[4, plane, part] = table[1, plane, part] + dtype(0.5)
                _move(state, index(1), plane, block, index(4), 0.5)
                np.testing.assert_array_equal(table, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint32, np.int64])
def test_an_element_is_picked_by_its_number(dtype):
    array = np.arange(10, 20).astype(dtype)
    for i in (0, 3, 9):
        assert _pick(array, i) == array[i]
    assert type(array[0])(_pick(array, 3)) == 13
