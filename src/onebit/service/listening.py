"""The listening socket: made here, or inherited from systemd or from the process before this one.

A socket that somebody else holds too outlives a process: connections wait in it until the next
process accepts them. It is passed on as systemd does it (sd_listen_fds): it has the number 3, and
`LISTEN_PID` and `LISTEN_FDS` say for whom it is.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Sequence
from typing import Never

FIRST = 3  # the number of the first socket that is passed on
BACKLOG = 2048  # connections that wait to be accepted


def listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise OSError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}; "
            "choose another with --host and --port"
        ) from None


def inherited() -> socket.socket | None:
    """The listening socket that this process was given; None if it has to make one itself."""
    process, count = os.environ.pop("LISTEN_PID", ""), os.environ.pop("LISTEN_FDS", "")
    os.environ.pop("LISTEN_FDNAMES", None)
    if process != str(os.getpid()):
        return None
    if count != "1":
        raise ValueError(f"one listening socket is needed, but {count} were passed (LISTEN_FDS)")
    os.set_inheritable(FIRST, False)
    given = socket.socket(fileno=FIRST)
    is_listening = given.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if given.family not in (socket.AF_INET, socket.AF_INET6) or not is_listening:
        given.detach()  # whoever passed it on may need it
        raise ValueError(
            "the socket that was passed (LISTEN_FDS) does not listen for TCP: with systemd, "
            "ListenStream= must be a port, or an address with a port"
        )
    return given


def host_and_port(listening: socket.socket) -> tuple[str, int]:
    return listening.getsockname()[:2]


def address(listening: socket.socket) -> str:
    host, port = host_and_port(listening)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def replace_process(listening: socket.socket, command: Sequence[str]) -> Never:
    """Run a command in the place of this process, with the socket."""
    for number in (signal.SIGHUP, signal.SIGUSR2):  # they would end it until it handles them
        signal.signal(number, signal.SIG_IGN)
    os.dup2(listening.fileno(), FIRST)
    os.set_inheritable(FIRST, True)
    passed = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"}
    os.execve(command[0], [*command], {**os.environ, **passed})
