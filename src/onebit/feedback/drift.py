"""DriftAlarm: monitors right and wrong answers, and reports when right has become rarer.

The log is cut at the round where the lower end of the confidence interval of the share of right
answers was highest. This is the cut of HDDM-A (Frias-Blanco et al., "Online and non-parametric
drift detection methods based on Hoeffding's bounds", IEEE TKDE 27(3), 2015); it needs only a few
counts. Whether right is rarer after the cut is tested by the likelihood ratio of two Bernoulli
distributions against one (Besson, Kaufmann, Maillard, Seznec, "Efficient change-point detection for
tackling piecewise-stationary bandits", JMLR 23, 2022). This test detects a fall from 98 % to 90 %
much sooner than Hoeffding's bound.

The threshold. The ratio is n kl(a, c) + m kl(b, c), where a is the share of right among the n
answers before the cut, b among the m answers after it, and c among all; kl is the divergence of two
Bernoulli distributions. If the probability of right does not fall, some p is at least every
probability before the cut and at most every probability after it. By Chernoff's bound, n kl(a, p)
for a above p exceeds x with probability at most exp(-x), and so does m kl(b, p) for b below p. The
ratio is at most their sum, which exceeds x with probability at most (1 + x) exp(-x). This holds for
a single pair (n, m), but all pairs are tested. Each pair therefore gets the part w(n) w(m) of the
probability of a false alarm, with w(k) = 1 / (4 k log(k + 1)^2); these parts sum to less than 1.

A learner that improves has a poor past, and any later answers look good beside it. So when the same
test finds that right has become more frequent, the past is dropped without an alarm. Later answers
are independent of it. The j-th such restart gets 1 / (j (j + 1)) of the probability.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from onebit.settings import bit, real

_INTERVAL = math.log(1000) / 2  # sets the confidence of the cut's intervals, as in the paper


class DriftAlarm:
    """Reports when right answers have become rarer.

        alarm = DriftAlarm()
        ...
        learner.learn(decision, right=right)
        if alarm.hear(right):
            learner.forget(0.9)

    chance: the probability of a false alarm. As long as the probability of right does not fall and
    answers are independent, the probability of any alarm is at most `chance`, for a log of any
    length. After an alarm the monitoring restarts.

    The alarm sees only the feedback as heard. Flips (rho0, rho1) shrink a fall by the factor
    b = 1 - rho0 - rho1, so detecting it takes about 1/b^2 as many answers. Silence delays it. A
    DriftAlarm can be pickled.
    """

    def __init__(self, *, chance: float = 0.01) -> None:
        self.chance = real("chance", chance, above=0, most=0.5)
        self._start(1)

    def _start(self, number: int) -> None:
        self._number = number  # of restarts since the last alarm, from 1
        self.heard = self._right = 0  # answers since this restart, and how many of them were right
        self._high = self._low = (0, 0)  # the same counts at the cuts for a fall and for a rise
        self._highest, self._lowest = -math.inf, math.inf  # bounds on the share of right there

    def hear(self, right: bool) -> bool:
        """Add the next answer. Returns whether there is an alarm."""
        right = bit("right", right)
        self.heard += 1
        self._right += right
        share, margin = self._right / self.heard, math.sqrt(_INTERVAL / self.heard)
        if share - margin >= self._highest:
            self._highest, self._high = share - margin, (self.heard, self._right)
        elif self._has_changed(*self._high, fallen=True):
            self._start(1)
            return True
        if share + margin <= self._lowest:
            self._lowest, self._low = share + margin, (self.heard, self._right)
        elif self._has_changed(*self._low, fallen=False):
            self._start(self._number + 1)
        return False

    def hear_all(self, bits: Iterable[bool]) -> list[int]:
        """Add many answers. Returns the positions, from 0, at which there was an alarm."""
        bits = [bit("an answer", right) for right in bits]  # all or none
        return [place for place, right in enumerate(bits) if self.hear(right)]

    def _has_changed(self, count: int, right: int, *, fallen: bool) -> bool:
        """Whether the share of right has fallen (or risen) since the first `count` answers."""
        later, later_right = self.heard - count, self._right - right
        difference = right * later - later_right * count
        if difference <= 0 if fallen else difference >= 0:
            return False
        # The ratio is at most this quotient (chi-squared), and every threshold is at least 4.
        products = count * later * self._right * (self.heard - self._right)
        if difference**2 * self.heard < 4 * products:
            return False
        apart = _entropy(count, right) + _entropy(later, later_right)
        starts = self._number * (self._number + 1)
        rare = math.log(starts / self.chance * _one_in(count) * _one_in(later))
        # This threshold x satisfies (1 + x) exp(-x) <= exp(-rare), and is only slightly too large.
        return _entropy(self.heard, self._right) - apart >= rare + math.log(1 + 2 * rare)

    def __repr__(self) -> str:
        return f"DriftAlarm(chance={self.chance}, heard={self.heard})"


def _one_in(count: int) -> float:
    """1 / w(count)."""
    return 4 * count * math.log(count + 1) ** 2


def _entropy(count: int, right: int) -> float:
    """Minus the log-likelihood of the answers under their own share of right."""
    wrong = count - right
    if not right or not wrong:
        return 0.0
    return -right * math.log(right / count) - wrong * math.log(wrong / count)
