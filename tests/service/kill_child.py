"""Services to be killed. Started once by test_kill.py; each line on its input asks for another one.

Python and onebit are loaded once, and each service runs in a fork. Every acknowledged decision and
answer is written to the output, as soon as it is acknowledged.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from random import Random

sys.path.insert(0, os.path.dirname(__file__))
from running import LABELS, WITH_A_SHADOW, Home, context

from onebit.service import journal
from onebit.service.engine import rebuilding
from onebit.service.faults import Busy, Contradiction
from onebit.service.messages import Logged, Promotion


def say(*words) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def load(news, random: Random, first: int) -> None:
    """Decide and answer for ever."""
    open_ids, number = [], first
    while True:
        numbers = range(number, number + random.choice([1, 1, 5]))
        number = numbers.stop
        made = [(i, news.submit_decide(context(i), key=f"k{i}")) for i in numbers]
        for i, pending in made:
            told = pending.wait()
            say("decided", told.id, i, told.label)
            open_ids.append(told.id)
        while len(open_ids) > random.randrange(8):
            id, choice = open_ids.pop(random.randrange(len(open_ids))), random.random()
            if choice < 0.9:
                right = random.random() < 0.5
                say("trying", id, "right" if right else "wrong")
                news.feedback(id, right=right)
                say("did", id, "right" if right else "wrong")
                if choice < 0.05:
                    say("trying", id, "wrong" if right else "right")
                    news.revise(id, right=not right)
                    say("did", id, "wrong" if right else "right")
            elif choice < 0.95:
                say("trying", id, "cancelled")
                news.cancel(id)
                say("did", id, "cancelled")
        if random.random() < 0.05:
            speaker = news.card().speaker
            with suppress(Busy, Contradiction):  # another thread has done it meanwhile
                news.submit_promote(Promotion(shadow="other" if speaker == "news" else "news"))
        if random.random() < 0.2:
            number += 1
            said = Logged(context=context(number), said=LABELS[1], propensity=0.5, right=True)
            id = news.logged(said).id
            # In one piece: the answer is there as soon as the decision.
            say("decided", id, number, f"{LABELS[1]}\ndid", id, "right")


def serve(folder: str, seed: int) -> None:
    journal.CHECKPOINT_COMMITS = 10
    rebuilding.AT_ONCE = 30  # more is built again behind the scenes
    home = Home(Path(folder), WITH_A_SHADOW, durability="full")
    service = home.start(snapshot_every=25)
    random = Random(seed)
    for i in range(3):
        given = (service.models["news"], Random(seed + i), seed * 1_000_000 + i * 100_000)
        threading.Thread(target=load, args=given, daemon=True).start()
    while True:
        threading.Event().wait(random.random() / 50)
        service.tick()


for line in sys.stdin:
    folder, seed = line.split()
    child = os.fork()
    if not child:
        try:
            serve(folder, int(seed))
        except BaseException as error:
            say("failed", repr(error).replace("\n", " "))
            os._exit(1)
    say("pid", child)
    os.waitpid(child, 0)
    say("end")
