"""The application: the way of a request to its route, and the answer if it is refused."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.routing import Route, Router

from onebit.service import faults, messages
from onebit.service.configuration import Configuration
from onebit.service.dashboard.app import Dashboard, Run
from onebit.service.faults import ServiceError
from onebit.service.http.access import Access
from onebit.service.http.metrics import Metrics, Requests
from onebit.service.http.operation import (
    JSON,
    NAMES,
    PROBLEM,
    Call,
    Commits,
    Headers,
    Operation,
)
from onebit.service.http.reading import Reads
from onebit.service.http.routes import OPERATIONS
from onebit.service.messages import headers_of, problem_of
from onebit.service.service import Service
from onebit.service.tokens import Token, host_name, is_loopback

log = logging.getLogger("onebit.service")
SHARE = 0.02  # of the time, for model cards and dashboards, and again for metrics
LONG, FEW = 2**16, 4  # bytes of a body, and decisions, beyond which they are read in a thread
_PATTERNS = {name: re.compile(schema["pattern"]) for name, schema in NAMES.items()}
_encode = msgspec.json.Encoder().encode


class App:
    """The ASGI application. requests: those that were answered so far."""

    def __init__(self, service: Service, requests: Requests) -> None:
        self.service, self.commits = service, Commits()
        self.metrics = Metrics(service, requests)
        self.reads, self.metric_reads = (
            Reads(lambda: service.tally.events, SHARE) for _ in range(2)
        )
        paths: dict[str, dict[str, Operation]] = {}
        for made in OPERATIONS:
            paths.setdefault(made.path, {})[made.method] = made
        resources = [_Resource(self, path, made) for path, made in paths.items()]
        pages = dashboard_of(service, self.reads).routes()
        routes = [*(Route(resource.path, resource) for resource in resources), *pages]
        self._router = Router(routes, default=_Resource(self, "", {}), redirect_slashes=False)
        known: dict[Any, Any] = {it: (it.path, it.by_method) for it in resources}
        known |= {page.endpoint: (page.path, page.methods) for page in pages}
        self.access = Access(requests, lambda: service.configuration.service.access_log, known)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        visit = self.access.visit(scope, send)
        scope["app"] = self  # so that a page refuses a method by an exception, not by plain text
        try:
            await self._router(scope, receive, visit.send)
        except HTTPException as refusal:
            headers: Headers = []
            fault = _wrong_method(scope["method"], (refusal.headers or {})["Allow"], headers)
            await answer(visit.send, fault.status, PROBLEM, _encode(problem_of(fault)), headers)
        finally:
            visit.end()


def encode_many(said: messages.ToldMany) -> list[bytes]:
    """Many decisions, one by one: with many labels, all together would take the processor long.

    They stay in pieces, because a copy of them as a whole would hold up all other threads.
    """
    before, pieces = b'{"decisions":[', []
    for decision in said.decisions:
        pieces.append(before + _encode(decision))
        before = b","
    return [*pieces, b"]}"]


class _Resource:
    """All operations of one path."""

    def __init__(self, app: App, path: str, operations: dict[str, Operation]) -> None:
        self._app, self.path, self._operations = app, path, operations
        if "GET" in operations:
            operations = {**operations, "HEAD": operations["GET"]}
        self.by_method = operations
        self._allowed = ", ".join(sorted(operations))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        method = scope["method"]
        call = Call(self._app, scope.get("path_params", {}))
        media, status = PROBLEM, 500
        body: bytes | list[bytes] = b""
        try:
            chosen = self.by_method.get(method)
            if chosen is None:
                self._refuse(method, call)
            else:
                media, body = await self._run(chosen, call, scope, receive)
                status = chosen.status
        except ServiceError as fault:
            body, status = _encode(problem_of(fault)), fault.status
            explain(fault, call.headers)
        except _Gone:
            return
        except Exception:
            log.exception("internal error in %s %s", method, self.path)
            body = _encode(problem_of(ServiceError("see the log of the service")))
        await answer(send, status, media, body, call.headers)

    def _refuse(self, method: str, call: Call) -> None:
        if not self._operations:
            raise faults.UnknownPath("no such path; /openapi.json lists all of them")
        raise _wrong_method(method, self._allowed, call.headers)

    async def _run(
        self, chosen: Operation, call: Call, scope: Any, receive: Any
    ) -> tuple[bytes, bytes | list[bytes]]:
        headers = dict(scope["headers"])
        configuration = self._app.service.configuration
        _check_names(call.names)
        if chosen.verb is not None or faults.NoToken in chosen.faults:
            call.token = _token(configuration, scope, headers)
        if configuration.tokens is None:
            _check_origin(headers)
        if (
            call.token is not None
            and chosen.verb is not None
            and chosen.body is not messages.Answers
        ):
            call.permit(chosen.verb, call.model)
        if chosen.decode is not None:
            data = await _read(headers, receive, configuration.service.limits.body)
            if len(data) > LONG:
                call.body = await call.apart(_decoded, chosen, data)
            else:
                call.body = _decoded(chosen, data)
        said = await chosen.run(call)
        if isinstance(said, bytes):
            return chosen.answer.encode(), said
        if isinstance(said, messages.ToldMany) and len(said.decisions) > FEW:
            return JSON, await call.apart(encode_many, said)
        return JSON, _encode(said)


async def answer(
    send: Any,
    status: int,
    media: bytes,
    body: bytes | list[bytes],
    headers: Headers | None = None,
) -> None:
    """Send an answer. body: perhaps in pieces."""
    *pieces, last = [body] if isinstance(body, bytes) else body
    described = [
        (b"content-type", media),
        (b"content-length", b"%d" % (sum(map(len, pieces)) + len(last))),
        (b"x-content-type-options", b"nosniff"),
        *(headers or ()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": described})
    for piece in pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
        await asyncio.sleep(0)  # others go on meanwhile
    await send({"type": "http.response.body", "body": last})


def _wrong_method(method: str, allowed: str, headers: Headers) -> faults.WrongMethod:
    headers.append((b"allow", allowed.encode()))
    return faults.WrongMethod(f"{method} is not possible here; try {allowed}")


class _Gone(Exception):
    """The client closed the connection in the middle of its request."""


def explain(fault: ServiceError, headers: Headers) -> None:
    """Add the headers that go with a fault."""
    headers += [(name.encode(), value.encode()) for name, value in headers_of(fault).items()]


def _check_names(names: dict[str, str]) -> None:
    for name, value in names.items():
        if not _PATTERNS[name].fullmatch(value):
            if name == "name":
                raise faults.UnknownModel(f"no model {value!r}")
            if name == "id":
                raise faults.UnknownDecision(f"no decision {value!r}")
            raise faults.Refused(f"the {name} in the path must match {NAMES[name]['pattern']}")


def dashboard_of(service: Service, reads: Run) -> Dashboard:
    """The pages that show the models of a service."""
    return Dashboard(
        lambda: service.journal,
        lambda scope: readable(service.configuration, scope),
        lambda: service.configuration.tokens is not None,
        lambda model: service.models[model].learner,
        reads,
        lambda model: service.models[model].shadows.card() if model in service.models else {},
    )


def readable(configuration: Configuration, scope: Any) -> Callable[[str], bool]:
    """Which models a request may read; a fault if it has no token, or comes from elsewhere."""
    headers = dict(scope["headers"])
    token = _token(configuration, scope, headers)
    if token is None:
        _check_origin(headers)
        return lambda model: True
    return lambda model: token.permits("read", model)


def _token(
    configuration: Configuration, scope: Any, headers: Mapping[bytes, bytes]
) -> Token | None:
    """The token of a request; None if none is needed. The scope gets its name as `bearer`."""
    if configuration.tokens is None:
        return None
    scheme, _, secret = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    if scheme.lower() != "bearer":
        raise faults.NoToken("send a token: Authorization: Bearer ...")
    token = configuration.tokens.find(secret.strip())
    if token is None:
        raise faults.NoToken("this token is not known")
    scope["bearer"] = token.name
    return token


def _check_origin(headers: Mapping[bytes, bytes]) -> None:
    """Without tokens, refuse what a page of another site may have made a browser send."""
    host = headers.get(b"host", b"").decode("latin-1")
    if host and not is_loopback(host_name(host)):
        raise faults.NotPermitted("without tokens, only localhost may be asked for by name")
    origin = headers.get(b"origin", b"").decode("latin-1")
    if origin and origin.partition("://")[2] != host:
        raise faults.NotPermitted("without tokens, pages of other sites may not send requests")


async def _read(headers: dict[bytes, bytes], receive: Any, limit: int) -> bytes:
    """The body, unless it is too long or not JSON. The server watches over the time it takes."""
    media = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if media != JSON:
        raise faults.WrongMediaType("send JSON, with the header content-type: application/json")
    if int(headers.get(b"content-length", b"0")) > limit:
        raise faults.TooLarge(f"a body has at most {limit:,} bytes")
    body, unfinished = bytearray(), True
    while unfinished:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise _Gone
        body += event.get("body", b"")
        unfinished = event.get("more_body", False)
        if len(body) > limit:
            raise faults.TooLarge(f"a body has at most {limit:,} bytes")
    return bytes(body)


def _decoded(chosen: Operation, data: bytes) -> Any:
    assert chosen.decode is not None
    try:
        return chosen.decode(data)
    except msgspec.ValidationError as error:
        detail, _, path = str(error).partition(" - at ")
        where = _located(path.strip("`") or "$", data)
        raise faults.Refused(_in_words(detail.replace("`", ""), where), where=where) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise faults.Malformed(f"not JSON: {error}") from None
    except RecursionError:
        raise faults.Malformed("lists in lists without end") from None


def _in_words(detail: str, where: str) -> str:
    """What msgspec says of a value, with a pattern and its choices put into words."""
    if "matching regex" in detail:  # `Source` alone has one
        return (
            "Expected a name of 1 to 100 letters, digits and . _ @ + -, "
            "with a letter or a digit first"
        )
    if detail.startswith("Invalid enum value"):  # `Right` and `undo` alone have some
        choices = "true" if where == "$.undo" else "true, false, 1 or 0"
        return f"Expected {choices}, got {detail.rpartition(' ')[2].lower()}"
    return detail


def _located(path: str, data: bytes) -> str:
    """The path with the name of the feature, where msgspec says only that it is one of them."""
    if not path.endswith(".context[...]"):
        return path
    before = path.removesuffix("[...]")
    for name, value in _object_at(before, data).items():
        try:
            msgspec.convert(value, messages.Value)
        except msgspec.ValidationError:
            return f"{before}.{name}" if name.isidentifier() else f"{before}[{name!r}]"
    return path


def _object_at(path: str, data: bytes) -> dict[str, Any]:
    """The object at a path of a body; empty if there is none.

    The body was read up to its first mistake. What comes after that may be anything: no JSON at
    all, or the same names again with other values, which then count.
    """
    try:
        found = msgspec.json.decode(data)
        for name, index in re.findall(r"\.(\w+)|\[(\d+)\]", path):
            found = found[name] if name else found[int(index)]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, LookupError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}
