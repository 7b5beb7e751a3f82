"""Feedback on its way: noise, flips, silence, delay, drift; compiled and round by round."""

from __future__ import annotations

import numpy as np
import pytest

import onebit as ob
from onebit.core.jit import COMPILED, plain
from onebit.feedback import channels
from onebit.testing import LABELS, model_bytes  # the laws have had that many compiled

compiled_only = pytest.mark.skipif(not COMPILED, reason="thousands of rounds want the compiler")
LEARNERS = [ob.Banditron, ob.Confidit, ob.UCWL, ob.SOBA, ob.PNewtron, ob.FastCB, ob.AROW]
CHANNELS = {
    "noise": [ob.LabelNoise(0.3)],
    "noise, any": [ob.LabelNoise(0.3, by="any")],
    "flips": [ob.Flip(0.2, 0.4)],
    "silence": [ob.Silence(0.5)],
    "silence of the wrong": [ob.Silence(right=0.1, wrong=0.9)],
    "late": [ob.Delay(7)],
    "late at random": [ob.Delay(mean=5.0)],
    "late as given": [ob.Delay(given=[0, 9, 3, 3, 0, 50] * 25)],
    "swap": [ob.Swap(40, 0, 2)],
    "rotation": [ob.Rotate(20, 60)],
    "all": [
        ob.Rotate(50, 50),
        ob.LabelNoise(0.1),
        ob.Flip(0.1, 0.1),
        ob.Silence(0.2),
        ob.Flip(0.05, 0.0),
        ob.Delay(mean=3.0),
    ],
}


def stream(rows=150 if COMPILED else 90, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 6)) * (rng.random((rows, 6)) < 0.6)
    return X, (X @ rng.normal(size=(6, LABELS))).argmax(axis=1)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (make, name)
        for make in LEARNERS
        for name in CHANNELS
        if make is not ob.AROW or name not in ("flips", "all")  # a reference hears no bit to flip
    ],
)
def test_round_by_round_equals_the_stream(make, name):
    X, y = stream()
    one, two = make(LABELS, seed=5), make(LABELS, seed=5)
    channel = ob.Channel(CHANNELS[name], seed=5)
    for x, label in zip(X, y, strict=True):
        channel.tell(one, one.decide(x), label=int(label))
    ob.simulate(two, X, y, channel=CHANNELS[name])
    assert model_bytes(one) == model_bytes(two)


@pytest.mark.parametrize("make", LEARNERS)
def test_channels_that_do_nothing_do_nothing(make):
    X, y = stream()
    nothing = [ob.LabelNoise(0.0), ob.Silence(0.0), ob.Delay(0), ob.Swap(10**6, 0, 1)]
    if make is not ob.AROW:
        nothing.append(ob.Flip(0.0, 0.0))
    one, two = make(LABELS, seed=1), make(LABELS, seed=1)
    traces = [ob.simulate(one, X, y), ob.simulate(two, X, y, channel=nothing)]
    assert model_bytes(one) == model_bytes(two)
    assert all((a == b).all() for a, b in zip(*traces, strict=True))


def test_a_delay_is_counted_in_rounds():
    """Nothing is learned before the first answer comes, and the last ones are never heard."""
    X, y = stream(40)
    late = ob.Confidit(LABELS)
    trace = ob.simulate(late, X, y, channel=[ob.Delay(10)], checkpoints=range(1, 41))
    assert trace.updates[9] == 0 and trace.updates[-1] <= 30
    rows = [bool(x.any()) for x in X]
    assert trace.updates[-1] == sum(rows[:30])


def test_a_random_delay_is_cut_at_the_longest_that_there_is_room_for():
    link = channels.link(ob.Delay(mean=50.0), 3)
    delays = [plain(channels.delay_of)(link, i, i) for i in range(100)]
    assert max(delays) > 60 and link.longest == 25 * 51
    cut = link._replace(longest=60)
    assert [plain(channels.delay_of)(cut, i, i) for i in range(100)] == [min(d, 60) for d in delays]


def test_late_answers_come_in_the_order_of_their_arrival():
    said = []

    class Listening(ob.UniformRandom):
        def learn(self, decision, *, right=None, label=None):
            said.append(decision.round)

    learner, channel = Listening(3), ob.Channel([ob.Delay(given=[3, 2, 1, 0, 0])])
    for _ in range(5):
        channel.tell(learner, learner.decide([1.0]), right=True)
    assert said == [0, 1, 2, 3, 4] and len(channel) == 0
    del ob.Learner.registry["Listening"]


