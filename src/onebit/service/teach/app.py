"""The page of `onebit teach` and its requests, as an ASGI application.

Without a secret only this machine is served, and only to pages of its own. With one, the first
request has to bring it in its address; a cookie keeps it from then on.
"""

from __future__ import annotations

import asyncio
import hmac
import mimetypes
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.resources import files
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from onebit.pages.teach import curve, teach_page
from onebit.service import faults
from onebit.service.faults import ServiceError
from onebit.service.messages import problem_of
from onebit.service.teach import export
from onebit.service.teach.guesses import Guess
from onebit.service.teach.requests import (
    AnswerRequest,
    GuessRequest,
    NewLabels,
    PageRequest,
    Renaming,
    Revision,
    check_name,
)
from onebit.service.teach.sources.items import ItemError
from onebit.service.teach.teacher import Teacher
from onebit.service.tokens import host_name, is_loopback

MOST_BYTES, MOST_BYTES_OF_LABELS = 2**16, 2**20  # of a body
LESSON = "onebit-lesson"  # the header that says for which lesson a request is
STATIC = (
    *("page.css", "teach.css", "icon.svg"),
    *("teach.js", "teach_basics.js", "teach_item.js", "teach_keys.js", "teach_labels.js"),
    "teach_panels.js",
)
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
COOKIE = "onebit-teach"
BEAT = 15.0  # seconds between signs of life on a stream of events
T = TypeVar("T")
_encode = msgspec.json.Encoder().encode
# Of a guess, what a page gets: by which name it gets it, and the name that it has here.
_SHOWN = [
    (field.encode_name, field.name)
    for field in msgspec.structs.fields(Guess)
    if field.name not in ("key", "context")
]


def make_app(
    teacher: Teacher, secret: str | None = None, stopping: Callable[[], bool] = lambda: False
) -> Any:
    """The application. stopping: whether the server waits for streams to end."""
    made = _App(teacher, secret, stopping)
    routes = [
        Route("/", made.guarded(made.page)),
        Route("/static/{name}", made.guarded(made.static)),
        Route("/items/{number}/picture", made.guarded(made.picture)),
        Route("/samples", made.guarded(made.samples)),
        Route("/stats", made.guarded(made.stats)),
        Route("/name", made.guarded(made.name)),
        Route("/curve", made.guarded(made.curve)),
        Route("/why/{id}", made.guarded(made.why)),
        Route("/events", made.guarded(made.events)),
        Route("/export/{name}", made.guarded(made.export)),
        Route("/ahead", made.guarded(made.guesses(PageRequest, teacher.ahead)), methods=["POST"]),
        Route(
            "/answer", made.guarded(made.guesses(AnswerRequest, teacher.answer)), methods=["POST"]
        ),
        Route("/skip", made.guarded(made.guesses(GuessRequest, teacher.skip)), methods=["POST"]),
        Route("/undo", made.guarded(made.guesses(GuessRequest, teacher.undo)), methods=["POST"]),
        Route("/revise", made.guarded(made.change(Revision, teacher.revise)), methods=["POST"]),
        Route("/relabel", made.guarded(made.change(Renaming, teacher.relabel)), methods=["POST"]),
        Route("/labels", made.guarded(made.labels), methods=["POST"]),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: made.refused})


class OtherLesson(ServiceError):
    """A page of another lesson, which was open at the same address."""

    status, title = 409, "another lesson"


