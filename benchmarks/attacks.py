"""Attacks on `onebit serve`, and what becomes of it: `python -m benchmarks.attacks`.

Each attack gets a service of its own, in a process and a folder of its own, and is bounded: the
service is killed when it holds more than 4 GiB, and what waits for an answer waits for 30 seconds
at most. `--against REVISION` attacks an earlier revision of git too, and prints one table.

The table says what was measured. Where a fact decides whether the service holds ("yes" or "no"),
tests/service/test_attacks.py expects "yes". Seconds decide nothing: they are those of this machine.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import select
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.against import ROOT, source_of

MOST = 4 * 2**30  # bytes that a service may hold before it is killed
PATIENCE = 30.0  # seconds that an attack waits for an answer
START = 600.0  # seconds that a start may take: the first one compiles
LABELS = ["sport", "politics", "tech"]
QUICK = 'learner = "Banditron"\n'  # the attack is on the service, so its learner is a small one
HEAD = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"
MODEL = "/v1/models/news"
SECRET = "attack-attack-attack"


class Found(NamedTuple):
    """What was measured, and whether the service holds; None: only seconds would tell."""

    said: str
    holds: bool | None = None


class Size(NamedTuple):
    """How much is sent, and played before."""

    sent: int = 41 * 2**20  # bytes of pipelined requests
    names: int = 10_000  # new names in a request
    labels: int = 1_000
    rounds: int = 100_000  # of a long journal
    turns: int = 9  # with readers and without
    requests: int = 2_000  # across a restart


FULL = Size()
SMALL = Size(sent=8 * 2**20, names=10_000, labels=300, rounds=2_000, turns=1, requests=300)


# A service under attack.


class Site:
    """`onebit serve` with the sources of one revision."""

    def __init__(self, source: Path, folder: Path, size: Size, env: dict[str, str]) -> None:
        self.source, self.folder, self.size = source, folder, size
        self.env = {**os.environ, "PYTHONPATH": str(source), "NO_PROXY": "*", **env}
        self.journal, self.log = folder / "onebit.journal", folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._watched = threading.Event()
        self.grew_too_large = False
        self.port = free_port()

    def write(self, model: str = "", service: str = "", name: str = "a.toml") -> Path:
        """Write a configuration. model: options of the model `news`, and further tables."""
        labels = "" if "labels =" in model else f"labels = {json.dumps(LABELS)}\n"
        path = self.folder / name
        path.write_text(f"[service]\n{service}\n[models.news]\n{labels}{model}")
        return path

    def command(self, *arguments: str | Path) -> list[str]:
        return [sys.executable, "-m", "onebit.cli", *map(str, arguments)]

    def start(self, model: str = QUICK, service: str = "", memory: int = 0) -> Site:
        """Start, and wait until it is ready. memory: bytes of data that it may have at most."""
        return self.begin(self.write(model, service), memory).until_ready()

    def begin(self, configuration: Path, memory: int = 0) -> Site:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command("serve", configuration, "--port", str(self.port)),
                env=self.env, stdout=log, stderr=log, cwd=self.folder,
            )  # fmt: skip
        if memory:
            self.limit(memory)
        self._watched = threading.Event()
        threading.Thread(target=self._watch, args=(self._watched,), daemon=True).start()
        return self

    def limit(self, memory: int) -> None:
        import resource

        resource.prlimit(self.pid, resource.RLIMIT_DATA, (memory, memory))

    def _watch(self, over: threading.Event) -> None:
        """Kill what takes too much memory from everybody else."""
        while not over.wait(0.05):
            with suppress(OSError, IndexError, AssertionError):
                if self.memory("VmRSS") > MOST:
                    self.grew_too_large = True
                    self.kill()
                    return

    def until_ready(self, seconds: float = START) -> Site:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.has_ended:
                raise RuntimeError(f"the service has ended: {self.log.read_text()[-800:]}")
            with suppress(OSError, http.client.HTTPException):
                if self.get("/ready")[0] == 200:
                    return self
            time.sleep(0.05)
        raise RuntimeError(f"not ready within {seconds} s: {self.log.read_text()[-800:]}")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def wait(self, seconds: float = PATIENCE) -> int:
        assert self._process is not None
        return self._process.wait(seconds)

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self._watched.set()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def memory(self, name: str) -> int:
        """Bytes: VmRSS now, VmHWM at most, VmData of what it may write."""
        text = Path(f"/proc/{self.pid}/status").read_text()
        return int(text.split(f"{name}:")[1].split()[0]) * 1024

    # Requests.

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        with closing(connection):
            data = None if body is None else json.dumps(body)
            kind = {} if body is None else {"content-type": "application/json"}
            connection.request(method, path, data, {**kind, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()

    def get(self, path: str) -> tuple[int, Any]:
        status, headers, data = self.ask("GET", path)
        is_json = "json" in headers.get("content-type", "")
        return status, json.loads(data) if is_json else data

    def decide(self, context: Any = None) -> dict[str, Any]:
        status, _, data = self.ask("POST", f"{MODEL}/decisions", {"context": context or {"a": 1}})
        if status != 201:
            raise RuntimeError(f"{status} {data[:300]!r}")
        return json.loads(data)

    def play(self, rounds: int) -> list[str]:
        """Decide and answer in batches; returns the ids."""
        ids: list[str] = []
        while len(ids) < rounds:
            many = [{"context": {f"w{(len(ids) + i) % 50}": 1.0}} for i in range(100)]
            _, _, data = self.ask("POST", f"{MODEL}/decisions:batch", {"decisions": many})
            told = json.loads(data)["decisions"]
            answers = [{"id": d["id"], "right": d["label"] == "tech"} for d in told]
            self.ask("POST", "/v1/feedback:batch", {"feedback": answers})
            ids += [d["id"] for d in told]
        return ids

    def send(self, data: bytes, address: str = "127.0.0.1") -> socket.socket:
        place = ("127.0.0.1", self.port)
        made = socket.create_connection(place, PATIENCE, source_address=(address, 0))
        made.sendall(data)
        return made

    def status_of(self, request: bytes) -> int:
        """The status of the answer to a request as it is; 0: there is none."""
        with suppress(OSError), closing(self.send(request)) as connection:
            connection.settimeout(5)
            answer = connection.recv(1000)
            return int(answer.split()[1]) if answer.startswith(b"HTTP/") else 0
        return 0


class Pulse:
    """Asks /health again and again, on new connections: how long it stalled."""

    def __init__(self, site: Site) -> None:
        self.longest, self.failed = 0.0, 0
        self._site, self._over = site, threading.Event()
        self._thread = threading.Thread(target=self._beat)

    def _beat(self) -> None:
        while not self._over.wait(0.01):
            begun = time.perf_counter()
            try:
                self._site.get("/health")
            except (OSError, http.client.HTTPException, ValueError):
                self.failed += 1
            self.longest = max(self.longest, time.perf_counter() - begun)

    def __enter__(self) -> Pulse:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def __str__(self) -> str:
        return f"/health stalls {1000 * self.longest:,.0f} ms"


class Growth:
    """How much memory a service takes during a block."""

    def __init__(self, site: Site) -> None:
        self._site, self.before, self.most, self.after = site, 0, 0, 0

    def __enter__(self) -> Growth:
        self.before = self._site.memory("VmRSS")
        Path(f"/proc/{self._site.pid}/clear_refs").write_text("5")  # the peak begins anew
        return self

    def __exit__(self, *_: object) -> None:
        if not self._site.has_ended:
            self.most, self.after = self._site.memory("VmHWM"), self._site.memory("VmRSS")

    def __str__(self) -> str:
        if self._site.has_ended:
            why = (
                f"killed beyond {mebibytes(MOST)}" if self._site.grew_too_large else "it has ended"
            )
            return f"{mebibytes(self.before)}, then {why}"
        peak, after = mebibytes(self.most), mebibytes(self.after)
        return f"{mebibytes(self.before)}, at most {peak}, {after} afterwards"


def mebibytes(size: float) -> str:
    return f"{size / 2**20:,.0f} MiB"


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return listener.getsockname()[1]


def yes(said: str, holds: bool) -> Found:
    return Found(said, holds)


# The attacks.


def pipelining(site: Site) -> Found:
    """Requests are pipelined without a token and without a pause, and the answers read slowly."""
    site.start(service=site_with_tokens(site))
    data, sent, end = HEAD * 2000, 0, time.monotonic() + 20
    site.get("/openapi.json")  # whatever is made only once
    with Growth(site) as growth, Pulse(site) as pulse, closing(site.send(b"")) as made:
        made.setblocking(False)
        last = time.monotonic()
        while sent < site.size.sent and time.monotonic() < min(end, last + 3):
            select.select([], [made], [], 0.05)
            try:
                with suppress(BlockingIOError):
                    made.recv(300)
                with suppress(BlockingIOError):
                    count = made.send(data[sent % len(HEAD) :])
                    sent, last = sent + count, time.monotonic()
            except OSError:
                break
        time.sleep(0.3)
    return yes(f"{growth}; {pulse}", growth.most - growth.before < 48 * 2**20 and growth.most > 0)


def site_with_tokens(site: Site) -> str:
    path = site.folder / "tokens.toml"
    path.write_text(f'[me]\ntoken = "{SECRET}"\nmodels = "*"\nverbs = "*"\n')
    path.chmod(0o600)
    return 'tokens = "tokens.toml"'


def _send_names(site: Site, requests: int = 8) -> int:
    """Decisions and feedback on contexts of new names; how many decisions were taken."""
    taken = 0
    for i in range(requests):
        context = {f"name-{i}-{j}": 1.0 for j in range(site.size.names)}
        try:
            told = site.decide(context)
            site.ask("POST", f"/v1/decisions/{told['id']}/feedback", {"right": False})
            taken += 1
        except (OSError, http.client.HTTPException, RuntimeError):
            if site.has_ended:
                break
    return taken


def names(site: Site) -> Found:
    """Eight contexts of 10,000 new names each, with 1,000 labels."""
    site.start(f"labels = {site.size.labels}\n")
    site.decide()
    with Growth(site) as growth, Pulse(site) as pulse:
        taken = _send_names(site)
    bound = 512 * 2**20 + growth.before
    return yes(f"{growth}; {taken} of 8 taken; {pulse}", taken == 8 and 0 < growth.most < bound)


def names_with_little_memory(site: Site) -> Found:
    """The same, where 512 MiB of memory are left; then the service is killed and started again."""
    other = f"[models.other]\nlabels = {json.dumps(LABELS)}\n{QUICK}"
    configuration = site.write(f"labels = {site.size.labels}\n{other}")
    site.begin(configuration).until_ready()
    site.decide()
    allowed = site.memory("VmData") + 512 * 2**20
    site.limit(allowed)
    taken = _send_names(site)
    site.kill()
    site.begin(configuration, allowed)
    try:
        site.until_ready(120)
    except RuntimeError:
        with suppress(OSError):  # one model may be down, but not the others
            asked = site.ask("POST", "/v1/models/other/decisions", {"context": {"a": 1}})
            return yes(f"{taken} of 8 taken; not ready; the other model: {asked[0]}", False)
        return yes(f"{taken} of 8 taken; does not start again", False)
    return yes(f"{taken} of 8 taken; starts again", taken == 8)


def _second_owner(site: Site, disturb: Callable[[], Path]) -> Found:
    site.start()
    for i in range(20):
        site.decide({"a": i})
    second = Site(site.source, site.folder, site.size, site.env)
    configuration = site.write(QUICK, f'journal = "{disturb().name}"', "b.toml")
    told, refused = [], 0
    try:
        second.begin(configuration).until_ready(60)
    except RuntimeError:
        return yes("the second service does not start", site.get("/ready")[0] == 200)
    finally:
        for owner in (second, site) * 20 if not second.has_ended else ():
            try:
                told.append(owner.decide()["id"])
            except (OSError, http.client.HTTPException, RuntimeError):
                refused += 1
        second.kill()
    site.kill()
    site.begin(site.write(QUICK)).until_ready()
    lost = sum(site.get(f"/v1/decisions/{id}")[0] != 200 for id in told)
    return yes(f"the second starts; {refused} refused; {lost} of {len(told)} lost", False)


def lock_removed(site: Site) -> Found:
    """The lock file is removed, and a second service started on the same journal."""

    def disturb() -> Path:
        for path in site.folder.glob("*lock*"):
            path.unlink()
        return site.journal

    return _second_owner(site, disturb)


def hard_link(site: Site) -> Found:
    """A second service is started on a hard link to the journal."""

    def disturb() -> Path:
        link = site.folder / "link.journal"
        link.hardlink_to(site.journal)
        return link

    return _second_owner(site, disturb)


def source_name(site: Site) -> Found:
    """Feedback of a source whose name ends with a line break."""
    site.start()
    body = {"right": True, "source": "mallory\n"}
    status, _, _ = site.ask("POST", f"/v1/decisions/{site.decide()['id']}/feedback", body)
    return yes(f"status {status}", status == 422)


def clock(site: Site) -> Found:
    """The clock jumps ahead by 9,999 days for one decision, and back."""
    wall = Wall(site.folder)
    site.env |= wall.env
    site.start()
    before = site.get(f"/v1/decisions/{site.decide()['id']}")[1]["time"]
    wall.jump(9_999 * 86_400)
    site.decide()
    wall.jump(0)
    site.decide()
    after = site.get(f"/v1/decisions/{site.decide()['id']}")[1]["time"]
    days = (after - before) / 86_400
    return yes(f"later events are {days:,.0f} days ahead", days < 1)


class Wall:
    """The system's clock as a service sees it (clock.c). The steady clocks go on."""

    def __init__(self, folder: Path) -> None:
        library, compiler = folder / "clock.so", shutil.which("cc")
        if compiler is None or not sys.platform.startswith("linux"):
            raise Missing("the clock is set by clock.c, which needs Linux and a C compiler (cc)")
        source = Path(__file__).with_name("clock.c")
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
        self._file = folder / "clock"
        self.jump(0)
        self.env = {"LD_PRELOAD": str(library), "CLOCK_FILE": str(self._file)}

    def jump(self, seconds: int) -> None:
        """From now on, the clock is wrong by so many seconds."""
        with self._file.open("r+b" if self._file.exists() else "w+b", buffering=0) as file:
            file.write(seconds.to_bytes(8, sys.byteorder, signed=True))


