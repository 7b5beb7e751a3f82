"""HTTP in front of a service in memory, by a real server on a free port."""

from __future__ import annotations

import hashlib
import json
import logging
import socket
import threading
from contextlib import ExitStack
from types import SimpleNamespace

import httpx
import pytest
from fake_service import FakeService
from helpers.serving import listening, serving
from helpers.waiting import PATIENCE, wait_for
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onebit.service import faults
from onebit.service.configuration import Limits, ServiceOptions, Timeouts
from onebit.service.http.openapi import describe
from onebit.service.http.routes import OPERATIONS
from onebit.service.http.server import LimitedProtocol
from onebit.service.messages import Problem, fault_of, problem_of
from onebit.service.tokens import Token, Tokens

CONTEXT = {"goal": 1, "match": 2.5, "country": "fr", "text": "a long text", "none": None}
SECRETS = {"web": "the-token-of-the-website", "ops": "the-token-of-operations"}


@pytest.fixture
def site():
    with serving(FakeService()) as running:
        yield running


@pytest.fixture(scope="module")
def steady():
    """A site for tests that change nothing but its decisions."""
    with serving(FakeService()) as running:
        yield running


@pytest.fixture
def serve():
    """Serve with options of [service]."""
    opened = []

    def started(**options):
        context = serving(FakeService(**options))
        opened.append(context)
        return context.__enter__()

    yield started
    for context in opened:
        context.__exit__(None, None, None)


def tokens():
    def token(name, models, verbs):
        digest = hashlib.sha256(SECRETS[name].encode()).digest()
        return Token(name, models, verbs, digest)

    return Tokens(
        (
            token("web", ("news",), ("decide", "feedback")),
            token("ops", ("*",), ("decide", "feedback", "read", "admin")),
        )
    )


def bearer(name):
    return {"authorization": f"Bearer {SECRETS[name]}"}


def decide(site, model="news", **body):
    answer = site.http.post(f"/v1/models/{model}/decisions", json={"context": CONTEXT, **body})
    assert answer.status_code == 201
    return answer.json()


def problem(answer, kind):
    """The detail and the place of a problem."""
    assert answer.headers["content-type"] == "application/problem+json"
    said = answer.json()
    assert said["type"] == kind.kind and said["title"] == kind.title
    assert said["status"] == answer.status_code == kind.status
    return said["detail"], said.get("where", "")


# Deciding and feedback.


def test_decide_and_learn(site):
    answer = site.http.post("/v1/models/news/decisions", json={"context": CONTEXT, "key": "a"})
    told = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/v1/decisions/{told['id']}"
    assert told == {
        "id": "news-0",
        "label": "sport",
        "confidence": 0.75,
        "propensity": 0.5,
        "propensities": {"sport": 0.5, "tech": 0.5},
        "explored": False,
        "round": 0,
    }
    path = f"/v1/decisions/{told['id']}"
    assert site.http.get(path).json() == {
        **told,
        "model": "news",
        "time": 1.5,
        "state": "open",
        "context": CONTEXT,
        "feedback": [],
        "speaker": None,
        "said_at": None,
    }
    answer = site.http.post(f"{path}/feedback", json={"right": True, "source": "page-3"})
    assert (answer.status_code, answer.json()) == (200, {"id": "news-0", "state": "learned"})
    record = site.http.get(path).json()
    assert record["state"] == "learned"
    assert record["feedback"] == [{"time": 2.5, "right": True, "source": "page-3"}]


def test_what_another_system_said(site):
    path = "/v1/models/news/logged"
    body = {"context": CONTEXT, "said": "tech", "right": True, "propensity": 0.5, "key": "a"}
    answer = site.http.post(path, json=body)
    assert (answer.status_code, answer.json()) == (201, {"id": "news-0", "state": "learned"})
    record = site.http.get("/v1/decisions/news-0").json()
    assert (record["label"], record["speaker"], record["propensity"]) == ("tech", "other", 0.5)
    batch = {"logged": [{"context": [1], "said": "sport"}, {"context": [1], "said": "sport"}]}
    batch["logged"][1]["label"] = "none"
    found = site.http.post(f"{path}:batch", json=batch)
    assert found.status_code == 201
    taken, refused = found.json()["logged"]
    assert taken == {"id": "news-1", "state": "open"}
    assert refused["problem"]["where"] == "$.logged[1].label" and "id" not in refused
    both = {"context": [1], "said": "sport", "right": True, "label": "tech"}
    assert "not both" in problem(site.http.post(path, json=both), faults.Refused)[0]
    answer = site.http.post(f"{path}:batch", json={"logged": [both]})
    assert problem(answer, faults.Refused)[1] == "$.logged[0]"
    wrong = {"context": [1], "said": "sport", "propensity": 0}
    assert problem(site.http.post(path, json=wrong), faults.Refused)[1] == "$.propensity"
    metrics = site.http.get("/metrics").text
    assert 'onebit_logged_total{model="news"} 3.0' in metrics
    assert 'onebit_http_requests_total{method="POST",route="/v1/models/{name}/logged"' in metrics


