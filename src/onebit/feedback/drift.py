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

import numpy as np

from onebit.core.jit import direct, entry, inline
from onebit.core.settings import bit, real

_INTERVAL = math.log(1000) / 2  # sets the confidence of the cut's intervals, as in the paper

# Places in the counts of an alarm, all 0 at the start: restarts without an alarm; answers since the
# last restart, and how many of them were right; the same two at the cuts for a fall and for a rise.
RESTARTS, HEARD, RIGHT, FALL, FALL_RIGHT, RISE, RISE_RIGHT = range(7)
COUNTS = 7


class DriftAlarm:
    """Reports when right answers have become rarer.

        alarm = DriftAlarm()
        ...
        learner.learn(decision, right=right)
        if alarm.hear(right):
            learner.forget(0.9)

    `OneBit` has such an alarm of its own.

    chance: the probability of a false alarm. As long as the probability of right does not fall and
    answers are independent, the probability of any alarm is at most `chance`, for a log of any
    length. After an alarm the monitoring restarts.

    The alarm sees only the feedback as heard. Flips (rho0, rho1) shrink a fall by the factor
    b = 1 - rho0 - rho1, so detecting it takes about 1/b^2 as many answers. Silence delays it. A
    DriftAlarm can be pickled.
    """

    def __init__(self, *, chance: float = 0.01) -> None:
        self.chance = real("chance", chance, above=0, most=0.5)
        self._counts = np.zeros(COUNTS)

    @property
    def heard(self) -> int:
        """Answers since the monitoring started or restarted."""
        return int(self._counts[HEARD])

    def hear(self, right: bool) -> bool:
        """Add the next answer. Returns whether there is an alarm."""
        return bool(self.hear_all((right,)))

    def hear_all(self, bits: Iterable[bool]) -> list[int]:
        """Add many answers. Returns the positions, from 0, at which there was an alarm."""
        answers = np.array([bit("an answer", right) for right in bits], np.bool_)  # all or none
        places = np.empty(len(answers), np.int64)
        args = (self._counts, self.chance, answers, places)
        return places[: direct(_hear_all, None, *args)(*args)].tolist()

    def __repr__(self) -> str:
        return f"DriftAlarm(chance={self.chance}, heard={self.heard})"


def will_ring(counts: np.ndarray, chance: float, right: bool) -> bool:
    """Whether the next answer would raise an alarm. The counts do not change."""
    args = (counts.copy(), chance, np.array([right]), np.empty(1, np.int64))
    return bool(direct(_hear_all, None, *args)(*args))


@entry
def _hear_all(counts, chance, answers, places):
    """Add answers; the places of the alarms are written. Returns how many there were."""
    alarms = 0
    for i in range(len(answers)):
        if hear_answer(counts, chance, answers[i]):
            places[alarms] = i
            alarms += 1
    return alarms


@inline
def hear_answer(counts, chance, right):
    """Add an answer to the counts of an alarm. Returns whether there is an alarm."""
    counts[HEARD] += 1.0
    counts[RIGHT] += 1.0 if right else 0.0
    if _bound(counts, HEARD, -1.0) >= _bound(counts, FALL, -1.0):
        counts[FALL], counts[FALL_RIGHT] = counts[HEARD], counts[RIGHT]
    elif _has_changed(counts, FALL, 1.0, chance):
        _restart(counts, 0.0)
        return True
    if _bound(counts, HEARD, 1.0) <= _bound(counts, RISE, 1.0):
        counts[RISE], counts[RISE_RIGHT] = counts[HEARD], counts[RIGHT]
    elif _has_changed(counts, RISE, -1.0, chance):
        _restart(counts, counts[RESTARTS] + 1.0)
    return False


@inline
def _restart(counts, restarts):
    for place in range(COUNTS):
        counts[place] = 0.0
    counts[RESTARTS] = restarts


@inline
def _bound(counts, place, side):
    """The lower (side -1) or upper (side 1) bound on the share of right among these answers."""
    count = counts[place]
    if count == 0.0:
        return side * math.inf
    return counts[place + 1] / count + side * math.sqrt(_INTERVAL / count)


@inline
def _has_changed(counts, cut, direction, chance):
    """Whether the share of right has fallen (direction 1) or risen (-1) since the cut."""
    heard, right, before, before_right = counts[HEARD], counts[RIGHT], counts[cut], counts[cut + 1]
    later, later_right = heard - before, right - before_right
    difference = direction * (before_right * later - later_right * before)
    if difference <= 0.0:
        return False
    # The ratio is at most this quotient (chi-squared), and every threshold is at least 4.
    products = before * later * right * (heard - right)
    if difference * difference * heard < 4.0 * products:
        return False
    apart = _entropy(before, before_right) + _entropy(later, later_right)
    restarts = (counts[RESTARTS] + 1.0) * (counts[RESTARTS] + 2.0)
    rare = math.log(restarts / chance * _one_in(before) * _one_in(later))
    # This threshold x satisfies (1 + x) exp(-x) <= exp(-rare), and is only slightly too large.
    return _entropy(heard, right) - apart >= rare + math.log(1.0 + 2.0 * rare)


@inline
def _one_in(count):
    """1 / w(count)."""
    return 4.0 * count * math.log(count + 1.0) ** 2


@inline
def _entropy(count, right):
    """Minus the log-likelihood of the answers under their own share of right."""
    wrong = count - right
    if right <= 0.0 or wrong <= 0.0:
        return 0.0
    return -right * math.log(right / count) - wrong * math.log(wrong / count)
