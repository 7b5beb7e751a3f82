"""A client of the service, for programs (`Client`) and for asyncio (`AsyncClient`).

    from onebit.client import Client

    with Client("http://127.0.0.1:8331", token="...") as client:
        told = client.decide("news", {"goal": 1, "match": 2})
        client.feedback(told.id, right=True)

When the service is busy or cannot be reached, or the connection breaks, a request is tried again.
This is safe: every decision has an idempotency key, chosen by the caller or else by the client, so
the service makes it once; and the same feedback twice is learned once. A refusal is raised as the
class of `onebit.service.faults` that the service raised.
"""

from __future__ import annotations

import asyncio
import functools
import random
import time
import uuid
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar
from urllib.parse import quote, urlsplit

import msgspec
from msgspec.structs import replace

from onebit.core.extras import how_to_install

try:
    import httpx
except ImportError as error:
    raise ImportError(f"onebit.client needs httpx: {how_to_install('serve', 'httpx')}") from error

from onebit.service.faults import Busy, ServiceError, Unavailable
from onebit.service.messages import (
    LARGEST,
    Card,
    Label,
    LoggedOutcome,
    LoggedOutcomes,
    ModelList,
    Outcome,
    Outcomes,
    Problem,
    Readiness,
    Record,
    Standing,
    Told,
    ToldMany,
    fault_of,
)
from onebit.service.tokens import is_loopback

__all__ = ["AsyncClient", "Client", "ServiceError"]

FIRST_WAIT, LONGEST_WAIT = 0.05, 5.0  # seconds between two tries
LATER = (502, 503, 504)  # the service, or a proxy before it, asks for another try
P = ParamSpec("P")
T = TypeVar("T")
D = TypeVar("D", bound=Told)


# Requests. Each is declared once, in `_Requests`; the clients differ only in how they send it.


class _Request(msgspec.Struct, Generic[T]):
    method: str
    path: str
    answer: Any  # the type of the body that answers it
    body: Any = None
    is_repeatable: bool = True  # doing it twice is like doing it once
    read: Callable[[Any], T] = lambda answer: answer  # the result, from the answer