def test_feedback_of_another_system_needs_a_token_for_feedback():
    digest = hashlib.sha256(b"a-token-only-to-decide").digest()
    known = Tokens((Token("web", ("news",), ("decide",), digest),))
    site = serving(FakeService(tokens=known))
    with site as running:
        head = {"authorization": "Bearer a-token-only-to-decide"}
        path, body = "/v1/models/news/logged", {"context": [1], "said": "tech"}
        assert running.http.post(path, json=body, headers=head).status_code == 201
        refused = running.http.post(path, json={**body, "right": True}, headers=head)
        assert "feedback on model 'news'" in problem(refused, faults.NotPermitted)[0]


@pytest.mark.parametrize(
    "context",
    [
        {},
        [],
        [1, 2.5],
        [1, None],
        [[3, 1.0], [17, 2]],
        "some text",
        "",
        {"a": True, "ü": "x", "": 0},
    ],
)
def test_contexts(steady, context):
    told = steady.http.post("/v1/models/news/decisions", json={"context": context})
    assert told.status_code == 201
    assert steady.http.get(told.headers["location"]).json()["context"] == context


def test_among_and_labels_that_are_numbers(site):
    told = decide(site, "counted", among=[2, 1])
    assert told["label"] == 2 and told["propensities"] == {"1": 0.5, "2": 0.5}
    answer = site.http.post(f"/v1/decisions/{told['id']}/feedback", json={"label": 1})
    assert answer.json()["state"] == "learned"


def test_the_same_key_gives_the_same_decision(site):
    assert decide(site, key="a") == decide(site, key="a") != decide(site, key="b")
    answer = site.http.post("/v1/models/news/decisions", json={"context": "x", "key": "a"})
    problem(answer, faults.KeyReused)


def test_batches(site):
    questions = [{"context": CONTEXT}, {"context": [1, 2], "among": ["tech"]}]
    answer = site.http.post("/v1/models/news/decisions:batch", json={"decisions": questions})
    assert answer.status_code == 201
    told = answer.json()["decisions"]
    assert [held["label"] for held in told] == ["sport", "tech"]
    counted = decide(site, "counted")
    answers = [
        {"id": told[0]["id"], "right": False},
        {"id": "nonsense", "right": True},
        {"id": counted["id"], "label": 2, "source": "a"},
        {"id": told[1]["id"], "label": "nonsense"},
    ]
    answer = site.http.post("/v1/feedback:batch", json={"feedback": answers})
    assert answer.status_code == 200
    first, unknown, third, mistaken = answer.json()["feedback"]
    assert first == {"id": told[0]["id"], "state": "learned"}
    assert third == {"id": counted["id"], "state": "learned"}
    assert unknown["problem"]["type"] == faults.UnknownDecision.kind
    assert mistaken["problem"]["where"] == "$.feedback[3].label"
    answers.append({"id": told[1]["id"]})
    answer = site.http.post("/v1/feedback:batch", json={"feedback": answers})
    assert problem(answer, faults.Refused)[1] == "$.feedback[4]"


def test_a_batch_of_decisions_is_refused_as_a_whole(site):
    questions = [{"context": CONTEXT}, {"context": [[1, 2], 3]}]
    answer = site.http.post("/v1/models/news/decisions:batch", json={"decisions": questions})
    assert problem(answer, faults.Refused)[1] == "$.decisions[1].context[1]"
    assert not site.service.models["news"].records


def test_states(site):
    def said(method, path, **given):
        answer = site.http.request(method, f"/v1/decisions/{path}", **given)
        assert answer.status_code == 200
        return answer.json()["state"]

    id = decide(site)["id"]
    assert said("POST", f"{id}/shown") == "open"
    assert said("POST", f"{id}/feedback", json={"right": True}) == "learned"
    assert said("POST", f"{id}/feedback", json={"right": True}) == "learned"
    answer = site.http.post(f"/v1/decisions/{id}/feedback", json={"right": False})
    problem(answer, faults.Contradiction)
    assert said("PUT", f"{id}/feedback", json={"label": "tech"}) == "learned"
    assert said("DELETE", f"{id}/feedback") == "open"
    assert said("DELETE", id) == "erased"
    assert site.http.get(f"/v1/decisions/{id}").json()["context"] is None
    assert said("POST", f"{id}/cancel") == "cancelled"
    problem(site.http.post(f"/v1/decisions/{id}/feedback", json={"right": True}), faults.Cancelled)
    late = decide(site)["id"]
    site.service.models["news"].expired.add(late)
    answer = site.http.post(f"/v1/decisions/{late}/feedback", json={"right": True})
    problem(answer, faults.Expired)


