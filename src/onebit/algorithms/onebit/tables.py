"""Rows of tables that come as sparse rows: as dicts, or with a 1 for each category.

All features of such a row are numbers of dicts or categories, and they are not too many. As long as
most answered rows are of this kind, wide experts learn, too. They see a number from its first row
on, and a category once it has come two or three times: each gets a column then, up to COLUMNS of
them. They see the columns, and random Fourier features of all columns together, as for dense rows.

A category counts the more, the more often it came: so values that hardly come again, such as
identifiers, say nothing.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from onebit.algorithms.onebit.experts import ALPHA, HEAD_START, LAST, NARROW, OF_WAVES
from onebit.algorithms.onebit.records import EVIDENCE, LEFT_OUT, is_left_out, renew_weights
from onebit.algorithms.onebit.waves import (
    PART,
    WAVES,
    add_direction,
    draw_lengths,
    draw_normals,
    shorten,
    to_cosines,
)
from onebit.core.jit import inline, not_inlined, outline
from onebit.core.lanes import at
from onebit.core.rounds import Row
from onebit.storage.scales import (
    EARLY,
    MEAN,
    SPREAD,
    TIMES,
    USUAL,
    scaled_number,
    value_of_number,
)

COLUMNS = 256  # features that may have one
MOST_CATEGORIES = 32  # of a row
HALF = 20.0  # a category that came so often counts half as much as one that came always
SETTLED = 100.0  # rows: then the length of rows is fixed
AGAIN = 2.5  # `_times` from which a category gets a column
# In tables, a number that so many rows have is centred at its mean (see `scaled_number`).
CENTRED = 0.5
NEAR = 0.8  # the median distance between rows, in units of what independent columns would give
APART = 64  # how far apart the draws for the directions of two columns begin
_PLACES, _SPREAD = 4 * COLUMNS, 40503  # of the map from features to columns; where they begin
# Places in Tables.counts; the last is scratch space: where the row that was prepared last ends.
OF_TABLES, OTHERS, SIZE, USED, AWAKE, STOP = range(6)
SAVED = STOP


class Tables(NamedTuple):
    """What is known of such rows."""

    counts: Any  # [6] answered rows of tables, and others; the mean number of columns that the
    # first of these rows had; columns in use; 1 if wide experts learn
    places: Any  # [column] the feature's row in the table of weights
    map: Any  # a column + 1 where the hash of its place, or the next free one, is; 0: none
    draws: Any  # the directions of waves: the waves of column j are draws[APART j:]
    waves: Any  # [2, wave] 1 / wave length, in turns; phase
    indices: Any  # scratch space: the row that was prepared last, Fourier features and columns
    values: Any


@inline
def sees_tables(tables):
    """Whether wide experts learn."""
    return tables.counts[AWAKE] == 1.0


@inline
def rows_before(tables, numbers):
    """How many rows were answered, to tell rare numbers. In tables, fewer: a number is centred if
    half of the rows have it, from the first row on."""
    seen = numbers[0, TIMES]
    return seen * (CENTRED / USUAL) - EARLY if tables.counts[AWAKE] == 1.0 else seen


@inline
def is_number(numbers, place):
    return place + 1 < len(numbers) and numbers[place + 1, TIMES] >= 0.0


@inline
def _slot_of(tables, place):
    """Where the map has the column of a feature, or has room for it."""
    slot = place * _SPREAD % _PLACES
    while tables.map[slot] != 0 and tables.places[tables.map[slot] - 1] != place:
        slot = (slot + 1) % _PLACES
    return slot


@inline
def _column_of(tables, place):
    """-1: it has none."""
    return tables.map[_slot_of(tables, place)] - 1


@inline
def _give_column(tables, place):
    column = int(tables.counts[USED])
    tables.places[column] = place
    tables.map[_slot_of(tables, place)] = column + 1
    tables.counts[USED] += 1.0
    return column


@inline
def _times(sums, place, size):
    """How often a category came, or up to twice as often, by the sums of naive Bayes.

    size: of its value in a row, as naive Bayes sees it.
    """
    plane = sums.shape[1] - 1
    first, second = np.float64(sums[place, plane, 0]), np.float64(sums[place, plane, 1])
    return max(first + second - 2.0 * ALPHA, 0.0) / size


@outline
def is_of_table(tables, numbers, row):
    """Whether a row is one of a table. If it has new numbers, there must be columns for them."""
    not_inlined()
    size, categories, new = row.stop - row.start, 0, 0
    if size <= 0 or size > COLUMNS:
        return False
    for i in range(row.start, row.stop):
        place = np.int64(at(row.indices, i))
        if is_number(numbers, place):
            new += _column_of(tables, place) < 0
        else:
            categories += 1
            if categories > MOST_CATEGORIES or abs(at(row.values, i)) != 1.0:
                return False
    return tables.counts[USED] + new <= COLUMNS


@inline
def _size_of(numbers, row):
    """The size of a category's value in a row of a table, when the row is scaled: all numbers
    together count as one category."""
    categories, has_numbers = 0, False
    for i in range(row.start, row.stop):
        is_one = is_number(numbers, np.int64(at(row.indices, i)))
        categories += not is_one
        has_numbers = has_numbers or is_one
    return 1.0 / math.sqrt(categories + has_numbers)


@outline
def judge_tables(tables, trust, is_table, has_numbers):
    """Count an answered row; wake wide experts, or let them sleep.

    The first row of a table with numbers ends the head start of naive Bayes: it is no model of
    numbers around a mean.
    """
    not_inlined()
    counts, best = tables.counts, LEFT_OUT
    counts[OF_TABLES if is_table else OTHERS] += 1.0
    is_awake = counts[AWAKE] == 1.0
    if is_awake == (counts[OF_TABLES] > counts[OTHERS]) or counts[OF_TABLES] == counts[OTHERS]:
        return
    counts[AWAKE] = 0.0 if is_awake else 1.0
    for expert in range(len(trust)):
        best = max(best, trust[expert, EVIDENCE])
    if has_numbers and not is_awake and counts[OF_TABLES] == 1.0:
        for expert in range(LAST, len(trust)):
            trust[expert, EVIDENCE] -= HEAD_START
    for expert in range(NARROW, NARROW + len(OF_WAVES)):
        if is_awake or not is_left_out(trust, 0):  # else, no expert of this kind is wanted
            trust[expert, EVIDENCE] = LEFT_OUT if is_awake else best - HEAD_START
    renew_weights(trust)


@outline
def give_columns(tables, numbers, sums, row):
    """Give columns to the features of an answered row."""
    not_inlined()
    counts, columns, size = tables.counts, 0, _size_of(numbers, row)
    for i in range(row.start, row.stop):
        place = np.int64(at(row.indices, i))
        column = _column_of(tables, place)
        if (
            column < 0
            and counts[USED] < COLUMNS
            and (is_number(numbers, place) or _times(sums, place, size) > AGAIN)
        ):
            column = _give_column(tables, place)
        columns += column >= 0
    if counts[OF_TABLES] <= SETTLED:
        counts[SIZE] += (columns - counts[SIZE]) / counts[OF_TABLES]


@outline
def map_table_row(tables, numbers, sums, row):
    """Fill in the Fourier features and the columns of a row; returns where they end."""
    not_inlined()
    indices, values, kind = tables.indices, tables.values, tables.values.dtype.type
    seen, size = rows_before(tables, numbers), _size_of(numbers, row)
    stop, side = WAVES, 1.0 / math.sqrt(row.stop - row.start)
    if tables.counts[SIZE] == 0.0:
        return 0
    for n in range(WAVES):
        values[n] = 0.0
    for i in range(row.start, row.stop):
        place = np.int64(at(row.indices, i))
        column = _column_of(tables, place)
        if column >= 0:
            if is_number(numbers, place):
                line, value = numbers[place + 1], value_of_number(row.values, i)
                z = scaled_number(value, line[TIMES], line[MEAN], line[SPREAD], seen)
            else:
                times = _times(sums, place, size)
                z = np.float64(at(row.values, i)) * times / (times + HALF)
            add_direction(tables.draws, APART * column, kind(z), values)
            indices[stop], values[stop] = WAVES + column, z * side
            stop += 1
    shorten(values, tables.waves[0])
    shorter = 1.0 / (NEAR * math.sqrt(2.0 * tables.counts[SIZE]))
    to_cosines(values, 0, tables.waves[1], kind(shorter), kind(PART * math.sqrt(2.0 / WAVES)))
    return stop


@inline
def last_table_row(tables):
    """The row that was prepared last, as wide experts see it."""
    return Row(tables.indices, tables.values, 0, int(tables.counts[STOP]))


# In Python.

ARRAYS = ("tables", "column_places", "wide")


@functools.lru_cache(maxsize=16)
def _drawn(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Directions and wave lengths; they are only read."""
    lengths, phase = draw_lengths(seed)
    return draw_normals(APART * COLUMNS + WAVES, seed), np.array([1 / lengths, phase])


