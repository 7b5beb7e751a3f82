"""How long single requests hold the event loop, and how much memory they take.

    python -m benchmarks.stalls

A service with models of 999 and of nine labels, for names and for columns, runs in a process of its
own, with the default limits. The worst requests that these allow are sent one by one. Meanwhile a
task on the event loop wakes up every millisecond, and two things are told of each kind of request:

    late    by how much the task was late at most
    held    how long the process itself kept it from running at most

Time in which other processes had the processor is in the first one only, so the second one depends
less on what else the machine does. It counts what the event loop's thread computes between two
wake-ups, and what other threads of the process compute while the event loop waits for them. Such
threads may also compute beside the event loop, so the event loop is never held for longer than the
second number says.
"""

from __future__ import annotations

import asyncio
import random
import socket
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec

from onebit.service.configuration import check
from onebit.service.http.app import App, answer
from onebit.service.http.metrics import Requests
from onebit.service.http.reading import waited
from onebit.service.http.server import make_server
from onebit.service.running import return_large_blocks, settle_memory
from onebit.service.service import Service

MODELS = """
[service]
journal = "x.journal"
durability = "normal"
access_log = false
[models.many]
labels = 999
[models.few]
labels = 9
[models.many_columns]
labels = 999
[models.few_columns]
labels = 9
"""
EVERY = 0.001  # seconds
GOAL = 50.0  # ms for which a request may hold the event loop


class Moment(NamedTuple):
    """Clocks, in seconds."""

    now: float
    computed: float  # by this thread
    waited: float  # of this thread for a processor
    computed_by_all: float  # by all threads of the process

    @classmethod
    def take(cls) -> Moment:
        return cls(time.perf_counter(), time.thread_time(), waited(), time.process_time())

    def held_until(self, then: Moment) -> float:
        """How long the process kept a task from running that wanted to sleep for EVERY."""
        passed, computed, waited, by_all = (b - a for a, b in zip(self, then, strict=True))
        kept = passed - computed - waited - EVERY  # waiting for other threads, or for the disk
        return computed + max(0.0, min(kept, by_all - computed))


class Watched:
    """An application, and a task beside it that notices how late it is.

    GET /watched tells by how much it was late at most since the last time, and for how long it was
    held, in ms, and the memory in MiB; the query names a model of which a snapshot is to be taken
    meanwhile.
    """

    def __init__(self, service: Service) -> None:
        self._service, self._app = service, App(service, Requests())
        self._late, self._held, self._task = 0.0, 0.0, None

    async def _watch(self) -> None:
        before = Moment.take()
        while True:
            await asyncio.sleep(EVERY)
            after = Moment.take()
            self._late = max(self._late, after.now - before.now - EVERY)
            self._held = max(self._held, before.held_until(after))
            before = after

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self._task = self._task or asyncio.create_task(self._watch())
        if scope["path"] != "/watched":
            await self._app(scope, receive, send)
            return
        if model := scope["query_string"].decode():
            await asyncio.to_thread(self._service.models[model].snapshot)
        await asyncio.sleep(2 * EVERY)
        told = msgspec.json.encode([1000 * self._late, 1000 * self._held, memory()])
        self._late = self._held = 0.0
        await answer(send, 200, b"application/json", told)


def serve(folder: str, listener: socket.socket) -> None:
    path = Path(folder, "x.toml")
    path.write_text(MODELS)
    return_large_blocks()
    with Service(check(path)) as service:
        service.warm_up()
        settle_memory()
        server = make_server(None, service.configuration.service)
        server.config.app = Watched(service)
        server.run([listener])


def memory() -> float:
    """Of this process, in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def new_names(count: int) -> dict[str, float]:
    return {f"name {random.getrandbits(64):x}": random.random() for _ in range(count)}


def words(count: int) -> str:
    return " ".join(f"{random.getrandbits(40):x}" for _ in range(count))


def pairs(count: int) -> list[list[float]]:
    return [[i, 1.0] for i in sorted(random.sample(range(2**24), count))]


def main() -> None:
    random.seed(1)
    with tempfile.TemporaryDirectory() as folder:
        listener = socket.create_server(("127.0.0.1", 0))
        server = get_context("spawn").Process(target=serve, args=(folder, listener))
        server.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            with httpx.Client(base_url=url, timeout=600) as client:
                measure(client)
        finally:
            server.terminate()
            server.join()


def measure(client: httpx.Client) -> None:
    ids: dict[str, list[str]] = defaultdict(list)
    longest = 0.0

    def watched(model: str = "") -> list[float]:
        return client.get(f"/watched?{model}").json()

    def tell(name: str, found: list[float], took: str = "") -> None:
        nonlocal longest
        late, held, used = found
        longest = max(longest, held)
        row = f"{name:<46} {late:8.1f} ms {held:8.1f} ms {took:>10} {used:8,.0f} MiB"
        print(row, flush=True)

    def run(name: str, send: Callable[[], httpx.Response], times: int = 3) -> None:
        watched()
        started = time.perf_counter()
        for _ in range(times):
            answer = send()
            assert answer.is_success, answer.text
        took = (time.perf_counter() - started) / times
        tell(name, watched(), f"{took:.2f} s")

    def decide(model: str, context: Any) -> httpx.Response:
        answer = client.post(f"/v1/models/{model}/decisions", json={"context": context})
        ids[model].append(answer.json().get("id", ""))
        return answer

    def batch(model: str, contexts: list[Any]) -> httpx.Response:
        body = {"decisions": [{"context": context} for context in contexts]}
        answer = client.post(f"/v1/models/{model}/decisions:batch", json=body)
        ids[model] += [told["id"] for told in answer.json()["decisions"]]
        return answer

    def hear(id: str) -> httpx.Response:
        return client.post(f"/v1/decisions/{id}/feedback", json={"right": False})

    head = f"{'':<46} {'late':>11} {'held':>11} {'took':>10}"
    print(f"{head} {watched()[-1]:8,.0f} MiB at the start")
    run("health", lambda: client.get("/health"), times=100)
    for model in ("many", "few"):
        say = f"{model} labels: "
        run(say + "10,000 new names", lambda m=model: decide(m, new_names(10_000)), times=8)
        run(say + "feedback on 10,000 names", lambda m=model: hear(ids[m].pop()))
        run(say + "a text of 60,000 words", lambda m=model: decide(m, words(60_000)))
        run(say + "feedback on the text", lambda m=model: hear(ids[m].pop()))
        run(say + "10,000 pairs", lambda m=f"{model}_columns": decide(m, pairs(10_000)))
        run(say + "feedback on the pairs", lambda m=f"{model}_columns": hear(ids[m].pop()))
        many = [new_names(25) for _ in range(600)]
        run(say + "a batch of 600 contexts of 25 names", lambda m=model, c=many: batch(m, c))
        small = [{"a": 1.0}] * 1000
        run(say + "a batch of 1,000 small contexts", lambda m=model, c=small: batch(m, c))
        answers = [{"id": id, "right": True} for id in ids[model][-1000:]]
        run(
            say + "feedback on 1,000 decisions",
            lambda a=answers: client.post("/v1/feedback:batch", json={"feedback": a}),
        )
        run(say + "card", lambda m=model: client.get(f"/v1/models/{m}"))
        run(say + "dashboard", lambda m=model: client.get(f"/dashboard/{m}"))

        tell(say + "a snapshot", watched(model))
    label = {"add": [999]}
    add = partial(client.post, "/v1/models/many/labels", json=label)
    run("many labels: a label is added", add, 1)
    print(f"held for {longest:.1f} ms at most (goal {GOAL:.0f})")


if __name__ == "__main__":
    main()
