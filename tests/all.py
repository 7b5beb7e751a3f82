"""All checks. Called by `./run test [--slow | --all]`; docs/testing.md says what runs where.

Tests run as plain Python first, then compiled, each time on all cores. A check that fails stops
no other: the end says which ones failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
BIN = Path(sysconfig.get_path("scripts"))
# Three for two cores: many tests of services and pages wait for processes and for the disk.
WORKERS = str(3 * min(os.cpu_count() or 2, 8) // 2)
PLAIN, COMPILED = {"NUMBA_DISABLE_JIT": "1"}, {"NUMBA_DISABLE_JIT": "0"}


class Size(NamedTuple):
    """Which tests run in which way, as pytest's -m has it."""

    plain: str
    measured: str  # plain as well, under coverage, which takes twice as long; empty: no test
    compiled: str
    parts: int  # compiled code stays in memory, 5 MB for each second: a part begins afresh


WITHIN = "not slow and not exhaustive"
BASIC = f"{WITHIN} and not thorough"
SIZES = {
    "": Size(f"{BASIC} and not compiled", "", f"{BASIC} and compiled", 1),
    "--slow": Size(
        f"{WITHIN} and (thorough or untraced)",
        f"{BASIC} and not untraced",
        "(compiled or slow) and not exhaustive",
        1,
    ),
    "--all": Size(
        "(thorough or exhaustive or untraced) and not slow", f"{BASIC} and not untraced", "", 8
    ),
}


class Checks:
    """Commands that check something; `failed` has the titles of those that found a fault."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    def start(self, title: str, *command: str | Path, **env: str) -> Callable[[], None]:
        """Start a command; returns what waits for its end."""
        print(f"\n== {title}", flush=True)
        process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **env})

        def finish() -> None:
            if process.wait():
                print(f"\n{title}: failed", flush=True)
                self.failed.append(title)

        return finish

    def run(self, title: str, *command: str | Path, **env: str) -> None:
        self.start(title, *command, **env)()


def check(size: Size, python: str) -> list[str]:
    """Run all checks; returns the titles of those that failed."""
    checks = Checks()
    checks.run("ruff check", BIN / "ruff", "check")
    checks.run("ruff format", BIN / "ruff", "format", "--check")
    checks.run("imports", BIN / "lint-imports")
    finish_types = checks.start("types", BIN / "pyright", "--pythonpath", python)
    pytest = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", WORKERS]
    plain = [*pytest, "--dist", "worksteal", "-m"]
    if size.measured:
        coverage = ["--cov", "--cov-report=term-missing"]
        title = "tests, plain, coverage"
        checks.run(title, *plain, size.measured, *coverage, **PLAIN)
    checks.run("tests, plain", *plain, size.plain, **PLAIN)
    finish_types()
    for part in range(1, size.parts + 1):
        share = f"{part}/{size.parts}"
        compiled = [*pytest, "--dist", "loadgroup", "-m", size.compiled, "--part", share]
        checks.run(f"tests, compiled, {share}", *compiled, **COMPILED)
    return checks.failed


def main() -> None:
    chosen = " ".join(sys.argv[1:])
    if chosen not in SIZES:
        sys.exit(f"unknown: {chosen}; for single tests use .venv/bin/pytest")
    # Without bytecode on disk, each process compiles all tests and sources again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if chosen:
        os.environ.setdefault("ONEBIT_FUZZ", "4000")  # tries of test_forged.py
        os.environ.setdefault("ONEBIT_SOAK", "10")  # seconds of test_threads.py
    if failed := check(SIZES[chosen], sys.executable):
        sys.exit("\nFailed: " + "; ".join(failed))
    print("\nAll checks passed.")


if __name__ == "__main__":
    main()
