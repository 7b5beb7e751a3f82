"""What is taught: the built-in digits, a folder of images, the lines of a text, rows of a table.

A source is opened once and its items have fixed places, 0 to len - 1. An item's key stays the same
when the source is opened again, also if other items were added or taken away: the relative path of
an image, or a digest of a line or row. Whatever cannot be used is in `skipped`, with the reason.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from onebit.datasets.blocks import UTF8, AnyPath, Options, endings, text_blocks
from onebit.datasets.delimited import is_missing_cell, is_number_cell, numbered_rows
from onebit.datasets.parquet import parquet_parts
from onebit.datasets.readers import can_be_read, format_of
from onebit.datasets.tables import digits
from onebit.lab.lookup import import_learners
from onebit.service.ahead import Ahead, Kept, Made, Recent
from onebit.service.images import (
    EDGE,
    ENDINGS,
    ImageError,
    decoded_bytes,
    encoded,
    enlarged,
    features_of,
    grey_image,
    pillow,
    read_image,
    shown,
)
from onebit.settings import argument

Kind = Literal["image", "text", "row"]
Embed = Callable[[Any], Any]
Skipped = tuple[str, str]  # a key or a place in the source, and the reason

MOST_ITEMS = 1_000_000
LONGEST_TEXT = 100_000  # characters of a line, or of a cell of a table
_LONGEST_TITLE = 80
_SIZES = (128, 256, 512, EDGE)  # pixels of a picture's longer side
_MOST_MEMORY = 2**26  # bytes of pictures, and again of vectors
_LARGEST_NUMBER = 3e38  # of float32
_LABEL = "label"  # a column of this name holds what is to be learned: no learner may see it
_NOT_READ = (".heic", ".heif", ".raw", ".cr2", ".nef", ".arw", ".dng", ".svg", ".psd")


class Item(NamedTuple):
    """An item as a person sees it."""

    key: str
    kind: Kind
    title: str  # one printable line
    text: str = ""
    fields: Mapping[str, Any] = {}  # the columns of a table's row


class ItemError(ValueError):
    """An item cannot be used."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{shown(key, 200)}: {reason}")
        self.key, self.reason = key, reason


