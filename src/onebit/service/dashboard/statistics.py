"""Statistics: how a model does, as numbers of its journal.

`Statistics` keeps a running summary of the events up to a position. `refresh` adds the events after
it, which costs as much as there are new events. The size of the summary depends on the number of
labels, not on the number of rounds. Counts come from SQL aggregates, over pieces of the journal, so
that a long journal can be read a bit at a time.

A change of the past (a revised answer, a cancelled decision) makes the summary go back to a copy of
itself from before the change, and read on from there.

Silence that was read as wrong is not an answer here: it is counted by itself.
"""

from __future__ import annotations

import copy
import math
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence

from msgspec import Struct

from onebit.feedback.drift import DriftAlarm
from onebit.service.faults import UnknownModel
from onebit.service.journal import Journal
from onebit.service.journal.summary import Moment, at_one_moment
from onebit.service.messages import Label

BINS = 128  # of rounds, at least, once there are as many rounds; at most twice as many
PIECE = 20_000  # positions of the journal that are read at once
KEPT_EVERY = 100_000  # positions between two copies of the summary
KEPT = 8  # copies at most
RECENT = (50, 1000)  # answers of the error "lately": the last fifth, at least and at most so many
LAST = 20  # decisions that are shown
DELAYS = tuple(10 ** (k / 4) for k in range(-12, 33))  # seconds: 1 ms to about 3 years
_CONFIDENCE = 1.959964  # normal quantile of a 95 % interval


def share(part: int, total: int) -> float | None:
    return part / total if total else None


