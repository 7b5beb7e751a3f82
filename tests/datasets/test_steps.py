"""Preparation: what each step does, and that whole, chunks and row by row are one."""

from __future__ import annotations

import math
import pickle
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import normalize
from sklearn.utils import murmurhash3_32

import onebit as ob
from onebit.datasets import Dataset, Steps, digits, prepare

ALL = [
    "standardise",
    "unit_norm",
    "binary",
    "log_counts",
    "tfidf",
    "constant",
    "hash:7",
    "hash:1024",
]
ALL += ["fourier:5:gamma=0.3", "fourier:9:seed=4"]


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


def test_standardise_has_the_means_and_deviations_of_the_rows_so_far():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4)) * [1, 100, 0.01, 0] + [0, 1e4, -1, 3]
    made = prepare(X, Steps(["standardise"], dtype=np.float64))
    assert made[0].tolist() == [0, 0, 0, 0] and np.abs(made).max() <= 5
    for row in (1, 7, 49):
        past = X[: row + 1, :3]
        assert np.allclose(made[row, :3], (X[row, :3] - past.mean(axis=0)) / past.std(axis=0))
    assert not made[:, 3].any()  # a column that never changes
    X[40, 0] = 1e6
    assert prepare(X, ["standardise"])[40, 0] == 5


