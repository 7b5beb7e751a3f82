"""onebit serve: start, reload, stop, and what the operator reads."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest
from helpers.waiting import PATIENCE, wait_for

from onebit import cli
from onebit.service import listening as passing
from onebit.service import running as command
from onebit.service.configuration import check
from onebit.service.engine import Engine
from onebit.service.journal import Journal, ReadOnlyJournal

ROOT = Path(__file__).parents[2]
NEWS = """
[service]
port = 0

[models.news]
labels = ["sport", "tech"]
learner = "Banditron"
"""
PLAIN = {**os.environ, "NUMBA_DISABLE_JIT": "1", "NO_PROXY": "*"}  # starts at once


@pytest.fixture
def configuration(tmp_path):
    path = tmp_path / "news.toml"
    path.write_text(NEWS)
    return path


# In this process: signals and all.


@contextmanager
def meanwhile(work):
    """Does something in a thread while the service runs in this one; its errors are raised."""
    errors = []

    def run():
        try:
            work()
        except BaseException as error:
            errors.append(error)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=run)
    thread.start()
    yield
    thread.join()
    if errors:
        raise errors[0]


@pytest.fixture
def systemd(tmp_path, monkeypatch):
    """What systemd is told."""
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as told:
        told.bind(str(tmp_path / "notify"))
        told.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield told


def states(told):
    found = []
    while True:
        try:
            found.append(told.recv(1000).decode())
        except BlockingIOError:
            return found


def test_start_reload_and_stop(configuration, caplog):
    caplog.set_level("INFO", "onebit.service")
    run = command.Run(check(configuration), lambda: check(configuration))
    ready = threading.Event()
    run.on_ready = lambda address: ready.set()

    def said(text):
        return lambda: text in caplog.text

    def work():
        assert ready.wait(PATIENCE)
        with httpx.Client(base_url=run.address, timeout=PATIENCE) as http:
            assert http.get("/ready").status_code == 200
            asked = http.post("/v1/models/news/decisions", json={"context": {"goal": 1}})
            assert asked.status_code == 201
            # A new model and a new label, without a restart.
            models = 'labels = ["sport", "tech", "art"]\n[models.mail]\nlabels = 2'
            more = NEWS.replace('labels = ["sport", "tech"]', models)
            configuration.write_text(more)
            os.kill(os.getpid(), signal.SIGHUP)
            wait_for(said("reloaded: new labels: news"))
            assert "reloaded: added: mail" in caplog.text
            assert http.get("/v1/models/news").json()["labels"] == ["sport", "tech", "art"]
            told = http.post("/v1/models/mail/decisions", json={"context": {"a": 1}})
            assert told.status_code == 201
            # Problems are logged, and the old configuration stays.
            configuration.write_text(NEWS.replace("labels", "lables"))
            os.kill(os.getpid(), signal.SIGHUP)
            wait_for(said("not reloaded, the old configuration stays"))
            assert "did you mean 'labels'?" in caplog.text
            assert http.get("/v1/models/mail").status_code == 200
            # What needs a restart is said, and does not happen.
            configuration.write_text(more.replace("port = 0", 'port = 1\njournal = "other"'))
            os.kill(os.getpid(), signal.SIGHUP)
            wait_for(said("port, journal: only after a restart"))
            assert http.get("/ready").status_code == 200

    before = signal.getsignal(signal.SIGTERM)
    with meanwhile(work):
        run()
    assert signal.getsignal(signal.SIGTERM) is before
    assert "model news: Banditron, labels: 2, rounds: 0" in caplog.text
    assert "SQLite 3" in caplog.text and "onebit.journal" in caplog.text
    assert caplog.text.rstrip().endswith("all that was accepted is in the journal")
    with closing(ReadOnlyJournal(configuration.parent / "onebit.journal")) as journal:
        assert journal.position == 3  # two decisions and a label
    assert not (configuration.parent / "other").exists()


def test_tokens_stay_while_other_machines_can_reach_the_port(configuration):
    """The port stays open on its first host, whatever the file says later."""
    tokens = configuration.with_name("tokens.toml")
    tokens.write_text('[web]\ntoken = "0123456789abcdef"\nmodels = "*"\nverbs = "*"\n')
    tokens.chmod(0o600)
    public = NEWS.replace("port = 0", 'port = 0\nhost = "0.0.0.0"\ntokens = "tokens.toml"')
    configuration.write_text(public)
    with command.Service(check(configuration)) as service:
        configuration.write_text(NEWS)
        with pytest.raises(ValueError, match=r"listens on '0.0.0.0' until it is restarted"):
            service.reload(check(configuration))
        assert service.configuration.tokens is not None
        configuration.write_text(NEWS.replace("port = 0", 'port = 0\ntokens = "tokens.toml"'))
        assert service.reload(check(configuration)).restart == ["host"]
        configuration.write_text(NEWS)
        with pytest.raises(ValueError, match="needs tokens"):
            service.reload(check(configuration))


def test_systemd_is_told(configuration, systemd):
    run = command.Run(check(configuration), lambda: check(configuration))
    ready, heard = threading.Event(), []
    run.on_ready = lambda address: ready.set()

    def work():
        assert ready.wait(PATIENCE)
        run.reload()
        heard.extend(states(systemd))

    with meanwhile(work):
        run()
    heard += states(systemd)
    assert heard[0] == "READY=1" and heard[1].startswith("RELOADING=1\nMONOTONIC_USEC=")
    assert heard[2:] == ["READY=1", "STOPPING=1"]


def test_before_the_models_are_there(configuration, monkeypatch):
    """The port is open at once: alive, but not ready. Requests wait only for a quick start."""
    monkeypatch.setattr(command, "HOLD", 0.0)
    may_start, seen = threading.Event(), []

    class Slow(command.Service):
        def __init__(self, *args, **options):
            assert may_start.wait(PATIENCE)
            super().__init__(*args, **options)

    monkeypatch.setattr(command, "Service", Slow)
    run = command.Run(check(configuration), lambda: check(configuration))
    ready = threading.Event()
    run.on_ready = lambda address: ready.set()

    def work():
        wait_for(lambda: run._server.started)
        with httpx.Client(base_url=run.address, timeout=PATIENCE) as http:
            assert http.get("/health").json() == {"status": "ok"}
            for path in ("/ready", "/v1/models"):
                answer = http.get(path)
                assert answer.status_code == 503 and int(answer.headers["retry-after"]) > 0
                assert "read from the journal" in answer.json()["detail"]
                assert answer.headers["content-type"] == "application/problem+json"
            # A file that changes now is followed when the service is there.
            configuration.write_text(f"{NEWS}[models.mail]\nlabels = 2\n")
            os.kill(os.getpid(), signal.SIGHUP)
            may_start.set()
            assert ready.wait(PATIENCE)
            assert http.get("/ready").status_code == 200
            wait_for(lambda: http.get("/v1/models/mail").status_code == 200)
        seen.append(True)

    with meanwhile(work):
        run()
    assert seen


def test_requests_wait_for_a_quick_start(configuration, monkeypatch, ended):
    """A start or a stop lets them go on at once."""
    monkeypatch.setattr(command, "HOLD", 600.0)
    may_start, is_over, answers = threading.Event(), threading.Event(), []

    class Slow(command.Service):
        def __init__(self, *args, **options):
            assert may_start.wait(PATIENCE) and not is_over.is_set()
            super().__init__(*args, **options)

    monkeypatch.setattr(command, "Service", Slow)

    def ask(address):
        answers.append(httpx.get(f"{address}/v1/models", timeout=PATIENCE).status_code)

    for starts, status in ((True, 200), (False, 503)):
        run = command.Run(check(configuration), lambda: check(configuration))
        asking = []

        def work(run=run, asking=asking, starts=starts):
            wait_for(lambda: run._server.started)
            for _ in range(3):
                asking.append(threading.Thread(target=ask, args=(run.address,)))
                asking[-1].start()
            wait_for(lambda: len(run._server.server_state.tasks) == 3)
            assert (
                httpx.get(f"{run.address}/ready", timeout=PATIENCE).status_code == 503
                and not answers
            )
            if starts:
                may_start.set()
                wait_for(lambda: len(answers) == 3)

        with meanwhile(work):
            run()
        for thread in asking:
            thread.join()
        assert answers == [status] * 3
        answers.clear()
        may_start.clear()
    is_over.set()
    may_start.set()


@pytest.fixture
def ended(configuration, monkeypatch):
    """Whether the journal was free whenever the process would have ended without more ado."""
    found = []

    def end_process():
        Journal(configuration.parent / "onebit.journal").close()
        found.append(True)

    monkeypatch.setattr(command, "PATIENCE", 0.1)
    monkeypatch.setattr(command, "end_process", end_process)
    return found


def test_a_stop_while_the_journal_is_read(configuration, monkeypatch, caplog, ended):
    caplog.set_level("INFO", "onebit.service")
    may_end = threading.Event()
    monkeypatch.setattr(command, "Service", lambda *_, **__: may_end.wait(PATIENCE))
    run = command.Run(check(configuration), lambda: check(configuration))
    with meanwhile(lambda: wait_for(lambda: run._server.started)):
        run()
    may_end.set()
    assert "stopped during the start" in caplog.text and ended


@pytest.mark.parametrize("is_started", [False, True])
def test_a_stop_while_a_learner_is_compiled(configuration, monkeypatch, caplog, ended, is_started):
    """The end of the interpreter would crash the compiler."""
    caplog.set_level("INFO", "onebit.service")
    compiling, may_end = threading.Event(), threading.Event()

    def compile(*_):
        compiling.set()
        assert may_end.wait(PATIENCE)

    run = command.Run(check(configuration), lambda: check(configuration))
    ready = threading.Event()
    run.on_ready = lambda address: ready.set()
    if not is_started:
        monkeypatch.setattr(Engine, "warm_up", compile)

    def work():
        if is_started:
            assert ready.wait(PATIENCE)
            monkeypatch.setattr(Engine, "warm_up", compile)
            configuration.write_text(f"{NEWS}[models.mail]\nlabels = 2\n")
            os.kill(os.getpid(), signal.SIGHUP)
        assert compiling.wait(PATIENCE)

    with meanwhile(work):
        run()
    assert ended == [True]
    assert ("stopped during the start" in caplog.text) is not is_started
    may_end.set()


def test_the_end_of_a_process_that_compiles():
    """With a thread that never ends, all that was said is on the screen, and the status is 0."""
    code = """
