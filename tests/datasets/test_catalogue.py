"""Data by name: built in, in a data folder, and the user's own."""

from __future__ import annotations

import gzip
import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import onebit as ob
from onebit.datasets import find, get, iris
from onebit.datasets.catalogue import FETCHED, KNOWN, fetch_folder, folders
from onebit.lab import streams

REAL = os.environ.get("ONEBIT_DATA", "")
STORED = [entry for entry in KNOWN if entry.find()]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ONEBIT_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "shared"))
    return tmp_path


def test_names_are_unique_and_every_entry_tells_its_origin():
    names = [entry.name for entry in KNOWN]
    assert len(set(names)) == len(names) and set(FETCHED) <= set(names)
    for entry in KNOWN:
        assert entry.contents and entry.source and entry.licence
        assert (entry.make is None) == bool(entry.file) == bool(entry.shuffle)


def test_built_in_ones_are_as_catalogued(folder):
    for entry in KNOWN:
        if entry.make:
            data = entry.load(**({"rows": 50, "seed": 3} if entry.drawn else {}))
            rows = 50 if entry.drawn else entry.size[0]
            assert (*data.X.shape, len(data.labels)) == (rows, *entry.size[1:])
    assert (get("synsep", rows=50, seed=3).X != ob.datasets.synsep(50, seed=3).X).nnz == 0


def test_iris_is_scikit_learns():
    from sklearn.datasets import load_iris

    data, theirs = iris(), load_iris()
    assert np.array_equal(data.X, theirs.data.astype(np.float32))
    assert (data.y == theirs.target).all() and data.labels == theirs.target_names.tolist()
    ob.simulate(ob.UCWL(labels=data.labels), data, order="shuffled")


@pytest.mark.skipif(not REAL, reason="needs the data folder ONEBIT_DATA")
@pytest.mark.parametrize("entry", STORED, ids=[entry.name for entry in STORED])
def test_stored_ones_are_as_catalogued(entry):
    data = get(entry.name)
    assert (*data.X.shape, len(data.labels)) == entry.size
    are_right = data.y.any(axis=0) if data.y.ndim == 2 else np.bincount(data.y) > 0
    assert are_right.all() and len(are_right) == len(data.labels) and data.name == entry.name
    assert data.about.endswith("shuffle") and f"{len(data.y):,}" in data.about
    assert data.X.dtype == np.float32
    digest = hashlib.sha256(entry.find().read_bytes()).hexdigest()
    assert digest == entry.sha256


@pytest.mark.skipif(not REAL, reason="needs the data folder ONEBIT_DATA")
def test_peculiarities():
    if not (Path(REAL) / "mnist.npz").exists():
        pytest.skip("needs the stored sets")
    mnist = get("mnist")
    assert mnist.X.min() == 0 and mnist.X.max() == 1
    assert abs(mnist.X[:60_000].mean(dtype=float) - 0.1307) < 1e-4  # of the training part
    usps = get("usps")
    assert usps.X.min() == 0 and usps.X.max() == 1 and (usps.X == 0).mean() > 0.5
    assert np.bincount(get("rcv1").y).tolist() == [9626, 1924, 5252, 6683]
    assert get("rcv1").labels == ["CCAT", "ECAT", "GCAT", "MCAT"]
    seven, three = get("amazon7"), get("amazon3")
    assert three.labels == ["books", "dvd", "music"]
    for name in three.labels:
        mine = three.X[three.y == three.labels.index(name)]
        theirs = seven.X[seven.y == seven.labels.index(name)]
        assert (mine != theirs).nnz == 0
    assert get("optdigits").labels == list(range(10))
    assert get("20news_18828").name == "20news"


def test_files_of_ones_own_are_found_by_their_names(folder):
    (folder / "nytd.svm").write_text("1 1:1\n2 2:1\n")
    (folder / "reuters4.svm.gz").write_bytes(gzip.compress(b"1 1:1\n2 3:1\n"))
    (folder / "gesture.csv").write_text("x,sign\n1,a\n2,b\n")
    np.savez(folder / "enron_a.npz", X=np.eye(3), y=[0, 1, 1], classes=["in", "out"])
    (folder / "README.md").write_text("no data")
    (folder / "mnist.svm").write_text("1 1:1\n")  # a known name is never another file
    (folder / "shared" / "onebit").mkdir(parents=True)
    (folder / "shared" / "onebit" / "later.vw").write_text("a | x\nb | y\n")
    (folder / "shared" / "onebit" / "nytd.svm").write_text("")
    assert get("nytd").X.shape == (2, 2) and get("reuters4").X.shape == (2, 3)
    assert get("gesture", label="sign").labels == ["a", "b"]
    assert get("enron_a").labels == ["in", "out"] and get("later").labels == ["a", "b"]
    own = [entry.name for entry in ob.datasets.catalogue.own()]
    assert own == ["enron_a", "gesture", "nytd", "reuters4", "later"]
    assert find("gesture").is_own and not find("mnist").is_own


