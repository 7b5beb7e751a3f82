"""The chooser: which item comes next, and which page has it."""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Iterable, Iterator

import numpy as np

from onebit.service.teach.requests import Ask, PageRequest
from onebit.service.teach.state import TeachState

AHEAD = 8  # guesses that a page holds
ENOUGH = 3  # with so many, it need not wait for an item that is not ready
CHOSEN = 16  # items that are made ready for a page
HELD = 600.0  # seconds for which an item is kept for a page that says nothing
POOL = 48  # items among which the least sure one is looked for


class Chooser:
    """Chooses items, and keeps them for the page that asks about them.

    Lock: all methods are called with the lock of the teacher.
    """

    def __init__(self, state: TeachState) -> None:
        self._state, self._items = state, state.items
        self._chosen: dict[str, tuple[Ask, list[int]]] = {}  # by page: items to be guessed at
        self._held: dict[int, tuple[str, float]] = {}  # by item: the page that has it, until when
        self._random = random.Random(0)
        self._first = 0  # all items before this one have been asked about

    # Who has which item.

    def hold(self, page: str, numbers: Iterable[int]) -> None:
        """A page has these items."""
        until = time.monotonic() + HELD
        self._held.update(dict.fromkeys(numbers, (page, until)))

    def give_back(self, number: int) -> None:
        """No page has an item any more."""
        self._held.pop(number, None)

    def leave(self, page: str) -> None:
        """A page is gone: others may have the items that were kept for it."""
        self._chosen.pop(page, None)
        self._release(page)

    def _release(self, page: str, held: Collection[int] = ()) -> None:
        for number, (holder, _) in list(self._held.items()):
            if holder == page and number not in held:
                del self._held[number]

    def start_over(self, number: int = 0) -> None:
        """The items from this one on may not have been asked about."""
        self._first = min(self._first, number)

    def forget_chosen(self) -> None:
        """Choose anew for all pages."""
        self._chosen.clear()

    # Which item comes next.

    def following(self, request: PageRequest, held: set[int], count: int) -> Iterator[int]:
        """Items to guess at, for a page that has so many guesses already."""
        chosen = self._filled(request, held)
        self._chosen[request.page] = (request.ask, chosen)
        self._items.prepare(*chosen)
        self.hold(request.page, chosen)
        for number in list(chosen):
            if count >= AHEAD:
                return
            if count < ENOUGH or self._items.ready(number):
                chosen.remove(number)
                yield number
                count += self._items.usable(number)

    def _filled(self, request: PageRequest, held: set[int]) -> list[int]:
        """The items that are chosen for a page, as many as there should be."""
        ask, chosen = self._chosen.get(request.page, (None, []))
        if ask != request.ask:
            chosen = []
            self._release(request.page, held)
        if request.ask.order == "order":
            chosen = []  # a page that was loaded again goes on where it was
        chosen = [number for number in chosen if self._may_ask(number, request, held)]
        while len(chosen) < CHOSEN:
            number = self._choose(request, held.union(chosen))
            if number is None:
                break
            chosen.append(number)
        return chosen

    def _may_ask(
        self, number: int, request: PageRequest, held: set[int], first: bool = False
    ) -> bool:
        """first: only items about which nobody was asked yet."""
        if number in held or not self._items.usable(number):
            return False
        holder, until = self._held.get(number, (request.page, 0.0))
        if holder != request.page and until > time.monotonic():
            return False
        key, lessons, only = self._items.key(number), self._state.lessons, request.ask.only
        if lessons.is_new(key):
            return True
        if key in lessons.skipped or (first and only is None) or lessons.truth(key) is not None:
            return False
        out = lessons.ruled_out(key)
        return only not in out if only is not None else len(out) < len(self._state.labels)

    def _choose(self, request: PageRequest, held: set[int]) -> int | None:
        """The next item: a new one as long as there is any, then those with a wrong guess."""
        for first in (True, False):
            number = self._choose_from(request, held, first)
            if number is not None:
                return number
        return None

    def _choose_from(self, request: PageRequest, held: set[int], first: bool) -> int | None:
        order, count = request.ask.order, len(self._items)
        if order != "order":
            pool: list[int] = []
            for _ in range(4 * POOL):
                number = self._random.randrange(count)
                if number not in pool and self._may_ask(number, request, held, first):
                    pool.append(number)
                    if order == "random":
                        return number
                if len(pool) == POOL:
                    break
            if pool:
                return self._least_sure(pool)
        while self._first < count and not self._state.is_unasked(self._first):
            self._first += 1
        start = self._first if first and request.ask.only is None else 0
        free = (i for i in range(start, count) if i not in held)
        return next((i for i in free if self._may_ask(i, request, held, first)), None)

    def _least_sure(self, pool: list[int]) -> int:
        """The item about which the learner is least sure, among those that are ready."""
        ready = [number for number in pool if self._items.ready(number)]
        contexts = list(self._state.contexts(ready))
        if len(contexts) < 2 or len(contexts) != len(ready) or not len(self._state.lessons):
            return pool[0]
        scores = np.sort(self._state.engine.forecasts(contexts), axis=1)
        return ready[int(np.argmin(scores[:, -1] - scores[:, -2]))]
