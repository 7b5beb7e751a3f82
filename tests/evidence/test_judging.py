"""evaluate and compare: answers, refusals, and what was assumed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import onebit as ob
from onebit.evidence import judging
from onebit.evidence.rows import RIGHT

LABELS = ["a", "b", "c", "d"]


class Made(NamedTuple):
    log: ob.Log
    X: np.ndarray
    chances: np.ndarray  # of each label to be right
    shares: np.ndarray  # the logger's probabilities


def quick():
    """A forecaster that takes little time."""
    return ob.Confidit(LABELS)


def rounds_of(size, eps=0.3, seed=0, full=True, wrong=0.2):
    """Contexts of two numbers that tell the right label nearly always, and a log of a logger that
    is often wrong; the matrix of the chance of each label to be right."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(4, size=size)
    X = np.eye(4)[kind] + rng.normal(0, 0.05, (size, 4))
    chances = np.full((size, 4), wrong / 3)
    chances[np.arange(size), kind] = 1 - wrong
    y = (chances.cumsum(axis=1) < rng.random((size, 1))).sum(axis=1)
    shares = np.full((size, 4), eps / 4)
    shares[np.arange(size), np.where(kind == 3, 0, kind)] += 1 - eps
    said = (shares.cumsum(axis=1) < rng.random((size, 1))).sum(axis=1).clip(0, 3)
    given = {"propensities": shares} if full else {"propensity": shares[np.arange(size), said]}
    log = ob.Log.of(X, [LABELS[a] for a in said], said == y, labels=LABELS, **given)
    return Made(log, X, chances, shares)


def best_rule(x):
    return LABELS[int(np.argmax(x))]


def half_rule(x):
    return {best_rule(x): 0.5, "a": 0.5} if best_rule(x) != "a" else "a"


@pytest.mark.parametrize("full", [True, False])
def test_a_rule_a_label_and_the_logger(full):
    log, _, chances, shares = rounds_of(4000, full=full)
    rule = ob.evaluate(log, best_rule, forecaster=quick())
    assert rule.estimate == pytest.approx(0.8, abs=0.03)
    assert rule.interval[0] < 0.8 < rule.interval[1]
    assert rule.bracket[0] < 0.8 < rule.bracket[1]
    label = ob.evaluate(log, "b", forecaster=quick())
    assert label.estimate == pytest.approx(chances[:, 1].mean(), abs=0.04)
    logger = ob.evaluate(log)
    truth = (shares * chances).sum(axis=1).mean()
    assert logger.estimate == pytest.approx(truth, abs=0.03)
    assert logger.bracket == pytest.approx((logger.estimate, logger.estimate))
    halves = ob.evaluate(log, half_rule, forecaster=quick()).estimate
    assert halves == pytest.approx(0.525, abs=0.04)
    assert rule.policies == ("best_rule",) and logger.policies == ("the logger",)


@pytest.mark.parametrize("full", [True, False])
def test_the_difference_to_the_logger(full):
    log, _, chances, shares = rounds_of(6000, full=full)
    gain = 0.8 - (shares * chances).sum(axis=1).mean()
    found = ob.compare(log, best_rule, forecaster=quick())
    assert found.estimate == pytest.approx(gain, abs=0.04)
    assert 0 < found.interval[0] < gain < found.interval[1]
    assert found.bracket[0] < gain < found.bracket[1]


def test_the_difference_of_two_policies():
    log = rounds_of(4000).log
    found = ob.compare(log, best_rule, half_rule, forecaster=quick())
    assert found.estimate == pytest.approx(0.275, abs=0.03)
    assert found.interval[0] < 0.275 < found.interval[1]
    alone = [ob.evaluate(log, policy, forecaster=quick()) for policy in (best_rule, half_rule)]
    widths = [e.interval[1] - e.interval[0] for e in (found, *alone)]
    assert widths[0] < widths[1] + widths[2]


