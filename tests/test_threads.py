"""Threads share a learner: no crash, no lost answer, no valid answer refused.

ONEBIT_SOAK=600 pytest tests/test_threads.py spends that many seconds on all learners together.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections import Counter

import numpy as np
import pytest
from helpers.makers import MAKERS
from helpers.waiting import PATIENCE, wait_for

import onebit as ob
from onebit import testing
from onebit.learner import files
from onebit.testing import model_bytes

SECONDS = float(os.environ.get("ONEBIT_SOAK", "3")) / len(MAKERS)
THREADS = 8


def run_together(work, threads=THREADS):
    """Run work(k) on so many threads; what goes wrong in one of them is raised here."""
    errors, begin = [], threading.Barrier(threads)

    def run(k):
        try:
            begin.wait()
            work(k)
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=run, args=(k,)) for k in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.compiled
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(  # crashed, three times of three
            lambda: ob.Confidit(5, kernel="rbf(gamma=2)", budget=30), marks=pytest.mark.thorough
        ),
        lambda: ob.FastCB(5),  # gave rounds twice and refused every fourth answer
    ],
)
def test_two_threads_loop_over_decide_and_learn(make):
    learner, rows = make(), np.random.default_rng(0).normal(size=(50, 64))
    rounds = [[], []]

    def loop(k):
        for i in range(300):
            decision = learner.decide(rows[i % 50])
            rounds[k].append(decision.round)
            learner.learn(decision, right=i % 3 == 0)

    run_together(loop, threads=2)
    assert sorted(rounds[0] + rounds[1]) == list(range(600))


@pytest.mark.parametrize("make", MAKERS)
def test_random_calls_from_many_threads(make):
    learner = make(testing.LABELS)
    X, y = testing._stream(40)
    end, lock = time.monotonic() + SECONDS, threading.Lock()
    rounds, taught, open_decisions = Counter(), Counter(), []

    def decide(draw):
        i = draw.randrange(40)
        decision = learner.decide(testing._pair(X, i))
        with lock:
            rounds[decision.round] += 1
            open_decisions.append((decision, int(y[i])))

    def learn(draw):
        with lock:
            if not open_decisions:
                return
            decision, label = open_decisions.pop(draw.randrange(len(open_decisions)))
        testing._teach(learner, decision, label)
        with lock:
            taught[decision.round] += 1

    def look(draw):
        i = draw.randrange(40)
        assert np.isfinite(learner.scores(X[i])).all() and learner.predict(X[i]).shape == (1,)
        assert abs(learner.propensities(testing._pair(X, i)).sum() - 1) < 1e-9
        assert np.isfinite(learner.weights).all()

    def keep(draw):
        assert files.unpack(model_bytes(learner))[0]["algorithm"]
        learner.copy().decide(testing._pair(X, draw.randrange(40)))

    def forget(draw):
        learner.forget(0.01)

    def run(k):
        draw, calls = random.Random(k), 0
        kinds = [decide] * 8 + [learn] * 8 + [look] * 3 + [keep, forget]
        while time.monotonic() < end or calls < 20:
            draw.choice(kinds)(draw)
            calls += 1

    run_together(run)
    assert set(rounds.values()) <= {1}, "two decisions with one round"
    assert set(taught.values()) <= {1} and len(rounds) == learner.round
    for decision, label in open_decisions:  # and none of the others was taken for answered
        testing._teach(learner, decision, label)


def test_a_stream_and_rounds_do_not_mix():
    learner, (X, y) = ob.UCWL(testing.LABELS), testing._stream(40)
    rounds = [[] for _ in range(4)]

    def run(k):
        for i in range(20):
            if k == 0:
                ob.simulate(learner, X, y)
            else:
                decision = learner.decide(testing._pair(X, i))
                learner.learn(decision, right=True)
                rounds[k].append(decision.round)

    run_together(run, threads=4)
    played = [round for some in rounds for round in some]
    assert len(played) == len(set(played)) == 60 and learner.round == 60 + 20 * 40


def test_labels_are_added_while_others_predict():
    learner, added = ob.Banditron([str(i) for i in range(3)]), 40

    def run(k):
        for i in range(added):
            if k == 0:
                learner.add_label(f"new {i}")
            else:
                assert learner.predict(np.eye(3)).shape == (3,)
                decision = learner.decide(np.ones(3))
                learner.learn(decision, right=True)

    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        run_together(run, threads=4)
    finally:
        sys.setswitchinterval(switch)
    assert len(learner.labels) == 3 + added


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_while_another_thread_decides_does_not_hang():
    learner, stop = ob.Banditron(3), threading.Event()
    learner.decide(np.ones(3))  # numba's compiler does hang in a process forked while it compiles

    def decide():
        while not stop.is_set():
            learner.decide(np.ones(3))

    busy = threading.Thread(target=decide)
    busy.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                learner.decide(np.ones(3))
                os._exit(0)
            try:
                wait_for(lambda child=child: os.waitpid(child, os.WNOHANG)[0])
            except AssertionError:
                os.kill(child, 9)
                os.waitpid(child, 0)
                raise AssertionError("the forked process hangs") from None
    finally:
        stop.set()
        busy.join()


@pytest.mark.compiled
@pytest.mark.thorough  # which runs without coverage: an interrupt in its own lock would hang
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers that interrupt")
def test_an_interrupt_leaves_the_lock_free():
    learner, rng = ob.Banditron(3), random.Random(1)
    x = (np.array([0, 1], np.int32), np.array([1, 2], np.float32))
    learner.learn(learner.decide(x), right=True)  # compiled

    def learn_until_interrupted():
        signal.setitimer(signal.ITIMER_REAL, rng.uniform(2e-5, 5e-4))
        while True:
            learner.learn(learner.decide(x), right=True)

    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for _ in range(200):
            with pytest.raises(KeyboardInterrupt):
                learn_until_interrupted()
            assert not learner.lock._is_owned()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers that interrupt")
def test_an_interrupt_while_waiting_for_the_lock_is_raised():
    learner = ob.Banditron(3)
    decision = learner.decide([1.0, 2.0])
    done, held = threading.Event(), threading.Event()

    def hold():
        with learner.lock:
            held.set()
            done.wait(PATIENCE)

    def interrupted(call):
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        call()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(PATIENCE)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for call in (
            lambda: learner.decide([1.0, 2.0]),
            lambda: learner.learn(decision, right=True),
        ):
            with pytest.raises(KeyboardInterrupt):
                interrupted(call)
    finally:
        signal.signal(signal.SIGALRM, before)
        done.set()
        holder.join()
    learner.learn(decision, right=True)


def test_of_two_reloads_at_once_the_later_file_is_used(tmp_path, monkeypatch):
    path, writer = tmp_path / "model", ob.Banditron(3)
    writer.save(path)
    reader, read, threads = ob.load(path), files.read, []

    def read_slowly(path):
        found = read(path)
        if not threads:  # the first one: meanwhile there is a new file, and another reload
            writer.learn(writer.decide([1.0, 2.0]), right=True)
            writer.save(path)
            threads.append(threading.Thread(target=reader.reload, args=(path,)))
            threads[0].start()
            threads[0].join(0.3)
        return found

    monkeypatch.setattr(files, "read", read_slowly)
    reader.reload(path)
    threads[0].join()
    assert reader.round == writer.round and (reader.weights == writer.weights).all()
