"""What is right in a round: one label, or several, or each with a chance.

A stream has one record for all its rows (`TrueLabels`, `Rights`, `Chances`), and each round has one
for its row (`truth_at`). The loops over rounds ask only the functions below, which have a body per
record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from onebit.core.draws import uniform
from onebit.core.jit import generic, implement
from onebit.feedback.channels import (
    NOISE_ALL,
    NOISE_OTHERS,
    Link,
    drifted,
    heard,
    noisy,
    undrifted,
)

if TYPE_CHECKING:
    from onebit.learner.learner import Learner

# Whether a label with a chance is right is drawn from the stream of this number plus the label's
# place: neither learners nor channels nor data use them.
RIGHT_DRAW = 4 * 10**6


class TrueLabels(NamedTuple):
    """Exactly one label is right."""

    places: Any  # [row]


class Rights(NamedTuple):
    """Several labels may be right, or none."""

    matrix: Any  # [row, label]: 1 where the label is right, else 0
    steps: Any  # of the channel, some of which are drift


class Chances(NamedTuple):
    """Each label is right with a chance, drawn anew in each round."""

    matrix: Any  # [row, label]
    steps: Any


class OneRight(NamedTuple):
    """In this round, this label is right."""

    label: Any


class RightsOfRow(NamedTuple):
    """In this round, the labels of this row of the matrix are right."""

    matrix: Any
    steps: Any
    row: Any


class ChancesOfRow(NamedTuple):
    """In this round, labels are right with the chances of this row of the matrix."""

    matrix: Any
    steps: Any
    row: Any


@generic
def truth_at(truths, i):
    """What is right in row i of a stream."""
    return OneRight(truths.places[i])


@generic
def drifted_truth(truth, link, turn):
    """What is right in this round after drift. (The records of matrices drift when asked.)"""
    return truth


@generic
def mistake(truth, turn, label):
    """How wrong it is to say the label: 1 or 0, or between them, the chance that it is wrong."""
    return int(label != truth.label)


@generic
def is_right(truth, turn, label):
    """Whether the label is right in this round."""
    return label == truth.label


@generic
def named_label(truth):
    """The true label, for learners that are told it; -1 if there is no such label."""
    return truth.label


@generic
def answer(truth, link, turn, said):
    """The bit about the said label, and the true label, both after the channel."""
    named = noisy(link, turn.round, truth.label, turn.count)
    return heard(link, turn.round, int(said == named)), named


@implement(truth_at, Rights)
def _rights_at(truths, i):
    return RightsOfRow(truths.matrix, truths.steps, i)


@implement(truth_at, Chances)
def _chances_at(truths, i):
    return ChancesOfRow(truths.matrix, truths.steps, i)


@implement(drifted_truth, OneRight)
def _drifted_label(truth, link, turn):
    return OneRight(drifted(link, turn.round, truth.label, turn.count))


@implement(mistake, RightsOfRow)
def _is_mistake(truth, turn, label):
    column = undrifted(truth.steps, turn.seed, turn.round, label, turn.count)
    return int(truth.matrix[truth.row, column] == 0)


@implement(mistake, ChancesOfRow)
def _chance_of_mistake(truth, turn, label):
    column = undrifted(truth.steps, turn.seed, turn.round, label, turn.count)
    return 1.0 - truth.matrix[truth.row, column]


@implement(is_right, RightsOfRow)
def _is_among(truth, turn, label):
    column = undrifted(truth.steps, turn.seed, turn.round, label, turn.count)
    return truth.matrix[truth.row, column] != 0


@implement(is_right, ChancesOfRow)
def _is_drawn(truth, turn, label):
    column = undrifted(truth.steps, turn.seed, turn.round, label, turn.count)
    return uniform(turn.seed, turn.round, RIGHT_DRAW + column) < truth.matrix[truth.row, column]


@implement(named_label, RightsOfRow, ChancesOfRow)
def _no_label(truth):
    return -1


@implement(answer, RightsOfRow, ChancesOfRow)
def _answer_of_several(truth, link, turn, said):
    return heard(link, turn.round, int(is_right(truth, turn, said))), -1


# Python's side: the records for what users give.

Truths = TrueLabels | Rights | Chances
_MEANING = (
    "a matrix y has a column for each label: 1 where the label is right, 0 where it is wrong, or "
    "the chance that it is right"
)


def truths_of(learner: Learner, y: Any, names: Sequence[Any] | None = None) -> Truths:
    """What is right, by the true label of each row or by a matrix [row, label].

    names: of the columns of a matrix; default: those of a frame, else the learner's labels.
    """
    if not is_matrix(y):
        return TrueLabels(learner.label_set.places(y))
    names = list(y.columns) if names is None and hasattr(y, "columns") else names
    matrix = matrix_of(y)
    if matrix.shape[1] != len(learner.labels):
        swapped = "; or are X and y swapped?" if matrix.shape[1] > 1 else "; y.ravel() has labels"
        raise ValueError(
            f"y has {matrix.shape[1]} columns and the learner {len(learner.labels)} labels; "
            f"{_MEANING}{swapped}"
        )
    if learner.full_information:
        raise ValueError(
            f"{type(learner).__name__} learns from the true label of each row, and in a matrix "
            "several labels of a row may be right, or none; take a learner with one-bit feedback, "
            "or, if exactly one label of each row is right, pass y.argmax(axis=1)"
        )
    if names is not None:
        matrix = np.ascontiguousarray(matrix[:, _columns_of(learner.labels, names)])
    kind = Rights if matrix.dtype == np.uint8 else Chances
    return kind(matrix, np.empty((0, 4)))


def is_matrix(y: Any) -> bool:
    """Whether y has a column per label: an array, a sparse matrix, a frame or a list of lists."""
    if hasattr(y, "shape"):
        return len(y.shape) == 2
    if not isinstance(y, Sequence) or not all(isinstance(row, list | tuple) for row in y):
        return False
    return len({len(row) for row in y}) == 1


def matrix_of(y: Any) -> np.ndarray:
    """A matrix of bytes, 0 or 1; or of chances, float64."""
    given = y.toarray() if hasattr(y, "toarray") else np.asarray(y)
    if given.ndim != 2 or given.dtype.kind not in "biuf":
        raise TypeError(f"{_MEANING}; this one has {given.dtype}")
    outside = ~((given >= 0) & (given <= 1))  # NaN as well
    if outside.any():
        row, column = np.argwhere(outside)[0]
        hint = "; or are X and y swapped?"
        if given.shape[1] == 1:
            hint = "; for a single column of labels, give one dimension: y.ravel(), frame['label']"
        found = f"row {row} of y has {given[row, column]} in column {column}"
        raise ValueError(f"{found}; {_MEANING}{hint}")
    is_certain = given.dtype.kind != "f" or ((given == 0) | (given == 1)).all()
    return np.ascontiguousarray(given, np.uint8 if is_certain else np.float64)


def _columns_of(labels: Sequence[Any], names: Sequence[Any]) -> list[int]:
    """The column of each label. Names of columns may be numbers written as strings."""
    column = {str(name): i for i, name in enumerate(names)}
    for label in labels:
        if str(label) not in column:
            raise ValueError(
                f"the matrix of y has no column for the label {label!r}; its columns are "
                f"{', '.join(list(column)[:8])}{', ...' if len(column) > 8 else ''}"
            )
    return [column[str(label)] for label in labels]


def size_of(truths: Truths) -> int:
    """The number of rows."""
    return len(truths[0])


def after_unused(truths: Truths, rows: int) -> Truths:
    """With so many rows in front, which are not asked for."""
    unused = np.zeros((rows, *truths[0].shape[1:]), truths[0].dtype)
    return truths._replace(**{truths._fields[0]: np.concatenate([unused, truths[0]])})


def through(truths: Truths, link: Link) -> Truths:
    """With the drift of a channel, which is refused where it does not fit."""
    if isinstance(truths, TrueLabels):
        return truths
    if np.isin(link.steps[:, 0], (NOISE_OTHERS, NOISE_ALL)).any():
        raise ValueError(
            "LabelNoise replaces the true label of a row, and in a matrix several labels may be "
            "right; use Flip, which makes answers false"
        )
    return truths._replace(steps=link.steps)


def no_counts(truths: Truths, *shape: int) -> np.ndarray:
    """Zeros for the counts of a run: mistakes are not whole numbers where there are chances."""
    return np.zeros(shape, np.float64 if isinstance(truths, Chances) else np.int64)


def mean_mistakes(truths: Truths, said: np.ndarray) -> float:
    """The share of rows in which these labels are wrong."""
    if isinstance(truths, TrueLabels):
        return float(np.mean(said != truths.places))
    return float(1 - truths.matrix[np.arange(len(said)), said].mean())
