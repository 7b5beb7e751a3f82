"""onebit serve: the service, from a configuration file, or a demonstration."""

from __future__ import annotations

import gc
import json
import logging
import os
import shlex
import signal
import socket
import sqlite3
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from onebit._version import __version__
from onebit.cli.options import Flag

if TYPE_CHECKING:
    import uvicorn

    from onebit.service.configuration import Configuration
    from onebit.service.service import Service

log = logging.getLogger("onebit.service")
DEMO = Path("onebit-demo")


def serve(
    configuration: Annotated[Path | None, Parameter(show_default=False)] = None,
    /,
    *,
    host: str | None = None,
    port: int | None = None,
    check: Flag = False,
) -> None:
    """Answer decisions over HTTP, learn from feedback, and keep both in a journal.

    Without a configuration, it is a demonstration on the built-in digits. SIGHUP reads the
    configuration again; SIGTERM and Ctrl-C answer what was accepted, and stop.

    ```
    onebit serve                          the demonstration
    onebit serve news.toml
    onebit serve news.toml --check        is the configuration right?
    ```

    Parameters
    ----------
    configuration
        A .toml file (docs/service.md). Default: a demonstration, with its journal in ./onebit-demo.
    host
        The address to listen on; wins over the configuration.
    port
        The port to listen on; wins over the configuration. 0: any that is free.
    check
        Check the configuration, and start nothing.
    """
    gc.enable()  # `main` has disabled it for short commands
    _need_extra()
    read = _demonstration if configuration is None else _from_file(configuration)
    found = read(host, port)
    if check:
        print(f"{found.path or 'The demonstration'} is right: {', '.join(found.models)}")
        return
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    os.umask(0o077)  # what is written belongs to this user alone
    run = Run(found, read=lambda: read(host, port))
    if configuration is None:
        run.on_ready = _show_how
    run()


def _need_extra() -> None:
    try:
        import onebit.service.http
        import onebit.service.server  # noqa: F401
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"the service needs {error.name}: pip install 'onebit[serve]'"
        ) from None


def _from_file(path: Path) -> Any:
    from onebit.service.configuration import check

    return lambda host, port: check(path, host=host, port=port)


