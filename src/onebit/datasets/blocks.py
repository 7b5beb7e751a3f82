"""What all readers share: blocks of rows, text in whole lines, and errors that name the place."""

from __future__ import annotations

import bz2
import codecs
import gzip
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from onebit.settings import argument

_BLOCK = 2**22  # bytes read at once: large enough to be quick, small enough not to be noticed
_LONGEST_LINE = 2**26  # beyond it a file is no text of rows
UTF8 = "utf-8"

_OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}


class Options(NamedTuple):
    """What a reader is told about a file."""

    path: str
    label: str  # the column of labels
    text: str | None  # the column of free text
    ngrams: int
    categories: tuple[str, ...]  # columns of names, even if they look like numbers
    features: int | None
    zero_based: bool
    dtype: np.dtype
    delimiter: str | None = None  # between the fields of a csv file; None: that of the format
    encoding: str = UTF8


class Block(NamedTuple):
    """Some rows of a file: labels as they stand there, and the line each row stands in."""

    X: Any  # CSR
    y: np.ndarray
    lines: np.ndarray


def bad(path: str, line: int, what: str, remedy: str) -> ValueError:
    """The error for a file that cannot be read."""
    return ValueError(f"{path}, line {line}: {what}; {remedy}")


def endings(path: str | os.PathLike[str]) -> tuple[str, str]:
    """The ending that tells the format, and that of the compression, if any."""
    name = Path(path)
    packed = name.suffix.lower() if name.suffix.lower() in _OPENERS else ""
    return (Path(name.stem) if packed else name).suffix.lower(), packed


def text_blocks(path: str, encoding: str = UTF8) -> Iterator[tuple[int, bytes]]:
    """The file in blocks of whole lines in UTF-8, each with the number of its first line."""
    line, rest = 1, b""
    packed = endings(path)[1]
    recode = _recoder(path, encoding)
    with _OPENERS.get(packed, open)(path, "rb") as file:
        while more := _read(file, path, line, packed):
            whole, newline, rest = (rest + recode(more, line, False)).rpartition(b"\n")
            if newline:
                yield line, whole + newline
                line += whole.count(b"\n") + 1
            elif len(rest) > _LONGEST_LINE:
                raise bad(path, line, f"longer than {_LONGEST_LINE} bytes", "is this a text file?")
    rest += recode(b"", line, True)
    if rest:
        yield line, rest + b"\n"


def _recoder(path: str, encoding: str) -> Callable[[bytes, int, bool], bytes]:
    """A function that turns pieces of a file, each after so many lines, into UTF-8."""
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
        what = f"the {packed} data are cut short somewhere after this line"
    except (OSError, zlib.error) as error:
        what = f"the {packed} data are damaged here or after it ({error})"
    raise bad(path, line, what, "fetch or make the file again")


def text_lines(path: str, encoding: str = UTF8) -> Iterator[str]:
    """The lines of a file, with their ends."""
    for first, block in text_blocks(path, encoding):
        start = 0
        for number in range(first, first + block.count(b"\n")):
            stop = block.index(b"\n", start) + 1
            try:
                line = block[start:stop].decode()
            except UnicodeDecodeError:
                raise _not_text(path, number, UTF8) from None
            yield line.removeprefix("\ufeff") if number == 1 else line
            start = stop


def csr(values: Any, indices: Any, indptr: Any, width: int) -> Any:
    """A matrix of these arrays as they are; scipy's constructor would look at every number."""
    made: Any = sparse.csr_matrix((len(indptr) - 1, width), dtype=values.dtype)
    made.data, made.indices, made.indptr = values, indices, indptr
    made.has_sorted_indices = made.has_canonical_format = True
    return made


def joined(blocks: list[Block]) -> Block:
    """Several blocks as one, as wide as the widest."""
    if len(blocks) == 1:
        return blocks[0]
    starts = np.cumsum([0, *(len(block.X.data) for block in blocks)])
    ends = [block.X.indptr[1:] + start for block, start in zip(blocks, starts, strict=False)]
    X = csr(
        np.concatenate([block.X.data for block in blocks]),
        np.concatenate([block.X.indices for block in blocks]),
        np.concatenate([np.zeros(1, np.int64), *ends]),
        max(block.X.shape[1] for block in blocks),
    )
    y = np.concatenate([block.y for block in blocks])
    return Block(X, y, np.concatenate([block.lines for block in blocks]))


def _part(block: Block, start: int, stop: int) -> Block:
    first, last = block.X.indptr[start], block.X.indptr[stop]
    indptr = block.X.indptr[start : stop + 1] - first
    X = csr(block.X.data[first:last], block.X.indices[first:last], indptr, block.X.shape[1])
    return Block(X, block.y[start:stop], block.lines[start:stop])


def in_chunks(blocks: Iterable[Block], rows: int) -> Iterator[Block]:
    """The same rows, so many at a time."""
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
