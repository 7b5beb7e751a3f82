"""Slow, plain twins of the algorithms: the specification the fast code is compared with.

Dense float64 numpy, one small class per algorithm, in the papers' notation. Nothing here is
incremental: norms, normalisers and inverses are recomputed from the full state when needed.

Papers, by the short names used in the comments:

KSST08  Kakade, Shalev-Shwartz, Tewari, ICML 2008 (Banditron)
HK11    Hazan, Kale, NIPS 2011 (Newtron, PNewtron)
CG11    Crammer, Gentile, ICML 2011 (Confidit)
NLVS13  Ngo, Luciw, Vien, Schmidhuber, IJCAI 2013 (UCWL)
AM21    Agarwal, Manwani, PAKDD 2021 (RCNBF, RCINE)
BOZ17   Beygelzimer, Orabona, Zhang, ICML 2017 (SOBA)
ZD15    Zhong, Dauce, 2015 (BPA)
WJV10   Wang, Jin, Valizadegan, AISTATS 2010 (potential-based bandit learning)
B19     Beygelzimer, Pal, Szorenyi, Thiruvenkatachari, Wei, Zhang, ICML 2019 (separable case)
FR20    Foster, Rakhlin, ICML 2020 (SquareCB)
FK21    Foster, Krishnamurthy, NeurIPS 2021 (FastCB)
CDKSS06 Crammer, Dekel, Keshet, Shalev-Shwartz, Singer, JMLR 2006 (passive-aggressive)
CCG05   Cesa-Bianchi, Conconi, Gentile, SIAM J. Comput. 2005 (second-order Perceptron)
CDK09   Crammer, Dredze, Kulesza, EMNLP 2009 (multiclass confidence-weighted, top-1)
CKD09   Crammer, Kulesza, Dredze, NIPS 2009 (AROW)
WZH12   Wang, Zhao, Hoi, ICML 2012 (SCW)

Symbols: h is the greedy label, a the label played, f = 1[a = y] the feedback bit, z = 2f - 1.
Settings have the names and defaults of the public learners; EGBandit's B, LinearThompson's
exact_propensity and Halving's P are the twins' own.

`round` counts from 0, the papers' t is round + 1. `draw(stream)` is the uniform number in [0, 1)
of the current round and that stream; asking twice gives the same number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import expit, ndtr, ndtri, softmax

Draw = Callable[[int], float]

UCB_TOLERANCE = 1e-9  # upper confidence bounds this close to the largest one are ties
SIGMA_FLOOR = 1e-12  # rounding never takes a variance to 0 or below
LOSS_FLOOR = 1e-6  # FastCB's smallest predicted loss


class Choice(NamedTuple):
    label: int
    greedy: int
    propensity: float


def dot(W: np.ndarray, x: np.ndarray) -> np.ndarray:
    """W x row by row, each row summed in the same order so that equal rows tie exactly."""
    return np.sum(W * x, axis=1)


def one_hot(i: int, K: int) -> np.ndarray:
    e = np.zeros(K)
    e[i] = 1.0
    return e


def best_other(u: np.ndarray, y: int) -> int:
    """r = argmax over i != y of u_i."""
    return int(np.argmax(np.where(np.arange(len(u)) == y, -np.inf, u)))


# ------------------------------------------------------------------------------- how to play


class Twin:
    """Plays the greedy label."""

    W: np.ndarray

    def __init__(self, K: int, d: int):
        self.K, self.d = K, d

    def scores(self, x: np.ndarray, round: int = 0) -> np.ndarray:
        return dot(self.W, x)

    def greedy(self, x: np.ndarray, round: int = 0) -> int:
        return int(np.argmax(self.scores(x, round)))

    def propensities(self, x: np.ndarray, round: int = 0) -> np.ndarray:
        return one_hot(self.greedy(x, round), self.K)

    def decide(self, x: np.ndarray, round: int, draw: Draw) -> Choice:
        h = self.greedy(x, round)
        return Choice(h, h, 1.0)

    # Lists of L labels: the first is played as ever, the others are the best of the rest.

    def index(self, x: np.ndarray, round: int = 0) -> np.ndarray:
        """By what the other positions are filled."""
        return self.scores(x, round)

    def list_after(self, a: int, x: np.ndarray, round: int, L: int) -> list[int]:
        order = np.argsort(-self.index(x, round), kind="stable").tolist()
        return [a, *[b for b in order if b != a][: L - 1]]

    def decide_list(self, x: np.ndarray, round: int, draw: Draw, L: int) -> list[int]:
        return self.list_after(self.decide(x, round, draw).label, x, round, L)

    def chances(self, x: np.ndarray, round: int, L: int) -> np.ndarray:
        """P(b in A) = sum_a P(first = a) 1[b in A(a)]."""
        P, chances = self.propensities(x, round), np.zeros(self.K)
        for a in range(self.K):
            chances[self.list_after(a, x, round, L)] += P[a]
        return chances

    def learn_list(self, x, shown: list[int], taken: int | None, round: int, draw: Draw) -> None:
        """Each shown label is one round of its own; `learn` is the algorithm's."""
        for b in shown:
            self.learn(x, Choice(b, b, 1.0), b == taken, round, draw)  # type: ignore[attr-defined]


class Optimist(Twin):
    """Plays the largest upper confidence bound; classes never played tie, the lowest wins.

    The greedy label is the largest mean score, without the bonus (CG11 eq. (1), there y~).
    """

    def bonus(self, x: np.ndarray, round: int = 0) -> np.ndarray:
        raise NotImplementedError

    def upper(self, x: np.ndarray, round: int = 0) -> np.ndarray:
        return self.scores(x, round) + self.bonus(x, round)

    def index(self, x: np.ndarray, round: int = 0) -> np.ndarray:
        return self.upper(x, round)

    def said(self, x: np.ndarray, round: int = 0) -> int:
        s = self.upper(x, round)
        return int(np.flatnonzero(s >= s.max() - UCB_TOLERANCE)[0])

    def propensities(self, x: np.ndarray, round: int = 0) -> np.ndarray:
        return one_hot(self.said(x, round), self.K)

    def decide(self, x: np.ndarray, round: int, draw: Draw) -> Choice:
        return Choice(self.said(x, round), self.greedy(x, round), 1.0)


class EpsilonUniform(Twin):
    """P(i) = (1 - gamma) 1[i = h] + gamma / K."""

    gamma: float

    def propensities(self, x: np.ndarray, round: int = 0) -> np.ndarray:
        return (1 - self.gamma) * one_hot(self.greedy(x, round), self.K) + self.gamma / self.K

    def decide(self, x: np.ndarray, round: int, draw: Draw) -> Choice:
        h = self.greedy(x, round)
        a = int(draw(1) * self.K) if draw(0) < self.gamma else h
        return Choice(a, h, (1 - self.gamma) * (a == h) + self.gamma / self.K)


class Sampled(Twin):
    """Samples from `probabilities` by inverting the cumulative sum."""

    def decide(self, x: np.ndarray, round: int, draw: Draw) -> Choice:
        p = self.propensities(x, round)
        above = np.flatnonzero(np.cumsum(p) > draw(0))
        a = above[0] if len(above) else np.flatnonzero(p > 0)[-1]
        return Choice(int(a), self.greedy(x, round), float(p[a]))


class UniformRandom(Twin):
    """Plays any label; the floor of every comparison."""

    def __init__(self, K: int, d: int):
        super().__init__(K, d)
        self.W = np.zeros((K, d))

    def propensities(self, x: np.ndarray, round: int = 0) -> np.ndarray:
        return np.full(self.K, 1 / self.K)

    def decide(self, x: np.ndarray, round: int, draw: Draw) -> Choice:
        return Choice(int(draw(1) * self.K), 0, 1 / self.K)

    def learn(self, x: np.ndarray, choice: Choice, right: bool, round: int, draw: Draw) -> bool:
        return False


# -------------------------------------------------------- Banditron and its other potentials


def proxy(right: bool, rho: tuple[float, float]) -> float:
    """AM21 eq. (4): h(f_rho), whose mean over the flips is the true bit f."""
    f, f1 = int(right), 1 - int(right)
    return ((1 - rho[f1]) * f - rho[f] * f1) / (1 - rho[0] - rho[1])


def banditron_update(K: int, x: np.ndarray, choice: Choice, f: float) -> np.ndarray:
    """KSST08: U~ = (1[a = y] / P(a)) e_a x' - e_h x', an unbiased estimate of (e_y - e_h) x'."""
    a, h, P = choice
    return np.outer((f / P) * one_hot(a, K) - one_hot(h, K), x)


class Banditron(EpsilonUniform):
    """KSST08, the Banditron: W^{t+1} = W^t + U~^t, every round."""

    def __init__(self, K: int, d: int, *, gamma: float = 0.05):
        super().__init__(K, d)
        self.gamma = gamma
        self.W = np.zeros((K, d))

    def learn(self, x: np.ndarray, choice: Choice, right: bool, round: int, draw: Draw) -> bool:
        self.W = self.W + banditron_update(self.K, x, choice, right)
        return True

    # Lists: T, the L best, with probability 1 - gamma; else L labels drawn uniformly.

    def top(self, x: np.ndarray, L: int) -> list[int]:
        return np.argsort(-self.scores(x), kind="stable")[:L].tolist()

    def decide_list(self, x: np.ndarray, round: int, draw: Draw, L: int) -> list[int]:
        left = list(range(self.K))
        drawn = [left.pop(int(draw(1 + i) * len(left))) for i in range(L)]
        return drawn if draw(0) < self.gamma else self.top(x, L)

    def second_moments(self, x: np.ndarray, L: int) -> np.ndarray:
        """E[1_A 1_A'], by enumeration."""
        subsets = [sum(one_hot(i, self.K) for i in A) for A in combinations(range(self.K), L)]
        T = sum(one_hot(i, self.K) for i in self.top(x, L))
        mean = sum(np.outer(A, A) for A in subsets) / len(subsets)
        return (1 - self.gamma) * np.outer(T, T) + self.gamma * mean

    def chances(self, x: np.ndarray, round: int, L: int) -> np.ndarray:
        return np.diag(self.second_moments(x, L))

    def learn_list(self, x, shown: list[int], taken: int | None, round: int, draw: Draw) -> None:
        """e = e_y 1[y in A] / P(y in A); W += (e - e_h) x'."""
        e, P = np.zeros(self.K), self.chances(x, round, len(shown))
        if taken is not None:
            e[taken] = 1 / P[taken]
        self.W = self.W + np.outer(e - one_hot(self.top(x, 1)[0], self.K), x)

    def learn_bit_of_list(self, x: np.ndarray, shown: list[int], right: bool) -> None:
        """e = E[1_A 1_A']^-1 1_A bit."""
        A = sum(one_hot(i, self.K) for i in shown)
        e = np.linalg.solve(self.second_moments(x, len(shown)), A) * right
        self.W = self.W + np.outer(e - one_hot(self.top(x, 1)[0], self.K), x)


