"""Files with contexts, answers and learners are private from their first byte."""

import subprocess
import sys
from pathlib import Path

from helpers.waiting import PATIENCE

CHILD = Path(__file__).with_name("watched_child.py")
SERVICE = """
[service]
journal = "made/x.journal"

[models.news]
labels = ["a", "b"]
learner = "Banditron"
"""


def test_nobody_else_may_read_what_a_service_writes_whatever_the_umask(tmp_path):
    (tmp_path / "x.toml").write_text(SERVICE)
    (tmp_path / "notes.txt").write_text("one\ntwo\nthree\n")
    ran = subprocess.run(
        [sys.executable, CHILD, tmp_path], capture_output=True, text=True, timeout=PATIENCE
    )
    assert ran.returncode == 0, ran.stderr
    *_, seen, public = ran.stdout.splitlines()
    for name in (
        *("x.journal", "x.journal-wal", "x.journal-shm", "x.journal.snapshots"),
        *("x.journal.copy", "backup.journal", "rounds.parquet", "news.onebit"),
        *("teach.journal", "lesson"),
    ):
        assert f" {name}" in seen
    assert ".damaged-" in seen and ".onebit" in seen
    assert public == "public:"
