"""Lists: each rule against its twin and by enumeration, and the contract of a list."""

from __future__ import annotations

import math
import random
from functools import partial
from itertools import permutations

import msgspec
import numpy as np
import pytest
from helpers import naive
from helpers.makers import MAKERS, halving
from helpers.streams import draws, stream
from numpy.testing import assert_allclose

import onebit as ob
from onebit import testing
from onebit.algorithms.onebit.records import HEARD
from onebit.core.jit import COMPILED
from onebit.learner.learner import Learner
from onebit.testing import model_bytes, state_bytes

K, L, D = 6, 3, 8
ROUNDS = 150
SHOWING = [make for make in MAKERS if make.values[0](5).shows_lists]

TWINS = [
    ("Banditron", {"gamma": 0.3}),
    ("EpsilonGreedy", {"epsilon": 0.3}),
    ("BPA", {"gamma": 0.1}),
    ("SquareCB", {"scale": 10.0}),
    ("FastCB", {"scale": 10.0}),
    ("LinearThompson", {"c": 0.5}),
    ("Confidit", {}),
    ("UCWL", {}),
]


def taken_of(shown, label):
    return label if label in shown else None


@pytest.mark.parametrize(("name", "settings"), TWINS)
def test_lists_equal_those_of_the_twin(name, settings):
    learner = getattr(ob, name)(K, seed=5, dtype="float64", features=D, **settings)
    twin, data = getattr(naive, name)(K, D, **settings), stream(K, D, ROUNDS)
    hits = 0
    for t, (x, y) in enumerate(zip(data.X, data.y.tolist(), strict=True)):
        draw = draws(5, t)
        expected, chances = twin.decide_list(x, t, draw, L), twin.chances(x, t, L)
        law = learner.propensities(x, show=L)
        decision = learner.decide(x, show=L)
        if name == "LinearThompson":
            assert decision.shown[1:] == tuple(expected[1:])
        else:
            assert_allclose(law, chances, rtol=1e-9, atol=1e-12)
        assert decision.shown == tuple(expected), f"round {t}"
        assert_allclose(decision.propensities, law[expected], rtol=1e-9)
        taken = taken_of(decision.shown, y)
        hits += taken is not None
        learner.learn(decision, taken=taken)
        if x.any():
            twin.learn_list(x, expected, taken, t, draw)
        assert_allclose(learner.weights, twin.W, rtol=1e-9, atol=1e-9)
    assert hits > ROUNDS / 2


def test_one_bit_for_a_list_equals_the_twins():
    learner = ob.Banditron(K, seed=5, dtype="float64", features=D, gamma=0.3)
    twin, data = naive.Banditron(K, D, gamma=0.3), stream(K, D, ROUNDS)
    for t, (x, y) in enumerate(zip(data.X, data.y.tolist(), strict=True)):
        decision = learner.decide(x, show=L)
        assert decision.shown == tuple(twin.decide_list(x, t, draws(5, t), L))
        learner.learn(decision, right=y in decision.shown)
        twin.learn_bit_of_list(x, list(decision.shown), y in decision.shown)
        assert_allclose(learner.weights, twin.W, rtol=1e-9, atol=1e-7)


def all_lists(learner, x, size, greedy):
    """Every list that Banditron may show, with its probability: by the definition of the rule."""
    gamma, lists = learner.gamma, list(permutations(range(K), size))
    template = learner.decide(x, show=size)
    for places in lists:
        chance = gamma / len(lists) + (1 - gamma) * (places == greedy)
        inside = [gamma * size / K + (1 - gamma) * (place in greedy) for place in places]
        first = msgspec.structs.replace(
            template.first,
            label=places[0], place=places[0], greedy=greedy[0], greedy_place=greedy[0],
            propensity=chance,
        )  # fmt: skip
        changes = {"shown": places, "places": places, "greedy": greedy, "greedy_places": greedy}
        yield (
            chance,
            msgspec.structs.replace(template, first=first, propensities=tuple(inside), **changes),
        )


