"""A model that has something long to do keeps nobody else waiting."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from running import LABELS, Home, context, play
from serving import serving
from waiting import PATIENCE

from onebit.service.engine import building

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
    with site.service.models["news"]._lock:
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
