"""DriftAlarm: hears the log of right and wrong, and says when right has become rarer.

The log is cut in two at the round up to which the share of right answers was surest to be high, by
the lower end of its confidence interval: the cut of HDDM-A (Frias-Blanco et al., "Online and
non-parametric drift detection methods based on Hoeffding's bounds", IEEE TKDE 27(3), 2015), for
which a few counts are memory enough. Whether right is rarer after the cut than before is tested by
the likelihood ratio of two Bernoulli laws against one (Besson, Kaufmann, Maillard, Seznec,
"Efficient change-point detection for tackling piecewise-stationary bandits", JMLR 23, 2022), which
sees a fall from 98 % to 90 % much sooner than Hoeffding's bound does.

The threshold. The ratio is n kl(a, c) + m kl(b, c), for n answers with a share a of right ones
before the cut, m with b after it, and c of all; kl is the divergence of two Bernoulli laws. If the
chance of right does not fall, some p lies above none of the chances after the cut and below none of
those before it. By Chernoff's bound n kl(a, p), for a above p, exceeds x with probability exp(-x)
at most, and so does m kl(b, p), for b below p; the ratio is no larger than their sum, which exceeds
x with probability (1 + x) exp(-x) at most. That is for one n and one m, and all are watched: each
pair has its part w(n) w(m) of the chance of a false alarm, w(k) = 1 / (4 k log(k + 1)^2), for these
add up to less than 1.

A learner that gets better leaves a poor past behind, beside which whatever comes looks good. So
when right has become more frequent, by the same test, the past is dropped, without an alarm. What
comes after is independent of it; the j-th such start has 1 / (j (j + 1)) of the chance to spend.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from onebit.settings import bit, real

_INTERVAL = math.log(1000) / 2  # of the intervals that the cut goes by, as in the paper


class DriftAlarm:
    """Says when right answers have become rarer.

        alarm = DriftAlarm()
        ...
        learner.learn(decision, right=right)
        if alarm.hear(right):
            learner.forget(0.9)

    chance: of a false alarm. As long as the chance of right does not fall, and answers are
    independent, the probability of any alarm is at most this, however long the log. After an alarm
    it starts anew.

    It goes by what is heard. Flips (rho0, rho1) shrink a fall by b = 1 - rho0 - rho1, so that it
    takes some 1/b^2 as many answers to see it; silence just makes answers rarer. It can be pickled.
    """

    def __init__(self, *, chance: float = 0.01) -> None:
        self.chance = real("chance", chance, above=0, most=0.5)
        self._start(1)

    def _start(self, number: int) -> None:
        self._number = number  # of this start since the last alarm
        self.heard = self._right = 0  # answers since; how many were right
        self._high = self._low = (0, 0)  # the same up to the cuts, for a fall and for a rise
        self._highest, self._lowest = -math.inf, math.inf  # bounds on the share of right there

    def hear(self, right: bool) -> bool:
        """The next answer; comes back with whether there is an alarm."""
        right = bit("right", right)
        self.heard += 1
        self._right += right
        share, margin = self._right / self.heard, math.sqrt(_INTERVAL / self.heard)
        if share - margin >= self._highest:
            self._highest, self._high = share - margin, (self.heard, self._right)
        elif self._is_other(*self._high, fallen=True):
            self._start(1)
            return True
        if share + margin <= self._lowest:
            self._lowest, self._low = share + margin, (self.heard, self._right)
        elif self._is_other(*self._low, fallen=False):
            self._start(self._number + 1)
        return False

    def hear_all(self, bits: Iterable[bool]) -> list[int]:
        """Many answers; at which of them, counted from 0, there was an alarm."""
        bits = [bit("an answer", right) for right in bits]  # all or none
        return [place for place, right in enumerate(bits) if self.hear(right)]

    def _is_other(self, count: int, right: int, *, fallen: bool) -> bool:
        """Whether the share of right has fallen, or risen, since there were so many answers."""
        later, later_right = self.heard - count, self._right - right
        difference = right * later - later_right * count
        if difference <= 0 if fallen else difference >= 0:
            return False
        # The ratio is no larger than this quotient (chi-squared), and no threshold is below 4.
        products = count * later * self._right * (self.heard - self._right)
        if difference**2 * self.heard < 4 * products:
            return False
        apart = _entropy(count, right) + _entropy(later, later_right)
        starts = self._number * (self._number + 1)
        rare = math.log(starts / self.chance * _one_in(count) * _one_in(later))
        # x with (1 + x) exp(-x) at most exp(-rare), and larger than need be by next to nothing.
        return _entropy(self.heard, self._right) - apart >= rare + math.log(1 + 2 * rare)

    def __repr__(self) -> str:
        return f"DriftAlarm(chance={self.chance}, heard={self.heard})"


def _one_in(count: int) -> float:
    """1 / w(count)."""
    return 4 * count * math.log(count + 1) ** 2


def _entropy(count: int, right: int) -> float:
    """That of so many answers: minus the log of how likely they are by their own share of right."""
    wrong = count - right
    if not right or not wrong:
        return 0.0
    return -right * math.log(right / count) - wrong * math.log(wrong / count)
