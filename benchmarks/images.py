"""Measure how images become features: `python -m benchmarks.images [--folder DIR] [--photos N]`.

Without options: mistakes of `ob.OneBit` in %, one pass over images of the data folder
(ONEBIT_DATA), with the rule of `onebit.service.teach.sources.images` and with the raw pixels.
--folder: images of your own; the names of the folders inside are the labels. --photos: instead,
how long photos of 12 megapixels take.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

import onebit as ob
from onebit.datasets.catalogue_entry import folders
from onebit.datasets.tables import fields_of
from onebit.service.teach.sources import open_items
from onebit.service.teach.sources.images import ENDINGS, FEATURES, encoded, features_of, read_image

ROUNDS = (300, 1_000, 3_000)
ANSWERS = 60  # about photos
EDGES = 200  # the first features of the rule
INFRARED = [2, 1, 0]  # the bands of satimage that are shown as red, green and blue


class Pictures(NamedTuple):
    name: str
    images: list[Any]
    y: np.ndarray
    labels: int


def squares(file: str, brightest: float, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Square grey images of a data file, from 0 to 255, shuffled; and their labels."""
    path = next(folder / file for folder in folders() if (folder / file).is_file())
    fields = fields_of(path)
    chosen = np.random.default_rng(1).permutation(len(fields["y"]))[: ROUNDS[-1]]
    X = (fields["X"][chosen].astype(np.float64) + shift) * (255 / brightest)
    return np.rint(X).clip(0, 255).astype(np.uint8), fields["y"][chosen].astype(np.int64)


def data_folder() -> Iterator[Pictures]:
    files = {
        "MNIST": ("mnist.npz", 255.0),
        "Fashion-MNIST": ("fashion_mnist.npz", 255.0),
        "USPS": ("usps.npz", 2000.0, 1000.0),
        "optdigits": ("optdigits.npz", 16.0),
    }
    for name, how in files.items():
        X, y = squares(*how)
        side = int(np.sqrt(X.shape[1]))
        images = [Image.fromarray(x).convert("RGB") for x in X.reshape(-1, side, side)]
        yield Pictures(name, images, y, 10)
    X, y = squares("satimage.npz", 255.0)
    colours = np.ascontiguousarray(X.reshape(-1, 3, 3, 4)[..., INFRARED])
    yield Pictures("satimage, false colours", [Image.fromarray(x) for x in colours], y, 6)


def own_folder(folder: Path, labels: list[str]) -> Pictures:
    paths = [path for path in sorted(folder.glob("*/*")) if path.suffix.lower() in ENDINGS]
    paths = [path for path in paths if not labels or path.parent.name in labels]
    order = np.random.default_rng(1).permutation(len(paths))[: ROUNDS[-1]]
    names, y = np.unique([paths[i].parent.name for i in order], return_inverse=True)
    images = [read_image(paths[i]) for i in order]
    return Pictures(f"{folder}, {len(names)} labels", images, y, len(names))


def mistakes(X: np.ndarray, pictures: Pictures, orders: int) -> str:
    """The share of mistakes at each number of rounds, in %."""
    rounds = [count for count in ROUNDS if count <= len(X)]
    shares = []
    for seed in range(orders):
        learner = ob.OneBit(labels=pictures.labels, seed=seed)
        order = np.random.default_rng(seed).permutation(len(X))
        trace = ob.simulate(learner, X, pictures.y, order=order, checkpoints=rounds)
        shares.append(100 * np.asarray(trace.mistakes) / rounds)
    return " / ".join(f"{share:.1f}" for share in np.mean(shares, axis=0))


def print_row(pictures: Pictures, orders: int) -> None:
    sizes = {image.size for image in pictures.images}
    features = np.array([features_of(image) for image in pictures.images])
    pixels = "–"
    if len(sizes) == 1:
        raw = np.array([np.asarray(image).ravel() for image in pictures.images], np.float32)
        is_grey = all(np.ptp(np.asarray(image), axis=2).max() == 0 for image in pictures.images)
        pixels = mistakes(raw[:, ::3] if is_grey else raw, pictures, orders)
    parts = [features[:, EDGES:], features[:, :EDGES], features]
    cells = [pictures.name, pixels, *(mistakes(part, pictures, orders) for part in parts)]
    print(f"| {' | '.join(cells)} |", flush=True)


