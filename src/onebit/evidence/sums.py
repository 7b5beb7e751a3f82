"""What an evaluation keeps of a log: sums. Blocks can be summed anywhere and added in order.

All that is chosen in a block (which estimate, how far it shrinks, the guess of the empirical
Bernstein bound) depends only on earlier rounds of the same part of the log, so that sums of several
parts are as valid as those of one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from onebit.evidence.estimators import (
    DR,
    IPS,
    XDR,
    Forms,
    Rounds,
    World,
    bounded_forms,
    brackets,
    forms_of_labels,
    forms_of_said,
    shifts,
    shrinkage,
    unknown_brackets,
    without_support,
)
from onebit.evidence.intervals import BETS, Bets, Swings, bets_of, swings_of

BOUNDS = (2.0, 5.0, 10.0, 20.0)  # estimates are kept above minus these; the mix of all is safe
_FEWEST = 64  # rounds before an estimate is chosen by its variance
_ROUNDING = 1e-9
_NUMBERS = 2**18  # of a matrix [round, label] that is worked on at once


class Question(NamedTuple):
    """What is asked of a log, and what is assumed."""

    labels: int
    world: World
    is_difference: bool
    against_logger: bool = False  # the policy that is subtracted is the logger
    flips: tuple[float, float] = (0.0, 0.0)  # wrong heard as right, right heard as wrong

    @property
    def least(self) -> float:
        """The least value that can come out. The largest is 1."""
        return -1.0 if self.is_difference else 0.0

    @property
    def scale(self) -> float:
        """By how much flips shrink differences."""
        return 1.0 - self.flips[0] - self.flips[1]

    def totals(self, possible: np.ndarray) -> np.ndarray:
        """The expected number of labels that would be heard as right, in an exclusive world, in
        rounds in which these labels are possible."""
        return self.scale + possible.sum(axis=1) * self.flips[0]

    @property
    def bracket_bound(self) -> float:
        """The ends of brackets are at least minus this."""
        if self.flips == (0.0, 0.0):
            return -self.least
        return 2 * (1 + max(self.flips)) / self.scale

    def true_bits(self, heard: np.ndarray) -> np.ndarray:
        """Bits whose means are those of unflipped ones."""
        return (heard - self.flips[0]) / self.scale


class Side(NamedTuple):
    """The sums for a lower bound; the upper one is the lower bound of the opposite."""

    bets: Bets
    swings: Swings

    @classmethod
    def none(cls, bounds: tuple[float, ...]) -> Side:
        return cls(Bets.none(bounds), Swings.none(bounds))

    def __add__(self, other: Side) -> Side:  # type: ignore[override]
        return Side(self.bets + other.bets, self.swings + other.swings)

    def of(self, numbers: np.ndarray, bounds: tuple[float, ...], least: float) -> Side:
        """The sums of numbers that come after these."""
        swings = swings_of(numbers, bounds, self.swings, least)
        return Side(bets_of(numbers, bounds), swings)


class Sums(NamedTuple):
    """The sums over the rounds of a log."""

    rounds: int  # that count
    left_out: int  # rounds without an answer that do not count
    unanswered: int  # rounds without an answer that count
    unknown: int  # rounds without any probability
    partial: int  # rounds of which only the said label's probability is known
    right: float  # answers heard as right
    differing: int  # rounds in which the policies differ
    unsupported: np.ndarray  # [kind] weight on labels that could not be said
    missing: float  # the same for the chosen kinds
    weights: np.ndarray  # [policy, (w, w squared, w c)] with w = policy / logger
    kinds: np.ndarray  # [kind, (estimates, their expected squares)]
    chosen: np.ndarray  # (estimates, their expected squares), of the kind chosen before
    used: np.ndarray  # [kind] how often it was chosen
    bracket: np.ndarray  # (lower ends, upper ends)
    low: Side
    high: Side
    bracket_low: Side
    bracket_high: Side
    times: np.ndarray  # [label] how often it was said
    several: np.ndarray  # [bound, bet] log capital against at most one right label
    none_right: np.ndarray  # [bound, bet] log capital against at least one right label
    too_rare: np.ndarray  # [bound, bet] log capital against probabilities that sum to at most 1
    said: np.ndarray  # [label, (said - probability, its square)]

    @classmethod
    def none(cls, question: Question) -> Sums:
        bound, bets = (question.bracket_bound,), (len(BOUNDS), len(BETS))
        return cls(
            rounds=0,
            left_out=0,
            unanswered=0,
            unknown=0,
            partial=0,
            right=0.0,
            differing=0,
            unsupported=np.zeros(3),
            missing=0.0,
            weights=np.zeros((2, 3)),
            kinds=np.zeros((3, 2)),
            chosen=np.zeros(2),
            used=np.zeros(3),
            bracket=np.zeros(2),
            low=Side.none(BOUNDS),
            high=Side.none(BOUNDS),
            bracket_low=Side.none(bound),
            bracket_high=Side.none(bound),
            times=np.zeros(question.labels),
            several=np.zeros(bets),
            none_right=np.zeros(bets),
            too_rare=np.zeros(bets),
            said=np.zeros((question.labels, 2)),
        )

    def __add__(self, other: Sums) -> Sums:  # type: ignore[override]
        pairs: Any = zip(self, other, strict=True)
        return Sums(*(a + b for a, b in pairs))


class Policies(NamedTuple):
    """The probabilities [round, label] of the policy, of the one that is subtracted (None: none, or
    the logger), and forecasts of the chance to be heard as right."""

    first: np.ndarray
    second: np.ndarray | None
    forecasts: np.ndarray

    def part(self, rows: Any) -> Policies:
        """The same in some of the rounds."""
        second = None if self.second is None else self.second[rows]
        return Policies(self.first[rows], second, self.forecasts[rows])


def add_rounds(
    sums: Sums, question: Question, rounds: Rounds, policies: Policies, answered: np.ndarray
) -> Sums:
    """The sums with further rounds. answered: which rounds have an answer; others are unknown."""
    start, size = 0, len(rounds.said)
    while start < size:
        step = max(_FEWEST, min(sums.rounds, _NUMBERS // question.labels))
        piece = slice(start, start + step)
        part, taken = rounds.part(piece), policies.part(piece)
        sums = sums + _piece(sums, question, part, taken, answered[piece])
        start += step
    return sums


def _piece(
    before: Sums, question: Question, rounds: Rounds, policies: Policies, answered: np.ndarray
) -> Sums:
    """The sums of some rounds that come after others."""
    size = len(rounds.said)
    policies = _possible(policies, rounds.possible)
    sums = Sums.none(question)._replace(
        rounds=size,
        unanswered=int((~answered).sum()),
        unknown=int(np.isnan(rounds.propensity).sum()),
        partial=int((~rounds.are_full & ~np.isnan(rounds.propensity)).sum()),
        right=float(rounds.right.sum()),
        times=np.bincount(rounds.said, minlength=question.labels).astype(float),
    )
    sums = _with_brackets(before, sums, question, rounds, policies, answered)
    if not sums.unknown and answered.all():
        sums = _with_estimates(before, sums, question, rounds, policies)
        sums = _with_tests(sums, question, rounds, policies.forecasts)
    return sums


def _possible(policies: Policies, possible: np.ndarray) -> Policies:
    """A label that is not possible in a round is not right either: it counts as nothing."""
    if possible.all():
        return policies
    second = None if policies.second is None else policies.second * possible
    return Policies(policies.first * possible, second, policies.forecasts * possible)


# Brackets.


def _with_brackets(
    before: Sums,
    sums: Sums,
    question: Question,
    rounds: Rounds,
    policies: Policies,
    answered: np.ndarray,
) -> Sums:
    each = np.arange(len(rounds.said))
    weights = policies.first.copy()
    if question.against_logger:
        weights[each, rounds.said] -= 1.0
    elif policies.second is not None:
        weights -= policies.second
    right = question.true_bits(rounds.right)
    possible = rounds.possible
    low, high = brackets(weights, rounds.said, right, rounds.truth, question.world, possible)
    if not answered.all():
        least, most = unknown_brackets(weights, question.world, possible)
        if question.against_logger:  # whether the logger was right is not known either
            least, most = np.full_like(low, -1.0), policies.first.max(axis=1)
        low, high = np.where(answered, low, least), np.where(answered, high, most)
    bound = (question.bracket_bound,)
    opposite = 0.0 if question.is_difference else 1.0
    return sums._replace(
        bracket=np.array([low.sum(), high.sum()]),
        bracket_low=before.bracket_low.of(low[:, None], bound, question.least),
        bracket_high=before.bracket_high.of(opposite - high[:, None], bound, question.least),
        differing=int((np.abs(weights).max(axis=1) > 0).sum()) if question.is_difference else 0,
    )


# Estimates.


class _Weights(NamedTuple):
    """What is to be estimated in some rounds, and the logger's probabilities."""

    weights: np.ndarray  # [round, label]
    minus: np.ndarray  # 1 where the logger's own answer is subtracted, else 0
    said: np.ndarray
    propensity: np.ndarray
    propensities: np.ndarray  # where they are not known: those of a label said for certain
    are_full: np.ndarray
    forecasts: np.ndarray
    possible: np.ndarray
    total: np.ndarray  # expected number of labels heard as right, in an exclusive world
    lost: np.ndarray  # weight on labels that were not possible, which flips would not make right


