"""Readers: every format gives the rows that were written, in chunks as in one piece."""

from __future__ import annotations

import bz2
import contextlib
import csv
import datetime
import gzip
import math
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from helpers.waiting import LONG
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.preprocessing import normalize

import onebit as ob
from onebit.core.jit import COMPILED
from onebit.core.settings import command_line
from onebit.datasets import blocks, columns, read, stream
from onebit.reading.contexts import encode_rows

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
        "9007199254740993.0",  # half way between two doubles
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


DELAYS = st.one_of(
    st.integers(0, 70).map(ob.Delay),
    st.floats(0.1, 20).map(lambda mean: ob.Delay(mean=mean)),
    st.lists(st.integers(0, 70), min_size=1, max_size=9).map(
        lambda given: ob.Delay(given=np.resize(given, 60))
    ),
)


@settings(max_examples=60 if COMPILED else 15, deadline=None)
@given(
    delay=DELAYS,
    cuts=st.lists(st.integers(0, 60), max_size=12),
    more=st.sampled_from([[], [ob.Silence(0.3), ob.Rotate(5, 30)]]),
    make=st.sampled_from([ob.UCWL, ob.PNewtron, ob.AROW]),
)
def test_late_feedback_reaches_from_chunk_to_chunk_bit_for_bit(delay, cuts, more, make):
    X, y = table(columns=30)
    channel = [*more, delay]
    one, two = (make(labels=[1, 2, 3], seed=7) for _ in range(2))
    ob.simulate(one, X[:5], y[:5])  # not from the first round
    ob.simulate(two, X[:5], y[:5])
    trace = ob.simulate(one, X, y, channel=channel, checkpoints=range(1, 61))
    ends = sorted({0, 60, *cuts})
    chunks = ((X[a:b], y[a:b]) for a, b in pairwise(ends))
    in_chunks = ob.simulate(two, chunks, channel=channel, checkpoints=range(1, 61))
    for counts, in_chunk in zip(trace, in_chunks, strict=True):
        assert counts.tolist() == in_chunk.tolist()
    assert np.array_equal(one.weights, two.weights) and one.round == two.round == 65


def test_chunks_that_grow_wider_keep_what_is_late():
    """The rows that wait are narrower than those that come."""
    X, y = table(columns=30)
    dense = X.toarray()
    dense[:30, 15:] = 0
    rows = sparse.csr_matrix(dense)
    one, two = ob.Banditron(labels=[1, 2, 3]), ob.Banditron(labels=[1, 2, 3])
    ob.simulate(one, dense, y, channel=[ob.Delay(20)])
    parts = [(rows[:30, :15], y[:30]), (np.empty((0, 30)), []), (rows[30:], y[30:])]
    ob.simulate(two, iter(parts), channel=[ob.Delay(20)])
    assert np.array_equal(one.weights, two.weights)


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


def test_rows_want_one_label_and_categories_a_list(tmp_path):
    path = tmp_path / "a.vw"
    path.write_text("1 1 3 | a\n")
    with pytest.raises(ValueError, match=r"line 1: '3' stands before the \|; one label a row"):
        read(path)
    with pytest.raises(TypeError, match=r"list of columns: \['zip'\]"):
        read(path, categories="zip")
    (tmp_path / "a.svm").write_text("1 1:1e+\n")
    with pytest.raises(ValueError, match=r"'1:1e\+' has no finite number"):
        read(tmp_path / "a.svm")


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


