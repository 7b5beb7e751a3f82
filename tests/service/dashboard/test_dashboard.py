"""The dashboard over HTTP: pages, numbers, csv, events, tokens; live and on a finished journal."""

from __future__ import annotations

import csv
import inspect
import io
import json
import re
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from html import escape
from urllib.parse import quote

import httpx
import pytest
from helpers.dashboards import DECIDER, HOSTILE, READER, TOKENS, bearer, configured, finished, play
from helpers.long_journals import fill
from helpers.serving import listening, serving
from helpers.waiting import PATIENCE
from msgspec.structs import replace

from onebit.cli.dashboard import dashboard
from onebit.cli.teach import teach
from onebit.service import faults
from onebit.service.configuration import Timeouts
from onebit.service.dashboard import app as pages
from onebit.service.dashboard.page import as_csv, duration, moment, size
from onebit.service.service import Service


@pytest.fixture(autouse=True)
def reads_all(monkeypatch):
    """A page shows the whole journal, however long it takes to read."""
    monkeypatch.setattr(pages, "READ_FOR", PATIENCE)


@pytest.fixture
def site(tmp_path):
    with serving(Service(configured(tmp_path), ticks=False)) as made:
        yield made


def test_a_page_shows_the_rounds_that_were_played(site):
    engine = site.service.models["news"]
    play(engine, 30)
    page = site.http.get("/dashboard/news")
    assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
    text = page.text
    for words in ("Wrong lately", "Drift alarm", "Last decisions", "Model card", "Banditron"):
        assert words in text
    assert text.count("<svg") > 6 and "20 answered" in text
    assert re.search(r"<bdi>sport</bdi>", text)
    assert "<b>news</b>" not in text
    list_page = site.http.get("/dashboard").text
    assert 'href="/dashboard/news"' in list_page and 'href="/dashboard/ads"' in list_page


def test_shadows_stand_beside_who_speaks(tmp_path):
    """Live from the service, and afterwards from the snapshots: the same numbers."""
    configuration = configured(tmp_path, shadows=("Confidit", "UCWL"))
    with serving(Service(configuration, ticks=False)) as site:
        engine = site.service.models["news"]
        assert 'id="shadows"' in site.http.get("/dashboard/news").text
        play(engine, 150)
        engine.shadows.settle()
        text = site.http.get("/dashboard/news").text
        assert "shadow minus news" in text and "up to date" in text
        assert "<dt>Speaks</dt><dd><bdi>news</bdi>" in text
        found = site.http.get("/dashboard/news/numbers").json()["shadows"]
        card = engine.card().shadows["UCWL"]
        assert [row["shadow"] for row in found] == ["Confidit", "UCWL"]
        assert found[1]["rounds"] == card.rounds == 100
        assert found[1]["difference"] == card.difference
        assert found[1]["difference_low"] == card.interval.low
        assert found[1]["bracket_high"] == card.bracket.high
        rows = list(csv.DictReader(io.StringIO(site.http.get("/dashboard/news/shadows.csv").text)))
        assert [row["learner"] for row in rows] == ["Confidit", "UCWL"]
        assert 'id="shadows"' in site.http.get("/dashboard/ads").text
        site.service.models["news"].shadows._fail(
            engine.shadows._shadows["UCWL"], ValueError("<no room>")
        )
        assert "down: &lt;no room&gt;" in site.http.get("/dashboard/news").text
        engine.shadows._shadows["UCWL"].problem = ""
    with finished(tmp_path / "x.journal") as client:
        later = client.get("/dashboard/news/numbers").json()["shadows"]
        assert later == found
        assert "Banditron" in client.get("/dashboard/news").text


def test_a_model_without_shadows_has_no_panel_of_them(site):
    play(site.service.models["news"], 3)
    assert "shadows-heading" not in site.http.get("/dashboard/news").text


