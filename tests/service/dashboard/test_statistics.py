"""Statistics of a journal: the same numbers as counting all rounds one by one."""

from __future__ import annotations

import json
import random
import time
from collections import Counter, defaultdict

import pytest

from onebit.feedback.drift import DriftAlarm
from onebit.service.configuration import Model, WrongAfter
from onebit.service.dashboard import statistics
from onebit.service.dashboard.statistics import (
    LAST,
    Counts,
    Statistics,
    Stretch,
    interval,
    joined,
    sum_of,
)
from onebit.service.engine import Engine
from onebit.service.faults import UnknownModel
from onebit.service.journal import Answered, DecisionRow, Journal, ReadOnlyJournal


class Clock:
    now = 1_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def journal(tmp_path, clock):
    made = Journal(tmp_path / "news.journal", durability="normal", clock=clock)
    yield made
    made.close()


def engine_of(journal, tmp_path, name="news", **options):
    options = {
        "labels": ["sport", "tech", "7"],
        "learner": "Banditron",
        "revisions": True,
        **options,
    }
    return Engine(journal, Model(name=name, **options), folder=tmp_path / "snapshots")


def play(engine, clock, rounds, rng, *, right=0.7):
    """Rounds with late, missing and named answers; returns the ids."""
    ids, waiting = [], []
    for _ in range(rounds):
        clock.now += rng.random()
        told = engine.decide({rng.choice("abcdef"): 1.0})
        ids.append(told.id)
        waiting.append(told)
        if rng.random() < 0.6:
            heard = waiting.pop(rng.randrange(len(waiting)))
            if rng.random() < 0.2:
                engine.feedback(heard.id, label=rng.choice(["sport", "tech", "7"]))
            else:
                engine.feedback(heard.id, right=rng.random() < right)
    return ids


def counted(journal, number):
    """The numbers of a model, by going through its history."""
    total, labels, bits, delays = Counts(), defaultdict(Counts), [], Counter()
    named = Counter()
    for event in journal.history(number, 0):
        if isinstance(event, DecisionRow):
            for counts in (total, labels[event.label]):
                counts.decisions += 1
                counts.explored += event.explored
        elif isinstance(event, Answered):
            answer, decision = event
            right = bool(answer.right) if answer.label is None else answer.label == decision.label
            for counts in (total, labels[decision.label]):
                if answer.source == "silence":
                    counts.silences += 1
                else:
                    counts.answered += 1
                    counts.wrong += not right
            if answer.source != "silence":
                bits.append(right)
                delays[answer.time - decision.time] += 1
                if answer.label is not None:
                    named[answer.label] += 1
    return total, dict(labels), bits, delays, named


