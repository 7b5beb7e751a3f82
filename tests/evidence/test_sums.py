"""The sums of an evaluation: how often their bounds miss, and that blocks can be added."""

from __future__ import annotations

import math

import numpy as np
import pytest
from worlds import KINDS, misses, simulated

from onebit.evidence.estimators import NAMES, bounded_forms, forms_of_said
from onebit.evidence.sums import BOUNDS, Sums, add_rounds


def check_coverage(logs, most, **how):
    for kind in KINDS:
        wrong = dict.fromkeys(("swings", "bracket", "bets"), 0)
        for seed in range(logs):
            for name in misses(kind, seed, **how):
                wrong[name] += 1
        assert max(wrong.values()) <= most, (kind, wrong)


def test_few_bounds_are_ever_wrong():
    check_coverage(25, 4)


def test_few_bounds_of_differences_are_ever_wrong():
    check_coverage(10, 3, difference=True)


@pytest.mark.exhaustive
@pytest.mark.parametrize("difference", [False, True])
@pytest.mark.parametrize("partial", [False, True])
def test_at_most_5_percent_of_the_bounds_are_ever_wrong(difference, partial):
    check_coverage(10_000, 500, difference=difference, partial=partial)


def parts_of(log, *cuts):
    """The sums of the parts of a log, each computed by itself, added in order."""
    made, start = Sums.none(log.question), 0
    for stop in (*cuts, len(log.values)):
        part = slice(start, stop)
        rounds, policies = log.rounds.part(part), log.policies.part(part)
        answered = np.ones(stop - start, bool)
        made = made + add_rounds(Sums.none(log.question), log.question, rounds, policies, answered)
        start = stop
    return made


def test_parts_of_a_log_can_be_added():
    log = simulated("exclusive", 1000, seed=3)
    whole, parts = parts_of(log), parts_of(log, 300, 301, 700)
    assert parts.rounds == whole.rounds == 1000 and parts.right == whole.right
    np.testing.assert_allclose(parts.kinds, whole.kinds)
    np.testing.assert_allclose(parts.weights, whole.weights)
    np.testing.assert_allclose(parts.bracket, whole.bracket)
    np.testing.assert_allclose(parts.several, whole.several)
    for bound in range(len(BOUNDS)):
        assert parts.low.bets.counts[bound].sum() == pytest.approx(1000)


def test_the_estimate_with_the_least_variance_so_far_is_chosen():
    log = simulated("exclusive", 4000, seed=1)
    sums = parts_of(log)
    variance = sums.kinds[:, 1] / 4000 - (sums.kinds[:, 0] / 4000) ** 2
    assert NAMES[variance.argmin()] == "xDR"
    assert sums.used.argmax() == variance.argmin() and sums.used.sum() == 4000
    assert sums.chosen[0] / 4000 == pytest.approx(log.values.mean(), abs=0.05)


@pytest.mark.parametrize("world", ["at most one", "independent"])
def test_xdr_is_for_exclusive_worlds_alone(world):
    assert parts_of(simulated(world, 4000, seed=1)).used[2] == 0


def test_rounds_in_which_both_policies_agree_add_nothing():
    log = simulated("exclusive", 500, seed=2, difference=True)
    log = log._replace(policies=log.policies._replace(second=log.policies.first.copy()))
    sums = parts_of(log)
    assert sums.chosen[0] == 0 and (sums.kinds == 0).all() and (sums.bracket == 0).all()
    assert sums.differing == 0
    for side in (sums.low, sums.high, sums.bracket_low, sums.bracket_high):
        assert (side.swings.totals == 0).all()


@pytest.mark.parametrize("partial", [False, True])
def test_the_logger_compared_with_itself_is_worth_nothing_more(partial):
    """A difference to the logger, where its policy is given: what remains is noise around 0."""
    log = simulated("exclusive", 2000, seed=2, partial=partial)
    full = simulated("exclusive", 2000, seed=2).rounds.propensities
    question = log.question._replace(is_difference=True, against_logger=True)
    log = log._replace(question=question, policies=log.policies._replace(first=full))
    sums = parts_of(log)
    if not partial:
        assert sums.chosen[0] == 0
    assert sums.chosen[0] / 2000 == pytest.approx(0, abs=0.05)
    assert sums.bracket[0] <= 0 <= sums.bracket[1]


def test_an_exclusive_world_is_not_contradicted():
    for kind in ("exclusive", "drift", "adaptive", "deterministic"):
        sums = parts_of(simulated(kind, 2000, seed=5))
        assert max(np.exp(sums.several).mean(), np.exp(sums.none_right).mean()) < 100
        assert np.exp(sums.too_rare).mean() < 100


def test_other_worlds_contradict_that_exactly_one_label_is_right():
    sums = parts_of(simulated("independent", 2000, seed=5))
    assert sums.several.max() > math.log(1e6)
    sums = parts_of(simulated("at most one", 4000, seed=5))
    assert sums.none_right.max() > math.log(1e4) and sums.several.max() < math.log(100)


def test_impossible_probabilities_are_noticed():
    log = simulated("exclusive", 1000, seed=5, partial=True)
    smaller = log.rounds._replace(propensity=log.rounds.propensity / 4)
    assert parts_of(log._replace(rounds=smaller)).too_rare.max() > math.log(1e6)


def test_the_best_shrinkage_leaves_the_estimate_unbiased():
    """The mix of an estimate and the bounded one has the same mean, for every label."""
    rng = np.random.default_rng(0)
    w, p, q = (rng.dirichlet(np.ones(3), 40) for _ in range(3))
    kept = rng.random(40)
    for right in np.eye(3):
        mean = np.zeros(40)
        for a in range(3):
            said, c = np.full(40, a), np.full(40, right[a])
            phi = forms_of_said(1, w, q, said, p[:, a], np.zeros(40)).at(c)
            base = bounded_forms(w, said, p[:, a]).at(c)
            mean += p[:, a] * ((1 - kept) * base + kept * phi)
        assert mean == pytest.approx(w @ right)
