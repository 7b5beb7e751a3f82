"""What the tests of the dashboard share: a service to play with, and the pages of a journal."""

from __future__ import annotations

import contextlib
import socket
import threading

import httpx

from helpers.waiting import PATIENCE
from onebit.service.configuration import Configuration, Model, ServiceOptions
from onebit.service.dashboard.app import Dashboard, DashboardApp
from onebit.service.http.app import readable
from onebit.service.http.server import make_server
from onebit.service.journal import ReadOnlyJournal
from onebit.service.tokens import Token, Tokens, digest_of

HOSTILE = ["<script>alert(1)</script>", '" onload="x', "\u202egnp.exe", "a" * 500, "=1+1", "été 猫"]
READER, DECIDER = "reader-0123456789", "decider-0123456789"
TOKENS = Tokens(
    (
        Token("reader", ("news",), ("read",), digest_of(READER)),
        Token("decider", ("*",), ("decide", "feedback"), digest_of(DECIDER)),
    )
)


def configured(tmp_path, tokens=None, labels=("sport", "tech"), shadows=(), **options):
    """shadows: names of learners, which are their own names, of every model."""
    model = {"learner": "Banditron", "revisions": True, **options}
    model["shadows"] = {
        name: Model(name=name, labels=list(labels), learner=name, revisions=True)
        for name in shadows
    }
    return Configuration(
        path="",
        service=ServiceOptions(
            port=0, journal=str(tmp_path / "x.journal"), durability="normal", access_log=False
        ),
        models={name: Model(name=name, labels=list(labels), **model) for name in ("news", "ads")},
        tokens=tokens,
    )


def play(engine, rounds, context=None):
    for i in range(rounds):
        told = engine.decide(context or {"goal": 1.0, "word": f"x{i % 3}"})
        if i % 3:
            engine.feedback(told.id, right=i % 2 == 0, source="web")


def bearer(secret):
    return {"authorization": f"Bearer {secret}"}


@contextlib.contextmanager
def finished(path, tokens=None):
    """The pages of a journal without its service."""
    journal = ReadOnlyJournal(path)
    configuration = Configuration(path="", service=ServiceOptions(), models={}, tokens=tokens)
    made = Dashboard(
        lambda: journal, lambda scope: readable(configuration, scope), lambda: bool(tokens)
    )
    server = make_server(DashboardApp(made), configuration.service)
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with httpx.Client(base_url=url, timeout=PATIENCE) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        journal.close()