import logging, threading
from onebit.service.running import end_process
threading.Thread(target=threading.Event().wait).start()
logging.warning("logged")
print("printed")
end_process()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=PLAIN, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0
    assert done.stdout == "printed\n" and "logged" in done.stderr


def test_a_start_that_fails(configuration):
    with closing(Journal(configuration.parent / "onebit.journal")):
        run = command.Run(check(configuration), lambda: check(configuration))
        with pytest.raises(Exception, match="in use by another process"):
            run()


def test_a_port_that_is_taken(configuration):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        run = command.Run(check(configuration, port=port), lambda: check(configuration))
        with pytest.raises(OSError, match=rf"cannot listen on 127.0.0.1, port {port}: .*--port"):
            run()


def test_addresses():
    with closing(passing.listen("127.0.0.1", 0)) as listening:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", passing.address(listening))
    if socket.has_ipv6:
        try:
            with closing(passing.listen("::1", 0)) as listening:
                assert re.fullmatch(r"http://\[::1\]:\d+", passing.address(listening))
        except OSError:
            pass  # this machine has no address of that kind


def test_nobody_to_tell(monkeypatch, tmp_path, caplog):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    command.notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    command.notify("READY=1")
    assert "systemd could not be told READY=1" in caplog.text


# The command.


@pytest.fixture
def main(monkeypatch, capsys):
    def run(*args):
        monkeypatch.setattr(sys, "argv", ["onebit", "serve", *map(str, args)])
        try:
            cli.main()
        except SystemExit as end:
            return end.code, *capsys.readouterr()
        return 0, *capsys.readouterr()

    return run


