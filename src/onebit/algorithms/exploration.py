"""The exploration setting: the share of rounds in which a uniformly random label is said."""

from __future__ import annotations

from typing import Any

from onebit.core.settings import Range, setting

TRIED = "the share of rounds in which a random label is said"


def exploration(default: float, doc: str = TRIED, *, or_zero: bool = False) -> Any:
    """The exploration setting. or_zero: 0 is allowed."""
    bound: Any = {"least": 0} if or_zero else {"above": 0}
    return setting(
        default=default, **bound, most=1, search=Range(0.001, 0.5, or_zero=or_zero), doc=doc
    )
