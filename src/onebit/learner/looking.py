"""Look at what a learner has learned: scores, chances, the law of its next decision.

Nothing learned changes. A feature that never occurred has the initial values, as if `decide` had
made room for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onebit.core.rounds import Work
from onebit.core.settings import shown
from onebit.learner.calls import score_rows
from onebit.learner.decision import Decision
from onebit.learner.forgetting import fade
from onebit.learner.laying import after_meeting
from onebit.reading.rows import Rows, rows_of

if TYPE_CHECKING:
    from onebit.learner.learner import Learner


def score(
    learner: Learner, X: Any, possible: Sequence[int] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The scores of many rows, and the places of their greedy labels.

    possible: the places of the labels that may be said, if not all may.
    """
    rows = learner.reader.many(X, learner)
    if rows.columns:
        met = after_meeting(learner, rows.columns)
        if met is not learner:
            return score(met, rows, possible)
    with learner.lock:
        reader, state, rows = to_read(learner, rows)
        table, size = reader.table, len(rows.indptr) - 1
        scores, places = np.empty((size, table.size), table.dtype), np.empty(size, np.int64)
        work = table.work if possible is None else table.restricted(possible)
        args = (reader.params, state, work, *rows[:3], learner.round, scores, places)
        reader.calls.compiled(score_rows, *args)(*args)
        return scores, places


def to_read(learner: Learner, rows: Rows) -> tuple[Learner, Any, Rows]:
    """The learner or a copy, with a state and rows to be scored."""
    table = learner.table
    if rows.width > len(table.state.table) and not table.storage.shares_blank:
        table.check_width(rows.width, False)
        wider = learner.copy()
        wider.table.reserve(rows.width)
        return to_read(wider, rows)
    table.make_room_to_scale(int(np.diff(rows.indptr).max(initial=0)))
    return learner, *table.found(rows)


def as_chances(learner: Learner, scores: np.ndarray, are_told: Any = True) -> np.ndarray:
    """Scores as chances of being right. are_told: False where a context is empty."""
    if learner.chance_line is None:
        raise TypeError(
            f"the scores of {type(learner).__name__} only order the labels: they do not estimate "
            "how likely a label is right. OneBit, Confidit, FastCB and SquareCB estimate it"
        )
    low, factor = learner.chance_line
    found = np.clip((scores.astype(np.float64) - low) * factor, 0.0, 1.0)
    found[~np.broadcast_to(are_told, len(found))] = np.nan
    return found


def present_scores(learner: Learner, decision: Decision) -> np.ndarray:
    """The present scores of a decision's context; -infinity for labels not possible then."""
    indices, values = decision.row
    rows = rows_of(indices, values, np.array([0, len(indices)]))
    scores = score(learner, rows)[0][0].astype(np.float64)
    possible = range(decision.size) if decision.among is None else decision.among
    scores[sorted(set(range(learner.table.size)) - set(possible))] = -np.inf
    return scores


def propensities(
    learner: Learner, x: Any, among: Iterable[Any] | None = None, show: int | None = None
) -> np.ndarray:
    """See `Learner.propensities`."""
    (indices, values), _, x, columns, _ = learner.reader.one(x, learner)
    met = after_meeting(learner, columns)
    if met is not learner:
        return propensities(met, x, among, show)
    with learner.lock:
        if learner.round >= learner.fading.at:  # `decide` would fade first; here a copy does
            faded = learner.copy()
            fade(faded, learner.round)
            return propensities(faded, (indices, values), among, show)
        table = learner.table
        places = range(table.size) if among is None else places_of(learner, among)
        work, count = table.restricted(places), len(places)
        return _law(learner, work, indices, values, learner.round, count, show)


def propensities_then(learner: Learner, decision: Decision, is_counted: bool) -> np.ndarray:
    """The probability of each label to be said in the last decision.

    is_counted: it was made, and not only proposed.
    """
    with learner.lock:
        work, count = as_then(learner, decision)
        times, held = int(is_counted), learner.table.state.held
        learner.table.storage.count_said(held, decision.place, -times)
        try:
            return _law(learner, work, *decision.row, decision.round, count)
        finally:
            learner.table.storage.count_said(held, decision.place, times)


def _law(
    learner: Learner,
    work: Work,
    indices: np.ndarray,
    values: np.ndarray,
    round: int,
    count: int,
    show: int | None = None,
) -> np.ndarray:
    """The probability of each label to be said, or to be in a list of so many."""
    row = Rows(indices, values, np.array([0, len(indices)]), learner.reader.way.width(indices))
    reader, state, row = to_read(learner, row)
    work = reader.table.work._replace(mask=work.mask)
    args = (learner.params, state, work, *row[:2], learner.draw_seed, round, count)
    if show is None:
        reader.calls.propensities(*args)
    else:
        reader.calls.list_propensities(*args, *np.empty((2, min(show, count)), np.int64))
    return work.propensities[: learner.table.size].copy()


# Which labels are possible.


def places_of(learner: Learner, among: Iterable[Any]) -> tuple[int, ...]:
    """The places of the labels that are possible this time."""
    if isinstance(among, str | bytes) or not isinstance(among, Iterable):
        raise TypeError(f"among must be a list of labels, not {shown(among)}")
    places = tuple(sorted({learner.label_set.place(label) for label in among}))
    if not places:
        raise ValueError("among is empty: at least one label must be possible")
    return places


def as_then(learner: Learner, decision: Decision) -> tuple[Work, int]:
    """Scratch space and the number of possible labels, as at the time of the decision."""
    table, places = learner.table, decision.among
    if places is None:
        if decision.size == table.size:
            return table.work, table.size
        places = range(decision.size)
    return table.restricted(places), len(places)