def test_a_fixed_learner_and_one_that_learns():
    taught = ob.replay(quick(), rounds_of(1000).log)
    assert taught.round == 1000
    log, X, chances, _ = rounds_of(2000, seed=1)
    places = [LABELS.index(label) for label in taught.predict(X)]
    fixed = ob.evaluate(log, taught, forecaster=quick())
    assert fixed.estimate == pytest.approx(chances[np.arange(2000), places].mean(), abs=0.04)
    assert taught.round == 1000 and not fixed.policies[0].endswith("learning")
    going_on = ob.evaluate(log, quick(), learns=True, drifts=False, forecaster=quick())
    assert going_on.estimate == pytest.approx(0.79, abs=0.05)
    assert going_on.drifts and going_on.policies == ("Confidit, learning",)
    with pytest.raises(ValueError, match=r"Confidit has learned nothing yet: learns=True"):
        ob.evaluate(log, quick())


def test_narrower_if_nothing_drifts():
    log = rounds_of(3000).log
    drifting = ob.evaluate(log, best_rule, forecaster=quick())
    steady = ob.evaluate(log, best_rule, drifts=False, forecaster=quick())
    assert steady.interval[0] < 0.8 < steady.interval[1]
    width = [e.interval[1] - e.interval[0] for e in (steady, drifting)]
    assert width[0] < width[1]


# Refusals.


def test_without_propensities_there_is_a_bracket():
    log, X, chances, shares = rounds_of(4000, eps=0.0)
    block = next(log.blocks())
    said = [LABELS[a] for a in block.said]
    bare = ob.Log.of(X, said, block.right == RIGHT, labels=LABELS)
    found = ob.evaluate(bare, best_rule)
    assert found.estimate is None and found.estimates == {}
    assert "4,000 rounds have no propensity: log the probability" in found.reason
    assert found.bracket[0] < 0.8 < found.bracket[1]
    assert found.interval[0] < found.bracket[0] and found.bracket[1] < found.interval[1]
    assert found.interval[1] - found.interval[0] < 0.5
    difference = ob.compare(bare, best_rule)
    gain = 0.8 - (shares * chances).sum(axis=1).mean()
    assert difference.bracket[0] < gain < difference.bracket[1]


def test_without_support_the_estimate_is_refused():
    log = rounds_of(2000, eps=0.0).log
    found = ob.evaluate(log, best_rule, forecaster=quick())
    assert found.estimate is None
    assert found.unsupported == pytest.approx(0.25, abs=0.03)
    assert "of the weight is on labels that the logger never said" in found.reason
    assert found.interval[0] < 0.8 < found.interval[1]

    def agreeing_rule(x):
        return best_rule(x) if best_rule(x) != "d" else "a"

    agreeing = ob.evaluate(log, agreeing_rule, forecaster=quick())
    assert agreeing.reason is None


def test_missing_support_shows_in_the_weights_if_only_one_probability_is_known():
    rng = np.random.default_rng(0)
    said = rng.integers(2, size=2000)
    log = ob.Log.of(np.ones((2000, 1)), [LABELS[a] for a in said], said == 0, labels=LABELS,
                    propensity=0.5)  # fmt: skip
    found = ob.evaluate(log, "d", forecaster=quick())
    assert found.estimate is None and found.unsupported == 1
    assert ob.evaluate(log, "a", forecaster=quick()).reason is None


def test_two_labels_need_no_support():
    rng = np.random.default_rng(0)
    y = (rng.random(2000) < 0.3).astype(int)
    log = ob.Log.of(np.ones((2000, 1)), ["a"] * 2000, y == 0, labels=["a", "b"], propensity=1.0)
    found = ob.evaluate(log, "b", forecaster=ob.Confidit(["a", "b"]))
    assert found.reason is None and found.estimate == pytest.approx(y.mean())
    alone = ob.evaluate(log, "b", exclusive=False, forecaster=ob.Confidit(["a", "b"]))
    assert alone.estimate is None and alone.unsupported == 1


