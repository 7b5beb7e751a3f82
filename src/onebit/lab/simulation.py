"""simulate: a whole stream in compiled code, with counts at check points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from onebit.core.settings import function_or_none, shown, warn, whole
from onebit.feedback.channels import ChannelStep, check_delays, link_to, steps_of
from onebit.lab.stream_loop import NoChannel, Pending, Stream, ThroughChannel, nothing_pending, run
from onebit.lab.truth import (
    TrueLabels,
    Truths,
    after_unused,
    is_matrix,
    no_counts,
    size_of,
    through,
    truths_of,
)
from onebit.learner.learner import Learner
from onebit.learner.streaming import Passage
from onebit.reading.dicts import own_categories
from onebit.reading.frames import listed, table_in, warn_of_categories
from onebit.reading.rows import Rows

_LOOKED_AT = 1000  # rows, in search of strings that nearly all differ
_ENDLESS = 10**15  # rounds: more than any stream has


class Trace(NamedTuple):
    """The result of a run: counts up to each check point, as arrays."""

    rounds: np.ndarray
    mistakes: np.ndarray  # the said label was wrong; expected mistakes if y has chances
    greedy_mistakes: np.ndarray  # the greedy label was
    explored: np.ndarray  # the said label was not the greedy one
    updates: np.ndarray  # rounds that changed the weights

    @property
    def error(self) -> np.ndarray:
        """Mean mistakes up to each check point."""
        return self.mistakes / self.rounds

    @property
    def greedy_error(self) -> np.ndarray:
        """Mean greedy mistakes up to each check point."""
        return self.greedy_mistakes / self.rounds


def trace_of(points: np.ndarray, counts: np.ndarray) -> Trace:
    """counts: [point, mistakes and so on]."""
    mistakes, greedy_mistakes, explored, updates = counts.T.copy()
    whole_numbers = (points, explored, updates)
    rounds, explored, updates = (numbers.astype(np.int64) for numbers in whole_numbers)
    return Trace(rounds, mistakes, greedy_mistakes, explored, updates)


class _Carried:
    """State between chunks: feedback on its way, and the rows that it is about."""

    def __init__(self) -> None:
        self.pending: Pending | None = None
        self._rows: Rows | None = None
        self.kept = 0

    def in_front_of(self, rows: Rows, truths: Truths) -> tuple[Rows, Truths]:
        """The kept rows, then these. What is right in kept rows is not asked again."""
        if self._rows is None:
            return rows, truths
        return _joined(self._rows, rows), after_unused(truths, self.kept)

    def keep(self, pending: Pending, rows: Rows, rounds: int) -> None:
        """Keep the last rows of a chunk of `rounds` rounds, as many as may still get feedback."""
        held = len(rows.indptr) - 1
        self.kept = min(held, len(pending.first) - 1)
        self._rows = _last(rows, self.kept) if self.kept else None
        pending.places[:, 0] -= held - self.kept
        self.pending = pending._replace(before=pending.before + rounds)


def _joined(kept: Rows, rows: Rows) -> Rows:
    indptr = np.concatenate([kept.indptr, rows.indptr[1:] + kept.indptr[-1]])
    indices = np.concatenate([kept.indices, rows.indices])
    values = np.concatenate([kept.values, rows.values])
    width = max(kept.width, rows.width)
    joined = Rows(indices, values, indptr, width, rows.columns, names=rows.names)
    return joined._replace(kind=kept.kind or rows.kind)


def _last(rows: Rows, count: int) -> Rows:
    indptr = rows.indptr[len(rows.indptr) - 1 - count :]
    part = slice(indptr[0], indptr[-1])
    made = Rows(rows.indices[part].copy(), rows.values[part].copy(), indptr - indptr[0], rows.width)
    return made._replace(kind=rows.kind)


def check_points(rounds: int) -> list[int]:
    """1, 2, 5, 10, 20, 50, ... and the last round."""
    points, power = [], 1
    while power <= rounds:
        points += [step * power for step in (1, 2, 5) if step * power < rounds]
        power *= 10
    return [*points, rounds]


def simulate(
    learner: Learner,
    X: Any,
    y: Any = None,
    *,
    epochs: int = 1,
    order: Literal["given", "shuffled"] | Sequence[int] | np.ndarray = "given",
    checkpoints: Sequence[int] | None = None,
    channel: ChannelStep | Sequence[ChannelStep] = (),
    progress: Callable[[int], None] | None = None,
) -> Trace:
    """Run a learner over labelled rows as if the labels were hidden, and count its mistakes.

    X: an array, a sparse matrix, or a list of contexts. y: their true labels; a learner with
    one-bit feedback receives only whether the said label was right. Or y is a matrix with a column
    per label: 1 where the label is right and 0 where it is wrong, or the chance that it is right.
    With chances, whether the said label is right is drawn in each round, and mistakes are expected
    mistakes: the sum of 1 - chance of the said labels. epochs: the number of passes.
    order: "given", "shuffled" in each epoch by the learner's seed, or row numbers.
    checkpoints: the rounds after which to count; default 1, 2, 5, 10, 20, ... channel: changes to
    the feedback on its way, a channel or a list of them; mistakes are counted against the truth.
    progress: called at intervals with the number of rounds done.

    Without y, X is a Dataset or an iterator of chunks, each a Dataset or a pair (X, y). Chunks run
    one after another, in constant memory, with the same result as all rows at once. Check points
    after the last round are left out. Rows whose feedback is late are kept until it comes.

    The learner continues from its present state. Its state afterwards is the same, bit for bit, as
    after `decide` and `learn` in each round.
    """
    if not isinstance(learner, Learner):
        raise TypeError(
            f"simulate needs a learner, such as Banditron(labels=9), not {shown(learner)}"
        )
    channel = steps_of(channel)
    function_or_none("progress", progress)
    if y is not None or hasattr(X, "labels"):  # a whole Dataset
        X, truths = rows_and_truths(learner, X if y is None else (X, y))
        return simulate_rows(learner, X, truths, epochs, order, checkpoints, channel, progress)
    if whole("epochs", epochs, least=1, most=10**9) != 1 or not _is_given(order):
        raise ValueError("chunks come once and in order: leave out epochs and order")
    return _in_chunks(learner, X, checkpoints, channel, progress)


def _is_given(order: Any) -> bool:
    return isinstance(order, str) and order == "given"


def _truths_in(learner: Learner, data: Any) -> Truths:
    """What is right in the rows of a Dataset."""
    if is_matrix(data.y):
        return truths_of(learner, data.y, data.labels)
    try:
        return TrueLabels(learner.label_set.places(np.asarray(data.labels))[data.y])
    except ValueError:
        raise ValueError(
            f"the data have labels that the learner does not have: {_listed(data.labels)} are not "
            f"all among {_listed(learner.labels)}; make the learner with the labels of the data"
        ) from None


def _listed(labels: Sequence[Any]) -> str:
    return ", ".join(repr(label) for label in labels[:8]) + (", ..." if len(labels) > 8 else "")


def _in_chunks(
    learner: Learner,
    chunks: Iterable[Any],
    checkpoints: Sequence[int] | None,
    channel: Sequence[ChannelStep],
    progress: Callable[[int], None] | None,
) -> Trace:
    """Run chunks one after another. Rounds and counts continue from chunk to chunk."""
    points = points_of(check_points(_ENDLESS) if checkpoints is None else checkpoints, _ENDLESS)
    kept = np.zeros((0, 5), np.int64)
    done: Any = np.zeros(5, np.int64)  # rounds and the four counts
    carried = _Carried()
    tell = progress and (lambda rounds: progress(int(done[0]) + rounds))
    if not isinstance(chunks, Iterable):
        raise TypeError(f"simulate needs rows and their labels, X and y, not {shown(chunks)}")
    for chunk in chunks:
        X, truths = rows_and_truths(learner, chunk)
        size = size_of(truths)
        if not size:
            continue
        due = [p - int(done[0]) for p in points if done[0] < p <= done[0] + size]
        trace = simulate_rows(learner, X, truths, 1, "given", due or [size], channel, tell, carried)
        counts = np.stack(trace, axis=1) + done
        kept = np.concatenate([kept, counts[: len(due)]])
        done = counts[-1]
    if done[0] and (not len(kept) or kept[-1, 0] != done[0]):
        kept = np.concatenate([kept, done[None]])
    return trace_of(kept[:, 0], kept[:, 1:])


def rows_and_truths(
    learner: Learner,
    chunk: Any,
    name: str = "without y, X is chunks, and a chunk",
    hint: str = "; for rows and their labels, write simulate(learner, X, y)",
) -> tuple[Any, Truths]:
    """The rows of a Dataset or of a pair (X, y), and what is right in them."""
    if hasattr(chunk, "labels"):
        return table_in(chunk), _truths_in(learner, chunk)
    if not isinstance(chunk, tuple) or len(chunk) != 2:
        raise TypeError(f"{name} is a Dataset or a pair (X, y), not {type(chunk).__name__}{hint}")
    warn_of_columns(chunk[0])
    return chunk[0], truths_of(learner, chunk[1])


def warn_of_columns(X: Any) -> None:
    """Warn of strings in dicts or in a frame that nearly all differ, as `datasets.read` does, and
    of categories that are numbers."""
    warn_of_categories(X)
    is_frame = hasattr(X, "columns") and hasattr(X, "to_dict")
    first = listed(X.head(_LOOKED_AT) if is_frame else X)
    columns: dict[str, list[str]] = {}
    for row in first[:_LOOKED_AT] if isinstance(first, list) else ():
        for name, value in row.items() if isinstance(row, Mapping) else ():
            if isinstance(value, str) and value.strip():
                columns.setdefault(name, []).append(value)
    for name, values in columns.items():
        problem = own_categories(name, values)
        if problem:
            warn(f"{problem}. Leave the column out if they do not come again")


def simulate_rows(
    learner: Learner,
    X: Any,
    truths: Truths,
    epochs: int,
    order: Any,
    checkpoints: Sequence[int] | None,
    channel: Sequence[ChannelStep],
    progress: Callable[[int], None] | None,
    carried: _Carried | None = None,
) -> Trace:
    """`simulate` with a record of what is right. carried: the state that earlier chunks left."""
    with learner.lock:  # other threads wait until the stream is done
        rows = learner.rows(X)
        size = len(rows.indptr) - 1
        check_size(size, truths)
        epochs = whole("epochs", epochs, least=1, most=10**9)
        order_rows = order_of(order, size, epochs, learner.seed)
        total = len(order_rows) if len(order_rows) else size * epochs
        points = points_of(checkpoints, total)
        link = link_to(learner, channel)
        truths = through(truths, link)
        pending = (carried and carried.pending) or nothing_pending(link.longest)
        check_delays(link, pending.before + total)
        if carried:
            rows, truths = carried.in_front_of(rows, truths)
        passage = Passage(learner, rows, order_rows)
        front = carried.kept if carried else 0
        counts, kept = no_counts(truths, 4), no_counts(truths, len(points), 4)
        all_heard = not (channel or learner.thins)
        way: Any = NoChannel()

        def run_rounds(begin: int, end: int) -> int:
            table, stream = learner.table, Stream(*passage.placed[:3], truths, order_rows, front)
            records = (learner.params, table.state, table.work, stream, way)
            args = (*records, learner.draw_seed, passage.first, begin, end, table.size, counts)
            types = (type(way), type(truths))
            return learner.calls.compiled(run, *args, types=types)(*args)

        for i, point in enumerate(points):
            for end in passage.pieces(point):
                if not all_heard:
                    marks = learner.answers.marks(passage.first + end)
                    way = ThroughChannel(link, pending, marks)
                passage.run(run_rounds, end, all_answered=all_heard)
                if progress:
                    progress(end)
            kept[i] = counts
        if carried:
            carried.keep(pending, rows, total)
        return trace_of(np.array(points, np.int64), kept)


def check_size(rows: int, truths: Truths) -> None:
    """Refuse rows of which some have no label, and labels without a row."""
    if size_of(truths) != rows:
        what = "labels" if isinstance(truths, TrueLabels) else "rows"
        raise ValueError(f"X has {rows} rows and y {size_of(truths)} {what}")


def shuffled(size: int, epochs: int, seed: int) -> np.ndarray:
    """The row numbers 0 to size - 1, once per epoch, each time in another order."""
    shuffle = np.random.default_rng(seed).permutation
    return np.concatenate([shuffle(size) for _ in range(epochs)]).astype(np.int64)


def order_of(order: Any, size: int, epochs: int, seed: int) -> np.ndarray:
    """The row number of each round; empty for rows in the given order."""
    if isinstance(order, str):
        if order == "given":
            return np.empty(0, np.int64)
        if order == "shuffled":
            return shuffled(size, epochs, seed)
        raise ValueError(f"order must be 'given', 'shuffled' or row numbers, not {shown(order)}")
    try:
        given = np.asarray(order)
    except ValueError:  # rows of different lengths
        given = np.empty(0)
    if given.ndim != 1 or given.dtype.kind not in "iu" or not len(given):
        raise ValueError("order must be 'given', 'shuffled' or a list of row numbers")
    if given.min() < 0 or given.max() >= size:
        raise ValueError(f"order names rows outside 0..{size - 1}")
    return np.tile(given.astype(np.int64), epochs)


def points_of(checkpoints: Sequence[int] | None, total: int) -> list[int]:
    """Check points up to the last round."""
    if total == 0:
        return []
    if checkpoints is None:
        return check_points(total)
    if isinstance(checkpoints, str) or not isinstance(checkpoints, Iterable):
        raise TypeError(f"checkpoints must be a list of rounds, not {shown(checkpoints)}")
    points = [whole("a check point", point, least=0, most=_ENDLESS) for point in checkpoints]
    rising = all(a < b for a, b in zip([0, *points], points, strict=False))
    if not points or not rising or points[-1] > total:
        raise ValueError(f"checkpoints must rise from 1 to at most {total}, not {points}")
    return points if points[-1] == total else [*points, total]
