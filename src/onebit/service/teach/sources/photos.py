"""The images that can be taught: the built-in digits, and a folder."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from onebit.datasets.blocks import AnyPath
from onebit.datasets.tables import digits
from onebit.service.teach.sources.ahead import Kept, Made, Recent
from onebit.service.teach.sources.folders import LEADS_OUT, Found, is_inside
from onebit.service.teach.sources.images import (
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
from onebit.service.teach.sources.items import (
    LONGEST_TITLE,
    MOST_MEMORY,
    Embed,
    Item,
    Items,
)

NOT_READ = (".heic", ".heif", ".raw", ".cr2", ".nef", ".arw", ".dng", ".svg", ".psd")
_SIZES = (128, 256, 512, EDGE)  # pixels of a picture's longer side


def images_below(root: Path) -> Found:
    """The images of a folder and its folders."""
    refused = {x: f"{x} images are not read; export them as JPEG or PNG" for x in NOT_READ}
    return Found(root, ENDINGS, "image", refused)


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

    def __init__(self, root: Path, found: Found, embed: Embed | None, cache: AnyPath | None):
        pillow()  # raises now if it is missing
        self._root = root
        keys = sorted(found.paths)
        self._paths = [found.paths[key] for key in keys]
        self._kept = Kept(None if cache is None else Path(cache))
        self._recent: Recent[Made] = Recent(MOST_MEMORY)
        self._smaller: Recent[tuple[bytes, str]] = Recent(MOST_MEMORY // 4)
        super().__init__(self._root.name, keys, found.skipped, embed)

    def __getitem__(self, i: int) -> Item:
        return Item(self._keys[i], "image", shown(self._keys[i], LONGEST_TITLE))

    def version(self, i: int) -> str:
        try:
            status = os.stat(self._paths[i])
        except OSError:
            return "gone"
        return f"{status.st_size} {status.st_mtime_ns}"

    def picture(self, i: int, size: int = EDGE) -> tuple[bytes, str]:
        wanted, version = _size(size), self.version(i)
        made = self._made(i)
        if wanted == EDGE:
            return made.picture, made.media_type
        smaller = self._smaller.get((i, wanted, version))
        if smaller is None:
            smaller = encoded(decoded_bytes(made.picture), wanted)
            self._smaller.put((i, wanted, version), smaller, len(smaller[0]))
        return smaller

    def ready(self, i: int) -> bool:
        if i in self._reasons:
            return True
        is_made = (i, self.version(i)) in self._recent or self._kept.has(self._paths[i])
        return is_made and super().ready(i)

    def _plain_context(self, i: int) -> np.ndarray:
        key = i, self.version(i)
        vector = self._vectors.get(key)
        if vector is None:
            vector = self._made(i).vector()
            self._vectors.put(key, vector, vector.nbytes)
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
        key = i, self.version(i)
        made = self._recent.get(key)
        if made is None:
            path = self._paths[i]
            made = self._kept.load(path)
            if made is None:
                made = self._made_now(i, path)
                self._kept.save(path, made)
            self._recent.put(key, made, made.size)
        return made

    def _made_now(self, i: int, path: Path) -> Made:
        if not is_inside(path, self._root):
            raise self._unusable(i, LEADS_OUT)
        try:
            image = read_image(path)
        except ImageError as error:
            raise self._unusable(i, str(error)) from None
        return Made(*encoded(image), features_of(image).astype("<f4").tobytes())


def _size(size: int) -> int:
    """The size of a picture that is made for a wanted size: few sizes need little memory."""
    return next((known for known in _SIZES if known >= size), EDGE)
