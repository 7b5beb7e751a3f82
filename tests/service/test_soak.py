"""Kills, jumps of the clock, second owners and full disks, while clients and readers go on.

ONEBIT_SOAK_SECONDS says how long (default: 40), and ONEBIT_SOAK_SEED in which order.
"""

from __future__ import annotations

import os

import pytest
from disk import built
from soak import Soak

SECONDS = float(os.environ.get("ONEBIT_SOAK_SECONDS", "40"))
SEED = int(os.environ.get("ONEBIT_SOAK_SEED", "1"))
MEMORY = 600 * 2**20  # bytes that a service may hold


@pytest.mark.slow
def test_a_service_that_is_disturbed(tmp_path):
    soak = Soak(tmp_path, SEED, built(tmp_path))
    soak.run(SECONDS)
    print(f"seed {SEED}, {SECONDS:.0f} s: {dict(soak.done)}")
    tenth = max(1, len(soak.memory) // 10)
    print(
        f"memory: {', '.join(f'{size / 2**20:.0f}' for size in soak.memory[::tenth])} MiB, ", end=""
    )
    print(f"at most {soak.peak / 2**20:.0f} MiB")
    assert soak.peak < MEMORY
    print(soak.ledger.check_journal(soak.configuration))
