"""Slow twins of the estimates and bounds, written round by round from their definitions."""

from __future__ import annotations

import math

BETS = [0.9 * 2.0**-k for k in range(1, 13)]


def ips(w, p, q, a, c):
    return w[a] / p[a] * c


def dr(w, p, q, a, c):
    return sum(q[b] * w[b] for b in range(len(w))) + w[a] / p[a] * (c - q[a])


def xdr(w, p, q, a, c, total=1.0):
    s = best_shift(w, p, q)
    known = sum(q[b] * (w[b] - s) for b in range(len(w)))
    return total * s + known + (w[a] - s) / p[a] * (c - q[a])


def best_shift(w, p, q):
    inverse = [q[b] * (1 - q[b]) / p[b] for b in range(len(w))]
    return sum(v * x for v, x in zip(inverse, w, strict=True)) / sum(inverse)


def capital_of_bets(numbers, m, bound):
    """The mean over the bets of what each has made of 1."""
    capital = [1.0] * len(BETS)
    for phi in numbers:
        for i, bet in enumerate(BETS):
            capital[i] *= 1 + bet / (m + bound) * (phi - m)
    return sum(capital) / len(capital)


def capital_of_swings(numbers, m, bound, least):
    total = squares = 0.0
    for t, phi in enumerate(numbers):
        guess = total / t if t else (least + 1) / 2
        guess = min(max(guess, least), 1.0)
        squares += ((phi - guess) / (bound + 1)) ** 2
        total += phi
    gain = (total - len(numbers) * m) / (bound + 1)
    made = [math.exp(bet * gain - (-math.log(1 - bet) - bet) * squares) for bet in BETS]
    return sum(made) / len(made)


def smallest_mean(capital, alpha, least):
    """The smallest mean that the capital does not refute, to 1e-5."""
    low, high = least, 1.0
    while high - low > 1e-5:
        m = (low + high) / 2
        if capital(m) >= 1 / alpha:
            low = m
        else:
            high = m
    return low


def bracket(w, a, c, truth, world, possible=None):
    """The smallest and the largest value over all sets of right labels that fit the answer."""
    possible = range(len(w)) if possible is None else possible
    fitting = (right for right in _fitting(len(w), a, c, truth, world) if right <= {*possible})
    values = [sum(w[b] for b in right) for right in fitting]
    return min(values), max(values)


def _fitting(labels, a, c, truth, world):
    for number in range(2**labels):
        right = {b for b in range(labels) if number >> b & 1}
        sizes = {"exclusive": {1}, "at most one": {0, 1}}.get(world, set(range(labels + 1)))
        if len(right) in sizes and (a in right) == c and (truth < 0 or truth in right):
            yield right
