"""Estimates and brackets of rounds, by enumeration."""

from __future__ import annotations

import itertools

import naive_evidence as naive
import numpy as np
import pytest

from onebit.evidence import estimators
from onebit.evidence.estimators import DR, IPS, XDR

KINDS = {IPS: naive.ips, DR: naive.dr, XDR: naive.xdr}


def cases(labels, count, seed=0, difference=False):
    """Weights, the logger's probabilities, forecasts and chances to be right, [case, label]."""
    rng = np.random.default_rng(seed)

    def draw():
        return rng.dirichlet(np.full(labels, 0.5), size=count)

    weights = draw() - draw() if difference else draw()
    return weights, 0.02 / labels + 0.98 * draw(), draw(), draw()


def forms(kind, w, p, q, total=1.0):
    shift = estimators.shifts(w, q, p)
    return estimators.forms_of_labels(kind, w, q, p, shift, total)


@pytest.mark.parametrize("labels", [2, 3, 10])
@pytest.mark.parametrize("difference", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_estimates_are_those_of_the_definition(kind, labels, difference):
    w, p, q, _ = cases(labels, 20, difference=difference)
    made = forms(kind, w, p, q)
    shift = estimators.shifts(w, q, p)
    for i, a, c in itertools.product(range(20), range(labels), (0, 1)):
        expected = KINDS[kind](w[i], p[i], q[i], a, c)
        assert made.start[i, a] + c * made.slope[i, a] == pytest.approx(expected, abs=1e-9)
        said = np.full(20, a)
        alone = estimators.forms_of_said(kind, w, q, said, p[:, a], shift)
        assert alone.at(np.full(20, c))[i] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("labels", [2, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_estimates_are_unbiased_whatever_is_right(kind, labels):
    w, p, q, _ = cases(labels, 50, difference=True)
    made = forms(kind, w, p, q)
    for right in itertools.product((0, 1), repeat=labels):
        if kind == XDR and sum(right) != 1:
            continue
        mean = (p * (made.start + made.slope * np.array(right))).sum(axis=1)
        assert mean == pytest.approx(w @ np.array(right), abs=1e-12)


def test_flipped_answers_have_another_total():
    """Heard bits of known flips: their sum over the labels is known, so xDR stays unbiased."""
    rho0, rho1, labels = 0.2, 0.3, 4
    w, p, q, _ = cases(labels, 50)
    made = forms(XDR, w, p, q, total=1 - rho0 - rho1 + labels * rho0)
    for y in range(labels):
        heard = np.full(labels, rho0)
        heard[y] = 1 - rho1
        mean = (p * (made.start + made.slope * heard)).sum(axis=1)
        assert (mean - rho0) / (1 - rho0 - rho1) == pytest.approx(w[:, y], abs=1e-12)


def least_second_moment(w, p, q):
    """Of all unbiased estimates theta(a, c) in an exclusive world: a quadratic programme.

    The unknowns are theta(a, 1), then theta(a, 0).
    """
    labels = len(w)
    constraints = np.zeros((labels, 2 * labels))
    for y, a in itertools.product(range(labels), repeat=2):
        constraints[y, a if a == y else labels + a] = p[a]
    cost = np.concatenate([q * p, (1 - q) * p])  # the probability of each
    scaled = constraints / np.sqrt(cost)
    return float(w @ np.linalg.lstsq(scaled @ scaled.T, w, rcond=None)[0])


@pytest.mark.parametrize("labels", range(2, 11))
def test_no_unbiased_estimate_has_less_variance_than_xdr(labels):
    count = 20
    w, p, q, _ = cases(labels, count, seed=labels)
    q = 0.9 * q + 0.1 / labels
    made = forms(XDR, w, p, q)
    right, wrong = made.start + made.slope, made.start
    moments = (p * (q * right**2 + (1 - q) * wrong**2)).sum(axis=1)
    for i in range(count):
        assert moments[i] == pytest.approx(least_second_moment(w[i], p[i], q[i]), rel=1e-9)
    shift = estimators.shifts(w, q, p)
    formula = (q * (1 - q) * (w - shift[:, None]) ** 2 / p).sum(axis=1)
    variance = moments - (q * w).sum(axis=1) ** 2
    assert variance == pytest.approx(formula, abs=1e-9)


def test_two_labels_need_no_support():
    w, q = np.array([[0.3, 0.7]]), np.array([[0.6, 0.4]])
    p = np.array([[1.0, 0.0]])
    shift = estimators.shifts(w, q, p)
    assert estimators.without_support(w, p, shift)[0] == 0
    made = estimators.forms_of_labels(XDR, w, q, p, shift)
    assert made.start[0, 0] + made.slope[0, 0] == pytest.approx(0.3)
    assert made.start[0, 0] == pytest.approx(0.7)
    assert estimators.without_support(w, p, np.zeros(1))[0] == pytest.approx(0.7)


def test_labels_without_support_that_weigh_the_same_do_no_harm():
    w, q = np.array([[0.5, 0.25, 0.25]]), np.array([[0.2, 0.3, 0.5]])
    p = np.array([[1.0, 0.0, 0.0]])
    shift = estimators.shifts(w, q, p)
    assert shift[0] == 0.25
    assert estimators.without_support(w, p, shift)[0] == 0


@pytest.mark.parametrize("difference", [False, True])
def test_the_bounded_estimate_is_unbiased_and_bounded(difference):
    labels = 4
    w, p, _, _ = cases(labels, 50, difference=difference)
    for right in itertools.product((0, 1), repeat=labels):
        mean = np.zeros(50)
        for a in range(labels):
            form = estimators.bounded_forms(w, np.full(50, a), p[:, a])
            value = form.at(np.full(50, right[a]))
            assert (value >= -np.maximum(-w, 0).sum(axis=1) - 1e-12).all()
            mean += p[:, a] * value
        assert mean == pytest.approx(w @ np.array(right), abs=1e-12)


def test_shrinkage_keeps_as_much_as_the_bound_allows():
    least, floor = np.array([-1.0, -30.0, -np.inf, -2.0]), np.array([0.0, 0.0, 0.0, -1.0])
    kept = estimators.shrinkage(least, floor, (2.0, 10.0))
    assert kept == pytest.approx(np.array([[1, 1], [2 / 30, 10 / 30], [0, 0], [1, 1]]))


@pytest.mark.parametrize("world", ["exclusive", "at most one", "independent"])
def test_brackets_are_the_extremes_of_what_is_possible(world):
    rng = np.random.default_rng(1)
    for _ in range(200):
        labels = int(rng.integers(2, 5))
        w = rng.dirichlet(np.ones(labels)) - rng.dirichlet(np.ones(labels)) * rng.integers(2)
        a, c = int(rng.integers(labels)), int(rng.integers(2))
        truth = -1
        if rng.random() < 0.3:
            truth = a if c else int((a + rng.integers(1, labels)) % labels)
        given = (w[None], np.array([a]), np.array([c]), np.array([truth]))
        low, high = estimators.brackets(*given, world)
        assert (low[0], high[0]) == pytest.approx(naive.bracket(w, a, c, truth, world))


@pytest.mark.parametrize("world", ["exclusive", "at most one", "independent"])
def test_labels_that_were_not_possible_are_not_right(world):
    rng = np.random.default_rng(2)
    for _ in range(200):
        labels = int(rng.integers(3, 6))
        places = rng.permutation(labels)[: rng.integers(2, labels)]
        possible = np.isin(np.arange(labels), places)
        w = (rng.dirichlet(np.ones(labels)) - rng.dirichlet(np.ones(labels))) * possible
        a, c = int(places[0]), int(rng.integers(2))
        given = (w[None], np.array([a]), np.array([c]), np.array([-1]), world, possible[None])
        low, high = estimators.brackets(*given)
        expected = naive.bracket(w, a, c, -1, world, places.tolist())
        assert (low[0], high[0]) == pytest.approx(expected)
        low, high = estimators.unknown_brackets(w[None], world, possible[None])
        ends = [naive.bracket(w, a, c, -1, world, places.tolist()) for c in (0, 1)]
        assert low[0] == min(end[0] for end in ends) and high[0] == max(end[1] for end in ends)


def test_a_label_that_is_not_possible_needs_no_support():
    w, q = np.array([[0.3, 0.7, 0.0]]), np.array([[0.6, 0.4, 0.0]])
    p, possible = np.array([[1.0, 0.0, 0.0]]), np.array([[True, True, False]])
    shift = estimators.shifts(w, q, p, possible)
    assert estimators.without_support(w, p, shift, possible)[0] == 0
    made = estimators.forms_of_labels(XDR, w, q, p, shift)
    assert (made.start + made.slope)[0, 0] == pytest.approx(0.3)
    assert made.start[0, 0] == pytest.approx(0.7)


@pytest.mark.parametrize("world", ["exclusive", "at most one", "independent"])
def test_an_unanswered_round_leaves_everything_possible(world):
    w = np.array([[0.5, -0.2, -0.3], [0.2, 0.3, 0.5]])
    low, high = estimators.unknown_brackets(w, world)
    for i in range(2):
        ends = [naive.bracket(w[i], 0, c, -1, world) for c in (0, 1)]
        assert low[i] == min(end[0] for end in ends)
        assert high[i] == max(end[1] for end in ends)
