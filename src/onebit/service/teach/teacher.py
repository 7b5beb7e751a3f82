"""The teacher: chooses items, has the engine guess at them, and passes answers on. Without HTTP.

A page holds a few guesses ahead, so that the next item is there at once. What it was just told may
change them: with every answer the page names the guesses that it holds, and gets new ones for the
items about which the learner has changed its mind. A guess that nobody answers counts for nothing
(`deferred`), and an answer that is taken back is unlearned (`Engine.cancel`).

The parts share one `TeachState` under one lock: `folder` keeps the progress, `chooser` says which
item comes next, `guesses` has the engine guess at it, `lessons` has the answers, `overview` tells
how it goes. `Teacher` is what others see: it takes what people do, and lets the parts follow.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from onebit.core.settings import argument
from onebit.learner import files
from onebit.learner.warming import play
from onebit.service.engine import Engine
from onebit.service.faults import Cancelled, Refused
from onebit.service.journal import ACTIVE, DecisionRow
from onebit.service.messages import Label, LabelChange
from onebit.service.teach.chooser import Chooser
from onebit.service.teach.folder import LIMITS
from onebit.service.teach.guesses import Guess, Guesses
from onebit.service.teach.lessons import Lesson, browser_of, parsed_key
from onebit.service.teach.overview import Overview
from onebit.service.teach.requests import (
    AnswerRequest,
    Ask,
    GuessRequest,
    NewLabels,
    PageRequest,
    Renaming,
    Revision,
    checked_label,
    stored_name,
    verdict_of,
)
from onebit.service.teach.sources.items import ItemError, Items
from onebit.service.teach.state import TeachState


class Teacher:
    """One source, its learner, and everyone who teaches it.

    Lock: every public method takes the lock of the state, as far as it needs it.

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
        state = self._state = TeachState(items, folder)
        self._guesses, self._chooser = Guesses(state), Chooser(state)
        self.overview = Overview(state)
        state.on_reading = self._on_reading
        known, state.names = state.folder.labels_before()
        # The same command is given again after a label was renamed or removed.
        added = [x for x in map(checked_label, labels) if state.names.now(x) == x]
        state.labels = _together(known, added)
        if len(state.labels) >= 2:
            self._open()

    def _open(self) -> None:
        self._state.open(self.items.name)
        if len(self._state.lessons):
            self._check_items()
        threading.Thread(target=self._warm_up, name="warm up", daemon=True).start()

    def _check_items(self) -> None:
        """A ValueError if the learner was taught by items of another kind or shape."""
        context = self._example()
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

    def _example(self) -> Any:
        """The context of one of the first items; None if none of them can be used."""
        return next(self._state.contexts(range(min(len(self.items), 20))), None)

    def _warm_up(self) -> None:
        """Compile what a round needs, by rounds of a copy that nobody sees."""
        try:
            context = self._example()
            if context is not None:
                play(self.engine.learner, [context])
        finally:
            self._state.warm.set()
            self._state.tell()

    def _on_reading(self) -> None:
        """The lessons were read anew, so that guesses and choices may be wrong."""
        self._guesses.clear()
        self._chooser.start_over()

    def close(self) -> None:
        self._state.close()

    def __enter__(self) -> Teacher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What there is.

    @property
    def engine(self) -> Engine:
        return self._state.engine

    @property
    def labels(self) -> list[Label]:
        return self._state.labels

    @property
    def lesson(self) -> str:
        """The name that the lesson has in browsers."""
        return self._state.folder.lesson

    @property
    def version(self) -> int:
        """Counts changes."""
        return self._state.version

    @property
    def is_gone(self) -> bool:
        """Whether the journal was removed or replaced by another file."""
        return self._state.is_gone

    def picture_mark(self, number: int) -> str:
        """A digest of what the picture of an item shows."""
        return self._state.picture_mark(number)

    def watch(self, on_change: Callable[[], None]) -> None:
        """Call a function whenever something has changed, from any thread."""
        self._state.on_change = on_change

    # Guesses.

    def ahead(self, request: PageRequest) -> list[Guess]:
        """The guesses that a page should hold."""
        with self._state.working():
            return self._ahead(request, [])

    def _ahead(self, request: PageRequest, first: list[Guess]) -> list[Guess]:
        """first: guesses that come before those that the page has."""
        guesses = first + self._guesses.renewed(request, {guess.number for guess in first})
        held = {guess.number for guess in guesses}
        seen = None if request.seen is None else self._guesses.find(request.seen)
        if seen is not None:
            held.add(seen.number)
            self._chooser.hold(request.page, [seen.number])
        for number in self._chooser.following(request, held, len(guesses)):
            guesses += self._guesses_at(number, request, request.ask)
        self._chooser.hold(request.page, [guess.number for guess in guesses])
        return guesses

    def _guesses_at(
        self, number: int, request: PageRequest, ask: Ask, again: bool = False
    ) -> list[Guess]:
        """A new guess at an item, or none if it cannot be used."""
        try:
            return [self._guesses.at(number, request, ask, again)]
        except ItemError:
            return []

    def leave(self, page: str) -> None:
        """A page is gone: others may have the items that were kept for it."""
        with self._state.lock:
            self._chooser.leave(page)
        self._state.tell()

    def _drop(self, id: str) -> None:
        guess = self._guesses.drop(id)
        if guess is not None:
            self._chooser.give_back(guess.number)

    # Answers.

    def answer(self, request: AnswerRequest) -> list[Guess]:
        """Learn an answer. The first answer to a guess stands; `revise` changes it."""
        right, label = verdict_of(request)
        state = self._state
        with state.working():
            label = state.called_now(label)
            row, number = state.row_of(request.id)
            first: list[Guess] = []
            if state.lessons.get(request.id) is None and row.state == ACTIVE:
                who = stored_name(request.who)
                state.promise(self.engine.submit_feedback(request.id, right, label, who))
                self._add_lesson(request.id, row, right, label, who)
                kind, _ = parsed_key(row.key)
                ask, is_wrong = request.ask, right is False
                if is_wrong and kind == "free" and ask.only is None and ask.again:
                    first = [] if number is None else self._guesses_at(number, request, ask, True)
            else:  # sent again, perhaps before the first was on disk
                self.engine.journal.flush()
            self._drop(request.id)
            return self._ahead(request, first)

    def _add_lesson(
        self, id: str, row: DecisionRow, right: bool | None, label: Label | None, who: str | None
    ) -> None:
        """Add an answer to the lessons, as it would be read from the journal."""
        state, now = self._state, time.time()
        state.has_changed = True
        heard = state.names.heard(row.configuration, now, row.label, right, label)
        if heard is None:
            return
        kind, item = parsed_key(row.key)
        state.lessons.add(
            Lesson(
                id=id,
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

    def skip(self, request: GuessRequest) -> list[Guess]:
        """Ask nothing more about an item."""
        state = self._state
        with state.working():
            row, _ = state.row_of(request.id)
            item = parsed_key(row.key)[1]
            if state.lessons.get(request.id) is None and row.state == ACTIVE:
                for id in dict.fromkeys([*self._guesses.of_item(item), request.id]):
                    if state.lessons.get(id) is None:
                        state.promise(self.engine.submit_cancel(id))
                        self._drop(id)
                state.lessons.skipped.add(item)
                state.has_changed = True
            return self._ahead(request, [])

    def undo(self, request: GuessRequest) -> list[Guess]:
        """Take an answer or a skip back, as if it had never been given; the item is asked again."""
        state = self._state
        with state.working():
            row, number = state.row_of(request.id)
            kind, item = parsed_key(row.key)
            if state.lessons.get(request.id) is not None:
                state.promise(self.engine.submit_cancel(request.id))
                state.lessons.remove(request.id)
            state.lessons.skipped.discard(item)
            self._chooser.start_over(number or 0)
            state.has_changed = True
            first: list[Guess] = []
            if number is not None:
                only = row.label if kind in ("yes", "no") else None
                ask = Ask(order=request.ask.order, only=only, again=request.ask.again)
                first = self._guesses_at(number, request, ask)
            return self._ahead(request, first)

    def revise(self, change: Revision) -> None:
        """Another answer than before, learned as if it had always been given."""
        right, label = verdict_of(change)
        state = self._state
        with state.working():
            label = state.called_now(label)
            lesson = state.lessons.get(change.id)
            if lesson is None:
                raise Cancelled(f"there is no answer to {change.id!r} that could be revised")
            state.promise(self.engine.submit_revise(change.id, right, label))
            is_right = label == lesson.said if right is None else right
            state.lessons.revise(change.id, is_right, label)
            state.has_changed = True

    # Labels.

    def add_labels(self, new: NewLabels) -> None:
        """Labels that may be said from now on."""
        labels = list(dict.fromkeys(checked_label(label) for label in new.add))
        state = self._state
        with state.lock:
            named = _together(state.labels, labels)
            if state.service is None:
                self._open_with(named)
            else:
                state.check_file()
                self.engine.submit_labels(LabelChange(add=labels)).wait()
                state.read_labels()
                self._guesses.clear()  # they list the labels there were
            state.tell()

    def _open_with(self, labels: list[Label]) -> None:
        """Begin with the first labels."""
        if len(labels) < 2:
            raise Refused("name two labels, so that there is something to tell apart")
        before, self._state.labels = self._state.labels, labels
        try:
            self._open()
        except BaseException:
            self._state.labels = before
            raise

    def relabel(self, change: Renaming) -> None:
        """Give a label another name, merge it into the label of that name, or remove it."""
        to = None if change.to is None else checked_label(change.to)
        state = self._state
        with state.working():
            if change.label not in state.labels:
                raise Refused(f"there is no label {change.label!r} any more")
            if to == change.label:
                return
            self.engine.submit_relabel({change.label: to}).wait()
            self.engine.settle()
            state.read_labels()
            self._chooser.forget_chosen()
            state.read()
            state.has_changed = True

    # Taking away.

    def learner_file(self) -> bytes:
        """The learner, for `onebit.load`."""
        with self._state.working():
            self.engine.settle()
        return files.pack(*files.dump(self.engine.learner))


def _together(known: Sequence[Label], new: Sequence[Label]) -> list[Label]:
    """Known and new labels, unless there are too many."""
    labels = [*dict.fromkeys([*known, *new])]
    if len(labels) > LIMITS.labels:
        raise Refused(f"there may be {LIMITS.labels:,} labels, and these are {len(labels):,}")
    return labels
