"""Snapshots at several depths: a change of the past costs what came after it, and no more."""

from __future__ import annotations

import random
import threading
from math import log2
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.serving import serving
from helpers.waiting import PATIENCE
from hypothesis import given, settings
from hypothesis import strategies as st
from running import LABELS, Home, assert_pure, context, play

from onebit import testing
from onebit.service import snapshots
from onebit.service.configuration import check
from onebit.service.engine import building, progress, rebuilding, saving
from onebit.service.engine.progress import Interrupted, Pace, Progress, told
from onebit.service.journal import Answered, DecisionRow, ReadOnlyJournal
from onebit.service.messages import Retraining
from onebit.service.snapshots import Snapshot, worth_keeping
from onebit.service.upkeep.replay import Replay
from onebit.testing import saved_state

REVISIONS = "revisions = true"


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "WRITING", 1e9)  # snapshots may take all the time
    (tmp_path / "home").mkdir()
    place = Home(tmp_path / "home", REVISIONS)
    yield place
    stop(place)


def stop(place):
    """Stop the service of a home, also if the thread that built a learner was killed."""
    for service in place.open:
        for engine in service.models.values():
            if engine._state.thread is not None and not engine._state.thread.is_alive():
                engine._state.thread = None
    place.stop()


@pytest.fixture
def learned(monkeypatch):
    """The positions of the decisions and answers that were learned from the journal."""
    found: list[int] = []
    replayed = building.Builder.replayed

    def counting(self, learner, after, until=None, watch=None):
        def counted(learner, position, is_round):
            found.append(position)
            if watch is not None:
                watch(learner, position, is_round)

        return replayed(self, learner, after, until, counted)

    monkeypatch.setattr(building.Builder, "replayed", counting)
    return found


