"""A shadow: a learner beside the one that speaks, taught by the same answers, never asked.

It is built from the journal alone, as a learner of another version is (`Builder`): from a snapshot
or from the beginning. So it is the same whether it went along or was built later.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from onebit.evidence.judging import expected_right
from onebit.evidence.replaying import learn_block, tell_block
from onebit.evidence.rows import NOBODY, RIGHT, WRONG, LogBlock
from onebit.learner import files
from onebit.learner.learner import Learner
from onebit.service import snapshots
from onebit.service.engine.building import (
    Builder,
    Code,
    code_of,
    is_weighable,
    recorded_code,
    was_right,
)
from onebit.service.engine.comparing import Comparison, Judged, Speaker, sums_digest
from onebit.service.engine.state import Past
from onebit.service.journal import Answered, DecisionRow, Journal, labels_at

BLOCK = 64  # answers that are learned by one call
_decode = msgspec.json.Decoder().decode


class LabelsThen:
    """The labels of any version at any position."""

    def __init__(self, journal: Journal, model: int) -> None:
        self._versions = journal.first_labels()
        self._events = [event for event in journal.label_events() if event.model == model]
        self._positions = [event.position for event in self._events]
        self._known: dict[tuple[int, int], list[Any]] = {}

    def __call__(self, row: DecisionRow) -> list[Any]:
        """Those that were possible in a decision."""
        if row.among is not None:
            return _decode(row.among)
        key = (row.configuration, bisect_left(self._positions, row.position))
        if key not in self._known:
            self._known[key] = labels_at(self._versions, self._events, key[0], row.position)
        return self._known[key]


class _Lesson(NamedTuple):
    """An answer, as it judges and teaches a shadow."""

    event: Answered
    context: Any
    right: bool
    label: Any
    is_compared: bool


class Shadow:
    """The learner of a shadow, and its comparison with who speaks.

    Lock: all methods are called with the lock of the shadows. `comparison` never changes in place,
    so that it is read without it, as are single values.

    problem: why it does not learn any more; empty: it does.
    """

    learner: Learner
    comparison: Comparison
    past: Past

    def __init__(self, name: str, builder: Builder, journal: Journal, model: int) -> None:
        self.name, self.builder, self.problem = name, builder, ""
        self._journal, self._model = journal, model
        self.reached, self.saved, self.has_started = 0, 0, False
        self._lessons: list[_Lesson] = []

    @property
    def version(self) -> int:
        return self.builder.version.number

    def take_on(self, learner: Learner, reached: int, comparison: Comparison, past: Past) -> None:
        """Go on with a learner that has learned all up to a position."""
        self.learner, self.reached, self.comparison, self.past = learner, reached, comparison, past
        self.saved, self.has_started, self._lessons = reached, True, []

    # Starting.

    def start(self, folder: Path, model: str, speaker: Speaker, exclusive: Any, past: Past) -> None:
        """Begin with the newest snapshot that knows the comparison, or with no event at all."""
        first_round = self._journal.first_round_of(self._model, *speaker)
        base = self.builder.base_position()
        for snapshot in snapshots.found(folder, model):
            fits = snapshot.version == self.version and snapshot.position >= base
            if not (fits and snapshots.is_current(self._journal, self._model, snapshot)):
                continue
            saved = snapshots.read(snapshot)
            if saved is None or not self._is_of_this_code(saved.beside):
                continue
            comparison = self._kept(saved, speaker, exclusive)
            if comparison is None and (first_round is None or snapshot.position < first_round):
                comparison = Comparison.none(speaker, len(saved.learner.labels), exclusive)
            if comparison is not None:
                self.take_on(saved.learner, snapshot.position, comparison, past)
                return
        learner, reached = self.builder.beginning()
        self.take_on(
            learner, reached, Comparison.none(speaker, len(learner.labels), exclusive), past
        )

    def _kept(self, saved: Any, speaker: Speaker, exclusive: Any) -> Comparison | None:
        """The comparison in a snapshot, if it is the one that is wanted."""
        if saved.beside is None:
            return None
        found = Comparison.restored(saved.beside, saved.arrays)
        wanted = Comparison.none(speaker, found.question.labels, exclusive)
        is_same = (found.speaker, found.question) == (speaker, wanted.question)
        return found if is_same else None

    def _is_of_this_code(self, beside: Mapping[str, Any] | None) -> bool:
        """Whether the code that runs now has made a snapshot."""
        version = self.builder.version
        now = code_of(version.body)
        if beside is None:  # it is of the time when this learner spoke
            return now.same_bits(recorded_code(self._journal, self._model, version))
        return now.same_bits(Code(*beside["code"])) and beside["sums"] == sums_digest()

    def dumped(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The learner and the comparison, as a snapshot has them."""
        head, arrays = files.dump(self.learner)
        beside, further = self.comparison.dumped()
        code = {"code": code_of(self.builder.version.body), "sums": sums_digest()}
        return head | {snapshots.BESIDE: beside | code}, arrays | further

    # Learning.

    def compare_with(self, speaker: Speaker, exclusive: Any) -> None:
        """Who speaks may have changed: then the comparison begins anew."""
        labels = len(self.learner.labels)
        wanted = Comparison.none(speaker, labels, exclusive)
        same = (self.comparison.speaker, self.comparison.question.world)
        if same != (wanted.speaker, wanted.question.world):
            self.comparison = wanted

    def learn(self, until: int, labels_then: LabelsThen) -> None:
        """Learn the events up to a position."""
        for event in self._journal.history(self._model, self.reached, until):
            if isinstance(event, Answered) and not self.builder.made(event.decision):
                self._hear(event)
            elif not isinstance(event, DecisionRow) or self.builder.made(event):
                self._learn_lessons(labels_then)
                self.learner, _ = self.builder.take(self.learner, event)
                self.comparison = self.comparison.widened(len(self.learner.labels))
            if len(self._lessons) == BLOCK:
                self._learn_lessons(labels_then)
        self._learn_lessons(labels_then)
        self.reached = until

    def _hear(self, event: Answered) -> None:
        answer, row = event
        is_known = row.label in self.learner.label_set.names
        counts = self.builder.counts(answer) and is_known
        self._lessons.append(
            _Lesson(
                event,
                self.builder.context_of(row),
                was_right(answer, row),
                answer.label,
                counts and self.comparison.speaker.made(row),
            )
        )

    def _learn_lessons(self, labels_then: LabelsThen) -> None:
        lessons, self._lessons = self._lessons, []
        for are_plain, part in _runs(lessons, self._is_plain):
            if are_plain:
                block = self._block(part, labels_then)
                told = learn_block(self.learner, block, tells=True)
                self._compare(part, block, told)
                continue
            for lesson in part:
                if lesson.is_compared:
                    block = self._block([lesson], labels_then)
                    self._compare([lesson], block, tell_block(self.learner, block, 0))
                answer, row = lesson.event
                self.builder.apply(self.learner, answer, row, None)

    def _is_plain(self, lesson: _Lesson) -> Any:
        """Whether an answer can be learned with others by one call, and with which."""
        learner, (answer, row) = self.learner, lesson.event
        names = learner.label_set.names
        is_plain = (
            self.builder.counts(answer)
            and row.label in names
            and (answer.label is None or answer.label in names)
            and is_weighable(learner, row.propensity)
            and not (learner.full_information and answer.label is None)
        )
        context = lesson.context
        return (type(context), len(context) * isinstance(context, list)) if is_plain else None

    def _block(self, lessons: Sequence[_Lesson], labels_then: LabelsThen) -> LogBlock:
        """Answers as rows of a log, with the labels of this learner."""
        names = self.learner.label_set
        places = {label: place for place, label in enumerate(names.names)}
        count, size = len(places), len(lessons)
        propensities = np.full((size, count), np.nan)
        allowed = np.zeros((size, count), bool)
        for i, lesson in enumerate(lessons):
            row = lesson.event.decision
            possible = [places[label] for label in labels_then(row) if label in places]
            allowed[i, possible] = True
            allowed[i, places[row.label]] = True
            if row.propensities is not None:
                propensities[i] = 0.0
                propensities[i, possible] = _decode(row.propensities)[: len(possible)]
        rows = [lesson.event.decision for lesson in lessons]
        return LogBlock(
            contexts=[lesson.context for lesson in lessons],
            said=np.array([places[row.label] for row in rows], np.int64),
            right=np.array([RIGHT if x.right else WRONG for x in lessons], np.int64),
            truth=np.array([places.get(x.label, NOBODY) for x in lessons], np.int64),
            propensity=np.array([row.propensity or np.nan for row in rows]),
            propensities=propensities,
            allowed=np.zeros((0, count), bool) if allowed.all() else allowed,
            lines=np.array([row.position for row in rows]),
            times=np.zeros(0),
            sources=(),
        )

    def _compare(self, lessons: Sequence[_Lesson], block: LogBlock, told: Any) -> None:
        """Judge the shadow by what it would have said, as it was before each answer."""
        chosen = [i for i, lesson in enumerate(lessons) if lesson.is_compared]
        if not chosen:
            return
        count = len(self.learner.labels)
        allowed = block.allowed if len(block.allowed) else np.ones((block.size, count), bool)
        question = self.comparison.question
        judged = Judged(
            said=block.said,
            right=(block.right == RIGHT).astype(float),
            truth=block.truth,
            propensity=block.propensity,
            propensities=block.all_propensities(count),
            allowed=allowed,
            policy=told.propensities,
            forecasts=expected_right(self.learner, told.scores, allowed, question),
        )
        self.comparison = self.comparison.heard(judged.part(chosen))


def _runs(lessons: Iterable[_Lesson], kind_of: Any) -> Iterator[tuple[bool, list[_Lesson]]]:
    """Consecutive answers of the same kind; None is no kind: each is by itself."""
    part: list[_Lesson] = []
    kind = None
    for lesson in lessons:
        found = kind_of(lesson)
        if part and (found is None or found != kind):
            yield kind is not None, part
            part = []
        part.append(lesson)
        kind = found
    if part:
        yield kind is not None, part
