"""Counter-based draws: (seed, round, purpose) -> a uniform number in [0, 1). There is no state.

The generator is SplitMix64 (Steele, Lea, Flood 2014) used as a hash: the seed and the purpose make
a key, the round is the counter. A purpose is a number that tells the draws of a round apart; the
draws for one purpose are a stream of random numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onebit.core.jit import COMPILED, INLINE, inline

_MASK = 0xFFFFFFFFFFFFFFFF
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
_TO_UNIT = 1.0 / 9007199254740992.0  # 2^-53


def _mix(x: int) -> int:
    x = ((x ^ (x >> 30)) * _FIRST) & _MASK
    x = ((x ^ (x >> 27)) * _SECOND) & _MASK
    return x ^ (x >> 31)


def uniform(seed: int, round: int, purpose: int) -> float:
    """One uniform number in [0, 1), a pure function of its arguments."""
    return bits_by(key_of(seed, purpose), round) * _TO_UNIT


def uniforms(seed: int, rounds: np.ndarray, purpose: int) -> np.ndarray:
    """`uniform` of many rounds."""
    x = np.uint64(key_of(seed, purpose)) + rounds.astype(np.uint64) * np.uint64(_GOLDEN)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(_FIRST)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(_SECOND)
    return ((x ^ (x >> np.uint64(31))) >> np.uint64(11)) * _TO_UNIT


def key_of(seed: int, purpose: int, first: int = 0) -> int:
    """The key of a seed and a purpose for `bits_by`, whose rounds then count from `first`."""
    key = _mix((int(seed) + (int(purpose) + 1) * _GOLDEN) & _MASK)
    return (key + first * _GOLDEN) & _MASK


def bits_by(key: int, round: int) -> int:
    """The 53 bits of `uniform` for the key's seed and purpose."""
    return _mix((int(key) + int(round) * _GOLDEN) & _MASK) >> 11


def limit_of(chance: float) -> int:
    """The limit that makes `bits_by(...) < limit` the same as `uniform(...) < chance`."""
    return math.ceil(chance / _TO_UNIT)


@inline
def normal_pair(seed, round, purpose):
    """Two standard normal numbers (Box & Muller 1958)."""
    radius = math.sqrt(-2.0 * math.log(1.0 - uniform(seed, round, purpose)))
    angle = 2.0 * math.pi * uniform(seed, round, purpose + 1)
    return radius * math.cos(angle), radius * math.sin(angle)


if COMPILED:  # machine integers wrap by themselves
    import numba
    from numba.extending import overload

    @numba.njit(**INLINE)
    def _mix64(x: Any) -> Any:
        x = (x ^ (x >> np.uint64(30))) * np.uint64(_FIRST)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(_SECOND)
        return x ^ (x >> np.uint64(31))

    @overload(uniform, jit_options=INLINE)
    def _uniform(seed: Any, round: Any, purpose: Any) -> Any:
        def compiled(seed: Any, round: Any, purpose: Any) -> Any:
            key = _mix64(np.uint64(seed) + np.uint64(purpose + 1) * np.uint64(_GOLDEN))
            return np.float64(bits_by(key, round)) * _TO_UNIT

        return compiled

    @overload(bits_by, jit_options=INLINE)
    def _bits_by(key: Any, round: Any) -> Any:
        def compiled(key: Any, round: Any) -> Any:
            mixed = _mix64(key + np.uint64(round) * np.uint64(_GOLDEN))
            return np.int64(mixed >> np.uint64(11))

        return compiled