def check(found, journal, number):
    """Compare a report with the numbers of all rounds."""
    total, labels, bits, delays, named = counted(journal, number)
    assert found.total == total
    assert {c.label: Counts(*(getattr(c, f) for f in Counts.__struct_fields__)) for c in
            found.labels if c.decisions} == labels  # fmt: skip
    assert {c.label: c.named for c in found.labels if c.named} == dict(named)
    assert sum_of(found.stretches) == total
    last = bits[-min(max(len(bits) // 5, 50), 1000) :]
    assert found.lately == Counts(answered=len(last), wrong=last.count(False))
    for bar in found.delays:
        count = sum(n for delay, n in delays.items() if bar.low < delay <= bar.high)
        assert bar.answers == count + (delays[0.0] if bar.low == 0 else 0)
    rows = [row.position for row in journal.history(number, 0) if isinstance(row, DecisionRow)]
    assert found.last == rows[: -LAST - 1 : -1]  # none that was never shown
    rang = DriftAlarm().hear_all(bits)
    assert [alarm.answers for alarm in found.alarms] == [place + 1 for place in rang]


def report_of(made):
    while not made.refresh():
        pass
    return made.report()


@pytest.mark.parametrize("deferred", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_all_numbers_are_those_of_the_rounds(journal, tmp_path, clock, monkeypatch, seed, deferred):
    monkeypatch.setattr(statistics, "PIECE", 37)
    monkeypatch.setattr(statistics, "KEPT_EVERY", 50)
    monkeypatch.setattr(statistics, "BINS", 8)
    rng = random.Random(seed)
    engine = engine_of(journal, tmp_path, deferred=deferred)
    other = engine_of(journal, tmp_path, "ads")
    made = Statistics(journal, "news")
    report_of(made)
    ids = []
    for _ in range(5):
        ids += play(engine, clock, 40, rng)
        play(other, clock, 20, rng)
        for id in rng.sample(ids, 3):
            rng.choice([engine.revoke, engine.erase])(id)
            ids.remove(id)
        shown = [id for id in ids if engine.look(id).state == "learned"]
        engine.revise(rng.choice(shown), label="tech")
        journal.flush()
        found = report_of(made)
        check(found, journal, engine.number)
        assert len(found.stretches) <= 16
        fresh = report_of(Statistics(journal, "news"))
        assert fresh.total == found.total and fresh.alarms == found.alarms
    engine.cancel(ids[-1])
    check(report_of(made), journal, engine.number)
    check(report_of(Statistics(journal, "ads")), journal, other.number)


def test_a_change_of_the_past_reads_only_what_came_after_it(journal, tmp_path, clock, monkeypatch):
    monkeypatch.setattr(statistics, "PIECE", 50)
    monkeypatch.setattr(statistics, "KEPT_EVERY", 50)
    engine = engine_of(journal, tmp_path)
    ids = play(engine, clock, 400, random.Random(1))
    journal.flush()
    made = Statistics(journal, "news")
    report_of(made)
    last = next(id for id in reversed(ids) if engine.look(id).state == "learned")
    engine.revise(last, right=engine.look(last).feedback[-1].right is False)
    read = []
    plain = statistics._Summary.read
    monkeypatch.setattr(
        statistics._Summary, "read", lambda *args: read.append(args) or plain(*args)
    )
    check(report_of(made), journal, engine.number)
    assert 1 <= len(read) <= 4


def test_silence_is_no_answer(journal, tmp_path, clock):
    engine = engine_of(journal, tmp_path, silence=WrongAfter(60.0))
    for _ in range(5):
        engine.decide({"a": 1.0})
    engine.feedback(engine.decide({"a": 1.0}).id, right=True)
    clock.now += 100
    engine.tick()
    found = report_of(Statistics(journal, "news"))
    assert (found.total.answered, found.total.silences, found.total.wrong) == (1, 5, 0)
    assert found.total.error == 0.0 and found.total.waiting == 0
    assert found.total.silent_share == pytest.approx(5 / 6)


def test_a_drift_alarm_says_when_it_rang(journal, tmp_path, clock):
    engine, rng = engine_of(journal, tmp_path), random.Random(0)
    for right in (0.95, 0.2):
        play(engine, clock, 300, rng, right=right)
    journal.flush()
    found = report_of(Statistics(journal, "news"))
    check(found, journal, engine.number)
    (alarm,) = found.alarms
    assert 300 < alarm.round < 400 and 1_000_000 < alarm.time <= clock.now


def test_a_model_without_rounds_and_an_unknown_model(journal, tmp_path):
    engine_of(journal, tmp_path)
    found = report_of(Statistics(journal, "news"))
    assert found.total == Counts() and found.stretches == [] and found.quantile(0.5) is None
    assert found.read_share == 1
    with pytest.raises(UnknownModel, match="no model 'olds'"):
        Statistics(journal, "olds")


def test_compacted_rounds_are_not_counted(journal, tmp_path, clock):
    engine = engine_of(journal, tmp_path)
    play(engine, clock, 100, random.Random(0))
    clock.now += 86400
    before = clock.now
    play(engine, clock, 50, random.Random(1))
    journal.flush()
    made = Statistics(journal, "news")
    whole = report_of(made)
    while engine.compact(before):
        pass
    fresh = report_of(Statistics(journal, "news"))
    assert fresh.base > 0 and fresh.total.decisions == 50
    assert fresh.total.answered <= fresh.total.decisions
    assert report_of(made).total == whole.total  # it has read them before
    last = engine.decide({"a": 1.0})
    engine.feedback(last.id, right=True)
    assert report_of(made).total.decisions == 151
    engine.revise(last.id, right=False)
    again = report_of(made)
    assert again.base == fresh.base and again.total.decisions == 51


def test_a_long_journal_is_read_a_bit_at_a_time(journal, tmp_path, clock, monkeypatch):
    monkeypatch.setattr(statistics, "PIECE", 10)
    engine = engine_of(journal, tmp_path)
    play(engine, clock, 50, random.Random(0))
    journal.flush()
    made = Statistics(journal, "news")
    assert not made.refresh(seconds=0)
    first = made.report()
    assert 0 < first.read_share < 1 and 0 < first.total.decisions < 50
    check(report_of(made), journal, engine.number)


def test_the_interval_is_wilsons():
    # Values of the R function binom::binom.wilson.
    assert interval(3, 10) == pytest.approx((0.1077913, 0.6032219), abs=1e-6)
    assert interval(0, 5) == pytest.approx((0.0, 0.4344825), abs=1e-6)
    assert interval(5, 5) == pytest.approx((0.5655175, 1.0), abs=1e-6)
    assert interval(0, 0) == (0.0, 1.0)


def test_quantiles_of_the_delay(journal, tmp_path, clock):
    engine = engine_of(journal, tmp_path)
    told = [engine.decide({"a": 1.0}) for _ in range(100)]
    for i, decision in enumerate(told):
        clock.now += 1 if i else 0
        engine.feedback(decision.id, right=True)
    found = report_of(Statistics(journal, "news"))
    assert found.quantile(0.5) == pytest.approx(50, rel=0.3)
    assert found.quantile(0.9) == pytest.approx(90, rel=0.3)


def test_joined_stretches_hold_the_same_rounds():
    stretches = [Stretch(decisions=4, first=4 * i, last=4 * i + 3) for i in range(10)]
    stretches.append(Stretch(decisions=1, first=40, last=40))
    together = joined(stretches, 4)
    assert sum_of(together).decisions == 41
    assert [(s.first, s.last) for s in together] == [(0, 11), (12, 23), (24, 40)]
    assert [s.decisions for s in joined(stretches, 6)] == [8, 8, 8, 8, 9]
    assert stretches[0].decisions == 4 and joined([], 4) == []


@pytest.mark.slow
def test_a_million_rounds_of_a_thousand_labels(tmp_path):
    from helpers.long_journals import fill

    path = tmp_path / "long.journal"
    fill(path, rounds=1_000_000, labels=1000)
    journal = ReadOnlyJournal(path)
    made = Statistics(journal, "news")
    while not made.refresh(0.3):
        pass
    started = time.process_time()
    made.refresh()
    found = made.report()
    assert time.process_time() - started < 0.1
    with journal.reading() as connection:
        one = connection.execute(
            "SELECT count(*), sum(explored) FROM decisions UNION ALL "
            "SELECT count(*), sum(1 - right) FROM answers"
        ).fetchall()
    total = found.total
    assert one == [(total.decisions, total.explored), (total.answered, total.wrong)]
    assert len(found.labels) == 1000 and 128 <= len(found.stretches) <= 256
    assert json.dumps(found.alarms[0].round)
    journal.close()
