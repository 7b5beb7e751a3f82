"""The engine: the one owner of a learner. It decides, learns, and puts both into the journal.

The learner is a pure function of the journal: the decisions as they were made and the answers as
they stand now, in the order of their positions, make it again, bit for bit. So a snapshot is a
learner and a position, start-up replays what came after it, and a change of the past (a revised
answer, a cancelled decision, an erased context, other settings) is a learner built again.

A call computes its result at once and returns it together with the commit that holds it. The result
may be told to others when that commit is done: `wait` waits for it. If the commit fails, the
learner is ahead of the journal, and `Service` has it built again from what is on disk.

`Engine` is what others see. It is made of parts that share one `EngineState` under one lock; each
says in its docstring how it holds that lock. Shadows have a lock of their own, which is taken
before it. From the bottom:

- `state`: the learner, its place in the journal, the lock; `building` makes learners from events;
- `recent`: the decisions that are in memory; `standing`: the state of each, and what it refuses;
- `counts`, `versions`, `saving`: what is counted, and what the journal and the folder have of it;
- `records`: decisions and the model card, for readers;
- `rebuilding`: learners that are built again, at once or in a thread;
- `deciding`, `revising`, `answering`, `recording`: requests; `changing`: other labels, settings,
  files;
- `schedule`: what time brings;
- `shadows`: learners that never speak, in a thread; promotion. Each is a `shadow`, and `comparing`
  has the sums of what it would have said.
"""

from onebit.service.engine.engine import Engine
from onebit.service.engine.pending import Pending
from onebit.service.engine.recent import id_of, parsed_id

__all__ = ["Engine", "Pending", "id_of", "parsed_id"]