class _Requests:
    """All that can be asked of a service."""

    def decide(
        self,
        model: str,
        context: Any,
        *,
        among: Sequence[Label] | None = None,
        key: str | None = None,
    ) -> _Request[Told]:
        """Say a label for a context."""
        body = _question({"context": context, "among": among, "key": key})
        return _Request("POST", _model(model, "/decisions"), Told, body, read=_told)

    def decide_many(
        self, model: str, questions: Iterable[Mapping[str, Any]]
    ) -> _Request[list[Told]]:
        """Say labels for many contexts, or for none: [{"context": ..., "among": ...}, ...]."""
        path, body = _model(model, "/decisions:batch"), {"decisions": [*map(_question, questions)]}
        return _Request("POST", path, ToldMany, body, read=lambda a: [*map(_told, a.decisions)])

    def feedback(
        self,
        id: str,
        *,
        right: bool | None = None,
        label: Label | None = None,
        source: str | None = None,
        key: str | None = None,
    ) -> _Request[Standing]:
        """Say whether a decision was right, or which label would have been."""
        body = _given(right=right, label=label, source=source, key=key)
        return _at("POST", id, "/feedback", body)

    def feedback_many(self, answers: Iterable[Mapping[str, Any]]) -> _Request[list[Outcome]]:
        """Feedback on many decisions: [{"id": ..., "right": True}, ...]. Some may be refused."""
        body = {"feedback": [_given(**answer) for answer in answers]}
        path = "/v1/feedback:batch"
        return _Request("POST", path, Outcomes, body, read=lambda a: a.feedback)

    def logged(
        self,
        model: str,
        context: Any,
        said: Label,
        *,
        right: bool | None = None,
        label: Label | None = None,
        propensity: float | None = None,
        propensities: Mapping[Label, float] | None = None,
        among: Sequence[Label] | None = None,
        speaker: str | None = None,
        time: float | None = None,
        source: str | None = None,
        key: str | None = None,
    ) -> _Request[Standing]:
        """Record what another system said for a context, and whether it was right."""
        body = _logged(
            {
                "context": context, "said": said, "right": right, "label": label,
                "propensity": propensity, "propensities": propensities, "among": among,
                "speaker": speaker, "time": time, "source": source, "key": key,
            }
        )  # fmt: skip
        return _Request("POST", _model(model, "/logged"), Standing, body)

    def logged_many(
        self, model: str, items: Iterable[Mapping[str, Any]]
    ) -> _Request[list[LoggedOutcome]]:
        """The same many times: [{"context": ..., "said": ...}, ...]. Some may be refused."""
        path, body = _model(model, "/logged:batch"), {"logged": [*map(_logged, items)]}
        return _Request("POST", path, LoggedOutcomes, body, read=lambda a: a.logged)

    def revise(
        self, id: str, *, right: bool | None = None, label: Label | None = None
    ) -> _Request[Standing]:
        """Replace the feedback on a decision."""
        return _at("PUT", id, "/feedback", _given(right=right, label=label))

    def revoke(self, id: str) -> _Request[Standing]:
        """Take back the feedback on a decision."""
        return _at("DELETE", id, "/feedback")

    def cancel(self, id: str) -> _Request[Standing]:
        """Say that a decision was not used."""
        return _at("POST", id, "/cancel")

    def shown(self, id: str) -> _Request[Standing]:
        """Say that a decision was shown, where the model counts only those."""
        return _at("POST", id, "/shown")

    def erase(self, id: str) -> _Request[Standing]:
        """Erase what is stored about the context of a decision."""
        return _at("DELETE", id, "")

    def look(self, id: str) -> _Request[Record]:
        """All that is kept of a decision."""
        return _Request("GET", _decision(id), Record, read=_told)

    def models(self) -> _Request[list[str]]:
        """The names of the models that the token may read."""
        path = "/v1/models"
        return _Request("GET", path, ModelList, read=lambda a: [model.name for model in a.models])

    def card(self, model: str) -> _Request[Card]:
        """What a model is, what it was told, and how well it does."""
        return _admin("GET", model, "")

    def retrain(self, model: str, **change: Any) -> _Request[Card]:
        """Build another learner from the journal: learner=, settings=, seed=."""
        return _admin("POST", model, "/retrain", change)

    def promote(
        self, model: str, shadow: str | None = None, *, undo: bool = False
    ) -> _Request[Card]:
        """Let a shadow speak from now on; undo: who has spoken before it."""
        return _admin("POST", model, "/promote", _given(shadow=shadow, undo=undo or None))

    def change_labels(
        self, model: str, *, add: Sequence[Label] = (), retire: Sequence[Label] = ()
    ) -> _Request[Card]:
        """Add labels, and retire labels: these are not said any more."""
        return _admin("POST", model, "/labels", {"add": list(add), "retire": list(retire)})

    def weigh_source(
        self,
        model: str,
        source: str,
        *,
        weight: float | None = None,
        quarantined: bool | None = None,
    ) -> _Request[Card]:
        """Say how much the feedback of a source counts, or put it into quarantine."""
        body = _given(weight=weight, quarantined=quarantined)
        return _admin("PUT", model, _source(source), body)

    def remove_source(self, model: str, source: str) -> _Request[Card]:
        """Remove all feedback of a source."""
        return _admin("DELETE", model, _source(source))

    def ready(self) -> _Request[list[str]]:
        """The models that take requests; waits for them as long as patience lasts."""
        return _Request("GET", "/ready", Readiness, read=lambda answer: answer.models)


def _model(name: str, tail: str = "") -> str:
    return f"/v1/models/{quote(name, safe='')}{tail}"


def _decision(id: str, tail: str = "") -> str:
    return f"/v1/decisions/{quote(id, safe='')}{tail}"


def _source(name: str) -> str:
    return f"/sources/{quote(name, safe='')}"


def _at(method: str, id: str, tail: str, body: Any = None) -> _Request[Standing]:
    return _Request(method, _decision(id, tail), Standing, body)


