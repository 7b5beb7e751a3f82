"""Simulated logs of six kinds, whose policies have known values."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from onebit.evidence.estimators import Rounds
from onebit.evidence.intervals import capital_of_bets, capital_of_swings
from onebit.evidence.sums import BOUNDS, Policies, Question, Sums, add_rounds

KINDS = ("exclusive", "at most one", "independent", "drift", "adaptive", "deterministic")
LABELS, CONTEXTS = 4, 5
POINTS = (20, 50, 100, 150, 200, 300)  # when one looks
ALPHA = 0.05


class Simulated(NamedTuple):
    rounds: Rounds
    policies: Policies
    values: np.ndarray  # of the policy, in each round
    mean: float  # of the value over all contexts, where nothing drifts
    question: Question


def simulated(kind, size, seed, difference=False, partial=False):
    """A log of a kind. partial: only the said label's probability is known."""
    rng = np.random.default_rng(seed)
    chances = rng.dirichlet(np.full(LABELS, 0.5), CONTEXTS)
    if kind == "at most one":
        chances *= 0.8
    if kind == "independent":
        chances = rng.random((CONTEXTS, LABELS))
    x = rng.integers(CONTEXTS, size=size)
    truths = chances[x]
    if kind == "drift":
        share = 0.5 + 0.5 * np.sin(np.arange(size)[:, None] / 40)
        truths = share * truths + (1 - share) * truths[:, ::-1]
    forecasts = np.clip(truths + rng.normal(0, 0.1, truths.shape), 0, 1)
    draws = rng.random(size)
    if kind == "independent":
        right = rng.random(truths.shape) < truths
    else:
        y = (truths.cumsum(axis=1) < draws[:, None]).sum(axis=1)  # LABELS: none is right
        right = np.eye(LABELS + 1, dtype=bool)[y][:, :LABELS]
    favourite = chances.argmax(axis=1)[x]
    eps = {"deterministic": 0.0}.get(kind, 0.2)
    logger = np.full((size, LABELS), eps / LABELS)
    if kind != "adaptive":
        logger[np.arange(size), favourite] += 1 - eps
    said = np.zeros(size, int)
    told, heard = np.ones((CONTEXTS, LABELS)), np.ones((CONTEXTS, LABELS))
    choices = rng.random(size)
    for t in range(size):
        if kind == "adaptive":
            logger[t, (heard[x[t]] / told[x[t]]).argmax()] += 1 - eps
        said[t] = min(int((logger[t].cumsum() < choices[t]).sum()), LABELS - 1)
        told[x[t], said[t]] += 1
        heard[x[t], said[t]] += right[t, said[t]]
    each = np.arange(size)
    first = rng.dirichlet(np.full(LABELS, 0.3), CONTEXTS)
    second = rng.dirichlet(np.full(LABELS, 0.3), CONTEXTS) if difference else None
    weights = first if second is None else first - second
    world = kind if kind in ("at most one", "independent") else "exclusive"
    all_of_them = np.full_like(logger, np.nan) if partial else logger
    rounds = Rounds(
        said, right[each, said].astype(float), np.full(size, -1), logger[each, said], all_of_them
    )
    return Simulated(
        rounds,
        Policies(first[x], None if second is None else second[x], forecasts),
        (weights[x] * truths).sum(axis=1),
        float((weights * chances).sum(axis=1).mean()),
        Question(LABELS, world, difference),
    )


def sums_at(log: Simulated, points):
    """The sums up to each point."""
    sums, start = Sums.none(log.question), 0
    for stop in points:
        part = slice(start, stop)
        rounds, policies = log.rounds.part(part), log.policies.part(part)
        sums = add_rounds(sums, log.question, rounds, policies, np.ones(stop - start, bool))
        start = stop
        yield stop, sums


def misses(kind, seed, **how):
    """Which bounds of a log were ever wrong."""
    log = simulated(kind, POINTS[-1], seed, **how)
    least, opposite = log.question.least, 0.0 if log.question.is_difference else 1.0
    bracket = (log.question.bracket_bound,)
    enough, found = math.log(2 / ALPHA), set()

    def check(name, capital_of, sums, bounds, value):
        if value > least and capital_of(sums, bounds)(value) >= enough:
            found.add(name)

    for stop, sums in sums_at(log, POINTS):
        now = log.values[:stop].mean()
        for side, value in ((sums.low, now), (sums.high, opposite - now)):
            check("swings", capital_of_swings, side.swings, BOUNDS, value)
        for side, value in ((sums.bracket_low, now), (sums.bracket_high, opposite - now)):
            check("bracket", capital_of_swings, side.swings, bracket, value)
        for side, value in ((sums.low, log.mean), (sums.high, opposite - log.mean)):
            if kind != "drift":
                check("bets", capital_of_bets, side.bets, BOUNDS, value)
    return found