def csr_parts(X):
    return {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("kind", ["dense", "images", "by columns", "sparse"])
@pytest.mark.parametrize("rows", [1, 7, 60, 1000])
def test_npz_is_the_same_in_chunks_packed_or_not(tmp_path, save, kind, rows):
    X, y = table()
    fields = csr_parts(X) if kind == "sparse" else {"X": X.toarray()}
    if kind == "images":
        fields["X"] = fields["X"].reshape(60, 3, 2, 2)
    elif kind == "by columns":
        fields["X"] = np.asfortranarray(fields["X"])
    path = tmp_path / "a.npz"
    save(path, y=(y - 1).astype(np.uint8), classes=["a", "b", "c"], **fields)
    one = read(path)
    chunks = list(stream(path, labels=one.labels, rows=rows))
    assert all(len(chunk.y) == rows for chunk in chunks[:-1])
    assert all(sparse.issparse(chunk.X) == (kind == "sparse") for chunk in chunks)
    both = sparse.vstack([sparse.csr_matrix(chunk.X) for chunk in chunks])
    assert both.shape == one.X.shape and (both != sparse.csr_matrix(one.X)).nnz == 0
    assert np.concatenate([chunk.y for chunk in chunks]).tolist() == one.y.tolist()
    assert [chunk.labels for chunk in chunks] == [["a", "b", "c"]] * len(chunks)


def test_bad_npz_files_are_refused_in_chunks_too(tmp_path):
    path, X = tmp_path / "a.npz", np.arange(60.0).reshape(20, 3)
    for fields, says in [
        ({"X": X}, "needs y"),
        ({"y": np.arange(20)}, "needs X, or data"),
        ({"X": X, "y": np.arange(19)}, "one label for each of 20 rows"),
        ({"X": np.arange(20), "y": np.arange(20)}, r"not of shape \(20,\)"),
        ({"X": np.array([None]), "y": [0]}, "not an npz file of plain arrays"),
    ]:
        np.savez(path, **fields)
        with pytest.raises(ValueError, match=says):
            stream(path, labels=2)
    with pytest.raises(FileNotFoundError):
        stream(tmp_path / "missing.npz", labels=2)
    np.savez(path, X=X, y=np.arange(20) % 3, classes=["a", "b"])
    with pytest.raises(ValueError, match="row 3 has no name among the 2 classes"):
        list(stream(path, labels=["a", "b"], rows=2))
    X = np.arange(6000.0).reshape(2000, 3)
    np.savez(path, X=X, y=np.arange(2000) % 2)
    whole = bytearray(path.read_bytes())
    whole[whole.index(X[1000].tobytes())] ^= 1
    path.write_bytes(whole)
    with pytest.raises(ValueError, match=r"line 1501: the data are damaged here or after it"):
        list(stream(path, labels=2, rows=500))
    sparse_rows, _ = table()
    parts = csr_parts(sparse_rows)
    np.savez(path, **{**parts, "indptr": parts["indptr"][::-1]}, y=np.arange(60) % 2)
    with pytest.raises(ValueError, match="line 1: the data are damaged"):
        list(stream(path, labels=2))


# Vowpal Wabbit


def test_vowpal_wabbit_rows_are_those_of_dicts(tmp_path):
    path = tmp_path / "a.vw"
    path.write_text(
        "sport 2.0 'first|text goal:2 match goal |place:0.5 home:3\n"
        "\n"
        "tech |text chip:-1e-1 | http://x:80:2\n"
        "tech 1 tag| \n"
    )
    data = read(path)
    rows = [{"text^goal": 3, "text^match": 1, "place^home": 1.5}]
    rows += [{"text^chip": -0.1, "http://x:80": 2}, {}]
    learner = ob.UCWL(labels=data.labels)
    assert data.X.shape == (3, 2**20) and data.labels == ["sport", "tech"]
    assert data.y.tolist() == [0, 1, 1]
    one, two = ob.simulate(learner, data), ob.UCWL(labels=data.labels)
    ob.simulate(two, rows, ["sport", "tech", "tech"])
    assert np.array_equal(learner.weights, two.weights) and one.rounds[-1] == 3
    assert read(path, features=64).X.shape == (3, 64)


NAMES = st.text(st.characters(codec="utf-8"), max_size=4)


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(st.dictionaries(NAMES, st.floats(-1e9, 1e9), max_size=12), max_size=5),
    width=st.sampled_from([1, 3, 2**20]),
)
def test_names_are_hashed_as_those_of_dicts_bit_for_bit(rows, width):
    dtype = np.dtype(np.float32)
    options = blocks.Options("x", features=width, dtype=dtype)
    one = encode_rows(columns.hashed(rows, range(len(rows)), options), dtype, width)
    two = encode_rows(rows, dtype, width)
    assert one.indices.tolist() == two.indices.tolist()
    assert one.values.tobytes() == two.values.tobytes()
    assert one.indptr.tolist() == two.indptr.tolist()


def test_labels_that_are_whole_numbers_are_ints(tmp_path):
    path = tmp_path / "a.vw"
    path.write_text("10 | a\n9 | b\n9.0 | c\n+9 | d\n")
    data = read(path)
    assert data.labels == [9, 10] and data.y.tolist() == [1, 0, 0, 0]
    assert read(path, labels=range(8, 12)).y.tolist() == [2, 1, 1, 1]
    with pytest.raises(ValueError, match=r"line 2: label '9' was never declared"):
        read(path, labels=["10", "11"])


def test_labels_too_large_for_a_double_stay_apart(tmp_path):
    path = tmp_path / "ids.csv"
    path.write_text("a,label\n1,9007199254740992\n2,9007199254740993\n")
    data = read(path)
    assert data.labels == ["9007199254740992", "9007199254740993"] and data.y.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("written", "labels"),
    [
        (["01", "1", "2"], ["01", "1", "2"]),
        (["1_0", "10"], ["10", "1_0"]),
        (["1", "1.0"], ["1", "1.0"]),
        (["+1", "1"], ["+1", "1"]),
        (["+1", "-1"], [-1, 1]),
        (["１", "2"], ["2", "１"]),
        (["0.0", "-0.0"], ["-0.0", "0.0"]),
        (["1e1", "2"], ["1e1", "2"]),
        (["10", "9", "-3", "0"], [-3, 0, 9, 10]),
        (["10.0", "9.0"], [9, 10]),  # a column of floats
    ],
)
def test_labels_are_ints_only_if_none_is_merged_or_written_in_another_way(
    tmp_path, written, labels
):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": [float(i) for i in range(len(written))], "label": written})
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        data = read(tmp_path / name)
        assert data.labels == labels
        as_written = [labels.index(int(float(k)) if type(labels[0]) is int else k) for k in written]
        assert data.y.tolist() == as_written
        again = read(tmp_path / name, labels=data.labels)
        assert again.labels == labels and again.y.tolist() == as_written


