"""Export to Parquet."""

from __future__ import annotations

import json
from contextlib import closing

import polars
import pytest
from helpers.journals import news, played

from onebit.cli.journals import export as export_command
from onebit.service.engine import Engine, id_of
from onebit.service.faults import Damaged
from onebit.service.journal import DecisionRow, Journal
from onebit.service.upkeep import export as exporting
from onebit.service.upkeep.export import COLUMNS, export


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    path = tmp_path_factory.mktemp("export") / "journal"
    played(path, 120, seed=4)
    return path


def test_a_row_per_decision(journal, tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "CHUNK", 17)
    assert export(journal, tmp_path / "r.parquet") == 121
    table = polars.read_parquet(tmp_path / "r.parquet")
    assert table.columns == list(COLUMNS) and len(table) == 121
    assert table["position"].is_sorted() and table["id"].n_unique() == 121
    assert set(table["state"]) == {"learned", "cancelled", "open", "waiting"}
    learned = table.filter(polars.col("state") == "learned")
    assert learned["right"].null_count() == learned["answer_time"].null_count() == 0
    assert (learned["answer_time"] >= learned["time"]).all()
    assert set(learned["source"]) == {None, "ann", "bob"}
    named = learned.filter(polars.col("true_label").is_not_null())
    assert (named["right"] == (named["label"] == named["true_label"])).all() and len(named) > 3
    for row in table.iter_rows(named=True):
        assert json.loads(row["context"])
        shares = json.loads(row["propensities"])
        assert sum(shares.values()) == pytest.approx(1)
        assert shares[row["label"]] == pytest.approx(row["propensity"])
        if row["model"] == "sizes":
            assert list(shares) == ["0", "1", "2"]
    last = table.filter(polars.col("model") == "news").tail(1)
    assert list(json.loads(last["propensities"][0])) == ["sport", "tech", "art"]


def test_rows_are_what_the_engine_says(journal, tmp_path):
    export(journal, tmp_path / "r.parquet", "news")
    table = polars.read_parquet(tmp_path / "r.parquet")
    assert set(table["model"]) == {"news"}
    with closing(Journal(journal)) as opened:
        engine = Engine(opened, news(), folder=tmp_path / "s")
        with opened.reading() as connection:
            rows = connection.execute("SELECT * FROM decisions WHERE model = 1").fetchall()
        for row, exported in zip(
            map(DecisionRow._make, rows), table.iter_rows(named=True), strict=True
        ):
            record = engine.look(id_of(row))
            assert exported["id"] == record.id and exported["label"] == record.label
            assert exported["confidence"] == record.confidence
            assert json.loads(exported["context"]) == record.context
            assert exported["time"].timestamp() == pytest.approx(record.time, abs=1e-5)


def test_beside_a_service_and_of_nothing(tmp_path):
    with closing(Journal(tmp_path / "j")) as opened:
        assert export(tmp_path / "j", tmp_path / "none.parquet") == 0
        assert polars.read_parquet(tmp_path / "none.parquet").columns == list(COLUMNS)
        engine = Engine(opened, news(), folder=tmp_path / "s")
        told = engine.decide({"a": 1})
        assert export(tmp_path / "j", tmp_path / "one.parquet") == 1
        engine.erase(told.id)
        assert export(tmp_path / "j", tmp_path / "one.parquet") == 1
    (row,) = polars.read_parquet(tmp_path / "one.parquet").iter_rows(named=True)
    assert row["state"] == "erased" and row["context"] is None and row["propensities"] is None
    leftovers = [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert not leftovers


def test_damage_is_named(journal, tmp_path):
    data = bytearray(journal.read_bytes())
    for page in range(20, len(data) // 4096, 2):
        data[page * 4096 : (page + 1) * 4096] = bytes(4096)
    (tmp_path / "j").write_bytes(data)
    with pytest.raises(Damaged, match=r"is damaged: .* --repair"):
        export(tmp_path / "j", tmp_path / "r.parquet")
    assert [path.name for path in tmp_path.iterdir() if "parquet" in path.name] == []


def test_the_command_writes_parquet_only(journal, tmp_path):
    """A csv file by its name would not be one."""
    for name in ("rounds.csv", "rounds"):
        with pytest.raises(ValueError, match=r"give the file the ending \.parquet"):
            export_command(journal, out=tmp_path / name)
        assert not (tmp_path / name).exists()
    export_command(journal, out=tmp_path / "rounds.parquet")
