"""Checks of settings: a wrong one is named, with what would be right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real


def real(
    name: str,
    value: float,
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
) -> float:
    """`value` as a float within the bounds, or an error that names them."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, not {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    bounds = [
        (above, "above", lambda bound: number > bound),
        (least, "at least", lambda bound: number >= bound),
        (below, "below", lambda bound: number < bound),
        (most, "at most", lambda bound: number <= bound),
    ]
    stated = [(bound, words, holds) for bound, words, holds in bounds if bound is not None]
    if not math.isfinite(number) or not all(holds(bound) for bound, _, holds in stated):
        wanted = " and ".join(f"{words} {bound:g}" for bound, words, _ in stated) or "finite"
        raise ValueError(f"{name} must be {wanted}, not {value!r}")
    return number


def whole(name: str, value: int, *, least: int, most: int) -> int:
    """`value` as an int within the bounds, or an error that names them."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number, not {value!r}")
    if not least <= value <= most:
        raise ValueError(f"{name} must be between {least} and {most}, not {value!r}")
    return int(value)


def flag(name: str, value: bool) -> bool:
    """`value` itself, if it is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {value!r}")
    return value


def choice_of(name: str, value: str, choices: Sequence[str]) -> str:
    """`value` itself, if it is one of the choices."""
    if value not in choices:
        names = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be one of {names}, not {value!r}")
    return value