class Missing(RuntimeError):
    """What an attack needs is not on this machine."""


def past(site: Site) -> Found:
    """A decision in the middle of a long journal is cancelled, then kill -9."""
    configuration = site.write(f"{QUICK}revisions = true\n")
    site.begin(configuration).until_ready()
    ids = site.play(site.size.rounds)
    site.ask("POST", f"/v1/decisions/{ids[len(ids) // 2]}/cancel")
    site.kill()
    begun, told = time.perf_counter(), False
    site.begin(configuration)
    while True:
        with suppress(OSError, http.client.HTTPException):
            status, answer = site.get("/ready")
            if status == 200:
                break
            told |= "rounds" in answer.get("detail", "")
        if time.perf_counter() - begun > START:
            return yes("not ready", False)
        time.sleep(0.02)
    took = time.perf_counter() - begun
    replayed = [line for line in site.log.read_text().splitlines() if "replayed from" in line][-1]
    position = int(replayed.rpartition(" ")[2])
    said = f"ready after {took:.1f} s, replayed from position {position:,} of {2 * len(ids):,}"
    return yes(
        f"{said}; /ready {'tells' if told else 'says nothing of'} how far it is", position > 0
    )


def readers(site: Site) -> Found:
    """16 readers of the model card while decisions are made."""
    import uvloop

    from benchmarks.readers import compare

    site.start()
    site.play(site.size.rounds)
    turns = uvloop.run(compare(site.port, site.pid, 16, MODEL, site.size.turns, 600))
    alone, beside = (
        median(rates.computing for rates in found) for found in zip(*turns, strict=True)
    )
    said = f"{alone:,.0f} rounds per second of computing alone, {beside:,.0f} beside them"
    return Found(f"{said} ({beside / alone:.2f})")


