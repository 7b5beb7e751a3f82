"""Threads and processes that share a model: docs/processes.md, run, and what it promises."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import onebit as ob
from onebit.learner.copies import set_salt
from onebit.learner.decision import salted

PAGE = (Path(__file__).parent.parent / "docs" / "processes.md").read_text()
BLOCKS = dict(re.findall(r"```(?:python|sh)\n(# \w+\.py|from|\()(.*?)```", PAGE, re.S))
X = np.eye(7)


def test_the_page_about_threads():
    exec("from" + BLOCKS["from"], {})


def test_the_page_about_processes(tmp_path):
    """Two deciders and a learner: shares as promised, propensities true, nothing learned twice."""
    model, gamma = tmp_path / "news.onebit", 0.3
    ob.EpsilonGreedy(labels=["sport", "politics"], epsilon=gamma).save(model)
    for name in ("decide.py", "learn.py"):
        (tmp_path / name).write_text(f"# {name}{BLOCKS[f'# {name}']}")
    (tmp_path / "python").symlink_to(sys.executable)
    command = "(" + BLOCKS["("].replace("| python", "| tee told | python")
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=tmp_path, env=env, check=True)

    lines = [line.split() for line in (tmp_path / "told").read_text().splitlines()]
    decisions = [ob.Decision.from_bytes(bytes.fromhex(stored)) for stored, _ in lines]
    assert len(decisions) == 600 == len({(d.salt, d.round) for d in decisions})
    explored = {
        salt: [d.round for d in decisions if d.salt == salt and d.explored]
        for salt in ("web-1", "web-2")
    }
    for rounds in explored.values():  # half of what is tried is the greedy label
        assert abs(len(rounds) - 300 * gamma / 2) < 5 * np.sqrt(300 * 0.15 * 0.85)
    assert explored["web-1"] != explored["web-2"], "they explore in the same rounds"
    assert {round(d.propensity, 9) for d in decisions if d.explored} == {gamma / 2}
    assert {round(d.propensity, 9) for d in decisions if not d.explored} == {1 - gamma / 2}

    learner = ob.load(model)
    assert learner.round == 1 + max(d.round for d in decisions)
    for decision in decisions[::7]:
        with pytest.raises(ValueError, match="answered already"):
            learner.learn(decision, right=True)
    assert list(learner.predict([{"word": "1"}, {"word": "4"}])) == ["sport", "politics"]


def test_a_process_that_only_decides_and_one_that_only_learns(tmp_path):
    """Each loads the file anew for every request: what is learned moves the rounds on."""
    model, explored = tmp_path / "p.onebit", 0
    ob.Banditron(5, gamma=0.3).save(model)
    for i in range(300):
        decision = ob.load(model).decide(X[i % 7])
        explored += decision.explored
        learner = ob.load(model)
        learner.learn(decision, right=False)
        with pytest.raises(ValueError, match="answered already"):
            learner.learn(decision, right=False)
        learner.save(model)
    assert abs(explored - 300 * 0.3 * 0.8) < 5 * np.sqrt(300 * 0.24 * 0.76)


def test_deciders_draw_independently_and_say_how_likely_it_was():
    learner = ob.Banditron(4, gamma=0.5, seed=3)
    learner.learn(learner.decide(X[0]), right=True)
    saids = []
    for salt in ("", "web-1", "web-2"):
        decider = learner.copy()
        set_salt(decider, salt)
        law = decider.propensities(X[0])
        said = [decider.decide(X[0]) for _ in range(4000)]
        saids.append(np.array([d.place for d in said]))
        seen = np.bincount(saids[-1], minlength=4)
        assert (np.abs(seen - 4000 * law) < 5 * np.sqrt(4000 * law * (1 - law))).all()
        assert all(abs(d.propensity - law[d.place]) < 1e-12 for d in said)
    for one, two in ((0, 1), (0, 2), (1, 2)):
        both = np.mean(saids[one] == saids[two])  # by chance, law.law
        assert abs(both - (law**2).sum()) < 5 * np.sqrt(0.25 / 4000)


@pytest.mark.parametrize("settings", [{}, {"half_life": 64}])
def test_learning_elsewhere_equals_learning_here(settings):
    """A process that only learns ends as one that decides and learns, and fades as it does."""
    both = ob.Confidit(3, alpha=0.5, dtype="float64", **settings)
    there, here = both.copy(), both.copy()
    for i in range(200):
        one = both.decide(X[i % 7])
        both.learn(one, right=i % 3 == 0)
        two = there.decide(X[i % 7])
        there.learn(two, right=i % 3 == 0)
        here.learn(ob.Decision.from_bytes(two.to_bytes()), right=i % 3 == 0)
    assert np.array_equal(here.weights, both.weights) and here.round == both.round == 200


def test_rounds_far_ahead_fade_at_once():
    learner = ob.Confidit(3, half_life=16)
    learner.learn(learner.decide(X[0]), right=True)
    ahead = learner.copy()
    ahead.round = 10**8
    before = np.abs(learner.weights).max()
    learner.learn(ahead.decide(X[1]), right=True)
    assert learner.round == 10**8 + 1
    assert np.abs(learner.weights[:, 0]).max() < 1e-9 * before


@pytest.mark.parametrize("alpha", [1.0, 0.0])
def test_what_is_drawn_for_a_decision_follows_the_salt_of_its_decider(alpha):
    """Confidit draws its target in `learn`: the learner takes the decider's draw."""
    model = ob.Confidit(3, alpha=alpha, dtype="float64")
    decider, learner = model.copy(), model.copy()
    set_salt(decider, "web")
    for i in range(60):
        decision = decider.decide(X[i % 7])
        decider.learn(decision, right=False)
        learner.learn(decision, right=False)
    assert np.array_equal(decider.weights, learner.weights)


