"""The dashboard: pages that show the models of a journal at work, live or afterwards.

Everything is read from the journal, so the same pages work inside the service, beside it, and on
the journal of a service that has stopped. Where tokens are needed, a page comes without numbers:
its script asks for a token, keeps it for the tab, and sends it as a header, never in an address.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route, Router

from onebit._version import __version__
from onebit.learner.learner import Learner
from onebit.service import faults, snapshots
from onebit.service.dashboard import page
from onebit.service.dashboard.compared import shadows_of
from onebit.service.dashboard.influence import Influences
from onebit.service.dashboard.model_card import card_of, decisions_at, title_of
from onebit.service.dashboard.page import ORDERS, TABLES, Counted, Order, View
from onebit.service.dashboard.statistics import Statistics
from onebit.service.faults import ServiceError
from onebit.service.journal import Journal
from onebit.service.journal.summary import at_one_moment
from onebit.service.messages import ShadowCard, headers_of, problem_of

T = TypeVar("T")
log = logging.getLogger("onebit.service")
STATIC = {
    "page.css": "text/css",
    "dashboard.css": "text/css",
    "page.js": "text/javascript",
    "dashboard.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
HEADERS = {
    # blob: for the pictures that the script makes of charts.
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' blob:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}
READ_FOR = 0.5  # seconds that a request reads the journal; a long one is shown as far as read
LOOK_EVERY = 0.5  # seconds between two looks for new events
BEAT, LONGEST = 5.0, 300.0  # seconds between signs of life of a stream, and of a stream

# Which models the sender of a request may read, by its scope; a fault if it may not ask at all.
Rights = Callable[[Any], Callable[[str], bool]]
# Reads the journal in a thread, under a name: who asks for the same name meanwhile gets the same.
Run = Callable[[Hashable, Callable[[], Any]], Awaitable[Any]]


class Dashboard:
    """The pages of a journal.

    is_locked: whether tokens are needed. learner: a copy of the learner of a model; shadows: their
    cards; None: the newest snapshots are taken. run: may let others go first.
    """

    def __init__(
        self,
        journal: Callable[[], Journal],
        rights: Rights,
        is_locked: Callable[[], bool],
        learner: Callable[[str], Learner] | None = None,
        run: Run = lambda what, read: run_in_threadpool(read),
        shadows: Callable[[str], dict[str, ShadowCard]] | None = None,
    ) -> None:
        self._journal, self._rights, self._is_locked, self._run = journal, rights, is_locked, run
        self._learner = learner or self._newest_snapshot
        self._shadows = shadows or (lambda model: shadows_of(self._journal(), model))
        self._lock = threading.Lock()
        self._statistics: dict[str, Statistics] = {}
        self._influences: dict[str, Influences] = {}
        self._seen, self._looked = (0, False), -LOOK_EVERY

    def routes(self) -> list[Route]:
        def route(path: str, run: Callable[[Request], Awaitable[Response]]) -> Route:
            return Route(path, _answering(run), methods=["GET"])

        return [
            route("/static/{name}", self.static),
            route("/dashboard", self.models),
            route("/dashboard/{model}", self.model),
            route("/dashboard/{model}/numbers", self.numbers),
            route("/dashboard/{model}/events", self.events),
            route("/dashboard/{model}/{table}.csv", self.table),
        ]

    # Requests.

    async def static(self, request: Request) -> Response:
        """Style, scripts, icon."""
        name = request.path_params["name"]
        if name not in STATIC:
            raise faults.UnknownPath("no such file")
        data = (files("onebit.pages") / "static" / name).read_bytes()
        mark = _mark_of(data)
        is_known = request.headers.get("if-none-match") == mark
        return _marked(mark, None if is_known else data, STATIC[name])

    async def models(self, request: Request) -> Response:
        """All models that may be read."""
        if _wants_parts(request):
            text = await self._run_counted(request, page.list_parts)
        elif self._is_locked():
            text = page.list_page(None, __version__)
        else:
            text = await self._run_counted(request, lambda all: page.list_page(all, __version__))
        return Response(text, media_type="text/html")

    async def model(self, request: Request) -> Response:
        """A model: the page, or only the parts that change."""
        name = request.path_params["model"]
        if _wants_parts(request):
            known = request.headers.get("if-none-match", "")
            mark, data = await self._run_view(
                request, ("parts", known), lambda view: _parts(view, known)
            )
            return _marked(mark, data, "text/html")
        if self._is_locked():
            text = page.whole_page(name, None, __version__)
        else:
            text = await self._run_view(
                request, "page", lambda view: page.whole_page(name, view, __version__)
            )
        return Response(text, media_type="text/html")

    async def numbers(self, request: Request) -> Response:
        """All numbers of a model, as JSON."""
        body = await self._run_view(
            request, "numbers", lambda view: msgspec.json.encode(page.numbers(view))
        )
        return Response(body, media_type="application/json")

    async def table(self, request: Request) -> Response:
        """A table of numbers, as csv."""
        table = request.path_params["table"]
        if table not in TABLES:
            raise faults.UnknownPath(f"no table {table!r}; there are: {', '.join(TABLES)}")
        text = await self._run_view(
            request, table, lambda view: page.as_csv(page.rows_of(table, view))
        )
        name = quote(f"{request.path_params['model']}-{table}.csv", safe="")
        headers = {"content-disposition": f"attachment; filename*=UTF-8''{name}"}
        return Response(text, media_type="text/csv", headers=headers)

    async def events(self, request: Request) -> Response:
        """Server-sent events: the last position of the journal, and whether it is finished."""
        await run_in_threadpool(self._statistics_of, self._checked(request))  # is there a model?
        is_stopping = request.scope.get("is_stopping", lambda: False)
        return StreamingResponse(self._stream(is_stopping), media_type="text/event-stream")

    async def _stream(self, is_stopping: Callable[[], bool]) -> AsyncIterator[bytes]:
        started = told = time.monotonic()
        seen = None
        while not is_stopping() and time.monotonic() - started < LONGEST:
            found = await run_in_threadpool(self._look)
            if found != seen:
                position, is_written = found
                yield b"data: %d%s\n\n" % (position, b"" if is_written else b" finished")
                seen, told = found, time.monotonic()
            elif time.monotonic() - told >= BEAT:
                yield b": alive\n\n"
                told = time.monotonic()
            await asyncio.sleep(LOOK_EVERY)

    def _look(self) -> tuple[int, bool]:
        """The last position of the journal, and whether anybody writes to it; all streams share a
        look at it."""
        with self._lock:
            if time.monotonic() - self._looked >= LOOK_EVERY:
                journal = self._journal()
                with at_one_moment(journal) as moment:
                    self._seen = moment.last_position(), journal.is_written
                self._looked = time.monotonic()
            return self._seen

    # What they show.

    def _readable(self, request: Request) -> Callable[[str], bool]:
        return self._rights(request.scope)

    def _checked(self, request: Request) -> str:
        """The name of the model in the path, if it may be read."""
        model = request.path_params["model"]
        if not self._readable(request)(model):
            raise faults.NotPermitted(f"this token is not for read on model {model!r}")
        return model

    async def _run_view(self, request: Request, what: Hashable, show: Callable[[View], T]) -> T:
        """What is shown of a model, made in a thread; what: its name."""
        model = self._checked(request)
        search = request.query_params.get("label", "")[:100]
        asked: Any = request.query_params.get("order", "said")
        order: Order = asked if asked in ORDERS else "said"
        return await self._run(
            (model, what, search, order), lambda: show(self._made_view(model, search, order))
        )

    async def _run_counted(self, request: Request, show: Callable[[list[Counted]], str]) -> str:
        """What is shown of all models that the request may read, made in a thread."""
        names = tuple(filter(self._readable(request), sorted(self._journal().models())))
        return await self._run((names, _wants_parts(request)), lambda: show(self._counted(names)))

    def _made_view(self, model: str, search: str, order: Order) -> View:
        statistics = self._statistics_of(model)
        statistics.refresh(READ_FOR)
        report, journal = statistics.report(), statistics.journal
        card = card_of(journal, model)
        decisions = decisions_at(journal, report.last, card.labels)
        found = self._influences_of(statistics)
        # Preparation leaves no names.
        influences = [] if card.prepare else found.at(report.position)
        shadows = self._shadows(model)
        return View(report, card, decisions, influences, shadows, found.is_computing, search, order)

    def _counted(self, names: Sequence[str]) -> list[Counted]:
        shown = []
        for name in names:
            statistics = self._statistics_of(name)
            statistics.refresh(READ_FOR / len(names))
            title = title_of(statistics.journal, statistics.number)
            shown.append(Counted(name, title, statistics.report()))
        return shown

    def _statistics_of(self, model: str) -> Statistics:
        with self._lock:
            if model not in self._statistics:
                self._statistics[model] = Statistics(self._journal(), model)
            return self._statistics[model]

    def _influences_of(self, statistics: Statistics) -> Influences:
        model = statistics.model
        with self._lock:
            if model not in self._influences:
                self._influences[model] = Influences(
                    statistics.journal, statistics.number, lambda: self._learner(model)
                )
            return self._influences[model]

    def _newest_snapshot(self, model: str) -> Learner:
        journal = self._journal()
        decides = journal.version_in_charge(journal.models()[model])
        for snapshot in snapshots.found(Path(f"{journal.path}.snapshots"), model):
            saved = snapshots.read(snapshot)
            if saved is not None and decides is not None and snapshot.version == decides.number:
                return saved.learner
        raise ValueError(f"there is no snapshot of {model}")


class DashboardApp:
    """An application that serves a dashboard and nothing else."""

    def __init__(self, dashboard: Dashboard) -> None:
        routes = [Route("/", _home), *dashboard.routes()]
        self._router = Router([*routes, Route("/{path:path}", _answering(_nothing))])

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        scope["app"] = self  # so that a page refuses a method by an exception, not by plain text
        try:
            await self._router(scope, receive, send)
        except HTTPException as refusal:
            allowed = (refusal.headers or {})["Allow"]

            async def refuse(_: Request) -> Response:
                raise faults.WrongMethod(f"{scope['method']} is not possible here; try {allowed}")

            response = await _answering(refuse)(Request(scope))
            response.headers["allow"] = allowed
            await response(scope, receive, send)


async def _home(_: Request) -> Response:
    return RedirectResponse("/dashboard")


async def _nothing(_: Request) -> Response:
    raise faults.UnknownPath("no such path; /dashboard lists the models")


# Answers.


def _wants_parts(request: Request) -> bool:
    return request.query_params.get("only") == "parts"


def _answering(
    run: Callable[[Request], Awaitable[Response]],
) -> Callable[[Request], Awaitable[Response]]:
    """A route whose faults become problems, and whose answers carry the headers of all pages."""

    async def answer(request: Request) -> Response:
        try:
            response = await run(request)
        except ServiceError as fault:
            response = _problem(fault, request)
            response.headers.update(headers_of(fault))
        except Exception:
            log.exception("internal error in %s", request.url.path)
            response = _problem(ServiceError("see the log of the service"), request)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    return answer


def _problem(fault: ServiceError, request: Request) -> Response:
    if "text/html" in request.headers.get("accept", ""):  # a person reads it
        text = page.problem_page(fault.title, fault.detail, __version__)
        return Response(text, fault.status, media_type="text/html")
    body = msgspec.json.encode(problem_of(fault))
    return Response(body, fault.status, media_type="application/problem+json")


def _parts(view: View, known: str) -> tuple[str, bytes | None]:
    """The mark of the parts of a page, and the parts, unless their mark is the known one."""
    report = view.report
    shown = (report.position, report.end, view.card, view.search, view.order)
    shown += (view.influences, view.shadows, view.is_computing, __version__)
    mark = _mark_of(msgspec.json.encode(shown))
    return mark, None if mark == known else page.parts(view).encode()


def _mark_of(data: bytes) -> str:
    return f'"{hashlib.sha256(data).hexdigest()[:16]}"'


def _marked(mark: str, data: bytes | None, media: str) -> Response:
    """The data; None: the browser has them already."""
    headers = {"etag": mark}
    if data is None:
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=media, headers=headers)