def test_check(configuration, main, monkeypatch, tmp_path):
    status, said, _ = main(configuration, "--check")
    assert status == 0 and said == f"{configuration} is right: news\n"
    assert not list(tmp_path.glob("onebit.journal*"))
    configuration.write_text(NEWS.replace("learner", "lerner").replace("port", "prot"))
    status, _, errors = main(configuration, "--check")
    assert status == 2 and "has 2 problems" in errors
    assert "did you mean 'learner'?" in errors and "did you mean 'port'?" in errors
    status, _, errors = main("missing.toml")
    assert status == 2 and "missing.toml" in errors
    status, _, errors = main("--host", "0.0.0.0")
    assert status == 2 and "the demonstration has no tokens" in errors
    monkeypatch.chdir(tmp_path)
    status, said, _ = main("--check")
    assert status == 0 and "The demonstration is right: digits" in said


@contextmanager
def running(*args, cwd):
    """The command in a process of its own; yields it, its address once it is ready, and the file
    of its log."""
    log = cwd / "log"
    with open(log, "w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "onebit.cli", "serve", *args],
            cwd=cwd, env=PLAIN, stdout=subprocess.PIPE, stderr=out, text=True,
        )  # fmt: skip
    try:
        wait_for(lambda: "ready after" in log.read_text() or process.poll() is not None)
        address = re.search(r"address (http://\S+)", log.read_text())
        assert process.poll() is None and address, log.read_text()
        yield process, address[1], log
    finally:
        process.kill()
        process.communicate()


