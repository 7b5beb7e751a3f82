"""`onebit evaluate` and `onebit compare`."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from helpers.journals import played

import onebit as ob
from onebit import cli

LABELS = ["billing", "shipping", "support"]
COLUMNS = ("--label", "said", "--right", "ok")


def run(monkeypatch, *args, status=0):
    monkeypatch.setattr(sys, "argv", ["onebit", *map(str, args)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == status


@pytest.fixture
def tickets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(400):
        kind, said = rng.integers(3), rng.integers(3)
        rows.append(f"{kind == 0:d},{kind == 1:d},{LABELS[said]},{int(kind == said)},0.333333\n")
    for name, part in (("tickets", rows), ("monday", rows[:200]), ("tuesday", rows[200:])):
        text = "card,parcel,said,ok,p\n" + "".join(part)
        (tmp_path / f"{name}.csv").write_text(text)
    return tmp_path


def test_a_table_of_policies(tickets, monkeypatch, capsys):
    learners = ("--learner", "Confidit", "--always", "billing")
    args = ("evaluate", "tickets.csv", *COLUMNS, "--propensity", "p", *learners)
    run(monkeypatch, *args, "--out", "evaluated.html")
    assert "always billing" in (tickets / "evaluated.html").read_text()
    out = capsys.readouterr().out
    lines = {line.split("  ")[1]: line.split() for line in out.splitlines() if " to " in line}
    assert list(lines) == ["the logger", "Confidit", "always billing"]
    assert float(lines["Confidit"][1]) > 60 and 20 < float(lines["always billing"][2]) < 50
    assert "400 rounds. Intervals hold at any time with 95%. Assumed: exactly one label" in out


def test_a_comparison_with_the_logger(tickets, monkeypatch, capsys):
    run(
        monkeypatch,
        "compare",
        "tickets.csv",
        *COLUMNS,
        "--propensity",
        "p",
        "--learner",
        "Confidit",
    )
    out = capsys.readouterr().out
    assert "Confidit, learning - the logger" in out
    assert "difference of right labels  +0." in out


def test_without_propensities_there_is_a_reason(tickets, monkeypatch, capsys):
    run(monkeypatch, "compare", "tickets.csv", *COLUMNS, "--drop", "p", "--always", "billing")
    out = capsys.readouterr().out
    assert "right labels  none" in out and "400 rounds have no propensity" in out


def test_assumptions(tickets, monkeypatch, capsys):
    given = ("--exclusive", "no", "--steady", "--alpha", "0.1", "--flips", "0.1,0.05")
    args = ("compare", "tickets.csv", *COLUMNS, "--propensity", "p", "--always", "billing")
    run(monkeypatch, *args, "--always", "support", *given)
    out = capsys.readouterr().out
    assert "always 'billing' - always 'support'" in out
    assert "90%, the value stays the same" in out
    assert "each label is right or not by itself" in out


def test_a_saved_learner_on_several_files(tickets, monkeypatch, capsys):
    log = ob.Log(tickets / "tickets.csv", label="said", right="ok", propensity="p")
    ob.replay(ob.Confidit(LABELS), log).save(tickets / "news.onebit")
    args = ("evaluate", "monday.csv", "tuesday.csv", *COLUMNS, "--propensity", "p")
    run(monkeypatch, *args, "--learner", "news.onebit")
    out = capsys.readouterr().out
    assert "news.onebit" in out and "400 rounds" in out


def test_a_journal(tmp_path, monkeypatch, capsys):
    played(tmp_path / "journal", 60, seed=4)
    run(monkeypatch, "evaluate", tmp_path / "journal", "--model", "news", "--always", "sport")
    assert "always sport" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("compare", "tickets.csv", *COLUMNS), "name one or two policies"),
        (("evaluate", "tickets.csv", *COLUMNS, "--flips", "x"), "--flips is two chances"),
        (("evaluate", "tickets.csv", *COLUMNS, "--model", "news"), "--model is for journals"),
        (("evaluate", "tickets.csv", "--label", "said"), "name it with --right"),
        (("evaluate", "tickets.csv", *COLUMNS, "--always", "x"), "no label 'x'"),
        (("evaluate", "none.csv"), "none.csv"),
    ],
)
def test_wrong_commands(args, message, tickets, monkeypatch, capsys):
    run(monkeypatch, *args, status=2)
    assert message in capsys.readouterr().err


def test_a_journal_has_no_columns(tmp_path, monkeypatch, capsys):
    played(tmp_path / "journal", 5, seed=4)
    run(monkeypatch, "evaluate", tmp_path / "journal", "--label", "said", status=2)
    assert "is a journal, which needs no --label" in capsys.readouterr().err


def test_a_saved_learner_beside_one_that_learns(tickets, monkeypatch, capsys):
    log = ob.Log(tickets / "tickets.csv", label="said", right="ok", propensity="p")
    ob.replay(ob.Confidit(LABELS), log).save(tickets / "news.onebit")
    args = ("compare", "tickets.csv", *COLUMNS, "--propensity", "p", "--learner", "news.onebit")
    run(monkeypatch, *args, "--learner", "Confidit", status=2)
    assert "pass --learns, so that news.onebit does so, too" in capsys.readouterr().err
    run(monkeypatch, *args, "--learner", "Confidit", "--learns")
    assert "Confidit, learning - Confidit, learning" in capsys.readouterr().out