def idle_connections(site: Site) -> Found:
    """1,000 idle connections, then 50 requests on new ones."""
    site.start()
    answers: dict[str, int] = {}
    longest = 0.0
    with ExitStack() as opened:
        for _ in range(1_000):
            opened.callback(site.send(b"", "127.0.0.2").close)
        for _ in range(50):
            begun = time.perf_counter()
            try:
                said = str(site.get("/health")[0])
            except (OSError, http.client.HTTPException):
                said = "reset"
            longest = max(longest, time.perf_counter() - begun)
            answers[said] = answers.get(said, 0) + 1
    told = ", ".join(f"{count} times {said}" for said, count in answers.items())
    return yes(f"{told}; longest {1000 * longest:,.0f} ms", answers == {"200": 50})


def wrong_after_silence(site: Site) -> Found:
    """Feedback "wrong" on a decision that silence has answered."""
    site.start(f'{QUICK}silence = {{ wrong_after = "1s" }}\n')
    path = f"/v1/decisions/{site.decide()['id']}"
    end = time.monotonic() + 4 * PATIENCE
    while not site.get(path)[1]["feedback"]:
        if time.monotonic() > end:
            return yes("silence is not read as wrong", False)
        time.sleep(0.1)
    site.ask("POST", f"{path}/feedback", {"right": False, "source": "web"})
    source = site.get(path)[1]["feedback"][-1]["source"]
    return yes(f"the answer is that of {source}", source == "web")


