"""Readers: every format gives the rows that were written, in chunks as in one piece."""

from __future__ import annotations

import bz2
import gzip
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

import onebit as ob
from onebit._jit import COMPILED
from onebit.datasets import blocks, read, stream

BAD = Path(__file__).parent / "bad_files"


def table(rows=60, columns=12, seed=0):
    rng = np.random.default_rng(seed)
    X = sparse.random(rows, columns, 0.3, format="csr", random_state=seed, dtype=np.float32)
    return X, rng.integers(1, 4, rows)


def written(path, X, y, **more):
    dump_svmlight_file(X, y, str(path), zero_based=False, **more)
    return path


# svmlight


@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(
        st.dictionaries(
            st.integers(0, 30), st.floats(-1e30, 1e30, allow_subnormal=False), max_size=5
        ),
        min_size=1,
        max_size=8,
    ),
    zero_based=st.booleans(),
    comment=st.sampled_from([None, "made by\na test"]),
)
def test_svmlight_reads_what_scikit_learn_writes(tmp_path_factory, rows, zero_based, comment):
    X = sparse.lil_matrix((len(rows), 31))
    for i, row in enumerate(rows):
        for j, value in row.items():
            X[i, j] = value
    y = np.arange(len(rows)) * 7 - 7
    path = tmp_path_factory.mktemp("made") / "made.svm"
    dump_svmlight_file(X.tocsr(), y, str(path), zero_based=zero_based, comment=comment)
    expected, labels = load_svmlight_file(str(path), n_features=31, zero_based=zero_based)
    data = read(path, features=31, zero_based=zero_based, dtype=np.float64)
    assert np.array_equal(data.X.toarray(), expected.toarray())
    assert [data.labels[place] for place in data.y] == labels.tolist()


NUMBERS = [
    *(
        "0",
        "-0",
        "+1",
        "1.",
        ".5",
        "-.5e1",
        "1e5",
        "1E-5",
        "1e+22",
        "123456789012345678901234567890",
    ),
    *(
        "0.1",
        "0.30000000000000004",
        "9007199254740993",
        "9007199254740993e-1",
        "1e-300",
        "4.9e-324",
    ),
    *("1.7976931348623157e308", "2.2250738585072011e-308", "0.000000000000000000000000000001"),
    *(
        "17.976931348623157",
        "8.98846567431158e10",
        "99999999999999999e-22",
        "3.4028234663852886e38",
    ),
]


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_are_rounded_as_python_rounds_them(tmp_path, number):
    path = tmp_path / "one.svm"
    path.write_text(f"1 1:{number} 2:1\n")
    assert read(path, dtype=np.float64).X[0, 0] == float(number)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_every_double_is_read_back_to_the_bit(tmp_path_factory, numbers):
    path = tmp_path_factory.mktemp("made") / "made.svm"
    path.write_text("1 " + " ".join(f"{i + 1}:{x!r}" for i, x in enumerate(numbers)))
    data = read(path, dtype=np.float64)
    assert data.X.toarray()[0].tolist() == numbers


def test_blank_lines_comments_and_other_ends_of_lines_are_fine(tmp_path):
    path = tmp_path / "odd.svmlight"
    path.write_bytes(b"# head\r\n\r\n 1\t1:2  3:4 \r\n+2 # nothing here\r\n-3 2:1#close\n\n1 1:1")
    data = read(path)
    assert data.X.toarray().tolist() == [[2, 0, 4], [0, 0, 0], [0, 1, 0], [1, 0, 0]]
    assert data.labels == [-3, 1, 2] and data.y.tolist() == [1, 2, 0, 1]
    assert data.name == "odd" and data.about == "4 rows, 3 features, 3 labels"


def test_packed_text_is_the_same(tmp_path):
    plain = written(tmp_path / "a.svm", *table())
    (tmp_path / "a.svm.gz").write_bytes(gzip.compress(plain.read_bytes()))
    (tmp_path / "a.libsvm.bz2").write_bytes(bz2.compress(plain.read_bytes()))
    one = read(plain)
    for name in ("a.svm.gz", "a.libsvm.bz2"):
        same(read(tmp_path / name), one)
    plain.rename(tmp_path / "a.scale")
    same(read(tmp_path / "a.scale", format="svmlight"), one)


def same(one, two):
    assert one.X.dtype == two.X.dtype and one.X.shape == two.X.shape
    assert (one.X != two.X).nnz == 0
    assert one.y.tolist() == two.y.tolist() and one.labels == two.labels


def test_labels_may_be_declared(tmp_path):
    path = written(tmp_path / "a.svm", *table())
    data = read(path, labels=[3, 1, 9, 2])
    assert data.labels == [3, 1, 9, 2]
    assert [data.labels[place] for place in data.y] == table()[1].tolist()
    assert read(path, labels=["1", "2", "3"]).labels == ["1", "2", "3"]


# Chunks


