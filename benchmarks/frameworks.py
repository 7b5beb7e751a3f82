"""Which web framework and server the service stands on: `python -m benchmarks.frameworks`.

Each contestant answers the same request as the service does: it decodes a context of 45 named
numbers with msgspec, waits for the commit that all requests of 3 ms share, and answers 150 bytes.
The server is pinned to one core and the client, `wrk`, to another. The contestants take turns. What
counts is the processor time of the server per request, because other load on the machine changes it
little; requests per second are shown beside it.

Needs: wrk, starlette, litestar, uvicorn[standard], granian.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

COMMIT = 0.003  # seconds between two commits
BODY = {"context": {f"word{i}": 0.5 + i / 7 for i in range(45)}, "among": ["sport", "tech"]}
ANSWER = {
    "id": "0192f0a1-7c3e-7b52-9d7e-3a54c1d2e6f7",
    "label": "sport",
    "confidence": 0.88,
    "propensity": 0.97,
    "propensities": {"sport": 0.97, "tech": 0.03},
    "explored": False,
    "round": 17,
}
SERVERS = {
    "ASGI without a framework, uvicorn": ("bare", "uvicorn"),
    "Starlette, uvicorn": ("starlette", "uvicorn"),
    "Starlette's router, uvicorn": ("router", "uvicorn"),
    "Litestar, uvicorn": ("litestar", "uvicorn"),
    "ASGI without a framework, granian": ("bare", "granian"),
    "Starlette, granian": ("starlette", "granian"),
}
HEADERS = {"location": "/v1/decisions/1"}


class Question(msgspec.Struct):
    context: dict[str, float | str | None]
    among: list[str] | None = None


QUESTIONS = msgspec.json.Decoder(Question)


class Commits:
    """A thread that finishes a commit every 3 ms, for all requests that came since the last."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.next = self.loop.create_future()
        threading.Thread(target=self._commit, daemon=True).start()

    def _commit(self) -> None:
        while not self.loop.is_closed():
            time.sleep(COMMIT)
            self.loop.call_soon_threadsafe(self._finish)

    def _finish(self) -> None:
        done, self.next = self.next, self.loop.create_future()
        done.set_result(None)


commits: Commits | None = None


async def answer(body: bytes) -> bytes:
    global commits
    commits = commits or Commits()
    question = QUESTIONS.decode(body)
    answered = msgspec.json.encode({**ANSWER, "round": len(question.context)})
    await asyncio.shield(commits.next)
    return answered


# The contestants.


def bare() -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body, rest = b"", True
        while rest:
            event = await receive()
            body, rest = body + event.get("body", b""), event.get("more_body", False)
        answered = await answer(body)
        length = str(len(answered)).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", length)]
        headers += [(name.encode(), value.encode()) for name, value in HEADERS.items()]
        await send({"type": "http.response.start", "status": 201, "headers": headers})
        await send({"type": "http.response.body", "body": answered})

    return app


def starlette() -> Any:
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Route

    async def decide(request: Any) -> Response:
        answered = await answer(await request.body())
        return Response(answered, 201, HEADERS, "application/json")

    return Starlette(routes=[Route("/v1/models/{name}/decisions", decide, methods=["POST"])])


def router() -> Any:
    from starlette.routing import Route, Router

    class Endpoint:  # an instance is taken for an ASGI application
        def __init__(self) -> None:
            self.app = bare()

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await self.app(scope, receive, send)

    return Router([Route("/v1/models/{name}/decisions", Endpoint())])


def litestar() -> Any:
    from litestar import Litestar, Response, post

    @post("/v1/models/{name:str}/decisions")
    async def decide(name: str, data: Question) -> Response[dict[str, Any]]:
        global commits
        commits = commits or Commits()
        answered = {**ANSWER, "round": len(data.context)}
        await asyncio.shield(commits.next)
        return Response(answered, headers=HEADERS)

    decide.fn.__annotations__.update(name=str, data=Question, **{"return": Response[dict]})
    return Litestar([decide], openapi_config=None)


# Measuring.


def serve(framework: str, server: str, port: int) -> None:
    app = f"benchmarks.frameworks:{framework}"
    if server == "uvicorn":
        import uvicorn

        fast: Any = {"loop": "uvloop", "http": "httptools", "lifespan": "off"}
        uvicorn.run(app, factory=True, port=port, access_log=False, log_level="warning", **fast)
    else:
        from granian import Granian  # type: ignore[import-not-found]

        fast = {"interface": "asginl", "workers": 1, "loop": "uvloop"}
        Granian(app, factory=True, port=port, log_enabled=False, **fast).serve()


@contextmanager
def running(framework: str, server: str) -> Iterator[tuple[int, int]]:
    """The port and the process of a server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["taskset", "-c", "0", sys.executable, "-m", "benchmarks.frameworks"]
    process = subprocess.Popen([*command, "--serve", framework, server, str(port)])
    try:
        while True:
            try:
                connection = HTTPConnection("127.0.0.1", port, timeout=2)
                connection.request("POST", "/v1/models/news/decisions", json.dumps(BODY))
                connection.getresponse().read()
                connection.close()
                break
            except OSError:
                if process.poll() is not None:
                    raise
                time.sleep(0.1)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(20)


def processor_seconds(pid: int) -> float:
    """Of a process and its children, so far."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if path.parent.name == str(pid) or fields[1] == str(pid):
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


class Run(NamedTuple):
    microseconds: float  # of the processor, per request
    rate: float  # requests per second
    late: float  # 99th percentile of the latency in ms


def load(port: int, pid: int, seconds: float, connections: int) -> Run:
    script = f"""
wrk.method = "POST"
wrk.body = '{json.dumps(BODY)}'
wrk.headers["content-type"] = "application/json"
"""
    before = processor_seconds(pid)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "post.lua"
        path.write_text(script)
        command = ["taskset", "-c", "1", "wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s"]
        url = f"http://127.0.0.1:{port}/v1/models/news/decisions"
        said = subprocess.check_output([*command, "--latency", "-s", str(path), url], text=True)
    used = processor_seconds(pid) - before
    if "Non-2xx" in said:
        raise RuntimeError(said)
    rate, count = (
        re.search(r"Requests/sec:\s+([\d.]+)", said),
        re.search(r"(\d+) requests in", said),
    )
    late = re.search(r"99%\s+([\d.]+)(us|ms|s)\b", said)
    assert rate
    assert count
    assert late
    scale = {"us": 0.001, "ms": 1, "s": 1000}[late[2]]
    return Run(1e6 * used / int(count[1]), float(rate[1]), float(late[1]) * scale)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--serve", nargs=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--connections", type=int, default=64)
    given = parser.parse_args()
    if given.serve:
        framework, server, port = given.serve
        serve(framework, server, int(port))
        return
    runs: dict[str, list[Run]] = {name: [] for name in SERVERS}
    for _ in range(given.repeats):
        for name, contestant in SERVERS.items():
            with running(*contestant) as (port, pid):
                load(port, pid, 1, given.connections)  # warm-up
                runs[name].append(load(port, pid, given.seconds, given.connections))
    versions = ("starlette", "litestar", "uvicorn", "granian", "msgspec")
    print(", ".join(f"{name} {importlib.metadata.version(name)}" for name in versions))
    print("| | processor time per request | requests/s | p99 |\n|---|---|---|---|")
    for name, measured in runs.items():
        columns = [statistics.median(column) for column in zip(*measured, strict=True)]
        print("| {} | {:.0f} µs | {:,.0f} | {:.0f} ms |".format(name, *columns))


if __name__ == "__main__":
    main()