def modes(site: Site) -> Found:
    """Which modes a journal of `Service(...)` and a backup have, also while they are written."""
    site.start()
    site.play(min(site.size.rounds, 20_000))
    found = {"backup": set[int](), "Service": set[int]()}
    for what in found:
        folder = site.folder / what
        folder.mkdir()
        (folder / "x.toml").write_text(f"[models.news]\nlabels = 3\n{QUICK}")
        command = site.command("backup", site.journal, folder / "copy")
        if what == "Service":
            program = (
                "from onebit.service.configuration import check; "
                "from onebit.service.service import Service; Service(check('x.toml')).close()"
            )
            command = [sys.executable, "-c", program]
        mask = os.umask(0o022)
        try:
            process = subprocess.Popen(command, cwd=folder, env=site.env, stdout=subprocess.DEVNULL)
        finally:
            os.umask(mask)
        is_over = False
        while not is_over:
            is_over = process.poll() is not None
            for path in folder.rglob("*"):
                with suppress(OSError):
                    if path.suffix != ".toml" and path.is_file():
                        found[what].add(stat.S_IMODE(path.stat().st_mode))
    said = ", ".join(f"{what} {'/'.join(f'{m:o}' for m in sorted(m))}" for what, m in found.items())
    return yes(said, all(m == {0o600} for m in found.values()))


