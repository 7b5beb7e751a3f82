"""Text -> hashed features: words and sequences of neighbouring words.

A word is a run of word characters, in lower case. A text counts its words and its pairs of
neighbouring words ("screen", "stays", "screen stays"). A word's value is log(1 + count), that of a
pair is half as much, and the values of a text are scaled to length 1. Nothing is learned from the
texts, so a text always gives the same features.
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


def words_of(text: str) -> list[str]:
    return _WORDS.findall(text.lower())


def text_columns(
    text: str, columns: int, prefix: str = "", ngrams: int = NGRAMS
) -> tuple[np.ndarray, np.ndarray]:
    """The columns of a text's features, increasing, and their values.

    prefix: what the names of the features begin with.
    """
    words = words_of(text)
    start = prefix.encode()
    data = np.frombuffer(start + " ".join(words).encode(), np.uint8)
    starts = np.empty(len(words) + 1, np.int64)
    lengths = range(1, min(ngrams, len(words)) + 1)
    ends = np.cumsum([0, *(len(words) - length + 1 for length in lengths)])
    places, values, sums = np.empty(ends[-1], np.int64), np.empty(ends[-1]), np.empty(ends[-1])
    args = (data, len(start), columns, starts, ends, places)
    direct(_place_names, None, *args)(*args)
    for length in lengths:
        places[ends[length - 1] : ends[length]].sort()
    used = direct(_count_names, None, ends, places, values)(ends, places, values)
    places = places[:used]
    places.sort()
    used = direct(_add_up, None, places, values, sums)(places, values, sums)
    return places[:used], sums[:used]


@entry
def _place_names(data, prefix, columns, starts, ends, places):
    """Fill in the place of each occurrence of a name: its column, then the bits of its hash.

    data: a prefix of `prefix` bytes, then the words with a blank between them. starts: room for
    where each word starts, and where the word after the last would start. Sequences of n words have
    the places from ends[n - 1] to ends[n].
    """
    words = len(starts) - 1
    starts[0] = prefix
    word = 1
    for i in range(prefix, len(data)):
        if data[i] == BLANK:
            starts[word] = i + 1
            word += 1
    starts[words] = len(data) + 1
    for length in range(1, len(ends)):
        for first in range(words - length + 1):
            h = _murmur3(data, prefix, starts[first], starts[first + length] - 1)
            column = (h if h < 2**31 else 2**32 - h) % columns
            places[ends[length - 1] + first] = (column << 32) | h


@entry
def _count_names(ends, places, values):
    """Turn sorted places into a place and a value per name. Returns how many names there are.

    The new place of a name is its column, then the position of its value. Names with the same hash
    count as the same name.
    """
    used = 0
    squares = 0.0
    for length in range(1, len(ends)):
        i = ends[length - 1]
        while i < ends[length]:
            place = places[i]
            stop = i + 1
            while stop < ends[length] and places[stop] == place:
                stop += 1
            value = math.log1p(float(stop - i)) / length
            squares += value * value
            values[used] = -value if place & 2**31 else value  # by the sign of the hash
            places[used] = (place >> 32 << 32) | used
            used += 1
            i = stop
    for i in range(used):
        values[i] /= math.sqrt(squares)
    return used


@entry
def _add_up(places, values, sums):
    """Turn sorted places into columns, and fill in the sum of each. Returns how many there are."""
    used = 0
    for i in range(len(places)):
        column, value = places[i] >> 32, values[places[i] & _MASK]
        if used and places[used - 1] == column:
            sums[used - 1] += value
        else:
            places[used] = column
            sums[used] = value
            used += 1
    return used


@inline
def _murmur3(data, prefix, start, stop):
    """`dicts.murmur3` of the prefix and data[start:stop], as a number without a sign."""
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
