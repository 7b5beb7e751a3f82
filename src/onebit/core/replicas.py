"""Shared by loops over replicas: the state of a replica, and prefetching."""

from __future__ import annotations

from typing import Any

from onebit.core.jit import generic, implement, inline
from onebit.core.lanes import ALIGNMENT, REPLICAS, at, prefetch


def _column_of(kind: type) -> Any:
    def column(like, tables, memories, replica):
        return kind(
            tables[:, :, :, replica],
            memories[replica],
            like.whole,
            like.strips,
            replica,
            like.replicas,
            like.lanes,
            like.sums,
            like.turned,
            like.waiting,
        )

    return column


@generic
def column(like, tables, memories, replica):
    """The state of one replica."""


for _kind in REPLICAS:
    implement(column, _kind)(_column_of(_kind))


BEYOND_CACHE = 2**20  # bytes: weights of a larger table are prefetched a row ahead


@inline
def ask_ahead(whole, stream, i):
    """Prefetch the weights of row i while another row is processed."""
    table = whole.table
    lines = table.shape[1] * table.shape[2] * table.itemsize // ALIGNMENT
    for n in range(stream.indptr[i], stream.indptr[i + 1]):
        for line in range(lines):
            prefetch(whole, at(stream.indices, n), line)
