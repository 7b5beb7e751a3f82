"""Algorithm: what a learner says about its algorithm, and methods that it may override."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np

from onebit.core.settings import CALLABLE, called, shown
from onebit.core.slots import MARK
from onebit.learner.alarm import Alarm
from onebit.learner.decision import Decision
from onebit.learner.labels import LabelSet
from onebit.learner.table import Filling, Table
from onebit.reading.ways import Apart, Columns, Open, Raw, Unit
from onebit.storage.base import TABLE, Storage
from onebit.storage.scales import Columns as ColumnScales
from onebit.storage.scales import Names

Context = tuple[np.ndarray, np.ndarray] | None  # indices and values


class Algorithm:
    """The part of a learner's class that differs from algorithm to algorithm."""

    if TYPE_CHECKING:  # what these methods use of a learner
        Params: ClassVar[Any]
        planes: ClassVar[int]
        params: Any
        table: Table
        label_set: LabelSet
        features: int | None
        inputs: Any
        _dtype: np.dtype

    rescores = True  # whether learning reads the row's present scores
    # The version of its arithmetic, here of what all learners share. Raise it if the same events
    # make another learner, also by another default; tests/golden is then recorded anew.
    BITS: ClassVar[int] = 1
    # The scores of a label that is surely wrong and of one that is surely right, if scores estimate
    # the chance of being right.
    forecasts: ClassVar[tuple[float, float] | None] = None
    shares_chances: ClassVar[bool] = False  # a new label changes those of the others
    importance_weighted: ClassVar[bool] = False  # one update stands for all labels, weighted by 1/P
    infers_the_other: ClassVar[bool] = False  # wrong means that the other of two labels is right
    added_settings: ClassVar[dict[str, Any]] = {}  # unnamed in older files: what they meant then
    costly: ClassVar[bool] = False  # a round takes d^2 or more, at the defaults too
    variant_of: ClassVar[str] = ""  # the learner that it is at its defaults: not in races by itself
    hears_empty: ClassVar[bool] = False  # empty contexts teach it, too (`core.rounds.teaches`)
    scales_itself: ClassVar[bool] = False  # its storage scales contexts; `inputs` is its own
    shows_lists: ClassVar[bool] = False  # there is a sound rule for lists (`core.lists`)
    no_lists: ClassVar[str] = "its update is for a single said label"  # why it shows none
    entangled = False  # an answer about a label changes the scores of other labels, too
    may_pause: ClassVar[bool] = False  # `pause` may have something to do after learning
    alarm: ClassVar[Alarm] = Alarm()
    earlier_memories: ClassVar[tuple[int, ...]] = (0,)  # sizes of `_memory` in earlier versions
    needs: ClassVar[str] = ""  # a setting without a default that only Python can give

    def _had_it_said(self, decision: Decision, place: int) -> Decision:
        """The decision as if the label at `place` had been said with probability 1."""
        among, size = decision.among, decision.size
        return msgspec.structs.replace(
            decision,
            place=place,
            label=self.label_set.names[place],
            propensity=1.0,
            among=among if among is None else tuple(sorted({*among, place})),
            size=size if place < size else self.table.size,
        )

    def _read_names(self, labels: Sequence[Any], descriptions: Sequence[Any]) -> list[Context]:
        """Names of labels as contexts, with their descriptions, if they have some; None: a name
        says nothing."""
        for label, description in zip(labels, descriptions, strict=False):
            if description is not None:
                raise TypeError(
                    f"{type(self).__name__} cannot read what {label!r} means: only OneBit reads "
                    "descriptions of labels; examples= are for every learner"
                )
        return []

    def _name(self, names: Sequence[Context], first: int = 0) -> None:
        """Take over such names, of the labels from this place on."""

    def _check_settings(self) -> None:
        """Refuse settings that contradict each other."""

    def _make_storage(self) -> Storage:
        """The storage: the state besides the table."""
        return TABLE

    def _way(self, storage: Storage, scales: Any) -> Raw:
        """How contexts are read, with this storage and these scales."""
        if type(scales) is ColumnScales:
            return Columns(self.features, len(scales.row))
        if type(scales) is Names:
            return (Open if self.inputs == "auto" else Apart)(self._dtype, self.features, MARK)
        return (Unit if self.inputs == "unit" else Raw)(self._dtype, self.features)

    @classmethod
    def _from_earlier(cls, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The arrays of an earlier version, with which a service goes on (`files.taken_over`)."""
        return arrays

    def _make_params(self) -> Any:
        """The record of settings for compiled code."""
        return self.Params(*(getattr(self, name) for name in self.Params._fields))

    def _fill(self) -> tuple[float, ...]:
        """The initial value of each plane of the table."""
        return (0.0,) * self.planes

    def _filling(self) -> Filling:
        """`_fill`, as a function of the numbers besides the table."""
        values = self._fill()
        return lambda memory: values

    def _memory(self) -> tuple[float, ...]:
        """The initial values of a few numbers besides the table."""
        return ()

    def _params_for_truth(self) -> Any:
        """The settings for learning from a label that somebody named."""
        return self.params

    def _faded(
        self, table: np.ndarray, memory: np.ndarray, keep: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Table and memory with only a share of the evidence kept."""
        if self.planes == 2:  # w = b/A and 1/A: b and what A has beyond its prior are sums
            # In this form a prior never changes, to the last bit.
            prior = float(self._dtype.type(self._fill()[1]))
            grown = keep + (1 - keep) * (table[:, 1] / prior)
            table[:, 0] *= keep / grown
            table[:, 1] /= grown
            return table, keep * memory
        return keep * table, keep * memory

    def _is_sound(self, table: np.ndarray, memory: np.ndarray) -> bool:
        """Whether learning can produce such numbers, up to rounding; a check of model files."""
        if self.planes == 2 and type(self)._faded is Algorithm._faded and self._fill()[1] > 0:
            prior = self._fill()[1]
            return bool(((table[:, 1] >= 0) & (table[:, 1] <= prior * (1 + 1e-5))).all())
        return True

    def _mended(
        self, table: np.ndarray, memory: np.ndarray, arrays: dict[str, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """Loaded numbers; derived ones are computed again if they do not match the others."""
        table, arrays = self.table.storage.mended(table, arrays)
        return table, memory, arrays

    @classmethod
    def _settings_beside(
        cls, head: dict[str, Any], arrays: dict[str, np.ndarray], given: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Settings that are not in the head: from the arrays of a model, and arguments of `load`.

        A ValueError says which setting is missing or not wanted.
        """
        for name, function in given.items():
            saved = head["settings"].get(name)
            if not isinstance(saved, str) or not saved.startswith(CALLABLE):
                raise ValueError(f"this {cls.__name__} was saved completely: leave out {name}")
            if not callable(function):
                raise ValueError(f"{name} must be a function again, not {shown(function)}")
            if called(function) != saved:
                raise ValueError(f"it was saved with {name} {saved!r}, not {called(function)!r}")
        return dict(given)

    def _weights(self) -> np.ndarray:
        """The effective weights [label, feature]."""
        if self.planes:
            return self.table.plane(0)
        return self.table.storage.weights(self.table.state.held, self.table.size)
