"""Downloads, with scikit-learn's fetchers replaced; and the command `onebit data`."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import pytest
import sklearn.datasets
from scipy import sparse

import onebit as ob
from onebit import cli
from onebit.datasets import catalogue, fetch, fetching, get

REAL = Path(os.environ.get("ONEBIT_DATA", "nowhere"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ONEBIT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "shared"))
    return tmp_path / "data"


def size_is(monkeypatch, name, size):
    """As if the catalogue described a smaller set."""
    smaller = [e._replace(size=size) if e.name == name else e for e in catalogue.KNOWN]
    monkeypatch.setattr(catalogue, "KNOWN", tuple(smaller))


def openml(monkeypatch, X, y):
    asked = {}

    def fetched(**how):
        asked.update(how)
        return SimpleNamespace(data=X, target=np.array(y, object))

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetched)
    return asked


def test_images_are_stored_as_they_are_and_read_in_0_to_1(folder, monkeypatch):
    X, y = np.arange(20 * 4).reshape(20, 4) * 3.0, [str(i % 10) for i in range(20)]
    asked = openml(monkeypatch, X, y)
    size_is(monkeypatch, "mnist", (20, 4, 10))
    path = fetch("mnist")
    assert path == folder / "mnist.npz" and asked["data_id"] == 554
    with np.load(path) as stored:
        assert stored["X"].dtype == np.uint8 and np.array_equal(stored["X"], X)
    data = get("mnist")
    assert np.array_equal(data.X, X.astype(np.float32) / np.float32(255))
    assert data.labels == list(range(10)) and data.y.tolist() == [int(label) for label in y]
    digest, name = (folder / "mnist.npz.sha256").read_text().split()
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest() and name == "mnist.npz"
    assert sorted(p.name for p in folder.iterdir()) == ["mnist.npz", "mnist.npz.sha256"]
    asked.clear()
    assert fetch("mnist") == path and not asked  # it is there


def test_labels_of_openml_become_places(folder, monkeypatch):
    X = np.linspace(-1, 1, 20 * 4).reshape(20, 4)
    openml(monkeypatch, X, [str(i % 10 + 1) for i in range(20)])
    size_is(monkeypatch, "usps", (20, 4, 10))
    fetch("usps")
    data = get("usps")
    assert data.y.tolist() == [i % 10 for i in range(20)] and data.labels == list(range(10))
    assert np.allclose(data.X, (X + 1) / 2, atol=1e-6)
    names = [*"bcadefg"] * 2
    openml(monkeypatch, X[:14], names)
    size_is(monkeypatch, "segment", (14, 4, 7))
    fetch("segment")
    assert [get("segment").labels[place] for place in get("segment").y] == names
    openml(monkeypatch, X[:14], [str(i % 7 + 1) for i in range(14)])
    size_is(monkeypatch, "shuttle", (14, 4, 7))
    fetch("shuttle")
    assert get("shuttle").labels[0] == "Rad.Flow" and get("shuttle").y.tolist()[:3] == [0, 1, 2]


def test_documents_with_one_top_topic(folder, monkeypatch):
    X = sparse.random(40, 30, 0.3, format="csr", random_state=0)
    topics = sparse.csr_matrix(np.random.default_rng(0).integers(0, 2, (40, 6)))
    names = np.array(["C11", "CCAT", "ECAT", "GCAT", "M11", "MCAT"], object)
    bunch = SimpleNamespace(data=X, target=topics, target_names=names)
    monkeypatch.setattr(sklearn.datasets, "fetch_rcv1", lambda **how: bunch)
    fetch("rcv1_full")
    data = get("rcv1_full")
    four = topics.toarray()[:, [1, 2, 3, 5]]
    one = four.sum(axis=1) == 1
    assert data.labels == ["CCAT", "ECAT", "GCAT", "MCAT"] and 0 < one.sum() < 40
    assert (X[one].astype(np.float32) != data.X).nnz == 0
    assert data.y.tolist() == four[one].argmax(axis=1).tolist()


def news(messages, targets, names):
    return SimpleNamespace(data=messages, target=np.array(targets), target_names=names)


def test_messages_that_are_there_twice_are_left_out(folder, monkeypatch):
    one = "From: a\nSubject: b\nLines: 2\n\nhello hello world\n"
    two = "Xref: q\nSubject: b\nFrom: a\n\nhello hello world\n"
    bunch = news([one, "From: c\n\nbye", two, "Subject: d\n\nbye bye"], [0, 1, 1, 0], ["x", "y"])
    monkeypatch.setattr(sklearn.datasets, "fetch_20newsgroups", lambda **how: bunch)
    size_is(monkeypatch, "20news", (2, 3, 2))
    fetch("20news")
    data = get("20news")
    assert data.y.tolist() == [1, 0] and data.labels == ["x", "y"]
    assert data.X.toarray().tolist() == [[1, 1, 0], [2, 0, 1]]  # bye, from, subject


@pytest.mark.slow
@pytest.mark.skipif(
    not (REAL / "20news_bydate_raw.tar.gz").exists(), reason="needs the data folder ONEBIT_DATA"
)
def test_20news_is_made_of_the_raw_messages(tmp_path, monkeypatch):
    """The same counts as in the stored file, which was made and checked elsewhere."""
    expected = get("20news")
    with tarfile.open(REAL / "20news_bydate_raw.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    messages, targets, names = [], [], None
    for part in sorted(tmp_path.iterdir()):
        loaded = sklearn.datasets.load_files(part, encoding="latin1", shuffle=False)
        messages += loaded.data
        targets += loaded.target.tolist()
        names = loaded.target_names
    bunch = news(messages, targets, names)
    monkeypatch.setattr(sklearn.datasets, "fetch_20newsgroups", lambda **how: bunch)
    monkeypatch.setenv("ONEBIT_DATA", str(tmp_path / "made"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "shared"))
    fetch("20news")
    made = get("20news")
    assert made.X.shape == expected.X.shape and made.labels == expected.labels
    assert np.array_equal(made.X.sum(axis=0), expected.X.sum(axis=0))
    rows = [sorted(zip(d.y, d.X.sum(axis=1).A1, strict=True)) for d in (made, expected)]
    assert rows[0] == rows[1]


def test_what_goes_wrong_is_said_and_nothing_is_written(folder, monkeypatch):
    openml(monkeypatch, np.eye(4), ["0", "1", "2", "3"])
    with pytest.raises(ValueError, match=r"mnist: the download has \(4, 4, 4\) rows"):
        fetch("mnist")

    def no_network(**how):
        raise URLError(OSError("no way"))

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", no_network)
    with pytest.raises(OSError, match=r"mnist could not be downloaded \(no way\); is there a netw"):
        fetch("mnist")
    with pytest.raises(ValueError, match="'vowel' cannot be downloaded; these can: mnist"):
        fetch("vowel")
    monkeypatch.setattr(os, "access", lambda *args: False)
    with pytest.raises(OSError, match="cannot be written; set ONEBIT_DATA"):
        fetch("mnist")
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ValueError, match=r"pip install '\.\[lab\]'"):
        fetch("mnist")
    assert list(folder.iterdir()) == []


def test_every_fetched_set_has_a_maker():
    assert set(fetching._MAKERS) == set(catalogue.FETCHED)


# The command


def main(monkeypatch, capsys, *args):
    monkeypatch.setattr(sys, "argv", ["onebit", *args])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return end.value.code, capsys.readouterr()


def test_list_shows_all_kinds(folder, monkeypatch, capsys):
    folder.mkdir()
    (folder / "mine.svm").write_text("1 1:1\n2 2:1\n")
    np.savez(folder / "vowel.npz", X=np.eye(2), y=[0, 1])
    code, out = main(monkeypatch, capsys, "data", "list")
    lines = {line.split()[0]: line for line in out.out.splitlines() if line.strip()}
    assert code == 0
    assert "built in" in lines["digits"] and "1,797" in lines["digits"]
    assert "can be fetched" in lines["mnist"] and "not here" in lines["rcv1"]
    assert "vowel.npz" in lines["vowel"] and "mine.svm" in lines["mine"]


def test_info_tells_what_is_in_a_set(folder, monkeypatch, capsys):
    folder.mkdir()
    (folder / "mine.svm").write_text("1 1:1\n2 2:1 3:4\n2 1:1\n")
    _, out = main(monkeypatch, capsys, "data", "info", "mine")
    digest = hashlib.sha256((folder / "mine.svm").read_bytes()).hexdigest()
    for words in ("2 (1: 1, 2: 2)", "1.3 a row, 1 to 2", digest, 'onebit.datasets.get("mine")'):
        assert words in out.out
    assert "10,000 (as many" in main(monkeypatch, capsys, "data", "info", "synsep")[1].out
    np.savez(folder / "vowel.npz", X=np.eye(2), y=[0, 1])
    out = main(monkeypatch, capsys, "data", "info", "vowel")[1].out
    assert "not the catalogued file" in out and "label after label: shuffle" in out
    out = main(monkeypatch, capsys, "data", "info", "mnist")[1].out
    assert "mnist.npz is not here" in out and "onebit data fetch mnist" in out
    assert "fetch" not in main(monkeypatch, capsys, "data", "info", "rcv1")[1].out
    code, out = main(monkeypatch, capsys, "data", "info", "mint")
    assert code == 2 and "no data 'mint'" in out.err


def test_fetch_and_info_know_the_checksum(folder, monkeypatch, capsys):
    openml(monkeypatch, np.arange(80).reshape(20, 4), [str(i % 10) for i in range(20)])
    size_is(monkeypatch, "mnist", (20, 4, 10))
    code, out = main(monkeypatch, capsys, "data", "fetch", "mnist")
    assert code == 0 and f"mnist is in {folder / 'mnist.npz'}" in out.out
    assert "as it was fetched" in main(monkeypatch, capsys, "data", "info", "mnist")[1].out
    np.savez(folder / "mnist.npz", X=np.eye(2), y=[0, 1])
    assert "CHANGED" in main(monkeypatch, capsys, "data", "info", "mnist")[1].out


def test_without_a_network_fetch_is_one_line(folder):
    """The real thing: a name that no resolver knows, as on a machine without a network."""
    program = (
        "import socket\n"
        "def no(*args, **more): raise socket.gaierror(-2, 'Name or service not known')\n"
        "socket.getaddrinfo = no\n"
        "import sys; sys.argv = ['onebit', 'data', 'fetch', 'optdigits']\n"
        "from onebit.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    said = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(said) == 1 and "optdigits could not be downloaded" in said[0], done.stderr
    assert str(folder) in said[0] and list(folder.iterdir()) == []


def test_help_shows_examples(monkeypatch, capsys):
    for command in ("list", "info", "fetch"):
        _, out = main(monkeypatch, capsys, "data", command, "--help")
        assert f"onebit data {command}" in out.out
    assert ob.datasets.fetch is fetch
