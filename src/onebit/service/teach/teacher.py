"""The teacher: chooses items, has the engine guess at them, and passes answers on. Without HTTP.

A page holds a few guesses ahead, so that the next item is there at once. What it was just told may
change them: with every answer the page names the guesses that it holds, and gets new ones for the
items about which the learner has changed its mind. A guess that nobody answers counts for nothing
(`deferred`), and an answer that is taken back is unlearned (`Engine.cancel`).
"""

from __future__ import annotations

import hashlib
import os
import random
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType

from onebit.core.settings import argument
from onebit.core.sources import write_whole
from onebit.learner import files
from onebit.learner.warming import play
from onebit.service.configuration import Configuration, Limits, Model, ServiceOptions
from onebit.service.engine import Engine, parsed_id
from onebit.service.faults import Cancelled, Refused, ServiceError, Unavailable, UnknownDecision
from onebit.service.journal import ACTIVE, Journal, labels_at
from onebit.service.journal.relabelling import Relabelling
from onebit.service.messages import END, Label, LabelChange
from onebit.service.service import Service
from onebit.service.teach.lessons import Kind, Lesson, Lessons, browser_of, key_of, parsed_key
from onebit.service.teach.sources.items import Item, ItemError, Items

_LESSON = "lesson"  # a file of the folder, with the name that the lesson has in browsers
MODEL = "teach"  # the name of the model in the journal
AHEAD = 8  # guesses that a page holds
ENOUGH = 3  # with so many, it need not wait for an item that is not ready
CHOSEN = 16  # items that are made ready for a page
HELD = 600.0  # seconds for which an item is kept for a page that says nothing
POOL = 48  # items among which the least sure one is looked for
LONGEST_LABEL = 100
SHOWN_TEXT, SHOWN_CELL, SHOWN_LABELS = 20_000, 2_000, 12
SAMPLES, TRIED = 4, 40  # pictures that help to find labels, and how many are tried for them
_LIMITS = Limits(open_decisions=2**40)
# Parts of emoji, and of words in Persian or Hindi.
_JOINERS: dict[int, None] = dict.fromkeys((0x200C, 0x200D))

Order = Literal["order", "random", "unsure"]
Who = Annotated[str, Meta(max_length=60)]


