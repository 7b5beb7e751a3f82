"""Kernels: their names, their numbers, and their values.

A learner with a kernel stores contexts instead of weights (`storage.stored_contexts`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from onebit.core.jit import inline
from onebit.core.settings import CALLABLE, choice_of, real, whole

KernelLike = str | Callable[[np.ndarray, np.ndarray], Any]
LINEAR, POLYNOMIAL, RBF, RATIONAL, GIVEN = range(5)
NUMBERS: dict[str, dict[str, float]] = {
    "linear": {},
    "polynomial": {"degree": 3, "gamma": 1.0, "constant": 1.0},
    "rbf": {"gamma": 1.0},
    "rational": {"nu": 0.5},
}
NAMES = tuple(NUMBERS)


class Kernel(NamedTuple):
    """A kernel with its numbers: one of NAMES, or the user's function."""

    kind: int
    scale: float  # gamma or nu
    constant: float
    degree: int
    function: int = 0  # the address of the callback that calls it; 0: none


@inline
def value(kernel, dot, square_x, square_y):
    """k(x, y) from the inner product and the squared lengths."""
    if kernel.kind == RBF:
        return math.exp(-kernel.scale * max(square_x + square_y - 2.0 * dot, 0.0))
    if kernel.kind == RATIONAL:
        return 1.0 / (1.0 - kernel.scale * dot)
    if kernel.kind == POLYNOMIAL:
        base, power = kernel.scale * dot + kernel.constant, 1.0
        for _ in range(kernel.degree):  # the same bits compiled and uncompiled
            power *= base
        return power
    return dot


def kernel_named(text: str) -> tuple[Kernel, str]:
    """The kernel with this name, and its full name: "rbf" is "rbf(gamma=1.0)"."""
    if not isinstance(text, str):
        raise TypeError(
            f"kernel must be a name such as 'rbf' or 'rbf(gamma=2)', or a function, not {text!r}"
        )
    if text.startswith(CALLABLE):
        raise ValueError(
            f"kernel {text!r} is a function, which a file cannot store: "
            "pass it again, load(path, kernel=...)"
        )
    found = re.fullmatch(r"(\w+)(?:\(([^()]*)\))?", text.strip())
    name = choice_of("kernel", found[1] if found else text, NAMES)
    numbers: dict[str, Any] = dict(NUMBERS[name])
    for pair in re.findall(r"[^,\s]+", found[2] or "" if found else ""):
        key, _, given = pair.partition("=")
        if key not in numbers:
            has = " and ".join(numbers) or "no numbers"
            raise ValueError(f"kernel {text!r}: {name} has {has}, as in '{_spelled(name)}'")
        try:
            numbers[key] = int(given) if key == "degree" else float(given)
        except ValueError:
            wanted = "whole number" if key == "degree" else "number"
            raise ValueError(f"kernel {text!r}: {key} must be a {wanted}, not {given!r}") from None
    kernel = Kernel(
        NAMES.index(name),
        real("nu", numbers["nu"], above=0, below=1)
        if "nu" in numbers
        else real("gamma", numbers.get("gamma", 1.0), above=0),
        real("constant", numbers.get("constant", 0.0), least=0),
        whole("degree", numbers.get("degree", 1), least=1, most=100),
    )
    return kernel, _spelled(name, numbers)


def _spelled(name: str, numbers: dict[str, Any] | None = None) -> str:
    pairs = (NUMBERS[name] if numbers is None else numbers).items()
    return f"{name}({' '.join(f'{key}={value!r}' for key, value in pairs)})" if pairs else name
