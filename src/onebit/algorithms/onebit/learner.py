"""The learner."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any, Literal

import numpy as np

from onebit.algorithms.onebit import bayes
from onebit.algorithms.onebit.bayes import sum_up_bayes
from onebit.algorithms.onebit.drift import FALSE_ALARM, RANG, SPENT, DriftAlarm
from onebit.algorithms.onebit.experts import (
    BAYES,
    FULL,
    NARROW,
    PRIOR,
    bare_expert,
)
from onebit.algorithms.onebit.exploring import best_bound, highest_forecast
from onebit.algorithms.onebit.forecasting import forecast_all, forecast_said
from onebit.algorithms.onebit.learning import (
    learn_kept_rounds,
    learn_round,
    may_say_all,
    start_anew,
)
from onebit.algorithms.onebit.records import (
    ANSWERED,
    HEARD,
    SAID,
    WEIGHT,
    fix_scales,
    keep_round,
    narrow_table,
    prepared,
    sum_up_full,
    wide_table,
)
from onebit.algorithms.onebit.rows import sum_up
from onebit.algorithms.onebit.starting import storage_for
from onebit.algorithms.onebit.weighing import weigh
from onebit.core.choosing import best, certain_law, could_say_for_certain
from onebit.core.rounds import Choice
from onebit.core.settings import choice_of, flag, or_none, setting
from onebit.core.slots import BLANKS, width_of
from onebit.feedback.drift import hear_answer
from onebit.learner.learner import Learner, precision
from onebit.reading.dicts import HASHED, first_number, most_features
from onebit.reading.ways import Apart, Columns, Open, Raw
from onebit.storage.base import Storage
from onebit.storage.scales import TIMES


class OneBit(Learner):
    """The learner to start with: it has no settings to choose.

    Exactly one label may be right in each round, or several, or none: it finds out, and `one_right`
    tells what it believes. `exclusive` says it beforehand.

    Dense rows are standardised, and random Fourier features are added. Sparse rows are scaled to
    length 1, after the numbers of dicts were standardised. The first context that is learned from
    tells which: an array or a list of numbers is dense; a text, a dict, a sparse row or a pair
    (indices, values) is sparse. `inputs` says it beforehand. When right answers become
    rarer, it forgets most of what it has learned.

    >>> import onebit as ob
    >>> learner = ob.OneBit(["sport", "politics"])
    >>> for text, topic in 5 * [("a late goal", "sport"), ("a new tax law", "politics")]:
    ...     decision = learner.decide(text)
    ...     learner.learn(decision, right=decision.label == topic)
    >>> learner.decide("a goal in the last minute").label
    'sport'
    >>> learner.probabilities(["a late goal"]).round(1).tolist()
    [[1.0, 0.0]]
    """

    planes = 2 * NARROW + 1
    forecasts = (0.0, 1.0)
    BITS = 3  # 2: labels that are right by themselves; 3: empty contexts
    shares_chances = True
    infers_the_other = True
    hears_empty = True
    scales_itself = True
    may_pause = True
    alarm = DriftAlarm()
    lockstep = None
    inputs: Literal["auto", "dense", "sparse"] = setting(  # type: ignore[override] its own choices
        default="auto",
        check=partial(choice_of, choices=("auto", "dense", "sparse")),
        doc="how contexts are read: as dense rows, as sparse rows, or as the first one is",
    )
    exclusive: bool | None = setting(
        default=None,
        check=or_none(flag),
        doc="True: exactly one label is right in each round; False: each is right or wrong by "
        "itself; None: it finds out",
    )
    could_say = could_say_for_certain

    @staticmethod
    def score(params, state, work, row, turn):
        context, experts = prepared(state, row), state.held.experts
        narrow, wide = narrow_table(state), wide_table(state)
        with_all = turn.round >= 0  # always; a constant would be compiled once more
        sum_up(narrow, wide, experts.constant, experts.sums, context, with_all)
        sum_up_bayes(state, context, work.mask, experts.sums[2 * BAYES])
        if len(experts.trust) > FULL:
            plane = 2 * FULL
            sum_up_full(state, context, experts.trust[FULL, WEIGHT], experts.sums[plane:])
        forecast_all(
            experts, bare_expert(experts.constant), work.mask, turn, work.scores, work.widths
        )

    @staticmethod
    def say(params, state, work, turn):
        label = best_bound(state, work, turn)
        state.held.experts.tries[SAID, label] += 1.0
        return Choice(label, best(state, work), 1.0, 0.0, 0.0)

    @staticmethod
    def law(params, state, work, turn):
        certain_law(work, best_bound(state, work, turn))

    @staticmethod
    def hear(params, state, work, row, turn, choice, right):
        experts, said = state.held.experts, choice.label
        forecast_said(experts, bare_expert(experts.constant), said)
        weigh(experts.trust, experts.forecasts, said, right)
        experts.tries[ANSWERED, said] += 1.0
        if said != choice.greedy:
            cost = highest_forecast(work) - (1.0 if right else 0.0)
            state.memory[SPENT] = max(0.0, state.memory[SPENT] + cost)
        experts.count[HEARD] += 1
        if hear_answer(state.memory, FALSE_ALARM, right):
            state.memory[RANG] = 1.0
        if may_say_all(experts, work):
            keep_round(state, row, said, right)
        anew = fix_scales(state, row)
        if anew:
            start_anew(state, anew)
        else:
            learn_round(state, work, row, said, right, not anew)
        learn_kept_rounds(state, turn, anew)
        return True

    def _check_settings(self) -> None:
        if self.inputs == "dense" and self.features is None:
            raise ValueError("inputs='dense' needs features=, the number of columns")

    def _make_storage(self) -> Storage:
        dtype = precision(self.dtype or "float32")
        columns = self.features if self.inputs == "dense" else None
        return storage_for(columns or 0, dtype, self.exclusive, self.seed)

    def _add_label(self, label: str | int | None) -> None:
        with self._lock:
            super()._add_label(label)
            if self.planes:  # nothing that was counted so far was of the new label
                sums, new = self._state.table[:, -1], self._size - 1
                counted = sums[:, :new].astype(np.float64) - self._dtype.type(bayes.ALPHA)
                sums[:, new] = counted.sum(axis=1) / (new - 1) + bayes.ALPHA
                elsewhere, known = self._state.held.elsewhere, (counted != 0).any(axis=1).sum()
                elsewhere[new] = (elsewhere[:new].sum() - bayes.ALPHA * known) / (new - 1)

    def _memory(self) -> tuple[float, ...]:
        return (0.0,) * (SPENT + 1)

    def _is_sound(self, table: np.ndarray, memory: np.ndarray) -> bool:
        return bool((memory >= 0).all())

    def _has_learned(self) -> bool:
        """From contexts that were not empty: these are of any kind."""
        is_known = self.reader.taught_with != "" or not self.reader.way.is_open
        return is_known and self._state.held.experts.count[HEARD] > 0

    # Numbers of dicts. Their indices are beyond all others, so they are given places in the table.

    @cached_property
    def _first_number(self) -> int:  # type: ignore[override] computed once
        return first_number(self.features)

    @property
    def _most_features(self) -> int:
        if not self.planes:
            return super()._most_features
        return most_features(self.features, self._first_number)

    @property
    def _column_count(self) -> int:
        return 0 if self.planes else self._storage.columns  # type: ignore[attr-defined]

    def knows_numbers(self) -> bool:
        return self.planes > 0 and self._state.held.numbers[0, TIMES] > 0

    def _way(self) -> Raw:
        if not self.planes:
            return Columns(self.features, self._column_count)
        way = Open if self.inputs == "auto" else Apart
        return way(self._dtype, self.features, self._first_number)

    def _maps(self, columns: int, width: int, replicas: int = 1) -> bool:
        has_numbers = self.planes > 0 and width > self._first_number
        return has_numbers or super()._maps(columns, width, replicas)

    def _give_places(
        self, indices: np.ndarray, indptr: np.ndarray, order: np.ndarray, width: int
    ) -> np.ndarray:
        places = super()._give_places(indices, indptr, order, width)
        if width > self._first_number:
            numbers = self._slots[indices[indices >= self._first_number]]
            if numbers.any():  # of rows that do not come, they have no places
                self._hold_numbers(numbers[numbers > 0] - np.uint32(1))
        return places

    def _hold_numbers(self, places: np.ndarray) -> None:
        storage: Any = self._storage
        held = storage.with_numbers(self._state.held, places)
        self._state = self._state._replace(held=held)

    def _with_blanks(self, needed: int) -> Any:
        state = super()._with_blanks(needed)
        if needed < BLANKS:
            return state
        storage: Any = self._storage
        held = state.held._replace(numbers=state.held.numbers.copy())
        blank = np.array([len(state.table) - 1])
        return state._replace(held=storage.with_numbers(held, blank))

    def _may_have(self, features: np.ndarray) -> bool:
        if self.features is None:
            return super()._may_have(features)
        count = int((features < self.features).sum())  # of these, the table has all
        return self.planes > 0 and count == self.features and features[-1] < self._most_features

    def forget(self, share: float = 1.0) -> None:
        with self._lock:
            super().forget(share)
            if self.planes and len(self._slots) and len(self._state.held.numbers) == 1:
                are_numbers = self._features() >= self._first_number
                if are_numbers.any():
                    self._hold_numbers(self._order()[are_numbers])

    def _plane(self, plane: int) -> np.ndarray:
        """With the columns of the numbers after all others."""
        (features, order), first = self._own_features(), self._first_number
        columns = np.where(features < first, features, features - first + max(self._width, HASHED))
        found = np.empty((self._size, width_of(columns)), self._dtype)
        found[:] = self._fill()[plane]
        found[:, columns] = self._state.table[order, plane, : self._size].T
        return found

    def _fill(self) -> tuple[float, ...]:
        weights = (value for prior in PRIOR[:NARROW] for value in (0.0, prior))
        return (*weights, bayes.ALPHA)
