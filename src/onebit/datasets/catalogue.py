"""Data sets by name: built in, or files in a data folder. catalogue.csv lists the known ones.

The data folders are the folder in ONEBIT_DATA, then the user's data folder. Any other readable file
there has a name too: its file name without the endings.
"""

from __future__ import annotations

import csv
import difflib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from onebit.datasets.blocks import endings
from onebit.datasets.entries import (
    Entry,
    folders,
    folders_in_words,
    grey,
    no_repeats,
    one_topic,
    pixels,
    plain,
    three_domains,
)
from onebit.datasets.linear import linear_noise
from onebit.datasets.readers import format_of
from onebit.datasets.synthetic import synnonsep, synsep
from onebit.datasets.tables import Dataset, digits, iris


def get(name: str, **options: Any) -> Dataset:
    """The data set of this name: built in, or found in a data folder.

    `onebit data list` shows the names. options: rows and seed of synthetic data; options of `read`
    for your own files, such as label= of a table.
    """
    return find(name).load(**options)


def find(name: str) -> Entry:
    """The entry of this name, even if its file is missing."""
    for entry in KNOWN:
        if name == entry.name:
            return entry
    for entry in own():
        if name == entry.name:
            return entry
    for entry in KNOWN:  # 20news_18828 is 20news
        if entry.file and name == _stem(entry.file):
            return entry
    names = [entry.name for entry in (*KNOWN, *own())]
    near = difflib.get_close_matches(name, names, n=1)
    known = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
    raise ValueError(f"no data {name!r} among the built-in, nor in {folders_in_words()}; {known}")


def named(data: str) -> Entry:
    """The entry of this name; or of the file at this path, which has a dot or a folder."""
    if "." in data or os.sep in data:
        return _own_entry(_stem(Path(data).name), Path(data))
    return find(data)


def _own_entry(name: str, path: Path) -> Entry:
    return Entry(name, "rows of a file of your own", "yours", "yours", path=path)


def own() -> Iterator[Entry]:
    """The user's own files in the data folders, the first of each name."""
    seen = {entry.file for entry in KNOWN} | {entry.name for entry in KNOWN}
    for folder in folders():
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            name = _stem(path.name)
            if not (seen & {name, path.name}) and path.is_file() and _can_be_read(path):
                seen.add(name)
                yield _own_entry(name, path)


def fetch_folder() -> Path:
    """The folder for downloads: the first data folder."""
    for folder in folders():
        return folder
    raise ValueError("there is no folder for data; set ONEBIT_DATA to one")


def _stem(file: str) -> str:
    """The name of a file without the endings for format and compression."""
    for ending in reversed(endings(file)):
        file = file[: len(file) - len(ending)]
    return file


def _can_be_read(path: Path) -> bool:
    try:
        return bool(format_of(path))
    except ValueError:
        return False


FETCHED = (
    "mnist",
    "fashion_mnist",
    "usps",
    "optdigits",
    "segment",
    "shuttle",
    "20news",
    "rcv1_full",
)

_MAKERS: dict[str, Callable[..., Any]] = {
    "synsep": synsep,
    "synnonsep": synnonsep,
    "linear_noise": linear_noise,
    "digits": digits,
    "iris": iris,
}
_DRAWN = ("synsep", "synnonsep", "linear_noise")
_CHANGES = {
    **dict.fromkeys(("mnist", "fashion_mnist"), pixels),
    "usps": grey,
    "amazon7": no_repeats,
    "amazon3": three_domains,
    "rcv1": one_topic,
    **dict.fromkeys(("fashion_cnn100", "satimage", "segment", "optdigits", "vowel"), plain),
    "shuttle": plain,
}


def _known(name: str, rows: str, features: str, labels: str, **fields: Any) -> Entry:
    """The entry of a line of catalogue.csv."""
    changed: Any = {"change": _CHANGES[name]} if name in _CHANGES else {}
    return Entry(
        name=name,
        size=(int(rows), int(features), int(labels)) if rows else None,
        make=_MAKERS.get(name),
        drawn=name in _DRAWN,
        fetched=name in FETCHED,
        **changed,
        **fields,
    )


with open(Path(__file__).with_suffix(".csv"), newline="", encoding="utf-8") as _file:
    KNOWN = tuple(_known(**line) for line in csv.DictReader(_file))
