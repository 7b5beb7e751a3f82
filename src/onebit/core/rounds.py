"""A round: the records that algorithms pass around, and the functions that they implement.

An algorithm says what to do in a round by compiled functions, members of its class:

- `score`: fill `work.scores` (and `work.widths`, the variances, if it has them) for one row;
- `say`: from these, choose a label, and return its probability;
- `law`: fill `work.propensities`, the law by which `say` chooses;
- `could_say`: whether `say` can have made this choice in some earlier round; forged decisions are
  refused by it;
- `hear`: learn from one bit (`hear_label`: from the true label, for references). Both may read
  `work`, which holds the row's scores under the present state. They are called for rows that
  `teaches` something: most learners learn nothing from an empty row;
- `lockstep`: the update of a label's weights, such as `add`. In lockstep, updates wait until the
  row is done.

The whole-stream loop and the round-by-round calls are built from these same functions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from onebit.core.jit import generic, inline


class Work(NamedTuple):
    """Scratch space, one number per lane, and the places of features in the table."""

    scores: Any
    widths: Any
    bounds: Any
    mask: Any  # 0 where the label may be said, -infinity elsewhere
    propensities: Any  # float64, also with float32 weights
    slots: Any = None  # where features are in the table: see `core.slots`
    places: Any = None  # those of one row
    scales: Any = None  # by which rows are scaled; None: they are taken as they come


class Row(NamedTuple):
    """One context: its non-zero values are `values[start:stop]`.

    `indices[start:stop]` are the rows of the table that belong to them. The indices are all
    different; they increase, unless the features have been given places (`core.slots`).
    """

    indices: Any
    values: Any
    start: Any
    stop: Any


class Turn(NamedTuple):
    """Which round this is, and how many labels may be said in it."""

    seed: Any
    round: Any
    count: Any


class Choice(NamedTuple):
    """The said label, and the numbers that learning needs later."""

    label: Any
    greedy: Any
    propensity: Any  # negative: not computed; `law` gives it
    note: Any  # a number that `hear` gets back with the feedback
    second_note: Any  # another such number; in a `Decision` it is called `other`


@generic
def score(params, state, work, row, turn): ...


@generic
def say(params, state, work, turn): ...


@generic
def law(params, state, work, turn): ...


@generic
def hear(params, state, work, row, turn, choice, right):
    return False  # references learn from the label


@generic
def hear_label(params, state, work, row, turn, label):
    return False  # most learners hear one bit


@generic
def noted(params, state, work, turn, choice):
    """The choice with the numbers of its label, which is another one than `say` chose.

    An algorithm whose choices note something about the said label has its own body."""
    return choice


@generic
def could_note(params, state, work, row, turn, choice):
    """Whether `noted` can have noted these numbers; forged decisions are refused by it."""
    return choice.note == 0.0 and choice.second_note == 0.0


@generic
def teaches(state, row):
    """Whether something can be learned from a row."""
    return row.start < row.stop


@generic
def could_say(params, state, work, row, turn, choice): ...


@generic
def scaled(work, row):
    """The row as an algorithm reads it. If it is scaled, it is there until the next call."""
    return row


@generic
def may_mark(work):
    """Whether the indices of numbers are marked (see `storage.scales`)."""
    return False


@generic
def takes_gaps(record):
    """Whether rows may have gaps: missing numbers, NaN. record: the state or the scratch space."""
    return False


@generic
def learn_scales(work, row):
    """Take an answered row, as it came, into the scales."""
    return


@generic
def settle(params, state, row):
    """Make the waiting updates. Algorithms that update replica by replica have none."""


@generic
def must_pause(state):
    """Whether a loop over rounds has to stop here, so that the learner can act in Python."""
    return False


@generic
def count_said(state, label, times):
    """Add to the number of times that a label was said, if the state counts it."""
    return


@generic
def undo_drift(state, before):
    """The last answer was about a label that the learner would not have said: no sign of drift.

    before: the numbers besides the table, before that answer."""
    return


@inline
def next_row(stream, i, t):
    """The number of the row of round t in a stream. i: the number in the round before."""
    if len(stream.order):
        return stream.order[t]
    return i + 1 if i + 2 < len(stream.indptr) else 0