@pytest.mark.parametrize("flips", [(0.0, 0.0), (0.2, 0.1)])
def test_with_two_possible_labels_an_answer_says_all(flips):
    """Four labels, of which two are possible: a fixed logger needs no support, and a policy that
    says others is not right."""
    rng = np.random.default_rng(0)
    size = 6000
    first, y = rng.integers(3, size=size), (rng.random(size) < 0.3).astype(int)
    right = y == 0
    heard = np.where(rng.random(size) < np.where(right, flips[1], flips[0]), ~right, right)
    pairs = [[LABELS[i], LABELS[i + 1]] for i in first]
    given = {"labels": LABELS, "among": pairs, "propensity": 1.0}
    log = ob.Log.of(np.eye(3)[first], [pair[0] for pair in pairs], heard, **given)

    def second_rule(x):
        return LABELS[int(np.argmax(x)) + 1]

    how = {"forecaster": quick(), "flips": flips}
    found = ob.evaluate(log, second_rule, **how)
    assert found.reason is None and found.estimate == pytest.approx(0.3, abs=0.03)
    assert found.bracket == pytest.approx((found.estimate, found.estimate), abs=0.01)
    assert found.interval[0] < 0.3 < found.interval[1] < found.interval[0] + 0.2
    seldom = ob.evaluate(log, "b", **how)  # b is possible in two of three rounds
    truth = (0.3 * (first == 0) + 0.7 * (first == 1)).mean()
    assert seldom.estimate == pytest.approx(truth, abs=0.03)
    assert seldom.interval[0] < truth < seldom.interval[1]
    assert seldom.contradiction is None
    gain = ob.compare(log, "b", **how)
    assert gain.estimate == pytest.approx(truth - 0.7, abs=0.04)


def test_the_estimate_keeps_within_the_bracket():
    log = rounds_of(200, eps=0.02).log
    found = ob.evaluate(log, "d", forecaster=quick())
    low, high = found.bracket
    assert not low <= found.estimates["xDR"] <= high
    assert found.estimate in found.bracket


def test_true_labels_of_all_rounds_need_no_propensities():
    named = ob.Log.of(np.ones((50, 1)), ["a"] * 50, true_label=["a", "b"] * 25, labels=LABELS)
    found = ob.evaluate(named, "b")
    assert found.is_exact and found.reason is None and found.notes == []
    assert found.estimate == 0.5 and found.bracket == (0.5, 0.5) and found.estimates == {}
    assert found.interval[0] < 0.5 < found.interval[1]
    assert ob.compare(named, "b", "c").estimate == 0.5


def test_impossible_propensities_are_refused():
    log, X, *_ = rounds_of(4000)
    block = next(log.blocks())
    said, right = [LABELS[a] for a in block.said], block.right == RIGHT
    even = ob.Log.of(X, said, right, labels=LABELS, propensities=np.full((4000, 4), 0.25))
    with pytest.raises(ValueError, match=r"row \d+: the labels up to here cannot have been said"):
        ob.evaluate(even, best_rule, forecaster=quick())
    rare = ob.Log.of(X, said, right, labels=LABELS, propensity=0.1)
    with pytest.raises(ValueError, match="cannot have been said with these propensities"):
        ob.evaluate(rare, best_rule, forecaster=quick())


def test_a_contradicted_world_is_told():
    rng = np.random.default_rng(0)
    size = 3000
    rights = rng.random((size, 4)) < 0.6
    said = rng.integers(4, size=size)
    log = ob.Log.of(
        np.ones((size, 1)),
        [LABELS[a] for a in said],
        rights[np.arange(size), said],
        labels=LABELS,
        propensities=np.full((size, 4), 0.25),
    )
    found = ob.evaluate(log, "a", forecaster=quick())
    assert found.contradiction == "in some rounds several labels are right: exclusive=False"
    assert "several labels are right" in repr(found)
    freed = ob.evaluate(log, "a", exclusive=False, forecaster=quick())
    assert freed.contradiction is None and freed.estimate == pytest.approx(0.6, abs=0.04)


def test_a_true_world_is_not_contradicted():
    log = rounds_of(3000).log
    for policy in (best_rule, "a", None):
        assert ob.evaluate(log, policy, forecaster=quick()).contradiction is None


# Answers.


def with_silence(size):
    log, X, _, shares = rounds_of(size)
    block = next(log.blocks())
    right = [None if i % 4 == 0 else bool(r == RIGHT) for i, r in enumerate(block.right)]
    said = [LABELS[a] for a in block.said]
    return ob.Log.of(X, said, right, labels=LABELS, propensities=shares)