def _weights_of(question: Question, rounds: Rounds, policies: Policies) -> _Weights:
    are_full = rounds.are_full
    weights, minus = policies.first, np.zeros(len(rounds.said))
    if question.against_logger:
        weights = np.where(are_full[:, None], weights - rounds.propensities, weights)
        minus = np.where(are_full, 0.0, 1.0)
    elif policies.second is not None:
        weights = weights - policies.second
    return _weighted(question, rounds, policies.forecasts, weights, minus)


def _weighted(
    question: Question,
    rounds: Rounds,
    forecasts: np.ndarray,
    weights: np.ndarray,
    minus: np.ndarray,
) -> _Weights:
    possible, size = rounds.possible, len(rounds.said)
    total = np.broadcast_to(question.totals(possible), (size,))
    return _Weights(
        weights, minus, rounds.said, rounds.propensity, rounds.propensities, rounds.are_full,
        forecasts, possible, total, _lost(question, weights, minus),
    )  # fmt: skip


def _lost(question: Question, weights: np.ndarray, minus: np.ndarray) -> np.ndarray:
    """What flips would add for labels that were not possible, which nobody heard."""
    rate, expected = question.flips[0], minus if question.is_difference else 1.0
    return rate * (expected - weights.sum(axis=1)) if rate else np.zeros(len(weights))


