"""The server: uvicorn with limits on what a connection may send, keep waiting, and leave unread.

Whatever arrives, a connection holds at most what was read at once (256 kB), one head, and the few
requests of one slice. Nothing more is read until those are answered.
"""

from __future__ import annotations

import ipaddress
import math
import re
import time
from asyncio import AbstractEventLoop, CancelledError, TimerHandle, Transport
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from socket import AF_INET, AF_INET6, IPPROTO_TCP, TCP_NODELAY
from typing import Any

import msgspec
import uvicorn
from httptools import HttpParserError, HttpParserUpgrade
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from onebit.service import faults
from onebit.service.configuration import ServiceOptions
from onebit.service.faults import ServiceError
from onebit.service.messages import headers_of, problem_of

LARGEST_HEAD = 2**16  # bytes of a request line and its headers, or between two parts of a body
MOST_HEADERS = 100
SLICE = 512  # bytes that are parsed at a time: not many requests fit into them
LINGER = 2.0  # seconds for a client to read the last answer before its connection is closed
LAST_CALL = 1.0  # seconds for a client to send a last request when the server stops
_HOST = re.compile(rb"[A-Za-z0-9._~%:\[\]-]+")

# Told of every request that the application never saw: its scope as far as it came, the status.
Record = Callable[[Mapping[str, Any], int], None]


