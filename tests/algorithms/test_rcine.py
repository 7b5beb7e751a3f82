"""RCINE: RCNBF with rates that it estimates as it goes."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from helpers import naive
from helpers.waiting import PATIENCE
from numpy.testing import assert_allclose, assert_array_equal

import onebit as ob
from onebit import testing
from onebit.algorithms import rcine
from onebit.feedback.noise import Log, NotIdentified
from onebit.lab.sweeping import sweep
from onebit.learner import files
from onebit.learner.laying import lay_out
from onebit.learner.table import NO_MAP
from onebit.testing import saved_state

K, D, N_S = 5, 8, 37
FLIPS = [ob.Flip(0.2, 0.1)]


def stream(rows=150, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, D)) * (rng.random((rows, D)) < 0.6)
    return X, (X @ rng.normal(size=(D, K))).argmax(axis=1)


def by_mean(log: Log) -> tuple[float, float]:
    """A made-up estimate that depends on every column of the log."""
    rows = np.add.reduceat(log.X.values.astype(np.float64), log.X.indptr[:-1])
    mixed = log.said @ rows + log.right @ np.abs(rows) + log.propensities.sum()
    return abs(np.sin(mixed)) / 3, abs(np.cos(mixed)) / 3


class Twin(naive.RCNBF):
    """Algorithm 2, with the said label in the update as in Algorithm 1."""

    def __init__(self, K, d, *, gamma, N_s, estimate):
        super().__init__(K, d, gamma=gamma)
        self.N_s, self.estimate, self.S = N_s, estimate, []

    def learn(self, x, choice, right, round, draw):
        if not x.any():
            return False
        super().learn(x, choice, right, round, draw)
        self.S.append((x, choice.label, right, choice.propensity))
        if len(self.S) == self.N_s:
            X, said, bits, P = (np.array(column) for column in zip(*self.S, strict=True))
            self.rho, self.S = self.estimate(Log(X, said, bits, P, self.K)), []
        return True


@pytest.mark.parametrize("buffer", [4096, 3])
def test_it_is_algorithm_2(buffer, monkeypatch):
    """Round by round against the twin; also with a buffer so small that contexts are cut in two."""
    monkeypatch.setattr(rcine, "_BUFFER", buffer)
    monkeypatch.setattr(rcine, "_LONGER", 1 if buffer == 3 else 16)
    X, y = stream()
    learner = ob.RCINE(K, gamma=0.3, N_s=N_S, estimate=by_mean, features=D, dtype="float64", seed=2)
    twin = Twin(K, D, gamma=0.3, N_s=N_S, estimate=by_mean)
    seen = set()
    for t, (x, label) in enumerate(zip(X, y, strict=True)):
        said = learner.decide(x)
        assert said.greedy_place == twin.greedy(x)
        right = bool(said.place == label) != (t % 7 == 0)
        learner.learn(said, right=right)
        choice = naive.Choice(said.place, said.greedy_place, said.propensity)
        twin.learn(x, choice, right, t, None)
        assert_allclose(learner.rates, twin.rho, rtol=1e-12)
        assert_allclose(learner.weights, twin.W, rtol=1e-9, atol=1e-12)
        seen.add(learner.rates)
    assert len(seen) == 1 + sum(x.any() for x in X) // N_S


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_before_its_first_estimate_it_is_banditron_bit_for_bit(dtype):
    X, y = stream(300)
    three = [make(K, seed=3, dtype=dtype) for make in (ob.Banditron, ob.RCNBF, ob.RCINE)]
    traces = [ob.simulate(learner, X, y, channel=FLIPS) for learner in three]
    for learner, trace in zip(three, traces, strict=True):
        assert_array_equal(trace, traces[0])
        assert learner.table.weights().tobytes() == three[0].table.weights().tobytes()
    assert three[2].rates == (0.0, 0.0) and three[2].doubt == "there is no estimate yet"


@pytest.mark.parametrize("channel", [FLIPS, [ob.Flip(0.2, 0.1), ob.Silence(0.5), ob.Delay(9)]])
def test_a_stream_gives_the_same_rates_as_round_by_round(channel):
    X, y = stream()
    one, two = (ob.RCINE(K, N_s=N_S, estimate=by_mean, seed=4) for _ in range(2))
    ob.simulate(one, X, y, channel=channel)
    way = ob.Channel(channel, seed=4)
    for x, label in zip(X, y, strict=True):
        way.tell(two, two.decide(x), label=int(label))
    assert one.rates == two.rates != (0.0, 0.0)
    assert testing.state_bytes(one) == testing.state_bytes(two)
    (run,) = sweep([ob.RCINE(K, N_s=N_S, estimate=by_mean, seed=4)], X, y, channel=channel)
    assert run.rates == one.rates
    (early,) = sweep([ob.RCINE(K, N_s=10**4)], X, y)
    assert early.rates is None


@pytest.mark.parametrize("N_s", [1, 3, 7])
def test_the_stream_pauses_in_the_middle_of_late_answers(N_s, monkeypatch):
    """All answers of ten rounds come together, the last ones in the last round."""
    monkeypatch.setattr(rcine, "_BUFFER", 2)
    X, y = stream()
    channel = [ob.Flip(0.2, 0.1), ob.Delay(given=[9 - t % 10 for t in range(len(y))])]
    whole, single = (ob.RCINE(K, N_s=N_s, estimate=by_mean, seed=4) for _ in range(2))
    trace = ob.simulate(whole, X, y, channel=channel)
    way = ob.Channel(channel, seed=4)
    for x, label in zip(X, y, strict=True):
        way.tell(single, single.decide(x), label=int(label))
    assert trace.updates[-1] == sum(x.any() for x in X)
    assert whole.rates == single.rates != (0.0, 0.0)
    assert testing.state_bytes(whole) == testing.state_bytes(single)


def test_a_log_in_progress_is_saved(tmp_path):
    X, y = stream()
    through, stopped = (ob.RCINE(K, N_s=N_S, estimate=by_mean, seed=4) for _ in range(2))
    ob.simulate(through, X, y)
    for part in (slice(0, 50), slice(50, 51), slice(51, None)):
        ob.simulate(stopped, X[part], y[part])
        stopped.save(tmp_path / "model")
        with pytest.raises(ValueError, match=r"pass it again, load\(path, estimate=...\)"):
            ob.load(tmp_path / "model")
        stopped = ob.load(tmp_path / "model", estimate=by_mean)
    assert testing.state_bytes(through) == testing.state_bytes(stopped)


DAMAGE = {
    "a column is missing": lambda a: a.pop("said"),
    "one too many": lambda a: a.update(more=np.zeros(3)),
    "a label that is not there": lambda a: a["said"].__setitem__(0, K),
    "a negative label": lambda a: a["said"].__setitem__(0, -1),
    "an index beyond the table": lambda a: a["indices"].__setitem__(0, 99),
    "lengths that do not add up": lambda a: a["lengths"].__setitem__(0, 99),
    "lengths whose sum wraps": lambda a: a["lengths"].__setitem__(
        slice(0, 4), [2**62 + a["lengths"][:4].sum(), 2**62, 2**62, 2**62]
    ),
    "a propensity of nothing": lambda a: a["propensities"].__setitem__(0, 0.0),
    "a length of nothing": lambda a: a["lengths"].__setitem__(0, 0),
    "columns of different lengths": lambda a: a.update(right=a["right"][:-1]),
    "another type": lambda a: a.update(said=a["said"].astype(np.int32)),
    "rates beyond one": lambda a: a["rates"].__setitem__(0, 1.5),
    "a negative rate": lambda a: a["rates"].__setitem__(0, -0.1),
    "three rates": lambda a: a.update(rates=np.zeros(3)),
    "more answers than there may be": lambda a: a.update(
        {n: np.tile(a[n], 4) for n in a if n not in ("rates", "table", "memory", "answered")}
    ),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_log_is_refused(what, tmp_path):
    learner = ob.RCINE(K, N_s=N_S)
    ob.simulate(learner, *(part[:20] for part in stream()))
    head, arrays = saved_state(learner)
    DAMAGE[what](arrays)
    files.write(tmp_path / "model", head, arrays)
    with pytest.raises(ValueError, match=r"do not fit its settings|not fit its algorithm"):
        ob.load(tmp_path / "model")


def test_an_estimate_that_cannot_be_made_leaves_the_rates():
    answers = iter([(0.2, 0.1), NotIdentified("too little was said"), (0.6, 0.3999), (0.0, 0.5)])

    def estimate(log):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    X, y = stream(40)
    X[:, 0] = 1.0  # none is empty
    learner = ob.RCINE(K, N_s=10, estimate=estimate)
    expected = [(0.2, 0.1), (0.2, 0.1), (0.2, 0.1), (0.0, 0.5)]
    doubts = [
        "",
        "too little was said",
        "rates of 0.600 and 0.400: feedback carries no information",
        "",
    ]
    for i in range(4):
        ob.simulate(learner, X[10 * i : 10 * i + 10], y[10 * i : 10 * i + 10])
        assert (learner.rates, learner.doubt) == (expected[i], doubts[i])


@pytest.mark.parametrize(
    "answer", [(1.5, 0.0), (-0.1, 0.0), (float("nan"), 0.0), ("a", 0.0), None, (0.1,), "ab", 0.2]
)
def test_an_estimate_that_makes_no_sense_is_an_error(answer):
    learner = ob.RCINE(K, N_s=10, estimate=lambda log: answer)
    says = "an estimated rate must be|estimate must give two rates"
    with pytest.raises((TypeError, ValueError), match=says):
        ob.simulate(learner, *stream(40))
    assert learner.rates == (0.0, 0.0)


def test_errors_of_a_function_are_raised_and_nothing_overflows(monkeypatch):
    monkeypatch.setattr(rcine, "_BUFFER", 4)

    def fails(log):
        raise OSError("no such file")

    learner = ob.RCINE(K, N_s=10, estimate=fails)
    with pytest.raises(OSError, match="no such file"):
        ob.simulate(learner, *stream(200), checkpoints=[200])
    assert len(learner.table.arrays()["said"]) < 10 and learner.round == 200
    learner.table.storage._estimate = by_mean
    ob.simulate(learner, *stream(50))
    assert learner.rates != (0.0, 0.0)
    again = learner.copy()
    assert testing.state_bytes(again) == testing.state_bytes(learner)


def test_an_error_of_the_estimate_comes_when_the_answer_is_taken_down():
    def fails(log):
        raise OSError("no such file")

    learner = ob.RCINE(K, N_s=2, estimate=fails)
    first, second = (learner.decide(np.ones(D)) for _ in range(2))
    learner.learn(first, right=True)
    with pytest.raises(OSError, match="no such file"):
        learner.learn(second, right=False)
    with pytest.raises(ValueError, match="answered already"):
        learner.learn(second, right=False)
    learner.learn(learner.decide(np.ones(D)), right=True)


def test_in_the_background_learning_goes_on():
    begun, go_on = threading.Event(), threading.Event()
    calls = []

    def slowly(log):
        calls.append(log)
        begun.set()
        assert go_on.wait(PATIENCE)
        return 0.2, 0.1

    X, _ = stream(60)
    X[:, 0] = 1.0
    learner = ob.RCINE(K, N_s=10, estimate=slowly, background=True)
    for x in X[:40]:
        learner.learn(learner.decide(x), right=True)
    assert begun.wait(PATIENCE) and learner.rates == (0.0, 0.0)
    assert learner.round == 40 and len(calls) == 1  # one at a time
    go_on.set()
    learner.table.storage.thread.join(PATIENCE)
    assert learner.rates == (0.2, 0.1)


def test_a_fresh_start_does_not_wait_for_a_thread():
    go_on = threading.Event()

    def slowly(log):
        assert go_on.wait(PATIENCE)
        return 0.2, 0.1

    learner = ob.RCINE(K, N_s=5, estimate=slowly, background=True)
    for _ in range(5):
        learner.learn(learner.decide(np.ones(D)), right=True)
    thread = learner.table.storage.thread
    learner.forget()
    go_on.set()
    thread.join(PATIENCE)
    learner.learn(learner.decide(np.ones(D)), right=True)
    assert learner.rates == (0.0, 0.0)


def forget_at(line):
    """A learner that forgets when its thread has come to this line of its code, or its end.

    Also whether the thread has come that far.
    """
    arrived, go_on = threading.Event(), threading.Event()
    seen = 0

    def stop_there(frame, event, value):
        nonlocal seen
        if frame.f_code.co_filename != rcine.__file__:
            return None
        seen += event == "line"
        if event == "line" and seen == line:
            arrived.set()
            assert go_on.wait(PATIENCE)
        return stop_there

    learner = ob.RCINE(K, N_s=5, estimate=by_mean, background=True)
    decisions = [learner.decide(np.ones(D)) for _ in range(6)]
    for decision in decisions[:4]:
        learner.learn(decision, right=True)
    before = threading.gettrace()
    threading.settrace(stop_there)
    try:
        learner.learn(decisions[4], right=True)
    finally:
        threading.settrace(before)
    thread = learner.table.storage.thread
    while thread.is_alive() and not arrived.wait(0.001):
        pass
    learner.forget()
    go_on.set()
    thread.join(PATIENCE)
    learner.learn(decisions[5], right=True)
    return learner, arrived.is_set()


def test_a_fresh_start_at_any_moment_ignores_what_a_thread_finds():
    fresh = ob.RCINE(K)
    for line in range(1, 100):
        learner, arrived = forget_at(line)
        assert (learner.rates, learner.doubt) == (fresh.rates, fresh.doubt)
        if not arrived:
            break
    assert 5 < line < 99


def test_what_a_thread_has_found_is_saved():
    learner = ob.RCINE(K, N_s=5, estimate=by_mean, background=True)
    for _ in range(5):
        learner.learn(learner.decide(np.ones(D)), right=True)
    learner.table.storage.thread.join(PATIENCE)
    assert learner.copy().rates != (0.0, 0.0)


def test_in_the_background_a_failure_is_told():
    def fails(log):
        raise OSError("no such file")

    learner = ob.RCINE(K, N_s=5, estimate=fails, background=True)
    for _ in range(6):
        learner.learn(learner.decide(np.ones(D)), right=True)
    learner.table.storage.thread.join(PATIENCE)
    assert learner.rates == (0.0, 0.0) and learner.doubt == "OSError: no such file"


def test_a_simulation_waits_for_the_estimate_also_with_background():
    def slowly(log):
        time.sleep(0.05)
        return by_mean(log)

    X, y = stream()
    one, two = (
        ob.RCINE(K, N_s=N_S, estimate=slowly, background=background) for background in (True, False)
    )
    ob.simulate(one, X, y)
    ob.simulate(two, X, y)
    assert one.rates == two.rates and (one.weights == two.weights).all()


def test_a_named_label_is_neither_corrected_nor_collected():
    X, y = stream()
    learner = ob.RCINE(K, N_s=N_S, estimate=by_mean, features=D, dtype="float64")
    ob.simulate(learner, X, y)
    assert learner.rates != (0.0, 0.0)
    twin = ob.Banditron(K, features=D, dtype="float64")
    weights, memory = learner.table.weights(), learner.table.state.memory
    lay_out(twin, twin.table.storage, None, memory, {}, NO_MAP, len(weights), weights)
    twin.round = learner.round
    collected = len(learner.table.arrays()["said"])
    x = np.linspace(-1, 2, D)
    learner.learn(learner.decide(x), label=2)
    twin.learn(twin.decide(x), label=2)
    assert (learner.weights == twin.weights).all()
    assert len(learner.table.arrays()["said"]) == collected


def test_the_network_is_asked_for_at_once(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="needs scikit-learn"):
        ob.RCINE(K, estimate="nrest")


def test_bad_settings_are_refused():
    for given, says in [
        ({"N_s": 0}, "N_s must be between"),
        ({"N_s": 2.5}, "N_s must be a whole number"),
        ({"estimate": "guess"}, "estimate must be one of 'levels', 'nrest'"),
        ({"background": 1}, "background must be True or False"),
        ({"gamma": 0}, "gamma must be above 0"),
    ]:
        with pytest.raises((TypeError, ValueError), match=says):
            ob.RCINE(K, **given)