def _admin(method: str, model: str, tail: str, body: Any = None) -> _Request[Card]:
    return _Request(method, _model(model, tail), Card, body, is_repeatable=method != "POST")


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _question(question: Mapping[str, Any]) -> dict[str, Any]:
    key = question.get("key")
    own = uuid.uuid4().hex if key is None else key
    return _given(**question) | {"context": _as_json(question["context"]), "key": own}


def _logged(item: Mapping[str, Any]) -> dict[str, Any]:
    shares = item.get("propensities")
    named = None if shares is None else {str(label): share for label, share in shares.items()}
    return _question(item) | _given(propensities=named)


def _as_json(context: Any) -> Any:
    """A context as JSON has it."""
    values: Any = ()
    if type(context) is dict:
        is_plain, values = _NAMES.issuperset(map(type, context)), context.values()
        is_plain = is_plain and _VALUES.issuperset(map(type, values))
    elif type(context) is list:
        is_plain, values = _NUMBERS.issuperset(map(type, context)), context
    else:
        is_plain = type(context) is str
    if is_plain and all(
        value is None or type(value) is str or -LARGEST <= value <= LARGEST for value in values
    ):
        return context
    from onebit.reading.plain_contexts import (
        plain_context,  # takes long to import, and most are plain
    )

    return plain_context(context)


def _plain(number: Any) -> Any:
    """A number of numpy as a number of Python."""
    if hasattr(number, "item"):
        return number.item()
    raise TypeError(f"{number!r} cannot be sent as JSON")


_encode = msgspec.json.Encoder(enc_hook=_plain).encode
_NAMES = frozenset({str})
_NUMBERS = frozenset({int, float, bool, type(None)})
_VALUES = _NUMBERS | {str}


def _told(told: D) -> D:
    """JSON has no keys but texts: labels that are numbers become numbers again."""
    if isinstance(told.label, str):
        return told
    return replace(told, propensities={int(k): p for k, p in told.propensities.items()})


# Sending.


