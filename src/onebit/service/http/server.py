"""The server: uvicorn with limits on the heads of requests, on connections, and on slow clients."""

from __future__ import annotations

import math
from asyncio import TimerHandle, Transport
from http import HTTPStatus
from socket import IPPROTO_TCP, TCP_NODELAY
from typing import Any

import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from onebit.service import faults
from onebit.service.configuration import ServiceOptions
from onebit.service.faults import ServiceError
from onebit.service.messages import problem_of

LARGEST_HEAD = 2**16  # bytes of a request line and its headers


def make_server(app: Any, options: ServiceOptions) -> uvicorn.Server:
    """A server that is ready to `run()`, or to `await serve()`."""

    class Limited(LimitedProtocol):
        limits, timeouts = options.limits, options.timeouts

        def is_stopping(self) -> bool:
            return server.should_exit

    server = uvicorn.Server(
        uvicorn.Config(
            app,
            host=options.host,
            port=options.port,
            http=Limited,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,  # the application writes it, without query strings
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=math.ceil(options.timeouts.idle),
            timeout_graceful_shutdown=math.ceil(options.timeouts.stop),
        )
    )
    return server


class LimitedProtocol(HttpToolsProtocol):
    """A connection.

    A request that arrives in one piece, as nearly all do, starts no timer. The scope of a request
    has `is_stopping`, so that streams without an end can end when the server stops.

    Timers: of uvicorn for a connection without a request; `_slow` for a request to arrive;
    `_reading`, from the first moment to the last, for the client to read its answers.
    """

    limits = ServiceOptions().limits
    timeouts = ServiceOptions().timeouts

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._in_head = True
        self._unfinished = False  # whether a request has begun to arrive, and has not ended
        self._head_bytes = 0
        self._slow: TimerHandle | None = None
        self._idle: TimerHandle | None = None  # the timer of uvicorn, while data is parsed
        self._reading: TimerHandle | None = None
        self._unread = 0  # bytes that waited for the client at the last look
        self._refusal: ServiceError | None = None  # why the parser was stopped
        self._answering: RequestResponseCycle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Headers and body are written separately. asyncio does this only for some sockets.
        transport.get_extra_info("socket").setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        self._reading = self.loop.call_later(self.timeouts.body, self._check_reading)
        if len(self.connections) > self.limits.connections:
            self._refuse(faults.Busy("too many connections"))
        else:  # a connection on which nothing is ever sent
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        if self._reading is not None:
            self._reading.cancel()
        self._unset_keepalive_if_required()
        if self._answering is not None:
            # uvicorn tells only the last request. An earlier one would write, and log the failure.
            self._answering.disconnected = True
        super().connection_lost(exc)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._head_bytes += len(data)
        # uvicorn would stop this timer. It goes on until a request begins: empty lines are none.
        self._idle, self.timeout_keep_alive_task = self.timeout_keep_alive_task, None
        super().data_received(data)
        self.timeout_keep_alive_task = self._idle
        if self.transport.is_closing():
            return
        if not self._unfinished:
            self._stop_timer()
        elif self._in_head and self._head_bytes > LARGEST_HEAD:
            self._refuse(_head_too_large())
        elif self._slow is None:
            self._slow = self.loop.call_later(self.timeouts.body, self._too_slow)

    def on_message_begin(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        self._in_head = self._unfinished = True
        super().on_message_begin()
        self.scope["is_stopping"] = self.is_stopping  # type: ignore[typeddict-unknown-key]

    def on_headers_complete(self) -> None:
        self._in_head, self._head_bytes = False, 0
        self._stop_timer()  # the body gets as long again
        # A head that came in one piece, perhaps with its body and further requests.
        size = len(self.url) + sum([len(name) + len(value) + 4 for name, value in self.headers])
        if size > LARGEST_HEAD:
            self._refusal = _head_too_large()
            raise self._refusal  # the parser stops, and uvicorn calls `send_400_response`
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._unfinished, self._head_bytes = False, 0
        super().on_message_complete()

    def is_stopping(self) -> bool:
        """Whether the server waits for requests to end."""
        return False

    def _stop_timer(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def _too_slow(self) -> None:
        self._slow = None
        if self.transport.is_closing():
            return
        if not self._in_head and self.cycle.response_complete:  # it was answered without its body
            self.transport.close()
        else:
            part = "headers" if self._in_head else "body"
            seconds = self.timeouts.body
            self._refuse(faults.TooSlow(f"the {part} did not arrive within {seconds:g} s"))

    def _check_reading(self) -> None:
        """Cut off a client that has read nothing since the last look, also one that was closed.

        Closing a connection waits for what was not read yet, if need be for ever.
        """
        unread = self.transport.get_write_buffer_size()
        if unread >= self._unread > 0:
            self.transport.abort()
        else:
            self._unread = unread
            self._reading = self.loop.call_later(self.timeouts.body, self._check_reading)

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._refusal or faults.Malformed(msg))

    def _refuse(self, fault: ServiceError) -> None:
        """Answer without the application, and close the connection."""
        body = msgspec.json.encode(problem_of(fault))
        lines = [
            f"HTTP/1.1 {fault.status} {HTTPStatus(fault.status).phrase}",
            "content-type: application/problem+json",
            f"content-length: {len(body)}",
            "connection: close",
        ]
        if fault.retry_after is not None:
            lines.append(f"retry-after: {math.ceil(fault.retry_after)}")
        self.transport.write("\r\n".join([*lines, "", ""]).encode() + body)
        self.transport.close()


def _head_too_large() -> ServiceError:
    return faults.HeadTooLarge(f"headers have at most {LARGEST_HEAD:,} bytes")
