"""onebit serve: the service, from a configuration file, or a demonstration."""

from __future__ import annotations

import gc
import json
import logging
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from onebit.cli.options import Flag, serve_extra

if TYPE_CHECKING:
    from onebit.service.configuration import Configuration

DEMO = Path("onebit-demo")


def serve(
    configuration: Annotated[Path | None, Parameter(show_default=False)] = None,
    /,
    *,
    host: str | None = None,
    port: int | None = None,
    check: Flag = False,
) -> None:
    """Answer decisions over HTTP, learn from feedback, and keep both in a journal.

    Without a configuration, it is a demonstration on the built-in digits. SIGHUP reads the
    configuration again; SIGUSR2 restarts the service, also with another version of onebit, and
    refuses no connection meanwhile; SIGTERM and Ctrl-C answer what was accepted, and stop.

    ```
    onebit serve                          the demonstration
    onebit serve news.toml
    onebit serve news.toml --check        is the configuration right?
    ```

    Parameters
    ----------
    configuration
        A .toml file (docs/service.md). Default: a demonstration, with its journal in ./onebit-demo.
    host
        The address to listen on; wins over the configuration.
    port
        The port to listen on; wins over the configuration. 0: any that is free.
    check
        Check the configuration, and start nothing.
    """
    gc.enable()  # `main` has disabled it for short commands
    with serve_extra("the service"):
        import onebit.service.running  # noqa: F401
    from onebit.service.configuration import check as checked
    from onebit.service.listening import host_and_port, inherited
    from onebit.service.running import Run

    listening = None if check else inherited()
    if listening is not None:
        host, port = host_and_port(listening)

    def read() -> Configuration:
        if configuration is None:
            return _demonstration(host, port)
        return checked(configuration, host=host, port=port)

    found = read()
    if check:
        print(f"{found.path or 'The demonstration'} is right: {', '.join(found.models)}")
        return
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    os.umask(0o077)  # what is written belongs to this user alone
    run = Run(found, read, listening=listening, command=[sys.executable, *sys.orig_argv[1:]])
    if configuration is None:
        run.on_ready = _show_how
    run()


# The demonstration.

_HOW = """
This is a demonstration: a model "digits" that learns to read digits of 8 x 8 points. Its journal
is {folder}/onebit.journal; delete the folder to begin anew. Paste this into another terminal:

  told=$(curl -s {url}/v1/models/digits/decisions \\
    -H 'content-type: application/json' -d @{folder}/digit-3.json); echo "$told"
  id=$(echo "$told" | cut -d '"' -f 4)
  curl -s {url}/v1/decisions/$id/feedback \\
    -H 'content-type: application/json' -d '{{"label": 3}}'; echo
  curl -s {url}/v1/decisions/$id; echo
  curl -s {url}/v1/models/digits; echo

There are digit-0.json to digit-9.json. To play 1,000 rounds with all the digits:

  {python} {folder}/play.py

Ctrl-C stops the service. docs/service.md tells how to serve a model of your own.
"""


def _demonstration(host: str | None, port: int | None) -> Configuration:
    from onebit.service.configuration import Configuration, Model, ServiceOptions, is_loopback

    given = {"host": host, "port": port}
    options = ServiceOptions(
        journal=str((DEMO / "onebit.journal").absolute()),
        access_log=False,
        **{name: value for name, value in given.items() if value is not None},  # type: ignore[arg-type]
    )
    if not is_loopback(options.host):
        raise ValueError(
            "the demonstration has no tokens, so it listens on this machine only: "
            "leave out --host, or give a configuration with tokens"
        )
    model = Model(name="digits", labels=10, title="digits of 8 x 8 points")
    return Configuration(path="", service=options, models={"digits": model})


_PLAY = """\
# Plays 1,000 rounds with the service.

import json
from pathlib import Path

from onebit.client import Client

lines = Path(__file__).with_name("digits.jsonl").read_text().splitlines()
mistakes = 0
with Client("{url}") as client:
    for count, line in enumerate(lines[:1000], start=1):
        digit = json.loads(line)
        told = client.decide("digits", digit["context"])
        right = told.label == digit["label"]
        client.feedback(told.id, right=right)
        mistakes += not right
        if count % 100 == 0:
            print(f"rounds {{count - 99}} to {{count}}: {{mistakes}} mistakes")
            mistakes = 0
"""


def _show_how(address: str) -> None:
    """Write the items of the demonstration, and say what to do with them."""
    from onebit.datasets import digits
    from onebit.learner.files import write_bytes

    table: Any = digits()
    points = (8 * table.X[:, :64] / table.X[:, 64:]).round().astype(int).tolist()
    rows = [
        json.dumps({"context": row, "label": label})
        for row, label in zip(points, table.y.tolist(), strict=True)
    ]
    write_bytes(DEMO / "digits.jsonl", "\n".join([*rows, ""]).encode())
    for digit in range(10):
        body = json.dumps({"context": points[table.y.tolist().index(digit)]})
        write_bytes(DEMO / f"digit-{digit}.json", body.encode())
    write_bytes(DEMO / "play.py", _PLAY.format(url=address).encode())
    python = shlex.quote(sys.executable)
    print(_HOW.format(url=address, folder=DEMO, python=python), flush=True)
