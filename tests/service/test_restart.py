"""Restarts under load: connections wait, and no request is refused.

ONEBIT_RESTART_REQUESTS says how many requests are sent at least (default: 300).
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import threading
import time
from contextlib import closing

import pytest
from helpers.waiting import PATIENCE
from processes import started

from onebit.client import Client
from onebit.service import listening as passing
from onebit.service.journal import ReadOnlyJournal

REQUESTS = int(os.environ.get("ONEBIT_RESTART_REQUESTS", "300"))
SENDERS = 8
NEWS = """
[service]
port = 0
access_log = false

[models.news]
labels = ["sport", "tech"]
learner = "Banditron"
"""


@pytest.fixture
def configuration(tmp_path):
    path = tmp_path / "news.toml"
    path.write_text(NEWS)
    return path


class Load:
    """Senders that ask without pause and never ask again; every second one keeps its connection."""

    def __init__(self, port, least=REQUESTS):
        self.told, self.failed, self.slowest = [], [], 0.0
        self._port, self._stop, self._least = port, threading.Event(), least
        self._threads = [threading.Thread(target=self._send, args=(i,)) for i in range(SENDERS)]
        for thread in self._threads:
            thread.start()

    def _send(self, number):
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        headers = {"content-type": "application/json"}
        while not self._stop.is_set() or len(self.told) + len(self.failed) < self._least:
            begun = time.monotonic()
            try:
                body = json.dumps({"context": {f"w{len(self.told) % 50}": 1}})
                connection.request("POST", "/v1/models/news/decisions", body, headers)
                answer = connection.getresponse()
                said = answer.read()
                if answer.status != 201:
                    raise AssertionError(f"{answer.status} {said!r}")
                self.told.append(json.loads(said)["id"])
            except Exception as error:
                self.failed.append(repr(error))
                connection.close()
            self.slowest = max(self.slowest, time.monotonic() - begun)
            if number % 2:
                connection.close()
        connection.close()

    def wait_for(self, answers):
        end = time.monotonic() + PATIENCE
        before = len(self.told)
        while len(self.told) < before + answers and not self.failed:
            assert time.monotonic() < end
            time.sleep(0.01)

    def end(self):
        self._stop.set()
        for thread in self._threads:
            thread.join()


def assert_nothing_failed(load, configuration):
    print(f"{len(load.told):,} requests, {len(load.failed)} failed, slowest {load.slowest:.1f} s")
    assert not load.failed, load.failed
    with (
        closing(ReadOnlyJournal(configuration.parent / "onebit.journal")) as journal,
        journal.reading() as connection,
    ):
        rows = connection.execute("SELECT position, token FROM decisions").fetchall()
    kept = [f"{position:x}-{token}" for position, token in rows]
    assert sorted(kept) == sorted(load.told)


def test_a_socket_of_systemd_outlives_a_restart(configuration):
    """`systemctl restart` with deploy/onebit.socket: stop, then start, with the same socket."""
    with closing(socket.create_server(("127.0.0.1", 0), backlog=2048)) as listener:
        load = None
        try:
            with started(configuration, listener) as first:
                port = listener.getsockname()[1]
                assert first.wait_for(r"address (http://\S+)") == f"http://127.0.0.1:{port}"
                load = Load(port)
                load.wait_for(REQUESTS // 3)
                first.process.send_signal(signal.SIGTERM)
                first.wait_for("all that was accepted is in the journal")
                assert first.process.wait(PATIENCE) == 0
            with started(configuration, listener):
                load.wait_for(REQUESTS // 3)
                load.end()
        finally:
            if load is not None:
                load.end()
        assert_nothing_failed(load, configuration)


def test_a_service_restarts_itself(configuration):
    """SIGUSR2: the same process, the same port, the program as it is on disk now."""
    with started(configuration) as running:
        url = running.wait_for(r"address (http://\S+)")
        load = Load(int(url.rpartition(":")[2]))
        try:
            with Client(url, timeout=PATIENCE, patience=PATIENCE) as client:
                id = client.decide("news", {"goal": 1.0}).id
                load.told.append(id)
                load.wait_for(REQUESTS // 3)
                # A configuration that the new process would refuse changes nothing.
                configuration.write_text(NEWS.replace("labels", "lables"))
                running.process.send_signal(signal.SIGUSR2)
                running.wait_for("not restarted: .*")
                assert client.ready() == ["news"]
                configuration.write_text(NEWS)
                running.process.send_signal(signal.SIGUSR2)
                running.wait_for("ready after", times=2)
                assert running.wait_for(r"address (http://\S+)", times=2) == url
                load.wait_for(REQUESTS // 3)
                assert client.look(id).id == id
        finally:
            load.end()
        assert_nothing_failed(load, configuration)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(PATIENCE) == 0


@pytest.mark.exhaustive
def test_ten_thousand_requests_across_ten_restarts(configuration):
    """The service restarts itself, or is stopped and started again, with a socket of systemd."""
    most, restarts = 10_000, 10
    with closing(socket.create_server(("127.0.0.1", 0), backlog=2048)) as listener:
        load = Load(listener.getsockname()[1], most)
        try:
            for _ in range(restarts // 2):
                with started(configuration, listener) as running:
                    load.wait_for(most // (2 * restarts))
                    running.process.send_signal(signal.SIGUSR2)
                    running.wait_for("ready after", times=2)
                    load.wait_for(most // (2 * restarts))
                    running.process.send_signal(signal.SIGTERM)
                    assert running.process.wait(PATIENCE) == 0
            with started(configuration, listener):
                load.end()
        finally:
            load.end()
        assert_nothing_failed(load, configuration)
        assert len(load.told) >= most


# What may be passed on.


@pytest.fixture
def passed(monkeypatch):
    """Pretends that a socket was passed to this process."""

    def pass_on(given, count="1"):
        monkeypatch.setattr(passing, "FIRST", os.dup(given.fileno()))
        monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
        monkeypatch.setenv("LISTEN_FDS", count)

    yield pass_on
    for number in {passing.FIRST} - {3}:
        with closing(socket.socket(fileno=number)):
            pass


def test_a_socket_for_this_process(passed):
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        passed(listener)
        given = passing.inherited()
        assert given.getsockname() == listener.getsockname()
        assert not given.get_inheritable()
        assert "LISTEN_FDS" not in os.environ  # children get none
        assert passing.inherited() is None
        given.detach()


def test_sockets_for_other_processes(monkeypatch):
    monkeypatch.setenv("LISTEN_PID", str(os.getpid() + 1))
    monkeypatch.setenv("LISTEN_FDS", "1")
    assert passing.inherited() is None


@pytest.mark.parametrize(
    ("make", "count", "said"),
    [
        (lambda: socket.create_server(("127.0.0.1", 0)), "2", "2 were passed"),
        (lambda: socket.socket(socket.AF_UNIX), "1", "does not listen for TCP"),
        (socket.socket, "1", "does not listen for TCP"),
    ],
)
def test_sockets_that_are_refused(passed, make, count, said):
    with closing(make()) as given:
        passed(given, count)
        with pytest.raises(ValueError, match=said):
            passing.inherited()
