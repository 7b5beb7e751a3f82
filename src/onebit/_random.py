"""Counter-based draws: (seed, round, stream) -> a uniform number in [0, 1). There is no state.

The generator is SplitMix64 (Steele, Lea, Flood 2014) used as a hash: the seed and the stream make a
key, the round is the counter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onebit._jit import COMPILED, INLINE

_MASK = 0xFFFFFFFFFFFFFFFF
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
_TO_UNIT = 1.0 / 9007199254740992.0  # 2^-53


def _mix(x: int) -> int:
    x = ((x ^ (x >> 30)) * _FIRST) & _MASK
    x = ((x ^ (x >> 27)) * _SECOND) & _MASK
    return x ^ (x >> 31)


def uniform(seed: int, round: int, stream: int) -> float:
    """One uniform number in [0, 1), a pure function of its arguments."""
    key = _mix((int(seed) + (int(stream) + 1) * _GOLDEN) & _MASK)
    return (_mix((key + int(round) * _GOLDEN) & _MASK) >> 11) * _TO_UNIT


if COMPILED:  # machine integers wrap by themselves
    import numba
    from numba.extending import overload

    @numba.njit(**INLINE)
    def _mix64(x: Any) -> Any:
        x = (x ^ (x >> np.uint64(30))) * np.uint64(_FIRST)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(_SECOND)
        return x ^ (x >> np.uint64(31))

    @overload(uniform, jit_options=INLINE)
    def _uniform(seed: Any, round: Any, stream: Any) -> Any:
        def compiled(seed: Any, round: Any, stream: Any) -> Any:
            golden = np.uint64(_GOLDEN)
            key = _mix64(np.uint64(seed) + np.uint64(stream + 1) * golden)
            bits = _mix64(key + np.uint64(round) * golden) >> np.uint64(11)
            return np.float64(bits) * _TO_UNIT

        return compiled
