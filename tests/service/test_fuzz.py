"""Random requests from 32 connections: the service lives, keeps its memory and loses nothing.

ONEBIT_FUZZ_REQUESTS says how many requests are sent (default: 2,000), and ONEBIT_FUZZ_SEED which
ones. The service runs as these tests do, compiled or not.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter

import pytest
from fuzzing import CONFIGURATION, OWNER, TOKENS, Sender
from helpers.waiting import PATIENCE
from ledger import Ledger
from processes import started

from onebit.client import Client

REQUESTS = int(os.environ.get("ONEBIT_FUZZ_REQUESTS", "2000"))
SEED = os.environ.get("ONEBIT_FUZZ_SEED", "1")
CONNECTIONS = 32
MEMORY = 600 * 2**20  # bytes that a service may hold, and may have as data
GROWTH = 100 * 2**20  # bytes that it may hold more after the last request than after a fifth
ENOUGH = 20_000  # requests, of which the first fifth fills all that is kept for a time

pytestmark = pytest.mark.skipif(
    not os.path.exists("/proc/self/status"), reason="only Linux says how much memory a process had"
)


def test_random_requests(tmp_path):
    fuzz(tmp_path, REQUESTS)


@pytest.mark.exhaustive
def test_a_hundred_thousand_random_requests(tmp_path):
    fuzz(tmp_path, 100_000)


def fuzz(folder, requests):
    configuration = folder / "a.toml"
    configuration.write_text(CONFIGURATION)
    tokens = folder / "tokens.toml"
    tokens.write_text(TOKENS)
    tokens.chmod(0o600)
    ledger = Ledger()
    with started(configuration, env={**os.environ, "NO_PROXY": "*"}) as running:
        url = running.wait_for(r"address (http://\S+)")
        port = int(url.rpartition(":")[2])
        senders = [Sender(port, f"{SEED} {i}", ledger) for i in range(CONNECTIONS)]
        held = send_all(senders, requests, running)
        with Client(url, token=OWNER, timeout=PATIENCE) as client:
            assert set(client.ready()) == {"news", "later"}
            assert client.decide("news", {"goal": 1}).label
        statuses = sum((sender.statuses for sender in senders), Counter())
        print(f"seed {SEED}: {sum(s.sent for s in senders):,} requests, {dict(statuses)}")
        print(f"memory: {', '.join(f'{size / 2**20:.0f}' for size in held)} MiB, ", end="")
        print(f"at most {running.memory('VmHWM') / 2**20:.0f} MiB")
        # The kernel notes the most that was ever used, so nothing escapes between two looks. It
        # cannot refuse more: tables are laid out for their vocabulary before they are used.
        assert running.memory("VmHWM") < MEMORY
        if requests >= ENOUGH:
            assert held[-1] - held[len(held) // 5] < GROWTH
        assert "Traceback" not in running.text and " ERROR " not in running.text, running.text
    # It was killed. The next one has only the journal.
    print(ledger.check_journal(configuration))


def send_all(senders, requests, running):
    """Bytes that the service holds: at the begin, and then at ten moments."""
    failed = []

    def run(sender):
        try:
            sender.run(-(-requests // len(senders)))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(sender,)) for sender in senders]
    held = [running.memory()]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if sum(sender.sent for sender in senders) >= len(held) * requests / 10:
            held.append(running.memory())
        assert running.process.poll() is None, running.text[-3000:]
        for sender in senders if failed else ():
            sender.is_over = True
        time.sleep(0.02)
    if failed:
        failed[0].add_note(f"The service wrote: {running.text[-5000:]}")
        raise failed[0]
    held.append(running.memory())
    return held
