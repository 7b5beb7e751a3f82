"""Inspection, repair, replay and backup of a journal."""

from __future__ import annotations

import random
import shutil
import sqlite3
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from helpers.journals import TABLES, Clock, content, news, played, sizes

import onebit as ob
from onebit import cli
from onebit.learner import files
from onebit.service import snapshots
from onebit.service.engine import Engine
from onebit.service.engine.building import Builder
from onebit.service.faults import Damaged, JournalInUse, Unavailable, UnknownModel
from onebit.service.journal import SCHEMA, Journal, ReadOnlyJournal
from onebit.service.journal import repair as repairing
from onebit.service.journal.backup import back_up
from onebit.service.journal.repair import repair
from onebit.service.messages import Answer, SourceChange
from onebit.service.upkeep.inspection import inspect
from onebit.service.upkeep.journals import chosen_model
from onebit.service.upkeep.replay import Replay
from onebit.testing import model_bytes

PAGE = 4096
KEPT = Path(__file__).with_name("journals") / "v1.journal"


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    path = tmp_path_factory.mktemp("original") / "journal"
    played(path, 400)
    return path


@pytest.fixture
def journal(original, tmp_path):
    shutil.copytree(original.with_name("journal.snapshots"), tmp_path / "journal.snapshots")
    return Path(shutil.copy(original, tmp_path / "journal"))


def rows_of(path):
    with closing(sqlite3.connect(path)) as connection:
        return content(connection)


def readable(path):
    """The rows that SQLite can find one by one, from both ends and by position."""
    found = {table: set() for table in TABLES}
    with closing(sqlite3.connect(path)) as connection:
        for table, key in (("decisions", "position"), ("answers", "position")):
            for direction in ("ASC", "DESC"):
                try:
                    for row in connection.execute(
                        f"SELECT * FROM {table} ORDER BY {key} {direction}"
                    ):
                        found[table].add(row)
                except (sqlite3.DatabaseError, UnicodeDecodeError):
                    pass
            for position in range(1, 2000):
                try:
                    query = f"SELECT * FROM {table} WHERE {key} = ?"
                    found[table].update(connection.execute(query, (position,)))
                except (sqlite3.DatabaseError, UnicodeDecodeError):
                    pass
    return found


