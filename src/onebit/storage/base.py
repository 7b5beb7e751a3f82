"""The state of a learner besides its table of weights.

Most learners have only the table. `full` has matrices, `dual` the stored contexts of learners
with a kernel; an algorithm may have one of its own, as `OneBit` has (`algorithms.onebit`). An
algorithm is written once: the functions of `core.sums` and `core.updates` have a body for each
storage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from onebit.core.callback import Callback

_BLOCK = 2**22
Arrays = dict[str, np.ndarray]  # saved arrays, by name


class Storage:
    """The interface of a storage, and its defaults for a learner with only a table."""

    dtype = "float32"  # default of the table
    planes: int | None = None  # of the table, if the storage determines it
    rescores = False  # every algorithm must score the row again before it learns
    settings: Mapping[str, Any] = MappingProxyType({})  # settings that chose the storage
    unsaved: Mapping[str, Any] = MappingProxyType({})  # settings that a file cannot store
    check: Callable[..., None] | None = None  # (values, indptr=None): refuse contexts
    shares_blank = False  # to score a row, all features that never occurred may share a place
    callback: Callback | None = None  # a Python function that compiled code calls
    identity = b""  # of what it was made from besides the settings: see `Learner._fingerprint`
    works_beside = False  # in a thread, whose results `catch_up` takes over
    maps_features = False  # features may get rows of the table as they occur
    advice = "Hash the features into fewer columns with features="
    with_gaps: tuple[str, ...] = ()  # saved arrays in which NaN is a missing number

    def lay_out(self, arrays: Arrays, features: int, labels: int) -> Any:
        """The record for this many features and labels, with saved arrays, perhaps of fewer."""
        return None

    def room(self, held: Any) -> int:
        """For how many features the record has room."""
        return 2**63

    def arrays(self, held: Any, features: int, labels: int) -> Arrays:
        """The arrays to save: copies, without unused room."""
        return {}

    def fits(self, arrays: Arrays, features: int, labels: int) -> bool:
        """Whether saved arrays fit a learner with this many features and labels."""
        return not arrays

    def mended(self, table: np.ndarray, arrays: Arrays) -> tuple[np.ndarray, Arrays]:
        """Loaded arrays, with derived arrays computed again where they do not match the others."""
        return table, arrays

    def is_sound(self, table: np.ndarray, arrays: Arrays) -> bool:
        """Whether learning can produce such numbers, up to rounding; a check of model files."""
        return True

    def has_learned(self, held: Any, features: int, labels: int) -> bool:
        """Whether the record differs from the initial one."""
        initial = self.arrays(self.lay_out({}, features, labels), features, labels)
        learned = self.arrays(held, features, labels)
        return learned.keys() != initial.keys() or any(
            not np.array_equal(learned[name], initial[name]) for name in initial
        )

    def in_words(self, features: int, labels: int) -> str:
        """What the size depends on, in words."""
        return f"{features:,} features and {labels:,} labels"

    def size(self, features: int, labels: int) -> int:
        """How many bytes the record takes."""
        return 0

    def swing(self, features: int) -> int:
        """How much the saved bytes may vary, for contexts of this many features."""
        return 0

    def weights(self, held: Any, labels: int) -> np.ndarray:
        """The weights, for a storage without weights in the table."""
        return np.zeros((labels, 0))

    def moved(self, arrays: Arrays, places: np.ndarray) -> Arrays:
        """The arrays for a reordered table: row i is at places[i]."""
        return arrays

    def faded(self, table: np.ndarray, arrays: Arrays, keep: float) -> tuple[np.ndarray, Arrays]:
        """Table and arrays after forgetting all but a share of the evidence.

        The given ones must not change.
        """
        raise NotImplementedError

    def pause(self, held: Any, is_live: bool = False) -> Any:
        """Called when a loop over rounds has stopped (see `core.rounds.must_pause`).

        Returns the record to continue with, or None if there was nothing to do. is_live: somebody
        waits, so what takes long may go on in a thread.
        """
        return None

    def catch_up(self, held: Any) -> None:
        """Take over what a thread has found."""

    def lasting(self, arrays: Arrays) -> Arrays:
        """What stays when all that was learned is forgotten."""
        return {}

    def start_afresh(self) -> None:
        """Everything learned was forgotten."""

    def for_columns(self, columns: int) -> Storage | None:
        """The storage for dense rows of so many columns, if the storage scales contexts itself."""
        return None

    def for_saved(self, arrays: Arrays) -> Storage:
        """The storage that takes over saved arrays; a ValueError says why there is none."""
        return self

    def count_said(self, held: Any, label: int, times: int) -> None:
        """Add to the number of times that a label was said, if the record counts it."""

    def meet_label(self, state: Any, labels: int) -> None:
        """A label was added, the last of so many: give it what is not 0 at the beginning."""

    # What the record tells; None: it does not say.

    def one_right(self, held: Any) -> float | None:
        """The belief that exactly one label is right in each round."""
        return None

    def rates(self, held: Any) -> tuple[float, float] | None:
        """How often feedback is flipped, right and wrong."""
        return None

    # Numbers of dicts, for a storage that scales them itself.

    def knows_numbers(self, held: Any) -> bool:
        """Whether the scales of numbers of dicts were learned."""
        return False

    def with_numbers(self, held: Any, places: np.ndarray) -> Any:
        """The record, in which there are numbers of dicts at these places of the table."""
        return held

    def with_blank(self, held: Any, place: int) -> Any:
        """The record to read with, in which a number that never occurred has this place."""
        return held

    def guarded(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """The compiled function, which raises errors of its callback, if it has one."""
        return self.callback.guarded(compiled) if self.callback else compiled


class _Table(Storage):
    """The table alone."""

    maps_features = shares_blank = True


TABLE = _Table()


def row_blocks(table: np.ndarray) -> Iterator[slice]:
    """Slices of the rows of a table: a few million numbers each, so that copies stay small."""
    rows = max(1, _BLOCK // max(1, math.prod(table.shape[1:])))
    return (slice(start, start + rows) for start in range(0, len(table), rows))


def largest_square(values: np.ndarray, indptr: np.ndarray | None) -> float:
    """The largest squared length of the rows; without indptr, of a single row."""
    if not len(values):
        return 0.0
    starts = [0] if indptr is None else indptr[:-1][np.diff(indptr) > 0]
    with np.errstate(over="ignore"):
        return float(np.add.reduceat(np.square(values, dtype=np.float64), starts).max())
