"""Random Fourier features of dense rows (Rahimi & Recht 2007), and the standardised columns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onebit.algorithms.onebit.columns import CENTRE, FACTOR, MEDIAN
from onebit.core.draws import uniforms
from onebit.core.jit import compiled_as, not_inlined, outline
from onebit.storage.scales import FARTHEST

WAVES = 600  # random Fourier features
SHORTEST, LONGEST = 0.1, 1.0  # their wave lengths, in median distances between rows
PART = 0.25  # the length of a row's Fourier features; the columns have about 1
_WAVE_DRAW = 2**41  # the first stream of the draws of waves


def _cosine_series() -> list[float]:
    """The series of cos(2 pi r) in powers of r^2, accurate to 1e-8 for |r| <= 1/2."""
    return [(-1) ** n * (2 * math.pi) ** (2 * n) / math.factorial(2 * n) for n in range(10)]


_C0, _C1, _C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9 = _cosine_series()


def add_waves(waves: Any, column: Any, z: Any, angles: Any, start: Any) -> None:
    """angles[start:] += z waves[column]."""
    angles[start:] += z * waves[column]


@compiled_as(add_waves)
def _add_waves(waves, column, z, angles, start):
    for n in range(waves.shape[1]):
        angles[start + n] += z * waves[column, n]


def add_direction(draws: Any, first: Any, z: Any, angles: Any) -> None:
    """Add z times the direction whose draws begin at `first`."""
    angles[:WAVES] += z * draws[first : first + WAVES]


@compiled_as(add_direction)
def _add_direction(draws, first, z, angles):
    for n in range(WAVES):
        angles[n] += z * draws[first + n]


def shorten(angles: Any, factors: Any) -> None:
    """angles[n] *= factors[n]."""
    angles[: len(factors)] *= factors


@compiled_as(shorten)
def _shorten(angles, factors):
    for n in range(len(factors)):
        angles[n] *= factors[n]


def to_cosines(angles: Any, start: Any, phase: Any, shorter: Any, size: Any) -> None:
    """angles[start:] = size cos(2 pi (angles shorter + phase)), for as many as there are phases: no
    library's is vectorised."""
    angles = angles[start : start + len(phase)]
    t = angles * shorter + phase
    r = t - np.floor(t + 0.5)
    s = r * r
    total = _C8 + s * _C9
    for c in (_C7, _C6, _C5, _C4, _C3, _C2, _C1, _C0):
        total = c + s * total
    angles[:] = size * total


@compiled_as(to_cosines)
def _to_cosines(angles, start, phase, shorter, size):
    kind = angles.dtype.type  # or all would be worked out in double precision
    half, c0, c1, c2, c3 = kind(0.5), kind(_C0), kind(_C1), kind(_C2), kind(_C3)
    c4, c5, c6, c7, c8, c9 = kind(_C4), kind(_C5), kind(_C6), kind(_C7), kind(_C8), kind(_C9)
    for n in range(len(phase)):
        t = angles[start + n] * shorter + phase[n]
        r = t - np.floor(t + half)
        s = r * r
        high = c4 + s * (c5 + s * (c6 + s * (c7 + s * (c8 + s * c9))))
        angles[start + n] = size * (c0 + s * (c1 + s * (c2 + s * (c3 + s * high))))


@outline
def map_row(kept, mapped, scales, columns, waves, place):
    """Standardise a row, and add its Fourier features once there is a median distance."""
    not_inlined()
    row, x, count = kept[place], mapped[place], kept.shape[1]
    side, kind = 1.0 / math.sqrt(count), mapped.dtype.type
    for n in range(count, len(x)):
        x[n] = 0.0
    for j in range(count):
        z = (np.float64(row[j]) - columns[CENTRE, j]) * columns[FACTOR, j]
        z = 0.0 if math.isnan(z) else min(max(z, -FARTHEST), FARTHEST)
        x[j] = z * side
        if scales[MEDIAN] > 0.0 and z != 0.0:
            add_waves(waves, j, kind(z), x, count)
    if scales[MEDIAN] > 0.0:
        shorter, size = 1.0 / scales[MEDIAN], PART * math.sqrt(2.0 / waves.shape[1])
        to_cosines(x, count, waves[count], kind(shorter), kind(size))


# In Python.


def draw_waves(columns: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Directions [column, wave] and phases of waves, in turns."""
    lengths, phase = draw_lengths(seed)
    return draw_normals(columns * WAVES, seed).reshape(columns, WAVES) / lengths, phase


def draw_lengths(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Wave lengths, in turns, and phases."""
    draw = uniforms(seed, np.arange(WAVES), _WAVE_DRAW)
    phase = uniforms(seed, np.arange(WAVES), _WAVE_DRAW + 1)
    return 2 * math.pi * SHORTEST * (LONGEST / SHORTEST) ** draw, phase


def draw_normals(count: int, seed: int) -> np.ndarray:
    """Standard normal draws (Box & Muller 1958)."""
    places = np.arange(count)
    radius = np.sqrt(-2 * np.log1p(-uniforms(seed, places, _WAVE_DRAW + 2)))
    turns = uniforms(seed, places, _WAVE_DRAW + 3)
    return radius * np.cos(2 * math.pi * turns)