def played(home, rounds, every):
    """A service with snapshots every so many events, and the ids of its decisions."""
    service = home.start(snapshot_every=every)
    ids = []
    for i in range(0, rounds, every // 2):
        ids += play(service.models["news"], every // 2, first=i)
        service.tick()
    return service, ids


def assert_as_replayed(service):
    """The learner is what `onebit replay` makes of the journal, also with the snapshot it finds."""
    news = service.models["news"]
    assert_pure(news)
    journal = ReadOnlyJournal(service.journal.path)
    replay = Replay(journal, "news")
    journal.close()
    assert replay.is_same is not False
    assert testing.state_bytes(replay.learner) == testing.state_bytes(news.learner)


# Which ones are kept.


@settings(max_examples=30, deadline=None)
@given(
    steps=st.lists(st.integers(1, 30), min_size=1, max_size=80),
    keep=st.integers(1, 4),
    start=st.integers(0, 50),
)
def test_however_deep_a_change_is_little_more_than_what_follows_it_is_learned(steps, keep, start):
    kept, position, largest = [], start, max(steps)
    for step in steps:
        position += step
        new = Snapshot(Path("missing"), position, 1, 0, "")
        kept = worth_keeping([new, *kept], start, keep, 0)
        assert len(kept) <= keep + 2 * log2(position - start + 2) + 2
        assert [s.position for s in kept] == sorted((s.position for s in kept), reverse=True)
        starts = [*(s.position for s in kept), start]
        for depth in range(1, position - start):
            before = next(s for s in starts if s < position - depth or s == start)
            assert position - before <= max(2 * depth, depth + 2 * largest)


def test_older_ones_take_no_more_space_than_they_may(tmp_path):
    def of(position):
        path = tmp_path / f"{position}"
        path.write_bytes(bytes(100))
        return Snapshot(path, position, 1, 0, "")

    ones = [of(position) for position in range(10_000, 0, -100)]
    sizes = [len(worth_keeping(ones, 0, 3, room)) for room in (10**6, 300, 100, 99)]
    assert sizes[0] > sizes[1] > sizes[2] > sizes[3] == 3 and sizes[1] <= 3 + 3
    assert worth_keeping(ones, 0, 3, 0) == ones[:3]


# How much is learned again.


def test_a_cancelled_decision_costs_what_came_after_it(home, tmp_path, learned):
    service, ids = played(home, 400, 10)
    for part in (0.99, 0.9, 0.5, 0.1):
        learned.clear()
        number = int(part * len(ids))
        service.models["news"].cancel(ids[number])
        service.models["news"].settle()
        position = service.journal.position
        after = position - 2 * number
        assert learned and position - min(learned) <= 2 * after + 20, part
    service.tick()
    other = home.crashed(tmp_path / "crashed")
    learned.clear()
    again = other.start()
    assert len(learned) <= 20  # the learner that was built has left snapshots
    assert_as_replayed(again)
    stop(other)


def test_a_crash_before_the_learner_is_built_costs_no_more(home, tmp_path, learned, monkeypatch):
    service, ids = played(home, 200, 10)
    monkeypatch.setattr(rebuilding, "AT_ONCE", -1)
    monkeypatch.setattr(rebuilding.Rebuilding, "_build_behind", lambda *_: None)
    service.models["news"].cancel(ids[150])
    other = home.crashed(tmp_path / "crashed")
    learned.clear()
    again = other.start()
    assert len(learned) <= 2 * 100 + 20
    assert_as_replayed(again)
    stop(other)


class Killed(BaseException):
    pass


@pytest.mark.parametrize("what", ["cancel", "retrain"])
def test_a_rebuild_that_was_killed_goes_on_from_its_last_snapshot(
    home, tmp_path, learned, monkeypatch, what
):
    """Killed again and again, each time after 100 events: it still gets there."""
    service, ids = played(home, 400, 20)
    news = service.models["news"]
    monkeypatch.setattr(rebuilding, "AT_ONCE", -1)
    caught = threading.excepthook
    monkeypatch.setattr(
        threading, "excepthook", lambda args: args.exc_type is Killed or caught(args)
    )
    replayed, left = building.Builder.replayed, [0]

    def killed(self, learner, after, until=None, watch=None):
        def dies(learner, position, is_round):
            left[0] -= 1
            if watch is not None:
                if left[0] <= 0:
                    raise Killed
                watch(learner, position, is_round)

        return replayed(self, learner, after, until, dies)

    monkeypatch.setattr(building.Builder, "replayed", killed)
    left[0] = 100
    news.cancel(ids[3]) if what == "cancel" else news.submit_retrain(Retraining(seed=9))
    thread = news._state.thread
    if thread is not None:
        thread.join(PATIENCE)
    starts, place = [], home
    for count in range(50):
        place = place.crashed(tmp_path / f"crashed{count}")
        learned.clear()
        left[0] = 100
        try:
            service = place.start(snapshot_every=20)
        except Killed:
            starts.append(min(learned))
            continue
        thread = service.models["news"]._state.thread
        if thread is not None:
            thread.join(PATIENCE)
        if service.models["news"]._state.thread is None:
            break
        starts.append(min(learned))
    assert len(starts) >= 3 and starts == sorted(set(starts)), starts
    monkeypatch.setattr(building.Builder, "replayed", replayed)
    assert service.models["news"].card().seed == (9 if what == "retrain" else 0)
    assert_as_replayed(service)
    stop(place)


def test_a_stop_interrupts_a_rebuild_which_goes_on_at_the_next_start(home, learned, monkeypatch):
    service, ids = played(home, 400, 20)
    news = service.models["news"]
    monkeypatch.setattr(rebuilding, "AT_ONCE", -1)
    monkeypatch.setattr(progress, "SLICE", 0.0)
    halfway, go = threading.Event(), threading.Event()
    call = Progress.__call__

    def waits(self, learner, position, is_round):
        if position > 300 and not halfway.is_set():
            halfway.set()
            assert go.wait(PATIENCE)
        call(self, learner, position, is_round)

    monkeypatch.setattr(Progress, "__call__", waits)
    news.cancel(ids[3])
    assert halfway.wait(PATIENCE)
    news.abandon()
    go.set()
    news.settle()
    assert news._state.is_stale
    home.stop()
    learned.clear()
    service = home.start(snapshot_every=20)
    assert 300 < min(learned) < 330
    assert_as_replayed(service)


def test_snapshots_of_a_learner_that_other_code_has_begun_are_not_used(home, monkeypatch):
    service, _ = played(home, 40, 10)
    news = service.models["news"]
    monkeypatch.setattr(rebuilding.Rebuilding, "_build_behind", lambda *_: None)
    monkeypatch.setattr(rebuilding, "AT_ONCE", -1)
    news.submit_retrain(Retraining(seed=9))
    (path,) = [s for s in home.snapshots if "@000000000080-" in s.name]
    foreign = path.with_name(path.name.replace("080-1-", "080-2-"))
    foreign.write_bytes(path.read_bytes())  # as if version 2 had been built so far
    other = home.crashed(home.folder.parent / "crashed")
    monkeypatch.undo()
    monkeypatch.setattr(building, "RULES", 99)
    again = other.start()
    again.models["news"].settle()
    assert again.models["news"].card().seed == 9
    assert_pure(again.models["news"])
    stop(other)


def test_a_learner_on_its_way_is_not_removed_by_snapshots_of_the_present_one(home, monkeypatch):
    service, _ = played(home, 100, 10)
    news = service.models["news"]
    monkeypatch.setattr(rebuilding.Rebuilding, "_build_behind", lambda *_: None)
    monkeypatch.setattr(rebuilding, "AT_ONCE", -1)
    news.submit_retrain(Retraining(seed=9))
    (version,) = (v for v in service.journal.versions_in_use(1) if v > 1)
    past = news._state.past()
    written = news._saving.write(saved_state(news.learner), version, 100, past)
    play(news, 20)
    assert news.snapshot() is not None
    assert written.exists()


# Erased contexts.


def test_after_an_erase_no_snapshot_that_may_know_the_context_is_left(home):
    service, ids = played(home, 200, 10)
    news = service.models["news"]
    before = {s.path: s.path.read_bytes() for s in snapshots.found(news._state.folder)}
    news.erase(ids[150])
    position = 2 * 150 + 1
    assert all(s.position < position for s in snapshots.found(news._state.folder, "news"))
    crashed = home.crashed(home.folder.parent / "crashed")  # before they were removed
    for path, data in before.items():
        (crashed.folder / "x.journal.snapshots" / path.name).write_bytes(data)
    again = crashed.start(snapshot_every=10**9)
    left = snapshots.found(again.models["news"]._state.folder, "news")
    assert left and all(s.position < position for s in left)
    crashed.stop()


def test_a_snapshot_that_is_written_on_the_way_does_not_outlive_an_erase(home, monkeypatch):
    service, ids = played(home, 100, 10)
    news = service.models["news"]
    past, dumped = news._state.past(), saved_state(news.learner)
    write = saving.files.write

    def erased_meanwhile(path, *dumped, **options):
        news.erase(ids[20])
        news.settle()
        write(path, *dumped, **options)

    monkeypatch.setattr(saving.files, "write", erased_meanwhile)
    assert news._saving.write(dumped, 1, 150, past) is None
    assert all(s.position < 41 for s in snapshots.found(news._state.folder, "news"))
    monkeypatch.undo()
    assert_pure(news)


# How far it is.


def test_how_far_a_start_is(tmp_path, monkeypatch, caplog):
    from onebit.service import running

    place = Home(tmp_path)
    play(place.start().models["news"], 50)
    place.stop()
    for snapshot in place.snapshots:
        snapshot.unlink()
    halfway, go, seen = threading.Event(), threading.Event(), {}
    call = Progress.__call__

    def waits(self, learner, position, is_round):
        call(self, learner, position, is_round)
        if self.done == 25 and not halfway.is_set():
            halfway.set()
            assert go.wait(PATIENCE)

    monkeypatch.setattr(Progress, "__call__", waits)
    monkeypatch.setattr(progress, "TELL_EVERY", 0.0)
    caplog.set_level("INFO", "onebit.service")
    options = check(place.config)
    front = running.Front(options)

    headers = {}

    def ask(path):
        sent = []

        async def send(event):
            sent.append(event)

        import asyncio

        scope = {"type": "http", "path": path, "headers": [(b"host", b"localhost")]}
        asyncio.run(front(scope, None, send))
        headers.update(sent[0]["headers"])
        return sent[0]["status"], sent[1]["body"].decode()

    def start():
        seen["service"] = running.Service(options, ticks=False, building=front.building)

    thread = threading.Thread(target=start)
    thread.start()
    assert halfway.wait(PATIENCE)
    status, body = ask("/ready")
    assert status == 503 and "model news: 25 of 50 rounds learned" in body and "s left" in body
    for left, said in ((17.2, b"18"), (1e6, b"60"), (0.0, b"1"), (None, b"5")):
        with monkeypatch.context() as patch:
            patch.setattr(Progress, "seconds_left", left)
            ask("/ready")
        assert headers[b"retry-after"] == said
    status, body = ask("/metrics")
    assert status == 200 and 'onebit_building_rounds_done{model="news"} 25.0' in body
    assert 'onebit_building_rounds{model="news"} 50.0' in body and "onebit_ready 0.0" in body
    assert ask("/health")[0] == 200
    go.set()
    thread.join(PATIENCE)
    assert not front.building and ask("/ready")[0] == 503
    seen["service"].close()
    assert "model news: 25 of 50 rounds learned from the journal, about" in caplog.text


def test_how_far_a_rebuild_is(home, monkeypatch):
    monkeypatch.setattr(rebuilding, "AT_ONCE", -1)
    service, ids = played(home, 100, 20)
    halfway, go = threading.Event(), threading.Event()
    call = Progress.__call__

    def waits(self, learner, position, is_round):
        call(self, learner, position, is_round)
        if not halfway.is_set():
            halfway.set()
            assert go.wait(PATIENCE)

    with serving(service) as site:
        monkeypatch.setattr(Progress, "__call__", waits)
        service.models["news"].cancel(ids[0])
        assert halfway.wait(PATIENCE)
        ready = site.http.get("/ready").json()
        far = ready["building"]["news"]
        assert ready["status"] == "ready" and far["of"] > far["rounds"]
        with monkeypatch.context() as patch:
            patch.setattr(Progress, "seconds_left", 17.2)
            busy = site.http.post("/v1/models/news/retrain", json={"seed": 1})
        assert busy.status_code == 503 and busy.headers["retry-after"] == "18"
        text = site.http.get("/metrics").text
        assert f'onebit_building_rounds{{model="news"}} {far["of"]:.1f}' in text
        assert 'onebit_lag{model="news"} 0.0' not in text
        go.set()
        service.models["news"].settle()
        assert "building" not in site.http.get("/ready").json()
        assert 'onebit_lag{model="news"} 0.0' in site.http.get("/metrics").text


def test_the_estimate_counts_the_models_own_rounds(home):
    home.write(f'{REVISIONS}\n[models.other]\nlabels = {list(LABELS)}\nlearner = "UCWL"')
    service = home.start()
    for i in range(30):
        service.models["news"].decide(context(i))
        service.models["other"].decide(context(i))
    service.journal.flush()
    assert service.journal.rounds_between(2, 0, service.journal.position) == 30
    assert service.journal.rounds_between(2, 0, 20) == 10
    far = Progress("x", 0, 60, 30, every=10**9, write=lambda *_: None, pace=None)
    assert far.seconds_left is None and "left" not in told("starting", {"x": far})
    for position in range(1, 31):
        far(None, position, position % 2 == 0)
    assert (far.done, far.lag) == (15, 30) and far.told().of == 30
    assert "starting; model x: 15 of 30 rounds" in told("starting", {"x": far})


# Requests go first.


def test_who_builds_computes_for_a_share_of_the_time(monkeypatch):
    clock, waited, position = [0.0], [], [0]

    class Closing(threading.Event):
        def wait(self, timeout=None):
            waited.append(timeout)
            return False

    closing = Closing()
    monkeypatch.setattr(progress, "thread_time", lambda: clock[0])
    pace = Pace(lambda: position[0], closing)
    for _ in range(1000):  # nobody asks for anything
        clock[0] += 0.001
        pace()
    assert waited == []
    for _ in range(1000):
        clock[0] += 0.001
        position[0] += random.randrange(3)
        pace()
    share = 1.0 / (1.0 + sum(waited))
    assert progress.SHARE * 0.99 < share < progress.SHARE * 1.1
    closing.set()
    clock[0] += 1
    with pytest.raises(Interrupted):
        pace()


def test_events_of_both_kinds_are_told_to_who_watches(home):
    service, _ = played(home, 20, 10)
    news, heard = service.models["news"], []
    builder = news._state.builder
    builder.replayed(*builder.first(), None, lambda *given: heard.append(given[1:]))
    rows = [*service.journal.history(1, 0)]
    assert [is_round for _, is_round in heard] == [isinstance(row, DecisionRow) for row in rows]
    assert sum(isinstance(row, Answered) for row in rows) == 20


def test_who_waits_may_come_before_the_thread_has_started(home, monkeypatch):
    """A busy machine may start a thread late."""
    news = home.start().models["news"]
    play(news, 10)
    monkeypatch.setattr(rebuilding, "AT_ONCE", -1)

    class Late(threading.Thread):
        def start(self):
            news.settle()
            super().start()

    monkeypatch.setattr(rebuilding, "threading", SimpleNamespace(Thread=Late))
    news.submit_retrain(Retraining(seed=5)).wait()
    news.settle()
    assert news.card().seed == 5
    assert_pure(news)
