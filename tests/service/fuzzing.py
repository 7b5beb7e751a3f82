"""Random requests to all routes, good and bad ones, by a seed.

Each `Sender` has a connection and decisions of its own, so it knows what must become of these. It
writes what is acknowledged into the ledger. Requests that are spoiled name decisions of which the
ledger does not hear (`Ledger.forget`), because some of them are taken all the same.
"""

from __future__ import annotations

import itertools
import json
import socket
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple

from helpers.waiting import PATIENCE
from ledger import Ledger

from onebit.service.http.routes import OPERATIONS

OWNER, SITE, READER = "owner-owner-owner-1", "site-site-site-site", "reader-reader-reader"
TOKENS = f"""
[owner]
token = "{OWNER}"
models = "*"
verbs = "*"
[site]
token = "{SITE}"
models = ["news"]
verbs = ["decide", "feedback"]
[reader]
token = "{READER}"
models = "*"
verbs = ["read"]
"""
CONFIGURATION = """
[service]
port = 0
access_log = false
tokens = "tokens.toml"
[service.limits]
labels = 30
[models.news]
labels = ["sport", "politics", "tech"]
learner = "Banditron"
vocabulary = 5000
revisions = true
[models.later]
labels = 4
learner = "Banditron"
revisions = true
deferred = true
"""
LABELS = {"news": ["sport", "politics", "tech"], "later": [0, 1, 2, 3]}
PAGES = ["/dashboard", "/dashboard/news", "/dashboard/news/numbers", "/dashboard/later/last.csv"]
PAGES += ["/dashboard/nosuch", "/static/page.css", "/static/../../etc/passwd", "/", "/favicon.ico"]
METHODS = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "get", "\x01"]
JUNK: list[Any] = [
    None, True, False, 0, -1, 1, 0.5, -0.0, 1e15, 1.0000001e15, -1e300, 1e-320, 2**31, 2**53 + 1,
    2**63, -(2**63), 2**64, 10**400, "", "a", "sport", "\0", "\n", "mallory\n", "é", "\u202e", "𝄞",
    "\ufeff", "a" * 201, "x" * 5000, "../..", "'; DROP TABLE decisions; --", "{{7*7}}", "NaN",
    [], [None], [[]], [[1, 2, 3]], [[0, 1.0], [0, 2.0]], [[2**24, 1]], [[-1, 1]], [1, [2, 3]], {},
    {"": 1}, {"a": []}, {"a": {"b": 1}}, {"a": "x" * 2000}, {"\n": None}, {"right": True},
]  # fmt: skip
BYTES = [
    b"{",
    b"}",
    b"[" * 3000,
    b"NaN",
    b"Infinity",
    b"-",
    b"\xff\xfe",
    b"\0",
    b'"\\ud800"',
    b",,",
]
BYTES += [
    b"1e999",
    b"9" * 5000,
    b'{"a":1,"a":2}',
    b"\xef\xbb\xbf",
    b"//",
    b"'",
    b"0x10",
    b"\r\n\r\n",
]
HEADERS = [
    b"x: " + b"y" * 3000, b"host: b", b"host:", b"content-length: 5", b"content-length: -1",
    b"content-length: 99999999999999999999", b"transfer-encoding: chunked", b"expect: nonsense",
    b"content-type: text/plain", b"content-type: application/json; charset=latin-1", b": empty",
    b"authorization: Basic YTpi", b"authorization: Bearer", b"authorization: Bearer \xff\xfe",
    b"origin: http://evil.example", b"connection: upgrade\r\nupgrade: websocket", b"no colon",
    b"accept-encoding: gzip", b"range: bytes=0-1", b"if-none-match: *", b"a: b\r\n c: folded",
    b"cookie: " + b"a=b; " * 100, b"x-forwarded-for: 1.2.3.4", b"\xff: \xff", b"last-event-id: 9",
]  # fmt: skip


class Answer(NamedTuple):
    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Fault(AssertionError):
    """Something that no request may bring about."""


