"""Operations: how a route is declared, and what it is given when a request comes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import msgspec

from onebit.service import faults
from onebit.service.engine import Engine, Pending
from onebit.service.faults import ServiceError
from onebit.service.messages import END, SOURCE
from onebit.service.tokens import Token, Verb

if TYPE_CHECKING:
    from onebit.service.http.app import App

P = ParamSpec("P")
T = TypeVar("T")
Headers = list[tuple[bytes, bytes]]
JSON, PROBLEM = b"application/json", b"application/problem+json"
NAMES = {  # of the parameters in paths
    "name": {"type": "string", "pattern": f"^[A-Za-z0-9][A-Za-z0-9._-]{{0,63}}{END}"},
    "id": {"type": "string", "pattern": f"^[A-Za-z0-9_-]{{1,64}}{END}"},
    "source": {"type": "string", "pattern": SOURCE},
}


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

    __slots__ = ("_model", "app", "body", "commits", "headers", "names", "service", "token")

    def __init__(self, app: App, names: dict[str, str]) -> None:
        self.app, self.service, self.commits = app, app.service, app.commits
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
            if model in self.service.down:
                raise self.service.fault_of(model)
            known = ", ".join(filter(self.may_read, self.service.models)) or "none"
            raise faults.UnknownModel(f"no model {model!r}; there are: {known}")
        # The engine would make the request wait until it is built from the journal.
        self.service.check_ready()
        return engine

    async def submitted(
        self, engine: Engine, submit: Callable[P, Pending[T]], *args: P.args, **options: P.kwargs
    ) -> Pending[T]:
        """What is submitted to an engine: at once if the engine is free, else from a thread."""
        pending = engine.attempt(submit, *args, **options)
        if pending is None:
            pending = await self.apart(submit, *args, **options)
        return pending

    async def durable(self, pending: Pending[T]) -> T:
        """The result, once it is on disk."""
        await self.commits.wait(pending.future)
        return pending.value

    async def apart(self, function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """The result of what may take long, from a thread: other requests go on meanwhile."""
        return await asyncio.to_thread(function, *args, **options)


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
