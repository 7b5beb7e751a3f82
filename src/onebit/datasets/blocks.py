"""Shared by all readers: options, blocks of rows, text in whole lines, and error messages."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np

from onebit.core.settings import argument, choice_of, whole
from onebit.datasets.matrices import Mixed, csr, mixed
from onebit.reading.texts import NGRAMS

_BLOCK = 2**22  # bytes read at a time
_LONGEST_LINE = 2**26  # bytes; a longer line is an error
UTF8 = "utf-8"

_OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}

AnyPath = str | os.PathLike[str]


class ReadOptions(TypedDict, total=False):
    """The options of `read` and `stream`, which explains them."""

    label: str
    text: str | None
    ngrams: int
    categories: Sequence[str]
    drop: Sequence[str]
    missing_label: str
    several: str | None
    features: int | None
    zero_based: bool
    delimiter: str | None
    encoding: str
    format: str | None
    dtype: Any


class Options:
    """The checked options of a reader, with defaults."""

    def __init__(self, path: AnyPath, **options: Unpack[ReadOptions]) -> None:
        unknown = set(options) - set(ReadOptions.__annotations__)
        if unknown:
            raise TypeError(f"unknown options of a file: {', '.join(sorted(unknown))}")
        self.path, self.are_names_checked = os.fspath(path), False
        self.unlabelled = 0  # rows that were left out
        # For logs: columns that come beside the rows, by the argument that names them; and rows of
        # tables with names or texts as dicts, for functions of the user.
        self.beside: dict[str, str] = {}
        self.as_dicts = False
        self.label = options.get("label", "label")
        self.text = options.get("text")
        self.ngrams = whole(_typed("ngrams"), options.get("ngrams", NGRAMS), least=1, most=10)
        self.zero_based = bool(options.get("zero_based"))
        self.format = options.get("format") or ""  # `readers` finds it if it is not given
        self.encoding = encoding_named(options.get("encoding", UTF8))
        name = None if "dtype" not in options else np.dtype(options["dtype"]).name
        if name is not None:
            choice_of("dtype", name, ("float32", "float64"))
        self.dtype, self.array_dtype = np.dtype(name or "float32"), np.dtype(name or "float64")
        self.categories = _columns("categories", options.get("categories", ()))
        self.drop = _columns("drop", options.get("drop", ()))
        missing = options.get("missing_label", "refuse")
        self.skips = choice_of(_typed("missing_label"), missing, ("refuse", "skip")) == "skip"
        self.several = options.get("several")
        if self.several is not None and (not self.several or self.several.isspace()):
            wanted = f"{_typed('several')} must be the sign between labels, such as ',' or '|'"
            raise ValueError(f"{wanted}, not {self.several!r}")
        features = options.get("features")
        if features is not None:
            features = whole(_typed("features"), features, least=1, most=2**31 - 1)
        self.features = features
        self.delimiter = sign = options.get("delimiter")
        if sign is not None and (len(sign) != 1 or sign in '"\r\n'):
            wanted = f"{_typed('delimiter')} must be one character that is no quote"
            raise ValueError(f"{wanted}, not {sign!r}")


def _columns(name: str, columns: Sequence[str]) -> tuple[str, ...]:
    if isinstance(columns, str):
        raise TypeError(f"{name} must be a list of columns: [{columns!r}]")
    return tuple(columns)


def _typed(name: str) -> str:
    """The name of an option as the user typed it, for the beginning of a message."""
    return argument(name).removesuffix("=")


def encoding_named(name: str) -> str:
    """Python's name of an encoding."""
    try:
        "".encode(name)
        return codecs.lookup(name).name
    except LookupError:
        raise ValueError(
            f"unknown encoding {name!r}; use utf-8, cp1252, latin-1, utf-16 or another"
        ) from None


class Block(NamedTuple):
    """Consecutive rows of a file, their labels as written (or a matrix of which labels are right),
    and the line number of each row."""

    X: Any  # CSR, or an array
    y: np.ndarray
    lines: np.ndarray
    columns: list[str] | None = None  # their names, of a table of numbers
    classes: list[Any] | None = None  # names of the columns of a matrix y
    beside: dict[str, Sequence[str]] | None = None  # `Options.beside`, as text


