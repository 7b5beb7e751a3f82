"""What an answer changes: all experts learn it, and some learn kept rounds again."""

from __future__ import annotations

from onebit.algorithms.onebit.bayes import learn_bayes
from onebit.algorithms.onebit.dense import Dense
from onebit.algorithms.onebit.experts import (
    COMMON_PRIOR,
    FLOOR,
    KIND,
    LABEL_PRIOR,
    LAST,
    LEARNS_AGAIN,
    LOGISTIC,
    NARROW,
    PRIOR,
    RIDGE,
    bare_expert,
    noise_of,
    shrink_of,
)
from onebit.algorithms.onebit.logistic import learn_logistic
from onebit.algorithms.onebit.names import compare_names, expect, learn_names
from onebit.algorithms.onebit.records import (
    AFTER,
    COMMON,
    EXPECTED,
    HEARD,
    KEPT,
    LABEL,
    RIGHT,
    UNSURE,
    are_dense,
    clear_full,
    is_left_out,
    kept_input,
    last_input,
    narrow_table,
    place_of,
    regress_full,
    wide_table,
)
from onebit.algorithms.onebit.ridge import learn_ridge
from onebit.algorithms.onebit.rows import move_row, sum_up
from onebit.algorithms.onebit.softmax import find_change, know_after
from onebit.algorithms.onebit.sparse import Sparse
from onebit.core.draws import uniform
from onebit.core.jit import implement, inline, not_inlined, outline
from onebit.core.rounds import teaches
from onebit.core.sums import number

AGAIN = 2  # kept rounds that are learned again after an answer; four cost time and gain nothing
REPLAY_DRAW = 8  # the first stream of draws of rounds that are learned again


@implement(teaches, Sparse, Dense)
def _teaches(state, row):
    return True  # an empty row, too: how often labels are right in such rounds


@outline
def _learn(narrow, wide, experts, context, mask, said, right, is_known, with_all):
    """An answer for all experts, or only for those that learn again.

    is_known: the scratch has the labels' probabilities after the answer.
    """
    not_inlined()
    row, stop, scale, wide_row = context.row, context.narrow, context.scale, context.wide
    is_dense = are_dense(experts)
    for expert in range(bare_expert(experts.constant)):
        plane = 2 * expert
        constant, sums = experts.constant[plane : plane + 2], experts.sums[plane : plane + 2]
        if expert >= NARROW and is_left_out(experts.trust, expert):
            continue
        if KIND[expert] == RIDGE:
            if with_all:
                answer = 1.0 if right else -1.0
                learn_ridge(narrow, plane, row, stop, scale, constant, sums, said, answer)
        elif KIND[expert] == LOGISTIC:
            if with_all:
                line = experts.trust[expert]
                learn_logistic(narrow, plane, row, stop, scale, constant, sums, line, said, right)
        elif (with_all or LEARNS_AGAIN[expert]) and find_change(
            sums[0], sums[1], mask, said, right, is_known,
            shrink_of(expert, is_dense), FLOOR[expert], noise_of(expert, is_dense),
            experts.change, experts.scratch,
        ):  # fmt: skip
            if expert < NARROW:
                move_row(narrow, plane, row, stop, scale, constant, experts.change)
            else:
                plane, side = plane - 2 * NARROW, number(wide, 1.0)
                move_row(wide, plane, wide_row, wide_row.stop, side, constant, experts.change)
    if with_all:
        expert = bare_expert(experts.constant)
        plane, start = 2 * expert, row.start
        constant, sums = experts.constant[plane : plane + 2], experts.sums[plane : plane + 2]
        line = experts.trust[expert]
        learn_logistic(narrow, plane, row, start, scale, constant, sums, line, said, right)


@inline
def _learn_full(state, context, said, right):
    """An answer for the regression with full matrices, where there is one."""
    experts = state.held.experts
    if are_dense(experts) and len(experts.trust) > LAST:
        regress_full(state, context, said, 1.0 if right else -1.0)


