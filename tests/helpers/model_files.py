"""Model files with a few things changed."""

from pathlib import Path
from typing import Any

from onebit.learner import files
from onebit.learner.learner import Learner
from onebit.testing import saved_state


def written(folder: Path, data: bytes) -> Path:
    path = folder / "x.onebit"
    path.write_bytes(data)
    return path


def crafted(learner: Learner, head: dict[str, Any] | None = None, **arrays: Any) -> bytes:
    """The learner's file with a few things changed; None leaves an array out."""
    heads, kept = saved_state(learner)
    heads, kept = {**heads, **(head or {})}, {**kept, **arrays}
    return files.pack(
        {name: value for name, value in heads.items() if value != "left out"},
        {name: array for name, array in kept.items() if array is not None},
    )