def bad(path: str, line: int, problem: str, remedy: str) -> ValueError:
    """The error for a file that cannot be read."""
    return ValueError(f"{path}, line {line}: {problem}; {remedy}")


def has_label(options: Options, line: int, label: str, remedy: str = "give it one") -> bool:
    """Whether the row is to be taken. A row without a label is refused, or left out and counted."""
    if label.strip() or options.several:
        return True
    if not options.skips:
        skip = argument("missing_label", "skip")
        problem = "the row has no label"
        raise bad(options.path, line, problem, f"{remedy}, or leave out such rows with {skip}")
    options.unlabelled += 1
    return False


def number_of(text: str) -> float:
    """The number in a field of a file; a ValueError if it is no number.

    float() alone also takes digits with "_" between them, as in the name 2020_01, and digits of
    other scripts. Parquet and dicts have these as strings, so they are no numbers here either.
    """
    if "_" in text or not text.strip().isascii():
        raise ValueError(f"{text!r} is not a number")
    return float(text)


def is_number_text(text: str) -> bool:
    try:
        number_of(text)
        return True
    except ValueError:
        return False


def endings(path: AnyPath) -> tuple[str, str]:
    """The ending for the format, and the ending for the compression, if any."""
    name = Path(path)
    packed = name.suffix.lower() if name.suffix.lower() in _OPENERS else ""
    return (Path(name.stem) if packed else name).suffix.lower(), packed


def stem(path: AnyPath) -> str:
    """The name of a file without its endings."""
    name = Path(path).name
    return name[: len(name) - len("".join(endings(path)))]


def text_blocks(path: str, encoding: str = UTF8) -> Iterator[tuple[int, bytes]]:
    """The file in blocks of whole lines in UTF-8, each with the number of its first line."""
    line, unfinished = 1, b""
    packed = endings(path)[1]
    recode: Callable[[bytes, int, bool], bytes] | None = None
    with _OPENERS.get(packed, open)(path, "rb") as file:
        while data := _read(file, path, line, packed):
            if recode is None:
                data, encoding = _marked(path, data, encoding)
                recode = _recoder(path, encoding)
            text = unfinished + recode(data, line, False)
            lines, newline, unfinished = text.rpartition(b"\n")
            if newline:
                yield line, lines + newline
                line += lines.count(b"\n") + 1
            elif len(unfinished) > _LONGEST_LINE:
                raise bad(path, line, f"longer than {_LONGEST_LINE} bytes", "is this a text file?")
    if recode is not None:
        unfinished += recode(b"", line, True)
    if unfinished:
        yield line, unfinished + b"\n"


