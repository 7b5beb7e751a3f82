"""Names of labels, in Python: their words, and what a state and a file have of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from onebit.algorithms.onebit.experts import FIRST_CURVATURE, FIRST_PULL
from onebit.algorithms.onebit.records import CURVATURE, ODDS, PULL, Names
from onebit.core.lanes import lanes_for

NAME_ARRAYS = ("name_places", "name_labels", "name_values")  # in a file: the entries of all names
PULLS = "name_pull"
FRESH_PULL = np.array([FIRST_PULL, FIRST_CURVATURE, 0.0])

_LETTER = re.compile(r"[^\W\d_]")
_CAMEL = re.compile(r"(?<=[^\W\d_A-Z])(?=[A-Z])")
_JOINTS = re.compile(r"[\s_.:/\\-]+")


def context_of_name(label: Any, description: Any) -> Any:
    """What a label is called, as a context; None: a number says nothing.

    A description that is no text is a context by itself.
    """
    if description is not None and not isinstance(description, str):
        return description
    words = words_of_name(label) if isinstance(label, str) else ""
    return " ".join(filter(None, (words, description))) or None


def words_of_name(label: str) -> str:
    """The words of a name such as "lost_card", "rec.sport.hockey" or "AddToPlaylist"."""
    return _JOINTS.sub(" ", _CAMEL.sub(" ", label)).strip() if _LETTER.search(label) else ""


class Entries(NamedTuple):
    """The features of names, an entry for each name and feature."""

    places: np.ndarray
    labels: np.ndarray
    values: np.ndarray


NO_NAMES = Entries(np.zeros(0, np.uint32), np.zeros(0, np.int64), np.zeros(0))


def entries_of(names: Sequence[tuple[np.ndarray, int, np.ndarray]]) -> Entries:
    """The entries of names: the places of a name's features, its label, and its values."""
    places, labels, values = zip(*names, strict=True)
    sizes = [len(found) for found in places]
    sizes_of = np.abs(np.concatenate(values).astype(np.float64))
    entries = Entries(np.concatenate(places), np.repeat(np.array(labels), sizes), sizes_of)
    return Entries(*(part[sizes_of > 0] for part in entries))


def _sorted(places: np.ndarray, labels: np.ndarray, values: np.ndarray) -> Entries:
    order = np.lexsort((labels, places))
    return Entries(places[order].astype(np.uint32), labels[order], values[order])


def names_of_arrays(arrays: Mapping[str, np.ndarray]) -> Entries | None:
    """The entries that a file has."""
    return Entries(*(arrays[name] for name in NAME_ARRAYS)) if PULLS in arrays else None


def arrays_of_names(entries: Entries, before: Entries | None = None) -> dict[str, np.ndarray]:
    """The arrays of a file. before: of other labels."""
    parts = (np.concatenate(pair) for pair in zip(before or NO_NAMES, entries, strict=True))
    return dict(zip(NAME_ARRAYS, _sorted(*parts), strict=True))


def moved_names(arrays: Mapping[str, np.ndarray], places: np.ndarray) -> dict[str, np.ndarray]:
    """The arrays for a reordered table: row i is at places[i]."""
    entries = names_of_arrays(arrays)
    if entries is None:
        return {}
    return arrays_of_names(entries._replace(places=places[entries.places].astype(np.uint32)))


def record_of_names(entries: Entries, pull: np.ndarray, labels: int) -> Names:
    """The record of a state for so many labels."""
    places, starts = np.unique(entries.places, return_index=True)
    starts = np.append(starts, len(entries.places)).astype(np.int64)
    rarities = np.log(1.0 + labels / np.maximum(np.diff(starts), 1))
    parts = entries.values * np.repeat(rarities, np.diff(starts))
    lengths = np.sqrt(np.bincount(entries.labels, parts * parts, labels))
    return Names(
        places=places.astype(np.uint32),
        rarities=rarities,
        starts=starts,
        labels=entries.labels.copy(),
        parts=parts / lengths[entries.labels],
        pull=pull.copy(),
        likeness=np.zeros(lanes_for(labels)),
        values=entries.values.copy(),
    )


def arrays_of_record(names: Names, are_there: bool) -> dict[str, np.ndarray]:
    """The reverse of `record_of_names`."""
    if not are_there:
        return {}
    places = np.repeat(names.places, np.diff(names.starts))
    entries = (places, names.labels.copy(), names.values.copy())
    return dict(zip(NAME_ARRAYS, entries, strict=True)) | {PULLS: names.pull.copy()}


def are_names(arrays: Mapping[str, np.ndarray], features: int, labels: int) -> bool:
    """Whether saved arrays can be names of so many labels, in a table of so many features."""
    if any(name not in arrays for name in (*NAME_ARRAYS, PULLS)):
        return False
    places, of, values = (arrays[name] for name in NAME_ARRAYS)
    if (places.dtype, of.dtype, values.dtype) != (np.uint32, np.int64, np.float64):
        return False
    if places.ndim != 1 or not places.shape == of.shape == values.shape:
        return False
    after = places[1:].astype(np.int64) * labels + of[1:]
    are_sorted = (after > places[:-1].astype(np.int64) * labels + of[:-1]).all()
    return bool((places < features).all() and ((of >= 0) & (of < labels)).all() and are_sorted)


def are_sound_names(arrays: Mapping[str, np.ndarray]) -> bool:
    """Whether learning can produce such numbers."""
    pull = arrays[PULLS]
    return bool(pull[PULL] >= 0 and pull[CURVATURE] > 0 and (arrays["name_values"] > 0).all())


def faded_pull(pull: np.ndarray, keep: float) -> np.ndarray:
    """The pull as if a share of the answers had been heard."""
    faded = pull.copy()
    faded[CURVATURE] = FIRST_CURVATURE + keep * (pull[CURVATURE] - FIRST_CURVATURE)
    faded[ODDS] = keep * pull[ODDS]
    return faded
