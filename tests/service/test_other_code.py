"""A journal whose events were learned by other code: an upgrade that changes a learner's bits."""

from __future__ import annotations

import importlib
import logging
import sys
import time
from contextlib import closing
from threading import Event

import numpy as np
import pytest
from running import Home, assert_pure, play

import onebit as ob
from onebit import cli, testing
from onebit.datasets import steps
from onebit.learner import files
from onebit.learner.learner import Learner
from onebit.reading import contexts
from onebit.service.engine import building, rebuilding
from onebit.service.engine.building import Builder
from onebit.service.engine.rebuilding import Rebuilding
from onebit.service.faults import Damaged
from onebit.service.journal import ReadOnlyJournal
from onebit.service.messages import Retraining
from onebit.service.upkeep.replay import Replay


@pytest.fixture
def home(tmp_path):
    place = Home(tmp_path, "revisions = true")
    yield place
    place.stop()


def upgrade(monkeypatch):
    """From now on every third answer is learned in another way, and the code says so."""
    apply = Builder.apply

    def other(self, learner, answer, row, decision):
        changed = answer if answer.position % 3 else answer._replace(right=0, label=None)
        apply(self, learner, changed, row, decision)

    monkeypatch.setattr(Builder, "apply", other)
    monkeypatch.setattr(building, "RULES", building.RULES + 1)


def replay(home):
    with closing(ReadOnlyJournal(home.journal)) as journal:
        return Replay(journal, "news")


@pytest.mark.parametrize("at_once", [500, -1])
def test_a_learner_of_other_code_is_built_anew(home, monkeypatch, caplog, at_once):
    news = home.start().models["news"]
    ids = play(news, 50)
    before = testing.state_bytes(news.learner)
    home.stop()
    (old,) = home.snapshots
    upgrade(monkeypatch)
    monkeypatch.setattr(rebuilding, "AT_ONCE", at_once)
    with caplog.at_level(logging.WARNING):
        news = home.start().models["news"]
    assert "news: the learner is built anew, because other code" in caplog.text
    assert_pure(news)
    assert testing.state_bytes(news.learner) != before
    play(news, 10, first=50)
    news.revise(ids[20], label="tech")
    assert_pure(news)
    home.stop()
    assert old not in home.snapshots
    built = replay(home)
    assert built.is_same is True and built.other_code is None
    caplog.clear()
    news = home.start().models["news"]  # from its snapshot, by the same code
    assert news.replayed_from > 0 and "code" not in caplog.text
    assert_pure(news)


def as_before(path):
    """Make a snapshot of OneBit one of the version that took exactly one label to be right."""
    head, arrays = files.read(path)
    arrays["table"] = np.delete(arrays["table"], range(8, 12), axis=1)
    arrays["constant"] = arrays["constant"][:, :8]
    arrays["trust"] = np.delete(arrays["trust"], [4, 5, 6, 7, 8, 10], axis=0)[:, :7]
    arrays["trust"][:, 0] /= arrays["trust"][:, 0].sum()
    for later in ("tables", "column_places", "wide"):
        del arrays[later]
    arrays = {name: array for name, array in arrays.items() if not name.startswith("name_")}
    files.write(path, head, arrays)
    with pytest.raises(ValueError, match="saved by an earlier version"):
        ob.load(path)


def test_a_onebit_of_before_answers_while_its_journal_is_learned_anew(
    tmp_path, monkeypatch, caplog
):
    home, may_build, behind = (
        Home(tmp_path, 'learner = "OneBit"'),
        Event(),
        Rebuilding._build_behind,
    )
    play(home.start().models["news"], 30)
    home.stop()
    (snapshot,) = home.snapshots
    as_before(snapshot)
    upgrade(monkeypatch)
    monkeypatch.setattr(rebuilding, "AT_ONCE", -1)
    monkeypatch.setattr(
        Rebuilding, "_build_behind", lambda *given: may_build.wait(60) and behind(*given)
    )
    try:
        news = home.start().models["news"]
        assert "is not used" not in caplog.text and news.replayed_from > 0
        play(news, 5, first=30)
        assert news._state.thread is not None and news.learner.one_right > 0.999
        may_build.set()
        assert_pure(news)
        assert news.learner.round == 35 and news.learner.one_right < 0.999
    finally:
        may_build.set()
        home.stop()


@pytest.mark.parametrize("fails", [False, True])
def test_an_upgrade_during_a_retraining_builds_one_learner(home, tmp_path, monkeypatch, fails):
    news = home.start().models["news"]
    play(news, 50)
    news.snapshot()
    monkeypatch.setattr(rebuilding, "AT_ONCE", -1)
    with monkeypatch.context() as patch:
        patch.setattr(Rebuilding, "_build_behind", lambda *_: None)
        news.submit_retrain(Retraining(learner="Confidit"))
        crashed = home.crashed(tmp_path / "crashed")
    news._state.thread = None
    upgrade(monkeypatch)
    behind, alive, most = Rebuilding._build_behind, [], []

    def counted(self, builder, *given):
        alive.append(builder.version.number)
        most.append(len(alive))
        time.sleep(0.2)
        if fails and builder.version.body["learner"] == "Confidit":
            monkeypatch.setattr(builder, "replayed", None)
        alive.remove(builder.version.number)
        behind(self, builder, *given)

    monkeypatch.setattr(Rebuilding, "_build_behind", counted)
    news = crashed.start(snapshot_every=10**9).models["news"]
    news.settle()
    assert max(most) == 1
    assert news.card().learner == ("Banditron" if fails else "Confidit")
    assert bool(news.card().problem) == fails
    assert_pure(news)
    crashed.stop()