def test_models(site):
    names = [model["name"] for model in site.http.get("/v1/models").json()["models"]]
    assert names == ["news", "counted"]
    card = site.http.get("/v1/models/news").json()
    assert card["labels"] == ["sport", "tech"]
    answer = site.http.post("/v1/models/news/retrain", json={"learner": "UCWL"})
    assert answer.status_code == 202 and answer.json()["learner"] == "UCWL"
    change = {"add": ["food"], "retire": ["tech"]}
    card = site.http.post("/v1/models/news/labels", json=change).json()
    assert card["labels"] == ["sport", "tech", "food"] and card["retired"] == ["tech"]
    path = "/v1/models/news/sources/user@example.org"
    card = site.http.put(path, json={"weight": 0.5, "quarantined": True}).json()
    assert card["sources"] == {
        "user@example.org": {"weight": 0.5, "quarantined": True, "answers": 0}
    }
    assert site.http.delete(path).json()["sources"] == {}


def test_nothing_is_answered_before_the_commit(site):
    site.service.commits.fail = OSError("disk on fire")
    answer = site.http.post("/v1/models/news/decisions", json={"context": {}})
    assert "/ready" in problem(answer, faults.Unavailable)[0]
    assert answer.headers["retry-after"] == "5"
    site.service.commits.fail = faults.Refused("said by the journal")
    answer = site.http.post("/v1/models/news/decisions", json={"context": {}})
    assert problem(answer, faults.Refused)[0] == "said by the journal"


def test_many_connections_share_commits(site):
    def ask(count):
        with httpx.Client(base_url=site.url, timeout=PATIENCE) as client:
            for _ in range(count):
                client.post("/v1/models/news/decisions", json={"context": {"a": 1}})

    threads = [threading.Thread(target=ask, args=(20,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(site.service.models["news"].records) == 160


def test_busy(site):
    id = decide(site)["id"]
    site.service.commits.busy = True
    answer = site.http.post("/v1/models/news/decisions", json={"context": {}})
    problem(answer, faults.Busy)
    assert answer.headers["retry-after"] == "1"
    one = {"feedback": [{"id": id, "right": True}]}
    problem(site.http.post("/v1/feedback:batch", json=one), faults.Busy)


def test_a_batch_for_two_models_of_which_one_is_busy(site):
    def busy(answers):
        raise faults.Busy("the queue is full")

    site.service.models["counted"].submit_feedback_many = busy
    answers = [{"id": decide(site, model)["id"], "right": True} for model in ("news", "counted")]
    taken, refused = site.http.post("/v1/feedback:batch", json={"feedback": answers}).json()[
        "feedback"
    ]
    assert taken["state"] == "learned" and refused["problem"]["status"] == 503


# What is refused.


@pytest.mark.parametrize(
    ("body", "kind", "where", "detail"),
    [
        (b"", faults.Malformed, "", "not JSON"),
        (b"{", faults.Malformed, "", "not JSON"),
        (b'{"context": "\\ud800"}', faults.Malformed, "", "not JSON"),
        (b'{"context": "\xff"}', faults.Malformed, "", "not JSON"),
        (b"[]", faults.Refused, "$", "Expected object, got array"),
        (b"{}", faults.Refused, "$", "missing required field context"),
        (b'{"context": 5}', faults.Refused, "$.context", "got int"),
        (b'{"context": null}', faults.Refused, "$.context", "got null"),
        (b'{"context": {"a": 1, "b": [1]}}', faults.Refused, "$.context.b", "got array"),
        (b'{"context": {"a b": {}}}', faults.Refused, "$.context['a b']", "got object"),
        (b'{"context": [1, "x"]}', faults.Refused, "$.context[1]", "got str"),
        (b'{"context": [1e300]}', faults.Refused, "$.context[0]", "<="),
        (b'{"context": {"a": 1' + b"0" * 400 + b"}}", faults.Refused, "$.context.a", "range"),
        (b'{"context": [[1, 2, 3]]}', faults.Refused, "$.context[0]", "pairs"),
        (b'{"context": [[-1, 2]]}', faults.Refused, "$.context[0]", "pairs"),
        (b'{"context": [[1.5, 2]]}', faults.Refused, "$.context[0]", "pairs"),
        (b'{"context": [[16777216, 2]]}', faults.Refused, "$.context[0]", "pairs"),
        (b'{"context": [[1, 2], []]}', faults.Refused, "$.context[1]", "pairs"),
        (b'{"context": {}, "among": []}', faults.Refused, "$.among", "length >= 1"),
        (b'{"context": {}, "among": ["x"]}', faults.Refused, "$.among[0]", "no label 'x'"),
        (b'{"context": {}, "among": [1.5]}', faults.Refused, "$.among[0]", "got float"),
        (b'{"context": {}, "key": ""}', faults.Refused, "$.key", "length >= 1"),
        (b'{"context": {}, "amogn": []}', faults.Refused, "$", "unknown field amogn"),
        (b'{"context": ' + b"[" * 100_000, faults.Refused, "", ""),
        (b'{"context": {"a": [], "a": 1}}', faults.Refused, "$.context[...]", "got array"),
        # A mistake, and after it what cannot be read, or the same name again.
        (b'{"context": {"a": [1]}, "key": "\xa6"}', faults.Refused, "$.context[...]", "got array"),
        (b'{"context": {"a": [1]},', faults.Refused, "$.context[...]", "got array"),
        (b'{"context": {"a": [1]}, "x": ' + b"[" * 200_000, faults.Refused, "", "got array"),
        (b'{"context": {"a": [1]}, "context": [1]}', faults.Refused, "$.context[...]", "got array"),
        (b'{"context": {"a": [1]}, "context": null}', faults.Refused, "", "got array"),
        (b'{"context": {"a": [1]}, "context": "x"}', faults.Refused, "", "got array"),
    ],
)
def test_bodies_that_are_refused(steady, body, kind, where, detail):
    headers = {"content-type": "application/json"}
    answer = steady.http.post("/v1/models/news/decisions", content=body, headers=headers)
    said, place = problem(answer, kind)
    assert detail in said
    assert place == where or not where


@pytest.mark.parametrize("again", [b"[]", b"5", b"null", b'{"a": 1}', b'[{"context": 1}]', b"["])
def test_batches_that_say_the_same_name_twice(steady, again):
    body = b'{"decisions": [{"context": {"a": [1]}}], "decisions": ' + again + b"}"
    headers = {"content-type": "application/json"}
    answer = steady.http.post("/v1/models/news/decisions:batch", content=body, headers=headers)
    assert problem(answer, faults.Refused)[1] == "$.decisions[0].context[...]"


def test_lists_in_lists_without_end(steady):
    body = b'{"settings": {"a": ' + b"[" * 100_000
    headers = {"content-type": "application/json"}
    answer = steady.http.post("/v1/models/news/retrain", content=body, headers=headers)
    assert "without end" in problem(answer, faults.Malformed)[0]


@pytest.mark.parametrize(
    "body", [{}, {"right": True, "label": "tech"}, {"right": None}, {"right": 2}, {"source": "a/b"}]
)
def test_feedback_that_is_refused(steady, body):
    id = decide(steady)["id"]
    problem(steady.http.post(f"/v1/decisions/{id}/feedback", json=body), faults.Refused)
    problem(steady.http.put(f"/v1/decisions/{id}/feedback", json=body), faults.Refused)


@pytest.mark.parametrize(
    "source", ["", "a/b", "mallory\n", "\nmallory", "mallory\r", "mallory\u2028"]
)
def test_a_source_that_no_path_could_name_is_refused(steady, source):
    id, body = decide(steady)["id"], {"right": True, "source": source}
    problem(steady.http.post(f"/v1/decisions/{id}/feedback", json=body), faults.Refused)
    batch = {"feedback": [{"id": id, **body}]}
    problem(steady.http.post("/v1/feedback:batch", json=batch), faults.Refused)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"right": True, "source": "a b"}, "Expected a name of 1 to 100 letters, digits and . _"),
        ({"right": 2}, "Expected true, false, 1 or 0, got 2"),
    ],
)
def test_no_pattern_is_told_to_people(steady, body, said):
    path = f"/v1/decisions/{decide(steady)['id']}/feedback"
    assert said in problem(steady.http.post(path, json=body), faults.Refused)[0]