def test_what_is_missing_is_told_with_the_folders_and_the_remedy(folder, monkeypatch):
    with pytest.raises(FileNotFoundError) as caught:
        get("mnist")
    for words in (str(folder), "shared/onebit", "mnist.npz", "`onebit data fetch mnist`"):
        assert words in str(caught.value)
    with pytest.raises(FileNotFoundError, match=r"vowel.npz is not in .*; set ONEBIT_DATA to"):
        get("vowel")
    with pytest.raises(ValueError, match=r"no data 'mnits' .* did you mean 'mnist'"):
        get("mnits")
    with pytest.raises(ValueError, match="no data ''"):
        get("")
    monkeypatch.delenv("ONEBIT_DATA")
    with pytest.raises(ValueError, match=r"no data 'q' .*it is not set\); there are synsep"):
        get("q")
    fetch_folder().mkdir(parents=True)
    np.savez(fetch_folder() / "mnist.npz", X=np.eye(2, dtype=np.uint8), y=[0, 1])
    with pytest.raises(TypeError, match="mnist takes no options; leave out label"):
        get("mnist", label="x")


def test_the_folders(monkeypatch):
    for name in ("ONEBIT_DATA", "XDG_DATA_HOME", "HOME", "USERPROFILE"):
        monkeypatch.delenv(name, raising=False)
    assert folders() == []
    with pytest.raises(ValueError, match="set ONEBIT_DATA"):
        fetch_folder()
    monkeypatch.setenv("HOME", "here")
    assert folders() == [Path("here/.local/share/onebit")]
    monkeypatch.setenv("ONEBIT_DATA", "there")
    assert folders() == [Path("there"), Path("here/.local/share/onebit")]
    assert fetch_folder() == Path("there")


def test_classes_name_the_labels_of_an_npz_file(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, X=np.eye(3), y=[1, 1, 0], classes=["10", "20", "30"])
    data = ob.datasets.read(path)
    assert data.labels == [10, 20, 30] and data.y.tolist() == [1, 1, 0]
    assert ob.datasets.read(path, labels=[20, 10, 30]).y.tolist() == [0, 0, 1]
    np.savez(path, X=np.eye(3), y=[1, 3, 0], classes=["a", "b", "c"])
    with pytest.raises(ValueError, match="row 2 has no name among the 3 classes"):
        ob.datasets.read(path)


def test_images_are_flattened(tmp_path):
    images = np.arange(2 * 3 * 4 * 3, dtype=np.uint8).reshape(2, 3, 4, 3)
    for X in (images, images[..., 0]):
        np.savez(tmp_path / "a.npz", X=X, y=["a", "b"])
        assert np.array_equal(ob.datasets.npz(tmp_path / "a.npz").X, X.reshape(2, -1))


# Races


def test_a_race_takes_names_and_prepares_rows(folder):
    X = sparse.random(30, 20, 0.4, format="csr", random_state=0)
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
    np.savez(folder / "mine.npz", y=np.arange(30) % 2, **parts)
    name, about, made = streams.streams("mine", 70, 2, 0, prepare=["constant", "unit_norm"])
    assert name == "mine" and about.endswith("; constant, unit_norm")
    assert made[0].rows is made[1].rows and made[0].rows.width == 21
    _, _, plain = streams.streams("mine", 70, 2, 0)
    assert plain[1].order.tolist() == made[1].order.tolist()


def test_a_race_weighs_words_in_the_order_of_its_rounds():
    _, about, made = streams.streams("digits", 2000, 2, 5, prepare=["tfidf"])
    assert about.endswith("; tfidf") and [len(one.y) for one in made] == [2000, 2000]
    _, _, plain = streams.streams("digits", 2000, 2, 5)
    steps, data = ob.datasets.Steps(["tfidf"]), ob.datasets.digits()
    for t, i in enumerate(plain[1].order):
        _, values = steps(data.X[i])
        row = slice(made[1].rows.indptr[t], made[1].rows.indptr[t + 1])
        assert made[1].rows.values[row].tobytes() == values.tobytes()
        assert made[1].y[t] == data.y[i]
    _, about, drawn = streams.streams("synsep", 50, 2, 0, prepare=["tfidf", "unit_norm"])
    assert len(drawn) == 2 and about.endswith("; tfidf, unit_norm")
