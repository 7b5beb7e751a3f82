"""Recipes: a learner's class, its settings, and the steps that prepare its rows.

A command line names a recipe as "Banditron:gamma=0.1"; a file holds it as text:

    learner = "UCWL"
    prepare = ["unit_norm"]     # optional: steps that prepare the rows

    [settings]                  # settings that are left out have their defaults
    eta = 0.9

    [found]                     # optional: how `tune` found the settings

A learner of another package is "module:Class"; its module must be imported already. Reading a file
executes and imports nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, get_type_hints

from onebit import algorithms
from onebit.core.settings import SHARED, called, own_settings, unknown_setting
from onebit.datasets import Steps
from onebit.learner import files
from onebit.learner.learner import Labels, Learner
from onebit.registry.lookup import import_learners, is_known, learner_named, name_of

LARGEST = 2**16  # bytes of a file
ENDING = ".toml"

# Settings that suit a data set better than the defaults: the papers' settings, where given.
SUITED: dict[str, dict[str, dict[str, Any]]] = {
    "synsep": {"Banditron": {"gamma": 0.014}},
    "synnonsep": {"Banditron": {"gamma": 0.006}, "PNewtron": {"gamma": 0.006}},
    "digits": {"Banditron": {"gamma": 0.1}, "PNewtron": {"D": 10.0}},
}

_USE = """\
# A learner's settings, found by `onebit tune`. To use them:
#   onebit race --learner {name} ...
#   learner = onebit.read_recipe("{name}").make(labels=[...])     # in Python
"""


@dataclass(frozen=True)
class Found:
    """How `tune` found the settings."""

    data: str
    error: float  # mean share of rounds whose said label was wrong
    rounds: int
    repeats: int
    trials: int
    order: str  # "shuffled" or "given"
    seed: int
    onebit: str  # its version


@dataclass(frozen=True)
class Recipe:
    """A learner's class, its settings (others have their defaults), and its preparation steps."""

    learner: type[Learner]
    settings: dict[str, Any]
    prepare: tuple[str, ...] = ()
    found: Found | None = None
    file: str = field(default="", compare=False, kw_only=True)  # that the recipe was read from

    @property
    def name(self) -> str:
        """The learner's name, with the file or the settings of the recipe."""
        return f"{self.learner.__name__} {self.file or settings_text(self.settings, ' ')}".rstrip()

    def suited_to(self, data: str) -> Recipe:
        """The recipe with settings that suit a data set, except where it has its own."""
        suited = SUITED.get(data, {}).get(self.learner.__name__, {})
        return replace(self, settings={**suited, **self.settings}) if suited else self

    def make(self, labels: Labels, **common: Any) -> Learner:
        """A new learner by this recipe: make(["sport", "tech"], seed=7).

        Its rows must be prepared by the steps in `prepare`.
        """
        kind: Any = self.learner
        return kind(labels, **self.settings, **common)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the recipe to a file, completely or not at all.

        TOML has no None. It is the default of each setting that takes it, so it is left out.
        """
        check_name(path)
        name = Path(path).name
        if not name.isprintable():  # a comment ends with its line
            name = f"this{ENDING}"
        lines = [_USE.format(name=name) if self.found else ""]
        lines += [f"learner = {_toml(name_of(self.learner))}\n"]
        if self.prepare:
            lines += [f"prepare = [{', '.join(map(_toml, self.prepare))}]\n"]
        given = {name: value for name, value in self.settings.items() if value is not None}
        tables = {"settings": given, "found": asdict(self.found) if self.found else {}}
        for title, table in tables.items():
            if table:
                lines += [f"\n[{title}]\n", *(f"{k} = {_toml(v)}\n" for k, v in table.items())]
        files.write_bytes(path, "".join(lines).encode())


def check_name(path: str | os.PathLike[str]) -> None:
    """Refuse a file name that could be confused with a learner's name."""
    if Path(path).suffix != ENDING:
        raise ValueError(f"{os.fspath(path)}: the name of a recipe must end in {ENDING}")


def read_recipe(path: str | os.PathLike[str]) -> Recipe:
    """The recipe in a file. It is checked by making its learner."""
    with open(path, "rb") as file:
        text = file.read(LARGEST + 1)
    try:
        return replace(_checked(_parsed(text)), file=os.fspath(path))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from None


def recipe_of(text: str) -> Recipe:
    """A recipe from "Banditron", "PNewtron:gamma=0.01:D=10", or a recipe's file "tuned.toml".

    "module:Class:setting=1" is a learner of another package. Its module is imported.
    """
    if text.endswith(ENDING):
        return read_recipe(text)
    name, *pairs = text.split(":")
    if pairs and "=" not in pairs[0] and not is_known(name):
        try:
            name = f"{import_learners(name)}:{pairs.pop(0)}"
        except (ValueError, OSError) as error:
            raise ValueError(
                f"no learner {name!r}, so {text!r} is module:Class; {error}"
            ) from error
    learner = learner_named(name)
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"a setting is NAME=VALUE, not {pair!r}")
        settings[key] = value_of(value)
    check_settings(learner, settings)  # refuse a wrong value before the race starts
    return Recipe(learner, settings)