def test_numbers_are_those_of_the_card(site):
    engine = site.service.models["news"]
    play(engine, 30)
    found = site.http.get("/dashboard/news/numbers").json()
    card = engine.card()
    assert found["total"]["decisions"] == card.rounds == 30
    assert found["total"]["answered"] == card.answers == 20
    assert found["total"]["error"] == pytest.approx(card.error_share)
    assert found["total"]["explored_share"] == pytest.approx(card.explored_share)
    assert found["smallest_propensity"] == pytest.approx(card.smallest_propensity)
    assert found["lately"]["error_low"] < found["lately"]["error"] < found["lately"]["error_high"]
    assert found["card"]["learner"] == "Banditron" and found["card"]["labels"] == card.labels
    assert sum(row["decisions"] for row in found["labels"]) == 30
    assert len(found["decisions"]) == 20
    first = found["decisions"][0]
    assert first["round"] == 29 and first["answer"] == "wrong" and first["source"] == "web"
    assert sum(first["propensities"].values()) == pytest.approx(1)
    assert first["confidence"] is None  # Banditron has no estimate
    assert json.loads(first["context"])["goal"] == 1.0


def settled(client, address):
    """The parts of a page, once the last contexts have been explained."""
    while "data-later" in (parts := client.get(address)).text:
        time.sleep(0.05)
    return parts


def test_parts_follow_the_journal_and_are_sent_once(site):
    engine = site.service.models["news"]
    play(engine, 10)
    address = "/dashboard/news?only=parts"
    parts = settled(site.http, address)
    assert not parts.text.lstrip().startswith("<!DOCTYPE") and 'data-part="tiles"' in parts.text
    known = {"if-none-match": parts.headers["etag"]}
    assert site.http.get(address, headers=known).status_code == 304
    assert site.http.get(f"{address}&label=sport", headers=known).status_code == 200
    play(engine, 1)
    again = site.http.get(address, headers=known)
    assert again.status_code == 200 and "<b>11</b>" in again.text


