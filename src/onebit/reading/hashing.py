"""MurmurHash3 (32 bits, x86, seed 0): of a text, of many numbers, and in compiled code of bytes.

The three give the same hashes. Each is the quickest where it is used: Python's integers for a
single name, numpy for an array, and a compiled loop for the words of a text.
"""

from __future__ import annotations

import numpy as np

from onebit.core.jit import inline

MASK = 0xFFFFFFFF
FIRST, SECOND = 0xCC9E2D51, 0x1B873593  # factors of a block of four bytes
STEP = 0xE6546B64  # added after each block
THIRD, FOURTH = 0x85EBCA6B, 0xC2B2AE35  # factors at the end


def murmur3(text: str) -> int:
    """The hash of the text in UTF-8, as a signed number."""
    data = text.encode()
    h, whole = 0, len(data) & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * FIRST & MASK
        k = (k << 15 | k >> 17) * SECOND & MASK
        h ^= k
        h = ((h << 13 | h >> 19) * 5 + STEP) & MASK
    if whole < len(data):
        k = int.from_bytes(data[whole:], "little") * FIRST & MASK
        h ^= (k << 15 | k >> 17) * SECOND & MASK
    h ^= len(data)
    h = (h ^ h >> 16) * THIRD & MASK
    h = (h ^ h >> 13) * FOURTH & MASK
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


def murmur3_of_numbers(numbers: np.ndarray) -> np.ndarray:
    """The hashes of the four bytes of each number, signed."""
    k = numbers.astype(np.uint32) * np.uint32(FIRST)
    h = (k << np.uint32(15) | k >> np.uint32(17)) * np.uint32(SECOND)
    h = (h << np.uint32(13) | h >> np.uint32(19)) * np.uint32(5) + np.uint32(STEP)
    h ^= np.uint32(4)  # bytes
    h = (h ^ h >> np.uint32(16)) * np.uint32(THIRD)
    h = (h ^ h >> np.uint32(13)) * np.uint32(FOURTH)
    return (h ^ h >> np.uint32(16)).view(np.int32).astype(np.int64)


@inline
def murmur3_of_bytes(data, prefix, start, stop):
    """The hash of data[:prefix] and data[start:stop], as a number without a sign."""
    size = prefix + stop - start
    h = np.int64(0)
    k = np.int64(0)
    for i in range(size):
        byte = np.int64(data[i] if i < prefix else data[start + i - prefix])
        k |= byte << (8 * (i & 3))
        if i & 3 == 3:
            h ^= _mixed(k)
            h = ((h << 13 | h >> 19) & MASK) * 5 + STEP & MASK
            k = np.int64(0)
    h ^= _mixed(k) ^ size
    h = _times(h ^ h >> 16, THIRD)
    h = _times(h ^ h >> 13, FOURTH)
    return h ^ h >> 16


@inline
def _mixed(k):
    k = _times(k, FIRST)
    return _times((k << 15 | k >> 17) & MASK, SECOND)


@inline
def _times(a, b):
    """The product in 32 bits, without an overflow of 64."""
    return ((a & 0xFFFF) * b + (((a >> 16) * b & 0xFFFF) << 16)) & MASK
