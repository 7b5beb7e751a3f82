"""HTTP: routes over the engines, the checks before them, and what is said when they refuse.

Each route is declared once, by `operation`: its method and path, the verb that a token needs, the
types of its body and its answer, and its faults. The OpenAPI document is generated from these.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Meta
from starlette.routing import Route, Router

from onebit._version import __version__
from onebit.service import faults, messages
from onebit.service.configuration import Configuration
from onebit.service.contract import Engine, Pending, Service
from onebit.service.dashboard import Dashboard
from onebit.service.faults import ServiceError
from onebit.service.messages import ONE_OF_TWO, Feedback, Outcome, Verdict, context_of, problem_of
from onebit.service.metrics import CONTENT_TYPE, Metrics
from onebit.service.tokens import Token, Verb, is_loopback

log = logging.getLogger("onebit.service")
access_log = logging.getLogger("onebit.access")

T = TypeVar("T")
Headers = list[tuple[bytes, bytes]]
JSON, PROBLEM = b"application/json", b"application/problem+json"
NAMES = {  # of the parameters in paths
    "name": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"},
    "id": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
    "source": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}$"},
}
_PATTERNS = {name: re.compile(schema["pattern"]) for name, schema in NAMES.items()}
_encode = msgspec.json.Encoder().encode


# A route.


@dataclass(frozen=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    run: Callable[[Call], Awaitable[Any]]
    verb: Verb | None  # that a token needs; None: everyone may
    body: Any
    answer: Any  # its type; or the media type of a text
    status: int
    faults: tuple[type[ServiceError], ...]
    decode: Callable[[bytes], Any] | None

    @property
    def name(self) -> str:
        return self.run.__name__

    @property
    def summary(self) -> str:
        return (self.run.__doc__ or "").strip().splitlines()[0]


OPERATIONS: list[Operation] = []
_FOR_BODIES = (
    faults.Malformed,
    faults.TooSlow,
    faults.TooLarge,
    faults.WrongMediaType,
    faults.Refused,
)
_FOR_CALLERS = (faults.NoToken, faults.NotPermitted, faults.Busy, faults.Unavailable)


def operation(
    method: str,
    path: str,
    verb: Verb | None,
    *,
    body: Any = None,
    answer: Any,
    status: int = 200,
    also: Sequence[type[ServiceError]] = (),
) -> Callable[[Callable[[Call], Awaitable[Any]]], Callable[[Call], Awaitable[Any]]]:
    """Declare a route. also: its faults beside those that follow from the other arguments."""

    def declared(run: Callable[[Call], Awaitable[Any]]) -> Callable[[Call], Awaitable[Any]]:
        possible = [*also]
        if "{name}" in path:
            possible.append(faults.UnknownModel)
        if "{id}" in path:
            possible.append(faults.UnknownDecision)
        if "{source}" in path and body is None:
            possible.append(faults.Refused)
        possible += _FOR_BODIES if body is not None else ()
        possible += _FOR_CALLERS if verb is not None else ()
        decode = None if body is None else msgspec.json.Decoder(body).decode
        made = Operation(method, path, run, verb, body, answer, status, tuple(possible), decode)
        OPERATIONS.append(made)
        return run

    return declared


class Call:
    """A request on its way through a route."""

    __slots__ = ("_model", "body", "commits", "headers", "metrics", "names", "service", "token")

    def __init__(self, app: App, names: dict[str, str]) -> None:
        self.service, self.commits, self.metrics = app.service, app.commits, app.metrics
        self.names = names  # the parameters in the path
        self.body: Any = None
        self.token: Token | None = None
        self.headers: Headers = []
        self._model = ""

    def permit(self, verb: Verb, model: str) -> None:
        token = self.token
        if token is not None and not token.permits(verb, model):
            every = "every model" if model == "*" else f"model {model!r}"
            raise faults.NotPermitted(f"the token {token.name!r} is not for {verb} on {every}")

    def may_read(self, model: str) -> bool:
        return self.token is None or self.token.permits("read", model)

    @property
    def model(self) -> str:
        """The name of the model that the path is about; "*": all models."""
        if not self._model:
            id = self.names.get("id")
            self._model = self.service.model_of(id) if id else self.names.get("name", "*")
        return self._model

    @property
    def engine(self) -> Engine:
        return self.engine_of(self.model)

    def engine_of(self, model: str) -> Engine:
        engine = self.service.models.get(model)
        if engine is None:
            known = ", ".join(filter(self.may_read, self.service.models)) or "none"
            raise faults.UnknownModel(f"no model {model!r}; there are: {known}")
        return engine

    async def durable(self, pending: Pending[T]) -> T:
        """The result, once it is on disk."""
        await self.commits.wait(pending.future)
        return pending.value

    async def apart(self, function: Callable[..., T], *arguments: Any) -> T:
        """The result of what may take long, from a thread: other requests go on meanwhile."""
        return await asyncio.to_thread(function, *arguments)


class Commits:
    """Lets the requests of one commit wait for it with one wake-up of the event loop."""

    def __init__(self) -> None:
        self._last: Future[Any] | None = None
        self._waiting: list[asyncio.Future[None]] = []

    async def wait(self, commit: Future[Any]) -> None:
        if not commit.done():
            loop = asyncio.get_running_loop()
            mine = loop.create_future()
            if commit is not self._last:
                self._last, waiting = commit, [mine]
                self._waiting = waiting
                commit.add_done_callback(lambda _: loop.call_soon_threadsafe(_wake, waiting))
            else:
                self._waiting.append(mine)
            await mine
        try:
            commit.result()
        except ServiceError:
            raise
        except Exception as error:
            raise faults.Unavailable("the journal could not be written; see /ready") from error


def _wake(waiting: list[asyncio.Future[None]]) -> None:
    for future in waiting:
        if not future.done():  # its client may have gone
            future.set_result(None)


# Deciding.


def _question(call: Call, question: messages.Question, where: str = "$") -> messages.Question:
    most = call.service.configuration.service.limits.features
    question.context = context_of(question.context, most, f"{where}.context")
    return question


def _check_batch(call: Call, size: int) -> None:
    most = call.service.configuration.service.limits.batch
    if size > most:
        raise faults.TooLarge(f"a batch has at most {most:,} entries, not {size:,}")


@operation(
    "POST",
    "/v1/models/{name}/decisions",
    "decide",
    body=messages.Question,
    answer=messages.Told,
    status=201,
    also=[faults.KeyReused],
)
async def decide(call: Call) -> messages.Told:
    """Say a label for a context."""
    question = _question(call, call.body)
    pending = call.engine.submit_decide(question.context, question.among, question.key)
    told = await call.durable(pending)
    call.headers.append((b"location", b"/v1/decisions/" + told.id.encode()))
    return told


@operation(
    "POST",
    "/v1/decisions/{id}/feedback",
    "feedback",
    body=Annotated[Feedback, Meta(extra_json_schema=ONE_OF_TWO)],
    answer=messages.Standing,
    also=[faults.Expired, faults.Cancelled, faults.Contradiction, faults.KeyReused],
)
async def give_feedback(call: Call) -> messages.Standing:
    """Say whether a decision was right, or which label would have been."""
    given = _verdict(call.body)
    return await call.durable(
        call.engine.submit_feedback(
            call.names["id"], given.right, given.label, call.body.source, call.body.key
        )
    )


@dataclass(frozen=True, slots=True)
class _Given:
    right: bool | None
    label: messages.Label | None


def _verdict(verdict: Verdict, where: str = "$") -> _Given:
    right, label = verdict.right, verdict.label
    if (right is UNSET) == (label is UNSET):
        raise faults.Refused(
            'say either "right": true, "right": false, or "label": the right one', where=where
        )
    return _Given(None if right is UNSET else right, None if label is UNSET else label)


@operation(
    "POST",
    "/v1/models/{name}/decisions:batch",
    "decide",
    body=messages.Questions,
    answer=messages.ToldMany,
    status=201,
    also=[faults.KeyReused],
)
async def decide_many(call: Call) -> messages.ToldMany:
    """Say labels for many contexts, or for none of them."""
    questions = call.body.decisions
    _check_batch(call, len(questions))
    for i, question in enumerate(questions):
        _question(call, question, f"$.decisions[{i}]")
    return messages.ToldMany(await call.durable(call.engine.submit_decide_many(questions)))


@operation(
    "POST",
    "/v1/feedback:batch",
    "feedback",
    body=messages.Answers,
    answer=messages.Outcomes,
)
async def give_feedback_many(call: Call) -> messages.Outcomes:
    """Give feedback on many decisions. Each is taken or refused by itself."""
    answers = call.body.feedback
    _check_batch(call, len(answers))
    outcomes: list[Any] = [None] * len(answers)
    places: dict[str, list[int]] = {}
    for i, answer in enumerate(answers):
        _verdict(answer, f"$.feedback[{i}]")
        try:
            model = call.service.model_of(answer.id)
            call.permit("feedback", model)
            places.setdefault(model, []).append(i)
        except ServiceError as fault:
            outcomes[i] = fault
    submitted: list[tuple[list[int], Pending[list[messages.Standing | ServiceError]]]] = []
    for model, chosen in places.items():
        mine = [answers[i] for i in chosen]
        try:
            submitted.append((chosen, call.engine_of(model).submit_feedback_many(mine)))
        except ServiceError as fault:
            if len(places) == 1:
                raise
            for i in chosen:
                outcomes[i] = fault
    for chosen, pending in submitted:
        for i, result in zip(chosen, await call.durable(pending), strict=True):
            outcomes[i] = result
    return messages.Outcomes([*map(_outcome, answers, outcomes)])


def _outcome(answer: messages.Answer, result: messages.Standing | ServiceError) -> Outcome:
    if isinstance(result, ServiceError):
        return Outcome(id=answer.id, problem=problem_of(result))
    return Outcome(id=answer.id, state=result.state)


# One decision.


@operation("GET", "/v1/decisions/{id}", "read", answer=messages.Record)
async def look(call: Call) -> messages.Record:
    """All that is kept of a decision."""
    return await call.apart(call.engine.look, call.names["id"])


@operation("DELETE", "/v1/decisions/{id}", "admin", answer=messages.Standing)
async def erase(call: Call) -> messages.Standing:
    """Erase what is stored about the context of a decision, and rebuild the learner without it."""
    return await call.durable(await call.apart(call.engine.submit_erase, call.names["id"]))


@operation(
    "PUT",
    "/v1/decisions/{id}/feedback",
    "feedback",
    body=Annotated[Verdict, Meta(extra_json_schema=ONE_OF_TWO)],
    answer=messages.Standing,
    also=[faults.Expired, faults.Cancelled, faults.Contradiction],
)
async def revise(call: Call) -> messages.Standing:
    """Replace the feedback on a decision: it is learned as if it had always been so."""
    given = _verdict(call.body)
    pending = await call.apart(
        call.engine.submit_revise, call.names["id"], given.right, given.label
    )
    return await call.durable(pending)


@operation(
    "DELETE",
    "/v1/decisions/{id}/feedback",
    "feedback",
    answer=messages.Standing,
    also=[faults.Expired, faults.Cancelled, faults.Contradiction],
)
async def revoke(call: Call) -> messages.Standing:
    """Take back the feedback on a decision: the learner is rebuilt without it."""
    return await call.durable(await call.apart(call.engine.submit_revoke, call.names["id"]))


@operation(
    "POST",
    "/v1/decisions/{id}/cancel",
    "decide",
    answer=messages.Standing,
    also=[faults.Expired, faults.Contradiction],
)
async def cancel(call: Call) -> messages.Standing:
    """Say that a decision was not used. No feedback on it is taken any more."""
    return await call.durable(await call.apart(call.engine.submit_cancel, call.names["id"]))


@operation(
    "POST",
    "/v1/decisions/{id}/shown",
    "decide",
    answer=messages.Standing,
    also=[faults.Expired, faults.Cancelled, faults.Contradiction],
)
async def show(call: Call) -> messages.Standing:
    """Say that a decision was shown, where the model counts only those (deferred = true)."""
    return await call.durable(call.engine.submit_shown(call.names["id"]))


# Models.


@operation("GET", "/v1/models", None, answer=messages.ModelList, also=[faults.NoToken])
async def list_models(call: Call) -> messages.ModelList:
    """The models that the bearer of the token may read."""
    configured = call.service.configuration.models
    names = filter(call.may_read, call.service.models)
    titles = [(name, configured[name].title if name in configured else "") for name in names]
    return messages.ModelList([messages.ModelName(name, title) for name, title in titles])


@operation("GET", "/v1/models/{name}", "read", answer=messages.Card)
async def card(call: Call) -> messages.Card:
    """What a model is, what it was told, and how well it does."""
    return await call.apart(call.engine.card)


@operation(
    "POST",
    "/v1/models/{name}/retrain",
    "admin",
    body=messages.Retraining,
    answer=messages.Card,
    status=202,
    also=[faults.Contradiction],
)
async def retrain(call: Call) -> messages.Card:
    """Build another learner from the journal. The present one answers until it is ready."""
    return await call.durable(await call.apart(call.engine.submit_retrain, call.body))


@operation(
    "POST",
    "/v1/models/{name}/labels",
    "admin",
    body=messages.LabelChange,
    answer=messages.Card,
    also=[faults.Contradiction],
)
async def change_labels(call: Call) -> messages.Card:
    """Add labels, and retire labels: these are not said any more."""
    return await call.durable(await call.apart(call.engine.submit_labels, call.body))


@operation(
    "PUT",
    "/v1/models/{name}/sources/{source}",
    "admin",
    body=messages.SourceChange,
    answer=messages.Card,
)
async def weigh_source(call: Call) -> messages.Card:
    """Say how much the feedback of a source counts, or put it into quarantine."""
    return await call.durable(
        await call.apart(call.engine.submit_source, call.names["source"], call.body)
    )


@operation("DELETE", "/v1/models/{name}/sources/{source}", "admin", answer=messages.Card)
async def remove_source(call: Call) -> messages.Card:
    """Remove all feedback of a source, and rebuild the learner without it."""
    return await call.durable(
        await call.apart(call.engine.submit_remove_source, call.names["source"])
    )


# The service itself.


@operation("GET", "/health", None, answer=messages.Health)
async def health(call: Call) -> messages.Health:
    """Whether the process answers."""
    return messages.Health()


@operation("GET", "/ready", None, answer=messages.Readiness, also=[faults.Unavailable])
async def ready(call: Call) -> messages.Readiness:
    """Whether requests are taken: all models are compiled and caught up with the journal."""
    if reason := call.service.unready():
        raise faults.Unavailable(reason)
    return messages.Readiness("ready", list(call.service.models))


@operation("GET", "/metrics", "read", answer=CONTENT_TYPE)
async def metrics(call: Call) -> bytes:
    """Metrics for Prometheus. With tokens, this needs one that may read every model."""
    return call.metrics.text()


@operation("GET", "/openapi.json", None, answer=dict[str, Any])
async def openapi(call: Call) -> dict[str, Any]:
    """This document."""
    return describe()


# The OpenAPI document.


def describe() -> dict[str, Any]:
    """OpenAPI 3.1, from the operations and the types of their messages."""
    types = [o.body for o in OPERATIONS if o.body is not None]
    types += [o.answer for o in OPERATIONS if not isinstance(o.answer, str)]
    types.append(messages.Problem)
    references, schemas = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    found = list(zip(types, references, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for made in OPERATIONS:
        paths.setdefault(made.path, {})[made.method.lower()] = _described(made, found)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "onebit",
            "version": __version__,
            "description": "Decide now, learn when the answer comes.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _described(made: Operation, found: list[tuple[Any, Any]]) -> dict[str, Any]:
    def content(kind: Any, media: str = JSON.decode()) -> dict[str, Any]:
        if isinstance(kind, str):
            return {kind: {"schema": {"type": "string"}}}
        return {media: {"schema": next(schema for known, schema in found if known is kind)}}

    titles: dict[int, list[str]] = {}
    for fault in made.faults:
        titles.setdefault(fault.status, []).append(fault.title)
    succeeded: dict[str, Any] = {
        "description": HTTPStatus(made.status).phrase,
        "content": content(made.answer),
    }
    if made.run is decide:
        text = "where the decision can be read again"
        succeeded["headers"] = {"Location": {"description": text, "schema": {"type": "string"}}}
    responses: dict[str, Any] = {str(made.status): succeeded}
    for status, said in sorted(titles.items()):
        responses[str(status)] = {
            "description": "; ".join(said),
            "content": content(messages.Problem, PROBLEM.decode()),
        }
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            text = "seconds after which the request may succeed"
            schema = {"description": text, "schema": {"type": "integer"}}
            responses[str(status)]["headers"] = {"Retry-After": schema}
    described: dict[str, Any] = {
        "operationId": made.name,
        "summary": made.summary,
        "responses": responses,
    }
    names = re.findall(r"{(\w+)}", made.path)
    if names:
        described["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": NAMES[name]} for name in names
        ]
    if made.body is not None:
        described["requestBody"] = {"required": True, "content": content(made.body)}
    if made.verb is not None or faults.NoToken in made.faults:
        described["security"] = [{}, {"token": []}]
    return described


# The application.


class App:
    """The ASGI application."""

    def __init__(self, service: Service) -> None:
        self.service, self.commits, self.metrics = service, Commits(), Metrics(service)
        paths: dict[str, dict[str, Operation]] = {}
        for made in OPERATIONS:
            paths.setdefault(made.path, {})[made.method] = made
        routes = [Route(path, _Resource(self, path, made)) for path, made in paths.items()]
        routes += dashboard_of(service).routes()
        self._router = Router(routes, default=_Resource(self, "", {}), redirect_slashes=False)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._router(scope, receive, send)


def make_app(service: Service) -> App:
    """The application for a server such as uvicorn."""
    return App(service)


class _Resource:
    """All operations of one path."""

    def __init__(self, app: App, path: str, operations: dict[str, Operation]) -> None:
        self._app, self._path, self._operations = app, path, operations
        if "GET" in operations:
            operations = {**operations, "HEAD": operations["GET"]}
        self._by_method = operations
        self._allowed = ", ".join(sorted(operations)).encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        started, method = time.perf_counter(), scope["method"]
        call = Call(self._app, scope.get("path_params", {}))
        media, body, status = PROBLEM, b"", 500
        try:
            chosen = self._by_method.get(method)
            if chosen is None:
                self._refuse(method, call)
            else:
                media, body = await self._run(chosen, call, scope, receive)
                status = chosen.status
        except ServiceError as fault:
            body, status = _encode(problem_of(fault)), fault.status
            _explain(fault, call.headers)
        except _Gone:
            status = 499  # the client closed the connection; there is nobody to answer
        except Exception:
            log.exception("internal error in %s %s", method, self._path)
            body = _encode(problem_of(ServiceError("see the log of the service")))
        seconds = time.perf_counter() - started
        known = method if method in self._by_method else "other"
        self._app.metrics.requests.add(known, self._path or "unknown", status, seconds)
        if self._app.service.configuration.service.access_log:
            _log_access(scope, call, status, seconds)
        if status != 499:
            headers = [(b"content-type", media), (b"content-length", b"%d" % len(body))]
            headers += call.headers
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": body})

    def _refuse(self, method: str, call: Call) -> None:
        if not self._operations:
            raise faults.UnknownPath("no such path; /openapi.json lists all of them")
        call.headers.append((b"allow", self._allowed))
        raise faults.WrongMethod(f"{method} is not possible here; try {self._allowed.decode()}")

    async def _run(
        self, chosen: Operation, call: Call, scope: Any, receive: Any
    ) -> tuple[bytes, bytes]:
        headers = dict(scope["headers"])
        configuration = self._app.service.configuration
        _check_names(call.names)
        if chosen.verb is not None or chosen.run is list_models:
            call.token = _token(configuration, headers)
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
            call.body = _decoded(chosen, data)
        answer = await chosen.run(call)
        if isinstance(answer, bytes):
            return chosen.answer.encode(), answer
        return JSON, _encode(answer)


class _Gone(Exception):
    """The client closed the connection in the middle of its request."""


def _explain(fault: ServiceError, headers: Headers) -> None:
    """Headers that belong to a fault."""
    if fault.retry_after is not None:
        headers.append((b"retry-after", b"%d" % math.ceil(fault.retry_after)))
    if isinstance(fault, faults.NoToken):
        headers.append((b"www-authenticate", b"Bearer"))
    if isinstance(fault, faults.TooLarge):  # the rest of the body is not read
        headers.append((b"connection", b"close"))


def _check_names(names: dict[str, str]) -> None:
    for name, value in names.items():
        if not _PATTERNS[name].fullmatch(value):
            if name == "name":
                raise faults.UnknownModel(f"no model {value!r}")
            if name == "id":
                raise faults.UnknownDecision(f"no decision {value!r}")
            raise faults.Refused(f"the {name} in the path must match {NAMES[name]['pattern']}")


def dashboard_of(service: Service) -> Dashboard:
    """The pages that show the models of a service."""
    return Dashboard(
        lambda: service.journal,
        lambda headers: readable(service.configuration, headers),
        lambda: service.configuration.tokens is not None,
        lambda model: service.models[model].copy_of_learner(),
    )


def readable(configuration: Configuration, headers: Mapping[bytes, bytes]) -> Callable[[str], bool]:
    """Which models a request may read; a fault if it has no token, or comes from elsewhere."""
    token = _token(configuration, headers)
    if token is None:
        _check_origin(headers)
        return lambda model: True
    return lambda model: token.permits("read", model)


def _token(configuration: Configuration, headers: Mapping[bytes, bytes]) -> Token | None:
    """The token of a request; None if none is needed."""
    if configuration.tokens is None:
        return None
    scheme, _, secret = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    if scheme.lower() != "bearer":
        raise faults.NoToken("send a token: Authorization: Bearer ...")
    token = configuration.tokens.find(secret.strip())
    if token is None:
        raise faults.NoToken("this token is not known")
    return token


def _check_origin(headers: Mapping[bytes, bytes]) -> None:
    """Without tokens, refuse what a page of another site may have made a browser send."""
    host = headers.get(b"host", b"").decode("latin-1")
    name = host if host.count(":") > 1 and "]" not in host else host.rpartition(":")[0] or host
    if host and not is_loopback(name):
        raise faults.NotPermitted("without tokens, only localhost may be asked for by name")
    origin = headers.get(b"origin", b"").decode("latin-1")
    if origin and urlsplit(origin).netloc != host:
        raise faults.NotPermitted("without tokens, pages of other sites may not send requests")


async def _read(headers: dict[bytes, bytes], receive: Any, limit: int) -> bytes:
    """The body, unless it is too long or not JSON. The server watches over the time it takes."""
    media = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if media != JSON:
        raise faults.WrongMediaType("send JSON, with the header content-type: application/json")
    if int(headers.get(b"content-length", b"0")) > limit:
        raise faults.TooLarge(f"a body has at most {limit:,} bytes")
    parts: list[bytes] = []
    size, unfinished = 0, True
    while unfinished:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise _Gone
        parts.append(event.get("body", b""))
        size, unfinished = size + len(parts[-1]), event.get("more_body", False)
        if size > limit:
            raise faults.TooLarge(f"a body has at most {limit:,} bytes")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _decoded(chosen: Operation, data: bytes) -> Any:
    assert chosen.decode is not None
    try:
        return chosen.decode(data)
    except msgspec.ValidationError as error:
        detail, _, path = str(error).partition(" - at ")
        where = _located(path.strip("`") or "$", data)
        raise faults.Refused(detail.replace("`", ""), where=where) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise faults.Malformed(f"not JSON: {error}") from None
    except RecursionError:
        raise faults.Malformed("lists in lists without end") from None


def _located(path: str, data: bytes) -> str:
    """The path with the name of the feature, where msgspec says only that it is one of them."""
    if not path.endswith(".context[...]"):
        return path
    before = path.removesuffix("[...]")
    try:
        found = msgspec.json.decode(data)
    except msgspec.MsgspecError:  # a number beyond all floats
        return path
    for name, index in re.findall(r"\.(\w+)|\[(\d+)\]", before):
        found = found[name] if name else found[int(index)]
    for name, value in found.items():
        try:
            msgspec.convert(value, messages.Value)
        except msgspec.ValidationError:
            return f"{before}.{name}" if name.isidentifier() else f"{before}[{name!r}]"
    return path


def _log_access(scope: Any, call: Call, status: int, seconds: float) -> None:
    """One line; without the query, headers and body, where secrets might be."""
    path = scope.get("raw_path", b"").partition(b"?")[0].decode("ascii", "backslashreplace")
    client = scope.get("client") or ("-",)
    access_log.info(
        "%s %s %s %s %d %.1f ms",
        client[0],
        call.token.name if call.token else "-",
        scope["method"],
        path if path.isprintable() else repr(path),
        status,
        1000 * seconds,
    )