def test_a_label_is_a_declared_number_only_if_it_is_written_so(tmp_path):
    (tmp_path / "t.csv").write_text("a,label\n1,1\n2,01\n")
    with pytest.raises(ValueError, match="line 3: label '01' was never declared"):
        read(tmp_path / "t.csv", labels=[1, 2])
    classes = np.array(["01", "1"])
    np.savez(tmp_path / "t.npz", X=np.eye(2), y=np.arange(2), classes=classes)
    assert read(tmp_path / "t.npz").labels == ["01", "1"]


def test_whole_floats_of_parquet_are_ints_as_labels(tmp_path):
    polars = pytest.importorskip("polars")
    path = tmp_path / "t.parquet"
    polars.DataFrame({"a": [1, 2, 3], "label": [10.0, 9.0, 9.0]}).write_parquet(path)
    assert read(path).labels == [9, 10] and read(path).y.tolist() == [1, 0, 0]
    polars.DataFrame({"a": [1, 2, 3], "label": [1.0, 1.5, 1.5]}).write_parquet(path)
    assert read(path).labels == ["1.0", "1.5"]


# Tables

CSV = """\ufeffheight,colour,zip,review,label
1.5,red,010,"Good, good film",yes
-2,blue,020,"not a
good film",no

3e1,red,010,,yes
"""


@pytest.fixture
def csv_file(tmp_path):
    path = tmp_path / "films.csv"
    path.write_text(CSV, encoding="utf-8")
    return path


def rows_of(dicts, **settings):
    """The matrix of what learners make of these dicts."""
    rows = encode_rows(dicts, np.dtype("float32"), settings.get("features", 2**20))
    width = settings.get("features", 2**20)
    return sparse.csr_matrix((rows.values, rows.indices, rows.indptr), (len(dicts), width))


def test_a_table_with_names_gives_the_rows_that_its_dicts_give(csv_file):
    data = read(csv_file, categories=["zip"])
    dicts = [
        {"height": 1.5, "colour": "red", "zip": "010", "review": "Good, good film"},
        {"height": -2, "colour": "blue", "zip": "020", "review": "not a\ngood film"},
        {"height": 30.0, "colour": "red", "zip": "010", "review": None},
    ]
    assert data.X.shape == (3, 2**20) and (rows_of(dicts) != data.X).nnz == 0
    assert data.labels == ["no", "yes"] and data.y.tolist() == [1, 0, 1]
    as_numbers = [{**row, "zip": int(row["zip"])} for row in dicts]
    narrow = read(csv_file, features=300)
    assert (rows_of(as_numbers, features=300) != narrow.X).nnz == 0


def test_a_learner_taught_from_a_file_understands_the_row_as_a_dict(csv_file):
    data = read(csv_file)
    learner = ob.UCWL(labels=data.labels)
    ob.simulate(learner, data, epochs=20)
    row = {"height": -2, "colour": "blue", "zip": 20, "review": "not a\ngood film"}
    assert learner.predict([row]).tolist() == ["no"]
    assert learner.scores([row]).tolist() == learner.scores(data.X[1]).tolist()


def test_a_named_text_is_a_text_and_a_named_category_a_category(csv_file):
    data = read(csv_file, text="colour", categories=["zip", "review"])
    dicts = [
        {"height": 1.5, "colour=red": 1, "zip=010": 1, "review=Good, good film": 1},
        {"height": -2, "colour=blue": 1, "zip=020": 1, "review=not a\ngood film": 1},
        {"height": 30, "colour=red": 1, "zip=010": 1, "review=": 1},
    ]
    expected = FeatureHasher(2**20, dtype=np.float32).transform(dicts)
    assert (expected != data.X).nnz == 0


@pytest.mark.parametrize("ngrams", [1, 2, 3])
def test_words_are_those_of_scikit_learn(csv_file, ngrams):
    data = read(csv_file, text="review", ngrams=ngrams, features=2**18, label="colour")
    words = CountVectorizer(ngram_range=(1, ngrams), token_pattern=r"\w+")
    counts = words.fit_transform(["Good, good film", "not a\ngood film", ""])
    names = words.get_feature_names_out()
    shares = [1 / len(name.split()) for name in names]  # a sequence of n words counts 1 / n
    counts = normalize(counts.astype(np.float64).log1p().multiply(shares))
    names = [f"review={name}" for name in names]
    beside = [
        {"label": "yes", "height": 1.5, "zip": 10},
        {"label": "no", "height": -2, "zip": 20},
        {"label": "yes", "height": 30, "zip": 10, "review=": 1},  # it has no words
    ]
    rows = [
        dict(zip(names, row, strict=True)) | numbers
        for row, numbers in zip(counts.toarray().tolist(), beside, strict=True)
    ]
    expected = FeatureHasher(2**18).transform(rows)
    assert abs(data.X - expected).max() < 1e-7