def test_what_was_accepted_is_answered_and_kept(configuration):
    """SIGTERM under load: all acknowledged decisions are in the journal, and none is cut off."""
    with running(str(configuration), cwd=configuration.parent) as (process, address, log):
        told, broken = [], []

        def ask():
            with httpx.Client(base_url=address, timeout=PATIENCE) as http:
                while True:
                    try:
                        answer = http.post("/v1/models/news/decisions", json={"context": {"a": 1}})
                    except httpx.ConnectError:
                        return  # it does not listen any more
                    except httpx.TransportError as error:
                        broken.append(error)  # a kept connection was closed between requests
                        return
                    assert answer.status_code == 201
                    told.append(answer.json()["id"])

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        wait_for(lambda: len(told) > 50)
        second = subprocess.run(
            [sys.executable, "-m", "onebit.cli", "serve", str(configuration)],
            env=PLAIN, capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        assert second.returncode == 2 and "in use by another process" in second.stderr
        assert "Traceback" not in second.stderr
        process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join(PATIENCE)
        process.wait(PATIENCE)
        errors = log.read_text()
    assert process.returncode == 0 and "all that was accepted" in errors
    assert "Traceback" not in errors
    path = configuration.parent / "onebit.journal"
    with closing(ReadOnlyJournal(path)) as journal, journal.reading() as connection:
        rows = connection.execute("SELECT position, token FROM decisions").fetchall()
    kept = {f"{position:x}-{token}" for position, token in rows}
    assert set(told) <= kept
    assert len(kept) <= len(told) + len(broken)  # at most those whose answer was on the way
    mode = path.stat().st_mode
    assert mode & 0o077 == 0  # contexts are nobody else's business


@pytest.fixture
def guarded(configuration):
    """A configuration with a token, and the header that brings it."""
    secret = "a-very-secret-token-0123456789"
    tokens = configuration.with_name("tokens.toml")
    tokens.write_text(f'[web]\ntoken = "{secret}"\nmodels = "*"\nverbs = "*"\n')
    tokens.chmod(0o600)
    configuration.write_text(NEWS.replace("port = 0", 'port = 0\ntokens = "tokens.toml"'))
    return configuration, {"authorization": f"Bearer {secret}"}


def raw(address, data):
    """All that comes back for some bytes, until the connection is closed."""
    url = httpx.URL(address)
    with socket.create_connection((url.host, url.port), PATIENCE) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(2**16), b""))


