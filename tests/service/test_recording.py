"""What another system said: recorded, learned, refused, built again."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import numpy as np
import pytest
from running import LABELS, Home, assert_pure, context, named

import onebit as ob
from onebit import testing
from onebit.service.faults import Busy, Contradiction, Expired, KeyReused, Refused, ServiceError
from onebit.service.messages import Logged, Retraining, SourceChange, Standing
from onebit.service.upkeep.export import export

REVISIONS = "revisions = true"


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


def logged(i: int, **given) -> Logged:
    """The i-th thing that another system said: the right label in two of three."""
    said = given.pop("said", LABELS[(i + i // 3 % 2) % 3])
    if not {"right", "label"} & given.keys():
        given["right"] = said == LABELS[i % 3]
    given.setdefault("propensity", 0.5)
    if "context" not in given:
        given["context"] = context(i)
    return Logged(said=said, **{k: v for k, v in given.items() if v is not None})


def silent(i: int, **given) -> Logged:
    return logged(i, right=msgspec.UNSET, **given)


def bytes_of(engine) -> bytes:
    return testing.state_bytes(engine.learner)


@pytest.mark.parametrize("learner", ["Banditron", "OneBit", "Confidit", "UCWL"])
def test_it_is_learned_as_by_learn_logged_and_built_again(home, learner):
    place = home(f'learner = "{learner}"\n{REVISIONS}')
    news = place.start(snapshot_every=10).models["news"]
    twin = getattr(ob, learner)(list(LABELS), seed=0, vocabulary=news.names[1])
    for i in range(24):
        assert news.logged(logged(i)).state == "learned"
        x = context(i)
        pairs = [int(p[0]) for p in x], [p[1] for p in x]
        said = LABELS[(i + i // 3 % 2) % 3]
        twin.learn_logged(pairs, said, right=said == LABELS[i % 3], propensity=0.5)
        if i == 15:
            news.tick()
    assert bytes_of(news) == testing.state_bytes(twin)
    assert_pure(news)
    assert place.snapshots
    before = bytes_of(news)
    assert bytes_of(place.restart().models["news"]) == before
    for snapshot in place.snapshots:
        snapshot.unlink()
    assert bytes_of(place.restart().models["news"]) == before


def test_own_decisions_and_those_of_others_together(home):
    place = home(f'learner = "OneBit"\n{REVISIONS}')
    news = place.start().models["news"]
    ids = []
    for i in range(20):
        if i % 2:
            told = news.decide(context(i))
            ids.append(told.id)
            news.feedback(told.id, label=LABELS[i % 3])
        else:
            ids.append(news.logged(logged(i, source="anna", speaker="rules")).id)
    card = news.card()
    assert (card.rounds, card.answers, card.logged) == (10, 10, 10)
    assert card.logged_error_share == pytest.approx(0.3)
    assert card.sources["anna"].answers == 10
    assert_pure(news)
    news.revise(ids[2], right=True)
    news.revoke(ids[4])
    news.cancel(ids[6])
    news.erase(ids[8])
    news.submit_source("anna", SourceChange(weight=0.5))
    assert_pure(news)
    again = place.restart().models["news"]
    assert [again.look(ids[i]).state for i in (2, 4, 6, 8)] == [
        "learned", "open", "cancelled", "erased",
    ]  # fmt: skip
    later = again.card()
    assert (later.rounds, later.answers, later.logged) == (10, 10, 8)
    assert_pure(again)


def test_what_is_kept_of_it(home):
    news = home().start().models["news"]
    shares = {"sport": 0.7, "tech": 0.3}
    given = {"propensities": shares, "propensity": None, "among": ["tech", "sport"]}
    id = news.logged(logged(0, said="sport", time=12.5, speaker="rules", **given)).id
    record = news.look(id)
    assert (record.label, record.propensity, record.propensities) == ("sport", 0.7, shares)
    assert (record.speaker, record.said_at, record.time) == ("rules", 12.5, 1e6)
    assert record.feedback[0].right is True
    told = news.decide(context(0))
    assert news.look(told.id).speaker is None


def test_propensities_that_are_not_known(home):
    place = home('learner = "OneBit"')
    news = place.start().models["news"]
    unknown = news.look(news.logged(logged(0, right=False, propensity=None)).id)
    assert (unknown.propensity, unknown.propensities) == (None, {})
    partly = news.look(news.logged(logged(1, propensity=0.25)).id)
    assert (partly.propensity, partly.propensities) == (0.25, {})
    certain = news.look(news.logged(logged(2, said="tech", propensity=1.0)).id)
    assert certain.propensities == {"sport": 0.0, "politics": 0.0, "tech": 1.0}
    assert_pure(news)
    place.stop()
    log = ob.journal_log(place.journal)
    block = next(iter(log.blocks(log.labels)))
    assert np.isnan(block.propensity[0]) and list(block.propensity[1:]) == [0.25, 1.0]
    assert ob.compare(log, "tech").sums.unknown == 1


def test_learners_that_weight_by_propensities_need_them(home):
    place = home(f'learner = "Banditron"\n{REVISIONS}')
    news = place.start().models["news"]
    before = bytes_of(news)
    with pytest.raises(Refused, match=r"Banditron weights answers by 1 / propensity") as refused:
        news.logged(logged(0, propensity=None))
    assert refused.value.where == "$.propensity"
    with pytest.raises(Refused, match="1 / propensity"):
        news.logged(silent(0, propensity=None))
    assert bytes_of(news) == before
    news.logged(logged(0))
    assert_pure(news)


def test_a_learner_that_is_built_later_leaves_out_what_it_cannot_weight(home):
    news = home(f'learner = "OneBit"\n{REVISIONS}').start().models["news"]
    for i in range(6):
        news.logged(logged(i, propensity=0.5 if i % 2 else None))
    waiting = news.logged(silent(6, propensity=None)).id
    news.submit_retrain(Retraining(learner="Banditron", settings={}))
    news.settle()
    twin = ob.Banditron(list(LABELS), seed=0, vocabulary=news.names[1])
    for i in range(6):
        x = context(i)
        if i % 2:
            said = LABELS[(i + i // 3 % 2) % 3]
            pairs = [int(p[0]) for p in x], [p[1] for p in x]
            twin.learn_logged(pairs, said, right=said == LABELS[i % 3], propensity=0.5)
        else:
            twin.round += 1
    assert bytes_of(news) == testing.state_bytes(twin)
    assert news.feedback(waiting, right=True).state == "learned"
    assert_pure(news)


def test_feedback_may_come_later(home):
    place = home(f'learner = "OneBit"\nexpires_after = "100s"\n{REVISIONS}')
    news = place.start().models["news"]
    first, second, third = (news.logged(silent(i)).id for i in range(3))
    assert news.look(first).state == "open" and news.card().open == 3
    news.feedback(first, right=True)
    news.feedback(second, label="sport")
    with pytest.raises(Refused, match="'none' is not a label"):
        news.feedback(third, label="none")
    assert_pure(news)
    place.clock.now += 101
    with pytest.raises(Expired):
        news.feedback(third, right=True)
    assert news.look(third).state == "expired"


def test_silence_is_read_as_wrong(home):
    place = home('learner = "OneBit"\nsilence = { wrong_after = "10s" }')
    service = place.start()
    news = service.models["news"]
    id = news.logged(silent(0)).id
    place.clock.now += 11
    service.tick()
    assert news.look(id).feedback[0].right is False
    assert_pure(news)


def test_the_same_key_is_recorded_once(home):
    place = home('learner = "OneBit"')
    news = place.start().models["news"]
    first = news.logged(logged(0, key="k", said="sport"))
    before = bytes_of(news)
    assert news.logged(logged(0, key="k", said="sport")) == first
    assert news.logged(silent(0, key="k", said="sport")) == first
    assert bytes_of(news) == before and news.card().logged == 1
    with pytest.raises(KeyReused):
        news.logged(logged(1, key="k", said="sport"))
    with pytest.raises(KeyReused):
        news.logged(logged(0, key="k", said="tech"))
    with pytest.raises(KeyReused, match="another system"):
        news.decide(context(0), key="k")
    with pytest.raises(Contradiction):
        news.logged(logged(0, key="k", said="sport", right=False))
    own = news.decide(context(0), key="own")
    with pytest.raises(KeyReused):
        news.logged(logged(0, key="own", said=own.label))
    news = place.restart().models["news"]
    assert news.logged(logged(0, key="k", said="sport")) == first
    waiting = news.logged(silent(4, key="w"))
    assert waiting.state == "open"
    answered = news.logged(logged(4, key="w"))
    assert (answered.id, answered.state) == (waiting.id, "learned")
    assert_pure(news)


REFUSED = [
    ({"said": "weather"}, "$.said", "is not a label"),
    ({"among": ["sport", "weather"]}, "$.among[1]", "is not a label"),
    ({"said": "tech", "among": ["sport"]}, "$.among", "is not among"),
    ({"label": "weather"}, "$.label", "is not a label"),
    ({"propensities": {"weather": 1.0}}, "$.propensities", "not a possible label"),
    ({"propensities": {"sport": 0.5, "tech": 0.3}}, "$.propensities", "sum to 0.8"),
    ({"said": "tech", "propensities": {"sport": 1.0}}, "$.propensities", "probability 0"),
    ({"said": "tech", "propensities": {"tech": 1.0}}, "$.propensity", "1 among propensities"),
    ({"source": "silence"}, "$.source", "nobody gave"),
    ({"context": {"a": float("inf")}}, "$.context", "leave it out"),
]


@pytest.mark.parametrize(("given", "where", "why"), REFUSED)
def test_what_is_refused_leaves_no_trace(home, given, where, why):
    place = home('learner = "OneBit"\nsettings = { inputs = "sparse" }')
    news = place.start().models["news"]
    news.logged(logged(0))
    before, position = bytes_of(news), news.journal.last_change_of_the_past(news.number)
    with pytest.raises(Refused, match=why) as refused:
        news.logged(logged(1, **given))
    assert refused.value.where == where
    assert bytes_of(news) == before
    assert news.journal.last_change_of_the_past(news.number) == position
    assert news.card().logged == 1
    assert_pure(news)


def test_many_are_recorded_or_refused_one_by_one(home):
    news = home('learner = "OneBit"').start().models["news"]
    items = [logged(0), logged(1, said="none", right=False), logged(2, key="k"), logged(2, key="k")]
    found = news.logged_many([*items, silent(3)])
    assert [type(one_of).__name__ for one_of in found] == [
        "Standing", "Refused", "Standing", "Standing", "Standing",
    ]  # fmt: skip
    assert found[2] == found[3] and news.card().logged == 3
    assert_pure(news)


def test_too_many_that_wait(home):
    news = home('learner = "OneBit"', "[service.limits]\nopen_decisions = 2").start().models["news"]
    for i in range(2):
        news.logged(silent(i))
    with pytest.raises(Busy):
        news.logged(silent(2))


def test_named_contexts_share_the_vocabulary(home):
    place = home('learner = "OneBit"\nvocabulary = 12')
    news = place.start().models["news"]
    for i in range(12):
        news.logged(logged(i, context=named(i)))
    assert news.names == (12, 12)
    assert_pure(news)
    before = bytes_of(news)
    assert bytes_of(place.restart().models["news"]) == before


def test_they_are_compacted_like_others(home):
    place = home('learner = "OneBit"', 'retention = "100s"')
    service = place.start()
    news = service.models["news"]
    for i in range(10):
        news.logged(logged(i))
    before = bytes_of(news)
    place.clock.now += 200
    news.decide(context(0))
    service.tick()
    with service.journal.reading() as connection:
        assert connection.execute("SELECT count(*) FROM decisions").fetchone() == (1,)
    assert news.card().logged == 0
    news = place.restart().models["news"]
    assert news.learner.round == 11
    del before
    assert_pure(news)


def test_an_export_says_who_spoke(home, tmp_path):
    polars = pytest.importorskip("polars")
    place = home('learner = "OneBit"')
    news = place.start().models["news"]
    news.logged(logged(0, speaker="rules", propensity=None))
    news.decide(context(1))
    place.stop()
    export(place.journal, tmp_path / "x.parquet")
    rows = polars.read_parquet(tmp_path / "x.parquet").to_dicts()
    assert [row["speaker"] for row in rows] == ["rules", None]
    assert rows[0]["propensity"] is None and rows[0]["propensities"] is None
    assert rows[1]["propensity"] == 1.0


def test_a_crash_loses_nothing_that_was_acknowledged(home, tmp_path):
    place = home('learner = "OneBit"')
    news = place.start().models["news"]
    kept = [news.logged(logged(i, key=f"k{i}")) for i in range(8)]
    other = place.crashed(tmp_path / "other")
    again = other.start().models["news"]
    assert [again.look(each.id).state for each in kept] == ["learned"] * 8
    assert bytes_of(again) == bytes_of(news)
    assert [again.logged(logged(i, key=f"k{i}")) for i in range(8)] == kept
    other.stop()


def test_a_disk_that_is_full(home):
    place = home('learner = "OneBit"')
    service = place.start()
    news = service.models["news"]
    news.logged(logged(0, key="a"))
    journal = service.journal
    commit = journal._commit
    service.journal.on_failure = lambda error: None

    def failing(group):
        raise OSError("no space left on device")

    journal._commit = failing
    with suppress(ServiceError):
        news.logged(logged(1, key="b"))
    journal._commit = commit
    service.recover()
    assert news.card().logged == 1
    assert isinstance(news.logged(logged(1, key="b")), Standing)
    assert news.card().logged == 2
    assert_pure(news)
