"""Which rounds were answered: a decision is learned from once.

One bit is stored per round, for the last 4 to 8 million rounds: at most a megabyte. Older rounds
are dropped; an answer to such a round is accepted. `Answers` holds the rounds of the
learner's own decisions, `OtherAnswers` those of other processes that decide with the same model.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from onebit.core.jit import inline

HALF = 2**22  # rounds that are dropped at a time
PAGE = 1024  # rounds
PAGE_BYTES = PAGE // 8


def since(rounds: int) -> int:
    """The first round that is stored when there were this many rounds."""
    return max((rounds - 1) // HALF - 1, 0) * HALF


class Marks(NamedTuple):
    """The bits, as compiled code sees them."""

    bits: Any  # eight rounds per byte
    base: Any  # the round of the first bit


@inline
def mark(marks, round):
    place = round - marks.base
    if place >= 0:
        marks.bits[place >> 3] |= np.uint8(1 << (place & 7))


class Answers:
    """The answered rounds of a learner. The argument `rounds` is its number of rounds.

    Most answers come in order. So the latest run of answered rounds, from `first` to `next`, is
    stored as two numbers; `settle` moves it to the bits. No round from `next` on was answered.
    """

    __slots__ = ("base", "bits", "first", "next")

    def __init__(self) -> None:
        self.base, self.bits, self.first, self.next = 0, bytearray(), 0, 0

    def has(self, round: int, rounds: int) -> bool:
        """Whether the round was answered, as far as that is remembered."""
        if round >= self.next or round < since(rounds):
            return False
        place = round - self.base
        byte = self.bits[place >> 3] if place < len(self.bits) << 3 else 0
        return round >= self.first or bool(byte >> (place & 7) & 1)

    def any(self) -> bool:
        """Whether any round was answered, as far as that is remembered."""
        return self.next > self.first or bool(self.bits.strip(b"\0"))

    def mark(self, round: int, rounds: int) -> None:
        """Mark a round that was not answered before."""
        if round >= self.next:
            self.mark_all(round, round + 1, rounds)
            return
        if round - self.base >= len(self.bits) << 3:
            self.reserve(rounds)
        place = round - self.base
        if place >= 0:
            self.bits[place >> 3] |= 1 << (place & 7)

    def mark_all(self, first: int, end: int, rounds: int) -> None:
        """Mark rounds from `first` to `end`. No round from `first` on was answered before."""
        if first > self.next:
            self.settle(rounds)
            self.first = first
        self.next = end

    def settle(self, rounds: int) -> None:
        """Move the latest run to the bits."""
        self.reserve(rounds)
        first, end = max(self.first - self.base, 0), max(self.next - self.base, 0)
        self.first = self.next
        whole = range((first + 7) >> 3, end >> 3)  # bytes
        if whole:
            self.bits[whole.start : whole.stop] = b"\xff" * len(whole)
        before, after = range(first, min(end, 8 * whole.start)), range(8 * whole.stop, end)
        for place in (*before, *after[max(first - after.start, 0) :]):
            self.bits[place >> 3] |= 1 << (place & 7)

    def marks(self, rounds: int) -> Marks:
        """The bits for compiled code, which may mark any of these rounds."""
        self.settle(rounds)
        self.first = self.next = rounds
        return Marks(np.frombuffer(self.bits, np.uint8), self.base)

    def reserve(self, rounds: int) -> None:
        """Make room for this many rounds, and drop rounds that are too old."""
        base = since(rounds)
        if base > self.base:
            self.bits = self.bits[(base - self.base) >> 3 :]
            self.base = base
        needed, have = (rounds - self.base + 7) >> 3, len(self.bits)
        if needed > have:  # a new bytearray: numpy views keep the old one from growing
            self.bits = self.bits + bytes(max(needed, min(2 * have, HALF >> 2), 64) - have)

    def cut(self, rounds: int) -> None:
        """Drop the answers to all but the first `rounds` rounds."""
        place = max(rounds - self.base, 0)
        edge = self.bits[place >> 3 : (place >> 3) + 1]
        if edge:
            edge[0] &= (1 << (place & 7)) - 1
        self.bits = self.bits[: place >> 3] + edge
        self.first, self.next = min(self.first, rounds), min(self.next, rounds)
        base = since(rounds)
        if base < self.base:  # rounds dropped in between stay lost
            self.base, self.bits = base, bytearray((self.base - base) >> 3) + self.bits

    def saved(self, rounds: int) -> dict[str, np.ndarray]:
        """The array to save, if any round was answered. The same answers give the same bytes."""
        self.settle(rounds)
        bits = self.bits[max(since(rounds) - self.base, 0) >> 3 :].rstrip(b"\0")
        return {"answered": np.frombuffer(bits, np.uint8)} if bits else {}

    @classmethod
    def restored(cls, saved: np.ndarray | None, rounds: int) -> Answers:
        """The reverse of `saved`; a ValueError if the array is damaged."""
        answers = cls()
        answers.base = since(rounds)
        if saved is not None:
            good = saved.ndim == 1 and saved.dtype == np.uint8 and len(saved) and saved[-1]
            if not good or 8 * len(saved) - 8 + int(saved[-1]).bit_length() > rounds - answers.base:
                raise ValueError("this model's list of answered rounds is damaged")
            answers.bits = bytearray(saved.tobytes())
            answers.first = answers.next = rounds
        return answers

    def pages(self, rounds: int) -> dict[int, bytes]:
        """The bits in pages, by number; pages without a bit are left out."""
        self.settle(rounds)
        first, bits = self.base // PAGE, bytes(self.bits)
        cut = (bits[at : at + PAGE_BYTES] for at in range(0, len(bits), PAGE_BYTES))
        return {first + i: page.ljust(PAGE_BYTES, b"\0") for i, page in enumerate(cut) if any(page)}

    @classmethod
    def of_pages(cls, pages: dict[int, bytes], rounds: int) -> Answers:
        """The reverse of `pages`."""
        answers = cls()
        answers.reserve(max([rounds, *((number + 1) * PAGE for number in pages)]))
        for number, page in pages.items():
            at = (number * PAGE - answers.base) >> 3
            if at >= 0:
                answers.bits[at : at + PAGE_BYTES] = page
        answers.first = answers.next = rounds
        return answers


class OtherAnswers:
    """Which rounds of other deciders were answered; a decider is known by its salt.

    A page is kept for every 1024 rounds in which a decider had an answer.
    """

    def __init__(self) -> None:
        self._pages: dict[str, dict[int, bytearray]] = {}
        self._since = 0

    def has(self, salt: str, round: int) -> bool:
        """Whether the round was answered, as far as that is remembered."""
        page = self._pages.get(salt, {}).get(round // PAGE)
        return page is not None and bool(page[round % PAGE >> 3] >> (round & 7) & 1)

    def mark(self, salt: str, round: int, rounds: int) -> None:
        """Mark a round. rounds: the learner's number of rounds."""
        if since(rounds) > self._since:
            self._since = since(rounds)
            self._pages = {
                name: kept
                for name, pages in self._pages.items()
                if (kept := {n: page for n, page in pages.items() if n * PAGE >= self._since})
            }
        if round >= self._since:
            page = self._pages.setdefault(salt, {}).setdefault(round // PAGE, bytearray(PAGE_BYTES))
            page[round % PAGE >> 3] |= 1 << (round & 7)

    def take(self, salt: str) -> dict[int, bytes]:
        """Remove the pages of a decider, and return them."""
        return {number: bytes(page) for number, page in self._pages.pop(salt, {}).items()}

    def give(self, salt: str, pages: dict[int, bytes]) -> None:
        """Add the pages of a decider."""
        if pages:
            self._pages[salt] = {number: bytearray(page) for number, page in pages.items()}

    def saved(self) -> tuple[list[str], dict[str, np.ndarray]]:
        """The salts, and arrays to be saved if there are any."""
        salts = sorted(self._pages)
        if not salts:
            return [], {}
        places = [
            (i, number) for i, salt in enumerate(salts) for number in sorted(self._pages[salt])
        ]
        pages = b"".join(self._pages[salts[i]][number] for i, number in places)
        return salts, {
            "others_at": np.array(places, np.int64),
            "others_answered": np.frombuffer(pages, np.uint8).reshape(-1, PAGE_BYTES),
        }

    @classmethod
    def restored(cls, salts: Any, arrays: dict[str, np.ndarray], rounds: int) -> OtherAnswers:
        """The reverse of `saved`, which takes its arrays out; a ValueError if they are damaged."""
        answers = cls()
        answers._since = since(rounds)
        names = [name for name in ("others_at", "others_answered") if name in arrays]
        if not names and not salts:
            return answers
        places, pages = (arrays.pop(name, np.empty(0)) for name in ("others_at", "others_answered"))
        good = (
            len(names) == 2
            and isinstance(salts, list)
            and all(isinstance(salt, str) for salt in salts)
            and len(set(salts)) == len(salts)
            and places.dtype == np.int64
            and pages.dtype == np.uint8
            and places.shape == (len(pages), 2)
            and pages.shape == (len(pages), PAGE_BYTES)
            and len(np.unique(places, axis=0)) == len(places)
            and set(places[:, 0].tolist()) == set(range(len(salts)))
            and ((places[:, 1] >= 0) & (places[:, 1] <= rounds // PAGE)).all()
        )
        if not good:
            raise ValueError("this model's list of answered rounds is damaged")
        for (i, number), page in zip(places.tolist(), pages, strict=True):
            answers._pages.setdefault(salts[i], {})[number] = bytearray(page.tobytes())
        return answers