def unseen(site: Site) -> Found:
    """Requests for the dashboard and its files, with a token and without."""
    site.start(service=site_with_tokens(site))
    token = {"authorization": f"Bearer {SECRET}"}
    paths = ["/dashboard", "/dashboard/news", "/dashboard/news/numbers", "/static/page.css"]
    before = _counted(site, token)
    for path in paths:
        site.ask("GET", path, headers=token)
        site.ask("GET", path)
    lines = sum("/dashboard" in x or "/static" in x for x in site.log.read_text().splitlines())
    counted = _counted(site, token) - before - 1  # the first look at the metrics counts too
    total = 2 * len(paths)
    said = f"of {total} requests, {lines} are in the log and {counted:.0f} in the metrics"
    return yes(said, lines == total and counted == total)


def _counted(site: Site, token: dict[str, str]) -> float:
    text = site.ask("GET", "/metrics", headers=token)[2].decode()
    lines = [x for x in text.splitlines() if x.startswith("onebit_http_requests_total{")]
    return sum(float(x.rpartition(" ")[2]) for x in lines)


def restart(site: Site) -> Found:
    """A restart while eight clients ask without pause, and never ask again."""
    configuration = site.write(QUICK)
    site.begin(configuration).until_ready()
    told, failed, over = [0], [0], threading.Event()

    def ask() -> None:
        while not over.is_set():
            try:
                site.decide()
                told[0] += 1
            except (OSError, http.client.HTTPException, RuntimeError):
                failed[0] += 1
                time.sleep(0.01)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    _until(lambda: told[0] >= site.size.requests // 2)
    takes_over = "SIGUSR2" in (site.source / "onebit/service/running.py").read_text()
    if takes_over:
        site.signal(signal.SIGUSR2)
        _until(lambda: site.log.read_text().count("ready after") >= 2)
    else:
        _stop(site)
        site.begin(configuration).until_ready()
    goal = told[0] + site.size.requests // 2
    _until(lambda: told[0] >= goal)
    over.set()
    for thread in threads:
        thread.join()
    return yes(f"{failed[0]:,} of {told[0] + failed[0]:,} requests fail", failed[0] == 0)


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + START
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)


