"""A service in memory, with the policies of the real one but without its journal and learners."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from onebit.service.configuration import Configuration, Model, ServiceOptions
from onebit.service.faults import (
    Busy,
    Cancelled,
    Contradiction,
    Expired,
    KeyReused,
    Refused,
    ServiceError,
    Unavailable,
    UnknownDecision,
)
from onebit.service.journal.clock import Clock, since_boot
from onebit.service.messages import Card, Heard, Record, SourceCard, Standing, Told
from onebit.service.tally import JournalTally, ModelTally


@dataclass
class FakePending:
    future: Future
    value: Any


class FakeCommits:
    """Commits every 2 ms. `fail` makes the next one fail."""

    def __init__(self):
        self.fail: Exception | None = None
        self.busy = False
        self.next, self.lock, self.running = Future(), threading.Lock(), True
        self.tally = JournalTally()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while self.running:
            time.sleep(0.002)
            with self.lock:
                done, self.next = self.next, Future()
                failure, self.fail = (self.fail, None) if self.tally.waiting else (None, self.fail)
                self.tally.waiting = 0
            self.tally.sync.add(0.002)
            self.tally.commits += 1
            if failure:
                done.set_exception(failure)
            else:
                done.set_result(None)

    def pending(self, value):
        if self.busy:
            raise Busy("the queue is full", retry_after=0.2)
        with self.lock:
            self.tally.waiting += 1
            self.tally.events += 1
            return FakePending(self.next, value)

    def close(self):
        self.running = False
        self.thread.join()


class FakeEngine:
    problem = ""
    names = (3, 100)
    shadows = SimpleNamespace(card=dict)

    def __init__(self, name, labels, commits, ids):
        self.name, self.labels, self.commits, self.ids = name, labels, commits, ids
        self.records: dict[str, Record] = {}
        self.keys: dict[str, tuple[Any, Any]] = {}
        self.expired: set[str] = set()
        self.retired: list = []
        self.sources: dict[str, SourceCard] = {}
        self.learner, self.settings, self.version = "OneBit", {}, 1
        self.speaker = name
        self.tally = ModelTally()

    def _told(self, context, among, key):
        if key in self.keys:
            asked, told = self.keys[key]
            if asked != (context, among):
                raise KeyReused(f"the key {key!r} belongs to another request")
            return told
        labels = list(self.labels) if among is None else among
        for i, label in enumerate(labels):
            if label not in self.labels:
                raise Refused(f"no label {label!r}", where=f"$.among[{i}]")
        share = 1 / len(labels)
        round = len(self.records)
        told = Told(
            id=f"{self.name}-{len(self.ids)}",
            label=labels[0],
            confidence=0.75,
            propensity=share,
            propensities=dict.fromkeys(labels, share),
            explored=False,
            round=round,
        )
        self.ids[told.id] = self.name
        self.records[told.id] = Record(
            **{name: getattr(told, name) for name in Told.__struct_fields__},
            model=self.name,
            time=1.5,
            state="open",
            context=context,
            feedback=[],
        )
        if key is not None:
            self.keys[key] = (context, among), told
        self.tally.decisions += 1
        self.tally.open += 1
        return told

    def attempt(self, submit, *arguments):
        return submit(*arguments)

    def submit_decide(self, context, among=None, key=None):
        return self.commits.pending(self._told(context, among, key))

    def submit_decide_many(self, questions):
        return self.commits.pending([self._told(q.context, q.among, q.key) for q in questions])

    def _heard(self, id, right=None, label=None, source=None, key=None):
        record = self._open(id)
        if label is not None and label not in self.labels:
            raise Refused(f"no label {label!r}", where="$.label")
        heard = Heard(time=2.5, right=right, label=label, source=source)
        if record.feedback and record.feedback[-1] != heard:
            raise Contradiction("there is other feedback already")
        if not record.feedback:
            self.records[id] = replace(record, state="learned", feedback=[heard])
            self.tally.right += right is True or label == record.label
            self.tally.wrong += right is False or label not in (None, record.label)
            self.tally.answers, self.tally.mistakes = (
                self.tally.right + self.tally.wrong, self.tally.wrong,
            )  # fmt: skip
            self.tally.delay.add(1.0)
        return Standing(id, "learned")

    def _open(self, id):
        record = self.records[id]
        if id in self.expired:
            raise Expired("it expired")
        if record.state == "cancelled":
            raise Cancelled("it was cancelled")
        return record

    def submit_feedback(self, id, right=None, label=None, source=None, key=None):
        return self.commits.pending(self._heard(id, right, label, source, key))

    def submit_feedback_many(self, answers):
        results: list[Any] = []
        for answer in answers:
            right = None if answer.right is UNSET else answer.right
            label = None if answer.label is UNSET else answer.label
            try:
                results.append(self._heard(answer.id, right, label, answer.source, answer.key))
            except ServiceError as fault:
                results.append(fault)
        return self.commits.pending(results)

    def _logged(self, logged):
        told = self._told(logged.context, None, logged.key)
        record = self.records[told.id]
        self.records[told.id] = replace(
            record, label=logged.said, propensity=logged.propensity, speaker=logged.speaker,
            propensities=logged.propensities or {}, said_at=logged.time,
        )  # fmt: skip
        self.tally.logged += 1
        if logged.right is UNSET and logged.label is UNSET:
            return Standing(told.id, "open")
        right = None if logged.right is UNSET else logged.right
        label = None if logged.label is UNSET else logged.label
        return self._heard(told.id, right, label, logged.source)

    def submit_logged(self, logged):
        return self.commits.pending(self._logged(logged))

    def submit_logged_many(self, items):
        results: list[Any] = []
        for item in items:
            try:
                results.append(self._logged(item))
            except ServiceError as fault:
                results.append(fault)
        return self.commits.pending(results)

    def submit_revise(self, id, right=None, label=None):
        record = self._open(id)
        heard = Heard(time=3.5, right=right, label=label)
        self.records[id] = replace(record, state="learned", feedback=[heard])
        return self.commits.pending(Standing(id, "learned"))

    def _state(self, id, state, **changes):
        self.records[id] = replace(self._open(id), state=state, **changes)
        return self.commits.pending(Standing(id, state))

    def submit_revoke(self, id):
        return self._state(id, "open", feedback=[])

    def submit_cancel(self, id):
        return self._state(id, "cancelled")

    def submit_shown(self, id):
        return self._state(id, "open")

    def submit_erase(self, id):
        self.records[id] = replace(self.records[id], state="erased", context=None)
        return self.commits.pending(Standing(id, "erased"))

    def submit_retrain(self, change):
        self.learner = self.learner if change.learner is UNSET else change.learner
        self.settings = self.settings if change.settings is UNSET else change.settings
        self.version += 1
        return self.commits.pending(self.card())

    def submit_promote(self, change):
        if change.shadow not in (None, "better"):
            raise Contradiction(f"{self.name} has no shadow {change.shadow!r}")
        self.speaker = self.name if change.undo else change.shadow
        return self.commits.pending(self.card())

    def submit_labels(self, change):
        for label in change.add:
            if label in self.labels:
                raise Contradiction(f"there is a label {label!r} already")
        self.labels = [*self.labels, *change.add]
        self.retired += [label for label in change.retire if label in self.labels]
        return self.commits.pending(self.card())

    def submit_source(self, source, change):
        weight = 1.0 if change.weight is UNSET else change.weight
        quarantined = False if change.quarantined is UNSET else change.quarantined
        self.sources[source] = SourceCard(weight=weight, quarantined=quarantined, answers=0)
        return self.commits.pending(self.card())

    def submit_remove_source(self, source):
        self.sources.pop(source, None)
        return self.commits.pending(self.card())

    def look(self, id):
        return self.records[id]

    def card(self):
        return Card(
            name=self.name,
            title="",
            learner=self.learner,
            settings=self.settings,
            seed=0,
            speaker=self.speaker,
            labels=self.labels,
            retired=self.retired,
            version=self.version,
            rebuilding=False,
            names=self.names[0],
            vocabulary=self.names[1],
            names_are_shared=False,
            rounds=len(self.records),
            answers=0,
            open=self.tally.open,
            error_share=None,
            explored_share=None,
            smallest_propensity=None,
            one_right=None,
            sources=self.sources,
            revisions=True,
            deferred=True,
            wrong_after=None,
            expires_after=None,
        )


class FakeService:
    def __init__(self, tokens=None, **options):
        labels: dict[str, list] = {"news": ["sport", "tech"], "counted": [0, 1, 2]}
        models = {name: Model(name=name, labels=held) for name, held in labels.items()}
        self.configuration = Configuration(
            path="fake.toml", service=ServiceOptions(**options), models=models, tokens=tokens
        )
        self.commits, self.ids = FakeCommits(), {}
        self.building, self.clock = {}, Clock(time.time, since_boot)
        self.models = {
            name: FakeEngine(name, held, self.commits, self.ids) for name, held in labels.items()
        }
        self.tally, self.reason, self.down = self.commits.tally, "", {}

    def model_of(self, id):
        if id not in self.ids:
            raise UnknownDecision(f"no decision {id!r}")
        return self.ids[id]

    def unready(self):
        return self.reason

    def check_ready(self):
        if self.reason:
            raise Unavailable(self.reason)

    def close(self):
        self.commits.close()
