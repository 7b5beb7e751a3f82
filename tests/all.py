"""All checks. Called by `./run test [--slow | --all]`; docs/testing.md says what runs where.

Tests run as plain Python first, then compiled, each time on all cores.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parent.parent
BIN = Path(sysconfig.get_path("scripts"))
CORES = str(min(os.cpu_count() or 2, 8))
# What is compiled stays in memory: 6 MB for each second. So --all starts afresh for each of these.
PARTS = (["tests/test_laws.py"], ["tests/test_algorithms.py"])


def start(title: str, *command: str | Path, **env: str) -> tuple[str, subprocess.Popen]:
    print(f"\n== {title}", flush=True)
    return title, subprocess.Popen(command, cwd=ROOT, env={**os.environ, **env})


def finish(started: tuple[str, subprocess.Popen]) -> None:
    title, process = started
    if process.wait():
        sys.exit(f"{title}: failed")


def main() -> None:
    options = set(sys.argv[1:])
    if options - {"--slow", "--all"}:
        sys.exit(f"unknown: {' '.join(sys.argv[1:])}; for single tests use .venv/bin/pytest")
    everything = "--all" in options
    python = sys.executable
    finish(start("ruff check", BIN / "ruff", "check"))
    finish(start("ruff format", BIN / "ruff", "format", "--check"))
    finish(start("imports", BIN / "lint-imports"))
    types = start("types", BIN / "pyright", "--pythonpath", python)

    pytest = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", CORES]
    measured = ["--cov", "--cov-report="] if options else []
    finish(start("tests, plain", *pytest, *measured, NUMBA_DISABLE_JIT="1"))
    finish(types)
    if options:
        finish(start("coverage, plain", python, "-m", "coverage", "report"))

    compiled = [*pytest, "--dist", "loadgroup", "-m"]
    if everything:
        others = [f"--ignore={file}" for files in PARTS for file in files]
        for part in (*PARTS, others):
            finish(start(f"tests, compiled: {' '.join(part)}", *compiled, "", *part))
    elif options:
        finish(start("tests, compiled", *compiled, "not exhaustive"))
    else:
        finish(start("tests, compiled", *compiled, "compiled and not slow and not exhaustive"))
    print("\nAll checks passed.")


if __name__ == "__main__":
    main()
