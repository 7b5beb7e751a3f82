"""A decision: what was said, how likely it was, on what context. A value, not a handle.

It carries all that learning will need, so feedback may come in any order, on another day, in
another process. `Learner.learn` checks every number of it against what the algorithm can have
written, whoever made or changed it.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import numpy as np

_MAGIC = b"1bit\x01"
_DIGEST = 8
MOST_BYTES = 64 * 2**20
MOST_ROUNDS = 2**62


class Decision(msgspec.Struct, frozen=True, eq=False, gc=False):
    """What `Learner.decide` returns and `Learner.learn` takes back."""

    label: str | int  # what was said
    greedy: str | int  # the best-scoring label
    propensity: float  # the probability with which the label was said
    round: int
    # For learning only:
    row: tuple[Any, Any]  # the indices and values of the context
    place: int
    greedy_place: int
    note: float
    other: float
    size: int  # how many labels there were
    among: tuple[int, ...] | None  # which of them were possible, if not all
    origin: bytes  # which learner said it
    salt: str = ""  # which of several deciders of one model

    @property
    def indices(self) -> np.ndarray:
        """Which features the context has, in increasing order: a view, to be read only."""
        return _read_only(self.row[0])

    @property
    def values(self) -> np.ndarray:
        """Their values: a view, to be read only."""
        return _read_only(self.row[1])

    @property
    def explored(self) -> bool:
        """Whether something other than the greedy label was said."""
        return self.place != self.greedy_place

    def __repr__(self) -> str:
        explored = ", explored" if self.explored else ""
        return (
            f"Decision({self.label!r}, propensity={self.propensity:.4g}, "
            f"round={self.round}{explored}, {len(self.indices)} features)"
        )

    def to_bytes(self) -> bytes:
        """The decision as bytes, to be kept until the feedback comes; with a checksum."""
        fields = _Stored(
            **{name: _plain(getattr(self, name)) for name in _SAME},
            dtype=self.values.dtype.name,
            indices=self.indices.astype("<u4").tobytes(),
            values=self.values.astype(self.values.dtype.newbyteorder("<")).tobytes(),
        )
        body = _MAGIC + msgspec.msgpack.encode(fields)
        if len(body) + _DIGEST > MOST_BYTES:
            raise ValueError(f"a decision of {len(body)} bytes: more than {MOST_BYTES}")
        return body + hashlib.blake2b(body, digest_size=_DIGEST).digest()

    @classmethod
    def from_bytes(cls, data: bytes) -> Decision:
        """A decision from what `to_bytes` gave; anything else is refused with a ValueError."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"a stored decision is bytes, not {type(data).__name__}")
        data = bytes(data)
        if len(data) > MOST_BYTES:
            raise ValueError(f"a stored decision of {len(data)} bytes: more than {MOST_BYTES}")
        body, digest = data[:-_DIGEST], data[-_DIGEST:]
        if not body.startswith(_MAGIC):
            raise ValueError("these bytes are not a onebit decision")
        if hashlib.blake2b(body, digest_size=_DIGEST).digest() != digest:
            raise ValueError("this decision is damaged: its checksum does not fit")
        try:
            stored = msgspec.msgpack.decode(body[len(_MAGIC) :], type=_Stored)
            return stored.decision()
        except (msgspec.MsgspecError, ValueError) as error:
            raise ValueError(f"this decision is damaged: {error}") from None


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


def _plain(value: Any) -> Any:
    """Uncompiled kernels answer with numpy's numbers."""
    return value.item() if isinstance(value, np.generic) else value


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    label: str | int
    greedy: str | int
    propensity: float
    round: int
    place: int
    greedy_place: int
    note: float
    other: float
    size: int
    among: tuple[int, ...] | None
    origin: bytes
    dtype: str
    indices: bytes
    values: bytes
    salt: str = ""

    def decision(self) -> Decision:
        if self.dtype not in ("float32", "float64"):
            raise ValueError(f"values of type {self.dtype}")
        dtype = np.dtype(self.dtype)
        indices = np.frombuffer(self.indices, "<u4").astype(np.uint32)
        values = np.frombuffer(self.values, dtype.newbyteorder("<")).astype(dtype)
        if min(self.place, self.greedy_place, self.round, *(self.among or (0,))) < 0:
            raise ValueError("a count in it is negative")
        if self.round >= MOST_ROUNDS:
            raise ValueError("its round is beyond counting")
        if self.among is not None and (
            self.place not in self.among or sorted(set(self.among)) != list(self.among)
        ):
            raise ValueError("its label is not one of those it had to choose from")
        if not (0 < self.propensity <= 1 and np.isfinite([self.note, self.other]).all()):
            raise ValueError("its propensity is not a probability")
        if len(indices) != len(values) or not np.isfinite(values).all():
            raise ValueError("its context is not a row of numbers")
        if (np.diff(indices.astype(np.int64)) <= 0).any():
            raise ValueError("the indices of its context do not increase")
        same = {name: getattr(self, name) for name in _SAME}
        return Decision(row=(indices, values), **same)


_SAME = [name for name in _Stored.__struct_fields__ if name not in ("dtype", "indices", "values")]