def test_a_row_of_a_table_of_numbers_is_the_row_as_a_list(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 3)).round(2), rng.integers(0, 3, 30)
    lines = [",".join(map(str, [*row, label])) for row, label in zip(X.tolist(), y, strict=True)]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["a,b,c,label", *lines]))
    whole, chunks, rounds = (ob.OneBit(3) for _ in range(3))
    ob.simulate(whole, read(path))
    ob.simulate(chunks, stream(path, labels=3, rows=7))
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        decision = rounds.decide(row)
        rounds.learn(decision, right=decision.label == label)
    assert np.array_equal(whole.scores(X), rounds.scores(X))
    assert np.array_equal(whole.scores(X), chunks.scores(X))


def test_a_very_wide_table_of_numbers_is_sparse(tmp_path):
    names = [f"f{j}" for j in range(5000)]
    path = tmp_path / "wide.csv"
    path.write_text("\n".join([",".join([*names, "label"]), ",".join([*["0"] * 4999, "2", "1"])]))
    assert sparse.issparse(read(path).X) and read(path).X.nnz == 1


def test_a_table_of_numbers_stays_as_narrow(tmp_path):
    (tmp_path / "a.tsv").write_text("x\tlabel\ty\n1\t5\t0\n2\t6\t3\n")
    data = read(tmp_path / "a.tsv")
    assert data.X.tolist() == [[1, 0], [2, 3]] and data.labels == [5, 6]
    (tmp_path / "big.csv").write_text("x,label\n1,1\n1e39,2\n")
    with pytest.raises(ValueError, match=r"line 3: 1e\+39 is too large for float32"):
        read(tmp_path / "big.csv", dtype=np.float32)
    assert read(tmp_path / "big.csv").X[1, 0] == 1e39


@pytest.mark.parametrize("module", ["csv_files", "vowpal", "parquet"])
def test_every_format_streams_as_it_reads(tmp_path, monkeypatch, module):
    monkeypatch.setattr(f"onebit.datasets.{module}._ROWS", 4)
    rng = np.random.default_rng(0)
    numbers, words, y = rng.normal(size=23), rng.choice(["a", "b", "c"], 23), np.arange(23) % 2
    rows = list(zip(numbers.tolist(), words.tolist(), y.tolist(), strict=True))
    if module == "parquet":
        polars = pytest.importorskip("polars")
        path = tmp_path / "a.parquet"
        polars.DataFrame({"n": numbers, "w": words, "label": y}).write_parquet(path)
    elif module == "vowpal":
        path = tmp_path / "a.vw.gz"
        text = "".join(f"{label} |n {word}:{number}\n" for number, word, label in rows)
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path = tmp_path / "a.csv.bz2"
        text = "n,w,label\n" + "".join(f"{n!r},{w},{label}\n" for n, w, label in rows)
        path.write_bytes(bz2.compress(text.encode()))
    whole = read(path)
    chunks = list(stream(path, labels=2, rows=5))
    assert [len(chunk.y) for chunk in chunks] == [5, 5, 5, 5, 3]
    assert (sparse.vstack([chunk.X for chunk in chunks]) != whole.X).nnz == 0
    assert np.concatenate([chunk.y for chunk in chunks]).tolist() == whole.y.tolist() == y.tolist()


def test_parquet_and_csv_of_one_table_are_one(csv_file, tmp_path):
    polars = pytest.importorskip("polars")
    table = {
        "height": [1.5, -2.0, 30.0],
        "colour": ["red", "blue", "red"],
        "zip": ["010", "020", "010"],
        "review": ["Good, good film", "not a\ngood film", ""],
        "label": ["yes", "no", "yes"],
    }
    polars.DataFrame(table).write_parquet(tmp_path / "films.parquet")
    more = {"text": "review", "ngrams": 2}
    one = read(tmp_path / "films.parquet", **more)
    same(one, read(csv_file, categories=["zip"], **more))
    table["height"][1] = np.inf
    polars.DataFrame(table).write_parquet(tmp_path / "films.parquet")
    with pytest.raises(ValueError, match="line 2: inf in column 'height' is not finite"):
        read(tmp_path / "films.parquet")


