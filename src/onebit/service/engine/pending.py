"""Results that are not on disk yet."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Concatenate, Generic, ParamSpec, TypeVar

T = TypeVar("T")
S = TypeVar("S")
P = ParamSpec("P")


class Pending(Generic[T]):
    """A result, and the future of the commit that makes it durable."""

    __slots__ = ("future", "value")

    def __init__(self, future: Future[None], value: T) -> None:
        self.future, self.value = future, value

    def wait(self) -> T:
        """The result, once it is on disk."""
        self.future.result()
        return self.value


DONE: Future[None] = Future()
DONE.set_result(None)
UNWRITTEN: Future[None] = Future()  # of what no commit has yet; never done


def waiting(submit: Callable[Concatenate[S, P], Pending[T]]) -> Callable[Concatenate[S, P], T]:
    """The same method, for those who wait until its result is on disk."""

    @functools.wraps(submit)
    def waits(self: S, /, *args: P.args, **options: P.kwargs) -> T:
        return submit(self, *args, **options).wait()

    return waits


def all_done(commits: Iterable[Future[None]]) -> Future[None]:
    """Done when all of some commits are, and failed if any of them has."""
    waited = list(dict.fromkeys(commits))
    if not waited:
        return DONE
    if len(waited) == 1:
        return waited[0]
    result: Future[None] = Future()
    lock, left = threading.Lock(), len(waited)

    def count(commit: Future[None]) -> None:
        nonlocal left
        with lock:
            left -= 1
            is_last = left == 0
        if is_last:
            error = next((error for done in waited if (error := done.exception())), None)
            result.set_exception(error) if error else result.set_result(None)

    for commit in waited:
        commit.add_done_callback(count)
    return result
