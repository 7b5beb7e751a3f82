"""The setting explore=: a stated share of rounds is drawn by stated probabilities."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from helpers.makers import maker_of

import onebit as ob
from onebit.core.draws import uniform
from onebit.core.exploring import BAR, EVEN, EXPLORE_DRAW, own_of
from onebit.core.jit import plain
from onebit.learner.looking import propensities_then
from onebit.testing import saved_state, state_bytes

LABELS, SHARE = 5, 0.3
draw = plain(uniform)


def stream(rounds=80, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rounds, 6))
    return X, X[:, :LABELS].argmax(axis=1)


def make(name, **settings):
    return maker_of(ob.Learner.registry[name], {"seed": 4, **settings})(LABELS, features=6)


def drawn_law(chances):
    """The probability of each label in a drawn round. chances: of labels; None: no forecasts."""
    is_open = np.ones(LABELS, bool) if chances is None else chances >= BAR * chances.max()
    return EVEN / LABELS + (1 - EVEN) * is_open / is_open.sum(), is_open


def drawn_label(learner, is_open):
    """The label of a drawn round, by its definition."""
    u = draw(learner.seed, learner.round, EXPLORE_DRAW + 1)
    if u < EVEN:
        return int(u / EVEN * LABELS)
    return int(np.flatnonzero(is_open)[int((u - EVEN) / (1 - EVEN) * is_open.sum())])


@pytest.mark.parametrize("name", ["UCWL", "Confidit", "EpsilonGreedy", "Banditron", "SquareCB"])
def test_decisions_are_those_of_the_definition(name):
    """Beside a learner without exploration, which learns the same answers."""
    X, y = stream()
    learner, bare, drawn = make(name, explore=SHARE), make(name), 0
    for x, truth in zip(X, y, strict=True):
        chances = None
        if learner.forecasts is not None:
            low, high = learner.forecasts
            chances = (learner.scores([x])[0].astype(float) - low) / (high - low)
        chance, is_open = drawn_law(chances)
        own, law = bare.propensities(x), learner.propensities(x)
        np.testing.assert_allclose(law, (1 - SHARE) * own + SHARE * chance, rtol=1e-12)
        expected = bare.copy().decide(x).place
        if draw(learner.seed, learner.round, EXPLORE_DRAW) < SHARE:
            expected, drawn = drawn_label(learner, is_open), drawn + 1
        decision = learner.decide(x)
        assert decision.place == expected and decision.propensity == law[expected]
        right = bool(decision.label == truth)
        learner.learn(decision, right=right)
        bare.learn_logged(x, decision.label, right=right, propensity=decision.propensity)
    assert 10 < drawn < 40
    mine, its = saved_state(learner)[1], saved_state(bare)[1]
    assert mine.keys() == its.keys()
    for key, array in mine.items():
        np.testing.assert_array_equal(array, its[key], err_msg=key)


@pytest.mark.parametrize("name", ["OneBit", "UCWL", "LinearThompson"])
def test_the_law_of_a_decision_is_known_after_it(name):
    """A service stores it with the decision; OneBit has counted the said label by then."""
    X, y = stream()
    learner = make(name, explore=SHARE)
    for x, truth in zip(X, y, strict=True):
        law = learner.propensities(x)
        proposed = learner.propose(x)
        np.testing.assert_array_equal(propensities_then(learner, proposed, False), law)
        decision = learner.decide(x)
        np.testing.assert_array_equal(propensities_then(learner, decision, True), law)
        assert decision.propensity == law[decision.place] == proposed.propensity
        learner.learn(decision, right=bool(decision.label == truth))


@pytest.mark.parametrize("name", ["Banditron", "SOBA", "PNewtron", "OneBit", "UCWL"])
def test_every_label_can_be_said_and_the_rest_is_as_always(name):
    X, y = stream(40)
    learner = make(name, explore=SHARE)
    ob.simulate(learner, X, y)
    bare = ob.Learner.registry[name](LABELS, **{**learner.settings, "explore": 0.0}, features=6)
    assert bare.explore == 0.0 and "explore" not in bare.settings
    assert own_of(bare.params) is bare.params and own_of(learner.params) == bare.params
    law = learner.propensities(X[0])
    assert law.min() >= SHARE * EVEN / LABELS - 1e-12
    among = learner.propensities(X[0], among=[1, 3])
    assert among[[0, 2, 4]].sum() == 0 and among[[1, 3]].min() >= SHARE * EVEN / 2 - 1e-12


@pytest.mark.parametrize("name", ["Banditron", "SOBA", "RCNBF"])
def test_importance_weighted_learners_hear_the_whole_probability(name):
    """The mean update over all labels is that of the law, so it has to weight by the whole."""
    X, y = stream(30)
    learner = make(name, explore=SHARE, dtype="float64")
    ob.simulate(learner, X, y)
    x, truth = X[0], int(y[0])
    law = learner.propensities(x)
    for _ in range(60):
        decision = learner.copy().decide(x)
        assert decision.propensity == pytest.approx(law[decision.place], rel=1e-12)
        learner.round += 1
    if name != "Banditron":
        return
    mean, before = np.zeros_like(learner.weights), learner.weights.copy()
    greedy, met = None, set()
    while len(met) < LABELS:
        copy = learner.copy()
        decision = copy.decide(x)
        copy.learn(decision, right=decision.place == truth)
        if decision.place not in met:
            mean += law[decision.place] * (copy.weights - before)
            met.add(decision.place)
            greedy = decision.greedy_place
        learner.round += 1
    perceptron = np.zeros_like(mean)
    perceptron[truth] += x
    perceptron[greedy] -= x
    np.testing.assert_allclose(mean, perceptron, atol=1e-12)


def test_only_forecasts_rule_labels_out():
    X, y = stream(400)
    for name, rules_out in (("Confidit", True), ("OneBit", True), ("Banditron", False)):
        learner = make(name, explore=SHARE)
        ob.simulate(learner, X, y)
        least = [learner.propensities(x).min() for x in X[:20]]
        even = SHARE / LABELS
        assert (min(least) < 0.5 * even) == rules_out, name


def test_it_is_a_setting_as_others_are(tmp_path):
    learner = ob.UCWL(3, explore=0.05)
    assert learner.settings["explore"] == 0.05 and "explore=0.05" in repr(learner)
    X, y = stream(50)
    ob.simulate(learner, X, y % 3)
    learner.save(tmp_path / "a.onebit")
    again = ob.load(tmp_path / "a.onebit")
    assert again.explore == 0.05 and state_bytes(again) == state_bytes(learner)
    np.testing.assert_array_equal(again.propensities(X[0]), learner.propensities(X[0]))
    for wrong in (-0.1, 1.0, 2, float("nan")):
        with pytest.raises(ValueError, match="explore must be at least 0 and below 1"):
            ob.UCWL(3, explore=wrong)
    with pytest.raises(TypeError, match="explore must be a number"):
        ob.UCWL(3, explore="5%")


@pytest.mark.parametrize("name", ["UCWL", "BanditPerceptron", "SOBA", "OneBit"])
def test_a_changed_propensity_is_refused(name):
    X, y = stream(40)
    learner = make(name, explore=SHARE)
    ob.simulate(learner, X, y)
    for x in X:
        decision = learner.decide(x)
        forged = msgspec.structs.replace(decision, propensity=decision.propensity / 7)
        with pytest.raises(ValueError, match="can have made this decision"):
            learner.learn(forged, right=True)
        learner.learn(decision, right=True)


def test_a_share_of_the_rounds_is_drawn():
    X, y = stream(3000)
    learner = ob.UCWL(LABELS, explore=0.05, seed=2)
    said = [learner.decide(x) for x in X[:1000]]
    drawn = sum(decision.propensity < 0.05 for decision in said)
    assert drawn <= 70  # of 1,000
    trace = ob.simulate(ob.UCWL(LABELS, explore=0.05), X, y)
    bare = ob.simulate(ob.UCWL(LABELS), X, y)
    assert 0 < trace.mistakes[-1] - bare.mistakes[-1] < 250


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["Banditron", "UCWL"])
def test_learners_with_other_shares_run_in_lockstep(name):
    X, y = stream(200)
    learners = [make(name, explore=share) for share in (0.0, 0.05, 0.3, 0.05, 0.6, 0.9)]
    runs = ob.sweep(learners, X, y, threads=1)
    for learner, run in zip(learners, runs, strict=True):
        trace = ob.simulate(learner, X, y)
        assert all((a == b).all() for a, b in zip(trace, run.trace, strict=True))
        assert run.settings.get("explore", 0.0) == learner.explore