class _Sender:
    """What both clients share: how a request is written, and when it is tried again."""

    _kind: Any  # of the client of httpx

    def __init__(
        self, url: str, *, token: str | None = None, patience: float = 10.0, timeout: float = 10.0
    ) -> None:
        """url: of the service. token: is sent with every request.

        patience: for how many seconds a request is tried again. timeout: of each try, in seconds.
        """
        self.url, self._patience = url.rstrip("/"), patience
        host = urlsplit(self.url).hostname or ""
        headers = {"content-type": "application/json", "accept": "application/json"}
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        self._http = self._kind(
            base_url=self.url,
            headers=headers,
            timeout=timeout,
            trust_env=not is_loopback(host),  # no proxy on the way to the same machine
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def _written(self, request: _Request[Any]) -> dict[str, Any]:
        content = None if request.body is None else _encode(request.body)
        return {"method": request.method, "url": request.path, "content": content}

    def _steps(self, request: _Request[T]) -> Generator[Any, Any, T]:
        """Yields what to send (a dict) or how long to wait (a float); returns the answer.

        What was sent is answered by a response, or by the error that came instead.
        """
        started, longest = time.monotonic(), FIRST_WAIT
        while True:
            answer = yield self._written(request)
            if isinstance(answer, httpx.Response) and answer.status_code not in LATER:
                return _read(request, answer)
            if isinstance(answer, httpx.Response):
                fault = _fault(answer)
                # A proxy may have passed the request on; who is busy has taken nothing of it.
                may_repeat = request.is_repeatable or isinstance(fault, Busy)
            else:
                said = str(answer) or type(answer).__name__
                fault = Unavailable(f"no answer from {self.url}: {said}")
                may_repeat = request.is_repeatable or isinstance(answer, httpx.ConnectError)
            wait = random.uniform(longest / 2, longest)
            if isinstance(answer, httpx.Response) and fault.retry_after is not None:
                wait += min(fault.retry_after, LONGEST_WAIT)
            longest = min(2 * longest, LONGEST_WAIT)
            if not may_repeat or time.monotonic() - started + wait > self._patience:
                raise fault
            yield wait


def _read(request: _Request[T], response: httpx.Response) -> T:
    """The answer; a fault is raised."""
    if response.is_success:
        return request.read(msgspec.json.decode(response.content, type=request.answer))
    raise _fault(response)


def _fault(response: httpx.Response) -> ServiceError:
    retry_after = response.headers.get("retry-after", "")
    try:
        problem = msgspec.json.decode(response.content, type=Problem)
    except (msgspec.MsgspecError, UnicodeDecodeError):  # not of the service, but of a proxy
        title, status = response.reason_phrase, response.status_code
        problem = Problem(type="", title=title, status=status, detail=response.text[:200])
    return fault_of(problem, float(retry_after) if retry_after.isdigit() else None)


def _sent(make: Callable[Concatenate[Any, P], _Request[T]]) -> Callable[Concatenate[Client, P], T]:
    @functools.wraps(make)
    def send(self: Client, /, *args: P.args, **options: P.kwargs) -> T:
        return self._do(make(self, *args, **options))

    return send


class Client(_Sender):
    """Asks the service, and waits for its answer. Threads may share it."""

    _kind = httpx.Client

    def _do(self, request: _Request[T]) -> T:
        steps, answer = self._steps(request), None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as done:
                return done.value
            if isinstance(step, float):
                time.sleep(step)
                continue
            try:
                answer = self._http.request(**step)
            except httpx.TransportError as error:
                answer = error

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    decide = _sent(_Requests.decide)
    decide_many = _sent(_Requests.decide_many)
    feedback = _sent(_Requests.feedback)
    feedback_many = _sent(_Requests.feedback_many)
    logged = _sent(_Requests.logged)
    logged_many = _sent(_Requests.logged_many)
    revise = _sent(_Requests.revise)
    revoke = _sent(_Requests.revoke)
    cancel = _sent(_Requests.cancel)
    shown = _sent(_Requests.shown)
    erase = _sent(_Requests.erase)
    look = _sent(_Requests.look)
    models = _sent(_Requests.models)
    card = _sent(_Requests.card)
    retrain = _sent(_Requests.retrain)
    promote = _sent(_Requests.promote)
    change_labels = _sent(_Requests.change_labels)
    weigh_source = _sent(_Requests.weigh_source)
    remove_source = _sent(_Requests.remove_source)
    ready = _sent(_Requests.ready)


def _awaited(
    make: Callable[Concatenate[Any, P], _Request[T]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    @functools.wraps(make)
    async def send(self: AsyncClient, /, *args: P.args, **options: P.kwargs) -> T:
        return await self._do(make(self, *args, **options))

    return send


class AsyncClient(_Sender):
    """The same for asyncio: every method is awaited."""

    _kind = httpx.AsyncClient

    async def _do(self, request: _Request[T]) -> T:
        steps, answer = self._steps(request), None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as done:
                return done.value
            if isinstance(step, float):
                await asyncio.sleep(step)
                continue
            try:
                answer = await self._http.request(**step)
            except httpx.TransportError as error:
                answer = error

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    decide = _awaited(_Requests.decide)
    decide_many = _awaited(_Requests.decide_many)
    feedback = _awaited(_Requests.feedback)
    feedback_many = _awaited(_Requests.feedback_many)
    logged = _awaited(_Requests.logged)
    logged_many = _awaited(_Requests.logged_many)
    revise = _awaited(_Requests.revise)
    revoke = _awaited(_Requests.revoke)
    cancel = _awaited(_Requests.cancel)
    shown = _awaited(_Requests.shown)
    erase = _awaited(_Requests.erase)
    look = _awaited(_Requests.look)
    models = _awaited(_Requests.models)
    card = _awaited(_Requests.card)
    retrain = _awaited(_Requests.retrain)
    promote = _awaited(_Requests.promote)
    change_labels = _awaited(_Requests.change_labels)
    weigh_source = _awaited(_Requests.weigh_source)
    remove_source = _awaited(_Requests.remove_source)
    ready = _awaited(_Requests.ready)
