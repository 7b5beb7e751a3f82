"""Run a command several times while other processes keep the machine busy.

    python tests/busy.py ./run test
    python tests/busy.py --processes 8 --times 3 .venv/bin/python -m pytest tests/service

Ends with the status 1 if the command fails once. No test may depend on the speed of the machine.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

BUSY = "while True: pass"


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--processes", type=int, default=8)
    arguments.add_argument("--times", type=int, default=3)
    arguments.add_argument("command", nargs=argparse.REMAINDER)
    given = arguments.parse_args()
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(given.processes)]
    failed = 0
    try:
        for number in range(1, given.times + 1):
            begun = time.monotonic()
            status = subprocess.run(given.command).returncode
            failed += status != 0
            print(f"\n== {number} of {given.times}: status {status}, ", end="")
            print(f"{time.monotonic() - begun:.0f} s beside {given.processes} busy processes")
    finally:
        for process in busy:
            process.kill()
            process.wait()
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
