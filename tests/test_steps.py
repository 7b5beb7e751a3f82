"""Preparation: what each step does, and that whole, chunks and row by row are one."""

from __future__ import annotations

import math
import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import normalize
from sklearn.utils import murmurhash3_32

import onebit as ob
from onebit.datasets import Dataset, Steps, digits, prepare

ALL = ["unit_norm", "binary", "log_counts", "tfidf", "constant", "hash:7", "hash:1024"]


def counts(rows=40, columns=30, seed=0):
    X = sparse.random(rows, columns, 0.3, format="csr", random_state=seed, dtype=np.float32)
    X.data = np.ceil(X.data * 5)
    return X


def test_unit_norm_is_scikit_learns():
    X = sparse.vstack([counts(), sparse.csr_matrix((1, 30))]).tocsr()
    made = prepare(X, ["unit_norm"])
    assert np.allclose(made.toarray(), normalize(X).toarray(), atol=1e-7)
    assert made.dtype == np.float32 and made[40].nnz == 0


def test_binary_and_log_counts():
    X = np.array([[0, 2, -3], [1, 0, 0]], np.int16)
    assert prepare(X, ["binary"]).tolist() == [[0, 1, 1], [1, 0, 0]]
    logs = Steps(["log_counts"], dtype=np.float64).rows(X)
    assert logs.tolist() == [[0, math.log1p(2), -math.log1p(3)], [math.log1p(1), 0, 0]]


def test_tfidf_knows_the_rows_up_to_this_one_and_no_later_ones():
    X = counts().astype(np.float64)
    made = Steps(["tfidf"], dtype=np.float64).rows(X).toarray()
    for t in range(len(made)):
        theirs = TfidfTransformer(norm=None).fit(X[: t + 1]).transform(X[t])
        assert np.allclose(made[t], theirs.toarray()[0], rtol=1e-12)
    assert (prepare(X[:10], ["tfidf"]) != prepare(X, ["tfidf"])[:10]).nnz == 0


def test_constant_is_the_first_column_and_stays_there():
    X = counts()
    made = prepare(X, ["constant"])
    assert made.shape == (40, 31)
    assert np.array_equal(made.toarray(), np.hstack([np.ones((40, 1)), X.toarray()]))
    learner, wider = ob.Perceptron(2), prepare(sparse.csr_matrix((3, 999)), ["constant"])
    ob.simulate(learner, prepare(iter([(X[:3], [0, 1, 0]), (wider, [0, 0, 1])]), []))
    assert wider.toarray()[:, 0].tolist() == [1, 1, 1] and wider.nnz == 3


def test_hash_folds_with_the_sign_of_murmur3():
    X = counts(columns=3000)
    expected = np.zeros((40, 64))
    for i, j in zip(*X.nonzero(), strict=True):
        h = murmurhash3_32(int(j))
        expected[i, abs(h) % 64] += X[i, j] if h >= 0 else -X[i, j]
    made = prepare(X, ["hash:64"])
    assert made.shape == (40, 64) and np.array_equal(made.toarray(), expected)
    assert (made.data != 0).all() and made.has_sorted_indices


def test_steps_apply_from_first_to_last():
    X = np.array([[3.0, 4.0]])
    one = prepare(X, ["constant", "unit_norm"])
    two = prepare(X, ["unit_norm", "constant"])
    assert np.allclose(one, np.array([[1, 3, 4]]) / math.sqrt(26)) and two[0, 0] == 1
    assert prepare(X, []) is X


