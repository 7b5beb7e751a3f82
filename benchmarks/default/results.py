"""The file of results: one line of JSON per cell, written as soon as the cell is done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar


class Kept(Protocol):
    """A record with what was played and what came of it."""

    @property
    def key(self) -> str: ...

    def _asdict(self) -> dict[str, Any]: ...


C = TypeVar("C", bound=Kept)


class Cell(NamedTuple):
    """One run: what was played, and the errors at the check points."""

    data: str
    learner: str
    prepare: str
    setting: dict[str, Any]
    condition: str
    order: int
    rows: int
    revision: str  # of the code; "" for learners whose code is settled
    errors: dict[str, float]

    @property
    def key(self) -> str:
        return json.dumps(self[:-1], sort_keys=True)


class Results(Generic[C]):
    """All cells of a folder. A later cell of the same key replaces an earlier one."""

    def __init__(self, folder: Path, kind: type[C]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / "cells.jsonl"
        self._cells: dict[str, C] = {}
        if self._file.exists():
            for line in self._file.read_text().splitlines():
                try:
                    cell = kind(**json.loads(line))
                except json.JSONDecodeError:  # the last line of a run that was stopped
                    continue
                self._cells[cell.key] = cell

    def __contains__(self, cell: C) -> bool:
        return cell.key in self._cells

    def add(self, cell: C) -> None:
        self._cells[cell.key] = cell
        with self._file.open("a") as file:
            file.write("\n" * self._is_cut() + json.dumps(cell._asdict()) + "\n")

    def _is_cut(self) -> bool:
        """Whether the file ends within a line."""
        if not self._file.exists() or not self._file.stat().st_size:
            return False
        with self._file.open("rb") as file:
            file.seek(-1, 2)
            return file.read(1) != b"\n"

    def cells(self) -> list[C]:
        return list(self._cells.values())