def value_of(text: str) -> Any:
    """A setting's value from a command line: true, 0.1 or PA-I."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for number in (int, float):
        with contextlib.suppress(ValueError):
            return number(text)
    return text


def settings_text(settings: Mapping[str, Any], between: str = ", ") -> str:
    """Settings for people to read: "gamma=0.1, variant=PA-I"."""
    return between.join(f"{name}={short(value)}" for name, value in settings.items())


def short(value: Any) -> str:
    """A setting's value for people to read."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def default_recipes() -> list[Recipe]:
    """Every learner of this package at its defaults.

    Left out are costly learners, variants of others, and learners that need arguments which are
    not settings.
    """
    classes = [getattr(algorithms, name) for name in algorithms.by_settings()]
    return [
        Recipe(learner, {}) for learner in classes if not learner.costly and not learner.variant_of
    ]


def _parsed(text: bytes) -> dict[str, Any]:
    if len(text) > LARGEST:
        raise ValueError(f"a recipe has at most {LARGEST:,} bytes, and this file has more")
    try:
        return tomllib.loads(text.decode())
    except UnicodeDecodeError:
        raise ValueError("not a recipe: it is not text in UTF-8") from None
    except RecursionError:
        raise ValueError("not a recipe: lists nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"not TOML: {error}") from None


_WORDS = {str: "text in quotes", float: "a number", int: "a whole number"}
_WORDS |= {dict: "a table", list: "a list of names in quotes"}
_PARTS = {"learner": str, "prepare": list, "settings": dict, "found": dict}
_FOUND = get_type_hints(Found)


def _checked(given: dict[str, Any]) -> Recipe:
    _check_types(given, _PARTS, "a recipe has")
    if "learner" not in given:
        raise ValueError('a recipe says which learner it is for: learner = "UCWL"')
    steps = given.get("prepare", [])
    if not all(isinstance(step, str) for step in steps):
        raise TypeError(f"prepare must be {_WORDS[list]}, not {steps!r}")
    Steps(steps)
    learner = learner_named(given["learner"])
    settings = check_settings(learner, given.get("settings", {})).settings  # with the defaults
    found = given.get("found")
    if found is not None:
        _check_types(found, _FOUND, "[found] has")
        missing = [name for name in _FOUND if name not in found]
        if missing:
            raise ValueError(f"[found] lacks {', '.join(missing)}; leave out [found] as a whole")
        found = Found(**{**found, "error": float(found["error"])})
    return Recipe(learner, settings, tuple(steps), found)


def _check_types(given: dict[str, Any], wanted: dict[str, type], has: str) -> None:
    for name, value in given.items():
        if name not in wanted:
            raise ValueError(f"unknown {name!r}; {has} {', '.join(wanted)}")
        kind = wanted[name]
        fits = type(value) is kind or (kind is float and type(value) is int)
        if not fits:
            raise TypeError(f"{name} must be {_WORDS[kind]}, not {value!r}")


def check_made_of_settings(learner: type[Learner]) -> None:
    """Refuse a learner that needs an argument that is not a plain value."""
    if learner.needs:
        name = learner.__name__
        raise ValueError(
            f"{name} needs {learner.needs}, which can only be passed in Python: "
            f"onebit.{name}(labels, {learner.needs}=[...])"
        )


# Settings that every learner has, but that belong to the run here.

_OF_THE_RUN = {
    "seed": "the run has the seed: --seed, or seed= in Python",
    "features": "the data decide how many there are; in Python, make the learner with features=",
    "vocabulary": "runs keep all features; in Python, make the learner with vocabulary=",
    "dtype": "runs keep the learner's own precision; in Python, make the learner with dtype=",
}


def settings_of(learner: type[Learner]) -> list[str]:
    """The names of the settings that can be given here: the learner's own and shared ones."""
    return [*own_settings(learner), *(name for name in SHARED if name not in _OF_THE_RUN)]


def wrong_setting(learner: type[Learner], name: str) -> str:
    """The message about a wrong name of a setting; empty if the learner has this setting here."""
    if name in settings_of(learner):
        return ""
    if name in _OF_THE_RUN:
        return f"no setting {name!r} for {learner.__name__} here: {_OF_THE_RUN[name]}"
    return unknown_setting(learner, name, tuple(_OF_THE_RUN))


def check_settings(learner: type[Learner], settings: dict[str, Any]) -> Learner:
    """Refuse unknown settings and values out of bounds; returns a learner with these settings."""
    check_made_of_settings(learner)
    for name, value in settings.items():
        if callable(value):
            raise ValueError(
                f"{name} is {called(value)!r}, and a function can only be passed in Python: "
                f"onebit.{learner.__name__}(labels, {name}=...), for simulate and sweep"
            )
        if wrong := wrong_setting(learner, name):
            raise ValueError(wrong)
    make: Any = learner
    return make(2, **settings)


def _toml(value: Any) -> str:
    if callable(value):
        raise ValueError(f"a recipe cannot store a function: {value!r}")
    if isinstance(value, str):  # TOML strings are JSON strings, except for DEL
        return json.dumps(_plain(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_toml(held)}' for key, held in value.items())} }}"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _plain(text: str) -> str:
    """Text that can be encoded: file names may hold bytes that are not valid text."""
    return text.encode(errors="replace").decode()