def test_every_request_is_a_line_and_is_counted(guarded):
    """Also pages, streams, and what the server refuses before the application sees it."""
    configuration, bearer = guarded
    with running(str(configuration), cwd=configuration.parent) as (_, address, log):
        with httpx.Client(base_url=address, timeout=PATIENCE) as http:
            http.get("/static/page.css")
            http.get("/static/nosuch.css")
            http.get("/dashboard/news/numbers")
            http.get("/dashboard/news/numbers?a=secret", headers=bearer)
            http.post("/dashboard")
            http.get("/dashboard/nosuch/numbers", headers=bearer)
            http.get("/nosuch")
            http.options("/health")
            with http.stream("GET", "/dashboard/news/events", headers=bearer) as stream:
                next(stream.iter_raw())
            host = b"host: localhost\r\n"
            raw(address, b"not HTTP\r\n\r\n")
            raw(address, b"GET /early HTTP/1.1\r\n\r\n")
            raw(address, b"GET http://me:pass@a/x HTTP/1.1\r\n" + host + b"\r\n")
            raw(address, b"GET /wide?b=secret HTTP/1.1\r\n" + host + 200 * b"a: b\r\n" + b"\r\n")
            raw(address, b"GET /health HTTP/1.1\r\n" + host + b"\r\n\0\0\0")
            counted = set(http.get("/metrics", headers=bearer).text.splitlines())
        told = re.findall(r"127\.0\.0\.1 \S+ \S+ \S+ \d+ (?:[\d.]+ ms|-)$", log.read_text(), re.M)
    lines = [re.sub(r" ([\d.]+ ms|-)$", "", line.removeprefix("127.0.0.1 ")) for line in told]
    assert lines == [
        "- GET /static/page.css 200",
        "- GET /static/nosuch.css 404",
        "- GET /dashboard/news/numbers 401",
        "web GET /dashboard/news/numbers 200",
        "- POST /dashboard 405",
        "web GET /dashboard/nosuch/numbers 404",
        "- GET /nosuch 404",
        "- OPTIONS /health 405",
        "web GET /dashboard/news/events 200",
        "- - - 400",
        "- GET /early 400",
        "- GET - 421",
        "- - /wide 431",
        "- GET /health 200",
        "- - - 400",
        "web GET /metrics 200",
    ]
    for method, route, status, count in (
        ("GET", "/static/{name}", 200, 1),
        ("GET", "/static/{name}", 404, 1),
        ("GET", "/dashboard/{model}/numbers", 200, 1),
        ("GET", "/dashboard/{model}/numbers", 401, 1),
        ("GET", "/dashboard/{model}/numbers", 404, 1),
        ("GET", "/dashboard/{model}/events", 200, 1),
        ("other", "/dashboard", 405, 1),
        ("other", "/health", 405, 1),
        ("other", "unknown", 404, 1),
        ("other", "unknown", 400, 3),
        ("other", "unknown", 421, 1),
        ("other", "unknown", 431, 1),
    ):
        labels = f'method="{method}",route="{route}",status="{status}"'
        assert f"onebit_http_requests_total{{{labels}}} {count}.0" in counted


def test_requests_during_the_start_are_noted(configuration, caplog):
    caplog.set_level("INFO", "onebit.access")
    front = command.Front(check(configuration))

    def ask(path):
        sent = []

        async def send(event):
            sent.append(event)

        scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode()}
        asyncio.run(front({**scope, "headers": [(b"host", b"localhost")]}, None, send))
        assert (b"x-content-type-options", b"nosniff") in sent[0]["headers"]
        return sent[1]["body"].decode()

    ask("/ready")
    front.refused({"client": ("127.0.0.1", 1)}, 400)
    told = ask("/metrics")
    assert 'onebit_http_requests_total{method="other",route="unknown",status="503"} 1.0' in told
    assert 'onebit_http_requests_total{method="other",route="unknown",status="400"} 1.0' in told
    lines = [record.getMessage() for record in caplog.records]
    assert [re.sub(r" [\d.]+ ms$", "", line) for line in lines] == [
        "- - GET /ready 503", "127.0.0.1 - - - 400 -", "- - GET /metrics 200"
    ]  # fmt: skip