class RCNBF(EpsilonUniform):
    """AM21 Algorithm 1: W^{t+1} = W^t + H^t with h(f_rho) in place of the bit, eq. (5)."""

    def __init__(
        self, K: int, d: int, *, gamma: float = 0.05, rho0: float = 0.0, rho1: float = 0.0
    ):
        super().__init__(K, d)
        self.gamma, self.rho = gamma, (rho0, rho1)
        self.W = np.zeros((K, d))

    def learn(self, x: np.ndarray, choice: Choice, right: bool, round: int, draw: Draw) -> bool:
        self.W = self.W + banditron_update(self.K, x, choice, proxy(right, self.rho))
        return True


class Halving(Twin):
    """KSST08, Section 4: the plurality of the hypotheses alive; a mistake removes its voters.

    hypotheses: functions from x to a label, or weights for argmax W x. P: the random projection,
    x becomes P x / sqrt(d'). What KSST08 leaves open: when none would be left, all come back; about
    x = 0 nobody is asked.
    """

    def __init__(self, K: int, d: int, *, hypotheses, P: np.ndarray | None = None):
        super().__init__(K, d)
        self.hypotheses, self.P = hypotheses, P
        self.alive = set(range(len(hypotheses)))

    def seen(self, x: np.ndarray) -> np.ndarray:
        return x if self.P is None else dot(self.P, x) / math.sqrt(len(self.P))

    def vote(self, i: int, x: np.ndarray) -> int:
        h = self.hypotheses[i]
        return int(h(self.seen(x)) if callable(h) else np.argmax(dot(h, self.seen(x))))

    def scores(self, x: np.ndarray, round: int = 0) -> np.ndarray:
        votes = np.zeros(self.K)
        if np.any(x):
            for i in self.alive:
                votes[self.vote(i, x)] += 1
        return votes

    def learn(self, x: np.ndarray, choice: Choice, right: bool, round: int, draw: Draw) -> bool:
        if right or not np.any(x):
            return False
        before = set(self.alive)
        self.alive -= {i for i in before if self.vote(i, x) == choice.label}
        self.alive = self.alive or set(range(len(self.hypotheses)))
        return self.alive != before


class PotentialBandit(EpsilonUniform):
    """WJV10: theta += eta U~, W = grad Phi(theta). Flips: as in AM21."""

    eta = 1.0
    rho = (0.0, 0.0)

    def __init__(self, K: int, d: int, gamma: float):
        super().__init__(K, d)
        self.gamma = gamma
        self.theta = np.zeros((K, d))

    def learn(self, x: np.ndarray, choice: Choice, right: bool, round: int, draw: Draw) -> bool:
        f = proxy(right, self.rho)
        self.theta = self.theta + self.eta * banditron_update(self.K, x, choice, f)
        return True


class PNormBandit(PotentialBandit):
    """WJV10 with Phi = ||theta||_p^2 / 2; W is homogeneous in theta, so no rate is needed."""

    def __init__(
        self,
        K: int,
        d: int,
        *,
        gamma: float = 0.05,
        p: float = 4.0,
        rho0: float = 0.0,
        rho1: float = 0.0,
    ):
        super().__init__(K, d, gamma)
        self.p, self.rho = p, (rho0, rho1)

    @property
    def W(self) -> np.ndarray:
        size = np.abs(self.theta)
        norm = np.sum(size**self.p) ** (1 / self.p)
        if norm == 0:
            return np.zeros((self.K, self.d))
        return np.sign(self.theta) * size ** (self.p - 1) / norm ** (self.p - 2)


class EGBandit(PotentialBandit):
    """WJV10 with the exponential potential: one softmax over all K d entries.

    Signed: W = B (exp(theta) - exp(-theta)) / Z over the 2 K d entries. The largest exponent is
    subtracted above and below the fraction bar, which cancels.
    """

    def __init__(
        self,
        K: int,
        d: int,
        *,
        gamma: float = 0.05,
        eta: float = 0.1,
        signed: bool = False,
        B: float = 1.0,
        rho0: float = 0.0,
        rho1: float = 0.0,
    ):
        super().__init__(K, d, gamma)
        self.rho = (rho0, rho1)
        self.eta, self.B, self.signed = eta, B, signed

    @property
    def W(self) -> np.ndarray:
        if not self.signed:
            e = np.exp(self.theta - np.max(self.theta))
            return e / np.sum(e)
        top = np.max(np.abs(self.theta))
        plus, minus = np.exp(self.theta - top), np.exp(-self.theta - top)
        return self.B * (plus - minus) / (np.sum(plus) + np.sum(minus))


# ---------------------------------------------------------------------------- second order


class NewtronRound(Sampled):
    """What Newtron and PNewtron have in common: HK11 Algorithm 1, lines 3 to 11.

    Flips: the gradient is (p - f)/p' (e_a - 1/K) x' whatever the bit f; AM21's h takes its place.
    """

    rho = (0.0, 0.0)

    def __init__(self, K: int, d: int, gamma: float, alpha: float, beta: float, D: float):
        super().__init__(K, d)
        self.gamma, self.alpha, self.beta, self.D = gamma, alpha, beta, D

    def softmax(self, x: np.ndarray) -> np.ndarray:
        """p = P(W', x), Section 2.2."""
        return softmax(self.alpha * dot(self.W, x))

    def propensities(self, x: np.ndarray, round: int = 0) -> np.ndarray:
        """p', line 4."""
        return (1 - self.gamma) * self.softmax(x) + self.gamma / self.K

    def gradient(self, x: np.ndarray, a: int, right: bool) -> tuple[np.ndarray, float]:
        """The estimate of the gradient and kappa, lines 7 to 11."""
        p, p1 = self.softmax(x)[a], self.propensities(x)[a]
        e = one_hot(a, self.K)
        if any(self.rho):
            c = (p - proxy(right, self.rho)) / p1
            return c * np.outer(e - 1 / self.K, x), p1 if right else 1.0
        if right:
            return (1 - p) / p1 * np.outer(1 / self.K - e, x), p1
        return p / p1 * np.outer(e - 1 / self.K, x), 1.0

    def learn(self, x: np.ndarray, choice: Choice, right: bool, round: int, draw: Draw) -> bool:
        self.follow(*self.gradient(x, choice.label, right))
        return True

    def follow(self, g: np.ndarray, kappa: float) -> None:
        raise NotImplementedError


class Newtron(NewtronRound):
    """HK11 Algorithm 1: eq. (3) as the least of W'AW/2 + b.W on the ball, A with all K d x K d."""

    def __init__(
        self,
        K: int,
        d: int,
        *,
        gamma: float = 0.01,
        alpha: float = 10.0,
        beta: float = 0.01,
        D: float = 1.0,
        reg: float | None = None,
        rho0: float = 0.0,
        rho1: float = 0.0,
    ):
        super().__init__(K, d, gamma, alpha, beta, D)
        self.rho = (rho0, rho1)
        self.A = np.eye(K * d) * (1 / D if reg is None else reg)
        self.b = np.zeros(K * d)
        self.W, self.mu = np.zeros((K, d)), 0.0

    def follow(self, g: np.ndarray, kappa: float) -> None:
        """W' = -(A + mu I)^-1 b: mu = 0 if that lies in the ball, else the one on its surface."""
        g = g.ravel()
        self.b = self.b + (1 - kappa * self.beta * np.sum(g * self.W.ravel())) * g
        self.A = self.A + kappa * self.beta * np.outer(g, g)
        values, vectors = np.linalg.eigh(self.A)
        c = vectors.T @ self.b
        norm = lambda mu: math.sqrt(np.sum((c / (values + mu)) ** 2))  # noqa: E731
        self.mu = 0.0
        if norm(0.0) > self.D:
            above = math.sqrt(np.sum(c**2)) / self.D  # where the norm is less than D
            self.mu = brentq(lambda mu: norm(mu) - self.D, 0.0, above, xtol=1e-15 * above)
        self.W = -(vectors @ (c / (values + self.mu))).reshape(self.K, self.d)


class PNewtron(NewtronRound):
    """HK11 Algorithm 1 with Section 4's diagonal Hessian and Euclidean projection."""

    def __init__(
        self,
        K: int,
        d: int,
        *,
        gamma: float = 0.01,
        alpha: float = 10.0,
        beta: float = 0.01,
        D: float = 1.0,
        reg: float | None = None,
        rho0: float = 0.0,
        rho1: float = 0.0,
    ):
        super().__init__(K, d, gamma, alpha, beta, D)
        self.rho = (rho0, rho1)
        self.A = np.full((K, d), 1 / D if reg is None else reg)
        self.b = np.zeros((K, d))

    @property
    def W(self) -> np.ndarray:
        """W', the Euclidean projection of W'' = -A^-1 b on the ball of radius D."""
        W2 = -self.b / self.A
        norm = math.sqrt(np.sum(W2**2))
        return W2 * (self.D / norm) if norm > self.D else W2

    def follow(self, g: np.ndarray, kappa: float) -> None:
        # Section 4 prints W_tau in b; only W'_tau makes it a restatement of eq. (3).
        self.b = self.b + (1 - kappa * self.beta * np.sum(g * self.W)) * g
        self.A = self.A + kappa * self.beta * g**2


