"""A journal has one owner, whatever becomes of its names, and who is late changes nothing.

What a lock cannot prevent (a file system without locks, a file that is copied over the journal) is
played by `unlocked`, which lets everybody take the lock.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from helpers.serving import serving
from helpers.waiting import PATIENCE
from running import Home, assert_pure, context, play

from onebit.service.faults import JournalInUse, Superseded, Unavailable
from onebit.service.journal import ChangeRow, Journal, ReadOnlyJournal
from onebit.service.journal.backup import back_up
from onebit.service.journal.ownership import Held
from onebit.service.journal.repair import repair

PLAIN = {**os.environ, "NUMBA_DISABLE_JIT": "1", "NO_PROXY": "*"}  # starts at once
OPEN = "from onebit.service.journal import Journal; Journal({!r})"
CONVERT = (
    "import sqlite3; sqlite3.connect({!r}, timeout=.1).execute('PRAGMA journal_mode = DELETE')"
)


@pytest.fixture
def home(tmp_path):
    place = Home(tmp_path)
    yield place
    place.stop()


@pytest.fixture
def unlocked(monkeypatch):
    monkeypatch.setattr(Held, "lock", lambda self: True)


def said_elsewhere(program: str, path: Path) -> str:
    """What another process complains of."""
    run = [sys.executable, "-c", program.format(str(path))]
    return subprocess.run(run, capture_output=True, text=True).stderr


def add(journal: Journal) -> None:
    position, time = journal.stamp()
    journal.append(ChangeRow(position, 1, time, "test", None, "{}")).done.result(PATIENCE)


def content(path: Path) -> list[list[tuple]]:
    with closing(sqlite3.connect(path)) as connection:
        tables = ("meta", "changes", "decisions", "answers")
        return [connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables]


@pytest.mark.parametrize("how", ["same name", "lock file removed", "hard link", "symbolic link"])
def test_a_second_owner_is_refused(tmp_path, how):
    path = second = tmp_path / "a.journal"
    with closing(Journal(path)) as journal:
        add(journal)
        if how == "lock file removed":
            for file in tmp_path.glob("*lock*"):
                file.unlink()
        elif how != "same name":
            second = tmp_path / "b.journal"
            (second.hardlink_to if how == "hard link" else second.symlink_to)(path)
        with pytest.raises(JournalInUse, match="in use by another process"):
            Journal(second)
        said = said_elsewhere(OPEN, second)
        assert "JournalInUse" in said and f"({os.getpid()})" in said
        add(journal)
    assert "JournalInUse" not in said_elsewhere(OPEN, second)


def test_a_name_without_the_log_is_refused(tmp_path):
    """SQLite looks for the log beside the name that it is given: it would see too little."""
    path, link = tmp_path / "a.journal", tmp_path / "b.journal"
    far = tmp_path / "elsewhere" / "c.journal"
    far.parent.mkdir()
    with closing(Journal(path)) as journal:
        add(journal)
        last = journal.position
        for name, said in ((link, "also named a.journal"), (far, "under another name")):
            name.hardlink_to(path)
            for read in (lambda name=name: back_up(name, tmp_path / "copy"), ReadOnlyJournal):
                with pytest.raises(Unavailable, match=said):
                    read(name) if read is ReadOnlyJournal else read()
        with closing(ReadOnlyJournal(path)) as reader:
            assert reader.position == last
        assert back_up(path, tmp_path / "copy") > 0
        killed = tmp_path / "killed"  # a copy of what a process leaves that is killed
        killed.mkdir()
        for file in (path, Path(f"{path}-wal")):
            shutil.copy(file, killed)
    (killed / "b.journal").hardlink_to(killed / "a.journal")
    for opens in (Journal, ReadOnlyJournal, repair):
        with pytest.raises(Unavailable, match=r"newest events are in a\.journal-wal"):
            opens(killed / "b.journal")
    for name in (killed / "a.journal", link, path):  # those of one that has stopped are complete
        with closing(Journal(name)) as journal:
            assert journal.position == last


def test_the_lock_leaves_no_file(tmp_path):
    Journal(tmp_path / "j").close()
    assert [found.name for found in tmp_path.iterdir()] == ["j"]


def test_who_is_refused_or_looks_leaves_the_locks_of_sqlite(tmp_path):
    """A process that closes a descriptor of a file loses all its POSIX locks on that file."""
    path = tmp_path / "j"
    with closing(Journal(path)) as journal:
        add(journal)
        with pytest.raises(JournalInUse):
            Journal(path)
        with closing(ReadOnlyJournal(path)) as reader:
            assert reader.is_written
        assert "database is locked" in said_elsewhere(CONVERT, path)
    with closing(ReadOnlyJournal(path)) as reader, closing(ReadOnlyJournal(path)) as second:
        assert not reader.is_written and not second.is_written
        second.close()
        assert "database is locked" in said_elsewhere(CONVERT, path)


def test_a_reader_sees_an_owner_come_and_go(tmp_path):
    path = tmp_path / "j"
    Journal(path).close()
    with closing(ReadOnlyJournal(path)) as reader:
        assert not reader.is_written
        journal = Journal(path)
        assert reader.is_written
        journal.failure = OSError("fsync failed, says the test")
        journal.recover()  # a copy takes its place
        assert reader.is_written
        journal.close()
        assert not reader.is_written
        path.unlink()
        assert not reader.is_written


def test_the_copy_after_a_failure_is_locked_too(tmp_path):
    path = tmp_path / "j"
    with closing(Journal(path)) as journal:
        add(journal)
        inode = path.stat().st_ino
        journal.failure = OSError("fsync failed, says the test")
        journal.recover()
        assert path.stat().st_ino != inode
        assert "JournalInUse" in said_elsewhere(OPEN, path)
        add(journal)


def test_what_is_not_of_the_disk_makes_no_copy(tmp_path):
    path = tmp_path / "j"
    with closing(Journal(path)) as journal:
        add(journal)
        inode = path.stat().st_ino
        with pytest.raises(Unavailable, match="UNIQUE constraint failed"):
            journal.append(ChangeRow(1, 1, 0.0, "twice", None, "{}")).done.result(PATIENCE)
        journal.recover()
        add(journal)
        assert path.stat().st_ino == inode


@pytest.mark.parametrize("late", [0, 1])
def test_the_owner_who_is_late_changes_nothing(tmp_path, unlocked, late):
    path = tmp_path / "j"
    with closing(Journal(path)) as journal:
        add(journal)
    owners = [Journal(path), Journal(path)]
    add(owners[1 - late])
    before = content(path)
    with pytest.raises(Unavailable, match="another process has taken over the journal"):
        add(owners[late])
    assert isinstance(owners[late].failure, Superseded)
    with pytest.raises(Superseded):
        owners[late].recover()
    with pytest.raises(Unavailable):
        add(owners[late])
    owners[late].close()
    assert content(path) == before
    add(owners[1 - late])
    owners[1 - late].close()


def test_a_journal_that_was_cut_is_noticed(tmp_path):
    with closing(Journal(tmp_path / "j")) as journal:
        add(journal)
        add(journal)
        with closing(sqlite3.connect(tmp_path / "j")) as connection, connection:
            connection.execute("DELETE FROM changes WHERE position = 2")
        with pytest.raises(Unavailable, match="at position 1, not 2"):
            add(journal)
        assert isinstance(journal.failure, Superseded)


def test_a_failed_disk_does_not_let_the_late_owner_replace_the_journal(tmp_path, unlocked):
    path = tmp_path / "j"
    Journal(path).close()
    first, second = Journal(path), Journal(path)
    add(first)
    add(first)
    inode, before = path.stat().st_ino, content(path)

    def fail():
        raise OSError("fsync failed, says the test")

    check, second._owner.check = second._owner.check, fail
    with pytest.raises(Unavailable, match="fsync failed"):
        add(second)
    second._owner.check = check
    with pytest.raises(Superseded, match="another process has taken over the journal"):
        second.recover()
    second.close()
    assert path.stat().st_ino == inode and content(path) == before
    assert sorted(found.name for found in tmp_path.iterdir()) == ["j", "j-shm", "j-wal"]
    add(first)
    first.close()


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_journal_that_has_lost_its_name_is_not_written(tmp_path, how):
    path = tmp_path / "j"
    with closing(Journal(path)) as journal:
        add(journal)
        path.rename(tmp_path / "moved")
        if how == "replaced":
            shutil.copy(tmp_path / "moved", path)
        with pytest.raises(Unavailable, match="removed or replaced by another file"):
            add(journal)
    (tmp_path / "moved").replace(path)  # beside its write-ahead log
    assert len(content(path)[1]) == 1


@pytest.mark.parametrize("step", ["advance", "confirm"])
def test_a_commit_that_was_in_doubt_is_no_other_owner(tmp_path, monkeypatch, step):
    """The first commit writes the epoch. Its failure leaves the owner with either of two."""

    def fail(*_):
        raise OSError("says the test")

    with closing(Journal(tmp_path / "j")) as journal:
        with monkeypatch.context() as failing:
            failing.setattr(journal._fence, step, fail)
            with pytest.raises(Unavailable, match="says the test"):
                add(journal)
        journal.recover()
        add(journal)
    assert len(content(tmp_path / "j")[1]) == (1 if step == "advance" else 2)


def test_a_service_that_is_late_ends(home, tmp_path, unlocked):
    service = home.start()
    news, ended = service.models["news"], []
    service.on_end = ended.append
    ids = play(news, 5)
    other = home.start()
    play(other.models["news"], 5, first=5)
    before = content(home.journal)
    with serving(service) as site:
        for _ in range(2):
            told = site.http.post("/v1/models/news/decisions", json={"context": context(1)})
            assert told.status_code == 503 and "another process" in told.json()["detail"]
        answer = site.http.put(f"/v1/decisions/{ids[0]}/feedback", json={"right": True})
        assert answer.status_code == 503
        assert ended  # before anybody is told
        assert site.http.get("/ready").status_code == 503
    assert isinstance(ended[0], Superseded) and not home.snapshots
    assert content(home.journal) == before
    play(other.models["news"], 5, first=10)
    assert_pure(other.models["news"])


def test_the_process_stops_when_its_journal_was_replaced(tmp_path):
    home = Home(tmp_path)
    run = [sys.executable, "-m", "onebit.cli", "serve", str(home.config), "--port", "0"]
    with subprocess.Popen(run, env=PLAIN, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            lines = iter(process.stderr)
            address = next(line.split()[-1] for line in lines if "address" in line)
            next(line for line in lines if "ready after" in line)
            ask = {"context": {"a": 1}}
            with httpx.Client(base_url=address, timeout=PATIENCE) as http:
                assert http.post("/v1/models/news/decisions", json=ask).status_code == 201
                shutil.copy(home.journal, tmp_path / "copy")
                (tmp_path / "copy").rename(home.journal)
                assert http.post("/v1/models/news/decisions", json=ask).status_code == 503
            said = "".join(lines)
            assert process.wait(PATIENCE) == 2
        finally:
            process.kill()
    assert "removed or replaced by another file" in said and "Traceback" not in said
    assert "all that was accepted is in the journal" not in said
