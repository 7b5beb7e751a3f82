"""Banditron's rounds in lockstep: the same bits in half the time.

The greedy labels of all replicas are found at once, and no score is copied per replica. The loop
for all algorithms spends half its time on calling one replica after another. Papers sweep
Banditron most, so this module repeats the code of a round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from onebit.core.choosing import best
from onebit.core.draws import bits_by, key_of, limit_of, uniform
from onebit.core.jit import entry, inline
from onebit.core.lanes import aligned_zeros, fetch, if_greater, store, width, zero
from onebit.core.replicas import BEYOND_CACHE, column
from onebit.core.rounds import Row, next_row, settle
from onebit.core.sums import dot_ahead, number


class Scratch(NamedTuple):
    """Numbers of each replica."""

    greedy: Any
    odd: Any
    keys: Any  # of the draws that decide whether to explore
    limits: Any  # explore if the bits of the draw are below
    explores: Any
    stay: Any  # the step when the greedy label was said and was right
    away: Any  # the step of another label that was right


@inline
def greedy_labels(like, scratch):
    """Find the greedy label of every replica. Returns whether all scores are finite."""
    strips, scores, labels = like.strips, like.sums[0], like.table.shape[2]
    blocks = like.replicas // width(strips)
    total = zero(strips)
    for block in range(blocks):
        top, label = fetch(strips, scores, block), zero(strips)
        total = total + top
        for k in range(1, labels):
            score = fetch(strips, scores, k * blocks + block)
            total = total + score
            label = if_greater(score, top, zero(strips) + number(strips, k), label)
            top = if_greater(score, top, score, top)
        store(strips, scratch.greedy, block, label)
    store(strips, scratch.odd, 0, total - total)  # 0, or NaN if a score is not finite
    oddities = 0
    for lane in range(width(strips)):
        oddities += not scratch.odd[lane] == 0  # noqa: SIM201 not a number is not equal either
    return oddities == 0


@entry
def run(params, like, tables, memories, work, stream, seeds, firsts, counts, scratch, begin, end):
    count, table, replicas = like.table.shape[2], like.whole.table, like.replicas
    far = table.size * table.itemsize > BEYOND_CACHE
    steps, touched = like.waiting.first, like.waiting.blocks
    for r in range(len(seeds)):
        gamma = params.gamma[r]
        share = gamma / count
        scratch.stay[r] = 1.0 / ((1.0 - gamma) + share) - 1.0
        scratch.away[r] = 1.0 / share
    wrong, no_step, updates = number(like, -1.0), number(like, 0.0), 0
    i = next_row(stream, begin % (len(stream.indptr) - 1) - 1, begin)
    for t in range(begin, end):
        row = Row(stream.indices, stream.values, stream.indptr[i], stream.indptr[i + 1])
        truth = stream.truths.places[i]
        if t + 1 < end:
            i = next_row(stream, i, t + 1)
        ahead = stream.indptr[i] - row.start
        if not far or row.stop + ahead > len(stream.indices):
            ahead = 0
        dot_ahead(like.whole, row, 0, like.sums[0], ahead)
        learns = row.start < row.stop
        if not greedy_labels(like, scratch):
            for r in range(len(seeds)):
                for label in range(count):
                    work.scores[label] = like.sums[0, label * replicas + r]
                scratch.greedy[r] = best(column(like, tables, memories, r), work)
        # Most replicas are right and do not explore: these are handled together.
        for r in range(len(seeds)):
            scratch.explores[r] = bits_by(scratch.keys[r], t) < scratch.limits[r]
        usual = truth * replicas
        if learns:
            for r in range(len(seeds)):
                steps[usual + r] = scratch.stay[r] if scratch.greedy[r] == truth else no_step
            for block in range(
                usual // width(like.whole), (usual + len(seeds) - 1) // width(like.whole) + 1
            ):
                touched[block] = 1
        for r in range(len(seeds)):
            if scratch.explores[r] or scratch.greedy[r] != truth:
                greedy = int(scratch.greedy[r])
                said = greedy
                if scratch.explores[r]:
                    said = int(uniform(seeds[r], firsts[r] + t, 1) * count)
                counts[r, 0] += said != truth
                counts[r, 1] += greedy != truth
                counts[r, 2] += said != greedy
                if learns:
                    lane = greedy * replicas + r
                    steps[lane] = scratch.stay[r] if said == greedy == truth else wrong
                    touched[lane // width(like.whole)] = 1
                    if said != greedy and said == truth:
                        lane = said * replicas + r
                        steps[lane] = scratch.away[r]
                        touched[lane // width(like.whole)] = 1
        updates += learns
        settle(params, like, row)
    for r in range(len(seeds)):
        counts[r, 3] += updates


def scratch_for(size: int, learners: Sequence[Any]) -> Scratch:
    greedy, odd, stay, away = (
        aligned_zeros((max(size, 16),), learners[0].table.dtype) for _ in range(4)
    )
    keys = np.array(
        [key_of(learner.draw_seed, 0, learner.round) for learner in learners], np.uint64
    )
    limits = np.array([limit_of(learner.gamma) for learner in learners], np.int64)
    return Scratch(greedy, odd, keys, limits, np.zeros(size, np.uint8), stay, away)
