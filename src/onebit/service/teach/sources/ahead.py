"""What takes long to make is made ahead by a thread, and kept: in memory, and on disk.

`Recent` holds the values that were used last, up to so many bytes. `Kept` is a folder of pictures
and features. `Ahead` is the thread.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
import numpy as np

from onebit.core.jit import cache_folder
from onebit.core.sources import write_whole
from onebit.service.teach.sources.images import FEATURES, RULE

_MOST_WANTED = 64  # items that wait to be made; the ones asked for first are dropped
_NICENESS = 10
_LESS = 0.8  # how much of its limit a folder keeps when it is full
_ENDING = ".picture"

Value = TypeVar("Value")


class Recent(Generic[Value]):
    """Values by key. The least recently used ones are dropped beyond so many bytes."""

    def __init__(self, most_bytes: int) -> None:
        self._most, self._bytes = most_bytes, 0
        self._values: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Value | None:
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def put(self, key: Hashable, value: Value, size: int) -> None:
        with self._lock:
            self._bytes += size - self._values.pop(key, (value, 0))[1]
            self._values[key] = value, size
            while self._bytes > self._most and len(self._values) > 1:
                self._bytes -= self._values.popitem(last=False)[1][1]

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values


class Made(msgspec.Struct, array_like=True, frozen=True):
    """What is made of an image."""

    picture: bytes
    media_type: str
    features: bytes  # FEATURES numbers, float32, little-endian

    @property
    def size(self) -> int:
        return len(self.picture) + len(self.features)

    def vector(self) -> np.ndarray:
        return np.frombuffer(self.features, "<f4").astype(np.float32)


class Kept:
    """A folder of what was made of images, a file for each; the oldest go when there are too many.

    A file is named by a digest of the image's path, size and time of change, so an image that
    changes has another name. A file that cannot be read is one that is not there; one that cannot
    be written is not needed.
    """

    def __init__(self, folder: Path | None = None, most_bytes: int = 2**31) -> None:
        self._folder, self._most, self._bytes = folder or _default_folder(), most_bytes, 0
        with contextlib.suppress(OSError):
            if self._folder is not None:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._tidy()

    @property
    def is_full(self) -> bool:
        """Whether only what is wanted should be added, or there is no folder."""
        return self._folder is None or self._bytes >= _LESS * self._most

    def load(self, image: Path) -> Made | None:
        try:
            made = msgspec.msgpack.decode(self._file(image).read_bytes(), type=Made)
        except (OSError, msgspec.MsgspecError):
            return None
        good = len(made.features) == 4 * FEATURES and np.isfinite(made.vector()).all()
        return made if good else None

    def save(self, image: Path, made: Made) -> None:
        with contextlib.suppress(OSError):
            data = msgspec.msgpack.encode(made)
            write_whole(self._file(image), data)
            self._bytes += len(data)
            if self._bytes > self._most:
                self._tidy()

    def has(self, image: Path) -> bool:
        try:
            return self._file(image).is_file()
        except OSError:
            return False

    def _file(self, image: Path) -> Path:
        """Where what is made of an image is; an OSError if there is no folder or no image."""
        if self._folder is None:
            raise OSError("there is no folder to keep pictures in")
        status = os.stat(image)
        identity = repr((RULE, os.fsencode(image), status.st_size, status.st_mtime_ns))
        digest = hashlib.blake2b(identity.encode(), digest_size=16).hexdigest()
        return self._folder / f"{digest}{_ENDING}"

    def _tidy(self) -> None:
        """Count the bytes of the folder; beyond the limit, remove the files written first."""
        assert self._folder is not None
        found: list[tuple[float, int, Path]] = []
        for path in self._folder.iterdir():
            if path.suffix in (_ENDING, ".tmp"):
                with contextlib.suppress(OSError):  # another process may have removed it
                    status = path.stat()
                    found.append((status.st_mtime, status.st_size, path))
        self._bytes = sum(size for _, size, _ in found)
        if self._bytes > self._most:
            for _, size, path in sorted(found):
                with contextlib.suppress(OSError):
                    path.unlink()
                self._bytes -= size
                if self._bytes <= _LESS * self._most:
                    return


def _default_folder() -> Path | None:
    compiled = cache_folder()
    return compiled and compiled.parent / "pictures"


class Ahead:
    """A thread of low priority that makes items: what is wanted first, then all the rest in order.

    make: makes an item by its number and raises nothing. others: how many items there are to make
    in order while nothing is wanted. enough: says when to stop doing so.
    """

    def __init__(
        self, make: Callable[[int], object], others: int, enough: Callable[[], bool]
    ) -> None:
        self._make, self._enough = make, enough
        self._others = iter(range(others))
        self._wanted: deque[int] = deque(maxlen=_MOST_WANTED)
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def want(self, numbers: Iterable[int]) -> None:
        """Make these next, in this order; the thread starts with the first ones."""
        with self._changed:
            chosen = list(numbers)
            for number in reversed(chosen):
                if number in self._wanted:
                    self._wanted.remove(number)
                self._wanted.appendleft(number)
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="onebit-ahead", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Stop after the item that is being made, and wait for that a moment."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def _run(self) -> None:
        if sys.platform == "linux":  # it has a priority for each thread
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        while (number := self._next()) is not None:
            self._make(number)

    def _next(self) -> int | None:
        """The number of the item to make next, when there is any; None when all is over."""
        with self._changed:
            while not self._closed:
                if self._wanted:
                    return self._wanted.popleft()
                number = None if self._enough() else next(self._others, None)
                if number is not None:
                    return number
                self._changed.wait()
        return None
