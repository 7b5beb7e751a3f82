"""A running service: start, signals, stop."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue
from typing import Any

from msgspec.json import encode

from onebit._version import __version__
from onebit.service.configuration import Configuration, Difference
from onebit.service.engine.progress import Progress, told, until_done
from onebit.service.faults import NotPermitted, ServiceError, Superseded, Unavailable
from onebit.service.http.access import Access
from onebit.service.http.app import App, answer, explain, readable
from onebit.service.http.metrics import CONTENT_TYPE, Requests, metrics_of_start
from onebit.service.http.operation import JSON, PROBLEM, Headers
from onebit.service.http.server import make_server
from onebit.service.listening import address, listen, replace_process
from onebit.service.messages import Health, problem_of
from onebit.service.service import Service

log = logging.getLogger("onebit.service")
PATIENCE = 5.0  # seconds that a stop waits for a start or a reload to end
HOLD = 10.0  # seconds of a start for which requests wait for its end, before they are refused
LARGE_BLOCK = 2**18  # bytes of memory that are taken from the system, and given back, by themselves
_MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD of malloc.h


class Run:
    """A running service.

    The port is open from the beginning. Until the models are read from the journal and compiled,
    requests wait, and if that takes longer than `HOLD` they are answered by "later"; `/health` is
    answered by "ok" all the time. One thread starts the service and then does what signals ask for:
    reload, restart. It may compile for a long time.

    read: reads the configuration again, after SIGHUP. listening: a socket; None: one is made.
    command: of this process, to be run again after SIGUSR2.
    """

    def __init__(
        self,
        configuration: Configuration,
        read: Callable[[], Configuration],
        *,
        listening: socket.socket | None = None,
        command: Sequence[str] = (),
    ) -> None:
        self._configuration, self._read = configuration, read
        self._listening, self._command = listening, command
        self._service: Service | None = None
        self._failure: BaseException | None = None
        self._front = Front(configuration)
        self._server = make_server(self._front, configuration.service, self._front.refused)
        # None: stop. A handler of a signal may put into a SimpleQueue at any time.
        self._orders: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._restarts = False  # whether another process takes the place of this one in the end
        self.address = ""

    def on_ready(self, address: str) -> None:
        """Called once requests are taken; the owner may replace it."""

    def __call__(self) -> None:
        """Run until a signal says stop. Must be called by the main thread."""
        return_large_blocks()
        options = self._configuration.service
        listening = self._listening or listen(options.host, options.port)
        self.address = address(listening)
        log.info("onebit %s, SQLite %s", __version__, sqlite3.sqlite_version)
        log.info("address %s", self.address)
        working = threading.Thread(target=self._work, name="start and reload", daemon=True)
        # uvicorn has handlers of its own while it runs, and raises the signal again afterwards.
        before = {
            number: signal.signal(number, handle)
            for number, handle in (
                (signal.SIGTERM, self._stop),
                (signal.SIGINT, self._stop),
                (signal.SIGHUP, lambda *_: self._orders.put(self.reload)),
                (signal.SIGUSR2, lambda *_: self._orders.put(self.restart)),
            )
        }
        try:
            working.start()
            # The server closes its socket when it stops. Here it stays open, so that connections
            # are not refused while another process takes over.
            self._server.run(sockets=[listening.dup()])
        finally:
            notify(_reloading() if self._restarts else "STOPPING=1")
            self._orders.put(None)
            working.join(PATIENCE)
            if self._service is not None:
                self._service.close()
            if self._front.app is None:
                log.info("stopped during the start; nothing was accepted")
            elif isinstance(self._failure, Superseded):
                log.info("stopped; all that was acknowledged went into the journal that it had")
            else:
                log.info("stopped; all that was accepted is in the journal")
            for number, handle in before.items():
                signal.signal(number, handle)
            if not self._restarts:
                listening.close()
        if self._failure is not None:
            raise self._failure
        if self._restarts:
            flush_output()
            replace_process(listening, self._command)
        if working.is_alive():
            end_process()

    def _stop(self, *_: Any) -> None:
        self._restarts = False
        self._server.should_exit = True

    def _work(self) -> None:
        self._start()
        while self._failure is None and (order := self._orders.get()) is not None:
            order()

    def _start(self) -> None:
        """Read the models, compile, and let requests in."""
        started = time.perf_counter()
        try:
            self._service = service = Service(self._configuration, building=self._front.building)
            service.on_end = self._end
            if isinstance(service.journal.failure, Superseded):  # it came before
                raise service.journal.failure
            for engine in service.models.values():
                log.info("model %s", engine)
            self._front.reason = "the learners are being compiled"
            log.info("compiling; the first start takes longest")
            service.warm_up()
        except BaseException as error:
            self._end(error)
            return
        settle_memory()
        self._front.app = App(service, self._front.access.requests)
        log.info("ready after %.1f s", time.perf_counter() - started)
        notify("READY=1")
        self.on_ready(self.address)

    def _end(self, fault: BaseException) -> None:
        self._failure = fault
        self._server.should_exit = True

    def reload(self) -> None:
        """Read the configuration again. If something is wrong with it, the old one stays."""
        assert self._service is not None
        notify(_reloading())
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

    def restart(self) -> None:
        """Stop, and let a new process go on, perhaps of another version, on the same port.

        Nothing happens if the new process would not take the configuration.
        """
        checked = subprocess.run([*self._command, "--check"], capture_output=True, text=True)
        if checked.returncode:
            log.error("not restarted: %s", (checked.stderr or checked.stdout).strip())
            return
        log.info("restarts; connections wait meanwhile")
        self._restarts = True
        self._server.should_exit = True


def return_large_blocks() -> None:
    """Let what large blocks take go back to the system as soon as they are freed.

    The C library of Linux takes blocks from the system one by one only until the first of them are
    freed. From then on, blocks of up to 32 MiB come from pools, of which each thread may have one,
    and which keep what was freed. A table of weights is copied in many threads.
    """
    if sys.platform == "linux":
        # Other C libraries than glibc have no such pools, and no mallopt or one without effect.
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_MMAP_THRESHOLD, LARGE_BLOCK)


def settle_memory() -> None:
    """Keep the collector of garbage from taking long while there are requests."""
    gc.collect()
    gc.freeze()  # what is there now stays; the collector need not look at it again
    gc.set_threshold(20_000, 20, 20)  # requests leave no cycles behind: look for them seldom


def _reloading() -> str:
    """What systemd is told before a reload, or before the process begins anew."""
    return f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}"


def _changes(changed: Difference) -> list[tuple[str, Any]]:
    named = [
        ("added", changed.added),
        ("removed", changed.removed),
        ("retrained", changed.retrained),
        ("new labels", changed.new_labels),
        ("retired labels", changed.retired_labels),
        ("policies", changed.policies),
        ("shadows", changed.shadows),
        ("service", changed.service),
    ]
    return [(what, names) for what, names in named if names]


def end_process() -> None:
    """End the process without the end of the interpreter, which a thread that compiles would crash.

    The journal is closed by now, or was only being read.
    """
    flush_output()
    os._exit(0)


def flush_output() -> None:
    logging.shutdown()
    sys.stdout.flush()


EARLY = ("/health", "/ready", "/metrics")  # paths that tell how far the start is


class Front:
    """The application before and after the start."""

    def __init__(self, configuration: Configuration) -> None:
        self.app: App | None = None
        self.access = Access(Requests(), lambda: configuration.service.access_log)
        self.reason = "the models are being read from the journal"
        self.building: dict[str, Progress] = {}
        self._configuration = configuration
        self._started = time.monotonic()
        self._opening: asyncio.Task[None] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self.app is None and scope["path"] not in EARLY:
            if self._opening is None:  # all requests share it
                self._opening = asyncio.create_task(self._open(scope["is_stopping"]))
            await asyncio.shield(self._opening)
        if self.app is not None:
            await self.app(scope, receive, send)
        else:
            visit = self.access.visit(scope, send)
            try:
                await self._answer_early(scope, visit.send)
            finally:
                visit.end()

    def refused(self, scope: Mapping[str, Any], status: int) -> None:
        """The server has refused a request by itself."""
        (self.access if self.app is None else self.app.access).refused(scope, status)

    async def _open(self, is_stopping: Callable[[], bool]) -> None:
        """Wait for the end of the start, but not for long."""
        while self.app is None and not is_stopping() and time.monotonic() - self._started < HOLD:
            await asyncio.sleep(0.02)

    async def _answer_early(self, scope: Any, send: Any) -> None:
        status, headers = 200, Headers()
        try:
            media, body = self._early(scope)
        except ServiceError as fault:
            status, media, body = fault.status, PROBLEM, encode(problem_of(fault))
            explain(fault, headers)
        await answer(send, status, media, body, headers)

    def _early(self, scope: Any) -> tuple[bytes, bytes]:
        path = scope["path"]
        if path == "/health":
            return JSON, encode(Health())
        if path == "/metrics":
            if not readable(self._configuration, scope)("*"):
                raise NotPermitted("this token is not for read on every model")
            return CONTENT_TYPE.encode(), metrics_of_start(self.building, self.access.requests)
        reason = told(f"the service starts: {self.reason}", self.building)
        raise Unavailable(reason, retry_after=until_done(self.building))


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
