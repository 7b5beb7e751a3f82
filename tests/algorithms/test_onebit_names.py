"""Names of labels and what they mean: a head start for OneBit."""

from __future__ import annotations

import numpy as np
import pytest

import onebit as ob
from onebit.algorithms.onebit.records import ODDS, PULL
from onebit.algorithms.onebit.wording import NAME_ARRAYS, PULLS, words_of_name
from onebit.core.jit import COMPILED
from onebit.learner import files
from onebit.testing import LABELS, model_bytes, saved_state, state_bytes

TEXTS = {
    "lost_card": ["my card is lost", "someone has stolen my card", "the lost card was mine"],
    "exchangeRate": ["what is the exchange rate today", "the rate of dollars", "exchange of euros"],
    "pin.blocked": ["my pin does not work", "is the pin blocked", "blocked after a wrong pin"],
}


def played(learner, rounds, scrambled=False):
    """The learner after so many rounds on the texts, and the number of right answers."""
    names, rng, right = list(TEXTS), np.random.default_rng(5), 0
    for _ in range(rounds):
        k = int(rng.integers(3))
        text = TEXTS[names[k]][rng.integers(3)]
        decision = learner.decide(text)
        is_right = decision.label == names[(k + scrambled) % 3]
        learner.learn(decision, right=is_right)
        right += is_right
    return learner, right


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("lost_card", "lost card"),
        ("rec.sport.hockey", "rec sport hockey"),
        ("AddToPlaylist", "Add To Playlist"),
        ("FAQ", "FAQ"),
        ("größteStadt", "größte Stadt"),
        ("a late goal", "a late goal"),
        ("17", ""),
        ("4_2", ""),
    ],
)
def test_names_have_words(name, words):
    assert words_of_name(name) == words


def test_names_are_known_before_the_first_answer():
    learner = ob.OneBit([*TEXTS])
    assert [learner.decide(texts[0]).label for texts in TEXTS.values()] == [*TEXTS]
    assert learner.round == 3 and not learner.has_learned()


def test_descriptions_are_read_with_the_names():
    described = {"A1": "blocked or forgotten pin", "A2": "lost or stolen card", "A3": None}
    learner = ob.OneBit(described)
    assert learner.labels == ["A1", "A2", "A3"]
    assert learner.decide("someone has stolen it").label == "A2"
    assert learner.decide("I have forgotten it").label == "A1"


def test_a_description_may_be_any_context():
    learner = ob.OneBit({"a": {"colour": "red"}, "b": {"colour": "blue"}, "c": ([1], [1.0])})
    assert learner.decide({"colour": "blue", "size": 3.0}).label == "b"


@pytest.mark.parametrize("labels", [3, [0, 1, 2], ["0", "1", "2"], [" 1-1", "2.2", "3"]])
def test_numbers_are_no_names(labels):
    learner = ob.OneBit(labels)
    assert not len(learner.table.state.table)
    assert PULLS not in saved_state(learner)[1]


def test_names_that_help_are_proven_and_names_of_others_are_dropped():
    true, right = played(ob.OneBit([*TEXTS]), 20)
    assert right >= 18
    assert true.table.state.held.names.pull[ODDS] > 2
    false, _ = played(ob.OneBit([*TEXTS]), 20, scrambled=True)
    assert false.table.state.held.names.pull[ODDS] < -5
    _, right = played(false, 40, scrambled=True)
    assert right >= 35


def test_a_described_label_that_is_added_is_found_at_once():
    learner, _ = played(ob.OneBit([*TEXTS]), 30)
    plain = learner.copy()
    learner.add_label("refund", description="money back for a purchase")
    plain.add_label("x9")
    text = "I want my money back"
    assert learner.decide(text).label == "refund"
    known = [learner.probabilities([text])[0, 3], plain.probabilities([text])[0, 3]]
    assert known[0] > 0.5 > known[1]
    learner, _ = played(learner, 5)
    assert learner.decide("is the pin blocked").label == "pin.blocked"


def test_examples_of_a_label_that_is_added_are_taught():
    learner, _ = played(ob.OneBit(3), 0), None
    learner = learner[0]
    learner.teach(["my card is lost", "the exchange rate", "my pin"], [0, 1, 2])
    learner.add_label(examples=["money back for a purchase"])
    assert learner.predict(["I want my money back"]) == 3


def test_a_label_with_false_examples_or_descriptions_is_not_added():
    learner = ob.OneBit(["a", "b"])
    learner.teach(np.eye(2), ["a", "b"])
    before = state_bytes(learner)
    for refused in ({"examples": ["a text"]}, {"examples": "one"}, {"description": 5}):
        with pytest.raises((TypeError, ValueError)):
            learner.add_label("c", **refused)
    assert state_bytes(learner) == before
    learner.add_label("c", examples=[[1.0, 1.0]])
    with pytest.raises(TypeError, match="only OneBit reads descriptions"):
        ob.Banditron(["a", "b"]).add_label("c", description="third")
    with pytest.raises(TypeError, match="only OneBit reads descriptions"):
        ob.Banditron({"a": "first", "b": "second"})
    assert ob.Banditron({"a": None, "b": None}).labels == ["a", "b"]


