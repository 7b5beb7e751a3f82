"""sweep: many learners over the same rows, in lockstep.

The learners of a group keep their weights side by side, [feature, plane, label, replica], so that
one pass over a row serves them all. The results are the same as those of single runs, bit for bit.
Groups run on threads.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from onebit.core.exploring import own_of
from onebit.core.jit import direct
from onebit.core.lanes import REPLICA, aligned_zeros, state_type
from onebit.core.rounds import settle
from onebit.core.settings import function_or_none, shown, whole
from onebit.core.slots import ALL, no_slots, place_rows, widened, width_of
from onebit.core.updates import Waiting
from onebit.feedback.channels import ChannelStep, Delay, check_delays, link_to, steps_of
from onebit.lab.lockstep_loop import run_in_lockstep
from onebit.lab.simulation import (
    Trace,
    check_size,
    order_of,
    points_of,
    rows_and_truths,
    simulate_rows,
    trace_of,
)
from onebit.lab.stream_loop import Stream
from onebit.lab.truth import TrueLabels, Truths, mean_mistakes, no_counts, size_of, through
from onebit.learner.files import dump, restore
from onebit.learner.laying import after_meeting
from onebit.learner.learner import Learner
from onebit.learner.looking import score
from onebit.reading.contexts import check_columns, check_kind
from onebit.reading.rows import Rows

LARGEST_GROUP = 32  # replicas
LARGEST_TABLE = 2**30  # bytes of a group's weights
_NEAR = 2**18  # bytes: half of a small second-level cache
_LONGEST_CALL = 2**13  # rounds: between calls, progress is shown and Ctrl-C is handled


class Run(NamedTuple):
    """The result of one learner of a sweep."""

    settings: dict[str, Any]  # of the learner, including its seed
    trace: Trace
    test_error: float  # of the frozen greedy rule on the test rows; NaN without test rows
    rates: tuple[float, float] | None = None  # of flips, if the learner estimates them


def sweep(
    learner: type[Learner] | Sequence[Learner],
    X: Any,
    y: Any = None,
    *,
    epochs: int = 1,
    order: Literal["given", "shuffled"] | Sequence[int] | np.ndarray = "given",
    checkpoints: Sequence[int] | None = None,
    channel: ChannelStep | Sequence[ChannelStep] = (),
    test: Any = None,
    threads: int | None = None,
    progress: Callable[[int], None] | None = None,
    **settings: Any,
) -> list[Run]:
    """Run many learners over the same rows, with the same results as `simulate`, bit for bit.

    learner: a class, with its settings as keywords. All combinations of settings that are lists
    (or ranges, tuples, arrays) are run: sweep(Banditron, X, y, labels=9, gamma=[.01, .1],
    seed=range(10)) makes 20 runs. (Halving's hypotheses are one setting.) Or a list of learners,
    which do not change.

    test: a pair (X, y) or a Dataset, on which the greedy rule of each learner is evaluated at the
    end. threads: default one per core. progress: called at intervals with the number of rounds done
    since the last call, over all runs. The other arguments are as in `simulate`.
    """
    if y is None and not hasattr(X, "labels"):
        raise TypeError("sweep needs rows and their labels, X and y, or a Dataset")
    if y is None and isinstance(learner, type):
        settings = {"labels": X.labels, **settings}
    learners = _learners(learner, settings)
    function_or_none("progress", progress)
    if threads is None:
        threads = os.cpu_count() or 1
    threads = whole("threads", threads, least=1, most=1024)
    channel = steps_of(channel)
    links = [link_to(learner, channel) for learner in learners]  # refuses channels that do not fit
    stopped = threading.Event()

    def report(rounds: int) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        if progress:
            progress(rounds)

    jobs: list[tuple[list[int], Callable[[], list[Run]]]] = []
    for places in _of_a_kind(learners, order):
        like = learners[places[0]]
        data = (X, y) if y is not None else X
        alike = [learners[place] for place in places]
        course = _course(alike, data, epochs, order, checkpoints, channel, test)
        check_delays(links[0], course.points[-1] if course.points else 0)
        for place in places:
            check_columns(course.rows.columns, learners[place].reader.columns)
            check_kind(course.rows.kind, learners[place].reader.taught_with)
        for size, members in _groups(places, like, course, threads):
            group = [learners[place] for place in members]
            jobs.append((members, partial(_run_group, group, size, course, report)))
    runs: dict[int, Run] = {}
    with ThreadPoolExecutor(threads) as pool:
        try:
            started = [(places, pool.submit(job)) for places, job in jobs]
            wait([future for _, future in started], return_when=FIRST_EXCEPTION)
            for places, future in started:
                runs.update(zip(places, future.result(), strict=True))
        except BaseException:
            stopped.set()
            pool.shutdown(cancel_futures=True)
            raise
    return [runs[place] for place in range(len(learners))]


def _learners(learner: Any, settings: Mapping[str, Any]) -> list[Learner]:
    """The given learners, or a learner for each combination of settings that are lists."""
    if not isinstance(learner, type):
        given = list(learner) if isinstance(learner, Iterable) else []
        if not given or not all(isinstance(item, Learner) for item in given):
            found = repr(learner) if isinstance(learner, str | Learner) else type(learner).__name__
            raise TypeError(
                f"sweep needs a class such as Banditron or a list of learners, not {found}"
            )
        if settings:
            raise TypeError(f"settings go with a class, not with learners: {', '.join(settings)}")
        return given
    if not issubclass(learner, Learner):
        raise TypeError(f"sweep needs a learner's class, such as Banditron, not {shown(learner)}")
    lists = {
        name: list(value)
        for name, value in settings.items()
        if isinstance(value, Sequence | np.ndarray)
        and not isinstance(value, str)
        and name not in ("labels", learner.needs)
    }
    empty = [name for name, values in lists.items() if not values]
    if empty:
        raise ValueError(f"{empty[0]} is an empty list: there is nothing to sweep")
    if "labels" not in settings:
        raise TypeError(f"sweep needs the labels of {learner.__name__} too: labels=...")
    make: Any = learner
    return [
        make(**{**settings, **dict(zip(lists, values, strict=True))})
        for values in itertools.product(*lists.values())
    ]


def _of_a_kind(learners: Sequence[Learner], order: Any) -> Iterable[list[int]]:
    """The places of learners that could share a table and a stream."""
    kinds: dict[Any, list[int]] = {}
    for place, learner in enumerate(learners):
        kind = (type(learner), learner.calls.types, tuple(learner.labels), learner.features)
        kind = (*kind, learner.hearing, learner.half_life, learner.inputs, learner.vocabulary)
        if isinstance(order, str) and order == "shuffled":  # by each learner's own seed
            kind = (*kind, learner.seed)
        kinds.setdefault(kind, []).append(place)
    return kinds.values()


def _stacked(records: Sequence[Any]) -> Any:
    """Records of settings as one record of arrays; a field may be a record itself."""
    fields = zip(*records, strict=True)
    made = [_stacked(f) if isinstance(f[0], tuple) else np.array(f) for f in fields]
    return type(records[0])(*made)


class SharedRows(NamedTuple):
    """The rows of a stream as places in a table that several learners share."""

    indices: np.ndarray  # places
    table_rows: int  # how many rows the table needs
    slots: np.ndarray  # the places of features, as in `core.slots`


def _shared(learners: Sequence[Learner], rows: Rows, order: np.ndarray) -> SharedRows:
    """The rows with places for indices, if a learner has places or the table is that large."""
    replicas = min(len(learners), LARGEST_GROUP)
    if not any(learner.table.maps(rows.columns, rows.width, replicas) for learner in learners):
        return SharedRows(rows.indices, rows.width, no_slots())
    slots, places = widened(no_slots(), max(rows.width, 1)), np.zeros_like(rows.indices)
    seen = np.zeros(len(rows.indptr) - 1, np.uint8)
    count = place_rows(rows.indices, rows.indptr, order, slots, 0, ALL, seen, places)
    return SharedRows(places, count, slots)


class _Course(NamedTuple):
    """The stream of learners of one kind, and their test rows."""

    rows: Rows
    shared: SharedRows
    truths: Truths
    order: np.ndarray
    points: list[int]
    channel: Sequence[ChannelStep]
    test: tuple[Any, Truths] | None


def _course(
    learners: Sequence[Learner],
    data: Any,
    epochs: int,
    order: Any,
    checkpoints: Any,
    channel: Sequence[ChannelStep] = (),
    test: Any = None,
) -> _Course:
    like = learners[0]
    X, truths = rows_and_truths(like, data)
    rows = like.reader.encoded(X, like)
    like = after_meeting(like, rows.columns)
    size = len(rows.indptr) - 1
    check_size(size, truths)
    rounds = order_of(order, size, whole("epochs", epochs, least=1, most=10**9), like.seed)
    total = len(rounds) if len(rounds) else size * epochs
    points = points_of(checkpoints, total)
    if test is not None:
        test = rows_and_truths(like, test, "test", "")
        test_rows = like.reader.encoded(test[0], like)
        check_columns(test_rows.columns, rows.columns)
        check_kind(test_rows.kind, rows.kind)
        size = len(test_rows.indptr) - 1
        if not size or size != size_of(test[1]):
            raise ValueError(
                f"test has {size} rows and {size_of(test[1])} labels; it needs a label a row"
            )
    return _Course(rows, _shared(learners, rows, rounds), truths, rounds, points, channel, test)


def _groups(
    places: list[int], like: Learner, course: _Course, threads: int
) -> Iterable[tuple[int, list[int]]]:
    """Groups of learners that run in lockstep, each with its number of replicas.

    As many replicas as share the work evenly among the threads and as fit the memory, or half as
    many if those have their weights near by. Feedback that comes late comes to each learner at its
    own time, so with a Delay each runs by itself; and so does one that holds more than a table,
    that fades or scales rows as it goes, or that has a vocabulary.
    """
    late = any(isinstance(step, Delay) and step.longest > 0 for step in course.channel)
    features = max(course.shared.table_rows, like.table.state.table.shape[0])
    table = features * like.planes * len(like.labels) * like.table.dtype.itemsize  # bytes
    most = min(LARGEST_GROUP // max(like.planes, 1), LARGEST_TABLE // max(table, 1))
    size = min(max(-(-len(places) // threads), 1), most)
    alone = late or like.table.state.held is not None or like.half_life is not None
    alone = alone or like.table.scales is not None or like.vocabulary is not None
    if alone or size < 2 or most < 4 or not course.points:
        return [(0, [place]) for place in places]
    sizes = [s for s in (4, 8, 16, LARGEST_GROUP) if s <= most]
    size = next((s for s in sizes if s >= size), sizes[-1])
    if size > 8 and size // 2 * table <= _NEAR < size * table:
        size //= 2
    return [(size, places[start : start + size]) for start in range(0, len(places), size)]


def _run_group(
    learners: list[Learner], size: int, course: _Course, report: Callable[[int], None]
) -> list[Run]:
    if size == 0:
        return [_run_alone(learners[0].copy(), course, report)]
    return _run_lockstep(learners, size, course, report)


def _run_alone(learner: Learner, course: _Course, report: Callable[[int], None]) -> Run:
    reported = 0

    def progress(done: int) -> None:
        nonlocal reported
        report(done - reported)
        reported = done

    order: Any = course.order if len(course.order) else "given"
    total = course.points[-1] if course.points else 0
    epochs = 1 if len(course.order) else max(total // max(size_of(course.truths), 1), 1)
    trace = simulate_rows(
        learner, course.rows, course.truths, epochs, order, course.points, course.channel, progress
    )
    return _result_of(learner, trace, course)


def _result_of(learner: Learner, trace: Trace, course: _Course) -> Run:
    """The result of a learner that has finished its rounds, with its error on the test rows."""
    error = np.nan
    if course.test is not None:
        X, truths = course.test
        error = mean_mistakes(truths, score(learner, X)[1])
    return Run({**learner.settings, "seed": learner.seed}, trace, error, _found_rates(learner))


def _found_rates(learner: Learner) -> tuple[float, float] | None:
    """How often feedback is flipped, if the learner has estimated it."""
    with learner.lock:
        return learner.table.storage.rates(learner.table.state.held)


def _run_lockstep(
    learners: list[Learner], size: int, course: _Course, report: Callable[[int], None]
) -> list[Run]:
    first, count = learners[0], len(learners)
    rows, shared = course.rows, course.shared
    together = _Together(learners, size, shared.table_rows, shared.slots)
    way = link_to(first, course.channel)
    truths = through(course.truths, way)
    stream = Stream(shared.indices, rows.values, rows.indptr, truths, course.order, 0)
    seeds = np.array([learner.draw_seed for learner in learners], np.int64)
    firsts = np.array([learner.round for learner in learners], np.int64)
    counts = no_counts(truths, count, 4)
    own_loop = first.lockstep_loop if isinstance(truths, TrueLabels) else None
    if own_loop is not None and not (course.channel or first.thins or first.explore):
        loop, last = own_loop.run, own_loop.scratch_for(size, learners)
    else:
        loop, last = run_in_lockstep, way
    records = (*together.records, first.copy().table.work, stream, seeds, firsts, counts, last)
    run = direct(loop, (first.calls.types, together.kind, type(truths)), *records, 0, 0)
    kept = no_counts(truths, len(course.points), count, 4)
    done, longest = 0, max(_LONGEST_CALL // count, 1)
    for i, point in enumerate(course.points):
        while done < point:
            end = min(point, done + longest)
            run(*records, done, end)
            report((end - done) * count)
            done = end
        kept[i] = counts
    points = np.array(course.points, np.int64)
    runs = []
    for replica, learner in enumerate(learners):
        trace = trace_of(points, kept[:, replica])
        learned = learner if course.test is None else together.learner(replica, learner)
        runs.append(_result_of(learned, trace, course))
    return runs


class _Together:
    """Learners of a kind with their weights in one table."""

    def __init__(
        self, learners: list[Learner], size: int, features: int, slots: np.ndarray | None = None
    ) -> None:
        """features: the number of rows of the table. slots: their places, or empty."""
        like = learners[0]
        labels, planes, dtype = len(like.labels), like.planes, like.table.dtype
        self._slots = no_slots() if slots is None else slots
        for learner in learners:
            features = self._make_room(learner.table.known(), features)
        table = aligned_zeros((features, planes, labels * size), dtype)
        self.tables = table.reshape(features, planes, labels, size)
        self.memories = np.zeros((size, len(like.table.state.memory)))
        spare = [like] * (size - len(learners))  # unused places
        fills = zip(*(learner.table.fill() for learner in learners + spare), strict=True)
        for plane, fill in enumerate(fills):
            if any(fill):
                self.tables[:, plane] = fill
        for replica, learner in enumerate(learners):
            self.tables[self._places(learner.table.known()), :, :, replica] = (
                learner.table.weights()
            )
            self.memories[replica] = learner.table.state.memory
        whole = state_type(labels * size)(table, self.memories)
        strips = state_type(size)(table, self.memories)
        waiting = None
        if type(own_of(like.params)) in settle.bodies:
            coefficients = aligned_zeros((2, labels * size), dtype)
            waiting = Waiting(*coefficients, *(np.zeros(labels * size, np.uint8) for _ in range(2)))
        lanes = len(like.table.work.mask)
        replica_type: Any = REPLICA[type(like.table.state)]
        first = replica_type(
            self.tables[:, :, :, 0],
            self.memories[0],
            whole,
            strips,
            0,
            size,
            lanes,
            aligned_zeros((2, labels * size), dtype),
            aligned_zeros((2, size, lanes), dtype),
            waiting,
        )
        params = _stacked([learner.params for learner in learners])
        self.records = (params, first, self.tables, self.memories)
        self.kind = (type(whole), type(strips))

    def _make_room(self, features: np.ndarray, count: int) -> int:
        """Make room for features in a table of `count` rows. Returns the new number of rows."""
        width = width_of(features)
        if not len(self._slots):
            return max(width, count)
        slots = widened(self._slots, width)
        fresh = features[slots[features] == 0]
        if len(fresh):
            self._slots = slots.copy()
            self._slots[fresh] = np.arange(count + 1, count + len(fresh) + 1)
        return count + len(fresh)

    def _places(self, features: np.ndarray) -> np.ndarray:
        return self._slots[features] - np.uint32(1) if len(self._slots) else features

    def learner(self, replica: int, like: Learner) -> Learner:
        """A single learner with the state of a replica."""
        head, _ = dump(like)
        features = np.arange(len(self.tables), dtype=np.uint32)
        if len(self._slots):
            features = np.flatnonzero(self._slots).astype(np.uint32)
        table = np.ascontiguousarray(self.tables[self._places(features), :, :, replica])
        arrays = {"table": table, "memory": self.memories[replica].copy()}
        if len(self._slots):
            arrays["features"] = features
        return restore({**head, "salts": []}, arrays, kind=type(like))
