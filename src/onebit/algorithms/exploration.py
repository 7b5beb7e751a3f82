"""The setting of learners that say a label drawn uniformly in a share of the rounds."""

from __future__ import annotations

from typing import Any

from onebit.settings import Range, setting

TRIED = "how often any label is tried"


def exploration(default: float, doc: str = TRIED, *, or_zero: bool = False) -> Any:
    """The share of rounds; or_zero: 0 is allowed too."""
    bound: Any = {"least": 0} if or_zero else {"above": 0}
    return setting(
        default=default, **bound, most=1, search=Range(0.001, 0.5, or_zero=or_zero), doc=doc
    )
