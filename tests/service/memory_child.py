"""A service in a process of its own, whose memory is limited or measured; no HTTP.

memory_child.py CONFIG play COUNT: decides on so many contexts of new names; prints how many MiB the
process has got. memory_child.py CONFIG start MIB: starts with so many MiB more than Python takes,
and prints what answers and what is down.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

from onebit.service.configuration import check
from onebit.service.engine import building
from onebit.service.service import Service

NAMES = 2_000  # in a context


def measured(name: str) -> int:
    """A number of /proc/self/status, in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) // 1024
    raise LookupError(name)


def play(service: Service, count: int) -> int:
    engine = service.models["news"]
    engine.decide({"first": 1.0})
    before = measured("VmRSS")
    for i in range(count):
        told = engine.decide({f"name {i} {n}": 1.0 for n in range(NAMES)})
        engine.feedback(told.id, right=i % 2 == 0)
    return measured("VmRSS") - before


if __name__ == "__main__":
    path, what, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
    building.MEMORY = 2**25 if what == "play" else 2**30
    if what == "start":
        bytes_more = (measured("VmSize") + number) * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (bytes_more, bytes_more))
    with Service(check(path), ticks=False) as service:
        if what == "play":
            print(play(service, number))
        else:
            told = service.models["other"].decide({"a": 1.0})
            service.models["other"].feedback(told.id, right=True)
            print(json.dumps([list(service.models), dict(service.down)]))
