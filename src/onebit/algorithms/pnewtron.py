"""PNewtron: Hazan, Kale, "Newtron: an efficient bandit algorithm for online multiclass prediction",
NIPS 2011, Section 5: Newtron with a diagonal matrix.

Follow the regularised leader on the logistic loss, which is replaced by a quadratic lower bound
that one bit is enough to estimate. In a round:

- p = softmax(alpha W x) over the K labels; the label a is drawn from p' = (1 - gamma) p + gamma/K;
- c = (p_a - f)/p'_a, where f is the bit, or its unbiased estimate for flipped bits (see `flips`);
- kappa = p'_a if right is heard, else 1;
- the gradient is g = c (e_a - 1/K) x'; the diagonal A, which starts from `reg`, grows by
  kappa beta g^2, and b grows by (1 - kappa beta g.W) g;
- V = -b/A; W is V scaled into the ball of radius D.

The table holds V (plane 0) and A (plane 1). The memory holds ||V||^2, kept up to date, and the
number of updates since it was last summed afresh.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from onebit.algorithms.flips import RHO0, RHO1, _CorrectsFlips, unflipped
from onebit.core.choosing import best, is_as_likely, sample
from onebit.core.exploring import own_of
from onebit.core.jit import generic, implement, inline, plain
from onebit.core.lanes import at, fetch, if_greater, load, save, store, zero
from onebit.core.rounds import Choice
from onebit.core.settings import Range, setting
from onebit.core.sums import blocks, dot, number, squared_norm
from onebit.core.updates import Waiting, answered, ask
from onebit.learner.decision import Decision
from onebit.learner.looking import present_scores

FRESH_NORM_EVERY = 100_000  # updates: the running sum of squares drifts by rounding
BEYOND = 1000.0  # times D: how far rounding may move weights out of the ball, for huge values
GAMMA = setting(default=0.01, above=0, below=1, search=Range(0.001, 0.5), doc="exploration")
ALPHA = setting(default=10.0, above=0, search=Range(1, 100), doc="steepness of the softmax")
RADIUS = (
    "radius of the ball; with contexts of unit length try 10 (the published 1 belongs to raw 0/1 "
    "features)"
)

REG = setting(
    default=lambda learner: 1.0 / learner.D, above=0, doc="initial value of the matrix; 1/D if None"
)


@inline
def ball_scale(params, state):
    """The factor that scales V into the ball."""
    squared = state.memory[0]
    return params.D / math.sqrt(squared) if squared > params.D * params.D else 1.0


@inline
def softmax(params, state, work):
    """Fill the probabilities with p. Returns the greedy label and the normaliser."""
    greedy = best(state, work)
    top = work.scores[greedy]
    total = 0.0
    for label in range(len(work.mask)):
        e = 0.0
        if work.mask[label] == 0:
            e = math.exp(params.alpha * np.float64(work.scores[label] - top))
        work.propensities[label] = e
        total += e
    for label in range(len(work.mask)):
        work.propensities[label] /= total
    return greedy, total


@inline
def mix_in_uniform(params, work, turn):
    for label in range(len(work.mask)):
        if work.mask[label] == 0:
            p = work.propensities[label]
            work.propensities[label] = (1.0 - params.gamma) * p + params.gamma / turn.count


@inline
def draw(params, state, work, turn):
    """Draw a label; the choice notes its p and its score."""
    greedy, total = softmax(params, state, work)
    mix_in_uniform(params, work, turn)
    label = sample(work, turn)
    choice = Choice(label, greedy, work.propensities[label], 0.0, 0.0)
    return with_score(params, work, choice, total)


@inline
def with_score(params, work, choice, total):
    """The choice with the p of its label and its score. total: of the powers of all labels."""
    label, greedy = choice.label, choice.greedy
    p = math.exp(params.alpha * np.float64(work.scores[label] - work.scores[greedy])) / total
    return Choice(label, greedy, choice.propensity, p, np.float64(work.scores[label]))


@inline
def mean_score(work, turn):
    """The mean score of the possible labels."""
    total = 0.0
    for label in range(len(work.mask)):
        if work.mask[label] == 0:
            total += np.float64(work.scores[label])
    return total / turn.count


@inline
def pull_and_growth(params, choice, right):
    """Factors of the growth of b and A; `note` of the choice is p, and `other` is g.W/c."""
    p, margin = choice.note, choice.second_note
    c = (p - unflipped(params.rho0, params.rho1, right)) / choice.propensity
    kappa = choice.propensity if right else 1.0
    return (1.0 - kappa * params.beta * c * margin) * c, kappa * params.beta * c * c


@inline
def lane(v, a, x, pull, growth):
    """V and A of a label after a step; nothing changes where growth is 0."""
    grown = a + growth * (x * x)
    return if_greater(growth, growth - growth, (v * a - pull * x) / grown, v), grown


@inline
def step_of_block(state, row, block, pull, growth):
    """Make the step. Returns the change of ||V||^2, lane by lane."""
    gain = zero(state)
    for i in range(row.start, row.stop):
        j, x = at(row.indices, i), at(row.values, i)
        v, a = load(state, j, 0, block), load(state, j, 1, block)
        moved, grown = lane(v, a, x, pull, growth)
        save(state, j, 0, block, moved)
        save(state, j, 1, block, grown)
        gain = gain + (moved * moved - v * v)
    return gain


@generic
def step(state, work, row):
    for block in range(blocks(state)):
        pull, growth = fetch(state, work.bounds, block), fetch(state, work.widths, block)
        store(state, work.bounds, block, step_of_block(state, row, block, pull, growth))
    gained = 0.0
    for label in range(len(work.mask)):
        gained += np.float64(work.bounds[label])
    remember(state, state.memory, gained, 0, 1)


@implement(step, Waiting)
def step_later(state, work, row):
    for label in range(state.table.shape[2]):
        ask(state, label, work.bounds[label], work.widths[label])


def settle(params, state, row):
    whole, waiting, gains = state.whole, state.waiting, state.sums[0]
    for block in range(blocks(whole)):
        if waiting.blocks[block]:
            pull = fetch(whole, waiting.first, block)
            growth = fetch(whole, waiting.second, block)
            store(whole, gains, block, step_of_block(whole, row, block, pull, growth))
    for replica in range(state.replicas):
        if waiting.asked[replica]:  # label 0 is enough: a replica asks for all labels or none
            gained = 0.0
            for label in range(state.table.shape[2]):
                gained += np.float64(gains[label * state.replicas + replica])
            remember(whole, whole.memory[replica], gained, replica, state.replicas)
    for block in range(blocks(whole)):
        if waiting.blocks[block]:
            answered(whole, waiting, block)


@inline
def remember(state, memory, gained, column, columns):
    """Keep ||V||^2 of the lanes column, column + columns, ... up to date."""
    memory[0] = max(memory[0] + gained, 0.0)
    memory[1] += 1.0
    if memory[1] >= FRESH_NORM_EVERY:
        total, lost = 0.0, 0.0  # compensated, so that the order of rows does not matter
        for j in range(state.table.shape[0]):
            for lane in range(column, state.table.shape[2], columns):
                v = np.float64(state.table[j, 0, lane])
                square = v * v
                before, total = total, total + square
                added = total - before
                lost += (before - (total - added)) + (square - added)
        memory[0], memory[1] = total + lost, 0.0


step.settled = settle


@generic
def squared_length(state, row):
    """The squared length of a context, in the space of the kernel if there is one."""
    return squared_norm(row)


@inline
def is_drawn(params, state, row, turn, choice):
    """Whether a choice can be drawn: p gives the propensity, and a score is at most D |x|, as all
    weights lie in the ball."""
    p = choice.note
    mixed = (1.0 - params.gamma) * p + params.gamma / turn.count
    most = BEYOND * params.D * math.sqrt(squared_length(state, row))
    is_p = 0.0 <= p <= 1.0 and is_as_likely(choice.propensity, mixed)
    return is_p and abs(choice.second_note) <= most


class _SoftmaxInBall(_CorrectsFlips):
    """A learner that draws labels by `draw`, with weights in a ball of radius D."""

    no_lists = "the curvature that it is proved with belongs to a single label that was drawn"

    planes = 2
    alpha: float

    @staticmethod
    def law(params, state, work, turn):
        softmax(params, state, work)
        mix_in_uniform(params, work, turn)

    @staticmethod
    def noted(params, state, work, turn, choice):
        _, total = softmax(params, state, work)
        return with_score(params, work, choice, total)

    @staticmethod
    def could_say(params, state, work, row, turn, choice):
        return is_drawn(params, state, row, turn, choice)

    @staticmethod
    def could_note(params, state, work, row, turn, choice):
        return is_drawn(params, state, row, turn, choice)

    def _had_it_said(self, decision: Decision, place: int) -> Decision:
        said = super()._had_it_said(decision, place)
        scores = present_scores(self, said)
        powers = np.exp(self.alpha * (scores - scores.max()))
        p, margin = powers[place] / powers.sum(), scores[place] - self._offset(scores)
        return msgspec.structs.replace(said, note=float(p), other=float(margin))

    def _offset(self, scores: np.ndarray) -> float:
        """The number that g.W/c subtracts from the score of the said label."""
        return 0.0


class PNewtron(_SoftmaxInBall):
    """Diagonal Newtron: bandit logistic regression in a ball (Hazan, Kale 2011).

    Where feedback is flipped, the curvature is that of the corrected gradient.

    >>> import onebit as ob
    >>> iris = ob.datasets.iris()
    >>> learner = ob.PNewtron(iris.labels, D=100, inputs="auto")
    >>> trace = ob.simulate(learner, iris, order="shuffled", epochs=10)
    >>> float(trace.error[-1].round(2))
    0.32
    """

    gamma: float = GAMMA
    alpha: float = ALPHA
    beta: float = setting(default=0.01, above=0, search=Range(0.001, 1), doc="curvature")
    D: float = setting(default=1.0, above=0, search=Range(0.1, 100), doc=RADIUS)
    rho0: float = RHO0
    rho1: float = RHO1
    reg: float = REG

    lockstep = step

    @staticmethod
    def score(params, state, work, row, turn):
        dot(state, row, 0, work.scores)
        scale = number(state, ball_scale(params, state))
        for block in range(blocks(state)):
            store(state, work.scores, block, fetch(state, work.scores, block) * scale)

    @staticmethod
    def say(params, state, work, turn):
        said = draw(params, state, work, turn)
        margin = said.second_note - mean_score(work, turn)
        return Choice(said.label, said.greedy, said.propensity, said.note, margin)

    @staticmethod
    def noted(params, state, work, turn, choice):
        _, total = softmax(params, state, work)
        said = with_score(params, work, choice, total)
        margin = said.second_note - mean_score(work, turn)
        return Choice(said.label, said.greedy, said.propensity, said.note, margin)

    @staticmethod
    def hear(params, state, work, row, turn, choice, right):
        pull, growth = pull_and_growth(params, choice, right)
        pull, growth = number(state, pull), number(state, growth)
        for label in range(len(work.mask)):  # e_a - 1/K, on the labels that could have been said
            direction = number(state, -1.0 / turn.count if work.mask[label] == 0 else 0.0)
            if label == choice.label:
                direction += number(state, 1.0)
            work.bounds[label] = direction * pull
            work.widths[label] = direction * direction * growth
        step(state, work, row)
        return True

    def _memory(self) -> tuple[float, ...]:
        return 0.0, 0.0

    def _offset(self, scores: np.ndarray) -> float:
        return float(scores[np.isfinite(scores)].mean())

    def _fill(self) -> tuple[float, ...]:
        return 0.0, self.reg

    def _faded(
        self, table: np.ndarray, memory: np.ndarray, keep: float
    ) -> tuple[np.ndarray, np.ndarray]:
        A = self.reg + keep * (table[:, 1] - self.reg)
        table[:, 0] *= keep * table[:, 1] / A
        table[:, 1] = A
        return table, np.array([np.square(table[:, 0]).sum(), 0.0])

    def _is_sound(self, table: np.ndarray, memory: np.ndarray) -> bool:
        good = np.isfinite(np.square(table[:, 0])) & (table[:, 1] >= self.reg * (1 - 1e-5))
        return bool(good.all() and (memory >= 0).all())

    def _mended(
        self, table: np.ndarray, memory: np.ndarray, arrays: dict[str, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """Sum ||V||^2 again if the memory has a very different value."""
        squared = float(np.square(table[:, 0], dtype=np.float64).sum())
        if not squared / 2 <= memory[0] <= 2 * squared:
            memory = np.array([squared, 0.0])
        return table, memory, arrays

    def _weights(self) -> np.ndarray:
        return super()._weights() * plain(ball_scale)(own_of(self.params), self.table.state)
