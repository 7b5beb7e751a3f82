"""Retention: learned rounds become a learner, and nothing changes but the size of the journal."""

from __future__ import annotations

import random

import pytest

from onebit import persist
from onebit.service.configuration import Model, WrongAfter
from onebit.service.engine import Engine
from onebit.service.faults import Contradiction, Expired, UnknownDecision
from onebit.service.journal import Journal, ReadOnlyJournal
from onebit.service.messages import Retraining, SourceChange

DAY = 86400.0


class Clock:
    now = 1_000_000.0

    def __call__(self):
        return self.now


def bytes_of(learner):
    return persist.pack(*learner._dump())


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
    before = bytes_of(engine.replayed())
    assert bytes_of(engine.learner) == before
    assert engine.compact(clock.now - rng.random() * 2 * DAY) > 0
    assert bytes_of(engine.replayed()) == bytes_of(engine.learner) == before
    decisions, answers, bases = counts(journal)
    assert decisions < 60 and answers < 60 and bases == 1

    # Open decisions can still be answered, and the rest of the journal goes on from there.
    engine.feedback(silents[-1], right=True)
    play(engine, clock, 10, rng)
    assert engine.compact(clock.now - 3600) > 0
    after = bytes_of(engine.learner)
    assert bytes_of(engine.replayed()) == after
    journal.close()
    journal = Journal(tmp_path / "j", clock=clock)
    again = engine_of(journal, tmp_path / "none", deferred=deferred)
    assert bytes_of(again.learner) == after
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
    learner = bytes_of(engine.learner)
    assert engine.compact(clock.now - DAY) > 0
    assert bytes_of(engine.learner) == learner == bytes_of(engine.replayed())
    for id in (old, late, answered, cancelled):  # two of them have expired
        with pytest.raises(UnknownDecision):
            engine.look(id)
    assert engine.look(middle).state == "learned"
    assert engine.compact(clock.now - DAY) == 0
    engine.decide({"b": 2}, key="mine")  # the key is free again
    engine.revise(middle, right=False)  # later than the base
    assert bytes_of(engine.learner) == bytes_of(engine.replayed()) != learner
    with pytest.raises(Contradiction, match="compacted"):
        engine.submit_retrain(Retraining(learner="UCWL"))
    assert engine.look(middle).state == "learned"
    journal.close()


def test_a_small_step_at_a_time(tmp_path, clock, monkeypatch):
    monkeypatch.setattr("onebit.service.engine.periodic.COMPACTED", 7)
    journal = Journal(tmp_path / "j", clock=clock)
    engine = engine_of(journal, tmp_path / "s", expires_after=None)
    play(engine, clock, 50, random.Random(1), silent=0.1)
    before = bytes_of(engine.learner)
    steps = 0
    while engine.compact(clock.now - DAY):
        steps += 1
        assert bytes_of(engine.replayed()) == before
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
    engine.limit(engine._limits, 3, retention=10 * DAY)
    engine.tick()
    assert engine.tally.silences == 1
    clock.now += 11 * DAY
    engine.tick()
    engine.tick()
    decisions, answers, bases = counts(journal)
    assert (decisions, bases) == (1, 1) and answers == 1  # silence after the second is young
    assert bytes_of(engine.learner) == bytes_of(engine.replayed())
    journal.close()


def test_feedback_in_quarantine_is_kept_until_it_is_learned(tmp_path, clock):
    journal = Journal(tmp_path / "j", clock=clock)
    engine = engine_of(journal, tmp_path / "s")
    ids = play(engine, clock, 5, random.Random(1), silent=1)
    for i, id in enumerate(ids):
        engine.feedback(id, right=True, source="bot" if i in (2, 4) else None)
    everything = bytes_of(engine.learner)
    engine.submit_source("bot", SourceChange(quarantined=True))
    without = bytes_of(engine.learner)
    clock.now += DAY
    assert engine.compact(clock.now) > 0  # the answers before that of the source
    assert engine.compact(clock.now) == 0
    assert bytes_of(engine.learner) == bytes_of(engine.replayed()) == without != everything
    engine.submit_source("bot", SourceChange(quarantined=False))
    assert bytes_of(engine.learner) == bytes_of(engine.replayed()) == everything
    assert engine.compact(clock.now) > 0
    assert bytes_of(engine.learner) == bytes_of(engine.replayed()) == everything
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
    before = bytes_of(engine.learner)
    for refused in (engine.cancel, engine.erase):
        with pytest.raises(Expired, match="was compacted"):
            refused(counted)
    assert engine.look(counted).state == ("learned" if is_answered else "open")
    assert bytes_of(engine.learner) == bytes_of(engine.replayed()) == before
    assert engine.cancel(young).state == "cancelled" and engine.erase(young).state == "erased"
    assert bytes_of(engine.learner) == bytes_of(engine.replayed())
    clock.now += 40 * DAY
    engine.limit(engine._limits, 3, retention=DAY)
    engine.tick()
    with pytest.raises(UnknownDecision):
        engine.look(counted)
    assert bytes_of(engine.learner) == bytes_of(engine.replayed())
    journal.close()
