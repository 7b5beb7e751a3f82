"""Requests of a page of `onebit teach`, and the checks of labels and names that people type."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from onebit.service.faults import Refused
from onebit.service.messages import END, Label

LONGEST_LABEL = 100
# Parts of emoji, and of words in Persian or Hindi.
_JOINERS: dict[int, None] = dict.fromkeys((0x200C, 0x200D))

Order = Literal["order", "random", "unsure"]
Who = Annotated[str, Meta(max_length=60)]


class Ask(Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """What a person wants to be asked."""

    order: Order = "random"
    only: Label | None = None  # is it this label?
    again: bool = True  # a second guess where the first was wrong


class PageRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """A request of a page: who asks, the guesses that it holds, and what it wants next."""

    page: Annotated[str, Meta(min_length=1, max_length=64)]
    browser: Annotated[str, Meta(pattern=f"^[0-9a-f]{{0,32}}{END}")] = ""  # undo stays within it
    have: Annotated[list[str], Meta(max_length=64)] = []
    seen: str | None = None  # the guess on its screen, which must not change any more
    ask: Ask = Ask()


class AnswerRequest(PageRequest, forbid_unknown_fields=True, kw_only=True):
    """The answer to a guess: right, wrong, or the true label."""

    id: str
    right: bool | UnsetType = UNSET
    label: Label | UnsetType = UNSET
    who: Who = ""


class GuessRequest(PageRequest, forbid_unknown_fields=True, kw_only=True):
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


def verdict_of(given: AnswerRequest | Revision) -> tuple[bool | None, Label | None]:
    """Whether a guess was right, or the true label: one of the two."""
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
