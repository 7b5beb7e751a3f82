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
from typing import Any, NamedTuple

import numpy as np

from onebit.datasets.blocks import endings
from onebit.datasets.linear import linear_noise
from onebit.datasets.readers import format_of, read
from onebit.datasets.synthetic import synnonsep, synsep
from onebit.datasets.tables import Dataset, digits, fields_of, iris, table_of

Fields = dict[str, Any]


def _unchanged(fields: Fields) -> Fields:
    return fields


class Entry(NamedTuple):
    """A data set's name, and what is known about it before it is read."""

    name: str
    what: str  # what its rows are
    source: str
    licence: str
    size: tuple[int, int, int] | None = None  # rows, features, labels
    make: Callable[..., Any] | None = None  # makes a built-in data set
    drawn: bool = False  # drawn from a seed, anew for every repeat
    file: str = ""
    sha256: str = ""  # of the file that `size` describes
    change: Callable[[Fields], Fields] = _unchanged  # applied to the fields of its file
    shuffle: str = ""  # why the rows should be shuffled
    path: Path | None = None  # of a user's own file

    @property
    def is_own(self) -> bool:
        """Whether it is a user's own file, which the catalogue does not list."""
        return self.path is not None

    def find(self) -> Path | None:
        """The path of its file, if it is in a data folder."""
        if self.path is not None:
            return self.path
        there = (folder / self.file for folder in folders())
        return next((path for path in there if self.file and path.is_file()), None)

    def load(self, **options: Any) -> Dataset:
        """The data set. options: of its maker, or of `read` for the user's own files."""
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
        about = f"{len(table.y):,} {self.what}, {len(table.labels)} labels"
        return table._replace(name=self.name, about=f"{about}; {self.shuffle}: shuffle")


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
    raise ValueError(f"no data {name!r} among the built-in, nor in {_in_words()}; {known}")


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


def folders() -> list[Path]:
    """The data folders, in the order of the search."""
    chosen = os.environ.get("ONEBIT_DATA")
    return [Path(chosen).expanduser(), *_user_folder()] if chosen else _user_folder()


def fetch_folder() -> Path:
    """The folder for downloads: the first data folder."""
    for folder in folders():
        return folder
    raise ValueError("there is no folder for data; set ONEBIT_DATA to one")


def _user_folder() -> list[Path]:
    shared = os.environ.get("XDG_DATA_HOME")
    home = os.environ.get("HOME") or os.environ.get("USERPROFILE")
    if shared:
        return [Path(shared) / "onebit"]
    return [Path(home) / ".local" / "share" / "onebit"] if home else []


def _in_words() -> str:
    words = [str(folder) for folder in folders()]
    if not os.environ.get("ONEBIT_DATA"):
        words.append("the folder that ONEBIT_DATA names (it is not set)")
    return " or ".join(words)


def _missing(entry: Entry) -> str:
    get_it = f"`onebit data fetch {entry.name}` downloads it" if entry.name in FETCHED else ""
    remedy = " or ".join(filter(None, [get_it, "set ONEBIT_DATA to the folder that has it"]))
    return f"no data {entry.name!r}: {entry.file} is not in {_in_words()}; {remedy}"


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


# Changes to the fields of single files.


def _pixels(fields: Fields) -> Fields:
    return {**fields, "X": fields["X"].astype(np.float32) / 255}


def _grey(fields: Fields) -> Fields:
    """Map the published grey values from [-1, 1] to [0, 1], so that white is 0 and rows sparse."""
    published = fields["X"] * float(fields.get("scale", 1))
    return {**fields, "X": ((published + 1) / 2).astype(np.float32)}


def _plain(fields: Fields) -> Fields:
    return {**fields, "X": fields["X"].astype(np.float32)}


def _only(keep: Any, fields: Fields) -> Fields:
    return {**fields, "X": fields["X"][keep], "y": fields["y"][keep]}


def _one_topic(fields: Fields) -> Fields:
    repeat = fields.get("repeat", False)
    return _only((fields["y"] < len(fields["classes"])) & np.logical_not(repeat), fields)


def _no_repeats(fields: Fields) -> Fields:
    return _only(~fields["repeat"], fields)


def _three_domains(fields: Fields) -> Fields:
    kept = _no_repeats(fields)
    wanted = np.flatnonzero(np.isin(kept["classes"], ["books", "dvd", "music"]))
    kept = _only(np.isin(kept["y"], wanted), kept)
    return {**kept, "y": np.searchsorted(wanted, kept["y"]), "classes": kept["classes"][wanted]}


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
    **dict.fromkeys(("mnist", "fashion_mnist"), _pixels),
    "usps": _grey,
    "amazon7": _no_repeats,
    "amazon3": _three_domains,
    "rcv1": _one_topic,
    **dict.fromkeys(("fashion_cnn100", "satimage", "segment", "optdigits", "vowel"), _plain),
    "shuttle": _plain,
}


def _known(name: str, rows: str, features: str, labels: str, **fields: Any) -> Entry:
    """The entry of a line of catalogue.csv."""
    return Entry(
        name=name,
        size=(int(rows), int(features), int(labels)) if rows else None,
        make=_MAKERS.get(name),
        drawn=name in _DRAWN,
        change=_CHANGES.get(name, _unchanged),
        **fields,
    )


with open(Path(__file__).with_suffix(".csv"), newline="", encoding="utf-8") as _file:
    KNOWN = tuple(_known(**line) for line in csv.DictReader(_file))
