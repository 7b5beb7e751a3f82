"""The source distribution holds what git tracks of the project, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
STRAY = [
    "mine.csv",
    "mine.csv.teach/journal",
    "src/digits.teach/journal",
    "docs/photos/.onebit/journal",
    "onebit.journal",
    "race.html",
    "docs/results/banditron-2008.html",
    ".venv/bin/python",
    "src/onebit/__pycache__/learner.pyc",
]


def _tracked() -> list[str]:
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("this is no checkout of git, which knows the files of the project")
    listed = subprocess.run([git, "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    return [name for name in listed.stdout.decode().split("\0") if (ROOT / name).is_file()]


@pytest.mark.skipif(find_spec("hatchling") is None, reason="needs hatchling: pip install '.[dev]'")
def test_a_source_distribution_holds_what_git_tracks(tmp_path):
    tracked, project, made = _tracked(), tmp_path / "project", tmp_path / "made"
    for name in tracked:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, project / name)
    for name in STRAY:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("private")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(made)]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    (path,) = made.iterdir()
    with tarfile.open(path) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    for_the_repository = (".ci/", ".github/", ".editorconfig", ".pre-commit-config.yaml")
    expected = {name for name in tracked if not name.startswith(for_the_repository)}
    assert packed == expected | {"PKG-INFO"}
