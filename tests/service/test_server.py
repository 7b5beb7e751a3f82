"""What strangers may do to the server: memory, room for connections, order of answers, stop."""

from __future__ import annotations

import asyncio
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from fake_service import FakeService
from helpers.serving import listening, serving
from helpers.waiting import PATIENCE, wait_for
from test_http import HEAD, answer_of

from onebit.service import faults
from onebit.service.configuration import Limits, ServiceOptions, Timeouts
from onebit.service.http.server import make_server, origin_of

GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
POST = b"POST /v1/models/news/decisions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"

# Memory. Nobody here has a token.

MOST = 6 * 2**20  # bytes that are sent on a connection, if the server takes them
ROOM = 48 * 2**20  # bytes of memory that all of it may take
MANY = 400  # connections; the server takes 300

# Name: connections, what is sent once, what is sent then without end, bytes read at a time.
WAYS = {
    "pipelined requests, slow reading": (1, b"", GET, 300),
    "pipelined requests, no reading": (1, b"", GET, 0),
    "requests of 1.0": (1, b"", b"GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n", 300),
    "large answers, no reading": (1, b"", GET.replace(b"/ ", b"/openapi.json "), 0),
    "bodies for what has none": (1, b"", GET[:-2] + b"content-length: 5\r\n\r\nabcde", 300),
    "a request line": (1, b"GET /", b"x" * 1000, 300),
    "a header": (1, GET[:-2] + b"x: ", b"x" * 1000, 300),
    "the name of a header": (1, GET[:-2], b"x" * 1000, 300),
    "many headers": (1, GET[:-2], b"a:b\r\n" * 200, 300),
    "empty lines": (1, b"", b"\r\n" * 500, 300),
    "a body": (1, POST + b"content-length: 1000000000\r\n\r\n", b"x" * 1000, 300),
    "a body of lines": (1, POST + b"content-length: 1000000000\r\n\r\n", b"\r\n\r\n" * 250, 300),
    "bodies": (1, b"", POST + b"content-length: 1000\r\n\r\n" + b"x" * 1000, 300),
    "a chunked body": (1, CHUNKED, b"3e8\r\n" + b"x" * 1000 + b"\r\n", 300),
    "small chunks": (1, CHUNKED, b"1\r\nx\r\n" * 200, 300),
    "an extension of a chunk": (1, CHUNKED + b"1;", b"x" * 1000, 300),
    "trailers": (1, CHUNKED + b"0\r\n", b"a: b\r\n" * 200, 300),
    "a trailer": (1, CHUNKED + b"0\r\na: ", b"x" * 1000, 300),
    "expectations": (1, b"", POST + b"expect: 100-continue\r\ncontent-length: 9\r\n\r\n", 300),
    "upgrades": (1, b"", GET[:-2] + b"connection: upgrade\r\nupgrade: websocket\r\n\r\n", 300),
    "an upgrade and more": (1, GET[:-2] + b"connection: upgrade\r\nupgrade: h2c\r\n\r\n", GET, 0),
    "connect": (1, b"", b"CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n", 300),
    "no HTTP": (1, b"", b"\x16\x03\x01" * 300, 300),
    "the events of a model": (1, b"", GET.replace(b"/ ", b"/dashboard/news/events "), 300),
    "many connections": (MANY, b"", b"", 0),
    "many half heads": (MANY, GET[:-2] + b"x: " + b"x" * 20_000, b"", 0),
    "many half bodies": (MANY, POST + b"content-length: 1000\r\n\r\n{", b"", 0),
    "many that do not read": (MANY, GET.replace(b"/ ", b"/openapi.json ") * 10, b"", 0),
    "many that pipeline": (MANY, GET * 1000, b"", 0),
}


@pytest.fixture(scope="module")
def child():
    """The port and the process id of a server."""
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("only Linux says how much memory a process had at most")
    child = Path(__file__).with_name("server_child.py")
    with subprocess.Popen(
        [sys.executable, child], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:  # fmt: skip
        yield int(process.stdout.readline()), process.pid
        process.kill()


def memory_of(pid, name):
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split(f"{name}:")[1].split()[0]) * 1024


