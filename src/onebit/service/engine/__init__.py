"""The engine: the one owner of a learner. It decides, learns, and puts both into the journal.

The learner is a pure function of the journal: the decisions as they were made and the answers as
they stand now, in the order of their positions, make it again, bit for bit. So a snapshot is a
learner and a position, start-up replays what came after it, and a change of the past (a revised
answer, a cancelled decision, an erased context, other settings) is a learner built again.

A call computes its result at once and returns it together with the commit that holds it. The result
may be told to others when that commit is done: `wait` waits for it. If the commit fails, the
learner is ahead of the journal, and `Service` has it built again from what is on disk.
"""

from __future__ import annotations

from onebit.service.engine.deciding import Deciding
from onebit.service.engine.entries import id_of, parsed_id
from onebit.service.engine.pending import Pending
from onebit.service.engine.periodic import PeriodicWork
from onebit.service.engine.settings import Settings

__all__ = ["Engine", "Pending", "id_of", "parsed_id"]


class Engine(Deciding, PeriodicWork, Settings):
    """The owner of one model."""