@pytest.mark.parametrize("feedback", ["taken", "right"])
def test_the_estimate_of_banditron_is_unbiased(feedback):
    """The mean of the update over all lists is the Perceptron's (e_y - e_h) x', for every y."""
    x = np.array([1.0])
    learner = ob.Banditron(K, gamma=0.2, features=1, dtype="float64")
    learner.table.state.table[0, 0, :K] = [3.0, 1.0, 2.0, 0.5, 0.0, -1.0]
    before, greedy = learner.weights[:, 0], (0, 2, 1)
    total, bias, variances = 0.0, 0.0, []
    shown = list(all_lists(learner, x, L, greedy))
    for y in range(K):
        mean, square = np.zeros(K), 0.0
        for chance, decision in shown:
            copy = learner.copy()
            if feedback == "taken":
                copy.learn(decision, taken=taken_of(decision.shown, y))
            else:
                copy.learn(decision, right=y in decision.shown)
            change = copy.weights[:, 0] - before
            mean += chance * change
            square += chance * np.square(change).sum()
        total += sum(chance for chance, _ in shown)
        bias = max(bias, np.abs(mean - (np.eye(K)[y] - np.eye(K)[0])).max())
        variances.append(square - np.square(mean).sum())
    assert abs(total / K - 1) < 1e-12
    assert bias < 1e-14 * K * K
    # To name the label that was taken costs little, and is worth a factor of 4 to 300.
    expected = (0.11, 9.0) if feedback == "taken" else (35.0, 36.1)
    assert (min(variances), max(variances)) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("make", SHOWING)
def test_lists_travel_come_back_late_and_in_any_order(make):
    here, away = make(5, seed=2), make(5, seed=2)
    X, y = testing._stream(30)
    kept = [here.decide(testing._pair(X, i), show=3) for i in range(30)]
    sent = [away.decide(testing._pair(X, i), show=3).to_bytes() for i in range(30)]
    away = away.copy()
    for i in np.random.default_rng(0).permutation(30).tolist():
        again = ob.ListDecision.from_bytes(sent[i])
        assert again.to_bytes() == sent[i] == kept[i].to_bytes()
        for learner, decision in ((here, kept[i]), (away, again)):
            teach(learner, decision, int(y[i]))
    assert state_bytes(here) == state_bytes(away)
    before = state_bytes(here)
    with pytest.raises(ValueError, match="was answered already"):
        teach(here, kept[3], int(y[3]))
    assert state_bytes(here) == before


def teach(learner, decision, label):
    if learner.full_information:
        learner.learn(decision, label=label)
    else:
        learner.learn(decision, taken=taken_of(decision.shown, label))


def test_a_list_is_shorter_where_fewer_labels_are_possible():
    learner = ob.UCWL(["a", "b", "c", "d"])
    decision = learner.decide({"x": 1}, show=3, among=["d", "b"])
    assert sorted(decision.shown) == ["b", "d"] and len(decision.propensities) == 2
    learner.learn(decision, taken="d")
    assert len(learner.decide({"x": 1}, show=20).shown) == 4


def test_a_list_of_an_earlier_set_of_labels_is_learned_from():
    learner = ob.Banditron(["a", "b", "c"], gamma=0.9)
    decision = learner.decide({"x": 1}, show=2)
    learner.add_label("d")
    learner.learn(decision, taken=decision.shown[1])
    assert len(learner.decide({"x": 1}, show=4).shown) == 4


def test_what_a_list_says():
    learner = ob.FastCB(["a", "b", "c"], seed=1)
    decision = learner.decide({"x": 1}, show=2)
    assert repr(decision).startswith("ListDecision(['")
    assert len(decision.confidences) == 2 and decision.confidences[0] == 0.5
    assert decision.explored == (set(decision.shown) != set(decision.greedy))
    assert {"shown", "propensities", "to_bytes"} <= set(dir(decision)) and "first" not in dir(
        decision
    )
    assert (decision.round, decision.salt, decision.kind) == (0, "", "names")
    assert len(decision.indices) == len(decision.values) == 1


REFUSED = [
    ({}, "pass taken="),
    ({"taken": "a", "right": True}, "pass only one of taken="),
    ({"taken": "z"}, "z"),
    ({"taken": "c"}, "'c' was not shown, only"),
    ({"taken": ["a", "b"]}, "takes exactly one label to be right, and 2 were taken"),
    ({"right": "yes"}, "right"),
    ({"right": 0.5}, "right"),
    ({"silence": True, "taken": None}, "silence=True cannot be combined"),
]


@pytest.mark.parametrize(("feedback", "why"), REFUSED)
def test_wrong_feedback_is_refused_and_changes_nothing(feedback, why):
    learner = ob.Banditron(["a", "b", "c"], gamma=1e-9)
    decision = learner.decide({"x": 1}, show=2)
    assert decision.shown == ("a", "b")
    before = state_bytes(learner)
    with pytest.raises((TypeError, ValueError), match=why):
        learner.learn(decision, **feedback)
    assert state_bytes(learner) == before


