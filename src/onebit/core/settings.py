"""Settings: their declaration, the checks of their values, and the ranges that `tune` searches."""

from __future__ import annotations

import difflib
import functools
import inspect
import math
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np


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
        raise TypeError(f"{name} must be a number, not {shown(value)}")
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
        raise ValueError(f"{name} must be {wanted}, not {shown(value)}")
    return number


def whole(name: str, value: int, *, least: int, most: int) -> int:
    """`value` as an int within the bounds, or an error that names them."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number, not {shown(value)}")
    if not least <= value <= most:
        raise ValueError(f"{name} must be between {least} and {most}, not {shown(value)}")
    return int(value)


LONGEST_SHOWN = 100  # characters of a value in a message


def shown(value: Any) -> str:
    """A value for a message: as Python writes it, but cut; of an array, its shape."""
    if hasattr(value, "shape") and hasattr(value, "ndim") and value.ndim:
        return f"{type(value).__name__} of shape {value.shape}"
    text = " ".join(repr(value).split())
    if len(text) <= LONGEST_SHOWN:
        return text
    size = f" of {len(value):,}" if hasattr(value, "__len__") else ""
    return f"{text[: LONGEST_SHOWN // 2]}... ({type(value).__name__}{size})"


def flag(name: str, value: bool) -> bool:
    """`value`, which must be True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {shown(value)}")
    return value


def function_or_none(name: str, value: Any) -> Any:
    """`value`, which must be a function or None."""
    if value is not None and not callable(value):
        raise TypeError(f"{name} must be a function, not {shown(value)}")
    return value


def bit(name: str, value: Any) -> bool:
    """`value` as True or False. 0 and 1, as databases store them, are accepted."""
    whole: Any = value
    if isinstance(value, np.bool_) or (isinstance(value, Integral) and whole in (0, 1)):
        return bool(whole)
    return flag(name, whole)


def choice_of(name: str, value: str, choices: Sequence[str]) -> str:
    """`value`, which must be one of the choices."""
    if value not in choices:
        names = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be one of {names}, not {shown(value)}")
    return value


# Messages name an argument as the user wrote it: in Python, or on a command line.

_typed: ContextVar[bool] = ContextVar("typed", default=False)


@contextmanager
def command_line() -> Iterator[None]:
    """A context in which messages name command-line options instead of Python arguments."""
    before = _typed.set(True)
    try:
        yield
    finally:
        _typed.reset(before)


def argument(name: str, value: Any = None) -> str:
    """An argument for a message: "categories=['zip']", or "--categories zip" on a command line."""
    if not _typed.get():
        return f"{name}=" if value is None else f"{name}={value!r}"
    words = [f"--{name.replace('_', '-')}"]
    if value is not None and value is not True:
        listed = isinstance(value, list | tuple)
        words.append(shlex.quote(",".join(map(str, value)) if listed else str(value)))
    return " ".join(words)


def warn(message: str) -> None:
    """Warn, at the line of the user's code that led here."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] == "onebit":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)


# The settings of a learner: its own, and those shared by all learners.

SHARED = (
    "features", "vocabulary", "seed", "dtype", "silence", "half_life", "inputs", "explore",
)  # fmt: skip


def own_settings(learner: type) -> list[str]:
    """The names of a learner's own settings."""
    parameters = inspect.signature(learner).parameters.values()
    named = [parameter.name for parameter in parameters if parameter.kind == parameter.KEYWORD_ONLY]
    return [name for name in named if name not in (*SHARED, "examples")]