class Items:
    """The items of a source. Several threads may use them at once.

    `context` and `picture` raise an ItemError for an item that turns out to be unusable; from then
    on it is in `skipped`.
    """

    kind: Kind
    labels: Sequence[str] = ()  # the labels that suggest themselves

    def __init__(self, name: str, keys: list[str], skipped: list[Skipped], embed: Embed | None):
        self.name, self.skipped = name, skipped
        self._keys, self._embed = keys, embed
        self._places: dict[str, int] = {}
        self._reasons: dict[int, str] = {}
        self._vectors: Recent[np.ndarray] = Recent(_MOST_MEMORY)
        self._width = 0  # of embeddings; 0: there was none yet
        self._lock = threading.Lock()
        self._ahead = Ahead(self._make_quietly, self._made_in_order(), self._is_enough)

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, i: int) -> Item:
        """Item i."""
        raise NotImplementedError

    def context(self, i: int) -> Any:
        """What the learner sees of item i: a text, a dict, or a vector."""
        self._refuse_unusable(i)
        if self._embed is None:
            return self._plain_context(i)
        vector = self._vectors.get(i)
        if vector is None:
            vector = self._embedded(i)
            self._vectors.put(i, vector, vector.nbytes)
        return vector

    def picture(self, i: int, size: int = EDGE) -> tuple[bytes, str]:
        """A picture of item i and its media type. size: pixels of its longer side, about."""
        raise ItemError(self._keys[i], f"a {self.kind} has no picture")

    def prepare(self, *places: int) -> None:
        """Make these items ready in the background, the first one first."""
        missing = [i for i in places if not self.ready(i)]
        if missing or self._made_in_order():
            self._ahead.want(missing)

    def ready(self, i: int) -> bool:
        """Whether `context` and `picture` answer at once, be it with an ItemError."""
        return self._embed is None or i in self._vectors or i in self._reasons

    def usable(self, i: int) -> bool:
        """Whether nothing is known against item i."""
        return i not in self._reasons

    def place(self, key: str) -> int | None:
        """The place of the item with this key, if there is one."""
        if not self._places:
            self._places = {key: i for i, key in enumerate(self._keys)}
        return self._places.get(key)

    def close(self) -> None:
        """Stop the work in the background."""
        self._ahead.close()

    def __enter__(self) -> Items:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What kinds of items differ in.

    def _plain_context(self, i: int) -> Any:
        raise NotImplementedError

    def _embeddable(self, i: int) -> Any:
        """What is given to the user's embedding."""
        return self._plain_context(i)

    def _make(self, i: int) -> None:
        """Make what `ready` waits for."""
        self.context(i)

    def _made_in_order(self) -> int:
        """How many items the background makes without being asked."""
        return 0

    def _is_enough(self) -> bool:
        """Whether the background has to stop doing so."""
        return True

    # What they share.

    def _make_quietly(self, i: int) -> None:
        with contextlib.suppress(Exception):  # whoever asks for the item is told
            self._make(i)

    def _refuse_unusable(self, i: int) -> None:
        if i in self._reasons:
            raise ItemError(self._keys[i], self._reasons[i])

    def _unusable(self, i: int, reason: str) -> ItemError:
        """The error about an item, which is skipped from now on."""
        with self._lock:
            if i not in self._reasons:
                self._reasons[i] = reason
                self.skipped.append((self._keys[i], reason))
        return ItemError(self._keys[i], reason)

    def _embedded(self, i: int) -> np.ndarray:
        assert self._embed is not None
        given = self._embeddable(i)
        try:
            vector = np.asarray(self._embed(given), np.float32)
        except Exception as error:
            said = shown(f"{type(error).__name__}: {error}", 200)
            raise self._unusable(i, f"the embedding failed with {said}") from error
        if vector.ndim != 1 or not len(vector):
            problem = f"the embedding has the shape {vector.shape}, but must be one row of numbers"
            raise self._unusable(i, problem)
        if not np.isfinite(vector).all():
            raise self._unusable(i, "the embedding has numbers that are not finite")
        with self._lock:
            self._width = self._width or len(vector)
        if len(vector) != self._width:
            problem = f"the embedding has {len(vector)} numbers, and those before {self._width}"
            raise self._unusable(i, problem)
        return vector


class Digits(Items):
    """The built-in handwritten digits, without their labels."""

    kind = "image"
    labels = tuple("0123456789")

    def __init__(self, embed: Embed | None = None) -> None:
        pillow()  # raises now if it is missing
        X = digits().X
        shades = 255 - np.rint(X[:, :64] / X[:, 64:] * 8 * (255 / 16))  # ink is dark, paper white
        self._images = shades.astype(np.uint8).reshape(-1, 8, 8)
        keys = [f"digit-{i}" for i in range(len(self._images))]
        super().__init__("digits", keys, [], embed)

    def __getitem__(self, i: int) -> Item:
        return Item(self._keys[i], "image", f"Digit {i + 1}")

    def picture(self, i: int, size: int = EDGE) -> tuple[bytes, str]:
        return enlarged(self._images[i], _size(size))

    def _plain_context(self, i: int) -> np.ndarray:
        vector = self._vectors.get(i)
        if vector is None:
            vector = features_of(grey_image(self._images[i]))
            self._vectors.put(i, vector, vector.nbytes)
        return vector

    def _embeddable(self, i: int) -> np.ndarray:
        return self._images[i]


