"""`onebit teach` without a browser: its requests, and what stays after a restart."""

from __future__ import annotations

import csv
import errno
import io
import ipaddress
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

import pytest
from helpers.waiting import PATIENCE, wait_for

pytest.importorskip("starlette")
pytest.importorskip("PIL")

import httpx
import numpy as np
import polars
from helpers.serving import listening

import onebit as ob
from onebit.cli.teach import _address, _folder
from onebit.pages.teach import curve
from onebit.service import faults
from onebit.service.teach.app import POLICY, make_app
from onebit.service.teach.export import python_lines
from onebit.service.teach.guesses import whole_percents
from onebit.service.teach.lessons import Lesson, Lessons
from onebit.service.teach.requests import AnswerRequest, Ask
from onebit.service.teach.sources import open_items
from onebit.service.teach.teacher import Teacher
from onebit.testing import model_bytes

LABELS = ["fruit", "animal", "tool"]
WORDS = {
    "fruit": ["apple", "pear", "plum", "fig", "kiwi", "melon"],
    "animal": ["dog", "cat", "cow", "hen", "fox", "owl"],
    "tool": ["saw", "axe", "file", "drill", "plane", "awl"],
}


def truth_of(text: str) -> str:
    return next(label for label, words in WORDS.items() if text.split()[1] in words)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A text: one line per item."""
    lines = [f"the {word} number {i}" for i in range(5) for row in WORDS.values() for word in row]
    path = tmp_path / "notes.txt"
    path.write_text("\n".join(lines))
    return path


class Person:
    """A page without a browser."""

    def __init__(
        self,
        client: httpx.Client,
        page: str = "page",
        who: str = "",
        browser: str = "",
        **ask: object,
    ) -> None:
        self.client, self.page, self.who, self.browser = client, page, who, browser
        self.ask = {"order": "order", "again": False, **ask}
        self.guesses: list[dict] = []

    def send(self, path: str, **body: object) -> dict:
        have = [guess["id"] for guess in self.guesses if guess["id"] != body.get("id")]
        turn = {"page": self.page, "ask": self.ask, "have": have, **body}
        if self.browser:
            turn["browser"] = self.browser
        response = self.client.post(f"/{path}", json=turn)
        assert response.status_code == 200, response.text
        self.guesses = response.json()["guesses"]
        return response.json()

    def look(self) -> dict:
        self.send("ahead")
        return self.guesses[0]

    def answer(self, **verdict: object) -> str:
        """Answer the first guess; without a verdict, as it is."""
        guess = self.guesses[0]
        if not verdict:
            verdict = {"right": guess["label"] == truth_of(guess["item"]["text"])}
        self.send("answer", id=guess["id"], who=self.who, **verdict)
        return guess["id"]

    def stats(self) -> dict:
        return self.client.get("/stats", params={"browser": self.browser}).json()


@contextmanager
def teaching(source, folder, labels=LABELS, **options):
    with (
        Teacher(open_items(source), folder, labels) as teacher,
        listening(lambda stopping: make_app(teacher, stopping=stopping, **options)) as port,
        httpx.Client(
            base_url=f"http://127.0.0.1:{port}", follow_redirects=True, timeout=PATIENCE
        ) as client,
    ):
        yield teacher, client


def state(teacher: Teacher) -> bytes:
    return teacher.learner_file()


def test_answers_are_learned_and_survive(notes: Path, tmp_path: Path) -> None:
    with teaching(notes, tmp_path / "t") as (teacher, client):
        person = Person(client, who="Ada")
        person.look()
        for _ in range(60):
            person.answer()
        stats = person.stats()
        assert stats["answers"] == 60 and stats["people"] == {"Ada": 60}
        assert stats["error_recent"] < 0.6
        assert len(stats["recent"]) == 10 and stats["recent"][0]["who"] == "Ada"
        before, learned = stats, state(teacher)
        assert teacher.engine.learner.round == 60  # what was only proposed does not count
    with teaching(notes, tmp_path / "t", labels=[]) as (teacher, client):
        after = Person(client).stats()
        assert state(teacher) == learned
        same = ("answers", "known", "error", "error_recent", "by_label", "recent", "labels")
        assert {name: after[name] for name in same} == {name: before[name] for name in same}
        seen = {lesson.item for lesson in teacher._state.lessons}
        guess = Person(client).look()
        assert guess["item"]["key"] not in seen


def test_an_answer_twice_is_learned_once(notes: Path, tmp_path: Path) -> None:
    with teaching(notes, tmp_path / "t") as (teacher, client):
        person = Person(client)
        guess = person.look()
        person.send("answer", id=guess["id"], right=False)
        learned = state(teacher)
        person.send("answer", id=guess["id"], right=False)
        person.send("answer", id=guess["id"], right=True)  # only `revise` changes an answer
        assert state(teacher) == learned and person.stats()["answers"] == 1


@pytest.mark.parametrize("again", [False, True])
def test_undo_gives_the_same_bytes_as_never_having_answered(notes, tmp_path, again) -> None:
    with teaching(notes, tmp_path / "t") as (teacher, client):
        person = Person(client, again=again)
        person.look()
        states, ids, shown = [], [], []
        for _ in range(15):
            states.append(state(teacher))
            shown.append(person.guesses[0]["item"]["key"])
            ids.append(person.answer())
        for step in range(1, 11):
            person.send("undo", id=ids[-step])
            assert state(teacher) == states[-step]
            assert person.guesses[0]["item"]["key"] == shown[-step]
            person.send("undo", id=ids[-step])  # again: nothing more is taken back
            assert state(teacher) == states[-step]
        assert person.stats()["answers"] == 5
        mine = person.stats()["mine"]
        assert mine == ids[4::-1]


def test_revising_is_as_if_it_had_always_been_so(notes: Path, tmp_path: Path) -> None:
    learned = []
    for revised in (False, True):
        with teaching(notes, tmp_path / f"t{revised}") as (teacher, client):
            person = Person(client)
            person.look()
            person.answer(right=not revised)
            if revised:
                first = person.stats()["recent"][0]["id"]
                assert client.post("/revise", json={"id": first, "right": True}).status_code == 200
                assert person.stats()["recent"][0]["right"]
            learned.append(state(teacher))
    with teaching(notes, tmp_path / "tTrue") as (_, client):
        assert Person(client).stats()["recent"][0]["right"]
        refused = client.post("/revise", json={"id": "1-ffff", "right": True})
        assert refused.status_code == 409
    assert learned[0] == learned[1]


def test_a_second_guess_at_the_same_item(notes: Path, tmp_path: Path) -> None:
    with teaching(notes, tmp_path / "t") as (_, client):
        person = Person(client, again=True)
        first = person.look()
        person.answer(right=False)
        second = person.guesses[0]
        assert second["place"] == first["place"] and second["kind"] == "again"
        assert second["label"] != first["label"] and second["ruled_out"] == [first["label"]]
        person.answer(right=False)
        assert person.guesses[0]["place"] != first["place"]
        stats = person.stats()
        assert stats["answers"] == 2 and stats["guesses"] == 1  # the error is of first guesses


def test_one_label_at_a_time(notes: Path, tmp_path: Path) -> None:
    with teaching(notes, tmp_path / "t") as (teacher, client):
        person = Person(client, only="animal")
        person.look()
        assert {guess["label"] for guess in person.guesses} == {"animal"}
        assert person.guesses[0]["kind"] == "no"  # it has no reason to expect a yes
        for _ in range(10):
            person.answer()
        items = [lesson.item for lesson in teacher._state.lessons]
        assert len(set(items)) == 10
        person.ask["only"] = None
        person.guesses = []
        assert person.look()["item"]["key"] not in items  # new items come first
        person.ask["only"] = "fruit"
        person.guesses = []
        places = {guess["item"]["key"] for guess in (person.look(), *person.guesses)}
        assert places & set(items)  # "no animal" leaves open whether it is a fruit


def test_skipping(notes: Path, tmp_path: Path) -> None:
    with teaching(notes, tmp_path / "t") as (teacher, client):
        person = Person(client)
        guess = person.look()
        before = state(teacher)
        person.send("skip", id=guess["id"])
        assert state(teacher) == before
        assert guess["place"] not in {known["place"] for known in person.guesses}
        person.send("skip", id=guess["id"])
        assert person.stats()["skipped"] == 1 and person.stats()["answers"] == 0
    with teaching(notes, tmp_path / "t") as (teacher, client):
        person = Person(client)
        assert person.stats()["skipped"] == 1
        assert person.look()["place"] != guess["place"]
        person.send("undo", id=guess["id"])
        assert person.guesses[0]["place"] == guess["place"] and person.stats()["skipped"] == 0
    with teaching(notes, tmp_path / "t") as (teacher, client):
        assert Person(client).stats()["skipped"] == 0


def test_labels_are_added_on_the_way(notes: Path, tmp_path: Path) -> None:
    with teaching(notes, tmp_path / "t", labels=["fruit", "animal"]) as (_, client):
        person = Person(client)
        person.look()
        for _ in range(5):
            person.answer(right=False)
        assert client.post("/labels", json={"add": ["tool", "tool"]}).status_code == 200
        person.answer(label="tool")  # a guess that was made before there was the label
        for _ in range(30):
            person.answer(label=truth_of(person.guesses[0]["item"]["text"]))
        said = {row["label"]: row["guessed"] for row in person.stats()["by_label"]}
        assert said["tool"] > 0
    with teaching(notes, tmp_path / "t", labels=["stone"]) as (_, client):
        assert Person(client).stats()["labels"] == ["fruit", "animal", "tool", "stone"]


def test_labels_may_be_named_in_the_page_alone(notes: Path, tmp_path: Path) -> None:
    with teaching(notes, tmp_path / "t", labels=[]) as (_, client):
        assert not Person(client).stats()["open"]
        assert client.post("/ahead", json={"page": "p"}).json()["detail"] == "name two labels first"
        refused = client.post("/labels", json={"add": ["fruit"]})
        assert refused.status_code == 422 and "two labels" in refused.json()["detail"]
        assert client.post("/labels", json={"add": ["animal", "tool"]}).status_code == 200
        assert Person(client).stats()["labels"] == ["animal", "tool"]  # the refused one is not kept
        assert Person(client).look()["label"] in LABELS


@pytest.mark.parametrize("order", ["order", "random", "unsure"])
def test_every_item_is_asked_once_in_any_order(notes: Path, tmp_path: Path, order: str) -> None:
    with teaching(notes, tmp_path / "t") as (_, client):
        person = Person(client, order=order)
        person.look()
        places = []
        while person.guesses:
            places.append(person.guesses[0]["place"])
            person.answer(label=truth_of(person.guesses[0]["item"]["text"]))
        assert sorted(places) == list(range(90))
        assert (places == sorted(places)) == (order == "order")
        assert person.stats()["known"] == 90


def test_items_stay_in_order_when_a_page_is_loaded_again(notes: Path, tmp_path: Path) -> None:
    with teaching(notes, tmp_path / "t") as (_, client):
        person = Person(client, order="order")
        person.look()
        person.answer(label=LABELS[0])
        again = Person(client, order="order")  # the same page, which has lost its guesses
        again.look()
        assert [guess["place"] for guess in again.guesses] == list(range(1, 9))


def test_what_is_wrong_comes_again_at_the_end(notes: Path, tmp_path: Path) -> None:
    notes.write_text("the dog\nthe saw\nthe fig\n")
    with teaching(notes, tmp_path / "t") as (_, client):
        person = Person(client)
        person.look()
        asked: dict[int, list[str]] = {}
        while person.guesses:
            guess = person.guesses[0]
            asked.setdefault(guess["place"], []).append(guess["label"])
            person.answer(right=False)
        assert len(asked) == 3
        assert all(sorted(labels) == sorted(LABELS) for labels in asked.values())


def test_a_guess_is_made_anew_when_the_learner_changes_its_mind(notes, tmp_path) -> None:
    with teaching(notes, tmp_path / "t") as (teacher, client):
        person = Person(client)
        person.look()
        for _ in range(40):
            person.answer()
            held = [teacher._guesses._known[guess["id"]] for guess in person.guesses]
            scores = teacher.engine.forecasts([guess.context for guess in held])
            best = [teacher.labels[place] for place in scores.argmax(axis=1)]
            assert [guess.best for guess in held] == best


def test_two_pages_do_not_get_the_same_items(notes: Path, tmp_path: Path) -> None:
    with teaching(notes, tmp_path / "t") as (teacher, client):
        ada, bob = Person(client, "a", "Ada", "a1"), Person(client, "b", "Bob", "b2")
        ada.look(), bob.look()
        for _ in range(20):
            ada.answer(), bob.answer()
        items = [lesson.item for lesson in teacher._state.lessons]
        assert len(items) == len(set(items)) == 40
        assert ada.stats()["people"] == {"Ada": 20, "Bob": 20}
        last = ada.stats()["mine"]
        assert len(last) == 20 and {teacher._state.lessons.get(id).who for id in last} == {"Ada"}
        assert bytes(state(teacher)) == model_bytes(teacher.engine.replayed())


def test_items_of_a_page_that_is_gone_are_free(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("one\ntwo\nthree")
    with teaching(notes, tmp_path / "t") as (teacher, client):
        with client.stream("GET", "/events?page=ada") as events:
            lines = events.iter_lines()
            next(lines)
            with client.stream("GET", "/events?page=ada") as twice:  # as a reload opens it
                next(twice.iter_lines())
            ada, bob = Person(client, "ada"), Person(client, "bob")
            ada.send("ahead")
            bob.send("ahead")
            time.sleep(0.3)
            bob.send("ahead")
            assert len(ada.guesses) == 3 and bob.guesses == []
        wait_for(lambda: bob.send("ahead")["guesses"])
        assert len(bob.guesses) == 3
        assert "ada" not in teacher._chooser._chosen


def test_shares_are_between_0_and_1(notes: Path, tmp_path: Path) -> None:
    with teaching(notes, tmp_path / "t") as (_, client):
        person = Person(client)
        person.look()
        for _ in range(80):
            person.answer()
            shares = [share for guess in person.guesses for _, share in guess["scores"]]
            assert 0 <= min(shares) <= max(shares) <= 1


def test_what_is_taken_away(notes: Path, tmp_path: Path) -> None:
    with teaching(notes, tmp_path / "t") as (teacher, client):
        person = Person(client, who="=Ada", again=True)
        person.look()
        for _ in range(12):
            person.answer()
        saved = tmp_path / "notes.onebit"
        saved.write_bytes(client.get("/export/learner").content)
        assert model_bytes(ob.load(saved)) == model_bytes(teacher.engine.learner)
        response = client.get("/export/csv")
        assert "notes.txt.answers.csv" in response.headers["content-disposition"]
        rows = list(csv.DictReader(io.StringIO(response.text)))
        frame = polars.read_parquet(io.BytesIO(client.get("/export/parquet").content))
        assert len(rows) == frame.height == 12 and list(rows[0]) == frame.columns
        assert {row["who"] for row in rows} == {"'=Ada"}  # no formula for a spreadsheet
        assert set(frame["who"]) == {"=Ada"} and rows[0]["text"].startswith("the ")
        known = [row for row in rows if row["true_label"]]
        assert known and all(row["true_label"] == truth_of(row["text"]) for row in known)
        assert client.get("/export/other").status_code == 404


def test_why(notes: Path, tmp_path: Path) -> None:
    with teaching(notes, tmp_path / "t") as (_, client):
        person = Person(client)
        person.look()
        for _ in range(20):
            person.answer()
        parts = client.get(f"/why/{person.guesses[0]['id']}").json()["parts"]
        assert any("'the'" in name or "'number'" in name for name, _ in parts)
        assert client.get("/why/77-x").status_code == 404


def test_a_table_and_a_folder_of_images(tmp_path: Path) -> None:
    from PIL import Image

    table = tmp_path / "t.csv"
    table.write_text("body,price\n" + "\n".join(f"the dog {i} barks,{i}" for i in range(10)))
    with teaching(table, tmp_path / "csv") as (_, client):
        person = Person(client)
        guess = person.look()
        assert guess["item"]["fields"]["price"] == "0" and "barks" in guess["item"]["text"]
        person.send("answer", id=guess["id"], right=False)
    folder = tmp_path / "photos"
    folder.mkdir()
    draw = np.random.default_rng(0)
    for i in range(6):
        pixels = draw.integers(0, 255, (40, 60, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"<b>{i}.png")
    (folder / "broken.jpg").write_bytes(b"no image")
    with teaching(folder, folder / ".onebit") as (_, client):
        person = Person(client)
        places: set[int] = set()
        while len(places) < 6:  # those that are not ready come later
            person.look()
            places = {guess["place"] for guess in person.guesses}
        for place in places:
            picture = client.get(f"/items/{place}/picture?size=128")
            assert picture.headers["content-type"] == "image/png"
        stats = person.stats()
        assert stats["unusable"][0][0] == "broken.jpg"
        for place in ("99", "-1", "x", "1\n", "٣", "9" * 5000):
            refused = client.get(f"/items/{quote(place)}/picture")
            assert refused.status_code == 404 and refused.headers["x-content-type-options"]
        assert client.get("/items/0/picture?size=x").status_code == 422


def test_headers_and_strangers(notes: Path, tmp_path: Path) -> None:
    with teaching(notes, tmp_path / "t") as (_, client):
        page = client.get("/")
        assert page.headers["content-security-policy"] == POLICY
        assert page.headers["x-content-type-options"] == "nosniff"
        assert "<style" not in page.text and "style=" not in page.text
        assert "onclick" not in page.text and "<script>" not in page.text
        assert client.get("/", headers={"host": "evil.example"}).status_code == 403
        assert client.get("/", headers={"host": "evil[.example"}).status_code == 403
        for method, path in (("GET", "/nosuch"), ("DELETE", "/labels"), ("GET", "/ahead")):
            refused = client.request(method, path)
            assert refused.json()["status"] == refused.status_code == (405, 404)["no" in path]
            assert refused.headers["x-content-type-options"] == "nosniff"
        evil = {"origin": "http://evil.example"}
        body = {"page": "p"}
        assert client.post("/ahead", json=body, headers=evil).status_code == 403
        assert (
            client.post("/ahead", json=body, headers={"origin": "http://[::1"}).status_code == 403
        )
        assert client.post("/ahead", content=b"{}").status_code == 415
        assert client.post("/ahead", json={"page": "p", "pag": 1}).status_code == 422
        json_type = {"content-type": "application/json"}
        assert client.post("/ahead", content=b"{", headers=json_type).status_code == 400
        assert client.post("/ahead", content=b" " * 2**17, headers=json_type).status_code == 413
        assert client.get("/static/../teach.py").status_code == 404
        assert client.get("/static/page.js").status_code == 404
        for name in ("page.css", "teach.css", "teach.js", "icon.svg"):
            assert client.get(f"/static/{name}").status_code == 200


def test_a_secret_keeps_strangers_out(notes: Path, tmp_path: Path) -> None:
    with teaching(notes, tmp_path / "t", secret="s3cret") as (_, client):
        assert client.get("/", headers={"host": "box:80"}).status_code == 401
        refused = client.get("/?secret=wrong")
        assert refused.status_code == 401 and refused.text.startswith("open the whole address")
        assert client.get("/?secret=s3cret").status_code == 200  # by a redirect and a cookie
        assert client.get("/stats").status_code == 200
        client.cookies.clear()
        assert client.get("/stats").status_code == 401


@pytest.mark.parametrize("label", ["", " ", "x" * 101, "a\u202eb", "a\x00b", "\u200f"])
def test_labels_that_cannot_be_read_are_refused(notes: Path, tmp_path: Path, label: str) -> None:
    with teaching(notes, tmp_path / "t") as (_, client):
        refused = client.post("/labels", json={"add": [label]})
        assert refused.status_code == 422
        assert "printable" in refused.json()["detail"]
        assert ascii(" ".join(label.split())) in refused.json()["detail"]  # which of them


def test_hostile_words_are_text(tmp_path: Path) -> None:
    source = tmp_path / "<script>alert(1)<script>.txt"
    source.write_text("<img src=x onerror=alert(1)>\n\u202egnp.exe\n" + "x" * 90_000 + "\n")
    with teaching(source, tmp_path / "t", labels=["<b>", "'\"&"]) as (_, client):
        page = client.get("/").text
        assert "&lt;script&gt;alert(1)" in page and "<script>alert" not in page
        person = Person(client, who="<i>me</i>")
        texts = [guess["item"]["text"] for guess in (person.look(), *person.guesses)]
        assert "<img src=x onerror=alert(1)>" in texts
        assert max(map(len, texts)) <= 20_001
        person.answer(right=True)
        assert person.stats()["people"] == {"<i>me</i>": 1}


def test_events(notes: Path, tmp_path: Path) -> None:
    with teaching(notes, tmp_path / "t") as (_, client):
        person = Person(client)
        person.look()
        with client.stream("GET", "/events") as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            events = (line for line in response.iter_lines() if line.startswith("data:"))
            first = next(events)
            answering = threading.Thread(target=person.answer)
            answering.start()
            assert next(events) != first
            answering.join()


def test_the_curve(notes: Path, tmp_path: Path) -> None:
    with teaching(notes, tmp_path / "t") as (_, client):
        assert client.get("/curve").text == ""
        person = Person(client)
        person.look()
        for _ in range(5):
            person.answer()
        drawn = client.get("/curve?width=400").text
        assert drawn.startswith("<svg") and "style=" not in drawn and "last 5<" in drawn


@pytest.mark.parametrize("errors", [[1.0, 1.0, 0.8], [0.0, 0.0]])
def test_the_curve_starts_at_0(errors: list[float]) -> None:
    drawn = curve(np.array(errors), np.array(errors), width=400)
    assert re.search(r"<text[^>]*>0%</text>", drawn), drawn


def test_an_answer_that_was_not_written_is_not_taken_for_one(notes, tmp_path, monkeypatch) -> None:
    """The disk fails, and the journal cannot even be read for a while."""
    with teaching(notes, tmp_path / "t") as (teacher, client):
        person = Person(client)
        person.look()
        id = person.answer()
        journal, recovered = teacher.engine.journal, threading.Event()
        tell = teacher._state.service.on_recovery
        teacher._state.service.on_recovery = lambda: (tell(), recovered.set())
        with monkeypatch.context() as broken:
            broken.setattr(journal, "_commit", fail)
            broken.setattr(journal, "recover", fail)
            broken.setattr(Lessons, "read", fail_to_read)
            turn = {"page": "page", "ask": person.ask, "id": person.guesses[0]["id"]}
            for _ in range(2):
                response = client.post("/answer", json={**turn, "right": True})
                assert response.status_code == 503
            version = person.stats()["version"]
        assert recovered.wait(PATIENCE)
        now = person.stats()
        assert now["answers"] == 1
        assert now["version"] > version  # so that all pages look again
        person.send("answer", id=turn["id"], right=True)
        assert person.stats()["answers"] == 2
    with teaching(notes, tmp_path / "t") as (_, client):
        assert {lesson["id"] for lesson in Person(client).stats()["recent"]} == {id, turn["id"]}


def fail(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def fail_to_read(*_: object) -> None:
    raise faults.Unavailable("the journal cannot be read")


def test_two_owners_are_refused(notes: Path, tmp_path: Path) -> None:
    with teaching(notes, tmp_path / "t"), pytest.raises(faults.JournalInUse, match="one owner"):
        Teacher(open_items(notes), tmp_path / "t", LABELS)


def test_kill_9_loses_nothing(notes: Path, tmp_path: Path) -> None:
    """The process is killed in the middle; what it had acknowledged is there, and learned once."""
    code = """
