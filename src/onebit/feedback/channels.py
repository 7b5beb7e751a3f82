"""Channels: label noise, flips, silence and delay of feedback on its way; and drift.

A list of channels applies from first to last. All draws are pure functions of
(seed, round, place in the list), so a run can be repeated, and round by round equals the stream.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from onebit.core.draws import uniform
from onebit.core.jit import inline, plain
from onebit.core.settings import bit, choice_of, real, shown, whole
from onebit.learner.decision import Decision, checked_decision
from onebit.learner.silence import PLAIN, is_taken

if TYPE_CHECKING:
    from onebit.learner.learner import Learner

STREAM = 2 * 10**6  # two streams of draws a step, from here on: neither learners nor data use them
DELAY_STREAM = STREAM - 1

SWAP, ROTATE, NOISE_OTHERS, NOISE_ALL, FLIP, SILENCE = range(6)
UNHEARD = -1
LEFT_OUT = -2  # heard, but not learned from


class Swap:
    """Drift: from a round on, two labels (by their places, 0 to K-1) change roles."""

    def __init__(self, at: int, one: int, two: int) -> None:
        self.at = whole("at", at, least=0, most=2**53)
        self.one = whole("one", one, least=0, most=2**31)
        self.two = whole("two", two, least=0, most=2**31)
        self.row = (SWAP, self.at, self.one, self.two)


class Rotate:
    """Drift: every label turns into the next one, with a probability that rises from 0 to 1.

    The probability rises during `rounds` rounds, which begin after `start` rounds.
    """

    def __init__(self, start: int, rounds: int) -> None:
        self.start = whole("start", start, least=0, most=2**53)
        self.rounds = whole("rounds", rounds, least=1, most=2**53)
        self.row = (ROTATE, self.start, self.rounds, 0)


class LabelNoise:
    """The true label is replaced with probability p, by another label or by any label."""

    def __init__(self, p: float, *, by: Literal["others", "any"] = "others") -> None:
        self.p = real("p", p, least=0, most=1)
        kind = NOISE_ALL if choice_of("by", by, ("others", "any")) == "any" else NOISE_OTHERS
        self.row = (kind, self.p, 0, 0)


class Flip:
    """Wrong is heard as right with probability rho0, right as wrong with probability rho1."""

    def __init__(self, rho0: float, rho1: float) -> None:
        self.rho0 = real("rho0", rho0, least=0, below=1)
        self.rho1 = real("rho1", rho1, least=0, below=1)
        self.row = (FLIP, self.rho0, self.rho1, 0)


class Silence:
    """No feedback, with probability p, or with different probabilities after right and wrong."""

    def __init__(
        self, p: float | None = None, *, right: float | None = None, wrong: float | None = None
    ) -> None:
        if (p is None) == (right is None and wrong is None):
            raise TypeError("pass either Silence(p) or Silence(right=..., wrong=...)")
        self.right = real("right", p if p is not None else right or 0.0, least=0, most=1)
        self.wrong = real("wrong", p if p is not None else wrong or 0.0, least=0, most=1)
        self.row = (SILENCE, self.right, self.wrong, 0)


class Delay:
    """Feedback comes later: after `rounds` rounds, after a geometric number of rounds with mean
    `mean`, or after `given[t]` rounds for round t. Feedback that would come after the end is lost.
    """

    def __init__(
        self,
        rounds: int | None = None,
        *,
        mean: float | None = None,
        given: Sequence[int] | np.ndarray | None = None,
    ) -> None:
        if sum(setting is not None for setting in (rounds, mean, given)) != 1:
            raise TypeError("pass one of Delay(rounds), Delay(mean=...) or Delay(given=[...])")
        self.mean = 0.0 if mean is None else real("mean", mean, above=0, most=10**6)
        self.given = np.empty(0, np.int64)
        self.fixed = 0 if rounds is None else whole("rounds", rounds, least=0, most=10**8)
        self.longest = self.fixed
        if mean is not None:
            self.longest = int(25 * (self.mean + 1))  # longer delays have a probability below 1e-10
        if given is not None:
            delays = np.asarray(given)
            if delays.ndim != 1 or delays.dtype.kind not in "iu" or not len(delays):
                raise TypeError("given must be a list of whole numbers, one for every round")
            if delays.min() < 0 or delays.max() > 10**8:
                raise ValueError("delays must be between 0 and 10^8")
            self.given = delays.astype(np.int64)
            self.longest = int(delays.max())


ChannelStep = Swap | Rotate | LabelNoise | Flip | Silence | Delay


class Link(NamedTuple):
    """A list of channels, as a record for compiled code."""

    steps: Any  # [step, (kind, a, b, c)], float64
    seed: Any
    fixed: Any
    mean: Any
    given: Any
    longest: Any
    hearing: Any  # how the learner interprets silence


def steps_of(channel: Any) -> tuple[ChannelStep, ...]:
    """The steps of a channel, given as a list or as a single step."""
    if isinstance(channel, ChannelStep):
        return (channel,)
    if isinstance(channel, str) or not isinstance(channel, Iterable):
        raise TypeError(
            "channel must be a step such as Flip(0.1, 0.1), or a list of steps, not "
            f"{shown(channel)}"
        )
    steps = tuple(channel)
    for step in steps:
        if not isinstance(step, ChannelStep):
            raise TypeError(
                f"a channel is LabelNoise, Flip, Silence, Delay, ..., not {shown(step)}"
            )
    return steps


def link(channel: Iterable[ChannelStep] | ChannelStep, seed: int) -> Link:
    """Several channels as one. There may be only one delay."""
    given = steps_of(channel)
    rows = [step.row for step in given if not isinstance(step, Delay)]
    delays = [step for step in given if isinstance(step, Delay)]
    if len(delays) > 1:
        raise ValueError("there may be only one Delay among the channels")
    delay = delays[0] if delays else Delay(0)
    steps = np.array(rows, np.float64).reshape(len(rows), 4)
    return Link(steps, seed, delay.fixed, delay.mean, delay.given, delay.longest, PLAIN)


def link_to(learner: Learner, channel: Iterable[ChannelStep] | ChannelStep) -> Link:
    """Several channels as one, with the learner's way of interpreting silence."""
    way = link(channel, learner.draw_seed)._replace(hearing=learner.hearing)
    check(way, learner)
    return way


