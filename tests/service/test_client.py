"""The clients, against a real server and against one that misbehaves."""

from __future__ import annotations

import asyncio
import inspect
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from fake_service import FakeService
from helpers.serving import serving
from helpers.waiting import PATIENCE
from test_http import SECRETS, tokens

from onebit import client as module
from onebit.client import AsyncClient, Client, ServiceError
from onebit.learner.labels import LONGEST
from onebit.reading.rows import GROWTH_LIMIT, LARGEST_SINGLE
from onebit.service import faults, messages


class Awaited:
    """An AsyncClient with the methods of a Client."""

    def __init__(self, *args, **options):
        self._runner = asyncio.Runner()
        self._client = AsyncClient(*args, **options)

    def __getattr__(self, name):
        method = getattr(self._client, name)
        return lambda *args, **options: self._runner.run(method(*args, **options))

    def __repr__(self):
        return repr(self._client)

    def __enter__(self):
        self._runner.run(self._client.__aenter__())
        return self

    def __exit__(self, *_):
        self._runner.run(self._client.__aexit__())
        self._runner.close()


both = pytest.mark.parametrize("make", [Client, Awaited])


@pytest.fixture(scope="module")
def site():
    with serving(FakeService()) as running:
        yield running


@pytest.fixture(autouse=True)
def hurry(monkeypatch):
    monkeypatch.setattr(module, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(module, "LONGEST_WAIT", 0.02)


@both
def test_every_method(site, make):
    with make(f"{site.url}/") as client:
        assert client.ready() == client.models() == ["news", "counted"]
        told = client.decide("news", {"goal": 1}, among=["tech", "sport"])
        assert told.label == "tech" and told.propensities == {"tech": 0.5, "sport": 0.5}
        assert told.confidence == 0.75
        assert client.feedback(told.id, right=True, source="me").state == "learned"
        assert client.revise(told.id, label="sport").state == "learned"
        record = client.look(told.id)
        assert record.context == {"goal": 1} and record.feedback[0].label == "sport"
        assert client.revoke(told.id).state == "open"
        assert client.shown(told.id).state == "open"
        assert client.cancel(told.id).state == "cancelled"
        assert client.erase(told.id).state == "erased"
        counted = client.decide("counted", [1.0, 2.0])
        assert counted.label == 0 and set(counted.propensities) == {0, 1, 2}
        assert set(client.look(counted.id).propensities) == {0, 1, 2}
        questions = [{"context": "a text"}, {"context": [1], "among": ["tech"]}]
        many = client.decide_many("news", questions)
        assert [told.label for told in many] == ["sport", "tech"]
        outcomes = client.feedback_many(
            [{"id": many[0].id, "right": False}, {"id": "none", "label": 1}]
        )
        assert outcomes[0].state == "learned" and outcomes[1].problem.status == 404
        shares = {"sport": 0.25, "tech": 0.75}
        standing = client.logged("news", {"a": 1}, "tech", right=True, propensities=shares, time=3)
        assert standing.state == "learned"
        record = client.look(standing.id)
        assert (record.label, record.speaker, record.said_at) == ("tech", "other", 3)
        assert record.propensities == shares and record.propensity is None
        items = [{"context": [1], "said": 2}, {"context": [1], "said": 1, "label": 5}]
        items[0]["propensities"] = {0: 0.5, 2: 0.5}
        first, second = client.logged_many("counted", items)
        assert first.state == "open" and second.problem.status == 422
        assert client.look(first.id).propensities == {0: 0.5, 2: 0.5}
        assert client.card("news").name == "news"
        assert client.retrain("news", settings={"a": 1}).settings == {"a": 1}
        assert client.promote("news", "better").speaker == "better"
        assert client.promote("news", undo=True).speaker == "news"
        label = f"label-{make.__name__}"
        assert label in client.change_labels("news", add=[label]).labels
        card = client.weigh_source("news", "me@home", weight=0.5)
        assert card.sources["me@home"].weight == 0.5
        assert client.remove_source("news", "me@home").sources == {}


def test_both_have_the_same_methods():
    def methods(kind):
        found = inspect.getmembers(kind, inspect.isfunction)
        return {
            name: str(inspect.signature(method))
            for name, method in found
            if not name.startswith("_") and name != "close"
        }

    assert methods(Client) == methods(AsyncClient)


@both
@pytest.mark.parametrize(
    ("context", "kept"),
    [
        (np.array([1.0, 2.5]), [1.0, 2.5]),
        (np.array([1.0, np.nan]), [1.0, None]),
        ((np.array([3, 7]), np.array([1.0, 2.0])), [[3, 1.0], [7, 2.0]]),
        (([3, 7], [1.0, 2.0]), [[3, 1.0], [7, 2.0]]),
        (
            {"a": np.float32(0.5), "b": None, "c": float("nan"), "d": "x"},
            {"a": 0.5, "b": None, "d": "x"},
        ),
        ("text", "text"),
    ],
)
def test_contexts(site, make, context, kept):
    with make(site.url) as client:
        assert client.look(client.decide("news", context).id).context == kept


def test_what_json_cannot_hold(site):
    with Client(site.url) as client:
        with pytest.raises(TypeError, match="'a' must be a number or a string, not <object"):
            client.decide("news", {"a": object()})
        with pytest.raises(TypeError, match="cannot be sent"):
            client.retrain("news", settings={"a": object()})


@both
def test_faults_are_raised_as_they_were(site, make):
    with make(site.url) as client:
        with pytest.raises(faults.UnknownModel, match="no model 'nwes'; there are: news"):
            client.decide("nwes", {})
        with pytest.raises(faults.UnknownDecision):
            client.feedback("nonsense", right=True)
        with pytest.raises(faults.UnknownPath):  # and not what another path would answer
            client.feedback("../../health", right=True)
        with pytest.raises(faults.Refused) as raised:
            client.decide("news", {"a": 1e16})
        assert raised.value.where == "$.context.a"
        with pytest.raises(ServiceError, match="either"):
            client.feedback(client.decide("news", {}).id)


@both
def test_keys(site, make):
    with make(site.url) as client:
        key = f"key-{make.__name__}"
        first = client.decide("news", {"a": 1}, key=key)
        assert client.decide("news", {"a": 1}, key=key) == first
        assert client.decide("news", {"a": 1}) != first
        (again,) = client.decide_many("news", [{"context": {"a": 1}, "key": key}])
        assert again == first


@both
def test_a_busy_service_is_asked_again(make):
    service = FakeService()
    with serving(service) as site, make(site.url, patience=PATIENCE) as client:
        service.commits.busy = True
        threading.Timer(0.2, lambda: setattr(service.commits, "busy", False)).start()
        assert client.decide("news", {}).label == "sport"
        service.commits.busy = True
        with make(site.url, patience=0.1) as impatient, pytest.raises(faults.Busy):
            impatient.decide("news", {})
        assert len(service.models["news"].records) >= 1


@both
def test_a_token_is_sent_and_not_shown(make):
    with serving(FakeService(tokens=tokens())) as site:
        with make(site.url) as client, pytest.raises(faults.NoToken):
            client.decide("news", {})
        with make(site.url, token=SECRETS["web"]) as client:
            assert client.decide("news", {}).label == "sport"
            assert SECRETS["web"] not in repr(client) and site.url in repr(client)


# A server that misbehaves.


@contextmanager
def misbehaving(*answers):
    """Each connection gets the next answer after one request; None: it is closed without one."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(PATIENCE)
    requests = []

    def run():
        for answer in answers:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(PATIENCE)
                request = b""
                while not request.endswith(b"}"):
                    request += connection.recv(65536)
                requests.append(request)
                if answer is not None:
                    connection.sendall(answer)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", requests
    finally:
        listener.shutdown(socket.SHUT_RDWR)  # nobody comes any more
        thread.join(PATIENCE)
        listener.close()


def response(status, body, *headers):
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", "connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


GOOD = response(
    "201 Created",
    b'{"id": "a", "label": "x", "confidence": 0.5, "propensity": 1, "propensities": {"x": 1}, '
    b'"explored": false, "round": 0}',
)


@both
def test_broken_connections_are_tried_again_with_the_same_key(make):
    cut = GOOD[:-30]
    bad_gateway = response("502 Bad Gateway", b"<html>")
    with misbehaving(None, cut, bad_gateway, GOOD) as (url, requests), make(url) as client:
        assert client.decide("news", {"a": 1}).id == "a"
    assert len(requests) == 4
    assert len({request.partition(b"\r\n\r\n")[2] for request in requests}) == 1


@both
def test_what_cannot_be_repeated_is_not(make):
    refused = pytest.raises(faults.Unavailable, match="no answer from http")
    with misbehaving(None) as (url, requests), make(url) as client, refused:
        client.retrain("news")
    assert len(requests) == 1


BUSY = response(
    "503 Service Unavailable",
    b'{"type": "urn:onebit:busy", "title": "busy", "status": 503, "detail": "later"}',
    "retry-after: 1",
)


@both
@pytest.mark.parametrize("status", ["502 Bad Gateway", "503 Unavailable", "504 Gateway Timeout"])
def test_what_a_proxy_may_have_passed_on_is_not_repeated(make, status):
    with misbehaving(BUSY, response(status, b"<html>")) as (url, requests), make(url) as client:
        with pytest.raises(ServiceError) as raised:
            client.change_labels("news", add=["food"])
        assert raised.value.status == int(status[:3])
    assert len(requests) == 2  # who is busy has taken nothing, and is asked again


@both
def test_retry_after_is_heeded(make):
    with misbehaving(BUSY, GOOD) as (url, _), make(url) as client:
        started = time.monotonic()
        client.decide("news", {})
        assert time.monotonic() - started >= module.LONGEST_WAIT


@both
def test_nobody_listens(make):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with make(url, patience=0.05) as client:
        with pytest.raises(faults.Unavailable, match="no answer from http://127"):
            client.decide("news", {})
        with pytest.raises(faults.Unavailable):
            client.retrain("news")


@both
def test_an_answer_of_something_else(make):
    with misbehaving(response("404 Not Found", b"\xff<html>")) as (url, _), make(url) as client:
        with pytest.raises(ServiceError) as raised:
            client.retrain("news")
        assert raised.value.status == 404 and raised.value.title == "Not Found"


def test_the_client_starts_quickly():
    """Importing it imports no compiler, and the bounds it knows are those of the learners."""
    code = "import sys, onebit.client; sys.exit('numba' in sys.modules or 'numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert (messages.LARGEST, messages.INDICES) == (LARGEST_SINGLE, GROWTH_LIMIT)
    assert messages.LONGEST_LABEL == LONGEST