_MARKS = {
    codecs.BOM_UTF8: UTF8,
    codecs.BOM_UTF32_LE: "utf-32-le",  # begins like the next one
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


def _marked(path: str, data: bytes, encoding: str) -> tuple[bytes, str]:
    """The beginning of a file without its byte order mark, and the encoding that the mark tells.

    No text in UTF-8 begins with the mark of another encoding. UTF-16 without a mark is refused with
    its name: its bytes may be valid UTF-8.
    """
    for mark, marked in _MARKS.items():
        if data.startswith(mark) and encoding in (UTF8, marked):
            return data.removeprefix(mark), marked
    if encoding == UTF8:
        half = max(len(data[:4096]) // 2, 1)
        zeros = [data[place : 2 * half : 2].count(0) / half for place in (0, 1)]
        if max(zeros) > 0.3 and min(zeros) < 0.03:
            meant = argument("encoding", "utf-16-be" if zeros[0] > zeros[1] else "utf-16-le")
            problem = "every other byte is 0, as in text in UTF-16"
            raise bad(path, 1, problem, f"pass {meant}, or convert it")
    return data, encoding


def _recoder(path: str, encoding: str) -> Callable[[bytes, int, bool], bytes]:
    """A function (data, line, final) that converts consecutive pieces of a file to UTF-8."""
    if encoding == UTF8:
        return lambda data, line, final: data
    decoder = codecs.getincrementaldecoder(encoding)()

    def recode(data: bytes, line: int, final: bool) -> bytes:
        try:
            return decoder.decode(data, final).encode()
        except UnicodeError as error:
            good = getattr(error, "object", b"")[: getattr(error, "start", 0)]
            line += good.decode(encoding, "ignore").count("\n")
            raise _not_text(path, line, encoding) from None

    return recode


def _not_text(path: str, line: int, encoding: str) -> ValueError:
    name = "UTF-8" if encoding == UTF8 else encoding
    remedy = f"name the encoding of the file with {argument('encoding', 'cp1252')} or the like"
    return bad(path, line, f"not text in {name}", f"{remedy}, or convert it")


def _read(file: Any, path: str, line: int, packed: str) -> bytes:
    if not packed:
        return file.read(_BLOCK)
    try:
        return file.read(_BLOCK)
    except EOFError:
        problem = f"the {packed} data are cut short somewhere after this line"
    except (OSError, zlib.error) as error:
        problem = f"the {packed} data are damaged here or after it ({error})"
    raise bad(path, line, problem, "fetch or make the file again")


def text_lines(path: str, encoding: str = UTF8) -> Iterator[str]:
    """The lines of a file, with their ends."""
    for first, block in text_blocks(path, encoding):
        for number, line in enumerate(io.BytesIO(block), first):
            try:
                text = line.decode()
            except UnicodeDecodeError:
                raise _not_text(path, number, UTF8) from None
            yield text


def cast(
    values: np.ndarray, dtype: np.dtype, options: Options, line_of: Callable[[int], int]
) -> np.ndarray:
    """Values in the wanted dtype. line_of: the line of a value by its place, for an error."""
    with np.errstate(over="ignore"):
        made = values.astype(dtype)
    endless = np.flatnonzero(np.isinf(made))
    if len(endless):
        place = int(endless[0])
        problem = f"{abs(values[place]):g} is too large for {dtype}"
        raise bad(options.path, line_of(place), problem, "mend it, or scale the values")
    return made


def joined(blocks: list[Block]) -> Block:
    """Concatenated blocks, as wide as the widest."""
    if len(blocks) == 1:
        return blocks[0]
    y = np.concatenate([block.y for block in blocks])
    lines = np.concatenate([block.lines for block in blocks])
    return blocks[0]._replace(X=_joined([block.X for block in blocks]), y=y, lines=lines)


def _joined(parts: list[Any]) -> Any:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    starts = np.cumsum([0, *(len(X.data) for X in parts)])
    ends = [X.indptr[1:] + start for X, start in zip(parts, starts, strict=False)]
    made = csr(
        np.concatenate([X.data for X in parts]),
        np.concatenate([X.indices for X in parts]),
        np.concatenate([np.zeros(1, np.int64), *ends]),
        max(X.shape[1] for X in parts),
    )
    are_mixed = isinstance(parts[0], Mixed)
    return mixed(made, _joined([X.numbers for X in parts])) if are_mixed else made


def _part(block: Block, start: int, stop: int) -> Block:
    y, lines = block.y[start:stop], block.lines[start:stop]
    return block._replace(X=_slice(block.X, start, stop), y=y, lines=lines)


def _slice(X: Any, start: int, stop: int) -> Any:
    if isinstance(X, np.ndarray):
        return X[start:stop]
    first, last = X.indptr[start], X.indptr[stop]
    indptr = X.indptr[start : stop + 1] - first
    made = csr(X.data[first:last], X.indices[first:last], indptr, X.shape[1])
    return mixed(made, _slice(X.numbers, start, stop)) if isinstance(X, Mixed) else made


def in_chunks(blocks: Iterable[Block], rows: int) -> Iterator[Block]:
    """The same rows, in blocks of `rows`."""
    waiting: list[Block] = []
    missing = rows
    for block in blocks:
        start, size = 0, len(block.y)
        while size - start >= missing:
            chunk = joined([*waiting, _part(block, start, start + missing)])
            start, waiting, missing = start + missing, [], rows
            yield chunk
        if start < size:
            waiting.append(_part(block, start, size))
            missing -= size - start
    if waiting:
        yield joined(waiting)
