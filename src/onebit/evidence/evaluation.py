"""The result of an evaluation: an estimate, an interval, a bracket, and what was assumed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from onebit.evidence.estimators import NAMES, XDR
from onebit.evidence.intervals import BETS, bound_by_bets, bound_by_swings
from onebit.evidence.sums import BOUNDS, Question, Side, Sums

MOST_UNSUPPORTED = 0.01  # of a policy's weight; with more, there is no estimate
FEWEST_EFFECTIVE = 30  # rounds; with fewer, the result says why the interval is wide
_FALSE_ALARM = 0.01  # of the two tests of the kind of world
IMPOSSIBLE = 1e-6  # false alarm of the test of the probabilities
_IN_WORDS = {
    "exclusive": "exactly one label is right",
    "at most one": "at most one label is right",
    "independent": "each label is right or not by itself",
}
_ROUNDING = 1e-9
_SPREADS = 4  # standard errors by which the mean weight must be below 1 to show missing support


class Point(NamedTuple):
    """The result after so many rounds."""

    rounds: int
    estimate: float | None
    low: float
    high: float


@dataclass(frozen=True)
class Evaluation:
    """What a log says about a policy, or about the difference of two. `print` shows a table.

    Evaluations of parts of a log can be added, in the order of the parts.
    """

    policies: tuple[str, ...]
    question: Question
    sums: Sums
    alpha: float
    drifts: bool
    points: tuple[Sums, ...]  # the sums at check points

    def __add__(self, other: Evaluation) -> Evaluation:
        if not isinstance(other, Evaluation):
            return NotImplemented
        mine = (self.policies, self.question, self.alpha, self.drifts)
        if mine != (other.policies, other.question, other.alpha, other.drifts):
            raise ValueError("these evaluations are of different questions")
        later = tuple(self.sums + sums for sums in other.points)
        return replace(self, sums=self.sums + other.sums, points=self.points + later)

    # Counts.

    @property
    def rounds(self) -> int:
        """The rounds that count."""
        return self.sums.rounds

    @property
    def effective_sample_size(self) -> float:
        """How many rounds in which the policy had spoken itself would tell as much."""
        w, squares, _ = self.sums.weights[0]
        return float(w**2 / squares) if squares else 0.0

    @property
    def unsupported(self) -> float:
        """The share of the policy's weight on labels that could not be said."""
        sums = self.sums
        if not sums.rounds or sums.unknown:
            return math.nan
        share = sums.missing / sums.rounds
        if sums.partial:
            for w, squares, _ in sums.weights[: len(self.policies)]:
                mean = w / sums.rounds
                spread = math.sqrt(max(squares / sums.rounds - mean**2, 0) / sums.rounds)
                share = max(share, 1 - mean - _SPREADS * spread)
        return float(share)

    # Results.

    @property
    def is_exact(self) -> bool:
        """Whether the answers leave no doubt about the rounds of this log: the bracket is a point.

        So it is if the true label is known in all rounds, or if two labels were possible.
        """
        low, high = self.bracket
        return bool(self.rounds) and not any(self.question.flips) and high - low < _ROUNDING

    @property
    def reason(self) -> str | None:
        """Why there is no estimate, and what to do; None if there is one."""
        return None if self.is_exact else self._lack

    @property
    def _lack(self) -> str | None:
        """What the log lacks for estimates that weight rounds."""
        sums = self.sums
        if not sums.rounds:
            return "no round counts: none has an answer"
        if sums.unanswered:
            return (
                f"{sums.unanswered:,} rounds have no answer, and whether they have may depend on "
                "it; silence='nothing' assumes that it does not"
            )
        if sums.unknown:
            return (
                f"{sums.unknown:,} rounds have no propensity: log the probability with which each "
                "label is said, or name its column"
            )
        if self.unsupported > MOST_UNSUPPORTED:
            return (
                f"{self.unsupported:.1%} of the weight is on labels that the logger never said "
                "then: let a small share of rounds be drawn at random, and log the probabilities"
            )
        return None

    @property
    def estimate(self) -> float | None:
        """The expected share of right labels, or the difference of two; None: see `reason`.

        It never leaves the bracket, unless answers are flipped.
        """
        if self.reason:
            return None
        low, high = self.bracket
        if self.is_exact:
            return low
        made = self._value(self.sums.chosen[0] / self.sums.rounds)
        return made if any(self.question.flips) else min(max(made, low), high)

    @property
    def estimates(self) -> dict[str, float]:
        """All estimates as they are; `estimate` takes in each round that of the least variance so
        far, and keeps within the bracket."""
        sums = self.sums
        if self._lack:
            return {}
        made = {
            name: self._value(sums.kinds[kind, 0] / sums.rounds)
            for kind, name in enumerate(NAMES)
            if kind != XDR or self.question.world == "exclusive"
        }
        shares = [wc / w if w else math.nan for w, _, wc in sums.weights[: len(self.policies)]]
        made["SNIPS"] = self._value(shares[0] - sum(shares[1:]))
        return made

    @property
    def interval(self) -> tuple[float, float]:
        """An interval that holds however often one looks: it ever misses with probability alpha."""
        return self._interval(self.sums)

    @property
    def bracket(self) -> tuple[float, float]:
        """The ends between which the rounds of this log leave the value, whatever the logger did,
        without the uncertainty of sampling."""
        low, high = self.sums.bracket / max(self.sums.rounds, 1)
        return float(low), float(high)

    @property
    def curve(self) -> list[Point]:
        """The result at check points."""
        made = []
        for sums in self.points:
            estimate = replace(self, sums=sums, points=()).estimate
            made.append(Point(sums.rounds, estimate, *self._interval(sums)))
        return made

    @property
    def contradiction(self) -> str | None:
        """How the data contradict the kind of world that was assumed; None: they do not.

        The number of right labels contradicts a true assumption with a probability of at most 1 %.
        """
        world = self.question.world
        several, none_right = _capital(self.sums.several), _capital(self.sums.none_right)
        enough = math.log(2 / _FALSE_ALARM)
        if world != "independent" and several > enough:
            return "in some rounds several labels are right: exclusive=False"
        if world == "exclusive" and none_right > enough:
            return "in some rounds no label is right: exclusive='at most one'"
        low, high = self.interval
        if low > high:
            return (
                "the bracket and the estimate exclude each other: is the propensity of that time?"
            )
        return None

    @property
    def notes(self) -> list[str]:
        """What limits the result."""
        made = [self.reason] if self.reason else []
        if self.contradiction:
            made.append(f"The data contradict the assumed world: {self.contradiction}")
        if not (self.reason or self.is_exact) and self.effective_sample_size < FEWEST_EFFECTIVE:
            made.append(
                f"the logger seldom said what the policy says: the rounds tell as much as "
                f"{self.effective_sample_size:.0f} rounds of its own"
            )
        return made

    @property
    def summary(self) -> str:
        """The rounds and what was assumed, in a sentence."""
        change = "the value may drift" if self.drifts else "the value stays the same"
        return (
            f"{self._rounds_in_words()}. Intervals hold at any time with {1 - self.alpha:.0%}. "
            f"Assumed: {_IN_WORDS[self.question.world]}; {change}."
        )

    def __repr__(self) -> str:
        question = self.question
        of = "difference of right labels" if question.is_difference else "right labels"
        value = "none" if self.estimate is None else _signed(self.estimate, question)
        change = "the value may drift" if self.drifts else "the value stays the same"
        interval = _ends(*self.interval, question)
        rounds = self._rounds_in_words()
        if not self.sums.unknown:
            rounds += f"; worth {self.effective_sample_size:,.0f} of its own"
        rows = [
            ("policy", " - ".join(self.policies)),
            (of, value),
            ("interval", f"{interval}, {1 - self.alpha:.0%}, {change}"),
            ("bracket", _ends(*self.bracket, question)),
            ("rounds", rounds),
            ("without support", "not known" if self.sums.unknown else f"{self.unsupported:.1%}"),
            ("assumed", _IN_WORDS[question.world]),
        ]
        rows += [("note", note) for note in self.notes]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)

    def _rounds_in_words(self) -> str:
        left_out = self.sums.left_out
        text = f", and {left_out:,} without an answer are left out" if left_out else ""
        return f"{self.rounds:,} rounds{text}"

    # Computations.

    def _value(self, heard: float) -> float:
        """A share of answers heard as right, or a difference, as one of unflipped answers."""
        question = self.question
        base = 0.0 if question.is_difference else question.flips[0]
        return float((heard - base) / question.scale)

    def _interval(self, sums: Sums) -> tuple[float, float]:
        question = self.question
        if not sums.rounds:
            return question.least, 1.0
        has_estimates = not (sums.unknown or sums.unanswered)
        alpha = self.alpha / (4 if has_estimates else 2)
        bracket = (question.bracket_bound,)
        low, high = self._ends(sums.bracket_low, sums.bracket_high, bracket, alpha)
        if has_estimates:
            ends = self._ends(sums.low, sums.high, BOUNDS, alpha)
            low = max(low, self._value(ends[0]))
            high = min(high, self._value(ends[1]))
        return max(low, question.least), min(high, 1.0)

    def _ends(
        self, low: Side, high: Side, bounds: tuple[float, ...], alpha: float
    ) -> tuple[float, float]:
        opposite, least = 0.0 if self.question.is_difference else 1.0, self.question.least

        def bound(side: Side) -> float:
            if self.drifts:
                return bound_by_swings(side.swings, bounds, alpha, least)
            return bound_by_bets(side.bets, bounds, alpha, least)

        return bound(low), opposite - bound(high)


def _capital(logs: np.ndarray) -> float:
    """The logarithm of the mean capital."""
    top = float(logs.max())
    return top + math.log(float(np.mean(np.exp(logs - top))))


def impossible(sums: Sums) -> bool:
    """Whether the probabilities of a log cannot be those by which its labels were said."""
    enough = -math.log(IMPOSSIBLE)
    price = -np.log1p(-BETS) - BETS
    surprise, squares = sums.said[:, :1], sums.said[:, 1:]
    said = np.concatenate([sign * BETS * surprise - price * squares for sign in (1, -1)])
    return max(_capital(sums.too_rare), _capital(said)) > enough


def _signed(value: float, question: Question) -> str:
    return f"{value:+.4f}" if question.is_difference else f"{value:.4f}"


def _ends(low: float, high: float, question: Question) -> str:
    return f"{_signed(low, question)} to {_signed(high, question)}"


def added(evaluations: Sequence[Evaluation]) -> Evaluation:
    """The evaluation of a log from those of its parts."""
    made: Any = None
    for evaluation in evaluations:
        made = evaluation if made is None else made + evaluation
    return made