class Ridge(Twin):
    """CG11 Figure 1 with a diagonal A (end of Section 3) and no projection (Section 5).

    A is the diagonal of each A_i and b = A w, so that step 8 reads A += x^2, b += z x.
    """

    def __init__(self, K: int, d: int, reg: float):
        super().__init__(K, d)
        self.A = np.full((K, d), float(reg))
        self.b = np.zeros((K, d))

    @property
    def W(self) -> np.ndarray:
        return self.b / self.A

    @property
    def variance(self) -> np.ndarray:
        return 1 / self.A

    def target(self, right: bool, draw: Draw) -> float:
        return 1.0 if right else -1.0

    def learn(self, x: np.ndarray, choice: Choice, right: bool, round: int, draw: Draw) -> bool:
        a = choice.label
        if dot(self.variance, x**2)[a] == 0:
            return False
        self.b[a] += self.target(right, draw) * x
        self.A[a] += x**2
        return True


class Confidit(Ridge, Optimist):
    """CG11: output the largest u_i + epsilon_i, epsilon_i^2 = eta x' A_i^-1 x (Section 5).

    width="log" multiplies eta by log t, the footnoted variant. update="residual" takes step 8 in
    its rank-one form, w += A^-1 x (z - w.x) / (1 + x' A^-1 x), before A is made diagonal.
    """

    def __init__(
        self,
        K: int,
        d: int,
        *,
        eta: float = 0.1,
        alpha: float = 1.0,
        reg: float | None = None,
        width: str = "eta",
        update: str = "residual",
    ):
        super().__init__(K, d, (1 + alpha) ** 2 if reg is None else reg)
        self.eta, self.alpha, self.width, self.update = eta, alpha, width, update

    def bonus(self, x: np.ndarray, round: int = 0) -> np.ndarray:
        eta = self.eta * (math.log(round + 1) if self.width == "log" else 1.0)
        return np.sqrt(eta * dot(self.variance, x**2))

    def target(self, right: bool, draw: Draw) -> float:
        """Steps 6 and 7: after a mistake +1 with probability (1 - alpha) / 2."""
        if right or draw(2) < (1 - self.alpha) / 2:
            return 1.0
        return -1.0

    def learn(self, x: np.ndarray, choice: Choice, right: bool, round: int, draw: Draw) -> bool:
        if self.update == "coordinate":
            return super().learn(x, choice, right, round, draw)
        a, z = choice.label, self.target(right, draw)
        u, v = dot(self.W, x)[a], dot(self.variance, x**2)[a]
        if v == 0:
            return False
        w = self.W[a] + x / self.A[a] * (z - u) / (1 + v)
        self.A[a] += x**2
        self.b[a] = self.A[a] * w
        return True


