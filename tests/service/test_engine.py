"""The policies of the service, in process: what is learned, refused, kept and rebuilt."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import suppress
from datetime import date
from decimal import Decimal
from pathlib import Path
from random import Random

import numpy as np
import pytest
from helpers.waiting import PATIENCE, wait_for
from running import LABELS, Home, assert_pure, context, named, play

import onebit as ob
from onebit import testing
from onebit.learner import files
from onebit.learner.copies import with_vocabulary
from onebit.service import journal as journal_module
from onebit.service import service as service_module
from onebit.service.configuration import check
from onebit.service.engine import building, rebuilding, recent, saving
from onebit.service.engine.rebuilding import Rebuilding
from onebit.service.faults import (
    Busy,
    Cancelled,
    Contradiction,
    Damaged,
    Expired,
    JournalInUse,
    KeyReused,
    Refused,
    TooLarge,
    Unavailable,
    UnknownDecision,
)
from onebit.service.messages import (
    Answer,
    LabelChange,
    Question,
    Retraining,
    SourceChange,
)
from onebit.testing import saved_state

REVISIONS = "revisions = true"
DEFERRED = "deferred = true\n"


@pytest.fixture
def home(tmp_path):
    homes = []

    def made(text="", service="", folder="home") -> Home:
        (tmp_path / folder).mkdir(exist_ok=True)
        homes.append(Home(tmp_path / folder, text, service))
        return homes[-1]

    yield made
    for each_home in homes:
        each_home.stop()


def question(i: int, **given) -> Question:
    return Question(context=context(i), **given)


def bytes_of(engine) -> bytes:
    return testing.state_bytes(engine.learner)


# The law.


LEARNERS = ["Banditron", "OneBit", "Confidit", "FastCB", "LinUCB", "Perceptron"]


@pytest.mark.parametrize("learner", [name for name in LEARNERS if hasattr(ob, name)])
def test_the_learner_is_a_function_of_the_journal(home, learner):
    place = home(f'learner = "{learner}"\n{REVISIONS}')
    service = place.start(snapshot_every=20)
    news = service.models["news"]
    full = news._state.learner.full_information
    for i in range(45 if learner != "OneBit" else 25):
        told = news.decide(context(i))
        if i % 3 or full:
            news.feedback(told.id, label=LABELS[i % 3])
        elif i % 2:
            news.feedback(told.id, right=False)
        if i == 20:
            news.tick()
        if i == 22:
            news.cancel(told.id)
            assert_pure(news)
    assert_pure(news)
    before = bytes_of(news)
    assert place.snapshots
    again = place.restart().models["news"]
    assert bytes_of(again) == before
    for snapshot in place.snapshots:
        snapshot.unlink()
    assert bytes_of(place.restart().models["news"]) == before


@pytest.mark.parametrize("form", ["dense", "named"])
@pytest.mark.parametrize("learner", ["UCWL", "OneBit"])
def test_scales_of_inputs_are_a_function_of_the_journal(home, learner, form):
    settings = 'settings = { inputs = "auto" }\n'
    place = home(f'learner = "{learner}"\n{settings}{REVISIONS}')
    news = place.start(snapshot_every=10).models["news"]
    waiting = []
    for i in range(25):
        row = [1.7e9 + i % 7, 0.0, float(i % 3)]
        x = row if form == "dense" else {"time": i % 7, "kind": "AB"[i % 2], "size": row[2] * 1e6}
        waiting.append((news.decide(x).id, LABELS[i % 3]))
        if len(waiting) > 2:
            told, label = waiting.pop(i % 3)
            news.feedback(told, label=label)
        if i == 12:
            news.decide([0.0, 0.0, 0.0] if form == "dense" else {"time": 0})
    assert_pure(news)
    before = bytes_of(news)
    assert bytes_of(place.restart().models["news"]) == before
    for snapshot in place.snapshots:
        snapshot.unlink()
    assert bytes_of(place.restart().models["news"]) == before


def test_a_snapshot_is_of_one_moment_though_the_learner_goes_on():
    for name in [name for name in LEARNERS if hasattr(ob, name)]:
        learner = getattr(ob, name)(LABELS)
        for i in range(5):
            learner.learn(learner.decide(named(i)), label=LABELS[i % 3])
        dumped = saved_state(learner)
        then = files.pack(*dumped)
        for i in range(5, 15):
            learner.learn(learner.decide(named(i)), label=LABELS[i % 3])
        assert files.pack(*dumped) == then, name


def test_contexts_are_learned_as_they_are_stored(home):
    """Live and replayed alike; what learners refuse is refused before it is stored."""
    news = home().start().models["news"]
    for given in ({"a": Decimal("1.5"), "c": float("nan")}, {"a": True, "b": "red"}):
        news.feedback(news.decide(given).id, right=False)
    assert_pure(news)
    for refused in ({"a": object()}, {1: 2.0}, {"a": date(2026, 11, 19)}, {"a": float("inf")}):
        with pytest.raises(Refused, match=r"must be a|leave it out"):
            news.decide(refused)
    assert_pure(news)


@pytest.mark.parametrize(
    "contexts",
    [
        [np.array([1.0, 0.25, 3.0], np.float32), [0.1, 0.2, 0.3]],
        [([3, 7], [1.0, 2.0]), (np.array([1, 2]), np.array([0.5, 1.5]))],
        ["a ball and a match", "votes"],
    ],
)
def test_other_forms_of_contexts(home, contexts):
    place = home()
    news = place.start().models["news"]
    ids = [news.decide(given).id for given in contexts]
    news.feedback(ids[0], right=True)
    assert_pure(news)
    news = place.restart().models["news"]
    news.feedback(ids[1], right=False)
    assert_pure(news)


def test_missing_numbers_of_arrays_are_learned_as_they_are_stored(home):
    place = home('learner = "OneBit"')
    news = place.start().models["news"]
    for i in range(24):
        row = [1.0 * i, None] if i % 3 else np.array([np.nan, 1.0 * i])
        news.feedback(news.decide(row).id, right=i % 2 == 0)
    assert_pure(news)
    with pytest.raises(Refused, match="not finite"):
        news.decide([1.0, float("inf")])
    before = bytes_of(news)
    assert bytes_of(place.restart().models["news"]) == before


# Feedback.


def test_feedback_twice(home):
    news = home().start().models["news"]
    told = news.decide(context(1))
    assert news.feedback(told.id, right=False).state == "learned"
    before = bytes_of(news)
    assert news.feedback(told.id, right=False).state == "learned"
    assert bytes_of(news) == before
    with pytest.raises(Contradiction, match="wrong already"):
        news.feedback(told.id, right=True)
    other = next(label for label in LABELS if label != told.label)
    with pytest.raises(Contradiction):
        news.feedback(told.id, label=other)
    assert bytes_of(news) == before
    assert_pure(news)


def test_a_label_says_more_than_right_or_wrong(home):
    news = home().start().models["news"]
    told = news.decide(context(1))
    news.feedback(told.id, right=True)
    assert news.feedback(told.id, label=told.label).state == "learned"
    told = news.decide(context(2))
    other = next(label for label in LABELS if label != told.label)
    news.feedback(told.id, label=other)
    assert news.feedback(told.id, right=False).state == "learned"
    with pytest.raises(Contradiction, match=f"label {other!r}"):
        news.feedback(told.id, right=True)
    assert_pure(news)


def test_other_feedback_is_learned_as_if_it_had_always_been_so(home):
    place = home(REVISIONS)
    news = place.start().models["news"]
    ids = play(news, 10)
    straight = home(REVISIONS, folder="straight").start().models["news"]
    record = news.look(ids[3]).feedback[0]
    straight_ids = play(straight, 3)
    told = straight.decide(context(3))
    straight.feedback(told.id, right=not record.right)
    assert news.feedback(ids[3], right=not record.right).state == "learned"
    assert_pure(news)
    heard = news.look(ids[3]).feedback
    assert [h.right for h in heard] == [record.right, not record.right]
    assert [h.revoked for h in heard] == [True, False]
    assert news.tally.revised == 1 and len(straight_ids) == 3
    # The past up to the answer is that of a learner that never heard anything else.
    for later in ids[4:]:
        news.cancel(later)
    assert np.array_equal(news.learner.weights, straight.learner.weights)
    news.revise(ids[3], right=record.right)
    assert_pure(news)
    before = bytes_of(news)
    assert bytes_of(place.restart().models["news"]) == before


def test_revise_and_revoke_need_permission(home):
    news = home().start().models["news"]
    (id,) = play(news, 1)
    for change in (lambda: news.revise(id, right=True), lambda: news.revoke(id)):
        with pytest.raises(Contradiction, match="revisions = false"):
            change()
    assert_pure(news)


def test_revoked_feedback_can_be_given_again(home):
    place = home(REVISIONS)
    news = place.start().models["news"]
    ids = play(news, 6)
    assert news.revoke(ids[2]).state == "open"
    assert news.revoke(ids[2]).state == "open"
    assert news.tally.open == 1
    assert_pure(news)
    with pytest.raises(Contradiction, match="no feedback"):
        news.revise(ids[2], right=True)
    news = place.restart().models["news"]
    assert news.look(ids[2]).state == "open" and news.tally.open == 1
    assert news.feedback(ids[2], right=True).state == "learned"
    assert_pure(news)


def test_cancelled_decisions_count_for_nothing(home):
    place = home(REVISIONS)
    news = place.start().models["news"]
    ids = play(news, 6, every=2)
    open_id, answered_id = ids[3], ids[4]
    assert news.cancel(open_id).state == "cancelled"
    assert news.cancel(open_id).state == "cancelled"
    assert_pure(news)
    assert news.cancel(answered_id).state == "cancelled"
    assert_pure(news)
    assert news.tally.open == 2 and news.tally.cancelled == 2
    for id in (open_id, answered_id):
        with pytest.raises(Cancelled):
            news.feedback(id, right=True)
        with pytest.raises(Cancelled):
            news.revoke(id)
    news = place.restart().models["news"]
    assert news.look(open_id).state == "cancelled" and news.tally.open == 2
    assert [heard.revoked for heard in news.look(answered_id).feedback] == [True]
    play(news, 5, first=6)
    assert_pure(news)


def test_an_answered_decision_is_cancelled_only_with_revisions(home):
    news = home().start().models["news"]
    ids = play(news, 2, every=2)
    with pytest.raises(Contradiction):
        news.cancel(ids[0])
    assert news.cancel(ids[1]).state == "cancelled"
    assert_pure(news)


def test_the_true_label(home):
    news = home().start().models["news"]
    told = news.decide(context(0))
    with pytest.raises(Refused, match="not a label"):
        news.feedback(told.id, label="weather")
    with pytest.raises(Refused, match="either right or label"):
        news.feedback(told.id)
    with pytest.raises(Refused, match="either right or label"):
        news.feedback(told.id, right=True, label="tech")
    news.feedback(told.id, label="tech")
    assert_pure(news)
    told = news.decide(context(1), among=["sport"])
    news.feedback(told.id, label="tech")  # it was not even possible
    told = news.decide(context(1), among=["sport"])
    news.feedback(told.id, right=False)
    assert_pure(news)


def test_unknown_decisions(home):
    place = home()
    news = place.start().models["news"]
    told = news.decide(context(0))
    for id in ("", "x", "1", "-", "1-", "ffffffffffffffff-0", told.id[:-1] + "x", "é-1", "１-1"):
        with pytest.raises(UnknownDecision):
            news.feedback(id, right=True)
    outcomes = news.feedback_many([Answer(id="9-9", right=True), Answer(id=told.id, right=True)])
    assert isinstance(outcomes[0], UnknownDecision) and outcomes[1].state == "learned"


# Time.


def test_expired(home):
    place = home('expires_after = "10s"\n' + REVISIONS)
    news = place.start().models["news"]
    late, answered = news.decide(context(0)).id, news.decide(context(1)).id
    news.feedback(answered, right=True)
    place.clock.now += 11
    with pytest.raises(Expired, match="expires_after"):
        news.feedback(late, right=True)
    assert news.look(late).state == "expired"
    assert news.feedback(answered, right=True).state == "learned"  # a repetition
    assert news.feedback(answered, right=False).state == "learned"  # a revision
    news = place.restart().models["news"]
    assert news.tally.open == 0
    with pytest.raises(Expired):
        news.feedback(late, right=True)
    assert_pure(news)


SILENT = 'expires_after = "100s"\nsilence = { wrong_after = "10s" }\n'


def test_silence_is_read_as_wrong(home):
    place = home(SILENT)
    service = place.start()
    news = service.models["news"]
    ids = play(news, 4, every=2)
    place.clock.now += 9
    service.tick()
    assert news.tally.silences == 0
    place.clock.now += 2
    service.tick()
    assert news.tally.silences == 2 and news.tally.open == 0
    heard = news.look(ids[1]).feedback[0]
    assert heard.right is False and heard.source == "silence"
    assert_pure(news)
    service.tick()
    assert news.tally.silences == 2
    assert_pure(news)


def test_silence_is_not_looked_for_again_where_all_was_answered(home):
    place = home(SILENT)
    service = place.start()
    news = service.models["news"]
    for i in range(30):
        news.feedback(news.decide(context(i)).id, right=True)
        place.clock.now += 1
        service.tick()
    assert news._state.silence.upto > 20 and len(news._state.silence.marks) < 15
    silent = news.decide(context(1)).id
    place.clock.now += 11
    service.tick()
    assert news.look(silent).state == "learned"
    assert_pure(news)


def test_the_timer_of_silence_survives_restarts(home):
    place = home(SILENT)
    id = place.start().models["news"].decide(context(0)).id
    place.stop()
    place.clock.now += 11
    service = place.start()
    service.tick()
    news = service.models["news"]
    assert news.look(id).state == "learned"
    assert_pure(news)


def test_late_feedback_after_silence(home):
    """It takes the place of silence, even without revisions, until the decision expires."""
    place = home(SILENT)
    service = place.start()
    news = service.models["news"]
    ids = [news.decide(context(i)).id for i in range(3)]
    place.clock.now += 11
    service.tick()
    assert news.feedback(ids[0], right=True).state == "learned"
    assert news.feedback(ids[1], right=False).state == "learned"
    assert [heard.right for heard in news.look(ids[0]).feedback] == [False, True]
    heard = news.look(ids[1]).feedback
    assert [answer.right for answer in heard] == [False, False]
    assert [answer.source for answer in heard] == ["silence", None]
    assert_pure(news)
    with pytest.raises(Contradiction):
        news.feedback(ids[0], right=False)
    place.clock.now += 100
    with pytest.raises(Expired):
        news.feedback(ids[2], right=True)
    assert_pure(news)


def test_feedback_revoked_is_silence_after_the_deadline(home):
    """Whether or not the process was started again."""
    place = home(SILENT + REVISIONS)
    service = place.start()
    news = service.models["news"]
    answered, silent = (news.decide(context(i)).id for i in range(2))
    news.feedback(answered, right=True)
    place.clock.now += 11
    service.tick()
    news.revoke(answered)
    service.tick()
    assert news.look(answered).feedback[-1].source == "silence"
    assert news.look(silent).state == "learned"
    assert_pure(news)


def test_silence_in_a_model_that_waits_until_decisions_are_shown(home):
    place = home(SILENT + DEFERRED)
    service = place.start()
    news = service.models["news"]
    shown, waiting = (news.decide(context(i)).id for i in range(2))
    news.shown(shown)
    place.clock.now += 11
    service.tick()
    assert news.look(shown).state == "learned" and news.look(waiting).state == "waiting"
    news.shown(waiting)
    later = news.decide(context(2)).id
    news.shown(later)
    for _ in range(9):  # the time counts from when it was shown
        place.clock.now += 1
        service.tick()
        assert news.look(waiting).state == "open"
    service = place.restart()
    news = service.models["news"]
    service.tick()
    assert news.look(waiting).state == "open"
    place.clock.now += 2
    service.tick()
    assert news.look(waiting).state == "learned" and news.look(later).state == "learned"
    assert news.tally.silences == 2
    assert_pure(news)


def test_silence_is_no_source_that_somebody_has(home):
    place = home(SILENT + REVISIONS)
    service = place.start()
    news = service.models["news"]
    first, second = (news.decide(context(i)).id for i in range(2))
    with pytest.raises(Refused, match="nobody gave"):
        news.feedback(first, right=True, source="silence")
    (refused,) = news.feedback_many([Answer(id=first, right=True, source="silence")])
    assert isinstance(refused, Refused)
    news.feedback(first, right=True, source="anna")
    place.clock.now += 11
    service.tick()
    for id, source in ((first, "anna"), (second, None)):
        news.revise(id, label="tech")
        assert news.look(id).feedback[-1].source == source
    assert_pure(news)


@pytest.mark.parametrize("how", ["feedback", "feedback_many", "revise"])
def test_somebody_says_wrong_after_silence_did(home, how):
    """What the learner learns stays the same; who said it, and by which key, does not."""
    place = home(SILENT + REVISIONS)
    service = place.start()
    news = service.models["news"]
    id = news.decide(context(0)).id
    place.clock.now += 11
    service.tick()
    if how == "feedback":
        news.feedback(id, right=False, source="anna", key="k1")
    elif how == "feedback_many":
        news.feedback_many([Answer(id=id, right=False, source="anna", key="k1")])
    else:
        news.revise(id, right=False)
    replaced = news.look(id).feedback[-1]
    source = None if how == "revise" else "anna"
    assert (replaced.right, replaced.source) == (False, source)
    assert_pure(news)
    edits = len(news._state.edits)
    news.feedback(id, right=False, source="anna", key="k1")  # repeated, which changes nothing
    assert len(news._state.edits) == edits
    if how != "revise":
        with pytest.raises(KeyReused):
            news.feedback(id, right=True, source="anna", key="k1")
        news.submit_source("anna", SourceChange(quarantined=True)).wait()
        assert news.card().sources["anna"].answers == 1
        assert_pure(news)
    news = place.restart().models["news"]
    assert news.look(id).feedback[-1] == replaced
    assert_pure(news)


def test_a_clock_that_is_set_back(home):
    place = home(SILENT)
    service = place.start()
    news = service.models["news"]
    first = news.decide(context(0)).id
    place.clock.now -= 5000
    second = news.decide(context(1)).id
    service.tick()
    assert news.look(second).time >= news.look(first).time
    service = place.restart()
    news = service.models["news"]
    third = news.decide(context(2)).id
    assert news.look(third).time >= news.look(second).time
    for id in (first, second, third):
        assert news.feedback(id, right=True).state == "learned"
    assert_pure(news)


# Deferred activation.


def test_a_decision_counts_when_it_is_shown(home):
    place = home(DEFERRED)
    news = place.start().models["news"]
    fresh = bytes_of(news)
    ids = [news.decide(context(i)).id for i in range(6)]
    assert bytes_of(news) == fresh and news.look(ids[0]).state == "waiting"
    assert news.shown(ids[4]).state == "open"
    assert news.shown(ids[4]).state == "open"
    assert news.shown(ids[1]).state == "open"
    assert_pure(news)
    news.feedback(ids[2], right=True)  # feedback says that it was shown
    news.feedback(ids[4], right=False)
    assert news.cancel(ids[0]).state == "cancelled"  # never shown
    assert news.cancel(ids[1]).state == "cancelled"  # shown
    assert_pure(news)
    with pytest.raises(Cancelled):
        news.shown(ids[0])
    before = bytes_of(news)
    news = place.restart().models["news"]
    assert bytes_of(news) == before
    news.shown(ids[5])
    news.feedback(ids[3], right=True)
    news.feedback(ids[5], right=True)
    assert news.learner.round == 6 - 1  # of six one was never shown; the rounds go on
    assert news.look(ids[2]).round != news.look(ids[3]).round
    assert_pure(news)


def test_a_decision_is_shown_in_time(home):
    place = home(DEFERRED + 'expires_after = "10s"')
    news = place.start().models["news"]
    id = news.decide(context(0)).id
    place.clock.now += 11
    with pytest.raises(Expired):
        news.shown(id)
    assert_pure(news)


# Labels.


def test_labels_added_and_retired(home):
    place = home()
    news = place.start().models["news"]
    ids = play(news, 5, every=2)
    news.submit_labels(LabelChange(add=["weather"], retire=["tech"])).future.result()
    assert set(news.decide(context(7)).propensities) == {"sport", "politics", "weather"}
    assert_pure(news)
    with pytest.raises(Refused, match="retired"):
        news.decide(context(7), among=["tech"])
    with pytest.raises(Refused, match="not a label"):
        news.decide(context(7), among=["nonsense"])
    news.feedback(ids[1], label="tech")  # feedback may still name it
    news.feedback(ids[3], label="weather")
    assert_pure(news)
    news = place.restart().models["news"]  # though the file does not have them
    assert news.card().retired == ["tech"] and "weather" in news.card().labels
    assert "weather" not in news.card().retired
    news.submit_labels(LabelChange(add=["tech"])).future.result()
    assert news.card().retired == []
    assert_pure(news)


def test_an_answer_is_revised_to_a_label_that_is_newer(home):
    place = home(REVISIONS)
    news = place.start().models["news"]
    ids = play(news, 5)
    news.submit_labels(LabelChange(add=["weather"])).future.result()
    assert news.revise(ids[1], label="weather").state == "learned"
    assert_pure(news)
    news = place.restart().models["news"]
    assert news.look(ids[1]).feedback[-1].label == "weather"
    news.submit_retrain(Retraining(learner="Confidit"))
    assert_pure(news)


def test_labels_change_all_or_nothing(home):
    news = home().start().models["news"]
    news.decide(context(0))
    before = bytes_of(news)
    with pytest.raises(Refused, match="no label would be left"):
        news.submit_labels(LabelChange(retire=list(LABELS)))
    with pytest.raises(Refused):
        news.submit_labels(LabelChange(add=["weather", 7]))
    with pytest.raises(Refused, match="not a label"):
        news.submit_labels(LabelChange(add=["weather"], retire=["nonsense"]))
    assert bytes_of(news) == before
    news.submit_labels(LabelChange(add=["weather", "weather"])).future.result()
    assert news.card().labels == [*LABELS, "weather"]
    assert_pure(news)


def test_labels_of_the_file(home):
    place = home()
    play(place.start().models["news"], 5)
    place.stop()
    place.write('labels = ["sport", "politics", "weather"]')
    news = place.start().models["news"]
    assert news.card().labels == [*LABELS, "weather"] and news.card().retired == ["tech"]
    play(news, 5)
    assert_pure(news)
    place.write('labels = ["sport", "politics", "tech"]')
    news = place.restart().models["news"]
    assert news.card().retired == ["weather"]
    assert_pure(news)


# Keys.


def test_the_same_key_is_the_same_decision(home):
    place = home()
    news = place.start().models["news"]
    told = news.decide(context(1), key="a")
    news.decide(context(2))
    before = bytes_of(news)
    assert news.decide(context(1), key="a") == told
    assert bytes_of(news) == before
    with pytest.raises(KeyReused):
        news.decide(context(2), key="a")
    with pytest.raises(KeyReused):
        news.decide(context(1), among=["tech"], key="a")
    news = place.restart().models["news"]
    assert news.decide(context(1), key="a") == told
    with pytest.raises(KeyReused):
        news.decide(context(2), key="a")
    assert_pure(news)


def test_a_key_twice_in_a_batch(home):
    news = home().start().models["news"]
    first, again, other = news.decide_many(
        [question(1, key="a"), question(1, key="a"), question(1, key="b")]
    )
    assert first == again and first.id != other.id
    assert news.learner.round == 2
    with pytest.raises(KeyReused):
        news.decide_many([question(1, key="c"), question(2, key="c")])
    assert_pure(news)
    assert news.decide(context(1), key="a") == first
    assert news.decide(context(2), key="c").round == 2


def test_a_key_is_remembered_though_its_label_has_been_retired(home):
    news = home().start().models["news"]
    told = news.decide(context(1), among=["tech", "sport"], key="a")
    news.submit_labels(LabelChange(retire=["tech"])).future.result()
    assert news.decide(context(1), among=["sport", "tech"], key="a") == told


def test_keys_of_feedback(home):
    news = home(REVISIONS).start().models["news"]
    told = news.decide(context(1))
    news.feedback(told.id, right=True, key="k")
    news.feedback(told.id, right=True, key="k")
    with pytest.raises(KeyReused):
        news.feedback(told.id, right=False, key="k")
    assert_pure(news)


def test_half_characters_are_refused_before_they_reach_the_journal(home):
    service = home().start()
    news = service.models["news"]
    with pytest.raises(Refused, match="UTF-8"):
        news.decide(context(1), key="\ud800")
    told = news.decide(context(1))
    with pytest.raises(Refused, match="UTF-8"):
        news.feedback(told.id, right=True, source="\ud800")
    with pytest.raises(Refused, match="UTF-8"):
        news.feedback(told.id, right=True, key="\udfff")
    assert service.unready() == "" and service.tally.failures == 0
    assert_pure(news)


# Sources.


def test_sources(home):
    place = home()
    news = place.start().models["news"]
    for i in range(30):
        told = news.decide(context(i))
        news.feedback(told.id, right=i % 2 == 0, source=("anna", "bot")[i % 2])
    full = bytes_of(news)
    card = news.submit_source("bot", SourceChange(quarantined=True)).value
    assert card.sources["bot"].quarantined and card.sources["bot"].answers == 15
    assert bytes_of(news) != full
    told = news.decide(context(3))
    news.feedback(told.id, right=False, source="bot")  # kept, not learned
    assert_pure(news)
    news = place.restart().models["news"]
    assert_pure(news)
    news.submit_source("bot", SourceChange(weight=0.5))
    assert_pure(news)
    half = bytes_of(news)
    news.submit_source("bot", SourceChange(weight=1.0))
    assert_pure(news)
    assert bytes_of(news) not in (half, full)
    card = news.submit_remove_source("bot").value
    assert card.open == 16 and card.answers == 15
    assert_pure(news)
    news = place.restart().models["news"]
    assert news.card().open == 16
    assert_pure(news)


def test_a_source_has_its_weight_again_after_a_quarantine(home):
    place = home()
    news = place.start().models["news"]
    for i in range(20):
        news.feedback(news.decide(context(i)).id, right=i % 2 == 0, source="bot")
    news.submit_source("bot", SourceChange(weight=0.5))
    half = bytes_of(news)
    news.submit_source("bot", SourceChange(quarantined=True))
    assert news.card().sources["bot"].weight == 0 and bytes_of(news) != half
    news = place.restart().models["news"]
    card = news.submit_source("bot", SourceChange(quarantined=False)).value
    assert card.sources["bot"].weight == 0.5 and not card.sources["bot"].quarantined
    assert bytes_of(news) == half
    news.submit_source("bot", SourceChange(weight=0.25, quarantined=True))
    assert news.card().sources["bot"].quarantined
    news.submit_source("bot", SourceChange(quarantined=False))
    assert news.card().sources["bot"].weight == 0.25
    assert_pure(news)


def test_a_source_that_stays_as_it_is_builds_no_learner(home):
    news = home().start().models["news"]
    news.feedback(news.decide(context(1)).id, right=True, source="bot")
    news.submit_source("bot", SourceChange(weight=0.5))
    builds = counted(news)
    news.submit_source("bot", SourceChange(weight=0.5))
    news.submit_source("bot", SourceChange(quarantined=False))
    with pytest.raises(Refused, match="quarantined"):
        news.submit_source("bot", SourceChange())
    assert builds == []


def test_a_source_that_was_refused_changes_nothing(home):
    news = home(service="[service.limits]\nqueue = 1\nbatch = 1").start().models["news"]
    news.feedback(news.decide(context(0)).id, right=True, source="bot")
    news.journal._queue = 0
    with pytest.raises(Busy):
        news.submit_source("bot", SourceChange(quarantined=True))
    news.journal._queue = 10
    assert not news.card().sources["bot"].quarantined
    news.feedback(news.decide(context(1)).id, right=True, source="bot")
    assert_pure(news)


def test_a_source_is_trusted_again_after_retraining(home):
    """Answers to decisions of the old learner come back between decisions of the new one."""
    place = home()
    news = place.start().models["news"]
    ids = [news.decide(context(i)).id for i in range(12)]
    for id in ids[:6]:
        news.feedback(id, right=True, source="bot")
    news.submit_source("bot", SourceChange(quarantined=True))
    news.submit_retrain(Retraining(learner="Confidit"))
    news.settle()
    for i in range(6):
        told = news.decide(context(i))
        news.feedback(ids[6 + i], right=False, source="bot")
        news.feedback(told.id, right=True)
    assert_pure(news)
    news.submit_source("bot", SourceChange(quarantined=False))
    assert_pure(news)
    play(news, 5)
    news.submit_remove_source("bot")
    assert_pure(news)
    play(place.restart().models["news"], 5)


# Erasing.


def all_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


@pytest.mark.parametrize("mode", ["", DEFERRED])
@pytest.mark.parametrize("size", [1, 100])
def test_erased_contexts_leave_no_bytes(home, mode, size):
    place = home(REVISIONS + "\n" + mode)
    service = place.start(snapshot_every=10)
    news = service.models["news"]
    ids = []
    for i in range(40):
        secret = f"secret{i:04d}x"
        told = news.decide({f"{secret}{k}": 1.0 for k in range(size)}, key=f"key-{secret}")
        if mode and i % 3:
            news.shown(told.id)
        if i % 2:
            news.feedback(told.id, right=bool(i % 4 == 1))
        ids.append(told.id)
    news.tick()
    news.revise(ids[31], right=False)
    assert b"secret0031x" in all_bytes(place.folder)
    for i in (3, 20, 31, 39):
        assert news.erase(ids[i]).state == "erased"
        assert news.erase(ids[i]).state == "erased"
        assert f"secret{i:04d}x".encode() not in all_bytes(place.folder)
        assert_pure(news)
        with pytest.raises(Expired, match="erased"):
            news.feedback(ids[i], right=True)
    record = news.look(ids[31])
    assert record.context is None and record.state == "erased" and record.feedback == []
    assert record.propensities == {}  # not that the label was certain
    for i in range(5):
        news.feedback(news.decide(named(i)).id, right=i % 2 == 0)
    news = place.restart().models["news"]
    assert_pure(news)
    assert b"secret0031x" not in all_bytes(place.folder)
    assert b"secret0032x" in all_bytes(place.folder)


def test_erasing_is_finished_after_the_last_reader(home, tmp_path):
    """A reader keeps the log from being emptied, but stops nobody."""
    place = home()
    news = place.start().models["news"]
    id = news.decide({"secret": 1.0}).id
    with news.journal.reading() as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT * FROM decisions").fetchall()
        assert news.erase(id).state == "erased"
        news.decide({"public": 1.0})
        assert b"secret" in all_bytes(place.folder)
        killed = place.crashed(tmp_path / "killed")
        connection.execute("COMMIT")
    assert b"secret" in all_bytes(killed.folder)
    killed.start()
    for folder in (place.folder, killed.folder):  # nobody has to write anything
        wait_for(lambda folder=folder: b"secret" not in all_bytes(folder))
    killed.stop()


# Retraining.


def slow_building(monkeypatch) -> threading.Event:
    """Learners are built in a thread that waits for the event."""
    go = threading.Event()
    behind = Rebuilding._build_behind

    def waits(self, *given):
        go.wait(PATIENCE)
        behind(self, *given)

    monkeypatch.setattr(rebuilding, "AT_ONCE", -1)
    monkeypatch.setattr(Rebuilding, "_build_behind", waits)
    return go


def test_compacting_waits_for_a_learner_that_is_being_built(home, monkeypatch):
    """It would delete the rounds that the other learner is to learn."""
    place = home(REVISIONS)
    news = place.start().models["news"]
    play(news, 30)
    place.clock.now += 1000
    go = slow_building(monkeypatch)
    replayed = building.Builder.replayed

    def starts_retraining(*args):
        monkeypatch.setattr(building.Builder, "replayed", replayed)
        news.submit_retrain(Retraining(learner="UCWL"))
        return replayed(*args)

    monkeypatch.setattr(building.Builder, "replayed", starts_retraining)
    assert news.compact(place.clock.now) == 0
    go.set()
    news.settle()
    assert news.card().learner == "UCWL" and news.learner.round > 0
    assert_pure(news)


def test_a_change_that_comes_while_a_learner_is_built_is_not_lost(home, monkeypatch):
    place = home(REVISIONS)
    news = place.start().models["news"]
    ids = play(news, 30)
    go = slow_building(monkeypatch)
    for id in ids[::4]:
        news.revise(id, label="tech")
    go.set()
    news.settle()
    assert_pure(news)
    assert news.snapshot() is not None


def test_a_past_that_changes_all_the_time_still_gets_new_learners(home, monkeypatch):
    """As with silence that is read as wrong, and feedback that comes after it, again and again."""
    place = home(REVISIONS)
    news = place.start().models["news"]
    ids = play(news, 30)
    go = slow_building(monkeypatch)
    taken, replayed = [], building.Builder.replayed
    take_over = Rebuilding._take_over

    def changed_meanwhile(self, learner, after, until=None, *rest):
        result = replayed(self, learner, after, until, *rest)
        if until is not None and len(taken) < 3:
            news.revise(ids[len(taken)], label="tech")
        return result

    monkeypatch.setattr(building.Builder, "replayed", changed_meanwhile)
    monkeypatch.setattr(
        Rebuilding,
        "_take_over",
        lambda *given: taken.append(news._state.is_stale) or take_over(*given),
    )
    news.revise(ids[10], label="tech")
    assert news.snapshot() is None
    go.set()
    assert_pure(news)
    assert len(taken) == 4
    assert news.snapshot() is not None


def test_a_learner_that_knows_feedback_of_before_is_not_damage(home, monkeypatch, caplog):
    """It refuses the feedback that has come since, so another one is built."""
    news = home(REVISIONS).start().models["news"]
    ids = play(news, 10)
    news.snapshot()
    ids += play(news, 5, first=10)
    go = slow_building(monkeypatch)
    news.revise(ids[12], label="tech")  # a learner will be built from the snapshot
    news.revoke(ids[2])  # which knows this feedback
    news.feedback(ids[2], label="sport")
    play(news, 5, first=20)
    go.set()
    assert_pure(news)
    assert "could not be built" not in caplog.text
    assert news.snapshot() is not None


def test_retraining_while_the_old_learner_answers(home, monkeypatch):
    place = home(REVISIONS)
    news = place.start().models["news"]
    ids = play(news, 20, every=2)
    go = slow_building(monkeypatch)
    card = news.submit_retrain(Retraining(learner="Confidit", seed=3)).value
    assert card.rebuilding and card.learner == "Banditron"
    ids += play(news, 6, first=20, every=2)
    with pytest.raises(Busy):
        news.submit_retrain(Retraining(seed=5))
    news.revise(ids[4], right=True)
    go.set()
    news.settle()
    card = news.card()
    assert not card.rebuilding and card.learner == "Confidit" and card.seed == 3
    assert_pure(news)
    for id in (ids[1], ids[21]):  # decisions of the old learner
        assert news.feedback(id, right=True).state == "learned"
    news.cancel(ids[3])
    news.cancel(ids[1])
    play(news, 5, first=26)
    assert_pure(news)
    before = bytes_of(news)
    news = place.restart().models["news"]  # though the file says Banditron
    news.settle()
    assert news.card().learner == "Confidit"
    assert bytes_of(news) == before


def test_feedback_again_while_the_learner_that_knows_the_revoked_one_answers(home, monkeypatch):
    news = home(REVISIONS).start().models["news"]
    ids = play(news, 5)
    go = slow_building(monkeypatch)
    news.revoke(ids[2])
    assert news.feedback(ids[2], right=True).state == "learned"
    go.set()
    assert_pure(news)
    assert news.look(ids[2]).feedback[-1].right is True


def test_retraining_sees_what_is_not_yet_on_disk(home):
    news = home().start().models["news"]
    release = hold_commits(news.journal)
    pending = [news.submit_decide(context(i)) for i in range(3)]
    pending += [news.submit_feedback(pending[0].value.id, right=True)]
    threading.Timer(0.1, release).start()
    news.submit_retrain(Retraining(seed=9))
    news.feedback(pending[1].value.id, right=False)
    assert_pure(news)


def test_retraining_that_is_interrupted_goes_on(home, tmp_path, monkeypatch):
    place = home()
    news = place.start().models["news"]
    play(news, 10)
    with monkeypatch.context() as patch:
        go = slow_building(patch)
        news.submit_retrain(Retraining(learner="Confidit"))
        crashed = place.crashed(tmp_path / "crashed")
        go.set()
        news.settle()
    again = crashed.start().models["news"]
    again.settle()
    assert again.card().learner == "Confidit"
    assert_pure(again)
    crashed.stop()


def test_settings_of_the_file(home):
    place = home("settings = { gamma = 0.2 }")
    news = place.start().models["news"]
    ids = play(news, 10, every=2)
    place.write("settings = { gamma = 0.1 }")
    news = place.restart().models["news"]
    news.settle()
    assert news.card().settings == {"gamma": 0.1} and news.card().version == 2
    news.feedback(ids[1], right=False)
    assert_pure(news)
    news = place.restart().models["news"]
    assert news.card().version == 2


def test_a_retraining_that_is_refused_changes_nothing(home):
    place = home()
    news = place.start().models["news"]
    play(news, 5)
    before = bytes_of(news)
    for change in (
        Retraining(learner="Nonsense"),
        Retraining(settings={"gamma": 7.0}),
        Retraining(settings={"nonsense": 1}),
        Retraining(settings={"silence": "wrong"}),  # which needs a time, in the file
        Retraining(learner="Halving"),  # which is made of a list of hypotheses
    ):
        with pytest.raises(Refused):
            news.submit_retrain(change)
    assert bytes_of(news) == before
    assert bytes_of(place.restart().models["news"]) == before


def test_silence_that_is_read_as_wrong_fits_no_learner_of_true_labels(home):
    news = home('silence = { wrong_after = "24h" }').start().models["news"]
    with pytest.raises(Refused, match="Perceptron must be told the true label"):
        news.submit_retrain(Retraining(learner="Perceptron"))


UNFIT = "Newtron"  # its matrices do not fit into memory for hashed names


def play_named(news, rounds=5) -> None:
    for i in range(rounds):
        news.feedback(news.decide(named(i)).id, right=True)


def test_a_learner_that_cannot_be_built_is_refused(home):
    place = home()
    news = place.start().models["news"]
    play_named(news)
    before = bytes_of(news)
    with pytest.raises(Refused, match=r"Newtron could not be .*; Banditron stays .*vocabulary="):
        news.submit_retrain(Retraining(learner=UNFIT))
    assert bytes_of(news) == before and news.card().version == 1


def test_a_learner_that_cannot_be_built_behind_the_scenes_is_told(home, monkeypatch):
    monkeypatch.setattr(rebuilding, "AT_ONCE", -1)
    news = home().start().models["news"]
    play_named(news)
    news.submit_retrain(Retraining(learner=UNFIT))
    news.settle()
    assert news.card().learner == "Banditron"
    assert "Newtron could not be built" in news.card().problem
    news.submit_retrain(Retraining(learner="Confidit"))
    news.settle()
    assert news.card().learner == "Confidit" and news.card().problem == ""


@pytest.mark.parametrize("at_once", [500, -1])
def test_a_learner_of_the_file_that_cannot_be_built_is_told(home, monkeypatch, caplog, at_once):
    monkeypatch.setattr(rebuilding, "AT_ONCE", at_once)
    place = home()
    service = place.start()
    play_named(service.models["news"])
    place.write(f'learner = "{UNFIT}"')
    if at_once > 0:
        with pytest.raises(Contradiction, match="Newtron could not be built"):
            service.reload(check(place.config))
    else:
        with suppress(Contradiction):  # the learner may be refused before the reload has ended
            service.reload(check(place.config))
    for _ in range(2):  # also after a restart
        news = service.models["news"]
        news.settle()
        assert news.card().learner == "Banditron"
        assert "Newtron could not be built" in news.card().problem
        assert "Newtron could not be built" in caplog.text
        assert_pure(news)
        caplog.clear()
        service = place.restart()
    place.write()
    service.reload(check(place.config))
    assert service.models["news"].card().problem == ""
    assert service.models["news"].card().version == 1


def test_two_models_retrain_at_once(home, monkeypatch):
    place = home('\n[models.other]\nlabels = ["a", "b"]\nlearner = "Banditron"')
    service = place.start()
    for name in ("news", "other"):
        service.models[name].decide(context(1))
    go = slow_building(monkeypatch)
    for engine in service.models.values():
        engine.submit_retrain(Retraining(seed=4))
    go.set()
    for engine in service.models.values():
        engine.settle()
        assert engine.card().seed == 4
        assert_pure(engine)
    assert service.tally.failures == 0


def test_confidence_is_what_it_was_when_it_was_said(home):
    place = home('learner = "OneBit"\n')
    news, twin = place.start().models["news"], ob.OneBit(LABELS)
    told = []
    for i in range(24):
        decision = twin.decide(named(i % 3))
        told.append(news.decide(named(i % 3)))
        assert told[-1].confidence == decision.confidence
        right = decision.label == LABELS[i % 3]
        news.feedback(told[-1].id, right=right)
        twin.learn(decision, right=right)
    assert told[0].confidence < 0.5 and told[0].propensities["sport"] == 1.0
    assert told[-1].confidence > 0.6
    empty = news.decide({})
    assert empty.confidence == twin.decide({}).confidence > 0.0
    assert news.erase(told[4].id).state == "erased"
    for _ in range(2):
        records = [news.look(said.id) for said in told]
        for i, (said, record) in enumerate(zip(told, records, strict=True)):
            assert record.confidence == (None if i == 4 else said.confidence)
        assert news.look(empty.id).confidence == empty.confidence
        news = place.restart().models["news"]
        assert_pure(news)


def test_propensities_of_old_decisions_keep_their_labels(home):
    place = home("settings = { gamma = 0.4 }")
    news = place.start().models["news"]
    told = news.decide(context(1), key="a")
    place.write('labels = ["tech", "sport", "politics"]\nsettings = { gamma = 0.3 }')
    news = place.restart().models["news"]
    news.settle()
    assert news.card().labels == ["tech", "sport", "politics"]
    assert news.look(told.id).propensities == told.propensities
    assert news.decide(context(1), key="a") == told


# Several models, and other beginnings.


def test_several_models(home):
    place = home('\n[models.other]\nlabels = ["a", "b"]\nlearner = "Confidit"')
    service = place.start(snapshot_every=5)
    news, other = service.models["news"], service.models["other"]
    for i in range(12):
        first, second = news.decide(context(i)), other.decide(context(i))
        other.feedback(second.id, right=True)
        news.feedback(first.id, right=False)
        service.tick()
    assert service.model_of(first.id) == "news" and service.model_of(second.id) == "other"
    with pytest.raises(UnknownDecision):
        news.feedback(second.id, right=True)
    with pytest.raises(UnknownDecision):
        service.model_of("77-77")
    before = bytes_of(news), bytes_of(other)
    service = place.restart()
    assert (bytes_of(service.models["news"]), bytes_of(service.models["other"])) == before
    for engine in service.models.values():
        assert_pure(engine)
    assert service.model_of(first.id) == "news"


def test_a_saved_learner_is_the_beginning(home):
    learner = ob.Banditron(LABELS, seed=5)
    for i in range(10):
        indices, values = map(list, zip(*context(i), strict=True))
        learner.learn(learner.decide((indices, values)), label=LABELS[i % 3])
    place = home()
    learner.save(place.folder / "saved.onebit")
    place.config.write_text(
        '[service]\njournal = "x.journal"\n[models.news]\nlearner_file = "saved.onebit"\n'
    )
    news = place.start().models["news"]
    learner = with_vocabulary(learner, building.default_vocabulary(learner))
    assert bytes_of(news) == testing.state_bytes(learner)
    play(news, 5)
    before = bytes_of(news)
    for snapshot in place.snapshots:
        snapshot.unlink()
    news = place.restart().models["news"]
    assert bytes_of(news) == before
    assert_pure(news)
    shutil.rmtree(f"{place.journal}.snapshots")
    learner.learn(learner.decide((indices, values)), right=True)
    learner.save(place.folder / "saved.onebit")  # another file: retrained, with all answers
    news = place.restart().models["news"]
    news.settle()
    assert news.card().version == 2
    assert_pure(news)


def test_numbers_of_dicts_are_learned_from_the_journal_alone(home):
    place = home('learner = "OneBit"')
    news = place.start(snapshot_every=10).models["news"]
    for i in range(25):
        x = {"body": f"word{i % 5} and more", "size": 1e4 + 7 * i, "count": i % 3, "team": "A"}
        told = news.decide(x)
        if i % 4:
            news.feedback(told.id, right=told.label == LABELS[i % 3])
    assert_pure(news)
    assert news._state.learner.table.state.held.numbers[1:, 0].max() == 18
    before = bytes_of(news)
    assert bytes_of(place.restart().models["news"]) == before
    for snapshot in place.snapshots:
        snapshot.unlink()
    assert bytes_of(place.restart().models["news"]) == before


def test_a_learner_of_a_table_takes_dicts(home):
    place = home()
    (place.folder / "table.csv").write_text(
        "age,height,label\n" + "".join(f"{i % 5},{3 * i % 7},{LABELS[i % 3]}\n" for i in range(30))
    )
    learner = ob.OneBit(LABELS)
    ob.simulate(learner, ob.datasets.read(place.folder / "table.csv", labels=LABELS))
    learner.save(place.folder / "saved.onebit")
    place.config.write_text(
        '[service]\njournal = "x.journal"\n[models.news]\nlearner_file = "saved.onebit"\n'
    )
    news = place.start().models["news"]
    full = {"age": 3, "height": 5}
    for x in (full, {"height": 5, "age": 3}, {"age": 3, "height": None}, [3, 5]):
        news.feedback(news.decide(x).id, right=True)
    with pytest.raises(Refused, match="knows no column 'hight'; did you mean 'height'"):
        news.decide({"age": 3, "hight": 5})
    assert_pure(news)
    assert bytes_of(place.restart().models["news"]) == bytes_of(news)


def test_reload(home):
    place = home("settings = { gamma = 0.2 }")
    service = place.start()
    ids = play(service.models["news"], 10, every=2)
    place.write(
        'settings = { gamma = 0.1 }\n[models.other]\nlabels = ["a", "b"]\nlearner = "Banditron"'
    )
    service.reload(check(place.config))
    news = service.models["news"]
    news.settle()
    news.feedback(ids[1], right=True)
    assert_pure(news)
    service.models["other"].decide(context(1))
    assert_pure(service.models["other"])


def test_a_reload_that_fails_for_a_model_is_followed_once_the_file_is_right(home):
    place = home()
    service = place.start()
    extra = '[models.extra]\nlabels = ["a", "b"]\nlearner = "Banditron"'
    place.write(f"labels = [1, 2]\n{extra}")
    with pytest.raises(Contradiction, match=r"\[models.news\]: labels must be all strings"):
        service.reload(check(place.config))
    assert service.models["news"].card().labels == list(LABELS)
    service.models["extra"].decide(context(1))
    place.write(f'labels = ["sport", "politics", "tech", "food"]\n{extra}')
    service.reload(check(place.config))
    assert "food" in service.models["news"].card().labels


def test_labels_that_come_and_go_are_the_same_after_a_restart(home):
    place = home()
    service = place.start()
    id = service.models["news"].decide(context(1)).id
    for text in (
        'labels = ["sport", "food", "tech"]',
        'labels = ["sport", "food", "tech"]\nlearner = "UCWL"',
        'labels = ["sport", "food", "politics", "tech"]\nlearner = "UCWL"',
    ):
        place.write(text)
        service.reload(check(place.config))
        service.models["news"].settle()
        assert set(service.models["news"].card().labels) >= set(LABELS)
    service.models["news"].feedback(id, label="politics")
    assert service.models["news"].card().retired == []
    assert place.restart().models["news"].card().retired == []


# One owner, damage, backups.


def test_a_second_owner_is_refused(home):
    place = home()
    service = place.start()
    with pytest.raises(JournalInUse, match="one owner"):
        place.start()
    program = (
        "from onebit.service.journal import Journal\n"
        f"try:\n    Journal({str(place.journal)!r})\n"
        "except Exception as error:\n    print(type(error).__name__, error)\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout
    assert said.startswith("JournalInUse") and str(os.getpid()) in said
    play(service.models["news"], 2)


def test_a_journal_behind_a_link_has_one_owner(home, tmp_path):
    place, linked = home(), home(folder="linked")
    service = place.start()
    play(service.models["news"], 5)
    linked.journal.symlink_to(place.journal)
    with pytest.raises(JournalInUse, match="in use by another process"):
        linked.start()
    place.stop()
    service = linked.start()
    play(service.models["news"], 5)
    service.journal.failure = OSError("fsync failed, says the test")
    service.recover()
    assert linked.journal.is_symlink() and not place.journal.is_symlink()
    assert service.models["news"].card().answers == 10
    linked.stop()
    assert place.start().models["news"].card().answers == 10


def test_a_snapshot_is_written_while_requests_go_on(home, monkeypatch):
    """And it is dropped if a context is erased meanwhile that it has learned."""
    place = home(REVISIONS)
    news = place.start().models["news"]
    ids, write, meanwhile = play(news, 5), saving.files.write, []

    def slowly(path, *dumped, **options):
        thread = threading.Thread(target=lambda: [do() for do in meanwhile])
        thread.start()
        thread.join(PATIENCE)
        assert not thread.is_alive(), "requests wait until a snapshot is written"
        write(path, *dumped, **options)

    monkeypatch.setattr(saving.files, "write", slowly)
    meanwhile.append(lambda: play(news, 5))
    written = news.snapshot()
    assert written in place.snapshots and news.tally.decisions == 10
    meanwhile.append(lambda: news.erase(ids[1]))
    assert news.snapshot() is None and place.snapshots == []
    assert_pure(news)


def test_a_damaged_snapshot_is_not_used(home, caplog):
    place = home()
    service = place.start(snapshot_every=5)
    news = service.models["news"]
    for i in range(5):
        play(news, 5, first=5 * i)
        service.tick()
    place.stop()
    before = testing.state_bytes(ob.load(place.snapshots[-1]))
    assert len(place.snapshots) == 4  # `snapshots` of the configuration, and an older one
    for count in range(1, 4):
        path = place.snapshots[-count]
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data if count < 3 else data[:100])
        service = place.start()
        assert bytes_of(service.models["news"]) == before
        assert path.name in caplog.text
        service.models["news"]._saving.reached = 10**9  # do not write another one
        place.stop()


def test_a_damaged_journal_is_named(home):
    place = home()
    play(place.start().models["news"], 200)
    place.stop()
    good = place.journal.read_bytes()
    place.journal.write_bytes(b"this is a letter to my aunt" * 400)
    with pytest.raises(Damaged, match=r"x\.journal is damaged: .*--repair"):
        place.start()
    damaged = bytearray(good)
    damaged[4096:] = os.urandom(len(good) - 4096)
    place.journal.write_bytes(damaged)
    with pytest.raises(Damaged, match=r"x\.journal is damaged: .*--repair"):
        place.start()
    place.journal.write_bytes(good)
    assert_pure(place.start().models["news"])


def test_a_database_of_somebody_else_is_left_alone(home):
    place = home()
    with sqlite3.connect(place.journal) as connection:
        connection.execute("CREATE TABLE invoices (number)")
    connection.close()
    before = place.journal.read_bytes()
    with pytest.raises(Damaged, match="not a journal of onebit"):
        place.start()
    assert place.journal.read_bytes() == before


def test_a_journal_of_a_newer_version(home):
    place = home()
    place.start()
    place.stop()
    with sqlite3.connect(place.journal) as connection:
        connection.execute("UPDATE meta SET value = 99 WHERE name = 'schema'")
    connection.close()
    with pytest.raises(Damaged, match="upgrade onebit"):
        place.start()


def test_a_journal_that_was_only_begun(home):
    """The process ended after SQLite made the file and before the tables were made."""
    place = home()
    with sqlite3.connect(place.journal) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    assert place.journal.stat().st_size > 0
    play(place.start().models["news"], 2)


def test_what_was_replayed_is_not_replayed_again(home, tmp_path):
    """A stop writes a snapshot although nothing came after the start."""
    place = home()
    play(place.start().models["news"], 20)
    place = place.crashed(tmp_path / "crashed")
    assert place.start().models["news"].replayed_from == 0
    news = place.restart().models["news"]
    assert news.replayed_from == news._state.reached > 0
    assert_pure(news)
    assert len(place.snapshots) == 1
    place.stop()


def test_what_a_killed_process_has_left_is_removed(home):
    place = home()
    play(place.start().models["news"], 3)
    place.stop()
    parts = [Path(f"{place.journal}.copy"), Path(f"{place.journal}.snapshots/.news@1.onebit.ab")]
    for part in parts:
        part.write_bytes(b"half of something")
    assert_pure(place.start().models["news"])
    assert not any(part.exists() for part in parts)


def test_migration(home, monkeypatch):
    place = home()
    play(place.start().models["news"], 3)
    place.stop()
    schema = journal_module.SCHEMA
    monkeypatch.setattr(journal_module, "SCHEMA", schema + 1)

    def fails(connection):
        connection.execute("ALTER TABLE decisions ADD COLUMN extra")
        raise RuntimeError("in the middle")

    monkeypatch.setitem(journal_module.MIGRATIONS, schema, fails)
    with pytest.raises(RuntimeError):
        place.start()

    def adds_a_table(connection):
        connection.execute("CREATE TABLE extra (name)")

    monkeypatch.setitem(journal_module.MIGRATIONS, schema, adds_a_table)
    service = place.start()
    with service.journal.reading() as connection:
        assert journal_module.schema_of(connection, place.journal) == schema + 1
        connection.execute("SELECT name FROM extra").fetchall()
    assert_pure(service.models["news"])


def test_a_backup_with_newer_snapshots_lying_around(home, tmp_path):
    """The journal is restored without the last answers, and others come in their places."""
    place = home()
    service = place.start()
    news = service.models["news"]
    ids = [news.decide(context(i)).id for i in range(6)]
    backup = tmp_path / "backup"
    with sqlite3.connect(place.journal) as connection:
        connection.execute("VACUUM INTO ?", (str(backup),))
    connection.close()
    for id in ids:
        news.feedback(id, right=True)
    place.stop()
    assert place.snapshots
    shutil.copy(backup, place.journal)
    for suffix in ("-wal", "-shm"):
        Path(f"{place.journal}{suffix}").unlink(missing_ok=True)
    news = place.start().models["news"]
    assert_pure(news)
    for id in ids:
        news.feedback(id, right=False)
    assert_pure(news)
    place.open.clear()
    service = news.journal  # ends without a snapshot of its own
    service.close()
    assert_pure(place.start().models["news"])


# Batches and limits.


def test_a_refused_batch_changes_nothing(home):
    place = home()
    news = place.start().models["news"]
    play(news, 5)
    before, position = bytes_of(news), news.journal.position
    with pytest.raises(Refused) as raised:
        news.decide_many([question(1), question(2), question(3, among=["nonsense"])])
    assert raised.value.where == "$.decisions[2].among[0]"
    assert bytes_of(news) == before
    assert_pure(news)
    assert news.tally.open == 0
    told = news.decide_many([question(1), question(2)])
    assert [t.round for t in told] == [5, 6]
    assert_pure(news)
    assert news.journal.position >= position


@pytest.mark.parametrize(
    "refused",
    [
        Question(context=context(1), among=["no label"]),
        Question(context=[1.0, 2.0, 3.0]),  # rows before it had two columns
        Question(context=[[3, 1.0], [3, 2.0]]),  # an index twice
        Question(context=context(1), key="used"),
        Question(context=context(1), key="of this batch"),
        Question(context={str(i): 1.0 for i in range(101)}),
    ],
)
def test_a_refused_batch_builds_no_learner(home, monkeypatch, refused):
    """Otherwise, whoever may ask could keep the model busy by asking wrongly."""
    news = home(service="[service.limits]\nfeatures = 100").start().models["news"]
    news.decide([1.0, 2.0])
    news.decide(context(0), key="used")
    before = bytes_of(news)
    monkeypatch.setattr(
        news._rebuilding, "start_again", lambda: pytest.fail("the learner is built again")
    )
    questions = [question(0), question(0, key="of this batch"), refused]
    with pytest.raises((Refused, KeyReused, TooLarge)) as caught:
        news.decide_many(questions)
    assert caught.value.where.startswith("$.decisions[2]")
    assert bytes_of(news) == before and news.card().rounds == 2


def test_batches(home):
    place = home(service="[service.limits]\nbatch = 10")
    news = place.start().models["news"]
    told = news.decide_many([question(i) for i in range(10)])
    with pytest.raises(TooLarge):
        news.decide_many([question(i) for i in range(11)])
    answers = [Answer(id=t.id, right=True) for t in told]
    outcomes = news.feedback_many([*answers, answers[0], Answer(id=told[0].id, right=False)])
    assert [o.state for o in outcomes[:11]] == ["learned"] * 11
    assert isinstance(outcomes[11], Contradiction)
    assert_pure(news)


def counted(engine):
    """How often the learner is built from here on."""
    builds, build = [], engine._rebuilding.build_again

    def build_again(*args):
        builds.append(args)
        build(*args)

    engine._rebuilding.build_again = build_again
    return builds


def test_many_are_cancelled_at_once(home):
    news = home(REVISIONS).start().models["news"]
    ids = play(news, 8, every=2)
    alone = home(REVISIONS, folder="alone").start().models["news"]
    for i, id in enumerate(play(alone, 8, every=2)):
        if i in (0, 3, 5):
            alone.cancel(id)
    builds = counted(news)
    outcomes = news.cancel_many([ids[0], ids[3], ids[5], "9-nothing", ids[0]])
    assert [getattr(outcome, "state", None) for outcome in outcomes] == [
        "cancelled", "cancelled", "cancelled", None, "cancelled",
    ]  # fmt: skip
    assert isinstance(outcomes[3], UnknownDecision)
    assert len(builds) == 1 and news.tally.cancelled == 3
    assert [news.look(id).state == "cancelled" for id in ids] == [i in (0, 3, 5) for i in range(8)]
    assert_pure(news)
    assert bytes_of(news) == bytes_of(alone)


def test_many_are_revised_at_once(home):
    news = home(REVISIONS).start().models["news"]
    ids = play(news, 8, every=2)
    builds = counted(news)
    outcomes = news.revise_many(
        [
            Answer(id=ids[0], label="tech"),
            Answer(id=ids[1], right=True),  # has no feedback
            Answer(id=ids[2], label="sport"),
            Answer(id=ids[2], label="tech"),
        ]
    )
    assert [getattr(outcome, "state", None) for outcome in outcomes] == [
        "learned", None, "learned", "learned",
    ]  # fmt: skip
    assert isinstance(outcomes[1], Contradiction) and len(builds) == 1
    assert [news.look(ids[i]).feedback[-1].label for i in (0, 2)] == ["tech", "tech"]
    assert_pure(news)


def test_answers_are_counted_as_they_stand(home):
    """The metric `onebit_error_share` and the model card follow every change of the past."""
    place = home(f"{REVISIONS}\nexpires_after = '100s'", 'retention = "50s"')
    service = place.start()
    news = service.models["news"]
    ids = [news.decide(context(i)).id for i in range(12)]

    def assert_counted(answers, mistakes):
        assert (news.tally.answers, news.tally.mistakes) == (answers, mistakes)
        card = news.card()
        assert card.answers == answers and card.error_share == mistakes / answers
        news._counts.count()
        assert (news.tally.answers, news.tally.mistakes) == (answers, mistakes)

    for i, id in enumerate(ids[:10]):
        news.feedback(id, right=i >= 4, source="bot" if i in (3, 9) else None)
    assert_counted(10, 4)
    news.feedback(ids[0], right=True)
    assert_counted(10, 3)
    said = news.look(ids[4]).label
    news.revise(ids[4], label=next(label for label in LABELS if label != said))
    assert_counted(10, 4)
    news.revise(ids[1], label=news.look(ids[1]).label)
    assert_counted(10, 3)
    news.revoke(ids[2])
    assert_counted(9, 2)
    news.cancel(ids[4])
    assert_counted(8, 1)
    news.erase(ids[5])
    assert_counted(7, 1)
    news.submit_remove_source("bot").wait()
    assert_counted(5, 0)
    news.feedback_many([Answer(id=ids[10], right=False), Answer(id=ids[10], right=True)])
    assert_counted(6, 0)
    place.clock.now += 60
    news.feedback(news.decide(context(1)).id, right=False)
    news.tick()  # compacts
    assert_counted(1, 1)


def test_a_batch_of_revisions_builds_the_learner_once(home, monkeypatch):
    """Every built learner holds up all other requests of the model."""
    news = home(REVISIONS).start().models["news"]
    ids = play(news, 20)
    built = []
    again = Rebuilding.build_again
    monkeypatch.setattr(Rebuilding, "build_again", lambda *given: built.append(1) or again(*given))
    news._decisions.clear()  # a decision that is named twice is found in the journal both times
    outcomes = news.feedback_many(
        [
            *(Answer(id=id, label="tech") for id in ids),
            Answer(id=ids[3], label="sport"),
            Answer(id="1-none", right=True),
        ]
    )
    assert [o.state for o in outcomes[:-1]] == ["learned"] * 21
    assert isinstance(outcomes[-1], UnknownDecision)
    assert len(built) == 1
    assert [heard.label for heard in news.look(ids[3]).feedback[1:]] == ["tech", "sport"]
    assert news.look(ids[4]).feedback[-1].label == "tech"
    assert_pure(news)


def test_a_batch_is_done_when_all_of_it_is_on_disk(home):
    """An answer that repeats an earlier one does not stand for those that are new."""
    news = home().start().models["news"]
    first, second = (news.decide(context(i)) for i in range(2))
    release = hold_commits(news.journal)
    early = news.submit_feedback(first.id, right=True)
    wait_until_writing(news.journal)
    late = news.submit_feedback_many(
        [Answer(id=second.id, right=True), Answer(id=first.id, right=True)]
    )
    assert early.future is not late.future
    release(1)
    early.wait()
    assert not late.future.done()
    release()
    assert [standing.state for standing in late.wait()] == ["learned"] * 2


def test_limits_of_open_decisions(home):
    place = home('expires_after = "10s"', service="[service.limits]\nopen_decisions = 3")
    news = place.start().models["news"]
    ids = [news.decide(context(i)).id for i in range(3)]
    with pytest.raises(Busy, match="wait for feedback") as raised:
        news.decide(context(3))
    assert raised.value.retry_after
    with pytest.raises(Busy):
        news.decide_many([question(1)])
    news.feedback(ids[0], right=True)
    news.decide(context(3))
    place.clock.now += 11  # they expire while the process runs
    news.decide_many([question(i) for i in range(3)])
    assert_pure(news)


def test_what_has_expired_is_found_without_reading_the_rest(home, monkeypatch):
    """At the limit of open decisions, the others must not be counted again and again."""
    place = home('expires_after = "10s"', service="[service.limits]\nopen_decisions = 20")
    news = place.start().models["news"]
    random, read = Random(1), []
    unanswered = news.journal.unanswered

    def counted(model, after, upto):
        read.append(upto - after)
        return unanswered(model, after, upto)

    monkeypatch.setattr(news.journal, "unanswered", counted)
    for i in range(300):
        place.clock.now += 0.3
        try:
            id = news.decide(context(i)).id
        except Busy:
            continue
        if random.random() < 0.3:
            news.feedback(id, right=True)
        elif random.random() < 0.2:
            news.cancel(id)
    news.journal.flush()
    assert len(read) > 10 and sum(read) <= news.journal.position
    monkeypatch.undo()
    news._counts.count_expired()
    found = news.tally.open
    news._counts.count()
    assert found == news.tally.open > 0


def test_expired_decisions_are_counted_as_open_until_the_next_count(home):
    place = home('expires_after = "10s"\nrevisions = true')
    news = place.start().models["news"]
    ids = [news.decide(context(i)).id for i in range(4)]
    news.feedback(ids[0], right=True)
    place.clock.now += 11
    news.decide(context(4))
    assert news.card().open == 4  # three of them have expired since the start
    place.stop()
    news = place.start().models["news"]
    assert news.card().open == 1
    news.cancel(ids[1])
    news.erase(ids[2])
    news.revoke(ids[0])
    assert news.card().open == 1  # they were not counted
    news.cancel(news.decide(context(5)).id)
    assert news.card().open == 1


def test_a_full_queue_refuses_and_forgets_nothing(home):
    place = home(service="[service.limits]\nqueue = 5\nbatch = 5")
    news = place.start().models["news"]
    release = hold_commits(news.journal)
    first = news.submit_decide(context(0))
    wait_until_writing(news.journal)
    accepted = [news.submit_decide(context(i)) for i in range(1, 6)]
    round = news.learner.round
    with pytest.raises(Busy) as raised:
        news.submit_decide(context(9))
    assert raised.value.retry_after and news.learner.round == round
    with pytest.raises(Busy):
        news.submit_feedback(first.value.id, right=True)
    release()
    for pending in [first, *accepted]:
        assert news.feedback(pending.wait().id, right=True).state == "learned"
    assert_pure(news)


def test_limits_of_features_hold_for_new_contexts_only(home):
    place = home(service="[service.limits]\nfeatures = 5")
    news = place.start().models["news"]
    news.decide({f"f{i}": 1.0 for i in range(5)})
    with pytest.raises(TooLarge):
        news.decide({f"f{i}": 1.0 for i in range(6)})
    place.write(service="[service.limits]\nfeatures = 2")
    news = place.restart().models["news"]
    assert_pure(news)
    with pytest.raises(TooLarge):
        news.decide({f"f{i}": 1.0 for i in range(3)})


def test_what_falls_out_of_memory_is_found_on_disk(home, monkeypatch):
    monkeypatch.setattr(recent, "RECENT", 4)
    place = home(REVISIONS)
    news = place.start().models["news"]
    ids = [news.decide(context(i), key=f"k{i}").id for i in range(20)]
    for i, id in enumerate(ids):
        news.feedback(id, right=bool(i % 2))
    for i, id in enumerate(ids):
        assert news.feedback(id, right=bool(i % 2)).state == "learned"
        assert news.decide(context(i), key=f"k{i}").id == id
    assert_pure(news)


def test_the_history_is_read_in_parts(home, monkeypatch):
    monkeypatch.setattr(journal_module, "CHUNK", 7)
    place = home(DEFERRED + REVISIONS)
    news = place.start().models["news"]
    ids = [news.decide(context(i)).id for i in range(40)]
    for i in (39, 3, 20, 7):
        news.shown(ids[i])
    for i in (3, 7, 38, 39):
        news.feedback(ids[i], right=True)
    assert_pure(news)
    news.revise(ids[3], right=False)
    assert_pure(news)


def test_the_log_is_copied_now_and_then_and_not_after_every_commit(home, monkeypatch):
    monkeypatch.setattr(journal_module, "CHECKPOINT_COMMITS", 20)
    place = home()
    news = place.start().models["news"]
    statements: list[str] = []
    news.journal._connection.set_trace_callback(statements.append)
    play(news, 150)
    checkpoints = [text for text in statements if "wal_checkpoint" in text]
    assert 1 <= len(checkpoints) < 30
    assert Path(f"{place.journal}-wal").stat().st_size < 400_000
    assert_pure(news)


def test_what_the_journal_says_of_itself(home):
    place = home()
    news = place.start().models["news"]
    tally = news.journal.tally
    release = hold_commits(news.journal)
    pending = news.submit_decide(context(0))
    wait_until_writing(news.journal)
    waiting = [news.submit_decide(context(i)) for i in (1, 2)]
    assert tally.waiting == 2
    release()
    for each in (pending, *waiting):
        each.wait()
    assert tally.waiting == 0
    assert tally.bytes == sum(
        os.stat(f"{place.journal}{suffix}").st_size for suffix in ("", "-wal")
    )


# Several threads at once.


@pytest.mark.parametrize("fails", [False, True])
def test_threads_while_learners_are_built_and_commits_fail(home, monkeypatch, fails):
    """What was acknowledged is there; the learner is that of the journal."""
    monkeypatch.setattr(rebuilding, "AT_ONCE", 20)
    monkeypatch.setattr(service_module, "RETRY", (0.01,))
    place = home(REVISIONS)
    service = place.start(snapshot_every=30)
    news, journal = service.models["news"], service.journal
    commit, until = journal._commit, time.monotonic() + 2
    promised: dict[str, set[str]] = {}

    def goes_on() -> bool:
        """For two seconds, and until all that is tested has happened."""
        is_enough = len(promised) > 20 and (service.tally.failures > 0 or not fails)
        return time.monotonic() < until or not is_enough

    random = Random(1)

    def failing(group) -> None:
        is_failing, is_written = random.random() < 0.03, random.random() < 0.5
        if not is_failing or is_written:
            commit(group)
        if is_failing:
            error = sqlite3.OperationalError("no room, says the test")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error

    journal._commit = failing if fails else commit

    def work(seed: int) -> None:
        random = Random(seed)
        while goes_on():
            try:
                id = news.decide(context(random.randrange(100))).id
                promised[id] = {"open"}
                for right in random.sample([True, False], random.randrange(3)):
                    promised[id].add(str(right))
                    news.feedback(id, right=right)
                    promised[id] = {str(right)}
                if random.random() < 0.1:
                    promised[id].add("cancelled")
                    news.cancel(id)
                    promised[id] = {"cancelled"}
            except Unavailable:
                time.sleep(0.005)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    while goes_on():
        service.tick()
        time.sleep(0.05)
    for thread in threads:
        thread.join()
    journal._commit = commit
    while service.unready():
        time.sleep(0.01)
    assert (service.tally.failures > 0) == fails and len(promised) > 20
    assert_pure(news)
    before = bytes_of(news)
    news = place.restart().models["news"]
    assert bytes_of(news) == before
    for id, states in promised.items():
        record = news.look(id)
        is_learned = record.state == "learned"
        assert (str(record.feedback[-1].right) if is_learned else record.state) in states


# Helpers that hold the disk.


def hold_commits(journal):
    """Commits wait until `release(n)` lets n of them pass, or `release()` all."""
    gate = threading.Semaphore(0)
    commit = journal._commit

    def held(group):
        gate.acquire()
        commit(group)

    journal._commit = held

    def release(count: int = 10_000) -> None:
        gate.release(count)

    return release


def wait_until_writing(journal) -> None:
    while not journal._writing or journal._group.size:
        pass


def test_labels_that_nobody_could_read_are_refused_and_earlier_ones_are_kept(home, monkeypatch):
    home = home()
    service = home.start()
    news = service.models["news"]
    for label, said in (("", "blank"), ("a\nb", "line break"), ("x" * 201, "201 characters")):
        with pytest.raises(Refused, match=said) as refused:
            news.submit_labels(LabelChange(add=["fine", label]))
        assert refused.value.where == "$.add[1]"
    assert news.learner.labels == list(LABELS)
    with monkeypatch.context() as earlier:
        earlier.setattr("onebit.service.engine.changing.check_texts", lambda names: None)
        news.submit_labels(LabelChange(add=["a\nb"])).wait()
    play(news, 10)
    assert_pure(news)
    assert home.restart().models["news"].learner.labels == [*LABELS, "a\nb"]
    for path in home.snapshots:
        path.unlink()
    again = home.restart().models["news"]
    assert again.learner.labels == [*LABELS, "a\nb"]
    assert_pure(again)
