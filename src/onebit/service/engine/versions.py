"""Versions of a model in the journal, and what was followed of the configuration file."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import msgspec

from onebit.service.configuration import Model
from onebit.service.engine.building import Version, identity, version_of
from onebit.service.engine.state import EngineState
from onebit.service.journal import statements
from onebit.service.journal.queries import titled
from onebit.service.journal.statements import Statement
from onebit.service.messages import Label

_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode


class Versions:
    """Writes versions of a model into the journal.

    Lock: a version is added, written and put in charge with the lock of the engine. What was
    followed is read, and a version that was never in charge is dropped, without it, too.
    """

    def __init__(self, state: EngineState) -> None:
        self._state, self._journal = state, state.journal
        self._file = f"configuration of {state.number}"

    def add(self, model: Model) -> Version:
        """Write down how the learner is made at the beginning."""
        version = version_of(model, self._journal.new_configuration())
        self.write(version, self.taking_charge(version)).result()
        return version

    def write(self, version: Version, *further: Statement) -> Future[None]:
        _, time = self._journal.stamp(0)
        insert = statements.add_version(self._state.number, version, time)
        return self._journal.append(statements=[insert, *further]).done

    def let_take_charge(self, version: Version) -> None:
        self._write(self.taking_charge(version))

    def taking_charge(self, version: Version) -> Statement:
        return statements.let_take_charge(self._state.number, version.number)

    def drop_if_silent(self, number: int) -> None:
        """Forget the version of a shadow that is gone, unless it has made decisions."""
        if not self._journal.has_spoken(number):
            self._write(statements.drop_version(number))

    def drop(self, version: Version) -> None:
        """Its learner cannot be built. If the file asks for it, the next start tries it again."""
        present = self._state.version
        if version.number == present.number:
            return
        changed, followed = [statements.drop_version(version.number)], self.followed()
        if followed is not None and followed["identity"] == identity(version):
            changed.append(self._followed(followed["labels"], identity(present)))
        self._write(*changed)

    def followed(self) -> dict[str, Any] | None:
        """What the configuration file said when it was last followed."""
        noted = self._journal.note(self._file)
        return None if noted is None else _decode(noted)

    def note_followed(self, labels: list[Label], identity: Any, title: str) -> None:
        """Note what was followed of the configuration file, where that has changed."""
        if self.followed() != {"labels": labels, "identity": identity}:
            self._write(self._followed(labels, identity))
        name = titled(self._state.number)
        if title != (self._journal.note(name) or ""):
            self._write(statements.note(name, title))

    def followed_now(self, model: Model | None) -> Statement | None:
        """That the learner of a table of the file speaks now, as the file has it."""
        before = self.followed()
        if model is None or before is None:
            return None
        return self._followed(before["labels"], identity(version_of(model, 0)))

    def _followed(self, labels: list[Label], identity: Any) -> Statement:
        said = _encode({"labels": labels, "identity": identity}).decode()
        return statements.note(self._file, said)

    def _write(self, *changed: Statement) -> None:
        self._journal.append(statements=changed).done.result()