def damage(path, rng, pages, how):
    """Overwrites some pages."""
    with open(path, "r+b") as file:
        chosen = rng.sample(range(1, file.seek(0, 2) // PAGE), pages)
        for page in chosen:
            file.seek(page * PAGE)
            if how == "zeros":
                file.write(bytes(PAGE))
            elif how == "noise":
                file.write(rng.randbytes(PAGE))
            else:  # a torn write
                file.seek(page * PAGE + 2048)
                file.write(rng.randbytes(2048))


def test_a_healthy_journal(journal):
    facts = inspect(journal)
    assert not facts.problems and facts.schema == SCHEMA
    news, sizes = facts.models
    assert (news.name, sizes.name) == ("news", "sizes")
    assert news.decisions + sizes.decisions == 401
    assert news.cancelled and news.open and sizes.changes
    assert news.first == pytest.approx(1_800_000_060, abs=600) and news.last > news.first
    assert [is_current for _, is_current in news.snapshots] == [True]
    before = rows_of(journal)
    found = repair(journal)
    assert not found.pages and not found.rows and found.snapshots is None
    assert rows_of(journal) == before and rows_of(found.kept) == before
    assert found.events == {table: len(before[table]) for table in found.events}


def test_a_journal_whose_first_rows_are_of_an_earlier_schema(tmp_path):
    """SQLite adds a column without writing the rows again, and a repair reads them as they are."""
    path = Path(shutil.copy(KEPT, tmp_path / "journal"))
    with closing(Journal(path)) as journal:  # it is brought up to date
        later = ("UPDATE decisions SET confidence = 0.25 WHERE position % 2", ())
        journal.append(statements=[later]).done.result()
    before = rows_of(path)
    assert {row[-2:] for row in before["decisions"]} == {(None, None), (0.25, None)}
    found = repair(path)
    assert not found.pages and not found.rows
    assert rows_of(path) == before


@pytest.mark.parametrize("how", ["zeros", "noise", "torn"])
@pytest.mark.parametrize("seed", range(5))
def test_no_readable_event_is_lost(original, journal, seed, how):
    rng = random.Random(f"{seed} {how}")
    damage(journal, rng, pages=1 + seed * 2, how=how)
    before, still = rows_of(original), readable(journal)
    found = repair(journal)
    if how == "zeros":
        assert found.pages or found.rows
    after = rows_of(journal)
    for table in ("decisions", "answers"):
        known = set(before[table])
        assert set(after[table]) <= known  # nothing was invented
        lost = known - set(after[table])
        missed = still[table] & lost
        assert not missed, sorted(row[0] for row in missed)
        if lost:
            assert found.pages or found.rows
        gaps = {p for first, last in found.missing for p in range(first, last + 1)}
        last = max(row[0] for name in ("decisions", "answers") for row in after[name])
        assert {row[0] for row in lost if row[0] < last} <= gaps
    assert inspect(journal).problems == []
    assert found.kept.exists()
    with closing(Journal(journal)) as opened:  # it works again
        for model in (news(), sizes()):
            engine = Engine(opened, model, folder=journal.with_name("other"))
            if (model.name,) in [row[1:] for row in after["models"]]:
                engine.decide({"a": 1})


def test_a_damaged_root_hides_nothing(original, journal):
    with closing(sqlite3.connect(journal)) as connection:
        roots = dict(connection.execute("SELECT name, rootpage FROM sqlite_master"))
    with open(journal, "r+b") as file:
        for table in ("decisions", "answers"):
            file.seek((roots[table] - 1) * PAGE)
            file.write(bytes(PAGE))
    found = repair(journal)
    assert rows_of(journal) == rows_of(original)
    assert not found.rows


def test_a_damaged_first_page(original, journal):
    with open(journal, "r+b") as file:
        file.write(random.Random(0).randbytes(PAGE))
    with pytest.raises(Damaged, match="--repair"):
        inspect(journal)
    with pytest.raises(Damaged, match="--repair"):
        Journal(journal)
    found = repair(journal)
    assert found.pages == [1] and found.snapshots is not None
    after, before = rows_of(journal), rows_of(original)
    assert after == before


def copy_with_log(path, target, rounds=60):
    """A journal whose events are in the write-ahead log, as after a power loss."""
    opened = Journal(path, clock=Clock())
    engine = Engine(opened, news(), folder=path.with_name("s"))
    for i in range(rounds):
        told = engine.decide({f"word{i}": 1.0})
        engine.feedback(told.id, right=True)
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", f"{target}{suffix}")
    opened.close()
    return rows_of(path)


def test_the_write_ahead_log_counts(tmp_path):
    target = tmp_path / "cut"
    before = copy_with_log(tmp_path / "j", target)
    repair(target)
    assert rows_of(target) == before


def test_behind_a_damaged_frame(tmp_path):
    target = tmp_path / "cut"
    before = copy_with_log(tmp_path / "j", target)
    with open(f"{target}-wal", "r+b") as file:
        frames = (file.seek(0, 2) - 32) // (PAGE + 24)
        file.seek(32 + (frames // 2) * (PAGE + 24) + 100)
        file.write(b"noise")
    with closing(sqlite3.connect(f"{target.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        seen = connection.execute("SELECT count(*) FROM decisions").fetchone()[0]
    assert seen < 60
    repair(target)
    assert rows_of(target)["decisions"] == before["decisions"]


def journal_with_a_past(path, target):
    """A journal in whose past much was changed; the copy has all of it in its log."""
    clock = Clock()
    opened = Journal(path, clock=clock)
    engine = Engine(opened, news(revisions=True), folder=path.with_name("s"))
    ids = []
    for i in range(60):
        clock.now += 1
        ids.append(engine.decide({f"word{i}": 1.0}).id)
        engine.feedback(ids[-1], right=i % 3 == 0, source="bot" if i % 4 == 0 else "ann")
    engine.submit_source("bot", SourceChange(quarantined=True))
    for id in ids[10:20]:
        engine.revoke(id)
    engine.cancel(ids[30])
    engine.erase(ids[31])
    clock.now += 1
    engine.submit_remove_source("ann")
    clock.now += 1
    engine.revise(ids[0], right=False)
    engine.feedback(ids[4], right=True, source="ann")  # the same position, another source
    opened.flush()
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", f"{target}{suffix}")
    opened.close()
    return rows_of(path)


def test_what_was_taken_back_does_not_come_back(tmp_path):
    """Whichever frame of the log is damaged."""
    target = tmp_path / "cut"
    before = journal_with_a_past(tmp_path / "j", target)
    log = Path(f"{target}-wal")
    frames = (log.stat().st_size - 32) // (PAGE + 24)
    kept = [path.read_bytes() for path in (target, log)]
    for frame in range(0, frames, max(frames // 12, 1)):
        target.write_bytes(kept[0])
        log.write_bytes(kept[1])
        with log.open("r+b") as file:
            file.seek(32 + frame * (PAGE + 24) + 24 + 2000)
            file.write(b"noise")
        found = repair(target)
        after = rows_of(target)
        assert {row[0] for row in after["answers"]} <= {row[0] for row in before["answers"]}
        assert after["sources"] == before["sources"] == [(1, "bot", 0.0)]
        if not found.rows:  # a later version of the page is whole
            assert after == before
        for path in tmp_path.glob("cut*"):
            path.unlink()


def test_a_healthy_past_is_repaired_to_the_same(tmp_path):
    before = journal_with_a_past(tmp_path / "j", tmp_path / "cut")
    found = repair(tmp_path / "j")
    assert not found.pages and not found.rows and rows_of(tmp_path / "j") == before


def test_a_quarantine_outlives_its_page(tmp_path):
    before = journal_with_a_past(tmp_path / "j", tmp_path / "cut")
    with closing(sqlite3.connect(tmp_path / "j")) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'sources'"
        (root,) = connection.execute(query).fetchone()
    with open(tmp_path / "j", "r+b") as file:
        file.seek((root - 1) * PAGE)
        file.write(random.Random(1).randbytes(PAGE))
    assert repair(tmp_path / "j").pages == [root]
    assert rows_of(tmp_path / "j") == before


@pytest.mark.parametrize("kind", ["text", "database", "empty"])
def test_a_file_that_is_no_journal_is_not_repaired(tmp_path, kind):
    path = tmp_path / "foreign"
    path.write_text("hello\n" * 1000 if kind == "text" else "")
    if kind == "database":
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE people (number INTEGER PRIMARY KEY, name TEXT)")
            connection.executemany("INSERT INTO people (name) VALUES (?)", [("x",)] * 100)
            connection.commit()
    before = path.read_bytes()
    with pytest.raises(Damaged, match="is not a journal of onebit"):
        repair(path)
    assert path.read_bytes() == before
    assert {found.name for found in tmp_path.iterdir()} == {"foreign"}


def test_repair_needs_the_journal_for_itself(journal):
    with closing(Journal(journal)), pytest.raises(JournalInUse, match="in use by another"):
        repair(journal)
    with pytest.raises(FileNotFoundError, match="there is no journal"):
        repair(journal.with_name("nothing"))


@pytest.mark.parametrize("number", [0, 1, 127, 128, 2**14, 2**31, 2**56 - 1, 2**62, -1, -(2**40)])
def test_numbers_of_variable_length(tmp_path, number):
    path = tmp_path / "j"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE models (number INTEGER PRIMARY KEY, name TEXT)")
        connection.execute("INSERT INTO models VALUES (?, 'x')", (number,))
    with repairing._Pages(path) as pages:
        assert list(pages.rows()) == [("models", (number, "x"))]


# Replay.


def test_replay_gives_the_same_bytes(journal):
    with closing(ReadOnlyJournal(journal)) as opened:
        assert opened.models() == {"news": 1, "sizes": 2}
        for name in opened.models():
            built = Replay(opened, name)
            assert built.is_same is True and built.position <= opened.position
        with pytest.raises(ValueError, match="say which model"):
            chosen_model(opened, None)
        with pytest.raises(UnknownModel, match="there are: news, sizes"):
            chosen_model(opened, "sports")
        with pytest.raises(Unavailable, match="only read"):
            opened.append()


def test_replay_beside_the_service(journal):
    with closing(Journal(journal)) as opened:
        engine = Engine(opened, news(), folder=journal.with_name("journal.snapshots"))
        told = engine.decide({"a": 1})
        engine.feedback(told.id, right=True)
        with closing(ReadOnlyJournal(journal)) as reader:
            built = Replay(reader, "news")
        assert built.is_same is True  # at the position of the snapshot
        assert model_bytes(built.learner) == model_bytes(engine.learner)
        engine.snapshot()


@pytest.mark.parametrize("late", ["found", "replayed"])
def test_replay_while_the_past_changes(journal, monkeypatch, late):
    """The service takes an answer back, and gets it anew, before or after a snapshot is found."""
    with closing(Journal(journal)) as opened:
        folder = journal.with_name("journal.snapshots")
        engine = Engine(opened, news(revisions=True), folder=folder)
        told = [engine.decide({"a": 1}) for _ in range(6)]
        engine.feedback_many([Answer(id=one.id, right=True) for one in told])
        engine.snapshot()
        before = model_bytes(engine.learner)

        def change():
            monkeypatch.undo()
            engine.revoke(told[0].id)
            engine.feedback(told[0].id, right=False)
            engine.revise(told[1].id, right=False)
            engine.settle()
            engine.snapshot()

        if late == "found":
            found = snapshots.found
            monkeypatch.setattr(snapshots, late, lambda *given: (change(), found(*given))[1])
        else:
            replayed = Builder.replayed

            def replayed_then_changed(*given):
                made = replayed(*given)
                change()
                return made

            monkeypatch.setattr(Builder, late, replayed_then_changed)
        with closing(ReadOnlyJournal(journal)) as reader:
            built = Replay(reader, "news")
        assert built.is_same is not False
        assert model_bytes(built.learner) == before
        with closing(ReadOnlyJournal(journal)) as reader:
            built = Replay(reader, "news")
        assert built.is_same is True
        assert model_bytes(built.learner) == model_bytes(engine.learner) != before
        engine.close()


def test_replay_finds_a_snapshot_that_differs(journal):
    (path,) = journal.with_name("journal.snapshots").glob("news@*")
    learner = ob.load(path)
    learner.forget(0.5)
    learner.save(path)
    with closing(ReadOnlyJournal(journal)) as reader:
        assert Replay(reader, "news").is_same is False
    path.write_bytes(b"damaged")
    with closing(ReadOnlyJournal(journal)) as reader:
        assert Replay(reader, "news").is_same is False


def test_a_snapshot_of_another_release_may_be_the_same(journal):
    (path,) = journal.with_name("journal.snapshots").glob("news@*")
    head, arrays = files.read(path)
    assert head["version"] == ob.__version__
    files.write(path, head | {"version": "0.0.1"}, arrays)
    with closing(ReadOnlyJournal(journal)) as reader:
        assert Replay(reader, "news").is_same is True


def test_no_snapshot_of_a_learner_that_was_to_be_built_again(tmp_path, monkeypatch):
    """The service stops before a revised answer is learned: the next start learns it."""
    monkeypatch.setattr("onebit.service.engine.rebuilding.AT_ONCE", 0)
    path = tmp_path / "j"
    with closing(Journal(path)) as opened:
        engine = Engine(opened, news(revisions=True), folder=tmp_path / "j.snapshots")
        told = [engine.decide({"a": 1.0, f"b{i}": 1.0}) for i in range(20)]
        for decision in told:
            engine.feedback(decision.id, right=False)
        engine.abandon()  # as if the service stopped at this moment
        engine.revise(told[3].id, right=True)
        engine.close()
    with closing(Journal(path)) as opened:
        engine = Engine(opened, news(revisions=True), folder=tmp_path / "j.snapshots")
        assert model_bytes(engine.learner) == model_bytes(engine.replayed())


# Backup.


def test_a_backup_beside_a_writer(journal, tmp_path):
    with closing(Journal(journal)) as opened:
        engine = Engine(opened, news(), folder=journal.with_name("s"))
        stop = threading.Event()

        def write():
            while not stop.is_set():
                told = engine.decide({"a": 1})
                engine.feedback(told.id, right=True)

        thread = threading.Thread(target=write)
        thread.start()
        for i in range(3):
            assert back_up(journal, tmp_path / f"copy{i}") > 0
        stop.set()
        thread.join()
    for i in range(3):
        assert inspect(tmp_path / f"copy{i}").problems == []
        with closing(Journal(tmp_path / f"copy{i}")) as opened:  # restored
            Engine(opened, news(), folder=tmp_path / "s2").decide({"a": 1})
    leftovers = [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert not leftovers


def test_backups_that_cannot_be_made(journal, tmp_path):
    with pytest.raises(ValueError, match="the journal itself"):
        back_up(journal, journal)
    with pytest.raises(FileNotFoundError):
        back_up(tmp_path / "nothing", tmp_path / "copy")
    for foreign in ("empty", "of another program"):
        with closing(sqlite3.connect(tmp_path / foreign)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            if foreign != "empty":
                connection.execute("CREATE TABLE meta (name TEXT, value TEXT)")
        with pytest.raises(Damaged, match="is not a journal of onebit"):
            back_up(tmp_path / foreign, tmp_path / "copy")
    damage(journal, random.Random(3), pages=20, how="noise")
    with pytest.raises(Damaged):
        back_up(journal, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_journal_that_is_half_replaced_by_its_copy_is_not_read(journal, tmp_path):
    """After a crash in the middle of a recovery: the old file has lost its log already."""
    shutil.copy(journal, f"{journal}.recovered")
    for read in (lambda: ReadOnlyJournal(journal), lambda: back_up(journal, tmp_path / "copy")):
        with pytest.raises(Unavailable, match="start the service"):
            read()
    Journal(journal).close()
    with closing(ReadOnlyJournal(journal)) as reader:
        assert reader.counts(1).decisions
    assert back_up(journal, tmp_path / "copy") > 0


# The commands.


@pytest.fixture
def main(monkeypatch, capsys):
    """Runs a command in this process; returns its status, output and errors."""

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["onebit", *map(str, args)])
        try:
            cli.main()
        except SystemExit as end:
            return end.code, *capsys.readouterr()
        return 0, *capsys.readouterr()

    return run


def test_the_commands(journal, tmp_path, main):
    status, said, _ = main("inspect", journal)
    assert status == 0 and "integrity: ok" in said and "sizes" in said and ": current" in said
    status, said, _ = main("replay", journal, "--model", "news", "--out", tmp_path / "n.onebit")
    assert status == 0 and "the same bytes" in said
    assert ob.load(tmp_path / "n.onebit").labels == ["sport", "tech", "art"]
    status, said, _ = main("backup", journal, tmp_path / "copy")
    assert status == 0 and "checked" in said
    status, _, errors = main("replay", journal)
    assert status == 2 and "--model NAME" in errors
    status, _, errors = main("inspect", tmp_path / "nothing")
    assert status == 2 and "there is no journal" in errors
    (tmp_path / "text").write_text("not a journal " * 1000)
    status, _, errors = main("inspect", tmp_path / "text")
    assert status == 1 and "damaged" in errors


@pytest.mark.parametrize("command", ["inspect", "replay", "backup"])
def test_a_model_file_is_not_called_a_damaged_journal(tmp_path, main, command):
    path = tmp_path / "tickets.onebit"
    ob.Banditron(labels=3).save(path)
    status, _, errors = main(command, path, *([tmp_path / "copy"] if command == "backup" else []))
    assert status in (1, 2) and "is a model file, not a journal: onebit.load reads it" in errors
    assert "damaged" not in errors and "--repair" not in errors


def test_repair_by_command(journal, main):
    damage(journal, random.Random(5), pages=12, how="noise")
    status, said, errors = main("inspect", journal)
    assert status == 1 and "--repair" in errors
    status, said, errors = main("inspect", journal, "--repair")
    assert status == 0 and "Pages that cannot be read" in said and "the old one is" in said
    assert "integrity: ok" in said


def test_retraining_a_journal_that_no_service_uses(journal, main, monkeypatch):
    status, said, _ = main("retrain", journal, "--model", "news", "--learner", "UCWL:eta=0.8")
    assert status == 0 and "news: UCWL, version 3" in said
    with closing(ReadOnlyJournal(journal)) as reader:
        built = Replay(reader, "news")
    assert type(built.learner).__name__ == "UCWL" and built.is_same is True
    for rows in (500, -1):  # built at once, and behind the scenes
        monkeypatch.setattr("onebit.service.engine.rebuilding.AT_ONCE", rows)
        status, _, errors = main("retrain", journal, "--model", "news", "--learner", "Newtron")
        assert status == 2 and "Newtron could not be built" in errors
    status, _, errors = main("retrain", "--learner", "UCWL")
    assert status == 2 and "either a journal, or --url" in errors
    with closing(Journal(journal)):
        status, _, errors = main("retrain", journal, "--model", "news", "--learner", "UCWL")
        assert status == 2 and "in use by another process" in errors
