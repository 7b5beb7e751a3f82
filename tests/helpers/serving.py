"""A real server on a free port, in a thread."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx

from helpers.waiting import PATIENCE
from onebit.service.configuration import ServiceOptions
from onebit.service.http.app import App
from onebit.service.http.metrics import Requests
from onebit.service.http.server import make_server


class Site(NamedTuple):
    service: Any
    port: int
    http: httpx.Client

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE)


@contextmanager
def serving(service: Any) -> Iterator[Site]:
    try:
        with (
            listening(lambda _: App(service, Requests()), service.configuration.service) as port,
            httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client,
        ):
            yield Site(service, port, client)
    finally:
        service.close()


@contextmanager
def listening(
    make: Callable[[Callable[[], bool]], Any], options: ServiceOptions | None = None
) -> Iterator[int]:
    """The port of an application. make: given a function that says if the server stops."""
    server = make_server(None, options or ServiceOptions())
    server.config.app = make(lambda: server.should_exit)
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        assert not thread.is_alive()