class Photos(Items):
    """The images of a folder and its folders, in the order of their paths."""

    kind = "image"

    def __init__(self, folder: AnyPath, embed: Embed | None = None, cache: AnyPath | None = None):
        pillow()  # raises now if it is missing
        self._root = Path(os.path.realpath(folder))
        found = _Found(self._root)
        keys = sorted(found.paths)
        if not keys:
            reasons = Counter(reason for _, reason in found.skipped)
            most = f" ({reasons.most_common(1)[0][0]})" if reasons else ""
            raise ValueError(
                f"there is no image in {os.fspath(folder)}{most}; "
                f"images are files that end in {', '.join(ENDINGS)}"
            )
        self._paths = [found.paths[key] for key in keys]
        self._kept = Kept(None if cache is None else Path(cache))
        self._recent: Recent[Made] = Recent(_MOST_MEMORY)
        self._smaller: Recent[tuple[bytes, str]] = Recent(_MOST_MEMORY // 4)
        super().__init__(self._root.name, keys, found.skipped, embed)

    def __getitem__(self, i: int) -> Item:
        return Item(self._keys[i], "image", shown(self._keys[i], _LONGEST_TITLE))

    def picture(self, i: int, size: int = EDGE) -> tuple[bytes, str]:
        made, wanted = self._made(i), _size(size)
        if wanted == EDGE:
            return made.picture, made.media_type
        smaller = self._smaller.get((i, wanted))
        if smaller is None:
            smaller = encoded(decoded_bytes(made.picture), wanted)
            self._smaller.put((i, wanted), smaller, len(smaller[0]))
        return smaller

    def ready(self, i: int) -> bool:
        if i in self._reasons:
            return True
        return super().ready(i) and (i in self._recent or self._kept.has(self._paths[i]))

    def _plain_context(self, i: int) -> np.ndarray:
        vector = self._vectors.get(i)
        if vector is None:
            vector = self._made(i).vector()
            self._vectors.put(i, vector, vector.nbytes)
        return vector

    def _embeddable(self, i: int) -> str:
        self._made(i)  # a damaged image is refused before the user's function sees it
        return os.fspath(self._paths[i])

    def _make(self, i: int) -> None:
        self._made(i)
        self.context(i)

    def _made_in_order(self) -> int:
        return len(self) if self._embed is None else 0

    def _is_enough(self) -> bool:
        return self._kept.is_full

    def _made(self, i: int) -> Made:
        """The picture and the features of image i, from memory, from disk, or from the image."""
        self._refuse_unusable(i)
        made = self._recent.get(i)
        if made is None:
            path = self._paths[i]
            made = self._kept.load(path)
            if made is None:
                made = self._made_now(i, path)
                self._kept.save(path, made)
            self._recent.put(i, made, made.size)
        return made

    def _made_now(self, i: int, path: Path) -> Made:
        if not _is_inside(path, self._root):
            raise self._unusable(i, _LEADS_OUT)
        try:
            image = read_image(path)
        except ImageError as error:
            raise self._unusable(i, str(error)) from None
        return Made(*encoded(image), features_of(image).astype("<f4").tobytes())


_LEADS_OUT = "a link that leads out of the folder is not followed"


class _Found:
    """The images below a folder, by their keys; and what was skipped."""

    def __init__(self, root: Path) -> None:
        self.paths: dict[str, Path] = {}
        self.skipped: list[Skipped] = []
        self._root = root
        for folder, folders, files in os.walk(root, onerror=self._unreadable):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in folders:
                if os.path.islink(os.path.join(folder, name)):  # os.walk does not follow it
                    self._skip(Path(folder, name), "a link to a folder is not followed")
            for name in sorted(files):
                if not name.startswith("."):
                    self._add(Path(folder, name))

    def _unreadable(self, error: OSError) -> None:
        path = Path(error.filename or self._root)
        if path == self._root:
            raise error
        self._skip(path, f"the folder cannot be read ({error.strerror})")

    def _add(self, path: Path) -> None:
        reason, key = _why_not(path, self._root), self._key(path)
        if reason:
            self.skipped.append((key, reason))
        elif key in self.paths:
            self.skipped.append((key, "another file has the same name but for unreadable signs"))
        elif len(self.paths) == MOST_ITEMS:
            raise ValueError(f"there are more than {MOST_ITEMS:,} images; take a part of them")
        else:
            self.paths[key] = path

    def _skip(self, path: Path, reason: str) -> None:
        self.skipped.append((self._key(path), reason))

    def _key(self, path: Path) -> str:
        """The relative path, in signs that can be stored and sent."""
        relative = path.relative_to(self._root).as_posix()
        return os.fsencode(relative).decode(UTF8, "backslashreplace")


def _why_not(path: Path, root: Path) -> str:
    """Why a file is no item; "" if it may be one."""
    ending = path.suffix.lower()
    if ending in _NOT_READ:
        return f"{ending} images are not read; export them as JPEG or PNG"
    if ending not in ENDINGS:
        return "not an image by its ending"
    if path.is_symlink() and not _is_inside(path, root):
        return _LEADS_OUT
    try:
        status = path.stat()
    except OSError as error:
        return f"the file cannot be read ({error.strerror})"
    return "" if status.st_size else "the file is empty"


def _is_inside(path: Path, root: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(root)


def _size(size: int) -> int:
    """The size of a picture that is made for a wanted size: few sizes need little memory."""
    return next((known for known in _SIZES if known >= size), EDGE)


class _Keys:
    """Keys from contents. Equal contents are told apart by a count."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def key(self, content: str) -> str:
        digest = hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
        self._seen[digest] += 1
        return digest if self._seen[digest] == 1 else f"{digest}-{self._seen[digest]}"


class Texts(Items):
    """Texts: the lines of a file, or a column of a table beside the other columns."""

    kind = "text"

    def __init__(
        self,
        name: str,
        texts: list[str],
        fields: list[Mapping[str, Any]],
        skipped: list[Skipped],
        embed: Embed | None = None,
    ) -> None:
        self._texts, self._fields = texts, fields
        keys = _Keys()
        super().__init__(name, [keys.key(text) for text in texts], skipped, embed)

    def __getitem__(self, i: int) -> Item:
        text = self._texts[i]
        fields = self._fields[i] if self._fields else {}
        return Item(self._keys[i], "text", shown(text, _LONGEST_TITLE), text, fields)

    def _plain_context(self, i: int) -> str:
        return self._texts[i]


def _lines(path: str, embed: Embed | None, encoding: str) -> Texts:
    """The lines of a file that are not blank."""
    texts: list[str] = []
    skipped: list[Skipped] = []
    for first, block in text_blocks(path, encoding):
        for number, data in enumerate(block.removesuffix(b"\n").split(b"\n"), first):
            reason = _why_no_text(data)
            if reason:
                skipped.append((f"line {number}", reason))
                continue
            line = data.decode().removeprefix("\ufeff" if number == 1 else "").rstrip("\r")
            if line.strip():
                texts.append(line)
        _check_count(path, texts)
    if not texts:
        raise _nothing(path, "line", skipped)
    return Texts(Path(path).name, texts, [], skipped, embed)


def _why_no_text(data: bytes) -> str:
    if len(data) > 4 * LONGEST_TEXT:  # bytes of a character
        return _TOO_LONG
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"not text in UTF-8; name the encoding with {argument('encoding', 'cp1252')}"
    if len(text) > LONGEST_TEXT:
        return _TOO_LONG
    return "not text: it holds NUL characters" if "\0" in text else ""


_TOO_LONG = f"longer than {LONGEST_TEXT:,} characters"


def _check_count(path: str, found: Sequence[Any]) -> None:
    if len(found) > MOST_ITEMS:
        raise ValueError(f"{path} has more than {MOST_ITEMS:,} items; split it into several files")


def _nothing(path: str, thing: str, skipped: list[Skipped]) -> ValueError:
    if not skipped:
        return ValueError(f"{path}: the file is empty")
    place, reason = skipped[0]
    return ValueError(f"{path}: no {thing} can be used; {place}: {reason}")


class Rows(Items):
    """Rows of a table. The learner sees all columns but one that is called "label"."""

    kind = "row"

    def __init__(self, name: str, table: _Table, embed: Embed | None = None) -> None:
        self._table = table
        keys = _Keys()
        found = [keys.key(repr(row)) for row in table.rows]
        self._columns = [i for i, column in enumerate(table.names) if column != _LABEL]
        self._is_dense = all(table.are_numbers[i] for i in self._columns)
        self._text = table.wordiest()
        super().__init__(name, found, table.skipped, embed)

    def __getitem__(self, i: int) -> Item:
        fields, text = self._table.fields(i), ""
        if self._text is not None:
            text = str(fields[self._text])
        title = text or ", ".join(f"{name}: {value}" for name, value in fields.items())
        return Item(self._keys[i], "row", shown(title, _LONGEST_TITLE), text, fields)

    def _plain_context(self, i: int) -> Any:
        table, row = self._table, self._table.rows[i]
        if self._is_dense:
            return np.array([row[k] or 0.0 for k in self._columns], np.float32)
        # A missing number is left out, which is the same as 0.
        return {table.names[k]: row[k] for k in self._columns if row[k] is not None}


class _Table:
    """The rows of a csv, tsv or Parquet file: numbers as floats, None where one is missing, and
    all else as strings."""

    def __init__(self, path: str, encoding: str, delimiter: str | None) -> None:
        self.path = path
        self.rows: list[list[Any]] = []
        self.lines: list[int] = []  # the numbers of the rows' lines
        self.skipped: list[Skipped] = []
        self.names: list[str] = []
        self.are_numbers: list[bool] = []
        options = Options(path, encoding=encoding, delimiter=delimiter)
        options.format = format_of(path)
        if options.format == "parquet":
            self._read_parquet(path)
        else:
            self._read_delimited(options)
        if not self.rows:
            raise _nothing(path, "row", self.skipped)

    def fields(self, i: int) -> dict[str, Any]:
        """A row by the names of its columns."""
        return dict(zip(self.names, self.rows[i], strict=True))

    def wordiest(self) -> str | None:
        """The column that has the longest texts, if one has any: three words in half of its
        cells."""
        found: list[tuple[float, str]] = []
        for name, is_number, cells in zip(
            self.names, self.are_numbers, zip(*self.rows[:1000], strict=True), strict=True
        ):
            if not is_number and name != _LABEL:
                words = sorted(len(cell.split()) for cell in cells)
                if words[len(words) // 2] >= 3:
                    found.append((sum(words), name))
        return max(found)[1] if found else None

    def _read_parquet(self, path: str) -> None:
        columns, parts = parquet_parts(path)
        self._name(list(columns))
        self.are_numbers = list(columns.values())
        for first, part in parts:
            for line, values in enumerate(part.iter_rows(), first):
                row = [
                    _number(value) if is_number else "" if value is None else str(value)
                    for value, is_number in zip(values, self.are_numbers, strict=True)
                ]
                self._add(line, row)

    def _read_delimited(self, options: Options) -> None:
        cells = numbered_rows(options)
        for _, names in cells:  # the header, if there is any
            self._name(names)
            for line, row in cells:
                self._add(line, row)
        columns = zip(*self.rows, strict=True)
        self.are_numbers = [_holds_numbers(column) for column in columns]
        for row in self.rows:
            for k, is_number in enumerate(self.are_numbers):
                if is_number:
                    row[k] = None if is_missing_cell(row[k]) else float(row[k])

    def _name(self, names: list[str]) -> None:
        self.names = [name or f"column {k}" for k, name in enumerate(names, 1)]
        twice = [name for name, count in Counter(self.names).items() if count > 1]
        if twice:
            raise ValueError(
                f"{self.path}: column {twice[0]!r} appears twice; give it another name"
            )

    def _add(self, line: int, row: list[Any]) -> None:
        texts = [value for value in row if isinstance(value, str)]
        if any(len(text) > LONGEST_TEXT for text in texts):
            self.skipped.append((f"line {line}", _TOO_LONG))
        elif any("\0" in text for text in texts):
            self.skipped.append((f"line {line}", "not text: it holds NUL characters"))
        elif all(value is None or value == "" for value in row):
            self.skipped.append((f"line {line}", "the row is empty"))
        else:
            self.rows.append(row)
            self.lines.append(line)
            _check_count(self.path, self.rows)


def _number(value: Any) -> float | None:
    """A number of a Parquet file; None if it is missing, or too large to learn from."""
    number = math.nan if value is None else float(value)
    return number if abs(number) <= _LARGEST_NUMBER else None


def _holds_numbers(cells: Sequence[str]) -> bool:
    """Whether all cells of a column that are not missing are numbers, and there are any."""
    known = [cell for cell in cells if not is_missing_cell(cell)]
    return bool(known) and all(
        is_number_cell(cell) and abs(float(cell)) <= _LARGEST_NUMBER for cell in known
    )


def _rows(path: str, text: str | None, embed: Embed | None, table: _Table) -> Items:
    """The items of a table: the texts of a column, or whole rows."""
    name = Path(path).name
    if text is None and set(table.names) - {_LABEL} == {table.wordiest()}:
        text = table.wordiest()  # there is nothing else
    if text is None:
        return Rows(name, table, embed)
    if text not in table.names:
        has = ", ".join(table.names[:12]) + (", ..." if len(table.names) > 12 else "")
        remedy = f"name the right one with {argument('text')}"
        raise ValueError(f"{path}: there is no column {text!r}, but {has}; {remedy}")
    texts: list[str] = []
    fields: list[Mapping[str, Any]] = []
    skipped = table.skipped
    for i, line in enumerate(table.lines):
        columns = table.fields(i)
        found = columns.pop(text)
        if found is None or not str(found).strip():
            skipped.append((f"line {line}", f"there is no text in column {text!r}"))
        else:
            texts.append(str(found))
            fields.append(columns)
    if not texts:
        raise _nothing(path, "row", skipped)
    return Texts(name, texts, fields, skipped, embed)


def open_items(
    source: AnyPath | None = None,
    *,
    text: str | None = None,
    embed: str | Embed | None = None,
    cache: AnyPath | None = None,
    encoding: str = UTF8,
    delimiter: str | None = None,
) -> Items:
    """The items of a source.

    source: None for the built-in digits; a folder of images; a csv, tsv or Parquet file; any other
    file is a text, an item per line. text: the column of a table that is the text to learn from;
    without it, all columns are. embed: a function, or "module:function", that makes a vector of an
    image's path, a text, or a row. cache: the folder for small pictures and features; default: in
    onebit's cache. encoding, delimiter: of a file, as in `onebit.read`.
    """
    made = embed_named(embed) if isinstance(embed, str) else embed
    if source is not None and not os.path.exists(source):
        raise FileNotFoundError(f"there is no file or folder {os.fspath(source)}")
    is_table = source is not None and _is_table(source)
    if text is not None and not is_table:
        raise ValueError(f"{argument('text', text)} names a column, but there is no table")
    if source is None:
        return Digits(made)
    if os.path.isdir(source):
        return Photos(source, made, cache)
    path = os.fspath(source)
    if not os.path.isfile(path):
        raise ValueError(f"{path} is neither a file nor a folder")
    if is_table:
        return _rows(path, text, made, _Table(path, encoding, delimiter))
    ending = endings(path)[0]
    if ending in ENDINGS or ending in _NOT_READ:
        raise ValueError(f"{path} is a single image; name the folder of your images")
    if can_be_read(path):
        raise ValueError(
            f"{path}: files of the format {format_of(path)} have nothing to show to a person; "
            "name a folder of images, a text, or a csv or Parquet file"
        )
    return _lines(path, made, encoding)


def _is_table(source: AnyPath) -> bool:
    is_known = os.path.isfile(source) and can_be_read(source)
    return is_known and format_of(source) in ("csv", "tsv", "parquet")


def embed_named(name: str) -> Embed:
    """The user's function "module:function"; its module is imported, also from this folder."""
    module, colon, function = name.rpartition(":")
    if not colon or not module or not function:
        raise ValueError(f"{argument('embed')} names a function as module:function, not {name!r}")
    found = getattr(sys.modules[import_learners(module)], function, None)
    if not callable(found):
        raise ValueError(f"there is no function {function!r} in {module}")
    return found
