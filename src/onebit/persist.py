"""The model file: a zip of arrays and a JSON head, closed by a digest of every byte before it.

Written whole or not at all. A file that is damaged, cut, foreign or newer is refused with a
sentence. Nothing is unpickled. Members are stored uncompressed, so a small file cannot ask for
much memory; they can be read with any zip and numpy.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import secrets
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

FORMAT = 1
_HEAD = "onebit.json"
_DIGEST = 64  # hexadecimal digits of SHA-256, as the zip's closing comment


def write(path: str | os.PathLike[str], head: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write a model file."""
    write_bytes(path, pack(head, arrays))


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file atomically: a reader sees the old file or the new one, never a part."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder for {os.fspath(path)!r}")
    if target.exists() and not target.is_file():
        raise OSError(f"{os.fspath(path)!r} is not a file that could be replaced")
    name = target.parent / f".{target.name}.{secrets.token_hex(8)}"
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)  # less what umask takes
    try:
        with os.fdopen(handle, "wb") as file:
            if target.exists():
                os.chmod(name, target.stat().st_mode & 0o777)  # private stays private
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    with contextlib.suppress(OSError):  # some systems cannot sync a folder
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The head and the arrays of a model file."""
    try:
        return unpack(Path(path).read_bytes())
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from None


def pack(head: dict[str, Any], arrays: dict[str, Any]) -> bytes:
    """The bytes of a model file: the same learner gives the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_member(_HEAD), msgspec.json.encode({"onebit": FORMAT, **head}))
        for name, array in arrays.items():
            stored = io.BytesIO()
            little = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
            np.lib.format.write_array(stored, little, allow_pickle=False)
            archive.writestr(_member(f"{name}.npy"), stored.getvalue())
        archive.comment = b"0" * _DIGEST
    body = buffer.getvalue()[:-_DIGEST]
    return body + hashlib.sha256(body).hexdigest().encode()


def _member(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The reverse of `pack`; a ValueError says what is wrong with the bytes."""
    if not data.startswith(b"PK\x03\x04") or _HEAD.encode() not in data[:64]:
        raise ValueError("not a onebit model file")
    body, digest = data[:-_DIGEST], data[-_DIGEST:]
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise ValueError("the model file is damaged or cut short: its digest does not fit")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if any(info.compress_type != zipfile.ZIP_STORED for info in archive.infolist()):
                raise ValueError("the model file is damaged: its members are compressed")
            head = msgspec.json.decode(archive.read(_HEAD), type=dict[str, Any])
            if not isinstance(head.get("onebit"), int):
                raise ValueError("not a onebit model file")
            if head["onebit"] > FORMAT:
                raise ValueError(
                    f"written in format {head['onebit']} by a newer onebit "
                    f"({head.get('version', 'unknown')}); this one reads up to {FORMAT}: upgrade it"
                )
            arrays = {
                name.removesuffix(".npy"): _array(archive.read(name))
                for name in archive.namelist()
                if name != _HEAD
            }
    except (zipfile.BadZipFile, msgspec.MsgspecError, KeyError, EOFError) as error:
        raise ValueError(f"the model file is damaged: {error}") from None
    return head, arrays


def _array(data: bytes) -> np.ndarray:
    try:
        array = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    except MemoryError:
        raise ValueError("the model file is damaged: an array is larger than the file") from None
    return array.astype(array.dtype.newbyteorder("="), copy=False)
