"""Comparing: a shadow beside whoever speaks, in sums that grow with each answer.

A round counts if the speaker has made its decision since it speaks. What is estimated is the
difference of right labels, shadow minus speaker (`evidence.sums`): each answer judges the shadow
before it teaches it. Sums depend on how rounds are cut into pieces, so the cuts are part of what is
kept: `PIECE` rounds are summed at once, and rounds wait until there are so many.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from onebit.core.sources import SOURCES
from onebit.evidence.estimators import Rounds, World
from onebit.evidence.evaluation import Evaluation
from onebit.evidence.intervals import Bets, Swings
from onebit.evidence.sums import BOUNDS, Policies, Question, Side, Sums, add_rounds
from onebit.service.journal import DecisionRow
from onebit.service.messages import Interval, ShadowPoint
from onebit.service.snapshots import BESIDE

PIECE = 64  # rounds
POINTS = 64  # of a curve at most: beyond it, every other one goes
ALPHA = 0.05  # the chance that an interval ever misses
OF_FILE = f"{BESIDE}."
WORLDS: dict[Any, World] = {True: "exclusive", False: "independent", "at most one": "at most one"}
_SIDES = ("low", "high", "bracket_low", "bracket_high")


def sums_digest() -> str:
    """What the sums of the same rounds depend on."""
    modules = {f"onebit.evidence.{name}" for name in ("sums", "estimators", "intervals")}
    return SOURCES.digest(modules) or ""


class Speaker(NamedTuple):
    """Whose decisions are compared. version: 0: another system's. since: the position from which on
    it speaks."""

    version: int
    since: int

    def made(self, row: DecisionRow) -> bool:
        if row.position <= self.since:
            return False
        if row.logged is not None:
            return self.version == 0
        return row.configuration == self.version


class Judged(NamedTuple):
    """Answered rounds of the speaker, and what the shadow would have said in them."""

    said: np.ndarray  # the place of the label
    right: np.ndarray  # 0 or 1
    truth: np.ndarray  # the place of the label that was named as right, or -1
    propensity: np.ndarray  # NaN: not known
    propensities: np.ndarray  # [round, label]; rows of NaN: not known
    allowed: np.ndarray  # [round, label], bool: which labels were possible
    policy: np.ndarray  # [round, label]: the probabilities of the shadow
    forecasts: np.ndarray  # [round, label]: chances to be right, as the shadow has them

    @classmethod
    def none(cls, labels: int) -> Judged:
        line, wide = np.zeros(0), np.zeros((0, labels))
        return cls(
            line.astype(np.int64), line, line.astype(np.int64), line, wide, wide.astype(bool),
            wide, wide,
        )  # fmt: skip

    def part(self, rows: Any) -> Judged:
        return Judged(*(column[rows] for column in self))

    def and_then(self, later: Judged) -> Judged:
        pairs = zip(self, later, strict=True)
        return Judged(*(np.concatenate(pair) for pair in pairs))

    def widened(self, labels: int) -> Judged:
        """For more labels: the new ones could not be said, and were not right."""
        unknown = np.isnan(self.propensities[:, :1])
        made = Judged(*(_wider(column, labels) if column.ndim == 2 else column for column in self))
        return made._replace(propensities=np.where(unknown, np.nan, made.propensities))


class Comparison(NamedTuple):
    """The sums of a shadow beside a speaker. It never changes: more rounds make another one."""

    speaker: Speaker
    question: Question
    sums: Sums
    waiting: Judged  # rounds that wait to be summed
    points: np.ndarray  # [point, (rounds, estimate or NaN, low, high)]
    stride: int  # rounds between two points

    @classmethod
    def none(cls, speaker: Speaker, labels: int, exclusive: Any) -> Comparison:
        question = Question(labels, WORLDS[exclusive], is_difference=True, against_logger=True)
        sums = Sums.none(question)
        return cls(speaker, question, sums, Judged.none(labels), np.zeros((0, 4)), PIECE)

    def begun(self, labels: int) -> Comparison:
        """The same question before any round, for so many labels."""
        exclusive = next(key for key, world in WORLDS.items() if world == self.question.world)
        return Comparison.none(self.speaker, labels, exclusive)

    def heard(self, judged: Judged) -> Comparison:
        """With further rounds."""
        made, left = self, self.waiting.and_then(judged)
        while len(left.said) >= PIECE:
            made = made._replace(sums=_summed(made, left.part(slice(PIECE))))
            left = left.part(slice(PIECE, None))
            if made.sums.rounds % made.stride == 0:
                made = made._with_point()
        return made._replace(waiting=left)

    def _with_point(self) -> Comparison:
        found = _evaluation(self.question, self.sums)
        estimate = np.nan if found.estimate is None else found.estimate
        points = np.vstack([self.points, [[found.rounds, estimate, *found.interval]]])
        if len(points) <= POINTS:
            return self._replace(points=points)
        return self._replace(points=points[1::2], stride=2 * self.stride)

    def widened(self, labels: int) -> Comparison:
        """For more labels."""
        if labels == self.question.labels:
            return self
        sums = self.sums._replace(
            times=_wider(self.sums.times, labels, axis=0),
            said=_wider(self.sums.said, labels, axis=0),
        )
        question = self.question._replace(labels=labels)
        return self._replace(question=question, sums=sums, waiting=self.waiting.widened(labels))

    def evaluation(self) -> Evaluation:
        """What all rounds say, also those that wait."""
        sums = _summed(self, self.waiting) if len(self.waiting.said) else self.sums
        return _evaluation(self.question, sums)

    def told(self) -> dict[str, Any]:
        """As a card of the shadow tells it (`ShadowCard`)."""
        found = self.evaluation()
        rounds = found.rounds
        return {
            "rounds": rounds,
            "speaker_right": found.sums.right / rounds if rounds else None,
            "difference": found.estimate,
            "interval": Interval(*found.interval),
            "bracket": Interval(*found.bracket) if rounds else None,
            "confidence": 1 - ALPHA,
            "notes": found.notes,
            "curve": [
                ShadowPoint(int(point[0]), None if np.isnan(point[1]) else point[1], *point[2:])
                for point in self.points.tolist()
            ],
        }

    # In a snapshot.

    def dumped(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The part of a snapshot's head, and arrays with names of their own."""
        head = {
            "version": self.speaker.version,
            "since": self.speaker.since,
            "labels": self.question.labels,
            "world": self.question.world,
            "stride": self.stride,
        }
        arrays = {"points": self.points}
        for name, column in zip(Judged._fields, self.waiting, strict=True):
            arrays[f"waiting.{name}"] = column.astype(np.float64)
        values: Any = zip(Sums._fields, self.sums, strict=True)
        for name, value in values:
            if name in _SIDES:
                for part, numbers in zip(Swings._fields, value.swings, strict=True):
                    arrays[f"{name}.{part}"] = np.asarray(numbers, np.float64)
            else:
                arrays[name] = np.asarray(value, np.float64)
        return head, {OF_FILE + name: array for name, array in arrays.items()}

    @classmethod
    def restored(cls, head: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Comparison:
        """The reverse of `dumped`."""
        kept = {name.removeprefix(OF_FILE): array for name, array in arrays.items()}
        exclusive = next(key for key, world in WORLDS.items() if world == head["world"])
        speaker = Speaker(head["version"], head["since"])
        made = cls.none(speaker, head["labels"], exclusive)
        columns = zip(Judged._fields, made.waiting, strict=True)
        waiting = Judged(*(kept[f"waiting.{name}"].astype(was.dtype) for name, was in columns))
        sums: dict[str, Any] = {}
        zeros: Any = zip(Sums._fields, made.sums, strict=True)
        for name, was in zeros:
            if name in _SIDES:
                parts = [kept[f"{name}.{part}"] for part in Swings._fields]
                sums[name] = was._replace(swings=Swings(int(parts[0]), *parts[1:]))
            else:
                sums[name] = type(was)(kept[name]) if isinstance(was, int | float) else kept[name]
        return made._replace(
            sums=Sums(**sums), waiting=waiting, points=kept["points"], stride=head["stride"]
        )


def _summed(before: Comparison, judged: Judged) -> Sums:
    rounds = Rounds(*judged[:6])
    policies = Policies(judged.policy, None, judged.forecasts)
    answered = np.ones(len(judged.said), bool)
    sums = add_rounds(before.sums, before.question, rounds, policies, answered)
    # A shadow that learns has no constant value, for which the counts of bets would be needed.
    return sums._replace(
        **{name: _without_bets(getattr(sums, name), name, before.question) for name in _SIDES}
    )


def _without_bets(side: Side, name: str, question: Question) -> Side:
    bounds = (question.bracket_bound,) if name.startswith("bracket") else BOUNDS
    return side._replace(bets=Bets.none(bounds))


def _evaluation(question: Question, sums: Sums) -> Evaluation:
    return Evaluation(("shadow", "speaker"), question, sums, ALPHA, True, (sums,))


def _wider(array: np.ndarray, labels: int, axis: int = 1) -> np.ndarray:
    """With zeros for labels that are new."""
    room = [(0, 0)] * array.ndim
    room[axis] = (0, labels - array.shape[axis])
    return np.pad(array, room)