class Sender:
    """Sends requests on one connection after another."""

    def __init__(self, port: int, seed: str, ledger: Ledger) -> None:
        self.port, self.random, self.ledger = port, Random(seed), ledger
        self.statuses: Counter[str] = Counter()
        self.sent, self.is_over = 0, False
        self._name = seed.replace(" ", "-")
        self._numbers = itertools.count(1)
        self._mine: list[str] = []  # decisions that nobody else names
        self._spoiled = ["1-0000000000000000"]  # of these, the ledger does not hear all
        self._socket: socket.socket | None = None
        self._input: Any = None
        self._kinds: list[tuple[Callable[[], None], int]] = [
            (self.decide, 20),
            (self.give_feedback, 20),
            (self.log, 4),
            (self.decide_many, 2),
            (self.give_feedback_many, 2),
            (self.change, 5),
            (self.read, 8),
            (self.manage, 1),
            (self.without_right, 10),
            (self.wrong_value, 16),
            (self.wrong_bytes, 6),
            (self.wrong_route, 6),
            (self.odd_headers, 5),
            (self.broken_off, 4),
            (self.pipelined, 2),
            (self.no_http, 1),
        ]

    def run(self, count: int) -> None:
        kinds, weights = zip(*self._kinds, strict=True)
        try:
            while self.sent < count and not self.is_over:
                self.random.choices(kinds, weights)[0]()
        finally:
            self.close()

    # Valid requests.

    def decide(self) -> None:
        name, body = self._question()
        key = body.get("key", "")
        secret = self.random.choice([OWNER, SITE]) if name == "news" else OWNER
        answer = self.ask("POST", f"/v1/models/{name}/decisions", body, secret)
        if done := self._done(answer, 201):
            self._keep(self.ledger.told(done.json, key))

    def decide_many(self) -> None:
        questions = [self._question("news")[1] for _ in range(self.random.choice([1, 2, 20]))]
        path = "/v1/models/news/decisions:batch"
        answer = self.ask("POST", path, {"decisions": questions}, self.random.choice([OWNER, SITE]))
        if done := self._done(answer, 201):
            told = done.json["decisions"]
            for question, one in zip(questions, told, strict=True):
                self._keep(self.ledger.told(one, question.get("key", "")))

    def give_feedback(self) -> None:
        if not (id := self._taken("open")):
            return
        verdict = self._verdict(id)
        state = self.ledger.verdict(id, verdict)
        self.ledger.trying(id, state)
        path = f"/v1/decisions/{id}/feedback"
        if self.random.random() < 0.3:
            verdict |= {"source": self.random.choice(["web", "mail", "a@b"])}
        if self._done(self.ask("POST", path, verdict, OWNER), 200):
            self.ledger.did(id, state)

    def log(self) -> None:
        """What another system said. The ledger hears of it as of a decision, and of its answer."""
        name, body = self._question("news")
        key, said = body.get("key", ""), self.random.choice(LABELS[name])
        body = {**body, "said": said, "propensity": 0.5}
        body.pop("among", None)
        answer = self.ask("POST", f"/v1/models/{name}/logged", body, OWNER)
        if done := self._done(answer, 201):
            self._keep(self.ledger.told({"id": done.json["id"], "label": said}, key))

    def give_feedback_many(self) -> None:
        ids = {id for _ in range(self.random.choice([1, 5, 30])) if (id := self._taken("open"))}
        if not ids:
            return
        given = [{"id": id, **self._verdict(id)} for id in ids]
        for one in given:
            self.ledger.trying(one["id"], self.ledger.verdict(one["id"], one))
        answer = self.ask("POST", "/v1/feedback:batch", {"feedback": given}, OWNER)
        if done := self._done(answer, 200):
            for one, outcome in zip(given, done.json["feedback"], strict=True):
                if "state" not in outcome:
                    raise Fault(f"{one} refused: {outcome}")
                self.ledger.did(one["id"], self.ledger.verdict(one["id"], one))

    def change(self) -> None:
        """Revise, revoke, cancel, erase, shown: a change of the past builds a learner again."""
        what = self.random.choice(["shown", "shown", "cancel", "revise", "revoke", "erase"])
        if what in ("revise", "revoke"):
            if not (id := self._taken("right", "wrong")):
                return
        elif not (id := self._taken("open")):
            return
        path, verdict = f"/v1/decisions/{id}", {"right": self.random.random() < 0.5}
        method, path, body, state = {
            "shown": ("POST", f"{path}/shown", None, "open"),
            "cancel": ("POST", f"{path}/cancel", None, "cancelled"),
            "revise": ("PUT", f"{path}/feedback", verdict, self.ledger.verdict(id, verdict)),
            "revoke": ("DELETE", f"{path}/feedback", None, "open"),
            "erase": ("DELETE", path, None, "erased"),
        }[what]
        self.ledger.trying(id, state)
        answer = self.ask(method, path, body, OWNER)
        if what == "shown" and answer and answer.status == 409:  # this model does not ask for it
            return
        if self._done(answer, 200):
            self.ledger.did(id, state)

    def read(self) -> None:
        id = self.random.choice(self._mine or self._spoiled)
        paths = [f"/v1/decisions/{id}", "/v1/models", "/v1/models/news", "/metrics", "/health"]
        path = self.random.choice([*paths, "/ready", "/openapi.json", *PAGES])
        answer = self.ask("GET", path, None, self.random.choice([OWNER, READER]))
        if path == f"/v1/decisions/{id}" and answer and answer.status == 200:
            self.ledger.check(answer.json)

    def manage(self) -> None:
        """Of labels and sources that no decision in the ledger needs."""
        number = self.random.randrange(10)
        method, path, body = self.random.choice(
            [
                ("POST", "labels", {"add": [f"new {number}"]}),
                ("POST", "labels", {"retire": [f"new {number}"]}),
                ("PUT", "sources/gone", {"weight": self.random.random()}),
                ("PUT", "sources/gone", {"quarantined": self.random.random() < 0.5}),
                ("DELETE", "sources/gone", None),
                ("POST", "retrain", {"seed": number}),
            ]
        )
        if path == "retrain" and self.random.random() < 0.9:  # seldom: it takes long
            return
        self.ask(method, f"/v1/models/news/{path}", body, OWNER)

    # Others.

    def without_right(self) -> None:
        """Any route with no token, with one that is not known, or with one that is for less."""
        method, path, verb = self._route()
        secret = self.random.choice([None, "nonsense-nonsense", "", READER])
        answer = self.ask(method, path, self._body(path), secret)
        if (
            answer is None
            or answer.status >= 300
            or verb is None
            or (secret, verb) == (READER, "read")
        ):
            return
        if path.endswith("feedback:batch") and all("problem" in x for x in answer.json["feedback"]):
            return  # each is refused by itself
        raise Fault(f"{method} {path} was done for {secret!r}")

    def wrong_value(self) -> None:
        method, path, _ = self._route()
        body = self._body(path)
        for _ in range(self.random.choice([1, 1, 1, 3])):
            body = self._spoil(body)
        try:
            data = json.dumps(body, ensure_ascii=self.random.random() < 0.5).encode()
        except (UnicodeEncodeError, ValueError):
            return
        self._note(self.send(head(method, path, OWNER, data) + data, method))

    def wrong_bytes(self) -> None:
        method, path, _ = self._route()
        data = bytearray(json.dumps(self._body(path)).encode())
        for _ in range(self.random.choice([1, 3])):
            at, junk = self.random.randrange(len(data) + 1), self.random.choice(BYTES)
            data[at : at + self.random.choice([0, 1, 5])] = junk
        if self.random.random() < 0.2:
            data = bytearray(self.random.randbytes(self.random.choice([1, 100, 5000])))
        self._note(self.send(head(method, path, OWNER, data) + data, method))

    def wrong_route(self) -> None:
        method = self.random.choice(METHODS)
        _, path, _ = self._route()
        parts = path.split("/")
        junk = ["", ".", "..", "%00", "%2e%2e", "%ff", "a" * 70, "news%0a", "*", "?a=b", "é"]
        parts[self.random.randrange(len(parts))] = self.random.choice([*junk, "nosuch", "1-zz"])
        path = self.random.choice([path, "/".join(parts), "*", "", "//", "http://a/v1/models"])
        data = self.random.choice([b"", b"{}"])
        self._note(self.send(head(method, path, OWNER, data) + data, method))

    def odd_headers(self) -> None:
        method, path, _ = self._route()
        data = json.dumps(self._body(path)).encode()
        extra = self.random.sample(HEADERS, self.random.choice([1, 1, 2]))
        begun = head(method, path, OWNER, data)[:-2] + b"\r\n".join(extra) + b"\r\n\r\n"
        self._note(self.send(begun + data, method, sure=False))
        self.close()  # nobody knows what the server takes the rest for

    def broken_off(self) -> None:
        """A request that ends in the middle, or whose sender does not wait for the answer."""
        method, path, _ = self._route()
        data = json.dumps(self._body(path)).encode()
        request = head(method, path, OWNER, data) + data
        with suppress(OSError):
            self._open().sendall(request[: self.random.randrange(1, len(request) + 1)])
        self.sent += 1
        self.close()

    def pipelined(self) -> None:
        requests = []
        for _ in range(self.random.choice([2, 5, 50])):
            method, path, _ = self._route(only="GET")
            requests.append((method, head(method, path, OWNER, b"")))
        with suppress(OSError):
            self._open().sendall(b"".join(data for _, data in requests))
        for method, _ in requests:
            self.sent += 1
            if not self._note(self._answer(method)):
                break

    def no_http(self) -> None:
        self.close()
        data = self.random.choice([self.random.randbytes(300), b"\x16\x03\x01" * 50, b"\r\n" * 99])
        self._note(self.send(data, "GET", sure=False))
        self.close()

    # Parts of requests.

    def _question(self, name: str = "") -> tuple[str, dict[str, Any]]:
        name = name or self.random.choice(["news", "news", "news", "later"])
        words = {f"w{self.random.randrange(500)}": 1.0 for _ in range(self.random.randrange(12))}
        body: dict[str, Any] = {"context": words}
        if self.random.random() < 0.5:
            body["key"] = f"{self._name}-{next(self._numbers)}"
        if self.random.random() < 0.2:
            body["among"] = LABELS[name][:2]
        return name, body

    def _verdict(self, id: str) -> dict[str, Any]:
        said = self.ledger.labels[id]
        labels = next((names for names in LABELS.values() if said in names), None)
        if labels is None or self.random.random() < 0.8:
            return {"right": self.random.random() < 0.5}
        return {"label": self.random.choice(labels)}

    def _keep(self, id: str) -> None:
        if self.random.random() < 0.1:
            self.ledger.forget(id)
            self._spoiled = [*self._spoiled[-50:], id]
        else:
            self._mine.append(id)
            del self._mine[:-400]

    def _taken(self, *states: str) -> str:
        """One of its own decisions in one of these states; empty if it finds none."""
        for _ in range(10 if self._mine else 0):
            id = self.random.choice(self._mine)
            known = self.ledger.states[id]
            if known and len(known) == 1 and known <= {*states}:
                return id
        return ""

    def _route(self, only: str = "") -> tuple[str, str, str | None]:
        """Any route, with the names filled in: method, path, the verb that its token needs."""
        found = [o for o in OPERATIONS if not only or o.method == only]
        # Each of these builds a learner again or changes labels for good.
        rare = {"retrain", "change_labels"}
        chosen = self.random.choice(found)
        if chosen.name in rare and self.random.random() < 0.9:
            chosen = self.random.choice(found)
        id = self.random.choice(self._spoiled)
        path = chosen.path.replace("{name}", self.random.choice(["news", "later", "news"]))
        path = path.replace("{id}", id).replace("{source}", "gone")
        return chosen.method, path, chosen.verb

    def _body(self, path: str) -> dict[str, Any]:
        """A body that is right for a path."""
        id = self.random.choice(self._spoiled)
        verdict: dict[str, Any] = {"right": self.random.random() < 0.5, "source": "gone"}
        question = self._question("news")[1]
        question.pop("key", None)
        bodies = {
            "decisions": question,
            "decisions:batch": {"decisions": [question, dict(question)]},
            "feedback": verdict,
            "feedback:batch": {"feedback": [{"id": id, **verdict}]},
            "logged": {"said": "sport", "propensity": 0.5, **question, **verdict},
            "logged:batch": {"logged": [{"said": "tech", "propensity": 1, **question}]},
            "labels": {"add": [f"odd {self.random.randrange(10)}"], "retire": []},
            "retrain": {"seed": self.random.randrange(5)},
            "gone": {"weight": 0.5, "quarantined": False},
        }
        return bodies.get(path.rpartition("/")[2], {})

    def _spoil(self, value: Any) -> Any:
        """The same with something else somewhere."""
        junk = self.random.choice(JUNK)
        if isinstance(value, dict) and value and self.random.random() < 0.9:
            name, how = self.random.choice([*value]), self.random.random()
            if how < 0.1:
                return {k: v for k, v in value.items() if k != name}
            if how < 0.25:
                return {**value, self.random.choice(["x", "", "é", "key", "among", "label"]): junk}
            return {**value, name: self._spoil(value[name])}
        if isinstance(value, list) and value and self.random.random() < 0.8:
            at = self.random.randrange(len(value))
            return [*value[:at], self._spoil(value[at]), *value[at + 1 :]]
        return junk

    # Sending.

    def ask(self, method: str, path: str, body: Any, secret: str | None) -> Answer | None:
        data = b"" if body is None else json.dumps(body).encode()
        return self._note(self.send(head(method, path, secret, data) + data, method))

    def send(self, data: bytes, method: str, sure: bool = True) -> Answer | None:
        """Send a request; None: there is no answer, and there need not be one.

        sure: whether the server must answer. If it has closed a kept connection meanwhile, the
        request goes out once more on a new one: it was not done, or it may be done twice.
        """
        self.sent += 1
        for _ in range(2):
            is_new = self._socket is None
            try:
                self._open().sendall(data)
                if not sure:
                    self._open().settimeout(1)
                if answer := self._answer(method):
                    return answer
            except OSError as error:
                self.close()
                if isinstance(error, TimeoutError) and sure:
                    raise Fault(f"no answer to {data[:300]!r}") from None
            if not sure or is_new:
                return None
        return None

    def _open(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
            self._input = self._socket.makefile("rb")
        return self._socket

    def close(self) -> None:
        if self._socket is not None:
            self._input.close()
            self._socket.close()
            self._socket = None

    def _answer(self, method: str) -> Answer | None:
        """The next answer; None: the connection was closed."""
        try:
            while True:
                line = self._input.readline(65536)
                if not line:
                    self.close()
                    return None
                status = int(line.split()[1])
                headers = {}
                while (field := self._input.readline(65536)) not in (b"\r\n", b""):
                    name, _, value = field.partition(b":")
                    headers[name.strip().lower()] = value.strip().lower()
                if status >= 200:
                    break
            length = int(headers.get(b"content-length", b"0"))
            has_body = method != "HEAD" and status not in (204, 304)
            body = self._input.read(length) if has_body else b""
            if headers.get(b"connection") == b"close":
                self.close()
            return Answer(status, body)
        except (ConnectionError, ValueError, IndexError):
            self.close()
            return None

    def _note(self, answer: Answer | None) -> Answer | None:
        self.statuses[str(answer.status) if answer else "closed"] += 1
        if answer and answer.status >= 500 and answer.status != 503:
            raise Fault(f"status {answer.status}: {answer.body[:500]!r}")
        return answer

    def _done(self, answer: Answer | None, status: int) -> Answer | None:
        """The answer if a request that is right was done. If the service is full, it was not."""
        if answer is None:
            return None
        if answer.status not in (status, 503):
            raise Fault(f"a right request was refused: {answer.status} {answer.body[:500]!r}")
        if answer.status == 503:
            time.sleep(0.1)
        return answer if answer.status == status else None


def head(method: str, path: str, secret: str | None, data: bytes | bytearray) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "host: localhost"]
    if secret is not None:
        lines.append(f"authorization: Bearer {secret}")
    if data:
        lines += ["content-type: application/json", f"content-length: {len(data)}"]
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogatepass")
