"""Checks of what requests bring."""

from __future__ import annotations

from math import isfinite
from typing import Any

import msgspec

from onebit.reading.plain_contexts import plain_context
from onebit.service.engine.building import REFUSED
from onebit.service.faults import Refused, Unavailable

_encode = msgspec.json.Encoder().encode
_NAMES = frozenset({str})
_VALUES = frozenset({str, int, float, bool, type(None)})
_ENTRIES = frozenset({int, float, bool, type(None), list})


def stored_context(context: Any) -> bytes:
    """A context as the journal keeps it: JSON. A list of lists is one of pairs, as HTTP has it."""
    with refusing("$.context"):
        if not _is_plain(context):
            context = plain_context(context)
        stored = _encode(context)
        if b"null" in stored and not _is_finite(context):  # a number that is none became null
            stored = _encode(plain_context(context))
    return stored


def _is_plain(context: Any) -> bool:
    """Whether a context is written as JSON as it is."""
    if type(context) is dict:
        return _NAMES.issuperset(map(type, context)) and _VALUES.issuperset(
            map(type, context.values())
        )
    return type(context) is str or (
        type(context) is list and _ENTRIES.issuperset(map(type, context))
    )


def _is_finite(context: Any) -> bool:
    values = context.values() if isinstance(context, dict) else context
    return all(type(value) is not float or isfinite(value) for value in values)


def check_text(text: str | None, where: str) -> None:
    """Refuse what cannot be written as UTF-8: halves of surrogate pairs."""
    try:
        (text or "").encode()
    except UnicodeEncodeError:
        raise Refused("not text that can be stored as UTF-8", where=where) from None


class refusing:
    """What a learner refuses becomes a fault of the request, if memory is not what it lacks."""

    __slots__ = ("where",)

    def __init__(self, where: str) -> None:
        self.where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, MemoryError):
            raise Unavailable(f"there is not enough memory: {error}") from None
        if isinstance(error, REFUSED):
            raise Refused(str(error), where=self.where) from None
