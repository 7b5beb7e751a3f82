"""Labels that were renamed, merged into others, or removed: what earlier events say since.

The journal keeps decisions and answers as they were. The body of a version lists the steps: up to
which version, and until when, labels had other names. An answer is read by the names of its time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Heard(NamedTuple):
    """An answer with the labels of today."""

    said: Any
    right: bool | None
    named: Any  # the true label, if it was named

    @property
    def is_right(self) -> bool:
        return bool(self.right) if self.named is None else self.named == self.said


def step(until: int, time: float, names: Mapping[Any, Any], known: Sequence[Any]) -> dict[str, Any]:
    """A step as a version keeps it.

    until: the last version with the earlier names. names: what is called how; None: removed.
    known: the labels before.
    """
    listed = [[old, new, new in known] for old, new in names.items()]
    return {"until": until, "time": time, "names": listed}


class Relabelling:
    """What earlier labels are called in a version."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self._steps = [
            (
                step["until"],
                step["time"],
                {old: (new, merged) for old, new, merged in step["names"]},
            )
            for step in body.get("relabelled", ())
        ]

    def now(self, label: Any, version: int = 0) -> Any:
        """What a label of a version is called now; None: it was removed."""
        for until, _, names in self._steps:
            if version <= until:
                label = names.get(label, (label, False))[0]
        return label

    def heard(
        self, version: int, time: float, said: Any, right: bool | None, named: Any
    ) -> Heard | None:
        """An answer from a time to a decision of a version; None: it says nothing any more.

        Right answers to a merged label count for the other label. "Wrong" may have meant the
        spelling, so it does not. A removed label was wrong, unless nothing else is known.
        """
        is_merged = False
        for until, upto, names in self._steps:
            if named in names and time <= upto:
                named = names[named][0]
                right = False if named is None else right
            if version <= until and said in names:
                said, merged = names[said]
                is_merged |= merged and time <= upto
        if said is None:
            return None if named is None else Heard(named, None, named)
        if is_merged and right is False and named is None:
            return None
        return Heard(said, right, named)
