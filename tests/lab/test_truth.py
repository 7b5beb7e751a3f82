"""Several labels may be right in a round, or none: simulate and sweep with a matrix for y."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

import onebit as ob
from onebit.core.draws import uniform
from onebit.core.jit import plain
from onebit.feedback.channels import drifted, link_to, undrifted
from onebit.lab.truth import RIGHT_DRAW
from onebit.testing import _learned

LABELS = ["a", "b", "c", "d"]
rng = np.random.default_rng(3)
X = rng.normal(size=(300, 5))
RIGHTS = (rng.random((300, 4)) < 0.4).astype(int)
CHANCES = rng.random((300, 4)) * 0.5
KINDS = [ob.OneBit, ob.Banditron, ob.UCWL, ob.FastCB, ob.SquareCB, ob.Confidit, ob.SOBA]


def made(kind, **settings):
    return kind(LABELS, seed=5, **settings)


def round_by_round(learner, truth, is_right):
    """Mistakes after each round of a plain loop."""
    mistakes = []
    for i in range(len(X)):
        decision = learner.decide(X[i])
        said = LABELS.index(decision.label)
        mistakes.append(1 - truth[i, said])
        learner.learn(decision, right=bool(is_right(decision.round, i, said)))
    return np.cumsum(mistakes)


@pytest.mark.parametrize("kind", KINDS)
def test_a_matrix_of_rights_is_a_loop_of_decide_and_learn(kind):
    whole, rounds = made(kind), made(kind)
    trace = ob.simulate(whole, X, RIGHTS, checkpoints=range(1, 301))
    mistakes = round_by_round(rounds, RIGHTS, lambda round, i, said: RIGHTS[i, said])
    assert_array_equal(trace.mistakes, mistakes)
    assert trace.mistakes.dtype == trace.rounds.dtype == np.int64
    assert _learned(whole) == _learned(rounds)


@pytest.mark.parametrize("kind", KINDS)
def test_chances_are_drawn_for_each_round_and_mistakes_are_expected(kind):
    def is_right(round, i, said):
        return uniform(5, round, RIGHT_DRAW + said) < CHANCES[i, said]

    whole, rounds = made(kind), made(kind)
    trace = ob.simulate(whole, X, CHANCES, checkpoints=range(1, 301))
    mistakes = round_by_round(rounds, CHANCES, is_right)
    np.testing.assert_allclose(trace.mistakes, mistakes, rtol=1e-12)
    assert trace.explored.dtype == trace.updates.dtype == np.int64
    assert _learned(whole) == _learned(rounds)


def test_draws_follow_the_chances_and_differ_between_epochs():
    heard = np.zeros(2)
    learner = ob.UniformRandom(2, seed=1)
    said = np.zeros(2)
    for _ in range(20_000):
        decision = learner.decide([1.0])
        right = uniform(1, decision.round, RIGHT_DRAW + decision.label) < [0.3, 0.8][decision.label]
        said[decision.label] += 1
        heard[decision.label] += right
    np.testing.assert_allclose(heard / said, [0.3, 0.8], atol=4 * 0.5 / np.sqrt(10_000))


@pytest.mark.parametrize("y", [RIGHTS, CHANCES], ids=["rights", "chances"])
@pytest.mark.parametrize(
    "channel",
    [
        [ob.Flip(0.2, 0.1)],
        [ob.Silence(0.3)],
        [ob.Swap(100, 1, 3)],
        [ob.Rotate(50, 200), ob.Swap(100, 0, 2), ob.Flip(0.1, 0.1), ob.Silence(0.1)],
    ],
    ids=["flips", "silence", "swap", "all"],
)
@pytest.mark.parametrize("kind", [ob.Banditron, ob.UCWL])
def test_lockstep_is_single_runs_through_every_channel(kind, channel, y):
    settings = {"seed": [1, 2, 3, 4, 5]}
    runs = ob.sweep(kind, X, y, labels=LABELS, channel=channel, test=(X[:50], y[:50]), **settings)
    for run, seed in zip(runs, settings["seed"], strict=True):
        learner = kind(LABELS, seed=seed)
        trace = ob.simulate(learner, X, y, channel=channel)
        for counted, alone in zip(run.trace, trace, strict=True):
            assert_array_equal(counted, alone)
        greedy = [LABELS.index(label) for label in learner.predict(X[:50])]
        assert run.test_error == pytest.approx(1 - y[np.arange(50), greedy].mean(), abs=1e-12)


@pytest.mark.parametrize("y", [RIGHTS, CHANCES], ids=["rights", "chances"])
def test_lockstep_without_a_channel_too(y):
    for kind in (ob.Banditron, ob.UCWL):
        runs = ob.sweep(kind, X, y, labels=LABELS, seed=range(5))
        for seed, run in enumerate(runs):
            trace = ob.simulate(kind(LABELS, seed=seed), X, y)
            assert_array_equal(run.trace.mistakes, trace.mistakes)


@pytest.mark.parametrize("y", [RIGHTS, CHANCES], ids=["rights", "chances"])
@pytest.mark.parametrize("channel", [[], [ob.Delay(7)], [ob.Delay(mean=5.0), ob.Flip(0.1, 0.2)]])
def test_chunks_are_the_whole(y, channel):
    whole, parts = made(ob.UCWL), made(ob.UCWL)
    trace = ob.simulate(whole, X, y, channel=channel)
    chunks = ((X[i : i + 64], y[i : i + 64]) for i in range(0, 300, 64))
    joined = ob.simulate(parts, chunks, channel=channel)
    for counted, alone in zip(trace, joined, strict=True):
        np.testing.assert_allclose(counted, alone, rtol=1e-12)
        assert counted.dtype == alone.dtype
    assert _learned(whole) == _learned(parts)


def test_drift_is_undone_in_reverse_order():
    learner = ob.Banditron(4)
    channel = [ob.Swap(10, 0, 2), ob.Rotate(0, 40), ob.Swap(20, 1, 3), ob.Rotate(5, 60)]
    link = link_to(learner, channel)
    moved = 0
    for round in range(80):
        for label in range(4):
            now = plain(drifted)(link, round, label, 4)
            moved += now != label
            assert plain(undrifted)(link.steps, link.seed, round, now, 4) == label
    assert moved > 80


def test_a_matrix_with_one_right_label_is_its_labels():
    y = rng.integers(4, size=300)
    for channel in ([], [ob.Swap(100, 1, 3), ob.Flip(0.1, 0.2), ob.Delay(3)]):
        one, matrix = made(ob.UCWL), made(ob.UCWL)
        trace = ob.simulate(one, X, [LABELS[i] for i in y], channel=channel)
        assert_array_equal(
            trace.mistakes, ob.simulate(matrix, X, np.eye(4)[y], channel=channel).mistakes
        )
        assert _learned(one) == _learned(matrix)


def test_forms_of_a_matrix():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    expected = ob.simulate(made(ob.UCWL), X, RIGHTS).mistakes
    backwards = RIGHTS[:, ::-1]
    frame = pandas.DataFrame(backwards, columns=LABELS[::-1])
    data = ob.datasets.Dataset("tags", "", X, backwards, LABELS[::-1])
    for y in (
        RIGHTS.astype(bool), RIGHTS.astype(float), RIGHTS.tolist(), sparse.csr_matrix(RIGHTS),
        np.asfortranarray(RIGHTS), frame, polars.from_pandas(frame),
    ):  # fmt: skip
        assert_array_equal(ob.simulate(made(ob.UCWL), X, y).mistakes, expected)
    assert_array_equal(ob.simulate(made(ob.UCWL), data).mistakes, expected)
    counted = pandas.DataFrame(RIGHTS, columns=["0", "1", "2", "3"])
    assert_array_equal(ob.simulate(ob.UCWL(4, seed=5), X, counted).mistakes, expected)
    with pytest.raises(ValueError, match="no column for the label 'a'; its columns are 0, 1, 2, 3"):
        ob.simulate(made(ob.UCWL), X, counted)


def test_what_needs_the_true_label_is_refused():
    for learner in (made(ob.AROW), made(ob.Perceptron)):
        with pytest.raises(ValueError, match=r"learns from the true label .* y.argmax\(axis=1\)"):
            ob.simulate(learner, X, RIGHTS)
        assert learner.round == 0
    for run in (
        lambda noise: ob.simulate(made(ob.UCWL), X, RIGHTS, channel=noise),
        lambda noise: ob.sweep(ob.UCWL, X, RIGHTS, labels=LABELS, seed=range(4), channel=noise),
    ):
        with pytest.raises(ValueError, match="LabelNoise replaces the true label"):
            run(ob.LabelNoise(0.1))