@pytest.mark.parametrize("description", [3, b"text", ["two", "texts"], {"age": b"3"}])
def test_the_label_is_named_whose_description_cannot_be_read(description):
    learner = ob.OneBit(["refund", "fee"])
    before = state_bytes(learner)
    for refused in (ob.OneBit, lambda labels: learner.add_label("card", description=description)):
        with pytest.raises((TypeError, ValueError), match="the description of 'card': "):
            refused({"refund": None, "card": description})
    assert state_bytes(learner) == before


def test_with_names_saving_and_going_on_equals_never_stopping(tmp_path):
    going, _ = played(ob.OneBit([*TEXTS]), 15)
    going.add_label("refund", description="money back")
    going.save(tmp_path / "m")
    loaded = ob.load(tmp_path / "m")
    assert state_bytes(loaded) == state_bytes(going)
    for learner in (going, loaded):
        played(learner, 15)
    assert state_bytes(loaded) == state_bytes(going)


def test_round_by_round_equals_the_stream_with_names():
    names, rng = list(TEXTS), np.random.default_rng(5)
    texts, y = [], []
    for _ in range(25):
        k = int(rng.integers(3))
        texts.append(TEXTS[names[k]][rng.integers(3)])
        y.append(names[k])
    stream = ob.OneBit(names, dtype="float64")
    ob.simulate(stream, texts, y)
    rounds, _ = played(ob.OneBit(names, dtype="float64"), 25)
    assert model_bytes(stream) == model_bytes(rounds)


def test_what_was_learned_is_forgotten_and_names_are_not():
    learner, _ = played(ob.OneBit([*TEXTS]), 30)
    half = learner.copy()
    half.forget(0.5)
    odds = [model.table.state.held.names.pull[ODDS] for model in (half, learner)]
    assert odds[0] == pytest.approx(odds[1] / 2)
    learner.forget()
    fresh = ob.OneBit([*TEXTS])
    texts = [texts[0] for texts in TEXTS.values()]
    assert not learner.has_learned()
    assert np.array_equal(learner.scores(texts), fresh.scores(texts))
    assert learner.predict(texts).tolist() == [*TEXTS]


def test_dense_rows_have_no_names():
    learner = ob.OneBit([*TEXTS])
    for row in np.eye(3):
        learner.learn(learner.decide(row), right=True)
    assert model_bytes(learner) == model_bytes(learner.copy())
    learner.add_label("refund")
    said_beforehand = ob.OneBit([*TEXTS], inputs="dense", features=3)
    said_beforehand.add_label("refund")
    with pytest.raises(ValueError, match="not a text"):
        said_beforehand.add_label("fee", description="what a card costs")


def test_where_labels_are_right_by_themselves_names_are_not_trusted():
    learner = ob.OneBit([*TEXTS], exclusive=False)
    assert learner.one_right == 0.0
    played(learner, 10)


def test_a_forged_name_is_refused():
    head, arrays = saved_state(played(ob.OneBit([*TEXTS]), 5)[0])
    files.restore(head, arrays, is_foreign=True)
    for name in (*NAME_ARRAYS, PULLS):
        without = {key: array for key, array in arrays.items() if key != name}
        with pytest.raises(ValueError, match="do not fit"):
            files.restore(head, without, is_foreign=True)
    for name, change in (
        ("name_places", arrays["name_places"] + np.uint32(10**6)),
        ("name_places", arrays["name_places"][::-1].copy()),
        ("name_labels", arrays["name_labels"] + 3),
        ("name_values", arrays["name_values"][1:]),
    ):
        with pytest.raises(ValueError, match="do not fit"):
            files.restore(head, arrays | {name: change}, is_foreign=True)
    for name, change in ((PULLS, -arrays[PULLS]), ("name_values", -arrays["name_values"])):
        with pytest.raises(ValueError, match="cannot have learned"):
            files.restore(head, arrays | {name: change}, is_foreign=True)


def test_a_file_of_a_version_without_names_goes_on_without():
    learner, _ = played(ob.OneBit([*TEXTS]), 0)
    head, _ = saved_state(learner)
    _, arrays = saved_state(played(ob.OneBit(3), 0)[0])
    restored = files.restore(head, arrays, is_foreign=True)
    assert restored.labels == [*TEXTS] and PULLS not in saved_state(restored)[1]


@pytest.mark.skipif(not COMPILED, reason="compiled code against plain Python")
def test_compiled_names_equal_plain_ones():
    from onebit.testing import assert_compiled_equals_plain

    pairs = {k: ([*range(k, 12, LABELS)], [1.0] * len(range(k, 12, LABELS))) for k in range(LABELS)}
    learner = ob.OneBit(pairs, inputs="sparse", dtype="float64")
    assert learner.table.state.held.names.pull[PULL] > 0
    assert_compiled_equals_plain([learner])
