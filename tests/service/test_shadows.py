"""Shadows: taught by the same answers, never speaking, a function of the journal."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.waiting import wait_for
from running import LABELS, Home, assert_pure, context, named, play

import onebit as ob
from onebit import testing
from onebit.cli.journals import replay
from onebit.learner import files
from onebit.service.configuration import ConfigurationError, check
from onebit.service.engine import shadow as shadow_module
from onebit.service.engine import shadows as shadows_module
from onebit.service.faults import Contradiction
from onebit.service.messages import LabelChange, Logged, Promotion, Retraining, SourceChange

REVISIONS = "revisions = true\n"
FAST = 'learner = "Banditron"\nsettings = { gamma = 0.5 }\n'
TWO = f"""{FAST}{REVISIONS}
[models.news.shadows.sure]
learner = "Confidit"
[models.news.shadows.plain]
learner = "Banditron"
settings = {{ gamma = 0.2 }}
seed = 3
"""


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


def shadow_of(engine, name):
    engine.shadows.settle()
    return engine.shadows._shadows[name]


def bytes_of(shadow) -> bytes:
    return files.pack(*shadow.dumped())


def assert_pure_shadows(engine) -> None:
    """Each shadow, with its sums, is what the journal makes of it; and the learner is."""
    assert_pure(engine)
    engine.shadows.settle()
    assert engine.card().shadows
    for name, shadow in engine.shadows._shadows.items():
        assert not shadow.problem
        again = engine.shadows.replayed(name)
        assert bytes_of(shadow) == bytes_of(again), name
        alone, _ = shadow.builder.replayed(*shadow.builder.beginning(), shadow.reached)
        assert testing.state_bytes(shadow.learner) == testing.state_bytes(alone), name


def teach(engine, rounds, first=0, given=context):
    ids = []
    for i in range(first, first + rounds):
        told = engine.decide(given(i))
        if i % 5 != 4:
            engine.feedback(told.id, right=told.label == LABELS[i % 3])
        ids.append(told.id)
    return ids


# The law.


@pytest.mark.parametrize("learner", ["Banditron", "OneBit", "Confidit", "UCWL", "LinUCB"])
def test_a_shadow_is_a_function_of_the_journal(home, learner):
    if not hasattr(ob, learner):
        pytest.skip(f"no {learner}")
    text = f'{FAST}{REVISIONS}[models.news.shadows.other]\nlearner = "{learner}"\n'
    place = home(text)
    news = place.start(snapshot_every=40).models["news"]
    teach(news, 60 if learner == "OneBit" else 150)
    assert_pure_shadows(news)
    before = bytes_of(shadow_of(news, "other"))
    news = place.restart().models["news"]
    assert bytes_of(shadow_of(news, "other")) == before
    teach(news, 20, 150)
    assert_pure_shadows(news)
    before = bytes_of(shadow_of(news, "other"))
    place.stop()
    for snapshot in place.snapshots:
        snapshot.unlink()
    news = place.start().models["news"]
    assert bytes_of(shadow_of(news, "other")) == before
    assert_pure_shadows(news)


FORMS = {
    "pairs": context,
    "named": named,
    "text": lambda i: " ".join(named(i)),
    "dense": lambda i: [float(i % 3), 1.0, i % 7 / 7, None if i % 4 == 0 else 0.5],
    "mixed": lambda i: named(i) if i % 3 else " ".join(named(i)),
}


@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize("learner", ["OneBit", "Confidit"])
def test_contexts_of_any_form(home, learner, form):
    given = FORMS[form]
    text = (
        f'learner = "OneBit"\n[models.news.shadows.other]\nlearner = "{learner}"\nvocabulary = 30\n'
    )
    if form == "dense":
        text = text.replace("vocabulary = 30\n", "")
        if learner == "Confidit":  # a missing number
            text += 'settings = { inputs = "auto" }\n'
    place = home(text)
    news = place.start().models["news"]
    teach(news, 70, given=given)
    assert_pure_shadows(news)
    place.stop()
    for snapshot in place.snapshots:
        snapshot.unlink()
    assert_pure_shadows(place.start().models["news"])


def test_pieces_make_no_difference(home, monkeypatch):
    place = home(TWO)
    news = place.start().models["news"]
    teach(news, 150)
    before = {name: bytes_of(shadow_of(news, name)) for name in ("sure", "plain")}
    place.stop()
    for snapshot in place.snapshots:
        snapshot.unlink()
    monkeypatch.setattr(shadows_module, "SPAN", 7)
    monkeypatch.setattr(shadow_module, "BLOCK", 3)
    news = place.start().models["news"]
    assert before == {name: bytes_of(shadow_of(news, name)) for name in before}


def test_changes_of_the_past(home):
    place = home(TWO)
    news = place.start(snapshot_every=30).models["news"]
    ids = teach(news, 40)
    told = news.decide(context(40))
    news.feedback(told.id, label="tech", source="anna")
    news.shadows.settle()
    news.revise(ids[0], label="politics")
    assert_pure_shadows(news)
    news.revoke(ids[1])
    news.cancel(ids[2])
    news.cancel(ids[4])
    news.erase(ids[3])
    assert_pure_shadows(news)
    news.submit_source("anna", SourceChange(quarantined=True))
    assert_pure_shadows(news)
    before = bytes_of(shadow_of(news, "sure"))
    assert bytes_of(shadow_of(place.restart().models["news"], "sure")) == before


def test_new_labels(home):
    place = home(TWO)
    news = place.start().models["news"]
    teach(news, 70)
    news.submit_labels(LabelChange(add=["weather"], retire=["sport"])).future.result()
    teach(news, 70, 70)
    told = news.decide(context(3))
    news.feedback(told.id, label="weather")
    assert_pure_shadows(news)
    assert shadow_of(news, "sure").comparison.question.labels == 4
    before = bytes_of(shadow_of(news, "sure"))
    assert bytes_of(shadow_of(place.restart().models["news"], "sure")) == before


def test_the_speaker_is_as_without_shadows(home):
    ids = []
    for folder, text in (("with", TWO), ("without", FAST + REVISIONS)):
        news = home(text, folder=folder).start().models["news"]
        teach(news, 60)
        news.shadows.settle()
        ids.append(testing.state_bytes(news.learner))
    assert ids[0] == ids[1]


# The comparison.


def test_the_numbers_are_those_of_compare(home):
    """The bracket depends on no forecasts, so it is the same; the estimate is nearly."""
    place = home(TWO)
    news = place.start().models["news"]
    for i in range(200):
        told = news.decide(context(i))
        news.feedback(told.id, right=told.label == LABELS[i % 3])
    news.shadows.settle()
    card = news.card().shadows["sure"]
    place.stop()
    log = ob.journal_log(place.journal)
    found = ob.compare(log, ob.Confidit(list(LABELS)), learns=True)
    assert card.rounds == found.rounds == 200
    assert (card.bracket.low, card.bracket.high) == pytest.approx(found.bracket)
    assert card.difference == pytest.approx(found.estimate, abs=0.1)
    assert card.interval.low < card.difference < card.interval.high
    assert card.speaker_right == found.sums.right / 200
    assert [point.rounds for point in card.curve] == [64, 128, 192]


def test_a_speaker_that_is_certain_leaves_a_bracket(home):
    text = 'learner = "OneBit"\n[models.news.shadows.sure]\nlearner = "Confidit"\n'
    news = home(text).start().models["news"]
    teach(news, 80)
    news.shadows.settle()
    card = news.card().shadows["sure"]
    assert card.difference is None and "never said" in card.notes[0]
    assert -1 <= card.interval.low <= card.bracket.low <= card.bracket.high <= card.interval.high


def test_a_speaker_that_explores_gets_an_estimate(home):
    text = 'learner = "OneBit"\nsettings = { explore = 0.2 }\n'
    place = home(f'{text}[models.news.shadows.sure]\nlearner = "Confidit"\n')
    news = place.start().models["news"]
    teach(news, 100)
    assert_pure_shadows(news)
    card = news.card().shadows["sure"]
    assert card.difference is not None
    assert not any("never said" in note for note in card.notes)
    place.stop()
    rows = [row for block in ob.journal_log(place.journal).blocks(list(LABELS)) for row in
            block.propensities]  # fmt: skip
    assert min(map(min, rows)) > 0


@pytest.mark.parametrize("exclusive", ["true", "false", '"at most one"'])
def test_kinds_of_worlds(home, exclusive):
    text = TWO.replace(REVISIONS, f"{REVISIONS}exclusive = {exclusive}\n")
    place = home(text)
    news = place.start().models["news"]
    teach(news, 70)
    assert_pure_shadows(news)
    before = bytes_of(shadow_of(news, "sure"))
    assert bytes_of(shadow_of(place.restart().models["news"], "sure")) == before
    world = shadow_of(news, "sure").comparison.question.world
    assert world == {"true": "exclusive", "false": "independent"}.get(exclusive, "at most one")


def test_a_curve_stays_small(home, monkeypatch):
    from onebit.service.engine import comparing

    monkeypatch.setattr(comparing, "PIECE", 2)
    monkeypatch.setattr(comparing, "POINTS", 4)
    news = home(TWO).start().models["news"]
    teach(news, 60)
    points = shadow_of(news, "sure").comparison.points
    assert points[:, 0].tolist() == [16, 32, 48]


def test_the_comparison_begins_anew_with_another_speaker(home):
    place = home(TWO)
    news = place.start().models["news"]
    teach(news, 40)
    assert news.shadows.settle() or news.card().shadows["sure"].rounds == 32
    news.submit_retrain(Retraining(settings={"gamma": 0.4}))
    news.settle()
    news.shadows.settle()
    assert news.card().shadows["sure"].rounds == 0
    teach(news, 40, 40)
    assert_pure_shadows(news)
    assert news.card().shadows["sure"].rounds == 32
    again = place.restart().models["news"]
    assert bytes_of(shadow_of(again, "sure")) == bytes_of(shadow_of(news, "sure"))
    assert again.card().version == news.card().version


# Down alone.


def test_a_shadow_that_fails_is_down_alone(home, monkeypatch):
    place = home(TWO)
    service = place.start()
    news = service.models["news"]
    teach(news, 20)
    news.shadows.settle()
    learn_block = shadow_module.learn_block

    def failing(learner, *args, **options):
        if type(learner).__name__ == "Confidit":
            raise MemoryError("no room for this shadow")
        return learn_block(learner, *args, **options)

    monkeypatch.setattr(shadow_module, "learn_block", failing)
    teach(news, 20, 20)
    news.shadows.settle()
    shadows = news.card().shadows
    assert shadows["sure"].problem == "no room for this shadow"
    assert not shadows["plain"].problem and shadows["plain"].rounds == 32
    with pytest.raises(Contradiction, match="is down: no room"):
        news.submit_promote(Promotion(shadow="sure"))
    assert_pure(news)
    monkeypatch.undo()
    service.reload(check(place.config))
    assert_pure_shadows(news)


def test_a_shadow_leaves_out_what_it_cannot_weight(home):
    text = 'learner = "OneBit"\n[models.news.shadows.plain]\nlearner = "Banditron"\n'
    news = home(text).start().models["news"]
    for i in range(12):
        propensity = 0.5 if i % 2 else None
        said = Logged(context=context(i), said="tech", right=i % 3 == 2, propensity=propensity)
        news.logged(said)
    assert_pure_shadows(news)


def test_a_shadow_that_needs_true_labels(home):
    text = 'learner = "OneBit"\n[models.news.shadows.told]\nlearner = "Perceptron"\n'
    news = home(text).start().models["news"]
    ids = [news.decide(context(i)).id for i in range(10)]
    for i, id in enumerate(ids):
        news.feedback(id, **({"label": LABELS[i % 3]} if i % 2 else {"right": False}))
    assert_pure_shadows(news)
    assert news.card().shadows["told"].rounds == 10
    with pytest.raises(Contradiction, match="must be told the true label"):
        news.submit_promote(Promotion(shadow="told"))


def test_a_full_disk(home):
    place = home(TWO)
    service = place.start()
    news = service.models["news"]
    teach(news, 20)
    journal = service.journal
    journal.on_failure = lambda error: None
    commit = journal._commit

    def failing(group):
        raise OSError("no space left on device")

    journal._commit = failing
    with pytest.raises(Exception, match=r"cannot be written|not written"):
        news.decide(context(0))
    journal._commit = commit
    service.recover()
    teach(news, 10, 20)
    assert_pure_shadows(news)


# The file.


def test_the_file_is_followed(home):
    place = home(TWO)
    service = place.start()
    news = service.models["news"]
    teach(news, 20)
    news.shadows.settle()
    versions = {name: card.version for name, card in news.card().shadows.items()}
    place.write(TWO.replace("gamma = 0.2", "gamma = 0.3") + "[models.news.shadows.new]\n")
    changed = service.reload(check(place.config))
    assert changed.shadows == ["news"] and not changed.retrained
    news.shadows.settle()
    cards = news.card().shadows
    assert cards["sure"].version == versions["sure"]
    assert cards["plain"].version > versions["plain"]
    assert cards["plain"].settings == {"gamma": 0.3} and cards["new"].learner == "OneBit"
    assert_pure_shadows(news)
    place.write(FAST + REVISIONS)
    service.reload(check(place.config))
    assert news.card().shadows == {}
    with service.journal.reading() as connection:
        assert connection.execute("SELECT count(*) FROM configurations").fetchone() == (1,)
    teach(news, 5)
    assert_pure(place.restart().models["news"])


def test_an_earlier_journal_gets_shadows(home):
    place = home(FAST + REVISIONS)
    news = place.start().models["news"]
    teach(news, 40)
    place.stop()
    place.write(TWO)
    news = place.start().models["news"]
    assert_pure_shadows(news)
    assert news.card().shadows["sure"].rounds == 32


WRONG = [
    ('[models.news.shadows.x]\nlearner = "Nobody"', "Nobody"),
    ("[models.news.shadows.x]\nlabels = [1]", "unknown key 'labels'"),
    ("[models.news.shadows.news]", "not that of its model"),
    ('[models.news.shadows."a b"]', "a shadow has a name"),
    ('[models.news.shadows.x]\nlearner = "Banditron"\nsettings = { gama = 1 }', "gama"),
    ('[models.news.shadows.x]\npromote = "soon"', "'by hand' or 'when better'"),
    ('promote = "when better"', "unless apprentice = true"),
    ("exclusive = 3", "exclusive"),
    ("shadows = 3", "must be a table"),
]


@pytest.mark.parametrize(("text", "why"), WRONG)
def test_wrong_tables(home, text, why):
    place = home(text)
    with pytest.raises(ConfigurationError, match=why):
        check(place.config)


def test_retention_and_shadows(home):
    place = home(TWO, 'retention = "10d"')
    with pytest.raises(ConfigurationError, match="retention deletes the rounds"):
        check(place.config)


def test_relabelling_needs_a_model_without_shadows(home):
    news = home(TWO).start().models["news"]
    with pytest.raises(Contradiction, match="has shadows"):
        news.submit_relabel({"sport": "sports"})


# The thread.


def test_shadows_follow_by_themselves(home):
    news = home(TWO).start().models["news"]
    teach(news, 20)
    wait_for(lambda: all(x.rounds == 16 for x in news.card().shadows.values()))
    assert all(x.behind == 0 for x in news.card().shadows.values())


def test_replay_compares_shadows_too(home, capsys):
    place = home(TWO)
    news = place.start(snapshot_every=50).models["news"]
    teach(news, 60)
    news.shadows.settle()
    place.stop()
    for _ in range(2):
        replay(place.journal, model="news")
        said = capsys.readouterr().out
        assert said.count("the same bytes") == 3 and "OTHER" not in said
        assert "The shadow sure, Confidit" in said
        place.restart().models["news"].shadows.settle()
        place.stop()
    found = [(path, *files.read(path)) for path in place.snapshots]
    path, head, arrays = [each for each in found if each[1]["algorithm"] == "Confidit"][-1]
    arrays["comparison.points"] = np.zeros((1, 4))
    files.write(path, head, arrays)
    with pytest.raises(SystemExit):
        replay(place.journal, model="news")
    assert "OTHER BYTES" in capsys.readouterr().out


def test_the_card_takes_no_lock_of_the_shadows(home):
    news = home(TWO).start().models["news"]
    play(news, 5)
    news.shadows.settle()
    with news.shadows.lock:
        assert news.card().shadows["sure"].rounds == 5
        news.decide(context(1))


def test_weights_of_sums_are_finite(home):
    news = home(TWO).start().models["news"]
    teach(news, 100)
    sums = shadow_of(news, "sure").comparison.sums
    assert np.isfinite(sums.kinds).all() and sums.rounds == 64


def test_no_such_shadow(home):
    news = home(TWO).start().models["news"]
    with pytest.raises(Contradiction, match="no shadow 'x'; there are: sure, plain"):
        news.submit_promote(Promotion(shadow="x"))
    with pytest.raises(Contradiction, match="nobody was promoted"):
        news.submit_promote(Promotion(undo=True))
