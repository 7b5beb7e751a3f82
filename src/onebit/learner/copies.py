"""Learners made of the saved parts of others: newer, with another vocabulary, with another salt."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from onebit.learner import files
from onebit.learner.answered import Answers
from onebit.learner.decision import salted

if TYPE_CHECKING:
    from onebit.learner.learner import Learner

_STAY = ("lock", "_reload_lock", "_acquire", "_release")  # threads may hold or wait for them


def copy(learner: Learner) -> Any:
    """See `Learner.copy`."""
    return files.restore(*files.dump(learner), unsaved(learner), type(learner))


def unsaved(learner: Learner) -> dict[str, Any]:
    """Settings that a file cannot store; `load` needs them again."""
    return dict(learner.table.storage.unsaved)


def reload(learner: Learner, path: str | os.PathLike[str]) -> None:
    """See `Learner.reload`. The caller holds the lock of reloading."""
    head, arrays = files.read(path)
    newer = files.restore(head, arrays, unsaved(learner), type(learner), is_foreign=True)
    if newer.origin != learner.origin:
        raise ValueError(
            f"{os.fspath(path)}: another model, or one with other settings or another seed"
        )
    set_salt(newer, learner.salt)
    with learner.lock:
        newer.__dict__ |= {name: learner.__dict__[name] for name in _STAY}
        newer.round = max(learner.round, newer.round)
        reader = learner.reader
        newer.reader.remember(reader.columns, reader.names)
        newer.reader.taught_with = newer.reader.taught_with or reader.taught_with
        learner.__dict__ = newer.__dict__


def with_vocabulary(learner: Learner, vocabulary: int) -> Learner:
    """The learner with another vocabulary, but at least for all features that it has."""
    vocabulary = max(vocabulary, learner.table.own_rows, 1)
    if vocabulary == learner.vocabulary:
        return learner
    head, arrays = files.dump(learner)
    head["settings"] = {**head["settings"], "vocabulary": vocabulary}
    return files.restore(head, arrays, unsaved(learner), type(learner))


def set_salt(learner: Learner, salt: str) -> None:
    """Decide with another salt from now on."""
    if salt != learner.salt:
        learner.other_answers.give(learner.salt, learner.answers.pages(learner.round))
        learner.answers = Answers.of_pages(learner.other_answers.take(salt), learner.round)
        learner.salt, learner.draw_seed = salt, salted(learner.seed, salt)
