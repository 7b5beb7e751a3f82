"""Synthetic texts as the paper describes them; digits; npz files."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

import onebit as ob
from onebit.core.draws import uniform
from onebit.core.jit import COMPILED
from onebit.datasets import digits, npz, synnonsep, synsep, synthetic


def test_synsep_is_as_the_paper_says():
    data = synsep(3000, seed=4)
    X = data.X.toarray()
    assert X.shape == (3000, 400) and set(np.unique(X)) == {0, 1}
    assert (X[:, 120:].sum(axis=1) == 20).all()
    assert set(data.y) == set(range(9))
    for topic in range(9):
        rows = X[data.y == topic, :120]
        key_words = rows.any(axis=0).sum()
        assert 20 <= key_words <= 40
        assert (rows.sum(axis=1) == key_words - 5).all()
        share = rows[:, rows.any(axis=0)].mean()
        assert abs(share - (key_words - 5) / key_words) < 1e-6
    common = X[:, 120:].mean(axis=0)
    assert abs(common - 20 / 280).max() < 6 * np.sqrt(20 / 280 / 3000)


def test_synsep_is_separated_by_its_key_words():
    data = synsep(5000, seed=2)
    X = data.X.toarray()
    W = np.array([X[data.y == topic].max(axis=0) for topic in range(9)])
    W[:, 120:] = 0
    assert ((X @ W.T).argmax(axis=1) == data.y).all()


def test_topics_that_their_key_words_do_not_separate_are_drawn_again():
    class Drawn:
        """Draws twice the same key words for all topics, then those of a generator."""

        def __init__(self):
            self.rng, self.draws = np.random.default_rng(0), 0

        def integers(self, low, high):
            return self.rng.integers(low, high) if self.draws >= 18 else low

        def choice(self, size, count, replace):
            self.draws += 1
            if self.draws <= 18:
                return np.arange(count)
            return self.rng.choice(size, count, replace=replace)

    drawn: Any = Drawn()
    topics = synthetic._draw_topics(drawn)
    assert drawn.draws >= 27 and synthetic._margin(topics) > 0


@pytest.mark.compiled
@pytest.mark.skipif(not COMPILED, reason="draws many rows, which is slow when not compiled")
def test_topics_and_rows_are_drawn_uniformly():
    y = synsep(20_000, seed=0).y
    assert abs(np.bincount(y) - 20_000 / 9).max() < 5 * np.sqrt(20_000 / 9)


def test_the_seed_decides():
    one, two, other = synsep(200, seed=1), synsep(200, seed=1), synsep(200, seed=2)
    assert (one.X != two.X).nnz == 0 and (one.y == two.y).all()
    assert (one.X != other.X).nnz > 0
    longer = synsep(300, seed=1)
    assert (longer.X[:200] != one.X).nnz == 0  # a longer stream begins with the shorter


@pytest.mark.compiled
@pytest.mark.skipif(not COMPILED, reason="draws many rows, which is slow when not compiled")
def test_synnonsep_has_five_per_cent_of_other_labels():
    clean, noisy = synsep(20_000, seed=3), synnonsep(20_000, seed=3)
    assert (clean.X != noisy.X).nnz == 0
    false = clean.y != noisy.y
    assert abs(false.mean() - 0.05) < 0.008
    shift = (noisy.y - clean.y)[false] % 9
    counts = np.bincount(shift, minlength=9)[1:]
    assert counts.min() > 0 and abs(counts - counts.mean()).max() < 5 * np.sqrt(counts.mean())


@pytest.mark.compiled
@pytest.mark.skipif(not COMPILED, reason="draws many rows, which is slow when not compiled")
def test_data_and_learner_of_the_same_seed_are_independent():
    """With shared draws a learner would explore exactly on one topic."""
    rounds, seed = 20_000, 0
    y = synsep(rounds, seed=seed).y
    for stream in range(3):
        u = np.array([uniform(seed, t, stream) for t in range(rounds)])
        explored = np.bincount(y[u < 0.05], minlength=9)
        assert explored.min() > 60, f"stream {stream}"


def test_wrong_sizes_are_refused():
    for wrong, says in (({"rows": 0}, "rows"), ({"noise": 2}, "noise"), ({"seed": -1}, "seed")):
        with pytest.raises(ValueError, match=says):
            synsep(**{"rows": 10, **wrong})


def test_digits_are_scikit_learns():
    from sklearn.datasets import load_digits

    data, theirs = digits(), load_digits()
    assert (data.y == theirs.target).all()
    pixels = data.X[:, :64] / data.X[:, 64:] * 8
    assert np.allclose(pixels, theirs.data, atol=1e-4)
    assert np.allclose(np.linalg.norm(data.X, axis=1), 1, atol=1e-6)


def test_npz_files_dense_and_sparse(tmp_path):
    X, y = np.eye(3, dtype=np.float32), np.array(["a", "b", "a"])
    np.savez(tmp_path / "dense.npz", X=X, y=y)
    data = npz(tmp_path / "dense.npz")
    assert data.labels == ["a", "b"] and data.y.tolist() == [0, 1, 0] and data.name == "dense"
    rows = sparse.csr_matrix(X)
    parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr, "shape": rows.shape}
    np.savez(tmp_path / "sparse.npz", y=y, **parts)
    assert (npz(tmp_path / "sparse.npz").X.toarray() == X).all()
    ob.simulate(ob.Banditron(2), data.X, data.y)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"y": np.zeros(3)}, "needs X"),
        ({"X": np.eye(3)}, "needs y"),
        ({"X": np.eye(3), "y": np.zeros(2)}, "3 rows"),
        ({"X": np.array([None, 1]), "y": np.zeros(2)}, "not an npz"),
    ],
)
def test_bad_npz_files_are_named(tmp_path, content, says):
    path = tmp_path / "bad.npz"
    np.savez(path, **content)
    with pytest.raises(ValueError, match=says) as refusal:
        npz(path)
    assert "bad.npz" in str(refusal.value)


def test_a_text_file_is_not_an_npz_file(tmp_path):
    path = tmp_path / "text.npz"
    path.write_text("hello")
    with pytest.raises(ValueError, match="not an npz"):
        npz(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "figures"),
    [
        (
            synsep,
            [
                (ob.Perceptron, {}, 0.0, 0.01),
                (ob.Banditron, {"gamma": 0.014}, 1.5, 2.0),
                (ob.PNewtron, {"gamma": 0.01}, 0.89, 0.94),
            ],
        ),
        (
            synnonsep,
            [
                (ob.Perceptron, {}, 9.6, 10.0),
                (ob.Banditron, {"gamma": 0.006}, 10.5, 13.6),
                (ob.PNewtron, {"gamma": 0.006}, 11.2, 13.0),
            ],
        ),
    ],
)
def test_published_figures_come_out(data, figures):
    """Played error after a million rounds in per cent, mean over five draws of the topics."""
    errors = np.zeros((len(figures), 5))
    for seed in range(5):
        drawn = data(1_000_000, seed=seed)
        for i, (learner, settings, _, _) in enumerate(figures):
            trace = ob.simulate(learner(9, **settings), drawn.X, drawn.y)
            errors[i, seed] = 100 * trace.error[-1]
    for (learner, _, low, high), found in zip(figures, errors, strict=True):
        assert low <= found.mean() <= high, (learner, found)
