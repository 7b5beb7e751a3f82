"""Explain a decision: which words, names or columns support the label, and which oppose it.

Each part of the context is removed in turn, and the rest is scored. The support of a part is the
amount by which the label's lead over the best other label falls without it. This works for every
learner and every kind of context.

A long text has many words, and each is removed from it. So a text is read once
(`texts.columns_without`), and the rest of a dict is not read again for every word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from onebit.learner.looking import as_chances, places_of, score
from onebit.reading.dicts import HASHED, encode_named
from onebit.reading.frames import row_of_frame
from onebit.reading.rows import NO_ENTRIES, row_of_arrays, stacked
from onebit.reading.texts import columns_without, composed, is_text, text_columns

if TYPE_CHECKING:
    from onebit.learner.learner import Learner

MOST_PARTS = 500  # of a context that are tried, the first ones
MOST_ENTRIES = 2**22  # of shortened contexts in memory at a time
SHOWN = 8  # parts in the printed form, for and against
FLOAT64 = np.dtype(np.float64)

Row = tuple[np.ndarray, np.ndarray]  # indices and values
Context = tuple[Row, Row]  # all entries, and the numbers of dicts among them
Part = tuple[str, Callable[[], Context]]  # its name, and a function that makes the rest


class Explanation(NamedTuple):
    """The label that a learner would say for a context, and the reasons.

    Of OneBit and the regressions, `probabilities` has the estimated chance of each label to be
    right, as `Learner.probabilities`. Scores of the remaining learners have no unit.
    """

    label: Any  # the label that is most likely to be said
    greedy: Any  # the label with the best score
    explores: bool  # label and greedy differ: the label is said to explore
    probabilities: dict[Any, float]  # of being right, by label; empty if there is no estimate
    propensities: dict[Any, float]  # by label: the probability of being said
    scores: dict[Any, float]  # by label; the best is the largest
    parts: list[tuple[str, float]]  # of the context, with their support for the label
    left_out: int = 0  # parts that were not tried: those after the first MOST_PARTS
    one_right: float | None = None  # as `Learner.one_right`

    def __str__(self) -> str:
        best = sorted(self.scores, key=lambda label: -self.scores[label])[:5]
        pro = [(part, size) for part, size in self.parts if size > 0]
        contra = [(part, size) for part, size in reversed(self.parts) if size < 0]
        if self.probabilities:
            shares = (f"{label!r} {100 * self.probabilities[label]:.1f} %" for label in best)
            rated = f"probability of being right: {', '.join(shares)}"
        else:
            scores = _listed([(repr(label), self.scores[label]) for label in best])
            rated = f"scores (not probabilities): {scores}"
        lines = [
            f"says {self.label!r}" + self.explores * f", to explore; best is {self.greedy!r}",
            rated,
            f"for {self.label!r}: {_listed(pro[:SHOWN])}",
            f"against {self.label!r}: {_listed(contra[:SHOWN])}",
        ]
        if self.one_right is not None:
            lines.append(f"labels: {world(self.one_right)}")
        if self.left_out:
            lines.append(f"not tried: {self.left_out:,} parts after the first {MOST_PARTS}")
        return "\n".join(lines)


def world(one_right: float) -> str:
    """What a learner believes of labels, in words."""
    if one_right >= 0.5:
        return f"exactly one is right ({100 * one_right:.0f} %)"
    return f"each is right or wrong by itself ({100 - 100 * one_right:.0f} %)"


def _listed(sizes: list[tuple[str, float]]) -> str:
    return ", ".join(f"{name} {size:.3g}" for name, size in sizes) or "nothing"


def explain(learner: Learner, x: Any, among: Any = None) -> Explanation:
    """See `Learner.explain`."""
    law = learner.propensities(x, among=among)
    places = list(range(len(law)) if among is None else places_of(learner, among))
    labels = learner.label_set.names
    names, law = [labels[place] for place in places], law[places]
    x = row_of_frame(x)
    is_named = isinstance(x, str | Mapping)
    whole, every_part = _parts_with_names(learner, x) if is_named else _columns(learner, x)
    parts = every_part[:MOST_PARTS]
    scores = _scores(learner, whole, [rest for _, rest in parts], places)
    greedy = int(scores[0].argmax())
    said = greedy if law[greedy] == law.max() else int(law.argmax())
    rivals = np.delete(scores, said, axis=1)
    lead = scores[:, said] - (rivals.max(axis=1) if rivals.size else 0)
    spoken = [(name, float(lead[0] - lead[1 + i])) for i, (name, _) in enumerate(parts)]
    estimated: dict[Any, float] = {}
    is_told = learner.hears_empty or len(whole[0][0]) + len(whole[1][0])
    if learner.forecasts and is_told:
        estimated = dict(zip(names, as_chances(learner, scores[:1])[0].tolist(), strict=True))
    return Explanation(
        names[said],
        names[greedy],
        said != greedy,
        estimated,
        dict(zip(names, law.tolist(), strict=True)),
        dict(zip(names, scores[0].tolist(), strict=True)),
        sorted((part for part in spoken if part[1]), key=lambda part: -part[1]),
        len(every_part) - len(parts),
        learner.one_right if estimated else None,
    )


def _scores(
    learner: Learner, whole: Context, rests: list[Callable[[], Context]], places: list[int]
) -> np.ndarray:
    """The scores [context, place] of the whole context and of what is left without each part."""
    makers, dtype, found = [lambda: whole, *rests], learner.reader.way.dtype, []
    size = 1 + MOST_ENTRIES // (1 + len(whole[0][0]))
    for start in range(0, len(makers), size):
        rows, numbers = zip(*(make() for make in makers[start : start + size]), strict=True)
        block = stacked(rows, dtype)
        if any(len(indices) for indices, _ in numbers):
            block = block._replace(numbers=stacked(numbers, dtype))
        found.append(score(learner, block, places)[0][:, places].astype(np.float64))
    return np.concatenate(found)


def _columns(learner: Learner, x: Any) -> tuple[Context, list[Part]]:
    """A context without names, and its parts: the columns."""
    reader = learner.reader
    row = indices, values = reader.way.one(x, reader.columns)
    if reader.way.columns:  # a column that is 0 says something, too
        values = np.zeros(reader.way.columns)
        values[indices], indices = row[1], np.arange(len(values), dtype=np.uint32)
    parts: list[Part] = []
    for i, index in enumerate(indices):
        name = reader.names[index] if reader.names else f"column {index}"
        parts.append((name, partial(_without_column, learner, indices, values, i)))
    return (row, NO_ENTRIES), parts


def _without_column(learner: Learner, indices: np.ndarray, values: np.ndarray, i: int) -> Context:
    return learner.reader.way.without(indices, values, i), NO_ENTRIES


def _parts_with_names(learner: Learner, x: str | Mapping[str, Any]) -> tuple[Context, list[Part]]:
    """A text or a dict, and its parts: words, and names whose values are no texts.

    A context is the sum of its pieces, a piece for each name. Without a part, one piece is other.
    """
    columns = HASHED if learner.features is None else learner.features
    pieces: list[Context] = []
    parts: list[Part] = []

    def added_up(pieces: list[Context]) -> Context:
        rows, numbers = zip(*pieces, strict=True) if pieces else ((), ())
        indices, values = _sum(rows)
        row = row_of_arrays(indices.astype(np.int64), values, learner.reader.way.dtype, columns)
        return row, _sum(numbers)

    def rest(place: int, piece: Callable[[], Row]) -> Context:
        return added_up([*pieces[:place], (piece(), NO_ENTRIES), *pieces[place + 1 :]])

    for place, (name, value) in enumerate([("", x)] if isinstance(x, str) else x.items()):
        if value is x or (isinstance(value, str) and is_text(value)):
            prefix, shown = ("", "") if value is x else (f"{composed(name)}=", f"{name} ")
            pieces.append((text_columns(value, columns, prefix), NO_ENTRIES))
            for word, remaining in columns_without(value, columns, prefix):
                parts.append((f"{shown}{word!r}", partial(rest, place, remaining)))
        else:
            pieces.append(encode_named({name: value}, FLOAT64, learner.features))
            parts.append((f"{name}={value}", partial(rest, place, lambda: NO_ENTRIES)))
    return added_up(pieces), parts


def _sum(rows: Sequence[Row]) -> Row:
    """The sum of rows: indices increase, and each comes once."""
    if len(rows) == 1:
        return rows[0]
    rows = [row for row in rows if len(row[0])] or [NO_ENTRIES]
    if len(rows) == 1:
        return rows[0]
    indices, values = (np.concatenate(part) for part in zip(*rows, strict=True))
    order = np.argsort(indices, kind="stable")
    indices = indices[order]
    starts = np.flatnonzero(np.diff(indices, prepend=-1))
    return indices[starts], np.add.reduceat(values[order], starts)
