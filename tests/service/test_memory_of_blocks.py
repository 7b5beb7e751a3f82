"""What large blocks of memory take goes back to the system when they are freed."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Six threads, one after another and each while the others wait, free a block behind which there is
# a small one that stays.
PROGRAM = """
import sys, threading
from pathlib import Path
import numpy as np
from onebit.service.running import return_large_blocks

def held():
    text = Path("/proc/self/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) * 1024

if sys.argv[1] == "returned":
    return_large_blocks()
np.ones(3 * 2**20)  # freed at once: now malloc takes blocks of this size for usual
before, kept, gate = held(), [], threading.Barrier(6)

def work():
    gate.wait()
    block = np.ones(2**21)
    kept.append(np.ones(2**12))
    gate.wait()
    del block
    gate.wait()

threads = [threading.Thread(target=work) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(held() - before)
"""


def grown(how: str) -> int:
    """Bytes that a process holds after all large blocks were freed."""
    run = [sys.executable, "-c", PROGRAM, how]
    return int(subprocess.run(run, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="only the C library of Linux keeps them")
def test_freed_blocks_go_back_to_the_system():
    assert grown("returned") < 2**24
    assert grown("kept") > 2**24  # one block at least: else this test shows nothing