def measure_rule(folder: Path | None, labels: list[str], orders: int) -> None:
    print("| | raw pixels | brightness and colour | edges | the rule: all |\n|---|--:|--:|--:|--:|")
    for pictures in [own_folder(folder, labels)] if folder else data_folder():
        print_row(pictures, orders)


def photo(path: Path, seed: int) -> None:
    """A photo-like image of 4000 x 3000 pixels: soft shapes, and noise as a sensor has it."""
    rng = np.random.default_rng(seed)
    shapes = Image.fromarray(rng.integers(0, 256, (15, 20, 3), np.uint8))
    pixels = np.asarray(shapes.resize((4000, 3000), Image.Resampling.BICUBIC), np.int16)
    pixels = pixels + rng.normal(0, 6, pixels.shape).astype(np.int16)
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path, quality=90)


def make_photos(folder: Path, count: int) -> None:
    """Ten photos, each under many names."""
    folder.mkdir()
    for i in range(count):
        path = folder / f"{i:05}.jpg"
        if i < 10:
            photo(path, i)
        else:
            path.hardlink_to(folder / f"{i % 10:05}.jpg")


def megabytes() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def milliseconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - start)


def measure_photos(count: int) -> None:
    """A person who answers twice a second, about photos in random order."""
    learner = ob.OneBit(labels=["this", "that"])
    learner.learn(learner.decide(np.zeros(FEATURES)), right=True)  # compiled before
    with tempfile.TemporaryDirectory() as name:
        photos, cache = Path(name, "photos"), Path(name, "cache")
        maker = multiprocessing.Process(target=make_photos, args=(photos, count))
        maker.start()  # its memory is not counted
        maker.join()
        size = (photos / "00000.jpg").stat().st_size / 1e6
        print(f"{count} photos of 12 megapixels, {size:.1f} MB each", flush=True)
        before = megabytes()
        opened = milliseconds(lambda: open_items(photos, cache=cache))
        items = open_items(photos, cache=cache)
        order = np.random.default_rng(0).permutation(count).tolist()

        def play(i: int) -> None:
            items.picture(i)
            learner.learn(learner.decide(items.context(i)), right=i % 2 == 0)

        first = milliseconds(lambda: play(order[0]))
        print(f"folder opened in {opened:.0f} ms, first item in {first:.0f} ms", flush=True)
        waits = []
        for k in range(1, min(count, ANSWERS)):
            items.prepare(*order[k : k + 3])
            time.sleep(0.5)
            waits.append(milliseconds(lambda k=k: play(order[k])))
        figures = np.percentile(waits, [50, 95, 100])
        print("next item with its guess: {:.2f} ms, p95 {:.2f}, worst {:.2f}".format(*figures))
        items.close()
        kept = [path.stat().st_size for path in cache.iterdir()]
        print(f"made meanwhile: {len(kept)} photos, {np.mean(kept) / 1e3:.0f} kB each on disk")
        print(f"memory: {megabytes() - before:.0f} MB more than before")
        again = open_items(photos, cache=cache)
        done = [i for i in range(count) if again.ready(i)]
        each = milliseconds(lambda: [again.picture(i) for i in done]) / len(done)
        print(f"after a restart: {each:.2f} ms per item")
        alone = milliseconds(lambda: [photo_made(photos / f"{i:05}.jpg") for i in range(10)]) / 10
        print(f"one photo by itself: {alone:.0f} ms")


def photo_made(path: Path) -> None:
    image = read_image(path)
    encoded(image), features_of(image)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--folder", type=Path, help="images of your own, in a folder per label")
    parser.add_argument("--labels", nargs="*", default=[], help="take these labels only")
    parser.add_argument("--orders", type=int, default=5, help="orders to average over")
    parser.add_argument("--photos", type=int, help="time so many photos of 12 megapixels")
    options = parser.parse_args()
    if options.photos:
        measure_photos(options.photos)
    else:
        measure_rule(options.folder, options.labels, options.orders)


if __name__ == "__main__":
    main()
