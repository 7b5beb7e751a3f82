"""Who speaks: promotion by hand and by rule, undone, exact after a restart and a crash."""

from __future__ import annotations

import sqlite3

import pytest
from helpers.waiting import wait_for
from running import LABELS, Home, context
from test_shadows import FAST, REVISIONS, TWO, assert_pure_shadows, bytes_of, shadow_of, teach

from onebit import testing
from onebit.service.configuration import check
from onebit.service.engine.comparing import Comparison
from onebit.service.faults import Contradiction, Unavailable
from onebit.service.messages import Logged, Promotion, Retraining

APPRENTICE = 'learner = "OneBit"\napprentice = true\n'


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


def promote(news, name):
    return news.submit_promote(Promotion(shadow=name)).wait()


def undo(news):
    return news.submit_promote(Promotion(undo=True)).wait()


def changes(service) -> list[str]:
    with service.journal.reading() as connection:
        rows = connection.execute("SELECT body FROM changes WHERE kind = 'promote'").fetchall()
    return [body for (body,) in rows]


def state_of(news) -> dict[str, bytes]:
    """The learner and all shadows, with their sums."""
    news.settle()
    news.shadows.settle()
    kept = {name: bytes_of(shadow) for name, shadow in news.shadows._shadows.items()}
    return {"speaks": testing.state_bytes(news.learner), **kept}


def assert_same_everywhere(place, news, tmp_path) -> None:
    """After a crash now, and after a crash without any snapshot, everything is the same."""
    before, card = state_of(news), news.card()
    for removes in (False, True):
        other = place.crashed(tmp_path / "crashed")
        if removes:
            for snapshot in other.snapshots:
                snapshot.unlink()
        again = other.start().models["news"]
        assert state_of(again) == before
        assert again.card().speaker == card.speaker and again.card().version == card.version
        other.stop()


def test_a_promotion_and_its_end(home, tmp_path):
    place = home(TWO)
    service = place.start(snapshot_every=30)
    news = service.models["news"]
    ids = teach(news, 60)
    assert news.card().speaker == "news"
    waiting = news.decide(context(3)).id
    card = promote(news, "sure")
    assert (card.speaker, card.learner) == ("sure", "Confidit")
    assert set(card.shadows) == {"news", "plain"}
    assert all(shadow.rounds == 0 for shadow in card.shadows.values())
    assert_same_everywhere(place, news, tmp_path)
    news.feedback(waiting, right=True)  # of a decision of the former speaker
    teach(news, 60, 60)
    assert_pure_shadows(news)
    assert news.card().shadows["news"].rounds == 48
    assert_same_everywhere(place, news, tmp_path)
    news.revise(ids[0], label="tech")
    assert_pure_shadows(news)
    news = place.restart().models["news"]
    card = undo(news)
    assert (card.speaker, card.learner) == ("news", "Banditron")
    assert set(card.shadows) == {"sure", "plain"}
    teach(news, 30, 120)
    assert_pure_shadows(news)
    assert_same_everywhere(place, news, tmp_path)
    assert undo(news).speaker == "sure"
    assert undo(news).speaker == "news"
    said = changes(place.open[0])
    assert len(said) == 4 and '"by":"hand"' in said[0] and '"by":"undo"' in said[1]
    assert_pure_shadows(news)


def test_the_former_speaker_goes_on_as_it_was(home):
    """Its own decisions stay its own: undone, it is the learner that it would have been."""
    place = home(TWO)
    news = place.start().models["news"]
    teach(news, 40)
    before = testing.state_bytes(news.learner)
    promote(news, "sure")
    assert testing.state_bytes(shadow_of(news, "news").learner) == before
    undo(news)
    assert testing.state_bytes(news.learner) == before
    assert_pure_shadows(news)


def test_propensities_in_the_journal_are_those_of_the_one_who_spoke(home):
    news = home(TWO).start().models["news"]
    teach(news, 30)
    for name in ("plain", "sure", "news"):
        promote(news, name)
        x = context(7)
        shares = news.learner.propensities(([int(i) for i, _ in x], [value for _, value in x]))
        told = news.decide(x)
        assert [*told.propensities.values()] == pytest.approx(shares.tolist())
        assert told.propensity == told.propensities[told.label]
        assert news.look(told.id).propensities == told.propensities
        assert sum(told.propensities.values()) == pytest.approx(1)