def make_server(
    app: Any, options: ServiceOptions, record: Record = lambda scope, status: None
) -> uvicorn.Server:
    """A server that is ready to `run()`, or to `await serve()`."""

    class Limited(LimitedProtocol):
        limits, timeouts = options.limits, options.timeouts

        def is_stopping(self) -> bool:
            return server.should_exit

        def record(self, scope: Mapping[str, Any], status: int) -> None:
            record(scope, status)

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
    has `is_stopping`, so that streams without an end can end when the server stops. If the server
    refuses a request that the application waits for, the scope has the status as `refused`.

    Timers: of uvicorn for a connection without a request; `_slow` for a request to arrive;
    `_reading`, from the first moment to the last, for the client to read its answers.
    """

    limits = ServiceOptions().limits
    timeouts = ServiceOptions().timeouts
    transport: Lingering  # type: ignore[assignment]
    parser: Any

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._rest = memoryview(b"")  # what was read and waits to be parsed
        self._in_head = True
        self._unfinished = False  # whether a request has begun to arrive, and has not ended
        self._size = 0  # bytes of the head, or since the last part of the body
        self._slice = 0  # bytes that are being parsed
        self._is_deaf = False  # whether what arrives is thrown away
        self._slow: TimerHandle | None = None
        self._reading: TimerHandle | None = None
        self._unread = 0  # bytes that waited for the client at the last look
        self._fault: ServiceError | None = None  # why the parser was stopped
        self._refusal: ServiceError | None = None  # waits until earlier requests are answered
        self._answering: RequestResponseCycle | None = None  # what the application has
        self._idle_since = time.monotonic()
        self.origin = ""

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(Lingering(transport, self.loop))  # type: ignore[arg-type]
        self.flow = _Flow(self)
        self.scope = {"client": self.client}  # type: ignore[typeddict-item]
        self.origin = origin_of(self.client[0] if self.client else "")
        socket = transport.get_extra_info("socket")
        if socket.family in (AF_INET, AF_INET6):
            # Headers and body are written separately. asyncio does this only for some sockets.
            socket.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        self._reading = self.loop.call_later(self.timeouts.body, self._check_reading)
        if len(self.connections) > 2 * self.limits.connections:  # even refusals are too many
            self.transport.abort()
        elif len(self.connections) > self.limits.connections and not self._has_room():
            self._refuse(faults.Busy("too many connections"))
        else:  # a connection on which nothing is ever sent
            self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._rest = memoryview(b"")
        self._stop_timer()
        if self._reading is not None:
            self._reading.cancel()
        self._unset_keepalive_if_required()
        if self._answering is not None:
            # uvicorn tells only the last request. An earlier one would write, and log the failure.
            self._answering.disconnected = True
        super().connection_lost(exc)

    # Many connections.

    def _has_room(self) -> bool:
        """Whether there is room for this connection; it may be made by closing another one.

        Connections without a request go first. Then those that wait for their client, if its
        address has more connections than that of this one.
        """
        others = [c for c in self.connections if c is not self and not c.transport.is_closing()]
        if len(others) < self.limits.connections:
            return True
        held = Counter(other.origin for other in others)  # type: ignore[union-attr]
        held[self.origin] += 1
        usefulness, _, _, found = min(
            (
                (other.usefulness, -held[other.origin], other._idle_since, other)
                for other in others
                if isinstance(other, LimitedProtocol)
            ),
            key=lambda held_by: held_by[:3],
        )
        if usefulness == 2 or (usefulness == 1 and held[found.origin] <= held[self.origin]):
            return False
        found.give_way()
        return True

    @property
    def usefulness(self) -> int:
        """0: no request; 1: it waits for its client; 2: for the application."""
        if self.transport.get_write_buffer_size():
            return 1
        if self._is_answered():
            return int(self._unfinished)
        return 1 if self._answering is self.cycle and self.cycle.more_body else 2

    def give_way(self) -> None:
        """Close, so that somebody else can be served. Nothing of the request was taken."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        elif self._unfinished:
            self._refuse(faults.Busy("too many connections from this address"))
        else:
            self.transport.cut()

    # What arrives.

    def data_received(self, data: bytes) -> None:
        if self._is_deaf or self.transport.is_closing():
            return
        self._rest = memoryview(b"".join([self._rest, data]) if self._rest else data)
        self._parse()

    def _parse(self) -> None:
        """Parse what was read, until a request has to wait for an earlier one."""
        while self._rest and not self.pipeline:
            part, self._rest = self._rest[:SLICE], self._rest[SLICE:]
            self._size, self._slice = self._size + len(part), len(part)
            self._feed(part)
            if self._unfinished and self._size > LARGEST_HEAD:
                self._refuse(_head_too_large())
        if self._rest:
            self.flow.pause_reading()
        if self._rest or not self._unfinished:
            self._stop_timer()
        elif self._slow is None:
            self._slow = self.loop.call_later(self.timeouts.body, self._too_slow)

    def _feed(self, part: memoryview) -> None:
        try:
            self.parser.feed_data(part)
        except HttpParserUpgrade:  # only HTTP is spoken here; what follows may be anything
            self.cycle.keep_alive = False
            self._stop_listening()
        except HttpParserError:
            self._refuse(self._fault or faults.Malformed("this is not HTTP/1.1"))

    def _stop_listening(self) -> None:
        """Throw away what else arrives."""
        self._rest, self._unfinished, self._is_deaf = memoryview(b""), False, True
        self._stop_timer()

    def on_message_begin(self) -> None:
        self._unset_keepalive_if_required()
        self._in_head = self._unfinished = True
        self._size = self._slice  # perhaps with the end of an earlier request
        super().on_message_begin()
        self.scope["is_stopping"] = self.is_stopping  # type: ignore[typeddict-unknown-key]

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # after a body; nobody needs it
        if len(self.headers) == MOST_HEADERS:
            self._stop_parser(_head_too_large())
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self.scope["method"] = self.parser.get_method().decode("ascii")
        self._check_head()
        super().on_headers_complete()
        self._in_head, self._size = False, 0
        self._stop_timer()  # the body gets as long again
        if self.is_stopping():
            self.cycle.keep_alive = False

    def _check_head(self) -> None:
        if self._size > LARGEST_HEAD:
            self._stop_parser(_head_too_large())
        hosts = [value for name, value in self.headers if name == b"host"]
        if len(hosts) != 1 and (hosts or self.parser.get_http_version() != "1.0"):
            self._stop_parser(faults.Malformed("a request has exactly one header `host`"))
        if hosts and not _HOST.fullmatch(hosts[0]):
            self._stop_parser(faults.Malformed("the header `host` names no host"))
        if not self.url.startswith(b"/"):
            asked = self.url.partition(b"://")[2].partition(b"/")[0]
            if asked and asked.lower() not in map(bytes.lower, hosts):
                self._stop_parser(faults.Misdirected())
        if self.parser.should_upgrade() and any(
            name in (b"content-length", b"transfer-encoding") for name, _ in self.headers
        ):
            # The parser takes the body for another protocol.
            self._stop_parser(faults.Malformed("leave out `upgrade`, or the body"))

    def _stop_parser(self, fault: ServiceError) -> None:
        self._fault = fault
        raise fault  # the parser stops, and raises an error of its own

    def on_body(self, body: bytes) -> None:
        self._size = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unfinished, self._size = False, 0
        super().on_message_complete()

    # Answers.

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, partial(self._answer_in_time, cycle, app))

    async def _answer_in_time(
        self, cycle: RequestResponseCycle, app: Any, scope: Any, receive: Any, send: Any
    ) -> None:
        """Let the application answer, unless the server stops and has waited for long enough."""
        try:
            await app(scope, receive, send)
        except CancelledError:
            if cycle.response_started or cycle.disconnected:
                raise
            cycle.disconnected = True
            self._write(faults.Unavailable("the service stops, and this was not done in time"))
            self.transport.cut()  # the event loop ends now

    def _is_answered(self) -> bool:
        """Whether the application has no request."""
        return self._answering is None or self._answering.response_complete

    def on_response_complete(self) -> None:
        self._idle_since = time.monotonic()
        if self.is_stopping():
            self.timeout_keep_alive = LAST_CALL  # type: ignore[assignment]
        super().on_response_complete()  # the next request may begin
        if self.transport.is_closing():
            return
        if self._refusal is None:
            self._parse()
            self.flow.resume_reading()
        elif self._is_answered():
            self._send_refusal(self._refusal)

    def is_stopping(self) -> bool:
        """Whether the server waits for requests to end."""
        return False

    def record(self, scope: Mapping[str, Any], status: int) -> None:
        """Note a request that was refused here."""

    # Ends.

    def _wait_for_request(self) -> None:
        """Close the connection if it is not used for some time."""
        self._unset_keepalive_if_required()
        waited = time.monotonic() - self._idle_since
        longest = LAST_CALL if self.is_stopping() else self.timeout_keep_alive
        self.timeout_keep_alive_task = self.loop.call_later(
            max(0.0, longest - waited), self.timeout_keep_alive_handler
        )

    def timeout_keep_alive_handler(self) -> None:
        self.transport.cut()

    def shutdown(self) -> None:
        """Let the request that is on its way, or comes within a second, be the last one."""
        if self._is_answered():
            if not self._unfinished:
                self._wait_for_request()
        elif not self.cycle.response_started:
            self.cycle.keep_alive = False
            # If it takes longer than the stop.
            self.cycle.scope["refused"] = faults.Unavailable.status  # type: ignore[typeddict-unknown-key]

    def _stop_timer(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def _too_slow(self) -> None:
        self._slow = None
        if self.transport.is_closing():
            return
        if self.flow.read_paused:  # it is not the client who waits
            self._slow = self.loop.call_later(self.timeouts.body, self._too_slow)
        elif not self._in_head and self.cycle.response_complete:  # answered without its body
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

    def _refuse(self, fault: ServiceError) -> None:
        """Answer without the application, after all earlier requests, and close the connection."""
        if not self._unfinished:  # the last request was another one
            self.scope = {"client": self.client}  # type: ignore[typeddict-item]
        elif self.url.startswith(b"/"):  # other addresses may hold a password
            self.scope["raw_path"] = self.url
        self._stop_listening()
        if self.pipeline and not self._in_head:
            self.pipeline.popleft()  # the last one is refused
        asked = self._answering if not self._in_head and self._answering is self.cycle else None
        if asked is None or asked.response_complete:
            if self._is_answered():
                self._send_refusal(fault)
            else:
                self._refusal = fault
        elif asked.response_started:
            self.transport.close()
        else:  # the application waits for the body
            asked.scope["refused"] = fault.status  # type: ignore[typeddict-unknown-key]
            asked.disconnected = True
            asked.message_event.set()
            self._write(fault)

    def _send_refusal(self, fault: ServiceError) -> None:
        self._refusal = None
        self.record(self.scope, fault.status)
        self._write(fault)

    def _write(self, fault: ServiceError) -> None:
        body, told = msgspec.json.encode(problem_of(fault)), headers_of(fault)
        told["connection"] = "close"
        lines = [
            f"HTTP/1.1 {fault.status} {HTTPStatus(fault.status).phrase}",
            "content-type: application/problem+json",
            f"content-length: {len(body)}",
            "x-content-type-options: nosniff",
            *(f"{name}: {value}" for name, value in told.items()),
        ]
        self.transport.write("\r\n".join([*lines, "", ""]).encode() + body)
        self.transport.close()


class _Flow(FlowControl):
    """Reading goes on only when all that was read is parsed."""

    def __init__(self, protocol: LimitedProtocol) -> None:
        super().__init__(protocol.transport)  # type: ignore[arg-type]
        self._protocol = protocol

    def resume_reading(self) -> None:
        if not self._protocol._rest:
            super().resume_reading()


class Lingering:
    """A transport whose `close` lets the client read the last answer.

    When a socket is closed while something arrives, the system sends a reset, and the client may
    lose the answer that came before. So only the own side is closed at first. The protocol throws
    away what still arrives, until the client closes its side or `LINGER` is over.
    """

    def __init__(self, transport: Transport, loop: AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._is_over = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._is_over:
            self._transport.write(data)

    def is_closing(self) -> bool:
        return self._is_over or self._transport.is_closing()

    def close(self) -> None:
        if not self.is_closing():
            self._is_over = True
            self._transport.write_eof()
            self._transport.resume_reading()
            self._loop.call_later(LINGER, self._transport.close)

    def cut(self) -> None:
        """Close at once, where no answer is on its way."""
        self._transport.close()


def origin_of(address: str) -> str:
    """Whose connections count together: an address, or what one owner of IPv6 addresses has."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return address
    return str(found.ipv4_mapped or int(found) >> 64)


def _head_too_large() -> ServiceError:
    return faults.HeadTooLarge(
        f"a request has at most {LARGEST_HEAD:,} bytes of headers, and {MOST_HEADERS} of them"
    )
