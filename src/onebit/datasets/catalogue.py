"""Data sets by name: built in, or in a data folder, where each has peculiarities of its own.

Data folders are the one that ONEBIT_DATA names, then that of the user. Any file there that can be
read has a name too: its own without the endings.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onebit.datasets.blocks import endings
from onebit.datasets.entries import (
    Entry,
    folders,
    folders_in_words,
    grey,
    no_repeats,
    one_topic,
    pixels,
    plain,
    three_domains,
)
from onebit.datasets.linear import linear_noise
from onebit.datasets.readers import format_of
from onebit.datasets.synthetic import synnonsep, synsep
from onebit.datasets.tables import Dataset, digits, iris


def get(name: str, **options: Any) -> Dataset:
    """The data set of this name: built in, or found in a data folder.

    `onebit data list` shows which there are. options: rows and seed of synthetic data; those of
    `read` for files of your own, such as label= of a table.
    """
    return find(name).load(**options)


def find(name: str) -> Entry:
    """The entry of this name; one whose file is missing is found as well."""
    for entry in KNOWN:
        if name == entry.name:
            return entry
    for entry in own():
        if name == entry.name:
            return entry
    for entry in KNOWN:  # 20news_18828 is 20news
        if entry.file and name == _stem(entry.file):
            return entry
    names = [entry.name for entry in (*KNOWN, *own())]
    near = difflib.get_close_matches(name, names, n=1)
    known = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
    raise ValueError(f"no data {name!r} among the built-in, nor in {folders_in_words()}; {known}")


def named(data: str) -> Entry:
    """The entry of this name, or that of the file at this path: one with a dot or a folder."""
    if "." in data or os.sep in data:
        return _own_entry(_stem(Path(data).name), Path(data))
    return find(data)


def _own_entry(name: str, path: Path) -> Entry:
    return Entry(name, "rows of a file of your own", "yours", "yours", path=path)


def own() -> Iterator[Entry]:
    """The files of the user's own in the data folders, the first of each name."""
    seen = {entry.file for entry in KNOWN} | {entry.name for entry in KNOWN}
    for folder in folders():
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            name = _stem(path.name)
            if not (seen & {name, path.name}) and path.is_file() and _can_be_read(path):
                seen.add(name)
                yield _own_entry(name, path)


def fetch_folder() -> Path:
    """Where downloads go: the first of the folders."""
    for folder in folders():
        return folder
    raise ValueError("there is no folder for data; set ONEBIT_DATA to one")


def _stem(file: str) -> str:
    """The name of a file without the endings that tell its format."""
    for ending in reversed(endings(file)):
        file = file[: len(file) - len(ending)]
    return file


def _can_be_read(path: Path) -> bool:
    try:
        return bool(format_of(path))
    except ValueError:
        return False


_UCI = "CC BY 4.0 (UCI)"
_PARTS = "the training part comes first"
_SORTED = "sorted by label"

