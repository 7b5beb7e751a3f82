"""Labels outside (strings or ints), places 0..K-1 inside."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from onebit.core.settings import shown

MOST = 100_000
LONGEST = 200  # characters of a label
LabelNames = int | Sequence[str] | Sequence[int]  # their number, or a list of them
_UNREADABLE = ("Cc", "Zl", "Zp")  # control characters; line and paragraph separators
_UNSEEN = ("Cf", "Zs")  # joiners, marks of direction and the like; spaces


class Kept(list[Any]):
    """Labels as a file or a journal has them. Earlier versions took any text."""


class LabelSet:
    """The labels a learner may say, in order."""

    def __init__(self, labels: LabelNames) -> None:
        self.names: list[Any] = _names(labels)
        if not isinstance(labels, Kept):
            check_texts(self.names)
        self._place = {name: place for place, name in enumerate(self.names)}
        # If labels are 0..K-1, the name of a new one is obvious:
        self.counted = isinstance(labels, int | np.integer)

    def __len__(self) -> int:
        return len(self.names)

    def place(self, label: Any) -> int:
        """The place of a label; the error for an unknown label suggests similar ones."""
        try:
            place = self._place.get(exact(label))
        except TypeError:  # not hashable
            place = None
        if place is None or isinstance(label, bool | np.bool_):
            raise ValueError(f"no label {shown(label)}; {self._known(label)}")
        return place

    def places(self, labels: Any) -> np.ndarray:
        """The places of many labels."""
        given = column_of(labels)
        if given.dtype == np.bool_:
            raise ValueError("a label cannot be True or False; convert them, as with y.astype(int)")
        if self.counted and given.dtype.kind in "iu":
            wrong = np.flatnonzero((given < 0) | (given >= len(self)))
            if len(wrong):
                raise ValueError(f"row {wrong[0]}: no label {given[wrong[0]]}; {self._known(None)}")
            return np.ascontiguousarray(given, np.int64)
        found = np.empty(len(given), np.int64)
        for row, label in enumerate(given.tolist()):
            try:
                found[row] = self.place(label)
            except ValueError as error:
                raise ValueError(f"row {row}: {error}") from None
        return found

    def add(self, label: Any = None) -> None:
        """Add a label after the others."""
        label = exact(label)
        if label is None and self.counted:
            label = len(self)
        elif self.counted and label != len(self):
            raise ValueError(
                f"these labels are counted: the next one is {len(self)}, not {label!r}"
            )
        if label is None:
            raise TypeError("a label is a string or an int, not None: name the new label")
        _check_type(label)
        if label in self._place:
            raise ValueError(f"there is a label {label!r} already")
        _names([*self.names, label])
        self._place[label] = len(self.names)
        self.names.append(label)

    def drop_last(self) -> None:
        """Undo `add`."""
        del self._place[self.names.pop()]

    def _known(self, label: Any) -> str:
        if isinstance(label, str):
            names = {str(name).casefold(): name for name in self.names}
            near = difflib.get_close_matches(label.casefold(), names, n=1)
            if near:
                return f"did you mean {names[near[0]]!r}?"
        shown = ", ".join(repr(name) for name in self.names[:8])
        return f"there are {len(self)}: {shown}{', ...' if len(self) > 8 else ''}"


def column_of(labels: Any) -> np.ndarray:
    """Labels as a one-dimensional array."""
    if isinstance(labels, list | tuple):  # numpy would use the str() of Enum members
        labels = [exact(label) for label in labels]
    try:
        given = np.asarray(labels)
    except ValueError:  # rows of different lengths
        raise ValueError("labels must be one column, not a list of lists") from None
    if given.ndim == 0:
        raise ValueError(f"labels must be one column, as in a list, not {type(labels).__name__}")
    if given.ndim > 1:
        hint = "y.argmax(axis=1) turns one-hot rows into labels; or are X and y swapped?"
        if given.size == len(given):
            hint = "y.ravel() has one dimension"
        raise ValueError(f"labels must be one column, not an array of shape {given.shape}; {hint}")
    return given


def exact(label: Any) -> Any:
    """A numpy scalar or a member of an Enum as a plain str or int."""
    if type(label) is str or type(label) is int or isinstance(label, bool):
        return label
    if isinstance(label, np.generic):
        return label.item()
    if isinstance(label, str):
        return str.__str__(label)
    return int.__int__(label) if isinstance(label, int) else label


def _names(labels: Any) -> list[Any]:
    if isinstance(labels, bool | str | bytes | set | frozenset):
        raise TypeError(f"labels must be a number or a list of labels, not {shown(labels)}")
    if isinstance(labels, int | np.integer):
        if not 2 <= labels <= MOST:
            raise ValueError(f"the number of labels must be between 2 and {MOST}, not {labels}")
        return list(range(int(labels)))
    try:
        names = [exact(name) for name in labels]
    except TypeError:
        raise TypeError(
            f"labels must be a number or a list of labels, not {shown(labels)}"
        ) from None
    for name in names:
        _check_type(name)
    if len({type(name) for name in names}) > 1:
        raise TypeError("labels must be all strings or all ints")
    if not 2 <= len(names) <= MOST:
        raise ValueError(f"there must be between 2 and {MOST} labels, not {len(names)}")
    seen = set()
    for name in names:
        if name in seen:
            raise ValueError(f"label {name!r} occurs twice")
        seen.add(name)
        if isinstance(name, str) and not _is_storable(name):
            raise ValueError(f"label {name!r} cannot be stored: it is not UTF-8, or it ends in NUL")
        if isinstance(name, int) and not -(2**63) <= name < 2**63:
            raise ValueError(f"label {name} does not fit 64 bits")
    return names


def _check_type(name: Any) -> None:
    if isinstance(name, bool) or not isinstance(name, str | int):
        raise TypeError(f"a label is a string or an int, not {shown(name)}")


def check_texts(names: Iterable[Any]) -> None:
    """Refuse labels that nobody could read, or tell from others: they appear in messages, files and
    pages."""
    for name in names:
        if not isinstance(name, str):
            continue
        if all(unicodedata.category(sign) in _UNSEEN or sign.isspace() for sign in name):
            raise ValueError(f"label {shown(name)} is blank; give it a name, such as 'none'")
        if len(name) > LONGEST:
            raise ValueError(
                f"label {shown(name)} has {len(name):,} characters; at most {LONGEST} are possible"
            )
        if any(unicodedata.category(sign) in _UNREADABLE for sign in name):
            raise ValueError(
                f"label {shown(name)} has a line break or another control character; leave it out"
            )


def _is_storable(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return not name.endswith("\0")  # numpy would cut it off
