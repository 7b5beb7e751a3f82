"""Data sets that are tables: the built-in digits and iris, and npz files."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from onebit.datasets.blocks import AnyPath, stem

_WHOLE = re.compile(r"(0|[-+]?[1-9][0-9]{0,15})(?:\.0)?")
CSR = ("data", "indices", "indptr", "shape")


class Dataset(NamedTuple):
    """Rows, and which labels are right in them."""

    name: str
    about: str
    X: Any  # an array or a CSR matrix
    y: np.ndarray  # 0..K-1; or [row, label]: 1 where a label is right, else 0, or its chance
    labels: list[Any]  # the names of 0..K-1
    comparator: np.ndarray | None = None  # good weights [label, feature], of synthetic data
    columns: list[str] | None = None  # their names, of a table of numbers


def digits() -> Dataset:
    """1,797 images of handwritten digits, 8 x 8 (Alpaydin & Kaynak 1998, test part; UCI, CC BY
    4.0).

    The same as scikit-learn's `load_digits`, with a constant feature added and rows of length 1.
    """
    stored = fields_of(Path(__file__).with_name("digits.npz"))
    pixels, y = stored["X"].astype(np.float32), stored["y"].astype(np.int64)
    X = np.hstack([pixels, np.full((len(pixels), 1), 8, np.float32)])
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    about = "1,797 images of 8 x 8 pixels, 10 labels; constant feature, rows of length 1"
    return Dataset("digits", about, X, y, list(range(10)))


def iris() -> Dataset:
    """150 flowers by four measurements in cm (Fisher 1936; UCI, CC BY 4.0).

    The same as scikit-learn's `load_iris`. Rows are sorted by label.
    """
    stored = fields_of(Path(__file__).with_name("iris.npz"))
    X, y = stored["X"].astype(np.float32) / 10, stored["y"].astype(np.int64)
    about = "150 flowers by 4 measurements in cm, 3 labels; sorted by label: shuffle"
    return Dataset("iris", about, X, y, stored["classes"].tolist())


def npz(path: AnyPath) -> Dataset:
    """A data set from an .npz file: y and X, or y and data, indices, indptr, shape (CSR).

    X may be images, of shape [n, h, w] or [n, h, w, c]; their rows are flattened. With `classes`
    (names), y holds their positions. Where several labels may be right, or none, y is a matrix
    with a column per label (in the order of `classes`): 1 where the label is right, else 0, or the
    chance that it is right.
    """
    return table_of(path, fields_of(path))


def fields_of(path: AnyPath) -> dict[str, Any]:
    """All fields of an npz file, with the rows as X."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            fields = {name: stored[name] for name in stored.files}
    except (ValueError, TypeError, AttributeError, zipfile.BadZipFile, EOFError):
        raise ValueError(f"{path}: not an npz file of plain arrays") from None
    if "X" not in fields:
        check_names(path, list(fields))
        data, indices, indptr, shape = (fields[name] for name in CSR)
        parts = (data.astype(np.float32), indices, indptr)
        fields["X"] = sparse.csr_matrix(parts, shape=tuple(np.ravel(shape).tolist()))
    elif fields["X"].ndim in (3, 4):
        fields["X"] = fields["X"].reshape(len(fields["X"]), -1)
    return fields


def check_names(path: AnyPath, names: list[str]) -> None:
    """Refuse a file without rows."""
    if "X" not in names and not set(CSR) <= set(names):
        raise ValueError(f"{path}: needs X, or data, indices, indptr and shape; it has {names}")


def table_of(path: AnyPath, fields: dict[str, Any]) -> Dataset:
    """The data set of these fields of a file."""
    check_shapes(path, fields["X"].shape, fields["y"].shape if "y" in fields else None)
    given, classes = fields["y"], fields.get("classes")
    places = rights_of if given.ndim == 2 else places_of
    return dataset_of(path, fields["X"], *places(path, given, classes))