@pytest.mark.parametrize("block", [64, 500, 2**22])
@pytest.mark.parametrize("rows", [1, 7, 60, 1000])
def test_chunks_are_the_file(tmp_path, monkeypatch, rows, block):
    monkeypatch.setattr(blocks, "_BLOCK", block)
    path = written(tmp_path / "a.svm", *table())
    chunks = list(stream(path, labels=range(1, 4), rows=rows, features=12))
    assert all(len(chunk.y) == rows for chunk in chunks[:-1])
    one = read(path, features=12)
    assert (sparse.vstack([chunk.X for chunk in chunks]) != one.X).nnz == 0
    assert np.concatenate([chunk.y for chunk in chunks]).tolist() == one.y.tolist()


CHANNELS = [(), (ob.Flip(0.1, 0.2), ob.Silence(0.3), ob.LabelNoise(0.1), ob.Rotate(10, 30))]


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("rows", [1, 7, 50])
def test_chunks_run_through_as_all_at_once_bit_for_bit(tmp_path, rows, channel):
    path = written(tmp_path / "a.svm", *table())
    data = read(path)
    one, two, three = (ob.Confidit(labels=data.labels, seed=5) for _ in range(3))
    trace = ob.simulate(one, data, channel=channel)
    told = []
    chunks = stream(path, labels=two.labels, rows=rows)
    in_chunks = ob.simulate(two, chunks, channel=channel, progress=told.append)
    names = np.array(data.labels)[data.y]
    pairs = ((data.X[i : i + rows], names[i : i + rows]) for i in range(0, 60, rows))
    in_pairs = ob.simulate(three, pairs, channel=channel)
    for counts, in_chunk, in_pair in zip(trace, in_chunks, in_pairs, strict=True):
        assert counts.tolist() == in_chunk.tolist() == in_pair.tolist()
    assert np.array_equal(one.weights, two.weights) and np.array_equal(one.weights, three.weights)
    assert one.round == two.round == 60 and told[-1] == 60 and told == sorted(told)


def test_check_points_count_from_the_first_chunk(tmp_path):
    path = written(tmp_path / "a.svm", *table())

    def run(rows, points):
        learner = ob.Banditron(labels=[1, 2, 3])
        return ob.simulate(
            learner, stream(path, labels=learner.labels, rows=rows), checkpoints=points
        )

    assert run(7, [3, 14, 15, 33]).rounds.tolist() == [3, 14, 15, 33, 60]
    assert run(7, [3, 60]).rounds.tolist() == [3, 60]
    assert run(7, [3, 99]).rounds.tolist() == [3, 60]  # the end was not known
    assert run(7, [3, 60]).mistakes.tolist() == run(100, [3, 60]).mistakes.tolist()


def test_what_cannot_be_done_in_chunks_is_refused_before_anything_is_learned():
    learner = ob.Banditron(2)
    chunks = [(np.eye(2), [0, 1])]
    for wrong, says in [
        ({"channel": [ob.Delay(3)]}, "Delay does not reach"),
        ({"epochs": 2}, "come once"),
        ({"order": "shuffled"}, "come once"),
        ({"order": [0]}, "come once"),
        ({"checkpoints": [2, 2]}, "checkpoints must rise"),
    ]:
        with pytest.raises(ValueError, match=says):
            ob.simulate(learner, chunks, **wrong)
    with pytest.raises(TypeError, match="a chunk is"):
        ob.simulate(learner, np.eye(2))
    assert learner.round == 0
    assert len(ob.simulate(learner, []).rounds) == 0
    assert ob.simulate(learner, [(np.empty((0, 2)), []), *chunks]).rounds.tolist() == [1, 2]


def test_labels_of_data_must_be_the_learners():
    with pytest.raises(ValueError, match="make the learner with the labels of the data"):
        ob.simulate(ob.Banditron(["a", "b"]), ob.datasets.digits())
    data = ob.datasets.digits()
    one, two = ob.Perceptron(10), ob.Perceptron(list(range(9, -1, -1)))  # in another order
    for learner in (one, two):
        ob.simulate(learner, data, order="shuffled", epochs=2)
    assert one.round == two.round == 2 * 1797
    assert np.mean(two.predict(data.X) == data.y) > 0.9


def test_rows_before_a_bad_chunk_are_learned_and_the_bad_chunk_is_not(tmp_path, monkeypatch):
    path = tmp_path / "late.svm"
    path.write_text("1 1:1\n2 2:1\n" * 4 + "1 x:1\n")
    learner = ob.Banditron(labels=[1, 2])
    monkeypatch.setattr(blocks, "_BLOCK", 16)
    with pytest.raises(ValueError, match="line 9"):
        ob.simulate(learner, stream(path, labels=[1, 2], rows=3))
    assert learner.round == 6