def _with_estimates(
    before: Sums, sums: Sums, question: Question, rounds: Rounds, policies: Policies
) -> Sums:
    given = _weights_of(question, rounds, policies)
    shift = _shift_of(before, question, given)
    kinds = np.zeros((3, 2))
    forms: list[Forms] = []
    full, now = np.flatnonzero(given.are_full), _chances_now(question, given, rounds.right)
    for kind in range(3):
        made = forms_of_said(
            kind, given.weights, given.forecasts, given.said, given.propensity, shift, given.total
        )
        form = Forms(made.start + given.lost, made.slope - given.minus)
        phi = form.at(rounds.right)
        squares = phi**2
        if len(full):
            squares[full] = _expected_squares(given, full, kind, shift, now[full])
        kinds[kind] = phi.sum(), squares.sum()
        forms.append(form)
    best = _best_kind(before, question)
    low, high = _both_ends(question, given, rounds.right, forms[best], best, shift)
    no_shift = np.zeros(len(shift))
    unsupported = [
        float(without_support(given.weights, given.propensities, s, given.possible).sum())
        for s in (no_shift, no_shift, shift)
    ]
    return sums._replace(
        unsupported=np.array(unsupported),
        missing=unsupported[best],
        weights=_weight_sums(question, rounds, policies),
        kinds=kinds,
        chosen=kinds[best],
        used=np.eye(3)[best] * len(shift),
        low=before.low.of(low, BOUNDS, question.least),
        high=before.high.of(high, BOUNDS, question.least),
    )


