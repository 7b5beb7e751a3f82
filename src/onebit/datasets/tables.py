"""Data sets that are tables: the built-in digits, and npz files."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse


class Dataset(NamedTuple):
    """Rows and their true labels."""

    name: str
    about: str
    X: Any  # an array or a CSR matrix
    y: np.ndarray  # 0..K-1
    labels: list[Any]  # what 0..K-1 mean


def digits() -> Dataset:
    """1,797 images of handwritten digits, 8 x 8 (Alpaydin & Kaynak 1998, test part; UCI, CC BY
    4.0).

    The same as scikit-learn's `load_digits`, with a constant feature added and rows of length 1.
    """
    with np.load(Path(__file__).parent / "digits.npz") as stored:
        pixels, y = stored["X"].astype(np.float32), stored["y"].astype(np.int64)
    X = np.hstack([pixels, np.full((len(pixels), 1), 8, np.float32)])
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    about = "1,797 images of 8 x 8 pixels, 10 labels; constant feature, rows of length 1"
    return Dataset("digits", about, X, y, list(range(10)))


def npz(path: str | os.PathLike[str]) -> Dataset:
    """A data set from an .npz file: y and X, or y and data, indices, indptr, shape (CSR)."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            fields = {name: stored[name] for name in stored.files}
    except (ValueError, TypeError, AttributeError, zipfile.BadZipFile, EOFError):
        raise ValueError(f"{os.fspath(path)}: not an npz file of plain arrays") from None
    if "X" in fields:
        X: Any = fields["X"]
    elif {"data", "indices", "indptr", "shape"} <= set(fields):
        parts = (fields["data"].astype(np.float32), fields["indices"], fields["indptr"])
        X = sparse.csr_matrix(parts, shape=tuple(np.ravel(fields["shape"]).tolist()))
    else:
        raise ValueError(
            f"{os.fspath(path)}: needs X, or data, indices, indptr and shape; it has {list(fields)}"
        )
    if X.ndim != 2 or X.shape[0] == 0:
        raise ValueError(f"{os.fspath(path)}: X must be a matrix with rows, not of shape {X.shape}")
    if "y" not in fields or fields["y"].shape != (X.shape[0],):
        raise ValueError(f"{os.fspath(path)}: needs y, one label for each of {X.shape[0]} rows")
    labels, y = np.unique(fields["y"], return_inverse=True)
    if len(labels) < 2 or (len(labels) == len(y) > 2 and fields["y"].dtype.kind == "f"):
        raise ValueError(
            f"{os.fspath(path)}: y has {len(labels)} different values in {len(y)} rows; "
            "it must name at least two classes"
        )
    about = f"{X.shape[0]:,} rows, {X.shape[1]:,} features, {len(labels)} labels"
    return Dataset(Path(path).stem, about, X, y.astype(np.int64), labels.tolist())
