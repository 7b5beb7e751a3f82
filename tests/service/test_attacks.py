"""The attacks of benchmarks/attacks.py, with less of everything. Seconds decide nothing here."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.attacks import ATTACKS, SMALL, Missing, under_attack

SOURCE = Path(__file__).parents[2] / "src"
# These measure seconds, or need a journal that is too long for a test.
MEASURED = {"readers", "past"}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux"),
]


@pytest.mark.parametrize("name", sorted(ATTACKS.keys() - MEASURED))
def test_the_service_holds(tmp_path, name):
    try:
        with under_attack(SOURCE, SMALL, str(tmp_path)) as site:
            found = ATTACKS[name](site)
    except Missing as missing:
        pytest.skip(str(missing))
    assert found.holds, found.said
