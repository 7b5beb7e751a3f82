"""npz files, compressed or not, read in blocks of rows.

numpy reads a member of an npz file completely. But a member is a file with a head and then the
rows, and zipfile can read it from front to back, decompress it and check its sum.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from onebit.datasets.blocks import Block, bad
from onebit.datasets.tables import check_names, check_places, check_shapes

_HEADS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError)


def npz_blocks(path: str, rows: int) -> Iterator[Block]:
    """The rows of a file, in blocks of `rows`. An unusable file is refused at once."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
            check_names(path, names)
            shape = _Member(archive, "X").shape if "X" in names else _all_of(archive, "shape")
            check_shapes(path, tuple(shape), _Member(archive, "y").shape if "y" in names else None)
    except _DAMAGE:
        raise ValueError(f"{path}: not an npz file of plain arrays") from None
    return _blocks(path, names, rows)


def _blocks(path: str, names: list[str], rows: int) -> Iterator[Block]:
    start = 0
    try:
        with zipfile.ZipFile(path) as archive:
            X = _Dense(archive, "X") if "X" in names else _Sparse(archive)
            y: Any = _Member(archive, "y")
            total, is_matrix, has_classes = y.shape[0], len(y.shape) == 2, "classes" in names
            placed = has_classes and y.dtype.kind in "iu" and not is_matrix
            classes = _all_of(archive, "classes") if has_classes else np.empty(0)
            columns = classes.tolist() if is_matrix and has_classes else None
            if is_matrix:
                y = _Dense(archive, "y")
            while start < total:
                size = min(rows, total - start)
                labels = y.take(size)
                if placed:
                    check_places(path, labels, len(classes), start)
                    labels = classes[labels]
                lines = np.arange(start, start + size) + 1
                yield Block(X.take(size), labels, lines, classes=columns)
                start += size
    except _DAMAGE:
        remedy = "fetch or make the file again"
        raise bad(path, start + 1, "the data are damaged here or after it", remedy) from None


class _Member:
    """An array in an npz file, taken from front to back."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self._file: Any = archive.open(f"{name}.npy")
        try:
            head = _HEADS[np.lib.format.read_magic(self._file)](self._file)
        except (ValueError, KeyError):
            raise zipfile.BadZipFile from None
        self.shape, self.by_columns, self.dtype = head
        if self.dtype.hasobject:
            raise zipfile.BadZipFile

    def take(self, rows: int) -> np.ndarray:
        """The next rows."""
        taken = np.empty((rows, *self.shape[1:]), self.dtype)
        if taken.nbytes and self._file.readinto(taken.reshape(-1).view(np.uint8)) < taken.nbytes:
            raise EOFError
        return taken


def _all_of(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    member = _Member(archive, name)
    return member.take(member.shape[0]) if member.shape else np.empty(0)


class _Dense:
    """Rows of an array, flattened."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self._rows = _Member(archive, name)
        self._whole: np.ndarray | None = None
        if self._rows.by_columns and len(self._rows.shape) > 1:
            # Stored by columns, so all rows have to be read at once.
            flat = self._rows.take(self._rows.shape[0]).ravel()
            self._whole = flat.reshape(self._rows.shape, order="F")

    def take(self, rows: int) -> np.ndarray:
        if self._whole is not None:
            taken, self._whole = self._whole[:rows], self._whole[rows:]
        else:
            taken = self._rows.take(rows)
        return taken.reshape(rows, -1)


class _Sparse:
    """Rows of a CSR matrix."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._data, self._indices, self._indptr = (
            _Member(archive, name) for name in ("data", "indices", "indptr")
        )
        self._width = int(_all_of(archive, "shape")[1])
        self._end = int(self._indptr.take(1)[0])

    def take(self, rows: int) -> Any:
        ends = self._indptr.take(rows).astype(np.int64)
        indptr = np.concatenate([[self._end], ends]) - self._end
        if (np.diff(indptr) < 0).any():
            raise EOFError
        self._end = int(ends[-1])
        values = self._data.take(int(indptr[-1])).astype(np.float32)
        indices = self._indices.take(int(indptr[-1]))
        return sparse.csr_matrix((values, indices, indptr), shape=(rows, self._width))
