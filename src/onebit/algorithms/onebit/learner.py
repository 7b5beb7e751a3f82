"""The learner."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from typing import Any, Literal

import numpy as np

from onebit.algorithms.onebit import bayes
from onebit.algorithms.onebit.bayes import sum_up_bayes
from onebit.algorithms.onebit.drift import EARNED, FALSE_ALARM, RANG, SPENT, DriftAlarm
from onebit.algorithms.onebit.earlier import is_earlier, with_new_experts
from onebit.algorithms.onebit.experts import (
    LAST,
    NARROW,
    PRIOR,
    bare_expert,
)
from onebit.algorithms.onebit.exploring import best_bound, highest_forecast, rank_after_bound, urges
from onebit.algorithms.onebit.forecasting import forecast_all, forecast_said
from onebit.algorithms.onebit.learning import (
    learn_kept_rounds,
    learn_round,
    may_say_all,
    start_anew,
)
from onebit.algorithms.onebit.names import compare_names, sum_up_named
from onebit.algorithms.onebit.records import (
    ANSWERED,
    HEARD,
    SAID,
    WEIGHT,
    are_dense,
    fix_scales,
    keep_round,
    meet_row,
    narrow_table,
    prepared,
    sum_up_full,
    wide_table,
)
from onebit.algorithms.onebit.rows import sum_up
from onebit.algorithms.onebit.sparse import SparseExperts
from onebit.algorithms.onebit.starting import storage_for
from onebit.algorithms.onebit.weighing import beliefs, weigh
from onebit.algorithms.onebit.wording import context_of_name, entries_of
from onebit.core import rounds
from onebit.core.choosing import best, certain_law, could_say_for_certain
from onebit.core.jit import inline, not_inlined, outline
from onebit.core.lists import RIGHT, WRONG, certain_list_law, is_in
from onebit.core.rounds import Choice
from onebit.core.settings import choice_of, flag, or_none, setting
from onebit.feedback.drift import hear_answer
from onebit.learner.algorithm import Context
from onebit.learner.learner import Learner, precision
from onebit.reading.dicts import first_number
from onebit.reading.rows import NAMES
from onebit.reading.ways import Apart, Columns, Open, Raw
from onebit.storage.base import Storage


@inline
def spend(state, forecast, right):
    """A label was tried, in place of one with this forecast."""
    cost = forecast - (1.0 if right else 0.0)
    state.memory[SPENT] = max(0.0, state.memory[SPENT] + cost)


@inline
def listen(state, right):
    """Count right answers, and notice when they become rarer."""
    state.memory[EARNED] += 1.0 if right else 0.0
    if hear_answer(state.memory, FALSE_ALARM, right):
        state.memory[RANG] = 1.0


@outline
def learn_answer(state, work, row, turn, said, right):
    """What an answer about a label changes, but for the costs of trying and the alarm."""
    not_inlined()
    experts = state.held.experts
    forecast_said(experts, bare_expert(experts.constant), said)
    weigh(experts.trust, experts.forecasts, said, right, are_dense(experts))
    experts.tries[ANSWERED, said] += 1.0
    experts.count[HEARD] += 1
    if may_say_all(experts, work):
        keep_round(state, row, said, right)
    anew = fix_scales(state, row)
    if anew:
        start_anew(state, anew)
    else:
        learn_round(state, work, row, said, right, not anew)
    learn_kept_rounds(state, turn, anew)
    meet_row(state, row)
    return True


class OneBit(Learner):
    """The learner to start with: it has no settings to choose.

    Exactly one label may be right in each round, or several, or none: it finds out, and `one_right`
    tells what it believes. `exclusive` says it beforehand.

    Dense rows are standardised, and random Fourier features are added. Sparse rows are scaled to
    length 1, after the numbers of dicts were standardised; where they are rows of a table, with
    numbers and categories alone, Fourier features are added, too. The first context that is learned
    from tells which: an array or a list of numbers is dense; a text, a dict, a sparse row or a pair
    (indices, values) is sparse. `inputs` says it beforehand. When right answers become rarer, it
    forgets most of what it has learned.

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
    BITS = 6  # 2: labels that are right by themselves; 3: empty contexts; 4: tables as dicts;
    # 5: costs of tries; 6: names
    shares_chances = entangled = True
    shows_lists = True
    list_law = certain_list_law
    infers_the_other = True
    hears_empty = True
    scales_itself = True
    may_pause = True
    alarm = DriftAlarm()
    lockstep = None
    earlier_memories = (EARNED,)  # without right answers: it tries little until there are many
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
        sum_up(narrow, wide, experts.constant, experts.trust, experts.sums, context, with_all)
        if len(experts.trust) > LAST:
            sums = experts.sums[2 * LAST :]
            compare_names(state, context)
            sum_up_bayes(state, context, work.mask, sums[0])
            sum_up_named(state, experts.sums)
            sum_up_full(state, context, experts.trust[LAST, WEIGHT], sums)
        forecast_all(
            experts, bare_expert(experts.constant), work.mask, turn, work.scores, work.widths
        )

    @staticmethod
    def say(params, state, work, turn):
        doubt, keen = urges(state, work, turn)
        label = best_bound(state, work, turn, doubt, keen)
        state.held.experts.tries[SAID, label] += 1.0
        return Choice(label, best(state, work), 1.0, 0.0, 0.0)

    @staticmethod
    def law(params, state, work, turn):
        doubt, keen = urges(state, work, turn)
        certain_law(work, best_bound(state, work, turn, doubt, keen))

    @staticmethod
    def hear(params, state, work, row, turn, choice, right):
        if choice.label != choice.greedy:
            spend(state, highest_forecast(work), right)
        listen(state, right)
        return learn_answer(state, work, row, turn, choice.label, right)

    @staticmethod
    def rank(params, state, work, turn, greedy, ranks):
        rank_after_bound(state, work, turn, ranks)

    @staticmethod
    def say_list(params, state, work, turn, ranks, places):
        for i in range(len(places)):
            places[i] = ranks[i]
            state.held.experts.tries[SAID, places[i]] += 1.0
        return Choice(places[0], best(state, work), 1.0, 0.0, 0.0)

    @staticmethod
    def hear_list(params, state, work, row, turn, places, greedy, chances, choice, answers, afresh):
        experts, is_taken = state.held.experts, is_in(answers, RIGHT)
        least = max(np.float64(work.scores[greedy[len(greedy) - 1]]), 0.0)
        for i in range(len(places)):
            if not is_in(greedy, places[i]):
                spend(state, least, answers[i] == RIGHT)
        listen(state, is_taken)
        exclusive, _ = beliefs(experts, bare_expert(experts.constant), turn.count)
        heard = 0
        for answer in (WRONG, RIGHT):
            if answer == WRONG and is_taken and exclusive == 1.0:
                continue  # where exactly one label is right, the taken one says it all
            for i in range(len(places)):
                if answers[i] == answer:
                    if heard > 0:
                        rounds.score(params, state, work, row, turn)
                    learn_answer(state, work, row, turn, places[i], answer == RIGHT)
                    heard += 1
        return True

    def _check_settings(self) -> None:
        if self.inputs == "dense" and self.features is None:
            raise ValueError("inputs='dense' needs features=, the number of columns")

    def _make_storage(self) -> Storage:
        dtype = precision(self.dtype or "float32")
        columns = self.features if self.inputs == "dense" else None
        return storage_for(columns or 0, dtype, self.exclusive, self.seed)

    def _memory(self) -> tuple[float, ...]:
        return (0.0,) * (EARNED + 1)

    def _is_sound(self, table: np.ndarray, memory: np.ndarray) -> bool:
        return bool((memory >= 0).all())

    def _way(self, storage: Storage, scales: Any) -> Raw:
        if not storage.planes:
            return Columns(self.features, storage.columns)  # type: ignore[attr-defined]
        way = Open if self.inputs == "auto" else Apart  # indices of numbers are beyond all others
        return way(self._dtype, self.features, first_number(self.features))

    def _read_names(self, labels: Sequence[Any], descriptions: Sequence[Any]) -> list[Context]:
        reader, names = self.reader, []
        reads_names = reader.taught_with in ("", NAMES) and not reader.way.columns
        for label, description in zip_longest(labels, descriptions):
            context = context_of_name(label, description)
            if description is None and not reads_names:
                context = None
            try:
                names.append(None if context is None else reader.one(context, self)[0])
            except (TypeError, ValueError) as error:
                kind = TypeError if isinstance(error, TypeError) else ValueError
                raise kind(f"the description of {label!r}: {error}") from None
        return names

    def _name(self, names: Sequence[Context], first: int = 0) -> None:
        table, entries = self.table, []
        if not isinstance(table.storage, SparseExperts):
            return
        for label, row in enumerate(names, first):
            if row is not None:
                indices, values = table.fitted(row)
                table.reserve_for(indices)
                entries.append((table.places(indices), label, values))
        if entries:
            held, size = table.state.held, len(table.state.table)
            held = table.storage.named(held, size, table.size, entries_of(entries))
            table.state = table.state._replace(held=held)

    @classmethod
    def _from_earlier(cls, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return with_new_experts(arrays) if is_earlier(arrays) else arrays

    def _fill(self) -> tuple[float, ...]:
        weights = (value for prior in PRIOR[:NARROW] for value in (0.0, prior))
        return (*weights, bayes.ALPHA)
