"""Explain a decision: which words, names or columns support the label, and which oppose it.

Each part of the context is removed in turn, and the rest is scored. The support of a part is the
amount by which the label's lead over the best other label falls without it. This works for every
learner and every kind of context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from onebit.frames import row_of_frame
from onebit.rows import stacked
from onebit.texts import Text, is_text, words_of

if TYPE_CHECKING:
    from onebit.learner import Learner

MOST_PARTS = 500  # of a context that are tried, the first ones
SHOWN = 8  # parts in the printed form, for and against


class Explanation(NamedTuple):
    """The label that a learner would say for a context, and the reasons.

    Scores are no probabilities. OneBit's estimate the probability that a label is right, but may be
    below 0 or above 1, and need not sum to 1. Scores of the remaining learners have no unit.
    """

    label: Any  # the label that is most likely to be said
    greedy: Any  # the label with the best score
    explores: bool  # label and greedy differ: the label is said to explore
    probabilities: dict[Any, float]  # of being said, by label
    scores: dict[Any, float]  # by label; the best is the largest
    parts: list[tuple[str, float]]  # of the context, with their support for the label
    left_out: int = 0  # parts that were not tried: those after the first MOST_PARTS

    def __str__(self) -> str:
        best = sorted(self.scores, key=lambda label: -self.scores[label])[:5]
        pro = [(part, size) for part, size in self.parts if size > 0]
        contra = [(part, size) for part, size in reversed(self.parts) if size < 0]
        scores = _listed([(repr(label), self.scores[label]) for label in best])
        lines = [
            f"says {self.label!r}" + self.explores * f", to explore; best is {self.greedy!r}",
            f"scores (not probabilities): {scores}",
            f"for {self.label!r}: {_listed(pro[:SHOWN])}",
            f"against {self.label!r}: {_listed(contra[:SHOWN])}",
        ]
        if self.left_out:
            lines.append(f"not tried: {self.left_out:,} parts after the first {MOST_PARTS}")
        return "\n".join(lines)


def _listed(sizes: list[tuple[str, float]]) -> str:
    return ", ".join(f"{name} {size:.3g}" for name, size in sizes) or "nothing"


def explain(learner: Learner, x: Any, among: Any = None) -> Explanation:
    """See `Learner.explain`."""
    law = learner.probabilities(x, among=among)
    row = learner._encode(x, learner._columns)
    whole = list(_without_parts(learner, x, row))
    parts = [(name, shortened()) for name, shortened in whole[:MOST_PARTS]]
    rows = stacked([row, *(shortened for _, shortened in parts)], learner._row_dtype)
    scores = learner.scores(rows).astype(np.float64)
    possible = range(len(learner.labels)) if among is None else learner._places(among)
    named, labels = scores[0], learner.labels
    greedy = max(possible, key=lambda place: (named[place], -place))
    said = greedy if law[greedy] == law.max() else int(law.argmax())
    rivals = [place for place in possible if place != said]
    lead = scores[:, said] - (scores[:, rivals].max(axis=1) if rivals else 0)
    spoken = [(name, float(lead[0] - lead[1 + i])) for i, (name, _) in enumerate(parts)]
    return Explanation(
        labels[said],
        labels[greedy],
        said != greedy,
        {labels[place]: float(law[place]) for place in possible},
        {labels[place]: float(named[place]) for place in possible},
        sorted((part for part in spoken if part[1]), key=lambda part: -part[1]),
        len(whole) - len(parts),
    )


def _without_parts(learner: Learner, x: Any, row: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The names of the parts of a context, and functions that make the rows without them."""
    x = row_of_frame(x)
    if isinstance(x, str | Mapping):
        shorter = _without_words(x) if isinstance(x, str) else _without_names(x)
        for name, remaining in shorter:
            yield name, partial(_encoded, learner, remaining)
        return
    indices, values = row
    if learner._reads_columns:  # a column that is 0 says something, too
        values = np.zeros(learner._column_count)
        values[indices], indices = row[1], np.arange(len(values), dtype=np.uint32)
    for i in range(len(indices)):
        name = learner._names[indices[i]] if learner._names else f"column {indices[i]}"
        yield name, partial(learner._without, indices, values, i)


def _encoded(learner: Learner, remaining: Callable[[], Any]) -> Any:
    return learner._encode(remaining(), 0)


def _without_words(text: str) -> Iterator[tuple[str, Callable[[], str]]]:
    words = words_of(text)
    for word in dict.fromkeys(words):
        yield repr(word), partial(_joined_without, words, word)


def _joined_without(words: list[str], word: str) -> str:
    return " ".join(kept for kept in words if kept != word)


def _without_names(x: Mapping[str, Any]) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    for name, value in x.items():
        if isinstance(value, str) and is_text(value):
            for word, remaining in _without_words(value):
                yield f"{name} {word}", partial(_with_text, x, name, remaining)
        else:
            yield f"{name}={value}", partial(_without_name, x, name)


def _with_text(x: Mapping[str, Any], name: str, text: Callable[[], str]) -> dict[str, Any]:
    return {**x, name: Text(text())}


def _without_name(x: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: kept for key, kept in x.items() if key != name}
