"""simulate: a whole stream in compiled code, with counts at check points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from onebit.contexts import Rows
from onebit.core.jit import direct, entry, generic, implement, inline
from onebit.core.lockstep import next_row
from onebit.core.rounds import Choice, Row, Turn, hear, hear_label, must_pause, say, score
from onebit.feedback.answered import mark
from onebit.feedback.channels import (
    UNHEARD,
    Step,
    check_delays,
    delay_of,
    drifted,
    heard,
    link_to,
    noisy,
    steps_of,
    understood,
)
from onebit.learner import Learner
from onebit.settings import called_on, whole

_LONGEST_CALL = 2**18  # rounds: between calls progress is shown and Ctrl-C is heard
_ENDLESS = 10**15  # rounds: more than any stream has


class Trace(NamedTuple):
    """What a run leaves: counts up to each check point, one array each."""

    rounds: np.ndarray
    mistakes: np.ndarray  # the said label was not the true one
    greedy_mistakes: np.ndarray  # the greedy label was not
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


class Stream(NamedTuple):
    """Rows, their true labels, and the order they come in (empty: as they are)."""

    indices: Any
    values: Any
    indptr: Any
    labels: Any
    order: Any
    kept: Any  # rows of earlier chunks, in front of those of this one


@inline
def row_at(stream, i):
    return Row(stream.indices, stream.values, stream.indptr[i], stream.indptr[i + 1])


# A round: decide and count, send the answer through the channel, learn from it. The loop over a
# stream and the loop over replicas are built from these.


@inline
def decide(params, state, work, row, turn, truth, counts):
    """Say a label, and count the mistakes."""
    score(params, state, work, row, turn)
    choice = say(params, state, work, turn)
    counts[0] += choice.label != truth
    counts[1] += choice.greedy != truth
    counts[2] += choice.label != choice.greedy
    return choice


@inline
def answer(link, turn, truth, said):
    """What the learner hears of the label that it said, and the true label as it is named."""
    named = noisy(link, turn.round, truth, turn.count)
    bit = heard(link, turn.round, int(said == named))
    return understood(link, turn.round, bit), named


@inline
def told(params, state, work, row, turn, choice, right, label):
    """Learn from the label or from the bit: an algorithm has a body for one of the two."""
    if row.start == row.stop:  # an empty row teaches nothing
        return False
    is_changed = hear_label(params, state, work, row, turn, label)
    return is_changed or hear(params, state, work, row, turn, choice, right)


class AllHeard(NamedTuple):
    """The way of feedback without a channel: every answer is heard, at once."""


class Late(NamedTuple):
    """The way of feedback through a channel. It may come late; what is answered is marked."""

    link: Any
    pending: Any
    marks: Any


@generic
def truth_of(way, turn, label):
    return label


@generic
def send(way, params, state, work, row, turn, choice, truth, i, t):
    """Send the answer on its way; if it is heard at once, learn from it."""
    return told(params, state, work, row, turn, choice, choice.label == truth, truth)


@generic
def deliver(way, params, state, work, stream, seed, count, t):
    """Learn from the answers that arrive in round t."""
    return False


@implement(truth_of, Late)
def _drifted_truth(way, turn, label):
    return drifted(way.link, turn.round, label, turn.count)


@implement(send, Late)
def _post_answer(way, params, state, work, row, turn, choice, truth, i, t):
    bit, named = answer(way.link, turn, truth, choice.label)
    if bit != UNHEARD:
        time, ring = way.pending.before + t, len(way.pending.first)
        arrival = (time + delay_of(way.link, turn.round, time)) % ring
        _post(way.pending, time % ring, arrival, i, turn.round, choice, bit, named)
    return False


@implement(deliver, Late)
def _deliver_late(way, params, state, work, stream, seed, count, t):
    """As far as the storage need not pause: the rest stays where it is, and is delivered next."""
    pending, updates = way.pending, 0
    arrival = (pending.before + t) % len(pending.first)
    place = pending.first[arrival]
    while place >= 0 and not must_pause(state):
        i, round, label, greedy, bit, named = pending.places[place]
        propensity, note, second_note = pending.numbers[place]
        row, turn = row_at(stream, i), Turn(seed, round, count)
        choice = Choice(label, greedy, propensity, note, second_note)
        score(params, state, work, row, turn)
        if bit >= 0:
            updates += told(params, state, work, row, turn, choice, bit == 1, named)
        mark(way.marks, round)
        place = pending.after[place]
    pending.first[arrival] = place
    return updates


@entry
def _run(params, state, work, stream, way, seed, first, begin, end, count, counts):
    """Rounds from begin to end, or until the storage has to pause; the next round comes back.

    The learner's own count of rounds starts at first.
    """
    updates = 0 + deliver(way, params, state, work, stream, seed, count, begin - 1)  # after a pause
    t, i = begin, (stream.kept + begin) % len(stream.labels) - 1
    while t < end and not must_pause(state):
        i = next_row(stream, i, t)
        row, turn = row_at(stream, i), Turn(seed, first + t, count)
        truth = truth_of(way, turn, stream.labels[i])
        choice = decide(params, state, work, row, turn, truth, counts)
        updates += send(way, params, state, work, row, turn, choice, truth, i, t)
        updates += deliver(way, params, state, work, stream, seed, count, t)
        t += 1
    counts[3] += updates
    return t


class Pending(NamedTuple):
    """Feedback on its way: a ring with a place for each round, and a list for each arrival."""

    first: Any  # [round of arrival] the place that is delivered first, or -1
    last: Any
    after: Any  # [place] the next place of the same list, or -1
    places: Any  # [place, (row, round, label, greedy, bit, true label as named)]
    numbers: Any  # [place, (propensity, note, second note)]
    before: Any  # rounds of this run in earlier chunks


def _pending(longest: int) -> Pending:
    ring = longest + 1
    first, last, after = (np.full(ring, -1, np.int64) for _ in range(3))
    return Pending(first, last, after, np.zeros((ring, 6), np.int64), np.zeros((ring, 3)), 0)


class _Carried:
    """What a chunk leaves to the next: feedback on its way, and the rows it is about."""

    def __init__(self) -> None:
        self.pending: Pending | None = None
        self._rows: Rows | None = None
        self.kept = 0

    def in_front_of(self, rows: Rows, labels: np.ndarray) -> tuple[Rows, np.ndarray]:
        """The rows that were kept, then these; the labels of the former are not needed again."""
        if self._rows is None:
            return rows, labels
        unused = np.zeros(self.kept, np.int64)
        return _joined(self._rows, rows), np.concatenate([unused, labels])

    def keep(self, pending: Pending, rows: Rows, rounds: int) -> None:
        """Keep the last rows of a chunk of so many rounds: none is awaited longer than the ring."""
        held = len(rows.indptr) - 1
        self.kept = min(held, len(pending.first) - 1)
        self._rows = _last(rows, self.kept) if self.kept else None
        pending.places[:, 0] -= held - self.kept
        self.pending = pending._replace(before=pending.before + rounds)


def _joined(kept: Rows, rows: Rows) -> Rows:
    indptr = np.concatenate([kept.indptr, rows.indptr[1:] + kept.indptr[-1]])
    indices = np.concatenate([kept.indices, rows.indices])
    values = np.concatenate([kept.values, rows.values])
    return Rows(indices, values, indptr, max(kept.width, rows.width), rows.columns)


def _last(rows: Rows, count: int) -> Rows:
    indptr = rows.indptr[len(rows.indptr) - 1 - count :]
    part = slice(indptr[0], indptr[-1])
    return Rows(rows.indices[part].copy(), rows.values[part].copy(), indptr - indptr[0], rows.width)


@inline
def _post(pending, place, arrival, i, round, choice, bit, named):
    """Put feedback at the end of the list that is delivered at its arrival."""
    record = pending.places[place]
    record[0], record[1], record[2] = i, round, choice.label
    record[3], record[4], record[5] = choice.greedy, bit, named
    numbers = pending.numbers[place]
    numbers[0], numbers[1], numbers[2] = choice.propensity, choice.note, choice.second_note
    pending.after[place] = -1
    if pending.first[arrival] < 0:
        pending.first[arrival] = place
    else:
        pending.after[pending.last[arrival]] = place
    pending.last[arrival] = place


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
    channel: Step | Sequence[Step] = (),
    progress: Callable[[int], None] | None = None,
) -> Trace:
    """Run a learner over labelled rows as if the labels were hidden, and count.

    X: an array, a sparse matrix, or a list of contexts. y: their true labels; a learner from one
    bit gets to know only whether what it said was right. epochs: how often the rows come. order: as
    "given", "shuffled" anew each epoch by the learner's seed, or the row numbers themselves.
    checkpoints: after which rounds to count; 1, 2, 5, 10, 20, ... unless given. channel: what
    happens to the feedback on its way, a step or a list of steps; mistakes are counted against the
    truth. progress: called with the number of rounds done, now and then.

    Without y, X is a Dataset or an iterator of chunks, each a Dataset or a pair (X, y): they run
    through one after the other, in constant memory, with the same result as all at once. Check
    points beyond their end are left out. Rows whose feedback is late are kept until it comes.

    The learner goes on from where it is, and is changed as if each round had been decided and
    learned by itself, bit for bit.
    """
    if not isinstance(learner, Learner):
        raise TypeError(f"simulate wants a learner, such as Banditron(labels=9), not {learner!r}")
    channel = steps_of(channel)
    called_on("progress", progress)
    if y is not None or hasattr(X, "labels"):  # a whole Dataset
        X, labels = rows_and_places(learner, X if y is None else (X, y))
        return simulate_places(learner, X, labels, epochs, order, checkpoints, channel, progress)
    if whole("epochs", epochs, least=1, most=10**9) != 1 or not _is_given(order):
        raise ValueError("chunks come once and as they are: no epochs, no order")
    return _in_chunks(learner, X, checkpoints, channel, progress)


def _is_given(order: Any) -> bool:
    return isinstance(order, str) and order == "given"


def _places_in(learner: Learner, data: Any) -> np.ndarray:
    """The labels of a Dataset as places among the learner's."""
    try:
        return learner._labels.places(np.asarray(data.labels))[data.y]
    except ValueError:
        raise ValueError(
            f"the data have labels that the learner has not: {_few(data.labels)} are not all "
            f"among {_few(learner.labels)}; make the learner with the labels of the data"
        ) from None


