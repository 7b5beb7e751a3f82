"""Write the journal that later versions must be able to open: journals/v3.journal, .toml, .json.

Run it once, when a schema is new (`SCHEMA` in src/onebit/service/journal), and add its files:

    PYTHONPATH=src python tests/service/keep_journal.py

A journal that is here already is never written again: it is what users have.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
from running import Home, context, named, play

from onebit.learner.learner import Learner
from onebit.service.journal import SCHEMA
from onebit.service.messages import LabelChange, Logged, Retraining, SourceChange
from onebit.service.service import Service
from onebit.testing import saved_state

JOURNALS = Path(__file__).with_name("journals")
MODELS = """
revisions = true
expires_after = "1000d"
silence = { wrong_after = "10s" }
[models.shown]
labels = ["yes", "no"]
learner = "Banditron"
deferred = true
expires_after = "1000d"
[models.sure]
labels = 3
learner = "SquareCB"
settings = { scale = 10 }
"""


def digest(learner: Learner) -> str:
    """What a learner has learned, in any version of onebit."""
    head, arrays = saved_state(learner)
    features = arrays.get("features")
    if features is not None and features[-1] < 1000:  # these were not kept apart in all versions
        table = np.zeros((int(features[-1]) + 1, *arrays["table"].shape[1:]), np.float32)
        table[arrays.pop("features")] = arrays["table"]
        arrays["table"] = table
    parts = [json.dumps([head["labels"], head["round"], head["seed"]]).encode()]
    parts += [name.encode() + arrays[name].tobytes() for name in sorted(arrays)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def fill(home: Home) -> Service:
    """Something of everything that a journal may hold."""
    service = home.start()
    news, shown, sure = (service.models[name] for name in ("news", "shown", "sure"))
    ids = play(news, 20, every=2)
    news.decide(context(3), among=["sport", "tech"], key="a key")
    news.feedback(ids[1], label="tech", source="anna")
    news.feedback(ids[3], right=False, source="bot", key="another key")
    news.revise(ids[0], right=True)
    news.revoke(ids[2])
    news.cancel(ids[4])
    news.cancel(ids[5])
    news.erase(ids[6])
    news.submit_labels(LabelChange(add=["weather"], retire=["politics"])).future.result()
    news.submit_source("bot", SourceChange(quarantined=True))
    play(news, 5, first=30)
    news.submit_retrain(Retraining(settings={"gamma": 0.1}))
    news.settle()
    news.feedback(ids[7], right=True)
    play(news, 5, first=40, every=2)
    home.clock.now += 11
    service.tick()
    for i in range(6):
        label = {"right": i % 2 == 0} if i < 4 else {}
        propensity = 0.5 if i % 3 else None
        sure.logged(Logged(context=named(i), said=i % 3, propensity=propensity, **label))
    proposed = [shown.decide(named(i)).id for i in range(6)]
    shown.shown(proposed[4])
    for id in proposed[2:4]:
        shown.feedback(id, right=True)
    shown.cancel(proposed[5])
    for i in range(8):
        sure.feedback(sure.decide(named(i % 2)).id, right=i % 3 == 0)
    sure.erase(sure.decide(named(8)).id)
    return service


def state(service: Service) -> dict:
    """What must be the same in every later version."""
    with service.journal.reading() as connection:
        rows = connection.execute("SELECT position, token, model FROM decisions").fetchall()
    names = {engine.number: name for name, engine in service.models.items()}
    records = [service.models[names[model]].look(f"{at:x}-{token}") for at, token, model in rows]
    return {
        "learners": {name: digest(model.replayed()) for name, model in service.models.items()},
        "confidences": {x.id: x.confidence for x in records if x.confidence is not None},
        "decisions": {
            record.id: [
                record.model, record.label, record.propensity, record.state, record.context,
                [[x.right, x.label, x.source, x.revoked] for x in record.feedback],
            ]
            for record in records
        },
    }  # fmt: skip


def main() -> None:
    target = JOURNALS / f"v{SCHEMA}.journal"
    if target.exists():
        sys.exit(f"{target.name} is there already, and stays as it is")
    folder = Path(tempfile.mkdtemp())
    home = Home(folder, MODELS)
    service = fill(home)
    expected = state(service)
    home.stop()
    shutil.copy(home.journal, target)
    shutil.copy(home.config, target.with_suffix(".toml"))
    target.with_suffix(".json").write_text(json.dumps(expected, indent=1) + "\n")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