def test_answers_of_other_deciders_are_saved_and_taken_over(tmp_path):
    path, learner = tmp_path / "m.onebit", ob.Banditron(3, seed=5)
    decider = learner.copy()
    set_salt(decider, "web")
    decisions = [decider.decide(X[i % 7]) for i in range(2000)]
    own = learner.decide(X[0])
    for decision in (own, *decisions[::2]):
        learner.learn(decision, right=True)
    learner.save(path)
    for again in (ob.load(path), ob.load(path, salt="web"), learner.copy()):
        for decision in (own, decisions[0], decisions[1998]):
            with pytest.raises(ValueError, match="answered already"):
                again.learn(decision, right=True)
        again.learn(decisions[1], right=True)
        assert again.round == 1999
        assert pickle.loads(pickle.dumps(again)).save(tmp_path / "2") is None
    assert ob.load(path, salt="web").salt == "web" and ob.load(path).salt == ""


def test_the_salt_of_a_learner_is_saved_with_it(tmp_path):
    ob.Banditron(3).save(tmp_path / "a")
    ob.load(tmp_path / "a", salt="web").save(tmp_path / "b")
    learner = ob.load(tmp_path / "b")
    assert learner.salt == "web" == learner.copy().salt
    assert learner.draw_seed == salted(0, "web") != 0


@pytest.mark.parametrize("salt", [3, "a\n", "x" * 101, b"web"])
def test_a_salt_is_a_short_line(tmp_path, salt):
    ob.Banditron(3).save(tmp_path / "a")
    with pytest.raises((TypeError, ValueError), match="a salt is"):
        ob.load(tmp_path / "a", salt=salt)


def test_reload_takes_over_what_was_learned_and_keeps_salt_and_rounds(tmp_path):
    path = tmp_path / "m.onebit"
    ob.UCWL(3).save(path)
    learner, decider = ob.load(path), ob.load(path, salt="web")
    decisions = [decider.decide(X[i % 7]) for i in range(50)]
    for decision in decisions[:40]:
        learner.learn(decision, right=decision.round % 2 == 0)
    learner.save(path)
    decider.reload(path)
    assert (decider.salt, decider.round) == ("web", 50)
    assert np.array_equal(decider.weights, learner.weights)
    with pytest.raises(ValueError, match="answered already"):
        decider.learn(decisions[3], right=True)
    decider.learn(decisions[45], right=True)
    ob.UCWL(3, eta=0.9).save(path)
    before = decider.weights
    with pytest.raises(ValueError, match="another model"):
        decider.reload(path)
    path.write_bytes(b"rubbish")
    with pytest.raises(ValueError, match="not a onebit model file"):
        decider.reload(path)
    assert np.array_equal(decider.weights, before) and decider.round == 50


def test_reload_while_others_use_the_learner(tmp_path):
    path, stop, errors = tmp_path / "m.onebit", threading.Event(), []
    learner = ob.FastCB(3)
    learner.save(path)

    def decide():
        try:
            while not stop.is_set():
                learner.decide(X[1])
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=decide) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(30):
        learner.reload(path)
    stop.set()
    for thread in threads:
        thread.join()
    assert not errors


def test_reload_remembers_how_wide_dense_rows_are(tmp_path):
    path = tmp_path / "m.onebit"
    ob.UCWL(3).save(path)
    learner, decider = ob.load(path), ob.load(path, salt="web")
    learner.learn(decider.decide([1.0, 2.0, 3.0]), right=True)
    learner.save(path)
    decider.reload(path)
    with pytest.raises(ValueError, match="columns"):
        decider.decide([1.0, 2.0, 3.0, 4.0, 5.0])