def _chances_now(question: Question, given: _Weights, right: np.ndarray) -> np.ndarray:
    """The chance of each label to be heard as right in a round, once its answer is known."""
    each, made = np.arange(len(right)), given.forecasts.copy()
    made[each, given.said] = 0.0
    if question.world == "exclusive":  # right: no other label is; wrong: one of the others is
        total = made.sum(axis=1)
        rest = np.where(right > 0, 0.0, given.total)
        made *= np.divide(rest, total, out=np.zeros_like(total), where=total > 0)[:, None]
    made[each, given.said] = right
    return made.clip(0, 1)


def _expected_squares(
    given: _Weights,
    full: np.ndarray,
    kind: int,
    shift: np.ndarray,
    chances: np.ndarray,
) -> np.ndarray:
    """The mean of the squared estimate over the labels that could have been said in a round.

    The squares themselves are large in rare rounds only, and tell too little before these come.
    """
    propensities = given.propensities[full]
    made = forms_of_labels(
        kind, given.weights[full], given.forecasts[full], propensities, shift[full],
        given.total[full],
    )  # fmt: skip
    if_right, if_wrong = (made.start + made.slope) ** 2, made.start**2
    return (propensities * (chances * if_right + (1 - chances) * if_wrong)).sum(axis=1)


def _shift_of(before: Sums, question: Question, given: _Weights) -> np.ndarray:
    """The S of xDR. Where the logger's probabilities are not known, S is computed with the shares
    of the labels so far: any S is allowed that does not depend on the said label."""
    if question.world != "exclusive":
        return np.zeros(len(given.said))
    so_far = (before.times + 1.0) * given.possible
    known = given.are_full[:, None]
    assumed = np.where(known, given.propensities, so_far / so_far.sum(axis=1, keepdims=True))
    return shifts(given.weights, given.forecasts, assumed, given.possible)


def _best_kind(before: Sums, question: Question) -> int:
    """The kind of estimate with the least variance so far, of those with the most support."""
    kinds = [IPS, DR, XDR] if question.world == "exclusive" else [IPS, DR]
    if before.rounds < _FEWEST:
        return kinds[-1]
    mean = before.kinds[:, 0] / before.rounds
    variance = before.kinds[:, 1] / before.rounds - mean**2
    most = before.unsupported[kinds].min() + _ROUNDING * before.rounds
    return min((kind for kind in kinds if before.unsupported[kind] <= most), key=variance.item)


def _weight_sums(question: Question, rounds: Rounds, policies: Policies) -> np.ndarray:
    each, made = np.arange(len(rounds.said)), np.zeros((2, 3))
    for i, policy in enumerate((policies.first, policies.second)):
        if policy is not None:
            w = policy[each, rounds.said] / rounds.propensity
            made[i] = w.sum(), (w**2).sum(), (w * rounds.right).sum()
    if question.against_logger:
        made[1] = len(rounds.said), len(rounds.said), rounds.right.sum()
    return made


