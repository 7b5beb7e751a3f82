"""Reading lets deciding go first, and costs the same after any number of rounds."""

from __future__ import annotations

import asyncio
import random
from contextlib import contextmanager, suppress

import pytest
from running import LABELS, Home, context, play

from onebit.service.faults import Busy, Contradiction, ServiceError
from onebit.service.http import reading
from onebit.service.http.reading import Reads
from onebit.service.messages import SourceChange
from onebit.service.tally import Totals

# What a model card reads.


@pytest.fixture
def home(tmp_path):
    home = Home(tmp_path, "revisions = true\ndeferred = true\nsettings = { gamma = 0.4 }")
    yield home
    home.stop()


@contextmanager
def closed_books(journal, monkeypatch):
    """Nobody may read the journal."""

    def refuse():
        raise AssertionError("the journal is read")

    with monkeypatch.context() as patch:
        patch.setattr(journal, "reading", refuse)
        yield


def test_a_card_reads_nothing_from_the_journal(home, monkeypatch):
    engine = home.start().models["news"]
    ids = play(engine, 50)
    engine.cancel(ids[3])
    with closed_books(engine.journal, monkeypatch):
        card = engine.card()
    assert card.rounds == 49 and card.answers == 49


def counted(engine):
    """What the journal says."""
    sources = engine.journal.answers_by_source(engine.number, 1000)
    rounds, explored, smallest, _ = engine.journal.rounds_that_count(engine.number)
    return rounds, explored / rounds if rounds else None, smallest, sources


def on_card(engine):
    card = engine.card()
    sources = {name: source.answers for name, source in card.sources.items() if source.answers}
    return card.rounds, card.explored_share, card.smallest_propensity, sources


@pytest.mark.parametrize("seed", range(4))
def test_a_card_counts_what_the_journal_has(home, seed):
    rng = random.Random(seed)
    engine = home.start().models["news"]
    ids = []

    def decide():
        among = rng.choice([None, list(LABELS[:2])])
        ids.append(engine.decide(context(rng.randrange(20)), among).id)

    def answer():
        source = rng.choice([None, "web", "mail"])
        engine.feedback(rng.choice(ids), right=rng.random() < 0.5, source=source)

    def compact():
        home.clock.now += 1000
        engine.compact(home.clock.now - rng.choice([500, 5000]))

    acts = {
        decide: 10,
        answer: 10,
        compact: 1,
        lambda: engine.shown(rng.choice(ids)): 3,
        lambda: engine.cancel(rng.choice(ids)): 3,
        lambda: engine.submit_erase(rng.choice(ids)): 1,
        lambda: engine.revoke(rng.choice(ids)): 2,
        lambda: engine.revise(rng.choice(ids), label="tech"): 2,
        lambda: engine.submit_remove_source("mail"): 1,
        lambda: engine.submit_source("web", SourceChange(weight=rng.random())): 1,
    }
    decide()
    for act in rng.choices(list(acts), list(acts.values()), k=150):
        with suppress(ServiceError):
            act()
        engine.journal.flush()
        assert on_card(engine) == counted(engine)
    again = home.restart().models["news"]
    assert on_card(again) == counted(again)
    with suppress(Contradiction):
        again.settle()


def test_sources_are_bounded(monkeypatch):
    monkeypatch.setattr(Totals, "MOST", 10)
    totals = Totals()
    for i in range(100):
        totals.count_answer("web", 1)
        totals.count_answer(f"user-{i}", 1)
    assert len(totals.sources) <= 11 and totals.sources["web"] == 100


# Who reads when.


@pytest.fixture
def time(monkeypatch):
    """Time that passes only while somebody sleeps or reads."""

    class Time:
        now, computing, waited = 1000.0, 0.0, 0.0

    async def sleep(seconds):
        Time.now += seconds
        await asyncio.tasks.__sleep0()

    async def in_thread(read):
        return read()

    monkeypatch.setattr(reading, "perf_counter", lambda: Time.now)
    monkeypatch.setattr(reading, "thread_time", lambda: Time.computing)
    monkeypatch.setattr(reading, "waited", lambda: Time.waited)
    monkeypatch.setattr(reading.asyncio, "sleep", sleep)
    monkeypatch.setattr(reading.asyncio, "to_thread", in_thread)
    return Time


