"""What the commands about a journal share: its models, and the folder of its snapshots."""

from __future__ import annotations

import os
from pathlib import Path

from onebit.service.faults import UnknownModel
from onebit.service.journal import (
    ReadOnlyJournal,
)


def snapshots_of(path: str | os.PathLike[str]) -> Path:
    """The folder of the snapshots of a journal."""
    return Path(f"{os.fspath(path)}.snapshots")


def chosen_model(journal: ReadOnlyJournal, name: str | None) -> str:
    """The named model, or the only one."""
    names = list(journal.models())
    if name is None and len(names) == 1:
        return names[0]
    listed = ", ".join(names) or "none"
    if name is None:
        raise ValueError(f"say which model of {journal.path}: --model NAME; there are: {listed}")
    if name not in names:
        raise UnknownModel(f"{journal.path} has no model {name!r}; there are: {listed}")
    return name
