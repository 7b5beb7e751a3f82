"""Optional dependencies: modules of an extra, and how to install what is missing.

The extras (`lab`, `serve`, `sklearn`, `river`, `cluster`) are declared in pyproject.toml.
"""

from __future__ import annotations

import importlib
from typing import Any


def how_to_install(extra: str, package: str = "") -> str:
    """The command that installs an extra, or only one package of it."""
    remedy = f"pip install '.[{extra}]' in a clone of onebit"
    return f"{remedy}, or pip install {package}" if package else remedy


def optional_module(module: str, package: str, purpose: str, extra: str = "lab") -> Any:
    """A module that may not be installed. purpose: the beginning of the error's sentence."""
    try:
        importlib.import_module(module.partition(".")[0])
        return importlib.import_module(module)
    except ImportError:
        raise ValueError(
            f"{purpose} {package}, which is not installed; {how_to_install(extra, package)}"
        ) from None
