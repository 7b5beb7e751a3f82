"""What a learner makes of silence: nothing, wrong, or a reason to thin out what it hears."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import onebit as ob
from onebit.core.jit import COMPILED, plain
from onebit.learner.silence import hearing, is_taken
from onebit.testing import LABELS, model_bytes  # the laws have had that many compiled

compiled_only = pytest.mark.skipif(not COMPILED, reason="thousands of rounds want the compiler")
UNEVEN = {"right": 0.7, "wrong": 0.2}
BITS = [ob.Banditron, ob.Confidit, ob.UCWL, ob.SOBA, ob.PNewtron]
CHANNELS = {
    "nothing between": [],
    "silence": [ob.Silence(0.5)],
    "silence of the right": [ob.Silence(right=0.8, wrong=0.1)],
    "late": [
        ob.Flip(0.1, 0.2),
        ob.Silence(right=0.3, wrong=0.6),
        ob.Delay(given=[0, 9, 3, 0, 20] * 30),
    ],
}


def stream(rows=150 if COMPILED else 90, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 6)) * (rng.random((rows, 6)) < 0.6)
    return X, (X @ rng.normal(size=(6, LABELS))).argmax(axis=1)


def learned(learner):
    return learner.table.weights().tobytes() + learner.table.state.memory.tobytes()


@pytest.mark.parametrize("name", CHANNELS)
@pytest.mark.parametrize(
    ("make", "silence"),
    [(make, silence) for make in BITS for silence in ("wrong", UNEVEN)] + [(ob.AROW, UNEVEN)],
)
def test_round_by_round_equals_the_stream_and_lockstep(make, silence, name):
    X, y = stream()
    steps = [step for step in CHANNELS[name] if make is not ob.AROW or type(step) is not ob.Flip]
    one, two = (make(LABELS, seed=5, silence=silence) for _ in range(2))
    channel = ob.Channel(steps, seed=5)
    for x, label in zip(X, y, strict=True):
        channel.tell(one, one.decide(x), label=int(label))
    others = [make(LABELS, seed=5), *(make(LABELS, seed=s, silence=silence) for s in (5, 6, 7))]
    runs = ob.sweep(others, X, y, channel=steps, test=(X, y), threads=1)
    trace = ob.simulate(two, X, y, channel=steps)
    assert model_bytes(one) == model_bytes(two)
    assert all((a == b).all() for a, b in zip(trace, runs[1].trace, strict=True))
    assert runs[1].test_error == (two.predict(X) != y).mean()
    # One that reads silence otherwise stood among them, and was none of them.
    trace = ob.simulate(others[0], X, y, channel=steps)
    assert all((a == b).all() for a, b in zip(trace, runs[0].trace, strict=True))


def test_silence_read_as_wrong_is_wrong():
    X, y = stream(40)
    heard, silent = (ob.Confidit(LABELS, silence="wrong") for _ in range(2))
    for x, label in zip(X, y, strict=True):
        one, two = heard.decide(x), silent.decide(x)
        right = one.label == label
        heard.learn(one, right=bool(right))
        silent.learn(two, **({"right": True} if right else {"silence": True}))
    assert model_bytes(heard) == model_bytes(silent)


@pytest.mark.parametrize("silence", ["nothing", UNEVEN])
@pytest.mark.parametrize("make", [ob.Banditron, ob.AROW])
def test_silence_that_means_nothing_changes_nothing(make, silence):
    learner = make(3, silence=silence)
    decision = learner.decide([1.0, 2.0])
    before = model_bytes(learner)
    learner.learn(decision, silence=True)
    learner.learn(decision, silence=np.True_)
    assert model_bytes(learner) == before
    learner.learn(decision, label=2, silence=False)  # the answer came after all


def test_what_is_said_together_with_silence_is_refused():
    learner = ob.Banditron(3, silence="wrong")
    decision = learner.decide([1.0])
    before = model_bytes(learner)
    for wrong in (
        {"silence": True, "right": False},
        {"silence": True, "label": 1},
        {"silence": 1},
        {"silence": None},
        {"silence": "yes"},
        {"silence": False},
    ):
        with pytest.raises(TypeError, match="silence"):
            learner.learn(decision, **wrong)
    assert model_bytes(learner) == before


@pytest.mark.parametrize(
    "wrong",
    [
        "right",
        None,
        0.5,
        {"right": 0.5},
        {"right": 0.5, "wrong": 1.0},
        {"right": -0.1, "wrong": 0.1},
        {"right": "much", "wrong": 0.1},
        {"right": 0.5, "wrong": 0.1, "late": 0.2},
    ],
)
def test_other_readings_are_refused(wrong):
    with pytest.raises((ValueError, TypeError), match="silence"):
        ob.Banditron(3, silence=wrong)


def test_a_reference_cannot_read_silence_as_wrong():
    with pytest.raises(ValueError, match="does not name it"):
        ob.AROW(3, silence="wrong")
    assert ob.AROW(3, silence=UNEVEN).settings["silence"] == UNEVEN


def test_the_reading_is_kept_and_the_default_is_not_named():
    plain_one = ob.Banditron(3)
    assert "silence" not in plain_one.settings and plain_one.silence == "nothing"
    for silence in ("wrong", UNEVEN):
        learner = ob.Banditron(3, silence=silence)
        decision = learner.decide([1.0])
        with pytest.raises(ValueError, match="other settings"):
            plain_one.learn(decision, right=True)
        for other in (learner.copy(), pickle.loads(pickle.dumps(learner))):
            assert other.silence == silence and other.hearing == learner.hearing
            other.learn(decision, right=True)
    assert (
        ob.sweep(ob.Banditron, *stream(20), labels=LABELS, silence=["nothing", "wrong"])[
            1
        ].settings["silence"]
        == "wrong"
    )


def test_thinning_leaves_both_answers_with_one_chance():
    for right in (0.0, 0.3, 0.9):
        for wrong in (0.0, 0.3, 0.9):
            _, ears = hearing({"right": right, "wrong": wrong})
            least = min(1 - right, 1 - wrong)
            assert (1 - right) * ears.right == pytest.approx(least)
            assert (1 - wrong) * ears.wrong == pytest.approx(least)
            assert max(ears.right, ears.wrong) == 1  # no answer of the rarer sort is lost
    _, ears = hearing({"right": 0.8, "wrong": 0.1})
    taken = [plain(is_taken)(ears, 3, round, False) for round in range(4000)]
    assert abs(np.mean(taken) - 2 / 9) < 0.03
    assert all(plain(is_taken)(ears, 3, round, True) for round in range(100))


def test_what_is_thinned_out_is_not_learned_from():
    """Heard right and wrong alike, by the bit or by the label."""
    X, y = stream(60)
    ears = hearing(UNEVEN)[1]
    for name in ("right", "label"):
        thinned, told = ob.Confidit(LABELS, seed=2, silence=UNEVEN), ob.Confidit(LABELS, seed=2)
        left_out = 0
        for x, label in zip(X, y, strict=True):
            one, two = thinned.decide(x), told.decide(x)
            right = bool(one.label == label)
            answer = {name: right if name == "right" else int(label)}
            thinned.learn(one, **answer)
            if plain(is_taken)(ears, 2, one.round, right):
                told.learn(two, **answer)
            else:
                assert not right
                left_out += 1
        assert learned(thinned) == learned(told)
        assert left_out > 5


@pytest.mark.compiled
@pytest.mark.thorough
@compiled_only
def test_the_estimate_of_importance_weighted_learners_is_repaired():
    """Who is content says nothing: a learner of gradients is misled, and set right by thinning."""
    data = ob.datasets.synsep(20_000)

    def error(channel, **settings):
        settings |= {"gamma": 0.2, "seed": range(4)}
        runs = ob.sweep(ob.Banditron, data, channel=channel, **settings)
        return np.mean([run.trace.greedy_error[-1] for run in runs])

    uneven, chances = [ob.Silence(right=0.8, wrong=0.1)], {"right": 0.8, "wrong": 0.1}
    even, misled = error([ob.Silence(0.8)]), error(uneven)
    repaired = error(uneven, silence=chances)
    assert misled > even + 0.1
    assert abs(repaired - even) < (misled - even) / 5
