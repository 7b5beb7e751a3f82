"""The programs in examples/: they run, here with small numbers."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from onebit.core.jit import COMPILED

FOLDER = Path(__file__).parent.parent / "examples"
SMALL = {
    "many_labels": {"labels": 20, "rounds": 60, "words": 50},
    "robot": {"minutes": 0.2},
    "ten_million_rounds": {"rounds": 60, "parts": 3},
}


def test_every_example_is_run_here_and_in_the_docs():
    names = {path.stem for path in FOLDER.glob("*.py")}
    page = (FOLDER.parent / "docs" / "examples.md").read_text()
    assert names == set(SMALL)
    assert all(f"python examples/{name}.py" in page for name in names)


@pytest.mark.parametrize("name", [*SMALL] if not COMPILED else ["robot"])
def test_the_examples_run(name, capsys):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(**SMALL[name])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= 4 and "nan" not in " ".join(lines)
