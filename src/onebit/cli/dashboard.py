"""`onebit dashboard`: the models of a journal, as pages in a browser."""

from __future__ import annotations

from pathlib import Path

from onebit.cli.options import serve_extra


def dashboard(
    journal: Path, /, *, host: str = "127.0.0.1", port: int = 8333, tokens: Path | None = None
) -> None:
    """Show the models of a journal in a browser.

    The journal is only read: its service may be running or not. A service shows the same pages
    itself, under /dashboard.

    ```
    onebit dashboard onebit.journal
    ```

    Parameters
    ----------
    journal
        The journal of a service: the file that `journal` in its configuration names.
    host
        The address to listen on. Without --tokens, only this machine can be served.
    port
        The port to listen on. 0: any that is free.
    tokens
        A file of tokens (docs/service.md). Pages then ask for a token with the verb read.
    """
    from onebit.service.configuration import Configuration, ServiceOptions

    with serve_extra("the dashboard"):
        from onebit.service.dashboard.app import Dashboard, DashboardApp
        from onebit.service.http.app import readable
        from onebit.service.http.server import make_server
    from onebit.core.settings import whole
    from onebit.service.faults import ServiceError
    from onebit.service.journal import ReadOnlyJournal
    from onebit.service.tokens import is_loopback, read_tokens

    options = ServiceOptions(host=host, port=whole("--port", port, least=0, most=65535))
    if tokens is None and not is_loopback(host):
        raise ValueError(f"--host {host} serves other machines: this needs --tokens FILE")
    known = None if tokens is None else read_tokens(tokens)
    configuration = Configuration(path="", service=options, models={}, tokens=known)
    try:
        opened = ReadOnlyJournal(journal)
    except ServiceError as fault:
        raise ValueError(fault.detail) from None
    pages = Dashboard(
        lambda: opened,
        lambda scope: readable(configuration, scope),
        lambda: known is not None,
    )
    server = make_server(DashboardApp(pages), options)
    try:
        listener = server.config.bind_socket()
    except SystemExit:  # uvicorn has logged why
        opened.close()
        raise ValueError(f"port {port} cannot be used; --port 0 takes any that is free") from None
    address = f"[{host}]" if ":" in host else host
    print(f"http://{address}:{listener.getsockname()[1]}/dashboard shows {journal}; Ctrl-C ends it")
    try:
        server.run([listener])
    finally:
        opened.close()
