"""Thousands of random schedules against a simple model of what must be true.

A seed decides everything: the options of the model, the order of the requests, the clock, when the
disk is full, when the process ends, and when a learner that is built behind the scenes is ready.
A schedule that fails is run again by its seed: `run(folder, seed)`.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from running import LABELS, Home, assert_pure, context
from test_shadows import assert_pure_shadows

from onebit.service import journal as journal_module
from onebit.service.engine import progress, rebuilding, recent
from onebit.service.faults import (
    Busy,
    Cancelled,
    Contradiction,
    Expired,
    KeyReused,
    Refused,
    Unavailable,
    UnknownDecision,
)
from onebit.service.messages import (
    Answer,
    LabelChange,
    Logged,
    Promotion,
    Question,
    Retraining,
    SourceChange,
    Standing,
)

STEPS = 60
SOURCES = (None, None, "anna", "bot")


@pytest.fixture
def folder(tmp_path) -> Iterator[Path]:
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    made = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield made
    shutil.rmtree(made)


class LaterThread:
    """A thread that runs when somebody waits for it."""

    def __init__(self, target, args=(), **_) -> None:
        self._target, self._args = target, args

    def start(self) -> None:
        pass

    def join(self, timeout: float | None = None) -> None:
        target, self._target = self._target, None
        if target is not None:
            target(*self._args)


@dataclass
class Known:
    """What the model knows of a decision."""

    number: int
    told: Any
    key: str | None
    state: str  # waiting, open, learned, cancelled, erased
    time: float
    since: float  # when it was made, or shown if that came later
    answer: tuple[bool | None, str | None, str | None] | None = None  # right, label, source
    configuration: int = 0
    doubts: list[Known] = field(default_factory=list)  # what it may have become instead


class Schedule:
    """A service, and what must be true of it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random = Random(seed)
        self.folder, self.crashes = folder, 0
        self.revisions, self.deferred = random.random() < 0.6, random.random() < 0.3
        self.expires = 50.0
        self.wrong_after = 20.0 if random.random() < 0.4 else None
        learner = random.choice(["Banditron", "Banditron", "Confidit"])
        silence = f'silence = {{ wrong_after = "{self.wrong_after}s" }}' if self.wrong_after else ""
        self.retention = random.choice([None, None, 30.0])
        self.has_shadow = self.retention is None and random.random() < 0.5
        shadow = '[models.news.shadows.beside]\nlearner = "Confidit"\n' * self.has_shadow
        text = (
            f'learner = "{learner}"\nexpires_after = "{self.expires}s"\n{silence}\n'
            f"revisions = {str(self.revisions).lower()}\ndeferred = {str(self.deferred).lower()}\n"
            f'{shadow}[models.other]\nlabels = ["a", "b"]\nlearner = "Banditron"'
        )
        place = folder / "home0"
        place.mkdir()
        retention = f'retention = "{self.retention}s"' if self.retention else ""
        self.home = Home(place, text, f"snapshots = 2\n{retention}")
        self.known: dict[str, Known] = {}
        self.labels, self.retired = [*LABELS], set()
        self.number = 0
        self.start()

    # The service.

    def start(self) -> None:
        every = self.random.choice([5, 20, 10**9])
        self.service = self.home.start(snapshot_every=every)
        self.news, self.other = (self.service.models[name] for name in ("news", "other"))
        # Recovery is a step of the schedule, instead of a thread.
        self.service.journal.on_failure = lambda error: None

    @property
    def now(self) -> float:
        return self.service.journal.stamp(0)[1]

    def restart(self) -> None:
        self.home.restart()
        self.start_again()

    def start_again(self) -> None:
        self.home.stop()
        self.start()

    def crash(self) -> None:
        """The files as they are, without a word to the old service; what was asked last may be
        there or not."""
        self.crashes += 1
        pending = [self.submit() for _ in range(self.random.randrange(3))]
        if self.random.random() < 0.5:
            self.service.journal.flush()
        place = self.folder / f"home{self.crashes}"
        left = self.home
        self.home = left.crashed(place)
        left.stop()  # to free its threads; its files are not those of the new service
        shutil.rmtree(left.folder)
        del pending
        self.start()
        self.resolve()
        self.check_all()

    def fill_disk(self) -> None:
        """Commits fail for a while. What they held may be on disk all the same."""
        journal = self.service.journal
        commit, is_written = journal._commit, self.random.random() < 0.3
        is_full = self.random.random() < 0.7

        def failing(group) -> None:
            if is_written:
                commit(group)
            error = sqlite3.OperationalError("database or disk is full" if is_full else "disk I/O")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL if is_full else sqlite3.SQLITE_IOERR
            raise error

        journal._commit = failing
        for _ in range(self.random.randrange(1, 4)):
            appended = journal.position
            pending = self.submit()
            if pending is not None and journal.position > appended:
                with pytest.raises(Unavailable):
                    pending.wait()
        if journal.failure is not None:
            assert "cannot be written" in self.service.unready()
            with pytest.raises(Unavailable):
                self.news.decide(context(0))
            with pytest.raises(Unavailable):
                self.other.decide(context(0))
        journal._commit = commit
        self.service.recover()
        assert self.service.unready() == ""
        self.resolve()
        self.check_all()

    def submit(self) -> Any:
        """Ask for something whose outcome is open."""
        try:
            if self.random.random() < 0.5 or not self.known:
                self.number += 1
                return self.news.submit_decide(context(self.number))
            id = self.pick()
            known, right = self.known[id], self.random.random() < 0.5
            latest = known.doubts[-1] if known.doubts else known
            if self.expected(latest, right, None) == "learned":
                answer, since = (right, None, None), self.since(latest)
                known.doubts.append(
                    replace(latest, state="learned", answer=answer, since=since, doubts=[])
                )
            return self.news.submit_feedback(id, right=right)
        except (Unavailable, Contradiction, Cancelled, Expired):
            return None

    def resolve(self) -> None:
        """Find out what became of requests whose outcome was open."""
        for id, known in self.known.items():
            if known.doubts:
                possible = [known, *known.doubts]
                record = self.news.look(id)
                fits = [k for k in possible if self.fits(k, record)]
                assert fits, (record, possible)
                self.known[id] = fits[0]
                self.known[id].doubts = []

    # What must be true.

    def since(self, known: Known) -> float:
        """From when on a decision counts if it is shown or answered now."""
        return self.now if known.state == "waiting" else known.since

    def is_expired(self, known: Known) -> bool:
        return known.time < self.now - self.expires

    def fits(self, known: Known, record) -> bool:
        state = known.state
        if state in ("open", "waiting") and self.is_expired(known):
            state = "expired"
        if record.state != state:
            return False
        if state == "learned":
            last = record.feedback[-1]
            return (last.right, last.label, last.source) == known.answer and not last.revoked
        return True

    def check(self, id: str) -> None:
        known, record = self.known[id], self.news.look(id)
        assert self.fits(known, record), (known, record)
        assert record.label == known.told.label and record.propensity == known.told.propensity
        if known.state != "erased":
            assert record.context == context(known.number)
            assert record.propensities == known.told.propensities

    def check_all(self) -> None:
        for id in self.known:
            self.check(id)
        with self.service.journal.reading() as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            count = connection.execute(
                "SELECT count(*) FROM answers a JOIN decisions d ON d.position = a.decision "
                "WHERE d.state <> 0"
            ).fetchone()[0]
            assert count == 0
        card = self.news.card()
        assert card.labels[: len(LABELS)] == list(LABELS)
        assert set(card.labels) == set(self.labels) and set(card.retired) == self.retired
        if self.news._state.thread is None:
            self.check_purity()
        assert_pure(self.other)

    def check_purity(self) -> None:
        if self.has_shadow:
            assert_pure_shadows(self.news)
        else:
            assert_pure(self.news)

    def pick(self) -> str:
        recent = [*self.known][-25:]
        return self.random.choice(recent)

    # Requests.

    def remember(self, told, number: int, key: str | None = None) -> None:
        assert told.id not in self.known
        state = "waiting" if self.deferred else "open"
        time = self.news.look(told.id).time
        self.known[told.id] = Known(number, told, key, state, time, time)
        assert abs(sum(told.propensities.values()) - 1) < 1e-5
        assert not self.retired & set(told.propensities)

    def decide(self) -> None:
        self.number += 1
        key = f"k{self.number}" if self.random.random() < 0.4 else None
        among = None
        if self.random.random() < 0.2:
            possible = [label for label in self.labels if label not in self.retired]
            among = self.random.sample(possible, self.random.randint(1, len(possible)))
        told = self.news.decide(context(self.number), among=among, key=key)
        assert among is None or told.label in among
        self.remember(told, self.number, key)

    def log(self) -> None:
        """What another system says, perhaps with an answer."""
        self.number += 1
        said, right = self.random.choice(self.labels), self.random.choice([None, True, False])
        logged = Logged(context=context(self.number), said=said, propensity=0.5)
        if right is not None:
            logged.right, logged.source = right, self.random.choice(SOURCES)
        standing = self.news.logged(logged)
        record = self.news.look(standing.id)
        assert record.speaker == "other" and record.propensities == {}
        known = Known(self.number, record, None, "open", record.time, record.time)
        if right is not None:
            known.state, known.answer = "learned", (right, None, logged.source)
        self.known[standing.id] = known

    def decide_many(self) -> None:
        numbers = range(self.number + 1, self.number + 1 + self.random.randint(1, 4))
        self.number = numbers.stop
        questions = [Question(context=context(i)) for i in numbers]
        if self.random.random() < 0.3:
            bad = Question(context=context(0), among=["nonsense"])
            questions.insert(self.random.randint(0, len(questions)), bad)
            with pytest.raises(Refused):
                self.news.decide_many(questions)
            return
        for number, told in zip(numbers, self.news.decide_many(questions), strict=True):
            self.remember(told, number)

    def repeat_key(self) -> None:
        keyed = [id for id in self.known if self.known[id].key and self.known[id].state != "erased"]
        if keyed:
            id = self.random.choice(keyed)
            known = self.known[id]
            assert self.news.decide(context(known.number), key=known.key) == known.told or (
                self.deferred  # the round is that in which it was shown
            )
            with pytest.raises(KeyReused):
                self.news.decide(context(known.number + 1), key=known.key)

    def answer(self) -> None:
        id = self.pick()
        known = self.known[id]
        right, label = self.random.random() < 0.5, None
        if self.random.random() < 0.3:
            right, label = None, self.random.choice(self.labels)
        source = self.random.choice(SOURCES)
        expected = self.expected(known, right, label)
        answer = Answer(id=id, right=right, source=source) if label is None else None
        if answer is not None and self.random.random() < 0.3:
            (outcome,) = self.news.feedback_many([answer])
            assert isinstance(outcome, expected if isinstance(expected, type) else Standing), (
                outcome
            )
        elif isinstance(expected, type):
            with pytest.raises(expected):
                self.news.feedback(id, right, label, source)
        else:
            assert self.news.feedback(id, right, label, source).state == "learned"
        if expected == "learned":
            known.since = self.since(known)
            known.state, known.answer = "learned", (right, label, source)
        self.check(id)

    def expected(self, known: Known, right, label) -> Any:
        """A fault, or "same", or "learned"."""
        if known.state == "cancelled":
            return Cancelled
        if known.state == "erased":
            return Expired
        if known.answer is None:
            return Expired if self.is_expired(known) else "learned"
        said = known.told.label
        known_right, known_label, source = known.answer
        was_right = known_right if known_label is None else known_label == said
        if source == "silence":  # which anybody's answer replaces, also if it says the same
            return Expired if self.is_expired(known) and not self.revisions else "learned"
        if (label is None and right == was_right) or (label is not None and label == known_label):
            return "same"
        if label is not None and known_right and label == said:
            return "same"
        return "learned" if self.revisions else Contradiction

    def answer_unknown(self) -> None:
        with pytest.raises(UnknownDecision):
            self.news.feedback(f"{self.random.randrange(10**6):x}-00", right=True)

    def is_compacted(self, id: str) -> bool:
        """Whether the learner cannot be built without a decision any more."""
        row, (base, version) = (
            self.news._decisions.find(id).row,
            self.news.journal.compacted_upto(1),
        )
        is_own = row.configuration == version and row.logged is None
        counts = row.state == 0 and row.active is not None and is_own
        return counts and row.active <= base

    def cancel(self) -> None:
        id = self.pick()
        known = self.known[id]
        if self.is_compacted(id):
            with pytest.raises(Expired, match="compacted"):
                self.news.cancel(id)
            return
        if known.answer is not None and not self.revisions:
            with pytest.raises(Contradiction):
                self.news.cancel(id)
            return
        self.news.cancel(id)
        if known.state != "erased":
            known.state, known.answer = "cancelled", None
        self.check(id)

    def revoke(self) -> None:
        id = self.pick()
        known = self.known[id]
        if known.answer is not None and self.revisions and known.state == "learned":
            self.news.revoke(id)
            known.state, known.answer = "open", None
            self.check(id)

    def show(self) -> None:
        id = self.pick()
        known = self.known[id]
        if known.state == "waiting" and not self.is_expired(known):
            known.since = self.since(known)
            assert self.news.shown(id).state == "open"
            known.state = "open"
            self.check(id)

    def erase(self) -> None:
        id = self.pick()
        if self.is_compacted(id):
            with pytest.raises(Expired, match="compacted"):
                self.news.erase(id)
            return
        self.news.erase(id)
        self.known[id].state, self.known[id].answer = "erased", None
        self.check(id)

    def change_labels(self) -> None:
        possible = [label for label in self.labels if label not in self.retired]
        if self.random.random() < 0.5 and len(possible) > 1:
            label = self.random.choice(possible)
            self.news.submit_labels(LabelChange(retire=[label])).future.result()
            self.retired.add(label)
        elif self.retired and self.random.random() < 0.5:
            label = self.random.choice(sorted(self.retired))
            self.news.submit_labels(LabelChange(add=[label])).future.result()
            self.retired.discard(label)
        elif len(self.labels) < 6:
            label = f"label{len(self.labels)}"
            self.news.submit_labels(LabelChange(add=[label])).future.result()
            self.labels.append(label)

    def change_source(self) -> None:
        source = self.random.choice(["anna", "bot"])
        if self.random.random() < 0.3:
            self.news.submit_remove_source(source)
            for known in self.known.values():
                if known.answer is not None and known.answer[2] == source:
                    known.state, known.answer = "open", None
        else:
            weight = self.random.choice([0.0, 0.5, 1.0])
            self.news.submit_source(source, SourceChange(weight=weight))

    def retrain(self) -> None:
        change = self.random.choice(
            [
                Retraining(seed=self.random.randrange(100)),
                Retraining(learner="Banditron", settings={"gamma": 0.3}),
                Retraining(learner="Confidit"),
            ]
        )
        if self.news._state.thread is None:
            try:
                self.news.submit_retrain(change)
            except Contradiction:  # another learner cannot be built from what was compacted
                assert self.retention
        else:
            with pytest.raises(Busy):
                self.news.submit_retrain(change)

    def promote(self) -> None:
        if not self.has_shadow:
            return
        before = self.news.card().speaker
        (shadow,) = self.news.card().shadows
        promotion = Promotion(undo=True) if self.random.random() < 0.3 else Promotion(shadow=shadow)
        try:
            self.news.submit_promote(promotion)
        except (Busy, Contradiction):  # a learner is being built; nobody was promoted yet
            assert self.news.card().speaker == before
        else:
            assert self.news.card().speaker == shadow

    def settle(self) -> None:
        self.news.settle()
        assert self.news._state.thread is None
        self.check_purity()

    def let_time_pass(self) -> None:
        self.home.clock.now += self.random.choice([1, 5, 15, 60, -1000])

    def tick(self) -> None:
        self.service.tick()
        if self.wrong_after:
            due = self.now - self.wrong_after
            for known in self.known.values():
                if known.state == "open" and known.since <= due:
                    known.state, known.answer = "learned", (False, None, "silence")
        if self.retention:
            self.forget()

    def forget(self) -> None:
        """What is learned and old may have been compacted."""
        for id, known in list(self.known.items()):
            try:
                self.news.look(id)
            except UnknownDecision:
                assert known.state in ("learned", "cancelled", "erased") or self.is_expired(known)
                assert known.time < self.now - self.retention
                del self.known[id]

    def play_other(self) -> None:
        told = self.other.decide(context(self.number))
        if self.random.random() < 0.7:
            self.other.feedback(told.id, right=self.random.random() < 0.5)

    REQUESTS = (
        (decide, 12), (decide_many, 4), (log, 6), (repeat_key, 3), (answer, 20),
        (answer_unknown, 1), (cancel, 3), (revoke, 3), (show, 5), (erase, 1),
        (change_labels, 2), (change_source, 2), (retrain, 1), (settle, 3), (let_time_pass, 4),
        (tick, 4), (promote, 2), (play_other, 5), (restart, 1), (crash, 2), (fill_disk, 1),
        (check_all, 2),
    )  # fmt: skip

    def run(self, steps: int) -> None:
        requests, weights = zip(*self.REQUESTS, strict=True)
        for _ in range(steps):
            request = self.random.choices(requests, weights)[0] if self.known else Schedule.decide
            request(self)
        self.settle()
        self.check_all()
        self.home.stop()


