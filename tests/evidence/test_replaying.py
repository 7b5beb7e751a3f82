"""Learning from a log in compiled code, against `learn` and `learn_logged` round by round."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.makers import SETTINGS, maker_of

import onebit as ob
import onebit.algorithms  # so that every learner is registered
from onebit.evidence.replaying import learn_block, tell_block
from onebit.evidence.rows import LogBlock, part_of
from onebit.learner.logged import count_said
from onebit.testing import saved_state

LABELS, ROUNDS = 5, 40
UNANSWERED = {3, 4, 17}
LEARNERS = [
    name
    for name, kind in ob.Learner.registry.items()
    if kind.__module__.startswith("onebit.") and not kind.needs
]


def stream(rounds=ROUNDS, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rounds, 6))
    return X, X[:, :LABELS].argmax(axis=1)


def make(name, **settings):
    return ob.Learner.registry[name](LABELS, seed=3, **settings)


def block_of(X, said, right, propensity, truth=None, allowed=None):
    size = len(said)
    return LogBlock(
        X,
        np.array(said),
        np.array(right, int),
        np.full(size, -1) if truth is None else np.array(truth),
        np.array(propensity, float),
        np.zeros((size, 0)),
        np.zeros((0, LABELS), bool) if allowed is None else allowed,
        np.arange(size) + 1,
        np.zeros(0),
        [],
    )


def own_log(learner, X, y, unanswered=()):
    """The learner decides and learns; its decisions as a log."""
    said, right, propensity = [], [], []
    for i, (x, truth) in enumerate(zip(X, y, strict=True)):
        decision = learner.decide(x)
        said.append(decision.place)
        right.append(-1 if i in unanswered else int(decision.label == truth))
        propensity.append(decision.propensity)
        if i in unanswered:
            continue
        if learner.full_information:
            learner.learn(decision, label=int(truth))
        else:
            learner.learn(decision, right=bool(right[-1]))
    truth = np.where(np.array(right) >= 0, y, -1) if learner.full_information else None
    return block_of(X, said, right, propensity, truth)


def assert_same(one, other):
    mine, its = saved_state(one), saved_state(other)
    assert mine[0] == its[0]
    assert mine[1].keys() == its[1].keys()
    for name, array in mine[1].items():
        np.testing.assert_array_equal(array, its[1][name], err_msg=name)


@pytest.mark.parametrize("explore", [0.0, 0.3])
@pytest.mark.parametrize("name", LEARNERS)
def test_own_decisions_through_this_door_give_the_same_bits(name, explore):
    X, y = stream()
    own, observer = make(name, explore=explore), make(name, explore=explore)
    log = own_log(own, X, y, UNANSWERED)
    learn_block(observer, log)
    assert_same(own, observer)


@pytest.mark.parametrize(
    ("learner", "settings"),
    [
        pytest.param(ob.Learner.registry[name], settings, id=f"{name}-{i}")
        for name, others in SETTINGS.items()
        for i, settings in enumerate(others, 1)
        if "estimate" not in settings
    ],
)
def test_own_decisions_of_other_forms_give_the_same_bits(learner, settings):
    X, y = stream()
    own, observer = (
        maker_of(learner, settings)(LABELS, features=X.shape[1], seed=3) for _ in range(2)
    )
    log = own_log(own, X, y, UNANSWERED)
    learn_block(observer, log)
    assert_same(own, observer)


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["Banditron", "OneBit"])
def test_compiled_code_gives_the_same_bits_too(name):
    test_own_decisions_through_this_door_give_the_same_bits(name, 0.3)
    test_decisions_of_others_are_learned_as_by_learn_logged(name)


@pytest.mark.parametrize("name", LEARNERS)
def test_learners_that_weight_by_propensities_say_so(name):
    one, other = make(name), make(name)
    log = others_log(full=one.full_information)
    learn_block(one, log)
    learn_block(other, log._replace(propensity=2 * log.propensity))
    pairs = zip(saved_state(one)[1].values(), saved_state(other)[1].values(), strict=True)
    is_same = all(np.array_equal(mine, its) for mine, its in pairs)
    assert is_same != one.importance_weighted


@pytest.mark.parametrize("name", LEARNERS)
def test_telling_what_it_would_say_changes_nothing(name):
    X, y = stream()
    log = own_log(make(name), X, y)
    quiet, telling, steps = make(name), make(name), make(name)
    learn_block(quiet, log)
    told = learn_block(telling, log, tells=True)
    assert_same(quiet, telling)
    for i, x in enumerate(X):
        np.testing.assert_array_equal(told.propensities[i], steps.propensities(x))
        learn_block(steps, part_of(log, i, i + 1))
    assert_same(quiet, steps)


def others_log(rounds=ROUNDS, named=0.3, full=False):
    """Decisions of somebody else, some of them answered by the true label, and some by nobody."""
    X, y = stream(rounds)
    rng = np.random.default_rng(1)
    said = rng.integers(LABELS, size=rounds)
    right = (said == y).astype(int)
    right[::7] = -1
    truth = np.where((rng.random(rounds) < named) | full, y, -1)
    return block_of(X, said, right, np.full(rounds, 0.2), np.where(right >= 0, truth, -1))


@pytest.mark.parametrize("name", LEARNERS)
def test_decisions_of_others_are_learned_as_by_learn_logged(name):
    compiled, steps = make(name), make(name)
    log = others_log(full=compiled.full_information)
    learn_block(compiled, log)
    for i, x in enumerate(log.contexts):
        said, truth, propensity = int(log.said[i]), int(log.truth[i]), log.propensity[i]
        if log.right[i] < 0:
            own = steps.decide(x)
            count_said(steps, own.place, -1)
            count_said(steps, said, 1)
        elif truth >= 0:
            steps.learn_logged(x, said, label=truth, propensity=propensity)
        else:
            steps.learn_logged(x, said, right=bool(log.right[i]), propensity=propensity)
    assert_same(compiled, steps)


@pytest.mark.parametrize("name", ["Banditron", "OneBit", "PNewtron"])
def test_only_possible_labels_count(name):
    log = others_log(named=0)
    allowed = np.random.default_rng(2).random((ROUNDS, LABELS)) < 0.6
    allowed[np.arange(ROUNDS), log.said] = True
    log = log._replace(allowed=allowed, right=np.maximum(log.right, 0))
    compiled, steps = make(name), make(name)
    told = learn_block(compiled, log, tells=True)
    for i, x in enumerate(log.contexts):
        among = np.flatnonzero(allowed[i]).tolist()
        np.testing.assert_array_equal(told.propensities[i], steps.propensities(x, among=among))
        steps.learn_logged(
            x, int(log.said[i]), right=bool(log.right[i]), propensity=0.2, among=among
        )
    assert_same(compiled, steps)
    assert (told.propensities[~allowed] == 0).all()


@pytest.mark.parametrize("settings", [{"half_life": 16}, {"silence": "wrong"}])
def test_fading_and_silence(settings):
    X, y = stream()
    own, observer = make("UCWL", **settings), make("UCWL", **settings)
    unanswered = {2, 5}
    for i, (x, truth) in enumerate(zip(X, y, strict=True)):
        decision = own.decide(x)
        if i in unanswered:
            own.learn(decision, silence=True)
        else:
            own.learn(decision, right=decision.label == truth)
    log = own_log(make("UCWL", **settings), X, y, unanswered)
    if "half_life" in settings:
        learn_block(observer, log)
        assert_same(own, observer)
    else:
        heard = own_log(make("UCWL"), X, np.where(np.isin(np.arange(ROUNDS), [2, 5]), -9, y))
        learn_block(observer, heard._replace(right=np.where(heard.right > 0, 1, -1)))
        reference = make("UCWL", **settings)
        learn_block(reference, heard)
        assert_same(observer, reference)


@pytest.mark.parametrize("name", ["Banditron", "OneBit", "LinearThompson"])
def test_a_learner_that_does_not_learn_tells_what_it_would_say(name):
    X, y = stream()
    learner = make(name)
    log = own_log(learner, X, y)
    before = saved_state(learner)[1]
    told = tell_block(learner, log, 7)
    np.testing.assert_allclose(told.scores, learner.scores(X), rtol=1e-6)
    for array, later in zip(before.values(), saved_state(learner)[1].values(), strict=True):
        np.testing.assert_array_equal(array, later)
    if name == "Banditron":
        for i, x in enumerate(X):
            np.testing.assert_array_equal(told.propensities[i], learner.propensities(x))


def test_a_learner_that_weights_by_propensities_needs_them():
    log = others_log()
    propensity = log.propensity.copy()
    propensity[9] = np.nan
    learner = make("Banditron")
    with pytest.raises(ValueError, match="row 10 has no propensity, and Banditron weights by"):
        learn_block(learner, log._replace(propensity=propensity))
    assert learner.round == 0
    learn_block(make("OneBit"), log._replace(propensity=propensity))


def test_a_reference_needs_true_labels():
    with pytest.raises(ValueError, match="row 2: AROW is a reference"):
        learn_block(make("AROW"), others_log(named=0)._replace())
