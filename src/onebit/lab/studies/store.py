"""Finished cells on disk: one Parquet file each, written atomically.

All of a study at once: `polars.read_parquet("results/banditron-2008/cells/*.parquet")`.
"""

from __future__ import annotations

import io
from pathlib import Path

import msgspec

from onebit.core.extras import optional_module
from onebit.lab.studies.cells import Cell, Result
from onebit.learner.files import write_bytes


class Store:
    """The cells of one study."""

    def __init__(self, folder: Path) -> None:
        self._polars = optional_module("polars", "polars", "studies store their cells through")
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._read: dict[str, Result | None] = {}

    def get(self, cell: Cell) -> Result | None:
        """The cell's result; None if the cell has not run, or if its file cannot be read."""
        if cell.name not in self._read:
            self._read[cell.name] = self._load(self._path(cell))
        return self._read[cell.name]

    def put(self, cell: Cell, result: Result) -> None:
        polars = self._polars
        said = msgspec.to_builtins(cell)
        row = {
            **{key: said[key] for key in ("source", "learner", "repeat", "folds", "tuning")},
            "cell": msgspec.json.encode(cell).decode(),
            **msgspec.to_builtins(result),
        }
        counts = [key for key, value in msgspec.to_builtins(result).items() if type(value) is list]
        types = {key: polars.List(polars.Int64) for key in counts}
        types |= {"test_error": polars.Float64, "rates": polars.List(polars.Float64)}
        file = io.BytesIO()
        polars.DataFrame([row], schema_overrides=types).write_parquet(file)
        write_bytes(self._path(cell), file.getvalue())
        self._read[cell.name] = result

    def _path(self, cell: Cell) -> Path:
        return self._folder / f"{cell.name}.parquet"

    def _load(self, path: Path) -> Result | None:
        if not path.is_file():
            return None
        try:
            row = self._polars.read_parquet(path).row(0, named=True)
            return msgspec.convert({k: row[k] for k in Result.__struct_fields__}, Result)
        except (self._polars.exceptions.PolarsError, msgspec.ValidationError, KeyError, OSError):
            return None  # a broken file: the cell runs again