def lay_out_tables(arrays: dict[str, np.ndarray], seed: int, dtype: Any) -> Tables:
    """The record, with saved arrays."""
    draws, waves = _drawn(seed)
    tables = Tables(
        counts=np.zeros(STOP + 1),
        places=np.zeros(COLUMNS, np.int64),
        map=np.zeros(_PLACES, np.int64),
        draws=draws.astype(dtype),
        waves=waves.astype(dtype),
        indices=np.arange(WAVES + COLUMNS, dtype=np.uint32),
        values=np.zeros(WAVES + COLUMNS, dtype),
    )
    if "column_places" in arrays:
        places = arrays["column_places"]
        tables.places[: len(places)], tables.counts[:SAVED] = places, arrays["tables"]
        _fill(tables.map, places.tolist())
    return tables


def _fill(columns: np.ndarray, places: list[int]) -> None:
    """`_give_column` for saved columns: compiled helpers cannot be called from Python."""
    for column, place in enumerate(places):
        slot = place * _SPREAD % _PLACES
        while columns[slot]:
            slot = (slot + 1) % _PLACES
        columns[slot] = column + 1


def arrays_of(tables: Tables, wide: np.ndarray) -> dict[str, np.ndarray]:
    """The arrays to save. wide: the table of wide experts."""
    used = int(tables.counts[USED])
    return {
        "tables": tables.counts[:SAVED].copy(),
        "column_places": tables.places[:used].astype(np.uint32),
        "wide": wide[: WAVES + used if used else 0].copy(),
    }


def fit_tables(
    arrays: dict[str, np.ndarray], features: int, shape: tuple[int, int], dtype: Any
) -> bool:
    """Whether there are such arrays. shape: of the weights of a column."""
    try:
        counts, places, wide = (arrays[name] for name in ARRAYS)
    except KeyError:
        return False
    return bool(
        (counts.dtype, places.dtype, wide.dtype) == (np.float64, np.uint32, dtype)
        and counts.shape == (SAVED,)
        and places.ndim == 1
        and len(places) == counts[USED] <= COLUMNS
        and (places < features).all()
        and len(np.unique(places)) == len(places)
        and wide.shape == (WAVES + len(places) if len(places) else 0, *shape)
    )


def are_sound_tables(arrays: dict[str, np.ndarray]) -> bool:
    """Whether learning can produce such numbers."""
    counts = arrays["tables"]
    return bool((counts >= 0).all() and counts[AWAKE] in (0, 1) and counts[SIZE] <= counts[USED])


def faded_tables(counts: np.ndarray, keep: float) -> np.ndarray:
    """As if a share of the answers had been heard."""
    faded = counts.copy()
    faded[[OF_TABLES, OTHERS]] *= keep
    return faded