def _few(labels: Sequence[Any]) -> str:
    return ", ".join(repr(label) for label in labels[:8]) + (", ..." if len(labels) > 8 else "")


def _in_chunks(
    learner: Learner,
    chunks: Iterable[Any],
    checkpoints: Sequence[int] | None,
    channel: Sequence[Step],
    progress: Callable[[int], None] | None,
) -> Trace:
    """Chunk after chunk; rounds and counts go on from one to the next."""
    points = points_of(check_points(_ENDLESS) if checkpoints is None else checkpoints, _ENDLESS)
    kept = np.zeros((0, 5), np.int64)
    done = np.zeros(5, np.int64)  # rounds and the four counts
    carried = _Carried()
    tell = progress and (lambda rounds: progress(int(done[0]) + rounds))
    if not isinstance(chunks, Iterable):
        raise TypeError(f"simulate wants rows and their labels, X and y, not {chunks!r}")
    for chunk in chunks:
        X, labels = rows_and_places(learner, chunk)
        if not len(labels):
            continue
        due = [p - int(done[0]) for p in points if done[0] < p <= done[0] + len(labels)]
        trace = simulate_places(
            learner, X, labels, 1, "given", due or [len(labels)], channel, tell, carried
        )
        counts = np.stack(trace, axis=1) + done
        kept = np.concatenate([kept, counts[: len(due)]])
        done = counts[-1]
    if done[0] and (not len(kept) or kept[-1, 0] != done[0]):
        kept = np.concatenate([kept, done[None]])
    return Trace(*kept.T.copy())


