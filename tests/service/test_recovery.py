"""A journal that cannot be written for a while: what is refused meanwhile, and what comes after."""

from __future__ import annotations

import sqlite3
import threading

import pytest
from helpers.serving import serving
from helpers.waiting import PATIENCE, wait_for
from running import Home, assert_pure, context, play

from onebit.service import service as service_module
from onebit.service.configuration import check
from onebit.service.engine import rebuilding
from onebit.service.engine.rebuilding import Rebuilding
from onebit.service.faults import ServiceError, Unavailable
from onebit.service.messages import Retraining

OTHER = '[models.other]\nlabels = ["a", "b"]\nlearner = "Banditron"'


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setattr(service_module, "RETRY", (0.01,))
    place = Home(tmp_path, f"revisions = true\n{OTHER}")
    yield place
    place.stop()


def fail_commits(journal):
    """Commits fail, as on a full disk, and so does recovery; returns what makes room again."""
    commit, recover, is_full = journal._commit, journal.recover, threading.Event()
    is_full.set()

    def full(*_):
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    journal._commit = lambda group: full() if is_full.is_set() else commit(group)
    journal.recover = lambda build: full() if is_full.is_set() else recover(build)
    return is_full.clear


@pytest.fixture
def go(monkeypatch):
    """Learners are built in a thread that waits for the event."""
    go, behind = threading.Event(), Rebuilding._build_behind

    def waits(self, *given):
        go.wait(PATIENCE)
        behind(self, *given)

    monkeypatch.setattr(rebuilding, "AT_ONCE", -1)
    monkeypatch.setattr(Rebuilding, "_build_behind", waits)
    return go


def test_a_full_disk_while_a_reload_waits_for_a_learner(home, go):
    service = home.start()
    news, other = service.models["news"], service.models["other"]
    play(news, 10)
    news.submit_retrain(Retraining(seed=5))
    home.write(f"revisions = true\nseed = 9\n{OTHER}")
    said = []

    def reload() -> None:
        try:
            service.reload(check(home.config))
        except ServiceError as fault:
            said.append(fault.detail)

    reloading = threading.Thread(target=reload, daemon=True)
    reloading.start()
    wait_for(lambda: not service._lock.acquire(blocking=False) or service._lock.release())
    make_room = fail_commits(service.journal)
    with pytest.raises(Unavailable):
        other.decide(context(1))
    go.set()
    reloading.join(PATIENCE)
    assert not reloading.is_alive() and "cannot be written" in said[0]
    make_room()
    wait_for(lambda: not service.unready())
    wait_for(lambda: news.card().seed == 5)  # the learner that was asked for before
    service.reload(check(home.config))
    news.settle()
    assert news.card().seed == 9
    assert_pure(news)


def test_a_full_disk_while_a_start_waits_for_a_learner(home, tmp_path, go, monkeypatch):
    news = home.start().models["news"]
    play(news, 10)
    news.submit_retrain(Retraining(seed=5))
    crashed = home.crashed(tmp_path / "crashed")
    go.set()
    crashed.write(f"seed = 9\n{OTHER}")
    monkeypatch.setattr(Rebuilding, "_take_over", lambda *_: fail_now(engines))
    engines = []
    resume = Rebuilding._resume
    monkeypatch.setattr(Rebuilding, "_resume", lambda self: (engines.append(self), resume(self)))

    def fail_now(engines) -> None:
        fail_commits(engines[0]._journal)
        engines[0]._journal.append(statements=[("SELECT 1", ())]).done.result()

    with pytest.raises(Unavailable, match="cannot be written"):
        crashed.start()
    crashed.stop()


def test_nothing_that_was_refused_is_told(home):
    service = home.start()
    news = service.models["news"]
    ids = [news.decide(context(i)).id for i in range(5)]
    for id in ids[:4]:
        news.feedback(id, right=True)
    make_room = fail_commits(service.journal)
    with pytest.raises(Unavailable):
        news.feedback(ids[4], right=True)
    with pytest.raises(Unavailable):
        news.revise(ids[0], right=False)
    for tell in (lambda: news.look(ids[4]), lambda: news.look(ids[0]), news.card):
        with pytest.raises(Unavailable, match="cannot be written"):
            tell()
    make_room()
    wait_for(lambda: not service.unready())
    assert news.look(ids[4]).state == "open" and news.card().answers == 4
    assert news.look(ids[0]).feedback[-1].right is True
    assert_pure(news)


def test_requests_are_refused_while_the_journal_is_read_anew(home):
    service = home.start()
    journal, started, go = service.journal, threading.Event(), threading.Event()
    commit, recover = journal._commit, journal.recover

    def recover_slowly(build) -> None:
        started.set()
        go.wait(PATIENCE)
        recover(build)

    def fail(group) -> None:
        journal._commit, journal.recover = commit, recover_slowly
        raise OSError("fsync failed, says the test")

    with serving(service) as site:
        decisions, question = "/v1/models/news/decisions", {"context": [1.0, 2.0]}
        path = site.http.post(decisions, json=question).headers["location"]
        journal._commit = fail
        assert site.http.post(decisions, json=question).status_code == 503
        assert started.wait(PATIENCE)
        try:
            for method, target, body in (
                ("POST", decisions, question),
                ("POST", f"{decisions}:batch", {"decisions": [question]}),
                ("POST", f"{path}/feedback", {"right": True}),
                ("POST", f"{path}/cancel", None),
                ("DELETE", path, None),
                ("GET", path, None),
                ("GET", "/v1/models/news", None),
                ("GET", "/ready", None),
            ):
                answer = site.http.request(method, target, json=body)
                assert answer.status_code == 503, (method, target)
                assert answer.headers["retry-after"]
            assert site.http.get("/metrics").status_code == 200
        finally:
            go.set()
        wait_for(lambda: site.http.get("/ready").status_code == 200)
        assert site.http.get(path).json()["state"] == "open"
        assert site.http.post(decisions, json=question).status_code == 201