@pytest.mark.parametrize(
    "column",
    [["2020_01", "2020_02", "2020_01"], ["１２", "１３", "１２"], ["١", "٢", "١"]],
)
def test_what_only_python_takes_for_a_number_is_a_name(tmp_path, column):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"month": column, "age": [1, 2, 3], "label": ["a", "b", "a"]})
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    data = read(tmp_path / "t.csv")
    same(data, read(tmp_path / "t.parquet"))
    dicts = [{"month": month, "age": age} for month, age in zip(column, [1, 2, 3], strict=True)]
    assert (rows_of(dicts) != data.X).nnz == 0
    (tmp_path / "t.csv").write_text(f"n,label\n1,a\n{column[0]},b\n", encoding="utf-8")
    with pytest.raises(ValueError, match=f"line 3: '{column[0]}' in column 'n' is not a number"):
        read(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text("n,label\n 1\N{NO-BREAK SPACE},a\n2,b\n", encoding="utf-8")
    assert read(tmp_path / "t.csv").X.tolist() == [[1], [2]]  # white space is none of its signs


@pytest.mark.parametrize("before", ["", "NA,a\n,b\n"])
def test_an_unknown_mark_in_the_first_row_does_not_make_names_of_numbers(tmp_path, before):
    path, rows = tmp_path / "t.csv", "".join(f"{i},a\n{i},b\n" for i in range(20))
    path.write_text("n,label\n" + before + "-,a\n" + rows + "-,b\n")
    says = f"line {2 + before.count('a') * 2}: '-' in column 'n' is not a number, but values after"
    with pytest.raises(ValueError, match=f"{says}.* leave it empty .*categories=\\['n'\\]"):
        read(path)
    with pytest.raises(ValueError, match=says):
        next(stream(path, labels=["a", "b"]))
    assert read(path, categories=["n"]).X.shape == (len(path.read_text().split()) - 1, 2**20)
    path.write_text("n,label\n-,a\n12,a\n12a,b\n13,b\n")  # names, of which some are digits
    dicts = [{"n": name} for name in ("-", "12", "12a", "13")]
    assert (rows_of(dicts) != read(path).X).nnz == 0


@pytest.mark.parametrize(
    ("values", "kind", "remedy"),
    [
        ([[0.1, 0.2], [0.3, 0.4]], "List(Float64)", "give each of its numbers a column of its own"),
        ([{"a": 1}, {"a": 2}], "Struct({'a': Int64})", "give each of its numbers a column"),
        ([b"x", b"y"], "Binary", "decode it to strings"),
    ],
)
def test_columns_of_lists_structs_and_bytes_are_refused(tmp_path, values, kind, remedy):
    polars = pytest.importorskip("polars")
    path = tmp_path / "t.parquet"
    polars.DataFrame({"n": [1, 2], "seen": values, "label": ["a", "b"]}).write_parquet(path)
    for way in (read, stream):
        with pytest.raises(ValueError, match="column 'seen' is of type") as caught:
            list(way(path, labels=["a", "b"]))
        assert kind in str(caught.value) and remedy in str(caught.value)
    with pytest.raises(TypeError, match="feature 'seen' must be a number or a string"):
        ob.OneBit(["a", "b"]).decide({"n": 1, "seen": values[0]})  # as in a dict


def test_dates_and_times_of_parquet_are_their_strings(tmp_path):
    polars = pytest.importorskip("polars")
    day = datetime.datetime(2026, 11, 18, 9, 30)
    row = {"day": day.date(), "at": day, "time": day.time(), "after": day - day}
    frame = polars.DataFrame([{**row, "label": "a"}, {**row, "label": "b"}])
    frame.write_parquet(tmp_path / "t.parquet")
    strings = {name: str(value) for name, value in row.items()}
    polars.DataFrame([{**strings, "label": k} for k in "ab"]).write_csv(tmp_path / "t.csv")
    same(read(tmp_path / "t.parquet"), read(tmp_path / "t.csv"))
    assert (rows_of([strings] * 2) != read(tmp_path / "t.csv").X).nnz == 0


# Missing values

GAPS = """\
age,colour,note,label
,,good film,yes
31,red,,no
 NA ,blue,bad,no
NaN,,nan,yes
"""


def test_a_missing_number_is_absent_and_a_missing_name_is_a_name(tmp_path):
    path = tmp_path / "gaps.csv"
    path.write_text(GAPS)
    data = read(path, text="note")
    pair = 1 / 3  # two words and their pair: 2/3, 2/3, 1/3
    names = [
        {"colour": "", "note=good": 2 * pair, "note=film": 2 * pair, "note=good film": pair},
        {"age": 31, "colour": "red", "note": ""},
        {"colour": "blue", "note=bad": 1},
        {"colour": "", "note=nan": 1},
    ]
    assert abs(data.X - FeatureHasher(2**20).transform(names)).max() < 1e-7
    nan = math.nan  # numbers, though the first is missing
    dicts = [
        {"age": nan, "colour": None, "note": "good film"},
        {"age": 31, "colour": "red", "note": None},
        {"age": nan, "colour": "blue", "note": "bad"},
        {"age": nan, "colour": None, "note": "nan"},
    ]
    assert (rows_of(dicts) != read(path).X).nnz == 0
    path.write_text("a,b,label\n,NA,1\n,?,2\n")  # nothing in them: taken for numbers
    assert read(path).X.shape == (2, 2) and np.isnan(read(path).X).all()
    path.write_text("a,label\n?,1\n1,2\nx,1\n")
    with pytest.raises(ValueError, match=r"line 4: 'x' in column 'a' is not a number"):
        read(path)


def test_truth_values_are_numbers_in_every_format(tmp_path):
    polars = pytest.importorskip("polars")
    flags, ages = [True, False, None, True], [3.0, 4.5, 6.0, 1.0]
    table = {"flag": flags, "body": ["two words"] * 4, "age": ages, "label": [*"abab"]}
    polars.DataFrame(table).write_parquet(tmp_path / "t.parquet")
    spellings = ["True", "false", "", "TRUE"]
    rows = [
        f"{flag},two words,{age},{k}" for flag, age, k in zip(spellings, ages, "abab", strict=True)
    ]
    (tmp_path / "t.csv").write_text("\n".join(["flag,body,age,label", *rows]) + "\n")
    dicts = [
        {"flag": math.nan if flag is None else flag, "body": "two words", "age": age}
        for flag, age in zip(flags, ages, strict=True)
    ]
    learner = ob.OneBit(["a", "b"])
    forms = [
        learner.reader.encoded(ob.datasets.read(tmp_path / name).X, learner)
        for name in ("t.csv", "t.parquet")
    ]
    for rows in forms:
        for made, wanted in zip(rows[:3], learner.reader.encoded(dicts, learner)[:3], strict=True):
            assert np.array_equal(made, wanted)
    (tmp_path / "n.csv").write_text("flag,age,label\ntrue,1,a\nfalse,2,b\n")
    assert ob.datasets.read(tmp_path / "n.csv").X.tolist() == [[1, 1], [0, 2]]
    (tmp_path / "names.csv").write_text("flag,age,label\ntrue,1,a\nperhaps,2,b\n")
    names = ob.datasets.read(tmp_path / "names.csv").X
    as_dicts = [{"flag": "true", "age": 1}, {"flag": "perhaps", "age": 2}]
    assert np.array_equal(learner.scores(names), learner.scores(as_dicts))
    assert names.nnz == 4


def test_what_is_missing_in_parquet_is_as_in_csv(tmp_path):
    polars = pytest.importorskip("polars")
    (tmp_path / "gaps.csv").write_text(GAPS)
    table = {
        "age": [float("nan"), 31.0, None, None],
        "colour": [None, "red", "blue", None],
        "note": ["good film", None, "bad", "nan"],
        "label": ["yes", "no", "no", "yes"],
    }
    path = tmp_path / "gaps.parquet"
    polars.DataFrame(table).write_parquet(path)
    same(read(path, text="note"), read(tmp_path / "gaps.csv", text="note"))
    whole = {"n": [1, None, 3], "flag": [True, None, False], "label": [1, 2, 1]}
    polars.DataFrame(whole).write_parquet(path)
    assert np.array_equal(read(path).X, [[1, 1], [math.nan] * 2, [3, 0]], equal_nan=True)
    polars.DataFrame({"n": [1, 2], "label": [0.0, float("nan")]}).write_parquet(path)
    with pytest.raises(ValueError, match="line 2: the row has no label; give it one"):
        read(path)


def test_the_delimiter_and_the_encoding_may_be_named(tmp_path):
    text = "höhe;label\n1,5;groß\n"
    path = tmp_path / "german.csv"
    for encoding in ("cp1252", "utf-16", "utf-8-sig", "UTF8"):
        path.write_text(text, encoding=encoding)
        data = read(path, delimiter=";", encoding=encoding, categories=["höhe"])
        assert data.labels == ["groß"] and data.X.shape == (1, 2**20)
        hashed = FeatureHasher(2**20, dtype=np.float32).transform([{"höhe": "1,5"}])
        assert (hashed != data.X).nnz == 0
    (tmp_path / "a.vw.gz").write_bytes(gzip.compress("groß | höhe".encode("latin-1")))
    assert read(tmp_path / "a.vw.gz", encoding="latin-1").labels == ["groß"]
    path.write_bytes("a,label\n1,x\nü,y\n".encode("utf-16")[:-1])
    with pytest.raises(ValueError, match="line 3: not text in utf-16; name the encoding"):
        read(path, encoding="utf-16")
    path.write_bytes(b"a,label\n1,x\n\x81,y\n")
    with pytest.raises(ValueError, match="line 3: not text in cp1252"):
        read(path, encoding="cp1252")
    with pytest.raises(ValueError, match="unknown encoding 'latn'; use utf-8"):
        read(path, encoding="latn")
    with pytest.raises(ValueError, match="unknown encoding 'base64'"):
        read(path, encoding="base64")
    for wrong in ("", ", ", '"', "\n"):
        with pytest.raises(ValueError, match="delimiter must be one character"):
            read(path, delimiter=wrong)


@pytest.mark.parametrize("number", ["1,5", "-1,5", "+,5", " 1,5 ", "1.234,5", "1,5e-3", "1,000"])
def test_numbers_with_a_decimal_comma_are_no_names(tmp_path, number):
    path = tmp_path / "german.csv"
    path.write_text(f"name;size;note;label\n3,x;;1,5;2,5\n1,5;{number};3,5;4,5\n")
    with pytest.raises(ValueError, match=r"line 3: .*1?,.* in column 'size' looks like a number"):
        read(path, delimiter=";", text="note")
    with command_line(), pytest.raises(ValueError, match=r"decimal point, .* --categories size"):
        list(stream(path, labels=["2,5", "4,5"], delimiter=";", text="note"))
    data = read(path, delimiter=";", text="note", categories=["size"])
    assert data.labels == ["2,5", "4,5"]  # labels are names


def test_long_fields_are_read_and_longer_ones_refused_with_the_limit(tmp_path, monkeypatch):
    path = tmp_path / "long.csv"
    path.write_text("body,label\n" + "word " * 50_000 + ",x\nother,y\n")
    data = read(path, text="body")
    values = np.log1p([49_999, 50_000]) * [0.5, 1]  # of "word word" and "word"
    assert sorted(abs(data.X[0].data)) == pytest.approx(values / np.linalg.norm(values))
    monkeypatch.setattr("onebit.datasets.csv_files._LONGEST_FIELD", 300_000)
    before = csv.field_size_limit(1000)
    try:
        path.write_text("body,label\nshort,x\n" + "word " * 70_000 + ",x\n")
        with pytest.raises(ValueError, match="line 3: a field of more than 300,000 characters"):
            read(path, text="body")
    finally:
        csv.field_size_limit(before)


def test_messages_name_options_as_the_user_writes_them(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a;zip code;label\n1;2;x\n3;y;z\n")
    said = []
    for where in (contextlib.nullcontext, command_line):
        with where():
            for more in (
                {},
                {"format": "csv"},
                {"format": "csv", "delimiter": ";"},
                {"format": "csv", "delimiter": ";", "label": "class"},
                {"format": "svmlight"},
            ):
                with pytest.raises(ValueError, match=r"a\.txt") as error:
                    read(path, **more)
                said.append(str(error.value).rpartition("; ")[2])
    (tmp_path / "b.svm").write_text("1 0:1\n")
    with command_line(), pytest.raises(ValueError, match="pass --zero-based if they count from 0"):
        read(tmp_path / "b.svm")
    assert "pass format='csv'" in said[0] and "pass --format csv" in said[5]
    assert "delimiter=';'" in said[1] and "--delimiter ';'" in said[6]
    assert "categories=['zip code']" in said[2] and "--categories 'zip code'" in said[7]
    assert "with label=" in said[3] and "with --label" in said[8]


def test_without_polars_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ValueError, match=r"pip install '\.\[lab\]'"):
        read(BAD / "not_parquet.parquet")


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
    ("no_label_column.csv", 1, "no column 'label', but a, b, class", "label="),
    ("ragged.csv", 3, "2 fields, but the header has 3", "is the row cut"),
    ("infinite.csv", 3, "'inf' in column 'b' is not finite", "leave it empty"),
    ("letter.csv", 3, "'x' in column 'b' is not a number", "categories=['b']"),
    ("first_letter.csv", 2, "'x' in column 'b' is not a number", "categories=['b']"),
    ("underscore.csv", 3, "'1_0' in column 'b' is not a number", "categories=['b']"),
    ("underscore.vw", 2, "'1_0' in 'a:1_0' is not a finite number", "mend it"),
    (
        "decimal_comma.csv",
        2,
        "'1,5' in column 'b' looks like a number with a comma",
        "categories=['b']",
    ),
    ("semicolons.csv", 1, "a single column, 'a;b;label'", "delimiter=';'"),
    ("repeated_column.csv", 1, "column 'a' appears twice", "another name"),
    ("open_quote.csv", 3, "unexpected end of data", "quotes"),
    ("no_label.csv", 3, "the row has no label", "give it one"),
    ("undeclared_label.csv", 3, "label '7' was never declared", "labels="),
    ("only_header.csv", 1, "no rows", "written to its end"),
    ("empty.csv", 1, "no rows", "written to its end"),
    ("binary.csv", 1, "not text in UTF-8", "convert it"),
    ("latin_1.csv", 3, "not text in UTF-8", "encoding='cp1252'"),
    ("no_label.vw", 2, "the row has no label", "write label | features"),
    ("label_touches_bar.vw", 2, "the row has no label", "touches the bar is a tag"),
    ("no_bar.vw", 2, "there is no |", "write label | features"),
    ("letter.vw", 2, "'x' in 'a:x' is not a finite number", "mend it"),
    ("undeclared_label.vw", 2, "label '7' was never declared", "labels="),
    ("huge_value.vw", 2, "1e+39 is too large for float32", "scale"),
    ("not_parquet.parquet", 1, "not a Parquet file", "written to its end"),
    ("no_label.parquet", 2, "the row has no label", "missing_label='skip'"),
    ("no_label_column.parquet", 1, "no column 'label', but a, class", "label="),
    ("list_column.parquet", 1, "column 'b' is of type List(Float64)", "a column of its own"),
    ("wrong_header.npz", None, "not an npz file", "plain arrays"),
]


