"""Bounds on a mean that hold at every time: P(the bound is ever wrong) <= alpha.

The numbers come one after another, each at least -B given what came before, and are otherwise
unbounded. `Bets` is for a mean that stays the same, `Swings` for the running mean of means that may
change (Waudby-Smith and Ramdas 2023; Howard et al. 2021). Both are test martingales against every
smaller mean m, kept as sums, so that blocks of numbers can be added in any order.

A product of bets is no sum. But log(1 + x) is concave: a number between two points of a grid counts
as a mixture of them, which never raises the product and keeps the mean. So counts on a grid are
enough, and the loss is of second order in the width of its cells.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

BETS = 0.9 * 0.5 ** np.arange(1, 13)  # of the most that may be bet
_STEPS_PER_UNIT = 128
_GROWTH = 1.01  # of the points beyond those that are equally far apart
_LARGEST = 1e6  # larger numbers count as this one
_PRECISION = 1e-6


def grid_from(bound: float) -> np.ndarray:
    """The points of the grid for numbers of at least -bound. Whole numbers up to 2 are points."""
    first, last = -int(np.ceil(bound)), 2
    near = np.arange((last - first) * _STEPS_PER_UNIT + 1) / _STEPS_PER_UNIT + first
    count = int(np.ceil(np.log(_LARGEST / last) / np.log(_GROWTH)))
    far = last * _GROWTH ** np.arange(1, count + 1)
    return np.concatenate([near, far])


class Bets(NamedTuple):
    """Counts on the grids of several bounds B, for a mean that stays the same."""

    counts: tuple[np.ndarray, ...]  # [bound][point]

    @classmethod
    def none(cls, bounds: tuple[float, ...]) -> Bets:
        return cls(tuple(np.zeros(len(grid_from(bound))) for bound in bounds))

    def __add__(self, other: Bets) -> Bets:  # type: ignore[override]
        return Bets(tuple(a + b for a, b in zip(self.counts, other.counts, strict=True)))


def bets_of(numbers: np.ndarray, bounds: tuple[float, ...]) -> Bets:
    """The counts of numbers [round, bound]."""
    counts = []
    for column, bound in zip(numbers.T, bounds, strict=True):
        grid = grid_from(bound)
        column = np.clip(column, grid[0], grid[-1])
        left = np.searchsorted(grid, column, side="right") - 1
        left = np.minimum(left, len(grid) - 2)
        share = (column - grid[left]) / (grid[left + 1] - grid[left])
        made = np.bincount(left, 1 - share, len(grid))
        counts.append(made + np.bincount(left + 1, share, len(grid)))
    return Bets(tuple(counts))


class Swings(NamedTuple):
    """Sums for the empirical Bernstein bound on the running mean of means that may change."""

    rounds: int
    totals: np.ndarray  # [bound]
    squares: np.ndarray  # [bound] of the distances to a guess made before, in units of B + 1

    @classmethod
    def none(cls, bounds: tuple[float, ...]) -> Swings:
        return cls(0, np.zeros(len(bounds)), np.zeros(len(bounds)))

    def __add__(self, other: Swings) -> Swings:  # type: ignore[override]
        pairs: Any = zip(self, other, strict=True)
        return Swings(*(a + b for a, b in pairs))


def swings_of(
    numbers: np.ndarray, bounds: tuple[float, ...], before: Swings, least: float
) -> Swings:
    """The sums of numbers [round, bound] that come after others.

    least: of the mean, which is at most 1. The guess is the mean of all numbers before.
    """
    rounds = before.rounds + np.arange(len(numbers))[:, None]
    earlier = before.totals + np.cumsum(numbers, axis=0) - numbers
    middle = (least + 1) / 2
    guesses = np.where(rounds > 0, earlier / np.maximum(rounds, 1), middle)
    distances = (numbers - np.clip(guesses, least, 1)) / (np.array(bounds) + 1)
    return Swings(len(numbers), numbers.sum(axis=0), (distances**2).sum(axis=0))


def capital_of_bets(sums: Bets, bounds: tuple[float, ...]) -> Callable[[float], float]:
    """The logarithm of what bets against a mean of m, or less, have made of 1."""
    kept = []
    for counts, bound in zip(sums.counts, bounds, strict=True):
        met = np.flatnonzero(counts)
        kept.append((grid_from(bound)[met], counts[met], bound))

    def log_capital(m: float) -> float:
        logs = [
            np.log1p(BETS[:, None] * ((points - m) / (m + bound))) @ counts
            for points, counts, bound in kept
        ]
        return _log_mean_exp(np.concatenate(logs))

    return log_capital


def capital_of_swings(sums: Swings, bounds: tuple[float, ...]) -> Callable[[float], float]:
    """The same, against a running mean of m or less."""
    unit = np.array(bounds)[:, None] + 1
    price = (-np.log1p(-BETS) - BETS) * sums.squares[:, None]

    def log_capital(m: float) -> float:
        gain = (sums.totals[:, None] - sums.rounds * m) / unit
        return _log_mean_exp((BETS * gain - price).ravel())

    return log_capital


def bound_by_bets(sums: Bets, bounds: tuple[float, ...], alpha: float, least: float) -> float:
    """A lower bound on the mean, which lies between `least` and 1, if it stays the same."""
    return _smallest(capital_of_bets(sums, bounds), alpha, least)


def bound_by_swings(sums: Swings, bounds: tuple[float, ...], alpha: float, least: float) -> float:
    """A lower bound on the running mean, which lies between `least` and 1."""
    return _smallest(capital_of_swings(sums, bounds), alpha, least)


def _log_mean_exp(logs: np.ndarray) -> float:
    top = float(logs.max())
    return top + float(np.log(np.mean(np.exp(logs - top))))


def _smallest(log_capital: Callable[[float], float], alpha: float, least: float) -> float:
    """The smallest m that is not refuted: the capital falls with m."""
    refuted, enough = least, -np.log(alpha)
    open_ = 1.0
    if log_capital(open_) >= enough:  # the numbers contradict that the mean is at most 1
        return open_
    while open_ - refuted > _PRECISION:
        m = (refuted + open_) / 2
        if log_capital(m) >= enough:
            refuted = m
        else:
            open_ = m
    return refuted
