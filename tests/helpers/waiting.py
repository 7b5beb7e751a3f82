"""Waiting for a condition. Tests wait for what must happen, however slow the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 120.0  # seconds: only a test that fails waits so long
LONG = 10 * PATIENCE  # for a process that may compile


# The command in a process of its own, which prints "begun" when its long work begins. Whoever runs
# tests in the background may have Ctrl-C ignored, and children inherit that.
BEGINS = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from onebit.cli import main, options
bar = options.rounds_bar
def begun(about):
    print("begun", flush=True)
    return bar(about)
options.rounds_bar = begun
main()
"""


def wait_for(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)
