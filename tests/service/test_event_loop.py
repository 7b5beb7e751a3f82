"""A model that has something long to do keeps nobody else waiting."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import msgspec
import pytest
from helpers.serving import serving
from helpers.waiting import PATIENCE
from running import LABELS, Home, assert_pure, context, play

from onebit.learner.learner import Learner
from onebit.service import messages
from onebit.service.engine import answering, building, recent, state
from onebit.service.http import app

OTHER = f'[models.other]\nlabels = {list(LABELS)}\nlearner = "Banditron"'


@pytest.fixture
def site(tmp_path):
    with serving(Home(tmp_path, f"revisions = true\n{OTHER}").start()) as running:
        yield running


@pytest.fixture
def pool():
    with ThreadPoolExecutor(4) as threads:
        yield threads


@contextmanager
def slow_building(monkeypatch):
    """Learners are not built until the block is left; yields an event that says that one begins."""
    begun, go_on, build = threading.Event(), threading.Event(), building.Builder.replayed

    def replayed(*args):
        begun.set()
        assert go_on.wait(PATIENCE)
        return build(*args)

    monkeypatch.setattr(building.Builder, "replayed", replayed)
    try:
        yield begun
    finally:
        go_on.set()


def decide(site, model, i=0):
    return site.http.post(f"/v1/models/{model}/decisions", json={"context": context(i)})


def assert_others_go_on(site):
    assert site.http.get("/health").status_code == 200
    assert site.http.get("/metrics").status_code == 200
    told = decide(site, "other")
    assert told.status_code == 201
    path = f"/v1/decisions/{told.json()['id']}/feedback"
    assert site.http.post(path, json={"right": True}).status_code == 200


def test_requests_wait_in_threads_while_the_engine_is_busy(site, pool):
    with site.service.models["news"]._state.lock:
        waiting = pool.submit(decide, site, "news")
        assert_others_go_on(site)
        assert not waiting.done()
    assert waiting.result().status_code == 201


def test_other_feedback_builds_the_learner_in_a_thread(site, pool, monkeypatch):
    news = site.service.models["news"]
    ids = play(news, 6)
    states = [news.look(id).feedback[-1].right for id in ids]
    single = f"/v1/decisions/{ids[0]}/feedback", {"right": not states[0]}
    answers = [{"id": id, "right": not was} for id, was in zip(ids[1:], states[1:], strict=True)]
    batch = "/v1/feedback:batch", {"feedback": answers}
    for path, body in (single, batch):
        with slow_building(monkeypatch) as begun:
            waiting = pool.submit(site.http.post, path, json=body)
            assert begun.wait(PATIENCE)
            assert_others_go_on(site)
            assert not waiting.done()
        assert waiting.result().status_code == 200
    assert [news.look(id).feedback[-1].right for id in ids] == [not was for was in states]


LARGE = {f"name {i}": 1.0 for i in range(5_000)}
SMALL = {"a": 1.0}
BATCH = [{"context": SMALL}] * 10
WORKERS = ("asyncio_", "uvloop_")  # names of threads


@pytest.fixture
def seen(site, monkeypatch):
    """The threads in which learners of the service decide and learn."""
    threads: list[str] = []
    for name, call in (("decide", Learner.decide), ("learn", Learner.learn)):

        def watched(self, *args, _call=call, **options):
            threads.append(threading.current_thread().name)
            return _call(self, *args, **options)

        monkeypatch.setattr(Learner, name, watched)
    return threads


def post(site, path, body):
    answer = site.http.post(path, json=body)
    assert answer.is_success, answer.text
    return answer.json()


def in_threads(threads):
    """Whether all of it, or none, was done in threads of their own, not on the event loop."""
    (are_apart,) = {name.startswith(WORKERS) for name in threads}
    threads.clear()
    return are_apart


def test_long_work_is_done_in_threads(site, seen):
    decisions = "/v1/models/news/decisions"
    small = post(site, decisions, {"context": SMALL})["id"]
    assert not in_threads(seen)
    post(site, f"/v1/decisions/{small}/feedback", {"right": True})
    assert not in_threads(seen)
    large = post(site, decisions, {"context": LARGE})["id"]
    assert in_threads(seen)
    post(site, f"/v1/decisions/{large}/feedback", {"right": True})
    assert in_threads(seen)
    ids = [
        told["id"] for told in post(site, f"{decisions}:batch", {"decisions": BATCH})["decisions"]
    ]
    assert in_threads(seen)
    post(site, "/v1/feedback:batch", {"feedback": [{"id": id, "right": True} for id in ids]})
    assert in_threads(seen)


def test_forgetting_a_large_table_is_done_in_a_thread(site, seen, monkeypatch):
    monkeypatch.setattr(state, "LARGE", 0)
    news = site.service.models["news"]
    ids = [news.decide(SMALL).id for _ in range(2)]
    seen.clear()
    post(site, f"/v1/decisions/{ids[0]}/feedback", {"right": True})
    assert not in_threads(seen)
    monkeypatch.setattr(answering, "will_forget", lambda learner, right: True)
    post(site, f"/v1/decisions/{ids[1]}/feedback", {"right": True})
    assert in_threads(seen)


def test_large_bodies_and_answers_are_read_and_written_in_threads(site, monkeypatch):
    threads: list[str] = []
    for name, call in (("_decoded", app._decoded), ("encode_many", app.encode_many)):

        def watched(*args, _call=call):
            threads.append(threading.current_thread().name)
            return _call(*args)

        monkeypatch.setattr(app, name, watched)
    post(site, "/v1/models/news/decisions", {"context": SMALL})
    assert not in_threads(threads)
    post(site, "/v1/models/news/decisions", {"context": LARGE})
    assert in_threads(threads)
    post(site, "/v1/models/news/decisions:batch", {"decisions": BATCH})
    assert threads.pop().startswith(WORKERS)


@pytest.mark.parametrize("count", [1, 2, 40])
def test_a_large_answer_is_sent_in_pieces_between_which_others_go_on(site, count):
    """Nobody copies it as a whole, which would hold up all threads."""
    told = [site.service.models["news"].decide(SMALL) for _ in range(count)]
    many = messages.ToldMany(told)
    sent, turns = [], []

    async def send(event):
        sent.append(event)
        turns.append(others)

    async def run():
        nonlocal others
        task = asyncio.create_task(app.answer(send, 201, b"json", app.encode_many(many)))
        while not task.done():
            others += 1
            await asyncio.sleep(0)

    others = 0
    asyncio.run(run())
    head, *pieces = sent
    body = b"".join(piece["body"] for piece in pieces)
    assert body == msgspec.json.encode(many)
    assert dict(head["headers"])[b"content-length"] == b"%d" % len(body)
    longest = max(len(msgspec.json.encode(one)) for one in told)
    assert max(len(piece["body"]) for piece in pieces) <= longest + len('{"decisions":[')
    assert [piece.get("more_body", False) for piece in pieces] == [True] * count + [False]
    assert len(set(turns)) >= count  # the event loop had others' turns in between


def test_others_go_on_while_a_large_context_is_read(site, pool, monkeypatch):
    begun, go_on, prepared = threading.Event(), threading.Event(), building.Builder.prepared

    def waits(self, context):
        if len(context) == len(LARGE):
            begun.set()
            assert go_on.wait(PATIENCE)
        return prepared(self, context)

    monkeypatch.setattr(building.Builder, "prepared", waits)
    waiting = pool.submit(post, site, "/v1/models/news/decisions", {"context": LARGE})
    try:
        assert begun.wait(PATIENCE)
        assert_others_go_on(site)
        assert not waiting.done()
    finally:
        go_on.set()
    assert waiting.result()["id"]


def test_decisions_in_memory_are_bounded_by_their_size(site, monkeypatch):
    monkeypatch.setattr(recent, "RECENT_BYTES", 100_000)
    news = site.service.models["news"]
    ids = [news.decide({f"{i} {n}": 1.0 for n in range(500)}).id for i in range(20)]
    decisions = news._decisions
    assert len(decisions._recent) < 10
    assert decisions._bytes == sum(x.size for x in decisions._recent.values()) <= 100_000
    for id in ids:
        assert news.feedback(id, right=True).state == "learned"
    assert_pure(news)
