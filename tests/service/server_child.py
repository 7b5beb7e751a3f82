"""The server in a process of its own, so that its memory can be measured. Prints its port."""

from __future__ import annotations

import logging
import socket

from fake_service import FakeService
from test_http import tokens

from onebit.service.configuration import Limits
from onebit.service.http.app import App
from onebit.service.http.metrics import Requests
from onebit.service.http.server import make_server

if __name__ == "__main__":
    logging.disable()
    service = FakeService(tokens=tokens(), limits=Limits(connections=300))
    app = App(service, Requests())  # type: ignore[arg-type]
    server = make_server(app, service.configuration.service)
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(listener.getsockname()[1], flush=True)
    server.run([listener])
