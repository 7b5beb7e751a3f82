"""With a vocabulary, a table has so many rows, and all later features share one more."""

from __future__ import annotations

import numpy as np
import pytest

import onebit as ob
from onebit import testing
from onebit.core.slots import OTHERS
from onebit.learner.copies import with_vocabulary

LEARNERS = {
    "Banditron": (ob.Banditron, {}),
    "Confidit": (ob.Confidit, {"half_life": 40, "inputs": "auto"}),
    "OneBit": (ob.OneBit, {}),
    "OneBit that fades": (ob.OneBit, {"half_life": 40}),
}


@pytest.fixture(params=LEARNERS)
def make(request):
    kind, settings = LEARNERS[request.param]
    return lambda labels=3, **more: kind(labels, **{**settings, **more})


def dicts(rounds, seed=0):
    """Dicts with numbers, categories and texts, in which new names come again and again."""
    rng = np.random.default_rng(seed)
    made = []
    for t in range(rounds):
        x = {f"n{rng.integers(3 + t // 4)}": float(rng.normal()) for _ in range(3)}
        x[f"place {t % 5}"] = f"c{rng.integers(2 + t // 3)}"
        x["said"] = " ".join(f"w{rng.integers(3 + t // 2)}" for _ in range(3))
        made.append(x)
    return made, rng.integers(3, size=rounds)


def taught(learner, X, y, late=0):
    """A learner that was taught round by round, and its labels; answers come `late` rounds late."""
    said, waiting = [], []
    for x, truth in zip(X, y, strict=True):
        decision = learner.decide(x)
        said.append(decision.greedy)
        waiting.append((decision, truth))
        if len(waiting) > late:
            decision, truth = waiting.pop(0)
            learner.learn(decision, right=decision.label == truth)
    for decision, truth in waiting:
        learner.learn(decision, right=decision.label == truth)
    return learner, said


def test_a_table_has_so_many_rows_and_one(make):
    X, y = dicts(36)
    learner, _ = taught(make(vocabulary=25), X, y)
    assert len(learner.table.state.table) == 26
    assert learner.table.slots[OTHERS] > 0
    whole = learner.table.whole
    taught(learner, dicts(36, seed=5)[0], y)
    if learner.half_life is None:
        assert learner.table.whole is whole  # it was never copied to grow
    assert learner.weights.shape[1] < OTHERS


def test_without_the_limit_reached_nothing_is_different(make):
    X, y = dicts(36)
    free, said = taught(make(), X, y)
    limited, said_too = taught(make(vocabulary=5000), X, y)
    assert said == said_too
    assert np.array_equal(free.table.weights(), limited.table.weights())
    assert np.array_equal(free.weights, limited.weights)


@pytest.mark.parametrize("vocabulary", [1, 25, 60])
def test_rounds_streams_chunks_copies_and_files_agree(make, vocabulary, tmp_path):
    X, y = dicts(36)
    whole, chunks = make(vocabulary=vocabulary, seed=1), make(vocabulary=vocabulary, seed=1)
    ob.simulate(whole, X, y)
    ob.simulate(chunks, ((X[i : i + 13], y[i : i + 13]) for i in range(0, 36, 13)))
    rounds = make(vocabulary=vocabulary, seed=1)
    for i in range(0, 36, 12):
        taught(rounds, X[i : i + 12], y[i : i + 12])
        rounds.predict(X)
        rounds.save(tmp_path / "model.onebit")
        rounds = ob.load(tmp_path / "model.onebit")
    assert rounds.vocabulary == vocabulary
    assert testing.state_bytes(rounds) == testing.state_bytes(whole) == testing.state_bytes(chunks)


def test_late_feedback_agrees(make):
    X, y = dicts(36)
    whole, rounds = make(vocabulary=25, seed=1), make(vocabulary=25, seed=1)
    ob.simulate(whole, X, y, channel=ob.Delay(7))
    taught(rounds, X, y, late=7)
    assert np.array_equal(whole.table.known(), rounds.table.known())


def test_a_shuffled_stream_agrees(make):
    X, y = dicts(36)
    order = np.random.default_rng(3).permutation(36)[:30]
    whole, rounds = make(vocabulary=25, seed=1), make(vocabulary=25, seed=1)
    ob.simulate(whole, X, y, order=order)
    taught(rounds, [X[i] for i in order], y[order])
    assert testing.state_bytes(rounds) == testing.state_bytes(whole)


def test_sweeps_agree():
    X, y = dicts(36)
    learners = [ob.Banditron(3, seed=seed, vocabulary=n) for seed, n in enumerate([25, 25, 40, 25])]
    learners.append(ob.Banditron(3, seed=9))
    for learner, run in zip(learners, ob.sweep(learners, X, y, test=(X, y)), strict=True):
        trace = ob.simulate(learner, X, y)
        assert np.array_equal(trace.mistakes, run.trace.mistakes)
        assert run.test_error == (learner.predict(X) != y).mean()


