"""A journal as a log."""

from __future__ import annotations

import json

import numpy as np
import polars
import pytest
from helpers.journals import played

import onebit as ob
from onebit.service.configuration import Model
from onebit.service.engine import Engine
from onebit.service.journal import Journal
from onebit.service.messages import Retraining
from onebit.service.upkeep import logs
from onebit.service.upkeep.export import export


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    path = tmp_path_factory.mktemp("logs") / "journal"
    played(path, 120, seed=4)
    return path


@pytest.mark.parametrize("model", ["news", "sizes"])
def test_a_journal_is_a_log(journal, model, tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "CHUNK", 17)
    log = ob.journal_log(journal, model)
    export(journal, tmp_path / "r.parquet", model)
    table = polars.read_parquet(tmp_path / "r.parquet")
    table = table.filter(polars.col("state").is_in(["learned", "open"]))
    blocks = list(log.blocks())
    assert sum(block.size for block in blocks) == len(table) > 20
    names = log.labels
    rows = iter(table.iter_rows(named=True))
    for block in blocks:
        for i in range(block.size):
            row = next(rows)
            assert str(names[block.said[i]]) == row["label"]
            assert block.contexts[i] == json.loads(row["context"])
            assert block.propensity[i] == pytest.approx(row["propensity"])
            shares = json.loads(row["propensities"])
            told = {str(name): p for name, p in zip(names, block.propensities[i], strict=True)}
            assert {n: p for n, p in told.items() if p} == pytest.approx(
                {n: p for n, p in shares.items() if p}
            )
            expected = -1 if row["right"] is None else int(row["right"])
            assert block.right[i] == expected and block.lines[i] == row["position"]
    assert [b.size for b in log.blocks()] == [b.size for b in blocks]  # as often as one likes


def test_the_export_is_the_same_log(journal, tmp_path):
    export(journal, tmp_path / "news.parquet", "news")
    table = polars.read_parquet(tmp_path / "news.parquet")
    kept = table.filter(polars.col("state").is_in(["learned", "open"]))
    kept.write_parquet(tmp_path / "kept.parquet")
    direct = next(ob.journal_log(journal, "news").blocks())
    (read,) = ob.Log(tmp_path / "kept.parquet", labels=["sport", "tech", "art"]).blocks()
    assert read.contexts == direct.contexts
    for name in ("said", "right", "truth", "propensity", "allowed", "times"):
        np.testing.assert_allclose(getattr(read, name), getattr(direct, name), err_msg=name)


def test_a_journal_can_be_judged(journal):
    log = ob.journal_log(journal, "news")
    found = ob.compare(log, "sport", forecaster=ob.Confidit(log.labels))
    assert found.rounds > 20 and found.interval[0] <= found.bracket[1]
    learner = ob.replay(ob.OneBit(log.labels), log)
    assert learner.round == sum(block.size for block in log.blocks())


def test_which_model(journal):
    with pytest.raises(ValueError, match="say which model"):
        ob.journal_log(journal)


@pytest.mark.parametrize("deferred", [False, True])
@pytest.mark.parametrize("learner", ["OneBit", "UCWL", "SOBA"])
def test_a_model_that_explores_leaves_a_log_that_can_be_judged(learner, deferred, tmp_path):
    """Also if exploration begins later, and after a restart."""
    path, labels = tmp_path / "journal", ["a", "b", "c"]
    rng = np.random.default_rng(0)
    model = Model(name="m", labels=labels, learner=learner, deferred=deferred)
    for part in range(3):
        journal = Journal(path)
        engine = Engine(journal, model, folder=tmp_path / "snapshots")
        engine.load()
        if part == 1:
            engine.submit_retrain(Retraining(settings={"explore": 0.3})).wait()
            engine.settle()
        for _ in range(60):
            right = labels[int(rng.integers(3))]
            told = engine.decide({right: 1.0, "n": float(rng.normal())}, None)
            if part:
                assert min(told.propensities.values()) >= 0.02 - 1e-12
                assert told.propensity == pytest.approx(told.propensities[told.label])
            engine.feedback(told.id, right=told.label == right)
        engine.settle()
        engine.close()
        journal.close()
    log = ob.journal_log(path)
    blocks = list(log.blocks())
    assert sum(block.size for block in blocks) == 180
    shares = np.concatenate([block.all_propensities(3) for block in blocks])
    assert (shares[60:].min(axis=1) >= 0.02 - 1e-12).all()
    found = ob.compare(log, "a", forecaster=ob.Confidit(labels))
    assert found.interval[0] < found.interval[1]