def dataset_of(
    path: AnyPath, X: Any, y: np.ndarray, labels: list[Any], columns: list[str] | None = None
) -> Dataset:
    """The data set of a file with these rows."""
    about = f"{X.shape[0]:,} rows, {X.shape[1]:,} features, {len(labels)} labels"
    return Dataset(stem(path), about, X, y, labels, columns=columns)


def check_shapes(path: AnyPath, X: tuple[int, ...], y: tuple[int, ...] | None) -> None:
    """Refuse an X without rows, and a y that has no label, or no row of a matrix, for each."""
    if len(X) not in (2, 3, 4) or X[0] == 0:
        raise ValueError(f"{path}: X must be a matrix with rows, or images, not of shape {X}")
    if y is None or len(y) not in (1, 2) or y[0] != X[0]:
        raise ValueError(f"{path}: needs y, one label for each of {X[0]} rows")
    if len(y) == 2 and y[1] < 2:
        raise ValueError(
            f"{path}: y has the shape {y}; it needs one dimension, or a column for each label"
        )


def are_missing(y: np.ndarray) -> np.ndarray:
    """Which labels are missing: NaN, or empty."""
    if y.dtype.kind == "f":
        return np.isnan(y)
    return np.char.strip(y) == "" if y.dtype.kind == "U" else np.zeros(len(y), np.bool_)


def check_places(path: AnyPath, y: np.ndarray, classes: int, before: int = 0) -> None:
    """Refuse labels that are no places among the classes. before: rows in earlier blocks."""
    wrong = (y < 0) | (y >= classes)
    if wrong.any():
        raise ValueError(
            f"{path}: row {before + np.argmax(wrong) + 1} has no name among the "
            f"{classes} classes; y holds places in classes, from 0"
        )


def places_of(
    path: AnyPath, given: np.ndarray, classes: np.ndarray | None
) -> tuple[np.ndarray, list[Any]]:
    """Labels as places, and their names: `classes` if given, else the values found."""
    found, y = np.unique(given, return_inverse=True)
    if classes is not None and given.dtype.kind in "iu":
        check_places(path, given, len(classes))
        return given.astype(np.int64), names_of(classes.tolist())
    if len(found) < 2 or (len(found) == len(y) > 2 and given.dtype.kind == "f"):
        raise ValueError(
            f"{path}: y has {len(found)} different values in {len(y)} rows; "
            "there must be at least two classes"
        )
    return y.astype(np.int64), found.tolist()


def rights_of(
    path: AnyPath, given: np.ndarray, classes: np.ndarray | None
) -> tuple[np.ndarray, list[Any]]:
    """A matrix of which labels are right, and their names: `classes` if given, else 0, 1, 2, ..."""
    names = list(range(given.shape[1])) if classes is None else names_of(classes.tolist())
    if len(names) != given.shape[1]:
        raise ValueError(
            f"{path}: y has {given.shape[1]} columns, and there are {len(names)} classes"
        )
    if given.dtype.kind not in "biuf" or not ((given >= 0) & (given <= 1)).all():
        raise ValueError(
            f"{path}: y is a matrix, and needs 1 where a label is right, 0 where it is wrong, or "
            "the chance that it is right"
        )
    return given, names


def names_of(found: list[Any]) -> list[Any]:
    """Names of labels: ints if all are whole numbers and no two of them the same, else as found."""
    numbers = [whole_number(label) for label in found]
    return found if None in numbers or len(set(numbers)) < len(found) else numbers


def whole_number(label: Any) -> int | None:
    """The label as an int, if it is written as a whole number usually is: 1, -1, +1, or 1.0 in a
    column of floats. "01" and "1_0" are names. The number is one that a float holds exactly."""
    written = _WHOLE.fullmatch(str(label))
    number = int(written[1]) if written else 2**53
    return number if abs(number) < 2**53 else None
