"""Scales: what a learner knows of the sizes of its inputs, and rows that are scaled by it.

A number has a line of statistics: how often it occurred, its mean, the sum of squared distances
from the mean, and the least and the greatest of its first values. They are learned from answered
rows. So deciding changes nothing, and a row is scaled by what is known when it is read: at the
decision, and again when its feedback comes. A decision therefore holds the row as it came.

A learner with inputs="auto" has one of two records. `Columns`: every column of a dense row is
standardised, the row is scaled to length 1, and a constant is added as the last feature. A missing
number, NaN, counts as the mean of its column, and is not taken into its statistics. `Names`:
the numbers of dicts are standardised, and the row is scaled to length 1. A number is told from
other features by the highest bit of its index, `MARK`.

`OneBit` has storages of its own, and uses the same statistics for the numbers of dicts.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from onebit.core.jit import implement, inline, not_inlined, outline
from onebit.core.lanes import at
from onebit.core.rounds import Row, learn_scales, may_mark, scaled, takes_gaps
from onebit.core.slots import MARK, PLAIN

TIMES, MEAN, SPREAD, LEAST, GREATEST = range(5)  # places in a line of statistics
STATISTICS = 5
FARTHEST = 5.0  # standard deviations: values are clipped there
EARLY = 10.0  # so many rows without a number are assumed before any is seen
FEWEST = 3.0  # values from which a deviation is worth something
SETTLED, OUTLIER = 10.0, 10.0  # of many values; values farther than OUTLIER deviations are clipped
RARE, USUAL = 0.5, 0.9  # shares of rows: below, a number is not centred; above, it is


class Columns(NamedTuple):
    """Statistics of the columns of dense rows."""

    lines: Any  # [1 + column, 5]; line 0: how many rows were answered
    row: Any  # [column] scratch space: the present row
    indices: Any  # [column + 1] scratch space: the scaled row
    values: Any


class Names(NamedTuple):
    """Statistics of the numbers of dicts."""

    lines: Any  # [1 + place, 5], of all places in the table; line 0: how many rows were answered
    indices: Any  # scratch space: the scaled row
    values: Any


@inline
def value_of_number(values, i):
    """The value of a number; the least value that there is stands for 0."""
    value = np.float64(at(values, i))
    return value if abs(value) > (2e-15 if values.itemsize == 4 else 2e-120) else 0.0


@inline
def scaled_number(value, times, mean, spread, seen):
    """A number that most rows have, in deviations from its mean; of one that few rows have, such as
    the count of a word, the square root, in units of its root mean square."""
    if times == 0.0:
        return np.sign(value)
    share = (times / (seen + EARLY) - RARE) / (USUAL - RARE)
    usual, deviation = min(max(share, 0.0), 1.0), math.sqrt(spread / times)
    size, off = math.sqrt(spread / times + mean * mean), value - mean
    z = off / deviation if deviation > 0.0 else np.sign(off)
    root = math.sqrt(abs(value) / size) if size > 0.0 else abs(np.sign(value))
    z = usual * z + (1.0 - usual) * np.sign(value) * root
    return min(max(z, -FARTHEST), FARTHEST)


@inline
def within(value, deviations, times, mean, spread):
    """The value, clipped if it is an outlier: a single one must not spoil the scale.

    While few values are known, their deviation is uncertain, and values farther away are taken.
    """
    if times < FEWEST:
        return value
    far = deviations * (1.0 + SETTLED / times) * math.sqrt(spread / times)
    return min(max(value, mean - far), mean + far) if far > 0.0 else value


@inline
def count_number(line, value):
    """Take a value into a line of statistics."""
    value = within(value, OUTLIER, line[TIMES], line[MEAN], line[SPREAD])
    is_early, off = line[TIMES] < SETTLED, value - line[MEAN]
    if is_early:
        line[LEAST] = value if line[TIMES] == 0.0 else min(value, line[LEAST])
        line[GREATEST] = value if line[TIMES] == 0.0 else max(value, line[GREATEST])
    line[TIMES] += 1.0
    line[MEAN] += off / line[TIMES]
    line[SPREAD] += off * (value - line[MEAN])
    if is_early and line[TIMES] >= SETTLED:
        _clip_farthest(line)


@inline
def _clip_farthest(line):
    """Clip the farthest of the first values if it is an outlier compared with the others.

    Nothing was known before the very first values, so these were not clipped when they came.
    """
    others, far = line[TIMES] - 1.0, line[GREATEST]
    if far - line[MEAN] < line[MEAN] - line[LEAST]:
        far = line[LEAST]
    mean = line[MEAN] - (far - line[MEAN]) / others
    spread = line[SPREAD] - (far - line[MEAN]) * (far - mean)
    deviation = math.sqrt(max(spread, 0.0) / others)
    if abs(far - mean) > 2.0 * OUTLIER * deviation and deviation > 0.0:
        off = math.copysign(FARTHEST * deviation, far - mean)
        line[MEAN] = mean + off / line[TIMES]
        line[SPREAD] = spread + off * (mean + off - line[MEAN])
    line[LEAST] = line[GREATEST] = line[MEAN]


# Dense rows.


@inline
def _unpack(indices, values, start, stop, out):
    for j in range(len(out)):
        out[j] = 0.0
    for i in range(start, stop):
        j = at(indices, i)
        if j < len(out):  # a decision from elsewhere may have others
            out[j] = at(values, i)


@outline
def _standardise(indices, values, start, stop, lines, row, out_indices, out_values):
    """Fill in the scaled row; returns its size."""
    not_inlined()
    _unpack(indices, values, start, stop, row)
    square, size, kind = 0.0, 0, out_values.dtype.type
    for j in range(len(row)):
        times, off = lines[j + 1, TIMES], row[j] - lines[j + 1, MEAN]
        z = 0.0
        if times > 0.0 and not math.isnan(off):
            deviation = math.sqrt(lines[j + 1, SPREAD] / times)
            z = off / deviation if deviation > 0.0 else np.sign(off)
        row[j] = min(max(z, -FARTHEST), FARTHEST)
        square += row[j] * row[j]
    length = math.sqrt(square) if square > 0.0 else 1.0
    for j in range(len(row)):
        z = kind(row[j] / length)
        if abs(z) > 1e-15:
            out_indices[size], out_values[size] = j, z
            size += 1
    out_indices[size], out_values[size] = len(row), 1.0
    return size + 1


@implement(scaled, Columns)
def _scaled_columns(work, row):
    scales = work.scales
    size = _standardise(
        row.indices, row.values, row.start, row.stop,
        scales.lines, scales.row, scales.indices, scales.values,
    )  # fmt: skip
    return Row(scales.indices, scales.values, 0, size)


@outline
def _count_columns(indices, values, start, stop, lines, row):
    not_inlined()
    _unpack(indices, values, start, stop, row)
    lines[0, TIMES] += 1.0
    for j in range(len(row)):
        if not math.isnan(row[j]):
            count_number(lines[j + 1], row[j])


@implement(takes_gaps, Columns)
def _columns_take_gaps(work):
    return True


@implement(learn_scales, Columns)
def _learn_columns(work, row):
    scales = work.scales
    _count_columns(row.indices, row.values, row.start, row.stop, scales.lines, scales.row)


# Rows of names.


@outline
def _scale_names(indices, values, start, stop, lines, out_indices, out_values):
    """Fill in the scaled row; returns its size. Features that are not in the table are left out."""
    not_inlined()
    numbers = 0
    for i in range(start, stop):
        numbers += at(indices, i) >= MARK
    side, square, size = 1.0 / math.sqrt(max(numbers, 1)), 0.0, 0
    kind = out_values.dtype.type
    for i in range(start, stop):
        place, value = at(indices, i) & PLAIN, np.float64(at(values, i))
        if place + 1 < len(lines):
            if at(indices, i) >= MARK:
                line, seen = lines[place + 1], lines[0, TIMES]
                value = value_of_number(values, i)
                z = scaled_number(value, line[TIMES], line[MEAN], line[SPREAD], seen)
                value = np.float64(kind(side * z))
            if value != 0.0:
                out_indices[size], out_values[size] = place, value
                square += value * value
                size += 1
    length, kept = math.sqrt(square) if square > 0.0 else 1.0, 0
    for i in range(size):
        value = kind(np.float64(out_values[i]) / length)
        if abs(value) > 1e-15:
            out_indices[kept], out_values[kept] = out_indices[i], value
            kept += 1
    return kept


@implement(scaled, Names)
def _scaled_names(work, row):
    scales = work.scales
    size = _scale_names(
        row.indices, row.values, row.start, row.stop, scales.lines, scales.indices, scales.values
    )
    return Row(scales.indices, scales.values, 0, size)


@outline
def _count_names(indices, values, start, stop, lines):
    not_inlined()
    has_numbers = start < stop and at(indices, stop - 1) >= MARK  # they are last
    if has_numbers or (start < stop and lines[0, TIMES] > 0.0):
        lines[0, TIMES] += 1.0
    for i in range(start, stop):
        if at(indices, i) >= MARK:
            count_number(lines[(at(indices, i) & PLAIN) + 1], value_of_number(values, i))


@implement(may_mark, Names)
def _marks_numbers(work):
    return True


@implement(learn_scales, Names)
def _learn_names(work, row):
    _count_names(row.indices, row.values, row.start, row.stop, work.scales.lines)


# In Python.


def scales_of_columns(lines: np.ndarray, dtype: np.dtype) -> Columns:
    """The record for these statistics."""
    size = len(lines)
    return Columns(lines, np.zeros(size - 1), np.zeros(size, np.uint32), np.zeros(size, dtype))


def scales_of_names(dtype: np.dtype) -> Names:
    """The record before anything is known."""
    return Names(np.zeros((1, STATISTICS)), np.zeros(0, np.uint32), np.zeros(0, dtype))


def with_room(scales: Names, places: int, entries: int) -> Names:
    """The record with room for so many places in the table, and for rows of so many entries."""
    lines, indices, values = scales
    whole = lines if lines.base is None else lines.base
    if len(whole) <= places:
        whole = np.zeros((max(places + 1, 2 * len(lines)), STATISTICS))
        whole[: len(lines)] = lines
    if len(indices) < entries:
        indices, values = np.zeros(2 * entries, np.uint32), np.zeros(2 * entries, values.dtype)
    if len(lines) == places + 1 and indices is scales.indices:
        return scales
    return Names(whole[: places + 1], indices, values)


INPUT_SCALES, INPUT_PLACES = SAVED_SCALES = ("input_scales", "input_places")


def saved_scales(scales: Any, order: np.ndarray) -> dict[str, np.ndarray]:
    """The arrays to save; order: the places of the features, from the smallest feature on.

    The scales of columns are one array. Those of names are those of the features that are numbers,
    and which rows of the saved table these are.
    """
    if type(scales) is Columns:
        return {INPUT_SCALES: scales.lines.copy()}
    lines = scales.lines[1:][order]
    numbers = np.flatnonzero(lines[:, TIMES] > 0)
    lines = np.concatenate([scales.lines[:1], lines[numbers]])
    return {INPUT_SCALES: lines, INPUT_PLACES: numbers.astype(np.uint32)}


def with_extremes(lines: np.ndarray) -> np.ndarray:
    """Saved statistics; earlier versions did not save the extremes of the first values."""
    if lines.ndim == 2 and lines.shape[1] == LEAST:
        return np.column_stack([lines, lines[:, MEAN], lines[:, MEAN]])
    return lines


def faded(lines: np.ndarray, keep: float) -> np.ndarray:
    """Statistics as if only a share of the rows had been answered."""
    kept = float(keep > 0)
    return lines * [keep, kept, keep, kept, kept]
