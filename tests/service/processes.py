"""`onebit serve` in a process of its own."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from helpers.waiting import PATIENCE

PLAIN = {**os.environ, "NUMBA_DISABLE_JIT": "1", "NO_PROXY": "*"}  # starts at once
SERVE = f"""
from onebit.service import running
running.HOLD = {PATIENCE}  # requests wait for the end of a start, however slow the machine is
from onebit.cli import main
main()
"""
PASS = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""


class Running:
    """listener: a socket that it inherits. options: of the command."""

    def __init__(
        self,
        configuration: Path,
        listener: socket.socket | None = None,
        *options: str,
        env: Mapping[str, str] = PLAIN,
    ) -> None:
        command = ["-c", SERVE, "serve", str(configuration), *options]
        numbers = []
        if listener is not None:
            numbers = [listener.fileno()]
            command = ["-c", PASS, str(listener.fileno()), *command]
        self.process = subprocess.Popen(
            [sys.executable, *command],
            env=env, stderr=subprocess.PIPE, text=True, errors="replace", pass_fds=numbers,
        )  # fmt: skip
        self.text = ""
        self._said = threading.Condition()
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._said:
                self.text += line
                self._said.notify_all()
        with self._said:
            self.text += "END\n"
            self._said.notify_all()

    def wait_for(self, pattern: str, times: int = 1) -> str:
        """Wait until a line was said so many times; returns the last match."""

        def is_over() -> bool:
            return len(re.findall(pattern, self.text)) >= times or "END\n" in self.text

        with self._said:
            assert self._said.wait_for(is_over, PATIENCE), self.text
        found = re.findall(pattern, self.text)
        assert len(found) >= times, self.text
        return found[-1]

    def memory(self, name: str = "VmRSS") -> int:
        """Bytes: VmRSS now, VmHWM at most, VmData of what it may write."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(text.split(f"{name}:")[1].split()[0]) * 1024

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reading.join()
        assert self.process.stderr is not None
        self.process.stderr.close()


@contextmanager
def started(
    configuration: Path,
    listener: socket.socket | None = None,
    *options: str,
    env: Mapping[str, str] = PLAIN,
) -> Iterator[Running]:
    running = Running(configuration, listener, *options, env=env)
    try:
        running.wait_for("ready after")
        yield running
    finally:
        running.end()