def test_an_undo_that_is_none_is_refused_in_words(steady):
    answer = steady.http.post("/v1/models/news/promote", json={"undo": False})
    assert problem(answer, faults.Refused)[0] == "Expected true, got false"


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
json_values = st.recursive(
    plain, lambda held: st.lists(held) | st.dictionaries(st.text(), held), max_leaves=8
)
fields = st.sampled_from(["context", "among", "key", "right", "label", "source", "decisions", "id"])
objects = (st.dictionaries(fields, json_values) | json_values).map(
    lambda value: json.dumps(value).encode()
)
pairs = st.tuples(fields, st.just({"a": []}) | json_values).map(
    lambda pair: f"{json.dumps(pair[0])}: {json.dumps(pair[1])}".encode()
)
repeated = st.lists(pairs | st.binary(max_size=3), max_size=4).map(
    lambda held: b"{" + b", ".join(held) + b"}"
)
bodies = st.binary() | objects | repeated


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_body_breaks_the_service(steady, data):
    made = data.draw(st.sampled_from([made for made in OPERATIONS if made.body is not None]))
    id = next(iter(steady.service.models["news"].records), "none")
    answer = steady.http.request(
        made.method,
        made.path.format(name="counted", id=id, source="a"),
        content=data.draw(bodies),
        headers={"content-type": "application/json"},
    )
    assert answer.status_code < 500
    if answer.status_code >= 400:
        assert answer.json()["status"] == answer.status_code


