"""Retention: learned rounds become a learner, and nothing changes but the size of the journal."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing

import pytest
from helpers.waiting import wait_for

from onebit.service import journal as journal_module
from onebit.service.configuration import Model, WrongAfter
from onebit.service.engine import Engine
from onebit.service.faults import Contradiction, Expired, UnknownDecision
from onebit.service.journal import Journal, ReadOnlyJournal
from onebit.service.journal.repair import repair
from onebit.service.messages import Retraining, SourceChange
from onebit.testing import model_bytes

DAY = 86400.0


class Clock:
    now = 1_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def engine_of(journal, folder, **options):
    options = {"labels": ["sport", "tech"], "learner": "Banditron", "seed": 3, **options}
    return Engine(journal, Model(name="news", **options), folder=folder)


def play(engine, clock, rounds, rng, *, silent=0.3):
    """Some rounds, an hour each. Returns the ids of those without an answer."""
    silents = []
    for _ in range(rounds):
        clock.now += 3600
        told = engine.decide({rng.choice("abcdef"): 1.0, rng.choice("uvwxyz"): 2.0})
        if rng.random() < silent:
            silents.append(told.id)
        else:
            engine.feedback(told.id, right=rng.random() < 0.5)
    return silents


def counts(journal):
    with journal.reading() as connection:
        tables = ("decisions", "answers", "bases")
        return [connection.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in tables]


@pytest.mark.parametrize("deferred", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_learner_stays_the_same(tmp_path, clock, seed, deferred):
    rng = random.Random(seed)
    journal = Journal(tmp_path / "j", clock=clock)
    engine = engine_of(journal, tmp_path / "s", deferred=deferred, expires_after=4 * DAY)
    silents = play(engine, clock, 60, rng)
    if deferred:
        for id in silents[::3]:
            engine.shown(id)
    engine.cancel(silents.pop())
    before = model_bytes(engine.replayed())
    assert model_bytes(engine.learner) == before
    assert engine.compact(clock.now - rng.random() * 2 * DAY) > 0
    assert model_bytes(engine.replayed()) == model_bytes(engine.learner) == before
    decisions, answers, bases = counts(journal)
    assert decisions < 60 and answers < 60 and bases == 1

    # Open decisions can still be answered, and the rest of the journal goes on from there.
    engine.feedback(silents[-1], right=True)
    play(engine, clock, 10, rng)
    assert engine.compact(clock.now - 3600) > 0
    after = model_bytes(engine.learner)
    assert model_bytes(engine.replayed()) == after
    journal.close()
    journal = Journal(tmp_path / "j", clock=clock)
    again = engine_of(journal, tmp_path / "none", deferred=deferred)
    assert model_bytes(again.learner) == after
    journal.close()


def test_only_what_is_over_is_deleted(tmp_path, clock):
    journal = Journal(tmp_path / "j", clock=clock)
    engine = engine_of(journal, tmp_path / "s", expires_after=10 * DAY, revisions=True)
    old = engine.decide({"a": 1}, key="old").id
    answered = engine.decide({"b": 1}, key="mine").id
    cancelled, late = engine.decide({"c": 1}).id, engine.decide({"d": 1}).id
    engine.feedback(answered, right=False)
    engine.cancel(cancelled)
    clock.now += 9 * DAY
    middle = engine.decide({"e": 1}).id
    clock.now += 1.5 * DAY
    engine.feedback(middle, right=True)
    learner = model_bytes(engine.learner)
    assert engine.compact(clock.now - DAY) > 0
    assert model_bytes(engine.learner) == learner == model_bytes(engine.replayed())
    for id in (old, late, answered, cancelled):  # two of them have expired
        with pytest.raises(UnknownDecision):
            engine.look(id)
    assert engine.look(middle).state == "learned"
    assert engine.compact(clock.now - DAY) == 0
    engine.decide({"b": 2}, key="mine")  # the key is free again
    engine.revise(middle, right=False)  # later than the base
    assert model_bytes(engine.learner) == model_bytes(engine.replayed()) != learner
    with pytest.raises(Contradiction, match="compacted"):
        engine.submit_retrain(Retraining(learner="UCWL"))
    assert engine.look(middle).state == "learned"
    journal.close()


def test_a_small_step_at_a_time(tmp_path, clock, monkeypatch):
    monkeypatch.setattr("onebit.service.engine.schedule.COMPACTED", 7)
    journal = Journal(tmp_path / "j", clock=clock)
    engine = engine_of(journal, tmp_path / "s", expires_after=None)
    play(engine, clock, 50, random.Random(1), silent=0.1)
    before = model_bytes(engine.learner)
    steps = 0
    while engine.compact(clock.now - DAY):
        steps += 1
        assert model_bytes(engine.replayed()) == before
    assert steps > 3
    reader = ReadOnlyJournal(tmp_path / "j")
    with reader.reading() as connection:
        youngest = connection.execute(
            "SELECT min(d.time) FROM decisions d JOIN answers a ON a.decision = d.position"
        ).fetchone()[0]
    assert youngest > clock.now - 1.2 * DAY
    reader.close()
    journal.close()


def test_silence_is_heard_before(tmp_path, clock):
    journal = Journal(tmp_path / "j", clock=clock)
    silence = {"silence": WrongAfter(DAY), "expires_after": 2 * DAY}
    engine = engine_of(journal, tmp_path / "s", **silence)
    engine.decide({"a": 1})
    clock.now += 30 * DAY  # the service was off
    engine.decide({"a": 1})
    engine.compact(clock.now - 1)
    assert counts(journal)[0] == 2
    engine.limit(engine._state.limits, 3, retention=10 * DAY)
    engine.tick()
    assert engine.tally.silences == 1
    clock.now += 11 * DAY
    engine.tick()
    engine.tick()
    decisions, answers, bases = counts(journal)
    assert (decisions, bases) == (1, 1) and answers == 1  # silence after the second is young
    assert model_bytes(engine.learner) == model_bytes(engine.replayed())
    journal.close()


def test_feedback_in_quarantine_is_kept_until_it_is_learned(tmp_path, clock):
    journal = Journal(tmp_path / "j", clock=clock)
    engine = engine_of(journal, tmp_path / "s")
    ids = play(engine, clock, 5, random.Random(1), silent=1)
    for i, id in enumerate(ids):
        engine.feedback(id, right=True, source="bot" if i in (2, 4) else None)
    everything = model_bytes(engine.learner)
    engine.submit_source("bot", SourceChange(quarantined=True))
    without = model_bytes(engine.learner)
    clock.now += DAY
    assert engine.compact(clock.now) > 0  # the answers before that of the source
    assert engine.compact(clock.now) == 0
    assert model_bytes(engine.learner) == model_bytes(engine.replayed()) == without != everything
    engine.submit_source("bot", SourceChange(quarantined=False))
    assert model_bytes(engine.learner) == model_bytes(engine.replayed()) == everything
    assert engine.compact(clock.now) > 0
    assert model_bytes(engine.learner) == model_bytes(engine.replayed()) == everything
    assert counts(journal)[1] == 0
    journal.close()


@pytest.mark.parametrize("is_answered", [False, True])
def test_a_decision_that_the_base_has_counted_cannot_be_taken_out(tmp_path, clock, is_answered):
    journal = Journal(tmp_path / "j", clock=clock)
    engine = engine_of(journal, tmp_path / "s", expires_after=40 * DAY, revisions=True)
    counted = engine.decide({"a": 1}).id
    play(engine, clock, 5, random.Random(1))
    clock.now += DAY
    young = engine.decide({"b": 1}).id
    assert engine.compact(clock.now - DAY / 2) > 0
    if is_answered:
        engine.feedback(counted, right=True)
    before = model_bytes(engine.learner)
    for refused in (engine.cancel, engine.erase):
        with pytest.raises(Expired, match="was compacted"):
            refused(counted)
    assert engine.look(counted).state == ("learned" if is_answered else "open")
    assert model_bytes(engine.learner) == model_bytes(engine.replayed()) == before
    assert engine.cancel(young).state == "cancelled" and engine.erase(young).state == "erased"
    assert model_bytes(engine.learner) == model_bytes(engine.replayed())
    clock.now += 40 * DAY
    engine.limit(engine._state.limits, 3, retention=DAY)
    engine.tick()
    with pytest.raises(UnknownDecision):
        engine.look(counted)
    assert model_bytes(engine.learner) == model_bytes(engine.replayed())
    journal.close()


def test_a_compacted_journal_gets_smaller_at_the_next_start(tmp_path, clock, monkeypatch, caplog):
    monkeypatch.setattr(journal_module, "LEAST_FREE", 10)
    caplog.set_level("INFO", "onebit.service")
    path, folder, rng = tmp_path / "x.journal", tmp_path / "snapshots", random.Random(1)
    journal = Journal(path, clock=clock)
    engine = engine_of(journal, folder)
    play(engine, clock, 600, rng, silent=0.0)
    engine.compact(clock.now - DAY)
    play(engine, clock, 10, rng, silent=0.0)
    before, learned = counts(journal), model_bytes(engine.learner)
    engine.close()
    journal.close()
    large = path.stat().st_size
    with closing(Journal(path, clock=clock)) as journal:
        wait_for(lambda: path.stat().st_size < large / 2)
        engine = engine_of(journal, folder)
        assert counts(journal) == before and model_bytes(engine.learner) == learned
        assert model_bytes(engine.replayed()) == learned
        assert journal.damage() == []
        play(engine, clock, 5, rng)
        engine.close()
    assert "is free and is given back" in caplog.text
    caplog.clear()
    Journal(path, clock=clock).close()
    assert not caplog.text


class NoRoom(sqlite3.Connection):
    """A database on a disk that is full as soon as much is to be written."""

    def execute(self, statement, *values):
        if statement == "VACUUM":
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        return super().execute(statement, *values)


def test_a_disk_without_room_to_make_a_journal_smaller(tmp_path, clock, monkeypatch, caplog):
    monkeypatch.setattr(journal_module, "LEAST_FREE", 0)
    path, connect = tmp_path / "x.journal", sqlite3.connect
    Journal(path, clock=clock).close()
    with closing(connect(path)) as connection:
        connection.execute("CREATE TABLE gone AS SELECT zeroblob(400000)")
        connection.execute("DROP TABLE gone")
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **b: connect(*a, **b, factory=NoRoom))
    with closing(Journal(path, clock=clock)) as journal:
        engine_of(journal, tmp_path / "snapshots").decide({"a": 1})
    assert "there is no room to make it smaller: database or disk is full" in caplog.text


def test_a_repair_reads_no_page_behind_the_end_of_a_journal_that_got_smaller(tmp_path, clock):
    """A page there has rows as they were before."""
    path, copy = tmp_path / "x.journal", tmp_path / "copy" / "x.journal"
    copy.parent.mkdir()
    with closing(Journal(path, clock=clock)) as journal:
        engine = engine_of(journal, tmp_path / "snapshots")
        for i in range(300):
            engine.decide({"a": float(i)}, key=f"before {i}")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DELETE FROM decisions WHERE position < 200")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("VACUUM")
        connection.execute("UPDATE decisions SET key = 'after ' || position")
        for suffix in ("", "-wal"):  # as after kill -9
            shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
    assert repair(copy).events["decisions"] == 101
    with closing(sqlite3.connect(copy)) as connection:
        keys = {key for (key,) in connection.execute("SELECT key FROM decisions")}
    assert keys == {f"after {position}" for position in range(200, 301)}