def check(way: Link, learner: Learner) -> None:
    """Refuse a channel that does not fit the learner."""
    if learner.full_information and (way.steps[:, 0] == FLIP).any():
        raise ValueError("Flip is for learners that receive right or wrong")
    swaps = way.steps[way.steps[:, 0] == SWAP]
    if (swaps[:, 2:] >= len(learner.labels)).any():
        raise ValueError(
            f"Swap names a label beyond the {len(learner.labels)} labels of the learner"
        )


def check_delays(way: Link, rounds: int) -> None:
    """Refuse a list of delays that is shorter than the number of rounds."""
    if len(way.given) and rounds > len(way.given):
        raise ValueError(
            f"Delay(given=...) has {len(way.given)} delays, and round {rounds} needs one too: "
            "give one for every round, or use Delay(rounds) or Delay(mean=...)"
        )


@inline
def drifted(link, round, label, labels):
    """The true label in this round."""
    for i in range(len(link.steps)):
        kind, a, b, c = link.steps[i]
        if kind == SWAP and round >= a:
            if label == b:
                label = int(c)
            elif label == c:
                label = int(b)
        elif kind == ROTATE and uniform(link.seed, round, STREAM + 2 * i) < (round - a) / b:
            label = (label + 1) % labels
    return label


@inline
def undrifted(steps, seed, round, label, labels):
    """The label that has become this one by drift: the reverse of `drifted`."""
    for step in range(len(steps)):
        i = len(steps) - 1 - step
        kind, a, b, c = steps[i]
        if kind == SWAP and round >= a:
            if label == b:
                label = int(c)
            elif label == c:
                label = int(b)
        elif kind == ROTATE and uniform(seed, round, STREAM + 2 * i) < (round - a) / b:
            label = (label - 1) % labels
    return label


