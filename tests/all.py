"""All checks, in the order in which they fail fastest. Called by `./run test [--slow]`.

The tests run twice: compiled, and as plain Python, where coverage is measured.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
BIN = Path(sysconfig.get_path("scripts"))
COMPILE_MUCH = ("tests/test_algorithms.py", "tests/test_laws.py")  # half of the time


def step(title: str, *command: str) -> None:
    print(f"\n== {title}", flush=True)
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        sys.exit(f"{title}: failed")


def side_by_side(steps: dict[str, tuple[dict[str, str], list[str]]]) -> None:
    """Run several steps at once; print what they say one after another."""
    with contextlib.ExitStack() as stack:
        running = []
        for title, (env, command) in steps.items():
            output = stack.enter_context(tempfile.TemporaryFile("w+"))
            process = subprocess.Popen(
                command, cwd=ROOT, env={**os.environ, **env}, stdout=output, stderr=output
            )
            running.append((title, process, output))
        failed = []
        for title, process, output in running:
            if process.wait():
                failed.append(title)
            output.seek(0)
            print(f"\n== {title}\n{output.read()}", flush=True)
    if failed:
        sys.exit(f"{' and '.join(failed)}: failed")


def main() -> None:
    slow = "--slow" in sys.argv[1:]
    unknown = [arg for arg in sys.argv[1:] if arg != "--slow"]
    if unknown:
        sys.exit(f"unknown: {' '.join(unknown)}; for single tests use .venv/bin/pytest")
    pytest = ["-m", "pytest", "-q"]
    python = sys.executable
    step("ruff check", str(BIN / "ruff"), "check")
    step("ruff format", str(BIN / "ruff"), "format", "--check")
    step("imports", str(BIN / "lint-imports"))
    step("types", str(BIN / "pyright"), "--pythonpath", python)
    plain = [python, "-m", "coverage", "run", *pytest, "-p", "no:cacheprovider"]
    compiled = [python, *pytest, *(["-m", ""] if slow else [])]
    others = [f"--ignore={file}" for file in COMPILE_MUCH]
    print("\n== tests, plain and compiled side by side: some minutes", flush=True)
    side_by_side(
        {
            "tests, plain": ({"NUMBA_DISABLE_JIT": "1"}, plain),
            "tests of learners, compiled": ({}, [*compiled, *COMPILE_MUCH]),
            "other tests, compiled": ({}, [*compiled, *others]),
        }
    )
    step("coverage, plain", python, "-m", "coverage", "report")


if __name__ == "__main__":
    main()