def test_retraining_and_files_after_a_promotion(home):
    place = home(TWO)
    service = place.start()
    news = service.models["news"]
    teach(news, 40)
    promote(news, "sure")
    news.submit_retrain(Retraining(settings={"eta": 0.9}))
    news.settle()
    assert (news.card().speaker, news.card().settings) == ("sure", {"eta": 0.9})
    assert_pure_shadows(news)
    # The table of the model is that of a shadow now, and the speaker's is that of `sure`.
    place.write(TWO.replace("gamma = 0.5", "gamma = 0.6"))
    service.reload(check(place.config))
    assert news.card().settings == {"eta": 0.9}
    assert news.card().shadows["news"].settings == {"gamma": 0.6}
    place.write(TWO.replace('"Confidit"', '"Confidit"\nsettings = { eta = 0.7 }'))
    service.reload(check(place.config))
    news.settle()
    assert news.card().settings == {"eta": 0.7}
    assert news.card().shadows["news"].settings == {"gamma": 0.5}
    teach(news, 30, 40)
    assert_pure_shadows(news)
    before = state_of(news)
    assert state_of(place.restart().models["news"]) == before
    news = place.open[0].models["news"]
    undo(news)
    assert (news.card().speaker, news.card().settings) == ("news", {"gamma": 0.5})
    assert_pure_shadows(news)


def test_a_speaker_that_the_file_names_no_more_goes_on(home):
    place = home(TWO)
    service = place.start()
    news = service.models["news"]
    teach(news, 20)
    promote(news, "sure")
    place.write(FAST + REVISIONS)
    service.reload(check(place.config))
    assert news.card().speaker == "sure" and set(news.card().shadows) == {"news"}
    news = place.restart().models["news"]
    assert news.card().speaker == "sure"
    assert undo(news).speaker == "news"


def test_a_rule_promotes_who_is_better(home, monkeypatch):
    text = TWO.replace('learner = "Confidit"', 'learner = "Confidit"\npromote = "when better"')
    place = home(text)
    news = place.start().models["news"]
    teach(news, 10)
    assert news.card().shadows["sure"].promote == "when better"
    assert news.card().speaker == "news"
    evaluation = Comparison.evaluation

    def proven(self):
        """As if the bracket had shown it."""
        found = evaluation(self)
        sums = found.sums._replace(unanswered=0)
        object.__setattr__(found, "sums", sums)
        object.__setattr__(found, "_interval", lambda _: (0.01, 0.5))
        return found

    monkeypatch.setattr(Comparison, "evaluation", proven)
    teach(news, 70, 10)
    wait_for(lambda: news.card().speaker == "sure")
    monkeypatch.undo()
    assert '"by":"rule"' in changes(place.open[0])[0] and '"low":0.01' in changes(place.open[0])[0]
    assert_pure_shadows(news)


# Another system.