@inline
def _learn_kept(state, place, with_all):
    """Learn a kept round, with all experts or only with those that learn again."""
    narrow, wide, experts = narrow_table(state), wide_table(state), state.held.experts
    label, right = experts.rounds[LABEL, place], experts.rounds[RIGHT, place] == 1
    context = kept_input(state, place)
    sum_up(narrow, wide, experts.constant, experts.trust, experts.sums, context, with_all)
    compare_names(state, context)
    is_known = experts.count[KEPT] == 0  # never; a constant would be compiled once more
    _learn(narrow, wide, experts, context, experts.all_labels, label, right, is_known, with_all)
    if with_all:
        _learn_full(state, context, label, right)


@inline
def _drawn(experts, turn, n, among):
    """The place of one of the oldest kept rounds, drawn at random."""
    i = int(uniform(turn.seed, experts.count[HEARD], REPLAY_DRAW + n) * among)
    return place_of(experts.count, i)


@inline
def learn_round(state, work, row, said, right, with_all):
    """An answer about the row that was prepared last. with_all: True; a constant would be compiled
    once more."""
    narrow, wide, experts = narrow_table(state), wide_table(state), state.held.experts
    context = last_input(state, row)
    expect(state, work)
    expected, after = experts.scratch[EXPECTED], experts.scratch[AFTER]
    is_known = know_after(expected, work.mask, said, right, are_dense(experts), after)
    learn_names(state, work.mask, said, right)
    learn_bayes(state, context, said, right, is_known)
    _learn(narrow, wide, experts, context, work.mask, said, right, is_known, with_all)
    _learn_full(state, context, said, right)


@inline
def learn_kept_rounds(state, turn, anew):
    """Learn kept rounds again after an answer; anew: all of them, each as if it were just heard."""
    experts = state.held.experts
    last = experts.count[KEPT] - 1
    for i in range(0 if anew else max(last, 0), last + 1):
        for n in range(0 if anew else 1, 1 + AGAIN):  # 0: the round itself
            place = place_of(experts.count, i)
            if n > 0:
                place = _drawn(experts, turn, AGAIN * (last - i) + n - 1, i + 1)
            _learn_kept(state, place, n == 0)


@outline
def _clear(table, constant, wide):
    """Reset the experts of a table, and their constant features, to the state before any answer."""
    not_inlined()
    first = NARROW if wide else 0
    for m in range(table.shape[1] // 2):
        expert = first + m
        prior = LABEL_PRIOR if KIND[expert] == LOGISTIC else PRIOR[expert]
        _clear_constant(constant, expert, prior)
        for label in range(table.shape[2]):
            for j in range(table.shape[0]):
                table[j, 2 * m, label], table[j, 2 * m + 1, label] = 0.0, PRIOR[expert]


@inline
def _clear_constant(constant, expert, prior):
    for label in range(constant.shape[1]):
        constant[2 * expert, label], constant[2 * expert + 1, label] = 0.0, prior


@inline
def _clear_common(experts):
    """What logistic models know of all labels together, and the expert without features."""
    _clear_constant(experts.constant, bare_expert(experts.constant), LABEL_PRIOR)
    for expert in range(len(experts.trust)):
        experts.trust[expert, COMMON], experts.trust[expert, UNSURE] = 0.0, COMMON_PRIOR


@inline
def start_anew(state, anew):
    """All experts with weights know nothing again. anew: True, as for `learn_round`."""
    narrow, wide, experts = narrow_table(state), wide_table(state), state.held.experts
    _clear(narrow.table, experts.constant, not anew)
    _clear(wide.table, experts.constant, anew)
    clear_full(state)
    _clear_common(experts)


@inline
def may_say_all(held, work):
    differing = 0
    for label in range(len(work.mask)):
        differing += work.mask[label] != held.all_labels[label]
    return differing == 0