def test_paths_that_are_refused(steady):
    http = steady.http
    assert "news, counted" in problem(http.get("/v1/models/nwes"), faults.UnknownModel)[0]
    problem(http.post("/v1/models/a b/decisions", json={"context": {}}), faults.UnknownModel)
    problem(http.get("/v1/decisions/nonsense"), faults.UnknownDecision)
    problem(http.get("/v1/decisions/%00"), faults.UnknownDecision)
    problem(http.put("/v1/models/news/sources/a%20b", json={}), faults.Refused)
    for path in ("/", "/v1", "/v1/models/", "/v1/models/news/decisions/", "/%ff"):
        problem(http.get(path), faults.UnknownPath)
    answer = http.get("/v1/models/news/decisions")
    problem(answer, faults.WrongMethod)
    assert answer.headers["allow"] == "POST"
    assert http.delete("/health").headers["allow"] == "GET, HEAD"
    answer = http.post("/dashboard", json={})  # a page
    problem(answer, faults.WrongMethod)
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD"}


def test_head_and_keep_alive(steady):
    answer = steady.http.head("/health")
    assert answer.status_code == 200 and answer.content == b""
    assert answer.headers["content-length"] == "15" and "server" not in answer.headers


@pytest.mark.parametrize("media", [None, "text/plain", "application/x-www-form-urlencoded", ""])
def test_other_media_types(steady, media):
    headers = {} if media is None else {"content-type": media}
    answer = steady.http.post("/v1/models/news/decisions", content=b"{}", headers=headers)
    problem(answer, faults.WrongMediaType)


def test_a_charset_is_no_other_media_type(steady):
    headers = {"content-type": "application/JSON; charset=utf-8"}
    answer = steady.http.post(
        "/v1/models/news/decisions", content=b'{"context": {}}', headers=headers
    )
    assert answer.status_code == 201


def test_limits(serve):
    site = serve(limits=Limits(body=1000, batch=2, features=3))
    http, path = site.http, "/v1/models/news/decisions"
    context = {str(i): i for i in range(4)}
    detail, where = problem(http.post(path, json={"context": context}), faults.TooLarge)
    assert "at most 3 entries" in detail and where == "$.context"
    problem(http.post(path, json={"context": [1, 2, 3, 4]}), faults.TooLarge)
    batch = {"decisions": [{"context": {}}] * 3}
    assert "at most 2" in problem(http.post(f"{path}:batch", json=batch), faults.TooLarge)[0]
    batch = {"feedback": [{"id": "x", "right": True}] * 3}
    assert "at most 2" in problem(http.post("/v1/feedback:batch", json=batch), faults.TooLarge)[0]
    long = {"context": "x" * 1000}
    assert "at most 1,000 bytes" in problem(http.post(path, json=long), faults.TooLarge)[0]


def test_a_body_of_unknown_length_is_cut_off(serve):
    site = serve(limits=Limits(body=1000))
    sent = 0

    def endless():
        nonlocal sent
        while sent < 10**8:
            sent += 100
            yield b"x" * 100

    headers = {"content-type": "application/json"}
    try:
        answer = site.http.post("/v1/models/news/decisions", content=endless(), headers=headers)
        problem(answer, faults.TooLarge)
    except (httpx.WriteError, httpx.ReadError):  # the server closed before it was read
        pass
    assert sent < 10**8


# Slow and broken clients.


def answer_of(connection):
    """What arrives until the server closes."""
    connection.settimeout(PATIENCE)
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


HEAD = (
    b"POST /v1/models/news/decisions HTTP/1.1\r\nhost: localhost\r\n"
    b"content-type: application/json\r\n"
)


SLOW = (
    HEAD,
    HEAD + b'content-length: 100\r\n\r\n{"context":',
    b"GET /health HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\nx",
    b"",
)


def test_slow_clients_do_not_stall_others(serve):
    site = serve(timeouts=Timeouts(body=3600, idle=3600))
    with ExitStack() as opened:
        for part in SLOW:
            opened.enter_context(site.connect()).sendall(part)
        for _ in range(20):
            decide(site)  # within the patience of the client


def test_slow_clients_are_cut_off(serve):
    site = serve(timeouts=Timeouts(body=0.4, idle=1))
    with ExitStack() as opened:
        connections = []
        for part in SLOW:
            connections.append(opened.enter_context(site.connect()))
            connections[-1].sendall(part)
        head, body, no_body, silence = map(answer_of, connections)
    for answer in (head, body):
        assert answer.startswith(b"HTTP/1.1 408 Request Timeout")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["status"] == 408
    assert no_body.startswith(b"HTTP/1.1 200 OK")
    assert silence == b""


def test_huge_headers(steady):
    with steady.connect() as connection:
        connection.sendall(HEAD + b"x-long: ")
        for _ in range(20):
            try:
                connection.sendall(b"x" * 8000)
            except OSError:
                break
        assert answer_of(connection).startswith(b"HTTP/1.1 431 ")
    assert steady.http.get("/health").status_code == 200


