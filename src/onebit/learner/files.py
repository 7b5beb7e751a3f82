"""Saving and loading: the saved parts of a learner, and the model file.

A learner is saved as a head of plain values and a few arrays (`dump`, `restore`). The model file is
a zip of the arrays and the head in JSON. It ends with a digest of every byte before it, and is
written atomically. A file that is damaged, cut, foreign or newer is refused with a sentence.
Nothing is unpickled. Members are stored uncompressed, so a small file cannot ask for much memory;
any zip program and numpy can read them.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import math
import os
import re
import secrets
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec
import numpy as np

from onebit._version import __version__
from onebit.core.settings import shown, whole
from onebit.learner.answered import Answers, OtherAnswers
from onebit.learner.decision import MOST_ROUNDS, check_salt, salted
from onebit.learner.declared import Declared
from onebit.learner.labels import Kept
from onebit.learner.laying import lay_out, read_columns, use
from onebit.learner.table import NO_MAP, Table
from onebit.reading.frames import composed_names
from onebit.reading.rows import COLUMNS, GROWTH_LIMIT, NAMES
from onebit.storage.base import row_blocks
from onebit.storage.scales import (
    INPUT_PLACES,
    INPUT_SCALES,
    SAVED_SCALES,
    SPREAD,
    STATISTICS,
    TIMES,
    saved_scales,
    with_extremes,
)

if TYPE_CHECKING:
    from onebit.learner.learner import Learner

FORMAT = 1
_UNFIT = "this model's weights do not fit its settings"
_HEAD = "onebit.json"
_DIGEST = 64  # hexadecimal digits of SHA-256, as the zip's closing comment
_PIECE = 2**20  # bytes read or written at a time
_ARRAY_HEADER_SIZE = 128  # bytes, of .npy files
_ARRAY_HEADER = re.compile(  # of .npy files, as numpy writes it for arrays of numbers
    rb"\x93NUMPY\x01\x00(?P<length>..)\{'descr': '(?P<dtype>[<|][biuf]\d+)', "
    rb"'fortran_order': False, 'shape': \((?P<shape>[\d, ]*)\), \} *\n",
    re.DOTALL,
)


# The saved parts of a learner.


def dump(learner: Learner) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The head and the arrays of a learner."""
    with learner.lock:
        learner.table.storage.catch_up(learner.table.state.held)
        head, table = _head(learner), learner.table
        salts, others = learner.other_answers.saved()
        if salts:
            head["salts"] = salts
        if learner.salt:
            head["salt"] = learner.salt
        own = learner.answers.saved(learner.round)
        return head, _learned(table) | own | _scales(table) | others


def _head(learner: Learner) -> dict[str, Any]:
    """The settings of a learner, and what it knows of its contexts."""
    labels, reader = learner.label_set, learner.reader
    head = {
        "version": __version__,
        "algorithm": type(learner).__name__,
        "settings": learner.settings,
        "labels": len(labels) if labels.counted else learner.labels,
        "features": learner.features,
        "dtype": learner.dtype,
        "seed": learner.seed,
        "round": learner.round,
    }
    if reader.columns and not learner.features:
        head["columns"] = reader.columns
    if reader.names:
        head["names"] = list(reader.names)
    if reader.taught_with:
        head["taught_with"] = reader.taught_with
    return head


def _learned(table: Table) -> dict[str, np.ndarray]:
    """What a learner has learned."""
    arrays = {"table": table.weights(), "memory": table.state.memory.copy()}
    features = table.known()
    if len(features) and features[-1] >= len(features):  # some are missing
        arrays["features"] = features
    return arrays | table.arrays()


def _scales(table: Table) -> dict[str, np.ndarray]:
    if table.scales is None:
        return {}
    table.make_room_to_scale(0)
    return saved_scales(table.scales, table.order())


