"""The loop over rounds for many learners at once; `stream_loop` has the one for a single learner.

The learners' weights lie side by side, see `core.replicas`. An algorithm may bring a loop of its
own, as Banditron does.
"""

from __future__ import annotations

from onebit.core.jit import entry
from onebit.core.lanes import pick
from onebit.core.replicas import BEYOND_CACHE, ask_ahead, column, next_row
from onebit.core.rounds import Turn, settle
from onebit.feedback.channels import Link, drifted
from onebit.lab.stream_loop import answer, decide, learn, row_at


@entry
def run_in_lockstep(
    params, like, tables, memories, work, stream, seeds, firsts, counts, link, begin, end
):
    """Rounds from begin to end for all replicas.

    This is a loop of its own, and not `run` of one replica after the other, because a row is read
    once for all of them. Feedback comes at once: late feedback would come to each learner at a
    different time.
    """
    count, table = like.table.shape[2], like.whole.table
    far = table.size * table.itemsize > BEYOND_CACHE
    i = next_row(stream, begin % len(stream.labels) - 1, begin)
    for t in range(begin, end):
        row, label = row_at(stream, i), stream.labels[i]
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
            truth = drifted(own_link, turn.round, label, count)
            choice = decide(own, state, work, row, turn, truth, counts[replica])
            bit, named = answer(own_link, turn, truth, choice.label)
            if bit >= 0:
                counts[replica, 3] += learn(own, state, work, row, turn, choice, bit == 1, named)
        settle(params, like, row)
