"""Journals for tests, with all that may be in one."""

from __future__ import annotations

import random

from onebit.service.configuration import Model
from onebit.service.engine import Engine
from onebit.service.journal import Journal
from onebit.service.messages import LabelChange, SourceChange

TABLES = ("models", "configurations", "decisions", "answers", "changes", "sources", "bases")


class Clock:
    """A clock that a test moves."""

    now = 1_800_000_000.0

    def __call__(self):
        return self.now


def news(**options):
    options = {"labels": ["sport", "tech"], "learner": "Banditron", "seed": 3, **options}
    return Model(name="news", **options)


def sizes():
    return Model(name="sizes", labels=3, learner="UCWL", revisions=True, deferred=True)


def context_of(rng):
    words = {f"word{rng.randrange(500)}": rng.random() for _ in range(rng.choice((3, 20, 300)))}
    return {**words, "text": "naïve ✓"}


def played(path, rounds, *, seed=0, clock=None):
    """A journal of two models, closed."""
    rng, clock = random.Random(seed), clock or Clock()
    journal = Journal(path, clock=clock)
    folder = path.with_name(f"{path.name}.snapshots")
    engines = [Engine(journal, model, folder=folder) for model in (news(), sizes())]
    for i in range(rounds):
        clock.now += 60
        engine = rng.choice(engines)
        among = rng.choice((None, ["sport", "tech"])) if engine.name == "news" else None
        told = engine.decide(context_of(rng), among, key=rng.choice((None, f"key{i}")))
        if rng.random() < 0.1:
            engine.cancel(told.id)
        elif rng.random() < 0.8:
            source = rng.choice((None, "ann", "bob"))
            if rng.random() < 0.3:
                engine.feedback(told.id, label=told.label, source=source)
            else:
                engine.feedback(told.id, right=rng.random() < 0.6, source=source)
            if engine.name == "sizes" and rng.random() < 0.05:
                engine.revise(told.id, right=False)
    if rounds:
        engines[0].submit_labels(LabelChange(add=["art"])).wait()
        engines[0].decide({"a": 1})
        engines[1].submit_source("bob", SourceChange(weight=0.5)).wait()
    for engine in engines:
        engine.settle()
        engine.close()
    journal.close()


def content(connection):
    """All rows of a journal, by table."""
    return {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES}