def test_standardise_is_for_dense_rows_of_one_width():
    with pytest.raises(ValueError, match="standardise must know how many columns"):
        prepare([([1, 2], [1.0, 1.0])], ["standardise"])
    steps = Steps(["standardise"])
    steps([1.0, 2.0])
    with pytest.raises(ValueError, match="made for rows of 2 columns, and these have 3"):
        steps([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"1,048,576 columns of 300 rows.* too much"):
        prepare([{"a": 1}] * 300, ["standardise"])


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


def unit(rows, columns=12, seed=0, dtype=np.float64):
    return normalize(np.random.default_rng(seed).normal(size=(rows, columns))).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_maps_are_scikit_learns(dtype):
    X = unit(40, dtype=dtype)
    close = {"rtol": 0, "atol": 1e-5 if dtype == np.float32 else 1e-12}
    theirs = RBFSampler(gamma=2.5, n_components=70, random_state=3).fit_transform(X)
    ours = Steps(["fourier:70:gamma=2.5:seed=3"], dtype=dtype).rows(X)
    assert ours.dtype == dtype and np.allclose(ours, theirs, **close)
    fitted = Nystroem(gamma=2.5, n_components=20, random_state=0).fit(X[:20].astype(np.float64))
    ours = Steps(["nystroem:20:gamma=2.5"], dtype=dtype).rows(X)
    assert ours.dtype == dtype and np.allclose(ours, fitted.transform(X), **close)


def test_inner_products_are_near_the_kernel():
    X = unit(30)
    for gamma in (0.5, 1, 2):
        kernel = rbf_kernel(X, gamma=gamma)
        made = Steps([f"fourier:3000:gamma={gamma}"], dtype=np.float64).rows(X)
        # A product of two columns varies by at most 1: six deviations of their mean.
        assert np.abs(made @ made.T - kernel).max() < 6 / math.sqrt(3000)
        exact = Steps([f"nystroem:30:gamma={gamma}"], dtype=np.float64).rows(X)
        assert np.allclose(exact @ exact.T, kernel, atol=1e-8)
    assert np.array_equal(prepare(X, ["fourier:50"]), prepare(X, ["fourier:50:gamma=1:seed=0"]))


def test_fourier_draws_follow_the_seed():
    X = unit(10)
    one, again, other = (prepare(X, [f"fourier:50:seed={seed}"]) for seed in (1, 1, 2))
    assert np.array_equal(one, again) and not np.isclose(one, other).any(axis=0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("repeated", [False, True])
def test_nystroem_is_one_in_chunks_and_row_by_row_once_it_is_fitted(dtype, repeated):
    names = ["tfidf", "constant", "nystroem:7:gamma=0.2", "unit_norm"]
    X = counts(30, 12)
    if repeated:  # landmarks that are the same, and rows without anything
        X = sparse.vstack([X[:2], X[:2], 0 * X[:3], X]).tocsr()
    whole = Steps(names, dtype=dtype).rows(X)
    assert whole.shape == (X.shape[0], 7) and np.abs(whole.data).max() <= 1.001
    steps = Steps(names, dtype=dtype)
    same(sparse.vstack([steps.rows(part) for part in (X[:0], X[:8], X[8:9], X[9:])]), whole)
    same(Steps(names, dtype=dtype).rows(X.toarray()), whole)
    fitted = pickle.loads(pickle.dumps(Steps(names, dtype=dtype).fit(X)))
    for i in range(X.shape[0]):
        indices, values = fitted(X[i])
        assert indices.tolist() == whole[i].indices.tolist()
        assert values.tobytes() == whole[i].data.tobytes()


def test_blocks_do_not_matter(monkeypatch):
    X, names = counts(20, 12), ["fourier:8", "nystroem:4"]
    whole = prepare(X, names)
    monkeypatch.setattr("onebit.datasets.steps._BLOCK", 24)
    same(prepare(X, names), whole)


def test_a_mapped_learner_learns_what_no_linear_one_can():
    draw = np.random.default_rng(0)
    X = draw.uniform(-1, 1, (1500, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)  # chess board
    plain, mapped = ob.Perceptron(2), ob.Perceptron(2)
    steps = Steps(["fourier:40:gamma=2"])
    ob.simulate(plain, X, y)
    ob.simulate(mapped, steps.rows(X[:1000]), y[:1000])
    wrong = [mapped.predict(steps.rows(x[None]))[0] for x in X[1000:]] != y[1000:]
    assert wrong.mean() < 0.2
    assert (plain.predict(X[1000:]) != y[1000:]).mean() > 0.3


def test_maps_need_to_know_the_columns():
    pairs = [([0, 2], [1, 1]), ([5], [2])]
    for names in (["fourier:4"], ["constant", "fourier:4"]):
        with pytest.raises(
            ValueError, match=r"must know how many columns .* features=\), or put hash"
        ):
            prepare(pairs, names)
        with pytest.raises(ValueError, match="must know how many columns"):
            Steps(names)(pairs[0])
    rows = sparse.csr_matrix(([1, 1, 2], [0, 2, 5], [0, 2, 3]), shape=(2, 6))
    same(prepare(rows, ["fourier:4"]), Steps(["fourier:4"], features=6).rows(pairs))
    same(prepare(rows, ["hash:9", "fourier:4"]), prepare(pairs, ["hash:9", "fourier:4"]))
    same(prepare(rows, ["fourier:4"]), prepare([*rows.toarray()], ["fourier:4"]))
    same(prepare(rows, ["fourier:4"]), prepare(rows.toarray().tolist(), ["fourier:4"]))
    narrow = sparse.csr_matrix((rows.data, rows.indices % 3, rows.indptr), shape=(2, 3))
    padded = sparse.hstack([narrow, 0 * narrow]).tocsr()
    same(Steps(["fourier:4"], features=6).rows(narrow), prepare(padded, ["fourier:4"]))
    with pytest.raises(ValueError, match="too large; put hash:COLUMNS before"):
        prepare([{"word": 1}], ["fourier:1000"])
    assert prepare([{"word": 1}], ["hash:64", "fourier:1000"]).shape == (1, 1000)
    assert Steps(["fourier:8"], features=64)({"word": 1})[1].shape == (8,)
    with pytest.raises(ValueError, match="no columns"):
        prepare(np.empty((3, 0)), ["fourier:4"])


def test_rows_that_a_map_refuses_change_nothing():
    X = counts(20, 12)
    for name in ("fourier:4", "nystroem:4"):
        one, two = Steps(["tfidf", name]), Steps(["tfidf", name])
        for steps in (one, two):
            steps.rows(X[:10])
        wide = sparse.hstack([X, X]).tocsr()
        with pytest.raises(ValueError, match="rows of 12 columns, and these have 24; fix"):
            one.rows(wide)
        with pytest.raises(ValueError, match="these have 14"):
            one(([1, 13], [1, 1]))
        same(one.rows(X[:, :7]), two.rows(X[:, :7]))  # fewer are zeros
        same(one.rows(X), two.rows(X))
    one, two = Steps(["tfidf", "nystroem:8"]), Steps(["tfidf", "nystroem:8"])
    for few in (lambda: one.rows(X[:7]), lambda: one(X[0]), lambda: one.fit(X[:7])):
        with pytest.raises(ValueError, match=r"the first 8 rows, and here are [17]; .* call fit"):
            few()
    same(one.rows(X), two.rows(X))
    with pytest.raises(ValueError, match="nystroem:8 is fitted already"):
        one.fit(X)


def test_fit_takes_what_rows_takes():
    X = counts(20, 12)
    whole = prepare(X, ["nystroem:8"])
    forms = [X.toarray(), X.tocoo(), [*X.toarray()], Dataset("", "", X, np.zeros(20), [0, 1])]
    for form in forms:
        same(Steps(["nystroem:8"]).fit(form).rows(X), whole)
    assert Steps(["unit_norm"]).fit(X).rows(X).shape == X.shape


def test_maps_in_streams_races_and_tuning(tmp_path):
    data, names = digits(), ["unit_norm", "nystroem:20:gamma=2", "fourier:30:gamma=0.5"]
    whole = prepare(data, names)
    assert whole.X.shape == (1797, 30) and whole.about.endswith("fourier:30:gamma=0.5")
    parts = (
        Dataset("", "", data.X[a : a + 500], data.y[a : a + 500], data.labels)
        for a in range(0, 1797, 500)
    )
    one, two = ob.Perceptron(10), ob.Perceptron(10)
    ob.simulate(one, whole)
    ob.simulate(two, prepare(parts, names))
    assert np.array_equal(one.weights, two.weights)
    assert Steps(names).order_matters and not Steps(names[::2]).order_matters
    # tune keeps rows without their shape; its map is that of all columns all the same.
    X, y = data.X[:60], data.y[:60].copy()
    X[:, 50:] = 0
    tuned = ob.tune(ob.Perceptron, X, y, prepare=names[2:], order="given", rounds=60, repeats=1)
    alone = ob.Perceptron(len(set(y)))
    wrong = ob.simulate(alone, prepare(X, names[2:]), y).mistakes[-1]
    assert tuned.error == wrong / 60
    tuned.save(tmp_path / "tuned.toml")
    assert ob.read_recipe(tmp_path / "tuned.toml").prepare == tuple(names[2:])


def test_without_scikit_learn_maps_say_what_to_install(monkeypatch):
    steps = Steps(["fourier:4"]).fit(np.eye(3))
    packed = pickle.dumps(steps)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(
        ValueError, match=r"fourier:4 is made by scikit-learn.*pip install '\.\[lab\]'"
    ):
        Steps(["fourier:4"])
    assert pickle.loads(packed)(np.eye(3)[0])[1].shape == (4,)  # once drawn it needs none


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["fourier"], r"how many columns to make, as in fourier:300:gamma=2"),
        (["nystroem:x"], r"how many columns to make, as in nystroem:300"),
        (["fourier:0"], "between 1 and"),
        (["nystroem:20000"], "between 1 and 10000"),
        (["fourier:9:gamma=0"], "gamma of fourier:9:gamma=0 must be above 0"),
        (["fourier:9:gamma=nan"], "must be above 0"),
        (["fourier:9:gamma=x"], "'gamma=x', which is not a number"),
        (["fourier:9:seed=1.5"], "'seed=1.5', which is not a"),
        (["fourier:9:seed=-1"], "between 0 and"),
        (["fourier:9:gamma"], "has 'gamma'; fourier takes gamma and seed"),
        (["fourier:9:gamma=1:gamma=2"], "has 'gamma=2'; fourier takes"),
        (["nystroem:9:seed=1"], "has 'seed=1'; nystroem takes gamma, as in gamma=2"),
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
