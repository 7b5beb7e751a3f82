"""Experts of sparse rows: rows of any width, scaled to length 1.

Expert m is planes 2m and 2m + 1 of the learner's table; the last plane has the sums of a naive
Bayes model. Numbers of dicts are standardised first, by the rows that were answered so far. For the
length of a row, all its numbers together count as 1, which is what their squares add up to on
average: so a row with large numbers is longer than a row with small ones.

Rows of tables have wide experts, too (`tables`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from onebit.algorithms.onebit.experts import NAMED
from onebit.algorithms.onebit.records import (
    ENTRIES,
    EVIDENCE,
    FREE,
    KEPT,
    KEPT_ROUNDS,
    LEFT_OUT,
    OLDEST,
    SIZE,
    START,
    WEIGHT,
    Input,
    Names,
    clear_full,
    drop_oldest,
    fix_scales,
    keep_row,
    kept_input,
    last_input,
    make_room,
    meet_row,
    narrow_table,
    prepared,
    regress_full,
    sum_up_full,
    wide_table,
)
from onebit.algorithms.onebit.storage import ExpertStorage
from onebit.algorithms.onebit.tables import (
    ARRAYS,
    COLUMNS,
    STOP,
    are_sound_tables,
    arrays_of,
    faded_tables,
    fit_tables,
    give_columns,
    is_number,
    is_of_table,
    judge_tables,
    last_table_row,
    lay_out_tables,
    map_table_row,
    rows_before,
    sees_tables,
)
from onebit.algorithms.onebit.waves import WAVES
from onebit.algorithms.onebit.wording import (
    FRESH_PULL,
    NAME_ARRAYS,
    NO_NAMES,
    PULLS,
    Entries,
    are_names,
    are_sound_names,
    arrays_of_names,
    arrays_of_record,
    faded_pull,
    moved_names,
    names_of_arrays,
    record_of_names,
)
from onebit.core.jit import implement, inline, not_inlined, outline
from onebit.core.lanes import at, bare, lanes_for
from onebit.core.rounds import Row
from onebit.core.sums import number, squared_norm
from onebit.storage.base import Arrays, Storage, row_blocks
from onebit.storage.scales import (
    MEAN,
    SPREAD,
    STATISTICS,
    TIMES,
    count_number,
    scaled_number,
    value_of_number,
)

WIDE_NUMBERS = 2**20  # wide experts are there if they have no more numbers
KEPT_ENTRIES = 2**18  # of the kept rows together: of long rows, fewer are kept
SCALED = 2 * KEPT_ENTRIES  # where a row with scaled numbers starts


class Sparse(NamedTuple):
    """Experts of sparse rows. Kept rows lie one after the other in a ring of entries.

    A row starts within the ring, and may end beyond it: so it is in one piece.
    """

    experts: Any
    indices: Any  # [3 KEPT_ENTRIES] last, scratch space: a row with scaled numbers
    values: Any
    numbers: Any  # [1 + place, 5] statistics; -1 times: it is no number; line 0: all answers
    elsewhere: Any  # [lane] of the naive Bayes model: what occurred in rounds of other labels
    temperature: Any  # [2] its temperature, and how well that is known
    wide: Any  # a state: weights and variances of the wide experts
    tables: Any  # the columns of rows of tables
    names: Any  # of labels


@inline
def _first_number(numbers, indices, start, stop):
    """Where the numbers of a row begin: they are its last entries, as their indices are the
    largest."""
    first = stop
    while first > start and is_number(numbers, at(indices, first - 1)):
        first -= 1
    return first


@inline
def _has_numbers(held, row):
    """Whether a row has numbers that can be scaled."""
    size = row.stop - row.start
    if size <= 0 or size > KEPT_ENTRIES:
        return False
    return is_number(held.numbers, at(row.indices, row.stop - 1))


@outline
def _scale_numbers(indices, values, start, stop, numbers, seen, out_indices, out_values):
    """Copy a row, with its numbers standardised: together they have about the length of a text."""
    not_inlined()
    first = _first_number(numbers, indices, start, stop)
    side = 1.0 / math.sqrt(stop - first)
    for i in range(start, stop):
        place, to = at(indices, i), SCALED + i - start
        out_indices[to] = place
        if i < first:
            out_values[to] = at(values, i)
        else:
            line, value = numbers[place + 1], value_of_number(values, i)
            z = scaled_number(value, line[TIMES], line[MEAN], line[SPREAD], seen)
            out_values[to] = side * z


@inline
def _last_sparse(state, row):
    held, first, square = state.held, row.stop, 0.0
    if _has_numbers(held, row):
        row = Row(held.indices, held.values, SCALED, SCALED + row.stop - row.start)
        first, square = _first_number(held.numbers, row.indices, row.start, row.stop), 1.0
    square += squared_norm(Row(row.indices, row.values, row.start, first))
    scale = number(state, 1.0 / math.sqrt(square) if square > 0.0 else 1.0)
    return Input(row, row.stop, scale, last_table_row(held.tables))


@inline
def _prepared_sparse(state, row):
    held = state.held
    if _has_numbers(held, row):
        _scale_numbers(
            row.indices, row.values, row.start, row.stop,
            held.numbers, rows_before(held.tables, held.numbers), held.indices, held.values,
        )  # fmt: skip
    context, tables, stop = _last_sparse(state, row), held.tables, 0
    if sees_tables(tables) and is_of_table(tables, held.numbers, row):
        stop = map_table_row(tables, held.numbers, state.table, row)
    tables.counts[STOP] = stop
    return Input(context.row, context.narrow, context.scale, last_table_row(tables))


implement(prepared, Sparse)(_prepared_sparse)
implement(last_input, Sparse)(_last_sparse)


@implement(kept_input, Sparse)
def _kept_sparse(state, place):
    held = state.held
    start, size = held.experts.rounds[START, place], held.experts.rounds[SIZE, place]
    return _prepared_sparse(state, Row(held.indices, held.values, start, start + size))


@implement(make_room, Sparse)
def _make_room(state, row):
    experts, size = state.held.experts, row.stop - row.start
    count = experts.count
    if size > KEPT_ENTRIES:
        return False
    while count[KEPT] == KEPT_ROUNDS or count[ENTRIES] + size > KEPT_ENTRIES:
        count[ENTRIES] -= experts.rounds[SIZE, count[OLDEST]]
        drop_oldest(count)
    return True


@implement(keep_row, Sparse)
def _keep_sparse(state, row, place):
    held, size = state.held, row.stop - row.start
    count, rounds = held.experts.count, held.experts.rounds
    start = count[FREE]
    rounds[START, place], rounds[SIZE, place] = start, size
    for i in range(size):
        held.indices[start + i] = at(row.indices, row.start + i)
        held.values[start + i] = at(row.values, row.start + i)
    count[FREE] = (start + size) % KEPT_ENTRIES
    count[ENTRIES] += size


@implement(narrow_table, Sparse)
def _narrow_sparse(state):
    return bare(state)


@implement(wide_table, Sparse)
def _wide_sparse(state):
    return state.held.wide


@implement(meet_row, Sparse)
def _meet_sparse(state, row):
    held, tables = state.held, state.held.tables
    if row.start == row.stop or len(held.wide.table) == 0:
        return
    is_table = is_of_table(tables, held.numbers, row)
    judge_tables(tables, held.experts.trust, is_table, _has_numbers(held, row))
    if is_table and sees_tables(tables):
        give_columns(tables, held.numbers, state.table, row)


@implement(fix_scales, Sparse)
def _count_numbers(state, row):
    held = state.held
    if held.numbers[0, TIMES] > 0.0 or _has_numbers(held, row):
        held.numbers[0, TIMES] += 1.0
    i = row.stop - 1
    while i >= row.start and is_number(held.numbers, at(row.indices, i)):
        line, value = held.numbers[at(row.indices, i) + 1], value_of_number(row.values, i)
        count_number(line, value)
        i -= 1
    return False


@implement(sum_up_full, Sparse)
def _sum_up_nothing(state, context, weight, sums):
    return None


@implement(regress_full, Sparse)
def _regress_nothing(state, context, label, answer):
    return None


@implement(clear_full, Sparse)
def _clear_nothing(state):
    return None


# In Python.


class SparseExperts(ExpertStorage):
    """Experts of sparse rows."""

    maps_features = shares_blank = True

    def __init__(
        self,
        *start: Any,
        narrow: int,
        seed: int,
        alpha: float,
        temperature: Sequence[float],
        for_columns: Callable[[int], Storage],
    ) -> None:
        """start: as for all experts. narrow: how many of them see sparse rows. alpha: where the
        sums of naive Bayes start. for_columns: makes the storage for dense rows."""
        super().__init__(*start)
        self.priors, self.wide_priors = np.split(self.priors, [narrow])
        self._seed = seed
        self._for_columns = for_columns
        self.alpha, self._temperature = alpha, np.array(temperature)
        self.planes = 2 * len(self.priors) + 1

    def lay_out(self, arrays: dict[str, np.ndarray], features: int, labels: int) -> Sparse:
        if "trust" in arrays and not self._may_be_wide(labels):
            arrays = arrays | self._without_tables(arrays)
        held = Sparse(
            experts=self._experts(arrays, labels, self._besides(arrays)),
            indices=np.zeros(SCALED + KEPT_ENTRIES, np.uint32),
            values=np.zeros(SCALED + KEPT_ENTRIES, self._dtype),
            numbers=np.zeros((1, STATISTICS)),
            elsewhere=np.zeros(lanes_for(labels)),
            temperature=self._temperature.copy(),
            wide=self._wide_state(arrays.get("wide"), labels),
            tables=lay_out_tables(arrays, self._seed, self._dtype),
            names=self._names(arrays, labels),
        )
        if "elsewhere" in arrays:
            elsewhere = arrays["elsewhere"]
            held.temperature[:], held.elsewhere[: len(elsewhere)] = arrays["temperature"], elsewhere
            sizes, entries = arrays["sizes"], len(arrays["indices"])
            rounds, count = held.experts.rounds, held.experts.count
            rounds[SIZE, : len(sizes)] = sizes
            rounds[START, : len(sizes)] = np.cumsum(sizes) - sizes
            held.indices[:entries], held.values[:entries] = arrays["indices"], arrays["values"]
            count[FREE], count[ENTRIES] = entries % KEPT_ENTRIES, entries
        if "numbers" in arrays:
            held = self.with_numbers(held, arrays["number_places"])
            held.numbers[1:][arrays["number_places"]] = arrays["numbers"]
            held.numbers[0, TIMES] = arrays["numbers_seen"][0]
        return held

    def _may_be_wide(self, labels: int) -> bool:
        size = 2 * len(self.wide_priors) * (WAVES + COLUMNS)
        return size * lanes_for(labels) <= WIDE_NUMBERS

    def _without_tables(self, arrays: Arrays) -> Arrays:
        """The arrays that change if there are too many labels for wide experts now."""
        trust, narrow = arrays["trust"].copy(), len(self.priors)
        trust[narrow : narrow + len(self.wide_priors), EVIDENCE] = LEFT_OUT
        weights = np.exp(trust[:, EVIDENCE] - trust[:, EVIDENCE].max())
        trust[:, WEIGHT] = weights / weights.sum()
        nothing = arrays_of(lay_out_tables({}, self._seed, self._dtype), arrays["wide"][:0])
        return nothing | {"trust": trust}

    def _wide_state(self, saved: np.ndarray | None, labels: int) -> Any:
        size = WAVES + COLUMNS if self._may_be_wide(labels) else 0
        wide = self._table(size, self.wide_priors, labels)
        if saved is not None:
            wide.table[: len(saved), :, : saved.shape[2]] = saved
        return wide

    @staticmethod
    def _names(arrays: Arrays, labels: int) -> Names:
        """The record of saved names."""
        entries = names_of_arrays(arrays) or NO_NAMES
        return record_of_names(entries, arrays.get(PULLS, FRESH_PULL), labels)

    def _besides(self, arrays: Arrays) -> int:
        return 1 + (PULLS in arrays)

    def lasting(self, arrays: Arrays) -> Arrays:
        kept = {name: arrays[name] for name in NAME_ARRAYS if name in arrays}
        return kept | {PULLS: FRESH_PULL.copy()} if kept else kept

    def named(self, held: Sparse, features: int, labels: int, entries: Entries) -> Sparse:
        """The record with further names."""
        arrays = self.arrays(held, features, labels)
        before = names_of_arrays(arrays)
        if before is None:
            trust = np.vstack([arrays["trust"], self._trust[NAMED]])
            weights = np.exp(trust[:, EVIDENCE] - trust[:, EVIDENCE].max())
            trust[:, WEIGHT] = weights / weights.sum()
            arrays |= {"trust": trust, PULLS: FRESH_PULL.copy()}
        return self.lay_out(arrays | arrays_of_names(entries, before), features, labels)

    def for_columns(self, columns: int) -> Storage:
        return self._for_columns(columns)

    def for_saved(self, arrays: Arrays) -> Storage:
        super().for_saved(arrays)
        if "elsewhere" in arrays and "tables" not in arrays:
            self._add_tables(arrays)
        return self.for_columns(arrays["narrow"].shape[0]) if "narrow" in arrays else self

    def _add_tables(self, arrays: Arrays) -> None:
        """To a file of a version without wide experts of sparse rows: they know nothing yet."""
        narrow, new = len(self.priors), len(self.wide_priors)
        constant, labels = arrays["constant"], arrays["constant"].shape[-1]
        wide = np.zeros((1, 2 * new, labels), constant.dtype)
        wide[:, 1::2] = self._constant_priors[narrow : narrow + new, None]
        arrays |= arrays_of(lay_out_tables({}, self._seed, self._dtype), wide[:0])
        parts = constant[:, : 2 * narrow], wide, constant[:, 2 * narrow :]
        arrays["constant"] = np.concatenate(parts, axis=1)
        lines = self._trust[narrow : narrow + new]
        arrays["trust"] = np.insert(arrays["trust"], narrow, lines, axis=0)

    def knows_numbers(self, held: Sparse) -> bool:
        return bool(held.numbers[0, TIMES] > 0)

    def with_blank(self, held: Sparse, place: int) -> Sparse:
        return self.with_numbers(held._replace(numbers=held.numbers.copy()), np.array([place]))

    def meet_label(self, state: Any, labels: int) -> None:
        """Nothing that naive Bayes has counted so far was of the new label."""
        sums, new, elsewhere = state.table[:, -1], labels - 1, state.held.elsewhere
        counted = sums[:, :new].astype(np.float64) - self._dtype.type(self.alpha)
        sums[:, new] = counted.sum(axis=1) / (new - 1) + self.alpha
        known = (counted != 0).any(axis=1).sum()
        elsewhere[new] = (elsewhere[:new].sum() - self.alpha * known) / (new - 1)

    def with_numbers(self, held: Sparse, places: np.ndarray) -> Sparse:
        size = int(places.max()) + 2
        if size > len(held.numbers):
            numbers = np.zeros((max(size, 2 * len(held.numbers)), STATISTICS))
            numbers[:, TIMES] = -1.0
            numbers[: len(held.numbers)] = held.numbers
            held = held._replace(numbers=numbers)
        times = held.numbers[1:, TIMES]
        times[places] = np.maximum(times[places], 0.0)
        return held

    def arrays(self, held: Sparse, features: int, labels: int) -> dict[str, np.ndarray]:
        places, rounds = self._places(held.experts), held.experts.rounds
        starts, sizes = rounds[START, places], rounds[SIZE, places]
        before = np.cumsum(sizes) - sizes
        entries = np.arange(sizes.sum()) + np.repeat(starts - before, sizes)
        numbers = np.flatnonzero(held.numbers[1:, TIMES] >= 0)
        return (
            super().arrays(held, features, labels)
            | {
                "sizes": sizes,
                "indices": held.indices[entries],
                "values": held.values[entries],
                "elsewhere": held.elsewhere[:labels].copy(),
                "temperature": held.temperature.copy(),
            }
            | arrays_of(held.tables, held.wide.table[:, :, :labels])
            | (self._number_arrays(held, numbers) if len(numbers) else {})
            | arrays_of_record(held.names, len(held.experts.trust) > NAMED)
        )

    @staticmethod
    def _number_arrays(held: Sparse, places: np.ndarray) -> dict[str, np.ndarray]:
        return {
            "number_places": places.astype(np.uint32),
            "numbers": held.numbers[1:][places],
            "numbers_seen": held.numbers[:1, TIMES].copy(),
        }

    def moved(self, arrays: dict[str, np.ndarray], places: np.ndarray) -> dict[str, np.ndarray]:
        of_places = ("indices", "column_places")
        arrays = arrays | {name: places[arrays[name]].astype(np.uint32) for name in of_places}
        arrays |= moved_names(arrays, places)
        if "numbers" in arrays:
            numbers = places[arrays["number_places"]].astype(np.uint32)
            order = np.argsort(numbers)
            arrays |= {"number_places": numbers[order], "numbers": arrays["numbers"][order]}
        return arrays

    def _shapes(self, kept: int, labels: int, besides: int) -> dict[str, tuple[Any, Any]]:
        return super()._shapes(kept, labels, besides) | {
            "sizes": ((kept,), np.int64),
            "indices": (None, np.uint32),
            "values": (None, self._dtype),
            "elsewhere": ((labels,), np.float64),
            "temperature": ((2,), np.float64),
            **({PULLS: ((3,), np.float64)} if besides > 1 else {}),
        }

    def fits(self, arrays: dict[str, np.ndarray], features: int, labels: int) -> bool:
        of_numbers = ("number_places", "numbers", "numbers_seen")
        others = {name: array for name, array in arrays.items() if name not in of_numbers}
        besides = {*ARRAYS, *NAME_ARRAYS}
        shared = {name: array for name, array in others.items() if name not in besides}
        if not super().fits(shared, features, labels):
            return False
        sizes, indices = arrays["sizes"], arrays["indices"]
        are_named = not arrays.keys().isdisjoint((*NAME_ARRAYS, PULLS))
        return bool(
            (sizes >= 0).all()
            and len(indices) == len(arrays["values"]) == sizes.sum() <= KEPT_ENTRIES
            and (indices < features).all()
            and (len(others) == len(arrays) or self._are_numbers(arrays, features))
            and (not are_named or are_names(arrays, features, labels))
            and fit_tables(arrays, features, (2 * len(self.wide_priors), labels), self._dtype)
        )

    @staticmethod
    def _are_numbers(arrays: dict[str, np.ndarray], features: int) -> bool:
        try:
            places, numbers, seen = (
                arrays[name] for name in ("number_places", "numbers", "numbers_seen")
            )
        except KeyError:
            return False
        return bool(
            (places.dtype, numbers.dtype, seen.dtype) == (np.uint32, np.float64, np.float64)
            and places.ndim == 1
            and (numbers.shape, seen.shape) == ((len(places), STATISTICS), (1,))
            and len(places) > 0
            and (places[1:] > places[:-1]).all()
            and places[-1] < features
        )

    def is_sound(self, table: np.ndarray, arrays: dict[str, np.ndarray]) -> bool:
        times = arrays.get("numbers", np.zeros((0, STATISTICS)))[:, [TIMES, SPREAD]]
        return (
            super().is_sound(table, arrays)
            and self._are_variances(table[:, :-1], self.priors)
            and bool((table[:, -1] >= (1 - 1e-5) * self.alpha).all())
            and bool((arrays["elsewhere"] >= 0).all() and (arrays["temperature"] > 0).all())
            and self._are_variances(arrays["wide"], self.wide_priors)
            and are_sound_tables(arrays)
            and bool((times >= 0).all())
            and (PULLS not in arrays or are_sound_names(arrays))
            and bool((times[:, 0] <= arrays.get("numbers_seen", np.inf)).all())
        )

    def size(self, features: int, labels: int) -> int:
        entries = 3 * KEPT_ENTRIES * (4 + self._dtype.itemsize)
        wide = lanes_for(labels) * len(self.wide_priors) * 2 * (WAVES + COLUMNS)
        own = wide * self._dtype.itemsize if self._may_be_wide(labels) else 0
        return super().size(features, labels) + entries + own

    def swing(self, features: int) -> int:
        entries = min(KEPT_ENTRIES, KEPT_ROUNDS * features)
        return 17 * KEPT_ROUNDS + entries * (4 + self._dtype.itemsize)

    def faded(
        self, table: np.ndarray, arrays: dict[str, np.ndarray], keep: float
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        kept = len(arrays["sizes"])
        table, arrays = super().faded(table, arrays, keep)
        dropped = kept - len(arrays["said"])
        entries = int(arrays["sizes"][:dropped].sum())
        arrays |= {"sizes": arrays["sizes"][dropped:]}
        arrays |= {name: arrays[name][entries:] for name in ("indices", "values")}
        if "numbers" in arrays:
            arrays |= {
                "numbers": arrays["numbers"] * [keep, 1.0, keep, 1.0, 1.0],
                "numbers_seen": keep * arrays["numbers_seen"],
            }
        faded = np.empty_like(table)
        for rows in row_blocks(table):
            sums = table[rows, -1].astype(np.float64)
            faded[rows, -1] = self.alpha + keep * (sums - self.alpha)
            faded[rows, :-1] = self._faded_table(table[rows, :-1], self.priors, keep)
        counted = arrays["elsewhere"] - self._start_of_sums(table)
        return faded, arrays | {
            "elsewhere": keep * counted + self._start_of_sums(faded),
            "temperature": arrays["temperature"] * [1.0, keep],
            "tables": faded_tables(arrays["tables"], keep),
            "wide": self._faded_table(arrays["wide"], self.wide_priors, keep),
            **({PULLS: faded_pull(arrays[PULLS], keep)} if PULLS in arrays else {}),
        }

    def _start_of_sums(self, table: np.ndarray) -> float:
        """The part of each sum over all features that was there before anything was counted."""
        is_known = (table[:, -1, :2] != self._dtype.type(self.alpha)).any(axis=1)
        return self.alpha * float(is_known.sum())
