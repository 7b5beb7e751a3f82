"""The loop over rounds for several learners in lockstep; `stream_loop` has that for one learner.

The learners' weights are side by side (`core.replicas`). An algorithm may have its own loop, as
Banditron does.
"""

from __future__ import annotations

from onebit.core.jit import entry
from onebit.core.lanes import pick
from onebit.core.replicas import BEYOND_CACHE, ask_ahead, column
from onebit.core.rounds import Turn, next_row, settle
from onebit.feedback.channels import Link, understood
from onebit.lab.stream_loop import decide, learn, row_at
from onebit.lab.truth import answer, drifted_truth, truth_at


@entry
def run_in_lockstep(
    params, like, tables, memories, work, stream, seeds, firsts, counts, link, begin, end
):
    """Rounds from begin to end for all replicas.

    A row is read once for all replicas, so `run` cannot be used for one replica after another.
    Feedback is never late here, because each learner would get it at a different time.
    """
    count, table = like.table.shape[2], like.whole.table
    far = table.size * table.itemsize > BEYOND_CACHE
    i = next_row(stream, begin % (len(stream.indptr) - 1) - 1, begin)
    for t in range(begin, end):
        row, undrifted = row_at(stream, i), truth_at(stream.truths, i)
        if t + 1 < end:
            i = next_row(stream, i, t + 1)
            if far:
                ask_ahead(like.whole, stream, i)
        for replica in range(len(seeds)):
            own = pick(params, replica)
            state = column(like, tables, memories, replica)
            turn = Turn(seeds[replica], firsts[replica] + t, count)
            own_link = Link(
                link.steps, turn.seed, link.fixed, link.mean, link.given, link.longest, link.hearing
            )
            truth = drifted_truth(undrifted, own_link, turn)
            choice = decide(own, state, work, row, turn, truth, counts[replica])
            bit, named = answer(truth, own_link, turn, choice.label)
            bit = understood(own_link, turn.round, bit)
            if bit >= 0:
                counts[replica, 3] += learn(own, state, work, row, turn, choice, bit == 1, named)
        settle(params, like, row)