KNOWN = (
    Entry(
        "synsep",
        "synthetic texts of 9 topics, separable",
        "drawn as in Kakade, Shalev-Shwartz, Tewari (ICML 2008)",
        "free",
        (1_000_000, 400, 9),
        make=synsep,
        drawn=True,
    ),
    Entry(
        "synnonsep",
        "synthetic texts of 9 topics, 5% of the labels false",
        "drawn as in Kakade, Shalev-Shwartz, Tewari (ICML 2008)",
        "free",
        (1_000_000, 400, 9),
        make=synnonsep,
        drawn=True,
    ),
    Entry(
        "linear_noise",
        "contexts whose labels follow a linear law; the best error there can be is known",
        "drawn as in Crammer, Gentile (ICML 2011), eq. (2)",
        "free",
        (100_000, 20, 5),
        make=linear_noise,
        drawn=True,
    ),
    Entry(
        "digits",
        "images of handwritten digits, 8 x 8",
        "Alpaydin, Kaynak (1998), test part of optdigits",
        _UCI,
        (1797, 65, 10),
        make=digits,
    ),
    Entry("iris", "flowers by 4 measurements", "Fisher (1936)", _UCI, (150, 4, 3), make=iris),
    Entry(
        "mnist",
        "images of handwritten digits, 28 x 28 pixels in [0, 1]",
        "LeCun, Cortes, Burges (1998)",
        "none stated",
        (70_000, 784, 10),
        file="mnist.npz",
        fetched=True,
        sha256="c7b204b9bf8d4cbf1f60997c3d5e4e18647f07fe0114da744000099412c49239",
        change=pixels,
        shuffle=_PARTS,
    ),
    Entry(
        "fashion_mnist",
        "images of clothes, 28 x 28 pixels in [0, 1]",
        "Xiao, Rasul, Vollgraf (2017), Zalando SE",
        "MIT",
        (70_000, 784, 10),
        file="fashion_mnist.npz",
        fetched=True,
        sha256="038cd33d678bdc26dbfdd1335bcce3eeb733539587cc171c0d91ffbfe85be1c7",
        change=pixels,
        shuffle=_PARTS,
    ),
    Entry(
        "fashion_cnn100",
        "images of clothes as 100 features of a small convolutional network",
        "made from half of fashion_mnist by a network trained on the other half",
        "MIT",
        (35_000, 100, 10),
        file="fashion_cnn100.npz",
        sha256="4eab892d783f016c1387f38c0fca2e6f845fe9ec18816c76b3b898336bd36391",
        change=plain,
        shuffle="the order is that of its making",
    ),
    Entry(
        "usps",
        "images of handwritten digits, 16 x 16 pixels in [0, 1] (published: 2x - 1)",
        "Hull (1994); zip.train and zip.test of Hastie, Tibshirani, Friedman",
        "none stated",
        (9298, 256, 10),
        file="usps.npz",
        fetched=True,
        sha256="536f3452e7ce024f10892b2b1061615a24093bb9ee3d2413b6faf09ea4667592",
        change=grey,
        shuffle=_PARTS,
    ),
    Entry(
        "20news",
        "messages of 20 newsgroups as counts of words",
        "Lang (1995), the version of 18,828 messages",
        "none stated; public messages",
        (18_828, 170_773, 20),
        file="20news_18828.npz",
        fetched=True,
        sha256="563aac4b73abcf36a86f4122d25b623eb631e35f742b9bab3f7af1c76968de1f",
        shuffle=_SORTED,
    ),
    Entry(
        "amazon7",
        "reviews of 7 kinds of goods as counts of words and pairs, repeated texts left out",
        "Blitzer, Dredze, Pereira (2007), prepared by Liu, Qiu, Huang (2017)",
        "none stated",
        (13_442, 625_454, 7),
        file="amazon7.npz",
        sha256="2a3133add445d7c4d4a0d6b642c4041766fc548c60da92073bac1894608ea58e",
        change=no_repeats,
        shuffle=_SORTED,
    ),
    Entry(
        "amazon3",
        "reviews of books, dvd and music, as in amazon7",
        "Blitzer, Dredze, Pereira (2007), prepared by Liu, Qiu, Huang (2017)",
        "none stated",
        (5925, 625_454, 3),
        file="amazon7.npz",
        sha256="2a3133add445d7c4d4a0d6b642c4041766fc548c60da92073bac1894608ea58e",
        change=three_domains,
        shuffle=_SORTED,
    ),
    Entry(
        "rcv1",
        "news of exactly one top topic, rows of length 1, repeated ones left out",
        "Lewis, Yang, Rose, Li (2004): five subsets of 6,000 of RCV1-v2",
        "none stated; for research",
        (23_485, 47_236, 4),
        file="rcv1_topics.npz",
        sha256="bda8d126c2e760e9f566b186d72fb810dd59bccc12c4278539386180af741966",
        change=one_topic,
        shuffle="subset after subset",
    ),
    Entry(
        "rcv1_full",
        "news of exactly one top topic, rows of length 1",
        "Lewis, Yang, Rose, Li (2004): all of RCV1-v2",
        "none stated; for research",
        file="rcv1_full.npz",
        fetched=True,
        shuffle="in order of time",
    ),
    Entry(
        "satimage",
        "pixels of a satellite image with their neighbours",
        "Statlog (Landsat Satellite)",
        _UCI,
        (6435, 36, 6),
        file="satimage.npz",
        sha256="96193b169b4af16032ad228a2920acae16130bb8b62479b11e765f93fe3ee8cb",
        change=plain,
        shuffle="neighbours in the image follow each other",
    ),
    Entry(
        "segment",
        "regions of outdoor images by 19 measurements",
        "Statlog (Image Segmentation)",
        _UCI,
        (2310, 19, 7),
        file="segment.npz",
        fetched=True,
        sha256="e6f1c6738fd468dbca9c76bd797cad243da6be241f7f6fad218bfa65429d25f5",
        change=plain,
        shuffle="the order is not known to be random",
    ),
    Entry(
        "optdigits",
        "images of handwritten digits, 8 x 8 pixels of 0 to 16 (digits are among them)",
        "Alpaydin, Kaynak (1998)",
        _UCI,
        (5620, 64, 10),
        file="optdigits.npz",
        fetched=True,
        sha256="43021f825e6f9d9d3ed42c9ff805ff8f78aadc8425d138540da9514d4871855d",
        change=plain,
        shuffle="the order is that of the writers",
    ),
    Entry(
        "vowel",
        "spoken vowels by 10 measurements",
        "Deterding (1989), Connectionist Bench",
        _UCI,
        (990, 10, 11),
        file="vowel.npz",
        sha256="076a23a07bf74ca4578d8efe40a389594706b78bdd45db6cf8e8916afd25e9dc",
        change=plain,
        shuffle="speaker after speaker, label after label",
    ),
    Entry(
        "shuttle",
        "states of a space shuttle by 9 measurements, 79% of one label",
        "Statlog (Shuttle)",
        _UCI,
        (58_000, 9, 7),
        file="shuttle.npz",
        fetched=True,
        sha256="12830c91afcab3ad951495e81f0a6d5dc6583732d82cc7e45f01baaaa57fd88a",
        change=plain,
        shuffle=_PARTS,
    ),
)

FETCHED = tuple(entry.name for entry in KNOWN if entry.fetched)
