"""Bounds that hold at every time, against their definitions and by simulation."""

from __future__ import annotations

import naive_evidence as naive
import numpy as np
import pytest

from onebit.evidence.intervals import (
    Bets,
    Swings,
    bets_of,
    bound_by_bets,
    bound_by_swings,
    grid_from,
    swings_of,
)

BOUNDS = (2.0, 5.0)


def numbers_of(rounds, bound, seed=0, least=0.0):
    """Numbers of at least -bound with a mean between `least` and 1."""
    rng = np.random.default_rng(seed)
    heavy = rng.random(rounds) < 0.05
    return np.where(heavy, rng.uniform(-bound, bound + 1, rounds), rng.normal(0.4, 0.2, rounds))


@pytest.mark.parametrize("bound", [0.0, 1.0, 2.0, 20.0])
def test_the_grid_has_the_whole_numbers(bound):
    grid = grid_from(bound)
    assert grid[0] == -bound and (np.diff(grid) > 0).all()
    assert set(range(-int(bound), 3)) <= set(grid.tolist())


@pytest.mark.parametrize(("bound", "least"), [(2.0, 0.0), (2.0, -1.0), (0.0, 0.0)])
def test_betting_is_that_of_the_definition(bound, least):
    numbers = np.maximum(numbers_of(300, bound), -bound)
    made = bound_by_bets(bets_of(numbers[:, None], (bound,)), (bound,), 0.05, least)
    exact = naive.smallest_mean(lambda m: naive.capital_of_bets(numbers, m, bound), 0.05, least)
    assert made <= exact + 2e-5
    assert made == pytest.approx(exact, abs=1e-3)


def test_the_grid_never_raises_the_capital():
    """Numbers between two points count as a mixture of them; beyond the last, as the last."""
    numbers = np.array([[-1.999], [0.3331], [17.2], [3e7]])
    (counts,) = bets_of(numbers, (2.0,)).counts
    grid = grid_from(2.0)
    assert counts.sum() == pytest.approx(4)
    assert counts @ grid == pytest.approx(np.minimum(numbers, grid[-1]).sum())
    for m in (0.1, 0.5, 0.9):
        for bet in naive.BETS:
            exact = np.log1p(bet / (m + 2) * (numbers - m)).sum()
            assert counts @ np.log1p(bet / (m + 2) * (grid - m)) <= exact + 1e-12


@pytest.mark.parametrize("least", [0.0, -1.0])
def test_empirical_bernstein_is_that_of_the_definition(least):
    numbers = np.maximum(numbers_of(300, 2.0), -2.0)
    sums = swings_of(numbers[:, None], (2.0,), Swings.none((2.0,)), least)
    made = bound_by_swings(sums, (2.0,), 0.05, least)
    exact = naive.smallest_mean(
        lambda m: naive.capital_of_swings(numbers, m, 2.0, least), 0.05, least
    )
    assert made == pytest.approx(exact, abs=3e-5)


def test_blocks_add_up():
    numbers = np.stack([numbers_of(500, 2.0), numbers_of(500, 5.0, seed=1)], axis=1)
    whole = bets_of(numbers, BOUNDS)
    parts = bets_of(numbers[:123], BOUNDS) + bets_of(numbers[123:], BOUNDS)
    for a, b in zip(whole.counts, parts.counts, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)
    first = swings_of(numbers[:123], BOUNDS, Swings.none(BOUNDS), 0.0)
    both = first + swings_of(numbers[123:], BOUNDS, first, 0.0)
    alone = swings_of(numbers, BOUNDS, Swings.none(BOUNDS), 0.0)
    for a, b in zip(both, alone, strict=True):
        np.testing.assert_allclose(a, b)


def test_nothing_is_said_before_the_first_round():
    assert bound_by_bets(Bets.none(BOUNDS), BOUNDS, 0.05, 0.0) == pytest.approx(0, abs=1e-5)
    assert bound_by_swings(Swings.none(BOUNDS), BOUNDS, 0.05, -1.0) == pytest.approx(-1, abs=1e-5)


def test_the_bounds_come_near_the_mean():
    rng = np.random.default_rng(0)
    numbers = rng.binomial(1, 0.7, 20_000).astype(float)[:, None]
    by_bets = bound_by_bets(bets_of(numbers, (0.0,)), (0.0,), 0.05, 0.0)
    sums = swings_of(numbers, (0.0,), Swings.none((0.0,)), 0.0)
    by_swings = bound_by_swings(sums, (0.0,), 0.05, 0.0)
    assert 0.68 < by_bets < 0.7 and 0.675 < by_swings < 0.7


def test_numbers_whose_mean_is_too_large_have_the_largest_bound():
    numbers = np.full((2000, 1), 1.5)
    assert bound_by_bets(bets_of(numbers, (0.0,)), (0.0,), 0.05, 0.0) == 1.0
