"""What can be taught: items with keys, contexts and pictures, from whatever source.

Items are numbered from 0 to len - 1. An item's key stays the same when its source is opened again,
also if other items were added or taken away.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from onebit.service.teach.sources.ahead import Ahead, Recent
from onebit.service.teach.sources.images import EDGE, shown

Kind = Literal["image", "text", "row"]
Embed = Callable[[Any], Any]
Skipped = tuple[str, str]  # a key, or where it is in the source, and the reason

MOST_ITEMS = 1_000_000
MOST_MEMORY = 2**26  # bytes of pictures, and again of vectors
LONGEST_TITLE = 80


class Item(NamedTuple):
    """An item as a person sees it."""

    key: str
    kind: Kind
    title: str  # one printable line
    text: str = ""
    fields: Mapping[str, Any] = {}  # the columns of a table's row


class ItemError(ValueError):
    """An item cannot be used."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{shown(key, 200)}: {reason}")
        self.key, self.reason = key, reason


class Items:
    """The items of a source. Several threads may use them at once.

    `context` and `picture` raise an ItemError for an item that turns out to be unusable; from then
    on it is in `skipped`.
    """

    kind: Kind
    labels: Sequence[str] = ()  # the labels that suggest themselves

    def __init__(self, name: str, keys: list[str], skipped: list[Skipped], embed: Embed | None):
        self.name, self.skipped = name, skipped
        self._keys, self._embed = keys, embed
        self._numbers: dict[str, int] = {}
        self._reasons: dict[int, str] = {}
        self._vectors: Recent[np.ndarray] = Recent(MOST_MEMORY)
        self._width = 0  # of embeddings; 0: there was none yet
        self._lock = threading.Lock()
        self._ahead = Ahead(self._make_quietly, self._made_in_order(), self._is_enough)

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, i: int) -> Item:
        """Item i."""
        raise NotImplementedError

    def context(self, i: int) -> Any:
        """What the learner sees of item i: a text, a dict, or a vector."""
        self._refuse_unusable(i)
        if self._embed is None:
            return self._plain_context(i)
        key = i, self.version(i)
        vector = self._vectors.get(key)
        if vector is None:
            vector = self._embedded(i)
            self._vectors.put(key, vector, vector.nbytes)
        return vector

    def picture(self, i: int, size: int = EDGE) -> tuple[bytes, str]:
        """A picture of item i and its media type. size: pixels of its longer side, about."""
        raise ItemError(self._keys[i], f"a {self.kind} has no picture")

    def version(self, i: int) -> str:
        """Which content item i has now: another text when it has changed."""
        return ""

    def prepare(self, *numbers: int) -> None:
        """Make these items ready in the background, the first one first."""
        missing = [i for i in numbers if not self.ready(i)]
        if missing or self._made_in_order():
            self._ahead.want(missing)

    def ready(self, i: int) -> bool:
        """Whether `context` and `picture` answer at once, be it with an ItemError."""
        if self._embed is None or i in self._reasons:
            return True
        return (i, self.version(i)) in self._vectors

    def usable(self, i: int) -> bool:
        """Whether nothing is known against item i."""
        return i not in self._reasons

    def usable_count(self) -> int:
        """How many items nothing is known against."""
        return len(self) - len(self._reasons)

    def key(self, i: int) -> str:
        """The key of item i."""
        return self._keys[i]

    def number(self, key: str) -> int | None:
        """The number of the item with this key, if there is one."""
        if not self._numbers:
            self._numbers = {key: i for i, key in enumerate(self._keys)}
        return self._numbers.get(key)

    def close(self) -> None:
        """Stop the work in the background."""
        self._ahead.close()

    def __enter__(self) -> Items:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What kinds of items differ in.

    def _plain_context(self, i: int) -> Any:
        raise NotImplementedError

    def _embeddable(self, i: int) -> Any:
        """What is given to the user's embedding."""
        return self._plain_context(i)

    def _make(self, i: int) -> None:
        """Make what `ready` waits for."""
        self.context(i)

    def _made_in_order(self) -> int:
        """How many items the background makes without being asked."""
        return 0

    def _is_enough(self) -> bool:
        """Whether the background has to stop doing so."""
        return True

    # What they share.

    def _make_quietly(self, i: int) -> None:
        with contextlib.suppress(Exception):  # whoever asks for the item is told
            self._make(i)

    def _refuse_unusable(self, i: int) -> None:
        if i in self._reasons:
            raise ItemError(self._keys[i], self._reasons[i])

    def _unusable(self, i: int, reason: str) -> ItemError:
        """The error about an item, which is skipped from now on."""
        with self._lock:
            if i not in self._reasons:
                self._reasons[i] = reason
                self.skipped.append((self._keys[i], reason))
        return ItemError(self._keys[i], reason)

    def _embedded(self, i: int) -> np.ndarray:
        assert self._embed is not None
        given = self._embeddable(i)
        try:
            vector = np.asarray(self._embed(given), np.float32)
        except Exception as error:
            said = shown(f"{type(error).__name__}: {error}", 200)
            raise self._unusable(i, f"the embedding failed with {said}") from error
        if vector.ndim != 1 or not len(vector):
            problem = f"the embedding has the shape {vector.shape}, but must be one row of numbers"
            raise self._unusable(i, problem)
        if not np.isfinite(vector).all():
            raise self._unusable(i, "the embedding has numbers that are not finite")
        with self._lock:
            self._width = self._width or len(vector)
        if len(vector) != self._width:
            problem = f"the embedding has {len(vector)} numbers, and those before {self._width}"
            raise self._unusable(i, problem)
        return vector