def same(one, two):
    one, two = sparse.csr_matrix(one), sparse.csr_matrix(two)
    assert one.shape == two.shape and one.dtype == two.dtype
    assert one.indptr.tolist() == two.indptr.tolist()
    assert one.indices.tolist() == two.indices.tolist()
    assert one.data.tobytes() == two.data.tobytes()


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(
        st.dictionaries(st.integers(0, 40), st.floats(-1e6, 1e6, width=32), max_size=12),
        min_size=1,
        max_size=12,
    ),
    names=st.lists(st.sampled_from(ALL), min_size=1, max_size=4),
    cuts=st.lists(st.integers(0, 12), max_size=4),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_whole_chunks_and_row_by_row_are_one_bit_for_bit(rows, names, cuts, dtype):
    X = sparse.lil_matrix((len(rows), 41), dtype=np.float64)
    for i, row in enumerate(rows):
        for j, value in row.items():
            X[i, j] = value
    X, y = X.tocsr(), np.arange(len(rows)) % 2
    before = X.copy()
    whole = Steps(names, dtype=dtype).rows(X)
    same(before, X)  # what was given is left alone
    ends = sorted({min(cut, len(rows)) for cut in cuts} | {0, len(rows)})
    chunks = [Dataset("", "", X[a:b], y[a:b], [0, 1]) for a, b in pairwise(ends)]
    parts = list(prepare(iter(chunks), Steps(names, dtype=dtype)))
    same(sparse.vstack([part.X for part in parts]), whole)
    same(sparse.csr_matrix(Steps(names, dtype=dtype).rows(X.toarray())), whole)
    one_by_one = Steps(names, dtype=dtype)
    for i in range(len(rows)):
        indices, values = one_by_one(X[i])
        assert indices.tolist() == whole[i].indices.tolist()
        assert values.tobytes() == whole[i].data.tobytes() and values.dtype == dtype


def test_row_by_row_before_deciding_is_the_stream():
    data = prepare(digits(), ["log_counts", "tfidf", "constant", "unit_norm"])
    assert data.about.endswith("log_counts, tfidf, constant, unit_norm")
    assert data.X.shape == (1797, 66) and isinstance(data.X, np.ndarray)
    one, two = ob.Perceptron(10), ob.Perceptron(10)
    steps, raw = Steps(["log_counts", "tfidf", "constant", "unit_norm"]), digits()
    ob.simulate(one, data.X[:200], data.y[:200])
    for x, label in zip(raw.X[:200], raw.y[:200].tolist(), strict=True):
        two.learn(two.decide(steps(x)), label=label)
    assert np.array_equal(one.weights, two.weights)


def test_dicts_are_hashed_as_the_learner_does():
    rows = [{"goal": 2, "day": "sunday"}, {"chip": 1, "goal": 1}]
    made = prepare(rows, ["log_counts"])
    assert made.shape == (2, 2**20)
    steps = Steps(["log_counts"])
    for i, row in enumerate(rows):
        indices, values = steps(row)
        assert indices.tolist() == made[i].indices.tolist()
        assert values.tolist() == made[i].data.tolist()
    assert Steps(["binary"], features=64).rows(rows).shape == (2, 64)
    assert prepare([([2, 5], [1, 1])], ["constant"]).shape == (1, 7)


def test_steps_that_were_pickled_go_on():
    X, steps = counts(), Steps(["tfidf"])
    steps.rows(X[:10])
    other = pickle.loads(pickle.dumps(steps))
    same(steps.rows(X[10:]), other.rows(X[10:]))
    assert steps.order_matters and not Steps(["unit_norm", "hash:9"]).order_matters


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["tf"], r"no step 'tf'; there are unit_norm, .*hash:COLUMNS"),
        (["unit_norm:2"], "no step 'unit_norm:2'"),
        (["hash"], "as in hash:4096"),
        (["hash:-1"], "as in hash:4096"),
        (["hash:0"], "between 1 and"),
    ],
)
def test_wrong_steps_are_named(names, says):
    with pytest.raises(ValueError, match=says):
        prepare(iter([]), names)


def test_what_is_no_data_is_refused_and_changes_nothing():
    with pytest.raises(TypeError, match=r"list of names: \['tfidf'\]"):
        Steps("tfidf")
    with pytest.raises(TypeError, match="a chunk is a Dataset or a pair"):
        list(prepare(iter([np.eye(2)]), ["binary"]))
    one, two, X = Steps(["tfidf"]), Steps(["tfidf"]), counts()
    one.rows(X)
    two.rows(X)
    bad = X.copy()
    bad.data[-1] = np.nan
    with pytest.raises(ValueError, match="nan"):
        one.rows(bad)
    same(one.rows(X), two.rows(X))
