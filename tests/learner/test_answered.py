"""Which rounds were answered, and that a decision is learned from once."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import onebit as ob
from onebit.core.jit import plain
from onebit.learner import answered as module
from onebit.learner.answered import Answers, since
from onebit.learner.files import restore
from onebit.testing import LABELS, model_bytes, saved_state


@pytest.fixture
def short(monkeypatch):
    """A memory of few rounds."""
    monkeypatch.setattr(module, "HALF", 64)


def rows(count=90, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 6)) * (rng.random((count, 6)) < 0.6)
    return X, (X @ rng.normal(size=(6, LABELS))).argmax(axis=1)


steps = st.lists(
    st.tuples(
        st.sampled_from(["wait", "answer", "late", "all", "compiled", "save", "fail"]),
        st.integers(0, 90),
    ),
    max_size=40,
)


@given(steps)
def test_it_is_a_set_of_rounds_that_forgets_the_oldest(steps):
    before, module.HALF = module.HALF, 64
    try:
        _compare(steps)
    finally:
        module.HALF = before


def _compare(steps):
    """With a set that forgets nothing."""
    answers, known, rounds = Answers(), set(), 0

    def remembered():
        return {round for round in known if round >= since(rounds)}

    for what, n in steps:
        if what == "wait":
            rounds += n
        elif what == "answer":
            rounds += 1
            answers.mark(rounds - 1, rounds)
            known.add(rounds - 1)
        elif what == "late" and rounds > n and not answers.has(rounds - n - 1, rounds):
            answers.mark(rounds - n - 1, rounds)
            known.add(rounds - n - 1)
        elif what == "all":
            answers.mark_all(rounds, rounds + n, rounds + n)
            known.update(range(rounds, rounds + n))
            rounds += n
        elif what == "compiled":
            marks = answers.marks(rounds + n)
            for round in range(max(rounds - 5, 0), rounds + n, 3):
                plain(module.mark)(marks, round)
                known.add(round)
            rounds += n
        elif what == "save":
            saved = answers.saved(rounds).get("answered")
            answers = Answers.restored(saved, rounds)
        elif what == "fail":
            known = remembered() & {r for r in known if r >= since(rounds + n)}
            for round in range(rounds, rounds + n):
                plain(module.mark)(answers.marks(rounds + n), round)
            answers.cut(rounds)
        seen = {round for round in range(rounds + 100) if answers.has(round, rounds)}
        assert seen == remembered()
        assert len(answers.bits) <= 64
    saved = Answers.restored(answers.saved(rounds).get("answered"), rounds).saved(rounds)
    assert [a.tolist() for a in saved.values()] == [
        a.tolist() for a in answers.saved(rounds).values()
    ]


def test_memory_is_a_megabyte():
    answers = Answers()
    for first in range(0, 10**8, 10**6):
        answers.mark_all(first, first + 10**6 - 1, first + 10**6)
    assert 2**19 <= len(answers.saved(10**8)["answered"]) <= len(answers.bits) <= 2**20
    assert answers.has(10**8 - 2, 10**8) and not answers.has(10**8 - 1, 10**8)
    assert answers.has(10**8 - 2**22, 10**8) and not answers.has(10**8 - 2**23, 10**8)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("channel", [[], [ob.Silence(0.3)], [ob.Silence(0.5), ob.Delay(mean=30.0)]])
@pytest.mark.parametrize("make", [ob.Banditron, ob.AROW])
def test_round_by_round_equals_the_stream_also_beyond_memory(make, channel, monkeypatch):
    monkeypatch.setattr("onebit.learner.streaming.LONGEST_CALL", 50)
    X, y = rows(300)
    one, two, three = (make(LABELS, seed=5) for _ in range(3))
    way = ob.Channel(channel, seed=5)
    for x, label in zip(X, y, strict=True):
        way.tell(one, one.decide(x), label=int(label))
    ob.simulate(two, X, y, channel=channel)
    chunks = [(X[a:b], y[a:b]) for a, b in ((0, 7), (7, 180), (180, 300))]
    ob.simulate(three, iter(chunks), channel=channel)
    assert model_bytes(one) == model_bytes(two) == model_bytes(three)
    heard = len(saved_state(two)[1]["answered"])
    assert heard <= 16


def test_a_second_answer_is_refused_and_changes_nothing():
    learner = ob.Confidit(3)
    decision = learner.decide([1.0, 2.0])
    learner.learn(decision, right=True)
    before = model_bytes(learner)
    for again in ({"right": True}, {"right": False}, {"label": 1}):
        with pytest.raises(ValueError, match="round 0 was answered already; a decision is learned"):
            learner.learn(decision, **again)
    learner.learn(decision, silence=True)  # which means nothing
    assert model_bytes(learner) == before


def test_silence_counts_where_it_is_read_as_wrong():
    learner = ob.Confidit(3, silence="wrong")
    decision = learner.decide([1.0])
    learner.learn(decision, silence=True)
    with pytest.raises(ValueError, match="answered already"):
        learner.learn(decision, silence=True)
    with pytest.raises(ValueError, match="answered already"):
        learner.learn(decision, right=True)


def test_an_answer_that_is_thinned_out_was_an_answer():
    learner = ob.Confidit(3, silence={"right": 0.99, "wrong": 0.0})
    for _ in range(20):
        decision = learner.decide([1.0])
        learner.learn(decision, right=False)
        with pytest.raises(ValueError, match="answered already"):
            learner.learn(decision, right=False)
    assert np.count_nonzero(learner.weights) < 3


def test_a_twin_may_not_answer_what_a_stream_has_answered():
    X, y = rows(20)
    learner, twin = ob.Banditron(LABELS), ob.Banditron(LABELS)
    decisions = [twin.decide(x) for x in X]
    ob.simulate(learner, X[:10], y[:10])
    for decision in decisions[:10]:
        with pytest.raises(ValueError, match="answered already"):
            learner.learn(decision, right=True)
    for decision in decisions[10:]:  # from the future
        learner.learn(decision, right=True)
        assert learner.round == decision.round + 1
        with pytest.raises(ValueError, match="answered already"):
            learner.learn(decision, right=True)


def test_a_failed_call_marks_nothing():
    calls = []

    def fails(X, Y):
        calls.append(1)
        if len(calls) > 20:
            raise OSError("no kernel today")
        return X @ Y.T

    X, y = rows(40)
    learner = ob.Banditron(LABELS, kernel=fails)
    with pytest.raises(OSError, match="no kernel"):
        ob.simulate(learner, X, y, channel=[ob.Silence(0.2)], checkpoints=[40])
    assert learner.round == 0 and "answered" not in saved_state(learner)[1]


def test_older_files_load_and_damaged_ones_do_not():
    X, y = rows(30)
    learner = ob.Banditron(LABELS)
    ob.simulate(learner, X, y, channel=[ob.Silence(0.5)])
    head, arrays = saved_state(learner)
    assert saved_state(pickle.loads(pickle.dumps(learner)))[1]["answered"].tolist() == (
        arrays["answered"].tolist()
    )
    older = restore(head, {k: v for k, v in arrays.items() if k != "answered"})
    assert older.answers.saved(older.round) == {}
    bits = arrays["answered"]
    for wrong in (
        bits.astype(np.int64),
        bits.astype(np.float64),
        bits[None],
        bits[:0],
        np.concatenate([bits, bits]),
        np.concatenate([bits, np.zeros(1, np.uint8)]),
        np.array([255] * 4, np.uint8),  # 32 rounds of 30
    ):
        with pytest.raises(ValueError, match="list of answered rounds is damaged"):
            restore(head, {**arrays, "answered": wrong})