def _both_ends(
    question: Question,
    given: _Weights,
    right: np.ndarray,
    form: Forms,
    kind: int,
    shift: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The numbers for the lower bound, and those for the lower bound of the opposite."""
    opposite = 0.0 if question.is_difference else 1.0
    turned = _turned(given)
    turned_form = Forms(-form.start, -form.slope)
    return (
        _bounded(given, right, form, kind, shift, 0.0),
        _bounded(turned, right, turned_form, kind, -shift, opposite),
    )


def _turned(given: _Weights) -> _Weights:
    """The opposite."""
    return given._replace(weights=-given.weights, minus=-given.minus, lost=-given.lost)


def _bounded(
    given: _Weights,
    right: np.ndarray,
    form: Forms,
    kind: int,
    shift: np.ndarray,
    offset: float | np.ndarray,
) -> np.ndarray:
    """The estimates plus an offset, [round, bound], kept above -bound."""
    base = bounded_forms(given.weights, given.said, given.propensity)
    base = Forms(base.start + given.lost, base.slope - given.minus)
    floor = -np.maximum(-given.weights, 0).sum(axis=1) - np.maximum(given.minus, 0) + given.lost
    least = np.full(len(right), -np.inf)
    full = np.flatnonzero(given.are_full)
    if len(full):
        least[full] = _least_of(given, full, kind, shift)
    kept = shrinkage(least + offset, floor + offset, BOUNDS)
    made = (1 - kept) * base.at(right)[:, None] + kept * form.at(right)[:, None]
    return (made.T + offset).T


def _least_of(
    given: _Weights,
    full: np.ndarray,
    kind: int,
    shift: np.ndarray,
) -> np.ndarray:
    """The smallest value that an estimate could take in a round; -infinity without support."""
    shift, weights = shift[full], given.weights[full]
    propensities = given.propensities[full]
    made = forms_of_labels(
        kind, weights, given.forecasts[full], propensities, shift, given.total[full]
    )
    ends = made.start + np.minimum(made.slope, 0)
    least = np.where(propensities > 0, ends, np.inf).min(axis=1) + given.lost[full]
    possible = given.possible[full] if len(given.possible) > 1 else given.possible
    shift = shift if kind == XDR else np.zeros(len(full))
    missing = without_support(weights, propensities, shift, possible)
    return np.where(missing > 0, -np.inf, least)


# Tests of what was assumed.


def _with_tests(sums: Sums, question: Question, rounds: Rounds, forecasts: np.ndarray) -> Sums:
    """Capital of bets that gain only if an assumption is wrong.

    The number of labels that would be heard as right is the value of weights that are all 1.
    """
    none = np.zeros(len(forecasts))
    every = np.broadcast_to(rounds.possible, forecasts.shape).astype(float)
    given = _weighted(question, rounds, forecasts, every, none)._replace(lost=none)
    labels, total = every.sum(axis=1), given.total
    form = forms_of_said(DR, every, forecasts, rounds.said, rounds.propensity, none)
    several = _bounded(given, rounds.right, form, DR, none, 0.0)
    turned_form = Forms(-form.start, -form.slope)
    none_right = _bounded(_turned(given), rounds.right, turned_form, DR, none, labels)
    too_rare = np.repeat((1 / rounds.propensity / labels)[:, None], len(BOUNDS), axis=1)
    full = np.flatnonzero(rounds.are_full)
    surprise = -rounds.propensities[full]
    surprise[np.arange(len(full)), rounds.said[full]] += 1.0
    said = np.stack([surprise.sum(axis=0), (surprise**2).sum(axis=0)], axis=1)
    return sums._replace(
        several=_log_capital(several, total, BOUNDS),
        none_right=_log_capital(none_right, labels - total, BOUNDS),
        too_rare=_log_capital(too_rare, np.ones(len(labels)), (0.0,) * len(BOUNDS)),
        said=said,
    )


def _log_capital(numbers: np.ndarray, most: np.ndarray, bounds: tuple[float, ...]) -> np.ndarray:
    """The capital of each bet, [bound, bet], that numbers [round, bound] have means above `most`.

    The numbers of a bound are at least minus the bound.
    """
    distances = (numbers - most[:, None]) / (most[:, None] + np.array(bounds))
    return np.stack([np.log1p(BETS * column[:, None]).sum(axis=0) for column in distances.T])
