"""Images: read with care, made small and upright, and turned into features by a fixed rule.

The rule. An image is resized to 32 x 32 pixels, whatever its shape. Its features are

- 200 of edges: at each pixel the gradient of the brightness has a length and a direction. The
  lengths are summed by 8 directions in 5 x 5 overlapping cells, divided by their root mean square,
  and the square root is taken.
- 16 of brightness: the means of 4 x 4 squares.
- 32 of colour: the means of red minus green, and of yellow minus blue, in 4 x 4 squares.

Nothing is learned from the images, so an image always gives the same features. `benchmarks.images`
measures the rule; docs/teach.md has the table.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from onebit.core.extras import optional_module

if TYPE_CHECKING:
    from PIL.Image import Image

RULE = 1  # counts up when an image would give other features or another picture
EDGE = 800  # pixels: the longer side of the picture that is kept of an image
ENDINGS = (".jpg", ".jpeg", ".jpe", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif")

_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF")  # no format that starts programs
_MOST_PIXELS = 80_000_000  # a larger image may be a file of a few kB that fills the memory
_SMALL = 128  # pixels of a side; up to this size a picture is stored without loss

_SIDE, _CELLS, _DIRECTIONS, _SQUARES = 32, 5, 8, 4
_FAINT = 0.01  # added to the strength of the edges: in an empty image there are none
_BRIGHTNESS = np.array([0.299, 0.587, 0.114], np.float32)  # of red, green and blue (ITU-R BT.601)
FEATURES = _CELLS**2 * _DIRECTIONS + 3 * _SQUARES**2

_ORIENTATION = 0x0112  # the tag of EXIF
# How to turn an image upright, by the value of the tag; 1 is upright.
_TURNS = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}


class ImageError(ValueError):
    """An image cannot be used; the message says why, without naming the file."""


@cache
def pillow() -> Any:
    """Pillow's module of images, with its formats known."""
    module = optional_module("PIL.Image", "pillow", "images are read through", extra="serve")
    module.init()
    return module


def read_image(path: Path, edge: int = EDGE) -> Image:
    """The image of a file: upright, in RGB on white, its longer side at most `edge` pixels."""
    try:
        file = _open(path)
    except OSError as error:
        raise ImageError(f"the file cannot be read ({error.strerror or error})") from None
    with file:
        return decoded(file, edge)


