"""evaluate and compare: what a log says about a policy, and about the difference of two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np

from onebit.algorithms import OneBit
from onebit.core.extras import optional_module
from onebit.core.settings import choice_of, flag, real, shown, whole
from onebit.evidence.estimators import Rounds, World
from onebit.evidence.evaluation import Evaluation, added, impossible
from onebit.evidence.log import Log
from onebit.evidence.policies import Policy, policy_of
from onebit.evidence.replaying import learn_block
from onebit.evidence.rows import RIGHT, UNANSWERED, WRONG, LogBlock, part_of
from onebit.evidence.sums import Policies, Question, Sums, add_rounds
from onebit.learner.labels import LabelSet
from onebit.learner.learner import Learner
from onebit.learner.looking import as_chances

_NUMBERS = 2**21  # of a matrix [row, label]
Silence = Literal["nothing", "wrong", "unknown"]
_WORLDS: dict[Any, World] = {
    True: "exclusive",
    False: "independent",
    "at most one": "at most one",
}


def evaluate(
    log: Log,
    policy: Any = None,
    *,
    exclusive: bool | Literal["at most one"] = True,
    learns: bool = False,
    drifts: bool = True,
    alpha: float = 0.05,
    silence: Silence = "nothing",
    flips: tuple[float, float] = (0.0, 0.0),
    forecaster: Learner | None = None,
    workers: int = 1,
) -> Evaluation:
    """What share of labels would have been right, had a policy spoken in the rounds of a log.

    policy: a learner, as it is now; a function of a context that returns a label, or a dict or list
    of probabilities; a label, which is always said; or None: the logger itself.
    exclusive: whether exactly one label is right in each round (True), at most one ("at most one"),
    or each label by itself (False), as with clicks.
    learns: a learner goes on learning from the log: it is judged by each round, then taught by it.
    drifts: False says that the value of the policy stays the same in all rounds, which makes the
    interval narrower. alpha: the chance that the interval ever misses.
    silence: a round without an answer says "nothing" about it and is left out; or it means "wrong";
    or, if its absence may depend on the answer, the answer is "unknown" and only a bracket is
    possible. flips: how often wrong is heard as right, and right as wrong.
    forecaster: a learner whose forecasts make estimates more precise, whether or not they are good;
    it learns from the log. Default: OneBit.
    workers: how many files of a log are evaluated at once, by joblib.
    """
    return _judge(
        _asked(log, (policy,), exclusive, learns, drifts, alpha, silence, flips, forecaster),
        log,
        workers,
    )


def compare(
    log: Log,
    policy: Any,
    other: Any = None,
    *,
    exclusive: bool | Literal["at most one"] = True,
    learns: bool = False,
    drifts: bool = True,
    alpha: float = 0.05,
    silence: Silence = "nothing",
    flips: tuple[float, float] = (0.0, 0.0),
    forecaster: Learner | None = None,
    workers: int = 1,
) -> Evaluation:
    """By how much more a policy would have been right than another one, or than the logger (None).

    The difference is estimated directly: rounds in which both say the same count as 0. The
    arguments are those of `evaluate`.
    """
    policies = (policy, other)
    return _judge(
        _asked(log, policies, exclusive, learns, drifts, alpha, silence, flips, forecaster),
        log,
        workers,
    )


def replay(learner: Learner, log: Log) -> Learner:
    """Let a learner learn from a log: from what somebody else said, and whether it was right.

    Each row counts as a round, as with `learn_logged`, and so do rows without an answer. Learners
    that weight by 1 / propensity need the propensities of the log; others do not use them. Returns
    the learner.
    """
    _check_log(log)
    if not isinstance(learner, Learner):
        raise TypeError(
            f"replay needs a learner, such as OneBit(labels=log.labels), not {learner!r}"
        )
    for block in log.blocks(learner.labels):
        learn_block(learner, block)
    return learner


def _check_log(log: Any) -> None:
    if not isinstance(log, Log):
        raise TypeError(f'a log is needed, such as onebit.Log("rounds.csv"), not {log!r}')


class _Asked(NamedTuple):
    """What is asked of a log, checked."""

    policies: tuple[Policy, ...]
    labels: LabelSet
    question: Question
    drifts: bool
    alpha: float
    silence: Silence
    forecaster: Learner


def _asked(
    log: Log,
    given: tuple[Any, ...],
    exclusive: Any,
    learns: bool,
    drifts: bool,
    alpha: float,
    silence: Silence,
    flips: tuple[float, float],
    forecaster: Learner | None,
) -> _Asked:
    _check_log(log)
    if exclusive not in _WORLDS:
        raise ValueError(f"exclusive must be True, False or 'at most one', not {exclusive!r}")
    choice_of("silence", silence, ("nothing", "wrong", "unknown"))
    rates = _rates(flips)
    learners = [policy for policy in given if isinstance(policy, Learner)]
    labels = LabelSet(learners[0].labels if learners else log.labels)
    policies = tuple(policy_of(policy, labels, flag("learns", learns)) for policy in given)
    is_difference = len(policies) == 2
    if is_difference and policies[0].is_logger:
        raise ValueError("compare needs a policy first: compare(log, policy) is with the logger")
    forecaster = OneBit(labels.names) if forecaster is None else forecaster
    if not isinstance(forecaster, Learner):
        raise TypeError(f"forecaster must be a learner, not {shown(forecaster)}")
    if forecaster.labels != labels.names:
        raise ValueError("the forecaster must have the labels of the log, in the same order")
    question = Question(
        labels=len(labels),
        world=_WORLDS[exclusive],
        is_difference=is_difference,
        against_logger=is_difference and policies[1].is_logger,
        flips=rates,
    )
    drifts = flag("drifts", drifts) or any(policy.learns for policy in policies)
    alpha = real("alpha", alpha, above=0, below=1)
    return _Asked(policies, labels, question, drifts, alpha, silence, forecaster)


def _rates(flips: Any) -> tuple[float, float]:
    """How often wrong is heard as right, and right as wrong."""
    if not isinstance(flips, list | tuple) or len(flips) != 2:
        raise TypeError(f"flips are two chances, such as (0.1, 0.05), not {shown(flips)}")
    first, second = (real("flips", rate, least=0, below=1) for rate in flips)
    if first + second >= 1:
        raise ValueError(f"flips are two chances whose sum is below 1, not {flips!r}")
    return first, second


def _judge(asked: _Asked, log: Log, workers: int) -> Evaluation:
    is_progressive = any(policy.learns for policy in asked.policies)
    if whole("workers", workers, least=1, most=10_000) > 1 and is_progressive:
        raise ValueError("a policy that learns needs the rounds in order: leave out workers")
    parts = [log] if is_progressive else log.parts()
    if workers == 1 or len(parts) == 1:
        return added([_judge_part(asked, part) for part in parts])
    joblib = optional_module("joblib", "joblib", "several workers need")
    judge = joblib.delayed(_judge_part)
    return added(joblib.Parallel(n_jobs=workers)(judge(asked, part) for part in parts))


def _judge_part(asked: _Asked, log: Log) -> Evaluation:
    """The evaluation of a part of a log by itself."""
    asked = asked._replace(forecaster=asked.forecaster.copy())
    sums, points, first = Sums.none(asked.question), [], 0
    due = _check_points()
    point = next(due)
    for block in _small_blocks(log, asked.labels):
        block = _heard(block, asked.silence)
        rounds, policies = _rounds(asked, block), _policies(asked, block, first)
        first += block.size
        kept = np.arange(block.size)
        if asked.silence == "nothing":
            kept = np.flatnonzero(block.right != UNANSWERED)
            sums = sums._replace(left_out=sums.left_out + block.size - len(kept))
        while len(kept):
            now, kept = kept[: point - sums.rounds], kept[point - sums.rounds :]
            answered = block.right[now] != UNANSWERED
            sums = add_rounds(sums, asked.question, rounds.part(now), policies.part(now), answered)
            if sums.rounds == point:
                points.append(sums)
                point = next(due)
            if impossible(sums):
                raise ValueError(
                    f"{log!r}, row {block.lines[now[-1]]}: the labels up to here cannot have been "
                    "said with these propensities; log the probabilities of the time of the "
                    "decision, or leave out their column to get a bracket"
                )
    if not points or points[-1].rounds != sums.rounds:
        points.append(sums)
    names = tuple(policy.name for policy in asked.policies)
    return Evaluation(names, asked.question, sums, asked.alpha, asked.drifts, tuple(points))


def _small_blocks(log: Log, labels: LabelSet) -> Iterator[LogBlock]:
    """The blocks of a log, cut so that a matrix [row, label] takes little memory."""
    rows = max(_NUMBERS // len(labels), 1)
    for block in log.blocks(labels.names):
        for start in range(0, block.size, rows):
            yield part_of(block, start, start + rows) if rows < block.size else block


def _check_points() -> Iterator[int]:
    """10, 20, 50, 100, ..."""
    power = 10
    while True:
        yield from (power, 2 * power, 5 * power)
        power *= 10


def _heard(block: LogBlock, silence: Silence) -> LogBlock:
    if silence != "wrong":
        return block
    return block._replace(right=np.where(block.right == UNANSWERED, WRONG, block.right))


def _rounds(asked: _Asked, block: LogBlock) -> Rounds:
    labels = asked.question.labels
    propensity, all_of_them = block.propensity, block.all_propensities(labels)
    if asked.policies[0].is_logger:  # what it said, it said: its answers are the estimate
        propensity, all_of_them = np.ones(block.size), _said(block, labels)
    right = (block.right == RIGHT).astype(float)
    return Rounds(block.said, right, block.truth, propensity, all_of_them, block.allowed)


def _said(block: LogBlock, labels: int) -> np.ndarray:
    made = np.zeros((block.size, labels))
    made[np.arange(block.size), block.said] = 1.0
    return made


def _policies(asked: _Asked, block: LogBlock, first: int) -> Policies:
    """The probabilities of the policies, and the forecasts, in the rows of a block."""
    if asked.policies[0].is_logger:
        said = _said(block, asked.question.labels)
        return Policies(said, None, np.zeros_like(said))
    made = [p.probabilities(block, first) for p in asked.policies if not p.is_logger]
    forecasts = _forecasts(asked.forecaster, block, asked.question)
    return Policies(made[0], made[1] if len(made) > 1 else None, forecasts)


def _forecasts(forecaster: Learner, block: LogBlock, question: Question) -> np.ndarray:
    """The chance of each label to be heard as right. It is told before the row is learned."""
    if np.isnan(block.propensity).all():  # there is no estimate that could use it
        return np.zeros((block.size, question.labels))
    possible = block.allowed if len(block.allowed) else np.ones((1, question.labels), bool)
    scores = learn_block(forecaster, block, tells=True).scores
    return expected_right(forecaster, scores, possible, question)


def expected_right(
    learner: Learner, scores: np.ndarray, possible: np.ndarray, question: Question
) -> np.ndarray:
    """The chance of each label to be heard as right, [row, label], by the scores of a learner.

    Scores that are no estimates of chances say nothing. possible: which labels were.
    """
    chances = np.full_like(scores, 0.5, np.float64)
    if learner.chance_line is not None:
        chances = np.nan_to_num(as_chances(learner, scores), nan=1 / question.labels)
    chances = chances * possible
    if question.world != "exclusive":
        return chances
    wanted, totals = question.totals(possible)[:, None], chances.sum(axis=1, keepdims=True)
    even = np.where(possible, wanted / possible.sum(axis=1, keepdims=True), 0.0)
    even = np.broadcast_to(even, chances.shape).copy()
    return np.divide(wanted * chances, totals, out=even, where=totals > 0).clip(0, 1)