def test_nothing_is_built_twice_without_a_snapshot(home, monkeypatch):
    play(home.start().models["news"], 20)
    home.stop()
    for path in home.snapshots:
        path.unlink()
    upgrade(monkeypatch)
    monkeypatch.setattr(Rebuilding, "build_again", None)
    news = home.start().models["news"]
    assert_pure(news)
    assert news.snapshot() is not None


def test_replay_tells_other_code_from_damage(home, monkeypatch, capsys):
    play(home.start().models["news"], 50)
    home.stop()
    monkeypatch.setattr("sys.argv", ["onebit", "replay", str(home.journal)])
    with pytest.raises(SystemExit, match="0"):
        cli.main()
    assert "the same bytes" in capsys.readouterr().out
    upgrade(monkeypatch)
    with pytest.raises(SystemExit, match="0"):
        cli.main()
    said = capsys.readouterr().out
    assert "OTHER BYTES" in said and "no damage" in said and "onebit 0." in said


def test_decisions_that_this_code_cannot_read(home, monkeypatch, caplog):
    """What was learned from their answers is not lost."""
    news = home.start().models["news"]
    ids = play(news, 30, every=2)
    home.stop()
    for path in home.snapshots:
        path.unlink()
    redo, kind = building.Learner.redo, type(news.learner)

    def refuses(self, context, decision):
        if decision.round < 30:
            raise ValueError("a decision of another kind")
        return redo(self, context, decision)

    monkeypatch.setattr(kind, "redo", refuses)
    assert "a decision of another kind" in home.start().down["news"]
    home.stop()
    monkeypatch.setattr(building, "RULES", building.RULES + 1)
    with pytest.raises(Damaged, match="replay them with that version"):
        replay(home)
    news = home.start().models["news"]
    assert "learned anew, as those of another learner" in caplog.text
    card = news.card()
    assert card.answers == 15 and card.version == 2
    assert news.learner.round == 15  # of the decisions that have an answer
    assert news.feedback(ids[1], right=True).state == "learned"
    assert_pure(news)
    before = testing.state_bytes(news.learner)
    news = home.restart().models["news"]
    assert testing.state_bytes(news.learner) == before and news.card().version == 2
    with closing(ReadOnlyJournal(home.journal)) as journal:
        assert Replay(journal, "news").other_code is None


@pytest.mark.parametrize("at_once", [500, -1])
def test_the_old_learner_answers_while_decisions_that_cannot_be_read_are_learned_anew(
    home, monkeypatch, caplog, at_once
):
    news = home.start().models["news"]
    play(news, 30)
    home.stop()
    redo, kind, before = (
        building.Learner.redo,
        type(news.learner),
        testing.state_bytes(news.learner),
    )

    def refuses(self, context, decision):
        if decision.round < 30:
            raise ValueError("a decision of another kind")
        return redo(self, context, decision)

    monkeypatch.setattr(kind, "redo", refuses)
    monkeypatch.setattr(building, "RULES", building.RULES + 1)
    monkeypatch.setattr(rebuilding, "AT_ONCE", at_once)
    may_build, behind = Event(), Rebuilding._build_behind
    monkeypatch.setattr(
        Rebuilding, "_build_behind", lambda *given: may_build.wait(60) and behind(*given)
    )
    try:
        news = home.start().models["news"]
        assert "learned anew, as those of another learner" in caplog.text
        assert (news._state.thread is not None) == (at_once < 0)
        assert at_once > 0 or testing.state_bytes(news.learner) == before
    finally:
        may_build.set()
    news.settle()
    assert not news.problem and news.card().version == 2
    assert_pure(news)
    for _ in range(2):  # the next starts have nothing to learn anew
        news = home.restart().models["news"]
        assert news.card().version == 2 and news._state.thread is None
        assert_pure(news)


def test_a_learner_is_known_by_the_versions_of_its_arithmetic(monkeypatch, tmp_path):
    body = {"learner": "UCWL", "prepare": []}
    before = building.code_of(body)
    for owner in (ob.UCWL, Learner, contexts):
        with monkeypatch.context() as patch:
            patch.setattr(owner, "BITS", 100, raising=False)
            assert not building.code_of(body).same_bits(before)
    with monkeypatch.context() as patch:
        patch.setattr(steps, "BITS", 100)
        assert building.code_of(body) == before
        prepared = building.code_of({**body, "prepare": ["binary"]})
    assert not building.code_of({**body, "prepare": ["binary"]}).same_bits(prepared)


def test_a_learner_of_somebody_else_is_known_by_its_sources(monkeypatch, tmp_path):
    source = "from onebit.algorithms.ucwl import UCWL\n\nclass Mine(UCWL):\n    '''Mine.'''\n"
    (tmp_path / "mine_one.py").write_text(source)
    (tmp_path / "mine_two.py").write_text(source.replace("Mine(", "Yours(") + "    extra = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        for module in ("mine_one", "mine_two"):
            importlib.import_module(module)
        codes = {
            building.code_of({"learner": name}).digest
            for name in ("UCWL", "mine_one:Mine", "mine_two:Yours")
        }
    finally:
        for name in ("Mine", "Yours"):
            Learner.registry.pop(name, None)
        for module in ("mine_one", "mine_two"):
            sys.modules.pop(module, None)
    assert len(codes) == 3
