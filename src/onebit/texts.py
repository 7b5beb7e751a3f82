"""Text -> hashed features: words and sequences of neighbouring words.

A word is a run of word characters, in lower case. A text counts its words and its pairs of
neighbouring words ("screen", "stays", "screen stays"). A feature's value is log(1 + count), and the
values of a text are scaled to length 1. Nothing is learned from the texts, so a text always gives
the same features.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

import numpy as np

from onebit.core.jit import direct, entry, inline

NGRAMS = 2  # words of the longest sequence
_WORDS = re.compile(r"\w+")
_MASK = 0xFFFFFFFF
BLANK = 32


class Text(NamedTuple):
    """The value of a feature that is a text even if it has no white space."""

    text: str
    ngrams: int = NGRAMS


def is_text(value: str) -> bool:
    """Whether a string in a dict is a text: white space between two parts. If not: a category."""
    return len(value.split(None, 1)) == 2


def text_columns(
    text: str, columns: int, prefix: str = "", ngrams: int = NGRAMS
) -> tuple[np.ndarray, np.ndarray]:
    """The columns of a text's features, increasing, and their values.

    prefix: what the names of the features begin with.
    """
    words = _WORDS.findall(text.lower())
    size = sum(max(0, len(words) - i) for i in range(ngrams))
    places, values = np.empty(size, np.int64), np.empty(size, np.float64)
    start = prefix.encode()
    data = np.frombuffer(start + " ".join(words).encode(), np.uint8)
    args = (data, len(start), ngrams, columns, np.empty(len(words) + 1, np.int64), places)
    direct(_place_names, None, *args)(*args)
    places.sort()
    used = direct(_sum_columns, None, places, values)(places, values)
    return places[:used], values[:used]


@entry
def _place_names(data, prefix, ngrams, columns, starts, places):
    """Fill in the place of each occurrence of a name: its column, then the bits of its hash.

    data: a prefix of so many bytes, then the words with a blank between them.
    starts: room for where each word starts, and where the word after the last would start.
    """
    words = len(starts) - 1
    starts[0] = prefix
    word = 1
    for i in range(prefix, len(data)):
        if data[i] == BLANK:
            starts[word] = i + 1
            word += 1
    starts[words] = len(data) + 1
    size = 0
    for length in range(1, ngrams + 1):
        for first in range(words - length + 1):
            h = _murmur3(data, prefix, starts[first], starts[first + length] - 1)
            column = (h if h < 2**31 else 2**32 - h) % columns
            places[size] = (column << 32) | h
            size += 1


@entry
def _sum_columns(places, values):
    """Turn sorted places into columns, and fill in the values. Returns how many columns there are.

    Names with the same hash count as the same name.
    """
    used = 0
    squares = 0.0
    i = 0
    while i < len(places):
        place = places[i]
        stop = i + 1
        while stop < len(places) and places[stop] == place:
            stop += 1
        value = math.log1p(float(stop - i))
        squares += value * value
        if place & 2**31:  # the hash, as a signed number, is negative
            value = -value
        if used and places[used - 1] == place >> 32:
            values[used - 1] += value
        else:
            places[used] = place >> 32
            values[used] = value
            used += 1
        i = stop
    for i in range(used):
        values[i] /= math.sqrt(squares)
    return used


@inline
def _murmur3(data, prefix, start, stop):
    """`contexts.murmur3` of the prefix and data[start:stop], as a number without a sign."""
    size = prefix + stop - start
    h = np.int64(0)
    k = np.int64(0)
    for i in range(size):
        byte = np.int64(data[i] if i < prefix else data[start + i - prefix])
        k |= byte << (8 * (i & 3))
        if i & 3 == 3:
            h ^= _mixed(k)
            h = ((h << 13 | h >> 19) & _MASK) * 5 + 0xE6546B64 & _MASK
            k = np.int64(0)
    h ^= _mixed(k) ^ size
    h = _times(h ^ h >> 16, 0x85EBCA6B)
    h = _times(h ^ h >> 13, 0xC2B2AE35)
    return h ^ h >> 16


@inline
def _mixed(k):
    k = _times(k, 0xCC9E2D51)
    return _times((k << 15 | k >> 17) & _MASK, 0x1B873593)


@inline
def _times(a, b):
    """The product in 32 bits, without an overflow of 64."""
    return ((a & 0xFFFF) * b + (((a >> 16) * b & 0xFFFF) << 16)) & _MASK
