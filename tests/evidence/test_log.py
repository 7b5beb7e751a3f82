"""Logs from files: what is read, and what is refused, with the row and the remedy."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

import onebit as ob
from onebit.evidence.log import Log
from onebit.reading.frames import NamedColumns

CSV = """age,city,said,ok,p
31,Rome,sport,1,0.5
18,Oslo,tech,0,0.25
44,Rome,sport,,0.5
"""


def one_block(log, labels=None):
    (block,) = log.blocks(labels)
    return block


def test_a_csv_file(tmp_path):
    (tmp_path / "a.csv").write_text(CSV)
    log = Log(tmp_path / "a.csv", label="said", right="ok", propensity="p")
    assert log.labels == ["sport", "tech"]
    block = one_block(log)
    assert block.contexts == [
        {"age": 31.0, "city": "Rome"},
        {"age": 18.0, "city": "Oslo"},
        {"age": 44.0, "city": "Rome"},
    ]
    assert block.said.tolist() == [0, 1, 0]
    assert block.right.tolist() == [1, 0, -1]
    assert block.propensity.tolist() == [0.5, 0.25, 0.5]
    assert block.lines.tolist() == [2, 3, 4]
    assert one_block(log, ["x", "tech", "sport"]).said.tolist() == [2, 1, 2]


def test_a_table_of_numbers_and_default_names(tmp_path):
    frame = pl.DataFrame(
        {
            "width": [1.5, 2.5, 3.5, 4.5],
            "label": ["1", "2", "1", "2"],
            "right": [True, None, False, True],
            "propensity": [0.1, 0.2, None, 1.0],
            "time": ["2026-01-01T00:00:00", "2026-01-01T00:00:01Z", "2026-01-02", "2026-01-02"],
        }
    )
    frame.write_parquet(tmp_path / "a.parquet")
    block = one_block(Log(tmp_path / "a.parquet"))
    assert isinstance(block.contexts, NamedColumns) and block.contexts.names == ["width"]
    assert block.right.tolist() == [1, -1, 0, 1]
    assert np.isnan(block.propensity[2]) and np.diff(block.times[:2]) == 1
    two = block.all_propensities(2)
    np.testing.assert_allclose(two[[0, 1, 3]], [[0.1, 0.9], [0.8, 0.2], [0, 1]])
    assert np.isnan(two[2]).all()


def test_json_lines(tmp_path):
    rows = [
        {"context": {"a": 1}, "label": "x", "right": True, "propensities": {"x": 0.5, "y": 0.5}},
        {"context": "some text", "label": "y", "true_label": "x", "among": ["x", "y"]},
        {"context": [1, 2], "label": "y", "source": "the old model"},
    ]
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    block = one_block(Log(tmp_path / "a.jsonl", labels=["x", "y", "z"]))
    assert block.contexts == [{"a": 1}, "some text", [1, 2]]
    assert block.right.tolist() == [1, 0, -1] and block.truth.tolist() == [-1, 0, -1]
    assert block.propensities[0].tolist() == [0.5, 0.5, 0]
    assert block.allowed.tolist() == [[True] * 3, [True, True, False], [True] * 3]
    assert block.sources == ["", "", "the old model"]


def test_all_other_fields_of_json_lines_are_the_context(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '{"a": 1, "id": 7, "label": 1, "ok": 0}\n{"label": 2, "b": 3}\n'
    )
    block = one_block(Log(tmp_path / "a.jsonl", right="ok", drop=["id"]))
    assert block.contexts == [{"a": 1}, {"b": 3}] and block.right.tolist() == [0, -1]


def test_vowpal_wabbit_text(tmp_path):
    (tmp_path / "a.vw").write_text("1:0:0.5 | a b:2\n2:1:0.25 'tag |u x |z y:3\n1 2:1:.3 3 | c\n")
    log = Log(tmp_path / "a.vw")
    assert log.labels == [1, 2, 3]
    block = one_block(log)
    assert block.contexts == [{"a": 1, "b": 2}, {"u^x": 1, "z^y": 3}, {"c": 1}]
    assert block.said.tolist() == [0, 1, 1] and block.right.tolist() == [1, 0, 0]
    assert block.propensity.tolist() == [0.5, 0.25, 0.3]
    (tmp_path / "a.vw").write_text("1:-1:0.5 | a\n2:0:0.25 | b\n")
    assert one_block(Log(tmp_path / "a.vw", right_cost=-1)).right.tolist() == [1, 0]


def test_dsjson(tmp_path):
    row = {
        "_label_cost": -1, "_label_probability": 0.8, "_label_Action": 2, "_labelIndex": 1,
        "a": [2, 1], "p": [0.8, 0.2], "Timestamp": "2026-01-01T00:00:00.0Z",
        "c": {"User": {"age": 3, "sex": "m", "tags": [1, 2]}, "_multi": [{}, {}]},
    }  # fmt: skip
    lines = [row, {**row, "_label_cost": 0}]
    (tmp_path / "a.dsjson").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    block = one_block(Log(tmp_path / "a.dsjson"))
    assert block.contexts[0] == {
        "User^age": 3, "User^sex": "m", "User^tags[0]": 1, "User^tags[1]": 2
    }  # fmt: skip
    assert block.said.tolist() == [1, 1] and block.right.tolist() == [1, 0]
    assert block.propensities[0] == pytest.approx([0.2, 0.8])


def test_several_files_follow_one_another(tmp_path):
    for name, label in (("a.csv", "x"), ("b.csv", "y")):
        (tmp_path / name).write_text(f"n,label,right\n1,{label},1\n2,{label},0\n")
    log = Log([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert log.labels == ["x", "y"]
    assert [block.said.tolist() for block in log.blocks()] == [[0, 0], [1, 1]]
    assert [part.labels for part in log.parts()] == [["x", "y"]] * 2
    assert one_block(log.parts()[1]).said.tolist() == [1, 1]


def test_the_files_of_a_log_are_in_the_order_of_time(tmp_path):
    for name, time in (("a.csv", 5), ("b.csv", 3)):
        (tmp_path / name).write_text(f"n,label,right,time\n1,x,1,{time}\n2,y,0,{time + 1}\n")
    with pytest.raises(
        ValueError, match=r"b\.csv, line 2: .*name the files of a log in their order"
    ):
        list(Log([tmp_path / "a.csv", tmp_path / "b.csv"]).blocks())
    assert len(list(Log([tmp_path / "b.csv", tmp_path / "a.csv"]).blocks())) == 2


def test_parquet_may_have_lists_and_structs(tmp_path):
    rows = {
        "label": ["x", "y"],
        "right": [1, 0],
        "context": [{"a": 1.5, "b": "u"}, {"a": 2.5, "b": "v"}],
        "propensities": [{"x": 0.5, "y": 0.5, "z": None}, {"x": None, "y": 0.25, "z": 0.75}],
        "among": [["x", "y"], ["y", "z"]],
        "unused": [[1, 2], [3]],
    }
    pl.DataFrame(rows).write_parquet(tmp_path / "a.parquet")
    block = one_block(Log(tmp_path / "a.parquet"))
    assert block.contexts == rows["context"]
    assert block.propensities.tolist() == [[0.5, 0.5, 0], [0, 0.25, 0.75]]
    assert block.allowed.tolist() == [[True, True, False], [False, True, True]]
    pl.DataFrame({**rows, "context": [1, 2]}).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(ValueError, match="column 'unused' is of type List"):
        list(Log(tmp_path / "b.parquet", source="context").blocks())


def test_rows_in_memory():
    log = Log.of([[1.0], [2.0]], ["a", "b"], [True, None], propensity=0.5, labels=["b", "a"])
    block = one_block(log)
    assert block.said.tolist() == [1, 0] and block.right.tolist() == [1, -1]
    assert Log.of([[1.0], [2.0]], np.array([3, 5]), true_label=[3, 3]).labels == [3, 5]
    with pytest.raises(ValueError, match="right has 1 rows, and label has 2"):
        Log.of([[1.0], [2.0]], ["a", "b"], [True])
    with pytest.raises(TypeError, match="many contexts: put a single one into a list"):
        Log.of("ab", ["a", "b"], [True, False])
    with pytest.raises(TypeError, match="label is a column, as in a list, not None"):
        Log.of([], None)


@pytest.mark.parametrize("library", [pl, pd])
def test_a_frame_in_memory_gives_rules_its_columns_by_name(library):
    numbers = library.DataFrame({"a": [1.0, -1.0] * 20, "b": [0, 1] * 20})
    mixed = library.DataFrame({"a": [1.0, -1.0] * 20, "b": ["u", "v"] * 20})
    for frame in (numbers, mixed):
        log = ob.Log.of(frame, ["x", "y"] * 20, [1] * 40, propensity=0.5)
        rule = ob.evaluate(log, lambda row: "x" if row["a"] > 0 else "y", exclusive=False)
        assert rule.estimates["SNIPS"] == 1
        assert ob.replay(ob.OneBit(["x", "y"]), log).round == 40


# Bad logs: each file has one sin. The text is that of a csv file, unless the name says otherwise.

HEAD = "x,label,right,propensity\n1,a,1,0.5\n"
BAD = {
    "a probability of 0": (HEAD + "2,b,0,0\n", 3, "propensity is '0'", "leave it empty"),
    "a percentage": (HEAD + "2,b,0,50\n", 3, "propensity is '50'", "divide percentages by 100"),
    "a negative probability": (HEAD + "2,b,0,-0.5\n", 3, "'-0.5'", "above 0 and at most 1"),
    "no number": (HEAD + "2,b,0,half\n", 3, "'half'", "above 0 and at most 1"),
    "no bit": (HEAD + "2,b,maybe,1\n", 3, "'maybe' is not an answer", "1 or true, 0 or false"),
    "a score": (HEAD + "2,b,0.7,1\n", 3, "'0.7' is not an answer", "1 or true, 0 or false"),
    "no label": (HEAD + "2,,0,1\n", 3, "the row has no label", "missing_label"),
    "an unknown label": (HEAD + "2,c,0,1\n", 3, "label 'c' is not among the 2: a, b", "labels="),
    "an unknown truth": (
        "x,label,true_label\n1,a,z\n", 2, "true_label 'z' is not among", "labels="
    ),
    "a contradiction": (
        "x,label,right,true_label\n1,a,1,b\n", 2, "answer is right, and the true label", "mend"
    ),
    "time runs backwards": (
        "x,label,right,time\n1,a,1,5\n2,b,0,7\n3,a,1,6\n", 4, "time '6' is before", "sort"
    ),
    "no time": ("x,label,right,time\n1,a,1,noon\n", 2, "the time is 'noon'", "seconds"),
    "a sum below 1": (
        'x,label,right,propensities\n1,a,1,"{""a"": 0.5, ""b"": 0.4}"\n', 2, "sum to 0.9", "at that"
    ),
    "a share above 1": (
        'x,label,right,propensities\n1,a,1,"{""a"": 1.5, ""b"": -0.5}"\n', 2, "-0.5]", "between"
    ),
    "a share of an unknown label": (
        'x,label,right,propensities\n1,a,1,"{""a"": 0.5, ""q"": 0.5}"\n', 2, "'q' is not", "labels="
    ),
    "an impossible label": (
        'x,label,right,propensities\n1,a,1,"{""b"": 1}"\n', 2, "probability 0", "of the time"
    ),
    "two probabilities": (
        'x,label,right,propensity,propensities\n1,a,1,0.9,"{""a"": 0.5, ""b"": 0.5}"\n',
        2, "0.9, and 0.5 among", "mend",
    ),
    "a label that was not possible": (
        'x,label,right,among\n1,a,1,"[""b""]"\n', 2, "not among the possible ones", "mend"
    ),
    "no list of labels": ('x,label,right,among\n1,a,1,"{}"\n', 2, "possible labels are {}", "list"),
    "no JSON": ("x,label,right,among\n1,a,1,b\n", 2, "'b' is not JSON", "onebit export"),
    "no column of labels": ("x,right\n1,1\n", 1, "no column is the label", "label="),
    "no column of answers": ("x,label\n1,a\n", 1, "whether the label was right", "right="),
    "a row that is cut": (HEAD + "2,b\n", 3, "2 fields, but the header has 4", "is the row cut"),
    "a probability of what was not possible": (
        'x,label,right,propensities,among\n1,a,1,"{""a"": 0.5, ""b"": 0.5}","[""a""]"\n',
        2, "label 'b' has a probability, and was not possible", "mend",
    ),
    "jsonl: a list of labels": (
        '{"label": ["a"], "right": 1}\n', 1, "label ['a'] is no name", "a single label"
    ),
    "jsonl: no object": ("[1]\n", 1, "is no object", '"label"'),
    "jsonl: a cut line": ('{"label": "a", "right": 1\n', 1, "not JSON", "is the line cut"),
    "vw: no bar": ("1:0:0.5 a\n", 1, "there is no |", "is the row cut"),
    "vw: no probability": ("1:0 | a\n", 1, "names no action with", "2:0:0.8"),
    "vw: two costs": ("1:0:0.5 2:1:0.5 | a\n", 1, "costs of several actions", "2:0:0.8"),
    "vw: a cost between": ("1:0.3:0.5 | a\n", 1, "cost '0.3' is neither 0 nor 1", "right_cost="),
    "dsjson: no actions": ('{"c": {}}\n', 1, "no lists a and p", "probabilities"),
    "dsjson: too few shares": ('{"a": [1, 2], "p": [1]}\n', 1, "2 actions have 1", "its p"),
}  # fmt: skip


@pytest.mark.parametrize("sin", BAD)
def test_a_bad_log_is_refused_with_row_and_remedy(sin, tmp_path):
    text, line, problem, remedy = BAD[sin]
    ending = sin.partition(":")[0] if ":" in sin else "csv"
    path = tmp_path / f"bad.{ending}"
    path.write_text(text)
    labels = [1, 2] if ending in ("vw", "dsjson") else ["a", "b"]
    with pytest.raises(ValueError, match=r"bad\.") as caught:
        list(Log(path, labels=labels).blocks())
    message = str(caught.value)
    assert f"bad.{ending}, line {line}: " in message
    assert problem in message and remedy in message.partition(problem)[2]


def test_a_column_that_does_not_exist(tmp_path):
    (tmp_path / "a.csv").write_text(CSV)
    with pytest.raises(ValueError, match=r"no column 'prob', but age, city, .*propensity="):
        Log(tmp_path / "a.csv", label="said", right="ok", propensity="prob").labels  # noqa: B018


def test_a_single_label_is_no_choice(tmp_path):
    (tmp_path / "a.csv").write_text("x,label,right\n1,a,1\n")
    with pytest.raises(ValueError, match=r"only the label 'a' was ever said.*labels="):
        Log(tmp_path / "a.csv").labels  # noqa: B018


def test_a_journal_has_a_door_of_its_own(tmp_path):
    (tmp_path / "a.journal").write_bytes(b"SQLite format 3\0...")
    with pytest.raises(
        ValueError, match=r"journal of the service: read it with onebit\.journal_log"
    ):
        Log(tmp_path / "a.journal")


def test_unknown_formats_and_options(tmp_path):
    (tmp_path / "a.txt").write_text(CSV)
    with pytest.raises(ValueError, match=r"no format of logs has the ending '\.txt'"):
        Log(tmp_path / "a.txt")
    with pytest.raises(TypeError, match="unknown options of a file: said"):
        Log(tmp_path / "a.txt", format="csv", said="label")


def test_an_empty_file(tmp_path):
    (tmp_path / "a.csv").write_text("x,label,right\n")
    with pytest.raises(ValueError, match="there are no rows"):
        list(Log(tmp_path / "a.csv", labels=["a", "b"]).blocks())
    (tmp_path / "a.csv").write_text("")
    with pytest.raises(ValueError, match="no column 'said', but the line is empty"):
        Log(tmp_path / "a.csv", label="said").labels  # noqa: B018
    with pytest.raises(TypeError, match="a log needs a file, or a list of files, not None"):
        Log(None)
