"""A data set of the catalogue: where its file is, and how its rows are made."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onebit.datasets.readers import read, reader_of
from onebit.datasets.tables import Dataset, fields_of, table_of

Fields = dict[str, Any]  # of an npz file


def unchanged(fields: Fields) -> Fields:
    return fields


class CatalogueEntry(NamedTuple):
    """A data set by its name, with the facts that are known before it is read."""

    name: str
    contents: str  # what its rows are
    source: str
    licence: str
    size: tuple[int, int, int] | None = None  # rows, features, labels
    make: Callable[..., Any] | None = None  # makes a built-in data set
    drawn: bool = False  # from a seed: anew for every repeat
    file: str = ""
    fetched: bool = False  # it can be downloaded
    sha256: str = ""  # of the file that has this size
    change: Callable[[Fields], Fields] = unchanged
    shuffle: str = ""  # why to shuffle
    path: Path | None = None  # of the user's own file

    @property
    def is_own(self) -> bool:
        """Whether it is a file of the user."""
        return self.path is not None

    def find(self) -> Path | None:
        """The path of its file, if it is in a data folder."""
        if self.path is not None:
            return self.path
        paths = (folder / self.file for folder in folders())
        return next((path for path in paths if self.file and path.is_file()), None)

    def load(self, **options: Any) -> Dataset:
        """The data set. Options are those of its maker, or of `read` for the user's own files."""
        if self.make is not None:
            return self.make(**options)
        if self.path is not None:
            return read(self.path, **options)
        path = self.find()
        if path is None:
            raise FileNotFoundError(_missing(self))
        if options:
            raise TypeError(f"{self.name} takes no options; leave out {', '.join(options)}")
        table = table_of(path, self.change(fields_of(path)))
        about = f"{len(table.y):,} {self.contents}, {len(table.labels)} labels"
        return table._replace(name=self.name, about=f"{about}; {self.shuffle}: shuffle")

    def makers(self) -> list[Callable[..., Any]]:
        """The functions that make its rows."""
        if self.make is not None:
            return [self.make]
        if self.path is not None:
            return [read, reader_of(self.path)]
        return [fields_of, self.change, table_of]


def folders() -> list[Path]:
    """Where data files are looked for, in this order."""
    chosen, shared = os.environ.get("ONEBIT_DATA"), os.environ.get("XDG_DATA_HOME")
    home = os.environ.get("HOME") or os.environ.get("USERPROFILE")
    found = [Path(chosen).expanduser()] if chosen else []
    if shared or home:
        found.append((Path(shared) if shared else Path(home or "", ".local", "share")) / "onebit")
    return found


def folders_in_words() -> str:
    words = [str(folder) for folder in folders()]
    if not os.environ.get("ONEBIT_DATA"):
        words.append("the folder that ONEBIT_DATA names (it is not set)")
    return " or ".join(words)


def _missing(entry: CatalogueEntry) -> str:
    get_it = f"`onebit data fetch {entry.name}` downloads it" if entry.fetched else ""
    remedy = " or ".join(filter(None, [get_it, "set ONEBIT_DATA to the folder that has it"]))
    return f"no data {entry.name!r}: {entry.file} is not in {folders_in_words()}; {remedy}"


# Functions that the column `change` of catalogue.csv names: they prepare one kind of file.


def pixels(fields: Fields) -> Fields:
    return {**fields, "X": fields["X"].astype(np.float32) / 255}


def grey(fields: Fields) -> Fields:
    """The published grey values are in [-1, 1]; paper is 0 here, so that rows are sparse."""
    published = fields["X"] * float(fields.get("scale", 1))
    return {**fields, "X": ((published + 1) / 2).astype(np.float32)}


def plain(fields: Fields) -> Fields:
    return {**fields, "X": fields["X"].astype(np.float32)}


def tags(fields: Fields) -> Fields:
    """Several labels are right in a row. Bits are packed along rows."""
    rights = np.unpackbits(fields["Y"], axis=1, count=int(fields["k"]))
    X = fields["X"]
    if X.dtype == np.uint8:
        X = np.unpackbits(X, axis=1, count=int(fields["d"]))
    return {"X": X.astype(np.float32), "y": rights, "classes": fields["labels"]}


def one_topic(fields: Fields) -> Fields:
    has_topic = fields["y"] < len(fields["classes"])
    return _only(has_topic & np.logical_not(fields.get("repeat", False)), fields)


def no_repeats(fields: Fields) -> Fields:
    return _only(~fields["repeat"], fields)


def three_domains(fields: Fields) -> Fields:
    fields = no_repeats(fields)
    wanted = np.flatnonzero(np.isin(fields["classes"], ["books", "dvd", "music"]))
    kept = _only(np.isin(fields["y"], wanted), fields)
    return {**kept, "y": np.searchsorted(wanted, kept["y"]), "classes": kept["classes"][wanted]}


def _only(keep: np.ndarray, fields: Fields) -> Fields:
    return {**fields, "X": fields["X"][keep], "y": fields["y"][keep]}