def attack(port, connections, once, again, reads):
    """Send until the server takes no more, or as much as there is to send."""
    again = again * (2**16 // len(again)) if again else b""
    with ExitStack() as opened:
        pending = {}
        for _ in range(connections):
            made = opened.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE))
            made.setblocking(False)
            pending[made] = [once, len(once)]  # what is to be sent now, bytes so far
        last = time.monotonic()
        while pending and time.monotonic() - last < 1:
            _, writable, _ = select.select([], list(pending), [], 0.05)
            for made in list(pending):
                data, sent = pending[made]
                try:
                    if reads:
                        made.recv(reads)
                except BlockingIOError:
                    pass
                except OSError:
                    del pending[made]
                    continue
                if made not in writable:
                    continue
                try:
                    count = made.send(data or again) if data or again else 0
                except BlockingIOError:
                    continue
                except OSError:
                    del pending[made]
                    continue
                last = time.monotonic()
                rest = (data or again)[count:]
                pending[made] = [rest, sent + count]
                if sent + count > MOST or not (rest or again):
                    del pending[made]
        time.sleep(0.2)  # for what was sent last


ALWAYS = ("pipelined requests, slow reading", "trailers", "many headers", "many connections")


@pytest.mark.parametrize(
    "way", [pytest.param(w, marks=[] if w in ALWAYS else pytest.mark.thorough) for w in WAYS]
)
def test_memory_is_bounded(child, way):
    port, pid = child
    httpx.get(
        f"http://127.0.0.1:{port}/openapi.json", timeout=PATIENCE
    )  # whatever is made only once
    before = memory_of(pid, "VmRSS")
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak begins anew
    attack(port, *WAYS[way])
    assert memory_of(pid, "VmHWM") - before < ROOM
    assert httpx.get(f"http://127.0.0.1:{port}/health", timeout=PATIENCE).status_code == 200


# Room for connections.

REST = b'{"context": {}}'.ljust(100)
HEALTH = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"


@pytest.fixture
def serve():
    """Serve with options of [service]."""
    with ExitStack() as opened:
        yield lambda **options: opened.enter_context(serving(FakeService(**options)))


def sent(opened, port, data, address="127.0.0.1"):
    """A new connection from an address of this machine, on which something is sent."""
    made = socket.create_connection(("127.0.0.1", port), PATIENCE, source_address=(address, 0))
    opened.callback(made.close)
    made.sendall(data)
    return made


def half(opened, port, address="127.0.0.1"):
    """A connection with a request whose body, `REST`, the service waits for."""
    head = HEAD + b"expect: 100-continue\r\ncontent-length: %d\r\n\r\n" % len(REST)
    made = sent(opened, port, head, address)
    assert made.recv(1000).startswith(b"HTTP/1.1 100 ")
    return made


def status(connection):
    """The status of the first answer, and all that came."""
    answer = answer_of(connection)
    return int(answer.split(b" ", 2)[1]) if answer else None, answer


def asked(port):
    return httpx.get(f"http://127.0.0.1:{port}/health", timeout=PATIENCE).status_code


def test_idle_connections_make_room(serve):
    """The one that was idle longest is closed, also if it was never used; nobody is refused."""
    site = serve(limits=Limits(connections=3))
    with ExitStack() as opened:
        busy = half(opened, site.port)
        used = sent(opened, site.port, HEALTH)
        assert b"200 OK" in used.recv(1000)
        idle = sent(opened, site.port, b"")
        for gone in (used, idle):
            newcomer = sent(opened, site.port, HEALTH)
            assert b"200 OK" in newcomer.recv(1000)
            assert status(gone)[0] is None
        busy.sendall(REST)
        assert b"201 Created" in busy.recv(1000)


def test_many_idle_connections_shut_nobody_out(serve):
    site = serve(limits=Limits(connections=100))
    with ExitStack() as opened:
        for _ in range(150):
            sent(opened, site.port, b"")
        for _ in range(20):
            assert asked(site.port) == 200


def test_who_has_most_connections_gives_way(serve):
    """Requests that have not arrived are refused to make room, if they are of somebody else."""
    site = serve(limits=Limits(connections=4))
    with ExitStack() as opened:
        poor = half(opened, site.port, "127.0.0.2")
        rich = [half(opened, site.port, "127.0.0.3") for _ in range(3)]
        newcomer = sent(opened, site.port, HEALTH, "127.0.0.4")
        assert b"200 OK" in newcomer.recv(1000)
        code, answer = status(rich[0])
        assert code == 503 and b"from this address" in answer and b"retry-after: 1" in answer
        newcomer.close()
        rich.append(half(opened, site.port, "127.0.0.3"))
        code, answer = status(sent(opened, site.port, HEALTH, "127.0.0.3"))
        assert code == 503 and b'"too many connections"' in answer  # there is nobody with more
        for connection in (poor, *rich[1:]):
            connection.sendall(REST)
            assert b"201 Created" in connection.recv(1000)


