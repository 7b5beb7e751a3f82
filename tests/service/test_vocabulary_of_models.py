"""A model has room for so many names; beyond it, new names share a feature."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from helpers.serving import serving
from helpers.waiting import PATIENCE
from running import Home, assert_pure

import onebit as ob
from onebit.core.slots import OTHERS
from onebit.service.engine import building, changing, versions
from onebit.service.faults import Unavailable
from onebit.service.journal import ReadOnlyJournal
from onebit.service.messages import LabelChange
from onebit.service.upkeep.replay import Replay
from onebit.testing import saved_state

FEW = "vocabulary = 12"


def names(i, count=3):
    """A context with new names, numbers and categories."""
    return {f"number {i} {n}": 1.0 + n for n in range(count)} | {"kind": f"k{i}", "all": 1.0}


@pytest.fixture(params=["Banditron", "OneBit"])
def learner(request):
    return f'learner = "{request.param}"'


def play(engine, rounds, first=0):
    ids = []
    for i in range(first, first + rounds):
        told = engine.decide(names(i))
        if i % 3:
            engine.feedback(told.id, right=i % 2 == 0)
        ids.append(told.id)
    return ids


def test_decisions_go_on_when_it_is_full(tmp_path, learner):
    words = 3 if "OneBit" in learner else 0  # of the labels, which it reads
    room = 12 + words
    with Home(tmp_path, f"{learner}\nvocabulary = {room}").start() as service:
        news = service.models["news"]
        play(news, 2)
        card = news.card()
        assert (card.names, card.vocabulary, card.names_are_shared) == (9 + words, room, False)
        assert news.tally.sharing == 0
        play(news, 10, first=2)
        card = news.card()
        assert (card.names, card.vocabulary, card.names_are_shared) == (room, room, True)
        assert news.tally.sharing == 10
        assert len(news.learner.table.state.table) == room + 1


def test_the_learner_is_a_function_of_the_journal(tmp_path, learner):
    home = Home(tmp_path, f"{learner}\n{FEW}\nrevisions = true\ndeferred = true")
    service = home.start(snapshot_every=10)
    news = service.models["news"]
    ids = play(news, 12)
    assert_pure(news)
    news.snapshot()
    news.cancel(ids[1])  # there would have been room for other names
    assert_pure(news)
    news.shown(ids[0])
    news.submit_labels(LabelChange(add=["weather"])).wait()
    play(news, 5, first=40)
    assert_pure(news)
    before = saved_state(news.learner)[1]
    news = home.restart(snapshot_every=10).models["news"]
    assert all(
        (saved_state(news.learner)[1][name] == array).all() for name, array in before.items()
    )
    home.stop()
    with closing(ReadOnlyJournal(home.journal)) as journal:
        assert Replay(journal, "news").is_same


def test_another_vocabulary_is_another_learner(tmp_path, learner):
    home = Home(tmp_path, learner)
    play(home.start().models["news"], 12)
    home.write(f"{learner}\n{FEW}")
    news = home.restart().models["news"]
    news.settle()
    assert (news.card().names, news.card().version) == (12, 2)
    assert OTHERS in news.learner.table.known()
    assert_pure(news)
    home.stop()


def test_by_default_the_table_fits_into_a_stated_memory(tmp_path, monkeypatch, learner):
    with Home(tmp_path, learner).start() as service:
        learned = service.models["news"]._state.learner
        assert learned.vocabulary == building.MOST_NAMES
    monkeypatch.setattr(building, "MEMORY", 2**25)
    with Home(tmp_path, learner).start() as service:
        news = service.models["news"]
        before = news._state.learner.vocabulary
        news.submit_labels(LabelChange(add=[f"label {i}" for i in range(300)])).wait()
        after = news._state.learner
        assert after.table.bytes_for(after.vocabulary) <= 2**25
        assert after.vocabulary < before / 10
        play(news, 5)
        assert_pure(news)


@pytest.mark.parametrize("labels", [9, 1000])
def test_the_docs_know_the_default(labels):
    docs = Path(__file__).parents[2] / "docs/service.md"
    most = building.default_vocabulary(ob.OneBit(labels))
    assert re.search(rf"{most:,}( names)? for {labels:,}\b", docs.read_text())


def test_a_journal_of_an_earlier_version_starts(tmp_path, learner, monkeypatch):
    home = Home(tmp_path, learner)
    with monkeypatch.context() as earlier:
        earlier.setattr(building, "limited", lambda learner, version: learner)
        earlier.setattr(building, "RULES", 1)
        version_of = building.version_of
        for module in (versions, changing):
            earlier.setattr(module, "version_of", lambda *args: without(version_of(*args)))
        play(home.start().models["news"], 12)
        home.stop()
    monkeypatch.setattr(building, "MOST_NAMES", 12)
    news = home.start().models["news"]
    news.settle()
    assert (news.card().names, news.card().version) == (12, 1)
    assert_pure(news)
    home.stop()


def without(version):
    body = {key: value for key, value in version.body.items() if key != "vocabulary"}
    return version._replace(body=body)


def test_it_is_told(tmp_path):
    with serving(Home(tmp_path, FEW).start()) as site:
        for i in range(8):
            made = site.http.post("/v1/models/news/decisions", json={"context": names(i)})
            assert made.status_code == 201
        text = site.http.get("/metrics").text
        assert 'onebit_names{model="news"} 12.0' in text
        assert 'onebit_vocabulary{model="news"} 12.0' in text
        assert 'onebit_sharing_total{model="news"} 6.0' in text
        assert 'onebit_model_up{model="news"} 1.0' in text
        assert site.http.get("/v1/models/news").json()["names_are_shared"] is True


# A model that cannot be built.

OTHER = '[models.other]\nlabels = ["a", "b"]\nlearner = "Banditron"'


def failing(monkeypatch, name):
    """Builds of this model fail, as where there is not enough memory."""
    build = building.Builder.replayed

    def replayed(self, *args):
        if self._name == name:
            raise MemoryError("Unable to allocate 680. MiB")
        return build(self, *args)

    monkeypatch.setattr(building.Builder, "replayed", replayed)


def test_a_model_that_cannot_be_built_is_down_alone(tmp_path, monkeypatch):
    home = Home(tmp_path, OTHER)
    ids = play(home.start().models["news"], 3)
    home.stop()
    with monkeypatch.context() as short:
        failing(short, "news")
        with serving(home.start()) as site:
            decisions = "/v1/models/{}/decisions"
            assert site.http.post(decisions.format("other"), json={"context": "a"}).is_success
            for method, path, body in (
                ("POST", decisions.format("news"), {"context": "a"}),
                ("POST", f"/v1/decisions/{ids[0]}/feedback", {"right": True}),
                ("GET", "/v1/models/news", None),
            ):
                refused = site.http.request(method, path, json=body)
                assert refused.status_code == 503
                assert "Unable to allocate 680. MiB" in refused.json()["detail"]
                assert refused.headers["retry-after"] == "60"
            answers = {"feedback": [{"id": ids[0], "right": True}]}
            assert site.http.post("/v1/feedback:batch", json=answers).status_code == 503
            ready = site.http.get("/ready")
            assert ready.status_code == 200 and "news" in ready.json()["down"]
            assert 'onebit_model_up{model="news"} 0.0' in site.http.get("/metrics").text
            assert site.http.get("/dashboard").status_code == 200
            assert site.http.get("/dashboard/news").status_code == 200
            with pytest.raises(Unavailable, match="down"):
                site.service.model("news")
            short.undo()
            site.service.reload(site.service.configuration)
            assert site.http.get("/ready").json().get("down") is None
            feedback = site.http.post(f"/v1/decisions/{ids[0]}/feedback", json={"right": True})
            assert feedback.status_code == 200
            assert_pure(site.service.models["news"])


def test_if_no_model_can_be_built_the_service_is_not_ready(tmp_path, monkeypatch):
    home = Home(tmp_path)
    play(home.start().models["news"], 3)
    home.stop()
    failing(monkeypatch, "news")
    with serving(home.start()) as site:
        assert site.http.get("/health").status_code == 200
        assert site.http.get("/ready").status_code == 503
        assert site.http.get("/v1/models/news").status_code == 503


def test_a_model_that_cannot_be_compiled_is_down_alone(tmp_path, monkeypatch):
    def warm_up(self, learner):
        if self._name == "news":
            raise MemoryError

    monkeypatch.setattr(building.Builder, "warm_up", warm_up)
    with Home(tmp_path, OTHER).start() as service:
        service.warm_up()
        assert (list(service.models), service.down) == (["other"], {"news": "MemoryError"})


def test_a_model_that_cannot_be_read_anew_is_down_alone(tmp_path, monkeypatch):
    with Home(tmp_path, OTHER).start() as service:
        play(service.models["news"], 3)
        failing(monkeypatch, "news")
        service._load_all()
        assert (list(service.models), list(service.down)) == (["other"], ["news"])
        assert not service.unready()


# In processes of their own.

MANY = 'labels = 1000\nlearner = "Banditron"'


def child(home, *args):
    script = str(Path(__file__).with_name("memory_child.py"))
    command = [sys.executable, script, str(home.config), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_new_names_take_no_more_than_a_stated_memory(tmp_path):
    """24,000 names of 4,000 bytes each would take 92 MiB, and twice that while a table grows."""
    home = Home(tmp_path, MANY)
    assert child(home, "play", 12) < 32 + 30  # contexts and decisions of the journal, too
    with home.start() as service:
        assert service.models["news"].card().rounds == 13


def test_a_model_without_enough_memory_is_down_alone(tmp_path):
    home = Home(tmp_path, f"{MANY}\n{OTHER}")
    child(home, "play", 2)
    for path in home.snapshots:
        path.unlink()
    up, down = child(home, "start", 800)
    assert (up, list(down)) == (["other"], ["news"])
    assert child(home, "start", 8000) == [["news", "other"], {}]