def test_wrong_requests_are_named(tmp_path):
    path = written(tmp_path / "a.svm", *table())
    with pytest.raises(FileNotFoundError):
        stream(tmp_path / "missing.svm", labels=2)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "missing.svm")
    with pytest.raises(ValueError, match="rows must be"):
        stream(path, labels=2, rows=0)
    with pytest.raises(ValueError, match="features must be"):
        read(path, features=0)
    with pytest.raises(ValueError, match="format must be one of"):
        read(path, format="arff")
    with pytest.raises(ValueError, match="dtype must be one of"):
        read(path, dtype=np.int32)


def test_npz_streams_too(tmp_path):
    X, y = table()
    np.savez(tmp_path / "a.npz", X=X.toarray(), y=y)
    whole = read(tmp_path / "a.npz", labels=[1, 2, 3])
    parts = list(stream(tmp_path / "a.npz", labels=[1, 2, 3], rows=25))
    assert [len(part.y) for part in parts] == [25, 25, 10]
    assert np.array_equal(np.vstack([part.X for part in parts]), whole.X)
    with pytest.raises(ValueError, match=r"line \d+: label 3 was never declared"):
        read(tmp_path / "a.npz", labels=[1, 2])


# Bad files: one sin each. What must be said: the file, the line, and what to do.

SINS = [
    ("letter.svm", 2, "'4:o.5' has no finite number", "mend it"),
    ("nan.svm", 2, "'4:nan' has no finite number", "mend it"),
    ("cut_row.svm", 3, "'7' is not index:value", "is the row cut"),
    ("wrong_header.svm", 1, "'label' is not a label", "whole number"),
    ("half_label.svm", 2, "'1.5' is not a label", "whole number"),
    ("index_0.svm", 2, "index '0:1', but indices count from 1", "zero_based=True"),
    ("huge_index.svm", 2, "'1000000000000:1' is beyond the 16777216", "features="),
    ("falling_index.svm", 2, "'3:1' comes after a larger index", "sort the row"),
    ("repeated_index.svm", 2, "'3:2' repeats an index", "add its values up"),
    ("undeclared_label.svm", 3, "label 7 was never declared", "labels="),
    ("huge_value.svm", 2, "1e+39 is too large for float32", "scale"),
    ("empty.svm", 1, "no rows", "written to its end"),
    ("only_comments.svm", 1, "no rows", "written to its end"),
    ("cut_short.svm.gz", 1, "cut short", "again"),
    ("not_gz.svm.gz", 1, "damaged", "again"),
    ("garbage.svm.bz2", 1, "damaged", "again"),
    ("binary.svm", 1, "is not a label", "whole number"),
    ("unknown_ending.arff", None, "no format has the ending '.arff'", "format="),
    ("wrong_header.npz", None, "not an npz file", "plain arrays"),
]


@pytest.mark.parametrize(("name", "line", "says", "remedy"), SINS)
@pytest.mark.parametrize("way", [read, stream])
def test_a_bad_file_is_refused_with_line_and_remedy(name, line, says, remedy, way):
    with pytest.raises(ValueError, match=re.escape(name)) as caught:
        list(way(BAD / name, labels=[1, 2]))
    message = str(caught.value)
    assert name in message and says in message and remedy in message, message
    assert "\n" not in message and (line is None or f"line {line}:" in message)


def test_every_bad_file_is_in_the_table():
    assert {path.name for path in BAD.iterdir()} == {sin[0] for sin in SINS} | {"README.md"}


def test_a_line_that_never_ends_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "_BLOCK", 16)
    monkeypatch.setattr(blocks, "_LONGEST_LINE", 64)
    (tmp_path / "long.svm").write_text("1 " * 1000)
    with pytest.raises(ValueError, match="line 1: longer than 64 bytes"):
        read(tmp_path / "long.svm")


# Size

_BIG = """
import resource, sys
import onebit as ob
path, rows = sys.argv[1], int(sys.argv[2])
def run(rows):
    learner = ob.Banditron(labels=5)
    return ob.simulate(learner, ob.datasets.stream(path, labels=5))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
trace = run(rows)
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(trace.rounds[-1], grown)
"""


@pytest.mark.slow
@pytest.mark.skipif(not COMPILED, reason="five million rows want the compiler")
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory in KiB")
def test_five_million_rows_stream_through_in_500_megabytes(tmp_path):
    path, rows = tmp_path / "big.svm", 5_000_000
    X = sparse.random(10_000, 20_000, 10 / 20_000, format="csr", random_state=0)
    X.data = np.round(X.data, 4)
    part = written(tmp_path / "part.svm", X, np.arange(10_000) % 5).read_bytes()
    try:
        with open(path, "wb") as file:
            for _ in range(rows // 10_000):
                file.write(part)
        done = subprocess.run(
            [sys.executable, "-c", _BIG, str(path), str(rows)],
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
    finally:
        path.unlink(missing_ok=True)
    rounds, grown = map(int, done.stdout.split())
    assert rounds == rows
    assert grown * 1024 < 500e6, f"{grown / 1024:.0f} MiB"
