"""Access: every request is counted, and is a line in the log, whoever answers it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from time import perf_counter
from typing import Any

from onebit.service.http.metrics import Requests

log = logging.getLogger("onebit.access")
Routes = Mapping[Any, tuple[str, Collection[str]]]
LONGEST = 500  # bytes of a path in the log
GONE = 499  # the client closed the connection; there is nobody to answer


class Access:
    """Notes requests.

    is_logged: whether each is a line. routes: by the endpoint, a path and its methods.
    """

    def __init__(
        self, requests: Requests, is_logged: Callable[[], bool], routes: Routes | None = None
    ) -> None:
        self.requests, self._is_logged, self._routes = requests, is_logged, routes or {}

    def refused(self, scope: Mapping[str, Any], status: int) -> None:
        """Note a request that no application saw. scope: as far as it came."""
        self._note(scope, status, None)

    def visit(self, scope: Mapping[str, Any], send: Any) -> Visit:
        """A request that an application answers."""
        return Visit(self, scope, send)

    def _note(self, scope: Mapping[str, Any], status: int, seconds: float | None) -> None:
        route, methods = self._routes.get(scope.get("endpoint"), ("unknown", ()))
        method = scope.get("method", "-")
        self.requests.add(method if method in methods else "other", route, status, seconds)
        if self._is_logged():
            log.info(
                "%s %s %s %s %d %s",
                (scope.get("client") or ("-",))[0],
                scope.get("bearer", "-"),
                method,
                _path_of(scope),
                status,
                "-" if seconds is None else f"{1000 * seconds:.1f} ms",
            )


class Visit:
    """A request on its way, which is noted when its answer begins: a stream may go on for long."""

    def __init__(self, access: Access, scope: Mapping[str, Any], send: Any) -> None:
        self._access, self._scope, self._send = access, scope, send
        self._started, self._is_noted = perf_counter(), False

    async def send(self, event: Any) -> None:
        if event["type"] == "http.response.start":
            self._note(event["status"])
        await self._send(event)

    def end(self) -> None:
        """Nothing more is sent."""
        if not self._is_noted:
            self._note(self._scope.get("refused", GONE))

    def _note(self, status: int) -> None:
        self._is_noted = True
        self._access._note(self._scope, status, perf_counter() - self._started)


def _path_of(scope: Mapping[str, Any]) -> str:
    """Without the query, where secrets might be."""
    path = scope.get("raw_path", b"-").partition(b"?")[0][:LONGEST]
    path = path.decode("ascii", "backslashreplace")
    return path if path.isprintable() else repr(path)
