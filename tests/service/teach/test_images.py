"""Images: features by the stated rule, upright small pictures, and no harm from hostile files."""

import io
import os
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

Image = pytest.importorskip("PIL.Image")

from onebit.service.teach.sources.images import (  # noqa: E402 after the check that Pillow is there
    FEATURES,
    ImageError,
    encoded,
    enlarged,
    features_of,
    read_image,
    shown,
)

EDGES, BRIGHTNESS, RED_GREEN, YELLOW_BLUE = np.split(np.arange(FEATURES), [200, 216, 232])


def saved(image, path, **options):
    image.save(path, **options)
    return path


def stripes(colour="white", size=(40, 40)):
    """The right half is coloured, the left half black."""
    image = Image.new("RGB", size)
    image.paste(colour, (size[0] // 2, 0, *size))
    return image


def close(a, b, most=3):
    """Whether two images are the same but for a few shades."""
    return a.size == b.size and np.abs(np.asarray(a, int) - np.asarray(b, int)).max() <= most


@given(st.integers(1, 50), st.integers(1, 50), st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
def test_any_image_has_so_many_finite_features(width, height, seed):
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    features = features_of(Image.fromarray(pixels))
    assert features.shape == (FEATURES,) and features.dtype == np.float32
    assert np.isfinite(features).all() and (features[EDGES] >= 0).all()


def test_an_empty_image_has_no_edges_and_an_even_brightness():
    features = features_of(Image.new("RGB", (30, 20), (51, 51, 51)))
    assert not features[EDGES].any()
    np.testing.assert_allclose(features[BRIGHTNESS], 0.2, atol=1e-6)
    np.testing.assert_allclose(features[RED_GREEN], 0, atol=1e-6)


def test_grids_tell_brightness_and_colours_apart():
    red = features_of(stripes("red"))
    grid = red[RED_GREEN].reshape(4, 4)
    np.testing.assert_allclose(grid[:, 3], 1, atol=1e-6)
    np.testing.assert_allclose(grid[:, 0], 0, atol=1e-6)
    assert (features_of(stripes("lime"))[RED_GREEN].reshape(4, 4)[:, 3] < -0.9).all()
    assert (features_of(stripes("blue"))[YELLOW_BLUE].reshape(4, 4)[:, 3] < -0.9).all()
    bright, dark = features_of(stripes("white")), features_of(stripes("gray"))
    assert bright[BRIGHTNESS].sum() > dark[BRIGHTNESS].sum()


def test_edges_have_directions_and_ignore_contrast():
    """Brighter to the right is direction 0, to the left 4, downwards 2."""
    image = stripes()
    by_direction = [
        features_of(turned)[EDGES].reshape(8, 25).sum(axis=1)
        for turned in (
            image,
            image.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
            image.transpose(Image.Transpose.ROTATE_270),
        )
    ]
    assert [int(sums.argmax()) for sums in by_direction] == [0, 4, 2]
    np.testing.assert_allclose(
        features_of(stripes("gray"))[EDGES].sum(), by_direction[0].sum(), rtol=0.05
    )


def test_size_hardly_matters():
    rng = np.random.default_rng(0)
    small = Image.fromarray(rng.integers(0, 256, (8, 8, 3), np.uint8))
    middle = small.resize((160, 120), Image.Resampling.BICUBIC)
    large = small.resize((1600, 1200), Image.Resampling.BICUBIC)
    assert np.abs(features_of(middle) - features_of(large)).max() < 0.05


@pytest.mark.parametrize("ending", ["jpg", "png"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_images_are_turned_upright(tmp_path, orientation, ending):
    from PIL import ImageOps

    image = Image.new("RGB", (60, 40), "navy")
    image.paste("yellow", (0, 0, 20, 10))
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = saved(
        image, tmp_path / f"a.{ending}", exif=exif, **({"quality": 95} if ending == "jpg" else {})
    )
    with Image.open(path) as stored:
        wanted = ImageOps.exif_transpose(stored).convert("RGB")
    assert close(read_image(path), wanted)


def test_large_images_are_made_small_and_carry_no_notes(tmp_path):
    exif = Image.Exif()
    exif[0x010F] = "a secret camera"
    path = saved(
        Image.new("RGB", (3000, 1500), "teal"), tmp_path / "a.jpg", exif=exif, comment=b"secret"
    )
    image = read_image(path)
    assert image.size == (800, 400)
    picture, media_type = encoded(image)
    assert media_type == "image/jpeg" and b"secret" not in picture
    smaller = Image.open(io.BytesIO(encoded(image, 200)[0]))
    assert smaller.size == (200, 100)
    assert encoded(image, 100)[1] == "image/png"


def test_narrow_images_keep_a_pixel(tmp_path):
    image = read_image(saved(Image.new("RGB", (1, 9000), "red"), tmp_path / "a.png"))
    assert image.size == (1, 800)
    assert features_of(image)[RED_GREEN].min() > 0.9


def test_what_is_transparent_is_white(tmp_path):
    clear = Image.new("RGBA", (20, 20), (255, 0, 0, 0))
    assert close(
        read_image(saved(clear, tmp_path / "a.png")), Image.new("RGB", (20, 20), "white"), 0
    )
    palette = Image.new("P", (20, 20), 0)
    palette.putpalette([255, 0, 0, 0, 0, 255])
    path = saved(palette, tmp_path / "b.png", transparency=b"\x00\xff")
    assert close(read_image(path), Image.new("RGB", (20, 20), "white"), 0)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "I", "F"])
def test_every_kind_of_pixel_is_read(tmp_path, mode):
    ending = {"CMYK": "jpg", "I": "tif", "F": "tif"}.get(mode, "png")
    if mode in ("I;16", "I"):
        ramp = np.linspace(0, 60_000, 900).reshape(30, 30)
        image = Image.fromarray(ramp.astype(np.uint16 if mode == "I;16" else np.int32))
    else:
        image = Image.linear_gradient("L").rotate(90).resize((30, 30)).convert(mode)
    features = features_of(read_image(saved(image, tmp_path / f"a.{ending}")))
    assert np.isfinite(features).all()
    assert features[BRIGHTNESS].min() < 0.4 and features[BRIGHTNESS].max() > 0.6


def test_the_first_picture_of_an_animation_is_taken(tmp_path):
    frames = [Image.new("RGB", (20, 20), colour) for colour in ("red", "blue")]
    path = saved(frames[0], tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert close(read_image(path), frames[0])


def png_head(width, height):
    """A PNG file that claims to be so large, with no pixels inside."""
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )


@pytest.mark.parametrize("side", [9_100, 12_000, 50_000])  # Pillow's own limits are between them
def test_an_image_that_would_fill_the_memory_is_refused(tmp_path, side):
    path = tmp_path / "a.png"
    path.write_bytes(png_head(side, side))
    with pytest.raises(ImageError, match="at most 80 megapixels are read"):
        read_image(path)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no image"),
        (b"GIF89a", "damaged|no image"),
        (b"hello", "no image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "no image"),  # Ghostscript's
        (png_head(9, 9), "damaged"),
    ],
)
def test_what_is_no_image_is_refused(tmp_path, data, reason):
    path = tmp_path / "a.jpg"
    path.write_bytes(data)
    with pytest.raises(ImageError, match=reason):
        read_image(path)


def test_files_that_cannot_be_opened_are_refused(tmp_path):
    with pytest.raises(ImageError, match="cannot be read"):
        read_image(tmp_path / "none.jpg")
    with pytest.raises(ImageError, match="cannot be read"):
        read_image(tmp_path)
    pipe = tmp_path / "pipe.jpg"
    os.mkfifo(pipe)
    with pytest.raises(ImageError, match="not an ordinary file"):
        read_image(pipe)


SAMPLES = {}
for name in ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP"):
    packed = io.BytesIO()
    Image.radial_gradient("L").resize((24, 24)).convert("RGB").save(packed, name)
    SAMPLES[name] = packed.getvalue()


@given(st.sampled_from(sorted(SAMPLES)), st.data())
@settings(max_examples=200, deadline=None)
def test_damaged_files_are_read_or_refused(tmp_path_factory, name, data):
    damaged = bytearray(SAMPLES[name])
    for place in data.draw(st.lists(st.integers(0, len(damaged) - 1), max_size=6)):
        damaged[place] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.img"
    path.write_bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    reason = ""
    try:
        assert np.isfinite(features_of(read_image(path))).all()
    except ImageError as error:
        reason = str(error)
    assert reason.isprintable()


def test_few_pixels_are_enlarged_smoothly():
    shades = np.arange(64, dtype=np.uint8).reshape(8, 8)
    picture, media_type = enlarged(shades, 256)
    image = np.asarray(Image.open(io.BytesIO(picture)))
    assert media_type == "image/png" and image.shape == (256, 256)
    assert np.abs(image[16::32, 16::32].astype(int) - shades).max() <= 1  # the middle of each
    assert np.abs(np.diff(image.astype(int), axis=0)).max() <= 1  # no edges between them


@given(st.text(max_size=60))
@settings(deadline=None)
def test_a_shown_line_is_printable_and_short(text):
    assert shown(text, 20).isprintable() and len(shown(text, 20)) <= 20
    assert shown("two\n lines", 20) == "two lines"
    assert shown("cat\u202egpj", 20) == "cat\\u202egpj"