@pytest.mark.parametrize(("name", "line", "says", "remedy"), SINS)
@pytest.mark.parametrize("way", [read, stream])
def test_a_bad_file_is_refused_with_line_and_remedy(name, line, says, remedy, way):
    if name.endswith(".parquet"):
        pytest.importorskip("polars")
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
import re, sys
import onebit as ob
learner = ob.Banditron(labels=5)
rows = int(sys.argv[2])
trace = ob.simulate(learner, ob.datasets.stream(sys.argv[1], labels=5, rows=rows))
status = open("/proc/self/status").read()  # getrusage would tell the peak of the parent
print(trace.rounds[-1], re.search(r"VmHWM:\\s+(\\d+) kB", status)[1])
"""


@pytest.mark.slow
@pytest.mark.skipif(not COMPILED, reason="five million rows want the compiler")
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory from /proc")
def test_five_million_rows_stream_through_in_500_megabytes(tmp_path):
    path, rows = tmp_path / "big.svm", 5_000_000
    X = sparse.random(10_000, 20_000, 10 / 20_000, format="csr", random_state=0)
    X.data = np.round(X.data, 4)
    part = written(tmp_path / "part.svm", X, np.arange(10_000) % 5).read_bytes()
    try:
        with open(path, "wb") as file:
            for _ in range(rows // 10_000):
                file.write(part)
        rounds, peak = run_through(path, 100_000)
    finally:
        path.unlink(missing_ok=True)
    assert rounds == rows
    assert 50e6 < peak < 500e6, f"{peak / 1e6:.0f} MB"


def run_through(path, rows):
    """Rounds, and the peak of memory of the whole process in bytes."""
    done = subprocess.run(
        [sys.executable, "-c", _BIG, str(path), str(rows)],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=True,
    )
    rounds, peak = map(int, done.stdout.split())
    return rounds, peak * 1024


@pytest.mark.slow
@pytest.mark.skipif(not COMPILED, reason="many rows want the compiler")
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory from /proc")
@pytest.mark.parametrize("kind", ["dense", "packed", "sparse"])
def test_large_npz_files_stream_through_in_constant_memory(tmp_path, kind):
    """200 MB of rows (sparse: 120 MB), and no more than 50 MB above what a thousand take."""
    X = np.zeros((100_000, 500), np.float32)
    X[:, ::5] = 1
    peaks = []
    for rows in (1000, len(X)):
        path, fields = tmp_path / f"{rows}.npz", {"X": X[:rows]}
        if kind == "sparse":  # 100 values a row, twelve bytes each
            indices = np.tile(np.arange(100, dtype=np.int64), rows)
            indptr = np.arange(rows + 1) * 100
            data = np.ones(rows * 100, np.float32)
            fields = {"data": data, "indices": indices, "indptr": indptr, "shape": (rows, 500)}
        save = np.savez_compressed if kind == "packed" else np.savez
        save(path, y=np.arange(rows) % 5, **fields)
        rounds, peak = run_through(path, 1000)
        path.unlink()
        peaks.append(peak)
        assert rounds == rows
    assert peaks[1] < peaks[0] + 50e6, [f"{peak / 1e6:.0f} MB" for peak in peaks]


UNLIKE = {
    "words": lambda i: f"word{i}",
    "addresses": lambda i: f"me{i}@home.org",
    "words joined by signs": lambda i: f"größe-{i}/weiß",
}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("kind", UNLIKE)
def test_a_name_of_its_own_in_every_row_is_not_taken_without_a_word(kind, ending, tmp_path):
    polars = pytest.importorskip("polars")
    rows = {"body": [UNLIKE[kind](i) for i in range(30)], "label": ["a", "b"] * 15}
    path, frame = tmp_path / f"t.{ending}", polars.DataFrame(rows)
    frame.write_csv(path) if ending == "csv" else frame.write_parquet(path)
    with pytest.warns(UserWarning, match="column 'body' has another value in nearly every row"):
        taken = read(path)
    as_names = read(path, categories=["body"])  # asked for: no warning
    assert (taken.X != as_names.X).nnz == 0
    read(path, text="body")


def test_names_that_come_again_and_texts_are_taken_without_a_warning(tmp_path):
    lines = [f"A{i % 9},text number {i},我喜欢这个产品{i},{i % 2}" for i in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["team,body,more,label", *lines]))
    assert len(read(tmp_path / "t.csv").y) == 40


def test_the_rows_of_a_table_can_be_sliced_and_shown(tmp_path):
    (tmp_path / "mine.csv").write_text("topic,age,body\n" + "a,1,one two\nb,2,three four\n" * 4)
    X = ob.datasets.read(tmp_path / "mine.csv", label="topic").X
    assert X.indices.dtype == X.indptr.dtype
    assert (X[::2] != X[[0, 2, 4, 6]]).nnz == 0
    assert (X[::-1].numbers != X.numbers[[7, 6, 5, 4, 3, 2, 1, 0]]).nnz == 0
    assert "Coords" in str(X)
