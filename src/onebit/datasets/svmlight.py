"""svmlight and libsvm text: a line is `label index:value index:value ... # comment`.

A compiled loop parses the bytes of a block. It reads most numbers exactly. Numbers with more digits
than a double can hold are parsed by Python's float, so that all are rounded correctly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from onebit.core.jit import entry, inline
from onebit.core.settings import argument
from onebit.datasets.blocks import Block, Options, bad, cast, text_blocks
from onebit.datasets.matrices import csr
from onebit.reading.rows import GROWTH_LIMIT

TAB, NEWLINE, RETURN, SPACE, HASH, PLUS, MINUS, POINT, ZERO, NINE, COLON = b"\t\n\r #+-.09:"
SMALL_E, LARGE_E = b"eE"
EXACT = 2**53  # whole numbers up to this one are exact doubles
MANY = 10**16  # a number below it with another digit still fits 64 bits
TENS = 10.0 ** np.arange(23)  # these powers are exact, so one division or product rounds once

GOOD, LABEL, INDEX, VALUE, BELOW, BEYOND, TWICE, FALLING = range(8)


class Out(NamedTuple):
    """Room for the rows of a block."""

    labels: Any
    lines: Any
    indptr: Any
    indices: Any
    values: Any
    hard: Any  # numbers left to Python: their places in the text and in `values`


def svmlight_blocks(options: Options) -> Iterator[Block]:
    for first_line, text in text_blocks(options.path, options.encoding):
        if options.several:
            labels, text = _without_labels(text)
            block = _block(options, first_line, text)._replace(y=np.array(labels))
        else:
            block = _block(options, first_line, text)
        if len(block.y):
            yield block


def _without_labels(text: bytes) -> tuple[list[str], bytes]:
    """The labels of each row as written, maybe none; and the rows with the label 0 instead."""
    labels, rows = [], []
    for line in text.splitlines():
        words = line.split(maxsplit=1)
        if words and not words[0].startswith(b"#"):
            has_labels = b":" not in words[0]
            labels.append(words[0].decode(errors="replace") if has_labels else "")
            line = b"0 " + (b"".join(words[1:]) if has_labels else line)
        rows.append(line)
    return labels, b"\n".join([*rows, b""])


def _block(options: Options, first_line: int, text: bytes) -> Block:
    most_rows, most_values = text.count(b"\n"), text.count(b":")
    out = Out(
        labels=np.empty(most_rows, np.int64),
        lines=np.empty(most_rows, np.int64),
        indptr=np.zeros(most_rows + 1, np.int64),
        indices=np.empty(most_values, np.int32),
        values=np.empty(most_values),
        hard=np.empty((most_values, 2), np.int64),
    )
    limit = options.features or GROWTH_LIMIT
    base = 0 if options.zero_based else 1
    codes = np.frombuffer(text, np.uint8)
    rows, stored, hard, width, wrong, line, at = _parse(codes, TENS, base, limit, out)
    if wrong:
        raise _refusal(options, wrong, first_line + line, _word(text, at))
    for start, place in out.hard[:hard].tolist():
        out.values[place] = float(_word(text, start))
    indptr, lines = out.indptr[: rows + 1].copy(), out.lines[:rows] + first_line

    def line_of(place: int) -> int:
        return int(lines[np.searchsorted(indptr, place, side="right") - 1])

    values = cast(out.values[:stored], options.dtype, options, line_of)
    X = csr(values, out.indices[:stored].copy(), indptr, options.features or width)
    return Block(X, out.labels[:rows].copy(), lines)


def _word(text: bytes, at: int) -> str:
    found = text[at : at + 2000].split(maxsplit=1)
    return found[0].decode(errors="replace") if found else ""


def _refusal(options: Options, wrong: int, line: int, word: str) -> ValueError:
    word = repr(word if len(word) <= 40 else word[:40] + "...")
    limit = f"{options.features} that {argument('features')} fixed"
    if not options.features:
        limit = f"{GROWTH_LIMIT} columns that learners may grow to"
    larger = f"mend it, or pass a larger {argument('features')}"
    zero_based = f"pass {argument('zero_based', True)} if they count from 0"
    problem, remedy = {
        LABEL: (f"{word} is not a label", "a row begins with a whole number"),
        INDEX: (f"{word} is not index:value", "is the row cut, or the file of another format?"),
        VALUE: (f"{word} has no finite number after the colon", "mend it, or leave it out"),
        BELOW: (f"index {word}, but indices count from 1", zero_based),
        BEYOND: (f"the index of {word} is beyond the {limit}", larger),
        TWICE: (f"{word} repeats an index", "add its values up"),
        FALLING: (f"{word} comes after a larger index", "sort the row by index"),
    }[wrong]
    return bad(options.path, line, problem, remedy)


@inline
def _is_blank(code):
    return (code == SPACE) | (code == TAB) | (code == RETURN)


@inline
def _ends_word(code):
    return _is_blank(code) | (code == NEWLINE) | (code == HASH)


@inline
def _is_digit(code):
    return (code >= ZERO) & (code <= NINE)


@inline
def _digits(text, at, number):
    """Digits appended to a number: where they end, the number, and how many did not fit."""
    dropped = 0
    while _is_digit(text[at]):
        if number < MANY:
            number = 10 * number + (int(text[at]) - ZERO)
        else:
            dropped += 1
        at += 1
    return at, number, dropped


@inline
def _number(text, at, tens):
    """The number at a place: its value, its end (the place itself: no number), is it exact."""
    i = at
    negative = text[i] == MINUS
    if negative or text[i] == PLUS:
        i += 1
    start = i
    i, whole, dropped = _digits(text, i, 0)
    digits, power = i - start, 0
    exact = dropped == 0
    if text[i] == POINT:
        start = i + 1
        i, whole, dropped = _digits(text, start, whole)
        digits += i - start
        power = dropped - (i - start)
        exact &= dropped == 0
    if digits == 0:
        return 0.0, at, True
    if text[i] == SMALL_E or text[i] == LARGE_E:
        i += 1
        down = text[i] == MINUS
        if down or text[i] == PLUS:
            i += 1
        if not _is_digit(text[i]):
            return 0.0, at, True
        i, raised, _ = _digits(text, i, 0)
        power += -raised if down else raised
    value = float(whole)
    exact = exact and -len(tens) < power < len(tens)
    if exact and whole > EXACT:
        value, exact = _long_quotient(whole, power, tens)
    elif exact:
        value = value / tens[-power] if power < 0 else value * tens[power]
    return -value if negative else value, i, exact


@inline
def _long_quotient(whole, power, tens):
    """A whole number beyond EXACT divided by a power of ten, and whether it is rounded correctly.

    The quotient of the rounded number is corrected by its remainder, which is computed exactly
    (Dekker's product). Half way between two doubles, the correction may be wrong.
    """
    if power >= 0:
        return 0.0, False
    ten = tens[-power]
    high = float(whole)
    quotient = high / ten
    product = quotient * ten
    a, b = _halves(quotient)
    c, d = _halves(ten)
    missing = ((a * c - product) + a * d + b * c) + b * d
    mended = (((high - product) - missing) + float(whole - int(high))) / ten
    low, up = quotient + mended * (1 - 1e-12), quotient + mended * (1 + 1e-12)
    return low, low == up


@inline
def _halves(number):
    """A double as the sum of two doubles with half of the digits."""
    large = 134217729.0 * number
    high = large - (large - number)
    return high, number - high


@entry
def _parse(text, tens, base, limit, out):
    """Parse rows of a text that ends with a newline.

    Returns the number of rows, of stored values and of hard numbers, the width, and the code, line
    and place of an error.
    """
    at = line = row = stored = hard = width = 0
    while at < len(text):
        while _is_blank(text[at]):
            at += 1
        if text[at] == HASH:
            while text[at] != NEWLINE:
                at += 1
        if text[at] == NEWLINE:
            at += 1
            line += 1
            continue
        label, end, exact = _number(text, at, tens)
        if end == at or not _ends_word(text[end]) or not exact:
            return row, stored, hard, width, LABEL, line, at
        if label != np.floor(label) or abs(label) > EXACT:
            return row, stored, hard, width, LABEL, line, at
        at = end
        before = -1
        while True:
            while _is_blank(text[at]):
                at += 1
            if text[at] == NEWLINE or text[at] == HASH:
                break
            start = at
            at, index, _ = _digits(text, at, 0)
            if at == start or text[at] != COLON:
                return row, stored, hard, width, INDEX, line, start
            at += 1
            value, end, exact = _number(text, at, tens)
            if end == at or not _ends_word(text[end]):
                return row, stored, hard, width, VALUE, line, start
            index -= base
            if index < 0:
                return row, stored, hard, width, BELOW, line, start
            if index >= limit:
                return row, stored, hard, width, BEYOND, line, start
            if index <= before:
                wrong = TWICE if index == before else FALLING
                return row, stored, hard, width, wrong, line, start
            before = index
            width = max(width, index + 1)
            if not exact:
                out.hard[hard, 0] = at
                out.hard[hard, 1] = stored
                hard += 1
            out.indices[stored] = index
            out.values[stored] = value
            stored += (value != 0) | (not exact)
            at = end
        out.labels[row] = int(label)
        out.lines[row] = line
        row += 1
        out.indptr[row] = stored
        while text[at] != NEWLINE:
            at += 1
        at += 1
        line += 1
    return row, stored, hard, width, GOOD, line, at