def edges(site: Site) -> Found:
    """Host headers, labels, a source change without a change, the events of no model."""
    site.start()
    get = b"GET /health HTTP/1.1\r\n"
    taken = {
        "no Host": site.status_of(get + b"\r\n"),
        "two Hosts": site.status_of(get + b"host: localhost\r\nhost: localhost\r\n\r\n"),
        "URI of another host": site.status_of(
            b"GET http://evil.example/health HTTP/1.1\r\nhost: localhost\r\n\r\n"
        ),
        "events of no model": site.status_of(
            b"GET /dashboard/nosuch/events HTTP/1.1\r\nhost: localhost\r\n\r\n"
        ),
        "source change {}": site.ask("PUT", f"{MODEL}/sources/web", {})[0],
    }
    for what, label in {"empty": "", "two-line": "a\nb", "100 kB": "x" * 100_000}.items():
        taken[f"{what} label"] = site.ask("POST", f"{MODEL}/labels", {"add": [label]})[0]
    found = [what for what, status in taken.items() if 0 <= status < 400]
    if site.ask("GET", "/health")[1].get("x-content-type-options") != "nosniff":
        found.append("no nosniff")
    return yes(f"taken: {', '.join(found) or 'none'}", not found)


def compaction(site: Site) -> Found:
    """The file of a journal whose rounds were compacted, after the next start."""
    site.begin(site.write(QUICK)).until_ready()
    site.play(min(10 * site.size.rounds, 20_000))
    _stop(site)
    before = site.journal.stat().st_size
    configuration = site.write(QUICK, 'retention = "1s"')
    site.begin(configuration).until_ready()
    _until(lambda: not _rounds(site.journal))
    _stop(site)
    site.begin(configuration).until_ready()
    _stop(site)
    after = site.journal.stat().st_size
    return yes(f"{before / 1e6:.1f} MB, {after / 1e6:.1f} MB afterwards", after < before / 2)


def _stop(site: Site) -> None:
    site.signal(signal.SIGTERM)
    site.wait()


def _rounds(journal: Path) -> int:
    with closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as connection:
        return connection.execute("SELECT count(*) FROM decisions").fetchone()[0]


ATTACKS: dict[str, Callable[[Site], Found]] = {
    attack.__name__: attack
    for attack in (
        pipelining,
        names,
        names_with_little_memory,
        lock_removed,
        hard_link,
        source_name,
        clock,
        past,
        readers,
        idle_connections,
        wrong_after_silence,
        modes,
        unseen,
        restart,
        edges,
        compaction,
    )
}


@contextmanager
def under_attack(
    source: Path, size: Size, folder: str | None = None, env: dict[str, str] | None = None
) -> Iterator[Site]:
    """A folder for a service that an attack starts; the service is killed in the end."""
    with tempfile.TemporaryDirectory(prefix="onebit-attack-", dir=folder) as name:
        site = Site(source, Path(name), size, env or {})
        try:
            yield site
        finally:
            site.kill()


def measured(name: str, source: Path, size: Size, folder: str | None) -> Found:
    try:
        with under_attack(source, size, folder) as site:
            return ATTACKS[name](site)
    except Missing as error:
        return Found(f"not measured: {error}")
    except (RuntimeError, OSError, http.client.HTTPException, KeyError, ValueError) as error:
        return Found(f"the attack could not be completed: {error!r}"[:300], False)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    arguments.add_argument("attacks", nargs="*", help=f"default: all of {', '.join(ATTACKS)}")
    arguments.add_argument("--against", metavar="REVISION", help="attack this revision too")
    arguments.add_argument("--small", action="store_true", help="send and play less")
    arguments.add_argument("--folder", help="on the disk of the journals")
    given = arguments.parse_args()
    size = SMALL if given.small else FULL
    if unknown := set(given.attacks) - set(ATTACKS):
        raise SystemExit(f"no such attack: {', '.join(unknown)}; there are: {', '.join(ATTACKS)}")
    with ExitStack() as opened:
        sources = {"now": ROOT / "src"}
        if given.against:
            sources = {given.against: opened.enter_context(source_of(given.against)), **sources}
        print(f"| attack | {' | '.join(sources)} | holds |\n|---|{'---|' * len(sources)}---|")
        for name in given.attacks or ATTACKS:
            found = [measured(name, source, size, given.folder) for source in sources.values()]
            said = " | ".join(one.said.replace("\n", " ") for one in found)
            holds = {True: "yes", False: "no", None: ""}[found[-1].holds]
            print(f"| {_title(name)} | {said} | {holds} |", flush=True)


def _title(name: str) -> str:
    return (ATTACKS[name].__doc__ or name).strip().rstrip(".")


if __name__ == "__main__":
    main()