def test_answers_that_nobody_reads_give_way():
    options = ServiceOptions(limits=Limits(connections=2))
    with listening(lambda _: large_answers, options) as port, ExitStack() as opened:
        for _ in range(2):
            sent(opened, port, HEALTH, "127.0.0.3").recv(1)
        newcomer = sent(opened, port, HEALTH)
        assert b"200 OK" in newcomer.recv(1000)


async def large_answers(scope, receive, send):
    headers = [(b"content-length", b"%d" % 20_000_000)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": bytes(20_000_000)})


def test_accepted_requests_never_give_way(serve):
    """Also not to somebody with fewer connections: the request is being done."""
    site = serve(limits=Limits(connections=2))
    site.service.commits.close()
    request = HEAD + b'content-length: 15\r\n\r\n{"context": {}}'
    with ExitStack() as opened:
        accepted = [sent(opened, site.port, request, "127.0.0.3") for _ in range(2)]
        wait_for(lambda: len(site.service.models["news"].records) == 2)
        assert status(sent(opened, site.port, HEALTH))[0] == 503
        site.service.commits.next.set_result(None)
        for connection in accepted:
            assert b"201 Created" in connection.recv(1000)


def test_a_refusal_arrives(serve):
    """Also at a client that goes on sending, and reads late."""
    site = serve(limits=Limits(connections=1))
    with ExitStack() as opened:
        half(opened, site.port)
        late = sent(opened, site.port, HEALTH)
        for _ in range(5):
            time.sleep(0.05)
            late.sendall(HEALTH * 100)
        code, answer = status(late)
        assert code == 503 and json.loads(answer.partition(b"\r\n\r\n")[2])["status"] == 503


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(serve):
    """The client sends all of it before it reads."""
    site = serve(limits=Limits(body=1000))
    with ExitStack() as opened:
        sender = sent(opened, site.port, HEAD + b"content-length: 3000000\r\n\r\n")
        for _ in range(30):
            sender.sendall(b"x" * 100_000)
        assert status(sender)[0] == 413


def test_even_refusals_are_bounded(serve):
    """Connections far beyond the limit are closed without an answer."""
    site = serve(limits=Limits(connections=5))
    with ExitStack() as opened:
        for _ in range(5):
            half(opened, site.port)
        answers = []
        for connection in [sent(opened, site.port, b"") for _ in range(20)]:
            try:
                answers.append(connection.recv(1000)[:12])
            except ConnectionError:
                answers.append(b"")
        assert answers.count(b"HTTP/1.1 503") >= 5 and answers.count(b"") >= 5


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2::1", str(0x20010DB800010002)),
        ("2001:db8:1:2:ffff::7", str(0x20010DB800010002)),
        ("2001:db8:1:3::1", str(0x20010DB800010003)),
        ("", ""),  # a Unix socket
    ],
)
def test_addresses_of_one_owner(address, origin):
    assert origin_of(address) == origin


# The order of answers.


def held():
    """An application that answers when it is told to."""
    release = threading.Event()

    async def app(scope, receive, send):
        while not release.is_set():
            await asyncio.sleep(0.01)
        headers = [(b"content-length", b"1")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"x"})

    return app, release


@pytest.mark.parametrize("bad", [b"nonsense\r\n\r\n", GET[:-2] + b"x: " + b"x" * 2**16, GET[:-9]])
def test_a_refusal_does_not_overtake_an_answer(bad):
    app, release = held()
    options = ServiceOptions(timeouts=Timeouts(body=0.5))
    with listening(lambda _: app, options) as port, ExitStack() as opened:
        connection = sent(opened, port, GET + GET + bad)
        time.sleep(0.2)
        release.set()
        answer = answer_of(connection)
        codes = [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]]
        assert codes[:2] == [b"200", b"200"] and codes[2][:1] == b"4" and len(codes) == 3


def test_many_pipelined_requests_are_all_answered(serve):
    """With bodies, and cut anywhere."""
    site = serve()
    request = HEAD + b'content-length: 15\r\n\r\n{"context": {}}'
    stream = (request + HEALTH) * 200
    with ExitStack() as opened:
        connection = sent(opened, site.port, b"")

        def send():
            for start in range(0, len(stream), 777):
                connection.sendall(stream[start : start + 777])

        sender = threading.Thread(target=send)
        sender.start()
        got = b""
        while got.count(b"HTTP/1.1 ") < 400 or not got.endswith(b"}"):
            got += connection.recv(65536)
        sender.join()
    assert got.count(b"201 Created") == got.count(b"200 OK") == 200
    assert len(site.service.models["news"].records) == 200


