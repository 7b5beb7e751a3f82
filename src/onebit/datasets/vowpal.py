"""Vowpal Wabbit's text: `label importance 'tag |space name:value name ... |other:weight ...`.

A feature is hashed by its name, or by `space^name` in a named space, into 2**20 columns or
`features`. Learners hash dicts in the same way, so a file and a dict give the same context.
Importance and tag are ignored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from itertools import islice

import numpy as np

from onebit.datasets.blocks import Block, Options, bad, has_label, number_of, text_lines
from onebit.datasets.columns import hashed

_ROWS = 10_000  # of a block
_REMEDY = "write label | features (a word that touches the bar is a tag)"
# Labels are numbers in this format: 9.0 and +9 are 9.
_WHOLE = re.compile(r"^\+?(-?[0-9]+)(?:\.0+)?\Z")


def vowpal_blocks(options: Options) -> Iterator[Block]:
    numbered = enumerate(text_lines(options.path, options.encoding), 1)
    written = ((number, line) for number, line in numbered if line.strip())
    while part := list(islice(written, _ROWS)):
        labels: list[str] = []
        rows: list[Mapping[str, float]] = []
        lines: list[int] = []
        for number, line in part:
            label, names = _row(options.path, number, line)
            if has_label(options, number, label, _REMEDY):
                labels.append(label)
                rows.append(names)
                lines.append(number)
        if rows:
            yield Block(hashed(rows, lines, options), np.array(labels), np.array(lines))


def _row(path: str, number: int, line: str) -> tuple[str, dict[str, float]]:
    """The label of a row, empty if there is none, and the values of its features."""
    head, bar, _ = line.partition("|")
    if not bar:
        raise bad(path, number, "there is no |", "write label | features; is the row cut?")
    names = named_features(path, number, line)
    return _label(path, number, head), names


def named_features(path: str, number: int, line: str) -> dict[str, float]:
    """The values of the features of a row, which are behind its first |."""
    names: dict[str, float] = {}
    for space in line.split("|")[1:]:
        _add_space(path, number, space, names)
    return names


def _label(path: str, number: int, head: str) -> str:
    words = head.split()
    if words and (words[-1].startswith("'") or not head[-1].isspace()):
        words.pop()  # a word that touches the bar is a tag
    for word in words[1:2]:
        _number(path, number, word, "as importance")
    if len(words) > 2:
        remedy = "one label a row, then importance and 'tag"
        raise bad(path, number, f"{words[2]!r} stands before the |", remedy)
    return _WHOLE.sub(r"\1", words[0]) if words else ""


def _add_space(path: str, number: int, space: str, names: dict[str, float]) -> None:
    words = space.split()
    prefix, weight = "", 1.0
    if words and not space[0].isspace():  # the word that touches the bar names the space
        name, colon, value = words.pop(0).partition(":")
        prefix = f"{name}^" if name else ""
        weight = _number(path, number, value, f"for {name!r}") if colon else 1.0
    for word in words:
        name, colon, value = word.rpartition(":")
        if not colon:
            name, value = word, "1"
        name = prefix + name
        names[name] = names.get(name, 0.0) + weight * _number(path, number, value, f"in {word!r}")


def _number(path: str, number: int, text: str, where: str) -> float:
    try:
        value = number_of(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise bad(path, number, f"{text!r} {where} is not a finite number", "mend it")
    return value
