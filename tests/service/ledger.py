"""What a service has acknowledged, and whether it is all there."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
from running import assert_pure

from onebit.service.configuration import check
from onebit.service.journal import ReadOnlyJournal
from onebit.service.service import Service


class Ledger:
    """Every decision that was told, and the states in which it may be.

    A request whose answer did not arrive may have been done or not: before it is sent, its state is
    added (`trying`). Once it is acknowledged, no other state is possible (`did`). Requests about
    one decision come one after another.
    """

    def __init__(self) -> None:
        self.labels: dict[str, Any] = {}
        self.keys: dict[str, str] = {}  # the key of a decision that was told
        self.states: dict[str, set[str] | None] = {}  # None: any

    def told(self, answer: dict[str, Any], key: str = "", keeps: bool = True) -> str:
        """A decision was acknowledged. keeps: whether the ledger hears of all feedback on it."""
        id = answer["id"]
        assert self.labels.setdefault(id, answer["label"]) == answer["label"], (
            f"{id}: another label"
        )
        self.states.setdefault(id, {"open"} if keeps else None)
        if key:
            assert self.keys.setdefault(key, id) == id, f"{key}: another decision"
        return id

    def trying(self, id: str, state: str) -> None:
        states = self.states[id]
        if states is not None:
            states.add(state)

    def did(self, id: str, state: str) -> None:
        if self.states[id] is not None:
            self.states[id] = {state}

    def forget(self, id: str) -> None:
        """From now on, the ledger does not hear what becomes of this decision."""
        self.states[id] = None

    def verdict(self, id: str, verdict: dict[str, Any]) -> str:
        """The state after a verdict."""
        if "right" in verdict:
            return "right" if verdict["right"] else "wrong"
        return "right" if verdict["label"] == self.labels[id] else f"label {verdict['label']}"

    def check(self, record: dict[str, Any]) -> None:
        """Compare what the service says of a decision, as JSON."""
        id, state = record["id"], state_of(record)
        assert record["label"] == self.labels[id], record
        allowed = self.states[id]
        assert allowed is None or state in allowed, (id, state, allowed)

    def check_journal(self, configuration: Path) -> str:
        """Start a service in this process on the journal that another one has left."""
        with Service(check(configuration), ticks=False) as service:
            for id in [*self.labels]:
                model = service.models[service.model_of(id)]
                self.check(msgspec.to_builtins(model.look(id)))
            for model in service.models.values():
                assert_pure(model)
            path = service.journal.path
        rows, answers = self._check_rows(path)
        return f"{len(self.labels):,} decisions acknowledged, {rows:,} and {answers:,} answers kept"

    def _check_rows(self, path: Path) -> tuple[int, int]:
        """Nothing is there twice, and the database is whole."""
        with closing(ReadOnlyJournal(path)) as journal, journal.reading() as connection:

            def one(question: str) -> Any:
                return connection.execute(question).fetchone()

            assert one("PRAGMA integrity_check") == ("ok",)
            rows, distinct = one("SELECT count(*), count(DISTINCT position) FROM decisions")
            answers, answered = one("SELECT count(*), count(DISTINCT decision) FROM answers")
            assert rows == distinct and answers == answered
            kept = dict(connection.execute("SELECT key, position FROM decisions WHERE key NOTNULL"))
        for key, id in self.keys.items():
            if self.states[id] not in (None, {"erased"}):  # erasing takes the key too
                assert f"{kept[key]:x}" == id.partition("-")[0], key
        return rows, answers


def state_of(record: dict[str, Any]) -> str:
    """Whether a decision was shown makes no difference here."""
    if record["state"] != "learned":
        return record["state"].replace("waiting", "open")
    heard = record["feedback"][-1]
    if heard.get("label") not in (None, record["label"]):
        return f"label {heard['label']}"
    return "wrong" if heard.get("right") is False else "right"