def test_secrets_are_not_logged(guarded):
    configuration, bearer = guarded
    secret = bearer["authorization"].removeprefix("Bearer ")
    with running(str(configuration), cwd=configuration.parent) as (process, address, log):
        with httpx.Client(base_url=address, timeout=PATIENCE) as http:
            body = {"context": {"name": "a private word"}}
            asked = http.post("/v1/models/news/decisions", json=body, headers=bearer)
            assert asked.status_code == 201
            wrong = {"authorization": f"Bearer {secret}x"}
            assert http.get("/v1/models/news", headers=wrong).status_code == 401
            assert http.get(f"/v1/models?token={secret}").status_code == 401
        process.send_signal(signal.SIGHUP)
        wait_for(lambda: "reloaded" in log.read_text())
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE)
        errors = log.read_text()
    assert process.returncode == 0
    assert secret not in out + errors and "private" not in out + errors
    assert " web POST /v1/models/news/decisions 201" in errors


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_demonstration(tmp_path):
    """The lines on the screen, pasted."""
    with running("--port", "0", cwd=tmp_path) as (process, address, _):
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "docs/service.md" in line:
                break
        screen = "".join(lines)
        assert address in screen and "onebit-demo/onebit.journal" in screen
        pasted = "\n".join(line[2:].rstrip() for line in lines if line.startswith("  "))
        curls, _, play = pasted.rpartition("\n")
        done = subprocess.run(
            ["bash", "-eu", "-c", curls],
            cwd=tmp_path, env=PLAIN, capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert '"state":"learned"' in done.stdout and '"labels":[0,1,2,3,4' in done.stdout
        assert "play.py" in play
        script = tmp_path / "onebit-demo" / "play.py"
        script.write_text(script.read_text().replace("1000", "100"))
        done = subprocess.run(
            [sys.executable, str(script)],
            cwd=tmp_path, env=PLAIN, capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        assert re.fullmatch(r"rounds 1 to 100: \d+ mistakes\n", done.stdout), done.stderr


def test_retraining_a_running_service(configuration):
    with running(str(configuration), cwd=configuration.parent) as (_, address, _):
        with httpx.Client(base_url=address, timeout=PATIENCE) as http:
            for i in range(5):
                asked = http.post("/v1/models/news/decisions", json={"context": {f"w{i}": 1}})
                id = asked.json()["id"]
                http.post(f"/v1/decisions/{id}/feedback", json={"right": True})
        done = subprocess.run(
            [sys.executable, "-m", "onebit.cli", "retrain", "--url", address, "--learner", "UCWL"],
            env=PLAIN, capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout == "news: UCWL, version 2, has learned 5 answers\n"


# deploy/


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_the_unit_is_right(tmp_path):
    text = (ROOT / "deploy" / "onebit.service").read_text()
    program = re.search(r"^ExecStart=(\S+)", text, re.M)[1]
    unit, port = tmp_path / "onebit.service", tmp_path / "onebit.socket"
    unit.write_text(text.replace(program, sys.executable))
    port.write_text((ROOT / "deploy" / "onebit.socket").read_text())
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit), str(port)],
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert not [line for line in done.stderr.splitlines() if "onebit." in line]


def test_the_unit_says_what_the_service_does():
    text = (ROOT / "deploy" / "onebit.service").read_text()
    assert "Type=notify-reload" in text or "Type=notify" in text
    assert "kill -9" not in text and "SIGKILL" not in text
    start = re.search(r"^ExecStart=\S+ (.*)$", text, re.M)[1]
    cli.app.parse_args(start.split(), exit_on_error=False, print_error=False)


INSTRUCTIONS = {"FROM", "RUN", "COPY", "USER", "WORKDIR", "VOLUME", "EXPOSE", "ENTRYPOINT", "CMD"}
INSTRUCTIONS |= {"ENV", "HEALTHCHECK", "STOPSIGNAL", "LABEL", "ARG"}


def test_the_container_file():
    text = (ROOT / "deploy" / "Containerfile").read_text()
    lines = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.M)).splitlines()
    found = [line.split(maxsplit=1) for line in lines if line.strip()]
    assert {name for name, _ in found} <= INSTRUCTIONS
    said = dict(found)
    assert found[0][0] == "FROM" and said["USER"] != "root"
    entry = json.loads(said["ENTRYPOINT"])
    arguments = json.loads(said["CMD"])
    assert entry == ["onebit", "serve"]
    cli.app.parse_args([*entry[1:], *arguments], exit_on_error=False, print_error=False)
    for name, value in found:
        if name == "COPY" and "--from" not in value:
            for source in value.split()[:-1]:
                assert source.startswith("--") or (ROOT / source).exists(), source
