"""Learners by name: the learners of this package, and those of imported modules.

A learner of this package is named by its class, "Banditron". A learner of another module is named
"Mine" or "module:Mine", after its module is imported: by Python's `import`, by `import_learners`,
or by `--import` on a command line. A name alone imports nothing, so a recipe or a study from an
untrusted source cannot run code.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any, NamedTuple

import onebit.algorithms  # noqa: F401 so that every learner is known by its name
from onebit.learner.learner import Learner


def import_learners(module: str) -> str:
    """Import a module that defines learners: by its name, or by the path of its file, "mine.py".

    The code of the module is executed. A name is also searched in the working folder. Returns the
    module's name.
    """
    path = Path(module)
    is_file = path.suffix == ".py"
    if is_file and not path.is_file():
        raise FileNotFoundError(f"{module} is not a file; name a module, or the path of its file")
    try:
        if is_file:
            return _import_file(path.resolve())
        return _import_from(Path.cwd(), module).__name__
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == module:
            remedy = "install it, or name the path of its file"
            raise ValueError(f"no module {module!r} is found; {remedy}") from None
        said = f"{type(error).__name__}: {error}"
        raise ValueError(f"{module} cannot be imported: {said}") from error


def _import_file(path: Path) -> str:
    name = path.stem
    known = sys.modules.get(name)
    if known is None and not name.isidentifier():
        raise ValueError(f"{name!r} cannot be the name of a module; rename the file")
    if known is None:
        known = _import_from(path.parent, name)
    file = getattr(known, "__file__", None)
    if file is None or Path(file).resolve() != path:
        raise ValueError(f"another module is called {name!r}; rename the file")
    return name


def _import_from(folder: Path, name: str) -> Any:
    """Import a module that may be in a folder, which is searched last and hides no other module."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    importlib.invalidate_caches()
    return importlib.import_module(name)


def learner_named(name: str) -> type[Learner]:
    """The class of this name, in any case; "module:Class" for a learner of another module."""
    module, colon, kind = name.rpartition(":")
    if colon:
        return _of_module(module, kind)
    for known, learner in Learner.registry.items():
        if name.lower() == known.lower():
            return learner
    named = {k.lower(): k for k, learner in Learner.registry.items() if not learner.needs}
    near = difflib.get_close_matches(name.lower(), named, n=1)
    known = f"there are {', '.join(sorted(named.values()))}."
    remedy = "Your own learner is found after its module is imported (--import on a command line)"
    meant = f"did you mean {named[near[0]]!r}?" if near else known
    raise ValueError(f"no learner {name!r}; {meant} {remedy}")


def is_known(name: str) -> bool:
    """Whether `learner_named` finds a learner of this name."""
    try:
        return bool(learner_named(name))
    except ValueError:
        return False


def _of_module(module: str, kind: str) -> type[Learner]:
    if module not in sys.modules:
        raise ValueError(
            f"module {module!r} of the learner {module}:{kind} is not imported, and a name alone "
            f"imports nothing; add --import {module}, or import it in Python first"
        )
    found = getattr(sys.modules[module], kind, None)
    if not (isinstance(found, type) and issubclass(found, Learner)):
        raise ValueError(f"module {module!r} has no learner {kind!r}")
    return found


def is_own(learner: type) -> bool:
    """Whether a class is defined in this package."""
    return learner.__module__.partition(".")[0] == "onebit"


def name_of(learner: type[Learner]) -> str:
    """The name by which `learner_named` finds a learner."""
    name = learner.__name__
    return name if is_own(learner) else f"{learner.__module__}:{name}"


# Other processes.


class Home(NamedTuple):
    """A module's name, and the folders to search for it."""

    module: str
    folders: tuple[str, ...]


def home_of(learner: type[Learner]) -> Home | None:
    """Where another process finds a learner; None for a learner of this package."""
    if is_own(learner):
        return None
    if learner.__module__ == "__main__":
        raise ValueError(
            f"{learner.__name__} is defined in the running program, where other processes cannot "
            "import it; put it into a module, or use the engine threads"
        )
    return Home(learner.__module__, tuple(path or str(Path.cwd()) for path in sys.path))


def import_home(home: Home) -> None:
    """Import a module in another process."""
    sys.path += [folder for folder in home.folders if folder not in sys.path]
    try:
        importlib.import_module(home.module)
    except ImportError as error:
        raise ValueError(
            f"the learner's module {home.module!r} cannot be imported in a worker: {error}; "
            "install it there, or put its file where the workers can read it"
        ) from None