@pytest.mark.parametrize("is_busy", [True, False])
def test_reading_takes_a_share_while_there_are_decisions(time, is_busy):
    def read():
        time.now += 0.01
        time.computing += 0.01
        return time.now

    async def run():
        reads = Reads(lambda: int(1e6 * time.now) if is_busy else 0, 0.05)
        for i in range(100):
            await reads(i, read)

    asyncio.run(run())
    took = time.now - 1000
    assert took >= 0.95 * 100 * 0.01 / 0.05 if is_busy else took < 1.1


def test_what_a_read_waits_for_others_does_not_count(time):
    """On a machine that is busy with other things, pages are shown as often as elsewhere."""

    async def run():
        reads = Reads(lambda: int(1e6 * time.now), 0.05)
        for i in range(10):
            await reads(i, read)

    def read():
        time.now += 1.0
        time.computing += 0.01

    asyncio.run(run())
    assert time.now - 1000 < 10 * (1.0 + 0.01 / 0.05 + reading.HANDLING / 0.05 + reading.LOOK)


def test_short_reads_between_two_decisions_take_no_more(time):
    """A read that is over before the next commit is no sign that nothing is decided."""

    async def run():
        reads = Reads(lambda: int(50 * time.now), 0.05)
        for i in range(100):
            await reads(i, read)

    def read():
        time.now += 0.001
        time.computing += 0.001

    asyncio.run(run())
    assert time.now - 1000 >= 0.95 * 100 * 0.001 / 0.05


def test_reading_takes_the_same_share_of_the_work_on_a_busy_machine(time, monkeypatch):
    """While others have the processor nothing is decided, so that time is no reason to read."""

    async def sleep(seconds):
        time.now += seconds
        time.waited += 0.9 * seconds
        await asyncio.tasks.__sleep0()

    monkeypatch.setattr(reading.asyncio, "sleep", sleep)

    def read():
        time.now += 0.01
        time.computing += 0.01

    async def run():
        reads = Reads(lambda: int(1e6 * time.now), 0.05)
        for i in range(10):
            await reads(i, read)

    asyncio.run(run())
    deciding = time.now - 1000 - time.waited - time.computing
    assert time.computing <= 0.05 * (time.computing + deciding) * 10 / 9  # no pause after the last


def test_what_a_thread_waits_for_a_processor(monkeypatch, tmp_path):
    path = tmp_path / "schedstat"
    monkeypatch.setattr(reading, "SCHEDULED", str(path))
    assert reading.waited() == 0  # the system does not tell
    path.write_text("")
    assert reading.waited() == 0
    path.write_text("12345 2500000000 7\n")
    assert reading.waited() == 2.5
    monkeypatch.setattr(reading, "perf_counter", lambda: 10.0)
    assert reading.own_time() == 7.5


def test_those_who_wait_for_the_same_get_the_same(time):
    events, read = [0], []

    async def run():
        reads = Reads(lambda: 0, 0.05)

        async def ask():
            before = events[0]
            assert await reads("card", lambda: read.append(1) or events[0]) >= before

        async with asyncio.TaskGroup() as group:
            for i in range(100):
                events[0] = i
                group.create_task(ask())
        await ask()

    asyncio.run(run())
    assert len(read) == 2  # one for all that came together, one for the last


def test_reads_that_wait_are_bounded(time):
    async def run():
        reads = Reads(lambda: 0, 0.05)
        answers = await asyncio.gather(
            *(reads(i, lambda: "read") for i in range(reading.WAITING + 5)), return_exceptions=True
        )
        assert answers.count("read") == reading.WAITING
        assert [type(answer) for answer in answers if answer != "read"] == [Busy] * 5
        assert await reads("later", lambda: "read") == "read"

    asyncio.run(run())


def test_a_reader_that_gives_up_leaves_the_others(time):
    async def run():
        reads = Reads(lambda: 0, 0.05)
        first, second = (asyncio.create_task(reads("card", lambda: 1)) for _ in range(2))
        await asyncio.tasks.__sleep0()
        first.cancel()
        assert await second == 1

    asyncio.run(run())


def test_a_read_that_fails_tells_all_who_wait(time):
    def fail():
        raise Busy("not now")

    async def run():
        reads = Reads(lambda: 0, 0.05)
        found = await asyncio.gather(
            *(reads("card", fail) for _ in range(3)), return_exceptions=True
        )
        assert [type(answer) for answer in found] == [Busy] * 3
        assert await reads("card", lambda: 1) == 1

    asyncio.run(run())