class Ask(Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """What a person wants to be asked."""

    order: Order = "random"
    only: Label | None = None  # is it this label?
    again: bool = True  # a second guess where the first was wrong


class Turn(Struct, forbid_unknown_fields=True, kw_only=True):
    """A request of a page: who asks, the guesses that it holds, and what it wants next."""

    page: Annotated[str, Meta(min_length=1, max_length=64)]
    browser: Annotated[str, Meta(pattern=f"^[0-9a-f]{{0,32}}{END}")] = ""  # undo stays within it
    have: Annotated[list[str], Meta(max_length=64)] = []
    seen: str | None = None  # the guess on its screen, which must not change any more
    ask: Ask = Ask()


class AnswerTurn(Turn, forbid_unknown_fields=True, kw_only=True):
    """The answer to a guess: right, wrong, or the true label."""

    id: str
    right: bool | UnsetType = UNSET
    label: Label | UnsetType = UNSET
    who: Who = ""


class GuessTurn(Turn, forbid_unknown_fields=True, kw_only=True):
    """A guess to skip, or an answer or a skip to take back."""

    id: str


class Revision(Struct, forbid_unknown_fields=True, kw_only=True):
    """Another answer than before."""

    id: str
    right: bool | UnsetType = UNSET
    label: Label | UnsetType = UNSET


class NewLabels(Struct, forbid_unknown_fields=True):
    add: list[str]


class Renaming(Struct, forbid_unknown_fields=True, kw_only=True):
    """A label, and its new name; that of another label to merge them; None to remove it."""

    label: Label
    to: Label | None


class Guess(Struct, kw_only=True):
    """What a page shows: an item, and what the learner says about it."""

    id: str
    place: int
    item: dict[str, Any]
    kind: Kind
    label: Label
    sure: float | None  # the chance that it is the label; None: the learner knows nothing yet
    best: Label  # the label that it is most sure of, among those that are possible
    scores: list[tuple[Label, float]]  # the highest chances, in whole percents
    explored: bool
    ruled_out: list[Label]
    context: Any = None  # not for the page


class Teacher:
    """One source, its learner, and everyone who teaches it.

    folder: where the progress is kept. labels: in addition to those that the folder knows. opened:
    the Python expression that opens the items. command: the one that starts this lesson again.
    """

    def __init__(
        self,
        items: Items,
        folder: Path,
        labels: Sequence[Label] = (),
        opened: str = "open_items()",
        command: str = "onebit teach",
    ) -> None:
        self.items, self.folder, self.opened, self.command = items, folder, opened, command
        self.version = 0  # counts changes
        self._has_changed = False  # by the request that has the lock
        self.on_change: Callable[[], None] = lambda: None
        self._lock = threading.RLock()
        self._service: Service | None = None
        self._lessons = Lessons()
        self._guesses: dict[str, Guess] = {}
        self._chosen: dict[str, tuple[Ask, list[int]]] = {}  # by page: items to be guessed at
        self._held: dict[int, tuple[str, float]] = {}  # by item: the page that has it, until when
        self._random = random.Random(0)
        self._first = 0  # all items before this one have been asked about
        self._warm = threading.Event()
        self._journal = folder / "teach.journal"
        self._file: tuple[int, int] | None = None  # the journal, as the system knows it
        kept = _lesson_of(folder) if self._journal.exists() else None
        self.lesson = kept or secrets.token_hex(8)  # browsers keep answers under this name
        known, self._names = _labels_before(self._journal)
        # The same command is given again after a label was renamed or removed.
        added = [x for x in map(checked_label, labels) if self._names.now(x) == x]
        self._labels: list[Label] = _together(known, added)
        if len(self._labels) >= 2:
            self._open()

    def _open(self) -> None:
        options = ServiceOptions(journal=str(self._journal), limits=_LIMITS, snapshots=20)
        model = Model(
            name=MODEL,
            labels=self._labels,
            deferred=True,
            revisions=True,
            expires_after=None,
            title=self.items.name,
        )
        configuration = Configuration(path="", service=options, models={MODEL: model})
        self._service = Service(configuration, snapshot_every=400)
        self._file = self._found_file()
        if _lesson_of(self.folder) != self.lesson:
            write_whole(self.folder / _LESSON, self.lesson.encode())
        self._service.on_recovery = self._on_recovery
        self._failures = self.engine.journal.tally.failures
        self.engine.settle()  # a new name may have been on its way
        self._labels = list(self.engine.learner.labels)
        self._read()
        if len(self._lessons):
            self._check_items()
        threading.Thread(target=self._warm_up, name="warm up", daemon=True).start()

    def _check_items(self) -> None:
        """A ValueError if the learner was taught by items of another kind or shape."""
        context = next(self._contexts(range(min(len(self.items), 20))), None)
        try:
            if context is not None:
                self.engine.learner.decide(context)  # a copy, which is thrown away
        except ValueError as error:
            self.close()
            raise ValueError(
                f"{self.folder} has answers about items that differ from those of "
                f"{self.items.name}: {error}. Name another folder with "
                f"{argument('folder')}, or open the items as before"
            ) from None

    def _read(self) -> None:
        """Read the lessons from the journal."""
        self._names = self.engine.relabelling
        self._lessons = Lessons.read(self.engine.journal, self.engine.number, self._names)
        self._guesses.clear()
        self._first = 0

    def _catch_up(self) -> None:
        """After a failure of the journal, read the lessons anew: some may not be on disk.

        Unavailable if the journal still fails, or if its file is gone.
        """
        journal = self.engine.journal
        failures = journal.tally.failures
        if failures != self._failures:
            journal.check_room(0)
            self._read()
            self._failures = failures
            self._file = self._found_file()  # it may be a copy
        self._check_file()

    def _found_file(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self._journal)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _check_file(self) -> None:
        """Unavailable if the journal has lost its name: SQLite goes on writing to such a file."""
        if self.is_gone:
            raise Unavailable(
                f"{self._journal} was removed or replaced, so nothing can be saved. "
                "Stop `onebit teach` and start it again"
            )

    @property
    def is_gone(self) -> bool:
        """Whether the journal was removed or replaced by another file."""
        if self._service is None or self.engine.journal.tally.failures != self._failures:
            return False
        return self._found_file() != self._file

    def _on_recovery(self) -> None:
        """Tell the pages that the journal can be written again."""
        with suppress(Unavailable), self._working():
            self._has_changed = True

    def close(self) -> None:
        if self._service is not None:
            if self.is_gone:  # a snapshot would make the folder again
                self.engine.journal.failure = Unavailable("the journal is gone")
            self._service.close()
        self.items.close()

    def __enter__(self) -> Teacher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def engine(self) -> Engine:
        assert self._service is not None
        return self._service.models[MODEL]

    @property
    def labels(self) -> list[Label]:
        return self._labels

    @property
    def is_open(self) -> bool:
        """Whether there are labels, so that it can begin."""
        return self._service is not None

    @property
    def is_ready(self) -> bool:
        """Whether a guess takes no longer than usual."""
        return self._warm.is_set()

    def _warm_up(self) -> None:
        """Compile what a round needs, by rounds of a copy that nobody sees."""
        try:
            context = next(self._contexts(range(min(len(self.items), 20))), None)
            if context is not None:
                play(self.engine.learner, [context])
        finally:
            self._warm.set()
            self._tell()

    def _contexts(self, places: Iterable[int]) -> Iterator[Any]:
        for place in places:
            try:
                yield self.items.context(place)
            except ItemError:
                continue

    def _tell(self) -> None:
        """Let all pages know that something has changed."""
        self.version += 1
        self.on_change()

    # Guesses.

    def ahead(self, turn: Turn) -> list[Guess]:
        """The guesses that a page should hold."""
        with self._working() as futures:
            return self._ahead(turn, [], futures)

    def _ahead(self, turn: Turn, first: list[Guess], futures: list[Any]) -> list[Guess]:
        guesses = first + self._renewed(turn, {guess.place for guess in first}, futures)
        held = {guess.place for guess in guesses}
        seen = None if turn.seen is None else self._known(turn.seen)
        if seen is not None:
            held.add(seen.place)
            self._held[seen.place] = (turn.page, time.monotonic() + HELD)
        for place in self._next(turn, held, len(guesses)):
            try:
                guesses.append(self._guess(place, turn, turn.ask, futures))
            except ItemError:
                continue
        until = time.monotonic() + HELD
        for guess in guesses:
            self._held[guess.place] = (turn.page, until)
        return guesses

    def _renewed(self, turn: Turn, done: set[int], futures: list[Any]) -> list[Guess]:
        """The guesses that a page holds, made anew where the learner has changed its mind."""
        kept = [guess for guess in map(self._known, turn.have) if guess is not None]
        kept = [guess for guess in kept if guess.place not in done and self._is_open_to(guess)]
        if not kept:
            return []
        scores = self.engine.forecasts([guess.context for guess in kept])
        renewed = []
        for guess, row in zip(kept, scores, strict=True):
            best = self._best(row, self._possible(guess.item["key"], guess.kind, guess.label))
            if guess.kind in ("free", "again") and best != guess.best:
                kind, label, context = guess.kind, guess.label, guess.context
                guess = self._made(guess.place, turn, kind, label, context, futures)
            renewed.append(guess)
        return renewed

    def _known(self, id: str) -> Guess | None:
        """A guess that was made earlier, perhaps before a restart, and waits for an answer."""
        guess = self._guesses.get(id)
        if guess is not None:
            return guess
        try:
            row, place = self._row(id)
        except ServiceError:
            return None
        if place is None or row.state != ACTIVE or self._lessons.get(id) is not None:
            return None
        if row.label not in self._labels:  # it was renamed or removed
            return None
        kind, _ = parsed_key(row.key)
        try:
            context = self.items.context(place)
        except ItemError:
            return None
        return self._kept(id, place, kind, row.label, bool(row.explored), row.confidence, context)

    def _row(self, id: str) -> tuple[Any, int | None]:
        """A guess as the journal has it, and the place of its item."""
        position, token = parsed_id(id)
        found = self.engine.journal.decision(position)
        if found is None or found[0].token != token:
            raise UnknownDecision(f"there is no guess {id!r}")
        return found[0], self.items.place(parsed_key(found[0].key)[1])

    def _is_open_to(self, guess: Guess) -> bool:
        """Whether the question is still one."""
        key, lessons = guess.item["key"], self._lessons
        if key in lessons.skipped or lessons.truth(key) is not None:
            return False
        return guess.label not in lessons.ruled_out(key)

    def _guess(
        self, place: int, turn: Turn, ask: Ask, futures: list[Any], again: bool = False
    ) -> Guess:
        """A new guess at an item. An ItemError says that the item cannot be used."""
        context = self.items.context(place)
        if ask.only is not None and not again:
            return self._made(place, turn, "yes", ask.only, context, futures)
        key = self.items[place].key
        kind = "again" if again or self._lessons.of_item(key) else "free"
        return self._made(place, turn, kind, None, context, futures)

    def _made(
        self,
        place: int,
        turn: Turn,
        kind: Kind,
        label: Label | None,
        context: Any,
        futures: list[Any],
    ) -> Guess:
        key = self.items[place].key
        possible = self._possible(key, kind, label)
        if not possible:
            raise ItemError(key, "it has none of the labels")
        if kind in ("yes", "no"):
            kind = "yes" if self._best(self._scores(context), self._labels) == label else "no"
        among = None if len(possible) == len(self._labels) else possible
        pending = self.engine.submit_decide(context, among, key_of(kind, key, turn.browser))
        futures.append(pending.future)
        told = pending.value
        self._lessons.skipped.discard(key)
        return self._kept(told.id, place, kind, told.label, told.explored, told.confidence, context)

    def _kept(
        self,
        id: str,
        place: int,
        kind: Kind,
        label: Label,
        explored: bool,
        confidence: float | None,
        context: Any,
    ) -> Guess:
        item = self.items[place]
        scores = self._scores(context)
        possible = self._possible(item.key, kind, label)
        order = sorted(range(len(self._labels)), key=lambda i: -scores[i])[:SHOWN_LABELS]
        out = self._lessons.ruled_out(item.key)
        open_ones = np.array([known not in out for known in self._labels])
        said = self._labels.index(label)
        is_question = kind in ("yes", "no")  # about a single label: its confidence says nothing
        shares = whole_percents(
            _chances(scores, open_ones, said, None if is_question else confidence)
        )
        guess = Guess(
            id=id,
            place=place,
            item=shown_item(place, item, self.picture_of(place)),
            kind=kind,
            label=label,
            sure=float(shares[said]) if np.ptp(scores) else None,
            best=self._best(scores, possible),
            scores=[(self._labels[i], float(shares[i])) for i in order],
            explored=explored,
            ruled_out=sorted(self._lessons.ruled_out(item.key), key=str),
            context=context,
        )
        self._guesses[id] = guess
        while len(self._guesses) > 2000:
            del self._guesses[next(iter(self._guesses))]
        return guess

    def _scores(self, context: Any) -> np.ndarray:
        return self.engine.forecasts([context])[0]

    def _possible(self, key: str, kind: Kind, label: Label | None) -> list[Label]:
        if kind in ("yes", "no"):
            return [] if label is None else [label]
        out = self._lessons.ruled_out(key)
        return [known for known in self._labels if known not in out]

    def _best(self, scores: np.ndarray, possible: Sequence[Label]) -> Label:
        places = {label: i for i, label in enumerate(self._labels)}
        return max(possible, key=lambda label: scores[places[label]])

    # Which item comes next.

    def _next(self, turn: Turn, held: set[int], count: int) -> Iterator[int]:
        """Items to guess at, for a page that has so many guesses already."""
        ask, chosen = self._chosen.get(turn.page, (None, []))
        if ask != turn.ask:
            chosen = []
            self._release(turn.page, held)
        if turn.ask.order == "order":
            chosen = []  # a page that was loaded again goes on where it was
        chosen = [place for place in chosen if self._may_ask(place, turn, held)]
        while len(chosen) < CHOSEN:
            place = self._choose(turn, held.union(chosen))
            if place is None:
                break
            chosen.append(place)
        self._chosen[turn.page] = (turn.ask, chosen)
        self.items.prepare(*chosen)
        until = time.monotonic() + HELD
        for place in chosen:
            self._held[place] = (turn.page, until)
        for place in list(chosen):
            if count >= AHEAD:
                return
            if count < ENOUGH or self.items.ready(place):
                chosen.remove(place)
                yield place
                count += self.items.usable(place)

    def leave(self, page: str) -> None:
        """A page is gone: others may have the items that were kept for it."""
        with self._lock:
            self._chosen.pop(page, None)
            self._release(page)
        self._tell()

    def _release(self, page: str, held: Collection[int] = ()) -> None:
        for place, (holder, _) in list(self._held.items()):
            if holder == page and place not in held:
                del self._held[place]

    def _may_ask(self, place: int, turn: Turn, held: set[int], first: bool = False) -> bool:
        """first: only items about which nobody was asked yet."""
        if place in held or not self.items.usable(place):
            return False
        holder, until = self._held.get(place, (turn.page, 0.0))
        if holder != turn.page and until > time.monotonic():
            return False
        key, lessons, only = self.items[place].key, self._lessons, turn.ask.only
        if lessons.is_new(key):
            return True
        if key in lessons.skipped or (first and only is None) or lessons.truth(key) is not None:
            return False
        out = lessons.ruled_out(key)
        return only not in out if only is not None else len(out) < len(self._labels)

    def _choose(self, turn: Turn, held: set[int]) -> int | None:
        """The next item: a new one as long as there is any, then those with a wrong guess."""
        for first in (True, False):
            place = self._choose_from(turn, held, first)
            if place is not None:
                return place
        return None

    def _choose_from(self, turn: Turn, held: set[int], first: bool) -> int | None:
        order, count = turn.ask.order, len(self.items)
        if order != "order":
            pool: list[int] = []
            for _ in range(4 * POOL):
                place = self._random.randrange(count)
                if place not in pool and self._may_ask(place, turn, held, first):
                    pool.append(place)
                    if order == "random":
                        return place
                if len(pool) == POOL:
                    break
            if pool:
                return self._least_sure(pool)
        while self._first < count and not self.is_unasked(self._first):
            self._first += 1
        start = self._first if first and turn.ask.only is None else 0
        places = (i for i in range(start, count) if self._may_ask(i, turn, held, first))
        return next(places, None)

    def is_unasked(self, place: int) -> bool:
        return self.items.usable(place) and self._lessons.is_new(self.items[place].key)

    def _least_sure(self, pool: list[int]) -> int:
        """The item about which the learner is least sure, among those that are ready."""
        ready = [place for place in pool if self.items.ready(place)]
        contexts = list(self._contexts(ready))
        if len(contexts) < 2 or len(contexts) != len(ready) or not len(self._lessons):
            return pool[0]
        scores = np.sort(self.engine.forecasts(contexts), axis=1)
        return ready[int(np.argmin(scores[:, -1] - scores[:, -2]))]

    # Answers.

    def answer(self, turn: AnswerTurn) -> list[Guess]:
        """Learn an answer. The first answer to a guess stands; `revise` changes it."""
        right, label = _verdict(turn)
        with self._working() as futures:
            label = self._called_now(label)
            row, place = self._row(turn.id)
            first: list[Guess] = []
            if self._lessons.get(turn.id) is None and row.state == ACTIVE:
                who = stored_name(turn.who)
                kind, item = parsed_key(row.key)
                pending = self.engine.submit_feedback(turn.id, right, label, who)
                futures.append(pending.future)
                now = time.time()
                heard = self._names.heard(row.configuration, now, row.label, right, label)
                if heard is not None:
                    self._lessons.add(
                        Lesson(
                            id=turn.id,
                            item=item,
                            kind=kind,
                            said=heard.said,
                            right=heard.is_right,
                            label=heard.named,
                            who=who,
                            time=now,
                            explored=bool(row.explored),
                            propensity=row.propensity,
                            browser=browser_of(row.key),
                        )
                    )
                self._has_changed = True
                is_open = right is False and kind == "free" and turn.ask.only is None
                if is_open and turn.ask.again and place is not None:
                    first = self._second(place, turn, futures)
            else:  # sent again, perhaps before the first was on disk
                self.engine.journal.flush()
            self._drop(turn.id)
            return self._ahead(turn, first, futures)

    def _second(self, place: int, turn: Turn, futures: list[Any]) -> list[Guess]:
        """A second guess at an item."""
        try:
            return [self._guess(place, turn, turn.ask, futures, again=True)]
        except ItemError:
            return []

    def skip(self, turn: GuessTurn) -> list[Guess]:
        """Ask nothing more about an item."""
        with self._working() as futures:
            row, _ = self._row(turn.id)
            item = parsed_key(row.key)[1]
            if self._lessons.get(turn.id) is None and row.state == ACTIVE:
                known = [id for id, guess in self._guesses.items() if guess.item["key"] == item]
                for id in dict.fromkeys([*known, turn.id]):
                    if self._lessons.get(id) is None:
                        futures.append(self.engine.submit_cancel(id).future)
                        self._drop(id)
                self._lessons.skipped.add(item)
                self._has_changed = True
            return self._ahead(turn, [], futures)

    def undo(self, turn: GuessTurn) -> list[Guess]:
        """Take an answer or a skip back, as if it had never been given; the item is asked again."""
        with self._working() as futures:
            row, place = self._row(turn.id)
            kind, item = parsed_key(row.key)
            if self._lessons.get(turn.id) is not None:
                futures.append(self.engine.submit_cancel(turn.id).future)
                self._lessons.remove(turn.id)
            self._lessons.skipped.discard(item)
            self._first = 0 if place is None else min(self._first, place)
            self._has_changed = True
            first: list[Guess] = []
            if place is not None:
                only = row.label if kind in ("yes", "no") else None
                ask = Ask(order=turn.ask.order, only=only, again=turn.ask.again)
                try:
                    first = [self._guess(place, turn, ask, futures)]
                except ItemError:
                    first = []
            return self._ahead(turn, first, futures)

    def revise(self, change: Revision) -> None:
        """Another answer than before, learned as if it had always been given."""
        right, label = _verdict(change)
        with self._working() as futures:
            label = self._called_now(label)
            lesson = self._lessons.get(change.id)
            if lesson is None:
                raise Cancelled(f"there is no answer to {change.id!r} that could be revised")
            futures.append(self.engine.submit_revise(change.id, right, label).future)
            self._lessons.revise(change.id, label == lesson.said if right is None else right, label)
            self._has_changed = True

    def add_labels(self, new: NewLabels) -> None:
        """Labels that may be said from now on."""
        labels = list(dict.fromkeys(checked_label(label) for label in new.add))
        with self._lock:
            named = _together(self._labels, labels)
            if self._service is None:
                if len(named) < 2:
                    raise Refused("name two labels, so that there is something to tell apart")
                before, self._labels = self._labels, named
                try:
                    self._open()
                except BaseException:
                    self._labels = before
                    raise
            else:
                self._check_file()
                self.engine.submit_labels(LabelChange(add=labels)).wait()
                self._labels = list(self.engine.learner.labels)
                self._guesses.clear()  # they list the labels there were
            self._tell()

    def relabel(self, change: Renaming) -> None:
        """Give a label another name, merge it into the label of that name, or remove it."""
        to = None if change.to is None else checked_label(change.to)
        with self._working():
            if change.label not in self._labels:
                raise Refused(f"there is no label {change.label!r} any more")
            if to == change.label:
                return
            self.engine.submit_relabel({change.label: to}).wait()
            self.engine.settle()
            self._labels = list(self.engine.learner.labels)
            self._chosen.clear()
            self._read()
            self._has_changed = True

    def _called_now(self, label: Label | None) -> Label | None:
        """A label that a page has named, which may not have heard of its new name yet."""
        return label if label is None or label in self._labels else self._names.now(label) or label

    def _drop(self, id: str) -> None:
        guess = self._guesses.pop(id, None)
        if guess is not None:
            self._held.pop(guess.place, None)

    def _working(self) -> _Working:
        if self._service is None:
            raise Refused("name two labels first")
        return _Working(self)

    # Looking.

    def stats(self, browser: str = "") -> dict[str, Any]:
        """How the teaching goes. browser: whose answers undo takes back."""
        with self._lock:
            self._check_file()
            lessons = self._lessons
            since_start, recent = lessons.errors()
            guesses = len(since_start)
            return {
                "version": self.version,
                "ready": self.is_ready,
                "open": self.is_open,
                "labels": self._labels,
                "suggested": [*dict.fromkeys([*self._labels, *self.items.labels])],
                "items": self.items.usable_count(),
                "answers": len(lessons),
                "guesses": guesses,
                "known": lessons.known(),
                "skipped": len(lessons.skipped),
                "unusable": [list(pair) for pair in self.items.skipped[:20]],
                "unusable_count": len(self.items.skipped),
                "error": float(since_start[-1]) if guesses else None,
                "error_recent": float(recent[-1]) if guesses else None,
                "explored": sum(x.explored for x in lessons),
                "per_minute": lessons.per_minute(),
                "by_label": lessons.by_label(self._labels),
                "people": lessons.people(),
                "recent": [self._shown(lesson) for lesson in lessons.last(10)],
                "mine": [lesson.id for lesson in lessons.last(100, browser)],
            }

    def _shown(self, lesson: Lesson) -> dict[str, Any]:
        place = self.items.place(lesson.item)
        title, picture = lesson.item, None
        if place is not None:
            item = self.items[place]
            title, picture = item.title, self.picture_of(place)
        return {
            "id": lesson.id,
            "title": title,
            "picture": picture,
            "kind": lesson.kind,
            "said": lesson.said,
            "right": lesson.right,
            "label": lesson.label,
            "who": lesson.who,
            "explored": lesson.explored,
        }

    def picture_of(self, place: int) -> str | None:
        """The address of an item's picture. No other picture ever has it, so a browser may keep
        the picture."""
        if self.items[place].kind != "image":
            return None
        return f"items/{place}/picture?lesson={self.lesson}&item={self.picture_mark(place)}"

    def picture_mark(self, place: int) -> str:
        """A digest of what the picture of an item shows."""
        shown = (self.lesson, self.items[place].key, self.items.version(place))
        return hashlib.blake2b(repr(shown).encode(), digest_size=8).hexdigest()

    def samples(self) -> list[str]:
        """The addresses of a few pictures that can be shown, from all over the source."""
        count = len(self.items)
        if self.items.kind != "image":
            return []
        spread = [i * count // TRIED for i in range(TRIED)] if count > TRIED else [*range(count)]
        step = max(len(spread) // SAMPLES, 1)
        in_order = [place for first in range(step) for place in spread[first::step]]
        found: list[str] = []
        for place in in_order:
            if len(found) == SAMPLES:
                break
            with suppress(ItemError):
                self.items.picture(place, 256)
                found.append(f"{self.picture_of(place)}&size=256")
        return found

    def errors(self) -> tuple[np.ndarray, np.ndarray]:
        with self._lock:
            return self._lessons.errors()

    def lessons(self) -> list[tuple[Lesson, Item | None, Any]]:
        """All answers with their items, and with the true labels as far as they are known."""
        with self._lock:
            found = []
            for lesson in self._lessons:
                place = self.items.place(lesson.item)
                item = None if place is None else self.items[place]
                found.append((lesson, item, self._lessons.truth(lesson.item)))
            return found

    def why(self, id: str) -> list[tuple[str, float]]:
        """The parts of an item that speak for the label that is said, and those against it."""
        with self._working():
            row, place = self._row(id)
            if place is None:
                return []
            learner, context = self.engine.learner, self.items.context(place)
        among = None if row.among is None else msgspec.json.decode(row.among)
        parts = learner.explain(context, among=among).parts
        return parts if len(parts) <= 12 else [*parts[:6], *parts[-6:]]

    def learner_file(self) -> bytes:
        """The learner, for `onebit.load`."""
        with self._working():
            self.engine.settle()
        return files.pack(*self.engine.learner._dump())


class _Working:
    """The lock, and the commits that must be on disk before anybody is told of them."""

    def __init__(self, teacher: Teacher) -> None:
        self._teacher, self._futures = teacher, []

    def __enter__(self) -> list[Any]:
        self._teacher._lock.acquire()
        try:
            self._teacher._catch_up()
        except BaseException:
            self._teacher._lock.release()
            raise
        return self._futures

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        teacher = self._teacher
        has_changed, teacher._has_changed = teacher._has_changed, False
        teacher._lock.release()
        try:
            for future in self._futures:
                future.result()
            if self._futures:
                teacher._check_file()
        except Unavailable:
            with teacher._lock, suppress(Unavailable):  # what is shown is on disk
                teacher._read()
            raise
        if has_changed:
            teacher._tell()


def _labels_before(path: Path) -> tuple[list[Label], Relabelling]:
    """The labels that the model of a journal had last, and what became of earlier ones."""
    if not path.exists():
        return [], Relabelling({})
    with closing(Journal(path)) as journal:
        made, events = journal.first_labels(), journal.label_events()
        number = journal.models().get(MODEL, 0)
        newest, _, body = journal.newest_version(number)
        return labels_at(made, events, newest, journal.position + 1), Relabelling(body)


def _together(known: Sequence[Label], new: Sequence[Label]) -> list[Label]:
    """Known and new labels, unless there are too many."""
    labels = [*dict.fromkeys([*known, *new])]
    if len(labels) > _LIMITS.labels:
        raise Refused(f"there may be {_LIMITS.labels:,} labels, and these are {len(labels):,}")
    return labels


def _verdict(given: AnswerTurn | Revision) -> tuple[bool | None, Label | None]:
    right = None if given.right is UNSET else given.right
    label = None if given.label is UNSET else given.label
    if (right is None) == (label is None):
        raise Refused("say either right or label")
    return right, label


def checked_label(label: Label) -> Label:
    """A label as it is stored: printable, of some length, without blanks around it."""
    if isinstance(label, int):
        return label
    text = " ".join(label.split())
    if len(text) > LONGEST_LABEL or not is_readable(text):
        raise Refused(
            f"a label has 1 to {LONGEST_LABEL} printable characters, unlike {ascii(text)[:200]}"
        )
    return text


def is_readable(text: str) -> bool:
    """Whether a text can be seen, all of it. Joiners cannot, but change how their neighbours look:
    emoji and several scripts need them."""
    seen = text.translate(_JOINERS)
    return bool(seen) and seen.isprintable()


def check_name(who: str) -> None:
    """Refuse the name of a person if it cannot be read."""
    name = " ".join(who.split())
    if name and not is_readable(name):
        raise Refused("a name has printable characters only")


def stored_name(who: str) -> str | None:
    """The name of a person without what cannot be read, for which no answer is refused."""
    name = " ".join(who.split())
    name = "".join(c for c in name if ord(c) in _JOINERS or c.isprintable())
    return name if is_readable(name) else None


def _lesson_of(folder: Path) -> str | None:
    """The name that a lesson has in browsers, if it has one already."""
    try:
        name = (folder / _LESSON).read_text("ascii").strip()
    except (OSError, ValueError):
        return None
    return name if name.isalnum() and len(name) <= 64 else None


def shown_item(place: int, item: Item, picture: str | None) -> dict[str, Any]:
    """An item as a page gets it: long texts are cut."""
    return {
        "place": place,
        "key": item.key,
        "kind": item.kind,
        "title": item.title,
        "picture": picture,
        "text": _cut(item.text, SHOWN_TEXT),
        "fields": {name: _cut(str(value), SHOWN_CELL) for name, value in item.fields.items()},
    }


def _chances(
    scores: np.ndarray, possible: np.ndarray, said: int, confidence: float | None
) -> np.ndarray:
    """The chance of each label, of which one at most is right. possible: those that are not ruled
    out. confidence: the chance of the said one, where it is known."""
    shares = np.where(possible, np.clip(scores, 0, 1), 0.0)  # estimates may lie a little outside
    total = min(float(np.clip(scores, 0, 1).sum()), 1.0)
    if confidence is None:
        return shares * (total / max(float(shares.sum()), 1e-9))
    shares[said] = 0
    shares *= max(total - confidence, 0.0) / max(float(shares.sum()), 1e-9)
    shares[said] = confidence
    return shares


def whole_percents(chances: np.ndarray) -> np.ndarray:
    """Chances that add up to 1 at most, in whole percents that add up to the same."""
    percents = 100 * chances
    whole = np.floor(percents + 1e-6)
    if np.ptp(chances):  # equal chances stay equal
        missing = max(round(percents.sum() - whole.sum()), 0)
        whole[np.argsort(whole - percents, kind="stable")[:missing]] += 1
    return whole / 100


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most] + "…"