def restore(
    head: dict[str, Any],
    arrays: dict[str, np.ndarray],
    given: Mapping[str, Any] | None = None,
    kind: Any = None,
    is_foreign: bool = False,
) -> Learner:
    """The reverse of `dump`; a ValueError says what is wrong.

    given: settings that cannot be saved, such as functions. kind: the learner's class; default: the
    class of the saved name. is_foreign: the numbers come from a file, so they are checked too.
    """
    arrays = dict(arrays)
    try:
        table, memory = arrays.pop("table"), arrays.pop("memory")
        features = arrays.pop("features", None)
        scales = {name: arrays.pop(name) for name in SAVED_SCALES if name in arrays}
        if INPUT_SCALES in scales:
            scales[INPUT_SCALES] = with_extremes(scales[INPUT_SCALES])
        fixed = head["features"] or 0  # refused before memory is asked for them
        fixed += bool(fixed) and scales.keys() == {INPUT_SCALES}  # a constant beside the columns
        if fixed and fixed != len(table) and (features is None or fixed > len(table)):
            raise ValueError(_UNFIT)
        learner = _learner_of(head, arrays, given or {}, kind)
        if memory.ndim == 1 and len(memory) in learner.earlier_memories:
            initial = learner.table.state.memory
            memory = np.append(memory, initial[len(memory) :].astype(memory.dtype))
    except KeyError as error:
        raise ValueError(f"there is no {error} in this model") from None
    except TypeError as error:
        raise ValueError(f"this model does not fit its algorithm: {error}") from None
    labels = len(learner.label_set)
    if not _are_scales(learner, scales, table):
        raise ValueError(_UNFIT)
    if scales.keys() == {INPUT_SCALES} and learner.inputs == "auto":
        read_columns(learner, len(table) - 1)
    storage = learner.table.storage
    if not (
        table.ndim == 3
        and table.shape[1:] == (learner.planes, labels)
        and table.dtype == learner.table.dtype
        and memory.shape == learner.table.state.memory.shape
        and memory.dtype == np.float64
        and (features is None or _are_features(learner, features, len(table)))
        and storage.fits(arrays, len(table), labels)
    ):
        raise ValueError(_UNFIT)
    check_finite({"table": table, "memory": memory, **arrays}, storage.with_gaps)
    if is_foreign:
        with np.errstate(all="ignore"):
            sound = learner._is_sound(table, memory) and storage.is_sound(table, arrays)
            if not sound:
                raise ValueError(
                    f"this model holds numbers that {type(learner).__name__} cannot have learned: "
                    "the file was made or changed by something else"
                )
            table, memory, arrays = learner._mended(table, memory, arrays)
    if features is None and len(table) and learner.table.maps(0, len(table)):
        features = np.arange(len(table))
    known = NO_MAP if features is None else learner.table.map_of(features)
    kept = learner.table.scales
    lay_out(learner, storage, kept, memory, arrays, known, len(table), table)
    if scales:
        lines = learner.table.scales.lines
        places = scales.get(INPUT_PLACES, np.arange(len(lines) - 1))
        lines[0], lines[1:][places] = scales[INPUT_SCALES][0], scales[INPUT_SCALES][1:]
    return learner


def taken_over(
    head: dict[str, Any], arrays: dict[str, np.ndarray], is_foreign: bool = False
) -> Learner:
    """`restore` for services: of an earlier version, too, as far as its learner can go on.

    A service builds a learner of this version beside it. From compacted rounds it cannot.
    """
    kind = Declared.registry.get(head["algorithm"])
    arrays = kind._from_earlier(arrays) if kind is not None else arrays
    return restore(head, arrays, is_foreign=is_foreign)


def _are_scales(learner: Learner, scales: dict[str, np.ndarray], table: np.ndarray) -> bool:
    """Whether a learner with this table can have learned these scales of its inputs."""
    if learner.table.scales is None or INPUT_SCALES not in scales:
        return not scales and learner.table.scales is None
    lines, places = scales[INPUT_SCALES], scales.get(INPUT_PLACES)
    if (
        lines.dtype != np.float64
        or lines.ndim != 2
        or lines.shape[1] != STATISTICS
        or not len(lines)
    ):
        return False
    if not (np.isfinite(lines).all() and (lines[:, [TIMES, SPREAD]] >= 0).all()):
        return False
    if places is None:
        fits = len(table) == len(lines) == learner.reader.columns + 1
        return fits and learner.inputs != "sparse"
    return bool(
        learner.inputs != "dense"
        and places.dtype == np.uint32
        and places.shape == (len(lines) - 1,)
        and (places[1:] > places[:-1]).all()
        and (places < len(table)).all()
    )


def _are_features(learner: Learner, features: np.ndarray, size: int) -> bool:
    """Whether a table of `size` rows can consist of these features."""
    return bool(
        features.dtype == np.uint32
        and features.shape == (size,)
        and (features[1:] > features[:-1]).all()
        and learner.table.may_have(features)
    )


