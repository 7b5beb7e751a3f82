"""A decision: the said label, how sure the learner was, and the context. A value, not a handle.

A decision has everything that learning needs, so feedback may come in any order, on another day, in
another process. `Learner.learn` checks that the algorithm can have written every number in it.
"""

from __future__ import annotations

import hashlib
import itertools
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec.structs import fields
from numpy import ndarray

from onebit.core.settings import shown
from onebit.reading.rows import COLUMNS, NAMES

if TYPE_CHECKING:
    from onebit.learner.learner import Learner

_SAID = ("label", "greedy", "propensity", "confidence", "round", "kind", "salt")
_MAGIC = b"1bit\x01"
_DIGEST = 8
MOST_BYTES = 64 * 2**20
MOST_ROUNDS = 2**62
MOST_AHEAD = 10**9  # rounds: a decision from further ahead is refused
_UINT32 = np.dtype(np.uint32)


class Decision(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A decision: `Learner.decide` returns it, and `Learner.learn` takes it with the feedback."""

    label: str | int  # the said label
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
    among: tuple[int, ...] | None  # the possible ones, if not all were
    origin: bytes  # identifies the learner
    salt: str = ""  # identifies one of several processes that decide with one model
    confidence: float | None = None  # estimated chance that the label is right; None: no estimate
    kind: str = ""  # of the context: "names" or "columns"; empty: not known, or it is empty

    @property
    def indices(self) -> np.ndarray:
        """The features of the context, in increasing order: a read-only view."""
        return _read_only(self.row[0])

    @property
    def values(self) -> np.ndarray:
        """The values of the features: a read-only view."""
        return _read_only(self.row[1])

    @property
    def explored(self) -> bool:
        """Whether the said label is not the greedy one."""
        return self.place != self.greedy_place

    def __dir__(self) -> list[str]:
        """What is for users; the rest is for learning."""
        return sorted({*_SAID, "explored", "indices", "values", "to_bytes", "from_bytes"})

    def __repr__(self) -> str:
        explored = ", explored" if self.explored else ""
        sure = "" if self.confidence is None else f"confidence={self.confidence:.4g}, "
        return (
            f"Decision({self.label!r}, {sure}propensity={self.propensity:.4g}, "
            f"round={self.round}{explored}, {len(self.indices)} features)"
        )

    def to_bytes(self) -> bytes:
        """The decision as bytes with a checksum, to be stored until the feedback comes."""
        indices, values = self.row
        stored = (  # the fields of `_Stored`, in order
            self.label, self.greedy, self.propensity, self.round, self.place, self.greedy_place,
            self.note, self.other, self.size, self.among, self.origin, values.dtype.name,
            indices.astype("<u4", copy=False).tobytes(),
            values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes(), self.salt,
            self.confidence, self.kind,
        )  # fmt: skip
        body = _MAGIC + _encode(stored)
        if len(body) + _DIGEST > MOST_BYTES:
            raise ValueError(f"a decision of {len(body)} bytes: more than {MOST_BYTES}")
        return body + hashlib.blake2b(body, digest_size=_DIGEST).digest()

    @classmethod
    def from_bytes(cls, data: bytes) -> Decision:
        """The decision that `to_bytes` wrote; anything else is refused with a ValueError."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"a stored decision is bytes, not {type(data).__name__}")
        data = bytes(data)
        if len(data) > MOST_BYTES:
            raise ValueError(f"a stored decision of {len(data)} bytes: more than {MOST_BYTES}")
        body, digest = data[:-_DIGEST], data[-_DIGEST:]
        if not body.startswith(_MAGIC):
            hint = "; ListDecision.from_bytes reads a list" if body[:4] == _MAGIC[:4] else ""
            raise ValueError(f"these bytes are not a onebit decision{hint}")
        if hashlib.blake2b(body, digest_size=_DIGEST).digest() != digest:
            raise ValueError("this decision is damaged: its checksum does not fit")
        try:
            return _restored(msgspec.msgpack.decode(body[len(_MAGIC) :], type=_Stored))
        except (msgspec.MsgspecError, ValueError) as error:
            raise ValueError(f"this decision is damaged: {error}") from None


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


# Uncompiled entries return numpy numbers.
_encode = msgspec.msgpack.Encoder(enc_hook=lambda number: number.item()).encode


_SHARED = [name for name in Decision.__struct_fields__ if name != "row"]
_Stored: Any = msgspec.defstruct(  # what `to_bytes` writes: these fields, in this order
    "_Stored",
    [
        *((f.name, f.type) for f in fields(Decision) if f.name in _SHARED and f.required),
        *(("dtype", str), ("indices", bytes), ("values", bytes)),
        # Missing in earlier versions:
        *(("salt", str, ""), ("confidence", float | None, None), ("kind", str, "")),
    ],
    frozen=True,
    array_like=True,
)


def _restored(stored: Any) -> Decision:
    if stored.dtype not in ("float32", "float64"):
        raise ValueError(f"values of type {stored.dtype}")
    dtype = np.dtype(stored.dtype)
    indices = np.frombuffer(stored.indices, "<u4").astype(np.uint32)
    values = np.frombuffer(stored.values, dtype.newbyteorder("<")).astype(dtype)
    if min(stored.place, stored.greedy_place, stored.round, *(stored.among or (0,))) < 0:
        raise ValueError("a count in it is negative")
    if stored.round >= MOST_ROUNDS:
        raise ValueError("its round is too large")
    if stored.among is not None and (
        stored.place not in stored.among or sorted(set(stored.among)) != list(stored.among)
    ):
        raise ValueError("its label is not among its possible labels")
    if not (0 < stored.propensity <= 1 and np.isfinite([stored.note, stored.other]).all()):
        raise ValueError("its propensity is not a probability")
    if stored.confidence is not None and not 0 <= stored.confidence <= 1:
        raise ValueError("its confidence is not a probability")
    if stored.kind not in ("", NAMES, COLUMNS):
        raise ValueError("its context is of no known kind")
    are_gaps = np.isnan(values) & (dtype == np.float64)  # where columns are standardised
    if len(indices) != len(values) or not (np.isfinite(values) | are_gaps).all():
        raise ValueError("its context is not a row of numbers")
    if (np.diff(indices.astype(np.int64)) <= 0).any():
        raise ValueError("the indices of its context do not increase")
    shared = {name: getattr(stored, name) for name in _SHARED}
    return Decision(row=(indices, values), **shared)


def checked_decision(decision: Any, learner: Learner) -> Decision:
    """Refuse what is not a decision of this model; compiled code checks its numbers.

    A row in single precision becomes one in double precision where the learner reads such rows:
    those of earlier versions were not.
    """
    if type(decision) is not Decision:
        raise TypeError(f"learn needs the Decision that decide returned, not {shown(decision)}")
    if decision.origin != learner.origin:
        raise ValueError(
            "this decision was made by another learner, or by one with other settings or seed"
        )
    try:
        indices, values = decision.row
    except (TypeError, ValueError):
        indices = values = np.empty(())
    reader = learner.reader
    dtype = reader.dtype
    if type(values) is ndarray and values.dtype is not dtype and reader.way.columns:
        values = values.astype(dtype) if values.dtype == np.float32 else values
        decision = msgspec.structs.replace(decision, row=(indices, values))
    if not (
        type(indices) is type(values) is ndarray
        and (indices.dtype is _UINT32 or indices.dtype == _UINT32)
        and (values.dtype is dtype or values.dtype == dtype)
        and indices.ndim == values.ndim == 1
    ):
        raise ValueError(
            "this decision's context is not a row of indices and values, as decide made it"
        )
    if reader.check_values:
        reader.check_values(values)
    if decision.kind not in ("", NAMES, COLUMNS):
        raise ValueError(f"this decision's context is of no known kind: {decision.kind!r}")
    names, size, most = learner.label_set.names, decision.size, learner.table.size
    try:
        fits = (
            names[decision.place] == decision.label
            and names[decision.greedy_place] == decision.greedy
            and (size == most or (type(size) is int and 2 <= size < most))
            and (decision.among is None or _is_among(decision))
        )
    except IndexError:
        fits = False
    except TypeError:
        raise ValueError("this decision must have whole numbers for its round and labels") from None
    if not fits:
        raise ValueError("this decision has labels that this learner does not have")
    if type(decision.round) is not int or not 0 <= decision.round <= learner.round + MOST_AHEAD:
        raise ValueError(
            f"this decision is of round {decision.round}, and this learner is at round "
            f"{learner.round}: a decision cannot be that far ahead"
        )
    return decision


def _is_among(decision: Decision) -> bool:
    """Whether the possible labels exist, and the said and greedy label are among them."""
    places: Any = decision.among
    if type(places) is not tuple or not all(type(place) is int for place in places):
        return False
    inside = len(places) > 0 and places[0] >= 0 and places[-1] < decision.size
    rising = all(low < high for low, high in itertools.pairwise(places))
    return inside and rising and decision.place in places and decision.greedy_place in places


# Several processes may decide with one model. Each has a salt, which is part of its decisions.


def salted(seed: int, salt: str) -> int:
    """The seed for the draws of a process with this salt."""
    if not salt:
        return seed
    digest = hashlib.blake2b(f"{seed} {salt}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def check_salt(salt: Any) -> str:
    """The salt itself, if it can name a process."""
    if not isinstance(salt, str):
        raise TypeError(f"a salt is a string, such as 'web-3', not {salt!r}")
    if len(salt) > 100 or not salt.isprintable():
        raise ValueError(f"a salt is at most 100 printable characters, not {salt[:100]!r}")
    return salt
