"""All checks, in the order in which they fail fastest. Called by `./run test [--slow]`.

The tests run twice: compiled, and as plain Python, where coverage is measured.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parent.parent
BIN = Path(sysconfig.get_path("scripts"))


def step(title: str, *command: str, **env: str) -> None:
    print(f"\n== {title}", flush=True)
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **env}, check=False)
    if done.returncode:
        sys.exit(f"{title}: failed")


def main() -> None:
    slow = "--slow" in sys.argv[1:]
    unknown = [arg for arg in sys.argv[1:] if arg != "--slow"]
    if unknown:
        sys.exit(f"unknown: {' '.join(unknown)}; for single tests use .venv/bin/pytest")
    which = ["-m", ""] if slow else []
    python = sys.executable
    step("ruff check", str(BIN / "ruff"), "check")
    step("ruff format", str(BIN / "ruff"), "format", "--check")
    step("imports", str(BIN / "lint-imports"))
    step("types", str(BIN / "pyright"))
    plain = {"NUMBA_DISABLE_JIT": "1"}
    coverage = (python, "-m", "coverage")
    step("tests, plain", *coverage, "run", "-m", "pytest", "-q", **plain)
    step("coverage", *coverage, "report")
    step("tests, compiled", python, "-m", "pytest", "-q", *which)


if __name__ == "__main__":
    main()
