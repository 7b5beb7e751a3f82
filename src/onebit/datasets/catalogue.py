"""Data sets by name: built in, or files in a data folder. catalogue.csv lists the known ones.

The data folders are the folder in ONEBIT_DATA, then the user's data folder. Any other readable file
there has a name too: its file name without the endings.
"""

from __future__ import annotations

import csv
import difflib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onebit.datasets import catalogue_entry
from onebit.datasets.blocks import stem
from onebit.datasets.catalogue_entry import CatalogueEntry, folders, folders_in_words
from onebit.datasets.clicks import clicks
from onebit.datasets.linear import linear_noise
from onebit.datasets.readers import can_be_read
from onebit.datasets.synthetic import synnonsep, synsep
from onebit.datasets.tables import Dataset, digits, iris


def get(name: str, **options: Any) -> Dataset:
    """The data set of this name: built in, or found in a data folder.

    `onebit data list` shows the names. options: rows and seed of synthetic data; options of `read`
    for your own files, such as label= of a table.
    """
    return find(name).load(**options)


def find(name: str) -> CatalogueEntry:
    """The entry of this name, even if its file is missing."""
    known = list_all()
    for entry in known:
        if name == entry.name:
            return entry
    for entry in KNOWN:  # 20news_18828 is 20news
        if entry.file and name == stem(entry.file):
            return entry
    names = [entry.name for entry in known]
    near = difflib.get_close_matches(name, names, n=1)
    remedy = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
    raise ValueError(f"no data {name!r} among the built-in, nor in {folders_in_words()}; {remedy}")


def named(data: str) -> CatalogueEntry:
    """The entry of this name; or of the file at this path, which has a dot or a folder."""
    if "." not in data and os.sep not in data:
        return find(data)
    if not os.path.exists(data):
        names = [entry.name for entry in list_all()]
        near = [repr(name) for name in difflib.get_close_matches(stem(data), names)]
        meant = f"did you mean the data set {' or '.join(near)}?"
        remedy = meant if near else f"the data sets are {', '.join(names)}"
        raise FileNotFoundError(f"there is no file {data}; {remedy}")
    return _own_entry(Path(data))


def _own_entry(path: Path) -> CatalogueEntry:
    return CatalogueEntry(stem(path), "rows of your own file", "yours", "yours", path=path)


def list_all() -> list[CatalogueEntry]:
    return [*KNOWN, *own()]


def own() -> Iterator[CatalogueEntry]:
    """The user's own files in the data folders, the first of each name."""
    seen = {entry.file for entry in KNOWN} | {entry.name for entry in KNOWN}
    for folder in folders():
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if not (seen & {stem(path), path.name}) and path.is_file() and can_be_read(path):
                seen.add(stem(path))
                yield _own_entry(path)


def fetch_folder() -> Path:
    """The folder for downloads: the first data folder."""
    for folder in folders():
        return folder
    raise ValueError("there is no folder for data; set ONEBIT_DATA to one")


_BUILT_IN = (synsep, synnonsep, linear_noise, clicks, digits, iris)
_MAKERS = {maker.__name__: maker for maker in _BUILT_IN}


def _known(line: dict[str, Any]) -> CatalogueEntry:
    """The entry of a line of catalogue.csv. change: the name of a function in `catalogue_entry`."""
    name, change = line["name"], line.pop("change")
    sizes = [line.pop(column) for column in ("rows", "features", "labels")]
    line["size"] = tuple(map(int, sizes)) if sizes[0] else None
    line |= {flag: line[flag] == "yes" for flag in ("drawn", "fetched")}
    return CatalogueEntry(
        make=_MAKERS.get(name), change=getattr(catalogue_entry, change or "unchanged"), **line
    )


with open(Path(__file__).with_suffix(".csv"), newline="", encoding="utf-8") as _file:
    KNOWN = tuple(_known(line) for line in csv.DictReader(_file))
FETCHED = tuple(entry.name for entry in KNOWN if entry.fetched)