def log(news, rounds, first=0, **given):
    """An old system that is right in a third of the rounds, by chance."""
    for i in range(first, first + rounds):
        said = LABELS[(i // 3) % 3]
        news.logged(
            Logged(
                context=context(i), said=said, right=said == LABELS[i % 3],
                propensities=dict.fromkeys(LABELS, 1 / 3), speaker="old", **given,
            )
        )  # fmt: skip


def test_an_apprentice(home, tmp_path):
    place = home(f'{APPRENTICE}[models.news.shadows.sure]\nlearner = "Confidit"\n')
    service = place.start(snapshot_every=40)
    news = service.models["news"]
    with pytest.raises(Contradiction, match="another system speaks for news"):
        news.decide(context(0))
    log(news, 70)
    assert_pure_shadows(news)
    card = news.card()
    assert card.speaker is None and card.logged == 70 and card.rounds == 0
    assert {name: shadow.rounds for name, shadow in card.shadows.items()} == {
        "news": 70, "sure": 70,
    }  # fmt: skip
    assert_same_everywhere(place, news, tmp_path)
    assert card.shadows["news"].difference is not None
    card = promote(news, "news")
    assert card.speaker == "news" and set(card.shadows) == {"sure"}
    teach(news, 20)
    assert_pure_shadows(news)
    assert news.card().shadows["sure"].rounds == 16
    assert_same_everywhere(place, news, tmp_path)
    assert undo(news).speaker is None
    with pytest.raises(Contradiction):
        news.decide(context(0))
    log(news, 20, 70)
    assert news.card().shadows["news"].behind >= 0
    assert_pure_shadows(news)
    assert {x.rounds for x in news.card().shadows.values()} == {20}
    assert_same_everywhere(place, news, tmp_path)
    news = place.restart().models["news"]
    card = promote(news, "sure")
    assert (card.speaker, card.learner) == ("sure", "Confidit")
    news.decide(context(1))
    assert_pure_shadows(news)
    assert_same_everywhere(place, news, tmp_path)
    undo(news)
    assert set(news.card().shadows) == {"sure", "news"}
    assert_pure_shadows(news)
    assert_same_everywhere(place, news, tmp_path)


def test_an_apprentice_whose_learner_changes(home):
    place = home(APPRENTICE)
    service = place.start()
    news = service.models["news"]
    log(news, 30)
    news.submit_retrain(Retraining(learner="Confidit"))
    news.settle()
    assert_pure_shadows(news)
    assert news.card().shadows["news"].learner == "Confidit"
    place.write(APPRENTICE.replace("OneBit", "UCWL"))
    service.reload(check(place.config))
    news.settle()
    assert_pure_shadows(news)
    assert news.card().shadows["news"].learner == news.card().learner == "UCWL"
    place.write('learner = "UCWL"\n')
    service.reload(check(place.config))
    assert news.card().speaker == "news"
    news.decide(context(0))


def test_an_apprentice_is_promoted_by_rule(home):
    """The old system is right by chance; a learner of words that name the label is right soon."""
    place = home(f'{APPRENTICE}promote = "when better"\n')
    news = place.start().models["news"]
    for i in range(900):
        if news.card().speaker == "news":
            break
        said = LABELS[(i // 3) % 3]
        news.logged(
            Logged(
                context={LABELS[i % 3]: 1.0}, said=said, right=said == LABELS[i % 3],
                propensities=dict.fromkeys(LABELS, 1 / 3),
            )
        )  # fmt: skip
        if i % 64 == 0:
            news.shadows.settle()
    wait_for(lambda: news.card().speaker == "news")
    assert news.decide({"tech": 1.0}).label == "tech"
    (said,) = changes(place.open[0])
    assert '"by":"rule"' in said and '"from":""' in said
    news = place.restart().models["news"]
    assert news.card().speaker == "news"


# Failures.


@pytest.mark.parametrize("is_written", [False, True])
def test_a_promotion_while_the_disk_fails(home, is_written):
    place = home(TWO)
    service = place.start()
    news = service.models["news"]
    teach(news, 20)
    news.shadows.settle()
    journal = service.journal
    journal.on_failure = lambda error: None
    commit = journal._commit

    def failing(group):
        if is_written:
            commit(group)
        error = sqlite3.OperationalError("disk I/O")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise error

    journal._commit = failing
    with pytest.raises(Unavailable):
        promote(news, "sure")
    journal._commit = commit
    service.recover()
    assert news.card().speaker == ("sure" if is_written else "news")
    teach(news, 20, 20)
    assert_pure_shadows(news)
    assert len(news.card().shadows) == 2
    before = state_of(news)
    assert state_of(place.restart().models["news"]) == before


def test_a_repaired_journal_knows_who_speaks(home):
    from onebit.service.journal.repair import repair

    place = home(TWO)
    news = place.start().models["news"]
    teach(news, 30)
    promote(news, "sure")
    teach(news, 10, 30)
    before = state_of(news)
    place.stop()
    repair(place.journal)
    assert state_of(place.start().models["news"]) == before
