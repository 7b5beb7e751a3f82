"""Text -> hashed features: words and sequences of neighbouring words.

A word is a run of letters, digits and combining marks, in lower case. In scripts without spaces
between words, each letter is a word, so pairs of words are pairs of letters. An emoji or another
symbol that is not in ASCII is a word too.

A text counts its words and its pairs of neighbouring words ("screen", "stays", "screen stays"). A
word's value is log(1 + count), that of a pair is half as much, and the values of a text are scaled
to length 1. A text without words has one word, the empty one. Nothing is learned from the texts, so
a text always gives the same features.
"""

from __future__ import annotations

import functools
import math
import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from onebit.core.jit import direct, entry
from onebit.reading.hashing import MASK, murmur3_of_bytes

NGRAMS = 2  # words of the longest sequence
_WORDS = re.compile(r"\w+")
_SCRIPTS = (  # Thai and Lao, Myanmar, Khmer, Han, Hiragana and Katakana: no spaces between words
    r"\u0e00-\u0eff\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007"
    r"\u3021-\u3029\u3031-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9d"
    r"\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_UNSPACED = rf"(?![\d_])(?=\w)[{_SCRIPTS}]"
_TWO_UNSPACED = re.compile(f"(?:{_UNSPACED}).*(?:{_UNSPACED})", re.DOTALL)
_JOINERS = r"\u200c\u200d"
_SKINS = r"\U0001f3fb-\U0001f3ff"  # that an emoji may have
_FLAG = r"[\U0001f1e6-\U0001f1ff]{2}"
_STYLES = {0xFE0E: None, 0xFE0F: None}  # of an emoji, which say how it is shown
BLANK = 32


class Text(NamedTuple):
    """The value of a feature that is a text even if it has no white space."""

    text: str
    ngrams: int = NGRAMS


def is_text(value: str) -> bool:
    """Whether a string in a dict is a text: white space between two parts, or two or more letters
    of a script without spaces. If not: a category."""
    if len(value.split(None, 1)) == 2:
        return True
    return not value.isascii() and _TWO_UNSPACED.search(value) is not None


def composed(text: str) -> str:
    """The same signs in their composed form (Unicode NFC)."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def words_of(text: str) -> list[str]:
    if text.isascii():
        return _WORDS.findall(text.lower())
    whole = composed(text.lower())
    special, words = _patterns()
    if special.search("".join(set(whole))) is None:
        return _WORDS.findall(whole)  # most texts in Latin, Greek, Cyrillic or Hangul
    return words.findall(whole.translate(_STYLES))


@functools.cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """For texts that are not in ASCII: what makes more of words than runs of \\w, and a word."""
    kinds = [(sign, unicodedata.category(chr(sign))) for sign in range(128, 0x20000)]
    marks = _class(sign for sign, kind in kinds if kind[0] == "M")
    symbols = _class(sign for sign, kind in kinds if kind in ("Sc", "Sm", "So"))
    special = re.compile(f"[{marks}{symbols}{_JOINERS}{_SCRIPTS}]")
    letter = rf"[a-z0-9_]|(?!{_UNSPACED})\w"
    word = rf"(?:{letter})(?:[a-z0-9_]+|{letter}|[{marks}]|[{_JOINERS}]+(?={letter}|[{marks}]))*"
    emoji = rf"[{symbols}](?:[{marks}{_SKINS}]|\u200d[{symbols}])*"
    return special, re.compile(f"{word}|{_UNSPACED}[{marks}]*|{_FLAG}|{emoji}")


def _class(signs: Iterable[int]) -> str:
    """Characters as ranges, for a class of a regular expression."""
    ranges: list[list[int]] = []
    for sign in signs:
        if ranges and ranges[-1][1] == sign - 1:
            ranges[-1][1] = sign
        else:
            ranges.append([sign, sign])
    return "".join(rf"\U{first:08x}-\U{last:08x}" for first, last in ranges)


def text_columns(
    text: str, columns: int, prefix: str = "", ngrams: int = NGRAMS
) -> tuple[np.ndarray, np.ndarray]:
    """The columns of a text's features, increasing, and their values.

    prefix: what the names of the features begin with. A text without words has one feature, whose
    name is the prefix: learners can learn from it, too.
    """
    return _summed(*_placed(words_of(text) or [""], columns, prefix, ngrams))


def columns_without(
    text: str, columns: int, prefix: str = ""
) -> list[tuple[str, Callable[[], tuple[np.ndarray, np.ndarray]]]]:
    """Each word of a text, and a function that gives `text_columns` of the text without the word.

    The text is read and hashed once. Without a word only the words next to it make new pairs.
    """
    words = words_of(text)
    places = _placed(words, columns, prefix, NGRAMS)[1]
    singles, pairs = places[: len(words)], places[len(words) :]
    numbers = {word: number for number, word in enumerate(dict.fromkeys(words))}
    order = np.array([numbers[word] for word in words], np.int64)

    def without(number: int) -> tuple[np.ndarray, np.ndarray]:
        kept = np.flatnonzero(order != number)
        if not len(kept):
            return text_columns("", columns, prefix)
        left, right = kept[:-1], kept[1:]
        together, are_new = pairs[left], right > left + 1
        new = [words[i] for i in np.stack([left[are_new], right[are_new]], axis=1).ravel()]
        together[are_new] = _placed(new, columns, prefix, NGRAMS)[1][len(new) :: 2]
        return _summed(_ends(len(kept), NGRAMS), np.concatenate([singles[kept], together]))

    return [(word, functools.partial(without, number)) for word, number in numbers.items()]


def _ends(words: int, ngrams: int) -> np.ndarray:
    """Where the sequences of each length end among the places of all sequences of words."""
    return np.cumsum([0, *range(words, words - min(ngrams, words), -1)])


def _placed(
    words: list[str], columns: int, prefix: str, ngrams: int
) -> tuple[np.ndarray, np.ndarray]:
    """Where the sequences of each length end, and the place of each sequence (`_place_names`)."""
    start = prefix.encode()
    data = np.frombuffer(start + " ".join(words).encode(), np.uint8)
    starts = np.empty(len(words) + 1, np.int64)
    ends = _ends(len(words), ngrams)
    places = np.empty(ends[-1], np.int64)
    args = (data, len(start), columns, starts, ends, places)
    direct(_place_names, None, *args)(*args)
    return ends, places


def _summed(ends: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns, increasing, and values from the places of all sequences of words."""
    values, sums = np.empty(ends[-1]), np.empty(ends[-1])
    for length in range(1, len(ends)):
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
            h = murmur3_of_bytes(data, prefix, starts[first], starts[first + length] - 1)
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
        column, value = places[i] >> 32, values[places[i] & MASK]
        if used and places[used - 1] == column:
            sums[used - 1] += value
        else:
            places[used] = column
            sums[used] = value
            used += 1
    return used