# Heads.


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"GET /health HTTP/1.1\r\n", faults.Malformed),
        (b"GET /health HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n", faults.Malformed),
        (b"GET /health HTTP/1.0\r\nhost: localhost\r\nhost: b\r\n", faults.Malformed),
        (b"GET /health HTTP/1.1\r\nhost:\r\n", faults.Malformed),
        (b"GET /health HTTP/1.1\r\nhost: a b\r\n", faults.Malformed),
        (b"GET /health HTTP/1.1\r\nhost: a/b\r\n", faults.Malformed),
        (b"GET http://evil.example/health HTTP/1.1\r\nhost: localhost\r\n", faults.Misdirected),
        (b"GET http://evil.example/health HTTP/1.0\r\n", faults.Misdirected),
        (b"GET http://localhost:1/health HTTP/1.1\r\nhost: localhost\r\n", faults.Misdirected),
        (b"CONNECT localhost:80 HTTP/1.1\r\nhost: localhost:80\r\n", faults.Malformed),
        (b"OPTIONS * HTTP/1.1\r\nhost: localhost\r\n", faults.UnknownPath),
        (b"GET http://LOCALHOST/health HTTP/1.1\r\nhost: localhost\r\n", None),
        (b"GET /health HTTP/1.0\r\n", None),
        (b"GET /health HTTP/1.1\r\nhost: [::1]:80\r\n", None),
        (b"GET /health HTTP/1.1\r\nhost: localhost\r\n" + b"a: b\r\n" * 99, None),
        (b"GET /health HTTP/1.1\r\nhost: localhost\r\n" + b"a: b\r\n" * 100, faults.HeadTooLarge),
        (
            b"POST /health HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: h2c\r\n"
            b"content-length: 2\r\n",
            faults.Malformed,
        ),
        (
            b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: h2c\r\n",
            None,
        ),
    ],
)
def test_heads(serve, head, kind):
    site = serve()
    with ExitStack() as opened:
        close = b"" if b"connection" in head else b"connection: close\r\n"
        if b"a: b" in head:
            close = b""
        connection = sent(opened, site.port, head + close + b"\r\n")
        if not close and kind is None and b"upgrade" not in head:
            assert b"200 OK" in connection.recv(1000)
            return
        code, answer = status(connection)
        assert code == (200 if kind is None else kind.status)
        if kind is not None:
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["type"] == kind.kind
        assert b"nosniff" in answer


# The stop.


@contextmanager
def stopping(app, **options):
    """A server, its port, and its thread."""
    server = make_server(app, ServiceOptions(**options))
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield server, port, thread
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_the_last_request_of_a_connection_is_answered(monkeypatch):
    """What a client has sent, or sends at once, is answered, and it hears that it was the last."""
    monkeypatch.setattr("onebit.service.http.server.LAST_CALL", 20)
    app, release = held()
    release.set()
    with stopping(app) as (server, port, thread), ExitStack() as opened:
        clients = [sent(opened, port, GET) for _ in range(20)]
        for client in clients:
            assert client.recv(1000).endswith(b"x")
        fresh, begun = sent(opened, port, b""), sent(opened, port, GET[:-5])
        server.should_exit = True
        wait_for(lambda: not server.servers[0].is_serving())
        for client in (*clients, fresh):
            client.sendall(GET)
        begun.sendall(GET[-5:])
        for client in (*clients, fresh, begun):
            answer = answer_of(client)
            assert b"200 OK" in answer and b"connection: close" in answer
        thread.join(PATIENCE)


def test_idle_connections_do_not_delay_a_stop():
    app, release = held()
    release.set()
    timeouts = Timeouts(idle=3600, stop=3600)
    with stopping(app, timeouts=timeouts) as (server, port, thread), ExitStack() as opened:
        idle = sent(opened, port, GET)
        idle.recv(1000)
        server.should_exit = True
        thread.join(PATIENCE)
        assert not thread.is_alive()
        assert answer_of(idle) == b""


def test_what_a_stop_does_not_wait_for_is_told():
    app, release = held()
    try:
        with stopping(app, timeouts=Timeouts(stop=1)) as (server, port, _), ExitStack() as opened:
            client = sent(opened, port, GET)
            wait_for(lambda: server.server_state.tasks)
            server.should_exit = True
            answer = answer_of(client)
            assert answer.startswith(b"HTTP/1.1 503") and b"problem+json" in answer
            assert b"retry-after" in answer and b"not done in time" in answer
    finally:
        release.set()