class _App:
    def __init__(self, teacher: Teacher, secret: str | None, stopping: Callable[[], bool]) -> None:
        self._teacher, self._secret, self._stopping = teacher, secret, stopping
        self._listeners: set[asyncio.Event] = set()
        self._streams: Counter[str] = Counter()  # open ones, by page
        self._loop: asyncio.AbstractEventLoop | None = None
        teacher.watch(self._on_change)

    # What every request goes through.

    def guarded(
        self, run: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                brought = self._check(request)
                self._check_lesson(request)
                response = await run(request)
            except ServiceError as fault:
                if request.url.path == "/":  # a person reads it
                    response = Response(f"{fault.detail}\n", fault.status, media_type="text/plain")
                else:
                    response = _json(problem_of(fault), fault.status, "application/problem+json")
            except ClientDisconnect:
                return Response(status_code=499)
            else:
                if brought is not None:
                    response.set_cookie(COOKIE, brought, httponly=True, samesite="strict")
            for name, value in (
                ("content-security-policy", POLICY),
                ("x-content-type-options", "nosniff"),
                ("referrer-policy", "no-referrer"),
                ("cross-origin-resource-policy", "same-origin"),
            ):
                response.headers[name] = value
            response.headers.setdefault("cache-control", "no-store")
            return response

        return answer

    async def refused(self, request: Request, error: Exception) -> Response:
        """The answer to an unknown path, or to a wrong method."""

        async def refuse(_: Request) -> Response:
            if isinstance(error, HTTPException) and error.status_code == faults.WrongMethod.status:
                raise faults.WrongMethod(f"{request.method} is not possible here")
            raise faults.UnknownPath("no such path")

        return await self.guarded(refuse)(request)

    def _check(self, request: Request) -> str | None:
        """Refuse strangers; returns a secret that has to become a cookie."""
        host = request.headers.get("host", "")
        origin = request.headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            raise faults.NotPermitted("pages of other sites may not send requests")
        if self._secret is None:
            if not is_loopback(host_name(host)):
                raise faults.NotPermitted("only localhost may be asked for by name")
            return None
        brought = request.query_params.get("secret")
        given = brought or request.cookies.get(COOKIE) or ""
        if not hmac.compare_digest(given.encode(), self._secret.encode()):
            raise faults.NoToken("open the whole address that `onebit teach` has printed")
        return brought

    def _check_lesson(self, request: Request) -> None:
        lesson = request.headers.get(LESSON) or request.query_params.get("lesson")
        if lesson is not None and lesson != self._teacher.lesson:
            raise OtherLesson("another lesson is at this address now. Load the page again")

    def guesses(
        self, kind: type[T], run: Callable[[T], list[Guess]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """A request that is answered with the guesses that the page should hold."""

        async def answer(request: Request) -> Response:
            guesses = await run_in_threadpool(run, await _body(request, kind))
            return _json({"guesses": [_shown(guess) for guess in guesses]})

        return answer

    def change(
        self, kind: type[T], run: Callable[[T], None]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            await run_in_threadpool(run, await _body(request, kind))
            return _json({})

        return answer

    async def labels(self, request: Request) -> Response:
        new = await _body(request, NewLabels, MOST_BYTES_OF_LABELS)
        if not new.add:
            raise faults.Refused("name at least one label")
        await run_in_threadpool(self._teacher.add_labels, new)
        return _json({})

    # The page and what it shows.

    async def page(self, request: Request) -> Response:
        if "secret" in request.query_params:
            return RedirectResponse("./", 303)
        teacher = self._teacher
        items, folder = teacher.items, str(teacher.folder)
        lines = export.python_lines(teacher)
        text = teach_page(items.name, teacher.lesson, folder, items.kind, lines, teacher.command)
        return Response(text.encode(errors="replace"), media_type="text/html")

    async def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in STATIC:
            raise faults.UnknownPath("no such file")
        data = (files("onebit.pages") / "static" / name).read_bytes()
        media = mimetypes.guess_type(name)[0] or "text/plain"
        return Response(data, media_type=media, headers={"cache-control": "no-cache"})

    async def picture(self, request: Request) -> Response:
        named = request.path_params["number"]
        size = _number(request, "size", 800)
        # Python refuses to read a number of thousands of digits.
        number = int(named) if re.fullmatch("[0-9]{1,9}", named) else len(self._teacher.items)
        if number >= len(self._teacher.items):
            raise faults.UnknownPath("no such item")
        mark = self._teacher.picture_mark(number)
        try:
            data, media = await run_in_threadpool(self._teacher.items.picture, number, size)
        except ItemError as error:
            raise faults.UnknownPath(str(error)) from None
        kept = {}
        if request.query_params.get("item") == mark == self._teacher.picture_mark(number):
            kept["cache-control"] = "private, max-age=86400, immutable"
        return Response(data, media_type=media, headers=kept)

    async def samples(self, request: Request) -> Response:
        return _json({"samples": await run_in_threadpool(self._teacher.overview.samples)})

    async def name(self, request: Request) -> Response:
        """Whether a name can be taken, before it stands with any answer."""
        check_name(request.query_params.get("who", ""))
        return _json({})

    async def stats(self, request: Request) -> Response:
        browser = request.query_params.get("browser", "")[:32]
        return _json(await run_in_threadpool(self._teacher.overview.stats, browser))

    async def curve(self, request: Request) -> Response:
        width = min(max(_number(request, "width", 400), 240), 800)
        errors = await run_in_threadpool(self._teacher.overview.errors)
        drawn = await run_in_threadpool(curve, *errors, width)
        return Response(drawn, media_type="text/html")

    async def why(self, request: Request) -> Response:
        try:
            parts = await run_in_threadpool(self._teacher.overview.why, request.path_params["id"])
        except ItemError as error:
            raise faults.Refused(str(error)) from None
        return _json({"parts": parts})

    async def export(self, request: Request) -> Response:
        """Files to take away."""
        name = request.path_params["name"]
        if name not in export.FILES:
            raise faults.UnknownPath("no such file")
        ending, media, make = export.FILES[name]
        data = await run_in_threadpool(make, self._teacher)
        file = quote(f"{self._teacher.items.name}{ending}", safe="")
        headers = {"content-disposition": f"attachment; filename*=UTF-8''{file}"}
        return Response(data, media_type=media, headers=headers)

    # Events: something has changed.

    async def events(self, request: Request) -> Response:
        self._loop = asyncio.get_running_loop()
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        stream = self._stream(request.query_params.get("page", ""))
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)

    async def _stream(self, page: str) -> AsyncIterator[bytes]:
        changed = asyncio.Event()
        self._listeners.add(changed)
        self._streams[page] += 1
        try:
            waited, gone = 0.0, False
            yield b"retry: 1000\n\n" + self._event()
            while not self._stopping():
                try:
                    await asyncio.wait_for(changed.wait(), 0.5)
                    changed.clear()
                    yield self._event()
                    waited = 0.0
                except TimeoutError:
                    waited += 0.5
                    if self._teacher.is_gone != gone:
                        gone = not gone
                        yield self._event(gone)
                    if waited >= BEAT:
                        waited = 0.0
                        yield b": alive\n\n"
        finally:
            self._listeners.discard(changed)
            self._streams -= Counter([page])
            if page and page not in self._streams:  # it was closed; a reload comes back
                asyncio.get_running_loop().run_in_executor(None, self._teacher.leave, page)

    def _event(self, gone: bool = False) -> bytes:
        """The version of what is shown; -1 if the journal is gone."""
        return b"data: %d\n\n" % (-1 if gone else self._teacher.version)

    def _on_change(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for listener in self._listeners:
            listener.set()


def _json(value: Any, status: int = 200, media: str = "application/json") -> Response:
    return Response(_encode(value), status, media_type=media)


def _shown(guess: Guess) -> dict[str, Any]:
    return {shown: getattr(guess, name) for shown, name in _SHOWN}


async def _body(request: Request, kind: type[T], most: int = MOST_BYTES) -> T:
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json":
        raise faults.WrongMediaType("send JSON, with the header content-type: application/json")
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > most:
            raise faults.TooLarge(f"a body has at most {most:,} bytes")
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise faults.Refused(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise faults.Malformed(f"not JSON: {error}") from None


def _number(request: Request, name: str, default: int) -> int:
    try:
        return int(request.query_params.get(name, default))
    except ValueError:
        raise faults.Refused(f"{name} must be a whole number") from None