def unknown_setting(learner: type, name: str, of_the_run: Sequence[str] = ()) -> str:
    """The message about a setting that a learner does not have.

    of_the_run: the shared settings that cannot be given here.
    """
    own = own_settings(learner)
    shared = ", ".join(known for known in SHARED if known not in of_the_run)
    run = f" ({', '.join(of_the_run)} belong to the run)" if of_the_run else ""
    near = difflib.get_close_matches(name, [*own, *SHARED], n=1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    has = ", ".join(own) or "no settings of its own"
    return (
        f"no setting {name!r} for {learner.__name__}; it has {has}, "
        f"and like every learner {shared}{run}{meant}"
    )


CALLABLE = "callable "  # the prefix of a function's text among settings


def called(function: Any) -> str:
    """A function as text: "callable rbf_kernel(gamma=2)"."""
    return CALLABLE + _call_of(function)


def _call_of(function: Any) -> str:
    if isinstance(function, functools.partial):
        given = [*map(_short, function.args)]
        given += [f"{key}={_short(value)}" for key, value in function.keywords.items()]
        return f"{_call_of(function.func)}({', '.join(given)})"
    return getattr(function, "__name__", type(function).__name__)


def _short(value: Any) -> str:
    """Plain values as they are; others by their type, because their repr may change."""
    return repr(value) if isinstance(value, str | int | float) else type(value).__name__


@dataclass(frozen=True)
class Range:
    """The range in which `tune` searches; values outside it may be allowed, too.

    Steps multiply (0.01, 0.1, 1), unless they are `even`. or_zero: 0 is tried as well.
    """

    low: float
    high: float
    even: bool = False
    or_zero: bool = False

    def at(self, share: float) -> float:
        """The value at a share of the way from low to high, to three digits."""
        if self.or_zero:
            if share < 1 / 8:
                return 0.0
            share = (share - 1 / 8) / (7 / 8)
        if self.even:
            value = self.low + share * (self.high - self.low)
        else:
            value = self.low * (self.high / self.low) ** share
        return min(max(float(f"{value:.3g}"), self.low), self.high)

    def share(self, value: float) -> float:
        """The inverse of `at`: the share of the way from low to high at which a value lies."""
        if self.even:
            return (value - self.low) / (self.high - self.low)
        return math.log(value / self.low) / math.log(self.high / self.low)


# A setting, declared once in the body of a learner's class.

REQUIRED: Any = object()


@dataclass(frozen=True, eq=False)
class Setting:
    """A setting: its default, the check of a value, and the range that `tune` searches."""

    default: Any  # a value, or a function from the learner with the settings declared before
    check: Callable[[str, Any], Any]
    search: Range | tuple[Any, ...] | None
    doc: str
    is_number: bool  # compiled code can read it
    in_use: Callable[[Any], bool]  # whether it has a meaning beside the learner's other settings

    def __get__(self, learner: Any, kind: type | None = None) -> Any:
        return self if learner is None else learner.setting_values[self]

    @property
    def shown(self) -> str:
        """The default as text."""
        return "computed" if callable(self.default) else repr(self.default)


def setting(
    default: Any = REQUIRED,
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
    choices: Sequence[str] = (),
    search: Range | Sequence[Any] | None = None,
    check: Callable[[str, Any], Any] | None = None,
    in_use: Callable[[Any], bool] = lambda learner: True,
    kw_only: bool = True,
    alias: str = "",
    doc: str,
) -> Any:
    """Declare a setting of a learner.

        gamma: float = setting(default=0.05, above=0, most=1, search=Range(0.001, 0.5), doc="...")

    default: a value, or a function of the learner that computes it from the settings declared
    before. Write `default=`: without the name, type checkers take the setting for a required one.
    The type of the default says which values are possible: True or False, whole numbers between
    `least` and `most`, one of the `choices`, or real numbers within the bounds. For other values,
    pass `check(name, value)`. search: where `tune` looks for good values. in_use: whether the
    setting has a meaning beside the learner's other settings; if not, it is left out of
    `Learner.settings`. kw_only, alias: for type checkers. doc: what the setting means.
    """
    is_number = check is None and not choices and in_use is not named_by_storage
    if check is not None:
        checked = check
    elif choices:
        checked = functools.partial(choice_of, choices=choices)
    elif isinstance(default, bool):
        checked = flag
    elif isinstance(default, int):
        if isinstance(search, Range):
            raise TypeError(
                f"whole numbers are searched by a list, such as [10, 100], not by a {search}; for "
                f"real numbers, write the default as {float(default)}"
            )
        bounds: Any = {"least": least, "most": most}
        checked = functools.partial(whole, **bounds)
    else:
        checked = functools.partial(real, above=above, least=least, below=below, most=most)
    tried = search if search is None or isinstance(search, Range) else tuple(search)
    return Setting(default, checked, tried, doc, is_number, in_use)


def or_none(check: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    """A check that lets None pass."""
    return lambda name, value: None if value is None else check(name, value)


def named_by_storage(learner: Any) -> bool:
    """For `in_use`, if the storage that the setting chooses adds it to `Learner.settings`."""
    return False
