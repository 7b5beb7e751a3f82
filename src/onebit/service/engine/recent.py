"""Recent decisions, as an engine has them in memory, and the ids of all."""

from __future__ import annotations

from collections import OrderedDict
from concurrent.futures import Future

from onebit.learner.decision import Decision
from onebit.service.engine.pending import DONE
from onebit.service.faults import UnknownDecision
from onebit.service.journal import AnswerRow, DecisionRow, Journal

# Decisions that are kept in memory, besides those that wait for the disk; and their bytes, about.
RECENT, RECENT_BYTES = 5_000, 2**25


class RecentDecision:
    """A decision that was made or looked up lately, its answer, and the commit that has both."""

    __slots__ = ("answer", "commit", "decision", "row")

    def __init__(
        self,
        row: DecisionRow,
        answer: AnswerRow | None = None,
        decision: Decision | None = None,
        commit: Future[None] = DONE,
    ) -> None:
        self.row, self.answer, self.decision, self.commit = row, answer, decision, commit

    @property
    def size(self) -> int:
        """About how many bytes it takes; always the same."""
        row = self.row
        # The decision is there once more, with arrays for its bytes.
        stored = len(row.context or b"") + 2 * len(row.decision or b"")
        return stored + len(row.propensities or "") + len(row.among or "")


class RecentDecisions:
    """The decisions of a model that were made or looked up lately; the journal has the others.

    Lock: all methods are called with the lock of the engine, but for `has`.
    """

    def __init__(self, journal: Journal, model: int) -> None:
        self._journal, self._model = journal, model
        self.clear()

    def clear(self) -> None:
        """Keep none of them: the journal knows better."""
        self._recent, self._bytes = OrderedDict[int, RecentDecision](), 0
        self._keys: dict[str, int] = {}

    def has(self, position: int, token: str) -> bool:
        """Whether a decision is one of these."""
        recent = self._recent.get(position)
        return recent is not None and recent.row.token == token

    def find(self, id: str) -> RecentDecision:
        """The decision with this id, from the journal if need be."""
        position, token = parsed_id(id)
        recent = self._recent.get(position)
        if recent is None:
            found = self._journal.decision(position)
            if found is not None:
                recent = RecentDecision(*found)
        if recent is None or recent.row.token != token or recent.row.model != self._model:
            raise UnknownDecision(f"there is no decision {id!r}")
        return recent

    def find_key(self, key: str) -> RecentDecision | None:
        """The decision that was asked for with this key."""
        if key in self._keys:
            return self._recent[self._keys[key]]
        found = self._journal.decision_of_key(self._model, key)
        return None if found is None else RecentDecision(*found)

    def add(self, recent: RecentDecision) -> None:
        """Keep a new decision, which is not in the journal yet."""
        self.keep(recent)
        if recent.row.key is not None:
            self._keys[recent.row.key] = recent.row.position

    def keep(self, recent: RecentDecision) -> None:
        """Keep a decision that has changed, or waits for the disk; old ones go."""
        position = recent.row.position
        if position not in self._recent:
            self._bytes += recent.size
        self._recent[position] = recent
        self._recent.move_to_end(position)  # what waits for the disk must not fall out
        while len(self._recent) > RECENT or self._bytes > RECENT_BYTES:
            old = next(iter(self._recent.values()))
            if not old.commit.done():
                return
            self.forget(old.row.position)

    def forget(self, position: int) -> None:
        """Keep a decision in memory no longer."""
        recent = self._recent.pop(position, None)
        if recent is None:
            return
        self._bytes -= recent.size
        if recent.row.key is not None:
            self._keys.pop(recent.row.key, None)


def id_of(row: DecisionRow) -> str:
    """The id of a decision: its position, and a token that nobody can guess."""
    return f"{row.position:x}-{row.token}"


def parsed_id(id: str) -> tuple[int, str]:
    """The position and the token in an id."""
    position, _, token = id.partition("-")
    try:
        if not (0 < len(position) <= 15 and position.isascii() and position.isalnum()):
            raise ValueError
        return int(position, 16), token
    except ValueError:
        raise UnknownDecision(f"there is no decision {id[:100]!r}") from None