def test_other_refusals():
    learner = ob.UCWL(["a", "b", "c"])
    decision = learner.decide({"x": 1}, show=2)
    with pytest.raises(ValueError, match="UCWL does not estimate chances"):
        learner.learn(decision, right=True)
    with pytest.raises(TypeError, match=r"taken=... is for lists"):
        learner.learn(learner.decide({"x": 1}), taken="a")
    with pytest.raises(ValueError, match="PNewtron shows no lists: the curvature"):
        ob.PNewtron(3).decide({"x": 1}, show=2)
    with pytest.raises(ValueError, match="PNewtron shows no lists"):
        ob.PNewtron(3).propensities({"x": 1}, show=2)
    for show in (0, 21, 2.5, True):
        with pytest.raises((TypeError, ValueError), match="show"):
            learner.decide({"x": 1}, show=show)
        with pytest.raises((TypeError, ValueError), match="show"):
            learner.propensities({"x": 1}, show=show)
    reference = ob.AROW(["a", "b", "c"])
    shown = reference.decide({"x": 1}, show=2)
    for feedback in ({"right": True}, {"taken": None}):
        with pytest.raises(ValueError, match="learns from the true label"):
            reference.learn(shown, **feedback)
    foreign = ob.UCWL(["a", "b", "c"], seed=1)
    with pytest.raises(ValueError, match="made by another learner"):
        foreign.learn(decision, taken="a")


def test_damaged_lists_are_refused():
    decision = ob.UCWL(3).decide({"x": 1}, show=2)
    data = decision.to_bytes()
    for damaged in (data[:-1], data[:20] + b"?" + data[21:], b"", b"1bit\x01" + data):
        with pytest.raises(ValueError, match="list"):
            ob.ListDecision.from_bytes(damaged)
    with pytest.raises(ValueError, match=r"Decision.from_bytes reads a single label"):
        ob.ListDecision.from_bytes(decision.first.to_bytes())
    with pytest.raises(ValueError, match=r"not a onebit decision; ListDecision.from_bytes reads"):
        ob.Decision.from_bytes(data)
    with pytest.raises(TypeError, match="is bytes, not str"):
        ob.ListDecision.from_bytes("x")


TRIES = 40 if COMPILED else 15
NUMBERS = (0.0, 1e-300, 1e-9, 0.3, 1.0, 7.0, -1.0, 1e300, math.inf, math.nan)


def forged(draw, decision):
    """A list with one part changed: by extremes, or by what could be there."""
    part = draw.choice(["places", "greedy_places", "propensities", "first", "lengths"])
    if part == "first":
        change = draw.choice(list(testing.forgeries()))
        return msgspec.structs.replace(
            decision, first=msgspec.structs.replace(decision.first, **change)
        )
    if part == "propensities":
        numbers = tuple(draw.choice(NUMBERS) for _ in decision.shown)
        return msgspec.structs.replace(decision, propensities=numbers)
    size = draw.choice([0, 1, 2, 30]) if part == "lengths" else len(decision.shown)
    part = "places" if part == "lengths" else part
    places = tuple(draw.choice([-1, 0, 1, 2, 3, 4, 5, 2**40]) for _ in range(size))
    labels = tuple(place if 0 <= place < 5 else 0 for place in places)
    name = "shown" if part == "places" else "greedy"
    changes = {part: places, name: labels}
    if places and 0 <= places[0] < 5:
        of_first = {"places": ("place", "label"), "greedy_places": ("greedy_place", "greedy")}
        first = dict.fromkeys(of_first[part], places[0])
        changes["first"] = msgspec.structs.replace(decision.first, **first)
    return msgspec.structs.replace(decision, **changes)


@pytest.mark.parametrize("make", SHOWING)
def test_a_forged_list_is_refused_or_harmless(make, request):
    draw = random.Random(request.node.name)
    learner, (X, y) = make(5, seed=1), testing._stream(30)
    testing._rounds(learner, X, y)
    for _ in range(TRIES):
        decision = forged(draw, learner.decide(testing._pair(X, draw.randrange(30)), show=3))
        before = testing._learned(learner)
        try:
            teach(learner, decision, int(y[draw.randrange(30)]))
        except (TypeError, ValueError):
            assert testing._learned(learner) == before
        assert np.isfinite(learner.scores(X)).all()
        assert model_bytes(learner.copy()) == model_bytes(learner)


