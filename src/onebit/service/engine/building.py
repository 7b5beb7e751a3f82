"""Building learners from the journal.

A version says how a learner is made: its class, its settings, or a saved learner to start from. A
builder makes the learner of one version, from a snapshot or from the beginning, by letting it learn
what the journal has after that. The engine applies each answer by the same function when it comes,
so that both give the same bits.

Decisions of the builder's own version are counted and learned as they were made. Those of other
versions and of other systems count when their answer comes, as what somebody else said
(`learn_logged`).

The same events give the same bytes only by the same code. So the journal records, for each version,
the code that has learned its events (`Code`): in the body of the version, and as a change of the
past whenever a service starts with other code.
"""

from __future__ import annotations

import hashlib
import logging
import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from onebit._version import __version__
from onebit.core.jit import COMPILED
from onebit.core.sources import SOURCES, is_own
from onebit.datasets import Steps, steps
from onebit.learner import files
from onebit.learner.copies import with_vocabulary
from onebit.learner.decision import Decision
from onebit.learner.labels import Kept
from onebit.learner.laying import add_label
from onebit.learner.learner import Learner
from onebit.learner.warming import REFUSED, play
from onebit.reading import contexts
from onebit.registry.lookup import learner_named
from onebit.service import snapshots
from onebit.service.configuration import Model
from onebit.service.faults import Contradiction, Damaged
from onebit.service.journal import (
    Answered,
    AnswerRow,
    ChangeRow,
    DecisionRow,
    Journal,
    Version,
)
from onebit.service.journal.queries import labels_since
from onebit.service.journal.relabelling import Relabelling
from onebit.storage.scales import STATISTICS

# A table takes at most so much memory unless `vocabulary` says otherwise, and has at most as many
# rows as there are columns for names.
MEMORY, MOST_NAMES = 2**28, 2**20
RULES = 2  # raise it when `Builder` learns the same events in another way
# Is told of each event that was learned: the learner, the position, whether it was a decision.
Watch = Callable[[Learner, int, bool], None]
_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode
log = logging.getLogger("onebit.service")


class Code(NamedTuple):
    """What a learner's bits depend on beside its events."""

    onebit: str  # the version of the package
    digest: str  # of the versions of the arithmetic, and of how events are learned

    def __str__(self) -> str:
        return f"onebit {self.onebit}, code {self.digest}"

    def same_bits(self, other: Code | None) -> bool:
        """Whether both make the same learner of the same events."""
        return other is not None and self.digest == other.digest


def code_of(body: Mapping[str, Any]) -> Code:
    """The code that runs now, for the learner of a version.

    The learners of this package declare the version of their arithmetic. Others are known by their
    sources, and by what these import.
    """
    kinds = learner_named(body["learner"]).__mro__
    bits = [kind.BITS for kind in kinds if "BITS" in vars(kind)]
    others = {kind.__module__ for kind in kinds if not is_own(kind.__module__)} - {"builtins"}
    # Without readable sources, the version has to do.
    sources = (SOURCES.digest(others) or __version__) if others else ""
    prepared = steps.BITS if body.get("prepare") else 0
    facts = repr((RULES, COMPILED, contexts.BITS, prepared, bits, sources))
    return Code(__version__, hashlib.sha256(facts.encode()).hexdigest()[:16])


def recorded_code(journal: Journal, number: int, version: Version) -> Code | None:
    """The code that has learned the events of a version so far; None: of an early journal."""
    noted = journal.last_change(number, "code") or {}
    found = noted if noted.get("version") == version.number else version.body
    return Code(*found["code"]) if "code" in found else None


