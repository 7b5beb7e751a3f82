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
import math
import random
import time
import uuid
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlsplit

import httpx
import msgspec
from msgspec.structs import replace

from onebit.service.faults import ServiceError, Unavailable
from onebit.service.messages import (
    Card,
    Label,
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

FIRST_WAIT, LONGEST_WAIT = 0.05, 5.0  # seconds between two tries
LATER = (502, 503, 504)  # the service, or a proxy before it, asks for another try
T = TypeVar("T")
D = TypeVar("D", bound=Told)


# Requests. The two clients differ only in how they send them.


class _Request(msgspec.Struct, Generic[T]):
    method: str
    path: str
    answer: Any  # the type T of the answer
    body: Any = None
    is_repeatable: bool = True  # doing it twice is like doing it once


def _model(name: str, tail: str = "") -> str:
    return f"/v1/models/{quote(name, safe='')}{tail}"


def _decision(id: str, tail: str = "") -> str:
    return f"/v1/decisions/{quote(id, safe='')}{tail}"


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _decide(model: str, question: Mapping[str, Any]) -> _Request[Told]:
    return _Request("POST", _model(model, "/decisions"), Told, _question(question))


def _decide_many(model: str, questions: Iterable[Mapping[str, Any]]) -> _Request[ToldMany]:
    body = {"decisions": [*map(_question, questions)]}
    return _Request("POST", _model(model, "/decisions:batch"), ToldMany, body)


def _question(question: Mapping[str, Any]) -> dict[str, Any]:
    key = question.get("key")
    own = uuid.uuid4().hex if key is None else key
    return _given(**question) | {"context": _sent(question["context"]), "key": own}


def _sent(context: Any) -> Any:
    """A context as JSON has it: an array as a list, (indices, values) as a list of pairs."""
    if isinstance(context, tuple) and len(context) == 2:
        return [list(pair) for pair in zip(*map(_sent, context), strict=True)]
    if isinstance(context, Mapping):
        sent = {name: value for name, value in context.items() if value == value}  # not NaN
        _check_finite(sent.values())
        return sent
    array: Any = context
    sent = array.tolist() if hasattr(array, "tolist") else array
    if isinstance(sent, bytes | bytearray):
        raise TypeError("a context is a text, not bytes: decode it")
    if isinstance(sent, list):
        _check_finite(sent)
    return sent


def _check_finite(values: Iterable[Any]) -> None:
    """JSON has no infinity: it would be sent as null, which is a category."""
    if any(isinstance(value, float) and not math.isfinite(value) for value in values):
        raise ValueError("a context has a number that is not finite; leave it out")


def _plain(number: Any) -> Any:
    """A number of numpy as a number of Python."""
    if hasattr(number, "item"):
        return number.item()
    raise TypeError(f"{number!r} cannot be sent as JSON")


_encode = msgspec.json.Encoder(enc_hook=_plain).encode


def _feedback_many(answers: Iterable[Mapping[str, Any]]) -> _Request[Outcomes]:
    body = {"feedback": [_given(**answer) for answer in answers]}
    return _Request("POST", "/v1/feedback:batch", Outcomes, body)


def _feedback(id: str, **answer: Any) -> _Request[Standing]:
    return _Request("POST", _decision(id, "/feedback"), Standing, _given(**answer))


def _at(method: str, id: str, tail: str, body: Any = None) -> _Request[Standing]:
    return _Request(method, _decision(id, tail), Standing, body)


def _admin(method: str, model: str, tail: str, body: Any = None) -> _Request[Card]:
    return _Request(method, _model(model, tail), Card, body, is_repeatable=method != "POST")


def _source(method: str, model: str, source: str, body: Any = None) -> _Request[Card]:
    return _admin(method, model, f"/sources/{quote(source, safe='')}", body)


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
                fault, may_repeat = _fault(answer), True
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
        return msgspec.json.decode(response.content, type=request.answer)
    raise _fault(response)


def _fault(response: httpx.Response) -> ServiceError:
    retry_after = response.headers.get("retry-after", "")
    try:
        problem = msgspec.json.decode(response.content, type=Problem)
    except (msgspec.MsgspecError, UnicodeDecodeError):  # not of the service, but of a proxy
        title, status = response.reason_phrase, response.status_code
        problem = Problem(type="", title=title, status=status, detail=response.text[:200])
    return fault_of(problem, float(retry_after) if retry_after.isdigit() else None)


def _told(told: D) -> D:
    """JSON has no keys but texts: labels that are numbers become numbers again."""
    if isinstance(told.label, str):
        return told
    return replace(told, probabilities={int(k): p for k, p in told.probabilities.items()})


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

    def decide(
        self,
        model: str,
        context: Any,
        *,
        among: Sequence[Label] | None = None,
        key: str | None = None,
    ) -> Told:
        """Say a label for a context."""
        question = {"context": context, "among": among, "key": key}
        return _told(self._do(_decide(model, question)))

    def decide_many(self, model: str, questions: Iterable[Mapping[str, Any]]) -> list[Told]:
        """Say labels for many contexts, or for none: [{"context": ..., "among": ...}, ...]."""
        return [*map(_told, self._do(_decide_many(model, questions)).decisions)]

    def feedback(
        self,
        id: str,
        *,
        right: bool | None = None,
        label: Label | None = None,
        source: str | None = None,
        key: str | None = None,
    ) -> Standing:
        """Say whether a decision was right, or which label would have been."""
        return self._do(_feedback(id, right=right, label=label, source=source, key=key))

    def feedback_many(self, answers: Iterable[Mapping[str, Any]]) -> list[Outcome]:
        """Feedback on many decisions: [{"id": ..., "right": True}, ...]. Some may be refused."""
        return self._do(_feedback_many(answers)).feedback

    def revise(self, id: str, *, right: bool | None = None, label: Label | None = None) -> Standing:
        """Replace the feedback on a decision."""
        return self._do(_at("PUT", id, "/feedback", _given(right=right, label=label)))

    def revoke(self, id: str) -> Standing:
        """Take back the feedback on a decision."""
        return self._do(_at("DELETE", id, "/feedback"))

    def cancel(self, id: str) -> Standing:
        """Say that a decision was not used."""
        return self._do(_at("POST", id, "/cancel"))

    def shown(self, id: str) -> Standing:
        """Say that a decision was shown, where the model counts only those."""
        return self._do(_at("POST", id, "/shown"))

    def erase(self, id: str) -> Standing:
        """Erase what is stored about the context of a decision."""
        return self._do(_at("DELETE", id, ""))

    def look(self, id: str) -> Record:
        """All that is kept of a decision."""
        return _told(self._do(_Request[Record]("GET", _decision(id), Record)))

    def models(self) -> list[str]:
        """The names of the models that the token may read."""
        listed = self._do(_Request[ModelList]("GET", "/v1/models", ModelList))
        return [model.name for model in listed.models]

    def card(self, model: str) -> Card:
        """What a model is, what it was told, and how well it does."""
        return self._do(_admin("GET", model, ""))

    def retrain(self, model: str, **change: Any) -> Card:
        """Build another learner from the journal: learner=, settings=, seed=."""
        return self._do(_admin("POST", model, "/retrain", change))

    def change_labels(
        self, model: str, *, add: Sequence[Label] = (), retire: Sequence[Label] = ()
    ) -> Card:
        """Add labels, and retire labels: these are not said any more."""
        body = {"add": list(add), "retire": list(retire)}
        return self._do(_admin("POST", model, "/labels", body))

    def weigh_source(
        self,
        model: str,
        source: str,
        *,
        weight: float | None = None,
        quarantined: bool | None = None,
    ) -> Card:
        """Say how much the feedback of a source counts, or put it into quarantine."""
        body = _given(weight=weight, quarantined=quarantined)
        return self._do(_source("PUT", model, source, body))

    def remove_source(self, model: str, source: str) -> Card:
        """Remove all feedback of a source."""
        return self._do(_source("DELETE", model, source))

    def ready(self) -> list[str]:
        """The models that take requests; waits for them as long as patience lasts."""
        return self._do(_Request[Readiness]("GET", "/ready", Readiness)).models


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

    async def decide(
        self,
        model: str,
        context: Any,
        *,
        among: Sequence[Label] | None = None,
        key: str | None = None,
    ) -> Told:
        """Say a label for a context."""
        question = {"context": context, "among": among, "key": key}
        return _told(await self._do(_decide(model, question)))

    async def decide_many(self, model: str, questions: Iterable[Mapping[str, Any]]) -> list[Told]:
        """Say labels for many contexts, or for none: [{"context": ..., "among": ...}, ...]."""
        return [*map(_told, (await self._do(_decide_many(model, questions))).decisions)]

    async def feedback(
        self,
        id: str,
        *,
        right: bool | None = None,
        label: Label | None = None,
        source: str | None = None,
        key: str | None = None,
    ) -> Standing:
        """Say whether a decision was right, or which label would have been."""
        return await self._do(_feedback(id, right=right, label=label, source=source, key=key))

    async def feedback_many(self, answers: Iterable[Mapping[str, Any]]) -> list[Outcome]:
        """Feedback on many decisions: [{"id": ..., "right": True}, ...]. Some may be refused."""
        return (await self._do(_feedback_many(answers))).feedback

    async def revise(
        self, id: str, *, right: bool | None = None, label: Label | None = None
    ) -> Standing:
        """Replace the feedback on a decision."""
        return await self._do(_at("PUT", id, "/feedback", _given(right=right, label=label)))

    async def revoke(self, id: str) -> Standing:
        """Take back the feedback on a decision."""
        return await self._do(_at("DELETE", id, "/feedback"))

    async def cancel(self, id: str) -> Standing:
        """Say that a decision was not used."""
        return await self._do(_at("POST", id, "/cancel"))

    async def shown(self, id: str) -> Standing:
        """Say that a decision was shown, where the model counts only those."""
        return await self._do(_at("POST", id, "/shown"))

    async def erase(self, id: str) -> Standing:
        """Erase what is stored about the context of a decision."""
        return await self._do(_at("DELETE", id, ""))

    async def look(self, id: str) -> Record:
        """All that is kept of a decision."""
        return _told(await self._do(_Request[Record]("GET", _decision(id), Record)))

    async def models(self) -> list[str]:
        """The names of the models that the token may read."""
        listed = await self._do(_Request[ModelList]("GET", "/v1/models", ModelList))
        return [model.name for model in listed.models]

    async def card(self, model: str) -> Card:
        """What a model is, what it was told, and how well it does."""
        return await self._do(_admin("GET", model, ""))

    async def retrain(self, model: str, **change: Any) -> Card:
        """Build another learner from the journal: learner=, settings=, seed=."""
        return await self._do(_admin("POST", model, "/retrain", change))

    async def change_labels(
        self, model: str, *, add: Sequence[Label] = (), retire: Sequence[Label] = ()
    ) -> Card:
        """Add labels, and retire labels: these are not said any more."""
        body = {"add": list(add), "retire": list(retire)}
        return await self._do(_admin("POST", model, "/labels", body))

    async def weigh_source(
        self,
        model: str,
        source: str,
        *,
        weight: float | None = None,
        quarantined: bool | None = None,
    ) -> Card:
        """Say how much the feedback of a source counts, or put it into quarantine."""
        body = _given(weight=weight, quarantined=quarantined)
        return await self._do(_source("PUT", model, source, body))

    async def remove_source(self, model: str, source: str) -> Card:
        """Remove all feedback of a source."""
        return await self._do(_source("DELETE", model, source))

    async def ready(self) -> list[str]:
        """The models that take requests; waits for them as long as patience lasts."""
        return (await self._do(_Request[Readiness]("GET", "/ready", Readiness))).models
