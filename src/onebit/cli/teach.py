"""onebit teach: a page where a person trains a learner by saying right or wrong."""

from __future__ import annotations

import gc
import logging
import os
import secrets
import shlex
import signal
import socket
import sys
import threading
import warnings
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import Any

from onebit.cli.options import Repeated, names_in, serve_extra


def teach(
    source: Path | None = None,
    /,
    *,
    labels: Repeated = None,
    text: str | None = None,
    drop: Repeated = None,
    embed: str | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
    folder: Path | None = None,
    host: str = "127.0.0.1",
    port: int = 8332,
    open: bool = True,
) -> None:
    """Teach a learner in the browser: it guesses, and you say right or wrong.

    Every answer is on disk before the page says so. Run the same command again to go on.

    ```
    onebit teach
    onebit teach photos/ --labels cat,dog,neither
    onebit teach notes.txt --labels todo,done
    onebit teach tickets.csv --text body --labels billing,bug,other
    onebit teach tickets.csv --drop id,created
    onebit teach photos/ --embed mymodule:embedding
    ```

    Parameters
    ----------
    source
        A folder of images or of .txt files; a .csv, .tsv or .parquet file; or a text with an item
        per line.
        Default: built-in images of handwritten digits.
    labels
        What an item can be: cat,dog,bird (or repeat it). The page can add labels.
    text
        The column of a table that holds the text to learn from. Default: all columns.
    drop
        Columns of a table to leave out: id,created (or repeat it).
    embed
        A function of yours, module:function, that makes a vector of an image's path, a text, or a
        row. Its code is executed.
    encoding
        The encoding of a text or csv file: cp1252, latin-1. Default: utf-8, or that of the byte
        order mark.
    delimiter
        The field separator of a csv file. Default: a comma; a tab in .tsv.
    folder
        Where the progress is kept. Default: .onebit in the folder, FILE.teach beside a
        file, and digits.teach here.
    host
        The address to listen on. With one that other machines can reach, only those who know the
        printed address get in.
    port
        The port; 0 takes any that is free.
    open
        Open the page in a browser, if there is a display.
    """
    from onebit.service.configuration import ServiceOptions

    with serve_extra("the teach page"):
        from onebit.service.http.server import make_server
        from onebit.service.teach.app import make_app
    from onebit.core.settings import whole
    from onebit.service.teach.sources import open_items
    from onebit.service.teach.teacher import Teacher
    from onebit.service.tokens import is_loopback

    gc.enable()  # `main` has disabled it for short commands
    logging.basicConfig(format="onebit: %(message)s", level=logging.WARNING)
    # Pillow warns of large images; the page lists them among those that cannot be used.
    warnings.filterwarnings("ignore", "Image size .* exceeds limit")
    port = whole("--port", port, least=0, most=65535)
    named = [name.strip() for part in labels or [] for name in part.split(",") if name.strip()]
    given = {"text": text, "drop": names_in(drop or []) or None, "embed": embed}
    given |= {"encoding": encoding, "delimiter": delimiter}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    items = open_items(source, **chosen)
    arguments = [repr(str(source))] if source is not None else []
    arguments += [f"{name}={value!r}" for name, value in chosen.items()]
    opened = f"open_items({', '.join(arguments)})"
    where = folder or _folder(source)
    again = ["onebit", "teach", *([] if source is None else [str(source)])]
    for name, value in (*chosen.items(), ("folder", folder)):
        words = ",".join(value) if isinstance(value, list) else str(value)
        again += [] if value is None else [f"--{name}", words]
    shown = shlex.join(again)
    with Teacher(items, where, named or list(items.labels), opened, shown) as teacher:
        secret = None if is_loopback(host) else secrets.token_urlsafe(16)
        server = make_server(None, ServiceOptions(host=host, port=port))
        app = make_app(teacher, secret, lambda: server.should_exit)
        server.config.app = app
        try:
            sockets = [server.config.bind_socket()]
        except SystemExit:  # uvicorn has logged why
            raise ValueError(
                f"port {port} cannot be used; --port 0 takes any that is free"
            ) from None
        sockets[0].listen()  # whoever reads the address may come at once
        address = _address(host, sockets[0].getsockname()[1], secret)
        print(f"Teach {items.name}: {address}\nProgress is kept in {where}. Ctrl-C stops.")
        sys.stdout.flush()
        if open and _has_display():
            threading.Timer(0.5, webbrowser.open, [address]).start()
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with suppress(KeyboardInterrupt):  # uvicorn raises the signal again after it has stopped
            server.run(sockets)
        is_gone = teacher.is_gone
    if is_gone:
        raise ValueError(
            f"{where} was removed or replaced while it was in use: the answers in it are lost"
        )
    print(f"Stopped. Everything is saved in {where}.")


def _folder(source: Path | None) -> Path:
    """Where the progress is kept."""
    if source is None:
        return Path("digits.teach")
    return source / ".onebit" if source.is_dir() else source.with_name(f"{source.name}.teach")


def _address(host: str, port: int, secret: str | None) -> str:
    if host in ("0.0.0.0", "::"):
        host = _own_address(host)
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/" + (f"?secret={secret}" if secret else "")


def _own_address(any_address: str) -> str:
    """The address of this machine on the local network, which a phone need not look up by name.

    It is that of the interface with the default route. Without one it is the name of this machine.
    """
    # Connecting a UDP socket sends nothing: the system only chooses the interface. The addresses
    # are reserved for documentation, so that they are nobody's.
    family, elsewhere = (
        (socket.AF_INET6, "2001:db8::1") if ":" in any_address else (socket.AF_INET, "192.0.2.1")
    )
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as chosen:
            chosen.connect((elsewhere, 9))
            return chosen.getsockname()[0]
    except OSError:
        return socket.gethostname()


def _has_display() -> bool:
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
