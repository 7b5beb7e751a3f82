"""How long single requests hold the event loop, and how much memory they take.

    python -m benchmarks.stalls

A service with a model of 1,000 labels and one of nine runs in this process, with the limits of the
defaults. The worst requests that these allow are sent one by one. Meanwhile a task on the event
loop wakes up every millisecond; the longest time by which it is late is the stall.
"""

from __future__ import annotations

import asyncio
import random
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from rich import print

from onebit.service.configuration import check
from onebit.service.http.app import make_app
from onebit.service.http.server import make_server
from onebit.service.service import Service

MODELS = """
[service]
journal = "x.journal"
durability = "normal"
access_log = false
[models.many]
labels = 1000
[models.few]
labels = 9
"""
EVERY = 0.001  # seconds


class Watch:
    """How late a task on the event loop is."""

    def __init__(self) -> None:
        self.worst = 0.0

    async def __call__(self) -> None:
        while True:
            due = time.perf_counter() + EVERY
            await asyncio.sleep(EVERY)
            self.worst = max(self.worst, time.perf_counter() - due)


def watched(app: Any, watch: Watch) -> Any:
    tasks: list[asyncio.Task[None]] = []

    async def run(scope: Any, receive: Any, send: Any) -> None:
        if not tasks:
            tasks.append(asyncio.create_task(watch()))
        await app(scope, receive, send)

    return run


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
        path = Path(folder, "x.toml")
        path.write_text(MODELS)
        service = Service(check(path))
        service.warm_up()
        watch, server = Watch(), make_server(None, service.configuration.service)
        server.config.app = watched(make_app(service), watch)
        listener = socket.create_server(("127.0.0.1", 0))
        running = threading.Thread(target=server.run, args=([listener],))
        running.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            with httpx.Client(base_url=url, timeout=600) as client:
                measure(client, service, watch)
        finally:
            server.should_exit = True
            running.join()
            service.close()


def measure(client: httpx.Client, service: Service, watch: Watch) -> None:
    ids: dict[str, list[str]] = {"many": [], "few": []}

    def run(name: str, send: Callable[[], httpx.Response], times: int = 3) -> httpx.Response:
        watch.worst, started = 0.0, time.perf_counter()
        for _ in range(times):
            answer = send()
            assert answer.is_success, answer.text
        took, stall = (time.perf_counter() - started) / times, 1000 * watch.worst
        print(f"{name:<48} stall {stall:7.1f} ms   took {took:6.2f} s   {memory():6,.0f} MiB")
        return answer

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

    print(f"{'at the start':<48} {'':35} {memory():6,.0f} MiB")
    run("health", lambda: client.get("/health"), times=100)
    for model in ("many", "few"):
        say = f"{model} labels: "
        run(say + "10,000 new names", lambda m=model: decide(m, new_names(10_000)), times=8)
        run(say + "feedback on 10,000 names", lambda m=model: hear(ids[m].pop()))
        run(say + "a text of 60,000 words", lambda m=model: decide(m, words(60_000)))
        run(say + "feedback on the text", lambda m=model: hear(ids[m].pop()))
        run(say + "10,000 pairs", lambda m=model: decide(m, pairs(10_000)))
        run(say + "feedback on the pairs", lambda m=model: hear(ids[m].pop()))
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

        def snapshot(m: str = model) -> httpx.Response:
            service.models[m].snapshot()
            return client.get("/health")

        run(say + "a snapshot beside it", snapshot)
    label = {"add": [1000]}
    run(
        "many labels: a label is added",
        lambda: client.post("/v1/models/many/labels", json=label),
        1,
    )
    wide = {f"n{i}": True for i in range(70_000)}
    client_error = client.post("/v1/models/few/decisions", json={"context": wide})
    assert client_error.status_code in (413, 422), client_error.text


if __name__ == "__main__":
    main()