def interval(count: int, total: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share."""
    if not total:
        return 0.0, 1.0
    found, z = count / total, _CONFIDENCE
    middle = found + z * z / (2 * total)
    margin = z * math.sqrt(found * (1 - found) / total + z * z / (4 * total * total))
    scale = 1 + z * z / total
    low = 0.0 if not count else (middle - margin) / scale
    return low, 1.0 if count == total else (middle + margin) / scale


class Counts(Struct):
    """What happened to some rounds."""

    decisions: int = 0
    explored: int = 0
    answered: int = 0
    wrong: int = 0
    silences: int = 0  # read as wrong

    def add(self, other: Counts) -> None:
        self.decisions += other.decisions
        self.explored += other.explored
        self.answered += other.answered
        self.wrong += other.wrong
        self.silences += other.silences

    @property
    def right(self) -> int:
        return self.answered - self.wrong

    @property
    def waiting(self) -> int:
        """Rounds that nobody has answered, and whose silence was not read as wrong."""
        return self.decisions - self.answered - self.silences

    @property
    def error(self) -> float | None:
        return share(self.wrong, self.answered)

    @property
    def error_interval(self) -> tuple[float, float]:
        return interval(self.wrong, self.answered)

    @property
    def accuracy(self) -> float | None:
        return share(self.right, self.answered)

    @property
    def accuracy_interval(self) -> tuple[float, float]:
        return interval(self.right, self.answered)

    @property
    def explored_share(self) -> float | None:
        return share(self.explored, self.decisions)

    @property
    def answered_share(self) -> float | None:
        return share(self.answered, self.decisions)

    @property
    def silent_share(self) -> float | None:
        return share(self.decisions - self.answered, self.decisions)


def sum_of(parts: Iterable[Counts]) -> Counts:
    total = Counts()
    for counts in parts:
        total.add(counts)
    return total


class Stretch(Counts):
    """Rounds that follow each other, and when they were decided."""

    first: int | float = math.inf  # rounds
    last: int = 0
    begin: float = math.inf  # times
    end: float = 0.0

    def join(self, other: Stretch) -> None:
        self.add(other)
        self.first, self.last = min(self.first, other.first), max(self.last, other.last)
        self.begin, self.end = min(self.begin, other.begin), max(self.end, other.end)


class LabelCounts(Counts):
    """What happened to the rounds in which a label was said."""

    label: Label = ""
    named: int = 0  # how often feedback named it as the true one


class Alarm(Struct, frozen=True):
    """When right answers had become rarer."""

    round: int  # of the decision whose answer made the alarm ring
    time: float
    answers: int  # heard since the start


class Delay(Struct, frozen=True):
    """How many answers came after a time between two bounds, in seconds."""

    low: float
    high: float
    answers: int


class _Summary:
    """The events of a model up to a position, counted."""

    def __init__(self, base: int) -> None:
        self.base = self.reached = base  # positions: events up to the base are not in the journal
        self.origin, self.width = 0, 1  # the first round, and how many rounds a bin has
        self.bins: dict[int, Stretch] = {}
        self.labels: dict[Label, LabelCounts] = {}
        self.delays = [0] * (len(DELAYS) + 1)
        self.smallest_propensity = 1.0
        self.alarm, self.alarms, self.heard = DriftAlarm(), list[Alarm](), 0
        self.lately: deque[bool] = deque(maxlen=RECENT[1])
        self.last: deque[int] = deque(maxlen=LAST)  # positions of decisions

    def read(self, moment: Moment, model: int, until: int) -> None:
        """Add the events up to a position."""
        piece = moment.piece(model, self.reached, until, self.base)
        if not self.bins:
            self.origin = piece.first_round() or 0
        bins = self.origin, self.width
        for bin, label, count, explored, smallest, *extent in piece.decisions(*bins):
            self._bin(bin).join(Stretch(count, explored, 0, 0, 0, *extent))
            self._label(label).add(Counts(count, explored))
            self.smallest_propensity = min(self.smallest_propensity, smallest)
        for bin, label, is_silence, count, right in piece.answers(*bins):
            heard = Counts(answered=count, wrong=count - right)
            for counts in (self._bin(bin), self._label(label)):
                counts.add(Counts(silences=count) if is_silence else heard)
        for bin, count in piece.delays(DELAYS):
            self.delays[bin] += count
        for label, count in piece.named():
            self._label(label).named += count
        for right, round, at in piece.bits():
            self.heard += 1
            self.lately.append(bool(right))
            if self.alarm.hear(bool(right)):
                self.alarms.append(Alarm(round, at, self.heard))
        self.last.extend(reversed(piece.newest(LAST)))
        self.reached = until
        while self.bins and max(self.bins) >= 2 * BINS:
            self._widen()

    def _bin(self, number: int) -> Stretch:
        return self.bins.setdefault(number, Stretch())

    def _label(self, label: Label) -> LabelCounts:
        return self.labels.setdefault(label, LabelCounts(label=label))

    def _widen(self) -> None:
        """Join each pair of bins."""
        narrow, self.bins = self.bins, {}
        self.width *= 2
        for number, stretch in narrow.items():
            self._bin(number // 2).join(stretch)


class Statistics:
    """The statistics of one model of a journal. Several threads may share it."""

    def __init__(self, journal: Journal, model: str) -> None:
        self.journal, self.model = journal, model
        self._lock = threading.Lock()
        number = journal.models().get(model)
        if number is None:
            raise UnknownModel(f"there is no model {model!r} in {journal.path}")
        self.number = number
        self.end = 0  # the last position of the journal, when it was looked at
        self._edit = 0  # the last change of the past that is known
        self._summary: _Summary | None = None
        self._kept: list[_Summary] = []  # copies, from the earliest to the latest

    def refresh(self, seconds: float = 0.5) -> bool:
        """Read what is new, for about so long. Returns whether all has been read."""
        deadline = time.perf_counter() + seconds
        with self._lock, at_one_moment(self.journal) as moment:
            self.end = moment.last_position()
            summary = self._start(moment)
            while summary.reached < self.end:
                summary.read(moment, self.number, min(summary.reached + PIECE, self.end))
                self._keep(summary)
                if time.perf_counter() > deadline:
                    break
            return summary.reached >= self.end

    @property
    def read_share(self) -> float:
        """How much of the journal has been read."""
        summary = self._summary
        if summary is None or self.end <= summary.base:
            return 1.0
        return (summary.reached - summary.base) / (self.end - summary.base)

    def _start(self, moment: Moment) -> _Summary:
        """The newest summary that knows no event that has changed since."""
        first = moment.base_position(self.number)
        edit, affects = moment.changes_of_the_past(self.number, self._edit)
        current = self._summary
        if edit is not None:
            self._edit = edit
        before = self.end + 1 if affects is None else affects
        if current is not None and first <= current.reached < before:
            return current
        self._kept = [kept for kept in self._kept if first <= kept.reached < before]
        self._summary = copy.deepcopy(self._kept[-1]) if self._kept else _Summary(first)
        return self._summary

    def _keep(self, summary: _Summary) -> None:
        """Keep a copy now and then; of the older copies, every second goes if there are many."""
        last = self._kept[-1].reached if self._kept else summary.base
        if summary.reached - last >= KEPT_EVERY:
            self._kept.append(copy.deepcopy(summary))
            if len(self._kept) > KEPT:
                del self._kept[:-2:2]

    def report(self) -> Report:
        """The statistics as they were read."""
        with self._lock:
            summary = self._summary or _Summary(0)
            bounds = (0.0, *DELAYS, math.inf)
            lately = list(summary.lately)[-max(RECENT[0], min(summary.heard // 5, RECENT[1])) :]
            return Report(
                model=self.model,
                position=summary.reached,
                end=max(self.end, summary.reached),
                base=summary.base,
                read_share=self.read_share,
                total=sum_of(summary.bins.values()),
                lately=Counts(answered=len(lately), wrong=lately.count(False)),
                smallest_propensity=summary.smallest_propensity,
                stretches=[copy.copy(summary.bins[number]) for number in sorted(summary.bins)],
                labels=sorted(
                    map(copy.copy, summary.labels.values()),
                    key=lambda counts: (-counts.decisions, str(counts.label)),
                ),
                delays=[
                    Delay(bounds[i], bounds[i + 1], count) for i, count in enumerate(summary.delays)
                ],
                alarms=list(summary.alarms),
                last=list(reversed(summary.last)),
            )


class Report(Struct):
    """The statistics of a model at a position of its journal."""

    model: str
    position: int
    end: int  # the last position of the journal
    base: int  # events up to this position were compacted, and are not counted
    read_share: float  # how much of the journal has been read
    total: Counts
    lately: Counts  # of the last answers alone
    smallest_propensity: float
    stretches: list[Stretch]
    labels: list[LabelCounts]  # the most frequent first
    delays: list[Delay]
    alarms: list[Alarm]
    last: list[int]  # positions of the newest decisions, the newest first

    def quantile(self, part: float) -> float | None:
        """A delay that this part of the answers does not exceed, about; None without answers."""
        total = sum(delay.answers for delay in self.delays)
        wanted, before = part * total, 0
        for delay in self.delays:
            if delay.answers and before + delay.answers >= wanted:
                low, high = max(delay.low, DELAYS[0] / 2), min(delay.high, 2 * DELAYS[-1])
                return low * (high / low) ** ((wanted - before) / delay.answers)
            before += delay.answers
        return None


def joined(stretches: Sequence[Stretch], most: int) -> list[Stretch]:
    """The same rounds in at most so many stretches, of equal numbers of bins.

    A last stretch with few rounds is joined to the one before it: its shares would say little.
    """
    at_once = math.ceil(len(stretches) / most)
    together: list[Stretch] = []
    for i, stretch in enumerate(stretches):
        if i % at_once:
            together[-1].join(stretch)
        else:
            together.append(copy.copy(stretch))
    if len(together) > 1 and 2 * together[-1].decisions < together[-2].decisions:
        short = together.pop()
        together[-1].join(short)
    return together