def test_silence():
    log = with_silence(4000)
    nothing = ob.evaluate(log, best_rule, forecaster=quick())
    assert nothing.rounds == 3000 and nothing.sums.left_out == 1000
    assert nothing.estimate == pytest.approx(0.8, abs=0.04)
    assert "and 1,000 without an answer are left out" in repr(nothing)
    points = [point.rounds for point in nothing.curve]
    assert points == sorted(set(points)) and points[-1] == 3000
    wrong = ob.evaluate(
        log, best_rule, silence="wrong", forecaster=quick(), exclusive="at most one"
    )
    assert wrong.rounds == 4000 and wrong.estimate == pytest.approx(0.6, abs=0.05)
    unknown = ob.evaluate(log, best_rule, silence="unknown", forecaster=quick())
    assert unknown.estimate is None and "1,000 rounds have no answer" in unknown.reason
    assert unknown.bracket[0] < nothing.bracket[0] and nothing.bracket[1] < unknown.bracket[1]


@pytest.mark.parametrize("second", [None, "a"])
def test_flipped_answers_of_known_rates(second):
    log, X, chances, shares = rounds_of(8000)
    block, rng = next(log.blocks()), np.random.default_rng(3)
    right = block.right == RIGHT
    heard = np.where(rng.random(8000) < np.where(right, 0.1, 0.2), ~right, right)
    said = [LABELS[a] for a in block.said]
    flipped = ob.Log.of(X, said, heard, labels=LABELS, propensities=shares)
    how = {"flips": (0.2, 0.1), "forecaster": quick()}
    value = 0.8
    if second is None:
        found = ob.evaluate(flipped, best_rule, **how)
    else:
        found = ob.compare(flipped, best_rule, second, **how)
        value -= chances[:, 0].mean()
    assert found.estimate == pytest.approx(value, abs=0.04)
    assert found.interval[0] < value < found.interval[1]
    assert found.bracket[0] < value < found.bracket[1]


# Parts.


def csv_parts(tmp_path, sizes):
    paths = []
    for i, size in enumerate(sizes):
        log, X, *_ = rounds_of(size, seed=i)
        block = next(log.blocks())
        shares = block.propensities[np.arange(size), block.said]
        rows = ["w,x,y,z,label,right,propensity\n"]
        for x, a, r, p in zip(X, block.said, block.right, shares, strict=True):
            rows.append(f"{','.join(f'{v:.6f}' for v in x)},{LABELS[a]},{r},{p:.6f}\n")
        paths.append(tmp_path / f"part{i}.csv")
        paths[-1].write_text("".join(rows))
    return ob.Log(paths, labels=LABELS)


def named_rule(x):
    return LABELS["wxyz".index(max(x, key=x.get))]


def same(one, other):
    assert one.rounds == other.rounds and one.estimate == other.estimate
    assert one.interval == other.interval and one.bracket == other.bracket
    np.testing.assert_array_equal(one.sums.kinds, other.sums.kinds)


def test_two_workers_find_the_same_sums(tmp_path):
    log = csv_parts(tmp_path, (300, 200, 500))
    alone = ob.evaluate(log, named_rule, forecaster=quick())
    assert alone.rounds == 1000 and alone.estimate == pytest.approx(0.8, abs=0.08)
    same(alone, ob.evaluate(log, named_rule, forecaster=quick(), workers=2))
    gain = ob.compare(log, named_rule, forecaster=quick())
    same(gain, ob.compare(log, named_rule, forecaster=quick(), workers=2))
    assert gain.estimate > 0.1
    same(ob.evaluate(log), ob.evaluate(log, workers=2))
    parts = [ob.evaluate(part, named_rule, forecaster=quick()) for part in log.parts()]
    same(alone, parts[0] + parts[1] + parts[2])
    assert [point.rounds for point in alone.curve][-1] == 1000
    with pytest.raises(ValueError, match="different questions"):
        parts[0] + ob.evaluate(log, "a", forecaster=quick())
    with pytest.raises(ValueError, match="leave out workers"):
        ob.evaluate(log, ob.UCWL(LABELS), learns=True, workers=2)


