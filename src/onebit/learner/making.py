"""Make a learner: what the arguments of its constructor say."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Mapping, Set
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from onebit.core.settings import REQUIRED, SHARED, choice_of, shown, unknown_setting
from onebit.storage.base import Storage

if TYPE_CHECKING:
    from onebit.learner.learner import Learner


def given_labels(kind: type[Learner], labels: tuple[Any, ...], given: dict[str, Any]) -> Any:
    """The labels among the arguments of a constructor; they are taken out of `given`."""
    name = kind.__name__
    if not labels and "labels" not in given:
        near = difflib.get_close_matches("labels", given, n=1)
        meant = f"; did you mean labels= by {near[0]}=?" if near else ""
        raise TypeError(
            f"{name} needs the labels: a list of them, {name}(labels=['yes', 'no']), or their "
            f"number, {name}(labels=2){meant}"
        )
    if len(labels) + ("labels" in given) > 1:
        example = next((setting for setting in kind.declared if setting not in SHARED), "seed")
        raise TypeError(
            f"{name} takes the labels as one list, and settings by name, such as {example}=..."
        )
    return labels[0] if labels else given.pop("labels")


def described(labels: Any) -> tuple[Any, list[Any]]:
    """Labels, and their descriptions, if they have some."""
    is_told = isinstance(labels, Mapping)
    return (list(labels), list(labels.values())) if is_told else (labels, [])


def teach_examples(learner: Learner, examples: Any) -> None:
    """Teach contexts with their labels, from a dict {label: [contexts]}: one of each label, then
    the next one of each. Many of one label in a row would make the others seem wrong."""
    X, y, turns = _listed_examples(examples)
    try:
        learner.rows(X)  # refusals count rows as they are listed
        learner.label_set.places(y)
        order = sorted(range(len(X)), key=turns.__getitem__)
        learner.teach([X[i] for i in order], [y[i] for i in order])
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"examples=, {error}") from None


def _listed_examples(examples: Any) -> tuple[list[Any], list[Any], list[int]]:
    """Contexts, their labels and their places among those of the label."""
    if not isinstance(examples, Mapping):
        raise TypeError(
            f"examples= is a dict of labels and their contexts, {{'tech': ['a new phone']}}, not "
            f"{shown(examples)}"
        )
    X: list[Any] = []
    y: list[Any] = []
    turns: list[int] = []
    for label, contexts in examples.items():
        found = examples_of(label, contexts)
        X, y = [*X, *found], [*y, *[label] * len(found)]
        turns += range(len(found))
    return X, y, turns


def examples_of(label: Any, contexts: Any) -> list[Any]:
    """The contexts of one label, in an order that is always the same."""
    if hasattr(contexts, "columns") and hasattr(contexts, "to_dict"):  # it would give its names
        raise TypeError(
            f"examples of {label!r} are a data frame: teach(X, y) takes one, with labels"
        )
    is_single = isinstance(contexts, str | bytes | Mapping)
    if is_single or isinstance(contexts, Set) or not isinstance(contexts, Iterable):
        raise TypeError(f"examples of {label!r} must be a list of contexts, not {shown(contexts)}")
    return list(contexts)


def take_settings(learner: Learner, given: dict[str, Any]) -> None:
    """Check the given settings, and compute the others."""
    kind = type(learner)
    for name in given:
        if name not in kind.declared:
            raise TypeError(unknown_setting(kind, name))
    for name, declared in kind.declared.items():
        value = given.get(name, declared.default)
        if value is REQUIRED:
            raise TypeError(f"{kind.__name__} needs {name}=")
        if name in given and not (value is None and callable(declared.default)):
            value = declared.check(name, value)
        elif callable(declared.default):
            value = declared.default(learner)
        learner.setting_values[declared] = value
        if name in SHARED:  # these are read in every round
            setattr(learner, name, value)


def settings_to_save(learner: Learner, storage: Storage) -> dict[str, Any]:
    """The settings that make the same learner again, but for features, seed and dtype."""
    own = {n: s for n, s in learner.declared.items() if n not in SHARED and s.in_use(learner)}
    settings = {**storage.settings, **{n: learner.setting_values[s] for n, s in own.items()}}
    if learner.silence != "nothing":  # defaults are left out, as in older model files
        settings["silence"] = learner.silence
    if learner.half_life is not None:
        settings["half_life"] = learner.half_life
    if learner.inputs != "raw":
        settings["inputs"] = learner.inputs
    if learner.vocabulary is not None:
        settings["vocabulary"] = learner.vocabulary
    if learner.explore:
        settings["explore"] = learner.explore
    return settings


def fingerprint(learner: Learner) -> bytes:
    """Identifies learners that can learn from each other's decisions."""
    settings = {name: value for name, value in learner.settings.items() if name != "vocabulary"}
    identity = [type(learner).__name__, settings, learner.seed, learner.dtype, learner.features]
    whole = hashlib.blake2b(msgspec.json.encode(identity), digest_size=8).digest()
    own = learner.table.storage.identity
    return hashlib.blake2b(whole + own, digest_size=8).digest() if own else whole


def precision(asked: Any) -> np.dtype:
    """The dtype of the weights, from its name or from a numpy type."""
    name = asked if isinstance(asked, str) else getattr(asked, "__name__", str(asked))
    return np.dtype(choice_of("dtype", name, ("float32", "float64")))
