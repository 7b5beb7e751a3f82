"""Code as users write it: pyright checks this file, and pytest runs it.

Where a line must be an error for pyright, it has a `pyright: ignore` that must not be unnecessary.
"""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true

from pathlib import Path
from typing import assert_type

import numpy as np
import pytest

import onebit as ob

ROWS = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 2.0]]
LABELS = [0, 1, 2, 1]


def test_no_setting_has_to_be_given():
    learners = [
        ob.AROW(3),
        ob.BPA(3),
        ob.BanditPerceptron(3),
        ob.Banditron(3),
        ob.CW(3),
        ob.Confidit(3),
        ob.EGBandit(3),
        ob.EpsilonGreedy(3),
        ob.FastCB(3),
        ob.Halving(3, hypotheses=[np.zeros((3, 2))]),
        ob.LinearThompson(3),
        ob.Newtron(3),
        ob.OneBit(3),
        ob.PNewtron(3),
        ob.PNormBandit(3),
        ob.PassiveAggressive(3),
        ob.Perceptron(3),
        ob.RCINE(3),
        ob.RCNBF(3),
        ob.SCW(3),
        ob.SOBA(3),
        ob.SecondOrderPerceptron(3),
        ob.SquareCB(3),
        ob.UCWL(3),
        ob.UniformRandom(3),
    ]
    assert {type(learner).__name__ for learner in learners} == set(ob.__all__) & set(
        ob.Learner.registry
    )


def test_settings_are_given_by_name():
    learner = ob.Banditron(labels=["sport", "tech"], gamma=0.2, kernel="rbf(gamma=2)", seed=7)
    assert_type(learner, ob.Banditron)
    assert_type(learner.gamma, float)
    ob.Confidit(["a", "b"], form="full", reg=0.5, project=True, dtype="float64", half_life=100)
    ob.RCINE(3, N_s=100, estimate=lambda log: (0.1, 0.2), silence="wrong", features=10)


def test_a_wrong_setting_is_an_error():
    with pytest.raises(TypeError, match="did you mean 'gamma'"):
        ob.Banditron(3, gama=0.1)  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="must be a number"):
        ob.Banditron(3, gamma="0.1")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="must be one of"):
        ob.UCWL(3, form="half")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="labels"):
        ob.AROW()  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="needs hypotheses="):
        ob.Halving(3)  # pyright: ignore[reportCallIssue]
    with pytest.raises(AttributeError, match="Banditon"):
        ob.Banditon(3)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


def test_rounds(tmp_path: Path):
    learner = ob.SOBA(["sport", "tech"])
    decision = learner.decide({"goal": 1, "team": "red"}, among=["sport", "tech"])
    assert_type(decision, ob.Decision)
    assert_type(decision.propensity, float)
    learner.learn(decision, right=decision.label == "sport")
    learner.learn(learner.decide("a late goal"), label="tech")
    with pytest.raises(TypeError, match="right must be True or False"):
        learner.learn(learner.decide("a late goal"), right="yes")  # pyright: ignore[reportArgumentType]
    learner.save(tmp_path / "news.onebit")
    loaded = ob.load(tmp_path / "news.onebit", salt="web-1")
    assert_type(loaded, ob.Learner)
    assert loaded.predict(["a late goal"]).shape == (1,)


def test_streams():
    channel = [ob.Flip(0.1, 0.2), ob.Silence(0.3), ob.Delay(2)]
    trace = ob.simulate(ob.Banditron(3), ROWS, LABELS, channel=channel, epochs=2)
    assert_type(trace, ob.Trace)
    assert trace.rounds[-1] == 8 and trace.error[-1] <= 1
    runs = ob.sweep(ob.Banditron, ROWS, LABELS, labels=3, gamma=[0.01, 0.1], seed=range(2))
    assert [run.settings["gamma"] for run in runs] == [0.01, 0.01, 0.1, 0.1]
    assert_type(runs[0].trace, ob.Trace)
    with pytest.raises(ValueError, match="order"):
        ob.simulate(ob.AROW(3), ROWS, LABELS, order="random")  # pyright: ignore[reportArgumentType]
