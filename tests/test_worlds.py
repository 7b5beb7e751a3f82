"""The streams of benchmarks.worlds: what they promise, and what is counted on them."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

import onebit as ob
from benchmarks.worlds.streams import STREAMS, best_fixed, ceiling, drawn, share_right

Y = np.array([[0.1, 0.4], [0.3, 0.2], [0.5, 0.0]])


def loaded(name, order):
    try:
        return STREAMS[name].load(order)
    except FileNotFoundError as error:
        pytest.skip(str(error))


def as_lists(X):
    return X.toarray().tolist() if sparse.issparse(X) else np.asarray(X).tolist()


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_what_it_promises(name):
    stream, world = STREAMS[name], loaded(name, 0)
    kind = {"text": str, "dict": dict}.get(stream.kind)
    size = len(world.X) if kind else world.X.shape[0]
    assert (size, *world.Y.shape) == (stream.rounds, stream.rounds, stream.labels)
    assert 0 <= world.Y.min() < world.Y.max() <= 1
    assert world.Y.dtype == (np.uint8 if set(np.unique(world.Y)) <= {0, 1} else np.float64)
    if kind:
        assert {type(context) for context in world.X} == {kind}
    else:
        assert sparse.issparse(world.X) == (stream.kind == "sparse")
    assert best_fixed(world.Y) <= ceiling(world.Y) + 1e-9


@pytest.mark.parametrize("name", ["segments", "offers_8_numbers", "clicks", "mute_texts", "topics"])
def test_an_order_is_the_same_every_time_and_another_order_differs(name):
    first, again, second = loaded(name, 0), loaded(name, 0), loaded(name, 1)
    some = slice(0, 300)
    assert_array_equal(first.Y, again.Y)
    assert as_lists(first.X[some]) == as_lists(again.X[some])
    assert as_lists(first.X[some]) != as_lists(second.X[some])


def test_a_shuffle_keeps_contexts_beside_what_is_right_for_them():
    world = STREAMS["segments"].load(3)
    is_b = np.array([context["segment"] == "b" for context in world.X])
    assert_array_equal(world.Y[:, 1], np.where(is_b, 0.05, 0.01))


def test_streams_choose_or_judge_by_their_names_alone():
    groups = [stream.group for stream in STREAMS.values()]
    assert set(groups) == {"choose", "judge"}
    assert STREAMS["buttons"].group == "choose"
    assert STREAMS["yeast"].group == "judge"


def test_shares_of_right_answers():
    assert share_right(Y, np.array([1, 1, 0])) == pytest.approx((0.4 + 0.2 + 0.5) / 3)
    assert best_fixed(Y) == pytest.approx(0.3)
    assert ceiling(Y) == pytest.approx((0.4 + 0.3 + 0.5) / 3)


def test_drawn_answers_are_those_that_a_learner_of_this_seed_hears():
    chances = np.random.default_rng(1).random((60, 3))
    X = np.random.default_rng(2).normal(size=(60, 4))
    learners = [ob.SquareCB(3, seed=5) for _ in range(2)]
    ob.simulate(learners[0], X, chances)
    ob.simulate(learners[1], X, drawn(chances, 5))
    assert_array_equal(learners[0].weights, learners[1].weights)
    assert (drawn(chances, 5) != drawn(chances, 6)).any()


def test_matrices_of_rights_are_drawn_already():
    rights = np.array([[0, 1], [1, 1]], np.uint8)
    assert_array_equal(drawn(rights, 4), rights)