import sys
from pathlib import Path
from onebit.service.teach.sources import open_items
from onebit.service.teach.requests import AnswerRequest, Ask, PageRequest
from onebit.service.teach.teacher import Teacher
ask = Ask(order="order", again=False)
teacher = Teacher(open_items(sys.argv[1]), Path(sys.argv[2]), ["fruit", "animal", "tool"])
guesses = teacher.ahead(PageRequest(page="p", ask=ask))
while guesses:
    first, *rest = guesses
    turn = AnswerRequest(page="p", ask=ask, have=[g.id for g in rest], id=first.id, right=False)
    guesses = teacher.answer(turn)
    print(first.id, flush=True)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code, notes, tmp_path / "t"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
    )
    assert process.stdout is not None
    acknowledged = [process.stdout.readline().strip() for _ in range(25)]
    process.kill()
    acknowledged += process.stdout.read().split()
    process.wait()
    process.stdout.close()
    with teaching(notes, tmp_path / "t") as (teacher, _):
        ids = [lesson.id for lesson in teacher._state.lessons]
        assert set(acknowledged) <= set(ids) and len(ids) <= len(acknowledged) + 1
        assert len({lesson.item for lesson in teacher._state.lessons}) == len(ids)
        assert teacher.engine.learner.round == len(ids)


