"""A server in a thread, for tests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from onebit.service.configuration import ServiceOptions
from onebit.service.server import make_server


@contextmanager
def served(make: Callable[[Callable[[], bool]], Any]) -> Iterator[str]:
    """The address of an application. make: makes it, given whether the server stops."""
    server = make_server(None, ServiceOptions(port=0))
    server.config.app = make(lambda: server.should_exit)
    sockets = [server.config.bind_socket()]
    thread = threading.Thread(target=server.run, args=(sockets,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