class LinearThompson(Ridge):
    """Linear Thompson sampling on the same state: play argmax u_i + c sqrt(v_i) N_i."""

    def __init__(
        self, K: int, d: int, *, c: float = 0.1, reg: float = 1.0, exact_propensity: bool = False
    ):
        super().__init__(K, d, reg)
        self.c, self.exact_propensity = c, exact_propensity

    def spread(self, x: np.ndarray) -> np.ndarray:
        return self.c * np.sqrt(dot(self.variance, x**2))

    def propensities(self, x: np.ndarray, round: int = 0) -> np.ndarray:
        """P(i) = E over N_i of the product over j != i of P(sample_j < sample_i)."""
        u, s = self.scores(x), self.spread(x)
        if not np.all(s > 0):
            return one_hot(self.greedy(x), self.K)
        p = np.zeros(self.K)
        for i in range(self.K):
            others = np.arange(self.K) != i

            def win(n: float, i: int = i, others: np.ndarray = others) -> float:
                beats = ndtr((u[i] + s[i] * n - u[others]) / s[others])
                return math.exp(-n * n / 2) / math.sqrt(2 * math.pi) * float(np.prod(beats))

            # the others' means, where a narrow normal makes the product jump
            jumps = [n for n in (u[others] - u[i]) / s[i] if -12 < n < 12]
            p[i] = quad(win, -12, 12, points=jumps or None, limit=500, epsabs=1e-12)[0]
        return p

    def normals(self, draw: Draw) -> np.ndarray:
        """One standard normal per label, by Box-Muller on pairs of streams."""
        N = np.zeros(self.K + 1)
        for m in range((self.K + 1) // 2):
            r = math.sqrt(-2 * math.log(1 - draw(2 * m)))
            N[2 * m] = r * math.cos(2 * math.pi * draw(2 * m + 1))
            N[2 * m + 1] = r * math.sin(2 * math.pi * draw(2 * m + 1))
        return N[: self.K]

    def decide(self, x: np.ndarray, round: int, draw: Draw) -> Choice:
        a = int(np.argmax(self.scores(x) + self.spread(x) * self.normals(draw)))
        p = float(self.propensities(x)[a]) if self.exact_propensity else math.nan
        return Choice(a, self.greedy(x), p)


class SOBA(EpsilonUniform):
    """BOZ17, second-order Banditron, A diagonal; learns from right answers only.

    Flips: g is multiplied by AM21's h, so that its mean is as without them; z follows g.
    """

    def __init__(
        self,
        K: int,
        d: int,
        *,
        gamma: float = 0.01,
        a: float = 1.0,
        rho0: float = 0.0,
        rho1: float = 0.0,
    ):
        super().__init__(K, d)
        self.gamma, self.rho = gamma, (rho0, rho1)
        self.A = np.full((K, d), float(a))
        self.theta = np.zeros((K, d))
        self.m_sum = 0.0

    @property
    def W(self) -> np.ndarray:
        return self.theta / self.A

    @property
    def variance(self) -> np.ndarray:
        return 1 / self.A

    def learn(self, x: np.ndarray, choice: Choice, right: bool, round: int, draw: Draw) -> bool:
        f = proxy(right, self.rho)
        if f == 0:
            return False
        y, P = choice.label, choice.propensity
        r = best_other(self.scores(x), y)
        g = np.outer(one_hot(r, self.K) - one_hot(y, self.K), x) * f / P
        z = math.sqrt(P) * g
        v = np.sum(z * z / self.A)
        if v == 0:
            return False
        m = (np.sum(self.W * z) ** 2 + 2 * np.sum(self.W * g)) / (1 + v)
        if self.m_sum + m < 0:
            return False
        self.m_sum += float(m)
        self.A = self.A + z * z
        self.theta = self.theta - g
        return True


class FullSOBA(EpsilonUniform):
    """BOZ17, second-order Banditron as printed: A has all K d x K d entries."""

    def __init__(
        self,
        K: int,
        d: int,
        *,
        gamma: float = 0.01,
        a: float = 1.0,
        rho0: float = 0.0,
        rho1: float = 0.0,
    ):
        super().__init__(K, d)
        self.gamma, self.rho = gamma, (rho0, rho1)
        self.A = a * np.eye(K * d)
        self.theta = np.zeros(K * d)
        self.m_sum = 0.0

    @property
    def W(self) -> np.ndarray:
        return np.linalg.solve(self.A, self.theta).reshape(self.K, self.d)

    def learn(self, x: np.ndarray, choice: Choice, right: bool, round: int, draw: Draw) -> bool:
        f = proxy(right, self.rho)
        if f == 0:
            return False
        y, P = choice.label, choice.propensity
        r = best_other(self.scores(x), y)
        g = np.outer(one_hot(r, self.K) - one_hot(y, self.K), x).ravel() * f / P
        z, W = math.sqrt(P) * g, self.W.ravel()
        m = ((W @ z) ** 2 + 2 * (W @ g)) / (1 + z @ np.linalg.solve(self.A, z))
        if self.m_sum + m < 0:
            return False
        self.m_sum += float(m)
        self.A = self.A + np.outer(z, z)
        self.theta = self.theta - g
        return True


# ---------------------------------------------------------------------- confidence weighted


def cw_alpha(m: float, v: float, phi: float) -> float:
    """NLVS13 eq. (3), from Crammer, Dredze, Pereira 2008."""
    psi, xi = 1 + phi**2 / 2, 1 + phi**2
    root = math.sqrt(m**2 * phi**4 / 4 + v * phi**2 * xi)
    return max(0.0, (-m * psi + root) / (v * xi))


def scw2_alpha(m: float, v: float, phi: float, C: float) -> float:
    """WZH12, SCW-II."""
    n = v + 1 / (2 * C)
    gamma = phi * math.sqrt(phi**2 * m**2 * v**2 + 4 * n * v * (n + v * phi**2))
    top = -(2 * m * n + phi**2 * m * v) + gamma
    return max(0.0, top / (2 * (n**2 + n * v * phi**2)))


def cw_beta(alpha: float, v: float, phi: float) -> float:
    """NLVS13 eq. (3)."""
    u = (-alpha * v * phi + math.sqrt(alpha**2 * v**2 * phi**2 + 4 * v)) ** 2 / 4
    return alpha * phi / (math.sqrt(u) + v * alpha * phi)


def shrink(Sigma: np.ndarray, x: np.ndarray, beta: float) -> np.ndarray:
    """The diagonal of Sigma - beta Sigma x x' Sigma."""
    return np.maximum(Sigma - beta * (Sigma * x) ** 2, SIGMA_FLOOR)


class UCWL(Optimist):
    """NLVS13 Algorithm 1, diagonal Sigma: the played class is a binary SCW-I on z."""

    def __init__(self, K: int, d: int, *, eta: float = 0.75, C: float = 1.0, k: float = 1.0):
        super().__init__(K, d)
        self.phi, self.C, self.k = float(ndtri(eta)), C, k
        self.W = np.zeros((K, d))  # mu
        self.variance = np.ones((K, d))  # Sigma

    def bonus(self, x: np.ndarray, round: int = 0) -> np.ndarray:
        return self.k * np.sqrt(dot(self.variance, x**2))

    def learn(self, x: np.ndarray, choice: Choice, right: bool, round: int, draw: Draw) -> bool:
        a, z = choice.label, 1.0 if right else -1.0
        v = float(dot(self.variance, x**2)[a])
        m = z * float(dot(self.W, x)[a])
        if v == 0 or m >= self.phi * math.sqrt(v):  # eq. (4) holds
            return False
        alpha = min(self.C, cw_alpha(m, v, self.phi))  # Section 3.3
        if alpha == 0:
            return False
        self.W[a] += alpha * z * self.variance[a] * x
        self.variance[a] = shrink(self.variance[a], x, cw_beta(alpha, v, self.phi))
        return True


# -------------------------------------------------------------------- passive-aggressive


def pa_tau(loss: float, norm2: float, C: float, variant: str) -> float:
    """CDKSS06: the steps of PA, PA-I and PA-II."""
    if variant == "PA":
        return loss / norm2
    if variant == "PA-I":
        return min(C, loss / norm2)
    if variant == "PA-II":
        return loss / (norm2 + 1 / (2 * C))
    raise ValueError(f"no variant {variant!r}")


class BPA(EpsilonUniform):
    """ZD15: a binary passive-aggressive step of the played row on z, no importance weight."""

    def __init__(self, K: int, d: int, *, gamma: float = 0.01, variant: str = "PA", C: float = 1.0):
        super().__init__(K, d)
        self.gamma, self.C, self.variant = gamma, C, variant
        self.W = np.zeros((K, d))

    def learn(self, x: np.ndarray, choice: Choice, right: bool, round: int, draw: Draw) -> bool:
        a, z = choice.label, 1.0 if right else -1.0
        loss = max(0.0, 1 - z * float(dot(self.W, x)[a]))
        norm2 = float(np.sum(x * x))
        if loss == 0 or norm2 == 0:
            return False
        self.W[a] += z * pa_tau(loss, norm2, self.C, self.variant) * x
        return True


# -------------------------------------------------------------------------- separable case


class BanditPerceptron(Twin):
    """B19, one binary Perceptron per label, for strongly separable data.

    use_correct (the authors' experiments): a right answer is also a negative example for every
    other label that said yes, and a positive one for the played label unless it said yes.
    """

    def __init__(self, K: int, d: int, *, use_correct: bool = False):
        super().__init__(K, d)
        self.use_correct = use_correct
        self.W = np.zeros((K, d))

    def yes(self, x: np.ndarray) -> np.ndarray:
        """S = {i : w_i . x >= 0}."""
        return dot(self.W, x) >= 0

    def propensities(self, x: np.ndarray, round: int = 0) -> np.ndarray:
        if np.any(self.yes(x)):
            return one_hot(self.greedy(x), self.K)
        return np.full(self.K, 1 / self.K)

    def decide(self, x: np.ndarray, round: int, draw: Draw) -> Choice:
        h = self.greedy(x)
        if np.any(self.yes(x)):
            return Choice(h, h, 1.0)
        return Choice(int(draw(1) * self.K), h, 1 / self.K)

    def learn(self, x: np.ndarray, choice: Choice, right: bool, round: int, draw: Draw) -> bool:
        a, u, S = choice.label, dot(self.W, x), self.yes(x)
        sign = np.zeros(self.K)
        if right and self.use_correct:
            sign[S] = -1
            sign[a] = 1 if u[a] <= 0 else 0
        elif right and not np.any(S):
            sign[a] = 1
        elif not right and np.any(S):
            sign[a] = -1
        self.W = self.W + np.outer(sign, x)
        return bool(np.any(sign != 0))


# ---------------------------------------------------------------------- regression oracles


class Regressor(Twin):
    """One AdaGrad regression per class of the bit f on x; only the played class learns."""

    def __init__(self, K: int, d: int, lr: float, loss: str = "logistic"):
        super().__init__(K, d)
        self.lr, self.loss = lr, loss
        self.W = np.zeros((K, d))
        self.S = np.full((K, d), 1e-8)

    def scores(self, x: np.ndarray, round: int = 0) -> np.ndarray:
        """g, the predicted probability that each label is right."""
        u = dot(self.W, x)
        return expit(u) if self.loss == "logistic" else np.clip(u, 0.0, 1.0)

    def learn(self, x: np.ndarray, choice: Choice, right: bool, round: int, draw: Draw) -> bool:
        a = choice.label
        guess = self.scores(x)[a] if self.loss == "logistic" else dot(self.W, x)[a]
        q = (guess - right) * x
        self.S[a] += q**2
        self.W[a] -= self.lr * q / np.sqrt(self.S[a])
        return True


class EpsilonGreedy(Regressor, EpsilonUniform):
    """Epsilon-greedy on the regression; epsilon = 0 is plain greedy."""

    def __init__(self, K: int, d: int, *, epsilon: float = 0.05, lr: float = 0.3):
        super().__init__(K, d, lr, "logistic")
        self.gamma = epsilon


class SquareCB(Regressor, Sampled):
    """FR20: inverse gap weighting, P(i) = 1 / (K + gamma_t (g_b - g_i)) for i != b."""

    def __init__(
        self,
        K: int,
        d: int,
        *,
        scale: float = 1000.0,
        expo: float = 0.5,
        lr: float = 0.3,
        loss: str = "logistic",
    ):
        super().__init__(K, d, lr, loss)
        self.scale, self.expo = scale, expo

    def weights(self, g: np.ndarray, gamma: float) -> np.ndarray:
        return 1 / (self.K + gamma * (np.max(g) - g))

    def propensities(self, x: np.ndarray, round: int = 0) -> np.ndarray:
        g, b = self.scores(x), self.greedy(x)
        p = self.weights(g, self.scale * (round + 1) ** self.expo)
        p[b] = 0.0
        p[b] = 1 - np.sum(p)
        return p


class FastCB(SquareCB):
    """FK21, losses l = 1 - g: P(i) = l_b / (K l_b + gamma_t (l_i - l_b)) for i != b."""

    def __init__(self, K: int, d: int, *, scale: float = 100.0, expo: float = 0.5, lr: float = 0.3):
        super().__init__(K, d, scale=scale, expo=expo, lr=lr)

    def weights(self, g: np.ndarray, gamma: float) -> np.ndarray:
        least = max(1 - np.max(g), LOSS_FLOOR)  # l_b; the gaps l_i - l_b are g_b - g_i
        return least / (self.K * least + gamma * (np.max(g) - g))


# ------------------------------------------------------------------------ full information


class Perceptron(Twin):
    """Multiclass Perceptron, as in KSST08: W += (e_y - e_h) x'."""

    def __init__(self, K: int, d: int):
        super().__init__(K, d)
        self.W = np.zeros((K, d))

    def learn(self, x: np.ndarray, y: int) -> bool:
        h = self.greedy(x)
        if h == y:
            return False
        self.W[y] += x
        self.W[h] -= x
        return True


class SecondOrderPerceptron(Twin):
    """CCG05, diagonal, one problem per class; the current x counts in A when predicting."""

    def __init__(self, K: int, d: int, *, a: float = 1.0):
        super().__init__(K, d)
        self.A = np.full((K, d), float(a))
        self.b = np.zeros((K, d))

    @property
    def W(self) -> np.ndarray:
        return self.b / self.A

    @property
    def variance(self) -> np.ndarray:
        return 1 / self.A

    def scores(self, x: np.ndarray, round: int = 0) -> np.ndarray:
        return dot(self.b / (self.A + x**2), x)

    def learn(self, x: np.ndarray, y: int) -> bool:
        h = self.greedy(x)
        if h == y or not np.any(dot(self.variance, x**2)):
            return False
        for i in (y, h):
            self.A[i] += x**2
        self.b[y] += x
        self.b[h] -= x
        return True


class PassiveAggressive(Twin):
    """CDKSS06, multiclass by the pair (y, r): the difference vector has norm^2 2 ||x||^2."""

    def __init__(self, K: int, d: int, *, variant: str = "PA-I", C: float = 1.0):
        super().__init__(K, d)
        self.variant, self.C = variant, C
        self.W = np.zeros((K, d))

    def learn(self, x: np.ndarray, y: int) -> bool:
        u = self.scores(x)
        r = best_other(u, y)
        loss = max(0.0, 1 - float(u[y] - u[r]))
        norm2 = 2 * float(np.sum(x * x))
        if loss == 0 or norm2 == 0:
            return False
        tau = pa_tau(loss, norm2, self.C, self.variant)
        self.W[y] += tau * x
        self.W[r] -= tau * x
        return True


class GaussianPair(Twin):
    """CDK09 top-1: a Gaussian per class, a binary update of the pair (y, r).

    m = u_y - u_r and v = x' (Sigma_y + Sigma_r) x. The covariance between y and r that the exact
    update creates is dropped, and so are those between features.
    """

    def __init__(self, K: int, d: int):
        super().__init__(K, d)
        self.W = np.zeros((K, d))  # mu
        self.variance = np.ones((K, d))  # Sigma

    def step(self, m: float, v: float) -> tuple[float, float]:
        """alpha and beta of the binary update; alpha = 0 for none."""
        raise NotImplementedError

    def learn(self, x: np.ndarray, y: int) -> bool:
        u, V = self.scores(x), dot(self.variance, x**2)
        r = best_other(u, y)
        m, v = float(u[y] - u[r]), float(V[y] + V[r])
        if v == 0:
            return False
        alpha, beta = self.step(m, v)
        if alpha == 0:
            return False
        self.W[y] += alpha * self.variance[y] * x
        self.W[r] -= alpha * self.variance[r] * x
        for i in (y, r):
            self.variance[i] = self.shrunk(self.variance[i], x, beta)
        return True

    def shrunk(self, variance: np.ndarray, x: np.ndarray, beta: float) -> np.ndarray:
        return shrink(variance, x, beta)


class AROW(GaussianPair):
    """CKD09, and NLVS13 Section 3.2 (there r is called rho)."""

    def __init__(self, K: int, d: int, *, r: float = 1.0, update: str = "covariance"):
        super().__init__(K, d)
        self.r, self.update = r, update

    def step(self, m: float, v: float) -> tuple[float, float]:
        beta = 1 / (v + self.r)
        return max(0.0, 1 - m) * beta, beta

    def shrunk(self, variance: np.ndarray, x: np.ndarray, beta: float) -> np.ndarray:
        """The diagonal of the new covariance, or of the new precision (its inverse)."""
        if self.update == "precision":
            return 1 / (1 / variance + x**2 / self.r)
        return super().shrunk(variance, x, beta)


class SCW(GaussianPair):
    """WZH12; SCW-I is NLVS13 Section 3.3."""

    def __init__(self, K: int, d: int, *, eta: float = 0.75, C: float = 1.0, variant: str = "I"):
        super().__init__(K, d)
        self.phi, self.C, self.variant = float(ndtri(eta)), C, variant

    def step(self, m: float, v: float) -> tuple[float, float]:
        if m >= self.phi * math.sqrt(v):  # NLVS13 eq. (4) holds
            return 0.0, 0.0
        if self.variant == "I":
            alpha = min(self.C, cw_alpha(m, v, self.phi))
        else:
            alpha = scw2_alpha(m, v, self.phi, self.C)
        return alpha, cw_beta(alpha, v, self.phi)


class CW(SCW):
    """CDK09, NLVS13 Section 3.1: SCW-I without a limit on alpha."""

    def __init__(self, K: int, d: int, *, eta: float = 0.75):
        super().__init__(K, d, eta=eta, C=math.inf)


# --------------------------------------------------------------------------- full matrices


class FullConfidit(Optimist):
    """CG11 Figure 1 as printed: A_i inverted anew whenever it is wanted, the projection of step 2
    by looking for its multiplier, the width of eq. (5)."""

    def __init__(
        self,
        K: int,
        d: int,
        *,
        eta: float = 0.1,
        alpha: float = 1.0,
        reg: float | None = None,
        width: str = "eta",
        project: bool = False,
        U: float = 1.0,
        delta: float = 0.05,
    ):
        super().__init__(K, d)
        self.eta, self.alpha, self.width, self.project = eta, alpha, width, project
        self.U, self.delta, self.sum = U, delta, 0.0
        self.A = np.tile(((1 + alpha) ** 2 if reg is None else reg) * np.eye(d), (K, 1, 1))
        self.W, self.prior = np.zeros((K, d)), float(self.A[0, 0, 0])

    def variances(self, x: np.ndarray) -> np.ndarray:
        return np.array([x @ np.linalg.solve(A, x) for A in self.A])

    def projected(self, x: np.ndarray) -> np.ndarray:
        """W' of step 2: w_i + t_i A_i^-1 x, with the scores that C_t of eq. (4) allows."""
        u, v = self.scores(x), self.variances(x)
        if not self.project or not np.any(x):
            return self.W
        q, total = u + self.alpha, 1 + self.alpha

        def excess(lam: float) -> float:
            return float(np.sum(np.maximum(0, q - lam * v))) - total

        ends = (q - total) / v
        lam = brentq(excess, ends.min() - 1, (q / v).max(), xtol=1e-15, rtol=1e-15, maxiter=1000)
        moved = np.maximum(0, q - lam * v) - self.alpha - u
        t = moved / v
        return self.W + np.array([t[i] * np.linalg.solve(self.A[i], x) for i in range(self.K)])

    def bonus(self, x: np.ndarray, round: int = 0) -> np.ndarray:
        v, c = self.variances(x), (1 + self.alpha) ** 2
        if self.width == "theory":
            t = round + 1
            noise = 9 * c * math.log((t + 4) / self.delta)
            inner = self.prior * self.U**2 / 2 + c * self.sum / 2 + noise
            return np.sqrt(2 * v * inner)
        return np.sqrt(self.eta * (math.log(round + 1) if self.width == "log" else 1.0) * v)

    def upper(self, x: np.ndarray, round: int = 0) -> np.ndarray:
        return dot(self.projected(x), x) + self.bonus(x, round)

    def learn(self, x: np.ndarray, choice: Choice, right: bool, round: int, draw: Draw) -> bool:
        if not np.any(x):
            return False
        a = choice.label
        z = 1.0 if right or draw(2) < (1 - self.alpha) / 2 else -1.0
        self.W = self.projected(x)
        before = self.A[a].copy()
        self.A[a] += np.outer(x, x)
        self.W[a] = np.linalg.solve(self.A[a], before @ self.W[a] + z * x)
        self.sum += float(x @ np.linalg.solve(self.A[a], x))
        return True


class FullThompson(LinearThompson):
    """Linear Thompson sampling with whole matrices."""

    def __init__(self, K: int, d: int, *, c: float = 0.1, reg: float = 1.0):
        super().__init__(K, d, c=c, reg=reg)
        self.full = np.tile(reg * np.eye(d), (K, 1, 1))

    @property
    def W(self) -> np.ndarray:
        return np.array([np.linalg.solve(A, b) for A, b in zip(self.full, self.b, strict=True)])

    def spread(self, x: np.ndarray) -> np.ndarray:
        return self.c * np.sqrt([x @ np.linalg.solve(A, x) for A in self.full])

    def learn(self, x: np.ndarray, choice: Choice, right: bool, round: int, draw: Draw) -> bool:
        self.b[choice.label] += (1.0 if right else -1.0) * x
        self.full[choice.label] += np.outer(x, x)
        return bool(np.any(x))


class FullUCWL(UCWL):
    """NLVS13 Algorithm 1 with Sigma_i whole; the precision grows by rho x x'."""

    def __init__(self, K: int, d: int, **settings: float):
        super().__init__(K, d, **settings)
        self.precision = np.tile(np.eye(d), (K, 1, 1))

    def bonus(self, x: np.ndarray, round: int = 0) -> np.ndarray:
        return self.k * np.sqrt([x @ np.linalg.solve(P, x) for P in self.precision])

    def learn(self, x: np.ndarray, choice: Choice, right: bool, round: int, draw: Draw) -> bool:
        a, z = choice.label, 1.0 if right else -1.0
        v, m = float(x @ np.linalg.solve(self.precision[a], x)), z * float(self.W[a] @ x)
        if v == 0 or m >= self.phi * math.sqrt(v):
            return False
        alpha = min(self.C, cw_alpha(m, v, self.phi))
        self.W[a] += alpha * z * np.linalg.solve(self.precision[a], x)
        self.precision[a] += grown(alpha, v, self.phi) * np.outer(x, x)
        return alpha > 0


def grown(alpha: float, v: float, phi: float) -> float:
    """rho = alpha phi / sqrt(u): what a step adds to the precision along x."""
    root = (-alpha * v * phi + math.sqrt(alpha**2 * v**2 * phi**2 + 4 * v)) / 2
    return alpha * phi / root


class FullPair(Twin):
    """CDK09 top-1 with Sigma_i whole: Sigma -= beta Sigma x x' Sigma for y and its rival."""

    def __init__(self, twin: GaussianPair):
        super().__init__(twin.K, twin.d)
        self.twin, self.W = twin, np.zeros((twin.K, twin.d))
        self.Sigma = np.tile(np.eye(twin.d), (twin.K, 1, 1))

    def learn(self, x: np.ndarray, y: int) -> bool:
        u = self.scores(x)
        r = best_other(u, y)
        m, v = float(u[y] - u[r]), float(x @ (self.Sigma[y] + self.Sigma[r]) @ x)
        alpha, beta = self.twin.step(m, v) if v > 0 else (0.0, 0.0)
        if alpha == 0:
            return False
        for i, sign in ((y, 1), (r, -1)):
            column = self.Sigma[i] @ x
            self.W[i] += sign * alpha * column
            self.Sigma[i] -= beta * np.outer(column, column)
        return True


# ------------------------------------------------------------------------------- kernels


Kernel = Callable[[np.ndarray, np.ndarray], float]


def kernel(name: str, **numbers: float) -> Kernel:
    """k(x, y) for two contexts."""
    gamma = numbers.get("gamma", 1.0)
    if name == "rbf":
        return lambda x, y: math.exp(-gamma * float((x - y) @ (x - y)))
    if name == "rational":  # B19 Section 4
        return lambda x, y: 1 / (1 - numbers.get("nu", 0.5) * float(x @ y))
    if name == "polynomial":
        constant, degree = numbers.get("constant", 1.0), numbers.get("degree", 3)
        return lambda x, y: (gamma * float(x @ y) + constant) ** degree
    return lambda x, y: float(x @ y)


class Stored(NamedTuple):
    """A context with what was learned from it, each time it came."""

    x: np.ndarray
    label: int
    lessons: list[tuple[float, float]]  # second order: (target, variance of its noise)
    coef: np.ndarray  # first order
    order: list[int]  # when it was learned from


class Dual(Twin):
    """At most `budget` stored contexts; then the one learned from longest ago goes, or `worst`."""

    def __init__(self, K: int, k: Kernel, budget: int = 10**9, remove: str = "oldest"):
        super().__init__(K, 0)
        self.k, self.budget, self.remove = k, budget, remove
        self.stored: list[Stored] = []
        self.clock = 0

    def place_of(self, x: np.ndarray, label: int) -> Stored:
        for one in self.stored:
            if np.array_equal(one.x, x) and one.label == label:
                break
        else:
            one = Stored(x, label, [], np.zeros(self.K), [])
            self.stored.append(one)
        one.order.append(self.clock)
        self.clock += 1
        return one

    def shrink(self, kept: Stored) -> None:
        if len(self.stored) > self.budget:
            others = [one for one in self.stored if one is not kept]
            losses = [self.loss(one) if self.remove == "smallest" else 0.0 for one in others]
            ties = [
                one
                for one, loss in zip(others, losses, strict=True)
                if loss <= min(losses) * (1 + UCB_TOLERANCE)
            ]
            gone = min(ties, key=lambda one: one.order[-1])
            self.stored = [one for one in self.stored if one is not gone]

    def loss(self, one: Stored) -> float:
        """What the removal of a context changes."""
        raise NotImplementedError


class FirstOrder(Dual):
    """w_i = sum of coef_i x over the stored contexts, whatever label they came with."""

    def scores(self, x: np.ndarray, round: int = 0) -> np.ndarray:
        return sum((one.coef * self.k(one.x, x) for one in self.stored), np.zeros(self.K))

    def add(self, x: np.ndarray, coef: np.ndarray) -> bool:
        if not coef.any():
            return False
        one = self.place_of(x, 0)
        one.coef[:] += coef
        self.shrink(one)
        return True

    def loss(self, one: Stored) -> float:
        return float(one.coef @ one.coef) * self.k(one.x, one.x)


class KernelBanditron(FirstOrder):
    """KSST08 in an RKHS."""

    def __init__(self, K: int, k: Kernel, gamma: float = 0.05, **kept):
        super().__init__(K, k, **kept)
        self.gamma = gamma

    propensities = EpsilonUniform.propensities
    decide = EpsilonUniform.decide

    def learn(self, x: np.ndarray, choice: Choice, right: bool, round: int, draw: Draw) -> bool:
        return self.add(x, banditron_update(self.K, np.ones(1), choice, right)[:, 0])


class KernelBanditPerceptron(FirstOrder):
    """B19 Section 4: the same rules with a kernel, for weakly separable data."""

    def decide(self, x: np.ndarray, round: int, draw: Draw) -> Choice:
        u = self.scores(x)
        h = int(np.argmax(u))
        return Choice(h, h, 1.0) if u[h] >= 0 else Choice(int(draw(1) * self.K), h, 1 / self.K)

    def learn(self, x: np.ndarray, choice: Choice, right: bool, round: int, draw: Draw) -> bool:
        claimed = choice.propensity == 1.0
        if right == claimed:
            return False
        return self.add(x, (1.0 if right else -1.0) * one_hot(choice.label, self.K))


class SecondOrder(Dual, Optimist):
    """A Gaussian process a label: with prior c, k/c is the covariance of its scores."""

    def __init__(self, K: int, k: Kernel, c: float, **kept):
        super().__init__(K, k, **kept)
        self.c = c

    def posterior(self, x: np.ndarray, label: int, without: Stored | None = None):
        """Mean and variance of a label's score, from all that was observed of it."""
        own = [one for one in self.stored if one.label == label and one is not without]
        seen = [(one.x, *lesson) for one in own for lesson in one.lessons]
        if not seen:
            return 0.0, self.k(x, x) / self.c
        gram = np.array([[self.k(a, b) for b, *_ in seen] for a, *_ in seen]) / self.c
        near = np.array([self.k(a, x) for a, *_ in seen]) / self.c
        targets, noise = np.array([lesson[1:] for lesson in seen]).T
        weights = np.linalg.solve(gram + np.diag(noise), near)
        return float(weights @ targets), max(self.k(x, x) / self.c - float(weights @ near), 0.0)

    def scores(self, x: np.ndarray, round: int = 0) -> np.ndarray:
        return np.array([self.posterior(x, i)[0] for i in range(self.K)])

    def variances(self, x: np.ndarray) -> np.ndarray:
        return np.array([self.posterior(x, i)[1] for i in range(self.K)])

    def observe(self, x: np.ndarray, label: int, target: float, noise: float) -> None:
        one = self.place_of(x, label)
        one.lessons.append((target, noise))
        self.shrink(one)

    def loss(self, one: Stored) -> float:
        """How far the others' prediction is from what was observed."""
        precision = [1 / noise for _, noise in one.lessons]
        mean = np.average([target for target, _ in one.lessons], weights=precision)
        return abs(float(mean) - self.posterior(one.x, one.label, without=one)[0])


class KernelConfidit(SecondOrder):
    """CG11 without projection: kernel ridge regression on the rounds that said the label."""

    def __init__(self, K: int, k: Kernel, eta: float = 0.1, reg: float = 4.0, **kept):
        super().__init__(K, k, reg, **kept)
        self.eta = eta

    def bonus(self, x: np.ndarray, round: int = 0) -> np.ndarray:
        return np.sqrt(self.eta * self.variances(x))

    def learn(self, x: np.ndarray, choice: Choice, right: bool, round: int, draw: Draw) -> bool:
        self.observe(x, choice.label, 1.0 if right else -1.0, 1.0)
        return True


class KernelUCWL(SecondOrder):
    """NLVS13: a step of SCW-I is an observation with noise 1/rho, of what the step makes of it."""

    def __init__(
        self, K: int, k: Kernel, eta: float = 0.75, C: float = 1.0, width: float = 1.0, **kept
    ):
        super().__init__(K, k, 1.0, **kept)
        self.phi, self.C, self.width = float(ndtri(eta)), C, width

    def bonus(self, x: np.ndarray, round: int = 0) -> np.ndarray:
        return self.width * np.sqrt(self.variances(x))

    def learn(self, x: np.ndarray, choice: Choice, right: bool, round: int, draw: Draw) -> bool:
        z = 1.0 if right else -1.0
        u, v = self.posterior(x, choice.label)
        if v == 0 or z * u >= self.phi * math.sqrt(v):
            return False
        alpha = min(self.C, cw_alpha(z * u, v, self.phi))
        if alpha == 0:
            return False
        noise = 1 / cw_beta(alpha, v, self.phi) - v  # Sigma^-1 += x x'/noise
        self.observe(x, choice.label, u + alpha * z * (noise + v), noise)
        return True


class KernelNewtron(Dual, Sampled):
    """HK11 in an RKHS: W = -sum of e (e_a - 1/K) x', ((1/D + mu) I + Om Ga) e = ze, by bisection.

    A lesson is ze and om, of the label that was said; |W|^2 = e'Ga e is D^2 unless mu = 0.
    """

    def __init__(
        self,
        K: int,
        k: Kernel,
        D: float = 1.0,
        budget: int = 10**9,
        remove: str = "oldest",
        *,
        gamma: float = 0.01,
        alpha: float = 10.0,
        beta: float = 0.01,
    ):
        super().__init__(K, k, budget, remove)
        self.gamma, self.alpha, self.beta, self.D = gamma, alpha, beta, D
        self.mu = 0.0

    def scores(self, x: np.ndarray, round: int = 0) -> np.ndarray:
        return sum((one.coef * self.k(one.x, x) for one in self.stored), np.zeros(self.K))

    def softmax(self, x: np.ndarray) -> np.ndarray:
        return softmax(self.alpha * self.scores(x))

    propensities = NewtronRound.propensities

    def learn(self, x: np.ndarray, choice: Choice, right: bool, round: int, draw: Draw) -> bool:
        p, p1 = self.softmax(x)[choice.label], self.propensities(x)[choice.label]
        c, kappa = (-(1 - p) / p1, p1) if right else (p / p1, 1.0)
        if c == 0:
            return True
        margin = c * self.scores(x)[choice.label]  # g.W'
        one = self.place_of(x, choice.label)
        one.lessons.append(((1 - kappa * self.beta * margin) * c, kappa * self.beta * c**2))
        self.shrink(one)
        self.follow_leader()
        return True

    def loss(self, one: Stored) -> float:
        return float(one.coef @ one.coef) * self.k(one.x, one.x)

    def follow_leader(self) -> None:
        n, a = len(self.stored), np.array([one.label for one in self.stored])
        gram = np.array([[self.k(s.x, t.x) for t in self.stored] for s in self.stored])
        Ga = ((a[:, None] == a) - 1 / self.K) * gram
        ze, om = np.array([np.sum(one.lessons, axis=0) for one in self.stored]).T

        def solve(mu: float) -> tuple[np.ndarray, float]:
            e = np.linalg.solve((1 / self.D + mu) * np.eye(n) + om[:, None] * Ga, ze)
            return e, math.sqrt(max(e @ Ga @ e, 0.0))

        low, high = 0.0, 1.0
        if solve(0.0)[1] > self.D:
            while solve(high)[1] > self.D:
                low, high = high, 2 * high
            for _ in range(80):
                middle = (low + high) / 2
                low, high = (middle, high) if solve(middle)[1] > self.D else (low, middle)
        self.mu = low and high
        for one, e in zip(self.stored, solve(self.mu)[0], strict=True):
            one.coef[:] = -e * (one_hot(one.label, self.K) - 1 / self.K)


# ------------------------------------------------------------------------------- the default


class Expert(NamedTuple):
    """One of OneBit's models; W and S are [label, feature], of matrices S is [label, d, d]."""

    kind: str  # "softmax", "ridge", "full" (a ridge regression with matrices), "logistic", "bayes",
    # "named" (naive Bayes with names), or "bare": a logistic regression without features
    wide: bool  # it sees the Fourier features too
    prior: float
    shrink: float
    floor: float
    again: bool  # it learns kept rounds again
    noise: float  # the chance that an answer is false, as it believes
    W: np.ndarray
    S: np.ndarray
    common: np.ndarray  # the mean of the labels' constants, as a logistic regression estimates it,
    # and the variance of that


class OneBit(Twin):
    """`onebit.OneBit`, from the description at the top of its file.

    `narrow` and `wide` map a row to the features of the two kinds of experts; narrow=None: rows are
    scaled to length 1. A constant feature is added here. `fix` is called with every answered dense
    row; if it returns True, the maps are much better now, and all kept rounds are learned anew.
    `count` is called with every answered row, for maps that depend on them. `meet` is called with
    the twin and every row that was learned: in tables that come as sparse rows, it wakes the wide
    experts (`wake`). `alarm.hear` tells of drift.
    """

    AGAIN, MEMORY, TRUST, RAREST, RING, DRAW = 2, 0.999, 20.0, 1e-3, 1000, 8
    LEAST_WEIGHT = 1e-3  # of the expert with matrices, for it to widen the bounds
    WIDE = (6, 7)

    def __init__(
        self,
        K: int,
        d: int,
        *,
        widths: tuple[int, int],
        draw_kept,
        maps,
        alarm,
        fix=None,
        count=None,
        meet=None,
        names=None,
    ):
        super().__init__(K, d)
        self.pull, self.curve_of_pull, self.odds, self.parts = 8.0, 1 / 64, 0.0, None
        if names is not None:  # [label, feature]
            rarities = np.log(1 + K / np.maximum((names > 0).sum(axis=0), 1))
            self.rarities = rarities * (names > 0).any(axis=0)
            parts = names * self.rarities
            self.parts = parts / np.linalg.norm(parts, axis=1)[:, None]
        self.maps, self.fix, self.count, self.draw_kept = maps, fix, count, draw_kept
        self.meet = meet

        def expert(kind, wide, prior, shrink=1.0, floor=0.0, again=False, noise=0.0):
            W = np.zeros((K, widths[wide] + 1))
            S = self.units(*W.shape) if kind == "full" else np.full(W.shape, prior)
            if kind == "bare":
                S[:, :-1] = 0.0
            elif kind == "logistic":
                S[:, -1] = 1.0
            common = np.array([0.0, 16.0])
            return Expert(kind, wide, prior, shrink, floor, again, noise, W, S, common)

        self.experts = [
            expert("softmax", False, 64.0, 0.3, 1e-4, noise=0.4)
            if fix
            else expert("softmax", False, 64.0, 1.0, 1e-4, noise=0.1),
            expert("softmax", False, 64.0, 0.1, 1e-4, True),
            expert("softmax", False, 256.0, 0.3, 0.05, True),
            expert("ridge", False, 1.0),
            expert("logistic", False, 16.0),
            expert("logistic", False, 2.0),
        ]
        self.experts += [
            expert("softmax", True, 64.0, 0.1, 1e-4, True),
            expert("softmax", True, 256.0, 0.3, 0.05, True),
            expert("bare", False, 1.0),
            expert("full", False, 1.0) if fix else expert("bayes", False, 0.0),
        ]
        self.experts += [expert("named", False, 0.0)] * (names is not None)
        count = len(self.experts)
        self.evidence = np.zeros(count)
        if not fix:
            self.temperature, self.curvature = 3.0, 1.0
            self.evidence[:9] = -5.0
            self.evidence[[*self.WIDE]] = -math.inf
        else:
            late = [expert.kind in ("logistic", "bare") for expert in self.experts]
            self.evidence[late] = -2.0
        self.weight = softmax(self.evidence)
        self.theta = np.tile([0.0, 1.0], (count, 1))
        self.H = np.stack([self.TRUST * np.eye(2)] * count)
        self.said, self.heard, self.kept = np.zeros(K), 0, []
        self.spent, self.earned, self.answered = 0.0, 0, 0.0
        self.limited = self.narrowed = 0
        self.alarm, self.alarms = alarm, 0

    def look(self, expert: Expert, row: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        x = self.maps(row)[expert.wide]
        if expert.kind == "bayes":
            return np.abs(x), self.bayes_scores(expert, np.abs(x)), np.zeros(self.K)
        if expert.kind == "named":
            pull = self.pull * np.clip((self.odds + 5) / 2, 0, 1)
            return x, self.by_bayes(row) + pull * self.likeness(x), np.zeros(self.K)
        x = np.append(x, 1.0)
        if len(x) < expert.W.shape[1]:  # Fourier features are not there yet
            x = np.concatenate([x[:-1], np.zeros(expert.W.shape[1] - len(x)), [1.0]])
        variances = expert.S @ x @ x if expert.kind == "full" else expert.S @ x**2
        scores = expert.W @ x
        if expert.kind == "softmax" and self.parts is not None and not expert.wide:
            pull = self.pull * np.clip(self.odds - 1, 0, 1)
            scores = scores + pull * self.likeness(x[:-1])
        if expert.kind in ("logistic", "bare"):
            scores = scores + expert.common[0]
        return x, scores, variances

    def by_bayes(self, row: np.ndarray) -> np.ndarray:
        [bayes] = [expert for expert in self.experts if expert.kind == "bayes"]
        return self.look(bayes, row)[1]

    def likeness(self, x: np.ndarray) -> np.ndarray:
        """The cosine of a context to each name."""
        x = np.abs(x) * self.rarities
        return self.parts @ x / (np.linalg.norm(x) or 1.0)

    def after_names(self, x: np.ndarray, a: int, right: bool) -> tuple[float, float, float]:
        """The pull, its curvature and the odds of the names, after an answer."""
        s, odds = self.likeness(self.maps(x)[0]), self.odds
        lead = s.max() - s.mean()
        if lead >= 1e-6:
            f, guess = softmax(math.log(self.K) * (s - s.mean()) / lead)[a], 1 / self.K
            odds = 0.999 * odds + math.log(f / guess if right else (1 - f) / (1 - guess))
            odds = np.clip(odds, -20, 20)
        f = softmax(self.by_bayes(x) + self.pull * s)
        gap, p = s[a] - f @ s, np.clip(f[a], 1e-3, 1 - 1e-3)
        curve = 0.999 * self.curve_of_pull + p / (1 - p) * gap**2 + 0.001 / 64
        step = (gap if right else -gap * p / (1 - p)) / curve
        return np.clip(self.pull + step, 0, 200), curve, odds

    def bayes_scores(self, expert: Expert, x: np.ndarray) -> np.ndarray:
        """Complement naive Bayes; W is the mass of a feature in the rounds of a label."""
        mass = expert.W[:, :-1]
        elsewhere = 0.1 + mass.sum(axis=0) - mass
        seen = mass.sum(axis=0) > 0
        occurred = elsewhere[:2].sum(axis=0)  # elsewhere than in the rounds of two labels
        total = occurred[seen].sum() + 2 * 1000 * 0.1  # with 1,000 features that never occurred
        x = x * np.sqrt(np.log(1 + total / occurred)) / 5  # rare features count more
        logs = 32 * (elsewhere ** (1 / 32) - 1)
        if self.K == 2:  # new features are left out
            x = x * seen
        scores = -logs @ x
        scores += x.sum() * np.log(elsewhere[:, seen].sum(axis=1) + 1000 * 0.1)
        return self.temperature * (scores - scores.mean())

    @staticmethod
    def units(K: int, size: int) -> np.ndarray:
        return np.tile(np.eye(size), (K, 1, 1))

    def forecasts(self, row: np.ndarray) -> np.ndarray:
        found = []
        for expert in self.experts:
            _, u, _ = self.look(expert, row)
            if expert.kind in ("ridge", "full"):
                found.append((1 + u) / 2)
            elif expert.kind in ("logistic", "bare"):
                found.append(expit(u))
            else:
                found.append(softmax(u))
        return np.array(found)

    def beliefs(self) -> tuple[float, float]:
        """That exactly one label is right, and that contexts say something about which."""
        trust = dict.fromkeys(("softmax", "bayes", "logistic", "bare", "ridge", "full"), 0.0)
        for weight, expert in zip(self.weight, self.experts, strict=True):
            trust["bayes" if expert.kind == "named" else expert.kind] += weight
        one, each = trust["softmax"] + trust["bayes"], trust["logistic"]
        mute = trust["bare"] * (1 + self.answered / self.K) ** 2 / 5
        return one / (one + each), (one + each) / (one + each + mute)

    def shares(self) -> np.ndarray:
        """Of the experts in the widths of those that take each label by itself."""
        exclusive, telling = self.beliefs()
        are = np.array([expert.kind in ("logistic", "bare") for expert in self.experts])
        each = max(self.weight @ are, self.LEAST_WEIGHT)
        return self.weight * are * (1 - exclusive * telling) / each

    def scores(self, x: np.ndarray, round: int = 0) -> np.ndarray:
        counts = self.weight >= self.LEAST_WEIGHT
        counts |= [expert.kind not in ("logistic", "bare") for expert in self.experts]
        return (self.weight * counts) @ self.forecasts(x)

    def upper(self, x: np.ndarray, round: int = 0) -> np.ndarray:
        q, width = self.scores(x), np.zeros(self.K)
        exclusive, telling = self.beliefs()
        [alone] = [expert.S[:, -1] for expert in self.experts if expert.kind == "bare"]
        behind = np.log(np.maximum((1 + round) / (self.K * (1 + self.said)), 1))
        both = exclusive * telling
        for weight, share, expert in zip(self.weight, self.shares(), self.experts, strict=True):
            _, u, v = self.look(expert, x)
            if expert.kind == "ridge" or (expert.kind == "full" and weight >= self.LEAST_WEIGHT):
                p = np.clip((1 + u) / 2, 0, 1)
                noise = both + (1 - both) * 2 * np.sqrt(p * (1 - p))
                width += weight * noise * np.sqrt(v) / 2
            elif expert.kind in ("logistic", "bare") and weight >= self.LEAST_WEIGHT:
                wider = np.sqrt(v / 16 + (1 / 4 + 2 * behind) * alone)
                width += share * (expit(u + wider) - expit(u))
        bonus = telling * 2 * max(0.0, 1 - q.max()) * math.sqrt(math.log(1 + round))
        allowed = (0.05 + 0.45 * exclusive) * self.K * math.log(1 + round)
        chance = math.sqrt(1 + self.earned)
        allowed = min(allowed, chance)
        if self.spent > allowed:
            bonus *= (allowed / self.spent) ** 3
            self.limited += bonus > 0
        if self.spent > chance / 2:
            width *= (chance / 2 / self.spent) ** 3
            self.narrowed += width.any()
        return q + width + bonus / np.sqrt(1 + self.K + self.said)

    def decide(self, x: np.ndarray, round: int, draw: Draw) -> Choice:
        upper = self.upper(x, round)
        a = int(np.flatnonzero(upper >= upper.max() - 1e-12)[0])  # labels never said are equal
        self.said[a] += 1
        return Choice(a, self.greedy(x), 1.0)

    def after(self, forecasts: np.ndarray, a: int, right: bool) -> np.ndarray:
        """The labels' probabilities after an answer."""
        y = np.maximum(forecasts, 0.0)
        y[a] = 0.0
        if not y.any():  # no expert expected any of the other labels
            y = 1 - np.eye(self.K)[a]
        return np.eye(self.K)[a] if right else y / y.sum()

    def learn_expert(
        self, expert: Expert, row: np.ndarray, a: int, right: bool, after: np.ndarray | None = None
    ) -> None:
        """after: the labels' probabilities by all experts; without, the expert's own ones."""
        if expert.wide and self.evidence[self.WIDE[0]] == -math.inf:
            return
        x, u, v = self.look(expert, row)
        if expert.kind == "named":
            return
        if expert.kind == "bayes":
            self.temper(u, a, right)
            expert.W[:, :-1] += after[:, None] * x
            return
        if expert.kind in ("logistic", "bare"):
            self.learn_logistic(expert, x, u[a], v[a], a, right)
            return
        if expert.kind in ("ridge", "full"):
            S, z = expert.S[a], 1.0 if right else -1.0
            Sx = S @ x if expert.kind == "full" else S * x
            expert.W[a] += Sx * (z - u[a]) / (1 + v[a])
            if expert.kind == "full":
                expert.S[a] = S - np.outer(Sx, Sx) / (1 + v[a])
            else:
                expert.S[a] = 1 / (1 / S + x**2)
            return
        p = softmax(u)
        chance = np.full(self.K, expert.noise if right else 1 - expert.noise)  # of this answer
        chance[a] = 1 - chance[a]
        y = p * chance / (p @ chance) if after is None or expert.noise else after
        moved = u.copy()
        for _ in range(5):  # Newton's method
            p = softmax(moved)
            slope = (moved - u) / v + p - y
            step = np.linalg.solve(np.diag(1 / v + p) - np.outer(p, p), slope)
            moved -= min(1.0, 2 / np.abs(step).max()) * step
            if np.abs(step).max() < 1e-3:
                break
        p = softmax(moved)
        g = (moved - u) / v
        if np.abs(g).max() > 1e-4:
            expert.W[:] += g[:, None] * expert.S * x
            h = expert.shrink * np.maximum(p * (1 - p), expert.floor)
            expert.S[:] = 1 / (1 / expert.S + h[:, None] * x**2)

    @staticmethod
    def learn_logistic(
        expert: Expert, x: np.ndarray, u: float, v: float, a: int, right: bool
    ) -> None:
        """The label's weights, and the constant of all labels."""
        v += expert.common[1]
        side = 1 if right else -1
        reach = side * v  # the slope is at most 1
        moved = brentq(lambda m: (m - u) / v - side * expit(-side * m), u, u + reach, xtol=1e-12)
        slope, p = (moved - u) / v, expit(moved)
        curve = max(p * (1 - p), 1e-3)
        expert.common[0] += slope * expert.common[1]
        expert.common[1] = 1 / (1 / expert.common[1] + curve)
        expert.W[a] += slope * expert.S[a] * x
        expert.S[a] /= 1 + curve * expert.S[a] * x**2

    def learn(self, x: np.ndarray, choice: Choice, right: bool, round: int, draw: Draw) -> bool:
        a = choice.label
        if a != choice.greedy:
            highest = max(0.0, self.scores(x).max())
            self.spent = max(0.0, self.spent + highest - right)
        self.answered += 1
        self.earned += right
        expected, names = self.scores(x), None
        if self.parts is not None:
            names = self.after_names(x, a, right)
            expected = softmax(self.by_bayes(x)) if self.odds < 2 else expected
        after = None if self.fix else self.after(expected, a, right)
        noise = np.array([expert.noise for expert in self.experts])
        self.weigh(noise + (1 - 2 * noise) * self.forecasts(x)[:, a], right)
        for expert in self.experts:
            self.learn_expert(expert, x, a, right, after)
        if names is not None:
            self.pull, self.curve_of_pull, self.odds = names
        self.heard += 1
        self.kept = [*self.kept, (x, a, right)][-self.RING :]
        if self.count:
            self.count(x)
        if self.fix and self.fix(self, x):
            for expert in self.experts:
                self.clear(expert)
            for i, kept in enumerate(self.kept):
                for expert in self.experts:
                    self.learn_expert(expert, *kept)
                self.replay(self.AGAIN * (len(self.kept) - 1 - i), i + 1)
        else:
            self.replay(0, len(self.kept))
        if self.meet:
            self.meet(self, x)
        if self.alarm.hear(right):
            self.alarms += 1
            self.forget(0.9)
        return True

    def wake(self, has_numbers: bool) -> None:
        """The wide experts. Naive Bayes, the last one, is ahead only if there are no numbers."""
        self.evidence[[*self.WIDE]] = self.evidence.max() - 5.0
        self.evidence[9:] -= 5.0 if has_numbers else 0.0
        self.weight = softmax(self.evidence)

    def sleep(self) -> None:
        self.evidence[[*self.WIDE]] = -math.inf
        self.weight = softmax(self.evidence)

    def clear(self, expert: Expert) -> None:
        expert.W[:], expert.S[:], expert.common[:] = 0.0, expert.prior, [0.0, 16.0]
        if expert.kind == "full":
            expert.S[:] = self.units(self.K, expert.W.shape[1])
        elif expert.kind == "logistic":
            expert.S[:, -1] = 1.0
        elif expert.kind == "bare":
            expert.S[:, :-1] = 0.0

    def forget(self, share: float) -> None:
        """As if a share of the answers had not been heard; all that is kept are sums of answers."""
        keep = 1 - share
        for expert in self.experts:
            if expert.kind in ("bayes", "named"):
                expert.W[:] *= keep
            elif expert.kind == "full":
                before = np.linalg.inv(expert.S)
                expert.S[:] = np.linalg.inv(keep * before + share * self.units(*expert.W.shape))
                sums = keep * np.einsum("kij,kj->ki", before, expert.W)
                expert.W[:] = np.einsum("kij,kj->ki", expert.S, sums)
            else:
                prior, known = np.full(expert.S.shape, expert.prior), expert.S > 0
                if expert.kind == "logistic":
                    prior[:, -1] = 1.0
                S = expert.S[known]
                sums = keep * expert.W[known] / S
                expert.S[known] = 1 / (keep / S + share / prior[known])
                expert.W[known] = expert.S[known] * sums
            before = expert.common[1]
            expert.common[1] = 1 / (keep / before + share / 16)
            expert.common[0] *= keep * expert.common[1] / before
        self.evidence *= keep
        self.said *= keep
        self.answered *= keep
        self.spent *= keep
        self.kept = self.kept[len(self.kept) - int(keep * len(self.kept)) :]
        if not self.fix:
            self.curvature *= keep
            self.curve_of_pull = 1 / 64 + keep * (self.curve_of_pull - 1 / 64)
            self.odds *= keep

    def temper(self, u: np.ndarray, a: int, right: bool) -> None:
        f = softmax(u)
        gap = (u[a] - f @ u) / self.temperature
        p = np.clip(f[a], self.RAREST, 1 - self.RAREST)
        odds = p / (1 - p)
        self.curvature = self.MEMORY * self.curvature + odds * gap**2 + 1 - self.MEMORY
        self.temperature += (gap if right else -gap * odds) / self.curvature
        self.temperature = np.clip(self.temperature, 0.3, 30.0)

    def replay(self, first: int, among: int) -> None:
        for n in range(self.AGAIN):
            i = int(self.draw_kept(self.heard, self.DRAW + first + n) * among)
            for expert in self.experts:
                if expert.again:
                    self.learn_expert(expert, *self.kept[i])

    def weigh(self, f: np.ndarray, right: bool) -> None:
        for m in np.flatnonzero(self.evidence > -math.inf):
            clipped = np.clip(f[m], self.RAREST, 1 - self.RAREST)
            features = np.array([1.0, math.log(clipped / (1 - clipped))])
            forecast = expit(self.theta[m] @ features)
            missed, forecast = right - forecast, np.clip(forecast, self.RAREST, 1 - self.RAREST)
            chance = forecast if right else 1 - forecast
            self.evidence[m] = self.MEMORY * self.evidence[m] + math.log(chance)
            curve = max(forecast * (1 - forecast), self.RAREST)
            prior = (1 - self.MEMORY) * self.TRUST
            self.H[m] = self.MEMORY * self.H[m] + curve * np.outer(features, features)
            self.H[m] += prior * np.eye(2)
            slope = missed * features + prior * (np.array([0.0, 1.0]) - self.theta[m])
            self.theta[m] += np.linalg.solve(self.H[m], slope)
            self.theta[m] = np.clip(self.theta[m], [-1.0, 0.1], [1.0, 2.0])
        self.weight = softmax(self.evidence)