class Builder:
    """Makes the learner of one version of a model.

    number: of the model in the journal. folder: of its snapshots. sources: the weights of sources
    of feedback, 1 where none is named; promotions: the positions from which on somebody else
    speaks; the engine changes both.
    """

    def __init__(
        self, journal: Journal, name: str, number: int, folder: Path, version: Version,
        sources: Mapping[str, float], promotions: Sequence[int],
    ) -> None:  # fmt: skip
        self.version = version
        self._journal, self._name, self._number, self._folder = journal, name, number, folder
        self.relabelling = Relabelling(version.body)
        self._promotions = promotions
        self._sources, self._steps = sources, Steps(version.body.get("prepare") or ())
        self._is_repaired = journal.note("repaired") is not None

    def prepared(self, context: Any) -> Any:
        """A context as the learner takes it."""
        context = readable(context)
        return self._steps(context) if self._steps.names else context

    def apply(
        self,
        learner: Learner,
        answer: AnswerRow,
        row: DecisionRow,
        decision: Decision | None,
    ) -> None:
        """Let a learner learn an answer, live or from the journal."""
        right, label = says(answer)
        said, known = row.label, learner.label_set.names
        if not self.made(row):
            heard = self.relabelling.heard(row.configuration, answer.time, said, right, label)
            said, right, label = heard or ("", None, None)  # no label is blank
        if label is not None and label not in known:
            # The label is newer than the answer that was revised to name it, or is not one of this
            # learner's: then all that can be learned is that what was said was wrong.
            right, label = False, None
        is_learned = self.counts(answer) and not (learner.full_information and label is None)
        if self.made(row):
            if is_learned:
                if decision is None:
                    decision = decision_of(row)
                learner.learn(decision, right=right, label=label)
            return
        if not is_learned or said not in known or not is_weighable(learner, row.propensity):
            # Its round is counted all the same: if it is learned one day, because its source is
            # trusted again, later decisions must still find their own rounds free.
            learner.round += 1
            return
        among = None
        if row.among is not None:
            named = [self.relabelling.now(x, row.configuration) for x in _decode(row.among)]
            among = [x for x in dict.fromkeys(named) if x in known]
        learner.learn_logged(
            self.context_of(row),
            said,
            right=right,
            label=label,
            propensity=row.propensity or 1.0,
            among=among,
        )

    def made(self, row: DecisionRow) -> bool:
        """Whether the learner of this version has made a decision, as far as it counts.

        What it had only proposed, and was shown when somebody else spoke, has no round of its own.
        """
        if row.configuration != self.version.number or row.logged is not None:
            return False
        end = math.inf if row.active is None else row.active
        return not any(row.position < position < end for position in self._promotions)

    def counts(self, answer: AnswerRow) -> bool:
        """Whether an answer is learned from: by the weight of its source, drawn per decision."""
        weight = 1.0 if answer.source is None else self._sources.get(answer.source, 1.0)
        if weight >= 1:
            return True
        draw = hashlib.blake2b(f"{self._number} {answer.decision}".encode(), digest_size=8)
        return int.from_bytes(draw.digest(), "little") < weight * 2.0**64

    def start(self, affects: int | None = None) -> tuple[Learner, int]:
        """The newest learner to start from, and its position."""
        found = snapshots.newest_good(
            self._journal, self._folder, self._name, self._number, self.version.number, affects
        )
        if found is not None and found[1] >= self.base_position():
            return found
        return self.beginning()

    def beginning(self) -> tuple[Learner, int]:
        """The learner without any event, or with those alone that were compacted."""
        base = self._journal.base(self._number)
        if base is not None:
            if base.version != self.version.number:
                raise Contradiction(
                    f"{self._name}: rounds up to position {base.position} were compacted "
                    "(retention) by another configuration, so that no other learner can be built "
                    "from them"
                )
            return self.first()
        return fresh(self.version), 0

    def base_position(self) -> int:
        """Up to which position rounds were compacted."""
        return self._journal.compacted_upto(self._number)[0]

    def replayed(
        self, learner: Learner, after: int, until: int | None = None, watch: Watch | None = None
    ) -> tuple[Learner, int]:
        """Let a learner learn the events after a position; returns the last position too.

        watch: called after each event.
        """
        reached = after
        for event in self._journal.history(self._number, after, until):
            learner, reached = self.take(learner, event)
            if watch is not None:
                watch(learner, reached, isinstance(event, DecisionRow))
        return learner, reached

    def take(
        self, learner: Learner, event: DecisionRow | Answered | ChangeRow
    ) -> tuple[Learner, int]:
        """Let a learner learn an event of the journal; returns its position too."""
        if isinstance(event, DecisionRow):
            reached = event.active or event.position
        else:
            reached = event.answer.position if isinstance(event, Answered) else event.position
        try:
            if isinstance(event, DecisionRow):
                if self.made(event):
                    learner.redo(self.context_of(event), decision_of(event))
            elif isinstance(event, Answered):
                self.apply(learner, event.answer, event.decision, None)
            elif event.kind == "label" and reached > labels_since(self.version.body):
                label = _decode(event.body)["label"]
                if label not in learner.label_set.names:
                    learner = self.with_label(learner, label)
            elif event.kind == "forget":
                learner.forget(_decode(event.body)["share"])
        except REFUSED as error:
            said = (
                f"{self._journal.path}: the event at position {reached} of {self._name} cannot be "
                f"learned again: {error}"
            )
            if not self._is_repaired:
                raise Damaged(said) from error
            log.warning("%s; left out, because events before it were lost", said)
        return learner, reached

    def warm_up(self, learner: Learner) -> None:
        """Compile what requests will need of a learner.

        Otherwise the first request of each kind compiles it, while all others wait.
        """
        play(learner)

    def with_label(self, learner: Learner, label: Any) -> Learner:
        """The learner with another label, which was checked when it was new."""
        add_label(learner, label)
        return limited(learner, self.version)

    def context_of(self, row: DecisionRow) -> Any:
        return self.prepared(_decode(row.context or b"[]"))

    def first(self) -> tuple[Learner, int]:
        """The learner at the beginning of the journal, and its position."""
        base = self._journal.base(self._number)
        return (
            (fresh(self.version), 0)
            if base is None
            else (limited(learner_from(base.learner), self.version), base.position)
        )