def test_events_tell_that_the_journal_has_gone_on_and_end_with_the_server(site, monkeypatch):
    monkeypatch.setattr(pages, "BEAT", 0.1)
    engine = site.service.models["news"]
    play(engine, 3)
    with site.http.stream("GET", "/dashboard/news/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.iter_lines()
        first = next(line for line in lines if line.startswith("data: "))
        assert int(first.removeprefix("data: ")) == site.service.journal.position
        play(engine, 1)
        second = next(line for line in lines if line.startswith("data: "))
        assert int(second.removeprefix("data: ")) == site.service.journal.position
        assert ": alive" in (next(lines), next(lines), next(lines))


def test_there_are_no_events_of_a_model_that_does_not_exist(site):
    answer = site.http.get("/dashboard/nosuch/events")
    assert answer.status_code == 404 and "no model 'nosuch'" in answer.json()["detail"]


def test_a_page_that_comes_later_says_when(site, monkeypatch):
    def busy(*_):
        raise faults.Busy("many requests wait to read", retry_after=7)

    monkeypatch.setattr(pages.Dashboard, "_made_view", busy)
    answer = site.http.get("/dashboard/news/numbers")
    assert answer.status_code == 503 and answer.headers["retry-after"] == "7"


def test_refusals_of_a_dashboard_by_itself_have_the_headers_of_all_pages(tmp_path):
    pages_of = pages.Dashboard(lambda: None, lambda _: lambda __: True, lambda: False)
    with listening(lambda _: pages.DashboardApp(pages_of)) as port:
        for method, path, status in (
            ("POST", "/dashboard", 405), ("DELETE", "/", 405), ("GET", "/nosuch", 404)
        ):  # fmt: skip
            answer = httpx.request(method, f"http://127.0.0.1:{port}{path}")
            assert answer.status_code == status
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.json()["status"] == status


def test_events_tell_whether_anybody_writes_to_the_journal(tmp_path):
    configuration = configured(tmp_path)
    with closing(Service(configuration, ticks=False)) as service:
        play(service.models["news"], 3)
        position = service.journal.position
    with (
        finished(configuration.service.journal) as client,
        client.stream("GET", "/dashboard/news/events") as stream,
    ):
        lines = (line for line in stream.iter_lines() if line.startswith("data: "))
        assert next(lines) == f"data: {position} finished"
        with closing(Service(configuration, ticks=False)):  # the look does not refuse the owner
            assert "finished" not in next(lines)
        assert next(line for line in lines if line.endswith("finished"))


def test_an_open_stream_does_not_hold_up_a_stop(tmp_path):
    configuration = configured(tmp_path)
    service = replace(configuration.service, timeouts=Timeouts(stop=3600))
    with serving(Service(replace(configuration, service=service), ticks=False)) as site:
        stream = site.connect()
        stream.sendall(b"GET /dashboard/news/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert b"event-stream" in stream.recv(4096)
    stream.close()


def test_labels_can_be_found_and_ordered(tmp_path):
    path = tmp_path / "many.journal"
    fill(path, rounds=4000, labels=300)
    with finished(path) as client:
        shown = client.get("/dashboard/news?only=parts").text
        assert "further labels" in shown and shown.count('scope="row"><bdi>topic') == 25
        few = client.get("/dashboard/news?only=parts&label=TOPIC 29").text
        assert (
            "topic 29<" in few
            and "topic 1<"
            not in few.split('data-part="labels"')[1].split('data-part="influences"')[0]
        )
        none = client.get("/dashboard/news?only=parts&label=<b>").text
        assert "&lt;b&gt;" in none and "No label has" in none
        numbers = client.get("/dashboard/news/numbers").json()
        rows = {row["label"]: row for row in numbers["labels"]}
        worst = client.get("/dashboard/news?only=parts&order=accuracy").text
        first = re.search(r'<tr><th scope="row"><bdi>(topic \d+)</bdi>', worst)
        assert rows[first[1]]["error_low"] == max(
            row["error_low"] for row in rows.values() if row["answered"]
        )
        named = client.get("/dashboard/news?only=parts&order=name").text
        assert "<bdi>topic 0</bdi>" in named and "<bdi>topic 1</bdi>" in named
        assert client.get("/dashboard/news?only=parts&order=nonsense").status_code == 200


@pytest.mark.parametrize("table", ["rounds", "labels", "delays", "alarms", "decisions"])
def test_numbers_as_csv(site, table):
    play(site.service.models["news"], 30)
    answer = site.http.get(f"/dashboard/news/{table}.csv")
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/csv")
    assert f"''news-{table}.csv" in answer.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    numbers = site.http.get("/dashboard/news/numbers").json()[table]
    assert len(rows) == len(numbers)
    for row, known in zip(rows, numbers, strict=True):
        assert set(row) == set(known)
        if table == "decisions":
            assert json.loads(row["propensities"]) == known["propensities"]


def test_hostile_labels_and_contexts_are_text(tmp_path):
    service = Service(configured(tmp_path, labels=HOSTILE), ticks=False)
    with serving(service) as site:
        engine = service.models["news"]
        for i in range(40):
            told = engine.decide({"<script>alert(2)</script>": 1.0, "<b>": "<i>" * 200})
            engine.feedback(told.id, label=HOSTILE[i % len(HOSTILE)])
        text = site.http.get("/dashboard/news?order=name").text
        assert "<script>alert" not in text and 'onload="x"' not in text and "<i>" not in text
        assert "&lt;script&gt;alert(1)" in text
        assert "a" * 121 not in text.split("Last decisions")[0]
        rows = site.http.get("/dashboard/news/labels.csv").text
        assert "'=1+1" in rows and "\n=1+1" not in rows


def test_a_model_with_a_hostile_name(tmp_path):
    path, name = tmp_path / "x.journal", '<b onclick="x">é\u202e\r\n?#'
    fill(path, rounds=50, labels=3)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE models SET name = ?", (name,))
    connection.commit()
    connection.close()
    with finished(path) as client:
        text = client.get("/dashboard").text
        assert "<b onclick" not in text and "&lt;b onclick" in text
        address = "/dashboard/" + quote(name, safe="")
        assert f'href="{address}"' in text
        page = client.get(address)
        assert page.status_code == 200 and "<b onclick" not in page.text
        assert client.get(f"{address}/labels.csv").status_code == 200


def test_an_error_inside_is_told_without_details(site, monkeypatch):
    monkeypatch.setattr(pages, "card_of", lambda *_: 1 / 0)
    answer = site.http.get("/dashboard/news")
    assert answer.status_code == 500 and answer.json()["detail"] == "see the log of the service"


def test_every_answer_has_a_strict_policy_and_no_inline_style_or_script(site):
    play(site.service.models["news"], 5)
    for address in ("/dashboard", "/dashboard/news", "/dashboard/news/numbers", "/static/page.css"):
        answer = site.http.get(address)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "style=" not in answer.text and "<style" not in answer.text
        assert not re.search(r"<script(?! src=)", answer.text) and " onclick" not in answer.text


def test_static_files(site):
    for name in pages.STATIC:
        answer = site.http.get(f"/static/{name}")
        assert answer.status_code == 200 and answer.content
        known = {"if-none-match": answer.headers["etag"]}
        assert site.http.get(f"/static/{name}", headers=known).status_code == 304
    for name in ("race.css", "..%2frendering.py", "nothing.js"):
        assert site.http.get(f"/static/{name}").status_code == 404


def test_unknown_things_are_refused_with_a_sentence(site):
    for address, words in (
        ("/dashboard/olds", "no model 'olds'"),
        ("/dashboard/olds/numbers", "no model 'olds'"),
        ("/dashboard/news/secrets.csv", "no table 'secrets'"),
    ):
        answer = site.http.get(address)
        assert answer.status_code == 404 and words in answer.json()["detail"]
        assert answer.headers["content-type"] == "application/problem+json"
    assert site.http.post("/dashboard/news").status_code == 405


def test_without_tokens_pages_of_other_sites_get_nothing(site):
    for headers in ({"host": "evil.example"}, {"origin": "http://evil.example"}):
        for address in ("/dashboard/news", "/dashboard/news/numbers", "/dashboard"):
            assert site.http.get(address, headers=headers).status_code == 403


def test_with_tokens_a_page_has_no_numbers_and_the_verb_read_is_needed(tmp_path):
    service = Service(configured(tmp_path, TOKENS), ticks=False)
    with serving(service) as site:
        play(service.models["news"], 9)
        for address in ("/dashboard", "/dashboard/news", "/dashboard/unknown"):
            page = site.http.get(address)
            assert page.status_code == 200 and "data-part" not in page.text
            assert 'id="login"' in page.text
        private = ("?only=parts", "/numbers", "/events", "/labels.csv")
        for address in (f"/dashboard/news{end}" for end in private):
            answer = site.http.get(address)
            assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
            assert site.http.get(address, headers=bearer("x" * 20)).status_code == 401
            assert site.http.get(address, headers=bearer(DECIDER)).status_code == 403
            if not address.endswith("events"):
                assert site.http.get(address, headers=bearer(READER)).status_code == 200
        assert site.http.get("/dashboard/ads/numbers", headers=bearer(READER)).status_code == 403
        known = site.http.get("/dashboard?only=parts", headers=bearer(READER)).text
        assert "/dashboard/news" in known and "/dashboard/ads" not in known


def test_what_speaks_for_a_label(tmp_path):
    service = Service(configured(tmp_path, labels=["sport", "tech"]), ticks=False)
    with serving(service) as site:
        engine = service.models["news"]
        words = {"sport": "goal match", "tech": "chip screen"}
        for i in range(60):
            truth = ("sport", "tech")[i % 2]
            told = engine.decide(f"{words[truth]} the")
            engine.feedback(told.id, right=told.label == truth)
        found = []
        while not found:
            found = site.http.get("/dashboard/news/numbers").json()["influences"]
            time.sleep(0.05)
        best = {entry["label"]: [part for part, _ in entry["parts"]] for entry in found}
        assert set(best["sport"][:2]) <= {"goal", "match"}
        assert "chip" in site.http.get("/dashboard/news").text
        ads = service.models["ads"]
        for _ in range(5):
            ads.decide([1.0, 2.0])
        assert site.http.get("/dashboard/ads/numbers").json()["influences"] == []


def test_a_finished_journal_is_shown_with_its_snapshot(tmp_path):
    configuration = configured(tmp_path)
    with Service(configuration, ticks=False) as service:
        play(service.models["news"], 30)
        service.models["news"].feedback(
            service.models["news"].decide("goal match today").id, right=True
        )
    path = tmp_path / "x.journal"
    before = path.read_bytes()
    with finished(path) as client:
        assert client.get("/", follow_redirects=True).url.path == "/dashboard"
        found = client.get("/dashboard/news/numbers").json()
        assert found["total"]["decisions"] == 31
        assert found["card"]["snapshot"].startswith("news@")
        assert found["card"]["snapshot_position"] <= found["end"]
        assert "0 events behind" in client.get("/dashboard/news").text
        assert client.get("/nothing").status_code == 404
        assert client.get("/dashboard/", follow_redirects=True).status_code in (200, 404)
    assert path.read_bytes() == before


def test_a_journal_in_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    with Service(configured(tmp_path), ticks=False) as service:
        play(service.models["news"], 5)
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr("os.access", lambda *_: False)
    with finished(tmp_path / "x.journal") as client:
        assert client.get("/dashboard/news/numbers").json()["total"]["decisions"] == 5
        assert sorted(tmp_path.iterdir()) == before


def test_a_journal_beside_its_running_service(tmp_path):
    with Service(configured(tmp_path), ticks=False) as service:
        play(service.models["news"], 5)
        with finished(tmp_path / "x.journal") as client:
            assert client.get("/dashboard/news/numbers").json()["total"]["decisions"] == 5
            play(service.models["news"], 5)
            assert client.get("/dashboard/news/numbers").json()["total"]["decisions"] == 10


def test_a_long_journal_is_shown_while_it_is_read(tmp_path, monkeypatch):
    path = tmp_path / "long.journal"
    fill(path, rounds=60_000, labels=50)
    monkeypatch.setattr(pages, "READ_FOR", 0.0)
    with finished(path) as client:
        first = client.get("/dashboard/news?only=parts").text
        assert "Reading the journal" in first and "data-unread" in first
        assert "% read" in client.get("/dashboard").text
        for _ in range(20):
            last = client.get("/dashboard/news?only=parts").text
        assert "data-unread" not in last and "60,000" in last


def test_the_command(tmp_path):
    path = tmp_path / "x.journal"
    fill(path, rounds=100, labels=3)
    command = [sys.executable, "-m", "onebit.cli", "dashboard", str(path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            url = re.search(r"http://\S+", line)[0]
            assert "100" in httpx.get(f"{url}/news", timeout=PATIENCE).text
        finally:
            process.terminate()


def test_the_command_refuses_with_a_sentence(tmp_path):
    with pytest.raises(OSError, match="there is no journal"):
        dashboard(tmp_path / "none")
    (tmp_path / "text").write_text("hello " * 1000)
    with pytest.raises(ValueError, match="text"):
        dashboard(tmp_path / "text")
    with pytest.raises(ValueError, match="needs --tokens"):
        dashboard(tmp_path / "text", host="0.0.0.0")


def test_the_title_of_a_model(tmp_path):
    """Live and on the finished journal; an early journal has none."""
    for title in ("", "Front <page>", "Another page"):
        configuration = configured(tmp_path, title=title)
        shown = escape(title)
        with serving(Service(configuration, ticks=False)) as site:
            play(site.service.models["news"], 1)
            assert f'dir="auto">{shown}</' in site.http.get("/dashboard/news").text or not title
        with finished(configuration.service.journal) as client:
            assert ('class="title"' in client.get("/dashboard").text) == bool(title)
            assert f'dir="auto">{shown}</' in client.get("/dashboard").text or not title
            card = client.get("/dashboard/news/numbers").json()["card"]
            assert card["title"] == title


def test_exploring_by_rule_is_not_called_by_chance(tmp_path):
    """OneBit tries labels without drawing: its propensities are 1."""
    configuration = configured(tmp_path, learner="OneBit", labels=[f"{i}" for i in range(20)])
    with serving(Service(configuration, ticks=False)) as site:
        tile = re.compile(r"<dt>Explored</dt><dd><b>(.*)</b><small>(.*)</small>")
        news = site.service.models["news"]
        play(news, 1)
        assert tile.search(site.http.get("/dashboard/news").text)[2] == "nothing left to chance"
        for i in range(60):
            told = news.decide({f"word{i % 7}": 1.0})
            news.feedback(told.id, right=i % 11 == 0)
        share, words = tile.search(site.http.get("/dashboard/news").text).groups()
        assert float(share.split()[0]) > 0 and words == "by rule, not by chance"


def test_words():
    assert [duration(s) for s in (0.0123, 1.5, 59, 90, 7200, 3e6)] == [
        "12 ms", "1.5 s", "59 s", "1.5 min", "2 h", "35 d",
    ]  # fmt: skip
    assert moment(0) == "1970-01-01 00:00:00" and moment(1e300) == "–"
    assert size(999) == "999 B" and size(2.5e6) == "2.5 MB" and size(3e12) == "3e+03 GB"
    assert as_csv([]) == ""


def test_when_the_drift_alarm_last_rang(tmp_path):
    path = tmp_path / "long.journal"
    fill(path, rounds=20_000, labels=5)
    with finished(path) as client:
        alarms = client.get("/dashboard/news/numbers").json()["alarms"]
        last = alarms[-1]
        text = client.get("/dashboard/news").text
        assert f"last on {moment(last['time'])} UTC, round {last['round']:,}" in text


def test_a_person_is_told_in_a_page(site):
    """A browser asks for HTML, and a person reads it."""
    html = {"accept": "text/html,application/xhtml+xml"}
    for address, words in (
        ("/dashboard/<b>olds", "there is no model &#39;&lt;b&gt;olds&#39;"),
        ("/dashboard/news/secrets.csv", "no table"),
    ):
        answer = site.http.get(address, headers=html)
        assert answer.status_code == 404 and words in answer.text
        assert answer.headers["content-type"].startswith("text/html")
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert 'href="/dashboard"' in answer.text and "<script" not in answer.text


def test_a_port_in_use_is_told_with_a_sentence(tmp_path):
    path = tmp_path / "x.journal"
    fill(path, rounds=10, labels=3)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        command = [sys.executable, "-m", "onebit.cli", "dashboard", str(path), "--port", port]
        ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode != 0 and "Traceback" not in ended.stderr
    assert f"port {port} cannot be used; --port 0 takes any that is free" in ended.stderr


def test_teach_and_dashboard_have_ports_of_their_own():
    ports = [
        inspect.signature(command).parameters["port"].default for command in (teach, dashboard)
    ]
    assert len(set(ports)) == 2  # they are used side by side


def test_alarms_can_be_saved(tmp_path):
    path = tmp_path / "long.journal"
    fill(path, rounds=20_000, labels=5)
    with finished(path) as client:
        assert 'href="/dashboard/news/alarms.csv"' in client.get("/dashboard/news").text
    short = tmp_path / "short.journal"
    fill(short, rounds=100, labels=5)
    with finished(short) as client:
        assert "alarms.csv" not in client.get("/dashboard/news").text
