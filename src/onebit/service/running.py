"""A running service: start, signals, stop."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from msgspec.json import encode

from onebit._version import __version__
from onebit.service.configuration import Configuration, Difference
from onebit.service.engine.progress import Progress, told
from onebit.service.faults import NotPermitted, ServiceError, Unavailable
from onebit.service.http.app import explain, make_app, readable
from onebit.service.http.metrics import CONTENT_TYPE, metrics_of_start
from onebit.service.http.operation import JSON, PROBLEM
from onebit.service.http.server import make_server
from onebit.service.messages import Health, problem_of
from onebit.service.service import Service

log = logging.getLogger("onebit.service")
PATIENCE = 5.0  # seconds that a stop waits for a start or a reload to end


class Run:
    """A running service.

    The port is open from the beginning. Until the models are read from the journal and compiled,
    requests are answered by "later", and `/health` by "ok". One thread starts the service and then
    reloads it, whenever SIGHUP asks for that. It may compile for a long time.

    read: reads the configuration again, after SIGHUP.
    """

    def __init__(self, configuration: Configuration, read: Callable[[], Configuration]) -> None:
        self._configuration, self._read = configuration, read
        self._service: Service | None = None
        self._failure: BaseException | None = None
        self._front = Front(configuration)
        self._server = make_server(self._front, configuration.service)
        # True: reload; False: stop. A handler of a signal may put into a SimpleQueue at any time.
        self._orders: SimpleQueue[bool] = SimpleQueue()
        self.address = ""

    def on_ready(self, address: str) -> None:
        """Called once requests are taken; the owner may replace it."""

    def __call__(self) -> None:
        """Run until a signal says stop. Must be called by the main thread."""
        listening = _listening(self._configuration.service.host, self._configuration.service.port)
        self.address = _address(listening)
        log.info("onebit %s, SQLite %s", __version__, sqlite3.sqlite_version)
        log.info("address %s", self.address)
        working = threading.Thread(target=self._work, name="start and reload", daemon=True)
        # uvicorn has handlers of its own while it runs, and raises the signal again afterwards.
        before = {
            number: signal.signal(number, handle)
            for number, handle in (
                (signal.SIGTERM, self._stop),
                (signal.SIGINT, self._stop),
                (signal.SIGHUP, lambda *_: self._orders.put(True)),
            )
        }
        try:
            working.start()
            self._server.run(sockets=[listening])
        finally:
            notify("STOPPING=1")
            self._orders.put(False)
            working.join(PATIENCE)
            if self._service is not None:
                self._service.close()
            if self._front.app is None:
                log.info("stopped during the start; nothing was accepted")
            else:
                log.info("stopped; all that was accepted is in the journal")
            for number, handle in before.items():
                signal.signal(number, handle)
        if self._failure is not None:
            raise self._failure
        if working.is_alive():
            end_process()

    def _stop(self, *_: Any) -> None:
        self._server.should_exit = True

    def _work(self) -> None:
        self._start()
        while self._failure is None and self._orders.get():
            self.reload()

    def _start(self) -> None:
        """Read the models, compile, and let requests in."""
        started = time.perf_counter()
        try:
            self._service = service = Service(self._configuration, building=self._front.building)
            for name, engine in service.models.items():
                learner = engine._learner
                log.info(
                    "model %s: %s, labels: %d, rounds: %d, replayed from position %d",
                    name, type(learner).__name__, len(learner.labels), learner.round,
                    engine.replayed_from,
                )  # fmt: skip
            self._front.reason = "the learners are being compiled"
            log.info("compiling; the first start takes longest")
            service.warm_up()
        except BaseException as error:
            self._failure = error
            self._server.should_exit = True
            return
        gc.collect()
        gc.freeze()  # what is there now stays; the collector need not look at it again
        gc.set_threshold(20_000, 20, 20)  # requests leave no cycles behind: look for them seldom
        self._front.app = make_app(service)
        log.info("ready after %.1f s", time.perf_counter() - started)
        notify("READY=1")
        self.on_ready(self.address)

    def reload(self) -> None:
        """Read the configuration again. If something is wrong with it, the old one stays."""
        assert self._service is not None
        notify(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")
        try:
            changed = self._service.reload(self._read())
        except (ValueError, OSError) as error:
            log.error("not reloaded, the old configuration stays: %s", error)
        except ServiceError as fault:
            log.error("not reloaded completely: %s", fault.detail)
        except Exception:
            log.exception("not reloaded completely")
        else:
            for what, names in _changes(changed):
                log.info("reloaded: %s: %s", what, ", ".join(map(str, names)))
            if not changed:
                log.info("reloaded: nothing has changed but perhaps the tokens")
            if changed.restart:
                log.warning("%s: only after a restart", ", ".join(changed.restart))
        notify("READY=1")


def _changes(changed: Difference) -> list[tuple[str, Any]]:
    named = [
        ("added", changed.added),
        ("removed", changed.removed),
        ("retrained", changed.retrained),
        ("new labels", changed.new_labels),
        ("retired labels", changed.retired_labels),
        ("policies", changed.policies),
        ("service", changed.service),
    ]
    return [(what, names) for what, names in named if names]


def end_process() -> None:
    """End the process without the end of the interpreter, which a thread that compiles would crash.

    The journal is closed by now, or was only being read.
    """
    logging.shutdown()
    sys.stdout.flush()
    os._exit(0)


class Front:
    """The application before and after the start."""

    def __init__(self, configuration: Configuration) -> None:
        self.app: Any = None
        self.reason = "the models are being read from the journal"
        self.building: dict[str, Progress] = {}
        self._configuration = configuration

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self.app is not None:
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer_early(scope, send)

    async def _answer_early(self, scope: Any, send: Any) -> None:
        status, headers = 200, []
        try:
            media, body = self._early(scope["path"], dict(scope["headers"]))
        except ServiceError as fault:
            status, media, body = fault.status, PROBLEM, encode(problem_of(fault))
            explain(fault, headers)
        headers += [(b"content-type", media), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _early(self, path: str, headers: dict[bytes, bytes]) -> tuple[bytes, bytes]:
        if path == "/health":
            return JSON, encode(Health())
        if path == "/metrics":
            if not readable(self._configuration, headers)("*"):
                raise NotPermitted("this token is not for read on every model")
            return CONTENT_TYPE.encode(), metrics_of_start(self.building)
        raise Unavailable(told(f"the service starts: {self.reason}", self.building))


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), port), family=family, backlog=2048)
    except OSError as error:
        raise OSError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}; "
            "choose another with --host and --port"
        ) from None


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def notify(state: str) -> None:
    """Tell systemd, if it has started this process and wants to know (sd_notify)."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as told:
        try:
            told.sendto(state.encode(), address.replace("@", "\0", 1))
        except OSError as error:
            log.warning("systemd could not be told %s: %s", state, error)
