"""A service that is disturbed again and again, while clients and readers go on, by a seed.

Clients ask until they are answered, as `onebit.client` does, so whatever they ask for is done once
in the end. What was acknowledged is in the ledger. clock.c sets the clock of the service, and
diskfaults.c fills its disk.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any

from helpers.waiting import PATIENCE, wait_for
from ledger import Ledger
from processes import Running

from benchmarks.attacks import Wall

CLIENTS, READERS = 6, 3
PAUSE = 0.03  # seconds of a client between two requests: more than a million rounds an hour
TOLERANCE = 600.0  # seconds between the times of events and the clock of this machine
CONFIGURATION = """
[service]
port = {port}
access_log = false
[models.news]
labels = ["sport", "politics", "tech"]
learner = "Banditron"
revisions = true
silence = {{ wrong_after = "1d" }}
expires_after = "2d"
"""
READ = ["/v1/models/news", "/metrics", "/dashboard", "/dashboard/news/numbers", "/ready", "/health"]


class Soak:
    """shim: diskfaults.c as a library."""

    def __init__(self, folder: Path, seed: int, shim: Path) -> None:
        self.random, self.folder, self.ledger = Random(seed), folder, Ledger()
        self.wall = Wall(folder)
        self.full = folder / "full"
        with closing(socket.create_server(("127.0.0.1", 0))) as listener:
            self.port = listener.getsockname()[1]
        self.home = folder / "home"
        self.home.mkdir()
        self.configuration = self.home / "a.toml"
        self.configuration.write_text(CONFIGURATION.format(port=self.port))
        self.journal = self.home / "onebit.journal"
        self.env = {
            **os.environ,
            **self.wall.env,
            "LD_PRELOAD": f"{shim}:{self.wall.env['LD_PRELOAD']}",
            "DISKFAULTS_FOLDER": str(self.home),
            "DISKFAULTS_LOG": "/dev/null",
            "DISKFAULTS_FULL": str(self.full),
            "NO_PROXY": "*",
        }
        self.is_over = threading.Event()
        self.failures: list[BaseException] = []
        self.done: Counter[str] = Counter()  # disturbances
        self.last = "none"
        self.memory: list[int] = []  # bytes that the services held, one after another
        self.peak = 0
        self.running = self.started()

    def run(self, seconds: float) -> None:
        """Disturb it for so long. In the end it is killed, and its journal checked."""
        clients = [Client(self, i, self.random.random()) for i in range(CLIENTS)]
        readers = [Reader(self, self.random.random()) for _ in range(READERS)]
        threads = [threading.Thread(target=one.run) for one in (*clients, *readers)]
        for thread in threads:
            thread.start()
        try:
            end = time.monotonic() + seconds
            while time.monotonic() < end and not self.failures:
                time.sleep(self.random.choice([0.1, 1.0, 3.0]) * self.random.random())
                disturb = self.random.choice(DISTURBANCES)
                self.last = disturb.__name__
                self.done[self.last] += 1
                disturb(self)
                assert self.running.process.poll() is None, f"it ended after {disturb.__name__}"
                self.look_at_memory()
        except BaseException as error:
            self.failures.append(error)
        finally:
            count, ended = sum(self.done.values()), self.running.process.poll()
            for error in self.failures[:1]:  # perhaps of a client or a reader
                error.add_note(
                    f"after {count} disturbances, such as {self.last}; exit {ended}; "
                    f"the service wrote: {self.running.text[-5000:]}"
                )
            self.is_over.set()
            for thread in threads:
                thread.join()
            self.running.end()
        if self.failures:
            raise self.failures[0]
        self.check_replay()
        self.done["requests"] = sum(one.answered for one in (*clients, *readers))

    # The service.

    def started(self) -> Running:
        running = Running(self.configuration, env=self.env)
        try:
            running.wait_for("ready after")
        except BaseException:
            running.end()
            raise
        return running

    def restarted(self) -> None:
        self.running.end()
        self.running = self.started()

    def look_at_memory(self) -> None:
        self.memory.append(self.running.memory())
        self.peak = max(self.peak, self.running.memory("VmHWM"))

    def ready(self) -> dict[str, Any] | None:
        """What it says when it is ready."""
        with suppress(OSError, http.client.HTTPException):
            status, body = asked(self.port, "GET", "/ready")
            return json.loads(body) if status == 200 else None
        return None

    def command(self, *arguments: str | Path, env: dict[str, str] | None = None) -> str:
        """What a command prints; it must succeed."""
        run = [sys.executable, "-m", "onebit.cli", *map(str, arguments)]
        done = subprocess.run(run, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def check_replay(self) -> None:
        assert "OTHER BYTES" not in self.command("replay", self.journal)

    # Disturbances. Each leaves a service that is ready, on a disk with room, at the right time.

    def kill(self) -> None:
        self.running.process.kill()
        self.restarted()

    def kill_during_the_start(self) -> None:
        self.running.process.kill()
        self.running.end()
        for _ in range(self.random.randrange(1, 4)):
            starting = Running(self.configuration, env=self.env)
            time.sleep(3 * self.random.random())
            starting.end()
        self.running = self.started()

    def stop(self) -> None:
        self.running.process.send_signal(signal.SIGTERM)
        assert self.running.process.wait(PATIENCE) == 0, self.running.text
        self.running.wait_for("all that was accepted is in the journal")
        self.restarted()

    def hand_over(self) -> None:
        times = self.running.text.count("ready after")
        self.running.process.send_signal(signal.SIGUSR2)
        self.running.wait_for("ready after", times=times + 1)

    def reload(self) -> None:
        times = self.running.text.count("reloaded: ")
        self.running.process.send_signal(signal.SIGHUP)
        self.running.wait_for("reloaded: ", times=times + 1)

    def clock(self) -> None:
        """It jumps; perhaps the service is killed or stopped meanwhile."""
        day = 86_400
        jump = self.random.choice([9_999 * day, -9_999 * day, 3600, -3600, 3 * day, 200, -200])
        self.wall.jump(jump)
        if abs(jump) > 300:
            wait_for(lambda: "jumped" in (self.ready() or {}).get("clock", ""))
        time.sleep(2 * self.random.random())
        if self.random.random() < 0.5:
            self.random.choice([Soak.kill, Soak.stop, Soak.hand_over])(self)
        self.wall.jump(0)
        wait_for(lambda: (ready := self.ready()) is not None and not ready.get("clock"))

    def second_owner(self) -> None:
        """Whatever lies beside the journal is removed, and another service started on it."""
        for path in self.home.glob("*lock*"):
            path.unlink()
        name = self.random.choice(["onebit.journal", "link.journal"])
        link = self.home / "link.journal"
        link.unlink(missing_ok=True)
        if name == link.name:
            self.random.choice([link.hardlink_to, link.symlink_to])(self.journal)
        other = self.home / "b.toml"
        text = self.configuration.read_text().replace(str(self.port), "0")
        other.write_text(text.replace("[service]", f'[service]\njournal = "{name}"'))
        second = Running(other, env=self.env)
        try:
            second.wait_for("in use by another process")
            assert second.process.wait(PATIENCE) != 0
        finally:
            second.end()

    def full_disk(self) -> None:
        """Perhaps the service is killed, and does not start again before there is room."""
        self.full.touch()
        wait_for(lambda: self.ready() is None)
        time.sleep(2 * self.random.random())
        if self.random.random() < 0.3:
            self.running.process.kill()
            self.running.end()
            starting = Running(self.configuration, env=self.env)
            time.sleep(2 * self.random.random())
            starting.end()
            self.full.unlink()
            self.running = self.started()
        self.full.unlink(missing_ok=True)
        wait_for(self.ready)

    def replay(self) -> None:
        """Somebody builds the learner from the journal, while the service runs."""
        self.check_replay()

    def backup(self) -> None:
        target = self.folder / "backup"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        self.command("backup", self.journal, target / "onebit.journal")
        self.command("replay", target / "onebit.journal")


DISTURBANCES: Sequence[Callable[[Soak], None]] = [
    Soak.kill,
    Soak.kill,
    Soak.kill_during_the_start,
    Soak.stop,
    Soak.hand_over,
    Soak.hand_over,
    Soak.reload,
    Soak.clock,
    Soak.clock,
    Soak.second_owner,
    Soak.full_disk,
    Soak.replay,
    Soak.backup,
]


def asked(port: int, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    with closing(connection):
        headers = {} if body is None else {"content-type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


class Reader:
    """Reads without a pause."""

    def __init__(self, soak: Soak, seed: float) -> None:
        self.soak, self.random, self.answered = soak, Random(seed), 0

    def run(self) -> None:
        try:
            while not self.soak.is_over.is_set():
                with suppress(OSError, http.client.HTTPException):
                    self.read()
        except BaseException as error:
            self.soak.failures.append(error)

    def read(self) -> None:
        path = self.random.choice(READ)
        status, body = asked(self.soak.port, "GET", path)
        assert status in (200, 503), (path, status, body[:500])
        self.answered += 1
        time.sleep(PAUSE)


class Client(Reader):
    """Decides, gives feedback, changes its mind, and looks. Nobody else names its decisions."""

    def __init__(self, soak: Soak, number: int, seed: float) -> None:
        super().__init__(soak, seed)
        self.number, self.ledger = number, soak.ledger
        self.mine: list[str] = []
        self.numbers = itertools.count(1)

    def read(self) -> None:
        choice = self.random.random()
        if choice < 0.4 or len(self.mine) < 5:
            self.decide()
        elif choice < 0.8:
            self.feedback()
        elif choice < 0.85:
            self.change()
        else:
            self.look()
        time.sleep(PAUSE)

    def decide(self) -> None:
        key = f"{self.number}-{next(self.numbers)}"
        context = {f"w{self.random.randrange(300)}": 1.0 for _ in range(8)}
        answer = self.ask("POST", "/v1/models/news/decisions", {"context": context, "key": key})
        if answer:
            self.mine = [*self.mine[-200:], self.ledger.told(answer, key)]

    def feedback(self) -> None:
        if id := self.one_of("open"):
            self.say(id, "POST", "feedback")

    def say(self, id: str, method: str, path: str) -> None:
        verdict = {"right": self.random.random() < 0.5}
        state = self.ledger.verdict(id, verdict)
        self.do(id, state, method, path, verdict)

    def change(self) -> None:
        if self.random.random() < 0.3:
            if id := self.one_of("open"):
                self.do(id, "cancelled", "POST", "cancel")
        elif id := self.one_of("right", "wrong"):
            if self.random.random() < 0.3:
                self.do(id, "open", "DELETE", "feedback")
            else:
                self.say(id, "PUT", "feedback")

    def do(self, id: str, state: str, method: str, path: str, body: Any = None) -> None:
        self.ledger.trying(id, state)
        if self.ask(method, f"/v1/decisions/{id}/{path}", body):
            self.ledger.did(id, state)

    def look(self) -> None:
        id = self.random.choice(self.mine)
        if record := self.ask("GET", f"/v1/decisions/{id}"):
            self.ledger.check(record)
            wrong = max(abs(one["time"] - time.time()) for one in [record, *record["feedback"]])
            assert wrong < TOLERANCE + 3600, record

    def one_of(self, *states: str) -> str:
        """One of its decisions that is in one of these states."""
        known = {frozenset({state}) for state in states}
        found = [id for id in self.mine if frozenset(self.ledger.states[id] or ()) in known]
        return self.random.choice(found) if found else ""

    def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any] | None:
        """Ask until there is an answer; None: it is over."""
        repeats = False
        while not self.soak.is_over.is_set():
            try:
                status, data = asked(self.soak.port, method, path, body)
            except (OSError, http.client.HTTPException):
                status, data, repeats = 0, b"", True
            if status in (200, 201):
                self.answered += 1
                return json.loads(data)
            # Feedback that was taken back meanwhile cannot be taken back again.
            is_done = repeats and status == 409 and method == "DELETE"
            if is_done:
                return {}
            assert status in (0, 503), (method, path, body, status, data[:500])
            time.sleep(0.05)
        return None