def _learner_of(
    head: dict[str, Any], arrays: dict[str, np.ndarray], given: Mapping[str, Any], kind: Any
) -> Learner:
    """A learner in its initial state, with the settings of the head.

    The arrays of answered rounds are removed from `arrays`.
    """
    name = head["algorithm"]
    kind = kind or Declared.registry.get(name)
    if kind is None:
        raise ValueError(
            f"this onebit has no algorithm {name!r}; if it is your own, import its module first"
        )
    if kind.__name__ != name:
        raise ValueError(f"it is a {name}, not a {kind.__name__}")
    round = whole("round", head["round"], least=0, most=MOST_ROUNDS)
    answers = Answers.restored(arrays.pop("answered", None), round)  # older files have none
    other_answers = OtherAnswers.restored(head.get("salts"), arrays, round)
    settings = {**kind.added_settings, **head["settings"]}
    settings |= kind._settings_beside(head, arrays, given)
    common = {name: head[name] for name in ("features", "dtype", "seed")}
    labels = head["labels"] if isinstance(head["labels"], int) else Kept(head["labels"])
    learner = kind(labels, **settings, **common)
    learner.round, learner.answers, learner.other_answers = round, answers, other_answers
    if learner.features is None and "columns" in head:  # older files have none
        learner.reader.columns = whole("columns", head["columns"], least=1, most=GROWTH_LIMIT)
    names = _names(head.get("names", []), head.get("columns"), learner.features)
    learner.reader.names = names
    learner.reader.taught_with = head.get("taught_with", "")  # older files have none
    if learner.reader.taught_with not in ("", NAMES, COLUMNS):
        raise ValueError("it was taught with contexts of no known kind")
    learner.fading.has_faded(max(round - 1, 0))
    storage = learner.table.storage.for_saved(arrays)
    if storage is not learner.table.storage:
        use(learner, storage)
    learner.salt = check_salt(head.get("salt", ""))
    learner.draw_seed = salted(learner.seed, learner.salt)
    return learner


def _names(names: Any, columns: int | None, features: int | None) -> tuple[str, ...]:
    """The names of the columns, as the head has them. columns: of dense rows, if not fixed."""
    if names and not (
        isinstance(names, list)
        and all(isinstance(name, str) for name in names)
        and len(set(names)) == len(names)
        and columns in (None, len(names))
        and len(names) <= (features or len(names))
    ):
        raise ValueError("the names of the columns do not fit this model")
    return composed_names(names)  # older files have them as they came


def check_finite(arrays: Mapping[str, np.ndarray], with_gaps: Sequence[str]) -> None:
    """Refuse weights that are not all numbers. with_gaps: arrays that may have NaN."""
    for name, array in arrays.items():
        flat = array.reshape(-1)
        is_wrong = np.isinf if name in with_gaps else lambda part: ~np.isfinite(part)
        if any(is_wrong(flat[part]).any() for part in row_blocks(flat)):
            raise ValueError("this model's weights are not all finite")


# The model file. Arrays go from memory to the file and back in pieces: a table may be large.


def write(
    path: str | os.PathLike[str], head: dict[str, Any], arrays: dict[str, Any], mode: int = 0o666
) -> None:
    """Write a model file. mode: of a new file; the umask takes from it."""
    with _replacing(path, mode) as file:
        _write(file, head, arrays)


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file atomically: a reader sees the old file or the new one, never a part."""
    with _replacing(path) as file:
        file.write(data)


@contextlib.contextmanager
def _replacing(path: str | os.PathLike[str], mode: int = 0o666) -> Iterator[IO[bytes]]:
    """A new file that takes the place of `path` when it is complete and on disk."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder of {os.fspath(path)!r} does not exist")
    if target.exists() and not target.is_file():
        raise OSError(f"{os.fspath(path)!r} is not a regular file and cannot be replaced")
    name = target.parent / f".{target.name}.{secrets.token_hex(8)}"
    handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "w+b") as file:
            if target.exists():
                os.chmod(name, target.stat().st_mode & 0o777)  # keep its permissions
            yield file
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
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"a model file is given by its path, not by {shown(path)}")
    if os.path.isdir(path):
        raise IsADirectoryError(f"{os.fspath(path)!r} is a folder, and no model file")
    with open(path, "rb") as file:
        try:
            return _read(file if file.seekable() else io.BytesIO(file.read()))
        except ValueError as error:
            raise ValueError(f"{os.fspath(path)}: {error}") from None


