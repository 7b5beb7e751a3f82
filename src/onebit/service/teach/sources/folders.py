"""The files of a folder and its folders that may be items, by their keys."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from onebit.datasets.blocks import UTF8
from onebit.service.teach.sources import items
from onebit.service.teach.sources.items import Skipped

LEADS_OUT = "a link that leads out of the folder is not followed"


class Found:
    """The files below a folder with certain endings, by their keys; and what was skipped.

    endings: of the files, in small letters. thing: what such a file is. refused: reasons against
    files with other endings.
    """

    def __init__(
        self,
        root: Path,
        endings: Sequence[str],
        thing: str,
        refused: Mapping[str, str] | None = None,
    ) -> None:
        self.paths: dict[str, Path] = {}
        self.skipped: list[Skipped] = []
        self._root, self._endings, self._thing = root, endings, thing
        self._refused = refused or {}
        for folder, folders, files in os.walk(root, onerror=self._unreadable):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in folders:
                if os.path.islink(os.path.join(folder, name)):  # os.walk does not follow it
                    self._skip(Path(folder, name), "a link to a folder is not followed")
            for name in sorted(files):
                if not name.startswith("."):
                    self._add(Path(folder, name))

    @property
    def usual_reason(self) -> str:
        """The most frequent reason for which a file was skipped, in brackets."""
        reasons = Counter(reason for _, reason in self.skipped)
        return f" ({reasons.most_common(1)[0][0]})" if reasons else ""

    def _unreadable(self, error: OSError) -> None:
        path = Path(error.filename or self._root)
        if path == self._root:
            raise error
        self._skip(path, f"the folder cannot be read ({error.strerror})")

    def _add(self, path: Path) -> None:
        reason, key = self._why_not(path), self._key(path)
        if reason:
            self.skipped.append((key, reason))
        elif key in self.paths:
            self.skipped.append((key, "another file has the same name but for unreadable signs"))
        elif len(self.paths) == items.MOST_ITEMS:
            raise ValueError(
                f"there are more than {items.MOST_ITEMS:,} {self._thing}s; take a part of them"
            )
        else:
            self.paths[key] = path

    def _skip(self, path: Path, reason: str) -> None:
        self.skipped.append((self._key(path), reason))

    def _key(self, path: Path) -> str:
        """The relative path, in signs that can be stored and sent."""
        relative = path.relative_to(self._root).as_posix()
        return os.fsencode(relative).decode(UTF8, "backslashreplace")

    def _why_not(self, path: Path) -> str:
        """Why a file is no item; "" if it may be one."""
        ending = path.suffix.lower()
        if ending in self._refused:
            return self._refused[ending]
        if ending not in self._endings:
            return f"not {_a(self._thing)} by its ending"
        if path.is_symlink() and not is_inside(path, self._root):
            return LEADS_OUT
        try:
            status = path.stat()
        except OSError as error:
            return f"the file cannot be read ({error.strerror})"
        return "" if status.st_size else "the file is empty"


def _a(thing: str) -> str:
    return f"{'an' if thing[0] in 'aeiou' else 'a'} {thing}"


def is_inside(path: Path, root: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(root)