@pytest.mark.parametrize("before", [b"", b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"])
def test_huge_headers_in_one_piece(steady, before):
    with steady.connect() as connection:
        large = b"GET /health HTTP/1.1\r\nhost: localhost\r\nx: " + b"x" * 2**16 + b"\r\n\r\n"
        connection.sendall(before + large)
        assert b"HTTP/1.1 431 " in answer_of(connection)
    assert steady.http.get("/health", headers={"x": "x" * 2**15}).status_code == 200


def test_empty_lines_are_no_request(serve):
    """They do not keep a connection, neither before the first request nor after it."""
    site = serve(timeouts=Timeouts(body=3600, idle=1), limits=Limits(connections=3))
    first, later, twice = (site.connect() for _ in range(3))
    try:
        request = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
        later.sendall(request)
        twice.sendall(b"\r\n" + request + b"\r\n")
        for connection in (first, later, twice):
            connection.sendall(b"\r\n")
        # An hour later, if the lines counted as a request that has begun.
        assert answer_of(first) == b""
        for connection in (later, twice):
            assert answer_of(connection).count(b"200 OK") == 1
    finally:
        for connection in (first, later, twice):
            connection.close()
    assert site.http.get("/health").status_code == 200


LARGE = 20_000_000  # bytes, more than the system takes for a client that does not read


async def large_answers(scope, receive, send):
    headers = [(b"content-length", b"%d" % LARGE)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": bytes(LARGE)})


@pytest.mark.parametrize("more", [b"", b"connection: close\r\n"])
def test_clients_that_do_not_read_are_cut_off(more, caplog):
    # With one connection, the next client is answered once the first one is gone.
    options = ServiceOptions(timeouts=Timeouts(body=0.3, idle=1), limits=Limits(connections=1))
    request = b"GET / HTTP/1.1\r\nhost: localhost\r\n" + more + b"\r\n"
    with (
        listening(lambda _: large_answers, options) as port,
        socket.create_connection(("127.0.0.1", port), PATIENCE) as connection,
    ):
        connection.sendall(request * 100)
        address = f"http://127.0.0.1:{port}"
        wait_for(lambda: httpx.get(address, timeout=PATIENCE).status_code != 503)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_slow_readers_get_their_answer(monkeypatch):
    """Something was read between any two looks at the connection."""
    made, connected = [], LimitedProtocol.connection_made

    def noted(protocol, transport):
        connected(protocol, transport)
        made.append(protocol)

    monkeypatch.setattr(LimitedProtocol, "connection_made", noted)
    options = ServiceOptions(timeouts=Timeouts(body=3600, idle=3600))
    with listening(lambda _: large_answers, options) as port, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)  # more has to wait
        connection.settimeout(PATIENCE)
        connection.connect(("127.0.0.1", port))
        connection.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        connection.recv(1, socket.MSG_PEEK)
        (protocol,) = made
        got, part = 0, b"?"
        while part:
            looked = threading.Event()
            protocol.loop.call_soon_threadsafe(
                lambda looked=looked: (protocol._check_reading(), looked.set())
            )
            assert looked.wait(PATIENCE)
            before = protocol._unread
            if not before:  # the system has taken the rest
                break
            while part and protocol.transport.get_write_buffer_size() >= before:
                part = connection.recv(10**5, socket.MSG_WAITALL)
                got += len(part)
        assert got + len(answer_of(connection)) > LARGE


@pytest.mark.parametrize(
    ("unread", "is_cut_off"),
    [((20, 15, 10, 5, 0), False), ((20, 20), True), ((0, 0, 0), False), ((0, 5, 4, 4), True)],
)
def test_who_reads_nothing_between_two_looks_is_cut_off(unread, is_cut_off):
    left, cut = list(unread), []
    protocol = SimpleNamespace(
        _unread=0,
        _check_reading=None,
        timeouts=Timeouts(),
        loop=SimpleNamespace(call_later=lambda seconds, look: None),
        transport=SimpleNamespace(
            get_write_buffer_size=lambda: left.pop(0), abort=lambda: cut.append(len(left))
        ),
    )
    for _ in unread:
        assert not cut
        LimitedProtocol._check_reading(protocol)
    assert cut == ([0] if is_cut_off else [])


def test_bodies_do_not_count_as_headers(serve):
    site = serve(limits=Limits(body=10**6))
    for _ in range(3):
        decide(site, among=["sport"] * 20_000)


def test_not_http(steady):
    with steady.connect() as connection:
        connection.sendall(b"nonsense\r\n\r\n")
        answer = answer_of(connection)
    assert answer.startswith(b"HTTP/1.1 400 Bad Request") and b"urn:onebit:malformed" in answer


def test_half_sent_bodies(site):
    for _ in range(5):
        with site.connect() as connection:
            connection.sendall(HEAD + b'content-length: 100\r\n\r\n{"context":')
    assert not site.service.models["news"].records
    decide(site)
    wait_for(lambda: b"499" in site.http.get("/metrics").content)


def test_pipelined_requests(steady):
    request = HEAD + b'content-length: 15\r\n\r\n{"context": {}}'
    with steady.connect() as connection:
        connection.sendall(
            request * 3 + request.replace(b"\r\nhost", b"\r\nconnection: close\r\nhost")
        )
        assert answer_of(connection).count(b"201 Created") == 4


def test_a_stop_answers_what_was_accepted():
    service = FakeService()
    context = serving(service)
    site = context.__enter__()
    release, pending = threading.Event(), service.commits.pending
    answers = []

    def slow(value):
        made = pending(value)
        made.future = service.held
        return made

    from concurrent.futures import Future

    service.held = Future()
    service.commits.pending = slow
    asker = threading.Thread(
        target=lambda: answers.append(
            httpx.post(
                f"{site.url}/v1/models/news/decisions", json={"context": {}}, timeout=PATIENCE
            )
        )
    )
    asker.start()
    wait_for(lambda: service.models["news"].records)
    stopper = threading.Thread(target=lambda: (context.__exit__(None, None, None), release.set()))
    stopper.start()
    assert not release.wait(0.3)
    service.held.set_result(None)
    asker.join(PATIENCE)
    stopper.join(PATIENCE)
    assert answers[0].status_code == 201


# Tokens.


def test_tokens(serve):
    http = serve(tokens=tokens()).http
    path, body = "/v1/models/news/decisions", {"context": {}}
    answer = http.post(path, json=body)
    assert "Authorization: Bearer" in problem(answer, faults.NoToken)[0]
    assert answer.headers["www-authenticate"] == "Bearer"
    wrong = {"authorization": "Bearer wrong"}
    problem(http.post(path, json=body, headers=wrong), faults.NoToken)
    basic = {"authorization": f"Basic {SECRETS['web']}"}
    problem(http.post(path, json=body, headers=basic), faults.NoToken)
    answer = http.post(path, json=body, headers=bearer("web"))
    assert answer.status_code == 201
    place = answer.headers["location"]
    detail, _ = problem(http.get(place, headers=bearer("web")), faults.NotPermitted)
    assert detail == "the token 'web' is not for read on model 'news'"
    assert http.get(place, headers=bearer("ops")).status_code == 200
    answer = http.post(f"{place}/feedback", json={"right": True}, headers=bearer("web"))
    assert answer.status_code == 200
    answer = http.post("/v1/models/counted/decisions", json=body, headers=bearer("web"))
    problem(answer, faults.NotPermitted)
    answer = http.post("/v1/models/counted/decisions", json=body, headers=bearer("ops"))
    assert answer.status_code == 201
    batch = {"feedback": [{"id": answer.json()["id"], "right": True}]}
    (outcome,) = http.post("/v1/feedback:batch", json=batch, headers=bearer("web")).json()[
        "feedback"
    ]
    assert outcome["problem"]["type"] == faults.NotPermitted.kind


def test_what_needs_which_token(serve):
    http = serve(tokens=tokens()).http
    for path in ("/health", "/ready", "/openapi.json"):
        assert http.get(path).status_code == 200
    problem(http.get("/metrics"), faults.NoToken)
    problem(http.get("/metrics", headers=bearer("web")), faults.NotPermitted)
    assert http.get("/metrics", headers=bearer("ops")).status_code == 200
    problem(http.get("/v1/models"), faults.NoToken)
    assert http.get("/v1/models", headers=bearer("web")).json() == {"models": []}
    assert len(http.get("/v1/models", headers=bearer("ops")).json()["models"]) == 2


def test_every_route_with_a_verb_needs_a_token(serve):
    http = serve(tokens=tokens()).http
    for made in OPERATIONS:
        if made.verb is not None:
            path = made.path.format(name="news", id="x", source="x")
            problem(http.request(made.method, path), faults.NoToken)


def test_pages_of_other_sites_cannot_reach_a_service_without_tokens(serve, site):
    body = {"context": {}}
    path = "/v1/models/news/decisions"
    for headers in (
        {"origin": "https://evil.example"},
        {"host": "evil.example"},  # whose name resolves to 127.0.0.1
        {"host": f"evil.example:{site.port}"},
        {"origin": "null"},
        {"origin": "http://[::1"},
    ):
        problem(site.http.post(path, json=body, headers=headers), faults.NotPermitted)
    for host in ("localhost", f"localhost:{site.port}", "[::1]:8331", "[::1]", "127.0.0.1"):
        answer = site.http.post(path, json=body, headers={"host": host})
        assert answer.status_code == 201
    own = {"origin": f"http://127.0.0.1:{site.port}"}
    assert site.http.post(path, json=body, headers=own).status_code == 201
    guarded = serve(tokens=tokens())
    headers = {"origin": "https://shop.example", "host": "onebit.example", **bearer("web")}
    assert guarded.http.post(path, json=body, headers=headers).status_code == 201


def test_secrets_are_not_logged(serve, caplog):
    site = serve(tokens=tokens())
    with caplog.at_level(logging.DEBUG):
        headers = {**bearer("web"), "cookie": "a-cookie"}
        path = "/v1/models/news/decisions?token=in-a-query"
        site.http.post(path, json={"context": {"private": 1}}, headers=headers)
        site.http.post(path, json={"context": {}}, headers={"authorization": "Bearer guessed"})
        site.http.get("/x%0Aforged%20line")
    lines = [record.getMessage() for record in caplog.records if record.name == "onebit.access"]
    assert len(lines) == 3
    assert lines[0].startswith("127.0.0.1 web POST /v1/models/news/decisions 201 ")
    assert lines[1].startswith("127.0.0.1 - POST /v1/models/news/decisions 401 ")
    assert "\n" not in lines[2]
    for secret in (*SECRETS.values(), "a-cookie", "in-a-query", "private", "guessed"):
        for record in caplog.records:
            if record.name.startswith("onebit"):
                assert secret not in record.getMessage()


def test_no_access_log(serve, caplog):
    with caplog.at_level(logging.INFO):
        serve(access_log=False).http.get("/health")
    assert not [record for record in caplog.records if record.name == "onebit.access"]


# The service itself.


def test_health_and_readiness(site):
    assert site.http.get("/health").json() == {"status": "ok"}
    ready = {"status": "ready", "models": ["news", "counted"]}
    assert site.http.get("/ready").json() == ready
    site.service.models["news"].problem = "a reason that only readers of the model may see"
    answer = site.http.get("/ready")
    assert (
        answer.status_code == 200 and "the model card says why" in answer.json()["problems"]["news"]
    )
    assert "a reason" not in answer.text
    site.service.reason = "the journal is being read"
    answer = site.http.get("/ready")
    assert problem(answer, faults.Unavailable)[0] == "the journal is being read"
    assert site.http.get("/health").status_code == 200


def test_metrics(site):
    for right in (True, False, True):
        id = decide(site)["id"]
        site.http.post(f"/v1/decisions/{id}/feedback", json={"right": right})
    site.http.get("/nonsense")
    answer = site.http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    lines = answer.text.splitlines()
    for line in (
        'onebit_decisions_total{model="news"} 3.0',
        'onebit_answers_total{answer="right",model="news"} 2.0',
        'onebit_error_share{model="news"} 0.3333333333333333',
        'onebit_explored_share{model="news"} 0.0',
        'onebit_explored_share{model="counted"} NaN',
        'onebit_answer_delay_seconds_bucket{le="1.0",model="news"} 3.0',
        'onebit_smallest_propensity{model="news"} 1.0',
        "onebit_ready 1.0",
        'onebit_http_requests_total{method="POST",route="/v1/models/{name}/decisions",'
        'status="201"} 3.0',
        'onebit_http_requests_total{method="other",route="unknown",status="404"} 1.0',
    ):
        assert line in lines
    assert any(line.startswith("onebit_journal_sync_seconds_bucket") for line in lines)


def test_an_error_inside_is_told_without_details(site, caplog):
    def broken():
        raise RuntimeError("details")

    site.service.models["news"].card = broken
    answer = site.http.get("/v1/models/news")
    assert problem(answer, faults.ServiceError)[0] == "see the log of the service"
    assert "details" in caplog.text


def test_openapi(steady):
    document = steady.http.get("/openapi.json").json()
    assert document == json.loads(json.dumps(describe(OPERATIONS)))
    change = document["paths"]["/v1/models/{name}/sources/{source}"]["put"]["requestBody"]
    assert change["content"]["application/json"]["schema"]["minProperties"] == 1
    assert document["openapi"] == "3.1.0"
    described = {(m.upper(), path) for path, held in document["paths"].items() for m in held}
    assert described == {(made.method, made.path) for made in OPERATIONS}
    text = json.dumps(document)
    for reference in set(_references(document)):
        assert reference.removeprefix("#/components/schemas/") in document["components"]["schemas"]
    assert "Problem" in text
    decide_path = document["paths"]["/v1/models/{name}/decisions"]["post"]
    statuses = {"201", "400", "401", "403", "404", "408", "409", "413", "415", "422", "503"}
    assert set(decide_path["responses"]) == statuses


def _references(part):
    if isinstance(part, dict):
        if "$ref" in part:
            yield part["$ref"]
        for held in part.values():
            yield from _references(held)
    elif isinstance(part, list):
        for held in part:
            yield from _references(held)


# Faults.


@pytest.mark.parametrize("kind", faults.ServiceError.kinds.values(), ids=lambda kind: kind.__name__)
def test_faults_survive_the_wire(kind):
    fault = kind("a sentence", where="$.context")
    again = fault_of(problem_of(fault))
    assert type(again) is kind and again.detail == "a sentence" and again.where == "$.context"
    assert str(again) == "a sentence" and again.retry_after == fault.retry_after
    assert problem_of(kind()).detail == kind.title


def test_an_unknown_fault_keeps_its_status():
    said = Problem(type="urn:later", title="later", status=418, detail="of a later version")
    fault = fault_of(said)
    assert type(fault) is faults.ServiceError and fault.status == 418 and fault.title == "later"
    assert faults.ServiceError.status == 500
