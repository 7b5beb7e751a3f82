"""The scales of columns: from the first rows that were answered, without outliers."""

from __future__ import annotations

import math

import numpy as np

from onebit.algorithms.onebit.records import KEPT, place_of
from onebit.core.jit import inline, not_inlined, outline
from onebit.storage.scales import FARTHEST, within

# Answered rows: then rounds are learned anew; last, scales are fixed. Early scales pay in the first
# rounds; more steps gain nothing.
SCALED_AFTER = (20, 50, 100)
SCALED_BY = float(SCALED_AFTER[-1])  # values of a column: then its scale is fixed
OUTLIER = 30.0  # deviations: farther values of these rows are clipped, to scale the columns
FEW = 3  # outliers of a column that are told from its other values
SEEN, MEDIAN = range(2)  # places in Dense.scales; a median of 0: no Fourier features yet
CENTRE, SQUARES, FACTOR, TIMES = range(4)  # places in Dense.columns
UNKNOWN = -1.0  # a factor that has to be computed
NEWEST = 10  # kept rows that are compared with the older half of the kept rows
FAR, LARGE = 4.0, 16.0  # squared shift and variance, in variances of the older rows: other scales
EVEN = 6.0  # a column is even if its variance in any NEWEST older rows is at least a sixth of all


@inline
def values_of(columns):
    """How many values all columns have had."""
    total = 0.0
    for j in range(columns.shape[1]):
        total += columns[TIMES, j]
    return total


@inline
def is_time_to_scale(scales):
    is_time = False
    for answers in SCALED_AFTER:
        is_time = is_time or scales[SEEN] == answers
    return is_time


@inline
def take_into_scales(scales, columns, row):
    seen, usual = min(scales[SEEN] + 1.0, SCALED_BY), 0.0
    scales[SEEN] = seen
    for j in range(len(row)):
        times = columns[TIMES, j]
        if times < SCALED_BY and not math.isnan(row[j]):
            mean, spread = columns[CENTRE, j], columns[SQUARES, j]
            value = within(np.float64(row[j]), OUTLIER, times, mean, spread)
            off, times = value - mean, times + 1.0
            columns[CENTRE, j] += off / times
            columns[SQUARES, j] += off * (value - columns[CENTRE, j])
            columns[TIMES, j], columns[FACTOR, j] = times, UNKNOWN
        if times > 0.0:
            usual += columns[SQUARES, j] * (seen / times) / len(row)
    for j in range(len(row)):
        if columns[FACTOR, j] == UNKNOWN:
            times, square = columns[TIMES, j], columns[SQUARES, j]
            if square == 0.0:  # a column that was constant so far is as wide as the others
                times, square = seen, usual
            columns[FACTOR, j] = math.sqrt(times / square) if square > 0.0 else 0.0


@outline
def without_outliers(count, kept, columns, scratch):
    """Scale the columns that have outliers among the kept rows anew, as if these were near.

    Outliers are at most FEW values of a column, more than OUTLIER deviations of its other values
    away. Running statistics do not clip them if they come among the first rows.
    """
    not_inlined()
    for j in range(kept.shape[1]):
        size = 0
        for i in range(count[KEPT]):
            value = kept[place_of(count, i), j]
            if not math.isnan(value):
                scratch[size] = value
                size += 1
        if size <= 2 * FEW:
            continue
        mean, variance = _mean_and_variance(scratch, size)
        for n in range(1, FEW + 1):
            farthest, last = 0, size - n
            for i in range(last + 1):
                if abs(scratch[i] - mean) > abs(scratch[farthest] - mean):
                    farthest = i
            scratch[farthest], scratch[last] = scratch[last], scratch[farthest]
            mean, variance = _mean_and_variance(scratch, last)
        deviation, outliers = math.sqrt(variance), 0
        for i in range(size - FEW, size):
            off = scratch[i] - mean
            if abs(off) > OUTLIER * deviation and deviation > 0.0:
                scratch[i] = mean + math.copysign(FARTHEST * deviation, off)
                outliers += 1
        if outliers > 0:
            mean, variance = _mean_and_variance(scratch, size)
            columns[CENTRE, j], columns[SQUARES, j] = mean, variance * columns[TIMES, j]
            columns[FACTOR, j] = 1.0 / math.sqrt(variance)


@inline
def _mean_and_variance(values, size):
    """Of the first values."""
    mean, variance = 0.0, 0.0
    for i in range(size):
        mean += values[i] / size
    for i in range(size):
        variance += (values[i] - mean) * (values[i] - mean) / size
    return mean, variance


@outline
def median_distance(count, mapped, distances, columns):
    """The median distance between standardised kept rows; if all are equal, the expected one."""
    not_inlined()
    size, longest = 0, 0.0
    for i in range(count[KEPT]):
        a = mapped[place_of(count, i)]
        for k in range(i):
            b = mapped[place_of(count, k)]
            square = 0.0
            for j in range(columns):
                off = np.float64(a[j]) - np.float64(b[j])
                square += off * off
            distance = math.sqrt(columns * square)
            distances[size], longest = distance, max(longest, distance)
            size += 1
    if longest == 0.0:
        return math.sqrt(2.0 * columns)
    low, high = 0.0, longest
    for _ in range(50):  # bisection: nothing may be allocated here
        middle, below = 0.5 * (low + high), 0
        for n in range(size):
            below += distances[n] <= middle
        if 2 * below >= size:
            high = middle
        else:
            low = middle
    return high


# In Python.


def have_other_scales(kept: np.ndarray) -> bool:
    """Whether the newest of these rows have other scales than the older half."""
    parts = len(kept) // 2 // NEWEST
    before, now = kept[: parts * NEWEST], kept[-NEWEST:]
    varied = before.var(axis=0) > 0 if parts else np.zeros(kept.shape[1], bool)
    if not varied.any():
        return False
    before, now = before[:, varied], now[:, varied]
    variances = before.var(axis=0)
    smallest = before.reshape(parts, NEWEST, -1).var(axis=1).min(axis=0)
    with np.errstate(over="ignore"):  # of columns that hardly varied
        shift = np.mean((now.mean(axis=0) - before.mean(axis=0)) ** 2 / variances)
        growth = np.mean(now.var(axis=0) / variances)
    is_even = EVEN * smallest > variances  # other columns are constant in most rows
    has_shrunk = (is_even & (LARGE * now.var(axis=0) < smallest)).any()
    return bool(shift > FAR or growth > LARGE or has_shrunk)