def is_model_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a model file, by its first bytes. A file that cannot be read is none."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return _is_model(file.read(64))
    return False


def _is_model(start: bytes) -> bool:
    return start.startswith(b"PK\x03\x04") and _HEAD.encode() in start


def pack(head: dict[str, Any], arrays: dict[str, Any]) -> bytes:
    """The bytes of a model file: the same learner gives the same bytes."""
    buffer = io.BytesIO()
    _write(buffer, head, arrays)
    return buffer.getvalue()


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The reverse of `pack`; a ValueError says what is wrong with the bytes."""
    return _read(io.BytesIO(data))


def _write(file: IO[bytes], head: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write the zip and its digest to an empty file, which can be read, too."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_member(_HEAD), msgspec.json.encode({"onebit": FORMAT, **head}))
        for name, array in arrays.items():
            little = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
            member = _member(f"{name}.npy")
            member.file_size = _ARRAY_HEADER_SIZE + little.nbytes  # beyond 2 GiB it is a zip64
            with archive.open(member, "w") as stored:
                _write_array(stored, little)
        archive.comment = b"0" * _DIGEST
    # Only now: zipfile has gone back to write the checksum of each member before it.
    size = file.seek(-_DIGEST, os.SEEK_END)
    digest = _digest(file, size)
    file.seek(size)
    file.write(digest)


def _write_array(file: IO[bytes], array: np.ndarray) -> None:
    """Write an array in C order, as numpy does, but without copies.

    Python keeps all other threads waiting while it copies.
    """
    if array.dtype.hasobject:
        raise ValueError("Object arrays have no place in a model file")
    format = np.lib.format
    format.write_array_header_1_0(file, format.header_data_from_array_1_0(array))
    data = array.reshape(-1).view(np.uint8)
    for start in range(0, len(data), _PIECE):
        file.write(data[start : start + _PIECE].data)


def _digest(file: IO[bytes], size: int) -> bytes:
    """The digest of the first bytes of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    file.seek(0)
    while size > 0 and (data := file.read(min(size, _PIECE))):
        digest.update(data)
        size -= len(data)
    return digest.hexdigest().encode()


def _member(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))


def _read(file: IO[bytes]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The head and the arrays of a model file; a ValueError says what is wrong with it."""
    if not _is_model(file.read(64)):
        raise ValueError("not a onebit model file")
    size = max(0, file.seek(0, os.SEEK_END) - _DIGEST)
    digest = _digest(file, size)
    file.seek(size)
    if file.read() != digest:
        raise ValueError("the model file is damaged or cut short: its digest does not fit")
    try:
        with zipfile.ZipFile(file) as archive:
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
            arrays: dict[str, np.ndarray] = {}
            for info in archive.infolist():
                if info.filename != _HEAD:
                    with archive.open(info) as member:
                        name = info.filename.removesuffix(".npy")
                        arrays[name] = _array(member, min(info.file_size, size))
    except (zipfile.BadZipFile, msgspec.MsgspecError, KeyError, EOFError) as error:
        raise ValueError(f"the model file is damaged: {error}") from None
    return head, arrays


def _array(member: IO[bytes], size: int) -> np.ndarray:
    """An array of numbers from a member, an .npy file of so many bytes.

    numpy reads the header by `ast.literal_eval`, which raises SystemError in Python 3.11 when
    threads do so at the same time.
    """
    start = member.read(10)
    start += member.read(int.from_bytes(start[8:], "little"))
    header = _ARRAY_HEADER.fullmatch(start)
    if header is None or header.end() != 10 + int.from_bytes(header["length"], "little"):
        raise ValueError("the model file is damaged: an array has no header")
    try:
        dtype = np.dtype(header["dtype"].decode())
        shape = [int(length) for length in header["shape"].split(b",") if length.strip()]
    except (TypeError, ValueError):
        raise ValueError("the model file is damaged: an array is of no known type") from None
    if math.prod(shape) * dtype.itemsize != size - header.end():
        raise ValueError("the model file is damaged: an array has another size than it says")
    array = np.empty(shape, dtype)  # of fewer bytes than the file has
    data, done = array.reshape(-1).view(np.uint8), 0
    while piece := member.read(_PIECE):  # up to the end, where zipfile compares the checksum
        data[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
        done += len(piece)
    if done != len(data):  # a forged directory of the zip
        raise ValueError("the model file is damaged: an array has another size than it says")
    return array.astype(dtype.newbyteorder("="), copy=False)