def test_several_labels_may_be_taken():
    learner = ob.FastCB(["a", "b", "c", "d"], seed=1)
    for _ in range(200):
        decision = learner.decide({"x": 1}, show=3)
        learner.learn(decision, taken=[label for label in decision.shown if label in "bd"])
    b, d = (learner.probabilities([{"x": 1}])[0][place] for place in (1, 3))
    assert min(b, d) > 0.9
    assert set(learner.decide({"x": 1}, show=2).shown) == {"b", "d"}


def test_a_label_that_was_not_shown_may_be_named():
    learner = ob.FastCB(["a", "b", "c", "d"], seed=1)
    for _ in range(30):
        learner.learn(learner.decide({"x": 1}, show=2), label="d")
    assert learner.predict([{"x": 1}]).tolist() == ["d"]


def test_silence_means_what_the_setting_says():
    quiet, strict = ob.UCWL(3), ob.UCWL(3, silence="wrong")
    for learner, changes in ((quiet, False), (strict, True)):
        decision = learner.decide({"x": 1.0}, show=2)
        before = testing._learned(learner)
        learner.learn(decision, silence=True)
        assert (testing._learned(learner) != before) == changes


@pytest.mark.parametrize("name", ["OneBit", "Banditron", "UCWL", "AROW"])
def test_as_many_answers_about_lists_are_dropped_as_about_single_labels(name):
    """A named label that was not shown says that the list was wrong."""
    silence = {"right": 0.2, "wrong": 0.7}
    singly, listed = (getattr(ob, name)(3, silence=silence, features=D, seed=2) for _ in range(2))
    data = stream(3, D, 40)
    for x, y in zip(data.X, data.y.tolist(), strict=True):
        singly.learn(singly.decide(x), label=y)
        listed.learn(listed.decide(x, show=1), label=y)
    assert state_bytes(singly) == state_bytes(listed)


@pytest.mark.parametrize("name", ["FastCB", "OneBit"])
def test_one_bit_for_a_list_is_enough(name):
    """The label that was right is drawn by its chance; all are found in the end."""
    learner = getattr(ob, name)(["a", "b", "c", "d", "e"], seed=3)
    truth = {"red": "b", "green": "d", "blue": "e"}
    colours = list(truth) * (60 if name == "OneBit" else 200)
    for colour in colours:
        decision = learner.decide({"colour": colour}, show=2)
        learner.learn(decision, right=truth[colour] in decision.shown)
    for colour, label in truth.items():
        assert label in learner.decide({"colour": colour}, show=2).shown


def test_onebit_told_that_one_label_is_right_hears_only_the_taken_one():
    """Where exactly one label is right, the others follow."""
    heard = []
    for exclusive in (True, None):
        learner = ob.OneBit(["a", "b", "c", "d"], exclusive=exclusive)
        decision = learner.decide({"x": 1}, show=3)
        learner.learn(decision, taken=decision.shown[1])
        heard.append(int(learner.table.state.held.experts.count[HEARD]))
    assert heard == [1, 3]


def test_several_are_not_taken_where_exactly_one_is_right():
    learner = ob.OneBit(["a", "b", "c", "d"], exclusive=True)
    decision = learner.decide({"x": 1}, show=3)
    before = state_bytes(learner)
    for several in ({"taken": decision.shown[:2]}, {"label": ["a", "b"]}):
        with pytest.raises(
            ValueError, match="2 were taken; with exclusive=None or exclusive=False"
        ):
            learner.learn(decision, **several)
    assert state_bytes(learner) == before
    learner.learn(decision, taken=decision.shown[:1])


@pytest.mark.parametrize("kind", [ob.UCWL, ob.FastCB, ob.OneBit, ob.Halving])
def test_where_rounds_are_drawn_the_first_position_is(kind):
    make = partial(halving if kind is ob.Halving else kind, explore=0.3)
    testing.lists_of_one_label_are_decisions(make)
    testing.labels_are_in_lists_as_often_as_they_say(make)
    with pytest.raises(ValueError, match="leave out explore="):
        ob.Banditron(5, explore=0.1).decide([1.0], show=2)


@pytest.mark.parametrize("make", [make for make in MAKERS if make not in SHOWING])
def test_others_say_why_they_show_none(make):
    with pytest.raises(ValueError, match="shows no lists: "):
        make(5).decide(([1], [1.0]), show=2)


def test_a_subclass_with_a_rule_of_its_own_shows_no_lists():
    class _Another(ob.Banditron):
        @staticmethod
        def hear(params, state, work, row, turn, choice, right):
            return False

    assert ob.Banditron.shows_lists and not _Another.shows_lists
    assert isinstance(_Another(3), Learner)