@inline
def noisy(link, round, label, labels):
    """The true label after label noise."""
    for i in range(len(link.steps)):
        kind, p = link.steps[i, 0], link.steps[i, 1]
        if kind in (NOISE_OTHERS, NOISE_ALL) and uniform(link.seed, round, STREAM + 2 * i) < p:
            u = uniform(link.seed, round, STREAM + 2 * i + 1)
            if kind == NOISE_ALL:
                label = int(u * labels)
            else:
                label = (label + 1 + int(u * (labels - 1))) % labels
    return label


@inline
def heard(link, round, right):
    """Right (1) or wrong (0) after flips and silence: 1, 0 or UNHEARD."""
    answer = right
    for i in range(len(link.steps)):
        kind, a, b = link.steps[i, 0], link.steps[i, 1], link.steps[i, 2]
        u = uniform(link.seed, round, STREAM + 2 * i)
        if kind == FLIP and u < (b if answer == 1 else a):
            answer = 1 - answer
        if kind == SILENCE and u < (a if answer == 1 else b):
            return UNHEARD
    return answer


@inline
def understood(link, round, answer):
    """How the learner interprets the feedback: 1, 0, UNHEARD or LEFT_OUT."""
    if answer == UNHEARD:
        return 0 if link.hearing.silence_is_wrong else UNHEARD
    return answer if is_taken(link.hearing, link.seed, round, answer == 1) else LEFT_OUT


@inline
def delay_of(link, round, t):
    """After how many rounds the feedback on a round comes; t counts from the start of the run."""
    if link.mean > 0.0:
        u = uniform(link.seed, round, DELAY_STREAM)
        waited = math.log(1.0 - u) / math.log(link.mean / (1.0 + link.mean))
        return min(int(waited), link.longest)
    if len(link.given):
        return link.given[t]
    return link.fixed


class Channel:
    """The channel to one learner, round by round.

        channel = Channel([Flip(0.2, 0.4), Silence(0.3), Delay(50)], seed=7)
        decision = learner.decide(x)
        channel.tell(learner, decision, label=y)

    `tell` passes on the feedback that arrives now, of this round and of earlier ones.
    """

    def __init__(self, steps: Iterable[ChannelStep] | ChannelStep, *, seed: int = 0) -> None:
        self._link = link(steps, whole("seed", seed, least=0, most=2**63 - 1))
        self._kinds = {int(kind) for kind in self._link.steps[:, 0]}
        self._waiting: list[tuple[int, int, Decision, Any]] = []
        self._time = 0

    def tell(
        self,
        learner: Learner,
        decision: Decision,
        *,
        right: bool | None = None,
        label: str | int | None = None,
    ) -> None:
        """Send the truth about a decision: right or wrong, or the true label."""
        if not hasattr(learner, "learn"):
            raise TypeError(f"tell needs the learner, then its decision, not {shown(learner)}")
        known = learner.label_set
        check(self._link, learner)
        check_delays(self._link, self._time + 1)
        checked_decision(decision, learner)  # now, not when it is heard in the turn of another
        if label is None:
            if self._kinds & {SWAP, ROTATE, NOISE_OTHERS, NOISE_ALL}:
                raise ValueError("label noise and drift need the true label: label=...")
            if right is None:
                raise TypeError("pass right=True, right=False or label=...")
            right = bit("right", right)
            place = -1
        else:
            place = plain(drifted)(self._link, decision.round, known.place(label), len(known))
            place = plain(noisy)(self._link, decision.round, place, len(known))
            right = place == decision.place
        answer = plain(heard)(self._link, decision.round, int(bool(right)))
        feedback: dict[str, Any] = {"right": answer == 1}
        if answer == UNHEARD:
            feedback = {"silence": True}
        elif learner.full_information and place >= 0:
            feedback = {"label": known.names[place]}
        if answer != UNHEARD or learner.hearing.silence_is_wrong:
            wait = int(plain(delay_of)(self._link, decision.round, self._time))
            heapq.heappush(self._waiting, (self._time + wait, self._time, decision, feedback))
        while self._waiting and self._waiting[0][0] <= self._time:
            _, _, late, feedback = heapq.heappop(self._waiting)
            learner.learn(late, **feedback)
        self._time += 1

    def __len__(self) -> int:
        """How many answers are still on their way."""
        return len(self._waiting)