@pytest.mark.compiled
@compiled_only
@pytest.mark.parametrize(
    ("channel", "right_heard", "wrong_heard", "silent"),
    [
        (ob.Flip(0.2, 0.4), 0.6, 0.2, 0.0),
        (ob.Silence(0.3), 1.0, 0.0, 0.3),
        (ob.Silence(right=0.5), 1.0, 0.0, None),
    ],
)
def test_rates_are_as_stated(channel, right_heard, wrong_heard, silent):
    heard = {True: [], False: []}

    class Listening(ob.UniformRandom):
        def learn(self, decision, *, right=None, label=None):
            heard[decision.round % 2 == 0].append(right)

    learner, way = Listening(2), ob.Channel([channel], seed=3)
    rounds = 6000
    for t in range(rounds):
        way.tell(learner, learner.decide([1.0]), right=t % 2 == 0)
    assert abs(np.mean(heard[True]) - right_heard) < 0.04
    assert abs(np.mean(heard[False]) - wrong_heard) < 0.04
    if silent is not None:
        assert abs(1 - (len(heard[True]) + len(heard[False])) / rounds - silent) < 0.04
    del ob.Learner.registry["Listening"]


@pytest.mark.compiled
@compiled_only
def test_label_noise_is_of_the_kind_asked_for():
    labels = []

    class Listening(ob.Perceptron):
        def learn(self, decision, *, right=None, label=None):
            labels.append(label)

    for by, kept in (("others", 0.5), ("any", 0.5 + 0.5 / 5)):
        labels.clear()
        learner, way = Listening(5), ob.Channel([ob.LabelNoise(0.5, by=by)])
        for _ in range(5000):
            way.tell(learner, learner.decide([1.0]), label=3)
        shares = np.bincount(labels, minlength=5) / 5000
        assert abs(shares[3] - kept) < 0.03
        assert np.ptp(np.delete(shares, 3)) < 0.04
    del ob.Learner.registry["Listening"]


def test_mistakes_are_counted_against_the_truth():
    X, y = stream(400)
    learner = ob.Perceptron(LABELS)
    for _ in range(20 if COMPILED else 2):
        ob.simulate(learner, X, y)
    frozen = ob.simulate(learner, X, y, channel=[ob.LabelNoise(1.0), ob.Silence(1.0)])
    assert frozen.updates[-1] == 0
    assert frozen.mistakes[-1] == (learner.predict(X) != y).sum()


def test_drift_changes_the_truth():
    X, y = stream(400)
    learner = ob.Perceptron(LABELS)
    for _ in range(20 if COMPILED else 2):
        ob.simulate(learner, X, y)
    silent = [ob.Silence(1.0)]
    start = learner.round
    swapped = ob.simulate(learner.copy(), X, y, channel=[ob.Swap(start, 0, 1), *silent])
    other = np.where(y == 0, 1, np.where(y == 1, 0, y))
    assert swapped.mistakes[-1] == (learner.predict(X) != other).sum()
    turned = ob.simulate(learner.copy(), X, y, channel=[ob.Rotate(0, 1), *silent])
    assert turned.mistakes[-1] == (learner.predict(X) != (y + 1) % LABELS).sum()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ob.Flip(1.0, 0.0),
        lambda: ob.Flip(-0.1, 0.0),
        lambda: ob.Silence(),
        lambda: ob.Silence(0.1, right=0.2),
        lambda: ob.Silence(1.5),
        lambda: ob.LabelNoise(0.1, by="nobody"),
        lambda: ob.Delay(),
        lambda: ob.Delay(3, mean=2.0),
        lambda: ob.Delay(-1),
        lambda: ob.Delay(given=[1, -1]),
        lambda: ob.Delay(given=[0.5]),
        lambda: ob.Swap(-1, 0, 1),
        lambda: ob.Rotate(0, 0),
        lambda: ob.Channel([ob.Delay(1), ob.Delay(2)]),
        lambda: ob.Channel(["noise"]),
        lambda: ob.Channel([], seed=-1),
        lambda: ob.simulate(ob.AROW(LABELS), *stream(), channel=[ob.Flip(0.1, 0.1)]),
        lambda: ob.simulate(ob.Banditron(LABELS), *stream(), channel=[ob.Swap(0, 0, 9)]),
    ],
)
def test_wrong_channels_are_refused(wrong):
    with pytest.raises((ValueError, TypeError)):
        wrong()


def test_a_channel_wants_what_it_needs():
    learner = ob.Banditron(3)
    decision = learner.decide([1.0])
    with pytest.raises(ValueError, match="label=") as _:
        ob.Channel([ob.LabelNoise(0.1)]).tell(learner, decision, right=True)
    with pytest.raises(TypeError, match="right"):
        ob.Channel([]).tell(learner, decision)
    with pytest.raises(ValueError, match="Flip"):
        ob.Channel([ob.Flip(0.1, 0.1)]).tell(ob.AROW(3), decision, label=1)


def test_a_decision_of_another_learner_is_refused_at_once_however_late_it_would_be_heard():
    learner, other = ob.UCWL(3), ob.UCWL(3, seed=4)
    channel = ob.Channel([ob.Delay(2)])
    with pytest.raises(ValueError, match="made by another learner"):
        channel.tell(learner, other.decide([1.0]), right=True)
    assert len(channel) == 0