def is_unlearnable(fault: Exception) -> bool:
    """Whether `Builder.replayed` was refused by its learner, and not by a damaged file."""
    return isinstance(fault, Damaged) and isinstance(fault.__cause__, REFUSED)


def readable(context: Any) -> Any:
    """A context from the journal as a learner reads it: pairs become indices and values."""
    if isinstance(context, list) and context and isinstance(context[0], list | tuple):
        return [pair[0] for pair in context], [pair[1] for pair in context]
    return context


def learner_from(data: bytes) -> Learner:
    return files.taken_over(*files.unpack(data))


def version_of(model: Model, number: int) -> Version:
    body = {
        "learner": model.learner,
        "settings": model.settings,
        "seed": model.seed,
        "labels": model.labels,
        "prepare": list(model.prepare),
        "digest": model.digest,
        "vocabulary": model.vocabulary,
    }
    body["code"] = code_of(body)
    learner = None
    if model.learner_file is not None:
        learner = Path(model.learner_file).read_bytes()
    return Version(number, body, learner)


def identity(version: Version) -> Any:
    """What makes two versions different learners; labels come and go without that."""
    body = _decode(_encode(version.body))  # as the journal gives it back
    same = [body.get(key) for key in ("learner", "settings", "seed", "prepare", "digest")]
    vocabulary = body.get("vocabulary")  # earlier versions had none
    return same if vocabulary is None else [*same, vocabulary]


def fresh(version: Version) -> Learner:
    """The learner before any event."""
    if version.learner is not None:
        return limited(learner_from(version.learner), version)
    body = version.body
    make: Any = learner_named(body["learner"])
    given = body["labels"]
    labels = given if isinstance(given, int) else Kept(given)
    return limited(make(labels, seed=body["seed"], **body["settings"]), version)


def limited(learner: Learner, version: Version) -> Learner:
    """The learner with the vocabulary of a version, or that of `MEMORY` and its labels.

    It depends only on what the learner has learned, so that a snapshot and the journal agree.
    """
    body = version.body
    if "vocabulary" not in body and not learner.table.may_map:
        return learner  # an early journal may have rows that are wider
    vocabulary = body.get("vocabulary")
    return with_vocabulary(learner, vocabulary or default_vocabulary(learner))


def default_vocabulary(learner: Learner) -> int:
    """How many features fit into MEMORY, with the scales of numbers."""

    def size(features: int) -> int:
        return learner.table.bytes_for(features) + 8 * STATISTICS * features

    return max(bisect_right(range(MOST_NAMES + 1), MEMORY, key=size) - 1, 1)


def decision_of(row: DecisionRow) -> Decision:
    decision = Decision.from_bytes(row.decision or b"")
    if decision.round != row.round:  # a deferred one: its round came later
        decision = msgspec.structs.replace(decision, round=row.round)
    return decision


def is_weighable(learner: Learner, propensity: float | None) -> bool:
    """Whether a learner can learn from what somebody else said. propensity: 0 or None: unknown."""
    return bool(propensity) or not learner.importance_weighted


def says(answer: AnswerRow) -> tuple[bool | None, Any]:
    return (None if answer.right is None else bool(answer.right)), answer.label


def was_right(answer: AnswerRow, row: DecisionRow) -> bool:
    """Whether the label of a decision was right, by its answer."""
    return bool(answer.right) if answer.label is None else answer.label == row.label