def run(folder: Path, seed: int, patch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    patch.setattr(rebuilding, "AT_ONCE", random.choice([-1, 20, 500]))
    patch.setattr(recent, "RECENT", random.choice([3, 1000]))
    patch.setattr(progress, "WRITING", random.choice([0.05, 1e9]))  # snapshots on the way
    patch.setattr(rebuilding, "threading", SimpleNamespace(Thread=LaterThread))
    patch.setattr(journal_module, "CHECKPOINT_COMMITS", random.choice([5, 1000]))
    patch.setattr(journal_module, "CHUNK", random.choice([5, 1000]))
    place = folder / f"schedule{seed}"
    place.mkdir()
    schedule = Schedule(place, seed)
    try:
        schedule.run(STEPS)
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
    finally:
        schedule.home.stop()
        shutil.rmtree(place)


def test_schedules(folder, monkeypatch):
    for seed in range(50):
        run(folder, seed, monkeypatch)


@pytest.mark.exhaustive
def test_hundreds_of_schedules(folder, monkeypatch):
    for seed in range(1_000, 1_300):
        run(folder, seed, monkeypatch)


@pytest.mark.exhaustive
def test_thousands_of_schedules(folder, monkeypatch):
    for seed in range(10_000, 13_000):
        run(folder, seed, monkeypatch)