def rows_and_places(
    learner: Learner,
    chunk: Any,
    what: str = "without y, X is chunks, and a chunk",
    hint: str = "; for rows and their labels say simulate(learner, X, y)",
) -> tuple[Any, np.ndarray]:
    """The rows of a Dataset or of a pair (X, y), and their labels as places."""
    if hasattr(chunk, "labels"):
        return chunk.X, _places_in(learner, chunk)
    if not isinstance(chunk, tuple) or len(chunk) != 2:
        raise TypeError(f"{what} is a Dataset or a pair (X, y), not {type(chunk).__name__}{hint}")
    return chunk[0], learner._labels.places(chunk[1])


def simulate_places(
    learner: Learner,
    X: Any,
    labels: np.ndarray,
    epochs: int,
    order: Any,
    checkpoints: Sequence[int] | None,
    channel: Sequence[Step],
    progress: Callable[[int], None] | None,
    carried: _Carried | None = None,
) -> Trace:
    """simulate, with labels as places among the learner's; carried: what earlier chunks left."""
    with learner._lock:  # other threads wait until the stream is done
        rows = learner._rows(X)
        size = len(rows.indptr) - 1
        if len(labels) != size:
            raise ValueError(f"X has {size} rows and y {len(labels)} labels")
        epochs = whole("epochs", epochs, least=1, most=10**9)
        order_rows = order_of(order, size, epochs, learner.seed)
        total = len(order_rows) if len(order_rows) else size * epochs
        points = points_of(checkpoints, total)
        link = link_to(learner, channel)
        pending = (carried and carried.pending) or _pending(link.longest)
        check_delays(link, pending.before + total)
        if carried:
            rows, labels = carried.in_front_of(rows, labels)
        learner._reserve(rows.width)
        learner._columns = learner._columns or rows.columns
        front = carried.kept if carried else 0
        stream = Stream(rows.indices, rows.values, rows.indptr, labels, order_rows, front)
        counts = np.zeros(4, np.int64)
        kept = np.zeros((len(points), 4), np.int64)
        first, done, kind, answers = learner.round, 0, learner._kind, learner._answers
        all_heard = not (channel or learner._thins)
        for i, point in enumerate(points):
            while done < point:
                if first + done >= learner._fades_at:
                    learner._fade(first + done)
                end = min(point, done + _LONGEST_CALL, learner._fades_at - first)
                if learner._kind != kind:
                    raise RuntimeError("the learner was given another label in mid-stream")
                way: Any = AllHeard()
                if not all_heard:
                    way = Late(link, pending, answers.marks(first + end))
                try:
                    failure = _run_rounds(learner, stream, way, first, done, end, counts)
                except BaseException:
                    if not all_heard:
                        answers.cut(learner.round)  # these rounds are not counted
                    raise
                if all_heard:
                    answers.mark_all(first + done, first + end, first + end)
                done = end
                learner.round = first + done
                if failure is not None:
                    raise failure
                if progress:
                    progress(done)
                    first = learner.round - done  # it may have had the learner decide meanwhile
            kept[i] = counts
        if carried:
            carried.keep(pending, rows, total)
        return Trace(np.array(points, np.int64), *kept.T.copy())