def test_reading_and_deciding_agree(make):
    X, y = dicts(36)
    learner = make(vocabulary=40, seed=2)
    for i, (x, truth) in enumerate(zip(X, y, strict=True)):
        greedy, law = learner.predict([x])[0], learner.propensities(x)
        have = len(learner.table.state.table)
        proposed = learner.propose(x)
        assert len(learner.table.state.table) == have
        decision = learner.redo(x, proposed) if i % 3 == 0 else learner.decide(x)
        assert decision.greedy == greedy == proposed.greedy
        assert decision.propensity == pytest.approx(law[decision.place])
        learner.learn(decision, right=decision.label == truth)


def test_decisions_of_a_learner_without_limit_are_learned():
    X, y = dicts(36)
    free, limited = ob.OneBit(3), ob.OneBit(3, vocabulary=20)
    for x, truth in zip(X, y, strict=True):
        decision = ob.Decision.from_bytes(free.decide(x).to_bytes())
        limited.learn(limited.redo(x, decision), right=decision.label == truth)
    assert len(limited.table.state.table) == 21


def test_a_row_keeps_its_length():
    learner = ob.Banditron(3, vocabulary=2)
    learner.decide(([3, 5], [1.0, 2.0]))
    decision = learner.decide(([3, 7, 9, 11], [1.0, 2.0, -4.0, 4.0]))
    assert decision.indices.tolist() == [3, OTHERS] and decision.row[1].tolist() == [1.0, 6.0]
    again = learner.decide(decision.row)
    assert again.indices.tolist() == [3, OTHERS] and again.row[1].tolist() == [1.0, 6.0]


@pytest.mark.parametrize("vocabulary", [1, 3])
def test_the_shared_feature_may_be_named(vocabulary):
    rows = [([1, OTHERS], [1.0, -1.0]), ([2, 3, 4], [1.0, 1.0, 1.0]), ([1, OTHERS], [1.0, -1.0])]
    rows = [(np.array(i, np.int32), np.array(v, np.float32)) for i, v in rows]
    one, whole = (ob.Banditron(2, vocabulary=vocabulary) for _ in range(2))
    taught(one, rows, [0, 1, 0])
    ob.simulate(whole, rows, [0, 1, 0])
    assert testing.state_bytes(one) == testing.state_bytes(whole)
    assert len(one.table.state.table) == vocabulary + 1


def test_labels_can_be_added(make):
    X, y = dicts(40)
    learner, _ = taught(make(vocabulary=20), X, y)
    learner.add_label(3)
    learner, _ = taught(learner, X, y)
    assert len(learner.table.state.table) == 21


def test_dense_rows_and_matrices_take_no_features_beyond_it():
    for learner in (
        ob.Banditron(3, vocabulary=10),
        ob.OneBit(3, vocabulary=10),
        ob.Confidit(3, vocabulary=10, inputs="auto"),
    ):
        with pytest.raises(ValueError, match="vocabulary=10"):
            learner.decide(np.ones(11))
        assert learner.round == 0
        learner.learn(learner.decide(np.ones(10)), right=True)
        with pytest.raises(ValueError, match="beyond"):
            learner.decide(([400], [1.0]))
    full = ob.Confidit(3, form="full", vocabulary=10)
    full.decide(([9], [1.0]))
    for read in (full.decide, lambda x: full.predict([x])):
        with pytest.raises(ValueError, match="vocabulary=10"):
            read(([10], [1.0]))


def test_memory_is_checked_when_the_learner_is_made():
    with pytest.raises(MemoryError, match="take"):
        ob.OneBit(100_000, vocabulary=2**24)


@pytest.mark.parametrize("vocabulary", [10, 10_000])
def test_an_existing_learner_can_be_limited(make, vocabulary):
    X, y = dicts(36)
    learner, _ = taught(make(), X, y)
    have = len(learner.table.state.table)
    limited = with_vocabulary(learner, vocabulary)
    assert limited.vocabulary == max(vocabulary, have)
    assert np.array_equal(limited.scores(X), learner.scores(X))
    taught(limited, *dicts(36, seed=8))
    assert len(limited.table.state.table) <= limited.vocabulary + 1


def test_a_learner_that_has_not_met_far_features_can_be_limited():
    learner = ob.Banditron(3)
    for i in range(8):
        learner.learn(learner.decide(([i], [1.0])), right=True)
    limited = with_vocabulary(learner, 5)
    assert limited.vocabulary == 8
    assert limited.decide(([2, 900], [1.0, 3.0])).indices.tolist() == [2, OTHERS]