def test_a_single_step_is_a_channel_of_one():
    X, y = stream(30)
    for step in (ob.Flip(0.3, 0.3), ob.Delay(3), ob.LabelNoise(0.4)):
        one, two, three = (ob.Banditron(LABELS, seed=5) for _ in range(3))
        trace = ob.simulate(one, X, y, channel=step)
        assert (trace.mistakes == ob.simulate(two, X, y, channel=[step]).mistakes).all()
        channel = ob.Channel(step, seed=5)
        for x, label in zip(X, y, strict=True):
            channel.tell(three, three.decide(x), label=int(label))
        assert model_bytes(one) == model_bytes(two) == model_bytes(three)
        run = ob.sweep(ob.Banditron, X, y, labels=LABELS, seed=5, channel=step, threads=1)[0]
        assert (run.trace.mistakes == trace.mistakes).all()
        generated = (given for given in [step])
        runs = ob.sweep(ob.Banditron, X, y, labels=LABELS, seed=[5, 6], channel=generated)
        assert (runs[0].trace.mistakes == trace.mistakes).all()


@pytest.mark.parametrize("wrong", [None, "Flip", 0.1, ob.Flip, ob.Channel([])])
def test_what_is_no_channel_is_refused_with_what_would_be_one(wrong):
    X, y = stream(5)
    for call in (
        lambda: ob.simulate(ob.Banditron(LABELS), X, y, channel=wrong),
        lambda: ob.sweep(ob.Banditron, X, y, labels=LABELS, channel=wrong),
        lambda: ob.Channel(wrong),
    ):
        with pytest.raises(TypeError, match="channel must be a step such as Flip"):
            call()


def test_a_list_of_delays_that_is_too_short_is_refused():
    X, y = stream(30)
    enough, short = ob.Delay(given=[0, 2] * 15), ob.Delay(given=[0] * 29)
    learner = ob.Banditron(LABELS)
    before = model_bytes(learner)
    says = r"has 29 delays, and round 30 needs one too: give one for every round, or use Delay"
    with pytest.raises(ValueError, match=says):
        ob.simulate(learner, X, y, channel=short)
    with pytest.raises(ValueError, match="has 30 delays, and round 60 needs one"):
        ob.simulate(learner, X, y, epochs=2, channel=enough)
    assert model_bytes(learner) == before
    with pytest.raises(ValueError, match=says):
        ob.sweep([learner, ob.UCWL(LABELS)], X, y, channel=short)
    ob.simulate(learner.copy(), X, y, channel=enough)
    chunks = [(X[:20], y[:20]), (X[20:], y[20:])]
    with pytest.raises(ValueError, match=says):
        ob.simulate(learner, chunks, channel=short)
    assert learner.round == 20  # the chunk that runs out of delays changes nothing


def test_a_channel_that_runs_out_of_delays_changes_nothing():
    learner, channel = ob.Banditron(3), ob.Channel(ob.Delay(given=[1, 0]))
    for _ in range(2):
        channel.tell(learner, learner.decide([1.0]), right=False)
    decision, before = learner.decide([1.0]), model_bytes(learner)
    for _ in range(2):
        with pytest.raises(ValueError, match="has 2 delays, and round 3 needs one too"):
            channel.tell(learner, decision, right=False)
        assert model_bytes(learner) == before and len(channel) == 0


@pytest.mark.parametrize("bit", [0, 1, np.int64(0), np.uint8(1), np.True_, np.False_])
def test_0_and_1_are_wrong_and_right(bit):
    plain, stored, through = (ob.UCWL(3, seed=2) for _ in range(3))
    for _ in range(4):
        plain.learn(plain.decide([1.0, 2.0]), right=bool(bit))
        stored.learn(stored.decide([1.0, 2.0]), right=bit)
        ob.Channel([]).tell(through, through.decide([1.0, 2.0]), right=bit)
    assert model_bytes(plain) == model_bytes(stored) == model_bytes(through)


@pytest.mark.parametrize("wrong", [2, -1, "yes", 0.5, 1.0, None, [True]])
def test_other_answers_are_refused_through_a_channel(wrong):
    learner, channel = ob.UCWL(3), ob.Channel([])
    decision = learner.decide([1.0])
    before = model_bytes(learner)
    with pytest.raises(TypeError, match="right"):
        channel.tell(learner, decision, right=wrong)
    assert model_bytes(learner) == before


def test_learner_and_decision_in_the_wrong_order_are_told_apart():
    learner = ob.Banditron(3)
    with pytest.raises(TypeError, match="tell needs the learner, then its decision"):
        ob.Channel([]).tell(learner.decide([1.0]), learner, right=True)