def _open(path: Path) -> BinaryIO:
    """An ordinary file. A pipe that is called cat.jpg must not make anybody wait."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError("it is not an ordinary file")
    return os.fdopen(handle, "rb")


def decoded(file: BinaryIO, edge: int) -> Image:
    """The image in an open file, as `read_image` describes it."""
    kinds = pillow()
    known = [name for name in _FORMATS if name in kinds.OPEN]
    try:
        with kinds.open(file, formats=known) as image:
            pixels = image.width * image.height
            if pixels > _MOST_PIXELS:
                raise _too_large(f"it has {pixels / 1e6:,.0f} megapixels")
            turn = _turn(image)
            image = _averageable(image)
            # A JPEG is decoded in a size that is not much larger than what is wanted.
            image.thumbnail((edge, edge), kinds.Resampling.BILINEAR, reducing_gap=1.0)
            image = _on_white(image)
            image.info = {}  # Pillow would write comments of the file into a picture
            return image if turn is None else image.transpose(kinds.Transpose[turn])
    except ImageError:
        raise
    except (kinds.DecompressionBombError, kinds.DecompressionBombWarning):
        raise _too_large("it has too many pixels") from None
    except kinds.UnidentifiedImageError:
        raise ImageError("this is no image, or of a format that is not read") from None
    except Exception as error:  # a damaged file can raise anything in a decoder
        said = str(error) or type(error).__name__
        raise ImageError(f"the image is damaged ({shown(said, 100)})") from None


def _too_large(found: str) -> ImageError:
    return ImageError(f"{found}; at most {_MOST_PIXELS // 10**6} megapixels are read")


def _turn(image: Any) -> str | None:
    with contextlib.suppress(Exception):  # damaged EXIF data say nothing
        return _TURNS.get(image.getexif().get(_ORIENTATION))
    return None


def _averageable(image: Any) -> Any:
    """An image whose pixels can be averaged: without a palette, and not of single bits."""
    if image.mode.startswith(("I", "F")):
        return image.convert("F")
    if "transparency" in image.info:
        return image.convert("RGBA")
    return image if image.mode in ("L", "LA", "RGB", "RGBA", "CMYK") else image.convert("RGB")


def _on_white(image: Any) -> Image:
    """An image in RGB; where it was transparent, it is white."""
    if image.mode == "F":  # was of 16 or more bits: from its darkest to its brightest value
        values = np.nan_to_num(np.asarray(image), posinf=0.0, neginf=0.0)
        span = float(np.ptp(values)) or 1.0
        image = pillow().fromarray(((values - values.min()) * (255 / span)).astype(np.uint8))
    if image.mode not in ("LA", "RGBA"):
        return image.convert("RGB")
    image = image.convert("RGBA")
    white = pillow().new("RGBA", image.size, "white")
    return pillow().alpha_composite(white, image).convert("RGB")


def encoded(image: Image, edge: int = EDGE) -> tuple[bytes, str]:
    """A picture for a page, its longer side at most `edge`, and its media type.

    It has none of the file's notes: not where a photo was taken, nor when.
    """
    image = image.copy()
    image.thumbnail((edge, edge), pillow().Resampling.BILINEAR)
    small = max(image.size) <= _SMALL
    packed = io.BytesIO()
    image.save(packed, "PNG" if small else "JPEG", quality=85)
    return packed.getvalue(), "image/png" if small else "image/jpeg"


def decoded_bytes(picture: bytes) -> Image:
    """The image of `encoded`."""
    return decoded(io.BytesIO(picture), EDGE)


def grey_image(shades: np.ndarray) -> Image:
    """An image of shades of grey, [row, column] from 0 to 255."""
    return pillow().fromarray(shades).convert("RGB")


def enlarged(shades: np.ndarray, edge: int) -> tuple[bytes, str]:
    """A smooth picture from a few shades of grey; and its media type."""
    times = max(edge // max(shades.shape), 1)
    size = (times * shades.shape[1], times * shades.shape[0])
    packed = io.BytesIO()
    picture = pillow().fromarray(shades).resize(size, pillow().Resampling.BICUBIC)
    picture.save(packed, "PNG")
    return packed.getvalue(), "image/png"


def features_of(image: Image) -> np.ndarray:
    """The features of an image in RGB, by the rule above."""
    small = image.resize((_SIDE, _SIDE), pillow().Resampling.BILINEAR)
    colours = np.asarray(small, np.float32) / 255
    red, green, blue = np.moveaxis(colours, 2, 0)
    brightness = colours @ _BRIGHTNESS
    grids = [_means(plane) for plane in (brightness, red - green, (red + green) / 2 - blue)]
    return np.concatenate([_edges(brightness), *grids]).astype(np.float32)


def _means(plane: np.ndarray) -> np.ndarray:
    """The means of the squares of a plane."""
    width = _SIDE // _SQUARES
    return plane.reshape(_SQUARES, width, _SQUARES, width).mean(axis=(1, 3)).ravel()


def _edges(brightness: np.ndarray) -> np.ndarray:
    """How strong the edges of each direction are in each cell."""
    padded = np.pad(brightness, 1, mode="edge")
    right = padded[1:-1, 2:] - padded[1:-1, :-2]
    down = padded[2:, 1:-1] - padded[:-2, 1:-1]
    length = np.hypot(right, down)
    # A direction between two of the eight counts for both, by how near it is to each.
    direction = np.arctan2(down, right) * (_DIRECTIONS / (2 * np.pi)) % _DIRECTIONS
    before = np.floor(direction)
    share = direction - before
    before = before.astype(np.int64) % _DIRECTIONS
    planes = np.zeros((_DIRECTIONS, _SIDE, _SIDE), np.float32)
    rows, columns = np.indices((_SIDE, _SIDE))
    planes[before, rows, columns] = length * (1 - share)
    planes[(before + 1) % _DIRECTIONS, rows, columns] = length * share
    weights = _cell_weights()
    cells = weights @ planes @ weights.T
    strength = np.sqrt((cells**2).sum(axis=0).mean())
    return np.sqrt(cells / (strength + _FAINT)).ravel()


@cache
def _cell_weights() -> np.ndarray:
    """The weight of each row of pixels in each row of cells: 1 at its middle, 0 at the next."""
    width = _SIDE / _CELLS
    middles = (np.arange(_CELLS) + 0.5) * width - 0.5
    weights = np.maximum(0, 1 - np.abs(np.arange(_SIDE) - middles[:, None]) / width)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


def shown(text: str, most: int) -> str:
    """A line of text for a person: white space as blanks, what is not printable as its code."""
    line = " ".join(text[: 4 * most].split())
    if not line.isprintable():
        line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    return line if len(line) <= most else line[: most - 1] + "…"