def _run_rounds(
    learner: Learner, stream: Stream, way: Any, first: int, begin: int, end: int, counts: Any
) -> BaseException | None:
    """Run rounds, with pauses where the storage wants them.

    What goes wrong in a pause comes back: the rounds are run to their end nevertheless.
    """
    failure = None
    while True:
        args = (learner._params, learner._state, learner._work, stream, way, learner._draws, first)
        args = (*args, begin, end, len(learner._labels), counts)
        run = direct(_run, (learner._kind, type(way)), *args)
        begin = learner._storage.guarded(run)(*args)
        try:
            held = learner._storage.pause(learner._state.held)
        except BaseException as error:  # Ctrl-C as well
            failure = failure or error
        else:
            if held is None:
                return failure
            learner._state = learner._state._replace(held=held)


def order_of(order: Any, size: int, epochs: int, seed: int) -> np.ndarray:
    """Row numbers, one a round; none: the rows as they are."""
    if isinstance(order, str):
        if order == "given":
            return np.empty(0, np.int64)
        if order == "shuffled":
            shuffle = np.random.default_rng(seed).permutation
            return np.concatenate([shuffle(size) for _ in range(epochs)]).astype(np.int64)
        raise ValueError(f"order must be 'given', 'shuffled' or row numbers, not {order!r}")
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
        raise TypeError(f"checkpoints must be a list of rounds, not {checkpoints!r}")
    points = [whole("a check point", point, least=0, most=_ENDLESS) for point in checkpoints]
    rising = all(a < b for a, b in zip([0, *points], points, strict=False))
    if not points or not rising or points[-1] > total:
        raise ValueError(f"checkpoints must rise from 1 to at most {total}, not {points}")
    return points if points[-1] == total else [*points, total]
