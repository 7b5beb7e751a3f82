"""The shadows of a model as their newest snapshots have them: for a page without a service."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from onebit.learner import files
from onebit.service import snapshots
from onebit.service.engine.comparing import Comparison
from onebit.service.journal import Journal
from onebit.service.journal.queries import Role, Roles
from onebit.service.messages import ShadowCard


def shadows_of(journal: Journal, model: str) -> dict[str, ShadowCard]:
    """The shadows of a model, and how they do beside who speaks."""
    number = journal.models()[model]
    roles = journal.roles(number) or Roles("")
    return {name: _card_of(journal, model, role) for name, role in roles.shadows.items()}


def _card_of(journal: Journal, model: str, role: Role) -> ShadowCard:
    version = journal.version(role.version)
    body: Mapping = {} if version is None else version.body
    for snapshot in snapshots.found(Path(f"{journal.path}.snapshots"), model):
        if snapshot.version != role.version:
            continue
        try:
            _, _, beside, arrays = snapshots.apart(*files.read(snapshot.path))
        except (ValueError, OSError):  # it is damaged, or gone
            continue
        if beside is not None:
            told = Comparison.restored(beside, arrays).told()
            behind = max(journal.position - snapshot.position, 0)
            return _made(body, role, behind, **told)
    return _made(body, role, journal.position)


def _made(body: Mapping, role: Role, behind: int, **told) -> ShadowCard:
    return ShadowCard(
        learner=body.get("learner", ""),
        settings=body.get("settings", {}),
        seed=body.get("seed", 0),
        version=role.version,
        promote="by hand",
        behind=behind,
        **told,
    )