def test_large_blocks_are_cut(monkeypatch):
    log = rounds_of(500).log
    whole = ob.evaluate(log, quick(), learns=True, forecaster=quick())
    monkeypatch.setattr(judging, "_NUMBERS", 4 * 33)
    cut = ob.evaluate(log, quick(), learns=True, forecaster=quick())
    assert cut.rounds == 500 and cut.interval == pytest.approx(whole.interval)
    assert cut.estimate == pytest.approx(whole.estimate)


def test_the_curve_comes_nearer():
    log = rounds_of(3000).log
    curve = ob.evaluate(log, best_rule, forecaster=quick()).curve
    assert [point.rounds for point in curve] == [10, 20, 50, 100, 200, 500, 1000, 2000, 3000]
    widths = [point.high - point.low for point in curve]
    assert widths[-1] < 0.2 < widths[2]
    assert all(point.low <= 0.8 <= point.high for point in curve)


# The result.


def test_the_table():
    log = rounds_of(2000).log
    text = repr(ob.compare(log, best_rule, forecaster=quick()))
    lines = dict(line.split("  ", 1) for line in text.splitlines())
    assert lines["policy"].strip() == "best_rule - the logger"
    assert lines["interval"].strip().endswith("95%, the value may drift")
    assert lines["assumed"].strip() == "exactly one label is right"
    assert "of its own" in lines["rounds"]


def test_few_effective_rounds_are_told():
    log = rounds_of(300, eps=0.02).log
    found = ob.evaluate(log, "d", forecaster=quick())
    assert found.effective_sample_size < 30
    assert "the logger seldom said what the policy says" in repr(found)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"exclusive": "one"}, "exclusive must be True, False or 'at most one'"),
        ({"alpha": 0}, "alpha must be above 0"),
        ({"silence": "right"}, "silence must be one of"),
        ({"flips": (0.6, 0.5)}, "sum is below 1"),
        ({"flips": 0.1}, "flips are two chances, such as .*, not 0.1"),
        ({"flips": (0.1,)}, "flips are two chances"),
        ({"forecaster": "OneBit"}, "forecaster must be a learner, not 'OneBit'"),
        ({"forecaster": ob.Confidit(["x", "y"])}, "forecaster must have the labels"),
        ({"policy": "e"}, "no label 'e'"),
        ({"policy": lambda x: None}, "row 1: <lambda> returned None: no label None"),
        ({"policy": lambda x: {"e": 1.0}}, "row 1: <lambda> returned 'e': no label 'e'"),
        ({"policy": lambda x: {"a": 0.5}}, "row 1: <lambda> returned"),
        ({"policy": lambda x: [0.5, 0.5]}, "2 probabilities, and there are 4 labels"),
        ({"policy": ob.UCWL}, "not a class"),
    ],
)
def test_wrong_arguments(how, message):
    log = rounds_of(20).log
    policy = how.pop("policy", best_rule)
    with pytest.raises((ValueError, TypeError), match=message.replace("(", r"\(")):
        ob.evaluate(log, policy, **{"forecaster": quick(), **how})


def test_only_evaluations_are_added():
    found = ob.evaluate(rounds_of(20).log, "a", forecaster=quick())
    with pytest.raises(TypeError, match="unsupported operand"):
        found + 1


def test_a_taught_learner_is_judged_before_its_first_round():
    log = rounds_of(20).log
    learner = ob.UCWL(log.labels)
    with pytest.raises(ValueError, match="learned nothing yet"):
        ob.evaluate(log, learner, forecaster=quick())
    learner.teach(np.eye(4), LABELS)
    assert ob.evaluate(log, learner, forecaster=quick()).rounds == 20


def test_the_logger_comes_second():
    log = rounds_of(20).log
    for other in (best_rule, None):
        with pytest.raises(ValueError, match="compare needs a policy first"):
            ob.compare(log, None, other)
    with pytest.raises(TypeError, match="a log is needed"):
        ob.evaluate([], "a")
    with pytest.raises(TypeError, match="replay needs a learner"):
        ob.replay("UCWL", log)
