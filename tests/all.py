"""All checks, in the order in which they fail fastest. Called by `./run test [--slow]`.

The tests run twice: compiled, and as plain Python, where coverage is measured.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
BIN = Path(sysconfig.get_path("scripts"))
# Coverage doubles the time of a plain run. Not for the twins: the laws reach the same lines.
TWINS = "tests/test_algorithms.py"
UNMEASURED = (TWINS, "tests/test_naive.py")  # the latter calls nothing of ours
# The laws compile first what other tests use too, who then find it in the cache.
LEARNERS = ("tests/test_laws.py", TWINS)


def step(title: str, *command: str) -> None:
    print(f"\n== {title}", flush=True)
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        sys.exit(f"{title}: failed")


class Step(NamedTuple):
    title: str
    env: dict[str, str]
    command: list[str]


def one_after_another(steps: list[Step]) -> list[str]:
    """Run steps, all of them; print what they say; return the titles of those that failed."""
    failed = []
    for title, env, command in steps:
        whole = {**os.environ, **env}
        done = subprocess.run(command, cwd=ROOT, env=whole, stdout=PIPE, stderr=STDOUT, text=True)
        print(f"\n== {title}\n{done.stdout}", flush=True)
        failed += [title] if done.returncode else []
    return failed


def side_by_side(*chains: list[Step]) -> None:
    with ThreadPoolExecutor(len(chains)) as pool:
        failed = [title for titles in pool.map(one_after_another, chains) for title in titles]
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
    plain = [*pytest, "-p", "no:cacheprovider"]
    compiled = [python, *pytest, *(["-m", ""] if slow else [])]
    others = [f"--ignore={file}" for file in LEARNERS]
    uncompiled = {"NUMBA_DISABLE_JIT": "1"}
    unmeasured = [f"--ignore={file}" for file in UNMEASURED]
    covered = [python, "-m", "coverage", "run", *plain, *unmeasured]
    print("\n== tests, plain and compiled side by side: some minutes", flush=True)
    side_by_side(
        [
            Step("tests, plain", uncompiled, covered),
            Step("tests of twins, plain", uncompiled, [python, *plain, TWINS]),
            Step("other tests, compiled", {}, [*compiled, *others]),
        ],
        [Step("tests of learners, compiled", {}, [*compiled, *LEARNERS])],
    )
    step("coverage, plain", python, "-m", "coverage", "report")


if __name__ == "__main__":
    main()
