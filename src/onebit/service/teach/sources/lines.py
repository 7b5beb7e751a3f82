"""Texts that can be taught: the lines of a file, or the files of a folder.

The key of a line is a digest of it, so keys stay when lines are added; that of a file is its path.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onebit.core.settings import argument
from onebit.datasets.blocks import text_blocks
from onebit.service.teach.sources import items
from onebit.service.teach.sources.folders import Found
from onebit.service.teach.sources.images import shown
from onebit.service.teach.sources.items import LONGEST_TITLE, Embed, Item, Items, Skipped

LONGEST_TEXT = 100_000  # characters of a line, or of a cell of a table
TEXTS = (".txt", ".text", ".md")  # endings of files in a folder
TOO_LONG = f"longer than {LONGEST_TEXT:,} characters"
NO_TEXT = "not text: it holds NUL characters"


class Keys:
    """Keys from contents. Equal contents are told apart by a count."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def key(self, content: str) -> str:
        digest = hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
        self._seen[digest] += 1
        return digest if self._seen[digest] == 1 else f"{digest}-{self._seen[digest]}"


class Texts(Items):
    """Texts: the lines of a file, the files of a folder, or a column of a table beside the others.

    named: keys of the texts, which are their titles too.
    """

    kind = "text"

    def __init__(
        self,
        name: str,
        texts: list[str],
        fields: list[Mapping[str, Any]],
        skipped: list[Skipped],
        embed: Embed | None = None,
        named: list[str] | None = None,
    ) -> None:
        self._texts, self._fields, self._are_named = texts, fields, named is not None
        keys = Keys()
        super().__init__(name, named or [keys.key(text) for text in texts], skipped, embed)

    def __getitem__(self, i: int) -> Item:
        text, key = self._texts[i], self._keys[i]
        fields = self._fields[i] if self._fields else {}
        title = shown(key if self._are_named else text, LONGEST_TITLE)
        return Item(key, "text", title, text, fields)

    def _plain_context(self, i: int) -> str:
        return self._texts[i]


def lines_of(path: str, embed: Embed | None, encoding: str) -> Texts:
    """The lines of a file that are not blank."""
    texts: list[str] = []
    skipped: list[Skipped] = []
    for first, block in text_blocks(path, encoding):
        for number, data in enumerate(block.removesuffix(b"\n").split(b"\n"), first):
            reason = _why_no_text(data)
            if reason:
                skipped.append((f"line {number}", reason))
                continue
            line = data.decode().rstrip("\r")
            if line.strip():
                texts.append(line)
        check_count(path, texts)
    if not texts:
        raise nothing(path, "line", skipped)
    return Texts(Path(path).name, texts, [], skipped, embed)


def files_of(name: str, found: Found, embed: Embed | None, encoding: str) -> Texts:
    """The files of a folder, a text each."""
    texts: list[str] = []
    named: list[str] = []
    skipped = found.skipped
    for key, path in sorted(found.paths.items()):
        try:
            text, reason = _read(path, encoding)
        except (OSError, ValueError) as error:
            text, reason = "", shown(str(error), 200)
        if reason:
            skipped.append((key, reason))
        else:
            texts.append(text)
            named.append(key)
    if not texts:
        raise nothing(name, "text", skipped)
    return Texts(name, texts, [], skipped, embed, named)


def _read(path: Path, encoding: str) -> tuple[str, str]:
    """The text of a file; or why there is none."""
    if path.stat().st_size > 4 * LONGEST_TEXT:
        return "", TOO_LONG
    data = b"".join(block for _, block in text_blocks(os.fspath(path), encoding))
    reason = _why_no_text(data)
    text = "" if reason else data.decode().strip()
    return text, reason or ("" if text else "there is no text in it")


def _why_no_text(data: bytes) -> str:
    if len(data) > 4 * LONGEST_TEXT:  # bytes of a character
        return TOO_LONG
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"not text in UTF-8; name the encoding with {argument('encoding', 'cp1252')}"
    if len(text) > LONGEST_TEXT:
        return TOO_LONG
    return NO_TEXT if "\0" in text else ""


def check_count(path: str, found: Sequence[Any]) -> None:
    if len(found) > items.MOST_ITEMS:
        raise ValueError(
            f"{path} has more than {items.MOST_ITEMS:,} items; split it into several files"
        )


def nothing(path: str, thing: str, skipped: list[Skipped]) -> ValueError:
    if not skipped:
        return ValueError(f"{path}: the file is empty")
    place, reason = skipped[0]
    return ValueError(f"{path}: no {thing} can be used; {place}: {reason}")