def started(notes: Path, *options: str) -> tuple[subprocess.Popen[str], str]:
    """The command as a process, and the address that it prints."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "onebit.cli", "teach", notes.name, "--labels", "a,b"),
            *("--port", "0", "--no-open", *options),
        ],
        cwd=notes.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
    )
    assert process.stdout is not None
    return process, process.stdout.readline().split()[-1]


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_the_command(notes: Path, tmp_path: Path, host: str) -> None:
    """It prints its address, serves, and stops by Ctrl-C with everything saved."""
    process, address = started(notes, "--labels", "c", "--host", host)
    assert ("?secret=" in address) == (host == "0.0.0.0")
    address = re.sub(r"//.*:", "//127.0.0.1:", address)
    with httpx.Client(follow_redirects=True, timeout=PATIENCE) as client:
        assert client.get(address).status_code == 200
        stats = client.get(f"{address.partition('?')[0]}stats").json()
    assert stats["labels"] == ["a", "b", "c"] and stats["items"] == 90
    process.send_signal(signal.SIGINT)
    words = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 0 and "Everything is saved in notes.txt.teach" in words
    assert (tmp_path / "notes.txt.teach" / "teach.journal").exists()


class Chosen:
    """A UDP socket of a machine with one interface, which sends nothing."""

    own: ClassVar[dict[int, str]] = {}

    def __init__(self, family: int, kind: int) -> None:
        self.family = family
        assert kind == socket.SOCK_DGRAM

    def __enter__(self) -> Chosen:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def connect(self, address: tuple[str, int]) -> None:
        assert not ipaddress.ip_address(address[0]).is_global
        if self.family not in self.own:
            raise OSError(errno.ENETUNREACH, "Network is unreachable")

    def getsockname(self) -> tuple[str, int]:
        return self.own[self.family], 40_000


def test_the_printed_address_needs_no_name(monkeypatch) -> None:
    monkeypatch.setattr(socket, "socket", Chosen)
    monkeypatch.setattr(socket, "gethostname", lambda: "desk")
    monkeypatch.setattr(Chosen, "own", {socket.AF_INET: "192.168.1.7"})
    assert _address("0.0.0.0", 80, "s") == "http://192.168.1.7:80/?secret=s"
    assert _address("::", 80, "s") == "http://desk:80/?secret=s"  # no route
    monkeypatch.setattr(Chosen, "own", {socket.AF_INET6: "fd00::7"})
    assert _address("::", 80, "s") == "http://[fd00::7]:80/?secret=s"
    assert _address("127.0.0.1", 80, None) == "http://127.0.0.1:80/"
    assert _address("localhost", 80, None) == "http://localhost:80/"


def test_where_the_progress_is(tmp_path: Path) -> None:
    assert _folder(None) == Path("digits.teach")
    assert _folder(tmp_path) == tmp_path / ".onebit"
    assert _folder(tmp_path / "a.csv") == tmp_path / "a.csv.teach"


def test_the_lines_of_python_work(notes: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    items = open_items(notes)
    with Teacher(items, tmp_path / "t", LABELS, f"open_items({str(notes)!r})") as teacher:
        lines = python_lines(teacher)
        (tmp_path / "notes.txt.onebit").write_bytes(teacher.learner_file())
    names: dict = {}
    exec(lines, names)
    assert names["learner"].labels == LABELS


def test_speed_ignores_pauses() -> None:
    lessons = Lessons()
    assert lessons.per_minute() is None
    now = time.time()
    for i in range(10):
        moment = now + 2 * i + 1000 * (i > 5)
        lessons.add(Lesson(str(i), str(i), "free", "a", True, None, None, moment, False, 1.0))
    assert lessons.per_minute() == pytest.approx(30)


def test_asking_is_checked() -> None:
    assert Ask() == Ask(order="random", only=None, again=True)


def test_a_folder_with_answers_about_other_items_is_refused(notes: Path, tmp_path: Path) -> None:
    table = tmp_path / "numbers.csv"
    table.write_text("a,b\n1,2\n3,4\n5,6\n")
    with teaching(table, tmp_path / "t") as (_, client):
        person = Person(client)
        person.look()
        person.answer(right=True)
    table.write_text("a,b,c\n1,2,3\n3,4,5\n5,6,7\n")
    for source in (table, notes):
        with pytest.raises(ValueError, match=r"t has answers about items that differ from those"):
            Teacher(open_items(source), tmp_path / "t", LABELS)
    table.write_text("a,b\n1,2\n3,4\n5,6\n7,8\n")
    with teaching(table, tmp_path / "t") as (_, client):  # more rows are no other kind
        assert Person(client).stats()["answers"] == 1


def test_undo_takes_back_what_was_answered_in_the_same_browser(notes, tmp_path) -> None:
    """Whatever the name: nobody without a name takes back an answer of somebody else without one,
    and whoever types a name still takes back earlier answers."""
    with teaching(notes, tmp_path / "t") as (_, client):
        ada, bob = Person(client, "1", browser="a1"), Person(client, "2", browser="b2")
        ada.look()
        bob.look()
        first, other = ada.answer(), bob.answer()
        ada.who = "Ada"
        second = ada.answer()
        assert ada.stats()["mine"] == [second, first] and bob.stats()["mine"] == [other]
    with teaching(notes, tmp_path / "t") as (_, client):
        ada = Person(client, "3", browser="a1")
        assert ada.stats()["mine"] == [second, first]
        assert Person(client, browser="c3").stats()["mine"] == []
        assert client.post("/ahead", json={"page": "p", "browser": "a b"}).status_code == 422


def test_items_that_cannot_be_used_are_not_counted(tmp_path: Path) -> None:
    from PIL import Image

    folder = tmp_path / "photos"
    folder.mkdir()
    for i in range(3):
        Image.new("RGB", (20, 20), (80 * i, 0, 0)).save(folder / f"{i}.png")
    (folder / "broken.png").write_bytes(b"no image")
    (folder / "empty.png").write_bytes(b"")
    with teaching(folder, tmp_path / "t") as (_, client):
        person = Person(client)
        person.look()
        stats = person.stats()
        assert stats["unusable_count"] == 2 and stats["items"] == 3


def coloured(folder: Path, *colours: str) -> Path:
    """A folder of pictures, each of one colour."""
    from PIL import Image

    folder.mkdir(parents=True)
    for i, colour in enumerate(colours):
        Image.new("RGB", (200, 200), colour).save(folder / f"{i}.png")
    return folder


def test_a_picture_has_an_address_of_its_own(tmp_path: Path) -> None:
    """A browser keeps pictures. No other lesson and no changed photo may have the same address."""
    from PIL import Image

    addresses, bodies = [], []
    for name, colour in (("one", "red"), ("two", "blue")):
        folder = coloured(tmp_path / name, colour)
        with teaching(folder, folder / ".onebit") as (_, client):
            addresses.append(Person(client).look()["item"]["picture"])
            answer = client.get(addresses[-1])
            assert "immutable" in answer.headers["cache-control"]
            bodies.append(answer.content)
            if name == "two":  # a page of the other lesson gets nothing
                assert client.get(addresses[0]).status_code == 409
                assert client.get("/items/0/picture").headers["cache-control"] == "no-store"
    with teaching(folder, folder / ".onebit") as (_, client):
        person = Person(client)
        assert person.look()["item"]["picture"] == addresses[-1]  # also after a restart
        assert client.get(addresses[-1]).content == bodies[-1]
        Image.new("RGB", (201, 200), "green").save(folder / "0.png")
        changed = client.get(addresses[-1])  # of a page that does not know of it
        assert changed.headers["cache-control"] == "no-store"
        bodies.append(changed.content)
        person.answer(right=False)
        shown = person.stats()["recent"][0]["picture"]
        assert shown not in addresses and client.get(shown).content == bodies[-1]
    assert len(set(addresses)) == 2 and len(set(bodies)) == 3


def test_requests_of_another_lesson_are_refused(notes: Path, tmp_path: Path) -> None:
    lessons = []
    for folder in ("one", "two", "one"):
        with teaching(notes, tmp_path / folder) as (teacher, client):
            lessons.append(teacher.lesson)
            assert f'data-lesson="{teacher.lesson}"' in client.get("/").text
            assert Person(client).look()["item"]["picture"] is None
            turn = {"page": "p", "id": Person(client).look()["id"], "right": True}
            other = {"onebit-lesson": lessons[0]}
            answer = client.post("/answer", json=turn, headers=other)
            if folder == "two":
                problem = answer.json()
                assert answer.status_code == 409 and problem["type"] == "urn:onebit:other-lesson"
                assert "Load the page again" in problem["detail"]
                assert client.get("/stats", headers=other).status_code == 409
                assert client.get(f"/events?lesson={lessons[0]}").status_code == 409
                assert client.get(f"/export/csv?lesson={lessons[0]}").status_code == 409
            assert Person(client).stats()["answers"] == (
                0 if folder == "two" else len(lessons[::2])
            )
    assert lessons[0] == lessons[2] != lessons[1]


def test_a_lesson_that_was_removed_is_another_one(notes: Path, tmp_path: Path) -> None:
    with teaching(notes, tmp_path / "t") as (teacher, _):
        before = teacher.lesson
    (tmp_path / "t" / "teach.journal").unlink()
    with teaching(notes, tmp_path / "t") as (teacher, _):
        assert teacher.lesson != before


@pytest.mark.parametrize("how", ["removed", "replaced", "moved"])
def test_a_journal_that_is_gone_saves_nothing(notes, tmp_path, caplog, how: str) -> None:
    """SQLite would go on writing to a file that has no name any more."""
    folder = tmp_path / "t"
    with teaching(notes, folder) as (_, client):
        person = Person(client)
        person.look()
        person.answer()
        if how == "removed":
            shutil.rmtree(folder)
        else:
            folder.rename(tmp_path / "elsewhere")
        if how == "replaced":
            shutil.copytree(tmp_path / "elsewhere", folder)
        turn = {"page": "page", "ask": person.ask, "id": person.guesses[0]["id"], "right": True}
        for _ in range(2):
            refused = client.post("/answer", json=turn)
            assert refused.status_code == 503 and "removed or replaced" in refused.json()["detail"]
        assert client.get("/stats").status_code == 503
        assert client.post("/labels", json={"add": ["more"]}).status_code == 503
        with client.stream("GET", "/events") as events:
            lines = (line for line in events.iter_lines() if line.startswith("data:"))
            assert next(lines) != "data: -1" and next(lines) == "data: -1"
            if how == "moved":
                (tmp_path / "elsewhere").rename(folder)
                assert next(lines) != "data: -1"
        if how == "moved":
            person.answer()
            assert person.stats()["answers"] == 2
    assert caplog.records == []  # no traceback
    assert folder.exists() == (how != "removed")


JOINED = [
    "\N{WOMAN}\u200d\N{PERSONAL COMPUTER}",
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
]


@pytest.mark.parametrize("word", JOINED)
def test_joiners_are_part_of_words(notes: Path, tmp_path: Path, word: str) -> None:
    with teaching(notes, tmp_path / "t") as (_, client):
        assert client.get("/name", params={"who": word}).status_code == 200
        assert client.post("/labels", json={"add": [word]}).status_code == 200
        person = Person(client, who=word)
        person.look()
        person.answer(label=word)
        assert person.stats()["people"] == {word: 1} and word in person.stats()["labels"]


@pytest.mark.parametrize(
    ("who", "stored"), [("a\u202eb", "ab"), ("\u200d", ""), ("\x00", ""), ("  Ada  L. ", "Ada L.")]
)
def test_no_answer_is_refused_for_its_name(notes, tmp_path, who: str, stored: str) -> None:
    with teaching(notes, tmp_path / "t") as (_, client):
        refused = client.get("/name", params={"who": who})
        assert refused.status_code == (200 if " " in who else 422)
        person = Person(client, who=who)
        person.look()
        person.answer(right=True)
        assert person.stats()["people"] == {stored: 1}


def test_many_labels(notes: Path, tmp_path: Path) -> None:
    with teaching(notes, tmp_path / "t", labels=[]) as (_, client):
        for labels, words in (([], "at least one"), ([f"{i}" for i in range(1001)], "1,000")):
            refused = client.post("/labels", json={"add": labels})
            assert refused.status_code == 422 and words in refused.json()["detail"]
        long = [f"{i} " + "\N{GRINNING FACE}" * 90 for i in range(1000)]
        assert client.post("/labels", json={"add": long}).status_code == 200
        assert len(Person(client).stats()["labels"]) == 1000
        refused = client.post("/labels", json={"add": ["one more"]})
        assert refused.status_code == 422 and "these are 1,001" in refused.json()["detail"]


def test_samples_are_pictures_that_can_be_shown(tmp_path: Path) -> None:
    folder = coloured(tmp_path / "photos", *["red"] * 40)
    for i in range(26):
        (folder / f"{i}.png").write_bytes(b"no image")
    with teaching(folder, folder / ".onebit", labels=[]) as (_, client):
        samples = client.get("/samples").json()["samples"]
        assert len(set(samples)) == 4
        assert all(client.get(address).status_code == 200 for address in samples)
    assert not (folder / ".onebit").exists()


def test_a_folder_that_is_removed_is_told_at_the_end(notes: Path, tmp_path: Path) -> None:
    process, address = started(notes)
    assert httpx.get(address, timeout=PATIENCE).status_code == 200
    shutil.rmtree(tmp_path / "notes.txt.teach")
    process.send_signal(signal.SIGINT)
    words = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode != 0 and "the answers in it are lost" in words
    assert "Traceback" not in words and "saved" not in words


def test_chances_are_whole_percents_that_add_up():
    rng = np.random.default_rng(0)
    for size in (2, 3, 10, 300):
        for total in (0.3, 0.8, 1.0):
            chances = total * rng.dirichlet(np.ones(size))
            shares = whole_percents(chances)
            assert round(100 * shares.sum()) == round(100 * total)
            assert np.allclose(100 * shares, np.round(100 * shares))
            assert np.abs(shares - chances).max() < 0.01
    assert set(whole_percents(np.full(3, 1 / 3))) == {0.33}


def test_sureness_adds_up(notes, tmp_path):
    with Teacher(open_items(notes), tmp_path / "kept", LABELS) as teacher:
        turn = AnswerRequest(page="page", id="")
        (guess, *_) = teacher.ahead(turn)
        assert guess.sure is None  # it knows nothing yet
        for _ in range(20):
            turn.id, turn.right = guess.id, guess.label == truth_of(guess.item["text"])
            (guess, *_) = teacher.answer(turn)
            shares = dict(guess.scores)
            # Not all labels together are certain: perhaps none is right.
            estimated = min(float(teacher.engine.forecasts([guess.context]).clip(0, 1).sum()), 1.0)
            added = round(100 * sum(shares.values()))
            assert added <= 100 and abs(added - 100 * estimated) <= 1
            assert guess.sure == shares[guess.label]
            assert all(shares[label] == 0 for label in guess.ruled_out)