class Run:
    """A running service.

    The port is open from the beginning. Until the models are read from the journal and compiled,
    requests are answered by "later", and `/health` by "ok".
    """

    def __init__(self, configuration: Configuration, *, read: Any) -> None:
        from onebit.service.server import make_server

        self._configuration, self._read = configuration, read
        self._service: Service | None = None
        self._failure: BaseException | None = None
        self._front = Front()
        self._server: uvicorn.Server = make_server(self._front, configuration.service)
        self._reloading = threading.Lock()
        self.address = ""

    def on_ready(self, address: str) -> None:
        """Called once requests are taken; the owner may replace it."""

    def __call__(self) -> None:
        """Run until a signal says stop. Must be called by the main thread."""
        listening = _listening(self._configuration.service.host, self._configuration.service.port)
        self.address = _address(listening)
        log.info("onebit %s, SQLite %s", __version__, sqlite3.sqlite_version)
        log.info("address %s", self.address)
        starting = threading.Thread(target=self._start, name="start")
        # uvicorn has handlers of its own while it runs, and raises the signal again afterwards.
        before = {
            number: signal.signal(number, handle)
            for number, handle in (
                (signal.SIGTERM, self._stop),
                (signal.SIGINT, self._stop),
                (signal.SIGHUP, self._reload_soon),
            )
        }
        try:
            starting.start()
            self._server.run(sockets=[listening])
        finally:
            notify("STOPPING=1")
            starting.join()
            if self._service is not None:
                self._service.close()
                log.info("stopped; all that was accepted is in the journal")
            for number, handle in before.items():
                signal.signal(number, handle)
        if self._failure is not None:
            raise self._failure

    def _stop(self, *_: Any) -> None:
        self._server.should_exit = True

    def _start(self) -> None:
        """Read the models, compile, and let requests in."""
        from onebit.service.http import make_app
        from onebit.service.service import Service

        started = time.perf_counter()
        try:
            self._service = service = Service(self._configuration)
            for name, engine in service.models.items():
                learner = engine.learner
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
        self._front.app = make_app(service)
        log.info("ready after %.1f s", time.perf_counter() - started)
        notify("READY=1")
        self.on_ready(self.address)

    def _reload_soon(self, *_: Any) -> None:
        threading.Thread(target=self.reload, name="reload").start()

    def reload(self) -> None:
        """Read the configuration again. If something is wrong with it, the old one stays."""
        from onebit.service.faults import ServiceError

        with self._reloading:
            if self._service is None:
                log.warning("not reloaded: the service is starting")
                return
            notify(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")
            try:
                changed = self._service.reload(self._read())
                for name in changed.added:
                    self._service.models[name].warm_up()
            except (ValueError, OSError) as error:
                log.error("not reloaded, the old configuration stays: %s", error)
            except ServiceError as fault:
                log.error("not reloaded completely: %s", fault.detail)
            else:
                for what, names in _changes(changed):
                    log.info("reloaded: %s: %s", what, ", ".join(map(str, names)))
                if not changed:
                    log.info("reloaded: nothing has changed but perhaps the tokens")
                if changed.restart:
                    log.warning("%s: only after a restart", ", ".join(changed.restart))
            notify("READY=1")


def _changes(changed: Any) -> list[tuple[str, Any]]:
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


class Front:
    """The application before and after the start."""

    def __init__(self) -> None:
        self.app: Any = None
        self.reason = "the models are being read from the journal"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self.app is not None:
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer_later(scope["path"], send)

    async def _answer_later(self, path: str, send: Any) -> None:
        from msgspec.json import encode

        from onebit.service.faults import Unavailable
        from onebit.service.messages import Health, problem_of

        fault = Unavailable(f"the service starts: {self.reason}")
        status, media, body = 503, b"application/problem+json", encode(problem_of(fault))
        if path == "/health":
            status, media, body = 200, b"application/json", encode(Health())
        headers = [(b"content-type", media), (b"content-length", b"%d" % len(body))]
        if status == 503:
            headers.append((b"retry-after", b"%d" % (fault.retry_after or 1)))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


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


# The demonstration.

_HOW = """
This is a demonstration: a model "digits" that learns to read digits of 8 x 8 points. Its journal
is {folder}/onebit.journal; delete the folder to begin anew. Paste this into another terminal:

  told=$(curl -s {url}/v1/models/digits/decisions \\
    -H 'content-type: application/json' -d @{folder}/digit-3.json); echo "$told"
  id=$(echo "$told" | cut -d '"' -f 4)
  curl -s {url}/v1/decisions/$id/feedback \\
    -H 'content-type: application/json' -d '{{"label": 3}}'; echo
  curl -s {url}/v1/decisions/$id; echo
  curl -s {url}/v1/models/digits; echo

There are digit-0.json to digit-9.json. To play 1,000 rounds with all the digits:

  {python} {folder}/play.py

Ctrl-C stops the service. docs/service.md tells how to serve a model of your own.
"""


def _demonstration(host: str | None, port: int | None) -> Configuration:
    from onebit.service.configuration import Configuration, Model, ServiceOptions, is_loopback

    given = {"host": host, "port": port}
    options = ServiceOptions(
        journal=str((DEMO / "onebit.journal").absolute()),
        access_log=False,
        **{name: value for name, value in given.items() if value is not None},  # type: ignore[arg-type]
    )
    if not is_loopback(options.host):
        raise ValueError(
            "the demonstration has no tokens, so it listens on this machine only: "
            "leave out --host, or give a configuration with tokens"
        )
    model = Model(name="digits", labels=10, title="digits of 8 x 8 points")
    return Configuration(path="", service=options, models={"digits": model})


_PLAY = """\
# Plays 1,000 rounds with the service.

import json
from pathlib import Path

from onebit.client import Client

lines = Path(__file__).with_name("digits.jsonl").read_text().splitlines()
mistakes = 0
with Client("{url}") as client:
    for count, line in enumerate(lines[:1000], start=1):
        digit = json.loads(line)
        told = client.decide("digits", digit["context"])
        right = told.label == digit["label"]
        client.feedback(told.id, right=right)
        mistakes += not right
        if count % 100 == 0:
            print(f"rounds {{count - 99}} to {{count}}: {{mistakes}} mistakes")
            mistakes = 0
"""


def _show_how(address: str) -> None:
    """Write the items of the demonstration, and say what to do with them."""
    from onebit.datasets import digits
    from onebit.persist import write_bytes

    table: Any = digits()
    points = (8 * table.X[:, :64] / table.X[:, 64:]).round().astype(int).tolist()
    rows = [
        json.dumps({"context": row, "label": label})
        for row, label in zip(points, table.y.tolist(), strict=True)
    ]
    write_bytes(DEMO / "digits.jsonl", "\n".join([*rows, ""]).encode())
    for digit in range(10):
        body = json.dumps({"context": points[table.y.tolist().index(digit)]})
        write_bytes(DEMO / f"digit-{digit}.json", body.encode())
    write_bytes(DEMO / "play.py", _PLAY.format(url=address).encode())
    python = shlex.quote(sys.executable)
    print(_HOW.format(url=address, folder=DEMO, python=python), flush=True)
