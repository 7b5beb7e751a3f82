"""Checks of what requests bring."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

import msgspec
import numpy as np

from onebit.service.engine.building import REFUSED
from onebit.service.faults import Refused

_encode = msgspec.json.Encoder().encode


def stored_context(context: Any) -> bytes:
    """A context as the journal keeps it: JSON."""
    if isinstance(context, np.ndarray):
        context = context.tolist()
    elif isinstance(context, tuple) and len(context) == 2:
        context = list(zip(*(np.asarray(part).tolist() for part in context), strict=True))
    try:
        stored = _encode(context)
    except (TypeError, ValueError) as error:
        raise Refused(f"a context is JSON: {error}", where="$.context") from None
    if b"null" in stored:  # which is what becomes of numbers that are none
        is_dict = isinstance(context, Mapping)  # in a list, null is a missing number, as NaN is
        values = context.values() if is_dict else [value for value in context if value == value]
        if any(isinstance(value, float) and not isfinite(value) for value in values):
            raise Refused("a context has a number that is not finite", where="$.context")
    return stored


def check_text(text: str | None, where: str) -> None:
    """Refuse what cannot be written as UTF-8: halves of surrogate pairs."""
    try:
        (text or "").encode()
    except UnicodeEncodeError:
        raise Refused("not text that can be stored as UTF-8", where=where) from None


class refusing:
    """What a learner refuses becomes a fault of the request."""

    __slots__ = ("where",)

    def __init__(self, where: str) -> None:
        self.where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, REFUSED):
            raise Refused(str(error), where=self.where) from None
