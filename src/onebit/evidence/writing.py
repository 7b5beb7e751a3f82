"""Writing decisions as a log: JSON lines, which `Log` reads."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from onebit.core.settings import bit, shown
from onebit.learner.decision import Decision
from onebit.learner.labels import LabelSet


class LogWriter:
    """Writes decisions and their answers to a file, a JSON object per line.

    path: a file that ends in .jsonl; rows are added at its end. labels: those of the learner.
    """

    def __init__(
        self, path: str | os.PathLike[str], labels: Sequence[str] | Sequence[int] | int
    ) -> None:
        self._labels = LabelSet(labels)
        self.path = os.fspath(path)
        if not self.path.endswith(".jsonl"):
            raise ValueError(f"{self.path}: a log is written as JSON lines; name it .jsonl")
        self._file = open(self.path, "a", encoding="utf-8")  # noqa: SIM115 until close()

    def write(
        self,
        x: Any,
        decision: Decision,
        *,
        right: bool | None = None,
        label: str | int | None = None,
        propensities: Any = None,
        time: float | None = None,
        source: str | None = None,
    ) -> None:
        """Add a decision on the context x.

        right, label: the answer, as for `learn`; without one, nobody answered. propensities: what
        `learner.propensities(x)` returned before the decision; with those of all labels, intervals
        are narrower. time: seconds.
        """
        if not isinstance(decision, Decision):
            raise TypeError(
                f"a row of a log has a decision of one label, decide(x), not {shown(decision)}"
            )
        row: dict[str, Any] = {"context": _plain(x), "label": decision.label}
        if right is not None:
            row["right"] = bit("right", right)
        if label is not None:
            row["true_label"] = self._labels.names[self._labels.place(label)]
        row["propensity"] = float(decision.propensity)
        names = self._labels.names
        if propensities is not None:
            shares = np.asarray(propensities, float).ravel().tolist()
            if len(shares) != len(names):
                raise ValueError(f"{len(shares)} propensities, and there are {len(names)} labels")
            row["propensities"] = dict(zip(map(str, names), shares, strict=True))
        if decision.among is not None:
            row["among"] = [names[place] for place in decision.among]
        if time is not None:
            row["time"] = float(time)
        if source is not None:
            row["source"] = source
        try:
            line = json.dumps(row, ensure_ascii=False, allow_nan=False)
        except ValueError:
            raise ValueError(
                "a log has no infinite or missing numbers (NaN): leave a missing one out of a dict"
            ) from None
        self._file.write(line + "\n")

    def close(self) -> None:
        """Write what is still in memory, and close the file."""
        self._file.close()

    def __enter__(self) -> LogWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _plain(x: Any) -> Any:
    """A context as JSON."""
    if isinstance(x, Mapping):
        return {str(name): _plain(value) for name, value in x.items()}
    if isinstance(x, np.generic):
        return x.item()
    if isinstance(x, str | int | float):
        return x
    if isinstance(x, list) or (isinstance(x, np.ndarray) and x.ndim == 1):
        return np.asarray(x).tolist()
    raise TypeError(
        f"a log has contexts as JSON: a text, a dict, or a row of numbers, not {type(x).__name__}"
    )
