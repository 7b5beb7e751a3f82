"""Data of which several labels may be right in a row, or none."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

import onebit as ob
from onebit.cli import main


def stored(path, **fields):
    np.savez(path, **fields)
    return path


X = np.arange(21.0).reshape(7, 3)
Y = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0], [1, 0, 0], [0, 0, 1], [1, 1, 0]])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("y", [Y.astype(np.uint8), Y * 0.25], ids=["rights", "chances"])
def test_npz_files_are_read_and_streamed(tmp_path, y, order):
    y = np.array(y, order=order)
    path = stored(tmp_path / "tags.npz", X=X, y=y, classes=np.array(["a", "b", "c"]))
    data = ob.datasets.read(path)
    assert data.labels == ["a", "b", "c"] and data.y.dtype == y.dtype and (data.y == y).all()
    assert data.about == "7 rows, 3 features, 3 labels"
    turned = ob.datasets.read(path, labels=["c", "a", "b"])
    assert turned.labels == ["c", "a", "b"] and (turned.y == y[:, [2, 0, 1]]).all()
    chunks = list(ob.datasets.stream(path, labels=["c", "a", "b"], rows=3))
    assert [len(chunk.y) for chunk in chunks] == [3, 3, 1]
    assert (np.concatenate([chunk.y for chunk in chunks]) == turned.y).all()
    whole, parts = (ob.UCWL(labels=["c", "a", "b"]) for _ in range(2))
    mistakes = ob.simulate(whole, data).mistakes[-1]
    assert ob.simulate(parts, iter(chunks)).mistakes[-1] == pytest.approx(mistakes)


def test_names_are_counted_without_classes(tmp_path):
    data = ob.datasets.read(stored(tmp_path / "tags.npz", X=X, y=Y))
    assert data.labels == [0, 1, 2]


BAD = {
    "other labels": (Y, ["a", "b"], "a matrix needs a column for each label"),
    "a column": (Y[:, :1], None, "a column for each label"),
    "scores": (Y * 2, None, "1 where a label is right, 0 where it is wrong"),
    "words": (Y.astype(str), None, "1 where a label is right, 0 where it is wrong"),
    "rows": (Y[:4], None, "one label for each of 7 rows"),
}


@pytest.mark.parametrize("sin", BAD)
def test_bad_matrices_are_refused(tmp_path, sin):
    y, labels, words = BAD[sin]
    path = stored(tmp_path / "tags.npz", X=X, y=y)
    with pytest.raises(ValueError, match=words):
        ob.datasets.read(path, labels=labels)


def test_classes_that_are_too_few(tmp_path):
    path = stored(tmp_path / "tags.npz", X=X, y=Y, classes=np.array(["a", "b"]))
    with pytest.raises(ValueError, match="y has 3 columns, and there are 2 classes"):
        ob.datasets.read(path)


TEXTS = {
    "tags.csv": ("|", "label,a\nx|z,1\n,2\n z | y |,3\n"),
    "tags.svm": (",", "x,z 1:1 # c\n# nothing\n\n 1:2\nz,y,z 1:3"),
    "tags.vw": (",", "x,z | a:1\n | a:2\nz,y 1.0 'tag | a:3\n"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_files_with_several_labels_a_row(tmp_path, name):
    sign, text = TEXTS[name]
    path = tmp_path / name
    path.write_text(text)
    data = ob.datasets.read(path, several=sign)
    assert data.labels == ["x", "y", "z"] and data.X.shape[0] == 3
    assert data.y.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 1]]
    assert np.asarray(data.X.sum(axis=1)).ravel().tolist() == [1, 2, 3]
    [first, last] = ob.datasets.stream(path, labels=["z", "y", "x", "w"], rows=2, several=sign)
    assert np.concatenate([first.y, last.y]).tolist() == [[1, 0, 1, 0], [0] * 4, [1, 1, 0, 0]]
    with pytest.raises(ValueError, match=r"line \d: label 'x' was never declared"):
        ob.datasets.read(path, several=sign, labels=["z", "y"])


def test_parquet_with_several_labels_a_row(tmp_path):
    polars = pytest.importorskip("polars")
    path = tmp_path / "tags.parquet"
    polars.DataFrame({"label": ["2|10", None, "10"], "a": [1.0, 2.0, 3.0]}).write_parquet(path)
    data = ob.datasets.read(path, several="|")
    assert data.labels == [2, 10] and data.y.tolist() == [[1, 1], [0, 0], [0, 1]]


def test_wrong_signs_are_refused(tmp_path):
    path = tmp_path / "tags.csv"
    path.write_text("label,a\nx,1\nx,2\n")
    with pytest.raises(ValueError, match=r"only the label 'x', with ';' between labels"):
        ob.datasets.read(path, several=";")
    path.write_text("label,a\n,1\n,2\n")
    with pytest.raises(ValueError, match="no row has a label"):
        ob.datasets.read(path, several="|")
    with pytest.raises(ValueError, match="must be the sign between labels"):
        ob.datasets.read(path, several=" ")
    with pytest.raises(ValueError, match="leave out several="):
        ob.datasets.read(stored(tmp_path / "tags.npz", X=X, y=Y), several="|")


def test_clicks_are_as_asked_for():
    data = ob.datasets.clicks(20_000, labels=6, lowest=0.02, highest=0.2, seed=4)
    assert data.X.shape == (20_000, 23) and data.y.shape == (20_000, 6)
    assert (data.X.sum(axis=1) == 4).all()
    assert data.y.min() > 0 and data.y.max() < 1
    means = np.sort(data.y.mean(axis=0))
    assert means[0] < 0.06 and means[-1] > 0.15  # the average visitor is not the mean chance
    again = ob.datasets.clicks(20_000, labels=6, lowest=0.02, highest=0.2, seed=4)
    assert (again.y == data.y).all() and (again.X != data.X).nnz == 0
    assert (ob.datasets.clicks(100, seed=5).y != ob.datasets.clicks(100, seed=6).y).any()
    with pytest.raises(ValueError, match="highest"):
        ob.datasets.clicks(10, lowest=0.3, highest=0.1)


def test_tune_takes_a_matrix():
    data = ob.datasets.clicks(400, labels=3, seed=1)
    tuned = ob.tune("UCWL", data.X, data.y, trials=3, repeats=2)
    same = ob.tune("UCWL", data, trials=3, repeats=2)
    assert tuned.found.error == same.found.error and 0.5 < tuned.found.error < 1
    trace = ob.simulate(tuned.make(3), data, order="shuffled")
    assert trace.mistakes[-1] != int(trace.mistakes[-1])


def test_the_command_shows_how_often_each_label_is_right(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["onebit", "data", "info", "clicks"])
    with pytest.raises(SystemExit):
        main()
    assert "10 (0: " in capsys.readouterr().out


@pytest.mark.skipif("ONEBIT_DATA" not in os.environ, reason="needs the data folder ONEBIT_DATA")
@pytest.mark.parametrize(("name", "mean"), [("yeast", 4.237), ("tmc", 2.158)])
def test_sets_of_the_data_folder_have_as_many_labels_as_published(name, mean):
    if not ob.datasets.find(name).find():
        pytest.skip(f"needs {name}")
    data = ob.datasets.get(name)
    assert data.y.sum(axis=1).mean() == pytest.approx(mean, abs=5e-4)
