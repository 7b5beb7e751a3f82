"""All checks. Called by `./run test [--slow | --all]`; docs/testing.md says what runs where.

Tests run as plain Python first, then compiled, each time on all cores.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
BIN = Path(sysconfig.get_path("scripts"))
CORES = str(min(os.cpu_count() or 2, 8))


class Size(NamedTuple):
    plain: str  # which tests run uncompiled, as pytest's -m has it
    compiled: str
    parts: int  # compiled code stays in memory, 5 MB for each second: a part begins afresh
    is_measured: bool = True  # whether coverage is


SIZES = {
    "": Size("not slow and not exhaustive", "compiled and not slow and not exhaustive", 1, False),
    "--slow": Size("not slow and not exhaustive", "(compiled or slow) and not exhaustive", 1),
    "--all": Size("not slow", "", 8),
}


def start(title: str, *command: str | Path, **env: str) -> tuple[str, subprocess.Popen]:
    print(f"\n== {title}", flush=True)
    return title, subprocess.Popen(command, cwd=ROOT, env={**os.environ, **env})


def finish(started: tuple[str, subprocess.Popen]) -> None:
    title, process = started
    if process.wait():
        sys.exit(f"{title}: failed")


def main() -> None:
    chosen = " ".join(sys.argv[1:])
    if chosen not in SIZES:
        sys.exit(f"unknown: {chosen}; for single tests use .venv/bin/pytest")
    size, python = SIZES[chosen], sys.executable
    if chosen:
        os.environ.setdefault("ONEBIT_FUZZ", "4000")  # tries of test_forged.py
        os.environ.setdefault("ONEBIT_SOAK", "10")  # seconds of test_threads.py
    finish(start("ruff check", BIN / "ruff", "check"))
    finish(start("ruff format", BIN / "ruff", "format", "--check"))
    finish(start("imports", BIN / "lint-imports"))
    types = start("types", BIN / "pyright", "--pythonpath", python)
    pytest = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", CORES]
    measured = ["--cov", "--cov-report=term-missing"] if size.is_measured else []
    plain = [*pytest, "--dist", "worksteal", *measured, "-m", size.plain]
    finish(start("tests, plain", *plain, NUMBA_DISABLE_JIT="1"))
    finish(types)
    for part in range(1, size.parts + 1):
        share = f"{part}/{size.parts}"
        compiled = [*pytest, "--dist", "loadgroup", "-m", size.compiled, "--part", share]
        finish(start(f"tests, compiled, {share}", *compiled))
    print("\nAll checks passed.")


if __name__ == "__main__":
    main()
